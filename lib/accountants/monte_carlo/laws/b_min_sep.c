/*
 * Draws under b-min-sep sampling (BMS section 5; for several examples of one user: section 6.2). A draw is y = C x + z,
 * and P/Q is computed by a recursion backward in time,
 *     f_i = (1-p)^k f_(i+1) + sum over j = 1..k of Binom(k,p)(j) N(j c_i)/N(0) f_(i+b),    f_i = 1 for i >= n,
 * where k is the number of examples of the user and b the separation. From a cold start P/Q = f_0; from a warm start it
 * is the mean of f_i over the first step i at which the user does not sit out.
 *
 * If the separation is less than the strategy's bands, the recursion with whole columns gives an upper bound on P/Q
 * (A39), which serves remove; add uses b_min_sep_minorant.h.
 *
 * The recursion uses plain numbers that are scaled by powers of two, not logarithms. If a number leaves the range in
 * which no precision is lost, the recursion runs again with a separate exponent for each number (A26).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <sleef.h>

#include "lib/accountants/monte_carlo/law.h"
#include "lib/accountants/monte_carlo/laws/b_min_sep_copies.h"
#include "lib/accountants/monte_carlo/laws/b_min_sep_drift.h"
#include "lib/accountants/monte_carlo/laws/b_min_sep_minorant.h"
#include "lib/accountants/monte_carlo/laws/columns.h"
#include "lib/accountants/monte_carlo/laws/scaled.h"
#include "lib/base/error.h"
#include "lib/numerics/bound.h"
#include "lib/sampling/scheme.h"

#define SCALE 300           /* a lane with a number above 2^SCALE is divided by 2^SCALE */
#define LARGEST 0x1p600     /* the largest number that a step may produce */
#define RING_LEAST 0x1p-900 /* the least number of a lane that may be left after scaling */
#define OPERATIONS 40.0     /* cost of a normal, an exponential and a step of the recursion, in multiply-adds */

struct b_min_sep_law {
    struct eps__mc_law base;
    struct eps__mc_columns columns;
    struct eps__b_min_sep_steps steps;
    double keep;                            /* (1-p)^k; 0 if it underflows */
    struct eps__scaled scaled_keep;         /* (1-p)^k */
    struct eps__mc_b_min_sep_drift drift;   /* add, tilted */
    struct eps__mc_b_min_sep_copies copies; /* remove, tilted */
};

/* The scratch space of draw(), divided up. */
struct work {
    double *y, *factor;
    double *ring;           /* f_i in row i mod separation */
    double *exponent;       /* binary exponents of the ring's numbers */
    double dot[EPS__LANES]; /* <drift, y> */
    struct eps__mc_steps steps;
};

/* The most participations of one lane. */
static size_t slots_of(const struct b_min_sep_law *law)
{
    return law->copies.draws ? law->copies.draws->most : eps__b_min_sep_steps_most(&law->steps);
}

static struct work work_of(const struct b_min_sep_law *law, double *scratch)
{
    struct work work = {.y = scratch};
    work.factor = work.y + eps__mc_columns_scratch(&law->columns);
    work.ring = work.factor + law->columns.tile * EPS__LANES;
    work.exponent = work.ring + law->steps.separation * EPS__LANES;
    work.steps.slots = (void *)(work.exponent + law->steps.separation * EPS__LANES);
    work.steps.most = slots_of(law);
    return work;
}

static size_t scratch_of(const struct b_min_sep_law *law)
{
    return eps__mc_columns_scratch(&law->columns) +
           (law->columns.tile + 2 * law->steps.separation + slots_of(law)) * EPS__LANES;
}

/* The exponent of the factor of step i for j examples together, computed as in eps__mixture_lanes(). */
static double exponent_of(const struct b_min_sep_law *law, size_t i, double product, unsigned j)
{
    return (j * product - (double)j * j * law->columns.half[i]) + law->steps.log_pick[j - 1];
}

/* ------------------------------------------------------------ the recursion in plain numbers */

/* Divides the lane by 2^SCALE. False if a number becomes too small. */
static bool scale_down(double *ring, size_t separation, size_t lane, double *exponent)
{
    bool safe = true;
    for (size_t i = 0; i < separation; i++) {
        ring[i * EPS__LANES + lane] *= 0x1p-300;
        safe &= ring[i * EPS__LANES + lane] >= RING_LEAST;
    }
    exponent[lane] += SCALE;
    return safe;
}

