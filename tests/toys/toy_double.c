/*
 * An accountant for tests/check_toys.py: that of the Gaussian mechanism, but it claims toy_times the epsilon, twice
 * by default.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdlib.h>

#include "lib/accountants/accountant.h"
#include "lib/base/error.h"
#include "lib/numerics/normal.h"

struct toy {
    struct eps__profile base;
    double mu, times;
};

static enum eps_status log_delta(struct eps__profile *profile, enum eps_direction direction,
                                 enum eps__estimate estimate, double eps, double *out, struct eps_error *error)
{
    const struct toy *toy = (struct toy *)profile;
    double rounding, value = eps__gaussian_log_delta(toy->mu, eps / toy->times, &rounding);
    (void)direction;
    (void)error;
    *out = fmin(value + (estimate == EPS__UPPER ? rounding : -rounding), 0);
    return EPS_OK;
}

static enum eps_status approximate(struct eps__profile *profile, enum eps_direction direction, double eps, double *out)
{
    return log_delta(profile, direction, EPS__UPPER, eps, out, NULL);
}

static enum eps_status guess(struct eps__profile *profile, enum eps_direction direction, double log_delta_wanted,
                             double *eps)
{
    double mu = ((struct toy *)profile)->mu, times = ((struct toy *)profile)->times;
    (void)direction;
    *eps = times * fmax(mu * (0.5 * mu + eps__normal_tail_quantile(fmin(log_delta_wanted, -1e-9))), 0);
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
    return setting->sensitivity_known || eps__decline(error, "/matrix", "the toy needs a sensitivity");
}

static bool exact(const struct eps__setting *setting)
{
    (void)setting;
    return false;
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
    struct toy *toy = malloc(sizeof *toy);
    if (!toy)
        return eps__error(error, EPS_NO_MEMORY, "", "out of memory");
    *toy = (struct toy){{&profile_class}, setting->sensitivity.value / sigma, setting->job->query.accountant.toy_times};
    *profile = &toy->base;
    return EPS_OK;
}

static double least_sigma(const struct eps__setting *setting)
{
    (void)setting;
    return 1e-9;
}

const struct eps__accountant eps__accountant_toy_double = {
    .method = EPS_ACCOUNTANT_TOY_DOUBLE,
    .name = "toy_double",
    .serves = serves,
    .exact = exact,
    .cost = cost,
    .open = open_profile,
    .least_sigma = least_sigma,
};
