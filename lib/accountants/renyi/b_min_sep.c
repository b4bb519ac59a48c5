/*
 * The law of X for b-min-sep sampling: with a cold start and one or several examples per user, or with a warm start.
 * Several examples per user need a separation of at least the number of bands.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "lib/accountants/renyi/banded.h"
#include "lib/accountants/renyi/poisson.h"
#include "lib/base/error.h"
#include "lib/moments/laws/b_min_sep_residual.h"
#include "lib/moments/laws/raw.h"
#include "lib/numerics/binomial.h"
#include "lib/sampling/scheme.h"

enum {
    OPENED = 4,        /* the number of profiles that a search for a noise multiplier opens, for cost() */
    RESIDUALS = 8,     /* the number of residuals that any search uses, in both directions together */
    MEAN_SETTLING = 7, /* the mean is the same at all steps after about MEAN_SETTLING separations */
    FEW = 4,           /* the orders to which the higher limits LOW apply */
    OF_USE = 3         /* to remove, groups of copies prove more than a residual of fewer moments */
};

#define LOW 1.5e9            /* the most operations for the first FEW orders at one sigma, in the remove direction, */
#define LOW_WIDE 4e9         /* and where bands exceed the separation */
#define AT_ONCE 1e8          /* the most for all orders that are computed before a bound is asked for */
#define FURTHER 2e9          /* the most for all orders */
#define RESIDUAL 2e8         /* the most for the moments of a residual at one tilt */
#define DRAFT 1e7            /* in a draft, the most for all orders that are computed at once, */
#define DRAFT_FURTHER 5e8    /* for all orders, */
#define DRAFT_RESIDUAL 1e8   /* and for a residual */
#define GROUPS 1e7           /* the most for orders by groups of copies */
#define PACE 3.0             /* nanoseconds per operation, */
#define PACE_RESIDUAL 1.3    /* the same for a residual, which is seldom computed anew in quadruple precision, */
#define PACE_FURTHER 0.3     /* and of an order beyond those that are computed at once, of which not all are */
#define BOUNDS 3.5e8         /* operations for the polynomials that a search proves, as measured */
#define EXAMPLES_MOST 100000 /* a cap on the examples per user, which exceeds every limit on operations */

#define ALIKE 1e-12    /* probabilities of waiting that differ by no more than this, relatively, are made equal */
#define BEYOND 50.0    /* a normal number exceeds this with a probability below DBL_MIN */
#define CUT_UNITS 4096 /* an exponent below 710, and its exponential */
#define LOST 0x1p-979  /* an upper bound on what a probability of waiting loses to underflow */

struct b_min_sep_law {
    struct eps__renyi_law base;
    const struct eps__setting *setting;
    struct eps__b_min_sep b_min_sep;
    struct eps__b_min_sep_moments known[EPS_DIRECTIONS];
    double mean_p[EPS__GEOMETRICS_MAX]; /* the probability q of each geometric mean */
    double lost;                        /* to underflow, by lost_of() */
    bool doubles_fail;                  /* to know a moment well enough */
};

static bool concerns(const struct eps__setting *setting)
{
    return eps__scheme_of(&setting->job->mechanism)->min_separation;
}

/* The parameters of the law, without the Gram matrix. */
static struct eps__b_min_sep b_min_sep_of(const struct eps__setting *setting)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    size_t examples = mechanism->sampling.examples_per_user;
    return (struct eps__b_min_sep){.banded = eps__banded_sizes(setting),
                                   .separation = mechanism->sampling.separation,
                                   .examples = (unsigned)(examples < EXAMPLES_MOST ? examples : EXAMPLES_MOST),
                                   .warm = mechanism->sampling.warm_start};
}

/* Copies that meet their own histories gain less from groups. */
static bool is_wide(const struct eps__b_min_sep *b_min_sep)
{
    return b_min_sep->banded.width > b_min_sep->separation;
}

