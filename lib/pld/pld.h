/*
 * Discretised privacy loss distributions: build from a dominating pair, compose, query.
 *
 * The PLD of a step holds its P-masses on a grid of losses, sparse where the density is small. It is an upper or a
 * lower estimate: its hockey-stick curve lies above or below the pair's at every epsilon, despite discretisation,
 * truncation and rounding, once each step's loss is widened by `loss_error`.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_PLD_PLD_H
#define EPS_PLD_PLD_H

#include <stdint.h>

#include "lib/epsilon.h"
#include "lib/pld/pairs/pair.h"

struct eps__pld {
    enum eps__estimate estimate;
    double spacing; /* of the grid, in units of loss */
    double offset;  /* loss of knot i: offset + index[i] * spacing */
    size_t len;
    int64_t *index; /* ascending */
    double *mass;   /* P-mass times e^{tilt loss - log_scale}; >= 0 */
    double tilt, log_scale;
    double infinity;   /* upper: P-mass of infinite loss; lower: 0 */
    double excess;     /* lower: bound on surplus tilted mass, at unknown losses, of a total of 1 before coarsening */
    double loss_error; /* bound on the rounding error of a loss, by which queries widen it */
};

/*
 * How finely a pair is discretised: in proportion to the importance of each loss for the answer. The importance of a
 * loss l is its tilted density f(l) e^{t l - log_norm}. With heavy tails, where one large loss decides, that is too
 * small by up to e^log_boost; but no loss is more important than f(l) e^log_jump, log_jump = -ln delta.
 */
struct eps__pld_plan {
    double spacing;       /* of the grid, in units of loss; > 0 */
    double tilt;          /* t >= 0 */
    double log_norm;      /* about ln E[e^{t l}] */
    double log_boost;     /* 0 if the tilted density is right without it */
    double log_jump;      /* about -ln delta at the epsilon of interest */
    double log_reference; /* a cell where the density, per unit of loss, is this large is one spacing wide */
    double log_small;     /* ln of a density, per unit of z, below which an error is negligible */
    double widest;        /* in (0, 1]: scales the widest cell, a tenth of a unit of z and 1/(4 (1 + t)) of loss */
    double cut;           /* losses above it are jumps (pld/compose/expansion.h); INFINITY: none */
    double cut_tilt;      /* the tilt of losses above the cut */
    double log_flat;      /* ln of how much less the curve above the cut bends: cells may be wider */
    double z_low;         /* mass left of it is rounded to the edge */
    double fine_low;      /* outside [fine_low, fine_high] cells are wide and masses are rounded to a knot */
    double fine_high;
    double z_high;    /* mass right of it becomes infinite loss (or, if losses have a ceiling, is rounded up) */
    size_t cells_max; /* more cells give EPS_TOO_COSTLY; 0: as many as a transform can hold */
};

/* ln of the importance of a loss, from the logarithm of its density. */
static inline double eps__pld_importance(const struct eps__pld_plan *plan, double log_density, double loss)
{
    double boosted = plan->tilt * loss - plan->log_norm + plan->log_boost;
    return log_density + (boosted < plan->log_jump ? boosted : plan->log_jump);
}

/*
 * Discretises a step, which is the mixture of its branches, by matching its hockey-stick curve at the knots (Doroshenko
 * et al. 2022, "Connect the dots"). There is one plan for each branch; the plans differ only in their ranges of z.
 *
 * Upper: each cell's mass is split between its two knots so that its P- and Q-mass are kept. Lower: the same curve,
 * lowered at each knot by a bound on the distance between chord and curve in the two cells beside it, and made convex
 * again where necessary. Out: *pld, released with eps__pld_clear(). EPS_OK, EPS_NO_MEMORY, EPS_TOO_COSTLY (more than
 * cells_max cells, or a cell without a finite mass), or the context's reason to stop.
 */
enum eps_status eps__pld_build(const struct eps_context *context, struct eps__pld *pld,
                               const struct eps__branch *branches, const struct eps__pld_plan *plans, size_t len,
                               enum eps__estimate estimate);
void eps__pld_clear(struct eps__pld *pld);

static inline double eps__pld_loss(const struct eps__pld *pld, size_t i)
{
    return pld->offset + (double)pld->index[i] * pld->spacing;
}

