/*
 * Sweeps as resources, whose children are shown as points (points.h).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <string.h>

#include "api/requests/sweep.h"
#include "server/routes/groups/groups.h"
#include "server/routes/groups/points.h"

/* The request is an object whose members are those of the sweep. */
static void write_members(struct server *server, struct text *out, const struct group_record *record, bool brief)
{
    (void)server;
    if (!brief) {
        text_puts(out, ",");
        text_append(out, record->request + 1, strlen(record->request) - 2);
    }
}

static void *open_view(struct server *server, const struct group_record *record)
{
    (void)server;
    return api_sweep_read(record->request);
}

static void close_view(void *view)
{
    api_sweep_destroy(view);
}

static void write_child(struct server *server, struct text *out, const struct group_record *record, void *view,
                        const struct child_record *child)
{
    point_write(server, out, record, view, child);
}

static void *decode(struct server *server, struct api_errors *errors, struct group_record *record, const json_t *json)
{
    struct api_sweep *sweep = api_sweep_decode(errors, json, (size_t)server->config->max_n);
    if (sweep) {
        record->total = sweep->total;
        record->label = sweep->label;
        record->request = sweep->request;
        sweep->label = NULL;
        sweep->request = NULL;
    }
    return sweep;
}

const struct group_routes sweep_routes = {
    .kind = GROUP_SWEEP,
    .children = "points",
    .child = "point",
    .write = write_members,
    .open_view = open_view,
    .close_view = close_view,
    .write_child = write_child,
    .decode = decode,
    .asks = &sweep_kind,
};
