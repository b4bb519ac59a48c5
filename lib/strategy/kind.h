/*
 * What the folders of lib/strategy share: the one representation of a strategy, and the interface of a kind.
 *
 * A strategy is `stamps` equal blocks on the diagonal. A block has one of a few kinds: lower-triangular Toeplitz (its
 * first column up to the last nonzero), dense (square, row-major), binary tree (only its scale is stored), banded (the
 * numbers of its columns) or half a circulant (the Fourier mechanism; its first column). A family fills in a kind; a
 * kind is a table of operations on one block.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_STRATEGY_KIND_H
#define EPS_STRATEGY_KIND_H

#include <pthread.h>

#include "lib/base/error.h"
#include "lib/numerics/hash.h"
#include "lib/numerics/sum.h"
#include "lib/sampling/sampling.h"
#include "lib/strategy/cost.h"
#include "lib/strategy/kept/record.h"
#include "lib/strategy/strategy.h"
#include "lib/strategy/workload.h"

/* A bound on the square of the sensitivity. */
struct eps__square {
    struct eps__interval value;
    const char *rule;
    bool exact;
};

/* The operations of a kind. Those from `invert` to `noise_row` concern the decoder B = A C^+ and C^+, which has n rows
 * and as many columns as C has rows. */
struct eps__noise_way; /* noise.h */
struct eps__strategy_kind {
    const char *name;       /* enters the content hash */
    enum eps__shape shape;  /* what callers may know of its entries */
    bool first_is_worst;    /* of the fixed patterns in a block, the first has the largest Gram matrix */
    bool inverse_is_matrix; /* `invert` gives block x block numbers; else the first column of a Toeplitz matrix */
    /* Row `row` of a block: `block` numbers. */
    void (*row)(const struct eps_strategy *s, double *out, size_t row);
    /* The same from the diagonal leftwards: s->bands numbers, 0 before column 0. Only for lower-triangular blocks.
     * NULL: C is not square. */
    void (*band_row)(const struct eps_strategy *s, double *out, size_t row);
    /* Divides C by a positive number. */
    void (*divide)(struct eps_strategy *s, double divisor);
    /* Recomputes what is derived from the entries: bands, squares, signs, gram_error. False: no memory. */
    bool (*measure)(struct eps_strategy *s);
    /* Hashes what distinguishes blocks of this kind. */
    void (*hash)(const struct eps_strategy *s, struct eps__hash *hash);
    /* The index in squares of column j of a block. */
    size_t (*square_index)(const struct eps_strategy *s, size_t j);
    /* The Gram matrix of columns first, first + step, ... of one block, written to the count x count corner of out,
     * whose rows are ld apart. Entry (i, j) is within gram_error ||c_i|| ||c_j|| of the exact one. False: no memory, or
     * stopped. */
    bool (*gram)(struct eps__work *work, const struct eps_strategy *s, double *out, size_t ld, size_t first,
                 size_t step, size_t count);
    /* One entry of it, for blocks whose whole Gram matrix would be too large. NULL: use `gram`. */
    double (*gram_entry)(const struct eps_strategy *s, size_t i, size_t j);
    /* A bound for the schema min_separation, if columns that are `separation` apart share rows. */
    enum eps_status (*min_separation)(const struct eps_context *context, struct eps__square *out,
                                      struct eps_error *error, const struct eps_strategy *s,
                                      const struct eps__participation *participation);
    /* The largest squared norm of the sum of the columns of one fixed_order pattern of the whole strategy, each
     * entry replaced by its absolute value. */
    enum eps_status (*fixed_order)(const struct eps_context *context, struct eps__interval *out,
                                   struct eps_error *error, const struct eps_strategy *s,
                                   const struct eps__participation *participation);
    /* Computes what the decoder is derived from into *inverse, malloc'ed; *defined: whether there is a decoder. If not,
     * or on an error, the caller frees *inverse. Called once, under the lock. */
    enum eps_status (*invert)(const struct eps_context *context, double **inverse, bool *defined,
                              struct eps_error *error, const struct eps_strategy *s);
    /* The squared norms of the rows of B, n of them. */
    enum eps_status (*variance)(const struct eps_context *context, double *out, struct eps_error *error,
                                const struct eps_strategy *s, const double *inverse);
    /* Row `row` of B, and of C^+: as many numbers as C has rows. */
    enum eps_status (*decoder_row)(const struct eps_strategy *s, double *out, struct eps_error *error,
                                   const double *inverse, size_t row);
    enum eps_status (*noise_row)(const struct eps_strategy *s, double *out, struct eps_error *error,
                                 const double *inverse, size_t row);
    /* The ways to draw C^+ z, a list that ends with NULL. */
    const struct eps__noise_way *const *noise_ways;
    /* Fills in the kind of the recurrence and its numbers. NULL: rows of C^+. */
    void (*recurrence)(const struct eps_strategy *s, struct eps_recurrence *r);
    /* For cost.c: the numbers that C takes; the operations for one Gram matrix of k columns, and the numbers that it
     * needs besides; and functions that add the cost of fixed_order from `starts` starting points, of min_separation
     * and of the error figures. */
    double (*numbers)(const struct eps__forecast *c);
    double (*gram_cost)(const struct eps__forecast *c, double k, double *numbers);
    void (*fixed_order_cost)(struct eps__cost *cost, const struct eps__forecast *c,
                             const struct eps__participation *participation, double starts);
    void (*min_separation_cost)(struct eps__cost *cost, const struct eps__forecast *c);
    void (*error_cost)(struct eps__cost *cost, const struct eps__forecast *c, const struct eps_workload *w);
    /* For the cache: writes and reads what this kind has besides block_rows, scale, height and entries. NULL: nothing.
     * A load that fails sets from->bad. */
    void (*save)(const struct eps_strategy *s, struct eps__record *out);
    void (*load)(struct eps_strategy *s, struct eps__record *from);
};

