/*
 * A recipe is the canonical bytes of the matrix and the workload (lib/base/members.h), so no member can be missing. The
 * normalization, which applies after building, is left at its default. An optimiser uses two bits of the sampling
 * (struct eps__target); a recipe is read back with some sampling that has these bits.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/strategy/kept/recipe.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/members.h"
#include "lib/strategy/families/family.h"
#include "lib/strategy/sensitivity/sensitivity.h"

static void write_bytes(void *to, const void *bytes, size_t len)
{
    eps__record_put(to, bytes, len);
}

static bool read_bytes(void *from, void *bytes, size_t len)
{
    const struct eps__record *record = from;
    return bytes ? eps__record_get(from, bytes, len) : !record->bad && len <= record->len - record->at;
}

static struct eps__target target_of(const struct eps_mechanism *mechanism)
{
    const struct eps__family *family = eps__family_of(&mechanism->matrix);
    return family->told && family->told(&mechanism->matrix) ? eps__target_told(mechanism) : (struct eps__target){0};
}

/* The matrix as it is built: unscaled, and not by a stored id. */
static struct eps_matrix unscaled(const struct eps_matrix *matrix)
{
    struct eps_matrix plain = *matrix;
    plain.normalization = EPS_NORMALIZATION_NONE;
    plain.stamps = matrix->stamps ? matrix->stamps : 1;
    memset(plain.stored_id, 0, sizeof plain.stored_id); /* all of its bytes are part of the record */
    return plain;
}

/* The members that the workload's type has; the others are reset to their defaults. */
static struct eps_workload plain_workload(const struct eps_workload *workload)
{
    struct eps_workload plain = *workload, fresh;
    eps__members_init(&eps__workload_object, &fresh);
    if (workload->type != EPS_WORKLOAD_MOMENTUM) {
        plain.momentum = fresh.momentum;
        plain.decay = fresh.decay;
        plain.cooldown = fresh.cooldown;
    }
    if (!plain.cooldown) {
        plain.cooldown_from = fresh.cooldown_from;
        plain.cooldown_to = fresh.cooldown_to;
    }
    return plain;
}

void eps__recipe_write(struct eps__record *out, const struct eps_mechanism *mechanism)
{
    struct eps__target target = target_of(mechanism);
    struct eps_matrix matrix = unscaled(&mechanism->matrix);
    struct eps_workload workload = plain_workload(&mechanism->workload);
    eps__record_put_u64(out, mechanism->n);
    eps__members_put(&eps__matrix_object, &matrix, false, write_bytes, out);
    eps__members_put(&eps__workload_object, &workload, false, write_bytes, out);
    eps__record_put_u64(out, target.separated);
    eps__record_put_u64(out, target.sampled);
}

bool eps__recipe_read(struct eps__recipe *out, struct eps__record *from)
{
    *out = (struct eps__recipe){0};
    struct eps_matrix *matrix = &out->mechanism.matrix;
    out->mechanism.n = eps__record_get_u64(from);
    bool read = eps__members_get(&eps__matrix_object, matrix, read_bytes, from) &&
                eps__members_get(&eps__workload_object, &out->mechanism.workload, read_bytes, from);
    bool separated = eps__record_get_u64(from) != 0;
    out->mechanism.sampling = eps__sampling_like(eps__record_get_u64(from) != 0, !separated);
    return read && !from->bad && !eps__family_of(matrix)->kept && matrix->stamps > 0 && out->mechanism.n > 0 &&
           out->mechanism.n % matrix->stamps == 0;
}

void eps__recipe_clear(struct eps__recipe *recipe)
{
    eps__members_free(&eps__matrix_object, &recipe->mechanism.matrix);
    eps__members_free(&eps__workload_object, &recipe->mechanism.workload);
    *recipe = (struct eps__recipe){0};
}
