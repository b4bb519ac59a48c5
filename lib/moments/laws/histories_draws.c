/*
 * See histories_draws.h. A state holds the histories of all copies. The copies that take part in a step are drawn with
 * their share of the computed sum at the state. The shares add up to 1 whatever the errors of the sums are, and a
 * draw's probability is close to the exact one (M30).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/moments/laws/histories_draws.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include <sleef.h>

#include "lib/base/error.h"
#include "lib/base/progress.h"
#include "lib/moments/laws/multisets.h"
#include "lib/numerics/bound.h"

enum {
    SUBSETS = 1 << EPS__HISTORIES_DRAWN_MAX,
    SETTLING = 8,  /* rows of equal steps settle after about SETTLING steps for each band and step of the separation */
    POLLED = 4096, /* states between two polls */
    HISTORIES_MOST = 65535
};

#define NO_STATE UINT32_MAX /* a copy that does not wait takes part in no step */
#define BYTES_MAX 268435456.0
#define SETTLED 1e-11     /* equal steps share one row if they multiply all its sums by one factor, within this share */
#define SMALLEST 0x1p-600 /* the least sum of a row, as a multiple of its largest */
#define RAREST 600.0      /* the rarest history has a probability of at least e^-RAREST */
#define INACCURATE 1e-4   /* log_density_error must be below this */
#define PACE 5.0          /* operations for a subset of a state in a row */
#define PACE_LAYOUT 60.0  /* operations for its place in the layout */

/* ------------------------------------------------------------ sizes */

static double states_of(const struct eps__histories *law, unsigned copies)
{
    size_t width = law->banded->width;
    double histories = width <= EPS__CODES_WIDTH_MOST ? eps__subsets(width - 1, law->separation) : INFINITY;
    return histories <= HISTORIES_MOST ? eps__multisets(histories, copies) : INFINITY;
}

/* About the number of rows that are made. */
static double rows_of(const struct eps__histories *law)
{
    double lead = (double)eps__histories_lead(law), width = (double)law->banded->width;
    double changes = (double)law->banded->changes + (lead > 0 ? lead + width : 0);
    return fmin(changes + SETTLING * (width + (double)law->separation), (double)eps__histories_steps(law));
}

double eps__histories_draws_bytes(const struct eps__histories *law, unsigned copies)
{
    bool served = copies >= 2 && copies <= EPS__HISTORIES_DRAWN_MAX && !law->tilt && law->banded->p > 0 &&
                  law->banded->p < 1 && eps__histories_smallest(law, copies) <= RAREST;
    double states = served ? states_of(law, copies) : INFINITY;
    double bytes = states * (8 * rows_of(law) + 4 * exp2(copies) + 2 * copies) + 32 * (double)eps__histories_steps(law);
    return bytes <= BYTES_MAX ? bytes : INFINITY;
}

double eps__histories_draws_operations(const struct eps__histories *law, unsigned copies)
{
    return states_of(law, copies) * exp2(copies) * (PACE_LAYOUT + PACE * rows_of(law));
}

/* ------------------------------------------------------------ the layout */

/* The rank of a multiset of histories, given in ascending order. */
static uint32_t place(const uint32_t *places, const unsigned *histories, unsigned copies)
{
    size_t sum = 0;
    for (unsigned j = 0; j < copies; j++)
        sum += places[histories[j] * copies + j];
    return (uint32_t)sum;
}

/* What a history becomes after a step without the copy, and with it. */
struct successors {
    unsigned stays, takes;
};

/* Fills in a state: `which` are its copies' histories, in ascending order. */
static void describe(struct eps__histories_draws *draws, size_t state, const unsigned *which,
                     const struct successors *after_of, const uint32_t *places)
{
    unsigned copies = draws->copies, after[EPS__HISTORIES_DRAWN_MAX];
    for (unsigned c = 0; c < copies; c++)
        draws->item[state * copies + c] = (uint16_t)which[c];
    for (unsigned subset = 0; subset < 1u << copies; subset++) {
        bool possible = true;
        for (unsigned c = 0; c < copies; c++) {
            bool takes = subset >> c & 1;
            possible &= !takes || draws->waits[which[c]];
            after[c] = takes ? after_of[which[c]].takes : after_of[which[c]].stays;
        }
        if (possible)
            eps__multiset_sort(after, copies);
        draws->to[(state << copies) + subset] = possible ? place(places, after, copies) : NO_STATE;
    }
}

