/*
 * Profiles that spend delta_1, a part of delta, on bad events. delta(eps) is at most delta_1 plus delta_2(eps), the
 * delta of the mechanism without these events. Every delta_1 gives a valid bound.
 *
 * An accountant provides the compositions of one direction (struct eps__spending_class). Its profile chooses delta_1 by
 * fast unproven compositions, and then composes for that delta_1.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_BAD_EVENTS_H
#define EPS_ACCOUNTANTS_BAD_EVENTS_H

#include "lib/accountants/accountant.h"

/* delta_1, and the point of interest, which a composition is made for. */
struct eps__bad_events {
    double log_delta1; /* -INFINITY if nothing is spent */
    double log_delta;  /* approximately ln delta at the epsilon of interest */
    double eps;        /* approximately the epsilon of interest */
};

struct eps__spending;

struct eps__spending_class {
    size_t size; /* of the accountant's structure, whose first member is a struct eps__spending */
    /* Makes what does not depend on delta_1. Sets *spends to whether delta_1 is to be chosen; else nothing is spent,
     * unless it sets side->spent and side->chosen itself. */
    enum eps_status (*prepare)(struct eps__spending *side, bool *spends, struct eps_error *error);
    /* Composes for side->spent. proven: false for a fast composition that proves nothing. */
    enum eps_status (*compose)(struct eps__spending *side, bool proven);
    /* Fast estimates from the last composition: ln delta_2(eps), and the epsilon with the given ln delta_2. */
    enum eps_status (*log_delta2)(struct eps__spending *side, double eps, double *log_delta2);
    enum eps_status (*epsilon)(struct eps__spending *side, double log_delta2, double *eps);
    /* ln of a bound on delta(eps), delta_1 included, from a proven composition. */
    enum eps_status (*log_delta)(struct eps__spending *side, enum eps__estimate estimate, double eps,
                                 double *log_delta);
    /* As in struct eps__profile_class. It clears side->composed if the composition must be made again. */
    bool (*refine)(struct eps__spending *side, double factor);
    /* Releases what the other functions made, but not the structure. */
    void (*destroy)(struct eps__spending *side);
    double share_unspent; /* the bad_event_share if nothing is spent */
    bool proven_guess;    /* a guess of epsilon makes a proven composition if there is none */
};

/* One direction of a profile. */
struct eps__spending {
    const struct eps__spending_class *class;
    const struct eps__setting *setting;
    double sigma;
    struct eps__accuracy accuracy;
    enum eps_direction direction;
    double log_delta; /* ln of the delta of which delta_1 is a share; NAN if delta is the unknown */
    struct eps__bad_events spent;
    double finer;                 /* the product of the refinement factors so far; kept by refine() */
    bool chosen, composed, rough; /* delta_1 is chosen; a composition exists; it is unproven */
};

/* Opens a profile as struct eps__accountant does. */
enum eps_status eps__spending_open(const struct eps__spending_class *class, const struct eps__setting *setting,
                                   double sigma, const struct eps__accuracy *accuracy, struct eps__profile **profile,
                                   struct eps_error *error);

/* One direction of a profile that eps__spending_open() made. */
struct eps__spending *eps__spending_side(const struct eps__profile *profile, enum eps_direction direction);

/* What the composition may add: *error, the widening of the loss by inexact laws, and *log_outside, ln of the
 * probability left out, after refinement by `finer`. */
void eps__spending_losses(const struct eps__bad_events *spent, const struct eps__accuracy *accuracy, double finer,
                          double *error, double *log_outside);

/* ln of the bound on delta. The upper estimate adds the probability that was left out to delta_2, the lower one
 * subtracts it; both add delta_1. */
double eps__spending_total(enum eps__estimate estimate, double log_delta2, double outside, double log_delta1);

#endif
