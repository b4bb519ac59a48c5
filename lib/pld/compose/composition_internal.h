/*
 * Shared by the files of a composition: composition.c keeps panels and answers from them, resolution.c chooses how fine
 * they are, panels.c builds them, levels.c builds those of many steps, expansion_panels.c those of an expansion,
 * decisive.c those of decisive losses.
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
    struct eps__panel *panels; /* delta is the sum over panels of e^log_count times the panel's, plus remainder */
    double *log_counts;
    double *bound_tilts, *bound_moments; /* an empty panel is replaced by e^(moment - tilt eps) */
    size_t panels_len;
    double remainder;
    double decisive_gain, decisive_log_some; /* decisive losses add gain - (e^eps - 1) some */
    struct eps__pld pld;                     /* if single: the PLD of the only step */
    enum eps__estimate estimate;
    double centre, below, above; /* serves centre - below <= eps <= centre + above */
    bool used, single;
};

struct eps__composition {
    const struct eps_context *context;
    struct eps__cache_use *cache_use;
    struct eps__accuracy accuracy;
    struct eps__steps steps;
    double ceiling;                  /* the largest loss of the sum, rounded up; INFINITY if there is none */
    double finer;                    /* product of all refinements */
    double seen_eps, seen_log_delta; /* the last upper bound; aims better where tails are heavy */
    struct eps__panel_slot slots[EPS__PANELS_MAX];
    size_t next_slot;
    struct eps__largest *largest; /* NULL until needed */
    bool bounded;                 /* delta is bounded within a factor of 2: panels are tried once */
    bool out_of_reach;            /* whether those panels were too costly */
};

/* ---- resolution.c: how fine, which proves nothing ---- */

/* Rounds the tilt to a coarse scale. Tilt, cut and spacing come from coarse scales, so that nearby queries about one
 * mechanism need the same step PLD, which the cache may hold. */
void eps__saddle_snap(const struct eps__steps *steps, struct eps__saddle *saddle);
/* The grid spacing at which the estimate's error is within its share of the tolerance. Splitting a cell's mass adds a
 * variance of width^2/6 to each step. That moves eps by half the variance times the density over the Q-tail, and ln
 * delta by half the variance times the density over delta. */
double eps__choose_spacing(const struct eps__composition *c, const struct eps__saddle *saddle,
                           enum eps__estimate estimate);
/* Fills in what the plans of all branches of a step have in common. */
void eps__plan_common(struct eps__pld_plan *plan, const struct eps__composition *c, const struct eps__step *step,
                      const struct eps__saddle *saddle, double spacing);
/* Fills in the range of z of one branch, and the part of it that matters. */
void eps__plan_range(struct eps__pld_plan *plan, const struct eps__quadrature *quadrature,
                     const struct eps__saddle *saddle);
/* Adapts the plan to an expansion. The importance of a jump is at most f / delta: the other steps can turn it into 1 at
 * most. The tilted density is raised so that it reaches this at the cut, which is enough for the losses below. The
 * density of the cores decides where a cell is one spacing wide. */
void eps__plan_expansion(struct eps__pld_plan *plan, const struct eps__composition *c,
                         const struct eps__expansion *expansion);
/* The tilted mass that may lie outside the window at each end: small compared with delta in the same units. */
double eps__tail_mass(const struct eps__saddle *saddle, double tolerance);

/* As eps__choose_spacing(), for the panels of an expansion. */
double eps__expansion_spacing(const struct eps__composition *c, const struct eps__expansion *expansion, double eps,
                              enum eps__estimate estimate);
/* The least tilt at which one panel for the whole composition, instead of one for each term of an expansion, keeps the
 * digits of delta despite its rounding. Out: *saddle, at that tilt. Returns false if there is none. */
bool eps__flat_tilt(const struct eps__composition *c, const struct eps__expansion *expansion, double eps,
                    struct eps__saddle *saddle);
/* The longest transform allowed. */
size_t eps__max_length(const struct eps__composition *c);
/* The plan of the composition of all steps on one grid. */
struct eps__compose_plan eps__plan_compose(const struct eps__composition *c, const struct eps__saddle *saddle);

/* ---- panels.c ---- */

/* Frees what the slot holds, but keeps its estimate, centre and reach. */
void eps__slot_release(struct eps__panel_slot *slot);
void eps__slot_clear(struct eps__panel_slot *slot);
/* Allocates room for len panels. Returns false if out of memory. */
bool eps__slot_reserve(struct eps__panel_slot *slot, size_t len);
/* The PLD of a step of class k, for one tilt and spacing, and for an expansion or NULL. Out: *built, to be cleared in
 * every case. */
enum eps_status eps__build_step(const struct eps__composition *c, struct eps__pld *built, size_t k,
                                enum eps__estimate estimate, const struct eps__saddle *saddle,
                                const struct eps__expansion *expansion, double spacing);
/* The PLDs of all classes. Out: one element of `built` for each class, to be cleared in every case. */
enum eps_status eps__build_steps(const struct eps__composition *c, struct eps__pld *built, enum eps__estimate estimate,
                                 const struct eps__saddle *saddle, const struct eps__expansion *expansion,
                                 double spacing);
/* ln of a Chernoff bound on delta, E[(1 - e^{eps - L})_+] <= e^{K(t) - t eps}: at the least tilt at which it is at most
 * `enough`, or at the best tilt if there is none. Uses no transform and a coarse grid. */
enum eps_status eps__chernoff_log_delta(const struct eps__composition *c, double eps, double enough, double *out);
/* Composes around the saddle's epsilon into a slot that was released. */
enum eps_status eps__compose_slot(const struct eps__composition *c, struct eps__panel_slot *slot,
                                  const struct eps__saddle *saddle, double spacing);
/* ln of the slot's bound on delta(eps). */
double eps__slot_log_delta(const struct eps__panel_slot *slot, double eps);

/* ---- levels.c ---- */

/* The number of levels, >= 1, in which the steps are composed at the least cost. */
size_t eps__levels(const struct eps__composition *c, const struct eps__saddle *saddle, double spacing);
/* Composes in `len` >= 2 levels; `spacing` is that for a single level. Out: *panel. */
enum eps_status eps__compose_levels(const struct eps__composition *c, struct eps__panel *panel, size_t len,
                                    enum eps__estimate estimate, const struct eps__saddle *saddle, double spacing,
                                    const struct eps__compose_plan *plan);

/* ---- expansion_panels.c ---- */

/* Whether a single tilt is bad for the whole composition. */
bool eps__rare_jumps(const struct eps__composition *c, const struct eps__saddle *saddle);
/* Answers by an expansion. If its saddle points were far off, tries another one that is aimed by the first one's bound,
 * as long as this improves the bound; all of them are valid. */
enum eps_status eps__answer_expanded(struct eps__composition *c, struct eps__panel_slot *slot,
                                     enum eps__estimate estimate, double eps, double *out);

/* ---- decisive.c ---- */

/* Whether all losses together cannot be far below 0, so that a single large loss decides. */
bool eps__large_losses_decide(const struct eps__steps *steps);
/* Whether a refinement would make the grid finer. */
bool eps__decisive_refines(const struct eps__composition *c);
/* Counts decisive losses, and composes the others, around eps >= 0 into a slot. log_delta: about ln delta(eps). */
enum eps_status eps__answer_decisive(const struct eps__composition *c, struct eps__panel_slot *slot,
                                     enum eps__estimate estimate, double eps, double log_delta);

#endif
