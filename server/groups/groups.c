/*
 * The registry of groups that are not final, and how they leave it.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/groups/groups.h"

#include <stdlib.h>
#include <string.h>

#include "server/groups/internal.h"
#include "server/jobs/jobs.h"
#include "server/ops/clock.h"
#include "server/ops/log.h"

#define PARSED_BYTES 16 /* the largest expansion of a byte of JSON when parsed */

static const struct group_kind *const kinds[] = {[GROUP_SWEEP] = &sweep_kind, [GROUP_PLAN] = &plan_kind};

static void on_child(void *user, const char *parent, const char *id);
static void on_child_held(void *user, const char *parent);

struct groups *groups_create(struct server *server)
{
    struct groups *groups = calloc(1, sizeof *groups);
    if (groups) {
        pthread_mutex_init(&groups->mutex, NULL);
        groups->server = server;
        jobs_on_child(server->jobs, on_child, on_child_held, groups);
    }
    return groups;
}

static void child_free(struct child *child)
{
    job_record_clear(&child->record);
    result_record_release(child->result);
    free(child);
}

void groups__group_free(struct group *group)
{
    while (group->children) {
        struct child *child = group->children;
        group->children = child->next;
        child_free(child);
    }
    if (group->asked)
        group->kind->close(group->asked);
    group_record_clear(&group->record);
    free(group->begun);
    free(group);
}

void groups_destroy(struct groups *groups)
{
    if (!groups)
        return;
    for (size_t i = 0; i < groups->live.capacity; i++) {
        struct map_node *node = groups->live.buckets[i];
        while (node) {
            struct group *group = MAP_ENTRY(node, struct group, node);
            node = node->next;
            groups__group_free(group);
        }
    }
    map_clear(&groups->live);
    pthread_mutex_destroy(&groups->mutex);
    free(groups);
}

static struct group *find_locked(const struct groups *groups, const char *id)
{
    struct map_node *node = map_find(&groups->live, id);
    return node ? MAP_ENTRY(node, struct group, node) : NULL;
}

static struct group *find_kind_locked(const struct groups *groups, enum group_kind_id kind, const char *id)
{
    struct group *group = find_locked(groups, id);
    return group && group->record.kind == kind ? group : NULL;
}

/* ---------------------------------------------------------------- reading */

void groups_settle(struct groups *groups, struct group_record *record)
{
    if (record->damaged && !job_status_final(record->status) && !groups_is_live(groups, record->kind, record->id)) {
        record->status = JOB_CANCELED;
        record->done = record->total;
    }
}

enum store_status groups_read(struct groups *groups, enum group_kind_id kind, const char *id,
                              struct group_record *record)
{
    enum store_status status = store_read_group(groups->server->store, kind, id, record);
    if (status == STORE_OK)
        groups_settle(groups, record);
    return status;
}

void groups_each_under_way(struct groups *groups, const char *id,
                           void (*each)(void *user, size_t number, const char *job), void *user)
{
    pthread_mutex_lock(&groups->mutex);
    const struct group *group = find_locked(groups, id);
    for (const struct child *child = group ? group->children : NULL; child; child = child->next)
        if (child->id[0])
            each(user, child->insert.number, child->id);
    pthread_mutex_unlock(&groups->mutex);
}

enum job_status groups_child_status(struct groups *groups, const struct group_record *record,
                                    const struct child_record *child)
{
    struct job_record job = {.status = child->status};
    struct job_progress progress;
    if (!job_status_final(child->status) && record->status == JOB_CANCELED) /* it was not started */
        return JOB_CANCELED;
    if (!job_status_final(child->status) && child->job[0]) {
        memcpy(job.id, child->job, UUID_SIZE);
        jobs_refresh(groups->server->jobs, &job, &progress);
    }
    return job.status;
}

bool groups_is_live(struct groups *groups, enum group_kind_id kind, const char *id)
{
    pthread_mutex_lock(&groups->mutex);
    bool live = find_kind_locked(groups, kind, id) != NULL;
    pthread_mutex_unlock(&groups->mutex);
    return live;
}

