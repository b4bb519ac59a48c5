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

/* ------------------------------------------------------------ stages */

struct eps__b_min_sep_stages eps__b_min_sep_stages_of(const struct eps__b_min_sep *b_min_sep)
{
    struct eps__b_min_sep_stages stages = {
        b_min_sep->separation, b_min_sep->banded.width, b_min_sep->examples, 0, 0, 0};
    stages.meeting = stages.separation - stages.width + 1;
    stages.virtual_ = stages.meeting + (stages.width - 1) * stages.examples;
    stages.len = stages.virtual_ + (b_min_sep->warm ? stages.width - 1 : 0);
    return stages;
}

/* The stage that sits out r < b more steps and meets no other copy. */
static unsigned silent(const struct eps__b_min_sep_stages *stages, size_t r)
{
    assert(r < stages->separation && (r < stages->meeting || stages->virtual_ < stages->len));
    return (unsigned)(r < stages->meeting ? r : stages->virtual_ + r - stages->meeting);
}

/* The stage that was drawn d steps ago, 1 <= d <= b, with this number of examples. */
static unsigned drawn(const struct eps__b_min_sep_stages *stages, size_t d, size_t examples)
{
    if (d >= stages->width)
        return silent(stages, stages->separation - d);
    return (unsigned)(stages->meeting + (d - 1) * stages->examples + examples - 1);
}

/* The number of steps that a stage still sits out. *distance, *examples: of its last drawing if other copies may still
 * meet it, else 0. */
static size_t left_of(const struct eps__b_min_sep_stages *stages, unsigned stage, size_t *distance, size_t *examples)
{
    *distance = *examples = 0;
    if (stage < stages->meeting)
        return stage;
    if (stage >= stages->virtual_)
        return stage - stages->virtual_ + stages->meeting;
    *distance = (stage - stages->meeting) / stages->examples + 1;
    *examples = (stage - stages->meeting) % stages->examples + 1;
    return stages->separation - *distance;
}

/* The stage `steps` steps later, which may not be more than it still sits out. */
static unsigned later(const struct eps__b_min_sep_stages *stages, unsigned stage, size_t steps)
{
    size_t distance, examples, left = left_of(stages, stage, &distance, &examples);
    assert(steps <= left);
    return distance > 0 ? drawn(stages, distance + steps, examples) : silent(stages, left - steps);
}

/* The number of different orders of these numbers, which are ascending. */
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

void eps__b_min_sep_layout_clear(struct eps__b_min_sep_layout *layout)
{
    free(layout->items);
    free(layout->causes);
    free(layout->meetings);
    free(layout->places);
    free(layout->chance);
    free(layout->begins);
}

/* The rank of a state: stages in ascending order, the first of which waits. */
static size_t place(const struct eps__b_min_sep_layout *layout, const unsigned *stages)
{
    size_t sum = 0;
    assert(stages[0] == 0);
    for (unsigned j = 0; j + 1 < layout->copies; j++)
        sum += layout->places[stages[j + 1] * (layout->copies - 1) + j];
    assert(sum < layout->states);
    return sum;
}

/* Advances the copies until one of them waits, and sorts them. Returns the number of steps. */
static size_t skip(const struct eps__b_min_sep_layout *layout, unsigned *copies)
{
    size_t least = SIZE_MAX, distance, examples;
    for (unsigned c = 0; c < layout->copies; c++) {
        size_t left = left_of(&layout->stages, copies[c], &distance, &examples);
        least = left < least ? left : least;
    }
    for (unsigned c = 0; c < layout->copies; c++)
        copies[c] = later(&layout->stages, copies[c], least);
    eps__multiset_sort(copies, layout->copies);
    return least;
}

/* Fills in the transition from a state whose first `waiting` copies wait. Copy c draws took[c] >= 0 examples, in
 * ascending order. */
static void describe(struct eps__b_min_sep_layout *layout, size_t index, size_t from, const unsigned *stages,
                     unsigned waiting, const unsigned *took)
{
    struct eps__b_min_sep_cause *cause = &layout->causes[index];
    struct eps__b_min_sep_meeting *meeting = layout->meetings + index * layout->stride;
    unsigned after[EPS__B_MIN_SEP_COPIES_MAX];
    size_t all = 0, together = 0, sum = 0;
    *cause = (struct eps__b_min_sep_cause){orders_of(took, waiting), 0};
    for (unsigned c = 0; c < waiting; c++) {
        cause->base *= layout->chance[took[c]];
        together += all * took[c];
        all += took[c];
        after[c] = took[c] > 0 ? drawn(&layout->stages, 1, took[c]) : 0;
    }
    if (together > 0)
        meeting[cause->meetings++] = (struct eps__b_min_sep_meeting){0, (uint32_t)together};
    for (unsigned c = waiting; c < layout->copies; c++) {
        size_t distance, examples;
        left_of(&layout->stages, stages[c], &distance, &examples);
        after[c] = later(&layout->stages, stages[c], 1);
        if (distance == 0 || all == 0)
            continue;
        struct eps__b_min_sep_meeting *last = cause->meetings > 0 ? &meeting[cause->meetings - 1] : NULL;
        if (last && last->distance == distance)
            last->times += (uint32_t)(all * examples);
        else
            meeting[cause->meetings++] =
                (struct eps__b_min_sep_meeting){(uint32_t)distance, (uint32_t)(all * examples)};
    }
    assert(cause->meetings <= layout->stride);
    for (size_t m = 0; m < cause->meetings; m++) {
        sum += meeting[m].times;
        layout->reach = meeting[m].times > layout->reach ? meeting[m].times : layout->reach;
    }
    layout->most = sum > layout->most ? sum : layout->most;
    size_t jump = 1 + skip(layout, after);
    assert(jump <= layout->stages.separation && from < layout->states);
    layout->items[index] =
        (struct eps__b_min_sep_transition){(uint32_t)from, (uint32_t)place(layout, after), (uint32_t)jump};
}

