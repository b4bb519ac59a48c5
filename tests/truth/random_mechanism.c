/*
 * Drawn where defects live: few steps and groups that do not divide them, bands that do not divide the groups, entries
 * of very different sizes, probabilities at both ends, all additions with each other. What nobody serves may be drawn
 * too: it must be refused.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "tests/truth/random_mechanism.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "api/codec/codec.h"
#include "tests/unit/draw.h"

static bool chance(uint64_t *state, double p)
{
    return draw_unit(state) < p;
}

static double draw_entry(uint64_t *state, bool signs)
{
    double size = chance(state, 0.15) ? 0 : chance(state, 0.2) ? draw_log(state, 1e-3, 1) : draw_between(state, 0.1, 1);
    if (chance(state, 0.15))
        size = 1;
    return signs && chance(state, 0.4) ? -size : size;
}

/* ------------------------------------------------------------ the matrix */

static void draw_target(uint64_t *state, struct eps_matrix *matrix, size_t block)
{
    matrix->objective = chance(state, 0.5) ? EPS_OBJECTIVE_MEAN_SQUARED : EPS_OBJECTIVE_MAX_SQUARED;
    matrix->gap = 1e-3;
    if (chance(state, 0.3)) {
        matrix->epochs = 1 + draw_below(state, block);
        matrix->separation = matrix->epochs > 1 ? (block - 1) / (matrix->epochs - 1) : block;
    }
}

static void draw_workload(uint64_t *state, struct eps_workload *workload)
{
    if (!chance(state, 0.2))
        return;
    workload->type = EPS_WORKLOAD_MOMENTUM;
    workload->momentum = draw_between(state, 0, 0.95);
    workload->decay = chance(state, 0.5) ? 1 : draw_between(state, 0.7, 1);
}

static void draw_blt(uint64_t *state, struct random_mechanism *drawn, bool signs)
{
    struct eps_matrix *matrix = &drawn->job.mechanism.matrix;
    matrix->blt_len = 1 + draw_below(state, 3);
    matrix->decay = drawn->decay;
    matrix->scale = drawn->scale;
    for (size_t i = 0; i < matrix->blt_len; i++) {
        drawn->decay[i] = draw_between(state, 0.05, 0.99);
        drawn->scale[i] = 0.4 * draw_entry(state, signs);
    }
}

static void draw_family(uint64_t *state, struct random_mechanism *drawn, size_t block, bool signs)
{
    struct eps_matrix *matrix = &drawn->job.mechanism.matrix;
    size_t bands = 1 + draw_below(state, block);
    switch (matrix->family) {
    case EPS_FAMILY_TOEPLITZ:
        matrix->coefficients = drawn->coefficients;
        matrix->coefficients_len = bands;
        for (size_t i = 0; i < bands; i++)
            drawn->coefficients[i] = i == 0 ? draw_between(state, 0.3, 1) : draw_entry(state, signs);
        break;
    case EPS_FAMILY_DENSE:
        matrix->rows = drawn->rows;
        matrix->rows_n = block;
        for (size_t i = 0; i < block; i++)
            for (size_t j = 0; j <= i; j++)
                drawn->rows[i * block + j] = i == j          ? draw_between(state, 0.2, 1)
                                             : i - j < bands ? draw_entry(state, signs)
                                                             : 0;
        break;
    case EPS_FAMILY_SQUARE_ROOT:
        matrix->bands = chance(state, 0.5) ? 0 : bands;
        break;
    case EPS_FAMILY_INVERSE_SQUARE_ROOT:
        matrix->bands = bands;
        break;
    case EPS_FAMILY_BANDED:
        matrix->bands = bands;
        matrix->toeplitz = chance(state, 0.7);
        matrix->column_normalize = matrix->toeplitz && chance(state, 0.4);
        draw_target(state, matrix, block);
        if (!matrix->toeplitz)
            matrix->epochs = 1;
        break;
    case EPS_FAMILY_BANDED_INVERSE:
        matrix->bands = bands;
        draw_target(state, matrix, block);
        break;
    case EPS_FAMILY_BLT:
        if (chance(state, 0.6)) {
            draw_blt(state, drawn, signs);
            break;
        }
        matrix->buffers = 1 + draw_below(state, block < 2 ? block : 2);
        draw_target(state, matrix, block);
        break;
    case EPS_FAMILY_OPTIMAL:
        matrix->nonnegative = !signs || chance(state, 0.5);
        draw_target(state, matrix, block);
        break;
    case EPS_FAMILY_TREE:
        matrix->decoder = chance(state, 0.5) ? EPS_DECODER_ONLINE : EPS_DECODER_FULL;
        break;
    case EPS_FAMILY_FOURIER:
        matrix->decoder = chance(state, 0.5) ? EPS_DECODER_OPTIMAL : EPS_DECODER_STANDARD;
        break;
    case EPS_FAMILY_IDENTITY:
    case EPS_FAMILY_STORED:
    case EPS_FAMILY_COUNT:
        break;
    }
}

