/*
 * From moments to delta: no law with the moments exceeds the bound, some law attains it, linear programs on a fine grid
 * give the same, and unproven polynomials are refused. Both directions, degenerate laws, and moments that are known
 * only approximately.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "lib/moments/bounds/canonical.h"
#include "lib/moments/bounds/closed.h"
#include "lib/moments/bounds/moments.h"
#include "lib/moments/bounds/polynomial.h"
#include "lib/numerics/bound.h"
#include "tests/unit/draw.h"
#include "tests/unit/exact.h"
#include "tests/unit/test.h"

enum { LAWS = 2000, ATOMS_MAX = 8 };
static const uint64_t seed = 577;

struct drawn {
    size_t len;
    eps__quad atom[ATOMS_MAX], mass[ATOMS_MAX];
};

static void take_moments(struct eps__moments *moments, const struct drawn *law, size_t len)
{
    assert_int_equal(eps__moments_alloc(moments, len), EPS_OK);
    for (size_t j = 2; j <= len; j++) {
        eps__quad size = 0;
        for (size_t i = 0; i < law->len; i++) {
            eps__quad power = law->mass[i];
            for (size_t k = 0; k < j; k++)
                power *= law->atom[i] - 1;
            moments->central[j] += power;
            size += fabsq(power);
        }
        moments->error[j] = size * 1e-31;
    }
}

static double log_payoff(const struct drawn *law, enum eps_direction direction, double eps)
{
    eps__quad sum = 0;
    for (size_t i = 0; i < law->len; i++)
        sum +=
            law->mass[i] * fmaxq(direction == EPS_REMOVE ? law->atom[i] - expq(eps) : 1 - expq(eps) * law->atom[i], 0);
    return (double)logq(sum);
}

/* Atoms on [0, inf) with mean 1, some at 0, some far out. */
static void draw_law(uint64_t *state, struct drawn *law, double spread)
{
    eps__quad mean = 0, total = 0;
    law->len = 2 + draw_below(state, ATOMS_MAX - 1);
    for (size_t i = 0; i < law->len; i++) {
        law->atom[i] = i == 0 && draw_below(state, 4) == 0 ? 0 : draw_log(state, 1 / spread, spread);
        law->mass[i] = draw_log(state, 1e-6, 1) / (1 + (double)law->atom[i]);
        total += law->mass[i];
    }
    for (size_t i = 0; i < law->len; i++) {
        law->mass[i] /= total;
        mean += law->mass[i] * law->atom[i];
    }
    for (size_t i = 0; i < law->len; i++)
        law->atom[i] /= mean;
}

static double bound_of(const struct eps__moments *moments, enum eps_direction direction, double eps, double *lower,
                       size_t *used)
{
    double upper;
    assert_int_equal(eps__moments_log_delta(NULL, moments, direction, eps, &upper, lower, used), EPS_OK);
    assert_true(upper <= 0 && *lower <= upper && *used <= moments->len);
    return upper;
}

/* The mean of b independent lognormals e^{Z/sigma - 1/(2 sigma^2)}: a power of a truncated series. */
static void lognormals(struct eps__moments *moments, size_t len, unsigned b, double sigma)
{
    eps__quad one[EPS__MOMENTS_MAX + 1], all[EPS__MOMENTS_MAX + 1] = {1}, factorial = 1, scale = 1;
    eps__quad variance = 1 / ((eps__quad)sigma * sigma);
    assert_int_equal(eps__moments_alloc(moments, len), EPS_OK);
    for (size_t j = 0; j <= len; j++) {
        eps__quad sum = 0, choose = j % 2 ? -1 : 1;
        for (size_t k = 0; k <= j; k++) {
            sum += choose * expm1q((eps__quad)k * ((eps__quad)k - 1) * variance / 2);
            choose *= -(eps__quad)(j - k) / (eps__quad)(k + 1);
        }
        one[j] = j == 0 ? 1 : j == 1 ? 0 : sum / factorial * scale;
        factorial *= (eps__quad)(j + 1);
        scale /= b;
    }
    for (unsigned i = 0; i < b; i++)
        for (size_t j = len + 1; j-- > 0;) {
            eps__quad sum = 0;
            for (size_t k = 0; k <= j; k++)
                sum += all[k] * one[j - k];
            all[j] = sum;
        }
    factorial = 1;
    for (size_t j = 2; j <= len; j++) {
        factorial *= (eps__quad)j;
        moments->central[j] = all[j] * factorial;
        moments->error[j] = fabsq(moments->central[j]) * 1e-27;
    }
}