bool groups_watch(struct groups *groups, enum group_kind_id kind, const char *id, struct waiter *waiter)
{
    pthread_mutex_lock(&groups->mutex);
    struct group *group = find_kind_locked(groups, kind, id);
    if (group)
        waiters_add(groups->server->works, &group->waiters, waiter);
    pthread_mutex_unlock(&groups->mutex);
    return group != NULL;
}

bool groups_listen(struct groups *groups, enum group_kind_id kind, const char *id, size_t done, struct waiter *waiter)
{
    pthread_mutex_lock(&groups->mutex);
    struct group *group = find_kind_locked(groups, kind, id);
    bool waits = group && group->done <= done;
    if (waits)
        waiters_add(groups->server->works, &group->listeners, waiter);
    pthread_mutex_unlock(&groups->mutex);
    return waits;
}

/* ---------------------------------------------------------------- the end */

/* On the writer thread, after the commit. */
static void end_done(struct store_write *write, enum store_status status)
{
    struct group *group = (struct group *)(void *)((char *)write - offsetof(struct group, end));
    struct groups *groups = group->groups;
    struct works *works = groups->server->works;
    char request[REQUEST_ID_SIZE + 2];
    if (status == STORE_OK) {
        log_event(
            LOG_LEVEL_INFO, "group-end", "group=%s request=%s status=%s children=%zu", group->record.id,
            log_quote(request, sizeof request, group->record.request_id[0] ? group->record.request_id : "unknown"),
            job_status_name(group->end.status), group->record.total);
    } else {
        log_event(LOG_LEVEL_ERROR, "group-end-lost", "group=%s detail=\"it ends after a restart\"", group->record.id);
    }
    pthread_mutex_lock(&groups->mutex);
    map_remove(&groups->live, &group->node);
    pthread_mutex_unlock(&groups->mutex);
    waiters_call(works, &group->waiters);
    waiters_call(works, &group->listeners);
    waiters_call(works, &group->cancelers);
    jobs_give_place(groups->server->jobs, &group->place);
    groups__group_free(group);
}

/* On the writer thread: a write will be retried. A cancel request does not wait for that. */
void groups__tell_held(struct group *group)
{
    struct groups *groups = group->groups;
    pthread_mutex_lock(&groups->mutex);
    waiters_call(groups->server->works, &group->cancelers);
    pthread_mutex_unlock(&groups->mutex);
}

static void end_held(struct store_write *write)
{
    groups__tell_held((struct group *)(void *)((char *)write - offsetof(struct group, end)));
}

void groups__end_locked(struct group *group)
{
    struct store_group_end *end = &group->end;
    group->ending = true;
    *end = (struct store_group_end){.write = {.done = end_done, .held = end_held},
                                    .status = group->canceled ? JOB_CANCELED : JOB_SUCCEEDED,
                                    .finished_at = clock_now_ms()};
    memcpy(end->id, group->record.id, UUID_SIZE);
    store_end_group(group->groups->server->store, end);
}

/* ---------------------------------------------------------------- children */

void groups__child_add_locked(struct group *group, struct child *child)
{
    child->group = group;
    child->prev = NULL;
    child->next = group->children;
    if (child->next)
        child->next->prev = child;
    group->children = child;
}

void groups__child_end_locked(struct child *child, bool under_way)
{
    struct group *group = child->group;
    *(child->prev ? &child->prev->next : &group->children) = child->next;
    if (child->next)
        child->next->prev = child->prev;
    child_free(child);
    group->done++;
    group->under_way -= under_way;
    waiters_call(group->groups->server->works, &group->listeners);
}

static struct child *child_find(const struct group *group, const char *id)
{
    struct child *child = group->children;
    while (child && strcmp(child->id, id) != 0)
        child = child->next;
    return child;
}

static void on_child(void *user, const char *parent, const char *id)
{
    struct groups *groups = user;
    pthread_mutex_lock(&groups->mutex);
    struct group *group = find_locked(groups, parent);
    struct child *child = group ? child_find(group, id) : NULL;
    if (child) {
        groups__child_end_locked(child, true);
        groups__go_on_locked(group);
    }
    pthread_mutex_unlock(&groups->mutex);
}

static void on_child_held(void *user, const char *parent)
{
    struct groups *groups = user;
    pthread_mutex_lock(&groups->mutex);
    struct group *group = find_locked(groups, parent);
    if (group)
        waiters_call(groups->server->works, &group->cancelers);
    pthread_mutex_unlock(&groups->mutex);
}

