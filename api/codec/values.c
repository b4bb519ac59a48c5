/*
 * Reads the values of a request: exact numbers, names and arrays.
 *
 * Integers may be written in any notation (1000, 1000.0, 1e3) but are never rounded silently. Arrays may hold a million
 * numbers, so the common element takes a fast path. Memory for a matrix is allocated only after its rows have been
 * counted, so the size of the body bounds it.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "api/codec/values.h"

#include "api/codec/meant.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LISTED 16 /* errors listed per array */

const char *api__kind_of(const json_t *json)
{
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return api__is_string(json) ? "a string" : "an array";
    case JSON_TRUE:
    case JSON_FALSE:
        return "a boolean";
    case JSON_NULL:
        return "null";
    default:
        return "a number";
    }
}

/* ---------------------------------------------------------------- values */

/* Reads a finite double and turns negative zero into zero. Returns false, with an error, if the text is not an exact
 * number. */
static bool read_real(struct api_decoder *decoder, const char *path, const json_t *json, const char *wanted,
                      double *out)
{
    if (json_is_integer(json)) {
        json_int_t integer = json_integer_value(json);
        double value = (double)integer;
        /* 2^63 as a double has no integer to compare with */
        if (fabs(value) >= 0x1p63 || (json_int_t)value != integer) {
            api_errors_add(decoder->errors, path,
                           "%lld is not exactly a double; use a number that is, or write it as a decimal",
                           (long long)integer);
            return false;
        }
        *out = value;
        return true;
    }
    if (!json_is_real(json)) {
        api_errors_add(decoder->errors, path, "must be %s, not %s", wanted, api__kind_of(json));
        return false;
    }
    *out = json_real_value(json) + 0.0;
    return true;
}

void api__read_real(struct api_decoder *decoder, const char *path, const json_t *json, const char *wanted, double *out)
{
    (void)read_real(decoder, path, json, wanted, out);
}

static void integer_range(struct api_decoder *decoder, const char *path, int64_t least, int64_t most)
{
    if (most == EPS__EXACT_MOST)
        api_errors_add(decoder->errors, path, "must be an integer of at least %lld (and at most 2^53)",
                       (long long)least);
    else
        api_errors_add(decoder->errors, path, "must be an integer in [%lld, %lld]", (long long)least, (long long)most);
}

void api__read_integer(struct api_decoder *decoder, const char *path, const json_t *json,
                       const struct eps__member *field, void *place)
{
    int64_t value, most = field->most ? field->most : (int64_t)decoder->max_n;

    if (field->largest && api__is_word(json, "max")) {
        *(size_t *)place = EPS_LARGEST;
        return;
    }
    if (json_is_integer(json)) {
        value = json_integer_value(json);
    } else if (json_is_real(json)) {
        double real = json_real_value(json);
        if (real != floor(real)) {
            api_errors_add(decoder->errors, path, "must be an integer, not %.17g", real);
            return;
        }
        /* from 2^53 on a decimal may have been rounded, so only the integer notation is exact */
        if (fabs(real) >= (double)EPS__EXACT_MOST) {
            integer_range(decoder, path, field->least, most);
            return;
        }
        value = (int64_t)real;
    } else {
        api_errors_add(decoder->errors, path, "must be an integer%s, not %s", field->largest ? " or \"max\"" : "",
                       api__kind_of(json));
        return;
    }
    if (value < field->least || value > most) {
        integer_range(decoder, path, field->least, most);
        return;
    }
    if (field->size == sizeof(unsigned))
        *(unsigned *)place = (unsigned)value;
    else
        memcpy(place, &value, sizeof value);
}

void api__list_names(const struct eps__member *field, char *list, size_t size)
{
    size_t used = 0;

    list[0] = '\0';
    for (unsigned i = 0; i < 32 && used < size; i++)
        if (field->allowed & (1u << i))
            used += (size_t)snprintf(list + used, size - used, "%s%s", used ? ", " : "", api__name_at(field, i));
}

static const char *meant_value(const struct eps__member *field, const char *text)
{
    const char *names[32];
    size_t len = 0;

    for (unsigned i = 0; i < 32; i++)
        if (field->allowed & (1u << i))
            names[len++] = api__name_at(field, i);
    return api_meant(text, names, len);
}

