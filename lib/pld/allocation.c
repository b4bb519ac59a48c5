/*
 * With S the sum of the b lognormals and K = b e^eps, delta_remove = E[(S - K)_+]/b and, with K = b e^-eps,
 * delta_add = e^eps E[(K - S)_+]/b (LEMMAS.md, L22). The second sees only sums of lognormals under K. Of the first, what has
 * a lognormal above a cut c >= K is a closed form, and the rest has no heavy tails. Either is a composition of the
 * lognormal's law on a grid (lognormal.h), tilted for eps, of which the expected excess over K is read off, for this epsilon
 * and those near it.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/pld/allocation.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "lib/error.h"
#include "lib/numerics/normal.h"
#include "lib/pld/lognormal.h"

enum { SLOTS = 6, COARSER_MAX = 6, STEPS_MAX = 40 };

#define LENGTH_MAX 0x1p23 /* of a transform */
#define FINEST 1e4        /* of all refinements together */
#define TAIL_SLACK 1.01   /* of what a window leaves out, as in compose.c (L10) */

/* A composition around one epsilon. */
struct slot {
    struct eps__pld sum;             /* of the losses, as they are composed */
    enum eps__estimate estimate;
    double centre, reach;            /* targets centre - reach <= k <= centre + reach */
    double z_cut;
    double beyond_tilt, log_beyond;  /* upper: E[(S - k)_+; S > top] <= e^{log_beyond - tilt top} max_{y >= top - k} .. */
    bool used;
};

struct eps__allocation {
    const struct eps_context *context;
    struct eps__accuracy accuracy;
    bool falls; /* direction add: small sums matter */
    size_t bins;
    double count, shift[2]; /* by estimate */
    double finer;
    struct slot slots[SLOTS];
    size_t next_slot;
};

enum eps_status eps__allocation_create(struct eps__allocation **allocation, const struct eps_context *context,
                                       enum eps_direction direction, size_t bins, double shift_lower,
                                       double shift_upper, const struct eps__accuracy *accuracy)
{
    struct eps__allocation *made = calloc(1, sizeof *made);
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
    *allocation = made;
    return EPS_OK;
}

static void slot_clear(struct slot *slot)
{
    eps__pld_clear(&slot->sum);
    *slot = (struct slot){0};
}

void eps__allocation_destroy(struct eps__allocation *a)
{
    if (!a)
        return;
    for (size_t i = 0; i < SLOTS; i++)
        slot_clear(&a->slots[i]);
    free(a);
}

/* ------------------------------------------------------------ the target, and the cut */

/* The losses V - 1 (1 - V where small sums matter) have to exceed this in sum. */
static double target_of(const struct eps__allocation *a, double eps)
{
    return a->falls ? -a->count * expm1(-eps) : a->count * expm1(eps);
}

/* ln K. */
static double log_strike(const struct eps__allocation *a, double eps)
{
    return log(a->count) + (a->falls ? -eps : eps);
}

/* The z at which a lognormal is e^log_value. */
static double z_of(double s, double log_value)
{
    return (log_value + 0.5 * s * s) / s;
}

/* Whether the cut e^{s z - s^2/2} is certainly at least K. */
static bool cuts_above(double s, double z_cut, double log_k)
{
    double log_cut = s * z_cut - 0.5 * s * s;
    return log_cut - log_k > EPS__UNIT_ROUNDOFF * (8 * fabs(s * z_cut) + 8 * s * s + 16 * fabs(log_k) + 16);
}

/* ------------------------------------------------------------ a lognormal above the cut */

