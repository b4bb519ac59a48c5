/*
 * Group privacy: replacing an example removes one and adds another (A55).
 *
 * With the output's laws M with the example, Q without any contribution of it, and M' with the one that replaces it,
 * the hockey-stick divergence of M from M' is at most H_a(M | Q) + e^a H_(eps - a)(Q | M') for all a in [0, eps]. Both
 * terms are divergences of zero_out, so replace_one is amplified wherever zero_out is.
 *
 * Any split a is sound. It is chosen by approximations, corrected by the bounds they lead to. Only accountants that
 * spend nothing on bad events are used, because their share suits one epsilon.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "lib/accountants/accountant.h"
#include "lib/base/error.h"
#include "lib/numerics/bound.h"
#include "lib/sampling/scheme.h"

/* Of the operations for zero_out, and beside them for the choice of splits; as measured (tests/bench/bench_costs.c). */
#define WORK 1.6
#define WORK_SPLITS 1.6e8

#define NEAR 0.1             /* approximations of ln delta that are so near to bounds find the split */
#define LEAST_LOG (-1e4)     /* smaller logarithms count as this one where a split is sought */
#define LEAST_EPSILON 1e-300 /* smaller ones have the nodes of this one */

#define CLIFF 20 /* a fall of ln delta between two approximations that no parabola follows */

enum {
    FINE = 4,        /* approximations divide the epsilon asked for into 2^FINE to 2^(FINE+1) intervals, */
    COARSE = 2,      /* or 2^COARSE to 2^(COARSE+1) where no bound is asked for */
    SPLITS = 192,    /* the splits that are compared */
    CORRECTIONS = 6, /* of approximations by bounds */
    NODES_MOST = (2 << FINE) + 2,
    KEPT = 256 /* approximations that are kept of a step; then they are dropped */
};

/* The same job under zero_out. */
struct apart {
    struct eps_job job;
    struct eps__setting setting;
    const struct eps__accountant *accountants[EPS__ACCOUNTANTS_MAX];
    size_t len;
};

/* The split for an epsilon, and its upper bound. */
struct split {
    double eps, at, upper;
};

/* Approximations that were made, at multiples of powers of two, so that neighbouring epsilons share them. */
struct kept {
    size_t len;
    double eps[KEPT], log_delta[KEPT];
};

struct group_profile {
    struct eps__profile base;
    struct apart apart;
    struct kept kept[EPS_DIRECTIONS][EPS_DIRECTIONS]; /* [direction][step] */
    struct split last[EPS_DIRECTIONS];                /* for the epsilon asked last */
    /* [direction][accountant]: each direction has its own, because it asks them for both. NULL: it cannot answer. */
    struct eps__profile *profiles[EPS_DIRECTIONS][EPS__ACCOUNTANTS_MAX];
};

/* Finds the accountants for zero_out that amplify, answer at any epsilon and spend nothing on bad events. */
static void take_apart(struct apart *apart, const struct eps__setting *setting)
{
    apart->job = *setting->job;
    apart->job.mechanism.adjacency = EPS_ADJACENCY_ZERO_OUT;
    apart->job.query.accountant.method = EPS_ACCOUNTANT_AUTO;
    apart->setting = *setting;
    apart->setting.job = apart->setting.asked = &apart->job;
    apart->setting.plainer = NULL;
    apart->setting.sensitivity.value /= 2; /* of which replace_one's is the double */
    apart->setting.sensitivity.lower /= 2;
    apart->setting.absence = eps__sampling_absence(&apart->job.mechanism);
    apart->len = 0;
    for (size_t i = 0; eps__accountants[i]; i++) {
        const struct eps__accountant *accountant = eps__accountants[i];
        bool suits = accountant->open && accountant->amplifies && !accountant->narrow;
        if (suits && !eps__accountant_spends(accountant) && accountant->serves(&apart->setting, NULL))
            apart->accountants[apart->len++] = accountant;
        else if (accountant->serves(&apart->setting, NULL) && accountant->exact(&apart->setting)) {
            apart->len = 0; /* nothing is amplified */
            return;
        }
    }
    for (size_t i = 0; i < apart->len; i++)
        if (apart->accountants[i]->tight && apart->accountants[i]->tight(&apart->setting)) {
            apart->accountants[0] = apart->accountants[i];
            apart->len = 1; /* the others are hardly better */
        }
}

