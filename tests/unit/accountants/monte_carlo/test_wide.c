/*
 * b-min-sep sampling with a separation below the number of bands: compared with sums over all patterns, the recursion
 * with whole columns is above P/Q and the geometric mean is below it; each is the sum that it should be, and equals P/Q
 * where the bands fit.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/accountants/monte_carlo/law.h"
#include "lib/accountants/monte_carlo/laws/b_min_sep_minorant.h"
#include "lib/job/setting.h"
#include "tests/unit/draw.h"
#include "tests/unit/test.h"

enum { STEPS_MAX = 10 };

static uint64_t state = 20261124;

struct example {
    struct eps_job job;
    double rows[STEPS_MAX * STEPS_MAX], first[STEPS_MAX];
    size_t n;
    bool toeplitz;
};

static void random_example(struct example *example, size_t n, size_t bands, size_t separation, bool toeplitz)
{
    eps_job_init(&example->job);
    memset(example->rows, 0, sizeof example->rows);
    for (size_t d = 0; d < n; d++)
        example->first[d] = d < bands ? 0.1 + draw_unit(&state) : 0;
    for (size_t i = 0; i < n; i++)
        for (size_t d = 0; d < bands && d <= i; d++) {
            double entry = d == 0 || d + 1 == bands || draw_below(&state, 4) ? 0.1 + draw_unit(&state) : 0;
            example->rows[i * n + i - d] = toeplitz ? example->first[d] : entry;
        }
    example->n = n;
    example->toeplitz = toeplitz;
    example->job.mechanism.n = n;
    example->job.mechanism.matrix = (struct eps_matrix){.family = toeplitz ? EPS_FAMILY_TOEPLITZ : EPS_FAMILY_DENSE,
                                                        .normalization = EPS_NORMALIZATION_NONE,
                                                        .stamps = 1,
                                                        .rows = toeplitz ? NULL : example->rows,
                                                        .rows_n = toeplitz ? 0 : n,
                                                        .coefficients = toeplitz ? example->first : NULL,
                                                        .coefficients_len = toeplitz ? bands : 0};
    struct eps_sampling *sampling = &example->job.mechanism.sampling;
    sampling->scheme = EPS_SCHEME_B_MIN_SEP;
    sampling->separation = separation;
    sampling->p = draw_below(&state, 6) ? 0.02 + 0.98 * draw_unit(&state) : 1;
    sampling->warm_start = draw_below(&state, 2) == 0;
    if (!sampling->warm_start)
        sampling->examples_per_user = 1 + draw_below(&state, 3);
    example->job.query.epsilon = 1;
    example->job.query.noise_multiplier = 1;
    eps_job_defaults(&example->job);
}

/* ------------------------------------------------------------ the definition */

/* The sums over all patterns, at y in units of sigma. */
struct sums {
    long double ratio, alone;            /* of N(C x)/N(0), and without the products of different columns */
    long double square, mean[STEPS_MAX]; /* E |h x|^2, E h x */
};

struct walk {
    const struct example *example;
    const double *y;
    double sigma;
    double x[STEPS_MAX];
    struct sums *sums;
};

static void take(const struct walk *walk, long double weight)
{
    size_t n = walk->example->n;
    long double product = 0, square = 0, alone = 0;
    for (size_t r = 0; r < n; r++) {
        long double row = 0;
        for (size_t i = 0; i <= r; i++) {
            long double entry = walk->x[i] * walk->example->rows[r * n + i] / walk->sigma;
            row += entry;
            alone += entry * entry;
        }
        product += row * walk->y[r];
        square += row * row;
        walk->sums->mean[r] += weight * row;
    }
    walk->sums->square += weight * square;
    walk->sums->ratio += weight * expl(product - square / 2);
    walk->sums->alone += weight * expl(product - alone / 2);
}

static void follow(struct walk *walk, size_t step, size_t barred, long double weight)
{
    const struct eps_sampling *sampling = &walk->example->job.mechanism.sampling;
    size_t k = sampling->examples_per_user;
    if (weight == 0)
        return;
    if (step >= walk->example->n) {
        take(walk, weight);
        return;
    }
    walk->x[step] = 0;
    if (barred > 0) {
        follow(walk, step + 1, barred - 1, weight);
        return;
    }
    for (size_t j = 0; j <= k; j++) {
        long double chance = 1;
        for (size_t i = 0; i < k; i++)
            chance *= i < j ? sampling->p * (long double)(k - i) / (i + 1) : 1 - (long double)sampling->p;
        walk->x[step] = (double)j;
        follow(walk, step + 1, j > 0 ? sampling->separation - 1 : 0, weight * chance);
    }
    walk->x[step] = 0;
}

static struct sums sums_of(const struct example *example, const double *y, double sigma)
{
    const struct eps_sampling *sampling = &example->job.mechanism.sampling;
    struct sums sums = {0};
    struct walk walk = {.example = example, .y = y, .sigma = sigma, .sums = &sums};
    long double first = 1 / (1 + (double)(sampling->separation - 1) * (long double)sampling->p);
    follow(&walk, 0, 0, sampling->warm_start ? first : 1);
    for (size_t r = 1; sampling->warm_start && r < sampling->separation; r++)
        follow(&walk, 0, r, first * sampling->p);
    return sums;
}

