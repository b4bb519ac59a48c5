/*
 * Turns rows with computed tail bounds into a composition of dominating pairs.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_MMCC_COMPOSE_H
#define EPS_ACCOUNTANTS_MMCC_COMPOSE_H

#include "lib/accountants/mmcc/rows.h"
#include "lib/base/progress.h"
#include "lib/pld/compose/composition.h"

struct eps__rows_plan {
    enum eps_direction direction;
    double sigma;
    uint64_t times;           /* the number of runs of the mechanism, at least 1 */
    double norm_square;       /* the largest squared column norm of C */
    double error;             /* the limit on the sum of the mixtures' errors over all rows of one run */
    double log_outside;       /* ln of the probability that may be left out, over all rows of one run */
    bool proven;              /* false: composes a sample of the rows, for fast unproven answers */
    struct eps__meter *meter; /* receives the work of every row; NULL disables progress reporting */
    double operations;        /* the estimated operations of composing all rows */
};

/* What the composition itself does not account for. */
struct eps__rows_remainder {
    double outside;  /* probability that the caller adds to the upper estimate and subtracts from the lower one */
    double error;    /* the sum of the mixtures' errors; an error e widens the privacy loss by 2 e */
    bool resolvable; /* false: the shifts are too large for a PLD, and the composition must not be evaluated */
};

/* Adds all rows, whose tail bounds the caller has computed, to the composition. Rows run in parallel through the
 * context's parallel_for. EPS_OK, EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT. */
enum eps_status eps__rows_compose(struct eps__composition *composition, struct eps__rows_remainder *remainder,
                                  const struct eps__rows *rows, const struct eps_context *context,
                                  const struct eps__rows_plan *plan);

#endif
