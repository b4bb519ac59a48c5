/*
 * Each pair is tabulated on a coarse grid of z, on which the moment generating function (a trapezoid sum of an analytic
 * function) is accurate to many digits but proves nothing. From it come the tilt for an epsilon, where the steps' tails
 * may be cut, and the saddle-point approximation of delta and its inverse.
 *
 * With heavy tails a cut far out makes the saddle point's delta far too large, and one too near loses delta itself. The
 * right cut is the one whose delta requires this very cut (eps__aim()).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/pld/compose/saddle.h"

#include <math.h>
#include <stdlib.h>

#include "lib/base/error.h"
#include "lib/base/limits.h"
#include "lib/numerics/lanes/lanes.h"
#include "lib/numerics/normal.h"

enum { AT_ONCE = 8 * EPS__LANES }; /* points of a quadrature */

#define Z_FIRST (-10.0)
#define POLL_AFTER (1u << 18) /* poll after evaluating this many atoms */

/* A pair of group privacy has tens of thousands of atoms, all of which are evaluated at each point. */
static enum eps_status tabulate(const struct eps_context *context, struct eps__quadrature *quadrature,
                                const struct eps__pair *pair, double weight)
{
    size_t atoms = pair->numerator.len + pair->denominator.len, every = 1 + POLL_AFTER / atoms;
    double sharpness = eps__mixture_reach(&pair->numerator) + eps__mixture_reach(&pair->denominator);
    quadrature->reach = eps__mixture_reach(&pair->numerator);
    quadrature->z_step = 0.1 / (1 + sharpness / 20);
    quadrature->len = (size_t)ceil((quadrature->reach + EPS__TAIL_REACH - Z_FIRST) / quadrature->z_step) + 1;
    quadrature->loss = malloc(quadrature->len * sizeof(double));
    quadrature->log_mass = malloc(quadrature->len * sizeof(double));
    if (!quadrature->loss || !quadrature->log_mass)
        return EPS_NO_MEMORY;
    double shift = log(weight * quadrature->z_step) - EPS__LOG_SQRT_2PI;
    for (size_t i = 0; i < quadrature->len; i++) {
        struct eps__pair_point point;
        double z = Z_FIRST + (double)i * quadrature->z_step;
        enum eps_status status = i % every ? EPS_OK : eps__poll(context);
        if (status != EPS_OK)
            return status;
        eps__pair_at(pair, z, &point, NULL, NULL);
        quadrature->loss[i] = point.loss;
        quadrature->log_mass[i] = point.log_numerator - 0.5 * z * z + shift;
    }
    return EPS_OK;
}

enum eps_status eps__step_quadratures(const struct eps_context *context, struct eps__step *step)
{
    enum eps_status status = EPS_OK;
    step->quadratures = calloc(step->len, sizeof *step->quadratures);
    if (!step->quadratures)
        return EPS_NO_MEMORY;
    for (size_t b = 0; b < step->len && status == EPS_OK; b++)
        status = tabulate(context, &step->quadratures[b], &step->branches[b].pair[EPS__UPPER],
                          step->branches[b].weight[EPS__UPPER]);
    return status;
}

void eps__step_clear(struct eps__step *step)
{
    for (size_t b = 0; b < step->len; b++) {
        if (step->branches)
            eps__branch_clear(&step->branches[b]);
        if (step->quadratures) {
            free(step->quadratures[b].loss);
            free(step->quadratures[b].log_mass);
        }
    }
    free(step->branches);
    free(step->quadratures);
    *step = (struct eps__step){0};
}

size_t eps__quadrature_len(const struct eps__quadrature *quadrature, double z_excess)
{
    return (size_t)fmin((double)quadrature->len, (quadrature->reach + z_excess - Z_FIRST) / quadrature->z_step + 1);
}

double eps__quadrature_z(const struct eps__quadrature *quadrature, size_t i)
{
    return Z_FIRST + (double)i * quadrature->z_step;
}

static double largest_exponent(const struct eps__step *step, double tilt, double z_excess)
{
    double largest = -INFINITY;
    for (size_t b = 0; b < step->len; b++) {
        const struct eps__quadrature *quadrature = &step->quadratures[b];
        for (size_t i = 0, len = eps__quadrature_len(quadrature, z_excess); i < len; i++) {
            double exponent = quadrature->log_mass[i] + tilt * quadrature->loss[i];
            largest = exponent > largest ? exponent : largest;
        }
    }
    return largest;
}

