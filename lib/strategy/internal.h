/*
 * What the files of this room share: the one representation of a strategy, and the workload beside it.
 *
 * A strategy is `stamps` equal blocks down the diagonal. A block is of one of a few kinds: lower-triangular
 * Toeplitz (its first column up to the last nonzero), dense (square, row-major), a binary tree (nothing but its
 * scale is stored), banded (the numbers of its columns) or half a circulant (the Fourier mechanism; its first column). A family is a way to fill in a kind; a kind is a table of operations on one block.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_STRATEGY_INTERNAL_H
#define EPS_STRATEGY_INTERNAL_H

#include <pthread.h>

#include "lib/error.h"
#include "lib/numerics/hash.h"
#include "lib/numerics/sum.h"
#include "lib/sampling/sampling.h"
#include "lib/strategy/cost.h"
#include "lib/strategy/record.h"
#include "lib/strategy/strategy.h"

/* The matrix A. prefix_sum and momentum are A_tj = sum over s = j..t of decay^(t-s) eta_s momentum^(s-j) and are
 * handled by their recursion; a list of coefficients is any lower-triangular Toeplitz matrix. */
struct eps__workload {
    bool recursive;
    double momentum, decay;
    bool cooldown; /* eta is not 1 throughout */
    double cooldown_start, cooldown_to;
    double *coefficients; /* not recursive: coefficients_len of them, owned */
    size_t coefficients_len;
    size_t n;
};

/* A bound on the square of the sensitivity. */
struct eps__square {
    struct eps__interval value;
    const char *rule;
    bool exact;
};

/* Everything but `row` .. `fixed_order` concerns the decoder B = A C^+ and the noise C^+ (n x the rows of C). */
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
     * rows are ld apart. Each entry (i, j) is within gram_error ||c_i|| ||c_j||. */
    bool (*gram)(const struct eps_strategy *s, double *out, size_t ld, size_t first, size_t step, size_t count);
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
    enum eps_status (*invert)(const struct eps_strategy *s, double **inverse, bool *defined, struct eps_error *error);
    /* The squared norms of the rows of B, n of them. */
    enum eps_status (*variance)(const struct eps_context *context, double *out, struct eps_error *error,
                                const struct eps_strategy *s, const double *inverse);
    /* Row `row` of B, and of C^+: as many numbers as C has rows. */
    enum eps_status (*decoder_row)(const struct eps_strategy *s, double *out, struct eps_error *error,
                                   const double *inverse, size_t row);
    enum eps_status (*noise_row)(const struct eps_strategy *s, double *out, struct eps_error *error,
                                 const double *inverse, size_t row);
    /* For cost.c: the numbers that C takes; the operations of fixed_order from so many starts; and the operations and bytes
     * of min_separation and of the error figures, added. */
    double (*numbers)(const struct eps__forecast *c);
    double (*fixed_order_cost)(const struct eps__forecast *c, const struct eps__participation *participation,
                               double starts);
    void (*min_separation_cost)(struct eps__cost *cost, const struct eps__forecast *c);
    void (*error_cost)(struct eps__cost *cost, const struct eps__forecast *c, const struct eps_workload *w);
    /* For the cache: writes and reads what this kind has beside block_rows, scale, height and entries. NULL: nothing.
     * A load that cannot go on sets from->bad. */
    void (*save)(const struct eps_strategy *s, struct eps__record *out);
    void (*load)(struct eps_strategy *s, struct eps__record *from);
};

extern const struct eps__strategy_kind eps__strategy_toeplitz;
extern const struct eps__strategy_kind eps__strategy_dense;
extern const struct eps__strategy_kind eps__strategy_tree;
extern const struct eps__strategy_kind eps__strategy_fourier;
extern const struct eps__strategy_kind eps__strategy_banded;

/* An entry of the Gram matrix of a banded block, within gram_error. */
double eps__banded_gram(const struct eps_strategy *s, size_t i, size_t j);

/* The decoders of a tree: operations of its kind. */
enum eps_status eps__tree_invert(const struct eps_strategy *s, double **inverse, bool *defined,
                                 struct eps_error *error);
