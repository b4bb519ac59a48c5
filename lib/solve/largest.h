/*
 * The largest number (of steps, of runs) that keeps a promise.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_SOLVE_LARGEST_H
#define EPS_SOLVE_LARGEST_H

#include "lib/accountants/accountant.h"

/* What is asked: whether delta(epsilon) is at most delta at the noise multiplier, all three of the job's query. */
struct eps__largest_question {
    const struct eps_context *context;
    const struct eps_query *query;
    enum eps_direction direction;
    uint64_t limit; /* no larger number is tried */
    bool alone;     /* 0 of it is nothing at all, and is not asked */
    void *user;
    /* The setting of so many, and the accountants to ask: borrowed until the next call. EPS_OK, or why not. */
    enum eps_status (*at)(void *user, uint64_t number, const struct eps__setting **setting,
                          const struct eps__accountant *const **accountants, size_t *len, struct eps_error *error);
};

/* `least` is proven to keep the promise. The accountants' bounds prove that of no number above `most`, unless `most` is
 * the limit (T4). Where `exceeded`, no number is proven to keep it, not even 0, because of what is there beside it: then
 * both are 0. */
struct eps__largest_answer {
    uint64_t least, most;
    bool exceeded;
    const struct eps__accountant *accountant; /* that proved `least`; NULL where that is 0 */
    double bad_event_share;                   /* NAN where nothing is spent */
};

/* Bisects, on finer and finer grids until the two ends meet or the grid is as fine as it gets. EPS_OK, or what accountants say. */
enum eps_status eps__largest(struct eps__largest_answer *answer, struct eps_error *error,
                             const struct eps__largest_question *question);

#endif
