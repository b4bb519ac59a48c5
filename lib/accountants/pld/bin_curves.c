/*
 * See bin_curves.h. The profile composes the curves (pld/known/curves.h).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/pld/bin_curves.h"

#include <math.h>
#include <stdlib.h>

#include "lib/base/limits.h"
#include "lib/numerics/bound.h"
#include "lib/numerics/normal.h"
#include "lib/pld/known/curves.h"

#define SHIFT_MAX 5.0  /* the largest norm over sigma that is resolved */
#define FAR_UNDER 10.0 /* a delta this much below the given one, in logarithms, needs no precision */

struct curves_profile {
    struct eps__profile base;
    struct eps__curves *directions[EPS_DIRECTIONS];
    double shift;     /* of the Gaussian mechanism in which the bins are known, over all epochs; rounded up */
    double log_floor; /* where that Gaussian's delta is below it, nothing is composed */
};

double eps__bin_curves_least_sigma(double largest)
{
    return largest / SHIFT_MAX;
}

/* ------------------------------------------------------------ the profile */

static struct eps__curves *of(const struct eps__profile *profile, enum eps_direction direction)
{
    return ((const struct curves_profile *)profile)->directions[direction];
}

/* The Gaussian mechanism in which the bins are known is another upper bound: the hockey-stick divergence is jointly
 * convex (A23). */
static double log_gaussian(const struct curves_profile *made, enum eps__estimate estimate, double eps)
{
    double off, value = eps__gaussian_log_delta(made->shift, eps, &off);
    return eps__certain(estimate, fmin(eps__shift(estimate, value, off), 0));
}

/* The lower estimate is that of the least of the two bounds. */
static enum eps_status log_delta(struct eps__profile *profile, enum eps_direction direction,
                                 enum eps__estimate estimate, double eps, double *out, struct eps_error *error)
{
    const struct curves_profile *made = (const struct curves_profile *)profile;
    double gaussian = log_gaussian(made, EPS__UPPER, eps);
    (void)error;
    if (gaussian < made->log_floor) {
        *out = estimate == EPS__UPPER ? gaussian : -INFINITY;
        return EPS_OK;
    }
    enum eps_status status = eps__curves_log_delta(of(profile, direction), estimate, eps, out);
    if (status == EPS_OK)
        *out = fmin(eps__certain(estimate, *out), log_gaussian(made, estimate, eps));
    return status;
}

static enum eps_status approximate(struct eps__profile *profile, enum eps_direction direction, double eps, double *out)
{
    const struct curves_profile *made = (const struct curves_profile *)profile;
    double gaussian = log_gaussian(made, EPS__UPPER, eps), composed = gaussian;
    enum eps_status status =
        gaussian < made->log_floor ? EPS_OK : eps__curves_approximate(of(profile, direction), eps, &composed);
    if (status == EPS_OK)
        *out = fmin(composed, gaussian);
    return status;
}

static enum eps_status guess(struct eps__profile *profile, enum eps_direction direction, double log_delta_wanted,
                             double *eps)
{
    *eps = 0;
    if (log_gaussian((const struct curves_profile *)profile, EPS__UPPER, 0) <= log_delta_wanted)
        return EPS_OK;
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

/* ------------------------------------------------------------ the curves */

enum eps_status eps__bin_curves_add(const struct eps__curve_sink *sink, const struct eps_context *context,
                                    const struct eps__bin_curves *curves, enum eps_direction direction, double sigma,
                                    uint64_t count)
{
    enum eps_status status = EPS_OK;
    for (size_t i = 0; i < curves->len && status == EPS_OK; i++) {
        const struct eps__bin_curve *item = &curves->items[i];
        struct eps__curve *curve = eps__curve_balls_in_bins(
            context, direction, item->bins, eps__lower(item->lower / sigma, 4), eps__raise(item->upper / sigma, 4));
        status = sink->add(sink->to, curve, item->count * count);
    }
    return status;
}

static enum eps_status take_curve(void *curves, struct eps__curve *curve, uint64_t count)
{
    return eps__curves_add(curves, curve, count);
}

enum eps_status eps__bin_curves_open(const struct eps__bin_curves *curves, const struct eps_context *context,
                                     double sigma, const struct eps__accuracy *accuracy, struct eps__profile **profile)
{
    struct curves_profile *made = calloc(1, sizeof *made);
    if (!made)
        return EPS_NO_MEMORY;
    made->base.class = &profile_class;
    made->shift = eps__raise(curves->total / sigma, 4);
    made->log_floor =
        isnan(accuracy->log_delta) ? EPS__LOG_DELTA_FLOOR : fmax(accuracy->log_delta - FAR_UNDER, EPS__LOG_DELTA_FLOOR);
    enum eps_status status = EPS_OK;
    for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS && status == EPS_OK; direction++) {
        status = eps__curves_create(&made->directions[direction], context, accuracy);
        const struct eps__curve_sink sink = {made->directions[direction], take_curve};
        if (status == EPS_OK)
            status = eps__bin_curves_add(&sink, context, curves, direction, sigma, 1);
    }
    if (status != EPS_OK) {
        destroy(&made->base);
        return status;
    }
    *profile = &made->base;
    return EPS_OK;
}
