/*
 * Maximises the dual: limited-memory BFGS with lower bounds on some coordinates, by projection (Bertsekas' two-metric
 * method). A coordinate at its bound whose gradient points outwards is left out of the direction, and the step is cut
 * back to the bounds. lib/numerics/lbfgs.c has neither bounds nor a diagonal scale. With half a million to eight
 * million coordinates, the history is kept in single precision, which suffices because it only shapes the direction.
 * One evaluation takes seconds, so the line search only backtracks.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdlib.h>
#include <string.h>

#include "lib/strategy/optimise/optimal.h"

enum { MEMORY = 6, HALVINGS = 40 };

/* The Armijo constant: the least gain of a step, as a fraction of the gain that the gradient predicts. */
static const double sufficient = 1e-4;

/* A step keeps at least this fraction of each positive coordinate. */
static const double kept_part = 0.2;

bool eps__optimal_ascent_init(struct eps__optimal_ascent *a, struct eps__optimal_model *model)
{
    size_t size = model->size;
    *a = (struct eps__optimal_ascent){.model = model,
                                      .x = calloc(size, sizeof(double)),
                                      .gradient = malloc(size * sizeof(double)),
                                      .scale = malloc(size * sizeof(double)),
                                      .direction = malloc(size * sizeof(double)),
                                      .trial = malloc(size * sizeof(double)),
                                      .trial_gradient = malloc(size * sizeof(double)),
                                      .steps = malloc(MEMORY * size * sizeof(float)),
                                      .changes = malloc(MEMORY * size * sizeof(float)),
                                      .products = calloc(MEMORY, sizeof(double))};
    if (a->x && a->gradient && a->scale && a->direction && a->trial && a->trial_gradient && a->steps && a->changes &&
        a->products)
        return true;
    eps__optimal_ascent_clear(a);
    return false;
}

void eps__optimal_ascent_clear(struct eps__optimal_ascent *a)
{
    free(a->x);
    free(a->gradient);
    free(a->scale);
    free(a->direction);
    free(a->trial);
    free(a->trial_gradient);
    free(a->steps);
    free(a->changes);
    free(a->products);
    *a = (struct eps__optimal_ascent){0};
}

bool eps__optimal_ascent_begin(struct eps__optimal_ascent *a, double value)
{
    a->value = value;
    a->kept = 0;
    return eps__optimal_gradient(a->model, a->gradient, a->scale, a->x);
}

/* Whether coordinate i may move: it is not held at its bound. */
static bool is_free(const struct eps__optimal_ascent *a, size_t i)
{
    const struct eps__optimal_model *m = a->model;
    return i < m->positive || i >= m->positive + m->bounded || a->x[i] > 0 || a->gradient[i] > 0;
}

static double inner(const struct eps__optimal_ascent *a, const float *u, const double *v)
{
    double sum = 0;
    for (size_t i = 0; i < a->model->size; i++)
        sum += (double)u[i] * v[i];
    return sum;
}

static void add(const struct eps__optimal_ascent *a, double *v, double factor, const float *u)
{
    for (size_t i = 0; i < a->model->size; i++)
        v[i] += factor * (double)u[i];
}

/* The scale of the inverse Hessian from the newest pair, relative to the diagonal approximation. */
static double newest_scale(const struct eps__optimal_ascent *a)
{
    const float *change = a->changes + a->newest * a->model->size;
    double sum = 0;
    for (size_t i = 0; i < a->model->size; i++)
        if (is_free(a, i))
            sum += (double)change[i] * (double)change[i] * a->scale[i];
    return sum > 0 ? a->products[a->newest] / sum : 1;
}

