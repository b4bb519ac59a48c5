/*
 * See b_min_sep_draws.h. A transition is drawn with its share of the computed sum at its state. The shares add up to 1
 * whatever the errors of the sums are, and a draw's probability is close to the exact one (M26).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/moments/laws/b_min_sep_draws.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <sleef.h>

#include "lib/base/error.h"
#include "lib/moments/laws/multisets.h"
#include "lib/numerics/bound.h"
#include "lib/base/progress.h"

#define BYTES_MAX 67108864.0
#define SMALLEST 0x1p-600 /* the least sum of a row, as a multiple of its largest */
#define INACCURATE 1e-4   /* log_density_error must be below this */
#define FINE 0x1p-4       /* a uniform number below this is replaced by FINE times another one */

/* ------------------------------------------------------------ tables */

/* The number of states without a history before the first step. They come first in the order of multisets.h. */
static double lasting_of(const struct eps__b_min_sep_stages *stages, unsigned copies)
{
    return eps__multisets((double)stages->virtual_, copies - 1);
}

double eps__b_min_sep_draws_bytes(const struct eps__b_min_sep *b_min_sep, unsigned copies)
{
    struct eps__b_min_sep_stages stages = eps__b_min_sep_stages_of(b_min_sep);
    double n = (double)b_min_sep->banded.len, b = (double)b_min_sep->separation,
           states = eps__multisets((double)stages.len, copies - 1);
    double rows = fmin(n, b) * states + fmax(n - b, 0) * lasting_of(&stages, copies);
    double transitions = eps__b_min_sep_transitions((double)stages.len, 1, copies);
    double begins = b_min_sep->warm ? eps__multisets(b, copies) : 1;
    double bytes = 8 * rows + transitions * (80 + 8.0 * copies) + states * 8 + begins * 64 + 4 * n;
    bool served = copies >= 2 && copies <= EPS__B_MIN_SEP_DRAWN_MAX && b_min_sep->examples == 1;
    return served && bytes <= BYTES_MAX ? bytes : INFINITY;
}

/* The sums of the states at step i < n. */
static double *row_of(const struct eps__b_min_sep_draws *draws, size_t i)
{
    size_t b = draws->b_min_sep.separation, states = draws->layout.states;
    if (i < b)
        return draws->sums + i * states;
    return draws->sums + b * states + (i - b) * draws->lasting;
}

/* The sum of a state from step i on, without the factor 2^exponent[i]. */
static double sum_at(const struct eps__b_min_sep_draws *draws, size_t i, size_t state)
{
    return i < draws->b_min_sep.banded.len ? row_of(draws, i)[state] : 1;
}

/* Whether the state can occur at step i. A history before the first step ends before step `separation`. */
static bool there_is(const struct eps__b_min_sep_draws *draws, size_t i, size_t state)
{
    return draws->history[state] == 0 || i + draws->history[state] < draws->b_min_sep.separation;
}

/* The weight of transition t at step i. */
static double weight_of(const struct eps__b_min_sep_draws *draws, size_t i, size_t t)
{
    const struct eps__b_min_sep_meeting *meeting = draws->layout.meetings + t * draws->layout.stride;
    const double *gram = draws->b_min_sep.banded.gram + i * draws->b_min_sep.banded.width;
    double sum = 0;
    if (draws->layout.causes[t].meetings == 0)
        return draws->base[t];
    for (size_t m = 0; m < draws->layout.causes[t].meetings; m++)
        sum += meeting[m].times * gram[meeting[m].distance];
    return draws->base[t] * Sleef_cinz_expd1_u10purec(sum);
}

/* The step to which transition t leads from step i, at most n. */
static size_t arrival(const struct eps__b_min_sep_draws *draws, size_t i, size_t t)
{
    size_t to = i + draws->layout.items[t].jump;
    return to < draws->b_min_sep.banded.len ? to : draws->b_min_sep.banded.len;
}

