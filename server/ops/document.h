/*
 * The representation of a resource at one moment. Immutable once created, and reference-counted.
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
    bool final; /* the resource is final, so this document does not change any more */
    char id[UUID_SIZE];
    char etag[ETAG_SIZE];
    size_t len;
    char *text;
};

/* Takes ownership of the text and appends a line feed. NULL: out of memory. */
struct document *document_make(struct text *text, const char *id, bool final);
struct document *document_retain(struct document *document);
/* NULL is allowed. */
void document_release(struct document *document);

#endif
