/*
 * Arrays of numbers as single values. Jansson allocates about fifty bytes for a number that may take two bytes of text,
 * so a body of eight megabytes would need hundreds. An array of at least API_PACKED_LEAST numbers is therefore stored
 * as one node: a string that consists of a mark, which no client can send because it is not UTF-8, followed by the
 * doubles. Code that inspects the type of a node must check for packed arrays first. Internal to api/.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef API_JSON_NUMBERS_H
#define API_JSON_NUMBERS_H

#include <jansson.h>
#include <stdbool.h>
#include <string.h>

#define API_PACKED_LEAST 64

/* Packs the values. Returns a new reference, or NULL if memory runs out. */
json_t *api__pack(const double *values, size_t len);
/* The numbers of a packed node (borrowed), or NULL if the node is not packed. */
const double *api__packed(const json_t *json, size_t *len);

/*
 * Packs the array of numbers that opens at text[start] and sets *end to the position after its closing bracket. Returns
 * NULL if it is not an array of numbers, is shorter than API_PACKED_LEAST, or contains a number that is not read
 * exactly here (not a finite double, or an integer that is not exactly a double or has more than 18 digits); jansson
 * then reads it and reports the error. *failed: out of memory.
 */
json_t *api__pack_text(const char *text, size_t len, size_t start, size_t *end, bool *failed);

/* Whether the value is a string of the client, and not a packed array. */
static inline bool api__is_string(const json_t *json)
{
    size_t len;
    return json_is_string(json) && !api__packed(json, &len);
}

/* Whether the value is exactly this string. A string of the client may contain NUL. */
static inline bool api__is_word(const json_t *json, const char *word)
{
    return api__is_string(json) && json_string_length(json) == strlen(word) && !strcmp(json_string_value(json), word);
}

#endif
