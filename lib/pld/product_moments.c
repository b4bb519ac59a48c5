/*
 * Product mixtures of thousands of small shifts: Gauss-Radau quadrature for the law of S.
 *
 * The density of the mixture over phi(z) is E h_S(z), h_s(z) = e^{s z - s^2/2} = sum_r He_r(z) s^r / r!, entire and
 * of small argument where S is small beside 1/z. A quadrature with m atoms and one at 0 that keeps the moments up to
 * 2 m is then as good as the law itself, with an error that falls faster than geometrically: six atoms stand for
 * 2^2000.
 *
 * How the quadrature was found does not matter, only whether its moments are those of S. They are compared as they come
 * out, rounding and all:
 *   |E h_S(z) - sum_i w_i h_{s_i}(z)| <= sum_{r < R} H_r |mu_r - mu'_r| + C sqrt(R!) (mu_R + mu'_R) e^{z^2/2},
 * mu_r = E S^r / r!, H_r the Hermite polynomial with the absolute values of its coefficients at the reach, and the
 * last term Taylor's remainder with Cramer's bound |He_R(y)| e^{-y^2/4} <= 1.0865 sqrt(R!). Relative to the density it is
 * divided by E h_S(z) >= e^{E[S] z - E[S^2]/2} (Jensen). The moments themselves are sums of positive terms.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <float.h>
#include <lapacke.h>
#include <math.h>
#include <stdlib.h>

#include "lib/numerics/normal.h"
#include "lib/pld/product_mixture.h"

/* Most rows need few nodes, and then the remainder is small enough at the lower order. */
enum { ORDER_LOW = 20, ORDER = 44, NODES_LOW = 6, NODES_MAX = 11, ROUGH_NODES = 5 };

#define CRAMER 1.0865L

static long double probability(double log_odds)
{
    return 1 / (1 + expl(-(long double)log_odds));
}

/* mu[r] = E S^r / r!, r <= order: multiplying by a factor is a convolution with the coefficients of its e^{t c} - 1. */
static void moments_of(long double *mu, const struct eps__factor *factors, size_t len, size_t order)
{
    mu[0] = 1;
    for (size_t r = 1; r <= order; r++)
        mu[r] = 0;
    for (size_t k = 0; k < len; k++) {
        long double power[ORDER + 1], p = probability(factors[k].log_odds);
        power[0] = p;
        for (size_t r = 1; r <= order; r++)
            power[r] = power[r - 1] * factors[k].shift / (long double)r;
        for (double i = 0; i < factors[k].count; i++)
            for (size_t r = order; r > 0; r--) {
                long double sum = 0;
                for (size_t s = 0; s < r; s++)
                    sum += mu[s] * power[r - s];
                mu[r] += sum;
            }
    }
}

/* Gauss nodes and weights of the measure with the moments m[0..2n-1], by Chebyshev's algorithm and the eigenvalues of
 * the Jacobi matrix. False if the moments are not resolved. */
static bool gauss(double *node, double *weight, const long double *m, size_t n)
{
    long double before[2 * NODES_MAX + 2] = {0}, row[2 * NODES_MAX + 2], next[2 * NODES_MAX + 2];
    long double a[NODES_MAX], b[NODES_MAX];
    double off[NODES_MAX], vectors[NODES_MAX * NODES_MAX], work[2 * NODES_MAX];
    for (size_t l = 0; l < 2 * n; l++)
        row[l] = m[l];
    a[0] = m[1] / m[0];
    b[0] = 0;
    for (size_t k = 1; k < n; k++) {
        for (size_t l = k; l < 2 * n - k; l++)
            next[l] = row[l + 1] - a[k - 1] * row[l] - b[k - 1] * before[l];
        b[k] = next[k] / row[k - 1];
        a[k] = next[k + 1] / next[k] - row[k] / row[k - 1];
        if (!(b[k] > 0) || !isfinite(a[k]))
            return false;
        for (size_t l = k; l < 2 * n - k; l++) {
            before[l] = row[l];
            row[l] = next[l];
        }
    }
    for (size_t k = 0; k < n; k++) {
        node[k] = (double)a[k];
        off[k] = k + 1 < n ? (double)sqrtl(b[k + 1]) : 0;
        if (isnan(node[k]) || isnan(off[k]))
            return false;
    }
    /* with room of our own: to be out of memory is not to be unresolved */
    if (LAPACKE_dstev_work(LAPACK_COL_MAJOR, 'V', (lapack_int)n, node, off, vectors, (lapack_int)n, work) != 0)
        return false;
    for (size_t k = 0; k < n; k++)
        weight[k] = (double)m[0] * vectors[k * n] * vectors[k * n];
    return true;
}

