/*
 * JSON to a job: walks the tables of codec_fields.h over the request and collects every violation.
 *
 * Two passes. The first reads members: types, integer ranges, unknown members. The second is the library's
 * eps_job_check(), on whatever could be read; what it says is left out where the first pass has already spoken
 * about the same member, or where a member seems to be missing only because a neighbour could not be read.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "api/codec_values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_absent(const json_t *json)
{
    return json == NULL || json_is_null(json);
}

static void read_accountant(struct api_decoder *decoder, const char *path, const json_t *json,
                            const struct api_field *field, void *place)
{
    const struct api_field *method = &field->object->fields[0];

    if (api__is_string(json))
        api__read_name(decoder, path, json, method, api__at(place, method->offset));
    else if (json_is_object(json))
        api__read_object(decoder, path, json, field->object, place);
    else
        api_errors_add(decoder->errors, path, "must be a name or an object with a method, not %s", api__kind_of(json));
}

static void read_field(struct api_decoder *decoder, const char *path, const json_t *json, const struct api_field *field,
                       void *base)
{
    void *place = api__at(base, field->offset);

    switch (field->kind) {
    case API_SHARE:
        if (api__is_string(json) && strcmp(json_string_value(json), "auto") == 0)
            break;
        api__read_real(decoder, path, json, "a number or \"auto\"", place);
        break;
    case API_REAL:
        api__read_real(decoder, path, json, "a number", place);
        break;
    case API_INTEGER:
        api__read_integer(decoder, path, json, field, place);
        break;
    case API_BOOL:
        if (json_is_boolean(json))
            *(bool *)place = json_is_true(json);
        else
            api_errors_add(decoder->errors, path, "must be true or false, not %s", api__kind_of(json));
        break;
    case API_NAME:
        api__read_name(decoder, path, json, field, place);
        break;
    case API_ID:
        api__read_id(decoder, path, json, place);
        break;
    case API_JOB_ID:
        api__read_job_id(decoder, path, json, place);
        break;
    case API_NUMBERS:
        api__read_numbers(decoder, path, json, field, base);
        break;
    case API_ROWS:
        api__read_rows(decoder, path, json, field, base);
        break;
    case API_GROUP:
        *(bool *)place = true;
        api__read_object(decoder, path, json, field->object, base);
        break;
    case API_OBJECT:
        api__read_object(decoder, path, json, field->object, place);
        break;
    case API_ACCOUNTANT:
        read_accountant(decoder, path, json, field, place);
        break;
    case API_LABEL:
        api__read_label(decoder, path, json);
        break;
    }
    if (field->given)
        *(uint32_t *)api__at(base, field->given_offset) |= field->given;
}

/* A member's pointer: path/key with ~ and / escaped, cut where a client's key is too long to repeat. */
static void join(char out[API_MAX_PATH], const char *path, const char *key)
{
    size_t used = strlen(path); /* of our own names only, so it is short */

    memcpy(out, path, used);
    out[used++] = '/';
    for (; *key && used + 8 < API_MAX_PATH; key++) {
        if (*key == '~' || *key == '/') {
            out[used++] = '~';
            out[used++] = *key == '~' ? '0' : '1';
        } else {
            out[used++] = *key;
        }
    }
    if (*key)
        used += (size_t)snprintf(out + used, 4, "...");
    out[used] = '\0';
}

static bool has_field(const struct api_object *object, const char *key, uint32_t variant_bit)
{
    for (size_t i = 0; i < object->len; i++) {
        if ((object->fields[i].variants & variant_bit) && strcmp(object->fields[i].name, key) == 0)
            return true;
    }
    return false;
}

/* Where a member that was written at the wrong level belongs: into `where`, "" if nowhere. */
static void right_place(char *where, size_t size, const struct api_object *top, const char *path, const char *key)
{
    where[0] = '\0';
    if (*path != '\0') {
        if (has_field(top, key, API_ALL))
            snprintf(where, size, "; %s goes to the top level%s", key, top == &api__job_object ? " of the job" : "");
        return;
    }
    for (size_t i = 0; i < top->len && !*where; i++) {
        const struct api_field *field = &top->fields[i];
        if (field->object && has_field(field->object, key, API_ALL))
            snprintf(where, size, "; %s goes into %s", key, field->name);
    }
}

