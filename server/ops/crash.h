/*
 * Records a crash: one line that names the computation in which the fault occurred, so that the next start attributes
 * it to that computation only. Thread-safe.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_OPS_CRASH_H
#define SERVER_OPS_CRASH_H

#define CRASH_MARK "crashed "
#define CRASH_NAME_SIZE 65 /* the name of a computation is the hash of its job */

/* The computation of this thread; "" if it has no name. */
struct crash_scope {
    char name[CRASH_NAME_SIZE];
};
/* Sets the computation of this thread (NULL: none with a name); returns the previous one. */
struct crash_scope crash_enter(const char *name);
void crash_leave(const struct crash_scope *before);

/* From now on a fatal signal that this process caused writes CRASH_MARK and the name of the computation (or "-") to the
 * start of the file. It is then handled as before, like one that another process sent. Call once, from one thread. */
void crash_start(int file);
/* Writes the same line now, for the computation of that name ("" for none): the process ends because of it, without a
 * fault. */
void crash_trace(const char *name);
/* Sets a signal stack for this thread, so that a stack overflow in a computation is recorded too. */
void crash_thread_start(void);
void crash_thread_end(void);

#endif
