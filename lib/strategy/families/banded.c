/*
 * banded: the best lower-triangular Toeplitz matrix with the given number of bands (BandMF with Toeplitz strategies).
 * The loss in its first column c is smooth. From the banded square root it is so well conditioned that L-BFGS ends
 * after a few dozen evaluations of O(n bands). The loss does not depend on the scale of c; the family scales the first
 * column to norm 1.
 *
 * The norms of Toeplitz columns do not increase with the column, so with bands <= separation any number of
 * participations has the optimum of a single one, except for effects at the end of the stream. With more bands, the
 * columns of one pattern overlap. The best such columns are orthogonal to each other or nearly so, which takes entries
 * of both signs. The loss then uses C'C if the sensitivity can certainly be computed from C'C (sensitivity.c), else the
 * absolute values.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/strategy/families/banded.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/numerics/fft/convolve.h"
#include "lib/strategy/failures.h"
#include "lib/strategy/families/family.h"
#include "lib/strategy/kinds/kinds.h"
#include "lib/strategy/optimise/banded_loss.h"
#include "lib/strategy/optimise/toeplitz_loss.h"

struct banded {
    struct eps__toeplitz_loss loss;
    size_t bands;
    double *quotient, *adjoint; /* n numbers each */
};

static bool banded_objective(void *user, double *value, double *gradient, const double *c)
{
    struct banded *b = user;
    double square = eps__toeplitz_log_square(&b->loss, gradient, c, b->bands);
    if (!eps__toeplitz_loss_quotient(&b->loss, b->quotient, b->loss.workload, c, b->bands))
        return false;
    *value = eps__toeplitz_log_error(&b->loss, b->adjoint, b->quotient) + square;
    if (!isfinite(*value))
        return true;
    return eps__toeplitz_quotient_gradient(&b->loss, gradient, b->adjoint, b->quotient, c, b->bands);
}

bool eps__banded_either_sign(const struct eps_mechanism *mechanism)
{
    const struct eps_matrix *matrix = &mechanism->matrix;
    struct eps__target target = eps__target_told(mechanism);
    return matrix->toeplitz && !matrix->column_normalize && matrix->stamps <= 1 && matrix->epochs > 1 &&
           matrix->epochs <= EPS__GRAM_STEPS_MAX && !target.sampled && !target.separated;
}

/* The starting point: the square root of the workload, cut to the bands, or that of prefix sums if the workload has
 * none or its root is worse. For extreme workloads it can be too badly conditioned to be useful. */
static enum eps_status start(struct banded *b, double *c)
{
    struct eps__toeplitz_loss *loss = &b->loss;
    double value = INFINITY, other, *plain = malloc(2 * b->bands * sizeof *plain);
    enum eps_status status = EPS_OK;
    if (!plain || (loss->workload[0] > 0 && !eps__series_sqrt(c, b->bands, loss->workload, loss->n))) {
        status = eps__strategy_no_memory(loss->error);
        goto out;
    }
    plain[0] = 1;
    for (size_t t = 1; t < b->bands; t++)
        plain[t] = plain[t - 1] * (1 - 0.5 / (double)t);
    if ((loss->workload[0] > 0 && !banded_objective(b, &value, plain + b->bands, c)) ||
        !banded_objective(b, &other, plain + b->bands, plain))
        status = loss->status;
    else if (!(value <= other))
        memcpy(c, plain, b->bands * sizeof *c);
out:
    free(plain);
    return status;
}

static enum eps_status minimise(struct banded *b, double *c, double *value, size_t *iterations, double gap)
{
    return eps__toeplitz_minimise(
        &(struct eps__toeplitz_search){&b->loss, banded_objective, b, b->bands, gap, iterations}, c, value);
}

static enum eps_status optimise(struct banded *b, double *c, double *value, size_t *iterations, double gap)
{
    enum eps_status status = start(b, c);
    return status != EPS_OK ? status : minimise(b, c, value, iterations, gap);
}

/* If columns of one pattern overlap, there are local minima. The second starting point is the optimum without overlap,
 * slightly widened. */
