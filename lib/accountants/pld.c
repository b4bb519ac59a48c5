/*
 * The privacy-loss-distribution accountant: dominating pairs of the steps, discretised, composed by FFT.
 *
 * Served here: no sampling (one Gaussian), Poisson sampling with a diagonal strategy (subsampled Gaussians, one a
 * step; groups of examples), and the last iterate of linear losses (one Binomial mixture).
 *
 * A side is one direction of the mechanism. It first scouts: the pair on a coarse grid of z, whose moment generating
 * function (trapezoid sums of analytic functions) is good to many digits but proves nothing. From it come the tilt
 * for an epsilon, the resolution for a tolerance, and approximate answers to start searches from. What is answered
 * comes from panels: a composition around one epsilon, kept for the epsilons near it.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/accountants/accountant.h"
#include "lib/error.h"
#include "lib/numerics/normal.h"
#include "lib/sampling/law.h"

enum { PANELS_MAX = 12, AIMS_MAX = 4, GROUPS_FROM = 64, HEAVY_SURPLUS = 20 };

/* The share of the tolerance that each estimate's discretisation may use; the upper one, which is the answer, is
 * made the finer. */
static const double budget[2] = {[EPS__UPPER] = 0.15, [EPS__LOWER] = 0.6};

#define LOG_DELTA_FLOOR (-700.0)  /* under 1e-300, the least delta that is reported */
#define LENGTH_MAX 0x1p24         /* of a transform */
#define REFINED_LENGTH_MAX 0x1p22 /* of one that only narrows a bracket there is */
#define SHIFT_MAX 200.0           /* a sigma under column norm / 200 is out of a PLD's reach */
#define TAIL_REACH 38.5           /* beyond it a normal tail underflows */

struct step {
    struct eps__pair pair[2]; /* by estimate */
    uint64_t count;
    double z_step, reach;
    size_t scout_len;
    double *scout_loss, *scout_slope, *scout_density; /* at z = -10 + i z_step; density: ln of P's, per unit of z */
};

struct panel_slot {
    struct eps__panel panel; /* of a composition; or */
    struct eps__pld pld;     /* the one step there is */
    enum eps__estimate estimate;
    double centre, reach; /* answers |eps - centre| <= reach */
    bool used, single;
};

struct side {
    struct step *steps;
    size_t steps_len;
    double total;                    /* number of compositions */
    double ceiling;                  /* the largest loss of the sum, rounded up; INFINITY if there is none */
    double finer;                    /* refinement so far */
    double seen_eps, seen_log_delta; /* the last upper bound: better than the saddle's where tails are heavy */
    struct panel_slot slots[PANELS_MAX];
    size_t next_slot;
};

struct pld_profile {
    struct eps__profile base;
    const struct eps_context *context;
    struct eps__tally *tally; /* NULL while searching for a sigma: those PLDs are not worth keeping */
    struct eps__accuracy accuracy;
    struct side sides[EPS_DIRECTIONS];
};

/* ------------------------------------------------------------ the pairs */

static void mixture_clear(struct eps__mixture *mixture)
{
    free(mixture->weight);
    free(mixture->shift);
    *mixture = (struct eps__mixture){0};
}

static bool mixture_alloc(struct eps__mixture *mixture, size_t len)
{
    mixture->weight = calloc(len, sizeof(double));
    mixture->shift = calloc(len, sizeof(double));
    mixture->len = len;
    return mixture->weight && mixture->shift;
}

/* N(0, 1), or with a law: the mixture over its atoms j of N(j unit, 1). Trimmed atoms go where they keep the
 * estimate on its side: larger shifts dominate smaller ones (TPS lemma 2.4). */
static bool mixture_of(struct eps__mixture *mixture, const struct eps__law *law, double unit, bool numerator,
                       enum eps__estimate estimate, double *lost)
{
    if (!law) {
        if (!mixture_alloc(mixture, 1))
            return false;
        mixture->weight[0] = 1;
        return true;
    }
    bool spare = law->first > 0 && law->lost_low + law->lost_high > 0 && estimate == EPS__LOWER && !numerator;
    if (!mixture_alloc(mixture, law->len + (spare ? 1 : 0)))
        return false;
    for (size_t i = 0; i < law->len; i++) {
        mixture->weight[i] = law->weight[i];
        mixture->shift[i] = (double)(law->first + i) * unit;
    }
    if (numerator && estimate == EPS__UPPER) {
        mixture->weight[0] += law->lost_low;
        *lost += law->lost_high;
    }
    if (!numerator && estimate == EPS__LOWER)
        mixture->weight[spare ? law->len : 0] += law->lost_low + law->lost_high;
    return true;
}

/* The scheme's pair for one column norm, in one direction, with sensitivity/sigma bounded by the estimate's side. */
static bool make_pair(struct eps__pair *pair, const struct eps__setting *setting, const struct eps__law *law,
                      double unit, enum eps_direction direction, enum eps__estimate estimate)
{
    bool replace = setting->job->mechanism.adjacency == EPS_ADJACENCY_REPLACE_ONE;
    bool sampled = setting->job->mechanism.sampling.scheme != EPS_SCHEME_NONE;
    /* Without sampling the sensitivity already holds the adjacency: one Gaussian against N(0, 1). */
    const struct eps__law *with = law, *without = sampled && replace ? law : NULL;
    bool remove = direction == EPS_REMOVE;
    pair->weight_error = law ? law->weight_error : 0;
    return mixture_of(&pair->numerator, remove ? with : without, unit, true, estimate, &pair->lost) &&
           mixture_of(&pair->denominator, remove ? without : with, unit, false, estimate, &pair->lost);
}