enum eps_status eps__tree_variance(const struct eps_context *context, double *out, struct eps_error *error,
                                   const struct eps_strategy *s, const double *inverse);
enum eps_status eps__tree_decoder_row(const struct eps_strategy *s, double *out, struct eps_error *error,
                                      const double *inverse, size_t row);
enum eps_status eps__tree_noise_row(const struct eps_strategy *s, double *out, struct eps_error *error,
                                    const double *inverse, size_t row);

/* The decoders of the Fourier mechanism, likewise. */
enum eps_status eps__fourier_invert(const struct eps_strategy *s, double **inverse, bool *defined,
                                    struct eps_error *error);
enum eps_status eps__fourier_variance(const struct eps_context *context, double *out, struct eps_error *error,
                                      const struct eps_strategy *s, const double *inverse);
enum eps_status eps__fourier_decoder_row(const struct eps_strategy *s, double *out, struct eps_error *error,
                                         const double *inverse, size_t row);
enum eps_status eps__fourier_noise_row(const struct eps_strategy *s, double *out, struct eps_error *error,
                                       const double *inverse, size_t row);
/* The Gram matrix of a block: out[e], e < block, is X_ij at |i - j| = e, within *error. False without memory. */
bool eps__fourier_lags(double *out, double *error, const struct eps_strategy *s);

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
    /* How to build it again, for stored.c: the recipe, repeated so often down the diagonal, and what it was divided
     * by. */
    struct eps__record origin;
    size_t origin_stamps;
    double divisors[EPS__DIVISORS_MAX];
    size_t divisors_len;
    char id[EPS__HASH_HEX];
};

/* ---- failing ---- */

enum eps_status eps__strategy_no_memory(struct eps_error *error);
/* EPS_OK, or what the context says. */
enum eps_status eps__strategy_poll(const struct eps_context *context, struct eps_error *error);

/* ---- the steps of making one ---- */

typedef enum eps_status eps__builder(const struct eps_context *context, struct eps_strategy *s, struct eps_error *error,
                                     const struct eps_mechanism *mechanism);

void eps__strategy_size(struct eps_strategy *s, size_t n, size_t stamps);
/* Frees what a builder fills in. */
void eps__strategy_reset(struct eps_strategy *s);
/* The family's C before scaling, measured; not for family stored. key: of the optimiser's answer, NULL: derived from
 * the mechanism. Where an optimiser would have to run and deferred is not NULL, *deferred is set and s has no C. */
enum eps_status eps__strategy_base(const struct eps_context *context, struct eps_strategy *s, struct eps_error *error,
                                   const struct eps_mechanism *mechanism, const uint8_t *key, bool *deferred);
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
                                          const uint8_t key[EPS__HASH_BYTES], eps__builder *builder, bool *deferred);

/* Starts the note by which the strategy can be found again. False without memory. */
bool eps__stored_begin(struct eps_strategy *s, const struct eps_mechanism *mechanism,
                       const uint8_t key[EPS__HASH_BYTES]);
/* Offers the note to the cache. */
void eps__stored_offer(const struct eps_context *context, const struct eps_strategy *s);
/* Family stored. */
enum eps_status eps__build_stored(const struct eps_context *context, struct eps_strategy *s, struct eps_error *error,
                                  const struct eps_mechanism *mechanism, bool *deferred);

/* ---- shared by several families ---- */

/* banded with toeplitz: false. */
enum eps_status eps__build_banded_columns(const struct eps_context *context, struct eps_strategy *s,
                                          struct eps_error *error, const struct eps_mechanism *mechanism);
/* Divides each column of a Toeplitz block by its norm: makes it banded. */
enum eps_status eps__normalise_columns(struct eps_strategy *s, struct eps_error *error);
/* banded: whether bands beyond the separation may have either sign: the job does not sample, and its patterns are few
 * and fixed, so that the sensitivity goes by one Gram matrix. */
bool eps__banded_either_sign(const struct eps_mechanism *mechanism);

/* Makes s Toeplitz with the given malloc'ed coefficients, which it takes; 1 <= len <= block. */
void eps__toeplitz_steal(struct eps_strategy *s, double *coefficients, size_t len);

