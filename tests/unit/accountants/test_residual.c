/*
 * Bounds from the residual of a mean (A50), compared with the exact delta where the residual is independent of the
 * mean, and with draws under b-min-sep and Poisson sampling.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <string.h>

#include "lib/accountants/renyi/residual.h"
#include "lib/numerics/normal.h"
#include "tests/unit/draw.h"
#include "tests/unit/solved.h"
#include "tests/unit/test.h"

enum { ATOMS = 3, ORDERS = 8 };

static const uint64_t seed = 20261126;

/* Y takes few values, independent of G, so that its law is the same under every tilt. */
struct atoms {
    double at[ATOMS], weight[ATOMS], s;
};

static struct atoms draw_atoms(uint64_t *state)
{
    struct atoms atoms = {.s = draw_log(state, 0.05, 1)};
    double sum = 0, spread = draw_log(state, 0.01, 0.5);
    for (size_t i = 0; i < ATOMS; i++) {
        atoms.at[i] = draw_log(state, 0.5, 2) * exp(spread * (2 * draw_unit(state) - 1));
        if (i > 0)
            atoms.at[i] = atoms.at[0] * exp(spread * (2 * draw_unit(state) - 1));
        atoms.weight[i] = i == 0 ? 1 : draw_log(state, 1e-6, 0.3);
        sum += atoms.weight[i];
    }
    for (size_t i = 0; i < ATOMS; i++)
        atoms.weight[i] /= sum;
    return atoms;
}

/* ln delta(eps) for X = Y e^G. */
static double exact(const struct atoms *atoms, enum eps_direction direction, double eps)
{
    double delta = 0, half = atoms->s * atoms->s / 2, error;
    for (size_t i = 0; i < ATOMS; i++) {
        double at = log(atoms->at[i]);
        double one = direction == EPS_REMOVE ? at + half + eps__gaussian_log_delta(atoms->s, eps - at - half, &error)
                                             : eps__gaussian_log_delta(atoms->s, eps + at + half, &error);
        delta += atoms->weight[i] * exp(one);
    }
    return log(delta);
}

/* What the accountant would know of Y under the tilt t. */
static struct eps__residual_law law_of(const struct atoms *atoms, double t)
{
    double mean = 0, least = INFINITY, square = atoms->s * atoms->s;
    struct eps__residual_law law = {.t = t, .square = {square * (1 - 1e-15), square * (1 + 1e-15)}};
    for (size_t i = 0; i < ATOMS; i++) {
        mean += atoms->weight[i] * atoms->at[i];
        least = fmin(least, atoms->at[i]);
    }
    law.least = log(least) - 1e-12;
    law.log_mean = (struct eps__interval){log(mean) - 1e-13, log(mean) + 1e-13};
    law.laws.len = 1;
    assert_int_equal(eps__moments_alloc(&law.laws.items[0], ORDERS), EPS_OK);
    for (size_t j = 2; j <= ORDERS; j++) {
        eps__quad moment = 0;
        for (size_t i = 0; i < ATOMS; i++) {
            eps__quad power = atoms->weight[i], from = (eps__quad)atoms->at[i] / mean - 1;
            for (size_t k = 0; k < j; k++)
                power *= from;
            moment += power;
        }
        law.laws.items[0].central[j] = moment;
        law.laws.items[0].error[j] = fabsq(moment) * 1e-12;
    }
    return law;
}

TEST(bounds_hold_for_every_tilt_and_are_near)
{
    uint64_t state = seed;
    size_t near[EPS_DIRECTIONS] = {0}, all[EPS_DIRECTIONS] = {0};
    for (int c = 0; c < 90; c++) {
        enum eps_direction direction = c % 2 ? EPS_ADD : EPS_REMOVE;
        struct atoms atoms = draw_atoms(&state);
        double shift = draw_log(&state, 0.5, 6) * atoms.s, t = shift / (atoms.s * atoms.s);
        double middle = log(atoms.at[0]), eps = fmax(direction == EPS_REMOVE ? shift + middle : shift - middle, 0);
        bool off = c % 3 == 0; /* a tilt that does not suit epsilon */
        t = off ? t * draw_log(&state, 0.3, 3) : t;
        if (direction == EPS_REMOVE)
            t = fmax(t, 1);
        struct eps__residual_law tilted = law_of(&atoms, direction == EPS_REMOVE ? t : -t), plain = law_of(&atoms, 0);
        struct eps__residual residual;
        assert_int_equal(eps__residual_make(NULL, &residual, direction, &tilted, &plain), EPS_OK);
        double truth = exact(&atoms, direction, eps), found = eps__residual_log_delta(&residual, EPS__UPPER, eps);
        double lower = eps__residual_log_delta(&residual, EPS__LOWER, eps);
        if (!(found >= truth - 1e-9) || !(lower <= found) || isnan(lower))
            fail_msg("%s, s %g, eps %g, t %g: %g (from %g), but %g", eps_direction_name(direction), atoms.s, eps, t,
                     found, lower, truth);
        if (!off && truth > -40) {
            near[direction] += found - truth < 0.7;
            all[direction]++;
        }
        eps__laws_clear(&tilted.laws);
        eps__laws_clear(&plain.laws);
    }
    for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++) {
        print_message("%s: ln delta is within 0.7 in %zu of %zu cases\n", eps_direction_name(d), near[d], all[d]);
        assert_true(all[d] > 20 && near[d] > all[d] * 8 / 10);
    }
}

