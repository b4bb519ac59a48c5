/*
 * See bin_shared.h. s^2 = 1/(1' G^-1 1); any vector a near G^-1 1 proves a bound near it.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/moments/laws/bin_shared.h"

#include <math.h>
#include <stdlib.h>

#include "lib/base/error.h"
#include "lib/numerics/bound.h"

enum { ITERATIONS = 200 };

#define RAISE 1e-9     /* what is added to the diagonal, in the largest entry */
#define RESIDUAL 1e-13 /* relative, at which the iteration ends */
#define LEAST 1e-12    /* a smaller part, relative to the largest entry, is not worth the work */

/* y = G x. */
static void multiply(double *y, const struct eps__bin_gram *bins, const double *x)
{
    for (size_t i = 0; i < bins->len; i++) {
        double sum = 0;
        for (size_t j = 0; j < bins->len; j++)
            sum += bins->gram[i * bins->len + j] * x[j];
        y[i] = sum;
    }
}

static double product(const double *x, const double *y, size_t len)
{
    double sum = 0;
    for (size_t i = 0; i < len; i++)
        sum += x[i] * y[i];
    return sum;
}

/* Solves G a = 1 by conjugate gradients, approximately. room: space for three vectors. */
static enum eps_status solve(const struct eps_context *context, double *a, const struct eps__bin_gram *bins,
                             double *room)
{
    size_t len = bins->len;
    double *residual = room, *along = room + len, *image = room + 2 * len, square = (double)len;
    for (size_t i = 0; i < len; i++) {
        a[i] = 0;
        residual[i] = along[i] = 1;
    }
    for (size_t step = 0; step < ITERATIONS && square > RESIDUAL * RESIDUAL * (double)len; step++) {
        enum eps_status status = eps__poll(context);
        if (status != EPS_OK)
            return status;
        multiply(image, bins, along);
        double length = square / product(along, image, len), before = square;
        for (size_t i = 0; i < len; i++) {
            a[i] += length * along[i];
            residual[i] -= length * image[i];
        }
        square = product(residual, residual, len);
        for (size_t i = 0; i < len; i++)
            along[i] = residual[i] + square / before * along[i];
    }
    return EPS_OK;
}

/* With G a = 1 + r: s^2 >= 1/(sqrt(a'G a) + |r|/sqrt(raised))^2, rounded down (M28). */
static double proven(const struct eps__bin_gram *bins, const double *a, double raised)
{
    size_t len = bins->len;
    double units = (double)len + 8, rest = 0, form = 0, lost = 0;
    for (size_t i = 0; i < len; i++) {
        double sum = 0, size = 0;
        for (size_t j = 0; j < len; j++) {
            sum += bins->gram[i * len + j] * a[j];
            size += bins->gram[i * len + j] * fabs(a[j]);
        }
        double error = units * EPS__UNIT_ROUNDOFF * size, off = fabs(sum - 1) + 2 * error;
        rest += off * off;
        form += a[i] * sum;
        lost += fabs(a[i]) * (2 * error + 2 * units * EPS__UNIT_ROUNDOFF * fabs(sum));
    }
    double square = form + lost;
    double least = 1 / (sqrt(fmax(square, 0)) + sqrt(rest / raised));
    return eps__lower(least * least, 4 * units);
}

enum eps_status eps__bin_gram_share(const struct eps_context *context, struct eps__bin_gram *bins)
{
    size_t len = bins->len;
    bins->shared = 0;
    if (!bins->gram || bins->count || !(bins->most > 0))
        return EPS_OK;
    double raised = RAISE * bins->most, *a = malloc(4 * len * sizeof *a);
    if (!a)
        return EPS_NO_MEMORY;
    for (size_t i = 0; i < len; i++) {
        bins->diagonal[i] = eps__raise(bins->diagonal[i] + 1.01 * raised, 4);
        bins->gram[i * len + i] = bins->diagonal[i];
        bins->most = fmax(bins->most, bins->diagonal[i]);
    }
    enum eps_status status = solve(context, a, bins, a + len);
    double shared = status == EPS_OK ? proven(bins, a, raised) : 0;
    if (isfinite(shared) && shared > LEAST * bins->most)
        bins->shared = shared;
    free(a);
    return status;
}
