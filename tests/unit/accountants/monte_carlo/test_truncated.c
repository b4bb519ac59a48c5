/*
 * Draws under b-min-sep sampling with truncated batches: each loss compared with sums over all patterns at the same y
 * and counts, the counts with those of examples one by one, and means with a quadrature of the definition and with the
 * accountant of truncated Poisson sampling.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/accountants/monte_carlo/law.h"
#include "lib/numerics/binomial.h"
#include "lib/sampling/counts.h"
#include "lib/job/setting.h"
#include "tests/unit/draw.h"
#include "tests/unit/solved.h"
#include "tests/unit/exact.h"
#include "tests/unit/test.h"

enum { STEPS_MAX = 8, OTHERS_MAX = 5 };

static uint64_t state = 20261122;

struct example {
    struct eps_job job;
    double rows[STEPS_MAX * STEPS_MAX];
    size_t n;
};

static void fill(struct example *example, size_t n, size_t separation, double p, uint64_t dataset, uint64_t limit)
{
    example->n = n;
    example->job.mechanism.n = n;
    example->job.mechanism.adjacency = EPS_ADJACENCY_ZERO_OUT;
    example->job.mechanism.matrix = (struct eps_matrix){.family = EPS_FAMILY_DENSE,
                                                        .normalization = EPS_NORMALIZATION_NONE,
                                                        .stamps = 1,
                                                        .rows = example->rows,
                                                        .rows_n = n};
    example->job.mechanism.sampling.scheme = EPS_SCHEME_B_MIN_SEP;
    example->job.mechanism.sampling.separation = separation;
    example->job.mechanism.sampling.p = p;
    example->job.mechanism.sampling.dataset_size = dataset;
    example->job.mechanism.sampling.truncation = true;
    example->job.mechanism.sampling.max_batch_size = limit;
    example->job.query.epsilon = 1;
    example->job.query.noise_multiplier = 1;
}

static void random_example(struct example *example, size_t n, size_t bands)
{
    uint64_t dataset = 2 + draw_below(&state, OTHERS_MAX);
    eps_job_init(&example->job);
    memset(example->rows, 0, sizeof example->rows);
    for (size_t i = 0; i < n; i++)
        for (size_t d = 0; d < bands && d <= i; d++)
            example->rows[i * n + i - d] = d == 0 || draw_below(&state, 4) ? 0.1 + draw_unit(&state) : 0;
    fill(example, n, bands + draw_below(&state, 3), draw_below(&state, 5) ? 0.02 + 0.98 * draw_unit(&state) : 1,
         dataset, 1 + draw_below(&state, dataset));
    example->job.mechanism.sampling.warm_start = draw_below(&state, 2) == 0;
    eps_job_defaults(&example->job);
}

static struct eps__b_min_sep_steps steps_of(const struct example *example)
{
    const struct eps_sampling *sampling = &example->job.mechanism.sampling;
    struct eps__b_min_sep_steps steps = {.n = example->n,
                                         .separation = sampling->separation,
                                         .p = sampling->p,
                                         .examples = 1,
                                         .warm = sampling->warm_start};
    eps__b_min_sep_steps_fill(&steps);
    return steps;
}

/* ------------------------------------------------------------ the definition */

/* Which data set contains the example's gradient: the shift of a step in a batch that the others fill, and in another
 * batch. */
struct shifts {
    double full, open;
};
static const struct shifts with = {2, 1}, without = {-1, 0};

/* A sum over patterns. */
struct sum {
    const struct example *example;
    const struct shifts *shifts;
    const double *count, *y;
    double sigma, cx[STEPS_MAX]; /* C x so far */
};

