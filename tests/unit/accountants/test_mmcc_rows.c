/*
 * MMCC's rows compared with the matrix itself: for every class of (n mod groups, bands mod groups, bands against n),
 * for stamps, trees and entries of very different scale, each row's participations are listed by brute force from C's
 * entries, and the classes, with their counts, must give that list. In direction add the odds have a closed form; in
 * direction remove they must be at least those of the exact quantile, which is found by enumeration, and not far above.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/accountants/mmcc/rows.h"
#include "lib/numerics/normal.h"
#include "tests/unit/draw.h"
#include "tests/unit/matrices.h"
#include "tests/unit/test.h"

enum { STEPS_MAX = 12, ROWS_MAX = 4 * STEPS_MAX };

/* One row: its entries in one number that orders rows, and the smallest odds that the exact quantile allows. */
struct listed {
    size_t len;
    double entries; /* sum of the squared entries: the columns' norms, whatever the blocks */
    double odds;    /* sum of the log odds */
};

static int by_entries(const void *a, const void *b)
{
    const struct listed *x = a, *y = b;
    if (fabs(x->entries - y->entries) > 1e-9 * fmax(x->entries, y->entries))
        return x->entries < y->entries ? -1 : 1;
    return (x->odds > y->odds) - (x->odds < y->odds);
}

/* The least T with Pr[S + tau Z > T] <= e^log_eta over all subsets of the weights. */
static double exact_quantile(const double *weight, size_t len, double p, double tau, double log_eta)
{
    double low = -50 * tau, high = 50 * tau;
    for (size_t k = 0; k < len; k++)
        high += weight[k];
    for (int i = 0; i < 60; i++) {
        double at = 0.5 * (low + high), total = 0;
        for (size_t set = 0; set < (size_t)1 << len; set++) {
            double probability = 1, sum = 0;
            for (size_t k = 0; k < len; k++) {
                probability *= set >> k & 1 ? p : 1 - p;
                sum += set >> k & 1 ? weight[k] : 0;
            }
            total += probability * exp(eps__log_normal_tail((at - sum) / tau));
        }
        *(log(total) > log_eta ? &low : &high) = at;
    }
    return high;
}

/* The rows of one part by definition (MMCC figure 2, appendix A); returns how many have an entry. */
static size_t list_rows(const struct matrix *c, size_t groups, size_t part, double p,
                        const struct eps__tail_query *query, struct listed *out, double *pairs)
{
    size_t len = 0, latest = 0;
    long double above[ROWS_MAX][STEPS_MAX] = {{0}}; /* the rows before the block, kept columns only */
    size_t above_len = 0, kept = (c->columns - part + groups - 1) / groups;
    *pairs = 0;
    for (size_t row = 0, next; row < c->rows; row = next) {
        /* the rows of one block: those whose latest column is in it */
        size_t block = SIZE_MAX;
        for (next = row; next < c->rows; next++) {
            size_t own = latest;
            for (size_t j = 0; j < c->columns; j++)
                if (*entry(c, next, j) != 0 && j > own)
                    own = j;
            size_t its = own < part ? SIZE_MAX : (own - part) / groups;
            if (next > row && its != block)
                break;
            block = its;
            latest = own;
        }
        struct listed listed = {0};
        double variance = query->sigma * query->sigma, prior = log(p / (1 - p));
        for (size_t k = 0; k < kept; k++) {
            long double square = 0, norm = 0;
            for (size_t i = row; i < next; i++)
                square += *entry(c, i, part + k * groups) * *entry(c, i, part + k * groups);
            if (!(square > 0))
                continue;
            for (size_t i = 0; i < above_len; i++)
                norm += above[i][k] * above[i][k];
            listed.len++;
            listed.entries += (double)square;
            if (!(norm > 0)) {
                listed.odds += prior;
                continue;
            }
            ++*pairs;
            double tau = query->sigma * (double)sqrtl(norm), weight[STEPS_MAX], tail;
            for (size_t j = 0; j < kept; j++) {
                long double product = 0;
                for (size_t i = 0; i < above_len; i++)
                    product += above[i][j] * above[i][k];
                weight[j] = (double)product;
            }
            /* columns after the block have nothing above */
            tail = query->direction == EPS_REMOVE ? exact_quantile(weight, kept, p, tau, query->log_eta)
                                                  : tau * eps__normal_tail_quantile(query->log_eta);
            listed.odds += prior + (2 * tail - (double)norm) / (2 * variance);
        }
        if (listed.len > 0)
            out[len++] = listed;
        for (size_t i = row; i < next; i++, above_len++)
            for (size_t k = 0; k < kept; k++)
                above[above_len][k] = *entry(c, i, part + k * groups);
    }
    qsort(out, len, sizeof *out, by_entries);
    return len;
}

