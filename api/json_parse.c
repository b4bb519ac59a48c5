/*
 * JSON text to a value, as strictly as the service needs it.
 *
 * Jansson parses; it refuses double members, bad UTF-8, NaN, Infinity, and numbers out of range. Its parser
 * recurses, though, and its own bound on depth is far above any request, so a scan that does not recurse goes
 * first: 100,000 brackets cost one pass over the text and no stack.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "api/codec.h"

#include <stdio.h>

#define MAX_DEPTH 64

/* The offset of the bracket that opens one level too many; len where none does. */
static size_t too_deep(const char *text, size_t len)
{
    size_t depth = 0;
    bool in_string = false;

    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '[' || c == '{') {
            if (++depth > MAX_DEPTH)
                return i;
        } else if ((c == ']' || c == '}') && depth > 0) {
            depth--;
        }
    }
    return len;
}

static void position(const char *text, size_t offset, int *line, int *column)
{
    *line = 1;
    *column = 1;
    for (size_t i = 0; i < offset; i++) {
        if (text[i] == '\n') {
            ++*line;
            *column = 1;
        } else if (((unsigned char)text[i] & 0xC0) != 0x80) {
            ++*column;
        }
    }
}

/* The message quotes the text, perhaps half a character of it: what it says must be plain ASCII. */
static void make_printable(char *message)
{
    for (; *message; message++) {
        if ((unsigned char)*message < 0x20 || (unsigned char)*message >= 0x7F)
            *message = '?';
    }
}

json_t *api_json_parse(const char *text, size_t len, char *message, size_t message_size)
{
    json_error_t error;
    size_t deep = too_deep(text, len);
    int line, column;

    if (deep < len) {
        position(text, deep, &line, &column);
        snprintf(message, message_size, "line %d, column %d: nested deeper than %d levels", line, column, MAX_DEPTH);
        return NULL;
    }
    json_t *json = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    if (json)
        return json;
    line = error.line > 0 ? error.line : 1;
    column = error.column > 0 ? error.column : 1;
    const char *hint = "";
    if (json_error_code(&error) == json_error_numeric_overflow)
        hint = "a number that cannot be held exactly: ";
    else if (json_error_code(&error) == json_error_invalid_utf8)
        hint = "the text is not UTF-8: ";
    snprintf(message, message_size, "line %d, column %d: %s%s", line, column, hint, error.text);
    make_printable(message);
    return NULL;
}
