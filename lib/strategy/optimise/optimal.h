/*
 * What the files of the optimal factorisation share. The problem (MEMF section 3): minimise tr(V X^-1) over positive
 * definite X, V = A' diag(w) A, such that the sum of X_ij over each participation pattern is at most 1 and X_ij >= 0
 * for the pairs inside one pattern (MEMF 36), or for all pairs (35). Its dual, scaled best: maximise T^2 / sum v, with
 * T = tr((U^1/2 V U^1/2)^1/2) the sum of the singular values of diag(w)^1/2 A L, over positive definite U = L L' that
 * lie under the pattern sums: U_ij <= the sum of v over the patterns with i and j (0 where there is none), for all
 * pairs, and U_ij = 0 for the pairs that (36) leaves free. The minimising X solves X U X = V.
 *
 *   optimal_search.c  how far the optimiser goes
 *   optimal_dual.c    T and X at one U
 *   optimal_model.c   the two sets of coordinates in which U is moved, with gradients
 *   optimal_ascent.c  the moves: L-BFGS with bounds
 *   optimal_primal.c  a feasible C from X
 *   optimal_proof.c   the gap, proven
 *   optimal_scalar.c  constraint (34), for the paper's table
 *
 * From the request to C, and what the gap is: families/optimal.c.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_STRATEGY_OPTIMISE_OPTIMAL_H
#define EPS_STRATEGY_OPTIMISE_OPTIMAL_H

#include <math.h>

#include "lib/base/error.h"
#include "lib/strategy/workload.h"

/* Pattern s, for s < starts, is the steps s, s + separation, ...: `epochs` of them, or as many as there are. */
struct eps__optimal {
    const struct eps__workload *workload; /* of n steps */
    double *dense;                        /* A, n x n, where the workload is not recursive; else NULL */
    size_t n, epochs, separation, starts;
    bool nonnegative; /* (35), else (36) */
    bool max_squared; /* the objective; else the mean */
    bool overlapping; /* some step belongs to several patterns */
    struct eps__work
        *work; /* asked every second or so; what it stopped fails as if singular, or without memory. Or NULL */
};

/* EPS_OK, or what the work says, after a poll. */
enum eps_status eps__optimal_poll(const struct eps__optimal *o, struct eps_error *error);
/* Why something failed that fails without memory: for that, or for what the work says. */
enum eps_status eps__optimal_failed(const struct eps__optimal *o, struct eps_error *error);
/* Whether to go on with row i of a triple loop: polls at some of them. */
static inline bool eps__optimal_row_goes_on(const struct eps__optimal *o, size_t i)
{
    return i % 16 != 0 || eps__goes_on(o->work);
}

/* One U and what follows from it; every matrix is n x n. */
struct eps__optimal_point {
    double *lower;     /* L */
    double *images;    /* diag(w)^1/2 A L; free for others after the evaluation */
    double *vectors;   /* scratch */
    double *gram;      /* X; in a model with mu, X + mu U^-1 */
    double *weights;   /* w, n of them; they sum to 1 */
    double *sums;      /* v, `starts` of them */
    double *values;    /* n singular values */
    double *variances; /* of A X^-1 A', with max_squared */
    double trace;      /* T */
    double total;      /* the sum of v */
    bool no_memory;    /* once; then what failed at the point since says nothing of it */
};

bool eps__optimal_point_init(struct eps__optimal_point *p, const struct eps__optimal *o);
void eps__optimal_point_clear(struct eps__optimal_point *p);

/* The sum of v over the patterns with both i and j, j <= i, in one residue class and less than epochs separations
 * apart. */
double eps__optimal_cover(const struct eps__optimal *o, const double *v, size_t i, size_t j);

/* m = A m for an n x n matrix m. */
void eps__optimal_apply(const struct eps__optimal *o, double *m);

/* Singular values of the images, ascending, and their right singular vectors as rows of vectors; gram is scratch. polar: n x
 * n numbers for the polar factor, where it is found as well (*found); or NULL. False: no value is positive, or the
 * point's no_memory, or stopped. */
