/*
 * The truth's own truth: its three ways agree where two of them know an answer, and with a fourth, the Laplace
 * inversion of tests/unit/exact.c.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/truth/mechanism.h"
#include "tests/truth/steps.h"
#include "tests/unit/draw.h"
#include "tests/unit/exact.h"
#include "tests/unit/test.h"

static const struct effort careful = {
    .samples = 4000, .quadrature_most = 4, .seed = 1, .floor = 1e-15L, .width = 1e-3L};

/* Bernoulli(p) steps of n dimensions as one mixture, against the origin or its mirror image. */
static struct mixture product_mixture(size_t n, long double p, long double scale)
{
    struct mixture m = mixture_new((size_t)1 << n, n);
    for (size_t x = 0; x < m.len; x++)
        for (size_t d = 0; d < n; d++) {
            m.log_weight[x] += x >> d & 1 ? logl(p) : log1pl(-p);
            m.at[x * n + d] = x >> d & 1 ? scale : 0;
        }
    return m;
}

static struct steps bernoulli_steps(struct step *shape, size_t n, long double p, long double scale, bool replace,
                                    bool add)
{
    struct points with = {2, {1 - p, p}, {0, 1}}, mirrored = {2, {1 - p, p}, {0, -1}}, without = {1, {1}, {0}};
    *shape = (struct step){.len = 1, .rising = true};
    shape->branches[0] = add ? (struct branch){1, replace ? with : without, mirrored}
                             : (struct branch){1, with, replace ? mirrored : without};
    struct steps steps = {.len = n};
    for (size_t i = 0; i < n; i++) {
        steps.shape[i] = shape;
        steps.scale[i] = scale;
    }
    return steps;
}

static void mirror(struct mixture *m)
{
    for (size_t i = 0; i < m->len * m->dimension; i++)
        m->at[i] = -m->at[i];
}

static void assert_meet(struct enclosure a, struct enclosure b, const char *what, uint64_t seed)
{
    if (!(a.lower <= b.upper * (1 + 1e-9L) && b.lower <= a.upper * (1 + 1e-9L)))
        fail_msg("%s, seed %llu: [%.12Lg, %.12Lg] and [%.12Lg, %.12Lg]", what, (unsigned long long)seed, a.lower,
                 a.upper, b.lower, b.upper);
}

static void assert_narrow(struct enclosure a, long double width, const char *what, uint64_t seed)
{
    if (!(a.upper - a.lower <= width * a.upper + 1e-18L))
        fail_msg("%s, seed %llu: [%.12Lg, %.12Lg] is wide", what, (unsigned long long)seed, a.lower, a.upper);
}

/* Nested quadrature of the joint law beside the composition of its steps. */
TEST(steps_and_quadrature_agree)
{
    for (uint64_t seed = 0; seed < 12; seed++) {
        uint64_t state = seed;
        size_t n = 2 + draw_below(&state, seed % 8 == 0 ? 3 : 2);
        long double p =
            seed % 3 ? (long double)draw_between(&state, 0.01, 0.99) : (long double)draw_log(&state, 1e-8, 1);
        long double scale = (long double)draw_log(&state, 0.1, 4), eps = (long double)draw_between(&state, 0, 3);
        bool replace = seed % 4 == 3, add = seed % 2;
        struct mixture with = product_mixture(n, p, scale), without = mixture_new(1, n);
        if (replace) {
            mixture_free(&without);
            without = product_mixture(n, p, scale);
        }
        mirror(add ? &with : &without);
        struct enclosure joint =
            add ? mixture_delta(&without, &with, eps, &careful) : mixture_delta(&with, &without, eps, &careful);
        struct step shape;
        struct steps steps = bernoulli_steps(&shape, n, p, scale, replace, add);
        struct enclosure composed = steps_delta(&steps, eps, &careful);
        assert_meet(joint, composed, "quadrature and steps", seed);
        assert_narrow(joint, 1e-5L, "quadrature", seed);
        assert_narrow(composed, 1e-2L, "steps", seed);
        mixture_free(&with);
        mixture_free(&without);
    }
}

