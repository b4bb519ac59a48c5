/*
 * Feeds the children of a group: those whose turn has come are created, checked and stored on the bulk thread, one
 * portion at a time, so that posts that wait for that thread are served in between. Children that are answered from the
 * cache are final at once; of those that must be computed, `width` are in progress.
 *
 * From the barrier of a group on, children are created one at a time: what is decided about one of them may depend on
 * all rows before it, and after a crash on nothing else.
 *
 * A row that cannot be written is retried; a child is never skipped.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/groups/internal.h"
#include "server/jobs/submit.h"
#include "server/ops/clock.h"
#include "server/ops/log.h"
#include "server/ops/metrics.h"

#define PORTION 64
#define PORTION_SECONDS 0.05 /* the thread is then released to others; the check of one child may take a second */

static size_t width(const struct group *group)
{
    size_t own = group->kind->width;
    const struct config *config = group->groups->server->config;
    return own ? own : 2 * (size_t)config->workers + (config->broker ? 2 * (size_t)config->broker_jobs : 0);
}

/* Whether the barrier, if the next turn is behind it, is open. */
static bool is_open_locked(const struct group *group)
{
    if (group->next < group->barrier)
        return true;
    for (const struct child *child = group->children; child; child = child->next)
        if (child->turn < group->barrier)
            return false;
    return group->storing == 0;
}

static bool may_feed_locked(const struct group *group)
{
    return !group->canceled && group->next < group->record.total && group->storing < PORTION &&
           group->under_way < width(group) && is_open_locked(group);
}

void groups__go_on_locked(struct group *group)
{
    const struct server *server = group->groups->server;
    if (group->feeding || group->ending || jobs_stopping(server->jobs))
        return;
    if (may_feed_locked(group)) {
        group->feeding = true;
        pool_submit(group->kind->computes ? server->pool : server->bulk, &group->task);
    } else if ((group->canceled || group->next == group->record.total) && !group->children) {
        groups__end_locked(group);
    }
}

void groups__skip_begun(struct group *group)
{
    while (group->begun && group->next < group->record.total && (group->begun[group->next / 8] >> group->next % 8 & 1))
        group->next++;
}

/* ---------------------------------------------------------------- after the commit */

/* On the writer thread: ends a job that failed before it started. */
static void loss_done(struct store_write *write, enum store_status status)
{
    struct child *child = (struct child *)(void *)((char *)write - offsetof(struct child, loss));
    struct group *group = child->group;
    struct groups *groups = group->groups;
    if (status != STORE_OK) /* the store is closing: the job, and its group, wait for the next process */
        return;
    metric_add(METRIC_JOBS_FAILED, 1);
    child->record.status = JOB_FAILED;
    child->record.finished_at = child->change.finished_at;
    child->record.error = child->change.error; /* borrowed */
    jobs_log_end(&child->record, NULL);
    child->record.error = NULL;
    pthread_mutex_lock(&groups->mutex);
    groups__child_end_locked(child, true);
    groups__go_on_locked(group);
    pthread_mutex_unlock(&groups->mutex);
}

static void loss_held(struct store_write *write)
{
    groups__tell_held(((struct child *)(void *)((char *)write - offsetof(struct child, loss)))->group);
}

/* Fails a job that could not be started because memory ran out, without allocating. */
static void lose(struct child *child)
{
    const struct api_problem_type *type = api_problem_type(API_PROBLEM_INTERNAL);
    snprintf(child->detail, sizeof child->detail,
             "{\"type\":\"/problems/%s\",\"title\":\"%s\",\"status\":%d,\"detail\":\"the service ran out of memory "
             "before it could be started; post it again\",\"instance\":\"/v1/jobs/%s\"}",
             type->name, type->title, type->status, child->id);
    job_change_of(&child->change, &child->record, child->detail);
    child->change.status = JOB_FAILED;
    child->change.finished_at = clock_now_ms();
    child->loss = (struct store_update){
        .write = {.done = loss_done, .held = loss_held}, .changes = &child->change, .changes_len = 1};
    store_update_jobs(child->group->groups->server->store, &child->loss);
}

/* The row is stored; queues its job. */
static void begin(struct child *child)
{
    struct group *group = child->group;
    struct groups *groups = group->groups;
    struct jobs *jobs = groups->server->jobs;
    if (child->insert.unanswered)
        job_record_restart(&child->record);
    metric_add(METRIC_JOBS_ACCEPTED, 1);
    if (jobs_stopping(jobs))
        return; /* it waits for the next process */
    jobs_reserve_anyway(jobs, &child->record);
    if (!jobs_admit(jobs, &child->record, 0)) {
        jobs_unreserve_anyway(jobs, &child->record);
        lose(child);
        return;
    }
    pthread_mutex_lock(&groups->mutex);
    bool canceled = group->canceled; /* ends are processed on this thread, so the child and the group still exist */
    pthread_mutex_unlock(&groups->mutex);
    if (canceled)
        jobs_cancel_with_group(jobs, child->id);
}

