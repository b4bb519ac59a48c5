/*
 * Batches of balls in bins: each example draws a bin independently, and the batch of a step is a bin.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdlib.h>

#include "lib/sampling/forming/batches.h"

static bool open(struct eps__forming *forming)
{
    return (forming->state = calloc(1, sizeof(struct eps__parts))) != NULL;
}

static bool step(struct eps__forming *forming, size_t step_index)
{
    struct eps__parts *parts = forming->state;
    size_t bin = step_index % forming->bins;
    bool anew = step_index == 0 || (forming->sampling.redraw && bin == 0);
    if (anew && !eps__parts_draw(parts, &forming->chacha, forming->examples, forming->bins))
        return false;
    return eps__examples_append(&forming->batch, parts->order + parts->begin[bin],
                                parts->begin[bin + 1] - parts->begin[bin]);
}

static void close(void *state)
{
    eps__parts_clear(state);
    free(state);
}

static double bytes(const struct eps__forming *forming)
{
    return sizeof(struct eps__parts) + eps__parts_bytes(forming->examples, forming->bins);
}

static double mean(const struct eps__forming *forming)
{
    return (double)forming->examples / (double)forming->bins;
}

const struct eps__former eps__former_balls_in_bins = {
    .open = open, .step = step, .close = close, .bytes = bytes, .mean = mean};
