/*
 * Draws of x^1 + ... + x^a, where a copies of an example whose participations depend on its history (histories.h) have
 * the law of independent ones times e^{sum over pairs c < d of x^c'G x^d}. With G = h'h, y = h (x^1 + ... + x^a) + z is
 * then a draw of P^a Q^(1-a)/Z. Z and the law of each step come from sums backward in time over the states of M18,
 * which are kept for every step (M30).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_MOMENTS_LAWS_HISTORIES_DRAWS_H
#define EPS_MOMENTS_LAWS_HISTORIES_DRAWS_H

#include "lib/moments/laws/histories_steps.h"
#include "lib/moments/laws/poisson.h"
#include "lib/sampling/participations.h"

enum { EPS__HISTORIES_DRAWN_MAX = 4 }; /* copies */

/* The coins of a step. */
struct eps__coins {
    /* The probability that of the copies that wait just some take part. */
    double taking[EPS__HISTORIES_DRAWN_MAX + 1][EPS__HISTORIES_DRAWN_MAX + 1]; /* [that wait][that take part] */
};

/* Immutable: any number of threads may draw from one. */
struct eps__histories_draws {
    struct eps__banded_gram banded; /* its matrix is the caller's */
    struct eps__histories law;
    unsigned copies;
    size_t lead, steps, states; /* steps: leading ones counted */
    double log_z, log_z_error;  /* ln Z = ln E X^a, and its absolute error bound */
    double log_density_error;   /* the absolute error bound of ln of the probability of a draw */
    size_t most;                /* the largest number of steps in which some copy of a draw takes part */
    size_t histories;
    uint64_t *mask;           /* [history]: bit d - 1 says whether the copy took part d steps ago */
    bool *waits;              /* [history] */
    struct eps__coins *coins; /* of each leading step, and in the last entry of all others */
    uint16_t *item;           /* [state][copy]: its histories, in ascending order */
    uint32_t *to;             /* [state][subset of its copies that take part]: the state after the step */
    /* The sum of state s from step i on is entry s of row[i], times 2^exponent[i] lambda^power[i]; it is 1 behind the
     * last step. Equal steps share a row once they multiply it by one factor, lambda, within a share of `spread`. */
    double *sums;
    uint32_t *row, *power; /* power: steps + 1 numbers, as exponent */
    int *exponent;
    double lambda, log_lambda, spread;
};

/* The estimated bytes of the tables for `copies` >= 2; INFINITY if they would be too large. Does not read the Gram
 * matrix. */
double eps__histories_draws_bytes(const struct eps__histories *law, unsigned copies);

/* The estimated operations of making these tables. */
double eps__histories_draws_operations(const struct eps__histories *law, unsigned copies);

/*
 * Makes the tables for a number of copies whose bytes are finite, and a law without a tilt. The entries of the Gram
 * matrix have a relative error of at most gram_units units of roundoff; the caller keeps the matrix as long as the
 * tables, and frees *out if the status is EPS_OK. EPS_OK, EPS_UNSUPPORTED (the tables would be too inaccurate),
 * EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT.
 */
enum eps_status eps__histories_draws_make(const struct eps_context *context, struct eps__histories_draws **out,
                                          const struct eps__histories *law, unsigned copies, double gram_units);
void eps__histories_draws_free(struct eps__histories_draws *draws);

/* Makes one draw: the steps in which some copy takes part, in ascending order, and the number of these copies. Returns
 * the number of steps, at most draws->most. */
size_t eps__histories_draws_next(struct eps__participated *out, const struct eps__histories_draws *draws,
                                 const struct eps__stream *stream, uint32_t draw);

#endif
