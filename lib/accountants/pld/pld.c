/*
 * The accountant of privacy loss distributions: it composes dominating pairs of the steps (pld/compose/composition.h).
 *
 * It serves
 * - no sampling: one Gaussian;
 * - Poisson sampling with a diagonal strategy: one subsampled Gaussian per step, also with several examples per user;
 * - the last iterate of linear losses: one mixture with binomial weights;
 * - cyclic Poisson sampling with at most as many bands as groups: the rounds of one example touch disjoint rows, so
 *   each is a subsampled Gaussian with the norm of its column;
 * - truncated batches under Poisson and cyclic Poisson sampling: a public outcome selects one of two pairs;
 * - balls in bins (balls_in_bins.h), which is not a composition of steps.
 *
 * With groups, each part of the data set is a separate mechanism, and delta is that of the worst part. For a Toeplitz
 * strategy this is the first part: it has the most rounds, and its columns have the largest norms.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/accountants/accountant.h"
#include "lib/accountants/pld/balls_in_bins.h"
#include "lib/accountants/pld/balls_in_bins_redraw.h"
#include "lib/accountants/pld/parts.h"
#include "lib/accountants/pld/steps.h"
#include "lib/base/error.h"
#include "lib/numerics/normal.h"
#include "lib/sampling/scheme.h"
#include "lib/sampling/truncation.h"

/* One part of the data set in one direction. Each variant of its pairs dominates it. */
struct composed {
    struct eps__outcomes *variants[EPS__VARIANTS_MAX];
    size_t len;
};

struct pld_profile {
    struct eps__profile base;
    struct composed *parts[EPS_DIRECTIONS]; /* delta is the largest over the parts */
    size_t parts_len;
};

/* ------------------------------------------------------------ the profile */

/* The least over the variants, each of which is a bound. EPS_TOO_COSTLY if all variants are too costly or, for the
 * lower estimate, if one is, because that one might be the least. */
static enum eps_status composed_log_delta(const struct composed *part, enum eps__estimate estimate, double eps,
                                          double *out)
{
    bool found = false, missed = false;
    *out = INFINITY;
    for (size_t v = 0; v < part->len; v++) {
        double own;
        enum eps_status status = eps__outcomes_log_delta(part->variants[v], estimate, eps, &own);
        if (status != EPS_OK && status != EPS_TOO_COSTLY)
            return status;
        missed = missed || status != EPS_OK;
        found = found || status == EPS_OK;
        if (status == EPS_OK)
            *out = fmin(*out, own);
    }
    return !found || (missed && estimate == EPS__LOWER) ? EPS_TOO_COSTLY : EPS_OK;
}

/* The bound for a part that is too costly while another part is not. It is probably not the worst part, so a rough
 * upper bound suffices, and a lower bound is not needed (A4). */
static enum eps_status rough_log_delta(const struct composed *part, enum eps__estimate estimate, double eps,
                                       double *out)
{
    *out = -INFINITY;
    if (estimate == EPS__LOWER)
        return EPS_OK;
    enum eps_status status = EPS_OK;
    *out = 0;
    for (size_t v = 0; v < part->len && status == EPS_OK; v++) {
        double own;
        status = eps__outcomes_log_bound(part->variants[v], eps, &own);
        if (status == EPS_OK)
            *out = fmin(*out, own);
    }
    return status;
}

static enum eps_status log_delta(struct eps__profile *profile, enum eps_direction direction,
                                 enum eps__estimate estimate, double eps, double *out, struct eps_error *error)
{
    struct pld_profile *pld = (struct pld_profile *)profile;
    size_t costly = 0;
    (void)error;
    *out = -INFINITY;
    for (size_t i = 0; i < pld->parts_len; i++) {
        double own;
        enum eps_status status = composed_log_delta(&pld->parts[direction][i], estimate, eps, &own);
        if (status == EPS_TOO_COSTLY && pld->parts_len > 1) {
            costly++;
            status = rough_log_delta(&pld->parts[direction][i], estimate, eps, &own);
        }
        if (status != EPS_OK)
            return status;
        *out = fmax(*out, own);
    }
    return costly > 0 && costly == pld->parts_len ? EPS_TOO_COSTLY : EPS_OK;
}

