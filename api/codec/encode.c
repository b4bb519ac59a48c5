/*
 * Encodes a job in canonical form and computes its hash.
 *
 * It walks the tables of the decoder in their order, so equal jobs have equal texts. The hash covers the text without
 * arrays, followed by the binary doubles of the arrays: formatting a million decimals only to hash them would take a
 * thousand times longer.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "api/codec/fields.h"
#include "api/json/build.h"
#include "api/json/numbers.h"

#include <math.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

enum arrays {
    ARRAYS_WHOLE,
    ARRAYS_COUNTED, /* only the length of each array */
    ARRAYS_LEFT_OUT
};

struct encoder {
    struct api_build build;
    enum arrays arrays;
};

static json_t *encode_numbers(struct encoder *encoder, const double *values, size_t len)
{
    if (len >= API_PACKED_LEAST)
        return api__pack(values, len);

    json_t *array = json_array();
    for (size_t i = 0; i < len && !encoder->build.failed; i++)
        api__append(&encoder->build, array, api_number(values[i]));
    return array;
}

static bool is_lower_triangular(const double *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t j = i + 1; j < n; j++)
            if (rows[i * n + j] != 0.0)
                return false;
    }
    return true;
}

static json_t *encode_rows(struct encoder *encoder, const double *rows, size_t n)
{
    json_t *array = json_array();
    bool lower = is_lower_triangular(rows, n);

    for (size_t i = 0; i < n && !encoder->build.failed; i++)
        api__append(&encoder->build, array, encode_numbers(encoder, rows + i * n, lower ? i + 1 : n));
    return array;
}

static json_t *encode_array(struct encoder *encoder, const struct eps__member *field, const void *base)
{
    const double *values;
    size_t len;

    memcpy(&values, api__at_const(base, field->offset), sizeof values);
    memcpy(&len, api__at_const(base, field->len_offset), sizeof len);
    if (encoder->arrays == ARRAYS_COUNTED)
        return json_integer((json_int_t)len);
    return field->type == EPS__ROWS ? encode_rows(encoder, values, len) : encode_numbers(encoder, values, len);
}

static int64_t integer_at(const struct eps__member *field, const void *place)
{
    int64_t value = 0;

    if (field->size == sizeof(unsigned)) {
        unsigned narrow;
        memcpy(&narrow, place, sizeof narrow);
        return (int64_t)narrow;
    }
    memcpy(&value, place, sizeof value);
    return value;
}

static json_t *encode_object(struct encoder *encoder, const struct eps__object *object, const void *base);

static json_t *encode_phases(struct encoder *encoder, const struct eps__member *field, const void *base)
{
    json_t *array = json_array();
    const struct eps_phase *phases;
    size_t len;

    memcpy(&phases, api__at_const(base, field->offset), sizeof phases);
    memcpy(&len, api__at_const(base, field->len_offset), sizeof len);
    for (size_t i = 0; i < len && !encoder->build.failed; i++)
        api__append(&encoder->build, array, encode_object(encoder, field->object, &phases[i]));
    return array;
}

/* Whether the member is written. A member whose default is "not given" is omitted if it has that value. */
static bool is_present(const struct encoder *encoder, const struct eps__member *field, const void *base)
{
    const void *place = api__at_const(base, field->offset);
    const double *values;
    double real;
    size_t len;

    switch (field->type) {
    case EPS__REAL:
        memcpy(&real, place, sizeof real);
        return !isnan(real);
    case EPS__INTEGER:
        return integer_at(field, place) != field->absent;
    case EPS__NUMBERS:
    case EPS__ROWS:
        memcpy(&values, place, sizeof values);
        return values != NULL && encoder->arrays != ARRAYS_LEFT_OUT;
    case API_PHASES:
        memcpy(&len, api__at_const(base, field->len_offset), sizeof len);
        return len > 0;
    case EPS__GROUP:
        return *(const bool *)place;
    case API_LABEL:
        return false;
    default:
        return true;
    }
}

