/*
 * The binomial law of an example's amplitude in one step: how many of k independent examples are drawn.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_SAMPLING_LAW_H
#define EPS_SAMPLING_LAW_H

#include "lib/epsilon.h"

/* Binomial(k, p) without its atoms of negligible probability. weight[i] is the probability of first + i. */
struct eps__law {
    uint64_t first;
    size_t len;
    double *weight;
    double lost_low, lost_high; /* upper bounds on the probability omitted on each side */
    double weight_error;        /* bound on the relative error of every weight */
};

/* Makes the law. Keeps every atom whose log probability is at least log_floor (<= -1) and well above the underflow
 * threshold of a double. Release it with eps__law_clear(). EPS_OK or EPS_NO_MEMORY. */
enum eps_status eps__binomial_law(struct eps__law *law, uint64_t k, double p, double log_floor);
void eps__law_clear(struct eps__law *law);

#endif
