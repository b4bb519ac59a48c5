/*
 * What the tables cannot say stands here: how members fit each other.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "tests/generate/job.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "api/codec/fields.h"
#include "tests/unit/draw.h"

enum { DENSE_MOST = 48, BINS_MOST = 1000, COEFFICIENTS_MOST = 5000, BUFFERS_MOST = 16, WEIGHTS_MOST = 40 };

struct maker {
    const struct knobs *knobs;
    uint64_t *state;
};

static bool chance(const struct maker *maker, double p)
{
    return p > 0 && draw_unit(maker->state) < p;
}

static bool breaks(const struct maker *maker)
{
    return chance(maker, maker->knobs->broken);
}

static size_t below(const struct maker *maker, size_t bound)
{
    return (size_t)draw_below(maker->state, bound);
}

static unsigned weighted(const struct maker *maker, const unsigned char *weights, unsigned len)
{
    uint64_t sum = 0;
    unsigned i = 0;
    for (unsigned k = 0; k < len; k++)
        sum += weights[k];
    for (uint64_t left = draw_below(maker->state, sum); left >= weights[i]; i++)
        left -= weights[i];
    return i;
}

/* In [1, most], evenly in its logarithm, but for what breaks that. */
static uint64_t magnitude(const struct maker *maker, uint64_t most)
{
    if (breaks(maker))
        return chance(maker, 0.5) ? 0 : (uint64_t)1 << below(maker, 54);
    uint64_t top = most > 0 ? most : 1, drawn = (uint64_t)draw_log(maker->state, 1, (double)top + 1);
    return drawn < top ? drawn : top;
}

/* The same, half of them evenly. */
static uint64_t count(const struct maker *maker, uint64_t most)
{
    return most > 0 && chance(maker, 0.5) ? 1 + draw_below(maker->state, most) : magnitude(maker, most);
}

/* From a number at random down to the next divisor of n. */
static size_t divisor(const struct maker *maker, size_t n, size_t most)
{
    size_t drawn = n > 0 ? 1 + below(maker, n < most ? n : most) : 1;
    while (n % drawn && !breaks(maker))
        drawn--;
    return drawn;
}

/* A separation at which so many epochs fit into n steps; as whole turns. */
static size_t fitting(const struct maker *maker, size_t n, size_t epochs, bool whole)
{
    size_t most = epochs > 1 && epochs <= n ? (whole ? n / epochs : (n - 1) / (epochs - 1)) : n;
    return 1 + below(maker, breaks(maker) ? 2 * most : most);
}

static bool has(const struct eps__object *object, size_t offset, unsigned variant)
{
    return eps__members_has(object, offset, variant);
}

/* ------------------------------------------------------------ the matrix */

static double entry(const struct maker *maker, bool signs)
{
    uint64_t *state = maker->state;
    double size = chance(maker, 0.15)                ? 0
                  : chance(maker, 0.15)              ? 1
                  : chance(maker, maker->knobs->far) ? draw_log(state, 1e-12, 1e3)
                  : chance(maker, 0.2)               ? draw_log(state, 1e-3, 1)
                                                     : draw_between(state, 0.1, 1);
    return size > 0 && signs && chance(maker, 0.45) ? -size : size;
}

/* The first is not 0. */
static double *list(const struct maker *maker, size_t len, bool signs)
{
    double *values = calloc(len, sizeof *values);
    assert(values);
    for (size_t i = 0; i < len; i++)
        values[i] = entry(maker, signs);
    values[0] = draw_between(maker->state, 0.2, 1);
    if (breaks(maker))
        values[below(maker, len)] = chance(maker, 0.25) ? NAN : draw_log(maker->state, 1e-300, 1e300);
    return values;
}

/* Lower triangular, banded or not, without zeros on the diagonal. */
static double *rows(const struct maker *maker, size_t n, bool signs)
{
    size_t bands = chance(maker, 0.5) ? n : 1 + below(maker, n);
    double *values = list(maker, n * n, signs);
    bool square = breaks(maker);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            if (!square && (j >= i || i - j >= bands))
                values[i * n + j] = i == j ? draw_between(maker->state, 0.2, 1) : 0;
    return values;
}

