/*
 * SIGTERM and SIGINT ask for a graceful stop. They are blocked in every thread and taken synchronously by main:
 * no code of ours runs in a signal handler.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_OPS_SIGNALS_H
#define SERVER_OPS_SIGNALS_H

#include <stdbool.h>

/* Blocks both, and ignores SIGPIPE. Call before any thread starts: threads inherit the mask. */
void signals_start(void);
/* Waits for one of them and returns its number. */
int signals_wait(void);
/* True once one of them is pending (not taken). */
bool signals_pending(void);

#endif
