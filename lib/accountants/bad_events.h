/*
 * The choice of delta_1, the part of delta that an accountant spends on bad events. delta(eps) is at most delta_1 plus
 * delta_2(eps), the delta of the mechanism without these events. Every delta_1 gives a valid bound.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_BAD_EVENTS_H
#define EPS_ACCOUNTANTS_BAD_EVENTS_H

#include "lib/epsilon.h"

/* delta_1, and the point of interest, which a composition is made for. */
struct eps__bad_events {
    double log_delta1; /* -INFINITY if nothing is spent */
    double log_delta;  /* approximately ln delta at the epsilon of interest */
    double eps;        /* approximately the epsilon of interest */
};

/* Fast unproven compositions of an accountant, for the search. */
struct eps__bad_events_ask {
    void *user;
    /* Composes for the current values of the struct eps__bad_events that is being chosen. */
    enum eps_status (*compose)(void *user);
    /* From the last composition: ln delta_2(eps), and the epsilon with the given ln delta_2. */
    double (*log_delta2)(void *user, double eps);
    double (*epsilon)(void *user, double log_delta2);
};

/*
 * Chooses delta_1. If delta is given, log_delta is its logarithm and eps is unused; if delta is the unknown, log_delta
 * is NAN and eps is given. `share` is delta_1/delta, or NAN to search for the best one between 1e-4 and 0.9. A small
 * delta_1 costs little, because the bounds on the odds grow only with the square root of ln 1/delta_1. If delta is
 * given and no share is clearly better, it is one half. `tolerance` is the accountant's relative tolerance. Writes
 * *chosen, also during the search, for `ask` to read. Returns the status of compose().
 */
enum eps_status eps__bad_events_choose(struct eps__bad_events *chosen, const struct eps__bad_events_ask *ask,
                                       double share, double log_delta, double eps, double tolerance);

#endif
