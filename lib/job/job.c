/*
 * The defaults of a job: constant ones, from the tables of members, and those that depend on other members.
 *
 * They are set here and not in the codec so that the same job means the same for C and HTTP callers.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/epsilon.h"

#include <string.h>

#include "lib/base/members.h"
#include "lib/sampling/scheme.h"
#include "lib/strategy/families/family.h"
#include "lib/strategy/strategy.h"

void eps_phase_init(struct eps_phase *phase)
{
    eps__members_init(&eps__phase_object, phase);
}

void eps_job_init(struct eps_job *job)
{
    memset(job, 0, sizeof *job);
    eps__members_init(&eps__mechanism_object, &job->mechanism);
    eps__members_init(&eps__query_object, &job->query);
}

/* The participation that an optimised family is optimised for: the job's, if there is one stamp; else one epoch. */
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