/* A rare value far from the others decides how often the loss is large. */
TEST(a_rare_residual_counts)
{
    static const double shifts[] = {-2, 1, 4, 6}, fars[] = {0.4, 0.8, 1.5, 2.5};
    for (size_t c = 0; c < 4 * 4 * 2 * 2; c++) {
        enum eps_direction direction = c % 2 ? EPS_ADD : EPS_REMOVE;
        double s = c / 2 % 2 ? 1.5 : 0.2, far = fars[c / 4 % 4], shift = shifts[c / 16] * s, eps = fmax(far + shift, 0);
        double sign = direction == EPS_REMOVE ? 1 : -1, t = fmax(shift / (s * s), 1);
        const struct atoms atoms = {{1, exp(sign * far), exp(0.1 * sign * far)}, {0.989, 0.001, 0.01}, s};
        struct eps__residual_law tilted = law_of(&atoms, sign * t), plain = law_of(&atoms, 0);
        struct eps__residual residual;
        assert_int_equal(eps__residual_make(NULL, &residual, direction, &tilted, &plain), EPS_OK);
        double truth = exact(&atoms, direction, eps), found = eps__residual_log_delta(&residual, EPS__UPPER, eps);
        if (!(found >= fmin(truth, 0) - 1e-9)) /* X may have any mean here */
            fail_msg("%s, s %g, far %g, eps %g: %g, but %g", eps_direction_name(direction), s, far, eps, found, truth);
        eps__laws_clear(&tilted.laws);
        eps__laws_clear(&plain.laws);
    }
}

enum { STEPS = 128, BANDS_MAX = 4, DRAWS = 20000 };

/* A square-root strategy under b-min-sep sampling with one example, or under Poisson sampling if separation is 0. */
struct mechanism {
    size_t bands, separation;
    double p, sigma;
    bool warm;
};

static void square_root(double *column, const struct mechanism *mechanism)
{
    double square = 0;
    for (size_t e = 0; e < mechanism->bands; e++) {
        column[e] = e == 0 ? 1 : column[e - 1] * (2 * (double)e - 1) / (2 * (double)e);
        square += column[e] * column[e];
    }
    for (size_t e = 0; e < mechanism->bands; e++)
        column[e] /= sqrt(square) * mechanism->sigma;
}

/* X at y under Poisson sampling, forward in time: of[h] is the part of X in which the last steps had the coins h. */
static double poisson_ratio(const struct mechanism *mechanism, const double *column, const double *y)
{
    enum { HISTORIES = 1 << (BANDS_MAX - 1) };
    double of[HISTORIES] = {1}, all = 0;
    for (size_t i = 0; i < STEPS; i++) {
        double next[HISTORIES] = {0};
        for (size_t h = 0; h < HISTORIES; h++)
            for (size_t coin = 0; coin < 2; coin++) {
                size_t coins = 2 * h + coin;
                double mean = 0;
                for (size_t e = 0; e < mechanism->bands; e++)
                    mean += coins >> e & 1 ? column[e] : 0;
                next[coins % HISTORIES] +=
                    of[h] * (coin ? mechanism->p : 1 - mechanism->p) * exp(mean * (y[i] - mean / 2));
            }
        memcpy(of, next, sizeof of);
    }
    for (size_t h = 0; h < HISTORIES; h++)
        all += of[h];
    return all;
}

