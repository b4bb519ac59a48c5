/*
 * See balls_in_bins.h. This file chooses the sums that are worth their cost:
 * - powers of series (powers.h) for a diagonal matrix, all orders;
 * - sums over graphs (low_orders.h) for any matrix, orders 2 to 4;
 * - chains (chain.h) for a banded matrix, up to the order at which the states become too many: exact over the whole
 *   band, or a bound over a narrower one, which reaches higher orders.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/moments/laws/balls_in_bins.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/moments/laws/chain.h"
#include "lib/moments/laws/low_orders.h"
#include "lib/moments/laws/powers.h"
#include "lib/numerics/bound.h"
#include "lib/numerics/linear/linalg.h"

enum { POWERS_MOST = 64, CHAIN_MOST = 64, BANDS_MOST = 512 };

/* The widths of narrower bands, and the sizes of groups of neighbouring bins, that are tried. */
static const size_t widths[] = {24, 16, 12, 8, 6, 4, 3, 2, 1}, together[] = {2, 4, 8, 16};
enum { WIDTHS = sizeof widths / sizeof *widths, SIZES = sizeof together / sizeof *together };

#define ROUGH 4.0       /* times the operations for a chain in double precision */
#define QUAD_COST 40.0  /* cost of an operation in quadruple precision, in operations in double precision */
#define LARGEST 11000.0 /* ln of the largest moment that quadruple precision is used for */
#define ASKED 1e10      /* limit on operations if the job gives both the bandwidth and the order */
#define NUMBERS 3e7     /* numbers that a chain may hold, at most */

#define UNDERFLOWN 1e-280 /* an upper bound on the sum of all products of doubles that underflow */

/* The highest order, at least 2, that the effort and the range of quadruple precision allow. */
static unsigned order_limit(const struct eps__bin_gram *bins, const struct eps__effort *effort, unsigned most)
{
    double held = floor(sqrt(2 * LARGEST / fmax(bins->most, 1e-3)));
    unsigned limit = effort->max_order > 0 ? effort->max_order : most;
    limit = limit < EPS__ORDERS_MAX ? limit : EPS__ORDERS_MAX;
    limit = held < limit ? (unsigned)held : limit;
    return limit > 2 ? limit : 2;
}

/* The same, but at most what eps__moments_log_delta() uses. */
static unsigned moment_limit(const struct eps__bin_gram *bins, const struct eps__effort *effort)
{
    unsigned limit = order_limit(bins, effort, EPS__MOMENTS_MAX);
    return limit < EPS__MOMENTS_MAX ? limit : EPS__MOMENTS_MAX;
}

/* ------------------------------------------------------------ orders */

void eps__orders_clear(struct eps__orders *orders)
{
    free(orders->log_upper);
    free(orders->log_lower);
    *orders = (struct eps__orders){0};
}

enum eps_status eps__orders_alloc(struct eps__orders *orders, unsigned len)
{
    *orders = (struct eps__orders){.len = len,
                                   .log_upper = malloc((len + 1) * sizeof *orders->log_upper),
                                   .log_lower = malloc((len + 1) * sizeof *orders->log_lower)};
    if (!orders->log_upper || !orders->log_lower) {
        eps__orders_clear(orders);
        return EPS_NO_MEMORY;
    }
    for (unsigned a = 0; a <= len; a++) {
        orders->log_upper[a] = a < 2 ? 0 : INFINITY;
        orders->log_lower[a] = a < 2 ? 0 : INFINITY;
    }
    return EPS_OK;
}

/* Adds a bound: the least upper bound is kept, and the least lower bound with it. */
static void add_order(struct eps__orders *orders, unsigned a, double log_upper, double log_lower)
{
    assert(a >= 2 && a <= orders->len);
    if (log_upper < orders->log_upper[a]) {
        orders->log_upper[a] = log_upper;
        orders->log_lower[a] = fmin(orders->log_lower[a], log_lower);
    }
}

/* Adds E X^a = sum_j C(a, j) mu_j for a <= most. No term is negative; mu_j is within `units` units of itself. */
static void add_moments(struct eps__orders *orders, const eps__quad *central, unsigned most, double units)
{
    for (unsigned a = 2; a <= most; a++) {
        eps__quad sum = 1, binomial = a;
        for (unsigned j = 2; j <= a; j++) {
            binomial = binomial * (a - j + 1) / j;
            sum += binomial * central[j];
        }
        double log_moment = (double)logq(sum), error = (units + 4.0 * a) * (double)EPS__QUAD_ROUNDOFF;
        if (finiteq(sum))
            add_order(orders, a, eps__shift(EPS__UPPER, log_moment, error), eps__shift(EPS__LOWER, log_moment, error));
    }
}

