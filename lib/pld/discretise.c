/*
 * From a dominating pair to masses on a grid.
 *
 * The walk goes over the knots from the lowest loss to the highest. z(loss) comes from Newton's method started at
 * the knot before. What a cell (loss0, loss1] with z in (z0, z1] needs are integrals over P of smooth positive
 * functions of E = e^{L(z) - loss0} - 1, which is a sum of positive terms (no cancellation, however small the cell):
 *   right share  E / (1 + E) / D,           D = 1 - e^{-(loss1 - loss0)}
 *   left share   (D - E e^{-(loss1 - loss0)}) / (1 + E) / D
 *   gap          right share * (D - E e^{-(loss1 - loss0)}): it bounds chord minus curve everywhere in the cell.
 * They are taken by five-point Gauss-Legendre on panels of at most 0.06/rate, where rate bounds every exponent's
 * derivative: by Cauchy's estimate on a disk of radius 1.4/rate, in which all the sums of exponentials stay away
 * from zero, the truncation is below 1e-16 relative.
 *
 * Every mass carries its own relative rounding bound and is inflated (upper) or deflated (lower) by it, so that
 * products and powers of the stored masses bound products and powers of the exact ones.
 *
 * At a finite end of the losses (floor ln w_0 when 0 is an atom, or a ceiling) the lower estimate would have to give up
 * the whole end cell (knots.c), so there the grid is anchored: the end cell is merged into one point at its centroid
 * ln(P/Q), which merging allows, and the offset puts that point on the grid.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/error.h"
#include "lib/numerics/normal.h"
#include "lib/pld/knots.h"

/* Five-point Gauss-Legendre on [0, 1]. */
static const double node5[5] = {0.046910077030668003601, 0.23076534494715845448, 0.5, 0.76923465505284154552,
                                0.95308992296933199640};
static const double weight5[5] = {0.11846344252809454376, 0.23931433524968323402, 0.28444444444444444444,
                                  0.23931433524968323402, 0.11846344252809454376};

#define PANEL_WIDTH 0.06

/* More than all that was lost where a mass underflowed. */
#define UNDERFLOW DBL_MIN

/* Indices of knots stay exact doubles. */
#define INDEX_MAX 1e15

/* More cells than this are no use: the transform could not hold them either. */
#define CELLS_MAX ((size_t)1 << 23)

struct walk {
    const struct eps_context *context;
    const struct eps__pair *pair;
    const struct eps__pld_plan *plan;
    enum eps__estimate estimate;
    double offset, rate;
    double *numerator_share, *denominator_share;
    struct eps__cells cells;
    double loss_error;
};

static double loss_at(const struct walk *walk, int64_t index)
{
    return walk->offset + (double)index * walk->plan->spacing;
}

/* The integrals of one panel [base->z, base->z + width], added to the cell unbounded; returns the relative rounding
 * error of what was added. */
static double add_panel(struct walk *walk, struct eps__cell *cell, const struct eps__pair_point *base, double width,
                        double base_excess, double cell_width)
{
    const struct eps__mixture *numerator = &walk->pair->numerator, *denominator = &walk->pair->denominator;
    double step = -expm1(-cell_width), decay = 1 - step, grown = base_excess + 1;
    double log_density = base->log_numerator - 0.5 * base->z * base->z - EPS__LOG_SQRT_2PI;
    double left = 0, right = 0, gap = 0;
    for (size_t k = 0; k < 5; k++) {
        double t = node5[k] * width, rise = 0, fall = 0;
        for (size_t i = 0; i < numerator->len; i++)
            if (numerator->shift[i] > 0)
                rise += walk->numerator_share[i] * expm1(numerator->shift[i] * t);
        for (size_t j = 0; j < denominator->len; j++)
            if (denominator->shift[j] > 0)
                fall -= walk->denominator_share[j] * expm1(-denominator->shift[j] * t);
        double excess = base_excess + grown * (rise + fall) / (1 - fall);
        double rest = fmax(step - excess * decay, 0);
        double density = weight5[k] * exp(-t * (base->z + 0.5 * t)) * (1 + rise) / (1 + excess);
        left += density * rest;
        right += density * excess;
        gap += density * excess * rest;
    }
    double scale = exp(log_density) * width / step;
    cell->left += scale * left;
    cell->right += scale * right;
    cell->gap += scale * gap;
    return EPS__UNIT_ROUNDOFF * (40 + 2 * base->z * base->z + 4 * fabs(base->log_numerator) +
                                 2 * (double)(numerator->len + denominator->len)) +
           walk->pair->weight_error;
}

