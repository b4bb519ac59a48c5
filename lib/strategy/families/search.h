/*
 * How a search moves through a family when C is optimised for a whole job (lib/tuned). A member of the family is a list
 * of numbers, and a step changes them by at most EPS__SEARCH_VARIABLES_MAX variables: so few that gradients by
 * differences are affordable. Whatever the variables, the result is a member of the family.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_STRATEGY_FAMILIES_SEARCH_H
#define EPS_STRATEGY_FAMILIES_SEARCH_H

#include "lib/epsilon.h"

enum { EPS__SEARCH_VARIABLES_MAX = 12 };

/* The functions with a matrix take the one of the job, which has passed the checks. */
struct eps__family_search {
    /* Why a job with this matrix is refused, a clause that follows "job"; NULL: it is not. */
    const char *(*refusal)(const struct eps_matrix *matrix);
    /* How many numbers determine C up to its scale, and how many variables change them. 0 variables: no choice. */
    size_t (*numbers)(const struct eps_matrix *matrix);
    size_t (*variables)(const struct eps_matrix *matrix);
    /* Fills in start `index` of at most two, a matrix that is optimised for error alone or takes no time to build.
     * False: there are no more. */
    bool (*start)(struct eps_matrix *start, const struct eps_matrix *matrix, size_t index);
    /* Reads the numbers of the member that is nearest to a start. EPS_OK; EPS_UNSUPPORTED (there is none), or why else
     * it failed. */
    enum eps_status (*read)(double *numbers, const struct eps_matrix *matrix, const struct eps_strategy *start);
    /* Writes the numbers for these changes of the start's; changes of 0 give the start. False: the changes are too
     * large. C may have negative entries, which whoever searches refuses. */
    bool (*move)(double *numbers, const struct eps_matrix *matrix, const double *start, const double *changes);
    /* Scales the numbers as an optimised member of the family is scaled. NULL: they are. */
    void (*scale)(double *numbers, const struct eps_matrix *matrix);
    /* Whether the numbers are those of a member: what was kept may be damaged. */
    bool (*holds)(const double *numbers, const struct eps_matrix *matrix);
    /* The member, given by its numbers, which are borrowed. */
    struct eps_matrix (*given)(const struct eps_matrix *matrix, const double *numbers);
    /* Whether a plan also tries this matrix optimised for the job: smaller ones gain little, larger ones take long. */
    bool (*planned)(const struct eps_matrix *matrix);
};

/* ---- shared by several families (search.c) ---- */

/* For as many numbers as bands, the first of which is fixed and none of which is 0: how many; their variables, which
 * belong to 1, 2, 3... and then to places ever further apart, up to the last; and the numbers with the logarithms of
 * their sizes changed by a function that is linear in ln(1 + k) between these places. */
size_t eps__search_bands(const struct eps_matrix *matrix);
size_t eps__search_bands_anchors(const struct eps_matrix *matrix);
bool eps__search_bands_move(double *numbers, const struct eps_matrix *matrix, const double *start,
                            const double *changes);

#endif
