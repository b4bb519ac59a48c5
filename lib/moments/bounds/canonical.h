/*
 * Canonical representations: the laws that attain the optimum of the truncated moment problem. Nothing here is a bound.
 * The nodes of these laws are the points where a good polynomial touches the payoff.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_MOMENTS_BOUNDS_CANONICAL_H
#define EPS_MOMENTS_BOUNDS_CANONICAL_H

#include "lib/moments/bounds/polynomial.h"

/* The three-term recurrence pi_{k+1} = (t - a_k) pi_k - b_k pi_{k-1} of the orthogonal polynomials of a measure, as far
 * as its moments determine it. a_len <= b_len <= a_len + 1; all b > 0. */
struct eps__recurrence {
    size_t b_len, a_len;
    long double a[EPS__CONTACTS_MAX + 1], b[EPS__CONTACTS_MAX + 1];
    long double roots[EPS__CONTACTS_MAX + 1][EPS__CONTACTS_MAX]; /* roots[k]: those of pi_k, 1 <= k <= a_len */
    long double scale; /* numbers below this size are treated as near 0 in searches */
};

/* The recurrences of the law of X (plain), and of X times this law (weighted). */
struct eps__canonical {
    struct eps__recurrence plain, weighted;
};

/* Fills in the recurrences from the moments up to the order len, 2 <= len <= moments->len. They end where the moments
 * stop being those of a law with enough atoms. */
void eps__canonical_prepare(struct eps__canonical *canonical, const struct eps__moments *moments, size_t len);

/* The contacts of the best polynomial of this degree. *mean: the mean of the payoff under the law on the contacts, or
 * NAN if there is no such law. corner: for an even degree, the variant with a node at X = 0. False if no contacts
 * exist. */
bool eps__canonical_contacts(struct eps__contacts *contacts, long double *mean, const struct eps__canonical *canonical,
                             size_t degree, bool corner, const struct eps__payoff *payoff);

#endif
