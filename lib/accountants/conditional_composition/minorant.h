/*
 * The tail bounds of conditional composition: a lower bound on the odds against a bin given the rows before, which
 * holds unless a bad event happens.
 *
 * Order the bins by their means in a row, and let i be a bin. Let J be the m bins before it whose means so far differ
 * from mu_i, and e the number of bins before it whose means so far equal mu_i. The odds against i among these bins are
 *   e + sum_{j in J} exp(L_ij(y)),  L_ij(y) = <y, mu_j - mu_i> + (|mu_i|^2 - |mu_j|^2)/2        (sigma = 1)
 * and for any law psi on J, by Jensen's inequality (A9),
 *   ln (1/m) sum_{j in J} exp(L_ij(y)) >= sum_j psi_j L_ij(y) - KL(psi || uniform).
 * The right side is affine in y, so it is Gaussian for every Gaussian y and has a known quantile.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_CONDITIONAL_COMPOSITION_MINORANT_H
#define EPS_ACCOUNTANTS_CONDITIONAL_COMPOSITION_MINORANT_H

#include "lib/accountants/conditional_composition/walk.h"
#include "lib/numerics/bound.h"

/* The law of a minorant under P (remove) or Q (add), as a mixture sum_k weight[k] N(least + gap[k] deviation,
 * deviation^2). Its lower tail is at least the exact one: means are rounded down, the deviation is rounded up, and
 * means that are close are moved down to the least of them. */
struct eps__cc_minorant {
    double equal, others;    /* e and m */
    double least, deviation; /* the least mean, and the standard deviation, > 0 */
    double error, widened;   /* the most by which `least` was rounded down, and the deviation up */
    double *gap, *weight;    /* gaps in ascending order from gap[0] = 0; weights with the sum 1 */
    size_t len;
};

void eps__cc_minorant_clear(struct eps__cc_minorant *minorant);

/* A workspace, for one thread. NULL if memory runs out. */
struct eps__cc_room;
struct eps__cc_room *eps__cc_room_create(size_t bins);
void eps__cc_room_destroy(struct eps__cc_room *room);

/* Finds a good minorant for the bin at place `at` of the walk's order and a failure probability of e^log_beta. quick:
 * with a shorter search. Returns false if memory runs out. The caller clears *minorant in any case. */
bool eps__cc_minorant_find(struct eps__cc_minorant *minorant, const struct eps__cc_walk *walk, size_t at,
                           enum eps_direction direction, double log_beta, bool quick, struct eps__cc_room *room);

/*
 * The log odds of the bin among itself and the bins before it. log_odds[EPS__UPPER] is an upper bound that fails with a
 * probability of at most e^log_beta. log_odds[EPS__LOWER] is at most the same bound in exact arithmetic.
 */
void eps__cc_minorant_odds(const struct eps__cc_minorant *minorant, double log_beta, double log_odds[2]);

/* ---- for tests ---- */

/* The least x >= 0 with sum_k weight[k] Pr[Z > x + gap[k]] <= e^log_beta, rounded up slightly; INFINITY if it is not
 * found. */
double eps__cc_quantile(const struct eps__cc_minorant *minorant, double log_beta);

#endif
