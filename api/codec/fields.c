/*
 * The tables of fields.h: the members of a job in canonical order.
 *
 * Integer ranges are here, because 0 means "absent" in the structs. Ranges of reals and all rules between members are
 * checked by eps_job_check(). The masks state which families, schemes or accountants take a member; with any other it
 * is unknown, which is an error.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "api/codec/fields.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "api/requests/batches.h"

/* The tables store the name function of an enum as a function of its number. */
#define NAME_AT(enumeration)                                            \
    static const char *enumeration##_at(unsigned index)                 \
    {                                                                   \
        return eps_##enumeration##_name((enum eps_##enumeration)index); \
    }
NAME_AT(normalization)
NAME_AT(objective)
NAME_AT(decoder)
NAME_AT(scheme)
NAME_AT(schema)
NAME_AT(adjacency)
NAME_AT(accountant)
NAME_AT(estimator)

static const char *workload_at(unsigned index)
{
    return eps_workload_name((enum eps_workload_type)index);
}

_Static_assert(sizeof(enum eps_family) == sizeof(unsigned), "enums are read and written as unsigned");

#define BIT(value) (1u << (value))
#define PLACE(type, member) .offset = offsetof(struct type, member), .size = sizeof(((struct type *)0)->member)
#define COMMON(key, masks) .name = (key), .variants = (masks)

#define REAL(type, key, member, masks)                            \
    {                                                             \
        COMMON(key, masks), .type = EPS__REAL, PLACE(type, member) \
    }
#define FLAG(type, key, member, masks)                            \
    {                                                             \
        COMMON(key, masks), .type = EPS__BOOL, PLACE(type, member) \
    }
#define COUNT(type, key, member, masks)                                                                 \
    {                                                                                                   \
        COMMON(key, masks), .type = EPS__INTEGER, PLACE(type, member), .least = 1, .most = EPS__EXACT_MOST \
    }
#define NAME(type, key, member, masks, names, which)                                                      \
    {                                                                                                     \
        COMMON(key, masks), .type = EPS__NAME, PLACE(type, member), .name_at = (names), .allowed = (which) \
    }
#define NUMBERS(type, key, member, len, masks)                                                                 \
    {                                                                                                          \
        COMMON(key, masks), .type = EPS__NUMBERS, PLACE(type, member), .len_offset = offsetof(struct type, len) \
    }
/* A required real number. */
#define NEEDED_REAL(type, key, member, masks)                                       \
    {                                                                               \
        COMMON(key, masks), .type = EPS__REAL, .required = true, PLACE(type, member) \
    }
#define NEEDED_COUNT(type, key, member, masks)                                                      \
    {                                                                                               \
        COMMON(key, masks), .type = EPS__INTEGER, .required = true, PLACE(type, member), .least = 1, \
                            .most = EPS__EXACT_MOST                                                   \
    }
#define NEEDED_NAME(type, key, member, names, which)                                                       \
    {                                                                                                      \
        COMMON(key, EPS__ALL), .type = EPS__NAME, .required = true, PLACE(type, member), .name_at = (names), \
                              .allowed = (which)                                                           \
    }
#define NEEDED_NUMBERS(type, key, member, len, masks)                                   \
    {                                                                                   \
        COMMON(key, masks), .type = EPS__NUMBERS, .required = true, PLACE(type, member), \
                            .len_offset = offsetof(struct type, len)                    \
    }

#define FIELDS(table) .fields = (table), .len = sizeof(table) / sizeof((table)[0])

/* ---------------------------------------------------------------- variants */

static bool is_written(const json_t *json, const char *name)
{
    const json_t *value = name ? json_object_get(json, name) : NULL;
    return value && !json_is_null(value);
}

static bool is_set(const struct eps__member *field, const void *base)
{
    size_t len;
    assert(field->type == EPS__NUMBERS || field->type == API_PHASES);
    memcpy(&len, api__at_const(base, field->len_offset), sizeof len);
    return len > 0;
}

