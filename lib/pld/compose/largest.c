/*
 * With few expected participations and a small delta, the sum of the losses exceeds eps because a single one does. Then
 * delta is the sum of the single steps' deltas, at an epsilon that the other steps move a little. That is bounded by
 * Chernoff, from the law of one loss in cells with exact masses, so no grid has to resolve losses of 1e-9 next to one
 * of 1 (P3).
 *
 *   upper: either all losses are at most eps/2 and together exceed eps; or one exceeds eps/2, and the others together
 *          are below B, or between B and 2 B, 2 B and 4 B, ...: then that one exceeds eps minus the others
 *   lower: exactly one exceeds eps/2, the others together are at least -F, and the one exceeds eps + F
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/pld/compose/largest.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "lib/base/error.h"
#include "lib/numerics/normal.h"
#include "lib/pld/pairs/single.h"

enum { CELLS_MAX = 12000, TILTS = 14, RUNGS = 56 };

#define REACH 38.5     /* in standard deviations: farther than this from its mean a normal has less mass than DBL_MIN */
#define REACH_LOW 12.0 /* in standard deviations: what lies farther below is negligible for any bracket */
#define NATS 40.0
#define CELL 0.02 /* width in z, times one plus the largest shift: losses in a cell differ by a few per cent */

/* A cell of z: P's mass and the losses at its two ends, all rounded outwards. */
struct cell {
    double mass, log_mass, low, high;
};

struct step_class {
    const struct eps__branch *branches;
    size_t branches_len;
    double count;
    struct cell *cells[2]; /* by estimate */
    size_t cells_len[2];
    double lost; /* probability of infinite loss */
};

struct eps__largest {
    struct step_class *classes;
    size_t len;
    double total; /* number of steps */
    const struct eps_context *context;
    enum eps_status status; /* of the last poll: if not EPS_OK, all bounds are trivial */
};

bool eps__largest_serves(const struct eps__steps *steps)
{
    for (size_t k = 0; k < steps->len; k++)
        if (!eps__single_serves(steps->items[k].branches, steps->items[k].len))
            return false;
    return steps->len > 0;
}

/* ------------------------------------------------------------ cells */

static enum eps_status add_branch(struct step_class *class, const struct eps_context *context,
                                  const struct eps__branch *branch, int estimate)
{
    const struct eps__pair *pair = &branch->pair[estimate];
    double reach_p = eps__mixture_reach(&pair->numerator), reach_q = eps__mixture_reach(&pair->denominator);
    double first = -reach_q - REACH_LOW, last = reach_p + REACH, z = first;
    size_t len = (size_t)fmin(ceil((last - first) * (1 + fmax(reach_p, reach_q)) / CELL), CELLS_MAX) + 2;
    struct cell *cells = realloc(class->cells[estimate], (class->cells_len[estimate] + len) * sizeof *cells);
    struct eps__pair_point point;
    if (!cells)
        return EPS_NO_MEMORY;
    class->cells[estimate] = cells;
    eps__pair_at(pair, first, &point, NULL, NULL);
    double loss = point.loss, error = 2 * (point.loss_error + 2 * pair->weight_error);
    for (size_t i = 0; i < len; i++) {
        /* the first cell begins at -INFINITY, the last one ends at INFINITY */
        double next = i + 1 == len ? INFINITY : first + (last - first) * (double)i / (double)(len - 2), log_lower,
               log_upper;
        struct cell *cell = &cells[class->cells_len[estimate]++];
        eps__pair_log_mass(pair, i == 0 ? -INFINITY : z, next, &log_lower, &log_upper);
        cell->mass = eps__raise(branch->weight[estimate] * exp(log_upper) * (1 + pair->weight_error), 1e4) + DBL_MIN;
        cell->log_mass = log(cell->mass);
        cell->low = i == 0 ? -INFINITY : loss - error;
        if (i + 1 < len) {
            eps__pair_at(pair, next, &point, NULL, NULL);
            loss = point.loss;
            error = 2 * (point.loss_error + 2 * pair->weight_error);
        }
        cell->high = i + 1 == len ? INFINITY : loss + error;
        z = next;
        enum eps_status status = i % 1024 == 0 ? eps__poll(context) : EPS_OK;
        if (status != EPS_OK)
            return status;
    }
    return EPS_OK;
}