/* The sum over all patterns that go on from this step, of weight times N(C x)/N(0) at y. */
static long double sum_from(struct sum *sum, size_t step, size_t barred, long double weight)
{
    const struct example *example = sum->example;
    const struct eps_sampling *sampling = &example->job.mechanism.sampling;
    const struct shifts *shifts = sum->shifts;
    const double *count = sum->count, *y = sum->y;
    double sigma = sum->sigma, *cx = sum->cx;
    size_t n = example->n;
    if (weight == 0)
        return 0;
    if (step == n) {
        long double exponent = 0;
        for (size_t i = 0; i < n; i++)
            exponent += (long double)cx[i] / sigma * (y[i] - 0.5L * cx[i] / sigma);
        return weight * expl(exponent);
    }
    if (barred > 0)
        return sum_from(sum, step + 1, barred - 1, weight);
    bool full = count[step] >= (double)sampling->max_batch_size;
    long double in = full ? sampling->max_batch_size / (count[step] + 1.0L) : 1;
    double shift = full ? shifts->full : shifts->open;
    size_t after = sampling->separation - 1;
    long double total = sum_from(sum, step + 1, 0, weight * (1 - (long double)sampling->p));
    total += sum_from(sum, step + 1, after, weight * sampling->p * (1 - in));
    for (size_t r = step; r < n; r++)
        cx[r] += shift * example->rows[r * n + step];
    total += sum_from(sum, step + 1, after, weight * sampling->p * in);
    for (size_t r = step; r < n; r++)
        cx[r] -= shift * example->rows[r * n + step];
    return total;
}

static long double over_noise(const struct example *example, const struct shifts *shifts, const double *count,
                              const double *y, double sigma)
{
    const struct eps_sampling *sampling = &example->job.mechanism.sampling;
    struct sum sum = {.example = example, .shifts = shifts, .count = count, .y = y, .sigma = sigma};
    double barred = (double)(sampling->separation - 1);
    if (!sampling->warm_start)
        return sum_from(&sum, 0, 0, 1);
    long double waits = 1 / (1 + barred * sampling->p), total = sum_from(&sum, 0, 0, waits);
    for (size_t r = 1; r < sampling->separation; r++)
        total += sum_from(&sum, 0, r, waits * sampling->p);
    return total;
}

/* ------------------------------------------------------------ a law at work */

struct opened {
    struct eps__setting setting;
    struct eps__mc_law *law;
    double *scratch;
};

static void open_law(struct opened *opened, const struct example *example, double sigma, enum eps_direction direction)
{
    struct eps_error error = {0};
    struct eps__mc_aim aim = {.sigma = sigma, .direction = direction};
    if (eps__setting_open(&opened->setting, &error, NULL, &example->job) != EPS_OK)
        fail_msg("%s: %s", error.pointer, error.message);
    eps__setting_as_asked(&opened->setting);
    const struct eps__mc_law_class *class = eps__mc_law_class_of(&example->job.mechanism);
    if (!class->serves(&opened->setting, &error))
        fail_msg("%s: %s", error.pointer, error.message);
    assert_int_equal(class->open(&opened->law, &opened->setting, &aim), EPS_OK);
    opened->scratch = malloc(opened->law->scratch * sizeof *opened->scratch);
}

static void close_law(struct opened *opened)
{
    free(opened->scratch);
    opened->law->class->destroy(opened->law);
    eps__setting_close(&opened->setting);
}

/* The mean of (1 - e^(eps - loss))_+, and of e^-loss, with their standard errors. */
struct means {
    double delta, delta_error, inverse, inverse_error;
};

