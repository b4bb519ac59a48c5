/*
 * Draws under b-min-sep sampling with truncated batches (BMS appendix D), for the adjacency zero_out. The number r_i of
 * other examples that are drawn at step i is taken to be public. If they fill the batch (r_i >= B), the example, once
 * drawn, is kept with probability s_i = B/(r_i + 1) and displaces another one: its row is 2 under P and -1 under Q. If
 * not, it is kept for certain: 1 under P and 0 under Q. With R = N(0, sigma^2 I),
 *     P/R: f_i = (1-p) f_(i+1) + p e_i f_(i+b),    e_i = N(c_i)/N(0) if r_i < B, else s_i N(2 c_i)/N(0) + 1 - s_i,
 *     Q/R: g_i = (1-p) g_(i+1) + p d_i g_(i+b),    d_i = 1 if r_i < B,           else s_i N(-c_i)/N(0) + 1 - s_i,
 * and P/Q is their quotient (A37, A38). An example that is drawn and then cut from the batch sits out as well.
 *
 * Every number has a separate exponent; drawing the r_i costs more than that.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <sleef.h>

#include "lib/accountants/monte_carlo/law.h"
#include "lib/accountants/monte_carlo/laws/columns.h"
#include "lib/accountants/monte_carlo/laws/scaled.h"
#include "lib/base/error.h"
#include "lib/numerics/bound.h"
#include "lib/sampling/counts.h"
#include "lib/sampling/scheme.h"

#define OPERATIONS 200.0 /* cost of a step of both recursions, in multiply-adds */
#define OUTWARDS 20.0    /* cost of drawing r_i, for each unit of its standard deviation */
#define SHIFT_MOST 2     /* the row of an example in a full batch, under P */

struct truncated_law {
    struct eps__mc_law base;
    struct eps__mc_columns columns;
    struct eps__b_min_sep_steps steps;
    double keep, log_p, others, limit;
};

/* The scratch space of draw(), divided up. */
struct work {
    double *y, *product;
    double *count;                      /* r_i, in row i; 0 if no batch can be full */
    struct eps__scaled *with, *without; /* f_i and g_i, in row i mod separation */
    struct eps__mc_steps steps;
};

static size_t scratch_of(const struct truncated_law *law)
{
    size_t ring = sizeof(struct eps__scaled) / sizeof(double) * law->steps.separation;
    return eps__mc_columns_scratch(&law->columns) +
           (law->columns.tile + law->steps.n + 2 * ring + eps__b_min_sep_steps_most(&law->steps)) * EPS__LANES;
}

static struct work work_of(const struct truncated_law *law, double *scratch)
{
    struct work work = {.y = scratch};
    work.product = work.y + eps__mc_columns_scratch(&law->columns);
    work.count = work.product + law->columns.tile * EPS__LANES;
    work.with = (void *)(work.count + law->steps.n * EPS__LANES);
    work.without = work.with + law->steps.separation * EPS__LANES;
    work.steps.slots = (void *)(work.without + law->steps.separation * EPS__LANES);
    work.steps.most = eps__b_min_sep_steps_most(&law->steps);
    return work;
}

/* ------------------------------------------------------------ a draw */

/* Draws the counts of a lane, and the steps at which the example shifts the batch: by 1 or 2 for remove. For add, the
 * rows -1 are drawn as 1 and the sign of y is changed later (A38). */
static void draw_steps(struct work *work, const struct truncated_law *law, const struct eps__stream *stream,
                       uint32_t first, uint32_t lane)
{
    struct eps__participated *slots = work->steps.slots + lane * work->steps.most;
    size_t own = 2 * eps__b_min_sep_steps_most(&law->steps) + 4; /* uniform numbers that the example's steps use */
    size_t drawn = eps__b_min_sep_draw(slots, &law->steps, stream, first + lane), len = 0;
    bool remove = law->base.direction == EPS_REMOVE;
    double *count = work->count + lane;
    if (law->others >= law->limit)
        eps__b_min_sep_counts(count, EPS__LANES, &law->steps, law->others, stream, first + lane, own + law->steps.n);
    for (size_t i = 0; i < drawn; i++) {
        size_t step = slots[i].step;
        double r = count[step * EPS__LANES];
        bool full = r >= law->limit;
        bool in = !full || eps__uniform(stream, first + lane, own + step) * (r + 1) < law->limit;
        if (in && (full || remove))
            slots[len++] = (struct eps__participated){(uint32_t)step, full && remove ? SHIFT_MOST : 1};
    }
    work->steps.len[lane] = len;
}

