/*
 * Product mixtures compared with the law of all subsets: the density of every approximation lies on its side of the
 * true one, and as close as claimed, at every z.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "lib/numerics/normal.h"
#include "lib/pld/pairs/product_mixture.h"
#include "tests/unit/draw.h"
#include "tests/unit/patience.h"
#include "tests/unit/test.h"

static bool near(double a, double b, double error)
{
    return fabs(a - b) <= error;
}

enum { FACTORS = 10, CASES = 24 };

static long double density(const struct eps__mixture *mixture, double z)
{
    long double sum = 0;
    for (size_t i = 0; i < mixture->len; i++) {
        long double s = mixture->shift[i];
        sum += mixture->weight[i] * expl(s * z - 0.5L * s * s);
    }
    return sum;
}

/* The law itself; with `trimmed`: the atoms whose shift is above this are left out. */
static long double true_density(const struct eps__factor *factors, size_t len, double z)
{
    long double sum = 0;
    for (size_t set = 0; set < (size_t)1 << len; set++) {
        long double probability = 1, s = 0;
        for (size_t k = 0; k < len; k++) {
            long double p = 1 / (1 + expl(-(long double)factors[k].log_odds));
            probability *= set >> k & 1 ? p : 1 - p;
            s += set >> k & 1 ? factors[k].shift : 0;
        }
        sum += probability * expl(s * z - 0.5L * s * s);
    }
    return sum;
}

static size_t draw_factors(uint64_t *seed, struct eps__factor *factors, double most_shift)
{
    size_t len = 1 + draw_below(seed, FACTORS);
    double most_p = draw_log(seed, 1e-3, 1);
    for (size_t k = 0; k < len; k++) {
        double p = most_p * draw_unit(seed);
        factors[k] = (struct eps__factor){most_shift * draw_unit(seed), log(p) - log1p(-p), 1};
    }
    return len;
}

TEST(atoms_lie_on_their_side)
{
    uint64_t seed = 314159;
    for (int c = 0; c < CASES; c++) {
        struct eps__factor factors[FACTORS];
        size_t len = draw_factors(&seed, factors, draw_log(&seed, 0.01, 3)), most = c % 2 ? 12 : 60;
        for (enum eps__side side = EPS__OVER; side <= EPS__UNDER; side++) {
            struct eps__mixture mixture;
            struct eps__atoms_error error;
            assert_true(eps__product_atoms(&mixture, &error, factors, len, side,
                                           &(struct eps__atoms_limits){1e-5, -200, most}));
            assert_in_range(mixture.len, 1, most);
            for (double z = -9; z <= 12; z += 0.75) {
                long double truth = true_density(factors, len, z), own = density(&mixture, z);
                if (side == EPS__OVER)
                    assert_true(truth <= own * (1 + (long double)error.weight) * (1 + 1e-15L));
                else
                    assert_true(truth >= own * (1 - (long double)error.weight) * (1 - 1e-15L));
                if ((size_t)1 << len <= most)
                    assert_true(fabsl(truth / own - 1) < 1e-12L);
            }
            eps__mixture_clear(&mixture);
        }
    }
}

TEST(quadrature_is_as_good_as_it_says)
{
    uint64_t seed = 662607;
    size_t found = 0;
    for (int c = 0; c < CASES; c++) {
        struct eps__factor factors[FACTORS];
        double reach = draw_between(&seed, 4, 9), budget = draw_log(&seed, 1e-12, 1e-4), error;
        size_t len = draw_factors(&seed, factors, draw_log(&seed, 1e-3, 0.5));
        struct eps__mixture mixture;
        assert_true(eps__product_moments(&mixture, &error, factors, len, reach, budget, true));
        if (isinf(error)) {
            assert_int_equal(mixture.len, 0);
            continue;
        }
        found++;
        assert_true(error <= budget);
        for (double z = -reach; z <= reach; z += reach / 16) {
            long double ratio = true_density(factors, len, z) / density(&mixture, z) - 1;
            assert_true(fabsl(ratio) <= (long double)error * (1 + 1e-9L) + 1e-18L);
        }
        eps__mixture_clear(&mixture);
    }
    assert_true(found >= CASES / 3);
}

enum { KINDS = 2, TIMES_MAX = 400 };

/* The law of two binomials. */
static long double binomials_density(const struct eps__factor *factors, double z)
{
    static long double law[KINDS][TIMES_MAX + 1];
    long double sum = 0;
    for (size_t k = 0; k < KINDS; k++) {
        long double odds = expl(factors[k].log_odds), count = (long double)factors[k].count;
        law[k][0] = expl(-count * log1pl(odds));
        for (size_t i = 1; i <= (size_t)factors[k].count; i++)
            law[k][i] = law[k][i - 1] * (count - (long double)i + 1) / (long double)i * odds;
    }
    for (size_t i = 0; i <= (size_t)factors[0].count; i++)
        for (size_t j = 0; j <= (size_t)factors[1].count; j++) {
            long double s = (long double)i * factors[0].shift + (long double)j * factors[1].shift;
            long double mass = law[0][i] * law[1][j];
            sum += mass > 1e-40L ? mass * expl(s * z - 0.5L * s * s) : 0;
        }
    return sum;
}

