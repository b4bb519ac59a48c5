/*
 * What an accountant is: a row of the table in registry.c. solve/solve.c knows nothing beyond this page.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_ACCOUNTANT_H
#define EPS_ACCOUNTANTS_ACCOUNTANT_H

#include "lib/epsilon.h"
#include "lib/pld/compose/composition.h"
#include "lib/base/progress.h"
#include "lib/sampling/sampling.h"
#include "lib/base/sentences.h"
#include "lib/strategy/strategy.h"

struct eps__profile;
struct eps__stepper;
struct eps__training;

/* A job made ready to be accounted: its strategy is computed, its derived figures are known. Immutable. */
struct eps__setting {
    const struct eps_context *context;
    const struct eps_job *job;   /* as it is accounted for */
    const struct eps_job *asked; /* as it was asked: what is told of the answer */
    struct eps_job *plainer; /* held: the job with a plainer sampling of the same law, where there is one; else NULL */
    const struct eps_strategy *strategy;
    struct eps_sensitivity sensitivity; /* of the worst pattern, adjacency included */
    bool sensitivity_known;
    struct eps__absence absence; /* what sampling gives without any noise */
    double p;                    /* the participation probability in force; NAN where there is none */
    bool raised; /* p may be more than the mechanism's own: no lower bound of the pair is one of the truth */
    struct eps__tally *tally; /* of the PLD cache */
    struct eps__meter *meter; /* of the task that asks, which an accountant tells of its work; NULL: nobody counts */
    bool upper_alone;         /* an epsilon's lower end is not wanted, and may be 0 */
    bool of_phases;           /* it is one phase of several, where an accountant without a profile is refused */
    struct eps__training
        *training; /* of a job of phases (lib/training), which then has no strategy of its own; else NULL */
};

/* What an accountant finds in one direction: the value, the lower end of its numerical bracket, and how it was found. */
struct eps__answer {
    double value, lower;
    double bad_event_share;  /* NAN where nothing is spent on bad events */
    unsigned order, moments; /* 0 where there are none */
    enum eps_guarantee guarantee;
    struct eps_draws draws;
    bool cut_short; /* by max_seconds */
};

/*
 * A profile answers delta(eps) of one mechanism at one sigma, for both directions, with a lower and an upper bound.
 * One thread at a time may use one direction of a profile; the two directions may be used side by side.
 */
struct eps__profile_class {
    /* ln of a bound on delta(eps), eps >= 0. EPS_OK, or why not. */
    enum eps_status (*log_delta)(struct eps__profile *profile, enum eps_direction direction,
                                 enum eps__estimate estimate, double eps, double *log_delta, struct eps_error *error);
    /* Unproven but quick: ln delta(eps), and the epsilon at which ln delta is as given. Starting points; NAN and 0 where
     * they cost too much. */
    enum eps_status (*approximate)(struct eps__profile *profile, enum eps_direction direction, double eps,
                                   double *log_delta);
    enum eps_status (*guess)(struct eps__profile *profile, enum eps_direction direction, double log_delta, double *eps);
    /* Makes the next answers' bracket narrower by about `factor` >= 1; false if it cannot. 1: only forgets what was made for
     * other epsilons, so that the next answer is aimed anew. */
    bool (*refine)(struct eps__profile *profile, enum eps_direction direction, double factor);
    /* The part of delta that is spent on bad events, once ln delta is known; NULL where none is. */
    double (*bad_event_share)(const struct eps__profile *profile, enum eps_direction direction, double log_delta);
    /* What the upper bound at eps was found by: answer->order or answer->moments; NULL where there is neither. */
    void (*describe)(const struct eps__profile *profile, enum eps_direction direction, double eps,
                     struct eps__answer *answer);
    void (*destroy)(struct eps__profile *profile);
};

struct eps__profile {
    const struct eps__profile_class *class;
};