/* What of a cell is so unimportant that it goes whole to the safe side. */
static void add_coarse(struct walk *walk, struct eps__cell *cell, double left_z, double right_z)
{
    double log_lower, log_upper;
    if (!(left_z < right_z))
        return;
    eps__pair_log_mass(walk->pair, left_z, right_z, &log_lower, &log_upper);
    if (walk->estimate == EPS__UPPER)
        cell->right += exp(log_upper) * (1 + walk->pair->weight_error + 4 * EPS__UNIT_ROUNDOFF);
    else
        cell->left += exp(log_lower) * (1 - walk->pair->weight_error - 4 * EPS__UNIT_ROUNDOFF);
}

/* What of a cell is split between its knots, z in [left_z, right_z]. */
static void add_fine(struct walk *walk, struct eps__cell *cell, double left_z, double right_z, double left_loss,
                     double cell_width)
{
    double width = right_z - left_z, error = 0;
    if (!(width > 0))
        return;
    struct eps__cell fine = {0};
    size_t panels = (size_t)ceil(width * (walk->rate + fmax(fabs(left_z), fabs(right_z))) / PANEL_WIDTH);
    for (size_t i = 0; i < panels; i++) {
        struct eps__pair_point base;
        double from = left_z + width * (double)i / (double)panels;
        double to = i + 1 == panels ? right_z : left_z + width * (double)(i + 1) / (double)panels;
        eps__pair_at(walk->pair, from, &base, walk->numerator_share, walk->denominator_share);
        double excess = fmax(expm1(base.loss - left_loss), 0);
        walk->loss_error = fmax(walk->loss_error, base.loss_error);
        error = fmax(error, add_panel(walk, &fine, &base, to - from, excess, cell_width));
    }
    /* The error is relative to the whole cell: a share may be a small part of it. */
    double slack = error * (fine.left + fine.right);
    if (walk->estimate == EPS__LOWER)
        slack = -slack;
    cell->left += fmax(fine.left + slack, 0);
    cell->right += fmax(fine.right + slack, 0);
    cell->gap += fine.gap + fabs(slack) * -expm1(-cell_width);
}

/* How many grid steps the cell that starts at `left` spans: fewer where the tilted density is larger. */
static int64_t cell_steps(const struct walk *walk, const struct eps__pair_point *left, bool coarse)
{
    const struct eps__pld_plan *plan = walk->plan;
    double log_density = left->log_numerator - 0.5 * left->z * left->z - EPS__LOG_SQRT_2PI;
    double importance = eps__pld_importance(plan, log_density, left->loss), steps;
    if (coarse) {
        /* Rounding up by a width multiplies the tilted mass by e^{t width}: it may grow to what is small. */
        double growth = fmax(plan->log_small - importance, 1) / (plan->tilt + 1e-300);
        steps = fmin(0.5 * left->slope, 0.5 * growth) / plan->spacing;
    } else {
        steps = exp((plan->log_reference - importance + log(left->slope)) / 3);
        steps = fmin(steps, plan->widest * fmin(0.1 * left->slope, 0.25 / (1 + plan->tilt)) / plan->spacing);
    }
    return steps < 1 ? 1 : (int64_t)fmin(steps, INDEX_MAX);
}

