/*
 * The errors that all strategies share: no memory, canceled, time limit.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_STRATEGY_FAILURES_H
#define EPS_STRATEGY_FAILURES_H

#include "lib/base/error.h"

/* Sets the error for a failed allocation; returns EPS_NO_MEMORY. */
enum eps_status eps__strategy_no_memory(struct eps_error *error);
/* EPS_OK, or EPS_CANCELED or EPS_TIMEOUT with a message if the context says so. */
enum eps_status eps__strategy_poll(const struct eps_context *context, struct eps_error *error);

/* Writes the message for a status that a poll returned earlier, and returns it. Any status but EPS_OK, EPS_CANCELED and
 * EPS_TIMEOUT becomes EPS_NO_MEMORY. */
enum eps_status eps__strategy_stopped(struct eps_error *error, enum eps_status status);

#endif
