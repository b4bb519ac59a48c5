/*
 * The accountant of quadrature: the weights of an axis, the points, and delta compared with closed forms, with a sum by
 * other means and with itself on other grids, from both sides.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "lib/accountants/quadrature/integral.h"
#include "lib/numerics/normal.h"
#include "tests/unit/draw.h"
#include "tests/unit/solved.h"
#include "tests/unit/test.h"

static const uint64_t seed = 81817;

#define assert_between(value, low, high)                                              \
    do {                                                                              \
        double value_ = (value), low_ = (low), high_ = (high);                        \
        if (!(value_ >= low_ && value_ <= high_))                                     \
            print_message("# %.17g is not in [%.17g, %.17g]\n", value_, low_, high_); \
        assert_true(value_ >= low_ && value_ <= high_);                               \
    } while (0)

/* ------------------------------------------------------------ an axis */

static double sum_of(const struct eps__axis_points *points, double tilt)
{
    double sum = 0;
    for (size_t j = 0; j < points->len; j++)
        sum += exp(points->log_weight[j] + tilt * points->at[j] - tilt * tilt / 2);
    return sum;
}

TEST(an_axis_encloses_what_is_convex)
{
    uint64_t state = seed;
    for (int c = 0; c < 300; c++) {
        double tilt = draw_between(&state, -6, 6), low = fmin(tilt, 0) - draw_between(&state, 8, 14);
        double high = fmax(tilt, 0) + draw_between(&state, 8, 14), width = draw_log(&state, 0.004, 30);
        struct eps__axis axis;
        assert_true(eps__axis_make(&axis, low, high, (size_t)ceil((high - low) / width)));
        /* e^(tilt z - tilt^2/2) has the mean 1 */
        double upper = sum_of(&axis.ends, tilt), lower = sum_of(&axis.means, tilt),
               h = (high - low) / (double)axis.cells;
        assert_between(upper, 1 - 1e-9, h < 0.5 ? 1 + tilt * tilt * h * h / 8 * 1.1 + 1e-9 : INFINITY);
        assert_between(lower, h < 0.5 ? 1 - tilt * tilt * h * h / 24 * 1.1 - 1e-9 : 0, 1 + 1e-9);
        double itself = 0, interpolated = 0, larger = 0, smaller = 0;
        for (size_t j = 0; j < axis.cells; j++) {
            struct eps__axis_mean up = eps__axis_mean(&axis, tilt, j, EPS__UPPER);
            struct eps__axis_mean down = eps__axis_mean(&axis, tilt, j, EPS__LOWER);
            assert_true(up.larger >= up.smaller * (1 - 1e-12) && down.larger >= down.smaller * (1 - 1e-12));
            interpolated += up.larger;
            itself += up.smaller;
            larger += down.larger;
            smaller += down.smaller;
        }
        assert_between(interpolated, upper * (1 - 1e-9), upper * (1 + 1e-9));
        assert_between(smaller, lower * (1 - 1e-9), lower * (1 + 1e-9));
        assert_between(itself, 1 - 1e-9, 1);
        assert_between(larger, 1 - 1e-9, 1 + 1e-9);
        eps__axis_clear(&axis);
    }
}

TEST(the_weights_of_an_axis_are_a_probability)
{
    uint64_t state = seed + 1;
    for (int c = 0; c < 200; c++) {
        double low = draw_between(&state, -30, 5), high = low + draw_log(&state, 0.1, 60);
        struct eps__axis axis;
        assert_true(eps__axis_make(&axis, low, high, 1 + draw_below(&state, 300)));
        double error, mass = exp(eps__normal_log_mass(low, high - low, &error));
        assert_between(sum_of(&axis.ends, 0), mass, mass * (1 + 1e-6));
        assert_between(sum_of(&axis.means, 0), mass * (1 - 1e-6), mass);
        for (size_t j = 0; j < axis.cells; j++)
            assert_true(axis.ends.at[j] <= axis.means.at[j] && axis.means.at[j] <= axis.ends.at[j + 1]);
        eps__axis_clear(&axis);
    }
}

/* ------------------------------------------------------------ points */

/* The Gram matrix of vectors with non-negative entries; some are equal, and some have no entry in common. */
static struct eps__bin_gram draw_gram(uint64_t *state, size_t len, double size)
{
    double vectors[4][6] = {0}, gram[16];
    for (size_t i = 0; i < len; i++)
        for (size_t k = 0; k < 6; k++)
            vectors[i][k] = draw_below(state, 3) > 0 ? size * draw_between(state, 0, 1) : 0;
    for (size_t i = 0; i < len; i++)
        vectors[i][draw_below(state, 6)] += size * 0.1;
    if (len > 1 && draw_below(state, 4) == 0)
        memcpy(vectors[1], vectors[0], sizeof vectors[0]);
    for (size_t i = 0; i < len; i++)
        for (size_t j = 0; j < len; j++) {
            gram[i * len + j] = 0;
            for (size_t k = 0; k < 6; k++)
                gram[i * len + j] += vectors[i][k] * vectors[j][k];
        }
    struct eps__bin_gram bins;
    assert_int_equal(eps__bin_gram_make(&bins, gram, NULL, len, 1e-15, 1), EPS_OK);
    return bins;
}