static struct means mean_of(const struct example *example, double sigma, enum eps_direction direction, double eps,
                            size_t draws)
{
    struct opened opened;
    double sums[4] = {0};
    open_law(&opened, example, sigma, direction);
    for (uint32_t i = 0; i < draws; i += EPS__LANES) {
        struct eps__stream stream = {.key = {11, 12}, .chunk = i / 1024};
        double loss[EPS__LANES], weight[EPS__LANES];
        opened.law->class->draw(opened.law, &stream, i % 1024, opened.scratch, loss, weight);
        for (size_t lane = 0; lane < EPS__LANES; lane++) {
            double value = fmax(-expm1(eps - loss[lane]), 0), inverse = exp(-loss[lane]);
            sums[0] += value;
            sums[1] += value * value;
            sums[2] += inverse;
            sums[3] += inverse * inverse;
        }
    }
    close_law(&opened);
    double n = (double)draws;
    struct means means = {.delta = sums[0] / n, .inverse = sums[2] / n};
    means.delta_error = sqrt((sums[1] / n - means.delta * means.delta) / n);
    means.inverse_error = sqrt((sums[3] / n - means.inverse * means.inverse) / n);
    return means;
}

/* ------------------------------------------------------------ the tests */

/* Sixteen draws of the law, compared with the sums over all patterns. */
static void hold_losses(const struct example *example, double sigma, enum eps_direction direction, int *full)
{
    struct opened opened;
    const struct shifts *own = direction == EPS_REMOVE ? &with : &without;
    const struct eps_sampling *sampling = &example->job.mechanism.sampling;
    struct eps__stream stream = {.key = {7, (uint32_t)draw_below(&state, 1000)}, .chunk = 3};
    struct eps__b_min_sep_steps steps = steps_of(example);
    size_t n = example->n, base = 2 * eps__b_min_sep_steps_most(&steps) + 4;
    double loss[EPS__LANES], weight[EPS__LANES], z[(STEPS_MAX + 2) * EPS__LANES];
    open_law(&opened, example, sigma, direction);
    opened.law->class->draw(opened.law, &stream, 32, opened.scratch, loss, weight);
    eps__normals(z, &stream, 32, 0, n + n % 2);
    for (uint32_t lane = 0; lane < EPS__LANES; lane++) {
        struct eps__participated taken[STEPS_MAX];
        double y[STEPS_MAX], count[STEPS_MAX] = {0};
        size_t len = eps__b_min_sep_draw(taken, &steps, &stream, 32 + lane);
        if (sampling->max_batch_size < sampling->dataset_size)
            eps__b_min_sep_counts(count, 1, &steps, (double)(sampling->dataset_size - 1), &stream, 32 + lane, base + n);
        /* for add the law draws -C x + z as -(C x + z) */
        for (size_t i = 0; i < n; i++)
            y[i] = (direction == EPS_REMOVE ? 1 : -1) * z[i * EPS__LANES + lane];
        for (size_t t = 0; t < len; t++) {
            size_t step = taken[t].step;
            bool filled = count[step] >= (double)sampling->max_batch_size;
            bool in = !filled || eps__uniform(&stream, 32 + lane, base + step) <
                                     (double)sampling->max_batch_size / (count[step] + 1);
            *full += filled;
            for (size_t i = step; in && i < n; i++)
                y[i] += (filled ? own->full : own->open) * example->rows[i * n + step] / sigma;
        }
        long double truth =
            logl(over_noise(example, &with, count, y, sigma) / over_noise(example, &without, count, y, sigma));
        truth *= direction == EPS_REMOVE ? 1 : -1;
        if (!(fabsl(loss[lane] - truth) <= opened.law->loss_error))
            fail_msg("n %zu sigma %g p %g: %.17g, not %.17Lg, off by %Lg, not %g", n, sigma, sampling->p, loss[lane],
                     truth, loss[lane] - truth, opened.law->loss_error);
        assert_true(weight[lane] == 0);
    }
    assert_true(opened.law->loss_error < 1e-10 * (1 + 4 / (sigma * sigma)) * (double)n);
    close_law(&opened);
}

TEST(losses_are_those_of_all_patterns)
{
    struct example example;
    int full = 0;
    for (int i = 0; i < 80; i++) {
        size_t n = 2 + draw_below(&state, STEPS_MAX - 1);
        random_example(&example, n, 1 + draw_below(&state, n < 4 ? n : 4));
        double sigma = draw_log(&state, i < 60 ? 0.2 : 0.06, 5);
        hold_losses(&example, sigma, EPS_REMOVE, &full);
        hold_losses(&example, sigma, EPS_ADD, &full);
    }
    assert_true(full > 1000);
}

