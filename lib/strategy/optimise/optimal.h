/*
 * Shared declarations of the optimal factorisation.
 *
 * The problem (MEMF section 3): minimise tr(V X^-1) over positive definite X, V = A' diag(w) A, such that the sum of
 * X_ij over each participation pattern is at most 1 and X_ij >= 0 for the pairs within one pattern (MEMF 36), or for
 * all pairs (35).
 *
 * Its dual, at the best scale: maximise T^2 / sum v, with T = tr((U^1/2 V U^1/2)^1/2) the sum of the singular values of
 * diag(w)^1/2 A L, over positive definite U = L L' below the pattern sums: U_ij <= the sum of v over the patterns that
 * contain i and j (0 if there is none) for all pairs, and U_ij = 0 for the pairs that (36) does not constrain. The
 * minimising X solves X U X = V.
 *
 *   optimal_search.c  the search, and when it ends
 *   optimal_dual.c    T and X at one U
 *   optimal_model.c   the two sets of coordinates of U, with gradients
 *   optimal_ascent.c  the steps: L-BFGS with bounds
 *   optimal_primal.c  a feasible C from X
 *   optimal_proof.c   the proof of the gap
 *   optimal_scalar.c  constraint (34), for the paper's table
 *
 * families/optimal.c maps a request to this problem and proves the gap.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_STRATEGY_OPTIMISE_OPTIMAL_H
#define EPS_STRATEGY_OPTIMISE_OPTIMAL_H

#include <math.h>

#include "lib/base/error.h"
#include "lib/strategy/workload.h"

/* The problem. Pattern s, for s < starts, consists of the steps s, s + separation, ...: `epochs` of them, or as many as
 * fit. */
struct eps__optimal {
    const struct eps__workload *workload; /* a workload of n steps */
    double *dense;                        /* A, n x n, if the workload is not recursive; else NULL */
    size_t n, epochs, separation, starts;
    bool nonnegative; /* (35), else (36) */
    bool max_squared; /* the objective is the maximum; else the mean */
    bool overlapping; /* some step belongs to several patterns */
    /* Polled about once a second; NULL: never. A computation that it stops fails as if singular or out of memory. */
    struct eps__work *work;
};

/* Polls: EPS_OK, or EPS_CANCELED or EPS_TIMEOUT. */
enum eps_status eps__optimal_poll(const struct eps__optimal *o, struct eps_error *error);
/* The status for a failure that means either no memory or stopped work: which of the two it was. */
enum eps_status eps__optimal_failed(const struct eps__optimal *o, struct eps_error *error);
/* Whether to continue with row i of a triple loop; polls at some rows. */
static inline bool eps__optimal_row_goes_on(const struct eps__optimal *o, size_t i)
{
    return i % 16 != 0 || eps__goes_on(o->work);
}

/* One U and what is computed from it; every matrix is n x n. */
struct eps__optimal_point {
    double *lower;     /* L */
    double *images;    /* diag(w)^1/2 A L; scratch after the evaluation */
    double *vectors;   /* scratch */
    double *gram;      /* X; in a model with mu, X + mu U^-1 */
    double *weights;   /* w: n weights, which sum to 1 */
    double *sums;      /* v: `starts` numbers */
    double *values;    /* n singular values */
    double *variances; /* the diagonal of A X^-1 A', with max_squared */
    double trace;      /* T */
    double total;      /* the sum of v */
    bool no_memory;    /* memory ran out at some time, so later failures at the point may be due to it */
};

bool eps__optimal_point_init(struct eps__optimal_point *p, const struct eps__optimal *o);
void eps__optimal_point_clear(struct eps__optimal_point *p);

/* The sum of v over the patterns that contain both i and j, for j <= i in one residue class and fewer than `epochs`
 * separations apart. */
double eps__optimal_cover(const struct eps__optimal *o, const double *v, size_t i, size_t j);

/* Replaces the n x n matrix m by A m. */
void eps__optimal_apply(const struct eps__optimal *o, double *m);

/* Computes the singular values of the images, ascending, and their right singular vectors as rows of vectors; gram is
 * scratch. polar, unless NULL: n x n numbers for the polar factor, written if *found. False: no value is positive, or
 * no memory (p->no_memory), or stopped. */
