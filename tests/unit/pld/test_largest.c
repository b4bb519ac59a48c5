/*
 * Bounds from the largest loss contain the composition's delta that Laplace inversion gives, and are close where
 * participations are rare; for two steps they agree with formulas by hand; and jobs that need them are solved in
 * bounded time.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "lib/epsilon.h"
#include "lib/numerics/normal.h"
#include "lib/pld/compose/largest.h"
#include "tests/unit/draw.h"
#include "tests/unit/exact.h"
#include "tests/unit/solved.h"
#include "tests/unit/test.h"

static const uint64_t seed = 141;

/* `count` steps, one branch: a participation of probability p, remove, add or against another (replace). */
struct given {
    double weight[2][2], shift[2][2];
    struct eps__branch branch;
    struct eps__step step;
    struct eps__steps steps;
};

static void give(struct given *g, double p, double shift, int kind, uint64_t count)
{
    *g = (struct given){.weight = {{1 - p, p}, {1 - p, p}}, .shift = {{0, shift}, {0, shift}}};
    struct eps__mixture with = {.weight = g->weight[0], .shift = g->shift[0], .len = 2, .whole = true},
                        without = {
                            .weight = g->weight[1], .shift = g->shift[1], .len = kind == 2 ? 2 : 1, .whole = true};
    if (kind < 2)
        g->weight[1][0] = 1;
    struct eps__pair pair = {.numerator = kind == 1 ? without : with, .denominator = kind == 1 ? with : without};
    pair.weight_error = 2 * EPS__UNIT_ROUNDOFF;
    g->branch = (struct eps__branch){.weight = {1, 1}, .pair = {pair, pair}};
    g->step = (struct eps__step){.branches = &g->branch, .len = 1, .count = count};
    g->steps = (struct eps__steps){.items = &g->step, .len = 1, .total = (double)count};
}

/* P's density at z times the remaining delta of a second step. */
static __float128 integrand(const struct eps__pair *pair, double eps, double z)
{
    __float128 density = 0;
    for (size_t i = 0; i < pair->numerator.len; i++) {
        __float128 x = (__float128)z - pair->numerator.shift[i];
        density += pair->numerator.weight[i] * expq(-x * x / 2);
    }
    return density * exact_delta(pair, (__float128)eps - exact_loss(pair, z));
}

/* ln delta of two equal steps: the mean, over the first one's loss, of the second one's remaining delta, by the
 * trapezoid rule, which is nearly exact for such functions; and by the midpoint rule around the point where the first
 * loss alone is eps, which is nearly a kink. */
static double two_steps(const struct eps__pair *pair, double eps)
{
    const double step = 0.06, fine = 0.005;
    double low = -14, high = 44;
    __float128 sum = 0;
    for (int i = 0; i < 60; i++) {
        double middle = 0.5 * (low + high);
        *(exact_loss(pair, middle) < eps ? &low : &high) = middle;
    }
    double until = -14 + step * floor((high - 1 + 14) / step), end = until;
    for (double z = -14; z <= until + 0.5 * step; z += step)
        sum += integrand(pair, eps, z) * (z < until - 0.5 * step ? 1 : 0.5) * step;
    for (double z = until + 0.5 * fine; z < high + 0.7; z += fine, end = z)
        sum += integrand(pair, eps, z) * fine;
    for (double z = end; z < 44; z += step)
        sum += integrand(pair, eps, z) * (z > end ? 1 : 0.5) * step;
    return (double)logq(sum / sqrtq(2 * (__float128)3.14159265358979323846264338327950288L));
}

static void enclose(const struct given *g, double eps, double exact, double error, double *width)
{
    struct eps__largest *largest;
    assert_int_equal(eps__largest_create(&largest, NULL, &g->steps), EPS_OK);
    double upper, lower;
    assert_int_equal(eps__largest_log_delta(largest, EPS__UPPER, eps, &upper), EPS_OK);
    assert_int_equal(eps__largest_log_delta(largest, EPS__LOWER, eps, &lower), EPS_OK);
    eps__largest_destroy(largest);
    if (!(lower <= exact + error && exact - error <= upper))
        fail_msg("%.12g +- %.3g not in [%.12g, %.12g], n %d, p %g, shift %g, eps %g", exact, error, lower, upper,
                 (int)g->step.count, g->weight[g->weight[0][0] < 1 ? 0 : 1][1], g->shift[0][1], eps);
    *width = upper - lower;
}

