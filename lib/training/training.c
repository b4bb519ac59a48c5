/*
 * Opens trainings and chooses their accountants.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/training/training.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/members.h"
#include "lib/base/sentences.h"
#include "lib/job/setting.h"
#include "lib/training/curves.h"

#define STRATEGIES_SHARE 0.3 /* share of progress of building strategies, if any is optimised */

enum eps_status eps__phase_error(struct eps_error *error, const struct eps__phase *phase, enum eps_status status)
{
    if (!error)
        return status;
    struct eps_error own = *error;
    eps__error(error, status, "", "phase %zu: %s", phase->first, own.message);
    snprintf(error->pointer, sizeof error->pointer, "/phases/%zu%.60s", phase->first, own.pointer);
    error->operations = own.operations;
    error->bytes = own.bytes;
    error->accountants = own.accountants;
    return status;
}

struct eps_job eps__phase_job(const struct eps_job *job, const struct eps_phase *phase)
{
    struct eps_job own = {.mechanism = phase->mechanism, .query = job->query};
    own.query.noise_multiplier *= phase->noise_scale;
    return own;
}

/* ------------------------------------------------------------ equal phases */

/* Whether two phases have the same mechanism and noise; their counts may differ. */
static bool same_phase(const struct eps_phase *a, const struct eps_phase *b)
{
    struct eps_phase counted = *a;
    counted.count = b->count;
    return eps__members_equal(&eps__phase_object, &counted, b);
}

/* ------------------------------------------------------------ opening */

static void add_phase(struct eps__training *training, size_t i)
{
    const struct eps_phase *phase = &training->job->phases[i];
    uint64_t count = phase->count == EPS_LARGEST ? 0 : phase->count;
    for (size_t k = 0; k < training->len; k++) {
        struct eps__phase *known = &training->phases[k];
        /* The phase whose count is solved for is not merged, because its count changes. */
        bool asked = phase->count == EPS_LARGEST || training->job->phases[known->first].count == EPS_LARGEST;
        if (asked || !same_phase(phase, &training->job->phases[known->first]))
            continue;
        known->count += count;
        training->of[i] = k;
        return;
    }
    struct eps__phase *fresh = &training->phases[training->len];
    *fresh = (struct eps__phase){.noise_scale = phase->noise_scale, .count = count, .first = i};
    fresh->job = (struct eps_job){.mechanism = phase->mechanism, .query = training->job->query};
    /* the query gives epsilon of the training; that of one run is unknown */
    if (eps_job_unknown(training->job) == EPS_SOLVE_RUNS)
        fresh->job.query.epsilon = NAN;
    training->of[i] = training->len++;
}

static enum eps_status open_phase(const struct eps__training *training, struct eps__phase *phase,
                                  struct eps_error *error, const struct eps_context *context, bool probe)
{
    enum eps_status status = probe ? eps__setting_probe(&phase->setting, error, context, &phase->job)
                                   : eps__setting_open(&phase->setting, error, context, &phase->job);
    if (status != EPS_OK)
        return eps__phase_error(error, phase, status);
    phase->setting.context = training->context;
    phase->trivial = phase->setting.sensitivity_known && !(phase->setting.sensitivity.value > 0);
    return EPS_OK;
}

enum eps_status eps__training_open(struct eps__training **training, struct eps_error *error,
                                   const struct eps_context *context, const struct eps_job *job, bool probe)
{
    *training = NULL;
    struct eps__training *made = calloc(1, sizeof *made);
    if (made) {
        made->phases = calloc(job->phases_len, sizeof *made->phases);
        made->of = calloc(job->phases_len, sizeof *made->of);
    }
    if (!made || !made->phases || !made->of) {
        eps__training_close(made);
        return eps__error(error, EPS_NO_MEMORY, "", "out of memory");
    }
    made->job = job;
    uint64_t asked = 0, counted = 0;
    for (size_t i = 0; i < job->phases_len; i++) {
        add_phase(made, i);
        asked += job->phases[i].count == EPS_LARGEST ? 0 : job->phases[i].count;
    }
    for (size_t k = 0; k < made->len; k++)
        counted += made->phases[k].count;
    assert(counted == asked); /* (T1): every run must be counted */
    double strategies = 0;
    for (size_t k = 0; k < made->len; k++)
        strategies += eps__strategy_is_optimised(&made->phases[k].job.mechanism.matrix);
    double built = strategies > 0 ? STRATEGIES_SHARE : 0, each = built / (double)made->len;
    made->context = eps__context_part(&made->searching, context, built, 1);
    enum eps_status status = EPS_OK;
    for (size_t k = 0; k < made->len && status == EPS_OK; k++) {
        const struct eps_context *part =
            eps__context_part(&made->strategy, context, each * (double)k, each * (double)(k + 1));
        status = open_phase(made, &made->phases[k], error, part, probe);
    }
    if (status != EPS_OK) {
        eps__training_close(made);
        return status;
    }
    *training = made;
    return EPS_OK;
}

