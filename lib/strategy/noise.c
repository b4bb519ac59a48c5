/*
 * Correlated noise for training: the rows of C^+ z, or of B z = A C^+ z, one after the other, for any number of
 * coordinates. Of the kind's ways to draw C^+ z, the cheapest that fits into memory is chosen. A is then applied to its
 * rows: prefix sums and momentum by their recursion, which keeps two rows, and a list of coefficients as a filter. If a
 * filter would keep too many rows, the rows of B are multiplied instead.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/strategy/noise.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/strategy/decoder.h"
#include "lib/strategy/failures.h"

#define DIMENSIONS_MAX 0x7fffffff /* BLAS has 32-bit sizes */

struct plan {
    const struct eps__noise_way *way;
    enum eps_part part; /* what the way makes */
    size_t kept;        /* rows kept to apply A; 0 if the way makes B z itself */
    double numbers, operations;
    double bytes; /* bytes, including those of the strategy */
};

struct eps_noise {
    struct eps__noise_run run;
    struct plan plan;
    enum eps_part part; /* what the caller gets */
    double *rows;       /* plan.kept rows */
    size_t next;
};

/* ---------------------------------------------------------------- the choice */

/* The rows that applying A to a stream of rows keeps. */
static size_t workload_rows(const struct eps__workload *w)
{
    return w->recursive ? 2 : w->coefficients_len;
}

static struct plan plan_of(const struct eps_strategy *s, const struct eps__noise_way *way, enum eps_part part,
                           enum eps_part made, double d)
{
    struct plan plan = {.way = way, .part = made, .kept = part == made ? 0 : workload_rows(&s->workload)};
    plan.numbers = way->numbers(s, made, d) + (double)plan.kept * d;
    plan.operations = way->operations(s, made, d) + (double)s->n * (double)plan.kept * d;
    return plan;
}

/* Takes the candidate if there is none yet; if it fits and the best does not; if both fit and it is cheaper; or if
 * neither fits and it is smaller. */
static void consider(struct plan *best, struct plan candidate, double max_numbers)
{
    bool fits = candidate.numbers <= max_numbers, fitted = best->numbers <= max_numbers;
    if (!best->way || (fits && !fitted) ||
        (fits == fitted && (fits ? candidate.operations < best->operations : candidate.numbers < best->numbers)))
        *best = candidate;
}

static struct plan choose(const struct eps_strategy *s, enum eps_part part, double d, double most)
{
    struct plan best = {0};
    for (const struct eps__noise_way *const *way = s->kind->noise_ways; *way; way++)
        if ((*way)->serves(s))
            consider(&best, plan_of(s, *way, part, EPS_PART_NOISE, d), most);
    if (part == EPS_PART_DECODER && !s->workload.recursive)
        consider(&best, plan_of(s, &eps__noise_by_panels, part, EPS_PART_DECODER, d), most);
    return best;
}

/* An upper bound on the numbers that the strategy itself holds. */
static double strategy_numbers(const struct eps_strategy *s)
{
    return 2 * ((double)s->entries_len + (double)s->block + (double)s->squares_len + (double)s->blt_len) +
           (double)s->known_inverse_len;
}

/* Checks that the part is defined and the sizes in range, and plans how to draw it and at what cost. */
static enum eps_status make_plan(const struct eps_context *context, struct plan *plan, struct eps_error *error,
                                 const struct eps_strategy *s, enum eps_part part, size_t dimensions)
{
    size_t rows, columns;
    if (part != EPS_PART_NOISE && part != EPS_PART_DECODER)
        return eps__error(error, EPS_INVALID, "/part", "must be noise (C^-1 z) or decoder (B z)");
    if (!dimensions || dimensions > DIMENSIONS_MAX)
        return eps__error(error, EPS_INVALID, "/dimensions", "must lie in [1, %d]", DIMENSIONS_MAX);
    enum eps_status status = eps_strategy_shape(s, error, part, &rows, &columns);
    if (status != EPS_OK)
        return status;
    double operations_max = context && context->max_operations > 0 ? context->max_operations : INFINITY;
    double bytes_max = context && context->max_bytes > 0 ? context->max_bytes : INFINITY;
    *plan = choose(s, part, (double)dimensions, bytes_max / sizeof(double) - strategy_numbers(s));
    plan->bytes = (plan->numbers + strategy_numbers(s)) * sizeof(double);
    if (plan->operations <= operations_max && plan->bytes <= bytes_max)
        return EPS_OK;
    eps__error(error, EPS_TOO_COSTLY, "/dimensions",
               "drawing this noise takes about %.2g operations and %.2g bytes; draw fewer dimensions at a time "
               "(coordinates are independent), or raise the limits",
               plan->operations, plan->bytes);
    if (error) {
        error->operations = plan->operations;
        error->bytes = plan->bytes;
    }
    return EPS_TOO_COSTLY;
}

