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
#include "lib/base/progress.h"
#include "lib/moments/laws/multisets.h"
#include "lib/numerics/bound.h"

enum { SETTLING = 9 }; /* rows of equal steps settle after about SETTLING separations */

#define BYTES_MAX 134217728.0
#define SETTLED 1e-11     /* equal steps share one row if they multiply all its sums by one factor, within this share */
#define SMALLEST 0x1p-600 /* the least sum of a row, as a multiple of its largest */
#define INACCURATE 1e-4   /* log_density_error must be below this */
#define PACE 8.0          /* operations for a transition in a row, */
#define PACE_WEIGHT 30.0  /* for its weight, */
#define PACE_LAYOUT 200.0 /* and for its place in the layout */

/* ------------------------------------------------------------ tables */

/* The bytes of the tables with so many rows. */
static double bytes_of(const struct eps__b_min_sep *b_min_sep, unsigned copies, double rows)
{
    struct eps__b_min_sep_stages stages = eps__b_min_sep_stages_of(b_min_sep);
    double states = eps__multisets((double)stages.len, copies - 1), drawings = 0.5 * copies * (copies + 3);
    double width = (double)stages.width, lead = b_min_sep->warm ? (double)stages.separation : 0;
    double edge = lead * drawings + (b_min_sep->warm ? (lead + width) * width : 0);
    return states * (8 * rows + 16 + 4.0 * copies) + 16 * eps__b_min_sep_transitions((double)stages.len, 1, copies) +
           12 * (double)eps__b_min_sep_steps_of(b_min_sep) + 8 * edge;
}

/* About the number of rows that are made. */
static double rows_made(const struct eps__b_min_sep *b_min_sep)
{
    double b = (double)b_min_sep->separation, rows = (double)b_min_sep->banded.changes + SETTLING * b;
    return fmin(rows + (b_min_sep->warm ? 2 * b : 0), (double)eps__b_min_sep_steps_of(b_min_sep));
}

double eps__b_min_sep_draws_operations(const struct eps__b_min_sep *b_min_sep, unsigned copies)
{
    double weights =
        fmin(2 * (double)b_min_sep->banded.changes + (double)b_min_sep->separation, (double)b_min_sep->banded.len);
    double stages = (double)eps__b_min_sep_stages_of(b_min_sep).len;
    return eps__b_min_sep_transitions(stages, b_min_sep->examples, copies) *
           (PACE_LAYOUT + PACE * rows_made(b_min_sep) + PACE_WEIGHT * weights);
}

double eps__b_min_sep_draws_bytes(const struct eps__b_min_sep *b_min_sep, unsigned copies)
{
    double rows = rows_made(b_min_sep);
    bool served = copies >= 2 && copies <= EPS__B_MIN_SEP_DRAWN_MAX && b_min_sep->examples == 1;
    double bytes = served ? bytes_of(b_min_sep, copies, rows) : INFINITY;
    return bytes <= BYTES_MAX ? bytes : INFINITY;
}

/* The number of rows that fit. */
static size_t rows_of(const struct eps__b_min_sep_draws *draws)
{
    double none = bytes_of(&draws->b_min_sep, draws->layout.copies, 0), row = 8 * (double)draws->layout.states;
    return (size_t)fmin(floor((BYTES_MAX - none) / row), (double)draws->layout.steps);
}

/* The row of step i's sums: the sum of state s from this step on is its entry s times 2^exponent[i] lambda^power[i]. */
static const double *sums_of(const struct eps__b_min_sep_draws *draws, size_t i)
{
    return draws->sums + draws->row[i] * draws->layout.states;
}

static double sum_at(const struct eps__b_min_sep_draws *draws, size_t i, size_t state)
{
    return i < draws->layout.steps ? sums_of(draws, i)[state] : 1;
}

