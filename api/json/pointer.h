/*
 * JSON pointers (RFC 6901) to members of a document that may not have them yet. Internal to api/.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef API_JSON_POINTER_H
#define API_JSON_POINTER_H

#include <jansson.h>
#include <stdbool.h>

#define API_POINTER_MAX 256 /* bytes */

/* Whether it is one, to something in the document. */
bool api__pointer_valid(const char *pointer);
/* Whether `pointer` is `outer`, or of something in it. Both are valid. */
bool api__pointer_within(const char *pointer, const char *outer);
/* Puts a value in the place of a valid pointer. False: there is no such place, or no memory: *failed. */
bool api__pointer_put(json_t *root, const char *pointer, json_t *value, bool *failed);

#endif
