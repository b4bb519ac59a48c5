/*
 * Conditional composition compared with what it bounds: the mixture of b <= 3 Gaussians by quadrature, bad events by
 * drawing outputs and computing every bin's exact share, and the weights of a row by definition; also the values of
 * reference.json, identities, and counts.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/accountants/conditional_composition/compose.h"
#include "lib/epsilon.h"
#include "lib/numerics/normal.h"
#include "tests/unit/draw.h"
#include "tests/unit/patience.h"
#include "tests/unit/solved.h"
#include "tests/unit/test.h"

enum { BINS_MAX = 8, ROWS_MAX = 12 };
static const uint64_t seed = 31415;

/* ------------------------------------------------------------ the truth */

/* Coordinates of means with this Gram matrix, by Cholesky; zero columns and equal columns are possible. */
static void coordinates(const double gram[], size_t bins, double at[])
{
    for (size_t i = 0; i < bins; i++)
        for (size_t j = 0; j < bins; j++) {
            double sum = gram[i * bins + j];
            at[i * bins + j] = 0;
            for (size_t k = 0; k < j && j <= i; k++)
                sum -= at[i * bins + k] * at[j * bins + k];
            if (j < i)
                at[i * bins + j] = at[j * bins + j] > 1e-9 ? sum / at[j * bins + j] : 0;
            else if (j == i)
                at[i * bins + i] = sum > 1e-18 ? sqrt(sum) : 0;
        }
}

/* delta(eps) of (1/b) sum_i N(m_i, 1) against N(0, 1), both directions, by a trapezoid sum over at most three
 * coordinates. */
static void truth(const double gram[], size_t bins, double eps, double delta[EPS_DIRECTIONS])
{
    static const size_t cells_of[] = {0, 20000, 600, 90};
    double at[9], low[3], step[3];
    size_t cells = cells_of[bins], total = 1;
    coordinates(gram, bins, at);
    for (size_t k = 0; k < bins; k++) {
        double least = 0, most = 0;
        for (size_t i = 0; i < bins; i++) {
            least = fmin(least, at[i * bins + k]);
            most = fmax(most, at[i * bins + k]);
        }
        low[k] = least - 7;
        step[k] = (most - least + 14) / (double)cells;
        total *= cells + 1;
    }
    delta[EPS_REMOVE] = delta[EPS_ADD] = 0;
    for (size_t c = 0; c < total; c++) {
        double y[3], volume = 1, square = 0, p = 0;
        for (size_t k = 0, rest = c; k < bins; k++, rest /= cells + 1) {
            y[k] = low[k] + (double)(rest % (cells + 1)) * step[k];
            volume *= step[k];
            square += y[k] * y[k];
        }
        for (size_t i = 0; i < bins; i++) {
            double distance = 0;
            for (size_t k = 0; k < bins; k++)
                distance += (y[k] - at[i * bins + k]) * (y[k] - at[i * bins + k]);
            p += exp(-0.5 * distance) / (double)bins;
        }
        double q = exp(-0.5 * square), scale = volume * exp(-(double)bins * EPS__LOG_SQRT_2PI);
        delta[EPS_REMOVE] += scale * fmax(p - exp(eps) * q, 0);
        delta[EPS_ADD] += scale * fmax(q - exp(eps) * p, 0);
    }
}

/* ------------------------------------------------------------ jobs */

static struct eps_job new_job(enum eps_family family, size_t n, size_t bins, double sigma)
{
    struct eps_job job;
    eps_job_init(&job);
    job.mechanism.n = n;
    job.mechanism.matrix.family = family;
    job.mechanism.matrix.normalization = EPS_NORMALIZATION_NONE;
    job.mechanism.sampling.scheme = EPS_SCHEME_BALLS_IN_BINS;
    job.mechanism.sampling.bins = bins;
    job.query.noise_multiplier = sigma;
    job.query.accountant.method = EPS_ACCOUNTANT_CONDITIONAL_COMPOSITION;
    return job;
}

/* The Gram matrix over sigma^2 of the means, from the dense C. */
static void gram_of(double gram[], const double *rows, size_t n, size_t bins, double sigma)
{
    for (size_t i = 0; i < bins; i++)
        for (size_t j = 0; j < bins; j++) {
            gram[i * bins + j] = 0;
            for (size_t t = 0; t < n; t++) {
                double a = 0, b = 0;
                for (size_t e = 0; e < n / bins; e++) {
                    a += rows[t * n + i + e * bins];
                    b += rows[t * n + j + e * bins];
                }
                gram[i * bins + j] += a * b / (sigma * sigma);
            }
        }
}

