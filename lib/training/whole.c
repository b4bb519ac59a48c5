/*
 * Solves a training as a whole: see whole.h.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/training/whole.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/progress.h"
#include "lib/solve/answer.h"
#include "lib/solve/curve.h"
#include "lib/solve/search.h"

#define RUNS_LIMIT (UINT64_C(1) << 40) /* largest count that is tried */
#define USUAL_DELTA 1e-6               /* for choosing accountants of a curve */

static const struct eps__accountant *const joint[] = {&eps__accountant_joint};

/* ------------------------------------------------------------ both directions */

struct task {
    struct eps__setting setting;
    struct eps__meter meter;
    struct eps__answer answer;
    enum eps_status status;
    struct eps_error error;
};

static void search_task(void *arg, size_t d)
{
    struct task *task = &((struct task *)arg)[d];
    task->status = eps__search(&task->answer, &task->error, &task->setting, &eps__accountant_joint,
                               (enum eps_direction)d, INFINITY);
    eps__meter_end(&task->meter);
}

/* The lower end of an epsilon is that of one direction: of remove, whose epsilon is the larger one of most trainings.
 * If that of add is larger, add is searched again, with its lower end. */
static enum eps_status search_both(struct eps__answer answers[EPS_DIRECTIONS], const struct eps__setting *setting,
                                   struct eps_error *error)
{
    struct task tasks[EPS_DIRECTIONS];
    bool one_lower = isnan(setting->job->query.epsilon) && !setting->upper_alone;
    struct eps__meters meters = {
        .context = setting->context, .items = &tasks[0].meter, .len = EPS_DIRECTIONS, .stride = sizeof tasks[0]};
    for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++) {
        tasks[d] = (struct task){.setting = *setting};
        tasks[d].meter.all = &meters;
        /* compositions expected (joint.c) */
        tasks[d].meter.expected = isnan(setting->job->query.noise_multiplier) ? 16 : 2;
        tasks[d].setting.meter = &tasks[d].meter;
    }
    tasks[EPS_ADD].setting.upper_alone |= one_lower;
    eps__for_all(setting->context, EPS_DIRECTIONS, search_task, tasks);
    if (one_lower && tasks[EPS_ADD].status == EPS_OK && tasks[EPS_ADD].answer.value > tasks[EPS_REMOVE].answer.value) {
        tasks[EPS_ADD].setting.upper_alone = false;
        tasks[EPS_ADD].setting.meter = NULL;
        search_task(tasks, EPS_ADD);
    }
    for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++) {
        if (tasks[d].status != EPS_OK) {
            if (error)
                *error = tasks[d].error;
            return tasks[d].status;
        }
        answers[d] = tasks[d].answer;
    }
    return EPS_OK;
}

static double larger(const struct eps__answer answers[EPS_DIRECTIONS])
{
    return fmax(answers[EPS_REMOVE].value, answers[EPS_ADD].value);
}

/* The accountant of all phases in this direction, or auto if they differ. */
static enum eps_accountant common_accountant(const struct eps__training *training, enum eps_direction direction)
{
    enum eps_accountant first = training->phases[0].accountants[direction]->method;
    for (size_t k = 1; k < training->len; k++)
        if (training->phases[k].accountants[direction]->method != first)
            return EPS_ACCOUNTANT_AUTO;
    return first;
}

/* The candidates of the result are the answers of its directions. */
static enum eps_status list_directions(struct eps_result *result, struct eps_error *error)
{
    result->candidates = malloc(sizeof result->directions);
    if (!result->candidates)
        return eps__error(error, EPS_NO_MEMORY, "", "out of memory");
    memcpy(result->candidates, result->directions, sizeof result->directions);
    result->candidates_len = EPS_DIRECTIONS;
    return EPS_OK;
}

/* ------------------------------------------------------------ epsilon, delta or the noise multiplier */

