/*
 * See shared.h.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/moments/bounds/shared.h"

#include <assert.h>
#include <float.h>
#include <math.h>

#include "lib/base/error.h"
#include "lib/numerics/normal.h"

enum { CELLS_A_DEVIATION = 6, LOW = 38, HIGH = 3, CELLS = (LOW + HIGH) * CELLS_A_DEVIATION };

enum { ORDERS = 10 }; /* more hardly lower the bound, and take long to use */

#define LEFT_OUT 1e-3  /* of delta: what Z below a point may add before the cells there are left out */
#define LATTICE 1e-12  /* by which points are moved, relative to 1 and their size, to cover rounding */
#define NOTHING (-1e4) /* ln of a bound that stands for 0 */
#define SEAM 1e-11     /* what the rounding of its ends may cut off a cell, relative to its mass (M28) */

enum eps_status eps__shared_rest(struct eps__moments *rest, const struct eps__moments *moments, double square)
{
    eps__quad raw[ORDERS + 1], lost[ORDERS + 1];
    size_t len = moments->len < ORDERS ? moments->len : ORDERS;
    enum eps_status status = eps__moments_alloc(rest, len);
    if (status != EPS_OK)
        return status;
    for (size_t i = 0; i <= len; i++) { /* E Y^i */
        eps__quad sum = 0, size = 0, error = 0, choose = 1,
                  pairs = 0.5 * (double)i * ((double)i - 1) * (eps__quad)square;
        for (size_t l = 0; l <= i; l++) {
            sum += choose * moments->central[l];
            size += choose * fabsq(moments->central[l]);
            error += choose * moments->error[l];
            choose = choose * (eps__quad)(i - l) / (eps__quad)(l + 1); /* exact: an integer */
        }
        raw[i] = i < 2 ? 1 : sum * expq(-pairs);
        lost[i] = i < 2 ? 0 : (error + ((eps__quad)i + 16 + 2 * pairs) * EPS__QUAD_ROUNDOFF * size) * expq(-pairs);
    }
    for (size_t j = 2; j <= len; j++) {
        eps__quad sum = 0, size = 0, error = 0, choose = 1;
        for (size_t i = 0; i <= j; i++) {
            sum += ((j - i) % 2 ? -choose : choose) * raw[i];
            size += choose * fabsq(raw[i]);
            error += choose * lost[i];
            choose = choose * (eps__quad)(j - i) / (eps__quad)(i + 1);
        }
        rest->central[j] = sum;
        rest->error[j] = 1.0001 * error + (eps__quad)(j + 16) * EPS__QUAD_ROUNDOFF * size;
    }
    eps__moments_keep_known(rest);
    return EPS_OK;
}

/* ln of E (1 - e^at Y)_+ for Y = e^(-m + r Z'), rounded up. */
static double geometric_put(const struct eps__shared *shared, double at)
{
    double shift = eps__raise(sqrt(fmax(shared->spread, DBL_MIN)), 6), rounding;
    double eps = at - shared->m + 0.5 * shared->spread;
    eps = eps__shift(EPS__LOWER, eps, 8 * EPS__UNIT_ROUNDOFF * (fabs(at) + shared->m + shared->spread));
    double value = eps__gaussian_log_delta(shift, eps, &rounding);
    return eps__certain(EPS__UPPER, eps__shift(EPS__UPPER, value, rounding));
}

/* What is proven of Y alone at `at` >= 0: ln E (Y - e^at)_+ for remove, ln E (1 - e^at Y)_+ for add. */
static enum eps_status one_sided(const struct eps_context *context, const struct eps__moments *rest,
                                 const struct eps__shared *shared, enum eps_direction direction, double at,
                                 struct eps__interval *ends, size_t *used)
{
    size_t own;
    enum eps_status status = eps__moments_log_delta(context, rest, direction, at, &ends->upper, &ends->lower, &own);
    ends->lower = isfinite(ends->lower) ? ends->lower : ends->upper;
    double put = direction == EPS_ADD && isfinite(shared->m) ? geometric_put(shared, at) : 0;
    if (put < ends->upper)
        *ends = (struct eps__interval){fmin(put, ends->lower), put};
    else if (own > *used)
        *used = own;
    return status;
}

/* The same at any `at`. */
static enum eps_status bound_at(const struct eps_context *context, const struct eps__moments *rest,
                                const struct eps__shared *shared, enum eps_direction direction, double at,
                                struct eps__interval *ends, size_t *used)
{
    enum eps_direction asked = at >= 0 ? direction : direction == EPS_REMOVE ? EPS_ADD : EPS_REMOVE;
    enum eps_status status = one_sided(context, rest, shared, asked, fabs(at), ends, used);
    if (at >= 0 || status != EPS_OK)
        return status;
    /* E (Y - u)_+ = 1 - u + u E (1 - Y/u)_+ and E (1 - u Y)_+ = 1 - u + u E (Y - 1/u)_+, u = e^at */
    double left = log(-expm1(at)), upper = at + fmax(ends->upper, NOTHING), lower = at + fmax(ends->lower, NOTHING);
    double error = 16 * EPS__UNIT_ROUNDOFF * (2 - left - lower);
    ends->upper = fmin(eps__shift(EPS__UPPER, eps__log_add(left, upper), error), 0);
    ends->lower = fmin(eps__shift(EPS__LOWER, eps__log_add(left, lower), error), ends->upper);
    return EPS_OK;
}

