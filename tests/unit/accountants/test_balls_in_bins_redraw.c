/*
 * Epochs of balls in bins with a bin drawn anew in each, and a Gaussian beside them: the composition of curves compared
 * with closed forms, quadrature, samples, a single epoch, and properties of every answer. And the connected points of a
 * curve, some of which are imprecise, compared with the curve.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "lib/numerics/normal.h"
#include "lib/pld/known/balls_in_bins.h"
#include "lib/pld/known/curves.h"
#include "tests/unit/draw.h"
#include "tests/unit/solved.h"
#include "tests/unit/test.h"

static const uint64_t seed = 24077;

/* ------------------------------------------------------------ a curve that has a formula */

/* A Gaussian of a shift in units of sigma, > 0, between the two: its two directions are equal. */

struct gaussian {
    struct eps__curve base;
    double shift[2]; /* by estimate */
};

static enum eps_status gaussian_log_delta(struct eps__curve *curve, bool reversed, enum eps__estimate estimate,
                                          double eps, double tolerance, double *log_delta)
{
    const struct gaussian *gaussian = (const struct gaussian *)curve;
    double error, value = eps__gaussian_log_delta(gaussian->shift[estimate], eps, &error);
    (void)reversed;
    (void)tolerance;
    *log_delta = eps__certain(estimate, fmin(eps__shift(estimate, value, error), 0));
    return EPS_OK;
}

static enum eps_status gaussian_guess(struct eps__curve *curve, bool reversed, double log_delta, double *eps)
{
    double shift = ((const struct gaussian *)curve)->shift[EPS__UPPER];
    (void)reversed;
    *eps = shift * (0.5 * shift + fmax(eps__normal_tail_quantile(log_delta), 0)); /* delta is less than this tail */
    return EPS_OK;
}

static void gaussian_destroy(struct eps__curve *curve)
{
    free(curve);
}

static const struct eps__curve_class gaussian_class = {gaussian_log_delta, gaussian_guess, gaussian_destroy};

static struct eps__curve *curve_gaussian(double shift_lower, double shift_upper)
{
    struct gaussian *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    made->base.class = &gaussian_class;
    made->shift[EPS__LOWER] = shift_lower;
    made->shift[EPS__UPPER] = shift_upper;
    return &made->base;
}

/* ------------------------------------------------------------ cases */

struct bracket {
    double upper, lower; /* logarithms */
};

struct case_ {
    enum eps_direction direction;
    size_t bins;
    uint64_t epochs;
    double shift, gaussian; /* gaussian: the shift of a Gaussian beside them; 0: there is none */
};

static struct eps__curves *open_case(const struct case_ *c, double tolerance)
{
    const struct eps__accuracy accuracy = {EPS_SOLVE_DELTA, tolerance, NAN};
    struct eps__curves *curves;
    assert_int_equal(eps__curves_create(&curves, NULL, &accuracy), EPS_OK);
    if (c->epochs)
        assert_int_equal(eps__curves_add(curves,
                                         eps__curve_balls_in_bins(NULL, c->direction, c->bins, c->shift, c->shift),
                                         c->epochs),
                         EPS_OK);
    if (c->gaussian > 0)
        assert_int_equal(eps__curves_add(curves, curve_gaussian(c->gaussian, c->gaussian), 1), EPS_OK);
    return curves;
}

static struct bracket bracket_of(struct eps__curves *curves, double eps)
{
    struct bracket found;
    assert_int_equal(eps__curves_log_delta(curves, EPS__UPPER, eps, &found.upper), EPS_OK);
    assert_int_equal(eps__curves_log_delta(curves, EPS__LOWER, eps, &found.lower), EPS_OK);
    return found;
}

