/*
 * All three quantities are binomial tails or a ratio of two. A tail near 1 is bounded through its complement.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/sampling/truncation.h"

#include "lib/numerics/binomial.h"
#include "lib/numerics/normal.h"

static struct eps__interval complement(struct eps__interval tail)
{
    return (struct eps__interval){fmax(eps__lower(1 - tail.upper, 4), 0), fmin(eps__raise(1 - tail.lower, 4), 1)};
}

static struct eps__interval meet(struct eps__interval a, struct eps__interval b)
{
    return (struct eps__interval){fmax(a.lower, b.lower), fmin(a.upper, b.upper)};
}

struct eps__truncation eps__truncate(uint64_t dataset, double p, uint64_t limit)
{
    double share = (double)limit / (double)dataset;
    if (limit >= dataset)
        return (struct eps__truncation){{1, 1}, {0, 0}, {0, 1}};
    if (p >= 1)
        return (struct eps__truncation){{0, 0}, {1, 1}, {eps__lower(share, 4), fmin(eps__raise(share, 4), 1)}};
    struct eps__truncation t = {.full = eps__binomial_at_least(dataset - 1, p, limit),
                                .open = eps__binomial_at_most(dataset - 1, p, limit - 1)};
    struct eps__interval over = eps__binomial_at_least(dataset, p, limit + 1), full = t.full;
    t.full = meet(full, complement(t.open));
    t.open = meet(t.open, complement(full));
    /* Pr[Binom(N,p) >= B+1] = Pr[Binom(N-1,p) >= B+1] + p Pr[Binom(N-1,p) = B] lies between p and 1 times `full`. */
    double high = t.full.lower > 0 ? over.upper / t.full.lower : 1,
           low = t.full.upper > 0 ? over.lower / t.full.upper : p;
    t.q.upper = eps__raise(share * fmin(eps__raise(high, 4), 1), 4);
    t.q.lower = eps__lower(share * fmax(eps__lower(low, 4), p), 4);
    return t;
}
