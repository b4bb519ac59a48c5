/*
 * What the rooms of a strategy share: its one representation, and what a kind of it is.
 *
 * A strategy is `stamps` equal blocks down the diagonal. A block is of one of a few kinds: lower-triangular
 * Toeplitz (its first column up to the last nonzero), dense (square, row-major), a binary tree (nothing but its
 * scale is stored), banded (the numbers of its columns) or half a circulant (the Fourier mechanism; its first
 * column). A family is a way to fill in a kind; a kind is a table of operations on one block.
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

/* From `invert` to `noise_row` it is about the decoder B = A C^+ and the noise C^+ (n x the rows of C). */
struct eps__noise_way; /* noise.h */
struct eps__strategy_kind {
    const char *name;       /* goes into the content hash */
    enum eps__shape shape;  /* what others may know of its entries */
    bool first_is_worst;    /* of one block's fixed patterns: the first one's Gram matrix bounds those of all */
    bool inverse_is_matrix; /* `invert` gives block x block numbers; else the column of a Toeplitz matrix */
    /* Row `row` of a block: `block` numbers. */
    void (*row)(const struct eps_strategy *s, double *out, size_t row);
    /* The same from the diagonal leftwards: s->bands numbers, 0 before column 0. NULL: C is not square. Only for
     * lower-triangular blocks. */
    void (*band_row)(const struct eps_strategy *s, double *out, size_t row);
    /* Divides C by a positive number. */
    void (*divide)(struct eps_strategy *s, double divisor);
    /* Recomputes what is derived from the entries: bands, squares, signs, gram_error. False without memory. */
    bool (*measure)(struct eps_strategy *s);
    /* Hashes what sets a block of this kind apart. */
    void (*hash)(const struct eps_strategy *s, struct eps__hash *hash);
    /* Index of column j (of a block) in squares. */
    size_t (*square_index)(const struct eps_strategy *s, size_t j);
    /* The Gram matrix of columns first, first + step, ... of one block, into the count x count corner of out, whose
     * rows are ld apart. Each entry (i, j) is within gram_error ||c_i|| ||c_j||. False without memory, or stopped. */
    bool (*gram)(struct eps__work *work, const struct eps_strategy *s, double *out, size_t ld, size_t first,
                 size_t step, size_t count);
    /* One entry of the same, between columns of one block, where a whole Gram matrix is not to be had; NULL: it is. */
    double (*gram_entry)(const struct eps_strategy *s, size_t i, size_t j);
    /* A bound for the schema min_separation, where columns that far apart share rows. */
    enum eps_status (*min_separation)(const struct eps_context *context, struct eps__square *out,
                                      struct eps_error *error, const struct eps_strategy *s,
                                      const struct eps__participation *participation);
    /* The largest squared norm of the sum of the columns of one fixed_order pattern of the whole strategy, each
     * entry replaced by its absolute value. */
    enum eps_status (*fixed_order)(const struct eps_context *context, struct eps__interval *out,
                                   struct eps_error *error, const struct eps_strategy *s,
                                   const struct eps__participation *participation);
    /* What the decoder is computed from, malloc'ed into s->inverse; *defined: whether there is a decoder (where it
     * is not, or on an error, what was written is freed by the caller). Called once, under the lock. */
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
    /* How C^+ z may be drawn, ended by NULL. */
    const struct eps__noise_way *const *noise_ways;
    /* For cost.c: the numbers that C takes; the operations of one Gram matrix of k columns, and the numbers beside it; and
     * what fixed_order from so many starts, min_separation and the error figures take, added. */
    double (*numbers)(const struct eps__forecast *c);
    double (*gram_cost)(const struct eps__forecast *c, double k, double *numbers);
    void (*fixed_order_cost)(struct eps__cost *cost, const struct eps__forecast *c,
                             const struct eps__participation *participation, double starts);
    void (*min_separation_cost)(struct eps__cost *cost, const struct eps__forecast *c);
    void (*error_cost)(struct eps__cost *cost, const struct eps__forecast *c, const struct eps_workload *w);
    /* For the cache: writes and reads what this kind has beside block_rows, scale, height and entries. NULL: nothing.
     * A load that cannot go on sets from->bad. */
    void (*save)(const struct eps_strategy *s, struct eps__record *out);
    void (*load)(struct eps_strategy *s, struct eps__record *from);
};

#define EPS__DIVISORS_MAX 32

/* Immutable once eps_strategy_create() returned it, but for `inverse`, which the lock guards. */
struct eps_strategy {
    const struct eps__strategy_kind *kind;
    size_t n, stamps;
    size_t block;      /* columns of a block: n / stamps */
    size_t block_rows; /* rows of a block */
    double *entries;   /* toeplitz: entries_len coefficients; dense: block x block; tree: NULL;
                     * fourier: 2 block; banded: see banded.h */
    size_t entries_len;
    /* toeplitz, where the family defines C by it: the first numbers of C0^-1's first column, the rest 0; else NULL */
    double *known_inverse;
    size_t known_inverse_len;
    /* blt: decays, and scales where C[0, 0] is 1, blt_len of each in one array; else NULL */
    double *blt;
    size_t blt_len;
    double scale;             /* tree: the value of its nonzero entries */
    size_t height;            /* tree: 2^height leaves a block */
    size_t width;             /* banded: numbers stored for each column */
    enum eps_decoder decoder; /* where C^+ is not the only left inverse that a family offers; else the default */
    size_t bands;             /* columns this far apart, or in different blocks, have no row in common; at most block */
    bool nonnegative, lower;
    double gram_error;
    struct eps__interval *squares; /* squared column norms, indexed through square_index */
    size_t squares_len;
    struct eps__workload workload;
    pthread_mutex_t lock;
    bool lock_made;
    enum { EPS__INVERSE_UNKNOWN, EPS__INVERSE_NONE, EPS__INVERSE_READY } inverse_state;
    double *inverse;       /* of a block: toeplitz: its first column, `block` numbers; dense: block x block */
    size_t iterations;     /* of the optimiser; 0 if the family has none */
    double optimality_gap; /* relative, certified; NAN if none is known */
    enum eps_cache_state cache_state;
    /* How to build it again, for strategy/stored.c: the recipe, repeated so often down the diagonal, and what it was divided
     * by. */
    struct eps__record origin;
    size_t origin_stamps;
    double divisors[EPS__DIVISORS_MAX];
    size_t divisors_len;
    char id[EPS__HASH_HEX];
};

void eps__strategy_size(struct eps_strategy *s, size_t n, size_t stamps);
/* Frees what a builder fills in. */
void eps__strategy_reset(struct eps_strategy *s);
static inline const struct eps__interval *eps__column_square(const struct eps_strategy *s, size_t j)
{
    return &s->squares[s->kind->square_index(s, j % s->block)];
}

#endif