/* The bracket contains the truth, whose logarithm is known to within `error`, and is as narrow as requested. */
static void holds(const struct case_ *c, double eps, double truth, double error, double tolerance)
{
    struct eps__curves *curves = open_case(c, tolerance);
    struct bracket found = bracket_of(curves, eps);
    for (int i = 0; i < 3 && !(found.upper - found.lower < tolerance) && eps__curves_refine(curves, 1.5); i++)
        found = bracket_of(curves, eps);
    eps__curves_destroy(curves);
    if (!(found.lower <= truth + error && truth - error <= found.upper))
        fail_msg("%s, %zu bins, %d epochs, shifts %g and %g, eps %g: %.15g not in [%.15g, %.15g]",
                 c->direction == EPS_ADD ? "add" : "remove", c->bins, (int)c->epochs, c->shift, c->gaussian, eps, truth,
                 found.lower, found.upper);
    if (!(found.upper - found.lower < tolerance))
        fail_msg("%s, %zu bins, %d epochs, shifts %g and %g, eps %g: a width of %g, not %g",
                 c->direction == EPS_ADD ? "add" : "remove", c->bins, (int)c->epochs, c->shift, c->gaussian, eps,
                 found.upper - found.lower, tolerance);
}

/* ------------------------------------------------------------ closed forms */

TEST(gaussians_are_a_gaussian)
{
    const uint64_t counts[] = {1, 7, 60};
    for (size_t i = 0; i < 3; i++)
        for (double total = 0.2; total < 5; total *= 16)
            for (double eps = 0; eps < 30; eps = 6 * eps + 0.5) {
                double shift = total / sqrt((double)counts[i]), error;
                double exact = eps__gaussian_log_delta(total * M_SQRT2, eps, &error);
                const struct case_ c = {i % 2, 1, counts[i], shift, total};
                if (exact > -60)
                    holds(&c, eps, exact, error, 1e-3);
            }
    for (double eps = 0.1; eps < 10; eps *= 4) {
        double error, exact = eps__gaussian_log_delta(1, eps, &error);
        const struct case_ c = {EPS_ADD, 1, 0, 0, 1};
        holds(&c, eps, exact, error, 1e-4);
    }
}

TEST(one_epoch_is_itself)
{
    for (size_t bins = 2; bins <= 50; bins *= 25)
        for (double eps = 0.1; eps < 4; eps *= 10)
            for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++) {
                const struct eps__accuracy accuracy = {EPS_SOLVE_DELTA, 1e-5, NAN};
                struct eps__balls_in_bins *alone;
                double upper, lower;
                assert_int_equal(eps__balls_in_bins_create(&alone, NULL, d, bins, 0.8, 0.8, &accuracy), EPS_OK);
                assert_int_equal(eps__balls_in_bins_log_delta(alone, EPS__UPPER, eps, &upper), EPS_OK);
                assert_int_equal(eps__balls_in_bins_log_delta(alone, EPS__LOWER, eps, &lower), EPS_OK);
                eps__balls_in_bins_destroy(alone);
                const struct case_ c = {d, bins, 1, 0.8, 0};
                if (lower > -30)
                    holds(&c, eps, 0.5 * (upper + lower), 0.5 * (upper - lower), 1e-3);
            }
}

/* ------------------------------------------------------------ quadrature */

/* E[(V - k)_+] of a lognormal. */
static double call(double s, double k)
{
    double error;
    return k > 0 ? exp(eps__gaussian_log_delta(s, log(k), &error)) : 1 - k;
}

enum { NODES = 60, INNER = 300 };
static const double reach = 9;

static double node(int i, int nodes)
{
    return -reach + (i + 0.5) * 2 * reach / nodes;
}

static double weight(int i, int nodes)
{
    double z = node(i, nodes);
    return exp(-0.5 * z * z - EPS__LOG_SQRT_2PI) * 2 * reach / nodes;
}

/* E[(X - k)_+] of the mean of two, by the midpoint rule; there is a bend where one alone reaches k. */
static double call_of_mean(double s, double k)
{
    double total = 0;
    for (int i = 0; i < INNER; i++)
        total += weight(i, INNER) * 0.5 * call(s, 2 * k - exp(s * node(i, INNER) - 0.5 * s * s));
    return total;
}

/* E[(X Y - k)_+], X the mean of two, Y the same (g = 0) or a lognormal. */
static double call_of_product(double s, double g, double k)
{
    double total = 0;
    for (int i = 0; i < NODES; i++)
        for (int j = 0; j <= i; j++) {
            double x = 0.5 * (exp(s * node(i, NODES) - 0.5 * s * s) + exp(s * node(j, NODES) - 0.5 * s * s));
            double w = weight(i, NODES) * weight(j, NODES) * (i == j ? 1 : 2);
            if (w * x > 1e-13)
                total += w * x * (g > 0 ? call(g, k / x) : call_of_mean(s, k / x));
        }
    return total;
}

