/*
 * Sixteen tails of the standard normal distribution side by side.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_NUMERICS_NORMAL_TAILS_H
#define EPS_NUMERICS_NORMAL_TAILS_H

#include "lib/numerics/lanes/lanes.h"

/* Mills' ratio at 0, 1/32, 2/32 .. 20. */
enum { EPS__TAIL_NODES = 20 * 32 + 1 };
struct eps__normal_tails {
    double ratios[EPS__TAIL_NODES];
};

/* Fills in the table, in some 0.03 ms. */
void eps__normal_tails_make(struct eps__normal_tails *tails);

/* out[lane] = e^log_factor[lane] Pr[Z > x[lane]], for any x. The relative error is at most
 * (64 + 4 |log_factor| + 4 x^2) 2^-53 where the result and e^log_factor are normal numbers (N10). */
void eps__normal_tails(const struct eps__normal_tails *tails, double *out, const double *log_factor, const double *x);

#endif
