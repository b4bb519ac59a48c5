/*
 * From a dominating pair to masses on a grid.
 *
 * The walk visits the knots from the lowest loss to the highest. z(loss) comes from Newton's method, started at the
 * previous knot. A cell (loss0, loss1] with z in (z0, z1] needs integrals over P of smooth positive functions of E =
 * e^{L(z) - loss0} - 1. E is a sum of positive terms, so nothing cancels however small the cell is:
 *   right share  E / (1 + E) / D,           D = 1 - e^{-(loss1 - loss0)}
 *   left share   (D - E e^{-(loss1 - loss0)}) / (1 + E) / D
 *   gap          right share * (D - E e^{-(loss1 - loss0)}), a bound on chord minus curve everywhere in the cell.
 * The integrals are computed by six-point Gauss-Legendre on panels of width at most 0.14/rate, where rate bounds the
 * derivative of every exponent. P4 bounds the truncation error by Cauchy's estimate on a disk around the panel.
 *
 * Every mass is inflated (upper) or deflated (lower) by its own relative rounding bound, so that products and powers of
 * the stored masses bound products and powers of the exact ones.
 *
 * At a finite end of the losses (a floor ln w_0 where shift 0 is an atom, or a ceiling) the lower estimate would lose
 * the whole end cell (knots.c). There the grid is anchored instead: the end cell is merged into one point at its
 * centroid ln(P/Q), which a lower estimate may do, and the offset is chosen so that this point is on the grid.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/numerics/lanes/lanes.h"
#include "lib/numerics/normal.h"
#include "lib/pld/grid/knots.h"
#include "lib/pld/verify.h"

/* Gauss-Legendre quadrature on [0, 1]; P4 bounds its error. */
enum { NODES = 6 };
static const double gauss_node[NODES] = {0.033765242898423986094, 0.169395306766867743169, 0.380690406958401545685,
                                         0.619309593041598454315, 0.830604693233132256831, 0.966234757101576013906};
static const double gauss_weight[NODES] = {0.085662246189585172520, 0.180380786524069303785, 0.233956967286345523695,
                                           0.233956967286345523695, 0.180380786524069303785, 0.085662246189585172520};

#define PANEL_WIDTH 0.14

enum { POLL_PANELS = 2048 };

/* Beyond this many nats below the density at a cell's left end, mass is not integrated but given whole to the safe side
 * (P4). */
#define NATS 60.0

/* Covers masses that underflowed. */
#define UNDERFLOW DBL_MIN
/* In units of loss. A wider cell is not split, because e^width must not overflow. */
#define WIDEST_SPLIT 500.0

/* Bounds the indices of knots, so that they are exact in doubles. */
#define INDEX_MAX 1e15

/* The most cells; a transform could not hold more. */
#define CELLS_MAX ((size_t)1 << 23)

/* A pair at one point: its values, and the posterior weights of its components. */
struct place {
    struct eps__pair_point at;
    double *numerator_share, *denominator_share;
};

/* The state of the walk in one branch of the step. */
struct lane {
    const struct eps__pair *pair;
    const struct eps__pld_plan *plan;
    double weight, rate, reach; /* reach: the largest shift of the numerator */
    struct place left;          /* the walk's current position */
    struct place right, inner;  /* the right end of the current cell; a point inside it */
    double stop_z;
    double edge; /* mass left of z_low, rounded up into the first cell */
    bool started;
};

/* The width of a cell, e^width - 1 and 1 - e^-width, kept because neighbouring cells mostly have the same. */
struct width {
    double value, rise, fall;
};

struct walk {
    const struct eps_context *context;
    const struct eps__pld_plan *plan; /* of the first branch; the others differ only in their ranges */
    enum eps__estimate estimate;
    double offset;
    struct lane *lanes;
    size_t lanes_len;
    struct eps__cells cells;
    struct width width; /* of the current cell */
    double loss_error;
    size_t panels;          /* panels integrated so far */
    enum eps_status status; /* of the last poll */
};

static double loss_at(const struct walk *walk, int64_t index)
{
    return walk->offset + (double)index * walk->plan->spacing;
}

static void move_to(const struct lane *lane, struct place *place, double z)
{
    eps__pair_at(lane->pair, z, &place->at, place->numerator_share, place->denominator_share);
}

/* A bound on a mass from a bound on its logarithm. */
static double bounded_mass(const struct lane *lane, double log_mass, enum eps__estimate estimate)
{
    double error = lane->pair->weight_error;
    return eps__outward(estimate, lane->weight * exp(log_mass) * (estimate == EPS__UPPER ? 1 + error : 1 - error), 12);
}

