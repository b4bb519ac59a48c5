/*
 * With S the sum of the b lognormals and K = b e^eps, delta_remove = E[(S - K)_+]/b; with K = b e^-eps, delta_add =
 * e^eps E[(K - S)_+]/b (LEMMAS.md, P16). The second needs only sums of lognormals below K. For the first, the part
 * where a lognormal is above a cut c has a closed form, and the rest has no heavy tails. Both are computed from a
 * composition of the lognormal's law on a grid (pld/pairs/lognormal.h), tilted for eps, which gives the expected excess
 * over K for this epsilon and for those near it.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/pld/known/balls_in_bins.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "lib/base/error.h"
#include "lib/numerics/normal.h"
#include "lib/pld/pairs/lognormal.h"

enum { SLOTS = 6, COARSER_MAX = 6, STEPS_MAX = 40, CUTS_MAX = 30, WIDER_MAX = 3, MISSES_MAX = 4 };

#define LENGTH_MAX 0x1p23    /* length of a transform, at most */
#define ASCENDING_MAX 0x1p19 /* the same if epsilons ascend */
#define FINEST 1e4           /* product of all refinements, at most */
#define FINEST_SPACING 1e-9
#define LOG_NOTHING (-800.0) /* ln of a delta that is too small to compute */
#define CUT_ROOM 1e-6        /* a cut is at least this much above K, relatively */
#define REACH 2.0            /* in standard deviations */
#define REACH_STRIKE 1.0     /* in ln K: how far a slot serves from its own K */

/* A composition around one epsilon. */
struct slot {
    struct eps__pld sum; /* composition of the losses */
    double *above;       /* sums from knot i on of a_j e^{-t (l_j - l_i)}; from sum.len on, with a_j (l_j - l_i) */
    enum eps__estimate estimate;
    double eps, centre, reach; /* serves targets within reach of centre, at epsilons near eps */
    double z_cut, z_least;
    double beyond_tilt, log_beyond; /* upper: ln E[e^{tilt S}] <= log_beyond */
    bool used;
};

struct eps__balls_in_bins {
    const struct eps_context *context;
    struct eps__accuracy accuracy;
    bool falls; /* direction add: small sums matter */
    size_t bins;
    double count, shift[2]; /* by estimate */
    double finer;
    double reach; /* if epsilons ascend, how far a slot serves on one side, in deviations; 0: REACH on both sides */
    struct slot slots[SLOTS];
    size_t next_slot;
    int misses[2];        /* ascending: how many epsilons in a row were too costly */
    double missed_eps[2]; /* the last of them */
};

enum eps_status eps__balls_in_bins_create(struct eps__balls_in_bins **balls_in_bins, const struct eps_context *context,
                                          enum eps_direction direction, size_t bins, double shift_lower,
                                          double shift_upper, const struct eps__accuracy *accuracy)
{
    struct eps__balls_in_bins *made = calloc(1, sizeof *made);
    if (!made)
        return EPS_NO_MEMORY;
    made->context = context;
    made->accuracy = *accuracy;
    made->falls = direction == EPS_ADD;
    made->bins = bins;
    made->count = (double)bins;
    made->shift[EPS__LOWER] = shift_lower;
    made->shift[EPS__UPPER] = shift_upper;
    made->finer = 1;
    *balls_in_bins = made;
    return EPS_OK;
}

void eps__balls_in_bins_ascend(struct eps__balls_in_bins *a, double reach)
{
    a->reach = reach;
}

static void slot_clear(struct slot *slot)
{
    eps__pld_clear(&slot->sum);
    free(slot->above);
    *slot = (struct slot){0};
}

void eps__balls_in_bins_destroy(struct eps__balls_in_bins *a)
{
    if (!a)
        return;
    for (size_t i = 0; i < SLOTS; i++)
        slot_clear(&a->slots[i]);
    free(a);
}

/* ------------------------------------------------------------ the target, and the cut */

