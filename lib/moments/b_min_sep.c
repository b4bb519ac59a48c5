/*
 * Copies of one user's examples that differ in nothing but how long each still sits out, and by how many examples it was
 * drawn: its kind. A state is a multiset of kinds of which one waits at least; when none does, nothing happens until the
 * first one waits again, and that step is jumped to.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/moments/b_min_sep.h"

#include <assert.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <sleef.h>

#include "lib/error.h"
#include "lib/moments/multisets.h"
#include "lib/moments/raw.h"
#include "lib/numerics/bound.h"
#include "lib/progress.h"

enum { COPIES_MAX = 64, BUILDING = 30, SETTLING = 2 };

#define TRANSITIONS_MAX 4e6
#define NUMBERS_MAX 4e7 /* that are held at once */
#define CACHED 3e5      /* of them, about, that are near at hand */
#define MISSED 4.0      /* times as long a step takes where they are not */
#define SMALLEST \
    2500.0 /* -ln of what no number on the way is under: a long double has 11,000; for one copy half of it, a double 700 */
#define LONG_UNITS 0x1p49 /* units of quadruple roundoff in one of 64 bits */

/* ------------------------------------------------------------ kinds */

/*
 * Kind 0 waits. Then those that sit out r more steps and meet nobody any more, by r <= b - width; then those that were drawn d < width
 * steps ago, by d and by how many of the user's examples were; last those that a process before the first step made sit out for longer
 * than b - width, which meet nobody either, and of which there are none after b steps.
 */
struct kinds {
    size_t separation, width, examples;
    size_t meeting, virtual_, len; /* where the second, the third group begin; all */
};

static struct kinds kinds_of(const struct eps__spaced *spaced)
{
    struct kinds kinds = {spaced->separation, spaced->coins.width, spaced->examples, 0, 0, 0};
    kinds.meeting = kinds.separation - kinds.width + 1;
    kinds.virtual_ = kinds.meeting + (kinds.width - 1) * kinds.examples;
    kinds.len = kinds.virtual_ + (spaced->warm ? kinds.width - 1 : 0);
    return kinds;
}

/* Sits out r < b more steps and meets nobody. */
static unsigned silent(const struct kinds *kinds, size_t r)
{
    assert(r < kinds->separation && (r < kinds->meeting || kinds->virtual_ < kinds->len));
    return (unsigned)(r < kinds->meeting ? r : kinds->virtual_ + r - kinds->meeting);
}

/* Was drawn d steps ago, 1 <= d <= b, so many examples of it. */
static unsigned drawn(const struct kinds *kinds, size_t d, size_t examples)
{
    if (d >= kinds->width)
        return silent(kinds, kinds->separation - d);
    return (unsigned)(kinds->meeting + (d - 1) * kinds->examples + examples - 1);
}

/* What it still sits out; *distance, *examples: of those that others meet, else 0. */
static size_t left_of(const struct kinds *kinds, unsigned kind, size_t *distance, size_t *examples)
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
static unsigned later(const struct kinds *kinds, unsigned kind, size_t steps)
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

/* Copies that meet at a distance (0: are drawn together): so many pairs of examples. */
struct meeting {
    uint32_t distance, times;
};

struct transition {
    uint32_t from, to, jump;
};

/* What a transition weighs. */
struct cause {
    eps__quad base; /* the coins alone */
    size_t meetings;
};

struct begin {
    size_t step, state;
    eps__quad weight;
};

struct layout {
    const struct eps__spaced *spaced;
    struct kinds kinds;
    unsigned copies;
    size_t states;           /* all but one copy's kinds: the one waits */
    size_t len, lasting_len; /* transitions; those without a history before the first step come first */
    struct transition *items;
    struct cause *causes;
    struct meeting *meetings; /* `stride` for each */
    size_t stride;            /* copies */
    size_t *places;           /* [kind][j]: C(kind + j, j + 1) */
    eps__quad *chance;        /* [j]: of being drawn by j of the examples */
    size_t reach, most,
        entries; /* the largest times; the largest sum of one transition's; transitions into one state */
    struct begin *begins;
    size_t begins_len;
};

