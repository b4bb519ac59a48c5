/*
 * Moments of plain Poisson sampling with trees compared with sums over all patterns, and the bounds that renyi computes
 * from them with quadrature and mmcc: never below the truth, in both directions, and not loose.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/moments/laws/poisson.h"
#include "lib/moments/laws/poisson_tree.h"
#include "lib/numerics/bound.h"
#include "tests/truth/mechanism.h"
#include "tests/unit/draw.h"
#include "tests/unit/solved.h"
#include "tests/unit/test.h"

enum { STEPS_MAX = 8, ORDERS = 6 };
static const uint64_t seed = 173205;
static const double everything = 1e-280; /* no cap on a few leaves */

static size_t height_of(size_t leaves)
{
    size_t height = 0;
    while ((size_t)1 << height < leaves)
        height++;
    return height;
}

static unsigned count(size_t pattern)
{
    unsigned ones = 0;
    for (; pattern; pattern &= pattern - 1)
        ones++;
    return ones;
}

/* The leaves in use below a node at this height. */
static size_t leaves_under(const struct eps__poisson_tree *tree, size_t height, size_t index)
{
    size_t first = index << height, end = (index + 1) << height;
    end = end < tree->leaves ? end : tree->leaves;
    return end > first ? (((size_t)1 << (end - first)) - 1) << first : 0;
}

static bool within(const struct eps__poisson_tree *tree, size_t pattern)
{
    for (size_t h = 0; h <= tree->height; h++)
        for (size_t i = 0; i << h < tree->leaves; i++) {
            bool full = (i + 1) << h <= tree->leaves;
            if (count(pattern & leaves_under(tree, h, i)) > (full ? tree->full[h] : tree->cut[h]))
                return false;
        }
    return true;
}

/* By all patterns of one, two and three copies. */
static void enumerate(const struct eps__poisson_tree *tree, long double sums[4])
{
    size_t n = tree->leaves, all = (size_t)1 << n;
    long double *weight = malloc(all * sizeof *weight), *met = malloc(all * all * sizeof *met);
    sums[0] = 1;
    sums[1] = sums[2] = sums[3] = 0;
    for (size_t x = 0; x < all; x++) {
        weight[x] = within(tree, x);
        for (size_t i = 0; i < n; i++)
            weight[x] *= x >> i & 1 ? (long double)tree->p : 1 - (long double)tree->p;
        for (size_t y = 0; y < all; y++) {
            double common = 0;
            for (size_t h = 0; h <= tree->height; h++)
                for (size_t i = 0; i << h < n; i++)
                    common += count(x & leaves_under(tree, h, i)) * count(y & leaves_under(tree, h, i));
            met[x * all + y] = expl(common * (long double)tree->weight);
        }
    }
    for (size_t x = 0; x < all; x++) {
        sums[1] += weight[x];
        for (size_t y = 0; weight[x] > 0 && y < all; y++) {
            long double both = weight[x] * weight[y] * met[x * all + y], rest = 0;
            for (size_t z = 0; both > 0 && z < all; z++)
                rest += weight[z] * met[x * all + z] * met[y * all + z];
            sums[2] += both;
            sums[3] += both * rest;
        }
    }
    free(weight);
    free(met);
}

static void hold_against_patterns(const struct eps__poisson_tree *tree)
{
    long double sums[4];
    enumerate(tree, sums);
    for (unsigned a = 1; a <= 3; a++) {
        eps__quad sum;
        double units;
        assert_int_equal(eps__poisson_tree_sum(NULL, &sum, &units, tree, a, 1), EPS_OK);
        if (!(fabsl((long double)sum / sums[a] - 1) < 1e-16L))
            fail_msg("%zu leaves, height %zu, p = %g, weight %g, %u copies: %.20Lg, not %.20Lg", tree->leaves,
                     tree->height, tree->p, tree->weight, a, (long double)sum, sums[a]);
        assert_true(units * (double)EPS__QUAD_ROUNDOFF < 1e-15);
    }
}

TEST(tables_are_all_patterns)
{
    uint64_t state = seed;
    for (int trial = 0; trial < 60; trial++) {
        size_t n = 1 + draw_below(&state, trial % 10 == 0 ? STEPS_MAX : 7);
        size_t height = height_of(n) + (trial % 7 == 6); /* a root with one child, too */
        double p = trial % 13 == 12 ? 1 : trial % 13 == 11 ? 0 : draw_unit(&state);
        struct eps__poisson_tree tree;
        eps__poisson_tree_make(&tree, n, height, p, 3 * draw_unit(&state) * draw_unit(&state), everything);
        assert_true(tree.rare == 0);
        hold_against_patterns(&tree);
    }
}

