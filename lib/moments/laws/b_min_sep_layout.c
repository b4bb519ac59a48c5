/*
 * See b_min_sep_layout.h.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/moments/laws/b_min_sep_layout.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/moments/laws/multisets.h"

/* ------------------------------------------------------------ stages */

struct eps__b_min_sep_stages eps__b_min_sep_stages_of(const struct eps__b_min_sep *b_min_sep)
{
    struct eps__b_min_sep_stages stages = {b_min_sep->separation, b_min_sep->banded.width, b_min_sep->examples, 0, 0};
    stages.meeting = stages.separation - stages.width + 1;
    stages.len = stages.meeting + (stages.width - 1) * stages.examples;
    return stages;
}

/* The stage that was drawn d steps ago, 1 <= d <= b, with this number of examples. */
static unsigned drawn(const struct eps__b_min_sep_stages *stages, size_t d, size_t examples)
{
    if (d >= stages->width)
        return (unsigned)(stages->separation - d);
    return (unsigned)(stages->meeting + (d - 1) * stages->examples + examples - 1);
}

size_t eps__b_min_sep_last(const struct eps__b_min_sep_stages *stages, uint32_t stage, size_t *distance)
{
    *distance = 0;
    if (stage < stages->meeting)
        return 0;
    *distance = (stage - stages->meeting) / stages->examples + 1;
    return (stage - stages->meeting) % stages->examples + 1;
}

/* The number of steps that a stage still sits out. */
static size_t left_of(const struct eps__b_min_sep_stages *stages, unsigned stage)
{
    size_t distance, examples = eps__b_min_sep_last(stages, stage, &distance);
    return examples > 0 ? stages->separation - distance : stage;
}

/* The stage `steps` steps later, which may not be more than it still sits out. */
static unsigned later(const struct eps__b_min_sep_stages *stages, unsigned stage, size_t steps)
{
    size_t distance, examples = eps__b_min_sep_last(stages, stage, &distance);
    assert(steps <= left_of(stages, stage));
    return examples > 0 ? drawn(stages, distance + steps, examples) : (unsigned)(stage - steps);
}

/* ------------------------------------------------------------ steps */

size_t eps__b_min_sep_steps_of(const struct eps__b_min_sep *b_min_sep)
{
    return b_min_sep->banded.len + (b_min_sep->warm ? b_min_sep->separation - 1 : 0);
}

void eps__b_min_sep_row(double *row, const struct eps__b_min_sep_layout *layout, size_t i)
{
    const struct eps__banded_gram *banded = &layout->b_min_sep->banded;
    assert(i < layout->steps);
    for (size_t d = 0; d < banded->width; d++) {
        bool there = i >= layout->lead + (layout->lead > 0 ? d : 0);
        row[d] = there ? eps__banded_entry(banded, i - layout->lead, d) : 0;
    }
}

eps__quad eps__b_min_sep_tilt(const struct eps__b_min_sep_layout *layout, size_t i)
{
    const eps__quad *tilt = layout->b_min_sep->tilt;
    assert(i < layout->steps);
    return tilt && i >= layout->lead ? tilt[i - layout->lead] : 0;
}

bool eps__b_min_sep_alike(const struct eps__b_min_sep_layout *layout, size_t i)
{
    const struct eps__banded_gram *banded = &layout->b_min_sep->banded;
    size_t own = i - layout->lead;
    assert(i > 0 && i < layout->steps);
    if (i <= layout->lead || (layout->lead > 0 && own < banded->width))
        return false;
    if (eps__b_min_sep_tilt(layout, i) != eps__b_min_sep_tilt(layout, i - 1))
        return false;
    return memcmp(banded->gram + own * banded->width, banded->gram + (own - 1) * banded->width,
                  banded->width * sizeof *banded->gram) == 0;
}

/* The number of different orders of these numbers, which are ascending. */
static eps__quad orders_of(const uint32_t *numbers, unsigned len)
{
    eps__quad orders = 1;
    for (unsigned i = 0, run = 0; i < len; i++) {
        run = i > 0 && numbers[i] == numbers[i - 1] ? run + 1 : 1;
        orders = orders * (i + 1) / run;
    }
    return orders;
}

/* M23: j steps before the first one a copy that waits is drawn with probability p/(1 + j p). */
void eps__b_min_sep_bases(eps__quad *base, const struct eps__b_min_sep_layout *layout, size_t i)
{
    eps__quad p = layout->b_min_sep->banded.p, never = 1 - p;
    unsigned k = layout->b_min_sep->examples, waiting = 1;
    if (i < layout->lead) {
        eps__quad j = layout->lead - i;
        never = (1 + (j - 1) * p) / (1 + j * p);
        p = p / (1 + j * p);
    }
    for (unsigned j = 0; j <= k; j++) {
        layout->chance[j] = 1;
        for (unsigned e = 0; e < k; e++)
            layout->chance[j] *= e < j ? p * (k - e) / (e + 1) : never;
    }
    for (size_t at = 0; at < layout->drawings_len; at++) {
        const uint32_t *took = layout->took + at * layout->copies;
        while (at >= layout->drawings_at[waiting + 1])
            waiting++;
        base[at] = orders_of(took, waiting);
        for (unsigned c = 0; c < waiting; c++)
            base[at] *= layout->chance[took[c]];
    }
}

double eps__b_min_sep_base_units(const struct eps__b_min_sep_layout *layout)
{
    return (double)layout->copies * (5.0 * layout->b_min_sep->examples + 8);
}

/* ------------------------------------------------------------ the layout */

