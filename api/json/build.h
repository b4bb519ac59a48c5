/*
 * Builds values. A flag replaces an error check after every member. Internal to api/.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef API_JSON_BUILD_H
#define API_JSON_BUILD_H

#include <jansson.h>
#include <stdbool.h>

/* Values under construction. Failed: memory ran out, or a value was NULL. */
struct api_build {
    bool failed;
};

/* Both take ownership of the value, which is lost if they fail. */
static inline void api__set(struct api_build *build, json_t *object, const char *key, json_t *value)
{
    build->failed = json_object_set_new_nocheck(object, key, value) != 0 || build->failed;
}

static inline void api__append(struct api_build *build, json_t *array, json_t *value)
{
    build->failed = json_array_append_new(array, value) != 0 || build->failed;
}

/* The value, of which it takes ownership; NULL if the construction failed. */
static inline json_t *api__built(const struct api_build *build, json_t *json)
{
    if (!build->failed)
        return json;
    json_decref(json);
    return NULL;
}

#endif
