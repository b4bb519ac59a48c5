/*
 * Drawing x: the steps at which one example, or one user's examples, takes part, from counter-based random numbers.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_SAMPLING_PARTICIPATIONS_H
#define EPS_SAMPLING_PARTICIPATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/numerics/lanes/lanes.h"

struct eps__participated {
    uint32_t step;
    uint32_t examples; /* how many together: at least 1 */
};

enum { EPS__TOGETHER_MAX = 64 };

/* b-min-sep, and Poisson where separation = 1: a user that waits is drawn with probability 1 - (1-p)^k, and then sits out the next
 * separation - 1 steps. Filled in by eps__b_min_sep_steps_fill(). */
struct eps__b_min_sep_steps {
    size_t n, separation;
    double p;
    unsigned examples; /* k <= EPS__TOGETHER_MAX */
    bool warm;
    double log_keep;                    /* k ln(1-p) */
    double pick[EPS__TOGETHER_MAX];     /* Binom(k,p)(j + 1) */
    double log_pick[EPS__TOGETHER_MAX]; /* ln Binom(k,p)(j + 1), which does not underflow */
};

/* Sets log_keep, pick and log_pick from the rest. */
void eps__b_min_sep_steps_fill(struct eps__b_min_sep_steps *steps);

/* No draw has more participations than these. */
size_t eps__b_min_sep_steps_most(const struct eps__b_min_sep_steps *steps);

/* Of one draw, ascending: at least `separation` apart, under n. Returns how many, at most eps__b_min_sep_steps_most().
 * */
size_t eps__b_min_sep_draw(struct eps__participated *out, const struct eps__b_min_sep_steps *steps,
                           const struct eps__stream *stream, uint32_t draw);

/* The same of the EPS__LANES draws from `draw` on, a multiple of EPS__LANES: those of lane l at out + l most, len[l] of them. */
void eps__b_min_sep_draw_lanes(struct eps__participated *out, size_t most, size_t *len,
                               const struct eps__b_min_sep_steps *steps, const struct eps__stream *stream,
                               uint32_t draw);

#endif
