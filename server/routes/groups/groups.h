/*
 * The code that groups (sweeps and plans) share as resources. They are posted, read, listed and followed in the same
 * way, and differ in the members that they show and in the form of a child.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_ROUTES_GROUPS_GROUPS_H
#define SERVER_ROUTES_GROUPS_GROUPS_H

#include "server/groups/groups.h"
#include "server/routes/resource.h"

struct group_routes {
    enum group_kind_id kind;
    const char *children; /* the name of the link to the children: "points"; NULL: they are part of the document */
    const char *child;    /* the name of the event of a child: "point" */
    /* Appends the members of the group, each preceded by a comma. brief: for lists. */
    void (*write)(struct server *server, struct text *out, const struct group_record *record, bool brief);
    /* Creates what write_child() needs for one group. Returns NULL if the row is damaged or memory runs out. */
    void *(*open_view)(struct server *server, const struct group_record *record);
    void (*close_view)(void *view);
    /* Whether a final child has an event; NULL: each has one. */
    bool (*tells)(const void *view, const struct child_record *child);
    /* Appends a final child as an object. */
    void (*write_child)(struct server *server, struct text *out, const struct group_record *record, void *view,
                        const struct child_record *child);
    /*
     * Decodes a body and fills in request, total and label of the record. Returns NULL with errors. On the bulk thread.
     */
    void *(*decode)(struct server *server, struct api_errors *errors, struct group_record *record, const json_t *json);
    const struct group_kind *asks; /* frees the result of decode() */
};

extern const struct group_routes sweep_routes; /* sweeps.c */
extern const struct group_routes plan_routes;  /* plans.c */

#endif
