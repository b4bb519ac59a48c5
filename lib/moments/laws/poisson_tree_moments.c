/*
 * Exact moments of low orders from the sums over trees, and bounds on higher orders by groups of copies.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "lib/moments/laws/poisson_tree.h"
#include "lib/numerics/bound.h"

enum {
    COPIES = EPS__TREE_COPIES_MAX,
    ORDERS_MOST = 64,
    NARROW = 8, /* the narrow and the wide `gap` of a ladder */
    WIDE = 2
};

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

/* A partition of copies: `more` groups of `size` copies, and `less` groups of size - 1. */
struct groups {
    unsigned size, more, less;
};

static struct groups part(unsigned a, unsigned largest)
{
    unsigned groups = (a + largest - 1) / largest, size = (a + groups - 1) / groups;
    struct groups parts = {size, a - groups * (size - 1), 0};
    parts.less = groups - parts.more;
    assert(parts.more * size + parts.less * (size - 1) == a && parts.more >= 1);
    return parts;
}

static unsigned most_of(const struct eps__poisson_tree *tree, const struct eps__tree_effort *effort, unsigned max_order)
{
    unsigned most = eps__poisson_tree_fits(tree, effort);
    return max_order > 0 && max_order < most ? max_order : most;
}

/* The orders above the exact moments that are computed; the others are interpolated between two of these. */
struct ladder {
    unsigned from, to, gap; /* after order a comes a + 1 + a/gap */
    unsigned largest;       /* the largest group of copies; 1: no orders are computed */
};

static unsigned climb(const struct ladder *ladder, unsigned a)
{
    unsigned next = a + 1 + a / ladder->gap;
    return next < ladder->to ? next : ladder->to;
}

static double group_operations(const struct eps__poisson_tree *tree, struct groups groups)
{
    return eps__poisson_tree_operations(tree, groups.size) +
           (groups.less > 0 && groups.size > 2 ? eps__poisson_tree_operations(tree, groups.size - 1) : 0);
}

static double ladder_operations(const struct eps__poisson_tree *tree, const struct ladder *ladder)
{
    double sum = 0;
    for (unsigned a = ladder->from; a < ladder->to;) {
        a = climb(ladder, a);
        sum += group_operations(tree, part(a, ladder->largest));
    }
    return sum;
}

/* The ladder with the largest groups that fit, and narrow gaps; if none fits, pairs with wide gaps. */
static struct ladder ladder_of(const struct eps__poisson_tree *tree, unsigned most, double operations,
                               unsigned max_order)
{
    unsigned to = max_order > 0 && max_order < ORDERS_MOST ? max_order : ORDERS_MOST;
    struct ladder ladder = {most, to, NARROW, most};
    if (most < 2 || to <= most)
        return (struct ladder){most, most, NARROW, 1};
    while (!(ladder_operations(tree, &ladder) <= operations) && (ladder.largest > 2 || ladder.gap == NARROW)) {
        ladder.gap = ladder.largest > 2 ? NARROW : WIDE;
        ladder.largest -= ladder.largest > 2;
    }
    return ladder;
}

double eps__poisson_tree_spends(const struct eps__poisson_tree *tree, const struct eps__tree_effort *effort,
                                unsigned max_order, bool orders)
{
    double spent = eps__poisson_tree_operations(tree, 1);
    unsigned most = most_of(tree, effort, max_order);
    for (unsigned a = 2; a <= most; a++)
        spent += eps__poisson_tree_operations(tree, a);
    if (orders) {
        struct ladder ladder = ladder_of(tree, most, effort->orders, max_order);
        spent += ladder_operations(tree, &ladder);
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

/* An upper bound on ln E X^a by groups of at most `largest` copies (M22). */
static enum eps_status grouped(const struct eps_context *context, eps__quad *log_moment, double *units,
                               const struct eps__poisson_tree *tree, const struct known *within, unsigned a,
                               unsigned largest)
{
    struct groups groups = part(a, largest);
    unsigned together = groups.more * groups.size * (groups.size - 1) +
                        groups.less * (groups.size - 1) * (groups.size - 2); /* twice the pairs in one group */
    eps__quad times = (eps__quad)(a * (a - 1)) / together;
    struct known more, less = {1, 0};
    enum eps_status status = moment(context, &more, tree, within, groups.size, times);
    if (status == EPS_OK && groups.less > 0 && groups.size > 2)
        status = moment(context, &less, tree, within, groups.size - 1, times);
    if (status == EPS_OK) {
        *log_moment = groups.more * logq(more.value) + groups.less * logq(less.value);
        *units = groups.more * more.units + groups.less * less.units;
    }
    return status;
}

static void set_order(struct eps__orders *orders, unsigned a, eps__quad log_moment, double units, size_t stamps)
{
    double value = (double)(log_moment * stamps), error = (units + 64) * (double)stamps * (double)EPS__QUAD_ROUNDOFF;
    if (!isfinite(value) || !isfinite(error))
        return;
    error += 4 * EPS__UNIT_ROUNDOFF * fabs(value);
    orders->log_upper[a] = eps__shift(EPS__UPPER, value, error);
    orders->log_lower[a] = eps__shift(EPS__LOWER, value, error);
}

/* Bounds for the orders between two orders, on the chord: ln E X^a is convex in a (M22). */
static void set_between(struct eps__orders *orders, unsigned from, unsigned to)
{
    for (unsigned a = from + 1; a < to; a++) {
        double part = (double)(a - from) / (to - from), low = orders->log_upper[from], high = orders->log_upper[to];
        double chord = low + part * (high - low), error = 16 * EPS__UNIT_ROUNDOFF * (fabs(low) + fabs(high));
        orders->log_upper[a] = eps__shift(EPS__UPPER, chord, error);
        orders->log_lower[a] = eps__shift(EPS__LOWER, chord, error);
    }
}

static enum eps_status orders_of(const struct eps_context *context, struct eps__orders *orders,
                                 const struct eps__poisson_tree *tree, size_t stamps, const struct known *raw,
                                 const struct ladder *ladder)
{
    enum eps_status status = eps__orders_alloc(orders, ladder->to > 2 ? ladder->to : 2);
    if (status != EPS_OK)
        return status;
    for (unsigned a = 2; a <= ladder->from; a++)
        set_order(orders, a, logq(raw[a].value), raw[a].units, stamps);
    for (unsigned a = ladder->from; status == EPS_OK && a < ladder->to && isfinite(orders->log_upper[a]);) {
        unsigned next = climb(ladder, a);
        eps__quad log_moment = 0;
        double units = 0;
        status = grouped(context, &log_moment, &units, tree, &raw[1], next, ladder->largest);
        if (status == EPS_OK)
            set_order(orders, next, log_moment, units, stamps);
        if (status == EPS_OK && isfinite(orders->log_upper[next]))
            set_between(orders, a, next);
        a = next;
    }
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
    struct ladder ladder = ladder_of(tree, most, effort->orders, max_order);
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
