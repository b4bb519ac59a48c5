/*
 * See multisets.h.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/monte_carlo/laws/multisets.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "lib/accountants/monte_carlo/laws/cumulative.h"
#include "lib/numerics/bound.h"

#define ROUNDED 1e-10 /* an entry this small may be 0 up to rounding */
#define PACE 60.0     /* operations for a number of a chain's tables */

double eps__mc_tilted_log_most(unsigned order, double log_moment, double eps)
{
    double a = order, terms = (a - 1) * fabs(eps) + fabs(log_moment) + 2 + log(a);
    double log_most = log_moment - (a - 1) * eps + a * log1p(-1 / a) - log(a - 1);
    return eps__shift(EPS__UPPER, log_most, 32 * EPS__UNIT_ROUNDOFF * terms);
}

void eps__mc_multisets_clear(struct eps__mc_multisets *sets)
{
    free(sets->any);
    free(sets->row);
    free(sets->start);
    free(sets->partner);
    free(sets->ends);
    free(sets->together);
    eps__mc_chain_clear(&sets->chain);
    *sets = (struct eps__mc_multisets){0};
}

/* The table of all bins. */
static enum eps_status make_any(struct eps__mc_multisets *sets)
{
    sets->any = malloc(sets->bins * sizeof *sets->any);
    if (!sets->any)
        return EPS_NO_MEMORY;
    for (size_t i = 0; i < sets->bins; i++)
        sets->any[i] = 1;
    sets->any_sum = eps__cumulative_make(sets->any, sets->any, sets->bins);
    return EPS_OK;
}

static uint32_t draw_any(const struct eps__mc_multisets *sets, const struct eps__stream *stream, uint32_t draw,
                         size_t index)
{
    return (uint32_t)eps__cumulative_draw(sets->any, sets->bins, eps__uniform(stream, draw, index));
}

/* ------------------------------------------------------------ pairs, for any matrix */

/* An upper bound on <f_i, f_j>. */
static double product_upper(const struct eps__mc_factor *factor, const double *gram_upper, size_t i, size_t j)
{
    if (gram_upper)
        return gram_upper[i * factor->len + j];
    double own = factor->entries[i];
    return i == j ? eps__multiply_up(own, own) : 0;
}

/* Whether bins i and j share a coordinate. */
static bool meet(const struct eps__mc_factor *factor, size_t i, size_t j)
{
    return i > j ? factor->first[i] <= j : factor->first[j] <= i;
}

static size_t count_partners(const struct eps__mc_factor *factor)
{
    size_t count = 0;
    for (size_t i = 0; i < factor->len; i++)
        for (size_t j = factor->first[i]; j <= i; j++)
            count += i == j ? 1 : 2;
    return count;
}

/* Makes the cumulative table of the partners of bin i, weighted by e^g - 1. Returns its sum. */
static double make_row(struct eps__mc_multisets *sets, const struct eps__mc_factor *factor, const double *gram_upper,
                       size_t i)
{
    size_t from = sets->start[i], end = from;
    for (size_t j = gram_upper ? 0 : i; j < (gram_upper ? sets->bins : i + 1); j++)
        if (meet(factor, i, j)) {
            double product = fmax(product_upper(factor, gram_upper, i, j), 0);
            sets->partner[end] = (uint32_t)j;
            sets->ends[end++] = fmax(eps__add_up(eps__exp_bound(EPS__UPPER, product, 0), -1), 0);
        }
    sets->start[i + 1] = end;
    return eps__cumulative_make(sets->ends + from, sets->ends + from, end - from);
}

static enum eps_status make_pairs(struct eps__mc_multisets *sets, const struct eps__mc_factor *factor,
                                  const double *gram_upper)
{
    size_t bins = sets->bins, partners = count_partners(factor);
    sets->order = 2;
    sets->row = malloc(bins * sizeof *sets->row);
    sets->start = malloc((bins + 1) * sizeof *sets->start);
    sets->partner = malloc(partners * sizeof *sets->partner);
    sets->ends = malloc(partners * sizeof *sets->ends);
    if (!sets->row || !sets->start || !sets->partner || !sets->ends)
        return EPS_NO_MEMORY;
    sets->start[0] = 0;
    for (size_t i = 0; i < bins; i++)
        sets->row[i] = make_row(sets, factor, gram_upper, i);
    assert(sets->start[bins] == partners);
    sets->part[0] = eps__multiply_up(sets->any_sum, sets->any_sum);
    sets->part[1] = eps__cumulative_make(sets->row, sets->row, bins);
    double sum = eps__cumulative_make(sets->part, sets->part, 2);
    if (isinf(sum))
        return EPS_UNSUPPORTED;
    sets->log_moment = eps__shift(EPS__UPPER, eps__log_bound(EPS__UPPER, sum, 2) - 2 * log((double)bins),
                                  16 * EPS__UNIT_ROUNDOFF * (log((double)bins) + fabs(log(sum))));
    return EPS_OK;
}

