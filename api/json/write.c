/*
 * Writes values as compact text.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "api/codec/codec.h"

#include <math.h>
#include <string.h>

#include "api/json/numbers.h"
#include "api/json/text.h"

json_t *api_number(double value)
{
    return isfinite(value) ? json_real(value + 0.0) : json_null();
}

static void put_object(struct text *text, const json_t *json)
{
    bool first = true;

    text_append(text, "{", 1);
    for (void *it = json_object_iter((json_t *)json); it; it = json_object_iter_next((json_t *)json, it)) {
        const char *key = json_object_iter_key(it);
        if (!first)
            text_append(text, ",", 1);
        first = false;
        text_string(text, key, strlen(key));
        text_append(text, ":", 1);
        text_value(text, json_object_iter_value(it));
    }
    text_append(text, "}", 1);
}

static void put_array(struct text *text, const json_t *json)
{
    size_t len = json_array_size(json);

    text_append(text, "[", 1);
    for (size_t i = 0; i < len; i++) {
        if (i > 0)
            text_append(text, ",", 1);
        text_value(text, json_array_get(json, i));
    }
    text_append(text, "]", 1);
}

/* Returns false if the node is a string and not a packed array. */
static bool put_packed(struct text *text, const json_t *json)
{
    size_t len;
    const double *values = api__packed(json, &len);

    if (!values)
        return false;
    text_append(text, "[", 1);
    for (size_t i = 0; i < len; i++) {
        if (i > 0)
            text_append(text, ",", 1);
        text_decimal(text, values[i]);
    }
    text_append(text, "]", 1);
    return true;
}

void text_value(struct text *text, const json_t *json)
{
    if (!json) {
        text->failed = true;
        return;
    }
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        put_object(text, json);
        break;
    case JSON_ARRAY:
        put_array(text, json);
        break;
    case JSON_STRING:
        if (!put_packed(text, json))
            text_string(text, json_string_value(json), json_string_length(json));
        break;
    case JSON_INTEGER:
        text_integer(text, json_integer_value(json));
        break;
    case JSON_REAL:
        text_decimal(text, json_real_value(json));
        break;
    case JSON_TRUE:
        text_puts(text, "true");
        break;
    case JSON_FALSE:
        text_puts(text, "false");
        break;
    case JSON_NULL:
        text_puts(text, "null");
        break;
    }
}

void text_value_new(struct text *text, json_t *json)
{
    text_value(text, json);
    json_decref(json);
}

char *api_json_text(const json_t *json)
{
    struct text text = {0};
    text_value(&text, json);
    return text_steal(&text);
}

char *api_json_text_new(json_t *json)
{
    char *text = api_json_text(json);
    json_decref(json);
    return text;
}