/* E [Q/P] = 1 under P, and E [P/Q] = 1 under Q: draws come from the law that the loss is computed for. */
TEST(draws_are_of_the_law)
{
    struct example example;
    for (int i = 0; i < 12; i++) {
        random_example(&example, 4, 1 + draw_below(&state, 3));
        for (enum eps_direction direction = EPS_REMOVE; direction <= EPS_ADD; direction++) {
            struct means means = mean_of(&example, 2.5, direction, 0.1, 20480);
            if (!(fabs(means.inverse - 1) <= 4.5 * means.inverse_error))
                fail_msg("%zu: %g, not 1, within %g", (size_t)direction, means.inverse, means.inverse_error);
        }
    }
}

/* The number of examples that are drawn at each step, each by its own pattern: ever[pattern] of the first `len`
 * steps. */
static double ways_of(const struct eps__b_min_sep_steps *steps, unsigned pattern)
{
    double barred = (double)(steps->separation - 1), total = 0;
    for (size_t start = 0; start < (steps->warm ? steps->separation : 1); start++) {
        double chance = steps->warm ? (start > 0 ? steps->p : 1) / (1 + barred * steps->p) : 1;
        size_t left = start;
        for (size_t i = 0; i < steps->n; i++) {
            bool drawn = pattern >> i & 1;
            if (left > 0) {
                chance *= drawn ? 0 : 1;
                left--;
            } else {
                chance *= drawn ? steps->p : 1 - steps->p;
                left = drawn ? steps->separation - 1 : 0;
            }
        }
        total += chance;
    }
    return total;
}

enum { COUNTS_STEPS = 4, COUNTS_CELLS = 4 * 4 * 4 * 4 }; /* of three others, 0 to 3 a step */

/* The joint law of all counts, from the patterns of each example. */
static void law_of_counts(double *cells, const struct eps__b_min_sep_steps *steps, size_t others)
{
    memset(cells, 0, COUNTS_CELLS * sizeof *cells);
    cells[0] = 1;
    for (size_t example = 0; example < others; example++) {
        double next[COUNTS_CELLS] = {0};
        for (unsigned pattern = 0; pattern < 1u << steps->n; pattern++) {
            double chance = ways_of(steps, pattern);
            size_t up = 0;
            for (size_t i = 0; i < steps->n; i++)
                up += (pattern >> i & 1) << 2 * i;
            for (size_t c = 0; c + up < COUNTS_CELLS; c++)
                next[c + up] += cells[c] * chance;
        }
        memcpy(cells, next, sizeof next);
    }
}

TEST(counts_are_those_of_examples)
{
    enum { DRAWS = 60000 };
    for (int i = 0; i < 8; i++) {
        struct eps__b_min_sep_steps steps = {.n = COUNTS_STEPS,
                                             .separation = 1 + draw_below(&state, 6),
                                             .p = i == 7 ? 1 : 0.1 + 0.8 * draw_unit(&state),
                                             .examples = 1,
                                             .warm = i % 2 == 0};
        double cells[COUNTS_CELLS], seen[COUNTS_CELLS] = {0}, total = 0;
        struct eps__stream stream = {.key = {(uint32_t)i, 9}, .chunk = 0};
        eps__b_min_sep_steps_fill(&steps);
        law_of_counts(cells, &steps, 3);
        for (uint32_t draw = 0; draw < DRAWS; draw++) {
            double count[COUNTS_STEPS];
            size_t cell = 0;
            eps__b_min_sep_counts(count, 1, &steps, 3, &stream, draw, 5);
            for (size_t s = 0; s < COUNTS_STEPS; s++)
                cell += (size_t)count[s] << 2 * s;
            seen[cell]++;
        }
        for (size_t c = 0; c < COUNTS_CELLS; c++) {
            total += cells[c];
            if (!(fabs(seen[c] - DRAWS * cells[c]) <= 4.8 * sqrt(DRAWS * cells[c] * (1 - cells[c])) + 3))
                fail_msg("p %g b %zu warm %d cell %zu: %g, not %g", steps.p, steps.separation, steps.warm, c, seen[c],
                         DRAWS * cells[c]);
        }
        assert_true(fabs(total - 1) < 1e-12);
    }
}

