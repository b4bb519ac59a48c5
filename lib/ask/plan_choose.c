/*
 * Whether accountants serve a job and at what cost depends only on the shape of its strategy: bands, kind, and sign of
 * the entries. No strategy of a plan is computed to find out: a Toeplitz matrix with as many bands, which is quick,
 * takes its place.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/ask/plan_choose.h"

#include <math.h>

#include "lib/base/error.h"
#include "lib/job/setting.h"
#include "lib/sampling/sampling.h"
#include "lib/strategy/kinds/kinds.h"
#include "lib/strategy/making.h"

#define QUICK_TOLERANCE 0.01 /* tuning of the quick way: tolerance */
#define QUICK_SHARE 0.3      /* and delta_1/delta */
#define THRIFT 8             /* if there is a quick way, others may take only 1/THRIFT of the allowed operations */

/* The job with a quick strategy of the same shape, if its own is expensive. */
static struct eps_job stand_in(const struct eps_job *job)
{
    struct eps_job other = *job;
    struct eps__forecast c = eps__strategy_forecast(&job->mechanism);
    if (c.kind == &eps__strategy_toeplitz && c.bands > 1)
        other.mechanism = eps__strategy_stand_in(&job->mechanism);
    return other;
}

enum eps_status eps__plan_serves(const struct eps_context *context, struct eps_error *error, const struct eps_job *job)
{
    struct eps_job other = stand_in(job);
    enum eps_status status = eps__strategy_check_cost(context, error, &job->mechanism);
    return status == EPS_OK ? eps_job_serves(context, error, &other, NULL, NULL) : status;
}

/* Whether `auto` runs an accountant that is exact or whose pairs the mechanism attains, so that no draws show a smaller
 * answer, and none are estimated. */
static enum eps_status is_exact(bool *exact, const struct eps_context *context, struct eps_error *error,
                                const struct eps_job *job)
{
    const struct eps__accountant *serving[EPS__ACCOUNTANTS_MAX];
    struct eps_job other = stand_in(job);
    struct eps__setting setting;
    other.query.accountant.method = EPS_ACCOUNTANT_AUTO;
    enum eps_status status = eps__setting_probe(&setting, error, context, &other);
    if (status != EPS_OK)
        return status;
    size_t len = eps__setting_accountants(&setting, serving, error);
    for (size_t i = 0; i < len; i++)
        *exact |= serving[i]->exact(&setting) || (serving[i]->attained && serving[i]->attained(&setting));
    eps__setting_close(&setting);
    return EPS_OK;
}

enum eps_status eps__plan_verifiable(const struct eps_context *context, struct eps_error *error,
                                     const struct eps_job *job)
{
    struct eps_job drawn = *job;
    bool exact = false;
    eps_plan_verification(&drawn, 1);
    enum eps_status status = eps__plan_serves(context, error, &drawn);
    if (status == EPS_OK)
        status = is_exact(&exact, context, error, job);
    if (status == EPS_OK && exact)
        status = eps__error(error, EPS_UNSUPPORTED, "", "what is proven is exact");
    return status;
}

static enum eps_status too_costly(struct eps_error *error, double operations, double max_operations)
{
    eps__error(error, EPS_TOO_COSTLY, "",
               "accounting takes about %.2g operations, and a plan spends at most %.2g on a candidate: post its job "
               "for an answer, or plan with fewer schemes and families",
               operations, max_operations);
    if (error)
        error->operations = operations;
    return EPS_TOO_COSTLY;
}

/* Tuning with which bounds with bad events are cheap. The noise is a few thousandths above the optimum. */
static struct eps_tuning quick_tuning(const struct eps_tuning *tuning)
{
    struct eps_tuning quick = *tuning;
    quick.tolerance = fmax(quick.tolerance, QUICK_TOLERANCE);
    quick.bad_event_share = QUICK_SHARE;
    quick.given |= 1u << EPS_TUNING_TOLERANCE | 1u << EPS_TUNING_BAD_EVENT_SHARE;
    return quick;
}