/* The two-loop recursion of L-BFGS over the free coordinates; returns the slope along the direction. */
static double find_direction(struct eps__optimal_ascent *a)
{
    size_t size = a->model->size;
    double *d = a->direction, factors[MEMORY], slope = 0;
    for (size_t i = 0; i < size; i++)
        d[i] = is_free(a, i) ? a->gradient[i] : 0;
    for (size_t back = 0; back < a->kept; back++) {
        size_t pair = (a->newest + MEMORY - back) % MEMORY;
        factors[back] = inner(a, a->steps + pair * size, d) / a->products[pair];
        add(a, d, -factors[back], a->changes + pair * size);
    }
    double scale = a->kept ? newest_scale(a) : 1;
    for (size_t i = 0; i < size; i++)
        d[i] = is_free(a, i) ? d[i] * a->scale[i] * scale : 0;
    for (size_t back = a->kept; back-- > 0;) {
        size_t pair = (a->newest + MEMORY - back) % MEMORY;
        double factor = inner(a, a->changes + pair * size, d) / a->products[pair];
        add(a, d, factors[back] - factor, a->steps + pair * size);
    }
    for (size_t i = 0; i < size; i++) {
        if (!is_free(a, i))
            d[i] = 0;
        slope += d[i] * a->gradient[i];
    }
    return slope;
}

/* Sets the trial point a step away, cut back to the bounds; returns the gain that the gradient predicts. */
static double place_trial(struct eps__optimal_ascent *a, double step)
{
    const struct eps__optimal_model *m = a->model;
    double promised = 0;
    for (size_t i = 0; i < m->size; i++) {
        double moved = a->x[i] + step * a->direction[i];
        if (i < m->positive)
            moved = fmax(moved, kept_part * a->x[i]);
        else if (i < m->positive + m->bounded)
            moved = fmax(moved, 0);
        a->trial[i] = moved;
        promised += a->gradient[i] * (a->trial[i] - a->x[i]);
    }
    return promised;
}

/* Stores the pair if the curvature along it is positive, and moves to the trial point. */
static void accept(struct eps__optimal_ascent *a, double value)
{
    size_t size = a->model->size, slot = a->kept ? (a->newest + 1) % MEMORY : 0;
    float *step = a->steps + slot * size, *change = a->changes + slot * size;
    double product = 0, steps = 0, changes = 0;
    /* Both lengths are measured with the scale at the old point. */
    for (size_t i = 0; i < size; i++) {
        step[i] = (float)(a->trial[i] - a->x[i]);
        change[i] = (float)(a->gradient[i] - a->trial_gradient[i]);
        product += (double)step[i] * (double)change[i];
        steps += (double)step[i] * (double)step[i] / a->scale[i];
        changes += (double)change[i] * (double)change[i] * a->scale[i];
    }
    if (product > 1e-10 * sqrt(steps * changes)) {
        a->products[slot] = product;
        a->newest = slot;
        a->kept += a->kept < MEMORY;
    }
    double *swap = a->x;
    a->x = a->trial;
    a->trial = swap;
    swap = a->gradient;
    a->gradient = a->trial_gradient;
    a->trial_gradient = swap;
    a->value = value;
}

enum eps__optimal_move eps__optimal_ascend(struct eps__optimal_ascent *a, enum eps_status *status,
                                           struct eps_error *error)
{
    struct eps__optimal_model *m = a->model;
    for (;;) {
        double slope = find_direction(a), step = 1;
        for (size_t halving = 0; slope > 0 && halving < HALVINGS; halving++, step /= 2) {
            if ((*status = eps__optimal_poll(m->o, error)))
                return EPS__OPTIMAL_STOPPED;
            double promised = place_trial(a, step), value = eps__optimal_value(m, a->trial);
            a->evaluations += value > -INFINITY;
            if (m->point.no_memory || eps__stopped(m->o->work)) {
                *status = eps__optimal_failed(m->o, error);
                return EPS__OPTIMAL_STOPPED;
            }
            if (!(value >= a->value + sufficient * promised) || !(promised > 0))
                continue;
            if (!eps__optimal_gradient(m, a->trial_gradient, a->direction, a->trial)) {
                *status = eps__optimal_failed(m->o, error);
                return EPS__OPTIMAL_STOPPED;
            }
            accept(a, value);
            memcpy(a->scale, a->direction, m->size * sizeof *a->scale);
            return EPS__OPTIMAL_MOVED;
        }
        if (!a->kept)
            break;
        a->kept = 0;
    }
    eps__optimal_value(m, a->x);
    return EPS__OPTIMAL_STUCK;
}
