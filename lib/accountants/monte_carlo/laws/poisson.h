/*
 * The draws of Poisson sampling, by the shape of the strategy: poisson.c serves few bands, poisson_tree.c serves trees.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_MONTE_CARLO_LAWS_POISSON_H
#define EPS_ACCOUNTANTS_MONTE_CARLO_LAWS_POISSON_H

#include "lib/accountants/monte_carlo/law.h"

enum { EPS__MC_HEIGHT_MAX = 48 };

#define EPS__MC_TREE_RARE 45.0
#define EPS__MC_CERTAIN 1e9 /* the loss of a draw that is worth all that it can be: e^epsilon is nothing to it */

/* Trees, without groups that take turns: what the class in poisson.c asks of them. The law's own class is
 * eps__mc_poisson_tree. */
extern const struct eps__mc_law_class eps__mc_poisson_tree;
bool eps__mc_poisson_tree_exact(const struct eps__setting *setting);
void eps__mc_poisson_tree_cost(const struct eps__setting *setting, double *operations, double *bytes);
/* Plain, or tilted in the add direction. Patterns so rare, as the caps below have it, are left out. EPS_OK, EPS_NO_MEMORY;
 * EPS_UNSUPPORTED: no tilt helps. */
enum eps_status eps__mc_poisson_tree_open(struct eps__mc_law **law, const struct eps__setting *setting,
                                          const struct eps__mc_aim *aim, double rare);
/* By height: under none of a tree's nodes do more take part, but with a probability of less than e^-rare in all the stamps. */
void eps__mc_poisson_tree_caps(size_t *cap, size_t leaves, size_t height, size_t stamps, double p, double rare);

/* The same losses as draw()'s with an exponent for each number, whether or not that is needed. For tests. */
void eps__mc_poisson_exponents(const struct eps__mc_law *law, const struct eps__stream *stream, uint32_t first,
                               double *scratch, double *loss);
void eps__mc_poisson_tree_exponents(const struct eps__mc_law *law, const struct eps__stream *stream, uint32_t first,
                                    double *scratch, double *loss);

#endif
