/*
 * A training of several phases, made ready to be accounted: equal phases are one, each has its setting, and in each direction
 * the accountant whose privacy loss distribution is composed.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_TRAINING_TRAINING_H
#define EPS_TRAINING_TRAINING_H

#include "lib/accountants/stepper.h"

struct eps__kept_curve;

/* All phases that are equal. */
struct eps__phase {
    struct eps_job job;          /* one run of it: its mechanism and the job's query, whose values are the job's own */
    struct eps__setting setting; /* of that job; immutable once the training is open */
    double noise_scale;          /* its sigma is the job's times this */
    uint64_t count;              /* runs of all of them together; 0: none */
    size_t first;                /* the first of them, in the job's order */
    bool trivial;                /* it releases nothing about anyone: its sensitivity is 0 */
    const struct eps__accountant *accountants[EPS_DIRECTIONS];
    /* Of the accountant of the direction [d], for compositions that are asked for the direction [use]: NULL where it has none,
     * and before they are asked for. Those of a use are touched by whoever answers for that direction alone. */
    struct eps__stepper *steppers[EPS_DIRECTIONS][EPS_DIRECTIONS];
    bool stepped[EPS_DIRECTIONS][EPS_DIRECTIONS];
    /* The curve of its profile for the direction [use], with these accountants (curves.h); or NULL. */
    struct eps__kept_curve *kept[EPS_DIRECTIONS];
};

struct eps__training {
    const struct eps_context *context;            /* for what comes once the strategies are there */
    struct eps__context_part strategy, searching; /* of the one that it was opened with */
    const struct eps_job *job;
    struct eps__phase *phases;
    size_t len;
    size_t *of; /* the job's phase i is one of phases[of[i]] */
};

/*
 * The settings of all phases; each is that of its job, computed or found in the context's caches. probe: with the strategies of
 * eps__strategy_probe(). The caller closes it. Errors name the phase.
 */
enum eps_status eps__training_open(struct eps__training **training, struct eps_error *error,
                                   const struct eps_context *context, const struct eps_job *job, bool probe);
void eps__training_close(struct eps__training *training);

/* The accountants that may be composed for a phase, at most EPS__ACCOUNTANTS_MAX, best guess first. 0: the error says why. */
size_t eps__training_candidates(const struct eps__phase *phase, const struct eps__accountant **candidates,
                                struct eps_error *error);

/* Names one for both directions: the first candidate. EPS_UNSUPPORTED. */
enum eps_status eps__training_begin(struct eps__training *training, struct eps_error *error);

/*
 * Chooses anew, for the noise multiplier and an epsilon at ln delta (or ln delta at an epsilon, where ln delta is NAN): of each
 * phase in each direction the candidate that is best alone, by quick approximations. Which one is chosen proves nothing and breaks
 * nothing: each is a bound. *changed: whether another one than before. EPS_OK, or why not.
 */
enum eps_status eps__training_choose(struct eps__training *training, struct eps_error *error, double sigma,
                                     double log_delta, double eps, bool *changed);

/* The setting of the whole. */
struct eps__setting eps__training_setting(struct eps__training *training);

/* Of an error in a phase: puts "/phases/i" before its pointer, and names it in the message. Returns the status. */
enum eps_status eps__phase_error(struct eps_error *error, const struct eps__phase *phase, enum eps_status status);

/* The accountant of whole trainings (joint.c), by which lib/solve/search.h and lib/solve/curve.h ask for them. */
extern const struct eps__accountant eps__accountant_joint;

#endif
