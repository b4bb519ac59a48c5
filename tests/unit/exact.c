/*
 * One pair: z(eps) by bisection in quadruple precision, then two sums of tails. The curve is stationary in z there, so
 * that half the digits of z give all those of delta.
 *
 * Compositions: with M(s) = E[e^{s L}] of the sum, delta(eps) = 1/(2 pi i) int e^{-s eps} M(s) / (s (s + 1)) ds along
 * Re s = t > 0. With t at the saddle point every digit lost is lost relative to delta itself. Both integrals, over z
 * for M and over Im s, are trapezoid sums, which converge exponentially; each is also taken with every other node left
 * out, and the difference is the error that is claimed: much more than the true one.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "tests/unit/exact.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

/* ------------------------------------------------------------ one pair */

__float128 exact_normal_tail(__float128 x)
{
    return erfcq(x / sqrtq(2)) / 2;
}

__float128 exact_gaussian_delta(__float128 mu, __float128 eps)
{
    __float128 u = eps / mu - mu / 2;
    return exact_normal_tail(u) - expq(eps) * exact_normal_tail(u + mu);
}

/* ln sum_i weight_i exp(shift_i z - shift_i^2/2) */
static __float128 log_mixture(const struct eps__mixture *mixture, __float128 z)
{
    __float128 largest = -1e4000L, total = 0;
    for (size_t i = 0; i < mixture->len; i++) {
        __float128 a = mixture->shift[i], exponent = a * (z - a / 2);
        largest = exponent > largest ? exponent : largest;
    }
    for (size_t i = 0; i < mixture->len; i++) {
        __float128 a = mixture->shift[i];
        total += mixture->weight[i] * expq(a * (z - a / 2) - largest);
    }
    return largest + logq(total);
}

__float128 exact_loss(const struct eps__pair *pair, __float128 z)
{
    return log_mixture(&pair->numerator, z) - log_mixture(&pair->denominator, -z);
}

__float128 exact_delta(const struct eps__pair *pair, __float128 eps)
{
    __float128 low = -145, high = 145, total = 0;
    bool always = exact_loss(pair, low) >= eps;
    if (!always && exact_loss(pair, high) <= eps)
        return 0;
    for (int i = 0; i < 66 && !always; i++) {
        __float128 middle = (low + high) / 2;
        *(exact_loss(pair, middle) > eps ? &high : &low) = middle;
    }
    for (size_t i = 0; i < pair->numerator.len; i++)
        total += pair->numerator.weight[i] * (always ? 1 : exact_normal_tail(low - pair->numerator.shift[i]));
    for (size_t j = 0; j < pair->denominator.len; j++)
        total -= expq(eps) * pair->denominator.weight[j] *
                 (always ? 1 : exact_normal_tail(low + pair->denominator.shift[j]));
    return total > 0 ? total : 0;
}

/* ------------------------------------------------------------ compositions */

/* One pair on a grid of z, even in length, under a tilt: weights of sum 1. */
struct sampled {
    size_t len;
    uint64_t count;
    long double step, log_moment, mean, variance;
    long double *loss, *log_density; /* at z = start + k step */
    long double *weight;
    long double *re, *im, *turn_re, *turn_im; /* e^{i y L}, and what turns it to the next y */
};

static long double extended_log_mixture(const struct eps__mixture *mixture, long double z)
{
    long double largest = -INFINITY, total = 0;
    for (size_t i = 0; i < mixture->len; i++) {
        long double a = mixture->shift[i];
        largest = fmaxl(largest, a * (z - a / 2));
    }
    for (size_t i = 0; i < mixture->len; i++) {
        long double a = mixture->shift[i];
        total += mixture->weight[i] * expl(a * (z - a / 2) - largest);
    }
    return largest + logl(total);
}

static double reach(const struct eps__mixture *mixture)
{
    double most = 0;
    for (size_t i = 0; i < mixture->len; i++)
        most = fmax(most, mixture->shift[i]);
    return most;
}

static void *must(void *memory)
{
    if (!memory)
        abort();
    return memory;
}

