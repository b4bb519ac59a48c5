/*
 * Three bounds on one quantile, from the fastest to the most precise: a tangent to the logarithm of the normal tail
 * (one sum of logarithms), the largest weights (one sort), and the law on a grid.
 *
 * The tangent bounds the sum of both parts at once. The paper bounds the two parts separately, each with half of the
 * probability; if both parts matter, the sum of their quantiles is far above the quantile of the sum.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/sampling/weighted_bernoulli.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "lib/numerics/binomial.h"
#include "lib/numerics/normal.h"

enum { CELLS = 512, SEARCH_STEPS = 14 };

/* The relative error of a bound in nats (S6). */
#define NATS_ERROR 4e-14

/* Below it the weights of the law underflow. */
#define LOG_ETA_LEAST (-640.0)

double eps__tail_gaussian(double tau, double log_eta)
{
    double z = eps__normal_tail_quantile(log_eta), margin = NATS_ERROR * (1 + fabs(log_eta));
    for (int i = 0;; i++) {
        double excess = eps__log_normal_tail(z) + margin + 2 * EPS__UNIT_ROUNDOFF * z * z - log_eta;
        if (excess <= 0)
            break;
        if (i == 8)
            return INFINITY;
        z += 1.01 * excess * (z > -36 ? eps__mills(z) : 1) + 4 * EPS__UNIT_ROUNDOFF * fabs(z);
    }
    return z > 0 ? eps__raise(tau * z, 4) : 0; /* never below 0: the true tau may be smaller than the given one */
}

double eps__bernoulli_log_moment(double p, double exponent)
{
    if (exponent < 700)
        return log1p(p * expm1(exponent));
    double log_taken = exponent + log(p); /* the exponential overflows */
    return log_taken > 40 ? log_taken + (1 - p) * exp(-log_taken) : log1p(exp(log_taken));
}

double eps__weights_log_moment(const struct eps__weights *weights, double lambda)
{
    double total = 0, largest = 0;
    for (size_t k = 0; k < weights->len; k++) {
        double exponent = lambda * weights->weight[k];
        total += (weights->count ? weights->count[k] : 1) * eps__bernoulli_log_moment(weights->p, exponent);
        largest = fmax(largest, exponent);
    }
    return eps__raise(total, 16 + (double)weights->len + 4 * largest);
}

struct eps__tilt eps__tilt_at(double u, double tau)
{
    return (struct eps__tilt){u, tau, eps__log_normal_tail(u), 1 / (eps__mills(u) * tau)};
}

double eps__tail_tilted_at(const struct eps__tilt *tilt, double log_moment, double log_eta)
{
    double nats = log_moment + tilt->log_tail - log_eta, start = tilt->u * tilt->tau;
    nats += NATS_ERROR * (1 + log_moment + fabs(tilt->log_tail) + fabs(log_eta));
    return eps__shift(EPS__UPPER, start + nats / tilt->rate,
                      8 * EPS__UNIT_ROUNDOFF * (fabs(start) + fabs(nats / tilt->rate)));
}

static double tilted_at_ratio(const struct eps__weights *weights, double tau, double log_eta, double z, double ratio)
{
    if (!(ratio > 0))
        return INFINITY;
    struct eps__tilt tilt = eps__tilt_at(ratio * z, tau);
    return eps__tail_tilted_at(&tilt, eps__weights_log_moment(weights, tilt.rate), log_eta);
}

double eps__tail_tilted(const struct eps__weights *weights, double tau, double log_eta, double *ratio)
{
    /* Descends in the ratio; the step is halved when neither side is better. */
    bool started = ratio && !isnan(*ratio);
    double z = fmax(eps__normal_tail_quantile(log_eta), 0.1), at = started ? *ratio : 0.9, step = started ? 0.02 : 0.1;
    double best = tilted_at_ratio(weights, tau, log_eta, z, at);
    for (int i = 0; i < SEARCH_STEPS && step > 0.01; i++) {
        double side = at - step, tail = tilted_at_ratio(weights, tau, log_eta, z, side);
        if (!(tail < best)) {
            side = at + step;
            tail = tilted_at_ratio(weights, tau, log_eta, z, side);
        }
        if (tail < best) {
            best = tail;
            at = side;
        } else {
            step *= 0.5;
        }
    }
    if (ratio)
        *ratio = at;
    return best;
}

