/*
 * See poisson_residual.h.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/moments/laws/poisson_residual.h"

enum {
    ORDERS = 8, /* more hardly lower the bound, and take long to use */
    OF_USE = 4  /* fewer give a bound that is no better than others */
};

#define OPERATIONS 1e8        /* the most for the sums at one tilt, */
#define OPERATIONS_OF_USE 1e9 /* or this if the orders are only OF_USE */

static enum eps_status sum_of(const struct eps_context *context, eps__quad *sum, double *units, const void *law,
                              const eps__quad *tilt, unsigned order, bool exact)
{
    return eps__poisson_raw(context, sum, units, law, tilt, order, exact);
}

struct eps__residual_sums eps__poisson_residual_sums(const struct eps__banded_gram *banded,
                                                     const struct eps__mean *mean, unsigned max_order)
{
    unsigned limit = max_order > 0 && max_order < ORDERS ? max_order : ORDERS;
    struct eps__residual_sums sums = {
        .sum = sum_of, .law = banded, .len = banded->len, .drawn = (double)banded->len, .exact = 1};
    size_t changes = banded->changes + (mean ? mean->changes : banded->changes);
    sums.most = eps__poisson_tilted_most(banded, changes, OPERATIONS, limit, &sums.spent);
    if (limit >= OF_USE && sums.most < OF_USE)
        sums.most = eps__poisson_tilted_most(banded, changes, OPERATIONS_OF_USE, OF_USE, &sums.spent);
    if (limit >= OF_USE && sums.most < OF_USE) {
        sums.most = 1;
        sums.spent = 0;
    }
    return sums;
}
