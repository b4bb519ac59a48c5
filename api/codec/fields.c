/*
 * The tables of fields.h. Those of a job's parts are the library's (lib/base/members.c). Here is how a job and a
 * phase put these parts together in JSON, in canonical order; a unit test holds that no member of the library is
 * missing.
 *
 * Ranges of integers are checked by the codec, because 0 means "absent" in the structs. Ranges of reals and all rules
 * between members are eps_job_check()'s. A member that the family, scheme or accountant does not take is unknown, and
 * unknown members are errors.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "api/codec/fields.h"

#include <stddef.h>
#include <string.h>

#include "api/requests/batches.h"

#define BIT(value) (1u << (value))

/* ---------------------------------------------------------------- names */

const char *api__name_at(const struct eps__member *field, unsigned value)
{
    if (field->name_at)
        return field->name_at(value);
    switch (field->vocabulary) {
    case EPS__FAMILIES:
        return eps_family_name((enum eps_family)value);
    case EPS__NORMALIZATIONS:
        return eps_normalization_name((enum eps_normalization)value);
    case EPS__DECODERS:
        return eps_decoder_name((enum eps_decoder)value);
    case EPS__OBJECTIVES:
        return eps_objective_name((enum eps_objective)value);
    case EPS__OPTIMIZE_FORS:
        return eps_optimize_for_name((enum eps_optimize_for)value);
    case EPS__WORKLOADS:
        return eps_workload_name((enum eps_workload_type)value);
    case EPS__SCHEMES:
        return eps_scheme_name((enum eps_scheme)value);
    case EPS__SCHEMAS:
        return eps_schema_name((enum eps_schema)value);
    case EPS__ADJACENCIES:
        return eps_adjacency_name((enum eps_adjacency)value);
    case EPS__ACCOUNTANTS:
        return eps_accountant_name((enum eps_accountant)value);
    case EPS__ESTIMATORS:
        return eps_estimator_name((enum eps_estimator)value);
    case EPS__VOCABULARIES:
        break;
    }
    return NULL;
}

const char *api__variant_name(const struct eps__object *object, unsigned variant)
{
    if (object == &eps__matrix_object && variant == EPS__BLT_GIVEN)
        return "blt with given decay and scale";
    return object->named ? api__name_at(&object->members[0], variant) : NULL;
}

/* ---------------------------------------------------------------- variants */

static bool is_written(const json_t *json, const char *name)
{
    const json_t *value = name ? json_object_get(json, name) : NULL;
    return value && !json_is_null(value);
}

unsigned api__variant(const struct eps__object *object, const void *base, const json_t *json)
{
    unsigned named = 0;
    if (!json)
        return eps__members_variant(object, base);
    if (object->named)
        memcpy(&named, api__at_const(base, object->members[0].offset), sizeof named);
    for (size_t i = 1; i < object->len; i++) {
        const struct eps__member *field = &object->members[i];
        if (!field->settles || !(field->variants & BIT(named)))
            continue;
        if (is_written(json, field->name) && !is_written(json, field->unless))
            return field->settles;
    }
    return named;
}

bool api__has(const struct eps__object *object, const struct eps__member *field, uint32_t variant_bit)
{
    return field->name && field->inside == object->group && (field->variants & variant_bit) &&
           !(object->without && strcmp(object->without, field->name) == 0);
}

bool api__has_named(const struct eps__object *object, const char *name, uint32_t variant_bit)
{
    for (size_t i = 0; i < object->len; i++) {
        const struct eps__member *field = &object->members[i];
        if (api__has(object, field, variant_bit) && strcmp(field->name, name) == 0)
            return true;
    }
    return false;
}

/* ---------------------------------------------------------------- the job and its phases */

enum { ALONE, PHASED };

static const char *const misplaced[] = {
    [ALONE] = "is allowed only with phases; a job without phases has it in sampling",
    [PHASED] = "belongs to each phase; remove it here, or remove phases",
};

#define PLACE(of, member) .offset = offsetof(struct of, member), .size = sizeof(((struct of *)0)->member)
#define FIELDS(table) .members = (table), .len = sizeof(table) / sizeof((table)[0])
#define EVERY .variants = EPS__ALL
#define IN(masks) .variants = (masks)

