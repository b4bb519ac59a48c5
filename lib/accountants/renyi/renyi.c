/*
 * The Rényi accountant: deterministic, for laws whose moments are known (law.h) and strategies without negative
 * entries.
 *
 * Remove: it computes E X^a, X = P/Q under Q, for integer orders a. The bound is the least over single orders, with
 * real orders by convexity, and over all exact moments together, which is never worse than a single one of them. Add:
 * the bound is the least of the closed form from the geometric mean, whose mean is not amplified, and of the bound on E
 * (1 - e^eps X)_+ from the same moments, which is amplified.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <assert.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>

#include "lib/accountants/renyi/tilts.h"
#include "lib/base/error.h"
#include "lib/sampling/pairs.h"
#include "lib/sampling/scheme.h"

#define GAIN 0.05       /* further orders are computed while the last two lower ln delta by more than this */
#define LAG 1.5         /* no further orders are computed if other bounds on ln delta are lower by more than this */
#define CLOSED_UNITS 64 /* the rounding of a closed form of moments, in units of roundoff */
#define LIKELY 8        /* the most moments of an approximation */

/* One direction, computed on first use; thread-compatible. */
struct side {
    bool known, quickly_known;
    unsigned at_once;                                  /* the highest order that know() computes */
    struct eps__orders orders[EPS__LEVELS_MAX], quick; /* remove only; quick holds approximations */
    struct eps__orders groups;                         /* remove only: higher orders; len = 0 if there are none */
    struct eps__laws laws[EPS__LEVELS_MAX];
    double variance;            /* of X, approximately */
    struct eps__moments likely; /* remove: approximate moments, from quick; len = 0 if there are none */
    struct eps__tilts tilts;
    struct {
        double eps, upper, lower;
        unsigned order, moments;
    } last; /* the answer at the epsilon asked last */
};

/* The constants of A46, rounded up: 1/0.9 and 1 - ln 0.1. */
#define CUT_SHARE 1.1112
#define CUT_BACK 3.3026

struct renyi_profile {
    struct eps__profile base;
    const struct eps__setting *setting;
    struct eps__renyi_law *law;
    double sought; /* ln of the given delta if the noise multiplier is the unknown; else NAN */
    struct side sides[EPS_DIRECTIONS];
};

/* ------------------------------------------------------------ the profile */

static size_t levels_of(const struct eps__renyi_law *law)
{
    assert(law->levels <= EPS__LEVELS_MAX);
    return law->levels > 0 ? law->levels : 1;
}

static void forget(struct side *side, size_t level)
{
    eps__orders_clear(&side->orders[level]);
    eps__laws_clear(&side->laws[level]);
}

static enum eps_status know(struct renyi_profile *renyi, enum eps_direction direction)
{
    struct side *side = &renyi->sides[direction];
    if (side->known)
        return EPS_OK;
    const struct eps__renyi_law *law = renyi->law;
    enum eps_status status = EPS_OK;
    for (size_t level = 0; status == EPS_OK && level < levels_of(law); level++) {
        struct eps__orders *orders = direction == EPS_REMOVE ? &side->orders[level] : NULL;
        forget(side, level); /* left by an earlier call that was canceled */
        status = law->levels > 0 ? law->class->know_level(law, level, orders, &side->laws[level])
                                 : law->class->know(law, orders, &side->laws[level]);
    }
    if (status == EPS_OK && direction == EPS_REMOVE && law->class->know_groups)
        status = law->class->know_groups(law, &side->orders[0], &side->groups);
    side->known = status == EPS_OK;
    side->at_once = status == EPS_OK && direction == EPS_REMOVE ? side->orders[0].len : 0;
    return status;
}

/* The least bound on ln delta_add(eps) over the geometric means. */
static double geometric_log_delta(const struct eps__renyi_law *law, enum eps__estimate estimate, double eps)
{
    double least = 0;
    assert(law->geometrics_len >= 1 && law->geometrics_len <= EPS__GEOMETRICS_MAX);
    for (size_t i = 0; i < law->geometrics_len; i++)
        least = fmin(least, eps__geometric_log_delta(&law->geometrics[i], estimate, eps));
    return least;
}

/* The least bound so far, its lower end, and the order or number of moments that gave it. */
struct least {
    double upper, lower;
    unsigned order, moments;
};

