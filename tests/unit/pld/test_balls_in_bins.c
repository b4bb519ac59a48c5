/*
 * The mean of lognormals: its law on a grid compared with closed forms, two and three bins with quadrature, more of
 * them with importance samples and with numbers computed by others; and properties of every answer.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "lib/numerics/normal.h"
#include "lib/pld/known/balls_in_bins.h"
#include "lib/pld/pairs/lognormal.h"
#include "tests/unit/draw.h"
#include "tests/unit/solved.h"
#include "tests/unit/test.h"

static const uint64_t seed = 20077;

struct bracket {
    double upper, lower; /* logarithms */
};

static struct bracket bracket_at(enum eps_direction direction, size_t bins, double shift, double eps, double tolerance)
{
    const struct eps__accuracy accuracy = {EPS_SOLVE_DELTA, tolerance, NAN};
    struct eps__balls_in_bins *balls_in_bins;
    struct bracket found;
    assert_int_equal(eps__balls_in_bins_create(&balls_in_bins, NULL, direction, bins, shift, shift, &accuracy), EPS_OK);
    assert_int_equal(eps__balls_in_bins_log_delta(balls_in_bins, EPS__UPPER, eps, &found.upper), EPS_OK);
    assert_int_equal(eps__balls_in_bins_log_delta(balls_in_bins, EPS__LOWER, eps, &found.lower), EPS_OK);
    for (int i = 0; i < 4 && !(found.upper - found.lower < tolerance); i++) {
        double wide = fmin(found.upper - found.lower, 100 * tolerance) / tolerance;
        if (!eps__balls_in_bins_refine(balls_in_bins, fmin(1.3 * sqrt(wide), 16)))
            break;
        struct bracket finer;
        if (eps__balls_in_bins_log_delta(balls_in_bins, EPS__UPPER, eps, &finer.upper) != EPS_OK ||
            eps__balls_in_bins_log_delta(balls_in_bins, EPS__LOWER, eps, &finer.lower) != EPS_OK)
            break;
        found = finer;
    }
    eps__balls_in_bins_destroy(balls_in_bins);
    return found;
}

/* The bracket contains the truth, whose logarithm is known to within `error`, and is as narrow as requested. */
static void holds(enum eps_direction direction, size_t bins, double shift, double eps, double truth, double error,
                  double tolerance)
{
    struct bracket found = bracket_at(direction, bins, shift, eps, tolerance);
    if (!(found.lower <= truth + error && truth - error <= found.upper))
        fail_msg("%s, %zu bins, shift %g, eps %g: %.15g not in [%.15g, %.15g]", direction == EPS_ADD ? "add" : "remove",
                 bins, shift, eps, truth, found.lower, found.upper);
    if (!(found.upper - found.lower < tolerance))
        fail_msg("%s, %zu bins, shift %g, eps %g: a width of %g, not %g", direction == EPS_ADD ? "add" : "remove", bins,
                 shift, eps, found.upper - found.lower, tolerance);
}

/* ------------------------------------------------------------ the truth */

/* E[(V - k)_+] and E[(k - V)_+]. */
static double call(double s, double k)
{
    double error;
    return k > 0 ? exp(eps__gaussian_log_delta(s, log(k), &error)) : 1 - k;
}

static double put(double s, double k)
{
    double error;
    return k > 0 ? k * exp(eps__gaussian_log_delta(s, -log(k), &error)) : 0;
}

static double quadrature(double s, double k, size_t left, bool falls, size_t panels);

/* By panels of four Gauss-Legendre points in z. */
static double between(double s, double k, size_t left, bool falls, size_t panels, double low, double top)
{
    static const double node[] = {0.33998104358485626, 0.86113631159405258},
                        weight[] = {0.65214515486254614, 0.34785484513745386};
    double half = 0.5 * (top - low) / (double)panels, total = 0;
    for (size_t i = 0; i < panels; i++) {
        for (int p = 0; p < 4; p++) {
            double z = low + half * (2 * (double)i + 1 + (p % 2 ? -1 : 1) * node[p / 2]);
            double density = exp(-0.5 * z * z - EPS__LOG_SQRT_2PI);
            total +=
                half * weight[p / 2] * density * quadrature(s, k - exp(s * z - 0.5 * s * s), left - 1, falls, panels);
        }
    }
    return total;
}