/* now <- keep after + factor now */
static void step_back(struct eps__scaled *now, const struct eps__scaled *after, double keep, struct eps__scaled factor)
{
    *now = eps__scaled_add(eps__scaled_by(keep, *after), eps__scaled_times(factor, *now));
}

static void recur(const struct truncated_law *law, const struct work *work, size_t from, size_t end)
{
    size_t separation = law->steps.separation;
    double p = law->steps.p, sign = law->base.direction == EPS_REMOVE ? 1 : -1;
    for (size_t i = end; i-- > from;)
        for (size_t lane = 0; lane < EPS__LANES; lane++) {
            size_t now = i % separation * EPS__LANES + lane, after = (i + 1) % separation * EPS__LANES + lane;
            double r = work->count[i * EPS__LANES + lane], half = law->columns.half[i];
            double product = sign * work->product[(i - from) * EPS__LANES + lane];
            struct eps__scaled with, without;
            if (r < law->limit) {
                with = eps__scaled_exp(product - half + law->log_p);
                without = eps__scaled_of(p, 0);
            } else {
                double in = law->limit / (r + 1);
                struct eps__scaled out = eps__scaled_of(p * ((r + 1 - law->limit) / (r + 1)), 0);
                with = eps__scaled_add(eps__scaled_by(in, eps__scaled_exp(2 * product - 4 * half + law->log_p)), out);
                without = eps__scaled_add(eps__scaled_by(in, eps__scaled_exp(-product - half + law->log_p)), out);
            }
            step_back(&work->with[now], &work->with[after], law->keep, with);
            step_back(&work->without[now], &work->without[after], law->keep, without);
        }
}

/* ln of the mean of a recursion over the first step at which the example waits, up to a factor that is the same for
 * both recursions. */
static double log_mean(const struct truncated_law *law, const struct eps__scaled *ring, size_t lane)
{
    struct eps__scaled sum = ring[lane];
    for (size_t i = 1; law->steps.warm && i < law->steps.separation; i++)
        sum = eps__scaled_add(sum, eps__scaled_by(law->steps.p, ring[i * EPS__LANES + lane]));
    return eps__scaled_log(sum);
}

static void draw(const struct eps__mc_law *base, const struct eps__stream *stream, uint32_t first, double *scratch,
                 double *loss, double *log_weight)
{
    const struct truncated_law *law = (const struct truncated_law *)base;
    const struct eps__mc_columns *columns = &law->columns;
    struct work work = work_of(law, scratch);
    memset(work.count, 0, law->steps.n * EPS__LANES * sizeof *work.count);
    for (uint32_t lane = 0; lane < EPS__LANES; lane++)
        draw_steps(&work, law, stream, first, lane);
    for (size_t i = 0; i < law->steps.separation * EPS__LANES; i++)
        work.with[i] = work.without[i] = eps__scaled_of(1, 0);
    for (size_t end = columns->n, from; end > 0; end = from) {
        from = (end - 1) / columns->tile * columns->tile;
        if (eps__stream_stops(stream))
            return;
        eps__mc_columns_tile(work.y, columns, stream, first, &work.steps, from, end);
        eps__correlate_lanes(work.product, work.y, columns->entries + from * columns->stride, columns->stride,
                             columns->width, end - from);
        recur(law, &work, from, end);
    }
    for (size_t lane = 0; lane < EPS__LANES; lane++) {
        double ratio = log_mean(law, work.with, lane) - log_mean(law, work.without, lane);
        loss[lane] = base->direction == EPS_REMOVE ? ratio : -ratio;
        log_weight[lane] = 0;
    }
}

/* ------------------------------------------------------------ the class */

static bool concerns(const struct eps_mechanism *mechanism)
{
    return eps__scheme_of(mechanism)->min_separation && mechanism->sampling.truncation;
}

static bool serves(const struct eps__setting *setting, struct eps_error *error)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    const struct eps_sampling *sampling = &mechanism->sampling;
    if (!eps__adjacency_known(error, "monte_carlo, for truncated batches of b_min_sep,", 1u << EPS_ADJACENCY_ZERO_OUT,
                              mechanism->adjacency))
        return false;
    if (sampling->examples_per_user > 1)
        return eps__decline(
            error, "/sampling/examples_per_user",
            "monte_carlo serves truncated batches with one example per user; leave examples_per_user out");
    if ((double)sampling->dataset_size > EPS__OTHERS_MAX)
        return eps__decline(error, "/sampling/dataset_size",
                            "monte_carlo serves truncated batches with at most 2^40 examples");
    if (!eps__strategy_lower_triangular(setting->strategy) ||
        eps__strategy_blocks(setting->strategy).shape == EPS__SHAPE_TREE)
        return eps__decline(error, "/matrix", "monte_carlo needs a lower-triangular strategy under b_min_sep");
    if (eps_strategy_bands(setting->strategy) > sampling->separation)
        return eps__decline(error, "/sampling/separation",
                            "monte_carlo serves truncated batches if the separation is at least the number of bands of "
                            "the strategy; raise the separation or use fewer bands");
    return true;
}

