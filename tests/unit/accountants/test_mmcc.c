/*
 * MMCC compared with what it bounds. The truth is sampled: for n <= 8 (trees: 16 leaves) the likelihood ratio of an
 * output is a sum over all patterns of participation, so delta is a mean of numbers in [0, 1], and no reported delta
 * may be below it. Further properties of every answer: identities, both code paths for one matrix, monotone, and never
 * worse for the chosen share of bad events.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/accountants/mmcc/compose.h"
#include "lib/epsilon.h"
#include "tests/unit/draw.h"
#include "tests/unit/exact.h"
#include "tests/unit/patience.h"
#include "tests/unit/solved.h"
#include "tests/unit/test.h"

enum { STEPS = 8, LEAVES = 16, SAMPLES = 2000 };

static struct eps_job new_job(enum eps_family family, size_t n, double p, double sigma)
{
    struct eps_job job;
    eps_job_init(&job);
    job.mechanism.n = n;
    job.mechanism.matrix.family = family;
    job.mechanism.matrix.normalization = EPS_NORMALIZATION_NONE;
    job.mechanism.sampling.scheme = EPS_SCHEME_POISSON;
    job.mechanism.sampling.p = p;
    job.query.noise_multiplier = sigma;
    job.query.accountant.method = EPS_ACCOUNTANT_MMCC;
    return job;
}

static struct answer epsilon_at(struct eps_job job, double delta)
{
    job.query.delta = delta;
    return answered(job);
}

static struct answer delta_at(struct eps_job job, double epsilon)
{
    job.query.epsilon = epsilon;
    return answered(job);
}

/* ------------------------------------------------------------ the sampled truth */

struct truth {
    size_t rows, columns, patterns;
    double *c;     /* rows x columns */
    double *shift; /* patterns x rows: C x */
    double *log_weight;
};

static struct truth truth_of(const struct eps_job *asked)
{
    struct eps_strategy *strategy;
    struct eps_job job = *asked;
    eps_job_defaults(&job);
    assert_int_equal(eps_strategy_create(NULL, &strategy, NULL, &job.mechanism), EPS_OK);
    struct truth t = {.rows = eps_strategy_rows(strategy), .columns = eps_strategy_columns(strategy)};
    t.patterns = (size_t)1 << t.columns;
    t.c = malloc(t.rows * t.columns * sizeof *t.c);
    t.shift = calloc(t.patterns * t.rows, sizeof *t.shift);
    t.log_weight = malloc(t.patterns * sizeof *t.log_weight);
    for (size_t i = 0; i < t.rows; i++)
        assert_int_equal(eps_strategy_row(strategy, t.c + i * t.columns, NULL, EPS_PART_ENCODER, i), EPS_OK);
    eps_strategy_destroy(strategy);
    double p = job.mechanism.sampling.p, sigma = job.query.noise_multiplier;
    for (size_t x = 0; x < t.patterns; x++) {
        double square = 0;
        t.log_weight[x] = 0;
        for (size_t j = 0; j < t.columns; j++)
            t.log_weight[x] += x >> j & 1 ? log(p) : log1p(-p);
        for (size_t i = 0; i < t.rows; i++) {
            for (size_t j = 0; j < t.columns; j++)
                t.shift[x * t.rows + i] += x >> j & 1 ? t.c[i * t.columns + j] / sigma : 0;
            square += t.shift[x * t.rows + i] * t.shift[x * t.rows + i];
        }
        t.log_weight[x] -= 0.5 * square;
    }
    return t;
}

static void truth_free(struct truth *t)
{
    free(t->c);
    free(t->shift);
    free(t->log_weight);
}

static double draw_normal(uint64_t *seed)
{
    return sqrt(-2 * log(1 - draw_unit(seed))) * cos(2 * M_PI * draw_unit(seed));
}

