/*
 * Phases of one line, and whether two answers agree.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef TESTS_UNIT_TRAINING_PHASES_H
#define TESTS_UNIT_TRAINING_PHASES_H

#include <math.h>

#include "tests/unit/test.h"
#include "tests/unit/trainings.h"

static inline struct eps_phase poisson(size_t n, double p, double scale, size_t count)
{
    struct eps_phase phase = poisson_phase(n, p);
    phase.noise_scale = scale;
    phase.count = count;
    return phase;
}

static inline struct eps_phase unsampled(size_t n, double scale, size_t count)
{
    struct eps_phase phase = poisson(n, NAN, scale, count);
    phase.mechanism.sampling.scheme = EPS_SCHEME_NONE;
    return phase;
}

static inline struct eps_phase bins(size_t n, size_t len, bool redraw, size_t count)
{
    struct eps_phase phase = bins_phase(n, len);
    phase.mechanism.sampling.redraw = redraw;
    phase.count = count;
    return phase;
}

/* The brackets of the two have a point in common, and neither is wider than the tolerance. */
static inline void assert_agree(const struct eps_result *a, const struct eps_result *b, double tolerance)
{
    if (!(a->bracket_lower <= b->bracket_upper && b->bracket_lower <= a->bracket_upper))
        fail_msg("[%.12g, %.12g] and [%.12g, %.12g]", a->bracket_lower, a->bracket_upper, b->bracket_lower,
                 b->bracket_upper);
    assert_true(a->bracket_upper - a->bracket_lower <= tolerance * a->bracket_upper);
    assert_true(b->bracket_upper - b->bracket_lower <= tolerance * b->bracket_upper);
    for (int d = 0; d < EPS_DIRECTIONS; d++)
        assert_true(fabs(a->directions[d].value - b->directions[d].value) <= tolerance * b->directions[d].value);
}

#endif
