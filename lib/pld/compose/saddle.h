/*
 * The saddle-point approximation of a composition of steps: fast answers that prove nothing and choose the parameters
 * of the proven ones.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_PLD_COMPOSE_SADDLE_H
#define EPS_PLD_COMPOSE_SADDLE_H

#include <stdint.h>

#include "lib/base/limits.h"
#include "lib/pld/pld.h"

#define EPS__TAIL_REACH 38.5 /* in standard deviations: beyond it a normal tail underflows */

/* A pair on the grid z = -10 + i z_step, for trapezoid sums over its losses. */
struct eps__quadrature {
    size_t len;
    double z_step, reach; /* reach: the largest shift of the numerator */
    double *loss;
    double *log_mass; /* ln of the mass of one point: its branch's weight times P's density times z_step */
};

/* A class of `count` equal steps, each the public mixture of `len` branches. Owns its arrays. */
struct eps__step {
    struct eps__branch *branches;
    struct eps__quadrature *quadratures;
    size_t len;
    uint64_t count;
};

struct eps__steps {
    struct eps__step *items;
    size_t len;
    double total; /* total number of steps */
};

/* Fills in the quadratures. EPS_OK, EPS_NO_MEMORY, EPS_CANCELED, EPS_TIMEOUT. In every case the caller clears *step. */
enum eps_status eps__step_quadratures(const struct eps_context *context, struct eps__step *step);
void eps__step_clear(struct eps__step *step);

/* The moments of the exponentially tilted sum of the losses. */
struct eps__saddle {
    double tilt, log_moment, mean, variance; /* log_moment: ln E[e^{tilt L}] */
    double third;                            /* third central moment */
    double z_excess;                         /* z_excess: each step is cut at its reach plus this */
    double eps, log_delta;                   /* the epsilon it is for, and the best approximation of ln delta there */
};

/* The number of points of a quadrature up to its reach plus z_excess. */
size_t eps__quadrature_len(const struct eps__quadrature *quadrature, double z_excess);
/* The z of point i. */
double eps__quadrature_z(const struct eps__quadrature *quadrature, size_t i);

/* The log moment generating function of the sum and its derivatives, with the steps cut at their reach plus
 * z_excess. */
void eps__saddle_moments(const struct eps__steps *steps, double tilt, double z_excess, struct eps__saddle *saddle);

/* The saddle-point approximation of ln delta(eps): the tilted sum is taken as normal. */
double eps__saddle_log_delta(const struct eps__saddle *saddle, double eps);

/* Whether the tilted sum is so skew that the result depends on where the steps are cut. */
bool eps__is_skew(const struct eps__saddle *saddle);

/* ln of the largest over classes of a step's own delta(eps) times the number of steps. About a lower bound on
 * delta(eps), and about equal to it if a single large loss decides. */
double eps__jump_log_delta(const struct eps__steps *steps, double eps);

/* Whether delta(eps) comes from a single large loss: a second large one is very improbable, and all other losses
 * together change it by a few per cent at most, or both by less than the tolerance. */
bool eps__one_loss_decides(const struct eps__steps *steps, double eps, double tolerance);

/* How far beyond their reach the steps may be cut if delta is at least e^least: so far that the tails are negligible
 * against it. */
double eps__cut_excess(const struct eps__steps *steps, double least, double tolerance);

/* Finds the tilt t >= 0 at which the tilted mean is eps, which minimises e^{K(t) - t eps}. start: a tilt near it; 0:
 * none is known. */
void eps__find_tilt(const struct eps__steps *steps, double eps, double z_excess, double start,
                    struct eps__saddle *saddle);

/* The saddle point for eps, given what is known of ln delta there (NAN: nothing). */
void eps__aim(const struct eps__steps *steps, double eps, double known, double tolerance, struct eps__saddle *saddle);

/* The eps at which ln delta is about `log_delta`. */
double eps__saddle_epsilon(const struct eps__steps *steps, double log_delta, double tolerance);

/* The variance that splitting cells of a spacing adds to the tilted sum. */
double eps__added_variance(const struct eps__steps *steps, const struct eps__saddle *saddle, double spacing);

/* Whether the middle half of a step's tilted losses spreads over more than a spacing. */
bool eps__saddle_resolved(const struct eps__step *step, const struct eps__saddle *saddle, double spacing);

#endif
