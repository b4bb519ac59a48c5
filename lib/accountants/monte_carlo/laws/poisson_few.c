/*
 * Draws under Poisson and cyclic Poisson sampling, for strategies with more bands than poisson_banded.c serves. Its
 * recursion has a state for each subset of the last m rounds. Here a state holds the last few participations; if there
 * are more, the oldest is forgotten. Forgetting it raises P/Q. It lowers P/Q if the example is taken to meet what is
 * forgotten in every later round that shares a row with it. So the same states give an upper and a lower bound on P/Q
 * (A54):
 * - for remove, plain draws have the upper bound as their loss;
 * - for add, the lower bound, or that of Jensen's inequality where it is larger (A45);
 * - tilted draws for remove come from copies that dominate P^a Q^(1-a), and have the worst loss between the two bounds.
 *
 * The recursion uses plain numbers that are scaled by powers of two. A lane with a number outside their range has no
 * bounds, and gets the largest possible value.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <sleef.h>

#include "lib/accountants/monte_carlo/laws/few_copies.h"
#include "lib/accountants/monte_carlo/laws/poisson.h"
#include "lib/accountants/monte_carlo/laws/poisson_rounds.h"
#include "lib/base/error.h"
#include "lib/numerics/bound.h"
#include "lib/sampling/sampling.h"

enum { HELD_LEAST = 2, HELD_MOST = 6, STATES_MOST = 4096, STATES_CHEAP = 256 };

#define CROWDED 2.0 /* more participations are held if a draw forgets one more often than this, */
#define FEW 0.02    /* or, while there are at most STATES_CHEAP states, more often than this; */
#define SUITED 0.5  /* at most this often, or an exact recursion is better, if there is one; */
#define NEAR 2.0    /* each is taken to be so many times as likely as p in draws that matter: estimates */
#define SCALE 200   /* a lane whose first state is above 2^SCALE or below 2^-SCALE is scaled by it */
#define LARGE 0x1p200
#define LARGEST 0x1p500 /* the range of numbers after a step */
#define LEAST 0x1p-600
#define READ_MOST 0x1p300   /* the largest number that a step reads */
#define EXPONENT_MOST 600.0 /* weights are at least e^-EXPONENT_MOST */
#define OPERATIONS 40.0     /* measured cost of a row of a draw, of its normal and its exponential, */
#define PACE 0.15           /* and of a state of one bound in a round */

/* Sets of at most `held` ages from 1 to m. The empty set is state 0, and a set comes after its subsets. */
struct states {
    size_t len, held, ages;
    uint32_t *none, *taken; /* [state]: the state after a step without a participation, and with one */
    uint32_t *without;      /* [state]: without its oldest age; state 0: 0 */
    uint16_t *oldest;       /* [state]: this age; state 0: 0 */
    uint16_t *forgotten;    /* [state]: the age that is forgotten in a step with a participation; 0: none */
};

struct few_law {
    struct eps__mc_law base;
    struct eps__mc_poisson_rounds rounds; /* with a drift if tilted for add */
    struct states states;
    double *parted;  /* as `met`: e^-met */
    double *unpaid;  /* [age]: e^-(what a participation that is forgotten at this age might still meet); [0] = 1 */
    double most_met; /* the largest exponent of a weight */
    bool in_range;   /* weights are large enough for plain numbers; otherwise every lane is lost */
    double error;    /* absolute error bound of the computed logarithms of both bounds */
    double *gram;    /* tilted for remove: of all rounds, see struct eps__banded_gram; */
    struct eps__mc_few_copies copies; /* the tilt, whose steps are the rounds */
};

/* One of the two bounds of a draw. */
struct bound {
    double *values[2]; /* [state] */
    double *weight;    /* [state], of the current row */
    double *scale;     /* the common binary exponent of a lane's values */
};

/* The scratch space of draw(), divided up. */
struct work {
    double *y, *own, *range;
    struct bound upper, lower; /* values[0] is NULL if the bound is not needed */
    struct eps__mc_steps steps;
    size_t row; /* the row of `parted` that the weights belong to */
    bool lost[EPS__LANES];
};

