/*
 * Turns bounds on the odds of each bin into the law of a row's shift (A10). From the largest entry down, each bin takes
 * its share of the probability that the bins above it have left. The bins without an entry take the rest.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdlib.h>

#include "lib/accountants/conditional_composition/compose.h"

#define LEFT_LEAST 1e-280 /* smaller weights would lose their digits; they are rounded up to this */

void eps__cc_law_clear(struct eps__cc_law *law)
{
    free(law->shift);
    free(law->weight);
    *law = (struct eps__cc_law){0};
}

/* Merges runs of atoms into the largest shift of each run, if `apply` is true. A run is as long as the product of moved
 * weight and distance allows, at most `cost`. Returns the number of runs. */
static size_t runs(struct eps__cc_law *law, double cost, bool apply)
{
    size_t len = 0;
    for (size_t from = 0, to; from < law->len; from = to) {
        double moved = 0, weight = law->weight[from];
        for (to = from + 1; to < law->len && law->shift[from] > 0; to++) {
            moved += weight * (law->shift[to] - law->shift[to - 1]);
            if (moved > cost)
                break;
            weight += law->weight[to];
        }
        if (apply) {
            double shift = law->shift[to - 1]; /* the largest of the run, because larger shifts dominate (A10) */
            law->shift[len] = shift;
            law->weight[len] = weight;
        }
        len++;
    }
    return len;
}

void eps__cc_law_thin(struct eps__cc_law *law, size_t atoms_max)
{
    if (law->len <= atoms_max)
        return;
    double mean = 0, cost;
    for (size_t i = 0; i < law->len; i++)
        mean += law->weight[i] * law->shift[i];
    for (cost = 1e-3 * mean / (double)law->len; runs(law, cost, false) > atoms_max && cost <= 2 * mean; cost *= 1.3)
        ;
    law->len = runs(law, cost, true);
}

void eps__cc_law_follow(struct eps__cc_law *law, const struct eps__cc_law *guide)
{
    size_t len = 0, at = 0;
    for (size_t i = 0; i < law->len; i++) {
        while (at < guide->len && guide->shift[at] < law->shift[i])
            at++;
        double shift = at < guide->len ? guide->shift[at] : law->shift[i], weight = law->weight[i];
        if (len && law->shift[len - 1] == shift) {
            law->weight[len - 1] += weight;
            continue;
        }
        law->shift[len] = shift;
        law->weight[len++] = weight;
    }
    law->len = len;
}

bool eps__cc_law_make(struct eps__cc_law *law, const struct eps__cc_places *places)
{
    *law = (struct eps__cc_law){.shift = malloc((places->len + 1) * sizeof *law->shift),
                                .weight = malloc((places->len + 1) * sizeof *law->weight)};
    if (!law->shift || !law->weight)
        return false;
    /* Fills the arrays from the end, largest shift first, then moves the atoms to the front. */
    size_t at = places->len + 1;
    double left = 1;
    for (size_t k = places->len; k-- > 0 && left > 0;) {
        double odds = places->log_odds[k], share = 1 / (1 + exp(-odds)), stay = 1 / (1 + exp(odds));
        double weight = left * share;
        left *= stay;
        if (left < LEFT_LEAST || weight < LEFT_LEAST) { /* too few digits: rounds the weight of this shift up */
            weight += left < LEFT_LEAST ? left : LEFT_LEAST;
            left = left < LEFT_LEAST ? 0 : left;
        }
        if (at <= places->len && law->shift[at] == places->shift[k]) {
            law->weight[at] += weight;
            continue;
        }
        law->shift[--at] = places->shift[k];
        law->weight[at] = weight;
    }
    if (left > 0 && places->rest) {
        law->shift[--at] = 0;
        law->weight[at] = left;
    } else if (left > 0) {
        law->weight[at] += left; /* the first bin takes the rest */
    }
    law->len = places->len + 1 - at;
    for (size_t i = 0; i < law->len; i++) {
        law->shift[i] = law->shift[at + i];
        law->weight[i] = law->weight[at + i];
    }
    law->error = (8 * (double)places->len + 64) * EPS__UNIT_ROUNDOFF;
    return true;
}
