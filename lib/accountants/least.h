/*
 * Lower bounds on the answers of every accountant, from explicit attacks that sampling cannot hide.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_LEAST_H
#define EPS_ACCOUNTANTS_LEAST_H

#include "lib/accountants/accountant.h"

/* Whether the sampling scheme is one for which a bound may exist, whatever the strategy. */
bool eps__least_noise_concerns(const struct eps_mechanism *mechanism);

/*
 * For a job that solves for the noise multiplier: a lower bound on it. With less noise than *sigma the mechanism is not
 * (epsilon, delta)-DP, so no sound accountant returns less (A47, A48). *sigma is 0 if no bound is known. Bounds are
 * known for Poisson sampling, and for balls in bins with the same bin in all epochs, under zero_out and add_remove.
 * EPS_OK, EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT.
 */
EPS_MUST_USE enum eps_status eps__least_noise(double *sigma, const struct eps__setting *setting);

/* A lower bound on the exact value of the job's unknown: epsilon, delta or the noise multiplier. *least is 0 if no
 * bound is known or if it would take long. The statuses are those of eps__least_noise(). */
EPS_MUST_USE enum eps_status eps__least(double *least, const struct eps__setting *setting);

#endif
