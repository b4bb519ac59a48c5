/*
 * See few.h. A state is a sorted list of participations, youngest first, each the number of steps since and the copy,
 * packed into one integer. Copies are renamed in the order in which they occur, so that most states that differ only in
 * the names of copies are one.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/moments/laws/few.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/progress.h"
#include "lib/numerics/bound.h"

enum {
    COPIES_MOST = 3,
    HELD_LEAST = 3, /* participations of a state: where they are rare, */
    HELD_MOST = 8,  /* and at most */
    POLLED = 1 << 12,
    DRAWS_MOST = 1 << COPIES_MOST,
    SETTLING = 4 /* equal steps converge after about SETTLING widths */
};

#define OPERATIONS 5e7     /* of a sum, at most */
#define NEEDED 4.0         /* participations that a state needs, over their mean number: an estimate */
#define CROWDED 2.0        /* states that hold fewer than so many times their mean number prove nothing */
#define EXPONENT_MOST 70.0 /* of each factor, so that products are within the range of doubles */
#define SPAN_MOST 0x1p600  /* of the numbers of one step */
#define LARGE 0x1p300      /* numbers above are scaled */
#define SETTLED 1e-9       /* what a run of equal steps may gain by taking the largest growth for all of them */

/* Measured costs of a draw, in operations: to build it, to weigh it, for each participation that its state holds on top
 * of that, and in each step. */
#define BUILT 150.0
#define WEIGHED 4.0
#define WEIGHED_EACH 12.0
#define STEPPED 3.0

/* ------------------------------------------------------------ states */

/* One participation: `age` >= 1 steps ago, of one copy. */
struct part {
    uint16_t age, copy;
};

struct state {
    struct part parts[HELD_MOST + COPIES_MOST];
    unsigned len;
};

struct chain {
    const struct eps__banded_gram *banded;
    unsigned copies, held, draws; /* draws: subsets of the copies */
    size_t ages;                  /* the largest age, width - 1 */
    unsigned bits;                /* of a packed participation */
    double *pay;                  /* [age]: the exponent for one participation that is forgotten at this age */
    double *entry;                /* [age]: the entry of the Gram matrix at one step */
    size_t len, size;
    uint64_t *keys;   /* of each state */
    uint32_t *next;   /* [state][draw] */
    double *paid;     /* [state][draw]: the payment */
    double paid_most; /* the largest exponent of one */
    uint32_t *table;  /* hash table of indices + 1 */
    size_t table_mask;
    struct part *parts; /* [state][held], unpacked; age 0: none */
    double *weights;    /* [state][draw] at one step */
    double *values[2];
};

static uint64_t pack(const struct chain *chain, const struct state *state)
{
    uint64_t key = 0;
    for (unsigned i = state->len; i-- > 0;)
        key = key << chain->bits | (1 + (uint64_t)(state->parts[i].age - 1) * chain->copies + state->parts[i].copy);
    return key;
}

static struct state unpack(const struct chain *chain, uint64_t key)
{
    struct state state = {.len = 0};
    for (; key; key >>= chain->bits) {
        uint64_t code = (key & ((UINT64_C(1) << chain->bits) - 1)) - 1;
        state.parts[state.len++] =
            (struct part){(uint16_t)(1 + code / chain->copies), (uint16_t)(code % chain->copies)};
    }
    assert(state.len <= chain->held);
    return state;
}

