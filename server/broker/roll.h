/*
 * The workers that a server has heard of. Thread-compatible.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_BROKER_ROLL_H
#define SERVER_BROKER_ROLL_H

#include "server/broker/letter.h"

#define ROLL_THREADS_MOST 4096   /* of a worker */
#define ROLL_MOST 4096           /* workers; further ones are not listed, and refused */
#define ROLL_SILENT_SECONDS 10.0 /* a worker that was silent for this long is lost, */
#define ROLL_GONE_SECONDS 600.0  /* and after this long it is forgotten */

enum worker_state { WORKER_READY, WORKER_REFUSED, WORKER_LEAVING, WORKER_LOST };

struct roll_worker {
    struct letter_status status; /* the last one; not what it holds */
    double heard;                /* monotonic seconds */
    char why[512];               /* it is refused; "": it is not */
};

struct roll {
    struct roll_worker *workers;
    size_t len;
};

/* What a worker must have to be accepted. */
struct roll_demand {
    struct build build;
    uint64_t max_bytes;
};

/* Notes its status. Returns the worker, or NULL if there is no room; *fresh: it was not known, or was lost. */
const struct roll_worker *roll_note(struct roll *roll, const struct letter_status *status,
                                    const struct roll_demand *demand, double now, bool *fresh);
enum worker_state roll_state(const struct roll_worker *worker, double now);
const char *roll_state_name(enum worker_state state);
size_t roll_ready(const struct roll *roll, double now);   /* workers */
size_t roll_threads(const struct roll *roll, double now); /* of these */
void roll_forget(struct roll *roll, double now);          /* those who are long gone */
void roll_clear(struct roll *roll);

#endif