static enum eps_status add_powers(const struct eps_context *context, struct eps__orders *orders,
                                  const struct eps__bin_gram *bins)
{
    eps__quad central[EPS__ORDERS_MAX + 1];
    double units;
    enum eps_status status = eps__powers(context, bins, orders->len, central, &units);
    if (status == EPS_OK)
        add_moments(orders, central, orders->len, units);
    return status;
}

static enum eps_status add_low_orders(const struct eps_context *context, struct eps__orders *orders,
                                      const struct eps__bin_gram *bins, unsigned most)
{
    double central[5], units;
    eps__quad exact[5];
    enum eps_status status = eps__low_orders(context, bins, most, central, &units);
    for (unsigned j = 0; status == EPS_OK && j <= most; j++)
        exact[j] = central[j];
    if (status == EPS_OK)
        add_moments(orders, exact, most, units * (EPS__UNIT_ROUNDOFF / (double)EPS__QUAD_ROUNDOFF));
    return status;
}

/*
 * Adds bounds from a chain. Entries outside the band are at most tau, and those inside exceed the entries of the chain
 * by at most tau, so each of the a (a - 1)/2 pairs of draws contributes a factor of at most e^tau more (M11).
 */
static enum eps_status add_chain(const struct eps_context *context, struct eps__orders *orders,
                                 const struct eps__chain *chain)
{
    double log_upper[EPS__ORDERS_MAX + 1], log_lower[EPS__ORDERS_MAX + 1];
    if (chain->most < 2)
        return EPS_OK;
    enum eps_status status = eps__chain_double(context, chain, log_upper, log_lower);
    for (unsigned a = 2; status == EPS_OK && a <= chain->most; a++) {
        double cut = chain->tau * (0.5 * a * (a - 1)), error = 2 * EPS__UNIT_ROUNDOFF * cut;
        add_order(orders, a, eps__shift(EPS__UPPER, log_upper[a] + cut, error),
                  eps__shift(EPS__LOWER, log_lower[a] + cut, error));
    }
    return status;
}

/* Adds chains over bands of falling width, from `widest` on, as far as each reaches a higher order than those
 * before. */
static enum eps_status add_chains(const struct eps_context *context, struct eps__orders *orders,
                                  const struct eps__bin_gram *bins, size_t widest, double operations, unsigned *reached)
{
    enum eps_status status = EPS_OK;
    for (size_t i = 0; i <= WIDTHS && status == EPS_OK; i++) {
        size_t width = i == 0 ? widest : widths[i - 1];
        if ((i > 0 && width >= widest) || width > bins->len / 2 + 1)
            continue;
        struct eps__chain chain = eps__chain_of(bins, width, orders->len);
        chain.most = eps__chain_fit(chain, orders->len, operations, NUMBERS);
        if (chain.most <= *reached)
            continue;
        *reached = chain.most;
        status = add_chain(context, orders, &chain);
    }
    return status;
}

/* Adds chains over the matrix itself, and over groups of neighbouring bins, whose matrix has a narrower band. */
static enum eps_status add_bands(const struct eps_context *context, struct eps__orders *orders,
                                 const struct eps__bin_gram *bins, const struct eps__effort *effort)
{
    bool given = effort->bandwidth > 0 && effort->bandwidth < bins->width;
    struct eps__chain whole = eps__chain_of(bins, given ? effort->bandwidth : bins->width, orders->len);
    bool asked = effort->bandwidth > 0 && effort->max_order > 0; /* the job gives both, so it may take long */
    whole.most = eps__chain_fit(whole, orders->len, asked ? ASKED : effort->operations / 2, NUMBERS);
    enum eps_status status = add_chain(context, orders, &whole);
    unsigned reached = whole.most;
    if (status == EPS_OK && effort->bandwidth == 0)
        status = add_chains(context, orders, bins, bins->width, effort->operations / 8, &reached);
    for (size_t i = 0; i < SIZES && status == EPS_OK && effort->bandwidth == 0 && whole.most < orders->len; i++) {
        struct eps__bin_gram gathered;
        if (!bins->gram || bins->len < 4 * together[i])
            break;
        status = eps__bin_gram_gather(&gathered, bins, together[i]);
        if (status != EPS_OK)
            break;
        reached = whole.most;
        status = add_chains(context, orders, &gathered, gathered.width, effort->operations / 32, &reached);
        eps__bin_gram_clear(&gathered);
    }
    return status;
}

