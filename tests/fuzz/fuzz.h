/*
 * What the fuzz targets share.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An assertion that no flavour leaves out. */
#define DEMAND(condition)                                                                 \
    do {                                                                                  \
        if (!(condition)) {                                                               \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
            abort();                                                                      \
        }                                                                                 \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* A copy of exactly that length and NUL, so that a sanitizer sees each read beyond it. The caller frees it. */
static inline char *fuzz_text(const uint8_t *data, size_t len)
{
    char *text = malloc(len + 1);
    DEMAND(text);
    if (len > 0)
        memcpy(text, data, len);
    text[len] = '\0';
    return text;
}

#endif
