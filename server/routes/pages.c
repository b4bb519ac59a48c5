/*
 * A fixed number of slots; a new page replaces the one that was least recently used.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/routes/pages.h"

#include <stdlib.h>
#include <string.h>

#include "api/codec/codec.h"

#define PAGES 16
#define PAGE_KEPT (256u << 10) /* bytes; longer pages are not cached */

struct page {
    struct document *document; /* NULL: the slot is free */
    const struct resource *resource;
    enum job_status status;
    size_t limit;
    char label[4 * API_LABEL_MAX + 1];
    bool labelled;
    char owner[OWNER_SIZE]; /* "": every one */
    char before[UUID_SIZE]; /* or "" */
    char next[UUID_SIZE];
    uint64_t changes;
    struct list_notes notes;
    uint64_t used; /* the value of pages.uses at the last use */
};

struct pages {
    uint64_t uses;
    struct page places[PAGES];
};

struct pages *pages_create(void)
{
    return calloc(1, sizeof(struct pages));
}

static void page_clear(struct page *page)
{
    document_release(page->document);
    text_clear(&page->notes.open);
    text_clear(&page->notes.told);
    *page = (struct page){0};
}

void pages_destroy(struct pages *pages)
{
    for (size_t i = 0; pages && i < PAGES; i++)
        page_clear(&pages->places[i]);
    free(pages);
}

static bool is_of(const struct page *page, const struct resource *resource, const struct list_filter *filter)
{
    return page->document && page->resource == resource && page->status == filter->status &&
           page->limit == filter->limit && page->labelled == (filter->label != NULL) &&
           strcmp(page->label, filter->label ? filter->label : "") == 0 &&
           strcmp(page->owner, filter->owner ? filter->owner : "") == 0 &&
           strcmp(page->before, filter->before ? filter->before : "") == 0;
}

/* Whether the state of the items that are not final is unchanged. */
static bool stands(struct server *server, const struct page *page)
{
    struct text told = {0};
    const struct text *open = &page->notes.open;
    for (size_t at = 0; at < open->len; at += UUID_SIZE)
        page->resource->tell_open(page->resource, server, open->data + at, &told);
    bool same = !told.failed && told.len == page->notes.told.len &&
                (told.len == 0 || memcmp(told.data, page->notes.told.data, told.len) == 0);
    text_clear(&told);
    return same;
}

struct document *pages_find(struct pages *pages, struct server *server, const struct resource *resource,
                            const struct list_filter *filter, char next[UUID_SIZE])
{
    for (size_t i = 0; i < PAGES; i++) {
        struct page *page = &pages->places[i];
        if (is_of(page, resource, filter)) {
            if (page->changes != store_changes(server->store) || !stands(server, page)) {
                page_clear(page);
                return NULL;
            }
            page->used = ++pages->uses;
            memcpy(next, page->next, UUID_SIZE);
            return document_retain(page->document);
        }
    }
    return NULL;
}

void pages_keep(struct pages *pages, const struct resource *resource, const struct list_filter *filter,
                struct document *document, const char next[UUID_SIZE], uint64_t changes, struct list_notes *notes)
{
    struct page *page = &pages->places[0];
    for (size_t i = 1; i < PAGES; i++)
        page = pages->places[i].used < page->used ? &pages->places[i] : page;
    if (!resource->tell_open || notes->unsure || notes->open.failed || notes->told.failed ||
        document->len > PAGE_KEPT || (filter->label && strlen(filter->label) >= sizeof page->label)) {
        text_clear(&notes->open);
        text_clear(&notes->told);
        return;
    }
    page_clear(page);
    *page = (struct page){.document = document_retain(document),
                          .resource = resource,
                          .status = filter->status,
                          .limit = filter->limit,
                          .labelled = filter->label != NULL,
                          .changes = changes,
                          .notes = *notes,
                          .used = ++pages->uses};
    strcpy(page->label, filter->label ? filter->label : "");
    strcpy(page->owner, filter->owner ? filter->owner : "");
    strcpy(page->before, filter->before ? filter->before : "");
    memcpy(page->next, next, UUID_SIZE);
}