void eps__saddle_moments(const struct eps__steps *steps, double tilt, double z_excess, struct eps__saddle *saddle)
{
    saddle->tilt = tilt;
    saddle->z_excess = z_excess;
    saddle->log_moment = saddle->mean = saddle->variance = saddle->third = 0;
    for (size_t k = 0; k < steps->len; k++) {
        const struct eps__step *step = &steps->items[k];
        double largest = largest_exponent(step, tilt, z_excess), total = 0, mean = 0, square = 0, cube = 0;
        for (size_t b = 0; b < step->len; b++) {
            const struct eps__quadrature *quadrature = &step->quadratures[b];
            size_t len = eps__quadrature_len(quadrature, z_excess);
            for (size_t from = 0; from < len; from += AT_ONCE) {
                double weight[AT_ONCE];
                const double *loss = &quadrature->loss[from];
                size_t some = len - from < AT_ONCE ? len - from : AT_ONCE;
                for (size_t i = 0; i < AT_ONCE; i++)
                    weight[i] = i < some ? quadrature->log_mass[from + i] + tilt * loss[i] - largest : -INFINITY;
                eps__exp_lanes(weight, AT_ONCE / EPS__LANES);
                for (size_t i = 0; i < some; i++) {
                    total += weight[i];
                    mean += weight[i] * loss[i];
                    square += weight[i] * loss[i] * loss[i];
                    cube += weight[i] * loss[i] * loss[i] * loss[i];
                }
            }
        }
        mean /= total;
        square /= total;
        double count = (double)step->count;
        saddle->third += count * (cube / total - 3 * mean * square + 2 * mean * mean * mean);
        saddle->log_moment += count * (largest + log(total));
        saddle->mean += count * mean;
        saddle->variance += count * fmax(square - mean * mean, 1e-300);
    }
}

/* E[e^{-t x} 1(x > 0)] for x ~ N(d, S^2). */
static double half_moment(double t, double d, double deviation)
{
    double u = t * deviation - d / deviation;
    if (u > -30)
        return exp(-0.5 * d * d / (deviation * deviation) - EPS__LOG_SQRT_2PI) * eps__mills(u);
    return exp(-t * d + 0.5 * t * t * deviation * deviation);
}

double eps__saddle_log_delta(const struct eps__saddle *saddle, double eps)
{
    double deviation = sqrt(saddle->variance), d = saddle->mean - eps;
    double part = half_moment(saddle->tilt, d, deviation) - half_moment(saddle->tilt + 1, d, deviation);
    double log_delta = saddle->log_moment - saddle->tilt * eps + log(fmax(part, 1e-300));
    return fmin(log_delta, 0);
}

bool eps__is_skew(const struct eps__saddle *saddle)
{
    return saddle->tilt > 0 && saddle->third > 0.5 * saddle->variance * sqrt(saddle->variance);
}

/* How far the tilt at which the mean is eps lies ahead: by Newton's method for the power of the mean whose second
 * derivative vanishes here. With heavy tails the mean grows exponentially, where plain steps are far too short. */
static double ahead(const struct eps__saddle *saddle, double eps)
{
    double mean = saddle->mean, variance = saddle->variance;
    if (!(mean > 0 && eps > 0))
        return (eps - mean) / variance;
    double power = fmin(fmax(1 - saddle->third * mean / (variance * variance), -2), 2), grown = log(eps / mean);
    return mean / variance * (fabs(power) > 1e-6 ? expm1(power * grown) / power : grown);
}

void eps__find_tilt(const struct eps__steps *steps, double eps, double z_excess, double start,
                    struct eps__saddle *saddle)
{
    double low = 0, high = INFINITY, tilt = start;
    for (int i = 0; i < 60; i++) {
        if (tilt == 0 || (i > 0 && high == start && low == 0)) { /* is there a tilt above 0? */
            eps__saddle_moments(steps, 0, z_excess, saddle);
            if (saddle->mean >= eps)
                return;
            if (tilt == 0)
                tilt = (eps - saddle->mean) / saddle->variance;
        }
        eps__saddle_moments(steps, tilt, z_excess, saddle);
        double residual = eps - saddle->mean;
        if (fabs(residual) < 0.02 * sqrt(saddle->variance))
            return;
        if (residual > 0)
            low = tilt;
        else
            high = tilt;
        double next = tilt + ahead(saddle, eps);
        if (!(next > low && next < high) || (isinf(high) && next > 4 * tilt))
            next = isinf(high) ? 4 * tilt : low > 0 ? 0.5 * (low + high) : 0.1 * high;
        if (high - low < 1e-6 * high) { /* the mean jumps over eps at this tilt */
            eps__saddle_moments(steps, low, z_excess, saddle);
            return;
        }
        if (isinf(high) && next > 1e12)
            return;
        tilt = next;
    }
}

/* ln of one step's own delta(eps) from its quadratures; -INFINITY if no point is above eps. */
static double step_log_delta(const struct eps__step *step, double eps)
{
    double largest = -INFINITY, total = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t b = 0; b < step->len; b++) {
            const struct eps__quadrature *quadrature = &step->quadratures[b];
            for (size_t i = 0; i < quadrature->len; i++) {
                double above = quadrature->loss[i] - eps;
                if (above <= 0)
                    continue;
                double exponent = quadrature->log_mass[i] + log(-expm1(-above));
                if (pass == 0)
                    largest = fmax(largest, exponent);
                else
                    total += exp(exponent - largest);
            }
        }
    }
    return total > 0 ? largest + log(total) : -INFINITY;
}

