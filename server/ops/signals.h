/*
 * SIGTERM and SIGINT ask for a graceful stop. They are blocked in every thread and taken synchronously by one of our
 * own: no code of ours runs in their handlers. Who was asked has so many seconds; then the process ends, whatever
 * thread may still be busy, because what must last is in committed transactions and not in an orderly end.
 *
 * SIGHUP stops too where the process has a terminal, which then has gone; otherwise it is what log rotation and
 * `reload` send, there is nothing to reload, and it is logged. Under nohup it stays ignored.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_OPS_SIGNALS_H
#define SERVER_OPS_SIGNALS_H

#include <stdbool.h>

/* Blocks them, and ignores SIGPIPE and SIGXFSZ: a write that fails says so. Call before any thread starts: threads
 * inherit the mask. */
void signals_start(void);
/* Starts the thread that takes them. overdue() is called on it if the process still lives `seconds` after the first
 * (or at a second one): it says a last word and returns the exit status. False: no thread. */
bool signals_watch(double seconds, int (*overdue)(void *user), void *user);
/* Waits for the first and returns its number. */
int signals_wait(void);
/* True once the process was asked to stop. */
bool signals_asked(void);

#endif
