/*
 * The Gram matrix of a banded strategy, row by row.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/renyi/banded.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "lib/base/error.h"
#include "lib/numerics/binomial.h"
#include "lib/sampling/sampling.h"

struct eps__banded_gram eps__banded_sizes(const struct eps__setting *setting)
{
    size_t groups = eps__sampling_groups(&setting->job->mechanism), n = setting->job->mechanism.n;
    size_t bands = eps_strategy_bands(setting->strategy), len = (n - 1) / groups + 1, changes = n;
    struct eps__blocks blocks = eps__strategy_blocks(setting->strategy);
    assert(1 <= bands && bands <= n);
    if (blocks.shape == EPS__SHAPE_TOEPLITZ)
        changes = (size_t)fmin((blocks.stamps > 1 ? 2 : 1) * (double)blocks.stamps * (double)bands, (double)n);
    return (struct eps__banded_gram){
        .len = len, .width = (bands - 1) / groups + 1, .p = setting->p, .changes = (changes - 1) / groups + 1};
}

/* gram[i][d] = the sum over rows r of C[r, i] C[r, i - d], which has at most `bands` terms, all of them >= 0. */
static enum eps_status band_gram(double *gram, const struct eps_strategy *strategy, size_t n, size_t bands, double *row)
{
    enum eps_status status = EPS_OK;
    for (size_t r = 0; status == EPS_OK && r < n; r++) {
        status = eps_strategy_band_row(strategy, row, NULL, r); /* row[d] = C[r, r - d] */
        for (size_t e = 0; status == EPS_OK && e < bands && e <= r; e++)
            for (size_t d = 0; e + d < bands && e + d <= r; d++)
                gram[(r - e) * bands + d] += row[e] * row[e + d];
    }
    return status;
}

/* The same for the first part of the data set (A56), if the strategy is Toeplitz: its rows are shifts of the last one.
 * Step i = k groups sums over the rows r = i + e that exist, with e + d groups < bands. */
static enum eps_status toeplitz_gram(double *gram, const struct eps__banded_gram *sizes,
                                     const struct eps_strategy *strategy, size_t n, size_t groups, double *row)
{
    size_t bands = eps_strategy_bands(strategy);
    assert((sizes->len - 1) * groups < n && (sizes->width - 1) * groups < bands && sizes->width <= sizes->len);
    enum eps_status status = eps_strategy_band_row(strategy, row, NULL, n - 1);
    for (size_t d = 0; status == EPS_OK && d < sizes->width; d++) {
        double sum = 0;
        for (size_t e = 0; e < n - d * groups; e++) {
            size_t i = n - 1 - e;
            if (e + d * groups < bands)
                sum += row[e] * row[e + d * groups];
            if (i % groups == 0)
                gram[i / groups * sizes->width + d] = sum;
        }
    }
    return status;
}

/*
 * Replaces the matrix of all steps by one for the parts of a data set (A56): the largest entries of any part and, on
 * the diagonal, what they exceed those of the first part by. Step k of part g is step g + k groups of the mechanism;
 * the first part has the most steps.
 */
static enum eps_status take_parts(double **gram, const struct eps__banded_gram *sizes, size_t n, size_t bands,
                                  size_t groups)
{
    assert((sizes->len - 1) * groups < n && (sizes->width - 1) * groups < bands && sizes->width <= sizes->len);
    double *parts = calloc(sizes->len * sizes->width, sizeof *parts), *more = calloc(sizes->len, sizeof *more);
    for (size_t k = 0; parts && more && k < sizes->len; k++)
        for (size_t d = 0; d < sizes->width && d <= k; d++) {
            double first = (*gram)[k * groups * bands + d * groups], most = first;
            for (size_t i = k * groups + 1; i < n && i < (k + 1) * groups; i++)
                most = fmax(most, (*gram)[i * bands + d * groups]);
            parts[k * sizes->width + d] = most;
            if (d > 0) {
                more[k] += most - first;
                more[k - d] += most - first;
            }
        }
    for (size_t k = 0; parts && more && k < sizes->len; k++)
        parts[k * sizes->width] += more[k];
    enum eps_status status = parts && more ? EPS_OK : EPS_NO_MEMORY;
    if (status == EPS_OK) {
        free(*gram);
        *gram = parts;
        parts = NULL;
    }
    free(parts);
    free(more);
    return status;
}

static bool by_shifts(const struct eps__setting *setting)
{
    struct eps__blocks blocks = eps__strategy_blocks(setting->strategy);
    return blocks.shape == EPS__SHAPE_TOEPLITZ && blocks.stamps == 1;
}

double eps__banded_operations(const struct eps__setting *setting, double *bytes)
{
    double n = (double)setting->job->mechanism.n, bands = (double)eps_strategy_bands(setting->strategy);
    const struct eps__banded_gram sizes = eps__banded_sizes(setting);
    *bytes = 24 * (by_shifts(setting) ? (double)sizes.len * (double)sizes.width : n * bands);
    return n * (by_shifts(setting) ? (double)sizes.width : bands * bands);
}

enum eps_status eps__banded_make(struct eps__banded_gram *banded, const struct eps__setting *setting, double sigma)
{
    size_t n = setting->job->mechanism.n, bands = eps_strategy_bands(setting->strategy);
    size_t groups = eps__sampling_groups(&setting->job->mechanism);
    const struct eps__banded_gram sizes = eps__banded_sizes(setting);
    bool shifts = by_shifts(setting);
    double *gram = calloc(shifts ? sizes.len * sizes.width : n * bands, sizeof *gram);
    double *row = malloc(bands * sizeof *row), error = (double)(bands + 2) * EPS__UNIT_ROUNDOFF;
    enum eps_status status = gram && row ? EPS_OK : EPS_NO_MEMORY;
    if (status == EPS_OK)
        status = shifts ? toeplitz_gram(gram, &sizes, setting->strategy, n, groups, row)
                        : band_gram(gram, setting->strategy, n, bands, row);
    if (status == EPS_OK && groups > 1 && !shifts) {
        status = take_parts(&gram, &sizes, n, bands, groups);
        error = 4 * error + (2 * (double)sizes.width + 4) * EPS__UNIT_ROUNDOFF;
    }
    if (status == EPS_OK)
        status = eps__banded_gram_make(banded, gram, sizes.len, sizes.width, setting->p, error, sigma);
    free(gram);
    free(row);
    return status;
}

void eps__banded_means(const struct eps__banded_gram *banded, double *mean)
{
    for (size_t d = 0; d < banded->width; d++)
        mean[d] = 0;
    for (size_t i = 0; i < banded->len; i++)
        for (size_t d = 0; d < banded->width && d <= i; d++)
            mean[d] += banded->gram[i * banded->width + d] / (double)banded->len;
}

double eps__banded_log_order(const struct eps__banded_gram *banded, const double *mean, double p, unsigned a)
{
    double odds = log(p / (1 - p)), none = a * log1p(-p), alone = 0, met = 0;
    for (unsigned k = 0; k <= a; k++) {
        double own = eps__log_factorial(a) - eps__log_factorial(k) + none + k * odds + 0.5 * k * (k - 1.0) * mean[0];
        alone += exp(own - eps__log_factorial(a - k));
        for (unsigned l = 1; k > 0 && k + l <= a; l++) {
            double both = exp(own + l * odds + 0.5 * l * (l - 1.0) * mean[0] - eps__log_factorial(l) -
                              eps__log_factorial(a - k - l));
            for (size_t d = 1; d < banded->width; d++)
                met += both * expm1(mean[d] * k * l);
        }
    }
    return (double)banded->len * (log(alone) + met);
}
