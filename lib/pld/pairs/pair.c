/*
 * Evaluation in logarithms. A component's exponent a z - a^2/2 + ln w may be far outside the range of a double, so
 * every sum is taken relative to its largest term.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/pld/pairs/pair.h"

#include <math.h>
#include <stdlib.h>

#include "lib/numerics/normal.h"
#include "lib/pld/verify.h"

bool eps__mixture_alloc(struct eps__mixture *mixture, size_t len)
{
    mixture->weight = calloc(len, sizeof(double));
    mixture->shift = calloc(len, sizeof(double));
    mixture->len = len;
    mixture->whole = false;
    mixture->missing = 0;
    if (mixture->weight && mixture->shift)
        return true;
    eps__mixture_clear(mixture);
    return false;
}

void eps__mixture_clear(struct eps__mixture *mixture)
{
    free(mixture->weight);
    free(mixture->shift);
    *mixture = (struct eps__mixture){0};
}

void eps__branch_clear(struct eps__branch *branch)
{
    for (int estimate = 0; estimate < 2; estimate++) {
        eps__mixture_clear(&branch->pair[estimate].numerator);
        eps__mixture_clear(&branch->pair[estimate].denominator);
    }
}

/* ln sum_i weight_i exp(shift_i z - shift_i^2/2). Out: *mean and *variance, those of the shift's posterior; *size, the
 * sum of all sizes that round in exponents (an exponent's own, its distance from the largest one, which may have no
 * posterior weight, and the largest one's); share, the posterior weights, or NULL. */
static double log_sum(const struct eps__mixture *mixture, double z, double *mean, double *variance, double *size,
                      double *share)
{
    double largest = -INFINITY;
    for (size_t i = 0; i < mixture->len; i++) {
        double shift = mixture->shift[i], exponent = shift * (z - 0.5 * shift);
        if (exponent > largest)
            largest = exponent;
    }
    double total = 0, moment = 0, square = 0, exponents = 0;
    for (size_t i = 0; i < mixture->len; i++) {
        double shift = mixture->shift[i];
        double exponent = shift * (z - 0.5 * shift);
        double below = exponent - largest, term = mixture->weight[i] * (below == 0 ? 1 : exp(below));
        total += term;
        moment += term * shift;
        square += term * shift * shift;
        exponents += term * (fabs(exponent) + fabs(below));
        if (share)
            share[i] = term;
    }
    if (share)
        for (size_t i = 0; i < mixture->len; i++)
            share[i] /= total;
    double log_total = log(total);
    *mean = moment / total;
    *variance = square / total - *mean * *mean;
    *size = exponents / total + fabs(largest) + fabs(log_total);
    return largest + log_total;
}

void eps__pair_at(const struct eps__pair *pair, double z, struct eps__pair_point *point, double *numerator_share,
                  double *denominator_share)
{
    double numerator_mean, denominator_mean, numerator_size, denominator_size, spread[2];
    point->z = z;
    point->log_numerator = log_sum(&pair->numerator, z, &numerator_mean, &spread[0], &numerator_size, numerator_share);
    point->log_denominator =
        log_sum(&pair->denominator, -z, &denominator_mean, &spread[1], &denominator_size, denominator_share);
    point->loss = point->log_numerator - point->log_denominator;
    point->slope = numerator_mean + denominator_mean;
    point->bend = spread[0] - spread[1];
    /* The rounding of exponents, weighted by the posterior; that of the logarithms; that of the sums (P9). */
    point->loss_error = EPS__UNIT_ROUNDOFF * (4 * (numerator_size + denominator_size) + fabs(z) * point->slope +
                                              2 * fabs(point->log_numerator) + 2 * fabs(point->log_denominator) +
                                              2 * (double)(pair->numerator.len + pair->denominator.len) + 16);
    EPS__VERIFY(!eps__verify_now() || eps__verify_loss(pair, z, point->loss, point->loss_error));
}

/* How far from a point the loss is larger by `rise`, to the second order. */
static double step_of(const struct eps__pair_point *point, double rise)
{
    double step = rise / point->slope, bent = 0.5 * point->bend * step / point->slope;
    return fabs(bent) < 0.5 ? step * (1 - bent) : step;
}