/* Lowers *least to what a residual proves (A50). */
static enum eps_status ask_residual(struct least *least, struct renyi_profile *renyi, enum eps_direction direction,
                                    double eps)
{
    const struct eps__residual *residual = NULL;
    enum eps_status status = EPS_OK;
    if (renyi->law->class->know_residual)
        status = eps__tilts_ask(&residual, &renyi->sides[direction].tilts, renyi->law, renyi->setting->context,
                                direction, eps);
    if (status != EPS_OK || !residual)
        return status;
    double upper = eps__residual_log_delta(residual, EPS__UPPER, eps);
    double lower = eps__residual_log_delta(residual, EPS__LOWER, eps);
    if (upper < least->upper)
        *least = (struct least){upper, fmin(least->lower, lower), 0, residual->moments};
    return EPS_OK;
}

/* Adds the probability of the rare patterns to delta (M21). */
static double with_rare(double rare, enum eps__estimate estimate, double log_delta)
{
    if (rare == 0 || isnan(log_delta) || log_delta == INFINITY)
        return log_delta;
    double sum = eps__log_add(log_delta, log(rare));
    return eps__shift(estimate, sum, 16 * EPS__UNIT_ROUNDOFF * (1 + fabs(sum) + fabs(log(rare))));
}

static void ask_orders(struct least *least, const struct eps__orders *orders, double rare, double eps)
{
    unsigned order, ignored;
    double upper = with_rare(rare, EPS__UPPER, eps__orders_log_delta(orders, EPS__UPPER, eps, &order));
    double lower = with_rare(rare, EPS__LOWER, eps__orders_log_delta(orders, EPS__LOWER, eps, &ignored));
    if (upper < least->upper) {
        least->upper = upper;
        least->order = order;
        least->moments = 0;
    }
    least->lower = fmin(least->lower, lower);
}

static enum eps_status ask_moments(struct least *least, const struct renyi_profile *renyi,
                                   const struct eps__moments *moments, double rare, enum eps_direction direction,
                                   double eps)
{
    double own, attained;
    size_t used;
    enum eps_status status =
        eps__moments_log_delta(renyi->setting->context, moments, direction, eps, &own, &attained, &used);
    if (status != EPS_OK)
        return status;
    own = with_rare(rare, EPS__UPPER, own);
    if (isfinite(attained))
        attained = with_rare(rare, EPS__LOWER, attained);
    if (own < least->upper) { /* `attained` limits what other polynomials can prove; -INFINITY: a closed form (A17) */
        double rounding = CLOSED_UNITS * EPS__UNIT_ROUNDOFF * (1 + fabs(own));
        double lower = isfinite(attained) ? attained : eps__shift(EPS__LOWER, own, rounding);
        *least = (struct least){own, fmin(least->lower, lower), 0, (unsigned)used};
    }
    return EPS_OK;
}

/* Lowers *least to what the moments of law i prove beside the factor that all bins share (M28). */
static enum eps_status ask_rest(struct least *least, const struct renyi_profile *renyi, const struct eps__laws *laws,
                                size_t i, enum eps_direction direction, double eps)
{
    struct eps__interval log_delta;
    enum eps_status status = eps__shared_log_delta(renyi->setting->context, &laws->rest[i], &laws->shared[i], direction,
                                                   eps, laws->tables[i], &log_delta);
    if (status == EPS_OK && log_delta.upper < least->upper)
        *least =
            (struct least){log_delta.upper, fmin(least->lower, log_delta.lower), 0, (unsigned)laws->tables[i]->used};
    return status;
}

/* Lowers *least to what a level's orders and moments up to `order` prove. */
static enum eps_status ask_level(struct least *least, const struct renyi_profile *renyi, size_t level, unsigned order,
                                 enum eps_direction direction, double eps)
{
    const struct side *side = &renyi->sides[direction];
    double rare = renyi->law->rare[level];
    enum eps_status status = EPS_OK;
    if (direction == EPS_REMOVE) {
        struct eps__orders orders = side->orders[level];
        orders.len = orders.len < order ? orders.len : order;
        ask_orders(least, &orders, rare, eps);
    }
    for (size_t i = 0; status == EPS_OK && i < side->laws[level].len; i++) {
        struct eps__moments moments = side->laws[level].items[i];
        moments.len = moments.len < order ? moments.len : order;
        if (moments.len >= 2)
            status = ask_moments(least, renyi, &moments, rare, direction, eps);
        if (status == EPS_OK && side->laws[level].shared[i].square > 0)
            status = ask_rest(least, renyi, &side->laws[level], i, direction, eps);
    }
    return status;
}

