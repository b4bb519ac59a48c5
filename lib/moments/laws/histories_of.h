/*
 * The chain of histories.c for one type of number. histories.c includes this file once for each type: NUMBER is the
 * type, OF(name) makes a name for it, and UNIT is its unit roundoff.
 *
 * A state counts the copies with each history, a transition those with each history and participation. The weights of
 * transitions change only where the matrix or the probability does; otherwise a step is one product and one sum for
 * each transition.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

struct OF(walk) {
    const struct eps__histories *law;
    unsigned copies;
    struct eps__codes codes;
    size_t states;       /* multisets of `copies` histories */
    size_t len;          /* transitions: multisets of codes */
    uint32_t *from, *to; /* [transition]: the states before and after it */
    uint64_t *ways;      /* [transition]: which of the copies with each history take part; at most 2^copies */
    NUMBER *weight;      /* [transition]: its whole weight at the current step */
    size_t *places;      /* [history][j]: C(history + j, j + 1), for ranks of multisets */
    uint16_t *times;     /* [transition][d]: the number of pairs of copies that meet at distance d */
    uint8_t *took;       /* [transition]: the number of copies that take part in the step, */
    uint8_t *waits;      /* and of those that do or could */
    NUMBER *powers;      /* [d][n], n <= reach: e^{g n}, g the entry at distance d */
    double *row;         /* of the Gram matrix, at the current step */
    size_t reach;        /* the largest of `times` */
    size_t meetings;     /* the largest sum of `times` of a transition */
    size_t enters;       /* the largest number of transitions into one state */
    NUMBER *state, *next;
    double units; /* the rounding of one step, in units of roundoff */
    uint64_t choose[ORDERS_MOST + 1][ORDERS_MOST + 1];
};

/* The rank of a multiset of histories, given in ascending order. */
static size_t OF(place)(const struct OF(walk) *walk, const unsigned *histories)
{
    size_t sum = 0;
    for (unsigned j = 0; j < walk->copies; j++)
        sum += walk->places[histories[j] * walk->copies + j];
    assert(sum < walk->states);
    return sum;
}

/* Fills in a transition: `which` are the copies' codes, in ascending order. */
static void OF(describe)(struct OF(walk) *walk, size_t index, const unsigned *which)
{
    const struct eps__codes *codes = &walk->codes;
    unsigned old[ORDERS_MOST], young[ORDERS_MOST], took = 0, waits = 0, copies = walk->copies;
    size_t width = walk->law->banded->width, meetings;
    uint16_t *times = walk->times + index * width;
    uint64_t ways = 1;
    for (unsigned j = 0, first = 0, taken = 0; j < copies; j++) {
        const struct eps__code *code = &codes->items[which[j]];
        unsigned takes = (unsigned)(code->steps & 1);
        old[j] = code->old;
        young[j] = code->young;
        took += takes;
        waits += code->waits;
        first = j > 0 && old[j] == old[j - 1] ? first : j;
        taken = (first == j ? 0 : taken) + takes;
        if (j + 1 == copies || codes->items[which[j + 1]].old != old[j])
            ways *= walk->choose[j + 1 - first][taken];
    }
    meetings = times[0] = (uint16_t)(took * (took - 1) / 2);
    for (size_t d = 1; d < width; d++) {
        unsigned before = 0, both = 0;
        for (unsigned j = 0; j < copies; j++) {
            uint64_t steps = codes->items[which[j]].steps;
            unsigned then = (unsigned)(steps >> d & 1);
            before += then;
            both += then & (unsigned)(steps & 1);
        }
        times[d] = (uint16_t)(took * before - both); /* without the pairs of a copy with itself */
        meetings += times[d];
        walk->reach = times[d] > walk->reach ? times[d] : walk->reach;
    }
    walk->reach = times[0] > walk->reach ? times[0] : walk->reach;
    walk->meetings = meetings > walk->meetings ? meetings : walk->meetings;
    walk->from[index] = (uint32_t)OF(place)(walk, old);
    eps__multiset_sort(young, copies);
    walk->to[index] = (uint32_t)OF(place)(walk, young);
    walk->ways[index] = ways;
    walk->took[index] = (uint8_t)took;
    walk->waits[index] = (uint8_t)waits;
}

static void OF(count_entries)(struct OF(walk) *walk)
{
    memset(walk->next, 0, walk->states * sizeof *walk->next);
    for (size_t t = 0; t < walk->len; t++)
        walk->next[walk->to[t]] += 1;
    for (size_t s = 0; s < walk->states; s++)
        walk->enters = (size_t)walk->next[s] > walk->enters ? (size_t)walk->next[s] : walk->enters;
}

