/*
 * The law of X for Poisson sampling with a banded strategy, by all examples at each step or by parts of the data set in
 * turns.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "lib/accountants/renyi/banded.h"
#include "lib/accountants/renyi/poisson.h"
#include "lib/base/error.h"
#include "lib/moments/laws/few.h"
#include "lib/moments/laws/histories.h"
#include "lib/moments/laws/poisson.h"
#include "lib/moments/laws/poisson_residual.h"

/* For cost(): the profiles and the starting points that a search for a noise multiplier computes, and the polynomials
 * that a search for epsilon and a curve certify. */
enum { OPENED = 4, TRIED = 30, SOUGHT = 100, CURVE = 220 };

enum {
    EXACT_ORDERS = 3, /* with fewer exact moments, sums over copies with few participations prove more, */
    FEW_COPIES = 3,   /* of at most so many copies; */
    GUESS_HELD = 2,   /* and for a starting point with so few participations */
    FEW_OPENED = 4    /* their bounds rise steeply at some noise, which a search approaches in many steps */
};

#define SECOND 1.2e8     /* the most operations for E X^2 at one sigma, in either direction */
#define FURTHER 1.1e7    /* times bands^2: the most operations for all orders, about as many as mmcc takes */
#define FURTHER_MOST 4e8 /* an upper limit on that product */
#define GROUPS 1e8       /* the most for orders by groups of copies */
#define FEW 4e8          /* the most for one sum over copies whose states hold few participations, */
#define FEW_GROUPS 2e9   /* and for orders by groups of these */
#define POLISH 1.2e4     /* times the number of moments squared: the operations that certify a polynomial */
#define TRIAL 1e6        /* the operations for a starting point */

struct poisson_law {
    struct eps__renyi_law base;
    const struct eps__setting *setting;
    struct eps__banded_gram banded;
};

/* The limit on operations for all orders. In the add direction few moments improve on the geometric mean. */
static double further_of(size_t bands, enum eps_direction direction)
{
    double all = fmin(FURTHER * (double)bands * (double)bands, FURTHER_MOST);
    return direction == EPS_REMOVE ? all : all / 4;
}

/* The largest order within the limits, approximately; 1 if there is none. *spent is the number of operations. */
static unsigned fits(const struct eps__setting *setting, enum eps_direction direction, double *spent)
{
    const struct eps__banded_gram sizes = eps__banded_sizes(setting);
    unsigned most = 1;
    *spent = 0;
    for (unsigned a = 2; a <= EPS__POISSON_MOMENTS_MAX && sizes.width <= EPS__POISSON_WIDTH_MAX; a++) {
        double more = eps__poisson_operations(sizes.len, sizes.width, sizes.changes, a);
        if (*spent + more > (a == 2 ? SECOND : further_of(sizes.width, direction)))
            break;
        *spent += more;
        most = a;
    }
    return most;
}

/* The sums over copies with few participations (M31), for more bands than have sums over all histories. *banded holds
 * the sizes and must outlive them. False: they take too long, or are not needed. */
static bool few_of(const struct eps__setting *setting, struct eps__banded_gram *banded, struct eps__copies *few)
{
    double spent;
    *banded = eps__banded_sizes(setting);
    *few = eps__few_copies(banded);
    return fits(setting, EPS_REMOVE, &spent) < EXACT_ORDERS && few->operations(few->law, 2) <= FEW;
}

/* The most copies of which the sum over few participations is feasible, at least 2 where few_of() holds. */
static unsigned most_copies(const struct eps__copies *few)
{
    unsigned copies = 2;
    while (copies < FEW_COPIES && isfinite(few->operations(few->law, copies + 1)))
        copies++;
    return copies;
}

/* The operations of all sums over copies with few participations at one sigma. */
static double few_operations(const struct eps__copies *few, const struct eps__setting *setting)
{
    double sum = 0;
    for (unsigned copies = 2, most = most_copies(few); copies <= most; copies++)
        sum += few->operations(few->law, copies) +
               eps__groups_operations(few, copies, FEW_GROUPS, setting->job->query.accountant.max_order);
    return sum;
}

