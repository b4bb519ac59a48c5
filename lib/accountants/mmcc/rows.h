/*
 * The rows of C as MMCC sees them: which participations each row shows, and how likely each is, at most, after the
 * rows before it (MMCC figure 2; appendix A for rows taken in blocks). One file a shape of matrix:
 * Toeplitz, tree, and any other.
 *
 * Rows come in classes of equal ones. A pair is a row (or block of rows) and a column with an entry there and others
 * above: each pair needs a tail bound, and each tail bound its share of delta_1.
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

/* One question: the tail bounds at this sigma, each exceeded with probability at most e^log_eta. */
struct eps__tail_query {
    enum eps_direction direction; /* remove: measured with the example; add: without */
    double sigma;
    double log_eta;
    bool quick; /* about right is good enough: nothing will be proven by the answer */
    double z;   /* Pr[Z > z] <= e^log_eta */
};
struct eps__tail_query eps__tail_query(enum eps_direction direction, double sigma, double log_eta, bool quick);

struct eps__rows;

struct eps__rows_class {
    /* Computes the tail bounds. EPS_OK, EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT. */
    enum eps_status (*bound)(struct eps__rows *rows, const struct eps_context *context,
                             const struct eps__tail_query *query);
    /* How many rows class k stands for, once bound. */
    uint64_t (*count)(const struct eps__rows *rows, size_t k);
    /* The participations of class k: entries of C (not over sigma) and log odds, rounded up; returns how many, at
     * most entries_max. Thread-safe. */
    size_t (*fill)(const struct eps__rows *rows, size_t k, struct eps__factor *out);
    void (*destroy)(struct eps__rows *rows);
};

/* Thread-compatible; bound() writes, all else reads. */
struct eps__rows {
    const struct eps__rows_class *class;
    size_t classes; /* once bound */
    size_t entries_max;
    uint64_t rows; /* (blocks of) rows that show anything, of all stamps: what the counts add up to (A1) */
    double pairs;  /* M: how many tail bounds are used */
    double prior;  /* ln(p/(1 - p)), rounded up; INFINITY for p = 1 */
    double p;
    double entry_error;  /* relative, of an entry */
    double square_error; /* relative, of a sum of products of entries, */
    double tiny;         /* and absolute: what may have underflowed, of all such sums that one tail bound takes (A2) */
    atomic_bool starved; /* a tail bound lacked memory, and is looser than it would be */
};

/* Columns `part`, part + groups, ... of C, rows in blocks of `groups` steps; groups = 1: all of it. Out: *rows, which
 * the caller destroys. EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT, EPS_UNSUPPORTED. */
enum eps_status eps__toeplitz_rows(struct eps__rows **rows, const struct eps__blocks *blocks, size_t groups, double p);
enum eps_status eps__tree_rows(struct eps__rows **rows, const struct eps__blocks *blocks, double p);
enum eps_status eps__general_rows(struct eps__rows **rows, const struct eps_context *context, struct eps_error *error,
                                  const struct eps_strategy *strategy, size_t groups, size_t part, double p);

/* ---- what the shapes share ---- */

/* terms: of the longest sum of products; columns: the most that one tail bound takes. */
void eps__rows_init(struct eps__rows *rows, const struct eps__rows_class *class, double p, double terms,
                    double columns);

/* ||a||, a being the rows above of a column, not all 0: an upper bound from its computed square. */
static inline double eps__rows_norm_upper(const struct eps__rows *rows, double square)
{
    return sqrt(square + rows->tiny) * (1 + rows->square_error);
}

/* ln of what a tail bound may leave, where tau is that norm: above T a larger tau leaves less, by the norm's own error at most,
 * and never by more than a half (A2). */
double eps__rows_log_eta(const struct eps__rows *rows, const struct eps__tail_query *query, double square);

/* Add: the tail bound on <y, a> without the example. */
double eps__rows_tail_without(const struct eps__rows *rows, const struct eps__tail_query *query, double square);

/* ln of the odds of a participation, at most, where <y, a> <= tail: prior + (2 tail - ||a||^2)/(2 sigma^2). */
double eps__rows_log_odds(const struct eps__rows *rows, const struct eps__tail_query *query, double square,
                          double tail);

#endif
