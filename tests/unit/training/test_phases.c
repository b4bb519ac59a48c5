/*
 * Trainings of several phases against one mechanism that is the same, closed forms, and compositions by another method
 * (exact.h).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/epsilon.h"

#include <math.h>

#include "tests/unit/exact.h"
#include "tests/unit/solved.h"
#include "tests/unit/test.h"
#include "tests/unit/training/phases.h"

/* ------------------------------------------------------------ one phase */

static void assert_same(struct eps_job *single, struct eps_job *phased)
{
    struct eps_result *a = solved(NULL, *single), *b = solved(NULL, *phased);
    assert_true(a->epsilon == b->epsilon && a->delta == b->delta && a->noise_multiplier == b->noise_multiplier);
    assert_true(a->bracket_lower == b->bracket_lower && a->bracket_upper == b->bracket_upper);
    assert_true(a->accountant == b->accountant && a->guarantee == b->guarantee && a->solved_for == b->solved_for);
    for (int d = 0; d < EPS_DIRECTIONS; d++)
        assert_true(a->directions[d].value == b->directions[d].value &&
                    a->directions[d].accountant == b->directions[d].accountant);
    assert_int_equal(b->phases_len, 1);
    assert_non_null(b->phases[0].alone);
    assert_string_equal(b->phases[0].alone->factorization_id, a->factorization_id);
    eps_result_destroy(a);
    eps_result_destroy(b);
}

TEST(one_phase_is_its_mechanism)
{
    const struct eps_query queries[] = {{.epsilon = NAN, .delta = 1e-6, .noise_multiplier = 1.1},
                                        {.epsilon = 1.5, .delta = NAN, .noise_multiplier = 1.1},
                                        {.epsilon = 1.5, .delta = 1e-6, .noise_multiplier = NAN}};
    struct eps_phase phases[] = {poisson(300, 0.02, 1, 1), unsampled(40, 1, 1), bins(64, 16, false, 1),
                                 poisson(48, 0.05, 1, 1)};
    phases[3].mechanism.matrix.family = EPS_FAMILY_SQUARE_ROOT;
    phases[3].mechanism.matrix.bands = 3;
    for (size_t i = 0; i < sizeof phases / sizeof *phases; i++)
        for (size_t q = 0; q < sizeof queries / sizeof *queries; q++) {
            struct eps_job single, phased;
            eps_job_init(&single);
            single.query.epsilon = queries[q].epsilon;
            single.query.delta = queries[q].delta;
            single.query.noise_multiplier = queries[q].noise_multiplier;
            phased = single;
            single.mechanism = phases[i].mechanism;
            phased.phases = &phases[i];
            phased.phases_len = 1;
            assert_same(&single, &phased);
        }
}

/* With next to no noise delta is 1: of that no epsilon is asked. */
TEST(a_delta_of_1_has_no_epsilon)
{
    struct eps_phase phases[] = {unsampled(4, 1, 1), unsampled(5, 1, 1)};
    for (size_t len = 1; len <= 2; len++) {
        struct eps_job job = training_of(phases, len, 1, NAN, 1e-6);
        struct eps_result *result = solved(NULL, job);
        assert_true(result->delta == 1 && result->phases_len == len);
        for (size_t i = 0; i < len; i++)
            assert_null(result->phases[i].alone);
        eps_result_destroy(result);
    }
}

/* sigma times the scale is what the mechanism needs, and hardly more. */
TEST(the_scale_is_the_phases)
{
    struct eps_phase phase = poisson(300, 0.02, 3.7, 1);
    struct eps_job phased = training_of(&phase, 1, 1.5, 1e-6, NAN), single;
    eps_job_init(&single);
    single.mechanism = phase.mechanism;
    single.query = phased.query;
    struct eps_result *a = solved(NULL, single), *b = solved(NULL, phased);
    assert_true(b->noise_multiplier * 3.7 >= a->noise_multiplier);
    assert_true(b->noise_multiplier * 3.7 <= a->noise_multiplier * (1 + 1e-14));
    eps_result_destroy(a);
    eps_result_destroy(b);
}

