/*
 * Draws of Poisson sampling with bounds on P/Q in its place: the losses enclose those of the recursion that holds every
 * round, at the same y, and are equal to them where nothing is forgotten; tilted draws of remove have values that bound
 * those of exact ones, and a mean close above theirs; copies are drawn at least as often as their law needs.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/accountants/monte_carlo/laws/copies.h"
#include "lib/accountants/monte_carlo/laws/poisson.h"
#include "lib/job/setting.h"
#include "lib/moments/laws/few.h"
#include "lib/moments/laws/few_draws.h"
#include "tests/unit/draw.h"
#include "tests/unit/solved.h"
#include "tests/unit/test.h"

enum { CHUNK = 1024 };
static const uint64_t seed = 173205;

struct opened {
    struct eps_job job;
    struct eps__setting setting;
    struct eps__mc_law *law;
    double *scratch;
};

static void open_law(struct opened *opened, const struct eps__mc_law_class *shape, const struct eps_job *job,
                     const struct eps__mc_aim *aim)
{
    struct eps_error error = {0};
    opened->job = *job;
    eps_job_defaults(&opened->job);
    if (eps__setting_open(&opened->setting, &error, NULL, &opened->job) != EPS_OK)
        fail_msg("%s: %s", error.pointer, error.message);
    assert_int_equal(shape->open(&opened->law, &opened->setting, aim), EPS_OK);
    size_t bytes = (opened->law->scratch * sizeof(double) + 63) / 64 * 64;
    opened->scratch = aligned_alloc(64, bytes);
    memset(opened->scratch, 0xff, bytes);
}

static void close_law(struct opened *opened)
{
    opened->law->class->destroy(opened->law);
    eps__setting_close(&opened->setting);
    free(opened->scratch);
}

static struct eps_job new_job(size_t n, size_t bands, double p)
{
    struct eps_job job;
    eps_job_init(&job);
    job.mechanism.n = n;
    job.mechanism.matrix.family = EPS_FAMILY_SQUARE_ROOT;
    job.mechanism.matrix.bands = bands;
    job.mechanism.sampling.p = p;
    job.query.noise_multiplier = 1;
    job.query.epsilon = 1;
    job.query.accountant.method = EPS_ACCOUNTANT_MONTE_CARLO;
    return job;
}

static void draw_chunk(const struct opened *opened, uint64_t chunk, double *loss, double *log_weight)
{
    struct eps__stream stream = {.key = {(uint32_t)seed, 7}, .chunk = chunk};
    for (uint32_t first = 0; first < CHUNK; first += EPS__LANES)
        opened->law->class->draw(opened->law, &stream, first, opened->scratch, loss + first, log_weight + first);
}

/* ------------------------------------------------------------ plain draws */

/* Compares the losses of the first chunk. Returns the largest difference. */
static double compare(const struct eps_job *job, double sigma, enum eps_direction direction, bool forgets)
{
    double exact[CHUNK], bound[CHUNK], weight[CHUNK], largest = 0;
    const struct eps__mc_aim aim = {.sigma = sigma, .direction = direction};
    struct opened banded, few;
    open_law(&banded, &eps__mc_poisson_banded, job, &aim);
    open_law(&few, &eps__mc_poisson_few, job, &aim);
    draw_chunk(&banded, 1, exact, weight);
    draw_chunk(&few, 1, bound, weight);
    double error = banded.law->loss_error + few.law->loss_error;
    assert_true(error < 1e-8);
    for (size_t i = 0; i < CHUNK; i++) {
        if (!(bound[i] >= exact[i] - error && (forgets || bound[i] <= exact[i] + error)))
            fail_msg("n %zu, %zu bands, p %g, sigma %g, %d: %.15g for %.15g", job->mechanism.n,
                     job->mechanism.matrix.bands, job->mechanism.sampling.p, sigma, (int)direction, bound[i], exact[i]);
        largest = fmax(largest, bound[i] - exact[i]);
    }
    close_law(&banded);
    close_law(&few);
    return largest;
}

TEST(bounds_enclose_the_ratio)
{
    uint64_t state = seed;
    double largest = 0, crowds;
    for (int trial = 0; trial < 60; trial++) {
        size_t bands = 3 + draw_below(&state, 9), n = 2 * (bands + draw_below(&state, 10));
        double p = trial % 4 < 2 ? exp(-5 * draw_unit(&state)) : 0.98, sigma = 0.4 + draw_unit(&state);
        struct eps_job job = new_job(n, bands, p);
        if (trial % 3 == 1)
            job.mechanism.matrix.stamps = 2;
        if (trial % 3 == 2) {
            job.mechanism.sampling.scheme = EPS_SCHEME_CYCLIC_POISSON;
            job.mechanism.sampling.groups = 2;
        }
        size_t groups = trial % 3 == 2 ? 2 : 1, memory = (bands - 1) / groups;
        unsigned held = eps__mc_poisson_few_held(&crowds, (n - 1) / groups + 1, memory, p);
        for (int d = 0; d < EPS_DIRECTIONS; d++)
            largest = fmax(largest, compare(&job, sigma, (enum eps_direction)d, held < memory));
    }
    assert_true(largest > 0.01); /* some participations are forgotten */
}

