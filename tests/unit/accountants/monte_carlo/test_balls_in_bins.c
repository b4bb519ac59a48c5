/*
 * Monte Carlo's draws under balls in bins, compared with the strategy's own columns, step by step: the Gram matrix of
 * the drawn pair, P/Q at a point, and means of draws, compared with direct draws of all steps and with the exact law
 * where bins share no row.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/accountants/monte_carlo/laws/factor.h"
#include "lib/accountants/monte_carlo/law.h"
#include "lib/accountants/monte_carlo/laws/multisets.h"
#include "lib/accountants/monte_carlo/laws/cumulative.h"
#include "lib/accountants/merged_bins.h"
#include "lib/moments/laws/balls_in_bins.h"
#include "lib/job/setting.h"
#include "tests/unit/draw.h"
#include "tests/unit/matrices.h"
#include "tests/unit/solved.h"
#include "tests/unit/test.h"

enum { BINS_MOST = 32, ROWS_MOST = 128 };
static const uint64_t seed = 11235;

/* ------------------------------------------------------------ jobs */

struct design {
    const char *name;
    enum eps_family family;
    size_t n, bins;
    double column[4];
    size_t column_len;
};

static const struct design designs[] = {
    {"identity", EPS_FAMILY_IDENTITY, 12, 12, {0}, 0},
    {"identity, epochs", EPS_FAMILY_IDENTITY, 24, 8, {0}, 0},
    {"band", EPS_FAMILY_TOEPLITZ, 14, 14, {1, 0.6, 0.3}, 3},
    {"cyclic band", EPS_FAMILY_TOEPLITZ, 36, 12, {0.9, 0.5, 0.2}, 3},
    {"small bins", EPS_FAMILY_TOEPLITZ, 12, 3, {1, 0.5, 0.25, 0.1}, 4},
    {"one bin", EPS_FAMILY_TOEPLITZ, 4, 1, {1, 0.5}, 2},
    {"tree", EPS_FAMILY_TREE, 16, 8, {0}, 0},
    {"square root", EPS_FAMILY_SQUARE_ROOT, 20, 10, {0}, 0},
    {"wide", EPS_FAMILY_SQUARE_ROOT, 60, 30, {0}, 0},
};
enum { DESIGNS = sizeof designs / sizeof *designs };

static struct eps_job job_for(const struct design *design)
{
    struct eps_job job;
    eps_job_init(&job);
    job.mechanism.n = design->n;
    job.mechanism.matrix.family = design->family;
    job.mechanism.matrix.normalization = EPS_NORMALIZATION_NONE;
    if (design->column_len > 0) {
        job.mechanism.matrix.coefficients = design->column;
        job.mechanism.matrix.coefficients_len = design->column_len;
    }
    job.mechanism.sampling.scheme = EPS_SCHEME_BALLS_IN_BINS;
    job.mechanism.sampling.bins = design->bins;
    job.query.accountant.method = EPS_ACCOUNTANT_RENYI;
    job.query.noise_multiplier = 1;
    job.query.epsilon = 1;
    eps_job_defaults(&job);
    return job;
}

/* The merged columns over sigma, straight from the rows of C. */
struct columns {
    size_t rows, bins;
    double at[ROWS_MOST][BINS_MOST];
};

static struct columns columns_of(const struct design *design, double sigma)
{
    struct eps_job job = job_for(design);
    struct eps_strategy *strategy = strategy_new(&job.mechanism);
    struct matrix c = part_matrix(strategy, EPS_PART_ENCODER);
    struct columns m = {.rows = c.rows, .bins = design->bins};
    assert_true(c.rows <= ROWS_MOST && design->bins <= BINS_MOST);
    for (size_t i = 0; i < c.rows; i++)
        for (size_t j = 0; j < c.columns; j++)
            m.at[i][j % m.bins] += (double)(*entry(&c, i, j) / sigma);
    matrix_free(&c);
    eps_strategy_destroy(strategy);
    return m;
}

static double gram_entry(const struct columns *m, size_t i, size_t j)
{
    double sum = 0;
    for (size_t r = 0; r < m->rows; r++)
        sum += m->at[r][i] * m->at[r][j];
    return sum;
}

/* ln P/Q at the noisy steps y. */
static double log_ratio_of(const struct columns *m, const double *y)
{
    double sum = 0;
    for (size_t i = 0; i < m->bins; i++) {
        double exponent = 0;
        for (size_t r = 0; r < m->rows; r++)
            exponent += m->at[r][i] * (y[r] - m->at[r][i] / 2);
        sum += exp(exponent);
    }
    return log(sum / (double)m->bins);
}

