/*
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/routes/npy.h"

#include <stdio.h>
#include <string.h>

enum { MAGIC = 10 };

void npy_header(char *out, size_t size, const char *descr, size_t rows, size_t columns)
{
    const size_t rest = size - MAGIC;
    const unsigned char magic[MAGIC] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, rest & 0xff, rest >> 8 & 0xff};
    char shape[64];
    snprintf(shape, sizeof shape, columns ? "(%zu, %zu)" : "(%zu,)", rows, columns);
    memcpy(out, magic, MAGIC);
    int len = snprintf(out + MAGIC, NPY_HEADER - MAGIC, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", descr,
                       shape);
    memset(out + MAGIC + len, ' ', rest - (size_t)len);
    out[size - 1] = '\n';
}
