/*
 * Exact moments of low orders from the sums over trees, and bounds on higher orders by groups of copies.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "lib/moments/laws/groups.h"
#include "lib/moments/laws/poisson_tree.h"
#include "lib/numerics/bound.h"

enum { COPIES = EPS__TREE_COPIES_MAX, ORDERS_MOST = 64 };

/* ------------------------------------------------------------ which orders are computed */

unsigned eps__poisson_tree_fits(const struct eps__poisson_tree *tree, const struct eps__tree_effort *effort)
{
    double spent = 0;
    unsigned most = 1;
    for (unsigned a = 2; a <= COPIES; a++) {
        spent += eps__poisson_tree_operations(tree, a);
        if (!(spent <= (a == 2 ? effort->second : effort->moments)))
            break;
        most = a;
    }
    return most;
}

static unsigned most_of(const struct eps__poisson_tree *tree, const struct eps__tree_effort *effort, unsigned max_order)
{
    unsigned most = eps__poisson_tree_fits(tree, effort);
    return max_order > 0 && max_order < most ? max_order : most;
}

static double operations_of(const void *law, unsigned copies)
{
    return eps__poisson_tree_operations(law, copies);
}

static struct eps__ladder ladder_of(const struct eps__poisson_tree *tree, unsigned most, double operations,
                                    unsigned max_order)
{
    const struct eps__copies copies = {tree, operations_of, NULL};
    return eps__ladder_of(&copies, most, max_order > 0 && max_order < ORDERS_MOST ? max_order : ORDERS_MOST,
                          operations);
}

double eps__poisson_tree_spends(const struct eps__poisson_tree *tree, const struct eps__tree_effort *effort,
                                unsigned max_order, bool orders)
{
    double spent = eps__poisson_tree_operations(tree, 1);
    unsigned most = most_of(tree, effort, max_order);
    for (unsigned a = 2; a <= most; a++)
        spent += eps__poisson_tree_operations(tree, a);
    if (orders) {
        const struct eps__copies copies = {tree, operations_of, NULL};
        struct eps__ladder ladder = ladder_of(tree, most, effort->orders, max_order);
        spent += eps__ladder_operations(&copies, &ladder);
    }
    return spent;
}

/* ------------------------------------------------------------ moments */

/* A number, and its error bound in units of quadruple roundoff. */
struct known {
    eps__quad value;
    double units;
};

/* E X^a of the law within the caps, with weight times `times`; not finite if it is not known. within: the probability
 * of being within the caps. */
static enum eps_status moment(const struct eps_context *context, struct known *out,
                              const struct eps__poisson_tree *tree, const struct known *within, unsigned a,
                              eps__quad times)
{
    enum eps_status status = eps__poisson_tree_sum(context, &out->value, &out->units, tree, a, times);
    for (unsigned c = 0; status == EPS_OK && c < a; c++)
        out->value /= within->value;
    out->units = (out->units + a * (within->units + 2)) * 1.01;
    return status;
}

/* The law within the caps, for groups of copies. */
struct capped {
    const struct eps__poisson_tree *tree;
    const struct known *within;
};

static enum eps_status sum_of(const struct eps_context *context, eps__quad *sum, double *units, const void *law,
                              unsigned copies, eps__quad times)
{
    const struct capped *capped = law;
    struct known known = {0};
    enum eps_status status = moment(context, &known, capped->tree, capped->within, copies, times);
    *sum = known.value;
    *units = known.units;
    return status;
}

static enum eps_status orders_of(const struct eps_context *context, struct eps__orders *orders,
                                 const struct eps__poisson_tree *tree, size_t stamps, const struct known *raw,
                                 const struct eps__ladder *ladder)
{
    enum eps_status status = eps__orders_alloc(orders, ladder->to > 2 ? ladder->to : 2);
    if (status != EPS_OK)
        return status;
    for (unsigned a = 2; a <= ladder->from; a++)
        eps__orders_set(orders, a, logq(raw[a].value), raw[a].units, stamps);
    const struct capped capped = {tree, &raw[1]};
    const struct eps__copies copies = {&capped, NULL, sum_of};
    status = eps__ladder_climb(context, orders, &copies, ladder, stamps);
    if (status != EPS_OK)
        eps__orders_clear(orders);
    return status;
}

static enum eps_status laws_of(struct eps__laws *laws, const struct known *raw, unsigned most, size_t stamps)
{
    eps__quad powers[COPIES + 1] = {1, 1};
    double units = 0;
    *laws = (struct eps__laws){.len = 0};
    if (most < 2)
        return EPS_OK;
    enum eps_status status = eps__moments_alloc(&laws->items[0], most);
    if (status != EPS_OK)
        return status;
    for (unsigned a = 2; a <= most; a++) {
        eps__quad square = raw[a].value;
        powers[a] = 1;
        for (size_t left = stamps; left > 0; left >>= 1, square *= square)
            if (left & 1)
                powers[a] *= square;
        units = fmax(units, (double)stamps * (raw[a].units + 4) * 1.01);
    }
    eps__moments_centre(&laws->items[0], powers, units);
    eps__moments_keep_known(&laws->items[0]);
    laws->len = 1;
    return EPS_OK;
}

enum eps_status eps__poisson_tree_moments(const struct eps_context *context, struct eps__orders *orders,
                                          struct eps__laws *laws, const struct eps__poisson_tree *tree, size_t stamps,
                                          const struct eps__tree_effort *effort, unsigned max_order)
{
    struct known raw[COPIES + 1] = {{1, 0}};
    unsigned most = most_of(tree, effort, max_order);
    struct eps__ladder ladder = ladder_of(tree, most, effort->orders, max_order);
    enum eps_status status = eps__poisson_tree_sum(context, &raw[1].value, &raw[1].units, tree, 1, 1);
    for (unsigned a = 2; status == EPS_OK && a <= most; a++)
        status = moment(context, &raw[a], tree, &raw[1], a, 1);
    if (status == EPS_OK && orders)
        status = orders_of(context, orders, tree, stamps, raw, &ladder);
    if (status == EPS_OK && laws) {
        status = laws_of(laws, raw, most, stamps);
        if (status != EPS_OK && orders)
            eps__orders_clear(orders);
    }
    return status;
}
