/*
 * Random allocation: an example is in one of b batches, drawn uniformly, and what it adds to each is orthogonal to the others
 * and of one norm. Then P/Q, under Q, is the mean of b independent lognormals, and delta(eps) is had to any accuracy, in
 * either direction, from both sides.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_PLD_KNOWN_ALLOCATION_H
#define EPS_PLD_KNOWN_ALLOCATION_H

#include "lib/pld/compose/composition.h"

struct eps__allocation;

/* `bins` >= 1 batches; the norm in units of sigma lies between the two shifts, > 0, which is enough by P7. The caller
 * destroys it. EPS_NO_MEMORY. */
enum eps_status eps__allocation_create(struct eps__allocation **allocation, const struct eps_context *context,
                                       enum eps_direction direction, size_t bins, double shift_lower,
                                       double shift_upper, const struct eps__accuracy *accuracy);
void eps__allocation_destroy(struct eps__allocation *allocation);

/* Epsilons will be asked in ascending order: a composition serves only those up to the one it is made for (remove), or from there
 * on (add), within so many deviations. Then all of them are as precise as where one is made. */
void eps__allocation_ascend(struct eps__allocation *allocation, double reach);

/* ln of a bound on delta(eps), eps >= 0. Cost: a composition by FFT, unless eps is near one asked before. EPS_NO_MEMORY,
 * EPS_CANCELED, EPS_TIMEOUT. Where a composition is out of reach: the bound without sampling, and nothing from below. */
enum eps_status eps__allocation_log_delta(struct eps__allocation *allocation, enum eps__estimate estimate, double eps,
                                          double *log_delta);

/* Unproven but quick: ln delta(eps), and the epsilon at which ln delta is as given. */
double eps__allocation_approximate(const struct eps__allocation *allocation, double eps);
double eps__allocation_guess(const struct eps__allocation *allocation, double log_delta);

/* Makes the grid of the next answers finer by `factor` >= 1; false if it cannot. */
bool eps__allocation_refine(struct eps__allocation *allocation, double factor);

#endif
