/*
 * See factor.h. F is the Cholesky factor of the Gram matrix, raised by slightly more than the rounding of the
 * factorisation. Afterwards F F' is verified to dominate the Gram matrix. A row of F is 0 before the first nonzero
 * entry of the matrix in that row, so a band stays a band, and the corners of a cyclic band become full rows at the
 * end.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/monte_carlo/laws/factor.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <sleef.h>

#include "lib/numerics/bound.h"
#include "lib/numerics/linear/linalg.h"

#define LEAST_SQUARE 0x1p-300 /* smaller squared norms are raised to this, so that no product underflows */

/* Beside others, a vector also counts as no shorter than 16 len^2 units of the longest one, so that the factorisation
 * and its verification succeed (A30). */
static double square_of(const struct eps__bin_gram *bins, size_t i)
{
    double part = bins->width > 1 ? 16 * (double)bins->len * (double)bins->len * EPS__UNIT_ROUNDOFF : 0;
    return fmax(bins->diagonal[i], fmax(part * part * bins->most, LEAST_SQUARE));
}

static enum eps_status allocate(struct eps__mc_factor *factor, size_t len)
{
    *factor = (struct eps__mc_factor){.len = len,
                                      .first = malloc(len * sizeof *factor->first),
                                      .start = malloc((len + 1) * sizeof *factor->start),
                                      .half = malloc(len * sizeof *factor->half)};
    return factor->first && factor->start && factor->half ? EPS_OK : EPS_NO_MEMORY;
}

static enum eps_status make_diagonal(struct eps__mc_factor *factor, const struct eps__bin_gram *bins)
{
    factor->entries = malloc(bins->len * sizeof *factor->entries);
    if (!factor->entries)
        return EPS_NO_MEMORY;
    for (size_t i = 0; i < bins->len; i++) {
        factor->first[i] = factor->start[i] = i;
        factor->entries[i] = eps__sqrt_up(square_of(bins, i));
    }
    factor->start[bins->len] = bins->len;
    return EPS_OK;
}

/*
 * The matrix to be factored (A30). Off the diagonal, c |m_i| |m_j| is added wherever rows of the factor may meet, to
 * cover the rounding of the factorisation. The diagonal is raised enough that the matrix stays positive definite and
 * the factorisation does not break down.
 */
static void raise_matrix(double *matrix, const struct eps__bin_gram *bins, double *beside)
{
    size_t len = bins->len;
    double part = 8 * (double)(len + 8) * EPS__UNIT_ROUNDOFF;
    memset(beside, 0, len * sizeof *beside);
    memset(matrix, 0, len * len * sizeof *matrix);
    for (size_t i = 0; i < len; i++) {
        size_t first = 0;
        while (first < i && !(bins->gram[i * len + first] > 0))
            first++;
        for (size_t j = first; j < i; j++) {
            double norms = sqrt(square_of(bins, i)) * sqrt(square_of(bins, j)); /* the squares' product overflows */
            matrix[i * len + j] = bins->gram[i * len + j] + part * norms;
            beside[i] += norms;
            beside[j] += norms;
        }
    }
    for (size_t i = 0; i < len; i++)
        matrix[i * len + i] = square_of(bins, i) + 2 * part * (beside[i] + (double)len * square_of(bins, i));
}

/* Stores the rows of the factor, each from its first nonzero entry on. */
static enum eps_status keep_rows(struct eps__mc_factor *factor, const double *matrix)
{
    size_t len = factor->len, numbers = 0;
    for (size_t i = 0; i < len; i++) {
        size_t first = 0;
        while (first < i && matrix[i * len + first] == 0)
            first++;
        factor->first[i] = first;
        factor->start[i] = numbers;
        numbers += i + 1 - first;
    }
    factor->start[len] = numbers;
    factor->entries = malloc(numbers * sizeof *factor->entries);
    for (size_t i = 0; factor->entries && i < len; i++)
        memcpy(factor->entries + factor->start[i], matrix + i * len + factor->first[i],
               (i + 1 - factor->first[i]) * sizeof *matrix);
    return factor->entries ? EPS_OK : EPS_NO_MEMORY;
}

/* Whether the computed products of the rows prove that F F' >= the Gram matrix. Replaces the products by upper
 * bounds. */
static bool dominates(double *products, const struct eps__mc_factor *factor, const struct eps__bin_gram *bins)
{
    size_t len = factor->len;
    double part = (double)(len + 16) * EPS__UNIT_ROUNDOFF;
    double *norm = factor->half; /* used as scratch space here; measure() fills it in */
    bool enough = true;
    for (size_t i = 0; i < len; i++)
        norm[i] = sqrt(products[i * len + i]);
    for (size_t i = 0; i < len; i++)
        for (size_t j = 0; j <= i; j++) {
            double needed = i == j ? square_of(bins, i) : bins->gram[i * len + j], *at = &products[i * len + j];
            bool meet = factor->first[i] <= j; /* else the product is 0 */
            double error = meet ? eps__raise(part * norm[i] * norm[j], 8) : 0;
            enough &= meet ? eps__shift(EPS__LOWER, *at, error) >= needed : needed == 0;
            *at = meet ? eps__shift(EPS__UPPER, *at, error) : 0;
            products[j * len + i] = *at;
        }
    return enough;
}