static bool concerns(const struct eps__setting *setting)
{
    return eps__poisson_concerns(setting, false);
}

static bool serves(const struct eps__setting *setting, struct eps_error *error)
{
    double spent;
    struct eps__banded_gram sizes;
    struct eps__copies few;
    if (!eps__poisson_serves(setting, error))
        return false;
    if (!eps__strategy_lower_triangular(setting->strategy))
        return eps__decline(error, "/matrix",
                            "renyi under poisson and cyclic_poisson needs a lower-triangular strategy");
    if (fits(setting, EPS_REMOVE, &spent) < 2 && !few_of(setting, &sizes, &few))
        return eps__decline(
            error, "/matrix/bands",
            "renyi under poisson and cyclic_poisson serves only strategies with few bands for each group, "
            "about 30 if Toeplitz and 10 if not, and fewer where p is large: use fewer bands, a "
            "smaller p or, under cyclic_poisson, more groups");
    return true;
}

static void cost(const struct eps__setting *setting, double *operations, double *bytes)
{
    const struct eps__banded_gram like = eps__banded_sizes(setting);
    bool noise = eps_job_unknown(setting->job) == EPS_SOLVE_NOISE_MULTIPLIER;
    double opened = noise ? OPENED : 1;
    unsigned max_order = setting->job->query.accountant.max_order;
    struct eps__banded_gram sizes;
    struct eps__copies few;
    double polynomials = noise ? OPENED + TRIED : setting->job->query.curve ? CURVE : SOUGHT;
    *operations = noise ? TRIED * TRIAL : 0;
    *bytes = 1e6;
    for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++) {
        double spent, most = fits(setting, direction, &spent), held;
        *operations += opened * (spent + eps__banded_operations(setting, &held)) + polynomials * POLISH * most * most;
        *bytes += held + spent / 4;
        struct eps__residual_sums sums = eps__poisson_residual_sums(&like, NULL, 0);
        const struct eps__histories histories = {.banded = &like, .separation = 1};
        const struct eps__copies copies = eps__histories_copies(&histories);
        if (direction == EPS_REMOVE)
            *operations += few_of(setting, &sizes, &few)
                               ? (noise ? FEW_OPENED : 1) * few_operations(&few, setting)
                               : opened * eps__groups_operations(&copies, (unsigned)most, GROUPS, max_order);
        *operations += opened * (direction == EPS_REMOVE ? 2 : 1) * sums.spent;
    }
}

static double least_sigma(const struct eps__setting *setting)
{
    return eps__strategy_largest_norm(setting->strategy) / EPS__RENYI_SHIFT_MOST;
}

static void destroy(struct eps__renyi_law *base)
{
    struct poisson_law *law = (struct poisson_law *)base;
    eps__banded_gram_clear(&law->banded);
    free(law);
}

static void make_geometrics(struct poisson_law *law)
{
    const struct eps__banded_gram *banded = &law->banded;
    struct eps__sum diagonal = {0}, total = {0};
    for (size_t i = 0; i < banded->len; i++) {
        eps__sum_add(&diagonal, banded->gram[i * banded->width]);
        eps__sum_add(&total, banded->gram[i * banded->width]);
        for (size_t d = 1; d < banded->width && d <= i; d++)
            eps__sum_add(&total, 2 * banded->gram[i * banded->width + d]);
    }
    eps__poisson_geometrics(&law->base, banded->len, banded->p, eps__sum_interval(&diagonal, 0),
                            eps__sum_interval(&total, 0));
}

static enum eps_status open_law(struct eps__renyi_law **out, const struct eps__setting *setting, double sigma)
{
    struct poisson_law *law = calloc(1, sizeof *law);
    enum eps_status status = law ? eps__banded_make(&law->banded, setting, sigma) : EPS_NO_MEMORY;
    if (status != EPS_OK) {
        free(law);
        return status;
    }
    law->base.class = &eps__renyi_poisson_banded;
    make_geometrics(law);
    law->setting = setting;
    *out = &law->base;
    return EPS_OK;
}

