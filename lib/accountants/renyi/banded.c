/*
 * The Gram matrix of a banded strategy, row by row.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/renyi/banded.h"

#include <math.h>
#include <stdlib.h>

#include "lib/base/error.h"
#include "lib/numerics/binomial.h"

double eps__banded_changes(const struct eps__setting *setting)
{
    struct eps__blocks blocks = eps__strategy_blocks(setting->strategy);
    double n = (double)setting->job->mechanism.n, bands = (double)eps_strategy_bands(setting->strategy);
    bool toeplitz = blocks.shape == EPS__SHAPE_TOEPLITZ;
    return toeplitz ? fmin((blocks.stamps > 1 ? 2 : 1) * (double)blocks.stamps * bands, n) : n;
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

/* The same for a Toeplitz strategy, whose rows are shifts of the last one. Step i sums over the rows r = i + e that
 * exist, with e < bands - d. */
static enum eps_status toeplitz_gram(double *gram, const struct eps_strategy *strategy, size_t n, size_t bands,
                                     double *row)
{
    enum eps_status status = eps_strategy_band_row(strategy, row, NULL, n - 1);
    for (size_t d = 0; status == EPS_OK && d < bands; d++) {
        double sum = 0;
        for (size_t e = 0; e < n - d; e++) { /* step i = n - 1 - e */
            if (e < bands - d)
                sum += row[e] * row[e + d];
            gram[(n - 1 - e) * bands + d] = sum;
        }
    }
    return status;
}

enum eps_status eps__banded_make(struct eps__banded_gram *banded, const struct eps__setting *setting, double sigma)
{
    size_t n = setting->job->mechanism.n, bands = eps_strategy_bands(setting->strategy);
    double *gram = calloc(n * bands, sizeof *gram), error = (double)(bands + 2) * EPS__UNIT_ROUNDOFF;
    double *row = malloc(bands * sizeof *row);
    struct eps__blocks blocks = eps__strategy_blocks(setting->strategy);
    enum eps_status status = gram && row ? EPS_OK : EPS_NO_MEMORY;
    if (status == EPS_OK && blocks.shape == EPS__SHAPE_TOEPLITZ && blocks.stamps == 1)
        status = toeplitz_gram(gram, setting->strategy, n, bands, row);
    else if (status == EPS_OK)
        status = band_gram(gram, setting->strategy, n, bands, row);
    if (status == EPS_OK)
        status = eps__banded_gram_make(banded, gram, n, bands, setting->p, error, sigma);
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
