/*
 * The Renyi accountant of balls in bins (RA section 3): deterministic, for any strategy with no negative entry.
 *
 * Remove: E X^a, X = P/Q under Q, for integer orders a; the best single order, real ones by convexity, or the bound
 * from all moments that are exact at once, which is never more than that of any one of them. Add: the bound by the
 * geometric mean, closed and without amplification in its mean, or the put from the same moments, which is amplified.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdlib.h>

#include "lib/accountants/accountant.h"
#include "lib/accountants/renyi_bounds.h"
#include "lib/error.h"
#include "lib/moments/redrawn.h"
#include "lib/sampling/pairs.h"
#include "lib/sampling/scheme.h"
#include "lib/strategy/merged.h"

enum { BINS_MOST = 4096, OPENED = 30 };

#define EFFORT 1e8       /* operations on the moments of one sigma, in either direction */
#define QUICK_EFFORT 2e6 /* where a bound is only a starting point */
#define SHIFT_MOST 100.0 /* the longest m_i over sigma: e^{its square} is within quadruple precision */
#define EPS_MOST 1e6
#define CLOSED_UNITS 64 /* what a closed form of moments may round */

/* One direction, made when it is first asked; one thread at a time uses it. */
struct side {
    bool known, quickly_known;
    struct eps__orders orders, quick; /* remove */
    struct eps__laws laws;
    double variance; /* about: mu_2 */
    struct {
        double eps, upper, lower;
        unsigned order, moments;
    } last;
};

struct renyi_profile {
    struct eps__profile base;
    const struct eps__setting *setting;
    struct eps__bins bins; /* of one draw */
    size_t draws;          /* of a bin: one, or one an epoch */
    struct eps__geometric geometric;
    struct eps__effort effort, quick_effort;
    struct side sides[EPS_DIRECTIONS];
};

/* ------------------------------------------------------------ the profile */

static enum eps_status know(struct renyi_profile *renyi, enum eps_direction direction)
{
    struct side *side = &renyi->sides[direction];
    const struct eps_context *context = renyi->setting->context;
    if (side->known)
        return EPS_OK;
    enum eps_status status = eps__bins_laws(context, &side->laws, &renyi->bins, &renyi->effort);
    if (status == EPS_OK && direction == EPS_REMOVE) {
        status = eps__bins_orders(context, &side->orders, &renyi->bins, &renyi->effort);
        if (status == EPS_OK)
            eps__orders_redrawn(&side->orders, renyi->draws);
        else
            eps__laws_clear(&side->laws);
    }
    for (size_t i = 0; status == EPS_OK && i < side->laws.len; i++)
        eps__moments_redrawn(&side->laws.items[i], renyi->draws);
    if (status == EPS_OK)
        eps__meter_add(renyi->setting->meter, renyi->effort.operations);
    side->known = status == EPS_OK;
    return status;
}

/* The least of the bounds, and which it was. */
static enum eps_status ask(struct renyi_profile *renyi, enum eps_direction direction, double eps)
{
    struct side *side = &renyi->sides[direction];
    if (side->last.eps == eps)
        return EPS_OK;
    enum eps_status status = know(renyi, direction);
    if (status != EPS_OK)
        return status;
    double upper, lower;
    unsigned order = 0, moments = 0, ignored;
    if (direction == EPS_REMOVE) {
        upper = eps__orders_log_delta(&side->orders, EPS__UPPER, eps, &order);
        lower = eps__orders_log_delta(&side->orders, EPS__LOWER, eps, &ignored);
    } else {
        upper = eps__geometric_log_delta(&renyi->geometric, EPS__UPPER, eps);
        lower = eps__geometric_log_delta(&renyi->geometric, EPS__LOWER, eps);
    }
    for (size_t i = 0; i < side->laws.len; i++) {
        double own, attained;
        size_t used;
        if (side->laws.items[i].len < 2)
            continue;
        status = eps__moments_log_delta(renyi->setting->context, &side->laws.items[i], direction, eps, &own, &attained,
                                        &used);
        if (status != EPS_OK)
            return status;
        if (own < upper) { /* how much less another polynomial could say; -INFINITY: a closed form (L23) */
            double rounding = CLOSED_UNITS * EPS__UNIT_ROUNDOFF * (1 + fabs(own));
            upper = own;
            lower = fmin(lower, isfinite(attained) ? attained : eps__shift(EPS__LOWER, own, rounding));
            moments = (unsigned)used;
        }
    }
    side->last.eps = eps;
    side->last.upper = fmin(upper, 0);
    side->last.lower = fmin(lower, side->last.upper);
    side->last.order = moments > 0 ? 0 : order;
    side->last.moments = moments;
    return EPS_OK;
}

