/*
 * The kinds of blocks, and the construction of Toeplitz blocks.
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

/* The ways to draw noise for Toeplitz blocks; see noise.h. */
extern const struct eps__noise_way *const eps__toeplitz_noise[];
void eps__toeplitz_recurrence(const struct eps_strategy *s, struct eps_recurrence *r);

/* The kind with this name, which ends at a NUL or after `size` bytes; NULL if there is none. */
const struct eps__strategy_kind *eps__kind_named(const char *name, size_t size);

/* Makes s Toeplitz with the given malloc'ed coefficients, of which it takes ownership; 1 <= len <= block. */
void eps__toeplitz_steal(struct eps_strategy *s, double *coefficients, size_t len);

/* Makes s Toeplitz with the series C0 = 1/inverse. Takes ownership of the malloc'ed inverse (len <= block numbers, the
 * first not 0), also on an error. The inverse is kept, so it is not computed again. */
enum eps_status eps__toeplitz_from_inverse(const struct eps_context *context, struct eps_strategy *s,
                                           struct eps_error *error, double *inverse, size_t len);
/* out = a/c as series, n numbers; a NULL means 1, and c is zero from len on. Term by term, O(n len). */
enum eps_status eps__toeplitz_quotient(const struct eps_context *context, double *out, struct eps_error *error,
                                       const double *a, size_t n, const double *c, size_t len);

#endif
