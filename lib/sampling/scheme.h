/*
 * The interface of a sampling scheme: each scheme is one file that fills in this contract and one row of
 * sampling/schemes/schemes.c. No other code tests for a scheme by name; the functions of sampling.h call the row of the
 * mechanism's scheme.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_SAMPLING_SCHEME_H
#define EPS_SAMPLING_SCHEME_H

#include "lib/base/check.h"
#include "lib/sampling/sampling.h"
#include "lib/base/sentences.h"

/* Options that only some schemes support. */
enum eps__addition { EPS__TRUNCATION, EPS__EXAMPLES_PER_USER, EPS__LAST_ITERATE, EPS__ADDITIONS };

struct eps__pairs;
struct eps__former;

/* The comment on a function pointer says what NULL means. All functions but `defaults` and `check` get a job whose
 * defaults are filled in. */
struct eps__scheme {
    enum eps_scheme scheme;
    const char *name;        /* on the wire */
    bool served;             /* some accountant supports the scheme */
    bool random;             /* participation is random, so the scheme can amplify */
    bool independent_rounds; /* an example participates in each round of its group independently, with probability p */
    /* A drawn example sits out the next separation - 1 steps; otherwise it is drawn with probability p. */
    bool min_separation;
    unsigned additions; /* bits 1u << enum eps__addition: the options that are analysed */
    unsigned together;  /* the options among them that may be combined with each other (S4) */
    /* Fills in the members of `sampling` that follow from others. bands: the strategy's bandwidth, 0 if unknown. */
    void (*defaults)(struct eps_mechanism *mechanism, size_t bands);
    /* Sets the members that a plan chooses, besides the scheme and the sizes of batch and data set. NULL: none. */
    void (*planned)(struct eps_sampling *sampling);
    /* Checks the scheme's own members. */
    void (*check)(struct eps__check *check, const struct eps_sampling *sampling);
    /* p for the given batch_size and dataset_size, both at least 1. NAN if there is none; `check` refuses values above
     * 1. NULL: the scheme has no p. */
    double (*probability)(const struct eps_sampling *sampling);
    /* The expected batch size for p and dataset_size. NULL: unknown. */
    double (*batch)(const struct eps_sampling *sampling, double p);
    /* The number of groups that take turns, which are the parts of a data set. NULL: 1. */
    size_t (*groups)(const struct eps_sampling *sampling);
    /* The number of bins, which are the batches of an epoch. NULL: 0. */
    size_t (*bins)(const struct eps_sampling *sampling);
    /* The worst-case participation. A separation of 0 is read as 1, and epochs that do not fit into n are dropped. */
    struct eps__participation (*worst)(const struct eps_mechanism *mechanism);
    /* The participation for which an optimised family optimises by default; a separation of 0 leaves the choice to the
     * caller. NULL: one epoch. */
    struct eps__participation (*target)(const struct eps_mechanism *mechanism);
    /* Whether a sampling of a simpler scheme has the same law, which is then written to *plainer (S10). NULL: never. */
    bool (*plainer)(struct eps_sampling *plainer, const struct eps_mechanism *mechanism);
    /* The dominating pairs of one step, by adjacency and for truncated batches or not (pairs.h). NULL: none are
     * known. */
    const struct eps__pairs *pairs;
    /* The code that forms batches (sampling/forming/batches.h). NULL: there is none. */
    const struct eps__former *(*former)(const struct eps_sampling *sampling);
    /* Appends sentences that state how examples participate. */
    void (*assume)(struct eps__sentences *list, const struct eps_sampling *sampling);
    /* Appends sentences on settings that are valid but probably unintended. NULL: none. */
    void (*doubt)(struct eps__sentences *list, const struct eps_mechanism *mechanism);
};

/* The scheme's row; NULL for an unknown scheme. */
const struct eps__scheme *eps__scheme_find(enum eps_scheme scheme);
/* The row of the mechanism's scheme; for an unknown scheme, a row without functions. */
const struct eps__scheme *eps__scheme_of(const struct eps_mechanism *mechanism);

/* Writes "a, b and c", the names of the schemes whose row passes, for messages. */
void eps__scheme_names(char *text, size_t size, bool (*passes)(const struct eps__scheme *scheme, int user), int user);

/* Predicates for it: whether an accountant supports the scheme; whether the scheme supports an option, has independent
 * rounds, has bins, is random, has known pairs of a step. */
bool eps__scheme_served(const struct eps__scheme *scheme, int unused);
bool eps__scheme_takes(const struct eps__scheme *scheme, int addition);
bool eps__scheme_independent_rounds(const struct eps__scheme *scheme, int unused);
bool eps__scheme_bins(const struct eps__scheme *scheme, int unused);
bool eps__scheme_random(const struct eps__scheme *scheme, int unused);
bool eps__scheme_pairs(const struct eps__scheme *scheme, int unused);

/* Declines with "WHO serves the schemes a and b", in place of eps__decline(). Always false. */
bool eps__scheme_decline(struct eps_error *error, const char *who,
                         bool (*passes)(const struct eps__scheme *scheme, int user));

/* Whether `who` can compose steps of the scheme: pairs are known for the mechanism's adjacency, and for truncated
 * batches if the mechanism truncates. Declines with the reason if not. */
bool eps__scheme_steps(struct eps_error *error, const char *who, const struct eps__scheme *scheme,
                       const struct eps_mechanism *mechanism);

/* Whether the adjacency is one of `known` (bits 1u << enum eps_adjacency). If not, declines with "WHO knows no
 * dominating pair for A; use B or C", in place of eps__decline(). */
bool eps__adjacency_known(struct eps_error *error, const char *who, unsigned known, enum eps_adjacency adjacency);

/* ---- other schemes in special cases (S10): settings of the data set, its users and truncation are kept ---- */

/* Poisson sampling with probability p (sampling/schemes/poisson.c). */
struct eps_sampling eps__sampling_as_poisson(const struct eps_sampling *sampling, double p);
/* Balls in bins, the same bin in every epoch (sampling/schemes/balls_in_bins.c). */
struct eps_sampling eps__sampling_as_balls_in_bins(const struct eps_sampling *sampling, size_t bins);

/* ---- shared by several schemes (sizes.c) ---- */

/* Checks batch_size and dataset_size, from which the member `instead` (p or bins) is derived unless it is `given`. True
 * if both sizes are present and valid. */
bool eps__check_sizes(struct eps__check *check, const struct eps_sampling *sampling, const char *instead, bool given);
/* eps__check_sizes() for p. */
bool eps__check_probability(struct eps__check *check, const struct eps_sampling *sampling);

#endif
