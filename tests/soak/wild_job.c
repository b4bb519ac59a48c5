/*
 * Numbers are mostly drawn evenly in their logarithm over all of their range, often are an end of it or next to one,
 * and sometimes lie outside.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "tests/soak/wild_job.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tests/soak/extremes.h"
#include "tests/unit/draw.h"

#define OUTSIDE 0.001 /* how often a number is out of its range */

static bool chance(uint64_t *state, double p)
{
    return draw_unit(state) < p;
}

static double outside(uint64_t *state, double low, double high)
{
    const double wrong[] = {0, -0.0, -1, -low, 2 * high, nextafter(high, INFINITY), INFINITY, -INFINITY, 1e308, 5e-324};
    return wrong[draw_below(state, sizeof wrong / sizeof *wrong)];
}

/* In [low, high], low > 0, but for what lies outside. */
static double wild_real(uint64_t *state, double low, double high)
{
    double which = draw_unit(state);
    if (which < OUTSIDE)
        return outside(state, low, high);
    if (which < 0.04)
        return low;
    if (which < 0.08)
        return high;
    if (which < 0.10)
        return nextafter(low, high);
    if (which < 0.12)
        return nextafter(high, low);
    return draw_log(state, low, high);
}

static uint64_t wild_count(uint64_t *state, uint64_t most)
{
    if (chance(state, OUTSIDE))
        return chance(state, 0.5) ? 0 : (uint64_t)1 << draw_below(state, 54);
    double top = (double)(most > 0 ? most : 1);
    uint64_t count = (uint64_t)draw_log(state, 1, top + 1);
    return count > most ? most : count;
}

/* ------------------------------------------------------------ the matrix */

static double wild_entry(uint64_t *state, bool signs)
{
    double which = draw_unit(state), size = which < 0.2    ? 0
                                            : which < 0.7  ? draw_unit(state)
                                            : which < 0.85 ? 1
                                            : which < 0.99 ? draw_log(state, 1e-12, 1e3)
                                                           : draw_log(state, 1e-320, 1e300);
    return signs && chance(state, 0.5) ? -size : size;
}

static double *wild_list(uint64_t *state, size_t len, bool signs)
{
    double *list = calloc(len + 1, sizeof *list);
    for (size_t i = 0; list && i < len; i++)
        list[i] = wild_entry(state, signs);
    if (list && len > 0 && chance(state, 0.005))
        list[draw_below(state, len)] = chance(state, 0.5) ? NAN : INFINITY;
    return list;
}

static void wild_rows(uint64_t *state, struct wild_job *wild, size_t block, bool signs)
{
    bool square = chance(state, 0.05);
    size_t bands = chance(state, 0.5) ? block : 1 + draw_below(state, block);
    wild->rows = wild_list(state, block * block, signs);
    for (size_t i = 0; wild->rows && i < block; i++)
        for (size_t j = 0; j < block; j++)
            if (!square && (j > i || i - j >= bands))
                wild->rows[i * block + j] = 0;
    wild->job.mechanism.matrix.rows = wild->rows;
    wild->job.mechanism.matrix.rows_n = block;
}

/* A separation at which so many epochs fit into n steps, nearly always. */
static size_t fitting(uint64_t *state, size_t n, size_t epochs)
{
    size_t most = epochs > 1 && epochs <= n ? (n - 1) / (epochs - 1) : n;
    return 1 + draw_below(state, chance(state, OUTSIDE) ? 2 * most : most);
}

static void wild_target(uint64_t *state, struct eps_matrix *matrix, size_t block)
{
    matrix->objective = chance(state, 0.5) ? EPS_OBJECTIVE_MEAN_SQUARED : EPS_OBJECTIVE_MAX_SQUARED;
    if (chance(state, 0.4))
        matrix->gap = wild_real(state, 1e-12, 0.999);
    if (chance(state, 0.4)) {
        matrix->epochs = wild_count(state, block);
        matrix->separation = fitting(state, block, matrix->epochs);
    }
}