/* ------------------------------------------------------------ the largest weights */

/* The least t with Pr[Binom(n, p) > t] <= e^log_eta. */
static uint64_t binomial_quantile(uint64_t n, double p, double log_eta)
{
    uint64_t low = (uint64_t)fmin(floor(((double)n + 1) * p), (double)n), high = n;
    if (p >= 1 || low >= n)
        return n;
    if (eps__binomial_log_tail(n, p, low + 1, true) <= log_eta)
        return low;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        *(eps__binomial_log_tail(n, p, middle + 1, true) <= log_eta ? &high : &low) = middle;
    }
    return high;
}

struct weighted {
    double weight, count;
};

static int by_falling_weight(const void *a, const void *b)
{
    double left = ((const struct weighted *)a)->weight, right = ((const struct weighted *)b)->weight;
    return (left < right) - (left > right);
}

/* Records that memory ran out: another bound would be valid, but the result would depend on memory. */
static double starve(const struct eps__weights *weights)
{
    if (weights->starved)
        atomic_store_explicit(weights->starved, true, memory_order_relaxed);
    return INFINITY;
}

double eps__tail_largest(const struct eps__weights *weights, double tau, double log_eta)
{
    struct weighted *sorted = malloc((weights->len + 1) * sizeof *sorted);
    double total = 0, half = log_eta - M_LN2 - 4 * EPS__UNIT_ROUNDOFF * (1 + fabs(log_eta)), sum = 0;
    size_t len = 0;
    if (!sorted)
        return starve(weights);
    for (size_t k = 0; k < weights->len; k++) {
        double count = weights->count ? weights->count[k] : 1;
        if (!(weights->weight[k] > 0) || !(count > 0))
            continue;
        sorted[len++] = (struct weighted){weights->weight[k], count};
        total += count;
    }
    qsort(sorted, len, sizeof *sorted, by_falling_weight);
    double left = (double)binomial_quantile((uint64_t)total, weights->p, half);
    bool all = left >= total; /* then the sum cannot exceed its largest value, and the normal part gets all of eta */
    for (size_t k = 0; k < len && left > 0; k++) {
        sum += fmin(left, sorted[k].count) * sorted[k].weight;
        left -= sorted[k].count;
    }
    free(sorted);
    return eps__raise(sum, 2 * (double)(len + 2)) + eps__tail_gaussian(tau, all ? log_eta : half);
}

/* ------------------------------------------------------------ the law on a grid */

/* Chernoff's bound on S alone, which says how far the grid must reach. */
static double reach_of(const struct eps__weights *weights, double log_eta, double sum, double largest)
{
    double best = sum;
    for (double lambda = 1e-3 / largest; lambda < 1e3 / largest; lambda *= 1.5)
        best = fmin(best, (eps__weights_log_moment(weights, lambda) - log_eta) / lambda);
    return best;
}

/* The spacing of the grid: the least weight if all are multiples of it, else the reach divided by CELLS. */
static double choose_spacing(const struct eps__weights *weights, double reach)
{
    double least = INFINITY;
    for (size_t k = 0; k < weights->len; k++)
        if (weights->weight[k] > 0)
            least = fmin(least, weights->weight[k]);
    bool lattice = reach / least <= CELLS;
    for (size_t k = 0; k < weights->len && lattice; k++) {
        double multiple = weights->weight[k] / least;
        lattice = fabs(multiple - nearbyint(multiple)) < 1e-10;
    }
    return lattice ? eps__raise(least, 1e7) : reach / CELLS;
}

