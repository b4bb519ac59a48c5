/*
 * pld for balls in bins whose bins share rows: the parts compared with the inner products of the merged columns; delta
 * compared with quadrature, from both sides where all bins share the same, and with plain draws; and the noise compared
 * with that of bins that share nothing.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/accountants/pld/bin_classes.h"
#include "lib/accountants/pld/shared_bins.h"
#include "lib/job/setting.h"
#include "lib/strategy/merged.h"
#include "tests/truth/mechanism.h"
#include "tests/unit/draw.h"
#include "tests/unit/solved.h"
#include "tests/unit/test.h"

static const uint64_t seed = 50077;

/* ------------------------------------------------------------ the parts */

/* Whether the parts of so many draws are no less than the products within some classes of at least so many bins. */
static bool parts_dominate(const struct eps__shared_bins *found, size_t draws, const double *gram, size_t bins,
                           bool around)
{
    const double slack = (1 - 1e-12) / (double)draws;
    for (size_t i = 0; i < bins; i++)
        if (found->shared + found->own < gram[i * bins + i] * slack)
            return false;
    for (size_t apart = bins; apart > 0; apart--) {
        struct eps__bin_classes classes = eps__bin_classes_make(bins, apart, around);
        bool dominate = bins / classes.len >= found->size;
        for (size_t i = 0; i < bins && dominate; i++)
            for (size_t j = 0; j < i && dominate; j++)
                dominate = eps__bin_class(&classes, i) != eps__bin_class(&classes, j) ||
                           found->shared >= gram[i * bins + j] * slack;
        if (dominate)
            return true;
    }
    return false;
}

/* The same strategy with columns of other lengths. Returns the rows, which the caller frees. */
static double *as_dense(struct eps_job *job, uint64_t *state)
{
    struct eps_matrix *matrix = &job->mechanism.matrix;
    size_t n = job->mechanism.n / matrix->stamps;
    double *rows = calloc(n * n, sizeof *rows);
    assert_non_null(rows);
    for (size_t j = 0; j < n; j++) {
        double scale = draw_log(state, 0.2, 1);
        for (size_t i = j; i < n && i - j < matrix->coefficients_len; i++)
            rows[i * n + j] = matrix->coefficients[i - j] * scale;
    }
    matrix->family = EPS_FAMILY_DENSE;
    matrix->coefficients = NULL;
    matrix->coefficients_len = 0;
    matrix->rows = rows;
    matrix->rows_n = n;
    return rows;
}

TEST(the_parts_dominate_the_matrix)
{
    uint64_t state = seed;
    size_t sizes[60] = {0};
    for (int c = 0; c < 300; c++) {
        size_t block = 2 + draw_below(&state, 18), epochs = 1 + draw_below(&state, 3), len, bins, stamps;
        size_t draws = c % 3 == 0 ? epochs : 1, blocks = c % 3 == 0 ? 1 + draw_below(&state, 3) : 1;
        bins = block * blocks;
        len = 2 + draw_below(&state, block - 1);
        stamps = c % 3 == 0 ? blocks * epochs : 1; /* equal blocks that fill an epoch, or one block for all epochs */
        char column[1000] = "1";
        for (size_t i = 1; i < len; i++)
            snprintf(column + strlen(column), sizeof column - strlen(column), ",%.6g",
                     draw_below(&state, 5) ? draw_log(&state, 1e-3, 1) : 0);
        struct eps_job job =
            job_of("{'n':%zu,'matrix':{'family':'toeplitz','coefficients':[%s],'stamps':%zu,'normalization':'none'},"
                   "'sampling':{'scheme':'balls_in_bins','bins':%zu},'noise_multiplier':%g,"
                   "'delta':1e-5,'accountant':'pld'}",
                   bins * epochs, column, stamps, bins, draw_log(&state, 0.3, 30));
        double *rows = c % 2 ? as_dense(&job, &state) : NULL; /* all products are looked at, or a row of them */
        struct eps__setting setting;
        struct eps__shared_bins found;
        double *gram = calloc(bins * bins, sizeof *gram), error;
        assert_non_null(gram);
        assert_int_equal(eps__setting_open(&setting, NULL, NULL, &job), EPS_OK);
        assert_int_equal(eps__merged_gram(NULL, gram, &error, setting.strategy, bins), EPS_OK);
        assert_int_equal(eps__shared_bins_find(&found, &setting, 1, draws, 0), EPS_OK);
        assert_true(found.size >= 2 && found.size <= bins && found.shared > 0 && found.own > 0);
        if (!parts_dominate(&found, draws, gram, bins, eps__bin_classes(setting.strategy, bins).around))
            fail_msg("case %d: %zu bins, classes of %zu: %g and %g", c, bins, found.size, found.shared, found.own);
        sizes[found.size]++;
        eps__setting_close(&setting);
        free(gram);
        free(rows);
    }
    assert_true(sizes[2] > 0 && sizes[3] + sizes[4] + sizes[5] > 0); /* not all bins in one class */
}

