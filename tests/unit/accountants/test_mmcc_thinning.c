/*
 * Rows of mmcc that are too large for enumeration: thinned mixtures lie on the side that their estimate needs, and the
 * tail bounds of columns with very many products, of which only power sums are kept, hold.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/accountants/mmcc/compose.h"
#include "tests/truth/mixture.h"
#include "tests/unit/test.h"

/* ------------------------------------------------------------ thinned mixtures */

enum { PARTICIPATIONS = 24, QUARTERS = 300 };

/* One row whose shifts are integer multiples of a quarter: 2^24 atoms on 300 points. */
static size_t fill_quarters(const struct eps__rows *rows, size_t k, struct eps__factor *out)
{
    (void)rows;
    (void)k;
    for (size_t i = 0; i < PARTICIPATIONS; i++)
        out[i] = (struct eps__factor){2 + (double)(i % 8) / 4, 0, 1};
    return PARTICIPATIONS;
}

static uint64_t count_one(const struct eps__rows *rows, size_t k)
{
    (void)rows;
    (void)k;
    return 1;
}

/* ln of the mixture's density over that of N(0, 1) */
static long double log_ratio(const long double *law, long double z)
{
    long double most = -INFINITY, total = 0;
    for (size_t i = 0; i < QUARTERS; i++) {
        long double s = (long double)i / 4;
        most = fmaxl(most, s * z - s * s / 2);
    }
    for (size_t i = 0; i < QUARTERS; i++) {
        long double s = (long double)i / 4;
        total += law[i] * expl(s * z - s * s / 2 - most);
    }
    return most + logl(total);
}

/* ln delta(eps) of the law on quarters, plus noise, against noise. */
static long double exact_log_delta(const long double *law, enum eps_direction direction, long double eps)
{
    long double low = -60, high = 140, sum = 0, wanted = direction == EPS_REMOVE ? eps : -eps;
    for (int i = 0; i < 200; i++) {
        long double middle = 0.5L * (low + high);
        *(log_ratio(law, middle) > wanted ? &high : &low) = middle;
    }
    /* int (N - e^eps D)_+ over the half-line on which the loss exceeds eps */
    for (size_t i = 0; i < QUARTERS; i++) {
        long double s = (long double)i / 4;
        sum += law[i] * (direction == EPS_REMOVE ? normal_tail(low - s) : -expl(eps) * normal_tail(s - low));
    }
    sum += direction == EPS_REMOVE ? -expl(eps + log_normal_tail(low)) : normal_tail(-low);
    return logl(sum);
}

TEST(thinned_rows_are_on_their_side)
{
    static const struct eps__rows_class class = {NULL, count_one, fill_quarters, NULL};
    struct eps__rows rows = {.class = &class, .classes = 1, .entries_max = PARTICIPATIONS, .rows = 1, .p = 0.5};
    long double law[QUARTERS] = {1};
    for (size_t k = 0; k < PARTICIPATIONS; k++)
        for (size_t i = QUARTERS, jump = 8 + k % 8; i-- > 0;)
            law[i] = 0.5L * law[i] + (i >= jump ? 0.5L * law[i - jump] : 0);
    for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++) {
        const struct eps__accuracy accuracy = {EPS_SOLVE_DELTA, 1e-5, NAN};
        const struct eps__rows_plan plan = {.times = 1,
                                            .direction = direction,
                                            .sigma = 1,
                                            .norm_square = 8,
                                            .error = 1e-6,
                                            .log_outside = -40,
                                            .proven = true};
        struct eps__composition *composition;
        struct eps__rows_remainder remainder;
        assert_int_equal(eps__composition_create(&composition, NULL, NULL, &accuracy), EPS_OK);
        assert_int_equal(eps__rows_compose(composition, &remainder, &rows, NULL, &plan), EPS_OK);
        assert_true(remainder.resolvable && remainder.outside < 1e-12);
        static const double removed[] = {450, 600, 750, 900}, added[] = {1, 4, 8, 12};
        for (size_t i = 0; i < 4; i++) {
            double upper, lower, eps = direction == EPS_REMOVE ? removed[i] : added[i];
            long double exact = exact_log_delta(law, direction, (long double)eps);
            assert_int_equal(eps__composition_log_delta(composition, EPS__UPPER, eps, &upper), EPS_OK);
            assert_int_equal(eps__composition_log_delta(composition, EPS__LOWER, eps, &lower), EPS_OK);
            if (!((long double)lower <= exact && exact <= (long double)upper))
                fail_msg("%s, eps %g: %.12Lg is not in [%.12g, %.12g]", eps_direction_name(direction), eps, exact,
                         lower, upper);
            assert_true(upper - lower < 0.5);
        }
        eps__composition_destroy(composition);
    }
}