static void wild_blt(uint64_t *state, struct wild_job *wild, size_t block, bool signs)
{
    struct eps_matrix *matrix = &wild->job.mechanism.matrix;
    if (chance(state, 0.5)) {
        matrix->buffers = wild_count(state, block < 16 ? block : 16);
        wild_target(state, matrix, block);
        return;
    }
    matrix->blt_len = 1 + draw_below(state, 17);
    for (size_t i = 0; i < matrix->blt_len; i++) {
        wild->decay[i] = chance(state, OUTSIDE) ? wild_entry(state, true)
                         : chance(state, 0.5)   ? draw_unit(state)
                                                : 1 - draw_log(state, 1e-16, 0.5);
        wild->scale[i] = wild_entry(state, signs);
    }
    matrix->decay = wild->decay;
    matrix->scale = wild->scale;
}

static void wild_family(uint64_t *state, struct wild_job *wild, size_t block, bool signs)
{
    struct eps_matrix *matrix = &wild->job.mechanism.matrix;
    switch (matrix->family) {
    case EPS_FAMILY_TOEPLITZ:
        matrix->coefficients_len = wild_count(state, block) % 5000;
        wild->coefficients = wild_list(state, matrix->coefficients_len, signs);
        matrix->coefficients = wild->coefficients;
        break;
    case EPS_FAMILY_DENSE:
        wild_rows(state, wild, block, signs);
        break;
    case EPS_FAMILY_BLT:
        wild_blt(state, wild, block, signs);
        break;
    case EPS_FAMILY_SQUARE_ROOT:
        matrix->bands = chance(state, 0.5) ? 0 : wild_count(state, block);
        break;
    case EPS_FAMILY_BANDED:
        matrix->toeplitz = chance(state, 0.7);
        matrix->column_normalize = matrix->toeplitz && chance(state, 0.3);
        matrix->bands = wild_count(state, block);
        wild_target(state, matrix, block);
        break;
    case EPS_FAMILY_INVERSE_SQUARE_ROOT:
    case EPS_FAMILY_BANDED_INVERSE:
        matrix->bands = wild_count(state, block);
        wild_target(state, matrix, block);
        break;
    case EPS_FAMILY_OPTIMAL:
        matrix->nonnegative = chance(state, 0.7);
        wild_target(state, matrix, block);
        break;
    case EPS_FAMILY_TREE:
        matrix->decoder = chance(state, 0.5) ? EPS_DECODER_ONLINE : EPS_DECODER_FULL;
        break;
    case EPS_FAMILY_FOURIER:
        matrix->decoder = chance(state, 0.5) ? EPS_DECODER_OPTIMAL : EPS_DECODER_STANDARD;
        break;
    case EPS_FAMILY_STORED: /* unknown */
        memset(matrix->stored_id, "0123456789abcdef"[draw_below(state, 16)], 64);
        break;
    case EPS_FAMILY_IDENTITY:
    case EPS_FAMILY_COUNT:
        break;
    }
}

static void wild_matrix(uint64_t *state, struct wild_job *wild, bool sampled)
{
    struct eps_mechanism *mechanism = &wild->job.mechanism;
    struct eps_matrix *matrix = &mechanism->matrix;
    matrix->family = (enum eps_family)draw_below(state, EPS_FAMILY_COUNT);
    if (matrix->family == EPS_FAMILY_STORED && !chance(state, 0.02)) {
        matrix->family = (enum eps_family)draw_below(state, EPS_FAMILY_STORED);
        wild->stored = true;
    }
    if (matrix->family == EPS_FAMILY_FOURIER && sampled && !chance(state, 0.05))
        matrix->family = EPS_FAMILY_TOEPLITZ;
    bool dense = matrix->family == EPS_FAMILY_DENSE || matrix->family == EPS_FAMILY_OPTIMAL ||
                 (matrix->family == EPS_FAMILY_BANDED && chance(state, 0.3));
    if (dense && mechanism->n > 48)
        mechanism->n = 1 + mechanism->n % 48;
    matrix->stamps = chance(state, 0.8) ? 1 : 1 + draw_below(state, mechanism->n);
    if (!chance(state, 0.01))
        while (mechanism->n % matrix->stamps)
            matrix->stamps--;
    matrix->normalization = (enum eps_normalization)draw_below(state, sampled && !chance(state, 0.02) ? 2 : 3);
    size_t block = mechanism->n / matrix->stamps;
    wild_family(state, wild, block ? block : 1, chance(state, sampled ? 0.05 : 0.6));
}