/* ------------------------------------------------------------ remove */

static void open_law(struct eps__mc_law **law, struct eps__setting *setting, const struct example *example,
                     double sigma, enum eps_direction direction)
{
    struct eps_error error = {0};
    struct eps__mc_aim aim = {.sigma = sigma, .direction = direction};
    if (eps__setting_open(setting, &error, NULL, &example->job) != EPS_OK)
        fail_msg("%s: %s", error.pointer, error.message);
    eps__setting_as_asked(setting);
    const struct eps__mc_law_class *class = eps__mc_law_class_of(&example->job.mechanism);
    assert_true(class->serves(setting, &error));
    assert_int_equal(class->open(law, setting, &aim), EPS_OK);
}

static void hold_remove(const struct example *example, double sigma, size_t bands, double *apart)
{
    struct eps__setting setting;
    struct eps__mc_law *law;
    struct eps__stream stream = {.key = {7, (uint32_t)draw_below(&state, 1000)}, .chunk = 3};
    const struct eps_sampling *sampling = &example->job.mechanism.sampling;
    struct eps__b_min_sep_steps steps = {.n = example->n,
                                         .separation = sampling->separation,
                                         .p = sampling->p,
                                         .examples = (unsigned)sampling->examples_per_user,
                                         .warm = sampling->warm_start};
    double loss[EPS__LANES], weight[EPS__LANES], z[(STEPS_MAX + 2) * EPS__LANES];
    open_law(&law, &setting, example, sigma, EPS_REMOVE);
    const struct eps__mc_law_class *class = law->class;
    assert_int_equal(class->exact(&setting), bands <= sampling->separation);
    double *scratch = malloc(law->scratch * sizeof *scratch);
    class->draw(law, &stream, 16, scratch, loss, weight);
    eps__b_min_sep_steps_fill(&steps);
    eps__normals(z, &stream, 16, 0, example->n + example->n % 2);
    for (uint32_t lane = 0; lane < EPS__LANES; lane++) {
        struct eps__participated taken[STEPS_MAX];
        double y[STEPS_MAX];
        size_t len = eps__b_min_sep_draw(taken, &steps, &stream, 16 + lane);
        for (size_t i = 0; i < example->n; i++) {
            y[i] = z[i * EPS__LANES + lane];
            for (size_t t = 0; t < len; t++)
                if (taken[t].step <= i)
                    y[i] += taken[t].examples * example->rows[i * example->n + taken[t].step] / sigma;
        }
        struct sums sums = sums_of(example, y, sigma);
        if (!(fabsl(loss[lane] - logl(sums.alone)) <= law->loss_error))
            fail_msg("n %zu sigma %g p %g: %.17g, not %.17Lg", example->n, sigma, sampling->p, loss[lane],
                     logl(sums.alone));
        assert_true(loss[lane] + law->loss_error >= logl(sums.ratio));
        if (bands <= sampling->separation)
            assert_true(loss[lane] - law->loss_error <= logl(sums.ratio));
        *apart = fmax(*apart, loss[lane] - (double)logl(sums.ratio));
    }
    assert_true(law->loss_error < 1e-11 * (1 + 20 / (sigma * sigma)) * (double)example->n);
    free(scratch);
    class->destroy(law);
    eps__setting_close(&setting);
}

TEST(whole_columns_are_over_the_ratio)
{
    struct example example;
    double apart = 0;
    for (int i = 0; i < 90; i++) {
        size_t n = 2 + draw_below(&state, STEPS_MAX - 2), bands = 1 + draw_below(&state, n);
        size_t separation = 1 + draw_below(&state, bands + 1);
        random_example(&example, n, bands, separation, i % 3 == 0);
        hold_remove(&example, draw_log(&state, 0.4, 5), bands, &apart);
    }
    assert_true(apart > 0.5); /* else nothing was left out */
}

/* ------------------------------------------------------------ add */

static struct eps__b_min_sep_minorant minorant_of(const struct example *example, double sigma)
{
    const struct eps_sampling *sampling = &example->job.mechanism.sampling;
    struct eps__setting setting;
    struct eps_error error = {0};
    struct eps__mc_columns columns;
    struct eps__b_min_sep_minorant minorant;
    struct eps__b_min_sep_steps steps = {.n = example->n,
                                         .separation = sampling->separation,
                                         .p = sampling->p,
                                         .examples = (unsigned)sampling->examples_per_user,
                                         .warm = sampling->warm_start};
    eps__b_min_sep_steps_fill(&steps);
    assert_int_equal(eps__setting_open(&setting, &error, NULL, &example->job), EPS_OK);
    eps__setting_as_asked(&setting);
    assert_int_equal(eps__mc_columns_make(&columns, &setting, sigma, steps.separation, steps.examples), EPS_OK);
    assert_int_equal(columns.stride == 0, example->toeplitz);
    assert_int_equal(eps__b_min_sep_minorant(&minorant, NULL, &columns, &steps), EPS_OK);
    eps__mc_columns_clear(&columns);
    eps__setting_close(&setting);
    return minorant;
}

