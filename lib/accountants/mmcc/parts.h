/*
 * The parts of a data set whose groups take turns, under mmcc. A Toeplitz strategy has one worst part, the first one.
 * For other strategies every part is computed.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_MMCC_PARTS_H
#define EPS_ACCOUNTANTS_MMCC_PARTS_H

#include "lib/accountants/accountant.h"
#include "lib/accountants/mmcc/rows.h"

/* Whether the first part is the worst: the blocks are Toeplitz, and there is a single one or `groups` divides their
 * size. */
bool eps__mmcc_toeplitz_parts(const struct eps__blocks *blocks, size_t groups);

/* The number of parts to compute. */
size_t eps__mmcc_parts(const struct eps__setting *setting);

/* Makes the rows of one part. The caller destroys them through their class. EPS_OK, EPS_NO_MEMORY, EPS_CANCELED,
 * EPS_TIMEOUT, EPS_UNSUPPORTED. */
enum eps_status eps__mmcc_rows(struct eps__rows **rows, const struct eps__setting *setting, size_t part,
                               struct eps_error *error);

/* The number of tail bounds that may fail: 0 for p = 1, where no tail bound is used. */
double eps__mmcc_uncertain_pairs(const struct eps__rows *rows);

/* Computes all tail bounds such that they fail with a total probability of at most delta_1. quick: the bounds are
 * unproven. EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT. */
enum eps_status eps__mmcc_bound(struct eps__rows *rows, const struct eps_context *context, enum eps_direction direction,
                                double sigma, double log_delta1, bool quick);

#endif
