/*
 * Where a large loss is rare: the composition by how many steps had one.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_PLD_COMPOSE_EXPANSION_H
#define EPS_PLD_COMPOSE_EXPANSION_H

#include "lib/pld/compose/saddle.h"

enum { EPS__STEP_CLASSES_MAX = 4, EPS__TERMS_MAX = 48 };

/*
 * Each step's loss is split at `cut` into a core and, with little probability, a jump. The composition is the sum over
 * the numbers k_j of jumps among the steps of class j of prod_j C(n_j, k_j) core_j^(n_j - k_j) jump_j^k_j. Its terms
 * have light tails, each with a tilt of its own, where a single tilt of the whole serves neither.
 */
struct eps__expansion_term {
    size_t jumps[EPS__STEP_CLASSES_MAX];
    double log_count; /* ln prod_j C(n_j, k_j) */
    struct eps__saddle saddle;
    double
        missed; /* by how much the term turned out to be more than its saddle point says, in ln delta; 0: nothing known */
    bool
        negligible; /* so much so that a Chernoff bound at the saddle's tilt, which is then no larger than need be, will do */
};

struct eps__expansion {
    double cut, log_jumps; /* ln of the expected number of jumps */
    size_t most;           /* the largest number of jumps among the terms */
    struct eps__expansion_term terms[EPS__TERMS_MAX];
    size_t terms_len;
    double log_delta; /* the terms' saddle points, summed, or what was known */
    double slope;     /* -d ln delta / d eps */
    double surplus;   /* ln of how much larger than delta a tilted term's mass is, at most */
    double steepest;  /* the largest tilt of a term that counts, */
    double jump_tilt; /* and of one with jumps that does */
};

/* The expansion that aims at eps, given what is known of ln delta there (NAN: nothing); EPS_UNSUPPORTED if there are too
 * many classes of steps, or terms, for one; EPS_CANCELED, EPS_TIMEOUT. Unproven. */
enum eps_status eps__expand(const struct eps_context *context, const struct eps__steps *steps, double eps, double known,
                            double tolerance, struct eps__expansion *expansion);

/* Puts what the terms came to (ln, with their counts; NAN where a bound stands for one), their sum and its slope in the
 * place of what their saddle points say. */
void eps__expansion_learn(struct eps__expansion *expansion, const double *log_deltas, double log_delta, double slope);

/* Takes over what was learned of terms with the same jumps, and of the slope. */
void eps__expansion_remember(struct eps__expansion *expansion, const struct eps__expansion *before);

/* About how much splitting cells of a spacing changes delta, relatively. */
double eps__expansion_effect(const struct eps__steps *steps, const struct eps__expansion *expansion, double spacing);

#endif
