/*
 * Tilted draws of b-min-sep sampling: their means compared with those of plain draws and with exact answers, their
 * values with the claimed bound, and how many fewer of them suffice.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/accountants/monte_carlo/guarantee.h"
#include "lib/accountants/monte_carlo/law.h"
#include "lib/moments/laws/b_min_sep_draws.h"
#include "lib/moments/laws/histories_draws.h"
#include "lib/job/setting.h"
#include "tests/truth/mechanism.h"
#include "tests/unit/draw.h"
#include "tests/unit/solved.h"
#include "tests/unit/test.h"

enum { CHUNK = 1024 };

static const uint64_t seed = 20261122;

/* Scheme b_min_sep, a cold start. */
static struct eps_job b_min_sep_job(size_t n, double p, size_t separation, const double *column, size_t len)
{
    struct eps_job job;
    eps_job_init(&job);
    job.mechanism.n = n;
    job.mechanism.matrix.family = EPS_FAMILY_TOEPLITZ;
    job.mechanism.matrix.normalization = EPS_NORMALIZATION_NONE;
    job.mechanism.matrix.coefficients = column;
    job.mechanism.matrix.coefficients_len = len;
    job.mechanism.sampling.scheme = EPS_SCHEME_B_MIN_SEP;
    job.mechanism.sampling.p = p;
    job.mechanism.sampling.separation = separation;
    job.query.accountant.method = EPS_ACCOUNTANT_RENYI;
    job.query.noise_multiplier = job.query.epsilon = 1;
    eps_job_defaults(&job);
    job.mechanism.sampling.warm_start = false;
    return job;
}

/* ------------------------------------------------------------ copies that are drawn together */

enum { STEPS_MAX = 6, PATTERNS_MAX = 1 << STEPS_MAX, COPIES = 4, KEYS = 1 << 2 * STEPS_MAX };

/* All patterns of one example, bit i for step i, and their probabilities. */
static size_t patterns_of(unsigned *patterns, double *weights, const struct eps__b_min_sep *b_min_sep)
{
    size_t n = b_min_sep->banded.len, b = b_min_sep->separation, len = 0;
    double p = b_min_sep->banded.p, waits = b_min_sep->warm ? 1 / (1 + (double)(b - 1) * p) : 1;
    for (unsigned pattern = 0; pattern < 1u << n; pattern++) {
        double weight = 0;
        for (size_t first = 0; first < (b_min_sep->warm ? b : 1); first++) { /* the first step at which it waits */
            double own = first > 0 ? p * waits : waits;
            for (size_t i = 0, free = first; i < n; i++) {
                bool taken = pattern >> i & 1;
                if (i < free)
                    own *= taken ? 0 : 1;
                else
                    own *= taken ? p : 1 - p;
                if (taken)
                    free = i + b;
            }
            weight += own;
        }
        if (weight > 0) {
            patterns[len] = pattern;
            weights[len++] = weight;
        }
    }
    return len;
}

/* The law of the number of copies that take each step, two bits a step; returns Z. */
static double law_of(double *law, const struct eps__b_min_sep *b_min_sep, unsigned copies)
{
    unsigned patterns[PATTERNS_MAX];
    double weights[PATTERNS_MAX], z = 0;
    size_t len = patterns_of(patterns, weights, b_min_sep), tuple[COPIES] = {0}, n = b_min_sep->banded.len;
    memset(law, 0, KEYS * sizeof *law);
    for (bool more = true; more;) {
        double weight = 1, exponent = 0;
        unsigned key = 0;
        for (unsigned c = 0; c < copies; c++) {
            weight *= weights[tuple[c]];
            for (size_t i = 0; i < n; i++) {
                bool taken = patterns[tuple[c]] >> i & 1;
                key += taken ? 1u << 2 * i : 0;
                for (unsigned e = 0; taken && e < c; e++)
                    for (size_t j = 0; j < n; j++) {
                        size_t d = i > j ? i - j : j - i, row = i > j ? i : j;
                        if (d < b_min_sep->banded.width && patterns[tuple[e]] >> j & 1)
                            exponent += b_min_sep->banded.gram[row * b_min_sep->banded.width + d];
                    }
            }
        }
        law[key] += weight * exp(exponent);
        z += weight * exp(exponent);
        more = false;
        for (unsigned c = 0; c < copies && !more; c++) {
            tuple[c] = (tuple[c] + 1) % len;
            more = tuple[c] > 0;
        }
    }
    return z;
}

