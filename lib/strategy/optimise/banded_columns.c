/*
 * banded with toeplitz: false: the best b-banded matrix with columns of equal norm (dense BandMF). The columns of one
 * pattern must not overlap. Then the sensitivity is the norm times the root of the number of participations for every
 * C, and one loss serves all numbers of participations. It is convex in X = C'C, which is banded with a unit diagonal,
 * and C is the only lower-triangular root of X with a positive diagonal, so minimising over the columns finds the
 * optimum.
 *
 * The maximum of the variances is minimised through power means of increasing powers, each from the optimum of the one
 * before: the power mean with exponent p is less than the maximum by a factor of at most n^(1/p). Amplification needs C
 * >= 0, which the optimum satisfies except for small entries. If some entries are negative, the search continues with
 * the square roots of the entries as variables, unless the root of the workload itself has both signs.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdlib.h>
#include <string.h>

#include "lib/numerics/fft/convolve.h"
#include "lib/numerics/lbfgs.h"
#include "lib/strategy/failures.h"
#include "lib/strategy/optimise/banded_loss.h"

/* Starts at the first columns of the square root of the workload without its cooldown, or of prefix sums if it has
 * none. */
static bool root_start(double *x, const struct eps__workload *w, size_t n, size_t bands)
{
    struct eps__workload steady = *w;
    double *a = malloc(2 * bands * sizeof *a), *root = a + bands;
    bool found = false;
    if (!a)
        return false;
    steady.cooldown = false;
    eps__workload_coefficients(&steady, a, bands);
    if (a[0] > 0 && eps__series_sqrt(root, bands, a, bands))
        found = eps__all_finite(root, bands);
    for (size_t d = 0; d < bands && !found; d++)
        root[d] = d ? root[d - 1] * (1 - 0.5 / (double)d) : 1;
    for (size_t j = 0; j < n; j++)
        for (size_t d = 0; d < bands; d++)
            x[j * bands + d] = j + d < n ? root[d] : 0;
    free(a);
    return true;
}

static enum eps_status search(struct eps__banded_loss *loss, double *x, size_t *iterations, double gap)
{
    size_t taken = 0;
    double value;
    const struct eps__lbfgs options = {.memory = 6, .tolerance = gap / 100};
    enum eps__lbfgs_end end =
        eps__lbfgs_minimise(&options, x, &value, &taken, loss->c.n * loss->c.width, eps__banded_log_loss, loss);
    *iterations += taken;
    if (end == EPS__LBFGS_STOPPED)
        return loss->status;
    if (end == EPS__LBFGS_NO_MEMORY)
        return eps__strategy_no_memory(loss->error);
    if (end == EPS__LBFGS_DOMAIN)
        return eps__error(loss->error, EPS_INVALID, "/workload",
                          "the error of a banded strategy is not finite: scale the workload's numbers closer to 1");
    return EPS_OK;
}

/* Replaces the entries of x by their square roots. Each column's sign is that of its diagonal. A negative entry starts
 * at a small positive value, because at zero the derivative of a square vanishes. */
static void take_roots(double *x, size_t n, size_t bands)
{
    for (size_t j = 0; j < n; j++) {
        double *column = x + j * bands, sign = copysign(1, column[0]), least = 1e-4 * fabs(column[0]);
        for (size_t d = 0; d < bands; d++)
            column[d] = j + d < n ? sqrt(fmax(sign * column[d], least)) : 0;
    }
}

static bool has_negative(const double *x, size_t n, size_t bands)
{
    for (size_t j = 0; j < n; j++)
        for (size_t d = 1; d < bands && j + d < n; d++)
            if (x[j * bands + d] * x[j * bands] < 0)
                return true;
    return false;
}

/* Searches with the powers from `power` on. */
static enum eps_status search_powers(struct eps__banded_loss *loss, double *x, size_t *iterations,
                                     const struct eps_matrix *matrix, double power)
{
    bool largest = matrix->objective == EPS_OBJECTIVE_MAX_SQUARED;
    double most = largest ? fmax(log((double)loss->c.n) / matrix->gap, 1) : 1;
    for (;; power *= 4) {
        loss->power = fmin(power, most);
        enum eps_status status = search(loss, x, iterations, matrix->gap);
        if (status != EPS_OK || power >= most)
            return status;
    }
}

/* Leaves the columns of C in x, with any norm and sign. */
static enum eps_status minimise(struct eps__banded_loss *loss, double *x, size_t *iterations,
                                const struct eps_matrix *matrix)
{
    size_t n = loss->c.n, bands = loss->c.width;
    bool signs = has_negative(x, n, bands);
    loss->expected = matrix->objective == EPS_OBJECTIVE_MAX_SQUARED ? 800 : 150;
    enum eps_status status = search_powers(loss, x, iterations, matrix, 4);
    if (status != EPS_OK || signs || !has_negative(x, n, bands))
        return status;
    loss->squares = true;
    take_roots(x, n, bands);
    status = search_powers(loss, x, iterations, matrix, 64);
    for (size_t i = 0; i < n * bands; i++)
        x[i] *= x[i];
    return status;
}

enum eps_status eps__build_banded_columns(const struct eps_context *context, struct eps_strategy *s,
                                          struct eps_error *error, const struct eps_mechanism *mechanism)
{
    const struct eps_matrix *matrix = &mechanism->matrix;
    size_t n = s->block, bands = matrix->bands;
    struct eps__banded_loss loss = {0};
    struct eps__workload workload = {0};
    if (matrix->epochs > 1 && bands > matrix->separation)
        return eps__error(error, EPS_INVALID, "/matrix/bands",
                          "must be at most matrix.separation = %zu with toeplitz: false, so that the columns of one "
                          "pattern do not overlap",
                          matrix->separation);
    double *x = malloc(n * (bands + 1) * sizeof *x); /* the columns, then their norms */
    enum eps_status status = eps__workload_of_block(&workload, error, mechanism, n);
    if (status == EPS_OK && (!x || !root_start(x, &workload, n, bands)))
        status = eps__strategy_no_memory(error);
    if (status == EPS_OK)
        status = eps__banded_loss_init(&loss, context, error, &workload, bands);
    if (status == EPS_OK)
        status = minimise(&loss, x, &s->iterations, matrix);
    if (status != EPS_OK)
        goto out;
    eps__banded_unit_columns(x, x + n * bands, n, bands);
    for (size_t j = 0; j < n; j++)
        for (size_t d = bands; d-- > 0;)
            x[j * bands + d] = copysign(1, x[j * bands]) * x[j * bands + d];
    eps__banded_steal(s, x, n, bands);
    x = NULL;
out:
    free(x);
    eps__banded_loss_clear(&loss);
    eps__workload_clear(&workload);
    return status;
}