enum eps_status eps__largest_create(struct eps__largest **largest, const struct eps_context *context,
                                    const struct eps__steps *steps)
{
    struct eps__largest *made = calloc(1, sizeof *made);
    enum eps_status status = EPS_OK;
    if (!made)
        return EPS_NO_MEMORY;
    made->context = context;
    made->classes = calloc(steps->len, sizeof *made->classes);
    if (!made->classes)
        status = EPS_NO_MEMORY;
    for (; made->classes && made->len < steps->len && status == EPS_OK; made->len++) {
        const struct eps__step *step = &steps->items[made->len];
        struct step_class *class = &made->classes[made->len];
        *class =
            (struct step_class){.branches = step->branches, .branches_len = step->len, .count = (double)step->count};
        made->total += class->count;
        for (size_t b = 0; b < step->len && status == EPS_OK; b++) {
            class->lost +=
                eps__raise(step->branches[b].weight[EPS__UPPER] * step->branches[b].pair[EPS__UPPER].lost, 1e4);
            for (int estimate = 0; estimate < 2 && status == EPS_OK; estimate++)
                status = add_branch(class, context, &step->branches[b], estimate);
        }
    }
    if (status != EPS_OK) {
        eps__largest_destroy(made);
        return status;
    }
    *largest = made;
    return EPS_OK;
}

void eps__largest_destroy(struct eps__largest *largest)
{
    if (!largest)
        return;
    for (size_t k = 0; largest->classes && k < largest->len; k++)
        for (int estimate = 0; estimate < 2; estimate++)
            free(largest->classes[k].cells[estimate]);
    free(largest->classes);
    free(largest);
}

/* ------------------------------------------------------------ bounds on all steps together */

/* The expected number of losses above or below a threshold, rounded up. */
static double expected_beyond(const struct eps__largest *largest, enum eps__estimate estimate, double threshold,
                              bool above)
{
    double sum = 0;
    for (size_t k = 0; k < largest->len; k++) {
        const struct step_class *class = &largest->classes[k];
        double own = above ? class->lost : 0;
        for (size_t i = 0; i < class->cells_len[estimate]; i++)
            if (above ? class->cells[estimate][i].high > threshold : class->cells[estimate][i].low < threshold)
                own += class->cells[estimate][i].mass;
        sum += class->count * own;
    }
    return eps__raise(sum, 1e6);
}

/* ln of a cell's part of a moment; -INFINITY if the cell is outside [floor, cut]. */
static double cell_exponent(const struct cell *cell, double t, double floor, double cut)
{
    if (cell->low > cut || cell->high < floor)
        return -INFINITY;
    if (t > 0)
        return cell->log_mass + t * (cell->high < cut ? cell->high : cut);
    return cell->log_mass + t * (cell->low > floor ? cell->low : floor);
}

/* ln of an upper bound on E[e^{t S}] over losses in [floor, cut], t of either sign; valid for all steps and for all but
 * one. */
static double log_moment(const struct eps__largest *largest, enum eps__estimate estimate, double t, double floor,
                         double cut)
{
    double sum = 0;
    for (size_t k = 0; k < largest->len; k++) {
        const struct step_class *class = &largest->classes[k];
        double own = 0, most = -INFINITY, size = 0; /* size: bound on -ln mass where the exponent counts */
        for (size_t i = 0; i < class->cells_len[estimate]; i++) {
            double exponent = cell_exponent(&class->cells[estimate][i], t, floor, cut);
            most = exponent > most ? exponent : most;
        }
        /* all cells 40 nats below the largest add up to less than 1e-12 of it */
        for (size_t i = 0; i < class->cells_len[estimate]; i++) {
            double exponent = cell_exponent(&class->cells[estimate][i], t, floor, cut);
            double log_mass = class->cells[estimate][i].log_mass;
            if (exponent > most - NATS) {
                own += exp(exponent - most);
                size = -log_mass > size ? -log_mass : size;
            }
        }
        /* Each exponent is within a few units of its parts, and every addition rounds; counts may multiply the error by
         * 1e9 (P3). */
        double error =
            1e-12 + EPS__UNIT_ROUNDOFF * (16 + (double)class->cells_len[estimate] + 4 * (size + fabs(most) + NATS));
        if (own > 0)                                                /* if 0, the range is empty and so is the factor */
            sum += class->count * fmax(most + log(own) + error, 0); /* at least 0: covers one step fewer */
    }
    return eps__shift(EPS__UPPER, sum, 1e-10 * (1 + sum));
}