/* Fills in first, base and history. Every state has transitions, and they are in the order of the states. */
static void index_states(struct eps__b_min_sep_draws *draws)
{
    const struct eps__b_min_sep_layout *layout = &draws->layout;
    const struct eps__b_min_sep_stages *stages = &layout->stages;
    size_t state = 0;
    for (size_t t = 0; t < layout->len; t++) {
        draws->base[t] = (double)layout->causes[t].base;
        if (t == 0 || layout->items[t].from != layout->items[t - 1].from)
            draws->first[state++] = (uint32_t)t;
        assert(layout->items[t].from == state - 1);
    }
    assert(state == layout->states);
    draws->first[state] = (uint32_t)layout->len;
    unsigned copies[EPS__B_MIN_SEP_COPIES_MAX] = {0};
    state = 0;
    do {
        unsigned last = layout->copies > 1 ? copies[layout->copies - 2] : 0;
        draws->history[state++] = last >= stages->virtual_ ? (uint32_t)(last - stages->virtual_ + stages->meeting) : 0;
    } while (eps__multiset_next(copies, layout->copies - 1, (unsigned)stages->len));
    assert(state == layout->states);
}

/*
 * The least shares, for M26. events: of all transitions that draw some copy, in the sum of their state. one: of a
 * transition in the sum of those that draw at least as many copies.
 */
struct shares {
    double events, one;
};

/* The sum of a state at step i, over its transitions, from the rows of later steps. Lowers *least. */
static double sum_of(const struct eps__b_min_sep_draws *draws, size_t i, size_t state, const double *weight,
                     const double *scale, struct shares *least)
{
    double events = 0, stays = 0;
    for (size_t t = draws->first[state + 1]; t-- > draws->first[state];) {
        const struct eps__b_min_sep_transition *item = &draws->layout.items[t];
        double part = weight[t] * (sum_at(draws, arrival(draws, i, t), item->to) * scale[item->jump]);
        if (t == draws->first[state]) {
            stays = part;
        } else if (part > 0) {
            events += part;
            least->one = fmin(least->one, part / events);
        }
    }
    least->events = fmin(least->events, events / (events + stays));
    return events + stays;
}

/* Makes row i from the later rows and the weights at step i. False if a number leaves the range. */
static bool make_row(struct eps__b_min_sep_draws *draws, size_t i, const double *weight, double *scale,
                     struct shares *least)
{
    size_t n = draws->b_min_sep.banded.len;
    size_t states = i < draws->b_min_sep.separation ? draws->layout.states : draws->lasting;
    bool inside = true;
    double *row = row_of(draws, i), largest = 0, smallest = INFINITY;
    for (size_t jump = 1; jump <= draws->b_min_sep.separation; jump++)
        scale[jump] = ldexp(1, draws->exponent[i + jump < n ? i + jump : n] - draws->exponent[i + 1]);
    for (size_t s = 0; s < states; s++) {
        row[s] = 0;
        if (!there_is(draws, i, s))
            continue;
        row[s] = sum_of(draws, i, s, weight, scale, least);
        inside &= row[s] > 0 && row[s] < INFINITY;
        largest = fmax(largest, row[s]);
        smallest = fmin(smallest, row[s]);
    }
    int shift;
    (void)frexp(largest, &shift);
    for (size_t s = 0; s < states; s++)
        row[s] = ldexp(row[s], -shift);
    draws->exponent[i] = draws->exponent[i + 1] + shift;
    return inside && smallest >= SMALLEST * largest;
}

static enum eps_status make_rows(const struct eps_context *context, struct eps__b_min_sep_draws *draws,
                                 struct shares *least)
{
    const struct eps__banded_gram *banded = &draws->b_min_sep.banded;
    double *weight = malloc(draws->layout.len * sizeof *weight);
    double *scale = malloc((draws->b_min_sep.separation + 1) * sizeof *scale);
    enum eps_status status = weight && scale ? EPS_OK : EPS_NO_MEMORY;
    draws->exponent[banded->len] = 0;
    for (size_t i = banded->len; status == EPS_OK && i-- > 0;) {
        const double *gram = banded->gram + i * banded->width;
        if (i + 1 == banded->len || memcmp(gram, gram + banded->width, banded->width * sizeof *gram) != 0)
            for (size_t t = 0; t < draws->layout.len; t++)
                weight[t] = weight_of(draws, i, t);
        if (!make_row(draws, i, weight, scale, least))
            status = EPS_UNSUPPORTED;
        else
            status = eps__poll(context);
    }
    free(weight);
    free(scale);
    return status;
}

/* The weight of a first state times its sum, without the factor 2^exponent[0]. */
static double begin_of(const struct eps__b_min_sep_draws *draws, size_t index)
{
    const struct eps__b_min_sep_begin *begin = &draws->layout.begins[index];
    size_t n = draws->b_min_sep.banded.len, step = begin->step < n ? begin->step : n;
    return (double)begin->weight * ldexp(sum_at(draws, step, begin->state), draws->exponent[step] - draws->exponent[0]);
}

