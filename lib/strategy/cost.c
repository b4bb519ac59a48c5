/*
 * What a strategy costs, from the job alone: counts of the loops in the other files of this room, each within a small
 * factor. An upper estimate is meant: a job near the limits is better refused with figures than stopped by a timeout.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>

#include "lib/strategy/internal.h"

struct shape {
    enum { BANDS, MATRIX, NODES, RING, COLUMNS } storage; /* toeplitz, dense, tree, fourier, banded */
    double n, block, stamps;
    double bands; /* at most; 1: diagonal */
    bool nonnegative;
    bool inverse_known; /* its first column costs nothing more */
    double stored;      /* banded: columns that are not alike */
};

static bool any_negative(const double *x, size_t len)
{
    for (size_t i = 0; x && i < len; i++)
        if (x[i] < 0)
            return true;
    return false;
}

static struct shape shape_of(const struct eps_mechanism *mechanism)
{
    const struct eps_matrix *matrix = &mechanism->matrix;
    double n = (double)mechanism->n, stamps = matrix->stamps ? (double)matrix->stamps : 1;
    struct shape shape = {BANDS, n, n / stamps, stamps, 1, true, false, 0};
    switch (matrix->family) {
    case EPS_FAMILY_TOEPLITZ:
        shape.bands = (double)matrix->coefficients_len;
        shape.nonnegative = !any_negative(matrix->coefficients, matrix->coefficients_len);
        break;
    case EPS_FAMILY_SQUARE_ROOT:
        shape.bands = matrix->bands ? fmin((double)matrix->bands, shape.block) : shape.block;
        shape.inverse_known = shape.bands == shape.block && mechanism->workload.type != EPS_WORKLOAD_TOEPLITZ;
        /* A momentum's root is positive; that of given coefficients need not be. */
        shape.nonnegative = mechanism->workload.type != EPS_WORKLOAD_TOEPLITZ;
        break;
    case EPS_FAMILY_BANDED:
        shape.bands = fmin((double)matrix->bands, shape.block);
        shape.nonnegative = matrix->bands <= matrix->separation || !eps__banded_either_sign(mechanism);
        if (!matrix->toeplitz || matrix->column_normalize)
            shape.storage = COLUMNS;
        shape.stored = matrix->toeplitz ? shape.bands : shape.block;
        break;
    case EPS_FAMILY_INVERSE_SQUARE_ROOT:
    case EPS_FAMILY_BANDED_INVERSE:
    case EPS_FAMILY_BLT:
        shape.bands = shape.block;
        shape.inverse_known = true;
        break;
    case EPS_FAMILY_DENSE:
        shape.storage = MATRIX;
        shape.bands = shape.block;
        shape.nonnegative = !any_negative(matrix->rows, matrix->rows_n * matrix->rows_n);
        break;
    case EPS_FAMILY_OPTIMAL:
        /* Columns of one pattern are orthogonal: some entries are negative. */
        shape.storage = MATRIX;
        shape.bands = shape.block;
        shape.nonnegative = false;
        break;
    case EPS_FAMILY_TREE:
        shape.storage = NODES;
        shape.bands = shape.block;
        break;
    case EPS_FAMILY_FOURIER:
        shape.storage = RING;
        shape.bands = shape.block;
        shape.nonnegative = false;
        break;
    default:
        break;
    }
    return shape;
}

/* A product of series of length n by the cheaper way; Newton's iterations take a few of them. */
static double product(double n, double len)
{
    return fmin(n * len, 60 * n * (log2(n) + 1));
}

/* The rules for one Gram matrix: eigenvalues, and the ascent up to its limit. */
static double gram_rules(double k)
{
    double eigenvalues = k <= 1024 ? 30 * k * k * k : k * k;
    return eigenvalues + (k <= 512 ? fmin(2e3 * k * k * sqrt(2 * k), 2e9) : 0);
}

