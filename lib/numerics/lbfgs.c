/*
 * The search keeps its history in a ring. If the direction is not a descent direction, or the line search finds no step
 * along it, the ring is emptied and the iteration is repeated with the steepest descent before the search gives up. A
 * step that changes the value by less than its rounding is not taken, however steep the gradient.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/numerics/lbfgs.h"

#include <cblas.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The constants of the weak Wolfe conditions: sufficient decrease (Armijo) and curvature. */
static const double decrease_share = 1e-4, slope_share = 0.9;
enum { LINE_STEPS = 60, RECENT = 5 };

struct search {
    size_t n, memory, kept, newest;
    double *steps, *changes, *curvature; /* rings of x_{k+1} - x_k, of g_{k+1} - g_k and of their inner products */
    double *share;                       /* scratch space of two_loops() */
    double *gradient, *direction, *trial, *trial_gradient;
    eps__objective_fn *objective;
    void *user;
};

static double dot(const double *a, const double *b, size_t n)
{
    return cblas_ddot((blasint)n, a, 1, b, 1);
}

static void axpy(double *y, double a, const double *x, size_t n)
{
    cblas_daxpy((blasint)n, a, x, 1, y, 1);
}

static size_t slot(const struct search *s, size_t age)
{
    return (s->newest + s->memory - age) % s->memory;
}

/* The two-loop recursion: direction = -H gradient, where H approximates the inverse Hessian from the pairs kept. */
static void two_loops(struct search *s)
{
    size_t n = s->n;
    for (size_t i = 0; i < n; i++)
        s->direction[i] = -s->gradient[i];
    for (size_t age = 0; age < s->kept; age++) {
        size_t at = slot(s, age);
        s->share[at] = dot(s->steps + at * n, s->direction, n) / s->curvature[at];
        axpy(s->direction, -s->share[at], s->changes + at * n, n);
    }
    if (s->kept) {
        const double *change = s->changes + s->newest * n;
        cblas_dscal((blasint)n, s->curvature[s->newest] / dot(change, change, n), s->direction, 1);
    }
    for (size_t age = s->kept; age-- > 0;) {
        size_t at = slot(s, age);
        double back = dot(s->changes + at * n, s->direction, n) / s->curvature[at];
        axpy(s->direction, s->share[at] - back, s->steps + at * n, n);
    }
}

/* Keeps the pair of the step from x to the trial point if the curvature along it is positive. */
static void remember(struct search *s, const double *x)
{
    size_t n = s->n, at = (s->newest + 1) % s->memory;
    double *step = s->steps + at * n, *change = s->changes + at * n;
    for (size_t i = 0; i < n; i++) {
        step[i] = s->trial[i] - x[i];
        change[i] = s->trial_gradient[i] - s->gradient[i];
    }
    double curvature = dot(step, change, n);
    if (!(curvature > 1e-14 * sqrt(dot(step, step, n) * dot(change, change, n))))
        return;
    s->curvature[at] = curvature;
    s->newest = at;
    s->kept += s->kept < s->memory;
}

static bool evaluate(struct search *s, double *value, double *slope, const double *x, double t)
{
    memcpy(s->trial, x, s->n * sizeof *x);
    axpy(s->trial, t, s->direction, s->n);
    if (!s->objective(s->user, value, s->trial_gradient, s->trial))
        return false;
    *slope = dot(s->trial_gradient, s->direction, s->n);
    if (!isfinite(*value) || !isfinite(*slope))
        *value = INFINITY;
    return true;
}

/* The minimiser of the cubic through two values and slopes, moved at least 10% of the width into the bracket. The
 * midpoint if `high` is outside the domain. */
static double inside(double low, double low_value, double low_slope, double high, double high_value, double high_slope)
{
    double width = high - low, t = low + width / 2;
    if (isfinite(high_value)) {
        double a = low_slope + high_slope - 3 * (high_value - low_value) / width, b = a * a - low_slope * high_slope;
        double root = b > 0 ? sqrt(b) : 0,
               at = high - width * (high_slope + root - a) / (high_slope - low_slope + 2 * root);
        if (b > 0 && isfinite(at))
            t = at;
    }
    return fmin(fmax(t, low + 0.1 * width), high - 0.1 * width);
}

enum line { LINE_FOUND, LINE_NOTHING, LINE_STOPPED };

/* Whether a difference is below the rounding of the value. */
static bool is_invisible(double difference, double value)
{
    return fabs(difference) <= DBL_EPSILON / 2 * fabs(value);
}

/* Finds a step along the direction that satisfies the weak Wolfe conditions and leaves the point in s->trial. If none
 * is found, takes the longest step seen that satisfies the sufficient decrease condition. A step must lower the
 * value. */
