/*
 * Phases as curves (lib/pld/known/curve_points.h): one curve for the steps of all phases that have steps, and one for
 * each other phase, from its accountant's profile.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_TRAINING_CURVES_H
#define EPS_TRAINING_CURVES_H

#include "lib/training/steps.h"
#include "lib/pld/known/curves.h"

/* Creates the curve of all steps, as planned for the plan's direction; reversed, it is that of the other direction.
 * It excludes what is spent on bad events and what the composition leaves out (T3). The training must outlive the
 * curve. NULL if out of memory. */
struct eps__curve *eps__curve_steps(const struct eps__training *training, const struct eps__phases_plan *plan);

/*
 * Creates the curve of one run of a phase from its profile, less what the profile spends on bad events: at most
 * e^log_delta1 in either direction (-INFINITY if nothing). The phase keeps the curve for the next call with the same
 * direction, noise multiplier and share, and must outlive it. If the plan is not proven, the curve is quick and proves
 * nothing. NULL if out of memory.
 */
struct eps__curve *eps__curve_phase(struct eps__phase *phase, const struct eps__phases_plan *plan);

/* Releases the curve that a phase keeps and sets *kept to NULL. Curves still in use stay valid. */
void eps__curve_forget(struct eps__kept_curve **kept);

#endif
