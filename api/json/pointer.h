/*
 * JSON pointers (RFC 6901) to members of a document that may not exist yet. Internal to api/.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef API_JSON_POINTER_H
#define API_JSON_POINTER_H

#include <jansson.h>
#include <stdbool.h>

#define API_POINTER_MAX 256 /* bytes */

/* Whether the text is a JSON pointer to something inside the document. */
bool api__pointer_valid(const char *pointer);
/* Whether `pointer` is `outer` or lies inside it. Both must be valid. */
bool api__pointer_within(const char *pointer, const char *outer);
/* Sets the value at a valid pointer. Returns false if there is no such place, or if memory runs out (*failed). */
bool api__pointer_put(json_t *root, const char *pointer, json_t *value, bool *failed);

#endif
