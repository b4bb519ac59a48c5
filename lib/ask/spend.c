/*
 * The epsilon that a training has spent at delta after each phase and in between, where what was released so far is a
 * mechanism that can be accounted for: whole runs, and steps with independent noise and independent sampling.
 *
 * A training that stops between two points has spent at most what the later point says, because what it released is a
 * function of what is released by that point. A phase that releases only its last iterate is an exception: an earlier
 * iterate is not a function of the last one and may reveal more. Inside such a phase every iterate is counted as
 * released; each iterate is a function of these.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "lib/accountants/accountant.h"
#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/base/progress.h"
#include "lib/sampling/scheme.h"
#include "lib/strategy/families/family.h"
#include "lib/training/solve_phases.h"
#include "lib/training/stopped.h"
#include "lib/tuned/tuned.h"

enum { BETWEEN = 200 }; /* points between the ends of phases, at most */

#define TOLERANCE 1e-2 /* least tolerance of a point: enough for a plot */

struct spending {
    const struct eps_job *job;             /* the job, with phases */
    struct eps_phase *phases;              /* a copy of the phases up to the point, the last one cut short */
    double noise_multiplier, delta, total; /* total: number of steps */
    struct eps_spend_point *points;
    size_t len;
    /* For points between runs: the whole training, NULL until it is needed, and the runs of each phase up to there. */
    struct eps__training *training;
    struct eps_job whole;          /* its job */
    struct eps__context_part part; /* its context, moved along from point to point */
    bool chosen;                   /* whether its accountants are */
    uint64_t *counts;
};

/* Whether the first steps of a run form a shorter run: noise and sampling are independent in each step. */
static bool divisible(const struct eps_phase *phase)
{
    const struct eps_mechanism *mechanism = &phase->mechanism;
    return eps__family_of(&mechanism->matrix)->diagonal && eps__scheme_of(mechanism)->independent_rounds;
}

/* The query of every point. */
static struct eps_query query_of(const struct spending *spending)
{
    struct eps_query query = spending->job->query;
    query.curve = false;
    query.delta = spending->delta;
    query.noise_multiplier = spending->noise_multiplier;
    query.epsilon = NAN;
    query.accountant.tolerance = fmax(query.accountant.tolerance, TOLERANCE);
    return query;
}

/* The share of a context from the last point to this one. */
static const struct eps_context *part_of(struct eps__context_part *part, const struct spending *spending,
                                         const struct eps_context *context, uint64_t step)
{
    double before = spending->len > 0 ? (double)spending->points[spending->len - 1].step : 0;
    return eps__context_part(part, context, before / spending->total, (double)step / spending->total);
}

/* Adds the point after the first `phases_len` phases of spending->phases. */
static enum eps_status ask(struct spending *spending, const struct eps_context *context, size_t phases_len,
                           uint64_t step, struct eps_error *error)
{
    struct eps_job job = *spending->job;
    struct eps__context_part part;
    double epsilon;
    job.phases = spending->phases;
    job.phases_len = phases_len;
    job.query = query_of(spending);
    enum eps_status status = eps__phases_epsilon(part_of(&part, spending, context, step), &epsilon, error, &job);
    if (status == EPS_OK)
        spending->points[spending->len++] = (struct eps_spend_point){step, epsilon};
    return status;
}

/* Adds the point after the phases before `index` and `runs` runs of phase `index`, which together are several runs. */
static enum eps_status ask_between(struct spending *spending, const struct eps_context *context, size_t index,
                                   uint64_t runs, uint64_t step, struct eps_error *error)
{
    double epsilon;
    const struct eps_context *own = part_of(&spending->part, spending, context, step);
    enum eps_status status = EPS_OK;
    if (!spending->training) {
        spending->whole = *spending->job;
        spending->whole.query = query_of(spending);
        status = eps__training_open(&spending->training, error, own, &spending->whole, false);
    }
    if (status != EPS_OK)
        return status;
    for (size_t i = 0; i < spending->job->phases_len; i++)
        spending->counts[i] = i < index ? spending->job->phases[i].count : i == index ? runs : 0;
    spending->training->context = own;
    status = eps__stopped_epsilon(spending->training, spending->counts, &spending->chosen, &epsilon, error);
    if (status == EPS_OK)
        spending->points[spending->len++] = (struct eps_spend_point){step, epsilon};
    return status;
}

/* Adds the point after the phases before `index`, then `runs` runs and `steps` steps of phase `index`, every iterate
 * of which is counted as released (T6). */
static enum eps_status ask_within(struct spending *spending, const struct eps_context *context, size_t index,
                                  uint64_t first, uint64_t runs, uint64_t steps, struct eps_error *error)
{
    struct eps_phase phase = spending->job->phases[index];
    size_t len = index;
    uint64_t n = phase.mechanism.n;
    if (steps == 0 && index + runs > 1 && !phase.mechanism.sampling.last_iterate)
        return ask_between(spending, context, index, runs, first + runs * n, error);
    phase.mechanism.sampling.last_iterate = false;
    if (runs > 0) {
        spending->phases[len] = phase;
        spending->phases[len++].count = (size_t)runs;
    }
    if (steps > 0) {
        spending->phases[len] = phase;
        spending->phases[len].count = 1;
        spending->phases[len].mechanism.epochs = NAN;
        spending->phases[len].mechanism.matrix.stamps = 1; /* C is diagonal */
        spending->phases[len++].mechanism.n = (size_t)steps;
    }
    return ask(spending, context, len, first + runs * n + steps, error);
}

