/*
 * What the resources that are groups (sweeps, plans) share: they are posted, read, listed and followed alike, and differ in
 * what they show beside their counts and in what a child looks like.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_ROUTES_GROUPS_GROUPS_H
#define SERVER_ROUTES_GROUPS_GROUPS_H

#include "server/groups/groups.h"
#include "server/routes/resource.h"

struct group_routes {
    enum group_kind_id kind;
    const char *path;
    const char *noun;
    const char *children; /* the name of their link: "points"; NULL: they are in the document */
    const char *child;    /* of their event: "point" */
    /* Appends its members, each with a comma before; brief: as lists show it. */
    void (*write)(struct server *server, struct text *out, const struct group_record *record, bool brief);
    /* What write_child() needs, of one group; NULL: damaged, or out of memory. */
    void *(*open_view)(struct server *server, const struct group_record *record);
    void (*close_view)(void *view);
    /* Appends a child that has ended, as an object. */
    void (*write_child)(struct server *server, struct text *out, const struct group_record *record, void *view,
                        const struct child_record *child);
    /*
     * What is asked, from a body: fills in request, total and label of the record. NULL with errors. On the bulk's thread.
     */
    void *(*decode)(struct server *server, struct api_errors *errors, struct group_record *record, const json_t *json);
    const struct group_kind *asks; /* closes that */
};

enum handled group_post(struct request *request, const struct group_routes *routes);

/* For struct resource. */
enum store_status group_get(struct server *server, const struct group_routes *routes, const char *id,
                            struct document **document);
enum store_status group_list(struct server *server, const struct group_routes *routes, const struct list_filter *filter,
                             struct text *items, char next[UUID_SIZE]);
enum events_next group_tell(struct server *server, const struct group_routes *routes, const char *id, uint64_t *seen,
                            struct text *text);
bool group_listen(struct server *server, const struct group_routes *routes, const char *id, uint64_t seen,
                  struct waiter *waiter);

#endif
