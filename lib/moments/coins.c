/*
 * Copies of one example, told apart by nothing but which of their last coins they took: a state counts the copies of
 * each history, so that a copies with b - 1 remembered coins have C(a + 2^{b-1} - 1, a) states where ordered ones have
 * 2^{a (b-1)}. While the steps are alike, the chain soon only grows by a factor, and what is left of them is a power.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/moments/coins.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "lib/error.h"
#include "lib/numerics/bound.h"

enum { ORDERS_MOST = 64, SETTLING = 60, BUILDING = 10 };

#define LOST 1e-280     /* more than what products of C's entries lose to underflow */
#define NUMBERS 2e6     /* transitions that are kept */
#define SMALLEST 7000.0 /* -ln of what no number on the way is under */

/* ------------------------------------------------------------ the matrix */

void eps__coins_clear(struct eps__coins *coins)
{
    free(coins->gram);
    *coins = (struct eps__coins){0};
}

static bool alike(const struct eps__coins *coins, size_t i)
{
    size_t row = coins->width * sizeof *coins->gram;
    return i > 0 && memcmp(coins->gram + i * coins->width, coins->gram + (i - 1) * coins->width, row) == 0;
}

enum eps_status eps__coins_make(struct eps__coins *coins, const double *gram, size_t len, size_t width, double p,
                                double error, double sigma)
{
    assert(len > 0 && width >= 1 && width <= len && p >= 0 && p <= 1 && sigma > 0);
    /* Two roundings of the quotient, the error, and what the comparison of both needs. */
    double square = sigma * sigma, units = error / EPS__UNIT_ROUNDOFF + 12, most = 0, lost = LOST / square;
    *coins = (struct eps__coins){.len = len, .width = width, .p = p, .gram = malloc(len * width * sizeof *gram)};
    double *beside = calloc(len, sizeof *beside);
    if (!coins->gram || !beside) {
        eps__coins_clear(coins);
        free(beside);
        return EPS_NO_MEMORY;
    }
    for (size_t i = 0; i < len; i++)
        for (size_t d = 0; d < width; d++) {
            double raised = d <= i ? eps__raise(gram[i * width + d] / square + lost, units) : 0;
            coins->gram[i * width + d] = raised;
            beside[i] += d > 0 && d <= i ? raised : 0;
            if (d > 0 && d <= i)
                beside[i - d] += raised;
        }
    for (size_t i = 0; i < len; i++)
        most = fmax(most, beside[i]);
    /* What the entries beside any were raised by, at most, twice over: the matrix stays one of inner products (L40). */
    double added = 4 * units * EPS__UNIT_ROUNDOFF * most + 8 * (double)width * lost;
    for (size_t i = 0; i < len; i++)
        coins->gram[i * width] = eps__raise(coins->gram[i * width] + added, 4);
    free(beside);
    for (size_t i = 0; i + 1 < width; i++) /* the first steps, so that they look like the others */
        memcpy(coins->gram + i * width + i + 1, coins->gram + (width - 1) * width + i + 1,
               (width - 1 - i) * sizeof *gram);
    for (size_t i = 0; i < len; i++)
        coins->changes += !alike(coins, i);
    return EPS_OK;
}

/* ------------------------------------------------------------ transitions */

/* From the copies that have each history to those a step later. */
struct transition {
    uint32_t from, to;
    eps__quad base, weight; /* the coins alone; and with what the copies are to each other */
};

struct walk {
    const struct eps__coins *coins;
    unsigned copies;
    size_t histories, states, len; /* 2^(width - 1); multisets of them; transitions */
    struct transition *items;
    size_t *places;                 /* [kind][j]: C(kind + j, j + 1) */
    uint16_t *times;                /* [transition][d]: pairs of copies that meet at a distance of d */
    eps__quad *powers;              /* e^{g n}: [d][n], n <= reach */
    size_t reach, meetings, enters; /* the most in times, in all times of one transition, transitions into one state */
    eps__quad *state, *next;
    double units; /* of one step */
};

/* Multisets of `copies` of so many kinds: C(copies + kinds - 1, copies). */
static double multisets(double kinds, unsigned copies)
{
    double count = 1;
    for (unsigned i = 1; i <= copies; i++)
        count = count * (kinds + i - 1) / i;
    return count;
}