bool api__read_name(struct api_decoder *decoder, const char *path, const json_t *json, const struct eps__member *field,
                    void *place)
{
    char list[256];

    for (unsigned i = 0; i < 32; i++) {
        if (!(field->allowed & (1u << i)) || !api__is_word(json, api__name_at(field, i)))
            continue;
        memcpy(place, &i, sizeof i);
        return true;
    }
    api__list_names(field, list, sizeof list);
    if (api__is_string(json)) {
        const char *meant = meant_value(field, json_string_value(json));
        api_errors_add(decoder->errors, path, "must be one of %s, not \"%.64s\"%s%s%s", list, json_string_value(json),
                       meant ? "; did you mean " : "", meant ? meant : "", meant ? "?" : "");
    } else
        api_errors_add(decoder->errors, path, "must be one of %s, not %s", list, api__kind_of(json));
    return false;
}

void api__read_id(struct api_decoder *decoder, const char *path, const json_t *json, char *place)
{
    if (!api__is_string(json) || json_string_length(json) != 64 || strlen(json_string_value(json)) != 64)
        api_errors_add(decoder->errors, path,
                       "must be a string of 64 lower-case hexadecimal digits, the factorization.id of an earlier "
                       "result");
    else
        memcpy(place, json_string_value(json), 65);
}

void api__read_job_id(struct api_decoder *decoder, const char *path, const json_t *json, char *place)
{
    size_t len = API_JOB_ID_SIZE - 1;

    if (!api__is_string(json) || json_string_length(json) != len || strlen(json_string_value(json)) != len)
        api_errors_add(decoder->errors, path, "must be a string of %zu characters, the id of a job", len);
    else
        memcpy(place, json_string_value(json), len + 1);
}

size_t api_text_characters(const char *text, size_t len)
{
    size_t characters = 0;

    for (size_t i = 0; i < len; i++)
        characters += ((unsigned char)text[i] & 0xC0) != 0x80;
    return characters;
}

void api__read_label(struct api_decoder *decoder, const char *path, const json_t *json)
{
    if (!api__is_string(json)) {
        api_errors_add(decoder->errors, path, "must be a string, not %s", api__kind_of(json));
        return;
    }
    const char *text = json_string_value(json);
    size_t len = json_string_length(json);
    size_t characters = api_text_characters(text, len);
    if (strlen(text) != len)
        api_errors_add(decoder->errors, path, "must not contain the character U+0000");
    else if (characters > API_LABEL_MAX)
        api_errors_add(decoder->errors, path, "must have at most %d characters, not %zu", API_LABEL_MAX, characters);
    else if (!(decoder->job->label = strdup(text)))
        decoder->errors->out_of_memory = true;
}

char *api__group_label(struct api_errors *errors, const json_t *json)
{
    const char *text = json_string_value(json);
    size_t len = json_string_length(json);
    if (api__is_absent(json))
        return NULL;
    if (!api__is_string(json) || strlen(text) != len || api_text_characters(text, len) > API_LABEL_MAX) {
        api_errors_add(errors, "/label", "must be a string of at most %d characters, none of them U+0000",
                       API_LABEL_MAX);
        return NULL;
    }
    char *label = strdup(text);
    errors->out_of_memory = errors->out_of_memory || !label;
    return label;
}

/* ---------------------------------------------------------------- arrays */

/* Memory for `len` numbers, owned by the job. */
static double *keep_array(struct api_decoder *decoder, size_t len)
{
    struct api_job *job = decoder->job;
    double **arrays = job->arrays, *values = NULL;

    if ((job->arrays_len & (job->arrays_len - 1)) == 0) /* full: the capacity is the next power of two */
        arrays = realloc(job->arrays, (job->arrays_len ? 2 * job->arrays_len : 1) * sizeof(*arrays));
    if (arrays) {
        job->arrays = arrays;
        values = calloc(len, sizeof *values);
    }
    if (!values)
        decoder->errors->out_of_memory = true;
    else
        job->arrays[job->arrays_len++] = values;
    return values;
}

