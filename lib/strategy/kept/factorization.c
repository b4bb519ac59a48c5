/*
 * The cache of optimised factorisations: the optimiser's result before scaling, under the hash of what determines it
 * and of the accounting version. An optimiser may run for minutes, and its result is small, at most a few megabytes. So
 * it runs once for each matrix, workload and participation, whatever sigma, delta, probabilities and normalisation the
 * jobs have, and also across restarts if the blobs are kept.
 *
 * A blob holds the kind's name, its sizes and scalars, and its entries; a kind with more data has its own save and
 * load. A blob that cannot be read completely is ignored, and the result is computed again.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdlib.h>
#include <string.h>

#include "lib/strategy/failures.h"
#include "lib/strategy/kinds/kinds.h"
#include "lib/strategy/making.h"
#include "lib/strategy/kept/recipe.h"

#define NAME_MAX_BYTES 32
#define FORMAT 3 /* of blobs */

bool eps__factorization_key(uint8_t key[EPS__HASH_BYTES], const struct eps_mechanism *mechanism)
{
    struct eps__record recipe = {0};
    struct eps__hash hash;
    eps__recipe_write(&recipe, mechanism);
    if (!recipe.bad) {
        eps__hash_init(&hash, "optimised factorisation");
        eps__hash_u64(&hash, EPS_ACCOUNTING_VERSION);
        eps__hash_bytes(&hash, recipe.bytes, recipe.len);
        eps__hash_final(&hash, key);
    }
    bool made = !recipe.bad;
    eps__record_clear(&recipe);
    return made;
}

/* ---------------------------------------------------------------- blobs */

static void save(const struct eps_strategy *s, struct eps__record *out)
{
    char name[NAME_MAX_BYTES] = "";
    strncpy(name, s->kind->name, sizeof name - 1);
    eps__record_put_u64(out, FORMAT);
    eps__record_put(out, name, sizeof name);
    eps__record_put_u64(out, s->n);
    eps__record_put_u64(out, s->stamps);
    eps__record_put_u64(out, s->block_rows);
    eps__record_put_u64(out, s->iterations);
    eps__record_put_double(out, s->optimality_gap);
    eps__record_put_double(out, s->scale);
    eps__record_put_u64(out, s->height);
    eps__record_put_doubles(out, s->entries, s->entries_len);
    if (s->kind->save)
        s->kind->save(s, out);
}

/* Loads a blob into a strategy as a builder receives it. If the blob does not fit, the strategy is left in that
 * state. */
static bool load(struct eps_strategy *s, const void *blob, size_t blob_len)
{
    struct eps__record from = eps__record_over(blob, blob_len);
    char name[NAME_MAX_BYTES];
    bool fits = eps__record_get_u64(&from) == FORMAT && eps__record_get(&from, name, sizeof name);
    const struct eps__strategy_kind *kind = fits ? eps__kind_named(name, sizeof name) : NULL;
    fits = kind && eps__record_get_u64(&from) == s->n && eps__record_get_u64(&from) == s->stamps;
    if (!fits)
        return false;
    s->kind = kind;
    s->block_rows = eps__record_get_u64(&from);
    s->iterations = eps__record_get_u64(&from);
    s->optimality_gap = eps__record_get_double(&from);
    s->scale = eps__record_get_double(&from);
    s->height = eps__record_get_u64(&from);
    eps__record_get_doubles(&from, &s->entries, &s->entries_len);
    if (kind->load)
        kind->load(s, &from);
    if (eps__record_done(&from))
        return true;
    eps__strategy_reset(s);
    return false;
}

/* ---------------------------------------------------------------- the cache */

static bool fetch(const struct eps_context *context, struct eps_strategy *s, const uint8_t key[EPS__HASH_BYTES])
{
    void *blob = NULL;
    size_t blob_len = 0;
    if (!context->cache_get(context->user, EPS_CACHE_FACTORIZATION, key, &blob, &blob_len))
        return false;
    bool whole = load(s, blob, blob_len);
    free(blob);
    return whole;
}

static void offer(const struct eps_context *context, const struct eps_strategy *s, const uint8_t key[EPS__HASH_BYTES])
{
    struct eps__record blob = {0};
    save(s, &blob);
    if (!blob.bad)
        context->cache_put(context->user, EPS_CACHE_FACTORIZATION, key, blob.bytes, blob.len);
    eps__record_clear(&blob);
}

enum eps_status eps__factorization_obtain(const struct eps_context *context, struct eps_strategy *s,
                                          struct eps_error *error, const struct eps_mechanism *mechanism,
                                          const uint8_t key[EPS__HASH_BYTES], eps__builder *builder)
{
    if (context && context->cache_get && fetch(context, s, key)) {
        s->cache_state = EPS_CACHE_HIT;
        return EPS_OK;
    }
    s->cache_state = context && context->cache_put ? EPS_CACHE_MISS : EPS_CACHE_UNUSED;
    enum eps_status status = eps__strategy_poll(context, error); /* the cache callback may have taken long */
    if (status == EPS_OK)
        status = builder(context, s, error, mechanism);
    if (status == EPS_OK && context && context->cache_put)
        offer(context, s, key);
    return status;
}
