/*
 * Each row becomes one dominating pair: the mixture over the law of its shift against N(0, 1) for remove, and N(0, 1)
 * against the mixture for add. The two estimates differ by the rounding of the odds.
 *
 * The tail bounds of the rows are computed in parallel, in runs of consecutive rows. Each run starts its own walk from
 * the first row, because walking is cheap compared with the bounds.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/conditional_composition/compose.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"

enum {
    ATOMS_MAX = 48,   /* the most atoms of a row's law */
    ROUGH_ATOMS = 16, /* the same for unproven compositions */
    SAMPLE = 24,      /* a sample has at most 2 SAMPLE rows */
    RUNS = 16,        /* the number of runs */
    FEW_ROWS = 64,    /* the most rows that are not merged */
    ALIKE_BEFORE = 8  /* the number of earlier rows that a row is compared with */
};

#define ALIKE 0.003 /* rows whose log odds differ by at most this are merged, with the larger odds */

/* ------------------------------------------------------------ one row */

struct row {
    size_t step;
    uint64_t count;                    /* the number of rows that it represents */
    struct eps__cc_places places[2];   /* by estimate; quick: only the first, and its odds are filled in later */
    struct eps__cc_minorant *minorant; /* quick: by place */
    uint64_t bounds;                   /* the number of tail bounds that were used */
    bool merged; /* it represents other rows, too; its own odds follow the merged ones in log_odds */
    enum eps_status status;
};

static void places_clear(struct eps__cc_places *places)
{
    free(places->shift);
    free(places->log_odds);
    *places = (struct eps__cc_places){0};
}

static void row_clear(struct row *row)
{
    for (size_t k = 0; row->minorant && k < row->places[0].len; k++)
        eps__cc_minorant_clear(&row->minorant[k]);
    free(row->minorant);
    for (int estimate = 0; estimate < 2; estimate++)
        places_clear(&row->places[estimate]);
}

static bool places_alloc(struct eps__cc_places *places, const struct eps__cc_walk *walk)
{
    places->len = walk->steps->bins - walk->still;
    places->rest = walk->still > 0;
    places->shift = malloc((places->len + 1) * sizeof *places->shift);
    places->log_odds = malloc((2 * places->len + 1) * sizeof *places->log_odds); /* room for merge_row() */
    if (!places->shift || !places->log_odds)
        return false;
    for (size_t k = 0; k < places->len; k++)
        places->shift[k] = eps__cc_row(walk)[walk->order[walk->still + k]];
    return true;
}

static struct eps__branch *make_branch(const struct eps__cc_places *upper, const struct eps__cc_places *lower,
                                       enum eps_direction direction, double shift_error, size_t atoms_max)
{
    struct eps__branch *branch = calloc(1, sizeof *branch);
    struct eps__cc_law laws[2] = {0};
    bool made = branch && eps__cc_law_make(&laws[EPS__UPPER], upper) && eps__cc_law_make(&laws[EPS__LOWER], lower);
    if (made) {
        eps__cc_law_thin(&laws[EPS__UPPER], atoms_max);
        eps__cc_law_follow(&laws[EPS__LOWER], &laws[EPS__UPPER]);
    }
    for (int estimate = 0; estimate < 2 && made; estimate++) {
        struct eps__pair *pair = &branch->pair[estimate];
        struct eps__mixture *own = direction == EPS_REMOVE ? &pair->numerator : &pair->denominator;
        struct eps__mixture *other = direction == EPS_REMOVE ? &pair->denominator : &pair->numerator;
        const struct eps__cc_law *law = &laws[estimate];
        made = eps__mixture_alloc(own, law->len) && eps__mixture_alloc(other, 1);
        for (size_t i = 0; made && i < law->len; i++) {
            own->weight[i] = law->weight[i];
            own->shift[i] = estimate == EPS__UPPER ? law->shift[i] : law->shift[i] * (1 - shift_error);
        }
        if (made) {
            own->whole = other->whole = true;
            other->weight[0] = 1;
            pair->weight_error = law->error;
            branch->weight[estimate] = 1;
        }
    }
    for (int estimate = 0; estimate < 2; estimate++)
        eps__cc_law_clear(&laws[estimate]);
    if (!made && branch) {
        eps__branch_clear(branch);
        free(branch);
    }
    return made ? branch : NULL;
}

/* ------------------------------------------------------------ the rows, in parallel */

struct rows {
    const struct eps__cc_steps *steps;
    const struct eps_context *context;
    enum eps_direction direction;
    double log_beta;
    bool quick;
    struct row *items;
    size_t len;
    struct eps__meter *meter;
    double operations;
};

