/*
 * Product mixtures of thousands of small shifts: Gauss-Radau quadrature of the law of S.
 *
 * The density of the mixture over phi(z) is E h_S(z), h_s(z) = e^{s z - s^2/2} = sum_r He_r(z) s^r / r!. It is entire,
 * and its argument is small if S is small compared with 1/z. A quadrature with m atoms and one at 0 that keeps the
 * moments up to 2 m then has an error that falls faster than geometrically: six atoms replace 2^2000.
 *
 * The proof does not depend on how the quadrature was found, only on its moments as computed, rounding included, which
 * are compared with those of S:
 *   |E h_S(z) - sum_i w_i h_{s_i}(z)| <= sum_{r < R} H_r |mu_r - mu'_r| + C sqrt(R!) (mu_R + mu'_R) e^{z^2/2},
 * where mu_r = E S^r / r!, mu'_r is the quadrature's, H_r is the Hermite polynomial with the absolute values of its
 * coefficients at the reach, and the last term is Taylor's remainder with Cramer's bound |He_R(y)| e^{-y^2/4} <= 1.0865
 * sqrt(R!). The relative error of the density is this divided by E h_S(z) >= e^{E[S] z - E[S^2]/2} (Jensen). The
 * moments are sums of positive terms.
 *
 * With many participations S is far from 0, and a few moments about 0 are not enough. But S is then near its mean, and
 * a quadrature about the mean, without an atom at 0, does for thousands of participations what the other does for a
 * dozen (P13).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <float.h>
#include <lapacke.h>
#include <math.h>
#include <stdlib.h>

#include "lib/numerics/normal.h"
#include "lib/pld/pairs/product_mixture.h"

enum { ORDER = 44, ORDER_CENTRED = 64, NODES_MAX = 11, ROUGH_NODES = 5 };

/* Most rows need few nodes, for which the remainder of a low order is small enough. */
static const struct {
    size_t order, nodes;
} tries[] = {{14, 4}, {20, 6}, {ORDER, NODES_MAX}};

#define CRAMER 1.0865L

static long double probability(double log_odds)
{
    return 1 / (1 + expl(-(long double)log_odds));
}

/* mu[r] = E S^r / r! for r <= order. Multiplying by a factor is a convolution with the coefficients of its moment
 * generating function minus 1. */
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
 * the Jacobi matrix. Returns false if the precision of the moments is not enough. */
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
    /* the variant with caller's workspace: it cannot fail for lack of memory */
    if (LAPACKE_dstev_work(LAPACK_COL_MAJOR, 'V', (lapack_int)n, node, off, vectors, (lapack_int)n, work) != 0)
        return false;
    for (size_t k = 0; k < n; k++)
        weight[k] = (double)m[0] * vectors[k * n] * vectors[k * n];
    return true;
}

/* n atoms and, last, one at 0, with the moments of S up to 2 n. */
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

struct quadrature {
    const long double *node;
    const double *weight;
    size_t atoms;
};

/* The bound in the comment at the top. size[r] >= |mu[r]| are the sums that the rounding errors of mu are relative
 * to. */
static double quadrature_error(const struct quadrature *quadrature, const long double *mu, const long double *size,
                               size_t order, long double reach, double participations)
{
    size_t atoms = quadrature->atoms;
    long double rounding = ((long double)order + 8) * (participations + 8) * 4 * LDBL_EPSILON;
    long double hermite = 1, hermite_before = 0, total = 0, factorial = 1, power[NODES_MAX + 1], last = 0;
    for (size_t i = 0; i < atoms; i++)
        power[i] = quadrature->weight[i];
    for (size_t r = 0; r <= order; r++) {
        long double own = 0, own_size = 0;
        for (size_t i = 0; i < atoms; i++) {
            own += power[i];
            own_size += fabsl(power[i]);
            power[i] *= quadrature->node[i] / (long double)(r + 1);
        }
        if (r == order)
            last = size[r] + own_size;
        else
            total += hermite * (fabsl(mu[r] - own) + rounding * (size[r] + own_size));
        long double next = reach * hermite + (long double)r * hermite_before;
        hermite_before = hermite;
        hermite = next;
        factorial *= r > 0 ? (long double)r : 1;
    }
    total += CRAMER * sqrtl(factorial) * expl(0.5L * reach * reach) * last * (1 + rounding);
    /* E S^2 = 2 mu_2 */
    long double least = expl(-mu[1] * reach - mu[2]) * (1 - 1e-12L), error = total / least;
    /* P <= (1 + e) P' follows from |P - P'| <= e' P with e = e'/(1 - e'). */
    return error < 0.5L ? eps__raise((double)(error / (1 - error)), 1e4) : INFINITY;
}

static bool fill_ascending(struct eps__mixture *mixture, const double *node, const double *weight, size_t atoms)
{
    if (!eps__mixture_alloc(mixture, atoms))
        return false;
    for (size_t i = 0; i < atoms; i++) {
        mixture->shift[i] = node[i];
        mixture->weight[i] = weight[i];
    }
    return true;
}

