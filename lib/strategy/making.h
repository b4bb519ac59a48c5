/*
 * The steps of making a strategy: it is built by its family or restored, scaled, and given its id.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_STRATEGY_MAKING_H
#define EPS_STRATEGY_MAKING_H

#include "lib/strategy/families/family.h"
#include "lib/strategy/kind.h"

/* A stand-in for a mechanism whose strategy is optimised: a non-negative Toeplitz strategy with the same bands and
 * stamps, which takes no time to build. Whether an accountant serves a strategy, and at what cost, depends on these,
 * and no shape is served by more accountants. */
struct eps_mechanism eps__strategy_stand_in(const struct eps_mechanism *mechanism);
/* Builds the family's C before scaling, measured; not for family stored. key: of the optimiser's result, NULL: derived
 * from the mechanism. probe: use the stand-in in place of an optimiser. */
enum eps_status eps__strategy_base(const struct eps_context *context, struct eps_strategy *s, struct eps_error *error,
                                   const struct eps_mechanism *mechanism, const uint8_t *key, bool probe);
/* Divides C and records the divisor. */
enum eps_status eps__strategy_divide(struct eps_strategy *s, struct eps_error *error, double divisor);
/* Fills in the content id. */
void eps__strategy_identify(struct eps_strategy *s);
/* EPS_OK, or EPS_TOO_COSTLY if the estimated cost exceeds a limit of the context. */
enum eps_status eps__strategy_check_cost(const struct eps_context *context, struct eps_error *error,
                                         const struct eps_mechanism *mechanism);

/* The key of the optimiser's result for the mechanism. False: no memory. */
bool eps__factorization_key(uint8_t key[EPS__HASH_BYTES], const struct eps_mechanism *mechanism);
/* Fills in what the builder of an optimised family would, from the context's cache or by running the builder. */
enum eps_status eps__factorization_obtain(const struct eps_context *context, struct eps_strategy *s,
                                          struct eps_error *error, const struct eps_mechanism *mechanism,
                                          const uint8_t key[EPS__HASH_BYTES], eps__builder *builder);

/* Starts the note from which the strategy can be rebuilt by id. False: no memory. */
bool eps__stored_begin(struct eps_strategy *s, const struct eps_mechanism *mechanism,
                       const uint8_t key[EPS__HASH_BYTES]);
/* Offers the note to the cache. */
void eps__stored_offer(const struct eps_context *context, const struct eps_strategy *s);
/* Builds a strategy of family stored. probe: as in eps__strategy_base(). */
enum eps_status eps__build_stored(const struct eps_context *context, struct eps_strategy *s, struct eps_error *error,
                                  const struct eps_mechanism *mechanism, bool probe);

/* Scales C as the job's normalization says. */
enum eps_status eps__strategy_normalise(const struct eps_context *context, struct eps_strategy *s,
                                        struct eps_error *error, const struct eps_mechanism *mechanism);

#endif