/* ------------------------------------------------------------ the same in parts */

TEST(a_phase_in_two_is_the_phase)
{
    const struct eps_query queries[] = {{.epsilon = NAN, .delta = 1e-6, .noise_multiplier = 1.1},
                                        {.epsilon = 1.5, .delta = NAN, .noise_multiplier = 1.1},
                                        {.epsilon = 1.5, .delta = 1e-6, .noise_multiplier = NAN}};
    for (size_t q = 0; q < sizeof queries / sizeof *queries; q++) {
        struct eps_phase two[] = {poisson(130, 0.02, 1, 1), poisson(170, 0.02, 1, 1)}, runs = poisson(75, 0.02, 1, 4);
        struct eps_job single,
            apart = training_of(two, 2, queries[q].epsilon, queries[q].delta, queries[q].noise_multiplier);
        struct eps_job repeated =
            training_of(&runs, 1, queries[q].epsilon, queries[q].delta, queries[q].noise_multiplier);
        eps_job_init(&single);
        single.mechanism = two[0].mechanism;
        single.mechanism.n = 300;
        single.query = apart.query;
        struct eps_result *a = solved(NULL, single), *b = solved(NULL, apart), *c = solved(NULL, repeated);
        assert_agree(a, b, 1.1e-3);
        assert_agree(a, c, 1.1e-3);
        eps_result_destroy(a);
        eps_result_destroy(b);
        eps_result_destroy(c);
    }
}

/* The bracket's lower end is that of the direction with the larger epsilon, whichever it is. */
TEST(the_lower_end_is_of_the_larger_direction)
{
    struct eps_phase smaller_add = poisson(300, 0.02, 1, 2), larger_add = poisson(1024, 0.01, 1, 2);
    larger_add.mechanism.matrix.family = EPS_FAMILY_SQUARE_ROOT;
    larger_add.mechanism.matrix.bands = 4;
    larger_add.mechanism.sampling.scheme = EPS_SCHEME_B_MIN_SEP;
    struct eps_result *a = solved(NULL, training_of(&smaller_add, 1, NAN, 1e-6, 1.1));
    struct eps_result *b = solved(NULL, training_of(&larger_add, 1, NAN, 1e-6, 2));
    assert_true(a->directions[EPS_ADD].value < a->directions[EPS_REMOVE].value);
    assert_true(b->directions[EPS_ADD].value > b->directions[EPS_REMOVE].value);
    assert_true(a->bracket_lower <= a->epsilon && a->bracket_lower >= (1 - 1.1e-3) * a->epsilon);
    assert_true(b->bracket_lower <= b->epsilon && b->bracket_lower >= (1 - 1.1e-3) * b->epsilon);
    eps_result_destroy(a);
    eps_result_destroy(b);
}

/* In any order, equal ones apart or together. */
TEST(the_order_does_not_matter)
{
    struct eps_phase one[] = {poisson(100, 0.02, 1, 2), unsampled(10, 4, 1), poisson(40, 0.1, 1.5, 1)};
    struct eps_phase other[] = {poisson(40, 0.1, 1.5, 1), poisson(100, 0.02, 1, 1), unsampled(10, 4, 1),
                                poisson(100, 0.02, 1, 1)};
    struct eps_job a = training_of(one, 3, NAN, 1e-7, 1), b = training_of(other, 4, NAN, 1e-7, 1);
    struct eps_result *first = solved(NULL, a), *second = solved(NULL, b);
    assert_agree(first, second, 1.1e-3);
    assert_true(fabs(first->epsilon - second->epsilon) <= 1e-9 * first->epsilon);
    assert_int_equal(second->alone_len, 3);
    assert_ptr_equal(second->phases[1].alone, second->phases[3].alone);
    for (size_t i = 0; i < 4; i++)
        assert_true(second->phases[i].alone->epsilon < second->epsilon);
    eps_result_destroy(first);
    eps_result_destroy(second);
}

