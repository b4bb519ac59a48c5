/*
 * Figures of a result that workers compute on the first request, after the waiting jobs, and that are then stored: the
 * privacy curve, unless the job asked for it, and epsilon in the course of the training. Each is computed once for all
 * requests that wait for it; the computation stops if no request waits any longer. Thread-safe.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_JOBS_FIGURE_H
#define SERVER_JOBS_FIGURE_H

#include "api/codec/codec.h"
#include "server/jobs/compute.h"
#include "server/jobs/jobs.h"

struct figure_kind {
    enum work_kind work;
    double effort; /* the approximate cost relative to that of the job */
    bool (*missing)(struct jobs *jobs, const struct result_record *result);
    /* Computes and stores it. It may change the job. */
    void (*compute)(struct jobs *jobs, struct computation *computation, struct api_job *job,
                    const struct result_record *result);
    /* Stores, in its place, that it could not be computed; on the watchdog thread. */
    void (*give_up)(struct jobs *jobs, const struct result_record *result);
};

/* What is asked for; all borrowed. */
struct figure_asked {
    const struct figure_kind *kind;
    const struct job_record *record;
    struct result_record *result;
    const struct quota *quota;
};

#define FIGURE_STUCK                                                                                           \
    "its computation did not stop in time and was abandoned, which is a bug in the service: please report it " \
    "report it"

/* Makes the waiter wait for the figure of the result, starting its computation if necessary, on behalf of the key
 * record->poster.key (which need not have posted the job). Returns false if the queue is full, memory runs out, or the
 * service is stopping; or if the quota is used up: then refusal->seconds is set. */
bool jobs_figure_wait(struct jobs *jobs, const struct figure_asked *asked, struct waiter *waiter,
                      struct quota_refusal *refusal);
/* Like waiter_withdraw(). When the last waiter leaves, the computation ends: at once if it has not started, otherwise
 * after some seconds, in which a client that was told to retry may return. */
bool jobs_figure_leave(struct jobs *jobs, struct waiter *waiter);

/* ---------------------------------------------------------------- the privacy curve */

extern const struct figure_kind figure_curve;

/* Whether the curve of the result has not been requested yet: it has neither points nor a note that explains why there
 * are none. */
static inline bool curve_missing(const struct result_record *result)
{
    return !result->points_len && !result->note;
}

/* ---------------------------------------------------------------- epsilon in the course of the training */

/* Immutable and reference-counted. */
struct spend {
    atomic_int references;
    struct eps_error error; /* status EPS_OK: there are points; otherwise why there are none */
    size_t len;
    struct eps_spend_point points[];
};

/* NULL: out of memory. Copies `points`. */
struct spend *spend_create(const struct eps_spend_point *points, size_t len, const struct eps_error *error);
void spend_release(struct spend *spend);
/* The stored points, retained for the caller; NULL if there are none. */
struct spend *jobs_spend(struct jobs *jobs, const struct result_record *result);
void jobs_spend_keep(struct jobs *jobs, const struct result_record *result, struct spend *spend);

#endif
