/*
 * The schema min_separation: at most k steps, any two at least b apart. There are too many patterns to enumerate, so
 * the rules are
 *   banded_columns      columns b apart share no row: the best k separated squared column norms, by dynamic
 *                       programming: exact
 *   decreasing_toeplitz non-negative and non-increasing first column: the earliest steps are the worst
 *                       (Kalinin and Lampert 2024, theorem 2): exact
 *   toeplitz_majorant   any other Toeplitz matrix, through the least such matrix above |C|
 *   row_bound           the best separated sum over rows i of the best separated sum over j of |X_ij|
 *   level_bound         trees
 *
 * Separated sums with a limit on their number are bounded by Lagrangian relaxation. The constraint matrix has
 * consecutive ones, so it is totally unimodular and there is no duality gap; every multiplier gives a valid bound.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/numerics/normal.h"
#include "lib/strategy/failures.h"
#include "lib/strategy/sensitivity/sensitivity.h"

/* The largest Toeplitz block whose Gram matrix is formed for the row bound. */
static const size_t row_bound_max = 2048;

/* A relative rise of a first column that counts as rounding, as in a computed column that converges to a constant. The
 * upper bound still comes from the majorant, and the lower end from the unmodified column. */
static const double rounded_rise = 0x1p-40;

/* ---- sums of separated numbers ---- */

/* *out: the largest sum of at most k of x[0..n-1] >= 0 at least b apart, computed with at most k additions. */
static enum eps_status best_separated_sum(const struct eps_context *context, double *out, struct eps_error *error,
                                          const double *x, size_t n, size_t k, size_t b)
{
    enum eps_status status = EPS_OK;
    double *before = calloc(n + 1, sizeof *before), *after = calloc(n + 1, sizeof *after);
    if (!before || !after) {
        status = eps__strategy_no_memory(error);
        goto out;
    }
    /* after[i]: the best sum from index i on, with one more term than before[i]. */
    for (size_t count = 0; count < k; count++) {
        if ((status = eps__strategy_poll(context, error)) != EPS_OK)
            goto out;
        for (size_t i = n; i-- > 0;)
            after[i] = fmax(after[i + 1], x[i] + (n - i > b ? before[i + b] : 0));
        double *swap = before;
        before = after;
        after = swap;
    }
    *out = before[0];
out:
    free(before);
    free(after);
    return status;
}

double eps__separated_error(size_t terms)
{
    return (4 * (double)terms + 16) * EPS__UNIT_ROUNDOFF;
}

/* The best separated sum of x - price with no limit on the number of terms; *count: its number of terms. */
static double priced_sum(const double *x, size_t n, size_t b, double price, double *best, uint32_t *taken,
                         size_t *count)
{
    best[n] = 0;
    taken[n] = 0;
    for (size_t i = n; i-- > 0;) {
        size_t next = n - i > b ? i + b : n;
        double with = x[i] - price + best[next];
        bool take = with > best[i + 1];
        best[i] = take ? with : best[i + 1];
        taken[i] = take ? taken[next] + 1 : taken[i + 1];
    }
    *count = taken[0];
    return best[0];
}

double eps__separated_bound(const double *x, size_t n, size_t k, size_t b, double *best, uint32_t *taken)
{
    size_t count, terms = (n - 1) / b + 1;
    double bound = priced_sum(x, n, b, 0, best, taken, &count), low = 0, high = 0;
    if (count > k) {
        for (size_t i = 0; i < n; i++)
            high = fmax(high, x[i]);
        for (int step = 0; step < 50; step++) {
            double price = (low + high) / 2;
            bound = fmin(bound, (double)k * price + priced_sum(x, n, b, price, best, taken, &count));
            if (count == k)
                break;
            if (count > k)
                low = price;
            else
                high = price;
        }
    }
    return bound * (1 + eps__separated_error(terms));
}

/* ---- the rules ---- */

