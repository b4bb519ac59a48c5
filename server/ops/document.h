/*
 * The representation of a resource at one moment. Immutable once created, and reference-counted.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_OPS_DOCUMENT_H
#define SERVER_OPS_DOCUMENT_H

#include <stdatomic.h>

#include "api/json/text.h"
#include "server/ops/clock.h"

#define ETAG_SIZE 35 /* a quoted string of 32 hex digits */

struct document {
    atomic_int references;
    bool final; /* the resource is final, so this document does not change any more */
    char id[UUID_SIZE];
    char etag[ETAG_SIZE];
    size_t len;
    char *text;
};

/* The entity tag of the bytes, which depends on their content only. */
void text_etag(char etag[ETAG_SIZE], const char *bytes, size_t len);
/* Takes ownership of the text and appends a line feed. NULL: out of memory. */
struct document *document_make(struct text *text, const char *id, bool final);
struct document *document_retain(struct document *document);
/* NULL is allowed. */
void document_release(struct document *document);

#endif
