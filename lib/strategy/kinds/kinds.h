/*
 * The kinds of blocks, and how a Toeplitz one is made.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_STRATEGY_KINDS_KINDS_H
#define EPS_STRATEGY_KINDS_KINDS_H

#include "lib/strategy/kind.h"

extern const struct eps__strategy_kind eps__strategy_toeplitz;
extern const struct eps__strategy_kind eps__strategy_dense;
extern const struct eps__strategy_kind eps__strategy_tree;
extern const struct eps__strategy_kind eps__strategy_fourier;
extern const struct eps__strategy_kind eps__strategy_banded;

/* Of blocks of this kind; see noise.h. */
extern const struct eps__noise_way *const eps__toeplitz_noise[];

/* The kind of this name, which ends at a 0 or after `size` bytes; NULL where there is none. */
const struct eps__strategy_kind *eps__kind_named(const char *name, size_t size);

/* Makes s Toeplitz with the given malloc'ed coefficients, which it takes; 1 <= len <= block. */
void eps__toeplitz_steal(struct eps_strategy *s, double *coefficients, size_t len);

/* Makes s Toeplitz with C0 = 1/inverse as series; takes the malloc'ed inverse (len <= block numbers, the first not 0),
 * also on an error. The inverse is then known: nothing is inverted again. */
enum eps_status eps__toeplitz_from_inverse(const struct eps_context *context, struct eps_strategy *s,
                                           struct eps_error *error, double *inverse, size_t len);
/* out = a/c as series, n numbers, a NULL for 1, c zero from len on: O(n len), term by term. */
enum eps_status eps__toeplitz_quotient(const struct eps_context *context, double *out, struct eps_error *error,
                                       const double *a, size_t n, const double *c, size_t len);

#endif