#define EPS__DIVISORS_MAX 32

/* Immutable after eps_strategy_create() returns it, except `inverse`, which the lock guards. */
struct eps_strategy {
    const struct eps__strategy_kind *kind;
    size_t n, stamps;
    size_t block;      /* columns of a block: n / stamps */
    size_t block_rows; /* rows of a block */
    /* toeplitz: entries_len coefficients; dense: block x block; tree: NULL; fourier: 2 block; banded: see banded.h */
    double *entries;
    size_t entries_len;
    /* toeplitz, if the family defines C by its inverse: the leading nonzero part of the first column of C0^-1, the rest
     * being 0; else NULL */
    double *known_inverse;
    size_t known_inverse_len;
    /* blt: blt_len decays, then blt_len scales for a C with C[0, 0] = 1, in one array; else NULL */
    double *blt;
    size_t blt_len;
    double scale;             /* tree: the value of its nonzero entries */
    size_t height;            /* tree: a block has 2^height leaves */
    size_t width;             /* banded: numbers stored for each column */
    enum eps_decoder decoder; /* the family's choice of left inverse, if it offers several; else the default */
    size_t bands;             /* columns this far apart, or in different blocks, share no row; at most block */
    bool nonnegative, lower;
    double gram_error;
    struct eps__interval *squares; /* squared column norms, indexed through square_index */
    size_t squares_len;
    struct eps__workload workload;
    pthread_mutex_t lock;
    bool lock_made;
    enum { EPS__INVERSE_UNKNOWN, EPS__INVERSE_NONE, EPS__INVERSE_READY } inverse_state;
    double *inverse;       /* of a block: toeplitz: the first column, `block` numbers; dense: block x block */
    size_t iterations;     /* iterations of the optimiser; 0 if the family has none */
    double optimality_gap; /* relative, certified; NAN if unknown */
    enum eps_cache_state cache_state;
    /* How to rebuild the strategy, for strategy/stored.c: the recipe, the number of its copies on the diagonal, and the
     * divisors since. */
    struct eps__record origin;
    size_t origin_stamps;
    double divisors[EPS__DIVISORS_MAX];
    size_t divisors_len;
    char id[EPS__HASH_HEX];
};

/* Sets n, stamps and block. stamps divides n. */
void eps__strategy_size(struct eps_strategy *s, size_t n, size_t stamps);
/* Frees and clears what a builder fills in. */
void eps__strategy_reset(struct eps_strategy *s);
static inline const struct eps__interval *eps__column_square(const struct eps_strategy *s, size_t j)
{
    return &s->squares[s->kind->square_index(s, j % s->block)];
}

#endif
