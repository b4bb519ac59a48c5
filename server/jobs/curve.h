/*
 * The privacy curve of a result. Unless the job asked for it, it is computed when someone first asks for it, after the
 * jobs that wait, and stored with the result. A result without points and without a note of why is one whose curve no
 * one has asked for yet. Thread-safe.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_JOBS_CURVE_H
#define SERVER_JOBS_CURVE_H

#include "server/jobs/jobs.h"

static inline bool curve_missing(const struct result_record *result)
{
    return !result->points_len && !result->note;
}

/* The waiter waits for the curve of the job's result, which someone computes. False: the queue is full, there is no memory,
 * or the service stops. */
bool jobs_curve_wait(struct jobs *jobs, const struct job_record *record, struct result_record *result,
                     struct waiter *waiter);

#endif
