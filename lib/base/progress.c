/*
 * Parts of contexts, and meters: see progress.h.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/base/progress.h"

#include <assert.h>
#include <math.h>

#define UNIT 0x1p40      /* units per expected work of a meter */
#define KNEE 0.7         /* below this fraction the estimate is reported as it is */
#define ENDED UINT64_MAX /* value of `done` once the task has ended */

/* ---------------------------------------------------------------- parts of a context */

static const struct eps_context *whole_of(const void *user)
{
    return ((const struct eps__context_part *)user)->whole;
}

static void part_progress(void *user, double fraction, const char *stage, double remaining_seconds)
{
    const struct eps__context_part *part = user;
    /* This part does not know how long the parts after it take. */
    double remaining = part->to < 1 ? NAN : remaining_seconds;
    part->whole->progress(part->whole->user, part->from + (part->to - part->from) * fraction, stage, remaining);
}

static bool part_canceled(void *user)
{
    return whole_of(user)->canceled(whole_of(user)->user);
}

static bool part_expired(void *user)
{
    return whole_of(user)->expired(whole_of(user)->user);
}

static void part_parallel_for(void *user, size_t count, void (*body)(void *arg, size_t index), void *arg)
{
    whole_of(user)->parallel_for(whole_of(user)->user, count, body, arg);
}

static bool part_cache_get(void *user, enum eps_cache_kind kind, const uint8_t key[32], void **blob, size_t *blob_len)
{
    return whole_of(user)->cache_get(whole_of(user)->user, kind, key, blob, blob_len);
}

static void part_cache_put(void *user, enum eps_cache_kind kind, const uint8_t key[32], const void *blob,
                           size_t blob_len)
{
    whole_of(user)->cache_put(whole_of(user)->user, kind, key, blob, blob_len);
}

static void part_ahead(void *user, const struct eps_portion *portion)
{
    whole_of(user)->ahead(whole_of(user)->user, portion);
}

const struct eps_context *eps__context_part(struct eps__context_part *part, const struct eps_context *whole,
                                            double from, double to)
{
    if (!whole)
        return NULL;
    *part = (struct eps__context_part){.whole = whole, .from = from, .to = to};
    part->context = (struct eps_context){
        .user = part,
        .progress = whole->progress ? part_progress : NULL,
        .canceled = whole->canceled ? part_canceled : NULL,
        .expired = whole->expired ? part_expired : NULL,
        .parallel_for = whole->parallel_for ? part_parallel_for : NULL,
        .cache_get = whole->cache_get ? part_cache_get : NULL,
        .cache_put = whole->cache_put ? part_cache_put : NULL,
        .ahead = whole->ahead ? part_ahead : NULL,
        .max_operations = whole->max_operations,
        .max_bytes = whole->max_bytes,
    };
    return &part->context;
}

void eps__for_all(const struct eps_context *context, size_t count, void (*body)(void *arg, size_t index), void *arg)
{
    if (context && context->parallel_for) {
        context->parallel_for(context->user, count, body, arg);
        return;
    }
    for (size_t i = 0; i < count; i++)
        body(arg, i);
}

/* ---------------------------------------------------------------- meters */

static const struct eps__meter *meter_at(const struct eps__meters *all, size_t i)
{
    return (const struct eps__meter *)(const void *)((const char *)all->items + i * all->stride);
}

/* The fraction done of the expected work. Above KNEE it grows ever more slowly, so that it stays below 1 if the
 * estimate was too low. *size: the expected operations. */
static double fraction_of(const struct eps__meter *meter, double *size)
{
    uint64_t units = atomic_load(&meter->done);
    double whole = 1 + (double)atomic_load(&meter->more) / UNIT, done = (double)units / UNIT / whole;
    *size = meter->expected * whole;
    if (units == ENDED)
        return 1;
    if (atomic_load(&meter->told))
        return done;
    return done <= KNEE ? done : 1 - (1 - KNEE) / (1 + log(done / KNEE) * KNEE / (1 - KNEE));
}

static void report(struct eps__meters *all)
{
    double done = 0, expected = 0;
    if (!all->context || !all->context->progress)
        return;
    for (size_t i = 0; i < all->len; i++) {
        double size, fraction = fraction_of(meter_at(all, i), &size);
        done += size * fraction;
        expected += size;
    }
    double fraction = fmin(done / expected, 1);
    unsigned now = (unsigned)(100 * fraction), before = atomic_load(&all->hundredths);
    while (now > before)
        if (atomic_compare_exchange_weak(&all->hundredths, &before, now)) {
            all->context->progress(all->context->user, fraction, "search", NAN);
            break;
        }
}

static uint64_t units_of(const struct eps__meter *meter, double operations)
{
    return (uint64_t)fmin(UNIT * operations / meter->expected, 16 * UNIT);
}

void eps__meter_add(struct eps__meter *meter, double operations)
{
    if (!meter)
        return;
    atomic_fetch_add(&meter->done, units_of(meter, operations));
    report(meter->all);
}

void eps__meter_expect(struct eps__meter *meter, double operations)
{
    if (meter)
        atomic_fetch_add(&meter->more, units_of(meter, operations));
}

void eps__meter_tell(struct eps__meter *meter, double fraction)
{
    if (!meter)
        return;
    assert(fraction >= 0 && fraction <= 1);
    uint64_t units = (uint64_t)(UNIT * fraction), before = atomic_load(&meter->done);
    atomic_store(&meter->told, true);
    while (before < units && !atomic_compare_exchange_weak(&meter->done, &before, units))
        ;
    report(meter->all);
}

void eps__meter_end(struct eps__meter *meter)
{
    atomic_store(&meter->done, ENDED);
    report(meter->all);
}
