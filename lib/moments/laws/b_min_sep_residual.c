/*
 * See b_min_sep_residual.h.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/moments/laws/b_min_sep_residual.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "lib/base/error.h"
#include "lib/moments/laws/raw.h"
#include "lib/numerics/bound.h"

enum { ORDERS = 8 }; /* more hardly lower the bound, and take long to use */

#define TILT_MOST 4.0 /* the largest tilt for which its rounding is counted (M27) */

void eps__b_min_sep_mean_clear(struct eps__b_min_sep_mean *mean)
{
    free(mean->a);
    free(mean->met);
    *mean = (struct eps__b_min_sep_mean){0};
}

enum eps_status eps__b_min_sep_mean_make(struct eps__b_min_sep_mean *mean, const struct eps__banded_gram *banded,
                                         double *a)
{
    *mean = (struct eps__b_min_sep_mean){
        .a = a, .met = calloc(banded->len, sizeof *mean->met), .units = 4 * (double)banded->width + 8};
    if (!mean->met) {
        eps__b_min_sep_mean_clear(mean);
        return EPS_NO_MEMORY;
    }
    for (size_t i = 0; i < banded->len; i++)
        for (size_t d = 0; d < banded->width && d <= i; d++) {
            eps__quad entry = banded->gram[i * banded->width + d];
            mean->met[i] += entry * a[i - d];
            if (d > 0)
                mean->met[i - d] += entry * a[i];
        }
    for (size_t i = 0; i < banded->len; i++) {
        assert(a[i] >= 0 && mean->met[i] >= 0);
        mean->square += mean->met[i] * a[i];
        mean->changes += i > 0 && mean->met[i] != mean->met[i - 1];
    }
    mean->units += (double)banded->len;
    return EPS_OK;
}

/* The law of M27. */
struct tilted {
    const struct eps__b_min_sep *b_min_sep;
    const struct eps__b_min_sep_mean *mean;
    double t;
};

/* N_j of M27, for j = order; not finite: unknown. */
static enum eps_status sum_of(const struct eps_context *context, eps__quad *sum, double *units,
                              const struct tilted *law, unsigned order, enum eps__b_min_sep_precision precision)
{
    const struct eps__b_min_sep_mean *mean = law->mean;
    struct eps__b_min_sep tilted = *law->b_min_sep;
    size_t n = tilted.banded.len;
    eps__quad *tilt = malloc(n * sizeof *tilt), most = 0;
    if (!tilt)
        return EPS_NO_MEMORY;
    for (size_t i = 0; i < n; i++) {
        tilt[i] = ((eps__quad)law->t - order) * mean->met[i];
        most = fmaxq(most, fabsq(tilt[i]));
    }
    tilted.tilt = tilt;
    enum eps_status status = EPS_OK;
    *sum = (eps__quad)NAN;
    *units = 0;
    if (most <= TILT_MOST)
        status = eps__b_min_sep_raw(context, sum, units, &tilted, order, precision);
    double drawn = (double)order * tilted.examples * ((double)n / (double)tilted.separation + 1);
    *units += drawn * (mean->units + 4) * (double)most;
    free(tilt);
    return status;
}

enum eps_status eps__b_min_sep_residual(const struct eps_context *context, struct eps__b_min_sep_residual *residual,
                                        const struct eps__b_min_sep *b_min_sep, const struct eps__b_min_sep_mean *mean,
                                        double t, double operations, unsigned max_order)
{
    const struct tilted law = {b_min_sep, mean, t};
    struct eps__b_min_sep counted = *b_min_sep;
    eps__quad raw[EPS__B_MIN_SEP_ORDERS_MAX + 1] = {1, 1}, first, square = mean->square;
    double units[EPS__B_MIN_SEP_ORDERS_MAX + 1] = {0}, first_units;
    counted.banded.changes += mean->changes;
    unsigned limit = max_order > 0 && max_order < ORDERS ? max_order : ORDERS;
    struct eps__b_min_sep_plan plan = eps__b_min_sep_plan_of(&counted, operations, 0, limit);
    *residual = (struct eps__b_min_sep_residual){.spent = plan.spent};
    enum eps_status status = sum_of(context, &first, &first_units, &law, 1, EPS__B_MIN_SEP_QUAD);
    if (status != EPS_OK || plan.most < 2 || !finiteq(first))
        return status;
    eps__quad log_first = logq(first), log_mean = (0.5 - (eps__quad)t) * square + log_first;
    for (unsigned a = 2; a <= plan.most && status == EPS_OK; a++) {
        eps__quad sum, pairs = 0.5 * a * (a - 1.0) * square, firsts = a * log_first;
        status = sum_of(context, &sum, &units[a], &law, a, a <= plan.exact ? EPS__B_MIN_SEP_QUAD : EPS__B_MIN_SEP_LONG);
        raw[a] = sum * expq(pairs - firsts);
        units[a] += a * first_units + (mean->units + 4) * (double)pairs + 4 * fabs((double)firsts) + 16;
    }
    double log_units =
        first_units + (mean->units + 8) * fabs((double)((0.5 - t) * square)) + 8 * fabs((double)log_first);
    double value = (double)log_mean, rounding = 2 * EPS__UNIT_ROUNDOFF * fabs(value);
    double error = eps__raise(log_units * EPS__QUAD_ROUNDOFF + rounding, 8);
    residual->log_mean =
        (struct eps__interval){eps__shift(EPS__LOWER, value, error), eps__shift(EPS__UPPER, value, error)};
    if (status == EPS_OK)
        status = eps__raw_tell(NULL, &residual->laws, raw, units, plan.most, EPS__B_MIN_SEP_ORDERS_MAX);
    return status;
}
