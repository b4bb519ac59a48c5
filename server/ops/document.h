/*
 * What a resource looks like on the wire at one moment, whole. Immutable once made and counted by reference.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_OPS_DOCUMENT_H
#define SERVER_OPS_DOCUMENT_H

#include <stdatomic.h>

#include "server/ops/clock.h"
#include "server/ops/text.h"

struct document {
    atomic_int references;
    bool final; /* the resource has ended: this document stays as it is */
    char id[UUID_SIZE];
    char etag[ETAG_SIZE];
    size_t len;
    char *text;
};

/* Takes the text over, and a line feed is added to it. NULL: out of memory. */
struct document *document_make(struct text *text, const char *id, bool final);
struct document *document_retain(struct document *document);
/* NULL is allowed. */
void document_release(struct document *document);

#endif
