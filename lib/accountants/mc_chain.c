/*
 * See mc_chain.h. A state at a bin is the counts of the live bins before it and how many draws are left, at most `most` together;
 * states are numbered in lexicographic order. Its value is the sum of its wheel, whose items' weights are those of so many draws of the bin, times the
 * value of the state at the next bin.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/mc_chain.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/accountants/mc_wheel.h"
#include "lib/numerics/bound.h"

#define NUMBERS 4e6 /* that the wheels may take */
#define APART 1e-10 /* an entry this small is taken for 0, and what it may weigh is counted for all pairs */

/* C(n, k), under 2^53 wherever it is asked for. */
static size_t choose(size_t n, size_t k)
{
    double count = 1;
    for (size_t i = 1; i <= k; i++)
        count = count * (double)(n - k + i) / (double)i;
    return (size_t)count;
}

/* Tuples of `len` numbers with a sum of at most `most`. */
static size_t tuples(size_t most, size_t len)
{
    return choose(most + len, len);
}

/* The next in lexicographic order; false after the last. */
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

/* How many come before it. */
static size_t rank_of(const uint8_t *tuple, size_t len, unsigned most)
{
    size_t rank = 0, rest = most;
    for (size_t j = 0; j < len;
         j++) { /* those whose number j is less: the sum over v of tuples(rest - v, len - j - 1) */
        if (tuple[j] > 0)
            rank += tuples(rest, len - j) - tuples(rest - tuple[j], len - j);
        rest -= tuple[j];
    }
    return rank;
}

/* ------------------------------------------------------------ which bins are live */

static bool meets(const double *gram, size_t bins, size_t i, size_t j)
{
    return gram[i * bins + j] > APART;
}

/* The last bin that bin i meets. */
static size_t last_met(const double *gram, size_t bins, size_t i)
{
    size_t last = bins - 1;
    while (last > i && !meets(gram, bins, i, last))
        last--;
    return last;
}

/* False where too many are. */
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
        last[len++] = last_met(gram, bins, k);
    }
    assert(chain->live_len[0] == 0 && chain->live_len[bins] == 0);
    return true;
}

/* The numbers that all wheels take. */
static double numbers_of(const struct eps__mc_chain *chain, unsigned most)
{
    double numbers = 0;
    for (size_t k = 0; k < chain->bins && numbers <= NUMBERS; k++) {
        double states = 1;
        for (size_t i = 1; i <= (size_t)chain->live_len[k] + 1; i++)
            states *= (double)(most + i) / (double)i;
        numbers += states * (most + 1);
    }
    return numbers;
}

/* The state at the next bin, where bin k has t draws: the counts of those still live, and what is left. Returns its rank. */
static size_t follow(const struct eps__mc_chain *chain, size_t k, const uint8_t *state, unsigned t, uint8_t *next)
{
    size_t len = chain->live_len[k], next_len = chain->live_len[k + 1], at = 0;
    const uint32_t *live = chain->live + k * EPS__MC_CHAIN_LIVE, *after = live + EPS__MC_CHAIN_LIVE;
    for (size_t j = 0; j <= len && at < next_len; j++)
        if (after[at] == (j < len ? live[j] : k))
            next[at++] = j < len ? state[j] : (uint8_t)t;
    assert(at == next_len && t <= state[len]);
    next[next_len] = (uint8_t)(state[len] - t);
    return rank_of(next, next_len + 1, chain->most);
}

/* ------------------------------------------------------------ the wheels */

/* The wheel of one state of bin k, whose value is returned. after: those of the next bin. */
static double make_wheel(const struct eps__mc_chain *chain, const double *gram, size_t k, const uint8_t *state,
                         const double *after, double *wheel)
{
    size_t len = chain->live_len[k], bins = chain->bins;
    double met = 0, log_factor = 0, own = gram[k * bins + k];
    uint8_t next[EPS__MC_CHAIN_LIVE + 2];
    for (size_t j = 0; j < len; j++) {
        double entry = gram[chain->live[k * EPS__MC_CHAIN_LIVE + j] * bins + k];
        met += entry > APART ? state[j] * entry : 0;
    }
    for (unsigned t = 0; t <= state[len]; t++) { /* b^-t/t! e^(t (t-1)/2 own + t met) */
        double value = after[follow(chain, k, state, t, next)], exponent = 0.5 * t * (t - 1.0) * own + t * met;
        if (t > 0)
            log_factor -= log((double)bins) + log(t);
        double error = 32 * EPS__UNIT_ROUNDOFF * (t + 1) * (exponent - log_factor);
        wheel[t] = 0;
        if (value > 0)
            wheel[t] = fmax(eps__raise(eps__exp_bound(EPS__UPPER, exponent + log_factor, error) * value, 8), DBL_MIN);
    }
    return eps__wheel_make(wheel, wheel, (size_t)state[len] + 1);
}

