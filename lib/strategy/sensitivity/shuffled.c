/*
 * The schema shuffled: one step in each of k epochs of b steps, at any place in it. The bound is the least of
 *   min_separation     the patterns of k steps with no minimum distance
 *   epoch_bound        the sum over epochs of the largest value of a step: its squared column norm plus, for every
 *                      other epoch, its largest overlap with a column there; exact if columns of different epochs
 *                      never overlap (F6)
 *   toeplitz_epochs    the same for long Toeplitz matrices, by distance alone, through the least non-increasing
 *                      first column above |c| (F6)
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <assert.h>
#include <stdlib.h>

#include "lib/strategy/failures.h"
#include "lib/strategy/sensitivity/sensitivity.h"

enum { GRAM_MAX = 2048, BANDS_MAX = 1 << 15 };

#define ENTRIES_MAX 1e9 /* entries of the Gram matrices of all stamps */

/* ------------------------------------------------------------ by rows of the Gram matrix */

struct walk {
    const struct eps_strategy *s;
    const struct eps__participation *participation;
    double *gram; /* the Gram matrix of a block; NULL: entries are computed one by one */
    bool overlap; /* some columns of different epochs overlap */
    struct eps__sum upper, lower;
};

/* |X_ij| within one block, rounded up. */
static double overlap(const struct walk *w, size_t i, size_t j)
{
    const struct eps_strategy *s = w->s;
    double x = w->gram ? w->gram[i * s->block + j] : s->kind->gram_entry(s, i, j);
    double norms = eps__strategy_column_norm(s, i) * eps__strategy_column_norm(s, j);
    return fabs(x) + eps__raise(s->gram_error * norms, 4);
}

/* An upper bound on the sum over the other epochs of the column's largest overlap there. */
static double others(struct walk *w, size_t column)
{
    size_t m = w->s->block, b = w->participation->shuffled, own = column % m, start = column - own;
    size_t first = own + 1 > w->s->bands ? own + 1 - w->s->bands : 0, end = own + w->s->bands;
    double sum = 0, most = 0;
    end = end < m ? end : m;
    for (size_t j = first, epoch = SIZE_MAX; j < end; j++) {
        size_t at = (start + j) / b;
        if (at == column / b || at >= w->participation->epochs)
            continue;
        if (at != epoch) {
            sum += most;
            most = 0;
            epoch = at;
        }
        most = fmax(most, overlap(w, own, j));
    }
    sum += most;
    w->overlap = w->overlap || sum > 0;
    return eps__raise(sum, (double)w->participation->epochs + 4);
}

static enum eps_status walk_epochs(const struct eps_context *context, struct walk *w, struct eps_error *error)
{
    enum eps_status status = EPS_OK;
    size_t b = w->participation->shuffled, seen = 0;
    for (size_t epoch = 0; epoch < w->participation->epochs && status == EPS_OK; epoch++) {
        double upper = 0, lower = 0;
        for (size_t column = epoch * b; column < (epoch + 1) * b && status == EPS_OK; column++, seen++) {
            const struct eps__interval *square = eps__column_square(w->s, column);
            upper = fmax(upper, eps__add_up(square->upper, others(w, column)));
            lower = fmax(lower, square->lower);
            if (column % 64 == 0)
                status = eps__strategy_poll(context, error);
        }
        eps__sum_add(&w->upper, upper);
        eps__sum_add(&w->lower, lower);
    }
    assert(seen == w->participation->epochs * b || status != EPS_OK); /* every step of every epoch was visited */
    return status;
}

static bool small(const struct eps_strategy *s)
{
    double width = (double)(2 * s->bands < s->block ? 2 * s->bands : s->block);
    return (double)s->n * width <= ENTRIES_MAX && (s->kind->gram_entry || s->block <= GRAM_MAX);
}

