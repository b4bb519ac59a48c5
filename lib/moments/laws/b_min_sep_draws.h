/*
 * Draws of x^1 + ... + x^a, where a copies of one user's example under b-min-sep sampling have the law of
 * independent ones times e^{sum over pairs c < d of x^c'G x^d}: with y = h (x^1 + ... + x^a) + z, G = h'h, a draw
 * of P^a Q^(1-a)/Z. Z and the law of what comes next are by sums backward in time over the states of M23, of which
 * each step keeps its own (M25, M26).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_MOMENTS_LAWS_B_MIN_SEP_DRAWS_H
#define EPS_MOMENTS_LAWS_B_MIN_SEP_DRAWS_H

#include "lib/moments/laws/b_min_sep_layout.h"
#include "lib/sampling/participations.h"

enum { EPS__B_MIN_SEP_DRAWN_MAX = 8 }; /* copies */

/* Immutable: any number of threads may draw. */
struct eps__b_min_sep_draws {
    struct eps__b_min_sep b_min_sep;
    struct eps__b_min_sep_layout layout;
    double log_z, log_z_error; /* ln Z = ln E X^a, within this */
    double log_density_error;  /* and ln of the probability of a draw */
    size_t most;               /* a draw has no more participations */
    /* Of the transitions: where those of each state begin, and what the participations of each weigh. */
    uint32_t *first;
    double *base;
    uint32_t *
        history; /* of each state: how long a copy still sits out for what was before the first step, where it meets nobody */
    /* The sums from step i on are those of row i, times 2^exponent[i]; row n and later: 1. */
    double *sums;
    size_t lasting; /* states of the rows from the separation on */
    int *exponent;
    /* The first states by rising weight, and the sums of their weights so far. */
    uint32_t *order;
    double *begun;
};

/*
 * About the bytes of tables of so many copies, at least 2; INFINITY where there are none: too large, or for
 * several examples. The matrix is not read.
 */
double eps__b_min_sep_draws_bytes(const struct eps__b_min_sep *b_min_sep, unsigned copies);

/*
 * Of copies whose bytes are finite; the matrix, which the caller keeps, is off by so many units of roundoff,
 * relatively. EPS_UNSUPPORTED where they would be too inaccurate; EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT. The
 * caller frees what it has of EPS_OK.
 */
enum eps_status eps__b_min_sep_draws_make(const struct eps_context *context, struct eps__b_min_sep_draws **out,
                                          const struct eps__b_min_sep *b_min_sep, unsigned copies, double gram_units);
void eps__b_min_sep_draws_free(struct eps__b_min_sep_draws *draws);

/* One draw: the steps that any copy takes, ascending, and how many do. Returns how many steps, at most draws->most. */
size_t eps__b_min_sep_draws_next(struct eps__participated *out, const struct eps__b_min_sep_draws *draws,
                                 const struct eps__stream *stream, uint32_t draw);

#endif
