/*
 * See b_min_sep.h. Sums over the paths of copies from state to state, backward in time; those over histories are in
 * histories.c.
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
#include "lib/base/progress.h"
#include "lib/moments/laws/b_min_sep_layout.h"
#include "lib/moments/laws/multisets.h"
#include "lib/numerics/bound.h"

enum {
    BUILDING = 30,   /* cost of making a transition, in operations */
    TILT_UNITS = 8,  /* for each example that is drawn (M27) */
    CONVERGING = 2,  /* convergence is tested every CONVERGING separations */
    SETTLING = 12,   /* equal steps converge after about SETTLING separations */
    WIDE_NUMBERS = 5 /* that a transition between histories holds, and a quarter more for each band */
};

#define TRANSITIONS_MAX 1e7
#define WIDE_MAX 5e6    /* transitions between histories */
#define WIDE_PACE 3.0   /* operations of histories.c for one of those of this file */
#define NUMBERS_MAX 5e7 /* numbers that are held at once, at most */
#define CACHED 3e5      /* numbers that fit into the processor's cache, approximately */
#define MISSED 4.0      /* a step takes this many times as long if they do not fit */
/* The rarest drawing has a probability of at least e^-SMALLEST, so that it does not underflow (M23). */
#define SMALLEST 2500.0
#define SMALLEST_DOUBLE 600.0 /* the same if the numbers are doubles */

/* The error bound of one step, in units of roundoff of its own precision (M23). */
static double once_of(const struct eps__b_min_sep_layout *layout)
{
    double reach = (double)layout->reach, copies = layout->copies, pairs = 0.5 * reach * reach;
    double drawings = (double)eps__multisets(layout->b_min_sep->examples + 1.0, layout->copies);
    double met = layout->b_min_sep->tilt ? copies + TILT_UNITS : copies + 1;
    return 1.01 * (6 * pairs + reach * met + eps__b_min_sep_base_units(layout) + drawings + 8);
}

