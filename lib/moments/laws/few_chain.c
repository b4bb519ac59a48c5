/*
 * See few_chain.h.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/moments/laws/few_chain.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <sleef.h>

#include "lib/base/error.h"
#include "lib/base/progress.h"
#include "lib/numerics/bound.h"

enum { POLLED = 1 << 12 };

/* ------------------------------------------------------------ states */

struct state {
    struct eps__few_part parts[EPS__FEW_HELD_MOST + EPS__FEW_COPIES_MOST];
    unsigned len;
};

static uint64_t pack(const struct eps__few_chain *chain, const struct state *state)
{
    uint64_t key = 0;
    for (unsigned i = state->len; i-- > 0;)
        key = key << chain->bits | (1 + (uint64_t)(state->parts[i].age - 1) * chain->copies + state->parts[i].copy);
    return key;
}

static struct state unpack(const struct eps__few_chain *chain, uint64_t key)
{
    struct state state = {.len = 0};
    for (; key; key >>= chain->bits) {
        uint64_t code = (key & ((UINT64_C(1) << chain->bits) - 1)) - 1;
        state.parts[state.len++] =
            (struct eps__few_part){(uint16_t)(1 + code / chain->copies), (uint16_t)(code % chain->copies)};
    }
    assert(state.len <= chain->held);
    return state;
}

/* Renames copies in the order in which they occur. */
static void rename_copies(struct state *state)
{
    uint16_t names[EPS__FEW_COPIES_MOST], named = 0;
    for (unsigned i = 0; i < state->len; i++) {
        uint16_t k = 0;
        while (k < named && names[k] != state->parts[i].copy)
            k++;
        if (k == named)
            names[named++] = state->parts[i].copy;
        state->parts[i].copy = k;
    }
}

/* The state one step after `from`, in which the copies of `draw` took part. *paid: the exponent of the payment for what
 * is forgotten. */
static struct state after(const struct eps__few_chain *chain, const struct state *from, unsigned draw, double *paid)
{
    struct state to = {.len = 0};
    for (uint16_t c = 0; c < chain->copies && chain->ages > 0; c++)
        if (draw >> c & 1)
            to.parts[to.len++] = (struct eps__few_part){1, c};
    for (unsigned i = 0; i < from->len; i++)
        if (from->parts[i].age < chain->ages)
            to.parts[to.len++] = (struct eps__few_part){(uint16_t)(from->parts[i].age + 1), from->parts[i].copy};
    *paid = 0;
    for (; to.len > chain->held; to.len--) {
        unsigned age = to.parts[to.len - 1].age;
        assert(age >= 1 && age <= chain->ages && (to.len == 1 || to.parts[to.len - 2].age <= age));
        *paid = eps__add_up(*paid, chain->pay[age]);
    }
    rename_copies(&to);
    return to;
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 31) * UINT64_C(0x9e3779b97f4a7c15);
    return x ^ x >> 29;
}

/* The place of a state in the hash table. */
static size_t place_of(const struct eps__few_chain *chain, uint64_t key)
{
    size_t at = mix(key) & chain->table_mask;
    while (chain->table[at] && chain->keys[chain->table[at] - 1] != key)
        at = (at + 1) & chain->table_mask;
    return at;
}

/* The index of a state, which is appended if it is new. There is room for it. */
static uint32_t index_of(struct eps__few_chain *chain, uint64_t key)
{
    size_t at = place_of(chain, key);
    if (!chain->table[at]) {
        assert(chain->len < chain->size);
        chain->keys[chain->len++] = key;
        chain->table[at] = (uint32_t)chain->len;
    }
    return chain->table[at] - 1;
}

unsigned eps__few_bits(size_t width, unsigned copies)
{
    return (unsigned)ilogb(((double)width - 1) * copies + 1) + 1;
}

/* ------------------------------------------------------------ the chain */