typedef size_t next_draw(struct eps__participated *out, const void *draws, const struct eps__stream *stream,
                         uint32_t draw);

static size_t next_of_stages(struct eps__participated *out, const void *draws, const struct eps__stream *stream,
                             uint32_t draw)
{
    return eps__b_min_sep_draws_next(out, draws, stream, draw);
}

static size_t next_of_histories(struct eps__participated *out, const void *draws, const struct eps__stream *stream,
                                uint32_t draw)
{
    return eps__histories_draws_next(out, draws, stream, draw);
}

/* Many draws compared with their law: the sum of squares over the outcomes that are expected often has the right
 * size. */
static void assert_drawn(next_draw *next, const void *draws, size_t most, const double *law, double z, int trial)
{
    static double seen[KEYS];
    struct eps__participated out[COPIES * STEPS_MAX];
    const size_t chunks = 24;
    double total = (double)(chunks * CHUNK), square = 0, kept = 0, rare = 0, expected_rare = 0;
    memset(seen, 0, sizeof seen);
    for (size_t chunk = 0; chunk < chunks; chunk++)
        for (uint32_t draw = 0; draw < CHUNK; draw++) {
            struct eps__stream stream = {.key = {(uint32_t)trial, (uint32_t)seed}, .chunk = chunk};
            size_t len = next(out, draws, &stream, draw);
            unsigned key = 0;
            assert_true(len <= most);
            for (size_t i = 0; i < len; i++) {
                assert_true(out[i].examples >= 1 && (i == 0 || out[i].step > out[i - 1].step));
                key += (unsigned)out[i].examples << 2 * out[i].step;
            }
            assert_true(law[key] > 0);
            seen[key]++;
        }
    for (size_t key = 0; key < KEYS; key++) {
        double expected = total * law[key] / z;
        if (expected < 10) {
            rare += seen[key];
            expected_rare += expected;
            continue;
        }
        square += (seen[key] - expected) * (seen[key] - expected) / expected;
        kept++;
    }
    if (!(square <= kept + 5 * sqrt(2 * kept) + 8 && fabs(rare - expected_rare) <= 5 * sqrt(expected_rare) + 8))
        fail_msg("%d: %g of %g, %g rare of %g", trial, square, kept, rare, expected_rare);
}

TEST(copies_are_drawn_by_their_law)
{
    static double law[KEYS];
    uint64_t state = seed;
    for (int trial = 0; trial < 40; trial++) {
        struct eps__b_min_sep b_min_sep = {.separation = 1 + draw_below(&state, 4), .examples = 1, .warm = trial % 2};
        unsigned copies = trial % 5 == 4 ? 3 : 2;
        size_t n = 1 + draw_below(&state, STEPS_MAX);
        b_min_sep.banded.len = n;
        b_min_sep.banded.width = 1 + draw_below(&state, b_min_sep.separation);
        b_min_sep.banded.p = trial % 7 == 3 ? 1 : draw_between(&state, 0.1, 0.8);
        b_min_sep.banded.gram = malloc(n * b_min_sep.banded.width * sizeof(double));
        assert_non_null(b_min_sep.banded.gram);
        for (size_t i = 0; i < n * b_min_sep.banded.width; i++)
            b_min_sep.banded.gram[i] = 1.5 * draw_unit(&state);
        struct eps__b_min_sep_draws *draws = NULL;
        assert_true(isfinite(eps__b_min_sep_draws_bytes(&b_min_sep, copies)));
        assert_int_equal(eps__b_min_sep_draws_make(NULL, &draws, &b_min_sep, copies, 0), EPS_OK);
        double z = law_of(law, &b_min_sep, copies);
        assert_true(draws->log_z_error < 1e-11 && draws->log_density_error < 1e-9);
        if (!(fabs(draws->log_z - log(z)) <= draws->log_z_error + 1e-13))
            fail_msg("%d: ln Z %.17g, not %.17g", trial, draws->log_z, log(z));
        assert_drawn(next_of_stages, draws, draws->most, law, z, trial);
        eps__b_min_sep_draws_free(draws);
        free(b_min_sep.banded.gram);
    }
}

