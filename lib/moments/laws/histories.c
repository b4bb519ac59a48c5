/*
 * See histories.h. A state counts the copies with each history: a copies with h histories have C(a + h - 1, a) states,
 * while ordered copies would have h^a. While the steps are equal, the state soon grows only by a constant factor per
 * step, and the remaining equal steps are a power of it.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/moments/laws/histories.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/progress.h"
#include "lib/moments/laws/multisets.h"
#include "lib/moments/laws/poisson.h"
#include "lib/numerics/bound.h"

enum {
    ORDERS_MOST = 64,
    WIDTH_MOST = 64, /* bits of a code */
    POLLED = 1 << 14,
    SETTLING = 12 /* with a separation, equal steps converge after about SETTLING separations */
};

#define PATIENCE 2.5 /* a chain is given up after this many times the expected steps; it may converge slowly */

/* The unit roundoff of long double; its range is that of quadruple precision. */
#define LONG_ROUNDOFF 0x1p-64L
_Static_assert(LDBL_MANT_DIG > 63 && LDBL_MIN_EXP < -16380 && LDBL_MAX_EXP > 16383, "an extended long double");

/* ------------------------------------------------------------ histories */

/* What one copy may have done: bit d of `steps` says whether it took part d steps ago, d < width; bit 0 is the current
 * step. */
struct code {
    uint64_t steps;
    unsigned old, young; /* its histories before and after the step */
    bool waits;          /* it takes part in this step, or could have */
};

/* All codes in ascending order, so that those of one history are neighbours. */
struct codes {
    struct code *items;
    size_t len, histories;
};

static void codes_free(struct codes *codes)
{
    free(codes->items);
}

/* The number of subsets of `width` steps in which any two are at least `separation` apart. */
static double subsets(size_t width, size_t separation)
{
    double count[WIDTH_MOST + 1] = {1};
    assert(width <= WIDTH_MOST);
    for (size_t w = 1; w <= width; w++)
        count[w] = count[w - 1] + (w >= separation ? count[w - separation] : 1);
    return count[width];
}

/* Writes the subsets in ascending order. */
static size_t list_subsets(uint64_t *list, size_t width, size_t separation)
{
    size_t len = 1;
    list[0] = 0;
    for (size_t w = 0; w < width; w++) { /* those whose earliest step is w steps ago */
        uint64_t own = UINT64_C(1) << w, later = w < separation ? 1 : UINT64_C(1) << (w - separation + 1);
        for (size_t i = 0; list[i] < later && list[i] < own; i++)
            list[len++] = own | list[i];
    }
    return len;
}

/* The rank of a history among all of them. */
static unsigned rank_of(const uint64_t *histories, size_t len, uint64_t history)
{
    size_t low = 0, high = len;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        *(histories[middle] <= history ? &low : &high) = middle;
    }
    assert(histories[low] == history);
    return (unsigned)low;
}

static bool codes_make(struct codes *codes, size_t width, size_t separation)
{
    size_t len = (size_t)subsets(width, separation), histories = (size_t)subsets(width - 1, separation);
    uint64_t recent = separation > 1 ? (UINT64_C(1) << (separation < width ? separation : width)) - 2 : 0;
    uint64_t *lists = malloc((len + histories) * sizeof *lists), *before = lists + len;
    *codes = (struct codes){.items = malloc(len * sizeof *codes->items), .len = len, .histories = histories};
    if (!lists || !codes->items) {
        free(lists);
        codes_free(codes);
        codes->items = NULL;
        return false;
    }
    size_t listed = list_subsets(lists, width, separation), known = list_subsets(before, width - 1, separation);
    assert(listed == len && known == histories);
    for (size_t i = 0; i < len; i++) {
        uint64_t steps = lists[i], kept = steps & ~(UINT64_C(1) << (width - 1));
        codes->items[i] = (struct code){.steps = steps,
                                        .old = rank_of(before, histories, steps >> 1),
                                        .young = rank_of(before, histories, kept),
                                        .waits = (steps & recent) == 0};
    }
    free(lists);
    return true;
}

/* ------------------------------------------------------------ steps */

/* A warm start is a cold one b - 1 steps earlier (M23): at these leading steps nothing meets. */
static size_t lead_of(const struct eps__histories *law)
{
    return law->warm ? law->separation - 1 : 0;
}

static size_t steps_of(const struct eps__histories *law)
{
    return law->banded->len + lead_of(law);
}

/* row[d]: the entry of the Gram matrix of step i and the step d before it. Entries with a step before a cold start are
 * those of later rows, as there is no participation (M17); with a leading step they are 0. */
static void row_of(double *row, const struct eps__histories *law, size_t i)
{
    size_t lead = lead_of(law), width = law->banded->width;
    for (size_t d = 0; d < width; d++)
        row[d] = lead == 0 || i >= lead + d ? law->banded->gram[(i - lead) * width + d] : 0;
}

static eps__quad tilt_of(const struct eps__histories *law, size_t i)
{
    size_t lead = lead_of(law);
    return law->tilt && i >= lead ? law->tilt[i - lead] : 0;
}

/* M23: j steps before the first one a copy that waits takes part with probability p/(1 + j p). */
static void probability_of(eps__quad *p, eps__quad *never, const struct eps__histories *law, size_t i)
{
    size_t lead = lead_of(law);
    eps__quad own = law->banded->p, j = i < lead ? lead - i : 0;
    *p = j > 0 ? own / (1 + j * own) : own;
    *never = j > 0 ? (1 + (j - 1) * own) / (1 + j * own) : 1 - own;
}

