/*
 * Shared by all shapes of matrices: the step from a tail bound to the odds of a participation.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/mmcc/rows.h"

#include <float.h>
#include <math.h>

#include "lib/numerics/normal.h"

/* An upper bound on what a sum of 2^24 products loses to underflow, 2^-1074 per product. */
#define TINY 1e-300

void eps__rows_init(struct eps__rows *rows, const struct eps__rows_class *class, double p, double terms, double columns)
{
    rows->class = class;
    rows->p = p;
    rows->prior = p < 1 ? log(p) - log1p(-p) : INFINITY;
    rows->prior += 8 * EPS__UNIT_ROUNDOFF * (1 + fabs(log(p)) + fabs(rows->prior));
    rows->square_error = (terms + 8) * EPS__UNIT_ROUNDOFF;
    rows->entry_error = (terms + 8) * EPS__UNIT_ROUNDOFF;
    rows->tiny = (columns + 1) * TINY;
}

struct eps__tail_query eps__tail_query(enum eps_direction direction, double sigma, double log_eta, bool quick)
{
    return (struct eps__tail_query){direction, sigma, log_eta, quick, eps__tail_gaussian(1, log_eta)};
}

double eps__rows_tail_without(const struct eps__rows *rows, const struct eps__tail_query *query, double square)
{
    double tail = query->sigma * eps__rows_norm_upper(rows, square) * query->z;
    return eps__raise(tail, 4);
}

double eps__rows_log_odds(const struct eps__rows *rows, const struct eps__tail_query *query, double square, double tail)
{
    double variance = query->sigma * query->sigma, excess = (2 * tail - square) / (2 * variance);
    double size = (2 * fabs(tail) + square) / (2 * variance);
    double odds = rows->prior + excess + size * rows->square_error +
                  8 * EPS__UNIT_ROUNDOFF * (size + fabs(rows->prior)) + 2 * rows->tiny / variance;
    /* If sigma^2 underflows, the noise hides nothing, and the participation counts as certain. */
    return variance >= DBL_MIN && !isnan(odds) ? odds : INFINITY;
}

double eps__rows_log_eta(const struct eps__rows *rows, const struct eps__tail_query *query, double square)
{
    return query->log_eta - fmin(2 * rows->square_error + rows->tiny / square, M_LN2);
}
