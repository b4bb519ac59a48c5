/*
 * Draws under Poisson sampling. The shape of the strategy decides which law is opened: poisson_banded.c serves few
 * bands exactly, poisson_few.c more bands by bounds on P/Q, poisson_tree.c trees.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_MONTE_CARLO_LAWS_POISSON_H
#define EPS_ACCOUNTANTS_MONTE_CARLO_LAWS_POISSON_H

#include "lib/accountants/monte_carlo/law.h"

enum {
    EPS__MC_HEIGHT_MAX = 48,
    EPS__MC_POISSON_MEMORY_MAX = 11, /* earlier rounds that share rows with one, of poisson_banded.c; */
    EPS__MC_POISSON_MEMORY_FEW = 7   /* from so many on, poisson_few.c has better tilts */
};

#define EPS__MC_TREE_RARE 45.0 /* patterns left out have a total probability below e^-45 */

/* For each shape cost(), exact() and open(), as eps__mc_poisson, and the class of the opened laws. */
extern const struct eps__mc_law_class eps__mc_poisson_banded, eps__mc_poisson_few, eps__mc_poisson_tree;

/* Whether there are not too many bands. If there are, returns false and sets the error. */
bool eps__mc_poisson_few_serves(const struct eps__setting *setting, struct eps_error *error);
/* The most participations that a state of its recursion holds, at least 2; 0: too many bands. *crowds: about how often
 * a draw that matters has more. */
unsigned eps__mc_poisson_few_held(double *crowds, size_t rounds, size_t memory, double p);
/* Whether its bounds are tight. */
bool eps__mc_poisson_few_suits(size_t rounds, size_t memory, double p);

/* Opens a plain law, or one tilted for add. rare: as in eps__mc_poisson_tree_caps(). EPS_OK, EPS_NO_MEMORY,
 * EPS_UNSUPPORTED (no tilt is better than plain draws). */
enum eps_status eps__mc_poisson_tree_open(struct eps__mc_law **law, const struct eps__setting *setting,
                                          const struct eps__mc_aim *aim, double rare);
/* cap[h] = the cap of nodes of height h, h <= height: the number of leaves under a node that may take part. In all
 * stamps together, some node exceeds its cap with probability less than e^-rare. */
void eps__mc_poisson_tree_caps(size_t *cap, size_t leaves, size_t height, size_t stamps, double p, double rare);

/* For tests: the losses of draw(), computed with a separate exponent for each number even if that is not needed. */
void eps__mc_poisson_exponents(const struct eps__mc_law *law, const struct eps__stream *stream, uint32_t first,
                               double *scratch, double *loss);
void eps__mc_poisson_tree_exponents(const struct eps__mc_law *law, const struct eps__stream *stream, uint32_t first,
                                    double *scratch, double *loss);

#endif
