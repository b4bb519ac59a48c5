/*
 * pld for balls in bins where bins share rows: the classes compared with the supports of the columns; delta compared
 * with quadrature in a few dimensions, and with importance samples and plain draws beyond, in both directions; and the
 * noise compared with the true one.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/accountants/pld/bin_classes.h"
#include "lib/accountants/pld/shared_bins.h"
#include "lib/job/setting.h"
#include "lib/pld/known/balls_in_bins.h"
#include "tests/truth/mechanism.h"
#include "tests/unit/draw.h"
#include "tests/unit/exact.h"
#include "tests/unit/solved.h"
#include "tests/unit/test.h"

static const uint64_t seed = 31415;

/* ------------------------------------------------------------ classes */

static size_t distance(size_t bins, size_t i, size_t j, bool around)
{
    size_t apart = i > j ? i - j : j - i;
    return around && bins - apart < apart ? bins - apart : apart;
}

TEST(every_bin_is_in_one_class)
{
    size_t unequal = 0;
    for (size_t bins = 1; bins <= 64; bins++)
        for (size_t apart = 1; apart <= bins + 2; apart++)
            for (int around = 0; around < 2; around++) {
                struct eps__bin_classes classes = eps__bin_classes_make(bins, apart, around);
                struct eps__class_sizes sizes;
                size_t count[64] = {0}, least = bins, most = 0, of_size[2] = {0};
                /* no arrangement has fewer classes: a class has at most this many bins */
                size_t most_bins = around ? bins / apart : (bins + apart - 1) / apart;
                most_bins = most_bins > 0 ? most_bins : 1;
                size_t fewest = around ? (bins + most_bins - 1) / most_bins : apart < bins ? apart : bins;
                assert_int_equal(classes.len, fewest);
                for (size_t i = 0; i < bins; i++) {
                    size_t class = eps__bin_class(&classes, i);
                    assert_true(class < classes.len);
                    count[class]++;
                    for (size_t j = 0; j < i; j++)
                        if (eps__bin_class(&classes, j) == class && distance(bins, i, j, around) < apart)
                            fail_msg("%zu bins, %zu apart, around %d: %zu and %zu", bins, apart, around, i, j);
                }
                for (size_t c = 0; c < classes.len; c++) {
                    least = count[c] < least ? count[c] : least;
                    most = count[c] > most ? count[c] : most;
                }
                assert_true(least >= 1 && most - least <= 1);
                for (size_t c = 0; c < classes.len; c++)
                    of_size[count[c] - bins / classes.len]++;
                assert_int_equal(eps__bin_class_sizes(NULL, &sizes, &classes), EPS_OK);
                for (int k = 0; k < 2; k++) {
                    assert_int_equal(sizes.counts[k], of_size[k]);
                    assert_int_equal(sizes.sizes[k], bins / classes.len + (size_t)k);
                }
                assert_int_equal(sizes.counts[0] * sizes.sizes[0] + sizes.counts[1] * sizes.sizes[1], bins);
                unequal += sizes.counts[1] > 0 && around;
            }
    assert_true(unequal > 100);
}

/* ------------------------------------------------------------ mechanisms */

enum { STEPS_MAX = 40, BINS_MAX = 20 };

/* A Toeplitz block, repeated; with `dense`, a dense matrix whose columns are scaled one by one, some to 0. */
struct known {
    size_t n, bins, stamps, len;
    double column[10];
    bool dense;
};
static const struct known mechanisms[] = {
    {12, 12, 1, 3, {1, 0.5, 0.25}, false},
    {24, 12, 1, 3, {1, 0.5, 0.25}, false},
    {26, 13, 1, 3, {1, 0.5, 0.25}, false},
    {22, 11, 1, 4, {1, 0.9, 0.8, 0.7}, false},
    {20, 20, 1, 3, {1, 0.01, 1}, false},
    {36, 9, 1, 2, {1e-3, 1}, false},
    {20, 20, 5, 4, {1, 0.8, 0.6, 0.4}, false},
    {20, 10, 4, 5, {1, 0.8, 0.6, 0.4, 0.3}, false},
    {24, 8, 6, 4, {1, 0.8, 0.6, 0.4}, false},
    {24, 12, 3, 3, {1, 0.8, 0.6}, false}, /* blocks that extend over an epoch's end */
    {20, 10, 1, 5, {1, 0.6, 0.5, 0.4, 0.4}, false},
    {10, 10, 1, 9, {1, 0.5, 0.3, 0.2, 0.2, 0.1, 0.1, 0.1, 0.1}, false},
    {12, 12, 1, 2, {1, 0.7}, true},
    {21, 7, 1, 3, {1, 0.7, 0.4}, true},
    {9, 3, 1, 1, {1}, true},
    {3, 3, 1, 2, {1, 0.7}, true},
    {3, 3, 1, 2, {1, 0.7}, false},
};
enum { MECHANISMS = sizeof mechanisms / sizeof *mechanisms };

