/*
 * The search for the optimal factorisation.
 *
 * The search ascends the dual rather than descending the primal. X has half a million to eight million free entries and
 * a Hessian as badly conditioned as the square root of A'A; U has n k coordinates and a nearly diagonal Hessian. Ten to
 * thirty evaluations (optimal_dual.c) replace the thousands of a primal L-BFGS or of the paper's fixed point, and give
 * the lower bound as well.
 *
 * First, a few steps of the fixed point reach a few percent; then L-BFGS runs over the factors of U. If that problem is
 * not the requested one (optimal_model.c), L-BFGS runs over entries, in stages with decreasing mu: hundreds of
 * evaluations. After each step a feasible C is made from X. The best C is kept, and the point with the largest lower
 * bound, for the proof.
 *
 * The maximum error is minimised by the same means. It is the largest of the losses with weights w on the steps, so the
 * dual is maximised over w as well (T is concave in U and w together). Over factors, a share of w, a quarter of the
 * target, is spread evenly so that V stays regular. The target decreases from stage to stage to the requested gap, and
 * each stage starts where the one before it ended. So a search for a finer gap takes the same path as one for a coarser
 * gap, and continues.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdlib.h>
#include <string.h>

#include "lib/strategy/failures.h"
#include "lib/strategy/optimise/optimal.h"

enum { COARSER = 4, COARSEN_FROM = 256, COARSEST = 4 };
enum { FIXED_POINTS = 6, FACTOR_MOVES = 300, PATH_MOVES = 2000, SMALL_GAINS = 20 };

/* The fraction of the requested gap that the search aims at; the rest allows for rounding. */
static const double aim = 0.98;

/* Over factors: the first target for the maximum error, and the ratio of successive targets. */
static const double first_target = 0.1, target_ratio = 0.25;

/* Over entries: the ratio of successive mu; the last mu n / T, as a fraction of the gap; and the gain of one step that
 * counts as small, as a fraction of mu n. */
static const double path_ratio = 0.3, path_end = 0.05, small_gain = 5e-4;

/* The least gap of a search with fewer steps. */
#define COARSE_GAP 1e-4

/* For progress: the shares of time of the approach and of the search; the rest is the proof. */
static const double approach_share = 0.3, search_share = 0.6;

/* ---------------------------------------------------------------- what a point gives */

/* Reports the fixed-point steps, then the digits of the gap that have been gained. */
static void report(struct eps__optimal_search *s)
{
    double gap = s->loss / s->bound - 1, wanted = s->gap * aim, won = 0;
    if (!s->context || !s->context->progress)
        return;
    if (isfinite(gap)) {
        s->first = s->first > 0 ? fmax(s->first, gap) : gap;
        won = s->first > wanted ? log(s->first / fmax(gap, wanted)) / log(s->first / wanted) : 1;
    }
    double near = fmin((double)s->iterations / FIXED_POINTS, 1);
    s->context->progress(s->context->user, approach_share * near + search_share * fmin(fmax(won, 0), 1), "optimise",
                         NAN);
}

static void take_bound(struct eps__optimal_search *s, const struct eps__optimal_point *p)
{
    size_t n = s->problem.n;
    double bound = eps__optimal_bound(&s->problem, p);
    if (!(bound > s->bound))
        return;
    s->bound = bound;
    memcpy(s->lower, p->lower, n * n * sizeof *s->lower);
    memcpy(s->weights, p->weights, n * sizeof *s->weights);
    memcpy(s->sums, p->sums, s->problem.starts * sizeof *s->sums);
}

/* Makes a C from the point, and keeps it if it is the best. */
static double attempt(struct eps__optimal_search *s, struct eps__optimal_point *p, const struct eps__optimal_cut *how,
                      bool *cut)
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

/* Whether loss and bound are within `gap`. */
static bool within(const struct eps__optimal_search *s, double gap)
{
    return s->loss <= s->bound * (1 + aim * gap);
}

