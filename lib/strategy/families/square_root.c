/*
 * square_root: the Toeplitz square root of a Toeplitz workload, full or cut to some bands (banded square root). Prefix
 * sums and momentum have the generating function 1/((1 - decay x)(1 - momentum x)), whose logarithmic derivative is
 * rational. So the coefficients of the root, and those of the full root's inverse, satisfy a three-term recursion in
 * O(n), which keeps small coefficients accurate where a transform would not. Other workloads take the root of their
 * power series.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdlib.h>

#include "lib/numerics/fft/convolve.h"
#include "lib/strategy/failures.h"
#include "lib/strategy/families/family.h"
#include "lib/strategy/kinds/kinds.h"

static enum eps_status build(const struct eps_context *context, struct eps_strategy *s, struct eps_error *error,
                             const struct eps_mechanism *mechanism)
{
    (void)context;
    const struct eps__workload *w = &s->workload;
    size_t bands = mechanism->matrix.bands, len = bands && bands < s->block ? bands : s->block;
    enum eps_status status = eps__need_toeplitz_workload(error, w, "square_root");
    if (status != EPS_OK)
        return status;
    if (!w->recursive && !(w->coefficients[0] > 0))
        return eps__error(error, EPS_INVALID, "/workload/coefficients/0",
                          "must be positive: square_root takes the root of the workload");
    double *root = malloc(len * sizeof *root);
    if (!root)
        return eps__strategy_no_memory(error);
    if (w->recursive) {
        eps__workload_power(w, root, len, -0.5);
    } else if (!eps__series_sqrt(root, len, w->coefficients, w->coefficients_len)) {
        free(root);
        return eps__strategy_no_memory(error);
    }
    eps__toeplitz_steal(s, root, len);
    if (!w->recursive || len < s->block)
        return EPS_OK;
    s->known_inverse = malloc(len * sizeof *s->known_inverse);
    if (!s->known_inverse)
        return eps__strategy_no_memory(error);
    s->known_inverse_len = len;
    eps__workload_power(w, s->known_inverse, len, 0.5);
    return EPS_OK;
}

static void defaults(struct eps_matrix *matrix, size_t block)
{
    if (matrix->bands == 0)
        matrix->bands = block;
}

static size_t bands(const struct eps_matrix *matrix, size_t block)
{
    (void)block;
    return matrix->bands;
}

static void check(struct eps__check *check, const struct eps_matrix *matrix)
{
    eps__check_bands(check, matrix);
    eps__check_toeplitz_workload(check, "square_root");
}

static void forecast(struct eps__forecast *c, const struct eps_mechanism *mechanism)
{
    bool given = eps__workload_given(&mechanism->workload);
    size_t bands = mechanism->matrix.bands;

    c->bands = bands ? fmin((double)bands, c->block) : c->block;
    c->inverse_known = c->bands == c->block && !given;
    /* The root of a momentum workload is positive; the root of given coefficients need not be. */
    c->nonnegative = !given;
}

static void cost(struct eps__cost *cost, const struct eps__forecast *c, const struct eps_mechanism *mechanism)
{
    if (eps__workload_given(&mechanism->workload))
        cost->operations += 10 * eps__product_cost(c->bands, c->bands);
}

const struct eps__family eps__family_square_root = {
    .family = EPS_FAMILY_SQUARE_ROOT,
    .name = "square_root",
    .defaults = defaults,
    .bands = bands,
    .check = check,
    .build = build,
    .planned = eps__planned_bands,
    .buffers = eps__buffers_of_bands,
    .forecast = forecast,
    .cost = cost,
};

struct eps_matrix eps__matrix_of_bands(size_t bands)
{
    struct eps_matrix matrix = eps__matrix_default();
    matrix.family = eps__family_square_root.family;
    matrix.bands = bands;
    return matrix;
}