static enum eps_status fill_layout(const struct eps_context *context, struct eps__histories_draws *draws,
                                   struct successors *after_of, uint32_t *places)
{
    struct eps__codes codes;
    unsigned copies = draws->copies, which[EPS__HISTORIES_DRAWN_MAX] = {0};
    if (!eps__codes_make(&codes, draws->banded.width, draws->law.separation))
        return EPS_NO_MEMORY;
    assert(codes.histories == draws->histories);
    for (size_t i = 0; i < codes.len; i++) {
        const struct eps__code *code = &codes.items[i];
        draws->mask[code->old] = code->steps >> 1;
        draws->waits[code->old] = code->waits;
        *(code->steps & 1 ? &after_of[code->old].takes : &after_of[code->old].stays) = code->young;
    }
    eps__codes_free(&codes);
    for (size_t history = 0; history < draws->histories; history++)
        for (unsigned j = 0; j < copies; j++)
            places[history * copies + j] = history > 0 ? (uint32_t)eps__multisets((double)history, j + 1) : 0;
    size_t state = 0;
    do {
        enum eps_status status = state % POLLED == 0 ? eps__poll(context) : EPS_OK;
        if (status != EPS_OK)
            return status;
        assert(place(places, which, copies) == state);
        describe(draws, state++, which, after_of, places);
    } while (eps__multiset_next(which, copies, (unsigned)draws->histories));
    assert(state == draws->states);
    return EPS_OK;
}

static enum eps_status make_layout(const struct eps_context *context, struct eps__histories_draws *draws)
{
    draws->mask = malloc(draws->histories * sizeof *draws->mask);
    draws->waits = calloc(draws->histories, sizeof *draws->waits);
    draws->item = malloc(draws->states * draws->copies * sizeof *draws->item);
    draws->to = malloc((draws->states << draws->copies) * sizeof *draws->to);
    struct successors *after_of = calloc(draws->histories, sizeof *after_of);
    uint32_t *places = malloc(draws->histories * draws->copies * sizeof *places);
    enum eps_status status = EPS_NO_MEMORY;
    if (draws->mask && draws->waits && draws->item && draws->to && after_of && places)
        status = fill_layout(context, draws, after_of, places);
    free(after_of);
    free(places);
    return status;
}

/* ------------------------------------------------------------ weights */

/* What the weights of a step depend on. */
struct step {
    const struct eps__coins *coins;
    double together[EPS__HISTORIES_DRAWN_MAX + 1]; /* e^(G_ii s (s-1)/2) for s copies that take part */
    double row[EPS__CODES_WIDTH_MOST];
};

static const struct eps__coins *coins_of(const struct eps__histories_draws *draws, size_t i)
{
    return &draws->coins[i < draws->lead ? i : draws->lead];
}

static void step_of(struct step *step, const struct eps__histories_draws *draws, size_t i)
{
    step->coins = coins_of(draws, i);
    eps__histories_row(step->row, &draws->law, i);
    for (unsigned s = 0; s <= draws->copies; s++)
        step->together[s] = Sleef_cinz_expd1_u10purec(step->row[0] * (s * (s - 1.0) / 2));
}

static bool make_coins(struct eps__histories_draws *draws)
{
    draws->coins = malloc((draws->lead + 1) * sizeof *draws->coins);
    for (size_t i = 0; draws->coins && i <= draws->lead; i++) {
        eps__quad p, never;
        eps__histories_probability(&p, &never, &draws->law, i);
        for (unsigned waits = 0; waits <= draws->copies; waits++)
            for (unsigned took = 0; took <= draws->copies; took++) {
                eps__quad product = took <= waits;
                for (unsigned j = 0; j < waits; j++)
                    product *= j < took ? p : never;
                draws->coins[i].taking[waits][took] = (double)product;
            }
    }
    return draws->coins != NULL;
}

/* e^(the sum of the row's entries at which an example that takes part meets this history). */
static double met_by(const struct eps__histories_draws *draws, const struct step *step, size_t history)
{
    double sum = 0;
    size_t d = 1;
    for (uint64_t left = draws->mask[history]; left > 0; left >>= 1, d++)
        sum += left & 1 ? step->row[d] : 0;
    return Sleef_cinz_expd1_u10purec(sum);
}

/* weight[subset]: that of the subsets of a state's copies that take part in the step (M18); 0 if one does not wait.
 * met: e^.. of each copy. */
