/*
 * Sets the allocator of jansson when the program is loaded, before any value is created and while there is only one
 * thread.
 *
 * If malloc() fails, requests of a size to which the buffer of the lexer can double are served from the reserve. Other
 * requests fail; jansson checks those, so it stops soon. A few of them may happen to have such a size; the slack is for
 * them.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "api/json/memory.h"

#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>

#define RESERVE_MOST ((size_t)1 << 14)
#define SLACK ((size_t)1 << 12)
#define BUFFER_LEAST 16 /* of jansson 2.14 */

static _Thread_local struct {
    size_t failures;
    char *block;
    size_t used, len;
} memory;

static void *from_reserve(size_t size)
{
    if (size <= BUFFER_LEAST || (size & (size - 1)) != 0 || size > memory.len - memory.used)
        return NULL;
    memory.used += size;
    return memory.block + memory.used - size;
}

static void *give(size_t size)
{
    void *block = malloc(size);
    if (block)
        return block;
    memory.failures++;
    return from_reserve(size);
}

static void take(void *block)
{
    bool reserved = memory.block && (uintptr_t)block - (uintptr_t)memory.block < memory.len;
    if (!reserved)
        free(block);
}

__attribute__((constructor)) static void tell_jansson(void)
{
    json_set_alloc_funcs(give, take);
}

size_t api__json_failures(void)
{
    return memory.failures;
}

bool api__json_reserve(size_t len)
{
    /* The sum 32 + 64 + ... up to the first power of two above the length. */
    size_t room = SLACK + 4 * (len < RESERVE_MOST ? len : RESERVE_MOST);
    memory.block = malloc(room);
    memory.len = memory.block ? room : 0;
    memory.used = 0;
    return memory.block != NULL;
}

void api__json_release(void)
{
    free(memory.block);
    memory.block = NULL;
    memory.len = memory.used = 0;
}
