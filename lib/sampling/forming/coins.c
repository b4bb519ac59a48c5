/*
 * Batches by coins: from one example that is drawn to the next by the number of tails between them, in the time of those that
 * are drawn. Of the whole data set, or of the part whose turn it is.
 *
 * Parts as they are accounted: without truncation each example is put into one of the groups on its own; with it, whether a
 * batch is full depends on the part's size, which is fixed (S5), and the data set is dealt into parts that are as equal as they
 * can be.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdlib.h>

#include "lib/numerics/random/tosses.h"
#include "lib/sampling/forming/batches.h"

struct coins {
    struct eps__tails tails;
    struct eps__parts parts; /* len 0: the data set is one */
};

static bool open_coins(struct eps__forming *forming)
{
    struct coins *coins = calloc(1, sizeof *coins);
    if (!coins)
        return false;
    coins->tails = eps__tails_make(forming->p);
    forming->state = coins;
    return true;
}

static bool open_turns(struct eps__forming *forming)
{
    if (!open_coins(forming))
        return false;
    struct coins *coins = forming->state;
    return (forming->sampling.truncation ? eps__parts_deal : eps__parts_draw)(
        &coins->parts, &forming->chacha, forming->examples, forming->sampling.groups);
}

/* order: NULL: 0, 1, 2... */
static bool draw(struct eps__forming *forming, const uint32_t *order, uint32_t len)
{
    const struct coins *coins = forming->state;
    uint64_t at = eps__tails_count(&coins->tails, &forming->chacha, len);
    for (; at < len; at += 1 + eps__tails_count(&coins->tails, &forming->chacha, len - at))
        if (!eps__examples_add(&forming->batch, order ? order[at] : (uint32_t)at))
            return false;
    return true;
}

static bool step_coins(struct eps__forming *forming, size_t step)
{
    (void)step;
    return draw(forming, NULL, forming->examples);
}

static bool step_turns(struct eps__forming *forming, size_t step)
{
    const struct coins *coins = forming->state;
    size_t part = step % coins->parts.len;
    uint32_t begin = coins->parts.begin[part];
    return draw(forming, coins->parts.order + begin, coins->parts.begin[part + 1] - begin);
}

static void close_coins(void *state)
{
    struct coins *coins = state;
    eps__parts_clear(&coins->parts);
    free(coins);
}

static double bytes_coins(const struct eps__forming *forming)
{
    (void)forming;
    return sizeof(struct coins);
}

static double bytes_turns(const struct eps__forming *forming)
{
    return sizeof(struct coins) + eps__parts_bytes(forming->examples, forming->sampling.groups);
}

static double mean_coins(const struct eps__forming *forming)
{
    return forming->p * forming->examples;
}

static double mean_turns(const struct eps__forming *forming)
{
    return forming->p * forming->examples / (double)forming->sampling.groups;
}

const struct eps__former eps__former_coins = {
    .open = open_coins, .step = step_coins, .close = close_coins, .bytes = bytes_coins, .mean = mean_coins};

const struct eps__former eps__former_turns = {
    .open = open_turns, .step = step_turns, .close = close_coins, .bytes = bytes_turns, .mean = mean_turns};