/* (P13): hundreds of participations, far from 0; the atoms are few and near the mean. */
TEST(quadrature_about_the_mean_is_as_good_as_it_says)
{
    uint64_t seed = 602214;
    size_t away = 0;
    for (int c = 0; c < CASES; c++) {
        double reach = draw_between(&seed, 6, 9), budget = draw_log(&seed, 1e-9, 1e-3), error;
        double mean = draw_between(&seed, 0.6, 2.5), wanted = 0;
        struct eps__factor factors[KINDS];
        for (size_t k = 0; k < KINDS; k++) { /* some more likely than not */
            double p = draw_between(&seed, 0.1, 0.7), count = (double)(150 + draw_below(&seed, TIMES_MAX - 149));
            factors[k] = (struct eps__factor){draw_between(&seed, 0.5, 1.5), log(p) - log1p(-p), count};
            wanted += p * count * factors[k].shift;
        }
        for (size_t k = 0; k < KINDS; k++)
            factors[k].shift *= mean / wanted;
        struct eps__mixture mixture;
        assert_true(eps__product_moments(&mixture, &error, factors, KINDS, reach, budget, true));
        if (isinf(error))
            continue;
        assert_true(error <= budget && mixture.len <= 12);
        away += mixture.shift[0] > 0;
        for (double z = -reach; z <= reach; z += reach / 4) {
            long double ratio = binomials_density(factors, z) / density(&mixture, z) - 1;
            if (!(fabsl(ratio) <= (long double)error + 1e-14L))
                fail_msg("case %d, z %g: %Lg is off, not %g", c, z, ratio, error);
        }
        eps__mixture_clear(&mixture);
    }
    assert_true(away > CASES / 2);
}

TEST(what_is_outside_is_bounded)
{
    uint64_t seed = 137035;
    for (int c = 0; c < CASES; c++) {
        struct eps__factor factors[FACTORS];
        size_t len = draw_factors(&seed, factors, draw_log(&seed, 0.01, 2));
        double reach = draw_between(&seed, 3, 20), outside = 0;
        for (size_t set = 0; set < (size_t)1 << len; set++) {
            double probability = 1, s = 0;
            for (size_t k = 0; k < len; k++) {
                double p = 1 / (1 + exp(-factors[k].log_odds));
                probability *= set >> k & 1 ? p : 1 - p;
                s += set >> k & 1 ? factors[k].shift : 0;
            }
            outside += probability * (exp(eps__log_normal_tail(reach - s)) + exp(eps__log_normal_tail(reach + s)));
        }
        double bound = eps__product_log_outside(factors, len, reach);
        assert_true(bound >= log(outside));
        assert_true(bound < 0.5 * log(outside) + 2);
    }
}

/* Mass that was trimmed at the top is counted. */
TEST(trimmed_mass_is_lost_mass)
{
    const struct eps__factor factors[] = {{1, -3, 6}, {0.5, -4, 2}};
    struct eps__mixture mixture;
    struct eps__atoms_error error;
    double sum = 0;
    assert_true(
        eps__product_atoms(&mixture, &error, factors, 2, EPS__OVER, &(struct eps__atoms_limits){1e-9, log(1e-4), 60}));
    for (size_t i = 0; i < mixture.len; i++)
        sum += mixture.weight[i];
    assert_true(error.lost > 0 && error.lost <= 1.1e-4);
    assert_true(near(sum + error.lost, 1, 1e-11));
    assert_true(mixture.whole && near(sum + mixture.missing, 1, 1e-11));
    eps__mixture_clear(&mixture);
}

/* (P2): weights are those of a law apart from what was trimmed, or are marked as no law. */
TEST(a_law_is_told_from_a_thinned_list)
{
    uint64_t seed = 299792;
    size_t laws = 0, thinned = 0;
    for (int c = 0; c < CASES; c++) {
        struct eps__factor factors[FACTORS];
        size_t len = draw_factors(&seed, factors, draw_log(&seed, 0.1, 3));
        double floor_mass = c % 3 ? 1e-60 : 1e-6;
        for (enum eps__side side = EPS__OVER; side <= EPS__UNDER; side++) {
            struct eps__mixture mixture;
            struct eps__atoms_error error;
            long double sum = 0;
            assert_true(eps__product_atoms(&mixture, &error, factors, len, side,
                                           &(struct eps__atoms_limits){1e-3, log(floor_mass), 60}));
            for (size_t i = 0; i < mixture.len; i++)
                sum += mixture.weight[i];
            if (mixture.whole) {
                assert_true(mixture.missing <= 1.01 * floor_mass && fabsl(1 - sum - mixture.missing) < 1e-12L);
                laws++;
            } else {
                assert_true((size_t)1 << len > 60);
                thinned++;
            }
            eps__mixture_clear(&mixture);
        }
    }
    assert_true(laws >= 10 && thinned >= 5);
}

/* Without a budget, and where the differences of shifts exceed the range of doubles, a list is still short. */
TEST(every_list_is_thinned)
{
    enum { LEN = 12 };
    const double shifts[] = {1, 1e-320, 1e160, 1e308};
    for (size_t i = 0; i < sizeof shifts / sizeof *shifts; i++)
        for (enum eps__side side = EPS__OVER; side <= EPS__UNDER; side++) {
            struct eps__factor factors[LEN];
            struct eps__mixture mixture;
            struct eps__atoms_error error;
            for (size_t k = 0; k < LEN; k++)
                factors[k] = (struct eps__factor){shifts[i] / (double)(1 + k), 0, 1};
            patience_begin("shift", i, 20);
            assert_true(
                eps__product_atoms(&mixture, &error, factors, LEN, side, &(struct eps__atoms_limits){0, -700, 60}));
            assert_in_range(mixture.len, 0, 60); /* 0: of atoms far apart nothing may be left that is under the law */
            eps__mixture_clear(&mixture);
        }
    patience_end();
}