/* ------------------------------------------------------------ states */

/* The number of sets of k of n things. */
static size_t choose(size_t n, size_t k)
{
    size_t sets = 1;
    for (size_t i = 1; i <= k; i++)
        sets = i <= n ? sets * (n - i + 1) / i : 0;
    return sets;
}

/* The number of sets of at most `held` of so many ages, or more than STATES_MOST. */
static size_t sets_of(size_t ages, size_t held)
{
    size_t sum = 0;
    for (size_t k = 0; k <= held && sum <= STATES_MOST; k++)
        sum += choose(ages < STATES_MOST ? ages : STATES_MOST, k);
    return sum;
}

unsigned eps__mc_poisson_few_held(double *crowds, size_t rounds, size_t memory, double p)
{
    unsigned held = 0;
    *crowds = (double)rounds * p * NEAR;
    for (unsigned m = 1; m <= HELD_MOST && sets_of(memory, m) <= STATES_MOST; m++) {
        *crowds *= NEAR * p * fmax((double)memory - m + 1, 0) / m;
        held = m;
        if (m >= HELD_LEAST && (*crowds <= FEW || (*crowds <= CROWDED && sets_of(memory, m + 1) > STATES_CHEAP)))
            break;
    }
    return held >= HELD_LEAST ? held : 0;
}

bool eps__mc_poisson_few_suits(size_t rounds, size_t memory, double p)
{
    double crowds;
    return p < 1 && eps__mc_poisson_few_held(&crowds, rounds, memory, p) > 0 && crowds <= SUITED;
}

/* The place of a set of ages, in ascending order: after all smaller sets, and after those of its size whose oldest age
 * is less, or equal and the second oldest less, and so on. */
static size_t rank_of(const struct states *states, const uint16_t *set, size_t len)
{
    size_t rank = 0;
    for (size_t j = 0; j < len; j++)
        rank += choose(states->ages, j) + choose((size_t)set[j] - 1, j + 1);
    assert(rank < states->len);
    return rank;
}

/* Replaces a set by the one in the next place. Returns its length. */
static size_t next_set(const struct states *states, uint16_t *set, size_t len)
{
    size_t j = 0;
    while (j < len && set[j] + 1u == (j + 1 < len ? set[j + 1] : states->ages + 1))
        j++;
    if (j < len)
        set[j]++;
    else
        j = ++len;
    for (size_t k = 0; k < j; k++)
        set[k] = (uint16_t)(k + 1);
    return len;
}

/* Fills in the state of a set. */
static void describe(struct states *states, size_t s, const uint16_t *set, size_t len)
{
    uint16_t after[HELD_MOST + 1] = {1};
    size_t kept = 0;
    for (; kept < len && set[kept] < states->ages; kept++)
        after[kept + 1] = (uint16_t)(set[kept] + 1);
    assert(len <= states->held && len - kept <= 1 && rank_of(states, set, len) == s);
    states->without[s] = len > 0 ? (uint32_t)rank_of(states, set, len - 1) : 0;
    states->oldest[s] = len > 0 ? set[len - 1] : 0;
    states->none[s] = (uint32_t)rank_of(states, after + 1, kept);
    states->forgotten[s] = kept == states->held ? after[kept] : 0;
    states->taken[s] = (uint32_t)rank_of(states, after, kept < states->held ? kept + 1 : kept);
}

static enum eps_status make_states(struct states *states, size_t ages, size_t held)
{
    states->ages = ages;
    states->held = held;
    states->len = sets_of(ages, held);
    assert(held >= 1 && held <= HELD_MOST && states->len <= STATES_MOST);
    states->none = malloc(states->len * sizeof *states->none);
    states->taken = malloc(states->len * sizeof *states->taken);
    states->without = malloc(states->len * sizeof *states->without);
    states->oldest = malloc(states->len * sizeof *states->oldest);
    states->forgotten = malloc(states->len * sizeof *states->forgotten);
    if (!states->none || !states->taken || !states->without || !states->oldest || !states->forgotten)
        return EPS_NO_MEMORY;
    uint16_t set[HELD_MOST + 1] = {0};
    size_t len = 0;
    for (size_t s = 0; s < states->len; s++) {
        describe(states, s, set, len);
        len = next_set(states, set, len);
    }
    return EPS_OK;
}

