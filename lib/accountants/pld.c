/*
 * The privacy-loss-distribution accountant: dominating pairs of the steps, composed (pld/composition.h).
 *
 * Served here: no sampling (one Gaussian); Poisson sampling with a diagonal strategy (subsampled Gaussians, one a
 * step; groups of examples); the last iterate of linear losses (one Binomial mixture); cyclic Poisson sampling with no
 * more bands than groups (the rounds of one example touch disjoint rows, so each is a subsampled Gaussian of its
 * column's norm); and truncated batches of the last two schemes (a public coin says which of two pairs it is).
 *
 * Of a data set in groups, every part is a mechanism of its own, and its privacy is that of the worst part. For a
 * Toeplitz strategy that is the first one: it has the most rounds, and its columns are the longest.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/accountants/accountant.h"
#include "lib/error.h"
#include "lib/numerics/normal.h"
#include "lib/pld/composition.h"
#include "lib/sampling/law.h"
#include "lib/sampling/sampling.h"
#include "lib/sampling/truncation.h"

#define SHIFT_MAX 200.0 /* a sigma under column norm / 200 is out of a PLD's reach */

struct pld_profile {
    struct eps__profile base;
    struct eps__composition **parts[EPS_DIRECTIONS]; /* delta is the largest of theirs */
    size_t parts_len;
};

/* ------------------------------------------------------------ the pairs */

/* How an example shifts the mean of one step: +- `unit` times a draw from the law, in units of sigma; no law: always
 * once; absent: never. */
struct shifts {
    bool present;
    const struct eps__law *law;
    double unit;
};

/* N(0, 1), or with shifts: the mixture over its atoms j of N(j unit, 1). Trimmed atoms go where they keep the estimate
 * on its side: larger shifts dominate smaller ones (TPS lemma 2.4). */
static bool mixture_of(struct eps__mixture *mixture, const struct shifts *shifts, bool numerator,
                       enum eps__estimate estimate, double *lost)
{
    const struct eps__law *law = shifts->law;
    if (!shifts->present || !law) {
        if (!eps__mixture_alloc(mixture, 1))
            return false;
        mixture->weight[0] = 1;
        mixture->shift[0] = shifts->present ? shifts->unit : 0;
        return true;
    }
    bool spare = law->first > 0 && law->lost_low + law->lost_high > 0 && estimate == EPS__LOWER && !numerator;
    if (!eps__mixture_alloc(mixture, law->len + (spare ? 1 : 0)))
        return false;
    for (size_t i = 0; i < law->len; i++) {
        mixture->weight[i] = law->weight[i];
        mixture->shift[i] = (double)(law->first + i) * shifts->unit;
    }
    if (numerator && estimate == EPS__UPPER) {
        mixture->weight[0] += law->lost_low;
        *lost += law->lost_high;
    }
    if (!numerator && estimate == EPS__LOWER)
        mixture->weight[spare ? law->len : 0] += law->lost_low + law->lost_high;
    return true;
}

/* What a step may be: with a public probability, an example that takes part shifts the mean by `with` times a draw
 * from the law, and the other data set's example by -`without` times one. Probability and law by estimate. */
struct alternative {
    double weight[2];
    struct eps__law law[2];
    double with, without;
};

struct alternatives {
    struct alternative items[2];
    size_t len;
};

static bool make_branch(struct eps__branch *branch, const struct alternative *alternative, enum eps_direction direction,
                        double unit_lower, double unit_upper)
{
    for (enum eps__estimate estimate = EPS__UPPER; estimate <= EPS__LOWER; estimate++) {
        const struct eps__law *law = &alternative->law[estimate];
        double unit = estimate == EPS__UPPER ? unit_upper : unit_lower;
        const struct shifts with = {alternative->with > 0, law, alternative->with * unit};
        const struct shifts without = {alternative->without > 0, law, alternative->without * unit};
        bool remove = direction == EPS_REMOVE;
        struct eps__pair *pair = &branch->pair[estimate];
        branch->weight[estimate] = alternative->weight[estimate];
        pair->weight_error = law->weight_error;
        if (!mixture_of(&pair->numerator, remove ? &with : &without, true, estimate, &pair->lost) ||
            !mixture_of(&pair->denominator, remove ? &without : &with, false, estimate, &pair->lost))
            return false;
    }
    return true;
}

