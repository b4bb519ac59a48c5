/*
 * The moments of balls in bins compared with sums over all draws, one by one in quadruple precision: chains of every
 * width, cyclic and open, graphs, powers of series; and the doubles that represent the mechanism's Gram matrix.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "lib/moments/laws/balls_in_bins.h"
#include "lib/moments/laws/chain.h"
#include "lib/moments/laws/low_orders.h"
#include "lib/moments/laws/powers.h"
#include "lib/numerics/bound.h"
#include "tests/unit/draw.h"
#include "tests/unit/test.h"

enum { BINS_MAX = 8, ORDER_MAX = 6 };
static const uint64_t seed = 2718;

/* ------------------------------------------------------------ draw by draw */

struct direct {
    size_t len;
    eps__quad weights[BINS_MAX][BINS_MAX]; /* e^G */
    unsigned order;
    size_t draws[ORDER_MAX];
    eps__quad sum;
};

/* The mean over all b^order draws of `product` over their pairs. */
static void each_draw(struct direct *direct, unsigned drawn, eps__quad weight)
{
    if (drawn == direct->order) {
        direct->sum += weight;
        return;
    }
    for (size_t i = 0; i < direct->len; i++) {
        eps__quad product = weight;
        for (unsigned a = 0; a < drawn; a++)
            product *= direct->weights[i][direct->draws[a]];
        direct->draws[drawn] = i;
        each_draw(direct, drawn + 1, product);
    }
}

static eps__quad direct_moment(const struct eps__bin_gram *bins, unsigned order)
{
    struct direct direct = {.len = bins->len, .order = order};
    eps__quad draws = 1;
    for (size_t i = 0; i < bins->len; i++)
        for (size_t j = 0; j < bins->len; j++)
            direct.weights[i][j] = expq(eps__bin_gram_entry(bins, i, j));
    for (unsigned a = 0; a < order; a++)
        draws *= (eps__quad)bins->len;
    each_draw(&direct, 0, 1);
    return direct.sum / draws;
}

/* E (X - 1)^j: quadruple precision has digits to spare. */
static eps__quad direct_central(const struct eps__bin_gram *bins, unsigned order)
{
    eps__quad sum = 0, binomial = 1;
    for (unsigned i = order + 1; i-- > 0;) {
        sum += ((order - i) % 2 == 0 ? 1 : -1) * binomial * direct_moment(bins, i);
        binomial = binomial * i / (order - i + 1);
    }
    return sum;
}

static double relative(eps__quad found, eps__quad exact)
{
    return (double)(fabsq(found - exact) / fabsq(exact));
}

/* ------------------------------------------------------------ random matrices */

/* Entries at a cyclic distance below width; with or without corners; some bins empty. */
static void draw_gram(uint64_t *state, double *gram, size_t len, size_t width, bool open)
{
    double scale = draw_log(state, 1e-4, 2);
    bool empty[BINS_MAX] = {false}, wild = draw_below(state, 4) == 0;
    for (size_t i = 0; i < len; i++)
        empty[i] = draw_below(state, 10) == 0;
    for (size_t i = 0; i < len; i++)
        for (size_t j = 0; j <= i; j++) {
            size_t apart = i - j;
            bool near = apart < width || (!open && len - apart < width);
            double entry = scale * (wild ? draw_log(state, 1e-9, 1) : draw_unit(state));
            gram[i * len + j] = gram[j * len + i] = near && !empty[i] && !empty[j] ? entry : 0;
        }
}

static struct eps__bin_gram draw_bins(uint64_t *state, size_t len, size_t width, bool open)
{
    double gram[BINS_MAX * BINS_MAX];
    struct eps__bin_gram bins;
    draw_gram(state, gram, len, width, open);
    assert_int_equal(eps__bin_gram_make(&bins, gram, NULL, len, 0, 1), EPS_OK);
    return bins;
}

/* ------------------------------------------------------------ the matrix */

/* M8, M9: each entry is at least the true one, and the diagonal exceeds it by enough for the difference to be a Gram
 * matrix. */
TEST(the_matrix_dominates)
{
    uint64_t state = seed;
    for (int c = 0; c < 300; c++) {
        size_t len = 1 + draw_below(&state, BINS_MAX);
        double exact[BINS_MAX * BINS_MAX], told[BINS_MAX * BINS_MAX], error = c % 3 ? draw_log(&state, 1e-16, 1e-6) : 0;
        double sigma = draw_log(&state, 1e-2, 1e2);
        struct eps__bin_gram bins;
        draw_gram(&state, exact, len, len, false);
        for (size_t i = 0; i < len * len; i++)
            told[i] = exact[i] * (1 + error * (2 * draw_unit(&state) - 1) * (1 - 1e-6));
        assert_int_equal(eps__bin_gram_make(&bins, told, NULL, len, error, sigma), EPS_OK);
        for (size_t i = 0; i < len; i++) {
            eps__quad beside = 0;
            for (size_t j = 0; j < len; j++) {
                eps__quad more =
                    eps__bin_gram_entry(&bins, i, j) - (eps__quad)exact[i * len + j] / ((eps__quad)sigma * sigma);
                assert_true(more >= 0);
                beside += i == j ? -more : more;
                assert_true(more <= (eps__quad)(1e-13 + 8 * (double)len * error) *
                                        (eps__bin_gram_entry(&bins, i, j) + (i == j ? (eps__quad)bins.most * len : 0)));
            }
            assert_true(beside <= 0);
        }
        eps__bin_gram_clear(&bins);
    }
}