static void clear_states(struct states *states)
{
    free(states->none);
    free(states->taken);
    free(states->without);
    free(states->oldest);
    free(states->forgotten);
}

/* ------------------------------------------------------------ a draw */

static bool needs_upper(const struct few_law *law)
{
    return law->base.direction == EPS_REMOVE;
}

static bool needs_lower(const struct few_law *law)
{
    return law->base.direction == EPS_ADD || law->copies.draws;
}

static size_t scratch_of(const struct few_law *law)
{
    size_t slots = eps__b_min_sep_steps_most(&law->rounds.coins), states = law->states.len;
    size_t bounds = (size_t)needs_upper(law) + needs_lower(law);
    return eps__mc_columns_scratch(&law->rounds.columns) + (3 + slots + bounds * (2 * states + 1)) * EPS__LANES +
           bounds * states;
}

/* Takes the room of a bound from *at. */
static void make_bound(struct bound *bound, double **at, size_t states)
{
    for (int i = 0; i < 2; i++, *at += states * EPS__LANES)
        bound->values[i] = *at;
    bound->scale = *at;
    bound->weight = *at + EPS__LANES;
    *at = bound->weight + states;
    for (size_t i = 0; i < states * EPS__LANES; i++)
        bound->values[0][i] = 1;
    memset(bound->scale, 0, EPS__LANES * sizeof *bound->scale);
}

static void make_work(struct work *work, const struct few_law *law, double *scratch)
{
    double *at = scratch + eps__mc_columns_scratch(&law->rounds.columns);
    *work = (struct work){.y = scratch, .row = law->rounds.rows};
    work->own = at;
    work->range = at + EPS__LANES;
    work->steps.slots = (void *)(at + 3 * (size_t)EPS__LANES);
    work->steps.most = eps__b_min_sep_steps_most(&law->rounds.coins);
    at += (3 + work->steps.most) * EPS__LANES;
    if (needs_upper(law))
        make_bound(&work->upper, &at, law->states.len);
    if (needs_lower(law))
        make_bound(&work->lower, &at, law->states.len);
    assert(at == scratch + scratch_of(law));
}

/* Draws the steps in which the example of each lane takes part, or its copies if tilted; none for add. */
static void draw_steps(const struct few_law *law, const struct eps__stream *stream, uint32_t first,
                       struct eps__mc_steps *steps)
{
    memset(steps->len, 0, sizeof steps->len);
    if (law->copies.draws)
        eps__few_draws_lanes(steps->slots, steps->most, steps->len, law->copies.draws, stream, first);
    else if (law->base.direction == EPS_REMOVE)
        eps__b_min_sep_draw_lanes(steps->slots, steps->most, steps->len, &law->rounds.coins, stream, first);
    for (size_t lane = 0; lane < EPS__LANES; lane++)
        for (size_t i = 0; i < steps->len[lane]; i++)
            steps->slots[lane * steps->most + i].step *= (uint32_t)law->rounds.groups;
}

/* Sets the weights of both bounds for a row of `met`: p e^-(what the example of a state meets), and for the lower bound
 * what a forgotten participation might still meet. */
static void make_weights(const struct few_law *law, struct work *work, size_t row)
{
    const struct states *states = &law->states;
    const double *parted = law->parted + row * law->rounds.memory;
    double *weight = work->upper.weight ? work->upper.weight : work->lower.weight;
    if (work->row == row)
        return;
    work->row = row;
    weight[0] = law->rounds.coins.p;
    for (size_t s = 1; s < states->len; s++)
        weight[s] = weight[states->without[s]] * parted[states->oldest[s] - 1];
    for (size_t s = states->len; work->lower.weight && s-- > 0;)
        work->lower.weight[s] = weight[s] * law->unpaid[states->forgotten[s]];
}

