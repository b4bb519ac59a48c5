/*
 * What a candidate of a plan is likely to cost, and how good it can be at best, from its strategy alone.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>

#include "lib/accountants/least_noise.h"
#include "lib/error.h"
#include "lib/sampling/sampling.h"
#include "lib/setting.h"

static enum eps_status too_costly(struct eps_error *error, double operations, double max_operations)
{
    eps__error(
        error, EPS_TOO_COSTLY, "",
        "the accountants that amplify it take about %.2g operations and more, and a plan spends at most %.2g on a "
        "candidate: post its job for an answer",
        operations, max_operations);
    if (error)
        error->operations = operations;
    return EPS_TOO_COSTLY;
}

/* All that serve, where they fit together; else the first of those that amplify, or of all where none does, that fits. */
static enum eps_status choose(struct eps_plan_weight *weight, struct eps_error *error, struct eps_job *job,
                              const struct eps__setting *setting, double max_operations)
{
    const struct eps__accountant *serving[EPS__ACCOUNTANTS_MAX];
    size_t len = eps__setting_accountants(setting, serving, error);
    double total = 0, operations, bytes, least = INFINITY;
    bool amplified = false;
    if (len == 0)
        return EPS_UNSUPPORTED;
    for (size_t i = 0; i < len; i++) {
        serving[i]->cost(setting, &operations, &bytes);
        total += operations;
        amplified |= serving[i]->amplifies;
    }
    weight->operations = total;
    if (total <= max_operations)
        return EPS_OK;
    for (size_t i = 0; i < len; i++) {
        if (amplified && !serving[i]->amplifies)
            continue;
        serving[i]->cost(setting, &operations, &bytes);
        least = fmin(least, operations);
        if (operations > max_operations)
            continue;
        job->query.accountant.method = serving[i]->method;
        weight->operations = operations;
        return EPS_OK;
    }
    return too_costly(error, least, max_operations);
}

/* The error at noise 1. */
static enum eps_status measure(struct eps_plan_weight *weight, struct eps_error *error,
                               const struct eps__setting *setting, enum eps_objective objective)
{
    double mean, max, last;
    enum eps_status status =
        eps__strategy_error(setting->context, setting->strategy, &setting->job->mechanism, &mean, &max, &last);
    if (status != EPS_OK)
        return eps__error(error, status, "", "the error figures were not finished");
    weight->error = objective == EPS_OBJECTIVE_MAX_SQUARED ? max : mean;
    if (!isfinite(max) || !isfinite(mean))
        return eps__error(error, EPS_UNSUPPORTED, "/matrix", "its error is not defined, or more than doubles hold");
    return EPS_OK;
}

enum eps_status eps_plan_weigh(const struct eps_context *context, struct eps_plan_weight *weight,
                               struct eps_error *error, struct eps_job *job, enum eps_objective objective,
                               double max_operations)
{
    struct eps__setting setting;
    struct eps_plan_weight found = {.operations = 0};
    double sigma = 0;
    enum eps_status status = eps__setting_open(&setting, error, context, job);
    if (status != EPS_OK)
        return status;
    status = measure(&found, error, &setting, objective);
    if (status == EPS_OK)
        status = choose(&found, error, job, &setting, max_operations);
    if (status == EPS_OK) {
        status = eps__least_noise(&sigma, &setting);
        if (status != EPS_OK)
            eps__error(error, status, "", "the plan was not made");
    }
    if (status == EPS_OK) {
        found.least = eps__lower(found.error * sigma * sigma, 8);
        *weight = found;
    }
    eps__setting_close(&setting);
    return status;
}