static void draw_blt(const struct maker *maker, struct eps_matrix *matrix, bool signs)
{
    size_t len = 1 + below(maker, chance(maker, 0.7) ? 3 : (size_t)BUFFERS_MOST + breaks(maker));
    double *decay = list(maker, len, false), *scale = list(maker, len, signs);
    for (size_t i = 0; i < len; i++) {
        if (!breaks(maker))
            decay[i] =
                chance(maker, 0.7) ? draw_between(maker->state, 0.05, 0.99) : 1 - draw_log(maker->state, 1e-16, 0.5);
        scale[i] *= 0.4;
    }
    matrix->blt_len = len;
    matrix->decay = decay;
    matrix->scale = scale;
}

/* The numbers that the family has. */
static void draw_numbers(const struct maker *maker, struct eps_matrix *matrix, size_t block, bool signs)
{
    const struct eps__object *object = &eps__matrix_object;
    unsigned family = matrix->family;
    if (has(object, offsetof(struct eps_matrix, coefficients), family)) {
        matrix->coefficients_len = 1 + (size_t)(count(maker, block) + COEFFICIENTS_MOST - 1) % COEFFICIENTS_MOST;
        matrix->coefficients = list(maker, matrix->coefficients_len, signs);
    }
    if (has(object, offsetof(struct eps_matrix, rows), family)) {
        matrix->rows_n = block;
        matrix->rows = rows(maker, block, signs);
    }
    if (has(object, offsetof(struct eps_matrix, bands), family) &&
        (family != EPS_FAMILY_SQUARE_ROOT || chance(maker, 0.5)))
        matrix->bands = count(maker, block);
    if (has(object, offsetof(struct eps_matrix, decay), family)) {
        if (chance(maker, 0.5)) {
            draw_blt(maker, matrix, signs);
            return;
        }
        matrix->buffers = count(maker, block < BUFFERS_MOST ? block : BUFFERS_MOST);
    }
    if (has(object, offsetof(struct eps_matrix, epochs), family) && chance(maker, maker->knobs->target)) {
        matrix->epochs = count(maker, block);
        matrix->separation = fitting(maker, block, matrix->epochs, false);
    }
    if (family == EPS_FAMILY_BANDED && !matrix->toeplitz && !breaks(maker)) {
        matrix->column_normalize = false;
        matrix->epochs = 1; /* bands that overlap no others */
        matrix->separation = 0;
    }
}

/* True if it is to be computed first. */
static bool draw_matrix(const struct maker *maker, struct eps_mechanism *mechanism, bool sampled)
{
    struct eps_matrix *matrix = &mechanism->matrix;
    const struct knobs *knobs = maker->knobs;
    bool stored = false;
    do {
        matrix->family = (enum eps_family)weighted(maker, knobs->families, EPS_FAMILY_COUNT);
        if (matrix->family == EPS_FAMILY_STORED && knobs->stores && !chance(maker, 0.02)) {
            matrix->family = (enum eps_family)weighted(maker, knobs->families, EPS_FAMILY_STORED);
            stored = true;
        }
    } while (matrix->family == EPS_FAMILY_FOURIER && sampled && !breaks(maker));
    members_draw(&eps__matrix_object, matrix, &knobs->members, maker->state);
    if (!breaks(maker)) /* a search of many seconds, which few jobs allow */
        matrix->optimize_for = EPS_OPTIMIZE_FOR_ERROR;
    bool dense = matrix->family == EPS_FAMILY_DENSE || matrix->family == EPS_FAMILY_OPTIMAL ||
                 (matrix->family == EPS_FAMILY_BANDED && !matrix->toeplitz);
    if (dense && mechanism->n > DENSE_MOST)
        mechanism->n = 1 + mechanism->n % DENSE_MOST;
    matrix->stamps = chance(maker, knobs->stamps) ? divisor(maker, mechanism->n, mechanism->n) : 1;
    if (matrix->normalization == EPS_NORMALIZATION_SENSITIVITY && sampled && !breaks(maker))
        matrix->normalization = EPS_NORMALIZATION_NONE;
    if (matrix->family == EPS_FAMILY_STORED)
        memset(matrix->stored_id, "0123456789abcdef"[below(maker, 16)], 64);
    size_t block = mechanism->n / matrix->stamps;
    draw_numbers(maker, matrix, block ? block : 1, chance(maker, knobs->signs[sampled]));
    return stored;
}

