/*
 * Drawing many times: chunks of draws, blocks of chunks on the threads that the caller lends, each block a plain value that the caller may keep
 * and give back. The sums are the same bits whoever computes the blocks, in whatever order, and after whatever interruption.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_MONTE_CARLO_DRAWS_H
#define EPS_ACCOUNTANTS_MONTE_CARLO_DRAWS_H

#include "lib/accountants/monte_carlo/estimator.h"

enum { EPS__MC_CHUNK = 1024 }; /* draws */

/* One estimate. */
struct eps__mc_run {
    const struct eps__setting *setting;
    const struct eps__mc_law *law;
    double sigma; /* the law's */
    uint64_t seed;
    uint64_t candidate; /* what the draws are for: two estimates of one seed with different ones are independent */
    uint64_t samples;   /* over 0; rounded up to whole chunks */
    double
        enough; /* it may end where the mean over all samples is over this for certain, at the grid's first point; INFINITY: never */
    double until;    /* by CLOCK_MONOTONIC, in seconds, it is to end; INFINITY: no bound */
    double begun;    /* by the same clock, the task of which this is a part; counts where `until` is finite */
    double from, to; /* of the task's work, which share this is: what its meter is told of */
};

/*
 * Draws into the estimator, which is empty. *complete: all were drawn; else the mean was certain to be over `enough`
 * (*over), or the time was over. EPS_OK, EPS_CANCELED, EPS_TIMEOUT, EPS_NO_MEMORY, EPS_INTERNAL (a value over the law's
 * bound).
 */
enum eps_status eps__mc_draw(struct eps__mc_estimator *estimator, bool *complete, bool *over,
                             const struct eps__mc_run *run);

/* What draws are for: those of different purposes are independent. The high half of a candidate's number. */
enum eps__mc_purpose { EPS__MC_PILOT, EPS__MC_CANDIDATE, EPS__MC_AUDIT };

/* The seed: the job's own, or a hash of what it asks, and of nothing that does not change the question; in [0, 2^53]. */
uint64_t eps__mc_seed(const struct eps__setting *setting);

/* A whole number of chunks of at least so many draws. */
uint64_t eps__mc_whole(uint64_t samples);

/* Seconds by CLOCK_MONOTONIC. */
double eps__mc_now(void);

#endif