TEST(bounds_are_close_where_few_take_part)
{
    const struct eps_job job = new_job(200, 12, 0.005);
    assert_true(compare(&job, 1.5, EPS_REMOVE, true) < 0.02);
    assert_true(compare(&job, 1.5, EPS_ADD, true) < 0.02);
}

/* With weights that leave the range, every draw has the largest loss. */
TEST(draws_out_of_range_are_certain)
{
    double loss[CHUNK], log_weight[CHUNK];
    const struct eps_job job = new_job(20, 10, 0.1);
    struct opened opened;
    open_law(&opened, &eps__mc_poisson_few, &job, &(struct eps__mc_aim){.sigma = 0.01, .direction = EPS_REMOVE});
    draw_chunk(&opened, 1, loss, log_weight);
    for (size_t i = 0; i < CHUNK; i++)
        assert_true(loss[i] >= EPS__MC_CERTAIN);
    close_law(&opened);
}

/* ------------------------------------------------------------ tilted draws */

struct found {
    double mean, error, largest, most;
};

static struct found draw_values(const struct eps__mc_law_class *shape, const struct eps_job *job,
                                const struct eps__mc_aim *aim, double eps, uint64_t chunks)
{
    double loss[CHUNK], log_weight[CHUNK], sum = 0, square = 0, draws = (double)chunks * CHUNK;
    struct found found = {0};
    struct opened opened;
    open_law(&opened, shape, job, aim);
    found.most = aim->tilted ? exp(opened.law->class->log_most(opened.law, eps)) : 1;
    for (uint64_t chunk = 0; chunk < chunks; chunk++) {
        draw_chunk(&opened, chunk, loss, log_weight);
        for (size_t i = 0; i < CHUNK; i++) {
            double value = (aim->tilted ? exp(log_weight[i]) : 1) * fmax(-expm1(eps - loss[i]), 0);
            found.largest = fmax(found.largest, value);
            sum += value;
            square += value * value;
        }
    }
    found.mean = sum / draws;
    found.error = sqrt((square / draws - found.mean * found.mean) / draws);
    close_law(&opened);
    return found;
}

