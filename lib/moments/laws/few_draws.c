/*
 * See few_draws.h. The subset of a group's copies that takes part in a step is drawn with its share of the products of
 * weights and sums. The shares are made from the sums as they are stored, and add up to 1; so the sums may be coarse,
 * and how much they differ from exact ones is a part of ln Z (M32).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/moments/laws/few_draws.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <sleef.h>

#include "lib/base/error.h"
#include "lib/base/progress.h"
#include "lib/moments/laws/few.h"
#include "lib/numerics/bound.h"

enum {
    GROUPS_MOST = EPS__FEW_DRAWN_MAX / 2,
    TILE = 32,   /* steps whose uniform numbers are made together, even */
    SETTLING = 4 /* rows of equal steps settle after about SETTLING widths */
};

#define OPERATIONS 1e8 /* of making the tables of a group, at most */
#define BYTES_MAX 134217728.0
#define SETTLED 4e-7      /* equal steps share a row if they multiply all its sums by one factor, within this share */
#define SMALLEST 0x1p-100 /* the least sum of a row, as a multiple of its largest */
#define FINE 0x1p-4       /* a uniform number below is replaced by a finer one: so many times another */
#define INACCURATE 1e-4   /* log_density_error must be below this */

/* ------------------------------------------------------------ sizes */

double eps__few_draws_times(unsigned group, unsigned groups)
{
    return groups > 1 ? eps__raise((group * groups - 1.0) / (group - 1.0), 2) : 0;
}

unsigned eps__few_draws_held(const struct eps__banded_gram *banded, unsigned group)
{
    return banded->p > 0 && banded->p < 1 ? eps__few_held(banded, group, OPERATIONS) : 0;
}

/* About the number of rows. */
static double rows_of(const struct eps__banded_gram *banded)
{
    double changes = (double)banded->changes, width = (double)banded->width;
    return fmin(changes + SETTLING * fmax(changes, width), (double)banded->len) + 1;
}

double eps__few_draws_bytes(const struct eps__banded_gram *banded, unsigned group)
{
    unsigned held = eps__few_draws_held(banded, group);
    double states = held > 0 ? eps__few_states(banded->width, group, held) : INFINITY;
    double each = 4 * rows_of(banded) + ldexp(20, (int)group) + 24 + 4 * held, step = 8 + 8 * (held + 1.0);
    double kinds = 8 * ((double)banded->width + ldexp(1, (int)group));
    double bytes =
        states * each + (double)banded->len * step + fmin((double)banded->changes + 1, (double)banded->len) * kinds;
    return bytes <= BYTES_MAX ? bytes : INFINITY;
}

double eps__few_draws_operations(const struct eps__banded_gram *banded, unsigned group)
{
    unsigned held = eps__few_draws_held(banded, group);
    return held > 0 ? 2 * eps__few_operations(banded, group, held) : INFINITY;
}

/* ------------------------------------------------------------ rows of sums */

/* Numbers the kinds of steps, and reads what they depend on. */
static enum eps_status make_kinds(struct eps__few_draws *draws, double *exponent_most)
{
    const struct eps__banded_gram *banded = &draws->banded;
    size_t kinds = 0, subsets = draws->chain.draws, ages = draws->chain.ages + 1;
    for (size_t i = 0; i < banded->len; i++) {
        const double *row = banded->gram + i * banded->width;
        kinds += i == 0 || memcmp(row - banded->width, row, banded->width * sizeof *row) != 0;
        draws->kind[i] = (uint32_t)kinds - 1;
    }
    draws->drawn = malloc(kinds * subsets * sizeof *draws->drawn);
    draws->entry = malloc(kinds * ages * sizeof *draws->entry);
    if (!draws->drawn || !draws->entry)
        return EPS_NO_MEMORY;
    for (size_t i = 0; i < banded->len; i++)
        if (i == 0 || draws->kind[i] != draws->kind[i - 1])
            *exponent_most =
                fmax(*exponent_most, eps__few_step(draws->drawn + draws->kind[i] * subsets,
                                                   draws->entry + draws->kind[i] * ages, &draws->chain, i));
    return EPS_OK;
}

/* parts[subset]: the products of weights and sums at state s of step i, for the next step's sums. Returns the sum of
 * those in which some copy takes part. */
