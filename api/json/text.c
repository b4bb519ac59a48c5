/*
 * Writes a value as compact text, with numbers as the shortest decimal that decodes to the same double.
 *
 * Jansson writes 17 digits, so 0.1 becomes 0.10000000000000001, which is exact but unexpected. Here 15 and 16 digits
 * are tried first. Whole numbers are written without a fraction, so 1 and 1.0 have the same text.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "api/codec/codec.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/json/number.h"
#include "api/json/numbers.h"

json_t *api_number(double value)
{
    return isfinite(value) ? json_real(value + 0.0) : json_null();
}

/* Removes the '+' and the leading zeros of an exponent: 1e-06 becomes 1e-6. */
static size_t tidy_exponent(char *text)
{
    char *e = strchr(text, 'e');

    if (!e)
        return strlen(text);
    char *from = e + 1, *to = e + 1;
    if (*from == '-')
        *to++ = *from++;
    else if (*from == '+')
        from++;
    while (*from == '0' && from[1])
        from++;
    memmove(to, from, strlen(from) + 1);
    return strlen(text);
}

/* Writes the digits of a whole number. Written by hand because most numbers of most documents are small and whole. */
static size_t integer_text(char text[API_NUMBER_TEXT], int64_t value)
{
    char digits[20];
    size_t len = 0, used = 0;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;

    do {
        digits[used++] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    if (value < 0)
        text[len++] = '-';
    while (used > 0)
        text[len++] = digits[--used];
    text[len] = '\0';
    return len;
}

size_t api__number_text(char text[API_NUMBER_TEXT], double value)
{
    if (!isfinite(value))
        return (size_t)snprintf(text, API_NUMBER_TEXT, "null");
    if (fabs(value) < 1e15 && value == floor(value))
        return integer_text(text, (int64_t)value);
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, API_NUMBER_TEXT, "%.*g", digits, value);
        if (digits == 17 || strtod(text, NULL) == value)
            break;
    }
    return tidy_exponent(text);
}

/* ---------------------------------------------------------------- the buffer */

struct buffer {
    char *text;
    size_t len;
    size_t capacity;
    bool failed;
};

static void put(struct buffer *buffer, const char *text, size_t len)
{
    if (buffer->failed)
        return;
    if (buffer->capacity - buffer->len < len + 1) {
        size_t capacity = 2 * buffer->capacity + len + 256;
        char *grown = realloc(buffer->text, capacity);
        if (!grown) {
            buffer->failed = true;
            return;
        }
        buffer->text = grown;
        buffer->capacity = capacity;
    }
    memcpy(buffer->text + buffer->len, text, len);
    buffer->len += len;
    buffer->text[buffer->len] = '\0';
}

static void put_string(struct buffer *buffer, const char *text, size_t len)
{
    size_t from = 0;

    put(buffer, "\"", 1);
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        char escape[8];
        if (c >= 0x20 && c != '"' && c != '\\')
            continue;
        put(buffer, text + from, i - from);
        if (c == '"' || c == '\\')
            snprintf(escape, sizeof escape, "\\%c", c);
        else if (c == '\n')
            snprintf(escape, sizeof escape, "\\n");
        else
            snprintf(escape, sizeof escape, "\\u%04x", c);
        put(buffer, escape, strlen(escape));
        from = i + 1;
    }
    put(buffer, text + from, len - from);
    put(buffer, "\"", 1);
}

/* ---------------------------------------------------------------- values */

static void put_value(struct buffer *buffer, const json_t *json);

static void put_object(struct buffer *buffer, const json_t *json)
{
    bool first = true;

    put(buffer, "{", 1);
    for (void *it = json_object_iter((json_t *)json); it; it = json_object_iter_next((json_t *)json, it)) {
        const char *key = json_object_iter_key(it);
        if (!first)
            put(buffer, ",", 1);
        first = false;
        put_string(buffer, key, strlen(key));
        put(buffer, ":", 1);
        put_value(buffer, json_object_iter_value(it));
    }
    put(buffer, "}", 1);
}

static void put_array(struct buffer *buffer, const json_t *json)
{
    size_t len = json_array_size(json);

    put(buffer, "[", 1);
    for (size_t i = 0; i < len; i++) {
        if (i > 0)
            put(buffer, ",", 1);
        put_value(buffer, json_array_get(json, i));
    }
    put(buffer, "]", 1);
}

/* Returns false if the node is a string and not a packed array. */
static bool put_packed(struct buffer *buffer, const json_t *json)
{
    size_t len;
    const double *values = api__packed(json, &len);

    if (!values)
        return false;
    put(buffer, "[", 1);
    for (size_t i = 0; i < len; i++) {
        char number[API_NUMBER_TEXT + 1];
        size_t used = api__number_text(number, values[i]);
        number[used] = i + 1 < len ? ',' : ']';
        put(buffer, number, used + 1);
    }
    return true;
}

static void put_value(struct buffer *buffer, const json_t *json)
{
    char number[API_NUMBER_TEXT];

    switch (json_typeof(json)) {
    case JSON_OBJECT:
        put_object(buffer, json);
        break;
    case JSON_ARRAY:
        put_array(buffer, json);
        break;
    case JSON_STRING:
        if (!put_packed(buffer, json))
            put_string(buffer, json_string_value(json), json_string_length(json));
        break;
    case JSON_INTEGER:
        put(buffer, number, integer_text(number, json_integer_value(json)));
        break;
    case JSON_REAL:
        put(buffer, number, api__number_text(number, json_real_value(json)));
        break;
    case JSON_TRUE:
        put(buffer, "true", 4);
        break;
    case JSON_FALSE:
        put(buffer, "false", 5);
        break;
    case JSON_NULL:
        put(buffer, "null", 4);
        break;
    }
}

char *api_json_text(const json_t *json)
{
    struct buffer buffer = {0};

    if (!json)
        return NULL;
    put_value(&buffer, json);
    if (buffer.failed) {
        free(buffer.text);
        return NULL;
    }
    char *fitted = realloc(buffer.text, buffer.len + 1); /* texts are stored and counted by their length */
    return fitted ? fitted : buffer.text;
}
