/*
 * The chain of poisson.c for one type of number. poisson.c includes this file once for each type: NUMBER is the type,
 * OF(name) makes a name for it, and UNIT is its unit roundoff.
 *
 * A state counts the copies with each history, a transition those with each history and participation. The weights of
 * transitions change only where the matrix does; otherwise a step is one product and one sum for each transition.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

struct OF(walk) {
    const struct eps__banded_gram *banded;
    const eps__quad *tilt; /* [step], or NULL (M27) */
    unsigned copies;
    size_t histories;              /* 2^(width - 1) */
    size_t states;                 /* multisets of `copies` histories */
    size_t len;                    /* transitions */
    uint32_t *from, *to;           /* [transition]: the states before and after it */
    NUMBER *base;                  /* [transition]: its weight without the Gram matrix: ways times probability */
    NUMBER *weight;                /* [transition]: its whole weight at the current step */
    size_t *places;                /* [history][j]: C(history + j, j + 1), for ranks of multisets */
    uint16_t *times;               /* [transition][d]: the number of pairs of copies that meet at distance d */
    uint8_t *took;                 /* [transition]: the number of copies that take part in the step */
    NUMBER *powers;                /* [d][n], n <= reach: e^{g n}, g the entry at distance d */
    size_t reach;                  /* the largest of `times` */
    size_t meetings;               /* the largest sum of `times` of a transition */
    size_t enters;                 /* the largest number of transitions into one state */
    NUMBER tilts[ORDERS_MOST + 1]; /* [n]: e^{tilt n} */
    NUMBER *state, *next;
    double units; /* the rounding of one step, in units of roundoff */
    uint64_t choose[ORDERS_MOST + 1][ORDERS_MOST + 1];
};

/* The rank of a multiset of histories, given in ascending order. */
static size_t OF(place)(const struct OF(walk) *walk, const unsigned *codes)
{
    size_t sum = 0;
    for (unsigned j = 0; j < walk->copies; j++)
        sum += walk->places[codes[j] * walk->copies + j];
    return sum;
}

/* Fills in a transition. codes[j] = 2 history + (1 if the copy takes part in this step), in ascending order. taking[s]:
 * the probability that s given copies take part and the others do not. */
