/*
 * Draws under Poisson and cyclic Poisson sampling, for strategies with few bands. Let c_k be the column of the
 * example's round k over sigma, G_kj = <c_k, c_j>, and x_k = 1 if the example takes part in round k, else 0. Then y =
 * sum_k x_k c_k + z, and
 *     P/Q = E_x exp(sum over k of x_k (<c_k, y> - G_kk/2 - sum over j < k of x_j G_kj)).
 * Only the m rounds before round k share rows with it. With the state s = (x_(k-1), .., x_(k-m)) this gives a recursion
 * backward in time over 2^m states (A33),
 *     f_k(s) = (1-p) f_(k+1)(s, 0) + p exp(<c_k, y> - G_kk/2) exp(-sum_d s_d G_k,k-d) f_(k+1)(s, 1),    P/Q = f_0(0).
 * Under cyclic Poisson sampling the rounds are those of the first part of the data set, which is the worst (A35).
 *
 * The recursion uses plain numbers that are scaled by powers of two. If a number leaves the range in which no precision
 * is lost, the recursion runs again with a separate exponent for each number (A34).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/monte_carlo/laws/poisson.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/accountants/monte_carlo/laws/histories_copies.h"
#include "lib/accountants/monte_carlo/laws/poisson_rounds.h"
#include "lib/accountants/monte_carlo/laws/scaled.h"
#include "lib/base/error.h"
#include "lib/numerics/bound.h"
#include "lib/numerics/sum.h"
#include "lib/sampling/sampling.h"

#define SCALE 200       /* a lane whose first state is above 2^SCALE or below 2^-SCALE is scaled by it */
#define LARGE 0x1p200   /* 2^SCALE */
#define LARGEST 0x1p500 /* the range of plain numbers after a step */
#define LEAST 0x1p-600
#define EXPONENT_MOST 600.0 /* plain numbers are used if weights are at least e^-EXPONENT_MOST */
#define OPERATIONS 60.0     /* cost of a normal and an exponential, in multiply-adds */

struct poisson_law {
    struct eps__mc_law base;
    struct eps__mc_poisson_rounds rounds;   /* with a drift if tilted for add */
    double *parted;                         /* e^-met */
    bool in_range;                          /* weights are large enough for plain numbers */
    double *gram;                           /* tilted for remove: of all rounds, see struct eps__banded_gram; */
    struct eps__mc_histories_copies copies; /* the tilt, whose steps are the rounds */
};

/* The scratch space of draw(), divided up. exponents and weight_exponent are used only with separate exponents. */
struct work {
    double *y, *states[2], *exponents[2], *weight, *weight_exponent;
    double *scale; /* the common binary exponent of a lane's states */
    double *own;   /* <c_k, y> - G_kk/2, or its exponential */
    struct eps__mc_steps steps;
    size_t row; /* the row of `parted` or `met` that the weights belong to */
};

static size_t states_of(const struct poisson_law *law)
{
    return (size_t)1 << law->rounds.memory;
}

static size_t scratch_of(const struct poisson_law *law)
{
    size_t states = states_of(law), slots = eps__b_min_sep_steps_most(&law->rounds.coins);
    return eps__mc_columns_scratch(&law->rounds.columns) + (4 * states + 2 + slots) * EPS__LANES + 2 * states;
}

static struct work work_of(const struct poisson_law *law, double *scratch)
{
    size_t states = states_of(law);
    struct work work = {.y = scratch, .row = law->rounds.rows};
    double *at = scratch + eps__mc_columns_scratch(&law->rounds.columns);
    for (int i = 0; i < 2; i++, at += 2 * states * EPS__LANES) {
        work.states[i] = at;
        work.exponents[i] = at + states * EPS__LANES;
    }
    work.scale = at;
    work.own = at + EPS__LANES;
    work.weight = at + 2 * (size_t)EPS__LANES;
    work.weight_exponent = work.weight + states;
    work.steps.slots = (void *)(work.weight_exponent + states);
    work.steps.most = eps__b_min_sep_steps_most(&law->rounds.coins);
    return work;
}

/* ------------------------------------------------------------ the recursion in plain numbers */

/* weight[s] = p exp(-sum_d s_d G_k,k-d) for all s, where s_d is bit d - 1 of s. */
static void make_weights(const struct poisson_law *law, struct work *work, size_t row)
{
    const double *parted = law->parted + row * law->rounds.memory;
    if (work->row == row)
        return;
    work->row = row;
    work->weight[0] = law->rounds.coins.p;
    for (size_t d = 0; d < law->rounds.memory; d++)
        for (size_t s = 0, bit = (size_t)1 << d; s < bit; s++)
            work->weight[s + bit] = work->weight[s] * parted[d];
}