/* ------------------------------------------------------------ other ways */

/* Gaussians are one Gaussian, of the root of the sum of the squares. */
TEST(gaussians_have_a_closed_form)
{
    const double deltas[] = {1e-3, 1e-6, 1e-12, 1e-20, 1e-30};
    for (size_t i = 0; i < sizeof deltas / sizeof *deltas; i++) {
        struct eps_phase phases[] = {unsampled(10, 1, 3), unsampled(7, 2, 4)};
        struct eps_job job = training_of(phases, 2, NAN, deltas[i], 5);
        struct eps_result *result = solved(NULL, job);
        __float128 mu = sqrtq(3 + 4 / (__float128)4) / 5;
        assert_true(exact_gaussian_delta(mu, (__float128)result->bracket_upper) <= (__float128)deltas[i]);
        assert_true(exact_gaussian_delta(mu, (__float128)result->bracket_lower) >= (__float128)deltas[i]);
        assert_true(result->bracket_upper - result->bracket_lower <= 1e-3 * result->bracket_upper);
        for (int d = 0; d < EPS_DIRECTIONS; d++)
            assert_true(result->directions[d].accountant == EPS_ACCOUNTANT_GAUSSIAN);
        eps_result_destroy(result);
    }
}

/* A pair of one step, as exact.h takes it. */
struct pair_room {
    double weights[4], shifts[4];
    struct eps__pair pair;
};

static const struct eps__pair *subsampled(struct pair_room *room, double p, double mu, bool remove)
{
    struct eps__mixture with = {.weight = room->weights, .shift = room->shifts, .len = 2, .whole = true};
    struct eps__mixture without = {.weight = room->weights + 2, .shift = room->shifts + 2, .len = 1, .whole = true};
    room->weights[0] = 1 - p;
    room->weights[1] = p;
    room->shifts[0] = 0;
    room->shifts[1] = mu;
    room->weights[2] = 1;
    room->shifts[2] = 0;
    room->pair = remove ? (struct eps__pair){.numerator = with, .denominator = without}
                        : (struct eps__pair){.numerator = without, .denominator = with};
    return &room->pair;
}

/* A tree without sampling, a banded strategy in groups, and Poisson sampling, in both directions. */
TEST(mixed_phases_compose)
{
    const double p[] = {0.05, 0.1}, sigma = 1.3, scale = 2.5;
    const double epsilons[] = {0.3, 1, 2.5, 4};
    struct eps_phase phases[] = {unsampled(8, scale, 1), poisson(12, p[0], 1, 1), poisson(5, p[1], 1.5, 2)};
    phases[0].mechanism.matrix.family = EPS_FAMILY_TREE;
    phases[1].mechanism.sampling.scheme = EPS_SCHEME_CYCLIC_POISSON;
    phases[1].mechanism.matrix.family = EPS_FAMILY_SQUARE_ROOT;
    phases[1].mechanism.matrix.bands = 3;
    for (size_t i = 0; i < sizeof epsilons / sizeof *epsilons; i++) {
        struct eps_job job = training_of(phases, 3, epsilons[i], NAN, sigma);
        struct eps_result *result = solved(NULL, job);
        double mu = result->phases[0].alone->sensitivity / (sigma * scale);
        double sum[2] = {0, 0}; /* of the last rows of the banded strategy: shorter columns, taken as long ones */
        for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++) {
            struct pair_room rooms[3];
            const struct exact_power powers[] = {{subsampled(&rooms[0], 1, mu, d == EPS_REMOVE), 1},
                                                 {subsampled(&rooms[1], p[0], 1 / sigma, d == EPS_REMOVE), 4},
                                                 {subsampled(&rooms[2], p[1], 1 / (1.5 * sigma), d == EPS_REMOVE), 10}};
            struct exact_answer exact = exact_composition(powers, 3, epsilons[i]);
            assert_true(exact.error < 1e-6);
            sum[d] = exp(exact.log_delta);
            /* the rows of the third group end before their columns do: a little under the pairs above */
            assert_true(result->directions[d].value >= sum[d] * 0.9);
            assert_true(result->directions[d].value <= sum[d] * 1.002);
        }
        assert_true(result->bracket_lower <= fmax(sum[0], sum[1]) * (1 + 1e-6));
        eps_result_destroy(result);
    }
}

