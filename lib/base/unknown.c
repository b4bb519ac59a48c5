/*
 * What a job solves for. It is here and not with the other rules of a job because accountants need it too.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/epsilon.h"

#include <math.h>

enum eps_unknown eps_job_unknown(const struct eps_job *job)
{
    if (job->query.curve)
        return EPS_SOLVE_CURVE;
    if (job->phases_len == 0 && job->mechanism.n == EPS_LARGEST)
        return EPS_SOLVE_N;
    for (size_t i = 0; i < job->phases_len; i++)
        if (job->phases[i].count == EPS_LARGEST)
            return EPS_SOLVE_RUNS;
    if (isnan(job->query.epsilon))
        return EPS_SOLVE_EPSILON;
    return isnan(job->query.delta) ? EPS_SOLVE_DELTA : EPS_SOLVE_NOISE_MULTIPLIER;
}
