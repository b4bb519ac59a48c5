/*
 * Discretised privacy loss distributions: build from a dominating pair, compose, query.
 *
 * A step PLD holds the P-masses of one step on a grid of losses, sparse where the density is small. It is an upper
 * or a lower estimate: its hockey-stick curve lies above or below the pair's at every epsilon, in spite of
 * discretisation, truncation and rounding, once the loss is widened by `loss_error` a step.
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
    double spacing; /* of the grid */
    double offset;  /* loss of knot i: offset + index[i] * spacing */
    size_t len;
    int64_t *index; /* ascending */
    double *mass;   /* P-mass * e^{tilt loss - log_scale}; >= 0 */
    double tilt, log_scale;
    double infinity;   /* upper: P-mass at +infinity; lower: 0 */
    double excess;     /* lower: tilted mass that may be too much, at unknown losses, of 1 before coarsening; else 0 */
    double loss_error; /* bound on the rounding of a loss, to be widened by */
};

/*
 * How finely a pair is discretised: in proportion to how much each loss matters to the answer. A loss l matters as its
 * tilted density f(l) e^{t l - log_norm}. Where tails are heavy, and what happens is one large loss, that is too
 * little by up to e^log_boost; but no loss matters more than f(l) e^log_jump, log_jump = -ln delta.
 */
struct eps__pld_plan {
    double spacing;       /* of the grid, > 0 */
    double tilt;          /* t >= 0 */
    double log_norm;      /* about ln E[e^{t l}] */
    double log_boost;     /* 0 where the tilted density says it all */
    double log_jump;      /* about -ln delta at the epsilon of interest */
    double log_reference; /* a cell where the density (per unit of loss) is this much is one spacing wide */
    double log_small;     /* ln of a density (per unit of z) under which an error is harmless */
    double widest;        /* in (0, 1]: scales the widest cell, a tenth of a unit of z and 1/(4 (1 + t)) of loss */
    double cut;      /* losses above it matter one at a time (pld/compose/expansion.h); INFINITY if there is no cut */
    double cut_tilt; /* their tilt */
    double log_flat; /* ln of how much less their curve bends, so that their cells may be wider */
    double z_low;    /* left of it, mass is rounded to the edge */
    double fine_low; /* outside [fine_low, fine_high] cells are wide and masses rounded to a knot */
    double fine_high;
    double z_high;    /* right of it, mass is infinite loss (or, with a ceiling, rounded up) */
    size_t cells_max; /* more are EPS_TOO_COSTLY; 0: as many as a transform could hold */
};

/* ln of how much a loss matters, for its density's logarithm. */
static inline double eps__pld_importance(const struct eps__pld_plan *plan, double log_density, double loss)
{
    double tilted = plan->tilt * loss - plan->log_norm, boosted = tilted + plan->log_boost;
    if (boosted > plan->log_jump)
        boosted = plan->log_jump;
    return log_density + (boosted > tilted ? boosted : tilted);
}

/*
 * Discretises a step, the mixture of its branches, by matching its hockey-stick curve at the knots (Doroshenko et al.
 * 2022, "Connect the dots"). The plans, one a branch, agree but for their ranges of z.
 * Upper: each cell's mass is split between its two knots so that its P- and Q-mass are kept. Lower: the same curve
 * lowered at each knot by a bound on the distance between chord and curve in the cells beside it, made convex again
 * where need be. Out: *pld, to be released with eps__pld_clear(); EPS_NO_MEMORY or EPS_CANCELED.
 */
enum eps_status eps__pld_build(const struct eps_context *context, struct eps__pld *pld,
                               const struct eps__branch *branches, const struct eps__pld_plan *plans, size_t len,
                               enum eps__estimate estimate);
void eps__pld_clear(struct eps__pld *pld);

static inline double eps__pld_loss(const struct eps__pld *pld, size_t i)
{
    return pld->offset + (double)pld->index[i] * pld->spacing;
}

/* ln sum_i mass_i e^{t loss_i}: the log moment generating function, infinite loss left out. Out: *error, a bound on its
 * absolute error, however much the parts cancel (P5). */