/* The orders within the limits. In the add direction few moments improve on the geometric mean. */
static struct eps__b_min_sep_plan plan_of(const struct eps__setting *setting, enum eps_direction direction)
{
    struct eps__b_min_sep b_min_sep = b_min_sep_of(setting);
    unsigned max_order = setting->job->query.accountant.max_order;
    bool remove = direction == EPS_REMOVE;
    if (setting->draft) { /* long doubles tell as much as quadruple precision */
        struct eps__b_min_sep_plan draft =
            eps__b_min_sep_plan_of(&b_min_sep, DRAFT, remove ? DRAFT_FURTHER : 0, max_order);
        draft.exact = 1;
        draft.spent = draft.at_once;
        if (draft.most >= 2)
            return draft;
    }
    double at_once = remove ? AT_ONCE : AT_ONCE / 4;
    struct eps__b_min_sep_plan plan = eps__b_min_sep_plan_of(&b_min_sep, at_once, remove ? FURTHER : 0, max_order);
    double low = !remove ? AT_ONCE : is_wide(&b_min_sep) ? LOW_WIDE : LOW;
    return plan.most >= FEW
               ? plan
               : eps__b_min_sep_plan_of(&b_min_sep, low, 0, max_order > 0 && max_order < FEW ? max_order : FEW);
}

static bool serves(const struct eps__setting *setting, struct eps_error *error)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    const struct eps_sampling *sampling = &mechanism->sampling;
    if (setting->job->query.accountant.bandwidth > 0)
        return eps__decline(error, "/accountant/bandwidth", "renyi uses all bands under b_min_sep: remove bandwidth");
    if (!eps__strategy_lower_triangular(setting->strategy) ||
        eps__strategy_blocks(setting->strategy).shape == EPS__SHAPE_TREE)
        return eps__decline(error, "/matrix", "renyi under b_min_sep needs a lower-triangular strategy");
    bool wide = eps_strategy_bands(setting->strategy) > sampling->separation;
    if (wide && sampling->examples_per_user > 1)
        return eps__decline(error, "/sampling/separation",
                            "renyi under b_min_sep with several examples per user needs a separation of at least the "
                            "number of bands: increase it or use fewer bands");
    if (plan_of(setting, EPS_REMOVE).most < 2)
        return eps__decline(
            error, "/sampling/separation",
            wide ? "renyi would need too many operations for this mechanism, as its bands exceed the separation: "
                   "increase the separation or use fewer bands"
                 : "renyi would need too many operations for this mechanism: use fewer steps, fewer examples per user "
                   "or a smaller separation");
    return true;
}

static double residual_of(const struct eps__setting *setting)
{
    return setting->draft ? DRAFT_RESIDUAL : RESIDUAL;
}

static void cost(const struct eps__setting *setting, double *operations, double *bytes)
{
    double opened = setting->job->query.noise_multiplier > 0 ? 1 : OPENED;
    unsigned max_order = setting->job->query.accountant.max_order;
    struct eps__b_min_sep b_min_sep = b_min_sep_of(setting);
    *operations = BOUNDS + opened * eps__banded_operations(setting, bytes);
    for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++) {
        double numbers;
        struct eps__b_min_sep_plan plan = plan_of(setting, direction);
        *operations += opened * (PACE * plan.spent + PACE_FURTHER * plan.further);
        (void)eps__b_min_sep_operations(&b_min_sep, plan.most, &numbers);
        double at_once = 32 * numbers;
        (void)eps__b_min_sep_operations(&b_min_sep, plan.limit, &numbers);
        *bytes += fmax(at_once, 12 * numbers);
        const struct eps__copies copies = eps__b_min_sep_copies(&b_min_sep);
        if (direction == EPS_REMOVE)
            *operations += opened * PACE * eps__groups_operations(&copies, plan.most, GROUPS, max_order);
    }
    size_t changes = MEAN_SETTLING * b_min_sep.separation;
    *operations += RESIDUALS * PACE_RESIDUAL *
                   eps__b_min_sep_residual_sums(&b_min_sep, changes, residual_of(setting), max_order).spent;
}

static double least_sigma(const struct eps__setting *setting)
{
    double examples = (double)setting->job->mechanism.sampling.examples_per_user;
    return examples * eps__strategy_largest_norm(setting->strategy) / EPS__RENYI_SHIFT_MOST;
}

