/*
 * An accountant for tests/check_toys.py that solves by itself, without a profile: a delta of 1 is always true, and it gives it
 * as an estimate that was verified.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>

#include "lib/accountants/accountant.h"
#include "lib/error.h"

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
                             enum eps_direction direction)
{
    (void)error;
    (void)setting;
    (void)direction;
    *answer = (struct eps__answer){.value = 1, .bad_event_share = NAN};
    return EPS_OK;
}

const struct eps__accountant eps__accountant_toy_certain = {
    .method = EPS_ACCOUNTANT_TOY_CERTAIN,
    .name = "toy_certain",
    .tuning = 1u << EPS_TUNING_TOLERANCE,
    .guarantee = EPS_GUARANTEE_ESTIMATE_VERIFY_RELEASE,
    .serves = serves,
    .exact = exact,
    .cost = cost,
    .solve = solve,
};