static void step_clear(struct step *step)
{
    for (int estimate = 0; estimate < 2; estimate++) {
        mixture_clear(&step->pair[estimate].numerator);
        mixture_clear(&step->pair[estimate].denominator);
    }
    free(step->scout_loss);
    free(step->scout_slope);
    free(step->scout_density);
}

static bool scout(struct step *step)
{
    const struct eps__pair *pair = &step->pair[EPS__UPPER];
    double sharpness = eps__mixture_reach(&pair->numerator) + eps__mixture_reach(&pair->denominator);
    step->reach = eps__mixture_reach(&pair->numerator);
    step->z_step = 0.1 / (1 + sharpness / 20);
    step->scout_len = (size_t)ceil((step->reach + TAIL_REACH + 10) / step->z_step) + 1;
    step->scout_loss = malloc(step->scout_len * sizeof(double));
    step->scout_slope = malloc(step->scout_len * sizeof(double));
    step->scout_density = malloc(step->scout_len * sizeof(double));
    if (!step->scout_loss || !step->scout_slope || !step->scout_density)
        return false;
    for (size_t i = 0; i < step->scout_len; i++) {
        struct eps__pair_point point;
        double z = -10 + (double)i * step->z_step;
        eps__pair_at(pair, z, &point, NULL, NULL);
        step->scout_loss[i] = point.loss;
        step->scout_slope[i] = point.slope;
        step->scout_density[i] = point.log_numerator - 0.5 * z * z - EPS__LOG_SQRT_2PI;
    }
    return true;
}

static bool add_step(struct side *side, const struct eps__setting *setting, const struct eps__law *law,
                     enum eps_direction direction, double unit_lower, double unit_upper, uint64_t count)
{
    struct step *steps = realloc(side->steps, (side->steps_len + 1) * sizeof *steps);
    if (!steps)
        return false;
    side->steps = steps;
    struct step *step = &steps[side->steps_len++];
    *step = (struct step){.count = count};
    side->total += (double)count;
    bool made = make_pair(&step->pair[EPS__UPPER], setting, law, unit_upper, direction, EPS__UPPER) &&
                make_pair(&step->pair[EPS__LOWER], setting, law, unit_lower, direction, EPS__LOWER) && scout(step);
    /* Trimmed atoms of P could have a larger loss. */
    if (made && step->pair[EPS__UPPER].lost == 0) {
        double ceiling = eps__pair_ceiling(&step->pair[EPS__UPPER]);
        side->ceiling += (double)count * (ceiling + 1e-12 * fabs(ceiling) + 4 * step->pair[EPS__UPPER].weight_error);
    } else {
        side->ceiling = INFINITY;
    }
    return made;
}

/* ------------------------------------------------------------ the scout's answers */

struct saddle {
    double tilt, log_moment, mean, variance; /* of the sum, tilted */
    double third;                            /* its third central moment */
    double z_excess;                         /* how far beyond its reach each step is kept */
    double eps, log_delta;                   /* what it was found for, and the best knowledge of ln delta there */
};