static void weigh(double *weight, const struct eps__histories_draws *draws, const struct step *step, size_t state,
                  const double *met)
{
    unsigned copies = draws->copies, waiting = 0;
    const uint16_t *item = draws->item + state * copies;
    double others[EPS__HISTORIES_DRAWN_MAX], product[SUBSETS] = {1};
    for (unsigned c = 0; c < copies; c++) {
        waiting += draws->waits[item[c]];
        others[c] = 1;
        for (unsigned e = 0; e < copies; e++)
            others[c] *= e != c ? met[e] : 1;
    }
    for (unsigned subset = 0; subset < 1u << copies; subset++) {
        unsigned took = (unsigned)__builtin_popcount(subset);
        if (subset > 0)
            product[subset] = product[subset & (subset - 1)] * others[__builtin_ctz(subset)];
        bool possible = draws->to[(state << copies) + subset] != NO_STATE;
        weight[subset] = possible ? step->coins->taking[waiting][took] * (step->together[took] * product[subset]) : 0;
    }
}

/* ------------------------------------------------------------ tables */

static double sum_at(const struct eps__histories_draws *draws, size_t i, size_t state)
{
    return i < draws->steps ? draws->sums[draws->row[i] * draws->states + state] : 1;
}

/* The factor of the sums of step i + 1, relative to that of step i. */
static double scale_of(const struct eps__histories_draws *draws, size_t i)
{
    double shrink = draws->power[i] > draws->power[i + 1] ? 1 / draws->lambda : 1;
    assert(draws->power[i] - draws->power[i + 1] <= 1);
    return draws->exponent[i] == draws->exponent[i + 1] ? shrink
                                                        : ldexp(shrink, draws->exponent[i + 1] - draws->exponent[i]);
}

/* Makes the row of step i from the next one. met: [history], of the step. Lowers *events to the least share of the
 * subsets that are not empty, of states in which a copy waits. False if a number leaves the range. */
static bool make_row(struct eps__histories_draws *draws, size_t i, const struct step *step, const double *met,
                     double *events)
{
    unsigned copies = draws->copies;
    double *sums = draws->sums + draws->row[i] * draws->states, largest = 0, smallest = INFINITY;
    bool inside = true;
    for (size_t state = 0; state < draws->states; state++) {
        double weight[SUBSETS], own[EPS__HISTORIES_DRAWN_MAX] = {0}, some = 0;
        const uint32_t *to = draws->to + (state << copies);
        for (unsigned c = 0; c < copies; c++)
            own[c] = met[draws->item[state * copies + c]];
        weigh(weight, draws, step, state, own);
        double none = weight[0] * sum_at(draws, i + 1, to[0]);
        for (unsigned subset = 1; subset < 1u << copies; subset++)
            if (to[subset] != NO_STATE)
                some += weight[subset] * sum_at(draws, i + 1, to[subset]);
        sums[state] = none + some;
        if (some > 0)
            *events = fmin(*events, some / sums[state]);
        inside &= sums[state] > 0 && sums[state] < INFINITY;
        largest = fmax(largest, sums[state]);
        smallest = fmin(smallest, sums[state]);
    }
    int shift;
    (void)frexp(largest, &shift);
    for (size_t state = 0; state < draws->states; state++)
        sums[state] = ldexp(sums[state], -shift);
    draws->exponent[i] = draws->exponent[i + 1] + shift;
    draws->power[i] = draws->power[i + 1];
    return inside && smallest >= SMALLEST * largest;
}

/* Whether steps i and i + 1, which are alike, multiply all sums by one factor: then steps before them share the row of
 * step i, and lambda is known. */
static bool settles(struct eps__histories_draws *draws, size_t i)
{
    double low = INFINITY, high = 0, scale = scale_of(draws, i);
    for (size_t state = 0; state < draws->states; state++) {
        double factor = sum_at(draws, i, state) / (sum_at(draws, i + 1, state) * scale);
        low = fmin(low, factor);
        high = fmax(high, factor);
    }
    if (!(high - low <= SETTLED * low) || draws->spread > 0)
        return false;
    draws->lambda = low;
    draws->log_lambda = Sleef_cinz_logd1_u10purec(low);
    draws->spread = (high - low) / low + 8 * EPS__UNIT_ROUNDOFF;
    return true;
}