/* Makes s Toeplitz with C0 = 1/inverse as series; takes the malloc'ed inverse (len <= block numbers, the first not 0),
 * also on an error. The inverse is then known: nothing is inverted again. */
enum eps_status eps__toeplitz_from_inverse(const struct eps_context *context, struct eps_strategy *s,
                                           struct eps_error *error, double *inverse, size_t len);
/* out = a/c as series, n numbers, a NULL for 1, c zero from len on: O(n len), term by term. */
enum eps_status eps__toeplitz_quotient(const struct eps_context *context, double *out, struct eps_error *error,
                                       const double *a, size_t n, const double *c, size_t len);

/* Beyond this many buffers doubles have nothing to add at any length. */
enum { EPS__BLT_BUFFERS_MAX = 16 };
/* The decays and scales of the best BLT with the job's number of buffers. */
enum eps_status eps__blt_optimise(const struct eps_context *context, double *decay, double *scale,
                                  struct eps_strategy *s, struct eps_error *error,
                                  const struct eps_mechanism *mechanism);

/* Scales C as the job says. */
enum eps_status eps__strategy_normalise(const struct eps_context *context, struct eps_strategy *s,
                                        struct eps_error *error, const struct eps_mechanism *mechanism);

static inline const struct eps__interval *eps__column_square(const struct eps_strategy *s, size_t j)
{
    return &s->squares[s->kind->square_index(s, j % s->block)];
}

/* ---- workload ---- */

enum eps_status eps__workload_init(struct eps__workload *w, struct eps_error *error,
                                   const struct eps_mechanism *mechanism);
/* That of one block of n steps, as a job of so many steps would have it: what an optimised block is the best for. */
enum eps_status eps__workload_of_block(struct eps__workload *w, struct eps_error *error,
                                       const struct eps_mechanism *mechanism, size_t n);
void eps__workload_clear(struct eps__workload *w);
bool eps__workload_is_toeplitz(const struct eps__workload *w);
/* eta_s: 1, or falling in the cooldown. */
double eps__workload_rate(const struct eps__workload *w, size_t step);
/* The first len <= n coefficients of a Toeplitz workload. */
void eps__workload_coefficients(const struct eps__workload *w, double *out, size_t len);
/* The first len coefficients of a recursive workload's series to the power -power: -1/2 is its root, 1/2 the root's
 * inverse. */
void eps__workload_power(const struct eps__workload *w, double *out, size_t len, double power);
/* The first len numbers of a Toeplitz workload's inverse square root, malloc'ed; a positive first coefficient. */
enum eps_status eps__inverse_root(double **out, struct eps_error *error, const struct eps__workload *w, size_t len);
/* Row t: entries 0..t into out. */
void eps__workload_row(const struct eps__workload *w, double *out, size_t t);

/* ---- sensitivity ---- */

/* Longest pattern whose Gram matrix is formed. */
enum { EPS__GRAM_STEPS_MAX = 4096 };

/* What some optimisers are told of the sampling, beside the job's matrix.epochs and separation; both false for a single
 * epoch, where they hardly matter and jobs of every scheme share an optimum, and for families that are told nothing. */
struct eps__target {
    bool separated; /* several steps at least, not exactly, so far apart */
    bool sampled;   /* the job samples: amplification needs C >= 0 */
};
struct eps__target eps__target_told(const struct eps_mechanism *mechanism);
/* The number of starting points of fixed_order patterns. */
size_t eps__participation_starts(const struct eps__participation *participation, size_t n);

/* The square of the sensitivity under a participation, adjacency and amplitude apart. */
enum eps_status eps__participation_square(const struct eps_context *context, struct eps__square *out,
                                          struct eps_error *error, const struct eps_strategy *s,
                                          const struct eps__participation *participation);

/* The best rule for one pattern with the Gram matrix x (k x k, taken as exact); where the cheapest rule shows that
 * the square is at most `floor`, that one. False without memory. */
bool eps__gram_square(struct eps__square *out, const double *x, size_t k, double floor);

