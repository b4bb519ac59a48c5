/*
 * See poisson.h. Copies of an example differ only in their histories, the last steps in which they took part. A state
 * counts the copies with each history: a copies with w - 1 remembered steps have C(a + 2^{w-1} - 1, a) states, while
 * ordered copies would have 2^{a (w-1)}. While the steps are equal, the state soon grows only by a constant factor per
 * step, and the remaining equal steps are a power of it.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/moments/laws/poisson.h"

#include <assert.h>
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/moments/laws/multisets.h"
#include "lib/moments/laws/raw.h"
#include "lib/numerics/bound.h"

enum { ORDERS_MOST = 64, POLLED = 1 << 14 };

#define LOST 1e-280     /* an upper bound on what products of entries of C lose to underflow */
#define NUMBERS 1e6     /* transitions, at most */
#define SMALLEST 7000.0 /* every number on the way is 0 or at least e^-SMALLEST */
#define PATIENCE 2.5    /* a chain is given up after this many times the expected steps; it may converge slowly */
#define BEYOND 100.0    /* orders end where the divergence exceeds this and grows four times as fast as a Gaussian's */

/* The unit roundoff of long double; its range is that of quadruple precision. */
#define LONG_ROUNDOFF 0x1p-64L
_Static_assert(LDBL_MANT_DIG > 63 && LDBL_MIN_EXP < -16380 && LDBL_MAX_EXP > 16383, "an extended long double");

#define EXACT 1e7 /* an order that takes more operations in quadruple precision is computed in long double */

/* ------------------------------------------------------------ the matrix */

void eps__banded_gram_clear(struct eps__banded_gram *banded)
{
    free(banded->gram);
    *banded = (struct eps__banded_gram){0};
}

size_t eps__banded_alike(const struct eps__banded_gram *banded, size_t i)
{
    const double *row = banded->gram + i * banded->width;
    size_t end = i + 1;
    while (end < banded->len && memcmp(banded->gram + end * banded->width, row, banded->width * sizeof *row) == 0)
        end++;
    return end;
}

enum eps_status eps__banded_gram_make(struct eps__banded_gram *banded, const double *gram, size_t len, size_t width,
                                      double p, double error, double sigma)
{
    assert(len > 0 && width >= 1 && width <= len && p >= 0 && p <= 1 && sigma > 0);
    /* the error, the two roundings of the quotient, and a margin for the proof of M17 */
    double square = sigma * sigma, units = error / EPS__UNIT_ROUNDOFF + 12, most = 0, lost = LOST / square;
    *banded = (struct eps__banded_gram){.len = len, .width = width, .p = p, .gram = malloc(len * width * sizeof *gram)};
    double *beside = calloc(len, sizeof *beside);
    if (!banded->gram || !beside) {
        eps__banded_gram_clear(banded);
        free(beside);
        return EPS_NO_MEMORY;
    }
    for (size_t i = 0; i < len; i++)
        for (size_t d = 0; d < width; d++) {
            double raised = d <= i ? eps__raise(gram[i * width + d] / square + lost, units) : 0;
            banded->gram[i * width + d] = raised;
            beside[i] += d > 0 && d <= i ? raised : 0;
            if (d > 0 && d <= i)
                beside[i - d] += raised;
        }
    for (size_t i = 0; i < len; i++)
        most = fmax(most, beside[i]);
    /* Twice what all entries beside any were raised by, at most: the matrix stays positive semidefinite (M17). */
    double added = 4 * units * EPS__UNIT_ROUNDOFF * most + 8 * (double)width * lost;
    for (size_t i = 0; i < len; i++)
        banded->gram[i * width] = eps__raise(banded->gram[i * width] + added, 4);
    free(beside);
    for (size_t i = 0; i + 1 < width; i++) /* fill up the first rows, so that they may equal later ones */
        memcpy(banded->gram + i * width + i + 1, banded->gram + (width - 1) * width + i + 1,
               (width - 1 - i) * sizeof *gram);
    for (size_t i = 0; i < len; i = eps__banded_alike(banded, i))
        banded->changes++;
    return EPS_OK;
}

/* ------------------------------------------------------------ copies */

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
static const struct pace pace_quad = {20, 22, 43, 2, 10}, pace_long = {17, 2, 6, 2, 6};

static double steps_at(const struct pace *pace, size_t len, size_t width, size_t changes)
{
    double runs = (double)changes, settling = pace->steps + pace->steps_a_band * (double)width;
    double steps = fmin((double)len, runs * settling);
    size_t blocks = 1 + changes / (2 * width);
    if (changes < len / 2 && steps > 2 * runs) /* each block has one long run of equal steps, and others at its ends */
        steps = fmin(steps, 2 * runs + (double)blocks * settling);
    return steps;
}

static double operations_at(const struct pace *pace, size_t len, size_t width, size_t changes, unsigned a)
{
    double weighed = (double)changes * (double)(width + 1) * pace->weighed;
    double steps = steps_at(pace, len, width, changes) * pace->step;
    return eps__multisets(ldexp(1, (int)width), a) * (pace->made * a + weighed + steps) + 1e4;
}

