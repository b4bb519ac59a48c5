/*
 * SIGTERM and SIGINT request a graceful stop. They are blocked in every thread and received synchronously by a thread
 * of ours, so no handler runs our code. After a limited time the process ends even if threads are still busy, because
 * durability depends on committed transactions and not on an orderly end.
 *
 * SIGHUP stops the process too if it has a terminal, because the terminal is then gone. Otherwise it is what `reload`
 * sends. Under nohup it stays ignored.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_OPS_SIGNALS_H
#define SERVER_OPS_SIGNALS_H

#include <stdbool.h>

/* Blocks the signals, and ignores SIGPIPE and SIGXFSZ, so that a failed write returns an error. Call before any thread
 * starts: threads inherit the mask. */
void signals_start(void);
/* Starts the thread that receives them. It calls overdue() if the process is still alive `seconds` after the first
 * signal, or at a second one; overdue() prints a last message and returns the exit status. Returns false if no thread
 * can be started. */
bool signals_watch(double seconds, int (*overdue)(void *user), void *user);
/* What to do at SIGHUP, on the signal thread; NULL: nothing. user must remain valid until it is replaced. */
void signals_on_reload(void (*reload)(void *user), void *user);
/* Waits for the first signal and returns its number. */
int signals_wait(void);
/* Whether the process was asked to stop. */
bool signals_asked(void);

#endif
