/*
 * See chain.h. The sums of chain_of.h in two precisions, their cost and their rounding.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/moments/laws/chain.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/numerics/binomial.h"
#include "lib/numerics/bound.h"

#define DEEPEST (-690.0) /* ln of the least number that may occur in doubles; ln of DBL_MIN is -708 */

/* The number of tuples of q counts and a rest with a sum of at most `most`: C(most + q + 1, q + 1). Exact below
 * 2^53. */
static double states_of(unsigned most, size_t q)
{
    double count = 1;
    for (size_t i = 1; i <= q + 1; i++)
        count = count * (double)(most + i) / (double)i; /* a binomial coefficient after every step */
    return count;
}

/* Advances to the next tuple of q numbers with a sum of at most `most`, in lexicographic order; false after the last
 * one. *sum: the sum of the tuple. */
static bool next_tuple(unsigned *tuple, size_t q, unsigned most, unsigned *sum)
{
    for (size_t j = q; j-- > 0;) {
        if (*sum < most) {
            tuple[j]++;
            ++*sum;
            return true;
        }
        *sum -= tuple[j];
        tuple[j] = 0;
    }
    return false;
}

/* Within the band, the entry less tau and at least 0; outside, 0, as tau is at least every entry there (M11). */
double eps__chain_entry(const struct eps__chain *chain, size_t i, size_t j)
{
    double entry = eps__bin_gram_entry(chain->bins, i, j);
    if (eps__bin_distance(chain->bins->len, i, j) >= chain->width)
        return 0;
    return entry > chain->tau ? eps__add_up(entry, -chain->tau) : 0;
}

#define NUMBER eps__quad
#define OF(name) name##_quad
#define EXP expq
#include "lib/moments/laws/chain_of.h"
#undef NUMBER
#undef OF
#undef EXP

#define NUMBER double
#define OF(name) name##_double
#define EXP exp
#include "lib/moments/laws/chain_of.h"
#undef NUMBER
#undef OF
#undef EXP

struct eps__chain eps__chain_of(const struct eps__bin_gram *bins, size_t width, unsigned most)
{
    struct eps__chain chain = {.bins = bins, .width = width, .most = most, .open = true};
    size_t len = bins->len;
    assert(width >= 1 && width <= len / 2 + 1);
    for (size_t i = 0; bins->gram && width < bins->width && i < len; i++)
        for (size_t j = 0; j < i; j++)
            if (eps__bin_distance(len, i, j) >= width)
                chain.tau = fmax(chain.tau, bins->gram[i * len + j]);
    for (size_t i = 0; bins->gram && chain.open && i < len; i++)
        for (size_t j = 0; j + width <= i && chain.open; j++)
            chain.open = !(bins->gram[i * len + j] > chain.tau);
    return chain;
}

double eps__chain_operations(const struct eps__chain *chain)
{
    /*
     * A step runs over the counts of the last q bins, the draws of the bin and the rest, and of the prefix if there is
     * one.
     */
    size_t tuple = chain->open ? chain->width : 2 * chain->width - 1;
    /* Each tuple of the prefix is combined with each bin. Longer tuples have more factors. */
    double q = (double)chain->width - 1, met = chain->open || q < 1 ? 0 : states_of(chain->most, chain->width - 2) * q;
    double steps = states_of(chain->most, tuple) * (1 + q * q / 64) + met;
    return (double)chain->bins->len * steps + 100 * eps__chain_numbers(chain);
}

double eps__chain_numbers(const struct eps__chain *chain)
{
    double most = chain->most, len = (double)chain->bins->len, q = (double)chain->width - 1;
    return 2 * states_of(chain->most, chain->width - 1) + len * (most + 1) + len * q * (most * most / 4 + 1);
}

unsigned eps__chain_fit(struct eps__chain chain, unsigned highest, double operations, double numbers)
{
    for (chain.most = 1; chain.most < highest; chain.most++) {
        struct eps__chain longer = chain;
        longer.most++;
        if (eps__chain_operations(&longer) > operations || eps__chain_numbers(&longer) > numbers)
            break;
    }
    return chain.most;
}

/*
 * An error bound of a sum in units of roundoff (M10). The counts r and s of two bins give a power e^{g r s}, with 6
 * units for each of its factors e^g; a term has at most most^2/2 of these factors. A draw adds 9 units. Each bin adds
 * at most 2 q + 2 products to a term and a sum of most + 1 numbers. At the end there is a sum over the states of each
 * prefix and one over the prefixes. Groups of bins add the sums of powers of series, and the factors e^own of pairs
 * within one bin (M15).
 */
static double units_of(const struct eps__chain *chain)
{
    double most = chain->most, q = (double)chain->width - 1;
    double ends = states_of(chain->most, chain->width - 1) * (chain->open ? 1 : 2) + q * (q + 4);
    double gathered =
        chain->bins->count ? (double)chain->bins->total * (most + 4) : 0; /* powers of series, for groups */
    double own = chain->bins->own ? 3 * most * most : 0;
    return 1.01 * (gathered + own + (double)chain->bins->len * (most + 2 * q + 6) + 3 * most * (most + 2) + ends + 16);
}

/* A bound on ln of a sum times a factor; at least 0, because every moment is at least 1. */
static double bound_of(enum eps__estimate estimate, double sum, double units, double log_factor)
{
    double log_sum = eps__log_bound(estimate, sum, units);
    return fmax(eps__shift(estimate, log_sum + log_factor, 2 * EPS__UNIT_ROUNDOFF * fabs(log_factor)), 0);
}

enum eps_status eps__chain_quad(const struct eps_context *context, const struct eps__chain *chain, eps__quad *moments,
                                double *units)
{
    enum eps_status status = sum_up_quad(context, chain, 1 / (eps__quad)chain->bins->total, moments);
    eps__quad factorial = 1;
    for (unsigned a = 1; status == EPS_OK && a <= chain->most; a++) {
        factorial *= a;
        moments[a] *= factorial;
    }
    *units = units_of(chain) + 2 * (double)chain->most;
    return status;
}

enum eps_status eps__chain_double(const struct eps_context *context, const struct eps__chain *chain, double *log_upper,
                                  double *log_lower)
{
    /* The sums are scaled by s^a, which keeps a!/s^a in range. Every product on the way is at least base^most/most!,
     * because no entry is negative. If that is in range, nothing underflows. */
    int shift = (int)floor(log2(fmax((double)chain->most / M_E, 1)));
    double base = ldexp(1, shift) / (double)chain->bins->total, units = units_of(chain);
    bool reaches = chain->most * log(fmin(base, 1)) - eps__log_factorial(chain->most) > DEEPEST;
    enum eps_status status = reaches ? sum_up_double(context, chain, base, log_upper) : EPS_OK;
    eps__quad factorial = 1;
    for (unsigned a = 0; status == EPS_OK && a <= chain->most; a++) {
        double sum = reaches ? log_upper[a] : INFINITY, log_factorial = (double)logq(factorial);
        bool found = sum > 0 && sum <= DBL_MAX;
        log_lower[a] = found ? bound_of(EPS__LOWER, sum, units, log_factorial) : 0;
        log_upper[a] = found ? bound_of(EPS__UPPER, sum, units, log_factorial) : INFINITY;
        factorial *= ldexp(a + 1.0, -shift);
    }
    return status;
}
