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

#define PRECISE 1e-6  /* the relative error of a variance from which on quadruple precision is tried */
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

/* ln of N_1, and its error. */
struct first {
    eps__quad log;
    double units;
};

/* The moments of Y/E Y up to the order `most`, those up to `exact` in quadruple precision, the others in long double. */
static enum eps_status laws_of(const struct eps_context *context, struct eps__laws *laws, const struct tilted *law,
                               const struct first *first, unsigned most, unsigned exact)
{
    const struct eps__b_min_sep_mean *mean = law->mean;
    eps__quad raw[EPS__B_MIN_SEP_ORDERS_MAX + 1] = {1, 1};
    double units[EPS__B_MIN_SEP_ORDERS_MAX + 1] = {0};
    enum eps_status status = EPS_OK;
    for (unsigned a = 2; a <= most && status == EPS_OK; a++) {
        eps__quad sum, pairs = 0.5 * a * (a - 1.0) * mean->square, firsts = a * first->log;
        status = sum_of(context, &sum, &units[a], law, a, a <= exact ? EPS__B_MIN_SEP_QUAD : EPS__B_MIN_SEP_LONG);
        raw[a] = sum * expq(pairs - firsts);
        units[a] += a * first->units + (mean->units + 4) * (double)pairs + 4 * fabs((double)firsts) + 16;
    }
    return status == EPS_OK ? eps__raw_tell(NULL, laws, raw, units, most, EPS__B_MIN_SEP_ORDERS_MAX) : status;
}

static bool is_precise(const struct eps__laws *laws, unsigned most)
{
    const struct eps__moments *moments = &laws->items[0];
    return laws->len > 0 && moments->len >= most && moments->error[2] <= PRECISE * moments->central[2];
}

enum eps_status eps__b_min_sep_residual(const struct eps_context *context, struct eps__b_min_sep_residual *residual,
                                        const struct eps__b_min_sep *b_min_sep, const struct eps__b_min_sep_mean *mean,
                                        double t, double operations, unsigned max_order)
{
    const struct tilted law = {b_min_sep, mean, t};
    struct eps__b_min_sep counted = *b_min_sep;
    eps__quad sum, square = mean->square;
    struct first first;
    counted.banded.changes += mean->changes;
    unsigned limit = max_order > 0 && max_order < ORDERS ? max_order : ORDERS;
    struct eps__b_min_sep_plan plan = eps__b_min_sep_plan_of(&counted, operations, 0, limit);
    *residual = (struct eps__b_min_sep_residual){.spent = plan.at_once};
    enum eps_status status = sum_of(context, &sum, &first.units, &law, 1, EPS__B_MIN_SEP_QUAD);
    if (status != EPS_OK || plan.most < 2 || !finiteq(sum))
        return status;
    first.log = logq(sum);
    eps__quad log_mean = (0.5 - (eps__quad)t) * square + first.log;
    double log_units =
        first.units + (mean->units + 8) * fabs((double)((0.5 - t) * square)) + 8 * fabs((double)first.log);
    double value = (double)log_mean, rounding = 2 * EPS__UNIT_ROUNDOFF * fabs(value);
    double error = eps__raise(log_units * EPS__QUAD_ROUNDOFF + rounding, 8);
    residual->log_mean =
        (struct eps__interval){eps__shift(EPS__LOWER, value, error), eps__shift(EPS__UPPER, value, error)};
    status = laws_of(context, &residual->laws, &law, &first, plan.most, 1);
    if (status == EPS_OK && plan.exact > 1 && !is_precise(&residual->laws, plan.most)) {
        eps__laws_clear(&residual->laws);
        residual->spent += plan.spent;
        status = laws_of(context, &residual->laws, &law, &first, plan.most, plan.exact);
    }
    return status;
}
