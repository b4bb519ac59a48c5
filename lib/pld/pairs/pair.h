/*
 * A dominating pair of one step: mixtures of Gaussians against mixtures of Gaussians on the line.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_PLD_PAIRS_PAIR_H
#define EPS_PLD_PAIRS_PAIR_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/numerics/bound.h"

/* sum_i weight[i] N(+-shift[i], 1), shift[i] >= 0 in units of sigma; weight > 0, summing to at most 1. */
struct eps__mixture {
    double *weight;
    double *shift;
    size_t len;
    bool whole;     /* the exact weights are those of a probability law, but for */
    double missing; /* what they fall short of 1 by, at most: trimmed atoms */
};

/*
 * The pair P = sum_i w_i N(a_i, 1) against Q = sum_j v_j N(-b_j, 1), a_i, b_j >= 0 (MMCC section 4.1, TPS lemma
 * 2.4). Its loss L(z) = ln P/Q increases in z, and the privacy loss is L(z) with z ~ P. The other direction of
 * the same mechanism is the pair with the two mixtures exchanged: reflect z.
 * `lost` is a probability of P that the numerator leaves out: infinite loss in an upper estimate, and not counted in
 * a lower one. `weight_error` bounds the relative error of every weight: P <= (1 + e) P' and Q >= (1 - e) Q' widen
 * the loss by 2 e and the masses by e.
 */
struct eps__pair {
    struct eps__mixture numerator, denominator;
    double lost;
    double weight_error;
};

/*
 * What one step does with some probability that everybody sees: the pair, its shifts and weights bounded in either
 * estimate's direction, and the probability, likewise bounded. The curve of the whole step is the mixture of the
 * branches' curves. A step that has no such choice is one branch of weight 1.
 */
struct eps__branch {
    double weight[2]; /* by estimate */
    struct eps__pair pair[2];
};

/* Zeroed arrays of `len`; false without memory, and then there is nothing to clear. */
bool eps__mixture_alloc(struct eps__mixture *mixture, size_t len);
void eps__mixture_clear(struct eps__mixture *mixture);
void eps__branch_clear(struct eps__branch *branch);

/* Everything the walk over z needs at one point. */
struct eps__pair_point {
    double z;
    double log_numerator;   /* ln sum w_i exp(a_i z - a_i^2/2): the density of P at z over phi(z) */
    double log_denominator; /* likewise for Q */
    double loss;            /* the difference */
    double slope;           /* dL/dz >= 0 */
    double loss_error;      /* bound on the rounding error of loss */
};

/* numerator_share[i], denominator_share[j]: the posterior weights of the components at z; either may be NULL. */
void eps__pair_at(const struct eps__pair *pair, double z, struct eps__pair_point *point, double *numerator_share,
                  double *denominator_share);

/*
 * The z in (left->z, right_z] with L(z) = loss, by Newton's method from *left, kept inside the interval; right_z
 * if L(right_z) <= loss. Fills in *point there; point->loss differs from the loss asked for by what the caller
 * must count (see loss_error).
 */
void eps__pair_inverse(const struct eps__pair *pair, const struct eps__pair_point *left, double right_z, double loss,
                       struct eps__pair_point *point);

/* Upper and lower bounds on ln Pr_P[left < z <= right]; left may be -INFINITY, right INFINITY. Relative width
 * about 1e-13 where the interval holds a good part of its tail, and always a valid bound. */
void eps__pair_log_mass(const struct eps__pair *pair, double left, double right, double *log_lower, double *log_upper);

/* The largest a_i and b_j, and the supremum of L (INFINITY if there is none). */
double eps__mixture_reach(const struct eps__mixture *mixture);
double eps__pair_ceiling(const struct eps__pair *pair);

#endif
