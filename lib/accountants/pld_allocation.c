/*
 * Random allocation with a diagonal strategy: what an example adds to the batches of the one bin it is in, in all epochs, is a
 * vector m_i, and those of different bins are orthogonal. Only their norms matter then, so that k epochs of the identity are one
 * epoch at sigma/sqrt(k), and the law of P/Q is known (pld/allocation.h). A bin drawn anew in every epoch is the same thing
 * where there is one epoch or one bin; else see pld_redrawn.c.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/pld_allocation.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "lib/accountants/pld_redrawn.h"
#include "lib/error.h"
#include "lib/pld/allocation.h"
#include "lib/sampling/pairs.h"
#include "lib/sampling/scheme.h"

#define SHIFT_MAX 20.0 /* a sigma under norm / 20 is out of reach */
#define SAME_NORM 1e-3 /* norms that differ by more than this, relative to the tolerance, are not taken for one */

struct allocation_profile {
    struct eps__profile base;
    struct eps__allocation *directions[EPS_DIRECTIONS];
};

/* ------------------------------------------------------------ the profile */

static struct eps__allocation *of(const struct eps__profile *profile, enum eps_direction direction)
{
    return ((const struct allocation_profile *)profile)->directions[direction];
}

static enum eps_status log_delta(struct eps__profile *profile, enum eps_direction direction,
                                 enum eps__estimate estimate, double eps, double *out, struct eps_error *error)
{
    (void)error;
    return eps__allocation_log_delta(of(profile, direction), estimate, eps, out);
}

static enum eps_status approximate(struct eps__profile *profile, enum eps_direction direction, double eps, double *out)
{
    *out = eps__allocation_approximate(of(profile, direction), eps);
    return EPS_OK;
}

static enum eps_status guess(struct eps__profile *profile, enum eps_direction direction, double log_delta_wanted,
                             double *eps)
{
    *eps = eps__allocation_guess(of(profile, direction), log_delta_wanted);
    return EPS_OK;
}

static bool refine(struct eps__profile *profile, enum eps_direction direction, double factor)
{
    return eps__allocation_refine(of(profile, direction), factor);
}

static void destroy(struct eps__profile *profile)
{
    for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++)
        eps__allocation_destroy(of(profile, direction));
    free(profile);
}

static const struct eps__profile_class profile_class = {
    .log_delta = log_delta, .approximate = approximate, .guess = guess, .refine = refine, .destroy = destroy};

/* ------------------------------------------------------------ the norms */

static size_t bins_of(const struct eps__setting *setting)
{
    return eps__sampling_bins(&setting->job->mechanism);
}

/* The norms of the bins lie between *lower and *upper (L30). Every column is counted in one bin. */
static void bin_norms(const struct eps__setting *setting, double *lower, double *upper)
{
    size_t n = setting->job->mechanism.n, bins = bins_of(setting), counted = 0;
    *lower = INFINITY;
    *upper = 0;
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
        double units = (double)epochs + 8;
        *lower = fmin(*lower, eps__lower(sqrt(least), units));
        *upper = fmax(*upper, eps__raise(sqrt(most), units));
    }
    assert(counted == n);
}

/* ------------------------------------------------------------ the accountant */

bool eps__pld_allocates(const struct eps__setting *setting)
{
    return bins_of(setting) > 0;
}

bool eps__pld_allocation_serves(const struct eps__setting *setting, struct eps_error *error)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    double lower, upper;
    if (!eps__adjacency_known(error, "pld", EPS__AGAINST_NOISE, mechanism->adjacency))
        return false;
    if (eps__pld_redraws(setting))
        return eps__pld_redrawn_serves(setting, error);
    if (!eps__strategy_is_diagonal(setting->strategy))
        return eps__decline(error, "/matrix",
                            "pld under balls in bins needs a strategy with one band, such as identity");
    bin_norms(setting, &lower, &upper);
    return lower >= upper * (1 - SAME_NORM * setting->job->query.accountant.tolerance) ||
           eps__decline(error, "/matrix", "pld under balls in bins needs all bins' columns to have one norm");
}

void eps__pld_allocation_cost(const struct eps__setting *setting, double *operations, double *bytes)
{
    if (eps__pld_redraws(setting)) {
        eps__pld_redrawn_cost(setting, operations, bytes);
        return;
    }
    double tolerance = setting->job->query.accountant.tolerance, width = 1 + sqrt((double)bins_of(setting)) / 30;
    double searches = setting->job->query.noise_multiplier > 0 ? 4 : 12;
    *operations = searches * 1e8 * width / sqrt(tolerance * 1e3);
    *bytes = 4e7 * width / sqrt(tolerance * 1e3);
}

double eps__pld_allocation_least_sigma(const struct eps__setting *setting)
{
    double lower, upper;
    if (eps__pld_redraws(setting))
        return eps__pld_redrawn_least_sigma(setting);
    bin_norms(setting, &lower, &upper);
    return upper / SHIFT_MAX;
}

enum eps_status eps__pld_allocation_open(const struct eps__setting *setting, double sigma,
                                         const struct eps__accuracy *accuracy, struct eps__profile **profile,
                                         struct eps_error *error)
{
    if (eps__pld_redraws(setting))
        return eps__pld_redrawn_open(setting, sigma, accuracy, profile, error);
    double lower, upper, least = eps__pld_allocation_least_sigma(setting);
    if (sigma < eps__lower(least, 1e7))
        return eps__error(error, EPS_TOO_COSTLY, "/noise_multiplier",
                          "pld does not resolve a noise multiplier under %.3g here; raise it", least);
    struct allocation_profile *made = calloc(1, sizeof *made);
    if (!made)
        return EPS_NO_MEMORY;
    made->base.class = &profile_class;
    bin_norms(setting, &lower, &upper);
    enum eps_status status = EPS_OK;
    for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS && status == EPS_OK; direction++)
        status = eps__allocation_create(&made->directions[direction], setting->context, direction, bins_of(setting),
                                        eps__lower(lower / sigma, 4), eps__raise(upper / sigma, 4), accuracy);
    if (status != EPS_OK) {
        destroy(&made->base);
        return status;
    }
    *profile = &made->base;
    return EPS_OK;
}
