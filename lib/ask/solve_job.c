/*
 * The public functions that solve jobs. A job is one mechanism, a training of phases, or one mechanism whose largest
 * number of steps is asked for.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>

#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/base/progress.h"
#include "lib/sampling/sampling.h"
#include "lib/solve/answer.h"
#include "lib/solve/curve.h"
#include "lib/solve/solve.h"
#include "lib/training/solve_phases.h"
#include "lib/tuned/tuned.h"

static enum eps_status check(struct eps_error *error, const struct eps_job *job)
{
    struct eps__first_violation first = {error, false};
    return eps_job_check(job, 0, eps__keep_first, &first) > 0 ? EPS_INVALID : EPS_OK;
}

/* ------------------------------------------------------------ strategies optimised for the job */

#define TUNED_SHARE 0.9 /* of progress: the search opens many times the profiles that the proof of its answer does */

static enum eps_status tuned_serves(const struct eps_context *context, struct eps_error *error,
                                    const struct eps_job *job, double *operations, double *bytes)
{
    double proof = 0, largest = 0, search = 0;
    enum eps_status status = eps__mechanism_serves(context, error, job, &proof, &largest);
    if (status == EPS_OK)
        status = eps__tuned_cost(context, &search, error, job);
    if (status == EPS_OK)
        status = eps__within_limits(context, error, "/matrix/optimize_for",
                                    "optimising for the job and solving it need", proof + search, largest);
    if (status == EPS_OK && operations)
        *operations = proof + search;
    if (status == EPS_OK && bytes)
        *bytes = largest;
    return status;
}

/* Optimises the strategy, and solves the job with the strategy given. */
static enum eps_status solve_tuned(const struct eps_context *context, struct eps_result **result,
                                   struct eps_error *error, const struct eps_job *job)
{
    struct eps__context_part searching, proving;
    struct eps__tuned tuned;
    enum eps_status status = tuned_serves(context, error, job, NULL, NULL);
    if (status == EPS_OK)
        status = eps__tune(eps__context_part(&searching, context, 0, TUNED_SHARE), &tuned, error, job);
    if (status != EPS_OK)
        return status;
    status =
        eps__mechanism_solve(eps__context_part(&proving, context, TUNED_SHARE, 1), result, error, &tuned.job, NULL);
    if (status == EPS_OK) {
        (*result)->iterations = tuned.iterations;
        (*result)->cache_factorization = tuned.cache_state;
    }
    eps__tuned_clear(&tuned);
    return status;
}

/* ------------------------------------------------------------ what serves */

/* The job with n steps, solving for epsilon. */
static struct eps_job with_steps(const struct eps_job *job, size_t n)
{
    struct eps_job own = *job;
    own.mechanism.n = n;
    own.query.epsilon = NAN;
    return own;
}

enum eps_status eps_job_serves(const struct eps_context *context, struct eps_error *error, const struct eps_job *job,
                               double *operations, double *bytes)
{
    bool steps = eps_job_unknown(job) == EPS_SOLVE_N;
    if (!steps && job->phases_len == 0)
        return eps__is_tuned(job) ? tuned_serves(context, error, job, operations, bytes)
                                  : eps__mechanism_serves(context, error, job, operations, bytes);
    enum eps_status status = check(error, job);
    if (status != EPS_OK || !steps)
        return status == EPS_OK ? eps__phases_serve(context, error, job, operations, bytes) : status;
    struct eps_job own = with_steps(job, eps__sampling_groups(&job->mechanism));
    return eps__mechanism_serves(context, error, &own, operations, bytes);
}

/* ------------------------------------------------------------ how many steps */

#define STEPS_LIMIT (UINT64_C(1) << 24) /* the same as for a job that gives n */

struct steps {
    const struct eps_context *context;
    struct eps_job job; /* with a number of steps, solving for epsilon */
    size_t groups;      /* steps of one round */
    struct eps__setting setting;
    const struct eps__accountant *accountants[EPS__ACCOUNTANTS_MAX];
};

static enum eps_status at_rounds(void *user, uint64_t rounds, const struct eps__setting **setting,
                                 const struct eps__accountant *const **accountants, size_t *len,
                                 struct eps_error *error)
{
    struct steps *steps = user;
    size_t kept = 0;
    eps__setting_close(&steps->setting);
    steps->job.mechanism.n = (size_t)rounds * steps->groups;
    enum eps_status status = eps__setting_open(&steps->setting, error, steps->context, &steps->job);
    if (status != EPS_OK)
        return status;
    *len = eps__setting_accountants(&steps->setting, steps->accountants, error);
    for (size_t i = 0; i < *len; i++)
        if (steps->accountants[i]->open)
            steps->accountants[kept++] = steps->accountants[i];
    *setting = &steps->setting;
    *accountants = steps->accountants;
    if (*len > 0 && kept == 0)
        return eps__error(error, EPS_UNSUPPORTED, "/accountant/method",
                          "the largest n cannot be found by sampling; use auto, gaussian, pld, mmcc or renyi");
    *len = kept;
    return kept > 0 ? EPS_OK : EPS_UNSUPPORTED;
}

/* Finds the largest number of rounds in each direction. */
static enum eps_status search_rounds(const struct eps_context *context, struct eps_error *error,
                                     const struct eps_job *job, size_t groups,
                                     struct eps__largest_answer found[EPS_DIRECTIONS])
{
    struct steps steps = {.context = context, .job = with_steps(job, groups), .groups = groups};
    const struct eps__largest_question question = {.context = context,
                                                   .query = &job->query,
                                                   .limit = STEPS_LIMIT / groups,
                                                   .alone = true,
                                                   .user = &steps,
                                                   .at = at_rounds};
    enum eps_status status = eps__largest(found, error, &question);
    eps__setting_close(&steps.setting);
    return status;
}