struct begun {
    double weight;
    uint32_t index;
};

static int rising(const void *a, const void *b)
{
    const struct begun *first = a, *second = b;
    if (first->weight != second->weight)
        return first->weight < second->weight ? -1 : 1;
    return first->index < second->index ? -1 : first->index > second->index;
}

/* Makes the table of first states, and Z. */
static enum eps_status make_begins(struct eps__b_min_sep_draws *draws)
{
    size_t len = draws->layout.begins_len;
    struct begun *begun = malloc(len * sizeof *begun);
    if (!begun)
        return EPS_NO_MEMORY;
    for (size_t s = 0; s < len; s++)
        begun[s] = (struct begun){begin_of(draws, s), (uint32_t)s};
    qsort(begun, len, sizeof *begun, rising);
    double sum = 0;
    for (size_t s = 0; s < len; s++) {
        sum += begun[s].weight;
        draws->order[s] = begun[s].index;
        draws->begun[s] = sum;
    }
    free(begun);
    draws->log_z = Sleef_cinz_logd1_u10purec(sum) + draws->exponent[0] * M_LN2;
    return EPS_OK;
}

/* Sets log_z_error (M25) and log_density_error (M26). */
static void count_errors(struct eps__b_min_sep_draws *draws, double gram_units, struct shares least)
{
    const struct eps__b_min_sep_layout *layout = &draws->layout;
    const struct eps__banded_gram *banded = &draws->b_min_sep.banded;
    double largest = 0, n = (double)banded->len, copies = layout->copies, events = (double)draws->most;
    for (size_t i = 0; i < banded->len * banded->width; i++)
        largest = fmax(largest, banded->gram[i]);
    double weights = 6 + (gram_units + copies + 2) * (double)layout->most * largest;
    double sums = n * (copies + 8) + events * weights + (double)layout->begins_len + 8;
    double shares =
        n * 8 + events * (copies + 40) * (1 / least.events + 1 / least.one) + 41 * (double)layout->begins_len;
    draws->log_z_error = eps__raise(1.01 * EPS__UNIT_ROUNDOFF * (sums + 8 * (1 + fabs(draws->exponent[0] * M_LN2))), 4);
    draws->log_density_error = eps__raise(1.01 * EPS__UNIT_ROUNDOFF * (sums + shares), 4);
}

void eps__b_min_sep_draws_free(struct eps__b_min_sep_draws *draws)
{
    if (!draws)
        return;
    eps__b_min_sep_layout_clear(&draws->layout);
    free(draws->first);
    free(draws->base);
    free(draws->history);
    free(draws->sums);
    free(draws->exponent);
    free(draws->order);
    free(draws->begun);
    free(draws);
}

static enum eps_status make(const struct eps_context *context, struct eps__b_min_sep_draws *draws, double gram_units)
{
    const struct eps__b_min_sep_layout *layout = &draws->layout;
    size_t n = draws->b_min_sep.banded.len, b = draws->b_min_sep.separation;
    draws->lasting = (size_t)lasting_of(&layout->stages, layout->copies);
    draws->first = malloc((layout->states + 1) * sizeof *draws->first);
    draws->base = malloc(layout->len * sizeof *draws->base);
    draws->history = malloc(layout->states * sizeof *draws->history);
    draws->sums =
        malloc(((n < b ? n : b) * layout->states + (n > b ? n - b : 0) * draws->lasting) * sizeof *draws->sums);
    draws->exponent = malloc((n + 1) * sizeof *draws->exponent);
    draws->order = malloc(layout->begins_len * sizeof *draws->order);
    draws->begun = malloc(layout->begins_len * sizeof *draws->begun);
    if (!draws->first || !draws->base || !draws->history || !draws->sums || !draws->exponent || !draws->order ||
        !draws->begun)
        return EPS_NO_MEMORY;
    struct shares least = {1, 1};
    index_states(draws);
    draws->most = layout->copies * ((n - 1) / b + 1);
    enum eps_status status = make_rows(context, draws, &least);
    if (status == EPS_OK)
        status = make_begins(draws);
    if (status != EPS_OK)
        return status;
    count_errors(draws, gram_units, least);
    return draws->log_density_error < INACCURATE ? EPS_OK : EPS_UNSUPPORTED;
}

