/*
 * The sums of b_min_sep.c for one kind of number: included by it once for each, with NUMBER the type, OF(name) a name of
 * its own, EXP its exponential function.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

struct OF(sums) {
    const struct layout *layout;
    NUMBER *weight; /* of each transition, at the step at hand */
    NUMBER *powers; /* e^{g t}: [d][t], t <= layout->reach */
    NUMBER *ring;   /* by step, of so many ahead: a number for each state */
    size_t slots;   /* one more than a transition may jump */
};

static void OF(clear)(struct OF(sums) * sums)
{
    free(sums->weight);
    free(sums->powers);
    free(sums->ring);
}

static enum eps_status OF(make)(struct OF(sums) * sums, const struct layout *layout)
{
    const struct eps__spaced *spaced = layout->spaced;
    *sums = (struct OF(sums)){.layout = layout, .slots = spaced->separation + 1};
    sums->weight = malloc(layout->len * sizeof *sums->weight);
    sums->powers = malloc(spaced->coins.width * (layout->reach + 1) * sizeof *sums->powers);
    sums->ring = calloc(sums->slots * layout->states, sizeof *sums->ring);
    return sums->weight && sums->powers && sums->ring ? EPS_OK : EPS_NO_MEMORY;
}

/* The weights at step i. */
static void OF(weigh)(struct OF(sums) * sums, size_t i)
{
    const struct layout *layout = sums->layout;
    const struct eps__coins *coins = &layout->spaced->coins;
    size_t row = layout->reach + 1;
    for (size_t d = 0; d < coins->width; d++) {
        NUMBER once = EXP((NUMBER)coins->gram[i * coins->width + d]), *powers = sums->powers + d * row;
        powers[0] = 1;
        for (size_t t = 1; t < row; t++)
            powers[t] = powers[t - 1] * once;
    }
    for (size_t t = 0; t < layout->len; t++) {
        const struct transition *item = &layout->items[t];
        const struct meeting *meeting = layout->meetings + t * layout->stride;
        NUMBER weight = (NUMBER)item->base;
        for (size_t m = 0; m < item->meetings; m++)
            weight *= sums->powers[meeting[m].distance * row + meeting[m].times];
        sums->weight[t] = weight;
    }
}

/* From step i, of which there were `len` transitions, to later ones. */
static void OF(step)(struct OF(sums) * sums, size_t i, size_t len)
{
    const struct layout *layout = sums->layout;
    size_t slot = i % sums->slots;
    NUMBER *now = sums->ring + slot * layout->states;
    for (size_t t = 0; t < len; t++) {
        const struct transition *item = &layout->items[t];
        size_t to = slot + item->jump;
        to -= to >= sums->slots ? sums->slots : 0;
        sums->ring[to * layout->states + item->to] += sums->weight[t] * now[item->from];
    }
    memset(now, 0, layout->states * sizeof *now);
}

/* E X^a, a the layout's copies. */
static enum eps_status OF(run)(const struct eps_context *context, const struct layout *layout, eps__quad *sum)
{
    struct OF(sums) sums;
    const struct eps__coins *coins = &layout->spaced->coins;
    enum eps_status status = OF(make)(&sums, layout);
    for (size_t s = 0; status == EPS_OK && s < layout->begins_len; s++) {
        const struct begin *begin = &layout->begins[s];
        sums.ring[begin->step * layout->states + begin->state] += (NUMBER)begin->weight;
    }
    for (size_t i = 0; status == EPS_OK && i < coins->len; i++) {
        if (i == 0 || memcmp(coins->gram + i * coins->width, coins->gram + (i - 1) * coins->width,
                             coins->width * sizeof *coins->gram) != 0)
            OF(weigh)(&sums, i);
        OF(step)(&sums, i, i < layout->spaced->separation ? layout->len : layout->lasting_len);
        status = eps__poll(context);
    }
    NUMBER all = 0;
    for (size_t s = 0; status == EPS_OK && s < sums.slots * layout->states; s++)
        all += sums.ring[s];
    *sum = (eps__quad)all;
    OF(clear)(&sums);
    return status;
}
