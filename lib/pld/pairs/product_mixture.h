/*
 * The law of S = sum_k shift_k Binom(count_k, p_k) as a mixture of few Gaussians N(s, 1): what one row of a matrix
 * mechanism shows of an example (the product mixtures of MMCC section 4.1).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_PLD_PAIRS_PRODUCT_MIXTURE_H
#define EPS_PLD_PAIRS_PRODUCT_MIXTURE_H

#include "lib/pld/pairs/pair.h"

/* One participation, or `count` equal ones: the shift in units of sigma, and ln(p/(1 - p)). */
struct eps__factor {
    double shift;
    double log_odds; /* INFINITY: p = 1 */
    double count;    /* a whole number >= 1 */
};

/* Which side of P, the density of the law convolved with N(0, 1), the mixture must lie on. */
enum eps__side { EPS__OVER, EPS__UNDER };

/* How far a mixture may be off, rounding included. */
struct eps__atoms_error {
    double weight; /* relative, of the density */
    double shift;  /* relative, of every shift */
    double lost;   /* OVER: mass that was left out; else 0 */
};

/*
 * A mixture with at most max_len atoms, all of the law's where these are so few. But for the shifts' error, pointwise,
 *   OVER:  P <= (1 + weight) mixture + a measure of mass `lost`
 *   UNDER: P >= (1 - weight) mixture.
 * Where no atoms were thinned the mixture is `whole`, a law but for what was trimmed (`missing`).
 * budget: what the weights' error may come to, roughly; it is more where max_len leaves no choice. log_floor: ln of the
 * mass that may be lost.
 * Returns false without memory; *mixture is the caller's to clear in every case.
 */
bool eps__product_atoms(struct eps__mixture *mixture, struct eps__atoms_error *error, const struct eps__factor *factors,
                        size_t len, enum eps__side side, double budget, double log_floor, size_t max_len);

/*
 * A mixture of a few atoms with the law's first moments, both OVER and UNDER at once for |z| <= reach:
 *   (1 - *error) mixture <= P <= (1 + *error) mixture.
 * Wants shifts that are small beside 1/reach. *error is INFINITY where no such mixture was found with an error of at
 * most `budget`. proven = false: skips the bound, *error is 0 if there is a mixture at all.
 * Returns false without memory; *mixture is the caller's to clear in every case.
 */
bool eps__product_moments(struct eps__mixture *mixture, double *error, const struct eps__factor *factors, size_t len,
                          double reach, double budget, bool proven);

/* ln of a bound on Pr_P[|z| > reach]. */
double eps__product_log_outside(const struct eps__factor *factors, size_t len, double reach);

#endif