/* ------------------------------------------------------------ the profile */

/* Whether the failure concerns one accountant alone, so that the others may answer. */
static bool is_passing(enum eps_status status)
{
    return status == EPS_TOO_COSTLY || status == EPS_UNSUPPORTED || status == EPS_UNATTAINABLE;
}

/* The least bound on ln delta of the step in `direction`, of those that answer. */
static enum eps_status step_log_delta(struct group_profile *group, struct eps__profile *const *profiles,
                                      enum eps_direction direction, enum eps__estimate estimate, double eps,
                                      double *out, struct eps_error *error)
{
    enum eps_status failure = EPS_INTERNAL;
    *out = INFINITY;
    for (size_t i = 0; i < group->apart.len; i++) {
        double own;
        if (!profiles[i])
            continue;
        enum eps_status status =
            eps__profile_log_delta(&group->apart.setting, profiles[i], direction, estimate, eps, &own, error);
        if (status == EPS_OK)
            *out = fmin(*out, own);
        else if (is_passing(status))
            failure = status;
        else
            return status;
    }
    return *out < INFINITY ? EPS_OK : failure;
}

/* The least approximation; NAN if there is none. */
static enum eps_status step_approximate(struct group_profile *group, enum eps_direction direction,
                                        enum eps_direction step, double eps, double *out)
{
    struct kept *kept = &group->kept[direction][step];
    for (size_t k = 0; k < kept->len; k++)
        if (kept->eps[k] == eps) {
            *out = kept->log_delta[k];
            return EPS_OK;
        }
    *out = NAN;
    for (size_t i = 0; i < group->apart.len; i++) {
        double own = NAN;
        struct eps__profile *profile = group->profiles[direction][i];
        enum eps_status status = profile ? profile->class->approximate(profile, step, eps, &own) : EPS_OK;
        if (status != EPS_OK && !is_passing(status))
            return status;
        if (status == EPS_OK)
            *out = fmin(*out, own); /* the other one if one is NAN */
    }
    if (!isnan(*out))
        *out = fmin(*out, eps__absence_log_delta(&group->apart.setting.absence, step, eps).upper);
    if (kept->len == KEPT)
        kept->len = 0;
    kept->eps[kept->len] = eps;
    kept->log_delta[kept->len++] = *out;
    return EPS_OK;
}

/* How far proven bounds were found from approximations: the line through the last two. */
struct correction {
    bool known;
    double eps, off, slope;
};

/* Approximations of ln delta of both steps at the multiples of `distance` up to the epsilon asked for. */
struct samples {
    double eps, distance, at[EPS_DIRECTIONS][NODES_MOST];
    size_t nodes;
    struct correction corrections[EPS_DIRECTIONS];
};

static double offset(const struct correction *correction, double eps)
{
    return correction->off + correction->slope * (eps - correction->eps);
}

/* more: a proven bound at eps, less the approximation with the offset so far. */
static void correct(struct correction *correction, double eps, double more)
{
    double off = offset(correction, eps) + more;
    double slope = correction->known ? (off - correction->off) / (eps - correction->eps) : 0;
    *correction = (struct correction){true, eps, off, isfinite(slope) ? slope : correction->slope};
}

/* fine: 2^fine to 2^(fine+1) intervals. */
static enum eps_status take_samples(struct samples *samples, struct group_profile *group, enum eps_direction direction,
                                    double eps, int fine)
{
    assert(eps >= 0 && isfinite(eps));
    double distance = ldexp(1, ilogb(fmax(eps, LEAST_EPSILON)) - fine);
    *samples = (struct samples){.eps = eps, .distance = distance};
    samples->nodes = (size_t)fmax(ceil(eps / distance), 2) + 1; /* a parabola needs three */
    assert(samples->nodes <= NODES_MOST);
    enum eps_status status = EPS_OK;
    for (enum eps_direction step = 0; step < EPS_DIRECTIONS; step++)
        for (size_t k = 0; k < samples->nodes && status == EPS_OK; k++) {
            double *at = &samples->at[step][k];
            status = step_approximate(group, direction, step, distance * (double)k, at);
            *at = *at < LEAST_LOG ? LEAST_LOG : *at; /* NAN stays */
        }
    return status;
}

