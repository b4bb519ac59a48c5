/*
 * Growable text: a doubling buffer, JSON string escapes, and shortest round-trip numbers. Clients get two notations of
 * a line feed and of an exponent, depending on whether a value or the server's own code is written.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "api/json/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool text_reserve(struct text *text, size_t extra)
{
    if (text->failed)
        return false;
    if (extra >= SIZE_MAX / 2 - text->len) {
        text->failed = true;
        return false;
    }
    size_t need = text->len + extra + 1;
    if (need <= text->capacity)
        return true;
    size_t capacity = text->capacity ? 2 * text->capacity : 256;
    capacity = capacity < need ? need : capacity;
    char *data = realloc(text->data, capacity);
    if (!data) {
        text->failed = true;
        return false;
    }
    text->data = data;
    text->capacity = capacity;
    return true;
}

void text_expect(struct text *text, size_t len)
{
    text_reserve(text, len);
}

void text_append(struct text *text, const char *bytes, size_t len)
{
    if (!text_reserve(text, len))
        return;
    memcpy(text->data + text->len, bytes, len);
    text->len += len;
    text->data[text->len] = '\0';
}

void text_puts(struct text *text, const char *string)
{
    text_append(text, string, strlen(string));
}

void text_printf(struct text *text, const char *format, ...)
{
    char small[256];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(small, sizeof small, format, args);
    va_end(args);
    if (len < 0) {
        text->failed = true;
        return;
    }
    if ((size_t)len < sizeof small) {
        text_append(text, small, (size_t)len);
        return;
    }
    if (!text_reserve(text, (size_t)len))
        return;
    va_start(args, format);
    vsnprintf(text->data + text->len, (size_t)len + 1, format, args);
    va_end(args);
    text->len += (size_t)len;
}

/* The notation of a line feed may be chosen; other control characters are written by their numbers. Without printf: a
 * label, and a list of labels, may consist entirely of these. */
static void put_string(struct text *text, const char *string, size_t len, const char *line_feed)
{
    static const char digits[] = "0123456789abcdef";
    size_t from = 0;
    text_append(text, "\"", 1);
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)string[i];
        if (c >= 0x20 && c != '"' && c != '\\')
            continue;
        const char letter[] = {'\\', (char)c};
        const char number[] = {'\\', 'u', '0', '0', digits[c >> 4], digits[c & 15]};
        bool named = c == '"' || c == '\\';
        text_append(text, string + from, i - from);
        if (c == '\n')
            text_puts(text, line_feed);
        else
            text_append(text, named ? letter : number, named ? sizeof letter : sizeof number);
        from = i + 1;
    }
    text_append(text, string + from, len - from);
    text_append(text, "\"", 1);
}

void text_json(struct text *text, const char *string)
{
    if (string)
        put_string(text, string, strlen(string), "\\u000a");
    else
        text_append(text, "null", 4);
}

void text_string(struct text *text, const char *string, size_t len)
{
    put_string(text, string, len, "\\n");
}

static void shortest(char digits[32], double value)
{
    for (int precision = 15; precision <= 17; precision++) {
        snprintf(digits, 32, "%.*g", precision, value);
        if (precision == 17 || strtod(digits, NULL) == value)
            break;
    }
}

void text_number(struct text *text, double value)
{
    char digits[32] = "null";
    if (isfinite(value))
        shortest(digits, value);
    text_puts(text, digits);
}

/* By hand, because most numbers of most documents are small and whole. */
void text_integer(struct text *text, int64_t value)
{
    char digits[20];
    size_t at = sizeof digits;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;

    do {
        digits[--at] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    if (value < 0)
        digits[--at] = '-';
    text_append(text, digits + at, sizeof digits - at);
}

/* Removes the '+' and the leading zeros of an exponent: 1e-06 becomes 1e-6. */
static void tidy_exponent(char *digits)
{
    char *e = strchr(digits, 'e');

    if (!e)
        return;
    char *from = e + 1, *to = e + 1;
    if (*from == '-')
        *to++ = *from++;
    else if (*from == '+')
        from++;
    while (*from == '0' && from[1])
        from++;
    memmove(to, from, strlen(from) + 1);
}

void text_decimal(struct text *text, double value)
{
    char digits[32] = "null";
    if (fabs(value) < 1e15 && value == floor(value)) {
        text_integer(text, (int64_t)value);
        return;
    }
    if (isfinite(value)) {
        shortest(digits, value);
        tidy_exponent(digits);
    }
    text_puts(text, digits);
}

static bool is_decimal(const char *field)
{
    char *end;
    strtod(field, &end); /* which also accepts "-inf", "+nan(...)" and hexadecimal */
    return end != field && !*end && strspn(field, "+-.0123456789eE") == (size_t)(end - field);
}

void text_csv(struct text *text, const char *field)
{
    bool formula = *field && strchr("=+-@\t\r\n", *field) && !is_decimal(field);
    bool quoted = strpbrk(field, ",\"\r\n") != NULL;
    text_puts(text, quoted ? "\"" : "");
    text_puts(text, formula ? "'" : "");
    for (; quoted && *field; field++) {
        text_puts(text, *field == '"' ? "\"" : "");
        text_append(text, field, 1);
    }
    text_puts(text, field);
    text_puts(text, quoted ? "\"" : "");
}

char *text_steal(struct text *text)
{
    if (text->failed) {
        text_clear(text);
        return NULL;
    }
    text_append(text, "", 0);
    if (text->failed) {
        text_clear(text);
        return NULL;
    }
    char *fitted = realloc(text->data, text->len + 1); /* texts are stored and counted by their length */
    char *data = fitted ? fitted : text->data;
    *text = (struct text){0};
    return data;
}

void text_clear(struct text *text)
{
    free(text->data);
    *text = (struct text){0};
}
