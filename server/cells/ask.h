/*
 * What the side that asks does with what it is told while it waits, whatever carries the messages. Thread-compatible.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_CELLS_ASK_H
#define SERVER_CELLS_ASK_H

#include "server/cells/message.h"

/* The hooks that the context has: bits of enum hook. */
unsigned ask_hooks(const struct eps_context *context);
/* Obeys MESSAGE_PROGRESS, MESSAGE_LOOKUP or MESSAGE_KEEP by these hooks. A lookup writes its reply, MESSAGE_FOUND,
 * which may have failed. Returns false if it makes no sense. */
bool ask_obey(const struct eps_context *context, uint8_t kind, struct unpack *payload, struct packet *reply);

#endif
