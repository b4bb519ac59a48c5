/*
 * A lognormal on a grid. Upper: the mass of a cell goes to its two knots so that mass and mean are kept. Lower: the
 * curve k -> E[(k - V)_+] of that law is lowered at the knots by a bound on how far a cell's chord lies above the true
 * curve, and made convex again. The mean is kept as well, because the lowest knot is at a conditional mean. So the
 * error of both estimates is of second order in the spacing, as sums of thousands of terms require.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/pld/pairs/lognormal.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "lib/base/error.h"
#include "lib/numerics/normal.h"

enum {
    COARSE_LEN = 400,
    FINE_LEN = 300,
    KNOTS_MAX = 1 << 22,
    POLL_EVERY = 4096,
    TRIES = 12,
    SKIPPED_MAX = 4096,
    STEPS_DOWN_MAX = 4096
};

#define Z_REACH 37.5 /* in standard deviations: beyond it masses nearly underflow */
#define ALONE 1e3    /* a tilt times the distance to the largest loss above this leaves only that loss */
#define INDEX_MAX 0x1p50
#define LOG_SMALL 44.0 /* in nats: a tilted density this far below the largest is not on the fine grid */

/* ------------------------------------------------------------ where to look */

/* Points for sums over the density: coarse over its whole range, fine over the last octaves below the cut, where a tilt
 * may put the mass. */
struct points {
    double z[COARSE_LEN + FINE_LEN], log_weight[COARSE_LEN + FINE_LEN], loss[COARSE_LEN + FINE_LEN];
    size_t len;
};

static double value_at(const struct eps__lognormal *law, double z)
{
    return exp(law->s * z - 0.5 * law->s * law->s);
}

static void add_points(struct points *points, const struct eps__lognormal *law, double from, double to, size_t len)
{
    double step = (to - from) / (double)len;
    for (size_t i = 0; i < len; i++) {
        double z = from + ((double)i + 0.5) * step, exponent = law->s * z - 0.5 * law->s * law->s;
        points->z[points->len] = z;
        points->log_weight[points->len] = -0.5 * z * z - EPS__LOG_SQRT_2PI + log(step);
        points->loss[points->len++] = law->falls ? -exp(exponent) : expm1(exponent);
    }
}

static void set_points(struct points *points, const struct eps__lognormal *law)
{
    double low = fmin(-Z_REACH, law->z_cut - 10), high = fmin(law->z_cut, law->s + Z_REACH);
    double fine = fmax(high - 5 / law->s, low);
    points->len = 0;
    if (fine > low)
        add_points(points, law, low, fine, COARSE_LEN);
    add_points(points, law, fine, high, FINE_LEN);
}

struct moments {
    double log_moment, mean, variance, largest;
};

static void tilted_moments(const struct points *points, double tilt, struct moments *moments)
{
    double largest = -INFINITY, total = 0, mean = 0, square = 0;
    for (size_t i = 0; i < points->len; i++)
        largest = fmax(largest, points->log_weight[i] + tilt * points->loss[i]);
    for (size_t i = 0; i < points->len; i++) {
        double weight = exp(points->log_weight[i] + tilt * points->loss[i] - largest);
        total += weight;
        mean += weight * points->loss[i];
        square += weight * points->loss[i] * points->loss[i];
    }
    mean /= total;
    *moments = (struct moments){largest + log(total), mean, fmax(square / total - mean * mean, 0), largest};
}

/* Finds the tilt at which the mean is `wanted`, to within a tenth of the deviation of the sum if possible. Returns
 * false if there is none. */
static bool find_tilt(const struct points *points, double wanted, double count, double *tilt, struct moments *moments)
{
    double low = 0, high = 0, last = points->loss[points->len - 1] - points->loss[points->len - 2];
    *tilt = 0;
    tilted_moments(points, 0, moments);
    double step = moments->variance > 0 ? (wanted - moments->mean) / moments->variance : 1;
    if (!(step > 0) && moments->mean < wanted) /* no step to double */
        return false;
    while (moments->mean < wanted) {
        low = high;
        *tilt = high = high > 0 ? 2 * high : step;
        tilted_moments(points, high, moments);
        if (!(high < 1e300) || !isfinite(moments->mean) || (high * last > ALONE && moments->mean < wanted))
            return false; /* only the largest loss is left */
    }
    for (int i = 0; i < 100 && high - low > 1e-12 * high; i++) {
        if (fabs(moments->mean - wanted) <= 0.1 * sqrt(moments->variance / count))
            return true;
        double middle = *tilt = 0.5 * (low + high);
        tilted_moments(points, middle, moments);
        bool under = moments->mean < wanted;
        low = under ? middle : low;
        high = under ? high : middle;
    }
    *tilt = high;
    tilted_moments(points, high, moments);
    return true;
}

