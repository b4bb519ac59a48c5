/*
 * JSON pointers (RFC 6901).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "api/json/pointer.h"

#include <stdlib.h>
#include <string.h>

/* Reads the next token of a pointer, unescaped, and moves *at behind it. Returns false if the pointer is invalid or the
 * token too long. */
static bool token_next(const char **at, char token[API_POINTER_MAX])
{
    const char *from = *at;
    size_t len = 0;
    if (*from++ != '/')
        return false;
    for (; *from && *from != '/'; from++) {
        if (len + 1 == API_POINTER_MAX || (*from == '~' && from[1] != '0' && from[1] != '1'))
            return false;
        token[len++] = *from == '~' ? (*++from == '0' ? '~' : '/') : *from;
    }
    token[len] = '\0';
    *at = from;
    return true;
}

bool api__pointer_valid(const char *pointer)
{
    char token[API_POINTER_MAX];
    const char *at = pointer;
    if (strlen(pointer) >= API_POINTER_MAX || !*pointer)
        return false;
    while (*at)
        if (!token_next(&at, token))
            return false;
    return true;
}

bool api__pointer_within(const char *pointer, const char *outer)
{
    size_t len = strlen(outer);
    return strncmp(pointer, outer, len) == 0 && (!pointer[len] || pointer[len] == '/');
}

/* The element of an array that a token names, or NULL. Leading zeros are not allowed. */
static json_t *element(json_t *array, const char *token)
{
    char *end;
    unsigned long index = strtoul(token, &end, 10);
    bool number = *token >= '0' && *token <= '9' && !*end && (*token != '0' || !token[1]);
    return number ? json_array_get(array, index) : NULL;
}

/* The value that the token names; an object gets a new member if it has none. Returns NULL if there is no place for it,
 * or if memory runs out (*failed). */
static json_t *step(json_t *value, const char *token, bool *failed)
{
    if (json_is_array(value))
        return element(value, token);
    json_t *member = json_object_get(value, token);
    if (json_is_object(value) && !member) {
        *failed = json_object_set_new(value, token, json_object()) != 0;
        member = json_object_get(value, token);
    }
    return member;
}

bool api__pointer_put(json_t *root, const char *pointer, json_t *value, bool *failed)
{
    char token[API_POINTER_MAX];
    const char *at = pointer;
    json_t *place = root;
    while (place && token_next(&at, token) && *at)
        place = step(place, token, failed);
    if (json_is_array(place)) {
        char *end;
        unsigned long index = strtoul(token, &end, 10);
        return element(place, token) && json_array_set(place, index, value) == 0;
    }
    if (!json_is_object(place))
        return false;
    *failed = json_object_set(place, token, value) != 0;
    return !*failed;
}