/* `count` steps of one column norm, which in units of sigma lies between the two units. */
static enum eps_status add_steps(struct eps__composition *composition, const struct alternatives *alternatives,
                                 enum eps_direction direction, double unit_lower, double unit_upper, uint64_t count)
{
    struct eps__branch *branches = calloc(alternatives->len, sizeof *branches);
    bool made = branches != NULL;
    for (size_t i = 0; i < alternatives->len && made; i++)
        made = make_branch(&branches[i], &alternatives->items[i], direction, unit_lower, unit_upper);
    if (made)
        return eps__composition_add(composition, branches, alternatives->len, count);
    for (size_t i = 0; branches && i < alternatives->len; i++)
        eps__branch_clear(&branches[i]);
    free(branches);
    return EPS_NO_MEMORY;
}

static void alternatives_clear(struct alternatives *alternatives)
{
    for (size_t i = 0; i < alternatives->len; i++)
        for (int estimate = 0; estimate < 2; estimate++)
            eps__law_clear(&alternatives->items[i].law[estimate]);
    alternatives->len = 0;
}

/* How many examples of one user a step may draw at most. */
static uint64_t largest_amplitude(const struct eps_mechanism *mechanism)
{
    if (mechanism->sampling.scheme == EPS_SCHEME_NONE)
        return 1;
    return mechanism->sampling.last_iterate ? mechanism->n : mechanism->sampling.examples_per_user;
}

static enum eps_status add_alternative(struct alternatives *alternatives, const struct alternative *shape,
                                       uint64_t amplitude, double p_lower, double p_upper, double log_floor)
{
    struct alternative *made = &alternatives->items[alternatives->len++];
    *made = *shape;
    enum eps_status status = eps__binomial_law(&made->law[EPS__UPPER], amplitude, p_upper, log_floor);
    return status == EPS_OK ? eps__binomial_law(&made->law[EPS__LOWER], amplitude, p_lower, log_floor) : status;
}

/* The two coins of a truncated batch (accounting of a data set of `dataset` examples, of which one differs). */
static enum eps_status truncated_alternatives(struct alternatives *alternatives, const struct eps_mechanism *mechanism,
                                              double p, uint64_t dataset, double log_floor)
{
    bool replace = mechanism->adjacency == EPS_ADJACENCY_REPLACE_ONE;
    struct eps__truncation t = eps__truncate(dataset, p, mechanism->sampling.max_batch_size);
    const struct alternative open = {.weight = {t.open.upper, t.open.lower}, .with = 1, .without = replace ? 1 : 0};
    const struct alternative full = {.weight = {t.full.upper, t.full.lower},
                                     .with = 2,
                                     .without = replace                                          ? 2
                                                : mechanism->adjacency == EPS_ADJACENCY_ZERO_OUT ? 1
                                                                                                 : 0};
    enum eps_status status = EPS_OK;
    if (open.weight[EPS__UPPER] > 0)
        status = add_alternative(alternatives, &open, 1, p, p, log_floor);
    if (status == EPS_OK && full.weight[EPS__UPPER] > 0)
        status = add_alternative(alternatives, &full, 1, t.q.lower, t.q.upper, log_floor);
    return status;
}

static enum eps_status make_alternatives(struct alternatives *alternatives, const struct eps__setting *setting,
                                         uint64_t dataset, double log_floor)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    bool sampled = mechanism->sampling.scheme != EPS_SCHEME_NONE;
    /* Without sampling the sensitivity already holds the adjacency: one Gaussian against N(0, 1). */
    bool replace = sampled && mechanism->adjacency == EPS_ADJACENCY_REPLACE_ONE;
    double p = sampled ? setting->p : 1;
    alternatives->len = 0;
    if (mechanism->sampling.truncation)
        return truncated_alternatives(alternatives, mechanism, p, dataset, log_floor);
    const struct alternative plain = {.weight = {1, 1}, .with = 1, .without = replace ? 1 : 0};
    return add_alternative(alternatives, &plain, largest_amplitude(mechanism), p, p, log_floor);
}