static long double inner(const struct eps__bin_points *points, size_t i, size_t j)
{
    long double sum = (long double)points->along[i] * points->along[j];
    for (size_t k = 0; k < points->axes; k++)
        sum += (long double)points->across[i][k] * points->across[j][k];
    return sum;
}

TEST(points_dominate_or_are_dominated)
{
    uint64_t state = seed + 2;
    size_t lower_known = 0;
    const int cases = 400;
    for (int c = 0; c < cases; c++) {
        struct eps__bin_gram bins = draw_gram(&state, 1 + draw_below(&state, 4), draw_log(&state, 1e-3, 30));
        struct eps__bin_points upper, lower;
        assert_true(eps__bin_points_make(&upper, &bins, EPS__UPPER));
        bool known = eps__bin_points_make(&lower, &bins, EPS__LOWER);
        lower_known += known;
        for (size_t i = 0; i < bins.len; i++) {
            assert_true(upper.along[i] >= 0 && (!known || lower.along[i] >= 0));
            for (size_t j = 0; j < bins.len; j++) {
                double entry = eps__bin_gram_entry(&bins, i, j), row = 0;
                for (size_t k = 0; k < bins.len; k++)
                    row += eps__bin_gram_entry(&bins, i, k);
                long double least = entry - bins.excess * (i == j ? row : entry);
                assert_true(inner(&upper, i, j) >= entry && inner(&upper, i, j) <= entry + 1e-10 * bins.most);
                assert_true(!known ||
                            (inner(&lower, i, j) <= least && inner(&lower, i, j) >= entry - 1e-7 * bins.most));
            }
        }
        eps__bin_gram_clear(&bins);
    }
    assert_true((double)lower_known > 0.95 * cases);
}

/* ------------------------------------------------------------ delta */

static double integral(const struct eps__bin_gram *bins, enum eps_direction direction, enum eps__estimate estimate,
                       double eps, double spacing)
{
    struct eps__bin_points upper, points;
    struct eps__bin_grid grid;
    assert_true(eps__bin_points_make(&upper, bins, EPS__UPPER) && eps__bin_points_make(&points, bins, estimate));
    assert_true(eps__bin_grid_make(&grid, &upper, direction, -40, spacing, 1e7));
    double value = eps__bin_integral(&points, &grid, direction, estimate, eps, NULL);
    eps__bin_grid_clear(&grid);
    return value;
}

TEST(equal_bins_are_one_gaussian)
{
    for (size_t len = 1; len <= 4; len++)
        for (double mu = 0.1; mu < 6; mu *= 3)
            for (double eps = 0; eps < 6; eps = 2 * eps + 0.5) {
                double gram[16], error;
                for (size_t i = 0; i < 16; i++)
                    gram[i] = mu * mu;
                struct eps__bin_gram bins;
                assert_int_equal(eps__bin_gram_make(&bins, gram, NULL, len, 0, 1), EPS_OK);
                double delta = exp(eps__gaussian_log_delta(mu, eps, &error));
                for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS && delta > 1e-14; direction++) {
                    assert_between(integral(&bins, direction, EPS__UPPER, eps, 0.5), delta, delta * (1 + 1e-5));
                    assert_between(integral(&bins, direction, EPS__LOWER, eps, 0.5), delta * (1 - 1e-5), delta);
                }
                eps__bin_gram_clear(&bins);
            }
}

/* delta of two points by a plain sum over a plane, of 2 N(0, I) dimensions, in which nothing is known of either. */
static double plain_sum(const struct eps__bin_points *points, enum eps_direction direction, double eps)
{
    const double h = 0.01, far = 9;
    double sum = 0;
    for (double s = -far; s < far + points->along[0] + points->along[1]; s += h)
        for (double z = -far - fabs(points->across[0][0]); z < far + fabs(points->across[0][0]); z += h) {
            double x = 0;
            for (size_t i = 0; i < 2; i++)
                x += exp(points->along[i] * s + points->across[i][0] * z - (double)inner(points, i, i) / 2) / 2;
            double value = direction == EPS_REMOVE ? x - exp(eps) : 1 - exp(eps) * x;
            sum += fmax(value, 0) * exp(-(s * s + z * z) / 2);
        }
    return sum * h * h / (2 * M_PI);
}