/* grown[k] += share (e^x[k] - 1) for |x[k]| <= PANEL_WIDTH, by the Taylor polynomial of degree 11, whose remainder is
 * below |x|^12/12! <= 1e-18 |x| (P4). */
static void add_expm1(double *grown, double share, const double *x)
{
    for (size_t k = 0; k < NODES; k++) {
        double y = x[k] * x[k]; /* even and odd powers apart, which do not wait for each other */
        double even =
            1 + y * (1.0 / 6 + y * (1.0 / 120 + y * (1.0 / 5040 + y * (1.0 / 362880 + y * (1.0 / 39916800)))));
        double odd = 1.0 / 2 + y * (1.0 / 24 + y * (1.0 / 720 + y * (1.0 / 40320 + y * (1.0 / 3628800))));
        grown[k] += share * (x[k] * (even + x[k] * odd));
    }
}

/* rise[k] += sum_i share_i (e^{sign shift_i t[k]} - 1). */
static void add_rise(double *rise, const struct eps__mixture *mixture, const double *share, double sign,
                     const double *t)
{
    for (size_t i = 0; i < mixture->len; i++) {
        double x[NODES], shift = sign * mixture->shift[i];
        if (shift == 0)
            continue;
        for (size_t k = 0; k < NODES; k++)
            x[k] = shift * t[k];
        add_expm1(rise, share[i], x);
    }
}

/* Adds the integrals over one panel [base->z, base->z + width] to the cell, without rounding outwards; no excess counts
 * as more than `most`. step: 1 - e^-width of the cell. Returns a bound on the relative rounding error of what was
 * added. */
static double add_panel(const struct lane *lane, struct eps__cell *cell, const struct place *place, double width,
                        double base_excess, double step, double most)
{
    const struct eps__pair_point *base = &place->at;
    const struct eps__mixture *numerator = &lane->pair->numerator, *denominator = &lane->pair->denominator;
    double decay = 1 - step, grown = base_excess + 1;
    double log_density = base->log_numerator - 0.5 * base->z * base->z - EPS__LOG_SQRT_2PI;
    double left = 0, right = 0, gap = 0;
    double t[NODES], x[NODES], rise[NODES] = {0}, fallen[NODES] = {0}, thinned[NODES] = {0};
    /* Both bound the polynomials' arguments: no shift exceeds the rate, which is at least 1. */
    assert(width * (lane->rate + fabs(base->z)) <= 1.001 * PANEL_WIDTH);
    for (size_t k = 0; k < NODES; k++) {
        t[k] = gauss_node[k] * width;
        x[k] = -t[k] * (base->z + 0.5 * t[k]);
    }
    add_rise(rise, numerator, place->numerator_share, 1, t);
    add_rise(fallen, denominator, place->denominator_share, -1, t);
    add_expm1(thinned, 1, x);
    for (size_t k = 0; k < NODES; k++) {
        double excess = base_excess + grown * (rise[k] - fallen[k]) / (1 + fallen[k]);
        excess = excess < most ? excess : most;
        double rest = step - excess * decay;
        rest = rest > 0 ? rest : 0;
        double density = gauss_weight[k] * (1 + thinned[k]) * (1 + rise[k]) / (1 + excess);
        left += density * rest;
        right += density * excess;
        gap += density * excess * rest;
    }
    double scale = lane->weight * exp(log_density) * width / step;
    cell->left += scale * left;
    cell->right += scale * right;
    cell->gap += scale * gap;
    return EPS__UNIT_ROUNDOFF * (40 + 2 * base->z * base->z + 4 * fabs(base->log_numerator) +
                                 2 * (double)(numerator->len + denominator->len)) +
           lane->pair->weight_error;
}

/* Adds an unimportant part of a cell, z in (left_z, right_z], whole to the knot on the safe side. */
static void add_coarse(const struct walk *walk, const struct lane *lane, struct eps__cell *cell, double left_z,
                       double right_z)
{
    double log_lower, log_upper;
    if (!(left_z < right_z))
        return;
    eps__pair_log_mass(lane->pair, left_z, right_z, &log_lower, &log_upper);
    if (walk->estimate == EPS__UPPER)
        cell->right += bounded_mass(lane, log_upper, EPS__UPPER);
    else
        cell->left += bounded_mass(lane, log_lower, EPS__LOWER);
}

