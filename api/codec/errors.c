/*
 * The list of errors of one request.
 *
 * The list is bounded, because a body may have a million unknown members and the response must not be larger than the
 * request. Details may quote bytes of the client. The quotation is truncated to a fixed length, but never inside a
 * character, so that the problem document stays valid UTF-8.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "api/codec/codec.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ERRORS 256
#define MAX_POINTER 512
#define MAX_DETAIL 512

/* The number of bytes of the character at `text`, 1 to 4, or 0 if it is incomplete or invalid. */
static size_t character_len(const unsigned char *text)
{
    size_t len = text[0] < 0x80 ? 1 : text[0] >= 0xF0 ? 4 : text[0] >= 0xE0 ? 3 : text[0] >= 0xC0 ? 2 : 0;

    for (size_t i = 1; i < len; i++)
        if ((text[i] & 0xC0) != 0x80)
            return 0;
    return len;
}

/* A copy of at most `most` bytes. A character that the limit would split is left out. */
static char *bounded_copy(const char *text, size_t most)
{
    size_t len = strnlen(text, most), kept = 0;
    unsigned char *copy = calloc(len + 4, 1);

    if (!copy)
        return NULL;
    memcpy(copy, text, len);
    for (size_t i = 0; i < len;) {
        size_t whole = character_len(copy + i);
        if (whole > 0)
            memmove(copy + kept, copy + i, whole);
        kept += whole;
        i += whole > 0 ? whole : 1;
    }
    copy[kept] = '\0';
    return (char *)copy;
}

static void append(struct api_errors *errors, const char *pointer, const char *detail)
{
    if (errors->len == errors->capacity) {
        size_t capacity = errors->capacity ? 2 * errors->capacity : 8;
        struct api_violation *items = realloc(errors->items, capacity * sizeof *items);
        if (!items) {
            errors->out_of_memory = true;
            return;
        }
        errors->items = items;
        errors->capacity = capacity;
    }
    struct api_violation item = {.pointer = bounded_copy(pointer, MAX_POINTER),
                                 .detail = bounded_copy(detail, MAX_DETAIL)};
    if (!item.pointer || !item.detail) {
        free(item.pointer);
        free(item.detail);
        errors->out_of_memory = true;
        return;
    }
    errors->items[errors->len++] = item;
}

void api_errors_add(struct api_errors *errors, const char *pointer, const char *format, ...)
{
    char detail[MAX_DETAIL + 1];
    va_list args;

    if (errors->len > MAX_ERRORS)
        return;
    if (errors->len == MAX_ERRORS) {
        append(errors, "", "there are more errors; only the first 256 are listed");
        return;
    }
    va_start(args, format);
    vsnprintf(detail, sizeof detail, format, args);
    va_end(args);
    append(errors, pointer, detail);
}

void api_errors_clear(struct api_errors *errors)
{
    for (size_t i = 0; i < errors->len; i++) {
        free(errors->items[i].pointer);
        free(errors->items[i].detail);
    }
    free(errors->items);
    *errors = (struct api_errors){0};
}
