/*
 * See chain.h. A state at a bin consists of the counts of the live bins and the number of remaining draws; together
 * they are at most `most`. States are numbered in lexicographic order. Item t of a state's cumulative table is t draws
 * of the bin; its weight is that of these draws times the value of the next state. The value of a state is the sum of
 * its table.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/monte_carlo/laws/chain.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/accountants/monte_carlo/laws/cumulative.h"
#include "lib/numerics/bound.h"

#define NOTHING 1e-9 /* for a tau up to this no correction is made */

/* tuples[s][n] = C(s + n, n) < 2^53, as the sum over tuples with a last number of 0 and those with a larger one. */
static void count_tuples(struct eps__mc_chain *chain)
{
    for (size_t s = 0; s <= EPS__MC_CHAIN_MOST; s++)
        for (size_t n = 0; n <= EPS__MC_CHAIN_LIVE + 1; n++)
            chain->tuples[s][n] = s == 0 || n == 0 ? 1 : chain->tuples[s][n - 1] + chain->tuples[s - 1][n];
}

/* Advances to the next tuple in lexicographic order. False after the last one. */
static bool next_tuple(uint8_t *tuple, size_t len, unsigned most)
{
    unsigned sum = 0;
    for (size_t j = 0; j < len; j++)
        sum += tuple[j];
    for (size_t j = len; j-- > 0;) {
        if (sum < most) {
            tuple[j]++;
            return true;
        }
        sum -= tuple[j];
        tuple[j] = 0;
    }
    return false;
}

/* The number of tuples before this one in lexicographic order. */
static size_t rank_of(const struct eps__mc_chain *chain, const uint8_t *tuple, size_t len)
{
    size_t rank = 0, rest = chain->most;
    for (size_t j = 0; j < len; j++) { /* tuples that first differ at j, with a smaller number there */
        if (tuple[j] > 0)
            rank += chain->tuples[rest][len - j] - chain->tuples[rest - tuple[j]][len - j];
        rest -= tuple[j];
    }
    return rank;
}

/* ------------------------------------------------------------ which bins are live */

/* The logarithm of the pair's weight, less tau; at least 0. */
static double entry_of(const struct eps__mc_chain *chain, const double *gram, size_t i, size_t j)
{
    double entry = gram[i * chain->bins + j];
    return entry > chain->tau ? eps__add_up(entry, -chain->tau) : 0;
}

/* The last bin that bin i meets; i if there is none after it. */
static size_t last_met(const struct eps__mc_chain *chain, const double *gram, size_t i)
{
    size_t last = chain->bins - 1;
    while (last > i && !(entry_of(chain, gram, i, last) > 0))
        last--;
    return last;
}

/* Lists the live bins at each bin. False if there are too many at some bin. */
static bool find_live(struct eps__mc_chain *chain, const double *gram)
{
    size_t bins = chain->bins;
    uint32_t now[EPS__MC_CHAIN_LIVE + 1];
    size_t last[EPS__MC_CHAIN_LIVE + 1], len = 0;
    for (size_t k = 0; k <= bins; k++) {
        size_t kept = 0;
        for (size_t j = 0; j < len; j++)
            if (k < bins && last[j] >= k) {
                now[kept] = now[j];
                last[kept++] = last[j];
            }
        len = kept;
        if (len > EPS__MC_CHAIN_LIVE)
            return false;
        chain->live_len[k] = (uint8_t)len;
        if (k == bins)
            break;
        memcpy(chain->live + k * EPS__MC_CHAIN_LIVE, now, len * sizeof *now);
        now[len] = (uint32_t)k;
        last[len++] = last_met(chain, gram, k);
    }
    assert(chain->live_len[0] == 0 && chain->live_len[bins] == 0);
    return true;
}

