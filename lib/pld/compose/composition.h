/*
 * The privacy loss of composed steps in one direction: delta(eps), bounded from above and below.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_PLD_COMPOSE_COMPOSITION_H
#define EPS_PLD_COMPOSE_COMPOSITION_H

#include "lib/pld/grid/cache.h"

/* How narrow the bracket must be, of which unknown: what decides the resolution. */
struct eps__accuracy {
    enum eps_unknown unknown;
    double tolerance;
    double log_delta; /* the delta at which epsilon or the noise multiplier is asked; NAN if delta is asked */
};

/* The largest shift, in units of sigma, that a composition has an answer for. */
#define EPS__SHIFT_MOST 200.0

struct eps__composition;

/* Without steps yet: delta(eps) = 0 for eps >= 0. cache_use: NULL where PLDs are not worth keeping.
 * The caller destroys it. EPS_NO_MEMORY. */
enum eps_status eps__composition_create(struct eps__composition **composition, const struct eps_context *context,
                                        struct eps__cache_use *cache_use, const struct eps__accuracy *accuracy);
void eps__composition_destroy(struct eps__composition *composition);

/* `count` equal steps of these branches. branches (malloc'ed, with what they own) is taken over, also on failure.
 * EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT. */
enum eps_status eps__composition_add(struct eps__composition *composition, struct eps__branch *branches, size_t len,
                                     uint64_t count);

/*
 * ln of a bound on delta(eps), eps >= 0: at least (upper) or at most (lower) the composition's.
 * Cost: a composition by FFT, unless eps is near one asked before. EPS_TOO_COSTLY, EPS_NO_MEMORY, EPS_CANCELED,
 * EPS_TIMEOUT.
 */
enum eps_status eps__composition_log_delta(struct eps__composition *composition, enum eps__estimate estimate,
                                           double eps, double *log_delta);

/* ln of an upper bound on delta(eps) that needs no transform, a few nats above it: for what is not the worst of several,
 * where a transform would be too long. EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT, EPS_TOO_COSTLY. */
enum eps_status eps__composition_log_bound(const struct eps__composition *composition, double eps, double *log_delta);

/* Unproven but quick: ln delta(eps), and the epsilon at which ln delta is as given. */
double eps__composition_approximate(const struct eps__composition *composition, double eps);
double eps__composition_guess(const struct eps__composition *composition, double log_delta);

/* Makes the next answers' bracket narrower by about `factor` >= 1 (1: only aims them anew); false if it cannot. */
bool eps__composition_refine(struct eps__composition *composition, double factor);

#endif
