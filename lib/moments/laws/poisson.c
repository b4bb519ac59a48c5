/*
 * See poisson.h.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/moments/laws/poisson.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/moments/laws/groups.h"
#include "lib/moments/laws/histories.h"
#include "lib/moments/laws/raw.h"
#include "lib/numerics/bound.h"

enum { ORDERS_MOST = 64 };

#define LOST 1e-280     /* an upper bound on what products of entries of C lose to underflow */
#define NUMBERS 1e6     /* transitions, at most */
#define SMALLEST 7000.0 /* every number on the way is 0 or at least e^-SMALLEST */

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

double eps__banded_entry(const struct eps__banded_gram *banded, size_t i, size_t d)
{
    double entry = banded->gram[i * banded->width + d];
    return banded->times > 0 ? eps__multiply_up(entry, banded->times) : entry;
}

double eps__banded_meetings(const struct eps__banded_gram *banded, size_t separation, unsigned copies)
{
    double most = 0, taken = ceil((double)banded->len / (double)separation),
           meetings = (double)copies * copies * taken * ceil((double)banded->width / (double)separation);
    for (size_t i = 0; i < banded->len * banded->width; i++)
        most = fmax(most, banded->gram[i]);
    return meetings * most * (banded->times > 0 ? banded->times : 1);
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

/* ------------------------------------------------------------ moments */

/* The estimated operations of E X^a for a matrix of these sizes. */
static double operations_at(enum eps__precision precision, size_t len, size_t width, size_t changes, unsigned a)
{
    const struct eps__banded_gram sizes = {.len = len, .width = width, .changes = changes};
    const struct eps__histories histories = {.banded = &sizes, .separation = 1};
    return eps__histories_operations(&histories, a, precision);
}

/* Whether order a is computed in quadruple precision. */
static bool exactly(size_t len, size_t width, size_t changes, unsigned a)
{
    return operations_at(EPS__PRECISION_QUAD, len, width, changes, a) <= EXACT;
}

double eps__poisson_operations(size_t len, size_t width, size_t changes, unsigned a)
{
    bool exact = exactly(len, width, changes, a);
    return operations_at(exact ? EPS__PRECISION_QUAD : EPS__PRECISION_LONG, len, width, changes, a);
}

/* The highest order that the limits and the range of quadruple precision allow; 1: none. */
static unsigned most_of(const struct eps__banded_gram *banded, double second, double operations, unsigned max_order)
{
    unsigned limit = max_order > 0 && max_order < ORDERS_MOST ? max_order : ORDERS_MOST, most = 1;
    double spent = 0;
    const struct eps__histories histories = {.banded = banded, .separation = 1};
    for (unsigned a = 2; a <= limit && banded->width <= EPS__POISSON_WIDTH_MAX; a++) {
        spent += eps__poisson_operations(banded->len, banded->width, banded->changes, a);
        if (spent > (a == 2 ? second : operations) || eps__histories_transitions(&histories, a) > NUMBERS ||
            eps__histories_smallest(&histories, a) > SMALLEST)
            break;
        most = a;
    }
    return most;
}

enum eps_status eps__poisson_raw(const struct eps_context *context, eps__quad *raw, double *units,
                                 const struct eps__banded_gram *banded, const eps__quad *tilt, unsigned a, bool exact)
{
    const struct eps__histories histories = {.banded = banded, .separation = 1, .tilt = tilt};
    assert(banded->width <= EPS__POISSON_WIDTH_MAX);
    *raw = (eps__quad)NAN;
    *units = 0;
    if (!(eps__histories_smallest(&histories, a) <= SMALLEST))
        return EPS_OK;
    return eps__histories_raw(context, raw, units, &histories, a, exact ? EPS__PRECISION_QUAD : EPS__PRECISION_LONG);
}

unsigned eps__poisson_tilted_most(const struct eps__banded_gram *banded, size_t changes, double operations,
                                  unsigned limit, double *spent)
{
    const struct eps__histories histories = {.banded = banded, .separation = 1};
    unsigned most = 1;
    *spent = 0;
    for (unsigned a = 2; a <= limit && a <= ORDERS_MOST && banded->width <= EPS__POISSON_WIDTH_MAX; a++) {
        double more = operations_at(EPS__PRECISION_LONG, banded->len, banded->width, changes, a);
        if (*spent + more > operations || eps__histories_transitions(&histories, a) > NUMBERS)
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
    double log_second = 0;
    raw[0] = raw[1] = 1;
    units[0] = units[1] = 0;
    for (unsigned a = 2; a <= *most; a++) {
        bool exact = exactly(banded->len, banded->width, banded->changes, a);
        enum eps_status status = eps__poisson_raw(context, &raw[a], &units[a], banded, NULL, a, exact);
        if (status != EPS_OK)
            return status;
        double log_moment = finiteq(raw[a]) ? (double)logq(raw[a]) : INFINITY;
        log_second = a == 2 ? log_moment : log_second;
        if (!eps__order_of_use(log_moment, a, log_second))
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