/* int_0^inf y e^{-x y} phi(y) dy: the tilted expected excess of a normal variable. */
static double tilted_excess(double x)
{
    double density = exp(-EPS__LOG_SQRT_2PI);
    return x > 100 ? density / (x * x) : density * fmax(1 - x * eps__mills(x), 1e-5);
}

bool eps__lognormal_aim(const struct eps__lognormal *law, double count, double target, struct eps__lognormal_aim *aim)
{
    struct points points;
    struct moments moments;
    double tilt;
    if (!(law->z_cut > -Z_REACH))
        return false;
    set_points(&points, law);
    if (!find_tilt(&points, target / count, count, &tilt, &moments))
        return false;
    aim->tilt = tilt;
    aim->log_moment = moments.log_moment;
    aim->deviation = sqrt(count * moments.variance);
    aim->payoff = aim->deviation * tilted_excess(tilt * aim->deviation);
    if (tilt == 0)
        aim->payoff = fmax(aim->payoff, count * moments.mean - target);
    double low = INFINITY, high = -INFINITY, step = 0;
    for (size_t i = 0; i < points.len; i++) {
        /* compares masses of cells, which include the cell's width */
        if (points.log_weight[i] + tilt * points.loss[i] < moments.largest - LOG_SMALL)
            continue;
        step = fmax(i > 0 ? points.z[i] - points.z[i - 1] : 0, i + 1 < points.len ? points.z[i + 1] - points.z[i] : 0);
        low = fmin(low, points.z[i] - step);
        high = fmax(high, points.z[i] + step);
    }
    if (high >= law->s + Z_REACH && high < law->z_cut)
        return false;
    aim->low = value_at(law, low);
    aim->high = value_at(law, fmin(high, law->z_cut));
    return true;
}

/* ------------------------------------------------------------ cells */

/* The state of a construction. The knots are x[0] = origin and x[j] = origin + index[j] spacing. Their z are moved to
 * the safe side by a bound on their error: the masses are exact for the knots at the moved z, which are then moved to
 * the grid. */
struct builder {
    const struct eps__lognormal *law;
    const struct eps__lognormal_aim *aim;
    enum eps__estimate estimate;
    double spacing, origin; /* >= 0 */
    double offset;          /* of V - 1: origin = 1 + offset to within half an ulp of 1; with falls, of V: equals
                             * origin */
    int64_t *index;
    double *z;
    size_t len, capacity; /* number of knots */
    struct cell *cells;   /* cells[j] is between knots j - 1 and j; cells[0] is unused */
    double *mass;         /* tilted */
};

/* A cell: its mass and the share of its right knot, each with an error bound; ln of a bound on the gap between chord
 * and curve. */
struct cell {
    double log_mass, mass_error, share, share_error, log_gap;
};

static double knot_value(const struct builder *b, int64_t index)
{
    return b->origin + (double)index * b->spacing;
}

/* Bound on the error of ln of a knot's value that is computed from its z (P14). */
static double log_value_error(double s, double log_x)
{
    return EPS__UNIT_ROUNDOFF * (8 + 6 * fabs(log_x) + 4 * s * s);
}

static double knot_z(const struct builder *b, double x)
{
    double s = b->law->s, log_x = log(x), z = (log_x + 0.5 * s * s) / s;
    double error = log_value_error(s, log_x) / s + 2 * EPS__UNIT_ROUNDOFF * fabs(z);
    /* moving a knot to the grid must raise (upper) or lower (lower) the loss */
    bool below = (b->estimate == EPS__UPPER) != b->law->falls;
    return below ? z - error : z + error;
}

