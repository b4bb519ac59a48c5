/*
 * The columns of C summed over the epochs, row by row, and their Gram matrix.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/strategy/merged.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/numerics/linear/linalg.h"
#include "lib/strategy/kind.h"

void eps__merged_row(const struct eps_strategy *strategy, double *out, size_t bins, size_t row, double *scratch)
{
    size_t block = strategy->block, first = row / strategy->block_rows * block, own = row % strategy->block_rows;
    assert(bins > 0 && strategy->n % bins == 0 && row < strategy->stamps * strategy->block_rows);
    memset(out, 0, bins * sizeof *out);
    if (strategy->kind->band_row && strategy->lower) {
        strategy->kind->band_row(strategy, scratch, own);
        for (size_t d = strategy->bands; d-- > 0;) /* columns from left to right, as below */
            if (d <= own)
                out[(first + own - d) % bins] += scratch[d];
        return;
    }
    strategy->kind->row(strategy, scratch, own);
    for (size_t j = 0; j < block; j++)
        out[(first + j) % bins] += scratch[j];
}

double eps__merged_error(const struct eps_strategy *strategy, size_t bins)
{
    size_t terms = strategy->n / bins;
    return terms > 1 ? (double)terms * EPS__UNIT_ROUNDOFF : 0;
}

/* The rows of M in one product: enough to make the addition of the product cheap. */
enum { ROWS = 64 };

static void add_product(double *gram, double *product, const double *rows, size_t len, size_t bins)
{
    eps__gram(NULL, product, rows, len, bins);
    for (size_t i = 0; i < bins * bins; i++)
        gram[i] += product[i];
}

/* Adds the outer product of a sparse row with itself; `found` has room for the indices of the nonzeros. */
static void add_sparse(double *gram, const double *row, size_t bins, size_t *found)
{
    size_t len = 0;
    for (size_t i = 0; i < bins; i++)
        if (row[i] != 0)
            found[len++] = i;
    for (size_t i = 0; i < len; i++)
        for (size_t j = 0; j < len; j++)
            gram[found[i] * bins + found[j]] += row[found[i]] * row[found[j]];
}

enum eps_status eps__merged_gram(const struct eps_context *context, double *gram, double *error,
                                 const struct eps_strategy *strategy, size_t bins)
{
    size_t n = eps_strategy_columns(strategy), len = eps_strategy_rows(strategy), kept = 0;
    bool sparse = strategy->kind->band_row && strategy->lower && strategy->bands < bins / 4;
    enum eps_status status = EPS_NO_MEMORY;
    double *rows = malloc((size_t)ROWS * bins * sizeof *rows), *product = malloc(bins * bins * sizeof *product),
           *scratch = malloc(n * sizeof *scratch);
    size_t *found = malloc(bins * sizeof *found);
    if (!rows || !product || !scratch || !found)
        goto out;
    memset(gram, 0, bins * bins * sizeof *gram);
    status = EPS_OK;
    for (size_t row = 0; row < len && status == EPS_OK; row++) {
        eps__merged_row(strategy, rows + kept * bins, bins, row, scratch);
        if (sparse)
            add_sparse(gram, rows, bins, found);
        else
            kept++;
        if (kept == ROWS || (kept > 0 && row + 1 == len)) {
            add_product(gram, product, rows, kept, bins);
            kept = 0;
        }
        if (row % ROWS == 0)
            status = eps__poll(context);
    }
    assert(kept == 0 || status != EPS_OK); /* every row is counted once */
    /* The errors of two numbers, of their product, and of a sum over at most all rows. */
    *error = eps__raise(2.001 * eps__merged_error(strategy, bins) + (double)(len + ROWS + 8) * EPS__UNIT_ROUNDOFF, 8);
out:
    free(rows);
    free(product);
    free(scratch);
    free(found);
    return status;
}

bool eps__merged_repeats(const struct eps_strategy *strategy, size_t bins)
{
    bool scaled = strategy->kind->shape == EPS__SHAPE_TOEPLITZ && strategy->bands == 1;
    return scaled || bins % strategy->block == 0;
}
