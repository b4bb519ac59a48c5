/*
 * Bracketing roots, with GSL.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_NUMERICS_ROOT_H
#define EPS_NUMERICS_ROOT_H

typedef double eps__function(double x, void *user);

/*
 * Narrows [*low, *high], where f changes sign (f(*low) > 0 >= f(*high)), by bisection until its width is at most
 * tolerance * max(|high|, floor) or no double lies between; the signs at both ends stay as they were.
 * Returns 0, or -1 if f gave NAN (the interval is then what was reached), or EPS__BISECT_NO_MEMORY.
 */
enum { EPS__BISECT_NO_MEMORY = -2 };
int eps__bisect(eps__function *f, void *user, double *low, double *high, double tolerance, double floor);

#endif