static double exact_log_delta(enum eps_direction direction, double s, double g, double eps)
{
    if (direction == EPS_REMOVE)
        return log(call_of_product(s, g, exp(eps)));
    return eps + log(call_of_product(s, g, exp(-eps)) - 1 + exp(-eps)); /* parity: the mean is 1 */
}

TEST(two_epochs_of_two_bins_are_an_integral)
{
    for (double s = 0.5; s < 2; s *= 2.4)
        for (double eps = 0.4; eps < 5; eps *= 6)
            for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++) {
                double exact = exact_log_delta(d, s, 0, eps);
                const struct case_ c = {d, 2, 2, s, 0};
                if (exact > -15)
                    holds(&c, eps, exact, 1e-4, 1e-3);
            }
}

TEST(an_epoch_and_a_gaussian_are_an_integral)
{
    for (double g = 0.3; g < 3; g *= 3)
        for (double eps = 0.1; eps < 8; eps *= 4)
            for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++) {
                double exact = exact_log_delta(d, 0.9, g, eps);
                const struct case_ c = {d, 2, 1, 0.9, g};
                if (exact > -15)
                    holds(&c, eps, exact, 1e-4, 1e-3);
            }
}

/* ------------------------------------------------------------ samples */

static double draw_normal(uint64_t *state)
{
    return sqrt(-2 * log(1 - draw_unit(state))) * cos(2 * M_PI * draw_unit(state));
}

/* Five epochs of ten bins: P/Q of each is drawn under P. */
TEST(ten_bins_are_sampled)
{
    enum { BINS = 10, EPOCHS = 5, SAMPLES = 60000 };
    const double s = 1, at[] = {0.05, 0.5, 1.5};
    double sum[EPS_DIRECTIONS][3] = {{0}}, square[EPS_DIRECTIONS][3] = {{0}};
    uint64_t state = seed;
    for (int n = 0; n < SAMPLES; n++)
        for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++) {
            double log_ratio = 0;
            for (int e = 0; e < EPOCHS; e++) {
                double mean = 0;
                for (int b = 0; b < BINS; b++)
                    mean += exp(s * (draw_normal(&state) + (b == 0 && d == EPS_REMOVE ? s : 0)) - 0.5 * s * s) / BINS;
                log_ratio += log(mean);
            }
            for (int i = 0; i < 3; i++) {
                double loss = d == EPS_REMOVE ? log_ratio : -log_ratio, value = fmax(-expm1(at[i] - loss), 0);
                sum[d][i] += value;
                square[d][i] += value * value;
            }
        }
    for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++)
        for (int i = 0; i < 3; i++) {
            double mean = sum[d][i] / SAMPLES, error = sqrt((square[d][i] / SAMPLES - mean * mean) / SAMPLES) / mean;
            const struct case_ c = {d, BINS, EPOCHS, s, 0};
            assert_true(error < 0.03);
            holds(&c, at[i], log(mean), 4 * error, 1e-3);
        }
}

/* ------------------------------------------------------------ what must hold */

static double upper_at(enum eps_direction d, size_t bins, uint64_t epochs, double shift, double eps)
{
    const struct case_ c = {d, bins, epochs, shift, 0};
    struct eps__curves *curves = open_case(&c, 1e-3);
    struct bracket found = bracket_of(curves, eps);
    eps__curves_destroy(curves);
    assert_true(found.lower <= found.upper);
    return found.upper;
}

TEST(delta_is_monotone)
{
    for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++) {
        double base = upper_at(d, 20, 10, 0.8, 1), error;
        assert_true(upper_at(d, 20, 12, 0.8, 1) > base + 0.01);
        assert_true(upper_at(d, 25, 10, 0.8, 1) < base - 0.01);
        assert_true(upper_at(d, 20, 10, 0.85, 1) > base + 0.01);
        assert_true(upper_at(d, 20, 10, 0.8, 1.1) < base - 0.01);
        assert_true(base < eps__gaussian_log_delta(0.8 * sqrt(10), 1, &error));
    }
    /* many epochs of little effect: in the limit a Gaussian with the variance of P/Q */
    double total = sqrt(1000 * expm1(0.09) / 1000), error;
    for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++)
        assert_true(fabs(upper_at(d, 1000, 1000, 0.3, 0.5) - eps__gaussian_log_delta(total, 0.5, &error)) < 0.1);
}