/* Evenly spaced uniforms: each number comes as often as its probability demands, but for two of them. */
TEST(binomial_numbers_have_their_probabilities)
{
    enum { POINTS = 200000, FIRST = 3000 };
    static const struct {
        double size, p;
    } laws[] = {{1, 0.3},     {5, 0.9},       {17, 0.02},          {60, 0.5},       {3000, 0.999},
                {15, 0.0666}, {100000, 1e-4}, {14745599, 1.25e-4}, {0x1p40, 1e-10}, {20000, 0.03}};
    for (size_t l = 0; l < sizeof laws / sizeof *laws; l++) {
        double mean = laws[l].size * laws[l].p, low = fmax(floor(mean) - FIRST / 2, 0);
        static double seen[FIRST];
        memset(seen, 0, sizeof seen);
        for (int i = 0; i < POINTS; i++) {
            double k, u = (i + 0.5) / POINTS;
            if (!eps__binomial_of(&k, laws[l].size, laws[l].p, u))
                k = eps__binomial_closely(laws[l].size, laws[l].p, u, 0.5);
            assert_true(k >= 0 && k <= laws[l].size && k >= low && k < low + FIRST);
            seen[(size_t)(k - low)]++;
        }
        for (size_t k = 0; k < FIRST; k++) {
            double chance = exp(eps__binomial_log_pmf((uint64_t)laws[l].size, laws[l].p, (uint64_t)low + k));
            assert_true(fabs(seen[k] - POINTS * chance) <= 2);
        }
    }
    double k;
    assert_true(eps__binomial_of(&k, 7, 1, 0.5) && k == 7 && eps__binomial_of(&k, 0, 0.5, 0.5) && k == 0);
}

/* S8: uniforms near the sums of probabilities at which the number changes, which another formula computes. */
TEST(rounding_decides_no_binomial_number)
{
    static const struct {
        double size;
        eps__quad p;
    } laws[] = {{1, 0.3},        {5, 0.9},      {17, 0.02},     {60, 0.5},
                {3000, 0.999},   {15, 0.0666},  {100000, 1e-4}, {14745599, 1.25e-4},
                {0x1p40, 1e-10}, {20000, 0.03}, {2, 0x1p-70L},  {3000, 1 - 0x1p-70L}};
    unsigned doubts = 0;
    for (size_t l = 0; l < sizeof laws / sizeof *laws; l++) {
        eps__quad size = laws[l].size, p = laws[l].p, sum = 0;
        double mode = fmin(floor((laws[l].size + 1) * (double)p), laws[l].size), last = mode;
        for (double turn = 0; turn < 400 && sum < 1 - (eps__quad)1e-9; turn++) {
            double k = fmod(turn, 2) == 0 ? mode - turn / 2 : mode + (turn + 1) / 2;
            if (k < 0 || k > laws[l].size)
                continue;
            eps__quad x = k, rest = size - x;
            if (sum > 0)
                for (int move = -3; move <= 3; move++) {
                    /* the cell of the uniform that holds the sum, and cells beside it */
                    double u = (floor((double)sum * 0x1p52) + move + 0.5) * 0x1p-52, found;
                    if (!(u > 0 && u < 1))
                        continue;
                    bool told = eps__binomial_of(&found, laws[l].size, p, u);
                    for (double v = 0.01; v < 1; v += 0.07) {
                        eps__quad exact = u + (v - 0.5) * (eps__quad)0x1p-52;
                        double closely = eps__binomial_closely(laws[l].size, p, u, v);
                        if (fabsq(exact - sum) > 1e-18L)
                            assert_true(exact < sum ? closely != k : closely != last);
                        assert_true(!told || found == closely);
                    }
                    doubts += !told;
                }
            sum += expq(lgammaq(size + 1) - lgammaq(x + 1) - lgammaq(rest + 1) + x * logq(p) + rest * log1pq(-p));
            last = k;
        }
    }
    assert_true(doubts > 1000);
}