/* The profile's answer, or the probability of taking part where that is less: what every caller asks. */
enum eps_status eps__profile_log_delta(const struct eps__setting *setting, struct eps__profile *profile,
                                       enum eps_direction direction, enum eps__estimate estimate, double eps,
                                       double *log_delta, struct eps_error *error);

struct eps__accountant {
    enum eps_accountant method;
    const char *name; /* on the wire */
    bool curves;      /* it has curves of its own */
    bool amplifies;   /* its answer is less for the sampling */
    bool composes;    /* it bounds delta at every epsilon, bad events apart: phases are composed of such curves */
    /* What its answer assumes beyond what the scheme and the strategy do; NULL: nothing. */
    void (*assume)(struct eps__sentences *list, const struct eps__setting *setting, const struct eps_result *result);
    /* Whether it serves the setting; if not, false and why (error->pointer, error->message). */
    bool (*serves)(const struct eps__setting *setting, struct eps_error *error);
    /* Whether its answer is exact up to rounding: then `auto` runs it alone. */
    bool (*exact)(const struct eps__setting *setting);
    /* Whether the pairs that its bounds are of, in both directions, are the mechanism's own: an adversary attains them, so that what
     * is under their value is under the truth (A49). NULL: never. */
    bool (*attained)(const struct eps__setting *setting);
    /* Whether, where it serves, no other one that amplifies is better: `auto` leaves these out. NULL: never. */
    bool (*tight)(const struct eps__setting *setting);
    /* Estimated operations and bytes of one solve, of which each direction takes half. */
    void (*cost)(const struct eps__setting *setting, double *operations, double *bytes);
    /* Opens the profile at sigma > 0; the caller destroys it through its class. */
    enum eps_status (*open)(const struct eps__setting *setting, double sigma, const struct eps__accuracy *accuracy,
                            struct eps__profile **profile, struct eps_error *error);
    /* The smallest sigma it can open. */
    double (*least_sigma)(const struct eps__setting *setting);
    /* The steps that its bound in this direction is a composition of (accountants/stepper.h), where it is one; else *stepper
     * is NULL. The caller destroys it. EPS_OK, or why not. NULL: it never is. */
    enum eps_status (*steps)(const struct eps__setting *setting, enum eps_direction direction,
                             struct eps__stepper **stepper, struct eps_error *error);
    /* Solves for the job's unknown by itself; then there is no open() and no least_sigma(). NULL: the search on a profile does
     * (lib/solve/search.h). proven: the least value that the deterministic accountants found for the direction. EPS_OK, or why not. */
    enum eps_status (*solve)(struct eps__answer *answer, struct eps_error *error, const struct eps__setting *setting,
                             enum eps_direction direction, double proven);
};

/* An `assume` of several: that rows may depend on those before, or on none. */
void eps__assume_causal_order(struct eps__sentences *list, const struct eps__setting *setting,
                              const struct eps_result *result);

/* The table, in the order in which `auto` tries them; NULL at the end. */
extern const struct eps__accountant *const eps__accountants[];

/* A row of the table, or one for a name that no accountant of this version serves yet, or for `auto`: of these only
 * `curves` is there. NULL where there is none. */
const struct eps__accountant *eps__accountant_find(enum eps_accountant method);

/* Whether it spends a share of delta on bad events, which is then its tuning bad_event_share. */
bool eps__accountant_spends(const struct eps__accountant *accountant);

/* "a, b and c": the accountants that are served, or that have curves; `auto` is the first or the last of them. */
void eps__accountant_names_served(char *text, size_t size);
void eps__accountant_names_curves(char *text, size_t size);

enum { EPS__ACCOUNTANTS_MAX = EPS_ACCOUNTANT_COUNT };

/* The accountants to run, at most EPS__ACCOUNTANTS_MAX: the one asked for, or all that serve. 0: the error says why
 * none does (EPS_UNSUPPORTED). */
size_t eps__setting_accountants(const struct eps__setting *setting, const struct eps__accountant **serving,
                                struct eps_error *error);

#endif
