/*
 * See cache.h.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "tests/unit/cache.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/test.h"

static struct blob *find(struct cache *cache, const uint8_t key[32])
{
    for (size_t i = 0; i < cache->len; i++)
        if (memcmp(cache->blobs[i].key, key, 32) == 0)
            return &cache->blobs[i];
    return NULL;
}

static bool get(void *user, enum eps_cache_kind kind, const uint8_t key[32], void **blob, size_t *blob_len)
{
    const struct blob *found = kind == EPS_CACHE_FACTORIZATION ? find(user, key) : NULL;
    if (!found)
        return false;
    *blob = malloc(found->len + 1);
    assert_non_null(*blob);
    memcpy(*blob, found->bytes, found->len);
    *blob_len = found->len;
    return true;
}

static void put(void *user, enum eps_cache_kind kind, const uint8_t key[32], const void *blob, size_t blob_len)
{
    struct cache *cache = user;
    if (kind != EPS_CACHE_FACTORIZATION || find(cache, key))
        return;
    assert_true(cache->len < CACHE_BLOBS);
    struct blob *made = &cache->blobs[cache->len++];
    memcpy(made->key, key, 32);
    made->bytes = malloc(blob_len + 1);
    assert_non_null(made->bytes);
    memcpy(made->bytes, blob, blob_len);
    made->len = blob_len;
}

struct eps_context cache_context(struct cache *cache)
{
    return (struct eps_context){.user = cache, .cache_get = get, .cache_put = put};
}

void cache_clear(struct cache *cache)
{
    for (size_t i = 0; i < cache->len; i++)
        free(cache->blobs[i].bytes);
    *cache = (struct cache){0};
}
