/*
 * The choice of delta_1, the part of delta that an accountant spends on bad events: delta(eps) is at most delta_1 plus
 * delta_2(eps), of what holds but for them, and any delta_1 gives a valid bound.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_BAD_EVENTS_H
#define EPS_ACCOUNTANTS_BAD_EVENTS_H

#include "lib/epsilon.h"

/* What is spent, and where: what a composition is made for. */
struct eps__bad_events {
    double log_delta1; /* -INFINITY where nothing is spent */
    double log_delta;  /* about ln delta at the epsilon of interest */
    double eps;        /* about the epsilon of interest */
};

/* An accountant that can be asked quickly, proving nothing. */
struct eps__bad_events_ask {
    void *user;
    /* Composes for what its struct eps__bad_events says now. */
    enum eps_status (*compose)(void *user);
    /* Of what was composed: ln delta_2(eps), and the epsilon at which it is as given. */
    double (*log_delta2)(void *user, double eps);
    double (*epsilon)(void *user, double log_delta2);
};

/*
 * Chooses: log_delta is ln of the delta that is asked for, or NAN where delta is asked at eps. share: delta_1/delta, or NAN
 * for what is best, between one ten-thousandth and nine tenths. Small probabilities of bad events cost little, because the
 * odds grow with the square root of their logarithm; one half is what remains when nothing is clearly better. Out: *chosen,
 * which `ask` sees on the way. Passes on what `compose` fails with.
 */
enum eps_status eps__bad_events_choose(struct eps__bad_events *chosen, const struct eps__bad_events_ask *ask,
                                       double share, double log_delta, double eps, double tolerance);

#endif