static bool fill(struct eps__mixture *mixture, const double *node, const double *weight, size_t atoms)
{
    if (!eps__mixture_alloc(mixture, atoms))
        return false;
    for (size_t i = 0; i < atoms; i++) { /* in ascending order, the atom at 0 first */
        mixture->shift[i] = node[(i + atoms - 1) % atoms];
        mixture->weight[i] = weight[(i + atoms - 1) % atoms];
    }
    return true;
}

/* ------------------------------------------------------------ about the mean */

/* mu[r] = E (S - E S)^r / r! for r <= order; size[r]: the same sums of absolute values. Returns E S. */
static long double central_moments(long double *mu, long double *size, const struct eps__factor *factors, size_t len,
                                   size_t order)
{
    long double mean = 0;
    for (size_t r = 0; r <= order; r++)
        mu[r] = size[r] = r == 0;
    for (size_t k = 0; k < len; k++) {
        long double power[ORDER_CENTRED + 1], power_size[ORDER_CENTRED + 1], shift = factors[k].shift;
        long double p = probability(factors[k].log_odds), q = probability(-factors[k].log_odds);
        long double up = p * q * shift, down = p * q * shift; /* p q q^(r - 1), p q (-p)^(r - 1), and shift^r / r! */
        mean += (long double)factors[k].count * p * shift;
        for (size_t r = 2; r <= order; r++) {
            up *= q * shift / (long double)r;
            down *= -p * shift / (long double)r;
            power[r] = up - down;
            power_size[r] = up + fabsl(down);
        }
        for (double i = 0; i < factors[k].count; i++)
            for (size_t r = order; r > 1; r--) {
                long double sum = 0, sum_size = 0;
                for (size_t s = 0; s + 1 < r; s++) {
                    sum += mu[s] * power[r - s];
                    sum_size += size[s] * power_size[r - s];
                }
                mu[r] += sum;
                size[r] += sum_size;
            }
    }
    return mean;
}

/* n atoms about the mean with the moments up to 2 n - 1. Out: from[i], the distance of node[i], as a double, from the
 * mean. */
static bool gauss_about(double *node, double *weight, long double *from, const long double *mu, long double mean,
                        size_t n)
{
    long double m[2 * NODES_MAX] = {1}, factorial = 1;
    for (size_t r = 1; r < 2 * n; r++) {
        factorial *= (long double)r;
        m[r] = mu[r] * factorial;
    }
    if (!gauss(node, weight, m, n))
        return false;
    for (size_t i = 0; i < n; i++) {
        node[i] = (double)(mean + (long double)node[i]);
        from[i] = (long double)node[i] - mean;
        if (!(node[i] > 0) || !(weight[i] > 0))
            return false;
    }
    return true;
}

/* For many participations, where S is far from 0 and near its mean (P13). */
static bool centred(struct eps__mixture *mixture, double *error, const struct eps__factor *factors, size_t len,
                    double reach, double budget)
{
    long double mu[ORDER_CENTRED + 1], size[ORDER_CENTRED + 1], from[NODES_MAX], most = 0;
    double node[NODES_MAX], weight[NODES_MAX], participations = 0;
    long double mean = central_moments(mu, size, factors, len, ORDER_CENTRED);
    for (size_t k = 0; k < len; k++) {
        participations += factors[k].count;
        most += (long double)factors[k].count * factors[k].shift;
    }
    /* The relative change of the density from the rounding of the mean and of the nodes' distances from it. */
    double moved = (double)((participations + 8) * 4 * LDBL_EPSILON * most * (reach + most));
    for (size_t n = 2; n <= NODES_MAX; n++) {
        if (!gauss_about(node, weight, from, mu, mean, n))
            break;
        const struct quadrature found = {from, weight, n};
        double own = quadrature_error(&found, mu, size, ORDER_CENTRED, reach + mean, participations);
        own = eps__raise(own + 2 * moved, 1e4);
        if (own <= budget) {
            *error = own;
            return fill_ascending(mixture, node, weight, n);
        }
    }
    return true;
}

bool eps__product_moments(struct eps__mixture *mixture, double *error, const struct eps__factor *factors, size_t len,
                          double reach, double budget, bool proven)
{
    long double mu[ORDER + 1], exact[NODES_MAX + 1];
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
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        size_t order = tries[i].order;
        moments_of(mu, factors, len, order);
        for (size_t n = 2; n <= tries[i].nodes; n++) {
            if (!radau(node, weight, mu, n))
                break;
            for (size_t k = 0; k <= n; k++)
                exact[k] = node[k];
            const struct quadrature found = {exact, weight, n + 1};
            double own = quadrature_error(&found, mu, mu, order, reach, participations);
            if (own <= budget) {
                *error = own;
                return fill(mixture, node, weight, n + 1);
            }
        }
    }
    return centred(mixture, error, factors, len, reach, budget);
}