enum eps_status eps__bin_gram_orders(const struct eps_context *context, struct eps__orders *orders,
                                     const struct eps__bin_gram *bins, const struct eps__effort *effort)
{
    unsigned limit = order_limit(bins, effort, bins->width == 1 ? POWERS_MOST : CHAIN_MOST);
    enum eps_status status = eps__orders_alloc(orders, limit);
    if (status != EPS_OK)
        return status;
    double cube = (double)limit * limit * limit;
    if (bins->width == 1 && (double)eps__powers_distinct(bins) * cube * QUAD_COST <= effort->operations)
        status = add_powers(context, orders, bins);
    else
        status = add_bands(context, orders, bins, effort);
    for (unsigned most = limit < 4 ? limit : 4; most >= 2 && status == EPS_OK && bins->width > 1; most--)
        if (most == 2 || eps__low_orders_operations(bins, most) <= effort->operations) {
            status = add_low_orders(context, orders, bins, most);
            break;
        }
    if (status != EPS_OK)
        eps__orders_clear(orders);
    return status;
}

/* ------------------------------------------------------------ moments */

static enum eps_status moments_of_powers(const struct eps_context *context, struct eps__moments *moments,
                                         const struct eps__bin_gram *bins)
{
    double units;
    enum eps_status status = eps__powers(context, bins, (unsigned)moments->len, moments->central, &units);
    for (size_t j = 2; status == EPS_OK && j <= moments->len; j++)
        moments->error[j] = moments->central[j] * (eps__quad)units * EPS__QUAD_ROUNDOFF;
    return status;
}

/* The moments from a chain, for X times an independent lognormal factor of mean 1 whose logarithm has the variance
 * `shared` (M14). */
static enum eps_status moments_of_chain(const struct eps_context *context, struct eps__moments *moments,
                                        const struct eps__chain *chain, double shared)
{
    eps__quad raw[EPS__MOMENTS_MAX + 1];
    double units;
    assert(chain->tau == 0 && chain->most == moments->len); /* the chain gives moments, not bounds on them */
    enum eps_status status = eps__chain_quad(context, chain, raw, &units);
    for (unsigned a = 2; status == EPS_OK && a <= chain->most; a++)
        raw[a] *= expq((eps__quad)shared * (0.5 * a * (a - 1)));
    if (status == EPS_OK)
        eps__moments_centre(moments, raw, units + 6);
    return status;
}

/* The same in double precision, which reaches higher orders in the same time. */
static enum eps_status moments_of_doubles(const struct eps_context *context, struct eps__moments *moments,
                                          const struct eps__chain *chain)
{
    double log_upper[EPS__ORDERS_MAX + 1], log_lower[EPS__ORDERS_MAX + 1], units[EPS__MOMENTS_MAX + 1] = {0};
    eps__quad raw[EPS__MOMENTS_MAX + 1] = {1, 1};
    assert(chain->tau == 0 && chain->most == moments->len);
    enum eps_status status = eps__chain_double(context, chain, log_upper, log_lower);
    for (unsigned a = 2; status == EPS_OK && a <= chain->most; a++) {
        eps__quad middle = ((eps__quad)log_upper[a] + log_lower[a]) / 2;
        raw[a] = expq(middle);
        units[a] = 1.01 * (log_upper[a] - log_lower[a]) / EPS__QUAD_ROUNDOFF + 8;
    }
    if (status == EPS_OK)
        eps__moments_centre_each(moments, raw, units);
    return status;
}

static enum eps_status moments_of_graphs(const struct eps_context *context, struct eps__moments *moments,
                                         const struct eps__bin_gram *bins)
{
    double central[5], units;
    enum eps_status status = eps__low_orders(context, bins, (unsigned)moments->len, central, &units);
    for (size_t j = 2; status == EPS_OK && j <= moments->len; j++) {
        moments->central[j] = central[j];
        moments->error[j] = (eps__quad)central[j] * units * EPS__UNIT_ROUNDOFF + UNDERFLOWN;
    }
    return status;
}