unsigned api__variant(const struct eps__object *object, const void *base, const json_t *json)
{
    unsigned named = 0;
    if (object->variant_name)
        memcpy(&named, api__at_const(base, object->members[0].offset), sizeof named);
    for (size_t i = 1; i < object->len; i++) {
        const struct eps__member *field = &object->members[i];
        if (!field->settles || !(field->variants & BIT(named)))
            continue;
        if (json ? is_written(json, field->name) && !is_written(json, field->unless) : is_set(field, base))
            return field->settles;
    }
    return named;
}

bool api__has(const struct eps__object *object, const struct eps__member *field, uint32_t variant_bit)
{
    return (field->variants & variant_bit) && !(object->without && strcmp(object->without, field->name) == 0);
}

bool api__has_named(const struct eps__object *object, const char *name, uint32_t variant_bit)
{
    for (size_t i = 0; i < object->len; i++) {
        if (strcmp(object->members[i].name, name) == 0 && api__has(object, &object->members[i], variant_bit))
            return true;
    }
    return false;
}

/* ---------------------------------------------------------------- matrix */

/* A blt with given decay and scale is not optimised, so it takes other members than one with buffers. */
#define BLT_GIVEN ((unsigned)EPS_FAMILY_COUNT)

static const char *family_at(unsigned index)
{
    return index == BLT_GIVEN ? "blt with given decay and scale" : eps_family_name((enum eps_family)index);
}

#define BANDS_REQUIRED (BIT(EPS_FAMILY_INVERSE_SQUARE_ROOT) | BIT(EPS_FAMILY_BANDED) | BIT(EPS_FAMILY_BANDED_INVERSE))
#define OPTIMISED \
    (BIT(EPS_FAMILY_BANDED) | BIT(EPS_FAMILY_BANDED_INVERSE) | BIT(EPS_FAMILY_BLT) | BIT(EPS_FAMILY_OPTIMAL))
#define ANY_BLT (BIT(EPS_FAMILY_BLT) | BIT(BLT_GIVEN))

#define SETTLING_NUMBERS(key, member)                                                                   \
    {                                                                                                   \
        COMMON(key, ANY_BLT), .type = EPS__NUMBERS, PLACE(eps_matrix, member),                           \
                              .len_offset = offsetof(struct eps_matrix, blt_len), .settles = BLT_GIVEN, \
                              .unless = "buffers"                                                       \
    }

static const struct eps__member matrix_fields[] = {
    NEEDED_NAME(eps_matrix, "family", family, family_at, BIT(EPS_FAMILY_COUNT) - 1),
    NAME(eps_matrix, "normalization", normalization, EPS__ALL, normalization_at, BIT(EPS_NORMALIZATION_COUNT) - 1),
    COUNT(eps_matrix, "stamps", stamps, EPS__ALL),
    NEEDED_NUMBERS(eps_matrix, "coefficients", coefficients, coefficients_len, BIT(EPS_FAMILY_TOEPLITZ)),
    {COMMON("rows", BIT(EPS_FAMILY_DENSE)), .type = EPS__ROWS, .required = true, PLACE(eps_matrix, rows),
     .len_offset = offsetof(struct eps_matrix, rows_n)},
    COUNT(eps_matrix, "bands", bands, BIT(EPS_FAMILY_SQUARE_ROOT)),
    NEEDED_COUNT(eps_matrix, "bands", bands, BANDS_REQUIRED),
    FLAG(eps_matrix, "toeplitz", toeplitz, BIT(EPS_FAMILY_BANDED)),
    FLAG(eps_matrix, "column_normalize", column_normalize, BIT(EPS_FAMILY_BANDED)),
    COUNT(eps_matrix, "buffers", buffers, ANY_BLT),
    SETTLING_NUMBERS("decay", decay),
    SETTLING_NUMBERS("scale", scale),
    FLAG(eps_matrix, "nonnegative", nonnegative, BIT(EPS_FAMILY_OPTIMAL)),
    NAME(eps_matrix, "decoder", decoder, BIT(EPS_FAMILY_TREE), decoder_at,
         BIT(EPS_DECODER_ONLINE) | BIT(EPS_DECODER_FULL)),
    NAME(eps_matrix, "decoder", decoder, BIT(EPS_FAMILY_FOURIER), decoder_at,
         BIT(EPS_DECODER_OPTIMAL) | BIT(EPS_DECODER_STANDARD)),
    {COMMON("id", BIT(EPS_FAMILY_STORED)), .type = EPS__ID, .required = true, PLACE(eps_matrix, stored_id)},
    NAME(eps_matrix, "objective", objective, OPTIMISED, objective_at, BIT(EPS_OBJECTIVE_COUNT) - 1),
    REAL(eps_matrix, "gap", gap, OPTIMISED),
    COUNT(eps_matrix, "epochs", epochs, OPTIMISED),
    COUNT(eps_matrix, "separation", separation, OPTIMISED),
};

