/*
 * Balls in bins with redraw, for strategies no row of which spans two epochs. An epoch's output depends on an example
 * only through its bin in that epoch, and the bins of different epochs are independent. So the mechanism is a
 * composition (bin_curves.h) of one epoch of balls in bins (pld/known/balls_in_bins.h) after another. If bins share
 * rows, an epoch is a Gaussian and bins that share none (shared_bins.h).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/pld/balls_in_bins_redraw.h"

#include <assert.h>
#include <math.h>

#include "lib/accountants/pld/bin_classes.h"
#include "lib/accountants/pld/bin_curves.h"
#include "lib/accountants/pld/parts.h"
#include "lib/accountants/pld/shared_bins.h"
#include "lib/base/error.h"
#include "lib/sampling/scheme.h"
#include "lib/strategy/merged.h"

enum { EPOCH_CLASSES_MAX = 8, EPOCH_CLASSES_KEPT = 32 };

#define SMALL 0.01 /* of the largest norm: a smaller one would need a grid too fine for the others */

/* Epochs whose column norms are in [lower, upper], or at most that. */
struct epoch_class {
    double lower, upper;
    size_t epochs;
};

struct epoch_classes {
    struct epoch_class items[EPOCH_CLASSES_KEPT + 1];
    size_t len;
    bool even;             /* the norms within each epoch, and within each class, are equal */
    double largest, total; /* the largest norm; the root of the sum of all epochs' squared norms, rounded up */
    double small;          /* the same of the epochs whose norm is less than SMALL of the largest one */
};

/* ------------------------------------------------------------ the epochs */

static size_t bins_of(const struct eps__setting *setting)
{
    return eps__sampling_bins(&setting->job->mechanism);
}

static size_t epochs_of(const struct eps__setting *setting)
{
    return setting->job->mechanism.n / bins_of(setting);
}

static bool same(const struct eps__setting *setting, double lower, double upper)
{
    return lower >= upper * (1 - EPS__SAME_NORM * setting->job->query.accountant.tolerance);
}

/* The largest norm of an epoch, from both sides; if all norms are the same, `lower` is below all of them (A23). */
static struct epoch_class epoch_from(const struct eps__setting *setting, struct epoch_classes *classes, size_t first)
{
    double least = INFINITY;
    struct epoch_class epoch = {.epochs = 1};
    for (size_t j = first; j < first + bins_of(setting); j++) {
        double lower = eps__strategy_column_norm_lower(setting->strategy, j);
        least = fmin(least, lower);
        epoch.lower = fmax(epoch.lower, lower);
        epoch.upper = fmax(epoch.upper, eps__strategy_column_norm(setting->strategy, j));
    }
    if (same(setting, least, epoch.upper))
        epoch.lower = least;
    else
        classes->even = false;
    return epoch;
}

/* Adds an epoch to the class of its norm, or as a new one. */
static void add_epoch(const struct eps__setting *setting, struct epoch_classes *classes, struct epoch_class epoch)
{
    for (size_t i = 0; i < classes->len; i++) {
        struct epoch_class *class = &classes->items[i];
        double low = fmin(class->lower, epoch.lower), high = fmax(class->upper, epoch.upper);
        if (same(setting, low, high)) {
            *class = (struct epoch_class){low, high, class->epochs + 1};
            return;
        }
    }
    classes->items[classes->len++] = epoch;
}

/* Takes classes together until there are at most `most`: those two of which one's norms grow the least to be the
 * other's, in squares and over all its epochs. */
static void take_together(struct epoch_classes *classes, size_t most)
{
    while (classes->len > most) {
        struct epoch_class *less = NULL, *more = NULL;
        double least = INFINITY;
        for (size_t i = 0; i < classes->len; i++)
            for (size_t j = 0; j < classes->len; j++) {
                struct epoch_class *small = &classes->items[i], *large = &classes->items[j];
                double ratio = small->upper / classes->largest, to = large->upper / classes->largest;
                double grown = (double)small->epochs * (to - ratio) * (to + ratio);
                if (i != j && to >= ratio && (!less || grown < least)) {
                    least = grown;
                    less = small;
                    more = large;
                }
            }
        *more = (struct epoch_class){fmax(less->lower, more->lower), fmax(less->upper, more->upper),
                                     less->epochs + more->epochs};
        *less = classes->items[--classes->len];
        classes->even = false;
    }
}

/* Sorts the epochs into classes by their largest norms (A23). Every column is counted in exactly one epoch. */
static void find_epoch_classes(const struct eps__setting *setting, struct epoch_classes *classes)
{
    size_t n = setting->job->mechanism.n, bins = bins_of(setting), counted = 0;
    double squares = 0, small = SMALL * eps__strategy_largest_norm(setting->strategy);
    assert(bins > 0 && n % bins == 0);
    *classes = (struct epoch_classes){.even = true};
    for (size_t first = 0; first < n; first += bins, counted++) {
        struct epoch_class epoch = epoch_from(setting, classes, first);
        classes->largest = fmax(classes->largest, epoch.upper);
        squares += epoch.upper * epoch.upper;
        if (epoch.upper >= small && epoch.upper > 0) {
            add_epoch(setting, classes, epoch);
            take_together(classes, EPOCH_CLASSES_KEPT);
        } else if (epoch.upper > 0) { /* else it shows nothing */
            classes->small += epoch.upper * epoch.upper;
            classes->even = false;
        }
    }
    assert(counted == epochs_of(setting));
    take_together(classes, EPOCH_CLASSES_MAX);
    classes->total = eps__raise(sqrt(squares), (double)counted + 8);
    if (classes->small > 0)
        classes->small = eps__raise(sqrt(classes->small), (double)counted + 8);
}

