/*
 * What a sampling scheme is to the rest of the library: one file that fills in this contract, and one row of sampling/schemes/schemes.c.
 * Nothing else asks for a scheme by name; sampling.h asks the row that a mechanism has.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_SAMPLING_SCHEME_H
#define EPS_SAMPLING_SCHEME_H

#include "lib/base/check.h"
#include "lib/sampling/sampling.h"
#include "lib/base/sentences.h"

/* What may be added to some schemes. */
enum eps__addition { EPS__TRUNCATION, EPS__EXAMPLES_PER_USER, EPS__LAST_ITERATE, EPS__ADDITIONS };

struct eps__pairs;
struct eps__former;

/* A function that is NULL says what its comment says of it. All see a job with its defaults, but for `defaults` and `check`. */
struct eps__scheme {
    enum eps_scheme scheme;
    const char *name;        /* on the wire */
    bool served;             /* by an accountant of this version */
    bool random;             /* an example's participation is drawn, and so can amplify */
    bool independent_rounds; /* it takes part in each of its group's rounds with probability p, independently */
    /* One that was drawn sits out the next separation - 1 steps, and else is drawn with probability p. */
    bool min_separation;
    unsigned additions; /* bits 1u << enum eps__addition: those for which something is derived */
    unsigned together;  /* of these, those of which any may be given together (S4) */
    /* The members of `sampling` that follow from others. bands: the strategy's bandwidth, 0 where it is not known. */
    void (*defaults)(struct eps_mechanism *mechanism, size_t bands);
    /* What a plan sets beside the scheme and the sizes of batch and data set. NULL: nothing. */
    void (*planned)(struct eps_sampling *sampling);
    /* The rules of the scheme's own members. */
    void (*check)(struct eps__check *check, const struct eps_sampling *sampling);
    /* p for a batch_size of a dataset_size, both at least 1: NAN where there is none, and what exceeds 1 is refused by
     * `check`. NULL: the scheme has no p. */
    double (*probability)(const struct eps_sampling *sampling);
    /* The expected size of a batch for p, with a dataset_size. NULL: it is not known. */
    double (*batch)(const struct eps_sampling *sampling, double p);
    /* The groups that take turns, the parts of a data set. NULL: 1. */
    size_t (*groups)(const struct eps_sampling *sampling);
    /* The batches of one epoch, of which an example is in one. NULL: 0. */
    size_t (*bins)(const struct eps_sampling *sampling);
    /* The largest set of steps in which an example may take part; a separation of 0 counts as 1, and epochs beyond what
     * fits into n as those that fit. */
    struct eps__participation (*worst)(const struct eps_mechanism *mechanism);
    /* The participation that an optimised family aims at unless told otherwise; a separation of 0: to be chosen. NULL: one
     * epoch. */
    struct eps__participation (*target)(const struct eps_mechanism *mechanism);
    /* True where a plainer sampling, of another scheme, has the very same law: *plainer (S10). NULL: none has. */
    bool (*plainer)(struct eps_sampling *plainer, const struct eps_mechanism *mechanism);
    /* What dominates one of its steps, by adjacency, and truncated or not (pairs.h). NULL: nothing is known of one alone. */
    const struct eps__pairs *pairs;
    /* What forms its batches (sampling/forming/batches.h). NULL: nothing does. */
    const struct eps__former *(*former)(const struct eps_sampling *sampling);
    /* How examples take part, in words. */
    void (*assume)(struct eps__sentences *list, const struct eps_sampling *sampling);
    /* What of its members is allowed and probably not meant, in words. NULL: nothing. */
    void (*doubt)(struct eps__sentences *list, const struct eps_mechanism *mechanism);
};

/* NULL where there is none. */
const struct eps__scheme *eps__scheme_find(enum eps_scheme scheme);
/* The mechanism's own; a row that knows nothing where its scheme is none. */
const struct eps__scheme *eps__scheme_of(const struct eps_mechanism *mechanism);

/* "a, b and c": the schemes whose row passes, for messages. */
void eps__scheme_names(char *text, size_t size, bool (*passes)(const struct eps__scheme *scheme, int user), int user);

/* The predicates: does the row serve, take an addition, have independent rounds or bins, draw at all, know pairs of a
 * step? */
bool eps__scheme_served(const struct eps__scheme *scheme, int unused);
bool eps__scheme_takes(const struct eps__scheme *scheme, int addition);
bool eps__scheme_independent_rounds(const struct eps__scheme *scheme, int unused);
bool eps__scheme_bins(const struct eps__scheme *scheme, int unused);
bool eps__scheme_random(const struct eps__scheme *scheme, int unused);
bool eps__scheme_pairs(const struct eps__scheme *scheme, int unused);

/* "WHO serves the schemes a and b", in the place of eps__decline(). Always false. */
bool eps__scheme_decline(struct eps_error *error, const char *who,
                         bool (*passes)(const struct eps__scheme *scheme, int user));

/* Whether `who` may compose steps of the scheme: it knows pairs for the mechanism's adjacency, truncated if it is. If not,
 * false and why. */
bool eps__scheme_steps(struct eps_error *error, const char *who, const struct eps__scheme *scheme,
                       const struct eps_mechanism *mechanism);

/* Whether the adjacency is one of `known` (bits 1u << enum eps_adjacency). If not, "WHO knows no dominating pair for A; use B
 * or C" in the place of eps__decline(), and false. */
bool eps__adjacency_known(struct eps_error *error, const char *who, unsigned known, enum eps_adjacency adjacency);

/* ---- what others are in special cases (S10): what is said of the data set, its users and truncation is kept ---- */

/* Poisson sampling with probability p (sampling/schemes/poisson.c). */
struct eps_sampling eps__sampling_as_poisson(const struct eps_sampling *sampling, double p);
/* One uniform bin, the same in every epoch (sampling/schemes/balls_in_bins.c). */
struct eps_sampling eps__sampling_as_balls_in_bins(const struct eps_sampling *sampling, size_t bins);

/* ---- shared by several schemes (sizes.c) ---- */

/* batch_size and dataset_size, from which `instead` (p, bins) is derived unless it is given. True if both are there and
 * sensible. */
bool eps__check_sizes(struct eps__check *check, const struct eps_sampling *sampling, const char *instead, bool given);
/* The same for p. */
bool eps__check_probability(struct eps__check *check, const struct eps_sampling *sampling);

#endif