/* The value of a member that is written, or NULL if memory runs out. */
static json_t *encode_field(struct encoder *encoder, const struct eps__member *field, const void *base)
{
    const void *place = api__at_const(base, field->offset);
    unsigned index;
    double real;

    switch (field->type) {
    case EPS__REAL:
    case EPS__SHARE:
        memcpy(&real, place, sizeof real);
        return isnan(real) ? json_string("auto") : api_number(real);
    case EPS__INTEGER:
        if (field->largest && *(const size_t *)place == EPS_LARGEST)
            return json_string("max");
        return json_integer(integer_at(field, place));
    case EPS__BOOL:
        return json_boolean(*(const bool *)place);
    case EPS__NAME:
        memcpy(&index, place, sizeof index);
        return json_string(api__name_at(field, index));
    case EPS__ID:
    case API_JOB_ID:
        return json_string(place);
    case EPS__NUMBERS:
    case EPS__ROWS:
        return encode_array(encoder, field, base);
    case EPS__GROUP:
        return encode_object(encoder, field->object, base);
    case EPS__OBJECT:
    case API_ACCOUNTANT:
        return encode_object(encoder, field->object, place);
    case API_PHASES:
        return encode_phases(encoder, field, base);
    case API_LABEL:
        break;
    }
    return NULL;
}

static json_t *encode_object(struct encoder *encoder, const struct eps__object *object, const void *base)
{
    json_t *json = json_object();
    uint32_t bit = EPS__ALL;

    if (!json) {
        encoder->build.failed = true;
        return NULL;
    }
    if (object->has_variants)
        bit = 1u << api__variant(object, base, NULL);
    for (size_t i = 0; i < object->len && !encoder->build.failed; i++) {
        const struct eps__member *field = &object->members[i];
        if (api__has(object, field, bit) && !field->unwritten && !eps__member_omitted(field, base) &&
            is_present(encoder, field, base))
            api__set(&encoder->build, json, field->name, encode_field(encoder, field, base));
    }
    return json;
}

static json_t *encode_job(const struct api_job *job, enum arrays arrays, bool with_label)
{
    struct encoder encoder = {.arrays = arrays};
    json_t *json = encode_object(&encoder, &api__job_object, &job->job);

    if (json && with_label && job->label)
        api__set(&encoder.build, json, "label", json_string(job->label));
    return api__built(&encoder.build, json);
}

json_t *api_job_encode(const struct api_job *job, bool with_label)
{
    return encode_job(job, ARRAYS_WHOLE, with_label);
}

json_t *api_job_encode_brief(const struct api_job *job)
{
    return encode_job(job, ARRAYS_LEFT_OUT, true);
}

static void hash_arrays(crypto_generichash_state *state, const struct eps_mechanism *mechanism)
{
    const struct eps_matrix *matrix = &mechanism->matrix;
    const struct eps_workload *workload = &mechanism->workload;
    const struct {
        const double *values;
        size_t len;
    } arrays[] = {
        {matrix->coefficients, matrix->coefficients_len},
        {matrix->rows, matrix->rows_n * matrix->rows_n},
        {matrix->decay, matrix->blt_len},
        {matrix->scale, matrix->blt_len},
        {workload->coefficients, workload->coefficients_len},
    };

    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        if (arrays[i].values)
            crypto_generichash_update(state, (const unsigned char *)arrays[i].values, arrays[i].len * sizeof(double));
}

void api_job_hash(char hash[65], const struct api_job *job)
{
    struct encoder encoder = {.arrays = ARRAYS_COUNTED};
    json_t *json = encode_object(&encoder, &api__job_object, &job->job);
    char *text = encoder.build.failed ? NULL : api_json_text(json);
    crypto_generichash_state state;
    unsigned char digest[32];

    hash[0] = '\0';
    json_decref(json);
    if (!text)
        return;
    crypto_generichash_init(&state, NULL, 0, sizeof digest);
    crypto_generichash_update(&state, (const unsigned char *)text, strlen(text));
    hash_arrays(&state, &job->job.mechanism); /* a job with phases has no arrays here */
    for (size_t i = 0; i < job->job.phases_len; i++)
        hash_arrays(&state, &job->job.phases[i].mechanism);
    crypto_generichash_final(&state, digest, sizeof digest);
    sodium_bin2hex(hash, 65, digest, sizeof digest);
    free(text);
}