/* ------------------------------------------------------------ means */

struct mean {
    double value, error; /* its standard error */
    double largest;      /* the true mean; 0: not known */
};

static struct mean mean_of(double sum, double squares, size_t samples)
{
    double mean = sum / (double)samples;
    return (struct mean){mean, sqrt(fmax(squares / (double)samples - mean * mean, 0) / (double)samples), 0};
}

/* delta from draws of all steps, by another generator. */
static struct mean direct(const struct columns *m, enum eps_direction direction, double eps, size_t samples)
{
    uint64_t state = seed;
    double sum = 0, squares = 0;
    for (size_t s = 0; s < samples; s++) {
        double y[ROWS_MOST];
        size_t own = draw_below(&state, m->bins);
        for (size_t r = 0; r < m->rows; r++) {
            y[r] = sqrt(-2 * log(1 - draw_unit(&state))) * cos(2 * M_PI * draw_unit(&state));
            y[r] += direction == EPS_REMOVE ? m->at[r][own] : 0;
        }
        double loss = log_ratio_of(m, y) * (direction == EPS_REMOVE ? 1 : -1), value = fmax(-expm1(eps - loss), 0);
        sum += value;
        squares += value * value;
    }
    return mean_of(sum, squares, samples);
}

static double *scratch_for(const struct eps__mc_law *law)
{
    size_t bytes = (law->scratch * sizeof(double) + 63) / 64 * 64;
    double *scratch = aligned_alloc(64, bytes);
    assert_non_null(scratch);
    return scratch;
}

/* The same from the law's draws, none of which may exceed the law's bound. */
static struct mean drawn(const struct eps__mc_law *law, double eps, size_t samples)
{
    struct eps__stream stream = {.key = {(uint32_t)seed, 7}};
    double *scratch = scratch_for(law), sum = 0, squares = 0, largest = 0;
    double log_most = law->class->log_most ? law->class->log_most(law, eps) : 0;
    assert_true(law->loss_error >= 0 && law->loss_error < 1e-9 && law->log_weight_error < 1e-8);
    for (size_t s = 0; s < samples; s += EPS__LANES) {
        double loss[EPS__LANES], log_weight[EPS__LANES];
        stream.chunk = s / 1024;
        law->class->draw(law, &stream, s % 1024, scratch, loss, log_weight);
        for (size_t lane = 0; lane < EPS__LANES; lane++) {
            double l = loss[lane] + law->loss_error, log_w = log_weight[lane] + law->log_weight_error;
            double value = l > eps ? exp(log_w) * -expm1(eps - l) : 0;
            assert_true(law->tilted || log_weight[lane] == 0);
            if (!(value <= exp(log_most)))
                fail_msg("%g, a loss of %g, is over %g", value, l, exp(log_most));
            sum += value;
            squares += value * value;
            largest = fmax(largest, value);
        }
    }
    free(scratch);
    struct mean mean = mean_of(sum, squares, samples);
    mean.largest = largest;
    return mean;
}

static struct eps__mc_law *law_of(const struct eps__setting *setting, double sigma, enum eps_direction direction,
                                  bool tilted, double eps)
{
    struct eps__mc_aim aim = {.sigma = sigma, .direction = direction, .tilted = tilted, .eps = eps, .least = eps};
    struct eps__mc_law *law = NULL;
    assert_int_equal(eps__mc_balls_in_bins.open(&law, setting, &aim), EPS_OK);
    assert_true(law->direction == direction && law->tilted == tilted && law->class == &eps__mc_balls_in_bins);
    return law;
}

static void assert_near(const char *what, struct mean own, struct mean other, double most_relative)
{
    double allowed = 4 * hypot(own.error, other.error);
    if (!(fabs(own.value - other.value) <= allowed))
        fail_msg("%s: %g by %g, not %g by %g", what, own.value, own.error, other.value, other.error);
    if (!(own.error <= most_relative * own.value)) /* else the test would show nothing */
        fail_msg("%s: a mean of %g, known by %g", what, own.value, own.error);
}

/* ------------------------------------------------------------ tests */