static enum eps_status add_knot(struct builder *b, int64_t index)
{
    if (b->len == b->capacity) {
        size_t capacity = b->capacity ? 2 * b->capacity : 1024;
        if (b->len >= KNOTS_MAX)
            return EPS_TOO_COSTLY;
        int64_t *indices = realloc(b->index, capacity * sizeof *indices);
        if (indices)
            b->index = indices;
        double *z = realloc(b->z, capacity * sizeof *z);
        if (z)
            b->z = z;
        if (!indices || !z)
            return EPS_NO_MEMORY;
        b->capacity = capacity;
    }
    b->index[b->len] = index;
    b->z[b->len] = index == 0 ? -INFINITY : knot_z(b, knot_value(b, index));
    if (b->len >= 1 && !(b->z[b->len] >= b->z[b->len - 1]))
        return EPS_TOO_COSTLY; /* the spacing is below the rounding of a knot; a coarser grid may work */
    b->len++;
    return EPS_OK;
}

static void builder_clear(struct builder *b)
{
    free(b->index);
    free(b->z);
    free(b->cells);
    free(b->mass);
    b->index = NULL;
    b->z = b->mass = NULL;
    b->cells = NULL;
    b->len = b->capacity = 0;
}

static double square(double x)
{
    return x * x;
}

/* ln Pr[Z <= z] and ln E[V; Z <= z] = ln Pr[Z <= z - s]. Out: *error, a bound on the absolute errors of both
 * together. */
static void part_below(const struct builder *b, double z, double *log_mass, double *log_mean, double *error)
{
    double s = b->law->s, at = s - z;
    *log_mass = eps__log_normal_tail(-z);
    *log_mean = eps__log_normal_tail(at);
    *error = EPS__LOG_TAIL_ERROR(z) + EPS__LOG_TAIL_ERROR(at) + 2 * EPS__UNIT_ROUNDOFF * square(fabs(at) + 1);
}

/* The first cell, from V = 0 to its right knot; its left knot is the origin. In the lower estimate its mean may be
 * below the origin. */
static void first_cell(const struct builder *b, struct cell *cell)
{
    double log_mean, x = knot_value(b, b->index[1]), width = x - b->origin;
    part_below(b, b->z[1], &cell->log_mass, &log_mean, &cell->mass_error);
    double mean = exp(log_mean - cell->log_mass);
    cell->share = (mean - b->origin) / width;
    cell->share_error = (mean * (cell->mass_error + EPS__UNIT_ROUNDOFF * (8 + 4 * fabs(cell->log_mass))) +
                         x * (2 * log_value_error(b->law->s, log(x)) + 8 * EPS__UNIT_ROUNDOFF)) /
                        width;
    cell->log_gap = -INFINITY; /* see first_gap() */
}

/* ln of the largest density of V in a cell: the density rises up to z = -s and falls from there. Out: *size, for its
 * rounding. */
static double log_density_max(const struct builder *b, double left, double right, double *size)
{
    double s = b->law->s, z = fmin(fmax(-s, left), right), log_x = s * z - 0.5 * s * s;
    *size = 0.5 * z * z + fabs(s * z) + s * s + fabs(log(s)) + 4;
    return -0.5 * z * z - log_x - log(s) - EPS__LOG_SQRT_2PI;
}

/* A cell between two knots above the first. `right`, the end of the part that counts, may be below the right knot's
 * z. */
static void inner_cell(const struct builder *b, size_t j, double right, struct cell *cell)
{
    double s = b->law->s, left = b->z[j - 1], width = right - left, unit = EPS__UNIT_ROUNDOFF;
    if (!(width > 0)) {
        *cell = (struct cell){.log_mass = -INFINITY, .log_gap = -INFINITY};
        return;
    }
    double error0, error1, shifted = left - s;
    double log_mean = eps__normal_log_mass(shifted, width, &error1);
    cell->log_mass = eps__normal_log_mass(left, width, &error0);
    error0 += 4 * unit * (1 + (fabs(left) + fabs(right)) * width);
    error1 += 4 * unit * (1 + (fabs(shifted) + fabs(shifted + width)) * (width + fabs(shifted)));
    double log_left = s * left - 0.5 * s * s, ratio = expm1(log_mean - cell->log_mass - log_left);
    double rise = expm1(s * (b->z[j] - left)); /* relative rise of V over the whole cell */
    double error = error0 + error1 +
                   unit * (8 + 4 * (fabs(log_mean) + fabs(cell->log_mass) + fabs(s * left) + s * s) +
                           4 * s * (fabs(left) + fabs(b->z[j])));
    cell->mass_error = error0;
    cell->share = ratio / rise;
    cell->share_error = (1 + fabs(ratio)) * error / rise * 2 + 8 * unit;
    if (!isfinite(cell->share) || !isfinite(cell->share_error)) /* any share is possible */
        cell->share = cell->share_error = 1;
    double size, log_width = log((double)(b->index[j] - b->index[j - 1]) * b->spacing);
    double share = fmin(fmax(cell->share, 0), 1), spread = fmin(share * (1 - share) + 2 * cell->share_error, 0.25);
    double by_density = log_density_max(b, left, right, &size) + 2 * log_width - log(8);
    double by_mass = cell->log_mass + log_width + log(spread);
    double slack = error0 + 2 * rise * unit + unit * (64 + 16 * size + 8 * fabs(log_width) + 8 * fabs(cell->log_mass));
    cell->log_gap = eps__shift(EPS__UPPER, fmin(by_density, by_mass), slack + 4 * log_value_error(s, log_left) / rise);
}

