/*
 * Steps of two kinds, of which a public coin decides (truncated batches: full or not), where one of them is rare.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_PLD_COMPOSE_COINS_H
#define EPS_PLD_COMPOSE_COINS_H

#include "lib/numerics/sum.h"
#include "lib/pld/compose/composition.h"

/* One outcome of the coin: its probability, and the step it leads to, whose branches have weights given the outcome.
 * Nothing is left where `len` is 0. */
struct eps__coin_side {
    struct eps__interval probability;
    struct eps__branch *branches;
    size_t len;
};

/* Thread-compatible. */
struct eps__coins;

/* As eps__composition_create() and _destroy(). */
enum eps_status eps__coins_create(struct eps__coins **coins, const struct eps_context *context,
                                  struct eps__tally *tally, const struct eps__accuracy *accuracy);
void eps__coins_destroy(struct eps__coins *coins);

/* `count` equal steps; the branches are copied. EPS_NO_MEMORY. */
enum eps_status eps__coins_add(struct eps__coins *coins, const struct eps__coin_side *often,
                               const struct eps__coin_side *rarely, uint64_t count);

/* As eps__composition_log_delta(), _log_bound(), _approximate(), _guess() and _refine(). */
enum eps_status eps__coins_log_delta(struct eps__coins *coins, enum eps__estimate estimate, double eps,
                                     double *log_delta);
enum eps_status eps__coins_log_bound(struct eps__coins *coins, double eps, double *log_delta);
enum eps_status eps__coins_approximate(struct eps__coins *coins, double eps, double *log_delta);
enum eps_status eps__coins_guess(struct eps__coins *coins, double log_delta, double *eps);
bool eps__coins_refine(struct eps__coins *coins, double factor);

#endif
