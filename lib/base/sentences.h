/*
 * Lists of sentences for people: hints and assumptions of a result.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef EPS_BASE_SENTENCES_H
#define EPS_BASE_SENTENCES_H

#include <stdbool.h>
#include <stddef.h>

struct eps__sentences {
    char ***items; /* malloc'ed, like each of them: the list's owner frees */
    size_t *len;
    bool failed; /* memory ran out: what was added since is missing */
};

void eps__sentence(struct eps__sentences *list, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* "a, b and c", cut where it does not fit. */
void eps__list(char *text, size_t size, const char *const *names, size_t len);
/* "a, b or c". */
void eps__choices(char *text, size_t size, const char *const *names, size_t len);

#endif