/* The largest over the parts of the least over their variants of quick(variant, at). */
static enum eps_status quickly(const struct pld_profile *pld, enum eps_direction direction,
                               enum eps_status (*quick)(struct eps__outcomes *, double, double *), double at,
                               double *out)
{
    for (size_t i = 0; i < pld->parts_len; i++) {
        const struct composed *part = &pld->parts[direction][i];
        double least = INFINITY, own;
        for (size_t v = 0; v < part->len; v++) {
            enum eps_status status = quick(part->variants[v], at, &own);
            if (status != EPS_OK)
                return status;
            least = fmin(least, own);
        }
        *out = fmax(*out, least);
    }
    return EPS_OK;
}

static enum eps_status approximate(struct eps__profile *profile, enum eps_direction direction, double eps, double *out)
{
    *out = -INFINITY;
    return quickly((const struct pld_profile *)profile, direction, eps__outcomes_approximate, eps, out);
}

static enum eps_status guess(struct eps__profile *profile, enum eps_direction direction, double log_delta_wanted,
                             double *eps)
{
    *eps = 0;
    return quickly((const struct pld_profile *)profile, direction, eps__outcomes_guess, log_delta_wanted, eps);
}

static bool refine(struct eps__profile *profile, enum eps_direction direction, double factor)
{
    struct pld_profile *pld = (struct pld_profile *)profile;
    bool refined = true;
    for (size_t i = 0; i < pld->parts_len; i++)
        for (size_t v = 0; v < pld->parts[direction][i].len; v++)
            refined = eps__outcomes_refine(pld->parts[direction][i].variants[v], factor) && refined;
    return refined;
}

static void destroy(struct eps__profile *profile)
{
    struct pld_profile *pld = (struct pld_profile *)profile;
    for (int direction = 0; direction < EPS_DIRECTIONS; direction++) {
        for (size_t i = 0; pld->parts[direction] && i < pld->parts_len; i++)
            for (size_t v = 0; v < pld->parts[direction][i].len; v++)
                eps__outcomes_destroy(pld->parts[direction][i].variants[v]);
        free(pld->parts[direction]);
    }
    free(pld);
}

static const struct eps__profile_class profile_class = {
    .log_delta = log_delta, .approximate = approximate, .guess = guess, .refine = refine, .destroy = destroy};

/* ------------------------------------------------------------ the accountant */

static bool serves(const struct eps__setting *setting, struct eps_error *error)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    const struct eps_sampling *sampling = &mechanism->sampling;
    if (eps__pld_is_balls_in_bins(setting))
        return eps__pld_balls_in_bins_serves(setting, error);
    if (!eps__scheme_steps(error, "pld", eps__scheme_of(mechanism), mechanism))
        return false;
    if (!eps__sampling_random(mechanism))
        return true;
    if (!eps__sampling_turns(mechanism))
        return eps__strategy_is_diagonal(setting->strategy) ||
               eps__decline(error, "/matrix", "pld under poisson needs a strategy with one band, such as identity");
    if (eps_strategy_bands(setting->strategy) > sampling->groups)
        return eps__decline(error, "/sampling/groups",
                            "pld under cyclic_poisson needs at least as many groups as the strategy has bands");
    if (!eps__strategy_lower_triangular(setting->strategy))
        return eps__decline(error, "/matrix", "pld under cyclic_poisson needs a lower-triangular strategy");
    return true;
}

static bool exact(const struct eps__setting *setting)
{
    (void)setting;
    return false; /* the bracket narrows with the resolution but is never exact up to rounding */
}

/* The worst part is an actual part of the data set, and its rounds share no row. So contributions along its columns
 * attain the pairs of independent rounds, and of bins of equal norm, if Q is noise alone. */
static bool attained(const struct eps__setting *setting)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    if (setting->raised)
        return false;
    if (eps__pld_is_balls_in_bins(setting))
        return !eps__pld_redraws(setting) && eps__pld_balls_in_bins_exact(setting);
    if (!eps__sampling_random(mechanism))
        return setting->sensitivity_known && setting->sensitivity.exact;
    return !mechanism->sampling.truncation && (eps__scheme_of(mechanism)->pairs->attained >> mechanism->adjacency & 1);
}

/* The bound by classes of bins may be worse than that of another accountant. */
static bool tight(const struct eps__setting *setting)
{
    return !eps__pld_is_balls_in_bins(setting) || eps__pld_balls_in_bins_exact(setting);
}

