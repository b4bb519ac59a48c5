/*
 * Balls in bins where no quadrature reaches: what each accountant proves, beside plain draws. An example in bin i
 * moves the outputs by m_i, the sum of C's columns of that bin over sigma, and of the outputs only their products
 * with the m count: coordinates in the span of the m, by Cholesky, are drawn instead. One set of draws serves every
 * accountant and epsilon.
 *
 * 100,000 draws a direction; REPRODUCE=1: 10 million, and so ten times nearer.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <gsl/gsl_randist.h>
#include <gsl/gsl_rng.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/epsilon.h"
#include "tests/unit/matrices.h"
#include "tests/unit/test.h"

enum { BINS_MAX = 20, EPSILONS = 2, ACCOUNTANTS = 4, DEVIATIONS = 5 };

static const enum eps_accountant accountants[ACCOUNTANTS] = {
    EPS_ACCOUNTANT_PLD, EPS_ACCOUNTANT_RENYI, EPS_ACCOUNTANT_CONDITIONAL_COMPOSITION, EPS_ACCOUNTANT_GAUSSIAN};

static const double short_column[] = {1, 0.5, 0.375, 0.3125}, wide_column[] = {1, 0.5, 0.4, 0.3, 0.25, 0.2, 0.2, 0.2},
                    uneven_column[] = {1, 1e-7, 3e-3, 0, 2e-9};
/* Steps 1 and 5 (from 0) leave no trace; the others' columns differ 10^6-fold. */
static const double bare_rows[] = {
    1, 0, 0,    0,   0,    0, /**/
    0, 0, 0,    0,   0,    0, /**/
    0, 0, 1e-6, 0,   0,    0, /**/
    2, 0, 0,    0.5, 0,    0, /**/
    0, 0, 1e-6, 0,   1e-3, 0, /**/
    0, 0, 0,    1,   0,    0, /**/
};

struct mechanism_case {
    const char *name;
    enum eps_family family;
    size_t n, bins;
    const double *numbers; /* of the first column; of the rows */
    size_t len, stamps;
    bool redraw;
    double sigma;
    double epsilons[EPSILONS];
    double loose; /* at the first of them auto is at most so many times the truth */
};

/* clang-format off */
static const struct mechanism_case cases[] = {
    {"identity, 1 epoch", EPS_FAMILY_IDENTITY, 20, 20, NULL, 0, 1, false, 0.8, {0.4, 1.4}, 1.005},
    {"identity, 3 epochs", EPS_FAMILY_IDENTITY, 60, 20, NULL, 0, 1, false, 1.4, {0.4, 1.4}, 1.005},
    {"identity, 3 epochs, redrawn", EPS_FAMILY_IDENTITY, 60, 20, NULL, 0, 1, true, 1, {0.6, 2}, 1.005},
    {"4 bands, 1 epoch", EPS_FAMILY_TOEPLITZ, 20, 20, short_column, 4, 1, false, 1.1, {0.5, 1.5}, 1.7},
    {"4 bands, 3 epochs", EPS_FAMILY_TOEPLITZ, 60, 20, short_column, 4, 1, false, 2, {0.4, 1.4}, 1.6},
    {"8 bands over 6 bins", EPS_FAMILY_TOEPLITZ, 24, 6, wide_column, 8, 1, false, 3, {0.9, 2.4}, 1.6},
    {"8 bands, 8 bins", EPS_FAMILY_TOEPLITZ, 24, 8, wide_column, 8, 1, false, 2.5, {0.8, 2.2}, 1.6},
    {"all bands, 1 epoch", EPS_FAMILY_SQUARE_ROOT, 20, 20, NULL, 0, 1, false, 1.5, {0.6, 1.8}, 2},
    {"all bands, 4 epochs", EPS_FAMILY_SQUARE_ROOT, 40, 10, NULL, 0, 1, false, 4, {1, 2.6}, 1.7},
    {"a tree, 1 epoch", EPS_FAMILY_TREE, 16, 16, NULL, 0, 1, false, 2, {1, 2.4}, 2.2},
    {"a tree, 3 epochs", EPS_FAMILY_TREE, 24, 8, NULL, 0, 1, false, 6, {0.8, 2.3}, 1.5},
    {"stamps of an epoch each", EPS_FAMILY_TOEPLITZ, 36, 12, short_column, 4, 3, false, 2, {0.7, 1.9}, 1.9},
    {"stamps of an epoch each, redrawn", EPS_FAMILY_TOEPLITZ, 36, 12, short_column, 4, 3, true, 1.6, {1.1, 2.3}, 4.5},
    {"stamps across epochs", EPS_FAMILY_TOEPLITZ, 36, 12, short_column, 4, 2, false, 2, {0.7, 1.9}, 1.8},
    {"entries of every scale", EPS_FAMILY_TOEPLITZ, 36, 12, uneven_column, 5, 1, false, 1.2, {1.1, 3}, 4.2},
    {"columns of zeros, 1 epoch", EPS_FAMILY_DENSE, 6, 6, bare_rows, 6, 1, false, 1.5, {0.4, 3}, 2.3},
    {"columns of zeros, 2 epochs", EPS_FAMILY_DENSE, 6, 3, bare_rows, 6, 1, false, 1.5, {1.1, 5}, 1.1},
};
/* clang-format on */

