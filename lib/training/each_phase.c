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
#include "lib/numerics/normal.h"
#include "lib/solve/solve.h"
#include "lib/training/whole.h"

#define ALONE_SHARE 0.5      /* progress when single phases are solved and their shares are computed */
#define SHARE_TOLERANCE 1e-3 /* least tolerance of epsilon without one phase */
#define GUESS_CLOSE 5e-3     /* relative error of epsilon with which approximations give shares */
#define GUESS_MOST 0.1       /* the largest such share */
#define MANY_TOLERANCE 1e-2  /* least tolerance of single phases, if there are many */

enum {
    FEW = 16
}; /* With more phases than this, shares are estimated as for Gaussians and single phases are solved roughly. */

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

/* The tasks that solve each phase on its own, in any order. */
struct alone {
    const struct eps__training *training;
    struct eps__context_part part, *own; /* contexts: part for the common progress, own[k] for each phase */
    struct eps__meters meters;
    struct eps_result **results;
    struct eps_error *errors;
    enum eps_status *status;
    double noise_multiplier, delta;
};

static void alone_task(void *arg, size_t k)
{
    struct alone *alone = arg;
    const struct eps__phase *phase = &alone->training->phases[k];
    const struct eps_context *context = eps__context_part(&alone->own[k], alone->training->context, 0, 1);
    alone->own[k].context.progress = NULL;
    if (phase->count > 0 && alone->noise_multiplier * phase->noise_scale <= EPS_NOISE_MULTIPLIER_MOST)
        alone->status[k] = solve_alone(context, &alone->results[k], &alone->errors[k], alone->training, phase,
                                       alone->noise_multiplier, alone->delta);
    eps__meter_end(&alone->meters.items[k]);
}

static enum eps_status solve_all_alone(struct eps_result *result, struct eps_error *error,
                                       const struct eps__training *training)
{
    size_t len = training->len;
    struct alone alone = {.training = training,
                          .own = calloc(len, sizeof *alone.own),
                          .results = result->alone,
                          .errors = calloc(len, sizeof *alone.errors),
                          .status = calloc(len, sizeof *alone.status),
                          .noise_multiplier = result->noise_multiplier,
                          .delta = result->delta};
    const struct eps_context *context = eps__context_part(&alone.part, training->context, 0, ALONE_SHARE);
    alone.meters = (struct eps__meters){.context = context,
                                        .items = calloc(len, sizeof(struct eps__meter)),
                                        .len = len,
                                        .stride = sizeof(struct eps__meter)};
    enum eps_status status = EPS_NO_MEMORY;
    if (!alone.own || !alone.errors || !alone.status || !alone.meters.items) {
        eps__error(error, EPS_NO_MEMORY, "", "out of memory");
        goto out;
    }
    for (size_t k = 0; k < len; k++) {
        alone.meters.items[k].all = &alone.meters;
        alone.meters.items[k].expected = 1;
    }
    status = EPS_OK;
    if (context && context->parallel_for)
        context->parallel_for(context->user, len, alone_task, &alone);
    for (size_t k = 0; k < len && status == EPS_OK; k++) {
        if (!context || !context->parallel_for)
            alone_task(&alone, k);
        status = alone.status[k];
        if (status != EPS_OK && error)
            *error = alone.errors[k];
    }
out:
    free(alone.own);
    free(alone.errors);
    free(alone.status);
    free(alone.meters.items);
    return status;
}

/* ------------------------------------------------------------ the shares */

enum { HALVINGS = 32 }; /* of an interval, for a share to about 1e-9 */

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
 * and are scaled to the epsilon of the whole training. */
static void shares_of_gaussians(const struct eps_result *result, double *shares, double whole, double log_delta)
{
    double sum = 0, total = gaussian_shift(whole, log_delta);
    for (size_t k = 0; k < result->alone_len; k++) {
        shares[k] = result->alone[k] ? gaussian_shift(result->alone[k]->epsilon, log_delta) : 0;
        sum += shares[k] * shares[k];
    }
    for (size_t k = 0; k < result->alone_len; k++) {
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
                                       const struct eps_query *query, struct eps_error *error)
{
    double whole, guess = NAN, without, each = 1 / (double)(result->alone_len + 1), done = each;
    bool changed;
    const struct eps_context *context = training->context;
    struct eps__context_part part; /* the context of the training during these searches */
    training->context = eps__context_part(&part, context, 0, done);
    enum eps_status status =
        eps__training_choose(training, error, query->noise_multiplier, log(query->delta), NAN, &changed);
    whole = result->epsilon;
    /* epsilon is that of all phases, unless it was given and a number of runs was solved for: then the phases may
     * need less */
    if (status == EPS_OK && whole > 0 && (changed || result->solved_for == EPS_SOLVE_RUNS))
        status = eps__whole_epsilon(&whole, error, training, NULL, query, true);
    if (status == EPS_OK && whole > 0)
        status = eps__whole_guess(&guess, error, training, NULL, query);
    for (size_t k = 0; k < result->alone_len && status == EPS_OK; k++) {
        without = whole;
        training->context = eps__context_part(&part, context, done, done + each);
        done += each;
        if (training->phases[k].count > 0 && whole > 0)
            status = leave_out(&without, whole, guess, training, &training->phases[k], query, error);
        shares[k] = share_of(without, whole);
    }
    training->context = context;
    return status;
}

/* Computes 1 - (epsilon without the phase)/epsilon for each phase, at the delta and noise multiplier of the answer. */
static enum eps_status find_shares(const struct eps_result *result, double *shares, struct eps__training *training,
                                   struct eps_error *error)
{
    struct eps_query query = training->job->query;
    query.epsilon = NAN;
    query.delta = result->delta;
    query.noise_multiplier = result->noise_multiplier;
    query.curve = false;
    query.accountant.tolerance = fmax(query.accountant.tolerance, SHARE_TOLERANCE);
    if (training->len == 1)
        shares[0] = training->phases[0].count > 0 ? 1 : 0;
    else if (training->len <= FEW)
        return shares_left_out(result, shares, training, &query, error);
    else if (result->epsilon > 0)
        shares_of_gaussians(result, shares, result->epsilon, log(query.delta));
    return EPS_OK;
}

/* ------------------------------------------------------------ both */

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
    for (size_t k = 0; k < training->len; k++)
        shares[k] = NAN;
    if (alone)
        status = solve_all_alone(result, error, training);
    enum eps_accountant composed[EPS_PHASES_MAX][EPS_DIRECTIONS];
    for (size_t k = 0; k < training->len; k++)
        for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++)
            composed[k][d] = training->phases[k].accountants[d]->method;
    for (size_t k = 0; k < training->len && status == EPS_OK; k++)
        if (result->alone[k] && !assume_composed(result->alone[k], &training->phases[k]))
            status = eps__error(error, EPS_NO_MEMORY, "", "out of memory");
    /* a curve has no delta at which to solve the phases */
    for (size_t k = 0; k < training->len && status == EPS_OK && result->solved_for == EPS_SOLVE_CURVE && !alone; k++)
        status = eps__mechanism_describe(&result->alone[k], error, &training->phases[k].setting,
                                         sigma * training->phases[k].noise_scale, composed[k]);
    if (status == EPS_OK && alone) {
        struct eps__context_part rest;
        const struct eps_context *context = training->context;
        training->context = eps__context_part(&rest, context, ALONE_SHARE, 1);
        status = find_shares(result, shares, training, error);
        training->context = context;
    }
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