/* The steps of a tile from the factors sum_j Binom(k,p)(j) N(j c_i)/N(0). False if a number leaves the range. */
static bool recur(const struct b_min_sep_law *law, const double *factor, double *ring, double *exponent, size_t from,
                  size_t end)
{
    size_t separation = law->steps.separation;
    while ((end = eps__recur_lanes(ring, separation, factor, law->keep, from, end)) != SIZE_MAX) {
        const double *now = ring + end % separation * EPS__LANES;
        for (size_t lane = 0; lane < EPS__LANES; lane++)
            if (!(now[lane] >= EPS__RECUR_LEAST && now[lane] <= LARGEST) ||
                (now[lane] > EPS__RECUR_MOST && !scale_down(ring, separation, lane, exponent)))
                return false;
    }
    return true;
}

/* ------------------------------------------------------------ the recursion with separate exponents */

/* The same steps from the products <h_i, y> instead of the factors. */
static void recur_scaled(const struct b_min_sep_law *law, const double *product, double *ring, double *exponent,
                         size_t from, size_t end)
{
    size_t separation = law->steps.separation;
    for (size_t i = end; i-- > from;)
        for (size_t lane = 0; lane < EPS__LANES; lane++) {
            size_t now = i % separation * EPS__LANES + lane, after = (i + 1) % separation * EPS__LANES + lane;
            struct eps__scaled factor = {0, -INFINITY};
            for (unsigned j = 1; j <= law->steps.examples; j++)
                factor = eps__scaled_add(
                    factor, eps__scaled_exp(exponent_of(law, i, product[(i - from) * EPS__LANES + lane], j)));
            struct eps__scaled sum =
                eps__scaled_add(eps__scaled_times(law->scaled_keep, (struct eps__scaled){ring[after], exponent[after]}),
                                eps__scaled_of(factor.mantissa * ring[now], factor.exponent + exponent[now]));
            ring[now] = sum.mantissa;
            exponent[now] = sum.exponent;
        }
}

/* ------------------------------------------------------------ a draw */

/* The losses from the final ring. exponent: one row for all, or, if scaled, one row for each row of the ring. */
static void finish(const struct b_min_sep_law *law, const double *ring, const double *exponent, bool scaled,
                   double *loss)
{
    const struct eps__b_min_sep_steps *steps = &law->steps;
    double sign = law->base.direction == EPS_REMOVE ? 1 : -1;
    for (size_t lane = 0; lane < EPS__LANES; lane++) {
        struct eps__scaled sum = {0, -INFINITY};
        double waits = steps->warm ? 1 / (1 + (double)(steps->separation - 1) * steps->p) : 1;
        for (size_t i = 0; i < (steps->warm ? steps->separation : 1); i++) {
            size_t at = i * EPS__LANES + lane;
            sum = eps__scaled_add(sum, eps__scaled_of(ring[at] * (i > 0 ? steps->p : 1), exponent[scaled ? at : lane]));
        }
        double log_ratio = Sleef_cinz_logd1_u10purec(sum.mantissa * waits) + sum.exponent * M_LN2;
        loss[lane] = sign * log_ratio;
    }
}

/* Draws the participations in y: none for add, those of all copies if tilted. */
static void draw_steps(const struct b_min_sep_law *law, const struct eps__stream *stream, uint32_t first,
                       struct eps__mc_steps *steps)
{
    memset(steps->len, 0, sizeof steps->len);
    if (law->base.direction == EPS_ADD)
        return;
    if (!law->copies.draws)
        eps__b_min_sep_draw_lanes(steps->slots, steps->most, steps->len, &law->steps, stream, first);
    for (uint32_t lane = 0; law->copies.draws && lane < EPS__LANES; lane++)
        steps->len[lane] =
            eps__b_min_sep_draws_next(steps->slots + lane * steps->most, law->copies.draws, stream, first + lane);
}

/* Draws y tile by tile and computes the losses. scaled: with separate exponents. False if a number leaves the range. */
static bool run(const struct b_min_sep_law *law, const struct eps__stream *stream, uint32_t first, struct work *work,
                bool scaled, double *loss)
{
    const struct eps__mc_columns *columns = &law->columns;
    size_t n = columns->n, tile = columns->tile, separation = law->steps.separation;
    bool safe = true;
    draw_steps(law, stream, first, &work->steps);
    for (size_t i = 0; i < separation * EPS__LANES; i++) {
        work->ring[i] = scaled ? 0.5 : 1;
        work->exponent[i] = scaled ? 1 : 0;
    }
    memset(work->dot, 0, sizeof work->dot);
    for (size_t end = n, from; safe && end > 0; end = from) {
        from = (end - 1) / tile * tile;
        if (eps__stream_stops(stream))
            return true;
        eps__mc_columns_tile(work->y, columns, stream, first, &work->steps, from, end);
        if (columns->drift)
            eps__mc_b_min_sep_drift_add(work->dot, columns, work->y, from, end);
        eps__mc_columns_correlate(work->factor, work->y, columns, from, end);
        if (scaled) {
            recur_scaled(law, work->factor, work->ring, work->exponent, from, end);
        } else {
            eps__mixture_lanes(work->factor, columns->half + from, law->steps.log_pick, law->steps.examples,
                               end - from);
            safe = recur(law, work->factor, work->ring, work->exponent, from, end);
        }
    }
    if (safe)
        finish(law, work->ring, work->exponent, scaled, loss);
    return safe;
}