/* ------------------------------------------------------------ the parts of the data set */

/* The column norms of the rounds in which one part takes its turn, largest first. */
struct part {
    double *norms;
    size_t len;
};

static void part_clear(struct part *part)
{
    free(part->norms);
    *part = (struct part){0};
}

static int descending(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left < right) - (left > right);
}

static bool part_of(struct part *part, const struct eps_strategy *strategy, size_t n, size_t first, size_t groups)
{
    part->len = (n - 1 - first) / groups + 1;
    part->norms = malloc(part->len * sizeof *part->norms);
    if (!part->norms)
        return false;
    for (size_t i = 0; i < part->len; i++)
        part->norms[i] = eps__strategy_column_norm(strategy, first + i * groups);
    qsort(part->norms, part->len, sizeof *part->norms, descending);
    return true;
}

/* A part whose rounds can be matched with another's, each of at least its norm, is never the worst. */
static bool dominated(const struct part *part, const struct part *by)
{
    if (part->len > by->len)
        return false;
    for (size_t i = 0; i < part->len; i++)
        if (part->norms[i] > by->norms[i])
            return false;
    return true;
}

struct parts {
    struct part *items;
    size_t len;
};

static void parts_clear(struct parts *parts)
{
    for (size_t i = 0; i < parts->len; i++)
        part_clear(&parts->items[i]);
    free(parts->items);
    *parts = (struct parts){0};
}

/* Every part that may be the worst. */
static bool find_parts(struct parts *parts, const struct eps__setting *setting)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    size_t groups = eps__sampling_groups(mechanism), n = mechanism->n;
    size_t candidates = eps_strategy_is_toeplitz(setting->strategy) ? 1 : groups < n ? groups : n;
    parts->items = calloc(candidates, sizeof *parts->items);
    if (!parts->items)
        return false;
    for (size_t first = 0; first < candidates; first++) {
        struct part part;
        bool needed = true;
        if (!part_of(&part, setting->strategy, n, first, groups)) {
            parts_clear(parts);
            return false;
        }
        for (size_t i = 0; i < parts->len && needed; i++)
            needed = !dominated(&part, &parts->items[i]);
        if (needed)
            parts->items[parts->len++] = part;
        else
            part_clear(&part);
    }
    return true;
}

/* Norms that differ by less than this, relative to the tolerance, are one power, taken at its two ends. */
#define SAME_NORM 1e-3

static enum eps_status add_part(struct eps__composition *composition, const struct eps__setting *setting,
                                const struct alternatives *alternatives, enum eps_direction direction, double sigma,
                                const struct part *part)
{
    double slack = 4 * EPS__UNIT_ROUNDOFF, same = 1 - SAME_NORM * setting->job->query.accountant.tolerance;
    /* A norm's two ends differ by its rounding, n u relative at most. */
    double rounding = 4 * (double)(setting->job->mechanism.n + 2) * EPS__UNIT_ROUNDOFF;
    enum eps_status status = EPS_OK;
    for (size_t i = 0, run; i < part->len && part->norms[i] > 0 && status == EPS_OK; i += run) {
        double largest = part->norms[i];
        for (run = 1; i + run < part->len && part->norms[i + run] >= largest * same; run++)
            ;
        double least = part->norms[i + run - 1];
        status = add_steps(composition, alternatives, direction, least / sigma * (1 - rounding) * (1 - slack),
                           largest / sigma * (1 + slack), run);
    }
    return status;
}

/* ------------------------------------------------------------ the profile */

static enum eps_status log_delta(struct eps__profile *profile, enum eps_direction direction,
                                 enum eps__estimate estimate, double eps, double *out, struct eps_error *error)
{
    struct pld_profile *pld = (struct pld_profile *)profile;
    enum eps_status status = EPS_OK;
    (void)error;
    *out = -INFINITY;
    for (size_t i = 0; i < pld->parts_len && status == EPS_OK; i++) {
        double own;
        status = eps__composition_log_delta(pld->parts[direction][i], estimate, eps, &own);
        if (status == EPS_OK)
            *out = fmax(*out, own);
    }
    return status;
}