/* Sets law[i] = Pr[S rounded up = i spacing] for i < cells; returns a bound on the probability beyond them. */
static double convolve_law(const struct eps__weights *weights, double spacing, double *law, size_t cells)
{
    double beyond = 0, p = weights->p;
    law[0] = 1;
    for (size_t i = 1; i < cells; i++)
        law[i] = 0;
    for (size_t k = 0; k < weights->len; k++) {
        if (!(weights->weight[k] > 0))
            continue;
        size_t jump = (size_t)fmin(floor(weights->weight[k] / spacing), (double)cells);
        while (jump < cells && (double)jump * spacing < weights->weight[k])
            jump++;
        for (double i = weights->count ? weights->count[k] : 1; i > 0; i--) {
            double leaves = 0;
            for (size_t at = cells - (jump < cells ? jump : cells); at < cells; at++)
                leaves += law[at];
            beyond += p * leaves;
            for (size_t at = cells; at-- > jump;)
                law[at] = (1 - p) * law[at] + p * law[at - jump];
            for (size_t at = jump < cells ? jump : cells; at-- > 0;)
                law[at] *= 1 - p;
        }
    }
    return beyond;
}

/*
 * ln Pr[S + tau Z > at], rounded up. The roundings: four for each term of S, and two sums over the cells. The normal
 * tail is evaluated at |u| < depth: 4 depth^2 units for the rounding of u, 2 depth^2 for the tail (N1), and 2 depth^2
 * for the logarithm at the end.
 */
static double log_joint_tail(const double *law, size_t cells, double spacing, double beyond, double tau, double terms,
                             double at)
{
    double total = beyond, depth = fabs(at) / tau + 8;
    for (size_t i = cells; i-- > 0;) {
        double u = (at - (double)i * spacing) / tau;
        total += u < -8 ? law[i] : law[i] * exp(eps__log_normal_tail(u));
    }
    return log(total) + EPS__UNIT_ROUNDOFF * (2 * (double)cells + 8 * (terms + 8 + depth * depth)) + 1e-13;
}

double eps__tail_convolved(const struct eps__weights *weights, double tau, double log_eta)
{
    double sum = 0, largest = 0, terms = 0;
    for (size_t k = 0; k < weights->len; k++) {
        double count = weights->count ? weights->count[k] : 1;
        sum += count * weights->weight[k];
        terms += weights->weight[k] > 0 ? count : 0;
        largest = fmax(largest, weights->weight[k]);
    }
    double high = eps__tail_tilted(weights, tau, log_eta, NULL);
    if (log_eta < LOG_ETA_LEAST || !(sum > 0) || !isfinite(high))
        return INFINITY;
    double spacing = choose_spacing(weights, fmin(sum, reach_of(weights, log_eta - 7, sum, largest)));
    /* Rounding up moves the law by at most a cell per term, and rarely by all of them. */
    size_t cells = (size_t)(fmin(ceil(sum / spacing), 1.25 * CELLS) + terms + 2);
    double *law = malloc(cells * sizeof *law);
    if (!law)
        return starve(weights);
    double beyond = convolve_law(weights, spacing, law, cells);
    double low = tau * eps__normal_tail_quantile(log_eta), width = high - low, at_low = NAN;
    double at_high = log_joint_tail(law, cells, spacing, beyond, tau, terms, high);
    for (int i = 0; i < 20 && at_high > log_eta; i++) {
        low = high;
        at_low = at_high;
        high += ldexp(0.01 * width, i);
        at_high = log_joint_tail(law, cells, spacing, beyond, tau, terms, high);
    }
    /* The logarithm is concave in T where the normal part dominates, so the secant nearly finds the root. */
    for (int i = 0; i < 12 && at_high <= log_eta && high - low > 1e-5 * width; i++) {
        double middle = isnan(at_low) || i % 3 == 2 ? 0.5 * (low + high)
                                                    : low + (high - low) * (at_low - log_eta) / (at_low - at_high);
        middle = fmin(middle + 1e-6 * width, 0.5 * (middle + high));
        double at = log_joint_tail(law, cells, spacing, beyond, tau, terms, middle);
        if (at <= log_eta) {
            high = middle;
            at_high = at;
        } else {
            low = middle;
            at_low = at;
        }
    }
    free(law);
    return at_high <= log_eta ? high : INFINITY;
}
