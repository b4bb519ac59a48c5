/*
 * The accountant of quadrature: balls in a few bins, for any strategy without negative entries. P is a mixture of as
 * many Gaussians as there are bins, so delta is an integral in as many dimensions. Along the sum of the means it has a
 * closed form; over the others, upper and lower sums enclose it (A52). So the answer is exact but for its bracket.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "lib/accountants/accountant.h"
#include "lib/accountants/merged_bins.h"
#include "lib/accountants/quadrature/integral.h"
#include "lib/base/error.h"
#include "lib/sampling/pairs.h"
#include "lib/sampling/scheme.h"

#define FIRST_LOG_DELTA (-14.0) /* the delta for which grids are made if it is not known */
#define LEFT_OUT (-10.0)        /* ln of the share of delta that may be left out */
#define TOO_MUCH 1e-3           /* a share that may not */
#define SHARE_MOST (-690.0)     /* of ln of what is left out: less cannot be represented */
#define FINEST 1e-3             /* the least width of a cell */
#define FARTHEST 50.0           /* the largest distance of a point, in units of sigma */
#define ROUGHLY 1.2             /* that of an approximation */
#define ROUGH_MOST 3e4          /* and its most cells */

/* By dimensions of the grid: the width of a cell in the units of bin_grid_make() with which a profile begins, for a
 * tolerance of 1e-3, and the most cells. */
static const double widths[] = {1, 0.02, 0.15, 0.5}, cells_most[] = {1, 1e5, 3e5, 4e5};

/* One direction, thread-compatible. */
struct side {
    double width, log_outside;
    struct eps__bin_grid grid, rough; /* made when they are first used */
    bool made, rough_made;
};

struct quadrature {
    struct eps__profile base;
    const struct eps__setting *setting;
    struct eps__bin_points upper, lower;
    bool lower_known;
    struct side sides[EPS_DIRECTIONS];
};

static size_t axes_of(const struct eps__setting *setting)
{
    return eps__sampling_bins(&setting->job->mechanism) - 1;
}

/* ------------------------------------------------------------ the profile */

static void forget(struct side *side)
{
    if (side->made)
        eps__bin_grid_clear(&side->grid);
    if (side->rough_made)
        eps__bin_grid_clear(&side->rough);
    side->made = side->rough_made = false;
}

static enum eps_status make_grids(struct quadrature *quadrature, enum eps_direction direction)
{
    struct side *side = &quadrature->sides[direction];
    const struct eps__bin_points *points = &quadrature->upper;
    if (!side->made)
        side->made = eps__bin_grid_make(&side->grid, points, direction, side->log_outside, side->width,
                                        cells_most[points->axes]);
    if (side->made && !side->rough_made)
        side->rough_made = eps__bin_grid_make(&side->rough, points, direction, side->log_outside, ROUGHLY, ROUGH_MOST);
    return side->made && side->rough_made ? EPS_OK : EPS_NO_MEMORY;
}

/* A bound on ln delta(eps), or an approximation of it. */
static enum eps_status integrate(struct quadrature *quadrature, enum eps_direction direction,
                                 enum eps__estimate estimate, double eps, bool roughly, double *log_delta)
{
    const struct eps__setting *setting = quadrature->setting;
    struct side *side = &quadrature->sides[direction];
    struct eps__work work = {.context = setting->context};
    bool upper = estimate == EPS__UPPER;
    enum eps_status status = make_grids(quadrature, direction);
    if (status != EPS_OK)
        return status;
    const struct eps__bin_grid *grid = roughly ? &side->rough : &side->grid;
    double value =
        eps__bin_integral(upper ? &quadrature->upper : &quadrature->lower, grid, direction, estimate, eps, &work);
    if (!roughly)
        eps__meter_add(setting->meter, eps__bin_grid_cells(grid));
    *log_delta = value > 0 ? fmin(eps__log_bound(estimate, value, 4), 0) : -INFINITY;
    return work.status;
}

/* Whether the grid leaves out too much of this delta. Then it makes a new one, which leaves out less. */
static bool reach_further(struct side *side, double log_delta)
{
    bool too_little = log_delta + log(TOO_MUCH) < side->log_outside && side->log_outside > SHARE_MOST;
    if (too_little) {
        side->log_outside = fmax(fmin(log_delta, side->log_outside) + LEFT_OUT, SHARE_MOST);
        forget(side);
    }
    return too_little;
}

