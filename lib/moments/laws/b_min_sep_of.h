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
    double *row;     /* of the Gram matrix, at the current step */
    eps__quad *base; /* [drawing] */
    bool based;      /* base is set */
    NUMBER *own;     /* [drawing]: its weight without other copies */
    NUMBER *powers;  /* [d][t], t <= examples: e^{g t}, g the entry at distance d */
    NUMBER *meets;   /* [stage]: the factor of a copy in it, for one example that is drawn */
    NUMBER *met;     /* [state]: e to the tilt and the sum over copies that sit out, for one example that is drawn */
    NUMBER *power;   /* [t], t <= reach: powers of met */
    NUMBER *ring;    /* [slot][state]: the sums from a step on, of the last `slots` steps */
    NUMBER *before;  /* the ring before the last step */
    NUMBER **ahead;  /* [jump], jump < slots: the sums from so many steps after the current one on */
    size_t slots;    /* separation + 1 */
    size_t shift;    /* step i is in slot (i + shift) mod slots */
};

static void OF(clear)(struct OF(sums) *sums)
{
    free(sums->row);
    free(sums->base);
    free(sums->own);
    free(sums->powers);
    free(sums->meets);
    free(sums->met);
    free(sums->power);
    free(sums->ring);
    free(sums->before);
    free((void *)sums->ahead);
}

static enum eps_status OF(make)(struct OF(sums) *sums, const struct eps__b_min_sep_layout *layout)
{
    const struct eps__b_min_sep *b_min_sep = layout->b_min_sep;
    *sums = (struct OF(sums)){.layout = layout, .slots = b_min_sep->separation + 1};
    size_t numbers = sums->slots * layout->states;
    sums->row = malloc(b_min_sep->banded.width * sizeof *sums->row);
    sums->base = malloc(layout->drawings_len * sizeof *sums->base);
    sums->own = malloc(layout->drawings_len * sizeof *sums->own);
    sums->powers = malloc(b_min_sep->banded.width * (b_min_sep->examples + 1) * sizeof *sums->powers);
    sums->meets = malloc(layout->stages.len * sizeof *sums->meets);
    sums->met = malloc(layout->states * sizeof *sums->met);
    sums->power = malloc((layout->reach + 1) * sizeof *sums->power);
    sums->ring = malloc(numbers * sizeof *sums->ring);
    sums->before = malloc(numbers * sizeof *sums->before);
    sums->ahead = (NUMBER **)malloc(sums->slots * sizeof *sums->ahead);
    if (!sums->row || !sums->base || !sums->own || !sums->powers || !sums->meets || !sums->met || !sums->power ||
        !sums->ring || !sums->before || !sums->ahead)
        return EPS_NO_MEMORY;
    for (size_t s = 0; s < numbers; s++)
        sums->ring[s] = 1;
    return EPS_OK;
}

/* x^times: at most 2 units of rounding for each factor x. */
static NUMBER OF(raise)(NUMBER x, size_t times)
{
    NUMBER power = 1;
    for (; times > 0; times >>= 1, x *= x)
        if (times & 1)
            power *= x;
    return power;
}

/* Prepares the weights of step i. */
static void OF(weigh)(struct OF(sums) *sums, size_t i)
{
    const struct eps__b_min_sep_layout *layout = sums->layout;
    size_t width = layout->stages.width, terms = layout->stages.examples + 1;
    eps__b_min_sep_row(sums->row, layout, i);
    if (i <= layout->lead || !sums->based) /* at all steps but the leading ones they are the same */
        eps__b_min_sep_bases(sums->base, layout, i);
    sums->based = true;
    for (size_t d = 0; d < width; d++) {
        NUMBER once = EXP((NUMBER)sums->row[d]), *powers = sums->powers + d * terms;
        powers[0] = 1;
        for (size_t t = 1; t < terms; t++)
            powers[t] = powers[t - 1] * once;
    }
    for (size_t at = 0; at < layout->drawings_len; at++)
        sums->own[at] = (NUMBER)sums->base[at] * OF(raise)(sums->powers[1], layout->drawings[at].together);
    NUMBER tilted = EXP((NUMBER)eps__b_min_sep_tilt(layout, i));
    for (uint32_t stage = 0; stage < layout->stages.len; stage++) {
        size_t distance, examples = eps__b_min_sep_last(&layout->stages, stage, &distance);
        sums->meets[stage] = sums->powers[distance * terms + examples];
    }
    for (size_t s = 0; s < layout->states; s++) {
        const uint32_t *others = layout->others + s * (layout->copies - 1);
        NUMBER met = tilted;
        for (unsigned c = layout->waiting[s]; c < layout->copies; c++)
            met *= sums->meets[*others++];
        sums->met[s] = met;
    }
}

