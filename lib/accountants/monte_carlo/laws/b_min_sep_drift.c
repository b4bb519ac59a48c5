/*
 * See b_min_sep_drift.h. A linear function of y is a lower bound on ln P/Q, for any draw probability q <= p (A19). t
 * and q are chosen such that the largest possible value is least (A28). The drift has the same bits on every machine.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/monte_carlo/laws/b_min_sep_drift.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include <sleef.h>

#include "lib/moments/laws/b_min_sep.h"
#include "lib/numerics/bound.h"
#include "lib/numerics/sum.h"

enum {
    RARER = 8, /* q is a multiple of p/RARER */
    HALVINGS = 80
};

/* A bound on what underflow takes from a computed probability of waiting (A19). */
#define WAITS_LOSS 0x1p-980

/* ln P/Q >= <mean, y> - level. */
struct minorant {
    double level;  /* rounded up */
    double square; /* |mean|^2 */
    double units;  /* relative error bound of `mean`, in units of roundoff */
};

/* trials KL(Bernoulli(q) || Bernoulli(p)), q <= p, rounded up. */
static double divergence(double trials, double p, double q)
{
    if (q >= p)
        return 0;
    double less = q * Sleef_cinz_logd1_u10purec(p / q);
    double more = p < 1 ? (1 - q) * Sleef_cinz_log1pd1_u10purec((p - q) / (1 - p)) : INFINITY;
    return eps__shift(EPS__UPPER, fmax(trials * (more - less), 0), 8 * EPS__UNIT_ROUNDOFF * trials * (less + q + more));
}

/* The minorant for draws of probability q. mean: n numbers; waits: scratch space for n numbers. */
static struct minorant minorant_of(double *mean, double *waits, const struct eps__mc_columns *columns,
                                   const struct eps__b_min_sep_steps *steps, double q)
{
    struct eps__b_min_sep b_min_sep = {.banded = {.len = steps->n, .width = columns->width, .p = steps->p},
                                       .separation = steps->separation,
                                       .examples = steps->examples,
                                       .warm = steps->warm};
    double k = steps->examples, error = eps__b_min_sep_waits(&b_min_sep, q, waits) / EPS__UNIT_ROUNDOFF;
    struct eps__sum trials = {0}, own = {0}, square = {0};
    for (size_t i = 0; i < steps->n; i++)
        mean[i] = 0;
    for (size_t i = 0; i < steps->n; i++) {
        waits[i] += WAITS_LOSS;
        eps__sum_add(&trials, k * waits[i]);
        eps__sum_add(&own, waits[i] * (k * q * (1 - q) + k * q * k * q) * columns->half[i]);
        for (size_t d = 0; d < columns->width && i + d < steps->n; d++)
            mean[i + d] += waits[i] * k * q * columns->entries[i * columns->stride + d];
    }
    for (size_t i = 0; i < steps->n; i++)
        eps__sum_add(&square, mean[i] * mean[i]);
    double tried = eps__raise(eps__sum_interval(&trials, 0).upper, error + 8);
    double owns = eps__raise(eps__sum_interval(&own, 0).upper, error + 24);
    return (struct minorant){eps__add_up(owns, divergence(tried, steps->p, q)), eps__sum_value(&square),
                             error + (double)columns->width + 16};
}

/* -ln(t^t/(1+t)^(1+t)) */
static double gap(double t)
{
    return Sleef_cinz_log1pd1_u10purec(t) + t * Sleef_cinz_log1pd1_u10purec(1 / t);
}

/* Bisects for the t at which t level + t^2 square/2 - t eps - gap(t) is least; its slope rises with t. */
static double best_tilt(const struct minorant *minorant, double eps)
{
    double low = 0x1p-60, high = 0x1p60;
    for (int i = 0; i < HALVINGS; i++) {
        double t = sqrt(low * high);
        double slope = minorant->level - eps + t * minorant->square - Sleef_cinz_log1pd1_u10purec(1 / t);
        *(slope < 0 ? &low : &high) = t;
    }
    return low;
}