static void draw(const struct eps__mc_law *base, const struct eps__stream *stream, uint32_t first, double *scratch,
                 double *loss, double *log_weight)
{
    const struct b_min_sep_law *law = (const struct b_min_sep_law *)base;
    struct work work = work_of(law, scratch);
    if (!run(law, stream, first, &work, false, loss))
        (void)run(law, stream, first, &work, true, loss);
    for (size_t lane = 0; lane < EPS__LANES; lane++)
        log_weight[lane] = law->columns.drift  ? law->drift.half - work.dot[lane]
                           : law->copies.draws ? eps__mc_copies_log_weight(&law->copies.of, loss[lane])
                                               : 0;
}

/* ------------------------------------------------------------ the class */

static bool concerns(const struct eps_mechanism *mechanism)
{
    return eps__scheme_of(mechanism)->min_separation && !mechanism->sampling.truncation;
}

static bool serves(const struct eps__setting *setting, struct eps_error *error)
{
    const struct eps_sampling *sampling = &setting->job->mechanism.sampling;
    if (sampling->examples_per_user > EPS__TOGETHER_MAX)
        return eps__decline(error, "/sampling/examples_per_user", "monte_carlo serves at most 64 examples per user");
    if (!eps__strategy_lower_triangular(setting->strategy) ||
        eps__strategy_blocks(setting->strategy).shape == EPS__SHAPE_TREE)
        return eps__decline(error, "/matrix", "monte_carlo needs a lower-triangular strategy under b_min_sep");
    return true;
}

/* Whether two participations of one user may share a row. */
static bool overlaps(const struct eps__setting *setting)
{
    return eps_strategy_bands(setting->strategy) > setting->job->mechanism.sampling.separation;
}

static bool exact(const struct eps__setting *setting)
{
    return !overlaps(setting);
}

static void assume(struct eps__sentences *list, const struct eps__setting *setting)
{
    if (overlaps(setting))
        eps__sentence(list,
                      "the separation is less than the strategy's bands, so the likelihood ratio is not computed but "
                      "bounded: from above by ignoring the overlap of columns, from below by a geometric mean");
}

static void cost(const struct eps__setting *setting, double *operations, double *bytes)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    double n = (double)mechanism->n, bands = (double)eps_strategy_bands(setting->strategy);
    bool alike = eps__strategy_blocks(setting->strategy).shape == EPS__SHAPE_TOEPLITZ;
    const struct eps__b_min_sep b_min_sep = {.banded = {.len = mechanism->n,
                                                        .width = (size_t)bands,
                                                        .p = setting->p,
                                                        .changes = alike ? (size_t)bands : mechanism->n},
                                             .separation = mechanism->sampling.separation,
                                             .examples = (unsigned)mechanism->sampling.examples_per_user,
                                             .warm = mechanism->sampling.warm_start};
    *operations = n * (eps__mc_columns_operations((size_t)bands, alike) + OPERATIONS +
                       20 * (double)mechanism->sampling.examples_per_user);
    *bytes = 8 * (n * (alike ? 2 : bands + 1) + EPS__LANES * (3.0 * (double)mechanism->sampling.separation +
                                                              eps__mc_columns_rows((size_t)bands, alike) + 200 + n)) +
             eps__mc_b_min_sep_copies_bytes(&b_min_sep);
}

static void destroy(struct eps__mc_law *base)
{
    struct b_min_sep_law *law = (struct b_min_sep_law *)base;
    if (base->class != &eps__mc_b_min_sep) {
        base->class->destroy(base);
        return;
    }
    eps__mc_columns_clear(&law->columns);
    eps__mc_b_min_sep_copies_clear(&law->copies);
    free(law);
}

