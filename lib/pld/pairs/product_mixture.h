/*
 * The law of S = sum_k shift_k Binom(count_k, p_k) as a mixture of few Gaussians N(s, 1): what one row of a matrix
 * mechanism reveals of an example (the product mixtures of MMCC section 4.1).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_PLD_PAIRS_PRODUCT_MIXTURE_H
#define EPS_PLD_PAIRS_PRODUCT_MIXTURE_H

#include "lib/pld/pairs/pair.h"

/* One participation, or `count` equal ones. shift is in units of sigma; log_odds = ln(p/(1 - p)). */
struct eps__factor {
    double shift;
    double log_odds; /* INFINITY: p = 1 */
    double count;    /* an integer >= 1 */
};

/* On which side of P, the density of the law convolved with N(0, 1), the mixture must lie. */
enum eps__side { EPS__OVER, EPS__UNDER };

/* The error of a mixture, rounding included. */
struct eps__atoms_error {
    double weight; /* relative error of the density */
    double shift;  /* relative error of every shift */
    double lost;   /* OVER: mass that was left out; UNDER: 0 */
};

/* The limits of a mixture. */
struct eps__atoms_limits {
    double budget;    /* approximately, of the weights' error; exceeded only if max_len requires it */
    double log_floor; /* ln of the mass that may be lost */
    size_t max_len;
};

/*
 * A mixture with at most max_len atoms; these are the law's own atoms if there are few enough. Apart from the error of
 * the shifts, pointwise,
 *   OVER:  P <= (1 + weight) mixture + a measure of mass `lost`
 *   UNDER: P >= (1 - weight) mixture.
 * If no atoms were thinned the mixture is `whole`, a law except for what was trimmed (`missing`).
 *
 * Returns false if out of memory. In every case the caller clears *mixture.
 */
bool eps__product_atoms(struct eps__mixture *mixture, struct eps__atoms_error *error, const struct eps__factor *factors,
                        size_t len, enum eps__side side, const struct eps__atoms_limits *limits);

/*
 * A mixture of a few atoms with the law's first moments, which is both OVER and UNDER for |z| <= reach:
 *   (1 - *error) mixture <= P <= (1 + *error) mixture.
 * For shifts that are small compared with 1/reach. *error is INFINITY if no such mixture with an error of at most
 * `budget` was found. proven = false skips the bound: *error is then 0 if there is a mixture at all. Returns false if
 * out of memory. In every case the caller clears *mixture.
 */
bool eps__product_moments(struct eps__mixture *mixture, double *error, const struct eps__factor *factors, size_t len,
                          double reach, double budget, bool proven);

/* ln of an upper bound on Pr_P[|z| > reach]. */
double eps__product_log_outside(const struct eps__factor *factors, size_t len, double reach);

#endif
