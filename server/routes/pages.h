/*
 * A cache of recently written pages of lists, for clients that poll. A page is reused if no row was written since, and
 * the state of its items that are not final is unchanged. A poll then needs no SQL and no encoding.
 *
 * Used only by the lists thread; the documents are shared.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_ROUTES_PAGES_H
#define SERVER_ROUTES_PAGES_H

#include "server/ops/document.h"
#include "server/routes/resource.h"

struct pages;

/* NULL: out of memory. */
struct pages *pages_create(void);
void pages_destroy(struct pages *pages);

/* The page of the resource for the filter, retained, and its `next`; NULL if none is cached or it is outdated. */
struct document *pages_find(struct pages *pages, struct server *server, const struct resource *resource,
                            const struct list_filter *filter, char next[UUID_SIZE]);
/* Caches a page that was written after `changes` (store_changes()); takes ownership of the notes. */
void pages_keep(struct pages *pages, const struct resource *resource, const struct list_filter *filter,
                struct document *document, const char next[UUID_SIZE], uint64_t changes, struct list_notes *notes);

#endif