enum eps_status eps_noise_cost(const struct eps_context *context, struct eps_error *error,
                               const struct eps_strategy *strategy, enum eps_part part, size_t dimensions,
                               double *operations, double *bytes)
{
    struct plan plan;
    enum eps_status status = make_plan(context, &plan, error, strategy, part, dimensions);
    if (status == EPS_OK && operations)
        *operations = plan.operations;
    if (status == EPS_OK && bytes)
        *bytes = plan.bytes;
    return status;
}

/* ---------------------------------------------------------------- made and released */

enum eps_status eps_noise_create(const struct eps_context *context, struct eps_noise **noise, struct eps_error *error,
                                 const struct eps_strategy *strategy, enum eps_part part, double sigma,
                                 size_t dimensions, const uint8_t key[32])
{
    struct plan plan;
    if (!(sigma >= 0 && sigma <= EPS_NOISE_MULTIPLIER_MOST))
        return eps__error(error, EPS_INVALID, "/noise_multiplier", "must lie in [0, 1e9]");
    enum eps_status status = make_plan(context, &plan, error, strategy, part, dimensions);
    if (status != EPS_OK)
        return status;
    struct eps_noise *made = calloc(1, sizeof *made);
    if (made) {
        made->plan = plan;
        made->part = part;
        made->run = (struct eps__noise_run){
            .strategy = strategy, .part = plan.part, .dimensions = dimensions, .white.sigma = sigma};
        memcpy(made->run.white.key, key, sizeof made->run.white.key);
        made->run.memory = calloc((size_t)plan.numbers + 1, sizeof *made->run.memory);
        made->rows = made->run.memory + (size_t)plan.numbers - plan.kept * dimensions;
    }
    if (!made || !made->run.memory) {
        eps_noise_destroy(made);
        return eps__error(error, EPS_NO_MEMORY, "", "out of memory; draw fewer dimensions at a time");
    }
    status = eps__strategy_inverse(context, &made->run.inverse, error, strategy);
    if (status != EPS_OK) {
        eps_noise_destroy(made);
        return status;
    }
    *noise = made;
    return EPS_OK;
}

void eps_noise_destroy(struct eps_noise *noise)
{
    if (!noise)
        return;
    eps__white_clear(&noise->run.white);
    free(noise->run.memory);
    free(noise);
}

/* ---------------------------------------------------------------- rows */

/* u' = momentum u + x, b' = decay b + eta u'. out holds x on entry and b' on return. */
static void recursive_workload(const struct eps_noise *noise, double *out)
{
    const struct eps__workload *w = &noise->run.strategy->workload;
    size_t d = noise->run.dimensions;
    double *u = noise->rows, *b = u + d, eta = eps__workload_rate(w, noise->next);
    for (size_t i = 0; i < d; i++) {
        u[i] = w->momentum * u[i] + out[i];
        out[i] = b[i] = w->decay * b[i] + eta * u[i];
    }
}

static void listed_workload(const struct eps_noise *noise, double *out)
{
    const struct eps__workload *w = &noise->run.strategy->workload;
    size_t d = noise->run.dimensions, kept = w->coefficients_len, t = noise->next;
    memcpy(noise->rows + t % kept * d, out, d * sizeof *out);
    memset(out, 0, d * sizeof *out);
    for (size_t e = 0; e < kept && e <= t; e++)
        cblas_daxpy((blasint)d, w->coefficients[e], noise->rows + (t - e) % kept * d, 1, out, 1);
}

enum eps_status eps_noise_row(const struct eps_context *context, struct eps_noise *noise, double *out,
                              struct eps_error *error)
{
    const struct eps_strategy *s = noise->run.strategy;
    if (noise->next >= s->n)
        return eps__error(error, EPS_INVALID, "", "all %zu rows have been drawn, and no row is drawn twice", s->n);
    enum eps_status status = noise->plan.way->row(&noise->run, context, out, error, noise->next);
    if (status != EPS_OK)
        return status;
    if (noise->part != noise->plan.part)
        (s->workload.recursive ? recursive_workload : listed_workload)(noise, out);
    for (size_t d = 0; d < noise->run.dimensions; d++)
        if (!isfinite(out[d]))
            return eps__error(error, EPS_UNSUPPORTED, "/matrix",
                              "row %zu of the noise exceeds the range of doubles: use numbers closer to 1",
                              noise->next);
    noise->next++;
    return EPS_OK;
}

enum eps_status eps_noise_skip(struct eps_noise *noise, size_t row, size_t *from, struct eps_error *error)
{
    const struct eps_strategy *s = noise->run.strategy;
    if (row >= s->n || row < noise->next)
        return eps__error(error, EPS_INVALID, "", "must lie in [%zu, %zu], the rows not yet drawn", noise->next,
                          s->n - 1);
    size_t first = row, reach = noise->plan.kept;
    if (noise->part != noise->plan.part)
        first = s->workload.recursive ? 0 : row - (row < reach ? row : reach - 1);
    first = noise->plan.way->from(s, noise->plan.part, (double)noise->run.dimensions, first);
    if (first > noise->next)
        noise->next = first;
    *from = noise->next;
    return EPS_OK;
}