/* Finds the minorants of the walk's current row. Unless rows->quick is true, it computes their odds and drops them. */
static enum eps_status bound_row(struct row *row, const struct rows *rows, const struct eps__cc_walk *walk,
                                 struct eps__cc_room *room)
{
    if (!places_alloc(&row->places[EPS__UPPER], walk) ||
        (!rows->quick && !places_alloc(&row->places[EPS__LOWER], walk)))
        return EPS_NO_MEMORY;
    size_t len = row->places[EPS__UPPER].len;
    if (rows->quick && !(row->minorant = calloc(len + 1, sizeof *row->minorant)))
        return EPS_NO_MEMORY;
    for (size_t k = 0; k < len; k++) {
        struct eps__cc_minorant own, *minorant = rows->quick ? &row->minorant[k] : &own;
        enum eps_status status = eps__poll(rows->context);
        if (status != EPS_OK)
            return status;
        bool found =
            eps__cc_minorant_find(minorant, walk, walk->still + k, rows->direction, rows->log_beta, rows->quick, room);
        row->bounds += minorant->others > 0;
        if (found && !rows->quick) {
            double odds[2];
            eps__cc_minorant_odds(minorant, rows->log_beta, odds);
            for (int estimate = 0; estimate < 2; estimate++)
                row->places[estimate].log_odds[k] = odds[estimate];
        }
        if (!rows->quick)
            eps__cc_minorant_clear(minorant);
        if (!found)
            return EPS_NO_MEMORY;
    }
    return EPS_OK;
}

/* Whether the row has the entries of `other` and nearly its odds. The comparison uses the odds that `other` had before
 * any row was merged into it, so that the odds cannot drift. */
static bool alike(const struct row *row, const struct row *other)
{
    const struct eps__cc_places *own = &row->places[EPS__UPPER], *its = &other->places[EPS__UPPER];
    const double *odds = its->log_odds + (other->merged ? its->len : 0);
    if (own->len != its->len || own->rest != its->rest)
        return false;
    for (size_t k = 0; k < own->len; k++)
        if (own->shift[k] != its->shift[k] ||
            !(own->log_odds[k] == odds[k] || fabs(own->log_odds[k] - odds[k]) <= ALIKE))
            return false;
    return true;
}

/* Merges the row into one of the rows just before it if they are alike. The larger odds are bounds for both (A10). */
static void merge_row(struct row *row, struct row *first)
{
    for (struct row *other = row; other-- > first && row - other <= ALIKE_BEFORE;) {
        if (other->count == 0 || !alike(row, other))
            continue;
        size_t len = row->places[EPS__UPPER].len;
        struct eps__cc_places *upper = &other->places[EPS__UPPER];
        if (!other->merged)
            memcpy(upper->log_odds + len, upper->log_odds, len * sizeof *upper->log_odds);
        other->merged = true;
        for (int estimate = 0; estimate < 2; estimate++) {
            double *own = row->places[estimate].log_odds, *its = other->places[estimate].log_odds;
            for (size_t k = 0; k < len; k++) {
                its[k] = fmax(its[k], own[k]);
                assert(its[k] >= own[k]);
            }
            places_clear(&row->places[estimate]);
        }
        other->count += row->count;
        row->count = 0;
        return;
    }
}

static void bound_run(void *user, size_t index)
{
    const struct rows *rows = user;
    size_t from = index * rows->len / RUNS, to = (index + 1) * rows->len / RUNS;
    if (from == to)
        return;
    struct eps__cc_walk *walk = NULL;
    struct eps__cc_room *room = eps__cc_room_create(rows->steps->bins);
    enum eps_status status = room ? eps__cc_walk_create(&walk, rows->steps) : EPS_NO_MEMORY;
    for (size_t k = from; k < to && status == EPS_OK; k++) {
        while (walk->at < rows->items[k].step && (status = eps__poll(rows->context)) == EPS_OK)
            eps__cc_walk_advance(walk);
        if (status == EPS_OK)
            status = bound_row(&rows->items[k], rows, walk, room);
        if (status == EPS_OK && !rows->quick && rows->len > FEW_ROWS)
            merge_row(&rows->items[k], &rows->items[from]);
        eps__meter_add(rows->meter, rows->operations / (double)rows->len);
    }
    rows->items[from].status = status;
    eps__cc_walk_destroy(walk);
    eps__cc_room_destroy(room);
}