/* The last variable is integrated in closed form; where one alone reaches k, the remaining function has a bend. */
static double quadrature(double s, double k, size_t left, bool falls, size_t panels)
{
    if (left == 0)
        return falls ? put(s, k) : call(s, k);
    double top = 12 + s, low = -14;
    if (!(k > 0))
        return falls ? 0 : (double)(left + 1) - k;
    double bend = (log(k) + 0.5 * s * s) / s;
    if (falls)
        return between(s, k, left, falls, panels, fmin(-14, bend - 14), bend);
    double under = bend - 8 / (s * fmax(k, 1)), over = bend;
    if (!(over < top))
        return between(s, k, left, falls, panels, low, fmin(top, over));
    under = fmax(under, low);
    over = fmax(over, low);
    return (under > low ? between(s, k, left, falls, panels, low, under) : 0) +
           (over > under ? between(s, k, left, falls, panels, under, over) : 0) +
           between(s, k, left, falls, panels, over, top);
}

static double exact_log_delta(enum eps_direction direction, size_t bins, double s, double eps, size_t panels)
{
    bool falls = direction == EPS_ADD;
    double b = (double)bins, value = quadrature(s, b * exp(falls ? -eps : eps), bins - 1, falls, panels);
    return log(value) - log(b) + (falls ? eps : 0);
}

TEST(one_bin_is_a_gaussian)
{
    for (double s = 0.01; s < 30; s *= 3)
        for (double eps = 0; eps < 12; eps += 1.7)
            for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++) {
                double error, exact = eps__gaussian_log_delta(s, eps, &error);
                holds(d, 1, s, eps, exact, error, 1e-8 + 1e-12 * fabs(exact));
            }
}

TEST(two_bins_are_an_integral)
{
    for (double s = 0.1; s < 6; s *= 2.5)
        for (double eps = 0; eps < 10; eps = 2.5 * eps + 0.1)
            for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++) {
                double exact = exact_log_delta(d, 2, s, eps, 400);
                if (exact > -60)
                    holds(d, 2, s, eps, exact, 1e-6, 1e-3);
            }
}

TEST(three_bins_are_a_double_integral)
{
    for (double s = 0.3; s < 3; s *= 4)
        for (double eps = 0.1; eps < 4; eps *= 4)
            for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++) {
                double exact = exact_log_delta(d, 3, s, eps, 30);
                if (exact > -40)
                    holds(d, 3, s, eps, exact, 1e-5, 1e-3);
            }
}

/* mpmath, 50 digits: quad() over z of phi(z) times the closed form of the other lognormal, cut at 25 points around
 * where it bends. */
TEST(small_deltas_are_as_precise)
{
    static const struct {
        double shift, eps, remove, add;
    } known[] = {
        {1, 5, 1.6162263420598501e-8, 4.0087439246403994e-12},
        {1, 7.5, 8.0574298508641696e-16, 4.8543378234728712e-25},
        {0.5, 3, 4.5119693670080844e-14, 4.3275761252964438e-18},
        {0.5, 5, 1.9102150572867924e-30, 1.5227289414672862e-45},
        {0.1, 0.7, 2.6582921942269783e-25, 2.2663771181376319e-25},
        {0.1, 1.1, 3.2838866456920552e-56, 6.7400395413716422e-57},
        {3, 20, 1.1660315272478371e-8, 7.689895464044243e-15},
        {0.02, 0.15, 1.9738643165690577e-29, 1.9715585788296948e-29},
        {2, 14, 2.5572420221182065e-11, 4.2508183532668252e-19},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        holds(EPS_REMOVE, 2, known[i].shift, known[i].eps, log(known[i].remove), 1e-12, 1e-3);
        holds(EPS_ADD, 2, known[i].shift, known[i].eps, log(known[i].add), 1e-12, 1e-3);
        holds(EPS_REMOVE, 2, known[i].shift, known[i].eps, log(known[i].remove), 1e-12, 2e-5);
    }
}

