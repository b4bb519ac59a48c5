/*
 * The steps of making a strategy: built by its family or found again, scaled, and given its id.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_STRATEGY_MAKING_H
#define EPS_STRATEGY_MAKING_H

#include "lib/strategy/families/family.h"
#include "lib/strategy/kind.h"

/* A mechanism with a strategy that takes no time, of as many bands and stamps, Toeplitz and >= 0: accountants serve and cost by
 * that, and no shape is served by more of them. */
struct eps_mechanism eps__strategy_stand_in(const struct eps_mechanism *mechanism);
/* The family's C before scaling, measured; not for family stored. key: of the optimiser's answer, NULL: derived from
 * the mechanism. probe: where an optimiser would find C, its stand-in. */
enum eps_status eps__strategy_base(const struct eps_context *context, struct eps_strategy *s, struct eps_error *error,
                                   const struct eps_mechanism *mechanism, const uint8_t *key, bool probe);
/* Divides C and remembers the divisor. */
enum eps_status eps__strategy_divide(struct eps_strategy *s, struct eps_error *error, double divisor);
/* Fills in the content id. */
void eps__strategy_identify(struct eps_strategy *s);
enum eps_status eps__strategy_check_cost(const struct eps_context *context, struct eps_error *error,
                                         const struct eps_mechanism *mechanism);

/* The key of what an optimiser finds for the mechanism. False without memory. */
bool eps__factorization_key(uint8_t key[EPS__HASH_BYTES], const struct eps_mechanism *mechanism);
/* What the builder of an optimised family fills in, from the context's cache or by running it. */
enum eps_status eps__factorization_obtain(const struct eps_context *context, struct eps_strategy *s,
                                          struct eps_error *error, const struct eps_mechanism *mechanism,
                                          const uint8_t key[EPS__HASH_BYTES], eps__builder *builder);

/* Starts the note by which the strategy can be found again. False without memory. */
bool eps__stored_begin(struct eps_strategy *s, const struct eps_mechanism *mechanism,
                       const uint8_t key[EPS__HASH_BYTES]);
/* Offers the note to the cache. */
void eps__stored_offer(const struct eps_context *context, const struct eps_strategy *s);
/* Family stored. probe: as in eps__strategy_base(). */
enum eps_status eps__build_stored(const struct eps_context *context, struct eps_strategy *s, struct eps_error *error,
                                  const struct eps_mechanism *mechanism, bool probe);

/* Scales C as the job says. */
enum eps_status eps__strategy_normalise(const struct eps_context *context, struct eps_strategy *s,
                                        struct eps_error *error, const struct eps_mechanism *mechanism);

#endif
