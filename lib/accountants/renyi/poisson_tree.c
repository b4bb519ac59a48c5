/*
 * The law of X for plain Poisson sampling with tree strategies. Participation patterns with far more participations
 * than expected are left out, because they would dominate the moments. Their probability is added to delta.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "lib/accountants/renyi/poisson.h"
#include "lib/base/error.h"
#include "lib/moments/laws/poisson_tree.h"

#define LONG_COST 2.5         /* the cost of an operation in long double, relative to double */
#define CERTIFIED 2e8         /* the operations that certify the polynomials of a job, as measured */
#define SECOND 1.6e7          /* the most operations in long double for E X^2 at one sigma */
#define FURTHER 1e8           /* the most for all moments in the remove direction */
#define FURTHER_ADD 1e7       /* the most for all moments in the add direction */
#define HIGHER 5e7            /* the most for higher orders */
#define RARE_SHARE 0x1p-3     /* the share of delta that is spent on rare patterns */
#define EXPONENT_MOST 10000.0 /* the largest exponent of two copies within the caps; long double holds e^11355 */

struct tree_law {
    struct eps__renyi_law base;
    const struct eps__setting *setting;
    struct eps__poisson_tree trees[EPS__LEVELS_MAX]; /* one per level; they differ in their caps */
    size_t stamps;
};

/* The probabilities of rare patterns by level, if delta is the unknown. For every delta down to 1e-12 one of them is a
 * small part of it. */
static const double rares[EPS__LEVELS_MAX] = {1e-14, 1e-9, 1e-6, 1e-3};

static bool delta_given(const struct eps__setting *setting)
{
    return setting->job->query.delta > 0 && setting->job->query.delta < 1;
}

static size_t levels_of(const struct eps__setting *setting)
{
    return delta_given(setting) ? 1 : EPS__LEVELS_MAX;
}

/* The tree of a level. Level 0 leaves out the least probability. `weight` is (scale/sigma)^2. */
static struct eps__poisson_tree tree_of(const struct eps__setting *setting, size_t level, double weight)
{
    struct eps__blocks blocks = eps__strategy_blocks(setting->strategy);
    double rare = delta_given(setting) ? fmax(RARE_SHARE * setting->job->query.delta, DBL_MIN) : rares[level];
    struct eps__poisson_tree tree;
    assert(blocks.shape == EPS__SHAPE_TREE && blocks.stamps * blocks.block == setting->job->mechanism.n);
    eps__poisson_tree_make(&tree, blocks.block, blocks.height, setting->p, weight, rare / (double)blocks.stamps);
    return tree;
}

/* The limits on operations in long double at one sigma, which keep renyi cheaper than mmcc. In the add direction few
 * moments improve on the geometric mean. */
static struct eps__tree_effort effort_of(const struct eps__setting *setting, enum eps_direction direction)
{
    double levels = (double)levels_of(setting);
    if (direction == EPS_ADD)
        return (struct eps__tree_effort){SECOND, FURTHER_ADD / levels, 0};
    return (struct eps__tree_effort){SECOND, FURTHER / levels, HIGHER / levels};
}

static bool concerns(const struct eps__setting *setting)
{
    return eps__poisson_concerns(setting, true);
}

static bool serves(const struct eps__setting *setting, struct eps_error *error)
{
    if (!eps__poisson_serves(setting, error))
        return false;
    if (eps__sampling_turns(&setting->job->mechanism))
        return eps__decline(error, "/sampling/scheme",
                            "renyi does not serve cyclic_poisson with a tree strategy: use poisson");
    struct eps__poisson_tree tree = tree_of(setting, 0, 0);
    struct eps__tree_effort effort = effort_of(setting, EPS_ADD);
    if (eps__poisson_tree_fits(&tree, &effort) < 2)
        return eps__decline(
            error, "/sampling/p",
            "renyi serves a tree strategy only if an example takes part in few steps of a tree, about 100: use a "
            "smaller p or more stamps");
    return true;
}

static void cost(const struct eps__setting *setting, double *operations, double *bytes)
{
    unsigned max_order = setting->job->query.accountant.max_order;
    double opened = setting->job->query.noise_multiplier > 0 ? 2 : 6, spent = 0; /* as measured */
    for (size_t level = 0; level < levels_of(setting); level++) {
        struct eps__poisson_tree tree = tree_of(setting, level, 0);
        for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++) {
            struct eps__tree_effort effort = effort_of(setting, direction);
            spent += eps__poisson_tree_spends(&tree, &effort, max_order, direction == EPS_REMOVE);
        }
    }
    *operations = opened * LONG_COST * spent + CERTIFIED;
    *bytes = 2 * 3e8;
}