static enum eps_status optimise_from_narrow(struct banded *b, double *c, double *value, size_t *iterations, double gap)
{
    size_t bands = b->bands, narrow = b->loss.separation;
    double other, *wide = malloc(bands * sizeof *wide);
    if (!wide)
        return eps__strategy_no_memory(b->loss.error);
    b->bands = narrow;
    enum eps_status status = optimise(b, wide, &other, iterations, gap);
    b->bands = bands;
    for (size_t j = narrow; j < bands; j++)
        wide[j] = 1e-3 * wide[narrow - 1];
    if (status == EPS_OK)
        status = minimise(b, wide, &other, iterations, gap);
    if (status == EPS_OK && other < *value) {
        *value = other;
        memcpy(c, wide, bands * sizeof *c);
    }
    free(wide);
    return status;
}

static enum eps_status build(const struct eps_context *context, struct eps_strategy *s, struct eps_error *error,
                             const struct eps_mechanism *mechanism)
{
    struct banded b = {.bands = mechanism->matrix.bands};
    if (!b.bands || b.bands > s->block)
        return eps__error(error, EPS_INVALID, "/matrix/bands",
                          "must lie in [1, %zu], the number of rows of C (n/stamps)", s->block);
    if (!mechanism->matrix.toeplitz)
        return eps__build_banded_columns(context, s, error, mechanism);
    enum eps_status status = eps__need_toeplitz_workload(error, &s->workload, "banded");
    if (status != EPS_OK)
        return status;
    double value, *c = malloc(b.bands * sizeof *c);
    status = eps__toeplitz_loss_init(&b.loss, context, error, s, mechanism, eps__target_told(mechanism));
    b.loss.either_sign = eps__banded_either_sign(mechanism);
    b.quotient = malloc(2 * s->block * sizeof *b.quotient);
    if (status == EPS_OK && (!c || !b.quotient))
        status = eps__strategy_no_memory(error);
    if (status != EPS_OK)
        goto out;
    b.adjoint = b.quotient + s->block;
    status = optimise(&b, c, &value, &s->iterations, mechanism->matrix.gap);
    if (status == EPS_OK && b.loss.epochs > 1 && b.bands > b.loss.separation)
        status = optimise_from_narrow(&b, c, &value, &s->iterations, mechanism->matrix.gap);
    if (status != EPS_OK)
        goto out;
    double norm = copysign(cblas_dnrm2((blasint)b.bands, c, 1), c[0]);
    for (size_t j = 0; j < b.bands; j++)
        c[j] /= norm;
    eps__toeplitz_steal(s, c, b.bands);
    c = NULL;
    if (mechanism->matrix.column_normalize)
        status = eps__normalise_columns(s, error);
out:
    free(c);
    free(b.quotient);
    eps__toeplitz_loss_clear(&b.loss);
    return status;
}

static size_t bands(const struct eps_matrix *matrix, size_t block)
{
    (void)block;
    return matrix->bands;
}

static void check(struct eps__check *check, const struct eps_matrix *matrix)
{
    eps__check_bands(check, matrix);
    eps__check_target(check, matrix);
    if (matrix->toeplitz) {
        eps__check_toeplitz_workload(check, "banded with toeplitz: true");
        return;
    }
    eps__check_dense_size(check, "banded with toeplitz: false");
    if (matrix->epochs > 1 && matrix->bands > matrix->separation)
        eps__check_fail(check, "/matrix/bands",
                        "must be at most matrix.separation = %zu with toeplitz: false, so that the columns of one "
                        "pattern do not overlap",
                        matrix->separation);
    if (matrix->column_normalize)
        eps__check_fail(check, "/matrix/column_normalize",
                        "requires toeplitz: true; with toeplitz: false the columns have equal norms already");
}

static bool optimised(const struct eps_matrix *matrix)
{
    (void)matrix;
    return true;
}

static bool told(const struct eps_matrix *matrix)
{
    return matrix->toeplitz;
}

static void forecast(struct eps__forecast *c, const struct eps_mechanism *mechanism)
{
    const struct eps_matrix *matrix = &mechanism->matrix;

    c->bands = fmin((double)matrix->bands, c->block);
    c->nonnegative = matrix->bands <= matrix->separation || !eps__banded_either_sign(mechanism);
    if (!matrix->toeplitz || matrix->column_normalize)
        c->kind = &eps__strategy_banded;
    c->stored = matrix->toeplitz ? c->bands : c->block;
}

