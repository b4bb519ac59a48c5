/*
 * A unit of work: one computation and all who wait for it. A request for what an open work of the same kind and key
 * computes waits for that work. What a work shares with others (an optimised factorisation, which jobs that differ in
 * sigma or delta have in common) is a part: the first work that needs it, its parent, computes it, and the others wait
 * for the part. Thread-safe.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_WORK_WORK_H
#define SERVER_WORK_WORK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "server/ops/map.h"
#include "server/work/pool.h"

#define WORK_KEY_SIZE 66 /* the letter of the kind, 64 hex digits and NUL */

struct works;

enum work_kind {
    WORK_SOLVE,   /* a job, by its hash */
    WORK_CURVE,   /* the curve of a result, by the hash of the result */
    WORK_SPEND,   /* epsilon in the course of the training, by the hash of the result */
    WORK_DRAWING, /* a file for one request; without a key */
    WORK_FACTORIZATION
};

/* ---------------------------------------------------------------- waiters */

/* A callback that is called once. It is called under the mutex of the works, so it must neither block nor call
 * functions of this file. Embed it; set fn and user, and leave the rest zero. */
struct waiter {
    void (*fn)(void *user);
    void *user;
    /* Private. */
    struct works *works;
    struct waiter *prev;
    struct waiter *next;
    struct waiters *list; /* NULL: it does not wait */
};

/* The waiters for one event. Zero-initialise; call them before it is freed. */
struct waiters {
    struct waiter *first;
};

void waiters_add(struct works *works, struct waiters *waiters, struct waiter *waiter);
void waiters_call(struct works *works, struct waiters *waiters);
/* Returns true if it was not called and will not be; false if it was called, or does not wait yet. */
bool waiter_withdraw(struct waiter *waiter);

/* The outcome of canceling something that is computed by a work. */
enum cancel_outcome {
    CANCEL_NOT_LIVE, /* final, or unknown */
    CANCEL_ENDING,   /* it is being finished: wait for it */
    CANCEL_STARTED,  /* the waiter is called when it is canceled, or when that could not be written yet */
    CANCEL_FAILED    /* out of memory */
};
/* ---------------------------------------------------------------- works */

/* Embed it; call work_init() first. */
struct work {
    struct pool_task task; /* its thread and its order: run, seconds, arrived, background, alone_seconds */
    struct works *works;
    enum work_kind kind;
    char key[WORK_KEY_SIZE]; /* "": none */
    /* The progress, which may be read at any time. */
    _Atomic double fraction;
    _Atomic double remaining_seconds; /* NAN: unknown */
    _Atomic(const char *) stage;      /* static, or NULL */
    atomic_uint changes;              /* of these three */
    atomic_bool canceled;             /* it is no longer wanted */
    _Atomic double left_at;           /* monotonic seconds at which the last waiter left; INFINITY: there are waiters */
    /* Private. */
    struct map_node node;
    bool listed;
    struct waiters waiters;
    struct waiters listeners; /* for the next change or the end */
    atomic_bool listened;     /* there are listeners */
    struct part *parts;       /* its parts, which it computes for others too */
    struct sleeper *sleepers; /* its threads that wait for a part of another work */
};

struct works *works_create(void);
/* There must be no waiters. NULL is allowed. */
void works_destroy(struct works *works);
/* Cancels all works. */
void works_stop(struct works *works);

void work_init(struct work *work, struct works *works, enum work_kind kind, const char *hash);
static inline const char *work_hash(const struct work *work)
{
    return work->key + 1;
}
/* The open work of this kind and key; the caller must keep it from closing meanwhile. NULL: none. */
struct work *work_find(struct works *works, enum work_kind kind, const char *hash);
/* Adds the waiter to that work. Returns false if there is none. */
bool work_join(struct works *works, enum work_kind kind, const char *hash, struct waiter *waiter);
/* Opens `fresh`, unless an equal work is open; adds the waiter (or NULL) to the open one. Returns that work; NULL: out
 * of memory. */
struct work *work_open(struct work *fresh, struct waiter *waiter);
/* Like waiter_withdraw(), for a waiter that can only wait for a work. *left: that work, if it was the last waiter,
 * otherwise NULL. The caller must keep the work from closing meanwhile. */
bool work_leave(struct waiter *waiter, struct work **left);
/* From here on an equal request opens a new work; calls the waiters. Does nothing if it is already closed. */
void work_close(struct work *work);
/* Marks it as unwanted, and wakes its sleeping threads. */
void work_cancel(struct work *work);
/* Whether it is canceled or the service is stopping. */
bool work_unwanted(struct work *work);
/* Stores the progress and calls the listeners. */
void work_progress(struct work *work, double fraction, const char *stage, double remaining_seconds);
/* Makes the waiter wait for the change after number `seen` (of work->changes), or for the end. Returns false if it has
 * already happened. The caller must keep the work from closing meanwhile. */
bool work_listen(struct work *work, unsigned seen, struct waiter *waiter);
/* Calls the listeners. */
void work_tell(struct work *work);

/* ---------------------------------------------------------------- parts */

enum part_taken {
    PART_OWN,   /* the caller must compute it */
    PART_ENDED, /* another work had it and is done: look into the cache again */
    PART_NONE   /* the work is unwanted, the deadline (monotonic seconds) has passed, memory ran out, or both works
                 * would wait for each other: continue without it */
};

/* Claims the factorisation of that key as a part of the work. If another work has it, waits for its end; meanwhile the
 * place of this task is available to other tasks. */
enum part_taken part_take(struct work *work, const uint8_t key[32], double deadline);
/* Whether another work computes that factorisation, and this one computes none that others may wait for. */
bool part_elsewhere(struct work *work, const uint8_t key[32]);
/* Makes the waiter wait for the end of the work that computes that factorisation. Returns false if there is none. */
bool part_join(struct works *works, const uint8_t key[32], struct waiter *waiter);
/* Ends the part, if it belongs to the work; key NULL: all of its parts. */
void part_end(struct work *work, const uint8_t *key);

#endif