/* Prepares the tilt. EPS_UNSUPPORTED: none is known, or none is better than plain draws. */
static enum eps_status tilt(struct b_min_sep_law *law, const struct eps_context *context, const struct eps__mc_aim *aim)
{
    if (law->columns.width > law->steps.separation)
        return EPS_UNSUPPORTED;
    if (aim->direction == EPS_REMOVE)
        return eps__mc_b_min_sep_copies_make(context, &law->copies, &law->columns, &law->steps, aim->eps,
                                             aim->operations);
    return eps__mc_b_min_sep_drift_make(&law->drift, &law->columns, &law->steps, aim->eps);
}

static double log_most(const struct eps__mc_law *base, double eps)
{
    const struct b_min_sep_law *law = (const struct b_min_sep_law *)base;
    if (!base->tilted)
        return 0;
    return base->direction == EPS_ADD ? eps__mc_b_min_sep_drift_most(&law->drift, eps, base->loss_error)
                                      : eps__mc_copies_most(&law->copies.of, eps, base->loss_error);
}

/* A26: the relative error of a sum of products is at most that of its longest product. */
static double error_of(const struct b_min_sep_law *law)
{
    const struct eps__b_min_sep_steps *steps = &law->steps;
    double n = (double)steps->n, starts = (double)eps__b_min_sep_steps_most(steps), examples = steps->examples;
    double log_keep = steps->p < 1 ? fabs(steps->log_keep) : 0; /* no factor 1 - p if p = 1 */
    double log_pick = fmax(-examples * Sleef_cinz_logd1_u10purec(steps->p), log_keep);
    double warm = steps->warm ? (double)steps->separation + 16 : 0;
    double units = n * (16 + 8 * log_keep) + starts * (1024 + 12 * log_pick) + warm;
    return eps__raise(units * EPS__UNIT_ROUNDOFF + starts * eps__mc_columns_error(&law->columns, steps->examples), 64);
}

static enum eps_status open_law(struct eps__mc_law **out, const struct eps__setting *setting,
                                const struct eps__mc_aim *aim)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    const struct eps_sampling *sampling = &mechanism->sampling;
    struct b_min_sep_law *law = calloc(1, sizeof *law);
    if (!law)
        return EPS_NO_MEMORY;
    law->base.class = &eps__mc_b_min_sep;
    law->steps = (struct eps__b_min_sep_steps){.n = mechanism->n,
                                               .separation = sampling->separation,
                                               .p = setting->p,
                                               .examples = (unsigned)sampling->examples_per_user,
                                               .warm = sampling->warm_start};
    eps__b_min_sep_steps_fill(&law->steps);
    bool copies = aim->tilted && aim->direction == EPS_REMOVE; /* of the example; each counts like an example */
    enum eps_status status = eps__mc_columns_make(&law->columns, setting, aim->sigma, sampling->separation,
                                                  copies ? EPS__B_MIN_SEP_DRAWN_MAX : law->steps.examples);
    if (status == EPS_OK && !aim->tilted && overlaps(setting) && aim->direction == EPS_ADD) {
        status = eps__mc_b_min_sep_minorant(out, setting->context, &law->columns, &law->steps); /* A40 */
        destroy(&law->base);
        return status;
    }
    if (status == EPS_OK && aim->tilted)
        status = tilt(law, setting->context, aim);
    if (status != EPS_OK) {
        destroy(&law->base);
        return status;
    }
    law->keep = law->steps.p < 1 ? Sleef_cinz_expd1_u10purec(law->steps.log_keep) : 0;
    law->scaled_keep = law->steps.p < 1 ? eps__scaled_exp(law->steps.log_keep) : (struct eps__scaled){0, -INFINITY};
    law->base = (struct eps__mc_law){.class = &eps__mc_b_min_sep, .direction = aim->direction, .tilted = aim->tilted};
    law->base.loss_error = error_of(law);
    law->base.order = law->copies.of.order;
    if (aim->tilted)
        law->base.log_weight_error =
            copies ? eps__mc_copies_error(&law->copies.of, law->base.loss_error) : law->drift.log_weight_error;
    law->base.scratch = scratch_of(law);
    double bytes;
    cost(setting, &law->base.operations, &bytes);
    law->base.operations *= EPS__LANES;
    *out = &law->base;
    return EPS_OK;
}

const struct eps__mc_law_class eps__mc_b_min_sep = {.concerns = concerns,
                                                    .serves = serves,
                                                    .exact = exact,
                                                    .cost = cost,
                                                    .assume = assume,
                                                    .open = open_law,
                                                    .draw = draw,
                                                    .log_most = log_most,
                                                    .destroy = destroy};
