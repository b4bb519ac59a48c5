/*
 * The rounding bound of FFT composition holds: compared with direct circular convolution in quadruple precision, and
 * for transforms too long for that, with laws whose powers have a closed form. And the bound of single transforms,
 * compared with slow ones in quadruple precision.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <complex.h>
#include <fftw3.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/numerics/fft/fft.h"
#include "lib/pld/pld.h"
#include "tests/unit/draw.h"
#include "tests/unit/exact.h"
#include "tests/unit/test.h"

enum { CASES = 1000, LENGTH_MAX = 160, FACTORS_MAX = 3 };
static const uint64_t seed = 20240611;

/* ------------------------------------------------------------ the slow way */

static void convolve_direct(__float128 *out, const __float128 *a, const __float128 *b, size_t n)
{
    __float128 sum[LENGTH_MAX];
    for (size_t i = 0; i < n; i++)
        sum[i] = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            sum[i + j < n ? i + j : i + j - n] += a[i] * b[j];
    memcpy(out, sum, n * sizeof *out);
}

static void times_power_direct(__float128 *product, const double *mass, uint64_t count, size_t n)
{
    __float128 base[LENGTH_MAX];
    for (size_t i = 0; i < n; i++)
        base[i] = mass[i];
    for (uint64_t bits = count;;) {
        if (bits & 1)
            convolve_direct(product, product, base, n);
        if (!(bits >>= 1))
            return;
        convolve_direct(base, base, base, n);
    }
}

/* ------------------------------------------------------------ random laws */

/* Point-like, flat, geometric, normal, heavy-tailed, sparse; sometimes with some mass at infinity, left out. */
static void draw_masses(uint64_t *state, double *mass, size_t n)
{
    uint64_t shape = draw_below(state, 6), centre = draw_below(state, n);
    double ratio = draw_between(state, 0.01, 0.98), width = draw_log(state, 0.3, (double)n), total = 0;
    double rest = draw_log(state, 1e-15, 1e-1);
    for (size_t i = 0; i < n; i++) {
        double distance = (double)((i + n - centre) % n), fraction = distance / width;
        const double shapes[6] = {distance == 0 ? 1 : rest * draw_unit(state) / (double)n,
                                  1 + 0.1 * draw_unit(state),
                                  pow(ratio, distance),
                                  exp(-0.5 * fraction * fraction),
                                  1 / (1 + fraction * fraction),
                                  draw_below(state, 4) ? 0 : draw_unit(state)};
        mass[i] = shapes[shape];
        total += mass[i];
    }
    double kept = draw_below(state, 3) ? 1 : 1 - draw_log(state, 1e-12, 1e-2);
    if (total == 0)
        mass[centre] = total = 1;
    for (size_t i = 0; i < n; i++)
        mass[i] *= kept / total;
}