/* Adds a part of a cell, z in [left_z, right_z], split between the two knots. */
static void add_fine(struct walk *walk, struct lane *lane, struct eps__cell *cell, double left_z, double right_z,
                     double left_loss)
{
    double width = right_z - left_z, error = 0;
    if (!(width > 0))
        return;
    struct eps__cell fine = {0};
    /* Rounding may put a loss above a narrow cell; in a lower estimate it must not count more than the whole (P4). */
    double most = walk->estimate == EPS__LOWER ? walk->width.rise : INFINITY;
    size_t panels = (size_t)ceil(width * (lane->rate + fmax(fabs(left_z), fabs(right_z))) / PANEL_WIDTH);
    for (size_t i = 0; i < panels && walk->status == EPS_OK; i++) {
        if (++walk->panels % POLL_PANELS == 0)
            walk->status = eps__poll(walk->context);
        double from = left_z + width * (double)i / (double)panels;
        double to = i + 1 == panels ? right_z : left_z + width * (double)(i + 1) / (double)panels;
        const struct place *base = &lane->left;
        if (from != lane->left.at.z) {
            move_to(lane, &lane->inner, from);
            base = &lane->inner;
        }
        double rise = base->at.loss - left_loss; /* rounding at the left end of a cell */
        double excess = fabs(rise) < 1e-8 ? fmax(rise * (1 + 0.5 * rise), 0) : fmax(expm1(rise), 0);
        walk->loss_error = fmax(walk->loss_error, base->at.loss_error);
        error = fmax(error, add_panel(lane, &fine, base, to - from, excess, walk->width.fall, most));
    }
    /* The error is relative to the whole cell, of which a share may be a small part. */
    double slack = error * (fine.left + fine.right);
    if (walk->estimate == EPS__LOWER)
        slack = -slack;
    cell->left += fine.left + slack < 0 ? 0 : fine.left + slack; /* keeps NAN */
    cell->right += fine.right + slack < 0 ? 0 : fine.right + slack;
    cell->gap += fine.gap + fabs(slack) * walk->width.fall;
}

/* How many spacings the cell that starts at lane->left may span: fewer where the loss is more important. */
static double cell_steps(const struct lane *lane)
{
    const struct eps__pld_plan *plan = lane->plan;
    const struct eps__pair_point *left = &lane->left.at;
    bool coarse = left->z < plan->fine_low || left->z >= plan->fine_high;
    double log_density = left->log_numerator - 0.5 * left->z * left->z - EPS__LOG_SQRT_2PI + log(lane->weight);
    double importance = eps__pld_importance(plan, log_density, left->loss), steps;
    if (coarse) {
        /* Rounding up by a width multiplies the tilted mass by e^{t width}; the result may be as large as log_small
         * allows. */
        double growth = fmax(plan->log_small - importance, 1) / (plan->tilt + 1e-300);
        steps = fmin(0.5 * left->slope, 0.5 * growth) / plan->spacing;
    } else {
        bool jump = left->loss > plan->cut;
        double tilt = jump ? plan->cut_tilt : plan->tilt, flat = jump ? plan->log_flat : 0;
        steps = exp((plan->log_reference - importance + flat + log(left->slope)) / 3);
        steps = fmin(steps, plan->widest * fmin(0.1 * left->slope, 0.25 / (1 + tilt)) / plan->spacing);
    }
    return floor(fmin(fmax(steps, 1), INDEX_MAX));
}

/* The right end of the cell that starts at knot `index`: as far as every branch allows that the walk has reached. A
 * branch that begins later is reached by a cell that ends at the knot below its beginning. */
static int64_t next_knot(const struct walk *walk, int64_t index, int64_t stop_index)
{
    double steps = INDEX_MAX;
    for (size_t b = 0; b < walk->lanes_len; b++) {
        const struct lane *lane = &walk->lanes[b];
        if (!(lane->left.at.z < lane->stop_z))
            continue;
        double until = floor((lane->left.at.loss - loss_at(walk, index)) / walk->plan->spacing);
        steps = fmin(steps, until >= 1 ? fmin(until, INDEX_MAX) : cell_steps(lane));
    }
    int64_t next = index + (int64_t)steps;
    return next < stop_index ? next : stop_index;
}

/* Adds one branch's part of the cell between two losses. */
static void add_lane(struct walk *walk, struct lane *lane, struct eps__cell *cell, double left_loss, double right_loss)
{
    const struct eps__pld_plan *plan = lane->plan;
    struct eps__pair_point left = lane->left.at, right;
    if (!(left.z < lane->stop_z) || (!lane->started && left.loss - left.loss_error >= right_loss))
        return;
    if (!lane->started)
        cell->right += lane->edge;
    lane->started = true;
    eps__pair_inverse(lane->pair, &left, lane->stop_z, right_loss, &right, lane->right.numerator_share,
                      lane->right.denominator_share);
    if (right.z < lane->stop_z || right.loss > right_loss)
        walk->loss_error = fmax(walk->loss_error, fabs(right.loss - right_loss) + right.loss_error);
    double from = fmin(fmax(left.z, plan->fine_low), right.z), beyond = fmax(from - lane->reach, 0);
    double matters = lane->reach + sqrt(beyond * beyond + 2 * NATS);
    double to = fmax(fmin(right.z, fmin(plan->fine_high, matters)), from);
    if (!(walk->width.value < WIDEST_SPLIT))
        to = from = right.z;
    add_coarse(walk, lane, cell, left.z, from);
    add_fine(walk, lane, cell, from, to, left_loss);
    add_coarse(walk, lane, cell, to, right.z);
    struct place passed = lane->left;
    lane->left = lane->right;
    lane->left.at = right;
    lane->right = passed;
}