/* With caps that are exceeded: the sum is over the remaining patterns, and the probability of the others is at most the
 * claimed one. */
TEST(caps_leave_out_the_rare)
{
    uint64_t state = seed;
    size_t bitten = 0;
    for (int trial = 0; trial < 60; trial++) {
        size_t n = 2 + draw_below(&state, trial % 10 == 0 ? 7 : 6);
        double wanted = exp(-6 * draw_unit(&state)), p = draw_unit(&state) * draw_unit(&state);
        struct eps__poisson_tree tree;
        eps__poisson_tree_make(&tree, n, height_of(n), p, draw_unit(&state), wanted);
        hold_against_patterns(&tree);
        long double left = 0;
        for (size_t x = 0; x < (size_t)1 << n; x++)
            left += within(&tree, x)
                        ? powl((long double)p, count(x)) * powl(1 - (long double)p, (long double)n - count(x))
                        : 0;
        bitten += left < 1 - 1e-6L;
        if (!((long double)tree.rare >= (1 - left) * (1 - 1e-12L) - 1e-18L) || !(tree.rare <= wanted * (1 + 1e-9)))
            fail_msg("%zu leaves, p = %g: %Lg left out, %g said, %g wanted", n, p, 1 - left, tree.rare, wanted);
    }
    assert_true(bitten >= 20);
}

/* Two and three leaves as Poisson sampling with two and three bands. */
TEST(small_trees_are_poisson)
{
    static const double two[] = {2, 0, 2, 1}, three[] = {3, 0, 0, 3, 2, 0, 3, 1, 1};
    for (size_t n = 2; n <= 3; n++)
        for (int trial = 0; trial < 6; trial++) {
            double p = trial % 2 ? 0.01 : 0.3, sigma = 0.7 + trial, units;
            struct eps__poisson_tree tree;
            struct eps__banded_gram banded;
            eps__quad raw[ORDERS + 1];
            eps__poisson_tree_make(&tree, n, n - 1, p, 1 / (sigma * sigma), everything);
            assert_int_equal(eps__banded_gram_make(&banded, n == 2 ? two : three, n, n, p, 0, sigma), EPS_OK);
            for (unsigned a = 2; a <= ORDERS; a++) {
                eps__quad sum;
                assert_int_equal(eps__poisson_raw(NULL, &raw[a], &units, &banded, NULL, a, true), EPS_OK);
                assert_int_equal(eps__poisson_tree_sum(NULL, &sum, &units, &tree, a, 1), EPS_OK);
                /* The chain's matrix was raised by some roundings, relative to the exponent. */
                if (!(fabsq(sum / raw[a] - 1) < 1e-13 * (1 + logq(raw[a]))))
                    fail_msg("%zu leaves, order %u: %.17Lg, not %.17Lg", n, a, (long double)sum, (long double)raw[a]);
            }
            eps__banded_gram_clear(&banded);
        }
}

/* Copies that never meet sum to 1, within the claimed units; and no step rounds less. */
TEST(errors_are_counted)
{
    for (size_t n = 60; n <= 300; n += 48)
        for (unsigned copies = 1; copies <= 2; copies++) {
            struct eps__poisson_tree tree;
            eps__quad sum;
            double units;
            eps__poisson_tree_make(&tree, n, height_of(n), 0.3, 0, everything);
            assert_int_equal(eps__poisson_tree_sum(NULL, &sum, &units, &tree, copies, 1), EPS_OK);
            assert_true(fabsq(sum - 1) <= units * EPS__QUAD_ROUNDOFF);
            assert_true(units >= (double)n * 0x1p49 && units * (double)EPS__QUAD_ROUNDOFF < 1e-13);
        }
}

