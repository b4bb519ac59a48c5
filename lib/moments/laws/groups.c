/*
 * See groups.h.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/moments/laws/groups.h"

#include <assert.h>
#include <math.h>

#include "lib/numerics/bound.h"

enum { NARROW = 8, WIDE = 2 }; /* the `gap` of a ladder */

#define BEYOND 100.0 /* a divergence */
#define DEAREST 1e9  /* operations, at most, where pairs take more than was asked for */

/* ------------------------------------------------------------ the ladder */

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

static unsigned climb(const struct eps__ladder *ladder, unsigned a)
{
    unsigned next = a + 1 + a / ladder->gap;
    return next < ladder->to ? next : ladder->to;
}

static double group_operations(const struct eps__copies *copies, struct groups groups)
{
    return copies->operations(copies->law, groups.size) +
           (groups.less > 0 && groups.size > 2 ? copies->operations(copies->law, groups.size - 1) : 0);
}

double eps__ladder_operations(const struct eps__copies *copies, const struct eps__ladder *ladder)
{
    double sum = 0;
    for (unsigned a = ladder->from; a < ladder->to;) {
        a = climb(ladder, a);
        sum += group_operations(copies, part(a, ladder->largest));
    }
    return sum;
}

struct eps__ladder eps__ladder_of(const struct eps__copies *copies, unsigned from, unsigned to, double operations)
{
    struct eps__ladder ladder = {from, to, NARROW, from};
    if (from < 2 || to <= from)
        return (struct eps__ladder){from, from, NARROW, 1};
    while (!(eps__ladder_operations(copies, &ladder) <= operations) && (ladder.largest > 2 || ladder.gap == NARROW)) {
        ladder.gap = ladder.largest > 2 ? NARROW : WIDE;
        ladder.largest -= ladder.largest > 2;
    }
    return ladder;
}

/* ------------------------------------------------------------ bounds */

bool eps__order_of_use(double log_moment, unsigned a, double log_second)
{
    return isfinite(log_moment) && log_moment / (a - 1.0) <= BEYOND + 2 * a * log_second;
}

/* An upper bound on ln E X^a by groups of at most `largest` copies (M22). */
static enum eps_status grouped(const struct eps_context *context, eps__quad *log_moment, double *units,
                               const struct eps__copies *copies, unsigned a, unsigned largest)
{
    struct groups groups = part(a, largest);
    unsigned together = groups.more * groups.size * (groups.size - 1) +
                        groups.less * (groups.size - 1) * (groups.size - 2); /* twice the pairs in one group */
    eps__quad times = (eps__quad)(a * (a - 1)) / together, more, less = 1;
    double more_units, less_units = 0;
    enum eps_status status = copies->sum(context, &more, &more_units, copies->law, groups.size, times);
    if (status == EPS_OK && groups.less > 0 && groups.size > 2)
        status = copies->sum(context, &less, &less_units, copies->law, groups.size - 1, times);
    if (status == EPS_OK) {
        *log_moment = groups.more * logq(more) + groups.less * logq(less);
        *units = groups.more * more_units + groups.less * less_units;
    }
    return status;
}

void eps__orders_set(struct eps__orders *orders, unsigned a, eps__quad log_moment, double units, size_t stamps)
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

enum eps_status eps__ladder_climb(const struct eps_context *context, struct eps__orders *orders,
                                  const struct eps__copies *copies, const struct eps__ladder *ladder, size_t stamps)
{
    enum eps_status status = EPS_OK;
    assert(orders->len >= ladder->to);
    for (unsigned a = ladder->from;
         status == EPS_OK && a < ladder->to && eps__order_of_use(orders->log_upper[a], a, orders->log_upper[2]);) {
        unsigned next = climb(ladder, a);
        eps__quad log_moment = 0;
        double units = 0;
        status = grouped(context, &log_moment, &units, copies, next, ladder->largest);
        if (status == EPS_OK)
            eps__orders_set(orders, next, log_moment, units, stamps);
        if (status == EPS_OK && isfinite(orders->log_upper[next]))
            set_between(orders, a, next);
        a = next;
    }
    return status;
}

/* ------------------------------------------------------------ all orders */

static struct eps__ladder ladder_up(const struct eps__copies *copies, unsigned from, double operations,
                                    unsigned max_order)
{
    unsigned to = max_order > 0 && max_order < EPS__GROUPS_ORDERS_MAX ? max_order : EPS__GROUPS_ORDERS_MAX;
    struct eps__ladder ladder = eps__ladder_of(copies, from, to, operations);
    if (eps__ladder_operations(copies, &ladder) > fmax(operations, DEAREST)) /* even pairs with wide gaps take long */
        ladder = (struct eps__ladder){from, from, NARROW, 1};
    return ladder;
}

double eps__groups_operations(const struct eps__copies *copies, unsigned from, double operations, unsigned max_order)
{
    struct eps__ladder ladder = ladder_up(copies, from, operations, max_order);
    return eps__ladder_operations(copies, &ladder);
}

enum eps_status eps__groups_orders(const struct eps_context *context, struct eps__orders *orders,
                                   const struct eps__orders *known, const struct eps__copies *copies, double operations,
                                   unsigned max_order, double *spent)
{
    unsigned from = 1;
    while (from < known->len && isfinite(known->log_upper[from + 1]))
        from++;
    struct eps__ladder ladder = ladder_up(copies, from, operations, max_order);
    *spent = eps__ladder_operations(copies, &ladder);
    enum eps_status status = eps__orders_alloc(orders, ladder.to > 2 ? ladder.to : 2);
    if (status != EPS_OK)
        return status;
    for (unsigned a = 2; a <= from; a++) {
        orders->log_upper[a] = known->log_upper[a];
        orders->log_lower[a] = known->log_lower[a];
    }
    status = eps__ladder_climb(context, orders, copies, &ladder, 1);
    if (status != EPS_OK)
        eps__orders_clear(orders);
    return status;
}