static void assume(struct eps__sentences *list, const struct eps__setting *setting, const struct eps_result *result)
{
    if (eps__pld_is_balls_in_bins(setting))
        eps__assume_causal_order(list, setting, result);
}

static double step_count(const struct eps__setting *setting)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    if (!eps__sampling_random(mechanism) || mechanism->sampling.last_iterate)
        return 1;
    return ceil((double)mechanism->n / (double)eps__sampling_groups(mechanism));
}

static double largest_amplitude(const struct eps_mechanism *mechanism)
{
    const struct eps__pairs *pairs = eps__scheme_of(mechanism)->pairs;
    return pairs->amplitude ? (double)pairs->amplitude(mechanism) : 1;
}

static size_t variants_of(const struct eps_mechanism *mechanism)
{
    const struct eps__pairs *pairs = eps__scheme_of(mechanism)->pairs;
    size_t variants = pairs->variants ? pairs->variants(mechanism) : 1;
    assert(variants >= 1 && variants <= EPS__VARIANTS_MAX);
    return variants;
}

/* Whether a full batch is so unlikely that its outcome adds almost nothing to the work. */
static bool hardly_ever_full(const struct eps__setting *setting)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    uint64_t sizes[2] = {0};
    size_t len = eps__sampling_part_sizes(mechanism, sizes); /* the last size is the largest */
    return eps__truncate(sizes[len - 1], setting->p, mechanism->sampling.max_batch_size).full.upper < 1e-20;
}

static void cost(const struct eps__setting *setting, double *operations, double *bytes)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    double tolerance = setting->job->query.accountant.tolerance, atoms = 2;
    if (eps__pld_is_balls_in_bins(setting)) {
        eps__pld_balls_in_bins_cost(setting, operations, bytes);
        return;
    }
    double size = largest_amplitude(mechanism);
    if (size > 1)
        atoms = fmin(size + 1, 76 * sqrt(size * setting->p) + 800);
    /* A window of 12 standard deviations, with a spacing of sqrt(0.6 tolerance) times one step's standard deviation. */
    double steps = step_count(setting), grid = 12 * sqrt(steps) / sqrt(0.6 * tolerance) + 4096;
    double searches = setting->job->query.noise_multiplier > 0 ? 1 : 1.35, pairs = 1;
    /* Truncation composes several numbers of full batches, with two pairs for each branch. */
    if (mechanism->sampling.truncation)
        pairs = hardly_ever_full(setting) ? 1.5 : 3;
    /* A model of measured costs (tests/bench/bench_costs.c). Levels make it depend on the number of steps hardly at
     * all, and on the tolerance little down to 1e-6. Many atoms have few cells; one step has a closed form. */
    double finer = pow(1e-3 / tolerance, 0.22) + 4 * pow(1e-6 / tolerance, 0.8);
    if (steps > 1)
        *operations = searches * pairs * (1.8e7 + 1e4 * atoms) * finer;
    else
        *operations = searches * (eps__sampling_random(mechanism) ? 1e6 + 2.7e3 * atoms : 3e5);
    *bytes = 2 * 64 * grid + 1e6;
}

static double least_sigma(const struct eps__setting *setting)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    const struct eps_sampling *sampling = &mechanism->sampling;
    if (eps__pld_is_balls_in_bins(setting))
        return eps__pld_balls_in_bins_least_sigma(setting);
    double norm = 0, most = largest_amplitude(mechanism), mean = most * setting->p;
    if (!eps__sampling_random(mechanism))
        return setting->sensitivity.value / EPS__SHIFT_MOST;
    norm = eps__strategy_largest_norm(setting->strategy);
    if (sampling->last_iterate)
        return norm * fmin(most, mean + 40 * sqrt(mean) + 800) / sqrt((double)mechanism->n) / EPS__SHIFT_MOST;
    return norm * (sampling->truncation ? 2 : most) / EPS__SHIFT_MOST;
}

/* The arguments that all parts and directions share. */
struct opening {
    const struct eps__setting *setting;
    const struct eps__accuracy *accuracy;
    struct eps__cache_use *cache_use;
    double sigma, log_floor;
};

