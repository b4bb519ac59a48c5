/*
 * The Gaussian accountant: one Gaussian mechanism with mu = sensitivity / sigma (MEMF section 2; Balle and Wang 2018).
 *
 * It is exact without sampling. Under any sampling it is an upper bound if C >= 0 entrywise: the law with sampling is a
 * mixture over participation patterns, and the hockey-stick divergence is jointly convex, so no mixture is worse than
 * the worst pattern. The sensitivity's upper and lower bounds carry its rounding into the bracket.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdlib.h>

#include "lib/accountants/stepper.h"
#include "lib/base/error.h"
#include "lib/numerics/normal.h"
#include "lib/sampling/sampling.h"

struct gaussian_profile {
    struct eps__profile base;
    double mu_lower, mu_upper;
};

static enum eps_status log_delta(struct eps__profile *profile, enum eps_direction direction,
                                 enum eps__estimate estimate, double eps, double *out, struct eps_error *error)
{
    const struct gaussian_profile *gaussian = (const struct gaussian_profile *)profile;
    double rounding, mu = estimate == EPS__UPPER ? gaussian->mu_upper : gaussian->mu_lower;
    (void)direction;
    (void)error;
    if (!(mu > 0)) {
        *out = -INFINITY;
        return EPS_OK;
    }
    double value = eps__gaussian_log_delta(mu, eps, &rounding);
    *out = eps__certain(estimate, value + (estimate == EPS__UPPER ? rounding : -rounding));
    *out = fmin(*out, 0);
    return EPS_OK;
}

static enum eps_status approximate(struct eps__profile *profile, enum eps_direction direction, double eps, double *out)
{
    return log_delta(profile, direction, EPS__UPPER, eps, out, NULL);
}

static enum eps_status guess(struct eps__profile *profile, enum eps_direction direction, double log_delta_wanted,
                             double *eps)
{
    (void)direction;
    double mu = ((const struct gaussian_profile *)profile)->mu_upper;
    *eps = fmax(mu * (0.5 * mu + eps__normal_tail_quantile(fmin(log_delta_wanted, -1e-9))), 0);
    return EPS_OK;
}

static bool refine(struct eps__profile *profile, enum eps_direction direction, double factor)
{
    (void)profile;
    (void)direction;
    (void)factor;
    return false;
}

static void destroy(struct eps__profile *profile)
{
    free(profile);
}

static const struct eps__profile_class profile_class = {
    .log_delta = log_delta, .approximate = approximate, .guess = guess, .refine = refine, .destroy = destroy};

static bool serves(const struct eps__setting *setting, struct eps_error *error)
{
    return setting->sensitivity_known ||
           eps__decline(
               error, "/matrix",
               "the strategy has a negative entry, and sampling is supported only for strategies whose entries are all "
               ">= 0: use sampling.scheme none or another strategy");
}

/* Participation with probability 1 is not random, but truncation still samples the batch. */
static bool exact(const struct eps__setting *setting)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    bool certain = eps__sampling_independent_rounds(mechanism) && setting->p >= 1 && !mechanism->sampling.truncation;
    return setting->sensitivity_known && (!eps__sampling_random(mechanism) || certain);
}

/* Without randomness in the sampling, contributions along the worst pattern attain the sensitivity if that is exact. */
static bool attained(const struct eps__setting *setting)
{
    return exact(setting) && setting->sensitivity.exact;
}

static void cost(const struct eps__setting *setting, double *operations, double *bytes)
{
    (void)setting;
    *operations = 1e5;
    *bytes = 1e3;
}

static enum eps_status open_profile(const struct eps__setting *setting, double sigma,
                                    const struct eps__accuracy *accuracy, struct eps__profile **profile,
                                    struct eps_error *error)
{
    (void)accuracy;
    (void)error;
    struct gaussian_profile *gaussian = malloc(sizeof *gaussian);
    if (!gaussian)
        return EPS_NO_MEMORY;
    gaussian->base.class = &profile_class;
    gaussian->mu_upper = eps__raise(setting->sensitivity.value / sigma, 4);
    gaussian->mu_lower = eps__lower(setting->sensitivity.lower / sigma, 4);
    *profile = &gaussian->base;
    return EPS_OK;
}

/* ------------------------------------------------------------ the single step */

struct gaussian_stepper {
    struct eps__stepper base;
    struct eps_sensitivity sensitivity;
};

static enum eps_status add_step(struct eps__stepper *stepper, struct eps__composition *composition,
                                const struct eps__steps_plan *plan, struct eps__steps_left *left)
{
    const struct eps_sensitivity *sensitivity = &((const struct gaussian_stepper *)stepper)->sensitivity;
    const double mu[2] = {[EPS__UPPER] = eps__raise(sensitivity->value / plan->sigma, 4),
                          [EPS__LOWER] = eps__lower(sensitivity->lower / plan->sigma, 4)};
    *left = (struct eps__steps_left){.resolvable = mu[EPS__UPPER] <= EPS__SHIFT_MOST};
    if (!(mu[EPS__UPPER] > 0) || !left->resolvable)
        return EPS_OK;
    struct eps__branch *branch = calloc(1, sizeof *branch);
    bool made = branch != NULL;
    for (int estimate = 0; estimate < 2 && made; estimate++) {
        struct eps__pair *pair = &branch->pair[estimate];
        branch->weight[estimate] = 1;
        made = eps__mixture_alloc(&pair->numerator, 1) && eps__mixture_alloc(&pair->denominator, 1);
        if (made) {
            pair->numerator.weight[0] = pair->denominator.weight[0] = 1;
            pair->numerator.whole = pair->denominator.whole = true;
            pair->numerator.shift[0] = mu[estimate];
        }
    }
    if (made)
        return eps__composition_add(composition, branch, 1, plan->count);
    if (branch)
        eps__branch_clear(branch);
    free(branch);
    return EPS_NO_MEMORY;
}

static void destroy_stepper(struct eps__stepper *stepper)
{
    free(stepper);
}

static const struct eps__stepper_class stepper_class = {.add = add_step, .destroy = destroy_stepper};

static enum eps_status steps(const struct eps__setting *setting, enum eps_direction direction,
                             struct eps__stepper **stepper, struct eps_error *error)
{
    (void)direction; /* the pair is symmetric */
    struct gaussian_stepper *made = malloc(sizeof *made);
    if (!made)
        return eps__error(error, EPS_NO_MEMORY, "", "out of memory");
    *made = (struct gaussian_stepper){{&stepper_class, false}, setting->sensitivity};
    *stepper = &made->base;
    return EPS_OK;
}

/* ------------------------------------------------------------ the accountant */

static double least_sigma(const struct eps__setting *setting)
{
    (void)setting;
    return EPS_NOISE_MULTIPLIER_LEAST;
}

const struct eps__accountant eps__accountant_gaussian = {
    .method = EPS_ACCOUNTANT_GAUSSIAN,
    .name = "gaussian",
    .curves = true,
    .composes = true,
    .fixed = true,
    .serves = serves,
    .exact = exact,
    .attained = attained,
    .cost = cost,
    .open = open_profile,
    .least_sigma = least_sigma,
    .steps = steps,
};
