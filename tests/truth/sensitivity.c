/*
 * The matrix by its definition, and its sensitivity over all patterns that the participation allows.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "tests/truth/parts.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* ------------------------------------------------------------ the matrix */

/* The first column of a Toeplitz block of m steps that matrices.h does not define; false for optimised ones. */
static bool own_column(const struct eps_mechanism *mechanism, long double *c, size_t m)
{
    const struct eps_matrix *matrix = &mechanism->matrix;
    if (matrix->family == EPS_FAMILY_BLT && matrix->blt_len > 0) {
        c[0] = 1;
        for (size_t t = 1; t < m; t++) {
            c[t] = 0;
            for (size_t i = 0; i < matrix->blt_len; i++)
                c[t] += (long double)matrix->scale[i] * powl(matrix->decay[i], (long double)t - 1);
        }
        return true;
    }
    if (matrix->family != EPS_FAMILY_INVERSE_SQUARE_ROOT)
        return false;
    struct eps_mechanism block = *mechanism;
    block.n = m;
    block.matrix = (struct eps_matrix){.family = EPS_FAMILY_SQUARE_ROOT, .stamps = 1};
    struct matrix root = family_matrix(&block), inverse = matrix_inverse(&root);
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < m; j++)
            if (i < j || i - j >= matrix->bands)
                *entry(&inverse, i, j) = 0;
    struct matrix banded = matrix_inverse(&inverse);
    for (size_t t = 0; t < m; t++)
        c[t] = *entry(&banded, t, 0);
    matrix_free(&root);
    matrix_free(&inverse);
    matrix_free(&banded);
    return true;
}

long double column_square(const struct matrix *c, size_t j)
{
    long double square = 0;
    for (size_t i = 0; i < c->rows; i++)
        square += *entry(c, i, j) * *entry(c, i, j);
    return square;
}

static void divide(struct matrix *c, long double norm)
{
    for (size_t i = 0; i < c->rows * c->columns; i++)
        c->at[i] /= norm;
}

static bool defined_here(enum eps_family family)
{
    return family == EPS_FAMILY_IDENTITY || family == EPS_FAMILY_TOEPLITZ || family == EPS_FAMILY_DENSE ||
           family == EPS_FAMILY_SQUARE_ROOT || family == EPS_FAMILY_TREE;
}

struct matrix matrix_of(const struct eps_mechanism *mechanism)
{
    size_t m = mechanism->n / mechanism->matrix.stamps;
    long double column[64];
    struct matrix c;
    bool scaled = mechanism->matrix.normalization == EPS_NORMALIZATION_SENSITIVITY, own = false;
    if (!scaled && defined_here(mechanism->matrix.family)) {
        c = family_matrix(mechanism);
        own = true;
    } else if (!scaled && own_column(mechanism, column, m)) {
        c = matrix_new(mechanism->n, mechanism->n);
        for (size_t i = 0; i < c.rows; i++)
            for (size_t j = 0; j <= i; j++)
                if (i / m == j / m)
                    *entry(&c, i, j) = column[i - j];
        own = true;
    } else {
        struct eps_strategy *strategy = strategy_new(mechanism);
        c = part_matrix(strategy, EPS_PART_ENCODER);
        eps_strategy_destroy(strategy);
    }
    long double most = 0;
    for (size_t j = 0; j < c.columns; j++)
        most = fmaxl(most, column_square(&c, j));
    if (own && mechanism->matrix.normalization == EPS_NORMALIZATION_MAX_COLUMN)
        divide(&c, sqrtl(most));
    return c;
}

/* ------------------------------------------------------------ sensitivity */

/* The largest eigenvalue of a symmetric matrix of m rows, by Jacobi's rotations. */
static long double largest_eigenvalue(long double *a, size_t m)
{
    for (int sweep = 0; sweep < 60; sweep++)
        for (size_t p = 0; p < m; p++)
            for (size_t q = p + 1; q < m; q++) {
                if (a[p * m + q] == 0)
                    continue;
                long double theta = (a[q * m + q] - a[p * m + p]) / (2 * a[p * m + q]);
                long double t = (theta < 0 ? -1 : 1) / (fabsl(theta) + sqrtl(theta * theta + 1));
                long double c = 1 / sqrtl(t * t + 1), s = t * c;
                for (size_t k = 0; k < m; k++) {
                    long double x = a[k * m + p], y = a[k * m + q];
                    a[k * m + p] = c * x - s * y;
                    a[k * m + q] = s * x + c * y;
                }
                for (size_t k = 0; k < m; k++) {
                    long double x = a[p * m + k], y = a[q * m + k];
                    a[p * m + k] = c * x - s * y;
                    a[q * m + k] = s * x + c * y;
                }
            }
    long double most = a[0];
    for (size_t i = 1; i < m; i++)
        most = fmaxl(most, a[i * m + i]);
    return most;
}

/*
 * The largest sum of x_ij <v_i, v_j> over unit vectors v: found by setting each v_i to the best for the others, which
 * proves the lower end; d_i = |sum_j x_ij v_j| raised until diag(d) - x is positive semidefinite proves the upper.
 */