/* The place of a multiset, given in rising order, among all of that size. */
static size_t place(const struct walk *walk, const unsigned *kinds)
{
    size_t sum = 0;
    for (unsigned j = 0; j < walk->copies; j++)
        sum += walk->places[kinds[j] * walk->copies + j];
    return sum;
}

static void sort(unsigned *numbers, unsigned len)
{
    for (unsigned i = 1; i < len; i++)
        for (unsigned j = i; j > 0 && numbers[j] < numbers[j - 1]; j--) {
            unsigned swapped = numbers[j];
            numbers[j] = numbers[j - 1];
            numbers[j - 1] = swapped;
        }
}

static eps__quad choose(unsigned n, unsigned k)
{
    eps__quad count = 1;
    for (unsigned i = 1; i <= k; i++)
        count = count * (n - k + i) / i;
    return count;
}

/* The copies' histories and coins, kind = 2 history + coin in rising order: what they weigh, and where they go. */
static void describe(struct walk *walk, size_t index, const unsigned *kinds, const eps__quad *coins)
{
    struct transition *item = &walk->items[index];
    unsigned old[ORDERS_MOST], young[ORDERS_MOST], took = 0, copies = walk->copies;
    uint16_t *times = walk->times + index * walk->coins->width;
    eps__quad ways = 1;
    for (unsigned j = 0, first = 0, taken = 0; j < copies; j++) {
        old[j] = kinds[j] >> 1;
        young[j] = kinds[j] & ((unsigned)walk->histories - 1);
        took += kinds[j] & 1;
        first = j > 0 && old[j] == old[j - 1] ? first : j;
        taken = (first == j ? 0 : taken) + (kinds[j] & 1);
        if (j + 1 == copies || kinds[j + 1] >> 1 != old[j])
            ways *= choose(j + 1 - first, taken); /* which of the alike took it */
    }
    size_t meetings = times[0] = (uint16_t)(took * (took - 1) / 2);
    for (size_t d = 1; d < walk->coins->width; d++) {
        unsigned before = 0, both = 0;
        for (unsigned j = 0; j < copies; j++) {
            unsigned then = kinds[j] >> d & 1;
            before += then;
            both += then & kinds[j];
        }
        times[d] = (uint16_t)(took * before - both); /* a copy does not meet itself */
        meetings += times[d];
        walk->reach = times[d] > walk->reach ? times[d] : walk->reach;
    }
    walk->reach = times[0] > walk->reach ? times[0] : walk->reach;
    walk->meetings = meetings > walk->meetings ? meetings : walk->meetings;
    item->from = (uint32_t)place(walk, old);
    sort(young, copies);
    item->to = (uint32_t)place(walk, young);
    item->base = ways * coins[took];
    assert(item->from < walk->states && item->to < walk->states);
}

/* The next in lexicographic order of the rising sequences of numbers under `kinds`. */
static bool next_rising(unsigned *numbers, unsigned len, unsigned kinds)
{
    for (unsigned j = len; j-- > 0;)
        if (numbers[j] + 1 < kinds) {
            unsigned up = numbers[j] + 1;
            for (; j < len; j++)
                numbers[j] = up;
            return true;
        }
    return false;
}

static void count_entries(struct walk *walk)
{
    memset(walk->next, 0, walk->states * sizeof *walk->next);
    for (size_t t = 0; t < walk->len; t++)
        walk->next[walk->items[t].to] += 1;
    for (size_t s = 0; s < walk->states; s++)
        walk->enters = (size_t)walk->next[s] > walk->enters ? (size_t)walk->next[s] : walk->enters;
}

static void walk_free(struct walk *walk)
{
    free(walk->items);
    free(walk->places);
    free(walk->times);
    free(walk->powers);
    free(walk->state);
    free(walk->next);
}

