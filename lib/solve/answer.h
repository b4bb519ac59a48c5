/*
 * What the results of all questions have in common, whether they are asked of a mechanism, of a training of phases or
 * for a largest number: limits, the worse direction, the value with its bracket, and what is said of the bracket.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_SOLVE_ANSWER_H
#define EPS_SOLVE_ANSWER_H

#include "lib/base/sentences.h"
#include "lib/solve/largest.h"

/* EPS_OK if the estimates are within the context's limits, else EPS_TOO_COSTLY: "the job needs about...", where `who`
 * is "the job needs". */
EPS_MUST_USE enum eps_status eps__within_limits(const struct eps_context *context, struct eps_error *error,
                                                const char *pointer, const char *who, double operations, double bytes);

/* Creates the result of a job, without an answer and without what describes one mechanism. EPS_OK or EPS_NO_MEMORY. */
EPS_MUST_USE enum eps_status eps__result_create(struct eps_result **result, struct eps_error *error,
                                                const struct eps_job *job);

/* The direction that decides: that of the larger value or, of a largest number, of the smaller. */
const struct eps_candidate *eps__result_worse(const struct eps_result *result);

/* Sets the answer from result->directions and the lower ends of their brackets: the value solved for, the accountant
 * and the bracket, which is not exact. */
void eps__result_settle(struct eps_result *result, const double lower[EPS_DIRECTIONS]);

/* Sets the answer of a largest number from that of each direction, both in units of `each`. */
void eps__result_largest(struct eps_result *result, const struct eps__largest_answer found[EPS_DIRECTIONS],
                         const enum eps_accountant accountants[EPS_DIRECTIONS], uint64_t each);

/* Adds a hint if the bracket is wider than the tolerance. */
void eps__hint_width(struct eps__sentences *hints, const struct eps_result *result, double tolerance);

#endif
