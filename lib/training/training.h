/*
 * A training of several phases, ready to be accounted: equal phases are merged, each has its setting and, per
 * direction, the accountant whose privacy loss distribution is composed.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_TRAINING_TRAINING_H
#define EPS_TRAINING_TRAINING_H

#include "lib/accountants/stepper.h"

struct eps__kept_curve;

/* A set of equal phases. */
struct eps__phase {
    struct eps_job job;          /* one run: the phase's mechanism and the query of the training's job */
    struct eps__setting setting; /* setting of that job; immutable once the training is open */
    double noise_scale;          /* the phase's sigma is this times the job's */
    uint64_t count;              /* total number of runs; 0: none */
    size_t first;                /* index of the first of these phases in the job */
    bool trivial;                /* the sensitivity is 0, so nothing is revealed */
    const struct eps__accountant *accountants[EPS_DIRECTIONS];
    /* steppers[use][d]: stepper of the accountant of direction d, for compositions in direction `use`. NULL if there
     * is none, or before it is needed. Only the thread that solves direction `use` accesses steppers[use]. */
    struct eps__stepper *steppers[EPS_DIRECTIONS][EPS_DIRECTIONS];
    bool stepped[EPS_DIRECTIONS][EPS_DIRECTIONS]; /* whether the stepper has been asked for */
    /* Curve of the profile for direction [use] with these accountants (curves.h), or NULL. */
    struct eps__kept_curve *kept[EPS_DIRECTIONS];
};

struct eps__training {
    const struct eps_context *context;            /* for everything after the strategies are built */
    struct eps__context_part strategy, searching; /* parts of the context it was opened with */
    const struct eps_job *job;
    struct eps__phase *phases;
    size_t len;
    size_t *of; /* phase i of the job belongs to phases[of[i]] */
};

/*
 * Opens a training: merges equal phases and computes their settings, from the context's caches where possible. probe:
 * with the quick strategies of eps__strategy_probe(). The job must outlive the training. Returns EPS_OK and *training,
 * which the caller closes with eps__training_close(); errors name the phase.
 */
enum eps_status eps__training_open(struct eps__training **training, struct eps_error *error,
                                   const struct eps_context *context, const struct eps_job *job, bool probe);
void eps__training_close(struct eps__training *training);

/* Lists the accountants that may be composed for a phase, at most EPS__ACCOUNTANTS_MAX, best guess first.
 * Returns their number; 0 with the reason in *error. */
size_t eps__training_candidates(const struct eps__phase *phase, const struct eps__accountant **candidates,
                                struct eps_error *error);

/* Sets the accountant of each phase to its first candidate in both directions. EPS_OK or EPS_UNSUPPORTED. */
enum eps_status eps__training_begin(struct eps__training *training, struct eps_error *error);

/*
 * Chooses for each phase and direction the candidate that is best on its own, by quick approximations at this noise
 * multiplier: for epsilon at ln delta, or for ln delta at eps if log_delta is NAN. The choice affects only tightness,
 * because every candidate gives a bound. *changed: whether a choice changed. Returns EPS_OK or a failure.
 */
enum eps_status eps__training_choose(struct eps__training *training, struct eps_error *error, double sigma,
                                     double log_delta, double eps, bool *changed);

/* Goes back to these accountants, which were those of each phase before. */
void eps__training_restore(struct eps__training *training, const struct eps__accountant *accountants[][EPS_DIRECTIONS]);

/* Returns the setting of the whole training, which borrows from it. */
struct eps__setting eps__training_setting(struct eps__training *training);

/* The job of one run of a phase: its mechanism, and the query with the phase's noise multiplier. */
struct eps_job eps__phase_job(const struct eps_job *job, const struct eps_phase *phase);

/* Prefixes the pointer of an error in a phase with "/phases/i" and its message with the phase. Returns the status. */
enum eps_status eps__phase_error(struct eps_error *error, const struct eps__phase *phase, enum eps_status status);

/* The accountant of whole trainings (joint.c), for lib/solve/search.h, lib/solve/largest.h and lib/solve/curve.h. */
extern const struct eps__accountant eps__accountant_joint;

#endif
