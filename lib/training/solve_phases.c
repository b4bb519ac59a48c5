/*
 * Solves trainings of phases. Each direction is searched on the profile of the whole training (joint.c). Then every
 * phase is solved on its own, at the delta of the answer, to show what it costs.
 *
 * A job with a single phase that is run once is solved as its mechanism, with identical results.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/training/solve_phases.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/check.h"
#include "lib/base/limits.h"
#include "lib/solve/curve.h"
#include "lib/base/error.h"
#include "lib/solve/largest.h"
#include "lib/numerics/normal.h"
#include "lib/training/training.h"
#include "lib/solve/search.h"
#include "lib/solve/solve.h"

#define RUNS_LIMIT (UINT64_C(1) << 40) /* largest count that is tried */
#define NOISE_MOST EPS_NOISE_MULTIPLIER_MOST
#define SEARCH_SHARE 0.5     /* progress when the search is done and single phases are solved */
#define ALONE_SHARE 0.75     /* progress when single phases are solved and their shares are computed */
#define SHARE_TOLERANCE 1e-3 /* least tolerance of epsilon without one phase */
#define MANY_TOLERANCE 1e-2  /* least tolerance of single phases, if there are many */
/* estimated operations of a phase composed by its profile: about a thousand moment problems or compositions */
#define CURVE_OPERATIONS 2e9
#define CURVE_ROUNDS 8   /* number of such curves in a search for the noise multiplier */
#define USUAL_DELTA 1e-6 /* for choosing accountants of a curve */
#define ROUNDS_MAX 2     /* rounds of choosing accountants in a search for the noise multiplier */

enum {
    FEW = 16
}; /* With more phases than this, shares are estimated as for Gaussians and single phases are solved roughly. */

/* ------------------------------------------------------------ cost */

static enum eps_status add_cost(const struct eps__phase *phase, double *operations, double *bytes,
                                struct eps_error *error)
{
    const struct eps__accountant *candidates[EPS__ACCOUNTANTS_MAX];
    size_t len = eps__training_candidates(phase, candidates, error);
    double one_operations = 0, one_bytes = 0;
    if (len == 0)
        return EPS_UNSUPPORTED;
    eps__strategy_cost(&phase->job.mechanism, &one_operations, &one_bytes);
    *operations += one_operations;
    *bytes = fmax(*bytes, one_bytes);
    bool curve = false;
    for (size_t i = 0; i < len; i++) {
        candidates[i]->cost(&phase->setting, &one_operations, &one_bytes);
        *operations += one_operations;
        *bytes = fmax(*bytes, one_bytes);
        curve = curve || !candidates[i]->steps;
    }
    if (curve)
        *operations += isnan(phase->job.query.noise_multiplier) ? CURVE_ROUNDS * CURVE_OPERATIONS : CURVE_OPERATIONS;
    return EPS_OK;
}

static enum eps_status check_cost(const struct eps__training *training, double *operations, double *bytes,
                                  struct eps_error *error)
{
    const struct eps_context *context = training->context;
    double total = 0, largest = 0;
    enum eps_status status = EPS_OK;
    for (size_t k = 0; k < training->len && status == EPS_OK; k++)
        status = add_cost(&training->phases[k], &total, &largest, error);
    if (status != EPS_OK)
        return status;
    total *= 2; /* each phase on its own, and the whole training */
    double limit_operations = context && context->max_operations > 0 ? context->max_operations : INFINITY;
    double limit_bytes = context && context->max_bytes > 0 ? context->max_bytes : INFINITY;
    if (total > limit_operations || largest > limit_bytes) {
        eps__error(
            error, EPS_TOO_COSTLY, "/phases",
            "the phases need about %.2g operations and %.2g bytes, and the limits are %.2g and %.2g; lower n, raise "
            "accountant.tolerance, or name a cheaper accountant",
            total, largest, limit_operations, limit_bytes);
        if (error) {
            error->operations = total;
            error->bytes = largest;
        }
        return EPS_TOO_COSTLY;
    }
    if (operations)
        *operations = total;
    if (bytes)
        *bytes = largest;
    return EPS_OK;
}

/* ------------------------------------------------------------ one phase as a job */