/* Composes one variant of every part, each of `dataset` examples, into the parts of *pld from index `first` on. */
static enum eps_status compose_variant(struct pld_profile *pld, const struct opening *opening,
                                       const struct eps__pld_parts *parts, uint64_t dataset, size_t variant,
                                       size_t first)
{
    const struct eps_mechanism *mechanism = &opening->setting->job->mechanism;
    const struct eps__step_setting step = {opening->setting->p, dataset, variant, opening->log_floor};
    struct eps__step_pairs pairs;
    enum eps_status status = eps__scheme_of(mechanism)->pairs->make(&pairs, mechanism, &step);
    for (size_t i = 0; i < parts->len && status == EPS_OK; i++)
        for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS && status == EPS_OK; direction++) {
            struct composed *part = &pld->parts[direction][first + i];
            struct eps__outcomes **outcomes = &part->variants[part->len];
            status = eps__outcomes_create(outcomes, opening->setting->context, opening->cache_use, opening->accuracy);
            part->len += status == EPS_OK;
            if (status == EPS_OK)
                status = eps__pld_part_compose(&(struct eps__step_sink){.outcomes = *outcomes}, opening->setting,
                                               &pairs, direction, opening->sigma, &parts->items[i]);
        }
    eps__step_pairs_clear(&pairs);
    return status;
}

static enum eps_status compose_all(struct pld_profile *pld, const struct eps__setting *setting,
                                   const struct eps__pld_parts *parts, double sigma,
                                   const struct eps__accuracy *accuracy)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    struct opening opening = {.setting = setting, .accuracy = accuracy, .sigma = sigma};
    opening.cache_use = accuracy->unknown == EPS_SOLVE_NOISE_MULTIPLIER ? NULL : setting->cache_use;
    opening.log_floor = isnan(accuracy->log_delta) ? -740 : fmax(fmin(1.2 * accuracy->log_delta, -60) - 40, -740);
    uint64_t sizes[2] = {0};
    bool truncated = mechanism->sampling.truncation; /* the size of a part matters only with truncation */
    size_t sizes_len = truncated ? eps__sampling_part_sizes(mechanism, sizes) : 1;
    pld->parts_len = sizes_len * parts->len;
    for (int direction = 0; direction < EPS_DIRECTIONS; direction++) {
        pld->parts[direction] = calloc(pld->parts_len, sizeof *pld->parts[direction]);
        if (!pld->parts[direction])
            return EPS_NO_MEMORY;
    }
    enum eps_status status = EPS_OK;
    for (size_t i = 0; i < sizes_len; i++)
        for (size_t variant = 0; variant < variants_of(mechanism) && status == EPS_OK; variant++)
            status = compose_variant(pld, &opening, parts, sizes[i], variant, i * parts->len);
    return status;
}

static enum eps_status open_profile(const struct eps__setting *setting, double sigma,
                                    const struct eps__accuracy *accuracy, struct eps__profile **profile,
                                    struct eps_error *error)
{
    struct eps__pld_parts parts = {0};
    if (eps__pld_is_balls_in_bins(setting))
        return eps__pld_balls_in_bins_open(setting, sigma, accuracy, profile, error);
    if (sigma < eps__lower(least_sigma(setting), 1e7))
        return eps__error(error, EPS_TOO_COSTLY, "/noise_multiplier",
                          "pld cannot resolve a noise multiplier below %.3g for this mechanism: increase it",
                          least_sigma(setting));
    struct pld_profile *pld = calloc(1, sizeof *pld);
    if (!pld)
        return EPS_NO_MEMORY;
    pld->base.class = &profile_class;
    enum eps_status status = EPS_NO_MEMORY;
    if (eps__pld_parts_find(&parts, setting))
        status = compose_all(pld, setting, &parts, sigma, accuracy);
    eps__pld_parts_clear(&parts);
    if (status != EPS_OK) {
        destroy(&pld->base);
        return status;
    }
    *profile = &pld->base;
    return EPS_OK;
}

const struct eps__accountant eps__accountant_pld = {
    .method = EPS_ACCOUNTANT_PLD,
    .name = "pld",
    .curves = true,
    .amplifies = true,
    .composes = true,
    .assume = assume,
    .serves = serves,
    .exact = exact,
    .attained = attained,
    .tight = tight,
    .cost = cost,
    .open = open_profile,
    .least_sigma = least_sigma,
    .steps = eps__pld_stepper,
};