static void set_width(struct width *width, double value)
{
    if (width->value != value)
        *width = (struct width){value, expm1(value), -expm1(-value)};
}

static bool all_stopped(const struct walk *walk)
{
    for (size_t b = 0; b < walk->lanes_len; b++)
        if (walk->lanes[b].left.at.z < walk->lanes[b].stop_z)
            return false;
    return true;
}

/* Adds the cells from knot `index`, which is at or below the beginning of every branch, until every branch has ended or
 * stop_index is reached. */
static enum eps_status walk_cells(struct walk *walk, int64_t index, int64_t stop_index)
{
    for (size_t b = 0; b < walk->lanes_len; b++)
        if (!(fabs(walk->lanes[b].left.at.loss) / walk->plan->spacing < INDEX_MAX))
            return EPS_TOO_COSTLY;
    for (size_t count = 0; index < stop_index && !all_stopped(walk); count++) {
        if (count % 1024 == 1023 && walk->status == EPS_OK)
            walk->status = eps__poll(walk->context);
        if (walk->status != EPS_OK)
            return walk->status;
        if (walk->cells.len >= (walk->plan->cells_max ? walk->plan->cells_max : CELLS_MAX) ||
            !(fabs((double)index) < INDEX_MAX))
            return EPS_TOO_COSTLY;
        int64_t next = next_knot(walk, index, stop_index);
        struct eps__cell *cell = eps__cells_add(&walk->cells, next);
        if (!cell)
            return EPS_NO_MEMORY;
        set_width(&walk->width, (double)(next - index) * walk->plan->spacing);
        for (size_t b = 0; b < walk->lanes_len; b++)
            add_lane(walk, &walk->lanes[b], cell, loss_at(walk, index), loss_at(walk, next));
        index = next;
    }
    return EPS_OK;
}

/* The knot at or below the beginning of every branch; INT64_MAX if all branches have ended. Clamped to the range of an
 * index; walk_cells() refuses to begin at a clamped one. */
static int64_t first_knot(const struct walk *walk)
{
    double lowest = INFINITY;
    for (size_t b = 0; b < walk->lanes_len; b++) {
        const struct lane *lane = &walk->lanes[b];
        if (lane->left.at.z < lane->stop_z)
            lowest = fmin(lowest, lane->left.at.loss - lane->left.at.loss_error);
    }
    double knot = floor((lowest - walk->offset) / walk->plan->spacing);
    return isinf(lowest) ? INT64_MAX : (int64_t)fmin(fmax(knot, -4 * INDEX_MAX), 4 * INDEX_MAX);
}

/* ------------------------------------------------------------ the ends */

static enum eps_status walk_upper(struct walk *walk, double *infinity)
{
    double log_lower, log_upper;
    for (size_t b = 0; b < walk->lanes_len; b++) {
        struct lane *lane = &walk->lanes[b];
        eps__pair_log_mass(lane->pair, -INFINITY, lane->plan->z_low, &log_lower, &log_upper);
        lane->edge = bounded_mass(lane, log_upper, EPS__UPPER);
    }
    walk->cells.first = first_knot(walk);
    enum eps_status status = walk_cells(walk, walk->cells.first, INT64_MAX);
    if (status == EPS_OK && walk->cells.len == 0) /* every branch has an empty range */
        status = EPS_TOO_COSTLY;
    if (status != EPS_OK)
        return status;
    struct eps__cell *last = &walk->cells.items[walk->cells.len - 1];
    *infinity = UNDERFLOW;
    for (size_t b = 0; b < walk->lanes_len; b++) {
        const struct lane *lane = &walk->lanes[b];
        eps__pair_log_mass(lane->pair, lane->plan->z_high, INFINITY, &log_lower, &log_upper);
        double beyond = bounded_mass(lane, log_upper, EPS__UPPER);
        if (eps__pair_ceiling(lane->pair) <= loss_at(walk, last->index))
            last->right += beyond;
        else
            *infinity += beyond;
        *infinity += lane->weight * lane->pair->lost;
    }
    return EPS_OK;
}

