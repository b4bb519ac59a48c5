/*
 * Balls in bins. An example in bin i contributes the vector m_i, the sum over the epochs of the columns of its bin.
 *
 * If the m_i are orthogonal, only their norms matter, and the law of P/Q is known (pld/known/balls_in_bins.h). For
 * example, k epochs of the identity are one epoch at sigma/sqrt(k). If neighbouring bins share rows, the bins are
 * partitioned into classes within which none do (bin_classes.h): delta is at most the weighted mean of the classes'
 * deltas, and each class has a known law. At most two sizes of classes occur. Larger classes, whose bins share
 * something, may give a smaller bound (shared_bins.h); the least of the two is the answer. With redraw this file serves
 * one epoch or one bin, where redraw makes no difference; balls_in_bins_redraw.c serves the rest.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/pld/balls_in_bins.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "lib/accountants/pld/balls_in_bins_redraw.h"
#include "lib/accountants/pld/bin_classes.h"
#include "lib/accountants/pld/bin_curves.h"
#include "lib/accountants/pld/parts.h"
#include "lib/accountants/pld/shared_bins.h"
#include "lib/base/error.h"
#include "lib/pld/known/balls_in_bins.h"
#include "lib/sampling/pairs.h"
#include "lib/sampling/scheme.h"

#define SHIFT_MAX 20.0 /* the largest norm of an m_i over sigma that is resolved */

enum { PARTS_MAX = 2, STEPS_MAX = 30 };

/* All classes of one size. */
struct part {
    double log_share[2]; /* ln of their share of the bins, by estimate */
    struct eps__balls_in_bins *law;
};

struct balls_in_bins_profile {
    struct eps__profile base;
    struct part parts[EPS_DIRECTIONS][PARTS_MAX];
    size_t len;                  /* 0: there are no classes of more than one bin that share nothing */
    struct eps__profile *shared; /* of larger classes; NULL: none are worth it */
};

/* ------------------------------------------------------------ the profile */

/* delta is at most the weighted mean of the classes' deltas (A21). */
static enum eps_status mean_log_delta(const struct balls_in_bins_profile *balls_in_bins, enum eps_direction direction,
                                      enum eps__estimate estimate, double eps, double *out)
{
    const struct part *parts = balls_in_bins->parts[direction];
    double sum = -INFINITY, own;
    if (balls_in_bins->len == 1) /* all classes have the same size, and so the same delta */
        return eps__balls_in_bins_log_delta(parts[0].law, estimate, eps, out);
    for (size_t i = 0; i < balls_in_bins->len; i++) {
        enum eps_status status = eps__balls_in_bins_log_delta(parts[i].law, estimate, eps, &own);
        if (status != EPS_OK)
            return status;
        sum = eps__log_add(sum, own + parts[i].log_share[estimate]);
    }
    sum = eps__shift(estimate, sum, 32 * EPS__UNIT_ROUNDOFF * (1 + fabs(sum)));
    *out = fmin(eps__certain(estimate, sum), 0);
    return EPS_OK;
}

/* Both bounds together: the least of the two. Where the second one was too costly it has no lower estimate; then it
 * does not count if its upper estimate shows that it is of no use. */
static enum eps_status least_log_delta(const struct balls_in_bins_profile *balls_in_bins, enum eps_direction direction,
                                       enum eps__estimate estimate, double eps, double mean, double *out)
{
    struct eps__profile *profile = balls_in_bins->shared;
    double shared, upper;
    enum eps_status status = profile->class->log_delta(profile, direction, estimate, eps, &shared, NULL);
    if (status != EPS_OK)
        return status;
    *out = fmin(mean, eps__certain(estimate, shared));
    if (isinf(mean) || estimate == EPS__UPPER || !isinf(*out))
        return EPS_OK;
    status = profile->class->log_delta(profile, direction, EPS__UPPER, eps, &upper, NULL);
    if (status == EPS_OK && upper >= mean)
        *out = mean;
    return status;
}

static enum eps_status log_delta(struct eps__profile *profile, enum eps_direction direction,
                                 enum eps__estimate estimate, double eps, double *out, struct eps_error *error)
{
    const struct balls_in_bins_profile *balls_in_bins = (const struct balls_in_bins_profile *)profile;
    enum eps_status status = EPS_OK;
    (void)error;
    *out = INFINITY;
    if (balls_in_bins->len > 0)
        status = mean_log_delta(balls_in_bins, direction, estimate, eps, out);
    if (status == EPS_OK && balls_in_bins->shared)
        status = least_log_delta(balls_in_bins, direction, estimate, eps, *out, out);
    return status;
}

