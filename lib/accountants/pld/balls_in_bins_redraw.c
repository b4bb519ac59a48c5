/*
 * Balls in bins with redraw and a diagonal strategy. An epoch's output depends on an example only through its bin in
 * that epoch, and the bins of different epochs are independent. So the mechanism is a composition (pld/known/curves.h)
 * of one epoch of balls in bins (pld/known/balls_in_bins.h) after another.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/pld/balls_in_bins_redraw.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "lib/accountants/pld/parts.h"
#include "lib/base/error.h"
#include "lib/numerics/normal.h"
#include "lib/pld/known/curves.h"
#include "lib/sampling/scheme.h"

#define SHIFT_MAX 5.0 /* the largest column norm over sigma that is resolved */

enum { EPOCH_CLASSES_MAX = 8 };

/* Epochs whose column norms lie in [lower, upper]. */
struct epoch_class {
    double lower, upper;
    size_t epochs;
};

struct epoch_classes {
    struct epoch_class items[EPOCH_CLASSES_MAX];
    size_t len;
    bool even, few;        /* the norms within each epoch are equal; the classes fit into `items` */
    double largest, total; /* the largest norm; the root of the sum of all epochs' squared norms, rounded up */
};

struct redraw_profile {
    struct eps__profile base;
    struct eps__curves *directions[EPS_DIRECTIONS];
    double shift; /* of the Gaussian mechanism in which the bins are known, over all epochs; rounded up */
};

/* ------------------------------------------------------------ the epochs */

static size_t bins_of(const struct eps__setting *setting)
{
    return eps__sampling_bins(&setting->job->mechanism);
}

static bool same(const struct eps__setting *setting, double lower, double upper)
{
    return lower >= upper * (1 - EPS__SAME_NORM * setting->job->query.accountant.tolerance);
}

static void add_epoch(const struct eps__setting *setting, struct epoch_classes *classes, double lower, double upper)
{
    for (size_t i = 0; i < classes->len; i++) {
        struct epoch_class *class = &classes->items[i];
        double low = fmin(class->lower, lower), high = fmax(class->upper, upper);
        if (same(setting, low, high)) {
            *class = (struct epoch_class){low, high, class->epochs + 1};
            return;
        }
    }
    if (classes->len == EPOCH_CLASSES_MAX)
        classes->few = false;
    else
        classes->items[classes->len++] = (struct epoch_class){lower, upper, 1};
}

/* Sorts the epochs into classes by their norms (A23). Every column is counted in exactly one epoch. */
static void find_epoch_classes(const struct eps__setting *setting, struct epoch_classes *classes)
{
    size_t n = setting->job->mechanism.n, bins = bins_of(setting), epochs = n / bins, counted = 0;
    double squares = 0;
    assert(bins > 0 && n % bins == 0);
    *classes = (struct epoch_classes){.even = true, .few = true};
    for (size_t first = 0; first < n; first += bins) {
        double lower = INFINITY, upper = 0;
        for (size_t j = first; j < first + bins; j++, counted++) {
            lower = fmin(lower, eps__strategy_column_norm_lower(setting->strategy, j));
            upper = fmax(upper, eps__strategy_column_norm(setting->strategy, j));
        }
        classes->even = classes->even && same(setting, lower, upper);
        classes->largest = fmax(classes->largest, upper);
        squares += upper * upper;
        add_epoch(setting, classes, lower, upper);
    }
    assert(counted == n);
    classes->total = eps__raise(sqrt(squares), (double)epochs + 8);
}

/* ------------------------------------------------------------ the profile */

static struct eps__curves *of(const struct eps__profile *profile, enum eps_direction direction)
{
    return ((const struct redraw_profile *)profile)->directions[direction];
}

/* The Gaussian mechanism in which the bins are known is another upper bound: the hockey-stick divergence is jointly
 * convex. */
static enum eps_status log_delta(struct eps__profile *profile, enum eps_direction direction,
                                 enum eps__estimate estimate, double eps, double *out, struct eps_error *error)
{
    (void)error;
    enum eps_status status = eps__curves_log_delta(of(profile, direction), estimate, eps, out);
    if (status == EPS_OK && estimate == EPS__UPPER) {
        double off, gaussian = eps__gaussian_log_delta(((struct redraw_profile *)profile)->shift, eps, &off);
        *out = fmin(*out, eps__certain(EPS__UPPER, eps__shift(EPS__UPPER, gaussian, off)));
    }
    return status;
}

static enum eps_status approximate(struct eps__profile *profile, enum eps_direction direction, double eps, double *out)
{
    return eps__curves_approximate(of(profile, direction), eps, out);
}

