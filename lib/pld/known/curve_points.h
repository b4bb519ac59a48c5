/*
 * A pair that is known by its privacy profile: points of its hockey-stick curve are connected to give a discretised
 * privacy loss distribution (Doroshenko et al. 2022, "Connect the dots").
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_PLD_KNOWN_CURVE_POINTS_H
#define EPS_PLD_KNOWN_CURVE_POINTS_H

#include "lib/pld/pld.h"

struct eps__curve;

struct eps__curve_class {
    /* ln of a bound on delta(eps), eps >= 0, of the pair or, reversed, of the pair exchanged. The two estimates differ
     * by about the relative tolerance. EPS_OK, or the reason of failure. */
    enum eps_status (*log_delta)(struct eps__curve *curve, bool reversed, enum eps__estimate estimate, double eps,
                                 double tolerance, double *log_delta);
    /* Fast, proves nothing: the eps at which ln delta is about `log_delta`. EPS_OK or EPS_NO_MEMORY. */
    enum eps_status (*guess)(struct eps__curve *curve, bool reversed, double log_delta, double *eps);
    void (*destroy)(struct eps__curve *curve);
};

struct eps__curve {
    const struct eps__curve_class *class;
};

/*
 * Bounds on the excess H(a) - (1 - a)_+, where H is the curve at a = e^loss, at the losses index * spacing for index =
 * first, first + 1, ... At knot `zero`, of loss 0, the excess is delta(0); at larger losses it is delta(loss); at
 * smaller ones e^loss delta'(-loss), where delta' is the profile of the pair exchanged.
 */
struct eps__curve_points {
    double spacing; /* has so few bits that the losses are exact */
    int64_t first;
    size_t len, zero;
    double *excess[2]; /* by estimate; NULL until evaluated */
};

/* How to evaluate the curve. The importance of a loss l is its excess times delta of the other pairs at eps - l. The
 * tolerance is `tolerance` at the most important losses and grows to least_tolerance elsewhere. */
struct eps__curve_points_plan {
    double spacing;              /* distance of the knots, approximately */
    double log_above, log_below; /* stop where ln of the excess is this small */
    size_t most;                 /* knots on either side, at most */
    double tolerance, least_tolerance;
    const struct eps__panel *others; /* composition of the other pairs; NULL: the same tolerance everywhere */
    double eps, log_most;            /* log_most: ln of the largest importance, approximately */
};

/* ln of the importance of a loss with this excess, relative to the largest importance. */
double eps__curve_points_importance(const struct eps__curve_points_plan *plan, double excess, double loss);

/* Evaluates the upper bounds. Out: *points, released with eps__curve_points_clear(), also on failure. EPS_OK,
 * EPS_NO_MEMORY, or the failure of the curve or the reason to stop. */
enum eps_status eps__curve_points_ask(const struct eps_context *context, struct eps__curve_points *points,
                                      struct eps__curve *curve, const struct eps__curve_points_plan *plan);
/* Evaluates the lower bounds at the same knots. */
enum eps_status eps__curve_points_ask_lower(const struct eps_context *context, struct eps__curve_points *points,
                                            struct eps__curve *curve, const struct eps__curve_points_plan *plan);
void eps__curve_points_clear(struct eps__curve_points *points);

/* The distribution whose curve lies above (upper) or below (lower; requires the lower bounds) the pair's at every loss
 * (P18, P19). Out: *pld, released with eps__pld_clear(). EPS_OK or EPS_NO_MEMORY. */
enum eps_status eps__curve_points_connect(const struct eps__curve_points *points, enum eps__estimate estimate,
                                          struct eps__pld *pld);

#endif