#define NUMBER eps__quad
#define OF(name) name##_quad
#define UNIT EPS__QUAD_ROUNDOFF
#include "lib/moments/laws/poisson_of.h"
#undef NUMBER
#undef OF
#undef UNIT

#define NUMBER long double
#define OF(name) name##_long
#define UNIT LONG_ROUNDOFF
#include "lib/moments/laws/poisson_of.h"
#undef NUMBER
#undef OF
#undef UNIT

/* ------------------------------------------------------------ moments */

/* Whether order a is computed in quadruple precision. */
static bool exactly(size_t len, size_t width, size_t changes, unsigned a)
{
    return operations_at(&pace_quad, len, width, changes, a) <= EXACT;
}

double eps__poisson_operations(size_t len, size_t width, size_t changes, unsigned a)
{
    return operations_at(exactly(len, width, changes, a) ? &pace_quad : &pace_long, len, width, changes, a);
}

/* -ln of a lower bound on every sum over a copies that is not 0 (M18, M27). */
static double least_sum(const struct eps__banded_gram *banded, const eps__quad *tilt, unsigned a)
{
    double rarest = fmin(banded->p > 0 ? banded->p : 1, banded->p < 1 ? 1 - banded->p : 1), most = 0, all = 0;
    for (size_t i = 0; tilt && i < banded->len; i++) {
        double less = fmax(-(double)tilt[i], 0);
        most = fmax(most, less);
        all += less;
    }
    return a * ((most - log(rarest)) * (double)banded->width + banded->p * all);
}

/* The highest order that the limits and the range of quadruple precision allow; 1: none. */
static unsigned most_of(const struct eps__banded_gram *banded, double second, double operations, unsigned max_order)
{
    unsigned limit = max_order > 0 && max_order < ORDERS_MOST ? max_order : ORDERS_MOST, most = 1;
    double spent = 0;
    for (unsigned a = 2; a <= limit && banded->width <= EPS__POISSON_WIDTH_MAX; a++) {
        spent += eps__poisson_operations(banded->len, banded->width, banded->changes, a);
        if (spent > (a == 2 ? second : operations) || eps__multisets(ldexp(1, (int)banded->width), a) > NUMBERS ||
            least_sum(banded, NULL, a) > SMALLEST)
            break;
        most = a;
    }
    return most;
}

enum eps_status eps__poisson_raw(const struct eps_context *context, eps__quad *raw, double *units,
                                 const struct eps__banded_gram *banded, const eps__quad *tilt, unsigned a, bool exact)
{
    *raw = (eps__quad)NAN;
    *units = 0;
    if (!(least_sum(banded, tilt, a) <= SMALLEST))
        return EPS_OK;
    return exact ? moment_quad(context, banded, tilt, a, raw, units)
                 : moment_long(context, banded, tilt, a, raw, units);
}

unsigned eps__poisson_tilted_most(const struct eps__banded_gram *banded, size_t changes, double operations,
                                  unsigned limit, double *spent)
{
    unsigned most = 1;
    *spent = 0;
    for (unsigned a = 2; a <= limit && a <= ORDERS_MOST && banded->width <= EPS__POISSON_WIDTH_MAX; a++) {
        double more = operations_at(&pace_long, banded->len, banded->width, changes, a);
        if (*spent + more > operations || eps__multisets(ldexp(1, (int)banded->width), a) > NUMBERS)
            break;
        *spent += more;
        most = a;
    }
    return most;
}

/* The raw moments of orders up to *most, which is lowered to the last order that may be of use. */
static enum eps_status raw_of(const struct eps_context *context, eps__quad *raw, double *units,
                              const struct eps__banded_gram *banded, unsigned *most)
{
    double first = 0;
    raw[0] = raw[1] = 1;
    units[0] = units[1] = 0;
    for (unsigned a = 2; a <= *most; a++) {
        bool exact = exactly(banded->len, banded->width, banded->changes, a);
        enum eps_status status = eps__poisson_raw(context, &raw[a], &units[a], banded, NULL, a, exact);
        if (status != EPS_OK)
            return status;
        double divergence = finiteq(raw[a]) ? (double)logq(raw[a]) / (a - 1) : INFINITY;
        first = a == 2 ? divergence : first;
        if (!(divergence <= BEYOND + 2 * a * first))
            *most = a;
    }
    return EPS_OK;
}

enum eps_status eps__poisson_moments(const struct eps_context *context, struct eps__orders *orders,
                                     struct eps__laws *laws, const struct eps__banded_gram *banded, double second,
                                     double operations, unsigned max_order)
{
    eps__quad raw[ORDERS_MOST + 1];
    double units[ORDERS_MOST + 1];
    unsigned most = most_of(banded, second, operations, max_order);
    enum eps_status status = raw_of(context, raw, units, banded, &most);
    return status == EPS_OK ? eps__raw_tell(orders, laws, raw, units, most, EPS__POISSON_MOMENTS_MAX) : status;
}
