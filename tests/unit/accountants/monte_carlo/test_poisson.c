/*
 * Draws of Poisson sampling compared with sums over all patterns, at the y of the stream: the loss, within its claimed
 * error, in both directions; and the means of values compared with quadrature and with pld.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <gsl/gsl_cdf.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/accountants/monte_carlo/laws/poisson.h"
#include "lib/sampling/participations.h"
#include "lib/job/setting.h"
#include "lib/strategy/strategy.h"
#include "tests/unit/draw.h"
#include "tests/unit/matrices.h"
#include "tests/unit/solved.h"
#include "tests/unit/test.h"

enum { STEPS_MAX = 48, ROUNDS_MAX = 12, CHUNK = 1024 };
static const uint64_t seed = 314159;

/* ------------------------------------------------------------ a law and its setting */

struct opened {
    struct eps_job job;
    struct eps__setting setting;
    const struct eps__mc_law_class *class;
    struct eps__mc_law *law;
    double *scratch;
};

static struct eps_job new_job(enum eps_family family, size_t n, double p)
{
    struct eps_job job;
    eps_job_init(&job);
    job.mechanism.n = n;
    job.mechanism.matrix.family = family;
    job.mechanism.matrix.normalization = EPS_NORMALIZATION_NONE;
    job.mechanism.sampling.p = p;
    job.query.noise_multiplier = 1;
    job.query.epsilon = 1;
    job.query.accountant.method = EPS_ACCOUNTANT_MONTE_CARLO;
    return job;
}

static void open_law(struct opened *opened, const struct eps_job *job, double sigma, enum eps_direction direction)
{
    struct eps_error error = {0};
    struct eps__mc_aim aim = {.sigma = sigma, .direction = direction, .exact = true};
    opened->job = *job;
    eps_job_defaults(&opened->job);
    if (eps__setting_open(&opened->setting, &error, NULL, &opened->job) != EPS_OK)
        fail_msg("%s: %s", error.pointer, error.message);
    opened->class = eps__mc_law_class_of(&opened->job.mechanism);
    if (!opened->class->serves(&opened->setting, &error))
        fail_msg("%s: %s", error.pointer, error.message);
    assert_int_equal(opened->class->open(&opened->law, &opened->setting, &aim), EPS_OK);
    size_t bytes = (opened->law->scratch * sizeof(double) + 63) / 64 * 64;
    opened->scratch = aligned_alloc(64, bytes);
    memset(opened->scratch, 0xff, bytes);
}

static void close_law(struct opened *opened)
{
    opened->class->destroy(opened->law);
    eps__setting_close(&opened->setting);
    free(opened->scratch);
}

static struct eps__stream stream_of(uint64_t chunk)
{
    return (struct eps__stream){.key = {(uint32_t)seed, 7}, .chunk = chunk};
}

static void draw_losses(const struct opened *opened, const struct eps__stream *stream, uint32_t first, double *loss)
{
    double log_weight[EPS__LANES];
    opened->law->class->draw(opened->law, stream, first, opened->scratch, loss, log_weight);
    for (size_t lane = 0; lane < EPS__LANES; lane++)
        assert_true(log_weight[lane] == 0);
}

/* ------------------------------------------------------------ all patterns */

/* The columns of an example's rounds over sigma, rows x rounds. */
struct columns {
    size_t rows, rounds;
    long double *at;
};

static struct columns columns_of(const struct eps_strategy *strategy, size_t groups, double sigma)
{
    size_t n = eps_strategy_columns(strategy), rounds = (n - 1) / groups + 1;
    struct matrix encoder = part_matrix(strategy, EPS_PART_ENCODER);
    struct columns columns = {encoder.rows, rounds, malloc(encoder.rows * rounds * sizeof(long double))};
    for (size_t r = 0; r < encoder.rows; r++)
        for (size_t k = 0; k < rounds; k++)
            columns.at[r * rounds + k] = *entry(&encoder, r, k * groups) / (long double)sigma;
    matrix_free(&encoder);
    return columns;
}

/* Counts of the rows, each at most `cap` (0: any). The nonzero entries of a tree are all equal. */
static bool within(const struct columns *columns, size_t pattern, const size_t *cap)
{
    for (size_t r = 0; cap && r < columns->rows; r++) {
        size_t taken = 0, under = 0;
        for (size_t k = 0; k < columns->rounds; k++) {
            under += columns->at[r * columns->rounds + k] > 0;
            taken += columns->at[r * columns->rounds + k] > 0 && pattern >> k & 1;
        }
        size_t height = 0;
        while ((size_t)1 << height < under)
            height++;
        if (taken > cap[height])
            return false;
    }
    return true;
}

