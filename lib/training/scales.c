/*
 * Sets of curves, each on its own grid. Every set except that of the largest losses is replaced by a single loss beyond
 * which its delta is negligible. The effect on the total delta is quadratic in that loss, and so is small.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/training/scales.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "lib/base/limits.h"
#include "lib/training/basic.h"

#define LOG_DELTA_START (-30.0) /* ln delta assumed if delta is unknown */
#define FAR_UNDER 12.0          /* in ln delta: how far below delta the reach of a curve is taken */
#define STEP 8.0                /* in ln delta: results within a step of each other share one measurement */
/* delta of a smaller set at its size, as a fraction of tolerance times delta */
#define EXCEEDED_SHARE 1e-3
#define SMALLER_TOLERANCE 0.1 /* of the compositions of smaller sets */
#define FINER_MOST 16.0       /* largest refinement with several sets: the smaller sets limit the accuracy */
#define FURTHER 1.2           /* factor between sizes that are tried */
#define TINY 1e-2             /* guesses below this loss are checked */
#define TINY_LEAST 1e-9       /* smallest loss tried */
#define TINY_OFF 3.0          /* in ln delta: a guess may be off by this */
#define TINY_TOLERANCE 0.02   /* of evaluations that check guesses */
#define BASIC_TOLERANCE 0.01  /* of basic composition */

enum { SETS_MAX = 8, TRIES = 60 };

/* The largest ratio of losses within a set. A grid reaches about twice the first (lib/pld/known/curves.c); the
 * second is tried if it does not. */
static const double aparts[] = {300, 15};
enum { APARTS = sizeof aparts / sizeof *aparts };

/* A curve owned by someone else, in the same or the reversed direction. */
struct borrowed {
    struct eps__curve base;
    struct eps__curve *curve;
    bool exchanged;
};

struct member {
    struct eps__curve *curve;
    uint64_t count;
    double reach; /* approximately the largest relevant loss of one run */
    size_t set;
};

struct eps__scales {
    const struct eps_context *context;
    struct eps__accuracy accuracy;
    struct member *members;
    size_t len, apart;                     /* apart: index of the current ratio in aparts */
    size_t sets_len;                       /* 0: not yet split */
    struct eps__curves *sets[SETS_MAX][2]; /* each set, and for the smaller sets also reversed */
    double finer;
    /* size: loss that replaces all smaller sets; log_exceeded: ln of their delta at that loss */
    double size, log_exceeded;
    double made_for; /* ln delta that size was measured for; NAN: not measured */
};

/* ------------------------------------------------------------ borrowed curves */

static enum eps_status borrowed_log_delta(struct eps__curve *curve, bool reversed, enum eps__estimate estimate,
                                          double eps, double tolerance, double *log_delta)
{
    const struct borrowed *own = (const struct borrowed *)curve;
    return own->curve->class->log_delta(own->curve, reversed != own->exchanged, estimate, eps, tolerance, log_delta);
}

/* Guesses are meant for losses around 1. If the guess is tiny and too small, increases it until delta is about
 * right. */
static enum eps_status borrowed_guess(struct eps__curve *curve, bool reversed, double log_delta, double *eps)
{
    const struct borrowed *own = (const struct borrowed *)curve;
    double there = -INFINITY;
    enum eps_status status = own->curve->class->guess(own->curve, reversed != own->exchanged, log_delta, eps);
    if (status == EPS_OK && *eps < TINY)
        status = borrowed_log_delta(curve, reversed, EPS__UPPER, *eps, TINY_TOLERANCE, &there);
    while (status == EPS_OK && there > log_delta + TINY_OFF && *eps < TINY) {
        *eps = fmax(*eps * FURTHER, TINY_LEAST);
        status = borrowed_log_delta(curve, reversed, EPS__UPPER, *eps, TINY_TOLERANCE, &there);
    }
    return status;
}

static void borrowed_destroy(struct eps__curve *curve)
{
    free(curve);
}

static const struct eps__curve_class borrowed_class = {borrowed_log_delta, borrowed_guess, borrowed_destroy};

static struct eps__curve *borrow(struct eps__curve *curve, bool exchanged)
{
    struct borrowed *made = malloc(sizeof *made);
    if (!made)
        return NULL;
    *made = (struct borrowed){{&borrowed_class}, curve, exchanged};
    return &made->base;
}

