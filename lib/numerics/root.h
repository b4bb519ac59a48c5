/*
 * Bracketing of roots, with GSL's bisection.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_NUMERICS_ROOT_H
#define EPS_NUMERICS_ROOT_H

typedef double eps__function(double x, void *user);

/*
 * Narrows [*low, *high] by bisection, where f(*low) > 0 >= f(*high). Stops when the width is at most tolerance *
 * max(|*high|, floor) or no double lies between the ends. The signs of f at both ends are preserved. Returns 0; -1 if f
 * returned NAN or the signs are wrong (the interval is then as far as the search came); EPS__BISECT_NO_MEMORY.
 */
enum { EPS__BISECT_NO_MEMORY = -2 };
int eps__bisect(eps__function *f, void *user, double *low, double *high, double tolerance, double floor);

#endif
