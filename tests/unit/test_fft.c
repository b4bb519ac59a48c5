/*
 * The rounding bound of FFT composition is real: against direct circular convolution in quadruple precision, and for
 * transforms too long for that, against laws whose powers have a closed form.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "lib/numerics/fft.h"
#include "lib/pld/pld.h"
#include "tests/unit/draw.h"
#include "tests/unit/exact.h"

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

static void the_rounding_bound_is_real(void **unused)
{
    (void)unused;
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
        /* Where luck makes the error less than a double can show, what it can show. */
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

static void the_bound_holds_for_long_transforms(void **unused)
{
    (void)unused;
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

/* Each coefficient of a forward transform, against sums in extended precision. */
static void a_transform_is_within_its_bound(void **unused)
{
    (void)unused;
    uint64_t state = seed;
    for (size_t c = 0; c < 60; c++) {
        size_t n = eps__fft_length((size_t)draw_log(&state, 2, 1200));
        double *in = eps__fft_alloc_real(n), norm = 0;
        double complex *out = eps__fft_alloc_complex(n / 2 + 1);
        double *kept = calloc(n, sizeof *kept);
        assert_true(in && out && kept);
        for (size_t i = 0; i < n; i++) {
            in[i] = kept[i] = draw_below(&state, 2) ? draw_between(&state, -1, 1) : draw_log(&state, 1e-12, 1);
            norm += fabs(in[i]);
        }
        assert_int_equal(eps__fft_forward(out, in, n), 0);
        for (size_t k = 0; k <= n / 2; k++) {
            long double re = 0, im = 0;
            for (size_t j = 0; j < n; j++) {
                long double angle = 6.28318530717958647692528676655900577L * (long double)(j * k % n) / (long double)n;
                re += kept[j] * cosl(angle);
                im -= kept[j] * sinl(angle);
            }
            long double miss = hypotl(re - creal(out[k]), im - cimag(out[k]));
            if (miss > eps__fft_error(n) * norm)
                fail_msg("n %zu, k %zu: the error %.3Lg is over the bound %.3g", n, k, miss, eps__fft_error(n) * norm);
        }
        eps__fft_free(in);
        eps__fft_free(out);
        free(kept);
    }
}

static void lengths_are_short_and_smooth(void **unused)
{
    (void)unused;
    for (size_t n = 1; n < 5000; n++) {
        size_t length = eps__fft_length(n), rest = length;
        assert_true(length >= n && length % 2 == 0);
        assert_true(length <= 2 || length <= n + n / 3 + 1);
        while (rest % 2 == 0)
            rest /= 2;
        assert_true(rest == 1 || rest == 3 || rest == 5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rounding_bound_is_real),
        cmocka_unit_test(the_bound_holds_for_long_transforms),
        cmocka_unit_test(a_transform_is_within_its_bound),
        cmocka_unit_test(lengths_are_short_and_smooth),
    };
    return cmocka_run_group_tests_name("fft", tests, NULL, NULL);
}