TEST(two_bins_are_an_integral)
{
    uint64_t state = seed + 3;
    for (int c = 0; c < 6; c++) {
        struct eps__bin_gram bins = draw_gram(&state, 2, 0.8);
        struct eps__bin_points points;
        double eps = draw_between(&state, 0, 1.5);
        assert_true(eps__bin_points_make(&points, &bins, EPS__UPPER));
        for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++) {
            double delta = plain_sum(&points, direction, eps);
            assert_between(integral(&bins, direction, EPS__UPPER, eps, 0.02), delta * (1 - 2e-4),
                           delta * (1 + 1e-3) + 1e-9);
            assert_between(integral(&bins, direction, EPS__LOWER, eps, 0.02), delta * (1 - 1e-3) - 1e-9,
                           delta * (1 + 2e-4));
        }
        eps__bin_gram_clear(&bins);
    }
}

/* Both ends of a coarse grid enclose both ends of a finer one, which are close together. */
TEST(sums_enclose_a_finer_sum)
{
    uint64_t state = seed + 4;
    for (int c = 0; c < 60; c++) {
        size_t len = 2 + draw_below(&state, 3);
        struct eps__bin_gram bins = draw_gram(&state, len, draw_log(&state, 0.1, 2));
        double eps = draw_between(&state, 0, 5), finest[] = {0, 0, 0.02, 0.1, 0.4};
        for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++) {
            double upper = integral(&bins, direction, EPS__UPPER, eps, finest[len]);
            double lower = integral(&bins, direction, EPS__LOWER, eps, finest[len]);
            assert_true(lower <= upper);
            if (lower < 1e-14)
                continue;
            assert_true(upper - lower < (len < 4 ? 0.02 : 0.2) * upper);
            for (double coarser = 2; coarser < 300; coarser *= 3) {
                assert_true(integral(&bins, direction, EPS__UPPER, eps, coarser * finest[len]) >= lower);
                assert_true(integral(&bins, direction, EPS__LOWER, eps, coarser * finest[len]) <= upper);
            }
        }
        eps__bin_gram_clear(&bins);
    }
}

/* One cell, and cells of widths that no axis would be given. */
TEST(a_coarse_grid_is_a_bound)
{
    uint64_t state = seed + 5;
    for (int c = 0; c < 200; c++) {
        struct eps__bin_gram bins = draw_gram(&state, 2, draw_log(&state, 0.3, 4));
        double eps = draw_between(&state, 0, 4), spacing = draw_log(&state, 0.3, 1e4);
        for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++) {
            double lower = integral(&bins, direction, EPS__LOWER, eps, 0.02);
            double upper = integral(&bins, direction, EPS__UPPER, eps, 0.02);
            assert_true(integral(&bins, direction, EPS__UPPER, eps, spacing) >= lower);
            assert_true(integral(&bins, direction, EPS__LOWER, eps, spacing) <= upper);
        }
        eps__bin_gram_clear(&bins);
    }
}

/* A grid that reaches hardly beyond the points is a bound from above, too, and not only by what it sums. */
TEST(what_a_grid_leaves_out_is_added)
{
    uint64_t state = seed + 6;
    for (int c = 0; c < 40; c++) {
        struct eps__bin_gram bins = draw_gram(&state, 2, draw_log(&state, 0.3, 4));
        struct eps__bin_points points;
        double eps = draw_between(&state, 0, 1);
        assert_true(eps__bin_points_make(&points, &bins, EPS__UPPER));
        for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++) {
            struct eps__bin_grid grid;
            assert_true(eps__bin_grid_make(&grid, &points, direction, -2, 0.01, 1e7));
            double upper = eps__bin_integral(&points, &grid, direction, EPS__UPPER, eps, NULL);
            assert_true(upper >= integral(&bins, direction, EPS__LOWER, eps, 0.02));
            eps__bin_grid_clear(&grid);
        }
        eps__bin_gram_clear(&bins);
    }
}

/* Where rounding hides the cut of a line, or there is next to no noise, the bound is trivial rather than wrong. */
TEST(a_cut_that_cannot_be_placed_proves_nothing)
{
    for (double mu = 100; mu < 700; mu *= 1.5) {
        double gram[] = {mu * mu, 0, 0, mu * mu};
        struct eps__bin_gram bins;
        assert_int_equal(eps__bin_gram_make(&bins, gram, NULL, 2, 0, 1), EPS_OK);
        for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++) {
            assert_true(integral(&bins, direction, EPS__UPPER, 0, 1) >= 0.99);
            assert_true(integral(&bins, direction, EPS__LOWER, 0, 1) <= 1);
        }
        eps__bin_gram_clear(&bins);
    }
}

/* ------------------------------------------------------------ jobs */

TEST(it_proves_less_noise_than_bounds_do)
{
    struct answer found =
        answered(job_of("{'n':6,'matrix':{'family':'square_root'},'sampling':{'scheme':'balls_in_bins',"
                        "'bins':3},'epsilon':2,'delta':1e-5}"));
    const double truth = 2.632045; /* by a plain trapezoid sum over a plane; by moments 2.65250 */
    assert_between(found.value, truth - 1e-5, truth * 1.001);
    assert_between(found.lower, truth * 0.999, truth + 1e-5);
}
