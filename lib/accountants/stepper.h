/*
 * The steps, or curves, that an accountant composes, for joint compositions of several mechanisms (lib/training).
 *
 * If an accountant's bound is delta_1 plus the delta of one composition of steps, these steps can be composed with
 * those of other mechanisms, and the probabilities of the bad events add up (T1, T2).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_STEPPER_H
#define EPS_ACCOUNTANTS_STEPPER_H

#include "lib/accountants/accountant.h"
#include "lib/pld/known/curves.h"

/* How to add one mechanism. */
struct eps__steps_plan {
    double sigma;       /* at least the accountant's least_sigma() */
    uint64_t count;     /* the number of runs of the mechanism, at least 1 */
    double log_delta1;  /* ln of the probability that each run spends on bad events, if it spends any */
    double log_floor;   /* ln of the smallest delta of interest */
    double error;       /* the most by which inexact laws may widen the privacy loss, over all runs */
    double log_outside; /* ln of the probability that may be left out, over all runs */
    bool proven;        /* false: a fast composition that proves nothing */
};

/* What the composition itself does not account for, over all runs. */
struct eps__steps_left {
    double outside;  /* probability that the caller adds to the upper estimate and subtracts from the lower one */
    bool resolvable; /* false: the noise is too small for a composition, which must not be evaluated */
};

/* Receives curves. add() takes ownership of the curve, also on failure; a NULL curve means that memory ran out. Returns
 * EPS_OK or EPS_NO_MEMORY. */
struct eps__curve_sink {
    void *to;
    enum eps_status (*add)(void *to, struct eps__curve *curve, uint64_t count);
};

struct eps__stepper;

struct eps__stepper_class {
    /* Adds all steps of all runs. EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT. NULL: only the curves are known. */
    enum eps_status (*add)(struct eps__stepper *stepper, struct eps__composition *composition,
                           const struct eps__steps_plan *plan, struct eps__steps_left *left);
    /* Adds the curves of all runs, which spend nothing on bad events. EPS_NO_MEMORY. NULL: there are steps instead. */
    enum eps_status (*add_curves)(struct eps__stepper *stepper, const struct eps__curve_sink *sink,
                                  const struct eps__steps_plan *plan);
    void (*destroy)(struct eps__stepper *stepper);
};

/* The steps of one setting, which must outlive the stepper, in one direction. Thread-compatible. */
struct eps__stepper {
    const struct eps__stepper_class *class;
    bool spends; /* it spends probability on bad events */
};

#endif