/* The factor of the sums of step `to`, relative to that of step i < to, at most `separation` steps before it. */
static double scale_of(const struct eps__b_min_sep_draws *draws, size_t i, size_t to)
{
    int shift = draws->exponent[to] - draws->exponent[i];
    assert(draws->power[i] >= draws->power[to] && draws->power[i] - draws->power[to] <= draws->b_min_sep.separation);
    double shrink = draws->shrink[draws->power[i] - draws->power[to]];
    return shift == 0 ? shrink : ldexp(shrink, shift);
}

/* The index of a transition among the drawings of its state's waiting copies. */
static size_t drawing_of(const struct eps__b_min_sep_draws *draws, size_t state, size_t t)
{
    return draws->layout.drawings_at[draws->layout.waiting[state]] + (t - draws->layout.first[state]);
}

/* The sum of the row's entries at which an example that is drawn meets the copies that do not wait. */
static double met_by(const struct eps__b_min_sep_draws *draws, const double *row, size_t state)
{
    const struct eps__b_min_sep_layout *layout = &draws->layout;
    const uint32_t *others = layout->others + state * (layout->copies - 1);
    double sum = 0;
    for (unsigned c = layout->waiting[state]; c < layout->copies; c++) {
        size_t distance;
        if (eps__b_min_sep_last(&layout->stages, *others++, &distance) > 0)
            sum += row[distance];
    }
    return sum;
}

/* The weight of transition t from a state at step i, whose row is `row`. met: of the state. */
static double weight_of(const struct eps__b_min_sep_draws *draws, const double *row, size_t i, size_t state, size_t t,
                        double met)
{
    const struct eps__b_min_sep_layout *layout = &draws->layout;
    size_t at = drawing_of(draws, state, t);
    const struct eps__b_min_sep_drawing *drawing = &layout->drawings[at];
    double base = draws->base[(i < layout->lead ? i : layout->lead) * layout->drawings_len + at];
    double sum = drawing->all * met + drawing->together * row[0];
    return sum > 0 ? base * Sleef_cinz_expd1_u10purec(sum) : base;
}

/* The step to which transition t leads from step i, at most that after the last one. */
static size_t arrival(const struct eps__b_min_sep_draws *draws, size_t i, size_t t)
{
    size_t to = i + draws->layout.items[t].jump;
    return to < draws->layout.steps ? to : draws->layout.steps;
}

/* The number of first steps whose rows are not those of the Gram matrix, as there was nothing before them. */
static size_t edge_of(const struct eps__b_min_sep_layout *layout)
{
    return layout->lead > 0 ? layout->lead + layout->stages.width : 0;
}

/* The row of step i, as eps__b_min_sep_row() makes it. */
static const double *row_of(const struct eps__b_min_sep_draws *draws, size_t i)
{
    const struct eps__b_min_sep_layout *layout = &draws->layout;
    size_t width = layout->stages.width;
    return i < edge_of(layout) ? draws->edge + i * width : draws->b_min_sep.banded.gram + (i - layout->lead) * width;
}

/* Fills in base: the probabilities of every leading step, and of all others. */
static enum eps_status make_bases(struct eps__b_min_sep_draws *draws)
{
    const struct eps__b_min_sep_layout *layout = &draws->layout;
    eps__quad *exact = malloc(layout->drawings_len * sizeof *exact);
    if (!exact)
        return EPS_NO_MEMORY;
    for (size_t i = 0; i <= layout->lead; i++) {
        eps__b_min_sep_bases(exact, layout, i);
        for (size_t at = 0; at < layout->drawings_len; at++)
            draws->base[i * layout->drawings_len + at] = (double)exact[at];
    }
    free(exact);
    return EPS_OK;
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
    for (size_t t = draws->layout.first[state + 1]; t-- > draws->layout.first[state];) {
        const struct eps__b_min_sep_transition *item = &draws->layout.items[t];
        double part = weight[t] * (sum_at(draws, arrival(draws, i, t), item->to) * scale[item->jump]);
        if (t == draws->layout.first[state]) {
            stays = part;
        } else if (part > 0) {
            events += part;
            least->one = fmin(least->one, part / events);
        }
    }
    least->events = fmin(least->events, events / (events + stays));
    return events + stays;
}

