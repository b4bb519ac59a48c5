/*
 * From the rows of conditional composition to a composition of dominating pairs.
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
    double log_beta;          /* ln of what each tail bound may leave */
    struct eps__meter *meter; /* is told of the work; NULL: nobody counts */
    double operations;        /* of all rows, estimated */
};

/* Adds all rows, bounded one by one, to the composition. EPS_OK, EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT. */
enum eps_status eps__cc_compose(struct eps__composition *composition, const struct eps__cc_steps *steps,
                                const struct eps_context *context, const struct eps__cc_plan *plan);

/* A sample of the rows with their minorants, which serve every log_beta: quick answers, nothing proven. */
struct eps__cc_sample;
enum eps_status eps__cc_sample_create(struct eps__cc_sample **sample, const struct eps__cc_steps *steps,
                                      const struct eps_context *context, enum eps_direction direction, double log_beta);
void eps__cc_sample_destroy(struct eps__cc_sample *sample);
enum eps_status eps__cc_sample_compose(struct eps__composition *composition, const struct eps__cc_sample *sample,
                                       double log_beta);

/* ---- for tests ---- */

/* The law of a row's shift: weight[i] of shift[i], rising. */
struct eps__cc_law {
    double *shift, *weight;
    size_t len;
    double error; /* relative, of every weight */
};

/* The bins with an entry in a row, by it: their entries, and bounds on the log odds of each against those before. */
struct eps__cc_places {
    double *shift, *log_odds;
    size_t len;
    bool rest; /* there are bins without an entry */
};

/* False without memory; *law is the caller's to clear. */
bool eps__cc_law_make(struct eps__cc_law *law, const struct eps__cc_places *places);
/* Moves shifts up until there are at most atoms_max; of another law's, to those that are left of the guide's. */
void eps__cc_law_thin(struct eps__cc_law *law, size_t atoms_max);
void eps__cc_law_follow(struct eps__cc_law *law, const struct eps__cc_law *guide);
void eps__cc_law_clear(struct eps__cc_law *law);

#endif