/* Columns of a pattern are orthogonal. Takes the earliest longest columns first, which usually suffice. */
static enum eps_status orthogonal(const struct eps_context *context, struct eps__square *out, struct eps_error *error,
                                  const struct eps_strategy *s, const struct eps__participation *participation)
{
    struct eps__interval longest = {0};
    for (size_t i = 0; i < s->squares_len; i++)
        if (s->squares[i].upper > longest.upper)
            longest = s->squares[i];
    size_t found = 0;
    for (size_t at = 0; at < s->n && found < participation->epochs;) {
        bool take = eps__column_square(s, at)->upper >= longest.upper;
        found += take;
        at += take ? participation->separation : 1;
    }
    *out = (struct eps__square){.rule = "banded_columns", .exact = true};
    if (found == participation->epochs) {
        out->value.lower = eps__multiply_down(longest.lower, (double)found);
        out->value.upper = eps__multiply_up(longest.upper, (double)found);
        return EPS_OK;
    }
    double *x = malloc(s->n * sizeof *x), relative = ((double)participation->epochs + 2) * EPS__UNIT_ROUNDOFF;
    if (!x)
        return eps__strategy_no_memory(error);
    for (size_t i = 0; i < s->n; i++)
        x[i] = eps__column_square(s, i)->lower;
    enum eps_status status = best_separated_sum(context, &out->value.lower, error, x, s->n, participation->epochs,
                                                participation->separation);
    for (size_t i = 0; i < s->n; i++)
        x[i] = eps__column_square(s, i)->upper;
    if (status == EPS_OK)
        status = best_separated_sum(context, &out->value.upper, error, x, s->n, participation->epochs,
                                    participation->separation);
    out->value.lower *= 1 - relative;
    out->value.upper *= 1 + relative;
    free(x);
    return status;
}

/* The square for the steps 0, b, 2b... of a Toeplitz matrix of m steps with first column c >= 0. False: no memory. */
static bool earliest_steps(struct eps__interval *out, const double *c, size_t len, size_t m, size_t k, size_t b)
{
    struct eps__sum sum = {0};
    double *window = malloc(m * sizeof *window);
    bool ok = window && eps__strided_window(window, m, c, len, k, b);
    for (size_t i = 0; ok && i < m; i++)
        eps__sum_add_square(&sum, window[i]);
    *out = eps__sum_interval(&sum, EPS__SUM_ERROR);
    free(window);
    return ok;
}

/* With stamps, the cross terms between blocks are zero. Ignoring that, and taking the fullest pattern in every block,
 * give two bounds, of which the lesser is used. */
static enum eps_status toeplitz_majorant(struct eps__square *out, struct eps_error *error, const struct eps_strategy *s,
                                         const struct eps__participation *participation)
{
    size_t len = s->entries_len, blocks = s->stamps < participation->epochs ? s->stamps : participation->epochs;
    bool decreasing = s->nonnegative && s->stamps == 1;
    struct eps__interval fullest = {0}, given = {0};
    double *majorant = malloc(len * sizeof *majorant), largest = 0;
    bool ok = majorant;
    for (size_t i = len; ok && i-- > 0;) {
        double x = fabs(s->entries[i]);
        decreasing = decreasing && x >= largest * (1 - rounded_rise);
        majorant[i] = largest = fmax(largest, x);
    }
    ok = ok && earliest_steps(&out->value, majorant, len, s->n, participation->epochs, participation->separation) &&
         earliest_steps(&fullest, majorant, len, s->block, participation->epochs, participation->separation) &&
         (!decreasing ||
          earliest_steps(&given, s->entries, len, s->n, participation->epochs, participation->separation));
    free(majorant);
    if (!ok)
        return eps__strategy_no_memory(error);
    if (decreasing)
        out->value.lower = given.lower;
    if (eps__multiply_up(fullest.upper, (double)blocks) < out->value.upper) {
        out->value.upper = eps__multiply_up(fullest.upper, (double)blocks);
        out->value.lower = eps__multiply_down(fullest.lower, (double)blocks);
    }
    out->rule = decreasing ? "decreasing_toeplitz" : "toeplitz_majorant";
    out->exact = decreasing;
    return EPS_OK;
}