/* Whether steps i and i - 1 have the same row, the same tilt and the same probabilities. */
static bool alike(const struct eps__histories *law, size_t i)
{
    const struct eps__banded_gram *banded = law->banded;
    size_t lead = lead_of(law), width = banded->width;
    assert(i > 0 && i < steps_of(law));
    if (lead > 0 && i < lead + width) /* leading steps differ in p, and the first rows in what they share with these */
        return false;
    if (tilt_of(law, i) != tilt_of(law, i - 1))
        return false;
    return memcmp(banded->gram + (i - lead) * width, banded->gram + (i - lead - 1) * width,
                  width * sizeof *banded->gram) == 0;
}

/* ------------------------------------------------------------ sums */

/* Advances to the next ascending sequence of numbers below `limit`, in lexicographic order; false after the last
 * one. */
static bool next_rising(unsigned *numbers, unsigned len, unsigned limit)
{
    for (unsigned j = len; j-- > 0;)
        if (numbers[j] + 1 < limit) {
            unsigned up = numbers[j] + 1;
            for (; j < len; j++)
                numbers[j] = up;
            return true;
        }
    return false;
}

/* Measured costs of a transition, and estimates of the steps until a chain converges. */
struct pace {
    double made;                /* operations to make a transition, for each copy */
    double weighed;             /* to weigh it, for each band */
    double step;                /* in a step */
    double steps, steps_a_band; /* steps until a chain converges: a constant, and an addition for each band */
};
static const struct pace pace_quad = {20, 22, 43, 2, 10}, pace_long = {17, 2, 6, 2, 6}, pace_double = {17, 2, 3, 2, 6};

/* The number of runs of equal steps. */
static double runs_of(const struct eps__histories *law)
{
    double lead = (double)lead_of(law), width = (double)law->banded->width;
    return fmin((double)law->banded->changes + (lead > 0 ? lead + width : 0), (double)steps_of(law));
}

/* The estimated number of steps that are made one by one. */
static double steps_at(const struct pace *pace, const struct eps__histories *law)
{
    double len = (double)steps_of(law), runs = runs_of(law), width = (double)law->banded->width;
    double settling = pace->steps + pace->steps_a_band * width;
    if (law->separation > 1)
        settling += SETTLING * (double)law->separation;
    double steps = fmin(len, runs * settling);
    double blocks = floor(1 + runs / (2 * width));
    if (runs < len / 2 && steps > 2 * runs) /* each block has one long run of equal steps, and others at its ends */
        steps = fmin(steps, 2 * runs + blocks * settling);
    return steps;
}

#define NUMBER eps__quad
#define OF(name) name##_quad
#define UNIT EPS__QUAD_ROUNDOFF
#include "lib/moments/laws/histories_of.h"
#undef NUMBER
#undef OF
#undef UNIT

#define NUMBER long double
#define OF(name) name##_long
#define UNIT LONG_ROUNDOFF
#include "lib/moments/laws/histories_of.h"
#undef NUMBER
#undef OF
#undef UNIT

#define NUMBER double
#define OF(name) name##_double
#define UNIT EPS__UNIT_ROUNDOFF
#include "lib/moments/laws/histories_of.h"
#undef NUMBER
#undef OF
#undef UNIT

/* ------------------------------------------------------------ the interface */

double eps__histories_transitions(const struct eps__histories *histories, unsigned a)
{
    size_t width = histories->banded->width;
    return width <= WIDTH_MOST ? eps__multisets(subsets(width, histories->separation), a) : INFINITY;
}

double eps__histories_operations(const struct eps__histories *histories, unsigned a, enum eps__precision precision)
{
    const struct pace *pace = precision == EPS__PRECISION_QUAD   ? &pace_quad
                              : precision == EPS__PRECISION_LONG ? &pace_long
                                                                 : &pace_double;
    double weighed = runs_of(histories) * (double)(histories->banded->width + 1) * pace->weighed;
    double steps = steps_at(pace, histories) * pace->step;
    return eps__histories_transitions(histories, a) * (pace->made * a + weighed + steps) + 1e4;
}

/* M18 and M29: the rarest history; M27: with the least tilts. */
double eps__histories_smallest(const struct eps__histories *histories, unsigned a)
{
    const struct eps__banded_gram *banded = histories->banded;
    double b = (double)histories->separation, first = banded->p / (1 + (double)lead_of(histories) * banded->p);
    double takes = banded->p > 0 ? -log(first) : 0, stays = banded->p < 1 ? -log1p(-banded->p) : 0, most = 0, all = 0;
    for (size_t i = 0; histories->tilt && i < banded->len; i++) {
        double less = fmax(-(double)histories->tilt[i], 0);
        most = fmax(most, less);
        all += less;
    }
    double coins = (double)banded->width + b - 1, taken = ceil((double)banded->width / b);
    double rarest = coins * stays + taken * fmax(takes - stays, 0) + taken * most;
    return a * (rarest + banded->p * all);
}

enum eps_status eps__histories_raw(const struct eps_context *context, eps__quad *raw, double *units,
                                   const struct eps__histories *histories, unsigned a, enum eps__precision precision)
{
    assert(histories->banded->width <= WIDTH_MOST && histories->separation >= 1);
    *raw = (eps__quad)NAN;
    *units = 0;
    return precision == EPS__PRECISION_QUAD   ? moment_quad(context, histories, a, raw, units)
           : precision == EPS__PRECISION_LONG ? moment_long(context, histories, a, raw, units)
                                              : moment_double(context, histories, a, raw, units);
}
