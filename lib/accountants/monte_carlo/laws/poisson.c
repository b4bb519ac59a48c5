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

#include "lib/accountants/monte_carlo/laws/columns.h"
#include "lib/accountants/monte_carlo/laws/drift.h"
#include "lib/accountants/monte_carlo/laws/histories_copies.h"
#include "lib/accountants/monte_carlo/laws/scaled.h"
#include "lib/base/error.h"
#include "lib/numerics/bound.h"
#include "lib/numerics/sum.h"
#include "lib/sampling/sampling.h"

enum { MEMORY_MAX = 11 }; /* the largest m */

#define SCALE 200       /* a lane whose first state is above 2^SCALE or below 2^-SCALE is scaled by it */
#define LARGE 0x1p200   /* 2^SCALE */
#define LARGEST 0x1p500 /* the range of plain numbers after a step */
#define LEAST 0x1p-600
#define EXPONENT_MOST 600.0 /* plain numbers are used if weights are at least e^-EXPONENT_MOST */
#define OPERATIONS 60.0     /* cost of a normal and an exponential, in multiply-adds */

struct poisson_law {
    struct eps__mc_law base;
    struct eps__mc_columns columns;
    struct eps__b_min_sep_steps rounds;
    size_t groups;
    size_t memory;                          /* m, at least 1 */
    size_t rows;                            /* rows of `met` and `parted`; equal rounds share one */
    double *met;                            /* rows x memory; entry d - 1 of round k's row is G_k,k-d */
    double *parted;                         /* e^-met */
    double keep;                            /* 1 - p */
    bool in_range;                          /* weights are large enough for plain numbers */
    struct eps__mc_drift drift;             /* tilted for add: the drift, which is stored in columns.drift */
    double log_base;                        /* half the squared norm of columns.drift */
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
    return (size_t)1 << law->memory;
}

static size_t scratch_of(const struct poisson_law *law)
{
    size_t states = states_of(law), slots = eps__b_min_sep_steps_most(&law->rounds);
    return eps__mc_columns_scratch(&law->columns) + (4 * states + 2 + slots) * EPS__LANES + 2 * states;
}

static struct work work_of(const struct poisson_law *law, double *scratch)
{
    size_t states = states_of(law);
    struct work work = {.y = scratch, .row = law->rows};
    double *at = scratch + eps__mc_columns_scratch(&law->columns);
    for (int i = 0; i < 2; i++, at += 2 * states * EPS__LANES) {
        work.states[i] = at;
        work.exponents[i] = at + states * EPS__LANES;
    }
    work.scale = at;
    work.own = at + EPS__LANES;
    work.weight = at + 2 * (size_t)EPS__LANES;
    work.weight_exponent = work.weight + states;
    work.steps.slots = (void *)(work.weight_exponent + states);
    work.steps.most = eps__b_min_sep_steps_most(&law->rounds);
    return work;
}

/* The row of `met` for round k. If all columns begin alike, only those of the last rounds are cut off and differ. */
static size_t row_of(const struct poisson_law *law, size_t k)
{
    size_t after = law->rounds.n - 1 - k;
    if (law->columns.stride > 0)
        return k;
    return after < law->rows ? after : law->rows - 1;
}

/* ------------------------------------------------------------ the recursion in plain numbers */

