/*
 * See b_min_sep.h. Sums over the paths of copies from state to state, forward in time.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/moments/laws/b_min_sep.h"

#include <assert.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <sleef.h>

#include "lib/base/error.h"
#include "lib/moments/laws/b_min_sep_layout.h"
#include "lib/moments/laws/multisets.h"
#include "lib/moments/laws/raw.h"
#include "lib/numerics/bound.h"
#include "lib/base/progress.h"

enum {
    BUILDING = 30, /* cost of making a transition, in operations */
    CONVERGING = 2 /* convergence is tested every CONVERGING separations */
};

#define TRANSITIONS_MAX 4e6
#define NUMBERS_MAX 5e7 /* numbers that are held at once, at most */
#define CACHED 3e5      /* numbers that fit into the processor's cache, approximately */
#define MISSED 4.0      /* a step takes this many times as long if they do not fit */
/* The rarest path has a probability of at least e^-SMALLEST (M23), so no number underflows: the range of a long double
 * ends at e^-11355. */
#define SMALLEST 2500.0

/* The error bound of one step, in units of roundoff of its own precision (M23). */
static double once_of(const struct eps__b_min_sep_layout *layout)
{
    double banded = (double)layout->copies * (4.0 * layout->b_min_sep->examples + 4);
    return 1.01 * (6 * (double)layout->most + (double)layout->stride + banded + (double)layout->entries + 4);
}

/* The error bound of E X^a: that of all steps, of the first weights, and of the sum over the last states. */
static double units_of(const struct eps__b_min_sep_layout *layout)
{
    double begins = 8.0 * (double)layout->copies + (double)layout->begins_len + 8;
    double ends = (double)layout->states * (double)(layout->b_min_sep->separation + 1);
    return (double)layout->b_min_sep->banded.len * once_of(layout) + 1.01 * (begins + ends);
}

/* ------------------------------------------------------------ sums */

#define NUMBER eps__quad
#define OF(name) name##_quad
#define EXP expq
#define ROUNDOFF EPS__QUAD_ROUNDOFF
#include "lib/moments/laws/b_min_sep_of.h"
#undef NUMBER
#undef OF
#undef EXP
#undef ROUNDOFF

#define NUMBER long double
#define OF(name) name##_long
#define EXP expl
#define ROUNDOFF 0x1p-64L
#include "lib/moments/laws/b_min_sep_of.h"
#undef NUMBER
#undef OF
#undef EXP
#undef ROUNDOFF

double eps__b_min_sep_operations(const struct eps__b_min_sep *b_min_sep, unsigned a, double *numbers)
{
    struct eps__b_min_sep_stages stages = eps__b_min_sep_stages_of(b_min_sep);
    double p = b_min_sep->banded.p, drawings = p > 0 ? -3 * log(p) : 0;
    double len = eps__b_min_sep_transitions((double)stages.len, b_min_sep->examples, a),
           steps = (double)b_min_sep->banded.len;
    /* Stages of a history before the first step exist only during the first `separation` steps. */
    struct eps__b_min_sep lasting = *b_min_sep;
    lasting.warm = false;
    double first = b_min_sep->warm ? fmin((double)b_min_sep->separation, steps) : 0;
    double last = eps__b_min_sep_transitions((double)eps__b_min_sep_stages_of(&lasting).len, b_min_sep->examples, a);
    double changes = fmin((double)b_min_sep->banded.changes, steps);
    double begins = b_min_sep->warm ? eps__multisets((double)b_min_sep->separation, a) : 1;
    double held = eps__multisets((double)stages.len, a - 1) * (double)(b_min_sep->separation + 1);
    double reach = 0.5 * a * a * (double)b_min_sep->examples * (double)b_min_sep->examples;
    *numbers = held + len * (4 + (double)a / 2) + 3 * begins + reach * (double)b_min_sep->banded.width;
    /* Every state is reached from the likeliest one within two separations; on the way a copy is drawn at most three
     * times (M23). */
    double waitings = p < 1 ? -(2 * (double)b_min_sep->separation + 2) * log1p(-p) : 0;
    if (len > TRANSITIONS_MAX || *numbers > NUMBERS_MAX || a >= EPS__B_MIN_SEP_COPIES_MAX ||
        a * (double)b_min_sep->examples * (drawings + waitings) > SMALLEST)
        return INFINITY;
    double missed = held > CACHED ? MISSED : 1;
    return len * (BUILDING + first * missed + changes * (a + 1)) + last * (steps - first) * missed + begins * a + held;
}