static enum eps_status log_delta(struct eps__profile *profile, enum eps_direction direction,
                                 enum eps__estimate estimate, double eps, double *out, struct eps_error *error)
{
    struct quadrature *quadrature = (struct quadrature *)profile;
    *out = estimate == EPS__UPPER ? 0 : -INFINITY;
    if (estimate == EPS__LOWER && !quadrature->lower_known)
        return EPS_OK;
    enum eps_status status;
    do {
        status = integrate(quadrature, direction, estimate, eps, false, out);
    } while (status == EPS_OK && estimate == EPS__UPPER && reach_further(&quadrature->sides[direction], *out));
    return status == EPS_NO_MEMORY ? eps__error(error, status, "", "out of memory") : status;
}

/* From both bounds on a coarse grid: the upper one is off by twice as much as the lower one. */
static enum eps_status approximate(struct eps__profile *profile, enum eps_direction direction, double eps, double *out)
{
    struct quadrature *quadrature = (struct quadrature *)profile;
    double upper, lower;
    enum eps_status status;
    do {
        status = integrate(quadrature, direction, EPS__UPPER, eps, true, &upper);
    } while (status == EPS_OK && reach_further(&quadrature->sides[direction], upper));
    *out = upper;
    if (status == EPS_OK && quadrature->lower_known)
        status = integrate(quadrature, direction, EPS__LOWER, eps, true, &lower);
    if (status == EPS_OK && quadrature->lower_known)
        *out = log((exp(upper) + 2 * exp(lower)) / 3);
    return status;
}

static bool refine(struct eps__profile *profile, enum eps_direction direction, double factor)
{
    struct quadrature *quadrature = (struct quadrature *)profile;
    struct side *side = &quadrature->sides[direction];
    size_t axes = quadrature->upper.axes;
    if (axes == 0 || (factor > 1 && (side->width <= FINEST ||
                                     (side->made && eps__bin_grid_cells(&side->grid) >= 0.9 * cells_most[axes]))))
        return false;
    side->width = fmax(side->width / factor, FINEST);
    forget(side);
    return true;
}

static void destroy(struct eps__profile *profile)
{
    struct quadrature *quadrature = (struct quadrature *)profile;
    for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++)
        forget(&quadrature->sides[direction]);
    free(quadrature);
}

static const struct eps__profile_class profile_class = {.log_delta = log_delta,
                                                        .approximate = approximate,
                                                        .guess = eps__profile_guess,
                                                        .refine = refine,
                                                        .destroy = destroy};

/* ------------------------------------------------------------ the accountant */

static double least_sigma(const struct eps__setting *setting)
{
    return setting->sensitivity.value / FARTHEST;
}

static bool serves(const struct eps__setting *setting, struct eps_error *error)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    size_t bins = eps__sampling_bins(mechanism);
    if (bins == 0)
        return eps__scheme_decline(error, "quadrature", eps__scheme_bins);
    if (bins > EPS__BIN_POINTS_MOST)
        return eps__decline(error, "/sampling/bins", "quadrature serves at most 4 bins: use fewer bins or renyi");
    if (mechanism->sampling.redraw && mechanism->n > bins)
        return eps__decline(error, "/sampling/redraw",
                            "quadrature serves one bin for all epochs: remove redraw or use renyi");
    if (!eps__adjacency_known(error, "quadrature", EPS__AGAINST_NOISE, mechanism->adjacency))
        return false;
    if (!eps__strategy_nonnegative(setting->strategy))
        return eps__decline(error, "/matrix",
                            "amplification by quadrature needs a strategy whose entries are all >= 0");
    if (!eps__strategy_lower_triangular(setting->strategy))
        return eps__decline(error, "/matrix", "quadrature needs a lower-triangular strategy or a tree");
    if (setting->job->query.noise_multiplier > 0 && setting->job->query.noise_multiplier < least_sigma(setting))
        return eps__decline(error, "/noise_multiplier",
                            "quadrature needs a noise multiplier of at least 1/50 of the sensitivity: raise it");
    return true;
}

static bool exact(const struct eps__setting *setting)
{
    (void)setting;
    return false;
}

/* Contributions along one vector attain the pair, and the points of the lower end are dominated by it (A49). */
static bool attained(const struct eps__setting *setting)
{
    return !setting->raised;
}

/* The bracket is narrow whatever the noise if the grid has up to two dimensions. */
static bool tight(const struct eps__setting *setting)
{
    return axes_of(setting) <= 2;
}

/* The width of the cells with which a profile begins. */
static double first_width(size_t axes, double tolerance)
{
    return fmax(widths[axes] * sqrt(tolerance / 1e-3), FINEST);
}

/* The cells of the grids with which a profile at this noise multiplier begins; as many as a grid may have if that is
 * not known. */