/* The members of a mechanism, in a job or in a phase. */
#define STEPS(of, masks)                                                                                 \
    {.name = "n", .type = EPS__INTEGER, IN(masks), PLACE(of, mechanism.n), .least = 1, .largest = true}, \
    {                                                                                                    \
        .name = "epochs", .type = EPS__REAL, IN(masks), PLACE(of, mechanism.epochs), .unwritten = true   \
    }
#define PART(of, json, masks, member, its) \
    .name = (json), .type = EPS__OBJECT, IN(masks), PLACE(of, mechanism.member), .object = (its)

static const struct eps__member phase_fields[] = {
    STEPS(eps_phase, EPS__ALL),
    {PART(eps_phase, "matrix", EPS__ALL, matrix, &eps__matrix_object)},
    {PART(eps_phase, "sampling", EPS__ALL, sampling, &eps__phase_sampling_object), .required = EPS__ALL},
    {PART(eps_phase, "workload", EPS__ALL, workload, &eps__workload_object)},
    {.name = "noise_scale", .type = EPS__REAL, EVERY, PLACE(eps_phase, noise_scale)},
    {.name = "count",
     .type = EPS__INTEGER,
     EVERY,
     PLACE(eps_phase, count),
     .least = 1,
     .most = EPS__EXACT_MOST,
     .largest = true},
};

const struct eps__object api__phase_object = {FIELDS(phase_fields), .size = sizeof(struct eps_phase)};

static const struct eps__member job_fields[] = {
    STEPS(eps_job, BIT(ALONE)),
    {PART(eps_job, "matrix", BIT(ALONE), matrix, &eps__matrix_object)},
    {PART(eps_job, "sampling", BIT(ALONE), sampling, &eps__sampling_object), .required = EPS__ALL},
    {.name = "phases",
     .type = API_PHASES,
     EVERY,
     PLACE(eps_job, phases),
     .len_offset = offsetof(struct eps_job, phases_len),
     .object = &api__phase_object,
     .settles = PHASED},
    {.name = "examples_per_user",
     .type = EPS__INTEGER,
     IN(BIT(PHASED)),
     PLACE(eps_job, mechanism.sampling.examples_per_user),
     .least = 1,
     .most = EPS__EXACT_MOST},
    {.name = "epsilon", .type = EPS__REAL, EVERY, PLACE(eps_job, query.epsilon)},
    {.name = "delta", .type = EPS__REAL, EVERY, PLACE(eps_job, query.delta)},
    {.name = "noise_multiplier", .type = EPS__REAL, EVERY, PLACE(eps_job, query.noise_multiplier)},
    {.name = "adjacency",
     .type = EPS__NAME,
     EVERY,
     PLACE(eps_job, mechanism.adjacency),
     .vocabulary = EPS__ADJACENCIES,
     .allowed = BIT(EPS_ADJACENCY_COUNT) - 1},
    {.name = "accountant",
     .type = API_ACCOUNTANT,
     EVERY,
     PLACE(eps_job, query.accountant),
     .object = &eps__tuning_object},
    {PART(eps_job, "workload", BIT(ALONE), workload, &eps__workload_object)},
    {.name = "curve", .type = EPS__BOOL, EVERY, PLACE(eps_job, query.curve)},
    {.name = "label", .type = API_LABEL, EVERY},
};

const struct eps__object api__job_object = {FIELDS(job_fields), .size = sizeof(struct eps_job), .has_variants = true,
                                            .misplaced = misplaced};

/* ---------------------------------------------------------------- batches */

static const struct eps__member batches_fields[] = {
    {.name = "job", .type = API_JOB_ID, EVERY, PLACE(api_batches, job)},
    {.name = "n", .type = EPS__INTEGER, EVERY, PLACE(api_batches, mechanism.n), .least = 1},
    {.name = "sampling",
     .type = EPS__OBJECT,
     EVERY,
     PLACE(api_batches, mechanism.sampling),
     .object = &eps__sampling_object},
    {.name = "dataset_size",
     .type = EPS__INTEGER,
     EVERY,
     PLACE(api_batches, dataset_size),
     .least = 1,
     .most = EPS__EXACT_MOST},
    {.name = "seed",
     .type = EPS__INTEGER,
     EVERY,
     PLACE(api_batches, seed),
     .least = 0,
     .most = EPS__EXACT_MOST,
     .absent = -1},
};

const struct eps__object api__batches_object = {FIELDS(batches_fields), .size = sizeof(struct api_batches)};
