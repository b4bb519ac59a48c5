/*
 * What a job's answer would be without a proof: an estimate from a few thousand draws, which shows how loose a proven
 * answer is. It is never part of the answer, and no bound is made from it.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_MONTE_CARLO_UNPROVEN_H
#define EPS_ACCOUNTANTS_MONTE_CARLO_UNPROVEN_H

#include "lib/accountants/accountant.h"

/* How an estimate is made. It depends on estimated work alone, not on a clock: the same job gets the same estimate. */
struct eps__mc_unproven_plan {
    uint64_t samples;  /* for one law; 0: no estimate is made */
    unsigned laws;     /* from which samples are drawn, at most */
    double opening;    /* the most operations of opening a law */
    double operations; /* estimated, of all this */
};

/*
 * Plans an estimate that takes at most a tenth of `operations`, what the job takes without it, and at most 2e9. Returns
 * whether there is one: monte_carlo must serve the setting, what is asked for must be an epsilon, a delta or a noise
 * multiplier, and a few draws must be affordable.
 */
bool eps__mc_plan_unproven(struct eps__mc_unproven_plan *plan, const struct eps__setting *setting, double operations);

struct eps__mc_unproven {
    struct eps_unproven_estimate estimate; /* samples 0: so few draws do not determine one */
    double drawn;   /* about what monte_carlo would answer, which draws more and proves it; set with an estimate */
    double seconds; /* about the processor time that it would take */
};

/* Makes the estimate for a result that holds the proven answer. EPS_OK, EPS_CANCELED, EPS_TIMEOUT, EPS_NO_MEMORY,
 * EPS_INTERNAL. */
enum eps_status eps__mc_unproven(struct eps__mc_unproven *unproven, const struct eps__setting *setting,
                                 const struct eps__mc_unproven_plan *plan, const struct eps_result *result);

#endif