/* Adds the points of a phase that begins at step `first`: every `stride` steps where a point is possible; at its
 * end; and, if only the last iterate is released, at the step before the end, after which the spent epsilon may drop
 * (T6). */
static enum eps_status ask_phase(struct spending *spending, const struct eps_context *context, size_t index,
                                 uint64_t first, double stride, struct eps_error *error)
{
    const struct eps_phase *phase = &spending->job->phases[index];
    uint64_t n = phase->mechanism.n, end = first + n * phase->count, last = first;
    enum eps_status status = EPS_OK;
    for (uint64_t k = (uint64_t)((double)first / stride) + 1; status == EPS_OK; k++) {
        uint64_t step = (uint64_t)nearbyint((double)k * stride);
        if (step >= end)
            break;
        uint64_t runs = (step - first) / n, steps = divisible(phase) ? (step - first) % n : 0;
        step = first + runs * n + steps;
        if (step <= last)
            continue;
        last = step;
        status = ask_within(spending, context, index, first, runs, steps, error);
    }
    if (status == EPS_OK && phase->mechanism.sampling.last_iterate && last + 1 < end)
        status = ask_within(spending, context, index, first, (end - 1 - first) / n, (end - 1 - first) % n, error);
    spending->phases[index] = *phase;
    if (status != EPS_OK)
        return status;
    return index + phase->count > 1 ? ask_between(spending, context, index, phase->count, end, error)
                                    : ask(spending, context, index + 1, end, error);
}

static enum eps_status given_spend(const struct eps_context *context, struct eps_spend_point **points, size_t *len,
                                   struct eps_error *error, const struct eps_job *job, double noise_multiplier,
                                   double delta)
{
    struct eps_phase only = {.mechanism = job->mechanism, .noise_scale = 1, .count = 1};
    struct eps_job phased = *job;
    if (eps_job_unknown(job) == EPS_SOLVE_N || eps_job_unknown(job) == EPS_SOLVE_RUNS)
        return eps__error(error, EPS_UNSUPPORTED, "", "n or count is \"max\": replace it with the answer of the job");
    const struct eps__accountant *accountant = eps__accountant_find(job->query.accountant.method);
    if (accountant && accountant->solve)
        return eps__error(error, EPS_UNSUPPORTED, "/accountant/method",
                          "%s does not account for parts of a job; use a deterministic accountant", accountant->name);
    if (!(noise_multiplier > 0) || !(delta > 0) || !(delta < 1))
        return eps__error(error, EPS_UNATTAINABLE, "", "needs a noise multiplier over 0 and a delta in (0, 1)");
    if (job->phases_len == 0) {
        phased.phases = &only;
        phased.phases_len = 1;
        phased.mechanism.n = 0;
        phased.mechanism.epochs = NAN;
    }
    struct spending spending = {.job = &phased, .noise_multiplier = noise_multiplier, .delta = delta};
    for (size_t i = 0; i < phased.phases_len; i++)
        spending.total += (double)phased.phases[i].mechanism.n * (double)phased.phases[i].count;
    spending.phases = calloc(phased.phases_len + 2, sizeof *spending.phases);
    spending.counts = calloc(phased.phases_len, sizeof *spending.counts);
    spending.points = calloc(BETWEEN + 2 * phased.phases_len + 1, sizeof *spending.points);
    enum eps_status status = spending.phases && spending.counts && spending.points
                                 ? EPS_OK
                                 : eps__error(error, EPS_NO_MEMORY, "", "out of memory");
    uint64_t first = 0;
    for (size_t i = 0; i < phased.phases_len && status == EPS_OK; i++) {
        spending.phases[i] = phased.phases[i];
        status = ask_phase(&spending, context, i, first, spending.total / (BETWEEN + 1), error);
        first += phased.phases[i].mechanism.n * phased.phases[i].count;
    }
    assert(status != EPS_OK || (double)first == spending.total);
    eps__training_close(spending.training);
    free(spending.phases);
    free(spending.counts);
    if (status != EPS_OK) {
        free(spending.points);
        return status;
    }
    *points = spending.points;
    *len = spending.len;
    return EPS_OK;
}

enum eps_status eps_spend(const struct eps_context *context, struct eps_spend_point **points, size_t *len,
                          struct eps_error *error, const struct eps_job *job, double noise_multiplier, double delta)
{
    struct eps__tuned tuned;
    struct eps__first_violation first = {error, false};
    if (!eps__is_tuned(job))
        return given_spend(context, points, len, error, job, noise_multiplier, delta);
    if (eps_job_check(job, 0, eps__keep_first, &first) > 0)
        return EPS_INVALID;
    enum eps_status status = eps__tune(context, &tuned, error, job);
    if (status != EPS_OK)
        return status;
    status = given_spend(context, points, len, error, &tuned.job, noise_multiplier, delta);
    eps__tuned_clear(&tuned);
    return status;
}