/* Values at the least epsilon and beyond it, against exact means. */
TEST(tilted_means_are_close_above_exact_ones)
{
    static const struct {
        size_t n, bands;
        double p, sigma, eps;
        enum eps_direction direction;
        size_t groups; /* of cyclic Poisson sampling; 0: Poisson sampling */
    } cases[] = {{60, 5, 0.05, 1.2, 1.5, EPS_REMOVE, 0},  {60, 12, 0.01, 1.3, 0.6, EPS_REMOVE, 0},
                 {100, 9, 0.02, 1.5, 0.7, EPS_REMOVE, 0}, {60, 8, 0.05, 2.5, 0.8, EPS_ADD, 0},
                 {60, 10, 0.02, 2.5, 0.4, EPS_ADD, 0},    {120, 17, 0.02, 1.4, 0.7, EPS_REMOVE, 2},
                 {120, 17, 0.04, 2.5, 0.4, EPS_ADD, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct eps_job job = new_job(cases[i].n, cases[i].bands, cases[i].p);
        if (cases[i].groups > 0) {
            job.mechanism.sampling.scheme = EPS_SCHEME_CYCLIC_POISSON;
            job.mechanism.sampling.groups = cases[i].groups;
        }
        const double eps = cases[i].eps;
        struct eps__mc_aim aim = {.sigma = cases[i].sigma, .direction = cases[i].direction, .eps = eps, .least = eps};
        struct found exact = draw_values(&eps__mc_poisson_banded, &job, &aim, eps, 200);
        struct found exact_beyond = draw_values(&eps__mc_poisson_banded, &job, &aim, eps + 0.3, 200);
        aim.tilted = true;
        struct found found = draw_values(&eps__mc_poisson_few, &job, &aim, eps, 60);
        struct found beyond = draw_values(&eps__mc_poisson_few, &job, &aim, eps + 0.3, 60);
        double apart = hypot(exact.error, found.error), apart_beyond = hypot(exact_beyond.error, beyond.error);
        if (!(found.mean >= exact.mean - 4 * apart && found.mean <= 1.1 * exact.mean + 4 * apart &&
              found.error < 0.1 * exact.mean && found.largest <= found.most && found.most < 1 &&
              beyond.mean >= exact_beyond.mean - 4 * apart_beyond))
            fail_msg("case %zu: %g +- %g for %g +- %g, at most %g of %g; beyond: %g +- %g for %g", i, found.mean,
                     found.error, exact.mean, exact.error, found.largest, found.most, beyond.mean, beyond.error,
                     exact_beyond.mean);
    }
}

/* A54: the value of any loss between two bounds, at any epsilon from the least on. */
TEST(a_loss_between_two_bounds_has_no_larger_value)
{
    uint64_t state = seed + 1;
    for (int trial = 0; trial < 20000; trial++) {
        const struct eps__mc_copies copies = {.order = 2 + (unsigned)draw_below(&state, 11),
                                              .log_z = draw_unit(&state)};
        double least = 3 * draw_unit(&state), low = least + 3 * (draw_unit(&state) - 0.5), gap = draw_unit(&state);
        double high = low + gap * gap * gap * 2, loss, log_weight;
        low = trial % 16 == 0 ? -INFINITY : low;
        high = trial % 32 == 0 ? INFINITY : high;
        eps__mc_copies_between(&loss, &log_weight, &copies, least, low, high);
        double most = exp(eps__mc_copies_log_value(&copies, least));
        assert_true(exp(log_weight) * fmax(-expm1(least - loss), 0) <= most * (1 + 1e-9));
        for (int k = 0; k < 8; k++) {
            double eps = least + (k > 0 ? draw_unit(&state) : 0), from = fmax(low, -2), to = fmin(high, 12);
            double l = k == 1 ? from : k == 2 ? to : from + (to - from) * draw_unit(&state);
            double value = exp(eps__mc_copies_log_weight(&copies, l)) * fmax(-expm1(eps - l), 0);
            double bound = exp(log_weight) * fmax(-expm1(eps - loss), 0);
            if (!(bound >= value * (1 - 1e-9)))
                fail_msg("order %u, least %g, %g to %g: at eps %g, loss %g has %g over %g", copies.order, least, low,
                         high, eps, l, value, bound);
        }
    }
}

/* ------------------------------------------------------------ copies */

enum { STEPS = 4, WIDTH = 4, PATTERNS = 1 << STEPS, SUMS_MOST = 7 * 7 * 7 * 7 };

/* e^{sum over pairs} times the probabilities of all copies, by the sum of their patterns. */
static void exact_law(double *law, const struct eps__banded_gram *banded, unsigned copies)
{
    size_t all = 1, base = copies + 1;
    double chance[PATTERNS], inner[PATTERNS][PATTERNS];
    for (size_t x = 0; x < PATTERNS; x++) {
        chance[x] = 1;
        for (size_t i = 0; i < STEPS; i++)
            chance[x] *= x >> i & 1 ? banded->p : 1 - banded->p;
        for (size_t y = 0; y < PATTERNS; y++) {
            inner[x][y] = 0;
            for (size_t i = 0; i < STEPS; i++)
                for (size_t j = 0; j < STEPS; j++) {
                    size_t late = i > j ? i : j, apart = late - (i < j ? i : j);
                    if (apart < banded->width && x >> i & 1 && y >> j & 1)
                        inner[x][y] += banded->gram[late * banded->width + apart];
                }
        }
    }
    for (unsigned c = 0; c < copies; c++)
        all *= PATTERNS;
    memset(law, 0, SUMS_MOST * sizeof *law);
    for (size_t which = 0; which < all; which++) {
        double weight = 1, exponent = 0;
        size_t sum = 0;
        for (unsigned c = 0; c < copies; c++) {
            size_t x = which >> STEPS * c & (PATTERNS - 1);
            weight *= chance[x];
            for (unsigned d = 0; d < c; d++)
                exponent += inner[x][which >> STEPS * d & (PATTERNS - 1)];
            for (size_t i = 0, place = 1; i < STEPS; i++, place *= base)
                sum += (x >> i & 1) * place;
        }
        law[sum] += weight * exp(exponent);
    }
}

/* Whether the sums of patterns are drawn as often as they must be; exact: just as often. */
static void check_draws(const struct eps__banded_gram *banded, unsigned group, unsigned groups, bool exact)
{
    static double law[SUMS_MOST], found[SUMS_MOST];
    const uint64_t chunks = 300;
    struct eps__participated out[EPS__LANES * STEPS];
    struct eps__few_draws *draws;
    size_t len[EPS__LANES];
    exact_law(law, banded, group * groups);
    memset(found, 0, sizeof found);
    assert_int_equal(eps__few_draws_make(NULL, &draws, banded, group, groups, 0), EPS_OK);
    for (uint64_t chunk = 0; chunk < chunks; chunk++)
        for (uint32_t first = 0; first < CHUNK; first += EPS__LANES) {
            const struct eps__stream stream = {.key = {(uint32_t)seed, group * 16 + groups}, .chunk = chunk};
            eps__few_draws_lanes(out, STEPS, len, draws, &stream, first);
            for (size_t lane = 0; lane < EPS__LANES; lane++) {
                size_t sum = 0;
                for (size_t k = 0; k < len[lane]; k++)
                    sum += out[lane * STEPS + k].examples *
                           (size_t)lround(pow(group * groups + 1, out[lane * STEPS + k].step));
                found[sum]++;
            }
        }
    double total = (double)chunks * CHUNK, z = 0, least = exp(-draws->log_z);
    for (size_t i = 0; i < SUMS_MOST; i++)
        z += law[i];
    if (!(draws->log_z >= log(z) - 1e-9 && (!exact || draws->log_z <= log(z) + 1e-6)))
        fail_msg("%u groups of %u: ln Z %.15g for %.15g", groups, group, draws->log_z, log(z));
    for (size_t i = 0; i < SUMS_MOST; i++) {
        double share = found[i] / total, need = law[i] * least, error = sqrt(fmax(need, 1 / total) / total);
        if (!(share >= need - 5 * error && (!exact || share <= need + 5 * error)))
            fail_msg("%u groups of %u, sum %zu: %g +- %g for %g", groups, group, i, share, error, need);
    }
    eps__few_draws_free(draws);
}

TEST(copies_are_drawn_as_often_as_they_must_be)
{
    static double gram[STEPS * WIDTH];
    const double row[WIDTH] = {0.9, 0.6, 0.5, 0.4};
    for (size_t i = 0; i < STEPS; i++)
        for (size_t d = 0; d < WIDTH; d++)
            gram[i * WIDTH + d] = row[d] * (1 + 0.1 * (double)i);
    struct eps__banded_gram banded = {.len = STEPS, .width = 2, .p = 0.2, .gram = gram, .changes = STEPS};
    double narrow[STEPS * 2];
    for (size_t i = 0; i < STEPS; i++)
        memcpy(narrow + 2 * i, gram + i * WIDTH, 2 * sizeof *narrow);
    struct eps__banded_gram all = {.len = STEPS, .width = 2, .p = 0.2, .gram = narrow, .changes = STEPS};
    check_draws(&all, 2, 1, true); /* a state can hold all there is */
    check_draws(&all, 3, 1, true);
    check_draws(&all, 2, 2, false);
    banded.width = WIDTH;
    check_draws(&banded, 2, 1, false);
    check_draws(&banded, 3, 1, false);
    check_draws(&banded, 2, 2, false);
}

/* ln Z is that of the sum with the same states, or slightly above it. */
TEST(equal_steps_share_a_row)
{
    enum { LONG = 400, WIDE = 6 };
    static double gram[LONG * WIDE];
    struct eps__banded_gram banded = {.len = LONG, .width = WIDE, .p = 0.02, .gram = gram, .changes = 1};
    for (size_t i = 0; i < LONG * WIDE; i++)
        gram[i] = 0.5 / (1 + (double)(i % WIDE));
    for (unsigned group = 2; group <= 3; group++) {
        struct eps__few_draws *draws;
        eps__quad sum;
        double units;
        assert_int_equal(eps__few_draws_make(NULL, &draws, &banded, group, 1, 0), EPS_OK);
        assert_int_equal(eps__few_sum(NULL, &sum, &units, &banded, group, eps__few_draws_held(&banded, group), 1),
                         EPS_OK);
        double log_sum = (double)logq(sum);
        if (!(draws->log_z >= log_sum - 1e-10 && draws->log_z <= log_sum + 1e-3 && draws->row[0] < LONG / 2))
            fail_msg("groups of %u: ln Z %.15g for %.15g, %u rows", group, draws->log_z, log_sum, draws->row[0]);
        eps__few_draws_free(draws);
    }
}

/* ------------------------------------------------------------ whole jobs */

/* Below what is proven without draws. */
TEST(many_bands_are_served)
{
    struct eps_job job = new_job(64, 14, 0.02);
    job.query.epsilon = 2;
    job.query.delta = 1e-4;
    job.query.noise_multiplier = NAN;
    struct eps_result *drawn = solved(NULL, job);
    job.query.accountant.method = EPS_ACCOUNTANT_RENYI;
    double proven = answered(job).value;
    if (!(drawn->noise_multiplier < 0.95 * proven && drawn->guarantee == EPS_GUARANTEE_ESTIMATE_VERIFY_RELEASE))
        fail_msg("%g by draws, %g without", drawn->noise_multiplier, proven);
    eps_result_destroy(drawn);
}

TEST(too_many_bands_are_declined)
{
    struct eps_job job = new_job(400, 92, 0.001);
    assert_declined(job, "/matrix/bands");
    job = new_job(400, 13, 1);
    assert_declined(job, "/sampling/p");
}
