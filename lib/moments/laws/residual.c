/*
 * See residual.h.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/moments/laws/residual.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "lib/base/error.h"
#include "lib/moments/laws/raw.h"
#include "lib/numerics/bound.h"

enum {
    ORDERS_MOST = 64,
    ENOUGH = 6 /* further moments of a residual lower the bound little; quadruple precision takes 7 times as long */
};

#define PRECISE 1e-6 /* the relative error of a variance from which on quadruple precision is tried */

void eps__mean_clear(struct eps__mean *mean)
{
    free(mean->a);
    free(mean->met);
    *mean = (struct eps__mean){0};
}

enum eps_status eps__mean_make(struct eps__mean *mean, const struct eps__banded_gram *banded, double *a)
{
    *mean = (struct eps__mean){
        .a = a, .met = calloc(banded->len, sizeof *mean->met), .units = 4 * (double)banded->width + 8};
    if (!mean->met) {
        eps__mean_clear(mean);
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
    const struct eps__residual_sums *sums;
    const struct eps__mean *mean;
    double t;
    eps__quad log_first; /* ln N_1, */
    double first_units;  /* and its error */
};

/* N_j of M27, for j = order; not finite: unknown. */
static enum eps_status sum_of(const struct eps_context *context, eps__quad *sum, double *units,
                              const struct tilted *law, unsigned order, bool exact)
{
    const struct eps__mean *mean = law->mean;
    size_t n = law->sums->len;
    eps__quad *tilt = malloc(n * sizeof *tilt), most = 0;
    if (!tilt)
        return EPS_NO_MEMORY;
    for (size_t i = 0; i < n; i++) {
        tilt[i] = ((eps__quad)law->t - order) * mean->met[i];
        most = fmaxq(most, fabsq(tilt[i]));
    }
    enum eps_status status = EPS_OK;
    *sum = (eps__quad)NAN;
    *units = 0;
    if (most <= EPS__TILT_MOST)
        status = law->sums->sum(context, sum, units, law->sums->law, tilt, order, exact);
    *units += order * law->sums->drawn * (mean->units + 4) * (double)most;
    free(tilt);
    return status;
}

/* The moments of Y/E Y up to the order `most`, those up to `exact` in quadruple precision, the others in long
 * double. */
static enum eps_status laws_of(const struct eps_context *context, struct eps__laws *laws, const struct tilted *law,
                               unsigned most, unsigned exact)
{
    const struct eps__mean *mean = law->mean;
    eps__quad raw[ORDERS_MOST + 1] = {1, 1};
    double units[ORDERS_MOST + 1] = {0};
    enum eps_status status = EPS_OK;
    assert(most <= ORDERS_MOST);
    for (unsigned a = 2; a <= most && status == EPS_OK; a++) {
        eps__quad sum, pairs = 0.5 * a * (a - 1.0) * mean->square, firsts = a * law->log_first;
        status = sum_of(context, &sum, &units[a], law, a, a <= exact);
        raw[a] = sum * expq(pairs - firsts);
        units[a] += a * law->first_units + (mean->units + 4) * (double)pairs + 4 * fabs((double)firsts) + 16;
    }
    return status == EPS_OK ? eps__raw_tell(NULL, laws, raw, units, most, most) : status;
}

static bool is_precise(const struct eps__laws *laws, unsigned most)
{
    const struct eps__moments *moments = &laws->items[0];
    unsigned enough = most < ENOUGH ? most : ENOUGH;
    return laws->len > 0 && moments->len >= enough && moments->error[2] <= PRECISE * moments->central[2];
}

enum eps_status eps__residual_moments_of(const struct eps_context *context, struct eps__residual_moments *residual,
                                         const struct eps__residual_sums *sums, const struct eps__mean *mean, double t)
{
    struct tilted law = {.sums = sums, .mean = mean, .t = t};
    eps__quad sum, square = mean->square;
    *residual = (struct eps__residual_moments){.spent = sums->spent};
    enum eps_status status = sum_of(context, &sum, &law.first_units, &law, 1, true);
    if (status != EPS_OK || sums->most < 2 || !finiteq(sum))
        return status;
    law.log_first = logq(sum);
    eps__quad log_mean = (0.5 - (eps__quad)t) * square + law.log_first;
    double log_units =
        law.first_units + (mean->units + 8) * fabs((double)((0.5 - t) * square)) + 8 * fabs((double)law.log_first);
    double value = (double)log_mean, rounding = 2 * EPS__UNIT_ROUNDOFF * fabs(value);
    double error = eps__raise(log_units * EPS__QUAD_ROUNDOFF + rounding, 8);
    residual->log_mean =
        (struct eps__interval){eps__shift(EPS__LOWER, value, error), eps__shift(EPS__UPPER, value, error)};
    status = laws_of(context, &residual->laws, &law, sums->most, 1);
    if (status == EPS_OK && sums->exact > 1 && !is_precise(&residual->laws, sums->most)) {
        eps__laws_clear(&residual->laws);
        residual->spent += sums->again;
        status = laws_of(context, &residual->laws, &law, sums->most, sums->exact);
    }
    return status;
}