static void draw_workload(const struct maker *maker, struct eps_mechanism *mechanism)
{
    struct eps_workload *workload = &mechanism->workload;
    const struct eps_matrix *matrix = &mechanism->matrix;
    bool toeplitz = has(&eps__matrix_object, offsetof(struct eps_matrix, bands), matrix->family) ||
                    matrix->family == EPS_FAMILY_BLT;
    workload->type = (enum eps_workload_type)weighted(maker, maker->knobs->workloads, EPS_WORKLOAD_COUNT);
    workload->cooldown = workload->type == EPS_WORKLOAD_MOMENTUM && (!toeplitz || breaks(maker)) &&
                         chance(maker, maker->knobs->cooldown);
    members_draw(&eps__workload_object, workload, &maker->knobs->members, maker->state);
    if (workload->type == EPS_WORKLOAD_TOEPLITZ) {
        workload->coefficients_len = 1 + below(maker, mechanism->n < WEIGHTS_MOST ? mechanism->n : WEIGHTS_MOST);
        workload->coefficients = list(maker, workload->coefficients_len, chance(maker, 0.3));
    }
}

/* ------------------------------------------------------------ the sampling */

/* p or what it follows from, of one of `parts` of the data set. */
static void draw_probability(const struct maker *maker, struct eps_sampling *sampling, uint64_t parts)
{
    const struct knobs *knobs = maker->knobs;
    double which = draw_unit(maker->state);
    if (chance(maker, knobs->sizes)) {
        uint64_t each = 1 + magnitude(maker, knobs->dataset_most / parts);
        sampling->dataset_size = each * parts + draw_below(maker->state, parts);
        sampling->batch_size = count(maker, each);
    } else if (which < 0.35) {
        sampling->p = draw_log(maker->state, knobs->least_p, 1);
    } else if (which < 0.5) {
        sampling->p = 1 - draw_log(maker->state, 1e-16, 0.1);
    } else if (which < 0.57) {
        sampling->p = 1;
    } else {
        sampling->p = draw_between(maker->state, 0.01, 0.99);
    }
    if (breaks(maker))
        sampling->p = draw_log(maker->state, 1e-30, 1e3);
}

/* Often near to what is expected of a part of the data set. */
static void draw_truncation(const struct maker *maker, struct eps_sampling *sampling, uint64_t parts)
{
    sampling->truncation = true;
    if (sampling->dataset_size == 0)
        sampling->dataset_size =
            parts * magnitude(maker, maker->knobs->dataset_most / parts) + draw_below(maker->state, parts);
    double size = (double)(sampling->dataset_size / parts);
    double p = isnan(sampling->p) ? (double)sampling->batch_size / size : fmin(fmax(sampling->p, 0), 1);
    double near = p * size + (12 * draw_unit(maker->state) - 4) * sqrt(p * size) + 1;
    sampling->max_batch_size =
        chance(maker, 0.6) && near >= 1 && near <= size ? (uint64_t)near : count(maker, sampling->dataset_size / parts);
}

static void draw_epochs(const struct maker *maker, struct eps_mechanism *mechanism)
{
    struct eps_sampling *sampling = &mechanism->sampling;
    bool shuffled = sampling->schema == EPS_SCHEMA_SHUFFLED;
    if (!shuffled && chance(maker, maker->knobs->sizes)) {
        sampling->dataset_size = magnitude(maker, maker->knobs->dataset_most);
        sampling->batch_size = count(maker, sampling->dataset_size);
        sampling->schema = EPS_SCHEMA_MIN_SEPARATION;
        return;
    }
    sampling->epochs = count(maker, mechanism->n);
    if (chance(maker, 0.7))
        sampling->separation = fitting(maker, mechanism->n, sampling->epochs, shuffled);
}