/* Fills in the orders beyond `from` by a chain in double precision. */
static enum eps_status add_rough(const struct eps_context *context, struct eps__moments *moments,
                                 const struct eps__chain *chain, unsigned from)
{
    struct eps__moments rough;
    enum eps_status status = eps__moments_alloc(&rough, chain->most);
    if (status == EPS_OK)
        status = moments_of_doubles(context, &rough, chain);
    for (unsigned j = from + 1; status == EPS_OK && j <= chain->most; j++) {
        moments->central[j] = rough.central[j];
        moments->error[j] = rough.error[j];
    }
    eps__moments_clear(&rough);
    return status;
}

/* The moments of a matrix that is not diagonal. Those of the highest orders are computed in double precision. */
static enum eps_status moments_of_band(const struct eps_context *context, struct eps__moments *moments,
                                       const struct eps__bin_gram *bins, const struct eps__effort *effort,
                                       unsigned limit)
{
    bool whole = effort->bandwidth == 0 || effort->bandwidth >= bins->width;
    unsigned graphs = limit < 4 ? limit : 4;
    struct eps__chain chain = eps__chain_of(bins, bins->width, limit), rough = chain;
    while (graphs > 2 && eps__low_orders_operations(bins, graphs) > effort->operations)
        graphs--;
    chain.most = whole ? eps__chain_fit(chain, limit, effort->operations / QUAD_COST, NUMBERS) : 1;
    rough.most = whole ? eps__chain_fit(rough, limit, ROUGH * effort->operations, NUMBERS) : 1;
    unsigned most = chain.most >= graphs ? chain.most : graphs;
    enum eps_status status = eps__moments_alloc(moments, rough.most > most ? rough.most : most);
    struct eps__moments low = {.len = most, .central = moments->central, .error = moments->error};
    if (status == EPS_OK)
        status =
            chain.most == most ? moments_of_chain(context, &low, &chain, 0) : moments_of_graphs(context, &low, bins);
    if (status == EPS_OK && rough.most > most)
        status = add_rough(context, moments, &rough, most);
    return status;
}

/* The same for a diagonal matrix. */
static enum eps_status moments_of_diagonal(const struct eps_context *context, struct eps__moments *moments,
                                           const struct eps__bin_gram *bins, const struct eps__effort *effort,
                                           unsigned most)
{
    double distinct = (double)eps__powers_distinct(bins), cube = (double)most * most * most;
    for (; most > 2 && distinct * cube * QUAD_COST > effort->operations; cube = (double)most * most * most)
        most--;
    enum eps_status status = eps__moments_alloc(moments, most);
    return status == EPS_OK ? moments_of_powers(context, moments, bins) : status;
}

/* The moments of the law itself, by the method that reaches the highest order. */
static enum eps_status exact_law(const struct eps_context *context, struct eps__moments *moments,
                                 const struct eps__bin_gram *bins, const struct eps__effort *effort)
{
    unsigned limit = moment_limit(bins, effort);
    enum eps_status status = bins->width == 1 ? moments_of_diagonal(context, moments, bins, effort, limit)
                                              : moments_of_band(context, moments, bins, effort, limit);
    if (status == EPS_OK)
        eps__moments_keep_known(moments);
    else
        eps__moments_clear(moments);
    return status;
}

/* ------------------------------------------------------------ laws with a narrower band */

/* By these multiples of its largest entry the diagonal is raised until the matrix is proven positive semidefinite. */
static const double raises[] = {0, 1e-3, 1e-2, 3e-2, 1e-1, 3e-1};

/* Copies the groups. What the diagonal was raised by is taken off each bin's own addition (M15). */
static enum eps_status keep_groups(struct eps__bin_gram *band, const struct eps__bin_gram *bins, double added)
{
    band->total = bins->total;
    band->count = malloc(bins->len * sizeof *band->count);
    band->own = malloc(bins->len * sizeof *band->own);
    if (!band->count || !band->own) {
        eps__bin_gram_clear(band);
        return EPS_NO_MEMORY;
    }
    memcpy(band->count, bins->count, bins->len * sizeof *band->count);
    for (size_t k = 0; k < bins->len; k++)
        band->own[k] = fmax(eps__add_up(bins->own[k], -added), 0);
    return EPS_OK;
}

