/*
 * Trainings of several phases against one mechanism that is the same, closed forms, compositions by another method
 * (exact.h) and enumeration; and the largest n and count against jobs that give theirs.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/epsilon.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/training/curves.h"
#include "tests/unit/exact.h"
#include "tests/unit/solved.h"
#include "tests/unit/test.h"
#include "tests/unit/trainings.h"

static struct eps_phase poisson(size_t n, double p, double scale, size_t count)
{
    struct eps_phase phase = poisson_phase(n, p);
    phase.noise_scale = scale;
    phase.count = count;
    return phase;
}

static struct eps_phase unsampled(size_t n, double scale, size_t count)
{
    struct eps_phase phase = poisson(n, NAN, scale, count);
    phase.mechanism.sampling.scheme = EPS_SCHEME_NONE;
    return phase;
}

static struct eps_phase bins(size_t n, size_t len, bool redraw, size_t count)
{
    struct eps_phase phase = bins_phase(n, len);
    phase.mechanism.sampling.redraw = redraw;
    phase.count = count;
    return phase;
}

/* The brackets of the two have a point in common, and neither is wider than the tolerance. */
static void assert_agree(const struct eps_result *a, const struct eps_result *b, double tolerance)
{
    if (!(a->bracket_lower <= b->bracket_upper && b->bracket_lower <= a->bracket_upper))
        fail_msg("[%.12g, %.12g] and [%.12g, %.12g]", a->bracket_lower, a->bracket_upper, b->bracket_lower,
                 b->bracket_upper);
    assert_true(a->bracket_upper - a->bracket_lower <= tolerance * a->bracket_upper);
    assert_true(b->bracket_upper - b->bracket_lower <= tolerance * b->bracket_upper);
    for (int d = 0; d < EPS_DIRECTIONS; d++)
        assert_true(fabs(a->directions[d].value - b->directions[d].value) <= tolerance * b->directions[d].value);
}

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

/* ------------------------------------------------------------ curves */

/* Every bin drawn anew in its epoch: phases of one epoch each are the same law. */
TEST(epochs_as_phases_are_drawn_anew)
{
    struct eps_phase epochs = bins(10, 10, false, 3), whole = bins(30, 10, true, 1);
    struct eps_job apart = training_of(&epochs, 1, NAN, 1e-6, 0.9), together = training_of(&whole, 1, NAN, 1e-6, 0.9);
    struct eps_result *a = solved(NULL, apart), *b = solved(NULL, together);
    assert_agree(a, b, 1.1e-3);
    eps_result_destroy(a);
    eps_result_destroy(b);
}

/* A Gaussian beside bins: once by the curve of the steps, once as one more epoch of a single bin. */
TEST(steps_beside_bins)
{
    struct eps_phase phases[] = {bins(20, 10, false, 1), unsampled(5, 2, 1)},
                     alike[] = {bins(20, 10, false, 1), bins(1, 1, false, 1)};
    alike[1].noise_scale = 2;
    struct eps_job one = training_of(phases, 2, NAN, 1e-6, 1), other = training_of(alike, 2, NAN, 1e-6, 1);
    struct eps_result *a = solved(NULL, one), *b = solved(NULL, other);
    assert_agree(a, b, 1.1e-3);
    eps_result_destroy(a);
    eps_result_destroy(b);
}

/* Poisson steps beside a Gaussian, which is a bin by itself: once by the curve of the steps, whose directions
 * differ, once as steps. */
TEST(sampled_steps_beside_bins)
{
    static const struct {
        size_t n;
        double p, epsilon, delta;
    } cases[] = {{60, 0.05, NAN, 1e-6}, {60, 0.05, 0.5, NAN}, {2, 0.3, NAN, 0.05}};
    for (int i = 0; i < 3;
         i++) { /* at a small epsilon half of what counts is under loss 0; few steps have a least loss */
        struct eps_phase curves[] = {poisson(cases[i].n, cases[i].p, 1, 1), bins(1, 1, false, 1)},
                         steps[] = {curves[0], unsampled(1, 3, 1)};
        curves[1].noise_scale = 3;
        struct eps_job one = training_of(curves, 2, cases[i].epsilon, cases[i].delta, 0.8),
                       other = training_of(steps, 2, cases[i].epsilon, cases[i].delta, 0.8);
        one.query.accountant.method = other.query.accountant.method = EPS_ACCOUNTANT_PLD; /* and not gaussian */
        struct eps_result *a = solved(NULL, one), *b = solved(NULL, other);
        assert_agree(a, b, 1.1e-3);
        eps_result_destroy(a);
        eps_result_destroy(b);
    }
}

/* A Gaussian by its curve beside others of so much more noise that no grid serves both: composed they are one
 * Gaussian, which the answer is near to where they are few, and never under. */