/* Renames copies in the order in which they occur. */
static void rename_copies(struct state *state)
{
    uint16_t names[COPIES_MOST], named = 0;
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
static struct state after(const struct chain *chain, const struct state *from, unsigned draw, double *paid)
{
    struct state to = {.len = 0};
    for (uint16_t c = 0; c < chain->copies && chain->ages > 0; c++)
        if (draw >> c & 1)
            to.parts[to.len++] = (struct part){1, c};
    for (unsigned i = 0; i < from->len; i++)
        if (from->parts[i].age < chain->ages)
            to.parts[to.len++] = (struct part){(uint16_t)(from->parts[i].age + 1), from->parts[i].copy};
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
static size_t place_of(const struct chain *chain, uint64_t key)
{
    size_t at = mix(key) & chain->table_mask;
    while (chain->table[at] && chain->keys[chain->table[at] - 1] != key)
        at = (at + 1) & chain->table_mask;
    return at;
}

/* The index of a state, which is appended if it is new. There is room for it. */
static uint32_t index_of(struct chain *chain, uint64_t key)
{
    size_t at = place_of(chain, key);
    if (!chain->table[at]) {
        assert(chain->len < chain->size);
        chain->keys[chain->len++] = key;
        chain->table[at] = (uint32_t)chain->len;
    }
    return chain->table[at] - 1;
}

static unsigned bits_of(double codes)
{
    return (unsigned)ilogb(codes) + 1;
}

/* The number of states, about. */
static double states_of(size_t width, unsigned copies, unsigned held)
{
    double places = ((double)width - 1) * copies, choices = 1, sum = 0;
    for (unsigned j = 0; j <= held; j++) {
        sum += choices;
        choices *= fmax(places - j, 0) / (j + 1);
    }
    return sum / (copies == 2 ? 2 : 4);
}

/* The estimated operations of a sum. Does not read the Gram matrix. */
static double operations_at(const struct eps__banded_gram *banded, unsigned copies, unsigned held)
{
    double width = (double)banded->width, len = (double)banded->len, runs = fmin((double)banded->changes, len);
    double draws = ldexp(states_of(banded->width, copies, held), (int)copies);
    double steps = fmin(len, runs + SETTLING * fmax(runs, width));
    return draws * (BUILT + runs * (WEIGHED_EACH * held / ldexp(1, (int)copies) + WEIGHED) + steps * STEPPED);
}

unsigned eps__few_most(const struct eps__banded_gram *banded, unsigned copies)
{
    double ages = (double)banded->width - 1;
    unsigned most = 0;
    if (copies < 2 || copies > COPIES_MOST || !(banded->p < 1))
        return 0;
    while (most < HELD_MOST && (most + 1) * bits_of(ages * copies + 1) <= 64 &&
           operations_at(banded, copies, most + 1) <= OPERATIONS)
        most++;
    return most;
}

/* ------------------------------------------------------------ the chain */

static void clear(struct chain *chain)
{
    free(chain->pay);
    free(chain->entry);
    free(chain->keys);
    free(chain->next);
    free(chain->paid);
    free(chain->table);
    free(chain->parts);
    free(chain->weights);
    free(chain->values[0]);
    free(chain->values[1]);
}

/* What is forgotten is paid for as if every other copy took part in every step that it might meet (M31). */
static void set_payments(struct chain *chain)
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
static bool reserve(struct chain *chain)
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
static enum eps_status find_states(const struct eps_context *context, struct chain *chain)
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
            chain->paid[i * chain->draws + draw] = paid > 0 ? exp(paid) : 1;
            chain->paid_most = fmax(chain->paid_most, paid);
        }
    }
    return EPS_OK;
}

static enum eps_status build(const struct eps_context *context, struct chain *chain)
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
    chain->values[0] = malloc(chain->len * sizeof *chain->values[0]);
    chain->values[1] = malloc(chain->len * sizeof *chain->values[1]);
    if (!chain->parts || !chain->weights || !chain->values[0] || !chain->values[1])
        return EPS_NO_MEMORY;
    for (size_t i = 0; i < chain->len; i++) {
        struct part *parts = chain->parts + i * chain->held;
        struct state state = unpack(chain, chain->keys[i]);
        memcpy(parts, state.parts, state.len * sizeof *parts);
    }
    return EPS_OK;
}

/* Sets the weights of step i. False: an exponent is too large. */
static bool weigh(const struct chain *chain, size_t i, double *exponent_most)
{
    const struct eps__banded_gram *banded = chain->banded;
    double p = banded->p, drawn[DRAWS_MOST], met[COPIES_MOST], factor[COPIES_MOST];
    for (unsigned draw = 0; draw < chain->draws; draw++) {
        int count = __builtin_popcount(draw);
        double own = 0.5 * count * (count - 1) * eps__banded_entry(banded, i, 0);
        *exponent_most = fmax(*exponent_most, own);
        drawn[draw] = pow(p, count) * pow(1 - p, (int)chain->copies - count) * exp(own);
    }
    for (size_t age = 1; age <= chain->ages; age++)
        chain->entry[age] = eps__banded_entry(banded, i, age);
    for (size_t s = 0; s < chain->len; s++) {
        const struct part *parts = chain->parts + s * chain->held;
        memset(met, 0, sizeof met);
        for (unsigned k = 0; k < chain->held && parts[k].age > 0; k++)
            for (unsigned c = 0; c < chain->copies; c++)
                met[c] += c != parts[k].copy ? chain->entry[parts[k].age] : 0;
        for (unsigned c = 0; c < chain->copies; c++) {
            *exponent_most = fmax(*exponent_most, met[c]);
            factor[c] = met[c] > 0 ? exp(met[c]) : 1;
        }
        for (unsigned draw = 0; draw < chain->draws; draw++) {
            double weight = drawn[draw] * chain->paid[s * chain->draws + draw];
            for (unsigned c = 0; c < chain->copies; c++)
                weight *= draw >> c & 1 ? factor[c] : 1;
            chain->weights[s * chain->draws + draw] = weight;
        }
    }
    return *exponent_most <= EXPONENT_MOST;
}

/* One step back: values[1] from values[0], which are then exchanged. Sets the least and the largest growth. False: the
 * numbers are too far apart. */
