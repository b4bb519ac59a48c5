/*
 * The interface of an accountant: one row of the table in registry.c. solve/solve.c depends on this header alone.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_ACCOUNTANTS_ACCOUNTANT_H
#define EPS_ACCOUNTANTS_ACCOUNTANT_H

#include "lib/base/progress.h"
#include "lib/base/sentences.h"
#include "lib/epsilon.h"
#include "lib/pld/compose/composition.h"
#include "lib/sampling/sampling.h"
#include "lib/strategy/strategy.h"

struct eps__profile;
struct eps__stepper;
struct eps__training;

/* A job that is ready for accounting: its strategy and the quantities derived from it are computed. Immutable. */
struct eps__setting {
    const struct eps_context *context;
    const struct eps_job *job;   /* the job that is accounted for: asked or plainer */
    const struct eps_job *asked; /* the job as submitted; results and assumptions describe this one */
    struct eps_job *plainer;     /* owned: the job with a simpler sampling of the same law; NULL if there is none */
    const struct eps_strategy *strategy;
    struct eps_sensitivity sensitivity; /* of the worst pattern, adjacency included */
    bool sensitivity_known;
    struct eps__absence absence; /* the bound on delta that sampling gives without noise */
    double p;                    /* the participation probability in force; NAN if there is none */
    bool raised; /* p may exceed the true probability: then lower bounds do not hold for the mechanism */
    struct eps__cache_use *cache_use; /* the PLD cache */
    struct eps__meter *meter; /* the current task's meter, to which accountants report work; NULL disables reporting */
    bool upper_alone;         /* the lower end of epsilon is not needed and may be 0 */
    bool draft;               /* bounds are only compared: what takes long and hardly lowers them may be left out */
    bool of_phases;           /* the job is one phase of several: accountants without a profile are refused */
    struct eps__training *training; /* of a job with phases (lib/training), which has no strategy; else NULL */
};

/* An accountant's result in one direction: the upper and the lower end of its numerical bracket, and how it was
 * found. */
struct eps__answer {
    double value, lower;     /* the upper end, which is the answer, and the lower end */
    double bad_event_share;  /* NAN if nothing is spent on bad events */
    unsigned order, moments; /* the Rényi order or the moments of the bound; 0 if not applicable */
    enum eps_guarantee guarantee;
    struct eps_draws draws;
    bool cut_short; /* stopped by max_seconds */
    bool left_out;  /* nothing was proven, because the approximation is far from what others proved */
};

/*
 * A profile bounds delta(eps) of one mechanism at one sigma from above and below, in both directions. Two threads may
 * use the two directions of a profile concurrently; one direction is thread-compatible.
 */
struct eps__profile_class {
    /* ln of an upper or lower bound on delta(eps), eps >= 0. Returns EPS_OK, or the status and *error of the
     * failure. */
    enum eps_status (*log_delta)(struct eps__profile *profile, enum eps_direction direction,
                                 enum eps__estimate estimate, double eps, double *log_delta, struct eps_error *error);
    /* Fast unproven approximations, which serve as starting points: ln delta(eps), and the epsilon with the given
     * ln delta. NAN and 0 if they cost too much. */
    enum eps_status (*approximate)(struct eps__profile *profile, enum eps_direction direction, double eps,
                                   double *log_delta);
    enum eps_status (*guess)(struct eps__profile *profile, enum eps_direction direction, double log_delta, double *eps);
    /* Narrows the bracket of later answers by about `factor` >= 1; false if it cannot. A factor of 1 keeps the
     * resolution and discards cached work, so that the next answer is computed around its own epsilon. */
    bool (*refine)(struct eps__profile *profile, enum eps_direction direction, double factor);
    /* The share of delta that is spent on bad events, given ln delta. NULL if nothing is spent. */
    double (*bad_event_share)(const struct eps__profile *profile, enum eps_direction direction, double log_delta);
    /* Sets answer->order or answer->moments to what gave the upper bound at eps. NULL if there is neither. */
    void (*describe)(const struct eps__profile *profile, enum eps_direction direction, double eps,
                     struct eps__answer *answer);
    void (*destroy)(struct eps__profile *profile);
};

struct eps__profile {
    const struct eps__profile_class *class;
};

/* The smaller of the profile's bound and the bound that sampling gives without noise. Callers use this function, not
 * the class's log_delta(). Parameters and statuses are those of log_delta(). */
enum eps_status eps__profile_log_delta(const struct eps__setting *setting, struct eps__profile *profile,
                                       enum eps_direction direction, enum eps__estimate estimate, double eps,
                                       double *log_delta, struct eps_error *error);

/* A guess() for classes with a fast approximate(): the epsilon, up to 1e6, at which that is about log_delta. */
enum eps_status eps__profile_guess(struct eps__profile *profile, enum eps_direction direction, double log_delta,
                                   double *eps);