static void wild_workload(uint64_t *state, struct wild_job *wild)
{
    struct eps_workload *workload = &wild->job.mechanism.workload;
    double which = draw_unit(state);
    if (which < 0.6)
        return;
    if (which < 0.85) {
        workload->type = EPS_WORKLOAD_MOMENTUM;
        workload->momentum = chance(state, 0.1) ? 0 : wild_real(state, 1e-6, nextafter(1, 0));
        workload->decay = chance(state, 0.5) ? 1 : wild_real(state, 1e-6, 1);
        workload->cooldown = chance(state, 0.05);
        workload->cooldown_from = draw_unit(state);
        workload->cooldown_to = chance(state, 0.2) ? 0 : draw_unit(state);
        return;
    }
    workload->type = EPS_WORKLOAD_TOEPLITZ;
    workload->coefficients_len = 1 + draw_below(state, wild->job.mechanism.n < 40 ? wild->job.mechanism.n : 40);
    wild->weights = wild_list(state, workload->coefficients_len, chance(state, 0.3));
    if (wild->weights && !chance(state, 0.05))
        wild->weights[0] = 0.1 + draw_unit(state);
    workload->coefficients = wild->weights;
}

/* ------------------------------------------------------------ the sampling */

static void wild_presence(uint64_t *state, struct eps_sampling *sampling)
{
    double which = draw_unit(state);
    if (which < 0.2) {
        sampling->dataset_size = wild_count(state, 1000000000000);
        sampling->batch_size = wild_count(state, sampling->dataset_size);
    } else if (which < 0.65) {
        sampling->p = wild_real(state, 1e-20, 1);
    } else if (which < 0.75) {
        sampling->p = 1 - draw_log(state, 1e-17, 0.5);
    } else if (which < 0.8) {
        sampling->p = 1;
    } else {
        sampling->p = draw_unit(state);
    }
    if (chance(state, 0.3)) {
        sampling->truncation = true;
        if (sampling->dataset_size == 0)
            sampling->dataset_size = wild_count(state, chance(state, 0.5) ? 1000 : 10000000000);
        double p = isnan(sampling->p) ? 0.1 : fmin(fmax(sampling->p, 0), 1), mean = p * (double)sampling->dataset_size;
        double near = mean + (12 * draw_unit(state) - 4) * sqrt(mean) + 1;
        sampling->max_batch_size =
            chance(state, 0.6) && near >= 1 ? (uint64_t)near : wild_count(state, sampling->dataset_size);
    }
}

/* From a number at random, at most 1000, down to the next divisor of n. */
static size_t divisor(uint64_t *state, size_t n)
{
    size_t bins = n > 0 ? 1 + draw_below(state, n < 1000 ? n : 1000) : 1;
    while (n % bins)
        bins--;
    return bins;
}

static void wild_sampling(uint64_t *state, struct wild_job *wild)
{
    struct eps_sampling *sampling = &wild->job.mechanism.sampling;
    size_t n = wild->job.mechanism.n;
    bool any = chance(state, 0.01); /* members that do not belong together */
    switch (sampling->scheme) {
    case EPS_SCHEME_NONE:
        sampling->epochs = wild_count(state, n);
        if (chance(state, 0.7))
            sampling->separation = fitting(state, n, sampling->epochs);
        sampling->schema = (enum eps_schema)draw_below(state, EPS_SCHEMA_COUNT);
        return;
    case EPS_SCHEME_BALLS_IN_BINS:
        sampling->bins = any ? wild_count(state, n) : divisor(state, n);
        sampling->redraw = chance(state, 0.3);
        return;
    case EPS_SCHEME_CYCLIC_POISSON:
        sampling->groups = chance(state, 0.05) ? 0 : wild_count(state, chance(state, 0.9) ? n : 3 * n);
        break;
    case EPS_SCHEME_B_MIN_SEP:
        sampling->separation = wild_count(state, n);
        sampling->warm_start = chance(state, 0.5);
        break;
    case EPS_SCHEME_POISSON:
    case EPS_SCHEME_COUNT:
        break;
    }
    wild_presence(state, sampling);
    bool identity = wild->job.mechanism.matrix.family == EPS_FAMILY_IDENTITY;
    if (any || (sampling->scheme == EPS_SCHEME_POISSON && chance(state, 0.25)))
        sampling->examples_per_user = wild_count(state, chance(state, 0.8) ? 100 : 1000000);
    if (any || (sampling->scheme == EPS_SCHEME_POISSON && identity && chance(state, 0.3)))
        sampling->last_iterate = true;
}