/* The z at which a pair's loss is `loss`, within the range of its plan. */
static double z_at(const struct lane *lane, double loss)
{
    struct eps__pair_point low, point;
    eps__pair_at(lane->pair, lane->plan->z_low, &low, NULL, NULL);
    if (low.loss >= loss)
        return lane->plan->z_low;
    eps__pair_inverse(lane->pair, &low, lane->plan->z_high, loss, &point, NULL, NULL);
    return point.z;
}

/* An end cell: which branches it merges, and up to (or from) which z of each. */
struct end {
    bool floor; /* whether at the smallest loss; otherwise at the largest */
    bool *joins;
    double *z;
};

/* ln(P/Q) of the end cell that ends at `loss`, rounded down: the centroid to which the cell may be merged. */
static double merged_loss(const struct walk *walk, const struct end *end, double loss)
{
    double p = 0, q = 0, scale_p = NAN, scale_q = NAN;
    for (size_t b = 0; b < walk->lanes_len; b++) {
        const struct lane *lane = &walk->lanes[b];
        struct eps__pair exchanged = {.numerator = lane->pair->denominator, .denominator = lane->pair->numerator};
        double log_lower, log_upper, other_lower, other_upper;
        if (!end->joins[b])
            continue;
        end->z[b] = z_at(lane, loss);
        double left = end->floor ? -INFINITY : end->z[b], right = end->floor ? end->z[b] : INFINITY;
        eps__pair_log_mass(lane->pair, left, right, &log_lower, &log_upper);
        eps__pair_log_mass(&exchanged, -right, -left, &other_lower, &other_upper);
        if (isnan(scale_p)) {
            scale_p = log_lower;
            scale_q = other_upper;
        }
        p += lane->weight * eps__exp_bound(EPS__LOWER, log_lower - scale_p, 8 * EPS__UNIT_ROUNDOFF * fabs(scale_p));
        q += lane->weight * eps__exp_bound(EPS__UPPER, other_upper - scale_q, 8 * EPS__UNIT_ROUNDOFF * fabs(scale_q));
    }
    return eps__shift(EPS__LOWER, scale_p - scale_q + log(p / q),
                      4 * EPS__UNIT_ROUNDOFF * (fabs(scale_p) + fabs(scale_q)));
}

/* The distance from `loss`, where the end cell ends, to its centroid inside. */
static double end_distance(const struct walk *walk, const struct end *end, double loss)
{
    double merged = merged_loss(walk, end, loss);
    return end->floor ? loss - merged : merged - loss;
}

/* The finite end of a pair's losses (of the floor, its negative); INFINITY if there is none. */
static double pair_end(const struct eps__pair *pair, bool floor)
{
    struct eps__pair exchanged = {.numerator = pair->denominator, .denominator = pair->numerator};
    return floor ? eps__pair_ceiling(&exchanged) : eps__pair_ceiling(pair);
}

/* Chooses the branches whose end cells are merged: the one with the largest mass within a spacing of its end, and those
 * whose ends lie within a spacing of its end. A branch whose range stops more than a spacing before its end is not
 * considered as the first. Returns false if there is none. */
static bool choose_end(const struct walk *walk, struct end *end, size_t *primary)
{
    double most = 0;
    for (size_t b = 0; b < walk->lanes_len; b++) {
        const struct lane *lane = &walk->lanes[b];
        struct eps__pair_point point;
        double log_lower, log_upper;
        for (size_t other = 0; other < walk->lanes_len; other++)
            end->joins[other] = other == b;
        if (!isfinite(pair_end(lane->pair, end->floor)))
            continue;
        eps__pair_at(lane->pair, end->floor ? lane->plan->z_low : lane->plan->z_high, &point, NULL, NULL);
        if (!(end_distance(walk, end, point.loss) < walk->plan->spacing))
            continue;
        double within = end->floor ? z_at(lane, walk->plan->spacing - pair_end(lane->pair, true))
                                   : z_at(lane, pair_end(lane->pair, false) - walk->plan->spacing);
        eps__pair_log_mass(lane->pair, end->floor ? -INFINITY : within, end->floor ? within : INFINITY, &log_lower,
                           &log_upper);
        if (!(lane->weight * exp(log_lower) > most))
            continue;
        most = lane->weight * exp(log_lower);
        *primary = b;
    }
    for (size_t b = 0; b < walk->lanes_len; b++)
        end->joins[b] = most > 0 && fabs(pair_end(walk->lanes[b].pair, end->floor) -
                                         pair_end(walk->lanes[*primary].pair, end->floor)) < walk->plan->spacing;
    return most > 0;
}