/* The number that the sum of the losses V - 1 (or -V, where small sums matter) must exceed. Within 4 units. */
static double target_of(const struct eps__balls_in_bins *a, double eps)
{
    return a->falls ? -a->count * exp(-eps) : a->count * expm1(eps);
}

/* ln K. */
static double log_strike(const struct eps__balls_in_bins *a, double eps)
{
    return log(a->count) + (a->falls ? -eps : eps);
}

/* The z at which a lognormal is e^log_value. */
static double z_of(double s, double log_value)
{
    return (log_value + 0.5 * s * s) / s;
}

/* Whether the cut e^{s z_cut - s^2/2} is at least K despite rounding. */
static bool cuts_above(const struct eps__balls_in_bins *a, double s, double z_cut, double eps)
{
    double log_cut = s * z_cut - 0.5 * s * s, sizes = fabs(s * z_cut) + s * s + log(a->count) + eps + 2;
    return log_cut - log_strike(a, eps) > 8 * EPS__UNIT_ROUNDOFF * sizes;
}

/* ------------------------------------------------------------ a lognormal above the cut */

/*
 * ln of a bound on E[(b - 1 - y - S')_+], the shortfall of the sum S' of the other b - 1 lognormals, by Chernoff (P16):
 * e^x <= 1 + x + x^2 e^t/2 for x = t (1 - V) <= t, up to some V >= 1, and e^x <= 1 from there on. For y <= 0 by the
 * variance.
 */
static double log_others_below(const struct eps__balls_in_bins *a, double s, double y)
{
    double best = INFINITY, others = a->count - 1, unit = EPS__UNIT_ROUNDOFF;
    if (!(y > 0))
        return eps__log_bound(EPS__UPPER, fmin(others, sqrt(others * expm1(s * s))) - y, 32 + 4 * s * s);
    for (double z = 0; z <= 12; z += 2) {
        double point = z + 2 * s; /* E[V^2; Z <= point] = e^{s^2} Pr[Z <= z] */
        double error = 4 * EPS__LOG_TAIL_ERROR(point + s) + 32 * unit * (1 + s * s);
        double lost = eps__exp_bound(EPS__UPPER, eps__log_normal_tail(point - s), error); /* E[V; Z > point] */
        double square = fmin(expm1(s * s), 1 + exp(s * s + eps__log_normal_tail(-z)));
        square = eps__raise(square, 16 + error / unit);
        double lack = eps__shift(EPS__LOWER, y - others * lost, 4 * unit * others * lost);
        double t = fmin(lack / (others * square), 2);
        if (!(lack > 0) || !(t > 0) || !isfinite(square))
            continue;
        for (int i = 0; i < 5; i++, t *= 0.6) {
            double spread = 0.5 * others * t * t * exp(t) * square, value = spread - t * lack - 1 - log(t);
            best = fmin(best, eps__shift(EPS__UPPER, value, 16 * unit * (spread + t * y + fabs(log(t)) + 2)));
        }
    }
    return best;
}

/* ln of a bound on E[(S - K)_+; some V > c] (P16). E[S - K; some V > c] is known exactly: condition on the first V
 * above c and sum what is before it, itself and what comes after it. An upper bound adds the part where S < K. */
