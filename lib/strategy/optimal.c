/*
 * Family optimal: the factorisation of least loss under (k,b)-participation (MEMF section 3), to a proven gap.
 *
 * The dual is ascended, not the primal: X has half a million to eight million free entries and a Hessian as badly
 * conditioned as the square root of A'A, U has n k entries of its own and a Hessian close to diagonal. Ten to thirty
 * evaluations (optimal_dual.c) take the place of the thousands of a primal L-BFGS or of the paper's fixed point, and
 * the lower bound comes with them. First, the fixed point for a few steps, from nothing to a few percent; then L-BFGS
 * over the factors of U; and where that problem is not the one that was asked for (optimal_model.c), L-BFGS over
 * entries. After each step a feasible C is made of X, and the best one kept.
 *
 * The largest error is minimised by the same means: it is the largest of the losses with weights w on the steps, so
 * the dual is maximised over w as well (T is concave in U and w together). A part of w, a quarter of the gap, is spread
 * evenly, lest V become singular.
 *
 * Where V spans more than double precision squared (the largest error under momentum with a long memory), the search
 * may end above the gap that was asked for: the gap reported is the one that is proven.
 *
 * With stamps, a block is optimal for a job of as many steps as it has.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/strategy/optimal.h"

#include <stdlib.h>
#include <string.h>

enum { STEPS_MAX = 4096, FIXED_POINTS = 6, FACTOR_MOVES = 300, ENTRY_MOVES = 1500 };

/* Aimed at, of the gap asked for: the rest is for rounding. */
static const double aim = 0.98;

/* The search for one C. */
struct search {
    const struct eps_context *context;
    struct eps_error *error;
    struct eps__optimal problem;
    double gap;      /* asked for */
    double *c;       /* the best so far */
    double *attempt; /* where the next is made */
    double loss;     /* of c; INFINITY: none yet */
    double bound;    /* the largest lower bound so far */
    double relaxed;  /* the gap of the problem that the factors solve */
    double first;    /* the first finite gap, for progress */
    size_t iterations;
};

static void report(struct search *s)
{
    double gap = s->loss / s->bound - 1, wanted = s->gap * aim;
    if (!s->context || !s->context->progress || !isfinite(gap))
        return;
    s->first = s->first > 0 ? fmax(s->first, gap) : gap;
    double fraction = s->first > wanted ? log(s->first / fmax(gap, wanted)) / log(s->first / wanted) : 1;
    s->context->progress(s->context->user, EPS__OPTIMISE_SHARE * fmin(fmax(fraction, 0), 1), "optimise", NAN);
}

/* Makes a C of the point, and keeps it if it is the best. */
static double attempt(struct search *s, struct eps__optimal_point *p, const struct eps__optimal_cut *how, bool *cut)
{
    double loss = eps__optimal_recover(&s->problem, p, s->attempt, how, cut);
    if (loss < s->loss && !how->relaxed) {
        double *swap = s->c;
        s->c = s->attempt;
        s->attempt = swap;
        s->loss = loss;
    }
    return loss;
}

/* Takes the bound and a C from the point; true if the gap is small enough. */
static bool take(struct search *s, struct eps__optimal_model *m)
{
    struct eps__optimal_point *p = &m->point;
    bool cut, factors = m->coordinates == EPS__OPTIMAL_FACTORS;
    struct eps__optimal_cut how = {.apart = factors || !s->problem.overlapping};
    s->bound = fmax(s->bound, eps__optimal_bound(&s->problem, p));
    double wanted = s->bound * (1 + aim * s->gap), least = attempt(s, p, &how, &cut);
    /* Far from the optimum only a larger lift gives anything at all. */
    for (how.lift = s->gap / 4; how.lift < 1 && !(s->loss <= wanted); how.lift *= 10) {
        double loss = attempt(s, p, &how, &cut);
        least = fmin(least, loss);
        if (loss <= 2 * s->bound)
            break;
    }
    how.relaxed = true;
    how.lift = s->gap / 4;
    if (factors && cut && !(s->loss <= wanted))
        least = fmin(least, attempt(s, p, &how, &cut));
    s->relaxed = least / (p->trace * p->trace / p->total) - 1;
    report(s);
    return s->loss <= wanted;
}