/* The same from the classes. */
static size_t list_classes(const struct eps__rows *rows, struct listed *out)
{
    struct eps__factor factors[ROWS_MAX];
    size_t len = 0;
    uint64_t total = 0;
    for (size_t k = 0; k < rows->classes; k++) {
        uint64_t count = rows->class->count(rows, k);
        struct listed listed = {.len = count ? rows->class->fill(rows, k, factors) : 0};
        assert_true(listed.len <= rows->entries_max);
        total += count;
        for (size_t i = 0; i < listed.len; i++) {
            listed.entries += factors[i].count * factors[i].shift * factors[i].shift;
            listed.odds += factors[i].count * factors[i].log_odds;
        }
        if (listed.len == 1 && factors[0].count > 1)
            listed.len = (size_t)factors[0].count;
        assert_true(len + count <= ROWS_MAX);
        for (uint64_t i = 0; i < count; i++)
            out[len++] = listed;
    }
    assert_int_equal(total, rows->rows);
    qsort(out, len, sizeof *out, by_entries);
    return len;
}

struct shape {
    size_t n, bands, groups, stamps, part;
    double p, sigma;
    const char *how;
};

static void compare(struct eps__rows *rows, const struct matrix *c, const struct shape *shape)
{
    for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++) {
        struct eps__tail_query query = eps__tail_query(direction, shape->sigma, -8.5, false);
        struct listed exact[ROWS_MAX], found[ROWS_MAX];
        double pairs;
        size_t len = list_rows(c, shape->groups, shape->part, shape->p, &query, exact, &pairs);
        assert_int_equal(rows->class->bound(rows, NULL, &query), EPS_OK);
        size_t found_len = list_classes(rows, found);
        bool same = len == found_len && pairs == rows->pairs;
        /* a looser tail may exchange rows that are otherwise equal, but never their order by odds */
        for (size_t i = 0; i < len && same; i++) {
            double slack = direction == EPS_ADD ? 1e-9 : 0.35 * (double)exact[i].len;
            same = exact[i].len == found[i].len &&
                   fabs(exact[i].entries - found[i].entries) <= 1e-9 * exact[i].entries + 1e-300 &&
                   found[i].odds >= exact[i].odds - 1e-9 * (1 + fabs(exact[i].odds)) &&
                   found[i].odds <= exact[i].odds + slack * (1 + fabs(exact[i].odds));
            if (!same)
                print_error("  row %zu: %zu entries of square %.17g, log odds %.17g; by hand %zu, %.17g, %.17g\n", i,
                            found[i].len, found[i].entries, found[i].odds, exact[i].len, exact[i].entries,
                            exact[i].odds);
        }
        if (!same)
            fail_msg("%s: n %zu, bands %zu, groups %zu, stamps %zu, part %zu, p %g, sigma %g, %s: %zu rows for %zu, "
                     "%g pairs for %g",
                     shape->how, shape->n, shape->bands, shape->groups, shape->stamps, shape->part, shape->p,
                     shape->sigma, eps_direction_name(direction), found_len, len, rows->pairs, pairs);
    }
    rows->class->destroy(rows);
}

