/*
 * The sums of b_min_sep.c for one type of number. b_min_sep.c includes this file once for each type: NUMBER is the
 * type, OF(name) makes a name for it, EXP is its exponential function and ROUNDOFF its unit roundoff.
 *
 * While steps are equal, the numbers soon grow only by a constant factor per step, and the remaining equal steps are a
 * power of it (M24).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

struct OF(sums) {
    const struct eps__b_min_sep_layout *layout;
    NUMBER *weight; /* of each transition, at the current step */
    NUMBER *powers; /* [d][t], t <= layout->reach: e^{g t}, g the entry at distance d */
    NUMBER *ring;   /* [slot][state]: the numbers of the current step and of those that a transition may reach */
    NUMBER *before; /* the ring before the last step */
    size_t slots;   /* separation + 1 */
    size_t shift;   /* step i is in slot (i + shift) mod slots */
};

static void OF(clear)(struct OF(sums) * sums)
{
    free(sums->weight);
    free(sums->powers);
    free(sums->ring);
    free(sums->before);
}

static enum eps_status OF(make)(struct OF(sums) * sums, const struct eps__b_min_sep_layout *layout)
{
    const struct eps__b_min_sep *b_min_sep = layout->b_min_sep;
    *sums = (struct OF(sums)){.layout = layout, .slots = b_min_sep->separation + 1};
    size_t numbers = sums->slots * layout->states;
    sums->weight = malloc(layout->len * sizeof *sums->weight);
    sums->powers = malloc(b_min_sep->banded.width * (layout->reach + 1) * sizeof *sums->powers);
    sums->ring = calloc(numbers, sizeof *sums->ring);
    sums->before = malloc(numbers * sizeof *sums->before);
    return sums->weight && sums->powers && sums->ring && sums->before ? EPS_OK : EPS_NO_MEMORY;
}

/* Sets the weights at step i. */
static void OF(weigh)(struct OF(sums) * sums, size_t i)
{
    const struct eps__b_min_sep_layout *layout = sums->layout;
    const struct eps__banded_gram *banded = &layout->b_min_sep->banded;
    size_t row = layout->reach + 1;
    for (size_t d = 0; d < banded->width; d++) {
        NUMBER once = EXP((NUMBER)banded->gram[i * banded->width + d]), *powers = sums->powers + d * row;
        powers[0] = 1;
        for (size_t t = 1; t < row; t++)
            powers[t] = powers[t - 1] * once;
    }
    for (size_t t = 0; t < layout->len; t++) {
        const struct eps__b_min_sep_meeting *meeting = layout->meetings + t * layout->stride;
        NUMBER weight = (NUMBER)layout->causes[t].base;
        for (size_t m = 0; m < layout->causes[t].meetings; m++)
            weight *= sums->powers[meeting[m].distance * row + meeting[m].times];
        sums->weight[t] = weight;
    }
}

/* The numbers of step i. */
static NUMBER *OF(at)(const struct OF(sums) * sums, size_t i)
{
    return sums->ring + (i + sums->shift) % sums->slots * sums->layout->states;
}

/* Moves the numbers of step i to later steps by the first `len` transitions. */
static void OF(step)(struct OF(sums) * sums, size_t i, size_t len)
{
    const struct eps__b_min_sep_layout *layout = sums->layout;
    size_t slot = (i + sums->shift) % sums->slots, states = layout->states;
    NUMBER *now = sums->ring + slot * states;
    for (size_t t = 0; t < len; t++) {
        struct eps__b_min_sep_transition item = layout->items[t];
        size_t to = slot + item.jump;
        to -= to >= sums->slots ? sums->slots : 0;
        sums->ring[to * states + item.to] += sums->weight[t] * now[item.from];
    }
    memset(now, 0, states * sizeof *now);
}

/*
 * Whether step i multiplied every number by one factor, up to `units` units of rounding. If so, *least is the least
 * factor and *spread by how many units the largest one exceeds it.
 */
static bool OF(converged)(const struct OF(sums) * sums, size_t i, double units, NUMBER *least, double *spread)
{
    NUMBER low = INFINITY, high = 0;
    size_t states = sums->layout->states;
    for (size_t ahead = 0; ahead < sums->layout->b_min_sep->separation; ahead++) {
        const NUMBER *before = sums->before + (i + ahead + sums->shift) % sums->slots * states;
        const NUMBER *after = OF(at)(sums, i + 1 + ahead);
        for (size_t s = 0; s < states; s++) {
            if (before[s] == 0 && after[s] == 0)
                continue;
            NUMBER factor = after[s] / before[s];
            low = factor < low ? factor : low;
            high = factor > high ? factor : high;
        }
        if (!(high - low <= units * ROUNDOFF * low))
            return false;
    }
    *least = low;
    *spread = (double)((high - low) / low / ROUNDOFF);
    return low > 0 && low < INFINITY;
}

/* Turns the numbers before step i into those before step `to`, multiplied by `factor` for each step between. */
static void OF(leap)(struct OF(sums) * sums, size_t i, size_t to, NUMBER factor)
{
    NUMBER power = 1;
    for (size_t times = to - i; times > 0; times >>= 1) {
        if (times & 1)
            power *= factor;
        factor *= factor;
    }
    for (size_t s = 0; s < sums->slots * sums->layout->states; s++)
        sums->ring[s] *= power;
    sums->shift += sums->slots - (to - i) % sums->slots;
}

/* Makes the equal steps from .. to - 1. Adds to *units the further rounding if a power was used. */
static enum eps_status OF(alike)(const struct eps_context *context, struct OF(sums) * sums, size_t from, size_t to,
                                 double *units)
{
    const struct eps__b_min_sep_layout *layout = sums->layout;
    size_t separation = layout->b_min_sep->separation, every = CONVERGING * separation;
    enum eps_status status = EPS_OK;
    OF(weigh)(sums, from);
    for (size_t i = from; i < to && status == EPS_OK; i++) {
        bool look = i >= separation && (i - from) % every == every - 1 && to - i > every;
        NUMBER factor;
        double spread, once = once_of(layout);
        if (look)
            memcpy(sums->before, sums->ring, sums->slots * layout->states * sizeof *sums->ring);
        OF(step)(sums, i, i < separation ? layout->len : layout->lasting_len);
        if (look && OF(converged)(sums, i, once, &factor, &spread)) {
            OF(leap)(sums, i + 1, to, factor);
            *units += (double)(to - i) * (spread + 8);
            return EPS_OK;
        }
        status = eps__poll(context);
    }
    return status;
}

/* *sum = E X^a, a the copies of the layout, within *units units of roundoff of NUMBER. */
static enum eps_status OF(run)(const struct eps_context *context, const struct eps__b_min_sep_layout *layout,
                               eps__quad *sum, double *units)
{
    struct OF(sums) sums;
    const struct eps__banded_gram *banded = &layout->b_min_sep->banded;
    enum eps_status status = OF(make)(&sums, layout);
    *units = units_of(layout);
    for (size_t s = 0; status == EPS_OK && s < layout->begins_len; s++) {
        const struct eps__b_min_sep_begin *begin = &layout->begins[s];
        OF(at)(&sums, begin->step)[begin->state] += (NUMBER)begin->weight;
    }
    for (size_t i = 0, end; status == EPS_OK && i < banded->len; i = end) {
        end = eps__banded_alike(banded, i);
        status = OF(alike)(context, &sums, i, end, units);
    }
    NUMBER all = 0;
    for (size_t s = 0; status == EPS_OK && s < sums.slots * layout->states; s++)
        all += sums.ring[s];
    *sum = (eps__quad)all;
    OF(clear)(&sums);
    return status;
}