/* One cell of Z, from w to w + width. */
struct cell {
    double log_mass; /* with its error, upwards */
    double share;    /* where the mean of e^(s Z) is between the ends; rounded down */
};

static struct cell cell_of(double w, double width, double s)
{
    double error, shifted_error, log_mass = eps__normal_log_mass(w, width, &error);
    double log_shifted = eps__normal_log_mass(w - s, width, &shifted_error);
    /* ln of the mean of e^(s (Z - w)), in [0, s width] */
    double log_mean = log_shifted - log_mass + 0.5 * s * s - s * w;
    double lost = error + shifted_error +
                  8 * EPS__UNIT_ROUNDOFF * (fabs(log_shifted) + fabs(log_mass) + s * s + s * fabs(w) + LOW * s);
    double share = expm1(fmax(log_mean - lost, 0)) / expm1(s * width);
    return (struct cell){eps__shift(EPS__UPPER, log_mass, error + SEAM), fmin(eps__lower(share, 16), 1)};
}

/* ln of the sum of two numbers, rounded up. */
static double add_up(double a, double b)
{
    if (a == -INFINITY || b == -INFINITY)
        return fmax(a, b);
    double sum = eps__log_add(a, b);
    return eps__shift(EPS__UPPER, sum, 16 * EPS__UNIT_ROUNDOFF * (1 + fabs(sum) + fabs(a) + fabs(b)));
}

/* ln Pr[Z > x], rounded up. */
static double log_tail(double x)
{
    return eps__shift(EPS__UPPER, eps__log_normal_tail(x), EPS__LOG_TAIL_ERROR(x));
}

/* Adds a cell, between whose ends the bound falls from `before` to `after`, as the chord does in e^(s Z). */
static double add_cell(double sum, const struct cell *cell, double before, double after)
{
    double chord = add_up(before + log1p(-cell->share), after + log(cell->share));
    return add_up(sum, cell->log_mass + chord);
}

/* Puts into the table what bound_at() proves a little below k steps, unless it is there. */
static enum eps_status bound_of_step(const struct eps_context *context, const struct eps__moments *rest,
                                     const struct eps__shared *shared, enum eps_direction direction, long k,
                                     struct eps__shared_table *table)
{
    struct eps__shared_entry *entry = &table->entries[(unsigned long)k % EPS__SHARED_ENTRIES];
    if (entry->known && entry->k == k)
        return EPS_OK;
    double at = (double)k * (sqrt(shared->square) / CELLS_A_DEVIATION);
    *entry = (struct eps__shared_entry){.k = k};
    enum eps_status status =
        bound_at(context, rest, shared, direction, at - LATTICE * (1 + fabs(at)), &entry->ends, &table->used);
    entry->known = status == EPS_OK;
    return status;
}

enum eps_status eps__shared_log_delta(const struct eps_context *context, const struct eps__moments *rest,
                                      const struct eps__shared *shared, enum eps_direction direction, double eps,
                                      struct eps__shared_table *table, struct eps__interval *log_delta)
{
    assert(shared->square > 0 && eps >= 0);
    double s = sqrt(shared->square), width = 1.0 / CELLS_A_DEVIATION, step = s / CELLS_A_DEVIATION;
    double middle = eps - 0.5 * shared->square, top = floor((middle + HIGH * s) / step);
    *log_delta = (struct eps__interval){0, 0};
    if (!(fabs(top) < 1e9 && 8 * EPS__UNIT_ROUNDOFF * (eps + shared->square + LOW * s) < LATTICE / 4))
        return EPS_OK;
    double highest = (top * step - middle) / s, left = log_tail(highest);
    struct eps__interval sum = {-INFINITY, -INFINITY}, after = {0, 0};
    /* from large Z downwards, until what is below hardly counts even if the bound there is 1 */
    for (long below = 0; below <= CELLS && !(left < sum.upper + log(LEFT_OUT)); below++) {
        double w = highest - (double)below * width;
        long k = (long)top - below;
        enum eps_status status = bound_of_step(context, rest, shared, direction, k, table);
        if (status != EPS_OK)
            return status;
        struct eps__interval ends = table->entries[(unsigned long)k % EPS__SHARED_ENTRIES].ends;
        if (below == 0) {
            sum = (struct eps__interval){ends.lower + left, ends.upper + left};
        } else {
            struct cell cell = cell_of(w, width, s);
            after = (struct eps__interval){fmin(after.lower, ends.lower), fmin(after.upper, ends.upper)}; /* it falls */
            sum.upper = add_cell(sum.upper, &cell, ends.upper, after.upper);
            sum.lower = add_cell(sum.lower, &cell, ends.lower, after.lower);
        }
        after = ends;
        left = log_tail(-w);
    }
    log_delta->upper = fmin(add_up(sum.upper, left), 0);
    log_delta->lower = fmin(sum.lower, log_delta->upper);
    return EPS_OK;
}