static void OF(describe)(struct OF(walk) *walk, size_t index, const unsigned *codes, const NUMBER *taking)
{
    unsigned old[ORDERS_MOST], young[ORDERS_MOST], took = 0, copies = walk->copies;
    uint16_t *times = walk->times + index * walk->banded->width;
    uint64_t ways = 1; /* at most 2^copies */
    for (unsigned j = 0, first = 0, taken = 0; j < copies; j++) {
        old[j] = codes[j] >> 1;
        young[j] = codes[j] & ((unsigned)walk->histories - 1);
        took += codes[j] & 1;
        first = j > 0 && old[j] == old[j - 1] ? first : j;
        taken = (first == j ? 0 : taken) + (codes[j] & 1);
        if (j + 1 == copies || codes[j + 1] >> 1 != old[j])
            ways *= walk->choose[j + 1 - first][taken]; /* which of the copies with this history take part */
    }
    size_t meetings = times[0] = (uint16_t)(took * (took - 1) / 2);
    for (size_t d = 1; d < walk->banded->width; d++) {
        unsigned before = 0, both = 0;
        for (unsigned j = 0; j < copies; j++) {
            unsigned then = codes[j] >> d & 1;
            before += then;
            both += then & codes[j];
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
    walk->base[index] = (NUMBER)ways * taking[took];
    walk->took[index] = (uint8_t)took;
    assert(walk->from[index] < walk->states && walk->to[index] < walk->states);
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
    free(walk->from);
    free(walk->to);
    free(walk->weight);
    free(walk->places);
    free(walk->times);
    free(walk->took);
    free(walk->base);
    free(walk->powers);
    free(walk->state);
    free(walk->next);
}

static enum eps_status OF(walk_make)(const struct eps_context *context, struct OF(walk) *walk,
                                     const struct eps__banded_gram *banded, const eps__quad *tilt, unsigned copies)
{
    NUMBER taking[ORDERS_MOST + 1];
    unsigned codes[ORDERS_MOST] = {0}, all = 1u << banded->width;
    assert(copies >= 1 && copies <= ORDERS_MOST && banded->width <= EPS__POISSON_WIDTH_MAX);
    *walk = (struct OF(walk)){.banded = banded, .tilt = tilt, .copies = copies, .histories = all / 2};
    walk->states = (size_t)eps__multisets((double)walk->histories, copies);
    walk->len = (size_t)eps__multisets(all, copies);
    walk->from = malloc(walk->len * sizeof *walk->from);
    walk->to = malloc(walk->len * sizeof *walk->to);
    walk->weight = malloc(walk->len * sizeof *walk->weight);
    walk->places = malloc(walk->histories * copies * sizeof *walk->places);
    walk->times = malloc(walk->len * banded->width * sizeof *walk->times);
    walk->took = malloc(walk->len * sizeof *walk->took);
    walk->base = malloc(walk->len * sizeof *walk->base);
    walk->state = calloc(walk->states, sizeof *walk->state);
    walk->next = calloc(walk->states, sizeof *walk->next);
    if (!walk->from || !walk->to || !walk->weight || !walk->places || !walk->times || !walk->took || !walk->base ||
        !walk->state || !walk->next)
        return EPS_NO_MEMORY;
    for (size_t history = 0; history < walk->histories; history++)
        for (unsigned j = 0; j < copies; j++)
            walk->places[history * copies + j] = history > 0 ? (size_t)eps__multisets((double)history, j + 1) : 0;
    for (unsigned k = 0; k <= copies; k++) {
        eps__quad product = 1, p = banded->p;
        for (unsigned j = 0; j < copies; j++)
            product *= j < k ? p : 1 - p;
        taking[k] = (NUMBER)product;
        for (unsigned j = 0; j <= k; j++)
            walk->choose[k][j] = j == 0 || j == k ? 1 : walk->choose[k - 1][j - 1] + walk->choose[k - 1][j];
    }
    size_t index = 0;
    do {
        enum eps_status status = index % POLLED == 0 ? eps__poll(context) : EPS_OK;
        if (status != EPS_OK)
            return status;
        OF(describe)(walk, index++, codes, taking);
    } while (next_rising(codes, copies, all));
    assert(index == walk->len);
    walk->powers = malloc(banded->width * (walk->reach + 1) * sizeof *walk->powers);
    if (!walk->powers)
        return EPS_NO_MEMORY;
    OF(count_entries)(walk);
    walk->state[0] = 1; /* no copy took part before the first step */
    /* M18: in quadruple precision a power has 6 units for each factor, and each copy's participation 2, or 8 with
     * a tilt; each is rounded once to NUMBER. There are products for each distance, with the tilt and with the state,
     * and a sum over the transitions that enter. */
    double told = 6 * (double)walk->meetings + (tilt ? 8 : 2) * (double)copies + 4;
    double width = (double)banded->width + (tilt ? 1 : 0);
    walk->units = 1.01 * (told * (double)EPS__QUAD_ROUNDOFF / (double)UNIT + 2 * width + 4 + (double)walk->enters);
    return EPS_OK;
}

/* Sets the weights of all transitions at step i. */
static void OF(weigh)(struct OF(walk) *walk, size_t i)
{
    size_t width = walk->banded->width, row = walk->reach + 1;
    for (size_t d = 0; d < width; d++) {
        eps__quad once = expq((eps__quad)walk->banded->gram[i * width + d]), power = 1;
        for (size_t n = 0; n < row; n++, power *= once)
            walk->powers[d * row + n] = (NUMBER)power;
    }
    eps__quad tilted = walk->tilt ? expq(walk->tilt[i]) : 1, tilts = 1;
    for (unsigned n = 0; n <= walk->copies; n++, tilts *= tilted)
        walk->tilts[n] = (NUMBER)tilts;
    for (size_t t = 0; t < walk->len; t++) {
        NUMBER weight = walk->base[t] * walk->tilts[walk->took[t]];
        for (size_t d = 0; d < width; d++)
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
    const struct eps__banded_gram *banded = walk->banded;
    size_t len = banded->len;
    double patience = PATIENCE * steps_at(&OF(pace), len, banded->width, banded->changes) + 1e6 / (double)walk->len;
    *units = (double)walk->states;
    for (size_t i = 0, end; i < len; i = end) {
        end = eps__banded_alike(banded, i);
        for (size_t j = i + 1; walk->tilt && j < end; j++)
            end = walk->tilt[j] == walk->tilt[i] ? end : j;
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
static enum eps_status OF(moment)(const struct eps_context *context, const struct eps__banded_gram *banded,
                                  const eps__quad *tilt, unsigned copies, eps__quad *sum, double *units)
{
    struct OF(walk) walk;
    enum eps_status status = OF(walk_make)(context, &walk, banded, tilt, copies);
    if (status == EPS_OK)
        status = OF(run)(context, &walk, sum, units);
    OF(walk_free)(&walk);
    return status;
}