static double log_above_cut(const struct eps__balls_in_bins *a, enum eps__estimate estimate, double s, double z_cut,
                            double eps)
{
    double unit = EPS__UNIT_ROUNDOFF, at = z_cut - s, sign = estimate == EPS__UPPER ? 1 : -1;
    double log_tail = eps__log_normal_tail(z_cut), log_part = eps__log_normal_tail(at), target = target_of(a, eps);
    double error = EPS__LOG_TAIL_ERROR(z_cut) + EPS__LOG_TAIL_ERROR(at) + 2 * unit * (fabs(at) + 1) * (fabs(at) + 1);
    error += 4 * unit * (fabs(log_part) + fabs(log_tail) + 4);
    double log_mean = log_part - log_tail; /* ln E[V | V > c] */
    if (!(log_mean < 690))
        return estimate == EPS__UPPER ? log(a->count) : -INFINITY;
    double mean = exp(log_mean), tail = exp(log_tail), below = -expm1(log_tail), part = exp(log_part);
    double excess = mean - 1 - target, fall = fmax(part - tail, 0) / below; /* 1 - E[V | V <= c] */
    double powers = 0, falls = 0, power = 1;
    for (size_t i = 0; i < a->bins; i++) {
        powers += power;
        falls += (double)i * power;
        power *= below;
    }
    double sum = powers * excess - falls * fall;
    /* The relative error of a power is its exponent times the error of F, which comes from u and from F's tail, and the
     * rounding of the additions. */
    double each = 8 * unit * (a->count + 4) + a->count * tail / below * (error + 8 * unit);
    double sizes = powers * (mean + 1 + target) * (each + error + 8 * unit) +
                   falls * (fall * (each + 8 * unit) + (part + tail) / below * (error + 8 * unit));
    sum += sign * eps__raise(sizes, 16);
    if (estimate == EPS__UPPER) {
        double log_cut = s * z_cut - 0.5 * s * s;
        double off = unit * (exp(log_cut) * (8 + 4 * fabs(s * z_cut) + 4 * s * s) + 8 * target);
        double y = eps__shift(EPS__LOWER, expm1(log_cut) - target, off);
        if (!cuts_above(a, s, z_cut, eps))
            sum = fmax(sum, 0) + a->count * exp(fmin(log_others_below(a, s, y), 700));
        if (!isfinite(sum))
            return log(a->count);
    }
    if (!(sum > 0))
        return -INFINITY;
    double value = log_tail + eps__log_bound(estimate, sum, 64);
    return eps__shift(estimate, value, error + 4 * unit * (fabs(log_tail) + fabs(value)));
}

/* ------------------------------------------------------------ aims */

/* Where a composition for eps is cut and tilted, and the approximate ln E of the two parts together. */
struct aim {
    struct eps__lognormal law;
    struct eps__lognormal_aim tilted;
    double log_total;
};

static bool aim_with(const struct eps__balls_in_bins *a, struct aim *aim, double s, double log_cut, double eps)
{
    double target = target_of(a, eps);
    aim->law = (struct eps__lognormal){.s = s, .falls = a->falls, .z_cut = z_of(s, log_cut), .z_least = -INFINITY};
    if (!eps__lognormal_aim(&aim->law, a->count, target, &aim->tilted))
        return false;
    aim->log_total = a->count * aim->tilted.log_moment - aim->tilted.tilt * target + log(aim->tilted.payoff);
    if (!a->falls)
        aim->log_total = eps__log_add(aim->log_total, log_above_cut(a, EPS__LOWER, s, aim->law.z_cut, eps));
    return !isnan(aim->log_total);
}

/*
 * Chooses the cut. It starts at K; where large sums matter it is lowered as long as the bound on what the other
 * lognormals may lack stays below `share` of the total. A higher cut would draw the tilt to losses larger than those
 * that matter. Returns false if no tilt is found.
 */
static bool find_aim(const struct eps__balls_in_bins *a, struct aim *best, double s, double eps, double share)
{
    double log_k = log_strike(a, eps), target = target_of(a, eps), over = expm1(log_k);
    bool found = aim_with(a, best, s, log_k + CUT_ROOM, eps);
    for (int i = 0; i < CUTS_MAX && !a->falls; i++) {
        struct aim aim;
        over *= 0.7;
        double log_c = log1p(over), log_lost = log(a->count) + eps__log_normal_tail(z_of(s, log_c));
        if (!aim_with(a, &aim, s, log_c, eps))
            continue;
        if (!(log_lost + log_others_below(a, s, over - target) < aim.log_total + log(1e-5 * share)))
            break;
        *best = aim;
        found = true;
    }
    return found;
}