/* Scales a lane back into the middle of the range. False if it has left the range. */
static bool rescale(double *values, size_t states, size_t lane, double *scale)
{
    double most = values[lane], *least = &values[(states - 1) * EPS__LANES + lane];
    if (!(*least >= LEAST && most <= LARGEST && most >= 1 / LARGEST))
        return false;
    double by = most > LARGE ? 1 / LARGE : most < 1 / LARGE ? LARGE : 1;
    if (by == 1)
        return true;
    for (size_t s = 0; s < states; s++)
        values[s * EPS__LANES + lane] *= by;
    scale[lane] += by < 1 ? SCALE : -SCALE;
    return *least >= LEAST;
}

/* Whether all lanes are in range, after scaling those that need it. The first state is the largest, the last one the
 * smallest (A34). */
static bool in_range(double *values, size_t states, double *scale)
{
    const double *most = values, *least = values + (states - 1) * EPS__LANES;
    bool beyond = false, safe = true;
    for (size_t lane = 0; lane < EPS__LANES; lane++)
        beyond |= !(least[lane] >= LEAST && most[lane] <= LARGE && most[lane] >= 1 / LARGE);
    for (size_t lane = 0; beyond && safe && lane < EPS__LANES; lane++)
        safe = rescale(values, states, lane, scale);
    return safe;
}

/* ------------------------------------------------------------ the recursion with separate exponents */

static void make_scaled_weights(const struct poisson_law *law, struct work *work, size_t row)
{
    struct eps__scaled first = eps__scaled_of(law->rounds.coins.p, 0);
    if (work->row == row)
        return;
    work->row = row;
    work->weight[0] = first.mantissa;
    work->weight_exponent[0] = first.exponent;
    for (size_t d = 0; d < law->rounds.memory; d++) {
        struct eps__scaled parted = eps__scaled_exp(-law->rounds.met[row * law->rounds.memory + d]);
        for (size_t s = 0, bit = (size_t)1 << d; s < bit; s++) {
            struct eps__scaled before = {work->weight[s], work->weight_exponent[s]};
            struct eps__scaled both = eps__scaled_times(before, parted);
            work->weight[s + bit] = both.mantissa;
            work->weight_exponent[s + bit] = both.exponent;
        }
    }
}

/* Like step(), with own = <c_k, y> - G_kk/2. */
static void step_scaled(const struct poisson_law *law, struct work *work, int into)
{
    size_t states = states_of(law);
    for (size_t lane = 0; lane < EPS__LANES; lane++) {
        struct eps__scaled own = eps__scaled_exp(work->own[lane]), keep = eps__scaled_of(law->rounds.keep, 0);
        for (size_t s = 0; s < states; s++) {
            size_t none = 2 * s % states * EPS__LANES + lane, taken = none + EPS__LANES, at = s * EPS__LANES + lane;
            struct eps__scaled left = {work->states[!into][none], work->exponents[!into][none]};
            struct eps__scaled term = {work->states[!into][taken], work->exponents[!into][taken]};
            struct eps__scaled weight = {work->weight[s], work->weight_exponent[s]};
            term = eps__scaled_times(eps__scaled_times(own, term), weight);
            struct eps__scaled sum = eps__scaled_add(eps__scaled_times(keep, left), term);
            work->states[into][at] = sum.mantissa;
            work->exponents[into][at] = sum.exponent;
        }
    }
}

/* ------------------------------------------------------------ a draw */

/* Draws the steps in which the example of a lane takes part, or its copies if tilted; none for add. */
static void draw_steps(const struct poisson_law *law, const struct eps__stream *stream, uint32_t draw,
                       struct work *work, uint32_t lane)
{
    struct eps__participated *slots = work->steps.slots + lane * work->steps.most;
    size_t len = law->base.direction == EPS_ADD ? 0
                 : law->copies.draws            ? eps__histories_draws_next(slots, law->copies.draws, stream, draw)
                                                : eps__b_min_sep_draw(slots, &law->rounds.coins, stream, draw);
    assert(len <= work->steps.most);
    for (size_t i = 0; i < len; i++)
        slots[i].step *= (uint32_t)law->rounds.groups;
    work->steps.len[lane] = len;
}