static enum eps_status log_delta(struct eps__profile *profile, enum eps_direction direction,
                                 enum eps__estimate estimate, double eps, double *out, struct eps_error *error)
{
    struct renyi_profile *renyi = (struct renyi_profile *)profile;
    (void)error;
    enum eps_status status = ask(renyi, direction, eps);
    if (status == EPS_OK)
        *out = estimate == EPS__UPPER ? renyi->sides[direction].last.upper : renyi->sides[direction].last.lower;
    return status;
}

static void describe(const struct eps__profile *profile, enum eps_direction direction, double eps,
                     struct eps__answer *answer)
{
    struct renyi_profile *renyi = (struct renyi_profile *)profile;
    if (ask(renyi, direction, eps) == EPS_OK) {
        answer->order = renyi->sides[direction].last.order;
        answer->moments = renyi->sides[direction].last.moments;
    }
}

/* A few orders, or the closed forms; with the bound from the variance alone where it is less. */
static enum eps_status approximate(struct eps__profile *profile, enum eps_direction direction, double eps, double *out)
{
    struct renyi_profile *renyi = (struct renyi_profile *)profile;
    struct side *side = &renyi->sides[direction];
    enum eps_status status = EPS_OK;
    unsigned order;
    if (!side->quickly_known) {
        if (direction == EPS_REMOVE)
            status = eps__bins_orders(renyi->setting->context, &side->quick, &renyi->bins, &renyi->quick_effort);
        for (size_t i = 0; direction == EPS_ADD && i < renyi->bins.len; i++)
            for (size_t j = 0; j < renyi->bins.len; j++)
                if (renyi->bins.gram || i == j)
                    side->variance += expm1(eps__bins_entry(&renyi->bins, i, j));
        if (status != EPS_OK)
            return status;
        side->variance /= (double)renyi->bins.len * (double)renyi->bins.len;
        side->variance = expm1((double)renyi->draws * log1p(side->variance));
        if (direction == EPS_REMOVE)
            eps__orders_redrawn(&side->quick, renyi->draws);
        side->quickly_known = true;
    }
    if (direction == EPS_REMOVE) {
        *out = fmin(eps__orders_log_delta(&side->quick, EPS__UPPER, eps, &order), 0);
    } else {
        double left = -expm1(-eps), put = exp(eps) * (sqrt(side->variance + left * left) - left) / 2;
        *out = fmin(eps__geometric_log_delta(&renyi->geometric, EPS__UPPER, eps), log(fmin(put, 1)));
    }
    return EPS_OK;
}

static enum eps_status guess(struct eps__profile *profile, enum eps_direction direction, double wanted, double *eps)
{
    double low = 0, high = 1e-3, value;
    enum eps_status status = approximate(profile, direction, high, &value);
    for (; status == EPS_OK && value > wanted && high < EPS_MOST;
         status = approximate(profile, direction, high, &value)) {
        low = high;
        high *= 2;
    }
    for (int i = 0; status == EPS_OK && i < 40 && high - low > 1e-3 * high; i++) {
        double middle = 0.5 * (low + high);
        status = approximate(profile, direction, middle, &value);
        *(value > wanted ? &low : &high) = middle;
    }
    *eps = high;
    return status;
}

static bool refine(struct eps__profile *profile, enum eps_direction direction, double factor)
{
    (void)profile;
    (void)direction;
    (void)factor;
    return false;
}

static void destroy(struct eps__profile *profile)
{
    struct renyi_profile *renyi = (struct renyi_profile *)profile;
    for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++) {
        struct side *side = &renyi->sides[direction];
        eps__orders_clear(&side->orders);
        eps__orders_clear(&side->quick);
        eps__laws_clear(&side->laws);
    }
    eps__bins_clear(&renyi->bins);
    free(renyi);
}

static const struct eps__profile_class profile_class = {.log_delta = log_delta,
                                                        .approximate = approximate,
                                                        .guess = guess,
                                                        .refine = refine,
                                                        .describe = describe,
                                                        .destroy = destroy};

/* ------------------------------------------------------------ the accountant */

/* How often an example's bin is drawn. */
static size_t draws_of(const struct eps__setting *setting)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    return mechanism->sampling.redraw ? mechanism->n / eps__sampling_bins(mechanism) : 1;
}

static bool serves(const struct eps__setting *setting, struct eps_error *error)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    size_t bins = eps__sampling_bins(mechanism);
    if (bins == 0)
        return eps__scheme_decline(error, "renyi", eps__scheme_bins);
    if (draws_of(setting) > 1 && !eps__merged_repeats(setting->strategy, bins))
        return eps__decline(error, "/sampling/redraw",
                            "renyi serves a bin that is drawn anew in every epoch where no row of the strategy reaches "
                            "over one: identity, or stamps that divide the bins; leave redraw out");
    if (!eps__adjacency_known(error, "renyi", EPS__AGAINST_NOISE, mechanism->adjacency))
        return false;
    if (!eps__strategy_nonnegative(setting->strategy))
        return eps__decline(error, "/matrix", "amplification by renyi needs a strategy whose entries are all >= 0");
    if (!eps__strategy_lower_triangular(setting->strategy))
        return eps__decline(error, "/matrix", "renyi needs a lower-triangular strategy or a tree");
    if (bins > BINS_MOST && !eps__strategy_is_diagonal(setting->strategy))
        return eps__decline(error, "/sampling/bins",
                            "renyi serves at most 4096 bins unless the strategy is diagonal; use fewer bins");
    return true;
}