/* The loss at which the end cell must end so that its centroid lies one spacing inside. */
static double anchor_loss(const struct walk *walk, const struct end *end, size_t primary)
{
    const struct lane *lane = &walk->lanes[primary];
    double low = lane->plan->z_low, high = lane->plan->z_high;
    struct eps__pair_point point;
    for (int i = 0; i < 60 && high - low > 1e-12; i++) {
        double middle = 0.5 * (low + high);
        eps__pair_at(lane->pair, middle, &point, NULL, NULL);
        if ((end_distance(walk, end, point.loss) > walk->plan->spacing) == end->floor)
            high = middle;
        else
            low = middle;
    }
    eps__pair_at(lane->pair, 0.5 * (low + high), &point, NULL, NULL);
    return point.loss;
}

/* Adds the mass of a merged end to the knot `at`, which is at or below its centroid: to the cell that begins or ends
 * there. */
static void add_end(struct walk *walk, const struct end *end, int64_t at)
{
    double mass = 0, log_lower, log_upper;
    for (size_t b = 0; b < walk->lanes_len; b++) {
        if (!end->joins[b])
            continue;
        eps__pair_log_mass(walk->lanes[b].pair, end->floor ? -INFINITY : end->z[b], end->floor ? end->z[b] : INFINITY,
                           &log_lower, &log_upper);
        mass += eps__lower(bounded_mass(&walk->lanes[b], log_lower, EPS__LOWER), 4);
    }
    int64_t left = walk->cells.first;
    for (size_t i = 0; i < walk->cells.len; i++) {
        struct eps__cell *cell = &walk->cells.items[i];
        if (left == at) {
            cell->left += mass;
            return;
        }
        if (cell->index == at) {
            cell->right += mass;
            return;
        }
        left = cell->index;
    }
}

/* Walks from the floor's end cell [at, at + 1] on. Branches without that floor may begin below it. */
static enum eps_status walk_from_floor(struct walk *walk, const struct end *end, int64_t at)
{
    int64_t first = at;
    for (size_t b = 0; b < walk->lanes_len; b++) {
        struct lane *lane = &walk->lanes[b];
        if (end->joins[b])
            move_to(lane, &lane->left, end->z[b]);
    }
    if (first_knot(walk) < first)
        first = first_knot(walk);
    walk->cells.first = first;
    enum eps_status status = walk_cells(walk, first, at);
    if (status == EPS_OK && walk->cells.len && walk->cells.items[walk->cells.len - 1].index < at &&
        !eps__cells_add(&walk->cells, at))
        status = EPS_NO_MEMORY;
    if (status == EPS_OK) /* the knots at and at + 1 must exist, whatever the other branches need */
        status = walk_cells(walk, at, at + 1);
    if (status == EPS_OK && (walk->cells.len == 0 || walk->cells.items[walk->cells.len - 1].index < at + 1) &&
        !eps__cells_add(&walk->cells, at + 1))
        status = EPS_NO_MEMORY;
    if (status == EPS_OK)
        status = walk_cells(walk, at + 1, INT64_MAX);
    if (status == EPS_OK)
        add_end(walk, end, at);
    return status;
}

/* Walks up to the knot at - 1, then over the ceiling's end cell [at - 1, at], then on with the branches that go
 * further. */
static enum eps_status walk_to_ceiling(struct walk *walk, const struct end *end, int64_t at)
{
    for (size_t b = 0; b < walk->lanes_len; b++)
        if (end->joins[b])
            walk->lanes[b].stop_z = end->z[b];
    walk->cells.first = first_knot(walk);
    if (walk->cells.first > at - 1)
        walk->cells.first = at - 1;
    enum eps_status status = walk_cells(walk, walk->cells.first, at - 1);
    for (size_t b = 0; b < walk->lanes_len; b++) /* what rounding leaves of them belongs to the end cell */
        if (end->joins[b])
            walk->lanes[b].stop_z = -INFINITY;
    for (int64_t knot = at - 1; knot <= at && status == EPS_OK; knot++) {
        int64_t reached = walk->cells.len ? walk->cells.items[walk->cells.len - 1].index : walk->cells.first;
        status = walk_cells(walk, reached, knot);
        reached = walk->cells.len ? walk->cells.items[walk->cells.len - 1].index : walk->cells.first;
        if (status == EPS_OK && reached < knot && !eps__cells_add(&walk->cells, knot))
            status = EPS_NO_MEMORY;
    }
    if (status == EPS_OK)
        status = walk_cells(walk, at, INT64_MAX);
    if (status == EPS_OK)
        add_end(walk, end, at);
    return status;
}