static void draw_bins(const struct maker *maker, struct eps_mechanism *mechanism)
{
    struct eps_sampling *sampling = &mechanism->sampling;
    sampling->bins = divisor(maker, mechanism->n, BINS_MOST);
    if (chance(maker, maker->knobs->sizes)) {
        sampling->batch_size = magnitude(maker, maker->knobs->dataset_most / sampling->bins);
        sampling->dataset_size = sampling->bins * sampling->batch_size;
        if (sampling->batch_size > 0)
            sampling->dataset_size += draw_below(maker->state, sampling->batch_size);
        sampling->bins = 0;
    }
}

/* Additions go together only as derived. */
static void draw_additions(const struct maker *maker, struct eps_mechanism *mechanism, uint64_t parts)
{
    struct eps_sampling *sampling = &mechanism->sampling;
    const struct knobs *knobs = maker->knobs;
    bool identity = mechanism->matrix.family == EPS_FAMILY_IDENTITY;
    bool users = has(&eps__sampling_object, offsetof(struct eps_sampling, examples_per_user), sampling->scheme);
    bool unserved = (sampling->scheme == EPS_SCHEME_POISSON && !identity) || sampling->scheme == EPS_SCHEME_B_MIN_SEP;
    if (chance(maker, knobs->truncation) && !(unserved && chance(maker, knobs->served)))
        draw_truncation(maker, sampling, parts);
    if (users && (!sampling->truncation || breaks(maker)) &&
        chance(maker, unserved ? knobs->user / (1 + 2 * knobs->served) : knobs->user))
        sampling->examples_per_user = chance(maker, 0.6) ? 1 + below(maker, 3) : magnitude(maker, knobs->users_most);
    sampling->last_iterate = sampling->last_iterate && ((identity && !sampling->truncation) || breaks(maker));
    sampling->warm_start = sampling->warm_start && (sampling->examples_per_user == 1 || breaks(maker));
}

static void draw_sampling(const struct maker *maker, struct eps_mechanism *mechanism)
{
    struct eps_sampling *sampling = &mechanism->sampling;
    const struct eps__object *object = &eps__sampling_object;
    members_draw(object, sampling, &maker->knobs->members, maker->state);
    if (sampling->scheme == EPS_SCHEME_NONE) {
        draw_epochs(maker, mechanism);
    } else if (sampling->scheme == EPS_SCHEME_BALLS_IN_BINS) {
        draw_bins(maker, mechanism);
    } else {
        uint64_t *parts = sampling->scheme == EPS_SCHEME_B_MIN_SEP ? &sampling->separation : &sampling->groups;
        bool parted = sampling->scheme != EPS_SCHEME_POISSON;
        if (parted && !chance(maker, maker->knobs->omitted))
            *parts = count(maker, chance(maker, 0.9) ? mechanism->n : 2 * mechanism->n);
        draw_probability(maker, sampling, *parts ? *parts : 1);
        draw_additions(maker, mechanism, *parts && sampling->scheme == EPS_SCHEME_CYCLIC_POISSON ? *parts : 1);
    }
    if (sampling->batch_size > 0 && chance(maker, maker->knobs->passes)) {
        mechanism->epochs = (double)mechanism->n * (double)sampling->batch_size / (double)sampling->dataset_size;
        mechanism->n = 0;
    }
}

/* ------------------------------------------------------------ the question */

static double spanned(const struct maker *maker, const struct span spans[2])
{
    const struct span *span = &spans[chance(maker, 0.2)];
    if (breaks(maker))
        return chance(maker, 0.5) ? -span->low : 2 * span->high;
    return draw_log(maker->state, span->low, span->high);
}

/* What mmcc refuses is no truth to be held against. */
static bool mmcc_serves(const struct eps_mechanism *mechanism)
{
    const struct eps_sampling *sampling = &mechanism->sampling;
    return sampling->scheme != EPS_SCHEME_NONE && !sampling->truncation && sampling->examples_per_user <= 1 &&
           mechanism->adjacency != EPS_ADJACENCY_REPLACE_ONE;
}