/* The counts r_i are not really public, so the bound is not attained unless no batch can be full. */
static bool exact(const struct eps__setting *setting)
{
    const struct eps_sampling *sampling = &setting->job->mechanism.sampling;
    return sampling->max_batch_size >= sampling->dataset_size;
}

static void cost(const struct eps__setting *setting, double *operations, double *bytes)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    const struct eps_sampling *sampling = &mechanism->sampling;
    double n = (double)mechanism->n, bands = (double)eps_strategy_bands(setting->strategy);
    bool alike = eps__strategy_blocks(setting->strategy).shape == EPS__SHAPE_TOEPLITZ;
    *operations = n * (bands + OPERATIONS + OUTWARDS * sqrt((double)sampling->dataset_size * setting->p));
    *bytes =
        8 * (n * (alike ? 2 : bands + 1) + EPS__LANES * (6.0 * (double)sampling->separation + 2 * bands + 200 + 2 * n));
}

static void assume(struct eps__sentences *list, const struct eps__setting *setting)
{
    (void)setting;
    eps__sentence(list,
                  "the number of other examples that are drawn at each step, before a batch is cut, may be public; an "
                  "example that is drawn and cut from the batch sits out as if it were in it");
}

static void destroy(struct eps__mc_law *base)
{
    struct truncated_law *law = (struct truncated_law *)base;
    eps__mc_columns_clear(&law->columns);
    free(law);
}

/* A38: the sum over the two recursions, each as in A26. */
static double error_of(const struct truncated_law *law)
{
    const struct eps__b_min_sep_steps *steps = &law->steps;
    double n = (double)steps->n, starts = (double)eps__b_min_sep_steps_most(steps);
    double log_keep = steps->p < 1 ? fabs(steps->log_keep) : 0;
    double warm = steps->warm ? (double)steps->separation + 16 : 0;
    double units = n * (16 + 8 * log_keep) + starts * (1024 + 12 * fmax(-law->log_p, log_keep)) + warm;
    return eps__raise(2 * (units * EPS__UNIT_ROUNDOFF + starts * eps__mc_columns_error(&law->columns, SHIFT_MOST)), 64);
}

static enum eps_status open_law(struct eps__mc_law **out, const struct eps__setting *setting,
                                const struct eps__mc_aim *aim)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    const struct eps_sampling *sampling = &mechanism->sampling;
    if (aim->tilted) /* no tilt is known, as Q is a mixture */
        return EPS_UNSUPPORTED;
    struct truncated_law *law = calloc(1, sizeof *law);
    if (!law)
        return EPS_NO_MEMORY;
    law->steps = (struct eps__b_min_sep_steps){.n = mechanism->n,
                                               .separation = sampling->separation,
                                               .p = setting->p,
                                               .examples = 1,
                                               .warm = sampling->warm_start};
    eps__b_min_sep_steps_fill(&law->steps);
    enum eps_status status = eps__mc_columns_make(&law->columns, setting, aim->sigma, sampling->separation, SHIFT_MOST);
    if (status != EPS_OK) {
        destroy(&law->base);
        return status;
    }
    law->keep = law->steps.p < 1 ? Sleef_cinz_expd1_u10purec(law->steps.log_keep) : 0;
    law->log_p = Sleef_cinz_logd1_u10purec(law->steps.p);
    law->others = (double)(sampling->dataset_size - 1);
    law->limit = (double)sampling->max_batch_size;
    law->base =
        (struct eps__mc_law){.class = &eps__mc_truncated, .direction = aim->direction, .loss_error = error_of(law)};
    law->base.scratch = scratch_of(law);
    double bytes;
    cost(setting, &law->base.operations, &bytes);
    law->base.operations *= EPS__LANES;
    *out = &law->base;
    return EPS_OK;
}

const struct eps__mc_law_class eps__mc_truncated = {.concerns = concerns,
                                                    .serves = serves,
                                                    .exact = exact,
                                                    .cost = cost,
                                                    .assume = assume,
                                                    .open = open_law,
                                                    .draw = draw,
                                                    .destroy = destroy};