/* ln of E[S - K; some V > c], c >= K: the first one that is, what is before it, what comes after (L22). */
static double log_above_cut(const struct eps__allocation *a, enum eps__estimate estimate, double s, double z_cut,
                            double log_k)
{
    double unit = EPS__UNIT_ROUNDOFF, at = z_cut - s, sign = estimate == EPS__UPPER ? 1 : -1;
    double log_tail = eps__log_normal_tail(z_cut), log_part = eps__log_normal_tail(at);
    double error = EPS__LOG_TAIL_ERROR(z_cut) + EPS__LOG_TAIL_ERROR(at) + 2 * unit * (fabs(at) + 1) * (fabs(at) + 1);
    double log_mean = log_part - log_tail; /* E[V | V > c] */
    error += 4 * unit * (fabs(log_part) + fabs(log_tail) + fabs(log_k) + 4);
    double size = exp(fmin(log_mean, 700)), excess = exp(log_k) * expm1(log_mean - log_k);
    if (!(log_mean < 690))
        return estimate == EPS__UPPER ? log(a->count) : -INFINITY;
    excess = fmax(excess + sign * (error + 8 * unit) * (size + exp(log_k)), 0);
    double tail = exp(log_tail), below = -expm1(log_tail), part = exp(log_part), mean_below = 1 - part;
    double powers = 0, after = 0, before = 0, power = 1, last = 0; /* power = F^(i - 1), last = F^(i - 2) */
    (void)tail;
    for (size_t i = 1; i <= a->bins; i++) {
        powers += power;
        after += (double)(a->bins - i) * power;
        before += (double)(i - 1) * last;
        last = power;
        power *= below;
    }
    double sum = powers * excess + after + mean_below * before;
    double units = 16 * a->count + 64 + 4 * a->count * (error / unit + 8) * fmin(1, a->count * tail);
    double value = log_tail + eps__log_bound(estimate, sum, units);
    return sum > 0 ? eps__shift(estimate, value, error + 4 * unit * (fabs(log_tail) + fabs(value))) : -INFINITY;
}

/* ------------------------------------------------------------ compositions */

/* How much ln delta may be off for the tolerance, about. */
static double allowed(const struct eps__allocation *a, double eps, double tilt)
{
    double tolerance = a->accuracy.tolerance;
    if (a->accuracy.unknown == EPS_SOLVE_NOISE_MULTIPLIER)
        return 3 * tolerance;
    if (a->accuracy.unknown == EPS_SOLVE_EPSILON)
        return tolerance * fmin(fmax(0.3 * eps * tilt * exp(log_strike(a, eps)), 1e-2), 30);
    return tolerance;
}

/* Upper: where to bound what lies above the window from, at best. */
static void set_beyond(const struct eps__allocation *a, struct slot *slot, const struct eps__pld *step, double deviation)
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

static enum eps_status compose(struct eps__allocation *a, struct slot *slot, const struct eps__lognormal *law,
                               const struct eps__lognormal_aim *aim, double spacing, double share)
{
    struct eps__pld step = {0};
    double excess = aim->payoff / fmin(1 / (M_E * aim->tilt), 12 * aim->deviation);
    struct eps__compose_plan plan = {.tilt = aim->tilt, .max_len = (size_t)LENGTH_MAX};
    plan.tail_mass = fmin(fmax(0.02 * share * excess, 1e-18), 1e-4);
    double log_least = log(1e-5 * share / a->count) - 2;
    enum eps_status status =
        eps__lognormal_build(a->context, &step, law, aim, spacing, log_least, slot->estimate);
    if (status == EPS_OK && step.len > 0)
        status = eps__pld_compose(a->context, &slot->sum, &step, a->bins, 1, &plan);
    if (status == EPS_OK && step.len > 0 && slot->estimate == EPS__UPPER)
        set_beyond(a, slot, &step, aim->deviation);
    eps__pld_clear(&step);
    return status;
}

/* ------------------------------------------------------------ the expected excess */

/* ln of max over y >= least >= 0 of y e^{-t y}, rounded to nearest. */
static double log_largest(double t, double least)
{
    return t * least >= 1 ? log(least) - t * least : -1 - log(t);
}