TEST(curves_of_all_sizes_compose)
{
    const double scales[] = {400, 1e4, 400, 1e3};
    const size_t counts[] = {1, 3, 10000, 1};
    for (size_t i = 0; i < 4; i++) {
        struct eps_phase phases[] = {bins(1, 1, false, 1), bins(1, 1, false, counts[i]), unsampled(3, 1e6, 1)};
        struct eps_phase all = unsampled(1, 1 / sqrt(1 + (double)counts[i] / (scales[i] * scales[i]) + 3e-12), 1);
        phases[1].noise_scale = scales[i];
        struct eps_job apart = training_of(phases, i == 3 ? 3 : 2, NAN, 1e-6, 1.5),
                       one = training_of(&all, 1, NAN, 1e-6, 1.5);
        struct eps_result *found = solved(NULL, apart), *exact = solved(NULL, one);
        assert_true(found->bracket_lower <= exact->epsilon && found->epsilon >= exact->bracket_lower);
        assert_true(found->epsilon <= exact->epsilon * (counts[i] > 3 ? 1.5 : 1.001));
        assert_true(counts[i] > 3 || found->bracket_upper <= 1.001 * found->bracket_lower);
        apart.query.epsilon = one.query.epsilon = 2;
        apart.query.delta = one.query.delta = NAN;
        struct eps_result *deltas[] = {solved(NULL, apart), solved(NULL, one)};
        assert_true(deltas[0]->delta >= deltas[1]->bracket_lower && deltas[0]->bracket_lower <= deltas[1]->delta);
        eps_result_destroy(deltas[0]);
        eps_result_destroy(deltas[1]);
        eps_result_destroy(found);
        eps_result_destroy(exact);
    }
}

/* Truncated batches go by their profiles: at every loss the better of two pairs, where the mechanism takes one of
 * them throughout. */
TEST(truncated_phases_compose)
{
    struct eps_phase two[2] = {poisson(60, 0.01, 1, 1), poisson(40, 0.01, 1, 1)};
    for (int i = 0; i < 2; i++) {
        struct eps_sampling *sampling = &two[i].mechanism.sampling;
        sampling->truncation = true;
        sampling->dataset_size = 1000;
        sampling->max_batch_size = 20;
    }
    struct eps_job single, apart = training_of(two, 2, NAN, 1e-6, 1), drawn;
    eps_job_init(&single);
    single.mechanism = two[0].mechanism;
    single.mechanism.n = 100;
    single.query = apart.query;
    drawn = single;
    drawn.mechanism.sampling.truncation = false;
    drawn.mechanism.sampling.max_batch_size = 0;
    struct eps_result *a = solved(NULL, single), *b = solved(NULL, apart), *c = solved(NULL, drawn);
    assert_true(b->epsilon <= a->epsilon * 1.001 && b->epsilon >= a->epsilon * 0.98);
    assert_true(b->epsilon >= c->bracket_lower); /* a batch that is hardly ever full */
    eps_result_destroy(a);
    eps_result_destroy(b);
    eps_result_destroy(c);
}

/* Of each run another part of the data set may be the worst: no less than where it is one part throughout, and no
 * more than a Gaussian of the largest norms would do. */
TEST(parts_compose)
{
    static const double rows[16] = {1, 0, 0, 0, 0, 0.9, 0, 0, 0, 0, 0.5, 0, 0, 0, 0, 0.8};
    static const double large[16] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0.8, 0, 0, 0, 0, 0.8};
    struct eps_phase phase = poisson(4, 0.1, 1, 2);
    phase.mechanism.sampling.scheme = EPS_SCHEME_CYCLIC_POISSON;
    phase.mechanism.sampling.groups = 2;
    phase.mechanism.matrix.family = EPS_FAMILY_DENSE;
    phase.mechanism.matrix.normalization = EPS_NORMALIZATION_NONE;
    phase.mechanism.matrix.rows = rows;
    phase.mechanism.matrix.rows_n = 4;
    struct eps_job apart = training_of(&phase, 1, NAN, 1e-6, 1), stamped;
    eps_job_init(&stamped);
    stamped.mechanism = phase.mechanism;
    stamped.mechanism.n = 8;
    stamped.mechanism.matrix.stamps = 2;
    stamped.query = apart.query;
    struct eps_result *a = solved(NULL, stamped), *b = solved(NULL, apart);
    assert_true(b->epsilon >= a->bracket_lower);
    eps_result_destroy(a);
    stamped.mechanism.matrix.rows = large;
    a = solved(NULL, stamped);
    assert_true(b->bracket_lower <= a->epsilon);
    assert_true(b->epsilon - b->bracket_lower <= 2e-3 * b->epsilon);
    eps_result_destroy(a);
    eps_result_destroy(b);
}

/* Bad events of both accountants add up: no less than the law that is known, and not much more than conditional
 * composition makes of one. */
TEST(bad_events_add_up)
{
    struct eps_phase phases[] = {bins(100, 100, false, 1), unsampled(5, 3, 1)};
    struct eps_job job = training_of(phases, 2, NAN, 1e-5, 2), law = job, alone = training_of(phases, 1, NAN, 1e-5, 2);
    job.query.accountant.method = EPS_ACCOUNTANT_AUTO;
    phases[0].mechanism.matrix.family = EPS_FAMILY_SQUARE_ROOT;
    phases[0].mechanism.matrix.bands = 4;
    struct eps_result *whole = solved(NULL, job), *one = solved(NULL, alone);
    phases[0].mechanism.matrix.family = EPS_FAMILY_IDENTITY;
    phases[0].mechanism.matrix.bands = 0;
    struct eps_result *less = solved(NULL, law);
    assert_true(whole->epsilon > one->epsilon && whole->epsilon > less->bracket_lower);
    assert_true(whole->epsilon < 2 * (one->epsilon + 1.5));
    eps_result_destroy(whole);
    eps_result_destroy(one);
    eps_result_destroy(less);
}

