/*
 * The histories of one copy, and the steps of a law of histories: its rows of the Gram matrix, probabilities and tilts
 * (M18, M23, M27, M29).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_MOMENTS_LAWS_HISTORIES_STEPS_H
#define EPS_MOMENTS_LAWS_HISTORIES_STEPS_H

#include <stdint.h>

#include "lib/moments/laws/histories.h"

enum { EPS__CODES_WIDTH_MOST = 64 /* bits of a code */ };

/* What one copy may have done: bit d of `steps` says whether it took part d steps ago, d < width; bit 0 is the current
 * step. */
struct eps__code {
    uint64_t steps;
    unsigned old, young; /* its histories before and after the step */
    bool waits;          /* it takes part in this step, or could have */
};

/* All codes in ascending order, so that those of one history are neighbours. */
struct eps__codes {
    struct eps__code *items;
    size_t len, histories;
};

/* Makes the codes of `width` steps in which any two participations are at least `separation` apart. False: no memory,
 * and nothing is held. */
bool eps__codes_make(struct eps__codes *codes, size_t width, size_t separation);
void eps__codes_free(struct eps__codes *codes);

/* The number of subsets of `width` <= EPS__CODES_WIDTH_MOST steps in which any two are at least `separation` apart. */
double eps__subsets(size_t width, size_t separation);

/* A warm start is a cold one b - 1 steps earlier (M23): at these leading steps nothing meets. The steps below count
 * them. */
size_t eps__histories_lead(const struct eps__histories *law);
size_t eps__histories_steps(const struct eps__histories *law);

/* row[d], d < width: the entry of the Gram matrix of step i and the step d before it. Entries with a step before a cold
 * start are those of later rows, as there is no participation (M17); with a leading step they are 0. */
void eps__histories_row(double *row, const struct eps__histories *law, size_t i);

/* ln of the further factor of each copy that takes part in step i. */
eps__quad eps__histories_tilt(const struct eps__histories *law, size_t i);

/* The probabilities that a copy that waits takes part in step i, or does not. M23: j steps before the first one it
 * takes part with probability p/(1 + j p). */
void eps__histories_probability(eps__quad *p, eps__quad *never, const struct eps__histories *law, size_t i);

/* Whether steps i > 0 and i - 1 have the same row, the same tilt and the same probabilities. */
bool eps__histories_alike(const struct eps__histories *law, size_t i);

#endif