static enum eps_status walk_make(struct walk *walk, const struct eps__coins *coins, unsigned copies)
{
    eps__quad taking[ORDERS_MOST + 1], p = coins->p;
    unsigned kinds[ORDERS_MOST] = {0}, all = 1u << coins->width;
    assert(copies >= 1 && copies <= ORDERS_MOST && coins->width <= EPS__COINS_WIDTH_MAX);
    *walk = (struct walk){.coins = coins, .copies = copies, .histories = all / 2};
    walk->states = (size_t)multisets((double)walk->histories, copies);
    walk->len = (size_t)multisets(all, copies);
    walk->items = malloc(walk->len * sizeof *walk->items);
    walk->places = malloc(walk->histories * copies * sizeof *walk->places);
    walk->times = malloc(walk->len * coins->width * sizeof *walk->times);
    walk->state = calloc(walk->states, sizeof *walk->state);
    walk->next = calloc(walk->states, sizeof *walk->next);
    if (!walk->items || !walk->places || !walk->times || !walk->state || !walk->next)
        return EPS_NO_MEMORY;
    for (size_t kind = 0; kind < walk->histories; kind++)
        for (unsigned j = 0; j < copies; j++)
            walk->places[kind * copies + j] = kind > 0 ? (size_t)multisets((double)kind, j + 1) : 0;
    for (unsigned k = 0; k <= copies; k++) {
        taking[k] = 1;
        for (unsigned j = 0; j < copies; j++)
            taking[k] *= j < k ? p : 1 - p;
    }
    size_t index = 0;
    do
        describe(walk, index++, kinds, taking);
    while (next_rising(kinds, copies, all));
    assert(index == walk->len);
    walk->powers = malloc(coins->width * (walk->reach + 1) * sizeof *walk->powers);
    if (!walk->powers)
        return EPS_NO_MEMORY;
    count_entries(walk);
    walk->state[0] = 1; /* nobody took part before the first step */
    /* A power is of 6 units a factor, the coins of 2 each; a product a distance, a sum over what enters (L41). */
    walk->units =
        1.01 * (6 * (double)walk->meetings + 2 * (double)copies + (double)coins->width + 4 + (double)walk->enters);
    return EPS_OK;
}

/* ------------------------------------------------------------ steps */

static void weigh(struct walk *walk, size_t i)
{
    size_t width = walk->coins->width, row = walk->reach + 1;
    for (size_t d = 0; d < width; d++) {
        eps__quad once = expq((eps__quad)walk->coins->gram[i * width + d]), *powers = walk->powers + d * row;
        powers[0] = 1;
        for (size_t n = 1; n < row; n++)
            powers[n] = powers[n - 1] * once;
    }
    for (size_t t = 0; t < walk->len; t++) {
        eps__quad weight = walk->items[t].base;
        for (size_t d = 0; d < width; d++)
            if (walk->times[t * width + d] > 0)
                weight *= walk->powers[d * row + walk->times[t * width + d]];
        walk->items[t].weight = weight;
    }
}

static void step(struct walk *walk)
{
    memset(walk->next, 0, walk->states * sizeof *walk->next);
    for (size_t t = 0; t < walk->len; t++)
        walk->next[walk->items[t].to] += walk->items[t].weight * walk->state[walk->items[t].from];
    eps__quad *swapped = walk->state;
    walk->state = walk->next;
    walk->next = swapped;
}

/* Whether the last step multiplied every number by one factor, but for its rounding; *least: the least factor, *spread: the
 * units that the largest is above it. */
static bool settled(const struct walk *walk, eps__quad *least, double *spread)
{
    eps__quad low = INFINITY, high = 0;
    for (size_t s = 0; s < walk->states; s++) {
        if (walk->next[s] == 0 && walk->state[s] == 0)
            continue;
        eps__quad factor = walk->state[s] / walk->next[s]; /* the state before is in next */
        low = factor < low ? factor : low;
        high = factor > high ? factor : high;
        if (!(high - low <= walk->units * EPS__QUAD_ROUNDOFF * low))
            return false;
    }
    *least = low;
    *spread = (double)((high - low) / low / EPS__QUAD_ROUNDOFF);
    return low > 0 && finiteq(low);
}

static void scale(struct walk *walk, eps__quad factor, size_t times)
{
    eps__quad power = 1;
    for (; times > 0; times >>= 1) {
        if (times & 1)
            power *= factor;
        factor *= factor;
    }
    for (size_t s = 0; s < walk->states; s++)
        walk->state[s] *= power;
}

/* All steps; *units: what the sum over the states is off by. */
static enum eps_status run(const struct eps_context *context, struct walk *walk, eps__quad *sum, double *units)
{
    size_t len = walk->coins->len;
    *units = (double)walk->states;
    for (size_t i = 0, end; i < len; i = end) {
        for (end = i + 1; end < len && alike(walk->coins, end); end++)
            ;
        weigh(walk, i);
        for (size_t done = i; done < end;) {
            enum eps_status status = eps__poll(context);
            eps__quad factor;
            double spread;
            if (status != EPS_OK)
                return status;
            step(walk);
            done++;
            *units += walk->units;
            if (done < end && settled(walk, &factor, &spread)) {
                scale(walk, factor, end - done);
                *units += (double)(end - done) * (walk->units + spread + 8); /* (L42) */
                done = end;
            }
        }
    }
    *sum = 0;
    for (size_t s = 0; s < walk->states; s++)
        *sum += walk->state[s];
    return EPS_OK;
}

