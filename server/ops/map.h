/*
 * A hash map from text to the struct that embeds its node: there is no allocation per entry, so an insertion fails only
 * if the first table cannot be allocated. Keys are borrowed from the embedding struct. Thread-compatible.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_OPS_MAP_H
#define SERVER_OPS_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct map_node {
    struct map_node *next;
    const char *key;
    uint64_t hash;
};

/* Zero-initialise. */
struct map {
    struct map_node **buckets;
    size_t capacity; /* a power of two */
    size_t len;
};

struct map_node *map_find(const struct map *map, const char *key);
/* The key must not be in the map. False: out of memory. */
bool map_insert(struct map *map, struct map_node *node, const char *key);
void map_remove(struct map *map, struct map_node *node);
void map_clear(struct map *map); /* frees the table, not the entries */

#define MAP_ENTRY(node, type, member) ((type *)(void *)((char *)(node)-offsetof(type, member)))

#endif
