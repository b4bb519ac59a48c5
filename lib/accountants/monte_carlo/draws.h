/*
 * Many draws of a law. They are made in chunks, and blocks of chunks are computed by the caller's threads
 * (context->parallel_for). Each block's sums are a plain value, which the caller may store and return later through the
 * context's cache. The result has the same bits for any number of threads, in any order, and after any interruption.
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
    double sigma; /* of the law */
    uint64_t seed;
    uint64_t candidate; /* estimates with one seed and different candidate numbers have independent draws */
    uint64_t samples;   /* > 0; rounded up to whole chunks */
    double enough;      /* the run may end once the mean over all samples must exceed this at the grid's first point;
                         * INFINITY: never */
    double until;       /* the time at which to end, in seconds of CLOCK_MONOTONIC; INFINITY: no limit */
    double begun;       /* when the task began, by the same clock; used if `until` is finite */
    bool whole;         /* fewer samples are of no use: the run ends early if the time will clearly be over first */
    double from, to;    /* the part of the task's work that this run is, in [0, 1]; for progress reports */
};

/*
 * Draws into an empty estimator. *complete: all samples were drawn. *over: the mean over all samples must exceed
 * `enough`. If neither holds, the time was over, or would have been. EPS_OK, EPS_CANCELED, EPS_TIMEOUT, EPS_NO_MEMORY,
 * EPS_INTERNAL (a value exceeds the law's bound).
 */
enum eps_status eps__mc_draw(struct eps__mc_estimator *estimator, bool *complete, bool *over,
                             const struct eps__mc_run *run);

struct eps__mc_portion;

/* Makes the draws of a portion from a law that was opened by its aim, and offers them to the cache of the setting's
 * context. EPS_INVALID: they would not be the draws of that run. Otherwise as eps__mc_draw(). */
enum eps_status eps__mc_draw_portion(const struct eps__mc_portion *portion, const struct eps__setting *setting,
                                     const struct eps__mc_law *law);

/* The purpose of draws; draws of different purposes are independent. It is the high half of `candidate`. */
enum eps__mc_purpose { EPS__MC_PILOT, EPS__MC_CANDIDATE, EPS__MC_AUDIT, EPS__MC_UNPROVEN };

/* The job's accountant.seed, or else a hash of the mechanism and the query; in [0, 2^53]. */
uint64_t eps__mc_seed(const struct eps__setting *setting);

/* The number of draws rounded up to whole chunks. */
uint64_t eps__mc_whole(uint64_t samples);

/* The time in seconds of CLOCK_MONOTONIC. */
double eps__mc_now(void);

#endif