/* Makes the row of step i from later rows and the weights at step i. False if a number leaves the range. */
static bool make_row(struct eps__b_min_sep_draws *draws, size_t i, const double *weight, double *scale,
                     struct shares *least)
{
    size_t n = draws->layout.steps, states = draws->layout.states;
    bool inside = true;
    double *sums = draws->sums + draws->row[i] * states, largest = 0, smallest = INFINITY;
    draws->exponent[i] = draws->exponent[i + 1];
    draws->power[i] = draws->power[i + 1];
    for (size_t jump = 1; jump <= draws->b_min_sep.separation; jump++)
        scale[jump] = scale_of(draws, i, i + jump < n ? i + jump : n);
    for (size_t s = 0; s < states; s++) {
        sums[s] = sum_of(draws, i, s, weight, scale, least);
        inside &= sums[s] > 0 && sums[s] < INFINITY;
        largest = fmax(largest, sums[s]);
        smallest = fmin(smallest, sums[s]);
    }
    int shift;
    (void)frexp(largest, &shift);
    for (size_t s = 0; s < states; s++)
        sums[s] = ldexp(sums[s], -shift);
    draws->exponent[i] += shift;
    return inside && smallest >= SMALLEST * largest;
}

/* Over how many steps in a row the sums were multiplied by about one factor, and its range. */
struct settling {
    size_t steps;
    double low, high;
};

/* Compares the rows of steps i and i + 1, which are alike. */
static void settle(struct settling *settling, const struct eps__b_min_sep_draws *draws, size_t i)
{
    const double *now = sums_of(draws, i), *later = sums_of(draws, i + 1);
    double scale = scale_of(draws, i, i + 1), low = INFINITY, high = 0;
    for (size_t s = 0; s < draws->layout.states; s++) {
        double factor = now[s] / (later[s] * scale);
        low = fmin(low, factor);
        high = fmax(high, factor);
    }
    bool first = settling->steps == 0;
    settling->low = first ? low : fmin(settling->low, low);
    settling->high = first ? high : fmax(settling->high, high);
    settling->steps++;
    if (!(settling->high - settling->low <= SETTLED * settling->low))
        *settling = (struct settling){high - low <= SETTLED * low, low, high};
}

/* Whether the steps from i - 1 down share the row of step i from now on; then lambda is known. */
static bool share(struct eps__b_min_sep_draws *draws, const struct settling *settling)
{
    size_t b = draws->b_min_sep.separation;
    if (settling->steps < b || draws->spread > 0)
        return false;
    for (size_t k = 1; k <= b; k++)
        draws->shrink[k] = draws->shrink[k - 1] / settling->low;
    draws->log_lambda = Sleef_cinz_logd1_u10purec(settling->low);
    draws->spread = (settling->high - settling->low) / settling->low + 8 * EPS__UNIT_ROUNDOFF;
    return true;
}

static void make_weights(double *weight, const struct eps__b_min_sep_draws *draws, const double *row, size_t i)
{
    const struct eps__b_min_sep_layout *layout = &draws->layout;
    for (size_t s = 0; s < layout->states; s++) {
        double met = met_by(draws, row, s);
        for (size_t t = layout->first[s]; t < layout->first[s + 1]; t++)
            weight[t] = weight_of(draws, row, i, s, t, met);
    }
}