/* Mean and standard error of delta(eps) over samples of the direction's own law. */
static double sampled_delta(const struct truth *t, double p, enum eps_direction direction, double eps, uint64_t *seed,
                            size_t samples, double *standard_error)
{
    double sum = 0, squares = 0, *y = malloc(t->rows * sizeof *y), *exponent = malloc(t->patterns * sizeof *exponent);
    for (size_t s = 0; s < samples; s++) {
        size_t x = 0;
        for (size_t j = 0; j < t->columns && direction == EPS_REMOVE; j++)
            x |= (size_t)(draw_unit(seed) < p) << j;
        for (size_t i = 0; i < t->rows; i++)
            y[i] = t->shift[x * t->rows + i] + draw_normal(seed);
        double most = -INFINITY, total = 0;
        for (size_t z = 0; z < t->patterns; z++) {
            exponent[z] = t->log_weight[z];
            for (size_t i = 0; i < t->rows; i++)
                exponent[z] += t->shift[z * t->rows + i] * y[i];
            most = fmax(most, exponent[z]);
        }
        for (size_t z = 0; z < t->patterns; z++)
            total += exp(exponent[z] - most);
        double loss = (most + log(total)) * (direction == EPS_REMOVE ? 1 : -1);
        double value = loss > eps ? -expm1(eps - loss) : 0;
        sum += value;
        squares += value * value;
    }
    free(y);
    free(exponent);
    double mean = sum / (double)samples;
    *standard_error = sqrt(fmax(squares / (double)samples - mean * mean, 0) / (double)samples) + 1 / (double)samples;
    return mean;
}

/* Delta in both directions at a few epsilons: not below the truth; returns the largest ratio to it. */
static double check_against_truth(struct eps_job *job, uint64_t *seed, size_t samples)
{
    job->query.accountant.tolerance = 1e-2;
    struct truth t = truth_of(job);
    double slack = 0;
    for (int k = 0; k < 2; k++) {
        /* An epsilon at which delta is large enough to be sampled. */
        double eps = epsilon_at(*job, k ? 0.3 : 0.05).value;
        struct answer answer = delta_at(*job, eps);
        for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++) {
            double error, delta = sampled_delta(&t, job->mechanism.sampling.p, direction, eps, seed, samples, &error);
            if (answer.of[direction] < delta - 5 * error)
                print_error("  n %zu p %g sigma %g eps %g %s: %g reported, %g +- %g sampled\n", job->mechanism.n,
                            job->mechanism.sampling.p, job->query.noise_multiplier, eps, eps_direction_name(direction),
                            answer.of[direction], delta, error);
            assert_true(answer.of[direction] >= delta - 5 * error);
            slack = fmax(slack, answer.of[direction] / (delta + error));
        }
    }
    truth_free(&t);
    return slack;
}

TEST(no_delta_is_under_the_truth)
{
    uint64_t seed = 577215;
    for (int c = 0; c < 10; c++) {
        double entries[STEPS * STEPS] = {0};
        size_t n = 2 + draw_below(&seed, STEPS - 1);
        struct eps_job job = new_job(c % 2 ? EPS_FAMILY_DENSE : EPS_FAMILY_TOEPLITZ, n, draw_log(&seed, 0.02, 0.9),
                                     draw_log(&seed, 0.7, 12));
        if (c % 2) {
            for (size_t i = 0; i < n; i++)
                for (size_t j = 0; j <= i; j++)
                    entries[i * n + j] = i == j ? 0.3 + draw_unit(&seed) : draw_below(&seed, 3) ? draw_unit(&seed) : 0;
            job.mechanism.matrix.rows = entries;
            job.mechanism.matrix.rows_n = n;
        } else {
            for (size_t i = 0; i < n; i++)
                entries[i] = i ? draw_unit(&seed) : 1;
            job.mechanism.matrix.coefficients = entries;
            job.mechanism.matrix.coefficients_len = 1 + draw_below(&seed, n);
        }
        check_against_truth(&job, &seed, SAMPLES);
    }
}

TEST(trees_are_bounded_and_not_absurdly)
{
    uint64_t seed = 1729;
    const size_t leaves[] = {2, 4, 7, 8, LEAVES};
    for (int c = 0; c < 5; c++) {
        size_t n = leaves[c];
        double sigma = 4 * sqrt(log2((double)n) + 1);
        struct eps_job job = new_job(EPS_FAMILY_TREE, n, 1 / (double)n, sigma);
        double slack = check_against_truth(&job, &seed, n > 8 ? 150 : SAMPLES / 2);
        print_message("# %zu leaves: delta is at most %.2f times what was sampled\n", n, slack);
        assert_true(slack < 30);
    }
}

/* ------------------------------------------------------------ identities */

static bool near(double a, double b, double relative)
{
    return fabs(a - b) <= relative * fmax(fabs(a), fabs(b));
}

