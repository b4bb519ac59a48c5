/*
 * See few_copies.h.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/monte_carlo/laws/few_copies.h"

#include <math.h>

#include "lib/base/error.h"
#include "lib/moments/laws/few.h"

#define TRIED 1e7   /* operations of a sum that is only compared with others, about */
#define GROUPED 1.4 /* ln of how much less values must be for groups, which raise the mean more than a single one */

/* How copies are divided. */
struct division {
    unsigned group, groups;
    double score; /* ln of the bound on values, and a penalty */
};

/* Tries more and more groups of one size while the bound falls. *left: the operations that may be spent. */
static enum eps_status try_groups(struct division *best, const struct eps_context *context,
                                  const struct eps__banded_gram *banded, unsigned group, double eps, double *left)
{
    double last = INFINITY;
    unsigned held = eps__few_held(banded, group, TRIED);
    if (held == 0)
        held = eps__few_draws_held(banded, group);
    for (unsigned groups = 1; group * groups <= EPS__FEW_DRAWN_MAX; groups++) {
        double units, times = eps__few_draws_times(group, groups);
        eps__quad sum;
        *left -= eps__few_operations(banded, group, held);
        if (*left < 0)
            return EPS_OK;
        enum eps_status status = eps__few_sum(context, &sum, &units, banded, group, held, times > 0 ? times : 1);
        if (status != EPS_OK)
            return status;
        if (!finiteq(sum))
            return EPS_OK;
        const struct eps__mc_copies of = {.order = group * groups, .log_z = groups * (double)logq(sum)};
        double value = eps__mc_copies_log_value(&of, eps);
        double score = value + (groups > 1 ? GROUPED : 0);
        if (value < 0 && score < best->score)
            *best = (struct division){group, groups, score};
        if (!(value < last))
            return EPS_OK;
        last = value;
    }
    return EPS_OK;
}

enum eps_status eps__mc_few_copies_make(const struct eps_context *context, struct eps__mc_few_copies *copies,
                                        const struct eps__banded_gram *banded, double gram_units, double eps,
                                        double operations)
{
    struct division best = {.score = INFINITY};
    double left = operations > 0 ? 0.5 * operations : INFINITY; /* for comparisons; the rest is for the tables */
    enum eps_status status = EPS_OK;
    *copies = (struct eps__mc_few_copies){.draws = NULL};
    for (unsigned group = 2; group <= EPS__FEW_COPIES_MOST && status == EPS_OK; group++)
        if (isfinite(eps__few_draws_bytes(banded, group)) &&
            !(operations > 0 && eps__few_draws_operations(banded, group) > 0.5 * operations))
            status = try_groups(&best, context, banded, group, eps, &left);
    if (status == EPS_OK && best.group == 0)
        return EPS_UNSUPPORTED;
    if (status == EPS_OK)
        status = eps__few_draws_make(context, &copies->draws, banded, best.group, best.groups, gram_units);
    if (status == EPS_OK)
        copies->of = (struct eps__mc_copies){copies->draws->copies, copies->draws->log_z, copies->draws->log_z_error,
                                             copies->draws->log_density_error};
    return status;
}

void eps__mc_few_copies_clear(struct eps__mc_few_copies *copies)
{
    eps__few_draws_free(copies->draws);
    *copies = (struct eps__mc_few_copies){.draws = NULL};
}

double eps__mc_few_copies_bytes(const struct eps__banded_gram *banded)
{
    double most = 0;
    for (unsigned group = 2; group <= EPS__FEW_COPIES_MOST; group++)
        if (isfinite(eps__few_draws_bytes(banded, group)))
            most = fmax(most, eps__few_draws_bytes(banded, group));
    return most;
}
