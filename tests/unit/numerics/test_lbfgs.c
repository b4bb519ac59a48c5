/*
 * The minimiser on functions whose minimum is known: smooth, curved, with a domain, with a kink.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stddef.h>
#include <stdio.h>

#include "lib/numerics/lbfgs.h"
#include "tests/unit/test.h"

struct problem {
    size_t n, evaluations, limit; /* limit: stop after so many evaluations, 0: never */
};

static bool counted(struct problem *p)
{
    return ++p->evaluations != p->limit;
}

/* sum of i x_i^2 / 2 - x_i: minimum at 1/i. */
static bool quadratic(void *user, double *value, double *gradient, const double *x)
{
    struct problem *p = user;
    *value = 0;
    for (size_t i = 0; i < p->n; i++) {
        double scale = (double)(i + 1);
        *value += scale * x[i] * x[i] / 2 - x[i];
        gradient[i] = scale * x[i] - 1;
    }
    return counted(p);
}

/* Rosenbrock's valley, in pairs. */
static bool valley(void *user, double *value, double *gradient, const double *x)
{
    struct problem *p = user;
    *value = 0;
    for (size_t i = 0; i + 1 < p->n; i += 2) {
        double u = x[i + 1] - x[i] * x[i], v = 1 - x[i];
        *value += 100 * u * u + v * v;
        gradient[i] = -400 * x[i] * u - 2 * v;
        gradient[i + 1] = 200 * u;
    }
    return counted(p);
}

/* x - ln x, defined for x > 0 only: the first step from far away leaves the domain. */
static bool half_line(void *user, double *value, double *gradient, const double *x)
{
    struct problem *p = user;
    *value = 0;
    for (size_t i = 0; i < p->n; i++) {
        *value += x[i] > 0 ? x[i] - log(x[i]) : INFINITY;
        gradient[i] = 1 - 1 / x[i];
    }
    return counted(p);
}

/* max(|x_0|, ...) plus a slope along it: |x_0 - 1| + 3 |x_1 + 2 x_0| + x_2^2, a kink at the minimum (1, -2, 0). */
static bool kinked(void *user, double *value, double *gradient, const double *x)
{
    double a = x[0] - 1, b = x[1] + 2 * x[0];
    *value = fabs(a) + 3 * fabs(b) + x[2] * x[2];
    gradient[0] = copysign(1, a) + copysign(6, b);
    gradient[1] = copysign(3, b);
    gradient[2] = 2 * x[2];
    return counted(user);
}

/* A value that cannot resolve differences below 1e-9, and a gradient that never vanishes: gains end long before the
 * model does. */
static bool coarse(void *user, double *value, double *gradient, const double *x)
{
    struct problem *p = user;
    bool go_on = quadratic(user, value, gradient, x);
    *value = 8 + 1e-9 * nearbyint(1e9 * *value);
    for (size_t i = 0; i < p->n; i++)
        gradient[i] += 1e-6;
    return go_on;
}

/* No gain anywhere, whatever the slope promises. */
static bool level(void *user, double *value, double *gradient, const double *x)
{
    struct problem *p = user;
    for (size_t i = 0; i < p->n; i++)
        gradient[i] = 1e-6 + 0 * x[i];
    *value = 8.2630829479596155;
    return counted(p);
}

TEST(test_a_search_without_gains_ends)
{
    for (int trial = 0; trial < 4; trial++) {
        struct problem p = {.n = trial < 2 ? 1 : 20};
        double x[20] = {3, -4, 5}, value, least;
        size_t iterations;
        const struct eps__lbfgs options = {.tolerance = 1e-15};
        enum eps__lbfgs_end end =
            eps__lbfgs_minimise(&options, x, &value, &iterations, p.n, trial % 2 ? coarse : level, &p);
        bool ended = end == EPS__LBFGS_STALLED || (trial % 2 && end == EPS__LBFGS_CONVERGED);
        if (!(ended && p.evaluations < 200))
            fail_msg("trial %d: end %d after %zu iterations, %zu evaluations", trial, (int)end, iterations,
                     p.evaluations);
        least = 0;
        for (size_t i = 0; i < p.n; i++)
            least -= 0.5 / (double)(i + 1);
        assert_true(trial % 2 == 0 || value <= 8 + least + 1e-7);
    }
}

