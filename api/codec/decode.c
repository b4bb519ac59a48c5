/*
 * Decodes JSON to a job by the tables of fields.h and collects every error.
 *
 * There are two passes. The first, in this file, reads members and checks types, integer ranges and unknown members.
 * The second, in rules.c, checks the rules between members. A job and a phase contain the same fields of a mechanism,
 * so both use the same code.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "api/codec/meant.h"
#include "api/codec/rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void read_phases(struct api_decoder *decoder, const char *path, const json_t *json,
                        const struct eps__member *field, void *base);

static void read_accountant(struct api_decoder *decoder, const char *path, const json_t *json,
                            const struct eps__member *field, void *place)
{
    const struct eps__member *method = &field->object->members[0];

    if (api__is_string(json))
        api__read_name(decoder, path, json, method, api__at(place, method->offset));
    else if (json_is_object(json))
        api__read_object(decoder, path, json, field->object, place);
    else
        api_errors_add(decoder->errors, path, "must be a name or an object with a method, not %s", api__kind_of(json));
}

static void read_field(struct api_decoder *decoder, const char *path, const json_t *json,
                       const struct eps__member *field, void *base)
{
    void *place = api__at(base, field->offset);

    switch (field->type) {
    case EPS__SHARE:
        if (api__is_word(json, "auto"))
            break;
        api__read_real(decoder, path, json, "a number or \"auto\"", place);
        break;
    case EPS__REAL:
        api__read_real(decoder, path, json, "a number", place);
        break;
    case EPS__INTEGER:
        api__read_integer(decoder, path, json, field, place);
        break;
    case EPS__BOOL:
        if (json_is_boolean(json))
            *(bool *)place = json_is_true(json);
        else
            api_errors_add(decoder->errors, path, "must be true or false, not %s", api__kind_of(json));
        break;
    case EPS__NAME:
        api__read_name(decoder, path, json, field, place);
        break;
    case EPS__ID:
        api__read_id(decoder, path, json, place);
        break;
    case API_JOB_ID:
        api__read_job_id(decoder, path, json, place);
        break;
    case EPS__NUMBERS:
        api__read_numbers(decoder, path, json, field, base);
        break;
    case EPS__ROWS:
        api__read_rows(decoder, path, json, field, base);
        break;
    case EPS__GROUP:
        *(bool *)place = true;
        api__read_object(decoder, path, json, field->object, base);
        break;
    case EPS__OBJECT:
        api__read_object(decoder, path, json, field->object, place);
        break;
    case API_ACCOUNTANT:
        read_accountant(decoder, path, json, field, place);
        break;
    case API_PHASES:
        read_phases(decoder, path, json, field, base);
        break;
    case API_LABEL:
        api__read_label(decoder, path, json);
        break;
    }
    if (field->given)
        *(uint32_t *)api__at(base, field->given_offset) |= field->given;
}

/* The pointer of a member: path/key with ~ and / escaped. A key that is too long is truncated. */
static void join(char out[API_MAX_PATH], const char *path, const char *key)
{
    size_t used = strlen(path); /* only our own names are appended, so it is short */

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

/* The name of the object-valued member of `object` that contains `key`, or NULL. */
static const char *holder_of(const struct eps__object *object, const char *key)
{
    for (size_t i = 0; i < object->len; i++) {
        const struct eps__member *field = &object->members[i];
        if (field->object && api__has_named(field->object, key, EPS__ALL))
            return field->name;
    }
    return NULL;
}

/* Writes where a member that was put at the wrong level belongs, or "" if it belongs nowhere. */
static void right_place(char *where, size_t size, const struct eps__object *top, const char *path, const char *key,
                        const struct eps__object *object)
{
    const char *holder = object == &api__job_object || object == &api__phase_object ? holder_of(object, key) : NULL;
    const char *sibling = object != &api__job_object ? holder_of(&api__job_object, key) : NULL;
    bool in_phase = strncmp(path, "/phases/", 8) == 0;

    where[0] = '\0';
    if (top != &api__job_object) {
        const char *inside = *path == '\0' ? holder_of(top, key) : NULL;
        if (inside)
            snprintf(where, size, "; %s belongs in %s", key, inside);
        else if (*path != '\0' && api__has_named(top, key, EPS__ALL))
            snprintf(where, size, "; %s belongs at the top level", key);
        return;
    }
    if (holder)
        snprintf(where, size, "; %s belongs in %s", key, holder);
    else if (in_phase && object != &api__phase_object && api__has_named(&api__phase_object, key, EPS__ALL))
        snprintf(where, size, "; %s belongs at the top level of the phase", key);
    else if (object != &api__job_object && api__has_named(&api__job_object, key, EPS__ALL))
        snprintf(where, size, "; %s belongs at the top level of the job%s", key, in_phase ? ", beside phases" : "");
    else if (sibling)
        snprintf(where, size, "; %s belongs in %s", key, sibling);
}

enum { NAMES_MAX = 160 }; /* an upper bound: all members of a job, with repetitions */

/* Appends the names of the members of the given variants. */
static size_t add_names(const char *names[NAMES_MAX], size_t len, const struct eps__object *object, uint32_t bit)
{
    for (size_t i = 0; i < object->len && len < NAMES_MAX; i++)
        if (api__has(object, &object->members[i], bit))
            names[len++] = object->members[i].name;
    return len;
}

static size_t add_names_inside(const char *names[NAMES_MAX], size_t len, const struct eps__object *object)
{
    for (size_t i = 0; i < object->len; i++)
        if (object->members[i].object)
            len = add_names(names, len, object->members[i].object, EPS__ALL);
    return len;
}

/* The member of the object that an unknown name probably means, or NULL. */
static const char *meant_here(const char *key, const struct eps__object *object, uint32_t bit)
{
    const char *names[NAMES_MAX];
    return api_meant(key, names, add_names(names, 0, object, bit));
}

/* Writes the member that an unknown name probably means and where it belongs. Searches the object itself, then its
 * member objects, then the rest of the job. */
static void did_you_mean(char *out, size_t size, const struct api_decoder *decoder, const char *path, const char *key,
                         const struct eps__object *object, uint32_t bit)
{
    const char *names[NAMES_MAX];
    char where[96];
    size_t len = add_names_inside(names, add_names(names, 0, object, bit), object);
    len = add_names_inside(names, add_names(names, len, decoder->top, EPS__ALL), decoder->top);
    const char *meant = meant_here(key, object, bit);
    bool here = meant != NULL;
    if (!here)
        meant = api_meant(key, names, len);
    out[0] = '\0';
    if (!meant)
        return;
    where[0] = '\0';
    if (!here)
        right_place(where, sizeof where, decoder->top, path, meant, object);
    /* turns "; p belongs in sampling" into a parenthesis */
    snprintf(out, size, "; did you mean %s%s%s%s?", meant, where[0] ? " (" : "", where[0] ? where + 2 : "",
             where[0] ? ")" : "");
}

/* Reports an unknown member: the variants that have it, or the members that are allowed. */
static void report_unknown(struct api_decoder *decoder, const char *path, const char *key,
                           const struct eps__object *object, unsigned variant, uint32_t bit)
{
    char where[API_MAX_PATH], list[320] = "", elsewhere[96], meant[160] = "";
    size_t used = 0;
    uint32_t takers = 0;

    join(where, path, key);
    right_place(elsewhere, sizeof elsewhere, decoder->top, path, key, object);
    /* "type" is a member of workload, and also what other libraries call family or method */
    if (object->named && meant_here(key, object, bit) == object->members[0].name)
        elsewhere[0] = '\0';
    for (size_t i = 0; i < object->len; i++)
        if (api__has(object, &object->members[i], EPS__ALL) && strcmp(object->members[i].name, key) == 0)
            takers |= object->members[i].variants;
    if (takers && object->misplaced) {
        api_errors_add(decoder->errors, where, "%s", object->misplaced[variant]);
        return;
    }
    for (unsigned i = 0; takers && i < 32 && used < sizeof list; i++) {
        if ((takers & (1u << i)) && api__variant_name(object, i))
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "",
                                     api__variant_name(object, i));
    }
    if (takers) {
        api_errors_add(decoder->errors, where, "unknown field for %s %s; it belongs to %s%s", object->members[0].name,
                       api__variant_name(object, variant), list, elsewhere);
        return;
    }
    for (size_t i = 0; i < object->len && used < sizeof list; i++) {
        bool listed = object->members[i].again && bit == EPS__ALL;
        if (api__has(object, &object->members[i], bit) && !listed)
            used +=
                (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", object->members[i].name);
    }
    if (!elsewhere[0])
        did_you_mean(meant, sizeof meant, decoder, path, key, object, bit);
    api_errors_add(decoder->errors, where, "unknown field%s%s: %s%s", meant, meant[0] ? " Allowed" : "; allowed", list,
                   elsewhere);
}

/* Reads the name that selects the variant. Returns false if it is missing or wrong; the other members cannot be checked
 * then. */
static bool read_variant(struct api_decoder *decoder, const char *path, const json_t *json,
                         const struct eps__object *object, void *base, unsigned *variant)
{
    const struct eps__member *field = &object->members[0];
    const json_t *value = json_object_get(json, field->name);
    char where[API_MAX_PATH], list[256];

    join(where, path, field->name);
    if (api__is_absent(value)) {
        api__list_names(field, list, sizeof list);
        api_errors_add(decoder->errors, where, "is required; allowed: %s", list);
        return false;
    }
    if (!api__read_name(decoder, where, value, field, api__at(base, field->offset)))
        return false;
    *variant = api__variant(object, base, json);
    return true;
}

/* Marks an object whose variant is unknown, so that no rule is applied to its members. */
static void leave_unjudged(struct api_decoder *decoder, const char *path)
{
    if (decoder->unjudged_len < API_UNJUDGED_MAX)
        snprintf(decoder->unjudged[decoder->unjudged_len++], sizeof decoder->unjudged[0], "%s", path);
}

static void read_members(struct api_decoder *decoder, const char *path, const json_t *json,
                         const struct eps__object *object, void *base, uint32_t bit)
{
    char where[API_MAX_PATH];

    for (size_t i = object->named ? 1 : 0; i < object->len; i++) {
        const struct eps__member *field = &object->members[i];
        const json_t *value = json_object_get(json, field->name);
        if (!api__has(object, field, bit))
            continue;
        join(where, path, field->name);
        if (!api__is_absent(value))
            read_field(decoder, where, value, field, base);
        else if (field->required & bit)
            api_errors_add(decoder->errors, where, "is required");
    }
}

void api__read_object(struct api_decoder *decoder, const char *path, const json_t *json,
                      const struct eps__object *object, void *base)
{
    unsigned variant = 0;
    bool judged = true;

    if (!json_is_object(json)) {
        api_errors_add(decoder->errors, path, "must be an object, not %s", api__kind_of(json));
        return;
    }
    if (object->named)
        judged = read_variant(decoder, path, json, object, base, &variant);
    else if (object->has_variants)
        variant = api__variant(object, base, json);
    uint32_t bit = object->has_variants && judged ? 1u << variant : EPS__ALL;
    if (judged)
        read_members(decoder, path, json, object, base, bit);
    else
        leave_unjudged(decoder, path);
    for (void *it = json_object_iter((json_t *)json); it; it = json_object_iter_next((json_t *)json, it)) {
        const char *key = json_object_iter_key(it);
        /* with phases, a member that belongs to the phases may be null */
        uint32_t known = object->misplaced && api__is_absent(json_object_iter_value(it)) ? EPS__ALL : bit;
        if (!api__has_named(object, key, known))
            report_unknown(decoder, path, key, object, variant, bit);
    }
}

static void read_phases(struct api_decoder *decoder, const char *path, const json_t *json,
                        const struct eps__member *field, void *base)
{
    size_t index, len = json_array_size(json);
    json_t *item;

    if (len == 0 || len > EPS_PHASES_MAX) {
        api_errors_add(decoder->errors, path, "must be an array of 1 to %d objects, one per phase", EPS_PHASES_MAX);
        return;
    }
    struct eps_phase *phases = calloc(len, sizeof *phases);
    if (!phases) {
        decoder->errors->out_of_memory = true;
        return;
    }
    memcpy(api__at(base, field->offset), &phases, sizeof phases);
    memcpy(api__at(base, field->len_offset), &len, sizeof len);
    json_array_foreach (json, index, item) {
        char where[API_MAX_PATH];
        api__element_path(where, path, index);
        eps_phase_init(&phases[index]);
        api__check_steps(decoder, where, item);
        api__read_object(decoder, where, item, field->object, &phases[index]);
    }
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
    job->method_alone = json_is_string(json_object_get(json, "accountant"));
    if (api__is_absent(json_object_get(json, "phases")))
        api__check_steps(&decoder, "", json);
    api__read_object(&decoder, "", json, &api__job_object, &job->job);
    if (json_is_object(json))
        api__check_rules(&decoder);
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
    free(job->arrays);
    free(job->job.phases);
    free(job->label);
    free(job);
}