/* ---------------------------------------------------------------- the certificate */

/* A certified polynomial and everything that belongs to it. */
struct certified {
    struct eps__moments moments;
    struct eps__payoff payoff;
    struct eps__contacts contacts;
    struct eps__polynomial p;
    eps__quad touching; /* its mean before it was raised */
};

static bool certify(struct certified *c, enum eps_direction direction, double eps, size_t degree, bool corner)
{
    struct eps__canonical canonical;
    long double mean;
    eps__quad away = eps__moments_distance(direction, eps);
    c->payoff = (struct eps__payoff){direction, direction == EPS_REMOVE ? away : -away};
    eps__canonical_prepare(&canonical, &c->moments, c->moments.len);
    if (!eps__canonical_contacts(&c->contacts, &mean, &canonical, degree, corner, &c->payoff))
        return false;
    eps__polynomial_touch(&c->p, degree, &c->payoff, &c->contacts);
    c->touching = eps__polynomial_mean(&c->p, &c->moments);
    return eps__polynomial_repair(&c->p, &c->payoff, &c->contacts, &c->moments) &&
           eps__polynomial_dominates(&c->p, &c->payoff, &c->contacts);
}

/* The least of p - payoff over a grid in t, and near the contacts. */
static eps__quad least_difference(const struct certified *c, const struct eps__polynomial *p)
{
    eps__quad least = 1e300L;
    for (int i = 0; i < 1200 + 101 * (int)c->contacts.len; i++) {
        eps__quad node = i < 1200 ? 0 : c->contacts.node[(i - 1200) / 101];
        eps__quad t = i < 400    ? -1 + i * (1 + c->payoff.kink) / 400
                      : i < 1200 ? c->payoff.kink + expm1q((eps__quad)(i - 400) / 40)
                                 : node + ((i - 1200) % 101 - 50) * (1 + node) * 2e-11L;
        if (t < -1)
            continue;
        eps__quad value = 0, payoff = c->payoff.direction == EPS_REMOVE ? t - c->payoff.kink : c->payoff.kink - t;
        for (size_t j = p->degree + 1; j-- > 0;)
            value = value * t + p->c[j];
        least = fminq(least, value - fmaxq(payoff, 0));
    }
    return least;
}

/* M3, M4: polynomials that are lowered, bent or turned down far out, until they dip below the payoff. */
TEST(the_certificate_refuses_what_dips)
{
    unsigned proven = 0, refused = 0;
    for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++)
        for (size_t degree = 2; degree <= 10; degree++)
            for (int corner = 0; corner < 2; corner++)
                for (int at = 0; at < 3; at++) {
                    struct certified c;
                    double eps = (double[]){0.1, 0.5, 2}[at];
                    lognormals(&c.moments, 10, direction ? 100 : 20, 1);
                    if ((corner && degree % 2) || !certify(&c, direction, eps, degree, corner)) {
                        eps__moments_clear(&c.moments);
                        continue;
                    }
                    proven++;
                    assert_true(least_difference(&c, &c.p) >= 0);
                    for (int way = 0; way < 4; way++)
                        for (eps__quad move = 1e-32L; move < 1; move *= 1e4L) {
                            struct eps__polynomial moved = c.p;
                            if (way == 0)
                                moved.c[0] -= move * fabsq(moved.c[0]);
                            else if (way == 1)
                                moved.c[1] += move * fabsq(moved.c[1]);
                            else if (way == 2)
                                moved.c[1] -= move * fabsq(moved.c[1]);
                            else
                                moved.c[degree] -= move * fabsq(moved.c[degree]);
                            bool claimed = eps__polynomial_dominates(&moved, &c.payoff, &c.contacts);
                            eps__quad least = least_difference(&c, &moved);
                            if (claimed && least < 0)
                                fail_msg("direction %d, degree %zu, eps %g, way %d, move %g: dips by %g", direction,
                                         degree, eps, way, (double)move, (double)least);
                            refused += !claimed && least < 0;
                        }
                    struct eps__polynomial far = c.p;
                    far.c[far.degree = degree + 1] = -1e-200L; /* falls at last */
                    assert_false(eps__polynomial_dominates(&far, &c.payoff, &c.contacts));
                    eps__moments_clear(&c.moments);
                }
    print_message("# %u polynomials proven, %u that dip refused\n", proven, refused);
    assert_true(proven > 25 && refused > 300);
}