/* ---------------------------------------------------------------- admission */

/* Its jobs count when their turn comes. account NULL: out of memory. */
static struct reservation place_of(struct groups *groups, const struct group_record *record)
{
    return (struct reservation){.account = ledger_account(groups->server->ledger, record->poster.key),
                                .bytes = sizeof(struct group) + PARSED_BYTES * strlen(record->request)};
}

enum jobs_room groups_reserve(struct groups *groups, const struct group_record *record, const struct quota *quota,
                              struct quota_refusal *refusal)
{
    struct reservation place = place_of(groups, record);
    return place.account ? jobs_take_place(groups->server->jobs, &place, quota, refusal) : JOBS_FULL;
}

void groups_unreserve(struct groups *groups, const struct group_record *record)
{
    struct reservation place = place_of(groups, record);
    jobs_give_place(groups->server->jobs, &place);
}

struct group *groups__group_create(struct groups *groups, const struct group_record *record)
{
    struct group *group = calloc(1, sizeof *group);
    if (!group)
        return NULL;
    group->task.run = groups__feed;
    strcpy(group->task.owner, record->poster.key);
    group->groups = groups;
    group->kind = kinds[record->kind];
    group->task.child = group->kind->computes;
    group->barrier = SIZE_MAX;
    group->place = place_of(groups, record);
    group->done = record->done;
    group->canceled = group->cancel_left = record->canceling;
    group->record = *record;
    group->record.label = NULL; /* the row has the label */
    group->record.request = strdup(record->request);
    if (!group->record.request || !group->place.account) {
        groups__group_free(group);
        return NULL;
    }
    return group;
}

void groups__group_set_asked(struct group *group, void *asked)
{
    group->asked = asked;
    if (asked && group->kind->barrier)
        group->barrier = group->kind->barrier(asked);
}

bool groups__register_locked(struct groups *groups, struct group *group)
{
    return map_insert(&groups->live, &group->node, group->record.id);
}

bool groups_admit(struct groups *groups, const struct group_record *record, void *asked)
{
    struct group *group = groups__group_create(groups, record);
    pthread_mutex_lock(&groups->mutex);
    bool admitted = group && groups__register_locked(groups, group);
    if (admitted) {
        groups__group_set_asked(group, asked);
        groups__go_on_locked(group);
    }
    pthread_mutex_unlock(&groups->mutex);
    if (group && !admitted)
        groups__group_free(group);
    return admitted;
}

/* ---------------------------------------------------------------- cancelling */

char (*groups__ids_locked(const struct group *group, size_t *len))[UUID_SIZE]
{
    char(*ids)[UUID_SIZE] = calloc(group->storing + group->under_way + 1, sizeof *ids);
    *len = 0;
    for (const struct child *child = group->children; ids && child; child = child->next)
        if (child->id[0])
            memcpy(ids[(*len)++], child->id, UUID_SIZE);
    return ids;
}

enum cancel_outcome groups_cancel(struct groups *groups, enum group_kind_id kind, const char *id, struct waiter *waiter)
{
    size_t len = 0;
    pthread_mutex_lock(&groups->mutex);
    struct group *group = find_kind_locked(groups, kind, id);
    char(*ids)[UUID_SIZE] = group && !group->ending ? groups__ids_locked(group, &len) : NULL;
    if (!ids) {
        pthread_mutex_unlock(&groups->mutex);
        return !group ? CANCEL_NOT_LIVE : group->ending ? CANCEL_ENDING : CANCEL_FAILED;
    }
    group->canceled = true;
    if (waiter)
        waiters_add(groups->server->works, &group->cancelers, waiter);
    groups__go_on_locked(group);
    pthread_mutex_unlock(&groups->mutex);
    for (size_t i = 0; i < len; i++)
        jobs_cancel_with_group(groups->server->jobs, ids[i]); /* a job not admitted yet is canceled when it is */
    free(ids);
    /* The ends of some may have been held before; the others will be told. */
    if (store_trouble(groups->server->store))
        on_child_held(groups, id);
    return CANCEL_STARTED;
}