/* The same where copies differ in their histories: any number of bands. */
TEST(histories_are_drawn_by_their_law)
{
    static double law[KEYS];
    uint64_t state = seed + 1;
    for (int trial = 0; trial < 40; trial++) {
        struct eps__b_min_sep b_min_sep = {
            .separation = trial % 2 ? 1 : 1 + draw_below(&state, 3), .examples = 1, .warm = trial % 4 == 2};
        unsigned copies = trial % 5 == 4 ? 3 : 2;
        size_t n = 1 + draw_below(&state, STEPS_MAX), width = b_min_sep.separation + draw_below(&state, 4);
        struct eps__banded_gram *banded = &b_min_sep.banded;
        *banded = (struct eps__banded_gram){.len = n, .width = width, .p = draw_between(&state, 0.1, 0.8)};
        banded->gram = malloc(n * width * sizeof(double));
        assert_non_null(banded->gram);
        for (size_t i = 0; i < n * width; i++)
            banded->gram[i] = draw_unit(&state);
        for (size_t i = 0; i < n; i = eps__banded_alike(banded, i))
            banded->changes++;
        const struct eps__histories histories = {
            .banded = banded, .separation = b_min_sep.separation, .warm = b_min_sep.warm};
        struct eps__histories_draws *draws = NULL;
        assert_true(isfinite(eps__histories_draws_bytes(&histories, copies)));
        assert_int_equal(eps__histories_draws_make(NULL, &draws, &histories, copies, 0), EPS_OK);
        double z = law_of(law, &b_min_sep, copies);
        assert_true(draws->log_z_error < 1e-11 && draws->log_density_error < 1e-9);
        if (!(fabs(draws->log_z - log(z)) <= draws->log_z_error + 1e-13))
            fail_msg("%d: ln Z %.17g, not %.17g", trial, draws->log_z, log(z));
        assert_drawn(next_of_histories, draws, draws->most, law, z, trial);
        eps__histories_draws_free(draws);
        free(banded->gram);
    }
}

/* Rows of equal steps are shared once the sums settle: Z is that of the sums in long double, and draws are those of
 * tables in which no two steps are equal. */
TEST(equal_steps_share_a_row)
{
    enum { LEN = 600, BANDS = 4, MOST = 400, DRAWS = 20000 };
    static double gram[LEN * BANDS];
    const double column[BANDS] = {1, 0.5, 0.375, 0.3125};
    for (int warm = 0; warm < 2; warm++) {
        struct eps__b_min_sep b_min_sep = {
            .banded = {.len = LEN, .width = BANDS, .p = 0.05, .gram = gram, .changes = BANDS},
            .separation = 5,
            .examples = 1,
            .warm = warm};
        struct eps__b_min_sep_draws *shared = NULL, *single = NULL;
        struct eps__participated out[2][MOST];
        eps__quad raw;
        double units, differ = 0;
        for (size_t i = 0; i < LEN; i++)
            for (size_t d = 0; d < BANDS; d++) {
                gram[i * BANDS + d] = 0;
                for (size_t r = 0; r + d < BANDS && i + r < LEN; r++)
                    gram[i * BANDS + d] += 0.7 * column[r] * column[r + d];
            }
        assert_int_equal(eps__b_min_sep_raw(NULL, &raw, &units, &b_min_sep, 3, EPS__PRECISION_LONG), EPS_OK);
        assert_int_equal(eps__b_min_sep_draws_make(NULL, &shared, &b_min_sep, 3, 0), EPS_OK);
        assert_true(shared->spread > 0 && shared->spread < 1e-10 && shared->row[0] < LEN / 2);
        assert_true(fabs(shared->log_z - (double)logq(raw)) <= shared->log_z_error);
        assert_true(shared->log_z_error > LEN * shared->spread && shared->log_density_error > shared->spread);
        for (size_t i = 1; i < LEN; i += 2)
            gram[i * BANDS] = nextafter(gram[i * BANDS], INFINITY);
        b_min_sep.banded.changes = LEN;
        assert_int_equal(eps__b_min_sep_draws_make(NULL, &single, &b_min_sep, 3, 0), EPS_OK);
        assert_true(single->spread == 0);
        assert_true(shared->most <= MOST);
        for (uint32_t draw = 0; draw < DRAWS; draw++) {
            struct eps__stream stream = {.key = {(uint32_t)warm, (uint32_t)seed}};
            size_t len[2] = {eps__b_min_sep_draws_next(out[0], shared, &stream, draw),
                             eps__b_min_sep_draws_next(out[1], single, &stream, draw)};
            differ += len[0] != len[1] || memcmp(out[0], out[1], len[0] * sizeof *out[0]) != 0;
        }
        assert_true(differ <= 2);
        eps__b_min_sep_draws_free(shared);
        eps__b_min_sep_draws_free(single);
    }
}