/* Takes the bound and a C from the point. True if the requested gap is reached. */
static bool take(struct eps__optimal_search *s, struct eps__optimal_model *m)
{
    struct eps__optimal_point *p = &m->point;
    bool cut, factors = m->coordinates == EPS__OPTIMAL_FACTORS;
    struct eps__optimal_cut how = {.apart = factors || !s->problem.overlapping};
    take_bound(s, p);
    double least = attempt(s, p, &how, &cut);
    /* Far from the optimum, only a larger lift gives a positive definite matrix. */
    for (how.lift = s->target / 4; how.lift < 1 && !within(s, s->target) && !eps__stopped(s->problem.work);
         how.lift *= 10) {
        double loss = attempt(s, p, &how, &cut);
        least = fmin(least, loss);
        if (loss <= 2 * s->bound)
            break;
    }
    how.relaxed = true;
    how.lift = s->target / 4;
    if (factors && cut && !within(s, s->target))
        least = fmin(least, attempt(s, p, &how, &cut));
    s->relaxed = least / (p->trace * p->trace / p->total) - 1;
    report(s);
    return within(s, s->gap);
}

/* ---------------------------------------------------------------- over factors */

/* Ascends from a's point until the requested gap (*done) or the target is reached, the relaxed problem is solved, or no
 * step is found. */
static enum eps_status ascend(struct eps__optimal_search *s, struct eps__optimal_ascent *a, bool *done)
{
    struct eps__optimal_model *m = a->model;
    enum eps_status status = EPS_OK;
    if (!eps__optimal_ascent_begin(a, 2 * m->point.trace - m->point.total))
        return eps__optimal_failed(&s->problem, s->error);
    for (size_t move = 0; move < FACTOR_MOVES && !(*done = take(s, m)); move++) {
        if (within(s, s->target) || (s->problem.nonnegative && s->relaxed <= s->target / 2))
            break;
        if (eps__optimal_ascend(a, &status, s->error) != EPS__OPTIMAL_MOVED)
            break;
        s->iterations++;
    }
    return status;
}

/* Allocates what a search holds. */
static enum eps_status open_search(struct eps__optimal_search *s)
{
    size_t n = s->problem.n;
    s->loss = INFINITY;
    s->c = calloc(n * n, sizeof *s->c);
    s->attempt = malloc(n * n * sizeof *s->attempt);
    s->lower = calloc(n * n, sizeof *s->lower);
    s->weights = calloc(n, sizeof *s->weights);
    s->sums = calloc(s->problem.starts, sizeof *s->sums);
    return s->c && s->attempt && s->lower && s->weights && s->sums ? EPS_OK : eps__strategy_no_memory(s->error);
}

/* Runs the fixed point from the identity to a few percent. */
static enum eps_status approach(struct eps__optimal_search *s, struct eps__optimal_ascent *a)
{
    struct eps__optimal_model *m = a->model;
    for (size_t step = 0; step < FIXED_POINTS; step++) {
        double before = m->point.trace;
        enum eps_status status = eps__optimal_poll(&s->problem, s->error);
        if (status != EPS_OK)
            return status;
        if (!eps__optimal_fixed_point(m, a->trial, a->x))
            return eps__optimal_failed(&s->problem, s->error);
        double value = eps__optimal_value(m, a->trial);
        if (value > -INFINITY)
            eps__optimal_model_rescale(m, a->trial);
        s->iterations++;
        report(s);
        /* At the best scale, T is the value of the dual. */
        if (!(value > -INFINITY && m->point.trace > before)) {
            eps__optimal_value(m, a->x);
            break;
        }
        memcpy(a->x, a->trial, m->size * sizeof *a->x);
    }
    return EPS_OK;
}

static enum eps_status singular(const struct eps__optimal_search *s)
{
    if (eps__stopped(s->problem.work))
        return eps__optimal_failed(&s->problem, s->error);
    return eps__error(s->error, EPS_INVALID, "/workload",
                      "the workload is singular to working precision, and the optimal factorisation needs an "
                      "invertible one: change its coefficients, or choose another family");
}

static enum eps_status search_factors(struct eps__optimal_search *s, struct eps__optimal_ascent *a, bool *done);