/* Computes orders beyond those that are known at once, one by one, while they lower the bound. What is asked for at one
 * epsilon does not change the answer at another. */
static enum eps_status ask_further(struct least *least, struct renyi_profile *renyi, double eps)
{
    struct side *side = &renyi->sides[EPS_REMOVE];
    double before = INFINITY, last = least->upper;
    bool more = renyi->law->class->know_more != NULL;
    enum eps_status status = EPS_OK;
    for (unsigned order = side->at_once + 1; more && before - least->upper > GAIN; order++) {
        if (side->orders[0].len < order)
            status = renyi->law->class->know_more(renyi->law, &side->orders[0], &side->laws[0], &more);
        if (status == EPS_OK && more)
            status = ask_level(least, renyi, 0, order, EPS_REMOVE, eps);
        if (status != EPS_OK)
            return status;
        before = last;
        last = least->upper;
    }
    return EPS_OK;
}

/* The least bound for batches without truncation, and what gave it. */
static enum eps_status ask_whole(struct least *least, struct renyi_profile *renyi, enum eps_direction direction,
                                 double eps)
{
    struct side *side = &renyi->sides[direction];
    enum eps_status status = know(renyi, direction);
    if (status != EPS_OK)
        return status;
    *least = (struct least){INFINITY, INFINITY, 0, 0};
    if (direction == EPS_ADD) {
        least->upper = geometric_log_delta(renyi->law, EPS__UPPER, eps);
        least->lower = geometric_log_delta(renyi->law, EPS__LOWER, eps);
    }
    unsigned at_once = direction == EPS_REMOVE && renyi->law->class->know_more ? side->at_once : UINT_MAX;
    for (size_t level = 0; status == EPS_OK && level < levels_of(renyi->law); level++)
        status = ask_level(least, renyi, level, at_once, direction, eps);
    struct least whole = *least;
    if (status == EPS_OK && side->groups.len > 0)
        ask_orders(least, &side->groups, 0, eps);
    if (status == EPS_OK)
        status = ask_residual(least, renyi, direction, eps);
    if (status == EPS_OK && direction == EPS_REMOVE && whole.upper - least->upper < LAG)
        status = ask_further(&whole, renyi, eps);
    if (whole.upper < least->upper)
        *least = (struct least){whole.upper, fmin(least->lower, whole.lower), whole.order, whole.moments};
    if (status != EPS_OK)
        return status;
    least->upper = fmin(least->upper, 0);
    least->lower = fmin(least->lower, least->upper);
    return EPS_OK;
}

/* Whether in the add direction the loss exceeds eps only if a batch was truncated (A46). */
static bool never_exceeds(const struct eps__renyi_law *law, double eps)
{
    return eps__multiply_down(law->never, eps__exp_bound(EPS__LOWER, eps, 0)) >= 1;
}

/* What truncated batches add in the add direction, beside law->cut; rounded up. */
static double more_to_add(const struct eps__renyi_law *law, double eps)
{
    return fmin(law->cut_add, eps__multiply_up(eps__exp_bound(EPS__UPPER, eps, 0), law->cut));
}

/* Truncated batches add at least this to the bound. */
static double least_cut(const struct eps__renyi_law *law, enum eps_direction direction, double eps)
{
    if (direction == EPS_REMOVE)
        return CUT_SHARE * law->cut;
    return law->cut + (never_exceeds(law, eps) ? 0 : more_to_add(law, eps));
}

