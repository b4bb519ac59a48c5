/*
 * The sums of chain.h for one type of number. chain.c includes this file once for each type: NUMBER is the type,
 * OF(name) makes a name for it, and EXP is its exponential function.
 *
 * The first q = width - 1 bins of a cycle are the prefix. The sums run over all tuples of their counts. For each tuple,
 * a later bin that meets a bin of the prefix, in either direction around the cycle, gets a factor for each of its
 * draws. The remaining bins are a chain. It is processed bin by bin; the state (r_1 .. r_q; rest) holds the counts of
 * the last q bins and the sum of all counts before those, at most `most` together. States are stored in lexicographic
 * order, so those with the same r_1 .. r_q are a row of consecutive numbers, and rows are found by counting along. All
 * terms are positive, so nothing cancels.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

struct OF(tables) {
    const struct eps__chain *chain;
    unsigned most;
    size_t q;
    NUMBER *draws;  /* [k][t]: the factor of t draws of bin k, base^t/t! e^{g_kk t(t-1)/2} */
    NUMBER *powers; /* [k][d - 1][n]: e^{g n}, g the entry of bin k and the bin d before it on the cycle */
    size_t reach;   /* the largest n, (most/2)^2, which bounds the product of two counts */
    NUMBER *own;    /* the row of `draws` of the current bin, times the factors from the prefix; at the end, sums */
    NUMBER *state, *next;
    unsigned *middle; /* scratch space for a tuple of q + 1 counts */
    size_t *row_of;   /* where the next row of each first count is */
};

static void OF(tables_free)(struct OF(tables) *tables)
{
    free(tables->draws);
    free(tables->powers);
    free(tables->own);
    free(tables->state);
    free(tables->next);
    free(tables->middle);
    free(tables->row_of);
}

/* powers[n] = e^{g n} for n <= reach, g the entry; copied from `before` if the entry is the same. */
static void OF(fill_powers)(NUMBER *powers, const NUMBER *before, double entry, double entry_before, size_t reach)
{
    if (before && entry == entry_before) {
        memcpy(powers, before, (reach + 1) * sizeof *powers);
        return;
    }
    NUMBER once = EXP((NUMBER)entry);
    powers[0] = 1;
    for (size_t n = 1; n <= reach; n++)
        powers[n] = powers[n - 1] * once;
}

/*
 * draws[t] = the factor of t draws of row k. For one bin it is base^t/t! e^{g t(t-1)/2}. For a group of `count` bins it
 * is the coefficient of z^t in (sum_r (base z)^r/r! e^{own r(r-1)/2})^count, times e^{g t(t-1)/2} (M15). one, room:
 * scratch space of most + 1 numbers each.
 */
static void OF(fill_draws)(NUMBER *draws, NUMBER *one, NUMBER *room, const struct eps__chain *chain, size_t k,
                           NUMBER base)
{
    const struct eps__bin_gram *bins = chain->bins;
    NUMBER again = EXP((NUMBER)(bins->own ? bins->own[k] : 0)), pair = EXP((NUMBER)eps__chain_entry(chain, k, k));
    NUMBER agains = 1, pairs = 1;
    one[0] = draws[0] = 1;
    for (unsigned t = 1; t <= chain->most; t++) {
        draws[t] = one[t] = one[t - 1] * base * agains / (NUMBER)t; /* draw t makes t - 1 new pairs */
        agains *= again;
    }
    for (size_t c = 1; c < (bins->count ? bins->count[k] : 1); c++) {
        memcpy(room, draws, ((size_t)chain->most + 1) * sizeof *room);
        for (unsigned m = 0; m <= chain->most; m++) {
            draws[m] = 0;
            for (unsigned t = 0; t <= m; t++)
                draws[m] += room[m - t] * one[t];
        }
    }
    NUMBER met = 1; /* e^{g t(t-1)/2} */
    for (unsigned t = 1; t <= chain->most; t++) {
        draws[t] *= met;
        pairs *= pair;
        met *= pairs;
    }
}

