/*
 * banded_inverse: the best Toeplitz C whose inverse has the given number of bands (BandInvMF). The variables are the
 * inverse's first column v, v_0 = 1. B = A C^-1 is linear in it, and C is its series inverse. The sensitivity of C is
 * used as it is: for one participation, the column norm, whether or not C decreases. If a majorant is needed, the loss
 * has kinks, which the line search handles (lbfgs.h).
 *
 * Or v is given, in matrix.coefficients.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/numerics/fft/convolve.h"
#include "lib/strategy/failures.h"
#include "lib/strategy/families/family.h"
#include "lib/strategy/kinds/kinds.h"
#include "lib/strategy/optimise/toeplitz_loss.h"

struct inverse {
    struct eps__toeplitz_loss loss;
    size_t bands;
    double *filter, *gradient;     /* bands numbers: v, and the gradient with respect to it */
    double *error, *error_adjoint; /* n numbers: B's first column, and the gradient with respect to it */
    double *c, *c_adjoint;
};

/* x holds v_1, v_2... */
static bool inverse_objective(void *user, double *value, double *gradient, const double *x)
{
    struct inverse *s = user;
    struct eps__toeplitz_loss *loss = &s->loss;
    size_t n = loss->n, bands = s->bands;
    s->filter[0] = 1;
    memcpy(s->filter + 1, x, (bands - 1) * sizeof *x);
    if (!eps__convolve(s->error, n, s->filter, bands, loss->workload, n)) {
        loss->status = eps__strategy_no_memory(loss->error);
        return false;
    }
    if (!eps__toeplitz_loss_quotient(loss, s->c, NULL, s->filter, bands))
        return false;
    *value = eps__toeplitz_log_error(loss, s->error_adjoint, s->error) +
             eps__toeplitz_log_square(loss, s->c_adjoint, s->c, n);
    if (!isfinite(*value))
        return true;
    memset(s->gradient, 0, bands * sizeof *s->gradient);
    eps__toeplitz_correlate(s->gradient, bands, s->error_adjoint, loss->workload, n);
    if (!eps__toeplitz_quotient_gradient(loss, s->gradient, s->c_adjoint, s->c, s->filter, bands))
        return false;
    memcpy(gradient, s->gradient + 1, (bands - 1) * sizeof *gradient);
    return true;
}

/* The starting point: the inverse square root of the workload, or of prefix sums if the workload has none or its root
 * is worse. For extreme workloads it can be too badly conditioned to be useful. */
static enum eps_status start(struct inverse *v, double *x, struct eps_error *error, const struct eps__workload *w)
{
    static const struct eps__workload prefix_sum = {.recursive = true, .decay = 1};
    size_t len = v->bands - 1;
    double *root = NULL, *plain = malloc(2 * (len + 1) * sizeof *plain), value = INFINITY, other;
    enum eps_status status = plain ? EPS_OK : eps__strategy_no_memory(error);
    if (status == EPS_OK && (w->recursive || w->coefficients[0] > 0))
        status = eps__inverse_root(&root, error, w, len + 1);
    if (status != EPS_OK)
        goto out;
    eps__workload_power(&prefix_sum, plain, len + 1, 0.5);
    for (size_t j = 0; root && j < len; j++)
        x[j] = root[j + 1] / root[0];
    if ((root && !inverse_objective(v, &value, plain + len + 1, x)) ||
        !inverse_objective(v, &other, plain + len + 1, plain + 1))
        status = v->loss.status;
    else if (!(value <= other))
        memcpy(x, plain + 1, len * sizeof *x);
out:
    free(root);
    free(plain);
    return status;
}

static enum eps_status optimise(struct inverse *v, double *inverse, struct eps_strategy *s, struct eps_error *error,
                                double gap)
{
    size_t n = v->loss.n, bands = v->bands;
    double *all = malloc((2 * bands + 4 * n) * sizeof *all);
    if (!all)
        return eps__strategy_no_memory(error);
    v->filter = all;
    v->gradient = all + bands;
    v->error = all + 2 * bands;
    v->error_adjoint = v->error + n;
    v->c = v->error + 2 * n;
    v->c_adjoint = v->error + 3 * n;
    inverse[0] = 1;
    double value;
    enum eps_status status = start(v, inverse + 1, error, &s->workload);
    const struct eps__toeplitz_search search = {&v->loss, inverse_objective, v, bands - 1, gap, &s->iterations};
    if (status == EPS_OK)
        status = eps__toeplitz_minimise(&search, inverse + 1, &value);
    free(all);
    return status;
}

static enum eps_status given(const struct eps_context *context, struct eps_strategy *s, struct eps_error *error,
                             const struct eps_matrix *matrix)
{
    if (!matrix->coefficients || matrix->coefficients_len != matrix->bands)
        return eps__error(error, EPS_INVALID, "/matrix/coefficients", "must have as many numbers as bands, %zu",
                          matrix->bands);
    double *inverse = malloc(matrix->bands * sizeof *inverse);
    if (!inverse)
        return eps__strategy_no_memory(error);
    memcpy(inverse, matrix->coefficients, matrix->bands * sizeof *inverse);
    return eps__toeplitz_from_inverse(context, s, error, inverse, matrix->bands);
}

static bool optimised(const struct eps_matrix *matrix)
{
    return matrix->coefficients_len == 0;
}