static struct eps_job job_new(const struct known *known, double *rows)
{
    struct eps_job job;
    eps_job_init(&job);
    job.mechanism.n = known->n;
    job.mechanism.sampling.scheme = EPS_SCHEME_BALLS_IN_BINS;
    job.mechanism.sampling.bins = known->bins;
    job.mechanism.matrix.normalization = EPS_NORMALIZATION_NONE;
    job.mechanism.matrix.stamps = known->stamps;
    job.mechanism.matrix.family = known->dense ? EPS_FAMILY_DENSE : EPS_FAMILY_TOEPLITZ;
    job.mechanism.matrix.coefficients = known->dense ? NULL : known->column;
    job.mechanism.matrix.coefficients_len = known->dense ? 0 : known->len;
    job.query.accountant.method = EPS_ACCOUNTANT_PLD;
    if (known->dense) {
        memset(rows, 0, known->n * known->n * sizeof *rows);
        for (size_t j = 0; j < known->n; j++)
            for (size_t d = 0; d < known->len && j + d < known->n; d++)
                rows[(j + d) * known->n + j] = known->column[d] * (j % 3 == 1 ? 1e-9 : 1 - 0.02 * (double)j);
        for (size_t i = 0; i < known->n && known->bins > 3; i++) /* a step that leaves no trace */
            rows[i * known->n + 2] = 0;
        job.mechanism.matrix.rows = rows;
        job.mechanism.matrix.rows_n = known->n;
    }
    eps_job_defaults(&job);
    return job;
}

/* The merged columns, row by row of C. */
struct merged {
    size_t bins, rows;
    double at[STEPS_MAX][BINS_MAX];
};

static struct merged merge(const struct eps_mechanism *mechanism, struct eps_strategy **strategy)
{
    struct merged merged = {.bins = mechanism->sampling.bins};
    double row[STEPS_MAX];
    *strategy = strategy_new(mechanism);
    merged.rows = eps_strategy_rows(*strategy);
    assert_true(merged.rows <= STEPS_MAX && merged.bins <= BINS_MAX);
    for (size_t i = 0; i < merged.rows; i++) {
        assert_int_equal(eps_strategy_row(*strategy, row, NULL, EPS_PART_ENCODER, i), EPS_OK);
        for (size_t j = 0; j < mechanism->n; j++)
            merged.at[i][j % merged.bins] += row[j];
    }
    return merged;
}

TEST(bins_of_a_class_share_no_row)
{
    for (size_t m = 0; m < MECHANISMS; m++) {
        double rows[STEPS_MAX * STEPS_MAX];
        struct eps_job job = job_new(&mechanisms[m], rows);
        struct eps_strategy *strategy;
        struct merged merged = merge(&job.mechanism, &strategy);
        struct eps__bin_classes classes = eps__bin_classes(strategy, merged.bins);
        assert_true(classes.len < merged.bins);
        for (size_t r = 0; r < merged.rows; r++)
            for (size_t i = 0; i < merged.bins; i++)
                for (size_t j = 0; j < i; j++)
                    if (merged.at[r][i] != 0 && merged.at[r][j] != 0 &&
                        eps__bin_class(&classes, i) == eps__bin_class(&classes, j))
                        fail_msg("mechanism %zu: bins %zu and %zu share row %zu", m, i, j, r);
        eps_strategy_destroy(strategy);
    }
}

/* ------------------------------------------------------------ delta */

static double largest_norm(const struct merged *merged)
{
    double largest = 0;
    for (size_t i = 0; i < merged->bins; i++) {
        double square = 0;
        for (size_t r = 0; r < merged->rows; r++)
            square += merged->at[r][i] * merged->at[r][i];
        largest = fmax(largest, sqrt(square));
    }
    return largest;
}