static enum eps_status bound_all(struct rows *rows)
{
    if (rows->context && rows->context->parallel_for)
        rows->context->parallel_for(rows->context->user, RUNS, bound_run, rows);
    for (size_t i = 0; !(rows->context && rows->context->parallel_for) && i < RUNS; i++)
        bound_run(rows, i);
    for (size_t k = 0; k < rows->len; k++)
        if (rows->items[k].status != EPS_OK)
            return rows->items[k].status;
    return EPS_OK;
}

static void rows_clear(struct rows *rows)
{
    for (size_t k = 0; rows->items && k < rows->len; k++)
        row_clear(&rows->items[k]);
    free(rows->items);
}

enum eps_status eps__cc_compose(struct eps__composition *composition, const struct eps__cc_steps *steps,
                                const struct eps_context *context, const struct eps__cc_plan *plan)
{
    struct rows rows = {.steps = steps,
                        .context = context,
                        .direction = plan->direction,
                        .log_beta = plan->log_beta,
                        .len = steps->len,
                        .meter = plan->meter,
                        .operations = plan->operations};
    rows.items = calloc(steps->len + 1, sizeof *rows.items);
    if (!rows.items)
        return EPS_NO_MEMORY;
    for (size_t k = 0; k < steps->len; k++)
        rows.items[k] = (struct row){.step = k, .count = steps->draws};
    enum eps_status status = bound_all(&rows);
    uint64_t bounds = 0, total = 0;
    for (size_t k = 0; k < steps->len && status == EPS_OK; k++) {
        const struct row *row = &rows.items[k];
        bounds += row->bounds;
        total += row->count;
        if (row->count == 0)
            continue;
        struct eps__branch *branch =
            make_branch(&row->places[EPS__UPPER], &row->places[EPS__LOWER], plan->direction, steps->error, ATOMS_MAX);
        status = branch ? eps__composition_add(composition, branch, 1, row->count) : EPS_NO_MEMORY;
    }
    /* (A10, A13): every bound had its share of delta_1, and every row of every draw is composed */
    assert(status != EPS_OK || (bounds == steps->bounds && total == steps->len * steps->draws));
    rows_clear(&rows);
    return status;
}

/* ------------------------------------------------------------ a sample of the rows */

struct eps__cc_sample {
    struct rows rows;
};

void eps__cc_sample_destroy(struct eps__cc_sample *sample)
{
    if (!sample)
        return;
    rows_clear(&sample->rows);
    free(sample);
}

enum eps_status eps__cc_sample_create(struct eps__cc_sample **out, const struct eps__cc_steps *steps,
                                      const struct eps_context *context, enum eps_direction direction, double log_beta)
{
    struct eps__cc_sample *sample = calloc(1, sizeof *sample);
    if (!sample)
        return EPS_NO_MEMORY;
    struct rows *rows = &sample->rows;
    *rows =
        (struct rows){.steps = steps, .context = context, .direction = direction, .log_beta = log_beta, .quick = true};
    size_t stride = steps->len > 2 * SAMPLE ? steps->len / SAMPLE : 1;
    rows->len = (steps->len + stride - 1) / stride;
    rows->items = calloc(rows->len + 1, sizeof *rows->items);
    enum eps_status status = rows->items ? EPS_OK : EPS_NO_MEMORY;
    for (size_t k = 0; k < rows->len && status == EPS_OK; k++) {
        size_t from = k * stride, to = from + stride < steps->len ? from + stride : steps->len;
        /* The place within the stride is pseudo-random, because rows may alternate. */
        rows->items[k] =
            (struct row){.step = from + (k * 2654435769u >> 7) % (to - from), .count = (to - from) * steps->draws};
    }
    if (status == EPS_OK)
        status = bound_all(rows);
    if (status != EPS_OK) {
        eps__cc_sample_destroy(sample);
        return status;
    }
    *out = sample;
    return EPS_OK;
}

enum eps_status eps__cc_sample_compose(struct eps__composition *composition, const struct eps__cc_sample *sample,
                                       double log_beta)
{
    const struct rows *rows = &sample->rows;
    for (size_t k = 0; k < rows->len; k++) {
        const struct row *row = &rows->items[k];
        for (size_t i = 0; i < row->places[0].len; i++) {
            double odds[2];
            eps__cc_minorant_odds(&row->minorant[i], log_beta, odds);
            row->places[0].log_odds[i] = odds[EPS__UPPER];
        }
        struct eps__branch *branch =
            make_branch(&row->places[0], &row->places[0], rows->direction, rows->steps->error, ROUGH_ATOMS);
        enum eps_status status = branch ? eps__composition_add(composition, branch, 1, row->count) : EPS_NO_MEMORY;
        if (status != EPS_OK)
            return status;
    }
    return EPS_OK;
}