/* The cells from `left` (at knot `index`, or above it by left->loss - loss of that knot) up to stop_z, or to the
 * knot stop_index. */
static enum eps_status walk_cells(struct walk *walk, struct eps__pair_point left, int64_t index, double stop_z,
                                  int64_t stop_index)
{
    const struct eps__pld_plan *plan = walk->plan;
    if (!(fabs(left.loss) / plan->spacing < INDEX_MAX))
        return EPS_TOO_COSTLY;
    for (size_t count = 0; left.z < stop_z && index < stop_index; count++) {
        if (count % 1024 == 1023) {
            enum eps_status status = eps__poll(walk->context);
            if (status != EPS_OK)
                return status;
        }
        bool coarse = left.z < plan->fine_low || left.z >= plan->fine_high;
        int64_t next = index + cell_steps(walk, &left, coarse);
        if (next > stop_index)
            next = stop_index;
        double left_loss = loss_at(walk, index), right_loss = loss_at(walk, next);
        struct eps__pair_point right;
        eps__pair_inverse(walk->pair, &left, stop_z, right_loss, &right);
        if (right.z < stop_z || right.loss > right_loss)
            walk->loss_error = fmax(walk->loss_error, fabs(right.loss - right_loss) + right.loss_error);
        if (walk->cells.len >= CELLS_MAX)
            return EPS_TOO_COSTLY;
        struct eps__cell *cell = eps__cells_add(&walk->cells, next);
        if (!cell)
            return EPS_NO_MEMORY;
        double from = fmin(fmax(left.z, plan->fine_low), right.z), to = fmax(fmin(right.z, plan->fine_high), from);
        add_coarse(walk, cell, left.z, from);
        add_fine(walk, cell, from, to, left_loss, right_loss - left_loss);
        add_coarse(walk, cell, to, right.z);
        left = right;
        index = next;
    }
    return EPS_OK;
}

/* ln(P/Q) of the z in (left, right]: the loss at which merging puts them, bounded below. */
static double merged_loss(const struct eps__pair *pair, double left, double right)
{
    struct eps__pair exchanged = {.numerator = pair->denominator, .denominator = pair->numerator};
    double log_lower, log_upper, other_lower, other_upper;
    eps__pair_log_mass(pair, left, right, &log_lower, &log_upper);
    eps__pair_log_mass(&exchanged, -right, -left, &other_lower, &other_upper);
    return log_lower - other_upper;
}

/* How far the centroid of the end cell at a finite floor (or ceiling) lies inside z, in loss. */
static double end_distance(const struct eps__pair *pair, double z, bool floor_end)
{
    struct eps__pair_point point;
    eps__pair_at(pair, z, &point, NULL, NULL);
    return floor_end ? point.loss - merged_loss(pair, -INFINITY, z) : merged_loss(pair, z, INFINITY) - point.loss;
}

/* Where the end cell must stop so that its centroid lies one spacing inside it. */
static double anchor_z(const struct eps__pair *pair, const struct eps__pld_plan *plan, bool floor_end)
{
    double low = plan->z_low, high = plan->z_high;
    for (int i = 0; i < 60 && high - low > 1e-12; i++) {
        double middle = 0.5 * (low + high);
        if ((end_distance(pair, middle, floor_end) > plan->spacing) == floor_end)
            high = middle;
        else
            low = middle;
    }
    return 0.5 * (low + high);
}

/* Is there a floor: does L stay bounded as z -> -infinity? It does if the pair exchanged has a ceiling. */
static bool has_floor(const struct eps__pair *pair)
{
    struct eps__pair exchanged = {.numerator = pair->denominator, .denominator = pair->numerator};
    return isfinite(eps__pair_ceiling(&exchanged));
}