/* One Toeplitz matrix through both code paths, all parts. */
static void check_toeplitz(const double *coefficients, struct shape shape)
{
    struct eps_mechanism mechanism = mechanism_new(EPS_FAMILY_TOEPLITZ, shape.n * shape.stamps);
    mechanism.matrix.normalization = EPS_NORMALIZATION_NONE;
    mechanism.matrix.coefficients = coefficients;
    mechanism.matrix.coefficients_len = shape.bands;
    mechanism.matrix.stamps = shape.stamps;
    struct eps_strategy *strategy = strategy_new(&mechanism);
    struct matrix c = part_matrix(strategy, EPS_PART_ENCODER);
    struct eps__blocks blocks = eps__strategy_blocks(strategy);
    struct eps__rows *rows;
    if (shape.stamps == 1 || shape.n % shape.groups == 0) {
        shape.how = "toeplitz";
        assert_int_equal(eps__toeplitz_rows(&rows, &blocks, shape.groups, shape.p), EPS_OK);
        compare(rows, &c, &shape);
    }
    shape.how = "entry by entry";
    size_t parts = shape.groups < shape.n * shape.stamps ? shape.groups : shape.n * shape.stamps;
    for (shape.part = 0; shape.part < parts; shape.part++) {
        assert_int_equal(eps__general_rows(&rows, NULL, NULL, strategy, shape.groups, shape.part, shape.p), EPS_OK);
        compare(rows, &c, &shape);
    }
    matrix_free(&c);
    eps_strategy_destroy(strategy);
}

/* A1. First the case that a review found: a last row that is cut and would otherwise have been steady. */
TEST(every_row_is_counted_once)
{
    uint64_t seed = 20261121;
    const double cut[] = {1, 1, 1, 0.01};
    check_toeplitz(cut, (struct shape){.n = 8, .bands = 4, .groups = 3, .stamps = 1, .p = 0.5, .sigma = 3});
    for (size_t n = 1; n <= 9; n++)
        for (size_t bands = 1; bands <= n; bands++)
            for (size_t groups = 1; groups <= n + 1; groups++) {
                double coefficients[STEPS_MAX];
                for (size_t i = 0; i < bands; i++)
                    coefficients[i] = i && !draw_below(&seed, 6) ? 0 : 0.05 + draw_unit(&seed);
                struct shape shape = {.n = n, .bands = bands, .groups = groups, .stamps = 1};
                shape.p = draw_log(&seed, 1e-3, 0.9);
                shape.sigma = draw_log(&seed, 0.7, 10);
                check_toeplitz(coefficients, shape);
            }
}

TEST(stamps_are_counted)
{
    uint64_t seed = 4;
    for (size_t n = 1; n <= 4; n++)
        for (size_t bands = 1; bands <= n; bands++)
            for (size_t groups = 1; groups <= 2 * n; groups++) {
                double coefficients[STEPS_MAX];
                for (size_t i = 0; i < bands; i++)
                    coefficients[i] = 0.05 + draw_unit(&seed);
                struct shape shape = {
                    .n = n, .bands = bands, .groups = groups, .stamps = 2 + n % 2, .p = 0.2, .sigma = 2};
                check_toeplitz(coefficients, shape);
            }
}

/* Entries whose squares are no doubles still count as entries (A2). */
TEST(tiny_entries_are_not_zero)
{
    const double small[] = {1, 1e-170, 0, 1e-200}, first[] = {1e-180, 1, 0.5};
    for (size_t groups = 1; groups <= 3; groups++) {
        struct eps_mechanism mechanism = mechanism_new(EPS_FAMILY_TOEPLITZ, 7);
        mechanism.matrix.normalization = EPS_NORMALIZATION_NONE;
        for (int which = 0; which < 2; which++) {
            mechanism.matrix.coefficients = which ? first : small;
            mechanism.matrix.coefficients_len = which ? 3 : 4;
            struct eps_strategy *strategy = strategy_new(&mechanism);
            struct matrix c = part_matrix(strategy, EPS_PART_ENCODER);
            struct eps__blocks blocks = eps__strategy_blocks(strategy);
            struct eps__rows *rows[2];
            assert_int_equal(eps__toeplitz_rows(&rows[0], &blocks, groups, 0.1), EPS_OK);
            assert_int_equal(eps__general_rows(&rows[1], NULL, NULL, strategy, groups, 0, 0.1), EPS_OK);
            for (int k = 0; k < 2; k++) {
                struct eps__tail_query query = eps__tail_query(EPS_ADD, 2, -10, false);
                struct listed exact[ROWS_MAX], found[ROWS_MAX];
                double pairs, entries = 0, expected = 0;
                size_t len = list_rows(&c, groups, 0, 0.1, &query, exact, &pairs);
                assert_int_equal(rows[k]->class->bound(rows[k], NULL, &query), EPS_OK);
                assert_int_equal(list_classes(rows[k], found), len);
                assert_true(rows[k]->pairs == pairs);
                for (size_t i = 0; i < len; i++) {
                    entries += (double)found[i].len;
                    expected += (double)exact[i].len;
                    assert_true(found[i].odds >= exact[i].odds - 1e-9 * fabs(exact[i].odds));
                }
                assert_true(entries == expected);
                rows[k]->class->destroy(rows[k]);
            }
            matrix_free(&c);
            eps_strategy_destroy(strategy);
        }
    }
}