/* Dips that no hint points at: narrow ones between contacts, at X = 0, and far out. */
TEST(dips_without_hints_are_found)
{
    uint64_t state = seed;
    const struct eps__contacts none = {0};
    unsigned good = 0;
    for (int c = 0; c < 3000; c++) {
        /* s (t - t0)^2 + lift, and a call with its kink beyond where that matters */
        eps__quad t0 = c % 3 == 0 ? -1 : c % 3 == 1 ? draw_between(&state, -1, 3) : draw_log(&state, 1e-9, 1e9);
        eps__quad lift = draw_log(&state, 1e-25, 1e-3) * (c % 2 ? -1 : 1), s = draw_log(&state, 0.5, 1e3);
        eps__quad kink = 2 * fabsq(t0) + 10;
        struct eps__polynomial p = {.degree = 2, .c = {s * t0 * t0 + lift, -2 * s * t0, s}};
        struct eps__payoff payoff = {EPS_REMOVE, kink};
        /* what the coefficients' rounding makes of the lift */
        eps__quad dip = p.c[0] - p.c[1] * p.c[1] / (4 * p.c[2]), noise = 1e-32L * (1 + s * t0 * t0);
        bool claimed = eps__polynomial_dominates(&p, &payoff, &none);
        /* a hint beside the lowest point, where p is still above the payoff */
        struct eps__contacts beside = {.len = 1, .node = {t0 + sqrtq(4 * fabsq(lift) / s)}};
        bool hinted = eps__polynomial_dominates(&p, &payoff, &beside);
        if (dip < -noise)
            assert_false(claimed || hinted);
        good += claimed;
        if (claimed) { /* the payoff itself must be exceeded, too */
            payoff.kink = -1 + fabsq(lift);
            payoff.direction = EPS_REMOVE;
            struct eps__polynomial low = {.degree = 2, .c = {0, 1e-6L, 1e-9L}};
            assert_false(eps__polynomial_dominates(&low, &payoff, &none));
        }
    }
    assert_true(good > 1000);
}

/* M2: a polynomial far above its payoff, whose expansion at the contact exceeds the range of quadruple precision. */
TEST(what_overflows_proves_nothing)
{
    const struct eps__payoff payoff = {EPS_REMOVE, 10};
    struct eps__polynomial p = {.degree = EPS__MOMENTS_MAX};
    for (size_t j = 0; j <= p.degree; j++)
        p.c[j] = 1;
    for (int exponent = 100; exponent <= 1000; exponent += 100) {
        struct eps__contacts far = {.len = 1, .node = {ldexp(1, exponent)}};
        assert_int_equal(eps__polynomial_dominates(&p, &payoff, &far), exponent * EPS__MOMENTS_MAX < 16384);
    }
}

/* M4: no contact is a bowl, so the interval between two of them remains, and its powers underflow. */
TEST(what_underflows_proves_nothing)
{
    const struct eps__payoff payoff = {EPS_REMOVE, 10};
    struct eps__polynomial p = {.degree = EPS__MOMENTS_MAX, .c = {1, 1}};
    p.c[p.degree] = 1;
    for (int exponent = 100; exponent <= 1000; exponent += 100) {
        struct eps__contacts near = {.len = 2, .node = {ldexp(1, -exponent), ldexp(3, -exponent)}};
        assert_int_equal(eps__polynomial_dominates(&p, &payoff, &near), exponent * EPS__MOMENTS_MAX < 16384);
    }
}