static void OF(walk_free)(struct OF(walk) *walk)
{
    eps__codes_free(&walk->codes);
    free(walk->from);
    free(walk->to);
    free(walk->weight);
    free(walk->places);
    free(walk->times);
    free(walk->took);
    free(walk->waits);
    free(walk->ways);
    free(walk->powers);
    free(walk->row);
    free(walk->state);
    free(walk->next);
}

static enum eps_status OF(walk_make)(const struct eps_context *context, struct OF(walk) *walk,
                                     const struct eps__histories *law, unsigned copies)
{
    unsigned which[ORDERS_MOST] = {0};
    size_t width = law->banded->width, index = 0;
    assert(copies >= 1 && copies <= ORDERS_MOST);
    *walk = (struct OF(walk)){.law = law, .copies = copies};
    if (!eps__codes_make(&walk->codes, width, law->separation))
        return EPS_NO_MEMORY;
    walk->states = (size_t)eps__multisets((double)walk->codes.histories, copies);
    walk->len = (size_t)eps__multisets((double)walk->codes.len, copies);
    walk->from = malloc(walk->len * sizeof *walk->from);
    walk->to = malloc(walk->len * sizeof *walk->to);
    walk->weight = malloc(walk->len * sizeof *walk->weight);
    walk->places = malloc(walk->codes.histories * copies * sizeof *walk->places);
    walk->times = malloc(walk->len * width * sizeof *walk->times);
    walk->took = malloc(walk->len * sizeof *walk->took);
    walk->waits = malloc(walk->len * sizeof *walk->waits);
    walk->ways = malloc(walk->len * sizeof *walk->ways);
    walk->row = malloc(width * sizeof *walk->row);
    walk->state = calloc(walk->states, sizeof *walk->state);
    walk->next = calloc(walk->states, sizeof *walk->next);
    if (!walk->from || !walk->to || !walk->weight || !walk->places || !walk->times || !walk->took || !walk->waits ||
        !walk->ways || !walk->row || !walk->state || !walk->next)
        return EPS_NO_MEMORY;
    for (size_t history = 0; history < walk->codes.histories; history++)
        for (unsigned j = 0; j < copies; j++)
            walk->places[history * copies + j] = history > 0 ? (size_t)eps__multisets((double)history, j + 1) : 0;
    for (unsigned k = 0; k <= copies; k++)
        for (unsigned j = 0; j <= k; j++)
            walk->choose[k][j] = j == 0 || j == k ? 1 : walk->choose[k - 1][j - 1] + walk->choose[k - 1][j];
    do {
        enum eps_status status = index % POLLED == 0 ? eps__poll(context) : EPS_OK;
        if (status != EPS_OK)
            return status;
        OF(describe)(walk, index++, which);
    } while (next_rising(which, copies, (unsigned)walk->codes.len));
    assert(index == walk->len);
    walk->powers = malloc(width * (walk->reach + 1) * sizeof *walk->powers);
    if (!walk->powers)
        return EPS_NO_MEMORY;
    OF(count_entries)(walk);
    walk->state[0] = 1; /* no copy took part before the first step */
    /* M18, M29: in quadruple precision a power has 6 units for each factor, and each copy's participation 12 units, or
     * 18 with a tilt (M27); each is rounded once to NUMBER. There are products for each distance, with the ways, the
     * tilt and the state, and a sum over the transitions that enter. */
    double told = 6 * (double)walk->meetings + (law->tilt ? 18 : 12) * (double)copies + 4;
    double products = (double)width + (law->tilt ? 2 : 1);
    walk->units = 1.01 * (told * (double)EPS__QUAD_ROUNDOFF / (double)UNIT + 2 * products + 4 + (double)walk->enters);
    return EPS_OK;
}