/* ------------------------------------------------------------ the accountant */

bool eps__pld_redraws(const struct eps__setting *setting)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    return mechanism->sampling.redraw && bins_of(setting) > 1 && mechanism->n > bins_of(setting);
}

bool eps__pld_redraw_exact(const struct eps__setting *setting)
{
    struct epoch_classes classes;
    if (!eps__strategy_is_diagonal(setting->strategy))
        return false;
    find_epoch_classes(setting, &classes);
    return classes.even;
}

bool eps__pld_redraw_serves(const struct eps__setting *setting, struct eps_error *error)
{
    double operations;
    if (eps__strategy_is_diagonal(setting->strategy))
        return true;
    if (!eps__merged_repeats(setting->strategy, bins_of(setting)))
        return eps__decline(error, "/sampling/redraw",
                            "pld with redraw needs a strategy no row of which spans two epochs, such as identity or "
                            "stamps that divide the bins");
    if (!eps__strategy_nonnegative(setting->strategy))
        return eps__decline(error, "/matrix",
                            "amplification by pld under balls in bins needs a strategy whose entries are all >= 0");
    if (!eps__strategy_lower_triangular(setting->strategy))
        return eps__decline(error, "/matrix", "pld under balls in bins needs a lower-triangular strategy or a tree");
    return eps__shared_bins_serve(setting, &operations) ||
           eps__decline(error, "/sampling/bins",
                        "pld under balls in bins serves at most 4096 bins that share rows of the strategy, and not too "
                        "many rows, unless the strategy is Toeplitz: use fewer bins or bands");
}

void eps__pld_redraw_cost(const struct eps__setting *setting, double *operations, double *bytes)
{
    struct epoch_classes classes = {.len = 2};
    bool diagonal = eps__strategy_is_diagonal(setting->strategy);
    double matrix = 0, tolerance = setting->job->query.accountant.tolerance;
    double width = 1 + pow((double)bins_of(setting), 0.6) / 15;
    double searches = setting->job->query.noise_multiplier > 0 ? 1 : 5;
    if (diagonal)
        find_epoch_classes(setting, &classes);
    else
        (void)eps__shared_bins_serve(setting, &matrix);
    *operations = searches * ((double)classes.len * 2e8 * width / pow(tolerance * 1e3, 0.25) + matrix);
    *bytes = 1e8 + (diagonal ? 0 : 32 * (double)bins_of(setting) * (double)bins_of(setting));
}

double eps__pld_redraw_least_sigma(const struct eps__setting *setting)
{
    return eps__bin_curves_least_sigma(eps__strategy_largest_norm(setting->strategy));
}

/* The epochs of a diagonal strategy. Those of small norms are one Gaussian (A23). */
static void curves_of_classes(struct eps__bin_curves *curves, const struct eps__setting *setting)
{
    struct epoch_classes classes;
    find_epoch_classes(setting, &classes);
    *curves = (struct eps__bin_curves){.len = classes.len, .total = classes.total};
    for (size_t i = 0; i < classes.len; i++)
        curves->items[i] = (struct eps__bin_curve){bins_of(setting), classes.items[i].epochs, classes.items[i].lower,
                                                   classes.items[i].upper};
    double gaussian = fmax(classes.small, SMALL * classes.largest);
    if (classes.small > 0)
        curves->items[curves->len++] = (struct eps__bin_curve){1, 1, gaussian, gaussian};
}

static enum eps_status find_curves(struct eps__bin_curves *curves, const struct eps__setting *setting, double sigma)
{
    struct eps__shared_bins found;
    if (eps__strategy_is_diagonal(setting->strategy)) {
        curves_of_classes(curves, setting);
        return EPS_OK;
    }
    enum eps_status status = eps__shared_bins_find(&found, setting, sigma, epochs_of(setting), 0);
    if (status == EPS_OK)
        eps__shared_bins_curves(curves, &found, epochs_of(setting));
    return status;
}

enum eps_status eps__pld_redraw_curves(const struct eps__curve_sink *sink, const struct eps__setting *setting,
                                       enum eps_direction direction, double sigma, uint64_t count)
{
    struct eps__bin_curves curves;
    enum eps_status status = find_curves(&curves, setting, sigma);
    return status == EPS_OK ? eps__bin_curves_add(sink, setting->context, &curves, direction, sigma, count) : status;
}

enum eps_status eps__pld_redraw_open(const struct eps__setting *setting, double sigma,
                                     const struct eps__accuracy *accuracy, struct eps__profile **profile,
                                     struct eps_error *error)
{
    struct eps__bin_curves curves;
    double least = eps__pld_redraw_least_sigma(setting);
    if (sigma < eps__lower(least, 1e7))
        return eps__error(error, EPS_TOO_COSTLY, "/noise_multiplier",
                          "pld cannot resolve a noise multiplier below %.3g for this mechanism: increase it", least);
    enum eps_status status = find_curves(&curves, setting, sigma);
    return status == EPS_OK ? eps__bin_curves_open(&curves, setting->context, sigma, accuracy, profile) : status;
}