/* Draws y and computes the losses. scaled: with separate exponents. False if a number leaves the range. */
static bool run(const struct poisson_law *law, const struct eps__stream *stream, uint32_t first, double *scratch,
                bool scaled, double *loss, double *log_weight)
{
    struct work work = work_of(law, scratch);
    size_t n = law->rounds.columns.n, tile = law->rounds.columns.tile, states = states_of(law);
    int at = 0;
    bool safe = true;
    for (uint32_t lane = 0; lane < EPS__LANES; lane++) {
        draw_steps(law, stream, first + lane, &work, lane);
        work.scale[lane] = 0;
        log_weight[lane] = law->rounds.log_base;
    }
    for (size_t i = 0; i < states * EPS__LANES; i++) {
        work.states[at][i] = scaled ? 0.5 : 1;
        work.exponents[at][i] = scaled ? 1 : 0;
    }
    for (size_t end = n, from; safe && end > 0; end = from) {
        from = (end - 1) / tile * tile;
        if (eps__stream_stops(stream))
            return true;
        eps__mc_columns_tile(work.y, &law->rounds.columns, stream, first, &work.steps, from, end);
        eps__mc_poisson_add_weights(log_weight, &law->rounds, work.y, from, end);
        for (size_t k = eps__mc_poisson_rounds_before(&law->rounds, end);
             safe && k-- > eps__mc_poisson_rounds_before(&law->rounds, from); at = !at) {
            eps__mc_poisson_own(work.own, &law->rounds, work.y, k * law->rounds.groups, from);
            if (scaled) {
                make_scaled_weights(law, &work, eps__mc_poisson_row(&law->rounds, k));
                step_scaled(law, &work, !at);
                continue;
            }
            make_weights(law, &work, eps__mc_poisson_row(&law->rounds, k));
            eps__exp_lanes(work.own, 1);
            eps__coins_lanes(work.states[!at], work.states[at], work.weight, states, law->rounds.keep, work.own);
            safe = in_range(work.states[!at], states, work.scale);
        }
    }
    double sign = law->base.direction == EPS_REMOVE ? 1 : -1;
    for (size_t lane = 0; safe && lane < EPS__LANES; lane++) {
        double exponent = scaled ? work.exponents[at][lane] : work.scale[lane];
        loss[lane] = sign * eps__scaled_log(eps__scaled_of(work.states[at][lane], exponent));
    }
    return safe;
}

static void draw(const struct eps__mc_law *base, const struct eps__stream *stream, uint32_t first, double *scratch,
                 double *loss, double *log_weight)
{
    const struct poisson_law *law = (const struct poisson_law *)base;
    if (!law->in_range || !run(law, stream, first, scratch, false, loss, log_weight))
        (void)run(law, stream, first, scratch, true, loss, log_weight);
    for (size_t lane = 0; law->copies.draws && lane < EPS__LANES; lane++)
        log_weight[lane] = eps__mc_copies_log_weight(&law->copies.of, loss[lane]);
}

void eps__mc_poisson_exponents(const struct eps__mc_law *law, const struct eps__stream *stream, uint32_t first,
                               double *scratch, double *loss)
{
    double log_weight[EPS__LANES];
    (void)run((const struct poisson_law *)law, stream, first, scratch, true, loss, log_weight);
}

/* ------------------------------------------------------------ the law */

static bool exact(const struct eps__setting *setting)
{
    (void)setting;
    return true;
}

static void cost(const struct eps__setting *setting, double *operations, double *bytes)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    double n = (double)mechanism->n, bands = (double)eps_strategy_bands(setting->strategy);
    size_t memory = eps__mc_poisson_memory(setting);
    double rounds = ceil(n / (double)eps__sampling_groups(mechanism)), states = ldexp(1, (int)memory);
    bool alike = eps__strategy_blocks(setting->strategy).shape == EPS__SHAPE_TOEPLITZ;
    *operations = n * OPERATIONS + rounds * (bands + OPERATIONS + 2 * states);
    *bytes = 8 * ((alike ? n : n * bands) + 2 * (double)memory * (alike ? EPS__MC_POISSON_MEMORY_MAX : rounds) + n +
                  EPS__LANES * (4 * states + rounds + 2 * bands + 200));
    const struct eps__banded_gram banded = eps__mc_poisson_copies_of((size_t)rounds, memory, setting->p, alike);
    const struct eps__histories histories = {.banded = &banded, .separation = 1};
    *bytes += 8 * rounds * (double)banded.width + eps__mc_histories_copies_bytes(&histories);
}

static void destroy(struct eps__mc_law *base)
{
    struct poisson_law *law = (struct poisson_law *)base;
    eps__mc_poisson_rounds_clear(&law->rounds);
    eps__mc_histories_copies_clear(&law->copies);
    free(law->gram);
    free(law->parted);
    free(law);
}