/* Makes all rows, from the last step on. */
static enum eps_status make_rows(const struct eps_context *context, struct eps__b_min_sep_draws *draws,
                                 struct shares *least)
{
    const struct eps__b_min_sep_layout *layout = &draws->layout;
    double *weight = malloc(layout->len * sizeof *weight);
    double *scale = malloc((draws->b_min_sep.separation + 1) * sizeof *scale);
    enum eps_status status = weight && scale ? EPS_OK : EPS_NO_MEMORY;
    struct settling settling = {0};
    bool sharing = false;
    size_t used = 0, room = rows_of(draws);
    for (size_t i = layout->steps; status == EPS_OK && i-- > 0;) {
        bool alike = i + 1 < layout->steps && eps__b_min_sep_alike(layout, i + 1);
        sharing = sharing && alike;
        if (sharing) {
            draws->row[i] = draws->row[i + 1];
            draws->exponent[i] = draws->exponent[i + 1];
            draws->power[i] = draws->power[i + 1] + 1;
            continue;
        }
        draws->row[i] = (uint32_t)used;
        if (!alike)
            make_weights(weight, draws, row_of(draws, i), i);
        if (used++ >= room || !make_row(draws, i, weight, scale, least))
            status = EPS_UNSUPPORTED;
        else
            status = eps__poll(context);
        if (status == EPS_OK && alike)
            settle(&settling, draws, i);
        else
            settling = (struct settling){0};
        sharing = status == EPS_OK && share(draws, &settling);
    }
    free(weight);
    free(scale);
    if (status == EPS_OK)
        draws->log_z = Sleef_cinz_logd1_u10purec(sum_at(draws, 0, 0)) + draws->exponent[0] * M_LN2 +
                       draws->power[0] * draws->log_lambda;
    return status;
}

/* Sets log_z_error (M25) and log_density_error (M26). */
static void count_errors(struct eps__b_min_sep_draws *draws, double gram_units, struct shares least)
{
    const struct eps__b_min_sep_layout *layout = &draws->layout;
    const struct eps__banded_gram *banded = &draws->b_min_sep.banded;
    double largest = 0, steps = (double)layout->steps, copies = layout->copies;
    double events = (double)draws->most + (layout->lead > 0 ? copies : 0), pairs = 0.5 * copies * copies;
    for (size_t i = 0; i < banded->len * banded->width; i++)
        largest = fmax(largest, banded->gram[i]);
    double weights = 8 + (gram_units + copies + 4) * pairs * largest;
    double sums = steps * (copies + 8) + events * weights;
    double shares = steps * 8 + events * (copies + 40) * (1 / least.events + 1 / least.one);
    double spread = draws->spread / EPS__UNIT_ROUNDOFF;
    sums += steps * spread;
    shares += events * spread / least.events;
    double logs = fabs(draws->exponent[0] * M_LN2) + draws->power[0] * (1 + fabs(draws->log_lambda));
    draws->log_z_error = eps__raise(1.01 * EPS__UNIT_ROUNDOFF * (sums + 8 * (1 + logs)), 4);
    draws->log_density_error = eps__raise(1.01 * EPS__UNIT_ROUNDOFF * (sums + shares), 4);
}

void eps__b_min_sep_draws_free(struct eps__b_min_sep_draws *draws)
{
    if (!draws)
        return;
    eps__b_min_sep_layout_clear(&draws->layout);
    free(draws->base);
    free(draws->edge);
    free(draws->sums);
    free(draws->row);
    free(draws->power);
    free(draws->exponent);
    free(draws->shrink);
    free(draws);
}