static void draw_matrix(uint64_t *state, struct random_mechanism *drawn, bool sampled)
{
    static const enum eps_family families[] = {
        EPS_FAMILY_IDENTITY, EPS_FAMILY_TOEPLITZ,       EPS_FAMILY_DENSE, EPS_FAMILY_TOEPLITZ,
        EPS_FAMILY_DENSE,    EPS_FAMILY_SQUARE_ROOT,    EPS_FAMILY_TREE,  EPS_FAMILY_INVERSE_SQUARE_ROOT,
        EPS_FAMILY_BANDED,   EPS_FAMILY_BANDED_INVERSE, EPS_FAMILY_BLT,   EPS_FAMILY_OPTIMAL,
        EPS_FAMILY_FOURIER};
    struct eps_mechanism *mechanism = &drawn->job.mechanism;
    struct eps_matrix *matrix = &mechanism->matrix;
    bool signs = !sampled || chance(state, 0.03);
    matrix->family = families[draw_below(state, sampled ? 12 : 13)];
    if (sampled && chance(state, 0.2)) /* with which additions go */
        matrix->family = EPS_FAMILY_IDENTITY;
    matrix->normalization = chance(state, 0.5) ? EPS_NORMALIZATION_NONE : EPS_NORMALIZATION_MAX_COLUMN;
    if (!sampled && chance(state, 0.2))
        matrix->normalization = EPS_NORMALIZATION_SENSITIVITY;
    size_t stamps = chance(state, 0.2) ? 1 + draw_below(state, mechanism->n) : 1;
    matrix->stamps = mechanism->n % stamps == 0 ? stamps : 1;
    draw_workload(state, &mechanism->workload);
    draw_family(state, drawn, mechanism->n / matrix->stamps, signs);
}

/* ------------------------------------------------------------ the sampling */

static void draw_probability(uint64_t *state, struct eps_sampling *sampling, size_t groups)
{
    double which = draw_unit(state);
    if (which < 0.1) {
        sampling->dataset_size = groups * (2 + draw_below(state, 30)) + draw_below(state, groups);
        sampling->batch_size = 1 + draw_below(state, sampling->dataset_size / groups);
    } else if (which < 0.4) {
        sampling->p = draw_log(state, 1e-12, 1);
    } else if (which < 0.5) {
        sampling->p = 1 - draw_log(state, 1e-15, 0.1);
    } else if (which < 0.57) {
        sampling->p = 1;
    } else {
        sampling->p = draw_between(state, 0.01, 0.99);
    }
}

static void draw_truncation(uint64_t *state, struct eps_sampling *sampling, size_t groups)
{
    sampling->truncation = true;
    if (sampling->dataset_size == 0)
        sampling->dataset_size = chance(state, 0.7) ? groups * (1 + draw_below(state, 12)) + draw_below(state, groups)
                                                    : groups + draw_below(state, 3000);
    uint64_t size = sampling->dataset_size / groups;
    double p =
        isnan(sampling->p) ? (double)(groups * sampling->batch_size) / (double)sampling->dataset_size : sampling->p;
    uint64_t near = (uint64_t)(p * (double)size + 2 * sqrt(p * (double)size) + 1);
    sampling->max_batch_size = 1 + draw_below(state, chance(state, 0.6) && near < size ? near : size + 1);
}

