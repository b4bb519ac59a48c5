/*
 * The succeeded job for which a client draws batches or noise, so that what is drawn is what its answer accounts for.
 * In a job with phases, ?phase selects the phase.
 *
 * Thread-compatible.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_ROUTES_JOBS_ACCOUNTED_H
#define SERVER_ROUTES_JOBS_ACCOUNTED_H

#include "server/routes/jobs/answered.h"
#include "server/routes/streaming.h"

struct accounted {
    struct answered answered;
    struct api_job *decoded; /* owns what the mechanism borrows; or NULL */
    struct poster poster;    /* of the job */
};

/* what: the noun for messages, such as "noise". Returns false after the reply has been set. Release with
 * accounted_clear(). */
bool accounted_find(struct streaming *streaming, struct accounted *accounted, const char *id, const char *what);
void accounted_clear(struct accounted *accounted);

#endif
