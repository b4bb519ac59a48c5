/*
 * How a strategy fails: without memory, or because the context says so; other ways in words of their own.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_STRATEGY_FAILURES_H
#define EPS_STRATEGY_FAILURES_H

#include "lib/base/error.h"

enum eps_status eps__strategy_no_memory(struct eps_error *error);
/* EPS_OK, or what the context says. */
enum eps_status eps__strategy_poll(const struct eps_context *context, struct eps_error *error);

/* The same in words, for a status that a poll gave before; EPS_NO_MEMORY for any other but EPS_OK. */
enum eps_status eps__strategy_stopped(struct eps_error *error, enum eps_status status);

#endif