/* Samples prove a lower end under the truth, and not far under it, however small delta is. */
TEST(samples_stay_under_quadrature)
{
    for (uint64_t seed = 0; seed < 12; seed++) {
        uint64_t state = seed + 1000;
        size_t n = 2 + draw_below(&state, 2), dimension = n + 1;
        struct effort sampled = careful;
        struct mixture with = mixture_new((size_t)1 << n, dimension), without = mixture_new(1, dimension);
        long double p = (long double)draw_between(&state, 0.02, 0.98), c[3][4];
        for (size_t j = 0; j < n; j++)
            for (size_t d = 0; d < dimension; d++)
                c[j][d] = (long double)draw_between(&state, 0, 1.2);
        for (size_t x = 0; x < with.len; x++)
            for (size_t j = 0; j < n; j++) {
                with.log_weight[x] += x >> j & 1 ? logl(p) : log1pl(-p);
                for (size_t d = 0; d < dimension && x >> j & 1; d++)
                    with.at[x * dimension + d] += seed % 2 ? -c[j][d] : c[j][d];
            }
        sampled.quadrature_most = 1;
        sampled.seed = seed;
        for (long double eps = 0; eps < 7; eps += 1.5L) {
            const struct mixture *over = seed % 2 ? &without : &with, *under = seed % 2 ? &with : &without;
            struct enclosure quadrature = mixture_delta(over, under, eps, &careful);
            struct enclosure samples = mixture_delta(over, under, eps, &sampled);
            assert_narrow(quadrature, 1e-5L, "quadrature", seed);
            if (!(samples.lower <= quadrature.upper && samples.lower >= 0.6L * quadrature.lower - 1e-15L))
                fail_msg("seed %llu, eps %.2Lg: samples prove %.6Lg of %.6Lg", (unsigned long long)seed, eps,
                         samples.lower, quadrature.lower);
        }
        mixture_free(&with);
        mixture_free(&without);
    }
}

TEST(steps_and_laplace_inversion_agree)
{
    size_t converged = 0;
    for (uint64_t seed = 0; seed < 10; seed++) {
        uint64_t state = seed + 2000;
        size_t n = 2 + draw_below(&state, 8);
        double p = draw_between(&state, 0.05, 0.95), scale = draw_log(&state, 0.2, 3), eps = draw_between(&state, 0, 4);
        bool add = seed % 2;
        struct draw_pair pair;
        subsampled_pair(&pair, p, scale, add);
        struct exact_power power = {&pair.pair, n};
        struct exact_answer exact = exact_composition(&power, 1, eps);
        struct step shape;
        struct steps steps = bernoulli_steps(&shape, n, p, scale, false, add);
        if (!(exact.error < 1e-6) || exact.log_delta < -30)
            continue;
        converged++;
        long double delta = expl((long double)exact.log_delta);
        struct enclosure known = {delta * (1 - (long double)exact.error), delta * (1 + (long double)exact.error)};
        assert_meet(known, steps_delta(&steps, (long double)eps, &careful), "Laplace inversion and steps", seed);
    }
    assert_true(converged >= 6);
}

/* Shapes whose loss does not rise are only bounded from below; where it does, the bound is as good as the other. */
TEST(merged_outputs_lose_little)
{
    for (uint64_t seed = 0; seed < 10; seed++) {
        uint64_t state = seed + 3000;
        size_t n = 1 + draw_below(&state, 5);
        struct step shape;
        struct steps steps = bernoulli_steps(&shape, n, (long double)draw_between(&state, 0.05, 0.95),
                                             (long double)draw_log(&state, 0.3, 2), seed % 3 == 0, seed % 2);
        long double eps = (long double)draw_between(&state, 0, 1.5);
        struct effort effort = careful;
        effort.floor = 1e-8L;
        struct enclosure rising = steps_delta(&steps, eps, &effort);
        shape.rising = false;
        struct enclosure merged = steps_delta(&steps, eps, &effort);
        assert_true(merged.upper == 1);
        if (!(merged.lower <= rising.upper && merged.lower >= 0.98L * rising.lower - 1e-8L))
            fail_msg("seed %llu: merged outputs give %.9Lg of %.9Lg", (unsigned long long)seed, merged.lower,
                     rising.lower);
    }
}

/* A full batch of n steps is one Gaussian; tiny deltas and tiny losses keep their digits. */
TEST(steps_that_are_gaussians)
{
    static const double cases[][3] = {
        /* n, scale, eps */ {4, 1, 3}, {9, 0.2, 5}, {3, 1e-5, 1e-4}, {2, 8, 60}, {5, 3, 200}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct step shape;
        struct steps steps = bernoulli_steps(&shape, (size_t)cases[i][0], 1, (long double)cases[i][1], false, i % 2);
        long double delta =
            truth_gaussian(sqrtl((long double)cases[i][0]) * (long double)cases[i][1], (long double)cases[i][2]);
        struct effort effort = careful;
        effort.floor = 0.1L * delta;
        struct enclosure found = steps_delta(&steps, (long double)cases[i][2], &effort);
        assert_meet(found, (struct enclosure){delta, delta}, "a Gaussian", i);
        assert_narrow(found, 1e-2L, "a Gaussian", i);
    }
}

/* Losses far above eps at every output there is: all of the mass counts. */
TEST(far_shifts_are_seen)
{
    static const struct step shape = {.len = 1,
                                      .branches = {{1, {1, {1}, {1}}, {1, {1}, {-1}}}}, /* N(s, 1) against N(-s, 1) */
                                      .rising = true};
    for (long double scale = 2; scale < 200; scale *= 3) {
        struct steps steps = {.len = 1, .shape = {&shape}, .scale = {scale}};
        struct enclosure found = steps_delta(&steps, 0.5L, &careful);
        long double exact = truth_gaussian(2 * scale, 0.5L);
        assert_true(found.lower <= exact * (1 + 1e-15L) && exact <= found.upper * (1 + 1e-15L));
        assert_true(found.lower > exact * (1 - 1e-9L));
    }
}

