/*
 * Shared by the files of server/work/: the mutex of the works, and what is open.
 *
 * Locks, from outer to inner: that of the jobs, that of the works, then those that waiters take (of the suspended
 * connections and of libmicrohttpd). The mutexes of the pools and of the queue of the store are leaves.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_WORK_INTERNAL_H
#define SERVER_WORK_INTERNAL_H

#include <pthread.h>

#include "server/work/work.h"

struct works {
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* for sleepers: a part has ended, or a work is unwanted */
    struct map open;        /* by key */
    atomic_bool stopping;
};

/* A factorisation that is computed as part of another work, its parent. It has no task of its own. */
struct part {
    struct work work; /* first */
    struct work *parent;
    struct part *next; /* of the parent */
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
