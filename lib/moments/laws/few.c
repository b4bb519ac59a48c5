/*
 * See few.h.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/moments/laws/few.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/progress.h"
#include "lib/moments/laws/few_chain.h"
#include "lib/numerics/bound.h"

enum {
    HELD_LEAST = 3, /* participations of a state where they are rare */
    SETTLING = 4    /* equal steps converge after about SETTLING widths */
};

#define OPERATIONS 5e7    /* of a sum, at most */
#define NEEDED 4.0        /* participations that a state needs, over their mean number: an estimate */
#define CROWDED 2.0       /* states that hold fewer than so many times their mean number prove nothing */
#define SPAN_MOST 0x1p600 /* of the numbers of one step */
#define LARGE 0x1p300     /* numbers above are scaled */
#define SETTLED 1e-9      /* what a run of equal steps may gain by taking the largest growth for all of them */

/* Measured costs of a draw, in operations: to build it, to weigh it, for each participation that its state holds on top
 * of that, and in each step. */
#define BUILT 150.0
#define WEIGHED 4.0
#define WEIGHED_EACH 12.0
#define STEPPED 3.0

/* ------------------------------------------------------------ sizes */

double eps__few_states(size_t width, unsigned copies, unsigned held)
{
    double places = ((double)width - 1) * copies, choices = 1, sum = 0;
    for (unsigned j = 0; j <= held; j++) {
        sum += choices;
        choices *= fmax(places - j, 0) / (j + 1);
    }
    return sum / (copies == 2 ? 2 : 4);
}

double eps__few_operations(const struct eps__banded_gram *banded, unsigned copies, unsigned held)
{
    double width = (double)banded->width, len = (double)banded->len, runs = fmin((double)banded->changes, len);
    double draws = ldexp(eps__few_states(banded->width, copies, held), (int)copies);
    double steps = fmin(len, runs + SETTLING * fmax(runs, width));
    return draws * (BUILT + runs * (WEIGHED_EACH * held / ldexp(1, (int)copies) + WEIGHED) + steps * STEPPED);
}

unsigned eps__few_most(const struct eps__banded_gram *banded, unsigned copies, double operations)
{
    unsigned most = 0;
    if (copies < 2 || copies > EPS__FEW_COPIES_MOST || !(banded->p < 1))
        return 0;
    while (most < EPS__FEW_HELD_MOST && (most + 1) * eps__few_bits(banded->width, copies) <= 64 &&
           eps__few_operations(banded, copies, most + 1) <= operations)
        most++;
    return most;
}

/* ------------------------------------------------------------ a sum */

struct sum {
    struct eps__few_chain chain;
    double *values[2]; /* [state] */
};

/* One step back: values[1] from values[0], which are then exchanged. Sets the least and the largest growth. False: the
 * numbers are too far apart. */
static bool step_back(struct sum *all, int *scale, double growth[2])
{
    const struct eps__few_chain *chain = &all->chain;
    const double *from = all->values[0];
    double *to = all->values[1], least = INFINITY, most = 0;
    growth[0] = INFINITY;
    growth[1] = 0;
    for (size_t s = 0; s < chain->len; s++) {
        const double *weights = chain->weights + s * chain->draws;
        const uint32_t *next = chain->next + s * chain->draws;
        double sum = 0;
        for (unsigned draw = 0; draw < chain->draws; draw++)
            sum += weights[draw] * from[next[draw]];
        to[s] = sum;
        double grown = sum / from[s];
        growth[0] = fmin(growth[0], grown);
        growth[1] = fmax(growth[1], grown);
        least = fmin(least, sum);
        most = fmax(most, sum);
    }
    if (!(most < INFINITY) || !(least > 0) || most / least > SPAN_MOST)
        return false;
    if (most > LARGE) {
        int down = ilogb(most);
        for (size_t s = 0; s < chain->len; s++)
            to[s] = ldexp(to[s], -down);
        *scale += down;
    }
    all->values[0] = to;
    all->values[1] = (double *)from;
    return true;
}

