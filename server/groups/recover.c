/*
 * Recovery at startup: groups that an earlier process accepted and did not finish continue from the state in the rows
 * of their children.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdlib.h>
#include <string.h>

#include "server/groups/internal.h"
#include "server/jobs/jobs.h"
#include "server/ops/clock.h"
#include "server/ops/log.h"

struct recovery {
    struct groups *groups;
    struct group *group; /* the group whose children are read */
    size_t late;         /* those of its children that are numbered from the barrier on */
    size_t len;
    bool failed;
};

/* Whether the end of this job is still to come. A row that is lost, or damaged so that it belongs to another parent, is
 * not waited for. */
static bool job_open(const struct groups *groups, const char *id)
{
    struct job_record job = {0};
    enum store_status status = store_read_job(groups->server->store, id, &job);
    bool open = (status == STORE_OK || status == STORE_CORRUPT) && job.job && !job_status_final(job.status);
    job_record_clear(&job);
    if (!open)
        log_event(LOG_LEVEL_ERROR, "child-lost", "job=%s", id);
    return open;
}

static void recover_child(void *user, const struct child_record *record)
{
    struct recovery *recovery = user;
    struct group *group = recovery->group;
    /* From the barrier on, the numbers are not those of the turns, which were in order. */
    size_t turn = record->number < group->barrier ? record->number : group->barrier + recovery->late++;
    if (turn < group->record.total)
        group->begun[turn / 8] |= (unsigned char)(1U << turn % 8);
    if (record->ended || !record->job[0] || !job_open(recovery->groups, record->job))
        return;
    struct child *child = calloc(1, sizeof *child);
    if (!child) {
        recovery->failed = true;
        return;
    }
    child->turn = turn;
    child->insert.number = record->number;
    memcpy(child->id, record->job, UUID_SIZE);
    groups__child_add_locked(group, child);
    group->under_way++;
}

static bool read_children(struct recovery *recovery, struct group *group)
{
    struct children_filter all = {.parent = group->record.id};
    groups__group_set_asked(group, group->kind->open(&group->record));
    group->begun = calloc(group->record.total / 8 + 1, 1);
    recovery->group = group;
    recovery->late = 0;
    bool read = group->asked && group->begun &&
                store_each_child(recovery->groups->server->store, &all, recover_child, recovery) == STORE_OK;
    if (read)
        groups__skip_begun(group);
    return read && !recovery->failed;
}

/* Repairs a damaged row. If only its status is damaged, the group continues from the rows of its children. Otherwise
 * its request is unknown, and it fails. */
static bool repair(struct store *store, const struct group_record *record)
{
    struct group_record repaired = *record; /* borrows the texts */
    repaired.status = record->request ? JOB_RUNNING : JOB_FAILED;
    repaired.finished_at = record->request ? 0 : clock_now_ms();
    log_event(LOG_LEVEL_ERROR, "group-damaged", "group=%s status=%s", record->id, job_status_name(repaired.status));
    return store_repair_group_wait(store, &repaired) == STORE_OK;
}

static void recover_group(void *user, const struct group_record *record)
{
    struct recovery *recovery = user;
    struct groups *groups = recovery->groups;
    if (record->damaged && (!repair(groups->server->store, record) || !record->request))
        return;
    struct group *group = groups__group_create(groups, record);
    pthread_mutex_lock(&groups->mutex);
    bool ok = group && read_children(recovery, group) && groups__register_locked(groups, group);
    pthread_mutex_unlock(&groups->mutex);
    if (ok) {
        jobs_take_place_anyway(groups->server->jobs, &group->place);
        recovery->len++;
    } else if (group) {
        groups__group_free(group);
    }
    recovery->failed = recovery->failed || !ok;
}

bool groups_recover(void *user)
{
    struct groups *groups = user;
    struct recovery recovery = {.groups = groups};
    enum store_status status = store_each_open_group(groups->server->store, recover_group, &recovery);
    if (recovery.len)
        log_event(LOG_LEVEL_INFO, "recovered", "groups=%zu", recovery.len);
    return status == STORE_OK && !recovery.failed;
}

/* A canceled group whose process ended before all of its jobs were canceled; NULL: there is none left. */
static struct group *canceled_in_part_locked(const struct groups *groups)
{
    for (size_t i = 0; i < groups->live.capacity; i++) {
        for (struct map_node *node = groups->live.buckets[i]; node; node = node->next) {
            struct group *group = MAP_ENTRY(node, struct group, node);
            if (group->cancel_left)
                return group;
        }
    }
    return NULL;
}

static void cancel_the_rest(struct groups *groups)
{
    pthread_mutex_lock(&groups->mutex);
    struct group *group = canceled_in_part_locked(groups);
    while (group) {
        size_t len = 0;
        char(*ids)[UUID_SIZE] = groups__ids_locked(group, &len);
        group->cancel_left = false;
        pthread_mutex_unlock(&groups->mutex);
        for (size_t i = 0; ids && i < len;
             i++) /* if memory runs out they run, and their group still ends as canceled */
            jobs_cancel_with_group(groups->server->jobs, ids[i]);
        free(ids);
        pthread_mutex_lock(&groups->mutex);
        group = canceled_in_part_locked(groups);
    }
    pthread_mutex_unlock(&groups->mutex);
}

void groups_start(struct groups *groups)
{
    cancel_the_rest(groups);
    pthread_mutex_lock(&groups->mutex);
    for (size_t i = 0; i < groups->live.capacity; i++)
        for (struct map_node *node = groups->live.buckets[i]; node; node = node->next)
            groups__go_on_locked(MAP_ENTRY(node, struct group, node));
    pthread_mutex_unlock(&groups->mutex);
}