/* M2: expansions compared with those of integers in 128 bits; the error bound holds. */
TEST(expansions_know_their_error)
{
    uint64_t state = seed;
    for (int c = 0; c < 2000; c++) {
        /* ((t - r)^2)^h around a point near r: all coefficients but the last nearly vanish */
        eps__quad r = draw_between(&state, -1, 5), at = r + (eps__quad)draw_between(&state, -1, 1) * 1e-3L;
        struct eps__polynomial p = {.degree = 0, .c = {1}};
        struct eps__payoff payoff = {EPS_REMOVE, 1000};
        struct eps__expansion f;
        eps__quad exact[EPS__MOMENTS_MAX + 1] = {1}, own = 1;
        size_t degree = 2 + 2 * draw_below(&state, 6);
        for (size_t i = 0; i < degree; i++) {
            p.c[++p.degree] = 0;
            for (size_t j = p.degree; j > 0; j--) {
                p.c[j] = p.c[j - 1] - r * p.c[j];
                exact[j] = exact[j - 1] + (at - r) * exact[j];
            }
            p.c[0] *= -r;
            exact[0] *= at - r;
            own *= 1 + fabsq(r) + fabsq(at);
        }
        eps__polynomial_expand(&f, &p, &payoff, false, at);
        for (size_t k = 0; k <= degree; k++) {
            /* the coefficients of p are rounded, too: the same error again */
            assert_true(fabsq(f.value[k] - exact[k]) <= 2 * f.error[k]);
            assert_true(f.error[k] <= 1e-31L * own * 100);
        }
    }
}

/* ---------------------------------------------------------------- laws */

/* M1, M6: 2,000 random laws; some law attains the bound. */
TEST(no_law_is_above_the_bound)
{
    uint64_t state = seed;
    unsigned attained = 0, tight = 0, all = 0;
    for (int c = 0; c < LAWS; c++) {
        struct drawn law;
        struct eps__moments moments;
        draw_law(&state, &law, c % 5 == 0 ? 1e4 : c % 5 == 1 ? 1.01 : 5);
        take_moments(&moments, &law, 2 + draw_below(&state, 9));
        for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++) {
            double eps = c % 9 == 0 ? 0 : draw_log(&state, c % 5 == 1 ? 1e-5 : 1e-3, c % 5 == 1 ? 0.1 : 5), lower;
            size_t used;
            double upper = bound_of(&moments, direction, eps, &lower, &used), exact = log_payoff(&law, direction, eps);
            if (!(exact <= upper + 1e-14))
                fail_msg("law %d, direction %d, eps %g, %zu moments: %.17g over %.17g", c, direction, eps, moments.len,
                         exact, upper);
            /* with fewer atoms than half the number of moments, the two bounds coincide */
            if (2 * law.len > moments.len && exact > -30) {
                all++;
                attained += upper - lower < 1e-6;
                tight += upper - exact < 1e-3;
            }
        }
        eps__moments_clear(&moments);
    }
    print_message("# %u of %u bounds attained to 1e-6, %u of them by the law that was drawn to 1e-3, seed %llu\n",
                  attained, all, tight, (unsigned long long)seed);
    assert_true(attained > all * 9 / 10);
}

/* X of seven equally likely values 1/4, 1/2 .. 7/4: linear programs (scipy 1.x, HiGHS) for the least mean of a
 * polynomial of degree J = 2..8, in Chebyshev's basis of X - 1, whose highest coefficient is not negative and that is
 * at least the payoff on 10,000 points in [0, 40], 1/2000 apart up to 4. Between the points theirs may dip, so theirs
 * are lower, by little. */
TEST(linear_programs_find_the_same)
{
    static const struct {
        enum eps_direction direction;
        double eps, delta[7];
    } programs[] = {
        {EPS_REMOVE, 0.2, {0.16271184, 0.1436118, 0.1436118, 0.14360478, 0.13254795, 0.12891901, 0.12510942}},
        {EPS_REMOVE, 0.5, {0.085163225, 0.044377897, 0.023288742, 0.019012939, 0.015662392, 0.015160403, 0.014922445}},
        {EPS_ADD, 0.1, {0.22866687, 0.22866687, 0.2246186, 0.21090363, 0.20044107, 0.20044107, 0.19819229}},
        {EPS_ADD, 0.7, {0.2, 0.2, 0.094684385, 0.094684412, 0.092363115, 0.087598212, 0.087581747}},
    };
    struct drawn law = {.len = 7};
    for (size_t i = 0; i < law.len; i++) {
        law.atom[i] = (eps__quad)(i + 1) / 4;
        law.mass[i] = (eps__quad)1 / 7;
    }
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        for (size_t len = 2; len <= 8; len++) {
            struct eps__moments moments;
            double lower;
            size_t used;
            take_moments(&moments, &law, len);
            double found = exp(bound_of(&moments, programs[i].direction, programs[i].eps, &lower, &used)),
                   theirs = programs[i].delta[len - 2];
            if (!(found > theirs * (1 - 1e-6) && found < theirs * (1 + 1e-3)))
                fail_msg("program %zu, %zu moments (%zu used): %.9g, theirs %.9g, attained %.9g", i, len, used, found,
                         theirs, exp(lower));
            eps__moments_clear(&moments);
        }
}