double eps__jump_log_delta(const struct eps__steps *steps, double eps)
{
    double log_delta = -INFINITY;
    for (size_t k = 0; k < steps->len; k++)
        log_delta = fmax(log_delta, step_log_delta(&steps->items[k], eps) + log((double)steps->items[k].count));
    return log_delta;
}

/* How far the losses of at most `cut` move the sum: |mean| plus deviation. Out: *beyond, the expected number of larger
 * losses. */
static double spread_below(const struct eps__steps *steps, double cut, double *beyond)
{
    double mean = 0, square = 0;
    *beyond = 0;
    for (size_t k = 0; k < steps->len; k++) {
        const struct eps__step *step = &steps->items[k];
        for (size_t b = 0; b < step->len; b++) {
            const struct eps__quadrature *quadrature = &step->quadratures[b];
            for (size_t i = 0; i < quadrature->len; i++) {
                double mass = (double)step->count * exp(quadrature->log_mass[i]), loss = quadrature->loss[i];
                *beyond += loss > cut ? mass : 0;
                mean += loss > cut ? 0 : mass * loss;
                square += loss > cut ? 0 : mass * loss * loss;
            }
        }
    }
    return fabs(mean) + sqrt(square);
}

bool eps__one_loss_decides(const struct eps__steps *steps, double eps, double tolerance)
{
    const double few = 1e-3, little = 0.05, apart = 0.01;
    double slope = (eps__jump_log_delta(steps, eps) - eps__jump_log_delta(steps, eps * (1 + apart))) / (apart * eps);
    for (double cut = 0.5 * eps, beyond = 0; cut > 1e-6 * eps && beyond < fmax(few, tolerance); cut *= 0.25) {
        double moved = slope * spread_below(steps, cut, &beyond);
        if ((beyond < few && moved < little) || beyond + 2 * moved < tolerance)
            return true;
    }
    return false;
}

double eps__cut_excess(const struct eps__steps *steps, double least, double tolerance)
{
    double tail = fmax(least, EPS__LOG_DELTA_FLOOR) + log(tolerance * 1e-4 / steps->total);
    return fmin(ceil(2 * eps__normal_tail_quantile(tail)) / 2, EPS__TAIL_REACH);
}

/* The saddle point's ln delta(eps) with the steps cut for delta = e^least. start: as in eps__find_tilt(). */
static double cut_log_delta(const struct eps__steps *steps, double eps, double least, double tolerance, double start,
                            struct eps__saddle *saddle)
{
    eps__find_tilt(steps, eps, eps__cut_excess(steps, least, tolerance), start, saddle);
    return eps__saddle_log_delta(saddle, eps);
}

/* Searches for the cut whose delta requires this very cut. delta is at least the jump's. */
static void aim_from(const struct eps__steps *steps, double eps, double known, double tolerance, double start,
                     struct eps__saddle *saddle)
{
    double jump = eps__jump_log_delta(steps, eps), log_delta = known;
    if (isnan(known)) {
        log_delta = cut_log_delta(steps, eps, jump, tolerance, start, saddle);
        if (eps__is_skew(saddle)) {
            double low = jump, high = 0;
            for (int i = 0; i < 16 && high - low > 2; i++) {
                double middle = 0.5 * (low + high);
                *(cut_log_delta(steps, eps, middle, tolerance, saddle->tilt, saddle) < middle ? &high : &low) = middle;
            }
            log_delta = low;
        }
        start = saddle->tilt;
    }
    cut_log_delta(steps, eps, fmax(log_delta - 25, jump), tolerance, start, saddle);
    if (eps__is_skew(saddle))
        cut_log_delta(steps, eps, fmax(log_delta - 2, jump), tolerance, saddle->tilt, saddle);
    saddle->eps = eps;
    saddle->log_delta = fmin(fmax(log_delta, jump), 0);
}

void eps__aim(const struct eps__steps *steps, double eps, double known, double tolerance, struct eps__saddle *saddle)
{
    aim_from(steps, eps, known, tolerance, 0, saddle);
}