static enum eps_status fill(struct eps__mc_chain *chain, const double *gram)
{
    size_t most_states = 1;
    for (size_t k = 0; k < chain->bins; k++) {
        size_t states = tuples(chain->most, (size_t)chain->live_len[k] + 1);
        chain->start[k + 1] = chain->start[k] + states * (chain->most + 1);
        most_states = states > most_states ? states : most_states;
    }
    most_states = most_states > chain->most + 1 ? most_states : chain->most + 1;
    chain->ends = malloc(chain->start[chain->bins] * sizeof *chain->ends);
    double *value = malloc(most_states * sizeof *value), *after = malloc(most_states * sizeof *after);
    enum eps_status status = chain->ends && value && after ? EPS_OK : EPS_NO_MEMORY;
    for (unsigned left = 0; status == EPS_OK && left <= chain->most; left++)
        after[left] = left == 0; /* after the last bin nothing may be left */
    for (size_t k = chain->bins; status == EPS_OK && k-- > 0;) {
        uint8_t state[EPS__MC_CHAIN_LIVE + 1] = {0};
        size_t len = (size_t)chain->live_len[k] + 1, rank = 0;
        do {
            double *wheel = chain->ends + chain->start[k] + rank * (chain->most + 1);
            value[rank++] = make_wheel(chain, gram, k, state, after, wheel);
        } while (next_tuple(state, len, chain->most));
        assert(rank == tuples(chain->most, len)); /* each state once */
        double *kept = after;
        after = value;
        value = kept;
    }
    double log_ways = 0; /* ln a!: the sequences of a multiset, but for the factorials of its counts */
    for (unsigned a = 0; status == EPS_OK && a <= chain->most; a++) {
        double pairs = 0.5 * a * (a - 1.0);
        log_ways += a > 0 ? log(a) : 0;
        chain->log_moment[a] =
            eps__shift(EPS__UPPER, eps__log_bound(EPS__UPPER, after[a], 2) + log_ways + pairs * chain->apart,
                       8 * EPS__UNIT_ROUNDOFF * (a + 2) * (log_ways + pairs + 1));
    }
    free(value);
    free(after);
    return status;
}

enum eps_status eps__mc_chain_make(struct eps__mc_chain *chain, const double *gram_upper, size_t bins)
{
    *chain = (struct eps__mc_chain){.bins = bins,
                                    .live = malloc((bins + 1) * EPS__MC_CHAIN_LIVE * sizeof *chain->live),
                                    .live_len = malloc((bins + 1) * sizeof *chain->live_len),
                                    .start = calloc(bins + 1, sizeof *chain->start)};
    enum eps_status status = chain->live && chain->live_len && chain->start ? EPS_OK : EPS_NO_MEMORY;
    if (status == EPS_OK && !find_live(chain, gram_upper))
        status = EPS_UNSUPPORTED;
    if (status == EPS_OK) {
        for (chain->most = 2; chain->most < EPS__MC_CHAIN_MOST && numbers_of(chain, chain->most + 1) <= NUMBERS;)
            chain->most++;
        for (size_t i = 0; i < bins * bins; i++)
            if (gram_upper[i] <= APART)
                chain->apart = fmax(chain->apart, gram_upper[i]);
        status = chain->most > 2 ? fill(chain, gram_upper) : EPS_UNSUPPORTED;
    }
    if (status != EPS_OK)
        eps__mc_chain_clear(chain);
    return status;
}

void eps__mc_chain_clear(struct eps__mc_chain *chain)
{
    free(chain->live);
    free(chain->live_len);
    free(chain->start);
    free(chain->ends);
    *chain = (struct eps__mc_chain){0};
}

void eps__mc_chain_draw(uint32_t *chosen, const struct eps__mc_chain *chain, unsigned order,
                        const struct eps__stream *stream, uint32_t draw)
{
    uint8_t states[2][EPS__MC_CHAIN_LIVE + 2] = {{(uint8_t)order}};
    size_t rank = rank_of(states[0], 1, chain->most), drawn = 0;
    assert(order <= chain->most);
    for (size_t k = 0; drawn < order; k++) {
        uint8_t *state = states[k % 2], *next = states[(k + 1) % 2];
        assert(k < chain->bins && state[chain->live_len[k]] == order - drawn);
        const double *wheel = chain->ends + chain->start[k] + rank * (chain->most + 1);
        unsigned t = (unsigned)eps__wheel_turn(wheel, order - drawn + 1, eps__uniform(stream, draw, k));
        rank = follow(chain, k, state, t, next);
        for (; t > 0; t--)
            chosen[drawn++] = (uint32_t)k;
    }
}