/* Scales the lanes that have left the middle of the range back into it. A lane that has left the range is lost. */
static void rescale(struct work *work, struct bound *bound, size_t states)
{
    double *values = bound->values[0];
    for (size_t lane = 0; lane < EPS__LANES; lane++) {
        double first = values[lane], by = first > LARGE ? 1 / LARGE : first < 1 / LARGE ? LARGE : 1;
        double least = work->range[lane], most = work->range[EPS__LANES + lane];
        bool within = fmin(least, least * by) >= LEAST && most <= LARGEST && most * by <= READ_MOST;
        if (within && by == 1)
            continue;
        work->lost[lane] |= !within;
        bound->scale[lane] += by < 1 ? SCALE : -SCALE;
        for (size_t s = 0; s < states; s++)
            values[s * EPS__LANES + lane] = within ? values[s * EPS__LANES + lane] * by : 1;
    }
}

/* One round back: a bound at round k from that at round k + 1. */
static void step_back(const struct few_law *law, struct work *work, struct bound *bound)
{
    const struct states *states = &law->states;
    const struct eps__lanes_moves moves = {states->none, states->taken, bound->weight, states->len, law->rounds.keep};
    double *now = bound->values[1];
    if (!now)
        return;
    eps__moves_lanes(now, bound->values[0], &moves, work->own, work->range);
    bound->values[1] = bound->values[0];
    bound->values[0] = now;
    rescale(work, bound, states->len);
}

/* ln of a bound on P/Q. */
static double log_of(const struct bound *bound, size_t lane)
{
    return Sleef_cinz_logd1_u10purec(bound->values[0][lane]) + bound->scale[lane] * M_LN2;
}

/* Turns the bounds of a lane into its loss and log weight. */
static void conclude(double *loss, double *log_weight, const struct few_law *law, const struct work *work, size_t lane)
{
    const struct eps__mc_poisson_rounds *rounds = &law->rounds;
    if (law->copies.draws) {
        double low = work->lost[lane] ? -INFINITY : log_of(&work->lower, lane) - law->error;
        double high = work->lost[lane] ? INFINITY : log_of(&work->upper, lane) + law->error;
        eps__mc_copies_between(loss, log_weight, &law->copies.of, law->base.least, low, high);
        return;
    }
    *loss = work->lost[lane]   ? EPS__MC_CERTAIN
            : needs_upper(law) ? log_of(&work->upper, lane)
                               : -log_of(&work->lower, lane);
    if (rounds->columns.drift) /* Jensen's inequality: m - <a, y> */
        *loss = fmin(*loss, rounds->drift.mean - (*log_weight - rounds->log_base) / rounds->drift.tilt);
}

static void draw(const struct eps__mc_law *base, const struct eps__stream *stream, uint32_t first, double *scratch,
                 double *loss, double *log_weight)
{
    const struct few_law *law = (const struct few_law *)base;
    const struct eps__mc_poisson_rounds *rounds = &law->rounds;
    struct work work;
    make_work(&work, law, scratch);
    draw_steps(law, stream, first, &work.steps);
    for (uint32_t lane = 0; lane < EPS__LANES; lane++) {
        work.lost[lane] = !law->in_range;
        log_weight[lane] = rounds->log_base;
    }
    for (size_t end = rounds->columns.n, from; end > 0; end = from) {
        from = (end - 1) / rounds->columns.tile * rounds->columns.tile;
        if (eps__stream_stops(stream))
            return;
        eps__mc_columns_tile(work.y, &rounds->columns, stream, first, &work.steps, from, end);
        eps__mc_poisson_add_weights(log_weight, rounds, work.y, from, end);
        for (size_t k = eps__mc_poisson_rounds_before(rounds, end);
             k-- > eps__mc_poisson_rounds_before(rounds, from);) {
            eps__mc_poisson_own(work.own, rounds, work.y, k * rounds->groups, from);
            make_weights(law, &work, eps__mc_poisson_row(rounds, k));
            eps__exp_lanes(work.own, 1);
            step_back(law, &work, &work.upper);
            step_back(law, &work, &work.lower);
        }
    }
    for (size_t lane = 0; lane < EPS__LANES; lane++)
        conclude(&loss[lane], &log_weight[lane], law, &work, lane);
}