/* The size of all tables for up to `most` draws, in numbers; counting stops above EPS__MC_CHAIN_NUMBERS. */
static double numbers_of(const struct eps__mc_chain *chain, unsigned most)
{
    double numbers = 0;
    for (size_t k = 0; k < chain->bins && numbers <= EPS__MC_CHAIN_NUMBERS; k++) {
        double states = (double)chain->tuples[most][(size_t)chain->live_len[k] + 1];
        numbers += states * (most + 1);
    }
    return numbers;
}

/* The state at bin k + 1 if bin k gets t draws: the counts of the bins that stay live, and the remaining draws. Returns
 * its rank. */
static size_t follow(const struct eps__mc_chain *chain, size_t k, const uint8_t *state, unsigned t, uint8_t *next)
{
    size_t len = chain->live_len[k], next_len = chain->live_len[k + 1], at = 0;
    const uint32_t *live = chain->live + k * EPS__MC_CHAIN_LIVE, *after = live + EPS__MC_CHAIN_LIVE;
    for (size_t j = 0; j <= len && at < next_len; j++)
        if (after[at] == (j < len ? live[j] : k))
            next[at++] = j < len ? state[j] : (uint8_t)t;
    assert(at == next_len && t <= state[len]);
    next[next_len] = (uint8_t)(state[len] - t);
    return rank_of(chain, next, next_len + 1);
}

/* ------------------------------------------------------------ the tables */

/* Makes the table of one state at bin k and returns its value. after: the values of the states at the next bin. */
static double make_table(const struct eps__mc_chain *chain, const double *gram, size_t k, const uint8_t *state,
                         const double *after, double *table)
{
    size_t len = chain->live_len[k];
    double met = 0, log_factor = 0, own = entry_of(chain, gram, k, k), log_bins = log((double)chain->bins);
    uint8_t next[EPS__MC_CHAIN_LIVE + 2];
    for (size_t j = 0; j < len; j++)
        met += state[j] * entry_of(chain, gram, chain->live[k * EPS__MC_CHAIN_LIVE + j], k);
    for (unsigned t = 0; t <= state[len]; t++) { /* b^-t/t! e^(t (t-1)/2 own + t met) */
        double value = after[follow(chain, k, state, t, next)], exponent = 0.5 * t * (t - 1.0) * own + t * met;
        if (t > 0)
            log_factor -= log_bins + log(t);
        double error = 32 * EPS__UNIT_ROUNDOFF * (t + 1) * (exponent - log_factor);
        table[t] = 0;
        if (value > 0)
            table[t] = fmax(eps__raise(eps__exp_bound(EPS__UPPER, exponent + log_factor, error) * value, 8), DBL_MIN);
    }
    return eps__cumulative_make(table, table, (size_t)state[len] + 1);
}

static enum eps_status fill(struct eps__mc_chain *chain, const double *gram)
{
    size_t most_states = 1;
    for (size_t k = 0; k < chain->bins; k++) {
        size_t states = chain->tuples[chain->most][(size_t)chain->live_len[k] + 1];
        chain->start[k + 1] = chain->start[k] + states * (chain->most + 1);
        most_states = states > most_states ? states : most_states;
    }
    most_states = most_states > chain->most + 1 ? most_states : chain->most + 1;
    chain->ends = malloc(chain->start[chain->bins] * sizeof *chain->ends);
    double *value = malloc(most_states * sizeof *value), *after = malloc(most_states * sizeof *after);
    enum eps_status status = chain->ends && value && after ? EPS_OK : EPS_NO_MEMORY;
    for (unsigned left = 0; status == EPS_OK && left <= chain->most; left++)
        after[left] = left == 0; /* after the last bin no draws may remain */
    for (size_t k = chain->bins; status == EPS_OK && k-- > 0;) {
        uint8_t state[EPS__MC_CHAIN_LIVE + 1] = {0};
        size_t len = (size_t)chain->live_len[k] + 1, rank = 0;
        do {
            double *table = chain->ends + chain->start[k] + rank * (chain->most + 1);
            value[rank++] = make_table(chain, gram, k, state, after, table);
        } while (next_tuple(state, len, chain->most));
        assert(rank == chain->tuples[chain->most][len]);
        double *kept = after;
        after = value;
        value = kept;
    }
    double log_ways = 0; /* ln a!; the tables hold the factorials of the counts, by which it is divided */
    for (unsigned a = 0; status == EPS_OK && a <= chain->most; a++) {
        double pairs = 0.5 * a * (a - 1.0);
        log_ways += a > 0 ? log(a) : 0;
        chain->log_moment[a] =
            eps__shift(EPS__UPPER, eps__log_bound(EPS__UPPER, after[a], 2) + log_ways + pairs * chain->tau,
                       8 * EPS__UNIT_ROUNDOFF * (a + 2) * (log_ways + pairs + 1));
    }
    free(value);
    free(after);
    return status;
}