/* ------------------------------------------------------------ compositions */

/* The error of ln delta that the tolerance allows, approximately. */
static double allowed(const struct eps__balls_in_bins *a, double eps, double tilt)
{
    double tolerance = a->accuracy.tolerance;
    if (a->accuracy.unknown == EPS_SOLVE_NOISE_MULTIPLIER)
        return 3 * tolerance;
    if (a->accuracy.unknown == EPS_SOLVE_EPSILON)
        return tolerance * fmin(fmax(0.3 * eps * tilt * exp(log_strike(a, eps)), 1e-2), 30);
    return tolerance;
}

static double length_max(const struct eps__balls_in_bins *a)
{
    return a->reach > 0 ? ASCENDING_MAX : LENGTH_MAX;
}

/* Upper: chooses the tilt of the Chernoff bound on what lies above the window. */
static void set_beyond(const struct eps__balls_in_bins *a, struct slot *slot, const struct eps__pld *step,
                       double deviation)
{
    double top = eps__pld_loss(&slot->sum, slot->sum.len - 1), best = INFINITY;
    for (double share = 0.25; share <= 16; share *= 2) {
        double error, tilt = step->tilt + share / deviation, moment = eps__pld_log_moment(step, tilt, &error);
        double log_beyond = a->count * (moment + error);
        log_beyond = eps__shift(EPS__UPPER, log_beyond, 8 * EPS__UNIT_ROUNDOFF * a->count * (fabs(moment) + error));
        if (log_beyond - tilt * top < best) {
            best = log_beyond - tilt * top;
            slot->beyond_tilt = tilt;
            slot->log_beyond = log_beyond;
        }
    }
}

/* The sum over losses l > from of a_l (l - from) e^{-t (l - from)}, where a are the tilted masses. Not rounded
 * outwards. */
static double sum_over(const struct eps__pld *sum, double from)
{
    double t = sum->tilt, total = 0;
    for (size_t i = sum->len; i-- > 0;) {
        double over = eps__pld_loss(sum, i) - from;
        if (over < 0)
            break;
        total += sum->mass[i] * over * exp(-t * over);
    }
    return total;
}

/* Fills in slot->above. Returns false if out of memory. */
static bool sum_above(struct slot *slot)
{
    const struct eps__pld *sum = &slot->sum;
    double *mass = malloc((2 * sum->len + 1) * sizeof *mass), *excess = mass + sum->len, m = 0, e = 0;
    if (!mass)
        return false;
    for (size_t i = sum->len; i-- > 0;) {
        double gap = i + 1 < sum->len ? (double)(sum->index[i + 1] - sum->index[i]) * sum->spacing : 0;
        double decay = exp(-sum->tilt * gap);
        e = decay * (e + gap * m);
        m = sum->mass[i] + decay * m;
        mass[i] = m;
        excess[i] = e;
    }
    slot->above = mass;
    return true;
}

/* sum_over() from slot->above. */
static double excess_over(const struct slot *slot, double from)
{
    const struct eps__pld *sum = &slot->sum;
    size_t low = 0, high = sum->len; /* the first loss of at least `from` has an index in [low, high] */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (eps__pld_loss(sum, middle) < from)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == sum->len)
        return 0;
    double over = eps__pld_loss(sum, low) - from;
    return exp(-sum->tilt * over) * (slot->above[sum->len + low] + over * slot->above[low]);
}

