/*
 * Compositions of steps with a public outcome: one of two, each with its own dominating pair, of which one may be rare
 * (truncated batches: full or not). Steps without a second outcome are ordinary steps.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_PLD_COMPOSE_OUTCOMES_H
#define EPS_PLD_COMPOSE_OUTCOMES_H

#include "lib/numerics/sum.h"
#include "lib/pld/compose/composition.h"

/* One outcome: its probability, and the branches of the step given the outcome. `len` is 0 if the outcome does not
 * exist. */
struct eps__outcome_branches {
    struct eps__interval probability;
    struct eps__branch *branches;
    size_t len;
};

/* Thread-compatible. */
struct eps__outcomes;

/* As eps__composition_create() and eps__composition_destroy(). */
enum eps_status eps__outcomes_create(struct eps__outcomes **outcomes, const struct eps_context *context,
                                     struct eps__cache_use *cache_use, const struct eps__accuracy *accuracy);
void eps__outcomes_destroy(struct eps__outcomes *outcomes);

/* Adds `count` equal steps. Copies the branches. EPS_OK or EPS_NO_MEMORY. */
enum eps_status eps__outcomes_add(struct eps__outcomes *outcomes, const struct eps__outcome_branches *often,
                                  const struct eps__outcome_branches *rarely, uint64_t count);

/* As eps__composition_log_delta(), _log_bound(), _approximate(), _guess() and _refine(). EPS_OK, EPS_TOO_COSTLY,
 * EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT. */
enum eps_status eps__outcomes_log_delta(struct eps__outcomes *outcomes, enum eps__estimate estimate, double eps,
                                        double *log_delta);
enum eps_status eps__outcomes_log_bound(struct eps__outcomes *outcomes, double eps, double *log_delta);
enum eps_status eps__outcomes_approximate(struct eps__outcomes *outcomes, double eps, double *log_delta);
enum eps_status eps__outcomes_guess(struct eps__outcomes *outcomes, double log_delta, double *eps);
bool eps__outcomes_refine(struct eps__outcomes *outcomes, double factor);

#endif