/* ------------------------------------------------------------ the question */

static void wild_query(uint64_t *state, struct wild_job *wild)
{
    struct eps_query *query = &wild->job.query;
    enum eps_unknown unknown = (enum eps_unknown)draw_below(state, chance(state, 0.1) ? 4 : 3);
    query->epsilon = chance(state, 0.08)  ? 0
                     : chance(state, 0.6) ? wild_real(state, 1e-3, 30)
                                          : wild_real(state, 1e-12, 1e4);
    query->delta = chance(state, 0.7) ? wild_real(state, 1e-15, 0.999) : wild_real(state, 1e-300, nextafter(1, 0));
    query->noise_multiplier = chance(state, 0.7) ? wild_real(state, 0.05, 100) : wild_real(state, 1e-3, 1e6);
    if (chance(state, 0.01))
        query->noise_multiplier = wild_real(state, 1e-300, 1e9);
    if (unknown == EPS_SOLVE_EPSILON || unknown == EPS_SOLVE_CURVE)
        query->epsilon = NAN;
    if (unknown == EPS_SOLVE_DELTA || unknown == EPS_SOLVE_CURVE)
        query->delta = NAN;
    if (unknown == EPS_SOLVE_NOISE_MULTIPLIER)
        query->noise_multiplier = NAN;
    query->curve = unknown == EPS_SOLVE_CURVE;
    if (chance(state, 0.7))
        query->accountant.method = (enum eps_accountant)draw_below(
            state, chance(state, 0.03) ? EPS_ACCOUNTANT_COUNT : EPS_ACCOUNTANT_MMCC + 1);
    query->accountant.tolerance = chance(state, 0.5) ? 1e-3 : wild_real(state, 1e-9, 0.1);
    if (chance(state, 0.3) &&
        (query->accountant.method == EPS_ACCOUNTANT_MMCC || query->accountant.method == EPS_ACCOUNTANT_AUTO))
        query->accountant.bad_event_share = wild_real(state, 1e-12, nextafter(1, 0));
}

static void wild_mechanism(uint64_t *state, struct wild_job *wild, bool extreme)
{
    struct eps_mechanism *mechanism = &wild->job.mechanism;
    double which = draw_unit(state), scheme = draw_unit(state);
    mechanism->n = which < 0.6    ? 1 + draw_below(state, 12)
                   : which < 0.9  ? 1 + draw_below(state, 120)
                   : which < 0.99 ? 1 + draw_below(state, 1500)
                                  : 1 + draw_below(state, 6000);
    mechanism->sampling.scheme = extreme         ? (enum eps_scheme)draw_below(state, EPS_SCHEME_COUNT)
                                 : scheme < 0.25 ? EPS_SCHEME_NONE
                                 : scheme < 0.6  ? EPS_SCHEME_POISSON
                                 : scheme < 0.95 ? EPS_SCHEME_CYCLIC_POISSON
                                                 : (enum eps_scheme)draw_below(state, EPS_SCHEME_COUNT);
    mechanism->adjacency = (enum eps_adjacency)draw_below(state, EPS_ADJACENCY_COUNT);
    wild_matrix(state, wild, mechanism->sampling.scheme != EPS_SCHEME_NONE);
    wild_workload(state, wild);
    wild_sampling(state, wild);
}

/* ------------------------------------------------------------ what only extreme jobs are */