/* ------------------------------------------------------------ the law */

bool eps__mc_poisson_few_serves(const struct eps__setting *setting, struct eps_error *error)
{
    size_t rounds = (setting->job->mechanism.n - 1) / eps__sampling_groups(&setting->job->mechanism) + 1;
    double crowds;
    if (!(setting->p < 1))
        return eps__decline(
            error, "/sampling/p",
            "monte_carlo serves more than 12 bands under poisson only for p < 1, as every example takes "
            "part in every step otherwise; use gaussian");
    return eps__mc_poisson_few_held(&crowds, rounds, eps__mc_poisson_memory(setting), setting->p) > 0 ||
           eps__decline(error, "/matrix/bands",
                        "monte_carlo serves at most 91 bands under poisson, and 91 times the number of groups under "
                        "cyclic_poisson; use fewer bands");
}

static bool exact(const struct eps__setting *setting)
{
    (void)setting;
    return false;
}

static void cost(const struct eps__setting *setting, double *operations, double *bytes)
{
    const struct eps_mechanism *mechanism = &setting->job->mechanism;
    double n = (double)mechanism->n, bands = (double)eps_strategy_bands(setting->strategy);
    double rounds = ceil(n / (double)eps__sampling_groups(mechanism)), crowds;
    size_t memory = eps__mc_poisson_memory(setting);
    double states = (double)sets_of(memory, eps__mc_poisson_few_held(&crowds, (size_t)rounds, memory, setting->p));
    bool alike = eps__strategy_blocks(setting->strategy).shape == EPS__SHAPE_TOEPLITZ;
    const struct eps__banded_gram banded = eps__mc_poisson_copies_of((size_t)rounds, memory, setting->p, alike);
    *operations = n * OPERATIONS + rounds * (bands + 2 * PACE * states);
    *bytes = 8 * ((alike ? n : n * bands) + 2 * (double)memory * (alike ? (double)memory : rounds) + n +
                  EPS__LANES * (4 * states + rounds + 2 * bands + 200) + 5 * states);
    *bytes += 8 * rounds * (double)banded.width + eps__mc_few_copies_bytes(&banded);
}

static void destroy(struct eps__mc_law *base)
{
    struct few_law *law = (struct few_law *)base;
    eps__mc_poisson_rounds_clear(&law->rounds);
    eps__mc_few_copies_clear(&law->copies);
    clear_states(&law->states);
    free(law->parted);
    free(law->unpaid);
    free(law->gram);
    free(law);
}

/* Fills in parted, unpaid and most_met. What is forgotten is taken to be met by a participation in every later step
 * that shares a row with it. */
static enum eps_status make_factors(struct few_law *law)
{
    const struct eps__mc_poisson_rounds *rounds = &law->rounds;
    size_t memory = rounds->memory;
    double pay = 0;
    law->parted = malloc(rounds->rows * memory * sizeof *law->parted);
    law->unpaid = malloc((memory + 1) * sizeof *law->unpaid);
    if (!law->parted || !law->unpaid)
        return EPS_NO_MEMORY;
    for (size_t i = 0; i < rounds->rows * memory; i++)
        law->parted[i] = Sleef_cinz_expd1_u10purec(-rounds->met[i]);
    law->unpaid[0] = 1;
    for (size_t age = memory; age >= 1; age--) {
        double most = 0;
        for (size_t row = 0; row < rounds->rows; row++)
            most = fmax(most, rounds->met[row * memory + age - 1]);
        pay += most;
        law->unpaid[age] = Sleef_cinz_expd1_u10purec(-pay);
    }
    law->most_met = rounds->met_most + pay;
    return EPS_OK;
}