/* Makes all rows, from the last step on. */
static enum eps_status make_rows(const struct eps_context *context, struct eps__histories_draws *draws, size_t room,
                                 double *events)
{
    double *met = malloc(draws->histories * sizeof *met);
    enum eps_status status = met ? EPS_OK : EPS_NO_MEMORY;
    bool sharing = false;
    struct step step;
    size_t used = 0;
    for (size_t i = draws->steps; status == EPS_OK && i-- > 0;) {
        bool alike = i + 1 < draws->steps && eps__histories_alike(&draws->law, i + 1);
        sharing = sharing && alike;
        if (sharing) {
            draws->row[i] = draws->row[i + 1];
            draws->exponent[i] = draws->exponent[i + 1];
            draws->power[i] = draws->power[i + 1] + 1;
            continue;
        }
        draws->row[i] = (uint32_t)used;
        if (!alike) {
            step_of(&step, draws, i);
            for (size_t history = 0; history < draws->histories; history++)
                met[history] = met_by(draws, &step, history);
        }
        if (used++ >= room || !make_row(draws, i, &step, met, events))
            status = EPS_UNSUPPORTED;
        else
            status = eps__poll(context);
        sharing = status == EPS_OK && alike && settles(draws, i);
    }
    free(met);
    if (status == EPS_OK)
        draws->log_z = Sleef_cinz_logd1_u10purec(sum_at(draws, 0, 0)) + draws->exponent[0] * M_LN2 +
                       draws->power[0] * draws->log_lambda;
    return status;
}

/* Sets log_z_error and log_density_error (M30). events: the least share of the subsets that are not empty. */
static void count_errors(struct eps__histories_draws *draws, double gram_units, double events)
{
    const struct eps__banded_gram *banded = &draws->banded;
    double most = 0, steps = (double)draws->steps, a = draws->copies, width = (double)banded->width;
    double subsets = exp2(a), drawn = (double)draws->most + (draws->law.warm ? a * (double)draws->steps : 0);
    for (size_t i = 0; i < banded->len; i++) {
        double sum = 0;
        for (size_t d = 0; d < banded->width; d++)
            sum += banded->gram[i * banded->width + d];
        most = fmax(most, sum);
    }
    double weights = 6 * a * a + 16 + (gram_units + width + 4) * a * a * most;
    double sums = steps * (subsets + a + 12) + drawn * weights;
    double shares = steps * 8 + drawn * (subsets + 40) * (1 / events + subsets);
    double spread = draws->spread / EPS__UNIT_ROUNDOFF;
    sums += steps * spread;
    shares += drawn * spread / events;
    double logs = fabs(draws->exponent[0] * M_LN2) + draws->power[0] * (1 + fabs(draws->log_lambda));
    draws->log_z_error = eps__raise(1.01 * EPS__UNIT_ROUNDOFF * (sums + 8 * (1 + logs)), 4);
    draws->log_density_error = eps__raise(1.01 * EPS__UNIT_ROUNDOFF * (sums + shares), 4);
}

void eps__histories_draws_free(struct eps__histories_draws *draws)
{
    if (!draws)
        return;
    free(draws->coins);
    free(draws->mask);
    free(draws->waits);
    free(draws->item);
    free(draws->to);
    free(draws->sums);
    free(draws->row);
    free(draws->power);
    free(draws->exponent);
    free(draws);
}

/* rows_of() is an estimate: there is room for as many rows as BYTES_MAX allows. */
static enum eps_status make(const struct eps_context *context, struct eps__histories_draws *draws, double gram_units)
{
    double events = 1, others = eps__histories_draws_bytes(&draws->law, draws->copies) -
                                8 * (double)draws->states * rows_of(&draws->law);
    size_t room = (size_t)fmin((BYTES_MAX - others) / (8 * (double)draws->states), (double)draws->steps);
    enum eps_status status = make_layout(context, draws);
    if (status != EPS_OK)
        return status;
    if (!make_coins(draws))
        return EPS_NO_MEMORY;
    draws->sums = malloc(room * draws->states * sizeof *draws->sums);
    draws->row = malloc(draws->steps * sizeof *draws->row);
    draws->power = calloc(draws->steps + 1, sizeof *draws->power);
    draws->exponent = calloc(draws->steps + 1, sizeof *draws->exponent);
    if (!draws->sums || !draws->row || !draws->power || !draws->exponent)
        return EPS_NO_MEMORY;
    status = make_rows(context, draws, room, &events);
    if (status != EPS_OK)
        return status;
    count_errors(draws, gram_units, events);
    return draws->log_density_error < INACCURATE ? EPS_OK : EPS_UNSUPPORTED;
}