static const struct eps__object matrix_object = {FIELDS(matrix_fields), .has_variants = true, .variant_name = family_at};

/* ---------------------------------------------------------------- sampling */

#define NONE BIT(EPS_SCHEME_NONE)
#define POISSON BIT(EPS_SCHEME_POISSON)
#define CYCLIC BIT(EPS_SCHEME_CYCLIC_POISSON)
#define BINS BIT(EPS_SCHEME_BALLS_IN_BINS)
#define SPACED BIT(EPS_SCHEME_B_MIN_SEP)

static const struct eps__member truncation_fields[] = {
    NEEDED_COUNT(eps_sampling, "max_batch_size", max_batch_size, EPS__ALL),
};

static const struct eps__object truncation_object = {FIELDS(truncation_fields)};

static const struct eps__member sampling_fields[] = {
    NEEDED_NAME(eps_sampling, "scheme", scheme, scheme_at, BIT(EPS_SCHEME_COUNT) - 1),
    REAL(eps_sampling, "p", p, POISSON | CYCLIC | SPACED),
    COUNT(eps_sampling, "bins", bins, BINS),
    COUNT(eps_sampling, "batch_size", batch_size, EPS__ALL),
    COUNT(eps_sampling, "dataset_size", dataset_size, EPS__ALL),
    COUNT(eps_sampling, "epochs", epochs, NONE),
    COUNT(eps_sampling, "separation", separation, NONE | SPACED),
    NAME(eps_sampling, "schema", schema, NONE, schema_at, BIT(EPS_SCHEMA_COUNT) - 1),
    COUNT(eps_sampling, "groups", groups, CYCLIC),
    FLAG(eps_sampling, "redraw", redraw, BINS),
    FLAG(eps_sampling, "warm_start", warm_start, SPACED),
    {COMMON("truncation", POISSON | CYCLIC | SPACED), .type = EPS__GROUP, PLACE(eps_sampling, truncation),
     .object = &truncation_object},
    COUNT(eps_sampling, "examples_per_user", examples_per_user, POISSON | SPACED),
    FLAG(eps_sampling, "last_iterate", last_iterate, POISSON),
};

static const struct eps__object sampling_object = {FIELDS(sampling_fields), .has_variants = true,
                                                  .variant_name = scheme_at};
/* In a job with phases, examples_per_user is a member of the job. */
static const struct eps__object phase_sampling_object = {FIELDS(sampling_fields), .without = "examples_per_user",
                                                        .has_variants = true, .variant_name = scheme_at};

/* ---------------------------------------------------------------- workload */

static const struct eps__member cooldown_fields[] = {
    NEEDED_REAL(eps_workload, "from", cooldown_from, EPS__ALL),
    NEEDED_REAL(eps_workload, "to", cooldown_to, EPS__ALL),
};

