/*
 * See b_min_sep_minorant.h. The lower bound is the geometric mean of N(C x)/N(0) over all patterns but the empty one.
 * Two participations may share rows here, so the products of their columns count as well (A40).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/monte_carlo/laws/b_min_sep_minorant.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include <sleef.h>

#include "lib/numerics/bound.h"
#include "lib/numerics/sum.h"
#include "lib/base/error.h"

#define NEVER_UNIT 0x1p30 /* never is rounded down to a multiple of 1/NEVER_UNIT, which makes 1 - never exact */

/*
 * The probability of waiting (not sitting out) at each step, from a cold or a warm start. Returns the error bound of
 * each, in units of itself. any and keep are the probabilities that a waiting user is drawn at a step, or not.
 */
static double fill_waits(double *waits, const struct eps__b_min_sep_steps *steps, bool warm)
{
    double k = steps->examples, b = (double)steps->separation, any = 0;
    double log_keep = steps->p < 1 ? steps->log_keep : 0;
    double keep = steps->p < 1 ? Sleef_cinz_expd1_u10purec(log_keep) : 0;
    double first = warm ? 1 / (1 + (b - 1) * steps->p) : 1;
    for (unsigned j = 0; j < steps->examples; j++)
        any += steps->pick[j];
    for (size_t i = 0; i < steps->n; i++) {
        double back = i >= steps->separation ? waits[i - steps->separation] * any
                      : warm && i > 0        ? steps->p * first
                                             : 0;
        if (steps->separation == 1)
            waits[i] = 1;
        else
            waits[i] = i > 0 ? waits[i - 1] * keep + back : first;
    }
    double of_any = 16 + 4 * k + 2 * (k * fabs(Sleef_cinz_logd1_u10purec(steps->p)) + fabs(log_keep));
    return ((double)steps->n + 4) * (16 + 2 * fabs(log_keep)) + (double)eps__b_min_sep_steps_most(steps) * of_any;
}

/* The term of <h_i, h_(i+d)> in row i + e. */
static double product_at(const struct eps__mc_columns *columns, size_t i, size_t d, size_t e)
{
    return columns->entries[i * columns->stride + e] * columns->entries[(i + d) * columns->stride + e - d];
}

/*
 * Adds the sum of E x_i x_(i+d) <h_i, h_(i+d)> over all i. A user who is drawn at step i waits at step i + d as from a
 * cold start at step i + separation. waits_again: the probability of that; mean: k p. If all columns begin alike, the
 * product for i has at most one more row than that for i + 1, and is computed from it.
 */
static void add_pairs(struct eps__sum *sum, const struct eps__mc_columns *columns, const double *waits,
                      double waits_again, double mean, size_t d)
{
    struct eps__sum product = {0};
    for (size_t i = columns->n - d; i-- > 0;) {
        size_t rows = columns->n - i < columns->width ? columns->n - i : columns->width;
        if (columns->stride > 0)
            product = (struct eps__sum){0};
        for (size_t e = columns->stride > 0 || i + d + 1 == columns->n ? d : columns->n - i - 1; e < rows; e++)
            eps__sum_add(&product, product_at(columns, i, d, e));
        eps__sum_add(sum, waits[i] * mean * (waits_again * mean) * eps__sum_value(&product));
    }
}

/* |E h x|^2. drift: scratch space for n numbers. */
static double square_of(double *drift, const struct eps__mc_columns *columns, const double *waits, double mean)
{
    struct eps__sum square = {0};
    for (size_t i = 0; i < columns->n; i++)
        drift[i] = 0;
    for (size_t i = 0; i < columns->n; i++)
        for (size_t d = 0; d < columns->width && i + d < columns->n; d++)
            drift[i + d] += waits[i] * mean * columns->entries[i * columns->stride + d];
    for (size_t i = 0; i < columns->n; i++)
        eps__sum_add(&square, drift[i] * drift[i]);
    return eps__sum_value(&square);
}

/* A lower bound on Pr[x = 0]: that of a cold start, rounded down. */
static double never_of(const struct eps__b_min_sep_steps *steps)
{
    double exponent = (double)steps->n * steps->log_keep;
    if (!(exponent > -600))
        return 0;
    double never = eps__lower(Sleef_cinz_expd1_u10purec(exponent), 16 - 8 * exponent);
    return fmin(floor(never * NEVER_UNIT) / NEVER_UNIT, 1 - 1 / NEVER_UNIT);
}