static enum line line_search(struct search *s, double *value, const double *x, double start, double slope, double t)
{
    double low = 0, low_value = start, low_slope = slope, high = 0, high_value = 0, high_slope = 0, rise;
    for (int step = 0; step < LINE_STEPS; step++) {
        if (!evaluate(s, value, &rise, x, t))
            return LINE_STOPPED;
        if (!(*value <= start + decrease_share * t * slope) || *value >= start) {
            high = t;
            high_value = *value;
            high_slope = rise;
        } else if (rise < slope_share * slope) {
            low = t;
            low_value = *value;
            low_slope = rise;
        } else {
            return LINE_FOUND;
        }
        if (high > 0 && (high - low <= 1e-12 * high || (low == 0 && is_invisible(high * slope, start))))
            break;
        t = high > 0 ? inside(low, low_value, low_slope, high, high_value, high_slope) : 4 * t;
    }
    if (low == 0)
        return LINE_NOTHING;
    return evaluate(s, value, &rise, x, low) ? LINE_FOUND : LINE_STOPPED;
}

static bool allocate(struct search *s)
{
    size_t n = s->n, m = s->memory;
    double *all = calloc(2 * m * n + 2 * m + 4 * n, sizeof *all);
    if (!all)
        return false;
    s->steps = all;
    s->changes = all + m * n;
    s->curvature = all + 2 * m * n;
    s->share = s->curvature + m;
    s->gradient = s->share + m;
    s->direction = s->gradient + n;
    s->trial = s->direction + n;
    s->trial_gradient = s->trial + n;
    return true;
}

/* One iteration from x, where the value is *value. Out: *expected, the decrease that the quadratic model predicts. */
static enum line iterate(struct search *s, double *x, double *value, double *expected)
{
    size_t n = s->n;
    for (;;) {
        two_loops(s);
        double slope = dot(s->gradient, s->direction, n), found = *value;
        *expected = -slope / 2;
        bool steepest = s->kept == 0;
        enum line line = LINE_NOTHING;
        if (slope < 0) {
            double first = steepest ? fmin(1, 1 / sqrt(dot(s->gradient, s->gradient, n))) : 1;
            line = line_search(s, &found, x, *value, slope, first);
        }
        if (line == LINE_FOUND) {
            remember(s, x);
            memcpy(x, s->trial, n * sizeof *x);
            memcpy(s->gradient, s->trial_gradient, n * sizeof *x);
            *value = found;
        }
        if (line != LINE_NOTHING || steepest)
            return line;
        s->kept = 0;
    }
}

static enum eps__lbfgs_end descend(struct search *s, const struct eps__lbfgs *options, double *x, double *value,
                                   size_t *iterations)
{
    size_t most = options->max_iterations ? options->max_iterations : 1000;
    double recent[RECENT], expected;
    if (!s->objective(s->user, value, s->gradient, x))
        return EPS__LBFGS_STOPPED;
    if (!isfinite(*value))
        return EPS__LBFGS_DOMAIN;
    for (size_t i = 0; i < RECENT; i++)
        recent[i] = INFINITY;
    for (*iterations = 0; *iterations < most; ++*iterations) {
        if (dot(s->gradient, s->gradient, s->n) == 0)
            return EPS__LBFGS_CONVERGED;
        double before = *value;
        enum line line = iterate(s, x, value, &expected);
        if (line == LINE_STOPPED)
            return EPS__LBFGS_STOPPED;
        bool little = expected <= options->tolerance || is_invisible(expected, *value);
        if (line == LINE_NOTHING)
            return little ? EPS__LBFGS_CONVERGED : EPS__LBFGS_STALLED;
        recent[*iterations % RECENT] = before - *value;
        double gained = 0;
        for (size_t i = 0; i < RECENT; i++)
            gained += recent[i];
        /* `little` is about the model before the last step, which stands in for the one after it: that one predicts no
         * more. */
        bool nothing = is_invisible(gained / 4, *value);
        if (nothing || (gained <= options->tolerance && little)) {
            ++*iterations;
            return little ? EPS__LBFGS_CONVERGED : EPS__LBFGS_STALLED;
        }
    }
    return EPS__LBFGS_LIMIT;
}

enum eps__lbfgs_end eps__lbfgs_minimise(const struct eps__lbfgs *options, double *x, double *value, size_t *iterations,
                                        size_t n, eps__objective_fn *objective, void *user)
{
    struct search s = {.n = n, .memory = options->memory ? options->memory : 10, .objective = objective, .user = user};
    *iterations = 0;
    if (!allocate(&s))
        return EPS__LBFGS_NO_MEMORY;
    enum eps__lbfgs_end end = descend(&s, options, x, value, iterations);
    free(s.steps);
    return end;
}
