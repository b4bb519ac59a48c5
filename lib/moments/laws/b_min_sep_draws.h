/*
 * Draws of x^1 + ... + x^a, where a copies of an example under b-min-sep sampling have the law of independent ones
 * times e^{sum over pairs c < d of x^c'G x^d}. With G = h'h, y = h (x^1 + ... + x^a) + z is then a draw of P^a
 * Q^(1-a)/Z. Z and the law of each step come from sums backward in time over the states of M23, which are kept for
 * every step (M25, M26).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_MOMENTS_LAWS_B_MIN_SEP_DRAWS_H
#define EPS_MOMENTS_LAWS_B_MIN_SEP_DRAWS_H

#include "lib/moments/laws/b_min_sep_layout.h"
#include "lib/sampling/participations.h"

enum { EPS__B_MIN_SEP_DRAWN_MAX = 8 }; /* copies */

/* Immutable: any number of threads may draw from one. */
struct eps__b_min_sep_draws {
    struct eps__b_min_sep b_min_sep;
    struct eps__b_min_sep_layout layout;
    double log_z, log_z_error; /* ln Z = ln E X^a, and its absolute error bound */
    double log_density_error;  /* the absolute error bound of ln of the probability of a draw */
    size_t most;               /* the largest number of participations of a draw */
    double *base; /* [step][drawing]: its probability at each leading step, and in the last row at all others */
    double *edge; /* the rows of the first steps if something is missing before them */
    /* The sum of state s from step i on is entry s of row[i], times 2^exponent[i] lambda^power[i]; it is 1 behind the
     * last step. Equal steps share a row once they multiply it by one factor, lambda, within a share of `spread`. */
    double *sums;
    uint32_t *row, *power; /* power: steps + 1 numbers, as exponent */
    int *exponent;
    double *shrink; /* [k]: lambda^-k, k <= separation */
    double log_lambda, spread;
};

/*
 * The estimated bytes of the tables for `copies` >= 2; INFINITY if they would be too large, or for several examples of
 * a user. Does not read the Gram matrix.
 */
double eps__b_min_sep_draws_bytes(const struct eps__b_min_sep *b_min_sep, unsigned copies);

/* The estimated operations of making these tables. */
double eps__b_min_sep_draws_operations(const struct eps__b_min_sep *b_min_sep, unsigned copies);

/*
 * Makes the tables for a number of copies whose bytes are finite. The entries of the Gram matrix have a relative error
 * of at most gram_units units of roundoff; the caller keeps the matrix as long as the tables. The caller frees *out if
 * the status is EPS_OK. EPS_OK, EPS_UNSUPPORTED (the tables would be too inaccurate), EPS_NO_MEMORY, EPS_CANCELED,
 * EPS_TIMEOUT.
 */
enum eps_status eps__b_min_sep_draws_make(const struct eps_context *context, struct eps__b_min_sep_draws **out,
                                          const struct eps__b_min_sep *b_min_sep, unsigned copies, double gram_units);
void eps__b_min_sep_draws_free(struct eps__b_min_sep_draws *draws);

/* Makes one draw: the steps in which some copy takes part, in ascending order, and the number of these copies. Returns
 * the number of steps, at most draws->most. */
size_t eps__b_min_sep_draws_next(struct eps__participated *out, const struct eps__b_min_sep_draws *draws,
                                 const struct eps__stream *stream, uint32_t draw);

#endif
