/*
 * See law.h. For small k the probabilities are products; for large k they come from Loader's form in logarithms. On
 * each side of the mode, the law ends at the last atom above the floor. The floor is high enough that no kept atom
 * underflows: a subnormal weight would have no small relative error (S2).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/sampling/law.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "lib/numerics/binomial.h"
#include "lib/numerics/normal.h"

enum { PRODUCT_MAX = 48 }; /* the binomial coefficient is an exact double up to here */

/* Neither the coefficient nor a power in such a weight is below DBL_MIN. */
#define LOG_WEIGHT_LEAST (-650.0)

static double product_weight(uint64_t k, double p, uint64_t j)
{
    double coefficient = 1;
    for (uint64_t i = 1; i <= j; i++)
        coefficient = coefficient * (double)(k - j + i) / (double)i;
    return coefficient * pow(p, (double)j) * pow(1 - p, (double)(k - j));
}

/* The last index, going away from the mode, whose log probability is at least the floor. */
static uint64_t edge(uint64_t k, double p, double log_floor, uint64_t mode, bool above)
{
    uint64_t inside = mode, outside = above ? k + 1 : 0;
    if (!above && eps__binomial_log_pmf(k, p, 0) >= log_floor)
        return 0;
    if (above && eps__binomial_log_pmf(k, p, k) >= log_floor)
        return k;
    while (above ? outside - inside > 1 : inside - outside > 1) {
        uint64_t middle = inside + (above ? (outside - inside) / 2 : 0) - (above ? 0 : (inside - outside) / 2);
        if (eps__binomial_log_pmf(k, p, middle) >= log_floor)
            inside = middle;
        else
            outside = middle;
    }
    return inside;
}

/* Never 0: the true value is positive. */
static double lost_beyond(uint64_t k, double p, uint64_t from, bool above)
{
    return eps__raise(exp(eps__binomial_log_tail(k, p, from, above)), 1e4) + DBL_MIN;
}

enum eps_status eps__binomial_law(struct eps__law *law, uint64_t k, double p, double log_floor)
{
    struct eps__law made = {0};
    if (p <= 0 || p >= 1) {
        made.weight = malloc(sizeof *made.weight);
        if (!made.weight)
            return EPS_NO_MEMORY;
        made.first = p >= 1 ? k : 0;
        made.len = 1;
        made.weight[0] = 1;
        *law = made;
        return EPS_OK;
    }
    uint64_t mode = (uint64_t)fmin((double)k, floor(((double)k + 1) * p));
    bool product = k <= PRODUCT_MAX;
    double least = product ? LOG_WEIGHT_LEAST : fmax(log_floor, LOG_WEIGHT_LEAST);
    made.first = edge(k, p, least, mode, false);
    uint64_t last = edge(k, p, least, mode, true);
    made.lost_low = made.first > 0 ? lost_beyond(k, p, made.first - 1, false) : 0;
    made.lost_high = last < k ? lost_beyond(k, p, last + 1, true) : 0;
    made.len = (size_t)(last - made.first + 1);
    made.weight = malloc(made.len * sizeof *made.weight);
    if (!made.weight)
        return EPS_NO_MEMORY;
    for (size_t i = 0; i < made.len; i++) {
        uint64_t j = made.first + i;
        made.weight[i] = product ? product_weight(k, p, j) : exp(eps__binomial_log_pmf(k, p, j));
    }
    made.weight_error = product ? (4 * (double)k + 8) * EPS__UNIT_ROUNDOFF : eps__binomial_error(k, p, least);
    if (k == 1)
        made.weight_error = 2 * EPS__UNIT_ROUNDOFF;
    *law = made;
    return EPS_OK;
}

void eps__law_clear(struct eps__law *law)
{
    free(law->weight);
    *law = (struct eps__law){0};
}
