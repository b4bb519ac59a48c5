/*
 * Phases as curves (pld/known/curve_points.h): the steps of all that have some together, and each of the others alone,
 * by its accountant's profile.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_TRAINING_CURVES_H
#define EPS_TRAINING_CURVES_H

#include "lib/training/steps.h"
#include "lib/pld/known/curves.h"

/* All steps, as planned for the direction that is asked for; the curve reversed is the other direction's. What the bad events and
 * what is left out come to is not in the curve (T3). NULL without memory. */
struct eps__curve *eps__curve_steps(const struct eps__training *training, const struct eps__phases_plan *plan);

/*
 * One run of a phase by its profile, less what the profile spends on bad events: at most e^log_delta1 in either
 * direction (-INFINITY where it spends nothing). The phase keeps the curve for the next call with the same direction,
 * noise multiplier and share, and must outlive it. Where the plan is not proven the curve is quick and proves nothing.
 * NULL without memory.
 */
struct eps__curve *eps__curve_phase(struct eps__phase *phase, const struct eps__phases_plan *plan);

/* Drops what a phase keeps, and sets *kept to NULL. Curves that are in use stay valid. */
void eps__curve_forget(struct eps__kept_curve **kept);

#endif
