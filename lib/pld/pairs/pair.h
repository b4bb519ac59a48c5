/*
 * A dominating pair of one step: mixtures of Gaussians on the line against mixtures of Gaussians.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_PLD_PAIRS_PAIR_H
#define EPS_PLD_PAIRS_PAIR_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/numerics/bound.h"

/* sum_i weight[i] N(+-shift[i], 1) with shift[i] >= 0 in units of sigma and weight > 0, of total at most 1. */
struct eps__mixture {
    double *weight;
    double *shift;
    size_t len;
    bool whole;     /* whether the exact weights are those of a probability law, except for `missing` */
    double missing; /* bound on 1 minus the total of the exact weights: trimmed atoms */
};

/*
 * The pair P = sum_i w_i N(a_i, 1) against Q = sum_j v_j N(-b_j, 1), a_i, b_j >= 0 (MMCC section 4.1, TPS lemma 2.4).
 * Its loss L(z) = ln P/Q increases in z, and the privacy loss is L(z) with z ~ P. The other direction of the same
 * mechanism is the pair with the two mixtures exchanged and z reflected.
 *
 * `lost` is P-probability that the numerator leaves out: an upper estimate counts it as infinite loss, a lower one does
 * not count it. `weight_error` bounds the relative error e of every weight: P <= (1 + e) P' and Q >= (1 - e) Q' widen
 * the loss by 2 e and the masses by e.
 */
struct eps__pair {
    struct eps__mixture numerator, denominator;
    double lost;
    double weight_error;
};

/* One public outcome of a step: its probability and its pair, both bounded in the direction of either estimate. The
 * curve of the step is the mixture of the branches' curves. A step without public outcomes is one branch of weight
 * 1. */
struct eps__branch {
    double weight[2]; /* by estimate */
    struct eps__pair pair[2];
};

/* Allocates zeroed arrays of `len`. Returns false if out of memory, and then there is nothing to clear. */
bool eps__mixture_alloc(struct eps__mixture *mixture, size_t len);
void eps__mixture_clear(struct eps__mixture *mixture);
void eps__branch_clear(struct eps__branch *branch);

/* The values of a pair at one point. */
struct eps__pair_point {
    double z;
    double log_numerator;   /* ln sum w_i exp(a_i z - a_i^2/2): the density of P at z over phi(z) */
    double log_denominator; /* the same for Q */
    double loss;            /* log_numerator - log_denominator */
    double slope;           /* dL/dz >= 0 */
    double bend;            /* d2L/dz2 */
    double loss_error;      /* bound on the rounding error of loss */
};

/* Evaluates the pair at z. Out: *point; numerator_share[i] and denominator_share[j], the posterior weights of the
 * components at z, either of which may be NULL. */
void eps__pair_at(const struct eps__pair *pair, double z, struct eps__pair_point *point, double *numerator_share,
                  double *denominator_share);

/* Finds the z in (left->z, right_z] with L(z) = loss, by Newton's method of the second order from *left, bracketed;
 * right_z if L(right_z) <= loss. Out: *point at that z, and the posterior weights there as from eps__pair_at(). The
 * caller must count the difference between point->loss and `loss` (see loss_error). */
void eps__pair_inverse(const struct eps__pair *pair, const struct eps__pair_point *left, double right_z, double loss,
                       struct eps__pair_point *point, double *numerator_share, double *denominator_share);

/* Bounds on ln Pr_P[left < z <= right] from both sides; left may be -INFINITY, right INFINITY. Always valid. The
 * relative width is about 1e-13 if the interval holds a good part of the tail that begins at its near end. */
void eps__pair_log_mass(const struct eps__pair *pair, double left, double right, double *log_lower, double *log_upper);

/* The largest shift of a mixture; the supremum of L (INFINITY if there is none). */
double eps__mixture_reach(const struct eps__mixture *mixture);
double eps__pair_ceiling(const struct eps__pair *pair);

#endif