/* The band of the chain as a matrix of its own, made positive semidefinite by raising its diagonal (M14). *found:
 * whether that was proven; otherwise there is no band to clear. */
static enum eps_status band_alone(struct eps__bin_gram *band, bool *found, const struct eps__chain *chain)
{
    size_t len = chain->bins->len;
    double *gram = malloc(len * len * sizeof *gram), *tried = malloc(len * len * sizeof *tried), trace = 0, added = 0;
    enum eps_status status = gram && tried ? EPS_OK : EPS_NO_MEMORY;
    *found = false;
    for (size_t i = 0; status == EPS_OK && i < len; i++) {
        for (size_t j = 0; j < len; j++)
            gram[i * len + j] = eps__chain_entry(chain, i, j);
        trace += gram[i * len + i];
    }
    for (size_t k = 0; status == EPS_OK && k < sizeof raises / sizeof *raises && !*found; k++) {
        added = 2 * eps__positive_margin(trace, len) + raises[k] * chain->bins->most;
        memcpy(tried, gram, len * len * sizeof *gram);
        for (size_t i = 0; i < len; i++)
            tried[i * len + i] += added;
        *found = eps__proven_positive(tried, len, 0);
    }
    if (*found) {
        for (size_t i = 0; i < len; i++)
            gram[i * len + i] = eps__add_up(gram[i * len + i], added);
        status = eps__bin_gram_make(band, gram, NULL, len, 0, 1);
    }
    free(gram);
    free(tried);
    if (*found && status == EPS_OK && chain->bins->count)
        status = keep_groups(band, chain->bins, added);
    return status;
}

/* Splits off the factor that all bins share. */
static enum eps_status split(struct eps__laws *laws, size_t i, struct eps__shared shared)
{
    const struct eps__moments *moments = &laws->items[i];
    if (!(shared.square > 0) || moments->len < 2)
        return EPS_OK;
    enum eps_status status = eps__shared_rest(&laws->rest[i], moments, shared.square);
    if (status != EPS_OK || laws->rest[i].len < 2)
        return status;
    laws->tables[i] = calloc(1, sizeof *laws->tables[i]);
    laws->shared[i] = shared;
    return laws->tables[i] ? EPS_OK : EPS_NO_MEMORY;
}

/* The factor of the law itself, and what the geometric mean of the rest is: that of the matrix less s^2 in each
 * entry (A16). */
static struct eps__shared shared_of(const struct eps__bin_gram *bins)
{
    double len = (double)bins->len, trace = 0, total = 0, units = 2 * len + 16;
    for (size_t i = 0; bins->shared > 0 && i < bins->len; i++) {
        trace += bins->diagonal[i];
        for (size_t j = 0; j < bins->len; j++)
            total += bins->gram[i * bins->len + j];
    }
    double m = eps__add_up(eps__raise(trace / len, units), -bins->shared) / 2;
    double spread = eps__add_up(eps__raise(total / len / len, 2 * units), -bins->shared);
    return (struct eps__shared){.square = bins->shared, .m = m, .spread = fmax(spread, 0)};
}

/* Adds a law that dominates: that of a band, times a lognormal factor that all bins share (M14). */
static enum eps_status add_law(const struct eps_context *context, struct eps__laws *laws,
                               const struct eps__chain *chain)
{
    struct eps__moments *moments = &laws->items[laws->len];
    struct eps__bin_gram band;
    bool found;
    enum eps_status status = band_alone(&band, &found, chain);
    if (status != EPS_OK || !found)
        return status;
    struct eps__chain alone = eps__chain_of(&band, chain->width < band.width ? chain->width : band.width, chain->most);
    status = eps__moments_alloc(moments, chain->most);
    if (status == EPS_OK) {
        laws->len++;
        status = moments_of_chain(context, moments, &alone, chain->tau);
    }
    if (status == EPS_OK) {
        eps__moments_keep_known(moments);
        status = split(laws, laws->len - 1, (struct eps__shared){.square = chain->tau, .m = INFINITY});
    }
    eps__bin_gram_clear(&band);
    return status;
}