static void add_fixed_order(const struct shape *c, double k, double b, double starts, double *operations, double *bytes)
{
    if (c->nonnegative || k > EPS__GRAM_STEPS_MAX) {
        if (c->storage == RING)
            *operations += 60 * c->n + 8 * starts * c->stamps;
        else if (c->storage == COLUMNS)
            *operations +=
                starts > b ? 10 * (c->n + c->stored * c->bands * (c->bands / b + 1)) : 2 * starts * k * c->bands;
        else if (c->storage == BANDS)
            *operations += 20 * c->n + (c->stamps > 1 ? starts * fmin(c->stamps, k) : 0);
        else if (c->storage == MATRIX)
            *operations += starts * k * c->block;
        else
            *operations += starts * k * (log2(c->block) + 1 - fmin(log2(b), log2(c->block)));
        *bytes += 8 * (c->storage == MATRIX ? c->block * c->block : 3 * c->n);
        return;
    }
    double patterns = c->storage != MATRIX && c->stamps <= 1 ? 1 : starts;
    double gram = c->storage == MATRIX ? k * k * c->block : 8 * k * c->bands;
    *operations += patterns * (gram + gram_rules(k));
    *bytes += 8 * (4 * k * k + (c->storage == BANDS ? 0 : k * c->block));
}

static void add_sensitivity(const struct shape *c, const struct eps_mechanism *mechanism, double *operations,
                            double *bytes)
{
    struct eps__participation p = eps__sampling_worst(mechanism);
    double k = (double)p.epochs, b = (double)p.separation;
    double starts = (double)eps__participation_starts(&p, mechanism->n);
    if (p.epochs == 1 || c->bands <= b) {
        *operations += 4 * c->n + (p.fixed || c->stamps <= 1 ? 0 : 2 * c->n * k);
        *bytes += p.fixed ? 0 : 24 * c->n;
    } else if (p.fixed) {
        add_fixed_order(c, k, b, starts, operations, bytes);
    } else if (c->storage == MATRIX || (c->storage == BANDS && c->block <= 2048)) {
        double m = c->block;
        *operations += m * m * c->bands + 100 * m * c->bands + 100 * c->n;
        *bytes += 8 * (3 * m * m + 4 * c->n);
    } else if (c->storage == COLUMNS) {
        *operations += 4 * fmin(c->block, c->stored + c->bands) * c->bands * (2 * c->bands + 100) + 300 * c->n;
        *bytes += 32 * c->n;
    } else {
        *operations += 40 * c->n;
        *bytes += 32 * c->n;
    }
}

static void add_error(const struct shape *c, const struct eps_workload *w, double *operations, double *bytes)
{
    double m = c->block;
    bool given = w->type == EPS_WORKLOAD_TOEPLITZ;
    if (c->storage == MATRIX) {
        *operations += (given ? 4 : 2) * m * m * m + (given && c->stamps > 1 ? c->n * m * m : 4 * c->n * m);
        *bytes += 8 * ((given ? 3 : 1) * m * m + 2 * c->n);
    } else if (c->storage == BANDS) {
        bool cooldown = w->type == EPS_WORKLOAD_MOMENTUM && w->cooldown;
        *operations += (c->inverse_known ? m : product(m, c->bands)) + (given ? product(m, m) : 10 * c->n) +
                       (given && c->stamps > 1 ? 4 * c->n * m : 0) +
                       (cooldown ? 2 * c->n * m * (1 - w->cooldown_from * w->cooldown_from) : 0);
        if (c->bands > 1 || cooldown || given)
            *bytes += 8 * (4 * c->n + (c->bands > 64 ? 12 * m : 0));
    } else if (c->storage == NODES) {
        *operations += 30 * c->n * (log2(m) + 2);
        *bytes += 8 * (given ? 7 : 1) * c->n;
    } else if (c->storage == COLUMNS) {
        bool cooldown = w->type == EPS_WORKLOAD_MOMENTUM && w->cooldown;
        *operations += given ? m * (2 * m * c->bands + product(c->n, (double)w->coefficients_len) + 2 * c->n)
                             : (cooldown ? c->n : m) * (4 * c->bands * c->bands + 20 * c->bands + 40);
        *bytes += 8 * (2 * c->n + 4 * m + c->bands * (c->bands + 4));
    } else {
        bool cooldown = w->type == EPS_WORKLOAD_MOMENTUM && w->cooldown;
        *operations += 4 * product(2 * m, 2 * m) + 20 * c->n + (given && c->stamps > 1 ? 8 * c->n * m : 0) +
                       (cooldown ? 6 * c->n * m : 0);
        *bytes += 8 * (4 * c->n + 24 * m);
    }
}

/* One evaluation of a Toeplitz loss with its gradient, times what the searches take: a dozen iterations where bands do
 * not overlap, a hundred or so for an inverse, a few hundred over all starts of a BLT, thousands where there are kinks or
 * C must be kept positive. */
