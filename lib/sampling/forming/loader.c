/*
 * Batches as a data loader forms them: the examples are put in a random order once and taken from it cyclically; or,
 * shuffled, in a new order in every epoch. The schema's promise holds for every order.
 *
 * With batch_size, every batch has that many examples, and the order restarts when it ends, also within a batch.
 * Without it, an epoch of `separation` steps splits the whole data set into batches of nearly equal sizes, and batches
 * after the last epoch are empty.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdlib.h>

#include "lib/sampling/forming/batches.h"

struct loader {
    uint32_t *order; /* the cyclic order; NULL: parts are used */
    struct eps__parts parts;
};

static bool shuffles(const struct eps__forming *forming)
{
    return forming->sampling.schema == EPS_SCHEMA_SHUFFLED;
}

static bool goes_round(const struct eps__forming *forming)
{
    return forming->sampling.batch_size > 0 && !shuffles(forming);
}

/* The batches of one epoch, at most n: an example that participates once does so in one of them. */
static size_t batches(const struct eps__forming *forming)
{
    return forming->sampling.separation < forming->n ? forming->sampling.separation : forming->n;
}

static bool open(struct eps__forming *forming)
{
    struct loader *loader = calloc(1, sizeof *loader);
    forming->state = loader;
    if (!loader || !goes_round(forming))
        return loader != NULL;
    loader->order = malloc(forming->examples * sizeof *loader->order);
    if (!loader->order)
        return false;
    for (uint32_t j = 0; j < forming->examples; j++)
        loader->order[j] = j;
    eps__shuffle(loader->order, &forming->chacha, forming->examples);
    return true;
}

static bool step_round(struct eps__forming *forming, size_t step)
{
    const struct loader *loader = forming->state;
    uint64_t len = forming->sampling.batch_size, from = step % forming->examples * len % forming->examples;
    uint64_t last = forming->examples - from;
    uint64_t first = len < last ? len : last;
    return eps__examples_append(&forming->batch, loader->order + from, first) &&
           eps__examples_append(&forming->batch, loader->order, len - first) && eps__examples_sort(&forming->batch);
}

static bool step_parts(struct eps__forming *forming, size_t step)
{
    struct eps__parts *parts = &((struct loader *)forming->state)->parts;
    size_t len = batches(forming), epoch = step / len, at = step % len;
    bool anew = step == 0 || (shuffles(forming) && at == 0);
    if (epoch >= forming->sampling.epochs)
        return true;
    if (anew && !eps__parts_deal(parts, &forming->chacha, forming->examples, len))
        return false;
    return eps__examples_append(&forming->batch, parts->order + parts->begin[at],
                                parts->begin[at + 1] - parts->begin[at]);
}

static bool step(struct eps__forming *forming, size_t step_index)
{
    return goes_round(forming) ? step_round(forming, step_index) : step_parts(forming, step_index);
}

static void close(void *state)
{
    struct loader *loader = state;
    free(loader->order);
    eps__parts_clear(&loader->parts);
    free(loader);
}

static double bytes(const struct eps__forming *forming)
{
    return sizeof(struct loader) + eps__parts_bytes(forming->examples, goes_round(forming) ? 1 : batches(forming));
}

static double mean(const struct eps__forming *forming)
{
    return forming->sampling.batch_size > 0 ? (double)forming->sampling.batch_size
                                            : (double)forming->examples / (double)batches(forming);
}

const struct eps__former eps__former_loader = {
    .open = open, .step = step, .close = close, .bytes = bytes, .mean = mean};
