/*
 * Strategy matrices as the accountants see them: the public type of epsilon.h and the quantities that privacy
 * accounting needs. All bounds include rounding.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_STRATEGY_STRATEGY_H
#define EPS_STRATEGY_STRATEGY_H

#include "lib/epsilon.h"

/* How far C x can move when one example changes, over all its allowed participations together. */
struct eps_sensitivity {
    double value;     /* a proven upper bound, adjacency included: replace_one doubles it */
    double lower;     /* value minus what rounding (and, for an exact rule, the optimiser) may have added */
    const char *rule; /* the rule that gave it; a static string */
    bool exact;       /* the rule gives the sensitivity and not only a bound on it */
};

/*
 * The sensitivity of C under the participation of the job, for contributions that are vectors of norm 1. Scheme none:
 * (k,b)-participation, by the best rule that applies. Sampled schemes: their worst-case pattern without amplification,
 * which is a bound if C >= 0 (joint convexity); EPS_UNSUPPORTED otherwise. EPS_OK, EPS_UNSUPPORTED, EPS_CANCELED,
 * EPS_TIMEOUT or EPS_NO_MEMORY. Thread-safe.
 */
EPS_MUST_USE enum eps_status eps__strategy_sensitivity(const struct eps_context *context, struct eps_sensitivity *out,
                                                       struct eps_error *error, const struct eps_strategy *strategy,
                                                       const struct eps_mechanism *mechanism);

/* The norm of column j, rounded up. O(1). */
double eps__strategy_column_norm(const struct eps_strategy *strategy, size_t j);
/* The largest column norm, rounded up. */
double eps__strategy_largest_norm(const struct eps_strategy *strategy);
/* The norm of column j, rounded down, for lower ends of brackets. O(1). */
double eps__strategy_column_norm_lower(const struct eps_strategy *strategy, size_t j);

/* All entries of C are >= 0, which amplification needs. */
bool eps__strategy_nonnegative(const struct eps_strategy *strategy);

/* Rows can be released one by one, because no row depends on a step after those of the rows before it: C is lower
 * triangular, or a tree in post-order. */
bool eps__strategy_lower_triangular(const struct eps_strategy *strategy);

/* The blocks of C: `stamps` equal blocks on the diagonal. Toeplitz blocks are given by their coefficients, trees by
 * height and value; for other blocks use eps_strategy_row(). Pointers are borrowed from the strategy. */
enum eps__shape { EPS__SHAPE_TOEPLITZ, EPS__SHAPE_TREE, EPS__SHAPE_OTHER };
struct eps__blocks {
    enum eps__shape shape;
    size_t stamps, block, block_rows; /* columns and rows of a block */
    const double *coefficients;       /* toeplitz: coefficients_len <= block numbers of the first column, the rest 0 */
    size_t coefficients_len;
    size_t height; /* tree: 2^height leaves, the first `block` of them in use */
    double scale;  /* tree: the value of its nonzero entries */
};
struct eps__blocks eps__strategy_blocks(const struct eps_strategy *strategy);

/* C is diagonal, so the noise is independent over steps. */
bool eps__strategy_is_diagonal(const struct eps_strategy *strategy);

/*
 * The variance of A C^-1 z per step at sigma = 1: its mean, largest and last value over steps. All NAN if A C^-1 is not
 * defined or not finite. The mechanism is the one from which the strategy was made. EPS_OK, EPS_CANCELED, EPS_TIMEOUT
 * or EPS_NO_MEMORY.
 */
EPS_MUST_USE enum eps_status eps__strategy_error(const struct eps_context *context, const struct eps_strategy *strategy,
                                                 const struct eps_mechanism *mechanism, double *mean, double *max,
                                                 double *last);

/* Writes sentence `index`, from 0 on, of the hints on a strategy: a gap wider than requested; missing error figures (if
 * error_defined is false). False: there are no more. */
bool eps__strategy_hint(char *out, size_t size, const struct eps_strategy *strategy,
                        const struct eps_mechanism *mechanism, bool error_defined, size_t index);

/* Whether the family runs an optimiser, which may take minutes. */
bool eps__strategy_is_optimised(const struct eps_matrix *matrix);

/*
 * As eps_strategy_create(), for finding out which accountants serve a job and at what cost. An optimised C is replaced
 * by a matrix of the same shape that takes no time to build. This is so even if the context's cache holds C, so that
 * the answer does not depend on earlier jobs. A negative entry, which only C itself can show, is found when the job
 * runs. Writes nothing to the cache.
 */
EPS_MUST_USE enum eps_status eps__strategy_probe(const struct eps_context *context, struct eps_strategy **strategy,
                                                 struct eps_error *error, const struct eps_mechanism *mechanism);

/* Whether an optimised C came from the context's cache; EPS_CACHE_UNUSED if nothing was optimised. */
enum eps_cache_state eps__strategy_cache_state(const struct eps_strategy *strategy);
/* The decoder for which the strategy was made, also if it was restored. */
enum eps_decoder eps__strategy_decoder(const struct eps_strategy *strategy);

/* The cost of building the strategy, its sensitivity and its error figures, from the job alone: floating-point
 * operations and bytes, within a small factor. */
void eps__strategy_cost(const struct eps_mechanism *mechanism, double *operations, double *bytes);

#endif
