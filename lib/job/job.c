/*
 * A job before it is computed: its defaults, those that are constants and those that follow from other members.
 *
 * Both are kept here and not in the codec, so that a C caller and an HTTP client who say the same ask the same.
 * What a job must satisfy is in checks.c.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/epsilon.h"

#include <math.h>
#include <string.h>

#include "lib/sampling/scheme.h"
#include "lib/strategy/families/family.h"
#include "lib/strategy/strategy.h"
#include "lib/strategy/workload.h"

static struct eps_mechanism default_mechanism(void)
{
    struct eps_mechanism mechanism;
    memset(&mechanism, 0, sizeof mechanism);
    mechanism.matrix = eps__matrix_default();
    mechanism.epochs = NAN;
    mechanism.workload = eps__workload_default();
    mechanism.sampling = eps__sampling_default();
    mechanism.adjacency = EPS_ADJACENCY_ZERO_OUT;
    return mechanism;
}

void eps_phase_init(struct eps_phase *phase)
{
    *phase = (struct eps_phase){.mechanism = default_mechanism(), .noise_scale = 1, .count = 1};
}

void eps_job_init(struct eps_job *job)
{
    memset(job, 0, sizeof *job);

    job->mechanism = default_mechanism();
    job->query = (struct eps_query){.epsilon = NAN, .delta = NAN, .noise_multiplier = NAN};
    job->query.accountant = (struct eps_tuning){.method = EPS_ACCOUNTANT_AUTO,
                                                .tolerance = 1e-3,
                                                .bad_event_share = NAN,
                                                .seed = -1,
                                                .threshold_share = 0.5,
                                                .estimator = EPS_ESTIMATOR_AUTO,
                                                .max_seconds = NAN};
}

/* The participation an optimised family is optimised for: the job's, where one block sees all of it. */
static void default_target(struct eps_mechanism *mechanism, size_t block)
{
    struct eps_matrix *matrix = &mechanism->matrix;
    struct eps__participation aim = {.epochs = 1};

    if (matrix->stamps == 1)
        aim = eps__sampling_target(mechanism);
    if (matrix->epochs == 0)
        matrix->epochs = aim.epochs;
    if (matrix->separation == 0)
        matrix->separation = aim.separation > 0 || matrix->epochs == 0 ? aim.separation : block / matrix->epochs;
}

static void mechanism_defaults(struct eps_mechanism *mechanism)
{
    struct eps_matrix *matrix = &mechanism->matrix;

    if (mechanism->n == 0)
        mechanism->n = eps__sampling_steps(mechanism);
    size_t block = matrix->stamps > 0 ? mechanism->n / matrix->stamps : 0;
    const struct eps__family *family = eps__family_of(matrix);
    if (family->defaults)
        family->defaults(matrix, block);
    const struct eps__scheme *scheme = eps__scheme_of(mechanism);
    if (scheme->defaults)
        scheme->defaults(mechanism, family->bands ? family->bands(matrix, block) : block);
    if (eps__strategy_is_optimised(matrix))
        default_target(mechanism, block);
}

void eps_job_defaults(struct eps_job *job)
{
    if (job->phases_len == 0)
        mechanism_defaults(&job->mechanism);
    for (size_t i = 0; i < job->phases_len; i++) {
        struct eps_mechanism *mechanism = &job->phases[i].mechanism;
        mechanism->adjacency = job->mechanism.adjacency;
        mechanism->sampling.examples_per_user = job->mechanism.sampling.examples_per_user;
        mechanism_defaults(mechanism);
    }
}
