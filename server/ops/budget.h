/*
 * A limit on the bytes of something that is shared. Users request bytes first; a refusal is a normal outcome.
 * Thread-safe.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_OPS_BUDGET_H
#define SERVER_OPS_BUDGET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "server/ops/metrics.h"

struct budget {
    _Atomic uint64_t held;
    uint64_t most;
    enum metric gauge; /* shows the bytes held */
};

/* Adds `bytes` if the total stays within `limit` (at most budget->most). Returns false if not. */
static inline bool budget_take(struct budget *budget, uint64_t bytes, uint64_t limit)
{
    uint64_t held = atomic_load_explicit(&budget->held, memory_order_relaxed);
    do {
        if (bytes > limit || held > limit - bytes)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&budget->held, &held, held + bytes, memory_order_relaxed,
                                                    memory_order_relaxed));
    metric_add(budget->gauge, (int64_t)bytes);
    return true;
}

static inline void budget_give(struct budget *budget, uint64_t bytes)
{
    atomic_fetch_sub_explicit(&budget->held, bytes, memory_order_relaxed);
    metric_add(budget->gauge, -(int64_t)bytes);
}

#endif