/* ln of the factor that tilts a mass at knot j. Out: *error, a bound on its error. */
static double log_weight(const struct builder *b, size_t j, double *error)
{
    double step = (double)b->index[j] * b->spacing, loss = b->offset + step;
    double tilt = b->law->falls ? -b->aim->tilt : b->aim->tilt;
    *error = EPS__UNIT_ROUNDOFF * (4 + 4 * fabs(tilt) * (fabs(b->offset) + step) + 4 * fabs(b->aim->log_moment));
    return tilt * loss - b->aim->log_moment;
}

/* The tilted mass that the cell gives to one of its knots: bounded in the direction of the estimate, with the share
 * moved to the safe side. */
static double given(const struct builder *b, const struct cell *cell, size_t knot, bool right)
{
    bool raised = right != b->law->falls; /* whether this knot has the larger loss */
    double share = right ? cell->share : 1 - cell->share, error, weight = log_weight(b, knot, &error);
    double move = raised == (b->estimate == EPS__UPPER) ? cell->share_error : -cell->share_error;
    share = fmin(fmax(share + move, 0), 1);
    if (share == 0 || isinf(cell->log_mass))
        return 0;
    double exponent = cell->log_mass + log(share) + weight;
    error +=
        cell->mass_error + EPS__UNIT_ROUNDOFF * (16 + 4 * fabs(cell->log_mass) + 4 * fabs(weight) + 4 * fabs(exponent));
    return eps__exp_bound(b->estimate, exponent, error);
}

static enum eps_status make_cells(struct builder *b, const struct eps_context *context)
{
    b->cells = calloc(b->len, sizeof *b->cells);
    b->mass = calloc(b->len, sizeof *b->mass);
    if (!b->cells || !b->mass)
        return EPS_NO_MEMORY;
    if (b->index[0] == 0)
        first_cell(b, &b->cells[1]);
    for (size_t j = b->index[0] == 0 ? 2 : 1; j < b->len; j++) {
        inner_cell(b, j, fmin(b->z[j], b->law->z_cut), &b->cells[j]);
        enum eps_status status = j % POLL_EVERY ? EPS_OK : eps__poll(context);
        if (status != EPS_OK)
            return status;
    }
    return EPS_OK;
}

static void split_cells(struct builder *b)
{
    for (size_t j = 0; j < b->len; j++)
        b->mass[j] = 0;
    for (size_t j = 1; j < b->len; j++) {
        b->mass[j - 1] += given(b, &b->cells[j], j - 1, false);
        b->mass[j] += given(b, &b->cells[j], j, true);
    }
    for (size_t j = 0; j < b->len; j++)
        b->mass[j] = eps__outward(b->estimate, b->mass[j], 4);
}

/* ------------------------------------------------------------ upper */

/* Adds the fine knots, after one at the origin if `origin`. */
static enum eps_status add_fine_knots(struct builder *b, bool origin, int64_t first, double high)
{
    enum eps_status status = origin ? add_knot(b, 0) : EPS_OK;
    for (int64_t i = first; status == EPS_OK; i++) {
        status = add_knot(b, i);
        if (b->len > 1 && (knot_value(b, i) >= high || b->z[b->len - 1] >= b->law->z_cut))
            break;
    }
    return status;
}

