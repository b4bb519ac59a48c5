/*
 * Privacy curves: 201 points, equally spaced from epsilon 0 to the epsilon at which delta falls below 1e-15 (to 1 if it
 * is below from the start). Each point has, in each direction, the least upper bound of the serving accountants, as
 * accurate as the answer to a job that asks for delta there, and the lower bound of the larger direction.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/solve/curve.h"

#include <math.h>
#include <stdlib.h>

#include "lib/base/error.h"

enum { POINTS = 201 };

#define END_DELTA 1e-15       /* where a curve ends */
#define LOG_LEAST log(1e-300) /* smaller deltas are reported as 1e-300 above and 0 below */
#define IN_VAIN_MAX 3         /* after this many refinements that do not narrow the bracket, refining stops */
#define FLAT_END 1            /* last epsilon of a curve that is below END_DELTA everywhere */

/* The least tolerance of a curve that accompanies another answer: every point has its own bracket, and a plot needs
 * no more. A curve that is asked for by a job keeps the job's tolerance. */
#define EXTRA_TOLERANCE 1e-2

/* The bounds of one accountant in one direction at every point. */
struct trace {
    struct eps__profile *profile;
    const struct eps__setting *setting;
    enum eps_direction direction;
    double own_end; /* the epsilon from which the upper bound stays below END_DELTA, or near its floor */
    double end;     /* epsilon of the last point of the curve */
    double tolerance;
    double upper[POINTS], lower[POINTS];
    enum eps_status status;
    struct eps_error error;
};

static double bound_at(struct trace *trace, enum eps__estimate estimate, double eps)
{
    double log_delta = NAN;
    if (trace->status == EPS_OK)
        trace->status = eps__profile_log_delta(trace->setting, trace->profile, trace->direction, estimate, eps,
                                               &log_delta, &trace->error);
    return trace->status == EPS_OK ? log_delta : NAN;
}

/* Finds own_end to a few per cent: the epsilon from which the upper bound stays below END_DELTA, or within 1% of the
 * part of delta that is spent on bad events. */
static void find_end(void *arg, size_t index)
{
    struct trace *trace = &((struct trace *)arg)[index];
    const struct eps__profile_class *class = trace->profile->class;
    double end = log(END_DELTA), eps = 0;
    trace->status = class->guess(trace->profile, trace->direction, end, &eps);
    if (class->bad_event_share)
        end = fmax(end, log(1.01 * class->bad_event_share(trace->profile, trace->direction, 0)));
    for (int i = 0; i < 60 && bound_at(trace, EPS__UPPER, eps) > end; i++)
        eps = eps * 1.02 + 1e-9;
    trace->own_end = eps;
}

/* Computes both bounds at one point. If they are further apart than the tolerance, drops what was computed for a
 * neighbouring point and computes them for this one, as for a job. */
static void bound_point(struct trace *trace, size_t i, double eps, size_t *in_vain)
{
    double upper = bound_at(trace, EPS__UPPER, eps), lower = bound_at(trace, EPS__LOWER, eps);
    trace->upper[i] = upper;
    trace->lower[i] = lower;
    if (trace->status != EPS_OK || !(upper - lower > log1p(trace->tolerance)) || upper < LOG_LEAST ||
        *in_vain >= IN_VAIN_MAX || !trace->profile->class->refine(trace->profile, trace->direction, 1))
        return;
    trace->upper[i] = fmin(bound_at(trace, EPS__UPPER, eps), upper);
    trace->lower[i] = fmax(bound_at(trace, EPS__LOWER, eps), lower);
    *in_vain = trace->upper[i] - trace->lower[i] < 0.7 * (upper - lower) ? 0 : *in_vain + 1;
}

/* Computes all points from the last to the first, so that what is computed for one point serves its neighbours.
 * Beyond the trace's own end a point may be out of reach; the bound of the point before it holds there, because
 * delta falls with epsilon. */
static void follow(void *arg, size_t index)
{
    struct trace *trace = &((struct trace *)arg)[index];
    size_t in_vain = 0;
    for (size_t i = POINTS; i-- > 0 && trace->status == EPS_OK;) {
        double eps = trace->end * (double)i / (POINTS - 1);
        bound_point(trace, i, eps, &in_vain);
        if (trace->status == EPS_TOO_COSTLY && eps > trace->own_end) {
            trace->status = EPS_OK;
            trace->upper[i] = 0;
            trace->lower[i] = -INFINITY;
        }
    }
    for (size_t i = 1; i < POINTS; i++)
        trace->upper[i] = fmin(trace->upper[i], trace->upper[i - 1]);
}

static double as_delta(double log_delta, bool upper)
{
    if (log_delta < LOG_LEAST)
        return upper ? 1e-300 : 0;
    return upper ? fmin(eps__exp_bound(EPS__UPPER, log_delta, 0), 1) : eps__exp_bound(EPS__LOWER, log_delta, 0);
}

/* Combines the accountants at point i. traces[2 k + direction] belongs to accountant k. */
static void merge(struct eps_curve_point *point, const struct trace *traces, size_t accountants, size_t i,
                  bool complete)
{
    double upper[EPS_DIRECTIONS], lower[EPS_DIRECTIONS];
    for (size_t direction = 0; direction < EPS_DIRECTIONS; direction++) {
        size_t best = direction;
        for (size_t k = 1; k < accountants; k++)
            if (traces[2 * k + direction].upper[i] < traces[best].upper[i])
                best = 2 * k + direction;
        upper[direction] = as_delta(traces[best].upper[i], true);
        /* As in solve.c: only the least of the lower bounds is certain. */
        double least = traces[direction].lower[i];
        for (size_t k = 1; k < accountants; k++)
            least = fmin(least, traces[2 * k + direction].lower[i]);
        lower[direction] = complete ? as_delta(least, false) : 0;
    }
    point->remove = upper[EPS_REMOVE];
    point->add = upper[EPS_ADD];
    point->delta = fmax(point->remove, point->add);
    point->lower = lower[point->add > point->remove ? EPS_ADD : EPS_REMOVE];
}