/* accounting.md's reference values, by an independent FFT: the true sigma at delta = 1e-5, 100 bins, one epoch. */
TEST(others_found_the_same)
{
    static const struct {
        double eps, sigma, remove, add;
    } known[] = {
        {0.5, 1.0736848829282124, 9.999999992404973e-06, 7.376403631002116e-08},
        {1, 0.8731096077096553, 1.0000006292365526e-05, 1.4864333146268044e-14},
        {2, 0.7176760643486897, 9.999999996068709e-06, 0},
        {4, 0.5661803327336721, 9.999961697815252e-06, 0},
        {8, 0.415066887624848, 1.0000023848988349e-05, 0},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        holds(EPS_REMOVE, 100, 1 / known[i].sigma, known[i].eps, log(known[i].remove), 2e-5, 1e-3);
        if (known[i].add > 0)
            holds(EPS_ADD, 100, 1 / known[i].sigma, known[i].eps, log(known[i].add), 2e-3, 1e-3);
    }
}

/* Twenty bins: under P the first lognormal's mean is moved by s^2, and delta_remove = E_P[(1 - K/S)_+]; for delta_add
 * all are moved down. */
TEST(twenty_bins_are_sampled)
{
    enum { BINS = 20, DRAWS = 30000 };
    uint64_t state = seed;
    for (double s = 0.5; s < 1.5; s *= 2)
        for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++) {
            double eps = d == EPS_ADD ? 0.05 + 0.1 * s : 0.05 + 0.2 * s, sum = 0, square = 0, shift = 0.6 * eps / s;
            for (int i = 0; i < DRAWS; i++) {
                double total = 0, moved = 0, value;
                for (int j = 0; j < BINS; j++) {
                    double z = sqrt(-2 * log(draw_unit(&state) + 1e-18)) * cos(2 * M_PI * draw_unit(&state));
                    z += d == EPS_ADD ? -shift : j == 0 ? s : 0;
                    moved += shift * z + 0.5 * shift * shift;
                    total += exp(s * z - 0.5 * s * s);
                }
                if (d == EPS_ADD)
                    value = fmax(1 - exp(eps) * total / BINS, 0) * exp(moved);
                else
                    value = fmax(1 - BINS * exp(eps) / total, 0);
                sum += value;
                square += value * value;
            }
            double mean = sum / DRAWS, deviation = sqrt(square / DRAWS - mean * mean) / sqrt(DRAWS);
            assert_true(deviation < 0.1 * mean);
            holds(d, BINS, s, eps, log(mean), 5 * deviation / mean, 1e-3);
        }
}

/* ------------------------------------------------------------ the law on a grid */

/* E[(loss - k)_+] of a tilted distribution. */
static double curve_of(const struct eps__pld *pld, double k)
{
    double total = 0;
    for (size_t i = 0; i < pld->len; i++) {
        double loss = eps__pld_loss(pld, i);
        total += pld->mass[i] * exp(pld->log_scale - pld->tilt * loss) * fmax(loss - k, 0);
    }
    return total;
}

/* E[(loss - k)_+; V <= c]; for small sums, V below the least value is left out. */
static double curve_exact(const struct eps__lognormal *law, double k)
{
    double s = law->s, value = law->falls ? -k : 1 + k;
    if (law->falls)
        return put(s, value);
    double cut = exp(s * law->z_cut - 0.5 * s * s), above = exp(eps__log_normal_tail(law->z_cut));
    double beyond = exp(eps__log_normal_tail(law->z_cut - s)) - fmin(value, cut) * above;
    return call(s, value) - beyond;
}

