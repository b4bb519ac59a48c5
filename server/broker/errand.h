/*
 * A question that a worker computes for a server, in a cell. What the cell asks for, the worker asks the server for,
 * unless it has it itself. The threads of errands and that of the link share one mutex, that of the desk.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_BROKER_ERRAND_H
#define SERVER_BROKER_ERRAND_H

#include <pthread.h>
#include <stdatomic.h>

#include "server/broker/letter.h"
#include "server/broker/link.h"
#include "server/cells/cells.h"
#include "server/ops/map.h"
#include "server/ops/memory.h"
#include "server/work/pool.h"

/* What all errands of a worker share. */
struct desk {
    const struct config *config;
    char name[LETTER_NAME_SIZE];
    struct link *link;
    struct cells *cells;
    struct memory *blobs; /* by realm, kind and key */
    pthread_mutex_t mutex;
    pthread_cond_t news; /* something was found, or an errand is over */
    atomic_bool leaving; /* computations stop, and their questions are given back */
};

enum errand_state {
    ERRAND_RUNS,
    ERRAND_ENDS, /* its last letter, the answer or the question, waits for the broker to store it */
    ERRAND_OVER  /* it was stopped: nothing is to be sent */
};

struct errand {
    struct pool_task task; /* first */
    struct map_node node;
    char key[65];
    struct desk *desk;
    void (*done)(struct errand *errand); /* called when it has been computed, on its thread */
    struct letter_question letter;       /* its frame is in `bytes` */
    enum errand_state state;
    uint64_t epoch, tag;  /* of its delivery */
    uint64_t ticket;      /* of its last letter */
    bool sent;            /* the last letter has gone to the broker, on this connection */
    struct packet last;   /* that letter */
    struct errand *again; /* another asking of the question: it begins if this one is stopped; or NULL */
    bool failed;          /* the answer is an error */
    atomic_bool stopped;  /* the server does not want it any more */
    double started;       /* monotonic seconds */
    double told;          /* the last progress */
    uint64_t number;      /* of the last lookup */
    bool answered;        /* that lookup was */
    void *found;          /* what was found; NULL: nothing */
    size_t found_len;
    size_t len;
    uint8_t bytes[]; /* the letter with the question, as it came */
};

/* NULL: out of memory. bytes: a letter that letter_read_question() reads; it is copied. */
struct errand *errand_create(struct desk *desk, const void *bytes, size_t len);
void errand_destroy(struct errand *errand);
/* Computes it, and writes `last` unless it was stopped. */
void errand_run(struct pool_task *task);
/* Under the mutex of the desk: what a server says about it. Returns false if it makes no sense. */
bool errand_hear_locked(struct errand *errand, const struct letter_speech *speech);

/* Of desk.blobs. */
memory_count_fn errand_blob_retain;
memory_count_fn errand_blob_release;

/* Whether that server was heard of lately; under the mutex of the desk. See desk.c. */
bool desk__lives_locked(struct desk *desk, const char *server);

#endif