TEST(test_a_quadratic_is_solved_to_rounding)
{
    struct problem p = {.n = 50};
    double x[50] = {0}, value;
    size_t iterations;
    const struct eps__lbfgs options = {.memory = 20, .tolerance = 1e-13}; /* a few units of rounding of the value */
    assert_int_equal(eps__lbfgs_minimise(&options, x, &value, &iterations, p.n, quadratic, &p), EPS__LBFGS_CONVERGED);
    for (size_t i = 0; i < p.n; i++)
        assert_true(fabs(x[i] - 1 / (double)(i + 1)) < 1e-6);
    assert_true(iterations < 80 && p.evaluations >= iterations);
}

TEST(test_a_curved_valley_is_followed_to_its_end)
{
    struct problem p = {.n = 10};
    double x[10] = {-1.2, 1, -1.2, 1, -3, 4, 0, 0, 2, -2}, value;
    size_t iterations;
    const struct eps__lbfgs options = {.tolerance = 1e-16};
    assert_int_equal(eps__lbfgs_minimise(&options, x, &value, &iterations, p.n, valley, &p), EPS__LBFGS_CONVERGED);
    for (size_t i = 0; i < p.n; i++)
        assert_true(fabs(x[i] - 1) < 1e-6);
    assert_true(value < 1e-12);
}

TEST(test_the_domain_is_never_left)
{
    struct problem p = {.n = 3};
    double x[3] = {1e-3, 30, 5}, value;
    size_t iterations;
    const struct eps__lbfgs options = {.tolerance = 1e-14};
    assert_int_equal(eps__lbfgs_minimise(&options, x, &value, &iterations, p.n, half_line, &p), EPS__LBFGS_CONVERGED);
    for (size_t i = 0; i < p.n; i++)
        assert_true(fabs(x[i] - 1) < 1e-6);
    x[1] = -1;
    assert_int_equal(eps__lbfgs_minimise(&options, x, &value, &iterations, p.n, half_line, &p), EPS__LBFGS_DOMAIN);
}

TEST(test_a_kink_at_the_minimum_is_reached)
{
    struct problem p = {.n = 3};
    double x[3] = {-7, 3.3, 5}, value;
    size_t iterations;
    const struct eps__lbfgs options = {.tolerance = 1e-12, .max_iterations = 500};
    enum eps__lbfgs_end end = eps__lbfgs_minimise(&options, x, &value, &iterations, p.n, kinked, &p);
    assert_true(end == EPS__LBFGS_CONVERGED || end == EPS__LBFGS_STALLED);
    assert_true(value < 1e-6);
}

TEST(test_the_objective_can_stop_the_search)
{
    struct problem p = {.n = 10, .limit = 7};
    double x[10] = {-1.2, 1}, value, start, gradient[10];
    size_t iterations;
    const struct eps__lbfgs options = {.tolerance = 1e-16};
    struct problem free_of_limits = {.n = 10};
    valley(&free_of_limits, &start, gradient, x);
    assert_int_equal(eps__lbfgs_minimise(&options, x, &value, &iterations, p.n, valley, &p), EPS__LBFGS_STOPPED);
    assert_int_equal(p.evaluations, 7);
    assert_true(value <= start);
    const struct eps__lbfgs short_one = {.max_iterations = 3};
    assert_int_equal(eps__lbfgs_minimise(&short_one, x, &value, &iterations, p.n, valley, &free_of_limits),
                     EPS__LBFGS_LIMIT);
    assert_int_equal(iterations, 3);
}