static double parts_of(double *parts, const struct eps__few_draws *draws, size_t i, size_t s, const double *weights)
{
    const struct eps__few_chain *chain = &draws->chain;
    const float *sums = draws->sums + (size_t)draws->row[i + 1] * chain->len;
    const uint32_t *next = chain->next + s * chain->draws;
    double some = 0;
    parts[0] = weights[0] * (double)sums[next[0]];
    for (unsigned subset = 1; subset < chain->draws; subset++) {
        parts[subset] = weights[subset] * (double)sums[next[subset]];
        some += parts[subset];
    }
    return some;
}

/* What a step does to all sums. */
struct step {
    double least, most; /* by how much the sums grow from the next step's */
    double calmest;     /* the least share of no copy that takes part */
    double large, small;
};

/* The probability that some copy takes part. */
static double stirring_of(const double *parts, double some)
{
    return some / (parts[0] + some);
}

/* sum[state]: the sums at step i. Sets its row of `stirring`. */
static struct step step_back(double *sum, struct eps__few_draws *draws, size_t i)
{
    const struct eps__few_chain *chain = &draws->chain;
    const float *after = draws->sums + (size_t)draws->row[i + 1] * chain->len;
    double *stirring = draws->stirring + i * (chain->held + 1);
    struct step step = {.least = INFINITY, .calmest = 1, .small = INFINITY};
    for (unsigned k = 0; k <= chain->held; k++)
        stirring[k] = 0;
    for (size_t s = 0; s < chain->len; s++) {
        double parts[EPS__FEW_DRAWS_MOST], some = parts_of(parts, draws, i, s, chain->weights + s * chain->draws);
        sum[s] = parts[0] + some;
        double grown = sum[s] / (double)after[s];
        step.least = fmin(step.least, grown);
        step.most = fmax(step.most, grown);
        step.calmest = fmin(step.calmest, parts[0] / sum[s]);
        double *most = &stirring[draws->count[s]];
        *most = fmax(*most, stirring_of(parts, some));
        step.large = fmax(step.large, sum[s]);
        step.small = fmin(step.small, sum[s]);
    }
    return step;
}

/* Stores the sums of step i as row `row`, scaled by a power of two. Returns by how much the sums exceed the stored ones
 * at most. */
static double store(struct eps__few_draws *draws, size_t i, size_t row, const double *sum, double large)
{
    size_t len = draws->chain.len;
    float *to = draws->sums + row * len;
    double most = 0, scale = ldexp(1, -ilogb(large));
    for (size_t s = 0; s < len; s++) {
        to[s] = (float)(sum[s] * scale);
        most = fmax(most, sum[s] / (double)to[s]);
    }
    draws->row[i] = (uint32_t)row;
    return most;
}

static bool enlarge(struct eps__few_draws *draws, size_t rows)
{
    float *larger = realloc(draws->sums, rows * draws->chain.len * sizeof *draws->sums);
    if (larger)
        draws->sums = larger;
    return larger != NULL;
}

/* Makes the rows from the last step to the first, and ln Z of a group. *calmest: the least share of no copy that takes
 * part. */
static enum eps_status make_rows(const struct eps_context *context, struct eps__few_draws *draws, double *sum,
                                 double *exponent_most, double *calmest)
{
    struct eps__few_chain *chain = &draws->chain;
    size_t n = draws->banded.len, counts = chain->held + 1, room = (size_t)rows_of(&draws->banded) + 1, rows = 1;
    eps__quad log_z = 0;
    bool sharing = false;
    struct step step = {0};
    if (!enlarge(draws, room))
        return EPS_NO_MEMORY;
    for (size_t s = 0; s < chain->len; s++)
        draws->sums[s] = 1;
    draws->row[n] = 0;
    for (size_t i = n; i-- > 0;) {
        bool alike = i + 1 < n && draws->kind[i] == draws->kind[i + 1];
        enum eps_status status = eps__poll(context);
        if (status != EPS_OK)
            return status;
        sharing = sharing && alike;
        if (!alike && !eps__few_weigh(chain, i, exponent_most))
            return EPS_UNSUPPORTED;
        if (!sharing) {
            step = step_back(sum, draws, i);
            if (!(step.large < INFINITY && step.small >= SMALLEST * step.large))
                return EPS_UNSUPPORTED;
            *calmest = fmin(*calmest, step.calmest);
            sharing = alike && step.most - step.least <= SETTLED * step.least;
        } else
            memcpy(draws->stirring + i * counts, draws->stirring + (i + 1) * counts, counts * sizeof *draws->stirring);
        if (rows == room && !sharing && !enlarge(draws, room *= 2))
            return EPS_NO_MEMORY;
        draws->row[i] = draws->row[i + 1];
        log_z += Sleef_cinz_logd1_u10purec(sharing ? step.most : store(draws, i, rows++, sum, step.large));
        if ((double)rows * 4 * (double)chain->len > BYTES_MAX)
            return EPS_UNSUPPORTED;
    }
    log_z += Sleef_cinz_logd1_u10purec((double)draws->sums[draws->row[0] * chain->len]);
    draws->log_z = (double)log_z;
    return EPS_OK;
}