/* The same problem with COARSER times fewer steps. False: it is too small, or not smooth. */
static bool coarsen(struct eps__optimal *coarse, struct eps__workload *workload, const struct eps__optimal *o)
{
    const size_t b = o->separation / COARSER, last = (o->n - (o->epochs - 1) * o->separation) / COARSER;
    *coarse = *o;
    if (o->n < COARSEN_FROM || b < COARSEST || last < 1 || o->overlapping || o->dense)
        return false;
    coarse->separation = coarse->starts = b;
    coarse->n = (o->epochs - 1) * b + last;
    *workload = *o->workload;
    workload->n = coarse->n;
    workload->momentum = pow(workload->momentum, COARSER);
    workload->decay = pow(workload->decay, COARSER);
    coarse->workload = workload;
    return true;
}

/* Starts where a search with fewer steps has ended. *found: a holds such a point. */
static enum eps_status start_coarse(struct eps__optimal_search *s, struct eps__optimal_ascent *a, bool *found)
{
    struct eps__workload workload;
    struct eps__optimal_model model = {0};
    struct eps__optimal_ascent ascent = {0};
    struct eps_error error = {0};
    struct eps__optimal_search coarse = {.error = &error, .gap = fmax(s->gap / COARSER, COARSE_GAP)};
    bool done;
    *found = false;
    if (!coarsen(&coarse.problem, &workload, &s->problem))
        return EPS_OK;
    enum eps_status status = open_search(&coarse);
    if (status == EPS_OK && (!eps__optimal_model_init(&model, &coarse.problem, EPS__OPTIMAL_FACTORS, 0, NULL) ||
                             !eps__optimal_ascent_init(&ascent, &model)))
        status = eps__strategy_no_memory(&error);
    if (status == EPS_OK)
        status = search_factors(&coarse, &ascent, &done);
    if (status == EPS_OK)
        status = eps__optimal_poll(&s->problem, &error);
    if (model.point.no_memory)
        status = eps__strategy_no_memory(&error);
    if (status == EPS_OK) {
        a->model->floor = model.floor;
        s->target = coarse.target;
        eps__optimal_model_refine(a->model, a->x, &model, ascent.x);
        *found = eps__optimal_value(a->model, a->x) > -INFINITY;
    }
    eps__optimal_ascent_clear(&ascent);
    eps__optimal_model_clear(&model);
    eps__optimal_search_clear(&coarse);
    if (status == EPS_OK || status == EPS_INVALID) /* singular: perhaps the given problem is not */
        return EPS_OK;
    if (s->error)
        *s->error = error;
    return status;
}

static enum eps_status search_factors(struct eps__optimal_search *s, struct eps__optimal_ascent *a, bool *done)
{
    struct eps__optimal_model *m = a->model;
    bool stages = s->problem.max_squared, found;
    enum eps_status status = start_coarse(s, a, &found);
    if (status != EPS_OK)
        return status;
    if (found) {
        s->target = fmax(s->target, s->gap);
        eps__optimal_model_rescale(m, a->x);
    } else {
        s->target = stages ? first_target : s->gap;
        m->floor = stages ? s->target / 4 : 0;
        eps__optimal_model_start(m, a->x);
        if (!(eps__optimal_value(m, a->x) > -INFINITY))
            return singular(s);
        eps__optimal_model_rescale(m, a->x);
        status = approach(s, a);
    }
    if (status == EPS_OK)
        status = ascend(s, a, done);
    /* If the cut to X >= 0 costs more than the target, finer targets gain nothing. */
    while (status == EPS_OK && !*done && stages && s->target > s->gap &&
           (!s->problem.nonnegative || within(s, s->target))) {
        s->target *= target_ratio;
        m->floor = s->target / 4;
        if (!(eps__optimal_value(m, a->x) > -INFINITY))
            break;
        eps__optimal_model_rescale(m, a->x);
        status = ascend(s, a, done);
    }
    return status;
}

/* ---------------------------------------------------------------- over entries */

/* Approaches the maximum at one mu, until gains are small compared with mu n or the gap is reached. */
static enum eps_status settle(struct eps__optimal_search *s, struct eps__optimal_ascent *a, bool *done)
{
    struct eps__optimal_model *m = a->model;
    enum eps_status status = EPS_OK;
    double value = eps__optimal_value(m, a->x), small = small_gain * m->mu * (double)s->problem.n;
    if (!(value > -INFINITY))
        return EPS_OK;
    if (!eps__optimal_ascent_begin(a, value))
        return eps__optimal_failed(&s->problem, s->error);
    for (size_t in_a_row = 0; s->moves < PATH_MOVES && in_a_row < SMALL_GAINS; s->moves++) {
        if ((*done = take(s, m)))
            break;
        value = a->value;
        if (eps__optimal_ascend(a, &status, s->error) != EPS__OPTIMAL_MOVED)
            break;
        s->iterations++;
        in_a_row = a->value - value < small ? in_a_row + 1 : 0;
    }
    return status;
}

