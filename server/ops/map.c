/*
 * A hash map with chaining and intrusive nodes. Keys are ids and content hashes that the service generates, so a plain
 * FNV-1a is sufficient: clients cannot choose collisions.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/ops/map.h"

#include <stdlib.h>
#include <string.h>

static uint64_t map_hash(const char *key)
{
    uint64_t hash = 0xcbf29ce484222325U;
    for (; *key; key++)
        hash = (hash ^ (unsigned char)*key) * 0x100000001b3U;
    return hash ^ hash >> 32;
}

struct map_node *map_find(const struct map *map, const char *key)
{
    if (!map->len)
        return NULL;
    uint64_t hash = map_hash(key);
    struct map_node *node = map->buckets[hash & (map->capacity - 1)];
    while (node && (node->hash != hash || strcmp(node->key, key) != 0))
        node = node->next;
    return node;
}

/* Growing may fail; a table that is too full still works. */
static void map_grow(struct map *map)
{
    size_t capacity = map->capacity ? map->capacity * 2 : 64;
    struct map_node **buckets = calloc(capacity, sizeof *buckets);
    if (!buckets)
        return;
    for (size_t i = 0; i < map->capacity; i++) {
        struct map_node *node = map->buckets[i];
        while (node) {
            struct map_node *next = node->next;
            struct map_node **bucket = &buckets[node->hash & (capacity - 1)];
            node->next = *bucket;
            *bucket = node;
            node = next;
        }
    }
    free(map->buckets);
    map->buckets = buckets;
    map->capacity = capacity;
}

bool map_insert(struct map *map, struct map_node *node, const char *key)
{
    if (map->len >= map->capacity)
        map_grow(map);
    if (!map->capacity)
        return false;
    node->key = key;
    node->hash = map_hash(key);
    struct map_node **bucket = &map->buckets[node->hash & (map->capacity - 1)];
    node->next = *bucket;
    *bucket = node;
    map->len++;
    return true;
}

void map_remove(struct map *map, struct map_node *node)
{
    struct map_node **link = &map->buckets[node->hash & (map->capacity - 1)];
    while (*link != node)
        link = &(*link)->next;
    *link = node->next;
    map->len--;
}

void map_clear(struct map *map)
{
    free(map->buckets);
    *map = (struct map){0};
}