/* A30: the lower and the upper bound on every entry. */
TEST(the_factor_dominates)
{
    for (size_t d = 0; d < DESIGNS; d++)
        for (double sigma = 0.3; sigma < 30; sigma *= 5) {
            struct eps_job job = job_for(&designs[d]);
            struct columns m = columns_of(&designs[d], sigma);
            struct eps__setting setting;
            struct eps__bin_gram bins;
            struct eps__mc_factor factor;
            double *upper;
            assert_int_equal(eps__setting_open(&setting, NULL, NULL, &job), EPS_OK);
            assert_true(eps__mc_law_class_of(&job.mechanism) == &eps__mc_balls_in_bins);
            assert_int_equal(eps__merged_bins(&bins, &setting, sigma, 1), EPS_OK);
            assert_int_equal(eps__mc_factor_make(&factor, &bins, &upper), EPS_OK);
            size_t b = bins.len;
            double rows[BINS_MOST][BINS_MOST] = {{0}};
            for (size_t i = 0; i < b; i++)
                for (size_t k = factor.first[i]; k <= i; k++)
                    rows[i][k] = factor.entries[factor.start[i] + k - factor.first[i]];
            for (size_t i = 0; i < b; i++)
                for (size_t j = 0; j <= i; j++) {
                    __float128 exact = 0;
                    for (size_t k = 0; k < b; k++)
                        exact += (__float128)rows[i][k] * rows[j][k];
                    double told = eps__bin_gram_entry(&bins, i, j), own = gram_entry(&m, i, j),
                           size = 1e-11 * sqrt(gram_entry(&m, i, i) * gram_entry(&m, j, j));
                    if (!(exact >= told && (double)exact <= own + size && told >= own - 1e-4 * size))
                        fail_msg("%s, %zu and %zu: %.17g for %.17g and %.17g", designs[d].name, i, j, (double)exact,
                                 told, own);
                    assert_true(!upper || (upper[i * b + j] >= exact && upper[j * b + i] <= own + size));
                }
            free(upper);
            eps__mc_factor_clear(&factor);
            eps__bin_gram_clear(&bins);
            eps__setting_close(&setting);
        }
}

/* Bins that are 1e85 times shorter than others, and nearly parallel to them, have a factor, too. */
TEST(short_bins_have_a_factor)
{
    struct eps_result *result =
        solved(NULL, job_of("{'n': 4, 'matrix': {'family': 'blt', 'normalization': 'max_column',"
                            " 'decay': [0.9999999999999417, 0.23738388070996536],"
                            " 'scale': [9.999999999999998e99, 275611545139841.56]},"
                            " 'sampling': {'scheme': 'balls_in_bins', 'bins': 4}, 'epsilon': 9999, 'delta': 7.7e-21,"
                            " 'accountant': {'method': 'gaussian', 'audit': 147}}"));
    assert_true(result->audit[EPS_REMOVE].lower <= result->delta && result->audit[EPS_ADD].lower <= result->delta);
    eps_result_destroy(result);
}

/* Squared lengths of 1e197 beside 1e83: their product overflows. */
TEST(long_bins_have_a_factor)
{
    struct eps_result *result =
        solved(NULL, job_of("{'n': 3, 'matrix': {'family': 'dense', 'normalization': 'none',"
                            " 'rows': [[1e100], [0.5, 1e42], [0.5, 0.5, 1e42]]},"
                            " 'sampling': {'scheme': 'balls_in_bins', 'bins': 3}, 'epsilon': 1, 'noise_multiplier': 29,"
                            " 'accountant': {'method': 'gaussian', 'audit': 1024}}"));
    assert_true(result->audit[EPS_REMOVE].lower <= result->delta && result->audit[EPS_ADD].lower <= result->delta);
    eps_result_destroy(result);
}

/* Bands stay bands, and the corners of a cyclic band become full rows only at its end. */
TEST(the_factor_is_narrow)
{
    for (size_t d = 0; d < 4; d++) {
        struct eps_job job = job_for(&designs[d]);
        struct eps__setting setting;
        struct eps__bin_gram bins;
        struct eps__mc_factor factor;
        assert_int_equal(eps__setting_open(&setting, NULL, NULL, &job), EPS_OK);
        assert_int_equal(eps__merged_bins(&bins, &setting, 1, 1), EPS_OK);
        assert_int_equal(eps__mc_factor_make(&factor, &bins, NULL), EPS_OK);
        size_t b = bins.len, bands = d < 2 ? 1 : 3;
        for (size_t i = 0; i < b; i++) {
            size_t width = i + 1 - factor.first[i];
            assert_true(width <= bands || (d == 3 && i + bands > b));
        }
        eps__mc_factor_clear(&factor);
        eps__bin_gram_clear(&bins);
        eps__setting_close(&setting);
    }
}