/* ------------------------------------------------------------ points */

/* A Gaussian's curve; some randomly chosen points of it are known only to a relative error. */
struct noisy {
    struct eps__curve base;
    double shift, share;
    uint64_t state;
};

static enum eps_status noisy_log_delta(struct eps__curve *curve, bool reversed, enum eps__estimate estimate, double eps,
                                       double tolerance, double *log_delta)
{
    struct noisy *noisy = (struct noisy *)curve;
    double error, off = draw_unit(&noisy->state) < 0.7 ? 0 : noisy->share; /* mostly exact */
    (void)reversed;
    (void)tolerance;
    *log_delta = eps__gaussian_log_delta(noisy->shift, eps, &error) + (estimate == EPS__UPPER ? off : -off);
    return EPS_OK;
}

static const struct eps__curve_class noisy_class = {.log_delta = noisy_log_delta};

static double gaussian_curve(double shift, double eps)
{
    double error;
    return eps >= 0 ? eps__gaussian_log_delta(shift, eps, &error)
                    : log(-expm1(eps) + exp(eps + eps__gaussian_log_delta(shift, -eps, &error)));
}

static void check_points(struct noisy *noisy, double spacing, double worst)
{
    const struct eps__curve_points_plan plan = {.spacing = spacing,
                                                .log_above = -40,
                                                .log_below = -25,
                                                .most = 4000,
                                                .tolerance = noisy->share,
                                                .least_tolerance = noisy->share};
    struct eps__curve_points points;
    assert_int_equal(eps__curve_points_ask(NULL, &points, &noisy->base, &plan), EPS_OK);
    assert_int_equal(eps__curve_points_ask_lower(NULL, &points, &noisy->base, &plan), EPS_OK);
    for (enum eps__estimate estimate = EPS__UPPER; estimate <= EPS__LOWER; estimate++) {
        struct eps__pld pld;
        assert_int_equal(eps__curve_points_connect(&points, estimate, &pld), EPS_OK);
        double total = pld.infinity;
        for (size_t i = 0; i < pld.len; i++) {
            assert_true(pld.mass[i] >= 0 && (i == 0 || pld.index[i] > pld.index[i - 1]));
            total += pld.mass[i];
        }
        assert_true(fabs(total - 1) < 1e-9);
        for (int i = 0; i < 300; i++) {
            double eps = draw_between(&noisy->state, -8 * noisy->shift, 8 * noisy->shift);
            double exact = gaussian_curve(noisy->shift, eps), found = eps__pld_log_delta(&pld, eps);
            double off = estimate == EPS__UPPER ? found - exact : exact - found;
            if (!(off > -1e-13 * (1 + fabs(exact))) || (exact > -12 && !(off < worst) && worst < INFINITY))
                fail_msg("shift %g, spacing %g, noise %g, estimate %d, eps %g: %.15g, exactly %.15g", noisy->shift,
                         spacing, noisy->share, (int)estimate, eps, found, exact);
        }
        eps__pld_clear(&pld);
    }
    eps__curve_points_clear(&points);
}

TEST(connected_points_enclose_the_curve)
{
    for (double shift = 0.02; shift < 3; shift *= 5)
        for (double fine = 0.01; fine < 0.7; fine *= 4)
            for (double share = 0; share < 0.3; share = 20 * share + 1e-5) {
                struct noisy noisy = {.base = {&noisy_class}, .shift = shift, .share = share, .state = seed};
                check_points(&noisy, fine * shift,
                             fine < 0.3 && share < 1e-3 ? 40 * fine * fine + 40 * share + 1e-5 : INFINITY);
            }
}

/* ------------------------------------------------------------ the accountant */