/* ln of E[(S - k)_+; all V <= c] (L23). */
static double log_excess(const struct slot *slot, double k)
{
    const struct eps__pld *sum = &slot->sum;
    bool upper = slot->estimate == EPS__UPPER;
    if (sum->len == 0)
        return -INFINITY;
    double t = sum->tilt, unit = EPS__UNIT_ROUNDOFF, total = 0;
    double start = eps__pld_loss(sum, 0), top = eps__pld_loss(sum, sum->len - 1);
    double widening = sum->loss_error + 8 * unit * (2 * fabs(sum->offset) + fabs(start) + fabs(top) + 2 * fabs(k));
    double at = upper ? k - widening : k + widening, from = upper ? fmax(at, start) : at;
    for (size_t i = sum->len; i-- > 0;) {
        double over = eps__pld_loss(sum, i) - from;
        if (over < 0)
            break;
        total += t * over < 700 ? sum->mass[i] * over * exp(-t * over) : 0;
    }
    double units = 64 + 4 * (double)sum->len + 4 * 700;
    total = eps__outward(slot->estimate, total, units);
    if (upper)
        total += DBL_MIN * (double)sum->len * (1 + 1 / fmax(t, DBL_MIN / unit));
    else
        total -= eps__raise(sum->excess * fmin(1 / (M_E * t), fmax(top - from, 0)), 16);
    double log_total = total > 0 ? log(total) : -INFINITY, scale = sum->log_scale - t * from;
    double value = eps__shift(slot->estimate, scale + log_total,
                              unit * (8 + 8 * fabs(t * from) + 4 * fabs(sum->log_scale) + 8 * fabs(log_total)));
    if (!upper)
        return total > 0 ? value : -INFINITY;
    /* what lies above the window */
    double base = fmax(top, from), b = slot->beyond_tilt;
    double beyond = slot->log_beyond - b * from + log_largest(b, base - from);
    beyond += unit * (16 + 8 * fabs(slot->log_beyond) + 16 * fabs(b * from) + 16 * fabs(b * base));
    value = eps__log_add(value, beyond);
    if (from > at) /* sums under the window may count, too: (S - k)_+ <= (S - start)_+ + start - k */
        value = eps__log_add(value, log(from - at));
    return eps__shift(EPS__UPPER, value, 64 * unit * (1 + fabs(value)));
}

/* ------------------------------------------------------------ delta */

/* No sampling at all is a bound, too: the hockey-stick divergence is jointly convex. */
static double log_gaussian(const struct eps__allocation *a, enum eps__estimate estimate, double eps)
{
    double error, value = eps__gaussian_log_delta(a->shift[estimate], eps, &error);
    return eps__certain(estimate, fmin(eps__shift(estimate, value, error), 0));
}

static struct slot *find_slot(struct eps__allocation *a, enum eps__estimate estimate, double eps, double target)
{
    struct slot *nearest = NULL;
    for (size_t i = 0; i < SLOTS; i++) {
        struct slot *slot = &a->slots[i];
        if (slot->used && slot->estimate == estimate && fabs(slot->centre - target) <= slot->reach &&
            cuts_above(a->shift[estimate], slot->z_cut, log_strike(a, eps)) &&
            (!nearest || fabs(slot->centre - target) < fabs(nearest->centre - target)))
            nearest = slot;
    }
    return nearest;
}

/* A slot that answers at eps; NULL where eps is out of a tilt's reach. */
static enum eps_status make_slot(struct eps__allocation *a, enum eps__estimate estimate, double eps,
                                 struct slot **made)
{
    double target = target_of(a, eps), s = a->shift[estimate], log_k = log_strike(a, eps);
    struct eps__lognormal law = {.s = s, .falls = a->falls};
    struct eps__lognormal_aim aim;
    *made = NULL;
    /* the cut leaves room for epsilons nearby */
    law.z_cut = z_of(s, log_k + 1e-6);
    if (!eps__lognormal_aim(&law, a->count, target, &aim))
        return EPS_OK;
    double reach = 2 * aim.deviation, room = log1p(fmin(reach, 0.05 * exp(log_k)) / exp(log_k));
    law.z_cut = z_of(s, log_k + fmax(room, 1e-6));
    if (!cuts_above(s, law.z_cut, log_k) || !eps__lognormal_aim(&law, a->count, target, &aim))
        return EPS_OK;
    double share = allowed(a, eps, aim.tilt);
    double density = aim.deviation * aim.deviation / aim.payoff * aim.deviation; /* payoff phi(0)/density of the sum */
    double rate = 0.4 / aim.payoff / aim.deviation;                              /* density over expected excess */
    (void)density;
    double spacing = sqrt(4 * share / (a->count * rate)) / a->finer;
    spacing = fmax(spacing, 30 * aim.deviation / LENGTH_MAX);
    struct slot *slot = &a->slots[a->next_slot++ % SLOTS];
    enum eps_status status = EPS_TOO_COSTLY;
    for (int i = 0; i < COARSER_MAX && status == EPS_TOO_COSTLY; i++, spacing *= 4) {
        slot_clear(slot);
        slot->estimate = estimate;
        status = compose(a, slot, &law, &aim, spacing, share / (a->finer * a->finer));
    }
    if (status != EPS_OK) {
        slot_clear(slot);
        return status;
    }
    slot->centre = target;
    slot->reach = reach;
    slot->z_cut = law.z_cut;
    slot->used = true;
    *made = slot;
    return EPS_OK;
}

