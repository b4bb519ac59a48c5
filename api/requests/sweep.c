/*
 * Decodes sweeps and builds their points.
 *
 * The members that a job may have depend on other members (each family has its own), so whether a pointer is known is
 * found out by decoding points: one point that decodes proves that all pointers are known. Points are tried evenly
 * across the product, as many as a few megabytes of text allow.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "api/requests/sweep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/codec/values.h"
#include "api/json/build.h"
#include "api/json/pointer.h"
#include "api/json/text.h"

#define TRIED_BYTES 8388608 /* total text of the points that are tried */

/* ---------------------------------------------------------------- points */

/* A copy that shares no objects or arrays; NULL if memory runs out. (The copy function of jansson loses members in that
 * case.) */
static json_t *copy_of(json_t *value)
{
    const char *name;
    json_t *member;
    size_t i;
    if (!json_is_object(value) && !json_is_array(value))
        return json_incref(value);
    struct api_build build = {0};
    json_t *copy = json_is_object(value) ? json_object() : json_array();
    json_object_foreach (value, name, member)
        api__set(&build, copy, name, copy_of(member));
    json_array_foreach (value, i, member)
        api__append(&build, copy, copy_of(member));
    return api__built(&build, copy);
}

json_t *api_sweep_value(const struct api_sweep *sweep, size_t k, size_t point)
{
    const char *pointer;
    json_t *values, *value = NULL;
    size_t rest = sweep->total, i = 0;

    json_object_foreach (sweep->grid, pointer, values) {
        size_t len = json_array_size(values);
        rest /= len;
        if (i++ == k)
            value = json_array_get(values, point / rest % len);
    }
    return value;
}

struct api_job *api_sweep_point(const struct api_sweep *sweep, struct api_errors *errors, size_t point, size_t max_n)
{
    json_t *job = copy_of(sweep->base);
    const char *pointer;
    json_t *values;
    size_t rest = sweep->total;
    bool placed = true;

    json_object_foreach (sweep->grid, pointer, values) {
        size_t len = json_array_size(values);
        rest /= len;
        json_t *copy =
            json_deep_copy(json_array_get(values, point / rest % len)); /* a later pointer may lead into it */
        bool failed = !job || !copy;
        if (!failed && !api__pointer_put(job, pointer, copy, &failed) && !failed) {
            api_errors_add(errors, pointer, "unknown field: its parent is not an object");
            placed = false;
        }
        errors->out_of_memory = errors->out_of_memory || failed;
        json_decref(copy);
    }
    struct api_job *decoded = placed && !errors->out_of_memory ? api_job_decode(errors, job, max_n) : NULL;
    json_decref(job);
    return decoded;
}

/* ---------------------------------------------------------------- decoding */

/* "/grid" followed by the pointer as one token. */
static void grid_pointer(char out[2 * API_POINTER_MAX + 8], const char *pointer)
{
    char *to = out + sprintf(out, "/grid/");
    for (size_t i = 0; pointer[i] && i < API_POINTER_MAX - 1; i++) {
        if (pointer[i] == '~' || pointer[i] == '/') {
            *to++ = '~';
            *to++ = pointer[i] == '~' ? '0' : '1';
        } else {
            *to++ = pointer[i];
        }
    }
    *to = '\0';
}

/* The values of a list as an array, unpacking long lists of numbers. Returns a new reference, or NULL if memory runs
 * out. */
static json_t *unpacked(json_t *list)
{
    size_t len;
    const double *numbers = api__packed(list, &len);
    if (!numbers)
        return json_incref(list);
    struct api_build build = {0};
    json_t *array = json_array();
    for (size_t i = 0; i < len && !build.failed; i++)
        api__append(&build, array, api_number(numbers[i]));
    return api__built(&build, array);
}

static void read_list(struct api_sweep *sweep, struct api_errors *errors, const char *pointer, json_t *list)
{
    char where[2 * API_POINTER_MAX + 8];
    const char *earlier;
    json_t *ignored, *values = unpacked(list);

    grid_pointer(where, pointer);
    if (!values) {
        errors->out_of_memory = true;
        return;
    }
    if (!api__pointer_valid(pointer))
        api_errors_add(errors, where, "must be a JSON pointer to a member of the job, such as \"/sampling/p\"");
    if (!json_is_array(values) || !json_array_size(values))
        api_errors_add(errors, where, "must be an array of at least 1 value");
    json_object_foreach (sweep->grid, earlier, ignored)
        if (api__pointer_within(earlier, pointer))
            api_errors_add(errors, where, "would replace what \"%.100s\" sets; put it before that pointer", earlier);
    size_t len = json_array_size(values);
    sweep->total = len && sweep->total <= API_SWEEP_POINTS ? sweep->total * len : sweep->total;
    if (json_object_set_new(sweep->grid, pointer, values) != 0)
        errors->out_of_memory = true;
}

static void read_grid(struct api_sweep *sweep, struct api_errors *errors, json_t *grid)
{
    const char *pointer;
    json_t *list;

    if (!json_is_object(grid) || !json_object_size(grid)) {
        api_errors_add(errors, "/grid",
                       "must be an object with at least one array of values, each under the JSON pointer of a member");
        return;
    }
    json_object_foreach (grid, pointer, list)
        read_list(sweep, errors, pointer, list);
    if (sweep->total > API_SWEEP_POINTS)
        api_errors_add(errors, "/grid", "the product has more than %d points", API_SWEEP_POINTS);
}

static void write_part(struct text *text, struct api_errors *errors, const char *pointer, const json_t *json,
                       size_t most)
{
    size_t from = text->len;
    text_value(text, json);
    if (!text->failed && text->len - from > most)
        api_errors_add(errors, pointer, "has %zu bytes; the limit is %zu", text->len - from, most);
}