bool eps__optimal_decompose(const struct eps__optimal *o, struct eps__optimal_point *p, double *polar, bool *found);
/* From lower, weights and sums: the rest. False: numerically singular, or the point's no_memory. */
bool eps__optimal_evaluate(const struct eps__optimal *o, struct eps__optimal_point *p);
/* The same point with U times factor^2. */
void eps__optimal_rescale(const struct eps__optimal *o, struct eps__optimal_point *p, double factor);

/* ---- coordinates ---- */

/*
 * Coordinates, in this order: with max_squared n roots of w; then
 *   factors:  the roots of v, and for each row i its entries in L at columns i, i - separation, ..., `epochs` of
 *             them, up to scale: v decides the length of the row. U is then positive definite and supported by the
 *             patterns, whatever the numbers are.
 *   entries:  v, and W_ij >= 0 for the pairs j < i: U is the pattern sums less W. All pairs where (35) asks for it,
 *             else those of one pattern.
 */
enum eps__optimal_coordinates { EPS__OPTIMAL_FACTORS, EPS__OPTIMAL_ENTRIES };

struct eps__optimal_model {
    const struct eps__optimal *o;
    enum eps__optimal_coordinates coordinates;
    struct eps__optimal_point point; /* at the coordinates evaluated last */
    double *barrier;                 /* entries: U where the gradient was last asked for, n x n; else NULL */
    bool guarded;                    /* the barrier is filled in: U must not fall below a part of it */
    size_t size;                     /* coordinates */
    size_t positive;                 /* the first so many are > 0 */
    size_t bounded;                  /* so many after them are >= 0; the rest is free */
    double floor;                    /* the part of w that is spread evenly: keeps V regular */
    double mu;                       /* entries: of ln det U and of ln w, which keep both inside; then floor is 0 */
};

/* Sizes and point; the point's matrices are taken from `from` where it is not NULL. */
bool eps__optimal_model_init(struct eps__optimal_model *m, const struct eps__optimal *o,
                             enum eps__optimal_coordinates coordinates, double floor, struct eps__optimal_point *from);
void eps__optimal_model_clear(struct eps__optimal_model *m);
/* factors: where to begin, U a multiple of the identity. */
void eps__optimal_model_start(const struct eps__optimal_model *m, double *x);
/* entries: where to begin from nothing. */
void eps__optimal_model_identity(const struct eps__optimal_model *m, double *x);
/* entries: at the point of the factors, which is the model's, brought under the pattern sums; w at least that share of
 * even. */
void eps__optimal_model_continue(struct eps__optimal_model *m, double *x, const struct eps__optimal_model *factors,
                                 const double *factors_x, double share);
/* 2 T - sum v at x, and what mu adds; -INFINITY outside the domain, or with the point's no_memory. */
double eps__optimal_value(struct eps__optimal_model *m, const double *x);
/* At the point evaluated last, which x is: the gradient, and a diagonal approximation of the inverse Hessian. False
 * without memory. */
bool eps__optimal_gradient(struct eps__optimal_model *m, double *gradient, double *scale, const double *x);
/* factors, disjoint patterns: one step of the fixed point, into next. False without memory. */
bool eps__optimal_fixed_point(const struct eps__optimal_model *m, double *next, const double *x);
/* The best scale of U: x and the point together. */
void eps__optimal_model_rescale(struct eps__optimal_model *m, double *x);

/* ---- the ascent ---- */

struct eps__optimal_ascent {
    struct eps__optimal_model *model;
    double *x, *gradient, *scale, *direction, *trial, *trial_gradient;
    float *steps, *changes; /* `memory` vectors each, a ring */
    double *products;       /* of a step and its change */
    size_t kept, newest;
    double value;
    size_t evaluations;
};