static enum eps_status walk_lower(struct walk *walk, struct end *end)
{
    size_t primary;
    double spacing = walk->plan->spacing;
    end->floor = true;
    bool found = choose_end(walk, end, &primary);
    if (!found) {
        end->floor = false;
        found = choose_end(walk, end, &primary);
    }
    if (!found) {
        walk->cells.first = first_knot(walk);
        return walk_cells(walk, walk->cells.first, INT64_MAX);
    }
    /* The point of the merged cell must not lie above its centroid, and its distance to the next knot is a whole
     * spacing, so the offset of the grid follows from it. */
    double loss = anchor_loss(walk, end, primary), centroid = merged_loss(walk, end, loss);
    double knot = fmin(loss, centroid + (end->floor ? spacing : -spacing));
    if (!(fabs(knot) / spacing < INDEX_MAX))
        return EPS_TOO_COSTLY;
    int64_t index = (int64_t)nearbyint(knot / spacing);
    walk->offset = knot - (double)index * spacing;
    walk->offset -= 4 * EPS__UNIT_ROUNDOFF * (fabs(knot) + spacing);
    for (size_t b = 0; b < walk->lanes_len; b++) {
        struct eps__pair_point point;
        if (!end->joins[b])
            continue;
        eps__pair_at(walk->lanes[b].pair, end->z[b], &point, NULL, NULL);
        walk->loss_error = fmax(walk->loss_error, point.loss_error);
    }
    return end->floor ? walk_from_floor(walk, end, index - 1) : walk_to_ceiling(walk, end, index + 1);
}

static bool open_place(struct place *place, const struct eps__pair *pair)
{
    place->numerator_share = malloc(pair->numerator.len * sizeof(double));
    place->denominator_share = malloc(pair->denominator.len * sizeof(double));
    return place->numerator_share && place->denominator_share;
}

static void close_place(struct place *place)
{
    free(place->numerator_share);
    free(place->denominator_share);
}

static bool open_lanes(struct walk *walk, const struct eps__branch *branches, const struct eps__pld_plan *plans)
{
    for (size_t b = 0; b < walk->lanes_len; b++) {
        const struct eps__pair *pair = &branches[b].pair[walk->estimate];
        struct lane *lane = &walk->lanes[b];
        *lane = (struct lane){.pair = pair, .plan = &plans[b], .weight = branches[b].weight[walk->estimate]};
        lane->reach = eps__mixture_reach(&pair->numerator);
        lane->rate = lane->reach + eps__mixture_reach(&pair->denominator) + 1;
        if (!open_place(&lane->left, pair) || !open_place(&lane->right, pair) || !open_place(&lane->inner, pair))
            return false;
        move_to(lane, &lane->left, plans[b].z_low);
        lane->stop_z = plans[b].z_high;
    }
    return true;
}

enum eps_status eps__pld_build(const struct eps_context *context, struct eps__pld *pld,
                               const struct eps__branch *branches, const struct eps__pld_plan *plans, size_t len,
                               enum eps__estimate estimate)
{
    struct walk walk = {.context = context, .plan = plans, .estimate = estimate, .lanes_len = len};
    struct eps__pld built = {.estimate = estimate, .spacing = plans->spacing};
    struct end end = {.joins = calloc(len, sizeof(bool)), .z = calloc(len, sizeof(double))};
    enum eps_status status = EPS_NO_MEMORY;
    double weight_error = 0;
    walk.cells.spacing = plans->spacing;
    walk.lanes = calloc(len, sizeof *walk.lanes);
    if (!end.joins || !end.z || !walk.lanes || !open_lanes(&walk, branches, plans))
        goto out;
    status = estimate == EPS__UPPER ? walk_upper(&walk, &built.infinity) : walk_lower(&walk, &end);
    if (status == EPS_OK && walk.cells.len == 0)
        status = EPS_TOO_COSTLY;
    if (status != EPS_OK)
        goto out;
    status = eps__cells_assemble(&built, &walk.cells, estimate);
    if (status != EPS_OK)
        goto out;
    for (size_t b = 0; b < len; b++)
        weight_error = fmax(weight_error, branches[b].pair[estimate].weight_error);
    built.offset = walk.offset;
    built.loss_error = walk.loss_error + 2 * weight_error;
    EPS__VERIFY(!eps__verify_now() || eps__verify_curve(&built, branches, len));
    *pld = built;
out:
    eps__cells_clear(&walk.cells);
    for (size_t b = 0; walk.lanes && b < len; b++) {
        close_place(&walk.lanes[b].left);
        close_place(&walk.lanes[b].right);
        close_place(&walk.lanes[b].inner);
    }
    free(walk.lanes);
    free(end.joins);
    free(end.z);
    return status;
}

void eps__pld_clear(struct eps__pld *pld)
{
    free(pld->index);
    free(pld->mass);
    *pld = (struct eps__pld){0};
}