/* ------------------------------------------------------------ delta */

/* Columns of norm 1 of which any two have the inner product `product`: C is lower-triangular, and column i + 1 begins
 * one row below column i. */
static struct eps_job equal_products(size_t bins, double product, bool redraw, size_t epochs)
{
    double gram[16] = {0}, c[16] = {0};
    char rows[1000] = "";
    for (size_t i = 0; i < bins * bins; i++)
        gram[i] = i % (bins + 1) == 0 ? 1 : product;
    for (size_t j = bins; j-- > 0;) { /* C'C = G, from the last column on */
        for (size_t r = bins; r-- > j;) {
            double rest = gram[r * bins + j];
            for (size_t k = r + 1; k < bins; k++)
                rest -= c[k * bins + r] * c[k * bins + j];
            c[r * bins + j] = r == j ? sqrt(rest) : rest / c[r * bins + r];
        }
    }
    for (size_t r = 0; r < bins; r++) {
        snprintf(rows + strlen(rows), sizeof rows - strlen(rows), "%s[", r ? "," : "");
        for (size_t j = 0; j <= r; j++)
            snprintf(rows + strlen(rows), sizeof rows - strlen(rows), "%s%.17g", j ? "," : "", c[r * bins + j]);
        snprintf(rows + strlen(rows), sizeof rows - strlen(rows), "]");
    }
    return job_of("{'n':%zu,'matrix':{'family':'dense','rows':[%s],'stamps':%zu,'normalization':'none'},"
                  "'sampling':{'scheme':'balls_in_bins','bins':%zu,'redraw':%s},'epsilon':1,'noise_multiplier':1,"
                  "'adjacency':'zero_out','accountant':'pld'}",
                  bins * epochs, rows, epochs, bins, redraw ? "true" : "false");
}

/* Where all bins share the same, the bound is the truth. */
TEST(equal_products_are_exact)
{
    for (size_t bins = 2; bins <= 3; bins++)
        for (double product = 0.05; product < 1; product *= 4)
            for (double sigma = 0.4; sigma < 3; sigma *= 2.2) {
                struct eps_job job = equal_products(bins, product, false, 1);
                job.query.noise_multiplier = sigma;
                job.query.epsilon = 0.3 / sigma;
                struct answer found = answered(job);
                struct truth truth = truth_open(&job.mechanism);
                const struct effort effort = {.samples = 600, .quadrature_most = 3, .seed = seed, .width = 1e-4L};
                for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++) {
                    struct enclosure exact = truth_delta(&truth, direction, job.query.epsilon, sigma, &effort);
                    if (!(found.of[direction] >= (double)exact.lower * (1 - 1e-9)) ||
                        !(found.of[direction] <= (double)exact.upper * 1.002))
                        fail_msg("%zu bins, product %g, sigma %g, direction %d: %.9g not in [%.9g, %.9g]", bins,
                                 product, sigma, (int)direction, found.of[direction], (double)exact.lower,
                                 (double)exact.upper);
                }
                truth_close(&truth);
            }
}