/* ln of the minorant at the standard normal z */
static double log_minorant(const struct eps__b_min_sep_minorant *minorant, double z)
{
    return log(minorant->never + (1 - minorant->never) * exp(minorant->slope * z - minorant->level));
}

TEST(the_minorant_is_under_the_ratio)
{
    struct example example;
    double least = INFINITY;
    for (int i = 0; i < 80; i++) {
        size_t n = 2 + draw_below(&state, STEPS_MAX - 2), bands = 1 + draw_below(&state, n);
        double sigma = draw_log(&state, 0.4, 5), none[STEPS_MAX] = {0};
        random_example(&example, n, bands, 1 + draw_below(&state, bands + 1), i % 3 == 0);
        const struct eps_sampling *sampling = &example.job.mechanism.sampling;
        struct eps__b_min_sep_minorant minorant = minorant_of(&example, sigma);
        struct sums sums = sums_of(&example, none, sigma);
        double rest = 1 - minorant.never, norm = 0;
        for (size_t r = 0; r < n; r++)
            norm += (double)(sums.mean[r] * sums.mean[r]);
        norm = sqrt(norm);
        assert_true(fabs(minorant.level * rest - (double)sums.square / 2) <= minorant.level_error);
        assert_true(fabs(minorant.slope * rest - norm) <= minorant.slope_error);
        assert_true(minorant.level_error <= 1e-11 * minorant.level && minorant.slope_error <= 1e-11 * minorant.slope);
        double never = pow(1 - sampling->p, (double)(n * sampling->examples_per_user));
        assert_true(minorant.never <= never && minorant.never >= never - 0x1p-29);
        for (int j = 0; j < 20; j++) {
            double y[STEPS_MAX], z = 0;
            for (size_t r = 0; r < n; r++) {
                y[r] = draw_between(&state, -4, 4);
                z += (double)sums.mean[r] * y[r] / norm;
            }
            double over = (double)logl(sums_of(&example, y, sigma).ratio) - log_minorant(&minorant, z);
            assert_true(over >= -1e-11 * (1 + minorant.level));
            least = fmin(least, over);
        }
    }
    assert_true(least < 0.01); /* it is near where little happens */
}

/* The law's draws: the minorant at a standard normal, and delta in closed form. */
TEST(a_draw_is_one_normal)
{
    enum { DRAWS = 65536 };
    for (int i = 0; i < 6; i++) {
        struct example example;
        struct eps__setting setting;
        struct eps__mc_law *law;
        double sum = 0, squares = 0, eps = 0.2, scratch[4 * EPS__LANES];
        random_example(&example, 6, 5, 2, i % 2 == 0);
        example.job.mechanism.sampling.p = 0.3 + 0.1 * i; /* at 0.8 and 12 steps or more nothing is left of `never` */
        struct eps__b_min_sep_minorant minorant = minorant_of(&example, 1.5);
        open_law(&law, &setting, &example, 1.5, EPS_ADD);
        assert_true(law->scratch <= sizeof scratch / sizeof *scratch);
        for (uint32_t draw = 0; draw < DRAWS; draw += EPS__LANES) {
            struct eps__stream stream = {.key = {3, 4}, .chunk = 0};
            double loss[EPS__LANES], weight[EPS__LANES], z[2 * EPS__LANES];
            law->class->draw(law, &stream, draw, scratch, loss, weight);
            eps__normals(z, &stream, draw, 0, 2);
            for (size_t lane = 0; lane < EPS__LANES; lane++) {
                double value = fmax(-expm1(eps - loss[lane]), 0);
                assert_true(fabs(loss[lane] + log_minorant(&minorant, z[lane])) <= law->loss_error);
                assert_true(weight[lane] == 0);
                sum += value;
                squares += value * value;
            }
        }
        /* (1 - e^eps (never + rest e^(slope z - level)))_+ */
        double a = 1 - exp(eps) * minorant.never, b = exp(eps) * (1 - minorant.never), delta = 0;
        if (a > 0) {
            double h = (log(a / b) + minorant.level) / minorant.slope;
            delta = a * 0.5 * erfc(-h * M_SQRT1_2) - b * exp(0.5 * minorant.slope * minorant.slope - minorant.level) *
                                                         0.5 * erfc((minorant.slope - h) * M_SQRT1_2);
        }
        double mean = sum / DRAWS, error = sqrt((squares / DRAWS - mean * mean) / DRAWS);
        assert_true(delta > 1e-3 && fabs(mean - delta) <= 4 * error);
        assert_true(law->loss_error < 1e-12 * (1 + minorant.level));
        eps__mc_law_class_of(&example.job.mechanism)->destroy(law); /* also through the table's row */
        eps__setting_close(&setting);
    }
}