static void destroy(struct eps__renyi_law *base)
{
    struct b_min_sep_law *law = (struct b_min_sep_law *)base;
    eps__banded_gram_clear(&law->b_min_sep.banded);
    free(law);
}

/*
 * Adds up E_q x_i x_j G_ij over i != j. Two steps d apart, d >= b, are both drawn with the probability of the first
 * draw, times that of waiting d - b steps after a cold start, times q; closer ones never are (A19). again: scratch
 * space. Returns the relative error of the probabilities.
 */
static double add_pairs(struct eps__sum *pairs, const struct eps__b_min_sep *b_min_sep, const double *waits,
                        double *again, double q)
{
    const struct eps__banded_gram *banded = &b_min_sep->banded;
    struct eps__b_min_sep cold = *b_min_sep;
    size_t b = b_min_sep->separation;
    if (banded->width <= b)
        return 0;
    assert(b_min_sep->examples == 1);
    cold.warm = false;
    double error = eps__b_min_sep_waits(&cold, q, again);
    for (size_t i = b; i < banded->len; i++)
        for (size_t d = b; d < banded->width && d <= i; d++)
            eps__sum_add(pairs, 2 * (waits[i - d] * q) * (again[d - b] * q) * banded->gram[i * banded->width + d]);
    return error / EPS__UNIT_ROUNDOFF;
}

/* An upper bound on what underflow takes from any sum below: the sum of all its terms with LOST in place of a product
 * of probabilities. */
static double lost_of(const struct eps__b_min_sep *b_min_sep)
{
    const struct eps__banded_gram *banded = &b_min_sep->banded;
    double k = b_min_sep->examples, sum = (double)banded->len;
    for (size_t i = 0; i < banded->len; i++)
        for (size_t d = 0; d < banded->width && d <= i; d++)
            sum += banded->gram[i * banded->width + d];
    return 8 * LOST * k * k * sum;
}

/*
 * The geometric mean with draws of probability q in place of p (A19): at each step at which the user waits, Binomial(k,
 * q) examples are drawn. The trace is 2 m = E_q x'G x + 2 KL, the total E_q x' G E_q x. waits: scratch space of 2 n
 * numbers. lost: of lost_of().
 */
static struct eps__geometric tilted(const struct eps__b_min_sep *b_min_sep, double *waits, double q, double lost)
{
    const struct eps__banded_gram *banded = &b_min_sep->banded;
    double k = b_min_sep->examples, error = eps__b_min_sep_waits(b_min_sep, q, waits) / EPS__UNIT_ROUNDOFF;
    struct eps__sum trials = {0}, own = {0}, all = {0};
    for (size_t i = 0; i < banded->len; i++) {
        eps__sum_add(&trials, k * waits[i]);
        eps__sum_add(&own, waits[i] * (k * q * (1 - q) + k * q * k * q) * banded->gram[i * banded->width]);
        for (size_t d = 0; d < banded->width && d <= i; d++)
            eps__sum_add(&all, (d > 0 ? 2 : 1) * (waits[i] * k * q) * (waits[i - d] * k * q) *
                                   banded->gram[i * banded->width + d]);
    }
    double more = add_pairs(&own, b_min_sep, waits, waits + banded->len, q);
    struct eps__interval owns = eps__sum_interval(&own, 0), alls = eps__sum_interval(&all, 0), kl = {0, 0};
    if (q < banded->p) {
        struct eps__interval tried = eps__sum_interval(&trials, 0);
        kl.lower = eps__poisson_divergence(eps__lower(tried.lower, error + 4), banded->p, q).lower;
        kl.upper = eps__poisson_divergence(eps__raise(tried.upper + lost, error + 4), banded->p, q).upper;
    }
    owns.upper += lost;
    alls.upper += lost;
    return (struct eps__geometric){
        .len = 1,
        .trace = {eps__lower(owns.lower + 2 * kl.lower, error + more + 16),
                  eps__raise(owns.upper + 2 * kl.upper, error + more + 16)},
        .total = {eps__lower(alls.lower, 2 * error + 16), eps__raise(alls.upper, 2 * error + 16)}};
}