/* ln of Chernoff's bound on Pr[S > x], or, for x < 0, on Pr[S < x], with every loss in [floor, cut]. The exponent is
 * convex in the tilt: golden section over the logarithm of the tilt. Any tilt is valid. */
static double log_chernoff(struct eps__largest *largest, enum eps__estimate estimate, double x, double floor,
                           double cut)
{
    const double ratio = 0.61803398874989484820;
    double sign = x > 0 ? 1 : -1, scale = x > 0 ? fmin(x, cut) : -x;
    double low = log(0.1), high = log(600), a = high - ratio * (high - low), b = low + ratio * (high - low);
    double at_a = INFINITY, at_b = INFINITY, best = 0;
    if (largest->status == EPS_OK)
        largest->status = eps__poll(largest->context);
    for (int i = 0; i < TILTS && largest->status == EPS_OK; i++) {
        double tried = i == 0 || at_a == INFINITY ? a : b, t = sign * exp(tried) / scale;
        double bound = log_moment(largest, estimate, t, floor, cut) - t * x;
        best = fmin(best, bound);
        if (isnan(bound))
            bound = INFINITY;
        if (tried == a)
            at_a = bound == INFINITY ? DBL_MAX : bound;
        else
            at_b = bound == INFINITY ? DBL_MAX : bound;
        if (at_a == INFINITY || at_b == INFINITY)
            continue;
        if (at_a < at_b) {
            high = b;
            b = a;
            at_b = at_a;
            a = high - ratio * (high - low);
            at_a = INFINITY;
        } else {
            low = a;
            a = b;
            at_a = at_b;
            b = low + ratio * (high - low);
            at_b = INFINITY;
        }
    }
    return best;
}

/* The sum of all steps' own delta(eps), a bound in the direction of the estimate. */
static double single_deltas(const struct eps__largest *largest, enum eps__estimate estimate, double eps)
{
    double sum = 0;
    for (size_t k = 0; k < largest->len; k++) {
        const struct step_class *class = &largest->classes[k];
        sum += class->count * exp(eps__single_log_delta(class->branches, class->branches_len, estimate, eps));
    }
    return eps__outward(estimate, sum, 1e3);
}

/* An upper bound on Pr[all but one step together exceed b]: one of them exceeds a part of b, or Chernoff applies. */
static double others_exceed(struct eps__largest *largest, double b)
{
    double best = 1;
    for (double parts = 1; parts <= 4; parts *= 2) {
        double cut = b / parts, one = expected_beyond(largest, EPS__UPPER, cut, true);
        if (one < best)
            best =
                fmin(best, one + eps__exp_bound(EPS__UPPER, log_chernoff(largest, EPS__UPPER, b, -INFINITY, cut), 0));
    }
    return best;
}

/* The values of B that are tried, eps times 1e-8 and powers of the square root of 2, and the results of others_exceed()
 * for them; NAN until computed. */
struct ladder {
    struct eps__largest *largest;
    double eps, large, exceed[RUNGS];
};

static double rung(const struct ladder *ladder, int m)
{
    return ladder->eps * 1e-8 * pow(2, 0.5 * m);
}

/* The upper bound's part with one loss above eps/2, with B = rung m and its doublings. Returns `enough` once the sum is
 * no smaller. */