void eps__b_min_sep_layout_clear(struct eps__b_min_sep_layout *layout)
{
    free(layout->waiting);
    free(layout->others);
    free(layout->first);
    free(layout->items);
    free(layout->drawings);
    free(layout->took);
    free(layout->chance);
    free(layout->places);
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

/* The transition from a state whose first `waiting` copies wait and draw took[c] examples each. */
static struct eps__b_min_sep_transition transition(const struct eps__b_min_sep_layout *layout, const unsigned *stages,
                                                   unsigned waiting, const uint32_t *took)
{
    unsigned after[EPS__B_MIN_SEP_COPIES_MAX];
    size_t least = SIZE_MAX;
    for (unsigned c = 0; c < layout->copies; c++) {
        after[c] = c >= waiting  ? later(&layout->stages, stages[c], 1)
                   : took[c] > 0 ? drawn(&layout->stages, 1, took[c])
                                 : 0;
        size_t left = left_of(&layout->stages, after[c]);
        least = left < least ? left : least;
    }
    for (unsigned c = 0; c < layout->copies; c++)
        after[c] = later(&layout->stages, after[c], least);
    eps__multiset_sort(after, layout->copies);
    assert(1 + least <= layout->stages.separation);
    return (struct eps__b_min_sep_transition){(uint32_t)place(layout, after), (uint32_t)(1 + least)};
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

static void make_drawings(struct eps__b_min_sep_layout *layout)
{
    size_t index = 0;
    for (unsigned waiting = 1; waiting <= layout->copies; waiting++) {
        unsigned took[EPS__B_MIN_SEP_COPIES_MAX] = {0};
        layout->drawings_at[waiting] = index;
        do {
            struct eps__b_min_sep_drawing *drawing = &layout->drawings[index];
            *drawing = (struct eps__b_min_sep_drawing){0, 0};
            for (unsigned c = 0; c < layout->copies; c++)
                layout->took[index * layout->copies + c] = c < waiting ? took[c] : 0;
            for (unsigned c = 0; c < waiting; c++) {
                drawing->together += drawing->all * took[c];
                drawing->all += took[c];
            }
            layout->reach = drawing->all > layout->reach ? drawing->all : layout->reach;
            index++;
        } while (eps__multiset_next(took, waiting, layout->b_min_sep->examples + 1));
    }
    layout->drawings_at[layout->copies + 1] = index;
    assert(index == layout->drawings_len && layout->reach == (size_t)layout->copies * layout->b_min_sep->examples);
}

static void make_transitions(struct eps__b_min_sep_layout *layout)
{
    unsigned stages[EPS__B_MIN_SEP_COPIES_MAX] = {0}, copies = layout->copies;
    size_t index = 0, state = 0;
    do {
        unsigned waiting = 1;
        while (waiting < copies && stages[waiting] == 0)
            waiting++;
        layout->waiting[state] = (uint8_t)waiting;
        for (unsigned c = 1; c < copies; c++) /* in ascending order, so those that wait come first */
            layout->others[state * (copies - 1) + (c >= waiting ? c - waiting : copies - 1 - c)] = stages[c];
        layout->first[state++] = (uint32_t)index;
        for (size_t at = layout->drawings_at[waiting]; at < layout->drawings_at[waiting + 1]; at++)
            layout->items[index++] = transition(layout, stages, waiting, layout->took + at * copies);
    } while (eps__multiset_next(stages + 1, copies - 1, (unsigned)layout->stages.len));
    assert(index == layout->len && state == layout->states);
    layout->first[state] = (uint32_t)index;
}

enum eps_status eps__b_min_sep_layout_make(struct eps__b_min_sep_layout *layout, const struct eps__b_min_sep *b_min_sep,
                                           unsigned copies)
{
    struct eps__b_min_sep_stages stages = eps__b_min_sep_stages_of(b_min_sep);
    assert(copies >= 1 && copies < EPS__B_MIN_SEP_COPIES_MAX && b_min_sep->banded.width <= b_min_sep->separation);
    assert(b_min_sep->examples >= 1 && (!b_min_sep->warm || b_min_sep->examples == 1));
    *layout = (struct eps__b_min_sep_layout){.b_min_sep = b_min_sep, .stages = stages, .copies = copies};
    layout->steps = eps__b_min_sep_steps_of(b_min_sep);
    layout->lead = layout->steps - b_min_sep->banded.len;
    layout->states = (size_t)eps__multisets((double)stages.len, copies - 1);
    layout->len = (size_t)eps__b_min_sep_transitions((double)stages.len, b_min_sep->examples, copies);
    for (unsigned waiting = 1; waiting <= copies; waiting++)
        layout->drawings_len += (size_t)eps__multisets(b_min_sep->examples + 1.0, waiting);
    layout->waiting = malloc(layout->states * sizeof *layout->waiting);
    layout->others = malloc(layout->states * copies * sizeof *layout->others);
    layout->first = malloc((layout->states + 1) * sizeof *layout->first);
    layout->items = malloc(layout->len * sizeof *layout->items);
    layout->drawings = malloc(layout->drawings_len * sizeof *layout->drawings);
    layout->took = malloc(layout->drawings_len * copies * sizeof *layout->took);
    layout->chance = malloc((b_min_sep->examples + 1) * sizeof *layout->chance);
    layout->places = malloc(stages.len * copies * sizeof *layout->places);
    if (!layout->waiting || !layout->others || !layout->first || !layout->items || !layout->drawings || !layout->took ||
        !layout->chance || !layout->places)
        return EPS_NO_MEMORY;
    for (size_t stage = 0; stage < stages.len; stage++)
        for (unsigned j = 0; j + 1 < copies; j++)
            layout->places[stage * (copies - 1) + j] = stage > 0 ? (size_t)eps__multisets((double)stage, j + 1) : 0;
    make_drawings(layout);
    make_transitions(layout);
    return EPS_OK;
}