static double approximate(struct eps__profile *profile, enum eps_direction direction, double eps)
{
    const struct pld_profile *pld = (const struct pld_profile *)profile;
    double largest = -INFINITY;
    for (size_t i = 0; i < pld->parts_len; i++)
        largest = fmax(largest, eps__composition_approximate(pld->parts[direction][i], eps));
    return largest;
}

static double guess(struct eps__profile *profile, enum eps_direction direction, double log_delta_wanted)
{
    const struct pld_profile *pld = (const struct pld_profile *)profile;
    double largest = 0;
    for (size_t i = 0; i < pld->parts_len; i++)
        largest = fmax(largest, eps__composition_guess(pld->parts[direction][i], log_delta_wanted));
    return largest;
}

static bool refine(struct eps__profile *profile, enum eps_direction direction, double factor)
{
    struct pld_profile *pld = (struct pld_profile *)profile;
    bool refined = true;
    for (size_t i = 0; i < pld->parts_len; i++)
        refined = eps__composition_refine(pld->parts[direction][i], factor) && refined;
    return refined;
}

static void destroy(struct eps__profile *profile)
{
    struct pld_profile *pld = (struct pld_profile *)profile;
    for (int direction = 0; direction < EPS_DIRECTIONS; direction++) {
        for (size_t i = 0; pld->parts[direction] && i < pld->parts_len; i++)
            eps__composition_destroy(pld->parts[direction][i]);
        free(pld->parts[direction]);
    }
    free(pld);
}

static const struct eps__profile_class profile_class = {log_delta, approximate, guess, refine, NULL, destroy};

/* ------------------------------------------------------------ the accountant */

static bool serves(const struct eps__setting *setting, struct eps_error *error)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    const struct eps_sampling *sampling = &mechanism->sampling;
    if (sampling->scheme == EPS_SCHEME_NONE)
        return true;
    if (sampling->scheme == EPS_SCHEME_POISSON)
        return eps__strategy_is_diagonal(setting->strategy) ||
               eps__decline(error, "/matrix", "pld under poisson needs a strategy with one band, such as identity");
    if (sampling->scheme != EPS_SCHEME_CYCLIC_POISSON)
        return eps__decline(error, "/sampling/scheme", "pld serves the schemes none, poisson and cyclic_poisson");
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
    return false; /* it converges, but never in closed form */
}

static double step_count(const struct eps__setting *setting)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    if (mechanism->sampling.scheme == EPS_SCHEME_NONE || mechanism->sampling.last_iterate)
        return 1;
    return ceil((double)mechanism->n / (double)eps__sampling_groups(mechanism));
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

static double least_sigma(const struct eps__setting *setting)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    const struct eps_sampling *sampling = &mechanism->sampling;
    double norm = 0, n = (double)mechanism->n;
    if (sampling->scheme == EPS_SCHEME_NONE)
        return setting->sensitivity.value / SHIFT_MAX;
    norm = eps__strategy_largest_norm(setting->strategy);
    if (sampling->last_iterate)
        return norm * fmin(n, n * setting->p + 40 * sqrt(n * setting->p) + 800) / sqrt(n) / SHIFT_MAX;
    return norm * (sampling->truncation ? 2 : (double)sampling->examples_per_user) / SHIFT_MAX;
}

/* All steps of one part, or the one step that there is. */
static enum eps_status compose_part(struct eps__composition *composition, const struct eps__setting *setting,
                                    const struct alternatives *alternatives, enum eps_direction direction, double sigma,
                                    const struct part *part)
{
    const struct eps_sampling *sampling = &setting->job->mechanism.sampling;
    const struct eps_strategy *strategy = setting->strategy;
    double slack = 4 * EPS__UNIT_ROUNDOFF, lower = setting->sensitivity.lower, upper = setting->sensitivity.value;
    if (sampling->scheme != EPS_SCHEME_NONE && !sampling->last_iterate)
        return add_part(composition, setting, alternatives, direction, sigma, part);
    if (sampling->last_iterate) {
        sigma *= sqrt((double)setting->job->mechanism.n);
        lower = eps__strategy_column_norm_lower(strategy, 0);
        upper = eps__strategy_column_norm(strategy, 0);
    }
    return add_steps(composition, alternatives, direction, lower / sigma * (1 - slack), upper / sigma * (1 + slack), 1);
}

