/*
 * See raw.h.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/moments/laws/raw.h"

#include "lib/numerics/bound.h"

static enum eps_status orders_of(struct eps__orders *orders, const eps__quad *raw, unsigned most, const double *units)
{
    enum eps_status status = eps__orders_alloc(orders, most > 2 ? most : 2);
    for (unsigned a = 2; status == EPS_OK && a <= most; a++) {
        double log_moment = (double)logq(raw[a]), error = (units[a] + 8) * (double)EPS__QUAD_ROUNDOFF;
        if (!finiteq(raw[a]))
            continue;
        orders->log_upper[a] = eps__shift(EPS__UPPER, log_moment, error);
        orders->log_lower[a] = eps__shift(EPS__LOWER, log_moment, error);
    }
    return status;
}

static enum eps_status laws_of(struct eps__laws *laws, const eps__quad *raw, unsigned len, const double *units)
{
    *laws = (struct eps__laws){0};
    if (len < 2)
        return EPS_OK;
    enum eps_status status = eps__moments_alloc(&laws->items[0], len);
    if (status != EPS_OK)
        return status;
    eps__moments_centre_each(&laws->items[0], raw, units);
    eps__moments_keep_known(&laws->items[0]);
    laws->len = 1;
    return EPS_OK;
}

enum eps_status eps__raw_tell(struct eps__orders *orders, struct eps__laws *laws, const eps__quad *raw,
                              const double *units, unsigned most, unsigned moments_max)
{
    enum eps_status status = orders ? orders_of(orders, raw, most, units) : EPS_OK;
    if (status == EPS_OK && laws) {
        status = laws_of(laws, raw, most < moments_max ? most : moments_max, units);
        if (status != EPS_OK && orders)
            eps__orders_clear(orders);
    }
    return status;
}
