/*
 * What each phase of a training costs: its epsilon on its own, and its share of the epsilon of the whole training.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/training/each_phase.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/limits.h"
#include "lib/base/progress.h"
#include "lib/numerics/normal.h"
#include "lib/solve/solve.h"
#include "lib/training/whole.h"

#define SHARE_TOLERANCE 1e-3 /* least tolerance of epsilon without one phase */
#define GUESS_CLOSE 5e-3     /* relative error of epsilon with which approximations give shares */
#define GUESS_MOST 0.1       /* the largest such share */
#define MANY_TOLERANCE 1e-2  /* least tolerance of single phases, if there are many */

enum {
    SEVERAL = 9, /* with fewer phases, most shares are large: all are searched for */
    FEW = 16     /* with more, shares are estimated as for Gaussians, and single phases are solved roughly */
};

/* ------------------------------------------------------------ every phase alone */

/* Adds the assumptions of the composed accountants, which may differ from those of the phase's own answer. */
static bool assume_composed(struct eps_result *alone, const struct eps__phase *phase)
{
    char **said = NULL;
    size_t said_len = 0;
    struct eps__sentences own = {&said, &said_len, false}, all = {&alone->assumptions, &alone->assumptions_len, false};
    for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++)
        if (phase->accountants[d]->assume)
            phase->accountants[d]->assume(&own, &phase->setting, alone);
    for (size_t i = 0; i < said_len; i++) {
        bool known = false;
        for (size_t k = 0; k < alone->assumptions_len; k++)
            known = known || strcmp(alone->assumptions[k], said[i]) == 0;
        if (!known)
            eps__sentence(&all, "%s", said[i]);
        free(said[i]);
    }
    free(said);
    return !own.failed && !all.failed;
}

/* Solves all runs of one phase for epsilon at delta: the mechanism's own answer or, if there are several runs, that
 * of their composition. */
static enum eps_status solve_alone(const struct eps_context *context, struct eps_result **alone,
                                   struct eps_error *error, const struct eps__training *training,
                                   const struct eps__phase *phase, double noise_multiplier, double delta)
{
    struct eps_phase one = training->job->phases[phase->first];
    struct eps_job job = {
        .mechanism = training->job->mechanism, .phases = &one, .phases_len = 1, .query = training->job->query};
    job.query.epsilon = NAN;
    job.query.delta = delta;
    job.query.noise_multiplier = noise_multiplier;
    job.query.curve = false;
    bool many = training->len > FEW;
    if (many)
        job.query.accountant.tolerance = fmax(job.query.accountant.tolerance, MANY_TOLERANCE);
    one.count = phase->count;
    struct eps_job own = eps__phase_job(&job, &one);
    struct eps__training *runs = NULL;
    const struct eps__occasion occasion = {.upper_alone = true, .of_phases = true};
    enum eps_status status = eps__mechanism_solve(context, alone, error, &own, &occasion);
    if (status != EPS_OK || one.count == 1)
        return status == EPS_OK ? status : eps__phase_error(error, phase, status);
    struct eps_result *result = *alone;
    struct eps__cache_use cache_use = {0};
    free(result->candidates);
    result->candidates = NULL;
    result->candidates_len = 0;
    status = eps__training_open(&runs, error, context, &job, false);
    if (status == EPS_OK)
        status = eps__whole_solve(result, error, runs, &cache_use, true);
    if (status == EPS_OK && !assume_composed(result, &runs->phases[0]))
        status = eps__error(error, EPS_NO_MEMORY, "", "out of memory");
    eps__training_close(runs);
    if (status != EPS_OK) {
        eps_result_destroy(result);
        *alone = NULL;
    }
    return status;
}

/* ------------------------------------------------------------ the shares */

enum { HALVINGS = 24 }; /* of an interval, for a share to about 1e-7 */

/* The shift between two unit Gaussians that have this epsilon at ln delta. */
static double gaussian_shift(double epsilon, double log_delta)
{
    double low = 0, high = 1, error;
    while (high < 1e6 && eps__gaussian_log_delta(high, epsilon, &error) < log_delta)
        high *= 2;
    for (int i = 0; i < HALVINGS; i++) {
        double middle = 0.5 * (low + high);
        *(eps__gaussian_log_delta(middle, epsilon, &error) < log_delta ? &low : &high) = middle;
    }
    return high;
}

/* The epsilon of a shift at ln delta. */
static double gaussian_epsilon(double shift, double log_delta)
{
    double low = 0, high = 1, error;
    if (!(shift > 0) || eps__gaussian_log_delta(shift, 0, &error) <= log_delta)
        return 0;
    while (high < EPS__EPSILON_MOST && eps__gaussian_log_delta(shift, high, &error) > log_delta)
        high *= 2;
    for (int i = 0; i < HALVINGS; i++) {
        double middle = 0.5 * (low + high);
        *(eps__gaussian_log_delta(shift, middle, &error) > log_delta ? &low : &high) = middle;
    }
    return high;
}