/* Composes. Widens the window until the mass outside may contribute no more than a share `lost` of the result. */
static enum eps_status compose(struct eps__balls_in_bins *a, struct slot *slot, const struct aim *aim, double target,
                               double spacing, double share)
{
    struct eps__pld step = {0};
    const struct eps__lognormal_aim *tilted = &aim->tilted;
    double largest = fmin(1 / (M_E * tilted->tilt), 12 * tilted->deviation), lost = 0.02 * share;
    struct eps__compose_plan plan = {.tilt = tilted->tilt, .max_len = (size_t)length_max(a)};
    plan.tail_mass = lost * tilted->payoff / largest;
    double log_least = log(1e-5 * share / a->count) - 2;
    enum eps_status status =
        eps__lognormal_build(a->context, &step, &aim->law, tilted, spacing, log_least, slot->estimate);
    for (int i = 0; i < WIDER_MAX && status == EPS_OK && step.len > 0; i++) {
        plan.tail_mass = fmin(fmax(plan.tail_mass, 1e-19), 1e-4);
        eps__pld_clear(&slot->sum);
        status = eps__pld_compose(a->context, &slot->sum, &(struct eps__pld_power){&step, a->bins}, 1, 1, &plan);
        double needed = status == EPS_OK ? lost * sum_over(&slot->sum, target) / largest : INFINITY;
        if (plan.tail_mass <= 5 * needed)
            break;
        plan.tail_mass = 0.1 * needed;
    }
    if (status == EPS_OK && step.len > 0 && slot->estimate == EPS__UPPER)
        set_beyond(a, slot, &step, tilted->deviation);
    if (status == EPS_OK && !sum_above(slot))
        status = EPS_NO_MEMORY;
    eps__pld_clear(&step);
    return status;
}

/* ------------------------------------------------------------ the expected excess */

/* ln of the maximum over y >= least >= 0 of y e^{-t y}, rounded to nearest. */
static double log_largest(double t, double least)
{
    return t * least >= 1 ? log(least) - t * least : -1 - log(t);
}

/* ln of E[(S - k)_+; all V <= c] (P17). */
static double log_excess(const struct slot *slot, double k)
{
    const struct eps__pld *sum = &slot->sum;
    bool upper = slot->estimate == EPS__UPPER;
    if (sum->len == 0)
        return upper ? NAN : -INFINITY;
    double t = sum->tilt, unit = EPS__UNIT_ROUNDOFF;
    double start = eps__pld_loss(sum, 0), top = eps__pld_loss(sum, sum->len - 1);
    double widening = sum->loss_error + 8 * unit * (2 * fabs(sum->offset) + fabs(start) + fabs(top) + 2 * fabs(k));
    double at = upper ? k - widening : k + widening, from = upper ? fmax(at, start) : at;
    double total = eps__outward(slot->estimate, excess_over(slot, from), 64 + 8 * (double)sum->len);
    if (upper) /* products that underflowed */
        total += DBL_MIN * (double)sum->len * (4 + (t * (top - from) > 700 ? 2e3 / t : 0));
    else
        total -= eps__raise(sum->excess * fmin(1 / (M_E * t), fmax(top - from, 0)), 16);
    double log_total = total > 0 ? log(total) : -INFINITY, scale = sum->log_scale - t * from;
    double value =
        eps__shift(slot->estimate, scale + log_total,
                   4 * t * widening + unit * (8 + 8 * fabs(t * from) + 4 * fabs(sum->log_scale) + 8 * fabs(log_total)));
    if (!upper)
        return total > 0 ? value : -INFINITY;
    /* What lies above the window: losses of at least `base`, wherever rounding puts the top. */
    double base = fmax(top - widening, from), b = slot->beyond_tilt, largest = log_largest(b, base - from);
    double beyond = slot->log_beyond - b * from + largest;
    beyond += unit * (16 + 8 * fabs(slot->log_beyond) + 16 * fabs(b * from) + 16 * fabs(b * base) + 8 * fabs(largest) +
                      8 * fabs(log(b)));
    value = eps__log_add(value, beyond);
    if (from > at) /* sums below the window may contribute: (S - k)_+ <= (S - start)_+ + start - k */
        value = eps__log_add(value, log(from - at));
    return eps__shift(EPS__UPPER, value, 64 * unit * (1 + fabs(value)));
}