static void add_search(const struct shape *c, const struct eps_mechanism *mechanism, double *operations, double *bytes)
{
    const struct eps_matrix *matrix = &mechanism->matrix;
    double m = c->block, bands = (double)matrix->bands;
    bool overlap = matrix->epochs > 1 && matrix->bands > matrix->separation;
    switch (matrix->family) {
    case EPS_FAMILY_INVERSE_SQUARE_ROOT:
        *operations += m * bands;
        *bytes += 16 * m;
        break;
    case EPS_FAMILY_BANDED:
        if (matrix->toeplitz) {
            *operations += (overlap ? 2000 : 40) * m * (6 * bands + 20);
            *bytes += 8 * (5 * m + 80 * bands);
        } else {
            bool given = mechanism->workload.type == EPS_WORKLOAD_TOEPLITZ;
            *operations += (matrix->objective == EPS_OBJECTIVE_MAX_SQUARED ? 800 : 150) *
                           (given ? 6 * m * m * bands : 12 * m * bands * (bands + 20));
            *bytes += 8 * 25 * m * bands;
        }
        break;
    case EPS_FAMILY_BANDED_INVERSE:
        *operations += (matrix->epochs > 1 ? 1000 : 150) * m * (8 * bands + 30);
        *bytes += 8 * (8 * m + 80 * bands);
        break;
    case EPS_FAMILY_BLT:
        *operations +=
            m * (matrix->buffers ? 500.0 * (30 * (double)matrix->buffers + 30) : 10 * (double)matrix->blt_len);
        *bytes += 8 * 8 * m;
        break;
    default:
        break;
    }
}

/* Evaluations of the dual to a gap of 1e-3, as counted for n = 64 to 512: where patterns overlap the search is over entries
 * and takes stages; momentum spreads the singular values of the workload, and the largest error all the more. They grow
 * with the digits asked for, up to the search's limit. */
static double optimal_evaluations(const struct eps_mechanism *mechanism)
{
    static const double counts[2][2][2] = {{{8, 25}, {20, 250}}, {{250, 800}, {800, 2000}}};
    const struct eps_matrix *matrix = &mechanism->matrix;
    size_t block = mechanism->n / (matrix->stamps ? matrix->stamps : 1);
    bool overlap = matrix->epochs > 1 && matrix->epochs * matrix->separation < block;
    bool largest = matrix->objective == EPS_OBJECTIVE_MAX_SQUARED;
    bool spread = mechanism->workload.type != EPS_WORKLOAD_PREFIX_SUM;
    double digits = matrix->gap > 0 ? -log10(matrix->gap) : 3;
    return fmin(counts[overlap][largest][spread] * fmax(digits, 1) / 3, 2000);
}

/* An evaluation is 17 n^3, mostly the eigendecomposition, in vector instructions of eight operations; fourteen matrices,
 * and ten numbers a coordinate. The optimiser has freed them when the rest begins. */
static void add_optimal(const struct shape *c, const struct eps_mechanism *mechanism, double *operations, double *bytes)
{
    const struct eps_matrix *matrix = &mechanism->matrix;
    double m = c->block, k = matrix->epochs ? (double)matrix->epochs : 1;
    *operations += optimal_evaluations(mechanism) * 17.0 / 8 * m * m * m;
    *bytes = fmax(*bytes, 8 * 14 * m * m + 96 * fmax(matrix->nonnegative ? m * m / 2 : 0, m * k));
}

void eps__strategy_cost(const struct eps_mechanism *mechanism, double *operations, double *bytes)
{
    struct shape c = shape_of(mechanism);
    double entries = c.storage == BANDS     ? c.bands
                     : c.storage == MATRIX  ? c.block * c.block
                     : c.storage == RING    ? 8 * c.block
                     : c.storage == COLUMNS ? c.stored * c.bands
                                            : 1;
    *operations = 20 * entries;
    *bytes = 24 * entries;
    if (mechanism->matrix.family == EPS_FAMILY_SQUARE_ROOT && mechanism->workload.type == EPS_WORKLOAD_TOEPLITZ)
        *operations += 10 * product(c.bands, c.bands);
    add_search(&c, mechanism, operations, bytes);
    add_sensitivity(&c, mechanism, operations, bytes);
    add_error(&c, &mechanism->workload, operations, bytes);
    if (mechanism->matrix.family == EPS_FAMILY_OPTIMAL)
        add_optimal(&c, mechanism, operations, bytes);
}