static enum eps_status walk_upper(struct walk *walk, double *infinity)
{
    const struct eps__pld_plan *plan = walk->plan;
    struct eps__pair_point left;
    double log_lower, log_upper;
    eps__pair_at(walk->pair, plan->z_low, &left, NULL, NULL);
    walk->cells.first = (int64_t)floor((left.loss - left.loss_error) / plan->spacing);
    eps__pair_log_mass(walk->pair, -INFINITY, plan->z_low, &log_lower, &log_upper);
    double bound = 1 + walk->pair->weight_error + 4 * EPS__UNIT_ROUNDOFF, edge = exp(log_upper) * bound;
    enum eps_status status = walk_cells(walk, left, walk->cells.first, plan->z_high, INT64_MAX);
    if (status != EPS_OK)
        return status;
    walk->cells.items[0].right += edge;
    struct eps__cell *last = &walk->cells.items[walk->cells.len - 1];
    eps__pair_log_mass(walk->pair, plan->z_high, INFINITY, &log_lower, &log_upper);
    double beyond = exp(log_upper) * bound;
    *infinity = beyond + walk->pair->lost + UNDERFLOW;
    if (eps__pair_ceiling(walk->pair) <= loss_at(walk, last->index)) {
        last->right += beyond;
        *infinity = walk->pair->lost + UNDERFLOW;
    }
    return EPS_OK;
}

/* The merged end cell, from knot `index` to the next: its mass goes to the outer knot, at or below its centroid. */
static enum eps_status add_end(struct walk *walk, int64_t index, double from, double to, bool floor_end)
{
    double log_lower, log_upper;
    struct eps__cell *cell = eps__cells_add(&walk->cells, index);
    if (!cell)
        return EPS_NO_MEMORY;
    eps__pair_log_mass(walk->pair, from, to, &log_lower, &log_upper);
    *(floor_end ? &cell->left : &cell->right) =
        exp(log_lower) * (1 - walk->pair->weight_error - 4 * EPS__UNIT_ROUNDOFF);
    return EPS_OK;
}

static enum eps_status walk_lower(struct walk *walk)
{
    const struct eps__pld_plan *plan = walk->plan;
    struct eps__pair_point left;
    /* An end that the grid resolves down to nothing needs no anchor: what lies beyond is left out. */
    bool floor_end = has_floor(walk->pair) && end_distance(walk->pair, plan->z_low, true) < plan->spacing;
    bool ceiling_end =
        isfinite(eps__pair_ceiling(walk->pair)) && end_distance(walk->pair, plan->z_high, false) < plan->spacing;
    if (!floor_end && !ceiling_end) {
        eps__pair_at(walk->pair, plan->z_low, &left, NULL, NULL);
        walk->cells.first = (int64_t)floor((left.loss - left.loss_error) / plan->spacing);
        return walk_cells(walk, left, walk->cells.first, plan->z_high, INT64_MAX);
    }
    double end_z = anchor_z(walk->pair, plan, floor_end);
    eps__pair_at(walk->pair, end_z, &left, NULL, NULL);
    /* The point of the merged cell must not lie above its centroid; its distance to the knot beside it is then the
     * spacing, so the grid follows. */
    double centroid = floor_end ? merged_loss(walk->pair, -INFINITY, end_z) : merged_loss(walk->pair, end_z, INFINITY);
    double knot = floor_end ? fmin(left.loss, centroid + plan->spacing) : fmin(left.loss, centroid - plan->spacing);
    int64_t index = (int64_t)nearbyint(knot / plan->spacing);
    walk->offset = knot - (double)index * plan->spacing;
    walk->offset -= 4 * EPS__UNIT_ROUNDOFF * (fabs(knot) + plan->spacing);
    walk->loss_error = fmax(walk->loss_error, left.loss_error);
    if (floor_end) {
        walk->cells.first = index - 1;
        enum eps_status status = add_end(walk, index, -INFINITY, end_z, true);
        return status == EPS_OK ? walk_cells(walk, left, index, plan->z_high, INT64_MAX) : status;
    }
    eps__pair_at(walk->pair, plan->z_low, &left, NULL, NULL);
    walk->cells.first = (int64_t)floor((left.loss - left.loss_error - walk->offset) / plan->spacing);
    if (walk->cells.first > index)
        walk->cells.first = index;
    enum eps_status status = walk_cells(walk, left, walk->cells.first, end_z, index);
    return status == EPS_OK ? add_end(walk, index + 1, end_z, INFINITY, false) : status;
}