TEST(without_correlation_nothing_is_spent)
{
    const struct {
        size_t n;
        double p, sigma, delta;
    } cases[] = {{200, 0.02, 1, 1e-6}, {1, 8.562e-9, 0.404, 2.783e-9}, {6, 1e-7, 0.4, 2e-7}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct eps_job job = new_job(EPS_FAMILY_IDENTITY, cases[c].n, cases[c].p, cases[c].sigma);
        struct answer mmcc = epsilon_at(job, cases[c].delta);
        job.query.accountant.method = EPS_ACCOUNTANT_PLD;
        struct answer pld = epsilon_at(job, cases[c].delta);
        for (int d = 0; d < EPS_DIRECTIONS; d++) {
            assert_true(mmcc.share[d] == 0);
            assert_true(near(mmcc.of[d], pld.of[d], 2e-3));
        }
    }
}

/* Section 5 through both code paths: bands <= groups, Toeplitz and column by column. */
TEST(groups_wider_than_the_bands_are_plain_sampling)
{
    for (size_t groups = 4; groups <= 6; groups++) {
        struct eps_job job = new_job(EPS_FAMILY_SQUARE_ROOT, 40, 0.2, 1.5);
        job.mechanism.matrix.bands = 4;
        job.mechanism.sampling.scheme = EPS_SCHEME_CYCLIC_POISSON;
        job.mechanism.sampling.groups = groups;
        struct answer mmcc = epsilon_at(job, 1e-5);
        job.query.accountant.method = EPS_ACCOUNTANT_PLD;
        struct answer pld = epsilon_at(job, 1e-5);
        for (int d = 0; d < EPS_DIRECTIONS; d++) {
            assert_true(mmcc.share[d] == 0);
            assert_true(near(mmcc.of[d], pld.of[d], 1e-3));
        }
    }
}

/* The same matrix as Toeplitz coefficients and as rows. */
TEST(dense_rows_agree_with_toeplitz)
{
    enum { N = 12 };
    double rows[N * N] = {0}, coefficients[] = {1, 0.5, 0.375, 0.3, 0.1};
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j <= i; j++)
            rows[i * N + j] = i - j < 5 ? coefficients[i - j] : 0;
    for (size_t groups = 1; groups <= 3; groups += 2) {
        struct eps_job job = new_job(EPS_FAMILY_TOEPLITZ, N, 0.1, 4);
        job.mechanism.matrix.coefficients = coefficients;
        job.mechanism.matrix.coefficients_len = 5;
        if (groups > 1) {
            job.mechanism.sampling.scheme = EPS_SCHEME_CYCLIC_POISSON;
            job.mechanism.sampling.groups = groups;
        }
        struct answer toeplitz = epsilon_at(job, 1e-5);
        job.mechanism.matrix.family = EPS_FAMILY_DENSE;
        job.mechanism.matrix.rows = rows;
        job.mechanism.matrix.rows_n = N;
        struct answer dense = epsilon_at(job, 1e-5);
        for (int d = 0; d < EPS_DIRECTIONS; d++)
            assert_true(near(toeplitz.of[d], dense.of[d], 2e-2));
        assert_true(dense.lower <= toeplitz.value * 1.02);
    }
}

/* Groups that do not divide n: the last block of rows is cut. Sampled with 4 million draws, delta(1.5) is 1.454e-3 +-
 * 5e-5. For n < groups there is a single round, for which mmcc spends nothing and is exact. */
TEST(a_cut_row_is_not_lost)
{
    const double coefficients[] = {1, 1, 1, 0.01};
    struct eps_job job = new_job(EPS_FAMILY_TOEPLITZ, 8, 0.5, 3);
    job.mechanism.matrix.coefficients = coefficients;
    job.mechanism.matrix.coefficients_len = 4;
    job.mechanism.sampling.scheme = EPS_SCHEME_CYCLIC_POISSON;
    job.mechanism.sampling.groups = 3;
    double delta = delta_at(job, 1.5).value;
    assert_true(delta >= 1.4e-3 && delta < 3e-3);
    job.mechanism.sampling.groups = 9;
    struct answer mmcc = epsilon_at(job, 1e-5);
    job.query.accountant.method = EPS_ACCOUNTANT_PLD;
    struct answer pld = epsilon_at(job, 1e-5);
    for (int d = 0; d < EPS_DIRECTIONS; d++)
        assert_true(near(mmcc.of[d], pld.of[d], 1e-3) && pld.of[d] > 0);
}