/*
 * Sets cut and cut_add: the sum over the steps of the probability that the other examples fill the batch, times the
 * probability that the example is drawn; and psi (A46). Both are rounded up.
 */
static void find_cut(struct b_min_sep_law *law, double *waits)
{
    const struct eps__b_min_sep *b_min_sep = &law->b_min_sep;
    const struct eps_sampling *sampling = &law->setting->job->mechanism.sampling;
    double p = b_min_sep->banded.p, error = eps__b_min_sep_waits(b_min_sep, p, waits) / EPS__UNIT_ROUNDOFF;
    double cut = 0, filled = 0, last = -1, full = 0;
    uint64_t others = sampling->dataset_size - 1;
    law->base.cut = law->base.cut_add = 0;
    assert(!sampling->truncation || (b_min_sep->examples == 1 && sampling->dataset_size > 0));
    if (!sampling->truncation || sampling->max_batch_size > others)
        return;
    for (size_t i = 0; i < b_min_sep->banded.len; i++) {
        double drawn = fmin(eps__raise(waits[i] * p, error + 4), 1);
        if (drawn != last && drawn > 0)
            full = drawn < 1 ? eps__binomial_at_least(others, drawn, sampling->max_batch_size).upper : 1;
        last = drawn;
        cut = eps__add_up(cut, eps__multiply_up(full, drawn));
        filled = eps__add_up(filled, full);
    }
    double instead = p < 1 ? p * exp(-(double)b_min_sep->separation * log1p(-p)) : INFINITY;
    law->base.cut = fmin(cut, 1);
    law->base.cut_add = isfinite(instead) ? fmin(eps__raise(filled * log1p(instead) / M_LN2, CUT_UNITS), 1) : 1;
}

static enum eps_status make_geometrics(struct b_min_sep_law *law)
{
    const struct eps__b_min_sep *b_min_sep = &law->b_min_sep;
    double p = b_min_sep->banded.p, *waits = malloc(2 * b_min_sep->banded.len * sizeof *waits);
    if (!waits)
        return EPS_NO_MEMORY;
    law->lost = lost_of(b_min_sep);
    law->base.geometrics[0] = tilted(b_min_sep, waits, p, law->lost);
    law->mean_p[0] = p;
    if (p < 1)
        law->base.geometrics[0].empty = eps__poisson_never((double)b_min_sep->banded.len * b_min_sep->examples, p);
    law->base.geometrics_len = 1;
    law->base.never = law->base.geometrics[0].empty;
    find_cut(law, waits);
    for (size_t i = 1; i < EPS__GEOMETRICS_MAX && p > 0 && p < 1; i++) {
        law->mean_p[i] = p * (double)i / EPS__GEOMETRICS_MAX;
        law->base.geometrics[i] = tilted(b_min_sep, waits, law->mean_p[i], law->lost);
        law->base.geometrics_len = i + 1;
    }
    free(waits);
    return EPS_OK;
}

static enum eps_status open_law(struct eps__renyi_law **out, const struct eps__setting *setting, double sigma)
{
    struct b_min_sep_law *law = calloc(1, sizeof *law);
    if (!law)
        return EPS_NO_MEMORY;
    law->base.class = &eps__renyi_b_min_sep;
    law->setting = setting;
    law->b_min_sep = b_min_sep_of(setting);
    for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++)
        law->known[direction] = eps__b_min_sep_none;
    enum eps_status status = eps__banded_make(&law->b_min_sep.banded, setting, sigma);
    if (status == EPS_OK)
        status = make_geometrics(law);
    if (status != EPS_OK) {
        destroy(&law->base);
        return status;
    }
    *out = &law->base;
    return EPS_OK;
}

