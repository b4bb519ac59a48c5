/*
 * The parts of a data set in groups, as mmcc has them: Toeplitz strategies have one worst part, the first; of all others every
 * part counts.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_MMCC_PARTS_H
#define EPS_ACCOUNTANTS_MMCC_PARTS_H

#include "lib/accountants/accountant.h"
#include "lib/accountants/mmcc/rows.h"

/* Toeplitz blocks that the groups divide, or one alone, have one worst part. */
bool eps__mmcc_toeplitz_parts(const struct eps__blocks *blocks, size_t groups);

/* How many parts are to be looked at. */
size_t eps__mmcc_parts(const struct eps__setting *setting);

/* The rows of one. The caller destroys them by their class. EPS_OK, or why not. */
enum eps_status eps__mmcc_rows(struct eps__rows **rows, const struct eps__setting *setting, size_t part,
                               struct eps_error *error);

/* How many tail bounds may fail: where every participation is certain none is used. */
double eps__mmcc_uncertain_pairs(const struct eps__rows *rows);

/* Bounds all participations such that what may fail comes to delta_1; quick: unproven. */
enum eps_status eps__mmcc_bound(struct eps__rows *rows, const struct eps_context *context, enum eps_direction direction,
                                double sigma, double log_delta1, bool quick);

#endif