enum eps_status eps__b_min_sep_minorant(struct eps__b_min_sep_minorant *minorant, const struct eps_context *context,
                                        const struct eps__mc_columns *columns, const struct eps__b_min_sep_steps *steps)
{
    size_t n = columns->n;
    double k = steps->examples, p = steps->p, mean = k * p, *waits = malloc(3 * n * sizeof *waits);
    if (!waits)
        return EPS_NO_MEMORY;
    double *again = waits + n, *drift = again + n;
    double units = fill_waits(waits, steps, steps->warm);
    struct eps__sum own = {0}, pairs = {0};
    enum eps_status status = EPS_OK;
    (void)fill_waits(again, steps, false);
    for (size_t i = 0; i < n; i++)
        eps__sum_add(&own, waits[i] * (mean * (1 - p) + mean * mean) * columns->half[i]);
    for (size_t d = steps->separation; status == EPS_OK && d < columns->width && d < n; d++) {
        add_pairs(&pairs, columns, waits, again[d - steps->separation], mean, d);
        status = eps__poll(context);
    }
    double square = square_of(drift, columns, waits, mean);
    free(waits);
    if (status != EPS_OK)
        return status;
    double never = never_of(steps), rest = 1 - never, level = eps__sum_value(&own) + eps__sum_value(&pairs);
    /* A term of level has two waits, a product of entries and few operations. The relative error of the slope is half
     * that of its square. */
    double off = (2 * units + (double)columns->width + 64) * EPS__UNIT_ROUNDOFF;
    *minorant = (struct eps__b_min_sep_minorant){.level = level / rest,
                                                 .slope = sqrt(square) / rest,
                                                 .never = never,
                                                 .level_error = eps__raise(off * level / rest, 16),
                                                 .slope_error = eps__raise(off * sqrt(square) / rest, 16)};
    return EPS_OK;
}

/* ------------------------------------------------------------ the law */

struct minorant_law {
    struct eps__mc_law base;
    struct eps__b_min_sep_minorant minorant;
};

static void draw(const struct eps__mc_law *base, const struct eps__stream *stream, uint32_t first, double *scratch,
                 double *loss, double *log_weight)
{
    const struct eps__b_min_sep_minorant *minorant = &((const struct minorant_law *)base)->minorant;
    eps__normals(scratch, stream, first, 0, 2);
    for (size_t lane = 0; lane < EPS__LANES; lane++) {
        double power = fma(minorant->slope, scratch[lane], -minorant->level), never = minorant->never;
        loss[lane] = never > 0
                         ? -Sleef_cinz_logd1_u10purec(never + (1 - never) * Sleef_cinz_expd1_u10purec(fmin(power, 700)))
                         : -power;
        log_weight[lane] = 0;
    }
}

static void destroy(struct eps__mc_law *base)
{
    free(base);
}

/* Not a row of the table: b_min_sep.c opens this law. */
static const struct eps__mc_law_class class = {.draw = draw, .destroy = destroy};

enum eps_status eps__mc_b_min_sep_minorant(struct eps__mc_law **out, const struct eps_context *context,
                                           const struct eps__mc_columns *columns,
                                           const struct eps__b_min_sep_steps *steps)
{
    struct minorant_law *law = calloc(1, sizeof *law);
    if (!law)
        return EPS_NO_MEMORY;
    enum eps_status status = eps__b_min_sep_minorant(&law->minorant, context, columns, steps);
    if (status != EPS_OK) {
        free(law);
        return status;
    }
    const struct eps__b_min_sep_minorant *found = &law->minorant;
    double size = found->level + EPS__NORMAL_MOST * found->slope;
    law->base = (struct eps__mc_law){
        .class = &class,
        .direction = EPS_ADD,
        .loss_error = eps__raise(
            found->level_error + EPS__NORMAL_MOST * found->slope_error + 16 * EPS__UNIT_ROUNDOFF * (size + 8), 16),
        .scratch = (size_t)2 * EPS__LANES,
        .operations = 40.0 * EPS__LANES};
    *out = &law->base;
    return EPS_OK;
}
