/*
 * What profiles have in common.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>

#include "lib/accountants/accountant.h"

#define EPS_MOST 1e6 /* the largest epsilon of a guess */

/* The bound that sampling gives without noise is that of sampling/never.c. It holds too, so the smaller one is the
 * answer, at either end of the bracket. */
enum eps_status eps__profile_log_delta(const struct eps__setting *setting, struct eps__profile *profile,
                                       enum eps_direction direction, enum eps__estimate estimate, double eps,
                                       double *log_delta, struct eps_error *error)
{
    struct eps__interval most = eps__absence_log_delta(&setting->absence, direction, eps);
    double own;
    if (isinf(most.upper)) { /* delta is 0 */
        *log_delta = -INFINITY;
        return EPS_OK;
    }
    enum eps_status status = profile->class->log_delta(profile, direction, estimate, eps, &own, error);
    if (status == EPS_OK)
        *log_delta = fmin(eps__certain(estimate, own), estimate == EPS__UPPER ? most.upper : most.lower);
    return status;
}

enum eps_status eps__profile_guess(struct eps__profile *profile, enum eps_direction direction, double wanted,
                                   double *eps)
{
    double low = 0, high = 1e-3, value;
    enum eps_status status = profile->class->approximate(profile, direction, high, &value);
    for (; status == EPS_OK && value > wanted && high < EPS_MOST;
         status = profile->class->approximate(profile, direction, high, &value)) {
        low = high;
        high *= 2;
    }
    for (int i = 0; status == EPS_OK && i < 40 && high - low > 1e-3 * high; i++) {
        double middle = 0.5 * (low + high);
        status = profile->class->approximate(profile, direction, middle, &value);
        *(value > wanted ? &low : &high) = middle;
    }
    *eps = high;
    return status;
}
