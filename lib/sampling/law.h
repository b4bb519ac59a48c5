/*
 * The law of an example's amplitude in one step: how many of k independent examples are drawn.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_SAMPLING_LAW_H
#define EPS_SAMPLING_LAW_H

#include "lib/epsilon.h"

/* Binomial(k, p) without atoms of negligible probability: weight[i] is that of first + i. */
struct eps__law {
    uint64_t first;
    size_t len;
    double *weight;
    double lost_low, lost_high; /* bounds on the probability left out on either side */
    double weight_error;        /* bound on the relative error of each weight */
};

/* Keeps every atom whose log probability is at least log_floor (<= -1) and well above a double's underflow. Release with
 * eps__law_clear(). */
enum eps_status eps__binomial_law(struct eps__law *law, uint64_t k, double p, double log_floor);
void eps__law_clear(struct eps__law *law);

#endif