/* What is forgotten is paid for as if every other copy took part in every step that it might meet (M31). */
static void set_payments(struct eps__few_chain *chain)
{
    const struct eps__banded_gram *banded = chain->banded;
    for (size_t age = chain->ages; age >= 1; age--) {
        double most = 0, more = age < chain->ages ? chain->pay[age + 1] : 0;
        for (size_t i = age; i < banded->len; i++)
            most = fmax(most, eps__banded_entry(banded, i, age));
        chain->pay[age] = eps__add_up(more, eps__multiply_up(most, chain->copies - 1));
    }
}

static bool enlarge(void *array, size_t bytes)
{
    void **at = array, *larger = realloc(*at, bytes);
    if (larger)
        *at = larger;
    return larger != NULL;
}

/* Makes room for the successors of one state. */
static bool reserve(struct eps__few_chain *chain)
{
    if (chain->len + chain->draws <= chain->size)
        return true;
    size_t size = chain->size > 0 ? 2 * chain->size : 1024, all = size * chain->draws;
    uint32_t *table = calloc(2 * size, sizeof *table);
    if (!table || !enlarge(&chain->keys, size * sizeof *chain->keys) ||
        !enlarge(&chain->next, all * sizeof *chain->next) || !enlarge(&chain->paid, all * sizeof *chain->paid)) {
        free(table);
        return false;
    }
    free(chain->table);
    chain->table = table;
    chain->table_mask = 2 * size - 1;
    chain->size = size;
    for (size_t i = 0; i < chain->len; i++)
        chain->table[place_of(chain, chain->keys[i])] = (uint32_t)i + 1;
    return true;
}

/* Finds all states that are reached from the empty one. */
static enum eps_status find_states(const struct eps_context *context, struct eps__few_chain *chain)
{
    if (!reserve(chain))
        return EPS_NO_MEMORY;
    uint32_t start = index_of(chain, 0);
    assert(start == 0);
    for (size_t i = 0; i < chain->len; i++) {
        struct state from = unpack(chain, chain->keys[i]);
        enum eps_status status = i % POLLED == 0 ? eps__poll(context) : EPS_OK;
        if (status == EPS_OK && !reserve(chain))
            status = EPS_NO_MEMORY;
        if (status != EPS_OK)
            return status;
        for (unsigned draw = 0; draw < chain->draws; draw++) {
            double paid;
            struct state to = after(chain, &from, draw, &paid);
            chain->next[i * chain->draws + draw] = index_of(chain, pack(chain, &to));
            chain->paid[i * chain->draws + draw] = paid > 0 ? Sleef_cinz_expd1_u10purec(paid) : 1;
            chain->paid_most = fmax(chain->paid_most, paid);
        }
    }
    return EPS_OK;
}

static enum eps_status build(const struct eps_context *context, struct eps__few_chain *chain)
{
    chain->pay = calloc(chain->ages + 1, sizeof *chain->pay);
    chain->entry = calloc(chain->ages + 1, sizeof *chain->entry);
    if (!chain->pay || !chain->entry)
        return EPS_NO_MEMORY;
    set_payments(chain);
    enum eps_status status = find_states(context, chain);
    if (status != EPS_OK)
        return status;
    assert(chain->len > 0 && chain->held > 0);
    chain->parts = calloc(chain->len * chain->held, sizeof *chain->parts);
    chain->weights = malloc(chain->len * chain->draws * sizeof *chain->weights);
    if (!chain->parts || !chain->weights)
        return EPS_NO_MEMORY;
    for (size_t i = 0; i < chain->len; i++) {
        struct eps__few_part *parts = chain->parts + i * chain->held;
        struct state state = unpack(chain, chain->keys[i]);
        memcpy(parts, state.parts, state.len * sizeof *parts);
    }
    return EPS_OK;
}

