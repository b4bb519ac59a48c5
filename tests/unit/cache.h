/*
 * A cache of factorisations in memory, as a caller of the library may have one.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef TESTS_UNIT_CACHE_H
#define TESTS_UNIT_CACHE_H

#include <stddef.h>
#include <stdint.h>

#include "lib/epsilon.h"

enum { CACHE_BLOBS = 64 };

/* Start from zeros. */
struct cache {
    struct blob {
        uint8_t key[32];
        uint8_t *bytes;
        size_t len;
    } blobs[CACHE_BLOBS];
    size_t len;
};

/* A context that has this cache and nothing else. */
struct eps_context cache_context(struct cache *cache);
void cache_clear(struct cache *cache);

#endif