/* A way to account for a job. */
struct way {
    const struct eps__accountant *only; /* NULL: `auto` */
    bool quick;
};

/* Estimates the operations of a way. job: that of the setting. Accountants that do not amplify cost almost nothing. */
static double cost_of(const struct way *way, const struct eps__setting *setting, struct eps_job *job,
                      const struct eps__accountant *const *serving, size_t len)
{
    const struct eps_tuning plain = job->query.accountant;
    double total = 0, operations, bytes;
    if (way->quick)
        job->query.accountant = quick_tuning(&plain);
    for (size_t i = 0; i < len; i++)
        if (!way->only || way->only == serving[i]) {
            serving[i]->cost(setting, &operations, &bytes);
            total += operations;
        }
    job->query.accountant = plain;
    return total;
}

/* Whether it is an accountant that is exact elsewhere, but not here: others are likely to be better. */
static bool is_loose(const struct eps__accountant *accountant, const struct eps__setting *setting)
{
    return accountant->tight && !accountant->tight(setting);
}

/* Lists the ways: auto, then each amplifying accountant, loose ones last; each also the quick way if that saves
 * operations. */
static size_t ways_of(struct way *ways, const struct eps__accountant *const *serving, size_t len,
                      const struct eps__setting *setting, bool saves)
{
    size_t ways_len = 0;
    for (int quick = 0; quick <= saves; quick++)
        ways[ways_len++] = (struct way){NULL, quick};
    for (int loose = 0; loose <= 1; loose++)
        for (int quick = 0; quick <= saves; quick++)
            for (size_t i = 0; i < len; i++)
                if (serving[i]->amplifies && (!quick || eps__accountant_spends(serving[i])) &&
                    is_loose(serving[i], setting) == loose)
                    ways[ways_len++] = (struct way){serving[i], quick};
    return ways_len;
}

/* Chooses the first way that is cheap enough and applies it to *job. asked: the job of the setting. */
static enum eps_status choose(double *takes, struct eps_error *error, struct eps_job *job,
                              const struct eps__setting *setting, struct eps_job *asked, double max_operations)
{
    const struct eps__accountant *serving[EPS__ACCOUNTANTS_MAX];
    struct way ways[2 + 2 * EPS__ACCOUNTANTS_MAX];
    size_t len = eps__setting_accountants(setting, serving, error);
    double least = INFINITY;
    if (len == 0)
        return EPS_UNSUPPORTED;
    const struct way plain = {NULL, false}, quick = {NULL, true};
    bool saves = cost_of(&quick, setting, asked, serving, len) < cost_of(&plain, setting, asked, serving, len) / 2;
    size_t ways_len = ways_of(ways, serving, len, setting, saves);
    for (size_t i = 0; i < ways_len; i++) {
        double operations = cost_of(&ways[i], setting, asked, serving, len);
        bool thrifty = saves && !ways[i].quick && (!ways[i].only || eps__accountant_spends(ways[i].only));
        least = fmin(least, operations);
        if (operations > (thrifty ? max_operations / THRIFT : max_operations))
            continue;
        if (ways[i].only)
            job->query.accountant.method = ways[i].only->method;
        if (ways[i].quick)
            job->query.accountant = quick_tuning(&job->query.accountant);
        *takes = operations;
        return EPS_OK;
    }
    return too_costly(error, least, max_operations);
}

enum eps_status eps__plan_choose(const struct eps_context *context, double *operations, struct eps_error *error,
                                 struct eps_job *job, double max_operations)
{
    struct eps_job other = stand_in(job);
    struct eps__setting setting;
    *operations = 0;
    if (!eps__sampling_random(&job->mechanism)) /* the Gaussian accountant: one formula */
        return EPS_OK;
    enum eps_status status = eps__setting_probe(&setting, error, context, &other);
    if (status != EPS_OK)
        return status;
    struct eps_job own = *setting.job;
    setting.job = &own;
    status = choose(operations, error, job, &setting, &own, max_operations);
    eps__setting_close(&setting);
    return status;
}
