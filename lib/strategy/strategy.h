/*
 * Strategy matrices as the accountants see them: the public type of epsilon.h, and what privacy needs of it.
 * Every bound here holds in spite of rounding.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_STRATEGY_STRATEGY_H
#define EPS_STRATEGY_STRATEGY_H

#include "lib/epsilon.h"

/* How far C x can move when one example changes, all its allowed participations together. */
struct eps_sensitivity {
    double value;     /* a proven upper bound; adjacency included: replace_one doubles */
    double lower;     /* value less what rounding (and, for an exact rule, the optimiser) may have added */
    const char *rule; /* static: which rule gave it */
    bool exact;       /* the rule gives the sensitivity itself, not only a bound on it */
};

/*
 * The sensitivity of C under the participation of the job, for vector contributions of norm 1.
 * Scheme none: (k,b)-participation, by the best rule that applies. The sampled schemes: their worst pattern
 * without any amplification, which bounds them where C >= 0 (joint convexity); elsewhere EPS_UNSUPPORTED.
 * Returns EPS_OK, EPS_UNSUPPORTED, EPS_CANCELED, EPS_TIMEOUT, EPS_NO_MEMORY. Thread-safe.
 */
EPS_MUST_USE enum eps_status eps__strategy_sensitivity(const struct eps_context *context, struct eps_sensitivity *out,
                                                       struct eps_error *error, const struct eps_strategy *strategy,
                                                       const struct eps_mechanism *mechanism);

/* The norm of column j, rounded up. O(1). */
double eps__strategy_column_norm(const struct eps_strategy *strategy, size_t j);
/* The largest of them. */
double eps__strategy_largest_norm(const struct eps_strategy *strategy);
/* A column's norm rounded down: what the lower end of a bracket needs. O(1). */
double eps__strategy_column_norm_lower(const struct eps_strategy *strategy, size_t j);

/* All entries of C are >= 0: what amplification needs. */
bool eps__strategy_nonnegative(const struct eps_strategy *strategy);

/* Rows can be released one by one, none depending on a step after those of the rows before it: C is lower
 * triangular, or a tree in post-order. */
bool eps__strategy_lower_triangular(const struct eps_strategy *strategy);

/* What C is made of: `stamps` equal blocks down the diagonal. Toeplitz blocks by their coefficients, trees by height
 * and value; of any other block only eps_strategy_row() knows more. Borrowed from the strategy. */
enum eps__shape { EPS__SHAPE_TOEPLITZ, EPS__SHAPE_TREE, EPS__SHAPE_OTHER };
struct eps__blocks {
    enum eps__shape shape;
    size_t stamps, block, block_rows; /* columns and rows of a block */
    const double *coefficients;       /* toeplitz: the first column, coefficients_len <= block numbers, the rest 0 */
    size_t coefficients_len;
    size_t height; /* tree: 2^height leaves, the first `block` of them in use */
    double scale;  /* tree: the value of its nonzero entries */
};
struct eps__blocks eps__strategy_blocks(const struct eps_strategy *strategy);

/* C is diagonal: independent noise. */
bool eps__strategy_is_diagonal(const struct eps_strategy *strategy);

/*
 * Variance of A C^-1 z per step at sigma = 1: mean, largest and last over steps; all NAN where A C^-1 is not
 * defined, or not finite. The mechanism is the one that the strategy was made from.
 * Returns EPS_OK, EPS_CANCELED, EPS_TIMEOUT, EPS_NO_MEMORY.
 */
EPS_MUST_USE enum eps_status eps__strategy_error(const struct eps_context *context, const struct eps_strategy *strategy,
                                                 const struct eps_mechanism *mechanism, double *mean, double *max,
                                                 double *last);

/* Sentence `index`, from 0 on, of what a user should know about the strategy: a gap wider than asked for, error figures
 * that are missing (error_defined: they are not). False: there are no more. */
bool eps__strategy_hint(char *out, size_t size, const struct eps_strategy *strategy,
                        const struct eps_mechanism *mechanism, bool error_defined, size_t index);

/* The family runs an optimiser, which may take minutes. */
bool eps__strategy_is_optimised(const struct eps_matrix *matrix);

/*
 * As eps_strategy_create(), to ask who serves a job and at what cost: where an optimiser would find C, a matrix of the same shape
 * stands in, which takes no time. It does so also where the context's cache has C, so that the same job is served whatever was
 * computed before; what only C itself can tell, that an entry is negative, shows while the job runs. Offers the cache nothing.
 */
EPS_MUST_USE enum eps_status eps__strategy_probe(const struct eps_context *context, struct eps_strategy **strategy,
                                                 struct eps_error *error, const struct eps_mechanism *mechanism);

/* Whether an optimised C came from the context's cache; EPS_CACHE_UNUSED where nothing was optimised. */
enum eps_cache_state eps__strategy_cache_state(const struct eps_strategy *strategy);
/* The decoder that the strategy was made for, also where a stored one was. */
enum eps_decoder eps__strategy_decoder(const struct eps_strategy *strategy);

/* What building the strategy, its sensitivity and its error figures cost: floating-point operations and bytes,
 * within a small factor, from the job alone. */
void eps__strategy_cost(const struct eps_mechanism *mechanism, double *operations, double *bytes);

#endif