static enum eps_status epoch_bound(const struct eps_context *context, struct eps__square *out, struct eps_error *error,
                                   const struct eps_strategy *s, const struct eps__participation *participation)
{
    struct walk w = {.s = s, .participation = participation};
    size_t m = s->block;
    struct eps__work work = {.context = context};
    if (!s->kind->gram_entry) {
        w.gram = malloc(m * m * sizeof *w.gram);
        if (!w.gram || !s->kind->gram(&work, s, w.gram, m, 0, 1, m)) {
            free(w.gram);
            return eps__strategy_stopped(error, work.status != EPS_OK ? work.status : EPS_NO_MEMORY);
        }
    }
    enum eps_status status = walk_epochs(context, &w, error);
    double slack =
        4 * ((double)participation->epochs * s->gram_error + ((double)participation->epochs + 16) * EPS__UNIT_ROUNDOFF);
    out->value.upper = eps__sum_interval(&w.upper, 0).upper;
    out->value.lower = w.overlap ? out->value.upper * (1 - fmin(slack, 1)) : eps__sum_interval(&w.lower, 0).lower;
    out->rule = "epoch_bound";
    out->exact = !w.overlap;
    free(w.gram);
    return status;
}

/* ------------------------------------------------------------ by distances */

static enum eps_status toeplitz_epochs(const struct eps_context *context, struct eps__square *out,
                                       struct eps_error *error, const struct eps_strategy *s,
                                       const struct eps__participation *participation)
{
    size_t len = s->entries_len, b = participation->shuffled;
    double *above = malloc(len * sizeof *above), *lag = malloc(len * sizeof *lag), worst = 0;
    enum eps_status status = above && lag ? EPS_OK : eps__strategy_no_memory(error);
    for (size_t i = len; status == EPS_OK && i-- > 0;)
        above[i] = fmax(fabs(s->entries[i]), i + 1 < len ? above[i + 1] : 0);
    for (size_t d = 0; d < len && status == EPS_OK; d++) {
        lag[d] = 0;
        for (size_t i = d; i < len; i++)
            lag[d] += above[i] * above[i - d];
        if (d % 64 == 0)
            status = eps__strategy_poll(context, error);
    }
    /* `before` steps of the column's epoch precede it, and b - 1 - before follow it */
    for (size_t before = 0; before < b && status == EPS_OK; before++) {
        double sum = lag[0];
        for (size_t left = before + 1, e = 1; left < len && e < participation->epochs; left += b, e++)
            sum += lag[left];
        for (size_t right = b - before, e = 1; right < len && e < participation->epochs; right += b, e++)
            sum += lag[right];
        worst = fmax(worst, sum);
    }
    double units = (double)len + 2 * (double)participation->epochs + 16;
    out->value.upper = eps__raise(eps__raise(worst, units) * (double)participation->epochs + EPS__SUM_TINY, 4);
    out->value.lower = eps__lower(worst * (double)participation->epochs, units + 4);
    out->rule = "toeplitz_epochs";
    out->exact = false;
    free(above);
    free(lag);
    return status;
}

enum eps_status eps__shuffled_square(const struct eps_context *context, struct eps__square *out,
                                     struct eps_error *error, const struct eps_strategy *s,
                                     const struct eps__participation *participation)
{
    struct eps__participation anywhere = {.epochs = participation->epochs, .separation = 1};
    bool distances = s->kind->shape == EPS__SHAPE_TOEPLITZ && s->bands <= BANDS_MAX;
    struct eps__square own;
    assert(participation->shuffled > 0 && participation->epochs <= s->n / participation->shuffled);
    enum eps_status status = eps__participation_square(context, out, error, s, &anywhere);
    if (status != EPS_OK)
        return status;
    out->exact = out->exact && s->bands == 1 && eps_strategy_is_toeplitz(s); /* all columns are equal */
    if (out->exact || !(small(s) || distances))
        return EPS_OK;
    status = small(s) ? epoch_bound(context, &own, error, s, participation)
                      : toeplitz_epochs(context, &own, error, s, participation);
    if (status == EPS_OK && (own.exact || own.value.upper < out->value.upper))
        *out = own;
    return status;
}
