/*
 * The mechanisms for the tests of the Toeplitz families: one of each family, workloads, participations.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef TESTS_TOEPLITZ_MECHANISMS_H
#define TESTS_TOEPLITZ_MECHANISMS_H

#include "lib/strategy/strategy.h"
#include "tests/unit/matrices.h"

enum { WORKLOADS = 3 };

enum which { ISR, BANDED, BANDED_INVERSE, BLT, BLT_GIVEN, FAMILIES };

/* Fails unless the two agree within the tolerance, relative to the larger of one and the wanted number. */
void assert_near(long double got, long double wanted, long double tolerance);

/* One mechanism of each family, with 4 bands or 2 buffers. */
struct eps_mechanism mechanism_of(enum which which, size_t n);

/* 0: unchanged (prefix sums); 1: momentum; 2: a list of coefficients. */
void set_workload(struct eps_mechanism *m, int which);

/* For the job and for the optimiser. */
void set_participation(struct eps_mechanism *m, size_t epochs, size_t separation);

/* The error of the objective times the squared sensitivity. */
double loss_of(const struct eps_strategy *s, const struct eps_mechanism *m);
double loss_of_mechanism(const struct eps_mechanism *m);

/* The first len numbers of the part's first column. */
void column(double *out, const struct eps_strategy *s, enum eps_part part, size_t len);

#endif
