/*
 * All three figures are binomial tails and a ratio of two: near 1 a tail is bounded through the other one.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/sampling/truncation.h"

#include "lib/numerics/binomial.h"
#include "lib/numerics/normal.h"

static struct eps__interval complement(struct eps__interval tail)
{
    return (struct eps__interval){fmax((1 - tail.upper) * (1 - 2 * EPS__UNIT_ROUNDOFF), 0),
                                  fmin((1 - tail.lower) * (1 + 2 * EPS__UNIT_ROUNDOFF), 1)};
}

static struct eps__interval meet(struct eps__interval a, struct eps__interval b)
{
    return (struct eps__interval){fmax(a.lower, b.lower), fmin(a.upper, b.upper)};
}

struct eps__truncation eps__truncate(uint64_t dataset, double p, uint64_t limit)
{
    double share = (double)limit / (double)dataset, u = 4 * EPS__UNIT_ROUNDOFF;
    if (limit >= dataset)
        return (struct eps__truncation){{1, 1}, {0, 0}, {0, 1}};
    if (p >= 1)
        return (struct eps__truncation){{0, 0}, {1, 1}, {share * (1 - u), fmin(share * (1 + u), 1)}};
    struct eps__truncation t = {.full = eps__binomial_at_least(dataset - 1, p, limit),
                                .open = eps__binomial_at_most(dataset - 1, p, limit - 1)};
    struct eps__interval over = eps__binomial_at_least(dataset, p, limit + 1), full = t.full;
    t.full = meet(full, complement(t.open));
    t.open = meet(t.open, complement(full));
    /* Pr[Binom(N,p) >= B+1] = Pr[Binom(N-1,p) >= B+1] + p Pr[Binom(N-1,p) = B] lies between p and 1 times `full`. */
    double high = t.full.lower > 0 ? over.upper / t.full.lower : 1,
           low = t.full.upper > 0 ? over.lower / t.full.upper : p;
    t.q.upper = share * fmin(high * (1 + u), 1) * (1 + u);
    t.q.lower = share * fmax(low * (1 - u), p) * (1 - u);
    return t;
}
