/*
 * The part that all bins share (M28): bounds compared with the exact delta where Y has few values, the part itself with
 * the inverse of the Gram matrix, and whole jobs with draws.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/moments/laws/balls_in_bins.h"
#include "lib/moments/laws/bin_shared.h"
#include "lib/moments/bounds/shared.h"
#include "lib/numerics/normal.h"
#include "tests/unit/draw.h"
#include "tests/unit/solved.h"
#include "tests/unit/test.h"

enum { ATOMS = 3, ORDERS = 10 };

static const uint64_t seed = 20261127;

struct atoms {
    eps__quad at[ATOMS], weight[ATOMS]; /* of Y, whose mean is 1 */
};

static struct atoms draw_atoms(uint64_t *state)
{
    struct atoms atoms = {.at = {1}, .weight = {1}};
    double spread = draw_log(state, 0.02, 1);
    for (size_t i = 1; i < ATOMS; i++) {
        atoms.at[i] = exp(spread * (2 * draw_unit(state) - 1));
        atoms.weight[i] = draw_log(state, 1e-4, 0.3);
        atoms.weight[0] -= atoms.weight[i];
        atoms.at[0] -= atoms.weight[i] * atoms.at[i];
    }
    atoms.at[0] /= atoms.weight[0];
    return atoms;
}

/* ln delta(eps) for X = e^(s Z - s^2/2) Y. */
static double exact(const struct atoms *atoms, double square, enum eps_direction direction, double eps)
{
    double delta = 0, error;
    for (size_t i = 0; i < ATOMS; i++) {
        double at = (double)logq(atoms->at[i]);
        delta += (double)atoms->weight[i] * exp(direction == EPS_REMOVE
                                                    ? at + eps__gaussian_log_delta(sqrt(square), eps - at, &error)
                                                    : eps__gaussian_log_delta(sqrt(square), eps + at, &error));
    }
    return log(delta);
}

/* The central moments of X. */
static struct eps__moments moments_of(const struct atoms *atoms, double square)
{
    struct eps__moments moments;
    eps__quad raw[ORDERS + 1];
    for (unsigned a = 0; a <= ORDERS; a++) {
        eps__quad sum = 0;
        for (size_t i = 0; i < ATOMS; i++) {
            eps__quad power = atoms->weight[i];
            for (unsigned k = 0; k < a; k++)
                power *= atoms->at[i];
            sum += power;
        }
        raw[a] = a < 2 ? 1 : sum * expq((eps__quad)square * (0.5 * a * (a - 1.0)));
    }
    assert_int_equal(eps__moments_alloc(&moments, ORDERS), EPS_OK);
    eps__moments_centre(&moments, raw, 100);
    return moments;
}

TEST(what_is_shared_is_a_gaussian)
{
    uint64_t state = seed;
    size_t near = 0, all = 0;
    for (int c = 0; c < 80; c++) {
        enum eps_direction direction = c % 2 ? EPS_ADD : EPS_REMOVE;
        struct atoms atoms = draw_atoms(&state);
        double square = draw_log(&state, 1e-7, 1), eps = draw_log(&state, 0.3, 6) * sqrt(square);
        struct eps__moments moments = moments_of(&atoms, square), rest;
        assert_int_equal(eps__shared_rest(&rest, &moments, square), EPS_OK);
        for (size_t j = 2; j <= rest.len; j++) {
            double mean = 0;
            for (size_t i = 0; i < ATOMS; i++)
                mean += (double)atoms.weight[i] * pow((double)(atoms.at[i] - 1), (double)j);
            assert_true(fabs((double)rest.central[j] - mean) <= (double)rest.error[j] + 1e-9 * fabs(mean) + 1e-15);
        }
        double least = (double)fminq(fminq(atoms.at[0], atoms.at[1]), atoms.at[2]);
        struct eps__shared shared = {square, c % 4 < 2 ? INFINITY : -log(least) + 1e-12, 0};
        struct eps__interval found;
        struct eps__shared_table *table = calloc(1, sizeof *table);
        assert_non_null(table);
        assert_int_equal(eps__shared_log_delta(NULL, &rest, &shared, direction, eps, table, &found), EPS_OK);
        free(table);
        double truth = exact(&atoms, square, direction, eps);
        if (!(found.upper >= truth - 1e-9 && found.lower <= found.upper))
            fail_msg("%s, s^2 %g, eps %g: %g (from %g), but %g", eps_direction_name(direction), square, eps,
                     found.upper, found.lower, truth);
        if (square > 1e-3) { /* else moments decide, which do not determine the law */
            near += found.upper - truth < 0.2;
            all++;
        }
        eps__moments_clear(&moments);
        eps__moments_clear(&rest);
    }
    print_message("ln delta is within 0.2 in %zu of %zu cases\n", near, all);
    assert_true(near > all * 9 / 10);
}