static double mean_approximately(const struct balls_in_bins_profile *balls_in_bins, enum eps_direction direction,
                                 double eps)
{
    double sum = -INFINITY;
    for (size_t i = 0; i < balls_in_bins->len; i++) {
        const struct part *part = &balls_in_bins->parts[direction][i];
        sum = eps__log_add(sum, eps__balls_in_bins_approximate(part->law, eps) + part->log_share[EPS__UPPER]);
    }
    return sum;
}

static enum eps_status approximate(struct eps__profile *profile, enum eps_direction direction, double eps, double *out)
{
    const struct balls_in_bins_profile *balls_in_bins = (const struct balls_in_bins_profile *)profile;
    double shared = INFINITY;
    enum eps_status status = EPS_OK;
    if (balls_in_bins->shared)
        status = balls_in_bins->shared->class->approximate(balls_in_bins->shared, direction, eps, &shared);
    if (status == EPS_OK)
        *out = balls_in_bins->len > 0 ? fmin(mean_approximately(balls_in_bins, direction, eps), shared) : shared;
    return status;
}

/* Bisection between the smallest and the largest epsilon of the classes. */
static double mean_guess(const struct balls_in_bins_profile *balls_in_bins, enum eps_direction direction,
                         double log_delta_wanted)
{
    double low = INFINITY, high = 0;
    for (size_t i = 0; i < balls_in_bins->len; i++) {
        double own = eps__balls_in_bins_guess(balls_in_bins->parts[direction][i].law, log_delta_wanted);
        low = fmin(low, own);
        high = fmax(high, own);
    }
    for (int i = 0; i < STEPS_MAX && high - low > 1e-3 * high; i++) {
        double middle = 0.5 * (low + high);
        *(mean_approximately(balls_in_bins, direction, middle) > log_delta_wanted ? &low : &high) = middle;
    }
    return high;
}

static enum eps_status guess(struct eps__profile *profile, enum eps_direction direction, double log_delta_wanted,
                             double *eps)
{
    const struct balls_in_bins_profile *balls_in_bins = (const struct balls_in_bins_profile *)profile;
    double shared = INFINITY;
    enum eps_status status = EPS_OK;
    if (balls_in_bins->shared)
        status = balls_in_bins->shared->class->guess(balls_in_bins->shared, direction, log_delta_wanted, &shared);
    if (status == EPS_OK)
        *eps = balls_in_bins->len > 0 ? fmin(mean_guess(balls_in_bins, direction, log_delta_wanted), shared) : shared;
    return status;
}

/* A class of one bin has a closed form, which cannot be refined. */
static bool refine(struct eps__profile *profile, enum eps_direction direction, double factor)
{
    struct balls_in_bins_profile *balls_in_bins = (struct balls_in_bins_profile *)profile;
    bool refined = false;
    if (balls_in_bins->shared)
        refined = balls_in_bins->shared->class->refine(balls_in_bins->shared, direction, factor);
    for (size_t i = 0; i < balls_in_bins->len; i++)
        refined |= eps__balls_in_bins_refine(balls_in_bins->parts[direction][i].law, factor);
    return refined;
}

static void destroy(struct eps__profile *profile)
{
    struct balls_in_bins_profile *balls_in_bins = (struct balls_in_bins_profile *)profile;
    for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++)
        for (size_t i = 0; i < PARTS_MAX; i++)
            eps__balls_in_bins_destroy(balls_in_bins->parts[direction][i].law);
    if (balls_in_bins->shared)
        balls_in_bins->shared->class->destroy(balls_in_bins->shared);
    free(profile);
}

static const struct eps__profile_class profile_class = {
    .log_delta = log_delta, .approximate = approximate, .guess = guess, .refine = refine, .destroy = destroy};

/* ------------------------------------------------------------ the norms */

static size_t bins_of(const struct eps__setting *setting)
{
    return eps__sampling_bins(&setting->job->mechanism);
}

struct norms {
    double least, largest; /* the least and the largest norm |m_i|, both rounded down */
    double upper;          /* the largest norm, rounded up (A20) */
};

/* Every column is counted in exactly one bin. The columns of a bin share no row, so their squared norms add up. */
static struct norms bin_norms(const struct eps__setting *setting)
{
    size_t n = setting->job->mechanism.n, bins = bins_of(setting), counted = 0;
    struct norms norms = {.least = INFINITY};
    assert(bins > 0 && n % bins == 0);
    for (size_t i = 0; i < bins; i++) {
        double least = 0, most = 0;
        for (size_t j = i; j < n; j += bins, counted++) {
            double low = eps__strategy_column_norm_lower(setting->strategy, j);
            double high = eps__strategy_column_norm(setting->strategy, j);
            least += low * low;
            most += high * high;
        }
        size_t epochs = n / bins;
        double units = (double)epochs + 8, lower = eps__lower(sqrt(least), units);
        norms.least = fmin(norms.least, lower);
        norms.largest = fmax(norms.largest, lower);
        norms.upper = fmax(norms.upper, eps__raise(sqrt(most), units));
    }
    assert(counted == n);
    return norms;
}

