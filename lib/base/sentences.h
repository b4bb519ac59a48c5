/*
 * Lists of sentences for users: the hints and assumptions of a result.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_BASE_SENTENCES_H
#define EPS_BASE_SENTENCES_H

#include <stdbool.h>
#include <stddef.h>

struct eps__sentences {
    char ***items; /* malloc'ed, as is each sentence; freed by the owner of the list */
    size_t *len;
    bool failed; /* memory ran out, and later sentences are missing */
};

/* Appends a formatted sentence of at most 399 characters, unless the list already has it. */
void eps__sentence(struct eps__sentences *list, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Writes "a, b and c" to text, truncated to size - 1 characters. */
void eps__list(char *text, size_t size, const char *const *names, size_t len);
/* Likewise "a, b or c". */
void eps__choices(char *text, size_t size, const char *const *names, size_t len);

#endif
