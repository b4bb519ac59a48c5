/*
 * Claims that are checked while running, in the build that is for it (make FLAVOUR=verify), against quadruple precision.
 * Else they cost nothing: a claim is not evaluated.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_NUMERICS_VERIFY_H
#define EPS_NUMERICS_VERIFY_H

#ifdef EPS_VERIFY

#include <stdbool.h>

#include "lib/numerics/quad.h"

/* Says which claim does not hold, and ends the process. */
_Noreturn void eps__verify_failed(const char *claim, const char *file, int line);
#define EPS__VERIFY(claim) ((claim) ? (void)0 : eps__verify_failed(#claim, __FILE__, __LINE__))

/* One call in many: for claims inside of loops. */
bool eps__verify_now(void);

/* Infinities, and what is no number, pass all of these. */
bool eps__verify_order(eps__quad a, eps__quad b); /* a <= b */
/* moved lies beyond x (1 + units u), seen from x; the unit is the unit roundoff. */
bool eps__verify_moved(double x, double moved, double units);
/* The same for x + error, e^{x + error} and ln(x (1 + units u)). */
bool eps__verify_shifted(double x, double shifted, double error);
bool eps__verify_exp(double x, double power, double error);
bool eps__verify_log(double x, double value, double units);
/* The value is within error of ln Pr[Z > x], of ln Pr[left < Z <= left + width], of ln of the sum of e^term. */
bool eps__verify_log_tail(double x, double value, double error);
bool eps__verify_log_mass(double left, double width, double value, double error);
/* Pr[Z > x] and ln x. */
eps__quad eps__verify_tail(eps__quad x);
eps__quad eps__verify_exp_of(eps__quad x);
eps__quad eps__verify_log_of(eps__quad x);

#else
#define EPS__VERIFY(claim) ((void)0)
#endif

#endif