/* ---------------------------------------------------------------- closed forms, and known values */

/* M6. */
TEST(two_moments_are_scarfs)
{
    uint64_t state = seed;
    for (int c = 0; c < 300; c++) {
        struct eps__moments moments;
        double variance = draw_log(&state, 1e-12, 1e6), eps = c % 9 ? draw_log(&state, 1e-6, 8) : 0, lower;
        size_t used;
        assert_int_equal(eps__moments_alloc(&moments, 2), EPS_OK);
        moments.central[2] = variance;
        double away = expm1(eps), inside = -expm1(-eps);
        double remove = variance / (2 * (sqrt(variance + away * away) + away)),
               add = exp(eps) * variance / (2 * (sqrt(variance + inside * inside) + inside));
        if (exp(-eps) <= (1 + variance) / 2)
            add = variance / (1 + variance);
        if (exp(eps) <= (1 + variance) / 2)
            remove = (variance - away) / (1 + variance);
        double found[] = {exp(bound_of(&moments, EPS_REMOVE, eps, &lower, &used)),
                          exp(bound_of(&moments, EPS_ADD, eps, &lower, &used))};
        if (!(fabs(found[0] / remove - 1) < 1e-12 && fabs(found[1] / fmin(add, 1) - 1) < 1e-12))
            fail_msg("variance %g, eps %g: %.15g %.15g, Scarf %.15g %.15g", variance, eps, found[0], found[1], remove,
                     add);
        eps__moments_clear(&moments);
    }
}

/* M6: delta <= e^{(alpha - 1)(R - eps)} (1 - 1/alpha)^alpha / (alpha - 1), and c (1 - X)^{2j}, for every order. */
TEST(no_single_order_is_better)
{
    for (double sigma = 0.4; sigma < 5; sigma *= 1.7)
        for (double eps = 0.1; eps < 20; eps *= 2.3) {
            struct eps__moments moments;
            double lower, variance = 1 / (sigma * sigma);
            size_t used;
            lognormals(&moments, 8, 1, sigma);
            double remove = bound_of(&moments, EPS_REMOVE, eps, &lower, &used),
                   add = bound_of(&moments, EPS_ADD, eps, &lower, &used), best = INFINITY;
            for (int alpha = 2; alpha <= 8; alpha++)
                best = fmin(best,
                            (alpha - 1) * (alpha * variance / 2 - eps) + alpha * log1p(-1.0 / alpha) - log(alpha - 1));
            if (!(remove <= best + 1e-12))
                fail_msg("sigma %g, eps %g: %.15g, a single order %.15g", sigma, eps, remove, best);
            for (int order = 2; order <= 8; order += 2) {
                double inside = -expm1(-eps), most = 0; /* the largest payoff over (1 - x)^order, by a grid */
                for (int i = 1; i <= 20000; i++) {
                    double y = i / 20000.0;
                    most = fmax(most, (y - inside) * exp(eps) / pow(y, order));
                }
                double single = fmin(log(most * (double)moments.central[order]), 0);
                if (!(add <= single + 1e-6))
                    fail_msg("sigma %g, eps %g, order %d: %.15g, that order %.15g", sigma, eps, order, add, single);
            }
            eps__moments_clear(&moments);
        }
}