/* sum_i mass_i e^{exponent (loss_i - loss_end)} over knots without gaps, by Horner's rule, for each CHAINS-th knot
 * first; loss_end is the end at which the factors are at most 1. */
static double dense_moment(const struct eps__pld *pld, double exponent)
{
    enum { CHAINS = 8 };
    double decay = -fabs(exponent) * pld->spacing, factor = exp(decay), factors = exp(CHAINS * decay);
    double chain[CHAINS] = {0}, total = 0;
    size_t first = pld->len % CHAINS;
    for (size_t c = 0; c < first; c++)
        chain[CHAINS - first + c] = pld->mass[exponent > 0 ? c : pld->len - 1 - c];
    for (size_t i = first; i < pld->len; i += CHAINS)
        for (size_t c = 0; c < CHAINS; c++)
            chain[c] = chain[c] * factors + pld->mass[exponent > 0 ? i + c : pld->len - 1 - i - c];
    for (size_t c = 0; c < CHAINS; c++)
        total = total * factor + chain[c];
    return total;
}

/* sum_i mass_i e^{exponent loss_i - largest}. */
static double sparse_moment(const struct eps__pld *pld, double exponent, double largest)
{
    enum { AT_ONCE = 8 * EPS__LANES };
    double total = 0;
    for (size_t from = 0; from < pld->len; from += AT_ONCE) {
        double power[AT_ONCE];
        size_t some = pld->len - from < AT_ONCE ? pld->len - from : AT_ONCE;
        for (size_t i = 0; i < AT_ONCE; i++)
            power[i] =
                i < some && pld->mass[from + i] > 0 ? exponent * eps__pld_loss(pld, from + i) - largest : -INFINITY;
        eps__exp_lanes(power, AT_ONCE / EPS__LANES);
        for (size_t i = 0; i < some; i++)
            total += pld->mass[from + i] * power[i];
    }
    return total;
}

double eps__pld_log_moment(const struct eps__pld *pld, double tilt, double *error)
{
    double exponent = tilt - pld->tilt, first = eps__pld_loss(pld, 0), last = eps__pld_loss(pld, pld->len - 1);
    double largest = -INFINITY, total = 0;
    if (pld->index[pld->len - 1] - pld->index[0] == (int64_t)pld->len - 1) {
        largest = exponent * (exponent > 0 ? last : first);
        total = dense_moment(pld, exponent);
    } else {
        for (size_t i = 0; i < pld->len; i++)
            if (pld->mass[i] > 0) {
                double own = exponent * eps__pld_loss(pld, i);
                largest = own > largest ? own : largest;
            }
        total = sparse_moment(pld, exponent, largest);
    }
    double log_total = log(total);
    *error = 4 * EPS__UNIT_ROUNDOFF *
             ((double)pld->len + fabs(exponent) * (fabs(first) + fabs(last)) + fabs(exponent) * 2 * fabs(pld->offset) +
              fabs(largest) + fabs(log_total) + fabs(pld->log_scale) + 4);
    EPS__VERIFY(!eps__verify_now() || eps__verify_log_moment(pld, tilt, largest + log_total + pld->log_scale, *error));
    return largest + log_total + pld->log_scale;
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
    return eps__certain(pld->estimate, eps__log_bound(pld->estimate, total, 8 + (double)pld->len));
}

static bool copy_part(struct eps__pld *part, const struct eps__pld *pld, size_t from, size_t len)
{
    *part = *pld;
    part->infinity = 0;
    part->len = len;
    part->index = malloc((len + 1) * sizeof *part->index);
    part->mass = malloc((len + 1) * sizeof *part->mass);
    if (!part->index || !part->mass)
        return false;
    memcpy(part->index, pld->index + from, len * sizeof *part->index);
    memcpy(part->mass, pld->mass + from, len * sizeof *part->mass);
    return true;
}

enum eps_status eps__pld_split(const struct eps__pld *pld, double cut, struct eps__pld *core, struct eps__pld *jump)
{
    size_t at = 0;
    while (at < pld->len && eps__pld_loss(pld, at) <= cut)
        at++;
    *jump = (struct eps__pld){0};
    bool made = copy_part(core, pld, 0, at) && copy_part(jump, pld, at, pld->len - at);
    if (made)
        return EPS_OK;
    eps__pld_clear(core);
    eps__pld_clear(jump);
    return EPS_NO_MEMORY;
}

double eps__pld_total(const struct eps__pld *pld)
{
    double total = 0;
    for (size_t i = 0; i < pld->len; i++)
        total += pld->mass[i];
    return eps__raise(total, (double)pld->len + 4);
}