static const struct eps__object cooldown_object = {FIELDS(cooldown_fields)};

static const struct eps__member workload_fields[] = {
    NEEDED_NAME(eps_workload, "type", type, workload_at, BIT(EPS_WORKLOAD_COUNT) - 1),
    NEEDED_REAL(eps_workload, "momentum", momentum, BIT(EPS_WORKLOAD_MOMENTUM)),
    REAL(eps_workload, "decay", decay, BIT(EPS_WORKLOAD_MOMENTUM)),
    {COMMON("cooldown", BIT(EPS_WORKLOAD_MOMENTUM)), .type = EPS__GROUP, PLACE(eps_workload, cooldown),
     .object = &cooldown_object},
    NEEDED_NUMBERS(eps_workload, "coefficients", coefficients, coefficients_len, BIT(EPS_WORKLOAD_TOEPLITZ)),
};

const struct eps__object api__workload_object = {FIELDS(workload_fields), .has_variants = true,
                                                .variant_name = workload_at};

/* ---------------------------------------------------------------- accountant */

#define METHOD(name) BIT(EPS_ACCOUNTANT_##name)
#define SHARED (METHOD(AUTO) | METHOD(MMCC) | METHOD(CONDITIONAL_COMPOSITION))
#define RENYI (METHOD(AUTO) | METHOD(RENYI))
#define SAMPLED (METHOD(AUTO) | METHOD(MONTE_CARLO))
#define GIVEN(member) .given_offset = offsetof(struct eps_tuning, given), .given = BIT(EPS_TUNING_##member)

static const struct eps__member tuning_fields[] = {
    NEEDED_NAME(eps_tuning, "method", method, accountant_at, BIT(EPS_ACCOUNTANT_COUNT) - 1),
    {.name = "tolerance",
     .type = EPS__REAL,
     .variants = ~METHOD(MONTE_CARLO),
     PLACE(eps_tuning, tolerance),
     GIVEN(TOLERANCE)},
    {.name = "bad_event_share",
     .type = EPS__SHARE,
     .variants = SHARED,
     PLACE(eps_tuning, bad_event_share),
     GIVEN(BAD_EVENT_SHARE)},
    {COMMON("max_order", RENYI), .type = EPS__INTEGER, PLACE(eps_tuning, max_order), .least = 2, .most = 1000000},
    COUNT(eps_tuning, "bandwidth", bandwidth, RENYI),
    COUNT(eps_tuning, "samples", samples, SAMPLED),
    {COMMON("seed", SAMPLED), .type = EPS__INTEGER, PLACE(eps_tuning, seed), .least = 0, .most = EPS__EXACT_MOST,
     .absent = -1},
    {.name = "threshold_share",
     .type = EPS__REAL,
     .variants = SAMPLED,
     PLACE(eps_tuning, threshold_share),
     GIVEN(THRESHOLD_SHARE)},
    {.name = "estimator",
     .type = EPS__NAME,
     .variants = SAMPLED,
     PLACE(eps_tuning, estimator),
     GIVEN(ESTIMATOR),
     .name_at = estimator_at,
     .allowed = BIT(EPS_ESTIMATOR_COUNT) - 1},
    REAL(eps_tuning, "max_seconds", max_seconds, SAMPLED),
    COUNT(eps_tuning, "audit", audit, EPS__ALL),
};

static const struct eps__object tuning_object = {FIELDS(tuning_fields), .has_variants = true,
                                                .variant_name = accountant_at};

/* ---------------------------------------------------------------- the job and its phases */

enum { ALONE, PHASED };

static const char *const misplaced[] = {
    [ALONE] = "is allowed only with phases; a job without phases has it in sampling",
    [PHASED] = "belongs to each phase; remove it here, or remove phases",
};