/* Adds knots above the fine ones up to the cut, with cells as wide as their small mass allows. */
static enum eps_status add_wide_knots(struct builder *b, double log_least)
{
    enum eps_status status = EPS_OK;
    double cut = value_at(b->law, b->law->z_cut);
    double t = b->aim->tilt + 30 / b->aim->deviation; /* Chernoff bounds on tails use a larger tilt */
    while (status == EPS_OK && b->z[b->len - 1] < b->law->z_cut) {
        int64_t last = b->index[b->len - 1];
        double x = knot_value(b, last), most = (cut - x) / b->spacing + 2;
        double log_mass = eps__log_normal_tail(b->z[b->len - 1]) + t * (x - 1) - b->aim->log_moment;
        double cells = fmin(floor((log_least - log_mass) / (t * b->spacing)), most);
        if (!(most < 0x1p50))
            return EPS_TOO_COSTLY;
        status = add_knot(b, last + (int64_t)fmax(isnan(cells) ? 1 : cells, 1));
    }
    return status;
}

static enum eps_status build_upper(struct builder *b, const struct eps_context *context, double log_least)
{
    b->offset = b->law->falls ? 0 : -1;
    b->origin = 0;
    double least = b->law->falls ? fmin(value_at(b->law, b->law->z_least), b->aim->low) : b->aim->low;
    if (!(least / b->spacing < INDEX_MAX))
        return EPS_TOO_COSTLY;
    int64_t first = (int64_t)fmax(floor(least / b->spacing) - 1, 0);
    /* no more may be left out than what is below z_least */
    for (int i = 0; b->law->falls && first > 0 && isfinite(b->law->z_least) &&
                    !(knot_z(b, knot_value(b, first)) <= b->law->z_least);
         i++, first--)
        if (i == STEPS_DOWN_MAX)
            return EPS_TOO_COSTLY; /* the spacing is below the rounding of a knot */
    /* small sums: what is below z_least is left out; large sums: it counts as at the first knot */
    bool origin = first == 0 || (b->law->falls && isinf(b->law->z_least));
    enum eps_status status = add_fine_knots(b, origin, first == 0 ? 1 : first, b->aim->high);
    if (status == EPS_OK && !b->law->falls)
        status = add_wide_knots(b, log_least);
    if (status == EPS_OK)
        status = make_cells(b, context);
    if (status != EPS_OK)
        return status;
    split_cells(b);
    if (!origin && !b->law->falls) {
        struct cell below = {.log_mass = eps__log_normal_tail(-b->z[0]), .mass_error = EPS__LOG_TAIL_ERROR(b->z[0])};
        b->mass[0] = eps__raise(b->mass[0] + given(b, &below, 0, false), 4);
    }
    double last = b->z[b->len - 1], width = b->law->z_cut - last;
    if (b->law->falls && width > 0) { /* what is above the last knot counts as at the knot */
        struct cell rest = {.share = 0};
        rest.log_mass = eps__normal_log_mass(last, width, &rest.mass_error);
        rest.mass_error += 4 * EPS__UNIT_ROUNDOFF * (1 + (fabs(last) + fabs(b->law->z_cut)) * width);
        b->mass[b->len - 1] = eps__raise(b->mass[b->len - 1] + given(b, &rest, b->len - 1, false), 4);
    }
    return EPS_OK;
}

/* ------------------------------------------------------------ lower */

/* Puts the origin at the mean of V below z, rounded up: the line from there with the slope Pr[V < value at z] is then
 * below the curve. Out: *log_below, ln of that slope, rounded down. */
static bool set_origin(struct builder *b, double z, double *log_below)
{
    double log_mass, log_mean, error;
    part_below(b, z, &log_mass, &log_mean, &error);
    double mean = eps__exp_bound(EPS__UPPER, log_mean - log_mass,
                                 error + EPS__UNIT_ROUNDOFF * 4 * (fabs(log_mean) + fabs(log_mass)));
    b->offset = b->law->falls ? mean : eps__add_up(mean, -1);
    b->origin = b->law->falls ? mean : 1 + b->offset;
    *log_below = eps__shift(EPS__LOWER, log_mass, EPS__LOG_TAIL_ERROR(z));
    return isfinite(log_mass) && isfinite(mean);
}