/* 1' G^-1 1 by elimination. */
static double inverse_sum(const struct eps__bin_gram *bins)
{
    size_t len = bins->len;
    long double *m = malloc(len * (len + 1) * sizeof *m), sum = 0;
    assert_non_null(m);
    for (size_t i = 0; i < len; i++)
        for (size_t j = 0; j <= len; j++)
            m[i * (len + 1) + j] = j < len ? (long double)bins->gram[i * len + j] : 1;
    for (size_t k = 0; k < len; k++) /* positive definite: without pivots */
        for (size_t i = 0; i < len; i++) {
            long double factor = m[i * (len + 1) + k] / m[k * (len + 1) + k];
            for (size_t j = k; j <= len && i != k; j++)
                m[i * (len + 1) + j] -= factor * m[k * (len + 1) + j];
        }
    for (size_t i = 0; i < len; i++)
        sum += m[i * (len + 1) + len] / m[i * (len + 1) + i];
    free(m);
    return (double)sum;
}

/* What is left beside the shared part is at least its geometric mean, of the matrix less that part. */
static void check_geometric(const struct eps__bin_gram *bins)
{
    struct eps__effort effort = {1e6, 3, 0};
    struct eps__laws laws;
    double trace = 0, total = 0, len = (double)bins->len;
    for (size_t i = 0; i < bins->len; i++) {
        trace += bins->diagonal[i];
        for (size_t j = 0; j < bins->len; j++)
            total += bins->gram[i * bins->len + j];
    }
    assert_int_equal(eps__bin_gram_laws(NULL, &laws, bins, &effort), EPS_OK);
    if (laws.shared[0].square > 0) {
        double m = (trace / len - bins->shared) / 2, spread = total / len / len - bins->shared;
        assert_true(laws.shared[0].square == bins->shared);
        assert_true(laws.shared[0].m >= m * (1 - 1e-12) && laws.shared[0].m <= m + 1e-12 * trace);
        assert_true(laws.shared[0].spread >= spread - 1e-14 * total && laws.shared[0].spread <= spread + 1e-12 * total);
    }
    eps__laws_clear(&laws);
}

TEST(the_common_part_is_the_largest)
{
    uint64_t state = seed;
    for (int c = 0; c < 60; c++) {
        size_t len = 2 + draw_below(&state, 12), rows = len + draw_below(&state, 4);
        double *vectors = calloc(len * rows, sizeof *vectors), *gram = calloc(len * len, sizeof *gram);
        assert_true(vectors && gram);
        for (size_t i = 0; i < len * rows; i++)
            vectors[i] = draw_below(&state, 3) ? draw_unit(&state) : 0;
        for (size_t i = 0; i < len; i++)
            for (size_t j = 0; j < len; j++)
                for (size_t r = 0; r < rows; r++)
                    gram[i * len + j] += vectors[i * rows + r] * vectors[j * rows + r];
        struct eps__bin_gram bins;
        assert_int_equal(eps__bin_gram_make(&bins, gram, NULL, len, 1e-15, draw_log(&state, 0.3, 3)), EPS_OK);
        assert_int_equal(eps__bin_gram_share(NULL, &bins), EPS_OK);
        double most = 1 / inverse_sum(&bins);
        if (!(bins.shared <= most * (1 + 1e-12) && bins.shared >= most * (1 - 1e-3) - 1e-9 * bins.most))
            fail_msg("%zu bins: %.15g, but %.15g", len, bins.shared, most);
        check_geometric(&bins);
        eps__bin_gram_clear(&bins);
        free(vectors);
        free(gram);
    }
}

