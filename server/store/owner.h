/*
 * Ownership of the database. The file FILE-lock next to it is locked exclusively by a service during its lifetime, and
 * records how the process ended, so that the next one can decide whether a running job was the cause. Thread-safe,
 * except for owner_release().
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
    OWNER_STOPPED, /* by request, or there was none */
    OWNER_CRASHED, /* by its own fault, in the named computation or outside of computations */
    OWNER_STARVED, /* without a record, and the kernel has killed a process because of memory shortage since the last
                    * heartbeat */
    OWNER_VANISHED /* without a record: killed from outside, or the machine stopped */
};

struct owner_past {
    enum owner_end end;
    char name[CRASH_NAME_SIZE]; /* OWNER_CRASHED: the hash of the current computation; "": there was none */
    int64_t last_beat;          /* ms: the last time at which it was certainly alive */
    int64_t alive_ms;           /* from owner_begin() until then, by a clock that nobody sets; -1: unknown */
    int64_t set_ms;             /* how far the time of day was set forward meanwhile; backward if negative */
};

/* How long, in ms until its last heartbeat, that service did what it had begun at this time of day: exactly if the time
 * of day was not set meanwhile, and at least so long, but not longer than the service was alive, if it was set once. */
int64_t owner_past_since(const struct owner_past *past, int64_t began_at);

/*
 * Claims the database, which is created if it does not exist. A guest claims it if no service has it, and otherwise
 * continues without the claim. Returns NULL with a message if it is claimed by another process or cannot be locked.
 */
struct owner *owner_claim(const char *database, bool guest, char *message, size_t message_size);
/* Returns false, with a message, if the file has several hard links. */
bool owner_one_name(const char *database, char *message, size_t message_size);
/* Returns false for a guest next to a service. */
bool owner_has(const struct owner *owner);
/* A guest releases the database, so that a service can start. */
void owner_yield(struct owner *owner);
struct owner_past owner_past(const struct owner *owner);
/* The real path of the database, which is the same for all its names. */
const char *owner_database(const struct owner *owner);
/* Call when the past has been handled: from now on the file describes this process, with "vanished" as the default
 * end. */
void owner_begin(struct owner *owner);
/* Records that the process is alive, for how long, and the current number of kernel kills. */
void owner_beat(struct owner *owner);
/* Records that the process was asked to stop: however it ends, no job was the cause. */
void owner_stop(struct owner *owner);
/* The file to which crash_start() writes what owner_past() reads. */
int owner_file(const struct owner *owner);
/* NULL is allowed. */
void owner_release(struct owner *owner);

#endif