/* Returns the job of a single phase: its mechanism, and the job's query with the phase's noise multiplier. */
static struct eps_job job_of(const struct eps_job *job, const struct eps_phase *phase)
{
    struct eps_job own = {.mechanism = phase->mechanism, .query = job->query};
    own.query.noise_multiplier *= phase->noise_scale;
    return own;
}

static bool single(const struct eps_job *job)
{
    return job->phases_len == 1 && job->phases[0].count == 1;
}

enum eps_status eps__phases_serve(const struct eps_context *context, struct eps_error *error, const struct eps_job *job,
                                  double *operations, double *bytes)
{
    struct eps__training *training;
    if (single(job)) {
        struct eps_job own = job_of(job, &job->phases[0]);
        return eps__mechanism_serves(context, error, &own, operations, bytes);
    }
    enum eps_status status = eps__training_open(&training, error, context, job, true);
    if (status != EPS_OK)
        return status;
    status = check_cost(training, operations, bytes, error);
    eps__training_close(training);
    return status;
}

/* ------------------------------------------------------------ both directions */

struct task {
    struct eps__setting setting;
    struct eps__meter meter;
    enum eps_direction direction;
    struct eps__answer answer;
    struct eps__largest_answer largest;
    enum eps_status status;
    struct eps_error error;
};

struct tasks {
    struct task items[EPS_DIRECTIONS];
    struct eps__meters meters;
};

static void search_task(void *arg, size_t index)
{
    struct task *task = &((struct tasks *)arg)->items[index];
    task->status = eps__search(&task->answer, &task->error, &task->setting, &eps__accountant_joint, task->direction);
    eps__meter_end(&task->meter);
}

static enum eps_status search_both(struct tasks *tasks, const struct eps__setting *setting, struct eps_error *error)
{
    const struct eps_context *context = setting->context;
    *tasks = (struct tasks){.meters = {.context = context,
                                       .items = &tasks->items[0].meter,
                                       .len = EPS_DIRECTIONS,
                                       .stride = sizeof tasks->items[0]}};
    for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++) {
        struct task *task = &tasks->items[d];
        *task = (struct task){.setting = *setting, .direction = d};
        task->meter.all = &tasks->meters;
        /* compositions expected (joint.c) */
        task->meter.expected = isnan(setting->job->query.noise_multiplier) ? 16 : 2;
        task->setting.meter = &task->meter;
    }
    if (context && context->parallel_for)
        context->parallel_for(context->user, EPS_DIRECTIONS, search_task, tasks);
    else
        for (size_t i = 0; i < EPS_DIRECTIONS; i++)
            search_task(tasks, i);
    for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++)
        if (tasks->items[d].status != EPS_OK) {
            if (error)
                *error = tasks->items[d].error;
            return tasks->items[d].status;
        }
    return EPS_OK;
}

/* The accountant of all phases in this direction, or auto if they differ. */
static enum eps_accountant common_accountant(const struct eps__training *training, enum eps_direction direction)
{
    enum eps_accountant common = EPS_ACCOUNTANT_AUTO;
    bool first = true;
    for (size_t k = 0; k < training->len; k++) {
        enum eps_accountant own = training->phases[k].accountants[direction]->method;
        common = first || own == common ? own : EPS_ACCOUNTANT_AUTO;
        if (!first && common == EPS_ACCOUNTANT_AUTO)
            break;
        first = false;
    }
    return common;
}

/* Writes the answers of both directions to the result: candidates, worse direction, bracket. */
static enum eps_status set_answers(struct eps_result *result, const struct eps__training *training,
                                   const struct tasks *tasks, struct eps_error *error)
{
    result->candidates = calloc(EPS_DIRECTIONS, sizeof *result->candidates);
    if (!result->candidates)
        return eps__error(error, EPS_NO_MEMORY, "", "out of memory");
    for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++) {
        const struct eps__answer *answer = &tasks->items[d].answer;
        result->directions[d] = (struct eps_candidate){.accountant = common_accountant(training, d),
                                                       .direction = d,
                                                       .value = answer->value,
                                                       .bad_event_share = answer->bad_event_share};
        result->candidates[result->candidates_len++] = result->directions[d];
    }
    const struct eps_candidate *remove = &result->directions[EPS_REMOVE], *add = &result->directions[EPS_ADD];
    const struct eps_candidate *worse = add->value > remove->value ? add : remove;
    double lower = fmax(tasks->items[EPS_REMOVE].answer.lower, tasks->items[EPS_ADD].answer.lower);
    result->accountant = worse->accountant;
    result->bracket_upper = worse->value;
    result->bracket_lower = fmin(lower, worse->value);
    result->bracket_exact = false; /* whether the composed pairs are attained is not determined (A49) */
    result->least = NAN;
    return EPS_OK;
}

