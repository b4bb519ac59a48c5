/*
 * The law of X for plain Poisson sampling with a banded strategy.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "lib/accountants/renyi_law.h"
#include "lib/error.h"
#include "lib/moments/coins.h"
#include "lib/sampling/scheme.h"

enum { OPENED = 4, SKETCHED = 30, SOUGHT = 25, CURVE = 220 };

#define SECOND 1.2e8  /* operations on E X^2 at one sigma, in either direction */
#define FURTHER 1.1e7 /* times the square of the bands: the same, on all orders, so that mmcc takes about as much */
#define FURTHER_MOST 4e8
#define POLISH 1.2e4      /* times the square of the moments: a polynomial that is certified */
#define SKETCH 1e6        /* operations on a starting point */
#define SHIFT_MOST 100.0  /* the longest column over sigma */
#define NEVER_UNIT 0x1p30 /* of the probability of never taking part so many bits are kept: 1 less it is exact */

struct coins_law {
    struct eps__renyi_law base;
    const struct eps__setting *setting;
    struct eps__coins coins;
};

static bool concerns(const struct eps_mechanism *mechanism)
{
    return eps__sampling_coins(mechanism);
}

/* Steps that differ from those before: the ends of blocks that are Toeplitz, or any. */
static double changes_of(const struct eps__setting *setting)
{
    struct eps__blocks blocks = eps__strategy_blocks(setting->strategy);
    double n = (double)setting->job->mechanism.n, bands = (double)eps_strategy_bands(setting->strategy);
    bool toeplitz = blocks.shape == EPS__SHAPE_TOEPLITZ;
    return toeplitz ? fmin((blocks.stamps > 1 ? 2 : 1) * (double)blocks.stamps * bands, n) : n;
}

/* In the add direction few moments are better than the geometric mean. */
static double further_of(size_t bands, enum eps_direction direction)
{
    double all = fmin(FURTHER * (double)bands * (double)bands, FURTHER_MOST);
    return direction == EPS_REMOVE ? all : all / 4;
}

/* The orders that fit, about, and what they take. */
static unsigned fits(const struct eps__setting *setting, enum eps_direction direction, double *spent)
{
    size_t bands = eps_strategy_bands(setting->strategy), changes = (size_t)changes_of(setting);
    unsigned most = 1;
    *spent = 0;
    for (unsigned a = 2; a <= EPS__COINS_MOMENTS_MAX && bands <= EPS__COINS_WIDTH_MAX; a++) {
        double more = eps__coins_operations(setting->job->mechanism.n, bands, changes, a);
        if (*spent + more > (a == 2 ? SECOND : further_of(bands, direction)))
            break;
        *spent += more;
        most = a;
    }
    return most;
}

static bool serves(const struct eps__setting *setting, struct eps_error *error)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    const struct eps_sampling *sampling = &mechanism->sampling;
    double spent;
    if (eps__sampling_turns(mechanism))
        return eps__decline(error, "/sampling/scheme", "renyi serves coins where no groups take turns: poisson");
    if (sampling->truncation)
        return eps__decline(error, "/sampling/truncation",
                            "renyi does not serve truncated batches; leave truncation out");
    if (sampling->examples_per_user > 1)
        return eps__decline(error, "/sampling/examples_per_user", "renyi serves one example per user");
    if (sampling->last_iterate)
        return eps__decline(error, "/sampling/last_iterate", "renyi accounts for every iterate; use pld");
    if (setting->job->query.accountant.bandwidth > 0)
        return eps__decline(error, "/accountant/bandwidth",
                            "renyi takes all bands where rounds are coins; leave bandwidth out");
    if (!eps__strategy_lower_triangular(setting->strategy) ||
        eps__strategy_blocks(setting->strategy).shape == EPS__SHAPE_TREE)
        return eps__decline(error, "/matrix", "renyi needs a lower-triangular strategy where rounds are coins");
    if (fits(setting, EPS_REMOVE, &spent) < 2)
        return eps__decline(error, "/matrix/bands",
                            "renyi serves coins only where the strategy has few bands: about 9 if it is Toeplitz, 6 if "
                            "not; use fewer bands");
    return true;
}