static enum eps_status guess(struct eps__profile *profile, enum eps_direction direction, double log_delta_wanted,
                             double *eps)
{
    return eps__curves_guess(of(profile, direction), log_delta_wanted, eps);
}

static bool refine(struct eps__profile *profile, enum eps_direction direction, double factor)
{
    return eps__curves_refine(of(profile, direction), factor);
}

static void destroy(struct eps__profile *profile)
{
    for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++)
        eps__curves_destroy(of(profile, direction));
    free(profile);
}

static const struct eps__profile_class profile_class = {
    .log_delta = log_delta, .approximate = approximate, .guess = guess, .refine = refine, .destroy = destroy};

/* ------------------------------------------------------------ the accountant */

bool eps__pld_redraws(const struct eps__setting *setting)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    return mechanism->sampling.redraw && bins_of(setting) > 1 && mechanism->n > bins_of(setting);
}

bool eps__pld_redraw_serves(const struct eps__setting *setting, struct eps_error *error)
{
    struct epoch_classes classes;
    if (!eps__strategy_is_diagonal(setting->strategy))
        return eps__decline(error, "/sampling/redraw",
                            "pld with redraw needs a strategy with one band, such as identity");
    find_epoch_classes(setting, &classes);
    if (!classes.even)
        return eps__decline(error, "/matrix", "pld with redraw needs all columns of an epoch to have the same norm");
    return classes.few ||
           eps__decline(error, "/matrix", "pld with redraw needs epochs with at most 8 different column norms");
}

void eps__pld_redraw_cost(const struct eps__setting *setting, double *operations, double *bytes)
{
    struct epoch_classes classes;
    find_epoch_classes(setting, &classes);
    double tolerance = setting->job->query.accountant.tolerance, width = 1 + pow((double)bins_of(setting), 0.6) / 15;
    double searches = setting->job->query.noise_multiplier > 0 ? 1 : 5;
    *operations = searches * (double)classes.len * 2e8 * width / pow(tolerance * 1e3, 0.25);
    *bytes = 1e8;
}

double eps__pld_redraw_least_sigma(const struct eps__setting *setting)
{
    struct epoch_classes classes;
    find_epoch_classes(setting, &classes);
    return classes.largest / SHIFT_MAX;
}

static enum eps_status add_epoch_classes(const struct eps__curve_sink *sink, const struct eps__setting *setting,
                                         const struct epoch_classes *classes, enum eps_direction direction,
                                         double sigma, uint64_t count)
{
    enum eps_status status = EPS_OK;
    for (size_t i = 0; i < classes->len && status == EPS_OK; i++) {
        const struct epoch_class *class = &classes->items[i];
        struct eps__curve *curve =
            eps__curve_balls_in_bins(setting->context, direction, bins_of(setting), eps__lower(class->lower / sigma, 4),
                                     eps__raise(class->upper / sigma, 4));
        status = sink->add(sink->to, curve, class->epochs * count);
    }
    return status;
}

enum eps_status eps__pld_redraw_curves(const struct eps__curve_sink *sink, const struct eps__setting *setting,
                                       enum eps_direction direction, double sigma, uint64_t count)
{
    struct epoch_classes classes;
    find_epoch_classes(setting, &classes);
    return add_epoch_classes(sink, setting, &classes, direction, sigma, count);
}

static enum eps_status take_curve(void *curves, struct eps__curve *curve, uint64_t count)
{
    return eps__curves_add(curves, curve, count);
}

enum eps_status eps__pld_redraw_open(const struct eps__setting *setting, double sigma,
                                     const struct eps__accuracy *accuracy, struct eps__profile **profile,
                                     struct eps_error *error)
{
    struct epoch_classes classes;
    find_epoch_classes(setting, &classes);
    double least = classes.largest / SHIFT_MAX;
    if (sigma < eps__lower(least, 1e7))
        return eps__error(error, EPS_TOO_COSTLY, "/noise_multiplier",
                          "pld cannot resolve a noise multiplier below %.3g for this mechanism: increase it", least);
    struct redraw_profile *made = calloc(1, sizeof *made);
    if (!made)
        return EPS_NO_MEMORY;
    made->base.class = &profile_class;
    made->shift = eps__raise(classes.total / sigma, 4);
    enum eps_status status = EPS_OK;
    for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS && status == EPS_OK; direction++) {
        status = eps__curves_create(&made->directions[direction], setting->context, accuracy);
        const struct eps__curve_sink sink = {made->directions[direction], take_curve};
        if (status == EPS_OK)
            status = add_epoch_classes(&sink, setting, &classes, direction, sigma, 1);
    }
    if (status != EPS_OK) {
        destroy(&made->base);
        return status;
    }
    *profile = &made->base;
    return EPS_OK;
}