TEST(equal_steps_of_histories_share_a_row)
{
    enum { LEN = 600, BANDS = 4, DRAWS = 20000 };
    static double gram[LEN * BANDS];
    const double column[BANDS] = {1, 0.5, 0.375, 0.3125};
    for (size_t separation = 1; separation <= 3; separation += 2) {
        struct eps__banded_gram banded = {.len = LEN, .width = BANDS, .p = 0.03, .gram = gram, .changes = BANDS};
        const struct eps__histories histories = {.banded = &banded, .separation = separation, .warm = separation > 1};
        struct eps__histories_draws *shared = NULL, *single = NULL;
        static struct eps__participated out[2][LEN];
        eps__quad raw;
        double units, differ = 0;
        for (size_t i = 0; i < LEN; i++)
            for (size_t d = 0; d < BANDS; d++) {
                gram[i * BANDS + d] = 0;
                for (size_t r = 0; r + d < BANDS && i + r < LEN; r++)
                    gram[i * BANDS + d] += 0.4 * column[r] * column[r + d];
            }
        assert_int_equal(eps__histories_raw(NULL, &raw, &units, &histories, 3, EPS__PRECISION_QUAD), EPS_OK);
        assert_int_equal(eps__histories_draws_make(NULL, &shared, &histories, 3, 0), EPS_OK);
        assert_true(shared->spread > 0 && shared->spread < 1e-10 && shared->row[LEN / 3] < LEN / 2);
        assert_true(fabs(shared->log_z - (double)logq(raw)) <= shared->log_z_error);
        assert_true(shared->log_z_error > LEN * shared->spread && shared->log_density_error > shared->spread);
        for (size_t i = 1; i < LEN; i += 2)
            gram[i * BANDS] = nextafter(gram[i * BANDS], INFINITY);
        banded.changes = LEN;
        assert_int_equal(eps__histories_draws_make(NULL, &single, &histories, 3, 0), EPS_OK);
        assert_true(single->spread == 0);
        for (uint32_t draw = 0; draw < DRAWS; draw++) {
            struct eps__stream stream = {.key = {(uint32_t)separation, (uint32_t)seed}};
            size_t len[2] = {eps__histories_draws_next(out[0], shared, &stream, draw),
                             eps__histories_draws_next(out[1], single, &stream, draw)};
            differ += len[0] != len[1] || memcmp(out[0], out[1], len[0] * sizeof *out[0]) != 0;
        }
        assert_true(differ <= 2);
        eps__histories_draws_free(shared);
        eps__histories_draws_free(single);
    }
}

/* ------------------------------------------------------------ means */

/* The estimate of delta(eps) from draws. */
struct found {
    double mean, error, variance; /* its standard error; of one value */
    double most;                  /* the bound on a value */
    double largest;               /* and was */
    unsigned order;
};