double eps__pld_log_moment(const struct eps__pld *pld, double tilt, double *error);

/* delta(eps) of one untilted PLD alone, as a natural logarithm: >= or <= its curve, rounding counted. */
double eps__pld_log_delta(const struct eps__pld *pld, double eps);

/* Splits the masses by loss: *core has those up to `cut`, *jump the others (len 0 if there are none); infinity stays
 * with neither. Each to be released with eps__pld_clear(). EPS_NO_MEMORY. */
enum eps_status eps__pld_split(const struct eps__pld *pld, double cut, struct eps__pld *core, struct eps__pld *jump);

/* sum_i mass_i, rounded up, infinity left out. */
double eps__pld_total(const struct eps__pld *pld);

/* A PLD and how many times it is composed. */
struct eps__pld_power {
    const struct eps__pld *pld;
    uint64_t count;
};

/*
 * The composition of PLDs near one epsilon: exponentially tilted by t, transformed, multiplied, transformed back.
 * delta(eps) = e^{log_scale - t eps} * tail[i] at eps = start + i * spacing, and linear in e^eps between.
 */
struct eps__panel {
    enum eps__estimate estimate;
    double tilt, log_scale;
    double start, spacing;
    size_t len;
    double *tail;       /* sum over losses above of a_j e^{-t (l_j - eps)} (1 - e^{-(l_j - eps)}), bounded */
    double below;       /* sum over all losses of a_j e^{-(t + 1)(l_j - start)} */
    double beyond;      /* upper: tilted mass above the window, to be added with e^{-t (end - eps)}, and below it */
    double wrapped;     /* lower: tilted mass that may have been wrapped into the window, to be taken away */
    double infinity;    /* upper: probability of infinite loss */
    double widening;    /* total loss_error */
    double scale_error; /* bound on the rounding of log_scale */
    double rounding;    /* the bound on the absolute error of each a_j that `tail` accounts for */
};

/* What a composition needs to know beforehand. */
struct eps__compose_plan {
    double tilt;
    double tail_mass;    /* in (0, 1): the tilted mass that may lie outside the window, on each side */
    double log_infinity; /* eps__pld_compose(), upper: ln of the P-mass that may become infinite loss */
    size_t max_len;      /* a longer transform is EPS_TOO_COSTLY */
};

/*
 * Composes PLDs of one spacing and one estimate by FFT. The window comes from Chernoff bounds on the tilted
 * sum; mass that leaves it is bounded, and so is every rounding error (numerics/fft/fft.h).
 * Out: *panel, released with eps__panel_clear(). EPS_NO_MEMORY, EPS_CANCELED, EPS_TOO_COSTLY.
 */
enum eps_status eps__compose(const struct eps_context *context, struct eps__panel *panel,
                             const struct eps__pld_power *powers, size_t powers_len,
                             const struct eps__compose_plan *plan);
void eps__panel_clear(struct eps__panel *panel);

/*
 * The composition as a PLD again, on a grid `coarser` times as wide: of several levels, each on a grid as fine as its own
 * number of compositions needs. Tilted as planned. Out: *pld, released with eps__pld_clear().
 */
enum eps_status eps__pld_compose(const struct eps_context *context, struct eps__pld *pld,
                                 const struct eps__pld_power *powers, size_t powers_len, size_t coarser,
                                 const struct eps__compose_plan *plan);

/* ln of the bound on delta(eps): narrow inside the window, valid everywhere. */
double eps__panel_log_delta(const struct eps__panel *panel, double eps);

/*
 * The circular convolution power behind eps__compose(), for tests: out[j], j < n, is the product of the
 * distributions' powers (each of `len` masses at positions 0..len-1 modulo n, not tilted), and the result is within
 * *error of the exact one at every j.
 */
enum eps_status eps__convolve_powers(const struct eps_context *context, double *out, double *error,
                                     const double *const *masses, const uint64_t *counts, size_t powers_len, size_t n);

#endif
