/*
 * The steps of all phases that have steps, in one composition.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_TRAINING_STEPS_H
#define EPS_TRAINING_STEPS_H

#include "lib/training/training.h"

/* How phases are composed. */
struct eps__phases_plan {
    enum eps_direction use;       /* direction of the composition that is asked for */
    enum eps_direction direction; /* direction of the steps */
    double sigma;                 /* noise multiplier of the job */
    struct eps__accuracy accuracy;
    double log_delta1;  /* ln of what each run that spends on bad events may spend; -INFINITY if none does */
    double finer;       /* total refinement, >= 1 */
    double error;       /* error allowed for approximate loss distributions: a widening of the loss */
    double log_outside; /* ln of the probability that may be left out */
    struct eps__cache_use *cache_use;
    bool proven;
};

/* Returns whether the phase matters: it is run, and its sensitivity is not 0. */
bool eps__phase_counts(const struct eps__phase *phase);

/* Provides the phase's stepper for a direction, creating it on first use. *stepper is owned by the phase; NULL if it
 * has none. */
enum eps_status eps__phase_stepper(struct eps__phase *phase, enum eps_direction use, enum eps_direction direction,
                                   struct eps__stepper **stepper, struct eps_error *error);

/* How a phase is composed: by steps, or by curves of its accountant's own, if it has them in both directions; else
 * by the curve of its profile. */
enum eps__phase_form { EPS__FORM_STEPS, EPS__FORM_CURVES, EPS__FORM_PROFILE };
enum eps_status eps__phase_form(struct eps__phase *phase, enum eps_direction use, enum eps__phase_form *form,
                                struct eps_error *error);

/* Derives the plan for one phase. Returns false if its noise is out of reach. */
bool eps__phase_plan(const struct eps__phases_plan *plan, const struct eps__training *training,
                     const struct eps__phase *phase, struct eps__steps_plan *own);

/* Composes the steps of all phases of EPS__FORM_STEPS (T2). Returns EPS_OK, *composition, which the caller destroys,
 * and *left, what the composition leaves to be counted; or a failure. */
enum eps_status eps__phases_compose(struct eps__composition **composition, struct eps__steps_left *left,
                                    const struct eps__training *training, const struct eps__phases_plan *plan);

#endif