/* A7, A9, A10. */
TEST(delta_is_never_under_the_truth)
{
    uint64_t state = seed;
    double loosest = 0;
    for (int c = 0; c < 30; c++) {
        size_t bins = 1 + draw_below(&state, c % 4 ? 2 : 3), n = bins * (1 + draw_below(&state, 3));
        double rows[81] = {0}, gram[9], exact[EPS_DIRECTIONS], most = 0;
        for (size_t t = 0; t < n; t++)
            for (size_t j = 0; j <= t; j++)
                rows[t * n + j] = draw_below(&state, 3) ? draw_log(&state, c % 5 ? 0.2 : 1e-4, 1) : 0;
        if (c % 7 == 1) /* a column of zeros */
            for (size_t t = 0; t < n; t++)
                rows[t * n] = 0;
        if (c % 7 == 2) /* equal bins */
            for (size_t t = 0; t < n; t++)
                for (size_t j = 1; j < n && j <= t; j++)
                    rows[t * n + j] = rows[t * n + j - 1];
        gram_of(gram, rows, n, bins, 1);
        for (size_t i = 0; i < bins; i++)
            most = fmax(most, gram[i * bins + i]);
        if (!(most > 0))
            continue;
        double sigma = sqrt(most) * draw_log(&state, 0.4, 2), eps = draw_log(&state, 0.05, 2);
        gram_of(gram, rows, n, bins, sigma);
        truth(gram, bins, eps, exact);
        struct eps_job job = new_job(EPS_FAMILY_DENSE, n, bins, sigma);
        job.mechanism.matrix.rows = rows;
        job.mechanism.matrix.rows_n = n;
        job.query.epsilon = eps;
        job.query.accountant.tolerance = 1e-2;
        struct answer answer = answered(job);
        for (int d = 0; d < EPS_DIRECTIONS; d++) {
            if (!(answer.of[d] >= exact[d] * (1 - 5e-3) - 1e-9))
                fail_msg("case %d, direction %d: %.9g under %.9g (n %zu, b %zu, sigma %g, eps %g)", c, d, answer.of[d],
                         exact[d], n, bins, sigma, eps);
            if (exact[d] > 1e-4)
                loosest = fmax(loosest, answer.of[d] / exact[d]);
        }
    }
    assert_true(loosest < 60); /* bad events are rare: where delta is small, so is their cost */
}

TEST(one_bin_is_the_gaussian)
{
    const double coefficients[] = {1, 0.5, 0.25};
    for (double eps = 0.3; eps < 3; eps *= 3) {
        struct eps_job job = new_job(EPS_FAMILY_TOEPLITZ, 6, 1, 5);
        job.mechanism.matrix.coefficients = coefficients;
        job.mechanism.matrix.coefficients_len = 3;
        job.query.epsilon = eps;
        struct answer own = answered(job);
        job.query.accountant.method = EPS_ACCOUNTANT_GAUSSIAN;
        struct answer gaussian = answered(job);
        for (int d = 0; d < EPS_DIRECTIONS; d++) {
            assert_true(fabs(own.of[d] - gaussian.of[d]) <= 2e-3 * gaussian.of[d]);
            assert_true(own.of[d] >= gaussian.of[d] * (1 - 1e-9));
            assert_true(own.share[d] == 0);
        }
    }
}

/* A13: one bin that is drawn anew k times is k epochs of the Gaussian. */
TEST(one_bin_redrawn_is_the_gaussian)
{
    const double coefficients[] = {1, 0.5, 0.25};
    for (size_t stamps = 1; stamps <= 4; stamps += 3)
        for (double eps = 0.3; eps < 3; eps *= 3) {
            struct eps_job job = new_job(stamps > 1 ? EPS_FAMILY_TOEPLITZ : EPS_FAMILY_IDENTITY, 4, 1, 3);
            if (stamps > 1) {
                job.mechanism.matrix.coefficients = coefficients;
                job.mechanism.matrix.coefficients_len = 1;
            }
            job.mechanism.matrix.stamps = stamps;
            job.mechanism.sampling.redraw = true;
            job.query.epsilon = eps;
            struct answer own = answered(job);
            job.query.accountant.method = EPS_ACCOUNTANT_GAUSSIAN;
            struct answer gaussian = answered(job);
            for (int d = 0; d < EPS_DIRECTIONS; d++) {
                assert_true(fabs(own.of[d] - gaussian.of[d]) <= 2e-3 * gaussian.of[d]);
                assert_true(own.of[d] >= gaussian.of[d] * (1 - 1e-9));
            }
        }
}

/* ------------------------------------------------------------ rows */

/* The matrix that is walked: its rows are taken as they are, at sigma = 1, once for each draw of a bin. */
static struct eps__cc_steps *steps_drawn(const double *rows, size_t len, size_t bins, uint64_t draws, bool reversed)
{
    struct eps__cc_matrix matrix = {.bins = bins, .draws = draws};
    struct eps__cc_steps *steps = NULL;
    for (size_t t = 0; t < len; t++)
        assert_int_equal(eps__cc_matrix_add(&matrix, rows + t * bins, 0), EPS_OK);
    eps__cc_matrix_close(&matrix);
    assert_int_equal(eps__cc_steps_create(&steps, NULL, &matrix, 1, reversed), EPS_OK);
    eps__cc_matrix_clear(&matrix);
    return steps;
}

static struct eps__cc_steps *steps_of(const double *rows, size_t len, size_t bins, bool reversed)
{
    return steps_drawn(rows, len, bins, 1, reversed);
}