static struct eps_job job_of(const struct mechanism_case *of)
{
    struct eps_job job;
    eps_job_init(&job);
    struct eps_matrix *matrix = &job.mechanism.matrix;
    job.mechanism.n = of->n;
    matrix->family = of->family;
    matrix->normalization = EPS_NORMALIZATION_NONE;
    matrix->stamps = of->stamps;
    if (of->family == EPS_FAMILY_TOEPLITZ) {
        matrix->coefficients = of->numbers;
        matrix->coefficients_len = of->len;
    } else if (of->family == EPS_FAMILY_DENSE) {
        matrix->rows = of->numbers;
        matrix->rows_n = of->len;
    }
    job.mechanism.sampling.scheme = EPS_SCHEME_BALLS_IN_BINS;
    job.mechanism.sampling.bins = of->bins;
    job.mechanism.sampling.redraw = of->redraw;
    job.query.noise_multiplier = of->sigma;
    eps_job_defaults(&job);
    return job;
}

/* ------------------------------------------------------------ draws */

/* m_i of one draw of a bin: rows of a lower triangle. */
struct means {
    size_t bins, draws; /* of an example's bin */
    double at[BINS_MAX][BINS_MAX];
};

/* Every column of C is in one bin. Where bins are redrawn, those of the first epoch, which nothing reaches over. */
static void make_means(struct means *means, const struct eps_mechanism *mechanism)
{
    struct eps_strategy *strategy = strategy_new(mechanism);
    struct matrix c = part_matrix(strategy, EPS_PART_ENCODER);
    size_t bins = mechanism->sampling.bins, columns = mechanism->sampling.redraw ? bins : c.columns;
    long double gram[BINS_MAX][BINS_MAX] = {{0}}, at[BINS_MAX][BINS_MAX] = {{0}};
    assert_true(bins <= BINS_MAX && c.columns == mechanism->n && c.columns % bins == 0);
    *means = (struct means){.bins = bins, .draws = c.columns / columns};
    for (size_t row = 0; row < c.rows; row++) {
        long double sum[BINS_MAX] = {0};
        for (size_t j = 0; j < columns; j++)
            sum[j % bins] += *entry(&c, row, j);
        for (size_t j = columns; j < c.columns; j++)
            assert_true(*entry(&c, row, j) == 0 || sum[j % bins] == 0);
        for (size_t i = 0; i < bins; i++)
            for (size_t j = 0; j < bins; j++)
                gram[i][j] += sum[i] * sum[j];
    }
    for (size_t i = 0; i < bins; i++)
        for (size_t j = 0; j <= i; j++) {
            long double left = gram[i][j];
            for (size_t d = 0; d < j; d++)
                left -= at[i][d] * at[j][d];
            if (i == j)
                at[i][i] = left > 1e-16L * gram[i][i] ? sqrtl(left) : 0;
            else
                at[i][j] = at[j][j] > 0 ? left / at[j][j] : 0;
            means->at[i][j] = (double)at[i][j];
        }
    matrix_free(&c);
    eps_strategy_destroy(strategy);
}

/* ln P/Q of one bin's draw, at outputs as P (remove) or Q (add) has them. */
static double draw_loss(const struct means *means, gsl_rng *rng, enum eps_direction direction, double sigma)
{
    double z[BINS_MAX], ratio = 0;
    size_t own = gsl_rng_uniform_int(rng, means->bins);
    for (size_t d = 0; d < means->bins; d++)
        z[d] = gsl_ran_gaussian_ziggurat(rng, 1) + (direction == EPS_REMOVE ? means->at[own][d] / sigma : 0);
    for (size_t i = 0; i < means->bins; i++) {
        double exponent = 0;
        for (size_t d = 0; d <= i; d++)
            exponent += means->at[i][d] / sigma * (z[d] - means->at[i][d] / sigma / 2);
        ratio += exp(exponent);
    }
    return log(ratio / (double)means->bins);
}

struct estimate {
    double mean, deviation;
};

