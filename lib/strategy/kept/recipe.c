/*
 * The members that a builder may read, in a fixed order; those that a job of its family does not use are at their
 * defaults and so are the same everywhere. Normalisation is left out: it comes after building. Of the sampling an
 * optimiser sees two bits (struct eps__target), and a recipe is read back as some sampling that has them.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/strategy/kept/recipe.h"

#include <stdlib.h>

#include "lib/strategy/families/family.h"
#include "lib/strategy/sensitivity/sensitivity.h"

static void write_workload(struct eps__record *out, const struct eps_workload *workload)
{
    bool momentum = workload->type == EPS_WORKLOAD_MOMENTUM;
    eps__record_put_u64(out, (uint64_t)workload->type);
    eps__record_put_double(out, momentum ? workload->momentum : 0);
    eps__record_put_double(out, momentum ? workload->decay : 1);
    eps__record_put_u64(out, momentum && workload->cooldown);
    eps__record_put_double(out, momentum && workload->cooldown ? workload->cooldown_from : 0);
    eps__record_put_double(out, momentum && workload->cooldown ? workload->cooldown_to : 0);
    eps__record_put_doubles(out, workload->coefficients, workload->coefficients_len);
}

static struct eps__target target_of(const struct eps_mechanism *mechanism)
{
    const struct eps__family *family = eps__family_of(&mechanism->matrix);
    return family->told && family->told(&mechanism->matrix) ? eps__target_told(mechanism) : (struct eps__target){0};
}

void eps__recipe_write(struct eps__record *out, const struct eps_mechanism *mechanism)
{
    const struct eps_matrix *matrix = &mechanism->matrix;
    struct eps__target target = target_of(mechanism);
    eps__record_put_u64(out, mechanism->n);
    eps__record_put_u64(out, (uint64_t)matrix->family);
    eps__record_put_u64(out, matrix->stamps ? matrix->stamps : 1);
    eps__record_put_u64(out, matrix->bands);
    eps__record_put_u64(out, matrix->toeplitz);
    eps__record_put_u64(out, matrix->column_normalize);
    eps__record_put_u64(out, matrix->buffers);
    eps__record_put_u64(out, matrix->nonnegative);
    eps__record_put_u64(out, (uint64_t)matrix->decoder);
    eps__record_put_u64(out, (uint64_t)matrix->objective);
    eps__record_put_double(out, matrix->gap);
    eps__record_put_u64(out, matrix->epochs);
    eps__record_put_u64(out, matrix->separation);
    eps__record_put_doubles(out, matrix->coefficients, matrix->coefficients_len);
    eps__record_put_u64(out, matrix->rows_n);
    eps__record_put_doubles(out, matrix->rows, matrix->rows_n * matrix->rows_n);
    eps__record_put_doubles(out, matrix->decay, matrix->decay ? matrix->blt_len : 0);
    eps__record_put_doubles(out, matrix->scale, matrix->scale ? matrix->blt_len : 0);
    write_workload(out, &mechanism->workload);
    eps__record_put_u64(out, target.separated);
    eps__record_put_u64(out, target.sampled);
}

/* An enumeration, or 0 and a bad record. */
static unsigned get_enum(struct eps__record *from, unsigned count)
{
    uint64_t value = eps__record_get_u64(from);
    if (value < count)
        return (unsigned)value;
    from->bad = true;
    return 0;
}

static void read_workload(struct eps__recipe *out, struct eps__record *from)
{
    struct eps_workload *workload = &out->mechanism.workload;
    workload->type = (enum eps_workload_type)get_enum(from, EPS_WORKLOAD_COUNT);
    workload->momentum = eps__record_get_double(from);
    workload->decay = eps__record_get_double(from);
    workload->cooldown = eps__record_get_u64(from) != 0;
    workload->cooldown_from = eps__record_get_double(from);
    workload->cooldown_to = eps__record_get_double(from);
    eps__record_get_doubles(from, &out->arrays[4], &workload->coefficients_len);
    workload->coefficients = out->arrays[4];
}

bool eps__recipe_read(struct eps__recipe *out, struct eps__record *from)
{
    *out = (struct eps__recipe){.mechanism.matrix.normalization = EPS_NORMALIZATION_NONE};
    struct eps_matrix *matrix = &out->mechanism.matrix;
    size_t rows_len, scale_len;
    out->mechanism.n = eps__record_get_u64(from);
    matrix->family = (enum eps_family)get_enum(from, EPS_FAMILY_COUNT);
    matrix->stamps = eps__record_get_u64(from);
    matrix->bands = eps__record_get_u64(from);
    matrix->toeplitz = eps__record_get_u64(from) != 0;
    matrix->column_normalize = eps__record_get_u64(from) != 0;
    matrix->buffers = eps__record_get_u64(from);
    matrix->nonnegative = eps__record_get_u64(from) != 0;
    matrix->decoder = (enum eps_decoder)get_enum(from, EPS_DECODER_COUNT);
    matrix->objective = (enum eps_objective)get_enum(from, EPS_OBJECTIVE_COUNT);
    matrix->gap = eps__record_get_double(from);
    matrix->epochs = eps__record_get_u64(from);
    matrix->separation = eps__record_get_u64(from);
    eps__record_get_doubles(from, &out->arrays[0], &matrix->coefficients_len);
    matrix->rows_n = eps__record_get_u64(from);
    eps__record_get_doubles(from, &out->arrays[1], &rows_len);
    eps__record_get_doubles(from, &out->arrays[2], &matrix->blt_len);
    eps__record_get_doubles(from, &out->arrays[3], &scale_len);
    read_workload(out, from);
    bool separated = eps__record_get_u64(from) != 0;
    out->mechanism.sampling = eps__sampling_like(eps__record_get_u64(from) != 0, !separated);
    matrix->coefficients = out->arrays[0];
    matrix->rows = out->arrays[1];
    matrix->decay = out->arrays[2];
    matrix->scale = out->arrays[3];
    return !from->bad && !eps__family_of(matrix)->kept && matrix->rows_n <= 1u << 20 &&
           rows_len == matrix->rows_n * matrix->rows_n && scale_len == matrix->blt_len && matrix->stamps > 0 &&
           out->mechanism.n > 0 && out->mechanism.n % matrix->stamps == 0;
}

void eps__recipe_clear(struct eps__recipe *recipe)
{
    for (size_t i = 0; i < sizeof recipe->arrays / sizeof *recipe->arrays; i++)
        free(recipe->arrays[i]);
    *recipe = (struct eps__recipe){0};
}