/* A7: all rows are represented in the Gram matrix, and equal ones are merged. */
TEST(every_row_is_merged_or_there)
{
    uint64_t state = seed + 1;
    for (int c = 0; c < 200; c++) {
        size_t bins = 1 + draw_below(&state, BINS_MAX), len = 1 + draw_below(&state, ROWS_MAX), shown = 0;
        double rows[ROWS_MAX * BINS_MAX], gram[BINS_MAX * BINS_MAX] = {0};
        for (size_t t = 0; t < len; t++) {
            double factor = draw_below(&state, 8) ? draw_log(&state, 0.1, 10) : 0;
            bool copied = t > 0 && draw_below(&state, 2), shows = false;
            for (size_t i = 0; i < bins; i++) {
                double fresh = draw_below(&state, 2) ? draw_unit(&state) : 0;
                rows[t * bins + i] = factor * (copied ? rows[(t - 1) * bins + i] : fresh);
                shows = shows || rows[t * bins + i] > 0;
            }
            shown += shows;
            for (size_t i = 0; i < bins; i++)
                for (size_t j = 0; j < bins; j++)
                    gram[i * bins + j] += rows[t * bins + i] * rows[t * bins + j];
        }
        struct eps__cc_matrix matrix = {.bins = bins, .draws = 1};
        for (size_t t = 0; t < len; t++)
            assert_int_equal(eps__cc_matrix_add(&matrix, rows + t * bins, 0), EPS_OK);
        eps__cc_matrix_close(&matrix);
        uint64_t merged = 0;
        for (size_t k = 0; k < matrix.len; k++)
            merged += matrix.merged[k];
        assert_int_equal(merged, shown);
        assert_int_equal(matrix.shown, shown);
        for (size_t i = 0; i < bins; i++)
            for (size_t j = 0; j < bins; j++) {
                double own = 0, expected = gram[i * bins + j];
                for (size_t k = 0; k < matrix.len; k++)
                    own += matrix.entry[k * bins + i] * matrix.entry[k * bins + j];
                assert_true(own >= expected * (1 - 1e-14) && own <= expected * (1 + 1e-10));
            }
        eps__cc_matrix_clear(&matrix);
    }
    /* A stored entry is at least the true one, and its excess is known, too. */
    struct eps__cc_matrix rough = {.bins = 2, .draws = 1};
    const double near[2] = {1, 3};
    assert_int_equal(eps__cc_matrix_add(&rough, near, 1e-9), EPS_OK);
    eps__cc_matrix_close(&rough);
    for (size_t i = 0; i < 2; i++) {
        assert_true(rough.entry[i] >= near[i] * (1 + 1e-9) && rough.entry[i] <= near[i] * (1 + 1.1e-9));
        assert_true(rough.entry[i] * (1 - rough.error) <= near[i] * (1 - 1e-9) * (1 + 1e-15));
    }
    eps__cc_matrix_clear(&rough);
    /* k epochs of the identity are one, at sqrt(k). */
    struct eps__cc_matrix matrix = {.bins = 3, .draws = 1};
    for (int t = 0; t < 12; t++) {
        double row[3] = {0};
        row[t % 3] = 1;
        assert_int_equal(eps__cc_matrix_add(&matrix, row, 0), EPS_OK);
    }
    eps__cc_matrix_close(&matrix);
    assert_int_equal(matrix.len, 3);
    for (size_t k = 0; k < 3; k++)
        assert_true(fabs(matrix.entry[k * 3 + k] - 2) < 1e-12 && matrix.entry[k * 3 + k] >= 2);
    eps__cc_matrix_clear(&matrix);
}

/* A10: the number of tail bounds by definition, and for the identity: all rows but the first have theirs. */
TEST(bounds_are_counted)
{
    uint64_t state = seed + 2;
    const double identity[16] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1};
    struct eps__cc_steps *steps = steps_of(identity, 4, 4, false);
    assert_int_equal(steps->bounds, 3);
    eps__cc_steps_destroy(steps);
    for (int c = 0; c < 200; c++) {
        size_t bins = 1 + draw_below(&state, BINS_MAX), len = 1 + draw_below(&state, ROWS_MAX), expected = 0;
        double rows[ROWS_MAX * BINS_MAX];
        for (size_t i = 0; i < len * bins; i++)
            rows[i] = draw_below(&state, 3) ? 0.5 * (double)draw_below(&state, 4) : 0;
        bool reversed = draw_below(&state, 2);
        steps = steps_of(rows, len, bins, reversed);
        struct eps__cc_walk *walk;
        assert_int_equal(eps__cc_walk_create(&walk, steps), EPS_OK);
        for (size_t t = 0; t < steps->len; t++) {
            const double *row = steps->shift + t * bins;
            size_t still = 0;
            for (size_t i = 0; i < bins; i++)
                still += row[i] == 0;
            assert_int_equal(walk->still, still);
            for (size_t at = 0; at < bins; at++) {
                size_t i = walk->order[at], equal = 0;
                assert_true(at == 0 || row[walk->order[at - 1]] <= row[i]);
                for (size_t k = 0; k < at; k++) {
                    bool same = true;
                    for (size_t s = 0; s < t; s++)
                        same = same && steps->shift[s * bins + walk->order[k]] == steps->shift[s * bins + i];
                    equal += same;
                }
                assert_int_equal(eps__cc_walk_equal(walk, at), equal);
                expected += row[i] > 0 && equal < at;
            }
            for (size_t i = 0; i < bins; i++)
                for (size_t j = 0; j < bins; j++) {
                    double sum = 0;
                    for (size_t s = 0; s < t; s++)
                        sum += steps->shift[s * bins + i] * steps->shift[s * bins + j];
                    assert_true(fabs(walk->gram[i * bins + j] - sum) <= 1e-14 * sum);
                }
            eps__cc_walk_advance(walk);
        }
        assert_int_equal(steps->bounds, expected);
        eps__cc_walk_destroy(walk);
        eps__cc_steps_destroy(steps);
    }
}