/* The sum over the number m of copies that do not wait, of their stages times the drawings of the others. */
double eps__b_min_sep_transitions(double stages, unsigned examples, unsigned copies)
{
    double count = 0;
    for (unsigned m = 0; m < copies; m++)
        count +=
            (m == 0 || stages > 1 ? eps__multisets(stages - 1, m) : 0) * eps__multisets(examples + 1.0, copies - m);
    return count;
}

static void make_transitions(struct eps__b_min_sep_layout *layout)
{
    unsigned stages[EPS__B_MIN_SEP_COPIES_MAX] = {0}, copies = layout->copies;
    size_t index = 0, from = 0;
    do {
        unsigned waiting = 1, took[EPS__B_MIN_SEP_COPIES_MAX] = {0};
        while (waiting < copies && stages[waiting] == 0)
            waiting++;
        do
            describe(layout, index++, from, stages, waiting, took);
        while (eps__multiset_next(took, waiting, layout->b_min_sep->examples + 1));
        if (stages[copies - 1] < layout->stages.virtual_)
            layout->lasting_len = index;
        from++;
    } while (eps__multiset_next(stages + 1, copies - 1, (unsigned)layout->stages.len));
    assert(index == layout->len && from == layout->states);
}

/* The first states. Cold start: all copies wait. Warm start: each copy waits with probability 1/(1 + (b - 1) p), and
 * sits out r steps with p times that, 1 <= r < b. */
static enum eps_status make_begins(struct eps__b_min_sep_layout *layout)
{
    size_t separation = layout->b_min_sep->separation;
    bool warm = layout->b_min_sep->warm;
    layout->begins_len = warm ? (size_t)eps__multisets((double)separation, layout->copies) : 1;
    layout->begins = malloc(layout->begins_len * sizeof *layout->begins);
    if (!layout->begins)
        return EPS_NO_MEMORY;
    eps__quad p = layout->b_min_sep->banded.p, waits = 1 / (1 + (eps__quad)(separation - 1) * p);
    unsigned left[EPS__B_MIN_SEP_COPIES_MAX] = {0}, copies[EPS__B_MIN_SEP_COPIES_MAX];
    size_t index = 0;
    do {
        struct eps__b_min_sep_begin *begin = &layout->begins[index++];
        *begin = (struct eps__b_min_sep_begin){.weight = orders_of(left, layout->copies)};
        for (unsigned c = 0; c < layout->copies; c++) {
            begin->weight *= !warm ? 1 : left[c] > 0 ? p * waits : waits;
            copies[c] = silent(&layout->stages, left[c]);
        }
        begin->step = skip(layout, copies);
        begin->state = place(layout, copies);
    } while (eps__multiset_next(left, layout->copies, warm ? (unsigned)separation : 1));
    assert(index == layout->begins_len);
    return EPS_OK;
}

static enum eps_status count_entries(struct eps__b_min_sep_layout *layout)
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

enum eps_status eps__b_min_sep_layout_make(struct eps__b_min_sep_layout *layout, const struct eps__b_min_sep *b_min_sep,
                                           unsigned copies)
{
    struct eps__b_min_sep_stages stages = eps__b_min_sep_stages_of(b_min_sep);
    assert(copies >= 1 && copies < EPS__B_MIN_SEP_COPIES_MAX && b_min_sep->banded.width <= b_min_sep->separation);
    assert(b_min_sep->examples >= 1 && (!b_min_sep->warm || b_min_sep->examples == 1));
    *layout =
        (struct eps__b_min_sep_layout){.b_min_sep = b_min_sep, .stages = stages, .copies = copies, .stride = copies};
    layout->states = (size_t)eps__multisets((double)stages.len, copies - 1);
    layout->len = (size_t)eps__b_min_sep_transitions((double)stages.len, b_min_sep->examples, copies);
    layout->items = malloc(layout->len * sizeof *layout->items);
    layout->causes = malloc(layout->len * sizeof *layout->causes);
    layout->meetings = malloc(layout->len * layout->stride * sizeof *layout->meetings);
    layout->places = malloc(stages.len * copies * sizeof *layout->places);
    layout->chance = malloc((b_min_sep->examples + 1) * sizeof *layout->chance);
    if (!layout->items || !layout->causes || !layout->meetings || !layout->places || !layout->chance)
        return EPS_NO_MEMORY;
    for (size_t stage = 0; stage < stages.len; stage++)
        for (unsigned j = 0; j + 1 < copies; j++)
            layout->places[stage * (copies - 1) + j] = stage > 0 ? (size_t)eps__multisets((double)stage, j + 1) : 0;
    eps__quad p = b_min_sep->banded.p;
    for (unsigned j = 0; j <= b_min_sep->examples; j++) {
        layout->chance[j] = 1;
        for (unsigned i = 0; i < b_min_sep->examples; i++)
            layout->chance[j] *= i < j ? p * (b_min_sep->examples - i) / (i + 1) : 1 - p;
    }
    make_transitions(layout);
    enum eps_status status = make_begins(layout);
    return status == EPS_OK ? count_entries(layout) : status;
}
