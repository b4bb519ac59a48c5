/*
 * The saddle-point approximation of a composition of steps: quick, unproven answers that say where to aim the proven
 * ones.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_PLD_COMPOSE_SADDLE_H
#define EPS_PLD_COMPOSE_SADDLE_H

#include <stdint.h>

#include "lib/base/limits.h"
#include "lib/pld/pld.h"

#define EPS__TAIL_REACH 38.5 /* beyond it a normal tail underflows */

/* A pair on a grid of z = -10 + i z_step, for trapezoid sums over its losses. */
struct eps__quadrature {
    size_t len;
    double z_step, reach; /* reach: the largest shift of the numerator */
    double *loss;
    double *log_mass; /* ln of what one point stands for: its branch's weight, P's density, z_step */
};

/* One step, or `count` equal ones: `len` branches, of which a public one is taken. Owned. */
struct eps__step {
    struct eps__branch *branches;
    struct eps__quadrature *quadratures;
    size_t len;
    uint64_t count;
};

struct eps__steps {
    struct eps__step *items;
    size_t len;
    double total; /* number of compositions */
};

/* Fills in the quadratures. EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT. */
enum eps_status eps__step_quadratures(const struct eps_context *context, struct eps__step *step);
void eps__step_clear(struct eps__step *step);

/* What is known of the sum of the losses, exponentially tilted. */
struct eps__saddle {
    double tilt, log_moment, mean, variance; /* of the sum, tilted */
    double third;                            /* its third central moment */
    double z_excess;                         /* how far beyond its reach each step is kept */
    double eps, log_delta;                   /* what it was found for, and the best knowledge of ln delta there */
};

/* The number of points of a quadrature within its reach and z_excess. */
size_t eps__quadrature_len(const struct eps__quadrature *quadrature, double z_excess);
/* The z of point i. */
double eps__quadrature_z(const struct eps__quadrature *quadrature, size_t i);

/* The log moment generating function of the sum and its derivatives, steps cut at reach + z_excess. */
void eps__saddle_moments(const struct eps__steps *steps, double tilt, double z_excess, struct eps__saddle *saddle);

/* The saddle-point approximation of ln delta(eps), with the tilt's sum taken as normal. */
double eps__saddle_log_delta(const struct eps__saddle *saddle, double eps);

/* Is the tilted sum so skew that where the steps are cut decides what the saddle says? */
bool eps__is_skew(const struct eps__saddle *saddle);

/* ln of the largest of the steps' own delta(eps), times how many there are: about a lower bound on delta(eps), and
 * its size where one large loss among small ones is what happens. */
double eps__jump_log_delta(const struct eps__steps *steps, double eps);

/* Is delta(eps) what a single large loss makes of it, about: larger ones than it are next to impossible, and all others
 * together move it by a few per cent, or both by less than the tolerance? */
bool eps__one_loss_decides(const struct eps__steps *steps, double eps, double tolerance);

/* Where the steps may be cut, beyond their reach, if delta is at least e^least: there their tails no longer count
 * against it. */
double eps__cut_excess(const struct eps__steps *steps, double least, double tolerance);

/* The tilt t >= 0 at which the tilted mean is eps: where e^{K(t) - t eps} is least. */
void eps__find_tilt(const struct eps__steps *steps, double eps, double z_excess, struct eps__saddle *saddle);

/* The saddle for eps, given what is known of ln delta there (NAN: nothing). */
void eps__aim(const struct eps__steps *steps, double eps, double known, double tolerance, struct eps__saddle *saddle);

/* The eps at which ln delta is about as given. */
double eps__saddle_epsilon(const struct eps__steps *steps, double log_delta, double tolerance);

/* The variance that splitting cells of a spacing adds to the sum, tilted. */
double eps__added_variance(const struct eps__steps *steps, const struct eps__saddle *saddle, double spacing);

/* Whether most of a step's tilted losses spread over more than a spacing. */
bool eps__saddle_resolved(const struct eps__step *step, const struct eps__saddle *saddle, double spacing);

#endif
