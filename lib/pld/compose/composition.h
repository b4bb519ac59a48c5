/*
 * The privacy loss of composed steps in one direction: delta(eps), bounded from above and below.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_PLD_COMPOSE_COMPOSITION_H
#define EPS_PLD_COMPOSE_COMPOSITION_H

#include "lib/pld/grid/cache.h"

/* How narrow the bracket of which unknown must be. This decides the resolution. */
struct eps__accuracy {
    enum eps_unknown unknown;
    double tolerance;
    double log_delta; /* the given delta, if epsilon or the noise multiplier is the unknown; NAN if delta is */
};

/* The largest shift, in units of sigma, for which a composition gives answers. */
#define EPS__SHIFT_MOST 200.0

struct eps__composition;

/* An empty composition: delta(eps) = 0 for eps >= 0. cache_use: NULL if step PLDs are not worth caching. Out:
 * *composition, released with eps__composition_destroy(). EPS_OK or EPS_NO_MEMORY. */
enum eps_status eps__composition_create(struct eps__composition **composition, const struct eps_context *context,
                                        struct eps__cache_use *cache_use, const struct eps__accuracy *accuracy);
void eps__composition_destroy(struct eps__composition *composition);

/* Adds `count` equal steps with these branches. `branches` is malloc'ed; the composition takes it and what it owns
 * over, also on failure. EPS_OK, EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT. */
enum eps_status eps__composition_add(struct eps__composition *composition, struct eps__branch *branches, size_t len,
                                     uint64_t count);

/* ln of an upper or lower bound on delta(eps), eps >= 0. Cost: a composition by FFT, unless eps is near one that was
 * asked before. EPS_OK, EPS_TOO_COSTLY, EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT. */
enum eps_status eps__composition_log_delta(struct eps__composition *composition, enum eps__estimate estimate,
                                           double eps, double *log_delta);

/* ln of an upper bound on delta(eps), eps >= 0, without a transform; a few nats above delta. For compositions that are
 * not the worst of several, where a transform would be too long. EPS_OK, EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT,
 * EPS_TOO_COSTLY. */
enum eps_status eps__composition_log_bound(const struct eps__composition *composition, double eps, double *log_delta);

/* Fast estimates that prove nothing: ln delta(eps), and the epsilon at which ln delta is `log_delta`. */
double eps__composition_approximate(const struct eps__composition *composition, double eps);
double eps__composition_guess(const struct eps__composition *composition, double log_delta);

/* Makes the bracket of later answers narrower by about `factor` >= 1 (1 only discards kept panels). Returns false if it
 * cannot. */
bool eps__composition_refine(struct eps__composition *composition, double factor);

#endif