/* P14 and P15: above and below everywhere, and close where the grid was aimed. */
TEST(grids_enclose_the_law)
{
    uint64_t state = seed + 1;
    int checked = 0, empty = 0;
    for (int c = 0; c < 100; c++) {
        double s = draw_log(&state, 0.01, 4), spacing = s * exp(0.5 * s * s) * draw_log(&state, 3e-3, c % 3 ? 0.1 : 1);
        struct eps__lognormal law = {.s = s, .falls = c % 2, .z_least = -INFINITY};
        struct eps__lognormal_aim aim;
        double target = s * draw_between(&state, 0, 2);
        if (law.falls)
            target = fmin(target, 0.7) - 1;
        double cut = law.falls ? 0.5 - 0.5 * target : 1 + s * draw_between(&state, 4, 60) + target;
        law.z_cut = (log(cut) + 0.5 * s * s) / s;
        if (!eps__lognormal_aim(&law, 1, target, &aim))
            continue;
        for (enum eps__estimate estimate = EPS__UPPER; estimate <= EPS__LOWER; estimate++) {
            struct eps__pld pld;
            assert_int_equal(eps__lognormal_build(NULL, &pld, &law, &aim, spacing, -60, estimate), EPS_OK);
            empty += pld.len < 2;
            for (size_t i = 0; i < pld.len; i++)
                assert_true(pld.mass[i] > 0 && (i == 0 || pld.index[i] > pld.index[i - 1]));
            for (int j = 0; j < 100; j++) {
                double k = law.falls ? draw_between(&state, -cut, 0) : draw_between(&state, -1, cut - 1);
                double exact = curve_exact(&law, k), found = curve_of(&pld, k), slack = 1e-11 * (1 + fabs(k)) * exact;
                slack += 1e-300 + (law.falls ? 0 : 1e-13 * exp(eps__log_normal_tail(law.z_cut - s)));
                if (estimate == EPS__UPPER ? found < exact - slack : found > exact + slack)
                    fail_msg("case %d, estimate %d: %.15g for %.15g at %g; s %g, spacing %g, cut %g, falls %d", c,
                             (int)estimate, found, exact, k, s, spacing, cut, law.falls);
                checked++;
            }
            eps__pld_clear(&pld);
        }
    }
    print_message("# %d points, %d grids of no use, seed %llu\n", checked, empty, (unsigned long long)seed);
    assert_true(checked > 10000 && empty < 30);
}

/* ------------------------------------------------------------ what must hold */

/* E[(X - 1)_+] = E[(1 - X)_+], as the mean of X is 1. */
TEST(directions_agree_at_0_alone)
{
    static const size_t bins[] = {2, 100};
    for (size_t i = 0; i < sizeof bins / sizeof *bins; i++)
        for (double s = 0.03; s < 4; s *= 4) {
            struct bracket remove = bracket_at(EPS_REMOVE, bins[i], s, 0, 3e-4);
            struct bracket add = bracket_at(EPS_ADD, bins[i], s, 0, 3e-4);
            assert_true(remove.lower <= add.upper && add.lower <= remove.upper);
            assert_true(remove.upper - remove.lower < 3e-4 && add.upper - add.lower < 3e-4);
            if (s > 0.2)
                assert_true(bracket_at(EPS_ADD, bins[i], s, 0.3, 1e-3).upper <
                            bracket_at(EPS_REMOVE, bins[i], s, 0.3, 1e-3).lower);
        }
}

/* More noise, a larger epsilon or more bins give a smaller delta; and the delta without sampling is a bound. */
TEST(less_is_less)
{
    static const size_t bins[] = {1, 2, 40};
    for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++)
        for (double s = 0.5; s < 5; s *= 3) {
            double before = 0, error;
            for (size_t i = 0; i < sizeof bins / sizeof *bins; i++) {
                struct bracket here = bracket_at(d, bins[i], s, 0.5, 1e-3);
                assert_true(here.lower <= before && here.upper <= 0);
                assert_true(here.upper <= eps__gaussian_log_delta(s, 0.5, &error) + 1e-9);
                assert_true(bracket_at(d, bins[i], 0.8 * s, 0.5, 1e-3).lower <= here.upper);
                assert_true(bracket_at(d, bins[i], s, 0.7, 1e-3).lower <= here.upper);
                before = here.upper;
            }
        }
}