static bool exact(const struct eps__setting *setting)
{
    (void)setting;
    return false;
}

static void cost(const struct eps__setting *setting, double *operations, double *bytes)
{
    double bins = (double)eps__sampling_bins(&setting->job->mechanism), n = (double)setting->job->mechanism.n;
    double bands = fmin((double)eps_strategy_bands(setting->strategy), bins);
    double opened = setting->job->query.noise_multiplier > 0 ? 1 : OPENED;
    bool diagonal = eps__strategy_is_diagonal(setting->strategy);
    double numbers = diagonal ? bins : bins * bins;
    *operations = 2 * opened * (n * bands * bands + 100 * numbers + 3 * EFFORT);
    *bytes = 2 * (8 * 6 * numbers) + 8e8;
}

/* The Gram matrix of the merged columns, or of one epoch's, with the error of its entries. */
static enum eps_status make_bins(struct renyi_profile *renyi, double sigma)
{
    const struct eps__setting *setting = renyi->setting;
    const struct eps_strategy *strategy = setting->strategy;
    size_t len = eps__sampling_bins(&setting->job->mechanism), n = setting->job->mechanism.n;
    bool diagonal = eps__strategy_is_diagonal(strategy);
    double *gram = calloc(diagonal ? len : len * len, sizeof *gram), error = 0;
    enum eps_status status = gram ? EPS_OK : EPS_NO_MEMORY;
    if (status == EPS_OK && diagonal) {
        size_t terms = n / len + 3;
        error = (double)terms * EPS__UNIT_ROUNDOFF;
        for (size_t j = 0; j < n; j++) {
            double norm = eps__strategy_column_norm(strategy, j);
            gram[j % len] += norm * norm;
        }
    } else if (status == EPS_OK) {
        status = eps__merged_gram(setting->context, gram, &error, strategy, len);
    }
    for (size_t i = 0, numbers = diagonal ? len : len * len; status == EPS_OK && renyi->draws > 1 && i < numbers; i++)
        gram[i] /= (double)renyi->draws; /* all epochs are alike (moments/LEMMAS.md, L28) */
    error += EPS__UNIT_ROUNDOFF;
    if (status == EPS_OK)
        status = eps__bins_make(&renyi->bins, diagonal ? NULL : gram, diagonal ? gram : NULL, len, error, sigma);
    free(gram);
    return status;
}

static enum eps_status open_profile(const struct eps__setting *setting, double sigma,
                                    const struct eps__accuracy *accuracy, struct eps__profile **profile,
                                    struct eps_error *error)
{
    const struct eps_tuning *tuning = &setting->job->query.accountant;
    struct renyi_profile *renyi = calloc(1, sizeof *renyi);
    if (!renyi)
        return eps__error(error, EPS_NO_MEMORY, "", "out of memory");
    renyi->base.class = &profile_class;
    renyi->setting = setting;
    renyi->draws = draws_of(setting);
    renyi->effort = (struct eps__effort){EFFORT, tuning->max_order, tuning->bandwidth};
    renyi->quick_effort = (struct eps__effort){QUICK_EFFORT, tuning->max_order, 0};
    (void)accuracy;
    for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++)
        renyi->sides[direction].last.eps = NAN;
    enum eps_status status = make_bins(renyi, sigma);
    if (status != EPS_OK) {
        destroy(&renyi->base);
        return eps__error(error, status, "", "%s", status == EPS_NO_MEMORY ? "out of memory" : "canceled");
    }
    renyi->geometric = eps__geometric_of(&renyi->bins, renyi->draws);
    *profile = &renyi->base;
    return EPS_OK;
}

static double least_sigma(const struct eps__setting *setting)
{
    return setting->sensitivity.value / SHIFT_MOST;
}

const struct eps__accountant eps__accountant_renyi = {
    .method = EPS_ACCOUNTANT_RENYI,
    .name = "renyi",
    .tuning = 1u << EPS_TUNING_TOLERANCE | 1u << EPS_TUNING_MAX_ORDER | 1u << EPS_TUNING_BANDWIDTH,
    .curves = true,
    .amplifies = true,
    .assume = eps__assume_causal_order,
    .serves = serves,
    .exact = exact,
    .cost = cost,
    .open = open_profile,
    .least_sigma = least_sigma,
};