/* ------------------------------------------------------------ epsilon, delta or the noise multiplier */

static double log_or_nan(double delta)
{
    return isnan(delta) ? NAN : log(delta);
}

/* Solves for epsilon or delta at the given noise multiplier, or for the noise multiplier. In the latter case
 * accountants are chosen again at the answer, and the search is repeated if the choice changed. */
static enum eps_status solve_scalar(struct eps_result *result, struct eps_error *error, struct eps__training *training,
                                    struct eps__cache_use *cache_use, bool upper_alone)
{
    const struct eps_query *query = &training->job->query;
    double log_delta = log_or_nan(query->delta), eps = query->epsilon;
    bool changed, sought = isnan(query->noise_multiplier);
    struct tasks tasks;
    struct eps__setting setting = eps__training_setting(training);
    setting.cache_use = cache_use;
    setting.upper_alone = upper_alone;
    enum eps_status status = eps__training_begin(training, error);
    if (status == EPS_OK && !sought)
        status = eps__training_choose(training, error, query->noise_multiplier, log_delta, eps, &changed);
    for (int i = 0; i < ROUNDS_MAX && status == EPS_OK; i++) {
        status = search_both(&tasks, &setting, error);
        if (status != EPS_OK || !sought)
            break;
        double sigma = fmax(tasks.items[EPS_REMOVE].answer.value, tasks.items[EPS_ADD].answer.value);
        if (i + 1 == ROUNDS_MAX || !(sigma > 0))
            break;
        status = eps__training_choose(training, error, sigma, log_delta, eps, &changed);
        if (status == EPS_OK && !changed)
            break;
    }
    if (status == EPS_OK)
        status = set_answers(result, training, &tasks, error);
    if (status != EPS_OK)
        return status;
    switch (result->solved_for) {
    case EPS_SOLVE_EPSILON:
        result->epsilon = result->bracket_upper;
        break;
    case EPS_SOLVE_DELTA:
        result->delta = result->bracket_upper;
        break;
    default:
        result->noise_multiplier = result->bracket_upper;
        break;
    }
    return EPS_OK;
}

/* ------------------------------------------------------------ without one of the phases */

/* Computes epsilon of the training without one phase. */
static enum eps_status epsilon_without(struct eps__training *training, struct eps__phase *phase,
                                       const struct eps_query *query, bool upper_alone, double *epsilon,
                                       struct eps_error *error)
{
    uint64_t count = phase->count;
    struct eps_job job = *training->job;
    struct tasks tasks;
    job.query = *query;
    phase->count = 0;
    struct eps__setting setting = eps__training_setting(training);
    setting.job = &job;
    setting.upper_alone = upper_alone;
    enum eps_status status = search_both(&tasks, &setting, error);
    phase->count = count;
    if (status == EPS_OK)
        *epsilon = fmax(tasks.items[EPS_REMOVE].answer.value, tasks.items[EPS_ADD].answer.value);
    return status;
}

/* ------------------------------------------------------------ how many runs */

/* The phase whose count is solved for, or NULL. */
static struct eps__phase *asked_phase(const struct eps__training *training)
{
    for (size_t i = 0; i < training->job->phases_len; i++)
        if (training->job->phases[i].count == EPS_LARGEST)
            return &training->phases[training->of[i]];
    return NULL;
}

struct runs {
    struct eps__training *training;
    struct eps__phase *phase;
    struct eps__setting setting;
};

static enum eps_status at_runs(void *user, uint64_t number, const struct eps__setting **setting,
                               const struct eps__accountant *const **accountants, size_t *len, struct eps_error *error)
{
    static const struct eps__accountant *const joint[] = {&eps__accountant_joint};
    struct runs *runs = user;
    (void)error;
    runs->phase->count = number;
    runs->setting = eps__training_setting(runs->training);
    *setting = &runs->setting;
    *accountants = joint;
    *len = 1;
    return EPS_OK;
}

