/*
 * An LRU cache: a hash map for lookup and a ring in order of use.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/ops/memory.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "server/ops/map.h"

#define KEY_SIZE 80
#define ENTRY_BYTES (sizeof(struct entry) + 64) /* including the overhead of the allocator and the map */

struct entry {
    struct map_node node;
    struct entry *newer;
    struct entry *older;
    void *value;
    size_t bytes;
    char key[KEY_SIZE];
};

struct memory {
    pthread_mutex_t mutex;
    struct map map;
    struct entry *newest;
    struct entry *oldest;
    size_t bytes;
    size_t max_bytes;
    uint64_t mark;
    memory_count_fn *retain;
    memory_count_fn *release;
};

struct memory *memory_create(size_t max_bytes, memory_count_fn *retain, memory_count_fn *release)
{
    struct memory *memory = calloc(1, sizeof *memory);
    if (memory) {
        pthread_mutex_init(&memory->mutex, NULL);
        memory->max_bytes = max_bytes;
        memory->retain = retain;
        memory->release = release;
    }
    return memory;
}

static void unlink_locked(struct memory *memory, struct entry *entry)
{
    *(entry->newer ? &entry->newer->older : &memory->newest) = entry->older;
    *(entry->older ? &entry->older->newer : &memory->oldest) = entry->newer;
}

static void link_locked(struct memory *memory, struct entry *entry)
{
    entry->newer = NULL;
    entry->older = memory->newest;
    *(memory->newest ? &memory->newest->newer : &memory->oldest) = entry;
    memory->newest = entry;
}

static void remove_locked(struct memory *memory, struct entry *entry)
{
    unlink_locked(memory, entry);
    map_remove(&memory->map, &entry->node);
    memory->bytes -= entry->bytes;
    memory->release(entry->value);
    free(entry);
}

static struct entry *find_locked(struct memory *memory, const char *key)
{
    struct map_node *node = map_find(&memory->map, key);
    return node ? MAP_ENTRY(node, struct entry, node) : NULL;
}

void memory_destroy(struct memory *memory)
{
    if (!memory)
        return;
    while (memory->oldest)
        remove_locked(memory, memory->oldest);
    map_clear(&memory->map);
    pthread_mutex_destroy(&memory->mutex);
    free(memory);
}

void *memory_get(struct memory *memory, const char *key)
{
    void *value = NULL;
    pthread_mutex_lock(&memory->mutex);
    struct entry *entry = find_locked(memory, key);
    if (entry) {
        unlink_locked(memory, entry);
        link_locked(memory, entry);
        value = entry->value;
        memory->retain(value);
    }
    pthread_mutex_unlock(&memory->mutex);
    return value;
}

uint64_t memory_mark(struct memory *memory)
{
    pthread_mutex_lock(&memory->mutex);
    uint64_t mark = memory->mark;
    pthread_mutex_unlock(&memory->mutex);
    return mark;
}

void memory_put(struct memory *memory, const char *key, void *value, size_t bytes, uint64_t mark)
{
    size_t len = strlen(key);
    bytes += ENTRY_BYTES;
    if (bytes > memory->max_bytes || len >= KEY_SIZE)
        return;
    struct entry *entry = calloc(1, sizeof *entry);
    if (!entry)
        return;
    memcpy(entry->key, key, len + 1);
    entry->value = value;
    entry->bytes = bytes;
    pthread_mutex_lock(&memory->mutex);
    struct entry *old = find_locked(memory, key);
    if (mark != memory->mark || old || !map_insert(&memory->map, &entry->node, entry->key)) {
        pthread_mutex_unlock(&memory->mutex);
        free(entry);
        return;
    }
    memory->retain(value);
    link_locked(memory, entry);
    memory->bytes += bytes;
    while (memory->bytes > memory->max_bytes)
        remove_locked(memory, memory->oldest);
    pthread_mutex_unlock(&memory->mutex);
}

void memory_drop(struct memory *memory, const char *key)
{
    pthread_mutex_lock(&memory->mutex);
    memory->mark++;
    struct entry *entry = find_locked(memory, key);
    if (entry)
        remove_locked(memory, entry);
    pthread_mutex_unlock(&memory->mutex);
}

size_t memory_bytes(struct memory *memory)
{
    pthread_mutex_lock(&memory->mutex);
    size_t bytes = memory->bytes;
    pthread_mutex_unlock(&memory->mutex);
    return bytes;
}
