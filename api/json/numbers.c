/*
 * Reads and stores packed arrays. The grammar is exactly that of JSON; any deviation is left to jansson, so that syntax
 * errors are reported in one place. A text is scanned at most twice: first for its shape and then, once the count is
 * known, for its values.
 *
 * The decimal point is that of the C locale, which the service never changes.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "api/json/numbers.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define INTEGER_DIGITS 18 /* fit in 64 bits */
#define TOKEN_MAX 64      /* characters of a number; no double needs more */

static const char mark[8] = {'\xff', '\xfe', 'n', 'u', 'm', 'b', 'e', 'r'};

json_t *api__pack(const double *values, size_t len)
{
    size_t bytes = len * sizeof *values;
    char *packed = malloc(sizeof mark + bytes);
    if (!packed)
        return NULL;
    memcpy(packed, mark, sizeof mark);
    memcpy(packed + sizeof mark, values, bytes);
    json_t *json = json_stringn_nocheck(packed, sizeof mark + bytes);
    free(packed);
    return json;
}

const double *api__packed(const json_t *json, size_t *len)
{
    if (!json_is_string(json) || json_string_length(json) < sizeof mark ||
        memcmp(json_string_value(json), mark, sizeof mark) != 0)
        return NULL;
    const char *values = json_string_value(json) + sizeof mark; /* eight bytes into an allocation: aligned */
    *len = (json_string_length(json) - sizeof mark) / sizeof(double);
    return (const double *)(const void *)values;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static size_t skip_digits(const char *text, size_t len, size_t at)
{
    while (at < len && is_digit(text[at]))
        at++;
    return at;
}

/* The end of the number at text[at], or `at` if there is no number that can be read exactly. */
static size_t number_end(const char *text, size_t len, size_t at)
{
    size_t start = at, digits = at + (at < len && text[at] == '-');
    bool integer = true;

    at = skip_digits(text, len, digits);
    if (at == digits || (text[digits] == '0' && at > digits + 1))
        return start;
    size_t integer_digits = at - digits;
    if (at < len && text[at] == '.') {
        size_t fraction = at + 1;
        at = skip_digits(text, len, fraction);
        if (at == fraction)
            return start;
        integer = false;
    }
    if (at < len && (text[at] == 'e' || text[at] == 'E')) {
        size_t exponent = at + 1;
        if (exponent < len && (text[exponent] == '+' || text[exponent] == '-'))
            exponent++;
        at = skip_digits(text, len, exponent);
        if (at == exponent)
            return start;
        integer = false;
    }
    return at - start > TOKEN_MAX || (integer && integer_digits > INTEGER_DIGITS) ? start : at;
}

/* Reads the number at *at. Its grammar has been checked, and a comma, bracket or space follows it. Returns false if it
 * is not a finite double, or is an integer that is not exactly a double. */
static bool number_value(const char *text, size_t *at, double *value)
{
    size_t start = *at, digits = start + (text[start] == '-'), i = digits;
    int64_t whole = 0;

    for (; is_digit(text[i]) && i - digits < INTEGER_DIGITS; i++)
        whole = 10 * whole + (text[i] - '0');
    if (text[i] == '.' || text[i] == 'e' || text[i] == 'E' || is_digit(text[i])) {
        char *end;
        *value = strtod(text + start, &end) + 0.0; /* no negative zero */
        *at = (size_t)(end - text);
        return isfinite(*value);
    }
    *at = i;
    *value = (double)(text[start] == '-' ? -whole : whole);
    return (int64_t)fabs(*value) == whole;
}

static size_t skip_space(const char *text, size_t len, size_t at)
{
    while (at < len && is_space(text[at]))
        at++;
    return at;
}

/* The count of numbers of the array at `start`; 0 if it cannot be packed. */
static size_t count_numbers(const char *text, size_t len, size_t start, size_t *end)
{
    size_t count = 0, at = start;

    do {
        size_t from = skip_space(text, len, at + 1);
        at = number_end(text, len, from);
        if (at == from)
            return 0;
        at = skip_space(text, len, at);
        count++;
    } while (at < len && text[at] == ',');
    *end = at + 1;
    return at < len && text[at] == ']' ? count : 0;
}

json_t *api__pack_text(const char *text, size_t len, size_t start, size_t *end, bool *failed)
{
    size_t count = count_numbers(text, len, start, end);
    bool exact = true;

    if (count < API_PACKED_LEAST)
        return NULL;
    double *values = malloc(count * sizeof *values);
    for (size_t i = 0, at = start + 1; values && i < count; i++) {
        at = skip_space(text, len, at);
        exact = number_value(text, &at, &values[i]) && exact;
        at = skip_space(text, len, at) + 1; /* skip the comma */
    }
    json_t *json = values && exact ? api__pack(values, count) : NULL;
    *failed = !values || (exact && !json);
    free(values);
    return json;
}