static double first_cells(const struct eps__setting *setting, double sigma, double log_delta)
{
    size_t axes = axes_of(setting);
    double width = first_width(axes, setting->job->query.accountant.tolerance), cells = 0;
    struct eps__bin_gram bins;
    struct eps__bin_points points;
    if (eps__merged_bins(&bins, setting, sigma, 1) != EPS_OK)
        return EPS_DIRECTIONS * cells_most[axes];
    bool placed = eps__bin_points_make(&points, &bins, EPS__UPPER);
    eps__bin_gram_clear(&bins);
    for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++) {
        struct eps__bin_grid grid;
        if (!placed ||
            !eps__bin_grid_make(&grid, &points, direction, log_delta + LEFT_OUT, width, cells_most[points.axes]))
            return EPS_DIRECTIONS * cells_most[axes];
        cells += eps__bin_grid_cells(&grid);
        eps__bin_grid_clear(&grid);
    }
    return cells;
}

static void cost(const struct eps__setting *setting, double *operations, double *bytes)
{
    /* By dimensions of the grid, as measured (tests/bench/bench_costs.c): operations for each of its cells if epsilon
     * is unknown, and if it is given. */
    static const double unknown[] = {0, 1.8e4, 1.1e4, 1.9e5}, given[] = {0, 5.5e3, 1.1e3, 3.3e4};
    const struct eps_query *query = &setting->job->query;
    size_t axes = axes_of(setting);
    double n = (double)setting->job->mechanism.n, sigma = query->noise_multiplier;
    double bands = fmin((double)eps_strategy_bands(setting->strategy), n);
    double log_delta = query->delta > 0 ? fmax(log(query->delta), SHARE_MOST - LEFT_OUT) : FIRST_LOG_DELTA;
    if (isnan(sigma)) /* about that of the unamplified Gaussian, without what sampling saves */
        sigma = fmax(setting->sensitivity.value * sqrt(2 * (query->epsilon - log_delta)) / (1.4 * query->epsilon),
                     least_sigma(setting));
    double cells = first_cells(setting, sigma, log_delta);
    *operations = 1e5 + (isnan(query->epsilon) ? unknown : given)[axes] * cells + 8 * n * bands;
    *bytes = 1e6 + 8 * 64 * cells_most[1];
}

static enum eps_status open_profile(const struct eps__setting *setting, double sigma,
                                    const struct eps__accuracy *accuracy, struct eps__profile **profile,
                                    struct eps_error *error)
{
    if (sigma < eps__lower(least_sigma(setting), 1e7)) /* points lie within the largest grid */
        return eps__error(error, EPS_TOO_COSTLY, "/noise_multiplier",
                          "quadrature cannot resolve a noise multiplier below %.3g for this mechanism: increase it",
                          least_sigma(setting));
    struct quadrature *quadrature = calloc(1, sizeof *quadrature);
    struct eps__bin_gram bins;
    if (!quadrature)
        return eps__error(error, EPS_NO_MEMORY, "", "out of memory");
    enum eps_status status = eps__merged_bins(&bins, setting, sigma, 1);
    if (status != EPS_OK) {
        free(quadrature);
        return eps__error(error, status, "", "%s", status == EPS_NO_MEMORY ? "out of memory" : "canceled");
    }
    quadrature->base.class = &profile_class;
    quadrature->setting = setting;
    bool made = eps__bin_points_make(&quadrature->upper, &bins, EPS__UPPER);
    quadrature->lower_known = eps__bin_points_make(&quadrature->lower, &bins, EPS__LOWER);
    eps__bin_gram_clear(&bins);
    if (!made) {
        free(quadrature);
        return eps__error(error, EPS_UNSUPPORTED, "/accountant/method",
                          "quadrature cannot place these bins because of rounding errors; use renyi");
    }
    size_t axes = quadrature->upper.axes;
    double known = isnan(accuracy->log_delta) ? FIRST_LOG_DELTA : accuracy->log_delta;
    for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++)
        quadrature->sides[direction] = (struct side){.width = first_width(axes, accuracy->tolerance),
                                                     .log_outside = fmax(fmin(known, 0) + LEFT_OUT, SHARE_MOST)};
    *profile = &quadrature->base;
    return EPS_OK;
}

const struct eps__accountant eps__accountant_quadrature = {
    .method = EPS_ACCOUNTANT_QUADRATURE,
    .name = "quadrature",
    .curves = true,
    .amplifies = true,
    .composes = true,
    .narrow = true,
    .assume = eps__assume_causal_order,
    .serves = serves,
    .exact = exact,
    .attained = attained,
    .tight = tight,
    .cost = cost,
    .open = open_profile,
    .least_sigma = least_sigma,
};
