/*
 * The largest number of steps or runs that satisfies epsilon and delta.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_SOLVE_LARGEST_H
#define EPS_SOLVE_LARGEST_H

#include "lib/accountants/accountant.h"

/* The question: the largest number with delta(epsilon) <= delta, at the epsilon, delta and noise multiplier of the
 * query. */
struct eps__largest_question {
    const struct eps_context *context;
    const struct eps_query *query;
    uint64_t limit; /* the largest number to try */
    bool alone;     /* number 0 releases nothing and satisfies the target trivially, so it is not tried */
    void *user;
    /* Provides the setting for this number and the accountants to use, borrowed until the next call. Returns EPS_OK
     * or a failure. */
    enum eps_status (*at)(void *user, uint64_t number, const struct eps__setting **setting,
                          const struct eps__accountant *const **accountants, size_t *len, struct eps_error *error);
};

/* `least` is proven to satisfy epsilon and delta. The accountants' bounds prove that for no number above `most`, unless
 * `most` is the limit (T4). If `exceeded`, not even 0 is proven to satisfy them, because the other phases are too much,
 * and both are 0. */
struct eps__largest_answer {
    uint64_t least, most;
    bool exceeded;
    const struct eps__accountant *accountant; /* the accountant that proved `least`; NULL if that is 0 */
    double bad_event_share;                   /* NAN if nothing is spent on bad events */
};

/* Searches in each direction, on successively finer grids until least = most or the grid cannot be refined. Returns
 * EPS_OK, or a failure of the question or of an accountant. */
enum eps_status eps__largest(struct eps__largest_answer answers[EPS_DIRECTIONS], struct eps_error *error,
                             const struct eps__largest_question *question);

#endif
