/*
 * Caches step PLDs in the caller's cache.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_PLD_GRID_CACHE_H
#define EPS_PLD_GRID_CACHE_H

#include <stdatomic.h>

#include "lib/pld/pld.h"

/* How often the cache had the answer. Shared by the threads of a solve. */
struct eps__cache_use {
    atomic_uint hits, misses;
};

/* EPS_CACHE_MISS if anything was computed, EPS_CACHE_HIT if everything came from the cache, EPS_CACHE_UNUSED if nothing
 * was requested. */
enum eps_cache_state eps__cache_use_state(const struct eps__cache_use *cache_use);

/* As eps__pld_build(), but takes the result from the context's cache if it is there. What is built faster than it is
 * looked up, such as a sampled Gaussian, is neither sought nor offered. The key is a hash of the branches,
 * the plans, the estimate and the accounting version, so that a cached result has the same bits as a computed one. */
enum eps_status eps__pld_obtain(const struct eps_context *context, struct eps__cache_use *cache_use,
                                struct eps__pld *pld, const struct eps__branch *branches,
                                const struct eps__pld_plan *plans, size_t len, enum eps__estimate estimate);

#endif
