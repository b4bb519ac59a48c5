/*
 * See b_min_sep_layout.h.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/moments/laws/b_min_sep_layout.h"

#include <assert.h>
#include <stdlib.h>

#include "lib/base/error.h"
#include "lib/moments/laws/multisets.h"

/* ------------------------------------------------------------ kinds */

struct eps__spaced_kinds eps__spaced_kinds_of(const struct eps__spaced *spaced)
{
    struct eps__spaced_kinds kinds = {spaced->separation, spaced->coins.width, spaced->examples, 0, 0, 0};
    kinds.meeting = kinds.separation - kinds.width + 1;
    kinds.virtual_ = kinds.meeting + (kinds.width - 1) * kinds.examples;
    kinds.len = kinds.virtual_ + (spaced->warm ? kinds.width - 1 : 0);
    return kinds;
}

/* Sits out r < b more steps and meets nobody. */
static unsigned silent(const struct eps__spaced_kinds *kinds, size_t r)
{
    assert(r < kinds->separation && (r < kinds->meeting || kinds->virtual_ < kinds->len));
    return (unsigned)(r < kinds->meeting ? r : kinds->virtual_ + r - kinds->meeting);
}

/* Was drawn d steps ago, 1 <= d <= b, so many examples of it. */
static unsigned drawn(const struct eps__spaced_kinds *kinds, size_t d, size_t examples)
{
    if (d >= kinds->width)
        return silent(kinds, kinds->separation - d);
    return (unsigned)(kinds->meeting + (d - 1) * kinds->examples + examples - 1);
}

/* What it still sits out; *distance, *examples: of those that others meet, else 0. */
static size_t left_of(const struct eps__spaced_kinds *kinds, unsigned kind, size_t *distance, size_t *examples)
{
    *distance = *examples = 0;
    if (kind < kinds->meeting)
        return kind;
    if (kind >= kinds->virtual_)
        return kind - kinds->virtual_ + kinds->meeting;
    *distance = (kind - kinds->meeting) / kinds->examples + 1;
    *examples = (kind - kinds->meeting) % kinds->examples + 1;
    return kinds->separation - *distance;
}

/* The same, so many steps later, no more than it sits out. */
static unsigned later(const struct eps__spaced_kinds *kinds, unsigned kind, size_t steps)
{
    size_t distance, examples, left = left_of(kinds, kind, &distance, &examples);
    assert(steps <= left);
    return distance > 0 ? drawn(kinds, distance + steps, examples) : silent(kinds, left - steps);
}

/* In how many orders so many copies have these numbers, which rise. */
static eps__quad orders_of(const unsigned *numbers, unsigned len)
{
    eps__quad orders = 1;
    for (unsigned i = 0, run = 0; i < len; i++) {
        run = i > 0 && numbers[i] == numbers[i - 1] ? run + 1 : 1;
        orders = orders * (i + 1) / run;
    }
    return orders;
}

/* ------------------------------------------------------------ the layout */

void eps__spaced_layout_clear(struct eps__spaced_layout *layout)
{
    free(layout->items);
    free(layout->causes);
    free(layout->meetings);
    free(layout->places);
    free(layout->chance);
    free(layout->begins);
}

/* The place of copies of which the first waits, in rising order, among all states. */
static size_t place(const struct eps__spaced_layout *layout, const unsigned *kinds)
{
    size_t sum = 0;
    assert(kinds[0] == 0);
    for (unsigned j = 0; j + 1 < layout->copies; j++)
        sum += layout->places[kinds[j + 1] * (layout->copies - 1) + j];
    assert(sum < layout->states);
    return sum;
}

/* Sorts the copies, and has them sit out what all of them do; the steps that takes. */
static size_t skip(const struct eps__spaced_layout *layout, unsigned *copies)
{
    size_t least = SIZE_MAX, distance, examples;
    for (unsigned c = 0; c < layout->copies; c++) {
        size_t left = left_of(&layout->kinds, copies[c], &distance, &examples);
        least = left < least ? left : least;
    }
    for (unsigned c = 0; c < layout->copies; c++)
        copies[c] = later(&layout->kinds, copies[c], least);
    eps__multiset_sort(copies, layout->copies);
    return least;
}

/* From copies of which the first `waiting` wait, of whom each is drawn by took[c] examples, rising, 0 or more. */
static void describe(struct eps__spaced_layout *layout, size_t index, size_t from, const unsigned *kinds,
                     unsigned waiting, const unsigned *took)
{
    struct eps__spaced_cause *cause = &layout->causes[index];
    struct eps__spaced_meeting *meeting = layout->meetings + index * layout->stride;
    unsigned after[EPS__SPACED_COPIES_MAX];
    size_t all = 0, together = 0, sum = 0;
    *cause = (struct eps__spaced_cause){orders_of(took, waiting), 0};
    for (unsigned c = 0; c < waiting; c++) {
        cause->base *= layout->chance[took[c]];
        together += all * took[c];
        all += took[c];
        after[c] = took[c] > 0 ? drawn(&layout->kinds, 1, took[c]) : 0;
    }
    if (together > 0)
        meeting[cause->meetings++] = (struct eps__spaced_meeting){0, (uint32_t)together};
    for (unsigned c = waiting; c < layout->copies; c++) {
        size_t distance, examples;
        left_of(&layout->kinds, kinds[c], &distance, &examples);
        after[c] = later(&layout->kinds, kinds[c], 1);
        if (distance == 0 || all == 0)
            continue;
        struct eps__spaced_meeting *last = cause->meetings > 0 ? &meeting[cause->meetings - 1] : NULL;
        if (last && last->distance == distance)
            last->times += (uint32_t)(all * examples);
        else
            meeting[cause->meetings++] = (struct eps__spaced_meeting){(uint32_t)distance, (uint32_t)(all * examples)};
    }
    assert(cause->meetings <= layout->stride);
    for (size_t m = 0; m < cause->meetings; m++) {
        sum += meeting[m].times;
        layout->reach = meeting[m].times > layout->reach ? meeting[m].times : layout->reach;
    }
    layout->most = sum > layout->most ? sum : layout->most;
    size_t jump = 1 + skip(layout, after);
    assert(jump <= layout->kinds.separation && from < layout->states);
    layout->items[index] =
        (struct eps__spaced_transition){(uint32_t)from, (uint32_t)place(layout, after), (uint32_t)jump};
}