/* Adds what truncated batches may contribute to delta (A46). */
static enum eps_status add_cut(struct least *least, struct renyi_profile *renyi, enum eps_direction direction,
                               double eps)
{
    const struct eps__renyi_law *law = renyi->law;
    double more = law->cut;
    assert(law->cut_add >= law->cut); /* log_2(1 + x) >= min(x, 1), and x >= p (A46) */
    if (direction == EPS_REMOVE) {
        struct least before = {0};
        enum eps_status status = eps >= CUT_BACK ? ask_whole(&before, renyi, direction, eps - CUT_BACK) : EPS_OK;
        if (status != EPS_OK)
            return status;
        more = eps__multiply_up(fmin(4, CUT_SHARE + 16 * eps__exp_bound(EPS__UPPER, before.upper, 0)), law->cut);
    } else if (never_exceeds(law, eps)) {
        *least = (struct least){-INFINITY, -INFINITY, least->order, least->moments};
    } else {
        more = eps__add_up(more, more_to_add(law, eps));
    }
    more = fmin(more, 1);
    least->upper = fmin(with_rare(more, EPS__UPPER, least->upper), 0);
    least->lower = fmin(with_rare(eps__lower(more, 16), EPS__LOWER, least->lower), least->upper);
    return EPS_OK;
}

/* Computes the bound at eps, truncated batches included, and keeps it in side->last. */
static enum eps_status ask(struct renyi_profile *renyi, enum eps_direction direction, double eps)
{
    struct side *side = &renyi->sides[direction];
    struct least least;
    if (side->last.eps == eps)
        return EPS_OK;
    enum eps_status status = ask_whole(&least, renyi, direction, eps);
    if (status == EPS_OK && renyi->law->cut > 0)
        status = add_cut(&least, renyi, direction, eps);
    if (status != EPS_OK)
        return status;
    side->last.eps = eps;
    side->last.upper = least.upper;
    side->last.lower = least.lower;
    side->last.order = least.order;
    side->last.moments = least.moments;
    return EPS_OK;
}

static enum eps_status log_delta(struct eps__profile *profile, enum eps_direction direction,
                                 enum eps__estimate estimate, double eps, double *out, struct eps_error *error)
{
    struct renyi_profile *renyi = (struct renyi_profile *)profile;
    if (renyi->law->cut > 0 && log(least_cut(renyi->law, direction, eps)) >= renyi->sought)
        return eps__error(error, EPS_UNATTAINABLE, "/sampling/truncation/max_batch_size",
                          "renyi cannot reach this delta, because batches are truncated too often: increase "
                          "max_batch_size");
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

/* Moments from the approximate orders, as if these were exact. More than LIKELY of them make approximations slower than
 * they save proofs. */
static enum eps_status likely_moments(struct side *side)
{
    unsigned len = side->quick.len < LIKELY ? side->quick.len : LIKELY;
    eps__quad raw[LIKELY + 1];
    if (!(side->variance > 0))
        return EPS_OK;
    enum eps_status status = eps__moments_alloc(&side->likely, len);
    for (unsigned a = 0; status == EPS_OK && a <= len; a++)
        raw[a] = a < 2 ? 1 : expq((eps__quad)side->quick.log_upper[a]);
    if (status == EPS_OK) {
        eps__moments_centre(&side->likely, raw, 0);
        eps__moments_keep_known(&side->likely);
    }
    return status;
}

static enum eps_status approximate_orders(struct renyi_profile *renyi, enum eps_direction direction)
{
    struct side *side = &renyi->sides[direction];
    if (side->quickly_known)
        return EPS_OK;
    enum eps_status status = renyi->law->class->approximate_orders(
        renyi->law, direction == EPS_REMOVE ? &side->quick : NULL, &side->variance);
    if (status == EPS_OK && direction == EPS_REMOVE) {
        status = likely_moments(side);
        if (status != EPS_OK)
            eps__orders_clear(&side->quick);
    }
    side->quickly_known = status == EPS_OK;
    return status;
}

/* An approximation of ln of Scarf's bound on E (X - 1 - away)_+ or E (1 - away - X)_+ from the variance (M6). */
static double log_scarf(double variance, double away)
{
    return log(variance / (sqrt(variance + away * away) + away) / 2);
}

/* Remove: from a few orders and their moments. Add: from the closed forms. Either way Scarf's bound and residuals are
 * used if they give less. */
static enum eps_status approximate(struct eps__profile *profile, enum eps_direction direction, double eps, double *out)
{
    struct renyi_profile *renyi = (struct renyi_profile *)profile;
    struct side *side = &renyi->sides[direction];
    unsigned order;
    enum eps_status status = approximate_orders(renyi, direction);
    if (status != EPS_OK)
        return status;
    if (direction == EPS_REMOVE) {
        *out = fmin(eps__orders_log_delta(&side->quick, EPS__UPPER, eps, &order), 0);
        if (side->variance > 0)
            *out = fmin(*out, log_scarf(side->variance, expm1(eps)));
        double bound = INFINITY, attained;
        size_t used;
        if (side->likely.len >= 2)
            status = eps__moments_log_delta(renyi->setting->context, &side->likely, direction, eps, &bound, &attained,
                                            &used);
        *out = fmin(*out, bound);
    } else {
        double put = eps + log_scarf(side->variance, -expm1(-eps));
        *out = fmin(geometric_log_delta(renyi->law, EPS__UPPER, eps), fmin(put, 0));
    }
    if (renyi->law->class->know_residual || renyi->law->shares)
        *out = fmin(*out, eps__tilts_approximate(renyi->law, direction, eps));
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
        for (size_t level = 0; level < EPS__LEVELS_MAX; level++)
            forget(side, level);
        eps__orders_clear(&side->quick);
        eps__orders_clear(&side->groups);
        eps__moments_clear(&side->likely);
        eps__tilts_clear(&side->tilts);
    }
    if (renyi->law)
        renyi->law->class->destroy(renyi->law);
    free(renyi);
}