static enum eps_status know(const struct eps__renyi_law *base, struct eps__orders *orders, struct eps__laws *laws)
{
    struct b_min_sep_law *law = (struct b_min_sep_law *)base;
    enum eps_direction direction = orders ? EPS_REMOVE : EPS_ADD;
    struct eps__b_min_sep_moments *known = &law->known[direction];
    struct eps__b_min_sep_plan plan = plan_of(law->setting, direction);
    enum eps_status status = eps__b_min_sep_extend(law->setting->context, known, &law->b_min_sep, &plan, plan.most);
    if (status == EPS_OK)
        status = eps__raw_tell(orders, laws, known->raw, known->units, plan.most, EPS__B_MIN_SEP_ORDERS_MAX);
    if (status == EPS_OK)
        eps__meter_add(law->setting->meter, PACE * plan.spent);
    return status;
}

static enum eps_status know_groups(const struct eps__renyi_law *base, const struct eps__orders *known,
                                   struct eps__orders *orders)
{
    const struct b_min_sep_law *law = (const struct b_min_sep_law *)base;
    const struct eps__setting *setting = law->setting;
    const struct eps__copies copies = eps__b_min_sep_copies(&law->b_min_sep);
    double spent;
    enum eps_status status = eps__groups_orders(setting->context, orders, known, &copies, GROUPS,
                                                setting->job->query.accountant.max_order, &spent);
    if (status == EPS_OK)
        eps__meter_add(setting->meter, PACE * spent);
    return status;
}

/* One order more, in the plan's precision for it. */
static enum eps_status extend(struct b_min_sep_law *law, struct eps__orders *orders, struct eps__laws *laws,
                              const struct eps__b_min_sep_plan *plan, unsigned to)
{
    struct eps__b_min_sep_moments *known = &law->known[EPS_REMOVE];
    enum eps_status status = eps__b_min_sep_extend(law->setting->context, known, &law->b_min_sep, plan, to);
    if (status == EPS_OK)
        status = eps__raw_tell(orders, laws, known->raw, known->units, to, EPS__B_MIN_SEP_ORDERS_MAX);
    return status;
}

/* A moment that doubles do not know well enough to be of use is computed anew in long double, and so are those of
 * higher orders. */
static enum eps_status know_more(const struct eps__renyi_law *base, struct eps__orders *orders, struct eps__laws *laws,
                                 bool *more)
{
    struct b_min_sep_law *law = (struct b_min_sep_law *)base;
    struct eps__b_min_sep_plan plan = plan_of(law->setting, EPS_REMOVE);
    struct eps__orders further;
    struct eps__laws higher;
    double numbers;
    unsigned next = orders->len + 1;
    *more = next <= plan.limit;
    if (!*more)
        return EPS_OK;
    if (law->doubles_fail)
        plan.most = plan.limit;
    enum eps_status status = extend(law, &further, &higher, &plan, next);
    if (status == EPS_OK && !law->doubles_fail && (higher.len == 0 || higher.items[0].len < next)) {
        eps__orders_clear(&further);
        eps__laws_clear(&higher);
        law->doubles_fail = true;
        law->known[EPS_REMOVE].most = next - 1;
        plan.most = plan.limit;
        status = extend(law, &further, &higher, &plan, next);
    }
    if (status != EPS_OK)
        return status;
    eps__orders_clear(orders);
    eps__laws_clear(laws);
    *orders = further;
    *laws = higher;
    eps__meter_add(law->setting->meter, PACE_FURTHER * eps__b_min_sep_operations(&law->b_min_sep, next, &numbers));
    return EPS_OK;
}

/* The mean number of examples that each step draws with the probability q, within a relative error of *error.
 * Probabilities of waiting that hardly differ are made equal, so that equal steps stay equal. The caller frees. NULL:
 * no memory. */
static double *mean_of(const struct eps__b_min_sep *b_min_sep, double q, double *error)
{
    size_t n = b_min_sep->banded.len;
    double *mean = malloc(n * sizeof *mean), last = 0;
    if (!mean)
        return NULL;
    *error = eps__raise(eps__b_min_sep_waits(b_min_sep, q, mean) + ALIKE + 4 * EPS__UNIT_ROUNDOFF, 8);
    for (size_t i = 0; i < n; i++) {
        if (!(fabs(mean[i] - last) <= ALIKE * last))
            last = mean[i];
        mean[i] = last * b_min_sep->examples * q;
    }
    return mean;
}

