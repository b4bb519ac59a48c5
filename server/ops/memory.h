/*
 * A cache in memory with a limit in bytes, which evicts the least recently used entry: finished documents by id,
 * results by hash. Values are reference-counted, so an evicted value lives until its last user releases it.
 * Thread-safe.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_OPS_MEMORY_H
#define SERVER_OPS_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct memory;

typedef void memory_count_fn(void *value);

struct memory *memory_create(size_t max_bytes, memory_count_fn *retain, memory_count_fn *release);
void memory_destroy(struct memory *memory);

/* The value, retained for the caller, or NULL. */
void *memory_get(struct memory *memory, const char *key);

/*
 * A mark that changes with every drop. Take the mark before reading a row that is to be cached: the put is ignored if
 * something was dropped since, so that a row that was deleted meanwhile is not cached.
 */
uint64_t memory_mark(struct memory *memory);
void memory_put(struct memory *memory, const char *key, void *value, size_t bytes, uint64_t mark);
void memory_drop(struct memory *memory, const char *key);
size_t memory_bytes(struct memory *memory); /* of its entries */

#endif