/* max sum of <g_i, g_j> x_ij over unit vectors g_i: upper is proven (INFINITY where no proof was found), lower
 * attained. False without memory. */
bool eps__semidefinite_square(struct eps__interval *out, const double *x, size_t k);
/* A proven upper bound on that maximum from the multipliers d: the sum of d + shift, where diag(d + shift) - x is
 * proven positive semidefinite. INFINITY where no shift worked. work has k * k numbers, values k. */
double eps__semidefinite_certify(const double *x, const double *d, size_t k, double *work, double *values);

/* min_separation where columns of one pattern overlap. */
enum eps_status eps__min_separation_square(const struct eps_context *context, struct eps__square *out,
                                           struct eps_error *error, const struct eps_strategy *s,
                                           const struct eps__participation *participation);
/* An upper bound on the largest sum of at most k of x[0..n-1] >= 0 at least b apart, tight but for rounding.
 * best and taken: scratch of n + 1. */
double eps__separated_bound(const double *x, size_t n, size_t k, size_t b, double *best, uint32_t *taken);
/* What eps__separated_bound() may be off by, relative, for sums of up to `terms` numbers. */
double eps__separated_error(size_t terms);
/* Bounds for it, as operations of kinds: by each column's own row of the Gram matrix; and Toeplitz, by a majorant whose worst
 * pattern is known. */
enum eps_status eps__row_bound(const struct eps_context *context, struct eps__square *out, struct eps_error *error,
                               const struct eps_strategy *s, const struct eps__participation *participation);
enum eps_status eps__majorant_bound(const struct eps_context *context, struct eps__square *out, struct eps_error *error,
                                    const struct eps_strategy *s, const struct eps__participation *participation);

/* out[u] = sum of |c[u - i b]| over 0 <= i < k, for u < n, with c zero from len on. Each has a relative error of at
 * most 4 units of rounding. False without memory. */
bool eps__strided_window(double *out, size_t n, const double *c, size_t len, size_t k, size_t b);

/* ---- inverse and error ---- */

/* Of a row b of B and the row u of the momentum matrix times C^+, for a recursive workload, over some rows of C:
 * what follows from step to step without knowing them. u' = momentum u and b' = decay b + eta u'. */
struct eps__past {
    double bb, bu, uu;
};

static inline void eps__past_step(struct eps__past *past, const struct eps__workload *w, double eta)
{
    double a = w->decay, m = w->momentum;
    double uu = m * m * past->uu, bu = a * m * past->bu;
    past->bb = a * a * past->bb + 2 * eta * bu + eta * eta * uu;
    past->bu = bu + eta * uu;
    past->uu = uu;
}

static inline bool eps__all_finite(const double *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

/* The inverse of a block, kept with the strategy: NULL and EPS_OK where it is not defined. */
enum eps_status eps__strategy_inverse(const double **out, struct eps_error *error, const struct eps_strategy *s);

/* Of blocks with a square C0: its inverse is at hand as first column (toeplitz) or matrix (dense). */
enum eps_status eps__toeplitz_variance(const struct eps_context *context, double *out, struct eps_error *error,
                                       const struct eps_strategy *s, const double *inverse);
enum eps_status eps__dense_variance(const struct eps_context *context, double *out, struct eps_error *error,
                                    const struct eps_strategy *s, const double *inverse);
/* out = a C0^+ (as many numbers as a block has rows) for the row a of `len` <= block numbers, zero beyond; work has
 * twice as many numbers. False without memory. */
typedef bool eps__solve_fn(const struct eps_strategy *s, double *out, const double *inverse, const double *a,
                           size_t len, double *work);
/* Row `row` of B: the row of A, block by block from the right through solve(). */
enum eps_status eps__decoder_row_by_blocks(const struct eps_strategy *s, double *out, struct eps_error *error,
                                           const double *inverse, size_t row, eps__solve_fn *solve);
/* Row `row` of C^+ the same way: that of a unit vector. */
enum eps_status eps__noise_row_by_solving(const struct eps_strategy *s, double *out, struct eps_error *error,
                                          const double *inverse, size_t row, eps__solve_fn *solve);

#endif