/* The step at which the run of equal rows begins that ends with step i. */
static size_t run_start(const struct eps__banded_gram *banded, size_t i)
{
    const double *row = banded->gram + i * banded->width;
    while (i > 0 && memcmp(row - banded->width, row, banded->width * sizeof *row) == 0) {
        row -= banded->width;
        i--;
    }
    return i;
}

/* *log_sum: an upper bound on ln of the sum before rounding, all of whose steps have a relative error of `each` units
 * at most. NAN: it is not known. */
static enum eps_status run(const struct eps_context *context, struct sum *all, eps__quad *log_sum, double *each)
{
    struct eps__few_chain *chain = &all->chain;
    const struct eps__banded_gram *banded = chain->banded;
    double exponent_most = chain->paid_most, growth[2];
    int scale = 0;
    *log_sum = 0;
    for (size_t s = 0; s < chain->len; s++)
        all->values[0][s] = 1;
    for (size_t left = banded->len; left > 0;) {
        size_t start = run_start(banded, left - 1);
        bool within = eps__few_weigh(chain, left - 1, &exponent_most);
        for (; within && left > start; left--) {
            enum eps_status status = eps__poll(context);
            if (status != EPS_OK)
                return status;
            within = step_back(all, &scale, growth);
            double rest = (double)(left - 1 - start), log_most = log(growth[1]);
            if (within && (log_most - log(growth[0])) * rest <= SETTLED) {
                *log_sum += (eps__quad)rest * log_most;
                left = start;
                break;
            }
        }
        if (!within) {
            *log_sum = (eps__quad)NAN;
            return EPS_OK;
        }
    }
    *log_sum += logq(all->values[0][0]) + (eps__quad)scale * logq(2);
    *each = eps__few_step_units(exponent_most);
    return EPS_OK;
}

enum eps_status eps__few_sum(const struct eps_context *context, eps__quad *sum, double *units,
                             const struct eps__banded_gram *banded, unsigned copies, unsigned most, eps__quad times)
{
    struct eps__banded_gram scaled = *banded;
    struct sum all = {.values = {NULL, NULL}};
    eps__quad log_sum = 0;
    double each = 0;
    scaled.times = eps__raise((double)times, 2);
    enum eps_status status = eps__few_chain_make(context, &all.chain, &scaled, copies, most);
    for (int i = 0; i < 2 && status == EPS_OK; i++) {
        all.values[i] = malloc(all.chain.len * sizeof *all.values[i]);
        status = all.values[i] ? EPS_OK : EPS_NO_MEMORY;
    }
    if (status == EPS_OK)
        status = run(context, &all, &log_sum, &each);
    eps__few_chain_clear(&all.chain);
    free(all.values[0]);
    free(all.values[1]);
    *sum = expq(log_sum);
    *units = EPS__DOUBLE_UNITS * ((double)banded->len * each + 4 * eps__banded_meetings(&scaled, 1, copies) + 4);
    return status;
}

/* ------------------------------------------------------------ groups of copies */

/* Depends on the sizes alone, so that the sum is a smooth function of the entries. */
unsigned eps__few_held(const struct eps__banded_gram *banded, unsigned copies, double operations)
{
    double mean = copies * banded->p * (double)(banded->width - 1), needed = HELD_LEAST + ceil(NEEDED * mean);
    unsigned most = eps__few_most(banded, copies, operations);
    return most < HELD_LEAST || CROWDED * mean > most ? 0 : needed < most ? (unsigned)needed : most;
}

static double operations_of(const void *law, unsigned copies)
{
    unsigned held = eps__few_held(law, copies, OPERATIONS);
    return held > 0 ? eps__few_operations(law, copies, held) : INFINITY;
}

static enum eps_status sum_of(const struct eps_context *context, eps__quad *sum, double *units, const void *law,
                              unsigned copies, eps__quad times)
{
    return eps__few_sum(context, sum, units, law, copies, eps__few_held(law, copies, OPERATIONS), times);
}

struct eps__copies eps__few_copies(const struct eps__banded_gram *banded)
{
    return (struct eps__copies){banded, operations_of, sum_of};
}