/* ln P/Q at y, without patterns that exceed the caps. */
static long double log_ratio(const struct columns *columns, double p, const long double *y, const size_t *cap)
{
    size_t rounds = columns->rounds, patterns = (size_t)1 << rounds;
    long double exponent[1 << ROUNDS_MAX], most = -INFINITY, sum = 0;
    for (size_t x = 0; x < patterns; x++) {
        exponent[x] = 0;
        for (size_t r = 0; r < columns->rows; r++) {
            long double mean = 0;
            for (size_t k = 0; k < rounds; k++)
                mean += x >> k & 1 ? columns->at[r * rounds + k] : 0;
            exponent[x] += mean * y[r] - mean * mean / 2;
        }
        for (size_t k = 0; k < rounds; k++)
            exponent[x] += logl(x >> k & 1 ? (long double)p : 1 - (long double)p);
        if (!within(columns, x, cap))
            exponent[x] = -INFINITY;
        most = fmaxl(most, exponent[x]);
    }
    for (size_t x = 0; x < patterns; x++)
        sum += expl(exponent[x] - most);
    return most + logl(sum);
}

/* What lane `lane` drew: normals, and the columns of its rounds, which are returned. */
static size_t rows_of(long double *y, const struct columns *columns, double p, bool taken,
                      const struct eps__stream *stream, uint32_t first, uint32_t lane)
{
    double normals[(2 * STEPS_MAX + 2) * EPS__LANES];
    struct eps__participated slots[STEPS_MAX];
    struct eps__b_min_sep_steps steps = {.n = columns->rounds, .separation = 1, .p = p, .examples = 1};
    eps__b_min_sep_steps_fill(&steps);
    size_t len = taken ? eps__b_min_sep_draw(slots, &steps, stream, first + lane) : 0;
    eps__normals(normals, stream, first, 0, columns->rows + columns->rows % 2);
    for (size_t r = 0; r < columns->rows; r++) {
        y[r] = (long double)normals[r * EPS__LANES + lane];
        for (size_t i = 0; i < len; i++)
            y[r] += columns->at[r * columns->rounds + slots[i].step];
    }
    size_t pattern = 0;
    for (size_t i = 0; i < len; i++)
        pattern |= (size_t)1 << slots[i].step;
    return pattern;
}

/* Compares some draws of the job, in both directions, with sums over all patterns. Returns the largest |loss|. */
static double check_losses(const struct eps_job *job, double sigma, size_t draws)
{
    double largest = 0;
    for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++) {
        struct opened opened;
        open_law(&opened, job, sigma, direction);
        double p = opened.setting.p, loss[EPS__LANES];
        size_t turns = opened.job.mechanism.sampling.groups;
        struct columns columns = columns_of(opened.setting.strategy, turns > 0 ? turns : 1, sigma);
        long double y[2 * STEPS_MAX];
        assert_true(columns.rounds <= ROUNDS_MAX && columns.rows <= 2 * STEPS_MAX);
        for (size_t i = 0; i < draws; i++) {
            struct eps__stream stream = stream_of(i / 4);
            uint32_t first = EPS__LANES * (uint32_t)(i % 4), lane = (uint32_t)(5 * i) % EPS__LANES;
            draw_losses(&opened, &stream, first, loss);
            rows_of(y, &columns, p, direction == EPS_REMOVE, &stream, first, lane);
            long double exact = log_ratio(&columns, p, y, NULL) * (direction == EPS_REMOVE ? 1 : -1);
            double off = (double)fabsl((long double)loss[lane] - exact);
            if (!(off <= opened.law->loss_error && opened.law->loss_error < 1e-10 * (1 + 1 / (sigma * sigma))))
                fail_msg("n = %zu, sigma %g, p %g: %.17g for %.17Lg, claimed %g", columns.rounds, sigma, p, loss[lane],
                         exact, opened.law->loss_error);
            largest = fmax(largest, fabs(loss[lane]));
        }
        free(columns.at);
        close_law(&opened);
    }
    return largest;
}

/* ------------------------------------------------------------ losses */

static const double noises[] = {1, 0.3, 5, 0.02};