/* Estimates the shares of many phases as if each were a Gaussian with the phase's epsilon: squared shifts add up,
 * and are scaled to the epsilon of the whole training. In: the shift of each. */
static void shares_of_gaussians(double *shares, size_t len, double whole, double log_delta)
{
    double sum = 0, total = gaussian_shift(whole, log_delta);
    for (size_t k = 0; k < len; k++)
        sum += shares[k] * shares[k];
    for (size_t k = 0; k < len; k++) {
        double left = sum > 0 ? fmax(1 - shares[k] * shares[k] / sum, 0) : 1;
        shares[k] = fmin(fmax(1 - gaussian_epsilon(total * sqrt(left), log_delta) / whole, 0), 1);
    }
}

static double share_of(double without, double whole)
{
    return whole > 0 ? fmin(fmax(1 - without / whole, 0), 1) : NAN;
}

/* Computes epsilon without a phase: approximately if `guess`, an approximation of that of the whole, or NAN, is close
 * to `whole` and the share of the phase is small; else by a search. Errors of approximations then cancel. */
static enum eps_status leave_out(double *without, double whole, double guess, struct eps__training *training,
                                 struct eps__phase *phase, const struct eps_query *query, struct eps_error *error)
{
    double rest;
    if (fabs(guess - whole) <= GUESS_CLOSE * whole) {
        enum eps_status status = eps__whole_guess(&rest, error, training, phase, query);
        if (status != EPS_OK)
            return status;
        *without = whole * rest / guess;
        if (share_of(*without, whole) < GUESS_MOST)
            return EPS_OK;
    }
    return eps__whole_epsilon(without, error, training, phase, query, true);
}

/* Computes shares by leaving out each phase in turn. The accountants are chosen once for all of these. */
static enum eps_status shares_left_out(const struct eps_result *result, double *shares, struct eps__training *training,
                                       const struct eps_query *query, struct eps__meter *meter, struct eps_error *error)
{
    double whole, guess = NAN, without;
    bool changed;
    enum eps_status status =
        eps__training_choose(training, error, query->noise_multiplier, log(query->delta), NAN, &changed);
    whole = result->epsilon;
    /* epsilon is that of all phases, unless it was given and a number of runs was solved for: then the phases may
     * need less */
    if (status == EPS_OK && whole > 0 && (changed || result->solved_for == EPS_SOLVE_RUNS))
        status = eps__whole_epsilon(&whole, error, training, NULL, query, true);
    if (status == EPS_OK && whole > 0 && training->len >= SEVERAL)
        status = eps__whole_guess(&guess, error, training, NULL, query);
    for (size_t k = 0; k < training->len && status == EPS_OK; k++) {
        without = whole;
        if (training->phases[k].count > 0 && whole > 0)
            status = leave_out(&without, whole, guess, training, &training->phases[k], query, error);
        shares[k] = share_of(without, whole);
        eps__meter_tell(meter, (double)(k + 1) / (double)training->len);
    }
    return status;
}

/* The query of the whole training for its shares. */
static struct eps_query query_of_shares(const struct eps_result *result, const struct eps__training *training)
{
    struct eps_query query = training->job->query;
    query.epsilon = NAN;
    query.delta = result->delta;
    query.noise_multiplier = result->noise_multiplier;
    query.curve = false;
    query.accountant.tolerance = fmax(query.accountant.tolerance, SHARE_TOLERANCE);
    return query;
}

/* ------------------------------------------------------------ both */

/* One of the tasks of a training, which run in any order: a phase on its own, or all shares of a few phases. */
struct task {
    struct eps__context_part part; /* its context, which reports no progress; the meter does */
    struct eps__meter meter;
    struct eps_error error;
    enum eps_status status;
};

struct each {
    const struct eps__training *training;
    struct eps__training left; /* a copy, in which phases are left out; its phases are a copy, too. NULL: no shares */
    struct eps_result *result;
    double *shares;
    bool gaussians;     /* the tasks of phases leave the shifts of Gaussians in `shares` */
    struct task *tasks; /* one for each phase; that of the shares, if there are few phases, before them */
    struct eps__meters meters;
};

static void each_task(void *arg, size_t i)
{
    struct each *each = arg;
    struct task *task = &each->tasks[i];
    struct eps_result *result = each->result;
    const struct eps__training *training = each->training;
    const struct eps_context *context = eps__context_part(&task->part, training->context, 0, 1);
    task->part.context.progress = NULL;
    if (each->left.phases && i == 0) {
        const struct eps_query query = query_of_shares(result, training);
        each->left.context = context;
        task->status = shares_left_out(result, each->shares, &each->left, &query, &task->meter, &task->error);
    } else {
        size_t k = each->left.phases ? i - 1 : i;
        const struct eps__phase *phase = &training->phases[k];
        if (phase->count > 0 && result->noise_multiplier * phase->noise_scale <= EPS_NOISE_MULTIPLIER_MOST)
            task->status = solve_alone(context, &result->alone[k], &task->error, training, phase,
                                       result->noise_multiplier, result->delta);
        if (each->gaussians)
            each->shares[k] = result->alone[k] ? gaussian_shift(result->alone[k]->epsilon, log(result->delta)) : 0;
    }
    eps__meter_end(&task->meter);
}