/* ------------------------------------------------------------ mmcc, by enumeration */

/*
 * Two steps of a strategy of two bands under Poisson sampling, so that there are four patterns, and then a Gaussian.
 * The truth is a double integral over the first mechanism's outputs of the second one's closed form.
 */
TEST(mmcc_phases_hold_against_enumeration)
{
    const double p = 0.3, sigma = 1.2, mu = 0.5;
    const double epsilons[] = {0.2, 0.7, 1.5};
    struct eps_phase phases[] = {poisson(2, p, 1, 1), poisson(1, 1, 1 / (sigma * mu), 1)}; /* the second a Gaussian */
    const double c = 0.5 / sqrt(1.25), b = 1 / sqrt(1.25);
    const double coefficients[] = {b, c};
    phases[0].mechanism.matrix.family = EPS_FAMILY_TOEPLITZ;
    phases[0].mechanism.matrix.coefficients = coefficients;
    phases[0].mechanism.matrix.coefficients_len = 2;
    phases[0].mechanism.matrix.normalization = EPS_NORMALIZATION_NONE;
    for (size_t i = 0; i < sizeof epsilons / sizeof *epsilons; i++) {
        struct eps_job job = training_of(phases, 2, epsilons[i], NAN, sigma);
        job.query.accountant.method = EPS_ACCOUNTANT_MMCC;
        struct eps_result *result = solved(NULL, job);
        const double means[4][2] = {{0, 0}, {b, c}, {0, b}, {b, c + b}};
        const double weights[4] = {(1 - p) * (1 - p), p * (1 - p), p * (1 - p), p * p};
        double truth[2] = {0, 0}, h = 0.08;
        for (double x = -9; x < 12; x += h)
            for (double y = -9; y < 12; y += h) {
                double with = 0, without = exp(-0.5 * (x * x + y * y)) / (2 * M_PI);
                for (int k = 0; k < 4; k++)
                    with += weights[k] *
                            exp(-0.5 * (pow(x - means[k][0] / sigma, 2) + pow(y - means[k][1] / sigma, 2))) /
                            (2 * M_PI);
                for (int d = 0; d < 2; d++) {
                    double mass = d == EPS_REMOVE ? with : without,
                           loss = log(with / without) * (d == EPS_REMOVE ? 1 : -1);
                    double at = epsilons[i] - loss;
                    double delta =
                        0.5 * erfc((at / mu - mu / 2) / M_SQRT2) - exp(at) * 0.5 * erfc((at / mu + mu / 2) / M_SQRT2);
                    truth[d] += mass * delta * h * h;
                }
            }
        for (int d = 0; d < 2; d++) {
            assert_true(result->directions[d].value >= truth[d]);
            assert_true(result->directions[d].value <= truth[d] * 4); /* the rows' bounds, and not phases', are loose */
        }
        assert_int_equal(result->phases[0].composed[EPS_REMOVE], EPS_ACCOUNTANT_MMCC);
        eps_result_destroy(result);
    }
}

/* Two runs of rows are no better than one run of all of them twice, stamped. */
TEST(rows_are_run_again)
{
    struct eps_phase twice = poisson(24, 0.1, 1, 2);
    struct eps_job runs = training_of(&twice, 1, NAN, 1e-5, 2), stamped;
    twice.mechanism.matrix.family = EPS_FAMILY_SQUARE_ROOT;
    twice.mechanism.matrix.bands = 3;
    runs.query.accountant.method = EPS_ACCOUNTANT_MMCC;
    runs.query.accountant.bad_event_share = 0.5;
    eps_job_init(&stamped);
    stamped.mechanism = twice.mechanism;
    stamped.mechanism.n = 48;
    stamped.mechanism.matrix.stamps = 2;
    stamped.query = runs.query;
    struct eps_result *a = solved(NULL, stamped), *b = solved(NULL, runs);
    assert_agree(a, b, 2e-3);
    eps_result_destroy(a);
    eps_result_destroy(b);
}

/* Half of delta is spent, whoever spends it: the bad events of ten runs of three pairs each are those of thirty,
 * and a delta that is hardly over what is spent has no finite epsilon that spends more. */
TEST(what_is_spent_is_shared)
{
    struct eps_phase runs = poisson(24, 0.1, 1, 10);
    struct eps_job job = training_of(&runs, 1, NAN, 1e-5, 2), stamped;
    runs.mechanism.matrix.family = EPS_FAMILY_SQUARE_ROOT;
    runs.mechanism.matrix.bands = 3;
    job.query.accountant.method = EPS_ACCOUNTANT_MMCC;
    job.query.accountant.bad_event_share = 0.9;
    eps_job_init(&stamped);
    stamped.mechanism = runs.mechanism;
    stamped.mechanism.n = 240;
    stamped.mechanism.matrix.stamps = 10;
    stamped.query = job.query;
    struct eps_result *a = solved(NULL, stamped), *b = solved(NULL, job);
    assert_agree(a, b, 2e-3);
    assert_true(fabs(b->directions[EPS_REMOVE].bad_event_share - 0.9) < 1e-3);
    eps_result_destroy(a);
    eps_result_destroy(b);
}

