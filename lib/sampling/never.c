/*
 * The privacy of sampling alone, without noise: an example that never participates makes no difference. If p is small
 * compared with delta, or epsilon large compared with n p, this bound is the best one, and accountants that work with
 * the noise do not find it (S3).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>

#include "lib/numerics/normal.h"
#include "lib/sampling/pairs.h"
#include "lib/sampling/sampling.h"
#include "lib/sampling/scheme.h"
#include "lib/sampling/truncation.h"

/* Bounds on the probability that an example makes a difference to one batch. */
static struct eps__interval takes_part(const struct eps_mechanism *mechanism)
{
    double p = eps__sampling_probability(mechanism);
    struct eps__interval most = {0, 0};
    uint64_t sizes[2];
    if (!mechanism->sampling.truncation)
        return (struct eps__interval){p, p};
    for (size_t i = 0, len = eps__sampling_part_sizes(mechanism, sizes); i < len; i++) {
        struct eps__truncation t = eps__truncate(sizes[i], p, mechanism->sampling.max_batch_size);
        most.lower = fmax(most.lower, eps__lower(t.open.lower * p + t.full.lower * t.q.lower, 4));
        most.upper = fmax(most.upper, eps__raise(t.open.upper * p + t.full.upper * t.q.upper, 4));
    }
    most.upper = fmin(most.upper, p);
    return (struct eps__interval){fmin(most.lower, most.upper), most.upper};
}

struct eps__interval eps__sampling_log_never(const struct eps_mechanism *mechanism)
{
    const struct eps_sampling *sampling = &mechanism->sampling;
    struct eps__interval p = takes_part(mechanism);
    size_t groups = eps__sampling_groups(mechanism), rounds = (mechanism->n - 1) / groups + 1;
    double trials = (double)rounds * (double)sampling->examples_per_user;
    return (struct eps__interval){eps__lower(trials * log1p(-p.upper), 8), eps__raise(trials * log1p(-p.lower), 8)};
}

/* Independent rounds, or a minimum separation: sitting out only raises the probability of absence. */
static bool is_tossed(const struct eps_mechanism *mechanism)
{
    bool min_separation = eps__scheme_of(mechanism)->min_separation && !mechanism->sampling.truncation;
    return eps__sampling_independent_rounds(mechanism) || min_separation;
}

/* Whether only noise is released without the example. It is not if another example takes its place. */
static bool absent_is_noise(const struct eps_mechanism *mechanism)
{
    return !mechanism->sampling.truncation && EPS__AGAINST_NOISE >> mechanism->adjacency & 1;
}

/* ln(1 - e^x), x <= 0. */
static double log_rest(double x)
{
    return x < 0 ? log(-expm1(x)) : -INFINITY;
}

static double log_rest_up(double x)
{
    double value = log_rest(x);
    return fmin(eps__shift(EPS__UPPER, value, 8 * EPS__UNIT_ROUNDOFF * (1 + fabs(value))), 0);
}

static double log_rest_down(double x)
{
    double value = log_rest(x);
    return eps__shift(EPS__LOWER, value, 8 * EPS__UNIT_ROUNDOFF * (1 + fabs(value)));
}

struct eps__absence eps__sampling_absence(const struct eps_mechanism *mechanism)
{
    struct eps__absence absence = {.tossed = is_tossed(mechanism), .noise = absent_is_noise(mechanism)};
    if (absence.tossed)
        absence.log_never = eps__sampling_log_never(mechanism);
    return absence;
}

struct eps__absence eps__absence_nowhere(void)
{
    return (struct eps__absence){.tossed = true, .noise = true};
}

void eps__absence_join(struct eps__absence *absence, const struct eps__absence *other, uint64_t times)
{
    struct eps__interval *never = &absence->log_never;
    double count = (double)times;
    absence->tossed = absence->tossed && other->tossed;
    absence->noise = absence->noise && other->noise;
    never->lower = eps__lower(never->lower + eps__lower(count * other->log_never.lower, 4), 4);
    never->upper = eps__raise(never->upper + eps__raise(count * other->log_never.upper, 4), 4);
}

struct eps__interval eps__absence_log_delta(const struct eps__absence *absence, enum eps_direction direction,
                                            double eps)
{
    struct eps__interval never = absence->log_never;
    if (!absence->tossed)
        return (struct eps__interval){0, 0};
    if (direction == EPS_ADD && absence->noise) {
        never.lower = eps__shift(EPS__LOWER, never.lower + eps, 2 * EPS__UNIT_ROUNDOFF * (eps - never.lower));
        never.upper = eps__shift(EPS__UPPER, never.upper + eps, 2 * EPS__UNIT_ROUNDOFF * (eps - never.upper));
    }
    return (struct eps__interval){log_rest_down(never.upper), log_rest_up(never.lower)};
}

double eps__absence_epsilon(const struct eps__absence *absence, enum eps_direction direction, double log_delta)
{
    if (eps__absence_log_delta(absence, direction, 0).upper <= log_delta)
        return 0;
    if (!absence->tossed || direction != EPS_ADD || !absence->noise)
        return INFINITY;
    /* 1 - e^{eps + never} <= delta */
    double never = absence->log_never.lower, rest = log_rest(log_delta);
    return fmax(rest - never, 0) + 16 * EPS__UNIT_ROUNDOFF * (1 - rest - never);
}

struct eps__interval eps__sampling_log_delta(const struct eps_mechanism *mechanism, enum eps_direction direction,
                                             double eps)
{
    struct eps__absence absence = eps__sampling_absence(mechanism);
    return eps__absence_log_delta(&absence, direction, eps);
}

double eps__sampling_epsilon(const struct eps_mechanism *mechanism, enum eps_direction direction, double log_delta)
{
    struct eps__absence absence = eps__sampling_absence(mechanism);
    return eps__absence_epsilon(&absence, direction, log_delta);
}