static struct eps_job job_new(enum eps_accountant method, size_t bins, size_t epochs)
{
    struct eps_job job;
    eps_job_init(&job);
    job.mechanism.n = bins * epochs;
    job.mechanism.sampling.scheme = EPS_SCHEME_BALLS_IN_BINS;
    job.mechanism.sampling.bins = bins;
    job.mechanism.sampling.redraw = true;
    job.query.accountant.method = method;
    job.query.delta = 1e-6;
    return job;
}

/* The answer of one direction; the bracket of the larger direction is within the tolerance. */
static double found_by(struct eps_job job, enum eps_direction direction)
{
    struct answer answer = answered(job);
    double larger = fmax(answer.of[EPS_REMOVE], answer.of[EPS_ADD]);
    if (job.query.accountant.method == EPS_ACCOUNTANT_PLD)
        assert_true(answer.lower <= larger && answer.lower > larger * (1 - 2e-3));
    return answer.of[direction];
}

static void declined(struct eps_job job, const char *pointer)
{
    job.query.noise_multiplier = 1;
    assert_refused(job, EPS_UNSUPPORTED, pointer);
}

TEST(it_is_no_more_than_renyi)
{
    for (int unknown = 0; unknown < 2; unknown++) {
        struct eps_job pld = job_new(EPS_ACCOUNTANT_PLD, 50, 8), renyi = job_new(EPS_ACCOUNTANT_RENYI, 50, 8);
        double *given[] = {unknown ? &pld.query.epsilon : &pld.query.noise_multiplier,
                           unknown ? &renyi.query.epsilon : &renyi.query.noise_multiplier};
        *given[0] = *given[1] = unknown ? 2 : 0.9;
        for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++) {
            double ours = found_by(pld, d), theirs = found_by(renyi, d);
            assert_true(ours < theirs && ours > (d == EPS_REMOVE ? 0.7 : 0.3) * theirs);
        }
    }
    /* one bin: nothing is drawn */
    struct eps_job job = job_new(EPS_ACCOUNTANT_PLD, 1, 9);
    job.query.noise_multiplier = 6;
    double value = found_by(job, EPS_ADD), error;
    assert_true(fabs(eps__gaussian_log_delta(0.5, value, &error) - log(1e-6)) < 1e-2);
}

/* Norms that differ from epoch to epoch: the answer is between those of the least and the largest norm, and as composed
 * here. */
TEST(epochs_may_differ)
{
    enum { BINS = 4, EPOCHS = 3, N = BINS * EPOCHS };
    double *entries = calloc((size_t)N * N, sizeof *entries);
    assert_non_null(entries);
    for (size_t i = 0; i < N; i++)
        entries[i * N + i] = i / BINS == 1 ? 1.5 : 1;
    struct eps_job job = job_new(EPS_ACCOUNTANT_PLD, BINS, EPOCHS);
    job.mechanism.matrix.family = EPS_FAMILY_DENSE;
    job.mechanism.matrix.normalization = EPS_NORMALIZATION_NONE;
    job.mechanism.matrix.rows = entries;
    job.mechanism.matrix.rows_n = N;
    job.query.noise_multiplier = 2;
    for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++) {
        const struct eps__accuracy accuracy = {EPS_SOLVE_DELTA, 1e-3, NAN};
        struct eps__curves *curves;
        assert_int_equal(eps__curves_create(&curves, NULL, &accuracy), EPS_OK);
        assert_int_equal(eps__curves_add(curves, eps__curve_balls_in_bins(NULL, d, BINS, 0.5, 0.5), 2), EPS_OK);
        assert_int_equal(eps__curves_add(curves, eps__curve_balls_in_bins(NULL, d, BINS, 0.75, 0.75), 1), EPS_OK);
        struct bracket found = bracket_of(curves, found_by(job, d));
        if (!(fabs(found.upper - log(1e-6)) < 3e-2))
            fail_msg("epochs of two norms: %g from the delta that was asked", found.upper - log(1e-6));
        eps__curves_destroy(curves);
    }
    entries[N] = 0.1; /* a row that spans two epochs may be there */
    declined(job, "/sampling/redraw");
    free(entries);
    job = job_new(EPS_ACCOUNTANT_PLD, 20, 2);
    job.mechanism.adjacency = EPS_ADJACENCY_REPLACE_ONE;
    declined(job, "/adjacency");
    job = job_new(EPS_ACCOUNTANT_PLD, 20, 2);
    job.mechanism.matrix.family = EPS_FAMILY_SQUARE_ROOT;
    declined(job, "/sampling/redraw");
}