/* n atoms and one at 0, last, with the moments of S up to 2 n. */
static bool radau(double *node, double *weight, const long double *mu, size_t n)
{
    long double m[2 * NODES_MAX] = {0}, factorial = 1, left = 1;
    for (size_t r = 0; r < 2 * n; r++) {
        factorial *= (long double)(r + 1);
        m[r] = mu[r + 1] * factorial; /* the moments of s times the law */
    }
    if (!(m[0] > LDBL_MIN) || !gauss(node, weight, m, n))
        return false;
    for (size_t k = 0; k < n; k++) {
        weight[k] /= node[k];
        if (!(node[k] > 0) || !(weight[k] > 0))
            return false;
        left -= weight[k];
    }
    node[n] = 0;
    weight[n] = (double)left;
    return weight[n] > 0;
}

/* The bound of the head comment for atoms whose first `known` moments are compared. */
static double quadrature_error(const double *node, const double *weight, size_t atoms, const long double *mu,
                               size_t order, long double reach, double participations)
{
    long double rounding = ((long double)order + 8) * (participations + 8) * 4 * LDBL_EPSILON;
    long double hermite = 1, hermite_before = 0, total = 0, factorial = 1, power[NODES_MAX + 1], last = 0;
    for (size_t i = 0; i < atoms; i++)
        power[i] = weight[i];
    for (size_t r = 0; r <= order; r++) {
        long double own = 0;
        for (size_t i = 0; i < atoms; i++) {
            own += power[i];
            power[i] *= (long double)node[i] / (long double)(r + 1);
        }
        if (r == order)
            last = mu[r] + own;
        else
            total += hermite * (fabsl(mu[r] - own) + rounding * (mu[r] + own));
        long double next = reach * hermite + (long double)r * hermite_before;
        hermite_before = hermite;
        hermite = next;
        factorial *= r > 0 ? (long double)r : 1;
    }
    total += CRAMER * sqrtl(factorial) * expl(0.5L * reach * reach) * last * (1 + rounding);
    /* E S^2 = 2 mu_2. */
    long double least = expl(-mu[1] * reach - mu[2]) * (1 - 1e-12L), error = total / least;
    /* P <= (1 + e) P' follows from |P - P'| <= e' P with e = e'/(1 - e'). */
    return error < 0.5L ? eps__raise((double)(error / (1 - error)), 1e4) : INFINITY;
}

static bool fill(struct eps__mixture *mixture, const double *node, const double *weight, size_t atoms)
{
    if (!eps__mixture_alloc(mixture, atoms))
        return false;
    for (size_t i = 0; i < atoms; i++) { /* ascending, the atom at 0 first */
        mixture->shift[i] = node[(i + atoms - 1) % atoms];
        mixture->weight[i] = weight[(i + atoms - 1) % atoms];
    }
    return true;
}

bool eps__product_moments(struct eps__mixture *mixture, double *error, const struct eps__factor *factors, size_t len,
                          double reach, double budget, bool proven)
{
    long double mu[ORDER + 1];
    double node[NODES_MAX + 1], weight[NODES_MAX + 1], participations = 0;
    *mixture = (struct eps__mixture){0};
    *error = INFINITY;
    for (size_t k = 0; k < len; k++)
        participations += factors[k].count;
    if (!proven) {
        moments_of(mu, factors, len, 2 * ROUGH_NODES);
        for (size_t n = ROUGH_NODES; n > 0; n--)
            if (radau(node, weight, mu, n)) {
                *error = 0;
                return fill(mixture, node, weight, n + 1);
            }
        return true;
    }
    for (size_t order = ORDER_LOW; order <= ORDER; order += ORDER - ORDER_LOW) {
        moments_of(mu, factors, len, order);
        for (size_t n = 2; n <= (order < ORDER ? NODES_LOW : NODES_MAX); n++) {
            if (!radau(node, weight, mu, n))
                break;
            double own = quadrature_error(node, weight, n + 1, mu, order, reach, participations);
            if (own <= budget) {
                *error = own;
                return fill(mixture, node, weight, n + 1);
            }
        }
    }
    return true;
}