/* Certain participation is no sampling: one Gaussian, and no bad event. With nearly certain participation the answer is
 * nearly the same. */
TEST(certain_participation_is_one_gaussian)
{
    static const enum eps_family families[] = {EPS_FAMILY_SQUARE_ROOT, EPS_FAMILY_TREE, EPS_FAMILY_INVERSE_SQUARE_ROOT};
    for (int c = 0; c < 9; c++) {
        struct eps_job job = new_job(families[c % 3], 12, 1, 9);
        job.mechanism.matrix.bands = c % 3 == 2 ? 3 : 0;
        job.mechanism.sampling.p = c / 3 == 0 ? 1 : c / 3 == 1 ? 1 - 0x1p-53 : 1 - 1e-9;
        struct answer mmcc = epsilon_at(job, 1e-7);
        assert_true(mmcc.value - mmcc.lower <= 1e-3 * mmcc.value);
        job.query.accountant.method = EPS_ACCOUNTANT_GAUSSIAN;
        struct answer gaussian = epsilon_at(job, 1e-7);
        for (int d = 0; d < EPS_DIRECTIONS; d++) {
            assert_true(near(mmcc.of[d], gaussian.of[d], 2e-3));
            assert_true(c / 3 > 0 || mmcc.share[d] == 0);
        }
        assert_true(mmcc.value >= gaussian.lower * (1 - 1e-6));
    }
}

/* A stamp is a restart: twice the rows, twice the pairs. */
TEST(pairs_are_counted)
{
    const struct {
        enum eps_family family;
        size_t n, bands, stamps, groups;
        double pairs;
    } cases[] = {
        {EPS_FAMILY_IDENTITY, 10, 0, 1, 1, 0},     {EPS_FAMILY_SQUARE_ROOT, 5, 0, 1, 1, 10},
        {EPS_FAMILY_SQUARE_ROOT, 10, 3, 1, 1, 17}, {EPS_FAMILY_SQUARE_ROOT, 20, 3, 2, 1, 34},
        {EPS_FAMILY_SQUARE_ROOT, 10, 3, 1, 3, 0},  {EPS_FAMILY_SQUARE_ROOT, 10, 4, 1, 3, 3},
        {EPS_FAMILY_TREE, 8, 0, 1, 1, 24},         {EPS_FAMILY_TREE, 8, 0, 2, 1, 16},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct eps_job job = new_job(cases[c].family, cases[c].n, 0.1, 1);
        struct eps_strategy *strategy;
        struct eps__rows *rows, *general;
        job.mechanism.matrix.bands = cases[c].bands;
        job.mechanism.matrix.stamps = cases[c].stamps;
        eps_job_defaults(&job);
        assert_int_equal(eps_strategy_create(NULL, &strategy, NULL, &job.mechanism), EPS_OK);
        struct eps__blocks blocks = eps__strategy_blocks(strategy);
        if (cases[c].family == EPS_FAMILY_TREE)
            assert_int_equal(eps__tree_rows(&rows, &blocks, 0.1), EPS_OK);
        else
            assert_int_equal(eps__toeplitz_rows(&rows, &blocks, cases[c].groups, 0.1), EPS_OK);
        assert_true(rows->pairs == cases[c].pairs);
        rows->class->destroy(rows);
        if (cases[c].family != EPS_FAMILY_TREE) { /* else everything that one step releases would be one block */
            assert_int_equal(eps__general_rows(&general, NULL, NULL, strategy, cases[c].groups, 0, 0.1), EPS_OK);
            assert_true(general->pairs == cases[c].pairs);
            general->class->destroy(general);
        }
        eps_strategy_destroy(strategy);
    }
}

/* ------------------------------------------------------------ one row, by all its atoms */

enum { PARTICIPATIONS = 8, ATOMS = 1 << PARTICIPATIONS };

struct given_row {
    struct eps__rows base;
    struct eps__factor factors[PARTICIPATIONS];
};

static uint64_t count_one(const struct eps__rows *rows, size_t k)
{
    (void)rows;
    (void)k;
    return 1;
}

