/*
 * The chain of copies under Poisson sampling whose states hold few participations (M31). A state is a sorted list of
 * participations, youngest first, each the number of steps since and the copy. Copies are renamed in the order in which
 * they occur, so that most states that differ only in the names of copies are one.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_MOMENTS_LAWS_FEW_CHAIN_H
#define EPS_MOMENTS_LAWS_FEW_CHAIN_H

#include <stdint.h>

#include "lib/moments/laws/poisson.h"

enum {
    EPS__FEW_COPIES_MOST = 3,
    EPS__FEW_HELD_MOST = 8, /* participations of a state */
    EPS__FEW_DRAWS_MOST = 1 << EPS__FEW_COPIES_MOST
};

#define EPS__FEW_EXPONENT_MOST 70.0 /* of each factor of a weight, so that products are within the range of doubles */

/* One participation: `age` >= 1 steps ago, of one copy; age 0: none. */
struct eps__few_part {
    uint16_t age, copy;
};

struct eps__few_chain {
    const struct eps__banded_gram *banded;
    unsigned copies, held, draws; /* draws: subsets of the copies */
    size_t ages;                  /* the largest age, width - 1 */
    unsigned bits;                /* of a packed participation */
    double *pay;                  /* [age]: the exponent for one participation that is forgotten at this age */
    double *entry;                /* [age]: scratch of eps__few_weigh() */
    size_t len, size;
    uint64_t *keys;   /* of each state, packed; state 0 is the empty one */
    uint32_t *next;   /* [state][draw]: the state after the step */
    double *paid;     /* [state][draw]: the payment, e^exponent */
    double paid_most; /* the largest exponent of one */
    uint32_t *table;  /* hash table of indices + 1 */
    size_t table_mask;
    struct eps__few_part *parts; /* [state][held], unpacked */
    double *weights;             /* [state][draw], as eps__few_weigh() leaves them */
};

/* The bits of a packed participation. */
unsigned eps__few_bits(size_t width, unsigned copies);

/* Finds the states of copies, 2 to EPS__FEW_COPIES_MOST, that hold up to `held` participations, whose bits are at most
 * 64. Refers to *banded. The caller clears, whatever the status. EPS_OK, EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT. */
enum eps_status eps__few_chain_make(const struct eps_context *context, struct eps__few_chain *chain,
                                    const struct eps__banded_gram *banded, unsigned copies, unsigned held);
void eps__few_chain_clear(struct eps__few_chain *chain);

/* Reads what the weights of step i depend on: drawn[draw], and the entry of the Gram matrix for each age, from 1 on.
 * Returns the largest exponent of drawn[]. */
double eps__few_step(double drawn[EPS__FEW_DRAWS_MOST], double *entry, const struct eps__few_chain *chain, size_t i);

/* weights[draw]: those of state s. Returns the largest exponent of a factor. */
double eps__few_weigh_state(double *weights, const struct eps__few_chain *chain, const double *drawn,
                            const double *entry, size_t s);

/* Sets the weights of all states at step i. *exponent_most rises to the largest exponent of a factor; false: it is over
 * EPS__FEW_EXPONENT_MOST. */
bool eps__few_weigh(struct eps__few_chain *chain, size_t i, double *exponent_most);

/* A bound on the relative error of a step, in units of roundoff: of the weights of one state, and of their sum. */
double eps__few_step_units(double exponent_most);

#endif