TEST(bands_are_all_patterns)
{
    uint64_t state = seed;
    double rows[ROUNDS_MAX * ROUNDS_MAX];
    for (int trial = 0; trial < 48; trial++) {
        size_t n = trial % 8 == 0 ? ROUNDS_MAX : 1 + draw_below(&state, 9), bands = 1 + draw_below(&state, n);
        struct eps_job job = new_job(EPS_FAMILY_DENSE, n, trial % 11 == 10 ? 1 : draw_log(&state, 1e-3, 0.9));
        memset(rows, 0, sizeof rows);
        for (size_t r = 0; r < n; r++)
            for (size_t c = r + 1 > bands ? r + 1 - bands : 0; c <= r; c++)
                rows[r * n + c] = c == r || draw_below(&state, 4) > 0 ? 0.1 + draw_unit(&state) : 0;
        job.mechanism.matrix.rows = rows;
        job.mechanism.matrix.rows_n = n;
        check_losses(&job, noises[trial % 4], n == ROUNDS_MAX ? 1 : 8);
    }
}

TEST(toeplitz_bands_are_all_patterns)
{
    uint64_t state = seed + 1;
    double coefficients[STEPS_MAX];
    for (int trial = 0; trial < 48; trial++) {
        size_t groups = trial % 2 ? 1 + draw_below(&state, 5) : 1;
        size_t n = 1 + draw_below(&state, 8 * groups), bands = 1 + draw_below(&state, n);
        struct eps_job job = new_job(EPS_FAMILY_TOEPLITZ, n, draw_log(&state, 1e-3, 0.9));
        for (size_t d = 0; d < bands; d++)
            coefficients[d] = d == 0 || draw_below(&state, 4) > 0 ? 0.1 + draw_unit(&state) : 0;
        job.mechanism.matrix.coefficients = coefficients;
        job.mechanism.matrix.coefficients_len = bands;
        if (trial % 2) {
            job.mechanism.sampling.scheme = EPS_SCHEME_CYCLIC_POISSON;
            job.mechanism.sampling.groups = groups;
        }
        check_losses(&job, noises[trial / 2 % 4], 8);
    }
}

/* Blocks share no rows, and a tile does not depend on the tile before it. */
TEST(stamps_are_all_patterns)
{
    static const double coefficients[] = {1, 0.6, 0.3};
    struct eps_job job = new_job(EPS_FAMILY_TOEPLITZ, 9, 0.3);
    job.mechanism.matrix.coefficients = coefficients;
    job.mechanism.matrix.coefficients_len = 3;
    job.mechanism.matrix.stamps = 3;
    check_losses(&job, 0.8, 16);
}

/* Full trees, and trees that the end of the stream cuts. */
TEST(trees_are_all_patterns)
{
    uint64_t state = seed + 2;
    for (int trial = 0; trial < 40; trial++) {
        size_t stamps = 1 + draw_below(&state, 3), block = 1 + draw_below(&state, stamps == 1 ? 10 : 8 / stamps);
        struct eps_job job = new_job(EPS_FAMILY_TREE, stamps * block, trial % 11 == 10 ? 1 : draw_log(&state, 1e-3, 1));
        job.mechanism.matrix.stamps = stamps;
        check_losses(&job, noises[trial % 4], 8);
    }
}

/* Patterns over the caps are left out, and draws of them have the largest possible value: delta counts them in full. */
TEST(patterns_over_the_caps_are_certain)
{
    static const size_t sizes[] = {8, 10, 7};
    size_t over = 0, inside = 0;
    for (size_t trial = 0; trial < 12; trial++) {
        enum eps_direction direction = trial % 2 ? EPS_ADD : EPS_REMOVE;
        size_t n = sizes[trial % 3], cap[EPS__MC_HEIGHT_MAX + 1];
        double sigma = trial < 6 ? 1 : 0.02, p = 0.4, rare = -2 - (double)(trial % 2), loss[EPS__LANES];
        struct eps_job job = new_job(EPS_FAMILY_TREE, n, p);
        struct eps__mc_aim aim = {.sigma = sigma, .direction = direction};
        struct opened opened;
        long double y[2 * STEPS_MAX];
        open_law(&opened, &job, sigma, direction);
        opened.class->destroy(opened.law);
        assert_int_equal(eps__mc_poisson_tree_open(&opened.law, &opened.setting, &aim, rare), EPS_OK);
        struct columns columns = columns_of(opened.setting.strategy, 1, sigma);
        size_t height = eps__strategy_blocks(opened.setting.strategy).height;
        eps__mc_poisson_tree_caps(cap, n, height, 1, p, rare);
        assert_true(cap[height] < n);
        struct eps__stream stream = stream_of(trial);
        draw_losses(&opened, &stream, 0, loss);
        for (uint32_t lane = 0; lane < EPS__LANES; lane++) {
            size_t pattern = rows_of(y, &columns, p, direction == EPS_REMOVE, &stream, 0, lane);
            long double exact = log_ratio(&columns, p, y, cap) * (direction == EPS_REMOVE ? 1 : -1);
            bool certain = !within(&columns, pattern, cap);
            over += certain;
            inside += !certain;
            if (certain ? loss[lane] != EPS__MC_CERTAIN
                        : !(fabsl((long double)loss[lane] - exact) <= (long double)opened.law->loss_error))
                fail_msg("trial %zu: %.17g for %.17Lg%s", trial, loss[lane], exact, certain ? ", certain" : "");
        }
        free(columns.at);
        close_law(&opened);
    }
    assert_true(over > 10 && inside > 100);
}