static size_t fill_given(const struct eps__rows *rows, size_t k, struct eps__factor *out)
{
    (void)k;
    memcpy(out, ((const struct given_row *)rows)->factors, PARTICIPATIONS * sizeof *out);
    return PARTICIPATIONS;
}

/* A3: the row's curve by all its atoms lies between the two estimates, also where a good part of it lies beyond the
 * reach of the quadrature and is counted separately; the estimates are no farther apart than that part. */
TEST(brackets_hold_with_a_quadrature)
{
    static const struct eps__rows_class class = {.count = count_one, .fill = fill_given};
    uint64_t seed = 141421;
    size_t short_of = 0;
    for (int c = 0; c < 12; c++) {
        struct given_row row = {.base = {.class = &class, .classes = 1, .entries_max = PARTICIPATIONS, .rows = 1}};
        struct eps__pair pair = {0};
        double scale = draw_log(&seed, 0.003, 0.2);
        for (size_t k = 0; k < PARTICIPATIONS; k++)
            row.factors[k] = (struct eps__factor){scale * draw_unit(&seed), draw_between(&seed, -6, 1), 1};
        struct eps__mixture *law = c % 2 ? &pair.denominator : &pair.numerator;
        assert_true(eps__mixture_alloc(law, ATOMS));
        assert_true(eps__mixture_alloc(c % 2 ? &pair.numerator : &pair.denominator, 1));
        (c % 2 ? &pair.numerator : &pair.denominator)->weight[0] = 1;
        for (size_t set = 0; set < ATOMS; set++) {
            law->weight[set] = 1;
            for (size_t k = 0; k < PARTICIPATIONS; k++) {
                double p = 1 / (1 + exp(-row.factors[k].log_odds));
                law->weight[set] *= set >> k & 1 ? p : 1 - p;
                law->shift[set] += set >> k & 1 ? row.factors[k].shift : 0;
            }
        }
        const struct eps__accuracy accuracy = {EPS_SOLVE_DELTA, 1e-3, NAN};
        const struct eps__rows_plan plan = {.times = 1,
                                            .direction = c % 2 ? EPS_ADD : EPS_REMOVE,
                                            .sigma = 1,
                                            .norm_square = 1,
                                            .error = 1e-6,
                                            .log_outside = c % 3 ? -40 : -6,
                                            .proven = true};
        struct eps__rows_remainder remainder;
        struct eps__composition *composition;
        assert_int_equal(eps__composition_create(&composition, NULL, NULL, &accuracy), EPS_OK);
        assert_int_equal(eps__rows_compose(composition, &remainder, &row.base, NULL, &plan), EPS_OK);
        for (double eps = 0.01; eps < 6 * scale; eps += scale) {
            double exact = (double)exact_delta(&pair, eps), upper, lower;
            assert_int_equal(eps__composition_log_delta(composition, EPS__UPPER, eps, &upper), EPS_OK);
            assert_int_equal(eps__composition_log_delta(composition, EPS__LOWER, eps, &lower), EPS_OK);
            upper = exp(upper) + remainder.outside;
            lower = exp(lower) - remainder.outside;
            assert_true(lower <= exact * (1 + 1e-12) && exact <= upper * (1 + 1e-12));
            assert_true(upper - lower <= 2 * remainder.outside + 2e-3 * exact + 1e-4 * scale);
        }
        /* Losses only from far beyond the reach: there the quadrature's own curve falls below that of the law. */
        double far = (double)exact_loss(&pair, 30), exact = (double)exact_delta(&pair, far), upper;
        assert_int_equal(eps__composition_log_delta(composition, EPS__UPPER, far, &upper), EPS_OK);
        assert_true(exact <= exp(upper) + remainder.outside);
        short_of += exp(upper) < 0.99 * exact;
        eps__composition_destroy(composition);
        eps__mixture_clear(&pair.numerator);
        eps__mixture_clear(&pair.denominator);
    }
    assert_true(short_of > 3);
}

/* ------------------------------------------------------------ properties of every answer */

TEST(brackets_are_narrow_and_monotone)
{
    double last = INFINITY;
    for (double sigma = 1; sigma < 40; sigma *= 2) {
        struct eps_job job = new_job(EPS_FAMILY_SQUARE_ROOT, 24, 0.05, sigma);
        job.mechanism.matrix.bands = 6;
        struct answer answer = epsilon_at(job, 1e-6);
        assert_true(answer.lower <= answer.value && answer.value - answer.lower <= 1e-3 * answer.value);
        assert_true(answer.value < last);
        last = answer.value;
        /* There and back. */
        struct answer delta = delta_at(job, answer.value);
        assert_true(near(delta.value, 1e-6, 0.05));
    }
}

