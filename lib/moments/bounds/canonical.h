/*
 * The laws that attain the moment problem's optimum: canonical representations. Nothing here is a bound: it says where
 * a good polynomial touches the payoff.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_MOMENTS_BOUNDS_CANONICAL_H
#define EPS_MOMENTS_BOUNDS_CANONICAL_H

#include "lib/moments/bounds/polynomial.h"

/* The three-term recurrence pi_{k+1} = (t - a_k) pi_k - b_k pi_{k-1} of a measure, as far as its moments give it: b_len
 * <= a_len + 1 and a_len <= b_len. */
struct eps__recurrence {
    size_t b_len, a_len; /* all b > 0 */
    long double a[EPS__CONTACTS_MAX + 1], b[EPS__CONTACTS_MAX + 1];
    long double roots[EPS__CONTACTS_MAX + 1][EPS__CONTACTS_MAX]; /* of the polynomials of degree 1 to a_len */
    long double scale;                                           /* what is small */
};

/* Of the law of X, and of X times that law. */
struct eps__canonical {
    struct eps__recurrence plain, weighted;
};

/* From the moments up to the order len, as many as are those of a law with enough atoms. */
void eps__canonical_prepare(struct eps__canonical *canonical, const struct eps__moments *moments, size_t len);

/* The contacts of the best polynomial of that degree, and the mean of the payoff under the law on them, if they are
 * those of a law; else NAN. `corner`: of even degree, with a node at X = 0. False: there is none. */
bool eps__canonical_contacts(struct eps__contacts *contacts, long double *mean, const struct eps__canonical *canonical,
                             size_t degree, bool corner, const struct eps__payoff *payoff);

#endif