/* ------------------------------------------------------------ the tables */

/* The errors of M32 for one group, then of all. */
static void count_errors(struct eps__few_draws *draws, double gram_units, double exponent_most, double calmest)
{
    double n = (double)draws->banded.len, subsets = draws->chain.draws, groups = draws->groups;
    double each = eps__few_step_units(exponent_most) + 16;
    double meetings = eps__banded_meetings(&draws->banded, 1, draws->chain.copies);
    double sums = n * each + (gram_units + 8) * meetings + 4 * fabs(draws->log_z);
    double shares = n * (16 / calmest + subsets * (subsets + 16));
    draws->log_z *= groups;
    draws->log_z_error = eps__raise(1.01 * EPS__UNIT_ROUNDOFF * groups * sums, 8);
    draws->log_density_error = eps__raise(1.01 * EPS__UNIT_ROUNDOFF * groups * (sums + shares), 8);
}

/* The weights of a state at step i. */
static void weigh(double *weights, const struct eps__few_draws *draws, size_t i, size_t s)
{
    const struct eps__few_chain *chain = &draws->chain;
    size_t kind = draws->kind[i];
    (void)eps__few_weigh_state(weights, chain, draws->drawn + kind * chain->draws,
                               draws->entry + kind * (chain->ages + 1), s);
}

static enum eps_status make(const struct eps_context *context, struct eps__few_draws *draws, unsigned group,
                            double gram_units)
{
    size_t n = draws->banded.len;
    enum eps_status status =
        eps__few_chain_make(context, &draws->chain, &draws->banded, group, eps__few_draws_held(&draws->banded, group));
    if (status != EPS_OK)
        return status;
    double exponent_most = draws->chain.paid_most, calmest = 1;
    draws->row = malloc((n + 1) * sizeof *draws->row);
    draws->kind = malloc(n * sizeof *draws->kind);
    draws->stirring = malloc(n * (draws->chain.held + 1) * sizeof *draws->stirring);
    draws->count = calloc(draws->chain.len, sizeof *draws->count);
    double *sum = malloc(draws->chain.len * sizeof *sum);
    bool room = draws->row && draws->kind && draws->stirring && draws->count && sum;
    for (size_t s = 0; room && s < draws->chain.len; s++)
        while (draws->count[s] < draws->chain.held &&
               draws->chain.parts[s * draws->chain.held + draws->count[s]].age > 0)
            draws->count[s]++;
    status = room ? make_kinds(draws, &exponent_most) : EPS_NO_MEMORY;
    if (status == EPS_OK)
        status = make_rows(context, draws, sum, &exponent_most, &calmest);
    free(sum);
    if (status != EPS_OK)
        return status;
    count_errors(draws, gram_units, exponent_most, calmest);
    return draws->log_density_error < INACCURATE ? EPS_OK : EPS_UNSUPPORTED;
}

enum eps_status eps__few_draws_make(const struct eps_context *context, struct eps__few_draws **out,
                                    const struct eps__banded_gram *banded, unsigned group, unsigned groups,
                                    double gram_units)
{
    assert(isfinite(eps__few_draws_bytes(banded, group)) && banded->times == 0 && groups >= 1 &&
           group * groups <= EPS__FEW_DRAWN_MAX);
    struct eps__few_draws *draws = calloc(1, sizeof *draws);
    if (!draws)
        return EPS_NO_MEMORY;
    draws->banded = *banded;
    draws->banded.times = eps__few_draws_times(group, groups);
    draws->copies = group * groups;
    draws->groups = groups;
    draws->most = banded->len;
    enum eps_status status = make(context, draws, group, gram_units);
    if (status == EPS_OK)
        *out = draws;
    else
        eps__few_draws_free(draws);
    return status;
}