/* ------------------------------------------------------------ power sums */

enum { COLUMNS = 1500, CELLS = 64 };

/* Two full rows below the diagonal: above the last one every column is e_j + e_{n-2}, and so has a product of 1 with
 * each of the others, more of them than are kept. */
static struct eps_strategy *two_full_rows(void)
{
    struct eps_strategy *strategy = NULL;
    double *entries = calloc((size_t)COLUMNS * COLUMNS, sizeof *entries);
    assert_non_null(entries);
    for (size_t i = 0; i < COLUMNS; i++)
        for (size_t j = 0; j <= i; j++)
            entries[i * COLUMNS + j] = i == j || i + 2 >= COLUMNS;
    struct eps_mechanism mechanism = {.n = COLUMNS,
                                      .matrix = {.family = EPS_FAMILY_DENSE,
                                                 .normalization = EPS_NORMALIZATION_NONE,
                                                 .stamps = 1,
                                                 .rows = entries,
                                                 .rows_n = COLUMNS},
                                      .workload = {.decay = 1},
                                      .sampling = {.scheme = EPS_SCHEME_POISSON, .p = 1e-3, .examples_per_user = 1}};
    assert_int_equal(eps_strategy_create(NULL, &strategy, NULL, &mechanism), EPS_OK);
    free(entries);
    return strategy;
}

/* Pr[S + tau Z > at], S = 2 x_0 + the sum of COLUMNS - 2 other x, all Bernoulli(p): x_0 is the column's own. */
static long double joint_tail(long double p, long double tau, long double at)
{
    long double law[CELLS] = {1}, tail = 0;
    for (size_t k = 0; k + 1 < COLUMNS; k++)
        for (size_t i = CELLS, jump = k ? 1 : 2; i-- > 0;)
            law[i] = (1 - p) * law[i] + (i >= jump ? p * law[i - jump] : 0);
    for (size_t i = 0; i < CELLS; i++)
        tail += law[i] * normal_tail((at - (long double)i) / tau);
    return tail;
}

TEST(power_sums_bound_what_they_stand_for)
{
    struct eps_strategy *strategy = two_full_rows();
    struct eps__rows *rows = NULL;
    struct eps_error error = {0};
    double p = 1e-3, log_eta = log(1e-9);
    assert_int_equal(eps__general_rows(&rows, NULL, &error, strategy, 1, 0, p), EPS_OK);
    struct eps__factor *factors = calloc(rows->entries_max + 1, sizeof *factors);
    assert_non_null(factors);
    for (double sigma = 0.7; sigma < 12; sigma *= 2) {
        struct eps__tail_query query = eps__tail_query(EPS_REMOVE, sigma, log_eta, false);
        size_t checked = 0;
        assert_int_equal(rows->class->bound(rows, NULL, &query), EPS_OK);
        for (size_t k = 0; k < rows->classes; k++) {
            size_t len = rows->class->fill(rows, k, factors);
            for (size_t i = 0; i < len && len == COLUMNS; i++) {
                /* the odds are prior + (2 T - |a|^2) / (2 sigma^2), |a|^2 = 2 */
                double excess = factors[i].log_odds - log(p) + log1p(-p);
                double tail = excess * sigma * sigma + 1, tau = sigma * M_SQRT2;
                if (i < 2) /* the last columns, of which less is above */
                    continue;
                if (checked == 0 || i % 100 == 0) {
                    long double exceeded = joint_tail(p, tau, tail);
                    if (exceeded > 1e-9L * (1 + 1e-6L))
                        fail_msg("sigma %g: T = %.9g is exceeded with probability %.6Lg", sigma, tail, exceeded);
                }
                checked++;
            }
        }
        assert_true(checked > COLUMNS / 2);
    }
    free(factors);
    rows->class->destroy(rows);
    eps_strategy_destroy(strategy);
}
