/*
 * The price of a first column: the error of C at the noise multiplier that the job needs, as far as one accountant sees
 * it in one direction. Internal to lib/tuned.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_TUNED_PRICE_H
#define EPS_TUNED_PRICE_H

#include "lib/accountants/accountant.h"

struct eps__pricing {
    const struct eps_context *context;
    struct eps_job job; /* the job, with an accountant that has profiles; its matrix is replaced */
    /* By direction, the accountant that is watched; and the direction that decides the noise so far. Chosen by
     * eps__price_first(). */
    const struct eps__accountant *accountants[EPS_DIRECTIONS];
    enum eps_direction direction;
    double slopes[EPS_DIRECTIONS]; /* d ln delta / d ln sigma where it was last measured, < 0 */
    double log_sigma;              /* where the next search begins */
    double operations;             /* estimated, of a profile of those accountants */
    double profiles, expected;     /* opened so far, and about how many will be, for progress */
    struct eps__meter *meter;
    enum eps_status status; /* why pricing failed; EPS_OK: it did not */
    struct eps_error *error;
};

/* What is known of a strategy: ln of its error at sigma = 1; ln sigma where delta is about the one asked for; and ln of
 * the quotient of the two there. */
struct eps__price {
    double log_error, log_sigma, excess;
};

/* ln (error sigma^2) at the sigma that the slope extrapolates to. */
double eps__price_log(const struct eps__pricing *pricing, const struct eps__price *price);

/* A matrix has no price, and log_error is INFINITY, if it cannot be built, if C has a negative entry, if its error is
 * undefined, or if no sigma is enough. The matrix gets the stamps of the job's. */

/* Chooses the accountants that are watched, by this matrix, and prices it. False: see status. */
bool eps__price_first(struct eps__pricing *pricing, struct eps__price *price, const struct eps_matrix *matrix);

/* Prices a matrix. False: see status. */
bool eps__price(struct eps__pricing *pricing, struct eps__price *price, const struct eps_matrix *matrix);

/* Prices a matrix near that of `like`, at the same sigma: one profile. False: see status. */
bool eps__price_like(struct eps__pricing *pricing, struct eps__price *price, const struct eps__price *like,
                     const struct eps_matrix *matrix);

/* The estimated operations of one profile in one direction, of the costliest accountant that may decide; 0 if none
 * serves the setting. job: that of the setting. */
double eps__price_operations(const struct eps__setting *setting);

#endif