/* Where delta is 0, and where it is everything: no bound is lost, and the answer comes at once. */
TEST(extremes_are_answered)
{
    static const struct {
        size_t bins;
        double shift, eps;
    } cases[] = {{2, 20, 0},       {20, 20, 1},      {1000, 20, 3},   {20, 0.3, 13}, {1000, 0.1, 4}, {2, 1e-3, 1},
                 {2, 1e-3, 0.003}, {10, 1e-3, 2e-3}, {3, 1e-6, 1e-6}, {5, 3, 100},   {5, 3, 1000},   {100, 5, 8}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++) {
            double error, gaussian = eps__gaussian_log_delta(cases[i].shift, cases[i].eps, &error);
            struct bracket found = bracket_at(d, cases[i].bins, cases[i].shift, cases[i].eps, 1e-2);
            assert_true(found.lower <= found.upper && found.upper <= fmin(gaussian + error + 1e-9, 0));
            if (found.upper > -200)
                assert_true(found.upper - found.lower < 0.05);
        }
}

/* Norms in an interval: the upper bound is that of the largest norm, the lower one that of the least. */
TEST(norms_are_bounded_from_both_sides)
{
    const struct eps__accuracy accuracy = {EPS_SOLVE_DELTA, 1e-3, NAN};
    for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++) {
        struct eps__balls_in_bins *balls_in_bins;
        double upper, lower;
        assert_int_equal(eps__balls_in_bins_create(&balls_in_bins, NULL, d, 5, 0.9, 1.1, &accuracy), EPS_OK);
        assert_int_equal(eps__balls_in_bins_log_delta(balls_in_bins, EPS__UPPER, 0.5, &upper), EPS_OK);
        assert_int_equal(eps__balls_in_bins_log_delta(balls_in_bins, EPS__LOWER, 0.5, &lower), EPS_OK);
        struct bracket least = bracket_at(d, 5, 0.9, 0.5, 1e-3), most = bracket_at(d, 5, 1.1, 0.5, 1e-3);
        assert_true(upper >= most.lower && upper - most.upper < 1e-2);
        assert_true(lower <= least.upper && least.lower - lower < 1e-2);
        eps__balls_in_bins_destroy(balls_in_bins);
    }
}

/* An answer for an epsilon near another one's is read off the same composition, and is the same. */
TEST(neighbours_are_answered_alike)
{
    const struct eps__accuracy accuracy = {EPS_SOLVE_DELTA, 1e-3, NAN};
    for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++) {
        struct eps__balls_in_bins *balls_in_bins;
        assert_int_equal(eps__balls_in_bins_create(&balls_in_bins, NULL, d, 50, 1, 1, &accuracy), EPS_OK);
        for (double eps = 1; eps < 1.2; eps += 0.05) {
            double upper, lower;
            assert_int_equal(eps__balls_in_bins_log_delta(balls_in_bins, EPS__UPPER, eps, &upper), EPS_OK);
            assert_int_equal(eps__balls_in_bins_log_delta(balls_in_bins, EPS__LOWER, eps, &lower), EPS_OK);
            struct bracket alone = bracket_at(d, 50, 1, eps, 1e-4);
            assert_true(lower <= alone.upper && alone.lower <= upper && upper - lower < 0.1);
        }
        eps__balls_in_bins_destroy(balls_in_bins);
        /* two bins, where the cut is near all that counts, from the larger epsilon downwards */
        assert_int_equal(eps__balls_in_bins_create(&balls_in_bins, NULL, d, 2, 3, 3, &accuracy), EPS_OK);
        for (double eps = 0.5; eps > 0; eps -= 0.05) {
            double upper, lower;
            assert_int_equal(eps__balls_in_bins_log_delta(balls_in_bins, EPS__UPPER, eps, &upper), EPS_OK);
            assert_int_equal(eps__balls_in_bins_log_delta(balls_in_bins, EPS__LOWER, eps, &lower), EPS_OK);
            double exact = exact_log_delta(d, 2, 3, eps, 200);
            assert_true(lower <= exact + 1e-9 && exact - 1e-9 <= upper && upper - lower < 0.1);
        }
        eps__balls_in_bins_destroy(balls_in_bins);
    }
}