void eps__pair_inverse(const struct eps__pair *pair, const struct eps__pair_point *left, double right_z, double loss,
                       struct eps__pair_point *point, double *numerator_share, double *denominator_share)
{
    double low = left->z, high = right_z, z = low + step_of(left, loss - left->loss), last_step = INFINITY;
    bool reached = false; /* whether L(right_z) is known to exceed the loss */
    for (int i = 0; i < 80; i++) {
        /* A step beyond the end, or slow progress: try the end itself, which may be the answer. */
        if (!reached && (i == 4 || !(z < right_z)))
            z = right_z;
        else if (!(z > low && z < high))
            z = 0.5 * (low + high);
        eps__pair_at(pair, z, point, numerator_share, denominator_share);
        double residual = loss - point->loss;
        if (z >= right_z) {
            if (residual >= 0)
                return;
            reached = true;
        }
        if (residual > 0)
            low = z;
        else
            high = z;
        double step = step_of(point, residual);
        /* Converged if the residual is within rounding, or if Newton's step no longer shrinks. */
        if (fabs(residual) <= point->loss_error || high - low <= 4 * EPS__UNIT_ROUNDOFF * fabs(z) ||
            (fabs(step) >= last_step && fabs(step) < 1e-13 * (1 + fabs(z))))
            return;
        last_step = fabs(step);
        z += step;
    }
}

/* Bound on the relative error of exp(eps__log_normal_tail(x) + shift) (P9). */
static double tail_error(double x, double shift)
{
    double depth = x > 0 ? x * x : 0;
    return 2 * EPS__MILLS_ERROR + 4 * EPS__UNIT_ROUNDOFF * (1 + depth + fabs(shift));
}

void eps__pair_log_mass(const struct eps__pair *pair, double left, double right, double *log_lower, double *log_upper)
{
    double lower = 0, upper = 0, scale = -INFINITY;
    const struct eps__mixture *numerator = &pair->numerator;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < numerator->len; i++) {
            /* Subtract the tails on the side of the component's mean on which the interval lies. */
            double from = left - numerator->shift[i], to = right - numerator->shift[i];
            if (from + to < 0) {
                double reflected = -from;
                from = -to;
                to = reflected;
            }
            double near = eps__log_normal_tail(from), far = isinf(to) ? -INFINITY : eps__log_normal_tail(to);
            double log_weight = log(numerator->weight[i]);
            if (pass == 0) {
                scale = fmax(scale, log_weight + near);
                continue;
            }
            double near_part = exp(log_weight + near - scale), far_part = isinf(to) ? 0 : exp(log_weight + far - scale);
            double slack = tail_error(from, log_weight + scale) * near_part +
                           (far_part > 0 ? tail_error(to, log_weight + scale) * far_part : 0);
            upper += near_part - far_part + slack;
            lower += fmax(0, near_part - far_part - slack);
        }
    }
    *log_upper = upper > 0 ? eps__shift(EPS__UPPER, scale + log(upper), 1e-15 * (1 + fabs(scale))) : -INFINITY;
    *log_lower = lower > 0 ? eps__shift(EPS__LOWER, scale + log(lower), 1e-15 * (1 + fabs(scale))) : -INFINITY;
    EPS__VERIFY(!eps__verify_now() || eps__verify_pair_mass(pair, left, right, *log_lower, *log_upper));
}

double eps__mixture_reach(const struct eps__mixture *mixture)
{
    double reach = 0;
    for (size_t i = 0; i < mixture->len; i++)
        reach = fmax(reach, mixture->shift[i]);
    return reach;
}

double eps__pair_ceiling(const struct eps__pair *pair)
{
    if (eps__mixture_reach(&pair->numerator) > 0)
        return INFINITY;
    double total = 0, still = 0;
    for (size_t i = 0; i < pair->numerator.len; i++)
        total += pair->numerator.weight[i];
    for (size_t j = 0; j < pair->denominator.len; j++)
        if (pair->denominator.shift[j] == 0)
            still += pair->denominator.weight[j];
    return still > 0 ? log(total / still) : INFINITY;
}
