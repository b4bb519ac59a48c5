/*
 * The canonical form is walked, and each value may be written in another way.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "tests/generate/request.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/codec/codec.h"
#include "tests/unit/draw.h"

static json_t *encoded(const struct eps_job *job)
{
    struct api_job whole = {.job = *job};
    return api_job_encode(&whole, false);
}

char *generated_text(const struct eps_job *job)
{
    json_t *json = encoded(job);
    char *text = api_json_text(json);
    json_decref(json);
    return text;
}

static bool coin(uint64_t *state)
{
    return draw_below(state, 2);
}

/* Whether a member has the default that does not depend on others, by the tables. They describe a mechanism once, at
 * the top. */
static bool is_initial(const json_t *members, const char *pointer, const json_t *value)
{
    const json_t *member;
    size_t i;
    if (strcmp(pointer, "/noise_scale") == 0 || strcmp(pointer, "/count") == 0)
        return json_is_number(value) && json_number_value(value) == 1;
    json_array_foreach (members, i, member) {
        const json_t *initial = json_object_get(member, "initial");
        if (strcmp(json_string_value(json_object_get(member, "pointer")), pointer) == 0 && initial)
            return json_equal(initial, value);
    }
    return false;
}

/* The upper triangle is zeros. */
static void make_square(json_t *rows)
{
    json_t *row;
    size_t i;
    json_array_foreach (rows, i, row)
        while (json_array_size(row) < json_array_size(rows))
            json_array_append_new(row, json_integer(0));
}

static json_t *rewritten(const json_t *value, const json_t *members, const char *pointer, uint64_t *state)
{
    char at[128];
    const char *name;
    json_t *copy, *member;
    size_t i;
    if (json_is_integer(value) && coin(state))
        return json_real((double)json_integer_value(value));
    if (json_is_array(value)) {
        copy = json_array();
        json_array_foreach (value, i, member)
            json_array_append_new(copy, rewritten(member, members, strcmp(pointer, "/phases") ? pointer : "", state));
        return copy;
    }
    if (!json_is_object(value))
        return json_deep_copy(value);
    copy = json_object();
    json_object_foreach ((json_t *)value, name, member) {
        snprintf(at, sizeof at, "%s/%s", pointer, name);
        if (strcmp(name, "decoder") == 0 && strcmp(json_string_value(member), "default") == 0)
            continue; /* the only name that is not written */
        if (!is_initial(members, at, member) || coin(state))
            json_object_set_new(copy, name, rewritten(member, members, at, state));
        else if (coin(state))
            json_object_set_new(copy, name, json_null());
        if (strcmp(name, "rows") == 0 && coin(state))
            make_square(json_object_get(copy, name));
    }
    return copy;
}

/* Epochs, which the canonical form has as n. */
static void put_epochs(json_t *json, const struct eps_mechanism *mechanism)
{
    if (mechanism->n == 0 && !isnan(mechanism->epochs))
        json_object_set_new(json, "epochs", json_real(mechanism->epochs));
}

json_t *generated_request(const struct eps_job *job, uint64_t *state)
{
    json_t *canonical = encoded(job), *members = api_members_encode();
    json_t *request = rewritten(canonical, members, "", state);
    json_t *accountant = json_object_get(request, "accountant"), *method = json_object_get(accountant, "method");
    bool alone = true;
    const char *name;
    json_t *value;
    json_object_foreach (accountant, name, value)
        alone = alone && (value == method || json_is_null(value));
    if (alone && coin(state))
        json_object_set(request, "accountant", method);
    if (coin(state))
        json_object_set_new(request, "label", json_string("r\u00e9sum\u00e9"));
    put_epochs(request, &job->mechanism);
    for (size_t i = 0; i < job->phases_len; i++)
        put_epochs(json_array_get(json_object_get(request, "phases"), i), &job->phases[i].mechanism);
    json_decref(members);
    json_decref(canonical);
    return request;
}
