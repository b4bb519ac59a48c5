/*
 * The sensitivity of C under (k,b)-participation (MEMF section 2): selects the rule that bounds it best. In the order
 * tried:
 *   column_norm        k = 1: the largest column norm, exact
 *   banded_columns     columns b apart share no row: sums of squared column norms, exact
 *   nonnegative_gram   C >= 0, fixed_order: equal contributions are the worst, exact
 *   the Gram rules     fixed_order, one pattern at a time (gram_rules.c, semidefinite.c)
 *   absolute_entries   fixed_order with patterns too long for that: |C| in place of C
 *   min_separation.c   the schema min_separation
 *   shuffled.c         one participation per epoch
 * Bounds are on the square, and rounded outwards throughout.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/strategy/sensitivity/sensitivity.h"

#include <stdlib.h>
#include <string.h>

#include "lib/strategy/failures.h"

static struct eps__interval largest_column(const struct eps_strategy *s)
{
    struct eps__interval best = {0};
    for (size_t i = 0; i < s->squares_len; i++) {
        best.lower = fmax(best.lower, s->squares[i].lower);
        best.upper = fmax(best.upper, s->squares[i].upper);
    }
    return best;
}

double eps__strategy_largest_norm(const struct eps_strategy *strategy)
{
    return eps__sqrt_up(largest_column(strategy).upper);
}

/* count times x, rounded outwards. */
static struct eps__interval times(struct eps__interval x, size_t count)
{
    double k = (double)count, lower = k * x.lower, upper = k * x.upper;
    return (struct eps__interval){fma(k, x.lower, -lower) < 0 ? eps__lower(lower, 2) : lower,
                                  fma(k, x.upper, -upper) > 0 ? eps__raise(upper, 2) : upper};
}

/* The largest sum of k squared column norms b apart. Each sum is updated from the one before it, and every k-th is
 * computed anew, which limits the error of the compensated sums, since updates also subtract (F1). */
static struct eps__interval separated_columns(const struct eps_strategy *s,
                                              const struct eps__participation *participation)
{
    struct eps__interval best = {0};
    if (s->squares_len == 1) {
        size_t most = (s->n - 1) / participation->separation + 1;
        return times(s->squares[0], participation->epochs < most ? participation->epochs : most);
    }
    size_t b = participation->separation,
           starts = eps_strategy_is_toeplitz(s) ? 1 : eps__participation_starts(participation, s->n);
    for (size_t residue = 0; residue < b && residue < starts; residue++) {
        struct eps__sum lower = {0}, upper = {0};
        size_t next = residue, taken = 0;
        for (size_t start = residue; start < starts; start += b) {
            if ((start - residue) / b % participation->epochs == 0) {
                lower = upper = (struct eps__sum){0};
                taken = 0;
                next = start;
            } else {
                eps__sum_add(&lower, -eps__column_square(s, start - b)->lower);
                eps__sum_add(&upper, -eps__column_square(s, start - b)->upper);
                taken--;
            }
            for (; taken < participation->epochs && next < s->n; next += b, taken++) {
                eps__sum_add(&lower, eps__column_square(s, next)->lower);
                eps__sum_add(&upper, eps__column_square(s, next)->upper);
            }
            best.lower = fmax(best.lower, eps__sum_interval(&lower, 0).lower);
            best.upper = fmax(best.upper, eps__sum_interval(&upper, 0).upper);
        }
    }
    return best;
}

/* The k x k Gram matrix of the pattern from `start`, block by block. Returns its number of steps, 0 if memory ran out
 * or the work was stopped. *norms: the sum of the column norms. */
static size_t pattern_gram(struct eps__work *work, const struct eps_strategy *s, double *x, double *norms,
                           const struct eps__participation *participation, size_t start)
{
    size_t b = participation->separation, k = (s->n - 1 - start) / b + 1, done = 0;
    k = k < participation->epochs ? k : participation->epochs;
    memset(x, 0, k * k * sizeof *x);
    *norms = 0;
    while (done < k) {
        size_t at = start + done * b, count = (s->block - 1 - at % s->block) / b + 1;
        count = count < k - done ? count : k - done;
        if (!s->kind->gram(work, s, x + done * k + done, k, at % s->block, b, count))
            return 0;
        for (size_t i = 0; i < count; i++)
            *norms += eps__sqrt_up(eps__column_square(s, at + i * b)->upper);
        done += count;
    }
    return k;
}

/* Whether the first pattern is the worst: the Gram matrix of any other pattern equals that of some of its columns, or
 * is smaller. */
static bool first_is_worst(const struct eps_strategy *s)
{
    return s->stamps == 1 && s->kind->first_is_worst;
}

