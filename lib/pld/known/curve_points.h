/*
 * A pair of laws that is known by its privacy profile: points of its hockey-stick curve, connected, are a discretised privacy
 * loss distribution (Doroshenko et al. 2022, "Connect the dots").
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_PLD_KNOWN_CURVE_POINTS_H
#define EPS_PLD_KNOWN_CURVE_POINTS_H

#include "lib/pld/pld.h"

struct eps__curve;

struct eps__curve_class {
    /* ln of a bound on delta(eps), eps >= 0, of the pair or, reversed, of the pair exchanged; the two estimates apart by about
     * the tolerance, relatively. EPS_OK, or why not. */
    enum eps_status (*log_delta)(struct eps__curve *curve, bool reversed, enum eps__estimate estimate, double eps,
                                 double tolerance, double *log_delta);
    /* Unproven but quick: the eps at which ln delta is about as given. EPS_NO_MEMORY. */
    enum eps_status (*guess)(struct eps__curve *curve, bool reversed, double log_delta, double *eps);
    void (*destroy)(struct eps__curve *curve);
};

struct eps__curve {
    const struct eps__curve_class *class;
};

/*
 * What is known of H(a) - (1 - a)_+, H the curve at a = e^loss, at the losses index * spacing from first on: at knot `zero`, of
 * loss 0, delta(0); above it delta(loss), below e^loss delta'(-loss), delta' that of the pair exchanged.
 */
struct eps__curve_points {
    double spacing; /* of so few bits that the losses are exact */
    int64_t first;
    size_t len, zero;
    double *excess[2]; /* by estimate; NULL until asked */
};

/* How the curve is to be asked: so precisely where a loss l matters most, as the excess times what the others make of it, delta
 * at eps - l, and less so elsewhere. */
struct eps__curve_points_plan {
    double spacing;              /* of the knots, about */
    double log_above, log_below; /* no further than where the excess is that small */
    size_t most;                 /* knots on either side; further ones are left out */
    double tolerance, least_tolerance;
    const struct eps__panel *others; /* NULL: the tolerance is one */
    double eps, log_most;            /* log_most: ln of the importance of the loss that matters most, about */
};

/* ln of how much less a loss of this excess matters than the one that matters most. */
double eps__curve_points_importance(const struct eps__curve_points_plan *plan, double excess, double loss);

/* Asks for the upper bounds. Out: *points, released with eps__curve_points_clear(). EPS_NO_MEMORY, or what the curve
 * says. */
enum eps_status eps__curve_points_ask(const struct eps_context *context, struct eps__curve_points *points,
                                      struct eps__curve *curve, const struct eps__curve_points_plan *plan);
/* And for the lower ones, at the same knots. */
enum eps_status eps__curve_points_ask_lower(const struct eps_context *context, struct eps__curve_points *points,
                                            struct eps__curve *curve, const struct eps__curve_points_plan *plan);
void eps__curve_points_clear(struct eps__curve_points *points);

/* The distribution whose curve lies above (upper) or below (lower; asked before) the pair's at every loss (P18, P19).
 * Out: *pld, released with eps__pld_clear(). EPS_NO_MEMORY. */
enum eps_status eps__curve_points_connect(const struct eps__curve_points *points, enum eps__estimate estimate,
                                          struct eps__pld *pld);

#endif