/* ------------------------------------------------------------ delta */

/* The bound without sampling: the hockey-stick divergence is jointly convex. */
static double log_gaussian(const struct eps__balls_in_bins *a, enum eps__estimate estimate, double eps)
{
    double error, value = eps__gaussian_log_delta(a->shift[estimate], eps, &error);
    return eps__certain(estimate, fmin(eps__shift(estimate, value, error), 0));
}

static struct slot *find_slot(struct eps__balls_in_bins *a, enum eps__estimate estimate, double eps, double target)
{
    struct slot *nearest = NULL;
    for (size_t i = 0; i < SLOTS; i++) {
        struct slot *slot = &a->slots[i];
        if (slot->used && slot->estimate == estimate && fabs(slot->centre - target) <= slot->reach &&
            fabs(slot->eps - eps) <= REACH_STRIKE &&
            (a->reach == 0 || (a->falls ? target >= slot->centre : target <= slot->centre)) &&
            (!a->falls || cuts_above(a, a->shift[estimate], slot->z_cut, eps)) &&
            (!nearest || fabs(slot->centre - target) < fabs(nearest->centre - target)))
            nearest = slot;
    }
    return nearest;
}

/* Composes into a slot that answers at eps. Out: *made, or NULL if no tilt is found for eps. */
static enum eps_status make_slot(struct eps__balls_in_bins *a, enum eps__estimate estimate, double eps,
                                 struct slot **made)
{
    double s = a->shift[estimate];
    struct aim aim;
    *made = NULL;
    if (!find_aim(a, &aim, s, eps, a->accuracy.tolerance))
        return EPS_OK;
    if (a->reach > 0 && !a->falls) { /* aim ahead: a cut also serves slightly smaller epsilons */
        double ahead = log1p((target_of(a, eps) + 0.99 * a->reach * aim.tilted.deviation) / a->count);
        struct aim further;
        if (ahead > eps && find_aim(a, &further, s, ahead, a->accuracy.tolerance)) {
            aim = further;
            eps = ahead;
        }
    }
    if (a->falls) { /* below z_least the contribution is negligible */
        double log_all = aim.log_total + log(1e-6 * a->accuracy.tolerance / a->count) - log_strike(a, eps) - 4;
        aim.law.z_least = -eps__normal_tail_quantile(fmin(log_all, -1));
    }
    /* raise the cut to leave room for nearby epsilons */
    double reach = (a->reach > 0 ? a->reach : REACH) * aim.tilted.deviation, log_c = s * aim.law.z_cut - 0.5 * s * s;
    struct aim wider;
    if (aim_with(a, &wider, s, log_c + fmax(log1p(fmin(reach * exp(-log_c), 0.05)), CUT_ROOM), eps)) {
        wider.law.z_least = aim.law.z_least;
        aim = wider;
    }
    if (a->falls && !cuts_above(a, s, aim.law.z_cut, eps))
        return EPS_OK;
    double share = allowed(a, eps, aim.tilted.tilt);
    double rate = 0.4 / (aim.tilted.payoff * aim.tilted.deviation); /* density of the sum over its expected excess */
    double spacing = fmax(sqrt(4 * share / (a->count * rate)) / a->finer, 30 * aim.tilted.deviation / length_max(a));
    spacing = fmax(spacing, FINEST_SPACING * fmin(exp(log_c), 1));
    struct slot *slot = &a->slots[a->next_slot++ % SLOTS];
    enum eps_status status = EPS_TOO_COSTLY;
    for (int i = 0; i < COARSER_MAX && status == EPS_TOO_COSTLY; i++, spacing *= 4) {
        slot_clear(slot);
        slot->estimate = estimate;
        status = compose(a, slot, &aim, target_of(a, eps), spacing, share / (a->finer * a->finer));
    }
    if (status != EPS_OK) {
        slot_clear(slot);
        return status;
    }
    slot->eps = eps;
    slot->centre = target_of(a, eps);
    slot->reach = reach;
    slot->z_cut = aim.law.z_cut;
    slot->z_least = aim.law.z_least;
    slot->used = true;
    *made = slot;
    return EPS_OK;
}