/* The curve of a phase that spends: its profile's bound, less what is spent, and no more than that; where little
 * else is left, a part of it too much or too little shows. */
TEST(a_curve_is_what_is_left)
{
    const double spent = -14, epsilons[] = {0, 1.1, 2.5, 3, 3.5, 4};
    struct eps_phase phase = bins(40, 40, false, 2);
    struct eps_job job = training_of(&phase, 1, NAN, 1e-5, 1.5);
    struct eps__training *open = NULL;
    struct eps_error error = {0};
    struct eps__phases_plan plan = {
        .use = EPS_REMOVE, .direction = EPS_REMOVE, .sigma = 1.5, .finer = 1, .log_delta1 = spent, .proven = true};
    phase.mechanism.matrix.family = EPS_FAMILY_SQUARE_ROOT;
    phase.mechanism.matrix.bands = 4;
    job.query.accountant.method = EPS_ACCOUNTANT_CONDITIONAL_COMPOSITION;
    eps_job_defaults(&job);
    assert_int_equal(eps__training_open(&open, &error, NULL, &job, false), EPS_OK);
    assert_int_equal(eps__training_begin(open, &error), EPS_OK);
    struct eps__phase *own = &open->phases[0];
    own->job.query.accountant.bad_event_share = 0.5;
    struct eps__curve *curve = eps__curve_phase(own, &plan);
    const struct eps__accuracy accuracy = {EPS_SOLVE_DELTA, 1e-2, spent + M_LN2};
    struct eps__profile *profile = NULL;
    assert_int_equal(own->accountants[EPS_REMOVE]->open(&own->setting, 1.5, &accuracy, &profile, &error), EPS_OK);
    for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++)
        for (size_t i = 0; i < sizeof epsilons / sizeof *epsilons; i++) {
            double left[2], whole[2];
            for (enum eps__estimate estimate = EPS__UPPER; estimate <= EPS__LOWER; estimate++) {
                assert_int_equal(
                    curve->class->log_delta(curve, d != EPS_REMOVE, estimate, epsilons[i], 1e-2, &left[estimate]),
                    EPS_OK);
                assert_int_equal(profile->class->log_delta(profile, d, estimate, epsilons[i], &whole[estimate], &error),
                                 EPS_OK);
                left[estimate] = exp(left[estimate]);
                whole[estimate] = exp(whole[estimate]);
            }
            double delta1 = profile->class->bad_event_share(profile, d, 0), rounding = 1e-12;
            assert_true(fabs(log(delta1) - spent) < 1e-9);
            assert_true(left[EPS__UPPER] >= whole[EPS__LOWER] - delta1 - rounding);
            assert_true(left[EPS__UPPER] <= (whole[EPS__UPPER] - delta1) * 1.02 + rounding);
            assert_true(left[EPS__LOWER] <= whole[EPS__UPPER] - delta1 + rounding);
            assert_true(left[EPS__LOWER] >= (whole[EPS__LOWER] - delta1) * 0.98 - rounding);
            assert_true(i < 3 || whole[EPS__UPPER] < 1.5 * delta1);
        }
    profile->class->destroy(profile);
    curve->class->destroy(curve);
    eps__training_close(open);
}

/* ------------------------------------------------------------ how many more */

/* By jobs that say their n, to a tolerance that tells them apart. */
static double delta_of(struct eps_mechanism mechanism, size_t n, double epsilon, double sigma)
{
    struct eps_job job;
    eps_job_init(&job);
    job.mechanism = mechanism;
    job.mechanism.n = n;
    job.query.epsilon = epsilon;
    job.query.noise_multiplier = sigma;
    job.query.accountant.tolerance = 1e-6;
    struct eps_result *result = solved(NULL, job);
    double delta = result->delta;
    eps_result_destroy(result);
    return delta;
}

TEST(the_largest_n_is_the_largest)
{
    for (int groups = 1; groups <= 5; groups += 4) {
        struct eps_job job;
        eps_job_init(&job);
        job.mechanism.n = EPS_LARGEST;
        job.mechanism.sampling.p = 0.02;
        if (groups > 1) {
            job.mechanism.sampling.scheme = EPS_SCHEME_CYCLIC_POISSON;
            job.mechanism.sampling.groups = (size_t)groups;
        }
        job.query = (struct eps_query){
            .epsilon = 1.5, .delta = 1e-6, .noise_multiplier = 1.2, .accountant = job.query.accountant};
        struct eps_result *result = solved(NULL, job);
        size_t n = result->largest;
        assert_int_equal(result->solved_for, EPS_SOLVE_N);
        assert_true(n > 10 && n % (size_t)groups == 0);
        assert_true(result->bracket_lower == (double)n && result->bracket_upper == (double)n);
        assert_true(delta_of(job.mechanism, n, 1.5, 1.2) <= 1e-6);
        assert_true(delta_of(job.mechanism, n + 1, 1.5, 1.2) > 1e-6);
        eps_result_destroy(result);
    }
}