TEST(widths_are_seen)
{
    double corner[] = {1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1},
           diagonal[] = {1, 2, 0};
    struct eps__bin_gram bins;
    assert_int_equal(eps__bin_gram_make(&bins, corner, NULL, 5, 0, 1), EPS_OK);
    assert_int_equal(bins.width, 2);
    assert_false(bins.open);
    eps__bin_gram_clear(&bins);
    corner[4] = corner[20] = 0;
    corner[1] = corner[5] = 0.5;
    assert_int_equal(eps__bin_gram_make(&bins, corner, NULL, 5, 0, 1), EPS_OK);
    assert_int_equal(bins.width, 2);
    assert_true(bins.open);
    eps__bin_gram_clear(&bins);
    assert_int_equal(eps__bin_gram_make(&bins, NULL, diagonal, 3, 0, 2), EPS_OK);
    assert_int_equal(bins.width, 1);
    assert_true(bins.open && bins.gram == NULL && bins.diagonal[2] == 0 && bins.most >= 0.5 && bins.most < 0.5 + 1e-14);
    eps__bin_gram_clear(&bins);
}

/* ------------------------------------------------------------ chains */

/* M10, M11: the chain is the sum over all draws, for the given matrix. */
TEST(chains_are_the_sum_over_all_draws)
{
    uint64_t state = seed;
    int cyclic = 0, cut = 0;
    for (int c = 0; c < 300; c++) {
        size_t len = 2 + draw_below(&state, 5), widest = len / 2 + 1, width = 1 + draw_below(&state, widest);
        unsigned most = 1 + (unsigned)draw_below(&state, len <= 4 ? ORDER_MAX : 5);
        struct eps__bin_gram bins = draw_bins(&state, len, 1 + draw_below(&state, len), c % 2 == 0), banded;
        struct eps__chain chain = eps__chain_of(&bins, width, most);
        double gram[BINS_MAX * BINS_MAX], units, log_upper[ORDER_MAX + 1], log_lower[ORDER_MAX + 1];
        eps__quad moments[ORDER_MAX + 1];
        cyclic += !chain.open && width > 1;
        cut += chain.tau > 0;
        for (size_t i = 0; i < len; i++)
            for (size_t j = 0; j < len; j++) {
                bool near = eps__bin_distance(len, i, j) < width;
                gram[i * len + j] = near ? fmax(eps__bin_gram_entry(&bins, i, j) - chain.tau, 0) : 0;
                assert_true(near || eps__bin_gram_entry(&bins, i, j) <= chain.tau);
            }
        assert_int_equal(eps__bin_gram_make(&banded, gram, NULL, len, 0, 1), EPS_OK);
        assert_int_equal(eps__chain_quad(NULL, &chain, moments, &units), EPS_OK);
        assert_int_equal(eps__chain_double(NULL, &chain, log_upper, log_lower), EPS_OK);
        for (unsigned a = 0; a <= most; a++) {
            eps__quad exact = direct_moment(&banded, a), log_exact = logq(exact);
            if (!(relative(moments[a], exact) < 1e-12))
                fail_msg("case %d: order %u of width %zu, %zu bins: off by %g", c, a, width, len,
                         relative(moments[a], exact));
            /* doubles and quadruple precision compute the same sum, and bound their difference */
            log_exact = logq(moments[a]);
            assert_true((eps__quad)log_lower[a] <= log_exact + 1e-30 && log_exact <= (eps__quad)log_upper[a] + 1e-30);
            assert_true(log_upper[a] - log_lower[a] < 1e-12);
        }
        eps__bin_gram_clear(&bins);
        eps__bin_gram_clear(&banded);
    }
    print_message("# %d cyclic, %d cut\n", cyclic, cut);
    assert_true(cyclic > 40 && cut > 40);
}

