/*
 * What the laws of Poisson sampling share, independent of the kind of strategy.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/renyi/poisson.h"

#include <math.h>

#include "lib/base/error.h"
#include "lib/sampling/scheme.h"

#define NEVER_UNIT 0x1p30 /* the probability of no participation is a multiple of 1/NEVER_UNIT: 1 minus it is exact */

bool eps__poisson_concerns(const struct eps__setting *setting, bool tree)
{
    return eps__sampling_independent_rounds(&setting->job->mechanism) &&
           (eps__strategy_blocks(setting->strategy).shape == EPS__SHAPE_TREE) == tree;
}

bool eps__poisson_serves(const struct eps__setting *setting, struct eps_error *error)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    const struct eps_sampling *sampling = &mechanism->sampling;
    if (sampling->truncation)
        return eps__decline(
            error, "/sampling/truncation",
            "renyi does not serve truncated batches under poisson and cyclic_poisson: remove truncation");
    if (sampling->examples_per_user > 1)
        return eps__decline(error, "/sampling/examples_per_user",
                            "renyi under poisson serves one example per user: set examples_per_user to 1");
    if (sampling->last_iterate)
        return eps__decline(error, "/sampling/last_iterate",
                            "renyi accounts for the release of every iterate: use pld for last_iterate");
    if (setting->job->query.accountant.bandwidth > 0)
        return eps__decline(error, "/accountant/bandwidth",
                            "renyi uses all bands under poisson and cyclic_poisson: remove bandwidth");
    return true;
}

struct eps__interval eps__poisson_divergence(double n, double p, double q)
{
    double less = q * log(p / q), more = (1 - q) * log1p((p - q) / (1 - p));
    double error = 8 * EPS__UNIT_ROUNDOFF * n * (less + q + more);
    return (struct eps__interval){fmax(eps__shift(EPS__LOWER, n * (more - less), error), 0),
                                  fmax(eps__shift(EPS__UPPER, n * (more - less), error), 0)};
}

/*
 * The geometric mean with probability q in place of p (A18): m = E_q |C x|^2/(2 sigma^2) + n KL and a = E_q C x. It is
 * stored as one bin with trace 2 m = q (1 - q) tr G + q^2 sum G + 2 n KL and total q^2 sum G.
 */
static struct eps__geometric tilted(size_t len, double p, struct eps__interval own, struct eps__interval all, double q)
{
    double square = q * q, alone = q * (1 - q);
    struct eps__interval kl = {0, 0};
    if (q < p)
        kl = eps__poisson_divergence((double)len, p, q);
    return (struct eps__geometric){.len = 1,
                                   .trace = {eps__lower(alone * own.lower + square * all.lower + 2 * kl.lower, 12),
                                             eps__raise(alone * own.upper + square * all.upper + 2 * kl.upper, 12)},
                                   .total = {eps__lower(square * all.lower, 8), eps__raise(square * all.upper, 8)}};
}

double eps__poisson_never(double n, double p)
{
    double exponent = n * log1p(-p);
    double never = eps__exp_bound(EPS__LOWER, exponent, 4 * EPS__UNIT_ROUNDOFF * fmin(-exponent, 1e4));
    return fmin(floor(never * NEVER_UNIT) / NEVER_UNIT, 1 - 1 / NEVER_UNIT);
}

double eps__poisson_geometric_p(double p, size_t index)
{
    return index == 0 ? p : p * (double)index / EPS__GEOMETRICS_MAX;
}

void eps__poisson_geometrics(struct eps__renyi_law *law, size_t len, double p, struct eps__interval own,
                             struct eps__interval all)
{
    law->geometrics[0] = tilted(len, p, own, all, p);
    law->geometrics[0].empty = eps__poisson_never((double)len, p);
    law->geometrics_len = 1;
    for (size_t k = 1; k < EPS__GEOMETRICS_MAX && p < 1; k++)
        law->geometrics[law->geometrics_len++] = tilted(len, p, own, all, eps__poisson_geometric_p(p, k));
}
