/*
 * The steps, or curves, that an accountant composes, for whoever composes those of several mechanisms at once
 * (lib/training).
 *
 * Where an accountant's bound is delta_1 plus the delta of one composition of steps, the same steps may be composed with
 * those of other mechanisms: the bad events add up, and so do the steps (T1, T2).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_STEPPER_H
#define EPS_ACCOUNTANTS_STEPPER_H

#include "lib/accountants/accountant.h"
#include "lib/pld/known/curves.h"

/* How one mechanism is added. */
struct eps__steps_plan {
    double sigma;       /* no smaller than the row's least_sigma() */
    uint64_t count;     /* how often it is run, at least once */
    double log_delta1;  /* ln of what each run spends on bad events, where it spends */
    double log_floor;   /* no smaller ln delta is looked at */
    double error;       /* what may be lost to laws that are not exact, by all runs: a widening of the loss */
    double log_outside; /* ln of the probability that may be left out, by all runs */
    bool proven;        /* false: a quick composition, which proves nothing */
};

/* What the composition leaves to be counted, of all runs. */
struct eps__steps_left {
    double outside;  /* probability to be added to the upper estimate, and taken off the lower */
    bool resolvable; /* false: the noise is out of a composition's reach, and it must not be asked */
};

/* Where curves go: each is taken over, also on failure; NULL is no memory. EPS_NO_MEMORY. */
struct eps__curve_sink {
    void *to;
    enum eps_status (*add)(void *to, struct eps__curve *curve, uint64_t count);
};

struct eps__stepper;

struct eps__stepper_class {
    /* Adds all steps of all runs. EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT. NULL: they are known by their curves alone. */
    enum eps_status (*add)(struct eps__stepper *stepper, struct eps__composition *composition,
                           const struct eps__steps_plan *plan, struct eps__steps_left *left);
    /* Adds the curves of all runs, which spend nothing. EPS_NO_MEMORY. NULL: it has steps. */
    enum eps_status (*add_curves)(struct eps__stepper *stepper, const struct eps__curve_sink *sink,
                                  const struct eps__steps_plan *plan);
    void (*destroy)(struct eps__stepper *stepper);
};

/* Of one setting, which outlives it, and one direction. Thread-compatible. */
struct eps__stepper {
    const struct eps__stepper_class *class;
    bool spends; /* on bad events */
};

#endif