/* A10. */
TEST(delta_1_is_split_among_the_bounds)
{
    const double rows[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
    for (uint64_t draws = 1; draws < 1000; draws *= 7) { /* (A13) */
        struct eps__cc_steps *steps = steps_drawn(rows, 3, 3, draws, false);
        assert_int_equal(steps->bounds, 2);
        for (double delta1 = 0.5; delta1 > 1e-290; delta1 *= 1e-20) {
            double all = 2 * (double)draws * exp(eps__cc_log_beta(steps, log(delta1)));
            assert_true(all <= delta1 && all >= delta1 * (1 - 1e-11));
        }
        eps__cc_steps_destroy(steps);
    }
}

/* ------------------------------------------------------------ bad events */

static double draw_normal(uint64_t *state)
{
    return sqrt(-2 * log(1 - draw_unit(state))) * cos(2 * M_PI * draw_unit(state));
}

struct bound {
    size_t row, bin, before_len, before[BINS_MAX];
    double log_odds;
    bool can_fail;
};

/* Every tail bound of the steps. */
static size_t all_bounds(struct bound *bounds, const struct eps__cc_steps *steps, enum eps_direction direction,
                         double log_beta, bool quick)
{
    struct eps__cc_walk *walk;
    struct eps__cc_room *room = eps__cc_room_create(steps->bins);
    size_t len = 0;
    assert_int_equal(eps__cc_walk_create(&walk, steps), EPS_OK);
    for (size_t t = 0; t < steps->len; t++) {
        for (size_t at = walk->still; at < steps->bins; at++) {
            struct eps__cc_minorant minorant;
            struct bound *bound = &bounds[len++];
            double odds[2];
            assert_true(eps__cc_minorant_find(&minorant, walk, at, direction, log_beta, quick, room));
            eps__cc_minorant_odds(&minorant, log_beta, odds);
            assert_true(odds[EPS__LOWER] <= odds[EPS__UPPER]);
            assert_true(isinf(odds[0]) || odds[EPS__LOWER] > odds[EPS__UPPER] - 2e-3 * (1 + fabs(odds[0])));
            *bound = (struct bound){.row = t, .bin = walk->order[at], .before_len = at, .log_odds = odds[EPS__UPPER]};
            bound->can_fail = minorant.others > 0;
            for (size_t k = 0; k < at; k++)
                bound->before[k] = walk->order[k];
            eps__cc_minorant_clear(&minorant);
        }
        eps__cc_walk_advance(walk);
    }
    eps__cc_walk_destroy(walk);
    eps__cc_room_destroy(room);
    return len;
}

/* The true log odds of the bound's bin against those before it, given the rows before. */
static double true_log_odds(const struct eps__cc_steps *steps, const struct bound *bound, const double y[])
{
    double against = 0;
    for (size_t k = 0; k < bound->before_len; k++) {
        double loss = 0;
        for (size_t t = 0; t < bound->row; t++) {
            const double *row = steps->shift + t * steps->bins;
            double j = row[bound->before[k]], i = row[bound->bin];
            loss += y[t] * (j - i) + 0.5 * (i * i - j * j);
        }
        against += exp(loss);
    }
    return -log(against);
}

/* A9: each bound fails with at most its own probability, under P (remove) and under Q (add), and all of them together
 * within the budget; none is so loose that it hardly ever fails where this is the only way to fail. */
TEST(bad_events_are_within_their_budget)
{
    enum { DRAWS = 6000, CASES = 16 };
    static struct bound bounds[ROWS_MAX * BINS_MAX];
    uint64_t state = seed + 3;
    const double beta = 0.03;
    double most_failures = 0;
    for (int c = 0; c < CASES; c++) {
        size_t bins = 2 + draw_below(&state, 5), len = 2 + draw_below(&state, 6), width = 1 + draw_below(&state, bins);
        double rows[ROWS_MAX * BINS_MAX] = {0}, scale = draw_log(&state, 0.2, 2);
        for (size_t t = 0; t < len; t++)
            for (size_t k = 0; k < width; k++)
                rows[t * bins + (t + k) % bins] = scale * (c % 3 ? draw_between(&state, 0.2, 1) : 1 / (double)(k + 1));
        struct eps__cc_steps *steps = steps_of(rows, len, bins, c % 2);
        for (int d = 0; d < EPS_DIRECTIONS; d++) {
            size_t bounds_len = all_bounds(bounds, steps, (enum eps_direction)d, log(beta), c % 4 == 3), used = 0;
            size_t failures[ROWS_MAX * BINS_MAX] = {0}, any = 0;
            for (size_t k = 0; k < bounds_len; k++)
                used += bounds[k].can_fail;
            assert_int_equal(used, steps->bounds);
            for (size_t s = 0; s < DRAWS; s++) {
                double y[ROWS_MAX];
                size_t bin = draw_below(&state, bins);
                bool failed = false;
                for (size_t t = 0; t < steps->len; t++)
                    y[t] = draw_normal(&state) + (d == EPS_REMOVE ? steps->shift[t * bins + bin] : 0);
                for (size_t k = 0; k < bounds_len; k++) {
                    bool fails = true_log_odds(steps, &bounds[k], y) > bounds[k].log_odds + 1e-9;
                    failures[k] += fails;
                    failed = failed || fails;
                    assert_true(bounds[k].can_fail || !fails);
                }
                any += failed;
            }
            double deviation = sqrt(beta / DRAWS);
            for (size_t k = 0; k < bounds_len; k++) {
                double share = (double)failures[k] / DRAWS;
                if (!(share <= beta + 5 * deviation))
                    fail_msg("case %d, direction %d: bound %zu fails %g of the time", c, d, k, share);
                most_failures = fmax(most_failures, share);
            }
            assert_true((double)any / DRAWS <= beta * (double)used + 5 * sqrt((double)used) * deviation);
        }
        eps__cc_steps_destroy(steps);
    }
    assert_true(most_failures > 0.5 * beta);
}

/* Two bins, the rows before seen by one of them alone: the minorant is the loss itself, and its quantile is exact. */
TEST(two_bins_are_exact)
{
    const double rows[4] = {0.8, 0, 0, 1}, beta = 1e-3, z = eps__normal_tail_quantile(log(beta));
    static struct bound bounds[4];
    struct eps__cc_steps *steps = steps_of(rows, 2, 2, false);
    /* the second row's bin against the first: ln of the odds is 0.8 y' + 0.32 where y' is the noise, reversed */
    assert_int_equal(all_bounds(bounds, steps, EPS_ADD, log(beta), false), 2);
    assert_true(fabs(bounds[0].log_odds - 0) < 1e-12); /* one of two that are equal */
    assert_true(fabs(bounds[1].log_odds - (0.8 * z + 0.32)) < 1e-6);
    /* With the example: with probability a half it is in the first bin, whose row lowers the odds. */
    assert_int_equal(all_bounds(bounds, steps, EPS_REMOVE, log(beta), false), 2);
    double x = (bounds[1].log_odds - 0.32) / 0.8;
    double tail = 0.5 * exp(eps__log_normal_tail(x)) + 0.5 * exp(eps__log_normal_tail(x + 0.8));
    assert_true(fabs(tail / beta - 1) < 1e-5);
    eps__cc_steps_destroy(steps);
}

/* A9: equal means count exactly, each of them once. */
TEST(equal_means_are_exact)
{
    /* Bins 1, 2, 3 have shown nothing: the example is in 3 with probability a third, apart from what the first bin
     * says. */
    const double rows[8] = {1, 0, 0, 0, 0, 0, 0, 1}, z = eps__normal_tail_quantile(log(1e-4));
    static struct bound bounds[4];
    struct eps__cc_steps *steps = steps_of(rows, 2, 4, false);
    assert_int_equal(all_bounds(bounds, steps, EPS_ADD, log(1e-4), false), 2);
    assert_true(fabs(bounds[0].log_odds + log(3)) < 1e-12);
    assert_true(fabs(bounds[1].log_odds + log(2 + exp(-z - 0.5))) < 1e-6);
    assert_int_equal(steps->bounds, 1);
    eps__cc_steps_destroy(steps);
}

/* A11: means whose difference is smaller than the last digits of their products. */
TEST(cancellation_is_counted)
{
    static struct bound bounds[4];
    for (int c = 0; c < 50; c++) {
        double one = 100 + 0.01 * c, other = one + 1e-9 * (c + 1);
        const double rows[4] = {one, other, 0, 1}, z = eps__normal_tail_quantile(log(1e-3));
        struct eps__cc_steps *steps = steps_of(rows, 2, 2, false);
        assert_int_equal(all_bounds(bounds, steps, EPS_ADD, log(1e-3), false), 3);
        long double i = steps->shift[1], j = steps->shift[0], exact = z * (i - j) + 0.5L * (j - i) * (j + i);
        assert_true(bounds[2].log_odds >= (double)exact - 1e-12);
        assert_true(bounds[2].log_odds <= (double)exact + 1e-3);
        eps__cc_steps_destroy(steps);
    }
}

/* ------------------------------------------------------------ the law of a row */

/* A10. */
TEST(shares_are_taken_from_the_top)
{
    uint64_t state = seed + 4;
    for (int c = 0; c < 300; c++) {
        size_t len = 1 + draw_below(&state, 40);
        double shift[40], odds[40], left = 1, mean = 0, thinned = 0, total = 0, above = 0;
        bool rest = draw_below(&state, 2);
        for (size_t k = 0; k < len; k++) {
            shift[k] = (k ? shift[k - 1] : 0.1) + (draw_below(&state, 3) ? draw_unit(&state) : 0);
            odds[k] = draw_between(&state, -8, 3);
        }
        if (!rest)
            odds[0] = INFINITY;
        const struct eps__cc_places places = {shift, odds, len, rest};
        struct eps__cc_law law, few;
        assert_true(eps__cc_law_make(&law, &places) && eps__cc_law_make(&few, &places));
        size_t at = law.len;
        for (size_t k = len; k-- > 0;) {
            double share = left / (1 + exp(-odds[k]));
            left -= share;
            if (at == law.len || law.shift[at] != shift[k])
                at--;
            above += share;
            assert_true(law.shift[at] == shift[k]);
            if (k == 0 || shift[k - 1] != shift[k]) {
                assert_true(fabs(law.weight[at] - above) <= 1e-13 * fmax(above, 1e-3));
                above = 0;
            }
        }
        if (rest)
            assert_true(at == 1 && law.shift[0] == 0 && fabs(law.weight[0] - left) < 1e-12);
        else
            assert_true(at == 0);
        eps__cc_law_thin(&few, 6);
        assert_true(few.len <= 6 || few.len == law.len);
        /* A thinned law has at least as much mass above any shift. */
        for (size_t k = 0; k < law.len; k++) {
            double own = 0, its = 0;
            for (size_t i = k; i < law.len; i++)
                own += law.weight[i];
            for (size_t i = 0; i < few.len; i++)
                its += few.shift[i] >= law.shift[k] ? few.weight[i] : 0;
            assert_true(its >= own - 1e-12);
            mean += law.weight[k] * law.shift[k];
            total += law.weight[k];
        }
        for (size_t i = 0; i < few.len; i++)
            thinned += few.weight[i] * few.shift[i];
        assert_true(fabs(total - 1) < 1e-12 && thinned >= mean - 1e-12 && thinned <= 2 * mean + 1e-12);
        eps__cc_law_clear(&law);
        eps__cc_law_clear(&few);
    }
}

/* ------------------------------------------------------------ classes of bins */

/* delta(eps) of one epoch of `bins` with this first column, by draws from P (remove) or Q (add); *deviation: of the
 * mean. */
static double sampled(const double *column, size_t bands, size_t bins, double sigma, double eps,
                      enum eps_direction direction, double *deviation)
{
    enum { DRAWS = 20000, MOST = 64 };
    uint64_t state = seed + 5;
    double sum = 0, squares = 0;
    for (size_t s = 0; s < DRAWS; s++) {
        double y[MOST], ratio = 0;
        size_t bin = draw_below(&state, bins);
        for (size_t t = 0; t < bins; t++)
            y[t] = draw_normal(&state) +
                   (direction == EPS_REMOVE && t >= bin && t < bin + bands ? column[t - bin] / sigma : 0);
        for (size_t i = 0; i < bins; i++) {
            double loss = 0;
            for (size_t k = 0; k < bands && i + k < bins; k++)
                loss += y[i + k] * column[k] / sigma - 0.5 * column[k] * column[k] / (sigma * sigma);
            ratio += exp(loss) / (double)bins;
        }
        double value = fmax(direction == EPS_REMOVE ? 1 - exp(eps) / ratio : 1 - exp(eps) * ratio, 0);
        sum += value;
        squares += value * value;
    }
    *deviation = sqrt(squares) / DRAWS;
    return sum / DRAWS;
}

/* A12. */
TEST(classes_are_averaged)
{
    const double column[] = {1, 0.7, 0.4};
    for (int d = 0; d < EPS_DIRECTIONS; d++) {
        struct eps_job job = new_job(EPS_FAMILY_TOEPLITZ, 18, 18, 1.5);
        job.mechanism.matrix.coefficients = column;
        job.mechanism.matrix.coefficients_len = 3;
        job.query.epsilon = d == EPS_REMOVE ? 0.3 : 0.1;
        double deviation, exact = sampled(column, 3, 18, 1.5, job.query.epsilon, (enum eps_direction)d, &deviation);
        struct answer answer = answered(job);
        assert_true(deviation < 0.05 * exact);
        if (!(answer.of[d] >= exact - 4 * deviation && answer.of[d] <= 4 * exact))
            fail_msg("direction %d: %g for %g +- %g", d, answer.of[d], exact, deviation);
    }
}

/* Every other bin is empty, so that one of two classes shows nothing. */
TEST(a_class_may_show_nothing)
{
    for (size_t empty = 0; empty < 2; empty++) {
        double rows[256] = {0}, least = 0;
        for (size_t j = 1 - empty; j < 16; j += 2)
            for (size_t t = j; t < 16 && t < j + 2; t++)
                rows[t * 16 + j] = t == j ? 1 : 0.5;
        struct eps_job job = new_job(EPS_FAMILY_DENSE, 16, 16, 1.2);
        job.mechanism.matrix.rows = rows;
        job.mechanism.matrix.rows_n = 16;
        job.query.epsilon = 0.3;
        struct answer answer = answered(job);
        const double column[] = {
            1.118033988749895}; /* of eight bins that are apart; half of the time it is one of them */
        double deviation;
        least = 0.5 * sampled(column, 1, 8, 1.2, log(2 * exp(0.3) - 1), EPS_REMOVE, &deviation);
        assert_true(answer.of[EPS_REMOVE] >= least - 4 * deviation && answer.of[EPS_REMOVE] < 20 * least);
    }
}

TEST(a_class_has_its_own_columns)
{
    struct eps__cc_matrix matrix = {.bins = 5, .draws = 1}, class;
    const double rows[3][5] = {{1, 2, 3, 4, 5}, {0, 1, 0, 1, 0}, {2, 0, 6, 0, 10}};
    for (int t = 0; t < 3; t++)
        assert_int_equal(eps__cc_matrix_add(&matrix, rows[t], 1e-15), EPS_OK);
    eps__cc_matrix_close(&matrix);
    assert_int_equal(matrix.len, 3);
    assert_int_equal(eps__cc_matrix_class(&class, &matrix, 2, 0), EPS_OK);
    assert_true(class.bins == 3 && class.len == 1 && class.merged[0] == 2);
    for (size_t i = 0; i < 3; i++)
        assert_true(fabs(class.entry[i] - sqrt(5) * (double)(2 * i + 1)) < 1e-10);
    assert_true(class.error >= matrix.error);
    eps__cc_matrix_clear(&class);
    assert_int_equal(eps__cc_matrix_class(&class, &matrix, 2, 1), EPS_OK);
    assert_true(class.bins == 2 && class.len == 2 && class.entry[0] >= 2 && class.entry[1] >= 4);
    eps__cc_matrix_clear(&class);
    eps__cc_matrix_clear(&matrix);
}

/* ------------------------------------------------------------ reference.json, group balls_in_bins */

struct known {
    size_t n, bins, bands;
    double eps, truth, improved; /* exact_fft or monte_carlo; cc_improved_union */
};
static const struct known known[] = {
    {1000, 100, 1, 0.5, 3.3953, 4.4943548},
    {100, 100, 4, 1, 1.1677, 3.228},
};

TEST(sigmas_lie_between_the_truth_and_the_reference)
{
    const double coefficients[] = {1, 0.5, 0.375, 0.3125};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const struct known *k = &known[i];
        struct eps_job job = new_job(EPS_FAMILY_TOEPLITZ, k->n, k->bins, 1.02 * k->improved);
        job.mechanism.matrix.coefficients = coefficients;
        job.mechanism.matrix.coefficients_len = k->bands;
        job.query.delta = 1e-5;
        job.query.accountant.tolerance = 1e-2;
        struct answer answer = answered(job);
        assert_true(answer.value <= k->eps); /* not looser than the reference */
        assert_true(answer.lower >= 0.985 * answer.value);
        job.query.noise_multiplier = 0.99 * k->truth;
        answer = answered(job);
        assert_true(answer.value > k->eps); /* nor below the truth */
    }
}