/* ln of a bound on how far the first cell's chord is above the line of set_origin() at its right knot. */
static double first_gap(const struct builder *b, double log_below)
{
    const struct cell *cell = &b->cells[1];
    double width = (double)b->index[1] * b->spacing, left = fmin(1 - cell->share + cell->share_error, 1);
    double whole = eps__shift(EPS__UPPER, cell->log_mass, cell->mass_error); /* the other terms are shares of it */
    double gap = fmax(left, 0) - eps__exp_bound(EPS__LOWER, log_below - whole, EPS__UNIT_ROUNDOFF * 2 * fabs(whole));
    double value = eps__log_bound(EPS__UPPER, width * (fmax(gap, 0) + 16 * EPS__UNIT_ROUNDOFF), 16) + whole;
    return eps__shift(EPS__UPPER, value, 4 * EPS__UNIT_ROUNDOFF * fabs(whole));
}

/* The lowering at knot i divided by the width, tilted as at knot j. */
static double gap_slope(const struct builder *b, const double *log_gaps, size_t i, size_t j, double width)
{
    double error, weight = log_weight(b, j, &error);
    return isinf(log_gaps[i]) ? 0 : exp(log_gaps[i] + weight) / width;
}

/* Subtracts the change of slope of the lowering from the masses, and a bound on the rounding of this. log_gaps[j]: ln
 * of the amount by which the curve is lowered at knot j. */
static void lower_knots(struct builder *b, const double *log_gaps)
{
    for (size_t j = 0; j < b->len; j++) {
        double change = 0, sizes = 0, worst = 0;
        for (int side = 0; side < 2; side++) {
            size_t other = side ? j + 1 : j - 1;
            if ((side == 0 && j == 0) || (side == 1 && j + 1 == b->len))
                continue;
            size_t left = side ? j : other;
            double width = (double)(b->index[left + 1] - b->index[left]) * b->spacing, x = knot_value(b, b->index[j]);
            double own = gap_slope(b, log_gaps, j, j, width), its = gap_slope(b, log_gaps, other, j, width);
            change += own - its;
            sizes += own + its;
            worst = fmax(worst, 4 * x / width * (log_value_error(b->law->s, log(x)) + EPS__UNIT_ROUNDOFF));
        }
        double error, weight = log_weight(b, j, &error);
        error += EPS__UNIT_ROUNDOFF * (32 + 8 * fabs(weight) + (isinf(log_gaps[j]) ? 0 : 8 * fabs(log_gaps[j])));
        b->mass[j] += change - (error + worst) * sizes - 4 * EPS__UNIT_ROUNDOFF * b->mass[j];
    }
}

/* Leaves out knots with negative mass, which lie above the chord of their neighbours; the neighbours share the mass so
 * that the mean is kept. Returns the end at which a mass is still negative. */
enum negative { NOWHERE, AT_LOW, AT_HIGH };
static enum negative make_convex(struct builder *b)
{
    size_t kept = 0;
    for (size_t i = 0; i < b->len; i++) {
        b->index[kept] = b->index[i];
        b->mass[kept++] = b->mass[i];
        while (kept >= 3 && b->mass[kept - 2] < 0) {
            double below = (double)(b->index[kept - 2] - b->index[kept - 3]) * b->spacing;
            double above = (double)(b->index[kept - 1] - b->index[kept - 2]) * b->spacing;
            double moved = eps__lower(b->mass[kept - 2], 32), tilt = b->law->falls ? -b->aim->tilt : b->aim->tilt;
            double error = EPS__UNIT_ROUNDOFF * 4 * fabs(tilt) * (below + above);
            b->mass[kept - 3] += eps__lower(moved * above / (below + above) * exp(-tilt * below + error), 16);
            b->mass[kept - 1] += eps__lower(moved * below / (below + above) * exp(tilt * above + error), 16);
            b->index[kept - 2] = b->index[kept - 1];
            b->mass[kept - 2] = b->mass[kept - 1];
            kept--;
        }
    }
    b->len = kept;
    for (size_t i = 0; i < kept; i++)
        if (!(b->mass[i] >= 0))
            return 2 * i < kept ? AT_LOW : AT_HIGH;
    return NOWHERE;
}

/* Puts all of a cell's mass at its left knot, so that its chord is nowhere above the curve. */
static void round_down(struct cell *cell)
{
    cell->share = cell->share_error = 0;
    cell->log_gap = -INFINITY;
}