/* M15: neighbours together dominate entry by entry, and their chain is the sum over all draws of the single bins. */
TEST(neighbours_together_are_their_draws)
{
    uint64_t state = seed + 6;
    int owned = 0;
    for (int c = 0; c < 150; c++) {
        size_t len = 3 + draw_below(&state, 4), size = 2 + draw_below(&state, 2);
        unsigned most = 2 + (unsigned)draw_below(&state, 4);
        struct eps__bin_gram bins = draw_bins(&state, len, len, c % 2 == 0), gathered, apart;
        double gram[BINS_MAX * BINS_MAX], units, log_upper[ORDER_MAX + 1], log_lower[ORDER_MAX + 1];
        eps__quad moments[ORDER_MAX + 1];
        if (!bins.gram)
            continue;
        for (size_t i = 0; i < len && c % 3; i++) /* longer than any product of two */
            bins.diagonal[i] = bins.gram[i * len + i] = bins.diagonal[i] + bins.most;
        assert_int_equal(eps__bin_gram_gather(&gathered, &bins, size), EPS_OK);
        size_t groups = gathered.len, of[BINS_MAX], filled = 0;
        struct eps__chain chain = eps__chain_of(&gathered, 1 + draw_below(&state, gathered.width), most);
        for (size_t k = 0; k < groups; k++)
            for (size_t i = 0; i < gathered.count[k]; i++)
                of[filled++] = k;
        assert_int_equal(filled, len);
        for (size_t i = 0; i < len; i++)
            for (size_t j = 0; j < len; j++) {
                double own = i == j ? gathered.own[of[i]] : 0;
                double between = eps__chain_entry(&chain, of[i], of[j]);
                gram[i * len + j] = between + own;
                owned += own > 0;
                assert_true(between + own + chain.tau >= eps__bin_gram_entry(&bins, i, j) * (1 - 1e-15));
            }
        assert_int_equal(eps__bin_gram_make(&apart, gram, NULL, len, 0, 1), EPS_OK);
        assert_int_equal(eps__chain_quad(NULL, &chain, moments, &units), EPS_OK);
        assert_int_equal(eps__chain_double(NULL, &chain, log_upper, log_lower), EPS_OK);
        for (unsigned a = 0; a <= most; a++) {
            eps__quad log_found = logq(moments[a]);
            if (!(relative(moments[a], direct_moment(&apart, a)) < 1e-11))
                fail_msg("case %d: order %u is off by %g", c, a, relative(moments[a], direct_moment(&apart, a)));
            assert_true((eps__quad)log_lower[a] <= log_found + 1e-30 && log_found <= (eps__quad)log_upper[a] + 1e-30);
        }
        eps__bin_gram_clear(&bins);
        eps__bin_gram_clear(&gathered);
        eps__bin_gram_clear(&apart);
    }
    assert_true(owned > 100);
}

/* M11: the moments of a matrix that was cut, with tau for each pair, are at least those of the whole. */
TEST(what_is_cut_is_paid_for)
{
    uint64_t state = seed + 1;
    for (int c = 0; c < 100; c++) {
        size_t len = 2 + draw_below(&state, 5);
        struct eps__bin_gram bins = draw_bins(&state, len, len, c % 2 == 0);
        for (size_t width = 1; width <= bins.width; width++) {
            struct eps__orders orders;
            struct eps__effort effort = {1e5, 5, width};
            assert_int_equal(eps__bin_gram_orders(NULL, &orders, &bins, &effort), EPS_OK);
            for (unsigned a = 2; a <= 5; a++) {
                double exact = (double)logq(direct_moment(&bins, a));
                assert_true(orders.log_upper[a] >= exact * (1 - 1e-15));
                if (width == bins.width)
                    assert_true(orders.log_upper[a] <= exact * (1 + 1e-12) + 1e-13);
            }
            eps__orders_clear(&orders);
        }
        eps__bin_gram_clear(&bins);
    }
}

/* ------------------------------------------------------------ graphs and powers */

TEST(graphs_are_the_central_moments)
{
    uint64_t state = seed + 2;
    for (int c = 0; c < 200; c++) {
        size_t len = 1 + draw_below(&state, BINS_MAX);
        struct eps__bin_gram bins = draw_bins(&state, len, 1 + draw_below(&state, len), c % 2 == 0);
        double central[5], units;
        assert_int_equal(eps__low_orders(NULL, &bins, 4, central, &units), EPS_OK);
        for (unsigned j = 2; j <= 4; j++) {
            eps__quad exact = direct_central(&bins, j);
            double lost = bins.most > 0 ? 1e-30 * pow((double)len / 1e-5, 2) : 1; /* what cancels in the binomial sum */
            if (exact > 1e-18 && !(relative((eps__quad)central[j], exact) <= units * EPS__UNIT_ROUNDOFF + lost))
                fail_msg("case %d: order %u is off by %g", c, j, relative((eps__quad)central[j], exact));
        }
        eps__bin_gram_clear(&bins);
    }
}