static struct found draw_some(const struct eps_job *job, const struct eps__mc_aim *aim, size_t chunks)
{
    struct eps__setting setting;
    struct eps_error error;
    struct eps__mc_law *law = NULL;
    struct found found = {0};
    if (eps__setting_open(&setting, &error, NULL, job) != EPS_OK)
        fail_msg("%s: %s", error.pointer, error.message);
    eps__setting_as_asked(&setting);
    const struct eps__mc_law_class *class = eps__mc_law_class_of(&job->mechanism);
    assert_true(class && class->serves(&setting, &error));
    enum eps_status status = class->open(&law, &setting, aim);
    if (status == EPS_UNSUPPORTED && aim->tilted) {
        eps__setting_close(&setting);
        return (struct found){.most = 1};
    }
    assert_int_equal(status, EPS_OK);
    double *scratch = aligned_alloc(64, (law->scratch * sizeof(double) + 63) / 64 * 64);
    double loss[EPS__LANES], log_weight[EPS__LANES], sum = 0, squares = 0, draws = (double)(chunks * CHUNK);
    assert_non_null(scratch);
    found.most = class->log_most ? exp(class->log_most(law, aim->eps)) : 1;
    found.order = law->order;
    assert_true(law->tilted == aim->tilted && law->loss_error < 1e-7 && law->log_weight_error < 1e-6);
    for (size_t chunk = 0; chunk < chunks; chunk++) {
        struct eps__stream stream = {.key = {7, (uint32_t)seed}, .chunk = chunk};
        for (uint32_t first = 0; first < CHUNK; first += EPS__LANES) {
            class->draw(law, &stream, first, scratch, loss, log_weight);
            for (size_t lane = 0; lane < EPS__LANES; lane++) {
                double value = exp(log_weight[lane] + law->log_weight_error) *
                               fmax(-expm1(aim->eps - loss[lane] - law->loss_error), 0);
                if (!(value >= 0 && value <= found.most * (1 + 1e-12)))
                    fail_msg("%g over %g", value, found.most);
                found.largest = fmax(found.largest, value);
                sum += value;
                squares += value * value;
            }
        }
    }
    free(scratch);
    class->destroy(law);
    eps__setting_close(&setting);
    found.mean = sum / draws;
    found.variance = squares / draws - found.mean * found.mean;
    found.error = sqrt(found.variance / draws);
    return found;
}

/* Each of the two means is within four of their standard errors of the other. */
static void assert_agree(const struct found *a, const struct found *b, const char *what, int trial)
{
    double apart = fabs(a->mean - b->mean), allowed = 4 * hypot(a->error, b->error) + 1e-10 * a->mean;
    if (!(apart <= allowed))
        fail_msg("%s, %d: %g (%g), but %g (%g)", what, trial, a->mean, a->error, b->mean, b->error);
}

/* Random mechanisms, cold, warm, or with several examples of one user; with few draws only plain ones are compared. */
static void tilted_means_are_plain_means(enum eps_direction direction)
{
    int tried = 0;
    static const double column[] = {1, 0.5, 0.375, 0.3, 0.27};
    uint64_t state = seed;
    for (int trial = 0; trial < 12; trial++) {
        size_t n = 1 + draw_below(&state, 50), bands = 1 + draw_below(&state, n < 5 ? n : 5);
        struct eps_job job =
            b_min_sep_job(n, draw_between(&state, 0.05, 0.4), bands + draw_below(&state, 4), column, bands);
        job.mechanism.sampling.warm_start = trial % 3 == 1;
        if (trial % 3 == 2 && direction == EPS_ADD)
            job.mechanism.sampling.examples_per_user = 1 + draw_below(&state, 4);
        struct eps__mc_aim aim = {
            .sigma = draw_between(&state, 0.9, 2.2), .direction = direction, .eps = direction == EPS_ADD ? 0.3 : 1.5};
        struct found plain = draw_some(&job, &aim, 12);
        aim.tilted = true;
        struct found tilted = draw_some(&job, &aim, 6);
        plain.error =
            fmax(plain.error, sqrt(tilted.mean / (12 * CHUNK))); /* of values in [0, 1], none of which was above 0 */
        if (tilted.most < 1)
            assert_agree(&plain, &tilted, "plain and tilted", trial);
        tried += tilted.most < 1;
    }
    assert_true(tried >= 9);
}

TEST(removed_means_are_plain_means)
{
    tilted_means_are_plain_means(EPS_REMOVE);
}

TEST(added_means_are_plain_means)
{
    tilted_means_are_plain_means(EPS_ADD);
}