/* E X^2 is at most e^(weight m), where m is the largest inner product of two patterns within the caps. */
static double least_sigma(const struct eps__setting *setting)
{
    struct eps__poisson_tree tree = tree_of(setting, 0, 0);
    double most = 1, sum = 0;
    for (size_t h = 0; h <= tree.height; h++) {
        double least = fmax((double)tree.full[h], (double)tree.cut[h]);
        most = fmax(most, least);
        sum += fmax(least, 1);
    }
    return eps__strategy_blocks(setting->strategy).scale * sqrt(most * sum / EXPONENT_MOST);
}

static void destroy(struct eps__renyi_law *base)
{
    free(base);
}

/* The sum over pairs of leaves of the number of tree nodes that contain both. */
static double total_of(const struct eps__poisson_tree *tree)
{
    double sum = 0;
    for (size_t h = 0; h <= tree->height; h++) {
        double width = ldexp(1, (int)h), full = (double)(tree->leaves >> h), cut = (double)tree->leaves - full * width;
        sum += full * width * width + cut * cut;
    }
    return sum;
}

static struct eps__interval times(double weight, double count)
{
    return (struct eps__interval){eps__lower(weight * count, 64), eps__raise(weight * count, 64)};
}

static enum eps_status open_law(struct eps__renyi_law **out, const struct eps__setting *setting, double sigma)
{
    struct eps__blocks blocks = eps__strategy_blocks(setting->strategy);
    struct tree_law *law = calloc(1, sizeof *law);
    if (!law)
        return EPS_NO_MEMORY;
    /* Rounding the weight up adds a Gram matrix to the exact one, so the result dominates (M20). */
    double weight = eps__raise(blocks.scale * blocks.scale / (sigma * sigma), 8), stamps = (double)blocks.stamps;
    law->base.class = &eps__renyi_poisson_tree;
    law->setting = setting;
    law->stamps = blocks.stamps;
    law->base.levels = levels_of(setting);
    for (size_t level = 0; level < law->base.levels; level++) {
        law->trees[level] = tree_of(setting, level, weight);
        law->base.rare[level] = fmin(eps__multiply_up(law->trees[level].rare, stamps), 1);
    }
    eps__poisson_geometrics(&law->base, setting->job->mechanism.n, setting->p,
                            times(weight, stamps * (double)blocks.block * ((double)blocks.height + 1)),
                            times(weight, stamps * total_of(&law->trees[0])));
    *out = &law->base;
    return EPS_OK;
}

static enum eps_status know_level(const struct eps__renyi_law *base, size_t level, struct eps__orders *orders,
                                  struct eps__laws *laws)
{
    const struct tree_law *law = (const struct tree_law *)base;
    const struct eps__setting *setting = law->setting;
    unsigned max_order = setting->job->query.accountant.max_order;
    struct eps__tree_effort effort = effort_of(setting, orders ? EPS_REMOVE : EPS_ADD);
    enum eps_status status =
        eps__poisson_tree_moments(setting->context, orders, laws, &law->trees[level], law->stamps, &effort, max_order);
    if (status == EPS_OK && setting->meter)
        eps__meter_add(setting->meter,
                       LONG_COST * eps__poisson_tree_spends(&law->trees[level], &effort, max_order, orders));
    return status;
}

/* An approximation of ln E X^a: each step by itself, with interactions between steps replaced by their mean. */
static double log_order(const struct tree_law *law, unsigned a)
{
    const struct eps__poisson_tree *tree = &law->trees[0];
    double own = tree->weight * ((double)tree->height + 1), leaves = (double)tree->leaves, alone = 0, p = tree->p;
    double met = tree->weight * total_of(tree) - leaves * own, ways = 1;
    for (unsigned k = 0; k <= a; k++) {
        alone += ways * pow(p, k) * pow(1 - p, a - k) * exp(0.5 * k * (k - 1.0) * own);
        ways = ways * (a - k) / (k + 1);
    }
    return (double)law->stamps * (leaves * log(alone) + 0.5 * a * (a - 1.0) * p * p * met);
}

static enum eps_status approximate_orders(const struct eps__renyi_law *base, struct eps__orders *orders,
                                          double *variance)
{
    enum { ORDERS_TRIED = 32 };
    const struct tree_law *law = (const struct tree_law *)base;
    unsigned max_order = law->setting->job->query.accountant.max_order;
    if (!orders) {
        *variance = expm1(log_order(law, 2));
        return EPS_OK;
    }
    unsigned most = max_order > 0 && max_order < ORDERS_TRIED ? max_order : ORDERS_TRIED;
    enum eps_status status = eps__orders_alloc(orders, most > 2 ? most : 2);
    for (unsigned a = 2; status == EPS_OK && a <= most; a++) {
        double value = log_order(law, a);
        if (!isfinite(value))
            break;
        orders->log_upper[a] = orders->log_lower[a] = value;
    }
    return status;
}

const struct eps__renyi_law_class eps__renyi_poisson_tree = {.concerns = concerns,
                                                             .serves = serves,
                                                             .cost = cost,
                                                             .least_sigma = least_sigma,
                                                             .open = open_law,
                                                             .know_level = know_level,
                                                             .approximate_orders = approximate_orders,
                                                             .destroy = destroy};