/* Adds what lies above the last knot, up to the cut, to that knot. */
static void add_rest(struct builder *b)
{
    double last = b->z[b->len - 1], width = b->law->z_cut - last;
    if (!(width > 0))
        return;
    struct cell rest = {.share = 1};
    rest.log_mass = eps__normal_log_mass(last, width, &rest.mass_error);
    rest.mass_error += 4 * EPS__UNIT_ROUNDOFF * (1 + (fabs(last) + fabs(b->law->z_cut)) * width);
    b->mass[b->len - 1] = eps__lower(b->mass[b->len - 1] + given(b, &rest, b->len - 1, true), 4);
}

/* The lowering at each knot: the larger gap of its two cells. */
static void find_gaps(const struct builder *b, double log_below, double *log_gaps)
{
    size_t last = b->len - 1;
    log_gaps[0] = -INFINITY;
    for (size_t j = 1; j <= last; j++)
        log_gaps[j] = fmax(j == 1 ? first_gap(b, log_below) : b->cells[j].log_gap,
                           j < last ? b->cells[j + 1].log_gap : -INFINITY);
    if (b->law->falls) /* so that no slope exceeds the curve's (P15) */
        log_gaps[last] = fmax(log_gaps[last], log_gaps[last - 1]);
}

static double z_near(const struct builder *b, double x)
{
    return (log(x) + 0.5 * b->law->s * b->law->s) / b->law->s;
}

/* One attempt with the fine knots between `low` and `high`. EPS_UNSUPPORTED: a mass is negative at the end `*negative`,
 * or `low` and `high` do not suit. */
static enum eps_status try_lower(struct builder *b, const struct eps_context *context, double low, double high,
                                 enum negative *negative)
{
    double log_below, *log_gaps = NULL;
    double z = fmin(z_near(b, low), b->law->z_cut);
    enum eps_status status = EPS_UNSUPPORTED;
    *negative = AT_LOW;
    if (!set_origin(b, z, &log_below))
        return status;
    double first = floor((value_at(b->law, z) - b->origin) / b->spacing) + 1;
    if (!(first >= 1 && first < INDEX_MAX))
        return status;
    status = add_fine_knots(b, true, (int64_t)first, high);
    if (status == EPS_OK && !b->law->falls) /* large sums: no knot beyond the cut */
        while (b->len > 0 && !(b->z[b->len - 1] <= b->law->z_cut))
            b->len--;
    if (status == EPS_OK && (b->len < 5 || !(b->z[1] > z)))
        status = EPS_UNSUPPORTED;
    if (status == EPS_OK)
        status = make_cells(b, context);
    /* large sums: the first cell's mean must not be below the origin, because moving it up is unsafe */
    if (status == EPS_OK && !b->law->falls && !(b->cells[1].share > b->cells[1].share_error))
        status = EPS_UNSUPPORTED;
    log_gaps = status == EPS_OK ? malloc(b->len * sizeof *log_gaps) : NULL;
    if (status == EPS_OK && !log_gaps)
        status = EPS_NO_MEMORY;
    if (status == EPS_OK) {
        if (!b->law->falls) {
            round_down(&b->cells[b->len - 1]);
            round_down(&b->cells[b->len - 2]);
        }
        find_gaps(b, log_below, log_gaps);
        split_cells(b);
        if (!b->law->falls)
            add_rest(b);
        lower_knots(b, log_gaps);
        if (b->law->falls) /* leave out the last knot, whatever its sign (P15) */
            b->mass[--b->len] = 0;
        *negative = make_convex(b);
        status = *negative == NOWHERE ? EPS_OK : EPS_UNSUPPORTED;
    }
    free(log_gaps);
    return status;
}

/* The density of V at x times the spacing. */
static double density_at(const struct builder *b, double x)
{
    double z = z_near(b, x);
    return exp(-0.5 * z * z - EPS__LOG_SQRT_2PI) / (b->law->s * x) * b->spacing;
}