/* Evaluations of the loss with its gradient, times what the searches take: a dozen iterations if bands do not overlap,
 * thousands if the loss has kinks or C must be kept positive. */
static void cost(struct eps__cost *cost, const struct eps__forecast *c, const struct eps_mechanism *mechanism)
{
    const struct eps_matrix *matrix = &mechanism->matrix;
    double m = c->block, bands = (double)matrix->bands;

    if (matrix->toeplitz) {
        bool overlap = matrix->epochs > 1 && matrix->bands > matrix->separation;
        cost->operations += (overlap ? 2000 : 40) * m * (6 * bands + 20);
        cost->bytes += 8 * (5 * m + 80 * bands);
    } else {
        bool given = eps__workload_given(&mechanism->workload);
        cost->operations += (matrix->objective == EPS_OBJECTIVE_MAX_SQUARED ? 800 : 150) *
                            (given ? 6 * m * m * bands : 12 * m * bands * (bands + 20));
        cost->bytes += 8 * 25 * m * bands;
    }
}

/* ------------------------------------------------------------ searches for a whole job */

/* A search changes ln c, so that C stays positive, as amplification needs. */
#define SMALL 1e-8 /* entries of a starting column, relative to its first */

static const char *search_refusal(const struct eps_matrix *matrix)
{
    return matrix->toeplitz && !matrix->column_normalize ? NULL : "requires toeplitz: true and column_normalize: false";
}

/* The square root of the workload, and the best C for error alone. Which is better depends on how many participations
 * share a row, and on the accountant. */
static bool search_start(struct eps_matrix *start, const struct eps_matrix *matrix, size_t index)
{
    *start = index == 0 ? eps__matrix_of_bands(matrix->bands) : *matrix;
    start->optimize_for = EPS_OPTIMIZE_FOR_ERROR;
    return index < 2;
}

static enum eps_status search_read(double *column, const struct eps_matrix *matrix, const struct eps_strategy *start)
{
    struct eps__blocks blocks = eps__strategy_blocks(start);
    if (blocks.shape != EPS__SHAPE_TOEPLITZ || blocks.coefficients_len == 0 || !(blocks.coefficients[0] > 0))
        return EPS_UNSUPPORTED;
    for (size_t k = 0; k < matrix->bands; k++)
        column[k] = fmax(k < blocks.coefficients_len ? blocks.coefficients[k] / blocks.coefficients[0] : 0, SMALL);
    return EPS_OK;
}

static void search_scale(double *column, const struct eps_matrix *matrix)
{
    double square = 0;
    for (size_t k = 0; k < matrix->bands; k++)
        square += column[k] * column[k];
    for (size_t k = 0; k < matrix->bands; k++)
        column[k] /= sqrt(square);
}

static bool search_holds(const double *column, const struct eps_matrix *matrix)
{
    bool holds = true;
    for (size_t k = 0; k < matrix->bands; k++)
        holds = holds && column[k] > 0 && column[k] <= 1;
    return holds;
}

static struct eps_matrix search_given(const struct eps_matrix *matrix, const double *column)
{
    return eps__matrix_of_column(column, matrix->bands);
}

static bool search_planned(const struct eps_matrix *matrix)
{
    return matrix->bands >= 8 && matrix->bands <= 32;
}

static const struct eps__family_search search = {
    .refusal = search_refusal,
    .numbers = eps__search_bands,
    .variables = eps__search_bands_anchors,
    .start = search_start,
    .read = search_read,
    .move = eps__search_bands_move,
    .scale = search_scale,
    .holds = search_holds,
    .given = search_given,
    .planned = search_planned,
};

const struct eps__family eps__family_banded = {
    .family = EPS_FAMILY_BANDED,
    .name = "banded",
    .bands = bands,
    .check = check,
    .optimised = optimised,
    .told = told,
    .build = build,
    .search = &search,
    .planned = eps__planned_bands_optimised,
    .buffers = eps__buffers_of_bands,
    .forecast = forecast,
    .cost = cost,
};