/* Up from a's point until the gap is reached (*done), the relaxed problem solved, no step found or `moves` made. */
static enum eps_status ascend(struct search *s, struct eps__optimal_ascent *a, size_t moves, bool *done)
{
    bool factors = a->model->coordinates == EPS__OPTIMAL_FACTORS;
    bool relaxation = s->problem.nonnegative || s->problem.overlapping;
    enum eps_status status = EPS_OK;
    if (!eps__optimal_ascent_begin(a))
        return eps__strategy_no_memory(s->error);
    for (size_t move = 0; move < moves && !(*done = take(s, a->model)); move++) {
        if (factors && relaxation && s->relaxed <= s->gap / 2)
            break;
        enum eps__optimal_move how = eps__optimal_ascend(a, s->context, &status, s->error);
        if (how != EPS__OPTIMAL_MOVED)
            break;
        s->iterations++;
    }
    return status;
}

/* From the identity to a few percent. */
static enum eps_status approach(struct search *s, struct eps__optimal_ascent *a)
{
    struct eps__optimal_model *m = a->model;
    eps__optimal_model_start(m, a->x);
    if (!(eps__optimal_value(m, a->x) > -INFINITY))
        return eps__error(s->error, EPS_INVALID, "/workload",
                          "the workload is singular to working precision; the optimal factorisation needs a regular "
                          "one: change its coefficients, or choose another family");
    eps__optimal_model_rescale(m, a->x);
    for (size_t step = 0; step < FIXED_POINTS; step++) {
        double before = m->point.trace;
        enum eps_status status = eps__strategy_poll(s->context, s->error);
        if (status)
            return status;
        if (!eps__optimal_fixed_point(m, a->trial, a->x))
            return eps__strategy_no_memory(s->error);
        double value = eps__optimal_value(m, a->trial);
        if (value > -INFINITY)
            eps__optimal_model_rescale(m, a->trial);
        s->iterations++;
        /* Scaled best, T is the value of the dual. */
        if (!(value > -INFINITY && m->point.trace > before)) {
            eps__optimal_value(m, a->x);
            break;
        }
        memcpy(a->x, a->trial, m->size * sizeof *a->x);
    }
    return EPS_OK;
}

static enum eps_status search(struct search *s, struct eps__optimal_point *last)
{
    struct eps__optimal_model factors = {0}, entries = {0};
    struct eps__optimal_ascent first = {0}, second = {0};
    bool done = false;
    double floor = s->problem.max_squared ? s->gap / 4 : 0;
    enum eps_status status = EPS_NO_MEMORY;
    if (!eps__optimal_model_init(&factors, &s->problem, EPS__OPTIMAL_FACTORS, floor, NULL) ||
        !eps__optimal_ascent_init(&first, &factors))
        goto out;
    status = approach(s, &first);
    if (!status)
        status = ascend(s, &first, FACTOR_MOVES, &done);
    *last = factors.point;
    factors.point = (struct eps__optimal_point){0};
    if (status || done || !(s->problem.nonnegative || s->problem.overlapping))
        goto out;
    status = EPS_NO_MEMORY;
    if (!eps__optimal_model_init(&entries, &s->problem, EPS__OPTIMAL_ENTRIES, floor, last) ||
        !eps__optimal_ascent_init(&second, &entries))
        goto out;
    eps__optimal_model_continue(&entries, second.x, &factors, first.x);
    eps__optimal_ascent_clear(&first);
    if (eps__optimal_value(&entries, second.x) > -INFINITY) {
        eps__optimal_model_rescale(&entries, second.x);
        status = ascend(s, &second, ENTRY_MOVES, &done);
    } else {
        status = EPS_OK;
    }
    *last = entries.point;
    entries.point = (struct eps__optimal_point){0};
out:
    eps__optimal_ascent_clear(&first);
    eps__optimal_ascent_clear(&second);
    eps__optimal_model_clear(&factors);
    eps__optimal_model_clear(&entries);
    return status == EPS_NO_MEMORY ? eps__strategy_no_memory(s->error) : status;
}

/* The gap without rounding stands in s; this is the one with it. */
static enum eps_status prove(struct search *s, struct eps__optimal_point *last, double *gap)
{
    double loss, bound;
    enum eps_status status = eps__strategy_poll(s->context, s->error);
    if (status)
        return status;
    if (!eps__optimal_bound_lower(&s->problem, last, &bound) ||
        !eps__optimal_loss_upper(&s->problem, last, s->c, &loss))
        return eps__strategy_no_memory(s->error);
    if (!(bound > 0 && isfinite(loss)))
        return eps__error(s->error, EPS_UNSUPPORTED, "/matrix",
                          "the factorisation that was found after %zu iterations is singular to working precision; "
                          "choose another objective or family",
                          s->iterations);
    *gap = fmax(loss / bound - 1, 0) * (1 + 0x1p-50) + 0x1p-50;
    return EPS_OK;
}