/* A member that the object does not have: says who has it, or what there is. */
static void report_unknown(struct api_decoder *decoder, const char *path, const char *key,
                           const struct api_object *object, unsigned variant, uint32_t bit)
{
    char where[API_MAX_PATH], list[320] = "", elsewhere[96];
    size_t used = 0;
    uint32_t takers = 0;

    join(where, path, key);
    right_place(elsewhere, sizeof elsewhere, decoder->top, path, key);
    for (size_t i = 0; i < object->len; i++) {
        if (strcmp(object->fields[i].name, key) == 0)
            takers |= object->fields[i].variants;
    }
    for (unsigned i = 0; takers && i < 32 && used < sizeof list; i++) {
        if ((takers & (1u << i)) && object->variant_name(i))
            used +=
                (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", object->variant_name(i));
    }
    if (takers) {
        api_errors_add(decoder->errors, where, "is no member with %s %s: it goes with %s%s", object->fields[0].name,
                       object->variant_name(variant), list, elsewhere);
        return;
    }
    for (size_t i = 0; i < object->len && used < sizeof list; i++) {
        if ((object->fields[i].variants & bit) &&
            (i == 0 || strcmp(object->fields[i].name, object->fields[i - 1].name) != 0))
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", object->fields[i].name);
    }
    api_errors_add(decoder->errors, where, "is no member here; there are %s%s", list, elsewhere);
}

/* The name that chooses the variant. False where it is missing or wrong: then nothing else can be judged. */
static bool read_variant(struct api_decoder *decoder, const char *path, const json_t *json,
                         const struct api_object *object, void *base, unsigned *variant)
{
    const struct api_field *field = &object->fields[0];
    const json_t *value = json_object_get(json, field->name);
    char where[API_MAX_PATH], list[256];

    join(where, path, field->name);
    if (is_absent(value)) {
        api__list_names(field, list, sizeof list);
        api_errors_add(decoder->errors, where, "is required: one of %s", list);
        return false;
    }
    if (!api__read_name(decoder, where, value, field, api__at(base, field->offset)))
        return false;
    *variant = api__variant(object, base, json);
    return true;
}

void api__read_object(struct api_decoder *decoder, const char *path, const json_t *json,
                      const struct api_object *object, void *base)
{
    unsigned variant = 0;
    bool judged = true;
    char where[API_MAX_PATH];

    if (!json_is_object(json)) {
        api_errors_add(decoder->errors, path, "must be an object, not %s", api__kind_of(json));
        return;
    }
    if (object->has_variants)
        judged = read_variant(decoder, path, json, object, base, &variant);
    if (!judged && decoder->unjudged_len < sizeof decoder->unjudged / sizeof decoder->unjudged[0])
        snprintf(decoder->unjudged[decoder->unjudged_len++], sizeof decoder->unjudged[0], "%s", path);

    uint32_t bit = object->has_variants && judged ? 1u << variant : API_ALL;
    for (size_t i = object->has_variants ? 1 : 0; judged && i < object->len; i++) {
        const struct api_field *field = &object->fields[i];
        const json_t *value = json_object_get(json, field->name);
        if (!(field->variants & bit))
            continue;
        join(where, path, field->name);
        if (!is_absent(value))
            read_field(decoder, where, value, field, base);
        else if (field->required)
            api_errors_add(decoder->errors, where, "is required");
    }
    for (void *it = json_object_iter((json_t *)json); it; it = json_object_iter_next((json_t *)json, it)) {
        const char *key = json_object_iter_key(it);
        if (!has_field(object, key, bit))
            report_unknown(decoder, path, key, object, variant, bit);
    }
}

/* ---------------------------------------------------------------- the rules */

/* Whether the request has a value at this pointer. */
static bool is_given(const json_t *json, const char *pointer)
{
    while (*pointer == '/' && json) {
        size_t len = strcspn(++pointer, "/");
        char key[64];
        if (len >= sizeof key)
            return false;
        memcpy(key, pointer, len);
        key[len] = '\0';
        size_t numbers;
        if (api__packed(json, &numbers))
            return strtoul(key, NULL, 10) < numbers;
        json = json_is_array(json) ? json_array_get(json, strtoul(key, NULL, 10)) : json_object_get(json, key);
        pointer += len;
    }
    return !is_absent(json);
}

static bool is_under(const char *pointer, const char *above)
{
    size_t len = strlen(above);

    return strncmp(pointer, above, len) == 0 && (pointer[len] == '\0' || pointer[len] == '/');
}

/* Whether the first pass has made this violation moot. */
static bool is_moot(const struct api_decoder *decoder, const char *pointer)
{
    const char *slash = strrchr(pointer, '/');
    size_t parent = slash ? (size_t)(slash - pointer) : 0;
    bool given = is_given(decoder->root, pointer);

    for (size_t i = 0; i < decoder->unjudged_len; i++) {
        if (is_under(pointer, decoder->unjudged[i]))
            return true;
    }
    for (size_t i = 0; i < decoder->read_errors; i++) {
        const char *read = decoder->errors->items[i].pointer;
        if (*pointer == '\0') { /* two of three: one that could not be read is no absent one */
            if (strcmp(read, "/epsilon") == 0 || strcmp(read, "/delta") == 0 || strcmp(read, "/noise_multiplier") == 0)
                return true;
            continue;
        }
        if (is_under(pointer, read) || is_under(read, pointer))
            return true;
        const char *read_slash = strrchr(read, '/');
        if (!given && read_slash && (size_t)(read_slash - read) == parent && strncmp(read, pointer, parent) == 0)
            return true;
    }
    return false;
}

const char *api_job_pointer(const struct api_job *job, const char *pointer)
{
    if (job->method_alone && strcmp(pointer, "/accountant/method") == 0)
        return "/accountant";
    if (job->by_epochs && strcmp(pointer, "/n") == 0)
        return "/epochs";
    return pointer;
}

void api_job_locate(const struct api_job *job, struct eps_error *error)
{
    const char *pointer = api_job_pointer(job, error->pointer);

    if (pointer != error->pointer)
        snprintf(error->pointer, sizeof error->pointer, "%s", pointer);
}

void api__report_rule(void *user, const char *pointer, const char *message)
{
    struct api_decoder *decoder = user;

    pointer = decoder->job ? api_job_pointer(decoder->job, pointer) : pointer;
    if (is_moot(decoder, pointer))
        return;
    api_errors_add(decoder->errors, pointer, "%s", message);
}

/* One of n and epochs: in the canonical form n says what epochs does. */
static void check_steps(struct api_decoder *decoder)
{
    bool n = is_given(decoder->root, "/n"), epochs = is_given(decoder->root, "/epochs");

    if (n && epochs)
        api_errors_add(decoder->errors, "/epochs", "give n or epochs, not both");
    if (!n && !epochs)
        api_errors_add(decoder->errors, "/n",
                       "is required: the number of steps; or give epochs, with sampling.batch_size and "
                       "sampling.dataset_size, and n is ceil(epochs dataset_size/batch_size)");
}

/* A warm start that was asked for is refused where the defaults took the cold one. */
void api__check_warm_start(struct api_decoder *decoder, const struct eps_sampling *sampling)
{
    const json_t *json = json_object_get(decoder->root, "sampling");

    if (!sampling->warm_start && json_is_true(json_object_get(json, "warm_start")))
        api_errors_add(decoder->errors, "/sampling/warm_start",
                       "must be false with examples_per_user over 1: only the cold start is analysed");
}

struct api_job *api_job_decode(struct api_errors *errors, const json_t *json, size_t max_n)
{
    struct api_job *job = calloc(1, sizeof *job);
    struct api_decoder decoder = {.errors = errors,
                                  .job = job,
                                  .top = &api__job_object,
                                  .root = json,
                                  .max_n = max_n > 0 ? max_n : (size_t)1 << 24};
    size_t before = errors->len;

    if (!job) {
        errors->out_of_memory = true;
        return NULL;
    }
    eps_job_init(&job->job);
    if (json_is_object(json)) {
        check_steps(&decoder);
        job->by_epochs = is_given(json, "/epochs");
        job->method_alone = json_is_string(json_object_get(json, "accountant"));
    }
    api__read_object(&decoder, "", json, &api__job_object, &job->job);
    if (json_is_object(json)) {
        eps_job_defaults(&job->job);
        api__check_warm_start(&decoder, &job->job.mechanism.sampling);
        decoder.read_errors = errors->len;
        eps_job_check(&job->job, decoder.max_n, api__report_rule, &decoder);
    }
    if (errors->len == before && !errors->out_of_memory)
        return job;
    api_job_destroy(job);
    return NULL;
}

void api_job_destroy(struct api_job *job)
{
    if (!job)
        return;
    for (size_t i = 0; i < job->arrays_len; i++)
        free(job->arrays[i]);
    free(job->label);
    free(job);
}
