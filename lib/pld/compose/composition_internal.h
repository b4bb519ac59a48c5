/*
 * What the files of a composition share: composition.c keeps panels and answers from them, resolution.c decides how
 * fine they are, panels.c makes them, levels.c those of many steps, expansion_panels.c those of an expansion.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_PLD_COMPOSE_COMPOSITION_INTERNAL_H
#define EPS_PLD_COMPOSE_COMPOSITION_INTERNAL_H

#include "lib/pld/compose/composition.h"
#include "lib/pld/compose/expansion.h"
#include "lib/pld/compose/largest.h"

enum { EPS__PANELS_MAX = 12, EPS__AIMS_MAX = 4, EPS__COARSER_MAX = 5, EPS__HEAVY_SURPLUS = 20 };

struct eps__panel_slot {
    struct eps__panel *panels; /* of a composition: delta is the sum of e^log_count times each, and the remainder; or */
    double *log_counts;
    double *bound_tilts, *bound_moments; /* where a panel is empty: e^(moment - tilt eps) takes its place */
    size_t panels_len;
    double remainder;
    double decisive_gain, decisive_log_some; /* and gain - (e^eps - 1) some, of losses that are not composed */
    struct eps__pld pld;                     /* the one step there is */
    enum eps__estimate estimate;
    double centre, below, above; /* answers centre - below <= eps <= centre + above */
    bool used, single;
};

struct eps__composition {
    const struct eps_context *context;
    struct eps__cache_use *cache_use;
    struct eps__accuracy accuracy;
    struct eps__steps steps;
    double ceiling;                  /* the largest loss of the sum, rounded up; INFINITY if there is none */
    double finer;                    /* refinement so far */
    double seen_eps, seen_log_delta; /* the last upper bound: better than the saddle's where tails are heavy */
    struct eps__panel_slot slots[EPS__PANELS_MAX];
    size_t next_slot;
    struct eps__largest *largest; /* where large losses are rare; else NULL */
    bool bounded;                 /* by it, within a factor of 2: panels are tried once, if they are cheap */
    bool out_of_reach;            /* and were not */
};

/* ---- resolution.c: unproven choices of how fine ---- */

/* Tilt, cut and spacing are taken from coarse scales, so that neighbouring questions about one mechanism ask for the
 * same step PLD, which the cache may then hold. */
void eps__saddle_snap(const struct eps__steps *steps, struct eps__saddle *saddle);
/* The grid spacing at which the estimate's error is within its share of the tolerance. Splitting a cell's mass adds
 * variance width^2/6 to each step; that moves eps by variance/2 times the density over the Q-tail, and ln delta by
 * the same over delta. */
double eps__choose_spacing(const struct eps__composition *c, const struct eps__saddle *saddle,
                           enum eps__estimate estimate);
/* What all branches' plans have in common, by the step's tilted losses. */
void eps__plan_common(struct eps__pld_plan *plan, const struct eps__composition *c, const struct eps__step *step,
                      const struct eps__saddle *saddle, double spacing);
/* The range of z of one branch, and which part of it matters. */
void eps__plan_range(struct eps__pld_plan *plan, const struct eps__quadrature *quadrature,
                     const struct eps__saddle *saddle);
/* A jump matters as what the cores then make of it, at most all: n f / delta. The tilted density, raised until it
 * says so at the cut, says enough of the losses under it. */
void eps__plan_expansion(struct eps__pld_plan *plan, const struct eps__composition *c,
                         const struct eps__expansion *expansion);
/* Tilted mass that may be lost at each end of the window: little against delta in the same units. */
double eps__tail_mass(const struct eps__saddle *saddle, double tolerance);

/* The same for the panels of an expansion. */
double eps__expansion_spacing(const struct eps__composition *c, const struct eps__expansion *expansion, double eps,
                              enum eps__estimate estimate);
/* The longest transform there may be. */
size_t eps__max_length(const struct eps__composition *c);

/* ---- panels.c ---- */

/* Frees what the slot holds, not what it is for. */
void eps__slot_release(struct eps__panel_slot *slot);
void eps__slot_clear(struct eps__panel_slot *slot);
/* Room for len panels; false without memory. */
bool eps__slot_reserve(struct eps__panel_slot *slot, size_t len);
/* The PLD of the steps of class k, for one tilt and spacing, and an expansion or NULL; to be cleared. */
enum eps_status eps__build_step(const struct eps__composition *c, struct eps__pld *built, size_t k,
                                enum eps__estimate estimate, const struct eps__saddle *saddle,
                                const struct eps__expansion *expansion, double spacing);
/* Those of all classes: as many as there are, each to be cleared. */
enum eps_status eps__build_steps(const struct eps__composition *c, struct eps__pld *built, enum eps__estimate estimate,
                                 const struct eps__saddle *saddle, const struct eps__expansion *expansion,
                                 double spacing);
/* ln of a Chernoff bound on delta, E[(1 - e^{eps - L})_+] <= e^{K(t) - t eps}: at the least tilt that makes it as small as
 * enough, or at the best one. No transform, and a coarse grid. */
enum eps_status eps__chernoff_log_delta(const struct eps__composition *c, double eps, double enough, double *out);
/* Composes around the saddle's epsilon into a slot that is cleared but for what it is for. */
enum eps_status eps__compose_slot(const struct eps__composition *c, struct eps__panel_slot *slot,
                                  const struct eps__saddle *saddle, double spacing);
/* ln of the slot's bound on delta(eps). */
double eps__slot_log_delta(const struct eps__panel_slot *slot, double eps);

/* ---- levels.c ---- */

/* In how many levels the steps are best composed, >= 1. */
size_t eps__levels(const struct eps__composition *c, const struct eps__saddle *saddle, double spacing);
/* Composes in so many levels, at least 2, the spacing being that of a single one. Out: *panel. */
enum eps_status eps__compose_levels(const struct eps__composition *c, struct eps__panel *panel, size_t len,
                                    enum eps__estimate estimate, const struct eps__saddle *saddle, double spacing,
                                    const struct eps__compose_plan *plan);

/* ---- expansion_panels.c ---- */

/* Does one tilt serve the whole composition badly? */
bool eps__rare_jumps(const struct eps__composition *c, const struct eps__saddle *saddle);
/* The answer by an expansion; where its saddle points were far off, by another that is aimed by the first one's bound,
 * while that is the better one: all are bounds. */
enum eps_status eps__answer_expanded(struct eps__composition *c, struct eps__panel_slot *slot,
                                     enum eps__estimate estimate, double eps, double *out);

/* ---- decisive.c ---- */

/* Are no losses far under 0, all together, so that a large one decides alone? */
bool eps__large_losses_decide(const struct eps__steps *steps);
/* Would a refinement make its grid finer? */
bool eps__decisive_refines(const struct eps__composition *c);
/* Composes what does not, around eps >= 0, into a slot; log_delta: about ln delta(eps). */
enum eps_status eps__answer_decisive(const struct eps__composition *c, struct eps__panel_slot *slot,
                                     enum eps__estimate estimate, double eps, double log_delta);

#endif