static enum eps_status build(const struct eps_context *context, struct eps_strategy *s, struct eps_error *error,
                             const struct eps_mechanism *mechanism)
{
    struct inverse v = {.bands = mechanism->matrix.bands};
    if (!v.bands || v.bands > s->block)
        return eps__error(error, EPS_INVALID, "/matrix/bands",
                          "must lie in [1, %zu], the number of rows of C (n/stamps)", s->block);
    if (!optimised(&mechanism->matrix))
        return given(context, s, error, &mechanism->matrix);
    enum eps_status status = eps__need_toeplitz_workload(error, &s->workload, "banded_inverse");
    if (status != EPS_OK)
        return status;
    double *inverse = malloc(v.bands * sizeof *inverse);
    status = eps__toeplitz_loss_init(&v.loss, context, error, s, mechanism, eps__target_told(mechanism));
    if (status == EPS_OK && !inverse)
        status = eps__strategy_no_memory(error);
    if (status == EPS_OK && v.bands > 1)
        status = optimise(&v, inverse, s, error, mechanism->matrix.gap);
    else if (status == EPS_OK)
        inverse[0] = 1;
    eps__toeplitz_loss_clear(&v.loss);
    if (status != EPS_OK) {
        free(inverse);
        return status;
    }
    return eps__toeplitz_from_inverse(context, s, error, inverse, v.bands);
}

static void check(struct eps__check *check, const struct eps_matrix *matrix)
{
    eps__check_bands(check, matrix);
    if (optimised(matrix)) {
        eps__check_target(check, matrix);
        eps__check_toeplitz_workload(check, "banded_inverse");
        return;
    }
    if (matrix->coefficients_len != matrix->bands)
        eps__check_fail(check, "/matrix/coefficients", "must have as many numbers as bands, %zu, not %zu",
                        matrix->bands, matrix->coefficients_len);
    eps__check_first_column(check, "/matrix/coefficients", matrix->coefficients, matrix->coefficients_len,
                            check->block);
}

static const char *source(const struct eps_matrix *matrix)
{
    return optimised(matrix) ? "/workload" : "/matrix/coefficients";
}

static void forecast(struct eps__forecast *c, const struct eps_mechanism *mechanism)
{
    c->bands = mechanism->matrix.bands == 1 ? 1 : c->block; /* the inverse of a diagonal matrix is diagonal */
    c->inverse_known = true;
}

/* About a hundred evaluations of the loss and its gradient; thousands if the loss has kinks. */
static void cost(struct eps__cost *cost, const struct eps__forecast *c, const struct eps_mechanism *mechanism)
{
    const struct eps_matrix *matrix = &mechanism->matrix;
    double m = c->block, bands = (double)matrix->bands;

    cost->operations += optimised(matrix) ? (matrix->epochs > 1 ? 1000 : 150) * m * (8 * bands + 30) : m * bands;
    cost->bytes += 8 * (8 * m + 80 * bands);
}

/* ------------------------------------------------------------ searches for a whole job */

/* A search changes ln(-v_k) for k >= 1. While v_1, v_2... are negative, C is positive, as amplification needs; where C
 * nearly has a negative entry, most steps that change v freely would be refused. */
#define SMALL 1e-2 /* entries of a starting v, relative to those of the inverse square root of prefix sums, at least */

static const char *search_refusal(const struct eps_matrix *matrix)
{
    (void)matrix;
    return NULL;
}

/* The inverse square root of the workload, and the best C for error alone. */
static bool search_start(struct eps_matrix *start, const struct eps_matrix *matrix, size_t index)
{
    *start = index == 0 ? eps__matrix_of_inverse_bands(matrix->bands) : *matrix;
    start->optimize_for = EPS_OPTIMIZE_FOR_ERROR;
    return index < 2;
}

static enum eps_status search_read(double *inverse, const struct eps_matrix *matrix, const struct eps_strategy *start)
{
    double root = 1;
    enum eps_status status = eps_strategy_coefficients(start, inverse, NULL, EPS_PART_NOISE, matrix->bands);
    if (status != EPS_OK || !(inverse[0] > 0))
        return status != EPS_OK ? status : EPS_UNSUPPORTED;
    for (size_t k = 1; k < matrix->bands; k++) {
        root *= 1 - 1.5 / (double)k;
        inverse[k] = fmin(inverse[k] / inverse[0], SMALL * root);
    }
    inverse[0] = 1;
    return EPS_OK;
}

static bool search_holds(const double *inverse, const struct eps_matrix *matrix)
{
    bool holds = inverse[0] > 0 && inverse[0] <= 1;
    for (size_t k = 1; k < matrix->bands; k++)
        holds = holds && inverse[k] < 0 && inverse[k] >= -1e100;
    return holds;
}

static struct eps_matrix search_given(const struct eps_matrix *matrix, const double *inverse)
{
    struct eps_matrix given = eps__matrix_default();
    given.family = matrix->family;
    given.bands = given.coefficients_len = matrix->bands;
    given.coefficients = inverse;
    return given;
}

/* More bands, of a C that is full in any case, gain little. */
static bool search_planned(const struct eps_matrix *matrix)
{
    return matrix->bands == 8 || matrix->bands == 16;
}

static const struct eps__family_search search = {
    .refusal = search_refusal,
    .numbers = eps__search_bands,
    .variables = eps__search_bands_anchors,
    .start = search_start,
    .read = search_read,
    .move = eps__search_bands_move,
    .holds = search_holds,
    .given = search_given,
    .planned = search_planned,
};

/* `bands` is the bandwidth of C^-1; C itself is full. */
const struct eps__family eps__family_banded_inverse = {
    .family = EPS_FAMILY_BANDED_INVERSE,
    .name = "banded_inverse",
    .check = check,
    .optimised = optimised,
    .told = optimised,
    .build = build,
    .source = source,
    .search = &search,
    .planned = eps__planned_bands_optimised,
    .buffers = eps__buffers_of_bands,
    .forecast = forecast,
    .cost = cost,
};