static double draw_normal(uint64_t *state)
{
    double radius = sqrt(-2 * log(1 - draw_unit(state)));
    return radius * cos(2 * M_PI * draw_unit(state));
}

/* delta by plain draws of the outputs of independent epochs of bins with such columns. */
static double sampled(size_t bins, double product, size_t epochs, double sigma, enum eps_direction direction,
                      double eps, double *deviation)
{
    const size_t samples = 200000;
    uint64_t state = seed;
    double sum = 0, squares = 0, shared = sqrt(product) / sigma, own = sqrt(1 - product) / sigma;
    for (size_t s = 0; s < samples; s++) {
        double loss = 0;
        for (size_t e = 0; e < epochs; e++) {
            size_t at = draw_below(&state, bins);
            double over = 0, common = draw_normal(&state) + (direction == EPS_REMOVE ? shared : 0);
            for (size_t i = 0; i < bins; i++) {
                double y = draw_normal(&state) + (direction == EPS_REMOVE && i == at ? own : 0);
                over += exp(own * (y - own / 2)) / (double)bins;
            }
            loss += shared * (common - shared / 2) + log(over);
        }
        double value = fmax(-expm1(direction == EPS_REMOVE ? eps - loss : eps + loss), 0);
        sum += value;
        squares += value * value;
    }
    double mean = sum / (double)samples;
    *deviation = sqrt((squares / (double)samples - mean * mean) / (double)samples);
    return mean;
}

/* The same for a bin that is drawn anew in every epoch: what is shared is shared in each. */
TEST(redrawn_bins_share_in_every_epoch)
{
    const double product = 0.3, sigma = 2, eps = 0.5;
    for (size_t epochs = 2; epochs <= 4; epochs += 2) {
        struct eps_job job = equal_products(4, product, true, epochs);
        job.query.noise_multiplier = sigma;
        job.query.epsilon = eps;
        struct answer found = answered(job);
        for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++) {
            double deviation, mean = sampled(4, product, epochs, sigma, direction, eps, &deviation);
            if (!(fabs(found.of[direction] - mean) < 5 * deviation + 1e-3 * mean))
                fail_msg("%zu epochs, direction %d: %g for %g +- %g", epochs, (int)direction, found.of[direction], mean,
                         deviation);
        }
    }
}

/* ------------------------------------------------------------ the noise */

static double noise(const char *matrix, size_t bins, double eps)
{
    return answered(job_of("{'n':1000,'matrix':{%s},'sampling':{'scheme':'balls_in_bins','bins':%zu},'epsilon':%g,"
                           "'delta':1e-5,'accountant':'pld'}",
                           matrix, bins, eps))
        .value;
}

/* What hardly shares anything is hardly worse than what shares nothing: 1.919 by classes that share nothing. */
TEST(a_little_that_is_shared_costs_little)
{
    double identity = noise("'family':'identity'", 100, 4);
    double hardly = noise("'family':'toeplitz','coefficients':[1,1e-14]", 100, 4);
    double little = noise("'family':'toeplitz','coefficients':[1,0.02]", 100, 4);
    print_message("# identity %.6g, hardly %.6g, little %.6g\n", identity, hardly, little);
    assert_true(hardly >= identity * (1 - 1e-3) && hardly <= identity * (1 + 1e-3));
    assert_true(little >= hardly * (1 - 1e-3) && little <= 1.793);
}

/* 16.483 or more is needed (A47). */
TEST(full_bands_are_amplified)
{
    double value = noise("'family':'square_root'", 100, 1);
    print_message("# square root: %.6g\n", value);
    assert_true(value > 16.483 && value < 17.37);
}