void eps__laws_clear(struct eps__laws *laws)
{
    for (size_t i = 0; i < laws->len; i++) {
        eps__moments_clear(&laws->items[i]);
        eps__moments_clear(&laws->rest[i]);
        free(laws->tables[i]);
        laws->tables[i] = NULL;
        laws->shared[i] = (struct eps__shared){0};
    }
    laws->len = 0;
}

/* A chain for a law. */
struct candidate {
    size_t size, width; /* bins of a group (1: no groups); width of the band */
    unsigned most;
    double variance; /* of the law, approximately */
};

static double variance_of(const struct eps__chain *chain)
{
    const struct eps__bin_gram *bins = chain->bins;
    double sum = 0, total = (double)bins->total;
    for (size_t k = 0; k < bins->len; k++)
        for (size_t l = 0; l < bins->len; l++) {
            double w = expm1(eps__chain_entry(chain, k, l) + chain->tau),
                   count = bins->count ? (double)bins->count[k] : 1;
            sum += w * count * (bins->count ? (double)bins->count[l] : 1);
            if (k == l && bins->own)
                sum += (w + 1) * expm1(bins->own[k]) * count;
        }
    return sum / (total * total);
}

/* Considers chains over a matrix, whose rows are groups of `size` bins. *best becomes the one with the least variance
 * among those with at least `least` moments. */
static void consider(struct candidate *best, const struct eps__bin_gram *bins, const struct eps__effort *effort,
                     size_t size, unsigned least, unsigned limit)
{
    for (size_t i = 0; i <= WIDTHS; i++) {
        size_t width = effort->bandwidth > 0 ? effort->bandwidth : i == 0 ? bins->width : widths[i - 1];
        if (width > bins->width || (i > 0 && (width == bins->width || effort->bandwidth > 0)))
            continue;
        struct eps__chain chain = eps__chain_of(bins, width, limit);
        chain.most = eps__chain_fit(chain, limit, effort->operations / QUAD_COST / 2, NUMBERS);
        double variance = chain.most >= least ? variance_of(&chain) : INFINITY;
        if (variance < best->variance)
            *best = (struct candidate){size, width, chain.most, variance};
    }
}

/* Adds the best law with at least `least` moments, if there is one. */
static enum eps_status add_best(const struct eps_context *context, struct eps__laws *laws,
                                const struct eps__bin_gram *bins, const struct eps__effort *effort, unsigned least)
{
    struct candidate best = {.variance = INFINITY};
    unsigned limit = moment_limit(bins, effort);
    struct eps__bin_gram gathered = {0};
    enum eps_status status = EPS_OK;
    consider(&best, bins, effort, 1, least, limit);
    for (size_t i = 0; i < SIZES && effort->bandwidth == 0 && bins->len >= 4 * together[i]; i++) {
        status = eps__bin_gram_gather(&gathered, bins, together[i]);
        if (status != EPS_OK)
            return status;
        consider(&best, &gathered, effort, together[i], least, limit);
        eps__bin_gram_clear(&gathered);
    }
    if (isinf(best.variance))
        return EPS_OK;
    if (best.size > 1)
        status = eps__bin_gram_gather(&gathered, bins, best.size);
    if (status == EPS_OK) {
        struct eps__chain chain = eps__chain_of(best.size > 1 ? &gathered : bins, best.width, best.most);
        status = add_law(context, laws, &chain);
    }
    eps__bin_gram_clear(&gathered);
    return status;
}

enum eps_status eps__bin_gram_laws(const struct eps_context *context, struct eps__laws *laws,
                                   const struct eps__bin_gram *bins, const struct eps__effort *effort)
{
    *laws = (struct eps__laws){0};
    enum eps_status status = exact_law(context, &laws->items[0], bins, effort);
    if (status != EPS_OK)
        return status;
    laws->len = 1;
    status = split(laws, 0, shared_of(bins));
    unsigned reached = (unsigned)laws->items[0].len, limit = moment_limit(bins, effort);
    static const unsigned least[EPS__LAWS_MAX - 1] = {6, 10};
    for (size_t i = 0; i < EPS__LAWS_MAX - 1 && status == EPS_OK && bins->width > 1 && bins->len <= BANDS_MOST; i++)
        if (least[i] >= reached + 2 && least[i] <= limit)
            status = add_best(context, laws, bins, effort, least[i]);
    if (status != EPS_OK)
        eps__laws_clear(laws);
    return status;
}