static void layout_clear(struct layout *layout)
{
    free(layout->items);
    free(layout->causes);
    free(layout->meetings);
    free(layout->places);
    free(layout->chance);
    free(layout->begins);
}

/* The place of copies of which the first waits, in rising order, among all states. */
static size_t place(const struct layout *layout, const unsigned *kinds)
{
    size_t sum = 0;
    assert(kinds[0] == 0);
    for (unsigned j = 0; j + 1 < layout->copies; j++)
        sum += layout->places[kinds[j + 1] * (layout->copies - 1) + j];
    assert(sum < layout->states);
    return sum;
}

/* Sorts the copies, and has them sit out what all of them do; the steps that takes. */
static size_t skip(const struct layout *layout, unsigned *copies)
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
static void describe(struct layout *layout, size_t index, size_t from, const unsigned *kinds, unsigned waiting,
                     const unsigned *took)
{
    struct cause *cause = &layout->causes[index];
    struct meeting *meeting = layout->meetings + index * layout->stride;
    unsigned after[COPIES_MAX];
    size_t all = 0, together = 0, sum = 0;
    *cause = (struct cause){orders_of(took, waiting), 0};
    for (unsigned c = 0; c < waiting; c++) {
        cause->base *= layout->chance[took[c]];
        together += all * took[c];
        all += took[c];
        after[c] = took[c] > 0 ? drawn(&layout->kinds, 1, took[c]) : 0;
    }
    if (together > 0)
        meeting[cause->meetings++] = (struct meeting){0, (uint32_t)together};
    for (unsigned c = waiting; c < layout->copies; c++) {
        size_t distance, examples;
        left_of(&layout->kinds, kinds[c], &distance, &examples);
        after[c] = later(&layout->kinds, kinds[c], 1);
        if (distance == 0 || all == 0)
            continue;
        struct meeting *last = cause->meetings > 0 ? &meeting[cause->meetings - 1] : NULL;
        if (last && last->distance == distance)
            last->times += (uint32_t)(all * examples);
        else
            meeting[cause->meetings++] = (struct meeting){(uint32_t)distance, (uint32_t)(all * examples)};
    }
    assert(cause->meetings <= layout->stride);
    for (size_t m = 0; m < cause->meetings; m++) {
        sum += meeting[m].times;
        layout->reach = meeting[m].times > layout->reach ? meeting[m].times : layout->reach;
    }
    layout->most = sum > layout->most ? sum : layout->most;
    size_t jump = 1 + skip(layout, after);
    assert(jump <= layout->kinds.separation && from < layout->states);
    layout->items[index] = (struct transition){(uint32_t)from, (uint32_t)place(layout, after), (uint32_t)jump};
}

/* How many transitions there are from states whose copies have so many kinds: with m that do not wait, any drawing of the others. */
static double transitions(double kinds, unsigned examples, unsigned copies)
{
    double count = 0;
    for (unsigned m = 0; m < copies; m++)
        count += (m == 0 || kinds > 1 ? eps__multisets(kinds - 1, m) : 0) * eps__multisets(examples + 1.0, copies - m);
    return count;
}

