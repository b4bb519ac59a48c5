/*
 * A unit of work: one computation and all who wait for it. Whoever wants what a piece of work of the same kind and key
 * computes already waits for that one. What it needs of another (an optimised factorisation, which jobs that differ in
 * sigma or delta share) is a part: the first to need it computes it, its parent, and the others wait for the part.
 * Thread-safe.
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

#define WORK_KEY_SIZE 66 /* the kind's letter, 64 hex digits and NUL */

struct works;

enum work_kind {
    WORK_SOLVE,   /* a job; by the job's hash */
    WORK_CURVE,   /* the curve of a result; by the result's hash */
    WORK_SPEND,   /* what its training had spent on the way; the same */
    WORK_DRAWING, /* a file for one request; without a key */
    WORK_FACTORIZATION
};

/* ---------------------------------------------------------------- who waits */

/* A callback, called once. It is called under the room's mutex: it must neither block nor call the room. Embed it; set
 * fn and user, and leave the rest zero. */
struct waiter {
    void (*fn)(void *user);
    void *user;
    /* The room's. */
    struct works *works;
    struct waiter *prev;
    struct waiter *next;
    struct waiters *list; /* NULL: it does not wait (not yet, or no more) */
};

/* Those who wait for one thing. Zero-initialise; call them before it goes. */
struct waiters {
    struct waiter *first;
};

void waiters_add(struct works *works, struct waiters *waiters, struct waiter *waiter);
void waiters_call(struct works *works, struct waiters *waiters);
/* True: it was not called and will not be. False: it was called, or does not wait yet. */
bool waiter_withdraw(struct waiter *waiter);

/* What becomes of a cancel of whatever is made of work. */
enum cancel_outcome {
    CANCEL_NOT_LIVE, /* final, or unknown */
    CANCEL_ENDING,   /* it is being finished: wait for it */
    CANCEL_STARTED,  /* the waiter is called once it is canceled, or once that could not be written yet */
    CANCEL_FAILED    /* out of memory */
};
/* ---------------------------------------------------------------- what they wait for */

/* Embed it; work_init() first. */
struct work {
    struct pool_task task; /* its thread and its turn: run, seconds, arrived, background, alone_seconds */
    struct works *works;
    enum work_kind kind;
    char key[WORK_KEY_SIZE]; /* "": none */
    /* How far it is, to be read at any time. */
    _Atomic double fraction;
    _Atomic double remaining_seconds; /* NAN: unknown */
    _Atomic(const char *) stage;      /* static, or NULL */
    atomic_uint changes;              /* of these three */
    atomic_bool canceled;             /* no one wants it any more */
    _Atomic double left_at;           /* monotonic seconds when the last who waited left; INFINITY: someone waits */
    /* The room's. */
    struct map_node node;
    bool listed;
    struct waiters waiters;
    struct waiters listeners; /* for the next change, or the end */
    atomic_bool listened;     /* there are some */
    struct part *parts;       /* its children: what it computes for others too */
    struct sleeper *sleepers; /* its threads that wait for a part of another */
};

struct works *works_create(void);
/* Nothing waits any more. NULL is allowed. */
void works_destroy(struct works *works);
/* All work becomes unwanted. */
void works_stop(struct works *works);

void work_init(struct work *work, struct works *works, enum work_kind kind, const char *hash);
static inline const char *work_hash(const struct work *work)
{
    return work->key + 1;
}
/* The one of this kind and key that is open; whoever asks keeps it from closing meanwhile. NULL: none. */
struct work *work_find(struct works *works, enum work_kind kind, const char *hash);
/* The waiter waits for that one. False: none is open. */
bool work_join(struct works *works, enum work_kind kind, const char *hash, struct waiter *waiter);
/* Opens `fresh`, unless an equal one is open; the waiter (or NULL) waits for whichever is. Returns that one; NULL: no
 * memory. */
struct work *work_open(struct work *fresh, struct waiter *waiter);
/* As waiter_withdraw(), of a waiter that waits for a work if for anything; *left: that work, where it was the last one, else NULL.
 * Whoever calls keeps the work from closing meanwhile. */
bool work_leave(struct waiter *waiter, struct work **left);
/* An equal one starts afresh from here on, and the waiters are called. Nothing where it is closed already. */
void work_close(struct work *work);
/* It becomes unwanted, and looks at that soon, wherever it waits. */
void work_cancel(struct work *work);
/* Canceled, or the service stops. */
bool work_unwanted(struct work *work);
/* Keeps how far it is, and tells those who listen. */
void work_progress(struct work *work, double fraction, const char *stage, double remaining_seconds);
/* The waiter waits for the change after the one of that number (work->changes), or the end. False: it has come already. Whoever
 * calls keeps the work from closing meanwhile. */
bool work_listen(struct work *work, unsigned seen, struct waiter *waiter);
/* Calls those who listen. */
void work_tell(struct work *work);

/* ---------------------------------------------------------------- parts */

enum part_taken {
    PART_OWN,   /* the caller's, now or before: compute it */
    PART_ENDED, /* another had it and is done: look into the cache once more */
    PART_NONE   /* the work is unwanted, the deadline (monotonic seconds) has passed, there is no memory, or each would
                 * wait for the other: go on without it */
};

/* Takes the factorisation of that key as a part of the work. Where another has it, waits for its end; meanwhile the
 * place of this thread's task is free for other tasks. */
enum part_taken part_take(struct work *work, const uint8_t key[32], double deadline);
/* Whether another computes that factorisation, and this work computes none that others may wait for. */
bool part_elsewhere(struct work *work, const uint8_t key[32]);
/* The waiter waits for the end of whoever computes that factorisation. False: no one does. */
bool part_join(struct works *works, const uint8_t key[32], struct waiter *waiter);
/* The part has ended, if it is the work's; key NULL: all of its parts. */
void part_end(struct work *work, const uint8_t *key);

#endif
