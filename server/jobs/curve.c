/*
 * Curves under way, by the hash of their result: who asks for one that is being computed waits for it.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/jobs/curve.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "server/jobs/compute.h"
#include "server/jobs/internal.h"
#include "server/ops/log.h"

/* A curve that a request asked for: the worker has only what is stored of the job. */
struct curve_task {
    struct pool_task task;
    struct curve *curve;
    struct job_record record; /* without label and brief */
    struct result_record *result;
    size_t waiting; /* bytes that it holds until a worker has it */
};

static struct curve *curve_list_locked(struct jobs *jobs, const char hash[HASH_SIZE])
{
    struct curve *curve = calloc(1, sizeof *curve);
    if (curve) {
        curve->jobs = jobs;
        memcpy(curve->hash, hash, HASH_SIZE);
        if (!map_insert(&jobs->curves, &curve->node, curve->hash)) {
            free(curve);
            curve = NULL;
        }
    }
    return curve;
}

static struct curve *curve_find_locked(struct jobs *jobs, const char hash[HASH_SIZE])
{
    struct map_node *node = map_find(&jobs->curves, hash);
    return node ? MAP_ENTRY(node, struct curve, node) : NULL;
}

static void curve_end(struct jobs *jobs, struct curve *curve)
{
    pthread_mutex_lock(&jobs->mutex);
    map_remove(&jobs->curves, &curve->node);
    waits_wake(jobs->server->waits, &curve->topic);
    pthread_mutex_unlock(&jobs->mutex);
    free(curve);
}

/* The result with its curve takes the place of the one without. */
static void curve_keep(struct jobs *jobs, struct result_record *result)
{
    struct store_update update = {.result = result};
    if (store_update_jobs_wait(jobs->server->store, &update) != STORE_OK) {
        log_event(LOG_LEVEL_ERROR, "curve-lost", "hash=%.16s detail=\"it is computed again when asked for\"",
                  result->hash);
    }
    memory_drop(jobs->results, result->hash);
    memory_put(jobs->results, result->hash, result, result_record_bytes(result), memory_mark(jobs->results));
}

/* ---------------------------------------------------------------- asked for */

static bool stopping(void *user)
{
    return jobs_stopping(user);
}

/* It may have been stored between the request's look at the result and its place in the list. */
static bool still_missing(struct jobs *jobs, const struct result_record *result)
{
    struct result_record *now = NULL;
    bool missing = jobs_result(jobs, result->hash, result->version, &now) != STORE_OK || curve_missing(now);
    result_record_release(now);
    return missing;
}

static void curve_task_run(struct pool_task *task)
{
    struct curve_task *asked = (struct curve_task *)(void *)((char *)task - offsetof(struct curve_task, task));
    struct curve *curve = asked->curve;
    struct jobs *jobs = curve->jobs;
    const struct config *config = jobs->server->config;
    struct eps_error error = {0};
    jobs_unreserve(jobs, asked->waiting);
    struct api_job *job = still_missing(jobs, asked->result) ? jobs_decode(jobs, &asked->record, &error) : NULL;
    if (job) {
        struct computation computation = {
            .job = &job->job,
            .config = config,
            .pool = jobs->server->pool,
            .store = jobs->server->store,
            .claims = jobs->server->claims,
            .deadline = config->max_seconds > 0 ? clock_monotonic() + config->max_seconds : INFINITY,
            .canceled = stopping,
            .user = jobs,
        };
        struct result_record *with = computation_curve(&computation, asked->result);
        if (with) {
            curve_keep(jobs, with);
        }
        result_record_release(with);
        free(computation.uses);
    }
    curve_end(jobs, curve);
    api_job_destroy(job);
    result_record_release(asked->result);
    job_record_clear(&asked->record);
    free(asked);
}

/* NULL: there is no memory, or no room in the queue. */
static struct curve_task *curve_task_create(struct jobs *jobs, const struct job_record *record,
                                            struct result_record *result)
{
    size_t waiting = sizeof(struct curve_task) + strlen(record->job) + result_record_bytes(result);
    struct curve_task *asked = calloc(1, sizeof *asked);
    char *text = strdup(record->job);
    if (!asked || !text || !jobs_reserve(jobs, waiting)) {
        free(asked);
        free(text);
        return NULL;
    }
    asked->record = *record;
    asked->record.job = text;
    asked->record.label = asked->record.brief = asked->record.error = NULL;
    asked->waiting = waiting;
    asked->task.run = curve_task_run;
    asked->task.seconds = jobs__estimate(record); /* about what its job took: the same distributions, at more points */
    asked->task.background = true;
    asked->result = result_record_retain(result);
    return asked;
}

/* One that no worker will have. */
static void curve_task_destroy(struct jobs *jobs, struct curve_task *asked)
{
    if (asked) {
        jobs_unreserve(jobs, asked->waiting);
        result_record_release(asked->result);
        job_record_clear(&asked->record);
        free(asked);
    }
}

enum curve_outcome jobs_curve_wait(struct jobs *jobs, const struct job_record *record, struct result_record *result,
                                   struct request *request, double deadline)
{
    struct curve_task *asked = curve_task_create(jobs, record, result);
    pthread_mutex_lock(&jobs->mutex);
    struct curve *curve = curve_find_locked(jobs, result->hash);
    bool fresh = !curve && asked && (curve = curve_list_locked(jobs, result->hash));
    if (fresh) {
        asked->curve = curve;
    }
    if (curve) {
        request_wait_on(request, &curve->topic, deadline);
    }
    pthread_mutex_unlock(&jobs->mutex);
    if (fresh) {
        pool_submit(jobs->server->pool, &asked->task);
        return CURVE_WAITING;
    }
    curve_task_destroy(jobs, asked);
    return curve ? CURVE_WAITING : CURVE_REFUSED;
}