static enum eps_status know(const struct eps__renyi_law *base, struct eps__orders *orders, struct eps__laws *laws)
{
    const struct poisson_law *law = (const struct poisson_law *)base;
    unsigned max_order = law->setting->job->query.accountant.max_order;
    enum eps_direction direction = orders ? EPS_REMOVE : EPS_ADD;
    double further = further_of(law->banded.width, direction), spent;
    enum eps_status status =
        eps__poisson_moments(law->setting->context, orders, laws, &law->banded, SECOND, further, max_order);
    if (status == EPS_OK && law->setting->meter) {
        (void)fits(law->setting, direction, &spent);
        eps__meter_add(law->setting->meter, spent);
    }
    return status;
}

/* Orders by few participations: the first ones of as many copies, the others by groups of at most so many. */
static enum eps_status know_few(const struct poisson_law *law, const struct eps__orders *exact, unsigned copies,
                                struct eps__orders *orders)
{
    const struct eps__copies few = eps__few_copies(&law->banded);
    const struct eps_context *context = law->setting->context;
    unsigned max_order = law->setting->job->query.accountant.max_order;
    struct eps__orders known;
    double spent = 0;
    enum eps_status status = eps__orders_alloc(&known, copies);
    for (unsigned a = 2; status == EPS_OK && a <= copies; a++) {
        eps__quad sum;
        double units;
        if (a <= exact->len && isfinite(exact->log_upper[a])) {
            known.log_upper[a] = exact->log_upper[a];
            known.log_lower[a] = exact->log_lower[a];
            continue;
        }
        status = few.sum(context, &sum, &units, few.law, a, 1);
        if (status == EPS_OK && finiteq(sum))
            eps__orders_set(&known, a, logq(sum), units, 1);
    }
    if (status == EPS_OK)
        status = eps__groups_orders(context, orders, &known, &few, FEW_GROUPS, max_order, &spent);
    eps__orders_clear(&known);
    if (status == EPS_OK)
        eps__meter_add(law->setting->meter, spent);
    return status;
}

/* Lowers the bounds of *orders to those of *others. */
static void lower_orders(struct eps__orders *orders, const struct eps__orders *others)
{
    for (unsigned a = 2; a <= orders->len && a <= others->len; a++)
        if (others->log_upper[a] < orders->log_upper[a]) {
            orders->log_upper[a] = others->log_upper[a];
            orders->log_lower[a] = others->log_lower[a];
        }
}

static enum eps_status know_groups(const struct eps__renyi_law *base, const struct eps__orders *known,
                                   struct eps__orders *orders)
{
    const struct poisson_law *law = (const struct poisson_law *)base;
    const struct eps__histories histories = {.banded = &law->banded, .separation = 1};
    const struct eps__copies copies = eps__histories_copies(&histories);
    struct eps__banded_gram sizes;
    struct eps__copies few;
    struct eps__orders pairs;
    double spent;
    enum eps_status status;
    if (!few_of(law->setting, &sizes, &few)) {
        status = eps__groups_orders(law->setting->context, orders, known, &copies, GROUPS,
                                    law->setting->job->query.accountant.max_order, &spent);
        if (status == EPS_OK)
            eps__meter_add(law->setting->meter, spent);
        return status;
    }
    unsigned copies_most = most_copies(&few);
    status = know_few(law, known, copies_most, orders);
    if (status != EPS_OK || copies_most == 2)
        return status;
    status = know_few(law, known, 2, &pairs);
    if (status == EPS_OK) {
        lower_orders(orders, &pairs);
        eps__orders_clear(&pairs);
    } else {
        eps__orders_clear(orders);
    }
    return status;
}

