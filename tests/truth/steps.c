/*
 * The curve of one step, a -> int (over - a under)_+, is convex. Its chords between the points of a grid of ln a lie
 * above it, and a polygon with its corners at the same points, none of them above the tangents in the middle of the
 * two cells beside it, lies below it. Both polygons are curves of laws of losses on the grid, whose composition is
 * that of sums: a product of transforms, tilted towards eps so that what is left of them keeps its digits. Both ends
 * are rigorous but for rounding, and meet as the square of the spacing; extended precision leaves rounding far below
 * that.
 *
 * A shape whose loss does not rise with the output is cut into small cells of outputs: merging outputs lowers every
 * divergence, so the lower polygon is drawn below the merged law's curve.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "tests/truth/steps.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CELLS_LEAST = 1024, CELLS_MOST = 1 << 14, OUTPUT_CELLS = 2000 };

#define NEGLIGIBLE 1e-4L
#define REACH 150.0L      /* beyond, a tail is no long double */
#define SLACK 1e-10L      /* relative: rounding */
#define TAIL_ERROR 1e-17L /* of a tail, of itself: two may cancel */
#define MERGED_ERROR 1e-13L
#define TRANSFORM_ERROR 1e-17L /* of a transform of numbers whose sum is 1, more than the rounding of any length here */

static void *must(void *memory)
{
    if (!memory)
        abort();
    return memory;
}

/* ------------------------------------------------------------ one step */

static long double log_mixture(const struct points *points, long double scale, long double z, long double *slope)
{
    long double most = -INFINITY, total = 0, mean = 0;
    for (size_t i = 0; i < points->len; i++) {
        long double a = points->at[i] * scale;
        most = fmaxl(most, points->weight[i] > 0 ? logl(points->weight[i]) + a * (z - 0.5L * a) : -INFINITY);
    }
    for (size_t i = 0; i < points->len; i++) {
        long double a = points->at[i] * scale;
        if (!(points->weight[i] > 0))
            continue;
        long double term = points->weight[i] * expl(a * (z - 0.5L * a) - most);
        total += term;
        mean += term * a;
    }
    *slope = mean / total;
    return most + logl(total);
}

static long double loss_at(const struct branch *branch, long double scale, long double z, long double *slope)
{
    long double rise, fall;
    long double loss = log_mixture(&branch->over, scale, z, &rise) - log_mixture(&branch->under, scale, z, &fall);
    *slope = rise - fall;
    return loss;
}

/* Pr[output > z] */
static long double tail_of(const struct points *points, long double scale, long double z)
{
    long double total = 0;
    for (size_t i = 0; i < points->len; i++)
        total += points->weight[i] * normal_tail(z - points->at[i] * scale);
    return total;
}

struct window {
    long double low, high; /* outputs beyond which there is at most NEGLIGIBLE times the floor */
};

/* The output above which (below which, mirrored) the branch has about this probability. */
static long double quantile(const struct branch *branch, long double scale, long double mass, bool above)
{
    long double low = -REACH, high = REACH, sign = above ? 1 : -1;
    struct points over = branch->over;
    for (size_t i = 0; i < over.len; i++) {
        over.at[i] *= sign;
        low = fminl(low, over.at[i] * scale - REACH);
        high = fmaxl(high, over.at[i] * scale + REACH);
    }
    for (int i = 0; i < 60; i++) {
        long double middle = 0.5L * (low + high);
        *(branch->weight * tail_of(&over, scale, middle) > mass ? &low : &high) = middle;
    }
    return sign * high;
}

static struct window window_of(const struct branch *branch, long double scale, long double floor)
{
    long double mass = NEGLIGIBLE * floor, high = quantile(branch, scale, mass, true);
    return (struct window){fminl(quantile(branch, scale, mass, false), high - 1), high};
}