/* A step's approximation between nodes: the parabola through the nearest three. */
static double sample(const struct samples *samples, enum eps_direction step, double eps)
{
    const double *y = samples->at[step], at = eps / samples->distance;
    double off = offset(&samples->corrections[step], eps);
    size_t middle = (size_t)fmin(fmax(round(at), 1), (double)samples->nodes - 2);
    double t = at - (double)middle;
    size_t before = (size_t)at;
    assert(at <= (double)samples->nodes - 1);
    if (at > (double)before && y[before] - y[before + 1] > CLIFF) /* where in between it falls is not known */
        return y[before] + off;
    return y[middle] + 0.5 * t * (y[middle + 1] - y[middle - 1]) +
           0.5 * t * t * (y[middle + 1] - 2 * y[middle] + y[middle - 1]) + off;
}

/* Approximates the terms of a split; returns the logarithm of their sum. */
static double weigh(const struct samples *samples, double split, double terms[EPS_DIRECTIONS])
{
    terms[EPS_REMOVE] = sample(samples, EPS_REMOVE, split);
    terms[EPS_ADD] = sample(samples, EPS_ADD, samples->eps - split);
    return eps__log_add(terms[EPS_REMOVE], split + terms[EPS_ADD]);
}

/* The best split on a fine grid; the middle if no approximation is known. */
static double choose_split(const struct samples *samples, double terms[EPS_DIRECTIONS], double *value)
{
    double best = 0.5 * samples->eps;
    *value = INFINITY;
    for (int k = 0; k <= SPLITS; k++) {
        double split = fmin(samples->eps * k / SPLITS, samples->eps), own = weigh(samples, split, terms);
        if (own < *value) {
            best = split;
            *value = own;
        }
    }
    *value = weigh(samples, best, terms);
    return best;
}

/* The terms of a split, proven, and the logarithm of their sum (A55). */
static enum eps_status bound(struct group_profile *group, enum eps_direction direction, enum eps__estimate estimate,
                             const struct split *split, double terms[EPS_DIRECTIONS], double *out,
                             struct eps_error *error)
{
    double rest = fmax(eps__lower(split->eps - split->at, 1), 0); /* together no more than eps */
    enum eps_status status = EPS_OK;
    assert(split->at >= 0 && split->at <= split->eps);
    for (enum eps_direction step = 0; step < EPS_DIRECTIONS && status == EPS_OK; step++)
        status = step_log_delta(group, group->profiles[direction], step, estimate,
                                step == EPS_REMOVE ? split->at : rest, &terms[step], error);
    if (status != EPS_OK)
        return status;
    double sum = eps__log_add(terms[EPS_REMOVE], split->at + terms[EPS_ADD]);
    double exponent = isinf(terms[EPS_ADD]) ? 0 : fabs(terms[EPS_ADD]); /* a delta of 0 is exact */
    double slack = 16 * EPS__UNIT_ROUNDOFF * (1 + split->at + exponent + fabs(sum));
    *out = fmin(isinf(sum) ? sum : eps__shift(estimate, sum, slack), 0);
    return EPS_OK;
}

/* Proves the split `at`, and keeps it if its bound is the least so far. */
static enum eps_status try(struct group_profile *group, enum eps_direction direction, struct split *found, double eps,
                           double at, double proven[EPS_DIRECTIONS], struct eps_error *error)
{
    struct split split = {.eps = eps, .at = at};
    enum eps_status status = bound(group, direction, EPS__UPPER, &split, proven, &split.upper, error);
    if (status == EPS_OK && split.upper < found->upper)
        *found = split;
    return status;
}

/* If an example may never be drawn, adding it has delta 0 from some epsilon on (S3). Approximations at a distance miss
 * that place, so the split that leaves exactly this epsilon to add is tried besides. */
static enum eps_status try_nothing_to_add(struct group_profile *group, enum eps_direction direction,
                                          struct split *found, double eps, struct eps_error *error)
{
    double proven[EPS_DIRECTIONS];
    double rest = eps__absence_epsilon(&group->apart.setting.absence, EPS_ADD, -INFINITY);
    double at = eps__lower(eps - rest, 4); /* -INFINITY if there is no such epsilon */
    return at >= 0 ? try(group, direction, found, eps, at, proven, error) : EPS_OK;
}