/* ------------------------------------------------------------ moments */

double eps__coins_operations(size_t len, size_t width, size_t changes, unsigned a)
{
    double transitions = multisets(ldexp(1, (int)width), a), settling = SETTLING + 4 * (double)width;
    double runs = (double)changes, steps = fmin((double)len, runs * settling);
    size_t blocks = 1 + changes / (2 * width);
    if (changes < len / 2 && steps > 2 * runs) /* one change a block is long, others are its ends */
        steps = fmin(steps, 2 * runs + (double)blocks * settling);
    return transitions * (BUILDING + a + runs * (double)(width + 1) + steps) + 1000;
}

/* The orders whose numbers quadruple precision holds and whose transitions are few. */
static unsigned most_of(const struct eps__coins *coins, double second, double operations, unsigned max_order)
{
    unsigned limit = max_order > 0 && max_order < ORDERS_MOST ? max_order : ORDERS_MOST, most = 1;
    double rarest = fmin(coins->p > 0 ? coins->p : 1, coins->p < 1 ? 1 - coins->p : 1), spent = 0;
    for (unsigned a = 2; a <= limit && coins->width <= EPS__COINS_WIDTH_MAX; a++) {
        spent += eps__coins_operations(coins->len, coins->width, coins->changes, a);
        if (spent > (a == 2 ? second : operations) || multisets(ldexp(1, (int)coins->width), a) > NUMBERS ||
            -log(rarest) * a * (double)coins->width > SMALLEST)
            break;
        most = a;
    }
    return most;
}

enum eps_status eps__coins_raw(const struct eps_context *context, eps__quad *raw, double *units,
                               const struct eps__coins *coins, unsigned most)
{
    enum eps_status status = EPS_OK;
    raw[0] = raw[1] = 1;
    *units = 0;
    for (unsigned a = 2; a <= most && status == EPS_OK; a++) {
        struct walk walk;
        double own = 0;
        raw[a] = (eps__quad)NAN;
        status = walk_make(&walk, coins, a);
        if (status == EPS_OK)
            status = run(context, &walk, &raw[a], &own);
        *units = fmax(*units, own);
        walk_free(&walk);
    }
    return status;
}

static enum eps_status orders_of(struct eps__orders *orders, const eps__quad *raw, unsigned most, double units)
{
    enum eps_status status = eps__orders_alloc(orders, most > 2 ? most : 2);
    for (unsigned a = 2; status == EPS_OK && a <= most; a++) {
        double log_moment = (double)logq(raw[a]), error = (units + 8) * (double)EPS__QUAD_ROUNDOFF;
        if (!finiteq(raw[a]))
            continue;
        orders->log_upper[a] = eps__shift(EPS__UPPER, log_moment, error);
        orders->log_lower[a] = eps__shift(EPS__LOWER, log_moment, error);
    }
    return status;
}

static enum eps_status laws_of(struct eps__laws *laws, const eps__quad *raw, unsigned most, double units)
{
    unsigned len = most < EPS__COINS_MOMENTS_MAX ? most : EPS__COINS_MOMENTS_MAX;
    laws->len = 0;
    if (len < 2)
        return EPS_OK;
    enum eps_status status = eps__moments_alloc(&laws->items[0], len);
    if (status != EPS_OK)
        return status;
    eps__moments_centre(&laws->items[0], raw, units);
    eps__moments_keep_known(&laws->items[0]);
    laws->len = 1;
    return EPS_OK;
}

enum eps_status eps__coins_moments(const struct eps_context *context, struct eps__orders *orders,
                                   struct eps__laws *laws, const struct eps__coins *coins, double second,
                                   double operations, unsigned max_order)
{
    eps__quad raw[ORDERS_MOST + 1];
    double units;
    unsigned most = most_of(coins, second, operations, max_order);
    enum eps_status status = eps__coins_raw(context, raw, &units, coins, most);
    if (status == EPS_OK && orders)
        status = orders_of(orders, raw, most, units);
    if (status == EPS_OK && laws) {
        status = laws_of(laws, raw, most, units);
        if (status != EPS_OK && orders)
            eps__orders_clear(orders);
    }
    return status;
}