static enum eps_status run_tasks(struct each *each, struct eps_error *error)
{
    size_t shares = each->left.phases != NULL, len = each->training->len + shares;
    each->tasks = calloc(len, sizeof *each->tasks);
    if (!each->tasks)
        return eps__error(error, EPS_NO_MEMORY, "", "out of memory");
    each->meters = (struct eps__meters){
        .context = each->training->context, .items = &each->tasks[0].meter, .len = len, .stride = sizeof *each->tasks};
    for (size_t i = 0; i < len; i++) {
        each->tasks[i].meter.all = &each->meters;
        each->tasks[i].meter.expected = shares && i == 0 ? (double)each->training->len : 1;
    }
    eps__for_all(each->training->context, len, each_task, each);
    enum eps_status status = EPS_OK;
    for (size_t i = 0; i < len && status == EPS_OK; i++) {
        status = each->tasks[i].status;
        if (status != EPS_OK && error)
            *error = each->tasks[i].error;
    }
    free(each->tasks);
    return status;
}

/* Solves each phase on its own, and computes 1 - (epsilon without the phase)/epsilon for each, at the delta and noise
 * multiplier of the answer. The accountants that the shares take may differ from those of the answer: *training gets
 * them last, with what they own. */
static enum eps_status solve_each(struct eps_result *result, double *shares, struct eps__training *training,
                                  struct eps_error *error)
{
    struct each each = {.training = training, .left = *training, .result = result, .shares = shares};
    bool few = training->len > 1 && training->len <= FEW;
    each.gaussians = training->len > FEW && result->epsilon > 0;
    size_t bytes = training->len * sizeof *training->phases;
    each.left.phases = few ? malloc(bytes) : NULL;
    if (few && !each.left.phases)
        return eps__error(error, EPS_NO_MEMORY, "", "out of memory");
    if (few)
        memcpy(each.left.phases, training->phases, bytes);
    enum eps_status status = run_tasks(&each, error);
    for (size_t k = 0; k < training->len && status == EPS_OK; k++)
        if (result->alone[k] && !assume_composed(result->alone[k], &training->phases[k]))
            status = eps__error(error, EPS_NO_MEMORY, "", "out of memory");
    if (few)
        memcpy(training->phases, each.left.phases, bytes);
    free(each.left.phases);
    if (training->len == 1)
        shares[0] = training->phases[0].count > 0 ? 1 : 0;
    else if (each.gaussians && status == EPS_OK)
        shares_of_gaussians(shares, training->len, result->epsilon, log(result->delta));
    return status;
}

enum eps_status eps__phases_each(struct eps_result *result, struct eps_error *error, struct eps__training *training)
{
    const struct eps_job *job = training->job;
    double sigma = result->noise_multiplier, delta = result->delta;
    double *shares = calloc(training->len, sizeof *shares);
    bool alone = sigma > 0 && delta > 0 && delta < 1;
    enum eps_status status = EPS_OK;
    result->phases = calloc(job->phases_len, sizeof *result->phases);
    result->alone = calloc(training->len, sizeof *result->alone);
    if (!shares || !result->phases || !result->alone) {
        free(shares);
        return eps__error(error, EPS_NO_MEMORY, "", "out of memory");
    }
    result->phases_len = job->phases_len;
    result->alone_len = training->len;
    enum eps_accountant composed[EPS_PHASES_MAX][EPS_DIRECTIONS];
    for (size_t k = 0; k < training->len; k++) {
        shares[k] = NAN;
        for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++)
            composed[k][d] = training->phases[k].accountants[d]->method;
    }
    if (alone)
        status = solve_each(result, shares, training, error);
    /* a curve has no delta at which to solve the phases */
    for (size_t k = 0; k < training->len && status == EPS_OK && result->solved_for == EPS_SOLVE_CURVE && !alone; k++)
        status = eps__mechanism_describe(&result->alone[k], error, &training->phases[k].setting,
                                         sigma * training->phases[k].noise_scale, composed[k]);
    for (size_t i = 0; i < job->phases_len && status == EPS_OK; i++) {
        size_t k = training->of[i];
        struct eps_phase_result *phase = &result->phases[i];
        phase->count = job->phases[i].count == EPS_LARGEST ? result->largest : job->phases[i].count;
        for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++)
            phase->composed[d] = composed[k][d];
        phase->alone = result->alone[k];
        phase->share = shares[k];
    }
    free(shares);
    return status;
}
