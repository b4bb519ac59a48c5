/*
 * A lower bound on the error of a plan's candidate, from its strategy alone.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>

#include "lib/accountants/least.h"
#include "lib/base/error.h"
#include "lib/job/setting.h"
#include "lib/tuned/tuned.h"

/* The error at noise multiplier 1. */
static enum eps_status measure(double *found, struct eps_error *error, const struct eps__setting *setting,
                               enum eps_objective objective)
{
    double mean, max, last;
    enum eps_status status =
        eps__strategy_error(setting->context, setting->strategy, &setting->job->mechanism, &mean, &max, &last);
    if (status != EPS_OK)
        return eps__error(error, status, "", "the error figures were not computed");
    if (!isfinite(max) || !isfinite(mean))
        return eps__error(error, EPS_UNSUPPORTED, "/matrix", "the error is undefined, or too large for a double");
    *found = objective == EPS_OBJECTIVE_MAX_SQUARED ? max : mean;
    return EPS_OK;
}

static enum eps_status given_least(const struct eps_context *context, double *least, struct eps_error *error,
                                   const struct eps_job *job, enum eps_objective objective)
{
    struct eps__setting setting;
    double sigma = 0, found = 0;
    enum eps_status status = eps__setting_open(&setting, error, context, job);
    if (status != EPS_OK)
        return status;
    status = measure(&found, error, &setting, objective);
    if (status == EPS_OK) {
        status = eps__least_noise(&sigma, &setting);
        if (status != EPS_OK)
            eps__error(error, status, "", status == EPS_NO_MEMORY ? "out of memory" : "the bound did not finish");
    }
    if (status == EPS_OK)
        *least = eps__lower(found * sigma * sigma, 8);
    eps__setting_close(&setting);
    return status;
}

enum eps_status eps_plan_least(const struct eps_context *context, double *least, struct eps_error *error,
                               const struct eps_job *job, enum eps_objective objective)
{
    struct eps__tuned tuned;
    if (!eps__is_tuned(job))
        return given_least(context, least, error, job, objective);
    enum eps_status status = eps__tune(context, &tuned, error, job);
    if (status != EPS_OK)
        return status;
    status = given_least(context, least, error, &tuned.job, objective);
    eps__tuned_clear(&tuned);
    return status;
}
