/*
 * See copies.h.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/monte_carlo/laws/copies.h"

#include <math.h>

#include <sleef.h>

#include "lib/accountants/monte_carlo/law.h"
#include "lib/numerics/bound.h"

/* ln of the maximum of r^(a-1) (1 - r): a ln(1 - 1/a) - ln(a - 1). */
static double peak(double a)
{
    return a * Sleef_cinz_log1pd1_u10purec(-1 / a) - Sleef_cinz_logd1_u10purec(a - 1);
}

double eps__mc_copies_log_value(const struct eps__mc_copies *copies, double eps)
{
    double a = copies->order;
    return copies->log_z - (a - 1) * eps + peak(a);
}

double eps__mc_copies_log_weight(const struct eps__mc_copies *copies, double loss)
{
    return copies->log_z - (copies->order - 1.0) * loss;
}

double eps__mc_copies_error(const struct eps__mc_copies *copies, double loss_error)
{
    /* one loss_error for the loss itself, one for the rounding of its multiple */
    return eps__raise(2 * (copies->order - 1.0) * loss_error + copies->log_z_error + copies->log_density_error +
                          4 * EPS__UNIT_ROUNDOFF * fabs(copies->log_z),
                      8);
}

double eps__mc_copies_most(const struct eps__mc_copies *copies, double eps, double loss_error)
{
    double a = copies->order, off = eps__mc_copies_error(copies, loss_error) + 2 * (a - 1) * loss_error;
    double size = fabs(copies->log_z) + (a - 1) * eps - peak(a) + off;
    return eps__shift(EPS__UPPER, eps__mc_copies_log_value(copies, eps),
                      eps__raise(off + 32 * EPS__UNIT_ROUNDOFF * size, 4));
}

/* ln (1 - e^(least - loss)), for loss > least. */
static double log_part(double least, double loss)
{
    return Sleef_cinz_log1pd1_u10purec(-Sleef_cinz_expd1_u10purec(least - loss));
}

void eps__mc_copies_between(double *loss, double *log_weight, const struct eps__mc_copies *copies, double least,
                            double low, double high)
{
    double a = copies->order, at_peak = least - Sleef_cinz_log1pd1_u10purec(-1 / a);
    *loss = fmin(high, EPS__MC_CERTAIN);
    if (!(high > least)) { /* without a value at any epsilon from `least` on */
        *loss = -EPS__MC_CERTAIN;
        *log_weight = 0;
    } else if (high <= at_peak)
        *log_weight = eps__mc_copies_log_weight(copies, high);
    else if (low >= at_peak)
        *log_weight = eps__mc_copies_log_weight(copies, low) + (log_part(least, low) - log_part(least, high));
    else
        *log_weight = eps__mc_copies_log_value(copies, least) - log_part(least, high);
}