/* The number of leaves of m that take part exceeds its cap with probability at most e^-rare. */
TEST(caps_are_rarely_met)
{
    uint64_t state = seed + 3;
    for (int trial = 0; trial < 60; trial++) {
        size_t leaves = 1 + draw_below(&state, 3000), height = 0, stamps = 1 + draw_below(&state, 4);
        size_t cap[EPS__MC_HEIGHT_MAX + 1];
        double p = draw_log(&state, 1e-5, 1), rare = 5 + 40 * draw_unit(&state), sum = 0;
        while ((size_t)1 << height < leaves)
            height++;
        eps__mc_poisson_tree_caps(cap, leaves, height, stamps, p, rare);
        for (size_t h = 0; h <= height; h++) {
            size_t under = (size_t)1 << h < leaves ? (size_t)1 << h : leaves;
            assert_true(cap[h] >= 1 && cap[h] <= under);
            sum += (double)stamps * (double)(((leaves - 1) >> h) + 1) *
                   gsl_cdf_binomial_Q((unsigned)cap[h], p, (unsigned)under);
        }
        assert_true(sum <= exp(-rare));
        assert_true((double)cap[height] <= 8 * (p * (double)leaves + rare + 20));
    }
}

/* Both forms of one draw: with an exponent for each number, and without. Long runs span many tiles, and are scaled up
 * and down. */
TEST(both_forms_agree)
{
    static const double coefficients[] = {1, 0.5, 0.375, 0.3125, 0.2734375};
    for (int trial = 0; trial < 4; trial++) {
        struct eps_job job = new_job(EPS_FAMILY_TOEPLITZ, 1500, trial % 2 ? 0.4 : 0.01);
        job.mechanism.matrix.coefficients = coefficients;
        job.mechanism.matrix.coefficients_len = 5;
        for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++) {
            struct opened opened;
            double loss[EPS__LANES], expected[EPS__LANES];
            struct eps__stream stream = stream_of(3);
            open_law(&opened, &job, trial < 2 ? 1 : 0.5, direction);
            draw_losses(&opened, &stream, 32, loss);
            eps__mc_poisson_exponents(opened.law, &stream, 32, opened.scratch, expected);
            for (size_t lane = 0; lane < EPS__LANES; lane++)
                if (!(fabs(loss[lane] - expected[lane]) <= opened.law->loss_error && opened.law->loss_error < 1e-7))
                    fail_msg("%.17g and %.17g, claimed %g", loss[lane], expected[lane], opened.law->loss_error);
            close_law(&opened);
        }
    }
}

/* The same for trees, of which some are cut and some leave patterns out. */
TEST(both_forms_of_trees_agree)
{
    for (int trial = 0; trial < 6; trial++) {
        struct eps_job job = new_job(EPS_FAMILY_TREE, 2 * (300 + 37 * (size_t)trial), trial % 2 ? 0.05 : 0.004);
        job.mechanism.matrix.stamps = 2;
        for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++) {
            struct opened opened;
            double loss[EPS__LANES], expected[EPS__LANES];
            struct eps__stream stream = stream_of(3);
            open_law(&opened, &job, trial < 3 ? 8 : 1.5, direction);
            draw_losses(&opened, &stream, 32, loss);
            eps__mc_poisson_tree_exponents(opened.law, &stream, 32, opened.scratch, expected);
            for (size_t lane = 0; lane < EPS__LANES; lane++)
                if (!(fabs(loss[lane] - expected[lane]) <= opened.law->loss_error && opened.law->loss_error < 1e-8))
                    fail_msg("%.17g and %.17g, claimed %g", loss[lane], expected[lane], opened.law->loss_error);
            close_law(&opened);
        }
    }
}

