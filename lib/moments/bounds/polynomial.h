/*
 * Polynomials in t = X - 1, the payoffs that they are to dominate, and the proof that they do.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_MOMENTS_BOUNDS_POLYNOMIAL_H
#define EPS_MOMENTS_BOUNDS_POLYNOMIAL_H

#include <stdbool.h>

#include "lib/moments/bounds/moments.h"

/* sum of c[j] t^j, j <= degree <= EPS__MOMENTS_MAX. */
struct eps__polynomial {
    size_t degree;
    eps__quad c[EPS__MOMENTS_MAX + 1];
};

/* The payoff on t >= -1, that is, X >= 0: (t - kink)_+ to remove, (kink - t)_+ to add; kink > -1. */
struct eps__payoff {
    enum eps_direction direction;
    eps__quad kink;
};

/* What is done without proof: where a polynomial touches the payoff. At most one contact more than half of the
 * order. */
enum { EPS__CONTACTS_MAX = EPS__MOMENTS_MAX / 2 + 1 };

struct eps__contacts {
    size_t len;
    bool zero;                         /* and X = 0 is a contact beside these */
    eps__quad node[EPS__CONTACTS_MAX]; /* of t, rising, over -1 */
};

/* The payoff's polynomial on one side of the kink, and the difference of p and it, expanded around a point: the k-th
 * coefficient is within error[k] of value[k] (M2). */
struct eps__expansion {
    size_t degree;
    eps__quad value[EPS__MOMENTS_MAX + 1], error[EPS__MOMENTS_MAX + 1];
};

void eps__polynomial_expand(struct eps__expansion *expansion, const struct eps__polynomial *p,
                            const struct eps__payoff *payoff, bool above, eps__quad at);

/*
 * Whether p >= payoff on all of t >= -1: true is proven (M3), false may also be that no proof was found. The contacts
 * are hints where the difference is small: they alter how long it takes, and whether a proof is found, not what is
 * true.
 */
bool eps__polynomial_dominates(const struct eps__polynomial *p, const struct eps__payoff *payoff,
                               const struct eps__contacts *hints);

/* The polynomial of degree `degree` that has the payoff's value at the contacts, and its slope at those that are not at
 * X = 0: one of these slopes is left out where there is one condition too many. */
void eps__polynomial_touch(struct eps__polynomial *p, size_t degree, const struct eps__payoff *payoff,
                           const struct eps__contacts *contacts);

/* Raises p by what it seems to lack of the payoff near the contacts, and by more than the rounding of a proof; contacts
 * are moved to where it comes closest. False: it lacks too much to be repaired. */
bool eps__polynomial_repair(struct eps__polynomial *p, const struct eps__payoff *payoff, struct eps__contacts *contacts,
                            const struct eps__moments *moments);

/* At least the mean of p, for all moments within their errors (M1). */
eps__quad eps__polynomial_mean(const struct eps__polynomial *p, const struct eps__moments *moments);

#endif
