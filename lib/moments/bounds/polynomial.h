/*
 * Polynomials in t = X - 1, payoffs, and the proof that a polynomial dominates a payoff.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_MOMENTS_BOUNDS_POLYNOMIAL_H
#define EPS_MOMENTS_BOUNDS_POLYNOMIAL_H

#include <stdbool.h>

#include "lib/moments/bounds/moments.h"

/* The sum of c[j] t^j over j <= degree, degree <= EPS__MOMENTS_MAX. */
struct eps__polynomial {
    size_t degree;
    eps__quad c[EPS__MOMENTS_MAX + 1];
};

/* The payoff on t >= -1, that is, X >= 0: (t - kink)_+ to remove, (kink - t)_+ to add; kink > -1. */
struct eps__payoff {
    enum eps_direction direction;
    eps__quad kink;
};

/* A polynomial of degree n has at most n/2 + 1 contacts. */
enum { EPS__CONTACTS_MAX = EPS__MOMENTS_MAX / 2 + 1 };

/* The points where a polynomial touches the payoff. They are found without proof and serve as hints. */
struct eps__contacts {
    size_t len;
    bool zero;                         /* X = 0 is a further contact */
    eps__quad node[EPS__CONTACTS_MAX]; /* values of t > -1, ascending */
};

/* The difference of p and the payoff on one side of the kink, expanded around a point: the coefficient of h^k is within
 * error[k] of value[k] (M2). */
struct eps__expansion {
    size_t degree;
    eps__quad value[EPS__MOMENTS_MAX + 1], error[EPS__MOMENTS_MAX + 1];
};

/* Expands the difference around t = at; above: on the side of t > kink. */
void eps__polynomial_expand(struct eps__expansion *expansion, const struct eps__polynomial *p,
                            const struct eps__payoff *payoff, bool above, eps__quad at);

/*
 * Whether p >= payoff on all of t >= -1. True is proven (M3); false means that no proof was found. The hints are the
 * points where the difference is smallest. They affect the running time and whether a proof is found, but not its
 * validity. 2 <= p->degree.
 */
bool eps__polynomial_dominates(const struct eps__polynomial *p, const struct eps__payoff *payoff,
                               const struct eps__contacts *hints);

/* Hermite interpolation: the polynomial of this degree with the payoff's value at all contacts and its slope at those
 * other than X = 0. If that is one condition too many, the slope at the last contact is left out. */
void eps__polynomial_touch(struct eps__polynomial *p, size_t degree, const struct eps__payoff *payoff,
                           const struct eps__contacts *contacts);

/* Raises p where it seems to be below the payoff near the contacts, with a margin for the rounding of the proof. Moves
 * the contacts to the points where p - payoff is least. False if p is too far below the payoff. */
bool eps__polynomial_repair(struct eps__polynomial *p, const struct eps__payoff *payoff, struct eps__contacts *contacts,
                            const struct eps__moments *moments);

/* An upper bound on the mean of p for all moments within their errors (M1). */
eps__quad eps__polynomial_mean(const struct eps__polynomial *p, const struct eps__moments *moments);

#endif
