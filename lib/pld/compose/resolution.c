/*
 * How fine a composition must be for the tolerance: the tilt, the spacing of the grid, the range and the cells of every
 * branch, and the mass that may lie outside the window. All follow from the saddle point's moments and prove nothing; a
 * bad choice makes brackets wide.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/pld/compose/composition_internal.h"

#include <math.h>
#include <stdlib.h>

#include "lib/numerics/normal.h"

/* The share of the tolerance that each estimate's discretisation may use. The upper estimate, which is the answer, is
 * the finer one. */
static const double budget[2] = {[EPS__UPPER] = 0.15, [EPS__LOWER] = 0.6};

#define LENGTH_MAX 0x1p24         /* length of a transform, at most */
#define REFINED_LENGTH_MAX 0x1p22 /* the same if it only narrows a bracket */
#define FEW_CLASSES 16            /* of steps, each of which is transformed a few times */
#define FLAT 1e-3                 /* least slope of ln delta in ln epsilon */
#define ROUNDING_SHARE 0.002      /* of the tolerance, for the rounding of a flat panel */
#define ROUNDINGS 20.0            /* outputs whose errors add up, in units of the inverse of the mean modulus */
#define FLAT_STEP 0.5             /* between the tilts that are tried for it */
#define BOUNDED_LENGTH_MAX 0x1p21 /* the same, and cells of a step, if delta is already bounded within a factor of 2 */

static double on_scale(double value, double steps_per_octave)
{
    return value > 0 ? exp2(floor(log2(value) * steps_per_octave) / steps_per_octave) : 0;
}

/* The least useful spacing: a grid finer than the rounding of a loss gains nothing. */
static double least_spacing(double eps)
{
    return 0x1p-56 * (1 + eps);
}

void eps__saddle_snap(const struct eps__steps *steps, struct eps__saddle *saddle)
{
    double eps = saddle->eps, log_delta = saddle->log_delta;
    eps__saddle_moments(steps, on_scale(saddle->tilt, 8), saddle->z_excess, saddle);
    saddle->eps = eps;
    saddle->log_delta = log_delta;
}

double eps__choose_spacing(const struct eps__composition *c, const struct eps__saddle *saddle,
                           enum eps__estimate estimate)
{
    const struct eps__accuracy *accuracy = &c->accuracy;
    double eps = saddle->eps;
    double deviation = sqrt(saddle->variance), u = (saddle->tilt + 1) * deviation;
    double share = budget[estimate] * accuracy->tolerance / (c->finer * c->finer), variance;
    /* the difference of two Mills ratios; for large arguments, where it cancels, by its expansion */
    double fall = saddle->tilt * deviation < 1e4 ? eps__mills(saddle->tilt * deviation) - eps__mills(u)
                                                 : deviation / (saddle->tilt * deviation * u);
    double for_delta = 2 * share * deviation * fall;
    double for_epsilon = 2 * share * fmax(eps, 1e-6) * deviation * eps__mills(u);
    if (accuracy->unknown == EPS_SOLVE_EPSILON)
        variance = for_epsilon;
    else if (accuracy->unknown == EPS_SOLVE_NOISE_MULTIPLIER) /* sigma moves both at least proportionally */
        variance = fmax(for_delta, for_epsilon);
    else
        variance = for_delta;
    double spacing = sqrt(6 * variance / (1.7 * c->steps.total));
    while (spacing > 0 && eps__added_variance(&c->steps, saddle, 2 * spacing) <= variance && spacing < 1)
        spacing *= 2;
    spacing = fmin(spacing, fmin(0.5 / (1 + saddle->tilt), deviation / 2) / c->finer);
    /* If the loss is nearly constant, a grid on which rounding every loss up stays within the share is fine enough. */
    double by_rounding = accuracy->unknown == EPS_SOLVE_EPSILON ? fmax(eps, 1e-6) : 1 / (1 + saddle->tilt);
    spacing = fmax(spacing, 0.05 * share * by_rounding / c->steps.total);
    return on_scale(fmax(spacing, least_spacing(eps)), 4);
}

void eps__plan_common(struct eps__pld_plan *plan, const struct eps__composition *c, const struct eps__step *step,
                      const struct eps__saddle *saddle, double spacing)
{
    *plan = (struct eps__pld_plan){.cut = INFINITY,
                                   .spacing = spacing,
                                   .tilt = saddle->tilt,
                                   .log_small = log(c->accuracy.tolerance * 1e-6 / c->steps.total)};
    plan->cells_max = c->bounded ? (size_t)BOUNDED_LENGTH_MAX : 0;
    plan->widest = fmin(sqrt(1e3 * c->accuracy.tolerance), 1) / c->finer;
    plan->log_jump = ceil(-saddle->log_delta);
    /* ln of the Chernoff bound over delta: some nats in every case, many where tails are heavy. */
    double surplus = saddle->log_moment - saddle->tilt * saddle->eps - saddle->log_delta;
    plan->log_boost = surplus > EPS__HEAVY_SURPLUS ? ceil(surplus) : 0;
    struct eps__step alone = *step;
    struct eps__saddle own;
    alone.count = 1;
    eps__saddle_moments(&(struct eps__steps){&alone, 1, 1}, saddle->tilt, saddle->z_excess, &own);
    plan->log_norm = own.log_moment;
    plan->log_reference = log(0.4 / (sqrt(own.variance) + 1e-300));
}