/* The output at which a rising loss is `loss`, left of `high`; an end of the window where it is not reached. */
static long double output_at(const struct branch *branch, long double scale, const struct window *window,
                             long double loss, long double high)
{
    long double low = window->low, z = high, slope;
    for (int i = 0; i < 200; i++) {
        long double miss = loss_at(branch, scale, z, &slope) - loss;
        if (miss <= 0 && z == window->high)
            return z;
        *(miss > 0 ? &high : &low) = z;
        long double next = z - miss / slope;
        if (fabsl(next - z) < 1e-9L * (1 + fabsl(z)))
            return next; /* the steps shrink quadratically */
        if (!(next > low && next < high)) {
            if (low == window->low && loss_at(branch, scale, low, &slope) >= loss)
                return low;
            next = 0.5L * (low + high);
        }
        z = next;
    }
    return z;
}

/* Pr[loss > that of boundary k] under both laws, for boundaries of losses at equal distances. */
struct tails {
    size_t len;
    long double first, step;
    long double *over, *under;
};

static struct tails tails_new(size_t len, long double first, long double step)
{
    return (struct tails){len, first, step, must(calloc(len, sizeof(long double))),
                          must(calloc(len, sizeof(long double)))};
}

static void tails_free(struct tails *tails)
{
    free(tails->over);
    free(tails->under);
}

/* What lies beyond the window counts in neither law's cells: above it as mass of infinite loss, below it as mass
 * left out. `under` may have most of its mass down there, which would draw the chord of the lowest cell too low. */
static void add_rising(struct tails *tails, const struct branch *branch, long double scale, long double floor)
{
    struct window window = window_of(branch, scale, floor);
    long double z = window.high, slope, least = loss_at(branch, scale, window.low, &slope);
    for (size_t k = tails->len; k-- > 0;) {
        long double loss = tails->first + (long double)k * tails->step;
        z = loss <= least ? window.low : output_at(branch, scale, &window, loss, z);
        tails->over[k] += branch->weight * tail_of(&branch->over, scale, z);
        tails->under[k] += branch->weight * tail_of(&branch->under, scale, z);
    }
}

struct merged {
    long double loss, over, under;
};

/* Pr[from < output <= to], without cancellation on either side of each atom. */
static long double mass_between(const struct points *points, long double scale, long double from, long double to)
{
    long double total = 0;
    for (size_t i = 0; i < points->len; i++) {
        long double low = from - points->at[i] * scale, high = to - points->at[i] * scale;
        if (low + high < 0) {
            long double swap = -low;
            low = -high;
            high = swap;
        }
        total += points->weight[i] * (normal_tail(low) - normal_tail(high));
    }
    return total;
}

/* Every branch cut into cells of outputs; returns their number. Outputs beyond the window are left out: a sum of fewer
 * positive parts. */
static size_t merge_outputs(struct merged *cells, const struct step *step, long double scale, long double floor)
{
    size_t len = 0;
    for (size_t b = 0; b < step->len; b++) {
        const struct branch *branch = &step->branches[b];
        struct window window = window_of(branch, scale, floor);
        long double width = (window.high - window.low) / OUTPUT_CELLS;
        for (size_t i = 0; i < OUTPUT_CELLS; i++) {
            long double from = window.low + (long double)i * width, to = from + width;
            long double p = branch->weight * mass_between(&branch->over, scale, from, to);
            long double q = branch->weight * mass_between(&branch->under, scale, from, to);
            if (p > 0 && q > 0) /* the loss of a cell is known to 1e-15: it is taken a little lower */
                cells[len++] = (struct merged){logl(p / q) - MERGED_ERROR, p, q * (1 + MERGED_ERROR)};
        }
    }
    return len;
}

static void add_merged(struct tails *tails, const struct merged *cells, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        long double at = (cells[i].loss - tails->first) / tails->step;
        if (at <= 0)
            continue;
        size_t last = (size_t)fminl(ceill(at) - 1, (long double)tails->len - 1); /* the last boundary under it */
        tails->over[last] += cells[i].over;
        tails->under[last] += cells[i].under;
    }
    for (size_t k = tails->len - 1; k-- > 0;) {
        tails->over[k] += tails->over[k + 1];
        tails->under[k] += tails->under[k + 1];
    }
}

