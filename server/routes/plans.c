/*
 * The resource /v1/plans. The candidates are ranked when they are shown: by the error that was asked to be small, over the
 * square of the batch size, where several batch sizes are compared: that of the average gradients.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/plan.h"
#include "server/jobs/compute.h"
#include "server/jobs/jobs.h"
#include "server/routes/groups.h"

/* ---------------------------------------------------------------- one candidate */

static enum job_status status_now(struct server *server, const struct child_record *child)
{
    struct job_record record = {.status = child->status};
    struct job_progress progress;
    if (!job_status_final(child->status) && child->job[0]) {
        memcpy(record.id, child->job, UUID_SIZE);
        jobs_refresh(server->jobs, &record, &progress);
    }
    return record.status;
}

/* A candidate that came to no job is skipped. */
static const char *status_name(struct server *server, const struct child_record *child)
{
    bool skipped = child->status == JOB_CANCELED && !child->job[0] && child->detail;
    return skipped ? "skipped" : job_status_name(status_now(server, child));
}

static void write_member(struct text *out, const struct api_plan *plan, size_t i, const char *name)
{
    const json_t *value = api_plan_member(plan, i, name);
    char *text = value ? api_json_text(value) : NULL;
    text_printf(out, "\"%s\":", name);
    text_puts(out, text ? text : "null");
    out->failed = out->failed || (value && !text);
    free(text);
}

static void write_error(struct text *out, const struct child_record *child)
{
    if (child->status != JOB_SUCCEEDED) {
        text_puts(out, "null");
        return;
    }
    text_puts(out, "{\"mean_squared\":");
    text_number(out, child->mean_squared);
    text_puts(out, ",\"max_squared\":");
    text_number(out, child->max_squared);
    text_puts(out, ",\"last_squared\":");
    text_number(out, child->last_squared);
    text_puts(out, "}");
}

/* rank: 0: none yet, or never. */
static void write_ranked(struct server *server, struct text *out, const struct api_plan *plan,
                         const struct child_record *child, size_t rank)
{
    static const char *const about[] = {"family", "bands", "scheme", "n", "batch_size"};
    bool answered = child->status == JOB_SUCCEEDED;
    text_puts(out, "{\"rank\":");
    text_printf(out, rank ? "%zu" : "null", rank);
    for (size_t i = 0; i < sizeof about / sizeof *about; i++) {
        text_puts(out, ",");
        write_member(out, plan, child->number, about[i]);
    }
    text_puts(out, ",\"noise_multiplier\":");
    text_number(out, child->noise_multiplier);
    text_puts(out, ",\"error\":");
    write_error(out, child);
    text_puts(out, ",\"guarantee\":");
    text_json(out, answered ? eps_guarantee_name(EPS_GUARANTEE_DETERMINISTIC) : NULL); /* auto never draws */
    text_puts(out, ",\"accountant\":");
    text_json(out, child->accountant[0] ? child->accountant : NULL);
    text_puts(out, ",");
    write_member(out, plan, child->number, "buffers");
    text_printf(out, ",\"status\":\"%s\",\"reason\":", status_name(server, child));
    text_json(out, child->detail);
    text_puts(out, ",");
    write_member(out, plan, child->number, "job");
    text_puts(out, "}");
}

/* ---------------------------------------------------------------- all of them */

struct ranking {
    const struct api_plan *plan;
    struct child_record *rows; /* by number */
    char **details;            /* what theirs point to */
    bool failed;
    size_t len;
    size_t *order; /* those with an answer first, by rank */
    size_t answered;
};

static double rank_key(const struct ranking *ranking, size_t number)
{
    const struct child_record *row = &ranking->rows[number];
    return api_plan_rank(ranking->plan, number, api_plan_error(ranking->plan, row->mean_squared, row->max_squared));
}

static int compare(const void *a, const void *b, void *user)
{
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    double key_x = rank_key(user, x), key_y = rank_key(user, y);
    return key_x < key_y ? -1 : key_x > key_y ? 1 : x < y ? -1 : x > y;
}

static void take_row(void *user, const struct child_record *child)
{
    struct ranking *ranking = user;
    if (child->number < ranking->len) {
        struct child_record *row = &ranking->rows[child->number];
        *row = *child;
        row->detail = ranking->details[child->number] = child->detail ? strdup(child->detail) : NULL;
        ranking->failed = ranking->failed || !row->detail != !child->detail;
    }
}