/* Where the bounds are not what was approximated, approximations that are corrected by the difference find a better
 * split. */
static enum eps_status find_split(struct group_profile *group, enum eps_direction direction, double eps,
                                  struct split *found, struct eps_error *error)
{
    struct samples samples;
    enum eps_status status = take_samples(&samples, group, direction, eps, FINE);
    if (status != EPS_OK)
        return eps__error(error, status, "", "%s", status == EPS_NO_MEMORY ? "out of memory" : "canceled");
    *found = (struct split){NAN, 0, INFINITY};
    status = try_nothing_to_add(group, direction, found, eps, error);
    for (int i = 0; i < CORRECTIONS && status == EPS_OK; i++) {
        double value, proven[EPS_DIRECTIONS], terms[EPS_DIRECTIONS], off = 0;
        double at = choose_split(&samples, terms, &value);
        status = try(group, direction, found, eps, at, proven, error);
        if (status != EPS_OK)
            return status;
        for (enum eps_direction step = 0; step < EPS_DIRECTIONS; step++) {
            double more = fmax(proven[step], LEAST_LOG) - terms[step];
            off = fmax(off, fabs(more));
            correct(&samples.corrections[step], step == EPS_REMOVE ? at : eps - at, more);
        }
        if (off < NEAR)
            break;
    }
    return status;
}

static enum eps_status log_delta(struct eps__profile *profile, enum eps_direction direction,
                                 enum eps__estimate estimate, double eps, double *out, struct eps_error *error)
{
    struct group_profile *group = (struct group_profile *)profile;
    struct split *last = &group->last[direction];
    double terms[EPS_DIRECTIONS];
    if (last->eps != eps) { /* the lower end follows the upper one */
        enum eps_status status = find_split(group, direction, eps, last, error);
        if (status != EPS_OK)
            return status;
    }
    *out = last->upper;
    return estimate == EPS__UPPER ? EPS_OK : bound(group, direction, estimate, last, terms, out, error);
}

static enum eps_status approximate(struct eps__profile *profile, enum eps_direction direction, double eps, double *out)
{
    struct samples samples;
    double terms[EPS_DIRECTIONS];
    enum eps_status status = take_samples(&samples, (struct group_profile *)profile, direction, eps, COARSE);
    choose_split(&samples, terms, out);
    *out = fmin(*out, 0);
    return status;
}

/* Where each term is a half of delta. */
static enum eps_status guess(struct eps__profile *profile, enum eps_direction direction, double log_delta_wanted,
                             double *eps)
{
    struct group_profile *group = (struct group_profile *)profile;
    *eps = 0;
    for (enum eps_direction step = EPS_REMOVE; step < EPS_DIRECTIONS; step++) {
        double least = INFINITY;
        for (size_t i = 0; i < group->apart.len; i++) {
            struct eps__profile *own = group->profiles[direction][i];
            double found = 0, wanted = log_delta_wanted - M_LN2 - *eps;
            enum eps_status status = own ? own->class->guess(own, step, wanted, &found) : EPS_OK;
            if (status != EPS_OK && !is_passing(status))
                return status;
            if (own && status == EPS_OK)
                least = fmin(least, found);
        }
        *eps += isfinite(least) ? least : 0;
    }
    return EPS_OK;
}

static bool refine(struct eps__profile *profile, enum eps_direction direction, double factor)
{
    struct group_profile *group = (struct group_profile *)profile;
    bool refined = false;
    group->last[direction].eps = NAN;
    group->kept[direction][EPS_REMOVE].len = group->kept[direction][EPS_ADD].len = 0;
    for (size_t i = 0; i < group->apart.len; i++)
        for (enum eps_direction step = 0; step < EPS_DIRECTIONS; step++) {
            struct eps__profile *own = group->profiles[direction][i];
            refined |= own && own->class->refine(own, step, factor);
        }
    return refined;
}