static void make_transitions(struct layout *layout)
{
    unsigned kinds[COPIES_MAX] = {0}, copies = layout->copies;
    size_t index = 0, from = 0;
    do {
        unsigned waiting = 1, took[COPIES_MAX] = {0};
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
static enum eps_status make_begins(struct layout *layout)
{
    size_t separation = layout->spaced->separation;
    bool warm = layout->spaced->warm;
    layout->begins_len = warm ? (size_t)eps__multisets((double)separation, layout->copies) : 1;
    layout->begins = malloc(layout->begins_len * sizeof *layout->begins);
    if (!layout->begins)
        return EPS_NO_MEMORY;
    eps__quad p = layout->spaced->coins.p, waits = 1 / (1 + (eps__quad)(separation - 1) * p);
    unsigned left[COPIES_MAX] = {0}, copies[COPIES_MAX];
    size_t index = 0;
    do {
        struct begin *begin = &layout->begins[index++];
        *begin = (struct begin){.weight = orders_of(left, layout->copies)};
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

static enum eps_status count_entries(struct layout *layout)
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

static enum eps_status layout_make(struct layout *layout, const struct eps__spaced *spaced, unsigned copies)
{
    struct kinds kinds = kinds_of(spaced);
    assert(copies >= 1 && copies < COPIES_MAX && spaced->coins.width <= spaced->separation);
    assert(spaced->examples >= 1 && (!spaced->warm || spaced->examples == 1));
    *layout = (struct layout){.spaced = spaced, .kinds = kinds, .copies = copies, .stride = copies};
    layout->states = (size_t)eps__multisets((double)kinds.len, copies - 1);
    layout->len = (size_t)transitions((double)kinds.len, spaced->examples, copies);
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

/* What one step is off by, in the roundoff of its own precision (L50). */
static double once_of(const struct layout *layout)
{
    double coins = (double)layout->copies * (4.0 * layout->spaced->examples + 4);
    return 1.01 * (6 * (double)layout->most + (double)layout->stride + coins + (double)layout->entries + 4);
}

/* And the sum over the last states. */
static double units_of(const struct layout *layout)
{
    double begins = 8.0 * (double)layout->copies + (double)layout->begins_len + 8;
    double ends = (double)layout->states * (double)(layout->spaced->separation + 1);
    return (double)layout->spaced->coins.len * once_of(layout) + 1.01 * (begins + ends);
}

/* ------------------------------------------------------------ sums */

#define NUMBER eps__quad
#define OF(name) name##_quad
#define EXP expq
#define ROUNDOFF EPS__QUAD_ROUNDOFF
#include "lib/moments/b_min_sep_of.h"
#undef NUMBER
#undef OF
#undef EXP
#undef ROUNDOFF

#define NUMBER long double
#define OF(name) name##_long
#define EXP expl
#define ROUNDOFF 0x1p-64L
#include "lib/moments/b_min_sep_of.h"
#undef NUMBER
#undef OF
#undef EXP
#undef ROUNDOFF

double eps__spaced_operations(const struct eps__spaced *spaced, unsigned a, double *numbers)
{
    struct kinds kinds = kinds_of(spaced);
    double p = spaced->coins.p, drawings = p > 0 ? -3 * log(p) : 0;
    double len = transitions((double)kinds.len, spaced->examples, a), steps = (double)spaced->coins.len;
    double changes = fmin((double)spaced->coins.changes, steps);
    double begins = spaced->warm ? eps__multisets((double)spaced->separation, a) : 1;
    double held = eps__multisets((double)kinds.len, a - 1) * (double)(spaced->separation + 1);
    double reach = 0.5 * a * a * (double)spaced->examples * (double)spaced->examples;
    *numbers = held + len * (4 + (double)a / 2) + 3 * begins + reach * (double)spaced->coins.width;
    /* From the likeliest state any is within the steps of two separations, in which a copy is drawn three times at most (L50). */
    double waitings = p < 1 ? -(2 * (double)spaced->separation + 2) * log1p(-p) : 0;
    if (len > TRANSITIONS_MAX || *numbers > NUMBERS_MAX || a >= COPIES_MAX ||
        a * (double)spaced->examples * (drawings + waitings) > SMALLEST)
        return INFINITY;
    return len * (BUILDING + steps * (held > CACHED ? MISSED : 1) + changes * (a + 1)) + begins * a + held;
}

enum eps_status eps__spaced_raw(const struct eps_context *context, eps__quad *raw, double *units,
                                const struct eps__spaced *spaced, unsigned a, enum eps__spaced_precision precision)
{
    struct layout layout;
    double own = 0;
    *raw = (eps__quad)NAN;
    enum eps_status status = layout_make(&layout, spaced, a);
    if (status == EPS_OK)
        status = precision == EPS__SPACED_QUAD ? run_quad(context, &layout, raw, &own)
                                               : run_long(context, &layout, raw, &own);
    *units = own * (precision == EPS__SPACED_QUAD ? 1 : LONG_UNITS);
    layout_clear(&layout);
    return status;
}

/* Whether an order that takes `more` in long doubles has quadruple precision: as long as all orders fit with it, from the first on. */
static bool exactly(double *spent, double more, double operations)
{
    *spent += (EPS__SPACED_QUAD_COST - 1) * more;
    return *spent <= operations;
}

unsigned eps__spaced_fits(const struct eps__spaced *spaced, double operations, unsigned max_order, double *spent)
{
    unsigned most = 1, limit = max_order > 0 && max_order < EPS__SPACED_ORDERS_MAX ? max_order : EPS__SPACED_ORDERS_MAX;
    double numbers, more;
    *spent = 0;
    for (unsigned a = 2; a <= limit; a++) {
        more = eps__spaced_operations(spaced, a, &numbers);
        if (!(*spent + more <= operations))
            break;
        *spent += more;
        most = a;
    }
    double with = *spent;
    for (unsigned a = 2; a <= most; a++) {
        more = eps__spaced_operations(spaced, a, &numbers);
        if (exactly(&with, more, operations))
            *spent = with;
    }
    return most;
}

enum eps_status eps__spaced_moments(const struct eps_context *context, struct eps__orders *orders,
                                    struct eps__laws *laws, const struct eps__spaced *spaced, double operations,
                                    unsigned max_order)
{
    eps__quad raw[EPS__SPACED_ORDERS_MAX + 1] = {1, 1};
    double units[EPS__SPACED_ORDERS_MAX + 1] = {0}, with = 0, spent, numbers;
    unsigned most = eps__spaced_fits(spaced, operations, max_order, &spent);
    for (unsigned a = 2; a <= most; a++)
        with += eps__spaced_operations(spaced, a, &numbers);
    for (unsigned a = 2; a <= most; a++) {
        bool exact = exactly(&with, eps__spaced_operations(spaced, a, &numbers), operations);
        enum eps_status status =
            eps__spaced_raw(context, &raw[a], &units[a], spaced, a, exact ? EPS__SPACED_QUAD : EPS__SPACED_LONG);
        if (status != EPS_OK)
            return status;
    }
    return eps__raw_tell(orders, laws, raw, units, most, EPS__SPACED_ORDERS_MAX);
}

double eps__spaced_waits(const struct eps__spaced *spaced, double q, double *waits)
{
    size_t len = spaced->coins.len, b = spaced->separation;
    double exponent = q < 1 ? spaced->examples * Sleef_cinz_log1pd1_u10purec(-q) : -INFINITY;
    double stays = q < 1 ? Sleef_cinz_expd1_u10purec(exponent) : 0;
    double leaves = q < 1 ? -Sleef_cinz_expm1d1_u10purec(exponent) : 1;
    double p = spaced->coins.p, first = spaced->warm ? 1 / (1 + (double)(b - 1) * p) : 1;
    for (size_t i = 0; i < len; i++) {
        double back = i >= b ? waits[i - b] * leaves : spaced->warm && i > 0 ? p * first : 0;
        if (b == 1)
            waits[i] = first;
        else
            waits[i] = i == 0 ? first : waits[i - 1] * stays + back;
    }
    /* A step's factor rounds its exponent; without an exponent that is a number it is 0 or 1. */
    return (16 + (isfinite(exponent) ? 6 * -exponent : 0)) * (double)(len + 4) * EPS__UNIT_ROUNDOFF;
}
