/*
 * What the rows of a plan's children mean, for those who feed them and those who show them. A plan of `len` candidates
 * has the children 0 to len - 1, one for each candidate, and behind a barrier those that verify: child len + i verifies
 * candidate i, so that the row itself says what it belongs to. A turn for which no candidate is left has a number from
 * 2 len on.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_GROUPS_PLAN_H
#define SERVER_GROUPS_PLAN_H

#include <jansson.h>

#include "server/server.h"
#include "server/store/store.h"

#define PLAN_NOTHING SIZE_MAX

/* The candidate that a child verifies, or PLAN_NOTHING. */
static inline size_t plan_verified_by(size_t len, size_t number)
{
    return number >= len && number < 2 * len ? number - len : PLAN_NOTHING;
}

/* The job and the parsed result of a child that has succeeded. Returns false if one of them has been deleted or cannot
 * be read. The caller releases both. */
bool plan_read_result(struct store *store, const struct child_record *child, struct job_record *job, json_t **result);

/* The estimate in a result, if it is less than the noise multiplier of its child, else NAN. result: or NULL. */
double plan_estimate(const json_t *result, const struct child_record *child);

/* What an error would be at the estimated noise multiplier; the error itself if there is no estimate. */
double plan_hope(double estimate, const struct child_record *child, double error);

#endif