/* ------------------------------------------------------------ draws */

enum { STEPS = 60, BINS = 12, DRAWS = 20000 };

/* delta by draws of y with the mean t times that of C x, and its standard deviation. */
static double drawn(size_t bands, double sigma, enum eps_direction direction, double eps, double shift,
                    double *deviation)
{
    static double at[BINS][STEPS];
    double column[BINS] = {1}, norm = 0, mean[STEPS] = {0}, half[BINS] = {0}, square = 0, sum = 0, squares = 0;
    uint64_t state = seed;
    memset(at, 0, sizeof at);
    for (size_t e = 0; e < bands; e++) {
        column[e] = e == 0 ? 1 : column[e - 1] * (2 * (double)e - 1) / (2 * (double)e);
        norm += column[e] * column[e];
    }
    for (size_t j = 0; j < STEPS; j++)
        for (size_t e = 0; e < bands && j + e < STEPS; e++)
            at[j % BINS][j + e] += column[e] / sqrt(norm) / sigma;
    for (size_t r = 0; r < STEPS; r++) {
        for (size_t i = 0; i < BINS; i++) {
            mean[r] += at[i][r] / BINS;
            half[i] += at[i][r] * at[i][r] / 2;
        }
        square += mean[r] * mean[r];
    }
    double t = (direction == EPS_REMOVE ? shift : -shift) / square;
    for (size_t s = 0; s < DRAWS; s++) {
        double y[STEPS], along = 0, x = 0;
        for (size_t r = 0; r < STEPS; r++) {
            y[r] = sqrt(-2 * log(1 - draw_unit(&state))) * cos(2 * M_PI * draw_unit(&state)) + t * mean[r];
            along += mean[r] * y[r];
        }
        for (size_t i = 0; i < BINS; i++) {
            double exponent = -half[i];
            for (size_t r = 0; r < STEPS; r++)
                exponent += at[i][r] * y[r];
            x += exp(exponent) / BINS;
        }
        double weight = exp(t * t * square / 2 - t * along);
        double value = weight * fmax(direction == EPS_REMOVE ? x - exp(eps) : 1 - exp(eps) * x, 0);
        sum += value;
        squares += value * value;
    }
    *deviation = sqrt(fmax(squares / DRAWS - sum / DRAWS * sum / DRAWS, 0) / DRAWS);
    return sum / DRAWS;
}

TEST(balls_in_bins_are_near_the_draws)
{
    for (size_t c = 0; c < 3; c++) {
        size_t bands = (size_t[]){3, 6, 12}[c];
        double sigma = (double[]){3, 4, 5}[c], eps = 0.8, found[EPS_DIRECTIONS];
        solved_deltas(
            found,
            job_of("{'n':%d,'matrix':{'family':'square_root','bands':%zu},'sampling':{'scheme':'balls_in_bins',"
                   "'bins':%d},'epsilon':1,'noise_multiplier':1,'accountant':{'method':'renyi'}}",
                   (int)STEPS, bands, (int)BINS),
            sigma, eps);
        for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++) {
            double deviation, delta = drawn(bands, sigma, d, eps, 0.8 * eps, &deviation);
            print_message("%zu bands, %s: %g, draws %g +- %g\n", bands, eps_direction_name(d), found[d], delta,
                          deviation);
            assert_true(deviation < 0.1 * delta);
            assert_true(found[d] > delta - 5 * deviation && found[d] < 2 * delta);
        }
    }
}
