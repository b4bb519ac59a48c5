/*
 * Batches of b-min-sep sampling (BMS, algorithms 1 and 2). A schedule of all steps holds for each example the step at
 * which it is drawn next. An example drawn at step i waits again from step i + b on, and is drawn after a geometric
 * number of further steps, the run of tails of a coin of probability p. So the cost of a step is proportional to its
 * batch.
 *
 * In a warm start an example waits at the first step with probability 1/(1 + (b-1) p), and otherwise waits again from
 * one of the steps 1 .. b-1, uniformly (S9).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdlib.h>

#include "lib/numerics/random/tosses.h"
#include "lib/sampling/forming/batches.h"

#define NOBODY UINT32_MAX

struct schedule {
    struct eps__tails tails;
    uint32_t *first; /* by step: the first example drawn there; NOBODY: none */
    uint32_t *next;  /* by example: the next one drawn at the same step */
};

/* Schedules an example that waits from `step` on at the step at which it is drawn, if that comes before n. */
static void put(struct eps__forming *forming, uint32_t example, size_t step)
{
    struct schedule *schedule = forming->state;
    if (step >= forming->n)
        return;
    size_t at = step + (size_t)eps__tails_count(&schedule->tails, &forming->chacha, forming->n - step);
    if (at < forming->n) {
        schedule->next[example] = schedule->first[at];
        schedule->first[at] = example;
    }
}

static bool open(struct eps__forming *forming)
{
    struct schedule *schedule = forming->state = calloc(1, sizeof *schedule);
    if (!schedule)
        return false;
    schedule->tails = eps__tails_make(forming->p);
    schedule->first = malloc(forming->n * sizeof *schedule->first);
    schedule->next = malloc(forming->examples * sizeof *schedule->next);
    if (!schedule->first || !schedule->next)
        return false;
    for (size_t i = 0; i < forming->n; i++)
        schedule->first[i] = NOBODY;
    size_t others = forming->sampling.separation - 1;
    struct eps__coin waits =
        eps__coin_make(forming->sampling.warm_start ? 1 / (1 + (eps__quad)others * forming->p) : 1);
    for (uint32_t j = 0; j < forming->examples; j++)
        put(forming, j, eps__coin_toss(&waits, &forming->chacha) ? 0 : 1 + eps__chacha_below(&forming->chacha, others));
    return true;
}

static bool step(struct eps__forming *forming, size_t step_index)
{
    struct schedule *schedule = forming->state;
    size_t separation = forming->sampling.separation, left = forming->n - step_index;
    for (uint32_t j = schedule->first[step_index], next; j != NOBODY; j = next) {
        next = schedule->next[j];
        if (!eps__examples_add(&forming->batch, j))
            return false;
        if (separation < left)
            put(forming, j, step_index + separation);
    }
    return eps__examples_sort(&forming->batch);
}

static void close(void *state)
{
    struct schedule *schedule = state;
    free(schedule->first);
    free(schedule->next);
    free(schedule);
}

static double bytes(const struct eps__forming *forming)
{
    return sizeof(struct schedule) + 4.0 * (double)forming->n + 4.0 * forming->examples;
}

/* The largest over the steps, which is the first step of a cold start. */
static double mean(const struct eps__forming *forming)
{
    return forming->p * forming->examples;
}

const struct eps__former eps__former_b_min_sep = {
    .open = open, .step = step, .close = close, .bytes = bytes, .mean = mean};