/* The error bound of E X^a. */
static double units_of(const struct eps__b_min_sep_layout *layout)
{
    return (double)layout->steps * once_of(layout);
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

#define NUMBER double
#define OF(name) name##_double
#define EXP exp
#define ROUNDOFF EPS__UNIT_ROUNDOFF
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

/* -ln of a lower bound on all sums under a tilt; 0 without one (M27). */
static double least_sum(const struct eps__b_min_sep *b_min_sep, unsigned a)
{
    eps__quad tilts = 0;
    for (size_t i = 0; b_min_sep->tilt && i < b_min_sep->banded.len; i++)
        tilts += fmaxq(-b_min_sep->tilt[i], 0);
    return a * b_min_sep->examples * b_min_sep->banded.p * (double)tilts;
}

/* -ln of a lower bound on all parts of sums: the least probability of a drawing of a copies (M23), times the least
 * sum. */
static double rarest(const struct eps__b_min_sep *b_min_sep, unsigned a)
{
    double p = b_min_sep->banded.p, least = p > 0 ? log(p) - log1p(((double)b_min_sep->separation - 1) * p) : 0;
    if (p > 0 && p < 1)
        least = fmin(least, log1p(-p));
    return -least * a * (double)b_min_sep->examples + least_sum(b_min_sep, a);
}

/* ------------------------------------------------------------ more bands than the separation */

static bool is_wide(const struct eps__b_min_sep *b_min_sep)
{
    return b_min_sep->banded.width > b_min_sep->separation;
}

static struct eps__histories histories_of(const struct eps__b_min_sep *b_min_sep)
{
    return (struct eps__histories){.banded = &b_min_sep->banded,
                                   .separation = b_min_sep->separation,
                                   .warm = b_min_sep->warm,
                                   .tilt = b_min_sep->tilt};
}

static double wide_operations(const struct eps__b_min_sep *b_min_sep, unsigned a, double *numbers)
{
    const struct eps__histories histories = histories_of(b_min_sep);
    double len = eps__histories_transitions(&histories, a);
    *numbers = len * (WIDE_NUMBERS + (double)b_min_sep->banded.width / 4);
    if (b_min_sep->examples > 1 || !(len <= WIDE_MAX) || a >= EPS__B_MIN_SEP_COPIES_MAX ||
        eps__histories_smallest(&histories, a) > SMALLEST)
        return INFINITY;
    return eps__histories_operations(&histories, a, EPS__PRECISION_LONG) / WIDE_PACE;
}

static enum eps_status wide_raw(const struct eps_context *context, eps__quad *raw, double *units,
                                const struct eps__b_min_sep *b_min_sep, unsigned a, enum eps__precision precision)
{
    const struct eps__histories histories = histories_of(b_min_sep);
    double smallest = eps__histories_smallest(&histories, a);
    assert(b_min_sep->examples == 1);
    if (smallest > SMALLEST)
        return EPS_OK;
    if (precision == EPS__PRECISION_DOUBLE && smallest > SMALLEST_DOUBLE)
        precision = EPS__PRECISION_LONG;
    enum eps_status status = eps__histories_raw(context, raw, units, &histories, a, precision);
    if (status == EPS_OK && precision == EPS__PRECISION_DOUBLE && !finiteq(*raw))
        status = eps__histories_raw(context, raw, units, &histories, a, EPS__PRECISION_LONG);
    return status;
}

/* ------------------------------------------------------------ the interface */

double eps__b_min_sep_operations(const struct eps__b_min_sep *b_min_sep, unsigned a, double *numbers)
{
    if (is_wide(b_min_sep))
        return wide_operations(b_min_sep, a, numbers);
    struct eps__b_min_sep_stages stages = eps__b_min_sep_stages_of(b_min_sep);
    double b = (double)b_min_sep->separation, k = b_min_sep->examples;
    double len = eps__b_min_sep_transitions((double)stages.len, b_min_sep->examples, a),
           states = eps__multisets((double)stages.len, a - 1), steps = (double)eps__b_min_sep_steps_of(b_min_sep);
    double changes = fmin((double)b_min_sep->banded.changes + (b_min_sep->warm ? 2 * b : 0), steps);
    double held = states * 2 * (b + 1);
    *numbers = held + states * (2 + (double)a / 4) + len / 2 + a * k * (a * k + 1);
    if (len > TRANSITIONS_MAX || *numbers > NUMBERS_MAX || a >= EPS__B_MIN_SEP_COPIES_MAX ||
        rarest(b_min_sep, a) > SMALLEST)
        return INFINITY;
    double missed = held > CACHED ? MISSED : 1;
    double taken = fmin(steps, changes + SETTLING * b);
    double drawings = 0;
    for (unsigned waiting = 1; waiting <= a; waiting++)
        drawings += eps__multisets(k + 1, waiting);
    return len * (BUILDING + taken * missed) + changes * (states * (a + 1) + 8 * drawings);
}

enum eps_status eps__b_min_sep_raw(const struct eps_context *context, eps__quad *raw, double *units,
                                   const struct eps__b_min_sep *b_min_sep, unsigned a, enum eps__precision precision)
{
    struct eps__b_min_sep_layout layout;
    double own = 0, smallest = rarest(b_min_sep, a);
    *raw = (eps__quad)NAN;
    *units = 0;
    if (is_wide(b_min_sep))
        return wide_raw(context, raw, units, b_min_sep, a, precision);
    if (smallest > SMALLEST)
        return EPS_OK;
    enum eps_status status = eps__b_min_sep_layout_make(&layout, b_min_sep, a);
    if (precision == EPS__PRECISION_DOUBLE && smallest > SMALLEST_DOUBLE)
        precision = EPS__PRECISION_LONG;
    if (status == EPS_OK)
        status = precision == EPS__PRECISION_QUAD   ? run_quad(context, &layout, raw, &own)
                 : precision == EPS__PRECISION_LONG ? run_long(context, &layout, raw, &own)
                                                    : run_double(context, &layout, raw, &own);
    if (status == EPS_OK && precision == EPS__PRECISION_DOUBLE && !finiteq(*raw)) {
        precision = EPS__PRECISION_LONG;
        status = run_long(context, &layout, raw, &own);
    }
    *units = own * (precision == EPS__PRECISION_QUAD   ? 1
                    : precision == EPS__PRECISION_LONG ? EPS__LONG_UNITS
                                                       : EPS__DOUBLE_UNITS);
    eps__b_min_sep_layout_clear(&layout);
    return status;
}

const struct eps__b_min_sep_moments eps__b_min_sep_none = {.raw = {1, 1}, .most = 1};

struct eps__b_min_sep_plan eps__b_min_sep_plan_of(const struct eps__b_min_sep *b_min_sep, double operations,
                                                  double further, unsigned max_order)
{
    struct eps__b_min_sep_plan plan = {1, 1, 1, 0, 0, 0};
    unsigned limit = max_order > 0 && max_order < EPS__B_MIN_SEP_ORDERS_MAX ? max_order : EPS__B_MIN_SEP_ORDERS_MAX;
    double numbers;
    for (unsigned a = 2; a <= limit; a++) {
        double more = eps__b_min_sep_operations(b_min_sep, a, &numbers);
        if (plan.limit == plan.most && plan.spent + more <= operations) {
            plan.spent += more;
            plan.most = plan.limit = a;
        } else if (plan.spent + plan.further + more <= further) {
            plan.further += more;
            plan.limit = a;
        } else {
            break;
        }
    }
    plan.at_once = plan.spent;
    for (unsigned a = 2; a <= plan.most; a++) {
        double more = (EPS__B_MIN_SEP_QUAD_COST - 1) * eps__b_min_sep_operations(b_min_sep, a, &numbers);
        if (!(plan.spent + more <= operations))
            break;
        plan.spent += more;
        plan.exact = a;
    }
    return plan;
}

enum eps_status eps__b_min_sep_extend(const struct eps_context *context, struct eps__b_min_sep_moments *moments,
                                      const struct eps__b_min_sep *b_min_sep, const struct eps__b_min_sep_plan *plan,
                                      unsigned to)
{
    assert(moments->most >= 1 && to <= EPS__B_MIN_SEP_ORDERS_MAX);
    for (unsigned a = moments->most + 1; a <= to; a++) {
        enum eps_status status = eps__b_min_sep_raw(context, &moments->raw[a], &moments->units[a], b_min_sep, a,
                                                    a <= plan->exact  ? EPS__PRECISION_QUAD
                                                    : a <= plan->most ? EPS__PRECISION_LONG
                                                                      : EPS__PRECISION_DOUBLE);
        if (status != EPS_OK)
            return status;
        moments->most = a;
    }
    return EPS_OK;
}

/* ------------------------------------------------------------ groups of copies */

static double operations_of(const void *law, unsigned copies)
{
    double numbers;
    return eps__b_min_sep_operations(law, copies, &numbers);
}

/* The entries of the Gram matrix times `times` are rounded up, by at most 4 units each (M22). */
static enum eps_status sum_of(const struct eps_context *context, eps__quad *sum, double *units, const void *law,
                              unsigned copies, eps__quad times)
{
    struct eps__b_min_sep b_min_sep = *(const struct eps__b_min_sep *)law;
    double square = (double)b_min_sep.examples * b_min_sep.examples;
    b_min_sep.banded.times = eps__raise((double)times, 2);
    enum eps_status status = eps__b_min_sep_raw(context, sum, units, &b_min_sep, copies, EPS__PRECISION_DOUBLE);
    *units += EPS__DOUBLE_UNITS * 4 * square * eps__banded_meetings(&b_min_sep.banded, b_min_sep.separation, copies);
    return status;
}

struct eps__copies eps__b_min_sep_copies(const struct eps__b_min_sep *b_min_sep)
{
    return (struct eps__copies){b_min_sep, operations_of, sum_of};
}

/* ------------------------------------------------------------ waiting */

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