void api__element_path(char out[API_MAX_PATH], const char *path, size_t index)
{
    snprintf(out, API_MAX_PATH, "%.200s/%zu", path, index);
}

/* The length of an array, packed or not; 0 if the value is not an array. */
static size_t array_len(const json_t *json)
{
    size_t len;
    return api__packed(json, &len) ? len : json_array_size(json);
}

static bool is_array(const json_t *json)
{
    return json_is_array(json) || array_len(json) > 0;
}

/* Reads the numbers of one JSON array. `listed` counts the errors reported so far. */
static void read_elements(struct api_decoder *decoder, const char *path, const json_t *json, double *values,
                          size_t *listed)
{
    size_t index, len;
    json_t *element;
    const double *packed = api__packed(json, &len);

    if (packed)
        memcpy(values, packed, len * sizeof *values);
    json_array_foreach (json, index, element) {
        char where[API_MAX_PATH];
        if (json_is_real(element)) { /* the common case, which needs no path */
            values[index] = json_real_value(element) + 0.0;
            continue;
        }
        if (*listed >= MAX_LISTED)
            continue;
        api__element_path(where, path, index);
        if (!read_real(decoder, where, element, "a number", &values[index]))
            ++*listed;
    }
}

void api__read_numbers(struct api_decoder *decoder, const char *path, const json_t *json,
                       const struct eps__member *field, void *base)
{
    size_t listed = 0, known, len = array_len(json);

    if (len == 0) {
        api_errors_add(decoder->errors, path, "must be an array of at least 1 number%s%s",
                       json_is_array(json) ? "" : ", not ", json_is_array(json) ? "" : api__kind_of(json));
        return;
    }
    memcpy(&known, api__at(base, field->len_offset), sizeof known);
    if (known != 0 && known != len) { /* two arrays of the same length: decay, then scale */
        api_errors_add(decoder->errors, path,
                       "has %zu numbers, but its companion has %zu; they must have the same length", len, known);
        return;
    }
    double *values = keep_array(decoder, len);
    if (!values)
        return;
    read_elements(decoder, path, json, values, &listed);
    memcpy(api__at(base, field->offset), &values, sizeof values);
    memcpy(api__at(base, field->len_offset), &len, sizeof len);
}

/* Whether every row has i+1 or n numbers. Only then are n x n numbers allocated. */
static bool rows_have_shape(struct api_decoder *decoder, const char *path, const json_t *json)
{
    size_t index, n = json_array_size(json), listed = 0;
    json_t *row;

    json_array_foreach (json, index, row) {
        char where[API_MAX_PATH];
        size_t len = array_len(row);
        if (is_array(row) && (len == index + 1 || len == n))
            continue;
        if (listed++ >= MAX_LISTED)
            break;
        api__element_path(where, path, index);
        if (is_array(row))
            api_errors_add(decoder->errors, where, "has %zu numbers; row %zu must have %zu (the lower triangle) or %zu",
                           len, index, index + 1, n);
        else
            api_errors_add(decoder->errors, where, "must be an array of numbers, not %s", api__kind_of(row));
    }
    return listed == 0;
}

void api__read_rows(struct api_decoder *decoder, const char *path, const json_t *json, const struct eps__member *field,
                    void *base)
{
    size_t index, listed = 0, n = json_array_size(json);
    json_t *row;

    if (array_len(json) > n) {
        api_errors_add(decoder->errors, path, "must be an array of rows, each an array of numbers");
        return;
    }
    if (n == 0) {
        api_errors_add(decoder->errors, path, "must be an array of at least 1 row%s%s",
                       json_is_array(json) ? "" : ", not ", json_is_array(json) ? "" : api__kind_of(json));
        return;
    }
    if (!rows_have_shape(decoder, path, json))
        return;
    double *values = keep_array(decoder, n * n);
    if (!values)
        return;
    json_array_foreach (json, index, row) {
        char where[API_MAX_PATH];
        api__element_path(where, path, index);
        read_elements(decoder, where, row, values + index * n, &listed);
    }
    memcpy(api__at(base, field->offset), &values, sizeof values);
    memcpy(api__at(base, field->len_offset), &n, sizeof n);
}