static enum eps_status make(const struct eps_context *context, struct eps__b_min_sep_draws *draws, double gram_units)
{
    const struct eps__b_min_sep_layout *layout = &draws->layout;
    size_t edge = edge_of(layout) < layout->steps ? edge_of(layout) : layout->steps, width = layout->stages.width;
    draws->base = malloc((layout->lead + 1) * layout->drawings_len * sizeof *draws->base);
    draws->edge = malloc((edge * width + 1) * sizeof *draws->edge);
    draws->sums = malloc(rows_of(draws) * layout->states * sizeof *draws->sums);
    draws->row = malloc(layout->steps * sizeof *draws->row);
    draws->power = calloc(layout->steps + 1, sizeof *draws->power);
    draws->exponent = calloc(layout->steps + 1, sizeof *draws->exponent);
    draws->shrink = calloc(draws->b_min_sep.separation + 1, sizeof *draws->shrink);
    if (!draws->base || !draws->edge || !draws->sums || !draws->row || !draws->power || !draws->exponent ||
        !draws->shrink)
        return EPS_NO_MEMORY;
    draws->shrink[0] = 1;
    struct shares least = {1, 1};
    draws->most = layout->copies * ((draws->b_min_sep.banded.len - 1) / draws->b_min_sep.separation + 1);
    for (size_t i = 0; i < edge; i++)
        eps__b_min_sep_row(draws->edge + i * width, layout, i);
    enum eps_status status = make_bases(draws);
    if (status == EPS_OK)
        status = make_rows(context, draws, &least);
    if (status != EPS_OK)
        return status;
    count_errors(draws, gram_units, least);
    return draws->log_density_error < INACCURATE ? EPS_OK : EPS_UNSUPPORTED;
}

enum eps_status eps__b_min_sep_draws_make(const struct eps_context *context, struct eps__b_min_sep_draws **out,
                                          const struct eps__b_min_sep *b_min_sep, unsigned copies, double gram_units)
{
    assert(isfinite(eps__b_min_sep_draws_bytes(b_min_sep, copies)) && b_min_sep->banded.width <= b_min_sep->separation);
    assert(b_min_sep->banded.times == 0);
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

static double next(struct source *source)
{
    return eps__uniform_fine(source->stream, source->draw, &source->used);
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

/* The part of transition t in the sum of its state at step i, without the factor of step i. met: of the state. */
static double part_of(const struct eps__b_min_sep_draws *draws, size_t i, size_t state, size_t t, double met)
{
    size_t to = arrival(draws, i, t);
    return weight_of(draws, row_of(draws, i), i, state, t, met) *
           (sum_at(draws, to, draws->layout.items[t].to) * scale_of(draws, i, to));
}

/* Draws one of the transitions at step i that draw some copy. Those that draw the most copies come first in the running
 * sums, because they are usually the rarest. */
static size_t taken(const struct eps__b_min_sep_draws *draws, size_t i, size_t state, struct source *source)
{
    size_t first = draws->layout.first[state] + 1, end = draws->layout.first[state + 1], len = 0, last = 0;
    double sums[EPS__B_MIN_SEP_DRAWN_MAX], sum = 0;
    assert(first < end && end - first <= EPS__B_MIN_SEP_DRAWN_MAX);
    if (end - first == 1)
        return first;
    double met = met_by(draws, row_of(draws, i), state);
    for (size_t t = end; t-- > first; len++) {
        double part = part_of(draws, i, state, t, met);
        last = part > 0 ? len : last;
        sums[len] = sum += part;
    }
    size_t at = above(sums, len, sum * next(source));
    return end - 1 - (at < last ? at : last);
}

size_t eps__b_min_sep_draws_next(struct eps__participated *out, const struct eps__b_min_sep_draws *draws,
                                 const struct eps__stream *stream, uint32_t draw)
{
    const struct eps__b_min_sep_layout *layout = &draws->layout;
    struct source source = {stream, draw, 0};
    size_t len = 0, state = 0;
    double left = 1, u = next(&source);
    for (size_t i = 0; i < layout->steps;) {
        size_t t = layout->first[state]; /* draws nothing, and so does not depend on what it meets */
        left *= part_of(draws, i, state, t, 0) / sum_at(draws, i, state);
        if (left < u) {
            t = taken(draws, i, state, &source);
            assert(len < draws->most || i < layout->lead);
            if (i >= layout->lead)
                out[len++] =
                    (struct eps__participated){(uint32_t)(i - layout->lead), (uint32_t)(t - layout->first[state])};
            left = 1;
            u = next(&source);
        }
        i += layout->items[t].jump;
        state = layout->items[t].to;
    }
    return len;
}