enum eps_status eps__pld_build(const struct eps_context *context, struct eps__pld *pld, const struct eps__pair *pair,
                               const struct eps__pld_plan *plan, enum eps__estimate estimate)
{
    struct walk walk = {.context = context, .pair = pair, .plan = plan, .estimate = estimate};
    struct eps__pld built = {.estimate = estimate, .spacing = plan->spacing};
    enum eps_status status = EPS_NO_MEMORY;
    walk.cells.spacing = plan->spacing;
    walk.rate = eps__mixture_reach(&pair->numerator) + eps__mixture_reach(&pair->denominator) + 1;
    walk.numerator_share = malloc(pair->numerator.len * sizeof(double));
    walk.denominator_share = malloc(pair->denominator.len * sizeof(double));
    if (!walk.numerator_share || !walk.denominator_share)
        goto out;
    status = estimate == EPS__UPPER ? walk_upper(&walk, &built.infinity) : walk_lower(&walk);
    if (status != EPS_OK)
        goto out;
    status = eps__cells_assemble(&built, &walk.cells, estimate);
    if (status != EPS_OK)
        goto out;
    built.offset = walk.offset;
    built.loss_error = walk.loss_error + 2 * pair->weight_error;
    *pld = built;
out:
    eps__cells_clear(&walk.cells);
    free(walk.numerator_share);
    free(walk.denominator_share);
    return status;
}

void eps__pld_clear(struct eps__pld *pld)
{
    free(pld->index);
    free(pld->mass);
    *pld = (struct eps__pld){0};
}

/* sum_i mass_i e^{(t - tilt)(loss_i - loss_end)} over knots that lie side by side, by Horner's rule from the end where
 * the factors are at most 1. */
static double dense_moment(const struct eps__pld *pld, double exponent)
{
    double factor = exp(-fabs(exponent) * pld->spacing), total = 0;
    for (size_t i = 0; i < pld->len; i++)
        total = total * factor + pld->mass[exponent > 0 ? i : pld->len - 1 - i];
    return total;
}

double eps__pld_log_moment(const struct eps__pld *pld, double tilt)
{
    double exponent = tilt - pld->tilt;
    if (pld->index[pld->len - 1] - pld->index[0] == (int64_t)pld->len - 1)
        return exponent * eps__pld_loss(pld, exponent > 0 ? pld->len - 1 : 0) + log(dense_moment(pld, exponent)) +
               pld->log_scale;
    double largest = -INFINITY, total = 0;
    for (size_t i = 0; i < pld->len; i++)
        if (pld->mass[i] > 0)
            largest = fmax(largest, exponent * eps__pld_loss(pld, i));
    for (size_t i = 0; i < pld->len; i++)
        if (pld->mass[i] > 0)
            total += pld->mass[i] * exp(exponent * eps__pld_loss(pld, i) - largest);
    return largest + log(total) + pld->log_scale;
}

double eps__pld_log_delta(const struct eps__pld *pld, double eps)
{
    double total = 0, sign = pld->estimate == EPS__UPPER ? 1 : -1;
    double at = eps - sign * (pld->loss_error + 4 * EPS__UNIT_ROUNDOFF * (fabs(eps) + fabs(pld->offset)));
    for (size_t i = pld->len; i-- > 0;) {
        double above = eps__pld_loss(pld, i) - at;
        if (above <= 0)
            break;
        total -= pld->mass[i] * expm1(-above);
    }
    total += pld->infinity;
    return log(total) + sign * EPS__UNIT_ROUNDOFF * (8 + (double)pld->len);
}