/* Even 0 runs exceed the target: reports epsilon of the other phases, which is a valid bound. */
static enum eps_status set_exceeded(struct eps_result *result, struct eps__training *training, struct eps__phase *phase,
                                    struct eps_error *error)
{
    struct eps_query query = training->job->query;
    struct eps__sentences hints = {&result->hints, &result->hints_len, false};
    double epsilon = query.epsilon;
    query.epsilon = NAN;
    enum eps_status status = epsilon_without(training, phase, &query, false, &epsilon, error);
    if (status != EPS_OK)
        return status;
    result->epsilon = fmax(epsilon, result->epsilon);
    eps__sentence(
        &hints,
        "the other phases alone are not proven to satisfy this epsilon and delta, so no count does; the result gives "
        "their epsilon: raise epsilon, delta or the noise multiplier");
    return hints.failed ? eps__error(error, EPS_NO_MEMORY, "", "out of memory") : EPS_OK;
}

static enum eps_status solve_runs(struct eps_result *result, struct eps_error *error, struct eps__training *training)
{
    const struct eps_query *query = &training->job->query;
    struct runs runs = {.training = training, .phase = asked_phase(training)};
    struct tasks tasks = {.items = {{.direction = EPS_REMOVE}, {.direction = EPS_ADD}}};
    bool changed, exceeded = false;
    uint64_t least = RUNS_LIMIT, most = RUNS_LIMIT;
    runs.phase->count = 1;
    enum eps_status status = eps__training_begin(training, error);
    if (status == EPS_OK)
        status =
            eps__training_choose(training, error, query->noise_multiplier, log(query->delta), query->epsilon, &changed);
    for (enum eps_direction d = 0; d < EPS_DIRECTIONS && status == EPS_OK; d++) {
        const struct eps__largest_question question = {.context = training->context,
                                                       .query = query,
                                                       .direction = d,
                                                       .limit = RUNS_LIMIT,
                                                       .alone = training->job->phases_len == 1,
                                                       .user = &runs,
                                                       .at = at_runs};
        struct eps__largest_answer found;
        status = eps__largest(&found, error, &question);
        if (status == EPS_OK) {
            tasks.items[d].answer = (struct eps__answer){
                .value = (double)found.least, .lower = (double)found.least, .bad_event_share = found.bad_event_share};
            least = found.least < least ? found.least : least;
            most = found.most < most ? found.most : most;
            exceeded = exceeded || found.exceeded;
        }
    }
    if (status == EPS_OK && exceeded)
        status = set_exceeded(result, training, runs.phase, error);
    if (status == EPS_OK && least == RUNS_LIMIT)
        status =
            eps__error(error, EPS_UNATTAINABLE, "/phases",
                       "2^40 runs or more satisfy this epsilon and delta; lower one of them, or the noise multiplier");
    if (status == EPS_OK)
        status = set_answers(result, training, &tasks, error);
    if (status != EPS_OK)
        return status;
    const struct eps_candidate *remove = &result->directions[EPS_REMOVE], *add = &result->directions[EPS_ADD];
    result->accountant = add->value < remove->value ? add->accountant : remove->accountant;
    result->largest = least;
    result->bracket_lower = (double)least;
    result->bracket_exact = false;
    result->least = NAN;
    result->bracket_upper = (double)most;
    runs.phase->count = least;
    return EPS_OK;
}

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
    struct eps_job own = job_of(&job, &one);
    struct eps__training *runs = NULL;
    const struct eps__occasion occasion = {.upper_alone = many, .of_phases = true};
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
        status = solve_scalar(result, error, runs, &cache_use, many);
    if (status == EPS_OK && !assume_composed(result, &runs->phases[0]))
        status = eps__error(error, EPS_NO_MEMORY, "", "out of memory");
    eps__training_close(runs);
    if (status != EPS_OK) {
        eps_result_destroy(result);
        *alone = NULL;
    }
    return status;
}

/* ------------------------------------------------------------ what each phase costs */