/* In the place of the mechanism; a matrix that is to be stored first is left as it is. */
static void wild_phases(uint64_t *state, struct wild_job *wild)
{
    struct eps_job *job = &wild->job;
    size_t len = 1 + draw_below(state, 4);
    struct eps_mechanism whole = job->mechanism;
    wild->phases = calloc(len, sizeof *wild->phases);
    wild->parts = calloc(len, sizeof *wild->parts);
    if (!wild->phases || !wild->parts)
        return;
    eps_job_init(job);
    job->mechanism.adjacency = whole.adjacency;
    job->mechanism.sampling.examples_per_user = chance(state, 0.9) ? 1 : whole.sampling.examples_per_user;
    job->phases = wild->phases;
    job->phases_len = len;
    for (size_t i = 0; i < len; i++) {
        struct eps_phase *phase = &wild->phases[i];
        eps_phase_init(phase);
        if (i > 0 && chance(state, 0.2)) { /* the same once more */
            *phase = wild->phases[i - 1];
            continue;
        }
        eps_job_init(&wild->parts[i].job);
        wild_mechanism(state, &wild->parts[i], true);
        phase->mechanism = wild->parts[i].job.mechanism;
        phase->noise_scale = chance(state, 0.5) ? 1 : wild_real(state, 0.1, 10);
        phase->count = chance(state, 0.5) ? 1 : wild_count(state, 1000);
        phase->mechanism.adjacency = job->mechanism.adjacency;
        phase->mechanism.sampling.examples_per_user = job->mechanism.sampling.examples_per_user;
    }
    wild->stored = false;
}

/* All three are given, and what keeps them is asked for. */
static void wild_largest(uint64_t *state, struct wild_job *wild)
{
    struct eps_job *job = &wild->job;
    struct eps_sampling *sampling = &job->mechanism.sampling;
    if (job->phases_len > 0) {
        job->phases[draw_below(state, job->phases_len)].count = EPS_LARGEST;
    } else {
        job->mechanism.n = EPS_LARGEST;
        job->mechanism.matrix = (struct eps_matrix){.family = EPS_FAMILY_IDENTITY, .stamps = 1};
        wild->stored = sampling->last_iterate = false;
    }
    job->query.curve = false;
    job->query.epsilon = isnan(job->query.epsilon) ? wild_real(state, 1e-3, 30) : job->query.epsilon;
    job->query.delta = isnan(job->query.delta) ? wild_real(state, 1e-15, 0.999) : job->query.delta;
    job->query.noise_multiplier =
        isnan(job->query.noise_multiplier) ? wild_real(state, 0.05, 100) : job->query.noise_multiplier;
}

static void wild_extreme(uint64_t *state, struct wild_job *wild)
{
    const struct eps_query query = wild->job.query;
    if (chance(state, 0.15))
        wild_phases(state, wild);
    wild->job.query = query;
    if (chance(state, 0.4)) {
        wild->job.query.accountant.method = (enum eps_accountant)draw_below(state, EPS_ACCOUNTANT_COUNT);
        wild->job.query.accountant.bad_event_share = NAN;
    }
    if (chance(state, 0.05))
        wild_largest(state, wild);
    extremes_draw(&wild->job, state);
}

void wild_job(struct wild_job *wild, uint64_t seed)
{
    uint64_t state = seed ^ 0x5f0a7c1b2d3e4f60u;
    bool extreme = seed % 2;
    for (int i = 0; i < 2; i++)
        state = draw_below(&state, UINT64_MAX);
    *wild = (struct wild_job){0};
    eps_job_init(&wild->job);
    wild_mechanism(&state, wild, extreme);
    wild_query(&state, wild);
    if (extreme)
        wild_extreme(&state, wild);
    eps_job_defaults(&wild->job);
}

void wild_job_free(struct wild_job *wild)
{
    for (size_t i = 0; wild->parts && i < wild->job.phases_len; i++)
        wild_job_free(&wild->parts[i]);
    free(wild->parts);
    free(wild->phases);
    free(wild->coefficients);
    free(wild->rows);
    free(wild->weights);
    *wild = (struct wild_job){0};
}
