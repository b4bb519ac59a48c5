/*
 * The Gram matrix of the bins, with the rounding error of its entries.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/merged_bins.h"

#include <stdlib.h>

#include "lib/numerics/bound.h"
#include "lib/sampling/sampling.h"
#include "lib/strategy/merged.h"

enum eps_status eps__merged_bins(struct eps__bin_gram *bins, const struct eps__setting *setting, double sigma,
                                 size_t draws)
{
    const struct eps_strategy *strategy = setting->strategy;
    size_t len = eps__sampling_bins(&setting->job->mechanism), n = setting->job->mechanism.n;
    bool diagonal = eps__strategy_is_diagonal(strategy);
    double *gram = calloc(diagonal ? len : len * len, sizeof *gram), error = 0;
    enum eps_status status = gram ? EPS_OK : EPS_NO_MEMORY;
    if (status == EPS_OK && diagonal) {
        size_t terms = n / len + 3;
        error = (double)terms * EPS__UNIT_ROUNDOFF;
        for (size_t j = 0; j < n; j++) {
            double norm = eps__strategy_column_norm(strategy, j);
            gram[j % len] += norm * norm;
        }
    } else if (status == EPS_OK) {
        status = eps__merged_gram(setting->context, gram, &error, strategy, len);
    }
    for (size_t i = 0, numbers = diagonal ? len : len * len; status == EPS_OK && draws > 1 && i < numbers; i++)
        gram[i] /= (double)draws; /* all epochs are equal (M16) */
    error += EPS__UNIT_ROUNDOFF;
    if (status == EPS_OK)
        status = eps__bin_gram_make(bins, diagonal ? NULL : gram, diagonal ? gram : NULL, len, error, sigma);
    free(gram);
    return status;
}