/* Chooses accountants again at the noise multiplier found and, if that changes them, searches with these. Both answers
 * are proven: keeps the smaller one and its accountants. */
static enum eps_status search_again(struct eps__answer answers[EPS_DIRECTIONS], struct eps__training *training,
                                    const struct eps__setting *setting, struct eps_error *error)
{
    const struct eps_query *query = &training->job->query;
    const struct eps__accountant *before[EPS_PHASES_MAX][EPS_DIRECTIONS];
    struct eps__answer again[EPS_DIRECTIONS];
    bool changed;
    for (size_t k = 0; k < training->len; k++)
        memcpy(before[k], training->phases[k].accountants, sizeof before[k]);
    enum eps_status status =
        eps__training_choose(training, error, larger(answers), log(query->delta), query->epsilon, &changed);
    if (status != EPS_OK || !changed)
        return status;
    status = search_both(again, setting, error);
    if (status == EPS_OK && larger(again) <= larger(answers))
        memcpy(answers, again, sizeof again);
    else
        eps__training_restore(training, before);
    return status;
}

enum eps_status eps__whole_solve(struct eps_result *result, struct eps_error *error, struct eps__training *training,
                                 struct eps__cache_use *cache_use, bool upper_alone)
{
    const struct eps_query *query = &training->job->query;
    bool changed, sought = isnan(query->noise_multiplier);
    struct eps__answer answers[EPS_DIRECTIONS];
    struct eps__setting setting = eps__training_setting(training);
    setting.cache_use = cache_use;
    setting.upper_alone = upper_alone;
    enum eps_status status = eps__training_begin(training, error);
    if (status == EPS_OK && !sought)
        status =
            eps__training_choose(training, error, query->noise_multiplier, log(query->delta), query->epsilon, &changed);
    if (status == EPS_OK)
        status = search_both(answers, &setting, error);
    if (status == EPS_OK && sought && larger(answers) > 0)
        status = search_again(answers, training, &setting, error);
    if (status != EPS_OK)
        return status;
    for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++)
        result->directions[d] = (struct eps_candidate){.accountant = common_accountant(training, d),
                                                       .direction = d,
                                                       .value = answers[d].value,
                                                       .bad_event_share = answers[d].bad_event_share};
    /* whether the composed pairs are attained is not determined (A49): the bracket is not exact */
    eps__result_settle(result, (const double[]){answers[EPS_REMOVE].lower, answers[EPS_ADD].lower});
    return list_directions(result, error);
}

enum eps_status eps__whole_epsilon(double *epsilon, struct eps_error *error, struct eps__training *training,
                                   struct eps__phase *without, const struct eps_query *query, bool upper_alone)
{
    uint64_t count = without ? without->count : 0;
    struct eps_job job = *training->job;
    struct eps__answer answers[EPS_DIRECTIONS];
    job.query = *query;
    if (without)
        without->count = 0;
    struct eps__setting setting = eps__training_setting(training);
    setting.job = &job;
    setting.upper_alone = upper_alone;
    enum eps_status status = search_both(answers, &setting, error);
    if (without)
        without->count = count;
    if (status == EPS_OK)
        *epsilon = larger(answers);
    return status;
}

/* The larger approximation of epsilon of the two directions. */
static enum eps_status guess_both(double *epsilon, const struct eps__setting *setting, struct eps_error *error)
{
    const struct eps_query *query = &setting->job->query;
    const struct eps__accuracy accuracy = {EPS_SOLVE_EPSILON, query->accountant.tolerance, log(query->delta)};
    struct eps__profile *profile;
    enum eps_status status = eps__accountant_joint.open(setting, query->noise_multiplier, &accuracy, &profile, error);
    if (status != EPS_OK)
        return status;
    *epsilon = 0;
    for (enum eps_direction d = 0; d < EPS_DIRECTIONS && status == EPS_OK; d++) {
        double own = 0, enough = eps__absence_epsilon(&setting->absence, d, accuracy.log_delta);
        status = profile->class->guess(profile, d, accuracy.log_delta, &own);
        *epsilon = fmax(*epsilon, fmin(own, enough));
    }
    profile->class->destroy(profile);
    return status == EPS_OK ? EPS_OK : eps__error(error, status, "", "%s", eps_status_name(status));
}