/* What the largest n would be refused for it is refused for beforehand, whether any keeps the promise or none. */
TEST(the_largest_n_is_audited_or_refused)
{
    for (int keeps = 0; keeps < 2; keeps++) {
        struct eps_job job;
        struct eps_error error = {0};
        eps_job_init(&job);
        job.mechanism.n = EPS_LARGEST;
        job.mechanism.sampling = (struct eps_sampling){.scheme = EPS_SCHEME_CYCLIC_POISSON,
                                                       .p = 0.5,
                                                       .dataset_size = 221,
                                                       .groups = 3,
                                                       .examples_per_user = 1,
                                                       .truncation = true,
                                                       .max_batch_size = 2};
        job.query.epsilon = keeps ? 100 : 1e-12;
        job.query.delta = 1e-8;
        job.query.noise_multiplier = 20;
        job.query.accountant.audit = 512;
        eps_job_defaults(&job);
        assert_int_equal(eps_job_serves(NULL, &error, &job, NULL, NULL), EPS_UNSUPPORTED);
        assert_refused(job, EPS_UNSUPPORTED, "/accountant/audit");
    }
}

TEST(the_largest_count_is_the_largest)
{
    struct eps_phase phases[] = {poisson(200, 0.02, 1, 1), poisson(20, 0.05, 2, EPS_LARGEST)};
    struct eps_job job = training_of(phases, 2, 2, 1e-6, 1.1);
    struct eps_result *result = solved(NULL, job);
    size_t count = result->largest;
    assert_int_equal(result->solved_for, EPS_SOLVE_RUNS);
    assert_true(count > 2 && result->bracket_lower == (double)count && result->bracket_upper == (double)count);
    assert_int_equal(result->phases[1].count, count);
    eps_result_destroy(result);
    for (size_t more = 0; more < 2; more++) {
        phases[1].count = count + more;
        struct eps_job given = training_of(phases, 2, 2, NAN, 1.1);
        given.query.accountant.tolerance = 1e-6;
        result = solved(NULL, given);
        assert_true(more ? result->bracket_lower > 1e-6 : result->delta <= 1e-6);
        eps_result_destroy(result);
    }
}

/* Gaussians again: the count is the largest k with k mu^2 under what is allowed. */
TEST(the_largest_count_of_gaussians)
{
    struct eps_phase phase = unsampled(10, 1, EPS_LARGEST);
    struct eps_job job = training_of(&phase, 1, 1, 1e-6, 40);
    struct eps_result *result = solved(NULL, job);
    size_t count = result->largest;
    __float128 sigma = 40;
    assert_true(exact_gaussian_delta(sqrtq((__float128)count) / sigma, 1) <= (__float128)1e-6);
    assert_true(exact_gaussian_delta(sqrtq((__float128)count + 1) / sigma, 1) > (__float128)1e-6);
    eps_result_destroy(result);
    /* none at all */
    job.query.noise_multiplier = 0.5;
    result = solved(NULL, job);
    assert_int_equal(result->largest, 0);
    eps_result_destroy(result);
}

/* What stands beside it breaks the promise already: no number of runs keeps it. */
/* Then no count keeps it: [0, 1), and the epsilon is that of the others. */
TEST(what_is_beside_it_may_break_the_promise)
{
    struct eps_phase phases[] = {poisson(2000, 0.05, 1, 1), poisson(20, 0.05, 2, EPS_LARGEST)};
    struct eps_job job = training_of(phases, 2, 1, 1e-6, 1), others = training_of(phases, 1, NAN, 1e-6, 1);
    struct eps_result *result = solved(NULL, job), *rest = solved(NULL, others);
    assert_int_equal(result->largest, 0);
    assert_true(result->bracket_lower == 0 && result->bracket_upper == 0);
    assert_int_equal(result->phases[1].count, 0);
    assert_true(result->epsilon > 1);
    assert_true(result->epsilon >= rest->bracket_lower && result->epsilon <= rest->epsilon * (1 + 1.1e-3));
    assert_non_null(strstr(result->hints[0], "no count does"));
    /* What the others cost they keep, and a hair less they do not. */
    job.query.epsilon = rest->epsilon;
    struct eps_result *above = solved(NULL, job);
    job.query.epsilon = rest->bracket_lower * 0.999;
    struct eps_result *below = solved(NULL, job);
    assert_true(above->epsilon == rest->epsilon && above->bracket_upper <= 2);
    assert_true(below->epsilon > job.query.epsilon && below->largest == 0 && below->bracket_upper == 0);
    eps_result_destroy(above);
    eps_result_destroy(below);
    eps_result_destroy(rest);
    eps_result_destroy(result);
}

/* ------------------------------------------------------------ shares, limits, refusals */

TEST(shares_are_what_is_left_out)
{
    struct eps_phase phases[] = {poisson(300, 0.02, 1, 1), poisson(50, 0.05, 1, 1), poisson(10, 0.01, 3, 1)};
    struct eps_job job = training_of(phases, 3, NAN, 1e-6, 1);
    struct eps_result *whole = solved(NULL, job);
    for (size_t i = 0; i < 3; i++) {
        struct eps_phase left[2] = {phases[i == 0], phases[i == 2 ? 1 : 2]};
        struct eps_job rest = training_of(left, 2, NAN, 1e-6, 1);
        struct eps_result *without = solved(NULL, rest);
        assert_true(fabs(whole->phases[i].share - (1 - without->epsilon / whole->epsilon)) < 2e-3);
        eps_result_destroy(without);
    }
    eps_result_destroy(whole);
}