/* Few steps, by quadrature over all patterns. */
static void tilted_means_are_the_truth(enum eps_direction direction)
{
    static const double column[] = {1, 0.5, 0.375};
    const struct effort effort = {.samples = 2000, .quadrature_most = 3, .seed = seed, .floor = 1e-12L, .width = 1e-4L};
    uint64_t state = seed + 1;
    for (int trial = 0; trial < 9; trial++) {
        size_t n = 1 + (size_t)trial % 3, bands = 1 + draw_below(&state, n);
        struct eps_job job =
            b_min_sep_job(n, draw_between(&state, 0.05, 0.6), bands + draw_below(&state, 3), column, bands);
        job.mechanism.sampling.warm_start = trial / 3 == 1;
        if (trial / 3 == 2 && direction == EPS_ADD)
            job.mechanism.sampling.examples_per_user = 2;
        struct eps__mc_aim aim = {
            .sigma = draw_between(&state, 0.5, 1.5), .direction = direction, .tilted = true, .eps = 0.4};
        struct found tilted = draw_some(&job, &aim, 16);
        assert_true(tilted.most < 1);
        struct truth truth = truth_open(&job.mechanism);
        struct enclosure delta = truth_delta(&truth, direction, aim.eps, aim.sigma, &effort);
        truth_close(&truth);
        struct found exact = {.mean = (double)delta.lower, .error = (double)(delta.upper - delta.lower)};
        assert_agree(&tilted, &exact, "the truth", trial);
    }
}

TEST(removed_means_are_the_truth)
{
    tilted_means_are_the_truth(EPS_REMOVE);
}

TEST(added_means_are_the_truth)
{
    tilted_means_are_the_truth(EPS_ADD);
}

/* delta by pld, for Poisson sampling, or for balls in bins where draws are certain and the process has run for long. */
static double exact_delta_of(struct eps_job job, enum eps_direction direction, double sigma, double eps)
{
    double exact[EPS_DIRECTIONS];
    job.query.accountant.method = EPS_ACCOUNTANT_PLD;
    size_t separation = job.mechanism.sampling.separation;
    if (separation == 1)
        job.mechanism.sampling =
            (struct eps_sampling){.scheme = EPS_SCHEME_POISSON, .p = job.mechanism.sampling.p, .examples_per_user = 1};
    else
        job.mechanism.sampling = (struct eps_sampling){
            .scheme = EPS_SCHEME_BALLS_IN_BINS, .p = NAN, .bins = separation, .examples_per_user = 1};
    solved_deltas(exact, job, sigma, eps);
    return exact[direction];
}

/* Where delta is small, this share of the number of plain draws, or less, suffices, and the mean is the truth. */
static void fewer_are_needed(enum eps_direction direction, const double sigmas[2], const double epsilons[2],
                             double share)
{
    static const double one = 1;
    for (int trial = 0; trial < 4; trial++) {
        bool bins = trial / 2;
        struct eps_job job = bins ? b_min_sep_job(40, 1, 10, &one, 1) : b_min_sep_job(200, 0.1, 1, &one, 1);
        job.mechanism.sampling.warm_start = bins;
        struct eps__mc_aim aim = {
            .sigma = sigmas[bins], .direction = direction, .tilted = true, .eps = epsilons[bins] * (1 + trial % 2)};
        struct found tilted = draw_some(&job, &aim, 12);
        struct found exact = {.mean = exact_delta_of(job, direction, aim.sigma, aim.eps)};
        assert_agree(&tilted, &exact, "pld", trial);
        const struct eps__mc_promise promise = {exact.mean, NAN};
        double plain = (double)eps__mc_samples(&promise, 0.5 * exact.mean, 1);
        double needed = (double)eps__mc_samples(&promise, 0.5 * exact.mean, tilted.most);
        if (direction == EPS_REMOVE && !(tilted.largest >= 0.99 * tilted.most)) /* at e^(eps - loss) = 1 - 1/a */
            fail_msg("%d: %g under %g", trial, tilted.largest, tilted.most);
        if (!(tilted.error < 0.1 * tilted.mean && needed < (trial % 2 ? share : 1) * plain))
            fail_msg("%d, eps %g: %g +- %g, %g draws of %g", trial, aim.eps, tilted.mean, tilted.error, needed, plain);
    }
}