static void sample(struct sampled *sampled, const struct exact_power *power)
{
    const struct eps__pair *pair = power->pair;
    double a = reach(&pair->numerator), b = reach(&pair->denominator);
    long double start = -14, end = a + 40;
    *sampled = (struct sampled){.count = power->count, .step = 0.04L / (1 + (a + b) / 8)};
    sampled->len = 2 * (size_t)ceill((end - start) / sampled->step / 2);
    long double **arrays[] = {&sampled->loss, &sampled->log_density, &sampled->weight, &sampled->re,
                              &sampled->im,   &sampled->turn_re,     &sampled->turn_im};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        *arrays[i] = must(calloc(sampled->len, sizeof **arrays[i]));
    for (size_t k = 0; k < sampled->len; k++) {
        long double z = start + (long double)k * sampled->step, numerator = extended_log_mixture(&pair->numerator, z);
        sampled->loss[k] = numerator - extended_log_mixture(&pair->denominator, -z);
        sampled->log_density[k] = numerator - z * z / 2 - 0.91893853320467274178032973640561764L;
    }
}

static void release(struct sampled *sampled)
{
    long double *arrays[] = {sampled->loss, sampled->log_density, sampled->weight, sampled->re,
                             sampled->im,   sampled->turn_re,     sampled->turn_im};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        free(arrays[i]);
}

static void tilt_to(struct sampled *sampled, long double tilt)
{
    long double largest = -INFINITY, total = 0, mean = 0, square = 0;
    for (size_t k = 0; k < sampled->len; k++)
        largest = fmaxl(largest, sampled->log_density[k] + tilt * sampled->loss[k]);
    for (size_t k = 0; k < sampled->len; k++) {
        sampled->weight[k] = expl(sampled->log_density[k] + tilt * sampled->loss[k] - largest);
        total += sampled->weight[k];
        mean += sampled->weight[k] * sampled->loss[k];
    }
    mean /= total;
    for (size_t k = 0; k < sampled->len; k++) {
        sampled->weight[k] /= total;
        square += sampled->weight[k] * (sampled->loss[k] - mean) * (sampled->loss[k] - mean);
    }
    sampled->log_moment = largest + logl(total * sampled->step);
    sampled->mean = mean;
    sampled->variance = square;
}

static struct exact_saddle tilt_all(struct sampled *sampled, size_t len, double tilt)
{
    struct exact_saddle saddle = {.tilt = tilt};
    double variance = 0;
    for (size_t i = 0; i < len; i++) {
        tilt_to(&sampled[i], tilt);
        saddle.mean += (double)((long double)sampled[i].count * sampled[i].mean);
        saddle.log_moment += (double)((long double)sampled[i].count * sampled[i].log_moment);
        variance += (double)((long double)sampled[i].count * sampled[i].variance);
    }
    saddle.deviation = sqrt(variance);
    return saddle;
}

static struct exact_saddle find_saddle(struct sampled *sampled, size_t len, double eps)
{
    struct exact_saddle saddle = tilt_all(sampled, len, 0);
    double low = 0, high = 1 / saddle.deviation;
    if (saddle.mean >= eps)
        return saddle;
    while (high < 1e7 && tilt_all(sampled, len, high).mean < eps)
        high *= 2;
    for (int i = 0; i < 14; i++) {
        double middle = 0.5 * (low + high);
        *(tilt_all(sampled, len, middle).mean < eps ? &low : &high) = middle;
    }
    return tilt_all(sampled, len, high);
}

/* (re + i im)^count times the accumulated product. */
static void times_power(long double product[2], long double re, long double im, uint64_t count)
{
    for (uint64_t bits = count; bits; bits >>= 1) {
        if (bits & 1) {
            long double old = product[0];
            product[0] = old * re - product[1] * im;
            product[1] = old * im + product[1] * re;
        }
        long double square = re * re - im * im;
        im = 2 * re * im;
        re = square;
    }
}

/* M(t + iy)/M(t): [0] from all nodes, [1] from every other one. */
static void transform_at(struct sampled *sampled, size_t len, uint64_t index, long double y_step,
                         long double product[2][2])
{
    for (int coarse = 0; coarse < 2; coarse++) {
        product[coarse][0] = 1;
        product[coarse][1] = 0;
    }
    for (size_t i = 0; i < len; i++) {
        struct sampled *one = &sampled[i];
        long double even[2] = {0, 0}, odd[2] = {0, 0};
        bool fresh = index % 64 == 0;
        for (size_t k = 0; k < one->len; k++) {
            if (one->weight[k] < 1e-21L)
                continue;
            long double angle = (long double)index * y_step * one->loss[k], old = one->re[k];
            if (fresh) {
                sincosl(angle, &one->im[k], &one->re[k]);
                if (index == 0)
                    sincosl(y_step * one->loss[k], &one->turn_im[k], &one->turn_re[k]);
            } else {
                one->re[k] = old * one->turn_re[k] - one->im[k] * one->turn_im[k];
                one->im[k] = old * one->turn_im[k] + one->im[k] * one->turn_re[k];
            }
            long double *sum = k % 2 ? odd : even;
            sum[0] += one->weight[k] * one->re[k];
            sum[1] += one->weight[k] * one->im[k];
        }
        times_power(product[0], even[0] + odd[0], even[1] + odd[1], one->count);
        times_power(product[1], 2 * even[0], 2 * even[1], one->count);
    }
}