TEST(the_chosen_share_is_no_worse)
{
    uint64_t seed = 6174;
    for (int c = 0; c < 5; c++) {
        size_t n = 8 + draw_below(&seed, 24);
        struct eps_job job = new_job(c % 2 ? EPS_FAMILY_TREE : EPS_FAMILY_SQUARE_ROOT, n, draw_log(&seed, 0.01, 0.2),
                                     draw_log(&seed, 2, 60));
        double delta = draw_log(&seed, 1e-9, 1e-3), tolerance = 1e-2;
        job.query.accountant.tolerance = tolerance;
        struct answer chosen = epsilon_at(job, delta);
        double narrower = INFINITY;
        for (double share = 0.5; share > 1e-3; share *= 0.1) {
            job.query.accountant.bad_event_share = share;
            struct answer given = epsilon_at(job, delta);
            assert_true(near(given.share[EPS_REMOVE], share, 1e-9));
            if (share == 0.5)
                for (int d = 0; d < EPS_DIRECTIONS; d++)
                    assert_true(chosen.of[d] <= given.of[d] * (1 + tolerance));
            narrower = fmin(narrower, given.value);
        }
        assert_true(chosen.value <= narrower * (1 + 0.02));
    }
}

/* A smaller delta_1 means larger tail bounds: the composition's part alone is monotone in it. */
TEST(the_odds_rise_as_the_share_falls)
{
    struct eps_job job = new_job(EPS_FAMILY_SQUARE_ROOT, 10, 0.1, 3);
    struct eps_strategy *strategy;
    struct eps__rows *rows;
    eps_job_defaults(&job);
    assert_int_equal(eps_strategy_create(NULL, &strategy, NULL, &job.mechanism), EPS_OK);
    struct eps__blocks blocks = eps__strategy_blocks(strategy);
    assert_int_equal(eps__toeplitz_rows(&rows, &blocks, 1, 0.1), EPS_OK);
    for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++) {
        double last[10 * 10];
        for (int k = 0; k < 6; k++) {
            struct eps__tail_query query = eps__tail_query(direction, 3, -5 * (double)(1 << k), false);
            assert_int_equal(rows->class->bound(rows, NULL, &query), EPS_OK);
            for (size_t row = 0; row < rows->classes; row++) {
                struct eps__factor factors[10];
                size_t len = rows->class->fill(rows, row, factors);
                for (size_t i = 0; i < len; i++) {
                    if (k > 0 && i > 0)
                        assert_true(factors[i].log_odds > last[row * 10 + i]);
                    last[row * 10 + i] = factors[i].log_odds;
                }
            }
        }
    }
    rows->class->destroy(rows);
    eps_strategy_destroy(strategy);
}

TEST(the_noise_that_is_found_suffices)
{
    struct eps_job job = new_job(EPS_FAMILY_SQUARE_ROOT, 16, 1.0 / 16, NAN);
    job.mechanism.matrix.bands = 4;
    job.query.epsilon = 1;
    job.query.delta = 1e-6;
    struct answer noise = answered(job);
    assert_true(noise.value - noise.lower <= 1e-3 * noise.value);
    job.query.noise_multiplier = noise.value;
    job.query.epsilon = NAN;
    struct answer back = answered(job);
    assert_true(near(back.value, 1, 5e-3));
}

