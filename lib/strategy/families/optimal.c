/*
 * Family optimal: the factorisation of least loss under (k,b)-participation (MEMF section 3), with a proven optimality
 * gap. This file maps the request to the problem and proves the gap; optimal_search.c has the search.
 *
 * With stamps, a block is optimal for a job with as many steps as the block.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdlib.h>
#include <string.h>

#include "lib/strategy/failures.h"
#include "lib/strategy/families/family.h"
#include "lib/strategy/kinds/kinds.h"
#include "lib/strategy/optimise/optimal.h"
#include "lib/strategy/sensitivity/sensitivity.h"

enum { STEPS_MAX = 4096 };

/* The gap with rounding included; s->gap ignores rounding. */
static enum eps_status prove(struct eps__optimal_search *s, double *gap)
{
    struct eps__optimal_point p = {0};
    size_t n = s->problem.n;
    double loss, bound;
    enum eps_status status = eps__optimal_poll(&s->problem, s->error);
    if (status != EPS_OK)
        return status;
    bool ok = eps__optimal_point_init(&p, &s->problem);
    if (ok) {
        memcpy(p.lower, s->lower, n * n * sizeof *p.lower);
        memcpy(p.weights, s->weights, n * sizeof *p.weights);
        memcpy(p.sums, s->sums, s->problem.starts * sizeof *p.sums);
        ok = eps__optimal_bound_lower(&s->problem, &p, &bound) && eps__optimal_loss_upper(&s->problem, &p, s->c, &loss);
    }
    eps__optimal_point_clear(&p);
    /* A stopped computation proves nothing. */
    if (!ok || eps__stopped(s->problem.work))
        return eps__optimal_failed(&s->problem, s->error);
    if (!(bound > 0 && isfinite(loss)))
        return eps__error(s->error, EPS_UNSUPPORTED, "/matrix",
                          "the factorisation found after %zu iterations is singular to working precision; choose "
                          "another objective or family",
                          s->iterations);
    *gap = eps__raise(fmax(loss / bound - 1, 0), 8) + 0x1p-50;
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
    if (status != EPS_OK)
        return status;
    o->workload = workload;
    if (workload->recursive)
        return EPS_OK;
    if (workload->coefficients[0] == 0)
        return eps__error(error, EPS_INVALID, "/workload/coefficients/0",
                          "must not be 0: the optimal factorisation needs an invertible workload");
    o->dense = calloc(n * n, sizeof *o->dense);
    if (!o->dense)
        return eps__strategy_no_memory(error);
    for (size_t t = 0; t < n; t++)
        eps__workload_row(workload, o->dense + t * n, t);
    return EPS_OK;
}

static enum eps_status build(const struct eps_context *context, struct eps_strategy *s, struct eps_error *error,
                             const struct eps_mechanism *mechanism)
{
    size_t n = s->block;
    struct eps__workload workload = {0};
    struct eps__work work = {.context = context};
    struct eps__optimal_search found = {
        .context = context, .error = error, .loss = INFINITY, .problem = {.n = n, .work = &work}};
    found.gap = mechanism->matrix.gap > 0 ? mechanism->matrix.gap : 1e-3;
    enum eps_status status = read_participation(&found.problem, error, &mechanism->matrix);
    if (status == EPS_OK)
        status = read_workload(&found.problem, &workload, error, mechanism);
    if (status != EPS_OK)
        goto out;
    status = eps__optimal_find(&found);
    if (status == EPS_OK && !isfinite(found.loss))
        status = eps__error(error, EPS_UNSUPPORTED, "/matrix",
                            "no feasible factorisation was found in %zu iterations; choose another family, or fewer "
                            "epochs",
                            found.iterations);
    if (status == EPS_OK)
        status = prove(&found, &s->optimality_gap);
    if (status != EPS_OK)
        goto out;
    s->entries = found.c;
    found.c = NULL;
    s->entries_len = n * n;
    s->kind = &eps__strategy_dense;
    s->block_rows = n;
    s->iterations = found.iterations;
out:
    eps__workload_clear(&workload);
    free(found.problem.dense);
    eps__optimal_search_clear(&found);
    return status;
}

static void check(struct eps__check *check, const struct eps_matrix *matrix)
{
    eps__check_target(check, matrix);
    eps__check_dense_size(check, "family optimal");
}

static bool optimised(const struct eps_matrix *matrix)
{
    (void)matrix;
    return true;
}

/* The columns of one pattern are orthogonal, so some entries are negative. */
static void forecast(struct eps__forecast *c, const struct eps_mechanism *mechanism)
{
    (void)mechanism;
    c->kind = &eps__strategy_dense;
    c->bands = c->block;
    c->nonnegative = false;
}

/* Evaluations of the dual to reach a gap of 1e-3, measured for n = 64 to 512. If patterns overlap, the search is over
 * entries and in stages. Momentum spreads the singular values of the workload, and the maximum objective even more. The
 * count grows with the digits of the gap, up to the search's limit. */
static double evaluations(const struct eps_mechanism *mechanism)
{
    static const double counts[2][2][2] = {{{8, 25}, {20, 250}}, {{250, 800}, {800, 2000}}};
    const struct eps_matrix *matrix = &mechanism->matrix;
    size_t block = mechanism->n / (matrix->stamps ? matrix->stamps : 1);
    bool overlap = matrix->epochs > 1 && matrix->epochs * matrix->separation < block;
    bool largest = matrix->objective == EPS_OBJECTIVE_MAX_SQUARED;
    bool spread = mechanism->workload.type != EPS_WORKLOAD_PREFIX_SUM;
    double digits = matrix->gap > 0 ? -log10(matrix->gap) : 3;
    return fmin(counts[overlap][largest][spread] * fmax(digits, 1) / 3, 2000);
}

/* As measured for n = 256 to 4096: an evaluation, mostly for the eigendecomposition, and the proof, which takes as long
 * as three. Memory: fourteen matrices, and ten numbers per coordinate. */
static void cost_before(struct eps__cost *cost, const struct eps__forecast *c, const struct eps_mechanism *mechanism)
{
    const struct eps_matrix *matrix = &mechanism->matrix;
    double m = c->block, k = matrix->epochs ? (double)matrix->epochs : 1;

    cost->operations += (evaluations(mechanism) + 3) * (0.14 * m + 130) * m * m;
    cost->bytes = fmax(cost->bytes, 8 * 14 * m * m + 96 * fmax(matrix->nonnegative ? m * m / 2 : 0, m * k));
}

const struct eps__family eps__family_optimal = {
    .family = EPS_FAMILY_OPTIMAL,
    .name = "optimal",
    .check = check,
    .optimised = optimised,
    .build = build,
    .planned = eps__planned_once,
    .forecast = forecast,
    .cost_before = cost_before,
};
