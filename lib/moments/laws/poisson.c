/*
 * Copies of one example, told apart by nothing but which of the last steps they took: a state counts the copies of
 * each history, so that a copies with b - 1 remembered steps have C(a + 2^{b-1} - 1, a) states where ordered ones have
 * 2^{a (b-1)}. While the steps are alike, the chain soon only grows by a factor, and what is left of them is a power.
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

#define LOST 1e-280     /* more than what products of C's entries lose to underflow */
#define NUMBERS 1e6     /* transitions that are kept */
#define SMALLEST 7000.0 /* -ln of what no number on the way is under */
#define PATIENCE 2.5    /* times the steps that were expected: where two factors are near, a chain hardly converges */
#define BEYOND 100.0 /* a divergence above it that grows as four times a Gaussian's is of no use, nor are later ones */

/* A long double's unit roundoff; its range is that of quadruple precision. */
#define LONG_ROUNDOFF 0x1p-64L
_Static_assert(LDBL_MANT_DIG > 63 && LDBL_MIN_EXP < -16380 && LDBL_MAX_EXP > 16383, "an extended long double");

#define EXACT 1e7 /* operations on an order in quadruple precision; what would take more is had in long double */

/* ------------------------------------------------------------ the matrix */

void eps__banded_gram_clear(struct eps__banded_gram *banded)
{
    free(banded->gram);
    *banded = (struct eps__banded_gram){0};
}

static bool alike(const struct eps__banded_gram *banded, size_t i)
{
    size_t row = banded->width * sizeof *banded->gram;
    return i > 0 && memcmp(banded->gram + i * banded->width, banded->gram + (i - 1) * banded->width, row) == 0;
}

enum eps_status eps__banded_gram_make(struct eps__banded_gram *banded, const double *gram, size_t len, size_t width,
                                      double p, double error, double sigma)
{
    assert(len > 0 && width >= 1 && width <= len && p >= 0 && p <= 1 && sigma > 0);
    /* Two roundings of the quotient, the error, and what the comparison of both needs. */
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
    /* What the entries beside any were raised by, at most, twice over: the matrix stays one of inner products (M17). */
    double added = 4 * units * EPS__UNIT_ROUNDOFF * most + 8 * (double)width * lost;
    for (size_t i = 0; i < len; i++)
        banded->gram[i * width] = eps__raise(banded->gram[i * width] + added, 4);
    free(beside);
    for (size_t i = 0; i + 1 < width; i++) /* the first steps, so that they look like the others */
        memcpy(banded->gram + i * width + i + 1, banded->gram + (width - 1) * width + i + 1,
               (width - 1 - i) * sizeof *gram);
    for (size_t i = 0; i < len; i++)
        banded->changes += !alike(banded, i);
    return EPS_OK;
}

/* ------------------------------------------------------------ copies */

/* The next in lexicographic order of the rising sequences of numbers under `limit`. */
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

/* What a transition takes: to be made, for each copy; to be weighed, for each band; in a step. Measured. And the steps
 * until a chain has converged, about: so many, and so many for each band. */
struct pace {
    double made, weighed, step, steps, steps_a_band;
};
static const struct pace pace_quad = {20, 22, 43, 2, 10}, pace_long = {17, 2, 6, 2, 6};

static double steps_at(const struct pace *pace, size_t len, size_t width, size_t changes)
{
    double runs = (double)changes, settling = pace->steps + pace->steps_a_band * (double)width;
    double steps = fmin((double)len, runs * settling);
    size_t blocks = 1 + changes / (2 * width);
    if (changes < len / 2 && steps > 2 * runs) /* one change a block is long, others are its ends */
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

static bool exactly(size_t len, size_t width, size_t changes, unsigned a)
{
    return operations_at(&pace_quad, len, width, changes, a) <= EXACT;
}

double eps__poisson_operations(size_t len, size_t width, size_t changes, unsigned a)
{
    return operations_at(exactly(len, width, changes, a) ? &pace_quad : &pace_long, len, width, changes, a);
}

/* The orders whose numbers quadruple precision holds and whose transitions are few. */
static unsigned most_of(const struct eps__banded_gram *banded, double second, double operations, unsigned max_order)
{
    unsigned limit = max_order > 0 && max_order < ORDERS_MOST ? max_order : ORDERS_MOST, most = 1;
    double rarest = fmin(banded->p > 0 ? banded->p : 1, banded->p < 1 ? 1 - banded->p : 1), spent = 0;
    for (unsigned a = 2; a <= limit && banded->width <= EPS__POISSON_WIDTH_MAX; a++) {
        spent += eps__poisson_operations(banded->len, banded->width, banded->changes, a);
        if (spent > (a == 2 ? second : operations) || eps__multisets(ldexp(1, (int)banded->width), a) > NUMBERS ||
            -log(rarest) * a * (double)banded->width > SMALLEST)
            break;
        most = a;
    }
    return most;
}

enum eps_status eps__poisson_raw(const struct eps_context *context, eps__quad *raw, double *units,
                                 const struct eps__banded_gram *banded, unsigned a, bool exact)
{
    *raw = (eps__quad)NAN;
    *units = 0;
    return exact ? moment_quad(context, banded, a, raw, units) : moment_long(context, banded, a, raw, units);
}

/* Orders up to *most, which falls to the last one that may tell something. */
static enum eps_status raw_of(const struct eps_context *context, eps__quad *raw, double *units,
                              const struct eps__banded_gram *banded, unsigned *most)
{
    double first = 0;
    raw[0] = raw[1] = 1;
    units[0] = units[1] = 0;
    for (unsigned a = 2; a <= *most; a++) {
        bool exact = exactly(banded->len, banded->width, banded->changes, a);
        enum eps_status status = eps__poisson_raw(context, &raw[a], &units[a], banded, a, exact);
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