enum eps_status eps__b_min_sep_raw(const struct eps_context *context, eps__quad *raw, double *units,
                                   const struct eps__b_min_sep *b_min_sep, unsigned a,
                                   enum eps__b_min_sep_precision precision)
{
    struct eps__b_min_sep_layout layout;
    double own = 0;
    *raw = (eps__quad)NAN;
    enum eps_status status = eps__b_min_sep_layout_make(&layout, b_min_sep, a);
    if (status == EPS_OK)
        status = precision == EPS__B_MIN_SEP_QUAD ? run_quad(context, &layout, raw, &own)
                                                  : run_long(context, &layout, raw, &own);
    *units = own * (precision == EPS__B_MIN_SEP_QUAD ? 1 : EPS__LONG_UNITS);
    eps__b_min_sep_layout_clear(&layout);
    return status;
}

/* Whether an order that takes `more` operations in long double is computed in quadruple precision. That is so, from
 * order 2 on, as long as all orders together stay within `operations`. *spent: updated. */
static bool exactly(double *spent, double more, double operations)
{
    *spent += (EPS__B_MIN_SEP_QUAD_COST - 1) * more;
    return *spent <= operations;
}

unsigned eps__b_min_sep_fits(const struct eps__b_min_sep *b_min_sep, double operations, unsigned max_order,
                             double *spent)
{
    unsigned most = 1,
             limit = max_order > 0 && max_order < EPS__B_MIN_SEP_ORDERS_MAX ? max_order : EPS__B_MIN_SEP_ORDERS_MAX;
    double numbers, more;
    *spent = 0;
    for (unsigned a = 2; a <= limit; a++) {
        more = eps__b_min_sep_operations(b_min_sep, a, &numbers);
        if (!(*spent + more <= operations))
            break;
        *spent += more;
        most = a;
    }
    double with = *spent;
    for (unsigned a = 2; a <= most; a++) {
        more = eps__b_min_sep_operations(b_min_sep, a, &numbers);
        if (exactly(&with, more, operations))
            *spent = with;
    }
    return most;
}

enum eps_status eps__b_min_sep_moments(const struct eps_context *context, struct eps__orders *orders,
                                       struct eps__laws *laws, const struct eps__b_min_sep *b_min_sep,
                                       double operations, unsigned max_order)
{
    eps__quad raw[EPS__B_MIN_SEP_ORDERS_MAX + 1] = {1, 1};
    double units[EPS__B_MIN_SEP_ORDERS_MAX + 1] = {0}, with = 0, spent, numbers;
    unsigned most = eps__b_min_sep_fits(b_min_sep, operations, max_order, &spent);
    for (unsigned a = 2; a <= most; a++)
        with += eps__b_min_sep_operations(b_min_sep, a, &numbers);
    for (unsigned a = 2; a <= most; a++) {
        bool exact = exactly(&with, eps__b_min_sep_operations(b_min_sep, a, &numbers), operations);
        enum eps_status status = eps__b_min_sep_raw(context, &raw[a], &units[a], b_min_sep, a,
                                                    exact ? EPS__B_MIN_SEP_QUAD : EPS__B_MIN_SEP_LONG);
        if (status != EPS_OK)
            return status;
    }
    return eps__raw_tell(orders, laws, raw, units, most, EPS__B_MIN_SEP_ORDERS_MAX);
}

double eps__b_min_sep_waits(const struct eps__b_min_sep *b_min_sep, double q, double *waits)
{
    size_t len = b_min_sep->banded.len, b = b_min_sep->separation;
    double exponent = q < 1 ? b_min_sep->examples * Sleef_cinz_log1pd1_u10purec(-q) : -INFINITY;
    double stays = q < 1 ? Sleef_cinz_expd1_u10purec(exponent) : 0;
    double leaves = q < 1 ? -Sleef_cinz_expm1d1_u10purec(exponent) : 1;
    double p = b_min_sep->banded.p, first = b_min_sep->warm ? 1 / (1 + (double)(b - 1) * p) : 1;
    for (size_t i = 0; i < len; i++) {
        double back = i >= b ? waits[i - b] * leaves : b_min_sep->warm && i > 0 ? p * first : 0;
        if (b == 1)
            waits[i] = first;
        else
            waits[i] = i == 0 ? first : waits[i - 1] * stays + back;
    }
    /* A step's factor rounds its exponent. If the exponent is not finite, the factor is exactly 0 or 1. */
    return (16 + (isfinite(exponent) ? 6 * -exponent : 0)) * (double)(len + 4) * EPS__UNIT_ROUNDOFF;
}