struct exact_answer exact_composition(const struct exact_power *powers, size_t len, double eps)
{
    enum { NODES_MAX = 4000, QUIET = 40 };
    struct sampled *sampled = must(calloc(len, sizeof *sampled));
    double counts = 0;
    for (size_t i = 0; i < len; i++) {
        sample(&sampled[i], &powers[i]);
        counts += (double)powers[i].count;
    }
    struct exact_saddle saddle = find_saddle(sampled, len, eps);
    /* The period must hold the sum's law, eps, and what the tilt leaves of the images. */
    double spread = saddle.deviation + fmax(saddle.mean - eps, 0), tilt = fmax(saddle.tilt, 1 / spread);
    saddle = tilt_all(sampled, len, tilt);
    long double y_step = 3.14159265358979323846L / (40 * spread + 45 / tilt);
    long double fine = 0, coarse_z = 0, coarse_y = 0, size = 0, left = INFINITY;
    int quiet = 0;
    for (uint64_t index = 0; index < NODES_MAX && quiet < QUIET; index++) {
        long double product[2][2], y = (long double)index * y_step, term[2];
        transform_at(sampled, len, index, y_step, product);
        long double re = tilt * (tilt + 1.0L) - y * y, im = y * (2 * tilt + 1.0L), square = re * re + im * im;
        long double angle = -y * eps, c = cosl(angle), s = sinl(angle);
        for (int i = 0; i < 2; i++) {
            long double a = product[i][0] * c - product[i][1] * s, b = product[i][0] * s + product[i][1] * c;
            term[i] = (a * re + b * im) / square * (index ? 1 : 0.5L);
        }
        fine += term[0];
        coarse_z += term[1];
        coarse_y += index % 2 ? 0 : 2 * term[0];
        long double modulus = hypotl(product[0][0], product[0][1]) / sqrtl(square);
        size += modulus;
        left = modulus * fmaxl(y / y_step, 1);
        quiet = left < 1e-15L * fabsl(fine) ? quiet + 1 : 0;
    }
    long double error = fabsl(fine - coarse_z) + fabsl(fine - coarse_y) + left +
                        size * (1e-17L + 4e-19L * counts) /* and the nodes left out */;
    struct exact_answer answer = {NAN, INFINITY};
    if (fine > 2 * error) {
        answer.log_delta =
            (double)(saddle.log_moment - (long double)tilt * eps + logl(fine * y_step / 3.14159265358979323846L));
        answer.error = (double)(2 * error / fine) + 2e-15 * (1 + fabs(saddle.log_moment) + fabs(tilt * eps));
    }
    for (size_t i = 0; i < len; i++)
        release(&sampled[i]);
    free(sampled);
    return answer;
}

struct exact_saddle exact_saddle(const struct exact_power *powers, size_t len, double eps)
{
    struct sampled *sampled = must(calloc(len, sizeof *sampled));
    for (size_t i = 0; i < len; i++)
        sample(&sampled[i], &powers[i]);
    struct exact_saddle saddle = find_saddle(sampled, len, eps);
    for (size_t i = 0; i < len; i++)
        release(&sampled[i]);
    free(sampled);
    return saddle;
}

struct exact_saddle exact_moments(const struct exact_power *powers, size_t len, double tilt)
{
    struct sampled *sampled = must(calloc(len, sizeof *sampled));
    for (size_t i = 0; i < len; i++)
        sample(&sampled[i], &powers[i]);
    struct exact_saddle saddle = tilt_all(sampled, len, tilt);
    for (size_t i = 0; i < len; i++)
        release(&sampled[i]);
    free(sampled);
    return saddle;
}