/* ------------------------------------------------------------ laws of losses on a grid */

/* Loss (first + k) step with probability mass[k], infinite with probability `infinite`. */
struct grid_law {
    long long first;
    size_t len;
    long double *mass, *log_mass, infinite;
};

static struct grid_law law_new(long long first, size_t len)
{
    long double *mass = must(calloc(2 * len, sizeof *mass));
    return (struct grid_law){first, len, mass, mass + len, 0};
}

static void take_logs(struct grid_law *law)
{
    for (size_t k = 0; k < law->len; k++)
        law->log_mass[k] = law->mass[k] > 0 ? logl(law->mass[k]) : -INFINITY;
}

/* Chords. The boundaries are at half steps: the grid's points are the even ones. */
static struct grid_law chords(const struct tails *tails, long long first, long double step)
{
    size_t len = tails->len / 2 + 1;
    struct grid_law law = law_new(first, len);
    law.infinite = tails->over[tails->len - 1];
    law.mass[0] += 1 - tails->over[0];
    for (size_t k = 0; k + 1 < len; k++) {
        long double p = tails->over[2 * k] - tails->over[2 * k + 2];
        long double q = tails->under[2 * k] - tails->under[2 * k + 2];
        long double left = expl((long double)(first + (long long)k) * step) * q; /* p if all the loss were there */
        long double up = fminl(fmaxl((p - left) / -expm1l(-step), 0), p);
        law.mass[k + 1] += up;
        law.mass[k] += p - up;
    }
    take_logs(&law);
    return law;
}

struct corner {
    long double at, value;
};

/* The greatest convex function under the corners, in place; returns how many of them are left. */
static size_t convex_minorant(struct corner *corners, size_t *index, size_t len)
{
    size_t kept = 0;
    for (size_t i = 0; i < len; i++) {
        struct corner c = corners[i];
        while (kept >= 2) {
            const struct corner *a = &corners[kept - 2], *b = &corners[kept - 1];
            if ((b->value - a->value) * (c.at - b->at) <= (c.value - b->value) * (b->at - a->at))
                break;
            kept--;
        }
        corners[kept] = c;
        index[kept++] = i;
    }
    return kept;
}

/* The polygon under the tangents. Its first corner is a = 0, the value there the mass that is not left out. */
static struct grid_law tangents(const struct tails *tails, long long first, long double step)
{
    size_t len = tails->len / 2 + 1, points = len - 2; /* grid points 1.. len - 2 have a boundary on each side */
    struct grid_law law = law_new(first, len);
    struct corner *corners = must(calloc(points + 1, sizeof *corners));
    size_t *index = must(calloc(points + 1, sizeof *index)), end = points;
    corners[0] = (struct corner){0, tails->over[1]};
    for (size_t k = 1; k <= points; k++) {
        long double a = expl((long double)(first + (long long)k) * step);
        long double left = tails->over[2 * k - 1] - a * tails->under[2 * k - 1];
        long double right = tails->over[2 * k + 1] - a * tails->under[2 * k + 1];
        corners[k] = (struct corner){a, fminl(left, right)};
    }
    /* From the corner before the first that is not positive on, nothing. */
    for (size_t k = 1; k <= points; k++)
        if (!(corners[k].value > 0)) {
            end = k > 1 ? k - 1 : 1;
            break;
        }
    corners[end].value = 0;
    size_t kept = corners[0].value > 0 ? convex_minorant(corners, index, end + 1) : 0;
    for (size_t i = 1; i < kept; i++) {
        long double before = (corners[i].value - corners[i - 1].value) / (corners[i].at - corners[i - 1].at);
        long double after =
            i + 1 < kept ? (corners[i + 1].value - corners[i].value) / (corners[i + 1].at - corners[i].at) : 0;
        law.mass[index[i]] = fmaxl(after - before, 0) * corners[i].at;
    }
    free(corners);
    free(index);
    take_logs(&law);
    return law;
}