/* ------------------------------------------------------------ making */

enum eps_status eps__scales_create(struct eps__scales **scales, const struct eps_context *context,
                                   const struct eps__accuracy *accuracy)
{
    struct eps__scales *made = calloc(1, sizeof *made);
    if (!made)
        return EPS_NO_MEMORY;
    made->context = context;
    made->accuracy = *accuracy;
    made->finer = 1;
    made->made_for = NAN;
    *scales = made;
    return EPS_OK;
}

static void forget_sets(struct eps__scales *scales)
{
    for (size_t i = 0; i < SETS_MAX; i++)
        for (int exchanged = 0; exchanged < 2; exchanged++) {
            eps__curves_destroy(scales->sets[i][exchanged]);
            scales->sets[i][exchanged] = NULL;
        }
    scales->sets_len = 0;
    scales->made_for = NAN;
}

void eps__scales_destroy(struct eps__scales *scales)
{
    if (!scales)
        return;
    forget_sets(scales);
    for (size_t i = 0; i < scales->len; i++)
        scales->members[i].curve->class->destroy(scales->members[i].curve);
    free(scales->members);
    free(scales);
}

enum eps_status eps__scales_add(struct eps__scales *scales, struct eps__curve *curve, uint64_t count)
{
    struct member *members = curve ? realloc(scales->members, (scales->len + 1) * sizeof *members) : NULL;
    assert(count >= 1 && scales->sets_len == 0);
    if (!members) {
        if (curve)
            curve->class->destroy(curve);
        return EPS_NO_MEMORY;
    }
    scales->members = members;
    scales->members[scales->len++] = (struct member){.curve = curve, .count = count};
    return EPS_OK;
}

/* ------------------------------------------------------------ splitting */

static enum eps_status find_reaches(struct eps__scales *scales)
{
    double about = isnan(scales->accuracy.log_delta) ? LOG_DELTA_START : scales->accuracy.log_delta - FAR_UNDER;
    enum eps_status status = EPS_OK;
    for (size_t i = 0; i < scales->len && status == EPS_OK; i++) {
        struct borrowed member = {{&borrowed_class}, scales->members[i].curve, false};
        status = borrowed_guess(&member.base, false, about, &scales->members[i].reach);
    }
    return status;
}

/* Assigns every member to a set, the largest losses to the first. Returns the number of sets. */
static size_t choose_sets(struct eps__scales *scales)
{
    double below = INFINITY; /* members of a smaller reach have no set yet */
    size_t sets = 0;
    for (; sets < SETS_MAX; sets++) {
        double largest = -INFINITY;
        for (size_t i = 0; i < scales->len; i++)
            if (scales->members[i].reach < below)
                largest = fmax(largest, scales->members[i].reach);
        if (isinf(largest))
            break;
        for (size_t i = 0; i < scales->len; i++)
            if (scales->members[i].reach < below)
                scales->members[i].set = sets;
        below = largest / aparts[scales->apart]; /* they may get another set */
    }
    return sets;
}

/* Creates the composition of a set; for a smaller set also the reversed one. */
static enum eps_status make_set(struct eps__scales *scales, size_t set)
{
    const struct eps__accuracy smaller = {EPS_SOLVE_DELTA, SMALLER_TOLERANCE, NAN};
    enum eps_status status = EPS_OK;
    for (int exchanged = 0; exchanged <= (set > 0) && status == EPS_OK; exchanged++) {
        struct eps__curves **made = &scales->sets[set][exchanged];
        status = eps__curves_create(made, scales->context, set > 0 ? &smaller : &scales->accuracy);
        for (size_t i = 0; i < scales->len && status == EPS_OK; i++)
            if (scales->members[i].set == set)
                status = eps__curves_add(*made, borrow(scales->members[i].curve, exchanged), scales->members[i].count);
    }
    if (status == EPS_OK && set == 0 && scales->finer > 1)
        eps__curves_refine(scales->sets[0][0], scales->finer);
    return status;
}

/* Splits the members into sets by the current ratio. All are in one set if a reach is unknown. */
static enum eps_status split(struct eps__scales *scales)
{
    enum eps_status status = find_reaches(scales);
    forget_sets(scales);
    size_t sets = status == EPS_OK ? choose_sets(scales) : scales->len > 0;
    if (status == EPS_TOO_COSTLY)
        status = EPS_OK;
    for (size_t set = 0; set < sets && status == EPS_OK; set++)
        status = make_set(scales, set);
    scales->sets_len = sets;
    if (status != EPS_OK)
        forget_sets(scales);
    return status;
}