/* The mean differs from that of A19 by a small relative error. So ln Y may fall below -m by a normal number whose
 * standard deviation is this error times |a| (A50); it exceeds BEYOND deviations with a probability below DBL_MIN. */
static enum eps_status know_residual(const struct eps__renyi_law *base, size_t index, double t,
                                     struct eps__residual_law *residual)
{
    const struct b_min_sep_law *law = (const struct b_min_sep_law *)base;
    const struct eps__b_min_sep *b_min_sep = &law->b_min_sep;
    unsigned max_order = law->setting->job->query.accountant.max_order;
    double operations = residual_of(law->setting);
    *residual = (struct eps__residual_law){.t = t};
    if (t >= 0 && !is_wide(b_min_sep) &&
        eps__b_min_sep_residual_sums(b_min_sep, 0, operations, max_order).most < OF_USE)
        return EPS_OK;
    struct eps__mean mean;
    double error, *a = mean_of(b_min_sep, law->mean_p[index], &error);
    enum eps_status status = a ? eps__mean_make(&mean, &b_min_sep->banded, a) : EPS_NO_MEMORY;
    if (status != EPS_OK)
        return status;
    double square = (double)mean.square, rounding = (mean.units + 8) * EPS__QUAD_ROUNDOFF / EPS__UNIT_ROUNDOFF + 4;
    double beyond = BEYOND * (error * sqrt(square) + sqrt(LOST * law->lost)),
           trace = base->geometrics[index].trace.upper;
    *residual = (struct eps__residual_law){.t = t,
                                           .square = {eps__lower(square, rounding), eps__raise(square, rounding)},
                                           .least = eps__shift(EPS__LOWER, -0.5 * trace, eps__raise(beyond, 16))};
    struct eps__residual_moments known;
    const struct eps__residual_sums sums = eps__b_min_sep_residual_sums(b_min_sep, mean.changes, operations, max_order);
    status = eps__residual_moments_of(law->setting->context, &known, &sums, &mean, t);
    residual->laws = known.laws;
    residual->log_mean = known.log_mean;
    eps__meter_add(law->setting->meter, PACE_RESIDUAL * known.spent);
    eps__mean_clear(&mean);
    return status;
}

/* The approximation for Poisson sampling, with p replaced by the long-run rate at which the user is drawn. */
static enum eps_status approximate_orders(const struct eps__renyi_law *base, struct eps__orders *orders,
                                          double *variance)
{
    const struct b_min_sep_law *law = (const struct b_min_sep_law *)base;
    const struct eps__banded_gram *banded = &law->b_min_sep.banded;
    double at_all = -expm1(law->b_min_sep.examples * log1p(-fmin(banded->p, 1 - 1e-9)));
    double rate = fmin(at_all / (1 + (double)(law->b_min_sep.separation - 1) * at_all), 1 - 1e-9);
    unsigned most = plan_of(law->setting, EPS_REMOVE).limit;
    double *mean = malloc(banded->width * sizeof *mean);
    enum eps_status status = mean ? EPS_OK : EPS_NO_MEMORY;
    if (status == EPS_OK && orders)
        status = eps__orders_alloc(orders, most);
    if (status == EPS_OK) {
        eps__banded_means(banded, mean);
        *variance = expm1(eps__banded_log_order(banded, mean, rate, 2));
    }
    for (unsigned a = 2; status == EPS_OK && orders && a <= most; a++)
        orders->log_upper[a] = orders->log_lower[a] = eps__banded_log_order(banded, mean, rate, a);
    free(mean);
    return status;
}

const struct eps__renyi_law_class eps__renyi_b_min_sep = {.concerns = concerns,
                                                          .serves = serves,
                                                          .cost = cost,
                                                          .least_sigma = least_sigma,
                                                          .open = open_law,
                                                          .know = know,
                                                          .know_groups = know_groups,
                                                          .know_more = know_more,
                                                          .know_residual = know_residual,
                                                          .approximate_orders = approximate_orders,
                                                          .destroy = destroy};