/* ------------------------------------------------------------ composition */

struct composed {
    size_t len;
    const struct grid_law *laws;
    long double step;
};

/* ln of one law's moment at a tilt, and the mean under it. */
static long double law_moment(const struct grid_law *law, long double step, long double tilt, long double *mean)
{
    long double most = -INFINITY, sum = 0, weighted = 0;
    for (size_t k = 0; k < law->len; k++)
        most = fmaxl(most, law->log_mass[k] + tilt * (long double)k * step);
    for (size_t k = 0; k < law->len; k++) {
        long double exponent = law->log_mass[k] + tilt * (long double)k * step - most;
        if (!(exponent > -50))
            continue;
        long double term = expl(exponent);
        sum += term;
        weighted += term * (long double)k;
    }
    *mean = (weighted / sum + (long double)law->first) * step;
    return most + logl(sum) + tilt * (long double)law->first * step;
}

/* Equal steps share their law. */
static bool same_as_before(const struct composed *c, size_t i)
{
    return i > 0 && c->laws[i].mass == c->laws[i - 1].mass;
}

/* ln of the product of the moments at a tilt, and the sum's mean. */
static long double log_moment(const struct composed *c, long double tilt, long double *mean)
{
    long double total = 0, one = 0, one_mean = 0;
    *mean = 0;
    for (size_t i = 0; i < c->len; i++) {
        if (!same_as_before(c, i))
            one = law_moment(&c->laws[i], c->step, tilt, &one_mean);
        total += one;
        *mean += one_mean;
    }
    return total;
}

/* The tilt >= 0 under which the sum's mean is about eps. */
static long double choose_tilt(const struct composed *c, long double eps)
{
    long double mean, low = 0, high = 1;
    log_moment(c, 0, &mean);
    if (mean >= eps)
        return 0;
    for (int i = 0; i < 60; i++, high *= 2) {
        log_moment(c, high, &mean);
        if (mean >= eps || high * c->step > 30)
            break;
        low = high;
    }
    for (int i = 0; i < 12; i++) {
        long double middle = 0.5L * (low + high);
        log_moment(c, middle, &mean);
        *(mean < eps ? &low : &high) = middle;
    }
    return high;
}

/* In place, decimation in time; sign -1 or 1; re and im of a power of two. */
static void transform(long double *re, long double *im, size_t len, int sign)
{
    for (size_t i = 1, j = 0; i < len; i++) {
        size_t bit = len >> 1;
        for (; j & bit; bit >>= 1)
            j ^= bit;
        j ^= bit;
        if (i < j) {
            long double a = re[i], b = im[i];
            re[i] = re[j];
            im[i] = im[j];
            re[j] = a;
            im[j] = b;
        }
    }
    long double *cosine = must(malloc(len * sizeof *cosine)), *sine = cosine + len / 2;
    for (size_t k = 0; k < len / 2; k++)
        sincosl((long double)sign * 6.283185307179586476925286766559L * (long double)k / (long double)len, &sine[k],
                &cosine[k]);
    for (size_t half = 1; half < len; half *= 2)
        for (size_t start = 0; start < len; start += 2 * half)
            for (size_t k = 0; k < half; k++) {
                size_t a = start + k, b = a + half, turn = k * (len / (2 * half));
                long double x = re[b] * cosine[turn] - im[b] * sine[turn];
                long double y = re[b] * sine[turn] + im[b] * cosine[turn];
                re[b] = re[a] - x;
                im[b] = im[a] - y;
                re[a] += x;
                im[a] += y;
            }
    free(cosine);
}

/* sum over losses above eps of (1 - e^{eps - loss}) times the sum's law; sign times what rounding can have done to it
 * is added. */
