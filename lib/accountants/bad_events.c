/*
 * A search for the best delta_1 with fast unproven compositions.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/bad_events.h"

#include <math.h>

#include "lib/base/limits.h"
#include "lib/numerics/bound.h"

enum { SEARCHES = 7 };

#define LOG_SHARE_LEAST (-9.2)  /* 1e-4 */
#define LOG_SHARE_MOST (-0.105) /* 0.9 */
#define LOG_HALF (-M_LN2)

struct choice {
    struct eps__bad_events *chosen;
    const struct eps__bad_events_ask *ask;
    double share, log_delta, eps, tolerance;
};

/* The objective, which is minimized: approximately epsilon if delta is given, else approximately ln delta. */
static enum eps_status trial(const struct choice *choice, double log_delta1, double *value)
{
    const struct eps__bad_events_ask *ask = choice->ask;
    choice->chosen->log_delta1 = log_delta1;
    enum eps_status status = ask->compose(ask->user);
    if (status != EPS_OK)
        return status;
    if (isnan(choice->log_delta))
        *value = eps__log_add(log_delta1, ask->log_delta2(ask->user, choice->eps));
    else
        *value = ask->epsilon(ask->user, choice->log_delta + log1p(-exp(log_delta1 - choice->log_delta)));
    return EPS_OK;
}

/* A pattern search for the best ln delta_1 in [low, high], starting at `at`: the step is halved when neither neighbour
 * is better. */
static enum eps_status descend(const struct choice *choice, double at, double low, double high, double *best,
                               double *best_value)
{
    double step = 1.4;
    enum eps_status status = trial(choice, at, best_value);
    *best = at;
    for (int i = 0; i < SEARCHES && status == EPS_OK && step > 0.3; i++) {
        bool better = false;
        for (int way = -1; way <= 1 && !better && status == EPS_OK; way += 2) {
            double value, tried = fmin(fmax(*best + way * step, low), high);
            if (tried == *best)
                continue;
            status = trial(choice, tried, &value);
            if (status == EPS_OK && value < *best_value) {
                *best = tried;
                *best_value = value;
                better = true;
            }
        }
        if (!better)
            step *= 0.5;
    }
    return status;
}

/* delta is given: delta_1 is a share of it. */
static enum eps_status choose_of_delta(const struct choice *choice)
{
    struct eps__bad_events *chosen = choice->chosen;
    double log_delta = choice->log_delta, half = INFINITY, best = log_delta + LOG_HALF, best_value = INFINITY;
    chosen->log_delta = log_delta;
    if (!isnan(choice->share)) {
        chosen->log_delta1 = log_delta + log(choice->share);
        return trial(choice, chosen->log_delta1, &chosen->eps);
    }
    enum eps_status status =
        descend(choice, log_delta - 2, log_delta + LOG_SHARE_LEAST, log_delta + LOG_SHARE_MOST, &best, &best_value);
    if (status == EPS_OK)
        status = trial(choice, log_delta + LOG_HALF, &half);
    /* The fast answers have an error of their own: a smaller difference means nothing. */
    bool better = best_value < half - 2 * choice->tolerance * fmax(half, 1e-6);
    chosen->log_delta1 = better ? best : log_delta + LOG_HALF;
    chosen->eps = better ? best_value : half;
    return status;
}

/* delta is the unknown: minimizes delta_1 + delta_2 at the given epsilon, or gives delta_1 the requested share. */
static enum eps_status choose_at_epsilon(const struct choice *choice)
{
    struct eps__bad_events *chosen = choice->chosen;
    const struct eps__bad_events_ask *ask = choice->ask;
    bool given = !isnan(choice->share);
    double odds = given ? choice->share / (1 - choice->share) : 0.2, at = EPS__LOG_DELTA_ABOUT, value = 0, best;
    enum eps_status status = EPS_OK;
    chosen->eps = choice->eps;
    chosen->log_delta = EPS__LOG_DELTA_ABOUT;
    /* delta_2 falls slowly as delta_1 rises, so a fixed-point iteration finds where their ratio is `odds`. */
    for (int i = 0; i < 6 && status == EPS_OK; i++) {
        status = trial(choice, at, &value);
        if (status != EPS_OK)
            return status;
        double next = fmin(fmax(ask->log_delta2(ask->user, choice->eps) + log(odds), EPS__LOG_DELTA_LEAST), -1e-3);
        bool close = fabs(next - at) < (given ? 1e-3 : 0.5);
        at = next;
        if (close)
            break;
    }
    best = at;
    if (!given)
        status = descend(choice, at, EPS__LOG_DELTA_LEAST, -1e-3, &best, &value);
    chosen->log_delta1 = best;
    chosen->log_delta = fmin(value, 0);
    return status;
}

enum eps_status eps__bad_events_choose(struct eps__bad_events *chosen, const struct eps__bad_events_ask *ask,
                                       double share, double log_delta, double eps, double tolerance)
{
    const struct choice choice = {chosen, ask, share, log_delta, eps, tolerance};
    return isnan(log_delta) ? choose_at_epsilon(&choice) : choose_of_delta(&choice);
}