/* With m that do not wait, any drawing of the others. */
double eps__spaced_transitions(double kinds, unsigned examples, unsigned copies)
{
    double count = 0;
    for (unsigned m = 0; m < copies; m++)
        count += (m == 0 || kinds > 1 ? eps__multisets(kinds - 1, m) : 0) * eps__multisets(examples + 1.0, copies - m);
    return count;
}

static void make_transitions(struct eps__spaced_layout *layout)
{
    unsigned kinds[EPS__SPACED_COPIES_MAX] = {0}, copies = layout->copies;
    size_t index = 0, from = 0;
    do {
        unsigned waiting = 1, took[EPS__SPACED_COPIES_MAX] = {0};
        while (waiting < copies && kinds[waiting] == 0)
            waiting++;
        do
            describe(layout, index++, from, kinds, waiting, took);
        while (eps__multiset_next(took, waiting, layout->spaced->examples + 1));
        if (kinds[copies - 1] < layout->kinds.virtual_)
            layout->lasting_len = index;
        from++;
    } while (eps__multiset_next(kinds + 1, copies - 1, (unsigned)layout->kinds.len));
    assert(index == layout->len && from == layout->states);
}

/* Cold: all wait. Warm: each copy waits with probability 1/(1 + (b - 1) p), and sits out r steps with p times that, 1 <= r < b. */
static enum eps_status make_begins(struct eps__spaced_layout *layout)
{
    size_t separation = layout->spaced->separation;
    bool warm = layout->spaced->warm;
    layout->begins_len = warm ? (size_t)eps__multisets((double)separation, layout->copies) : 1;
    layout->begins = malloc(layout->begins_len * sizeof *layout->begins);
    if (!layout->begins)
        return EPS_NO_MEMORY;
    eps__quad p = layout->spaced->coins.p, waits = 1 / (1 + (eps__quad)(separation - 1) * p);
    unsigned left[EPS__SPACED_COPIES_MAX] = {0}, copies[EPS__SPACED_COPIES_MAX];
    size_t index = 0;
    do {
        struct eps__spaced_begin *begin = &layout->begins[index++];
        *begin = (struct eps__spaced_begin){.weight = orders_of(left, layout->copies)};
        for (unsigned c = 0; c < layout->copies; c++) {
            begin->weight *= !warm ? 1 : left[c] > 0 ? p * waits : waits;
            copies[c] = silent(&layout->kinds, left[c]);
        }
        begin->step = skip(layout, copies);
        begin->state = place(layout, copies);
    } while (eps__multiset_next(left, layout->copies, warm ? (unsigned)separation : 1));
    assert(index == layout->begins_len);
    return EPS_OK;
}

static enum eps_status count_entries(struct eps__spaced_layout *layout)
{
    uint32_t *entries = calloc(layout->states, sizeof *entries);
    if (!entries)
        return EPS_NO_MEMORY;
    for (size_t t = 0; t < layout->len; t++) {
        uint32_t *own = &entries[layout->items[t].to];
        layout->entries = ++*own > layout->entries ? *own : layout->entries;
    }
    free(entries);
    return EPS_OK;
}

enum eps_status eps__spaced_layout_make(struct eps__spaced_layout *layout, const struct eps__spaced *spaced,
                                        unsigned copies)
{
    struct eps__spaced_kinds kinds = eps__spaced_kinds_of(spaced);
    assert(copies >= 1 && copies < EPS__SPACED_COPIES_MAX && spaced->coins.width <= spaced->separation);
    assert(spaced->examples >= 1 && (!spaced->warm || spaced->examples == 1));
    *layout = (struct eps__spaced_layout){.spaced = spaced, .kinds = kinds, .copies = copies, .stride = copies};
    layout->states = (size_t)eps__multisets((double)kinds.len, copies - 1);
    layout->len = (size_t)eps__spaced_transitions((double)kinds.len, spaced->examples, copies);
    layout->items = malloc(layout->len * sizeof *layout->items);
    layout->causes = malloc(layout->len * sizeof *layout->causes);
    layout->meetings = malloc(layout->len * layout->stride * sizeof *layout->meetings);
    layout->places = malloc(kinds.len * copies * sizeof *layout->places);
    layout->chance = malloc((spaced->examples + 1) * sizeof *layout->chance);
    if (!layout->items || !layout->causes || !layout->meetings || !layout->places || !layout->chance)
        return EPS_NO_MEMORY;
    for (size_t kind = 0; kind < kinds.len; kind++)
        for (unsigned j = 0; j + 1 < copies; j++)
            layout->places[kind * (copies - 1) + j] = kind > 0 ? (size_t)eps__multisets((double)kind, j + 1) : 0;
    eps__quad p = spaced->coins.p;
    for (unsigned j = 0; j <= spaced->examples; j++) {
        layout->chance[j] = 1;
        for (unsigned i = 0; i < spaced->examples; i++)
            layout->chance[j] *= i < j ? p * (spaced->examples - i) / (i + 1) : 1 - p;
    }
    make_transitions(layout);
    enum eps_status status = make_begins(layout);
    return status == EPS_OK ? count_entries(layout) : status;
}