/* The log moment generating function of the sum and its derivatives, steps cut at reach + z_excess. */
static void scout_moments(const struct side *side, double tilt, double z_excess, struct saddle *saddle)
{
    saddle->tilt = tilt;
    saddle->z_excess = z_excess;
    saddle->log_moment = saddle->mean = saddle->variance = saddle->third = 0;
    for (size_t k = 0; k < side->steps_len; k++) {
        const struct step *step = &side->steps[k];
        size_t len = (size_t)fmin((double)step->scout_len, (step->reach + z_excess + 10) / step->z_step + 1);
        double largest = -INFINITY, total = 0, mean = 0, square = 0, cube = 0;
        for (size_t i = 0; i < len; i++)
            largest = fmax(largest, step->scout_density[i] + tilt * step->scout_loss[i]);
        for (size_t i = 0; i < len; i++) {
            double exponent = step->scout_density[i] + tilt * step->scout_loss[i] - largest;
            if (exponent < -80)
                continue;
            double weight = exp(exponent), loss = step->scout_loss[i];
            total += weight;
            mean += weight * loss;
            square += weight * loss * loss;
            cube += weight * loss * loss * loss;
        }
        mean /= total;
        square /= total;
        double count = (double)step->count;
        saddle->third += count * (cube / total - 3 * mean * square + 2 * mean * mean * mean);
        saddle->log_moment += count * (largest + log(total * step->z_step));
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

/* The saddle-point approximation of ln delta(eps), with the tilt's sum taken as normal. */
static double saddle_log_delta(const struct saddle *saddle, double eps)
{
    double deviation = sqrt(saddle->variance), d = saddle->mean - eps;
    double part = half_moment(saddle->tilt, d, deviation) - half_moment(saddle->tilt + 1, d, deviation);
    double log_delta = saddle->log_moment - saddle->tilt * eps + log(fmax(part, 1e-300));
    return fmin(log_delta, 0);
}

/* Is the tilted sum so skew that where the steps are cut decides what the saddle says? */
static bool is_skew(const struct saddle *saddle)
{
    return saddle->tilt > 0 && saddle->third > 0.5 * saddle->variance * sqrt(saddle->variance);
}

/* The tilt t >= 0 at which the tilted mean is eps: where e^{K(t) - t eps} is least. */
static void find_tilt(const struct side *side, double eps, double z_excess, struct saddle *saddle)
{
    scout_moments(side, 0, z_excess, saddle);
    if (saddle->mean >= eps)
        return;
    double low = 0, high = INFINITY, tilt = (eps - saddle->mean) / saddle->variance;
    for (int i = 0; i < 60; i++) {
        scout_moments(side, tilt, z_excess, saddle);
        double residual = eps - saddle->mean;
        if (fabs(residual) < 0.02 * sqrt(saddle->variance))
            return;
        if (residual > 0)
            low = tilt;
        else
            high = tilt;
        double next = tilt + residual / saddle->variance;
        if (!(next > low && next < high) || (isinf(high) && next > 4 * tilt))
            next = isinf(high) ? 4 * tilt : 0.5 * (low + high);
        if (high - low < 1e-6 * high || next > 1e12)
            return;
        tilt = next;
    }
}

/* ln of the sum over steps of delta(eps) of the step alone: about a lower bound on delta(eps), and its size where one
 * large loss among small ones is what happens. */
static double jump_log_delta(const struct side *side, double eps)
{
    double log_sum = -INFINITY;
    for (size_t k = 0; k < side->steps_len; k++) {
        const struct step *step = &side->steps[k];
        double largest = -INFINITY, total = 0;
        for (int pass = 0; pass < 2; pass++) {
            for (size_t i = 0; i < step->scout_len; i++) {
                double above = step->scout_loss[i] - eps;
                if (above <= 0)
                    continue;
                double exponent = step->scout_density[i] + log(-expm1(-above));
                if (pass == 0)
                    largest = fmax(largest, exponent);
                else
                    total += exp(exponent - largest);
            }
        }
        if (total > 0)
            log_sum = fmax(log_sum, largest + log(total * step->z_step * (double)step->count));
    }
    return log_sum;
}

/* Where the steps may be cut if delta is at least e^least: beyond, their tails no longer count against it. */
static double cut_excess(const struct side *side, double least, double tolerance)
{
    double tail = fmax(least, LOG_DELTA_FLOOR) + log(tolerance * 1e-4 / side->total);
    return fmin(ceil(2 * eps__normal_tail_quantile(tail)) / 2, TAIL_REACH);
}

/* The saddle's ln delta(eps) with the steps cut for e^least. */
static double cut_log_delta(const struct side *side, double eps, double least, double tolerance, struct saddle *saddle)
{
    find_tilt(side, eps, cut_excess(side, least, tolerance), saddle);
    return saddle_log_delta(saddle, eps);
}

/*
 * The saddle for eps, given what is known of ln delta there (NAN: nothing). With heavy tails a cut far out makes the
 * saddle's delta far too large, and one too near loses delta itself: the right one is where the cut for a delta gives
 * that delta. No delta is smaller than the jump's.
 */
static void aim(const struct side *side, double eps, double known, double tolerance, struct saddle *saddle)
{
    double jump = jump_log_delta(side, eps), log_delta = known;
    if (isnan(known)) {
        log_delta = cut_log_delta(side, eps, jump, tolerance, saddle);
        if (is_skew(saddle)) {
            double low = jump, high = 0;
            for (int i = 0; i < 16 && high - low > 2; i++) {
                double middle = 0.5 * (low + high);
                *(cut_log_delta(side, eps, middle, tolerance, saddle) < middle ? &high : &low) = middle;
            }
            log_delta = low;
        }
    }
    cut_log_delta(side, eps, fmax(log_delta - 25, jump), tolerance, saddle);
    if (is_skew(saddle))
        cut_log_delta(side, eps, fmax(log_delta - 2, jump), tolerance, saddle);
    saddle->eps = eps;
    saddle->log_delta = fmin(fmax(log_delta, jump), 0);
}

static double approximate(struct eps__profile *profile, enum eps_direction direction, double eps)
{
    struct saddle saddle;
    const struct pld_profile *pld = (const struct pld_profile *)profile;
    aim(&pld->sides[direction], eps, NAN, pld->accuracy.tolerance, &saddle);
    return saddle.log_delta;
}

/* The eps at which the aimed saddle gives log_delta: where tails are heavy. */
static double skew_guess(const struct side *side, double log_delta, double tolerance, double start)
{
    struct saddle saddle;
    double low = 0, high = fmax(start, 1e-9);
    for (aim(side, high, NAN, tolerance, &saddle); saddle.log_delta > log_delta && high < 1e9;
         aim(side, high, NAN, tolerance, &saddle)) {
        low = high;
        high *= 2;
    }
    for (int i = 0; i < 12 && high - low > 0.03 * high; i++) {
        double middle = low > 0 ? 0.5 * (low + high) : 0.25 * high;
        aim(side, middle, NAN, tolerance, &saddle);
        *(saddle.log_delta > log_delta ? &low : &high) = middle;
    }
    return high;
}

static double guess(struct eps__profile *profile, enum eps_direction direction, double log_delta)
{
    const struct pld_profile *pld = (const struct pld_profile *)profile;
    const struct side *side = &pld->sides[direction];
    double tail = fmax(log_delta, LOG_DELTA_FLOOR) + log(pld->accuracy.tolerance * 1e-4 / side->total);
    double z_excess = fmin(eps__normal_tail_quantile(tail), TAIL_REACH);
    struct saddle saddle;
    scout_moments(side, 0, z_excess, &saddle);
    if (saddle_log_delta(&saddle, saddle.mean) < log_delta) { /* below the mean, the sum as normal */
        double low = saddle.mean - 10 * sqrt(saddle.variance), high = saddle.mean;
        for (int i = 0; i < 40; i++) {
            double middle = 0.5 * (low + high);
            *(saddle_log_delta(&saddle, middle) > log_delta ? &low : &high) = middle;
        }
        return fmax(low, 0);
    }
    double low = 0, high = 2 / sqrt(saddle.variance);
    for (int i = 0; i < 60; i++) { /* along the tilts, where every eps is its own mean */
        scout_moments(side, high, z_excess, &saddle);
        if (saddle_log_delta(&saddle, saddle.mean) < log_delta)
            break;
        low = high;
        high *= 2;
    }
    for (int i = 0; i < 14; i++) {
        double middle = 0.5 * (low + high);
        scout_moments(side, middle, z_excess, &saddle);
        *(saddle_log_delta(&saddle, saddle.mean) > log_delta ? &low : &high) = middle;
    }
    return is_skew(&saddle) ? skew_guess(side, log_delta, pld->accuracy.tolerance, saddle.mean) : fmax(saddle.mean, 0);
}

/* ------------------------------------------------------------ panels */

/* Tilt, cut and spacing are taken from coarse scales, so that neighbouring questions about one mechanism ask for the
 * same step PLD, which the cache may then hold. */
static double on_scale(double value, double steps_per_octave)
{
    return value > 0 ? exp2(floor(log2(value) * steps_per_octave) / steps_per_octave) : 0;
}

static void settle(const struct side *side, struct saddle *saddle)
{
    double eps = saddle->eps, log_delta = saddle->log_delta;
    scout_moments(side, on_scale(saddle->tilt, 8), saddle->z_excess, saddle);
    saddle->eps = eps;
    saddle->log_delta = log_delta;
}

/* The variance that splitting cells of a spacing adds to the sum, tilted: width^2/6 a step (with the wider cells where
 * the density is small), but no more than |loss| width where nearly every loss lies beside one knot. */
static double added_variance(const struct side *side, const struct saddle *saddle, double spacing)
{
    double total = 0;
    for (size_t k = 0; k < side->steps_len; k++) {
        const struct step *step = &side->steps[k];
        size_t len = (size_t)fmin((double)step->scout_len, (step->reach + saddle->z_excess + 10) / step->z_step + 1);
        double largest = -INFINITY, weights = 0, sum = 0;
        for (size_t i = 0; i < len; i++)
            largest = fmax(largest, step->scout_density[i] + saddle->tilt * step->scout_loss[i]);
        for (size_t i = 0; i < len; i++) {
            double exponent = step->scout_density[i] + saddle->tilt * step->scout_loss[i] - largest;
            if (exponent < -60)
                continue;
            double weight = exp(exponent);
            weights += weight;
            sum += weight * fmin(1.7 / 6 * spacing * spacing, fabs(step->scout_loss[i]) * spacing);
        }
        total += (double)step->count * sum / weights;
    }
    return total;
}

/* The grid spacing at which the estimate's error is within its share of the tolerance. Splitting a cell's mass adds
 * variance width^2/6 to each step; that moves eps by variance/2 times the density over the Q-tail, and ln delta by
 * the same over delta. */
static double choose_spacing(const struct side *side, const struct eps__accuracy *accuracy, const struct saddle *saddle,
                             double eps, enum eps__estimate estimate)
{
    double deviation = sqrt(saddle->variance), u = (saddle->tilt + 1) * deviation;
    double share = budget[estimate] * accuracy->tolerance / (side->finer * side->finer), variance;
    double for_delta = 2 * share * deviation * (eps__mills(saddle->tilt * deviation) - eps__mills(u));
    double for_epsilon = 2 * share * fmax(eps, 1e-6) * deviation * eps__mills(u);
    if (accuracy->unknown == EPS_SOLVE_EPSILON)
        variance = for_epsilon;
    else if (accuracy->unknown == EPS_SOLVE_NOISE_MULTIPLIER) /* sigma moves both at least in proportion */
        variance = fmax(for_delta, for_epsilon);
    else
        variance = for_delta;
    double spacing = sqrt(6 * variance / (1.7 * side->total));
    while (added_variance(side, saddle, 2 * spacing) <= variance && spacing < 1)
        spacing *= 2;
    spacing = fmin(spacing, fmin(0.5 / (1 + saddle->tilt), deviation / 2) / side->finer);
    /* A nearly constant loss: a grid on which rounding every loss up is within the share is fine enough. */
    double by_rounding = accuracy->unknown == EPS_SOLVE_EPSILON ? fmax(eps, 1e-6) : 1 / (1 + saddle->tilt);
    return on_scale(fmax(spacing, 0.05 * share * by_rounding / side->total), 4);
}

static void plan_step(struct eps__pld_plan *plan, const struct side *side, const struct step *step,
                      const struct saddle *saddle, double tolerance, double spacing)
{
    double tail = log(tolerance * 1e-6 / side->total);
    *plan = (struct eps__pld_plan){.spacing = spacing, .tilt = saddle->tilt, .log_small = tail};
    plan->widest = fmin(sqrt(1e3 * tolerance), 1) / side->finer;
    plan->log_jump = ceil(-saddle->log_delta);
    /* The Chernoff bound over delta: some nats in every case, many where tails are heavy. */
    double surplus = saddle->log_moment - saddle->tilt * saddle->eps - saddle->log_delta;
    plan->log_boost = surplus > HEAVY_SURPLUS ? ceil(surplus) : 0;
    plan->z_low = -eps__normal_tail_quantile(tail);
    plan->z_high = step->reach + saddle->z_excess;
    size_t len = (size_t)fmin((double)step->scout_len, (plan->z_high + 10) / step->z_step + 1);
    double peak = -INFINITY, total = 0, mean = 0, square = 0;
    for (size_t i = 0; i < len; i++)
        peak = fmax(peak, step->scout_density[i] + saddle->tilt * step->scout_loss[i]);
    for (size_t i = 0; i < len; i++) {
        double exponent = step->scout_density[i] + saddle->tilt * step->scout_loss[i] - peak;
        double weight = exponent > -80 ? exp(exponent) : 0;
        total += weight;
        mean += weight * step->scout_loss[i];
        square += weight * step->scout_loss[i] * step->scout_loss[i];
    }
    mean /= total;
    double deviation = sqrt(fmax(square / total - mean * mean, 0));
    plan->log_norm = peak + log(total * step->z_step);
    plan->log_reference = log(0.4 / (deviation + 1e-300));
    plan->fine_low = plan->z_high;
    plan->fine_high = plan->z_low;
    for (size_t i = 0; i < len; i++) {
        double z = -10 + (double)i * step->z_step;
        if (eps__pld_importance(plan, step->scout_density[i], step->scout_loss[i]) < plan->log_small)
            continue;
        plan->fine_low = fmin(plan->fine_low, z - step->z_step);
        plan->fine_high = fmax(plan->fine_high, z + step->z_step);
    }
    plan->fine_low = fmax(plan->fine_low, plan->z_low);
    plan->fine_high = fmin(plan->fine_high, plan->z_high);
}

/* Tilted mass that may be lost at each end of the window: little against delta in the same units. */
static double tail_mass(const struct saddle *saddle, double tolerance)
{
    double share = exp(saddle->log_delta - saddle->log_moment + saddle->tilt * saddle->eps);
    return fmax(fmin(3e-3 * tolerance * share, 1e-4), 1e-40);
}

static void slot_clear(struct panel_slot *slot)
{
    eps__panel_clear(&slot->panel);
    eps__pld_clear(&slot->pld);
    *slot = (struct panel_slot){0};
}

/* The step PLDs of a side, for one tilt and spacing: steps_len of them, each to be cleared. */
static enum eps_status build_steps(const struct pld_profile *pld, const struct side *side, struct eps__pld *built,
                                   enum eps__estimate estimate, const struct saddle *saddle, double spacing)
{
    enum eps_status status = EPS_OK;
    for (size_t k = 0; k < side->steps_len && status == EPS_OK; k++) {
        struct eps__pld_plan plan;
        plan_step(&plan, side, &side->steps[k], saddle, pld->accuracy.tolerance, spacing);
        status = eps__pld_obtain(pld->context, pld->tally, &built[k], &side->steps[k].pair[estimate], &plan, estimate);
    }
    return status;
}

/* Where delta is under 1e-300: ln of a Chernoff bound on it, E[(1 - e^{eps - L})_+] <= e^{K(t) - t eps}, at a tilt that
 * gives little less than that. */
static enum eps_status chernoff_log_delta(const struct pld_profile *pld, const struct side *side, double eps,
                                          double *out)
{
    struct saddle saddle;
    double low = 0, high = 1e-3;
    find_tilt(side, eps, TAIL_REACH, &saddle);
    for (scout_moments(side, high, TAIL_REACH, &saddle); high < 1e9; scout_moments(side, high, TAIL_REACH, &saddle)) {
        if (saddle.log_moment - high * eps < LOG_DELTA_FLOOR)
            break;
        low = high;
        high *= 2;
    }
    for (int i = 0; i < 20; i++) {
        double middle = 0.5 * (low + high);
        scout_moments(side, middle, TAIL_REACH, &saddle);
        *(saddle.log_moment - middle * eps < LOG_DELTA_FLOOR ? &high : &low) = middle;
    }
    scout_moments(side, high, TAIL_REACH, &saddle);
    saddle.eps = eps;
    saddle.log_delta = LOG_DELTA_FLOOR;
    struct eps__pld *built = calloc(side->steps_len, sizeof *built);
    if (!built)
        return EPS_NO_MEMORY;
    double by_rounding = 0.1 / (1 + high); /* rounding losses up by this costs a tenth of a unit of the logarithm */
    double spacing = fmax(fmin(by_rounding, 0.1 * sqrt(saddle.variance / side->total)), by_rounding / side->total);
    double log_bound = -high * eps, infinity = 0, size = fabs(high * eps);
    enum eps_status status = build_steps(pld, side, built, EPS__UPPER, &saddle, spacing);
    for (size_t k = 0; k < side->steps_len && status == EPS_OK; k++) {
        double count = (double)side->steps[k].count, log_moment = eps__pld_log_moment(&built[k], high);
        log_bound += count * (log_moment + high * built[k].loss_error);
        infinity += count * built[k].infinity;
        size += count * (fabs(log_moment) + (double)built[k].len);
    }
    if (status == EPS_OK)
        *out = fmin(log(exp(log_bound + 8 * EPS__UNIT_ROUNDOFF * size) + 2 * infinity), 0);
    for (size_t k = 0; k < side->steps_len; k++)
        eps__pld_clear(&built[k]);
    free(built);
    return status;
}

/* Where there are many equal steps, two levels: groups of about sqrt(n) steps on a fine grid, and the groups, with
 * the few steps that are left over, on one that is as much coarser as their deviation is larger. Then neither
 * transform is long. */
static uint64_t group_size(double total)
{
    uint64_t n = (uint64_t)total, root = (uint64_t)sqrt(total), best = root;
    for (uint64_t m = root / 2 + 1; m <= 2 * root; m++)
        if (n % m < n % best ||
            (n % m == n % best && fabs((double)m - (double)root) < fabs((double)best - (double)root)))
            best = m;
    return best;
}

/* A grid for the groups as wide as where most of a group's loss lies would treat it as an atom between two knots, which
 * the lower estimate pays for dearly: the middle half of a step's tilted losses, times sqrt(group), must cover it. */
static bool groups_resolved(const struct side *side, const struct saddle *saddle, double spacing)
{
    const struct step *step = &side->steps[0];
    size_t len = (size_t)fmin((double)step->scout_len, (step->reach + saddle->z_excess + 10) / step->z_step + 1);
    double largest = -INFINITY, total = 0, sum = 0, quarter = NAN;
    for (size_t i = 0; i < len; i++)
        largest = fmax(largest, step->scout_density[i] + saddle->tilt * step->scout_loss[i]);
    for (size_t i = 0; i < len; i++)
        total += exp(step->scout_density[i] + saddle->tilt * step->scout_loss[i] - largest);
    for (size_t i = 0; i < len; i++) {
        sum += exp(step->scout_density[i] + saddle->tilt * step->scout_loss[i] - largest);
        if (isnan(quarter) && sum >= 0.25 * total)
            quarter = step->scout_loss[i];
        if (sum >= 0.75 * total)
            return step->scout_loss[i] - quarter > spacing;
    }
    return false;
}

static enum eps_status compose_groups(const struct pld_profile *pld, const struct side *side, struct panel_slot *slot,
                                      const struct saddle *saddle, double spacing, const struct eps__compose_plan *plan)
{
    struct eps__pld step = {0}, single = {0}, group = {0};
    uint64_t n = (uint64_t)side->total, size = group_size(side->total), groups = n / size, left_over = n % size;
    size_t coarser = (size_t)fmax(nearbyint(sqrt((double)size)), 2);
    double fine = spacing * M_SQRT1_2;
    /* What the groups lose must be little after all of them are composed. */
    struct eps__compose_plan group_plan = *plan;
    group_plan.tail_mass = plan->tail_mass * 0.1 / (double)groups;
    group_plan.log_infinity = saddle->log_delta + log(1e-4 * pld->accuracy.tolerance / (double)groups);
    enum eps_status status = build_steps(pld, side, &step, slot->estimate, saddle, fine);
    if (status == EPS_OK && left_over)
        status = build_steps(pld, side, &single, slot->estimate, saddle, fine * (double)coarser);
    if (status == EPS_OK)
        status = eps__pld_compose(pld->context, &group, &step, size, coarser, &group_plan);
    if (status == EPS_OK) {
        const struct eps__pld_power powers[] = {{&group, groups}, {&single, left_over}};
        status = eps__compose(pld->context, &slot->panel, powers, left_over ? 2 : 1, plan);
    }
    eps__pld_clear(&step);
    eps__pld_clear(&single);
    eps__pld_clear(&group);
    return status;
}

static enum eps_status compose_slot(const struct pld_profile *pld, const struct side *side, struct panel_slot *slot,
                                    const struct saddle *saddle, double spacing)
{
    double max_bytes = pld->context && pld->context->max_bytes > 0 ? pld->context->max_bytes : INFINITY;
    struct eps__compose_plan plan = {
        .tilt = saddle->tilt,
        .tail_mass = tail_mass(saddle, pld->accuracy.tolerance),
        .log_infinity = INFINITY,
        .max_len = (size_t)fmin(max_bytes / 64, side->finer > 1 ? REFINED_LENGTH_MAX : LENGTH_MAX)};
    if (side->total == 1) {
        slot->single = true;
        return build_steps(pld, side, &slot->pld, slot->estimate, saddle, spacing);
    }
    if (side->steps_len == 1 && side->total >= GROUPS_FROM && groups_resolved(side, saddle, spacing))
        return compose_groups(pld, side, slot, saddle, spacing, &plan);
    enum eps_status status = EPS_NO_MEMORY;
    struct eps__pld *built = calloc(side->steps_len, sizeof *built);
    struct eps__pld_power *powers = calloc(side->steps_len, sizeof *powers);
    if (!built || !powers)
        goto out;
    status = build_steps(pld, side, built, slot->estimate, saddle, spacing);
    if (status != EPS_OK)
        goto out;
    for (size_t k = 0; k < side->steps_len; k++)
        powers[k] = (struct eps__pld_power){&built[k], side->steps[k].count};
    status = eps__compose(pld->context, &slot->panel, powers, side->steps_len, &plan);
out:
    for (size_t k = 0; built && k < side->steps_len; k++)
        eps__pld_clear(&built[k]);
    free(built);
    free(powers);
    return status;
}

static double slot_log_delta(const struct panel_slot *slot, double eps)
{
    return slot->single ? eps__pld_log_delta(&slot->pld, eps) : eps__panel_log_delta(&slot->panel, eps);
}

static enum eps_status log_delta(struct eps__profile *profile, enum eps_direction direction,
                                 enum eps__estimate estimate, double eps, double *out, struct eps_error *error)
{
    struct pld_profile *pld = (struct pld_profile *)profile;
    struct side *side = &pld->sides[direction];
    struct panel_slot *nearest = NULL;
    (void)error;
    for (size_t i = 0; i < PANELS_MAX; i++) {
        struct panel_slot *slot = &side->slots[i];
        if (slot->used && slot->estimate == estimate && fabs(slot->centre - eps) <= slot->reach &&
            (!nearest || fabs(slot->centre - eps) < fabs(nearest->centre - eps)))
            nearest = slot;
    }
    if (nearest) {
        *out = slot_log_delta(nearest, eps);
        return EPS_OK;
    }
    if (eps > side->ceiling) {
        *out = -INFINITY;
        return EPS_OK;
    }
    /* What is known beforehand: the upper bound at this epsilon, if it was asked before. */
    double known = fabs(side->seen_eps - eps) <= 0.1 * eps ? fmax(side->seen_log_delta, LOG_DELTA_FLOOR) : NAN;
    struct panel_slot *slot = &side->slots[side->next_slot++ % PANELS_MAX];
    slot_clear(slot);
    for (int i = 0; i < AIMS_MAX; i++) {
        struct saddle saddle;
        aim(side, eps, known, pld->accuracy.tolerance, &saddle);
        if (saddle.log_moment - saddle.tilt * eps < LOG_DELTA_FLOOR - 5) {
            *out = -INFINITY;
            return estimate == EPS__LOWER ? EPS_OK : chernoff_log_delta(pld, side, eps, out);
        }
        settle(side, &saddle);
        double spacing = choose_spacing(side, &pld->accuracy, &saddle, eps, estimate);
        slot_clear(slot);
        slot->estimate = estimate;
        slot->centre = eps;
        slot->reach = 2.5 * sqrt(saddle.variance);
        enum eps_status status = compose_slot(pld, side, slot, &saddle, spacing);
        if (status != EPS_OK) {
            slot_clear(slot);
            return status;
        }
        *out = slot_log_delta(slot, eps);
        if (estimate == EPS__LOWER || fabs(*out - saddle.log_delta) < 2)
            break;
        known = fmax(*out, LOG_DELTA_FLOOR); /* a better aim than the saddle gave */
        /* Panels tilted for a wrong delta answer their neighbours badly. */
        slot->reach = 0;
    }
    slot->used = true;
    if (estimate == EPS__UPPER) {
        side->seen_eps = eps;
        side->seen_log_delta = *out;
    }
    return EPS_OK;
}

static bool refine(struct eps__profile *profile, enum eps_direction direction, double factor)
{
    struct side *side = &((struct pld_profile *)profile)->sides[direction];
    if (side->finer * factor > 1e3)
        return false;
    side->finer *= factor;
    for (size_t i = 0; i < PANELS_MAX; i++)
        slot_clear(&side->slots[i]);
    return true;
}

static void destroy(struct eps__profile *profile)
{
    struct pld_profile *pld = (struct pld_profile *)profile;
    for (int direction = 0; direction < EPS_DIRECTIONS; direction++) {
        struct side *side = &pld->sides[direction];
        for (size_t k = 0; k < side->steps_len; k++)
            step_clear(&side->steps[k]);
        free(side->steps);
        for (size_t i = 0; i < PANELS_MAX; i++)
            slot_clear(&side->slots[i]);
    }
    free(pld);
}

static const struct eps__profile_class profile_class = {log_delta, approximate, guess, refine, destroy};

/* ------------------------------------------------------------ the accountant */

static bool serves(const struct eps__setting *setting, struct eps_error *error)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    const struct eps_sampling *sampling = &mechanism->sampling;
    if (sampling->scheme == EPS_SCHEME_NONE)
        return true;
    if (sampling->scheme != EPS_SCHEME_POISSON) {
        snprintf(error->pointer, sizeof error->pointer, "/sampling/scheme");
        snprintf(error->message, sizeof error->message, "pld serves the schemes none and poisson in this version");
        return false;
    }
    if (sampling->truncation) {
        snprintf(error->pointer, sizeof error->pointer, "/sampling/truncation");
        snprintf(error->message, sizeof error->message, "truncated batches are not served in this version");
        return false;
    }
    if (!eps__strategy_is_diagonal(setting->strategy)) {
        snprintf(error->pointer, sizeof error->pointer, "/matrix");
        snprintf(error->message, sizeof error->message,
                 "pld under poisson needs a strategy with one band, such as identity");
        return false;
    }
    return true;
}

static bool exact(const struct eps__setting *setting)
{
    (void)setting;
    return false; /* it converges, but never in closed form */
}

/* How many examples of one user a step may draw at most. */
static uint64_t largest_amplitude(const struct eps_mechanism *mechanism)
{
    if (mechanism->sampling.scheme != EPS_SCHEME_POISSON)
        return 1;
    return mechanism->sampling.last_iterate ? mechanism->n : mechanism->sampling.examples_per_user;
}

static double step_count(const struct eps__setting *setting)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    return mechanism->sampling.scheme == EPS_SCHEME_NONE || mechanism->sampling.last_iterate ? 1 : (double)mechanism->n;
}

