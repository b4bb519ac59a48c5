/*
 * See b_min_sep_copies.h. The law is that of the columns as they are stored in doubles, and Z belongs to this law.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/monte_carlo/laws/b_min_sep_copies.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "lib/base/error.h"
#include "lib/base/progress.h"

#define PRODUCTS_MAX 4e9 /* multiply-adds for the Gram matrix, at most */

/* gram[i width + d] = <h_i, h_(i-d)>, a sum of at most `width` products >= 0. */
static enum eps_status make_gram(const struct eps_context *context, double *gram, const struct eps__mc_columns *columns)
{
    size_t n = columns->n, width = columns->width;
    enum eps_status status = EPS_OK;
    for (size_t i = 0; status == EPS_OK && i < n; i++) {
        const double *own = columns->entries + i * columns->stride;
        size_t rows = n - i < width ? n - i : width;
        bool same = columns->stride == 0 && i > 0 && n - i >= width;
        for (size_t d = 0; d < width; d++) {
            double sum = same ? gram[(i - 1) * width + d] : 0;
            const double *other = own - (d <= i ? d : 0) * columns->stride;
            for (size_t e = 0; !same && e < rows && e + d < width; e++)
                sum += own[e] * other[e + d];
            gram[i * width + d] = sum;
        }
        status = eps__poll(context);
    }
    return status;
}

/* Makes tables of 2, 3, ... copies as long as the bound on values falls and operations are left, and keeps the best. */
static enum eps_status choose(const struct eps_context *context, struct eps__mc_b_min_sep_copies *copies,
                              const struct eps__b_min_sep *b_min_sep, double eps, double operations)
{
    double least = 0, left = operations > 0 ? operations : INFINITY;
    for (unsigned a = 2; isfinite(eps__b_min_sep_draws_bytes(b_min_sep, a)); a++) {
        struct eps__b_min_sep_draws *draws = NULL;
        left -= eps__b_min_sep_draws_operations(b_min_sep, a);
        if (left < 0)
            break;
        enum eps_status status =
            eps__b_min_sep_draws_make(context, &draws, b_min_sep, a, (double)b_min_sep->banded.width + 4);
        if (status == EPS_UNSUPPORTED)
            break;
        if (status != EPS_OK)
            return status;
        const struct eps__mc_copies of = {a, draws->log_z, draws->log_z_error, draws->log_density_error};
        if (!(eps__mc_copies_log_value(&of, eps) < least)) {
            eps__b_min_sep_draws_free(draws);
            if (copies->draws)
                break;
            continue;
        }
        least = eps__mc_copies_log_value(&of, eps);
        eps__b_min_sep_draws_free(copies->draws);
        copies->draws = draws;
        copies->of = of;
    }
    return copies->draws ? EPS_OK : EPS_UNSUPPORTED;
}

double eps__mc_b_min_sep_copies_bytes(const struct eps__b_min_sep *b_min_sep)
{
    double most = 0, matrix = 8 * (double)b_min_sep->banded.len * (double)b_min_sep->banded.width;
    for (unsigned a = 2; isfinite(eps__b_min_sep_draws_bytes(b_min_sep, a)); a++)
        most = fmax(most, matrix + 2 * eps__b_min_sep_draws_bytes(b_min_sep, a));
    return most;
}

enum eps_status eps__mc_b_min_sep_copies_make(const struct eps_context *context,
                                              struct eps__mc_b_min_sep_copies *copies,
                                              const struct eps__mc_columns *columns,
                                              const struct eps__b_min_sep_steps *steps, double eps, double operations)
{
    size_t changes = columns->stride > 0 ? steps->n : columns->width;
    struct eps__b_min_sep b_min_sep = {
        .banded = {.len = steps->n, .width = columns->width, .p = steps->p, .changes = changes},
        .separation = steps->separation,
        .examples = steps->examples,
        .warm = steps->warm};
    double width = (double)columns->width, products = 0.5 * (double)steps->n * width * width;
    double most = operations > 0 ? fmin(operations, PRODUCTS_MAX) : PRODUCTS_MAX;
    *copies = (struct eps__mc_b_min_sep_copies){0};
    assert(columns->n == steps->n && columns->width <= steps->separation && !columns->drift);
    if (isinf(eps__b_min_sep_draws_bytes(&b_min_sep, 2)) || (columns->stride > 0 && products > most))
        return EPS_UNSUPPORTED;
    copies->gram = malloc(steps->n * columns->width * sizeof *copies->gram);
    if (!copies->gram)
        return EPS_NO_MEMORY;
    b_min_sep.banded.gram = copies->gram;
    enum eps_status status = make_gram(context, copies->gram, columns);
    return status == EPS_OK ? choose(context, copies, &b_min_sep, eps, operations) : status;
}

void eps__mc_b_min_sep_copies_clear(struct eps__mc_b_min_sep_copies *copies)
{
    eps__b_min_sep_draws_free(copies->draws);
    free(copies->gram);
    *copies = (struct eps__mc_b_min_sep_copies){0};
}
