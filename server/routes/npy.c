/*
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/routes/npy.h"

#include <stdio.h>
#include <string.h>

enum { MAGIC = 10 };

void npy_header(char out[NPY_HEADER], const char *descr, size_t rows, size_t columns)
{
    const unsigned char magic[MAGIC] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, NPY_HEADER - MAGIC, 0};
    char shape[64];
    snprintf(shape, sizeof shape, columns ? "(%zu, %zu)" : "(%zu,)", rows, columns);
    memcpy(out, magic, MAGIC);
    int len = snprintf(out + MAGIC, NPY_HEADER - MAGIC, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", descr,
                       shape);
    memset(out + MAGIC + len, ' ', NPY_HEADER - MAGIC - (size_t)len);
    out[NPY_HEADER - 1] = '\n';
}