static long double composed_delta(const struct composed *c, long double eps, long double tilt, long double sign)
{
    size_t len = 1, needed = 1;
    long long first = 0;
    long double mean, log_norm = log_moment(c, tilt, &mean), total = 0;
    for (size_t i = 0; i < c->len; i++) {
        needed += c->laws[i].len;
        first += c->laws[i].first;
    }
    while (len < needed)
        len *= 2;
    long double *re = must(calloc(4 * len, sizeof *re)), *im = re + len, *one = im + len, *other = one + len;
    for (size_t i = 0; i < c->len; i++) {
        const struct grid_law *law = &c->laws[i];
        if (!same_as_before(c, i)) {
            long double unused, norm = law_moment(law, c->step, tilt, &unused);
            memset(one, 0, 2 * len * sizeof *one);
            for (size_t k = 0; k < law->len; k++)
                one[k] = expl(law->log_mass[k] - norm + tilt * (long double)((long long)k + law->first) * c->step);
            transform(one, other, len, -1);
        }
        for (size_t k = 0; k < len; k++) {
            long double x = i ? re[k] : 1, y = i ? im[k] : 0;
            re[k] = x * one[k] - y * other[k];
            im[k] = x * other[k] + y * one[k];
        }
    }
    transform(re, im, len, 1);
    for (size_t k = needed; k-- > 0;) {
        long double loss = (long double)((long long)k + first) * c->step;
        if (loss <= eps)
            break;
        total += (re[k] / (long double)len + sign * TRANSFORM_ERROR) * expl(-tilt * (loss - eps)) * -expm1l(eps - loss);
    }
    free(re);
    return total > 0 ? total * expl(log_norm - tilt * eps) : 0;
}

/* ------------------------------------------------------------ all together */

/* The range of losses that any step needs. */
static void range_of(const struct steps *steps, long double floor, long double *low, long double *high)
{
    *low = INFINITY;
    *high = -INFINITY;
    for (size_t i = 0; i < steps->len; i++)
        for (size_t b = 0; b < steps->shape[i]->len; b++) {
            const struct branch *branch = &steps->shape[i]->branches[b];
            struct window window = window_of(branch, steps->scale[i], floor);
            long double slope;
            for (int k = 0; k <= (steps->shape[i]->rising ? 1 : 64); k++) {
                long double share = steps->shape[i]->rising ? (long double)k : (long double)k / 64;
                long double loss =
                    loss_at(branch, steps->scale[i], window.low + share * (window.high - window.low), &slope);
                *low = fminl(*low, loss);
                *high = fmaxl(*high, loss);
            }
        }
}

static bool as_before(const struct steps *steps, size_t i)
{
    return i > 0 && steps->shape[i] == steps->shape[i - 1] && steps->scale[i] == steps->scale[i - 1];
}

static bool all_rise(const struct steps *steps)
{
    bool rise = true;
    for (size_t i = 0; i < steps->len; i++)
        rise = rise && steps->shape[i]->rising;
    return rise;
}

/* Losses first step .. last step. */
struct loss_range {
    long long first, last;
    long double step;
};

/* Both polygons of one step, or the lower alone: upper is NULL. */
static void polygons(const struct step *shape, long double scale, long double floor, struct loss_range range,
                     struct grid_law *lower, struct grid_law *upper)
{
    long long first = range.first;
    long double step = range.step;
    struct tails tails = tails_new(2 * (size_t)(range.last - first) + 1, (long double)first * step, 0.5L * step);
    if (shape->rising) {
        for (size_t b = 0; b < shape->len; b++)
            add_rising(&tails, &shape->branches[b], scale, floor);
        if (upper)
            *upper = chords(&tails, first, step);
    } else {
        struct merged *merged = must(calloc(OUTPUT_CELLS * STEP_BRANCHES, sizeof *merged));
        add_merged(&tails, merged, merge_outputs(merged, shape, scale, floor));
        free(merged);
    }
    *lower = tangents(&tails, first, step);
    tails_free(&tails);
}