/* A draw is a function of the stream alone. */
TEST(bits_do_not_depend_on_the_order)
{
    enum { CHUNKS = 3, GROUPS = 4 };
    static const double coefficients[] = {1, 0.5, 0.375};
    struct eps_job job = new_job(EPS_FAMILY_TOEPLITZ, 100, 0.05);
    struct opened opened, again;
    double loss[CHUNKS * GROUPS][EPS__LANES], other[EPS__LANES];
    job.mechanism.matrix.coefficients = coefficients;
    job.mechanism.matrix.coefficients_len = 3;
    open_law(&opened, &job, 0.7, EPS_REMOVE);
    open_law(&again, &job, 0.7, EPS_REMOVE);
    for (uint32_t i = 0; i < CHUNKS * GROUPS; i++) {
        struct eps__stream stream = stream_of(i / GROUPS);
        draw_losses(&opened, &stream, i % GROUPS * EPS__LANES, loss[i]);
        for (uint32_t j = 0; j < i; j++)
            assert_memory_not_equal(loss[i], loss[j], sizeof loss[i]);
    }
    for (uint32_t i = CHUNKS * GROUPS; i-- > 0;) {
        struct eps__stream stream = stream_of(i / GROUPS);
        draw_losses(&again, &stream, i % GROUPS * EPS__LANES, other);
        assert_memory_equal(other, loss[i], sizeof other);
    }
    close_law(&opened);
    close_law(&again);
}

/* ------------------------------------------------------------ means */

/* The mean of the draws' values at eps, and its standard error. */
static void mean_of(const struct eps_job *job, double sigma, enum eps_direction direction, double eps, size_t chunks,
                    double *mean, double *error)
{
    struct opened opened;
    double sum = 0, square = 0, loss[EPS__LANES], draws = (double)chunks * CHUNK;
    open_law(&opened, job, sigma, direction);
    for (size_t chunk = 0; chunk < chunks; chunk++)
        for (uint32_t first = 0; first < CHUNK; first += EPS__LANES) {
            struct eps__stream stream = stream_of(chunk);
            draw_losses(&opened, &stream, first, loss);
            for (size_t lane = 0; lane < EPS__LANES; lane++) {
                double value = fmax(-expm1(eps - loss[lane]), 0);
                sum += value;
                square += value * value;
            }
        }
    *mean = sum / draws;
    *error = sqrt(square / draws - *mean * *mean) / sqrt(draws);
    close_law(&opened);
}

static void check_mean(const struct eps_job *job, double sigma, enum eps_direction direction, double eps, size_t chunks,
                       double exact)
{
    double mean, error;
    mean_of(job, sigma, direction, eps, chunks, &mean, &error);
    if (!(fabs(mean - exact) <= 4 * error && error < 0.05 * exact))
        fail_msg("direction %d: %g +- %g for %g", (int)direction, mean, error, exact);
}

/* Two steps of two bands. */
TEST(means_are_those_of_quadrature)
{
    static const double coefficients[] = {1, 0.7};
    const double p = 0.3, sigma = 0.8, eps = 0.5, width = 0.02;
    struct eps_job job = new_job(EPS_FAMILY_TOEPLITZ, 2, p);
    double exact[EPS_DIRECTIONS] = {0, 0}, a = 1 / sigma, b = 0.7 / sigma;
    job.mechanism.matrix.coefficients = coefficients;
    job.mechanism.matrix.coefficients_len = 2;
    for (double u = -8; u < 10; u += width)
        for (double v = -8; v < 11; v += width) {
            double density = exp(-(u * u + v * v) / 2) * width * width / (2 * M_PI);
            double second = p * exp(a * v - a * a / 2);
            double second_after = p * exp(a * v - a * a / 2 - a * b);
            double ratio =
                (1 - p) * (1 - p + second) + p * exp(a * u + b * v - (a * a + b * b) / 2) * (1 - p + second_after);
            exact[EPS_REMOVE] += density * fmax(ratio - exp(eps), 0);
            exact[EPS_ADD] += density * fmax(1 - exp(eps) * ratio, 0);
        }
    for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++)
        check_mean(&job, sigma, direction, eps, 100, exact[direction]);
}

