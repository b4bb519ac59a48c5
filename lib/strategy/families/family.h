/*
 * What a family of strategies is to the rest of the library: one file that fills in this contract, and one row of families.c.
 * Nothing else asks for a family by name.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_STRATEGY_FAMILIES_FAMILY_H
#define EPS_STRATEGY_FAMILIES_FAMILY_H

#include "lib/base/check.h"
#include "lib/strategy/cost.h"

typedef enum eps_status eps__builder(const struct eps_context *context, struct eps_strategy *s, struct eps_error *error,
                                     const struct eps_mechanism *mechanism);

struct eps__workload;

/* A function that is NULL says what its comment says of it. `block`: the steps of one stamp. */
struct eps__family {
    enum eps_family family;
    const char *name; /* on the wire */
    bool diagonal;    /* independent noise, and nothing else */
    bool unsampled;   /* it goes with sampling.scheme none only */
    bool kept;        /* C was computed before: stored.c finds it, and there is no builder */
    /* The members of `matrix` that follow from others. NULL: none does. */
    void (*defaults)(struct eps_matrix *matrix, size_t block);
    /* Bandwidth of C, per stamp, as far as the job alone tells: 0 where it does not. NULL: C is full. */
    size_t (*bands)(const struct eps_matrix *matrix, size_t block);
    /* The rules of the family's own members. NULL: it has none. */
    void (*check)(struct eps__check *check, const struct eps_matrix *matrix);
    /* Whether the builder is an optimiser, which may take minutes. NULL: it is none. */
    bool (*optimised)(const struct eps_matrix *matrix);
    /* Whether that optimiser looks at eps__target_told(), which then is part of the key of what it finds. NULL: it sees
     * nothing of the sampling. */
    bool (*told)(const struct eps_matrix *matrix);
    /* Fills in kind, block_rows and entries of a block; an optimiser iterations and optimality_gap too. */
    eps__builder *build;
    /* The member that the entries of C come from, for what is wrong with them. NULL: the workload. */
    const char *(*source)(const struct eps_matrix *matrix);
    /* The matrices that a plan tries: fills in the members of number `index` for n steps; false where there are no more. NULL:
     * none, as its numbers are given. */
    bool (*planned)(struct eps_matrix *matrix, size_t n, size_t index);
    /* The rows of noise, C^-1 z, that a trainer keeps from one step to the next; or of z. NULL: all there were, n - 1. */
    size_t (*buffers)(const struct eps_matrix *matrix, size_t n);
    /* What is known of C before it is built, into one that is toeplitz, diagonal and non-negative. NULL: so it is. */
    void (*forecast)(struct eps__forecast *c, const struct eps_mechanism *mechanism);
    /* What building takes beside the entries of C, added. NULL: nothing. */
    void (*cost)(struct eps__cost *cost, const struct eps__forecast *c, const struct eps_mechanism *mechanism);
    /* The same for an optimiser that has freed its memory when the rest begins; called last. */
    void (*cost_before)(struct eps__cost *cost, const struct eps__forecast *c, const struct eps_mechanism *mechanism);
};

/* Every member of a matrix at its default, as far as that is the same for all families. */
struct eps_matrix eps__matrix_default(void);

/* A Toeplitz matrix of so many bands that takes no time, for a workload of prefix sums (square_root.c). */
struct eps_matrix eps__matrix_of_bands(size_t bands);

/* The matrix's own; a row that knows nothing where its family is none. */
const struct eps__family *eps__family_of(const struct eps_matrix *matrix);

/* ---- shared by several families (planned.c) ---- */

/* One matrix; those of 2, 4, 8... and n bands, of which all but one are kept; of these only as many as a quarter of n, where
 * more gain next to nothing (at n = 2000, 20 epochs: 1e-3 of the error) and take an optimiser most of its time. */
bool eps__planned_once(struct eps_matrix *matrix, size_t n, size_t index);
bool eps__planned_bands(struct eps_matrix *matrix, size_t n, size_t index);
bool eps__planned_bands_optimised(struct eps_matrix *matrix, size_t n, size_t index);
size_t eps__buffers_of_bands(const struct eps_matrix *matrix, size_t n);

/* ---- shared by several families (checks.c) ---- */

void eps__check_bands(struct eps__check *check, const struct eps_matrix *matrix);
/* What an optimised family is optimised for, and how far. */
void eps__check_target(struct eps__check *check, const struct eps_matrix *matrix);
/* For `what`, which needs a Toeplitz workload, or is computed densely. */
void eps__check_toeplitz_workload(struct eps__check *check, const char *what);
void eps__check_dense_size(struct eps__check *check, const char *what);
/* The same for a builder of family `name`, as not every job was checked: EPS_OK or EPS_INVALID. */
enum eps_status eps__need_toeplitz_workload(struct eps_error *error, const struct eps__workload *workload,
                                            const char *name);

#endif