static const struct eps__profile_class profile_class = {.log_delta = log_delta,
                                                        .approximate = approximate,
                                                        .guess = eps__profile_guess,
                                                        .refine = refine,
                                                        .describe = describe,
                                                        .destroy = destroy};

/* ------------------------------------------------------------ the accountant */

static bool serves(const struct eps__setting *setting, struct eps_error *error)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    if (!eps__sampling_random(mechanism))
        return eps__scheme_decline(error, "renyi", eps__scheme_random);
    if (!eps__adjacency_known(error, "renyi", EPS__AGAINST_NOISE, mechanism->adjacency))
        return false;
    if (!eps__strategy_nonnegative(setting->strategy))
        return eps__decline(error, "/matrix", "amplification by renyi needs a strategy whose entries are all >= 0");
    const struct eps__renyi_law_class *class = eps__renyi_law_class_of(setting);
    return class ? class->serves(setting, error)
                 : eps__decline(error, "/sampling/scheme", "renyi knows no moments of this scheme; leave renyi out");
}

static bool exact(const struct eps__setting *setting)
{
    (void)setting;
    return false;
}

static void cost(const struct eps__setting *setting, double *operations, double *bytes)
{
    eps__renyi_law_class_of(setting)->cost(setting, operations, bytes);
}

static enum eps_status open_profile(const struct eps__setting *setting, double sigma,
                                    const struct eps__accuracy *accuracy, struct eps__profile **profile,
                                    struct eps_error *error)
{
    struct renyi_profile *renyi = calloc(1, sizeof *renyi);
    if (!renyi)
        return eps__error(error, EPS_NO_MEMORY, "", "out of memory");
    renyi->base.class = &profile_class;
    renyi->setting = setting;
    renyi->sought = accuracy->unknown == EPS_SOLVE_NOISE_MULTIPLIER ? accuracy->log_delta : NAN;
    for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++)
        renyi->sides[direction].last.eps = NAN;
    enum eps_status status = eps__renyi_law_class_of(setting)->open(&renyi->law, setting, sigma);
    if (status != EPS_OK) {
        destroy(&renyi->base);
        return eps__error(error, status, "", "%s", status == EPS_NO_MEMORY ? "out of memory" : "canceled");
    }
    *profile = &renyi->base;
    return EPS_OK;
}

static double least_sigma(const struct eps__setting *setting)
{
    return eps__renyi_law_class_of(setting)->least_sigma(setting);
}

const struct eps__accountant eps__accountant_renyi = {
    .method = EPS_ACCOUNTANT_RENYI,
    .name = "renyi",
    .curves = true,
    .amplifies = true,
    .composes = true,
    .fixed = true,
    .assume = eps__assume_causal_order,
    .serves = serves,
    .exact = exact,
    .cost = cost,
    .open = open_profile,
    .least_sigma = least_sigma,
};
