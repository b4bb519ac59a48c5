/*
 * See poisson.h.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/monte_carlo/laws/poisson.h"

#include "lib/accountants/monte_carlo/laws/poisson_rounds.h"
#include "lib/base/error.h"
#include "lib/sampling/sampling.h"

static bool tree(const struct eps__setting *setting)
{
    return eps__strategy_blocks(setting->strategy).shape == EPS__SHAPE_TREE;
}

/* The law for the shape of the strategy. exact: losses have to be exact if they can be. */
static const struct eps__mc_law_class *shape_of(const struct eps__setting *setting, bool exact)
{
    size_t memory = eps__mc_poisson_memory(setting);
    size_t rounds = (setting->job->mechanism.n - 1) / eps__sampling_groups(&setting->job->mechanism) + 1;
    if (tree(setting))
        return &eps__mc_poisson_tree;
    if (memory > EPS__MC_POISSON_MEMORY_MAX)
        return &eps__mc_poisson_few;
    return !exact && memory >= EPS__MC_POISSON_MEMORY_FEW && eps__mc_poisson_few_suits(rounds, memory, setting->p)
               ? &eps__mc_poisson_few
               : &eps__mc_poisson_banded;
}

static bool concerns(const struct eps_mechanism *mechanism)
{
    return eps__sampling_independent_rounds(mechanism);
}

/* The conditions on sampling that hold for every strategy. */
static bool serves_sampling(const struct eps_sampling *sampling, struct eps_error *error)
{
    if (sampling->truncation)
        return eps__decline(error, "/sampling/truncation",
                            "monte_carlo does not serve truncated batches; leave truncation out");
    if (sampling->examples_per_user > 1)
        return eps__decline(error, "/sampling/examples_per_user",
                            "monte_carlo serves one example per user under poisson and cyclic_poisson; use b_min_sep "
                            "for more");
    if (sampling->last_iterate)
        return eps__decline(error, "/sampling/last_iterate", "monte_carlo accounts for every iterate; use pld");
    return true;
}

static bool serves(const struct eps__setting *setting, struct eps_error *error)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    struct eps__blocks blocks = eps__strategy_blocks(setting->strategy);
    if (!serves_sampling(&mechanism->sampling, error))
        return false;
    if (!eps__strategy_lower_triangular(setting->strategy))
        return eps__decline(error, "/matrix",
                            "monte_carlo needs a lower-triangular strategy under poisson and cyclic_poisson");
    if (tree(setting))
        return eps__sampling_parts(mechanism) == 1 ||
               eps__decline(error, "/matrix", "monte_carlo serves trees under poisson, not under cyclic_poisson");
    /* A35 */
    if (eps__sampling_parts(mechanism) > 1 && (blocks.shape != EPS__SHAPE_TOEPLITZ || blocks.stamps > 1))
        return eps__decline(
            error, "/matrix",
            "under cyclic_poisson monte_carlo needs a Toeplitz strategy without stamps, where the first "
            "part of the data set is the worst; use mmcc or pld");
    return shape_of(setting, true) != &eps__mc_poisson_few || eps__mc_poisson_few_serves(setting, error);
}

static bool exact(const struct eps__setting *setting)
{
    return shape_of(setting, true)->exact(setting);
}

static void cost(const struct eps__setting *setting, double *operations, double *bytes)
{
    shape_of(setting, setting->job->query.accountant.audit > 0)->cost(setting, operations, bytes);
}

static enum eps_status open_law(struct eps__mc_law **law, const struct eps__setting *setting,
                                const struct eps__mc_aim *aim)
{
    return shape_of(setting, aim->exact)->open(law, setting, aim);
}

/* The class of an opened law is that of its shape. */
static void destroy(struct eps__mc_law *law)
{
    law->class->destroy(law);
}

const struct eps__mc_law_class eps__mc_poisson = {
    .concerns = concerns, .serves = serves, .exact = exact, .cost = cost, .open = open_law, .destroy = destroy};
