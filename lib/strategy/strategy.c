/*
 * A strategy as an object: size, content id and getters.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdlib.h>
#include <string.h>

#include "lib/strategy/making.h"

/* Hashes what C is, not how it was requested, and its decoder if there is a choice. */
void eps__strategy_identify(struct eps_strategy *s)
{
    struct eps__hash hash;
    uint8_t digest[EPS__HASH_BYTES];
    eps__hash_init(&hash, "epsilon strategy 1");
    eps__hash_bytes(&hash, s->kind->name, strlen(s->kind->name) + 1);
    eps__hash_u64(&hash, s->n);
    eps__hash_u64(&hash, s->stamps);
    s->kind->hash(s, &hash);
    eps__hash_final(&hash, digest);
    eps__hash_hex(s->id, digest);
}

void eps__strategy_size(struct eps_strategy *s, size_t n, size_t stamps)
{
    s->n = n;
    s->stamps = stamps;
    s->block = n / stamps;
}

void eps__strategy_reset(struct eps_strategy *s)
{
    free(s->entries);
    free(s->known_inverse);
    free(s->blt);
    s->kind = NULL;
    s->entries = s->known_inverse = s->blt = NULL;
    s->entries_len = s->known_inverse_len = s->blt_len = s->block_rows = s->height = s->width = s->iterations = 0;
    s->scale = 0;
    s->optimality_gap = NAN;
}

void eps_strategy_destroy(struct eps_strategy *strategy)
{
    if (!strategy)
        return;
    if (strategy->lock_made)
        pthread_mutex_destroy(&strategy->lock);
    eps__workload_clear(&strategy->workload);
    free(strategy->entries);
    free(strategy->squares);
    free(strategy->inverse);
    free(strategy->known_inverse);
    free(strategy->blt);
    eps__record_clear(&strategy->origin);
    free(strategy);
}

size_t eps_strategy_rows(const struct eps_strategy *strategy)
{
    return strategy->stamps * strategy->block_rows;
}

size_t eps_strategy_columns(const struct eps_strategy *strategy)
{
    return strategy->n;
}

size_t eps_strategy_bands(const struct eps_strategy *strategy)
{
    return strategy->bands;
}

bool eps_strategy_is_toeplitz(const struct eps_strategy *strategy)
{
    return strategy->kind->shape == EPS__SHAPE_TOEPLITZ && strategy->stamps == 1;
}

const char *eps_strategy_id(const struct eps_strategy *strategy)
{
    return strategy->id;
}

size_t eps_strategy_iterations(const struct eps_strategy *strategy)
{
    return strategy->iterations;
}

double eps_strategy_optimality_gap(const struct eps_strategy *strategy)
{
    return strategy->optimality_gap;
}

size_t eps_strategy_blt(const struct eps_strategy *strategy, const double **decay, const double **scale)
{
    if (decay)
        *decay = strategy->blt;
    if (scale)
        *scale = strategy->blt ? strategy->blt + strategy->blt_len : NULL;
    return strategy->blt_len;
}

enum eps_cache_state eps__strategy_cache_state(const struct eps_strategy *strategy)
{
    return strategy->cache_state;
}

enum eps_decoder eps__strategy_decoder(const struct eps_strategy *strategy)
{
    return strategy->decoder;
}

double eps__strategy_column_norm(const struct eps_strategy *strategy, size_t j)
{
    return eps__sqrt_up(eps__column_square(strategy, j)->upper);
}

double eps__strategy_column_norm_lower(const struct eps_strategy *strategy, size_t j)
{
    return eps__sqrt_down(eps__column_square(strategy, j)->lower);
}

bool eps__strategy_nonnegative(const struct eps_strategy *strategy)
{
    return strategy->nonnegative;
}

bool eps__strategy_lower_triangular(const struct eps_strategy *strategy)
{
    return strategy->lower;
}

struct eps__blocks eps__strategy_blocks(const struct eps_strategy *s)
{
    struct eps__blocks blocks = {s->kind->shape, s->stamps, s->block, s->block_rows, NULL, 0, 0, 0};
    if (blocks.shape == EPS__SHAPE_TOEPLITZ) {
        blocks.coefficients = s->entries;
        blocks.coefficients_len = s->entries_len;
    } else if (blocks.shape == EPS__SHAPE_TREE) {
        blocks.height = s->height;
        blocks.scale = s->scale;
    }
    return blocks;
}

bool eps__strategy_is_diagonal(const struct eps_strategy *strategy)
{
    return strategy->bands == 1;
}