/* The sizes of the parts of the data set: they matter where batches are truncated. */
static size_t part_sizes(const struct eps_mechanism *mechanism, uint64_t *sizes)
{
    uint64_t groups = eps__sampling_groups(mechanism), dataset = mechanism->sampling.dataset_size;
    sizes[0] = mechanism->sampling.truncation ? dataset / groups : 0;
    if (!mechanism->sampling.truncation || dataset % groups == 0)
        return 1;
    sizes[1] = sizes[0] + 1;
    return 2;
}

static enum eps_status compose_all(struct pld_profile *pld, const struct eps__setting *setting,
                                   const struct parts *parts, double sigma, const struct eps__accuracy *accuracy)
{
    struct eps__tally *tally = accuracy->unknown == EPS_SOLVE_NOISE_MULTIPLIER ? NULL : setting->tally;
    double log_floor = isnan(accuracy->log_delta) ? -740 : fmax(fmin(1.2 * accuracy->log_delta, -60) - 40, -740);
    struct alternatives alternatives;
    uint64_t sizes[2];
    size_t sizes_len = part_sizes(&setting->job->mechanism, sizes);
    pld->parts_len = sizes_len * parts->len;
    for (int direction = 0; direction < EPS_DIRECTIONS; direction++) {
        pld->parts[direction] = calloc(pld->parts_len, sizeof *pld->parts[direction]);
        if (!pld->parts[direction])
            return EPS_NO_MEMORY;
    }
    for (size_t i = 0; i < sizes_len; i++) {
        enum eps_status status = make_alternatives(&alternatives, setting, sizes[i], log_floor);
        for (size_t k = 0; k < EPS_DIRECTIONS * parts->len && status == EPS_OK; k++) {
            enum eps_direction direction = (enum eps_direction)(k % EPS_DIRECTIONS);
            struct eps__composition **slot = &pld->parts[direction][i * parts->len + k / EPS_DIRECTIONS];
            status = eps__composition_create(slot, setting->context, tally, accuracy);
            if (status == EPS_OK)
                status =
                    compose_part(*slot, setting, &alternatives, direction, sigma, &parts->items[k / EPS_DIRECTIONS]);
        }
        alternatives_clear(&alternatives);
        if (status != EPS_OK)
            return status;
    }
    return EPS_OK;
}

static enum eps_status open_profile(const struct eps__setting *setting, double sigma,
                                    const struct eps__accuracy *accuracy, struct eps__profile **profile,
                                    struct eps_error *error)
{
    struct parts parts = {0};
    if (sigma < least_sigma(setting) * (1 - 1e-9))
        return eps__error(error, EPS_TOO_COSTLY, "/noise_multiplier",
                          "pld does not resolve a noise multiplier under %.3g here; raise it", least_sigma(setting));
    struct pld_profile *pld = calloc(1, sizeof *pld);
    if (!pld)
        return EPS_NO_MEMORY;
    pld->base.class = &profile_class;
    enum eps_status status = EPS_NO_MEMORY;
    if (find_parts(&parts, setting))
        status = compose_all(pld, setting, &parts, sigma, accuracy);
    parts_clear(&parts);
    if (status != EPS_OK) {
        destroy(&pld->base);
        return status;
    }
    *profile = &pld->base;
    return EPS_OK;
}

static double log_delta_without_noise(const struct eps__setting *setting, enum eps_direction direction, double eps)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    bool worst = mechanism->sampling.scheme == EPS_SCHEME_NONE || mechanism->sampling.truncation;
    return worst ? 0 : eps__sampling_log_delta_without_noise(mechanism, direction, eps);
}

const struct eps__accountant eps__accountant_pld = {EPS_ACCOUNTANT_PLD,      serves,     exact, cost, open_profile,
                                                    log_delta_without_noise, least_sigma};
