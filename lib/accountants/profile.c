/*
 * Compares a profile's bound with the bound that sampling gives without noise (sampling/never.c). Both hold, so the
 * smaller one is the answer, at either end of the bracket.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>

#include "lib/accountants/accountant.h"

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