enum eps_status eps__allocation_log_delta(struct eps__allocation *a, enum eps__estimate estimate, double eps,
                                          double *out)
{
    double gaussian = log_gaussian(a, estimate, eps), unit = EPS__UNIT_ROUNDOFF;
    if (a->bins == 1) {
        *out = gaussian;
        return EPS_OK;
    }
    double target = target_of(a, eps), s = a->shift[estimate];
    struct slot *slot = find_slot(a, estimate, eps, target);
    enum eps_status status = slot ? EPS_OK : make_slot(a, estimate, eps, &slot);
    if (status != EPS_OK)
        return status;
    if (!slot) {
        *out = estimate == EPS__UPPER ? gaussian : -INFINITY;
        return EPS_OK;
    }
    double log_k = log_strike(a, eps);
    /* the target's own rounding, to the safe side */
    target = eps__outward(eps__other(estimate), target, 8);
    double value = log_excess(slot, target);
    if (!a->falls)
        value = eps__log_add(value, log_above_cut(a, estimate, s, slot->z_cut, log_k));
    value += (a->falls ? eps : 0) - log(a->count);
    value = eps__certain(estimate, eps__shift(estimate, value, 16 * unit * (1 + fabs(value) + eps + log(a->count))));
    *out = fmin(value, 0);
    if (estimate == EPS__UPPER)
        *out = fmin(*out, gaussian);
    return EPS_OK;
}

/* ------------------------------------------------------------ unproven */

double eps__allocation_approximate(const struct eps__allocation *a, double eps)
{
    double s = a->shift[EPS__UPPER], gaussian = log_gaussian(a, EPS__UPPER, eps), log_k = log_strike(a, eps);
    struct eps__lognormal law = {.s = s, .falls = a->falls, .z_cut = z_of(s, log_k + 1e-6)};
    struct eps__lognormal_aim aim;
    double target = target_of(a, eps);
    if (a->bins == 1 || !eps__lognormal_aim(&law, a->count, target, &aim))
        return gaussian;
    double value = a->count * aim.log_moment - aim.tilt * target + log(aim.payoff);
    if (!a->falls)
        value = eps__log_add(value, log_above_cut(a, EPS__UPPER, s, law.z_cut, log_k));
    return fmin(value - log(a->count) + (a->falls ? eps : 0), gaussian);
}

double eps__allocation_guess(const struct eps__allocation *a, double log_delta)
{
    double low = 0, high = 1, wanted = fmin(log_delta, -1e-9);
    if (eps__allocation_approximate(a, 0) <= wanted)
        return 0;
    for (int i = 0; i < STEPS_MAX && eps__allocation_approximate(a, high) > wanted; i++) {
        low = high;
        high *= 2;
    }
    for (int i = 0; i < STEPS_MAX && high - low > 1e-3 * high; i++) {
        double middle = 0.5 * (low + high);
        *(eps__allocation_approximate(a, middle) > wanted ? &low : &high) = middle;
    }
    return high;
}

bool eps__allocation_refine(struct eps__allocation *a, double factor)
{
    if (a->bins == 1 || a->finer * factor > FINEST)
        return false;
    a->finer *= factor;
    for (size_t i = 0; i < SLOTS; i++)
        slot_clear(&a->slots[i]);
    return true;
}
