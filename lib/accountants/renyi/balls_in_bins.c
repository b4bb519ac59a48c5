/*
 * The law of X for balls in bins, with or without redraw.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdlib.h>

#include "lib/accountants/merged_bins.h"
#include "lib/accountants/renyi/law.h"
#include "lib/base/error.h"
#include "lib/moments/laws/bin_shared.h"
#include "lib/moments/laws/epochs.h"
#include "lib/sampling/sampling.h"
#include "lib/strategy/merged.h"

enum { OPENED = 4 }; /* the number of profiles that a search for a noise multiplier opens, for cost() */

#define EFFORT 1e8       /* the most operations for the moments at one sigma, in either direction */
#define DRAFT_EFFORT 1e7 /* the same in a draft */
#define QUICK_EFFORT 2e6 /* the same for a starting point */

struct bins_law {
    struct eps__renyi_law base;
    const struct eps__setting *setting;
    struct eps__bin_gram bins; /* the Gram matrix for one draw of the bin */
    size_t draws;              /* the number of draws: one, or with redraw one per epoch */
    struct eps__effort effort, quick_effort;
};

static bool concerns(const struct eps__setting *setting)
{
    return eps__sampling_bins(&setting->job->mechanism) > 0;
}

static size_t draws_of(const struct eps__setting *setting)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    return mechanism->sampling.redraw ? mechanism->n / eps__sampling_bins(mechanism) : 1;
}

static bool serves(const struct eps__setting *setting, struct eps_error *error)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    size_t bins = eps__sampling_bins(mechanism);
    if (draws_of(setting) > 1 && !eps__merged_repeats(setting->strategy, bins))
        return eps__decline(error, "/sampling/redraw",
                            "renyi with redraw needs a strategy no row of which spans two epochs, such as identity or "
                            "stamps that divide the bins: change the strategy or remove redraw");
    if (!eps__strategy_lower_triangular(setting->strategy))
        return eps__decline(error, "/matrix", "renyi needs a lower-triangular strategy or a tree");
    if (bins > EPS__MERGED_BINS_MOST && !eps__strategy_is_diagonal(setting->strategy))
        return eps__decline(error, "/sampling/bins",
                            "renyi serves at most 4096 bins unless the strategy is diagonal: use fewer bins");
    return true;
}

static double effort_of(const struct eps__setting *setting)
{
    return setting->draft ? DRAFT_EFFORT : EFFORT;
}

static void cost(const struct eps__setting *setting, double *operations, double *bytes)
{
    double bins = (double)eps__sampling_bins(&setting->job->mechanism), n = (double)setting->job->mechanism.n;
    double bands = fmin((double)eps_strategy_bands(setting->strategy), bins);
    bool diagonal = eps__strategy_is_diagonal(setting->strategy);
    double opened = diagonal || setting->job->query.noise_multiplier > 0 ? 1 : OPENED;
    double numbers = diagonal ? bins : bins * bins;
    bool ring = n > bins && bands <= bins / 4;       /* the first and the last bin interact, and few others do */
    double known = diagonal ? 1.05 : ring ? 8 : 2.5; /* multiples of the effort, as measured */
    *operations = 2 * opened * (0.25 * n * bands * bands + 300 * numbers + known * effort_of(setting));
    *bytes = 2 * (8 * 6 * numbers) + 8e8;
}

static double least_sigma(const struct eps__setting *setting)
{
    return setting->sensitivity.value / EPS__RENYI_SHIFT_MOST;
}

static void destroy(struct eps__renyi_law *base)
{
    struct bins_law *law = (struct bins_law *)base;
    eps__bin_gram_clear(&law->bins);
    free(law);
}

static enum eps_status open_law(struct eps__renyi_law **out, const struct eps__setting *setting, double sigma)
{
    const struct eps_tuning *tuning = &setting->job->query.accountant;
    struct bins_law *law = calloc(1, sizeof *law);
    if (!law)
        return EPS_NO_MEMORY;
    law->base.class = &eps__renyi_balls_in_bins;
    law->setting = setting;
    law->draws = draws_of(setting);
    law->effort = (struct eps__effort){effort_of(setting), tuning->max_order, tuning->bandwidth};
    law->quick_effort = (struct eps__effort){QUICK_EFFORT, tuning->max_order, 0};
    enum eps_status status = eps__merged_bins(&law->bins, setting, sigma, law->draws);
    if (status == EPS_OK && law->draws == 1)
        status = eps__bin_gram_share(setting->context, &law->bins);
    if (status != EPS_OK) {
        destroy(&law->base);
        return status;
    }
    law->base.geometrics[law->base.geometrics_len++] = eps__geometric_of(&law->bins, law->draws);
    law->base.shares = law->bins.shared > 0;
    *out = &law->base;
    return EPS_OK;
}

static enum eps_status know(const struct eps__renyi_law *base, struct eps__orders *orders, struct eps__laws *laws)
{
    const struct bins_law *law = (const struct bins_law *)base;
    const struct eps_context *context = law->setting->context;
    enum eps_status status = eps__bin_gram_laws(context, laws, &law->bins, &law->effort);
    if (status == EPS_OK && orders) {
        status = eps__bin_gram_orders(context, orders, &law->bins, &law->effort);
        if (status == EPS_OK)
            eps__orders_of_epochs(orders, law->draws);
        else
            eps__laws_clear(laws);
    }
    for (size_t i = 0; status == EPS_OK && i < laws->len && law->draws > 1; i++) {
        eps__moments_of_epochs(&laws->items[i], law->draws);
        eps__moments_clear(&laws->rest[i]); /* may be negative, which products do not allow */
        laws->shared[i] = (struct eps__shared){0};
    }
    if (status == EPS_OK)
        eps__meter_add(law->setting->meter, law->effort.operations);
    return status;
}

static enum eps_status approximate_orders(const struct eps__renyi_law *base, struct eps__orders *orders,
                                          double *variance)
{
    const struct bins_law *law = (const struct bins_law *)base;
    const struct eps__bin_gram *bins = &law->bins;
    enum eps_status status = EPS_OK;
    if (orders) {
        status = eps__bin_gram_orders(law->setting->context, orders, bins, &law->quick_effort);
        if (status == EPS_OK)
            eps__orders_of_epochs(orders, law->draws);
        return status;
    }
    *variance = 0;
    for (size_t i = 0; i < bins->len; i++)
        for (size_t j = 0; j < bins->len; j++)
            if (bins->gram || i == j)
                *variance += expm1(eps__bin_gram_entry(bins, i, j));
    *variance /= (double)bins->len * (double)bins->len;
    *variance = expm1((double)law->draws * log1p(*variance));
    return EPS_OK;
}

const struct eps__renyi_law_class eps__renyi_balls_in_bins = {.concerns = concerns,
                                                              .serves = serves,
                                                              .cost = cost,
                                                              .least_sigma = least_sigma,
                                                              .open = open_law,
                                                              .know = know,
                                                              .approximate_orders = approximate_orders,
                                                              .destroy = destroy};
