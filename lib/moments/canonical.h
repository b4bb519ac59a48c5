/*
 * The laws that attain the moment problem's optimum: canonical representations. Nothing here is a bound: it says where a good
 * polynomial touches the payoff.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_MOMENTS_CANONICAL_H
#define EPS_MOMENTS_CANONICAL_H

#include "lib/moments/polynomial.h"

/* Three-term recurrences pi_{k+1} = (t - a_k) pi_k - b_k pi_{k-1} of the law of X (weight 0) and of X times the law (weight 1). Of each, b_k is
 * there for k <= rank, a_k for k < ranked; rank <= ranked <= rank + 1. */
struct eps__recurrence {
    size_t b_len, a_len; /* b[0 .. b_len - 1], a[0 .. a_len - 1] are known; all b > 0 */
    long double a[EPS__CONTACTS_MAX + 1], b[EPS__CONTACTS_MAX + 1];
};

struct eps__canonical {
    struct eps__recurrence plain, weighted;
};

/* From the moments up to the order len, as many as are those of a law with enough atoms. */
void eps__canonical_prepare(struct eps__canonical *canonical, const struct eps__moments *moments, size_t len);

/* The contacts of the best polynomial of that degree, and the mean of the payoff under the law on them, if they are those of a law;
 * else NAN. `corner`: of even degree, with a node at X = 0. False: there is none. */
bool eps__canonical_contacts(struct eps__contacts *contacts, long double *mean, const struct eps__canonical *canonical,
                             size_t degree, bool corner, const struct eps__payoff *payoff);

#endif