static enum eps_status solve_steps(const struct eps_context *context, struct eps_result **result,
                                   struct eps_error *error, const struct eps_job *job)
{
    struct eps__largest_answer found[EPS_DIRECTIONS];
    struct eps_result *made = NULL;
    enum eps_status status =
        eps_job_serves(context, error, job, NULL, NULL); /* checked even if not a single round satisfies the target */
    size_t groups = eps__sampling_groups(&job->mechanism);
    if (status == EPS_OK)
        status = search_rounds(context, error, job, groups, found);
    if (status != EPS_OK)
        return status;
    uint64_t remove = found[EPS_REMOVE].least, add = found[EPS_ADD].least, least = add < remove ? add : remove;
    struct eps_job own = with_steps(job, (size_t)least * groups);
    status = least > 0
                 ? eps__mechanism_solve(context, &made, error, &own, &(struct eps__occasion){.proven_alone = true})
                 : eps__result_create(&made, error, job);
    if (status != EPS_OK)
        return status;
    enum eps_accountant accountants[EPS_DIRECTIONS];
    for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++)
        accountants[d] = found[d].accountant ? found[d].accountant->method : EPS_ACCOUNTANT_AUTO;
    made->solved_for = EPS_SOLVE_N;
    made->epsilon = job->query.epsilon;
    made->candidates_len = 0;
    eps__result_largest(made, found, accountants, groups);
    struct eps__sentences hints = {&made->hints, &made->hints_len, false};
    if (least == STEPS_LIMIT / groups)
        eps__sentence(&hints, "at most %llu steps are tried; more may satisfy this epsilon and delta",
                      (unsigned long long)STEPS_LIMIT);
    if (hints.failed) {
        eps_result_destroy(made);
        return eps__error(error, EPS_NO_MEMORY, "", "out of memory");
    }
    *result = made;
    return EPS_OK;
}

/* ------------------------------------------------------------ the answers */

enum eps_status eps_solve(const struct eps_context *context, struct eps_result **result, struct eps_error *error,
                          const struct eps_job *job)
{
    bool steps = eps_job_unknown(job) == EPS_SOLVE_N;
    if (!steps && job->phases_len == 0)
        return eps__is_tuned(job) ? solve_tuned(context, result, error, job)
                                  : eps__mechanism_solve(context, result, error, job, NULL);
    enum eps_status status = check(error, job);
    if (status != EPS_OK)
        return status;
    return steps ? solve_steps(context, result, error, job) : eps__phases_solve(context, result, error, job);
}

static enum eps_status given_curve(const struct eps_context *context, struct eps_curve_point **points, size_t *len,
                                   struct eps_error *error, const struct eps_job *job, double noise_multiplier)
{
    struct eps__setting setting;
    const struct eps__accountant *accountants[EPS__ACCOUNTANTS_MAX];
    enum eps_status status = eps__setting_open(&setting, error, context, job);
    if (status != EPS_OK)
        return status;
    size_t accountants_len = eps__setting_accountants(&setting, accountants, error);
    status = accountants_len
                 ? eps__curve_points(points, len, error, &setting, accountants, accountants_len, noise_multiplier)
                 : EPS_UNSUPPORTED;
    eps__setting_close(&setting);
    return status;
}

static enum eps_status mechanism_curve(const struct eps_context *context, struct eps_curve_point **points, size_t *len,
                                       struct eps_error *error, const struct eps_job *job, double noise_multiplier)
{
    struct eps__tuned tuned;
    if (!eps__is_tuned(job))
        return given_curve(context, points, len, error, job, noise_multiplier);
    enum eps_status status = check(error, job);
    if (status == EPS_OK)
        status = eps__tune(context, &tuned, error, job);
    if (status != EPS_OK)
        return status;
    status = given_curve(context, points, len, error, &tuned.job, noise_multiplier);
    eps__tuned_clear(&tuned);
    return status;
}

enum eps_status eps_privacy_curve(const struct eps_context *context, struct eps_curve_point **points, size_t *len,
                                  struct eps_error *error, const struct eps_job *job, double noise_multiplier)
{
    if (!(noise_multiplier > 0) || isinf(noise_multiplier))
        return eps__error(error, EPS_UNATTAINABLE, "/noise_multiplier", "there is no privacy curve without noise");
    bool steps = eps_job_unknown(job) == EPS_SOLVE_N;
    if (!steps && job->phases_len == 0)
        return mechanism_curve(context, points, len, error, job, noise_multiplier);
    enum eps_status status = check(error, job);
    if (status != EPS_OK || !steps)
        return status == EPS_OK ? eps__phases_curve(context, points, len, error, job, noise_multiplier) : status;
    struct eps_result *found = NULL;
    status = solve_steps(context, &found, error, job);
    if (status != EPS_OK)
        return status;
    struct eps_job own = with_steps(job, found->largest);
    status = found->largest > 0
                 ? mechanism_curve(context, points, len, error, &own, noise_multiplier)
                 : eps__error(error, EPS_UNATTAINABLE, "/n",
                              "there is no privacy curve for 0 steps; raise epsilon, delta or the noise multiplier");
    eps_result_destroy(found);
    return status;
}