TEST(a_tree_and_stamps_are_served)
{
    /* A tree of two leaves over two bins: m_0 = (1, 0, 1), m_1 = (0, 1, 1). */
    double exact[EPS_DIRECTIONS];
    for (size_t stamps = 1; stamps <= 2; stamps++) {
        struct eps_job job = new_job(EPS_FAMILY_TREE, 2 * stamps, 2, 2);
        job.mechanism.matrix.stamps = stamps;
        job.query.epsilon = 0.4;
        struct answer answer = answered(job);
        double scale = (double)stamps / 4, gram[4] = {2 * scale, scale, scale, 2 * scale};
        truth(gram, 2, 0.4, exact);
        for (int d = 0; d < EPS_DIRECTIONS; d++)
            if (!(answer.of[d] >= exact[d] * (1 - 1e-3) && answer.of[d] < 20 * exact[d] + 1e-6))
                fail_msg("%zu stamps: %g for %g", stamps, answer.of[d], exact[d]);
    }
}

/* The scale of C may be no larger than that of sigma. */
TEST(scales_do_not_matter)
{
    double coefficients[3], values[3];
    for (int c = 0; c < 3; c++) {
        double scale = c == 0 ? 1 : c == 1 ? 0x1p-28 : 0x1p20;
        struct eps_job job = new_job(EPS_FAMILY_TOEPLITZ, 8, 4, 1.5 * scale);
        for (int k = 0; k < 3; k++)
            coefficients[k] = scale / (k + 1);
        job.mechanism.matrix.coefficients = coefficients;
        job.mechanism.matrix.coefficients_len = 3;
        job.query.epsilon = 1;
        values[c] = answered(job).value;
    }
    assert_true(fabs(values[1] / values[0] - 1) < 1e-9 && fabs(values[2] / values[0] - 1) < 1e-9);
}

