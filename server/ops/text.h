/*
 * A growable text, for building replies. The first failed allocation marks it `failed`; later appends do nothing, so
 * that the caller checks once at the end. Thread-compatible.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_OPS_TEXT_H
#define SERVER_OPS_TEXT_H

#include <stdbool.h>
#include <stddef.h>

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
/* A JSON string literal, or null for NULL. The input is UTF-8. */
void text_json(struct text *text, const char *string);
/* The shortest decimal that reads back as the same double; null if it is not finite. */
void text_number(struct text *text, double value);
/* A CSV field (RFC 4180), quoted if necessary. Spreadsheets interpret a field that begins with = + - @, a tab or the
 * end of a line as a formula (OWASP, CSV injection), so an apostrophe is put before it unless it is a number. */
void text_csv(struct text *text, const char *field);
/* Returns the buffer, which the caller frees, and leaves the text empty; NULL if an append failed. */
char *text_steal(struct text *text);
void text_clear(struct text *text);

#define ETAG_SIZE 35 /* a quoted string of 32 hex digits */

/* The entity tag of the bytes, which depends on their content only. */
void text_etag(char etag[ETAG_SIZE], const char *bytes, size_t len);

#endif
