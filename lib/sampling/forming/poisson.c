/*
 * Poisson batches, of the whole data set or of the part whose turn it is. The code jumps from one drawn example to the
 * next by the number of tails between them, so the time is proportional to the batch.
 *
 * The parts are drawn as the accounting assumes. Without truncation, each example is put into a group independently.
 * With truncation, whether a batch is full depends on the size of the part, which is fixed (S5), so the data set is
 * split into parts of nearly equal sizes.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdlib.h>

#include "lib/numerics/random/tosses.h"
#include "lib/sampling/forming/batches.h"

struct poisson {
    struct eps__tails tails;
    struct eps__parts parts; /* len 0: the whole data set is one part */
};

static bool open_poisson(struct eps__forming *forming)
{
    struct poisson *poisson = calloc(1, sizeof *poisson);
    if (!poisson)
        return false;
    poisson->tails = eps__tails_make(forming->p);
    forming->state = poisson;
    return true;
}

static bool open_cyclic(struct eps__forming *forming)
{
    if (!open_poisson(forming))
        return false;
    struct poisson *poisson = forming->state;
    return (forming->sampling.truncation ? eps__parts_deal : eps__parts_draw)(
        &poisson->parts, &forming->chacha, forming->examples, forming->sampling.groups);
}

/* Draws a batch from the `len` examples in `order`; NULL means 0, 1, 2... */
static bool draw(struct eps__forming *forming, const uint32_t *order, uint32_t len)
{
    const struct poisson *poisson = forming->state;
    uint64_t at = eps__tails_count(&poisson->tails, &forming->chacha, len);
    for (; at < len; at += 1 + eps__tails_count(&poisson->tails, &forming->chacha, len - at))
        if (!eps__examples_add(&forming->batch, order ? order[at] : (uint32_t)at))
            return false;
    return true;
}

static bool step_poisson(struct eps__forming *forming, size_t step)
{
    (void)step;
    return draw(forming, NULL, forming->examples);
}

static bool step_cyclic(struct eps__forming *forming, size_t step)
{
    const struct poisson *poisson = forming->state;
    size_t part = step % poisson->parts.len;
    uint32_t begin = poisson->parts.begin[part];
    return draw(forming, poisson->parts.order + begin, poisson->parts.begin[part + 1] - begin);
}

static void close_poisson(void *state)
{
    struct poisson *poisson = state;
    eps__parts_clear(&poisson->parts);
    free(poisson);
}

static double bytes_poisson(const struct eps__forming *forming)
{
    (void)forming;
    return sizeof(struct poisson);
}

static double bytes_cyclic(const struct eps__forming *forming)
{
    return sizeof(struct poisson) + eps__parts_bytes(forming->examples, forming->sampling.groups);
}

static double mean_poisson(const struct eps__forming *forming)
{
    return forming->p * forming->examples;
}

static double mean_cyclic(const struct eps__forming *forming)
{
    return forming->p * forming->examples / (double)forming->sampling.groups;
}

const struct eps__former eps__former_poisson = {
    .open = open_poisson, .step = step_poisson, .close = close_poisson, .bytes = bytes_poisson, .mean = mean_poisson};

const struct eps__former eps__former_cyclic_poisson = {
    .open = open_cyclic, .step = step_cyclic, .close = close_poisson, .bytes = bytes_cyclic, .mean = mean_cyclic};