static void forget_steppers(struct eps__phase *phase, enum eps_direction direction)
{
    for (int use = 0; use < EPS_DIRECTIONS; use++) {
        eps__curve_forget(&phase->kept[use]);
        struct eps__stepper *stepper = phase->steppers[use][direction];
        if (stepper)
            stepper->class->destroy(stepper);
        phase->steppers[use][direction] = NULL;
        phase->stepped[use][direction] = false;
    }
}

void eps__training_close(struct eps__training *training)
{
    if (!training)
        return;
    for (size_t k = 0; training->phases && k < training->len; k++) {
        for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++)
            forget_steppers(&training->phases[k], direction);
        eps__setting_close(&training->phases[k].setting);
    }
    free(training->phases);
    free(training->of);
    free(training);
}

/* ------------------------------------------------------------ the choice of accountants */

/* Finds the accountants that compose and serve the phase: as bits, as a list of choices, and for each of the others
 * why it does not serve. */
static uint32_t what_composes(const struct eps__phase *phase, char *choices, size_t choices_size, char *whys,
                              size_t whys_size)
{
    const char *names[EPS__ACCOUNTANTS_MAX];
    size_t names_len = 0, used = 0;
    uint32_t serving = 0;
    for (size_t i = 0; eps__accountants[i]; i++) {
        const struct eps__accountant *accountant = eps__accountants[i];
        struct eps_error why = {0};
        if (!accountant->composes)
            continue;
        if (accountant->serves(&phase->setting, &why)) {
            serving |= 1u << accountant->method;
            names[names_len++] = accountant->name;
        } else if (used < whys_size) {
            used += (size_t)snprintf(whys + used, whys_size - used, "; %s", why.message);
        }
    }
    eps__choices(choices, choices_size, names, names_len);
    return serving;
}

/* Reports that no accountant that was asked for can be composed, with those that can and why the others cannot.
 * told: the accountant has already reported why it does not serve. */
static void refuse(const struct eps__phase *phase, bool told, struct eps_error *error)
{
    const struct eps__accountant *asked = eps__accountant_find(phase->job.query.accountant.method);
    const char *subject = asked->method == EPS_ACCOUNTANT_AUTO ? "the accountant that serves it" : asked->name;
    char choices[120], whys[sizeof error->message] = "";
    uint32_t serving = what_composes(phase, choices, sizeof choices, whys, sizeof whys);
    if (!told)
        eps__error(error, EPS_UNSUPPORTED, serving ? "/accountant/method" : "",
                   "%s has no privacy loss distribution to compose phases from; %s%s%s", subject,
                   serving ? "use auto, or name " : "no accountant that has one serves the phase", choices, whys);
    if (error)
        error->accountants = serving;
    eps__phase_error(error, phase, EPS_UNSUPPORTED);
}

size_t eps__training_candidates(const struct eps__phase *phase, const struct eps__accountant **candidates,
                                struct eps_error *error)
{
    size_t len = eps__setting_accountants(&phase->setting, candidates, error), kept = 0;
    for (size_t i = 0; i < len; i++)
        if (candidates[i]->composes)
            candidates[kept++] = candidates[i];
    if (kept == 0)
        refuse(phase, len == 0 && eps__accountant_find(phase->job.query.accountant.method)->composes, error);
    return kept;
}