static void cost(const struct eps__setting *setting, double *operations, double *bytes)
{
    double n = (double)setting->job->mechanism.n, bands = (double)eps_strategy_bands(setting->strategy);
    bool noise = eps_job_unknown(setting->job) == EPS_SOLVE_NOISE_MULTIPLIER;
    double opened = noise ? OPENED : 1;
    double polynomials = noise ? OPENED + SKETCHED : setting->job->query.curve ? CURVE : SOUGHT;
    *operations = noise ? SKETCHED * SKETCH : 0;
    *bytes = 1e6;
    for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++) {
        double spent, most = fits(setting, direction, &spent);
        *operations += opened * (spent + n * bands * bands) + polynomials * POLISH * most * most;
        *bytes += 24 * n * bands + spent / 4;
    }
}

static double least_sigma(const struct eps__setting *setting)
{
    return eps__strategy_largest_norm(setting->strategy) / SHIFT_MOST;
}

/* gram[i][d] = sum over rows r of C[r, i] C[r, i - d]: at most bands terms, none negative. */
static enum eps_status band_gram(double *gram, const struct eps_strategy *strategy, size_t n, size_t bands)
{
    double *row = malloc(bands * sizeof *row);
    enum eps_status status = row ? EPS_OK : EPS_NO_MEMORY;
    for (size_t r = 0; status == EPS_OK && r < n; r++) {
        status = eps_strategy_band_row(strategy, row, NULL, r); /* row[d] = C[r, r - d] */
        for (size_t e = 0; status == EPS_OK && e < bands && e <= r; e++)
            for (size_t d = 0; e + d < bands && e + d <= r; d++)
                gram[(r - e) * bands + d] += row[e] * row[e + d];
    }
    free(row);
    return status;
}

static void destroy(struct eps__renyi_law *base)
{
    struct coins_law *law = (struct coins_law *)base;
    eps__coins_clear(&law->coins);
    free(law);
}

/* n KL of a coin of probability q from one of p, q <= p < 1, between bounds. */
static struct eps__interval divergence(double n, double p, double q)
{
    double less = q * log(p / q), more = (1 - q) * log1p((p - q) / (1 - p));
    double error = 8 * EPS__UNIT_ROUNDOFF * n * (less + q + more);
    return (struct eps__interval){fmax(eps__shift(EPS__LOWER, n * (more - less), error), 0),
                                  fmax(eps__shift(EPS__UPPER, n * (more - less), error), 0)};
}

/*
 * By coins of probability q instead of p (L24): m = E_q |C x|^2/(2 sigma^2) + n KL, a = E_q C x. As one bin: its trace is
 * 2 m = q (1 - q) tr G + q^2 sum G + 2 n KL, its total q^2 sum G.
 */
static struct eps__geometric tilted(const struct eps__coins *coins, struct eps__interval own, struct eps__interval all,
                                    double q)
{
    double square = q * q, alone = q * (1 - q);
    struct eps__interval kl = {0, 0};
    if (q < coins->p)
        kl = divergence((double)coins->len, coins->p, q);
    return (struct eps__geometric){.len = 1,
                                   .trace = {eps__lower(alone * own.lower + square * all.lower + 2 * kl.lower, 12),
                                             eps__raise(alone * own.upper + square * all.upper + 2 * kl.upper, 12)},
                                   .total = {eps__lower(square * all.lower, 8), eps__raise(square * all.upper, 8)}};
}

/* A bound from below on the probability of never taking part, such that 1 less it is exact. */
static double never_of(const struct eps__coins *coins)
{
    double exponent = (double)coins->len * log1p(-coins->p);
    double never = eps__exp_bound(EPS__LOWER, exponent, 4 * EPS__UNIT_ROUNDOFF * fmin(-exponent, 1e4));
    return fmin(floor(never * NEVER_UNIT) / NEVER_UNIT, 1 - 1 / NEVER_UNIT);
}

/* The first with the coins as they are, and with what is known where x = 0; further ones with rarer coins. */
static void make_geometrics(struct coins_law *law)
{
    const struct eps__coins *coins = &law->coins;
    struct eps__sum diagonal = {0}, total = {0};
    for (size_t i = 0; i < coins->len; i++) {
        eps__sum_add(&diagonal, coins->gram[i * coins->width]);
        eps__sum_add(&total, coins->gram[i * coins->width]);
        for (size_t d = 1; d < coins->width && d <= i; d++)
            eps__sum_add(&total, 2 * coins->gram[i * coins->width + d]);
    }
    struct eps__interval own = eps__sum_interval(&diagonal, 0), all = eps__sum_interval(&total, 0);
    law->base.geometrics[0] = tilted(coins, own, all, coins->p);
    law->base.geometrics[0].empty = never_of(coins);
    law->base.geometrics_len = 1;
    for (size_t k = 1; k < EPS__GEOMETRICS_MAX && coins->p < 1; k++)
        law->base.geometrics[law->base.geometrics_len++] =
            tilted(coins, own, all, coins->p * (double)k / EPS__GEOMETRICS_MAX);
}

