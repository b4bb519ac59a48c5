/*
 * Plans as resources, whose candidates are ranked when they are shown (ranking.h).
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "api/requests/plan.h"
#include "server/jobs/compute.h"
#include "server/jobs/realm.h"
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

static bool tells(const void *view, const struct child_record *child)
{
    return ranking_tells(view, child);
}

static void write_candidate(struct server *server, struct text *out, const struct group_record *record, void *view,
                            const struct child_record *child)
{
    ranking_write_ended(server, out, view, record, child);
}

static void *decode(struct server *server, struct api_errors *errors, struct group_record *record, const json_t *json)
{
    struct checks checks = {server->config, server->store, realm_of(server->config, &record->poster)};
    struct eps_context context = computation_checks(&checks);
    struct api_plan *plan = api_plan_decode(errors, &context, json, (size_t)server->config->max_n);
    if (plan) {
        record->total = api_plan_len(plan) + api_plan_verified(plan);
        record->label = plan->label;
        record->request = plan->request;
        plan->label = NULL;
        plan->request = NULL;
    }
    return plan;
}

const struct group_routes plan_routes = {
    .kind = GROUP_PLAN,
    .child = "candidate",
    .write = write_members,
    .open_view = open_view,
    .close_view = close_view,
    .tells = tells,
    .write_child = write_candidate,
    .decode = decode,
    .asks = &plan_kind,
};