/* ln of the bound on values at eps, before rounding. */
static double log_value(const struct minorant *minorant, double t, double eps)
{
    return t * (minorant->level + 0.5 * t * minorant->square - eps) - gap(t);
}

/* Sets v = -t mean, in place, and all that follows from it. */
static void set(struct eps__mc_b_min_sep_drift *drift, struct eps__mc_columns *columns, const struct minorant *minorant,
                double *mean, double t)
{
    struct eps__sum square = {0}, sum = {0};
    double largest = 0;
    for (size_t i = 0; i < columns->n; i++) {
        mean[i] *= -t;
        eps__sum_add(&square, mean[i] * mean[i]);
        eps__sum_add(&sum, -mean[i]);
        largest = fmax(largest, -mean[i]);
    }
    columns->drift = mean;
    columns->reach = eps__raise(columns->reach + largest, 8);
    double size = eps__raise(eps__sum_interval(&sum, 0).upper * columns->reach, 4), n = (double)columns->n;
    double half = 0.5 * eps__sum_value(&square);
    *drift = (struct eps__mc_b_min_sep_drift){.tilt = t, .level = minorant->level, .half = half};
    drift->log_weight_error = eps__raise(EPS__UNIT_ROUNDOFF * ((n + 8) * size + 32 * half), 8);
    /* <v, y> differs from -t <a, y> by rounding and underflow; the error of the weight counts twice (A28) */
    double lost = 2 * WAITS_LOSS * t * n * EPS__TOGETHER_MAX * columns->longest * columns->reach;
    double moved = (minorant->units + 4) * EPS__UNIT_ROUNDOFF * size + lost;
    drift->slack = eps__raise(moved + 2 * drift->log_weight_error, 8);
}

enum eps_status eps__mc_b_min_sep_drift_make(struct eps__mc_b_min_sep_drift *drift, struct eps__mc_columns *columns,
                                             const struct eps__b_min_sep_steps *steps, double eps)
{
    assert(columns->n == steps->n && columns->width <= steps->separation && !columns->drift);
    double *mean = malloc(steps->n * sizeof *mean), *waits = malloc(steps->n * sizeof *waits);
    double least = 0, best = 0, tilt = 0;
    for (int j = RARER; mean && waits && j > 0 && (steps->p < 1 || j == RARER); j--) {
        double q = steps->p * j / RARER;
        struct minorant minorant = minorant_of(mean, waits, columns, steps, q);
        double t = best_tilt(&minorant, eps), value = log_value(&minorant, t, eps);
        if (value < least) {
            least = value;
            best = q;
            tilt = t;
        }
    }
    enum eps_status status = !mean || !waits ? EPS_NO_MEMORY : best > 0 ? EPS_OK : EPS_UNSUPPORTED;
    if (status == EPS_OK) {
        struct minorant minorant = minorant_of(mean, waits, columns, steps, best);
        set(drift, columns, &minorant, mean, tilt);
    } else {
        free(mean);
    }
    free(waits);
    return status;
}

double eps__mc_b_min_sep_drift_most(const struct eps__mc_b_min_sep_drift *drift, double eps, double loss_error)
{
    double t = drift->tilt, level = t * drift->level, at = t * eps, least = gap(t), off = 2 * t * loss_error;
    return eps__shift(EPS__UPPER, level + drift->half - at - least,
                      off + drift->slack + 32 * EPS__UNIT_ROUNDOFF * (level + drift->half + at + least + off));
}

void eps__mc_b_min_sep_drift_add(double *dot, const struct eps__mc_columns *columns, const double *y, size_t from,
                                 size_t end)
{
    for (size_t i = from; i < end; i++)
        for (size_t lane = 0; lane < EPS__LANES; lane++)
            dot[lane] = fma(columns->drift[i], y[(i - from) * EPS__LANES + lane], dot[lane]);
}
