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
#include <string.h>

#include "lib/moments/laws/b_min_sep.h"
#include "lib/numerics/bound.h"
#include "lib/numerics/sum.h"

/* A bound on what underflow takes from a computed probability of waiting (A19). */
#define WAITS_LOSS 0x1p-980

/* What a drift is chosen from. */
struct choice {
    const struct eps__mc_columns *columns;
    const struct eps__b_min_sep_steps *steps;
    double *mean;  /* a, n numbers */
    double *waits; /* scratch space for n numbers */
    double units;  /* relative error bound of `mean`, in units of roundoff */
};

/* Sets choice->mean and the lower bound for draws of probability drift->q. */
static void bound(struct eps__mc_drift *drift, void *law)
{
    struct choice *choice = law;
    const struct eps__mc_columns *columns = choice->columns;
    const struct eps__b_min_sep_steps *steps = choice->steps;
    struct eps__b_min_sep b_min_sep = {.banded = {.len = steps->n, .width = columns->width, .p = steps->p},
                                       .separation = steps->separation,
                                       .examples = steps->examples,
                                       .warm = steps->warm};
    double *mean = choice->mean, *waits = choice->waits, k = steps->examples, q = drift->q;
    double error = eps__b_min_sep_waits(&b_min_sep, q, waits) / EPS__UNIT_ROUNDOFF;
    struct eps__sum trials = {0}, own = {0}, square = {0};
    memset(mean, 0, steps->n * sizeof *mean);
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
    drift->mean = eps__add_up(owns, eps__mc_drift_divergence(tried, steps->p, q));
    drift->square = eps__sum_value(&square);
    choice->units = error + (double)columns->width + 16;
}

/* Sets v = -t a, in place, and all that follows from it. */
static void set(struct eps__mc_b_min_sep_drift *drift, struct eps__mc_columns *columns, const struct choice *choice)
{
    struct eps__sum square = {0}, sum = {0};
    double largest = 0, t = drift->of.tilt, *at = choice->mean;
    for (size_t i = 0; i < columns->n; i++) {
        at[i] *= -t;
        eps__sum_add(&square, at[i] * at[i]);
        eps__sum_add(&sum, -at[i]);
        largest = fmax(largest, -at[i]);
    }
    columns->drift = at;
    columns->reach = eps__raise(columns->reach + largest, 8);
    double size = eps__raise(eps__sum_interval(&sum, 0).upper * columns->reach, 4), n = (double)columns->n;
    drift->half = 0.5 * eps__sum_value(&square);
    drift->log_weight_error = eps__raise(EPS__UNIT_ROUNDOFF * ((n + 8) * size + 32 * drift->half), 8);
    /* <v, y> differs from -t <a, y> by rounding and underflow; the error of the weight counts twice (A28) */
    double lost = 2 * WAITS_LOSS * t * n * EPS__TOGETHER_MAX * columns->longest * columns->reach;
    double moved = (choice->units + 4) * EPS__UNIT_ROUNDOFF * size + lost;
    drift->of.slack = eps__raise(moved + 2 * drift->log_weight_error, 8);
}

enum eps_status eps__mc_b_min_sep_drift_make(struct eps__mc_b_min_sep_drift *drift, struct eps__mc_columns *columns,
                                             const struct eps__b_min_sep_steps *steps, double eps)
{
    assert(columns->n == steps->n && columns->width <= steps->separation && !columns->drift);
    struct choice choice = {.columns = columns,
                            .steps = steps,
                            .mean = malloc(steps->n * sizeof(double)),
                            .waits = malloc(steps->n * sizeof(double))};
    const struct eps__mc_drifts among = {.p = steps->p, .shares = 8, .most = 0x1p60, .bound = bound, .law = &choice};
    enum eps_status status = !choice.mean || !choice.waits                   ? EPS_NO_MEMORY
                             : eps__mc_drift_choose(&drift->of, &among, eps) ? EPS_OK
                                                                             : EPS_UNSUPPORTED;
    if (status == EPS_OK) {
        bound(&drift->of, &choice); /* choice.mean is that of the last q */
        set(drift, columns, &choice);
    } else {
        free(choice.mean);
    }
    free(choice.waits);
    return status;
}

double eps__mc_b_min_sep_drift_most(const struct eps__mc_b_min_sep_drift *drift, double eps, double loss_error)
{
    double t = drift->of.tilt, level = t * drift->of.mean, at = t * eps, least = -eps__mc_drift_log_peak(t);
    double off = 2 * t * loss_error;
    return eps__shift(EPS__UPPER, level + drift->half - at - least,
                      off + drift->of.slack + 32 * EPS__UNIT_ROUNDOFF * (level + drift->half + at + least + off));
}

void eps__mc_b_min_sep_drift_add(double *dot, const struct eps__mc_columns *columns, const double *y, size_t from,
                                 size_t end)
{
    for (size_t i = from; i < end; i++)
        for (size_t lane = 0; lane < EPS__LANES; lane++)
            dot[lane] = fma(columns->drift[i], y[(i - from) * EPS__LANES + lane], dot[lane]);
}
