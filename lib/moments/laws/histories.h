/*
 * Moments of an example whose copies differ in their histories: in which of the last steps each took part (M18). A copy
 * that waits takes part in a step with probability p, and sits out the next b - 1 steps. Separation b = 1 is Poisson
 * sampling, with all subsets of the last steps as histories; a larger one allows few of them (M29).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_MOMENTS_LAWS_HISTORIES_H
#define EPS_MOMENTS_LAWS_HISTORIES_H

#include "lib/moments/laws/groups.h"

struct eps__banded_gram;

/* Of the numbers of a chain: 53, 64 or 113 bits. */
enum eps__precision { EPS__PRECISION_DOUBLE, EPS__PRECISION_LONG, EPS__PRECISION_QUAD };

struct eps__histories {
    const struct eps__banded_gram *banded; /* the Gram matrix and p */
    size_t separation;                     /* b >= 1 */
    bool warm;                             /* warm start: sampling begins in its steady state */
    const eps__quad *tilt;                 /* [step]: ln of a factor of each copy that takes part (M27); NULL: none */
};

/* The number of transitions of a copies; INFINITY if the matrix has more bands than a history can hold. */
double eps__histories_transitions(const struct eps__histories *histories, unsigned a);

/* The estimated operations of E X^a in a precision. Does not read the Gram matrix. */
double eps__histories_operations(const struct eps__histories *histories, unsigned a, enum eps__precision precision);

/* -ln of a lower bound on every number of a chain of a copies that is not 0 (M18, M27, M29). */
double eps__histories_smallest(const struct eps__histories *histories, unsigned a);

/*
 * *raw = E X^a, a >= 1, within *units units of quadruple roundoff of itself; not finite if it is not known. The numbers
 * of the chain must be within the range of the precision. EPS_OK, EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT.
 */
enum eps_status eps__histories_raw(const struct eps_context *context, eps__quad *raw, double *units,
                                   const struct eps__histories *histories, unsigned a, enum eps__precision precision);

/* The sums over few copies, in doubles or, where their range does not suffice, long doubles. They refer to
 * *histories. */
struct eps__copies eps__histories_copies(const struct eps__histories *histories);

#endif