static struct enclosure at_resolution(const struct steps *steps, long double eps, const struct effort *effort,
                                      size_t cells)
{
    long double low, high, beyond = 0, floor = fmaxl(effort->floor, 1e-4000L);
    range_of(steps, floor, &low, &high);
    long double step = fmaxl((high - low) / (long double)cells, 1e-16L);
    const struct loss_range range = {(long long)floorl(low / step) - 1, (long long)ceill(high / step) + 1, step};
    struct grid_law *upper = must(calloc(2 * steps->len, sizeof *upper)), *lower = upper + steps->len;
    bool both = all_rise(steps) && !effort->lower_only;
    for (size_t i = 0; i < steps->len; i++) {
        if (as_before(steps, i)) {
            upper[i] = upper[i - 1];
            lower[i] = lower[i - 1];
        } else {
            polygons(steps->shape[i], steps->scale[i], floor, range, &lower[i], both ? &upper[i] : NULL);
        }
        /* of infinite loss, and what each branch leaves out below its window */
        beyond += upper[i].infinite + (long double)steps->shape[i]->len * NEGLIGIBLE * floor;
    }
    const struct composed below = {steps->len, lower, step}, above = {steps->len, upper, step};
    long double tilt = choose_tilt(both ? &above : &below, eps);
    struct enclosure out = {composed_delta(&below, eps, tilt, -1) * (1 - SLACK), 1};
    if (both)
        out.upper = composed_delta(&above, eps, tilt, 1) * (1 + SLACK) + beyond;
    for (size_t i = 0; i < steps->len; i++)
        if (!as_before(steps, i)) {
            free(lower[i].mass);
            free(upper[i].mass);
        }
    free(upper);
    return out;
}

/* One step needs no grid. */
static struct enclosure single(const struct steps *steps, long double eps, const struct effort *effort)
{
    long double scale = steps->scale[0], total = 0, rounding = 0;
    for (size_t b = 0; b < steps->shape[0]->len; b++) {
        const struct branch *branch = &steps->shape[0]->branches[b];
        struct window window = window_of(branch, scale, fmaxl(effort->floor, 1e-4000L));
        long double z = output_at(branch, scale, &window, eps, window.high);
        if (z >= window.high)
            continue;
        /* Any z gives a lower end; what the best one has beyond the window is negligible. */
        long double p = tail_of(&branch->over, scale, z), q = tail_of(&branch->under, scale, z);
        total += branch->weight * fmaxl(p - expl(eps) * q, 0);
        rounding += branch->weight * TAIL_ERROR * (p + expl(eps) * q);
    }
    return (struct enclosure){fmaxl(total * (1 - SLACK) - rounding, 0),
                              total * (1 + SLACK) + rounding +
                                  (long double)steps->shape[0]->len * NEGLIGIBLE * effort->floor};
}

struct enclosure steps_delta(const struct steps *steps, long double eps, const struct effort *effort)
{
    struct enclosure out = {0, 1};
    if (steps->len == 0)
        return (struct enclosure){0, 0};
    if (eps > TRUTH_EPSILON_MOST)
        return out;
    if (steps->len == 1 && steps->shape[0]->rising)
        return single(steps, eps, effort);
    size_t most = effort->cells_most ? effort->cells_most : CELLS_MOST;
    bool both = all_rise(steps) && !effort->lower_only;
    for (size_t cells = both ? CELLS_LEAST : most; cells <= most; cells *= 4) {
        struct enclosure finer = at_resolution(steps, eps, effort, cells);
        out.lower = fmaxl(out.lower, finer.lower);
        out.upper = fminl(out.upper, finer.upper);
        if (out.upper - out.lower <= effort->width * out.upper || out.upper < 0.1L * effort->floor)
            break;
    }
    return out;
}