static void draw_sampling(uint64_t *state, struct random_mechanism *drawn)
{
    struct eps_mechanism *mechanism = &drawn->job.mechanism;
    struct eps_sampling *sampling = &mechanism->sampling;
    size_t n = mechanism->n;
    bool identity = mechanism->matrix.family == EPS_FAMILY_IDENTITY;
    if (sampling->scheme == EPS_SCHEME_NONE) {
        sampling->epochs = 1 + draw_below(state, n);
        sampling->schema = (enum eps_schema)draw_below(state, EPS_SCHEMA_COUNT);
        if (chance(state, 0.6) && sampling->schema == EPS_SCHEMA_SHUFFLED)
            sampling->separation = 1 + draw_below(state, n / sampling->epochs);
        else if (chance(state, 0.6) && sampling->epochs > 1)
            sampling->separation = 1 + draw_below(state, (n - 1) / (sampling->epochs - 1));
        return;
    }
    if (sampling->scheme == EPS_SCHEME_BALLS_IN_BINS) {
        do
            sampling->bins = 1 + draw_below(state, n);
        while (n % sampling->bins);
        sampling->redraw = chance(state, 0.25);
        return;
    }
    if (sampling->scheme == EPS_SCHEME_B_MIN_SEP) {
        sampling->separation = chance(state, 0.5) ? 0 : 1 + draw_below(state, n + 2); /* 0: the bands */
        draw_probability(state, sampling, sampling->separation > 0 ? sampling->separation : 1);
        sampling->examples_per_user = chance(state, 0.25) ? 1 + draw_below(state, 3) : 1;
        sampling->warm_start = sampling->examples_per_user == 1 && chance(state, 0.5);
        if (chance(state, 0.03))
            draw_truncation(state, sampling, 1);
        return;
    }
    bool cyclic = sampling->scheme == EPS_SCHEME_CYCLIC_POISSON;
    sampling->groups = cyclic ? 1 + draw_below(state, n + 1) : 0;
    draw_probability(state, sampling, cyclic ? sampling->groups : 1);
    if (chance(state, identity || cyclic ? 0.3 : 0.04))
        draw_truncation(state, sampling, cyclic ? sampling->groups : 1);
    if (!cyclic && chance(state, identity ? 0.35 : 0.1))
        sampling->examples_per_user = chance(state, 0.3) ? 1 + draw_below(state, 60) : 1 + draw_below(state, 3);
    if (!cyclic && identity && chance(state, 0.25))
        sampling->last_iterate = true;
}

/* ------------------------------------------------------------ the question */

/* What mmcc refuses is no truth to be held against. */
static bool mmcc_serves(const struct eps_mechanism *mechanism)
{
    const struct eps_sampling *sampling = &mechanism->sampling;
    return sampling->scheme != EPS_SCHEME_NONE && !sampling->truncation && sampling->examples_per_user <= 1 &&
           mechanism->adjacency != EPS_ADJACENCY_REPLACE_ONE;
}