TEST(what_is_not_served_says_why)
{
    const double negative[] = {1, -0.5};
    struct eps_job jobs[3];
    jobs[0] = new_job(EPS_FAMILY_TOEPLITZ, 6, 0.1, 1);
    jobs[0].mechanism.matrix.coefficients = negative;
    jobs[0].mechanism.matrix.coefficients_len = 2;
    jobs[1] = new_job(EPS_FAMILY_SQUARE_ROOT, 6, 0.1, 1);
    jobs[1].mechanism.adjacency = EPS_ADJACENCY_REPLACE_ONE;
    jobs[2] = new_job(EPS_FAMILY_SQUARE_ROOT, 6, 0.1, 1);
    jobs[2].mechanism.sampling.scheme = EPS_SCHEME_NONE;
    jobs[2].mechanism.sampling.p = NAN;
    static const char *const pointers[] = {"/matrix", "/adjacency", "/sampling/scheme"};
    for (int c = 0; c < 3; c++) {
        struct eps_error error = {0};
        jobs[c].query.delta = 1e-5;
        eps_job_defaults(&jobs[c]);
        assert_int_equal(eps_job_serves(NULL, &error, &jobs[c], NULL, NULL), EPS_UNSUPPORTED);
        assert_string_equal(error.pointer, pointers[c]);
        assert_true(strlen(error.message) > 20);
    }
}

/* The square of the noise multiplier underflows: the odds were NaN, and an assertion ended the process. */
TEST(next_to_no_noise_hides_nothing)
{
    static const enum eps_family families[] = {EPS_FAMILY_SQUARE_ROOT, EPS_FAMILY_TREE, EPS_FAMILY_DENSE};
    for (int c = 0; c < 6; c++) {
        struct eps_job job = new_job(families[c % 3], 7, 0.7, c < 3 ? 1e-300 : 1e-155);
        const double rows[49] = {[0] = 1,  [7] = 1,  [8] = 1,  [14] = 1, [16] = 1, [21] = 1, [24] = 1,
                                 [28] = 1, [32] = 1, [35] = 1, [40] = 1, [42] = 1, [48] = 1};
        if (families[c % 3] == EPS_FAMILY_DENSE) {
            job.mechanism.matrix.rows = rows;
            job.mechanism.matrix.rows_n = 7;
            job.mechanism.matrix.normalization = EPS_NORMALIZATION_NONE;
        }
        job.query.accountant.method = EPS_ACCOUNTANT_MMCC;
        job.query.epsilon = 1;
        struct eps_error error = {0};
        struct eps_result *result = NULL;
        eps_job_defaults(&job);
        enum eps_status status = eps_solve(NULL, &result, &error, &job);
        if (status == EPS_OK)
            assert_true(result->delta >= 0.999); /* 1 - 0.3^7 */
        eps_result_destroy(result);
    }
}

/* Measured: six minutes of one core. With an estimate of twenty times that, auto answered 1107, the noise without
 * sampling. */
TEST(thousands_of_steps_fit_the_limits)
{
    struct eps_job job = new_job(EPS_FAMILY_SQUARE_ROOT, 4096, 0.01, NAN);
    struct eps_context context = {.max_operations = 2e12, .max_bytes = 2e9};
    struct eps_error error = {0};
    double own, all;
    job.query.epsilon = 8;
    job.query.delta = 1e-6;
    eps_job_defaults(&job);
    job.query.accountant.method = EPS_ACCOUNTANT_MMCC;
    assert_int_equal(eps_job_serves(&context, &error, &job, &own, NULL), EPS_OK);
    job.query.accountant.method = EPS_ACCOUNTANT_AUTO;
    assert_int_equal(eps_job_serves(&context, &error, &job, &all, NULL), EPS_OK);
    assert_true(own > 1e11 && all >= own);
}

static void count_wide(void *user, size_t count, void (*body)(void *arg, size_t index), void *arg)
{
    *(size_t *)user += count >= 100; /* all rows, or all their pairs on a grid */
    for (size_t i = 0; i < count; i++)
        body(arg, i);
}

/* With full bands, rows of hundreds of participations had 160 atoms with bounds of their own, wider than the tolerance.
 * No finer grid helped, and every one was tried. */
TEST(many_participations_are_composed_once)
{
    struct eps_job job = new_job(EPS_FAMILY_SQUARE_ROOT, 192, 0.01, 2);
    size_t wide = 0;
    struct eps_context context = {.user = &wide, .parallel_for = count_wide};
    struct eps_result *result = NULL;
    job.mechanism.matrix.normalization = EPS_NORMALIZATION_MAX_COLUMN;
    job.query.delta = 1e-5;
    eps_job_defaults(&job);
    assert_int_equal(eps_solve(&context, &result, NULL, &job), EPS_OK);
    assert_true(result->bracket_upper - result->bracket_lower <= 1e-3 * result->bracket_upper);
    assert_in_range(wide, 1, 18);
    eps_result_destroy(result);
}

