/*
 * Batches of b-min-sep sampling (BMS, algorithms 1 and 2): for each example, when it is drawn next, on a wheel of all steps. Who
 * was drawn at step i comes back at i + b, and is drawn as many steps later as its coin falls tails; so a step costs what its
 * batch has.
 *
 * From a warm start an example waits at the first step with probability 1/(1 + (b-1) p), and else comes back at one of the steps
 * 1 .. b-1, each as likely (S9).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdlib.h>

#include "lib/numerics/random/tosses.h"
#include "lib/sampling/forming/batches.h"

#define NOBODY UINT32_MAX

struct wheel {
    struct eps__tails tails;
    uint32_t *first; /* by step; NOBODY: no one */
    uint32_t *next;  /* by example: who else is drawn at that step */
};

/* The example waits from this step on: it goes to where it is drawn, if there is such a step. */
static void put(struct eps__forming *forming, uint32_t example, size_t step)
{
    struct wheel *wheel = forming->state;
    if (step >= forming->n)
        return;
    size_t at = step + (size_t)eps__tails_count(&wheel->tails, &forming->chacha, forming->n - step);
    if (at < forming->n) {
        wheel->next[example] = wheel->first[at];
        wheel->first[at] = example;
    }
}

static bool open(struct eps__forming *forming)
{
    struct wheel *wheel = forming->state = calloc(1, sizeof *wheel);
    if (!wheel)
        return false;
    wheel->tails = eps__tails_make(forming->p);
    wheel->first = malloc(forming->n * sizeof *wheel->first);
    wheel->next = malloc(forming->examples * sizeof *wheel->next);
    if (!wheel->first || !wheel->next)
        return false;
    for (size_t i = 0; i < forming->n; i++)
        wheel->first[i] = NOBODY;
    size_t others = forming->sampling.separation - 1;
    struct eps__coin waits =
        eps__coin_make(forming->sampling.warm_start ? 1 / (1 + (eps__quad)others * forming->p) : 1);
    for (uint32_t j = 0; j < forming->examples; j++)
        put(forming, j, eps__coin_toss(&waits, &forming->chacha) ? 0 : 1 + eps__chacha_below(&forming->chacha, others));
    return true;
}

static bool step(struct eps__forming *forming, size_t step_index)
{
    struct wheel *wheel = forming->state;
    size_t separation = forming->sampling.separation, left = forming->n - step_index;
    for (uint32_t j = wheel->first[step_index], next; j != NOBODY; j = next) {
        next = wheel->next[j];
        if (!eps__examples_add(&forming->batch, j))
            return false;
        if (separation < left)
            put(forming, j, step_index + separation);
    }
    return eps__examples_sort(&forming->batch);
}

static void close(void *state)
{
    struct wheel *wheel = state;
    free(wheel->first);
    free(wheel->next);
    free(wheel);
}

static double bytes(const struct eps__forming *forming)
{
    return sizeof(struct wheel) + 4.0 * (double)forming->n + 4.0 * forming->examples;
}

/* Of a step, at most: the first one of a cold start. */
static double mean(const struct eps__forming *forming)
{
    return forming->p * forming->examples;
}

const struct eps__former eps__former_spaced = {
    .open = open, .step = step, .close = close, .bytes = bytes, .mean = mean};
