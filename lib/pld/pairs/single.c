/*
 * The loss exceeds eps on a half-line z > z*, so
 *   delta(eps) = P(z > z*) - e^eps Q(z > z*)
 *              = sum_i w_i N(z* - a_i, z*) + e^eps sum_j v_j N(z*, z* + b_j) - (e^eps - 1) N(z*, inf),
 * where N(a, b) is the mass of a standard normal. The second form uses that the weights of a law add up to 1 and does
 * not cancel where all shifts or probabilities are tiny. Any z gives a lower bound; an upper bound adds the mass
 * between two points that enclose z* (P2).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/pld/pairs/single.h"

#include <float.h>
#include <math.h>

#include "lib/numerics/normal.h"
#include "lib/pld/verify.h"

/* In standard deviations: farther than this from its mean a normal has less mass than DBL_MIN. */
#define REACH 39.0

/* Steps that grow by a factor of 4 reach infinity from any double in fewer than this; only NAN takes more. */
enum { OUTWARDS_MAX = 1100 };

bool eps__single_serves(const struct eps__branch *branches, size_t len)
{
    for (size_t b = 0; b < len; b++)
        for (int estimate = 0; estimate < 2; estimate++)
            if (!branches[b].pair[estimate].numerator.whole || !branches[b].pair[estimate].denominator.whole)
                return false;
    return true;
}

/* ln sum_i w_i e^{s_i z - s_i^2/2} of one side. Near 0 it is computed from the excess of each term over 1, because the
 * weights add up to 1. Out: *error, a bound on the absolute error, that of the weights included. */
static double log_side(const struct eps__mixture *mixture, double weight_error, double z, double *error)
{
    double most = -INFINITY, excess = 0, size = 0;
    for (size_t i = 0; i < mixture->len; i++)
        most = fmax(most, mixture->shift[i] * (z - 0.5 * mixture->shift[i]));
    if (fabs(most) < 1 && mixture->missing == 0) {
        for (size_t i = 0; i < mixture->len; i++) {
            double shift = mixture->shift[i], exponent = shift * (z - 0.5 * shift), term = expm1(exponent);
            excess += mixture->weight[i] * term;
            size += mixture->weight[i] * fmin(fabs(term) * (1 + weight_error / EPS__UNIT_ROUNDOFF) +
                                                  shift * (fabs(z) + shift) * exp(exponent),
                                              1e300);
        }
        *error = EPS__UNIT_ROUNDOFF * (8 + (double)mixture->len) * size / (1 + excess);
        return log1p(excess);
    }
    for (size_t i = 0; i < mixture->len; i++) {
        double shift = mixture->shift[i], exponent = shift * (z - 0.5 * shift);
        double term = mixture->weight[i] * exp(exponent - most);
        excess += term;
        size += term * (fabs(exponent) + shift * fabs(z) + 8);
    }
    *error = EPS__UNIT_ROUNDOFF * (4 * size / excess + 2 * fabs(most) + (double)mixture->len) + weight_error;
    return most + log(excess);
}

/* L(z). Out: *error, a bound on its error. */
static double loss_at(const struct eps__pair *pair, double z, double *error)
{
    double of_p, of_q;
    double loss = log_side(&pair->numerator, pair->weight_error, z, &of_p) -
                  log_side(&pair->denominator, pair->weight_error, -z, &of_q);
    *error = 2 * (of_p + of_q) + 4 * EPS__UNIT_ROUNDOFF * fabs(loss);
    return loss;
}

/* A sum, a bound on its absolute error without that of the additions, and the sum of the absolute values. */
struct ball {
    double value, error, size;
};

/* Adds weight e^{log_mass}, of relative error `own`, to a sum. */
static void add_part(struct ball *sum, double weight, double log_mass, double own)
{
    double part = weight * exp(log_mass);
    sum->value += part;
    sum->size += fabs(part);
    sum->error += fabs(part) * (own + 4 * EPS__UNIT_ROUNDOFF * (1 + fabs(log_mass)));
}

/* P(z > at) - e^eps Q(z > at) as a difference of tails: accurate where one of them is much smaller than the other. */
static struct ball by_tails(const struct eps__pair *pair, double eps, double at)
{
    struct ball sum = {0};
    for (size_t i = 0; i < pair->numerator.len; i++) {
        double x = at - pair->numerator.shift[i];
        add_part(&sum, pair->numerator.weight[i], eps__log_normal_tail(x),
                 EPS__MILLS_ERROR + 4 * EPS__UNIT_ROUNDOFF * x * x + pair->weight_error);
    }
    for (size_t j = 0; j < pair->denominator.len; j++) {
        double x = at + pair->denominator.shift[j];
        add_part(&sum, -pair->denominator.weight[j], eps__log_normal_tail(x) + eps,
                 EPS__MILLS_ERROR + EPS__UNIT_ROUNDOFF * (4 * x * x + eps) + pair->weight_error);
    }
    return sum;
}

/* The same from the masses between shifted points: accurate where the shifts, or the weights of non-zero shifts, are
 * tiny. */
