/*
 * Turns the rows of conditional composition into a composition of dominating pairs.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_CONDITIONAL_COMPOSITION_COMPOSE_H
#define EPS_ACCOUNTANTS_CONDITIONAL_COMPOSITION_COMPOSE_H

#include "lib/accountants/conditional_composition/minorant.h"
#include "lib/pld/compose/composition.h"
#include "lib/base/progress.h"

struct eps__cc_plan {
    enum eps_direction direction;
    double log_beta;          /* ln of the failure probability of each tail bound */
    struct eps__meter *meter; /* receives the work of every row; NULL disables progress reporting */
    double operations;        /* the estimated operations for all rows */
};

/* Computes the tail bounds of all rows and adds their pairs to the composition. EPS_OK, EPS_NO_MEMORY, EPS_CANCELED,
 * EPS_TIMEOUT. */
enum eps_status eps__cc_compose(struct eps__composition *composition, const struct eps__cc_steps *steps,
                                const struct eps_context *context, const struct eps__cc_plan *plan);

/* A sample of the rows, for fast unproven compositions. Its minorants are chosen for one log_beta and may be used for
 * others. *steps must outlive it. EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT. */
struct eps__cc_sample;
enum eps_status eps__cc_sample_create(struct eps__cc_sample **sample, const struct eps__cc_steps *steps,
                                      const struct eps_context *context, enum eps_direction direction, double log_beta);
void eps__cc_sample_destroy(struct eps__cc_sample *sample);
enum eps_status eps__cc_sample_compose(struct eps__composition *composition, const struct eps__cc_sample *sample,
                                       double log_beta);

/* ---- for tests ---- */

/* The law of a row's shift: the atom shift[i] has probability weight[i]. */
struct eps__cc_law {
    double *shift, *weight; /* shifts in ascending order */
    size_t len;
    double error; /* the relative error of every weight */
};

/* The bins with an entry in a row, in ascending order of their entries, and bounds on the log odds of each bin against
 * the bins before it. */
struct eps__cc_places {
    double *shift, *log_odds;
    size_t len;
    bool rest; /* there are bins without an entry */
};

/* Returns false if memory runs out. The caller clears *law in any case. */
bool eps__cc_law_make(struct eps__cc_law *law, const struct eps__cc_places *places);

/* Moves shifts up until at most atoms_max atoms remain. */
void eps__cc_law_thin(struct eps__cc_law *law, size_t atoms_max);

/* Moves each shift up to the next one of `guide`, so that the two laws have the same atoms. */
void eps__cc_law_follow(struct eps__cc_law *law, const struct eps__cc_law *guide);
void eps__cc_law_clear(struct eps__cc_law *law);

#endif
