/*
 * Bounds on the square of the sensitivity of one pattern, from its Gram matrix X (MEMF theorem 2.1, corollary 2.1,
 * appendix H.1). The contributions are k vectors g_i of norm at most 1, and ||C G||^2 = sum of X_ij <g_i, g_j>. The
 * result is the least of
 *   nonnegative_gram  sum X_ij, if X >= 0: exact
 *   absolute_gram     sum |X_ij|: exact for k = 2
 *   sign_maximum      pi/2 times the largest u'Xu over signs u (Grothendieck's inequality for semidefinite X)
 *   spectral          k lambda_max
 *   semidefinite      the least sum of d with diag(d) - X positive semidefinite: exact for gradients of dimension k
 * Up to rounding, the last is never above the others. They serve as cheap checks on it, and as bounds for k for which
 * it is too slow. A bound that is attained is marked exact.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdlib.h>
#include <string.h>

#include "lib/numerics/linear/linalg.h"
#include "lib/numerics/normal.h"
#include "lib/strategy/sensitivity/sensitivity.h"

/* The largest k for which each rule is tried: 2^15 sign vectors; k^3 operations; k^2.5 times a few hundred
 * operations. */
static const size_t signs_max = 16, spectral_max = 1024, semidefinite_max = 512;

/* The relative gap between a bound and an attained value below which the bound counts as exact. */
static const double exact_gap = 1e-9;

static struct eps__square absolute(const double *x, size_t k)
{
    struct eps__square square = {.rule = "nonnegative_gram", .exact = true};
    struct eps__sum sum = {0};
    for (size_t i = 0; i < k * k; i++) {
        eps__sum_add(&sum, fabs(x[i]));
        if (x[i] < 0)
            square.rule = "absolute_gram";
    }
    square.exact = k <= 2 || strcmp(square.rule, "nonnegative_gram") == 0;
    square.value = eps__sum_interval(&sum, 0);
    return square;
}

/* All sign vectors up to a common sign, in Gray code order: one sign flips at a time. */
static struct eps__interval sign_maximum(const double *x, size_t k, double magnitude)
{
    double u[16], value = 0;
    for (size_t i = 0; i < k; i++)
        u[i] = 1;
    for (size_t i = 0; i < k * k; i++)
        value += x[i];
    double best = value;
    size_t last = (size_t)1 << (k - 1);
    for (size_t step = 1; step < last; step++) {
        size_t flip = 1;
        while (!((step >> (flip - 1)) & 1))
            flip++;
        double others = 0;
        for (size_t j = 0; j < k; j++)
            others += j == flip ? 0 : x[flip * k + j] * u[j];
        value -= 4 * u[flip] * others;
        u[flip] = -u[flip];
        best = value > best ? value : best;
    }
    /* Each step rounds at most 4 (k + 2) times, numbers no larger than 4 magnitude. */
    double error = 4 * ((double)last + (double)k) * 4 * ((double)k + 2) * EPS__UNIT_ROUNDOFF * magnitude;
    return (struct eps__interval){fmax(best - error, 0), best + error};
}

/* k times the largest eigenvalue: all multipliers d equal it, and are certified as usual. False: no memory. */
static bool spectral(double *upper, const double *x, size_t k)
{
    bool ok = false;
    double *work = malloc(k * k * sizeof *work), *values = malloc(k * sizeof *values), *d = malloc(k * sizeof *d);
    if (!work || !values || !d)
        goto out;
    memcpy(work, x, k * k * sizeof *work);
    *upper = INFINITY;
    ok = true;
    if (!eps__symmetric_eigenvalues(values, work, k))
        goto out;
    double largest = fmax(values[k - 1], 0);
    for (size_t i = 0; i < k; i++)
        d[i] = largest;
    *upper = eps__semidefinite_certify(x, d, k, work, values);
out:
    free(work);
    free(values);
    free(d);
    return ok;
}

static void take(struct eps__square *best, double upper, double lower, const char *rule)
{
    if (upper < best->value.upper)
        *best = (struct eps__square){{lower, upper}, rule, false};
}

bool eps__gram_square(struct eps__square *out, const double *x, size_t k, double floor)
{
    struct eps__square best = absolute(x, k);
    double attained = best.exact ? best.value.lower : 0, magnitude = best.value.upper, bound;
    *out = best;
    if (best.exact || magnitude <= floor)
        return true;
    if (k <= signs_max) {
        struct eps__interval signs = sign_maximum(x, k, magnitude);
        attained = signs.lower;
        take(&best, eps__raise(signs.upper * M_PI_2, 8), eps__lower(signs.lower * M_PI_2, 8), "sign_maximum");
    }
    if (k <= spectral_max) {
        if (!spectral(&bound, x, k))
            return false;
        take(&best, bound, bound * (1 - exact_gap), "spectral");
    }
    if (k <= semidefinite_max) {
        struct eps__interval semidefinite;
        if (!eps__semidefinite_square(&semidefinite, x, k))
            return false;
        attained = fmax(attained, semidefinite.lower);
        take(&best, semidefinite.upper, semidefinite.lower, "semidefinite");
    }
    if (best.value.upper - attained <= exact_gap * best.value.upper) {
        best.exact = true;
        best.value.lower = attained;
    }
    *out = best;
    return true;
}
