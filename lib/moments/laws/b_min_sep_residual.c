/*
 * See b_min_sep_residual.h.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/moments/laws/b_min_sep_residual.h"

enum { ORDERS = 8 }; /* more hardly lower the bound, and take long to use */

static enum eps_status sum_of(const struct eps_context *context, eps__quad *sum, double *units, const void *law,
                              const eps__quad *tilt, unsigned order, bool exact)
{
    struct eps__b_min_sep tilted = *(const struct eps__b_min_sep *)law;
    tilted.tilt = tilt;
    return eps__b_min_sep_raw(context, sum, units, &tilted, order, exact ? EPS__PRECISION_QUAD : EPS__PRECISION_LONG);
}

struct eps__residual_sums eps__b_min_sep_residual_sums(const struct eps__b_min_sep *b_min_sep, size_t mean_changes,
                                                       double operations, unsigned max_order)
{
    struct eps__b_min_sep counted = *b_min_sep;
    size_t n = b_min_sep->banded.len;
    counted.banded.changes += mean_changes;
    unsigned limit = max_order > 0 && max_order < ORDERS ? max_order : ORDERS;
    struct eps__b_min_sep_plan plan = eps__b_min_sep_plan_of(&counted, operations, 0, limit);
    return (struct eps__residual_sums){.sum = sum_of,
                                       .law = b_min_sep,
                                       .len = n,
                                       .drawn = b_min_sep->examples * ((double)n / (double)b_min_sep->separation + 1),
                                       .most = plan.most,
                                       .exact = plan.exact,
                                       .spent = plan.at_once,
                                       .again = plan.spent};
}