/* A34, with what is paid for a forgotten participation as a part of the weight. */
static double error_of(const struct few_law *law)
{
    const struct eps__mc_poisson_rounds *rounds = &law->rounds;
    double len = (double)rounds->coins.n, width = (double)rounds->columns.width, memory = (double)rounds->memory;
    double taken = eps__mc_columns_error(&rounds->columns, 1) +
                   EPS__UNIT_ROUNDOFF * ((width + memory + 32) * law->most_met + 8 * memory + 64);
    return eps__raise(len * (taken + EPS__UNIT_ROUNDOFF * (16 + 4 * fabs(rounds->coins.log_keep))), 64);
}

/* Makes the tilt for remove. Statuses as those of eps__mc_few_copies_make(). */
static enum eps_status make_copies(struct few_law *law, const struct eps_context *context,
                                   const struct eps__mc_aim *aim)
{
    struct eps__banded_gram banded;
    eps__mc_poisson_gram(&banded, &law->rounds);
    law->gram = banded.gram;
    if (!law->gram)
        return EPS_NO_MEMORY;
    return eps__mc_few_copies_make(context, &law->copies, &banded, (double)law->rounds.columns.width + 8, aim->eps,
                                   aim->operations);
}

/* Sets the error bounds. A tilted loss for remove includes its error; one for add may be m - <a, y>, which is computed
 * from the weight (A45). */
static void set_errors(struct few_law *law)
{
    struct eps__mc_law *base = &law->base;
    struct eps__mc_drift *drift = &law->rounds.drift;
    law->error = error_of(law);
    if (law->copies.draws) {
        base->log_weight_error = eps__mc_copies_error(&law->copies.of, law->error);
        return;
    }
    base->loss_error = law->error;
    if (!base->tilted)
        return;
    base->log_weight_error = eps__mc_poisson_drift_error(&law->rounds);
    base->loss_error += eps__raise(base->log_weight_error / drift->tilt + 16 * EPS__UNIT_ROUNDOFF * drift->mean, 64);
    drift->slack = 4 * base->log_weight_error + 4 * drift->tilt * base->loss_error;
}

static double log_most(const struct eps__mc_law *base, double eps)
{
    const struct few_law *law = (const struct few_law *)base;
    if (!base->tilted)
        return 0;
    return base->direction == EPS_ADD ? eps__mc_drift_log_most(&law->rounds.drift, eps)
                                      : eps__mc_copies_most(&law->copies.of, eps, law->error);
}

static enum eps_status open_law(struct eps__mc_law **out, const struct eps__setting *setting,
                                const struct eps__mc_aim *aim)
{
    bool copies = aim->tilted && aim->direction == EPS_REMOVE;
    struct few_law *law = calloc(1, sizeof *law);
    double unused;
    if (!law)
        return EPS_NO_MEMORY;
    law->base = (struct eps__mc_law){.class = &eps__mc_poisson_few,
                                     .direction = aim->direction,
                                     .tilted = aim->tilted,
                                     .dominated = copies,
                                     .least = aim->least};
    enum eps_status status =
        eps__mc_poisson_rounds_make(&law->rounds, setting, aim->sigma, copies ? EPS__FEW_DRAWN_MAX : 1);
    if (status == EPS_OK)
        status = make_states(&law->states, law->rounds.memory,
                             eps__mc_poisson_few_held(&unused, law->rounds.coins.n, law->rounds.memory, setting->p));
    if (status == EPS_OK)
        status = make_factors(law);
    law->in_range = law->most_met - Sleef_cinz_logd1_u10purec(setting->p) <= EXPONENT_MOST;
    if (status == EPS_OK && aim->tilted)
        status = copies ? make_copies(law, setting->context, aim) : eps__mc_poisson_drift(&law->rounds, aim->eps);
    if (status != EPS_OK) {
        destroy(&law->base);
        return status;
    }
    set_errors(law);
    law->base.order = law->copies.of.order;
    law->base.scratch = scratch_of(law);
    cost(setting, &law->base.operations, &unused);
    law->base.operations *= EPS__LANES;
    *out = &law->base;
    return EPS_OK;
}

/* Not a row of the table: poisson.c opens this law if the strategy has many bands. */
const struct eps__mc_law_class eps__mc_poisson_few = {
    .exact = exact, .cost = cost, .open = open_law, .draw = draw, .log_most = log_most, .destroy = destroy};
