/*
 * A growable text, in which all JSON, CSV and replies are built. The first failed allocation marks it `failed`; later
 * appends do nothing, so that the caller checks once at the end. Thread-compatible.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef API_JSON_TEXT_H
#define API_JSON_TEXT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct text {
    char *data; /* NUL-terminated once anything was appended */
    size_t len;
    size_t capacity;
    bool failed;
};

/* Reserves room for `len` more bytes at once; optional. */
void text_expect(struct text *text, size_t len);
void text_append(struct text *text, const char *bytes, size_t len);
void text_puts(struct text *text, const char *string);
void text_printf(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A value as compact JSON, with numbers by text_decimal(); see write.c. NULL marks the text as failed. text_value_new()
 * takes ownership of the reference. */
void text_value(struct text *text, const json_t *json);
void text_value_new(struct text *text, json_t *json);
/* A JSON string literal, or null for NULL. The input is UTF-8. A line feed is \u000a, and \n in text_string(). */
void text_json(struct text *text, const char *string);
void text_string(struct text *text, const char *string, size_t len);
/* The shortest decimal that reads back as the same double; null if it is not finite. text_number() writes it as printf
 * does. text_decimal() is for canonical texts: an exponent has no '+' and no leading zeros, so 1e-06 is 1e-6, and -0 is
 * 0. (Jansson writes 17 digits, so 0.1 becomes 0.10000000000000001, which is exact but unexpected.) */
void text_number(struct text *text, double value);
void text_decimal(struct text *text, double value);
void text_integer(struct text *text, int64_t value);
/* A CSV field (RFC 4180), quoted if necessary. Spreadsheets interpret a field that begins with = + - @, a tab or the
 * end of a line as a formula (OWASP, CSV injection), so an apostrophe is put before it unless it is a number. */
void text_csv(struct text *text, const char *field);
/* Returns the buffer, which the caller frees, and leaves the text empty; NULL if an append failed. */
char *text_steal(struct text *text);
void text_clear(struct text *text);

#endif
