/*
 * The rows of C in MMCC: the participations that each row shows, and upper bounds on their probabilities given the rows
 * before (MMCC figure 2; appendix A for blocks of rows). There is one file per shape of matrix: Toeplitz, tree, and
 * general.
 *
 * Equal rows form a class. In this folder a pair is a row (or block of rows) and a column that has a nonzero entry both
 * in it and above it. Every pair needs a tail bound, and every tail bound takes a share of delta_1.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_MMCC_ROWS_H
#define EPS_ACCOUNTANTS_MMCC_ROWS_H

#include <math.h>
#include <stdatomic.h>
#include <stdint.h>

#include "lib/pld/pairs/product_mixture.h"
#include "lib/sampling/weighted_bernoulli.h"
#include "lib/strategy/strategy.h"

/* Describes the tail bounds to compute: each is exceeded with probability at most e^log_eta. */
struct eps__tail_query {
    enum eps_direction direction; /* remove: the probability is that with the example; add: without it */
    double sigma;
    double log_eta;
    bool quick; /* approximate bounds suffice, because nothing is proven from them */
    double z;   /* a normal quantile: Pr[Z > z] <= e^log_eta */
};
struct eps__tail_query eps__tail_query(enum eps_direction direction, double sigma, double log_eta, bool quick);

struct eps__rows;

struct eps__rows_class {
    /* Computes the tail bounds. EPS_OK, EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT. */
    enum eps_status (*bound)(struct eps__rows *rows, const struct eps_context *context,
                             const struct eps__tail_query *query);
    /* The number of rows in class k. Valid after bound(). */
    uint64_t (*count)(const struct eps__rows *rows, size_t k);
    /* Writes the participations of class k: entries of C (not divided by sigma) and log odds, rounded up. Returns their
     * number, at most entries_max. Valid after bound(); thread-safe. */
    size_t (*fill)(const struct eps__rows *rows, size_t k, struct eps__factor *out);
    void (*destroy)(struct eps__rows *rows);
};

/* Thread-compatible: bound() writes, the other functions read. */
struct eps__rows {
    const struct eps__rows_class *class;
    size_t classes;     /* the number of classes; valid after bound() */
    size_t entries_max; /* the most participations in a row */
    uint64_t rows;      /* the number of (blocks of) rows that show the example, over all stamps (A1) */
    double pairs;       /* M: the number of tail bounds */
    double prior;       /* ln(p/(1 - p)), rounded up; INFINITY for p = 1 */
    double p;
    double entry_error;  /* the relative error of an entry */
    double square_error; /* the relative error of a sum of products of entries */
    double tiny;         /* the absolute error by underflow of all such sums in one tail bound (A2) */
    atomic_bool starved; /* a tail bound ran out of memory: bound() returns EPS_NO_MEMORY */
};

/* Make the rows of columns part, part + groups, ... of C, in blocks of `groups` rows; groups = 1 takes all of C. The
 * first two functions make part 0. The caller destroys *rows through its class. EPS_NO_MEMORY, EPS_CANCELED,
 * EPS_TIMEOUT, EPS_UNSUPPORTED. */
enum eps_status eps__toeplitz_rows(struct eps__rows **rows, const struct eps__blocks *blocks, size_t groups, double p);
enum eps_status eps__tree_rows(struct eps__rows **rows, const struct eps__blocks *blocks, double p);
enum eps_status eps__general_rows(struct eps__rows **rows, const struct eps_context *context, struct eps_error *error,
                                  const struct eps_strategy *strategy, size_t groups, size_t part, double p);

/* ---- shared by the shapes ---- */

/* `terms` is the length of the longest sum of products, `columns` the largest number of such sums in one tail bound. */
void eps__rows_init(struct eps__rows *rows, const struct eps__rows_class *class, double p, double terms,
                    double columns);

/* An upper bound on ||a|| from its computed square, where a != 0 is the part of a column above a row. */
static inline double eps__rows_norm_upper(const struct eps__rows *rows, double square)
{
    return sqrt(square + rows->tiny) * (1 + rows->square_error);
}

/* ln of the failure probability for which a tail bound is computed when tau uses the upper bound on ||a||. It is less
 * than query->log_eta, because a larger tau can lower the computed probability, by a factor of at most 2 (A2). */
double eps__rows_log_eta(const struct eps__rows *rows, const struct eps__tail_query *query, double square);

/* The tail bound on <y, a> without the example, for the add direction. */
double eps__rows_tail_without(const struct eps__rows *rows, const struct eps__tail_query *query, double square);

/* An upper bound on ln of the odds of a participation given <y, a> <= tail: prior + (2 tail - ||a||^2)/(2 sigma^2). */
double eps__rows_log_odds(const struct eps__rows *rows, const struct eps__tail_query *query, double square,
                          double tail);

#endif