/* ------------------------------------------------------------ the accountant */

bool eps__pld_is_balls_in_bins(const struct eps__setting *setting)
{
    return bins_of(setting) > 0;
}

bool eps__pld_balls_in_bins_exact(const struct eps__setting *setting)
{
    if (eps__pld_redraws(setting))
        return eps__pld_redraw_exact(setting);
    if (!eps__strategy_is_diagonal(setting->strategy))
        return false;
    struct norms norms = bin_norms(setting);
    return norms.least >= norms.upper * (1 - EPS__SAME_NORM * setting->job->query.accountant.tolerance);
}

/* Whether there are classes of several bins that share nothing, or C is diagonal: then the columns of a bin share no
 * row (A21). */
static bool shares_nothing(const struct eps__setting *setting)
{
    size_t bins = bins_of(setting);
    return eps__strategy_is_diagonal(setting->strategy) || eps__bin_classes(setting->strategy, bins).len < bins;
}

/* Whether classes of bins that share rows are tried. */
static bool shares(const struct eps__setting *setting)
{
    double operations;
    return !eps__strategy_is_diagonal(setting->strategy) && eps__shared_bins_serve(setting, &operations);
}

bool eps__pld_balls_in_bins_serves(const struct eps__setting *setting, struct eps_error *error)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    if (!eps__adjacency_known(error, "pld", EPS__AGAINST_NOISE, mechanism->adjacency))
        return false;
    if (eps__pld_redraws(setting))
        return eps__pld_redraw_serves(setting, error);
    if (eps__strategy_is_diagonal(setting->strategy))
        return true;
    if (!eps__strategy_nonnegative(setting->strategy))
        return eps__decline(error, "/matrix",
                            "amplification by pld under balls in bins needs a strategy whose entries are all >= 0");
    if (!eps__strategy_lower_triangular(setting->strategy))
        return eps__decline(error, "/matrix", "pld under balls in bins needs a lower-triangular strategy or a tree");
    return shares_nothing(setting) || shares(setting) ||
           eps__decline(error, "/matrix",
                        "pld under balls in bins needs bins that share no row of the strategy, a Toeplitz strategy, or "
                        "at most 4096 bins and not too many rows: use stamps, or fewer bands than bins");
}

/* A model of measured costs (tests/bench/bench_costs.c). Its terms are the grids, which grow with the number of bins of
 * a class and with 1/tolerance up to a maximum length, the sums over the bins of a class, and the norms of all
 * columns. */
void eps__pld_balls_in_bins_cost(const struct eps__setting *setting, double *operations, double *bytes)
{
    if (eps__pld_redraws(setting)) {
        eps__pld_redraw_cost(setting, operations, bytes);
        return;
    }
    struct eps__bin_classes classes = eps__bin_classes(setting->strategy, bins_of(setting));
    size_t least = classes.bins / classes.len;
    double size = (double)least, tolerance = setting->job->query.accountant.tolerance;
    double parts = classes.bins % classes.len ? 2 : 1, n = (double)setting->job->mechanism.n;
    double grid = pow(size, 0.55) / pow(tolerance * 1e3, 0.69);
    bool given = setting->job->query.noise_multiplier > 0;
    double part = (given ? 3.5e5 : 7e5) * fmin(grid, 2e4) + 1e3 * size + (given ? 3e6 : 5e6);
    *operations = parts * part + (given ? 150 : 600) * n;
    *bytes = parts * 1.2e5 * fmin(grid, 7e3) + 1e7;
    double matrix;
    if (!eps__strategy_is_diagonal(setting->strategy) && eps__shared_bins_serve(setting, &matrix)) {
        double width = 1 + pow((double)classes.bins, 0.6) / 15;
        bool all = eps_strategy_bands(setting->strategy) >= classes.bins;
        *operations += (given ? 1 : 2) * ((all ? 5e7 : 5e6) * width + 0.2 * matrix);
        *bytes += 1e8 + 32 * (double)classes.bins * (double)classes.bins;
    }
}

double eps__pld_balls_in_bins_least_sigma(const struct eps__setting *setting)
{
    if (eps__pld_redraws(setting))
        return eps__pld_redraw_least_sigma(setting);
    return shares_nothing(setting) ? bin_norms(setting).upper / SHIFT_MAX
                                   : eps__bin_curves_least_sigma(setting->sensitivity.value);
}