static double with_one_large(struct ladder *ladder, int m, double enough)
{
    double eps = ladder->eps, sum = single_deltas(ladder->largest, EPS__UPPER, eps__lower(eps - rung(ladder, m), 8));
    for (; sum < enough && m < RUNGS; m += 2) {
        double b = rung(ladder, m), one = ladder->large;
        if (isnan(ladder->exceed[m]))
            ladder->exceed[m] = others_exceed(ladder->largest, b);
        if (2 * b < 0.5 * eps)
            one = fmin(one, single_deltas(ladder->largest, EPS__UPPER, eps__lower(eps - 2 * b, 8)));
        sum += one * ladder->exceed[m];
        if (2 * b >= 0.5 * eps)
            return sum;
        if (ladder->large * ladder->exceed[m] < 1e-12 * sum)
            return sum + ladder->large * ladder->exceed[m];
    }
    return enough;
}

static double upper_bound(struct eps__largest *largest, double eps)
{
    double half = 0.5 * eps, best = 1;
    double many = eps__exp_bound(EPS__UPPER, log_chernoff(largest, EPS__UPPER, eps, -INFINITY, half), 0);
    struct ladder ladder = {largest, eps, expected_beyond(largest, EPS__UPPER, half, true), {0}};
    int at = 0, coarse = 6;
    for (int m = 0; m < RUNGS; m++)
        ladder.exceed[m] = NAN;
    for (int m = 0; rung(&ladder, m) < 0.3 * eps && many < best; m += coarse) {
        double sum = many + with_one_large(&ladder, m, best - many);
        if (sum < best) {
            best = sum;
            at = m;
        }
    }
    for (int m = at > coarse ? at - coarse + 1 : 0; m < at + coarse && rung(&ladder, m) < 0.3 * eps && many < best; m++)
        best = fmin(best, many + with_one_large(&ladder, m, best - many));
    return fmin(eps__raise(best, 1e4), 1);
}

/* An upper bound on Pr[all but one step together are below -f]. */
static double others_fall(struct eps__largest *largest, double f)
{
    double best = 1;
    /* losses far below 0 are rare: count them separately */
    for (double floor = -f; floor > -1e3 * f; floor *= 4) {
        double rare = expected_beyond(largest, EPS__LOWER, floor, false);
        if (rare < best)
            best = fmin(best,
                        rare + eps__exp_bound(EPS__UPPER, log_chernoff(largest, EPS__LOWER, -f, floor, INFINITY), 0));
        if (rare < 1e-9)
            break;
    }
    return best;
}

/* The lower bound with the others at least -f. Out: *most, what it would be if they certainly were. */
static double with_others_above(struct eps__largest *largest, double eps, double f, double jumps, double *most)
{
    *most = single_deltas(largest, EPS__LOWER, eps__raise(eps + f, 8)) * (1 - jumps);
    return *most * (1 - fmin(others_fall(largest, f) / fmax(1 - jumps, 1e-300), 1));
}

static double lower_bound(struct eps__largest *largest, double eps)
{
    double best = 0, at = 0, jumps = expected_beyond(largest, EPS__LOWER, 0.5 * eps, true), most = 1;
    for (double share = 1e-8; share < 1 && jumps < 1 && most > best; share *= 8) {
        double bound = with_others_above(largest, eps, share * eps, jumps, &most);
        if (bound > best) {
            best = bound;
            at = share;
        }
    }
    for (double finer = 0.35 * at; finer > 0 && finer < 3 * at; finer *= 1.5) /* finer around the best one */
        best = fmax(best, with_others_above(largest, eps, finer * eps, jumps, &most));
    return eps__lower(best, 1e4);
}

enum eps_status eps__largest_log_delta(struct eps__largest *largest, enum eps__estimate estimate, double eps,
                                       double *out)
{
    double bound = estimate == EPS__UPPER ? upper_bound(largest, eps) : lower_bound(largest, eps);
    *out = fmin(log(bound), 0);
    return largest->status;
}