enum eps_status eps__whole_guess(double *epsilon, struct eps_error *error, struct eps__training *training,
                                 struct eps__phase *without, const struct eps_query *query)
{
    uint64_t count = without ? without->count : 0;
    struct eps_job job = *training->job;
    job.query = *query;
    if (without)
        without->count = 0;
    struct eps__setting setting = eps__training_setting(training);
    setting.job = &job;
    enum eps_status status = guess_both(epsilon, &setting, error);
    if (without)
        without->count = count;
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
    enum eps_status status = eps__whole_epsilon(&epsilon, error, training, phase, &query, false);
    if (status != EPS_OK)
        return status;
    result->epsilon = fmax(epsilon, result->epsilon);
    eps__sentence(
        &hints,
        "the other phases alone are not proven to satisfy this epsilon and delta, so no count does; the result gives "
        "their epsilon: raise epsilon, delta or the noise multiplier");
    return hints.failed ? eps__error(error, EPS_NO_MEMORY, "", "out of memory") : EPS_OK;
}

enum eps_status eps__whole_runs(struct eps_result *result, struct eps_error *error, struct eps__training *training)
{
    const struct eps_query *query = &training->job->query;
    struct runs runs = {.training = training, .phase = asked_phase(training)};
    struct eps__largest_answer found[EPS_DIRECTIONS];
    bool changed;
    runs.phase->count = 1;
    enum eps_status status = eps__training_begin(training, error);
    if (status == EPS_OK)
        status =
            eps__training_choose(training, error, query->noise_multiplier, log(query->delta), query->epsilon, &changed);
    const struct eps__largest_question question = {.context = training->context,
                                                   .query = query,
                                                   .limit = RUNS_LIMIT,
                                                   .alone = training->job->phases_len == 1,
                                                   .user = &runs,
                                                   .at = at_runs};
    if (status == EPS_OK)
        status = eps__largest(found, error, &question);
    if (status == EPS_OK && (found[EPS_REMOVE].exceeded || found[EPS_ADD].exceeded))
        status = set_exceeded(result, training, runs.phase, error);
    if (status != EPS_OK)
        return status;
    const enum eps_accountant accountants[] = {common_accountant(training, EPS_REMOVE),
                                               common_accountant(training, EPS_ADD)};
    eps__result_largest(result, found, accountants, 1);
    runs.phase->count = result->largest;
    return result->largest < RUNS_LIMIT
               ? list_directions(result, error)
               : eps__error(error, EPS_UNATTAINABLE, "/phases",
                            "2^40 runs or more satisfy this epsilon and delta; lower one of them, or the noise "
                            "multiplier");
}

/* ------------------------------------------------------------ the curve */

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

enum eps_status eps__whole_curve(struct eps_result *result, struct eps_error *error, struct eps__training *training)
{
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

enum eps_status eps__whole_points(struct eps_curve_point **points, size_t *len, struct eps_error *error,
                                  struct eps__training *training, double noise_multiplier)
{
    struct eps_result *found = NULL;
    enum eps_status status;
    if (eps_job_unknown(training->job) == EPS_SOLVE_RUNS) {
        status = eps__result_create(&found, error, training->job);
        if (status == EPS_OK)
            status = eps__whole_runs(found, error, training);
        eps_result_destroy(found);
    } else {
        status = choose_for_curve(training, error, noise_multiplier);
    }
    struct eps__setting setting = eps__training_setting(training);
    return status == EPS_OK ? eps__curve_points(points, len, error, &setting, joint, 1, noise_multiplier) : status;
}