static bool step_back(struct chain *chain, int *scale, double growth[2])
{
    const double *from = chain->values[0];
    double *to = chain->values[1], least = INFINITY, most = 0;
    growth[0] = INFINITY;
    growth[1] = 0;
    for (size_t s = 0; s < chain->len; s++) {
        const double *weights = chain->weights + s * chain->draws;
        const uint32_t *next = chain->next + s * chain->draws;
        double sum = 0;
        for (unsigned draw = 0; draw < chain->draws; draw++)
            sum += weights[draw] * from[next[draw]];
        to[s] = sum;
        double grown = sum / from[s];
        growth[0] = fmin(growth[0], grown);
        growth[1] = fmax(growth[1], grown);
        least = fmin(least, sum);
        most = fmax(most, sum);
    }
    if (!(most < INFINITY) || !(least > 0) || most / least > SPAN_MOST)
        return false;
    if (most > LARGE) {
        int down = ilogb(most);
        for (size_t s = 0; s < chain->len; s++)
            to[s] = ldexp(to[s], -down);
        *scale += down;
    }
    chain->values[0] = to;
    chain->values[1] = (double *)from;
    return true;
}

/* The step at which the run of equal rows begins that ends with step i. */
static size_t run_start(const struct eps__banded_gram *banded, size_t i)
{
    const double *row = banded->gram + i * banded->width;
    while (i > 0 && memcmp(row - banded->width, row, banded->width * sizeof *row) == 0) {
        row -= banded->width;
        i--;
    }
    return i;
}

/* *log_sum: an upper bound on ln of the sum before rounding, all of whose steps have a relative error of `each` units
 * at most. NAN: it is not known. */
static enum eps_status run(const struct eps_context *context, struct chain *chain, eps__quad *log_sum, double *each)
{
    const struct eps__banded_gram *banded = chain->banded;
    double exponent_most = chain->paid_most, growth[2];
    int scale = 0;
    *log_sum = 0;
    for (size_t s = 0; s < chain->len; s++)
        chain->values[0][s] = 1;
    for (size_t left = banded->len; left > 0;) {
        size_t start = run_start(banded, left - 1);
        bool within = weigh(chain, left - 1, &exponent_most);
        for (; within && left > start; left--) {
            enum eps_status status = eps__poll(context);
            if (status != EPS_OK)
                return status;
            within = step_back(chain, &scale, growth);
            double rest = (double)(left - 1 - start), log_most = log(growth[1]);
            if (within && (log_most - log(growth[0])) * rest <= SETTLED) {
                *log_sum += (eps__quad)rest * log_most;
                left = start;
                break;
            }
        }
        if (!within) {
            *log_sum = (eps__quad)NAN;
            return EPS_OK;
        }
    }
    *log_sum += logq(chain->values[0][0]) + (eps__quad)scale * logq(2);
    /* sums of DRAWS_MOST products; for each of COPIES_MOST + 2 factors an exponent of at most HELD_MOST terms and its
     * exponential; probabilities; growth and its logarithm */
    *each = DRAWS_MOST + (COPIES_MOST + 2) * (HELD_MOST + 4) * (1 + exponent_most) + 64;
    return EPS_OK;
}

enum eps_status eps__few_sum(const struct eps_context *context, eps__quad *sum, double *units,
                             const struct eps__banded_gram *banded, unsigned copies, unsigned most, eps__quad times)
{
    struct eps__banded_gram scaled = *banded;
    double ages = (double)banded->width - 1;
    struct chain chain = {.banded = &scaled,
                          .copies = copies,
                          .held = most,
                          .draws = 1u << copies,
                          .ages = banded->width - 1,
                          .bits = bits_of(ages * copies + 1)};
    eps__quad log_sum = 0;
    double each = 0;
    assert(copies >= 2 && copies <= COPIES_MOST && most >= 1 && most <= HELD_MOST && most * chain.bits <= 64 &&
           banded->width >= 1);
    scaled.times = eps__raise((double)times, 2);
    enum eps_status status = build(context, &chain);
    if (status == EPS_OK)
        status = run(context, &chain, &log_sum, &each);
    clear(&chain);
    *sum = expq(log_sum);
    *units = EPS__DOUBLE_UNITS * ((double)banded->len * each + 4 * eps__banded_meetings(&scaled, 1, copies) + 4);
    return status;
}

/* ------------------------------------------------------------ groups of copies */

/* The participations that the states of a sum hold: of the sizes alone, so that the sum is a smooth function of the
 * entries. 0: none is feasible. */
static unsigned held_of(const struct eps__banded_gram *banded, unsigned copies)
{
    double mean = copies * banded->p * (double)(banded->width - 1), needed = HELD_LEAST + ceil(NEEDED * mean);
    unsigned most = eps__few_most(banded, copies);
    return most < HELD_LEAST || CROWDED * mean > most ? 0 : needed < most ? (unsigned)needed : most;
}

static double operations_of(const void *law, unsigned copies)
{
    unsigned held = held_of(law, copies);
    return held > 0 ? operations_at(law, copies, held) : INFINITY;
}

static enum eps_status sum_of(const struct eps_context *context, eps__quad *sum, double *units, const void *law,
                              unsigned copies, eps__quad times)
{
    return eps__few_sum(context, sum, units, law, copies, held_of(law, copies), times);
}

struct eps__copies eps__few_copies(const struct eps__banded_gram *banded)
{
    return (struct eps__copies){banded, operations_of, sum_of};
}