/* The eps at which the aimed saddle point gives log_delta, for heavy tails. `from`: near it. */
static double skew_epsilon(const struct eps__steps *steps, double log_delta, double tolerance,
                           const struct eps__saddle *from)
{
    struct eps__saddle saddle;
    double low = 0, high = fmax(from->mean, 1e-9);
    for (aim_from(steps, high, NAN, tolerance, from->tilt, &saddle);
         saddle.log_delta > log_delta && high < EPS__EPSILON_MOST;
         aim_from(steps, high, NAN, tolerance, saddle.tilt, &saddle)) {
        low = high;
        high *= 2;
    }
    for (int i = 0; i < 12 && high - low > 0.03 * high; i++) {
        double middle = low > 0 ? 0.5 * (low + high) : 0.25 * high;
        aim_from(steps, middle, NAN, tolerance, saddle.tilt, &saddle);
        *(saddle.log_delta > log_delta ? &low : &high) = middle;
    }
    return high;
}

double eps__saddle_epsilon(const struct eps__steps *steps, double log_delta, double tolerance)
{
    double tail = fmax(log_delta, EPS__LOG_DELTA_FLOOR) + log(tolerance * 1e-4 / steps->total);
    double z_excess = fmin(eps__normal_tail_quantile(tail), EPS__TAIL_REACH);
    struct eps__saddle saddle;
    eps__saddle_moments(steps, 0, z_excess, &saddle);
    if (eps__saddle_log_delta(&saddle, saddle.mean) < log_delta) { /* below the mean, with the sum taken as normal */
        double low = saddle.mean - 10 * sqrt(saddle.variance), high = saddle.mean;
        for (int i = 0; i < 40; i++) {
            double middle = 0.5 * (low + high);
            *(eps__saddle_log_delta(&saddle, middle) > log_delta ? &low : &high) = middle;
        }
        return fmax(low, 0);
    }
    double low = 0, high = 2 / sqrt(saddle.variance);
    for (int i = 0; i < 60; i++) { /* over tilts, each of which has its own mean as eps */
        eps__saddle_moments(steps, high, z_excess, &saddle);
        if (eps__saddle_log_delta(&saddle, saddle.mean) < log_delta)
            break;
        low = high;
        high *= 2;
    }
    for (int i = 0; i < 14; i++) {
        double middle = 0.5 * (low + high);
        eps__saddle_moments(steps, middle, z_excess, &saddle);
        *(eps__saddle_log_delta(&saddle, saddle.mean) > log_delta ? &low : &high) = middle;
    }
    return eps__is_skew(&saddle) ? skew_epsilon(steps, log_delta, tolerance, &saddle) : fmax(saddle.mean, 0);
}

/* width^2/6 for each step, 1.7 times that because cells are wider where the density is small; but at most |loss| width,
 * where nearly every loss is close to a knot. */
double eps__added_variance(const struct eps__steps *steps, const struct eps__saddle *saddle, double spacing)
{
    double added = 0;
    for (size_t k = 0; k < steps->len; k++) {
        const struct eps__step *step = &steps->items[k];
        double largest = largest_exponent(step, saddle->tilt, saddle->z_excess), total = 0, sum = 0;
        for (size_t b = 0; b < step->len; b++) {
            const struct eps__quadrature *quadrature = &step->quadratures[b];
            for (size_t i = 0, len = eps__quadrature_len(quadrature, saddle->z_excess); i < len; i++) {
                double exponent = quadrature->log_mass[i] + saddle->tilt * quadrature->loss[i] - largest;
                if (exponent < -60)
                    continue;
                double weight = exp(exponent);
                total += weight;
                sum += weight * fmin(1.7 / 6 * spacing * spacing, fabs(quadrature->loss[i]) * spacing);
            }
        }
        added += (double)step->count * sum / total;
    }
    return added;
}

/* Whether the middle half of the tilted losses of one branch is wider than a spacing. Out: *share, the branch's tilted
 * mass. */
static bool branch_resolved(const struct eps__quadrature *quadrature, const struct eps__saddle *saddle, double largest,
                            double spacing, double *share)
{
    size_t len = eps__quadrature_len(quadrature, saddle->z_excess);
    double sum = 0, quarter = NAN;
    *share = 0;
    for (size_t i = 0; i < len; i++)
        *share += exp(quadrature->log_mass[i] + saddle->tilt * quadrature->loss[i] - largest);
    for (size_t i = 0; i < len; i++) {
        sum += exp(quadrature->log_mass[i] + saddle->tilt * quadrature->loss[i] - largest);
        if (isnan(quarter) && sum >= 0.25 * *share)
            quarter = quadrature->loss[i];
        if (sum >= 0.75 * *share)
            return quadrature->loss[i] - quarter > spacing;
    }
    return false;
}

bool eps__saddle_resolved(const struct eps__step *step, const struct eps__saddle *saddle, double spacing)
{
    double largest = largest_exponent(step, saddle->tilt, saddle->z_excess), most = 0;
    bool resolved = false;
    for (size_t b = 0; b < step->len; b++) {
        double share;
        bool wide = branch_resolved(&step->quadratures[b], saddle, largest, spacing, &share);
        if (share > most) {
            most = share;
            resolved = wide;
        }
    }
    return resolved;
}