/* v[i]: an upper bound on the sum of |X_ij| over a pattern that contains i, for the columns of one block. */
static enum eps_status row_sums(const struct eps_context *context, double *v, struct eps_error *error,
                                const struct eps_strategy *s, const struct eps__participation *participation)
{
    enum eps_status status = EPS_OK;
    size_t m = s->block, b = participation->separation;
    bool banded = s->kind->gram_entry; /* entry by entry: no m x m array */
    double *x = malloc((banded ? m : m * m) * sizeof *x), *row = malloc(m * sizeof *row);
    double *best = malloc((m + 1) * sizeof *best);
    uint32_t *taken = malloc((m + 1) * sizeof *taken);
    struct eps__work work = {.context = context};
    if (!x || !row || !best || !taken || (!banded && !s->kind->gram(&work, s, x, m, 0, 1, m))) {
        status = eps__strategy_stopped(error, work.status != EPS_OK ? work.status : EPS_NO_MEMORY);
        goto out;
    }
    for (size_t i = 0; i < m; i++) {
        if (i % 16 == 0 && (status = eps__strategy_poll(context, error)))
            goto out;
        size_t first = i + 1 > s->bands ? i + 1 - s->bands : 0, end = m - i > s->bands ? i + s->bands : m;
        double norm = eps__strategy_column_norm(s, i);
        /* All columns that overlap with this one or with the one before it are equal, so v repeats. */
        if (banded && i >= s->bands && end < m && s->kind->square_index(s, end - 1) == 0) {
            v[i] = v[i - 1];
            continue;
        }
        for (size_t j = first; j < end; j++) {
            bool apart = i >= j + b || j >= i + b;
            double entry = !apart ? 0 : banded ? s->kind->gram_entry(s, i, j) : x[i * m + j];
            row[j - first] = apart ? fabs(entry) + s->gram_error * norm * eps__strategy_column_norm(s, j) : 0;
        }
        v[i] = eps__column_square(s, i)->upper +
               eps__separated_bound(row, end - first, participation->epochs - 1, b, best, taken);
    }
out:
    free(x);
    free(row);
    free(best);
    free(taken);
    return status;
}

enum eps_status eps__row_bound(const struct eps_context *context, struct eps__square *out, struct eps_error *error,
                               const struct eps_strategy *s, const struct eps__participation *participation)
{
    size_t m = s->block, n = s->n;
    double *v = malloc(n * sizeof *v), *best = malloc((n + 1) * sizeof *best);
    uint32_t *taken = malloc((n + 1) * sizeof *taken);
    enum eps_status status =
        v && best && taken ? row_sums(context, v, error, s, participation) : eps__strategy_no_memory(error);
    if (status == EPS_OK) {
        for (size_t i = m; i < n; i++)
            v[i] = v[i - m];
        double slack = (double)participation->epochs * s->gram_error + eps__separated_error(participation->epochs);
        out->value.upper =
            eps__raise(eps__separated_bound(v, n, participation->epochs, participation->separation, best, taken), 6);
        out->value.lower = out->value.upper * (1 - 4 * slack);
        out->rule = "row_bound";
        out->exact = false;
    }
    free(v);
    free(best);
    free(taken);
    return status;
}

enum eps_status eps__majorant_bound(const struct eps_context *context, struct eps__square *out, struct eps_error *error,
                                    const struct eps_strategy *s, const struct eps__participation *participation)
{
    enum eps_status status = toeplitz_majorant(out, error, s, participation);
    if (status == EPS_OK && !out->exact && s->block <= row_bound_max) {
        struct eps__square rows;
        status = eps__row_bound(context, &rows, error, s, participation);
        if (status == EPS_OK && rows.value.upper < out->value.upper)
            *out = rows;
    }
    return status;
}

enum eps_status eps__min_separation_square(const struct eps_context *context, struct eps__square *out,
                                           struct eps_error *error, const struct eps_strategy *s,
                                           const struct eps__participation *participation)
{
    if (s->bands <= participation->separation)
        return orthogonal(context, out, error, s, participation);
    return s->kind->min_separation(context, out, error, s, participation);
}
