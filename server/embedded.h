/*
 * Files that are built into the binary: the migrations, the OpenAPI document and the dashboard. The table is generated
 * by server/embed.sh, in the order in which the files are named.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_EMBEDDED_H
#define SERVER_EMBEDDED_H

#include <stddef.h>

struct embedded_file {
    const char *name;          /* path from the repository root; NULL ends the table */
    const unsigned char *data; /* followed by a NUL, which len does not include */
    size_t len;
};

extern const struct embedded_file embedded_files[];

#endif