/* So many phases that shares are those of Gaussians; Gaussians are exact so. */
TEST(many_shares_are_those_of_gaussians)
{
    struct eps_phase phases[20];
    double squares = 0;
    for (int i = 0; i < 20; i++) {
        phases[i] = unsampled(3, 1 + 0.1 * i, 1);
        squares += 1 / ((1 + 0.1 * i) * (1 + 0.1 * i));
    }
    struct eps_job job = training_of(phases, 20, NAN, 1e-6, 10), one;
    struct eps_result *whole = solved(NULL, job);
    eps_job_init(&one);
    one.mechanism = phases[0].mechanism;
    one.query.delta = 1e-6;
    one.query.noise_multiplier = 10 / sqrt(squares - 1); /* but for the first */
    struct eps_result *without = solved(NULL, one);
    assert_true(fabs(whole->phases[0].share - (1 - without->epsilon / whole->epsilon)) < 2e-3);
    eps_result_destroy(whole);
    eps_result_destroy(without);
}

/* Of so many, each one's own epsilon has no lower end, but is a bound and within the tolerance it was sought with. */
TEST(each_of_many_is_answered_alone)
{
    struct eps_phase phases[18];
    for (int i = 0; i < 18; i++)
        phases[i] = i % 3 == 0   ? poisson(40 + (size_t)i, 0.05, 1, 1 + (size_t)i % 2)
                    : i % 3 == 1 ? unsampled(3, 2 + 0.1 * i, 1 + (size_t)i % 2)
                                 : bins(20, 10, false, 1);
    for (int i = 2; i < 18; i += 3)
        phases[i].noise_scale = 1 + 0.02 * i;
    struct eps_job job = training_of(phases, 18, NAN, 1e-6, 2);
    struct eps_result *whole = solved(NULL, job);
    for (int i = 0; i < 18; i++) {
        struct eps_job one = training_of(&phases[i], 1, NAN, 1e-6, 2);
        const struct eps_result *alone = whole->phases[i].alone;
        struct eps_result *exact = solved(NULL, one);
        assert_true(alone->epsilon >= exact->bracket_lower && alone->epsilon <= exact->epsilon * 1.01);
        assert_true(alone->bracket_lower == 0 && alone->bracket_upper == alone->epsilon);
        eps_result_destroy(exact);
    }
    for (size_t i = 0; i < whole->hints_len; i++)
        assert_null(strstr(whole->hints[i], "bracket"));
    eps_result_destroy(whole);
}

/* Hardly anyone ever takes part: no noise is needed in all phases together, as in one of all their steps. */
TEST(nobody_takes_part)
{
    struct eps_phase two[] = {poisson(60, 1e-9, 1, 1), poisson(20, 1e-9, 2, 2)};
    struct eps_job job = training_of(two, 2, 0.5, NAN, 0.1);
    struct eps_result *result = solved(NULL, job);
    assert_true(result->delta <= 100 * 1e-9 * (1 + 1e-6) && result->delta > 50 * 1e-9);
    eps_result_destroy(result);
    struct eps__absence whole = eps__absence_nowhere(), one = eps__sampling_absence(&two[1].mechanism);
    eps__absence_join(&whole, &one, 2);
    struct eps__interval drawn = eps__absence_log_delta(&whole, EPS_REMOVE, 0.5);
    assert_true(exp(drawn.upper) >= 40e-9 * (1 - 1e-7) && exp(drawn.upper) <= 40e-9 * (1 + 1e-7));
    assert_true(drawn.lower <= drawn.upper && drawn.upper - drawn.lower < 1e-6);
    job = training_of(two, 2, 0.5, 1.0000001e-7, NAN);
    result = solved(NULL, job);
    assert_true(result->noise_multiplier == 0);
    eps_result_destroy(result);
}

static void refused(struct eps_job *job, enum eps_status status, const char *pointer, const char *word)
{
    eps_job_defaults(job);
    struct eps_error error = assert_refused(*job, status, pointer);
    if (!strstr(error.message, word))
        fail_msg("%s says nothing about %s", error.message, word);
    assert_int_equal(eps_job_serves(NULL, &error, job, NULL, NULL), status);
}

/* What is found may be asked for again: of the job and of each phase it is in the range of noise multipliers. */
TEST(the_noise_that_is_found_leaves_every_phase_in_its_range)
{
    for (size_t len = 1; len <= 2; len++) {
        struct eps_phase phases[] = {unsampled(1, 10, 1), unsampled(1, 1, 1)};
        struct eps_job job = training_of(phases, len, 0, 1e-8, NAN);
        struct eps_result *result = solved(NULL, job);
        job.query.noise_multiplier = result->noise_multiplier;
        job.query.epsilon = NAN;
        assert_int_equal(eps_job_check(&job, 0, NULL, NULL), 0);
        eps_result_destroy(result);
        phases[0].noise_scale = len == 1 ? 1e-6 : 1e3;
        job = training_of(phases, len, 0, 1e-8, NAN);
        struct eps_error error = assert_refused(job, EPS_UNATTAINABLE, "/delta");
        assert_non_null(strstr(error.message, "leaves every phase's in [1e-9, 1e9]"));
    }
}