static void estimate_all(struct estimate *estimates, const struct means *means, enum eps_direction direction,
                         const double *epsilons, double sigma, size_t samples)
{
    gsl_rng *rng = gsl_rng_alloc(gsl_rng_mt19937);
    double sums[EPSILONS] = {0}, squares[EPSILONS] = {0};
    gsl_rng_set(rng, direction == EPS_REMOVE ? 2718281 : 3141592);
    for (size_t s = 0; s < samples; s++) {
        double loss = 0;
        for (size_t k = 0; k < means->draws; k++)
            loss += draw_loss(means, rng, direction, sigma);
        for (size_t e = 0; e < EPSILONS; e++) {
            double value = fmax(-expm1(epsilons[e] + (direction == EPS_REMOVE ? -loss : loss)), 0);
            sums[e] += value;
            squares[e] += value * value;
        }
    }
    gsl_rng_free(rng);
    for (size_t e = 0; e < EPSILONS; e++) {
        double mean = sums[e] / (double)samples, square = squares[e] / (double)samples;
        estimates[e] = (struct estimate){mean, sqrt(fmax(square - mean * mean, 0) / (double)samples)};
    }
}

/* ------------------------------------------------------------ bounds */

/* By accountant and direction: what each that serves proves; NAN of the others. */
static void ask(struct eps_job *job, enum eps_accountant accountant,
                double bounds[EPS_ACCOUNTANT_COUNT][EPS_DIRECTIONS])
{
    struct eps_result *result = NULL;
    struct eps_error error = {0};
    job->query.accountant.method = accountant;
    enum eps_status status = eps_solve(NULL, &result, &error, job);
    if (status == EPS_UNSUPPORTED)
        return;
    if (status != EPS_OK)
        fail_msg("%s: %s %s", eps_accountant_name(accountant), error.pointer, error.message);
    for (size_t c = 0; c < result->candidates_len; c++)
        bounds[result->candidates[c].accountant][result->candidates[c].direction] = result->candidates[c].value;
    for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++)
        bounds[accountant][direction] = result->directions[direction].value;
    eps_result_destroy(result);
}

/* auto's answer has those of all that it asks. */
static void ask_all(struct eps_job *job, double epsilon, double bounds[EPS_ACCOUNTANT_COUNT][EPS_DIRECTIONS])
{
    job->query.epsilon = epsilon;
    for (enum eps_accountant a = 0; a < EPS_ACCOUNTANT_COUNT; a++)
        bounds[a][EPS_REMOVE] = bounds[a][EPS_ADD] = NAN;
    ask(job, EPS_ACCOUNTANT_AUTO, bounds);
    for (size_t a = 0; a < ACCOUNTANTS; a++)
        if (isnan(bounds[accountants[a]][EPS_REMOVE]) || isnan(bounds[accountants[a]][EPS_ADD]))
            ask(job, accountants[a], bounds);
}

/* No bound is under the draws; auto's is near them, in the direction that rules. */
static void check_case(const struct mechanism_case *of, size_t samples)
{
    struct eps_job job = job_of(of);
    struct means means;
    struct estimate estimates[EPS_DIRECTIONS][EPSILONS];
    double widest[EPS_ACCOUNTANT_COUNT] = {0}, first = 0;
    make_means(&means, &job.mechanism);
    for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++)
        estimate_all(estimates[direction], &means, direction, of->epsilons, of->sigma, samples);
    for (size_t e = 0; e < EPSILONS; e++) {
        double bounds[EPS_ACCOUNTANT_COUNT][EPS_DIRECTIONS];
        const struct estimate *remove = &estimates[EPS_REMOVE][e], *add = &estimates[EPS_ADD][e];
        const struct estimate *truth = remove->mean > add->mean ? remove : add;
        ask_all(&job, of->epsilons[e], bounds);
        for (enum eps_accountant a = 0; a < EPS_ACCOUNTANT_COUNT; a++) {
            for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++) {
                struct estimate it = estimates[direction][e];
                if (bounds[a][direction] < it.mean - DEVIATIONS * it.deviation)
                    fail_msg("%s, %s, direction %d, epsilon %g: %g for %g, give or take %g", of->name,
                             eps_accountant_name(a), (int)direction, of->epsilons[e], bounds[a][direction], it.mean,
                             it.deviation);
            }
            double high = truth->mean + DEVIATIONS * truth->deviation;
            if (e == 0 && a == EPS_ACCOUNTANT_AUTO)
                first = fmax(bounds[a][EPS_REMOVE], bounds[a][EPS_ADD]) / high;
            if (truth->mean > 50 * truth->deviation)
                widest[a] = fmax(widest[a], fmax(bounds[a][EPS_REMOVE], bounds[a][EPS_ADD]) / high);
        }
    }
    print_message("# %s: over the draws at most", of->name);
    for (enum eps_accountant a = 0; a < EPS_ACCOUNTANT_COUNT; a++)
        if (widest[a] > 0)
            print_message(" %s %.3g", eps_accountant_name(a), widest[a]);
    print_message("\n");
    assert_true(first > 0.8 && first <= of->loose);
}

TEST(no_bound_is_under_the_draws)
{
    size_t samples = getenv("REPRODUCE") ? 10000000 : 100000;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        check_case(&cases[k], samples);
}