/* With independent noise and bins that are drawn anew, each round is on its own: rounds in two phases are as many in
 * one mechanism, whose loss distribution is computed without curves. */
TEST(redrawn_bins_compose)
{
    const double sigma = 1.2, delta = 1e-5, tolerance = 1e-4;
    struct eps_phase phases[] = {bins(8, 4, true, 2), bins(4, 4, true, 1)}, whole = bins(20, 4, true, 1);
    struct eps_job job = training_of(phases, 2, NAN, delta, sigma), single = training_of(&whole, 1, NAN, delta, sigma);
    job.query.accountant.method = single.query.accountant.method = EPS_ACCOUNTANT_PLD;
    job.query.accountant.tolerance = single.query.accountant.tolerance = tolerance;
    struct eps_result *composed = solved(NULL, job), *direct = solved(NULL, single);
    assert_agree(composed, direct, tolerance);
    eps_result_destroy(composed);
    eps_result_destroy(direct);
}

/* Poisson phases of other p and sigma, to small deltas. */
TEST(poisson_phases_compose)
{
    const double p[] = {0.01, 0.03, 0.002}, scale[] = {1, 2, 0.8}, sigma = 1.1;
    const size_t n[] = {300, 100, 1000};
    const double epsilons[] = {0.5, 1.5, 3, 6};
    struct eps_phase phases[3];
    for (int i = 0; i < 3; i++)
        phases[i] = poisson(n[i], p[i], scale[i], 1);
    for (size_t i = 0; i < sizeof epsilons / sizeof *epsilons; i++) {
        struct eps_job job = training_of(phases, 3, epsilons[i], NAN, sigma);
        struct eps_result *result = solved(NULL, job);
        double worst = 0;
        for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++) {
            struct pair_room rooms[3];
            struct exact_power powers[3];
            for (int k = 0; k < 3; k++)
                powers[k] =
                    (struct exact_power){subsampled(&rooms[k], p[k], 1 / (sigma * scale[k]), d == EPS_REMOVE), n[k]};
            struct exact_answer exact = exact_composition(powers, 3, epsilons[i]);
            double delta = exp(exact.log_delta);
            assert_true(exact.error < 1e-4);
            assert_true(result->directions[d].value >= delta * (1 - 1e-4));
            if (!(result->directions[d].value <= fmax(delta, 1e-300) * 1.0012))
                fail_msg("%d eps %g: %.9g, not %.9g", (int)d, epsilons[i], result->directions[d].value, delta);
            worst = fmax(worst, delta);
        }
        assert_true(result->bracket_lower <= worst * (1 + 1e-4) && result->bracket_upper >= worst * (1 - 1e-4));
        eps_result_destroy(result);
    }
}

/* dp_accounting 0.6's composition of the same three (remove, on a grid of 1e-4, rounded up) lies within the bracket
 * and its grid. */
TEST(poisson_phases_are_the_peers)
{
    const double deltas[] = {1e-4, 1e-6, 1e-9}, peers[] = {0.8944171012, 1.2783707630, 1.8683781338};
    struct eps_phase phases[] = {poisson(300, 0.01, 1, 1), poisson(100, 0.03, 2, 1), poisson(1000, 0.002, 0.8, 1)};
    for (size_t i = 0; i < 3; i++) {
        struct eps_job job = training_of(phases, 3, NAN, deltas[i], 1.1);
        job.mechanism.adjacency = EPS_ADJACENCY_ADD_REMOVE;
        struct eps_result *result = solved(NULL, job);
        assert_true(result->bracket_lower <= peers[i] && result->epsilon <= peers[i] * 1.001);
        assert_true(result->epsilon >= peers[i] - 1e-4);
        eps_result_destroy(result);
    }
}
