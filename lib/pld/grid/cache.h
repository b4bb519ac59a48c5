/*
 * Step PLDs through the caller's cache.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_PLD_GRID_CACHE_H
#define EPS_PLD_GRID_CACHE_H

#include <stdatomic.h>

#include "lib/pld/pld.h"

/* How often the cache answered; shared by the threads of one solve. */
struct eps__cache_use {
    atomic_uint hits, misses;
};

/* MISS if anything had to be computed, HIT if all came from the cache, UNUSED if nothing was asked. */
enum eps_cache_state eps__cache_use_state(const struct eps__cache_use *cache_use);

/* eps__pld_build(), or the same object from the context's cache: the key is a hash of the branches, the plans, the
 * estimate and the accounting version, so that the bits are those of a computation. */
enum eps_status eps__pld_obtain(const struct eps_context *context, struct eps__cache_use *cache_use,
                                struct eps__pld *pld, const struct eps__branch *branches,
                                const struct eps__pld_plan *plans, size_t len, enum eps__estimate estimate);

#endif
