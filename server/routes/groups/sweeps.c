/*
 * The resource /v1/sweeps.
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
    (void)record;
    point_write(server, out, view, child);
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

static const struct group_routes sweeps = {
    .kind = GROUP_SWEEP,
    .path = "/v1/sweeps",
    .noun = "sweep",
    .children = "points",
    .child = "point",
    .write = write_members,
    .open_view = open_view,
    .close_view = close_view,
    .write_child = write_child,
    .decode = decode,
    .asks = &sweep_kind,
};

enum handled handle_sweeps_post(struct request *request)
{
    return group_post(request, &sweeps);
}

static enum store_status get(struct server *server, const char *id, struct document **document)
{
    return group_get(server, &sweeps, id, document);
}

static enum store_status list(struct server *server, const struct list_filter *filter, struct text *items,
                              char next[UUID_SIZE], struct list_notes *notes)
{
    (void)notes;
    return group_list(server, &sweeps, filter, items, next);
}

static enum events_next tell(struct server *server, const char *id, uint64_t *seen, struct text *text)
{
    return group_tell(server, &sweeps, id, seen, text);
}

static bool is_live(struct server *server, const char *id)
{
    return groups_is_live(server->groups, GROUP_SWEEP, id);
}

static bool watch(struct server *server, const char *id, struct waiter *waiter)
{
    return groups_watch(server->groups, GROUP_SWEEP, id, waiter);
}

static enum cancel_outcome cancel(struct server *server, const char *id, struct waiter *waiter)
{
    return groups_cancel(server->groups, GROUP_SWEEP, id, waiter);
}

static bool listen_one(struct server *server, const char *id, uint64_t seen, struct waiter *waiter)
{
    return group_listen(server, &sweeps, id, seen, waiter);
}

static void forget(struct server *server, const char *id)
{
    (void)server; /* nothing about a final sweep is kept in memory */
    (void)id;
}

static void remove_one(struct server *server, struct store_delete *deletion)
{
    store_delete_group(server->store, GROUP_SWEEP, deletion);
}

const struct resource sweep_resource = {
    .path = "/v1/sweeps",
    .noun = "sweep",
    .heavy = true,
    .get = get,
    .is_live = is_live,
    .watch = watch,
    .cancel = cancel,
    .tell = tell,
    .listen = listen_one,
    .remove = remove_one,
    .forget = forget,
    .list = list,
};
