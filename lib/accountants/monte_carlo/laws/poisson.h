/*
 * Draws under Poisson sampling. The shape of the strategy decides: poisson.c serves few bands, poisson_tree.c trees.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_MONTE_CARLO_LAWS_POISSON_H
#define EPS_ACCOUNTANTS_MONTE_CARLO_LAWS_POISSON_H

#include "lib/accountants/monte_carlo/law.h"

enum { EPS__MC_HEIGHT_MAX = 48 };

#define EPS__MC_TREE_RARE 45.0 /* patterns left out have a total probability below e^-45 */
#define EPS__MC_CERTAIN 1e9    /* the loss of a draw whose value is 1 at every epsilon in range */

/* The part of the class in poisson.c for trees, which have no groups. The opened law's class is
 * eps__mc_poisson_tree. */
extern const struct eps__mc_law_class eps__mc_poisson_tree;
bool eps__mc_poisson_tree_exact(const struct eps__setting *setting);
void eps__mc_poisson_tree_cost(const struct eps__setting *setting, double *operations, double *bytes);
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