/* One band, and as many groups as bands: independent rounds, which pld composes. */
TEST(independent_rounds_are_those_of_pld)
{
    static const double coefficients[] = {0.8, 0.5, 0.3};
    double exact[EPS_DIRECTIONS];
    for (int which = 0; which < 3; which++) {
        struct eps_job job = new_job(which ? EPS_FAMILY_TOEPLITZ : EPS_FAMILY_IDENTITY, 40, 0.2);
        if (which) {
            job.mechanism.matrix.coefficients = coefficients;
            job.mechanism.matrix.coefficients_len = 3;
            job.mechanism.sampling.scheme = EPS_SCHEME_CYCLIC_POISSON;
            job.mechanism.sampling.groups = which == 1 ? 3 : 5;
        }
        job.query.accountant.method = EPS_ACCOUNTANT_PLD;
        solved_deltas(exact, job, 0.7, 0.3);
        for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++)
            check_mean(&job, 0.7, direction, 0.3, 40, exact[direction]);
    }
}

/* P is a law: the mean of P/Q under Q is 1. */
TEST(ratios_have_mean_one)
{
    double coefficients[12] = {1};
    for (size_t d = 1; d < 12; d++)
        coefficients[d] = coefficients[d - 1] * (1 - 0.5 / (double)d);
    for (int which = 0; which < 3; which++) {
        struct eps_job job = new_job(which == 2 ? EPS_FAMILY_TREE : EPS_FAMILY_TOEPLITZ, which ? 333 : 60, 0.02);
        if (which < 2) {
            job.mechanism.matrix.coefficients = coefficients;
            job.mechanism.matrix.coefficients_len = which ? 6 : 12;
        }
        struct opened opened;
        double sum = 0, square = 0, draws = which ? 2048 : 512, loss[EPS__LANES];
        open_law(&opened, &job, which == 2 ? 6 : 2, EPS_ADD);
        for (uint32_t first = 0; first < draws; first += EPS__LANES) {
            struct eps__stream stream = stream_of(5);
            draw_losses(&opened, &stream, first, loss);
            for (size_t lane = 0; lane < EPS__LANES; lane++) {
                sum += exp(-loss[lane]);
                square += exp(-2 * loss[lane]);
            }
        }
        double mean = sum / draws, error = sqrt((square / draws - mean * mean) / draws);
        if (!(fabs(mean - 1) <= 4 * error && error < 0.05))
            fail_msg("%d: %g +- %g", which, mean, error);
        close_law(&opened);
    }
}

/* ------------------------------------------------------------ tilted */

/* Draws aimed at `aim` give delta at eps, their values are within the bound, and the bound is close to the largest
 * possible value. */
static void check_tilted(const struct eps_job *job, enum eps_direction direction, double sigma, double aim, double eps,
                         double exact)
{
    struct opened opened;
    struct eps__mc_aim tilted = {.sigma = sigma, .direction = direction, .tilted = true, .eps = aim, .exact = true};
    double sum = 0, square = 0, largest = 0, draws = (direction == EPS_REMOVE ? 64.0 : 16.0) * CHUNK, loss[EPS__LANES],
           log_weight[EPS__LANES];
    open_law(&opened, job, sigma, direction);
    assert_true(!opened.law->class->log_most || opened.law->class->log_most(opened.law, eps) == 0); /* of plain draws */
    opened.class->destroy(opened.law);
    assert_int_equal(opened.class->open(&opened.law, &opened.setting, &tilted), EPS_OK);
    assert_true(opened.law->tilted && opened.law->log_weight_error < (direction == EPS_REMOVE ? 1e-7 : 1e-9));
    assert_int_equal(opened.law->order > 0, direction == EPS_REMOVE);
    free(opened.scratch);
    opened.scratch = aligned_alloc(64, (opened.law->scratch * sizeof(double) + 63) / 64 * 64);
    assert_non_null(opened.scratch);
    double most = exp(opened.law->class->log_most(opened.law, eps));
    for (uint32_t first = 0; first < draws; first += EPS__LANES) {
        struct eps__stream stream = stream_of(11);
        opened.law->class->draw(opened.law, &stream, first, opened.scratch, loss, log_weight);
        for (size_t lane = 0; lane < EPS__LANES; lane++) {
            double value = exp(log_weight[lane]) * fmax(-expm1(eps - loss[lane]), 0);
            largest = fmax(largest, value);
            sum += value;
            square += value * value;
        }
    }
    double mean = sum / draws, error = sqrt((square / draws - mean * mean) / draws);
    if (!(fabs(mean - exact) <= 4 * error && error < 0.08 * exact && largest <= most && most < 1 &&
          largest > 0.01 * most))
        fail_msg("eps %g: %g +- %g for %g, at most %g, found %g", eps, mean, error, exact, most, largest);
    close_law(&opened);
}