/* ln Y >= -m, as the mean is that of A18 exactly (A50). */
static enum eps_status know_residual(const struct eps__renyi_law *base, size_t index, double t,
                                     struct eps__residual_law *residual)
{
    const struct poisson_law *law = (const struct poisson_law *)base;
    const struct eps__banded_gram *banded = &law->banded;
    *residual = (struct eps__residual_law){.t = t};
    if (!(banded->p < 1) || banded->width > EPS__POISSON_WIDTH_MAX)
        return EPS_OK;
    struct eps__mean mean;
    double *a = malloc(banded->len * sizeof *a);
    for (size_t i = 0; a && i < banded->len; i++)
        a[i] = eps__poisson_geometric_p(banded->p, index);
    enum eps_status status = a ? eps__mean_make(&mean, banded, a) : EPS_NO_MEMORY;
    if (status != EPS_OK)
        return status;
    double square = (double)mean.square, rounding = (mean.units + 8) * EPS__QUAD_ROUNDOFF / EPS__UNIT_ROUNDOFF + 4;
    residual->square = (struct eps__interval){eps__lower(square, rounding), eps__raise(square, rounding)};
    residual->least = eps__lower(-0.5 * base->geometrics[index].trace.upper, 2);
    struct eps__residual_moments known;
    const struct eps__residual_sums sums =
        eps__poisson_residual_sums(banded, &mean, law->setting->job->query.accountant.max_order);
    status = eps__residual_moments_of(law->setting->context, &known, &sums, &mean, t);
    residual->laws = known.laws;
    residual->log_mean = known.log_mean;
    eps__meter_add(law->setting->meter, known.spent);
    eps__mean_clear(&mean);
    return status;
}

/* Orders by pairs whose states hold next to nothing. */
static enum eps_status guess_few(const struct poisson_law *law, struct eps__orders *orders)
{
    static const unsigned guessed[] = {2, 4, 6, 8, 12, 16, 32};
    enum { LEN = sizeof guessed / sizeof *guessed };
    unsigned max_order = law->setting->job->query.accountant.max_order;
    enum eps_status status = eps__orders_alloc(orders, guessed[LEN - 1]);
    for (size_t i = 0; i < LEN && status == EPS_OK && (max_order == 0 || guessed[i] <= max_order); i++) {
        unsigned a = guessed[i];
        eps__quad sum;
        double units;
        status = eps__few_sum(law->setting->context, &sum, &units, &law->banded, 2, GUESS_HELD, a - 1);
        if (status == EPS_OK && finiteq(sum))
            eps__orders_set(orders, a, logq(sum) * (a / 2.0), units, 1);
    }
    if (status != EPS_OK)
        eps__orders_clear(orders);
    return status;
}

static enum eps_status approximate_orders(const struct eps__renyi_law *base, struct eps__orders *orders,
                                          double *variance)
{
    const struct poisson_law *law = (const struct poisson_law *)base;
    const struct eps__banded_gram *banded = &law->banded;
    struct eps__banded_gram sizes;
    struct eps__copies few;
    double spent, *mean = malloc(banded->width * sizeof *mean);
    unsigned max_order = law->setting->job->query.accountant.max_order, most = fits(law->setting, EPS_REMOVE, &spent);
    if (!mean)
        return EPS_NO_MEMORY;
    eps__banded_means(banded, mean);
    *variance = banded->p < 1 ? expm1(eps__banded_log_order(banded, mean, banded->p, 2)) : INFINITY;
    enum eps_status status = EPS_OK;
    if (max_order > 0 && max_order < most)
        most = max_order;
    if (orders && few_of(law->setting, &sizes, &few)) {
        *variance = 0;
        status = guess_few(law, orders);
    } else if (orders) {
        status = eps__orders_alloc(orders, most);
        for (unsigned a = 2; status == EPS_OK && a <= most && banded->p < 1; a++)
            orders->log_upper[a] = orders->log_lower[a] = eps__banded_log_order(banded, mean, banded->p, a);
    }
    free(mean);
    return status;
}

const struct eps__renyi_law_class eps__renyi_poisson_banded = {.concerns = concerns,
                                                               .serves = serves,
                                                               .cost = cost,
                                                               .least_sigma = least_sigma,
                                                               .open = open_law,
                                                               .know = know,
                                                               .know_groups = know_groups,
                                                               .know_residual = know_residual,
                                                               .approximate_orders = approximate_orders,
                                                               .destroy = destroy};