/* M12: to the last digits, also where the binomial sum would lose all of them. */
TEST(powers_are_the_central_moments)
{
    uint64_t state = seed + 3;
    for (int c = 0; c < 200; c++) {
        size_t len = 1 + draw_below(&state, 5);
        struct eps__bin_gram bins = draw_bins(&state, len, 1, true);
        eps__quad central[ORDER_MAX + 1];
        double units;
        assert_int_equal(eps__powers(NULL, &bins, ORDER_MAX, central, &units), EPS_OK);
        assert_true(central[0] == 1 && central[1] == 0);
        for (unsigned j = 2; j <= ORDER_MAX; j++) {
            eps__quad exact = direct_central(&bins, j);
            if (exact > 1e-12 && !(relative(central[j], exact) <= 1e-18))
                fail_msg("case %d: order %u is off by %g", c, j, relative(central[j], exact));
        }
        eps__bin_gram_clear(&bins);
    }
    /* x alone, g tiny: E (x - 1)^4 = 3 w^2 + 16 w^3 + ... (labelled graphs of three and more edges), E (x - 1)^3 = 3
     * w^2 + w^3 */
    double tiny[] = {1e-12};
    struct eps__bin_gram bins;
    eps__quad central[5];
    double units;
    assert_int_equal(eps__bin_gram_make(&bins, NULL, tiny, 1, 0, 1), EPS_OK);
    assert_int_equal(eps__powers(NULL, &bins, 4, central, &units), EPS_OK);
    eps__quad w = expm1q(bins.diagonal[0]);
    assert_true(relative(central[2], w) < 1e-30);
    assert_true(relative(central[3], w * w * (3 + w)) < 1e-30);
    assert_true(relative(central[4], w * w * (3 + w * (16 + w * (15 + w * (6 + w))))) < 1e-30);
    eps__bin_gram_clear(&bins);
}

/* A diagonal matrix by chains, by graphs and by powers. */
TEST(three_ways_agree)
{
    uint64_t state = seed + 4;
    for (size_t len = 1; len <= 400; len = 3 * len + 1) {
        double diagonal[400], *gram = calloc(len * len, sizeof *gram), low[5], units;
        eps__quad raw[25], central[25];
        for (size_t i = 0; i < len; i++)
            gram[i * len + i] = diagonal[i] = i % 3 ? 0.7 : draw_log(&state, 0.01, 1.5);
        struct eps__bin_gram bins, whole;
        assert_int_equal(eps__bin_gram_make(&bins, NULL, diagonal, len, 0, 1.1), EPS_OK);
        assert_int_equal(eps__bin_gram_make(&whole, gram, NULL, len, 0, 1.1), EPS_OK);
        struct eps__chain chain = eps__chain_of(&whole, 1, 24);
        assert_int_equal(eps__powers(NULL, &bins, 24, central, &units), EPS_OK);
        assert_int_equal(eps__chain_quad(NULL, &chain, raw, &units), EPS_OK);
        assert_int_equal(eps__low_orders(NULL, &whole, 4, low, &units), EPS_OK);
        for (unsigned j = 2; j <= 4; j++)
            assert_true(relative((eps__quad)low[j], central[j]) < 1e-12);
        for (unsigned a = 2; a <= 24; a++) {
            eps__quad sum = 0, binomial = 1;
            for (unsigned j = 0; j <= a; j++) {
                sum += binomial * central[j];
                binomial = binomial * (a - j) / (j + 1);
            }
            if (!(relative(sum, raw[a]) < 1e-28))
                fail_msg("%zu bins, order %u: %g", len, a, relative(sum, raw[a]));
        }
        eps__bin_gram_clear(&bins);
        eps__bin_gram_clear(&whole);
        free(gram);
    }
}

/* ------------------------------------------------------------ all together */

/* The moments, however they are computed, contain the truth within their error, which is small. */
TEST(moments_know_their_error)
{
    uint64_t state = seed + 5;
    size_t known = 0;
    for (int c = 0; c < 150; c++) {
        size_t len = 1 + draw_below(&state, 6);
        struct eps__bin_gram bins = draw_bins(&state, len, 1 + draw_below(&state, len), c % 2 == 0);
        struct eps__effort effort = {c % 3 ? 1e7 : 3e3, ORDER_MAX, 0};
        struct eps__laws laws;
        assert_int_equal(eps__bin_gram_laws(NULL, &laws, &bins, &effort), EPS_OK);
        struct eps__moments moments = laws.items[0];
        for (size_t j = 2; j <= moments.len; j++) {
            eps__quad exact = direct_central(&bins, (unsigned)j), slack = 1e-28;
            assert_true(fabsq(moments.central[j] - exact) <= moments.error[j] + slack);
            assert_true(moments.error[j] <= (eps__quad)1e-3 * moments.central[j]);
            known++;
        }
        eps__laws_clear(&laws);
        eps__bin_gram_clear(&bins);
    }
    assert_true(known > 300);
}
