/*
 * Arrays of numbers as single values. Jansson spends fifty bytes on a number that may have been two in the text, so a
 * body of eight megabytes became hundreds; and each is an allocation. An array of at least API_PACKED_LEAST numbers
 * is therefore one node of a tree: a string whose bytes are a mark, which no client's text can hold for it is not
 * UTF-8, and the doubles. Whoever asks a node for its kind asks here first. Internal to api/.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef API_JSON_NUMBERS_H
#define API_JSON_NUMBERS_H

#include <jansson.h>
#include <stdbool.h>
#include <string.h>

#define API_PACKED_LEAST 64

/* A new reference; NULL: out of memory. */
json_t *api__pack(const double *values, size_t len);
/* The numbers, borrowed, or NULL: not such a node. */
const double *api__packed(const json_t *json, size_t *len);

/*
 * The array of numbers that opens at text[start], packed, with *end behind its bracket. NULL where it is none, is
 * shorter than API_PACKED_LEAST, or has a number that is not read exactly here (no finite double, an integer that is
 * none or has more than 18 digits): jansson then reads it and finds the words. *failed: out of memory.
 */
json_t *api__pack_text(const char *text, size_t len, size_t start, size_t *end, bool *failed);

/* A string in the client's sense. */
static inline bool api__is_string(const json_t *json)
{
    size_t len;
    return json_is_string(json) && !api__packed(json, &len);
}

/* Whether it is this one, to its end: a client's text may have a NUL. */
static inline bool api__is_word(const json_t *json, const char *word)
{
    return api__is_string(json) && json_string_length(json) == strlen(word) && !strcmp(json_string_value(json), word);
}

#endif