static bool OF(tables_make)(struct OF(tables) *tables, const struct eps__chain *chain, NUMBER base)
{
    size_t len = chain->bins->len, q = chain->width - 1, row = (size_t)chain->most + 1;
    size_t reach = (size_t)chain->most * chain->most / 4, states = (size_t)states_of(chain->most, q);
    assert(states > 0);
    *tables = (struct OF(tables)){.chain = chain,
                                  .most = chain->most,
                                  .q = q,
                                  .reach = reach,
                                  .draws = malloc(len * row * sizeof(NUMBER)),
                                  .powers = malloc((len * q * (reach + 1) + 1) * sizeof(NUMBER)),
                                  .own = malloc(row * sizeof(NUMBER)),
                                  .state = malloc(states * sizeof(NUMBER)),
                                  .next = malloc(states * sizeof(NUMBER)),
                                  .middle = malloc((q + 1) * sizeof(unsigned)),
                                  .row_of = malloc(row * sizeof(size_t))};
    if (!tables->draws || !tables->powers || !tables->own || !tables->state || !tables->next || !tables->middle ||
        !tables->row_of) {
        OF(tables_free)(tables);
        return false;
    }
    for (size_t k = 0; k < len; k++) {
        OF(fill_draws)(tables->draws + k * row, tables->own, tables->state, chain, k, base);
        for (size_t d = 1; d <= q; d++) {
            NUMBER *powers = tables->powers + (k * q + d - 1) * (reach + 1);
            double entry = eps__chain_entry(chain, k, (k + len - d) % len);
            double before = k > 0 ? eps__chain_entry(chain, k - 1, (k - 1 + len - d) % len) : 0;
            OF(fill_powers)(powers, k > 0 ? powers - q * (reach + 1) : NULL, entry, before, reach);
        }
    }
    return true;
}

static const NUMBER *OF(powers_of)(const struct OF(tables) *tables, size_t k, size_t d)
{
    return tables->powers + (k * tables->q + d - 1) * (tables->reach + 1);
}

/* own[t] = the factor of t draws of bin k, with the factors from the counts of the prefix that it meets. */
static void OF(meet_prefix)(struct OF(tables) *tables, size_t k, const unsigned *prefix, unsigned most)
{
    size_t len = tables->chain->bins->len, q = tables->q;
    memcpy(tables->own, tables->draws + k * ((size_t)tables->most + 1), ((size_t)most + 1) * sizeof(NUMBER));
    for (size_t i = 0; prefix && i < q; i++) {
        size_t behind = k - i, ahead = len - behind; /* i < q <= k */
        if (prefix[i] == 0 || (behind > q && ahead > q))
            continue;
        /* If both are at most q, then both are q and len = 2 q: one entry, which counts once. */
        const NUMBER *powers = behind <= q ? OF(powers_of)(tables, k, behind) : OF(powers_of)(tables, i, ahead);
        for (unsigned t = 0; t <= most; t++)
            tables->own[t] *= powers[t * prefix[i]];
    }
}

/*
 * Adds bin k: next[(r_2 .. r_q, t); rest + r_1] = sum over r_1 of state[(r_1 .. r_q); rest] own[t] e^{t sum_j g_j r_j}.
 * The middle (r_2 .. r_q) runs through its tuples in order. The row of (r_1, middle) is then the next one among those
 * that begin with r_1, and the row of (middle, t) is the next one of all.
 */
static void OF(step)(struct OF(tables) *tables, size_t k, unsigned most)
{
    size_t q = tables->q, begin = 0, filled = 0, *row_of = tables->row_of;
    unsigned *middle = tables->middle;
    const NUMBER *oldest = OF(powers_of)(tables, k, q);
    for (unsigned v = 0; v <= most; v++) {
        row_of[v] = begin;
        begin += (size_t)states_of(most - v, q - 1);
    }
    unsigned sum = 0;
    memset(middle, 0, q * sizeof *middle);
    do {
        for (unsigned t = 0; t <= most - sum; t++) {
            NUMBER factor = tables->own[t], *into = tables->next + filled;
            unsigned left = most - sum - t;
            for (size_t j = 0; j + 1 < q; j++) /* r_(j+2) is the count of the bin q - 1 - j before k */
                factor *= OF(powers_of)(tables, k, q - 1 - j)[t * middle[j]];
            for (unsigned rest = 0; rest <= left; rest++)
                into[rest] = 0;
            for (unsigned first = 0; first <= left; first++) {
                const NUMBER *from = tables->state + row_of[first];
                NUMBER whole = factor * oldest[t * first];
                for (unsigned rest = 0; rest <= left - first; rest++)
                    into[first + rest] += whole * from[rest];
            }
            filled += left + 1;
        }
        for (unsigned v = 0; v <= most - sum; v++)
            row_of[v] += most - sum - v + 1;
    } while (next_tuple(middle, q - 1, most, &sum));
    assert(filled == (size_t)states_of(most, q));
    NUMBER *state = tables->state;
    tables->state = tables->next;
    tables->next = state;
}