TEST(tilted_draws_show_the_same)
{
    static const double coefficients[] = {1, 0.7};
    const double p = 0.3, sigma = 2.5, width = 0.01;
    struct eps_job job = new_job(EPS_FAMILY_TOEPLITZ, 2, p);
    job.mechanism.matrix.coefficients = coefficients;
    job.mechanism.matrix.coefficients_len = 2;
    double a = 1 / sigma, b = 0.7 / sigma;
    for (int which = 0; which < 2; which++) {
        double exact = 0, eps = which ? 0.35 : 0.25;
        for (double u = -9; u < 6; u += width)
            for (double v = -9; v < 6; v += width) {
                double second = p * exp(a * v - a * a / 2), after = p * exp(a * v - a * a / 2 - a * b);
                double ratio =
                    (1 - p) * (1 - p + second) + p * exp(a * u + b * v - (a * a + b * b) / 2) * (1 - p + after);
                exact += exp(-(u * u + v * v) / 2) * width * width / (2 * M_PI) * fmax(1 - exp(eps) * ratio, 0);
            }
        check_tilted(&job, EPS_ADD, sigma, 0.3, eps, exact);
    }
}

/* Copies whose columns overlap. */
TEST(tilted_draws_of_remove_show_the_same)
{
    static const double coefficients[] = {1, 0.7};
    const double p = 0.1, sigma = 0.9, width = 0.02, a = 1 / sigma, b = 0.7 / sigma;
    struct eps_job job = new_job(EPS_FAMILY_TOEPLITZ, 2, p);
    job.mechanism.matrix.coefficients = coefficients;
    job.mechanism.matrix.coefficients_len = 2;
    for (int which = 0; which < 2; which++) {
        double exact = 0, eps = which ? 1.7 : 1.3;
        for (double u = -7; u < 12; u += width)
            for (double v = -7; v < 12; v += width) {
                double second = p * exp(a * v - a * a / 2), after = p * exp(a * v - a * a / 2 - a * b);
                double ratio =
                    (1 - p) * (1 - p + second) + p * exp(a * u + b * v - (a * a + b * b) / 2) * (1 - p + after);
                exact += exp(-(u * u + v * v) / 2) * width * width / (2 * M_PI) * fmax(ratio - exp(eps), 0);
            }
        check_tilted(&job, EPS_REMOVE, sigma, 1.5, eps, exact);
    }
}

/* Where no quadrature reaches: the means of plain and of tilted draws. */
TEST(tilted_means_of_remove_are_plain_means)
{
    for (int which = 0; which < 2; which++) {
        struct eps_job job = new_job(EPS_FAMILY_SQUARE_ROOT, 60, 0.05);
        double mean, error, sigma = 1.2, eps = 2;
        job.mechanism.matrix.bands = which ? 7 : 5;
        if (which) {
            job.mechanism.sampling.scheme = EPS_SCHEME_CYCLIC_POISSON;
            job.mechanism.sampling.groups = 2;
            job.mechanism.sampling.p = 0.1;
        }
        mean_of(&job, sigma, EPS_REMOVE, eps, 300, &mean, &error);
        assert_true(error < 0.03 * mean);
        check_tilted(&job, EPS_REMOVE, sigma, eps, eps, mean);
    }
}

/* Two leaves and their root. */
TEST(tilted_trees_show_the_same)
{
    const double p = 0.3, sigma = 3, width = 0.08, eps = 0.25, a = 1 / sigma;
    double exact = 0;
    for (double u = -8; u < 6; u += width)
        for (double v = -8; v < 6; v += width) {
            double one = p * (1 - p) * (exp(a * u - a * a) + exp(a * v - a * a));
            double both = p * p * exp(a * (u + v) - 3 * a * a);
            for (double w = -8; w < 6; w += width) {
                double root = exp(a * w), ratio = (1 - p) * (1 - p) + root * (one + root * both);
                if (ratio < exp(-eps))
                    exact += exp(-(u * u + v * v + w * w) / 2) * (1 - exp(eps) * ratio);
            }
        }
    exact *= width * width * width / pow(2 * M_PI, 1.5);
    struct eps_job job = new_job(EPS_FAMILY_TREE, 2, p);
    check_tilted(&job, EPS_ADD, sigma, eps, eps, exact);
}