/* weight[s] = p exp(-sum_d s_d G_k,k-d) for all s, where s_d is bit d - 1 of s. */
static void make_weights(const struct poisson_law *law, struct work *work, size_t row)
{
    const double *parted = law->parted + row * law->memory;
    if (work->row == row)
        return;
    work->row = row;
    work->weight[0] = law->rounds.p;
    for (size_t d = 0; d < law->memory; d++)
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
    struct eps__scaled first = eps__scaled_of(law->rounds.p, 0);
    if (work->row == row)
        return;
    work->row = row;
    work->weight[0] = first.mantissa;
    work->weight_exponent[0] = first.exponent;
    for (size_t d = 0; d < law->memory; d++) {
        struct eps__scaled parted = eps__scaled_exp(-law->met[row * law->memory + d]);
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
        struct eps__scaled own = eps__scaled_exp(work->own[lane]), keep = eps__scaled_of(law->keep, 0);
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

/* The number of rounds whose first row is below `row`. */
static size_t rounds_before(const struct poisson_law *law, size_t row)
{
    return (row + law->groups - 1) / law->groups;
}

/* Draws the steps in which the example of a lane takes part, or its copies if tilted; none for add. */
static void draw_steps(const struct poisson_law *law, const struct eps__stream *stream, uint32_t draw,
                       struct work *work, uint32_t lane)
{
    struct eps__participated *slots = work->steps.slots + lane * work->steps.most;
    size_t len = law->base.direction == EPS_ADD ? 0
                 : law->copies.draws            ? eps__histories_draws_next(slots, law->copies.draws, stream, draw)
                                                : eps__b_min_sep_draw(slots, &law->rounds, stream, draw);
    assert(len <= work->steps.most);
    for (size_t i = 0; i < len; i++)
        slots[i].step *= (uint32_t)law->groups;
    work->steps.len[lane] = len;
}

/* own = <c_k, y> - G_kk/2 for the round at this step. */
static void make_own(const struct poisson_law *law, struct work *work, size_t step, size_t from)
{
    const struct eps__mc_columns *columns = &law->columns;
    eps__correlate_lanes(work->own, work->y + (step - from) * EPS__LANES, columns->entries + step * columns->stride, 0,
                         columns->width, 1);
    for (size_t lane = 0; lane < EPS__LANES; lane++)
        work->own[lane] -= columns->half[step];
}

/* Subtracts <v, y> over the rows of a tile, v the drift: the part of these rows in ln dQ/dR = |v|^2/2 - <v, y>. */
static void add_weights(double *log_weight, const struct poisson_law *law, const double *y, size_t from, size_t end)
{
    for (size_t r = from; law->columns.drift && r < end; r++)
        for (size_t lane = 0; lane < EPS__LANES; lane++)
            log_weight[lane] -= law->columns.drift[r] * y[(r - from) * EPS__LANES + lane];
}

/* Draws y and computes the losses. scaled: with separate exponents. False if a number leaves the range. */
static bool run(const struct poisson_law *law, const struct eps__stream *stream, uint32_t first, double *scratch,
                bool scaled, double *loss, double *log_weight)
{
    struct work work = work_of(law, scratch);
    size_t n = law->columns.n, tile = law->columns.tile, states = states_of(law);
    int at = 0;
    bool safe = true;
    for (uint32_t lane = 0; lane < EPS__LANES; lane++) {
        draw_steps(law, stream, first + lane, &work, lane);
        work.scale[lane] = 0;
        log_weight[lane] = law->log_base;
    }
    for (size_t i = 0; i < states * EPS__LANES; i++) {
        work.states[at][i] = scaled ? 0.5 : 1;
        work.exponents[at][i] = scaled ? 1 : 0;
    }
    for (size_t end = n, from; safe && end > 0; end = from) {
        from = (end - 1) / tile * tile;
        if (eps__stream_stops(stream))
            return true;
        eps__mc_columns_tile(work.y, &law->columns, stream, first, &work.steps, from, end);
        add_weights(log_weight, law, work.y, from, end);
        for (size_t k = rounds_before(law, end); safe && k-- > rounds_before(law, from); at = !at) {
            make_own(law, &work, k * law->groups, from);
            if (scaled) {
                make_scaled_weights(law, &work, row_of(law, k));
                step_scaled(law, &work, !at);
                continue;
            }
            make_weights(law, &work, row_of(law, k));
            eps__exp_lanes(work.own, 1);
            eps__coins_lanes(work.states[!at], work.states[at], work.weight, states, law->keep, work.own);
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

/* ------------------------------------------------------------ the class */

static bool tree(const struct eps__setting *setting)
{
    return eps__strategy_blocks(setting->strategy).shape == EPS__SHAPE_TREE;
}

/* m, the number of earlier rounds of a part that share rows with a round; at least 1. */
static size_t memory_of(const struct eps__setting *setting)
{
    size_t groups = eps__sampling_groups(&setting->job->mechanism);
    size_t memory = (eps_strategy_bands(setting->strategy) - 1) / groups;
    return memory > 0 ? memory : 1;
}

static bool concerns(const struct eps_mechanism *mechanism)
{
    return eps__sampling_independent_rounds(mechanism);
}

/* The conditions on sampling that hold for every strategy. */
static bool serves_sampling(const struct eps_sampling *sampling, struct eps_error *error)
{
    if (sampling->truncation)
        return eps__decline(error, "/sampling/truncation",
                            "monte_carlo does not serve truncated batches; leave truncation out");
    if (sampling->examples_per_user > 1)
        return eps__decline(error, "/sampling/examples_per_user",
                            "monte_carlo serves one example per user under poisson and cyclic_poisson; use b_min_sep "
                            "for more");
    if (sampling->last_iterate)
        return eps__decline(error, "/sampling/last_iterate", "monte_carlo accounts for every iterate; use pld");
    return true;
}

static bool serves(const struct eps__setting *setting, struct eps_error *error)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    struct eps__blocks blocks = eps__strategy_blocks(setting->strategy);
    if (!serves_sampling(&mechanism->sampling, error))
        return false;
    if (!eps__strategy_lower_triangular(setting->strategy))
        return eps__decline(error, "/matrix",
                            "monte_carlo needs a lower-triangular strategy under poisson and cyclic_poisson");
    if (tree(setting))
        return eps__sampling_parts(mechanism) == 1 ||
               eps__decline(error, "/matrix", "monte_carlo serves trees under poisson, not under cyclic_poisson");
    if (memory_of(setting) > MEMORY_MAX)
        return eps__decline(
            error, "/matrix/bands",
            "monte_carlo serves at most 12 bands under poisson, and 12 times the number of groups under "
            "cyclic_poisson; use fewer bands");
    if (eps__sampling_parts(mechanism) > 1 && (blocks.shape != EPS__SHAPE_TOEPLITZ || blocks.stamps > 1))
        return eps__decline(
            error, "/matrix",
            "under cyclic_poisson monte_carlo needs a Toeplitz strategy without stamps, where the first "
            "part of the data set is the worst; use mmcc or pld");
    return true;
}

static bool exact(const struct eps__setting *setting)
{
    return !tree(setting) || eps__mc_poisson_tree_exact(setting);
}

/* The law of the copies: each round is a step, and has a row of its own only where its columns differ. */
static struct eps__banded_gram rounds_of(size_t rounds, size_t memory, double p, bool alike)
{
    size_t width = memory + 1 < rounds ? memory + 1 : rounds;
    return (struct eps__banded_gram){.len = rounds, .width = width, .p = p, .changes = alike ? width : rounds};
}

static void cost(const struct eps__setting *setting, double *operations, double *bytes)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    double n = (double)mechanism->n, bands = (double)eps_strategy_bands(setting->strategy);
    double rounds = ceil(n / (double)eps__sampling_groups(mechanism)), states = ldexp(1, (int)memory_of(setting));
    bool alike = eps__strategy_blocks(setting->strategy).shape == EPS__SHAPE_TOEPLITZ;
    if (tree(setting)) {
        eps__mc_poisson_tree_cost(setting, operations, bytes);
        return;
    }
    *operations = n * OPERATIONS + rounds * (bands + OPERATIONS + 2 * states);
    *bytes = 8 * ((alike ? n : n * bands) + 2 * (double)memory_of(setting) * (alike ? MEMORY_MAX : rounds) + n +
                  EPS__LANES * (4 * states + rounds + 2 * bands + 200));
    const struct eps__banded_gram banded = rounds_of((size_t)rounds, memory_of(setting), setting->p, alike);
    const struct eps__histories histories = {.banded = &banded, .separation = 1};
    *bytes += 8 * rounds * (double)banded.width + eps__mc_histories_copies_bytes(&histories);
}

static void destroy(struct eps__mc_law *base)
{
    struct poisson_law *law = (struct poisson_law *)base;
    if (base->class == &eps__mc_poisson_tree) {
        eps__mc_poisson_tree.destroy(base);
        return;
    }
    eps__mc_columns_clear(&law->columns);
    eps__mc_histories_copies_clear(&law->copies);
    free(law->gram);
    free(law->met);
    free(law->parted);
    free(law);
}

/* G_k,k-d over the rows below n; 0 if there is no round k - d. */
static double product_of(const struct poisson_law *law, size_t k, size_t d)
{
    const struct eps__mc_columns *columns = &law->columns;
    size_t step = k * law->groups, shift = d * law->groups;
    if (columns->stride > 0 && d > k)
        return 0;
    const double *own = columns->entries + step * columns->stride;
    const double *before = columns->stride > 0 ? own - shift * columns->stride : own;
    double sum = 0;
    for (size_t e = 0; e + shift < columns->width && step + e < columns->n; e++)
        sum += own[e] * before[e + shift];
    return sum;
}

/* Fills in met and parted. *most: the largest sum of a row of met. */
static enum eps_status make_products(struct poisson_law *law, double *most)
{
    size_t rounds = law->rounds.n, memory = law->memory;
    law->rows = law->columns.stride > 0 || rounds < memory + 2 ? rounds : memory + 2;
    law->met = malloc(law->rows * memory * sizeof *law->met);
    law->parted = malloc(law->rows * memory * sizeof *law->parted);
    if (!law->met || !law->parted)
        return EPS_NO_MEMORY;
    *most = 0;
    for (size_t row = 0; row < law->rows; row++) {
        size_t k = law->columns.stride > 0 ? row : rounds - 1 - row;
        double sum = 0;
        assert(row_of(law, k) == row);
        for (size_t d = 1; d <= memory; d++) {
            double met = product_of(law, k, d);
            law->met[row * memory + d - 1] = met;
            law->parted[row * memory + d - 1] = Sleef_cinz_expd1_u10purec(-met);
            sum += met;
        }
        *most = fmax(*most, sum);
    }
    return EPS_OK;
}

/* The loss error of A34. The relative error of a sum of products is at most that of its longest product. met: the
 * largest sum of a row of `met`. */
static double error_of(const struct poisson_law *law, double met)
{
    double rounds = (double)law->rounds.n, width = (double)law->columns.width, memory = (double)law->memory;
    double log_keep = law->keep > 0 ? fabs(law->rounds.log_keep) : 0;
    double taken =
        eps__mc_columns_error(&law->columns, 1) + EPS__UNIT_ROUNDOFF * ((width + 32) * met + 8 * memory + 64);
    return eps__raise(rounds * (taken + EPS__UNIT_ROUNDOFF * (16 + 4 * log_keep)), 64);
}

/* Makes the drift, a multiple of the sum of the columns of all rounds. EPS_OK, EPS_NO_MEMORY, EPS_UNSUPPORTED (no drift
 * is better than plain draws). */
static enum eps_status make_drift(struct poisson_law *law, double eps)
{
    struct eps__mc_columns *columns = &law->columns;
    struct eps__sum own = {0}, all = {0}, square = {0};
    double units = (double)columns->width + 64, most = 0;
    columns->drift = calloc(columns->n, sizeof *columns->drift);
    if (!columns->drift)
        return EPS_NO_MEMORY;
    for (size_t step = 0; step < columns->n; step += law->groups) {
        eps__sum_add(&own, 2 * columns->half[step]);
        for (size_t e = 0; e < columns->width && step + e < columns->n; e++)
            columns->drift[step + e] += columns->entries[step * columns->stride + e];
    }
    for (size_t r = 0; r < columns->n; r++)
        eps__sum_add(&all, columns->drift[r] * columns->drift[r]);
    struct eps__mc_rounds rounds = {.len = (double)law->rounds.n,
                                    .p = law->rounds.p,
                                    .own = eps__raise(eps__sum_value(&own), units),
                                    .all = eps__raise(eps__sum_value(&all), 2 * units)};
    if (!eps__mc_drift_choose_poisson(&law->drift, &rounds, eps))
        return EPS_UNSUPPORTED;
    for (size_t r = 0; r < columns->n; r++) {
        columns->drift[r] *= -law->drift.tilt * law->drift.q;
        eps__sum_add(&square, columns->drift[r] * columns->drift[r]);
        most = fmax(most, -columns->drift[r]);
    }
    law->log_base = 0.5 * eps__sum_value(&square);
    columns->reach = eps__raise(columns->reach + most, 8);
    return EPS_OK;
}

/* Makes the tilt for remove (A29). Statuses as those of eps__mc_histories_copies_make(). */
static enum eps_status make_copies(struct poisson_law *law, const struct eps_context *context,
                                   const struct eps__mc_aim *aim)
{
    size_t rounds = law->rounds.n;
    struct eps__banded_gram banded = rounds_of(rounds, law->memory, law->rounds.p, law->columns.stride == 0);
    const struct eps__histories histories = {.banded = &banded, .separation = 1};
    if (isinf(eps__histories_draws_bytes(&histories, 2)))
        return EPS_UNSUPPORTED;
    banded.gram = law->gram = malloc(rounds * banded.width * sizeof *law->gram);
    if (!law->gram)
        return EPS_NO_MEMORY;
    for (size_t k = 0; k < rounds; k++) {
        law->gram[k * banded.width] = 2 * law->columns.half[k * law->groups];
        for (size_t d = 1; d < banded.width; d++)
            law->gram[k * banded.width + d] = law->met[row_of(law, k) * law->memory + d - 1];
    }
    return eps__mc_histories_copies_make(context, &law->copies, &histories, (double)law->columns.width + 8, aim->eps,
                                         aim->operations);
}

/* Sets the error bound of ln w, and the allowance for rounding in the logarithm of a value (A45). */
static void set_weight_error(struct poisson_law *law)
{
    struct eps__mc_law *base = &law->base;
    double sum = 0, n = (double)law->columns.n;
    for (size_t r = 0; r < law->columns.n; r++)
        sum -= law->columns.drift[r];
    base->log_weight_error = eps__raise((n + (double)law->columns.width + 64) * EPS__UNIT_ROUNDOFF *
                                            (sum * law->columns.reach + law->log_base),
                                        2 * n + 64);
    law->drift.slack = 4 * base->log_weight_error + 4 * law->drift.tilt * base->loss_error;
}

static double log_most(const struct eps__mc_law *base, double eps)
{
    const struct poisson_law *law = (const struct poisson_law *)base;
    if (!base->tilted)
        return 0;
    return base->direction == EPS_ADD ? eps__mc_drift_log_most(&law->drift, eps)
                                      : eps__mc_copies_most(&law->copies.of, eps, base->loss_error);
}

static enum eps_status open_law(struct eps__mc_law **out, const struct eps__setting *setting,
                                const struct eps__mc_aim *aim)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    bool copies = aim->tilted && aim->direction == EPS_REMOVE;
    if (tree(setting))
        return copies ? EPS_UNSUPPORTED : eps__mc_poisson_tree_open(out, setting, aim, EPS__MC_TREE_RARE);
    struct poisson_law *law = calloc(1, sizeof *law);
    if (!law)
        return EPS_NO_MEMORY;
    law->groups = eps__sampling_groups(mechanism);
    law->memory = memory_of(setting);
    law->rounds = (struct eps__b_min_sep_steps){
        .n = (mechanism->n - 1) / law->groups + 1, .separation = 1, .p = setting->p, .examples = 1};
    eps__b_min_sep_steps_fill(&law->rounds);
    law->keep = 1 - setting->p;
    assert(law->memory <= MEMORY_MAX);
    double met, unused;
    enum eps_status status =
        eps__mc_columns_make(&law->columns, setting, aim->sigma, law->groups, copies ? EPS__HISTORIES_DRAWN_MAX : 1);
    if (status == EPS_OK)
        status = make_products(law, &met);
    if (status == EPS_OK && aim->tilted)
        status = copies ? make_copies(law, setting->context, aim) : make_drift(law, aim->eps);
    if (status != EPS_OK) {
        destroy(&law->base);
        return status;
    }
    law->base = (struct eps__mc_law){.class = &eps__mc_poisson,
                                     .direction = aim->direction,
                                     .tilted = aim->tilted,
                                     .order = law->copies.of.order,
                                     .loss_error = error_of(law, met),
                                     .scratch = scratch_of(law)};
    if (copies)
        law->base.log_weight_error = eps__mc_copies_error(&law->copies.of, law->base.loss_error);
    else if (aim->tilted)
        set_weight_error(law);
    law->in_range = met - Sleef_cinz_logd1_u10purec(setting->p) <= EXPONENT_MOST && law->base.loss_error <= 0.25;
    cost(setting, &law->base.operations, &unused);
    law->base.operations *= EPS__LANES;
    *out = &law->base;
    return EPS_OK;
}

const struct eps__mc_law_class eps__mc_poisson = {.concerns = concerns,
                                                  .serves = serves,
                                                  .exact = exact,
                                                  .cost = cost,
                                                  .open = open_law,
                                                  .draw = draw,
                                                  .log_most = log_most,
                                                  .destroy = destroy};