static void transpose(double *matrix, size_t len)
{
    for (size_t i = 0; i < len; i++)
        for (size_t j = 0; j < i; j++) {
            double kept = matrix[i * len + j];
            matrix[i * len + j] = matrix[j * len + i];
            matrix[j * len + i] = kept;
        }
}

static enum eps_status make_full(struct eps__mc_factor *factor, const struct eps__bin_gram *bins, double **gram_upper)
{
    size_t len = bins->len;
    double *matrix = malloc(len * len * sizeof *matrix), *products = malloc(len * len * sizeof *products);
    enum eps_status status = matrix && products ? EPS_OK : EPS_NO_MEMORY;
    if (status == EPS_OK) {
        raise_matrix(matrix, bins, factor->half);
        status = eps__cholesky(NULL, matrix, len) ? keep_rows(factor, matrix) : EPS_INTERNAL;
    }
    if (status == EPS_OK) {
        transpose(matrix, len);
        eps__gram(NULL, products, matrix, len, len);
        status = dominates(products, factor, bins) ? EPS_OK : EPS_INTERNAL;
    }
    free(matrix);
    if (status == EPS_OK && gram_upper)
        *gram_upper = products;
    else
        free(products);
    return status;
}

/* Fills in `half` and the maxima. */
static void measure(struct eps__mc_factor *factor)
{
    for (size_t i = 0; i < factor->len; i++) {
        double sum = 0, square = 0;
        for (size_t k = factor->start[i]; k < factor->start[i + 1]; k++) {
            sum += fabs(factor->entries[k]);
            square += factor->entries[k] * factor->entries[k];
            factor->largest = fmax(factor->largest, fabs(factor->entries[k]));
        }
        factor->half[i] = 0.5 * square;
        factor->longest = fmax(factor->longest, sum);
        factor->largest_half = fmax(factor->largest_half, factor->half[i]);
        size_t width = factor->start[i + 1] - factor->start[i];
        assert(width == i + 1 - factor->first[i]);
        factor->widest = width > factor->widest ? width : factor->widest;
    }
}

enum eps_status eps__mc_factor_make(struct eps__mc_factor *factor, const struct eps__bin_gram *bins,
                                    double **gram_upper)
{
    assert(!bins->count);
    if (gram_upper)
        *gram_upper = NULL;
    enum eps_status status = allocate(factor, bins->len);
    if (status == EPS_OK)
        status = bins->width == 1 ? make_diagonal(factor, bins) : make_full(factor, bins, gram_upper);
    if (status == EPS_OK)
        measure(factor);
    else
        eps__mc_factor_clear(factor);
    return status;
}

void eps__mc_factor_clear(struct eps__mc_factor *factor)
{
    free(factor->first);
    free(factor->start);
    free(factor->entries);
    free(factor->half);
    *factor = (struct eps__mc_factor){0};
}

void eps__mc_factor_add(double *y, const struct eps__mc_factor *factor, size_t i, double count, size_t lane)
{
    assert(i < factor->len && lane < EPS__LANES);
    double *row = y + factor->first[i] * EPS__LANES + lane;
    for (size_t k = factor->start[i]; k < factor->start[i + 1]; k++, row += EPS__LANES)
        *row = fma(count, factor->entries[k], *row);
}

void eps__mc_factor_log_ratio(double *log_ratio, const struct eps__mc_factor *factor, const double *y, double *work)
{
    size_t len = factor->len;
    double most[EPS__LANES], sum[EPS__LANES] = {0};
    for (size_t lane = 0; lane < EPS__LANES; lane++)
        most[lane] = -INFINITY;
    for (size_t i = 0; i < len; i++) {
        double *row = work + i * EPS__LANES;
        eps__correlate_lanes(row, y + factor->first[i] * EPS__LANES, factor->entries + factor->start[i], 0,
                             factor->start[i + 1] - factor->start[i], 1);
        for (size_t lane = 0; lane < EPS__LANES; lane++) {
            row[lane] -= factor->half[i];
            most[lane] = row[lane] > most[lane] ? row[lane] : most[lane];
        }
    }
    for (size_t i = 0; i < len * EPS__LANES; i++)
        work[i] -= most[i % EPS__LANES];
    eps__exp_lanes(work, len);
    for (size_t i = 0; i < len * EPS__LANES; i++)
        sum[i % EPS__LANES] += work[i];
    for (size_t lane = 0; lane < EPS__LANES; lane++)
        log_ratio[lane] = most[lane] + Sleef_cinz_logd1_u10purec(sum[lane] / (double)len);
}

double eps__mc_factor_error(const struct eps__mc_factor *factor, double reach)
{
    double size = factor->longest * reach + factor->largest_half, len = (double)factor->len;
    double exponents = ((double)factor->widest + 96) * size, sums = (len + 64) * (1 + log(len));
    return eps__raise((exponents + sums) * EPS__UNIT_ROUNDOFF, 64);
}
