/*
 * Whose the database is. Beside it lies FILE-lock, on which a service holds an exclusive lock for as long as its process
 * lives, and in which stands how that process ends: what the next one finds there tells it whether a job that was
 * running is to blame. Thread-safe, but for owner_release().
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_STORE_OWNER_H
#define SERVER_STORE_OWNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/ops/crash.h"

struct owner;

/* How the last service on this database ended. */
enum owner_end {
    OWNER_STOPPED, /* as it was asked to, or there was none */
    OWNER_CRASHED, /* by a fault of its own, in the computation named or in none */
    OWNER_STARVED, /* it could not say, and the kernel has killed for want of memory since it last lived */
    OWNER_VANISHED /* it could not say: killed by someone, or the machine went down */
};

struct owner_past {
    enum owner_end end;
    char name[CRASH_NAME_SIZE]; /* OWNER_CRASHED: the hash of what was being computed; "" nothing was */
    int64_t last_beat;          /* ms: when it lived for certain */
};

/*
 * Claims the database, which is created empty where there is none. A guest claims it too if no service has it, and else
 * comes without. NULL with a message: it is another's, or cannot be had.
 */
struct owner *owner_claim(const char *database, bool guest, char *message, size_t message_size);
/* False, with a message: the file has several hard links. */
bool owner_one_name(const char *database, char *message, size_t message_size);
/* False: a guest beside a service. */
bool owner_has(const struct owner *owner);
/* A guest gives the database back, so that a service may start beside it. */
void owner_yield(struct owner *owner);
struct owner_past owner_past(const struct owner *owner);
/* The database's real path, which no other name of it changes. */
const char *owner_database(const struct owner *owner);
/* The past is dealt with: from now on the file tells of this process, which has vanished until it says otherwise. */
void owner_begin(struct owner *owner);
/* It lives, and so often the kernel has killed for want of memory. */
void owner_beat(struct owner *owner);
/* It was asked to stop: however it ends now, no job is to blame. */
void owner_stop(struct owner *owner);
/* Where crash_start() may write what owner_past() reads. */
int owner_file(const struct owner *owner);
/* NULL is allowed. */
void owner_release(struct owner *owner);

#endif
