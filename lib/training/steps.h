/*
 * The steps of all phases that have some, in one composition.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_TRAINING_STEPS_H
#define EPS_TRAINING_STEPS_H

#include "lib/accountants/bad_events.h"
#include "lib/training/training.h"

struct eps__phases_plan {
    enum eps_direction use;       /* of the composition that is asked for */
    enum eps_direction direction; /* of the steps */
    double sigma;                 /* the job's */
    struct eps__accuracy accuracy;
    struct eps__bad_events spent; /* log_delta1: of each run that spends */
    double finer;                 /* refinement so far, >= 1 */
    double error;                 /* what may be lost to laws that are not exact: a widening of the loss */
    double log_outside;           /* ln of the probability that may be left out */
    struct eps__cache_use *cache_use;
    bool proven;
};

/* Fills in error and log_outside, from the rest. */
void eps__phases_plan_losses(struct eps__phases_plan *plan);

/* Whether the phase takes part at all: it is run, and its sensitivity is not 0. */
bool eps__phase_counts(const struct eps__phase *phase);

/* The phase's steps in the direction [direction], made where they were not; *stepper: NULL where it has none. */
enum eps_status eps__phase_stepper(struct eps__phase *phase, enum eps_direction use, enum eps_direction direction,
                                   struct eps__stepper **stepper, struct eps_error *error);

/* How a phase is composed: by its steps or by its own curves, where it has such in both directions; else by its profile's curve. */
enum eps__phase_form { EPS__FORM_STEPS, EPS__FORM_CURVES, EPS__FORM_PROFILE };
enum eps_status eps__phase_form(struct eps__phase *phase, enum eps_direction use, enum eps__phase_form *form,
                                struct eps_error *error);

/* One run's part of the plan for this phase; false: its noise is out of reach. */
bool eps__phase_plan(const struct eps__phases_plan *plan, const struct eps__training *training,
                     const struct eps__phase *phase, struct eps__steps_plan *own);

/* Composes the steps of all phases that go by them (T2). Out: *composition, the caller's; *left: what it leaves
 * to be counted. EPS_OK, or why not. */
enum eps_status eps__phases_compose(struct eps__composition **composition, struct eps__steps_left *left,
                                    const struct eps__training *training, const struct eps__phases_plan *plan);

#endif