enum eps_status eps__few_chain_make(const struct eps_context *context, struct eps__few_chain *chain,
                                    const struct eps__banded_gram *banded, unsigned copies, unsigned held)
{
    *chain = (struct eps__few_chain){.banded = banded,
                                     .copies = copies,
                                     .held = held,
                                     .draws = 1u << copies,
                                     .ages = banded->width - 1,
                                     .bits = eps__few_bits(banded->width, copies)};
    assert(copies >= 2 && copies <= EPS__FEW_COPIES_MOST && held >= 1 && held <= EPS__FEW_HELD_MOST &&
           held * chain->bits <= 64 && banded->width >= 1);
    return build(context, chain);
}

void eps__few_chain_clear(struct eps__few_chain *chain)
{
    free(chain->pay);
    free(chain->entry);
    free(chain->keys);
    free(chain->next);
    free(chain->paid);
    free(chain->table);
    free(chain->parts);
    free(chain->weights);
    *chain = (struct eps__few_chain){0};
}

/* ------------------------------------------------------------ weights */

double eps__few_step(double drawn[EPS__FEW_DRAWS_MOST], double *entry, const struct eps__few_chain *chain, size_t i)
{
    const struct eps__banded_gram *banded = chain->banded;
    double most = 0;
    for (unsigned draw = 0; draw < chain->draws; draw++) {
        unsigned count = (unsigned)__builtin_popcount(draw);
        double own = 0.5 * count * (count - 1.0) * eps__banded_entry(banded, i, 0), weight = 1;
        for (unsigned c = 0; c < chain->copies; c++)
            weight *= c < count ? banded->p : 1 - banded->p;
        most = fmax(most, own);
        drawn[draw] = weight * Sleef_cinz_expd1_u10purec(own);
    }
    for (size_t age = 1; age <= chain->ages; age++)
        entry[age] = eps__banded_entry(banded, i, age);
    return most;
}

double eps__few_weigh_state(double *weights, const struct eps__few_chain *chain, const double *drawn,
                            const double *entry, size_t s)
{
    const struct eps__few_part *parts = chain->parts + s * chain->held;
    double met[EPS__FEW_COPIES_MOST] = {0}, factor[EPS__FEW_COPIES_MOST], most = 0;
    for (unsigned k = 0; k < chain->held && parts[k].age > 0; k++)
        for (unsigned c = 0; c < chain->copies; c++)
            met[c] += c != parts[k].copy ? entry[parts[k].age] : 0;
    for (unsigned c = 0; c < chain->copies; c++) {
        most = fmax(most, met[c]);
        factor[c] = met[c] > 0 ? Sleef_cinz_expd1_u10purec(met[c]) : 1;
    }
    for (unsigned draw = 0; draw < chain->draws; draw++) {
        double weight = drawn[draw] * chain->paid[s * chain->draws + draw];
        for (unsigned c = 0; c < chain->copies; c++)
            weight *= draw >> c & 1 ? factor[c] : 1;
        weights[draw] = weight;
    }
    return most;
}

bool eps__few_weigh(struct eps__few_chain *chain, size_t i, double *exponent_most)
{
    double drawn[EPS__FEW_DRAWS_MOST];
    *exponent_most = fmax(*exponent_most, eps__few_step(drawn, chain->entry, chain, i));
    for (size_t s = 0; s < chain->len; s++)
        *exponent_most = fmax(*exponent_most,
                              eps__few_weigh_state(chain->weights + s * chain->draws, chain, drawn, chain->entry, s));
    return *exponent_most <= EPS__FEW_EXPONENT_MOST;
}

double eps__few_step_units(double exponent_most)
{
    /* sums of so many products; for each of EPS__FEW_COPIES_MOST + 2 factors an exponent of a few terms and its
     * exponential; probabilities; growth and its logarithm */
    return EPS__FEW_DRAWS_MOST + (EPS__FEW_COPIES_MOST + 2) * (EPS__FEW_HELD_MOST + 4) * (1 + exponent_most) + 64;
}
