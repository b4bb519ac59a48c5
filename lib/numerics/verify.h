/*
 * Claims that the verify build (make FLAVOUR=verify) checks at run time against quadruple precision. In other builds a
 * claim is not evaluated and costs nothing.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_NUMERICS_VERIFY_H
#define EPS_NUMERICS_VERIFY_H

#ifdef EPS_VERIFY

#include <stdbool.h>

#include "lib/numerics/quad.h"

/* Prints the claim that failed to stderr and aborts the process. */
_Noreturn void eps__verify_failed(const char *claim, const char *file, int line);
#define EPS__VERIFY(claim) ((claim) ? (void)0 : eps__verify_failed(#claim, __FILE__, __LINE__))

/* True on one call in 61: for claims inside loops. */
bool eps__verify_now(void);

/* The checks below pass if the result to check is NAN or infinite, except that eps__verify_order() compares
 * infinities. */
bool eps__verify_order(eps__quad a, eps__quad b); /* a <= b */
/* moved is at least x + units u |x|, or at most that if units is negative. u is the unit roundoff. */
bool eps__verify_moved(double x, double moved, double units);
/* The same with x + error, e^{x + error} and ln(x (1 + units u)) for the exact number. */
bool eps__verify_shifted(double x, double shifted, double error);
bool eps__verify_exp(double x, double power, double error);
bool eps__verify_log(double x, double value, double units);
/* value is within error of ln Pr[Z > x], or of ln Pr[left < Z <= left + width], for a standard normal Z. */
bool eps__verify_log_tail(double x, double value, double error);
bool eps__verify_log_mass(double left, double width, double value, double error);
/* Pr[Z > x], e^x and ln x. */
eps__quad eps__verify_tail(eps__quad x);
eps__quad eps__verify_exp_of(eps__quad x);
eps__quad eps__verify_log_of(eps__quad x);

#else
#define EPS__VERIFY(claim) ((void)0)
#endif

#endif