/* ---------------------------------------------------------------- the request */

static enum eps_status read_participation(struct eps__optimal *o, struct eps_error *error,
                                          const struct eps_matrix *matrix)
{
    size_t n = o->n, k = matrix->epochs ? matrix->epochs : 1, b = matrix->separation ? matrix->separation : n / k;
    if (n > STEPS_MAX)
        return eps__error(error, EPS_INVALID, "/n",
                          "family optimal is computed densely, for n/stamps of at most %d, not %zu; use stamps, or "
                          "banded, blt or inverse_square_root, which stay close to it",
                          STEPS_MAX, n);
    if (k > n)
        return eps__error(error, EPS_INVALID, "/matrix/epochs", "must lie in [1, %zu], the steps of one stamp", n);
    if (b == 0 || (k > 1 && b > (n - 1) / (k - 1)))
        return eps__error(error, EPS_INVALID, "/matrix/separation",
                          "%zu epochs do not fit into %zu steps; a separation of at most %zu does", k, n,
                          k > 1 ? (n - 1) / (k - 1) : n);
    o->epochs = k;
    o->separation = k > 1 ? b : n;
    o->starts = eps__participation_starts(
        &(struct eps__participation){.epochs = k, .separation = o->separation, .fixed = true}, n);
    o->overlapping = o->starts > o->separation;
    o->nonnegative = matrix->nonnegative;
    o->max_squared = matrix->objective == EPS_OBJECTIVE_MAX_SQUARED;
    return EPS_OK;
}

static enum eps_status read_workload(struct eps__optimal *o, struct eps__workload *workload, struct eps_error *error,
                                     const struct eps_mechanism *mechanism)
{
    size_t n = o->n;
    enum eps_status status = eps__workload_of_block(workload, error, mechanism, n);
    if (status)
        return status;
    o->workload = workload;
    if (workload->recursive)
        return EPS_OK;
    if (workload->coefficients[0] == 0)
        return eps__error(error, EPS_INVALID, "/workload/coefficients/0",
                          "must not be 0: the optimal factorisation needs a regular workload");
    o->dense = calloc(n * n, sizeof *o->dense);
    if (!o->dense)
        return eps__strategy_no_memory(error);
    for (size_t t = 0; t < n; t++)
        eps__workload_row(workload, o->dense + t * n, t);
    return EPS_OK;
}

enum eps_status eps__build_optimal(const struct eps_context *context, struct eps_strategy *s, struct eps_error *error,
                                   const struct eps_mechanism *mechanism)
{
    size_t n = s->block;
    struct eps__workload workload = {0};
    struct eps__optimal_point last = {0};
    struct search found = {.context = context, .error = error, .loss = INFINITY, .problem.n = n};
    found.gap = mechanism->matrix.gap > 0 ? mechanism->matrix.gap : 1e-3;
    enum eps_status status = read_participation(&found.problem, error, &mechanism->matrix);
    if (!status)
        status = read_workload(&found.problem, &workload, error, mechanism);
    if (status)
        goto out;
    found.c = calloc(n * n, sizeof *found.c);
    found.attempt = malloc(n * n * sizeof *found.attempt);
    status = found.c && found.attempt ? search(&found, &last) : eps__strategy_no_memory(error);
    if (!status && !isfinite(found.loss))
        status = eps__error(error, EPS_UNSUPPORTED, "/matrix",
                            "no feasible factorisation was found in %zu iterations; choose another family, or fewer "
                            "epochs",
                            found.iterations);
    if (!status)
        status = prove(&found, &last, &s->optimality_gap);
    if (status)
        goto out;
    s->entries = found.c;
    found.c = NULL;
    s->entries_len = n * n;
    s->kind = &eps__strategy_dense;
    s->block_rows = n;
    s->iterations = found.iterations;
out:
    eps__optimal_point_clear(&last);
    eps__workload_clear(&workload);
    free(found.problem.dense);
    free(found.c);
    free(found.attempt);
    return status;
}