static void destroy(struct eps__profile *profile)
{
    struct group_profile *group = (struct group_profile *)profile;
    for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++)
        for (size_t i = 0; i < group->apart.len; i++)
            if (group->profiles[direction][i])
                group->profiles[direction][i]->class->destroy(group->profiles[direction][i]);
    free(group);
}

static const struct eps__profile_class profile_class = {
    .log_delta = log_delta, .approximate = approximate, .guess = guess, .refine = refine, .destroy = destroy};

/* ------------------------------------------------------------ the accountant */

static bool serves(const struct eps__setting *setting, struct eps_error *error)
{
    struct apart apart;
    if (!eps__sampling_random(&setting->job->mechanism))
        return eps__scheme_decline(error, "group_privacy", eps__scheme_random);
    if (!eps__adjacency_known(error, "group_privacy", 1u << EPS_ADJACENCY_REPLACE_ONE,
                              setting->job->mechanism.adjacency))
        return false;
    take_apart(&apart, setting);
    return apart.len > 0 ||
           eps__decline(error, "/sampling",
                        "group_privacy needs an amplified bound for zero_out, and none is known here: use gaussian");
}

static bool exact(const struct eps__setting *setting)
{
    (void)setting;
    return false;
}

static void assume(struct eps__sentences *list, const struct eps__setting *setting, const struct eps_result *result)
{
    struct apart apart;
    take_apart(&apart, setting);
    for (size_t i = 0; i < apart.len; i++)
        if (apart.accountants[i]->assume)
            apart.accountants[i]->assume(list, &apart.setting, result);
    eps__sentence(list, "replacing an example is bounded as removing it and then adding another one");
}

static void cost(const struct eps__setting *setting, double *operations, double *bytes)
{
    struct apart apart;
    take_apart(&apart, setting);
    *operations = WORK_SPLITS;
    *bytes = 0;
    for (size_t i = 0; i < apart.len; i++) {
        double own_operations, own_bytes;
        apart.accountants[i]->cost(&apart.setting, &own_operations, &own_bytes);
        *operations += WORK * own_operations;
        *bytes += EPS_DIRECTIONS * own_bytes;
    }
}

static enum eps_status open_profile(const struct eps__setting *setting, double sigma,
                                    const struct eps__accuracy *accuracy, struct eps__profile **profile,
                                    struct eps_error *error)
{
    struct group_profile *group = calloc(1, sizeof *group);
    if (!group)
        return eps__error(error, EPS_NO_MEMORY, "", "out of memory");
    group->base.class = &profile_class;
    group->last[EPS_REMOVE].eps = group->last[EPS_ADD].eps = NAN;
    take_apart(&group->apart, setting);
    assert(group->apart.len > 0); /* or serves() declines */
    /* Each step's share of delta is not known in advance. */
    const struct eps__accuracy own = {EPS_SOLVE_DELTA, accuracy->tolerance, NAN};
    enum eps_status status = EPS_OK, failure = EPS_OK;
    size_t opened = 0;
    for (enum eps_direction direction = 0; direction < EPS_DIRECTIONS; direction++)
        for (size_t i = 0; i < group->apart.len && status == EPS_OK; i++) {
            struct eps__profile **at = &group->profiles[direction][i];
            status = group->apart.accountants[i]->open(&group->apart.setting, sigma, &own, at, error);
            opened += status == EPS_OK;
            if (is_passing(status)) {
                *at = NULL;
                failure = status;
                status = EPS_OK;
            }
        }
    if (status != EPS_OK || opened == 0) {
        destroy(&group->base);
        return status != EPS_OK ? status : failure;
    }
    *profile = &group->base;
    return EPS_OK;
}

static double least_sigma(const struct eps__setting *setting)
{
    struct apart apart;
    double least = INFINITY;
    take_apart(&apart, setting);
    for (size_t i = 0; i < apart.len; i++)
        least = fmin(least, apart.accountants[i]->least_sigma(&apart.setting));
    return least;
}

const struct eps__accountant eps__accountant_group_privacy = {
    .method = EPS_ACCOUNTANT_GROUP_PRIVACY,
    .name = "group_privacy",
    .curves = true,
    .amplifies = true,
    .assume = assume,
    .serves = serves,
    .exact = exact,
    .cost = cost,
    .open = open_profile,
    .least_sigma = least_sigma,
};