/* The numbers of step i. */
static NUMBER *OF(at)(const struct OF(sums) *sums, size_t i)
{
    return sums->ring + (i + sums->shift) % sums->slots * sums->layout->states;
}

/* Makes the numbers of step i from those of later steps. */
static void OF(step)(struct OF(sums) *sums, size_t i)
{
    const struct eps__b_min_sep_layout *layout = sums->layout;
    const struct eps__b_min_sep_transition *item = layout->items;
    NUMBER *now = OF(at)(sums, i), *power = sums->power;
    bool one = layout->stages.examples == 1; /* a copy that waits alone has two drawings: none and its example */
    const size_t alone = layout->drawings_at[1];
    const NUMBER stays = sums->own[alone], leaves = sums->own[alone + 1];
    for (size_t jump = 0; jump < sums->slots; jump++)
        sums->ahead[jump] = OF(at)(sums, i + jump);
    power[0] = 1;
    for (size_t s = 0; s < layout->states; s++) {
        unsigned waiting = layout->waiting[s];
        size_t at = layout->drawings_at[waiting], end = layout->drawings_at[waiting + 1];
        NUMBER sum = 0;
        if (one && waiting == 1) { /* what the loop below would do, for most states */
            sum = stays * sums->ahead[item[0].jump][item[0].to];
            sum += leaves * sums->met[s] * sums->ahead[item[1].jump][item[1].to];
            item += 2;
            now[s] = sum;
            continue;
        }
        for (size_t t = 1; t <= waiting * layout->stages.examples; t++)
            power[t] = power[t - 1] * sums->met[s];
        for (; at < end; at++, item++)
            sum += sums->own[at] * power[layout->drawings[at].all] * sums->ahead[item->jump][item->to];
        now[s] = sum;
    }
}

/*
 * Whether step i multiplied every number by one factor, up to `units` units of rounding. If so, *least is the least
 * factor and *spread by how many units the largest one exceeds it.
 */
static bool OF(converged)(const struct OF(sums) *sums, size_t i, double units, NUMBER *least, double *spread)
{
    NUMBER low = INFINITY, high = 0;
    size_t states = sums->layout->states;
    for (size_t ahead = 0; ahead < sums->layout->stages.separation; ahead++) {
        const NUMBER *before = sums->before + (i + 1 + ahead + sums->shift) % sums->slots * states;
        const NUMBER *after = OF(at)(sums, i + ahead);
        for (size_t s = 0; s < states; s++) {
            NUMBER factor = after[s] / before[s];
            low = factor < low ? factor : low;
            high = factor > high ? factor : high;
        }
        if (!(high - low <= units * ROUNDOFF * low))
            return false;
    }
    *least = low;
    *spread = (double)((high - low) / low / ROUNDOFF);
    return low > 0 && high < INFINITY;
}

/* Turns the numbers of step i and the later ones into those of step `to` < i, multiplied by `factor` for each step
 * between. */
static void OF(leap)(struct OF(sums) *sums, size_t i, size_t to, NUMBER factor)
{
    NUMBER power = OF(raise)(factor, i - to);
    for (size_t s = 0; s < sums->slots * sums->layout->states; s++)
        sums->ring[s] *= power;
    sums->shift += i - to;
}

/* Makes the equal steps from - 1, from - 2, ..., to. Adds to *units the further rounding if a power was used. */
static enum eps_status OF(alike)(const struct eps_context *context, struct OF(sums) *sums, size_t from, size_t to,
                                 double *units)
{
    const struct eps__b_min_sep_layout *layout = sums->layout;
    size_t every = CONVERGING * layout->stages.separation;
    enum eps_status status = EPS_OK;
    OF(weigh)(sums, to);
    for (size_t i = from; i-- > to && status == EPS_OK;) {
        bool look = (from - i) % every == 0 && i - to > every;
        NUMBER factor;
        double spread, once = once_of(layout);
        if (look)
            memcpy(sums->before, sums->ring, sums->slots * layout->states * sizeof *sums->ring);
        OF(step)(sums, i);
        if (look && OF(converged)(sums, i, once, &factor, &spread)) {
            OF(leap)(sums, i, to, factor);
            *units += (double)(i - to) * (spread + 8);
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
    enum eps_status status = OF(make)(&sums, layout);
    *units = units_of(layout);
    for (size_t i = layout->steps, to; status == EPS_OK && i > 0; i = to) {
        for (to = i - 1; to > 0 && eps__b_min_sep_alike(layout, to);)
            to--;
        status = OF(alike)(context, &sums, i, to, units);
    }
    *sum = status == EPS_OK ? (eps__quad)OF(at)(&sums, 0)[0] : NAN;
    OF(clear)(&sums);
    return status;
}