static void ranking_clear(struct ranking *ranking)
{
    for (size_t i = 0; ranking->details && i < ranking->len; i++) {
        free(ranking->details[i]);
    }
    free(ranking->details);
    free(ranking->rows);
    free(ranking->order);
}

/* Whether it has an answer that can be ranked. */
static bool has_answer(const struct ranking *ranking, size_t i)
{
    return ranking->rows[i].status == JOB_SUCCEEDED && isfinite(rank_key(ranking, i));
}

static bool ranking_read(struct ranking *ranking, struct server *server, const struct group_record *record)
{
    struct children_filter all = {.parent = record->id};
    struct child_record none = {.epsilon = NAN, .delta = NAN, .noise_multiplier = NAN, .mean_squared = NAN};
    none.status = record->status == JOB_CANCELED ? JOB_CANCELED : JOB_QUEUED;
    ranking->len = api_plan_len(ranking->plan);
    ranking->rows = calloc(ranking->len + 1, sizeof *ranking->rows);
    ranking->details = calloc(ranking->len + 1, sizeof *ranking->details);
    ranking->order = calloc(ranking->len + 1, sizeof *ranking->order);
    if (!ranking->rows || !ranking->details || !ranking->order) {
        return false;
    }
    for (size_t i = 0; i < ranking->len; i++) {
        ranking->rows[i] = none;
        ranking->rows[i].number = i;
    }
    if (store_each_child(server->store, &all, take_row, ranking) != STORE_OK || ranking->failed) {
        return false;
    }
    for (int answered = 1; answered >= 0; answered--) {
        size_t at = answered ? 0 : ranking->answered;
        for (size_t i = 0; i < ranking->len; i++) {
            if (has_answer(ranking, i) == (answered == 1)) {
                ranking->order[at++] = i;
            }
        }
        ranking->answered = answered ? at : ranking->answered;
    }
    qsort_r(ranking->order, ranking->answered, sizeof *ranking->order, compare, ranking);
    return true;
}

static void write_candidates(struct server *server, struct text *out, const struct api_plan *plan,
                             const struct group_record *record)
{
    struct ranking ranking = {.plan = plan};
    text_puts(out, ",\"candidates\":[");
    if (ranking_read(&ranking, server, record)) {
        for (size_t i = 0; i < ranking.len; i++) {
            text_puts(out, i ? "," : "");
            write_ranked(server, out, plan, &ranking.rows[ranking.order[i]], i < ranking.answered ? i + 1 : 0);
        }
    } else {
        out->failed = true;
    }
    text_puts(out, "]");
    ranking_clear(&ranking);
}

/* ---------------------------------------------------------------- the resource */

static void write_members(struct server *server, struct text *out, const struct group_record *record, bool brief)
{
    struct api_plan *plan = api_plan_read(record->request);
    char *asked = plan ? api_json_text(plan->asked) : NULL;
    out->failed = out->failed || !asked;
    if (asked && asked[1] != '}') {
        text_puts(out, ",");
        text_append(out, asked + 1, strlen(asked) - 2);
    }
    if (asked && !brief) {
        write_candidates(server, out, plan, record);
    }
    free(asked);
    api_plan_destroy(plan);
}

/* Its rank among those that had an answer by then. */
static void write_candidate(struct server *server, struct text *out, const struct group_record *record, void *asked,
                            const struct child_record *child)
{
    struct ranking ranking = {.plan = asked};
    size_t rank = 0;
    if (ranking_read(&ranking, server, record)) {
        for (size_t i = 0; i < ranking.answered; i++) {
            const struct child_record *row = &ranking.rows[ranking.order[i]];
            rank += row->ended <= child->ended;
            if (row->number == child->number) {
                break;
            }
        }
        rank = child->number < ranking.len && has_answer(&ranking, child->number) ? rank : 0;
        write_ranked(server, out, asked, child, rank);
    } else {
        out->failed = true;
    }
    ranking_clear(&ranking);
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
    .child = "candidate",
    .write = write_members,
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
    (void)server; /* nothing of a final one is in memory */
    (void)id;
}

static void remove_one(struct server *server, struct store_delete *deletion)
{
    store_delete_group(server->store, GROUP_PLAN, deletion);
}

const struct resource plan_resource = {
    .path = "/v1/plans",
    .noun = "plan",
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