/* Columns of one parity never share a row with those of the other: each part is Poisson sampling of its own. */
TEST(the_worst_part_may_be_the_last)
{
    enum { HALF = 3, N = 2 * HALF };
    static const double part[HALF * HALF] = {1, 0, 0, 0.6, 0.9, 0, 0.4, 0.5, 0.8};
    static double rows[N * N];
    struct eps_job alone = new_job(EPS_FAMILY_DENSE, HALF, 0.1, 2), both;
    alone.mechanism.matrix.rows = part;
    alone.mechanism.matrix.rows_n = HALF;
    alone.query.accountant.bad_event_share = 0.3;
    struct answer wanted = epsilon_at(alone, 1e-6);
    for (size_t worst = 0; worst < 2; worst++) {
        for (size_t i = 0; i < N; i++)
            for (size_t j = 0; j <= i; j++)
                rows[i * N + j] = (i - j) % 2 ? 0 : (j % 2 == worst ? 1 : 0.2) * part[i / 2 * HALF + j / 2];
        both = alone;
        both.mechanism.n = both.mechanism.matrix.rows_n = N;
        both.mechanism.matrix.rows = rows;
        both.mechanism.sampling.scheme = EPS_SCHEME_CYCLIC_POISSON;
        both.mechanism.sampling.groups = 2;
        struct answer found = epsilon_at(both, 1e-6);
        for (int d = 0; d < EPS_DIRECTIONS; d++)
            if (!(fabs(found.of[d] - wanted.of[d]) <= 2e-3 * wanted.of[d]))
                fail_msg("part %zu, direction %d: %.9g, alone %.9g", worst, d, found.of[d], wanted.of[d]);
        assert_true(found.lower <= wanted.value && wanted.lower <= found.value);
    }
}

/* Where shifts are large, an expansion by jumps has hundreds of terms, each on a long grid. */
TEST(a_deadline_is_seen_with_little_noise)
{
    struct patience_polls polls = patience_polls(0.05);
    const struct eps_context context = {.user = &polls, .expired = patience_expired};
    struct eps_job job = new_job(EPS_FAMILY_INVERSE_SQUARE_ROOT, 26, 0.1, 0.001);
    struct eps_curve_point *points = NULL;
    struct eps_error error = {0};
    size_t len = 0;
    job.mechanism.matrix.bands = job.mechanism.matrix.stamps = 2;
    job.mechanism.sampling = (struct eps_sampling){.scheme = EPS_SCHEME_CYCLIC_POISSON,
                                                   .p = NAN,
                                                   .batch_size = 72,
                                                   .dataset_size = 214565280409,
                                                   .groups = 4,
                                                   .examples_per_user = 1};
    job.query.accountant.bad_event_share = 0.000528865964569606;
    job.query.accountant.tolerance = 1.4e-5;
    job.query.epsilon = 2.94;
    job.query.noise_multiplier = 0.001;
    job.mechanism.adjacency = EPS_ADJACENCY_ZERO_OUT;
    job.mechanism.matrix.normalization = EPS_NORMALIZATION_NONE;
    job.query.delta = NAN;
    eps_job_defaults(&job);
    assert_int_equal(eps_privacy_curve(&context, &points, &len, &error, &job, 0.001), EPS_TIMEOUT);
    assert_true(polls.gap < 2 && patience_clock() - polls.last < 2);
}

/* The first guess, 40000, is far above the answer; delta at epsilon 0, which takes minutes, is not needed for it. */
TEST(a_bad_start_does_not_lead_to_0)
{
    patience_begin("a start far above the answer", 0, 60);
    struct answer answer = answered(
        job_of("{'n': 9, 'matrix': {'family': 'optimal', 'normalization': 'none', 'nonnegative': true, 'objective': "
               "'max_squared', 'gap': 0.0053164178128059505}, 'sampling': {'scheme': 'cyclic_poisson', 'p': "
               "0.7365078389318727, 'groups': 1}, 'delta': 0.006267862934381289, 'noise_multiplier': "
               "0.26957932936307033, 'accountant': {'method': 'mmcc'}, "
               "'workload': {'type': 'momentum', 'momentum': 0.34123516862557474, 'decay': 1}}"));
    patience_end();
    assert_true(answer.of[EPS_REMOVE] > 320 && answer.of[EPS_REMOVE] < 330);
}
