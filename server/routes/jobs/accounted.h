/*
 * The succeeded job whose batches or noise a client has drawn: what is drawn is what its answer accounts for. Of a job of phases
 * the one that ?phase names.
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
};

/* what: is drawn, for the messages. False: the streaming's reply says why. Release with accounted_clear(). */
bool accounted_find(struct streaming *streaming, struct accounted *accounted, const char *id, const char *what);
void accounted_clear(struct accounted *accounted);

#endif
