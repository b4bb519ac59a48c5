/*
 * Lists of sentences, and enumerations within a sentence.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/base/sentences.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void eps__sentence(struct eps__sentences *list, const char *format, ...)
{
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    for (size_t i = 0; i < *list->len; i++)
        if (strcmp((*list->items)[i], text) == 0)
            return; /* already in the list */
    char **grown = list->failed ? NULL : realloc(*list->items, (*list->len + 1) * sizeof *grown);
    if (grown)
        *list->items = grown;
    if (grown)
        grown[*list->len] = strdup(text);
    if (grown && grown[*list->len])
        ++*list->len;
    else
        list->failed = true;
}

static void join(char *text, size_t size, const char *const *names, size_t len, const char *last)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < len && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", names[i],
                                 i + 2 < len    ? ", "
                                 : i + 2 == len ? last
                                                : "");
}

void eps__list(char *text, size_t size, const char *const *names, size_t len)
{
    join(text, size, names, len, " and ");
}

void eps__choices(char *text, size_t size, const char *const *names, size_t len)
{
    join(text, size, names, len, " or ");
}
