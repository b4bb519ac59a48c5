/*
 * The blob holds the numbers of a PLD in this machine's byte order: a header, the indices, the masses. A blob of the
 * wrong size or form is ignored and the PLD is built.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/pld/grid/cache.h"

#include <stdlib.h>
#include <string.h>

#include "lib/numerics/hash.h"

#define EASY_ATOMS 8 /* of both mixtures of all branches: a sampled Gaussian has 3 */

struct header {
    uint64_t len;
    double spacing, offset, infinity, loss_error;
};

enum eps_cache_state eps__cache_use_state(const struct eps__cache_use *cache_use)
{
    if (atomic_load(&cache_use->misses))
        return EPS_CACHE_MISS;
    return atomic_load(&cache_use->hits) ? EPS_CACHE_HIT : EPS_CACHE_UNUSED;
}

static void hash_mixture(struct eps__hash *hash, const struct eps__mixture *mixture)
{
    eps__hash_u64(hash, mixture->len);
    eps__hash_doubles(hash, mixture->weight, mixture->len);
    eps__hash_doubles(hash, mixture->shift, mixture->len);
}

static void hash_branch(struct eps__hash *hash, const struct eps__branch *branch, const struct eps__pld_plan *plan,
                        enum eps__estimate estimate)
{
    const struct eps__pair *pair = &branch->pair[estimate];
    const double plan_values[] = {plan->spacing,   plan->tilt,   plan->log_norm, plan->log_jump,      plan->log_boost,
                                  plan->log_small, plan->z_low,  plan->fine_low, plan->log_reference, plan->widest,
                                  plan->fine_high, plan->z_high, plan->cut,      plan->cut_tilt,      plan->log_flat};
    const double pair_values[] = {branch->weight[estimate], pair->lost, pair->weight_error};
    hash_mixture(hash, &pair->numerator);
    hash_mixture(hash, &pair->denominator);
    eps__hash_doubles(hash, pair_values, sizeof pair_values / sizeof *pair_values);
    eps__hash_doubles(hash, plan_values, sizeof plan_values / sizeof *plan_values);
}

static void make_key(uint8_t key[EPS__HASH_BYTES], const struct eps__branch *branches,
                     const struct eps__pld_plan *plans, size_t len, enum eps__estimate estimate)
{
    struct eps__hash hash;
    eps__hash_init(&hash, "step privacy loss distribution");
    eps__hash_u64(&hash, EPS_ACCOUNTING_VERSION);
    eps__hash_u64(&hash, estimate);
    eps__hash_u64(&hash, len);
    for (size_t b = 0; b < len; b++)
        hash_branch(&hash, &branches[b], &plans[b], estimate);
    eps__hash_final(&hash, key);
}

static bool unpack(struct eps__pld *pld, const void *blob, size_t blob_len, enum eps__estimate estimate)
{
    struct header header;
    if (blob_len < sizeof header)
        return false;
    memcpy(&header, blob, sizeof header);
    size_t each = sizeof *pld->index + sizeof *pld->mass;
    if (header.len == 0 || header.len > blob_len / each || blob_len != sizeof header + header.len * each)
        return false;
    struct eps__pld made = {.estimate = estimate,
                            .spacing = header.spacing,
                            .offset = header.offset,
                            .len = header.len,
                            .infinity = header.infinity,
                            .loss_error = header.loss_error};
    made.index = malloc(header.len * sizeof *made.index);
    made.mass = malloc(header.len * sizeof *made.mass);
    if (!made.index || !made.mass) {
        eps__pld_clear(&made);
        return false;
    }
    const char *from = (const char *)blob + sizeof header;
    memcpy(made.index, from, header.len * sizeof *made.index);
    memcpy(made.mass, from + header.len * sizeof *made.index, header.len * sizeof *made.mass);
    *pld = made;
    return true;
}

static void offer(const struct eps_context *context, const uint8_t *key, const struct eps__pld *pld)
{
    struct header header = {pld->len, pld->spacing, pld->offset, pld->infinity, pld->loss_error};
    size_t indices = pld->len * sizeof *pld->index, masses = pld->len * sizeof *pld->mass;
    char *blob = malloc(sizeof header + indices + masses);
    if (!blob)
        return;
    memcpy(blob, &header, sizeof header);
    memcpy(blob + sizeof header, pld->index, indices);
    memcpy(blob + sizeof header + indices, pld->mass, masses);
    context->cache_put(context->user, EPS_CACHE_PLD, key, blob, sizeof header + indices + masses);
    free(blob);
}

/* Whether building takes less time than a lookup in a database by way of another process. */
static bool is_easy(const struct eps__branch *branches, size_t len, enum eps__estimate estimate)
{
    size_t atoms = 0;
    for (size_t b = 0; b < len; b++)
        atoms += branches[b].pair[estimate].numerator.len + branches[b].pair[estimate].denominator.len;
    return atoms <= EASY_ATOMS;
}

enum eps_status eps__pld_obtain(const struct eps_context *context, struct eps__cache_use *cache_use,
                                struct eps__pld *pld, const struct eps__branch *branches,
                                const struct eps__pld_plan *plans, size_t len, enum eps__estimate estimate)
{
    bool caches = context && context->cache_get && context->cache_put && cache_use;
    if (!caches || is_easy(branches, len, estimate))
        return eps__pld_build(context, pld, branches, plans, len, estimate);
    uint8_t key[EPS__HASH_BYTES];
    void *blob = NULL;
    size_t blob_len = 0;
    make_key(key, branches, plans, len, estimate);
    if (context->cache_get(context->user, EPS_CACHE_PLD, key, &blob, &blob_len)) {
        bool whole = unpack(pld, blob, blob_len, estimate);
        free(blob);
        if (whole) {
            atomic_fetch_add(&cache_use->hits, 1);
            return EPS_OK;
        }
    }
    atomic_fetch_add(&cache_use->misses, 1);
    enum eps_status status = eps__pld_build(context, pld, branches, plans, len, estimate);
    if (status == EPS_OK)
        offer(context, key, pld);
    return status;
}