/* What is known when draws begin in one direction. */
struct eps__proven {
    double value;   /* the least value that the deterministic accountants found for this direction */
    double other;   /* the same for the other direction if that may need draws afterwards; else -INFINITY */
    double seconds; /* what is left of max_seconds for both directions; INFINITY: no limit */
};

struct eps__accountant {
    enum eps_accountant method;
    const char *name; /* in the JSON interface */
    bool curves;      /* it can return privacy curves */
    bool amplifies;   /* its bound benefits from the sampling */
    bool composes;    /* apart from bad events, it bounds delta at every epsilon: such curves compose over phases */
    bool fixed;       /* its profile at a sigma is the same for every tolerance */
    bool foretells;   /* its approximations are close to its bounds, and cheap: where bounds take long, `auto` leaves it
                       * out if they are far from what others proved */
    bool narrow;      /* its profile takes long, or is wide, at an epsilon that is not the answer's */
    bool draws;       /* most of its time goes into draws, which eps_draw() can make elsewhere */
    /* Adds what its answer assumes beyond the assumptions of the scheme and the strategy. NULL: nothing. */
    void (*assume)(struct eps__sentences *list, const struct eps__setting *setting, const struct eps_result *result);
    /* Whether it serves the setting. If not, it sets error->pointer and error->message to the reason. */
    bool (*serves)(const struct eps__setting *setting, struct eps_error *error);
    /* Whether its answer is exact up to rounding: then `auto` runs it alone. */
    bool (*exact)(const struct eps__setting *setting);
    /* Whether an adversary attains the pairs that it bounds, in both directions: then its lower bounds hold for the
     * mechanism itself (A49). NULL: never. */
    bool (*attained)(const struct eps__setting *setting);
    /* Whether no other amplifying accountant is better where this one serves: then `auto` skips the others. NULL:
     * never. */
    bool (*tight)(const struct eps__setting *setting);
    /* Estimated operations and bytes of one solve; each direction takes half. */
    void (*cost)(const struct eps__setting *setting, double *operations, double *bytes);
    /* Opens the profile at sigma > 0; the caller destroys it through its class. Returns EPS_OK, or the status and
     * *error of the failure. */
    enum eps_status (*open)(const struct eps__setting *setting, double sigma, const struct eps__accuracy *accuracy,
                            struct eps__profile **profile, struct eps_error *error);
    /* The smallest sigma that open() accepts. */
    double (*least_sigma)(const struct eps__setting *setting);
    /* The steps of which its bound in this direction is the composition (accountants/stepper.h). *stepper is NULL if
     * the bound is no such composition; else the caller destroys it. Returns EPS_OK, or the status and *error of the
     * failure. NULL: the bound never is a composition. */
    enum eps_status (*steps)(const struct eps__setting *setting, enum eps_direction direction,
                             struct eps__stepper **stepper, struct eps_error *error);
    /* Solves for the job's unknown directly; then open() and least_sigma() are NULL. Returns EPS_OK, or the status and
     * *error of the failure. NULL: the search on a profile solves the job (lib/solve/search.h). */
    enum eps_status (*solve)(struct eps__answer *answer, struct eps_error *error, const struct eps__setting *setting,
                             enum eps_direction direction, const struct eps__proven *proven);
};

/* An `assume` for several accountants: whether inputs may depend on earlier outputs. */
void eps__assume_causal_order(struct eps__sentences *list, const struct eps__setting *setting,
                              const struct eps_result *result);

/* The table, in the order in which `auto` tries the accountants; NULL-terminated. */
extern const struct eps__accountant *const eps__accountants[];

/* The row of an accountant. For `auto` it is a row with no functions. NULL if there is no such accountant. */
const struct eps__accountant *eps__accountant_find(enum eps_accountant method);

/* Whether the accountant spends a share of delta on bad events: then it has the tuning option bad_event_share. */
bool eps__accountant_spends(const struct eps__accountant *accountant);

/* Write "a, b and c" into text of `size` bytes: the names of all accountants, `auto` first, or of those with privacy
 * curves, `auto` last. */
void eps__accountant_names_served(char *text, size_t size);
void eps__accountant_names_curves(char *text, size_t size);

enum { EPS__ACCOUNTANTS_MAX = EPS_ACCOUNTANT_COUNT };

/* The accountants to run: the one that the job names, or with `auto` those that serve it. `serving` has room for
 * EPS__ACCOUNTANTS_MAX. Returns their number; if it is 0, *error says why (EPS_UNSUPPORTED). */
size_t eps__setting_accountants(const struct eps__setting *setting, const struct eps__accountant **serving,
                                struct eps_error *error);

#endif
