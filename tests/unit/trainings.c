/*
 * Phases, trainings and their answers.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "tests/unit/trainings.h"

#include <math.h>

#include "tests/unit/test.h"

struct eps_phase phase_of(size_t n, enum eps_scheme scheme)
{
    struct eps_phase phase;
    eps_phase_init(&phase);
    phase.mechanism.n = n;
    phase.mechanism.sampling.scheme = scheme;
    return phase;
}

struct eps_phase poisson_phase(size_t n, double p)
{
    struct eps_phase phase = phase_of(n, EPS_SCHEME_POISSON);
    phase.mechanism.sampling.p = p;
    return phase;
}

struct eps_phase bins_phase(size_t n, size_t bins)
{
    struct eps_phase phase = phase_of(n, EPS_SCHEME_BALLS_IN_BINS);
    phase.mechanism.sampling.bins = bins;
    return phase;
}

struct eps_job training_of(struct eps_phase *phases, size_t len, double epsilon, double delta, double sigma)
{
    struct eps_job job;
    eps_job_init(&job);
    job.phases = phases;
    job.phases_len = len;
    job.query.epsilon = epsilon;
    job.query.delta = delta;
    job.query.noise_multiplier = sigma;
    return job;
}
