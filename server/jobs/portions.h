/*
 * The draws of one computation that workers make for it: portions of its chunks, which it announces. Each is a question
 * at the broker, and a thread of the pool `remote` waits for its answer. What a worker draws is what the computation
 * itself would draw, to the bit, so it does not matter who draws what, how often, and in which order.
 *
 * A portion that nobody can draw is not there, and the computation draws it itself. Thread-safe.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_JOBS_PORTIONS_H
#define SERVER_JOBS_PORTIONS_H

#include "api/codec/codec.h"
#include "server/jobs/compute.h"

struct portions;

/* Whether the draws of that job, of so many seconds, are divided. The caller then gives the place back. */
bool portions_take_place(struct server *server, const struct api_job *job, double seconds);
void portions_give_place(struct server *server);

/* For a computation of the job, which both outlive it. NULL: out of memory. */
struct portions *portions_create(struct computation *computation, const struct api_job *job);
/* Withdraws what is not drawn yet, and waits until no thread is at it. NULL is allowed. */
void portions_destroy(struct portions *portions);

/* The hook `ahead` of the computation. */
void portions_ahead(struct portions *portions, const struct eps_portion *announced);
/* A chunk, which the caller frees. Waits while its portion is being drawn, and calls stops() meanwhile. Returns false
 * if there is none. */
bool portions_chunk(struct portions *portions, const uint8_t key[32], bool (*stops)(void *user), void *user,
                    void **chunk, size_t *len);

#endif
