/*
 * A curve is work of its own, by the hash of its result: who asks for one that is being computed waits for it. The worker
 * has only what is stored of the job.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/jobs/curve.h"

#include <stdlib.h>
#include <string.h>

#include "server/jobs/compute.h"
#include "server/jobs/decode.h"
#include "server/jobs/internal.h"
#include "server/ops/log.h"

struct curve {
    struct work work; /* first */
    struct jobs *jobs;
    struct job_record record; /* without label and brief */
    struct result_record *result;
    size_t waiting; /* bytes that it holds until a worker has it; 0: none any more */
};

static void curve_destroy(struct curve *curve)
{
    if (curve->waiting) {
        jobs_unreserve(curve->jobs, curve->waiting);
    }
    result_record_release(curve->result);
    job_record_clear(&curve->record);
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

/* It may have been stored between the request's look at the result and the opening of the work. */
static bool still_missing(struct jobs *jobs, const struct result_record *result)
{
    struct result_record *now = NULL;
    bool missing = jobs_result(jobs, result->hash, result->version, &now) != STORE_OK || curve_missing(now);
    result_record_release(now);
    return missing;
}

static void curve_compute(struct curve *curve, const struct api_job *job)
{
    struct server *server = curve->jobs->server;
    struct computation computation;
    computation_open(&computation, server, &curve->work, server->config->max_seconds);
    struct result_record *with = computation_curve(&computation, &job->job, curve->result);
    computation_close(&computation);
    if (with) {
        curve_keep(curve->jobs, with);
    }
    result_record_release(with);
}

static void curve_run(struct pool_task *task)
{
    struct curve *curve = (struct curve *)task;
    struct jobs *jobs = curve->jobs;
    struct eps_error error = {0};
    jobs_unreserve(jobs, curve->waiting);
    curve->waiting = 0;
    struct api_job *job =
        still_missing(jobs, curve->result) ? decode_stored(&curve->record, jobs->server->config->max_n, &error) : NULL;
    if (job) {
        curve_compute(curve, job);
    }
    work_close(&curve->work);
    api_job_destroy(job);
    curve_destroy(curve);
}

/* NULL: there is no memory, or no room in the queue. */
static struct curve *curve_create(struct jobs *jobs, const struct job_record *record, struct result_record *result)
{
    size_t waiting = sizeof(struct curve) + strlen(record->job) + result_record_bytes(result);
    struct curve *curve = calloc(1, sizeof *curve);
    char *text = strdup(record->job);
    if (!curve || !text || !jobs_reserve(jobs, waiting)) {
        free(curve);
        free(text);
        return NULL;
    }
    work_init(&curve->work, jobs->server->works, WORK_CURVE, result->hash);
    curve->work.task.run = curve_run;
    curve->work.task.seconds =
        jobs__estimate(record); /* about what its job took: the same distributions, at more points */
    curve->work.task.background = true;
    curve->jobs = jobs;
    curve->record = *record;
    curve->record.job = text;
    curve->record.label = curve->record.brief = curve->record.error = NULL;
    curve->waiting = waiting;
    curve->result = result_record_retain(result);
    return curve;
}

bool jobs_curve_wait(struct jobs *jobs, const struct job_record *record, struct result_record *result,
                     struct waiter *waiter)
{
    if (work_join(jobs->server->works, WORK_CURVE, result->hash, waiter)) {
        return true;
    }
    struct curve *curve = curve_create(jobs, record, result);
    if (!curve) {
        return false;
    }
    const struct work *work = work_open(&curve->work, waiter);
    if (work == &curve->work) {
        pool_submit(jobs->server->pool, &curve->work.task);
    } else {
        curve_destroy(curve);
    }
    return work != NULL;
}