/* A diagonal strategy with these norms. The caller frees the entries. */
static struct eps_job diagonal(const double *norms, size_t bins, size_t epochs, double **entries)
{
    size_t n = bins * epochs;
    struct eps_job job = job_new(EPS_ACCOUNTANT_PLD, bins, epochs);
    *entries = calloc(n * n, sizeof **entries);
    assert_non_null(*entries);
    for (size_t i = 0; i < n; i++)
        (*entries)[i * n + i] = norms[i];
    job.mechanism.matrix.family = EPS_FAMILY_DENSE;
    job.mechanism.matrix.normalization = EPS_NORMALIZATION_NONE;
    job.mechanism.matrix.rows = *entries;
    job.mechanism.matrix.rows_n = n;
    return job;
}

/* delta by plain draws, with its standard deviation. */
static double sampled_delta(const double *norms, size_t bins, size_t epochs, double sigma, enum eps_direction direction,
                            double eps, double *deviation)
{
    enum { DRAWS = 200000 };
    uint64_t state = seed;
    double sum = 0, squares = 0;
    for (size_t s = 0; s < DRAWS; s++) {
        double loss = 0;
        for (size_t e = 0; e < epochs; e++) {
            size_t own = draw_below(&state, bins);
            double over = 0;
            for (size_t i = 0; i < bins; i++) {
                double shift = norms[e * bins + i] / sigma, radius = sqrt(-2 * log(1 - draw_unit(&state)));
                double y = radius * cos(2 * M_PI * draw_unit(&state));
                y += direction == EPS_REMOVE && i == own ? shift : 0;
                over += exp(shift * (y - shift / 2)) / (double)bins;
            }
            loss += log(over);
        }
        double value = fmax(-expm1(direction == EPS_REMOVE ? eps - loss : eps + loss), 0);
        sum += value / DRAWS;
        squares += value * value / DRAWS;
    }
    *deviation = sqrt((squares - sum * sum) / DRAWS);
    return sum;
}

/* Norms that differ within an epoch: its largest one serves all. */
TEST(norms_of_an_epoch_may_differ)
{
    enum { BINS = 4, EPOCHS = 3 };
    static const double norms[BINS * EPOCHS] = {1, 0.9, 0.9, 0.9, 0.5, 1.2, 1.1, 1.2, 1, 1, 1, 1};
    static const double largest[BINS * EPOCHS] = {1, 1, 1, 1, 1.2, 1.2, 1.2, 1.2, 1, 1, 1, 1};
    double *entries[2], sigma = 1.5, eps = 0.8, found[EPS_DIRECTIONS], most[EPS_DIRECTIONS];
    struct eps_job job = diagonal(norms, BINS, EPOCHS, &entries[0]);
    struct eps_job more = diagonal(largest, BINS, EPOCHS, &entries[1]);
    solved_deltas(found, job, sigma, eps);
    solved_deltas(most, more, sigma, eps);
    for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++) {
        double deviation, mean = sampled_delta(norms, BINS, EPOCHS, sigma, d, eps, &deviation);
        if (!(found[d] >= mean - 5 * deviation) || !(found[d] <= 2 * mean) || !(fabs(found[d] / most[d] - 1) < 2e-3))
            fail_msg("direction %d: %g for %g +- %g and %g", (int)d, found[d], mean, deviation, most[d]);
    }
    /* no norm is that of the mechanism: others are asked as well */
    job.query.accountant.method = EPS_ACCOUNTANT_AUTO;
    job.query.noise_multiplier = sigma;
    struct eps_result *result = solved(NULL, job);
    assert_true(isnan(result->least) || result->least <= result->epsilon);
    eps_result_destroy(result);
    free(entries[0]);
    free(entries[1]);
}