/* Splits into more sets. EPS_TOO_COSTLY if the smallest ratio is already in use. */
static enum eps_status split_further(struct eps__scales *scales)
{
    size_t sets_len = scales->sets_len;
    enum eps_status status = EPS_OK;
    while (status == EPS_OK && scales->sets_len == sets_len) {
        if (scales->apart + 1 == APARTS)
            return EPS_TOO_COSTLY;
        scales->apart++;
        status = split(scales);
    }
    return status;
}

static enum eps_status be_split(struct eps__scales *scales)
{
    return scales->sets_len > 0 ? EPS_OK : split(scales);
}

/* ------------------------------------------------------------ the smaller sets */

/* Approximately the largest relevant loss of one run in the set. */
static double reach_of(const struct eps__scales *scales, size_t set)
{
    double reach = TINY_LEAST;
    for (size_t i = 0; i < scales->len; i++)
        if (scales->members[i].set == set)
            reach = fmax(reach, scales->members[i].reach);
    return reach;
}

/* Finds a loss, at least the initial *size, at which the delta of one direction of a set, H(e^size), is about
 * `wanted` or less; *log_exceeded is a proven bound on ln of that delta. */
static enum eps_status find_size(struct eps__curves *set, double wanted, double *size, double *log_exceeded)
{
    enum eps_status status = eps__curves_approximate(set, *size, log_exceeded);
    for (int i = 0; i < TRIES && status == EPS_OK && *log_exceeded > wanted; i++) {
        *size *= FURTHER;
        status = eps__curves_approximate(set, *size, log_exceeded);
    }
    return status == EPS_OK ? eps__curves_log_delta(set, EPS__UPPER, *size, log_exceeded) : status;
}

/* Measures size and log_exceeded of all smaller sets, for a delta of about this. */
static enum eps_status measure(struct eps__scales *scales, double log_delta)
{
    double about = fmax(floor(log_delta / STEP) * STEP, EPS__LOG_DELTA_FLOOR);
    double smaller = (double)(scales->sets_len - 1), tolerance = fmin(scales->accuracy.tolerance, 1);
    double wanted = fmax(about + log(EXCEEDED_SHARE * tolerance / smaller), EPS__LOG_DELTA_FLOOR);
    enum eps_status status = EPS_OK;
    if (scales->made_for == about)
        return EPS_OK;
    scales->size = 0;
    scales->log_exceeded = -INFINITY;
    for (size_t i = 1; i < scales->sets_len && status == EPS_OK; i++) {
        double reach = reach_of(scales, i), size[2] = {reach, reach}, log_exceeded[2] = {0, 0};
        for (int exchanged = 0; exchanged < 2 && status == EPS_OK; exchanged++)
            status = find_size(scales->sets[i][exchanged], wanted, &size[exchanged], &log_exceeded[exchanged]);
        scales->size = eps__add_up(scales->size, fmax(size[0], size[1]));
        scales->log_exceeded = eps__log_add(scales->log_exceeded, fmax(log_exceeded[0], log_exceeded[1]));
    }
    scales->made_for = status == EPS_OK ? about : NAN;
    return status;
}

/* ln of a bound on the delta of the first set at a loss that may be negative. Below 0 it uses the chord to a = 0. */
static enum eps_status largest_log_delta(struct eps__scales *scales, double eps, double *log_delta)
{
    struct eps__curves *largest = scales->sets[0][0];
    if (eps >= 0)
        return eps__curves_log_delta(largest, EPS__UPPER, eps, log_delta);
    enum eps_status status = eps__curves_log_delta(largest, EPS__UPPER, 0, log_delta);
    double below = eps__raise(-expm1(eps), 8), kept = eps__exp_bound(EPS__UPPER, eps + *log_delta, 0x1p-50);
    *log_delta = eps__log_bound(EPS__UPPER, eps__add_up(below, kept), 4);
    return status;
}

/* Averages over the two losses, +size and -size, that replace the smaller sets, and adds the delta of these sets at
 * size (T5). */
