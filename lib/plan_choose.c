/*
 * Accountants serve and cost by the shape of a strategy: its bands, its kind, that no entry is negative. An optimiser is not run
 * to ask them: a Toeplitz matrix of as many bands, which is there at once, stands for the one that it would find.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/plan_choose.h"

#include <math.h>

#include "lib/error.h"
#include "lib/sampling/sampling.h"
#include "lib/setting.h"
#include "lib/strategy/families/family.h"
#include "lib/strategy/kinds/kinds.h"
#include "lib/strategy/making.h"

/* The job with a strategy of the same shape, if it is one that takes long. */
static struct eps_job stand_in(const struct eps_job *job)
{
    struct eps_job other = *job;
    struct eps_job plain;
    struct eps__forecast c = eps__strategy_forecast(&job->mechanism);
    if (c.kind != &eps__strategy_toeplitz || c.bands <= 1)
        return other;
    eps_job_init(&plain);
    other.mechanism.workload = plain.mechanism.workload;
    other.mechanism.matrix = eps__matrix_of_bands((size_t)c.bands);
    return other;
}

enum eps_status eps__plan_serves(const struct eps_context *context, struct eps_error *error, const struct eps_job *job)
{
    struct eps_job other = stand_in(job);
    enum eps_status status = eps__strategy_check_cost(context, error, &job->mechanism);
    return status == EPS_OK ? eps_job_serves(context, error, &other, NULL, NULL) : status;
}

static enum eps_status too_costly(struct eps_error *error, double operations, double max_operations)
{
    eps__error(
        error, EPS_TOO_COSTLY, "",
        "its accounting takes about %.2g operations, and a plan spends at most %.2g on a candidate: post its job "
        "for an answer, or plan with fewer schemes and families",
        operations, max_operations);
    if (error)
        error->operations = operations;
    return EPS_TOO_COSTLY;
}

static enum eps_status choose(struct eps_error *error, struct eps_job *job, const struct eps__setting *setting,
                              double max_operations)
{
    const struct eps__accountant *serving[EPS__ACCOUNTANTS_MAX];
    size_t len = eps__setting_accountants(setting, serving, error);
    double total = 0, operations, bytes, least = INFINITY;
    if (len == 0)
        return EPS_UNSUPPORTED;
    for (size_t i = 0; i < len; i++) {
        serving[i]->cost(setting, &operations, &bytes);
        total += operations;
    }
    if (total <= max_operations)
        return EPS_OK;
    for (size_t i = 0; i < len; i++) {
        if (!serving[i]->amplifies)
            continue;
        serving[i]->cost(setting, &operations, &bytes);
        least = fmin(least, operations);
        if (operations > max_operations)
            continue;
        job->query.accountant.method = serving[i]->method;
        return EPS_OK;
    }
    return too_costly(error, isfinite(least) ? least : total, max_operations);
}

enum eps_status eps__plan_choose(const struct eps_context *context, struct eps_error *error, struct eps_job *job,
                                 double max_operations)
{
    struct eps_job other = stand_in(job);
    struct eps__setting setting;
    if (!eps__sampling_random(&job->mechanism)) /* one formula */
        return EPS_OK;
    enum eps_status status = eps__setting_probe(&setting, error, context, &other);
    if (status != EPS_OK || !setting.strategy)
        return status;
    status = choose(error, job, &setting, max_operations);
    eps__setting_close(&setting);
    return status;
}