/* P3. Two steps of any rarity by quadrature, and close where they are rare. */
TEST(two_steps_are_enclosed)
{
    uint64_t state = seed;
    int rare = 0, close = 0;
    for (int c = 0; c < 20; c++) {
        struct given g;
        double p = draw_log(&state, 1e-14, 0.3), shift = draw_log(&state, 0.3, 3), width;
        int kind = c % 5 == 4 ? 1 : c % 5 == 3 ? 2 : 0;
        give(&g, p, shift, kind, 2);
        double eps = kind == 1 ? -2 * log1p(-p) * draw_unit(&state) : fmax(30 * p, 1e-7) * draw_log(&state, 1, 1e5);
        double exact = two_steps(&g.branch.pair[0], eps);
        if (!(exact > -690) || eps > 20)
            continue;
        enclose(&g, eps, exact, 2e-3, &width);
        if (kind != 1 && p < 1e-4 && eps > 100 * p) {
            rare++;
            close += width < 0.3;
        }
    }
    print_message("# of %d where participations are rare, %d within 0.3, seed %llu\n", rare, close,
                  (unsigned long long)seed);
    assert_true(rare > 5 && close >= 0.8 * rare);
}

/* Many steps, not so rare that Laplace inversion becomes unreliable. */
TEST(many_steps_are_enclosed)
{
    uint64_t state = seed;
    int checked = 0;
    for (int c = 0; c < 40; c++) {
        struct given g;
        uint64_t count = 2 + draw_below(&state, 300);
        double p = draw_log(&state, 3e-3, 0.2), width;
        give(&g, p, draw_log(&state, 0.3, 2), c % 4 == 3 ? 2 : 0, count);
        double eps = draw_log(&state, 0.03, 3);
        const struct exact_power power = {&g.branch.pair[0], count};
        struct exact_answer exact = exact_composition(&power, 1, eps);
        if (!(exact.error < 1e-3) || exact.log_delta < -40)
            continue;
        checked++;
        enclose(&g, eps, exact.log_delta, exact.error, &width);
    }
    assert_true(checked > 20);
}

/* P3: where two large losses are as likely as one, the events must exclude each other. Delta is at most the probability
 * that any step is a participation, plus that of a sum beyond eps without one, which is at most e^-eps by Markov. */
TEST(large_losses_are_not_counted_twice)
{
    for (int c = 0; c < 12; c++) {
        struct given g;
        uint64_t count = 40 + 20 * (uint64_t)c;
        double expected = 0.1 + 0.06 * c, p = expected / (double)count, eps = 8 + c % 3, lower;
        give(&g, p, 9, 0, count);
        struct eps__largest *largest;
        assert_int_equal(eps__largest_create(&largest, NULL, &g.steps), EPS_OK);
        assert_int_equal(eps__largest_log_delta(largest, EPS__LOWER, eps, &lower), EPS_OK);
        eps__largest_destroy(largest);
        double most = -expm1((double)count * log1p(-p)) + exp(-eps);
        if (!(exp(lower) <= most && exp(lower) >= 0.9 * expected * (1 - expected)))
            fail_msg("%g expected of %d: at least %.9g, but at most %.9g", expected, (int)count, exp(lower), most);
    }
}

/* Two steps: delta is at least twice each step's own delta beyond what the other can take away, and at most that beyond
 * what the other can add, by hand at one threshold. */
TEST(two_steps_by_hand)
{
    const double p = 1e-20, eps = 1e-6;
    struct given g;
    give(&g, p, 1, 0, 2);
    struct eps__largest *largest;
    assert_int_equal(eps__largest_create(&largest, NULL, &g.steps), EPS_OK);
    double least = (double)logq(2 * exact_delta(&g.branch.pair[0], eps * (1 + 1e-9)));
    double most = (double)logq(2 * exact_delta(&g.branch.pair[0], eps * (1 - 1e-3)));
    double upper, lower;
    assert_int_equal(eps__largest_log_delta(largest, EPS__UPPER, eps, &upper), EPS_OK);
    assert_int_equal(eps__largest_log_delta(largest, EPS__LOWER, eps, &lower), EPS_OK);
    eps__largest_destroy(largest);
    assert_true(lower <= least + 1e-3 && lower >= least - 1e-3);
    assert_true(upper >= least && upper <= most);
}

/* Jobs that a review found: one that did not end, and one whose bracket was [0, 6.5e-57] for 7e-100. */
TEST(rare_participations_are_answered)
{
    struct eps_result *result =
        solved(NULL, job_of("{'n':2,'sampling':{'scheme':'poisson','p':1e-20},'noise_multiplier':1,'delta':1e-300}"));
    /* one step in two: 2 delta_1(eps) = 1e-300 */
    assert_true(result->epsilon > 5e-5 && result->epsilon < 5.5e-5);
    assert_true(result->bracket_lower >= result->bracket_upper * (1 - 1e-3));
    eps_result_destroy(result);
    result =
        solved(NULL, job_of("{'n':457,'sampling':{'scheme':'poisson','p':6.42e-8},'noise_multiplier':1,'epsilon':1}"));
    struct given g;
    give(&g, 6.42e-8, 1, 0, 1);
    double one = 457 * (double)exact_delta(&g.branch.pair[0], 1);
    assert_true(result->delta >= one * (1 - 1e-2) && result->delta <= one * (1 + 1e-2));
    assert_true(result->bracket_lower >= result->bracket_upper * (1 - 1e-2));
    eps_result_destroy(result);
}