/* X at y, backward in time: from[i] is X if the example waits at step i. */
static double likelihood_ratio(const struct mechanism *mechanism, const double *column, const double *y)
{
    if (mechanism->separation == 0)
        return poisson_ratio(mechanism, column, y);
    double from[STEPS + 16], p = mechanism->p, waits = 1 / (1 + (double)(mechanism->separation - 1) * p);
    for (size_t i = STEPS; i < STEPS + mechanism->separation; i++)
        from[i] = 1;
    for (size_t i = STEPS; i-- > 0;) {
        double exponent = 0;
        for (size_t e = 0; e < mechanism->bands && i + e < STEPS; e++)
            exponent += column[e] * (y[i + e] - column[e] / 2);
        from[i] = (1 - p) * from[i + 1] + p * exp(exponent) * from[i + mechanism->separation];
    }
    if (!mechanism->warm)
        return from[0];
    double sum = waits * from[0];
    for (size_t r = 1; r < mechanism->separation; r++)
        sum += p * waits * from[r];
    return sum;
}

/* delta by draws of y with the mean t times about that of C x, and its standard deviation. */
static double drawn(const struct mechanism *mechanism, enum eps_direction direction, double eps, double t,
                    double *deviation)
{
    double column[BANDS_MAX], mean[STEPS] = {0}, square = 0, sum = 0, squares = 0;
    uint64_t state = seed;
    double sits_out = mechanism->separation > 0 ? (double)mechanism->separation - 1 : 0;
    square_root(column, mechanism);
    for (size_t r = 0; r < STEPS; r++) {
        for (size_t e = 0; e < mechanism->bands && e <= r; e++)
            mean[r] += column[e] * mechanism->p / (1 + sits_out * mechanism->p);
        square += mean[r] * mean[r];
    }
    t = (direction == EPS_REMOVE ? t : -t) / square;
    for (size_t s = 0; s < DRAWS; s++) {
        double y[STEPS], along = 0;
        for (size_t r = 0; r < STEPS; r++) {
            y[r] = sqrt(-2 * log(1 - draw_unit(&state))) * cos(2 * M_PI * draw_unit(&state)) + t * mean[r];
            along += mean[r] * y[r];
        }
        double x = likelihood_ratio(mechanism, column, y), weight = exp(t * t * square / 2 - t * along);
        double value = weight * fmax(direction == EPS_REMOVE ? x - exp(eps) : 1 - exp(eps) * x, 0);
        sum += value;
        squares += value * value;
    }
    *deviation = sqrt(fmax(squares / DRAWS - sum / DRAWS * sum / DRAWS, 0) / DRAWS);
    return sum / DRAWS;
}

/* The deltas of a job lie above those of the draws, and not far above. */
static void check_draws(const struct mechanism *mechanism, struct eps_job job, double eps, double most)
{
    double found[EPS_DIRECTIONS];
    solved_deltas(found, job, mechanism->sigma, eps);
    for (enum eps_direction d = 0; d < EPS_DIRECTIONS; d++) {
        double deviation, delta = drawn(mechanism, d, eps, 0.8 * eps, &deviation);
        print_message("%s: %g, draws %g +- %g\n", eps_direction_name(d), found[d], delta, deviation);
        assert_true(deviation < 0.1 * delta);
        assert_true(found[d] > delta - 5 * deviation && found[d] < most * delta);
    }
}

TEST(b_min_sep_is_near_the_draws)
{
    static const struct mechanism mechanisms[] = {{4, 4, 0.05, 3, true}, {4, 6, 0.05, 2, false}, {3, 3, 0.1, 4, true}};
    for (size_t c = 0; c < sizeof mechanisms / sizeof *mechanisms; c++) {
        const struct mechanism *mechanism = &mechanisms[c];
        check_draws(mechanism,
                    job_of("{'n':%d,'matrix':{'family':'square_root','bands':%zu},'sampling':{'scheme':'b_min_sep',"
                           "'p':%g,'separation':%zu,'warm_start':%s},'epsilon':1,'noise_multiplier':1,"
                           "'accountant':{'method':'renyi','max_order':9}}",
                           (int)STEPS, mechanism->bands, mechanism->p, mechanism->separation,
                           mechanism->warm ? "true" : "false"),
                    c == 1 ? 1 : 1.2, 6);
    }
}

TEST(poisson_is_near_the_draws)
{
    static const struct mechanism mechanisms[] = {{2, 0, 0.05, 2, false}, {3, 0, 0.1, 4, false}, {4, 0, 0.1, 5, false}};
    for (size_t c = 0; c < sizeof mechanisms / sizeof *mechanisms; c++) {
        const struct mechanism *mechanism = &mechanisms[c];
        check_draws(mechanism,
                    job_of("{'n':%d,'matrix':{'family':'square_root','bands':%zu},'sampling':{'scheme':'poisson',"
                           "'p':%g},'epsilon':1,'noise_multiplier':1,'accountant':{'method':'renyi'}}",
                           (int)STEPS, mechanism->bands, mechanism->p),
                    1.2, 10);
    }
}