/* The members of a mechanism, in a job or in a phase. */
#define STEPS(type, masks)                                                                            \
    {COMMON("n", masks), .type = EPS__INTEGER, PLACE(type, mechanism.n), .least = 1, .largest = true}, \
    {                                                                                                 \
        COMMON("epochs", masks), .type = EPS__REAL, .unwritten = true, PLACE(type, mechanism.epochs)   \
    }
#define MATRIX(type, masks)                                                                                  \
    {                                                                                                        \
        COMMON("matrix", masks), .type = EPS__OBJECT, PLACE(type, mechanism.matrix), .object = &matrix_object \
    }
#define SAMPLING(type, masks, of)                                                                         \
    {                                                                                                     \
        COMMON("sampling", masks), .type = EPS__OBJECT, .required = true, PLACE(type, mechanism.sampling), \
                                   .object = (of)                                                         \
    }
#define WORKLOAD(type, masks)                                                           \
    {                                                                                   \
        COMMON("workload", masks), .type = EPS__OBJECT, PLACE(type, mechanism.workload), \
                                   .object = &api__workload_object                      \
    }

static const struct eps__member phase_fields[] = {
    STEPS(eps_phase, EPS__ALL),
    MATRIX(eps_phase, EPS__ALL),
    SAMPLING(eps_phase, EPS__ALL, &phase_sampling_object),
    WORKLOAD(eps_phase, EPS__ALL),
    REAL(eps_phase, "noise_scale", noise_scale, EPS__ALL),
    {COMMON("count", EPS__ALL), .type = EPS__INTEGER, PLACE(eps_phase, count), .least = 1, .most = EPS__EXACT_MOST,
     .largest = true},
};

const struct eps__object api__phase_object = {FIELDS(phase_fields)};

static const struct eps__member job_fields[] = {
    STEPS(eps_job, BIT(ALONE)),
    MATRIX(eps_job, BIT(ALONE)),
    SAMPLING(eps_job, BIT(ALONE), &sampling_object),
    {COMMON("phases", EPS__ALL), .type = API_PHASES, PLACE(eps_job, phases),
     .len_offset = offsetof(struct eps_job, phases_len), .object = &api__phase_object, .settles = PHASED},
    COUNT(eps_job, "examples_per_user", mechanism.sampling.examples_per_user, BIT(PHASED)),
    REAL(eps_job, "epsilon", query.epsilon, EPS__ALL),
    REAL(eps_job, "delta", query.delta, EPS__ALL),
    REAL(eps_job, "noise_multiplier", query.noise_multiplier, EPS__ALL),
    NAME(eps_job, "adjacency", mechanism.adjacency, EPS__ALL, adjacency_at, BIT(EPS_ADJACENCY_COUNT) - 1),
    {COMMON("accountant", EPS__ALL), .type = API_ACCOUNTANT, PLACE(eps_job, query.accountant), .object = &tuning_object},
    WORKLOAD(eps_job, BIT(ALONE)),
    FLAG(eps_job, "curve", query.curve, EPS__ALL),
    {COMMON("label", EPS__ALL), .type = API_LABEL},
};

const struct eps__object api__job_object = {FIELDS(job_fields), .has_variants = true, .misplaced = misplaced};

/* ---------------------------------------------------------------- batches */

static const struct eps__member batches_fields[] = {
    {COMMON("job", EPS__ALL), .type = API_JOB_ID, PLACE(api_batches, job)},
    {COMMON("n", EPS__ALL), .type = EPS__INTEGER, PLACE(api_batches, mechanism.n), .least = 1},
    {COMMON("sampling", EPS__ALL), .type = EPS__OBJECT, PLACE(api_batches, mechanism.sampling),
     .object = &sampling_object},
    COUNT(api_batches, "dataset_size", dataset_size, EPS__ALL),
    {COMMON("seed", EPS__ALL), .type = EPS__INTEGER, PLACE(api_batches, seed), .least = 0, .most = EPS__EXACT_MOST,
     .absent = -1},
};

const struct eps__object api__batches_object = {FIELDS(batches_fields)};