/* Of far shifts the law below has most of its mass where the one above has next to none. That mass is in no cell:
 * drawn into the lowest one it took large losses down by a spacing a step, and the upper end under the truth. */
TEST(what_only_the_other_law_reaches_is_in_no_cell)
{
    for (uint64_t seed = 0; seed < 24; seed++) {
        uint64_t state = seed + 4000;
        size_t n = 2 + draw_below(&state, 2);
        bool replace = seed % 4 < 3, add = seed % 2;
        long double p = (long double)draw_between(&state, 0.05, 0.5), scale = (long double)draw_between(&state, 8, 20);
        /* where losses are: about those of so many participations, or of none against any */
        long double eps = (long double)(1 + draw_below(&state, n)) * scale * scale / 2;
        eps += (long double)draw_between(&state, -1, 1) * scale;
        if (add && !replace)
            eps = (long double)draw_between(&state, 0.05, 0.9) * (long double)n * -log1pl(-p);
        struct mixture with = product_mixture(n, p, scale), without = mixture_new(1, n);
        if (replace) {
            mixture_free(&without);
            without = product_mixture(n, p, scale);
        }
        mirror(add ? &with : &without);
        struct enclosure joint =
            add ? mixture_delta(&without, &with, eps, &careful) : mixture_delta(&with, &without, eps, &careful);
        struct step shape;
        struct steps steps = bernoulli_steps(&shape, n, p, scale, replace, add);
        struct effort coarse = careful;
        coarse.cells_most = 1024;
        coarse.floor = 1e-3L * joint.lower;
        assert_narrow(joint, 1e-5L, "quadrature", seed);
        assert_meet(joint, steps_delta(&steps, eps, &coarse), "quadrature and coarse steps", seed);
        mixture_free(&with);
        mixture_free(&without);
    }
}

/* int (N(a, 1) - c N(0, 1))_+ over the line. */
static long double half_line(long double a, long double log_c)
{
    long double t = log_c / a + a / 2;
    return normal_tail(t - a) - expl(log_c) * normal_tail(t);
}

/*
 * p of N(a, 1) beside N(0, 1) along one axis, the same mixture of `across` signs along each other one in both laws:
 * the other axes cancel, and a closed form is left. What is enclosed holds it, and tells when it is off.
 */
TEST(quadrature_is_within_its_error)
{
    static const long double ps[] = {4.8e-12L, 1e-6L, 0.01L, 0.4L, 1}, epsilons[] = {0, 0.01L, 1, 4};
    uint64_t state = 7;
    size_t narrow = 0;
    bool all = getenv("REPRODUCE") != NULL;
    for (int round = 0; round < 60; round++)
        for (size_t across = 0; across < 3; across++) {
            if (across == 2 && round % 3 > 0 && !all) /* a box of cells: nearly all of the time */
                continue;
            long double p = ps[draw_below(&state, 5)], eps = epsilons[draw_below(&state, 4)];
            long double a = draw_log(&state, 0.05, 8), c = draw_log(&state, 0.01, 4);
            size_t signs = (size_t)1 << across, dimension = across + 1;
            struct mixture over = mixture_new(2 * signs, dimension), under = mixture_new(signs, dimension);
            for (size_t s = 0; s < signs; s++) {
                under.log_weight[s] = -logl((long double)signs);
                over.log_weight[s] = under.log_weight[s] + (p < 1 ? log1pl(-p) : -1e4L);
                over.log_weight[signs + s] = under.log_weight[s] + logl(p);
                over.at[(signs + s) * dimension] = a;
                for (size_t d = 1; d < dimension; d++) {
                    long double sign = s >> (d - 1) & 1 ? c : -c;
                    under.at[s * dimension + d] = over.at[s * dimension + d] = sign;
                    over.at[(signs + s) * dimension + d] = sign;
                }
            }
            struct effort effort = careful;
            effort.floor = 0;
            struct enclosure found = mixture_delta(&over, &under, eps, &effort);
            long double truth = p * half_line(a, log1pl(expm1l(eps) / p));
            if (!(found.lower <= truth && truth <= found.upper))
                fail_msg("p %Lg, eps %Lg, a %Lg, c %Lg, %zu across: %.15Lg is not in [%.15Lg, %.15Lg]", p, eps, a, c,
                         across, truth, found.lower, found.upper);
            narrow += found.upper - found.lower <= 1e-5L * truth;
            mixture_free(&over);
            mixture_free(&under);
            if (across > 0)
                continue;
            struct step shape;
            struct steps steps = bernoulli_steps(&shape, 1, p, a, false, false);
            found = steps_delta(&steps, eps, &careful);
            if (!(found.lower <= truth && truth <= found.upper))
                fail_msg("a step of p %Lg, eps %Lg, a %Lg: %.15Lg is not in [%.15Lg, %.15Lg]", p, eps, a, truth,
                         found.lower, found.upper);
        }
    assert_true(narrow > 120);
}