bool eps__optimal_decompose(const struct eps__optimal *o, struct eps__optimal_point *p, double *polar, bool *found);
/* Computes the other members from lower, weights and sums. False: numerically singular, or no memory (p->no_memory). */
bool eps__optimal_evaluate(const struct eps__optimal *o, struct eps__optimal_point *p);
/* Scales U by factor^2, and the point with it. */
void eps__optimal_rescale(const struct eps__optimal *o, struct eps__optimal_point *p, double factor);

/* ---- coordinates ---- */

/*
 * The coordinates, in this order. With max_squared, first n square roots of w; then
 *   factors:  the square roots of v, and for each row i its entries in L at columns i, i - separation, ..., `epochs`
 *             of them, up to scale: v determines the length of the row. Then U is positive definite and supported by
 *             the patterns for any coordinates.
 *   entries:  v, and W_ij >= 0 for the pairs j < i: U is the pattern sums minus W. All pairs for (35), else the pairs
 *             within one pattern.
 */
enum eps__optimal_coordinates { EPS__OPTIMAL_FACTORS, EPS__OPTIMAL_ENTRIES };

struct eps__optimal_model {
    const struct eps__optimal *o;
    enum eps__optimal_coordinates coordinates;
    struct eps__optimal_point point; /* at the coordinates evaluated last */
    double *barrier;                 /* entries: U at the last gradient, n x n; else NULL */
    bool guarded;                    /* barrier is set: U must stay above a fraction of it */
    size_t size;                     /* the number of coordinates */
    size_t positive;                 /* the first `positive` coordinates are > 0 */
    size_t bounded;                  /* the next `bounded` ones are >= 0; the rest are free */
    double floor;                    /* the share of w that is spread evenly, which keeps V regular */
    double mu;                       /* entries: the weight of the barriers ln det U and ln w; then floor is 0 */
};

/* Sets the sizes and makes the point; if `from` is not NULL, takes over its matrices. False: no memory. */
bool eps__optimal_model_init(struct eps__optimal_model *m, const struct eps__optimal *o,
                             enum eps__optimal_coordinates coordinates, double floor, struct eps__optimal_point *from);
void eps__optimal_model_clear(struct eps__optimal_model *m);
/* factors: the starting point, with U a multiple of the identity. */
void eps__optimal_model_start(const struct eps__optimal_model *m, double *x);
/* factors: the point that has the course of a point of the same problem with fewer steps. */
void eps__optimal_model_refine(const struct eps__optimal_model *m, double *x, const struct eps__optimal_model *coarse,
                               const double *coarse_x);
/* entries: the starting point if there is none from the factors, with U diagonal. */
void eps__optimal_model_identity(const struct eps__optimal_model *m, double *x);
/* entries: starts at the point of the factors, which the model has taken over, moved below the pattern sums; each
 * weight is at least `share` of the mean weight. */
void eps__optimal_model_continue(struct eps__optimal_model *m, double *x, const struct eps__optimal_model *factors,
                                 const double *factors_x, double share);
/* 2 T - sum v at x, plus the terms with mu; -INFINITY outside the domain, or if memory ran out (the point's
 * no_memory). */
double eps__optimal_value(struct eps__optimal_model *m, const double *x);
/* The gradient at x, the point evaluated last, and a diagonal approximation of the inverse Hessian. False: no
 * memory. */
bool eps__optimal_gradient(struct eps__optimal_model *m, double *gradient, double *scale, const double *x);
/* factors, disjoint patterns: one fixed-point step from x, into next. False: no memory. */
bool eps__optimal_fixed_point(const struct eps__optimal_model *m, double *next, const double *x);
/* Scales U optimally, in x and in the point. */
void eps__optimal_model_rescale(struct eps__optimal_model *m, double *x);

/* ---- the ascent ---- */

struct eps__optimal_ascent {
    struct eps__optimal_model *model;
    double *x, *gradient, *scale, *direction, *trial, *trial_gradient;
    float *steps, *changes; /* a ring of vectors each */
    double *products;       /* inner products of a step and its change */
    size_t kept, newest;
    double value;
    size_t evaluations;
};

