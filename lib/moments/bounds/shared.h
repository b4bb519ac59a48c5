/*
 * Bounds on delta where X = e^(s Z - s^2/2) Y with a standard normal Z that is independent of Y: the mean over Z of the
 * bounds that the moments of Y prove (M28).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_MOMENTS_BOUNDS_SHARED_H
#define EPS_MOMENTS_BOUNDS_SHARED_H

#include <stdbool.h>

#include "lib/moments/bounds/moments.h"
#include "lib/numerics/sum.h"

/* What is known of the factors beside the moments of Y. */
struct eps__shared {
    double square; /* s^2 */
    /* Y >= e^(-m + r Z') with a standard normal Z' that is independent of Z, r^2 = spread; m is INFINITY if unknown. */
    double m, spread;
};

/* Makes the central moments of Y from those of X; square = s^2 > 0 is exact. The caller clears. Moments whose error is
 * too large are dropped. EPS_OK, EPS_NO_MEMORY (then nothing is held). */
enum eps_status eps__shared_rest(struct eps__moments *rest, const struct eps__moments *moments, double square);

/* Bounds on Y alone that were asked for before: neighbouring epsilons share them. Start from zeros; for one law and one
 * direction. */
enum { EPS__SHARED_ENTRIES = 1024 };
struct eps__shared_table {
    struct eps__shared_entry {
        bool known;
        long k; /* the place, in steps */
        struct eps__interval ends;
    } entries[EPS__SHARED_ENTRIES];
    size_t used; /* the highest order of a moment that a bound rests on */
};

/* log_delta: the upper and lower ends as in eps__moments_log_delta(), for X. EPS_OK, EPS_CANCELED, EPS_TIMEOUT. */
enum eps_status eps__shared_log_delta(const struct eps_context *context, const struct eps__moments *rest,
                                      const struct eps__shared *shared, enum eps_direction direction, double eps,
                                      struct eps__shared_table *table, struct eps__interval *log_delta);

#endif