enum eps_status eps__b_min_sep_draws_make(const struct eps_context *context, struct eps__b_min_sep_draws **out,
                                          const struct eps__b_min_sep *b_min_sep, unsigned copies, double gram_units)
{
    assert(isfinite(eps__b_min_sep_draws_bytes(b_min_sep, copies)) && b_min_sep->banded.width <= b_min_sep->separation);
    struct eps__b_min_sep_draws *draws = calloc(1, sizeof *draws);
    if (!draws)
        return EPS_NO_MEMORY;
    draws->b_min_sep = *b_min_sep;
    enum eps_status status = eps__b_min_sep_layout_make(&draws->layout, &draws->b_min_sep, copies);
    if (status == EPS_OK)
        status = make(context, draws, gram_units);
    if (status == EPS_OK)
        *out = draws;
    else
        eps__b_min_sep_draws_free(draws);
    return status;
}

/* ------------------------------------------------------------ a draw */

/* The random numbers of a draw. */
struct source {
    const struct eps__stream *stream;
    uint32_t draw;
    size_t used;
};

/* A uniform number in (0, 1) whose relative resolution is the same for small numbers as for large ones. */
static double fine(struct source *source)
{
    double scale = 1, u = eps__uniform(source->stream, source->draw, source->used++);
    while (u < FINE && scale > SMALLEST) {
        scale *= FINE;
        u = eps__uniform(source->stream, source->draw, source->used++);
    }
    return scale * u;
}

/* The index of the first of `len` ascending sums that exceeds x; the last index if none does. */
static size_t above(const double *sums, size_t len, double x)
{
    size_t low = 0, high = len - 1;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (sums[middle] > x)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* The part of transition t in the sum of its state at step i, without the factor 2^exponent[i]. */
static double part_of(const struct eps__b_min_sep_draws *draws, size_t i, size_t t)
{
    size_t to = arrival(draws, i, t);
    double sum = sum_at(draws, to, draws->layout.items[t].to);
    int shift = draws->exponent[to] - draws->exponent[i];
    return weight_of(draws, i, t) * (shift == 0 ? sum : ldexp(sum, shift));
}

/* Draws one of the transitions at step i that draw some copy. Those that draw the most copies come first in the running
 * sums, because they are usually the rarest. */
static size_t taken(const struct eps__b_min_sep_draws *draws, size_t i, size_t state, struct source *source)
{
    size_t first = draws->first[state] + 1, end = draws->first[state + 1], len = 0, last = 0;
    double sums[EPS__B_MIN_SEP_DRAWN_MAX], sum = 0;
    assert(first < end && end - first <= EPS__B_MIN_SEP_DRAWN_MAX);
    if (end - first == 1)
        return first;
    for (size_t t = end; t-- > first; len++) {
        double part = part_of(draws, i, t);
        last = part > 0 ? len : last;
        sums[len] = sum += part;
    }
    size_t at = above(sums, len, sum * fine(source));
    return end - 1 - (at < last ? at : last);
}

size_t eps__b_min_sep_draws_next(struct eps__participated *out, const struct eps__b_min_sep_draws *draws,
                                 const struct eps__stream *stream, uint32_t draw)
{
    const struct eps__b_min_sep_layout *layout = &draws->layout;
    struct source source = {stream, draw, 0};
    size_t len = 0, begun = layout->begins_len;
    if (begun > 1)
        begun = above(draws->begun, begun, draws->begun[begun - 1] * fine(&source)) + 1;
    const struct eps__b_min_sep_begin *begin = &layout->begins[draws->order[begun - 1]];
    size_t state = begin->state, n = draws->b_min_sep.banded.len;
    double left = 1, u = fine(&source);
    for (size_t i = begin->step; i < n;) {
        size_t t = draws->first[state];
        assert(there_is(draws, i, state));
        left *= part_of(draws, i, t) / row_of(draws, i)[state];
        if (left < u) {
            t = taken(draws, i, state, &source);
            assert(len < draws->most);
            out[len++] = (struct eps__participated){(uint32_t)i, (uint32_t)(t - draws->first[state])};
            left = 1;
            u = fine(&source);
        }
        i += layout->items[t].jump;
        state = layout->items[t].to;
    }
    return len;
}