/* Orders by groups of two and of three copies compared with their own tables. */
TEST(groups_are_bounds)
{
    uint64_t state = seed;
    for (int trial = 0; trial < 30; trial++) {
        size_t n = 2 + draw_below(&state, 7), stamps = 1 + draw_below(&state, 3);
        double p = 0.3 * draw_unit(&state), scale = trial % 2 ? 0.02 : 0.3;
        struct eps__poisson_tree tree;
        struct eps__orders orders;
        eps__poisson_tree_make(&tree, n, height_of(n), p, scale * draw_unit(&state), 1e-3);
        unsigned groups = 2 + (unsigned)trial % 4 / 2;
        double operations = 0;
        for (unsigned a = 2; a <= groups; a++)
            operations += eps__poisson_tree_operations(&tree, a);
        const struct eps__tree_effort effort = {INFINITY, operations, INFINITY};
        assert_int_equal(eps__poisson_tree_fits(&tree, &effort), groups);
        assert_int_equal(eps__poisson_tree_moments(NULL, &orders, NULL, &tree, stamps, &effort, ORDERS), EPS_OK);
        eps__quad one;
        double units;
        assert_int_equal(eps__poisson_tree_sum(NULL, &one, &units, &tree, 1, 1), EPS_OK);
        assert_true(orders.len == ORDERS);
        for (unsigned a = 2; a <= ORDERS; a++) {
            eps__quad sum;
            assert_int_equal(eps__poisson_tree_sum(NULL, &sum, &units, &tree, a, 1), EPS_OK);
            double exact = (double)(stamps * (logq(sum) - a * logq(one)));
            if (!(orders.log_upper[a] >= exact) || (trial % 2 && !(orders.log_upper[a] <= 1.15 * exact + 1e-12)))
                fail_msg("%zu leaves, p = %g, weight %g, order %u: %g, but %g", n, p, tree.weight, a,
                         orders.log_upper[a], exact);
        }
        eps__orders_clear(&orders);
    }
}

/* Central moments of trees side by side are those of the remaining patterns. */
TEST(stamps_multiply)
{
    const struct eps__tree_effort effort = {1e6, 1e6, 0};
    for (size_t stamps = 1; stamps <= 5; stamps++) {
        struct eps__poisson_tree tree;
        struct eps__laws laws;
        long double sums[4];
        eps__poisson_tree_make(&tree, 5, 3, 0.1, 0.2, 0.01);
        enumerate(&tree, sums);
        assert_true(tree.rare > 0);
        assert_int_equal(eps__poisson_tree_moments(NULL, NULL, &laws, &tree, stamps, &effort, 3), EPS_OK);
        long double second = powl(sums[2] / (sums[1] * sums[1]), (long double)stamps);
        long double third = powl(sums[3] / (sums[1] * sums[1] * sums[1]), (long double)stamps);
        assert_int_equal(laws.len, 1);
        assert_int_equal(laws.items[0].len, 3);
        assert_true(fabsl((long double)laws.items[0].central[2] / (second - 1) - 1) < 1e-14L);
        assert_true(fabsl((long double)laws.items[0].central[3] / (third - 3 * second + 2) - 1) < 1e-12L);
        eps__laws_clear(&laws);
    }
}

/* ------------------------------------------------------------ renyi */

static struct eps_job tree_job(size_t n, size_t stamps, double p)
{
    struct eps_job job;
    eps_job_init(&job);
    job.mechanism.n = n;
    job.mechanism.matrix.family = EPS_FAMILY_TREE;
    job.mechanism.matrix.stamps = stamps;
    job.mechanism.sampling.scheme = EPS_SCHEME_POISSON;
    job.mechanism.sampling.p = p;
    job.query.accountant.method = EPS_ACCOUNTANT_RENYI;
    eps_job_defaults(&job);
    return job;
}

/* The result in both directions. */
static void answers(double found[EPS_DIRECTIONS], struct eps_job job, double sigma, double eps, double delta)
{
    job.query.noise_multiplier = sigma;
    job.query.epsilon = eps;
    job.query.delta = delta;
    struct eps_result *result = solved(NULL, job);
    for (size_t i = 0; i < result->candidates_len; i++)
        found[result->candidates[i].direction] = result->candidates[i].value;
    eps_result_destroy(result);
}