/* Puts all the mass at its mean. */
static enum eps_status build_atom(struct builder *b)
{
    double log_below;
    builder_clear(b);
    if (!set_origin(b, b->law->z_cut, &log_below))
        return EPS_OK; /* no mass at all is a lower estimate too */
    enum eps_status status = add_knot(b, 0);
    b->mass = status == EPS_OK ? calloc(1, sizeof *b->mass) : NULL;
    if (!b->mass)
        return status == EPS_OK ? EPS_NO_MEMORY : status;
    if (!b->law->falls) { /* large sums: round the mean down */
        double log_mass, log_mean, mean_error;
        part_below(b, b->law->z_cut, &log_mass, &log_mean, &mean_error);
        mean_error += EPS__UNIT_ROUNDOFF * 4 * (fabs(log_mean) + fabs(log_mass));
        b->offset = fmax(eps__add_down(eps__exp_bound(EPS__LOWER, log_mean - log_mass, mean_error), -1), -1);
    }
    double error, weight = log_weight(b, 0, &error), value = log_below + weight;
    b->mass[0] =
        eps__exp_bound(EPS__LOWER, value, error + EPS__UNIT_ROUNDOFF * (8 + 4 * fabs(weight) + 4 * fabs(value)));
    return EPS_OK;
}

static enum eps_status build_lower(struct builder *b, const struct eps_context *context)
{
    enum eps_status status = EPS_UNSUPPORTED;
    enum negative negative;
    double low = fmax(b->aim->low, 0.5 * b->spacing), high = b->aim->high, step = b->spacing;
    /* Where the density changes a lot from one knot to the next the curve cannot be lowered; leave out such knots at
     * both ends. */
    for (int i = 0; i < SKIPPED_MAX && low < high &&
                    3 * exp(eps__log_normal_tail(-z_near(b, low))) < density_at(b, low + 2 * step);
         i++)
        low += 0.25 * step;
    for (int i = 0; i < SKIPPED_MAX && high > low + 8 * step && high < value_at(b->law, b->law->z_cut) - step &&
                    3 * density_at(b, high) < density_at(b, high - 3 * step);
         i++)
        high -= step;
    for (int i = 0; i < TRIES && status == EPS_UNSUPPORTED; i++) {
        builder_clear(b);
        status = try_lower(b, context, low, high, &negative);
        double part = 0.05 * (z_near(b, high) - z_near(b, low));
        if (negative == AT_HIGH && low < 2 * step) /* the mass that matters may be far above the first cell */
            low += 0.5 * step;
        else if (negative == AT_LOW)
            low = fmax(value_at(b->law, z_near(b, low) + part), low + 0.5 * step);
        else
            high = fmin(value_at(b->law, z_near(b, high) - part), high - step);
    }
    return status == EPS_UNSUPPORTED ? build_atom(b) : status;
}

/* ------------------------------------------------------------ the distribution */

static enum eps_status take(struct eps__pld *pld, const struct builder *b)
{
    struct eps__pld made = {.estimate = b->estimate, .spacing = b->spacing, .tilt = b->aim->tilt};
    made.offset = b->law->falls ? -b->offset : b->offset;
    made.log_scale = b->aim->log_moment;
    made.index = malloc((b->len + 1) * sizeof *made.index);
    made.mass = malloc((b->len + 1) * sizeof *made.mass);
    if (!made.index || !made.mass) {
        eps__pld_clear(&made);
        return EPS_NO_MEMORY;
    }
    for (size_t i = 0; i < b->len; i++) {
        size_t j = b->law->falls ? b->len - 1 - i : i;
        if (!(b->mass[j] > 0))
            continue;
        made.index[made.len] = b->law->falls ? -b->index[j] : b->index[j];
        made.mass[made.len++] = b->mass[j];
    }
    *pld = made;
    return EPS_OK;
}

enum eps_status eps__lognormal_build(const struct eps_context *context, struct eps__pld *pld,
                                     const struct eps__lognormal *law, const struct eps__lognormal_aim *aim,
                                     double spacing, double log_least, enum eps__estimate estimate)
{
    struct builder b = {.law = law, .aim = aim, .estimate = estimate, .spacing = spacing};
    enum eps_status status = estimate == EPS__UPPER ? build_upper(&b, context, log_least) : build_lower(&b, context);
    for (size_t i = 0; status == EPS_OK && i < b.len; i++)
        if (!isfinite(b.mass[i])) /* NAN bounds nothing */
            status = EPS_TOO_COSTLY;
    if (status == EPS_OK)
        status = take(pld, &b);
    builder_clear(&b);
    return status;
}