static enum eps_status first_failure(const struct trace *traces, size_t len, struct eps_error *error)
{
    for (size_t i = 0; i < len; i++)
        if (traces[i].status != EPS_OK)
            return eps__error(error, traces[i].status, traces[i].error.pointer, "%s",
                              traces[i].error.message[0] ? traces[i].error.message : "the curve was not finished");
    return EPS_OK;
}

/* Keeps the accountants that have a profile. monte_carlo has none, and so no curve. Returns their number. */
static size_t with_profiles(const struct eps__accountant **kept, const struct eps__accountant *const *accountants,
                            size_t len)
{
    size_t kept_len = 0;
    for (size_t i = 0; i < len; i++)
        if (accountants[i]->open)
            kept[kept_len++] = accountants[i];
    return kept_len;
}

static enum eps_status refuse(struct eps_error *error, const struct eps__accountant *accountant)
{
    char names[120];
    eps__accountant_names_curves(names, sizeof names);
    return eps__error(error, EPS_UNSUPPORTED, "/accountant/method", "%s has no privacy curve; use one of %s",
                      accountant->name, names);
}

enum eps_status eps__curve(struct eps_result *result, struct eps_error *error, const struct eps__setting *setting,
                           const struct eps__accountant *const *serving, size_t serving_len, bool complete,
                           double tolerance)
{
    const struct eps__accountant *accountants[EPS__ACCOUNTANTS_MAX];
    size_t len = with_profiles(accountants, serving, serving_len);
    if (len == 0)
        return refuse(error, serving[0]);
    struct eps__accuracy accuracy = {EPS_SOLVE_CURVE, tolerance, NAN};
    size_t traces_len = EPS_DIRECTIONS * len;
    enum eps_status status = EPS_NO_MEMORY;
    struct trace *traces = calloc(traces_len, sizeof *traces);
    result->curve = calloc(POINTS, sizeof *result->curve);
    if (!traces || !result->curve)
        goto out;
    for (size_t i = 0; i < traces_len; i++) {
        traces[i].direction = (enum eps_direction)(i % EPS_DIRECTIONS);
        traces[i].setting = setting;
        traces[i].tolerance = tolerance;
        /* Each trace has its own profile, because traces may run concurrently. */
        status = accountants[i / EPS_DIRECTIONS]->open(setting, result->noise_multiplier, &accuracy, &traces[i].profile,
                                                       error);
        if (status != EPS_OK)
            goto out;
    }
    eps__for_all(setting->context, traces_len, find_end, traces);
    status = first_failure(traces, traces_len, error);
    if (status != EPS_OK)
        goto out;
    double end[EPS_DIRECTIONS] = {INFINITY, INFINITY};
    for (size_t i = 0; i < traces_len; i++)
        end[i % EPS_DIRECTIONS] = fmin(end[i % EPS_DIRECTIONS], traces[i].own_end);
    double last = fmax(end[EPS_REMOVE], end[EPS_ADD]);
    for (size_t i = 0; i < traces_len; i++)
        traces[i].end = last > 0 ? last : FLAT_END;
    if (!isfinite(last * (POINTS - 1))) {
        status = eps__error(error, EPS_UNATTAINABLE, "/noise_multiplier",
                            "delta does not fall below 1e-15 at any representable epsilon; raise the noise multiplier");
        goto out;
    }
    eps__for_all(setting->context, traces_len, follow, traces);
    status = first_failure(traces, traces_len, error);
    if (status != EPS_OK)
        goto out;
    for (size_t i = 0; i < POINTS; i++) {
        result->curve[i].epsilon = traces[0].end * (double)i / (POINTS - 1);
        merge(&result->curve[i], traces, len, i, complete);
    }
    result->curve_len = POINTS;
    result->accountant = accountants[0]->method;
    for (size_t direction = 0; direction < EPS_DIRECTIONS; direction++)
        result->directions[direction] = (struct eps_candidate){.accountant = accountants[0]->method,
                                                               .direction = (enum eps_direction)direction,
                                                               .value = NAN,
                                                               .bad_event_share = NAN};
out:
    for (size_t i = 0; traces && i < traces_len; i++)
        if (traces[i].profile)
            traces[i].profile->class->destroy(traces[i].profile);
    free(traces);
    /* functions without an error argument set only the status */
    if (status != EPS_OK && error && error->status != status)
        eps__error(error, status, "", status == EPS_NO_MEMORY ? "out of memory" : "the curve was not finished");
    return status;
}

enum eps_status eps__curve_points(struct eps_curve_point **points, size_t *len, struct eps_error *error,
                                  const struct eps__setting *setting, const struct eps__accountant *const *accountants,
                                  size_t accountants_len, double noise_multiplier)
{
    struct eps_result result = {.noise_multiplier = noise_multiplier};
    double tolerance = fmax(setting->job->query.accountant.tolerance, EXTRA_TOLERANCE);
    enum eps_status status = eps__curve(&result, error, setting, accountants, accountants_len, true, tolerance);
    if (status != EPS_OK) {
        free(result.curve);
        return status;
    }
    *points = result.curve;
    *len = result.curve_len;
    return EPS_OK;
}