/* Runs of rows in any order, as threads may take them. */
static void backwards(void *user, size_t count, void (*body)(void *arg, size_t index), void *arg)
{
    (void)user;
    while (count-- > 0)
        body(arg, count);
}

static bool canceled(void *user)
{
    return --*(int *)user < 0;
}

TEST(runs_of_rows_are_independent)
{
    const double coefficients[] = {1, 0.5, 0.25};
    struct eps_job job = new_job(EPS_FAMILY_TOEPLITZ, 80, 80, 4);
    job.mechanism.matrix.coefficients = coefficients;
    job.mechanism.matrix.coefficients_len = 3;
    job.query.epsilon = 0.5;
    job.query.accountant.tolerance = 0.05;
    struct answer alone = answered(job);
    int polls = 0;
    struct eps_context context = {.user = &polls, .parallel_for = backwards};
    struct eps_result *result = solved(&context, job);
    assert_true(result->bracket_upper == alone.value && result->bracket_lower == alone.lower);
    eps_result_destroy(result);
    context.canceled = canceled;
    eps_job_defaults(&job);
    for (polls = 5; polls < 2000; polls = 3 * polls + 5) {
        int before = polls;
        result = NULL;
        assert_int_equal(eps_solve(&context, &result, NULL, &job), EPS_CANCELED);
        polls = before;
    }
}