enum eps_status eps__balls_in_bins_log_delta(struct eps__balls_in_bins *a, enum eps__estimate estimate, double eps,
                                             double *out)
{
    double gaussian = log_gaussian(a, estimate, eps), unit = EPS__UNIT_ROUNDOFF;
    if (a->bins == 1 || (estimate == EPS__UPPER && gaussian < LOG_NOTHING)) {
        *out = gaussian;
        return EPS_OK;
    }
    double target = target_of(a, eps), s = a->shift[estimate];
    struct slot *slot = find_slot(a, estimate, eps, target);
    enum eps_status status = EPS_OK;
    bool hopeless = a->reach > 0 && a->misses[estimate] >= MISSES_MAX && eps >= a->missed_eps[estimate];
    if (!slot && gaussian > LOG_NOTHING && !hopeless) {
        status = make_slot(a, estimate, eps, &slot);
        a->misses[estimate] = slot ? 0 : a->misses[estimate] + 1;
        a->missed_eps[estimate] = eps;
    }
    if (status != EPS_OK && status != EPS_TOO_COSTLY)
        return status;
    if (!slot) { /* too costly: only the trivial bounds */
        *out = estimate == EPS__UPPER ? gaussian : -INFINITY;
        return EPS_OK;
    }
    /* round the target to the safe side */
    target = eps__outward(eps__other(estimate), target, 8);
    double value = log_excess(slot, target);
    if (!a->falls)
        value = eps__log_add(value, log_above_cut(a, estimate, s, slot->z_cut, eps));
    else if (estimate == EPS__UPPER) /* (K - S)_+ <= K where a lognormal is below z_least */
        value = eps__log_add(value, log(a->count) + log_strike(a, eps) + eps__log_normal_tail(-slot->z_least) +
                                        EPS__LOG_TAIL_ERROR(slot->z_least));
    value += (a->falls ? eps : 0) - log(a->count);
    value = eps__certain(estimate, eps__shift(estimate, value, 16 * unit * (1 + fabs(value) + eps + log(a->count))));
    *out = fmin(value, 0);
    if (estimate == EPS__UPPER)
        *out = fmin(*out, gaussian);
    return EPS_OK;
}

/* ------------------------------------------------------------ unproven */

double eps__balls_in_bins_approximate(const struct eps__balls_in_bins *a, double eps)
{
    double gaussian = log_gaussian(a, EPS__UPPER, eps);
    struct aim aim;
    if (a->bins == 1 || !find_aim(a, &aim, a->shift[EPS__UPPER], eps, 1e-2))
        return gaussian;
    return fmin(aim.log_total - log(a->count) + (a->falls ? eps : 0), gaussian);
}

double eps__balls_in_bins_guess(const struct eps__balls_in_bins *a, double log_delta)
{
    double low = 0, high = 1, wanted = fmin(log_delta, -1e-9);
    if (eps__balls_in_bins_approximate(a, 0) <= wanted)
        return 0;
    for (int i = 0; i < STEPS_MAX && eps__balls_in_bins_approximate(a, high) > wanted; i++) {
        low = high;
        high *= 2;
    }
    for (int i = 0; i < STEPS_MAX && high - low > 1e-3 * high; i++) {
        double middle = 0.5 * (low + high);
        *(eps__balls_in_bins_approximate(a, middle) > wanted ? &low : &high) = middle;
    }
    return high;
}

bool eps__balls_in_bins_refine(struct eps__balls_in_bins *a, double factor)
{
    if (a->bins == 1 || a->finer * factor > FINEST)
        return false;
    a->finer *= factor;
    for (size_t i = 0; i < SLOTS; i++)
        slot_clear(&a->slots[i]);
    return true;
}
