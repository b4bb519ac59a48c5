/*
 * Expansion of a composition, where a large loss is rare, by the number of steps that had one.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_PLD_COMPOSE_EXPANSION_H
#define EPS_PLD_COMPOSE_EXPANSION_H

#include "lib/pld/compose/saddle.h"

enum { EPS__STEP_CLASSES_MAX = 4, EPS__TERMS_MAX = 48 };

/*
 * Each step's loss is split at `cut` into a core and, with small probability, a jump. The composition is the sum over
 * the numbers k_j of jumps among the steps of class j of prod_j C(n_j, k_j) core_j^(n_j - k_j) jump_j^k_j. Each term
 * has light tails and a tilt of its own; a single tilt for the whole composition would suit none of them.
 */
struct eps__expansion_term {
    size_t jumps[EPS__STEP_CLASSES_MAX];
    double log_count; /* ln prod_j C(n_j, k_j) */
    struct eps__saddle saddle;
    double missed;   /* computed ln delta minus the saddle point's; 0: not computed */
    bool negligible; /* whether a Chernoff bound at the saddle's tilt, which is then as small as possible, is enough */
};

struct eps__expansion {
    double cut, log_jumps; /* log_jumps: ln of the expected number of jumps */
    size_t most;           /* the largest number of jumps of a term */
    struct eps__expansion_term terms[EPS__TERMS_MAX];
    size_t terms_len;
    double log_delta; /* the sum of the terms' saddle points, or the known value */
    double slope;     /* -d ln delta / d eps */
    double surplus;   /* ln of the largest ratio of a term's tilted mass to delta */
    double steepest;  /* the largest tilt of all terms */
    double jump_tilt; /* the largest tilt of a term with jumps that is not negligible */
};

/* Chooses the expansion for eps, given what is known of ln delta there (NAN: nothing). Proves nothing. EPS_OK;
 * EPS_UNSUPPORTED if there are too many classes of steps, or terms; EPS_CANCELED, EPS_TIMEOUT. */
enum eps_status eps__expand(const struct eps_context *context, const struct eps__steps *steps, double eps, double known,
                            double tolerance, struct eps__expansion *expansion);

/* Replaces the saddle points' values by the computed ones: ln of the terms with their counts (NAN where a bound
 * replaces the term), ln of their sum, and its slope. */
void eps__expansion_learn(struct eps__expansion *expansion, const double *log_deltas, double log_delta, double slope);

/* Takes over what eps__expansion_learn() recorded for terms with the same jumps, and the slope. */
void eps__expansion_remember(struct eps__expansion *expansion, const struct eps__expansion *before);

/* The approximate relative change of delta from splitting cells of a spacing. */
double eps__expansion_effect(const struct eps__steps *steps, const struct eps__expansion *expansion, double spacing);

#endif