/* Work is measured in polls, which loops make after a fixed number of cells: a job that exceeds these numbers is
 * stopped, on any machine. Each limit is a few times the present number. */
static bool spent(void *left)
{
    return (*(long *)left)-- <= 0;
}

static struct eps_result *solve_within(struct eps_job job, long polls)
{
    struct eps_context context = {.user = &polls, .canceled = spent};
    long most = polls;
    struct eps_result *result = solved(&context, job);
    print_message("# %ld polls of %ld\n", most - polls, most);
    return result;
}

/* Epsilon within the tolerance; with two steps against the quadrature, whose error is 2e-3 of delta. */
static void check_epsilon(uint64_t n, double p, double sigma, double delta, long polls)
{
    struct given g;
    struct eps_job job =
        job_of("{'n':%ju,'sampling':{'scheme':'poisson','p':%.17g},'noise_multiplier':%.17g,'delta':%.17g,"
               "'accountant':'pld'}",
               (uintmax_t)n, p, sigma, delta);
    struct eps_result *result = solve_within(job, polls);
    assert_true(result->bracket_lower >= result->bracket_upper * (1 - 1e-3));
    if (n == 2) {
        give(&g, p, 1 / sigma, 0, n);
        assert_true(two_steps(&g.branch.pair[0], result->bracket_upper) <= log(delta) + 2e-3);
        assert_true(two_steps(&g.branch.pair[0], result->bracket_lower) >= log(delta) - 2e-3);
    }
    eps_result_destroy(result);
}

/* Losses over many decades, none of which decides alone: the first job was answered with 4.6 times epsilon, after
 * panels had been impossible at another epsilon; the others took a minute, because of the wrong slope of delta. */
TEST(heavy_tails_are_answered)
{
    check_epsilon(10, 6.8762480806902195e-06, 0.6756075688467744, 7.583646285136392e-07, 30000);
    check_epsilon(2, 1.2686419313720903e-05, 1.0550692304293097, 5.4e-06, 4000);
    check_epsilon(10, 1.3213538266580442e-06, 2.0397098953844215, 1.6574226538613014e-08, 2000);
}

/* Chernoff's bound for a part: the least sufficient tilt may be twelve decades below the best one. */
TEST(a_rare_part_is_bounded)
{
    struct eps_result *result = solve_within(
        job_of("{'n':7,'sampling':{'scheme':'cyclic_poisson','p':3.17311610629365e-11,'dataset_size':22,'groups':4,"
               "'truncation':{'max_batch_size':1}},'adjacency':'replace_one','noise_multiplier':1.801092482,"
               "'epsilon':9.735687979747718}"),
        10000);
    assert_true(result->delta < 1e-200 && result->bracket_lower >= result->delta * (1 - 1e-2));
    eps_result_destroy(result);
}

/* Losses of about 1e-7 but for a few far beyond epsilon. The tilted mean jumps over epsilon, and which side of the jump
 * the search for a tilt ends on says nothing about the losses that decide: the second noise multiplier had the bracket
 * [5e-37, 4e-32]. */
TEST(a_mean_that_jumps_over_epsilon_is_no_obstacle)
{
    double above = INFINITY;
    for (int i = 0; i < 6; i++) {
        struct eps_result *result = solve_within(
            job_of("{'n':6,'sampling':{'scheme':'cyclic_poisson','p':4.44e-7,'dataset_size':9,'groups':5,"
                   "'truncation':{'max_batch_size':1}},'epsilon':2.0704,'noise_multiplier':%.17g,'accountant':'pld'}",
                   1.139 + 0.04 * i),
            10000);
        assert_true(result->bracket_upper < above);
        assert_true(result->bracket_lower >= result->bracket_upper * (1 - 1e-3));
        above = result->bracket_lower;
        eps_result_destroy(result);
    }
}

/* Such a job took two minutes: the tilt of Chernoff's bound was 3e13, and its grid had cells of 1e-15. */
TEST(noise_for_a_mean_that_jumps_is_found)
{
    struct eps_result *result = solve_within(
        job_of("{'n':6,'sampling':{'scheme':'cyclic_poisson','p':4.44e-7,'dataset_size':9,'groups':5,"
               "'truncation':{'max_batch_size':1}},'epsilon':2.0704,'delta':5.2295e-85,'accountant':'pld'}"),
        20000);
    assert_true(result->bracket_lower >= result->bracket_upper * (1 - 1e-3));
    eps_result_destroy(result);
}