static enum eps_status gram_patterns(const struct eps_context *context, struct eps__square *out,
                                     struct eps_error *error, const struct eps_strategy *s,
                                     const struct eps__participation *participation)
{
    enum eps_status status = EPS_OK;
    size_t cells = participation->epochs * participation->epochs, before = 0,
           starts = first_is_worst(s) ? 1 : eps__participation_starts(participation, s->n);
    double *x = malloc(2 * cells * sizeof *x), *last = x ? x + cells : NULL;
    struct eps__square best = {.rule = "nonnegative_gram", .exact = true};
    struct eps__work work = {.context = context};
    for (size_t start = 0; start < starts; start++) {
        double norms;
        struct eps__square square;
        if ((status = eps__strategy_poll(context, error)) != EPS_OK)
            goto out;
        size_t k = x ? pattern_gram(&work, s, x, &norms, participation, start) : 0;
        /* Neighbouring patterns often have the same Gram matrix. */
        if (k && k == before && memcmp(x, last, k * k * sizeof *x) == 0)
            continue;
        if (k)
            memcpy(last, x, k * k * sizeof *x);
        before = k;
        if (!k || !eps__gram_square(&square, x, k, eps__lower(best.value.upper, 1e7))) {
            status = eps__strategy_stopped(error, work.status != EPS_OK ? work.status : EPS_NO_MEMORY);
            goto out;
        }
        /* If a pattern cannot be the worst, its cheapest bound was returned. Each entry of x has an error of at most
         * gram_error times the two norms. */
        double rounding = eps__raise(s->gram_error * norms * norms, 1e7);
        square.value.upper += rounding;
        square.value.lower = fmax(square.value.lower - rounding, 0);
        if (square.value.upper > best.value.upper)
            best = square;
    }
    *out = best;
out:
    free(x);
    return status;
}

static enum eps_status fixed_order_square(const struct eps_context *context, struct eps__square *out,
                                          struct eps_error *error, const struct eps_strategy *s,
                                          const struct eps__participation *participation)
{
    if (!s->nonnegative && participation->epochs <= EPS__GRAM_STEPS_MAX)
        return gram_patterns(context, out, error, s, participation);
    out->rule = s->nonnegative ? "nonnegative_gram" : "absolute_entries";
    out->exact = s->nonnegative;
    return s->kind->fixed_order(context, &out->value, error, s, participation);
}

enum eps_status eps__participation_square(const struct eps_context *context, struct eps__square *out,
                                          struct eps_error *error, const struct eps_strategy *s,
                                          const struct eps__participation *participation)
{
    if (participation->shuffled)
        return eps__shuffled_square(context, out, error, s, participation);
    if (participation->epochs == 1) {
        *out = (struct eps__square){largest_column(s), "column_norm", true};
        return EPS_OK;
    }
    if (s->bands <= participation->separation && (participation->fixed || eps_strategy_is_toeplitz(s))) {
        /* The norms of Toeplitz columns do not increase with the column, so the earliest steps are the worst of either
         * schema. */
        *out = (struct eps__square){separated_columns(s, participation), "banded_columns", true};
        return EPS_OK;
    }
    return participation->fixed ? fixed_order_square(context, out, error, s, participation)
                                : eps__min_separation_square(context, out, error, s, participation);
}

enum eps_status eps__strategy_sensitivity(const struct eps_context *context, struct eps_sensitivity *out,
                                          struct eps_error *error, const struct eps_strategy *strategy,
                                          const struct eps_mechanism *mechanism)
{
    const struct eps_sampling *sampling = &mechanism->sampling;
    double factor = mechanism->adjacency == EPS_ADJACENCY_REPLACE_ONE ? 2 : 1;
    if (eps__sampling_random(mechanism)) {
        if (!strategy->nonnegative)
            return eps__error(error, EPS_UNSUPPORTED, "/matrix",
                              "C has a negative entry: under sampling, the sensitivity is bounded only if C >= 0; "
                              "use sampling.scheme none, or a non-negative strategy");
        if (sampling->examples_per_user > 1)
            factor *= (double)sampling->examples_per_user;
        /* In a full batch, one more example replaces another. Under the other adjacencies, the batches are drawn alike
         * for both data sets (S4). */
        if (sampling->truncation && mechanism->adjacency == EPS_ADJACENCY_ADD_REMOVE)
            factor = 2;
    }
    struct eps__participation participation = eps__sampling_worst(mechanism);
    struct eps__square square = {0};
    enum eps_status status = eps__participation_square(context, &square, error, strategy, &participation);
    if (status != EPS_OK)
        return status;
    out->value = eps__multiply_up(eps__sqrt_up(square.value.upper), factor);
    out->lower = eps__multiply_down(eps__sqrt_down(fmax(square.value.lower, 0)), factor);
    out->rule = square.rule;
    out->exact = square.exact;
    return EPS_OK;
}