static void write_request(struct api_sweep *sweep, struct api_errors *errors)
{
    struct text text = {0};
    text_puts(&text, "{\"base\":");
    write_part(&text, errors, "/base", sweep->base, API_SWEEP_BASE_BYTES);
    text_puts(&text, ",\"grid\":");
    write_part(&text, errors, "/grid", sweep->grid, API_SWEEP_GRID_BYTES);
    text_puts(&text, "}");
    sweep->request = text_steal(&text);
    errors->out_of_memory = errors->out_of_memory || !sweep->request;
}

static void read_members(struct api_sweep *sweep, struct api_errors *errors, json_t *json)
{
    const char *name;
    json_t *value;

    json_object_foreach (json, name, value) {
        if (strcmp(name, "base") == 0) {
            sweep->base = json_incref(value);
        } else if (strcmp(name, "grid") == 0) {
            read_grid(sweep, errors, value);
        } else if (strcmp(name, "label") == 0) {
            sweep->label = api__group_label(errors, value);
        } else {
            char where[API_LABEL_MAX];
            snprintf(where, sizeof where, "/%.*s", API_LABEL_MAX - 2, name);
            api_errors_add(errors, where, "unknown field; allowed: base, grid, label");
        }
    }
    if (!json_is_object(sweep->base))
        api_errors_add(errors, "/base", "must be a job; the members that the grid sets may be omitted");
    if (!json_object_get(json, "grid"))
        api_errors_add(errors, "/grid",
                       "is required: arrays of values, each under the JSON pointer of a member of the job");
}

/* The place where the client wrote the wrong part of a point: in a list of the grid (*listed is true) or in the
 * base. */
static void locate(const struct api_sweep *sweep, const char *pointer, char where[2 * API_POINTER_MAX + 8],
                   bool *listed)
{
    const char *outer;
    json_t *values;
    *listed = false;
    snprintf(where, 2 * API_POINTER_MAX + 8, "/base%.*s", API_POINTER_MAX, pointer);
    json_object_foreach (sweep->grid, outer, values) {
        if (api__pointer_within(pointer, outer)) {
            grid_pointer(where, outer);
            *listed = true;
        }
    }
}

static bool is_unknown_member(const struct api_violation *violation)
{
    return strncmp(violation->detail, "unknown field", 13) == 0;
}

/* If no point is a valid job, the sweep itself is wrong, unless only the values of the grid are. */
static void judge(const struct api_sweep *sweep, struct api_errors *errors, const struct api_errors *found)
{
    bool wrong = false;
    for (size_t i = 0; i < found->len; i++) {
        char where[2 * API_POINTER_MAX + 8];
        bool listed;
        locate(sweep, found->items[i].pointer, where, &listed);
        wrong = wrong || !listed || is_unknown_member(&found->items[i]);
    }
    for (size_t i = 0; i < found->len && wrong; i++) {
        char where[2 * API_POINTER_MAX + 8];
        bool listed;
        locate(sweep, found->items[i].pointer, where, &listed);
        api_errors_add(errors, where, "%s", found->items[i].detail);
    }
}

static void try_points(const struct api_sweep *sweep, struct api_errors *errors, size_t max_n)
{
    size_t most = TRIED_BYTES / (strlen(sweep->request) + 256) + 1;
    size_t tries = sweep->total < most ? sweep->total : most;
    struct api_errors first = {0};
    bool valid = false;

    for (size_t i = 0; i < tries && !valid && !errors->out_of_memory; i++) {
        struct api_errors found = {0};
        struct api_job *job = api_sweep_point(sweep, &found, i * sweep->total / tries, max_n);
        valid = job != NULL;
        errors->out_of_memory = found.out_of_memory;
        api_job_destroy(job);
        if (i == 0)
            first = found;
        else
            api_errors_clear(&found);
    }
    if (!valid)
        judge(sweep, errors, &first);
    api_errors_clear(&first);
}

struct api_sweep *api_sweep_decode(struct api_errors *errors, const json_t *json, size_t max_n)
{
    struct api_sweep *sweep = calloc(1, sizeof *sweep);
    if (sweep) {
        sweep->total = 1;
        sweep->grid = json_object();
        if (json_is_object(json))
            read_members(sweep, errors, (json_t *)(uintptr_t)json); /* it is only read */
        else
            api_errors_add(errors, "", "must be an object with base and grid");
        if (!errors->len && sweep->grid)
            write_request(sweep, errors);
        if (!errors->len && !errors->out_of_memory && sweep->request)
            try_points(sweep, errors, max_n);
    }
    errors->out_of_memory = errors->out_of_memory || !sweep || !sweep->grid;
    if (errors->len || errors->out_of_memory) {
        api_sweep_destroy(sweep);
        return NULL;
    }
    return sweep;
}

struct api_sweep *api_sweep_read(const char *request)
{
    char message[64];
    struct api_errors errors = {0};
    struct api_sweep *sweep = calloc(1, sizeof *sweep);
    json_t *json = sweep ? api_json_parse(request, strlen(request), message, sizeof message) : NULL;

    if (json) {
        sweep->total = 1;
        sweep->grid = json_object();
        read_members(sweep, &errors, json);
    }
    bool whole = json && sweep->grid && !errors.len && !errors.out_of_memory;
    api_errors_clear(&errors);
    json_decref(json);
    if (!whole) {
        api_sweep_destroy(sweep);
        return NULL;
    }
    return sweep;
}

void api_sweep_destroy(struct api_sweep *sweep)
{
    if (!sweep)
        return;
    json_decref(sweep->base);
    json_decref(sweep->grid);
    free(sweep->label);
    free(sweep->request);
    free(sweep);
}
