/*
 * inverse_square_root: C^-1 is the inverse square root of the workload, cut to the given number of bands (BISR), so
 * that noise is correlated by a short filter whatever the length of the stream. C itself is full: the series inverse of
 * the filter, by recursion in O(n bands). For prefix sums C is positive and decreasing.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/base/error.h"
#include "lib/strategy/families/family.h"
#include "lib/strategy/kinds/kinds.h"

static enum eps_status build(const struct eps_context *context, struct eps_strategy *s, struct eps_error *error,
                             const struct eps_mechanism *mechanism)
{
    const struct eps__workload *w = &s->workload;
    size_t bands = mechanism->matrix.bands;
    double *inverse;
    if (!bands || bands > s->block)
        return eps__error(error, EPS_INVALID, "/matrix/bands",
                          "must lie in [1, %zu], the number of rows of C (n/stamps)", s->block);
    enum eps_status status = eps__need_toeplitz_workload(error, w, "inverse_square_root");
    if (status != EPS_OK)
        return status;
    if (!w->recursive && !(w->coefficients[0] > 0))
        return eps__error(error, EPS_INVALID, "/workload/coefficients/0",
                          "must be positive: inverse_square_root takes the root of the workload");
    status = eps__inverse_root(&inverse, error, w, bands);
    return status != EPS_OK ? status : eps__toeplitz_from_inverse(context, s, error, inverse, bands);
}

static void check(struct eps__check *check, const struct eps_matrix *matrix)
{
    eps__check_bands(check, matrix);
    eps__check_toeplitz_workload(check, "inverse_square_root");
}

static void forecast(struct eps__forecast *c, const struct eps_mechanism *mechanism)
{
    (void)mechanism;
    c->bands = c->block;
    c->inverse_known = true;
}

static void cost(struct eps__cost *cost, const struct eps__forecast *c, const struct eps_mechanism *mechanism)
{
    cost->operations += c->block * (double)mechanism->matrix.bands;
    cost->bytes += 16 * c->block;
}

/* `bands` is the bandwidth of C^-1; C itself is full. */
const struct eps__family eps__family_inverse_square_root = {
    .family = EPS_FAMILY_INVERSE_SQUARE_ROOT,
    .name = "inverse_square_root",
    .check = check,
    .build = build,
    .planned = eps__planned_bands,
    .buffers = eps__buffers_of_bands,
    .forecast = forecast,
    .cost = cost,
};

struct eps_matrix eps__matrix_of_inverse_bands(size_t bands)
{
    struct eps_matrix matrix = eps__matrix_default();
    matrix.family = eps__family_inverse_square_root.family;
    matrix.bands = bands;
    return matrix;
}