/* ------------------------------------------------------------ the accountant */

static struct eps_job job_new(size_t bins, size_t epochs)
{
    struct eps_job job;
    eps_job_init(&job);
    job.mechanism.n = bins * epochs;
    job.mechanism.sampling.scheme = EPS_SCHEME_BALLS_IN_BINS;
    job.mechanism.sampling.bins = bins;
    job.query.accountant.method = EPS_ACCOUNTANT_PLD;
    return job;
}

/* k epochs of the identity are one at sigma/sqrt(k); the noise is never below the true one, and hardly above. */
TEST(noise_is_as_it_must_be)
{
    static const struct {
        double eps, sigma;
    } known[] = {{0.5, 1.0736848829282124}, {1, 0.8731096077096553}, {8, 0.415066887624848}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        for (size_t epochs = 1; epochs <= 4; epochs += 3) {
            struct eps_job job = job_new(100, epochs);
            double truth = known[i].sigma * sqrt((double)epochs);
            job.query.epsilon = known[i].eps;
            job.query.delta = 1e-5;
            struct answer sigma = answered(job);
            assert_true(sigma.value >= truth * (1 - 1e-6) && sigma.value <= truth * (1 + 1e-3));
            assert_true(sigma.value - sigma.lower <= 1e-3 * sigma.value);
            job.query.epsilon = NAN;
            job.query.noise_multiplier = truth;
            struct answer eps = answered(job);
            assert_true(eps.value >= known[i].eps * (1 - 1e-5) && eps.lower <= known[i].eps * (1 + 1e-5));
            assert_true(eps.value - eps.lower <= 1e-3 * eps.value);
        }
}

TEST(what_is_not_derived_is_declined)
{
    const char bins[] =
        "'sampling':{'scheme':'balls_in_bins','bins':20},'noise_multiplier':1,'delta':1e-5,'accountant':'pld'";
    assert_refused(job_of("{'n':40,%s,'adjacency':'replace_one'}", bins), EPS_UNSUPPORTED, "/adjacency");
    assert_refused(job_of("{'n':40,%s,'matrix':{'family':'dense','rows':[[1],[-1,1]],'stamps':20,"
                          "'normalization':'none'}}",
                          bins),
                   EPS_UNSUPPORTED, "/matrix");
    struct eps_job job = job_of("{'n':20,%s}", bins);
    double same = answered(job).value;
    job.mechanism.sampling.redraw = true;
    assert_true(answered(job).value == same);
    job.mechanism.adjacency = EPS_ADJACENCY_ADD_REMOVE;
    assert_true(answered(job).value == same);
}

/* Losses smaller than the finest grid: an answer, if only that without sampling. */
TEST(tiny_norms_are_answered)
{
    const struct eps__accuracy accuracy = {EPS_SOLVE_DELTA, 2e-2, NAN};
    for (double shift = 1e-12; shift < 1e-7; shift *= 1.5)
        for (double z = 0.5; z < 20; z *= 1.6)
            for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++) {
                struct eps__balls_in_bins *law;
                double found, error, gaussian = eps__gaussian_log_delta(shift, z * shift, &error);
                assert_int_equal(eps__balls_in_bins_create(&law, NULL, direction, 2, shift, shift, &accuracy), EPS_OK);
                eps__balls_in_bins_ascend(law, 1);
                assert_int_equal(eps__balls_in_bins_log_delta(law, EPS__UPPER, z * shift, &found), EPS_OK);
                assert_true(found <= gaussian + 1e-9);
                eps__balls_in_bins_destroy(law);
            }
}
