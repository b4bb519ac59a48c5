/*
 * Draws of x^1 + ... + x^a under Poisson sampling with any number of bands, where the copies are divided into groups of
 * two or three, each with the law that its chain of few participations gives it. Patterns of all copies are drawn at
 * least as often, up to a factor Z, as independent copies times e^{sum over pairs c < d of x^c'G x^d} (M32). With
 * G = h'h, y = h (x^1 + ... + x^a) + z then has a density of at least P^a Q^(1-a)/Z.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_MOMENTS_LAWS_FEW_DRAWS_H
#define EPS_MOMENTS_LAWS_FEW_DRAWS_H

#include "lib/moments/laws/few_chain.h"
#include "lib/sampling/participations.h"

enum { EPS__FEW_DRAWN_MAX = 12 }; /* copies */

/* Immutable: any number of threads may draw from one. */
struct eps__few_draws {
    struct eps__banded_gram banded; /* of a group; its matrix is the caller's */
    struct eps__few_chain chain;
    unsigned copies, groups;   /* copies: of all groups */
    double log_z, log_z_error; /* an upper bound on ln Z, and its absolute error bound */
    double log_density_error;  /* the absolute error bound of ln of the probability of a draw */
    size_t most;               /* the largest number of steps in which some copy of a draw takes part */
    float *sums;               /* [row][state]: about the sum from a step on, over a factor of the step */
    uint32_t *row;             /* [step], and one behind the last step */
    uint32_t *kind;            /* [step]: equal steps in a row are of one kind */
    double *drawn, *entry;     /* [kind][draw], [kind][age]: as eps__few_step() */
    uint8_t *count;            /* [state]: the participations that it holds */
    double *stirring;          /* [step][count]: the largest probability that a group in such a state takes part */
};

/* The estimated bytes of the tables for groups of so many copies; INFINITY: too many. Does not read the Gram matrix. */
double eps__few_draws_bytes(const struct eps__banded_gram *banded, unsigned group);

/* The participations that a state of a group holds; 0: none is feasible. */
unsigned eps__few_draws_held(const struct eps__banded_gram *banded, unsigned group);

/* The estimated operations of making the tables. */
double eps__few_draws_operations(const struct eps__banded_gram *banded, unsigned group);

/* The factor of the Gram matrix for so many groups (M32); 0: a single group needs none. */
double eps__few_draws_times(unsigned group, unsigned groups);

/*
 * Makes the tables for groups whose bytes are finite; group groups <= EPS__FEW_DRAWN_MAX. The entries of the Gram
 * matrix have a relative error of at most gram_units units of roundoff; the caller keeps the matrix as long as the
 * tables, and frees *out if the status is EPS_OK. EPS_OK, EPS_UNSUPPORTED (a number leaves the range), EPS_NO_MEMORY,
 * EPS_CANCELED, EPS_TIMEOUT.
 */
enum eps_status eps__few_draws_make(const struct eps_context *context, struct eps__few_draws **out,
                                    const struct eps__banded_gram *banded, unsigned group, unsigned groups,
                                    double gram_units);
void eps__few_draws_free(struct eps__few_draws *draws);

/* Makes the EPS__LANES draws from `draw` on, where `draw` is a multiple of EPS__LANES: the steps in which some copy
 * takes part, in ascending order, and the number of these copies. Lane l has len[l] steps, at most draws->most, from
 * out + l most on. */
void eps__few_draws_lanes(struct eps__participated *out, size_t most, size_t *len, const struct eps__few_draws *draws,
                          const struct eps__stream *stream, uint32_t draw);

#endif