static void draw_pair(uint32_t *chosen, const struct eps__mc_multisets *sets, const struct eps__stream *stream,
                      uint32_t draw)
{
    if (eps__cumulative_draw(sets->part, 2, eps__uniform(stream, draw, 0)) == 0) {
        chosen[0] = draw_any(sets, stream, draw, 1);
        chosen[1] = draw_any(sets, stream, draw, 2);
        return;
    }
    size_t i = eps__cumulative_draw(sets->row, sets->bins, eps__uniform(stream, draw, 1)), from = sets->start[i];
    chosen[0] = (uint32_t)i;
    chosen[1] = sets->partner[from + eps__cumulative_draw(sets->ends + from, sets->start[i + 1] - from,
                                                          eps__uniform(stream, draw, 2))];
}

/* ------------------------------------------------------------ orthogonal vectors of one length */

/* Whether all vectors are orthogonal and of one length. */
static bool alike(const struct eps__mc_factor *factor)
{
    for (size_t i = 0; i < factor->len; i++)
        if (factor->first[i] != i || factor->entries[i] != factor->entries[0])
            return false;
    return true;
}

/* The cumulative table for `left` remaining draws and `used` bins in use. Item s - 1: s draws fall into one bin. */
static double *table_of(const struct eps__mc_multisets *sets, unsigned used, unsigned left)
{
    return sets->together + ((size_t)used * EPS__MC_ORDER_MAX + (left - 1)) * EPS__MC_ORDER_MAX;
}

/*
 * Makes the tables for `used` bins in use. sum[left] becomes the sum of the weights over all ways to put `left` draws
 * into unused bins: the first draw and s - 1 others share one of the b - used bins, and the rest are in other bins.
 * after: the sums for used + 1; same[s]: the weight of s draws in one bin.
 */
static void fill_together(struct eps__mc_multisets *sets, const double *same, unsigned used, const double *after,
                          double *sum)
{
    double free = eps__raise(fmax(sets->any_sum - used, 0) / (double)sets->bins, 4);
    sum[0] = 1;
    for (unsigned left = 1; left + used <= EPS__MC_ORDER_MAX; left++) {
        double *table = table_of(sets, used, left), ways = 1; /* C(left - 1, s - 1) */
        for (unsigned s = 1; s <= left; s++) {
            bool possible = used < sets->bins && after[left - s] > 0;
            table[s - 1] = possible ? fmax(eps__raise(ways * same[s] * free * after[left - s], 8), DBL_MIN) : 0;
            ways = eps__raise(ways * (left - s) / s, 4);
        }
        sum[left] = eps__cumulative_make(table, table, left);
    }
}

/* Makes all tables for orthogonal vectors with this squared norm, and chooses the order. */
static enum eps_status make_powers(struct eps__mc_multisets *sets, double square, double eps)
{
    double same[EPS__MC_ORDER_MAX + 1], sums[2][EPS__MC_ORDER_MAX + 1] = {{1}, {1}}, least = INFINITY;
    sets->together = malloc((size_t)EPS__MC_ORDER_MAX * EPS__MC_ORDER_MAX * EPS__MC_ORDER_MAX * sizeof *sets->together);
    if (!sets->together)
        return EPS_NO_MEMORY;
    double log_bins = log((double)sets->bins);
    for (unsigned s = 1; s <= EPS__MC_ORDER_MAX; s++) { /* b^(1-s) e^(s (s-1) |f|^2/2) */
        double exponent = 0.5 * s * (s - 1) * square, other = (s - 1) * log_bins;
        same[s] = eps__exp_bound(EPS__UPPER, exponent - other, 16 * EPS__UNIT_ROUNDOFF * (exponent + other));
    }
    for (unsigned used = EPS__MC_ORDER_MAX; used-- > 0;)
        fill_together(sets, same, used, sums[(used + 1) % 2], sums[used % 2]);
    for (unsigned a = 2; a <= EPS__MC_ORDER_MAX; a++) {
        double log_moment = eps__log_bound(EPS__UPPER, sums[0][a], 2),
               log_most = eps__mc_tilted_log_most(a, log_moment, eps);
        if (!(log_most < least))
            continue;
        least = log_most;
        sets->order = a;
        sets->log_moment = log_moment;
    }
    return isinf(least) ? EPS_UNSUPPORTED : EPS_OK;
}

/* Draws a bin that is not one of bin[0] .. bin[used - 1]. */
static uint32_t draw_other(const struct eps__mc_multisets *sets, const uint32_t *bin, unsigned used,
                           const struct eps__stream *stream, uint32_t draw, size_t *index)
{
    for (;;) {
        uint32_t drawn = draw_any(sets, stream, draw, (*index)++);
        unsigned at = 0;
        while (at < used && bin[at] != drawn)
            at++;
        if (at == used)
            return drawn;
    }
}