/* The shift between two unit Gaussians that have this epsilon at ln delta. */
static double gaussian_shift(double epsilon, double log_delta)
{
    double low = 0, high = 1, error;
    while (high < 1e6 && eps__gaussian_log_delta(high, epsilon, &error) < log_delta)
        high *= 2;
    for (int i = 0; i < 60; i++) {
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
    for (int i = 0; i < 60; i++) {
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

/* Computes shares by leaving out each phase in turn. The accountants are chosen once for all of these. */
static enum eps_status shares_left_out(const struct eps_result *result, double *shares, struct eps__training *training,
                                       const struct eps_query *query, struct eps_error *error)
{
    double whole, without, each = (1 - ALONE_SHARE) / (double)(result->alone_len + 1), done = ALONE_SHARE + each;
    bool changed;
    const struct eps_context *context = training->context;
    struct eps__context_part part; /* the context of the training during these searches */
    training->context = eps__context_part(&part, context, ALONE_SHARE, done);
    enum eps_status status =
        eps__training_choose(training, error, query->noise_multiplier, log(query->delta), NAN, &changed);
    struct eps_job job = *training->job;
    struct eps__setting setting = eps__training_setting(training);
    struct tasks tasks;
    job.query = *query;
    setting.job = &job;
    setting.upper_alone = true;
    whole = result->epsilon;
    /* epsilon is that of all phases, unless it was given and a number of runs was solved for: then the phases may
     * need less */
    if (status == EPS_OK && whole > 0 && (changed || result->solved_for == EPS_SOLVE_RUNS)) {
        status = search_both(&tasks, &setting, error);
        if (status == EPS_OK)
            whole = fmax(tasks.items[EPS_REMOVE].answer.value, tasks.items[EPS_ADD].answer.value);
    }
    if (status != EPS_OK)
        goto out;
    for (size_t k = 0; k < result->alone_len && status == EPS_OK; k++) {
        without = whole;
        training->context = eps__context_part(&part, context, done, done + each);
        done += each;
        if (training->phases[k].count > 0 && whole > 0)
            status = epsilon_without(training, &training->phases[k], query, true, &without, error);
        shares[k] = whole > 0 ? fmin(fmax(1 - without / whole, 0), 1) : NAN;
    }
out:
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
    if (phase->count > 0 && alone->noise_multiplier * phase->noise_scale <= NOISE_MOST)
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
    const struct eps_context *context = eps__context_part(&alone.part, training->context, SEARCH_SHARE, ALONE_SHARE);
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

static enum eps_status fill_phases(struct eps_result *result, struct eps_error *error, struct eps__training *training)
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
    if (status == EPS_OK && alone)
        status = find_shares(result, shares, training, error);
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

/* ------------------------------------------------------------ sentences */

/* Merges the sentences of all phases: a sentence of every phase is added once as it is, others with the number of
 * the phase. */
static bool merge_sentences(struct eps__sentences *list, const struct eps_result *result, bool hints)
{
    for (size_t i = 0; i < result->phases_len; i++) {
        const struct eps_result *alone = result->phases[i].alone;
        size_t len = !alone ? 0 : hints ? alone->hints_len : alone->assumptions_len;
        for (size_t k = 0; k < len; k++) {
            const char *text = hints ? alone->hints[k] : alone->assumptions[k];
            size_t said = 0, first = i;
            for (size_t j = 0; j < result->phases_len; j++) {
                const struct eps_result *other = result->phases[j].alone;
                size_t other_len = !other ? 0 : hints ? other->hints_len : other->assumptions_len;
                for (size_t m = 0; m < other_len; m++)
                    if (strcmp(hints ? other->hints[m] : other->assumptions[m], text) == 0) {
                        first = j < first ? j : first;
                        said++;
                        break;
                    }
            }
            if (first < i)
                continue;
            if (said == result->phases_len)
                eps__sentence(list, "%s", text);
            else if (said == 1)
                eps__sentence(list, "phase %zu: %s", i, text);
            else
                eps__sentence(list, "phase %zu and %zu more: %s", i, said - 1, text);
        }
    }
    return !list->failed;
}

static bool add_sentences(struct eps_result *result, const struct eps_job *job)
{
    struct eps__sentences assumptions = {&result->assumptions, &result->assumptions_len, false};
    struct eps__sentences hints = {&result->hints, &result->hints_len, false};
    eps__sentence(
        &assumptions,
        "an example may participate in every phase, and the randomness of each run (participation and noise) is "
        "independent of all other runs");
    merge_sentences(&assumptions, result, false);
    merge_sentences(&hints, result, true);
    if (result->solved_for != EPS_SOLVE_CURVE && result->solved_for != EPS_SOLVE_RUNS && result->bracket_upper > 0) {
        double width = (result->bracket_upper - result->bracket_lower) / result->bracket_upper;
        double tolerance = job->query.accountant.tolerance;
        bool absolute = result->solved_for == EPS_SOLVE_EPSILON && result->bracket_upper < 1e-6;
        bool floor = result->solved_for == EPS_SOLVE_DELTA && result->delta <= EPS__DELTA_LEAST;
        if (width > tolerance && !absolute && !floor)
            eps__sentence(&hints, "the relative width of the bracket is %.2g, more than the tolerance %.2g", width,
                          tolerance);
    }
    return !assumptions.failed && !hints.failed;
}

/* ------------------------------------------------------------ the result */

static struct eps_result *make_result(const struct eps_job *job)
{
    struct eps_result *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    made->solved_for = eps_job_unknown(job);
    made->epsilon = job->query.epsilon;
    made->delta = job->query.delta;
    made->noise_multiplier = job->query.noise_multiplier;
    made->bracket_lower = made->bracket_upper = made->least = NAN;
    made->guarantee = EPS_GUARANTEE_DETERMINISTIC;
    made->adjacency = job->mechanism.adjacency;
    made->p = made->expected_batch_size = made->sensitivity = made->optimality_gap = NAN;
    made->error_mean_squared = made->error_max_squared = made->error_last_squared = NAN;
    return made;
}

/* Chooses accountants for a whole curve: those that are best at the job's delta or epsilon, or at USUAL_DELTA if it
 * has neither. */
static enum eps_status choose_for_curve(struct eps__training *training, struct eps_error *error, double sigma)
{
    const struct eps_query *query = &training->job->query;
    double log_delta = !isnan(query->delta) ? log(query->delta) : isnan(query->epsilon) ? log(USUAL_DELTA) : NAN;
    bool changed;
    enum eps_status status = eps__training_begin(training, error);
    return status == EPS_OK ? eps__training_choose(training, error, sigma, log_delta, query->epsilon, &changed)
                            : status;
}

static enum eps_status solve_curve(struct eps_result *result, struct eps_error *error, struct eps__training *training)
{
    static const struct eps__accountant *const joint[] = {&eps__accountant_joint};
    struct eps__setting setting = eps__training_setting(training);
    enum eps_status status = choose_for_curve(training, error, training->job->query.noise_multiplier);
    if (status == EPS_OK)
        status = eps__curve(result, error, &setting, joint, 1, true, training->job->query.accountant.tolerance);
    for (enum eps_direction d = 0; d < EPS_DIRECTIONS && status == EPS_OK; d++)
        result->directions[d].accountant = common_accountant(training, d);
    if (status == EPS_OK)
        result->accountant = result->directions[EPS_REMOVE].accountant;
    return status;
}

static enum eps_status solve_training(struct eps_result *result, struct eps_error *error,
                                      const struct eps_context *context, const struct eps_job *job)
{
    struct eps__training *training = NULL;
    struct eps__cache_use cache_use = {0};
    struct eps__context_part first;
    const struct eps_context *part = eps__context_part(&first, context, 0, SEARCH_SHARE);
    enum eps_status status = eps__training_open(&training, error, part, job, false);
    if (status == EPS_OK)
        status = check_cost(training, NULL, NULL, error);
    if (status == EPS_OK && result->solved_for == EPS_SOLVE_CURVE)
        status = solve_curve(result, error, training);
    else if (status == EPS_OK && result->solved_for == EPS_SOLVE_RUNS)
        status = solve_runs(result, error, training);
    else if (status == EPS_OK)
        status = solve_scalar(result, error, training, &cache_use, false);
    if (status == EPS_OK) {
        training->context = context;
        status = fill_phases(result, error, training);
    }
    if (status == EPS_OK) {
        result->adaptive = true;
        result->cache_pld = eps__cache_use_state(&cache_use);
        for (size_t k = 0; k < result->alone_len; k++) {
            const struct eps_result *alone = result->alone[k];
            result->adaptive = result->adaptive && (!alone || alone->adaptive);
            if (alone &&
                (result->cache_factorization == EPS_CACHE_UNUSED || alone->cache_factorization == EPS_CACHE_MISS))
                result->cache_factorization = alone->cache_factorization;
        }
        if (!add_sentences(result, job))
            status = eps__error(error, EPS_NO_MEMORY, "", "out of memory");
    }
    eps__training_close(training);
    return status;
}

/* ------------------------------------------------------------ a single phase */

/* x / scale, rounded up so that the result times scale is at least x. */
static double unscaled(double x, double scale)
{
    return scale == 1 ? x : eps__raise(x / scale, 8);
}

static double unscaled_lower(double x, double scale)
{
    return scale == 1 ? x : eps__lower(x / scale, 8);
}

/* The job's noise multiplier for which the phase's is at least x, and which is in range: more noise is also valid. */
static double noise_of_job(double x, double scale)
{
    double noise = unscaled(x, scale);
    return noise > 0 ? fmax(noise, EPS_NOISE_MULTIPLIER_LEAST) : noise;
}

static enum eps_status copy_answer(struct eps_result *result, struct eps_error *error, struct eps_result *own,
                                   double scale)
{
    bool sought = result->solved_for == EPS_SOLVE_NOISE_MULTIPLIER;
    double divisor = sought ? scale : 1;
    result->candidates = calloc(own->candidates_len + 1, sizeof *result->candidates);
    if (!result->candidates)
        return eps__error(error, EPS_NO_MEMORY, "", "out of memory");
    result->candidates_len = own->candidates_len;
    for (size_t i = 0; i < own->candidates_len; i++) {
        result->candidates[i] = own->candidates[i];
        if (sought)
            result->candidates[i].value = noise_of_job(own->candidates[i].value, scale);
    }
    for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++) {
        result->directions[d] = own->directions[d];
        if (sought)
            result->directions[d].value = noise_of_job(own->directions[d].value, scale);
        result->draws[d] = own->draws[d];
    }
    result->epsilon = own->epsilon;
    result->delta = own->delta;
    if (sought)
        result->noise_multiplier = noise_of_job(own->noise_multiplier, scale);
    result->bracket_upper = sought ? noise_of_job(own->bracket_upper, scale) : own->bracket_upper;
    result->bracket_lower = unscaled_lower(own->bracket_lower, divisor);
    result->bracket_exact = own->bracket_exact;
    result->least = unscaled_lower(own->least, divisor);
    result->guarantee = own->guarantee;
    result->accountant = own->accountant;
    result->cut_short = own->cut_short;
    result->adaptive = own->adaptive;
    result->curve = own->curve;
    result->curve_len = own->curve_len;
    own->curve = NULL;
    own->curve_len = 0;
    result->cache_factorization = own->cache_factorization;
    result->cache_pld = own->cache_pld;
    return EPS_OK;
}

/* Solves the single phase as its mechanism and, if that did not solve for epsilon, also for epsilon. */
static enum eps_status solve_single(struct eps_result *result, struct eps_error *error,
                                    const struct eps_context *context, const struct eps_job *job)
{
    const struct eps__phase phase = {.first = 0};
    struct eps_job asked = job_of(job, &job->phases[0]);
    struct eps_result *own = NULL;
    result->phases = calloc(1, sizeof *result->phases);
    result->alone = calloc(1, sizeof *result->alone);
    if (!result->phases || !result->alone)
        return eps__error(error, EPS_NO_MEMORY, "", "out of memory");
    result->phases_len = result->alone_len = 1;
    struct eps__context_part first, second; /* two parts, if the job does not solve for epsilon */
    double share = result->solved_for == EPS_SOLVE_EPSILON ? 1 : SEARCH_SHARE;
    const struct eps_context *part = eps__context_part(&first, context, 0, share);
    enum eps_status status = eps__mechanism_solve(part, &own, error, &asked, NULL);
    if (status != EPS_OK)
        return eps__phase_error(error, &phase, status);
    status = copy_answer(result, error, own, job->phases[0].noise_scale);
    /* There is no epsilon for a delta of 1 or below the range of a job. */
    bool alone = status == EPS_OK && result->noise_multiplier > 0 && eps__in_range(EPS__DELTA, result->delta);
    if (result->solved_for != EPS_SOLVE_EPSILON) {
        asked.query.epsilon = NAN;
        asked.query.delta = result->delta;
        asked.query.noise_multiplier = result->noise_multiplier * job->phases[0].noise_scale;
        asked.query.curve = false;
        eps_result_destroy(own);
        own = NULL;
        if (alone && asked.query.noise_multiplier <= NOISE_MOST &&
            !eps__accountant_find(asked.query.accountant.method)->solve)
            status = eps__mechanism_solve(eps__context_part(&second, context, share, 1), &own, error, &asked, NULL);
    }
    if (status != EPS_OK) {
        eps_result_destroy(own);
        return status;
    }
    result->alone[0] = own;
    result->phases[0] = (struct eps_phase_result){.count = 1, .alone = own, .share = NAN};
    for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++)
        result->phases[0].composed[d] = result->directions[d].accountant;
    if (result->solved_for != EPS_SOLVE_CURVE)
        result->phases[0].share = result->epsilon > 0 ? 1 : NAN;
    return add_sentences(result, job) ? EPS_OK : eps__error(error, EPS_NO_MEMORY, "", "out of memory");
}

/* Checks that the noise multipliers found for the job and all phases are in range. */
static enum eps_status check_noise(double noise_multiplier, const struct eps_job *job, struct eps_error *error)
{
    double scale = 1;
    for (size_t i = 0; i < job->phases_len; i++)
        scale = fmax(scale, job->phases[i].noise_scale);
    if (noise_multiplier * scale <= NOISE_MOST)
        return EPS_OK;
    return eps__error(error, EPS_UNATTAINABLE, "/delta",
                      "no noise multiplier that leaves every phase's in [1e-9, 1e9] reaches this epsilon and delta; "
                      "raise one of them");
}

enum eps_status eps__phases_solve(const struct eps_context *context, struct eps_result **result,
                                  struct eps_error *error, const struct eps_job *job)
{
    struct eps_result *made = make_result(job);
    if (!made)
        return eps__error(error, EPS_NO_MEMORY, "", "out of memory");
    enum eps_status status =
        single(job) ? solve_single(made, error, context, job) : solve_training(made, error, context, job);
    if (status == EPS_OK && made->solved_for == EPS_SOLVE_NOISE_MULTIPLIER)
        status = check_noise(made->noise_multiplier, job, error);
    if (status != EPS_OK) {
        eps_result_destroy(made);
        return status;
    }
    *result = made;
    return EPS_OK;
}

enum eps_status eps__phases_epsilon(const struct eps_context *context, double *epsilon, struct eps_error *error,
                                    const struct eps_job *job)
{
    struct eps__training *training = NULL;
    struct eps_result *made = NULL;
    struct eps__cache_use cache_use = {0};
    enum eps_status status = EPS_OK;
    if (single(job)) {
        struct eps_job own = job_of(job, &job->phases[0]);
        status = eps__mechanism_solve(context, &made, error, &own, NULL);
    } else {
        made = make_result(job);
        status = made ? eps__training_open(&training, error, context, job, false)
                      : eps__error(error, EPS_NO_MEMORY, "", "out of memory");
        if (status == EPS_OK)
            status = solve_scalar(made, error, training, &cache_use, false);
        eps__training_close(training);
    }
    if (status == EPS_OK)
        *epsilon = made->epsilon;
    eps_result_destroy(made);
    return status;
}

/* ------------------------------------------------------------ the curve */

enum eps_status eps__phases_curve(const struct eps_context *context, struct eps_curve_point **points, size_t *len,
                                  struct eps_error *error, const struct eps_job *job, double noise_multiplier)
{
    static const struct eps__accountant *const joint[] = {&eps__accountant_joint};
    struct eps__training *training = NULL;
    enum eps_status status = eps__training_open(&training, error, context, job, false);
    if (status == EPS_OK)
        status = check_cost(training, NULL, NULL, error);
    if (status == EPS_OK && eps_job_unknown(job) == EPS_SOLVE_RUNS) {
        struct eps_result *found = make_result(job);
        status = found ? solve_runs(found, error, training) : eps__error(error, EPS_NO_MEMORY, "", "out of memory");
        eps_result_destroy(found);
    } else if (status == EPS_OK) {
        status = choose_for_curve(training, error, noise_multiplier);
    }
    if (status == EPS_OK) {
        struct eps__setting setting = eps__training_setting(training);
        status = eps__curve_points(points, len, error, &setting, joint, 1, noise_multiplier);
    }
    eps__training_close(training);
    return status;
}