/* So much noise that rows hardly differ: from 65 rows on similar ones are composed as one, which needs more than 64
 * bins. */
TEST(rows_that_are_alike_cost_little)
{
    double values[2];
    for (int c = 0; c < 2; c++) {
        struct eps_job job = new_job(EPS_FAMILY_IDENTITY, c ? 72 : 64, c ? 72 : 64, 8);
        job.query.delta = 1e-5;
        job.query.accountant.bad_event_share = 0.1;
        job.query.accountant.tolerance = 1e-2;
        values[c] = answered(job).value;
    }
    assert_true(values[1] < values[0] && values[1] > 0.8 * values[0]);
}

/* delta_1 is the requested share. */
TEST(the_share_is_respected)
{
    struct eps_job job = new_job(EPS_FAMILY_IDENTITY, 20, 10, 2);
    job.query.delta = 1e-4;
    job.query.accountant.bad_event_share = 0.3;
    struct answer answer = answered(job);
    for (int d = 0; d < EPS_DIRECTIONS; d++)
        assert_true(fabs(answer.share[d] - 0.3) < 1e-9);
    /* Where delta is the unknown, delta_1 is about that share of it, and is part of the sum. */
    job.query.delta = NAN;
    job.query.epsilon = 1;
    answer = answered(job);
    for (int d = 0; d < EPS_DIRECTIONS; d++)
        assert_true(fabs(answer.share[d] - 0.3) < 0.03);
}

