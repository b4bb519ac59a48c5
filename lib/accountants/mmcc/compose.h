/*
 * From bounded rows to a composition of dominating pairs.
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
    uint64_t times;           /* the rows are composed so often */
    double norm_square;       /* the largest squared column norm of C */
    double error;             /* what the mixtures' errors may come to, over all rows, once */
    double log_outside;       /* ln of the probability that may be left out, over all rows, once */
    bool proven;              /* false: a sample of the rows, for quick answers */
    struct eps__meter *meter; /* is told of the work, row by row; NULL: nobody counts */
    double operations;        /* of composing all rows, estimated */
};

/* What the composition leaves to be counted. */
struct eps__rows_remainder {
    double outside;  /* probability to be added to the upper estimate, and taken off the lower */
    double error;    /* what the mixtures' errors came to: e widens the loss by 2 e */
    bool resolvable; /* false: the shifts are out of a PLD's reach; the composition must not be asked */
};

/* Adds all rows, bound before, to the composition; rows side by side through the context's parallel_for. EPS_OK,
 * EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT. */
enum eps_status eps__rows_compose(struct eps__composition *composition, struct eps__rows_remainder *remainder,
                                  const struct eps__rows *rows, const struct eps_context *context,
                                  const struct eps__rows_plan *plan);

#endif
