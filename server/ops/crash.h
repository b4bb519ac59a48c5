/*
 * What a fault leaves behind: one line that names the computation in which it happened, so that the next start blames
 * that one and no other. Thread-safe.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_OPS_CRASH_H
#define SERVER_OPS_CRASH_H

#define CRASH_MARK "crashed "
#define CRASH_NAME_SIZE 65 /* of a computation: the hash of its job */

/* What this thread computes; "" for nothing that has a name. */
struct crash_scope {
    char name[CRASH_NAME_SIZE];
};
/* From here on this thread computes that (NULL: nothing that has a name); returns what it computed before. */
struct crash_scope crash_enter(const char *name);
void crash_leave(const struct crash_scope *before);

/* From now on a fatal signal that this process raised or brought about writes CRASH_MARK and the computation's name (or "-")
 * to the start of the file; it then goes its way as before, as does one that another process sent. Once, from one thread. */
void crash_start(int file);
/* Writes the same line now, of the computation of that name ("" for none): this process ends because of it, without a fault. */
void crash_trace(const char *name);
/* A stack for the handler on this thread, so that a computation that overflows its own is traced too. */
void crash_thread_start(void);
void crash_thread_end(void);

#endif