TEST(what_nobody_derived_is_refused)
{
    struct eps_phase phases[] = {poisson(10, 0.1, 1, 1), poisson(20, 0.1, 1, 1)};
    struct eps_job job = training_of(phases, 2, NAN, 1e-6, 1);
    job.query.accountant.method = EPS_ACCOUNTANT_MONTE_CARLO;
    refused(&job, EPS_UNSUPPORTED, "/phases/0/accountant/method",
            "or name pld, renyi, mmcc or gaussian; conditional_composition serves");
    job = training_of(phases, 2, NAN, 1e-6, 1);
    job.query.accountant.audit = 100;
    refused(&job, EPS_INVALID, "/accountant/audit", "phases");
    job = training_of(phases, 2, NAN, 1e-6, 1);
    phases[1].noise_scale = 0;
    refused(&job, EPS_INVALID, "/phases/1/noise_scale", "[1e-6, 1e6]");
    phases[1] = poisson(20, 0.1, 1, 0);
    refused(&job, EPS_INVALID, "/phases/1/count", "at least 1");
    phases[1] = poisson(0, 0.1, 1, 1);
    refused(&job, EPS_INVALID, "/phases/1/n", "steps");
    phases[1] = poisson(EPS_LARGEST, 0.1, 1, 1);
    refused(&job, EPS_INVALID, "/phases/1/n", "count");
    phases[0].count = phases[1].count = EPS_LARGEST;
    phases[1] = poisson(20, 0.1, 1, EPS_LARGEST);
    job.query.epsilon = 1;
    refused(&job, EPS_INVALID, "/phases", "one phase");
    phases[0].count = 1;
    job.query.epsilon = NAN;
    refused(&job, EPS_INVALID, "/phases", "all of");
    phases[1] = poisson(20, 0.1, 1, 1);
    job.mechanism.n = 10;
    refused(&job, EPS_INVALID, "/phases", "replaces n");
    job = training_of(phases, 2, NAN, 1e-6, 1);
    job.query.accountant.method = EPS_ACCOUNTANT_MMCC;
    phases[1] = bins(20, 10, false, 1);
    refused(&job, EPS_UNSUPPORTED, "/phases/1/sampling/scheme", "phase 1");
    struct eps_job largest;
    eps_job_init(&largest);
    largest.mechanism.n = EPS_LARGEST;
    largest.mechanism.sampling.scheme = EPS_SCHEME_NONE;
    largest.query.epsilon = largest.query.delta = 1e-3;
    largest.query.noise_multiplier = 1;
    refused(&largest, EPS_INVALID, "/n", "poisson");
}

/* A user's examples are the job's matter: k in every phase. */
TEST(groups_of_examples_compose)
{
    struct eps_phase two[] = {poisson(30, 0.02, 1, 1), poisson(70, 0.02, 1, 1)};
    struct eps_job single, apart = training_of(two, 2, NAN, 1e-6, 2);
    apart.mechanism.sampling.examples_per_user = 3;
    eps_job_init(&single);
    single.mechanism = two[0].mechanism;
    single.mechanism.n = 100;
    single.mechanism.sampling.examples_per_user = 3;
    single.query = apart.query;
    struct eps_result *a = solved(NULL, single), *b = solved(NULL, apart);
    assert_agree(a, b, 1.1e-3);
    eps_result_destroy(a);
    eps_result_destroy(b);
}

/* What is spent by a step is what a job that ends there answers; the last point is the answer. */
TEST(spending_is_that_of_what_was_run)
{
    struct eps_phase phases[] = {poisson(100, 0.02, 1, 2), unsampled(50, 6, 2)}, until[] = {phases[0], phases[0]};
    struct eps_job job = training_of(phases, 2, NAN, 1e-6, 1);
    struct eps_spend_point *points = NULL;
    struct eps_error error = {0};
    size_t len, ends = 0;
    eps_job_defaults(&job);
    assert_int_equal(eps_spend(NULL, &points, &len, &error, &job, 1, 1e-6), EPS_OK);
    struct eps_result *whole = solved(NULL, job);
    assert_true(len > 100 && points[len - 1].step == 300);
    assert_true(fabs(points[len - 1].epsilon - whole->epsilon) <= 1e-2 * whole->epsilon);
    assert_true(points[len - 1].epsilon >= whole->bracket_lower);
    for (size_t i = 0; i < len; i++) {
        assert_true(i == 0 ||
                    (points[i].step > points[i - 1].step && points[i].epsilon >= points[i - 1].epsilon * 0.99));
        assert_true(points[i].step <= 200 || points[i].step == 250 || points[i].step == 300); /* a run is one release */
        ends += points[i].step == 200;
        if (i % 40 != 7 || points[i].step >= 200)
            continue;
        until[0].count = points[i].step > 100 ? 1 : 0;
        until[1].count = 1;
        until[1].mechanism.n = points[i].step - 100 * until[0].count;
        struct eps_job partly = training_of(until + (until[0].count == 0), 1 + until[0].count, NAN, 1e-6, 1);
        struct eps_result *result = solved(NULL, partly);
        assert_true(points[i].epsilon >= result->bracket_lower && points[i].epsilon <= result->epsilon * 1.01 + 1e-6);
        eps_result_destroy(result);
    }
    assert_int_equal(ends, 1);
    free(points);
    eps_result_destroy(whole);
}