/* Makes the laws of the classes of each size, in both directions. */
static enum eps_status make_parts(struct balls_in_bins_profile *made, const struct eps__setting *setting, double sigma,
                                  const struct eps__accuracy *accuracy)
{
    struct eps__bin_classes classes = eps__bin_classes(setting->strategy, bins_of(setting));
    struct norms norms = bin_norms(setting);
    double bins = (double)classes.bins, lower = eps__pld_balls_in_bins_exact(setting) ? norms.least : norms.largest;
    struct eps__class_sizes sizes;
    enum eps_status status = eps__bin_class_sizes(setting->context, &sizes, &classes);
    for (size_t i = 0; i < PARTS_MAX && status == EPS_OK; i++) {
        if (sizes.counts[i] == 0)
            continue;
        double share = (double)(sizes.counts[i] * sizes.sizes[i]) / bins;
        for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS && status == EPS_OK; direction++) {
            struct part *part = &made->parts[direction][made->len];
            part->log_share[EPS__UPPER] = eps__log_bound(EPS__UPPER, share, 4);
            part->log_share[EPS__LOWER] = eps__log_bound(EPS__LOWER, share, 4);
            status =
                eps__balls_in_bins_create(&part->law, setting->context, direction, sizes.sizes[i],
                                          eps__lower(lower / sigma, 4), eps__raise(norms.upper / sigma, 4), accuracy);
        }
        made->len++;
    }
    return status;
}

/* Opens the bound of classes that share something, if it may be the smaller one and its losses are resolved. */
static enum eps_status make_shared(struct balls_in_bins_profile *made, const struct eps__setting *setting, double sigma,
                                   const struct eps__accuracy *accuracy)
{
    struct eps__bin_classes classes = eps__bin_classes(setting->strategy, bins_of(setting));
    size_t alone = made->len > 0 ? classes.bins / classes.len : 0;
    struct eps__shared_bins found;
    struct eps__bin_curves curves;
    if (sigma < eps__lower(eps__bin_curves_least_sigma(setting->sensitivity.value), 1e7))
        return EPS_OK; /* there is the other bound: see least_sigma() */
    enum eps_status status = eps__shared_bins_find(&found, setting, sigma, 1, alone);
    if (status != EPS_OK || found.size == 0)
        return status;
    eps__shared_bins_curves(&curves, &found, 1);
    return eps__bin_curves_open(&curves, setting->context, sigma, accuracy, &made->shared);
}

enum eps_status eps__pld_balls_in_bins_open(const struct eps__setting *setting, double sigma,
                                            const struct eps__accuracy *accuracy, struct eps__profile **profile,
                                            struct eps_error *error)
{
    if (eps__pld_redraws(setting))
        return eps__pld_redraw_open(setting, sigma, accuracy, profile, error);
    double least = eps__pld_balls_in_bins_least_sigma(setting);
    if (sigma < eps__lower(least, 1e7))
        return eps__error(error, EPS_TOO_COSTLY, "/noise_multiplier",
                          "pld cannot resolve a noise multiplier below %.3g for this mechanism: increase it", least);
    struct balls_in_bins_profile *made = calloc(1, sizeof *made);
    if (!made)
        return EPS_NO_MEMORY;
    made->base.class = &profile_class;
    enum eps_status status = EPS_OK;
    if (shares_nothing(setting))
        status = make_parts(made, setting, sigma, accuracy);
    if (status == EPS_OK && shares(setting))
        status = make_shared(made, setting, sigma, accuracy);
    if (status != EPS_OK) {
        destroy(&made->base);
        return status;
    }
    *profile = &made->base;
    return EPS_OK;
}

bool eps__pld_balls_in_bins_has_curves(const struct eps__setting *setting)
{
    return eps__pld_redraws(setting) || eps__pld_balls_in_bins_exact(setting);
}

enum eps_status eps__pld_balls_in_bins_curves(const struct eps__curve_sink *sink, const struct eps__setting *setting,
                                              enum eps_direction direction, double sigma, uint64_t count)
{
    if (eps__pld_redraws(setting))
        return eps__pld_redraw_curves(sink, setting, direction, sigma, count);
    struct norms norms = bin_norms(setting);
    struct eps__curve *curve =
        eps__curve_balls_in_bins(setting->context, direction, bins_of(setting), eps__lower(norms.least / sigma, 4),
                                 eps__raise(norms.upper / sigma, 4));
    return sink->add(sink->to, curve, count);
}
