/*
 * The resource /v1/plans. Its candidates are ranked when they are shown (ranking.h).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "api/requests/plan.h"
#include "server/jobs/compute.h"
#include "server/jobs/memory.h"
#include "server/routes/groups/groups.h"
#include "server/routes/groups/ranking.h"

static void write_members(struct server *server, struct text *out, const struct group_record *record, bool brief)
{
    struct ranking *ranking = ranking_open(server, record);
    if (!ranking) {
        out->failed = true;
        return;
    }
    ranking_write_asked(out, ranking);
    ranking_write(server, out, ranking, record, brief);
    ranking_release(ranking);
}

static void *open_view(struct server *server, const struct group_record *record)
{
    return ranking_open(server, record);
}

static void close_view(void *view)
{
    ranking_release(view);
}

static void write_candidate(struct server *server, struct text *out, const struct group_record *record, void *view,
                            const struct child_record *child)
{
    ranking_write_ended(server, out, view, record, child);
}

static void *decode(struct server *server, struct api_errors *errors, struct group_record *record, const json_t *json)
{
    struct eps_context context = computation_checks(server->config, server->store);
    struct api_plan *plan = api_plan_decode(errors, &context, json, (size_t)server->config->max_n);
    if (plan) {
        record->total = api_plan_len(plan);
        record->label = plan->label;
        record->request = plan->request;
        plan->label = NULL;
        plan->request = NULL;
    }
    return plan;
}

static const struct group_routes plans = {
    .kind = GROUP_PLAN,
    .path = "/v1/plans",
    .noun = "plan",
    .child = "candidate",
    .write = write_members,
    .open_view = open_view,
    .close_view = close_view,
    .write_child = write_candidate,
    .decode = decode,
    .asks = &plan_kind,
};

enum handled handle_plans_post(struct request *request)
{
    return group_post(request, &plans);
}

static enum store_status get(struct server *server, const char *id, struct document **document)
{
    return group_get(server, &plans, id, document);
}

static enum store_status list(struct server *server, const struct list_filter *filter, struct text *items,
                              char next[UUID_SIZE], struct list_notes *notes)
{
    (void)notes;
    return group_list(server, &plans, filter, items, next);
}

static enum events_next tell(struct server *server, const char *id, uint64_t *seen, struct text *text)
{
    return group_tell(server, &plans, id, seen, text);
}

static bool is_live(struct server *server, const char *id)
{
    return groups_is_live(server->groups, GROUP_PLAN, id);
}

static bool watch(struct server *server, const char *id, struct waiter *waiter)
{
    return groups_watch(server->groups, GROUP_PLAN, id, waiter);
}

static enum cancel_outcome cancel(struct server *server, const char *id, struct waiter *waiter)
{
    return groups_cancel(server->groups, GROUP_PLAN, id, waiter);
}

static bool listen_one(struct server *server, const char *id, uint64_t seen, struct waiter *waiter)
{
    return group_listen(server, &plans, id, seen, waiter);
}

static void forget(struct server *server, const char *id)
{
    memory_drop(server->rankings, id);
}

static void remove_one(struct server *server, struct store_delete *deletion)
{
    store_delete_group(server->store, GROUP_PLAN, deletion);
}

const struct resource plan_resource = {
    .path = "/v1/plans",
    .noun = "plan",
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