/* A30: at points of all sizes, far beyond the range of exponentials, in the law's own coordinates. */
TEST(the_ratio_is_that_of_its_definition)
{
    uint64_t state = seed;
    for (size_t d = 0; d < DESIGNS; d++)
        for (double sigma = 0.01; sigma < 30; sigma *= 10) {
            struct eps_job job = job_for(&designs[d]);
            struct eps__setting setting;
            struct eps__bin_gram bins;
            struct eps__mc_factor factor;
            assert_int_equal(eps__setting_open(&setting, NULL, NULL, &job), EPS_OK);
            assert_int_equal(eps__merged_bins(&bins, &setting, sigma, 1), EPS_OK);
            assert_int_equal(eps__mc_factor_make(&factor, &bins, NULL), EPS_OK);
            size_t b = bins.len;
            double y[BINS_MOST * EPS__LANES], work[BINS_MOST * EPS__LANES], found[EPS__LANES];
            double reach = EPS__NORMAL_MOST + factor.largest, error = eps__mc_factor_error(&factor, reach);
            for (size_t i = 0; i < b * EPS__LANES; i++)
                y[i] = draw_between(&state, -reach, reach);
            eps__mc_factor_log_ratio(found, &factor, y, work);
            for (size_t lane = 0; lane < EPS__LANES; lane++) {
                long double exponent[BINS_MOST], most = -INFINITY, sum = 0;
                for (size_t i = 0; i < b; i++) {
                    exponent[i] = 0;
                    for (size_t k = factor.first[i]; k <= i; k++) {
                        long double f = factor.entries[factor.start[i] + k - factor.first[i]];
                        exponent[i] += f * (y[k * EPS__LANES + lane] - f / 2);
                    }
                    most = fmaxl(most, exponent[i]);
                }
                for (size_t i = 0; i < b; i++)
                    sum += expl(exponent[i] - most);
                long double exact = most + logl(sum / (long double)b);
                if (!(fabsl(found[lane] - exact) <= error && error <= 1e-11L * (1 + fabsl(most) + reach * reach)))
                    fail_msg("%s, sigma %g: %.17g, not %.17Lg, by %g", designs[d].name, sigma, found[lane], exact,
                             error);
            }
            eps__mc_factor_clear(&factor);
            eps__bin_gram_clear(&bins);
            eps__setting_close(&setting);
        }
}

/* The loss of a plain draw is that of its own normals and its own bin. */
TEST(every_draw_has_its_own_bin)
{
    const struct eps__stream stream = {.key = {3, 4}, .chunk = 5};
    const uint32_t first = 32;
    for (size_t d = 0; d < DESIGNS; d++)
        for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++) {
            struct eps_job job = job_for(&designs[d]);
            struct eps__setting setting;
            struct eps__bin_gram bins;
            struct eps__mc_factor factor;
            assert_int_equal(eps__setting_open(&setting, NULL, NULL, &job), EPS_OK);
            assert_int_equal(eps__merged_bins(&bins, &setting, 1, 1), EPS_OK);
            assert_int_equal(eps__mc_factor_make(&factor, &bins, NULL), EPS_OK);
            struct eps__mc_law *law = law_of(&setting, 1, direction, false, NAN);
            double *scratch = scratch_for(law), loss[EPS__LANES], log_weight[EPS__LANES], expected[EPS__LANES],
                   y[(BINS_MOST + 1) * EPS__LANES], work[BINS_MOST * EPS__LANES];
            law->class->draw(law, &stream, first, scratch, loss, log_weight);
            eps__normals(y, &stream, first, 0, bins.len + bins.len % 2);
            for (uint32_t lane = 0; lane < EPS__LANES && direction == EPS_REMOVE; lane++)
                eps__mc_factor_add(y, &factor, (size_t)(eps__uniform(&stream, first + lane, 0) * (double)bins.len), 1,
                                   lane);
            eps__mc_factor_log_ratio(expected, &factor, y, work);
            for (size_t lane = 0; lane < EPS__LANES; lane++)
                assert_true(loss[lane] == (direction == EPS_REMOVE ? expected[lane] : -expected[lane]));
            free(scratch);
            law->class->destroy(law);
            eps__mc_factor_clear(&factor);
            eps__bin_gram_clear(&bins);
            eps__setting_close(&setting);
        }
}

TEST(plain_draws_are_of_the_mechanism)
{
    for (size_t d = 0; d + 1 < DESIGNS; d++)
        for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++) {
            double sigma = d % 2 ? 1.5 : 1, eps = 0.3;
            struct eps_job job = job_for(&designs[d]);
            struct columns m = columns_of(&designs[d], sigma);
            struct eps__setting setting;
            assert_int_equal(eps__setting_open(&setting, NULL, NULL, &job), EPS_OK);
            struct eps__mc_law *law = law_of(&setting, sigma, direction, false, NAN);
            assert_near(designs[d].name, drawn(law, eps, 1 << 15), direct(&m, direction, eps, 1 << 15), 0.03);
            law->class->destroy(law);
            eps__setting_close(&setting);
        }
}

