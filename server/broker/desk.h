/*
 * The side of a worker: takes questions from the broker, computes as many at a time as it has threads, and answers the
 * servers that asked. A question is acknowledged when the broker has stored its answer, so one whose worker dies is
 * delivered to another. Thread-safe.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_BROKER_DESK_H
#define SERVER_BROKER_DESK_H

#include "server/ops/config.h"

struct desk_process;

/* Connects in the background; refused() is called once, on a thread of this desk, if servers refuse this worker and
 * none welcomes it; why: of the last one. Returns NULL with a message. */
struct desk_process *desk_create(const struct config *config, void (*refused)(const char *why), char *message,
                                 size_t message_size);
/* Gives back what is not answered, and disconnects. Returns false if that is not done by the deadline (monotonic
 * seconds); then nothing may be freed: what is not answered is delivered to another worker all the same. */
bool desk_stop(struct desk_process *process, double deadline);
/* After desk_stop(). Returns false if a cell ended in another way than it should. NULL is allowed. */
bool desk_destroy(struct desk_process *process);

#endif