/* The same for q = 0, where the state is the sum alone: a product of polynomials. */
static void OF(step_alone)(struct OF(tables) *tables, unsigned most)
{
    for (unsigned m = most + 1; m-- > 0;) {
        NUMBER sum = 0;
        for (unsigned t = 0; t <= m; t++)
            sum += tables->own[t] * tables->state[m - t];
        tables->state[m] = sum;
    }
}

/* sums[offset + m] += weight times the sum over all ways to make m draws from the bins after the prefix. prefix NULL:
 * from all bins. offset: the draws of the prefix. */
static enum eps_status OF(add_chain)(const struct eps_context *context, struct OF(tables) *tables, NUMBER *sums,
                                     NUMBER weight, const unsigned *prefix, unsigned offset)
{
    unsigned most = tables->most - offset;
    size_t states = (size_t)states_of(most, tables->q), first = prefix ? tables->q : 0;
    for (size_t i = 0; i < states; i++)
        tables->state[i] = 0;
    tables->state[0] = 1;
    for (size_t k = first; k < tables->chain->bins->len; k++) {
        OF(meet_prefix)(tables, k, prefix, most);
        if (tables->q > 0)
            OF(step)(tables, k, most);
        else
            OF(step_alone)(tables, most);
        enum eps_status status = eps__poll(context);
        if (status != EPS_OK)
            return status;
    }
    /* summed before they are added to the sums of the other prefixes: a term has fewer additions (M10) */
    NUMBER *drawn = tables->own;
    unsigned sum = 0, *middle = tables->middle;
    size_t at = 0;
    memset(middle, 0, (tables->q + 1) * sizeof *middle);
    for (unsigned m = 0; m <= most; m++)
        drawn[m] = 0;
    do
        for (unsigned rest = 0; rest <= most - sum; rest++)
            drawn[sum + rest] += tables->state[at++];
    while (next_tuple(middle, tables->q, most, &sum));
    assert(at == states);
    for (unsigned m = 0; m <= most; m++)
        sums[offset + m] += weight * drawn[m];
    return EPS_OK;
}

/* The factor of the prefix by itself. */
static NUMBER OF(prefix_weight)(const struct OF(tables) *tables, const unsigned *prefix)
{
    NUMBER weight = 1;
    for (size_t i = 0; i < tables->q; i++) {
        weight *= tables->draws[i * ((size_t)tables->most + 1) + prefix[i]];
        for (size_t j = 0; j < i; j++)
            weight *= OF(powers_of)(tables, i, i - j)[prefix[i] * prefix[j]];
    }
    return weight;
}

/* sums[a], a <= most: the sum over all multisets of a bins of the product of base^r/r! and the factors of their pairs
 * (M10). */
static enum eps_status OF(sum_up)(const struct eps_context *context, const struct eps__chain *chain, NUMBER base,
                                  NUMBER *sums)
{
    struct OF(tables) tables;
    assert(chain->width >= 1 && chain->width <= chain->bins->len / 2 + 1);
    size_t q = chain->width - 1;
    unsigned *prefix = calloc(q + 1, sizeof *prefix), offset = 0;
    enum eps_status status = EPS_NO_MEMORY;
    if (!prefix || !OF(tables_make)(&tables, chain, base))
        goto out;
    for (unsigned a = 0; a <= chain->most; a++)
        sums[a] = 0;
    if (chain->open || q == 0)
        status = OF(add_chain)(context, &tables, sums, 1, NULL, 0);
    else
        do
            status = OF(add_chain)(context, &tables, sums, OF(prefix_weight)(&tables, prefix), prefix, offset);
        while (status == EPS_OK && next_tuple(prefix, q, chain->most, &offset));
    OF(tables_free)(&tables);
out:
    free(prefix);
    return status;
}