TEST(delta_is_never_under_the_truth)
{
    static const double epsilons[] = {0, 0.05, 0.5, 2}, sigmas[] = {0.35, 0.8, 2};
    const struct effort effort = {.samples = 2000, .quadrature_most = 3, .seed = seed, .floor = 1e-12L, .width = 1e-4L};
    double logs[EPS_DIRECTIONS] = {0};
    size_t asked[EPS_DIRECTIONS] = {0};
    uint64_t state = seed;
    for (size_t trial = 0; trial < 18; trial++) {
        size_t n = 1 + trial % 4, stamps = n == 4 && trial % 8 > 3 ? 2 : 1;
        double p = trial % 2 ? 0.05 + 0.9 * draw_unit(&state) : 0.01, eps = epsilons[draw_below(&state, 4)];
        double sigma = sigmas[trial % 9 / 3], found[EPS_DIRECTIONS];
        struct eps_job job = tree_job(n, stamps, p);
        struct truth truth = truth_open(&job.mechanism);
        job.query.accountant.max_order = trial % 3 ? 4 : 0;
        answers(found, job, sigma, eps, NAN);
        for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++) {
            struct enclosure delta = truth_delta(&truth, direction, eps, sigma, &effort);
            if (!(found[direction] >= (double)delta.lower))
                fail_msg("n = %zu, %zu stamps, p = %g, sigma = %g, eps = %g, direction %d: %g, but %Lg", n, stamps, p,
                         sigma, eps, (int)direction, found[direction], delta.lower);
            if (delta.lower > 1e-6L) {
                logs[direction] += log(found[direction] / (double)delta.lower);
                asked[direction]++;
            }
        }
        truth_close(&truth);
    }
    for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++) {
        assert_true(asked[direction] >= 6);
        print_message("direction %d: over the truth by %.3f\n", (int)direction,
                      exp(logs[direction] / (double)asked[direction]));
        assert_true(exp(logs[direction] / (double)asked[direction]) < 2.5);
    }
}

/* However large epsilon is, delta is at least the probability that was left out; and where delta is given, that is at
 * most its share. */
TEST(what_is_left_out_is_paid_for)
{
    double found[EPS_DIRECTIONS], one[EPS_DIRECTIONS];
    for (size_t stamps = 1; stamps <= 4; stamps *= 4) {
        struct eps_job job = tree_job(64, stamps, 0.01);
        struct eps__poisson_tree tree;
        size_t leaves = 64 / stamps;
        eps__poisson_tree_make(&tree, leaves, height_of(leaves), 0.01, 0, 1e-14 / (double)stamps);
        assert_true(tree.rare > 0);
        answers(found, job, 20, 100, NAN);
        if (!(found[EPS_REMOVE] >= (double)stamps * tree.rare) || !(found[EPS_REMOVE] <= 1e-14))
            fail_msg("%zu stamps: %g, but %g", stamps, found[EPS_REMOVE], (double)stamps * tree.rare);
    }
    struct eps_job job = tree_job(64, 1, 0.01);
    job.query.accountant.max_order = 3;
    answers(found, job, 2, NAN, 1e-5);
    answers(one, job, 2, found[EPS_REMOVE], NAN); /* with almost nothing left out */
    assert_true(one[EPS_REMOVE] <= 1e-5 && one[EPS_REMOVE] >= 0.8e-5);
}

/* Where mmcc serves, it needs more noise: its bound goes row by row, that of the moments takes all rows together. */
TEST(mmcc_needs_more)
{
    double found[EPS_DIRECTIONS], by_rows[EPS_DIRECTIONS];
    for (size_t n = 48; n <= 64; n += 16) {
        struct eps_job job = tree_job(n, 1, 0.01);
        answers(found, job, 3, NAN, 1e-5);
        job.query.accountant.method = EPS_ACCOUNTANT_MMCC;
        answers(by_rows, job, 3, NAN, 1e-5);
        for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++)
            if (!(found[direction] < 0.6 * by_rows[direction]))
                fail_msg("n = %zu, direction %d: %g, mmcc %g", n, (int)direction, found[direction], by_rows[direction]);
    }
}

TEST(what_does_not_fit_is_declined)
{
    const char tree[] = "'matrix':{'family':'tree'},'noise_multiplier':1,'epsilon':1,'accountant'";
    assert_declined(job_of("{'n':1024,'sampling':{'scheme':'poisson','p':0.5},%s:'renyi'}", tree), "/sampling/p");
    assert_declined(
        job_of("{'n':64,'sampling':{'scheme':'poisson','p':0.1},'adjacency':'replace_one',%s:'renyi'}", tree),
        "/adjacency");
    assert_declined(job_of("{'n':64,'sampling':{'scheme':'poisson','p':0.1,'examples_per_user':2},%s:'renyi'}", tree),
                    "/sampling/examples_per_user");
    assert_declined(
        job_of("{'n':64,'sampling':{'scheme':'poisson','p':0.1},%s:{'method':'renyi','bandwidth':2}}", tree),
        "/accountant/bandwidth");
}