/* Patterns that are left out of P raise no value above the bound. */
TEST(tilted_trees_with_caps_are_bounded)
{
    struct eps_job job = new_job(EPS_FAMILY_TREE, 27, 0.3);
    struct eps__mc_aim aim = {.sigma = 6, .direction = EPS_ADD, .tilted = true, .eps = 0.9};
    double loss[2][EPS__LANES], log_weight[2][EPS__LANES];
    struct opened opened;
    open_law(&opened, &job, 6, EPS_ADD);
    opened.class->destroy(opened.law);
    struct eps__mc_law *capped;
    assert_int_equal(eps__mc_poisson_tree_open(&opened.law, &opened.setting, &aim, 45), EPS_OK);
    assert_int_equal(eps__mc_poisson_tree_open(&capped, &opened.setting, &aim, -5), EPS_OK);
    double most = exp(capped->class->log_most(capped, 0.9));
    size_t lower = 0, held = 0;
    for (uint32_t first = 0; first < CHUNK; first += EPS__LANES) {
        struct eps__stream stream = stream_of(12);
        opened.law->class->draw(opened.law, &stream, first, opened.scratch, loss[0], log_weight[0]);
        capped->class->draw(capped, &stream, first, opened.scratch, loss[1], log_weight[1]);
        for (size_t lane = 0; lane < EPS__LANES; lane++) {
            assert_true(log_weight[0][lane] == log_weight[1][lane]);
            assert_true(loss[1][lane] >= loss[0][lane] - capped->loss_error);
            assert_true(exp(log_weight[1][lane]) * fmax(-expm1(0.9 - loss[1][lane]), 0) <= most);
            lower += loss[1][lane] > loss[0][lane] + 0.01;
            held += loss[1][lane] > 0.9;
        }
    }
    assert_true(lower > 10 && held > 10);
    capped->class->destroy(capped);
    close_law(&opened);
}

TEST(small_deltas_are_those_of_pld)
{
    static const double coefficients[] = {0.8, 0.5, 0.3};
    double exact[EPS_DIRECTIONS];
    for (int which = 0; which < 3; which++) {
        struct eps_job job = new_job(which == 1 ? EPS_FAMILY_TOEPLITZ : EPS_FAMILY_IDENTITY, 100, 0.05);
        if (which == 1) {
            job.mechanism.matrix.coefficients = coefficients;
            job.mechanism.matrix.coefficients_len = 3;
            job.mechanism.sampling.scheme = EPS_SCHEME_CYCLIC_POISSON;
            job.mechanism.sampling.groups = 3;
            job.mechanism.sampling.p = 0.1;
        }
        job.query.accountant.method = EPS_ACCOUNTANT_PLD;
        solved_deltas(exact, job, 2, 1);
        assert_true(exact[EPS_ADD] < 1e-5);
        if (which == 2) { /* trees of one leaf */
            job.mechanism.matrix.family = EPS_FAMILY_TREE;
            job.mechanism.matrix.stamps = 100;
        }
        check_tilted(&job, EPS_ADD, 2, 1, 1, exact[EPS_ADD]);
        if (which < 2)
            check_tilted(&job, EPS_REMOVE, 2, 1, 1, exact[EPS_REMOVE]);
    }
}

/* ------------------------------------------------------------ what is not served */

TEST(what_is_not_derived_is_declined)
{
    static double coefficients[] = {1, 0.5, 0.4};
    struct eps_job job = new_job(EPS_FAMILY_TOEPLITZ, 40, 0.1);
    job.mechanism.matrix.coefficients = coefficients;
    job.mechanism.matrix.coefficients_len = 3;
    job.mechanism.sampling.scheme = EPS_SCHEME_CYCLIC_POISSON;
    job.mechanism.sampling.groups = 2;
    job.mechanism.matrix.stamps = 2;
    assert_declined(job, "/matrix");
    job.mechanism.sampling.scheme = EPS_SCHEME_POISSON;
    job.mechanism.sampling.groups = 0;
    job.mechanism.sampling.examples_per_user = 2;
    assert_declined(job, "/sampling/examples_per_user");
    job.mechanism.sampling.examples_per_user = 1;
    job.mechanism.adjacency = EPS_ADJACENCY_REPLACE_ONE;
    assert_declined(job, "/adjacency");
    job.mechanism.adjacency = EPS_ADJACENCY_ADD_REMOVE;
    job.mechanism.sampling.truncation = true;
    job.mechanism.sampling.max_batch_size = 10;
    job.mechanism.sampling.batch_size = 4;
    job.mechanism.sampling.dataset_size = 40;
    job.mechanism.sampling.p = NAN;
    job.mechanism.adjacency = EPS_ADJACENCY_ZERO_OUT;
    assert_declined(job, "/sampling/truncation");
    job = new_job(EPS_FAMILY_IDENTITY, 40, 0.1);
    job.mechanism.sampling.last_iterate = true;
    assert_declined(job, "/sampling/last_iterate");
}