enum eps_status eps__histories_draws_make(const struct eps_context *context, struct eps__histories_draws **out,
                                          const struct eps__histories *law, unsigned copies, double gram_units)
{
    assert(isfinite(eps__histories_draws_bytes(law, copies)) && law->banded->times == 0);
    size_t rounds = (law->banded->len - 1) / law->separation + 1;
    struct eps__histories_draws *draws = calloc(1, sizeof *draws);
    if (!draws)
        return EPS_NO_MEMORY;
    draws->banded = *law->banded;
    draws->law = *law;
    draws->law.banded = &draws->banded;
    draws->copies = copies;
    draws->lead = eps__histories_lead(law);
    draws->steps = eps__histories_steps(law);
    draws->states = (size_t)states_of(law, copies);
    draws->histories = (size_t)eps__subsets(law->banded->width - 1, law->separation);
    draws->most = copies * rounds < law->banded->len ? copies * rounds : law->banded->len;
    enum eps_status status = make(context, draws, gram_units);
    if (status == EPS_OK)
        *out = draws;
    else
        eps__histories_draws_free(draws);
    return status;
}

/* ------------------------------------------------------------ a draw */

/* The random numbers of a draw. */
struct source {
    const struct eps__stream *stream;
    uint32_t draw;
    size_t used;
};

static double next(struct source *source)
{
    return eps__uniform_fine(source->stream, source->draw, &source->used);
}

/* Draws one of the subsets of copies that are not empty, at step i. The parts are added up from the smallest on, so
 * that none is much smaller than the sum so far. */
static unsigned taken(const struct eps__histories_draws *draws, size_t i, size_t state, struct source *source)
{
    unsigned copies = draws->copies, len = 0, chosen[SUBSETS];
    double weight[SUBSETS], met[EPS__HISTORIES_DRAWN_MAX] = {0}, part[SUBSETS], sum = 0;
    const uint32_t *to = draws->to + (state << copies);
    struct step step;
    step_of(&step, draws, i);
    for (unsigned c = 0; c < copies; c++)
        met[c] = met_by(draws, &step, draws->item[state * copies + c]);
    weigh(weight, draws, &step, state, met);
    for (unsigned subset = 1; subset < 1u << copies; subset++) {
        double own = to[subset] != NO_STATE ? weight[subset] * sum_at(draws, i + 1, to[subset]) : 0;
        unsigned at = len;
        if (!(own > 0))
            continue;
        for (; at > 0 && part[at - 1] > own; at--) {
            part[at] = part[at - 1];
            chosen[at] = chosen[at - 1];
        }
        part[at] = own;
        chosen[at] = subset;
        len++;
        sum += own;
    }
    assert(len > 0);
    double u = sum * next(source), so_far = 0;
    for (unsigned k = 0; k + 1 < len; k++) {
        so_far += part[k];
        if (so_far > u)
            return chosen[k];
    }
    return chosen[len - 1];
}

size_t eps__histories_draws_next(struct eps__participated *out, const struct eps__histories_draws *draws,
                                 const struct eps__stream *stream, uint32_t draw)
{
    struct source source = {stream, draw, 0};
    unsigned copies = draws->copies;
    size_t len = 0, state = 0;
    double left = 1, u = next(&source);
    for (size_t i = 0; i < draws->steps; i++) {
        unsigned waiting = 0, subset = 0;
        for (unsigned c = 0; c < copies; c++)
            waiting += draws->waits[draws->item[state * copies + c]];
        if (waiting > 0) {
            size_t stays = draws->to[state << copies];
            left *= coins_of(draws, i)->taking[waiting][0] * (sum_at(draws, i + 1, stays) * scale_of(draws, i)) /
                    sum_at(draws, i, state);
            if (left < u) {
                subset = taken(draws, i, state, &source);
                assert(len < draws->most || i < draws->lead);
                if (i >= draws->lead)
                    out[len++] =
                        (struct eps__participated){(uint32_t)(i - draws->lead), (uint32_t)__builtin_popcount(subset)};
                left = 1;
                u = next(&source);
            }
        }
        state = draws->to[(state << copies) + subset];
    }
    return len;
}