static enum eps_status with_smaller(struct eps__scales *scales, double eps, double *out)
{
    double about = scales->accuracy.log_delta, after, before, size;
    enum eps_status status = EPS_OK;
    *out = 0;
    if (isnan(about))
        status = eps__curves_approximate(scales->sets[0][0], eps, &about);
    if (status == EPS_OK)
        status = measure(scales, about);
    size = scales->size;
    if (status == EPS_OK)
        status = largest_log_delta(scales, eps__lower(eps - size, 4), &after);
    if (status == EPS_OK)
        status = largest_log_delta(scales, eps__lower(eps + size, 4), &before);
    if (status != EPS_OK)
        return status;
    double both = log1p(exp(-size)), sum = eps__log_add(after - both, before - size - both);
    sum = eps__log_add(sum, scales->log_exceeded);
    *out = fmin(eps__shift(EPS__UPPER, sum, 64 * EPS__UNIT_ROUNDOFF * (1 + fabs(sum))), 0);
    return EPS_OK;
}

/* ------------------------------------------------------------ delta */

static enum eps_status bound(struct eps__scales *scales, enum eps__estimate estimate, double eps, double *out)
{
    *out = estimate == EPS__UPPER ? 0 : -INFINITY;
    enum eps_status status = be_split(scales);
    if (status != EPS_OK || scales->sets_len == 0)
        return status;
    if (estimate == EPS__UPPER && scales->sets_len > 1)
        return with_smaller(scales, eps, out);
    return eps__curves_log_delta(scales->sets[0][0], estimate, eps, out);
}

static enum eps_status composed(struct eps__scales *scales, enum eps__estimate estimate, double eps, double *out)
{
    enum eps_status status, further = EPS_OK;
    do {
        status = bound(scales, estimate, eps, out);
        bool reached = status == EPS_OK && (estimate == EPS__LOWER || *out < 0);
        further = reached || (status != EPS_OK && status != EPS_TOO_COSTLY) ? EPS_TOO_COSTLY : split_further(scales);
    } while (further == EPS_OK);
    return further == EPS_TOO_COSTLY ? status : further;
}

/* Basic composition of all members (T7). */
static enum eps_status basic(const struct eps__scales *scales, double eps, double *out)
{
    struct eps__run *runs = malloc(scales->len * sizeof *runs);
    if (!runs)
        return EPS_NO_MEMORY;
    for (size_t i = 0; i < scales->len; i++)
        runs[i] = (struct eps__run){scales->members[i].curve, scales->members[i].count};
    enum eps_status status = eps__basic_log_delta(runs, scales->len, eps, BASIC_TOLERANCE, out);
    free(runs);
    return status;
}

enum eps_status eps__scales_log_delta(struct eps__scales *scales, enum eps__estimate estimate, double eps, double *out)
{
    double sum = 0;
    enum eps_status status = composed(scales, estimate, eps, out);
    /* up to its grid, one composition of all members is at most this sum */
    if (status != EPS_OK || estimate == EPS__LOWER || scales->len == 0 || (scales->sets_len == 1 && *out < 0))
        return status;
    status = basic(scales, eps, &sum);
    *out = fmin(*out, sum);
    return status == EPS_TOO_COSTLY ? EPS_OK : status;
}

bool eps__scales_refine(struct eps__scales *scales, double factor)
{
    if (scales->sets_len == 0 || (scales->sets_len > 1 && scales->finer * factor > FINER_MOST))
        return false;
    if (!eps__curves_refine(scales->sets[0][0], factor))
        return false;
    scales->finer *= factor;
    return true;
}

/* ------------------------------------------------------------ unproven */

enum eps_status eps__scales_approximate(struct eps__scales *scales, double eps, double *out)
{
    enum eps_status status = be_split(scales), further = EPS_OK;
    *out = -INFINITY;
    while (status == EPS_OK && scales->sets_len > 0) {
        status = eps__curves_approximate(scales->sets[0][0], eps, out);
        if (status != EPS_TOO_COSTLY)
            break;
        further = split_further(scales);
        if (further != EPS_OK)
            return further;
        status = EPS_OK;
    }
    return status;
}

enum eps_status eps__scales_guess(struct eps__scales *scales, double log_delta, double *eps)
{
    double any;
    enum eps_status status = eps__scales_approximate(scales, 0, &any); /* splits if necessary */
    *eps = 0;
    return status == EPS_OK && scales->sets_len > 0 ? eps__curves_guess(scales->sets[0][0], log_delta, eps) : status;
}
