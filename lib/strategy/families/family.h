/*
 * The interface of a family of strategies: each family is one file that fills in this contract and one row of
 * families.c. No other code tests for a family by name.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_STRATEGY_FAMILIES_FAMILY_H
#define EPS_STRATEGY_FAMILIES_FAMILY_H

#include "lib/base/check.h"
#include "lib/strategy/cost.h"
#include "lib/strategy/families/search.h"

typedef enum eps_status eps__builder(const struct eps_context *context, struct eps_strategy *s, struct eps_error *error,
                                     const struct eps_mechanism *mechanism);

struct eps__workload;

/* The comment on a function pointer says what NULL means. `block`: the steps of one stamp. */
struct eps__family {
    enum eps_family family;
    const char *name; /* on the wire */
    bool diagonal;    /* C is diagonal: independent noise */
    bool unsampled;   /* only with sampling.scheme none */
    bool kept;        /* C was computed earlier: stored.c restores it, and there is no builder */
    /* Fills in the members of `matrix` that follow from others. NULL: none. */
    void (*defaults)(struct eps_matrix *matrix, size_t block);
    /* The bandwidth of C, per stamp, as far as the job alone determines it; 0 if it does not. NULL: C is full. */
    size_t (*bands)(const struct eps_matrix *matrix, size_t block);
    /* Checks the family's own members. NULL: it has none. */
    void (*check)(struct eps__check *check, const struct eps_matrix *matrix);
    /* Whether the builder is an optimiser, which may take minutes. NULL: no. */
    bool (*optimised)(const struct eps_matrix *matrix);
    /* Whether the optimiser uses eps__target_told(), which is then part of the cache key. NULL: it uses nothing of the
     * sampling. */
    bool (*told)(const struct eps_matrix *matrix);
    /* Fills in kind, block_rows and entries of a block; an optimiser also fills in iterations and optimality_gap. */
    eps__builder *build;
    /* The JSON pointer of the member that determines the entries of C, for errors about them. NULL: the workload. */
    const char *(*source)(const struct eps_matrix *matrix);
    /* How a search for a whole job moves through the family. NULL: C is not optimised for jobs. */
    const struct eps__family_search *search;
    /* Fills in the members of matrix `index` of those that a plan tries for n steps; false if there are no more. NULL:
     * a plan tries none, because the matrix must be given. */
    bool (*planned)(struct eps_matrix *matrix, size_t n, size_t index);
    /* The number of rows of noise, C^-1 z or z, that a trainer keeps from one step to the next. NULL: all earlier ones,
     * n - 1. */
    size_t (*buffers)(const struct eps_matrix *matrix, size_t n);
    /* Fills in what is known of C before it is built, starting from a forecast for a diagonal, non-negative Toeplitz C.
     * NULL: that is right. */
    void (*forecast)(struct eps__forecast *c, const struct eps_mechanism *mechanism);
    /* Adds the cost of building besides the entries of C. NULL: nothing. */
    void (*cost)(struct eps__cost *cost, const struct eps__forecast *c, const struct eps_mechanism *mechanism);
    /* The same for an optimiser, whose memory is freed before the rest begins; called last. */
    void (*cost_before)(struct eps__cost *cost, const struct eps__forecast *c, const struct eps_mechanism *mechanism);
};

/* A matrix with every member at the default that all families share. */
struct eps_matrix eps__matrix_default(void);

/* A Toeplitz matrix with the given bands that takes no time to build, for prefix sums (square_root.c). */
struct eps_matrix eps__matrix_of_bands(size_t bands);

/* A Toeplitz matrix whose inverse has the given bands, likewise, for every workload that has a root
 * (inverse_square_root.c). */
struct eps_matrix eps__matrix_of_inverse_bands(size_t bands);

/* A lower-triangular Toeplitz matrix with this first column, which is borrowed (toeplitz.c). */
struct eps_matrix eps__matrix_of_column(const double *column, size_t len);

/* The row of the matrix's family; for an unknown family, a row without functions. */
const struct eps__family *eps__family_of(const struct eps_matrix *matrix);

/* ---- shared by several families (planned.c) ---- */

/* The matrices of a plan: a single one; those with 2, 4, 8... and n bands, of which a trainer keeps all rows but one;
 * of these, only those with up to n/4 bands, because more bands gain almost nothing (at n = 2000 and 20 epochs, 1e-3 of
 * the error) and take most of an optimiser's time. */
bool eps__planned_once(struct eps_matrix *matrix, size_t n, size_t index);
bool eps__planned_bands(struct eps_matrix *matrix, size_t n, size_t index);
bool eps__planned_bands_optimised(struct eps_matrix *matrix, size_t n, size_t index);
size_t eps__buffers_of_bands(const struct eps_matrix *matrix, size_t n);

/* ---- shared by several families (checks.c) ---- */

/* Checks matrix.bands. */
void eps__check_bands(struct eps__check *check, const struct eps_matrix *matrix);
/* Checks the members that say for which participation, and to which gap, an optimised family optimises. */
void eps__check_target(struct eps__check *check, const struct eps_matrix *matrix);
/* Checks for `what`, which needs a Toeplitz workload, or is computed densely. */
void eps__check_toeplitz_workload(struct eps__check *check, const char *what);
void eps__check_dense_size(struct eps__check *check, const char *what);
/* The same check for the builder of family `name`, because a job may reach a builder unchecked: EPS_OK or
 * EPS_INVALID. */
enum eps_status eps__need_toeplitz_workload(struct eps_error *error, const struct eps__workload *workload,
                                            const char *name);

#endif