static int ascending(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static void report(const char *what, double *ratio, size_t len)
{
    qsort(ratio, len, sizeof *ratio, ascending);
    print_message("# %s, seed %llu: bound over true error, %zu cases: least %.3g, 1%% %.3g, median %.3g, 99%% %.3g, "
                  "largest %.3g\n",
                  what, (unsigned long long)seed, len, ratio[0], ratio[len / 100], ratio[len / 2],
                  ratio[len - 1 - len / 100], ratio[len - 1]);
}

/* ------------------------------------------------------------ tests */

TEST(the_rounding_bound_is_real)
{
    static double ratio[CASES];
    uint64_t state = seed;
    size_t loose = 0;
    for (size_t c = 0; c < CASES; c++) {
        size_t n = eps__fft_length((size_t)draw_log(&state, 2, LENGTH_MAX)),
               factors = 1 + draw_below(&state, FACTORS_MAX);
        double mass[FACTORS_MAX][LENGTH_MAX], out[LENGTH_MAX], bound, largest = 0;
        const double *masses[FACTORS_MAX];
        uint64_t counts[FACTORS_MAX];
        __float128 exact[LENGTH_MAX] = {1}, worst = 0;
        assert_true(n <= LENGTH_MAX);
        for (size_t i = 0; i < factors; i++) {
            draw_masses(&state, mass[i], n);
            masses[i] = mass[i];
            counts[i] = (uint64_t)draw_log(&state, 1, 1001);
            times_power_direct(exact, mass[i], counts[i], n);
        }
        assert_int_equal(eps__convolve_powers(NULL, out, &bound, masses, counts, factors, n), EPS_OK);
        for (size_t i = 0; i < n; i++) {
            __float128 miss = exact[i] > out[i] ? exact[i] - out[i] : out[i] - exact[i];
            worst = miss > worst ? miss : worst;
            largest = fmax(largest, out[i]);
        }
        if (worst > bound)
            fail_msg("case %zu: the bound %.3g is under the error %.3g", c, bound, (double)worst);
        /* Where by chance the error is smaller than a double can show, a double's resolution. */
        ratio[c] = bound / fmax((double)worst, 0x1p-53 * largest);
        loose += ratio[c] > 1e4;
    }
    report("rounding", ratio, CASES);
    print_message("# over 1e4: %zu of %d\n", loose, CASES);
    assert_true(loose < CASES / 100);
}

/* Binomial(count, p) modulo n, from the law on {0, stride}: by recurrence from the mode. */
static void binomial_modulo(__float128 *exact, size_t n, uint64_t count, double p, double q, size_t stride)
{
    __float128 log_mode, weight, start;
    uint64_t mode = (uint64_t)((double)count * p);
    log_mode = lgammaq((__float128)count + 1) - lgammaq((__float128)mode + 1) -
               lgammaq((__float128)(count - mode) + 1) + (__float128)mode * logq(p) +
               (__float128)(count - mode) * logq(q);
    for (size_t i = 0; i < n; i++)
        exact[i] = 0;
    start = weight = expq(log_mode);
    for (uint64_t k = mode; k <= count && weight > 1e-40; k++) {
        exact[k * stride % n] += weight;
        weight *= (__float128)(count - k) / (__float128)(k + 1) * p / q;
    }
    weight = start;
    for (uint64_t k = mode; k > 0 && weight > 1e-40; k--) {
        weight *= (__float128)k / (__float128)(count - k + 1) * q / p;
        exact[(k - 1) * stride % n] += weight;
    }
}

TEST(the_bound_holds_for_long_transforms)
{
    enum { LONG_CASES = 60 };
    static double ratio[LONG_CASES];
    uint64_t state = seed;
    for (size_t c = 0; c < LONG_CASES; c++) {
        size_t n = eps__fft_length((size_t)draw_log(&state, 500, 100000));
        uint64_t count = (uint64_t)draw_log(&state, 1, 1e6);
        size_t stride = 1 + draw_below(&state, n - 1);
        double p = draw_log(&state, 1e-6, 0.5), q = 1 - p, bound;
        double *mass = calloc(n, sizeof *mass), *out = calloc(n, sizeof *out);
        __float128 *exact = calloc(n, sizeof *exact), worst = 0;
        assert_true(mass && out && exact);
        mass[0] = q;
        mass[stride] = p;
        binomial_modulo(exact, n, count, p, q, stride);
        assert_int_equal(eps__convolve_powers(NULL, out, &bound, (const double *const[]){mass}, &count, 1, n), EPS_OK);
        for (size_t i = 0; i < n; i++) {
            __float128 miss = exact[i] > out[i] ? exact[i] - out[i] : out[i] - exact[i];
            worst = miss > worst ? miss : worst;
        }
        if (worst > bound)
            fail_msg("n %zu, count %llu, p %.17g, stride %zu: the bound %.3g is under the error %.3g", n,
                     (unsigned long long)count, p, stride, bound, (double)worst);
        ratio[c] = bound / (double)worst;
        free(mass);
        free(out);
        free(exact);
    }
    report("long transforms", ratio, LONG_CASES);
}

/* ------------------------------------------------------------ single transforms */

struct quad {
    __float128 re, im;
};

extern __float128 cosq(__float128 x);
extern __float128 sinq(__float128 x);
extern __float128 acosq(__float128 x);

/* X_k = sum x_j w^(jk), w = roots[stride], n = 2^k times 1, 3 or 5: by halving, and by direct sums. x is read with that
 * stride. */
static void transform_direct(struct quad *out, const struct quad *x, const struct quad *roots, size_t n, size_t stride)
{
    struct quad *half = n % 2 == 0 && n > 2 ? malloc(n * sizeof *half) : NULL;
    if (half) {
        transform_direct(half, x, roots, n / 2, 2 * stride);
        transform_direct(half + n / 2, x + stride, roots, n / 2, 2 * stride);
    }
    for (size_t k = 0; k < n; k++) {
        struct quad sum = {0};
        for (size_t j = 0; j < (half ? 2 : n); j++) {
            const struct quad w = roots[j * k % n * stride];
            const struct quad y = half ? half[j * (n / 2) + k % (n / 2)] : x[j * stride];
            sum.re += w.re * y.re - w.im * y.im;
            sum.im += w.re * y.im + w.im * y.re;
        }
        out[k] = sum;
    }
    free(half);
}

/* Inputs that are alike, that cancel, that are sparse, that fall. */
static double draw_input(uint64_t *state, int shape, size_t j, size_t n)
{
    switch (shape) {
    case 0:
        return draw_between(state, -1, 1);
    case 1:
        return j == n / 6 ? 1.0 / 3 : 0;
    case 2:
        return exp(-20.0 * (double)j / (double)n) * draw_between(state, 0.9, 1);
    case 3:
        return j && draw_below(state, 8) ? 0 : draw_log(state, 1e-12, 1);
    default:
        return 1 / (1.1 + (double)(j % 7));
    }
}

static __float128 distance(struct quad a, double re, double im)
{
    return sqrtq((a.re - re) * (a.re - re) + (a.im - im) * (a.im - im));
}

/* The worst error of both directions, over the 1-norm. */
static double worst_error(uint64_t *state, const struct quad *roots, int shape, size_t n)
{
    double *real = eps__fft_alloc_real(n);
    double complex *spectrum = eps__fft_alloc_complex(n / 2 + 1);
    struct quad *in = calloc(n, sizeof *in), *exact = malloc(n * sizeof *exact);
    __float128 norm = 0, worst = 0, back_norm = 0, back_worst = 0;
    assert_true(real && spectrum && in && exact);
    for (size_t j = 0; j < n; j++) {
        in[j].re = real[j] = draw_input(state, shape, j, n);
        norm += fabs(real[j]);
    }
    transform_direct(exact, in, roots, n, 1);
    assert_int_equal(eps__fft_forward(spectrum, real, n), 0);
    for (size_t k = 0; k <= n / 2; k++) {
        __float128 miss = distance(exact[k], creal(spectrum[k]), cimag(spectrum[k]));
        worst = miss > worst ? miss : worst;
    }
    /* The backward transform of such numbers: the first and the middle one are real, as the format requires. */
    for (size_t k = 0; k <= n / 2; k++) {
        bool alone = k == 0 || k == n / 2;
        double re = draw_input(state, shape, k, n), im = alone ? 0 : draw_input(state, shape, k + 1, n);
        spectrum[k] = re + I * im;
        in[k] = in[(n - k) % n] = (struct quad){re, -im}; /* the transform of the conjugate has the other sign */
        in[(n - k) % n].im = alone ? 0 : im;
        back_norm += (alone ? 1 : 2) * hypot(re, im);
    }
    transform_direct(exact, in, roots, n, 1);
    assert_int_equal(eps__fft_backward(real, spectrum, n), 0);
    for (size_t j = 0; j < n; j++) {
        __float128 miss = distance(exact[j], real[j], 0);
        back_worst = miss > back_worst ? miss : back_worst;
    }
    eps__fft_free(real);
    eps__fft_free(spectrum);
    free(in);
    free(exact);
    return fmax((double)(worst / norm), (double)(back_worst / back_norm));
}

/* N4: every length up to 2^12 (SOAK=1: 2^20), in quadruple precision; the bound is not far above the errors that
 * occur. */
TEST(transforms_are_within_their_bounds)
{
    uint64_t state = seed;
    double least = INFINITY, most = 0;
    for (size_t odd = 1; odd <= 5; odd += 2)
        for (size_t n = 2 * odd; n <= (size_t)1 << (getenv("SOAK") ? 20 : 12); n *= 2) {
            struct quad *roots = malloc(n * sizeof *roots);
            double bound = eps__fft_error(n), worst = 0;
            assert_non_null(roots);
            for (size_t k = 0; k < n; k++) {
                __float128 angle = -2 * acosq(-1) * (__float128)k / (__float128)n;
                roots[k] = (struct quad){cosq(angle), sinq(angle)};
            }
            for (int shape = 0; shape < 5; shape++) {
                double error = worst_error(&state, roots, shape, n);
                if (!(error <= bound))
                    fail_msg("n %zu, input %d: an error of %.3g is over the bound %.3g", n, shape, error, bound);
                worst = fmax(worst, error);
            }
            least = fmin(least, n > 8 ? bound / worst : INFINITY);
            most = fmax(most, n > 8 ? bound / worst : 0);
            free(roots);
        }
    print_message("# bound over error: %.3g to %.3g\n", least, most);
    assert_true(most < 300);
}

/* N4: FFTW's plans for every length in use, with and without vector instructions, consist of known parts. */
TEST(every_plan_is_understood)
{
    for (size_t odd = 1; odd <= 5; odd += 2)
        for (size_t n = 2 * odd; n <= (size_t)1 << 19; n *= 2)
            for (int plain = 0; plain < 2; plain++) {
                unsigned flags = FFTW_ESTIMATE | FFTW_DESTROY_INPUT | (plain ? FFTW_NO_SIMD : 0);
                double *real = eps__fft_alloc_real(n);
                double complex *spectrum = eps__fft_alloc_complex(n / 2 + 1);
                assert_true(real && spectrum);
                for (int back = 0; back < 2; back++) {
                    fftw_plan plan = back ? fftw_plan_dft_c2r_1d((int)n, spectrum, real, flags)
                                          : fftw_plan_dft_r2c_1d((int)n, real, spectrum, flags);
                    char *text = fftw_sprint_plan(plan);
                    double bound = eps__fft_printed_error(text), levels = log2((double)n);
                    if (!(bound >= 0.9 * 0x1p-53 * levels && bound <= (plain ? 30 : 15) * 0x1p-53 * levels))
                        fail_msg("n %zu: a bound of %.3g for the plan %s", n, bound, text);
                    free(text);
                    fftw_destroy_plan(plan);
                }
                eps__fft_free(real);
                eps__fft_free(spectrum);
            }
}

/* N4: the errors of parts add up; an unknown part proves nothing. */
TEST(a_plan_is_the_sum_of_its_parts)
{
    static const char *const unknown[] = {"(dft-rader-17 (dft-direct-16 \"n1_16\"))",
                                          "(rdft-generic-r2hc-7)",
                                          "(dft-bluestein-131/270 (dft-direct-16 \"n1_16\"))",
                                          "(rdft2-r2hc-direct-7 \"r2cf_7\")",
                                          "(rdft2-r2hc-direct-8 \"r3cf_8\")",
                                          "(dft-direct-8 \"n1\")",
                                          "(dft-direct-8 \"_8\")",
                                          "(dft)",
                                          "x"};
    static const char known[] = "(rdft2-ct-dit/16\n  (hc2c-direct-16/60/1 \"hc2cfdftv_16_avx\"\n"
                                "    (rdft2-r2hc-direct-16 \"r2cf_16\")\n    (rdft2-r2hc01-direct-16 \"r2cfII_16\"))\n"
                                "  (dft-vrank>=1-x8/1\n    (dft-ct-dit/32\n      (dftw-direct-32/16 \"t3fv_32_avx\")\n"
                                "      (dftw-genericbuf/4-512-1024\n (dft-direct-64-x32 \"n1fv_64_avx\")))))";
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        assert_true(isinf(eps__fft_printed_error(unknown[i])));
    double sum = 2 * (10.1 + 5.6) + 2 + 10.1 + 10.1 + M_SQRT2 * (15 + 22.2 + 11.1 + 17.1);
    assert_true(fabs(eps__fft_printed_error(known) / (sum * 0x1p-53) - 1) < 1e-6);
    assert_true(isinf(eps__fft_error(34)));
}

TEST(lengths_are_short_and_smooth)
{
    for (size_t n = 1; n < 5000; n++) {
        size_t length = eps__fft_length(n), rest = length;
        assert_true(length >= n && length % 2 == 0);
        assert_true(length <= 2 || length <= n + n / 3 + 1);
        while (rest % 2 == 0)
            rest /= 2;
        assert_true(rest == 1 || rest == 3 || rest == 5);
        size_t seldom = eps__fft_length_seldom(n);
        assert_true(seldom >= length && seldom < 2 * n + 2 && (seldom & (seldom - 1)) == 0);
    }
    assert_int_equal(eps__fft_length_seldom(140000), 163840); /* a long transform takes longer than its plan */
}