/* The bound on values is nearly attained: by certain draws, whose ln P/Q is linear, and by those of one step. */
TEST(added_values_reach_their_most)
{
    static const double column[] = {1, 0.5};
    for (int trial = 0; trial < 6; trial++) {
        bool certain = trial < 3;
        struct eps_job job = certain ? b_min_sep_job(4, 1, 1, column, 1) : b_min_sep_job(1, 0.5, 1, column, 1);
        if (trial == 2)
            job = b_min_sep_job(5, 1, 2, column, 2);
        job.mechanism.sampling.examples_per_user = trial == 1 ? 2 : 1;
        struct eps__mc_aim aim = {
            .sigma = certain ? 2 : 0.3 + 0.1 * trial, .direction = EPS_ADD, .tilted = true, .eps = certain ? 1.5 : 0.5};
        struct found tilted = draw_some(&job, &aim, 16);
        if (!(tilted.largest >= (certain ? 0.999 : 0.9) * tilted.most))
            fail_msg("%d: %g under %g", trial, tilted.largest, tilted.most);
    }
}

TEST(fewer_added_are_needed)
{
    fewer_are_needed(EPS_ADD, (const double[]){2, 1}, (const double[]){1.2, 1.2}, 0.3);
}

TEST(fewer_removed_are_needed)
{
    fewer_are_needed(EPS_REMOVE, (const double[]){2, 1}, (const double[]){1.5, 1.5}, 0.1);
}

/* There is no tilt for copies of a user with several examples, for tables that are too large, and for columns that may
 * meet. */
TEST(what_nobody_derived_is_not_tilted)
{
    static const double column[] = {1, 0.5};
    struct eps_job job = b_min_sep_job(20, 0.1, 3, column, 2);
    struct eps__mc_aim aim = {.sigma = 1, .direction = EPS_REMOVE, .tilted = true, .eps = 3};
    assert_true(draw_some(&job, &aim, 1).order >= 2);
    job.mechanism.sampling.examples_per_user = 2;
    assert_int_equal(draw_some(&job, &aim, 1).order, 0);
    struct eps__b_min_sep b_min_sep = {.banded = {.len = 1000, .width = 2, .p = 0.1}, .separation = 100, .examples = 1};
    assert_true(eps__b_min_sep_draws_bytes(&b_min_sep, 2) < 2e6 && eps__b_min_sep_draws_bytes(&b_min_sep, 3) < 6e7);
    assert_true(isinf(eps__b_min_sep_draws_bytes(&b_min_sep, 4)) && isinf(eps__b_min_sep_draws_bytes(&b_min_sep, 1)));
    b_min_sep.examples = 2;
    assert_true(isinf(eps__b_min_sep_draws_bytes(&b_min_sep, 2)));
    b_min_sep = (struct eps__b_min_sep){.banded = {.len = 1, .width = 1, .p = 0.1}, .separation = 1, .examples = 1};
    assert_true(isfinite(eps__b_min_sep_draws_bytes(&b_min_sep, EPS__B_MIN_SEP_DRAWN_MAX)));
    assert_true(isinf(eps__b_min_sep_draws_bytes(&b_min_sep, EPS__B_MIN_SEP_DRAWN_MAX + 1)));
    struct eps__banded_gram banded = {.len = 1000, .width = 8, .p = 0.1, .changes = 8};
    struct eps__histories histories = {.banded = &banded, .separation = 1};
    const eps__quad tilt = 0;
    assert_true(isfinite(eps__histories_draws_bytes(&histories, 3)) &&
                isinf(eps__histories_draws_bytes(&histories, 1)));
    assert_true(isinf(eps__histories_draws_bytes(&histories, 4)));
    histories.tilt = &tilt;
    assert_true(isinf(eps__histories_draws_bytes(&histories, 2)));
    histories.tilt = NULL;
    banded.p = 1;
    assert_true(isinf(eps__histories_draws_bytes(&histories, 2)));
    banded.p = 1e-120; /* a history may underflow */
    assert_true(isinf(eps__histories_draws_bytes(&histories, 2)));
    banded.p = 0.1;
    banded.width = 2;
    assert_true(isfinite(eps__histories_draws_bytes(&histories, EPS__HISTORIES_DRAWN_MAX)));
    assert_true(isinf(eps__histories_draws_bytes(&histories, EPS__HISTORIES_DRAWN_MAX + 1)));
}