/* delta of the definition for two steps: all counts of the others, and y on a grid. */
static double grid_delta(const struct example *example, double sigma, enum eps_direction direction, double eps)
{
    enum { SIDE = 130 };
    const struct eps_sampling *sampling = &example->job.mechanism.sampling;
    struct eps__b_min_sep_steps steps = steps_of(example);
    double cells[COUNTS_CELLS], width = 20.0 / SIDE, total = 0;
    law_of_counts(cells, &steps, (size_t)sampling->dataset_size - 1);
    for (size_t c = 0; c < 16; c++)
        for (size_t k = 0; cells[c] > 0 && k < (size_t)SIDE * SIDE; k++) {
            double count[2] = {(double)(c & 3), (double)(c >> 2)};
            double y[2] = {-10 + width * ((double)(k % SIDE) + 0.5), -10 + width * ((double)(k / SIDE) + 0.5)};
            long double p = over_noise(example, &with, count, y, sigma),
                        q = over_noise(example, &without, count, y, sigma);
            long double excess = direction == EPS_REMOVE ? p - expl(eps) * q : q - expl(eps) * p;
            if (excess > 0)
                total += cells[c] * (double)excess * exp(-0.5 * (y[0] * y[0] + y[1] * y[1]));
        }
    return total * width * width / (2 * M_PI);
}

TEST(means_are_those_of_the_definition)
{
    for (int i = 0; i < 4; i++) {
        struct example example = {.rows = {0.9, 0, i % 2 ? 0.6 : 0, 0.8}};
        eps_job_init(&example.job);
        fill(&example, 2, (size_t)(i % 2) + 1, 0.4 + 0.15 * i, 3 + (uint64_t)(i > 1), 1 + (uint64_t)(i == 3));
        example.job.mechanism.sampling.warm_start = i > 0;
        eps_job_defaults(&example.job);
        for (enum eps_direction direction = EPS_REMOVE; direction <= EPS_ADD; direction++) {
            struct means means = mean_of(&example, 0.8, direction, 0.5, 65536);
            double truth = grid_delta(&example, 0.8, direction, 0.5);
            assert_true(truth > 0.05);
            if (!(fabs(means.delta - truth) <= 4 * means.delta_error + 1e-3 * truth))
                fail_msg("%d: %g, not %g, within %g", i, means.delta, truth, means.delta_error);
        }
    }
}

/* Separation 1 is truncated Poisson sampling. Its accountant shows only whether the others fill a batch, and uses
 * another pair where that is better: its delta is at most ours, and equal where the others hardly ever fill a batch and
 * do so in one way only. */