void eps__few_draws_free(struct eps__few_draws *draws)
{
    if (!draws)
        return;
    eps__few_chain_clear(&draws->chain);
    free(draws->sums);
    free(draws->row);
    free(draws->kind);
    free(draws->drawn);
    free(draws->entry);
    free(draws->stirring);
    free(draws->count);
    free(draws);
}

/* ------------------------------------------------------------ a draw */

/* The subset, not the empty one, at `share` of the sum of their parts, 0 < share < 1. The parts are added up from the
 * smallest on, so that none is much smaller than the sum so far. */
static unsigned subset_of(const double *parts, unsigned subsets, double share)
{
    unsigned order[EPS__FEW_DRAWS_MOST], len = 0;
    double sum = 0, so_far = 0;
    for (unsigned subset = 1; subset < subsets; subset++) {
        unsigned at = len++;
        for (; at > 0 && parts[order[at - 1]] > parts[subset]; at--)
            order[at] = order[at - 1];
        order[at] = subset;
        sum += parts[subset];
    }
    for (unsigned k = 0; k + 1 < len; k++) {
        so_far += parts[order[k]];
        if (so_far > share * sum)
            return order[k];
    }
    return order[len - 1];
}

/* A draw of one lane. */
struct lane {
    struct eps__participated *out;
    size_t len, used; /* used: uniform numbers beyond those of the steps */
    uint32_t state[GROUPS_MOST];
};

/* The subset of a group's copies that takes part in step i, for the group's uniform number of that step, which is below
 * the largest probability for states of its count. */
static unsigned taken(const struct eps__few_draws *draws, size_t i, size_t s, double u, struct lane *lane,
                      const struct eps__stream *stream, uint32_t draw)
{
    double parts[EPS__FEW_DRAWS_MOST], weights[EPS__FEW_DRAWS_MOST];
    weigh(weights, draws, i, s);
    if (u >= stirring_of(parts, parts_of(parts, draws, i, s, weights)))
        return 0;
    return subset_of(parts, draws->chain.draws, eps__uniform_fine(stream, draw, &lane->used));
}

/* Step i of a lane. u: a uniform number for each group, EPS__LANES apart. */
static void step_lane(const struct eps__few_draws *draws, size_t i, const double *u, struct lane *lane,
                      const struct eps__stream *stream, uint32_t draw)
{
    const struct eps__few_chain *chain = &draws->chain;
    const double *stirring = draws->stirring + i * (chain->held + 1);
    unsigned took = 0;
    for (unsigned g = 0; g < draws->groups; g++, u += EPS__LANES) {
        uint32_t s = lane->state[g];
        unsigned subset = 0;
        double fine = *u >= FINE ? *u : FINE * eps__uniform_fine(stream, draw, &lane->used);
        if (fine < stirring[draws->count[s]])
            subset = taken(draws, i, s, fine, lane, stream, draw);
        took += (unsigned)__builtin_popcount(subset);
        lane->state[g] = chain->next[s * chain->draws + subset];
    }
    if (took > 0)
        lane->out[lane->len++] = (struct eps__participated){(uint32_t)i, took};
}

void eps__few_draws_lanes(struct eps__participated *out, size_t most, size_t *len, const struct eps__few_draws *draws,
                          const struct eps__stream *stream, uint32_t draw)
{
    double uniforms[TILE * GROUPS_MOST * EPS__LANES];
    struct lane lanes[EPS__LANES];
    size_t n = draws->banded.len, groups = draws->groups;
    for (size_t l = 0; l < EPS__LANES; l++)
        lanes[l] = (struct lane){.out = out + l * most, .used = (n + TILE) * groups};
    for (size_t from = 0; from < n; from += TILE) {
        size_t end = from + TILE < n ? from + TILE : n;
        eps__uniforms(uniforms, stream, draw, from * groups, TILE * groups);
        for (size_t l = 0; l < EPS__LANES; l++)
            for (size_t i = from; i < end; i++)
                step_lane(draws, i, uniforms + (i - from) * groups * EPS__LANES + l, &lanes[l], stream,
                          draw + (uint32_t)l);
    }
    for (size_t l = 0; l < EPS__LANES; l++) {
        assert(lanes[l].len <= draws->most);
        len[l] = lanes[l].len;
    }
}