static void draw_query(uint64_t *state, struct random_mechanism *drawn)
{
    static const enum eps_accountant methods[] = {EPS_ACCOUNTANT_AUTO, EPS_ACCOUNTANT_AUTO, EPS_ACCOUNTANT_PLD,
                                                  EPS_ACCOUNTANT_MMCC, EPS_ACCOUNTANT_MMCC, EPS_ACCOUNTANT_GAUSSIAN};
    static const enum eps_accountant bin_methods[] = {EPS_ACCOUNTANT_AUTO,
                                                      EPS_ACCOUNTANT_PLD,
                                                      EPS_ACCOUNTANT_RENYI,
                                                      EPS_ACCOUNTANT_RENYI,
                                                      EPS_ACCOUNTANT_CONDITIONAL_COMPOSITION,
                                                      EPS_ACCOUNTANT_CONDITIONAL_COMPOSITION};
    static const enum eps_accountant b_min_sep_methods[] = {EPS_ACCOUNTANT_AUTO,  EPS_ACCOUNTANT_AUTO,
                                                            EPS_ACCOUNTANT_RENYI, EPS_ACCOUNTANT_RENYI,
                                                            EPS_ACCOUNTANT_RENYI, EPS_ACCOUNTANT_GAUSSIAN};
    struct eps_query *query = &drawn->job.query;
    enum eps_unknown unknown = (enum eps_unknown)draw_below(state, 3);
    double sigma = chance(state, 0.8) ? draw_log(state, 0.2, 12) : draw_log(state, 1e-3, 1e4);
    double delta = chance(state, 0.85) ? draw_log(state, 1e-9, 0.6) : draw_log(state, 1e-100, 0.9);
    double eps = draw_unit(state) < 0.1 ? 0
                 : chance(state, 0.8)   ? draw_log(state, 0.02, 12)
                                        : draw_log(state, 1e-6, 300);
    if (chance(state, 0.05)) { /* e^epsilon may be no double */
        eps = draw_log(state, 300, 1e4);
        sigma = draw_log(state, 6e-3, 0.1);
    }
    query->noise_multiplier = unknown == EPS_SOLVE_NOISE_MULTIPLIER ? NAN : sigma;
    query->delta = unknown == EPS_SOLVE_DELTA ? NAN : delta;
    query->epsilon = unknown == EPS_SOLVE_EPSILON ? NAN : eps;
    query->accountant.method = methods[draw_below(state, 6)];
    if (drawn->job.mechanism.sampling.scheme == EPS_SCHEME_BALLS_IN_BINS)
        query->accountant.method = bin_methods[draw_below(state, 6)];
    if (drawn->job.mechanism.sampling.scheme == EPS_SCHEME_B_MIN_SEP)
        query->accountant.method = b_min_sep_methods[draw_below(state, 6)];
    if (drawn->job.mechanism.sampling.scheme == EPS_SCHEME_POISSON &&
        drawn->job.mechanism.matrix.family == EPS_FAMILY_TREE && chance(state, 0.6))
        query->accountant.method = EPS_ACCOUNTANT_RENYI;
    if (query->accountant.method == EPS_ACCOUNTANT_MMCC && !mmcc_serves(&drawn->job.mechanism) && chance(state, 0.9))
        query->accountant.method = EPS_ACCOUNTANT_AUTO;
    double which = draw_unit(state);
    query->accountant.tolerance = which < 0.6 ? 1e-2 : which < 0.9 ? 1e-3 : draw_log(state, 1e-5, 0.1);
    if (query->accountant.method == EPS_ACCOUNTANT_MMCC && chance(state, 0.3))
        query->accountant.bad_event_share = draw_log(state, 1e-3, 0.99);
}

void random_mechanism(struct random_mechanism *drawn, uint64_t seed)
{
    static const enum eps_adjacency adjacencies[] = {EPS_ADJACENCY_ZERO_OUT, EPS_ADJACENCY_ADD_REMOVE,
                                                     EPS_ADJACENCY_REPLACE_ONE};
    uint64_t state = seed;
    for (int i = 0; i < 2; i++) /* streams of neighbouring seeds have nothing in common */
        state = draw_below(&state, UINT64_MAX);
    do {
        struct eps_mechanism *mechanism = &drawn->job.mechanism;
        memset(drawn, 0, sizeof *drawn);
        eps_job_init(&drawn->job);
        mechanism->n = 1 + draw_below(&state, TRUTH_STEPS_MOST);
        double which = draw_unit(&state);
        mechanism->sampling.scheme = which < 0.15   ? EPS_SCHEME_NONE
                                     : which < 0.45 ? EPS_SCHEME_POISSON
                                     : which < 0.75 ? EPS_SCHEME_CYCLIC_POISSON
                                     : which < 0.88 ? EPS_SCHEME_BALLS_IN_BINS
                                                    : EPS_SCHEME_B_MIN_SEP;
        mechanism->adjacency = adjacencies[draw_below(&state, 3)];
        draw_matrix(&state, drawn, mechanism->sampling.scheme != EPS_SCHEME_NONE);
        draw_sampling(&state, drawn);
        draw_query(&state, drawn);
        eps_job_defaults(&drawn->job);
    } while (eps_job_check(&drawn->job, 0, NULL, NULL) > 0);
}

char *mechanism_text(const struct eps_job *job)
{
    struct api_job encoded = {.job = *job};
    json_t *json = api_job_encode(&encoded, false);
    char *text = api_json_text(json);
    json_decref(json);
    return text;
}
