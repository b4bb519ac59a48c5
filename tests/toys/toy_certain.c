/*
 * An accountant for tests/check_toys.py that solves by itself, without a profile: half of what the others have
 * proven, given as an estimate that was verified.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>

#include "lib/accountants/accountant.h"
#include "lib/base/error.h"

static bool serves(const struct eps__setting *setting, struct eps_error *error)
{
    return eps_job_unknown(setting->job) == EPS_SOLVE_DELTA ||
           eps__decline(error, "/accountant", "the toy finds deltas only");
}

static bool exact(const struct eps__setting *setting)
{
    (void)setting;
    return false;
}

static void cost(const struct eps__setting *setting, double *operations, double *bytes)
{
    (void)setting;
    *operations = *bytes = 1e3;
}

static enum eps_status solve(struct eps__answer *answer, struct eps_error *error, const struct eps__setting *setting,
                             enum eps_direction direction, const struct eps__proven *proven)
{
    (void)error;
    (void)setting;
    (void)direction;
    *answer = (struct eps__answer){
        .value = proven->value / 2, .bad_event_share = NAN, .guarantee = EPS_GUARANTEE_ESTIMATE_VERIFY_RELEASE};
    return EPS_OK;
}

const struct eps__accountant eps__accountant_toy_certain = {
    .method = EPS_ACCOUNTANT_TOY_CERTAIN,
    .name = "toy_certain",
    .serves = serves,
    .exact = exact,
    .cost = cost,
    .solve = solve,
};