static void cost(const struct eps__setting *setting, double *operations, double *bytes)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    double tolerance = setting->job->query.accountant.tolerance, atoms = 2;
    double size = (double)largest_amplitude(mechanism);
    if (size > 1)
        atoms = fmin(size + 1, 76 * sqrt(size * setting->p) + 800);
    /* A window of twelve standard deviations at a spacing of sqrt(6 tolerance/10) of a step's. */
    double grid = 12 * sqrt(step_count(setting)) / sqrt(0.6 * tolerance) + 4096;
    double searches = setting->job->query.noise_multiplier > 0 ? 1 : 6;
    *operations = searches * 4 * (grid * 200 + 5e4 * atoms * 20 / sqrt(tolerance * 1e3));
    *bytes = 2 * 64 * grid + 1e6;
}

static int compare_doubles(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* Steps with equal column norms are one power: all of them for a Toeplitz diagonal, else runs of the sorted norms,
 * taken at their upper ends. */
static bool add_poisson_steps(struct side *side, const struct eps__setting *setting, const struct eps__law *law,
                              enum eps_direction direction, double sigma)
{
    const struct eps_strategy *strategy = setting->strategy;
    size_t n = setting->job->mechanism.n;
    double slack = 4 * EPS__UNIT_ROUNDOFF;
    if (setting->job->mechanism.sampling.last_iterate || eps_strategy_is_toeplitz(strategy)) {
        bool last = setting->job->mechanism.sampling.last_iterate;
        double scale = last ? sigma * sqrt((double)n) : sigma;
        return add_step(side, setting, law, direction,
                        eps__strategy_column_norm_lower(strategy, 0) / scale * (1 - slack),
                        eps__strategy_column_norm(strategy, 0) / scale * (1 + slack), last ? 1 : n);
    }
    double *norms = malloc(n * sizeof *norms);
    bool made = norms != NULL;
    for (size_t j = 0; made && j < n; j++)
        norms[j] = eps__strategy_column_norm(strategy, j);
    if (made)
        qsort(norms, n, sizeof *norms, compare_doubles);
    for (size_t j = 0, run; made && j < n; j += run) {
        for (run = 1; j + run < n && norms[j + run] == norms[j]; run++)
            ;
        /* A norm's two ends differ by its rounding, n u relative. */
        double norm = norms[j] / sigma, least = norm * (1 - 4 * (double)(n + 2) * EPS__UNIT_ROUNDOFF);
        if (norm > 0)
            made = add_step(side, setting, law, direction, least * (1 - slack), norm * (1 + slack), run);
    }
    free(norms);
    return made;
}

static double least_sigma(const struct eps__setting *setting)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    double reach = setting->sensitivity.value, norm = 0, n = (double)mechanism->n;
    if (mechanism->sampling.scheme == EPS_SCHEME_POISSON) {
        size_t columns = eps_strategy_is_toeplitz(setting->strategy) ? 1 : mechanism->n;
        for (size_t j = 0; j < columns; j++)
            norm = fmax(norm, eps__strategy_column_norm(setting->strategy, j));
        reach = norm * (double)mechanism->sampling.examples_per_user;
        if (mechanism->sampling.last_iterate)
            reach = norm * fmin(n, n * setting->p + 40 * sqrt(n * setting->p) + 800) / sqrt(n);
    }
    return reach / SHIFT_MAX;
}