static void draw_powers(uint32_t *chosen, const struct eps__mc_multisets *sets, const struct eps__stream *stream,
                        uint32_t draw)
{
    uint32_t bin[EPS__MC_ORDER_MAX];
    unsigned used = 0, left = sets->order;
    for (size_t index = 0; left > 0; used++) {
        double turn = eps__uniform(stream, draw, index++);
        unsigned s = 1 + (unsigned)eps__cumulative_draw(table_of(sets, used, left), left, turn);
        bin[used] = draw_other(sets, bin, used, stream, draw, &index);
        assert(s <= left);
        for (; s > 0; s--)
            chosen[--left] = bin[used];
    }
}

/* ------------------------------------------------------------ chains */

/* The order whose bound on values is below *least and least; 0: none. Lowers *least to it. */
static unsigned best_order(const struct eps__mc_chain *chain, double eps, double *least)
{
    unsigned order = 0;
    for (unsigned a = 2; a <= chain->most; a++) {
        double log_most = eps__mc_tilted_log_most(a, chain->log_moment[a], eps);
        if (log_most < *least) {
            *least = log_most;
            order = a;
        }
    }
    return order;
}

/* The largest entry at a cyclic distance of `width` or more; for width 0, the largest entry of at most ROUNDED. */
static double tau_of(const double *gram, size_t bins, size_t width)
{
    double tau = 0;
    for (size_t i = 0; i < bins; i++)
        for (size_t j = 0; j < i; j++) {
            double entry = gram[i * bins + j];
            if (width > 0 ? eps__bin_distance(bins, i, j) >= width : entry <= ROUNDED)
                tau = fmax(tau, entry);
        }
    return tau;
}

/* Tries a chain over the whole matrix and over bands of it, with the entries outside cut to tau, and keeps the best. */
static enum eps_status make_chain(struct eps__mc_multisets *sets, const double *gram_upper, double eps, double *least,
                                  double operations)
{
    static const size_t widths[] = {0, 12, 8, 6, 5, 4, 3, 2, 1};
    double before = INFINITY, each = operations / (PACE * sizeof widths / sizeof *widths);
    double numbers = operations > 0 ? fmin(each, EPS__MC_CHAIN_NUMBERS) : EPS__MC_CHAIN_NUMBERS;
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        struct eps__mc_chain chain;
        double tau = tau_of(gram_upper, sets->bins, widths[w]);
        if (tau == before || (w > 0 && tau <= ROUNDED))
            continue;
        before = tau;
        enum eps_status status = eps__mc_chain_make(&chain, gram_upper, sets->bins, tau, numbers);
        if (status == EPS_NO_MEMORY)
            return status;
        unsigned most = status == EPS_OK ? chain.most : 0, order = most > 0 ? best_order(&chain, eps, least) : 0;
        if (order > 0) {
            eps__mc_chain_clear(&sets->chain);
            sets->chain = chain;
            sets->order = order;
            sets->log_moment = chain.log_moment[order];
        } else if (status == EPS_OK) {
            eps__mc_chain_clear(&chain);
        }
        if (w == 0 && order > 0 && order < most) /* neither a higher order nor a band can be better */
            break;
    }
    return EPS_OK;
}

/* ------------------------------------------------------------ the interface */

enum eps_status eps__mc_multisets_make(struct eps__mc_multisets *sets, const struct eps__mc_factor *factor,
                                       const double *gram_upper, double eps, double operations)
{
    *sets = (struct eps__mc_multisets){.bins = factor->len};
    enum eps_status status = make_any(sets);
    double least = INFINITY;
    if (status == EPS_OK && alike(factor)) {
        status = make_powers(sets, eps__multiply_up(factor->entries[0], factor->entries[0]), eps);
    } else if (status == EPS_OK) {
        status = make_pairs(sets, factor, gram_upper);
        if (status == EPS_OK)
            least = eps__mc_tilted_log_most(2, sets->log_moment, eps);
        if (status == EPS_OK && gram_upper)
            status = make_chain(sets, gram_upper, eps, &least, operations);
    }
    if (status != EPS_OK)
        eps__mc_multisets_clear(sets);
    return status;
}

double eps__mc_multisets_draw(uint32_t *chosen, const struct eps__mc_multisets *sets, const struct eps__stream *stream,
                              uint32_t draw)
{
    if (sets->chain.ends)
        return eps__mc_chain_draw(chosen, &sets->chain, sets->order, stream, draw);
    if (sets->together)
        draw_powers(chosen, sets, stream, draw);
    else
        draw_pair(chosen, sets, stream, draw);
    return 0;
}
