/*
 * What the files of server/work/ share: the room's one mutex, and what is open.
 *
 * Locks, outer to inner: that of the jobs, then the room's, then what a waiter takes (that of the suspended connections,
 * and libmicrohttpd's). The pools' are leaves, as is the store's queue.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_WORK_INTERNAL_H
#define SERVER_WORK_INTERNAL_H

#include <pthread.h>

#include "server/work/work.h"

struct works {
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* for sleepers: a part has ended, some work is unwanted */
    struct map open;        /* by key */
    atomic_bool stopping;
};

/* A factorisation that is computed in the course of another work, its parent: it has no task of its own. */
struct part {
    struct work work; /* first */
    struct work *parent;
    struct part *next; /* of the parent's */
};

/* A thread that waits for a part. */
struct sleeper {
    struct waiter waiter;
    struct part *part; /* NULL: it has ended */
    struct sleeper *next;
};

struct work *work__find_locked(struct works *works, const char key[WORK_KEY_SIZE]);
bool work__list_locked(struct work *work);
void work__close_locked(struct work *work);
void waiter__add_locked(struct works *works, struct waiters *waiters, struct waiter *waiter);
void waiter__remove_locked(struct waiter *waiter);

#endif