/* One column of its own, and a full triangle of `value` beside it. */
static struct eps_strategy *triangle_of(size_t n, double value)
{
    double *entries = calloc(n * n, sizeof *entries);
    assert_non_null(entries);
    entries[0] = 1;
    for (size_t i = 1; i < n; i++)
        for (size_t j = 1; j <= i; j++)
            entries[i * n + j] = value;
    struct eps_mechanism mechanism = mechanism_new(EPS_FAMILY_DENSE, n);
    mechanism.matrix.normalization = EPS_NORMALIZATION_NONE;
    mechanism.matrix.rows = entries;
    mechanism.matrix.rows_n = n;
    struct eps_strategy *strategy = strategy_new(&mechanism);
    free(entries);
    return strategy;
}

/* If the probability that may be left out is above a half, the quantile is negative, and a norm that was rounded up for
 * a possible underflow must not lower it further (A2). */
TEST(large_probabilities_leave_tails_at_0)
{
    struct eps_strategy *strategy = triangle_of(5, 1e-160);
    struct matrix c = part_matrix(strategy, EPS_PART_ENCODER);
    struct eps__rows *rows;
    struct eps__tail_query query = eps__tail_query(EPS_ADD, 1e-149, log(0.8), false);
    struct listed exact[ROWS_MAX], found[ROWS_MAX];
    double pairs, by_hand = 0, odds = 0;
    assert_int_equal(eps__general_rows(&rows, NULL, NULL, strategy, 1, 0, 0.5), EPS_OK);
    size_t len = list_rows(&c, 1, 0, 0.5, &query, exact, &pairs);
    assert_int_equal(rows->class->bound(rows, NULL, &query), EPS_OK);
    assert_int_equal(list_classes(rows, found), len);
    for (size_t i = 0; i < len; i++) {
        by_hand += exact[i].odds;
        odds += found[i].odds;
    }
    assert_true(pairs > 0 && odds >= by_hand && odds <= by_hand + 0.2 * pairs);
    rows->class->destroy(rows);
    matrix_free(&c);
    eps_strategy_destroy(strategy);
}

/* Squares of 0.6 of the least double, each rounded up to all of it: the same amount is taken off the odds (A2). */
TEST(squares_that_underflow_upwards_are_counted)
{
    enum { N = 300 };
    const double value = sqrt(0.6) * 0x1p-537, sigma = 1.5e-154;
    struct eps_strategy *strategy = triangle_of(N, value);
    struct eps__rows *rows;
    struct eps__factor factors[N];
    struct eps__tail_query query = eps__tail_query(EPS_ADD, sigma, -M_LN2 + 1e-12, false);
    double least = INFINITY;
    assert_int_equal(eps__general_rows(&rows, NULL, NULL, strategy, 1, 0, 0.5), EPS_OK);
    assert_int_equal(rows->class->bound(rows, NULL, &query), EPS_OK);
    for (size_t k = 0; k < rows->classes; k++) {
        size_t len = rows->class->fill(rows, k, factors);
        for (size_t i = 0; i < len; i++)
            least = fmin(least, factors[i].log_odds);
    }
    /* even odds and a quantile of 0, but for 1e-12 of the norm: less half the square of N - 2 rows in units of sigma */
    long double ratio = (long double)value / (long double)sigma;
    assert_true((long double)least >= -0.5L * (N - 2) * ratio * ratio);
    rows->class->destroy(rows);
    eps_strategy_destroy(strategy);
}

/* One weight w with probability p, and a norm that is 0 but may be up to sqrt(tiny): no threshold below w leaves less
 * than p. With the larger norm, w - T is a few deviations, and nearly a half of the mass above T seems to lie below it
 * (A2). */