/* delta by plain draws of all outputs, with its standard deviation. */
static double sampled(const struct merged *merged, double sigma, enum eps_direction direction, double eps,
                      size_t samples, double *deviation)
{
    uint64_t state = seed;
    double sum = 0, squares = 0;
    for (size_t s = 0; s < samples; s++) {
        double product[BINS_MAX] = {0}, over = 0;
        size_t own = draw_below(&state, merged->bins);
        for (size_t r = 0; r < merged->rows; r += 2) {
            double radius = sqrt(-2 * log(1 - draw_unit(&state))), angle = 2 * M_PI * draw_unit(&state);
            for (size_t k = r; k < r + 2 && k < merged->rows; k++) {
                double z = radius * (k == r ? cos(angle) : sin(angle));
                z += direction == EPS_REMOVE ? merged->at[k][own] / sigma : 0;
                for (size_t i = 0; i < merged->bins; i++) {
                    double at = merged->at[k][i] / sigma;
                    product[i] += at * (z - at / 2);
                }
            }
        }
        for (size_t i = 0; i < merged->bins; i++)
            over += exp(product[i]) / (double)merged->bins;
        double value = fmax(1 - (direction == EPS_REMOVE ? exp(eps) / over : exp(eps) * over), 0);
        sum += value;
        squares += value * value;
    }
    double mean = sum / (double)samples;
    *deviation = sqrt(fmax(squares / (double)samples - mean * mean, 0) / (double)samples);
    return mean;
}

/* A noise multiplier at which delta is at most a few percent. */
static double some_sigma(const struct merged *merged)
{
    return largest_norm(merged) * 0.9;
}

TEST(delta_is_never_under_the_truth)
{
    double widest[EPS_DIRECTIONS] = {0}, rows[STEPS_MAX * STEPS_MAX];
    for (size_t m = 0; m < MECHANISMS; m++) {
        struct eps_job job = job_new(&mechanisms[m], rows);
        struct eps_strategy *strategy;
        struct merged merged = merge(&job.mechanism, &strategy);
        double sigma = some_sigma(&merged), eps = merged.bins > 8 ? 0.3 : 0.5;
        job.query.noise_multiplier = sigma;
        job.query.epsilon = eps;
        struct answer found = answered(job);
        assert_true(found.lower >= 0.998 * found.value && found.lower <= found.value);
        for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++) {
            double deviation, mean;
            mean = sampled(&merged, sigma, direction, eps, m == 0 ? 1000000 : 50000, &deviation);
            if (!(found.of[direction] >= mean - 5 * deviation))
                fail_msg("mechanism %zu, direction %d: %g for %g", m, (int)direction, found.of[direction], mean);
            if (!(mean > 10 * deviation))
                fail_msg("mechanism %zu, direction %d: %g is hardly seen", m, (int)direction, mean);
            if (!mechanisms[m].dense) /* where all norms are equal */
                widest[direction] = fmax(widest[direction], found.of[direction] / mean);
        }
        eps_strategy_destroy(strategy);
    }
    print_message("# at most %.3g (remove) and %.3g (add) times the mean\n", widest[EPS_REMOVE], widest[EPS_ADD]);
    assert_true(widest[EPS_REMOVE] < 3 && widest[EPS_ADD] < 3);
}

/* Random strategies of a few steps: three dimensions by quadrature, more by importance samples, at deltas that plain
 * draws do not reach. */
TEST(small_deltas_are_never_under_the_truth)
{
    uint64_t state = seed;
    size_t checked = 0;
    double rows[STEPS_MAX * STEPS_MAX];
    for (int c = 0; c < 28; c++) {
        struct known known = {.stamps = 1};
        size_t epochs = 1 + draw_below(&state, 2);
        known.bins = 3 + draw_below(&state, 5);
        known.n = known.bins * epochs;
        known.len = 1 + draw_below(&state, epochs == 1 ? known.bins - 1 : known.bins / 2);
        known.dense = draw_below(&state, 2);
        for (size_t i = 0; i < known.len; i++)
            known.column[i] = i == 0 || draw_below(&state, 4) ? draw_log(&state, 0.01, 1) : 0;
        struct eps_job job = job_new(&known, rows);
        struct eps_strategy *strategy;
        struct merged merged = merge(&job.mechanism, &strategy);
        job.query.noise_multiplier = largest_norm(&merged) * draw_log(&state, 0.25, 3);
        job.query.epsilon = draw_log(&state, 0.05, 3);
        struct answer found = answered(job);
        struct truth truth = truth_open(&job.mechanism);
        const struct effort effort = {.samples = 600,
                                      .quadrature_most = c % 8 ? 2 : 3,
                                      .seed = seed,
                                      .floor = 1e-14L,
                                      .width = 1e-2L,
                                      .lower_only = true};
        for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++) {
            double least =
                (double)truth_delta(&truth, direction, job.query.epsilon, job.query.noise_multiplier, &effort).lower;
            if (!(found.of[direction] >= least * (1 - 1e-9)))
                fail_msg("case %d, direction %d: %g for %g", c, (int)direction, found.of[direction], least);
            checked += least > 0;
        }
        truth_close(&truth);
        eps_strategy_destroy(strategy);
    }
    print_message("# %zu deltas, seed %llu\n", checked, (unsigned long long)seed);
    assert_true(checked > 28);
}