enum eps_status eps__mc_chain_make(struct eps__mc_chain *chain, const double *gram_upper, size_t bins, double tau,
                                   double numbers)
{
    assert(numbers <= EPS__MC_CHAIN_NUMBERS);
    *chain = (struct eps__mc_chain){.bins = bins,
                                    .tau = tau,
                                    .live = malloc((bins + 1) * EPS__MC_CHAIN_LIVE * sizeof *chain->live),
                                    .live_len = malloc((bins + 1) * sizeof *chain->live_len),
                                    .start = calloc(bins + 1, sizeof *chain->start)};
    enum eps_status status = chain->live && chain->live_len && chain->start ? EPS_OK : EPS_NO_MEMORY;
    count_tuples(chain);
    if (status == EPS_OK && !find_live(chain, gram_upper))
        status = EPS_UNSUPPORTED;
    if (status == EPS_OK) {
        for (chain->most = 2; chain->most < EPS__MC_CHAIN_MOST && numbers_of(chain, chain->most + 1) <= numbers;)
            chain->most++;
        status = chain->most > 2 ? fill(chain, gram_upper) : EPS_UNSUPPORTED;
    }
    if (status == EPS_OK && tau > NOTHING) {
        chain->gram = malloc(bins * bins * sizeof *chain->gram);
        status = chain->gram ? EPS_OK : EPS_NO_MEMORY;
    }
    if (status != EPS_OK)
        eps__mc_chain_clear(chain);
    else if (chain->gram)
        memcpy(chain->gram, gram_upper, bins * bins * sizeof *chain->gram);
    return status;
}

void eps__mc_chain_clear(struct eps__mc_chain *chain)
{
    free(chain->live);
    free(chain->live_len);
    free(chain->start);
    free(chain->ends);
    free(chain->gram);
    *chain = (struct eps__mc_chain){0};
}

double eps__mc_chain_draw(uint32_t *chosen, const struct eps__mc_chain *chain, unsigned order,
                          const struct eps__stream *stream, uint32_t draw)
{
    uint8_t states[2][EPS__MC_CHAIN_LIVE + 2] = {{(uint8_t)order}};
    size_t rank = rank_of(chain, states[0], 1), drawn = 0;
    assert(order <= chain->most);
    for (size_t k = 0; drawn < order; k++) {
        uint8_t *state = states[k % 2], *next = states[(k + 1) % 2];
        assert(k < chain->bins && state[chain->live_len[k]] == order - drawn);
        const double *table = chain->ends + chain->start[k] + rank * (chain->most + 1);
        unsigned t = (unsigned)eps__cumulative_draw(table, order - drawn + 1, eps__uniform(stream, draw, k));
        rank = follow(chain, k, state, t, next);
        for (; t > 0; t--)
            chosen[drawn++] = (uint32_t)k;
    }
    double excess = 0;
    for (size_t c = 0; chain->gram && c < order; c++)
        for (size_t d = 0; d < c; d++)
            excess += fmin(chain->gram[chosen[c] * chain->bins + chosen[d]] - chain->tau, 0);
    return excess;
}