/* Against the exact law where bins share no row. */
TEST(plain_draws_agree_with_the_exact_law)
{
    for (size_t d = 0; d < 2; d++) {
        struct eps_job job = job_for(&designs[d]);
        struct eps__setting setting;
        double exact[EPS_DIRECTIONS], sigma = 0.8, eps = 1;
        job.query.accountant.method = EPS_ACCOUNTANT_PLD;
        eps_job_defaults(&job);
        solved_deltas(exact, job, sigma, eps);
        assert_int_equal(eps__setting_open(&setting, NULL, NULL, &job), EPS_OK);
        for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++) {
            struct eps__mc_law *law = law_of(&setting, sigma, direction, false, NAN);
            assert_near(designs[d].name, drawn(law, eps, 1 << 16), (struct mean){.value = exact[direction]}, 0.05);
            law->class->destroy(law);
        }
        eps__setting_close(&setting);
    }
}

/* A31: no item is drawn less often than its weight demands, and the sum is that of the weights. */
TEST(a_cumulative_table_is_never_short)
{
    uint64_t state = seed;
    for (int c = 0; c < 2000; c++) {
        double weight[200], ends[200];
        size_t n = 1 + draw_below(&state, c % 10 ? 12 : 200), drawn_items = 0;
        __float128 total = 0;
        for (size_t k = 0; k < n; k++) {
            weight[k] = draw_below(&state, 4) == 0 ? 0 : draw_log(&state, c % 2 ? 1e-300 : 1e-3, 1e3);
            total += weight[k];
        }
        double sum = eps__cumulative_make(ends, weight, n), before = 0;
        if (!(total > 0)) {
            assert_true(sum == 0);
            continue;
        }
        assert_true(sum >= total && sum <= total * (1 + (__float128)1e-12));
        for (size_t k = 0; k < n; k++) {
            double values = ends[k] - before;
            assert_true(values == rint(values) && (__float128)values * 0x1p-52 >= (__float128)weight[k] / sum);
            assert_true((weight[k] > 0) == (values > 0));
            if (values > 0) { /* the first and the last of its values */
                drawn_items++;
                assert_true(eps__cumulative_draw(ends, n, (before + 0.5) * 0x1p-52) == k);
                assert_true(eps__cumulative_draw(ends, n, (ends[k] - 0.5) * 0x1p-52) == k);
            }
            before = ends[k];
        }
        assert_true(before == 0x1p52 && drawn_items > 0);
    }
    double none[2] = {0, 0}, over[2] = {1e308, 1e308};
    assert_true(eps__cumulative_make(none, none, 2) == 0 && isinf(eps__cumulative_make(over, over, 2)));
}

/* The tables that multisets are drawn from, and the matrix of their weights. */
struct tilt {
    struct eps__mc_factor factor;
    struct eps__mc_multisets sets;
    double gram[BINS_MOST][BINS_MOST];
    size_t bins;
    double log_upper[EPS__MC_ORDER_MAX + 1]; /* of moments, by lib/moments; INFINITY where it knows none */
};

static void tilt_of(struct tilt *tilt, const struct design *design, double sigma, double eps)
{
    struct eps_job job = job_for(design);
    struct eps__setting setting;
    struct eps__bin_gram bins;
    struct eps__orders orders;
    const struct eps__effort effort = {.operations = 1e7};
    double *upper;
    assert_int_equal(eps__setting_open(&setting, NULL, NULL, &job), EPS_OK);
    assert_int_equal(eps__merged_bins(&bins, &setting, sigma, 1), EPS_OK);
    assert_int_equal(eps__mc_factor_make(&tilt->factor, &bins, &upper), EPS_OK);
    assert_int_equal(eps__mc_multisets_make(&tilt->sets, &tilt->factor, upper, eps, 0), EPS_OK);
    tilt->bins = bins.len;
    for (size_t i = 0; i < bins.len; i++)
        for (size_t j = 0; j < bins.len; j++)
            tilt->gram[i][j] = eps__bin_gram_entry(&bins, i, j);
    assert_int_equal(eps__bin_gram_orders(NULL, &orders, &bins, &effort), EPS_OK);
    for (unsigned a = 0; a <= EPS__MC_ORDER_MAX; a++)
        tilt->log_upper[a] = a <= orders.len ? orders.log_upper[a] : INFINITY;
    eps__orders_clear(&orders);
    free(upper);
    eps__bin_gram_clear(&bins);
    eps__setting_close(&setting);
}