bool eps__optimal_ascent_init(struct eps__optimal_ascent *a, struct eps__optimal_model *model);
void eps__optimal_ascent_clear(struct eps__optimal_ascent *a);
/* Reads the gradient at x, the model's point, where the value is as given. False without memory. */
bool eps__optimal_ascent_begin(struct eps__optimal_ascent *a, double value);
enum eps__optimal_move { EPS__OPTIMAL_MOVED, EPS__OPTIMAL_STUCK, EPS__OPTIMAL_STOPPED };
/* One step. STUCK: no step is uphill; the model's point is x all the same. STOPPED: status says why. */
enum eps__optimal_move eps__optimal_ascend(struct eps__optimal_ascent *a, enum eps_status *status,
                                           struct eps_error *error);

/* ---- the search ---- */

/* The search for one C, and what it found. */
struct eps__optimal_search {
    const struct eps_context *context;
    struct eps_error *error;
    struct eps__optimal problem;
    double gap;                     /* asked for */
    double target;                  /* of the stage at hand */
    double *c;                      /* the best so far */
    double *attempt;                /* where the next is made */
    double loss;                    /* of c; INFINITY: none yet */
    double bound;                   /* the largest lower bound so far */
    double *lower, *weights, *sums; /* L, w and v of the point that it is of */
    double relaxed;                 /* the gap of the problem that the factors solve */
    double first;                   /* the first finite gap, for progress */
    size_t moves;                   /* over entries */
    size_t iterations;
};

/* From context, error, problem and gap: the rest; c in any case, if only with an infinite loss. Release with
 * eps__optimal_search_clear(). */
enum eps_status eps__optimal_find(struct eps__optimal_search *s);
void eps__optimal_search_clear(struct eps__optimal_search *s);

/* ---- C and the gap ---- */

/* How X is made feasible. */
struct eps__optimal_cut {
    bool relaxed; /* to constraint (36), even where (35) is asked for */
    bool apart;   /* columns of one pattern become orthogonal */
    double lift;  /* the diagonal grows by so much, relative, against what the cuts took from small eigenvalues */
};

/* A feasible lower-triangular C from the point's X: its loss at sensitivity 1, INFINITY where what is left of X is not
 * positive definite. *cut: something negative was cut off outside the patterns. Uses images and values. */
double eps__optimal_recover(const struct eps__optimal *o, struct eps__optimal_point *p, double *c,
                            const struct eps__optimal_cut *how, bool *cut);

/* Swaps entries across the antidiagonal: the transpose, rows and columns reversed. */
void eps__optimal_reverse_transposed(double *m, size_t n);

/* The lower bound at the point, rounding apart. */
double eps__optimal_bound(const struct eps__optimal *o, const struct eps__optimal_point *p);

/* What the U of the point's L may have above the pattern sums, entry by entry, times the most that X may have there; an
 * upper bound whatever was rounded. Scratch: the point's matrices but for lower. */
double eps__optimal_excess(const struct eps__optimal *o, struct eps__optimal_point *p);

/* Upper bound on the loss of C, its true sensitivity included, and lower bound on the least loss, whatever was
 * rounded; that of C also for C scaled and rounded by it. Scratch: the point's matrices but for lower. False without
 * memory. */
bool eps__optimal_loss_upper(const struct eps__optimal *o, struct eps__optimal_point *p, const double *c, double *loss);
bool eps__optimal_bound_lower(const struct eps__optimal *o, struct eps__optimal_point *p, double *bound);

/* ---- for the paper's table ---- */

/*
 * Constraint (34): u'Xu <= 1 for all signs u on all patterns, which bounds contributions of dimension 1 only. For
 * small problems: starts * 2^(epochs-1) multipliers, n <= 64. Writes C (n x n) with the total squared error of its
 * factorisation at that sensitivity, and the dual's lower bound on it. False without memory, or if it is too large.
 */
bool eps__optimal_scalar(double *c, double *loss, double *bound, const struct eps__workload *workload, size_t epochs,
                         size_t separation);

#endif