/* ln sum_i mass_i e^{tilt loss_i}: the log moment generating function without infinite loss. Out: *error, a bound on
 * the absolute error of the result, also where its parts cancel (P5). */
double eps__pld_log_moment(const struct eps__pld *pld, double tilt, double *error);

/* ln delta(eps) of a single untilted PLD, a bound on its curve in the direction of the estimate, rounding included. */
double eps__pld_log_delta(const struct eps__pld *pld, double eps);

/* Splits the masses by loss: *core has those up to `cut`, *jump those above (len 0 if there are none). Neither has the
 * infinite loss. Both are released with eps__pld_clear(). EPS_OK or EPS_NO_MEMORY. */
enum eps_status eps__pld_split(const struct eps__pld *pld, double cut, struct eps__pld *core, struct eps__pld *jump);

/* sum_i mass_i, rounded up, without infinite loss. */
double eps__pld_total(const struct eps__pld *pld);

/* A PLD and how many times it is composed. */
struct eps__pld_power {
    const struct eps__pld *pld;
    uint64_t count;
};

/*
 * The composition of PLDs near one epsilon: exponentially tilted by t, transformed, multiplied, transformed back.
 * Between knots, delta is linear in e^eps; at knots delta(eps) = e^{log_scale - t eps} tail[i], eps = start + i
 * spacing.
 */
struct eps__panel {
    enum eps__estimate estimate;
    double tilt, log_scale;
    double start, spacing;
    size_t len;
    double *tail;       /* sum over larger losses of a_j e^{-t (l_j - eps)} (1 - e^{-(l_j - eps)}), bounded */
    double below;       /* sum over all losses of a_j e^{-(t + 1)(l_j - start)} */
    double beyond;      /* upper: tilted mass above (added with e^{-t (end - eps)}) or below the window */
    double wrapped;     /* lower: bound on the tilted mass wrapped into the window, which is subtracted */
    double infinity;    /* upper: probability of infinite loss */
    double widening;    /* the sum of all steps' loss_error */
    double scale_error; /* bound on the rounding error of log_scale */
    double rounding;    /* the bound on the absolute error of each a_j that is included in `tail` */
};

/* How to compose. */
struct eps__compose_plan {
    double tilt;
    double tail_mass;    /* in (0, 1): the tilted mass that may lie outside the window on each side */
    double log_infinity; /* for upper estimates by eps__pld_compose(): ln of the P-mass that may become infinite loss */
    size_t max_len;      /* a longer transform gives EPS_TOO_COSTLY */
    bool seldom;         /* few transforms are made, so their lengths are those that are planned quickly */
};

/*
 * Composes PLDs of the same spacing and estimate by FFT. The window comes from Chernoff bounds on the tilted sum. Mass
 * outside the window is bounded, and so is every rounding error (numerics/fft/fft.h). Out: *panel, released with
 * eps__panel_clear(). EPS_OK, EPS_NO_MEMORY, EPS_TOO_COSTLY, or the context's reason to stop.
 */
enum eps_status eps__compose(const struct eps_context *context, struct eps__panel *panel,
                             const struct eps__pld_power *powers, size_t powers_len,
                             const struct eps__compose_plan *plan);
void eps__panel_clear(struct eps__panel *panel);

/*
 * The composition as a PLD again, tilted as planned, on a grid `coarser` times as wide. Used for compositions in
 * levels, in which each level has a grid as fine as its own number of compositions requires. Out: *pld, released with
 * eps__pld_clear(). Errors as eps__compose().
 */
enum eps_status eps__pld_compose(const struct eps_context *context, struct eps__pld *pld,
                                 const struct eps__pld_power *powers, size_t powers_len, size_t coarser,
                                 const struct eps__compose_plan *plan);

/* ln of the bound on delta(eps): tight inside the window, valid everywhere. */
double eps__panel_log_delta(const struct eps__panel *panel, double eps);

/*
 * The circular convolution powers behind eps__compose(), for tests. out[j], j < n, is the product of the distributions'
 * powers. Each distribution has n masses at positions 0..n-1 modulo n, not tilted. Each out[j] is within *error of the
 * exact value.
 */
enum eps_status eps__convolve_powers(const struct eps_context *context, double *out, double *error,
                                     const double *const *masses, const uint64_t *counts, size_t powers_len, size_t n);

#endif
