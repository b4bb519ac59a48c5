/*
 * Answers that no accountant can go under, from a few numbers of the strategy: what sampling cannot hide.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_LEAST_H
#define EPS_ACCOUNTANTS_LEAST_H

#include "lib/accountants/accountant.h"

/* Whether something may be known of the mechanism, whatever its strategy. */
bool eps__least_noise_concerns(const struct eps_mechanism *mechanism);

/*
 * Of a job that asks for the noise multiplier: with less than *sigma of it the mechanism breaks the promise, and so no sound
 * answer is less (A47, A48). 0 where nothing is known: balls in bins in one bin for all epochs, and Poisson sampling, against the
 * noise alone, are what something is known of. EPS_OK, EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT.
 */
EPS_MUST_USE enum eps_status eps__least_noise(double *sigma, const struct eps__setting *setting);

/* The same of the job's unknown, epsilon, delta or the noise multiplier, where that is quick: the exact value is at least *least. */
EPS_MUST_USE enum eps_status eps__least(double *least, const struct eps__setting *setting);

#endif