/* The epsilon that a reader takes for a step: that of the first point that is not before it. */
static double spent_by(const struct eps_spend_point *points, size_t len, uint64_t step)
{
    for (size_t i = 0; i < len; i++)
        if (points[i].step >= step)
            return points[i].epsilon;
    fail_msg("no point from step %llu on", (unsigned long long)step);
    return NAN;
}

/* On a straight line between the points, from nothing at step 0. */
static double on_the_line(const struct eps_spend_point *points, size_t len, uint64_t step)
{
    struct eps_spend_point before = {0, 0};
    for (size_t i = 0; i < len && points[i].step < step; i++)
        before = points[i];
    double share = 0, after = spent_by(points, len, step);
    for (size_t i = 0; i < len; i++)
        if (points[i].step >= step) {
            share = (double)(step - before.step) / (double)(points[i].step - before.step);
            break;
        }
    return before.epsilon + share * (after - before.epsilon);
}

/* At every step of the short phases, against the job of the training up to there. lines_fail: whether a straight
 * line falls below it somewhere. */
static void assert_no_step_costs_more(struct eps_phase *phases, size_t len, double sigma, bool lines_fail)
{
    struct eps_phase until[4];
    struct eps_job job = training_of(phases, len, NAN, 1e-6, sigma);
    struct eps_spend_point *points = NULL;
    struct eps_error error = {0};
    size_t points_len, below = 0;
    uint64_t first = 0;
    eps_job_defaults(&job);
    assert_int_equal(eps_spend(NULL, &points, &points_len, &error, &job, sigma, 1e-6), EPS_OK);
    for (size_t i = 0; i < len; i++) {
        memcpy(until, phases, (i + 1) * sizeof *until);
        for (size_t steps = 1; phases[i].mechanism.n < 50 && steps <= phases[i].mechanism.n; steps++) {
            until[i].mechanism.n = steps;
            if (phases[i].mechanism.matrix.coefficients_len > steps)
                until[i].mechanism.matrix.coefficients_len = steps;
            else
                until[i].mechanism.matrix.coefficients_len = phases[i].mechanism.matrix.coefficients_len;
            struct eps_job partly = training_of(until, i + 1, NAN, 1e-6, sigma);
            struct eps_result *result = solved(NULL, partly);
            if (spent_by(points, points_len, first + steps) < result->bracket_lower)
                fail_msg("step %llu: %.9g, and it is %.9g", (unsigned long long)(first + steps),
                         spent_by(points, points_len, first + steps), result->epsilon);
            below += on_the_line(points, points_len, first + steps) < result->bracket_lower;
            eps_result_destroy(result);
        }
        first += phases[i].mechanism.n * phases[i].count;
    }
    assert_true(!lines_fail || below > 0);
    free(points);
}

/* Whatever stands between two points has spent no more than the later one: in phases of correlated noise, in which
 * there is no point, and in those of which only the last iterate is released, where epsilon may fall with the
 * number of steps. */
TEST(what_is_spent_between_is_bounded_by_what_follows)
{
    static double column[] = {1, 0.5, 0.375};
    struct eps_phase phases[] = {poisson(8, 0.1, 1, 1), poisson(9, 0.05, 1, 1), poisson(9, NAN, 1, 1)};
    for (size_t i = 1; i < 3; i++) {
        phases[i].mechanism.matrix.family = EPS_FAMILY_TOEPLITZ;
        phases[i].mechanism.matrix.coefficients = column;
        phases[i].mechanism.matrix.coefficients_len = 3;
    }
    phases[1].mechanism.sampling.scheme = EPS_SCHEME_CYCLIC_POISSON;
    phases[1].mechanism.sampling.groups = 3;
    phases[2].mechanism.sampling.scheme = EPS_SCHEME_NONE;
    phases[2].mechanism.sampling.separation = 3;
    phases[2].mechanism.sampling.epochs = 1;
    assert_no_step_costs_more(phases, 3, 1, true);
    for (size_t beside = 100; beside <= 10000;
         beside *= 100) { /* points that are near each other, and none but at the end */
        struct eps_phase last[] = {unsampled(beside, 1e3, 1), poisson(20, 0.01, 1, 1), poisson(3, 0.01, 1, 1)};
        last[1].mechanism.sampling.last_iterate = true;
        assert_no_step_costs_more(last, 3, 0.3, false);
    }
}

/* The curve of a training runs through its answers. */
TEST(the_curve_is_that_of_the_whole)
{
    struct eps_phase phases[] = {poisson(200, 0.02, 1, 1), unsampled(5, 6, 2)};
    struct eps_job job = training_of(phases, 2, NAN, NAN, 1), at;
    job.query.curve = true;
    struct eps_result *curve = solved(NULL, job);
    assert_int_equal(curve->curve_len, 201);
    for (size_t i = 20; i < 201; i += 60) {
        const struct eps_curve_point *point = &curve->curve[i];
        at = training_of(phases, 2, point->epsilon, NAN, 1);
        struct eps_result *result = solved(NULL, at);
        assert_true(point->lower <= result->bracket_upper && result->bracket_lower <= point->delta);
        assert_true(point->delta <= result->delta * 1.01);
        eps_result_destroy(result);
    }
    eps_result_destroy(curve);
}