static void tilt_clear(struct tilt *tilt)
{
    eps__mc_multisets_clear(&tilt->sets);
    eps__mc_factor_clear(&tilt->factor);
}

enum { SMALL_BINS = 4, COUNTS = EPS__MC_ORDER_MAX + 1, PLACES = COUNTS * COUNTS * COUNTS, DRAWS = 1 << 15 };

static size_t place_of(const unsigned *r)
{
    return ((size_t)r[0] * COUNTS + r[1]) * COUNTS + r[2];
}

/* Over all multisets of four bins, the sum of the weights of their sequences. */
static double fill_weights(double *weight, const struct tilt *tilt)
{
    unsigned order = tilt->sets.order, r[SMALL_BINS];
    double total = 0;
    for (r[0] = 0; r[0] <= order; r[0]++)
        for (r[1] = 0; r[0] + r[1] <= order; r[1]++)
            for (r[2] = 0; r[0] + r[1] + r[2] <= order; r[2]++) {
                r[3] = order - r[0] - r[1] - r[2];
                double exponent = lgamma(order + 1.0) - order * log(SMALL_BINS);
                for (size_t i = 0; i < SMALL_BINS; i++) {
                    exponent += 0.5 * r[i] * (r[i] - 1.0) * tilt->gram[i][i] - lgamma(r[i] + 1.0);
                    for (size_t j = 0; j < i; j++)
                        exponent += r[i] * r[j] * tilt->gram[i][j];
                }
                weight[place_of(r)] = exp(exponent);
                total += exp(exponent);
            }
    return total;
}

/* A32: the frequencies of multisets, and both bounds on ln Z. */
TEST(multisets_have_their_weights)
{
    static const struct design small[] = {{"identity", EPS_FAMILY_IDENTITY, 4, 4, {0}, 0},
                                          {"band", EPS_FAMILY_TOEPLITZ, 4, 4, {1, 0.6}, 2},
                                          {"cyclic", EPS_FAMILY_TOEPLITZ, 12, 4, {0.5, 0.4}, 2},
                                          {"full", EPS_FAMILY_SQUARE_ROOT, 12, 4, {0}, 0}};
    double *count = malloc(PLACES * sizeof *count), *weight = malloc(PLACES * sizeof *weight);
    unsigned most = 0;
    assert_true(count && weight);
    for (size_t d = 0; d < 4; d++)
        for (double eps = 0.5; eps < 4; eps += 1) {
            struct tilt tilt;
            tilt_of(&tilt, &small[d], d == 3 ? 4 : 1.5, eps);
            unsigned order = tilt.sets.order;
            memset(count, 0, PLACES * sizeof *count);
            memset(weight, 0, PLACES * sizeof *weight);
            double total = fill_weights(weight, &tilt);
            most = order > most ? order : most;
            assert_true(fabs(tilt.sets.log_moment - log(total)) < 1e-9 * (1 + log(total)));
            assert_true(tilt.sets.log_moment >= log(total) - 1e-12 * (1 + log(total)));
            for (uint32_t k = 0; k < DRAWS; k++) {
                const struct eps__stream stream = {.key = {8, 9}, .chunk = k / 1024};
                uint32_t chosen[EPS__MC_ORDER_MAX];
                unsigned r[SMALL_BINS] = {0};
                eps__mc_multisets_draw(chosen, &tilt.sets, &stream, k % 1024);
                for (unsigned c = 0; c < order; c++)
                    r[chosen[c]]++;
                count[place_of(r)]++;
            }
            for (size_t s = 0; s < PLACES; s++) {
                double expected = DRAWS * weight[s] / total;
                if (!(fabs(count[s] - expected) <= 5 * sqrt(expected + 1)))
                    fail_msg("%s, order %u, %zu: %g, not %g", small[d].name, order, s, count[s], expected);
            }
            tilt_clear(&tilt);
        }
    assert_true(most > 8);
    free(count);
    free(weight);
}

/* The same where most bins meet: pairs. */
TEST(pairs_have_their_weights)
{
    static const struct design full = {"full", EPS_FAMILY_SQUARE_ROOT, 64, 32, {0}, 0};
    struct tilt tilt;
    double count[BINS_MOST][BINS_MOST] = {{0}}, total = 0;
    tilt_of(&tilt, &full, 1.2, 0.2);
    assert_true(tilt.sets.order == 2 && tilt.sets.row && !tilt.sets.chain.ends);
    for (size_t i = 0; i < 32; i++)
        for (size_t j = 0; j < 32; j++)
            total += exp(tilt.gram[i][j]);
    assert_true(fabs(tilt.sets.log_moment - log(total / 1024) - 1e-10) < 1e-10);
    for (uint32_t k = 0; k < DRAWS; k++) {
        const struct eps__stream stream = {.key = {8, 9}, .chunk = k / 1024};
        uint32_t chosen[EPS__MC_ORDER_MAX];
        eps__mc_multisets_draw(chosen, &tilt.sets, &stream, k % 1024);
        count[chosen[0]][chosen[1]]++;
    }
    for (size_t i = 0; i < 32; i++)
        for (size_t j = 0; j < 32; j++) {
            double expected = DRAWS * exp(tilt.gram[i][j]) / total;
            assert_true(fabs(count[i][j] - expected) <= 5 * sqrt(expected + 1));
        }
    tilt_clear(&tilt);
}