/* One Gaussian: never below its delta, and closer with every second moment. */
TEST(lognormals_are_bounded_from_above)
{
    double nearest = 0;
    for (double sigma = 0.5; sigma < 30; sigma *= 1.6)
        for (double eps = 0; eps<8; eps = eps> 0 ? 2 * eps : 0.05) {
            __float128 exact = exact_gaussian_delta(1 / (__float128)sigma, eps);
            double before[] = {0, 0}, lower;
            for (size_t len = 2; len <= 16; len++) {
                struct eps__moments moments;
                size_t used;
                lognormals(&moments, len, 1, sigma);
                for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++) {
                    double upper = bound_of(&moments, direction, eps, &lower, &used);
                    assert_true(upper >= (double)logq(exact));
                    if (!(upper <= before[direction] + 1e-6))
                        fail_msg("sigma %g, eps %g, %zu moments: %.12g, with one fewer %.12g", sigma, eps, len, upper,
                                 before[direction]);
                    before[direction] = upper;
                    if (sigma > 4 && eps < 0.5 / sigma && len == 16)
                        nearest = fmax(nearest, upper - (double)logq(exact));
                }
                eps__moments_clear(&moments);
            }
        }
    print_message("# sixteen moments of a lognormal, eps < 1/(2 sigma): within %.3g of ln delta\n", nearest);
    assert_true(nearest > 0 && nearest < 0.2);
}

/* Balls in bins, C = I, b = 100, delta 1e-5: sigma over the true one (reference.json, balls_in_bins, exact_fft). The
 * prototype's ratios in accounting.md, "From moments to delta", in the better direction: 1.70, 1.23, 1.07 for four
 * moments, and 1.18, 1.08, 1.07 for eight. The AM-GM bound for `add` is the accountant's; the moment put alone gives
 * 1.18 at 0.5. */
TEST(known_sigmas_are_reached)
{
    static const struct {
        double eps, truth, four, eight;
    } known[] = {{0.5, 1.0736848829282124, 1.70, 1.09},
                 {1, 0.8731096077096553, 1.235, 1.08},
                 {2, 0.7176760643486897, 1.075, 1.072}};
    for (size_t i = 0; i < 3; i++)
        for (int eight = 0; eight < 2; eight++) {
            double upper[2], lower, ratio = eight ? known[i].eight : known[i].four;
            size_t used;
            for (int below = 0; below < 2; below++) {
                struct eps__moments moments;
                lognormals(&moments, eight ? 8 : 4, 100, known[i].truth * (below ? 1.001 : ratio));
                upper[below] = bound_of(&moments, EPS_REMOVE, known[i].eps, &lower, &used);
                eps__moments_clear(&moments);
            }
            assert_true(upper[0] <= log(1e-5) && upper[1] > log(1e-5));
        }
    struct eps__moments moments;
    double lower;
    size_t used;
    lognormals(&moments, 8, 100, 1.185 * known[0].truth);
    assert_true(bound_of(&moments, EPS_ADD, 0.5, &lower, &used) <= log(1e-5));
    eps__moments_clear(&moments);
}

/* ---------------------------------------------------------------- degenerate input */

/* M1: the true moments may be anywhere within the errors. */
TEST(errors_are_carried)
{
    uint64_t state = seed;
    for (int c = 0; c < 500; c++) {
        struct drawn law;
        struct eps__moments moments;
        double lower, size = draw_log(&state, 1e-20, 0.3);
        size_t used;
        draw_law(&state, &law, 4);
        take_moments(&moments, &law, 8);
        for (size_t j = 2; j <= 8; j++) {
            eps__quad off = fabsq(moments.central[j]) * size;
            moments.central[j] += off * (c % 3 == 0   ? -0.999L
                                         : c % 3 == 1 ? 0.999L
                                                      : draw_between(&state, -0.999, 0.999));
            moments.error[j] += off;
        }
        for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++) {
            double eps = draw_log(&state, 1e-2, 2), upper = bound_of(&moments, direction, eps, &lower, &used);
            if (!(log_payoff(&law, direction, eps) <= upper + 1e-14))
                fail_msg("law %d, error %g, direction %d, eps %g: %.17g over %.17g", c, size, direction, eps,
                         log_payoff(&law, direction, eps), upper);
        }
        eps__moments_clear(&moments);
    }
}