enum eps_status eps__training_begin(struct eps__training *training, struct eps_error *error)
{
    for (size_t k = 0; k < training->len; k++) {
        const struct eps__accountant *candidates[EPS__ACCOUNTANTS_MAX];
        struct eps__phase *phase = &training->phases[k];
        if (eps__training_candidates(phase, candidates, error) == 0)
            return EPS_UNSUPPORTED;
        for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++) {
            forget_steppers(phase, direction);
            phase->accountants[direction] = candidates[0];
        }
    }
    return EPS_OK;
}

/* For one noise multiplier: epsilon at log_delta, or, if that is NAN, delta at eps. */
struct question {
    double sigma, log_delta, eps;
};

/* Returns whether that changes anything. */
static bool use_accountant(struct eps__phase *phase, enum eps_direction direction,
                           const struct eps__accountant *accountant)
{
    if (accountant == phase->accountants[direction])
        return false;
    forget_steppers(phase, direction);
    phase->accountants[direction] = accountant;
    return true;
}

/* Evaluates a candidate on its own: the smaller *value, the better; INFINITY if it gives no answer. */
static enum eps_status judge(const struct eps__phase *phase, const struct eps__accountant *candidate,
                             enum eps_direction direction, const struct question *question, double *value,
                             struct eps_error *error)
{
    double sigma = question->sigma * phase->noise_scale, log_delta = question->log_delta;
    const struct eps__accuracy accuracy = {isnan(log_delta) ? EPS_SOLVE_DELTA : EPS_SOLVE_EPSILON,
                                           phase->job.query.accountant.tolerance, log_delta};
    struct eps__profile *profile = NULL;
    *value = INFINITY;
    if (sigma < candidate->least_sigma(&phase->setting))
        return EPS_OK;
    enum eps_status status = candidate->open(&phase->setting, sigma, &accuracy, &profile, error);
    if (status != EPS_OK)
        return status == EPS_TOO_COSTLY ? EPS_OK : status;
    status = isnan(log_delta) ? profile->class->approximate(profile, direction, question->eps, value)
                              : profile->class->guess(profile, direction, log_delta, value);
    profile->class->destroy(profile);
    if (status == EPS_TOO_COSTLY || isnan(*value))
        *value = INFINITY;
    return status == EPS_TOO_COSTLY ? EPS_OK : status;
}

enum eps_status eps__training_choose(struct eps__training *training, struct eps_error *error, double sigma,
                                     double log_delta, double eps, bool *changed)
{
    const struct question question = {sigma, log_delta, eps};
    *changed = false;
    for (size_t k = 0; k < training->len; k++) {
        const struct eps__accountant *candidates[EPS__ACCOUNTANTS_MAX];
        struct eps__phase *phase = &training->phases[k];
        size_t len = eps__training_candidates(phase, candidates, error);
        if (len == 0)
            return EPS_UNSUPPORTED;
        if (len == 1)
            continue;
        for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++) {
            const struct eps__accountant *best = phase->accountants[direction];
            double least = INFINITY;
            for (size_t i = 0; i < len; i++) {
                double value;
                enum eps_status status = judge(phase, candidates[i], direction, &question, &value, error);
                if (status != EPS_OK)
                    return eps__phase_error(error, phase, status);
                if (value < least) {
                    least = value;
                    best = candidates[i];
                }
            }
            *changed = use_accountant(phase, direction, best) || *changed;
        }
    }
    return EPS_OK;
}

void eps__training_restore(struct eps__training *training, const struct eps__accountant *accountants[][EPS_DIRECTIONS])
{
    for (size_t k = 0; k < training->len; k++)
        for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++)
            use_accountant(&training->phases[k], d, accountants[k][d]);
}

/* ------------------------------------------------------------ the whole training */

struct eps__setting eps__training_setting(struct eps__training *training)
{
    struct eps__setting setting = {.context = training->context,
                                   .job = training->job,
                                   .sensitivity_known = true,
                                   .absence = eps__absence_nowhere(),
                                   .p = NAN,
                                   .training = training};
    for (size_t k = 0; k < training->len; k++) {
        const struct eps__phase *phase = &training->phases[k];
        if (phase->count == 0)
            continue;
        setting.sensitivity.value = fmax(setting.sensitivity.value, phase->trivial ? 0 : 1);
        eps__absence_join(&setting.absence, &phase->setting.absence, phase->count);
    }
    return setting;
}
