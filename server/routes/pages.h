/*
 * The pages of lists that were written last, for who asks for them again and again: a page is given anew while no row was
 * written since, and all that it says of what is not final is as it was. So a poll costs no SQL, and no writing.
 *
 * Used by the thread of the lists alone; the documents are shared.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_ROUTES_PAGES_H
#define SERVER_ROUTES_PAGES_H

#include "server/ops/document.h"
#include "server/routes/resource.h"

struct pages;

/* NULL: no memory. */
struct pages *pages_create(void);
void pages_destroy(struct pages *pages);

/* The page of the resource under the filter, retained, and its `next`; or NULL where none is kept, or it is no more what would
 * be written. */
struct document *pages_find(struct pages *pages, struct server *server, const struct resource *resource,
                            const struct list_filter *filter, char next[UUID_SIZE]);
/* Keeps a page that was written after `changes` (store_changes()); takes the notes over. */
void pages_keep(struct pages *pages, const struct resource *resource, const struct list_filter *filter,
                struct document *document, const char next[UUID_SIZE], uint64_t changes, struct list_notes *notes);

#endif
