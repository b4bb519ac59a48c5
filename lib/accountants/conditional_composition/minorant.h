/*
 * Conditional composition's tail bounds: how little the rows before may say against a bin, but for a bad event.
 *
 * In the order of a row's means, let i be a bin, J those before it whose means so far are others than mu_i, m of them, and e
 * those whose means so far are equal. The odds against i among them are
 *   e + sum_{j in J} exp(L_ij(y)),  L_ij(y) = <y, mu_j - mu_i> + (|mu_i|^2 - |mu_j|^2)/2        (sigma = 1)
 * and for any law psi on J, by Jensen's inequality (A9),
 *   ln (1/m) sum_{j in J} exp(L_ij(y)) >= sum_j psi_j L_ij(y) - KL(psi || uniform),
 * which is affine in y: a Gaussian for every Gaussian y, and so of a known quantile.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_CONDITIONAL_COMPOSITION_MINORANT_H
#define EPS_ACCOUNTANTS_CONDITIONAL_COMPOSITION_MINORANT_H

#include "lib/accountants/conditional_composition/walk.h"
#include "lib/numerics/bound.h"

/* The law of a minorant under P (remove) or Q (add): sum_k weight[k] N(least + gap[k] deviation, deviation^2), as far as the
 * lower tail goes: means rounded down, the deviation rounded up, means that are near moved to the least of them. */
struct eps__cc_minorant {
    double equal, others;    /* e and m */
    double least, deviation; /* of the means; deviation > 0 */
    double error, widened;   /* what least has been rounded down by, and the deviation up, at most */
    double *gap, *weight;    /* gap[0] = 0, rising; weights add up to 1 */
    size_t len;
};

void eps__cc_minorant_clear(struct eps__cc_minorant *minorant);

/* Room for one bin's computation after the other: one a thread. */
struct eps__cc_room;
struct eps__cc_room *eps__cc_room_create(size_t bins);
void eps__cc_room_destroy(struct eps__cc_room *room);

/* The best minorant found for the bin at the place `at` of the walk's order, whose tail beyond it is to be e^log_beta.
 * quick: a good one. False without memory; *minorant is the caller's to clear. */
bool eps__cc_minorant_find(struct eps__cc_minorant *minorant, const struct eps__cc_walk *walk, size_t at,
                           enum eps_direction direction, double log_beta, bool quick, struct eps__cc_room *room);

/*
 * The bin's share of what is left for it and those before, but for a bad event of probability e^log_beta, in bounds on
 * ln(share/(1 - share)): [EPS__UPPER] proven; [EPS__LOWER] less than the same in exact arithmetic.
 */
void eps__cc_minorant_odds(const struct eps__cc_minorant *minorant, double log_beta, double log_odds[2]);

/* ---- for tests ---- */

/* The least x >= 0 with sum_k weight[k] Pr[Z > x + gap[k]] <= e^log_beta, hardly more. */
double eps__cc_quantile(const struct eps__cc_minorant *minorant, double log_beta);

#endif