TEST(separation_one_is_poisson)
{
    for (uint64_t limit = 3; limit <= 5; limit++) {
        struct example example = {.rows = {1, 0, 0, 0, 1, 0, 0, 0, 1}};
        double known[EPS_DIRECTIONS];
        eps_job_init(&example.job);
        fill(&example, 3, 1, 0.3, 6, limit);
        struct eps_job other = example.job;
        eps_job_defaults(&example.job);
        other.mechanism.sampling.scheme = EPS_SCHEME_POISSON;
        other.mechanism.sampling.separation = 0;
        other.mechanism.matrix = (struct eps_matrix){
            .family = EPS_FAMILY_IDENTITY, .normalization = EPS_NORMALIZATION_MAX_COLUMN, .stamps = 1};
        other.query.accountant.method = EPS_ACCOUNTANT_PLD;
        eps_job_defaults(&other);
        solved_deltas(known, other, 1, 0.4);
        for (enum eps_direction direction = EPS_REMOVE; direction <= EPS_ADD; direction++) {
            struct means means = mean_of(&example, 1, direction, 0.4, 65536);
            double off = means.delta - known[direction];
            if (!(off >= -4 * means.delta_error &&
                  off <= 4 * means.delta_error + (limit < 5 ? 0.3 : 0) * known[direction]))
                fail_msg("limit %zu: %g, not %g, within %g", (size_t)limit, means.delta, known[direction],
                         means.delta_error);
        }
    }
}

TEST(a_limit_of_all_is_none)
{
    for (int i = 0; i < 10; i++) {
        struct example example;
        random_example(&example, 6, 1 + draw_below(&state, 3));
        example.job.mechanism.sampling.max_batch_size = example.job.mechanism.sampling.dataset_size + (uint64_t)(i % 2);
        for (enum eps_direction direction = EPS_REMOVE; direction <= EPS_ADD; direction++) {
            struct opened opened;
            double loss[2][EPS__LANES], weight[EPS__LANES], error = 0;
            for (int plain = 0; plain < 2; plain++) {
                /* for add the sign of the noise is reversed: the mean is compared, not a draw */
                example.job.mechanism.sampling.truncation = !plain;
                if (direction == EPS_REMOVE) {
                    open_law(&opened, &example, 0.7, direction);
                    struct eps__stream stream = {.key = {1, 2}, .chunk = 3};
                    opened.law->class->draw(opened.law, &stream, 0, opened.scratch, loss[plain], weight);
                    error += opened.law->loss_error;
                    close_law(&opened);
                } else {
                    struct means means = mean_of(&example, 0.7, direction, 0.2, 16384);
                    loss[plain][0] = means.delta;
                    error += 3 * means.delta_error;
                }
                example.job.mechanism.sampling.truncation = true;
            }
            for (size_t lane = 0; lane < (direction == EPS_REMOVE ? EPS__LANES : 1); lane++)
                assert_true(fabs(loss[0][lane] - loss[1][lane]) <= error);
        }
    }
}

TEST(what_is_not_derived_is_declined)
{
    struct example example = {.rows = {1, 0, 0, 1, 1, 0, 0, 1, 1}};
    struct eps_error error = {0};
    struct eps__setting setting;
    eps_job_init(&example.job);
    fill(&example, 3, 2, 0.3, 6, 2);
    eps_job_defaults(&example.job);
    struct eps__mc_aim aim = {.sigma = 1, .tilted = true, .eps = 1};
    struct eps__mc_law *law;
    for (enum eps_adjacency adjacency = 0; adjacency < EPS_ADJACENCY_COUNT; adjacency++)
        for (size_t separation = 1; separation <= 2; separation++) {
            example.job.mechanism.adjacency = adjacency;
            example.job.mechanism.sampling.separation = separation;
            assert_int_equal(eps__setting_open(&setting, &error, NULL, &example.job), EPS_OK);
            eps__setting_as_asked(&setting);
            const struct eps__mc_law_class *class = eps__mc_law_class_of(&example.job.mechanism);
            assert_ptr_equal(class, &eps__mc_truncated);
            bool known = adjacency == EPS_ADJACENCY_ZERO_OUT && separation == 2;
            assert_int_equal(class->serves(&setting, &error), known);
            if (!known)
                assert_string_equal(error.pointer,
                                    adjacency == EPS_ADJACENCY_ZERO_OUT ? "/sampling/separation" : "/adjacency");
            else
                assert_int_equal(class->open(&law, &setting, &aim), EPS_UNSUPPORTED);
            assert_false(known && class->exact(&setting));
            eps__setting_close(&setting);
        }
}