/* Counts a child whose job was accepted and answered at once. */
static void count_final(const struct child *child)
{
    if (child->result) {
        metric_add(METRIC_JOBS_ACCEPTED, 1);
        metric_add(METRIC_JOBS_SUCCEEDED, 1);
        jobs_log_end(&child->record, child->result);
    }
}

/* On the writer thread. */
static void child_stored(struct store_write *write, enum store_status status)
{
    struct child *child = (struct child *)write;
    struct group *group = child->group;
    struct groups *groups = group->groups;
    bool final = !child->id[0] || (child->result && !child->insert.unanswered);
    if (status == STORE_OK && !final)
        begin(child);
    pthread_mutex_lock(&groups->mutex);
    group->storing--;
    if (status == STORE_OK && final) {
        count_final(child);
        groups__child_end_locked(child, false);
    } else if (child->result) {
        group->under_way++; /* its result had been deleted */
    }
    groups__go_on_locked(group);
    pthread_mutex_unlock(&groups->mutex);
}

static void child_held(struct store_write *write)
{
    groups__tell_held(((struct child *)write)->group);
}

/* ---------------------------------------------------------------- a child */

/* Checks the job and looks for a cached result. */
static void propose(struct child *child, struct api_job *job)
{
    struct jobs *jobs = child->group->groups->server->jobs;
    struct job_record *record = &child->record;
    struct eps_error error;
    if (!submission_propose(jobs, job, &child->group->record.poster, record, &child->result, &error)) {
        snprintf(child->detail, sizeof child->detail, "%s%s%s", error.pointer, error.pointer[0] ? ": " : "",
                 error.message);
        return;
    }
    memcpy(record->parent, child->group->record.id, UUID_SIZE);
    memcpy(record->request, child->group->record.request_id, sizeof record->request);
    memcpy(record->client, child->group->record.client, sizeof record->client);
    record->child = (int)child->insert.number;
    child->insert.record = record;
    child->insert.result = child->result;
}

/* Creates the child, outside the mutex. */
static void make(struct child *child)
{
    const struct group *group = child->group;
    struct store_child_insert *insert = &child->insert;
    struct api_job *job = NULL;
    enum child_kind kind = group->kind->child(group->groups->server, &group->record, group->asked, &insert->number,
                                              &job, child->detail, sizeof child->detail);
    assert(child->turn < group->barrier ? insert->number == child->turn : insert->number >= group->barrier);
    memcpy(insert->parent, group->record.id, UUID_SIZE);
    insert->status = kind == CHILD_SKIPPED || kind == CHILD_TRIED ? JOB_CANCELED : JOB_FAILED;
    insert->write.done = child_stored;
    insert->write.held = child_held;
    if (kind == CHILD_JOB || kind == CHILD_TRIED)
        propose(child, job);
    insert->detail = child->detail[0] ? child->detail : NULL;
    api_job_destroy(job);
}

static bool feed_one(struct group *group)
{
    struct groups *groups = group->groups;
    struct child *child = calloc(1, sizeof *child);
    pthread_mutex_lock(&groups->mutex);
    bool may = child && may_feed_locked(group) && !jobs_stopping(groups->server->jobs);
    if (may) {
        child->insert.number = child->turn = group->next++;
        groups__skip_begun(group);
        groups__child_add_locked(group, child);
        group->storing++;
    }
    pthread_mutex_unlock(&groups->mutex);
    if (!may) {
        free(child);
        return false;
    }
    make(child);
    pthread_mutex_lock(&groups->mutex);
    memcpy(child->id, child->record.id, UUID_SIZE); /* other threads look for it */
    group->under_way += child->id[0] && !child->result;
    pthread_mutex_unlock(&groups->mutex);
    store_insert_child(groups->server->store, &child->insert);
    return true;
}

void groups__feed(struct pool_task *task)
{
    struct group *group = (struct group *)task;
    struct groups *groups = group->groups;
    double until = clock_monotonic() + PORTION_SECONDS;
    for (int i = 0; i < PORTION && clock_monotonic() < until && feed_one(group); i++) {}
    pthread_mutex_lock(&groups->mutex);
    group->feeding = false;
    groups__go_on_locked(group);
    pthread_mutex_unlock(&groups->mutex);
}
