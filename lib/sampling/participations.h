/*
 * Draws participation patterns: the steps in which one example, or the examples of one user, participate. The
 * randomness comes from counter-based random numbers.
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
    uint32_t examples; /* how many of the user's examples are drawn at the step, >= 1 */
};
_Static_assert(sizeof(struct eps__participated) == sizeof(double), "one fits into a double of scratch space");

enum { EPS__TOGETHER_MAX = 64 };

/* b-min-sep sampling, which is Poisson sampling if separation = 1. A waiting user is drawn with probability 1 - (1-p)^k
 * and then sits out the next separation - 1 steps. eps__b_min_sep_steps_fill() sets the derived members. */
struct eps__b_min_sep_steps {
    size_t n, separation;
    double p;
    unsigned examples; /* k, at most EPS__TOGETHER_MAX */
    bool warm;
    double log_keep;                    /* k ln(1-p) */
    double pick[EPS__TOGETHER_MAX];     /* Binom(k,p)(j + 1) */
    double log_pick[EPS__TOGETHER_MAX]; /* ln Binom(k,p)(j + 1), which does not underflow */
};

/* Sets log_keep, pick and log_pick from the rest. */
void eps__b_min_sep_steps_fill(struct eps__b_min_sep_steps *steps);

/* The most participations that a draw can have. */
size_t eps__b_min_sep_steps_most(const struct eps__b_min_sep_steps *steps);

/* Draws one participation pattern into out, in ascending order: steps below n, at least `separation` apart. Returns
 * their number, at most eps__b_min_sep_steps_most(). */
size_t eps__b_min_sep_draw(struct eps__participated *out, const struct eps__b_min_sep_steps *steps,
                           const struct eps__stream *stream, uint32_t draw);

/* The same for the EPS__LANES draws from `draw` on, where `draw` is a multiple of EPS__LANES. Lane l has len[l]
 * participations, from out + l most on. */
void eps__b_min_sep_draw_lanes(struct eps__participated *out, size_t most, size_t *len,
                               const struct eps__b_min_sep_steps *steps, const struct eps__stream *stream,
                               uint32_t draw);

#endif