/* What the bound of larger classes, whose bins share something, says of delta; 1 if there is none. */
static double shared_delta(const struct eps_job *job, enum eps_direction direction, double eps)
{
    const struct eps__accuracy accuracy = {EPS_SOLVE_DELTA, 1e-4, NAN};
    struct eps__setting setting;
    struct eps__shared_bins found = {0};
    struct eps__bin_curves curves;
    struct eps__profile *profile;
    double log_delta = 0;
    assert_int_equal(eps__setting_open(&setting, NULL, NULL, job), EPS_OK);
    struct eps__bin_classes classes = eps__bin_classes(setting.strategy, job->mechanism.sampling.bins);
    if (!eps__strategy_is_diagonal(setting.strategy))
        assert_int_equal(eps__shared_bins_find(&found, &setting, 1, 1, classes.bins / classes.len), EPS_OK);
    if (found.size > 0) {
        eps__shared_bins_curves(&curves, &found, 1);
        assert_int_equal(eps__bin_curves_open(&curves, NULL, job->query.noise_multiplier, &accuracy, &profile), EPS_OK);
        assert_int_equal(profile->class->log_delta(profile, direction, EPS__UPPER, eps, &log_delta, NULL), EPS_OK);
        profile->class->destroy(profile);
    }
    eps__setting_close(&setting);
    return exp(log_delta);
}

/* The answer is the mean over the classes, each with bins of the largest norm, or that of larger classes. */
TEST(delta_is_the_mean_of_the_classes)
{
    const struct eps__accuracy accuracy = {EPS_SOLVE_DELTA, 1e-4, NAN};
    double rows[STEPS_MAX * STEPS_MAX];
    size_t mixed = 0, larger = 0;
    for (size_t m = 0; m < MECHANISMS; m++) {
        struct eps_job job = job_new(&mechanisms[m], rows);
        struct eps_strategy *strategy;
        struct merged merged = merge(&job.mechanism, &strategy);
        double sigma = some_sigma(&merged), eps = 0.4, shift = largest_norm(&merged) / sigma;
        struct eps__bin_classes classes = eps__bin_classes(strategy, merged.bins);
        size_t count[BINS_MAX] = {0};
        job.query.noise_multiplier = sigma;
        job.query.epsilon = eps;
        job.query.accountant.tolerance = 1e-4;
        for (size_t i = 0; i < merged.bins; i++)
            count[eps__bin_class(&classes, i)]++;
        struct answer found = answered(job);
        for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++) {
            double mean = 0;
            for (size_t c = 0; c < classes.len; c++) {
                struct eps__balls_in_bins *law;
                double log_delta;
                assert_int_equal(eps__balls_in_bins_create(&law, NULL, direction, count[c], shift, shift, &accuracy),
                                 EPS_OK);
                assert_int_equal(eps__balls_in_bins_log_delta(law, EPS__UPPER, eps, &log_delta), EPS_OK);
                mean += (double)count[c] / (double)merged.bins * exp(log_delta);
                eps__balls_in_bins_destroy(law);
                mixed += count[c] != count[0];
            }
            double shared = shared_delta(&job, direction, eps);
            larger += shared < mean;
            mean = fmin(mean, shared);
            if (!(fabs(found.of[direction] / mean - 1) < 5e-4))
                fail_msg("mechanism %zu, direction %d: %.9g for %.9g", m, (int)direction, found.of[direction], mean);
        }
        eps_strategy_destroy(strategy);
    }
    print_message("# %zu by larger classes\n", larger);
    assert_true(mixed > 5 && larger > 0 && larger < (size_t)MECHANISMS);
}

/* ------------------------------------------------------------ the noise */

/* reference.json, BSR4_N100_k1: the true sigma at delta = 1e-5 by importance samples, to about a tenth of a percent. */
TEST(the_noise_is_near_the_truth)
{
    static const struct {
        double eps, sigma;
    } known[] = {{0.5, 1.6986526}, {1, 1.1677106}, {2, 0.9054220}, {4, 0.6961571}, {8, 0.5064549}};
    double widest = 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        static const struct known bsr = {100, 100, 1, 4, {1, 0.5, 0.375, 0.3125}, false};
        struct eps_job job = job_new(&bsr, NULL);
        job.query.epsilon = known[i].eps;
        job.query.delta = 1e-5;
        struct answer found = answered(job);
        assert_true(found.value >= known[i].sigma * 0.998 && found.value <= 1.22 * known[i].sigma);
        assert_true(found.value - found.lower <= 1e-3 * found.value);
        widest = fmax(widest, found.value / known[i].sigma);
        /* and back: epsilon from this noise, and delta */
        job.query.noise_multiplier = found.value;
        job.query.epsilon = NAN;
        struct answer back = answered(job);
        assert_true(back.lower <= known[i].eps * (1 + 1e-6) && back.value >= known[i].eps * (1 - 5e-3));
    }
    print_message("# at most %.4g times the true noise\n", widest);
}

