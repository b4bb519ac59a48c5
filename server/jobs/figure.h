/*
 * Figures of a result that are computed when someone first asks for them, by workers, after the jobs that wait, and kept: its
 * privacy curve, unless the job asked for it, and what its training had spent on the way. One computation of each, and many who
 * wait for it; one that nobody waits for any more ends. Thread-safe.
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
    double effort; /* how many times its job it takes, roughly */
    bool (*missing)(struct jobs *jobs, const struct result_record *result);
    /* Computes and keeps it. The job is its own to change. */
    void (*compute)(struct jobs *jobs, struct computation *computation, struct api_job *job,
                    const struct result_record *result);
    /* Keeps, in its place, that it could not be computed; on the watchdog's thread. */
    void (*give_up)(struct jobs *jobs, const struct result_record *result);
};

#define FIGURE_STUCK                                                                                               \
    "its computation did not stop when it should have and was given up, which is a defect of the service: please " \
    "report it"

/* The waiter waits for the figure of the job's result, which someone computes. False: the queue is full, there is no memory, or the
 * service stops. */
bool jobs_figure_wait(struct jobs *jobs, const struct figure_kind *kind, const struct job_record *record,
                      struct result_record *result, struct waiter *waiter);
/* As waiter_withdraw(). The last one to leave ends the computation: at once if it has not begun, else after some seconds, in which
 * who was told to come back may. */
bool jobs_figure_leave(struct jobs *jobs, struct waiter *waiter);

/* ---------------------------------------------------------------- the privacy curve */

extern const struct figure_kind figure_curve;

/* A result without points and without a note of why is one whose curve no one has asked for yet. */
static inline bool curve_missing(const struct result_record *result)
{
    return !result->points_len && !result->note;
}

/* ---------------------------------------------------------------- what was spent */

/* Immutable, counted by reference. */
struct spend {
    atomic_int references;
    struct eps_error error; /* status EPS_OK: there are points; else why there are none */
    size_t len;
    struct eps_spend_point points[];
};

/* NULL: no memory. `points` is copied. */
struct spend *spend_create(const struct eps_spend_point *points, size_t len, const struct eps_error *error);
void spend_release(struct spend *spend);
/* What is kept, retained for the caller; NULL: nothing. */
struct spend *jobs_spend(struct jobs *jobs, const struct result_record *result);
void jobs_spend_keep(struct jobs *jobs, const struct result_record *result, struct spend *spend);

#endif