/* A32: for a full matrix of which only a band is summed, draws weighted with their factors have the right
 * frequencies. */
TEST(a_cut_matrix_is_told)
{
    static const double epses[] = {1, 2, 4};
    static const struct design full = {"full", EPS_FAMILY_SQUARE_ROOT, 60, 30, {0}, 0};
    int cut = 0, compared = 0;
    for (size_t e = 0; e < 3; e++) {
        struct tilt tilt;
        tilt_of(&tilt, &full, 2.5, epses[e]);
        unsigned order = tilt.sets.order;
        double sum = 0, squares = 0, most = tilt.sets.chain.tau * 0.5 * order * (order - 1.0);
        for (uint32_t k = 0; k < DRAWS; k++) {
            const struct eps__stream stream = {.key = {8, 9}, .chunk = k / 1024};
            uint32_t chosen[EPS__MC_ORDER_MAX];
            double factor = eps__mc_multisets_draw(chosen, &tilt.sets, &stream, k % 1024);
            assert_true(factor <= 0 && factor >= -most);
            sum += exp(factor);
            squares += exp(2 * factor);
        }
        /* Z times its mean is the sum of all weights */
        struct mean found = mean_of(sum, squares, DRAWS);
        print_message("# order %u, tau %g: of %g is %g by %g\n", order, tilt.sets.chain.tau, tilt.sets.log_moment,
                      tilt.sets.log_moment + log(found.value), found.error / found.value);
        cut += tilt.sets.chain.gram && order >= 3;
        if (order == 3) {
            double total = 0;
            compared++;
            for (size_t i = 0; i < tilt.bins; i++)
                for (size_t j = 0; j < tilt.bins; j++)
                    for (size_t k = 0; k < tilt.bins; k++)
                        total += exp(tilt.gram[i][j] + tilt.gram[i][k] + tilt.gram[j][k]);
            double own = exp(tilt.sets.log_moment - log(total) + 3 * log((double)tilt.bins));
            assert_near("order 3", (struct mean){own * found.value, own * found.error, 0}, (struct mean){.value = 1},
                        0.02);
        }
        tilt_clear(&tilt);
    }
    assert_true(cut >= 1 && compared >= 1);
}

/* A32: ln Z compared with moments, or bounds on them, that other code computes. */
TEST(the_moment_is_that_of_the_orders)
{
    int compared = 0;
    for (size_t d = 0; d + 1 < DESIGNS; d++)
        for (double eps = 0.2; eps < 6; eps *= 2) {
            struct tilt tilt;
            tilt_of(&tilt, &designs[d], 1 + eps, eps);
            double own = tilt.sets.log_moment, other = tilt.log_upper[tilt.sets.order];
            if (!(own <= other + 1e-9 * (1 + other))) /* which may be a bound where the matrix is full */
                fail_msg("%s, order %u: %.17g, not %.17g", designs[d].name, tilt.sets.order, own, other);
            compared += fabs(own - other) < 1e-9 * (1 + other);
            if (d < 3)
                assert_true(isinf(other) || fabs(own - other) < 1e-9 * (1 + other));
            tilt_clear(&tilt);
        }
    assert_true(compared > 20);
}