static enum eps_status open_profile(const struct eps__setting *setting, double sigma,
                                    const struct eps__accuracy *accuracy, struct eps__profile **profile,
                                    struct eps_error *error)
{
    const struct eps_sampling *sampling = &setting->job->mechanism.sampling;
    bool sampled = sampling->scheme == EPS_SCHEME_POISSON;
    struct eps__law law = {0};
    if (sigma < least_sigma(setting) * (1 - 1e-9))
        return eps__error(error, EPS_TOO_COSTLY, "/noise_multiplier",
                          "pld does not resolve a noise multiplier under %.3g here; raise it", least_sigma(setting));
    struct pld_profile *pld = calloc(1, sizeof *pld);
    if (!pld)
        return EPS_NO_MEMORY;
    pld->base.class = &profile_class;
    pld->context = setting->context;
    pld->accuracy = *accuracy;
    pld->tally = accuracy->unknown == EPS_SOLVE_NOISE_MULTIPLIER ? NULL : setting->tally;
    double log_floor = isnan(accuracy->log_delta) ? LOG_DELTA_FLOOR : fmin(1.2 * accuracy->log_delta, -60) - 40;
    enum eps_status status = eps__binomial_law(&law, largest_amplitude(&setting->job->mechanism),
                                               sampled ? setting->p : 1, fmax(log_floor, -740));
    bool made = status == EPS_OK;
    for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS && made; direction++) {
        struct side *side = &pld->sides[direction];
        side->finer = 1;
        side->seen_eps = NAN;
        if (sampled) {
            made = add_poisson_steps(side, setting, &law, direction, sigma);
        } else {
            double rounding = 4 * EPS__UNIT_ROUNDOFF;
            made = add_step(side, setting, &law, direction, setting->sensitivity.lower / sigma * (1 - rounding),
                            setting->sensitivity.value / sigma * (1 + rounding), 1);
        }
    }
    eps__law_clear(&law);
    if (!made) {
        destroy(&pld->base);
        return status == EPS_OK ? EPS_NO_MEMORY : status;
    }
    *profile = &pld->base;
    return EPS_OK;
}

/* With sigma = 0 all is known once the example takes part: remove: Pr[it does]; add: 1 - e^eps Pr[it does not]. */
static double log_delta_without_noise(const struct eps__setting *setting, enum eps_direction direction, double eps)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    if (mechanism->sampling.scheme != EPS_SCHEME_POISSON || setting->p >= 1)
        return 0;
    double trials = (double)mechanism->n;
    if (!mechanism->sampling.last_iterate)
        trials *= (double)mechanism->sampling.examples_per_user;
    double log_never = trials * log1p(-setting->p); /* ln Pr[the example never takes part] */
    if (direction == EPS_REMOVE || mechanism->adjacency == EPS_ADJACENCY_REPLACE_ONE)
        return log(-expm1(log_never)) + 1e-12;
    return eps + log_never < 0 ? log(-expm1(eps + log_never)) + 1e-12 : -INFINITY;
}

const struct eps__accountant eps__accountant_pld = {EPS_ACCOUNTANT_PLD,      serves,     exact, cost, open_profile,
                                                    log_delta_without_noise, least_sigma};
