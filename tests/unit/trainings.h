/*
 * Phases and trainings of them, for the tests of lib/training.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef TESTS_UNIT_TRAININGS_H
#define TESTS_UNIT_TRAININGS_H

#include "lib/epsilon.h"

/* One run each of n steps of the identity, with the job's noise. */
struct eps_phase phase_of(size_t n, enum eps_scheme scheme);
struct eps_phase poisson_phase(size_t n, double p);
struct eps_phase bins_phase(size_t n, size_t bins);

/* Of the three one or two are NAN; the phases stay the caller's. */
struct eps_job training_of(struct eps_phase *phases, size_t len, double epsilon, double delta, double sigma);

#endif
