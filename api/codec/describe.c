/*
 * Encodes the tables of members as JSON for the form of the dashboard: types, names, defaults, ranges, and the variants
 * that have each member.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/codec/fields.h"
#include "api/json/build.h"

#define POINTER_SIZE 96

/* An object whose members are encoded. */
struct place {
    const struct eps__object *object;
    const char *pointer;
    const char *of;               /* the pointer of the member that selects the variant; "": none */
    const struct eps__member *by; /* that member */
    uint32_t variants;            /* of a group: the variants that have it */
};

struct describer {
    json_t *array;
    struct api_build build;
};

/* The library's row of a member, which has the range and the default. The codec has its own rows for members that are
 * at another place in JSON. */
static const struct eps__member *row_of(const struct eps__object *object, const struct eps__member *member)
{
    const struct eps__object *const parts[] = {&eps__query_object, &eps__mechanism_object, &eps__sampling_object};

    for (size_t i = 0; object == &api__job_object && i < sizeof parts / sizeof parts[0]; i++) {
        for (size_t k = 0; k < parts[i]->len; k++) {
            const struct eps__member *row = &parts[i]->members[k];
            if (row->name && strcmp(row->name, member->name) == 0)
                return row;
        }
    }
    return member;
}

static const char *type_name(unsigned type)
{
    switch (type) {
    case EPS__REAL:
    case EPS__SHARE:
        return "real";
    case EPS__INTEGER:
        return "integer";
    case EPS__BOOL:
        return "boolean";
    case EPS__NAME:
        return "name";
    case EPS__ID:
        return "id";
    case EPS__NUMBERS:
        return "numbers";
    case EPS__ROWS:
        return "rows";
    case API_PHASES:
        return "phases";
    case API_LABEL:
        return "label";
    default:
        return NULL;
    }
}

/* The names of the allowed values whose bits are set. */
static json_t *encode_names(struct describer *describer, const struct eps__member *member, uint32_t bits)
{
    json_t *names = json_array();

    for (unsigned value = 0; value < 32; value++)
        if (member->allowed & bits & (1u << value))
            api__append(&describer->build, names, json_string(api__name_at(member, value)));
    return names;
}

static void set_initial(struct describer *describer, json_t *json, const struct eps__member *row)
{
    bool real = row->type == EPS__REAL || row->type == EPS__SHARE;

    if (row->required)
        return;
    if (row->type == EPS__BOOL)
        api__set(&describer->build, json, "initial", json_boolean(row->initial != 0));
    else if (row->type == EPS__NAME && (row->allowed & (1u << (unsigned)row->initial)))
        api__set(&describer->build, json, "initial", json_string(api__name_at(row, (unsigned)row->initial)));
    else if (row->type == EPS__INTEGER && (int64_t)row->initial != row->absent)
        api__set(&describer->build, json, "initial", json_integer((json_int_t)row->initial));
    else if (real && !isnan(row->initial))
        api__set(&describer->build, json, "initial", api_number(row->initial));
}

static void set_range(struct describer *describer, json_t *json, const struct eps__member *row)
{
    char text[64];

    if (row->ranged)
        api__set(&describer->build, json, "range", json_string(eps__range_text(row->quantity)));
    if (row->type != EPS__INTEGER || (row->least <= 1 && (row->most == 0 || row->most == EPS__EXACT_MOST)))
        return; /* a count has no range */
    snprintf(text, sizeof text, "[%" PRId64 ", %" PRId64 "]", row->least, row->most);
    api__set(&describer->build, json, "range", json_string(text));
}

static void describe_member(struct describer *describer, const struct place *place, const struct eps__member *member,
                            const char *pointer)
{
    const struct eps__member *row = row_of(place->object, member);
    json_t *json = json_object();

    api__set(&describer->build, json, "pointer", json_string(pointer));
    api__set(&describer->build, json, "type", json_string(type_name(member->type)));
    if (place->by && (place->by->allowed & ~(member->variants & place->variants))) {
        api__set(&describer->build, json, "of", json_string(place->of));
        api__set(&describer->build, json, "variants",
                 encode_names(describer, place->by, member->variants & place->variants));
    }
    if (member->type == EPS__NAME)
        api__set(&describer->build, json, "names", encode_names(describer, member, UINT32_MAX));
    set_initial(describer, json, row);
    set_range(describer, json, row);
    api__append(&describer->build, describer->array, json);
}

static void describe_object(struct describer *describer, const struct place *place)
{
    const struct eps__object *object = place->object;

    for (size_t i = 0; i < object->len; i++) {
        const struct eps__member *member = &object->members[i];
        char pointer[POINTER_SIZE], first[2 * POINTER_SIZE];
        if (!api__has(object, member, UINT32_MAX))
            continue;
        snprintf(pointer, sizeof pointer, "%s/%s", place->pointer, member->name);
        if (type_name(member->type)) {
            describe_member(describer, place, member, pointer);
        } else if (member->object->group) {
            struct place inside = {member->object, pointer, place->of, place->by, member->variants};
            describe_object(describer, &inside);
        } else {
            const struct eps__member *by = member->object->named ? &member->object->members[0] : NULL;
            snprintf(first, sizeof first, "%s/%s", pointer, by ? by->name : "");
            struct place inside = {member->object, pointer, first, by, UINT32_MAX};
            describe_object(describer, &inside);
        }
    }
}

json_t *api_members_encode(void)
{
    struct describer describer = {.array = json_array()};
    const struct place top = {.object = &api__job_object, .pointer = "", .of = "", .variants = UINT32_MAX};

    describe_object(&describer, &top);
    return api__built(&describer.build, describer.array);
}