void eps__plan_range(struct eps__pld_plan *plan, const struct eps__quadrature *quadrature,
                     const struct eps__saddle *saddle)
{
    plan->z_low = -eps__normal_tail_quantile(plan->log_small);
    plan->z_high = quadrature->reach + saddle->z_excess;
    plan->fine_low = plan->z_high;
    plan->fine_high = plan->z_low;
    for (size_t i = 0, len = eps__quadrature_len(quadrature, saddle->z_excess); i < len; i++) {
        double z = eps__quadrature_z(quadrature, i), log_density = quadrature->log_mass[i] - log(quadrature->z_step);
        if (eps__pld_importance(plan, log_density, quadrature->loss[i]) < plan->log_small)
            continue;
        plan->fine_low = fmin(plan->fine_low, z - quadrature->z_step);
        plan->fine_high = fmax(plan->fine_high, z + quadrature->z_step);
    }
    plan->fine_low = fmax(plan->fine_low, plan->z_low);
    plan->fine_high = fmin(plan->fine_high, plan->z_high);
}

void eps__plan_expansion(struct eps__pld_plan *plan, const struct eps__composition *c,
                         const struct eps__expansion *expansion)
{
    const struct eps__saddle *core = &expansion->terms[0].saddle;
    plan->log_norm = core->log_moment / c->steps.total;
    plan->log_jump = ceil(-expansion->log_delta);
    plan->log_boost = fmax(ceil(plan->log_jump - (core->tilt * expansion->cut - plan->log_norm)), 0);
    plan->log_reference = log(0.4 / sqrt(core->variance / c->steps.total));
    plan->cut = expansion->cut;
    plan->cut_tilt = fmin(expansion->jump_tilt, plan->tilt);
    plan->log_flat = log((1 + plan->tilt) * (1 + plan->tilt) / ((1 + plan->cut_tilt) * (1 + plan->cut_tilt)));
}

double eps__tail_mass(const struct eps__saddle *saddle, double tolerance)
{
    double share = exp(saddle->log_delta - saddle->log_moment + saddle->tilt * saddle->eps);
    return fmax(fmin(3e-3 * tolerance * share, 1e-4), 1e-40);
}

/* The relative error of delta that this share of the tolerance allows. */
static double allowed_error(const struct eps__composition *c, const struct eps__expansion *expansion, double eps,
                            double share)
{
    share *= c->accuracy.tolerance / (c->finer * c->finer);
    /* Where delta hardly depends on epsilon, no grid resolves epsilon. */
    double for_epsilon = share * fmax(fmax(eps, 1e-6) * expansion->slope, FLAT);
    return c->accuracy.unknown == EPS_SOLVE_EPSILON            ? for_epsilon
           : c->accuracy.unknown == EPS_SOLVE_NOISE_MULTIPLIER ? fmax(share, for_epsilon)
                                                               : share;
}

double eps__expansion_spacing(const struct eps__composition *c, const struct eps__expansion *expansion, double eps,
                              enum eps__estimate estimate)
{
    double allowed = allowed_error(c, expansion, eps, budget[estimate]);
    double spacing = fmin(0.25, 0.5 / (1 + expansion->steepest)) / c->finer;
    while (spacing > 1e-9 && eps__expansion_effect(&c->steps, expansion, spacing) > allowed)
        spacing *= 0.5;
    return on_scale(fmax(spacing, least_spacing(eps)), 4);
}

bool eps__flat_tilt(const struct eps__composition *c, const struct eps__expansion *expansion, double eps,
                    struct eps__saddle *saddle)
{
    double z_excess = eps__cut_excess(&c->steps, expansion->log_delta, c->accuracy.tolerance);
    /* Each output of the transform is off by 4 u for each step, times the mean modulus. */
    double rounding = ROUNDINGS * 4 * EPS__UNIT_ROUNDOFF * c->steps.total;
    double most = log(allowed_error(c, expansion, eps, ROUNDING_SHARE) / rounding);
    for (double tilt = 0; tilt <= expansion->terms[0].saddle.tilt; tilt += FLAT_STEP) {
        eps__saddle_moments(&c->steps, tilt, z_excess, saddle);
        saddle->eps = eps;
        saddle->log_delta = expansion->log_delta;
        if (saddle->log_moment - tilt * eps - expansion->log_delta <= most)
            return true;
    }
    return false;
}

struct eps__compose_plan eps__plan_compose(const struct eps__composition *c, const struct eps__saddle *saddle)
{
    return (struct eps__compose_plan){.tilt = saddle->tilt,
                                      .tail_mass = eps__tail_mass(saddle, c->accuracy.tolerance),
                                      .log_infinity = INFINITY,
                                      .max_len = eps__max_length(c),
                                      .seldom = c->steps.len <= FEW_CLASSES};
}

size_t eps__max_length(const struct eps__composition *c)
{
    double max_bytes = c->context && c->context->max_bytes > 0 ? c->context->max_bytes : INFINITY;
    double most = c->bounded ? BOUNDED_LENGTH_MAX : c->finer > 1 ? REFINED_LENGTH_MAX : LENGTH_MAX;
    return (size_t)fmin(max_bytes / 64, most);
}