bool eps__optimal_ascent_init(struct eps__optimal_ascent *a, struct eps__optimal_model *model);
void eps__optimal_ascent_clear(struct eps__optimal_ascent *a);
/* Starts at x, the model's point, whose value is given: computes the gradient. False: no memory. */
bool eps__optimal_ascent_begin(struct eps__optimal_ascent *a, double value);
enum eps__optimal_move { EPS__OPTIMAL_MOVED, EPS__OPTIMAL_STUCK, EPS__OPTIMAL_STOPPED };
/* Takes one step. STUCK: no step increases the value; the model's point is x nevertheless. STOPPED: *status says
 * why. */
enum eps__optimal_move eps__optimal_ascend(struct eps__optimal_ascent *a, enum eps_status *status,
                                           struct eps_error *error);

/* ---- the search ---- */

/* The state and result of a search for one C. */
struct eps__optimal_search {
    const struct eps_context *context;
    struct eps_error *error;
    struct eps__optimal problem;
    double gap;                     /* the requested gap */
    double target;                  /* the target gap of the current stage */
    double *c;                      /* the best C so far */
    double *attempt;                /* scratch for the next C */
    double loss;                    /* the loss of c; INFINITY: none yet */
    double bound;                   /* the largest lower bound so far */
    double *lower, *weights, *sums; /* L, w and v of the point of that bound */
    double relaxed;                 /* the gap of the relaxed problem that the factors solve */
    double first;                   /* the first finite gap, for progress */
    size_t moves;                   /* the number of steps over entries */
    size_t iterations;
};

/* Runs the search; context, error, problem and gap are set by the caller. c is set in any case, possibly with infinite
 * loss. Release with eps__optimal_search_clear(). */
enum eps_status eps__optimal_find(struct eps__optimal_search *s);
void eps__optimal_search_clear(struct eps__optimal_search *s);

/* ---- C and the gap ---- */

/* How X is made feasible. */
struct eps__optimal_cut {
    bool relaxed; /* for constraint (36), even if (35) is requested */
    bool apart;   /* makes the columns of one pattern orthogonal */
    double lift;  /* the relative increase of the diagonal, which offsets the loss of small eigenvalues in the cuts */
};

/* Computes a feasible lower-triangular C from the point's X. Returns its loss at sensitivity 1, or INFINITY if X is not
 * positive definite after the cuts. *cut: a negative entry outside the patterns was cut. Overwrites images and
 * values. */
double eps__optimal_recover(const struct eps__optimal *o, struct eps__optimal_point *p, double *c,
                            const struct eps__optimal_cut *how, bool *cut);

/* Swaps entries across the antidiagonal: transposes, and reverses rows and columns. */
void eps__optimal_reverse_transposed(double *m, size_t n);

/* The lower bound at the point, without regard to rounding. */
double eps__optimal_bound(const struct eps__optimal *o, const struct eps__optimal_point *p);

/* An upper bound, rounding included, on the sum of the excesses of the entries of U = L L' over the pattern sums, each
 * times the largest value that X can have there. Scratch: the point's matrices except lower. */
double eps__optimal_excess(const struct eps__optimal *o, struct eps__optimal_point *p);

/* An upper bound on the loss of C, its true sensitivity included, which also holds for C after scaling and its
 * rounding; and a lower bound on the least loss. Both include rounding. Scratch: the point's matrices except lower.
 * False: no memory. */
bool eps__optimal_loss_upper(const struct eps__optimal *o, struct eps__optimal_point *p, const double *c, double *loss);
bool eps__optimal_bound_lower(const struct eps__optimal *o, struct eps__optimal_point *p, double *bound);

/* ---- for the paper's table ---- */

/*
 * Constraint (34): u'Xu <= 1 for all sign vectors u on all patterns, which bounds contributions of dimension 1 only.
 * For small problems: starts * 2^(epochs-1) multipliers, n <= 64. Writes C (n x n), the total squared error of its
 * factorisation at that sensitivity, and the dual's lower bound on it. False: no memory, or the problem is too large.
 */
bool eps__optimal_scalar(double *c, double *loss, double *bound, const struct eps__workload *workload, size_t epochs,
                         size_t separation);

#endif