TEST(a_norm_from_above_leaves_less)
{
    const double p = 1e-3;
    const struct eps__rows rows = {.tiny = 1e-4, .square_error = 1e-12};
    double weight = 1;
    const struct eps__weights weights = {.weight = &weight, .len = 1, .p = p};
    for (double share = 0.501; share < 1; share += 0.1) {
        struct eps__tail_query query = eps__tail_query(EPS_REMOVE, 1, log(share * p), false);
        double tau = eps__rows_norm_upper(&rows, 0), log_eta = eps__rows_log_eta(&rows, &query, 0);
        assert_true(eps__tail_convolved(&weights, tau, query.log_eta) < weight); /* else the test shows nothing */
        assert_true(eps__tail_convolved(&weights, tau, log_eta) >= weight);
        assert_true(eps__tail_tilted(&weights, tau, log_eta, NULL) >= weight);
    }
    /* where the norm is known to e, the cost is no more than that, and never more than a half */
    struct eps__tail_query query = eps__tail_query(EPS_REMOVE, 1, log(p), false);
    assert_true(eps__rows_log_eta(&rows, &query, 1e12) <= log(p) - 2e-12);
    assert_true(eps__rows_log_eta(&rows, &query, 1e12) >= log(p) - 4e-12);
    assert_true(eps__rows_log_eta(&rows, &query, 0) >= log(p / 2) - 1e-12);
}

/* Any matrix, any zeros (whole columns and the diagonal among them), any scale. */
TEST(dense_rows_are_listed)
{
    uint64_t seed = 8;
    for (int trial = 0; trial < 60; trial++) {
        size_t n = 1 + draw_below(&seed, 8), groups = 1 + draw_below(&seed, 4);
        double rows_of[STEPS_MAX * STEPS_MAX] = {0};
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j <= i; j++)
                if (draw_below(&seed, 4) || (i == 0 && j == 0))
                    rows_of[i * n + j] = trial % 2 ? draw_unit(&seed) : draw_log(&seed, 1e-9, 1);
        struct eps_mechanism mechanism = mechanism_new(EPS_FAMILY_DENSE, n);
        mechanism.matrix.normalization = EPS_NORMALIZATION_NONE;
        mechanism.matrix.rows = rows_of;
        mechanism.matrix.rows_n = n;
        struct eps_strategy *strategy = strategy_new(&mechanism);
        struct matrix c = part_matrix(strategy, EPS_PART_ENCODER);
        struct shape shape = {.n = n, .bands = n, .groups = groups, .stamps = 1, .how = "dense"};
        shape.p = draw_log(&seed, 1e-3, 0.9);
        shape.sigma = draw_log(&seed, 0.7, 10);
        for (shape.part = 0; shape.part < groups && shape.part < n; shape.part++) {
            struct eps__rows *rows;
            assert_int_equal(eps__general_rows(&rows, NULL, NULL, strategy, shape.groups, shape.part, shape.p), EPS_OK);
            compare(rows, &c, &shape);
        }
        matrix_free(&c);
        eps_strategy_destroy(strategy);
    }
}

TEST(every_node_of_a_tree_is_counted_once)
{
    for (size_t leaves = 1; leaves <= 9; leaves++) {
        struct eps_mechanism mechanism = mechanism_new(EPS_FAMILY_TREE, leaves);
        mechanism.matrix.normalization = EPS_NORMALIZATION_NONE;
        struct eps_strategy *strategy = strategy_new(&mechanism);
        struct eps__blocks blocks = eps__strategy_blocks(strategy);
        struct eps__rows *rows;
        assert_int_equal(eps__tree_rows(&rows, &blocks, 0.1), EPS_OK);
        struct eps__tail_query query = eps__tail_query(EPS_ADD, 2, -10, false);
        assert_int_equal(rows->class->bound(rows, NULL, &query), EPS_OK);
        struct listed found[ROWS_MAX];
        size_t nodes = 0, entries = 0, len = list_classes(rows, found);
        for (size_t i = 0; i < eps_strategy_rows(strategy); i++) {
            double row[STEPS_MAX];
            size_t own = 0;
            assert_int_equal(eps_strategy_row(strategy, row, NULL, EPS_PART_ENCODER, i), EPS_OK);
            for (size_t j = 0; j < leaves; j++)
                own += row[j] != 0;
            nodes += own > 0;
            entries += own;
        }
        assert_int_equal(len, nodes);
        for (size_t i = 0; i < len; i++)
            entries -= found[i].len;
        assert_int_equal(entries, 0);
        rows->class->destroy(rows);
        eps_strategy_destroy(strategy);
    }
}
