/*
 * Chooses the mean and the tilt of the residual that bounds delta at an epsilon, and keeps the last residuals (A50).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_RENYI_TILTS_H
#define EPS_ACCOUNTANTS_RENYI_TILTS_H

#include "lib/accountants/renyi/law.h"

enum { EPS__TILTS = 32 }; /* residuals that are kept */

/* The residual of one mean and tilt. */
struct eps__tilt {
    bool made, known;
    size_t index; /* of the geometric mean */
    int power;    /* the tilt is RATIO to this power */
    struct eps__residual residual;
};

/* The residuals in one direction, made on first use. Start from zeros. */
struct eps__tilts {
    struct eps__tilt items[EPS__TILTS]; /* the last ones, in a ring */
    size_t next;
    struct eps__residual_law plain; /* remove only: without a tilt */
    bool plain_known;
};

/* *residual: the residual chosen for eps, valid until the next call; NULL if none is known. EPS_OK, EPS_NO_MEMORY,
 * EPS_CANCELED, EPS_TIMEOUT. */
enum eps_status eps__tilts_ask(const struct eps__residual **residual, struct eps__tilts *tilts,
                               const struct eps__renyi_law *law, const struct eps_context *context,
                               enum eps_direction direction, double eps);
/* Approximates ln of the bound that residuals, or a factor that all bins share, give: a starting point for searches. */
double eps__tilts_approximate(const struct eps__renyi_law *law, enum eps_direction direction, double eps);
void eps__tilts_clear(struct eps__tilts *tilts);

#endif
