/*
 * Growable text: a doubling buffer, JSON string escapes, and shortest round-trip numbers.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/ops/text.h"

#include <math.h>
#include <sodium.h>
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

void text_json(struct text *text, const char *string)
{
    static const char digits[] = "0123456789abcdef";
    if (!string) {
        text_append(text, "null", 4);
        return;
    }
    text_append(text, "\"", 1);
    const char *plain = string;
    for (const char *at = string; *at; at++) {
        unsigned char c = (unsigned char)*at;
        if (c >= 0x20 && c != '"' && c != '\\')
            continue;
        /* Without printf: a label, and a list of labels, may consist entirely of these. */
        const char letter[] = {'\\', (char)c};
        const char number[] = {'\\', 'u', '0', '0', digits[c >> 4], digits[c & 15]};
        bool named = c == '"' || c == '\\';
        text_append(text, plain, (size_t)(at - plain));
        text_append(text, named ? letter : number, named ? sizeof letter : sizeof number);
        plain = at + 1;
    }
    text_puts(text, plain);
    text_append(text, "\"", 1);
}

void text_number(struct text *text, double value)
{
    if (!isfinite(value)) {
        text_append(text, "null", 4);
        return;
    }
    char digits[32];
    for (int precision = 15; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (strtod(digits, NULL) == value)
            break;
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

void text_etag(char etag[ETAG_SIZE], const char *bytes, size_t len)
{
    unsigned char hash[16];
    crypto_generichash(hash, sizeof hash, (const unsigned char *)bytes, len, NULL, 0);
    etag[0] = '"';
    sodium_bin2hex(etag + 1, 33, hash, sizeof hash);
    etag[33] = '"';
    etag[34] = '\0';
}