/* Decreases mu in stages, from a's x. share: the first mu n, as a fraction of T. */
static enum eps_status follow_path(struct eps__optimal_search *s, struct eps__optimal_ascent *a, double share,
                                   bool *done)
{
    struct eps__optimal_model *m = a->model;
    enum eps_status status = EPS_OK;
    double n = (double)s->problem.n;
    m->mu = 0;
    if (!(eps__optimal_value(m, a->x) > -INFINITY))
        return isfinite(s->loss) ? EPS_OK : singular(s);
    eps__optimal_model_rescale(m, a->x);
    double trace = m->point.trace;
    for (; status == EPS_OK && !*done && share > path_end * s->gap; share *= path_ratio) {
        s->target = share;
        m->mu = share * trace / n;
        m->guarded = false;
        status = settle(s, a, done);
    }
    return status;
}

static enum eps_status search_entries(struct eps__optimal_search *s, const struct eps__optimal_model *factors,
                                      const double *factors_x, struct eps__optimal_point *point)
{
    struct eps__optimal_model model = {0};
    struct eps__optimal_ascent ascent = {0};
    bool done = false,
         made = eps__optimal_model_init(&model, &s->problem, EPS__OPTIMAL_ENTRIES, 0, factors ? point : NULL) &&
                eps__optimal_ascent_init(&ascent, &model);
    enum eps_status status = made ? EPS_OK : eps__strategy_no_memory(s->error);
    double share = 1;
    if (made && factors) {
        share = fmin(s->loss / s->bound - 1, 1);
        eps__optimal_model_continue(&model, ascent.x, factors, factors_x, share);
    } else if (made) {
        eps__optimal_model_identity(&model, ascent.x);
    }
    if (status == EPS_OK)
        status = follow_path(s, &ascent, share, &done);
    if (model.point.no_memory)
        status = eps__strategy_no_memory(s->error);
    eps__optimal_ascent_clear(&ascent);
    eps__optimal_model_clear(&model);
    return status;
}

/* ---------------------------------------------------------------- both */

enum eps_status eps__optimal_find(struct eps__optimal_search *s)
{
    struct eps__optimal_model factors = {0};
    struct eps__optimal_ascent ascent = {0};
    struct eps__optimal_point point = {0};
    bool done = false;
    enum eps_status status = open_search(s);
    if (status != EPS_OK)
        return status;
    /* For overlapping patterns, the factors' problem is far from the requested one. */
    if (s->problem.overlapping) {
        status = search_entries(s, NULL, NULL, &point);
        return status != EPS_OK ? status : eps__optimal_poll(&s->problem, s->error);
    }
    if (!eps__optimal_model_init(&factors, &s->problem, EPS__OPTIMAL_FACTORS, 0, NULL) ||
        !eps__optimal_ascent_init(&ascent, &factors))
        status = eps__strategy_no_memory(s->error);
    if (status == EPS_OK)
        status = search_factors(s, &ascent, &done);
    if (factors.point.no_memory)
        status = eps__strategy_no_memory(s->error);
    point = factors.point;
    factors.point = (struct eps__optimal_point){0};
    if (status == EPS_OK && !done && s->problem.nonnegative)
        status = search_entries(s, &factors, ascent.x, &point);
    if (status == EPS_OK) /* a stopped search may have returned EPS_OK */
        status = eps__optimal_poll(&s->problem, s->error);
    eps__optimal_point_clear(&point);
    eps__optimal_ascent_clear(&ascent);
    eps__optimal_model_clear(&factors);
    return status;
}

void eps__optimal_search_clear(struct eps__optimal_search *s)
{
    free(s->c);
    free(s->attempt);
    free(s->lower);
    free(s->weights);
    free(s->sums);
}