TEST(what_is_not_derived_is_refused)
{
    for (int c = 0; c < 3; c++) {
        struct eps_job job = new_job(EPS_FAMILY_IDENTITY, 20, 10, 2);
        struct eps_result *result = NULL;
        struct eps_error error = {0};
        job.query.delta = 1e-4;
        if (c == 0) { /* rows that extend over an epoch */
            job.mechanism.matrix.family = EPS_FAMILY_SQUARE_ROOT;
            job.mechanism.sampling.redraw = true;
        }
        if (c == 1)
            job.mechanism.adjacency = EPS_ADJACENCY_REPLACE_ONE;
        if (c == 2) {
            job.mechanism.sampling.scheme = EPS_SCHEME_POISSON;
            job.mechanism.sampling.bins = 0;
            job.mechanism.sampling.p = 0.1;
        }
        eps_job_defaults(&job);
        assert_int_equal(eps_solve(NULL, &result, &error, &job), EPS_UNSUPPORTED);
    }
}

/* Refused at once, with a hint at what would work: the grid of a pair grows with the square of its shift. */
TEST(so_little_noise_is_refused)
{
    struct eps_job job = new_job(EPS_FAMILY_SQUARE_ROOT, 37, 1, 5e-8);
    job.query.epsilon = 0;
    job.query.delta = NAN;
    patience_begin("a noise multiplier of 5e-8", 0, 20);
    struct eps_error error = assert_refused(job, EPS_TOO_COSTLY, "/noise_multiplier");
    patience_end();
    assert_non_null(strstr(error.message, "conditional_composition cannot resolve"));
}

/* A9: there is no quantile for so small a probability of a bad event. */
TEST(without_a_quantile_nothing_is_known)
{
    double gap[] = {0, 1}, weight[] = {0.5, 0.5};
    for (double equal = 0; equal < 3; equal++)
        for (double log_beta = -1e308; log_beta > -INFINITY; log_beta -= 1e308) {
            struct eps__cc_minorant minorant = {.others = 3,
                                                .equal = equal,
                                                .least = 1,
                                                .deviation = 1,
                                                .error = 1e-12,
                                                .widened = 1e-12,
                                                .gap = gap,
                                                .weight = weight,
                                                .len = 2};
            double odds[2];
            assert_true(isinf(eps__cc_quantile(&minorant, log_beta)));
            eps__cc_minorant_odds(&minorant, log_beta, odds);
            assert_true(odds[EPS__UPPER] == INFINITY && odds[EPS__LOWER] == -INFINITY);
        }
}