/* Many bands: the classes are small, and still better than no sampling and than moments alone. */
TEST(wide_bands_are_amplified)
{
    struct eps_job job;
    eps_job_init(&job);
    job.mechanism.n = 1000;
    job.mechanism.matrix.family = EPS_FAMILY_SQUARE_ROOT;
    job.mechanism.matrix.bands = 64;
    job.mechanism.sampling.scheme = EPS_SCHEME_BALLS_IN_BINS;
    job.mechanism.sampling.bins = 1000;
    job.query.accountant.method = EPS_ACCOUNTANT_PLD;
    job.query.noise_multiplier = 1.5;
    job.query.delta = 1e-5;
    eps_job_defaults(&job);
    struct answer ours = answered(job);
    job.query.accountant.method = EPS_ACCOUNTANT_GAUSSIAN;
    assert_true(ours.value < 0.75 * answered(job).value);
}

/* ------------------------------------------------------------ who serves */

/* The accountants that contributed to an answer of `auto`, one bit each. */
static unsigned candidates(struct eps_job job)
{
    unsigned found = 0;
    job.query.accountant.method = EPS_ACCOUNTANT_AUTO;
    job.query.noise_multiplier = 2;
    job.query.epsilon = 1;
    job.query.delta = NAN;
    struct eps_result *result = solved(NULL, job);
    for (size_t i = 0; i < result->candidates_len; i++)
        found |= 1u << result->candidates[i].accountant;
    eps_result_destroy(result);
    return found;
}

TEST(a_bound_leaves_room_for_others)
{
    double rows[STEPS_MAX * STEPS_MAX];
    unsigned all = 1u << EPS_ACCOUNTANT_PLD | 1u << EPS_ACCOUNTANT_RENYI |
                   1u << EPS_ACCOUNTANT_CONDITIONAL_COMPOSITION | 1u << EPS_ACCOUNTANT_GAUSSIAN;
    unsigned integrals = 1u << EPS_ACCOUNTANT_QUADRATURE | 1u << EPS_ACCOUNTANT_GAUSSIAN;
    static const struct known few = {9, 3, 1, 1, {1}, true}, identity = {9, 3, 1, 1, {1}, false};
    static const struct known apart = {15, 5, 1, 1, {1}, true}; /* no two norms are equal */
    assert_int_equal(candidates(job_new(&mechanisms[0], rows)), all);
    assert_int_equal(candidates(job_new(&apart, rows)), all);
    assert_int_equal(candidates(job_new(&few, rows)), integrals);
    assert_int_equal(candidates(job_new(&identity, rows)), 1u << EPS_ACCOUNTANT_PLD | 1u << EPS_ACCOUNTANT_GAUSSIAN);
}

/* Bins that all share rows are amplified by what they do not share, if their products are affordable. */
TEST(bins_that_all_share_rows_are_amplified)
{
    static const struct known known[] = {{20, 10, 1, 6, {1, 0.6, 0.5, 0.4, 0.4, 0.3}, false},
                                         {6, 6, 1, 6, {1, 0.6, 0.5, 0.4, 0.4, 0.3}, false},
                                         {8, 4, 1, 6, {1, 0.6, 0.5, 0.4, 0.4, 0.3}, false}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct eps_job job = job_new(&known[i], NULL);
        job.query.noise_multiplier = 5;
        job.query.epsilon = 0.3;
        double ours = answered(job).value;
        job.query.accountant.method = EPS_ACCOUNTANT_GAUSSIAN;
        assert_true(ours < 0.9 * answered(job).value);
    }
    struct eps_job job = job_new(&known[1], NULL);
    job.mechanism.n = job.mechanism.sampling.bins = 5000;
    job.mechanism.matrix.family = EPS_FAMILY_TREE;
    job.mechanism.matrix.coefficients = NULL;
    job.mechanism.matrix.coefficients_len = 0;
    job.query.noise_multiplier = 1;
    job.query.delta = 1e-5;
    struct eps_error error = assert_refused(job, EPS_UNSUPPORTED, "/matrix");
    assert_true(error.accountants & 1u << EPS_ACCOUNTANT_GAUSSIAN);
}
