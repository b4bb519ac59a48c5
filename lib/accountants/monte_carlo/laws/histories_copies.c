/*
 * See histories_copies.h.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/monte_carlo/laws/histories_copies.h"

#include <math.h>

#include "lib/base/error.h"

enum eps_status eps__mc_histories_copies_make(const struct eps_context *context,
                                              struct eps__mc_histories_copies *copies, const struct eps__histories *law,
                                              double gram_units, double eps, double operations)
{
    double least = 0, left = operations > 0 ? operations : INFINITY;
    *copies = (struct eps__mc_histories_copies){0};
    for (unsigned a = 2; isfinite(eps__histories_draws_bytes(law, a)); a++) {
        struct eps__histories_draws *draws = NULL;
        left -= eps__histories_draws_operations(law, a);
        if (left < 0)
            break;
        enum eps_status status = eps__histories_draws_make(context, &draws, law, a, gram_units);
        if (status == EPS_UNSUPPORTED)
            break;
        if (status != EPS_OK)
            return status;
        const struct eps__mc_copies of = {a, draws->log_z, draws->log_z_error, draws->log_density_error};
        if (!(eps__mc_copies_log_value(&of, eps) < least)) {
            eps__histories_draws_free(draws);
            if (copies->draws)
                break;
            continue;
        }
        least = eps__mc_copies_log_value(&of, eps);
        eps__histories_draws_free(copies->draws);
        copies->draws = draws;
        copies->of = of;
    }
    return copies->draws ? EPS_OK : EPS_UNSUPPORTED;
}

void eps__mc_histories_copies_clear(struct eps__mc_histories_copies *copies)
{
    eps__histories_draws_free(copies->draws);
    *copies = (struct eps__mc_histories_copies){0};
}

double eps__mc_histories_copies_bytes(const struct eps__histories *law)
{
    double most = 0;
    for (unsigned a = 2; isfinite(eps__histories_draws_bytes(law, a)); a++)
        most = fmax(most, 2 * eps__histories_draws_bytes(law, a));
    return most;
}