static struct ball by_masses(const struct eps__pair *pair, enum eps__estimate estimate, double eps, double at)
{
    struct ball sum = {0};
    double own;
    for (size_t i = 0; i < pair->numerator.len; i++) {
        double shift = pair->numerator.shift[i];
        if (shift > 0) {
            double log_mass = eps__normal_log_mass(at - shift, shift, &own);
            add_part(&sum, pair->numerator.weight[i], log_mass,
                     own + 4 * EPS__UNIT_ROUNDOFF * (fabs(at) + shift) * shift + pair->weight_error);
        }
    }
    for (size_t j = 0; j < pair->denominator.len; j++) {
        double shift = pair->denominator.shift[j];
        if (shift > 0) {
            double log_mass = eps__normal_log_mass(at, shift, &own);
            add_part(&sum, pair->denominator.weight[j], log_mass + eps,
                     own + EPS__UNIT_ROUNDOFF * eps + pair->weight_error);
        }
    }
    /* The totals of the weights. Upper: P's at most 1 and Q's at least 1 minus what is missing; lower: the other way
     * round. */
    double lacking = estimate == EPS__UPPER ? pair->denominator.missing : -pair->numerator.missing * exp(-eps);
    add_part(&sum, lacking + expm1(-eps), eps__log_normal_tail(at) + eps,
             EPS__MILLS_ERROR + EPS__UNIT_ROUNDOFF * (8 + 4 * at * at + eps));
    return sum;
}

/* The one of the two with the smaller error. An infinite or undefined sum has no digits. */
static struct ball advantage(const struct eps__pair *pair, enum eps__estimate estimate, double eps, double at)
{
    struct ball tails = by_tails(pair, eps, at), masses = by_masses(pair, estimate, eps, at);
    struct ball best = masses.error < tails.error || !isfinite(tails.error) ? masses : tails;
    double additions = EPS__UNIT_ROUNDOFF * (double)(pair->numerator.len + pair->denominator.len + 4);
    if (!isfinite(best.error) || !isfinite(best.value))
        return (struct ball){0, INFINITY, 0};
    best.error = eps__raise(best.error + additions * best.size, 1e7) + DBL_MIN;
    EPS__VERIFY(eps__verify_advantage(pair, eps, at, best.value, best.error));
    return best;
}

/* A point at which L is about eps, and two points that are certain to enclose every z with L(z) = eps. */
struct crossing {
    double at, low, high;
    double below, above; /* bounds on |L - eps| at low, at high */
};

static struct crossing find_crossing(const struct eps__pair *pair, double eps)
{
    struct crossing c = {.low = -eps__mixture_reach(&pair->denominator) - REACH,
                         .high = eps__mixture_reach(&pair->numerator) + REACH};
    double error;
    for (int i = 0; i < 200 && c.high - c.low > 4 * EPS__UNIT_ROUNDOFF * fmax(fabs(c.low), fabs(c.high)); i++) {
        double middle = 0.5 * (c.low + c.high);
        *(loss_at(pair, middle, &error) < eps ? &c.low : &c.high) = middle;
    }
    c.at = 0.5 * (c.low + c.high);
    /* move outwards until the loss is beyond eps by more than its error */
    double first = -eps__mixture_reach(&pair->denominator) - REACH, last = eps__mixture_reach(&pair->numerator) + REACH;
    double step = 1e-15 * (1 + fabs(c.at));
    for (int i = 0; i < OUTWARDS_MAX; i++, step *= 4) {
        double loss = loss_at(pair, c.low, &error);
        c.below = fabs(eps - loss) + error;
        if (loss + error <= eps || c.low <= first)
            break;
        c.low = fmax(c.low - step, first);
    }
    step = 1e-15 * (1 + fabs(c.at));
    for (int i = 0; i < OUTWARDS_MAX; i++, step *= 4) {
        double loss = loss_at(pair, c.high, &error);
        c.above = fabs(loss - eps) + error;
        if (loss - error >= eps || c.high >= last)
            break;
        c.high = fmin(c.high + step, last);
    }
    return c;
}

/* An upper bound on P's mass between two points. */
static double mass_between(const struct eps__pair *pair, double low, double high)
{
    double mass = 0, error;
    for (size_t i = 0; i < pair->numerator.len && high > low; i++)
        mass +=
            pair->numerator.weight[i] * exp(eps__normal_log_mass(low - pair->numerator.shift[i], high - low, &error));
    return eps__raise(mass, 1e10) + DBL_MIN;
}

static double branch_delta(const struct eps__pair *pair, enum eps__estimate estimate, double eps)
{
    struct crossing c = find_crossing(pair, eps);
    struct ball ball = advantage(pair, estimate, eps, c.at);
    if (isinf(ball.error))
        return estimate == EPS__UPPER ? 1 : 0;
    if (estimate == EPS__LOWER)
        return fmax(ball.value - ball.error, 0);
    /* the integral of P |1 - e^{eps - L}| between z* and the point */
    double between = mass_between(pair, c.low, c.high) * fmax(expm1(c.below), fmin(c.above, 1));
    double bound = ball.value + ball.error + between;
    return isnan(bound) ? 1 : fmin(fmax(bound, 0) + pair->lost + DBL_MIN, 1);
}

bool eps__single_beyond(const struct eps__pair *pair, double eps, double *z)
{
    struct crossing c = find_crossing(pair, eps);
    double error, loss = loss_at(pair, c.high, &error);
    *z = c.high;
    return loss - error >= eps;
}

double eps__single_excess(const struct eps__pair *pair, enum eps__estimate estimate, double eps, double at,
                          double *error)
{
    struct ball ball = advantage(pair, estimate, eps, at);
    *error = ball.error;
    return ball.value;
}

double eps__single_log_delta(const struct eps__branch *branches, size_t len, enum eps__estimate estimate, double eps)
{
    double total = 0;
    for (size_t b = 0; b < len; b++)
        total += branches[b].weight[estimate] * branch_delta(&branches[b].pair[estimate], estimate, eps);
    return fmin(eps__certain(estimate, eps__log_bound(estimate, total, 16 + 2 * (double)len)), 0);
}