static enum eps_status open_law(struct eps__renyi_law **out, const struct eps__setting *setting, double sigma)
{
    size_t n = setting->job->mechanism.n, bands = eps_strategy_bands(setting->strategy);
    struct coins_law *law = calloc(1, sizeof *law);
    double *gram = calloc(n * bands, sizeof *gram);
    enum eps_status status = law && gram ? EPS_OK : EPS_NO_MEMORY;
    if (status == EPS_OK)
        status = band_gram(gram, setting->strategy, n, bands);
    if (status == EPS_OK)
        status =
            eps__coins_make(&law->coins, gram, n, bands, setting->p, (double)(bands + 2) * EPS__UNIT_ROUNDOFF, sigma);
    free(gram);
    if (status != EPS_OK) {
        free(law);
        return status;
    }
    law->base.kind = &eps__renyi_coins;
    make_geometrics(law);
    law->setting = setting;
    *out = &law->base;
    return EPS_OK;
}

static enum eps_status know(const struct eps__renyi_law *base, struct eps__orders *orders, struct eps__laws *laws)
{
    const struct coins_law *law = (const struct coins_law *)base;
    unsigned max_order = law->setting->job->query.accountant.max_order;
    enum eps_direction direction = orders ? EPS_REMOVE : EPS_ADD;
    double further = further_of(law->coins.width, direction), spent;
    enum eps_status status =
        eps__coins_moments(law->setting->context, orders, laws, &law->coins, SECOND, further, max_order);
    if (status == EPS_OK && law->setting->meter) {
        (void)fits(law->setting, direction, &spent);
        eps__meter_add(law->setting->meter, spent);
    }
    return status;
}

/*
 * ln E X^a, about, were steps met by no more than one other: of a copies k take a step, and l others one at a distance. mean: a
 * row of the matrix.
 */
static double log_order(const struct eps__coins *coins, const double *mean, unsigned a)
{
    double odds = log(coins->p / (1 - coins->p)), none = a * log1p(-coins->p), alone = 0, met = 0;
    for (unsigned k = 0; k <= a; k++) {
        double own = lgamma(a + 1.0) - lgamma(k + 1.0) + none + k * odds + 0.5 * k * (k - 1.0) * mean[0];
        alone += exp(own - lgamma(a - k + 1.0));
        for (unsigned l = 1; k > 0 && k + l <= a; l++)
            for (size_t d = 1; d < coins->width; d++)
                met += exp(own + l * odds + 0.5 * l * (l - 1.0) * mean[0] - lgamma(l + 1.0) - lgamma(a - k - l + 1.0)) *
                       expm1(mean[d] * k * l);
    }
    return (double)coins->len * (log(alone) + met);
}

static enum eps_status sketch(const struct eps__renyi_law *base, struct eps__orders *orders, double *variance)
{
    const struct coins_law *law = (const struct coins_law *)base;
    const struct eps__coins *coins = &law->coins;
    double mean[EPS__COINS_WIDTH_MAX] = {0}, spent;
    unsigned max_order = law->setting->job->query.accountant.max_order, most = fits(law->setting, EPS_REMOVE, &spent);
    for (size_t i = 0; i < coins->len; i++)
        for (size_t d = 0; d < coins->width && d <= i; d++)
            mean[d] += coins->gram[i * coins->width + d] / (double)coins->len;
    assert(coins->width <= EPS__COINS_WIDTH_MAX);
    *variance = coins->p < 1 ? expm1(log_order(coins, mean, 2)) : INFINITY;
    if (!orders)
        return EPS_OK;
    if (max_order > 0 && max_order < most)
        most = max_order;
    enum eps_status status = eps__orders_alloc(orders, most);
    for (unsigned a = 2; status == EPS_OK && a <= most && coins->p < 1; a++)
        orders->log_upper[a] = orders->log_lower[a] = log_order(coins, mean, a);
    return status;
}

const struct eps__renyi_kind eps__renyi_coins = {.concerns = concerns,
                                                 .serves = serves,
                                                 .cost = cost,
                                                 .least_sigma = least_sigma,
                                                 .open = open_law,
                                                 .know = know,
                                                 .sketch = sketch,
                                                 .destroy = destroy};