/* Sets the weights of all transitions at step i, leading steps counted. */
static void OF(weigh)(struct OF(walk) *walk, size_t i)
{
    const struct eps__histories *law = walk->law;
    size_t width = law->banded->width, row = walk->reach + 1, meets = 0;
    NUMBER taking[ORDERS_MOST + 1][ORDERS_MOST + 1]; /* [copies that wait][those of them that take part] */
    eps__histories_row(walk->row, law, i);
    for (size_t d = 0; d < width; d++) {
        eps__quad once = expq((eps__quad)walk->row[d]), power = 1;
        meets = walk->row[d] > 0 ? d + 1 : meets;
        for (size_t n = 0; n < row; n++, power *= once)
            walk->powers[d * row + n] = (NUMBER)power;
    }
    eps__quad p, never, tilted = expq(eps__histories_tilt(law, i));
    eps__histories_probability(&p, &never, law, i);
    for (unsigned waits = 0; waits <= walk->copies; waits++)
        for (unsigned took = 0; took <= waits; took++) {
            eps__quad product = 1;
            for (unsigned j = 0; j < waits; j++)
                product *= j < took ? p * tilted : never;
            taking[waits][took] = (NUMBER)product;
        }
    for (size_t t = 0; t < walk->len; t++) {
        NUMBER weight = (NUMBER)walk->ways[t] * taking[walk->waits[t]][walk->took[t]];
        for (size_t d = 0; walk->took[t] > 0 && d < meets; d++)
            if (walk->times[t * width + d] > 0)
                weight *= walk->powers[d * row + walk->times[t * width + d]];
        walk->weight[t] = weight;
    }
}

static void OF(step)(struct OF(walk) *walk)
{
    memset(walk->next, 0, walk->states * sizeof *walk->next);
    for (size_t t = 0; t < walk->len; t++)
        walk->next[walk->to[t]] += walk->weight[t] * walk->state[walk->from[t]];
    NUMBER *swapped = walk->state;
    walk->state = walk->next;
    walk->next = swapped;
}

/* Whether the last step multiplied every number by one factor, up to the rounding of a step. *least: the least factor;
 * *spread: by how many units the largest one exceeds it. */
static bool OF(converged)(const struct OF(walk) *walk, NUMBER *least, double *spread)
{
    NUMBER low = INFINITY, high = 0;
    for (size_t s = 0; s < walk->states; s++) {
        if (walk->next[s] == 0 && walk->state[s] == 0)
            continue;
        NUMBER factor = walk->state[s] / walk->next[s]; /* the state before is in next */
        low = factor < low ? factor : low;
        high = factor > high ? factor : high;
        if (!(high - low <= (NUMBER)walk->units * UNIT * low))
            return false;
    }
    *least = low;
    *spread = (double)((high - low) / low / UNIT);
    return low > 0 && finiteq((eps__quad)low);
}

/* Multiplies the state by factor^times. */
static void OF(scale)(struct OF(walk) *walk, NUMBER factor, size_t times)
{
    NUMBER power = 1;
    for (; times > 0; times >>= 1) {
        if (times & 1)
            power *= factor;
        factor *= factor;
    }
    for (size_t s = 0; s < walk->states; s++)
        walk->state[s] *= power;
}

/* Makes all steps. *sum: the sum over the states, within *units units of quadruple roundoff; unchanged if the chain was
 * given up. */
static enum eps_status OF(run)(const struct eps_context *context, struct OF(walk) *walk, eps__quad *sum, double *units)
{
    const struct eps__histories *law = walk->law;
    size_t len = eps__histories_steps(law);
    double patience = PATIENCE * steps_at(&OF(pace), law) + 1e6 / (double)walk->len;
    *units = (double)walk->states;
    for (size_t i = 0, end; i < len; i = end) {
        for (end = i + 1; end < len && eps__histories_alike(law, end);)
            end++;
        OF(weigh)(walk, i);
        for (size_t done = i; done < end;) {
            enum eps_status status = eps__poll(context);
            NUMBER factor;
            double spread;
            if (status != EPS_OK || patience-- < 0)
                return status;
            OF(step)(walk);
            done++;
            *units += walk->units;
            if (done < end && OF(converged)(walk, &factor, &spread)) {
                OF(scale)(walk, factor, end - done);
                *units += (double)(end - done) * (walk->units + spread + 8); /* (M19) */
                done = end;
            }
        }
    }
    *sum = 0;
    for (size_t s = 0; s < walk->states; s++)
        *sum += (eps__quad)walk->state[s];
    assert(*units * (double)UNIT < 1e-2); /* so that first-order error bounds are valid */
    *units *= (double)UNIT / (double)EPS__QUAD_ROUNDOFF;
    return EPS_OK;
}

/* *sum = E X^copies, with the tilt if there is one, within *units units of quadruple roundoff; unchanged if the chain
 * was given up. */
static enum eps_status OF(moment)(const struct eps_context *context, const struct eps__histories *law, unsigned copies,
                                  eps__quad *sum, double *units)
{
    struct OF(walk) walk;
    enum eps_status status = OF(walk_make)(context, &walk, law, copies);
    if (status == EPS_OK)
        status = OF(run)(context, &walk, sum, units);
    OF(walk_free)(&walk);
    return status;
}