static void vector_square(const long double *x, size_t m, long double *lower, long double *upper)
{
    long double v[16 * 16], g[16], reduced[16 * 16], value = 0, dual = 0;
    unsigned long long state = 12345;
    bool positive = true;
    *lower = 0;
    for (size_t i = 0; i < m * m; i++) {
        value += x[i];
        positive = positive && x[i] >= 0;
    }
    if (positive) {
        *lower = *upper = value;
        return;
    }
    for (size_t i = 0; i < m * m; i++)
        v[i] = scatter(&state);
    for (int sweep = 0; sweep < 3000; sweep++)
        for (size_t i = 0; i < m; i++) {
            long double square = 0;
            for (size_t d = 0; d < m; d++) {
                g[d] = 0;
                for (size_t j = 0; j < m; j++)
                    g[d] += j == i ? 0 : x[i * m + j] * v[j * m + d];
                square += g[d] * g[d];
            }
            for (size_t d = 0; d < m && square > 0; d++)
                v[i * m + d] = g[d] / sqrtl(square);
        }
    memcpy(reduced, x, m * m * sizeof *reduced);
    for (size_t i = 0; i < m; i++) {
        long double along = 0, norm = 0;
        for (size_t d = 0; d < m; d++) {
            long double sum = 0;
            for (size_t j = 0; j < m; j++)
                sum += x[i * m + j] * v[j * m + d];
            along += sum * v[i * m + d];
            norm += v[i * m + d] * v[i * m + d];
        }
        *lower += along / norm;
        dual += along;
        reduced[i * m + i] -= along;
    }
    *upper = dual + (long double)m * fmaxl(largest_eigenvalue(reduced, m), 0);
}

bool is_b_min_sep(const struct eps_mechanism *mechanism)
{
    return mechanism->sampling.scheme == EPS_SCHEME_B_MIN_SEP;
}

static bool allowed(const struct eps_mechanism *mechanism, size_t set)
{
    const struct eps_sampling *s = &mechanism->sampling;
    size_t last = SIZE_MAX, count = 0;
    for (size_t j = 0; j < mechanism->n; j++) {
        if (!(set >> j & 1))
            continue;
        if (is_b_min_sep(mechanism)) {
            if (count++ && j - last < s->separation)
                return false;
            last = j;
            continue;
        }
        if (s->schema == EPS_SCHEMA_SHUFFLED) { /* in one epoch once, and in none after the last */
            if (j / s->separation >= s->epochs || (count++ && j / s->separation == last / s->separation))
                return false;
            last = j;
            continue;
        }
        if (count++ && (s->schema == EPS_SCHEMA_FIXED_ORDER ? j - last != s->separation : j - last < s->separation))
            return false;
        last = j;
    }
    return is_b_min_sep(mechanism) || count <= s->epochs;
}

static bool extendable(const struct eps_mechanism *mechanism, size_t set)
{
    for (size_t j = 0; j < mechanism->n; j++)
        if (!(set >> j & 1) && allowed(mechanism, set | (size_t)1 << j))
            return true;
    return false;
}

size_t bins_of(const struct eps_mechanism *mechanism)
{
    const struct eps_sampling *s = &mechanism->sampling;
    if (s->scheme != EPS_SCHEME_BALLS_IN_BINS)
        return 0;
    return s->bins > 0 ? s->bins : (size_t)(s->dataset_size / s->batch_size);
}

size_t bin_patterns(const struct eps_mechanism *mechanism)
{
    size_t bins = bins_of(mechanism), len = bins;
    for (size_t epoch = 1; mechanism->sampling.redraw && epoch < mechanism->n / bins && len <= PATTERNS_MOST; epoch++)
        len *= bins;
    return len;
}

size_t bin_pattern(const struct eps_mechanism *mechanism, size_t index)
{
    size_t bins = bins_of(mechanism), set = 0;
    for (size_t epoch = 0; epoch < mechanism->n / bins; epoch++) {
        set |= (size_t)1 << (epoch * bins + index % bins);
        index = mechanism->sampling.redraw ? index / bins : index;
    }
    return set;
}

static bool is_bin_pattern(const struct eps_mechanism *mechanism, size_t set)
{
    for (size_t i = 0; i < bin_patterns(mechanism); i++)
        if (bin_pattern(mechanism, i) == set)
            return true;
    return false;
}

void find_sensitivity(struct truth *truth)
{
    const struct eps_mechanism *mechanism = truth->mechanism;
    struct matrix gram = matrix_gram(&truth->c);
    bool bins = bins_of(mechanism) > 0;
    bool sampled = mechanism->sampling.scheme != EPS_SCHEME_NONE && !bins && !is_b_min_sep(mechanism);
    size_t groups = mechanism->sampling.scheme == EPS_SCHEME_CYCLIC_POISSON ? mechanism->sampling.groups : 1;
    long double lower = 0, upper = 0, x[16 * 16];
    for (size_t set = 1; set < (size_t)1 << mechanism->n; set++) {
        size_t steps[16], m = 0;
        if (bins && !is_bin_pattern(mechanism, set))
            continue;
        if (!sampled && !bins && (!allowed(mechanism, set) || extendable(mechanism, set)))
            continue;
        for (size_t j = 0; j < mechanism->n; j++)
            if (set >> j & 1)
                steps[m++] = j;
        bool part = true; /* sampled: all of one part's steps */
        for (size_t i = 0; i < m; i++)
            part = part && steps[i] % groups == steps[0] % groups;
        if (sampled && (!part || m < (mechanism->n - 1 - steps[0]) / groups + 1 || steps[0] >= groups))
            continue;
        for (size_t i = 0; i < m; i++)
            for (size_t j = 0; j < m; j++)
                x[i * m + j] = *entry(&gram, steps[i], steps[j]);
        long double found, bound;
        vector_square(x, m, &found, &bound);
        lower = fmaxl(lower, found);
        upper = fmaxl(upper, bound);
    }
    truth->sensitivity_lower = sqrtl(lower);
    truth->sensitivity_upper = sqrtl(upper);
    matrix_free(&gram);
}
