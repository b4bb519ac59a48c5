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
#include "lib/moments/laws/histories_steps.h"
#include "lib/moments/laws/multisets.h"
#include "lib/moments/laws/poisson.h"
#include "lib/numerics/bound.h"

enum {
    ORDERS_MOST = 64,
    POLLED = 1 << 14,
    SETTLING = 12 /* with a separation, equal steps converge after about SETTLING separations */
};

#define GROUPS_TRANSITIONS 3e6 /* of one sum for groups of copies, at most */
#define SMALLEST_LONG 7000.0   /* every number of a chain is 0 or at least e^-SMALLEST_LONG, */
#define SMALLEST_DOUBLE 600.0  /* and where it is in doubles, e^-SMALLEST_DOUBLE */
#define PATIENCE 2.5 /* a chain is given up after this many times the expected steps; it may converge slowly */

/* The unit roundoff of long double; its range is that of quadruple precision. */
#define LONG_ROUNDOFF 0x1p-64L
_Static_assert(LDBL_MANT_DIG > 63 && LDBL_MIN_EXP < -16380 && LDBL_MAX_EXP > 16383, "an extended long double");

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
    double lead = (double)eps__histories_lead(law), width = (double)law->banded->width;
    return fmin((double)law->banded->changes + (lead > 0 ? lead + width : 0), (double)eps__histories_steps(law));
}

/* The estimated number of steps that are made one by one. */
static double steps_at(const struct pace *pace, const struct eps__histories *law)
{
    double len = (double)eps__histories_steps(law), runs = runs_of(law), width = (double)law->banded->width;
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
    return width <= EPS__CODES_WIDTH_MOST ? eps__multisets(eps__subsets(width, histories->separation), a) : INFINITY;
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
    double b = (double)histories->separation,
           first = banded->p / (1 + (double)eps__histories_lead(histories) * banded->p);
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
    assert(histories->banded->width <= EPS__CODES_WIDTH_MOST && histories->separation >= 1);
    *raw = (eps__quad)NAN;
    *units = 0;
    return precision == EPS__PRECISION_QUAD   ? moment_quad(context, histories, a, raw, units)
           : precision == EPS__PRECISION_LONG ? moment_long(context, histories, a, raw, units)
                                              : moment_double(context, histories, a, raw, units);
}

/* ------------------------------------------------------------ groups of copies */

static double operations_of(const void *law, unsigned copies)
{
    double len = eps__histories_transitions(law, copies);
    return len <= GROUPS_TRANSITIONS ? eps__histories_operations(law, copies, EPS__PRECISION_DOUBLE) : INFINITY;
}

/* The entries of the Gram matrix times `times` are rounded up, by at most 4 units each (M22). */
static enum eps_status sum_of(const struct eps_context *context, eps__quad *sum, double *units, const void *law,
                              unsigned copies, eps__quad times)
{
    struct eps__histories histories = *(const struct eps__histories *)law;
    struct eps__banded_gram banded = *histories.banded;
    double smallest = eps__histories_smallest(&histories, copies);
    banded.times = eps__raise((double)times, 2);
    histories.banded = &banded;
    *sum = (eps__quad)NAN;
    *units = 0;
    if (smallest > SMALLEST_LONG)
        return EPS_OK;
    bool within = smallest <= SMALLEST_DOUBLE;
    enum eps_status status = eps__histories_raw(context, sum, units, &histories, copies,
                                                within ? EPS__PRECISION_DOUBLE : EPS__PRECISION_LONG);
    if (status == EPS_OK && within && !finiteq(*sum))
        status = eps__histories_raw(context, sum, units, &histories, copies, EPS__PRECISION_LONG);
    *units += EPS__DOUBLE_UNITS * 4 * eps__banded_meetings(&banded, histories.separation, copies);
    return status;
}

struct eps__copies eps__histories_copies(const struct eps__histories *histories)
{
    return (struct eps__copies){histories, operations_of, sum_of};
}