/* The prototype's figures: b = 100, one epoch, sigma 0.6, eps 4. */
TEST(tilted_draws_are_few)
{
    struct design design = {"prototype", EPS_FAMILY_IDENTITY, 100, 100, {0}, 0};
    struct eps_job job = job_for(&design);
    struct eps__setting setting;
    double exact[EPS_DIRECTIONS];
    job.query.accountant.method = EPS_ACCOUNTANT_PLD;
    eps_job_defaults(&job);
    solved_deltas(exact, job, 0.6, 4);
    assert_int_equal(eps__setting_open(&setting, NULL, NULL, &job), EPS_OK);
    struct eps__mc_law *law = law_of(&setting, 0.6, EPS_REMOVE, true, 4);
    struct mean own = drawn(law, 4, 20000);
    double coefficient[5] = {1}, moment_most; /* of the power of a series */
    for (int i = 0; i < 100; i++)
        for (int a = 4; a >= 0; a--)
            for (int r = 1; r <= a; r++)
                coefficient[a] += coefficient[a - r] * exp(r * (r - 1) / 0.72) / tgamma(r + 1);
    moment_most = 24e-8 * coefficient[4] * exp(-12) * pow(0.75, 4) / 3;
    double most = exp(law->class->log_most(law, 4));
    print_message("# order %u, at most %.4g, %.4g by %.2g, exact %.4g\n", law->order, most, own.value, own.error,
                  exact[EPS_REMOVE]);
    assert_true(law->order == 4 && fabs(most / moment_most - 1) < 1e-10 && most > 1.35e-5 && most < 1.365e-5);
    assert_near("prototype", own, (struct mean){.value = exact[EPS_REMOVE]}, 0.015);
    law->class->destroy(law);
    eps__setting_close(&setting);
}

/* A32: compared with plain draws, and with the exact law where bins share no row; the bound on values is nearly
 * attained. */
TEST(tilted_draws_are_of_the_mechanism)
{
    static const double sigmas[] = {0.5, 0.8, 2}, epses[] = {3, 1, 0.4};
    int compared = 0;
    for (size_t d = 0; d < DESIGNS; d++)
        for (size_t k = 0; k < 3; k++)
            for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++) {
                struct eps_job job = job_for(&designs[d]);
                struct eps__setting setting;
                assert_int_equal(eps__setting_open(&setting, NULL, NULL, &job), EPS_OK);
                struct eps__mc_law *plain = law_of(&setting, sigmas[k], direction, false, NAN),
                                   *tilted = law_of(&setting, sigmas[k], direction, true, epses[k]);
                double most = exp(tilted->class->log_most(tilted, epses[k])), exact[EPS_DIRECTIONS];
                if (most < 1) { /* else plain draws are better, and the others too far apart */
                    struct mean own = drawn(tilted, epses[k], 1 << 13);
                    compared++;
                    assert_near(designs[d].name, own, drawn(plain, epses[k], 1 << 13), 0.1);
                    if (direction == EPS_REMOVE || designs[d].bins == 1)
                        assert_true(own.largest > 0.95 * most);
                    job.query.accountant.method = EPS_ACCOUNTANT_PLD;
                    eps_job_defaults(&job);
                    if (d < 2) {
                        solved_deltas(exact, job, sigmas[k], epses[k]);
                        assert_near(designs[d].name, own, (struct mean){.value = exact[direction]}, 0.1);
                    }
                }
                plain->class->destroy(plain);
                tilted->class->destroy(tilted);
                eps__setting_close(&setting);
            }
    assert_true(compared > 30);
}

/* A far tail that plain draws do not reach. */
TEST(tilted_draws_reach_far)
{
    struct eps_job job = job_for(&designs[1]);
    struct eps__setting setting;
    double exact[EPS_DIRECTIONS], sigma = 3, eps = 2;
    job.query.accountant.method = EPS_ACCOUNTANT_PLD;
    eps_job_defaults(&job);
    solved_deltas(exact, job, sigma, eps);
    assert_int_equal(eps__setting_open(&setting, NULL, NULL, &job), EPS_OK);
    for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++) {
        struct eps__mc_law *law = law_of(&setting, sigma, direction, true, eps);
        struct mean own = drawn(law, eps, 1 << 15);
        double most = exp(law->class->log_most(law, eps));
        print_message("# direction %d, order %u: at most %.4g, %.4g by %.2g, exact %.4g\n", direction, law->order, most,
                      own.value, own.error, exact[direction]);
        assert_true(exact[direction] < 1e-5 && most < 400 * exact[direction]);
        assert_near("a far tail", own, (struct mean){.value = exact[direction]}, 0.05);
        law->class->destroy(law);
    }
    eps__setting_close(&setting);
}

TEST(what_is_not_derived_is_declined)
{
    struct design design = designs[3];
    struct eps_job job = job_for(&design);
    struct eps__setting setting;
    struct eps_error error = {0};
    assert_int_equal(eps__setting_open(&setting, NULL, NULL, &job), EPS_OK);
    assert_true(eps__mc_balls_in_bins.serves(&setting, &error) && eps__mc_balls_in_bins.exact(&setting));
    job.mechanism.sampling.redraw = true;
    assert_false(eps__mc_balls_in_bins.serves(&setting, &error));
    assert_string_equal(error.pointer, "/sampling/redraw");
    eps__setting_close(&setting);
}