TEST(degenerate_laws_are_bounded)
{
    struct eps__moments moments;
    double lower;
    size_t used;
    /* X = 1 */
    assert_int_equal(eps__moments_alloc(&moments, 8), EPS_OK);
    for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++) {
        assert_true(bound_of(&moments, direction, 0, &lower, &used) == -INFINITY);
        assert_true(bound_of(&moments, direction, 1, &lower, &used) == -INFINITY);
        assert_true(bound_of(&moments, direction, 1e6, &lower, &used) == -INFINITY);
    }
    /* Moments that no law has: only the range within the errors counts, and the errors are huge. */
    for (size_t j = 2; j <= 8; j++) {
        moments.central[j] = j == 2 ? 1 : j == 4 ? 0.5L : -3;
        moments.error[j] = 1e6L;
    }
    assert_true(bound_of(&moments, EPS_REMOVE, 0.1, &lower, &used) > log(0.99));
    /* A NaN ends the list. */
    for (size_t j = 2; j <= 8; j++)
        moments.error[j] = 0;
    moments.central[3] = (eps__quad)NAN;
    assert_true(isfinite(bound_of(&moments, EPS_REMOVE, 0.1, &lower, &used)) && used == 2);
    eps__moments_clear(&moments);
    /* Two atoms and many moments. */
    struct drawn law = {.len = 2, .atom = {0.5L, 3}, .mass = {0.8L, 0.2L}};
    take_moments(&moments, &law, 16);
    for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++)
        for (double eps = 0; eps<20; eps = eps> 0 ? 1.5 * eps : 0.01) {
            double upper = bound_of(&moments, direction, eps, &lower, &used);
            assert_true(upper >= log_payoff(&law, direction, eps) - 1e-14);
        }
    assert_true(bound_of(&moments, EPS_REMOVE, 0.5, &lower, &used) < log_payoff(&law, EPS_REMOVE, 0.5) + 0.5);
    eps__moments_clear(&moments);
    /* Huge ones: e^2000 and more, and an epsilon beyond all of them. */
    lognormals(&moments, 16, 100, 0.18);
    assert_true(logq(moments.central[16]) > 2000);
    for (double eps = 0; eps<1e5; eps = eps> 0 ? 3 * eps : 0.1)
        for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++)
            assert_true(bound_of(&moments, direction, eps, &lower, &used) <= 0);
    eps__moments_clear(&moments);
}

/* Half of X at 1 - t, half at 1 + t: the known second moment is an upper bound, however rounding hides t^2 beside 1;
 * nothing is known of higher ones. */
TEST(a_variance_that_rounding_hides_is_bounded)
{
    const eps__quad last = 2 * EPS__QUAD_ROUNDOFF;
    double lower;
    size_t used;
    for (int size = 0; size <= 64; size = size > 0 ? 2 * size : 1)
        for (int off = -7; off <= 7; off++) { /* of 16 units */
            struct eps__moments moments;
            eps__quad square = size * last, raw[9] = {1, 1, 1 + square + off * last};
            for (size_t j = 3; j <= 8; j++)
                raw[j] = 1 + (eps__quad)(j * (j - 1) / 2) * square;
            assert_int_equal(eps__moments_alloc(&moments, 8), EPS_OK);
            eps__moments_centre(&moments, raw, 16);
            eps__moments_keep_known(&moments);
            assert_int_equal(moments.len, 2);
            for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++) {
                double upper = bound_of(&moments, direction, 0, &lower, &used);
                double exact = 0.5 * log((double)square) - log(2);
                if (!(exact <= upper) || !(upper < log(1e-15)))
                    fail_msg("t^2 = %d units, off by %d, direction %d: %g, the truth is %g", size, off, direction,
                             upper, exact);
            }
            eps__moments_clear(&moments);
        }
    struct eps__moments moments;
    assert_int_equal(eps__moments_alloc(&moments, 4), EPS_OK);
    moments.error[2] = (eps__quad)INFINITY;
    eps__moments_keep_known(&moments);
    assert_int_equal(moments.len, 1);
    eps__moments_clear(&moments);
}

static bool always(void *user)
{
    (void)user;
    return true;
}

TEST(a_canceled_call_ends)
{
    const struct eps_context context = {.canceled = always};
    struct eps__moments moments;
    double upper, lower;
    size_t used;
    lognormals(&moments, 8, 100, 1);
    assert_int_equal(eps__moments_log_delta(&context, &moments, EPS_REMOVE, 1, &upper, &lower, &used), EPS_CANCELED);
    eps__moments_clear(&moments);
}