static void draw_tuning(const struct maker *maker, struct generated *generated)
{
    const struct eps_mechanism *mechanism = &generated->job.mechanism;
    struct eps_query *query = &generated->job.query;
    struct eps_tuning *tuning = &query->accountant;
    const struct knobs *knobs = maker->knobs;
    tuning->method =
        (enum eps_accountant)weighted(maker, knobs->methods[mechanism->sampling.scheme], EPS_ACCOUNTANT_COUNT);
    if (mechanism->sampling.scheme == EPS_SCHEME_POISSON && mechanism->matrix.family == EPS_FAMILY_TREE &&
        chance(maker, 0.6 * knobs->served))
        tuning->method = EPS_ACCOUNTANT_RENYI;
    if (tuning->method == EPS_ACCOUNTANT_MMCC && !mmcc_serves(mechanism) && chance(maker, knobs->served))
        tuning->method = EPS_ACCOUNTANT_AUTO;
    if (query->curve && tuning->method > EPS_ACCOUNTANT_PLD && tuning->method != EPS_ACCOUNTANT_RENYI && !breaks(maker))
        tuning->method = EPS_ACCOUNTANT_AUTO;
    members_draw(&eps__tuning_object, tuning, &knobs->tuning, maker->state);
    if ((query->curve || generated->phases) && !breaks(maker))
        tuning->audit = 0;
    if (tuning->samples > 0 && !breaks(maker)) { /* the share of a threshold follows */
        tuning->threshold_share = 0.5;
        tuning->given &= ~(1u << EPS_TUNING_THRESHOLD_SHARE);
    }
}

static void draw_query(const struct maker *maker, struct generated *generated)
{
    const struct knobs *knobs = maker->knobs;
    struct eps_query *query = &generated->job.query;
    enum eps_unknown unknown =
        chance(maker, knobs->curve) ? EPS_SOLVE_CURVE : (enum eps_unknown)draw_below(maker->state, 3);
    query->epsilon = chance(maker, 0.08) ? 0 : spanned(maker, knobs->epsilon);
    query->delta = spanned(maker, knobs->delta);
    query->noise_multiplier = spanned(maker, knobs->noise);
    if (chance(maker, 0.05)) { /* e^epsilon may be no double */
        query->epsilon = draw_log(maker->state, 300, 1e4);
        query->noise_multiplier = draw_log(maker->state, 6e-3, 0.1);
    }
    query->curve = unknown == EPS_SOLVE_CURVE;
    if (unknown == EPS_SOLVE_EPSILON || query->curve)
        query->epsilon = NAN;
    if (unknown == EPS_SOLVE_DELTA || query->curve)
        query->delta = NAN;
    if (unknown == EPS_SOLVE_NOISE_MULTIPLIER)
        query->noise_multiplier = NAN;
    draw_tuning(maker, generated);
}

/* ------------------------------------------------------------ one mechanism, or several */

/* Returns whether the matrix is to be computed first. */
static bool draw_mechanism(const struct maker *maker, struct eps_mechanism *mechanism)
{
    const struct knobs *knobs = maker->knobs;
    double which = draw_unit(maker->state);
    size_t i = 0;
    while ((which -= knobs->steps[i].share) >= 0 && i < 3)
        i++;
    mechanism->n = 1 + below(maker, knobs->steps[i].most);
    mechanism->sampling.scheme = (enum eps_scheme)weighted(maker, knobs->schemes, EPS_SCHEME_COUNT);
    mechanism->adjacency = (enum eps_adjacency)below(maker, EPS_ADJACENCY_COUNT);
    bool stored = draw_matrix(maker, mechanism, mechanism->sampling.scheme != EPS_SCHEME_NONE);
    draw_workload(maker, mechanism);
    draw_sampling(maker, mechanism);
    return stored;
}