/* The loss error of A34. The relative error of a sum of products is at most that of its longest product. */
static double error_of(const struct poisson_law *law)
{
    double rounds = (double)law->rounds.coins.n, width = (double)law->rounds.columns.width,
           memory = (double)law->rounds.memory;
    double log_keep = law->rounds.keep > 0 ? fabs(law->rounds.coins.log_keep) : 0;
    double taken = eps__mc_columns_error(&law->rounds.columns, 1) +
                   EPS__UNIT_ROUNDOFF * ((width + 32) * law->rounds.met_most + 8 * memory + 64);
    return eps__raise(rounds * (taken + EPS__UNIT_ROUNDOFF * (16 + 4 * log_keep)), 64);
}

/* Makes the tilt for remove (A29). Statuses as those of eps__mc_histories_copies_make(). */
static enum eps_status make_copies(struct poisson_law *law, const struct eps_context *context,
                                   const struct eps__mc_aim *aim)
{
    struct eps__banded_gram banded = eps__mc_poisson_copies_of(law->rounds.coins.n, law->rounds.memory,
                                                               law->rounds.coins.p, law->rounds.columns.stride == 0);
    const struct eps__histories histories = {.banded = &banded, .separation = 1};
    if (isinf(eps__histories_draws_bytes(&histories, 2)))
        return EPS_UNSUPPORTED;
    eps__mc_poisson_gram(&banded, &law->rounds);
    law->gram = banded.gram;
    if (!law->gram)
        return EPS_NO_MEMORY;
    return eps__mc_histories_copies_make(context, &law->copies, &histories, (double)law->rounds.columns.width + 8,
                                         aim->eps, aim->operations);
}

static enum eps_status make_parted(struct poisson_law *law)
{
    size_t len = law->rounds.rows * law->rounds.memory;
    law->parted = malloc(len * sizeof *law->parted);
    for (size_t i = 0; law->parted && i < len; i++)
        law->parted[i] = Sleef_cinz_expd1_u10purec(-law->rounds.met[i]);
    return law->parted ? EPS_OK : EPS_NO_MEMORY;
}

/* Sets the error bound of ln w, and the allowance for rounding in the logarithm of a value (A45). */
static void set_weight_error(struct poisson_law *law)
{
    struct eps__mc_law *base = &law->base;
    base->log_weight_error = eps__mc_poisson_drift_error(&law->rounds);
    law->rounds.drift.slack = 4 * base->log_weight_error + 4 * law->rounds.drift.tilt * base->loss_error;
}

static double log_most(const struct eps__mc_law *base, double eps)
{
    const struct poisson_law *law = (const struct poisson_law *)base;
    if (!base->tilted)
        return 0;
    return base->direction == EPS_ADD ? eps__mc_drift_log_most(&law->rounds.drift, eps)
                                      : eps__mc_copies_most(&law->copies.of, eps, base->loss_error);
}

static enum eps_status open_law(struct eps__mc_law **out, const struct eps__setting *setting,
                                const struct eps__mc_aim *aim)
{
    bool copies = aim->tilted && aim->direction == EPS_REMOVE;
    struct poisson_law *law = calloc(1, sizeof *law);
    double unused;
    if (!law)
        return EPS_NO_MEMORY;
    enum eps_status status =
        eps__mc_poisson_rounds_make(&law->rounds, setting, aim->sigma, copies ? EPS__HISTORIES_DRAWN_MAX : 1);
    assert(law->rounds.memory <= EPS__MC_POISSON_MEMORY_MAX);
    if (status == EPS_OK)
        status = make_parted(law);
    if (status == EPS_OK && aim->tilted)
        status = copies ? make_copies(law, setting->context, aim) : eps__mc_poisson_drift(&law->rounds, aim->eps);
    if (status != EPS_OK) {
        destroy(&law->base);
        return status;
    }
    law->base = (struct eps__mc_law){.class = &eps__mc_poisson_banded,
                                     .direction = aim->direction,
                                     .tilted = aim->tilted,
                                     .order = law->copies.of.order,
                                     .loss_error = error_of(law),
                                     .scratch = scratch_of(law)};
    if (copies)
        law->base.log_weight_error = eps__mc_copies_error(&law->copies.of, law->base.loss_error);
    else if (aim->tilted)
        set_weight_error(law);
    law->in_range =
        law->rounds.met_most - Sleef_cinz_logd1_u10purec(setting->p) <= EXPONENT_MOST && law->base.loss_error <= 0.25;
    cost(setting, &law->base.operations, &unused);
    law->base.operations *= EPS__LANES;
    *out = &law->base;
    return EPS_OK;
}

/* Not a row of the table: poisson.c opens this law if the strategy has few bands. */
const struct eps__mc_law_class eps__mc_poisson_banded = {
    .exact = exact, .cost = cost, .open = open_law, .draw = draw, .log_most = log_most, .destroy = destroy};