/* ln of bounds on delta for the same norms, epoch by epoch; norms of one epoch are equal. */
static struct bracket epoch_by_epoch(const double *norms, size_t bins, size_t epochs, double sigma,
                                     enum eps_direction direction, double eps)
{
    const struct eps__accuracy accuracy = {EPS_SOLVE_DELTA, 1e-3, NAN};
    struct eps__curves *curves;
    assert_int_equal(eps__curves_create(&curves, NULL, &accuracy), EPS_OK);
    for (size_t e = 0; e < epochs; e++) {
        double shift = norms[e * bins] / sigma;
        assert_int_equal(eps__curves_add(curves, eps__curve_balls_in_bins(NULL, direction, bins, shift, shift), 1),
                         EPS_OK);
    }
    struct bracket exact = bracket_of(curves, eps);
    eps__curves_destroy(curves);
    return exact;
}

/* More norms than there are classes of epochs: those that are near are taken together, in whatever order they come. */
TEST(epochs_of_many_norms)
{
    enum { BINS = 5, EPOCHS = 12, MANY = 20 };
    double norms[BINS * MANY], *entries, sigma = 2, eps = 1, found[2][EPS_DIRECTIONS];
    for (size_t i = 0; i < BINS * EPOCHS; i++)
        norms[i] = 1 + 0.03 * (double)(i / BINS);
    struct eps_job job = diagonal(norms, BINS, EPOCHS, &entries);
    solved_deltas(found[0], job, sigma, eps);
    free(entries);
    for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++) {
        struct bracket exact = epoch_by_epoch(norms, BINS, EPOCHS, sigma, d, eps);
        if (!(found[0][d] >= exp(exact.lower)) || !(found[0][d] <= 1.05 * exp(exact.upper)))
            fail_msg("direction %d: %g for %g", (int)d, found[0][d], exp(exact.upper));
    }
    double squares = 0;
    for (int falls = 0; falls < 2; falls++) {
        for (size_t i = 0; i < BINS * MANY; i++)
            norms[i] = 0.2 + 0.8 * (double)(falls ? MANY - 1 - i / BINS : i / BINS) / (MANY - 1);
        job = diagonal(norms, BINS, MANY, &entries);
        solved_deltas(found[falls], job, 3, eps);
        free(entries);
    }
    for (size_t e = 0; e < MANY; e++)
        squares += norms[e * BINS] * norms[e * BINS];
    for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++) {
        double even = exp(upper_at(d, BINS, MANY, sqrt(squares / MANY) / 3, eps));
        print_message("# %g up, %g down, %g for even norms\n", found[0][d], found[1][d], even);
        assert_true(found[0][d] > 0.8 * even && found[0][d] < 1.6 * even);
        assert_true(fabs(found[0][d] / found[1][d] - 1) < 0.1);
    }
}

/* Epochs that show little beside another one are one Gaussian; those that show nothing are left out. */
TEST(epochs_of_small_norms)
{
    enum { BINS = 2, EPOCHS = 64 };
    double norms[BINS * EPOCHS], *entries, sigma = 2, eps = 1.5, small = 0, found[EPS_DIRECTIONS];
    for (size_t e = 0; e < EPOCHS; e++) {
        double norm = e == 7 ? 1 : e == 9 ? 1e-150 : e == 11 ? 0 : 0.0099;
        norms[BINS * e] = norm;
        norms[BINS * e + 1] = norm / 2;
        small += e == 7 ? 0 : norm * norm;
    }
    struct eps_job job = diagonal(norms, BINS, EPOCHS, &entries);
    solved_deltas(found, job, sigma, eps);
    free(entries);
    for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++) {
        const struct case_ alone = {d, BINS, 1, 1 / sigma, 0}, both = {d, BINS, 1, 1 / sigma, sqrt(small) / sigma};
        struct eps__curves *curves = open_case(&alone, 1e-3);
        double least = exp(bracket_of(curves, eps).lower);
        eps__curves_destroy(curves);
        curves = open_case(&both, 1e-3);
        double exact = exp(bracket_of(curves, eps).upper);
        eps__curves_destroy(curves);
        if (!(fabs(found[d] / exact - 1) < 2e-3) || !(found[d] > 1.02 * least))
            fail_msg("direction %d: %g for %g, and %g without them", (int)d, found[d], exact, least);
    }
}