/* What all phases have in common: a user's examples, where all take them. */
static void draw_phases(const struct maker *maker, struct generated *generated)
{
    struct eps_job *job = &generated->job;
    size_t len = 1 + below(maker, 4);
    bool users = true;
    job->phases_len = len;
    job->phases = generated->phases = calloc(len, sizeof *generated->phases);
    assert(generated->phases);
    job->mechanism.adjacency = (enum eps_adjacency)below(maker, EPS_ADJACENCY_COUNT);
    uint64_t before = *maker->state;
    for (size_t i = 0; i < len; i++) {
        uint64_t once_more = before;
        const struct maker again = {maker->knobs, &once_more}, *drawer = i > 0 && chance(maker, 0.2) ? &again : maker;
        before = drawer == maker ? *maker->state : before;
        struct eps_phase *phase = &generated->phases[i];
        struct eps_sampling *sampling = &phase->mechanism.sampling;
        eps_phase_init(phase);
        draw_mechanism(drawer, &phase->mechanism);
        phase->noise_scale = chance(drawer, 0.5) ? 1 : draw_log(drawer->state, 0.1, 10);
        phase->count = chance(drawer, 0.5) ? 1 : count(drawer, 1000);
        users = users && !sampling->truncation && !sampling->last_iterate &&
                has(&eps__sampling_object, offsetof(struct eps_sampling, examples_per_user), sampling->scheme);
    }
    job->mechanism.sampling.examples_per_user = users || breaks(maker) ? 1 + below(maker, 4) : 1;
    for (size_t i = 0; i < len; i++) {
        struct eps_mechanism *mechanism = &generated->phases[i].mechanism;
        mechanism->adjacency = job->mechanism.adjacency;
        mechanism->sampling.examples_per_user = job->mechanism.sampling.examples_per_user;
        mechanism->sampling.warm_start =
            mechanism->sampling.warm_start && (mechanism->sampling.examples_per_user == 1 || breaks(maker));
    }
}

/* All three are given, and what keeps them is asked for. */
static void draw_largest(const struct maker *maker, struct generated *generated)
{
    struct eps_job *job = &generated->job;
    struct eps_query *query = &job->query;
    if (generated->phases) {
        generated->phases[below(maker, job->phases_len)].count = EPS_LARGEST;
    } else {
        eps__members_free(&eps__matrix_object, &job->mechanism.matrix);
        job->mechanism.matrix = (struct eps_matrix){.family = EPS_FAMILY_IDENTITY, .stamps = 1};
        job->mechanism.n = EPS_LARGEST;
        job->mechanism.epochs = NAN;
        generated->stored = job->mechanism.sampling.last_iterate = false;
    }
    query->curve = false;
    query->epsilon = isnan(query->epsilon) ? spanned(maker, maker->knobs->epsilon) : query->epsilon;
    query->delta = isnan(query->delta) ? spanned(maker, maker->knobs->delta) : query->delta;
    query->noise_multiplier =
        isnan(query->noise_multiplier) ? spanned(maker, maker->knobs->noise) : query->noise_multiplier;
}

/* Numbers anew, out to the ends: few or all, seldom or often at an end, and mostly nowhere else. */
static void draw_extremes(const struct maker *maker, struct generated *generated)
{
    const double shares[] = {0.1, 0.5, 1}, ends[] = {0.02, 0.1, 0.5}, any[] = {0, 0, 0, 0.01, 0.03, 0.2, 1};
    const struct drawing all = {.within = shares[below(maker, 3)],
                                .at_end = ends[below(maker, 3)],
                                .anywhere = any[below(maker, 7)],
                                .coupled = 1,
                                .absent = 0.2,
                                .names = 0.3};
    members_draw(&api__job_object, &generated->job, &all, maker->state);
    if (!generated->phases && !isnan(generated->job.mechanism.epochs) && chance(maker, 0.8))
        generated->job.mechanism.n = 0; /* which follows from epochs */
}

uint64_t generate_state(uint64_t seed)
{
    uint64_t state = seed;
    for (int i = 0; i < 2; i++)
        state = draw_below(&state, UINT64_MAX);
    return state;
}

void generate_job(struct generated *generated, const struct knobs *knobs, uint64_t *state)
{
    const struct maker maker = {knobs, state};
    *generated = (struct generated){0};
    eps_job_init(&generated->job);
    if (chance(&maker, knobs->phases))
        draw_phases(&maker, generated);
    else
        generated->stored = draw_mechanism(&maker, &generated->job.mechanism);
    draw_query(&maker, generated);
    if (chance(&maker, knobs->largest))
        draw_largest(&maker, generated);
    if (knobs->extreme)
        draw_extremes(&maker, generated);
}

void generated_free(struct generated *generated)
{
    for (size_t i = 0; generated->phases && i < generated->job.phases_len; i++)
        eps__members_free(&eps__mechanism_object, &generated->phases[i].mechanism);
    eps__members_free(&eps__mechanism_object, &generated->job.mechanism);
    free(generated->phases);
    *generated = (struct generated){0};
}
