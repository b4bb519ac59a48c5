/*
 * A worker's part: a run from the queue to the last write of its jobs.
 *
 * The start is committed before the computing begins, so that a job that takes the process down is counted. The
 * writer applies in order, so a result that was being written when this run was queued can be read by then, and
 * the run ends as a hit.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/problem.h"
#include "server/jobs/compute.h"
#include "server/jobs/internal.h"
#include "server/ops/crash.h"
#include "server/ops/log.h"
#include "server/ops/metrics.h"

void jobs__run_destroy(struct run *run)
{
    api_job_destroy(run->decoded);
    free(run);
}

char *jobs__problem_text(json_t *problem)
{
    char *text = problem ? api_json_text(problem) : NULL;
    json_decref(problem);
    return text;
}

/* ---------------------------------------------------------------- start */

static size_t count_lives(const struct live *live)
{
    size_t len = 0;
    for (; live; live = live->next) {
        len++;
    }
    return len;
}

/* Marks the run and its jobs started. False: no one wants it. */
static bool run_begin(struct run *run, struct job_change **changes, size_t *len)
{
    struct jobs *jobs = run->jobs;
    int64_t now = clock_now_ms();
    pthread_mutex_lock(&jobs->mutex);
    *len = count_lives(run->lives);
    *changes = calloc(*len ? *len : 1, sizeof **changes);
    if (!*len || atomic_load(&jobs->stopping)) {
        pthread_mutex_unlock(&jobs->mutex);
        return false;
    }
    run->started = true;
    atomic_store(&run->stage, "start"); /* until the library names its own */
    if (run->task.seconds > 0) {
        atomic_store(&run->remaining_seconds, run->task.seconds);
    }
    size_t i = 0;
    for (struct live *live = run->lives; live; live = live->next, i++) {
        live->record.status = JOB_RUNNING;
        live->record.attempts++;
        live->record.started_at = now;
        jobs__count_locked(jobs, -1, 1);
        if (*changes) {
            job_change_of(&(*changes)[i], &live->record, NULL);
        }
    }
    pthread_mutex_unlock(&jobs->mutex);
    return true;
}

/* ---------------------------------------------------------------- end */

/* Takes the jobs off the run, so that none joins any more and none can be canceled. */
static struct live *run_close(struct run *run)
{
    struct jobs *jobs = run->jobs;
    pthread_mutex_lock(&jobs->mutex);
    struct live *lives = run->lives;
    run->lives = NULL;
    if (run->listed) {
        map_remove(&jobs->runs, &run->node);
        run->listed = false;
    }
    for (struct live *live = lives; live; live = live->next) {
        live->ending = true;
        live->run = NULL;
        jobs__count_locked(jobs, run->started ? 0 : -1, run->started ? -1 : 0);
    }
    pthread_mutex_unlock(&jobs->mutex);
    return lives;
}

static char *error_text(const struct eps_error *error, const char *id)
{
    char instance[64];
    snprintf(instance, sizeof instance, "/v1/jobs/%s", id);
    return jobs__problem_text(api_problem_of_error(error, instance));
}

/* Ends all jobs of the run: with the result, or else with the error. */
static void run_end(struct run *run, struct computation *computation, bool from_cache)
{
    struct live *lives = run_close(run);
    struct ending *ending = lives ? jobs__ending_create(run->jobs, lives) : NULL;
    if (!ending) { /* all canceled meanwhile; without memory the jobs stay live and run again after a restart */
        result_record_release(computation->result);
        free(computation->uses);
        return;
    }
    struct job_change *change = ending->update.changes;
    int64_t now = clock_now_ms();
    for (struct live *live = lives; live; live = live->next, change++) {
        job_change_of(change, &live->record, NULL);
        change->finished_at = now;
        if (computation->result) {
            change->status = JOB_SUCCEEDED;
            change->version = computation->result->version;
            change->from_cache = from_cache;
        } else {
            change->status = JOB_FAILED;
            change->error = error_text(&computation->error, live->record.id);
        }
    }
    ending->update.result = computation->result;
    ending->update.result_kept = from_cache;
    ending->update.uses = (const uint8_t(*)[32])computation->uses;
    ending->update.uses_len = computation->uses_len;
    jobs__ending_submit(ending);
}

/* ---------------------------------------------------------------- computing */

static bool run_canceled(void *user)
{
    struct run *run = user;
    return atomic_load_explicit(&run->abandoned, memory_order_relaxed) ||
           atomic_load_explicit(&run->jobs->stopping, memory_order_relaxed);
}

static void run_progress(void *user, double fraction, const char *stage, double remaining_seconds)
{
    struct run *run = user;
    if (fraction >= atomic_load(&run->fraction)) {
        atomic_store(&run->fraction, fmin(fraction, 1));
    }
    atomic_store(&run->stage, stage);
    if (!isnan(remaining_seconds)) { /* else the estimate stays */
        atomic_store(&run->remaining_seconds, remaining_seconds);
    }
}

struct api_job *jobs_decode(struct jobs *jobs, const struct job_record *record, struct eps_error *error)
{
    struct api_errors errors = {0};
    char hash[HASH_SIZE];
    *error = (struct eps_error){0};
    json_t *json = api_json_parse(record->job, strlen(record->job), error->message, sizeof error->message);
    struct api_job *job = json ? api_job_decode(&errors, json, (size_t)jobs->server->config->max_n) : NULL;
    if (job && !record->checked) {
        api_job_hash(hash, job);
        if (!hash[0]) {
            *error = (struct eps_error){.status = EPS_NO_MEMORY, .message = "out of memory"};
            api_job_destroy(job);
            job = NULL;
        } else if (strcmp(hash, record->hash) != 0) {
            log_event(LOG_LEVEL_ERROR, "checksum", "table=jobs key=%s detail=\"its text has another hash\"",
                      record->id);
            metric_add(METRIC_CHECKSUM_FAILURES, 1);
            error->status = EPS_INTERNAL;
            snprintf(error->message, sizeof error->message,
                     "the stored job is not the one that was accepted: its hash is another; post it again");
            api_job_destroy(job);
            job = NULL;
        }
    } else if (!job && (json ? errors.out_of_memory : !error->message[0])) {
        *error = (struct eps_error){.status = EPS_NO_MEMORY, .message = "out of memory"};
    } else if (!job) {
        error->status = json ? EPS_INVALID : EPS_INTERNAL;
        if (errors.len) {
            snprintf(error->pointer, sizeof error->pointer, "%s", errors.items[0].pointer);
            snprintf(error->message, sizeof error->message, "%s", errors.items[0].detail);
        }
    }
    api_errors_clear(&errors);
    json_decref(json);
    return job;
}

/* A job that waits has only its text. */
static struct api_job *decode_run(struct run *run, struct eps_error *error)
{
    pthread_mutex_lock(&run->jobs->mutex);
    struct live *live = run->lives;
    if (live) {
        atomic_fetch_add_explicit(&live->references, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&run->jobs->mutex);
    if (!live) { /* canceled meanwhile */
        error->status = EPS_CANCELED;
        return NULL;
    }
    struct api_job *job = jobs_decode(run->jobs, &live->record, error);
    jobs__live_release(live);
    return job;
}

static void run_compute(struct run *run, struct computation *computation)
{
    const struct config *config = run->jobs->server->config;
    double started = clock_monotonic();
    if (!run->decoded) {
        run->decoded = decode_run(run, &computation->error);
    }
    if (!run->decoded) {
        computation->status = computation->error.status;
        return;
    }
    computation->job = &run->decoded->job;
    computation->hash = run->hash;
    computation->config = config;
    computation->pool = run->jobs->server->pool;
    computation->store = run->jobs->server->store;
    computation->claims = run->jobs->server->claims;
    computation->deadline = config->max_seconds > 0 ? started + config->max_seconds : INFINITY;
    computation->canceled = run_canceled;
    computation->progress = run_progress;
    computation->user = run;
    computation_run(computation);
    metric_time(METRIC_TIME_RUN, clock_monotonic() - started);
}

static void run_started(struct run *run)
{
    struct computation computation = {0};
    bool from_cache = jobs_result(run->jobs, run->hash, EPS_ACCOUNTING_VERSION, &computation.result) == STORE_OK;
    metric_add(from_cache ? METRIC_RESULT_HITS : METRIC_RESULT_MISSES, 1);
    if (!from_cache) {
        run_compute(run, &computation);
    }
    if (computation.status == EPS_CANCELED && atomic_load(&run->jobs->stopping) && !atomic_load(&run->abandoned)) {
        run_close(run); /* their rows say that they run: the next process queues them again, and counts no attempt */
        free(computation.uses);
        return;
    }
    run_end(run, &computation, from_cache);
}

void jobs__run_task(struct pool_task *task)
{
    struct run *run = (struct run *)(void *)((char *)task - offsetof(struct run, task));
    struct job_change *changes = NULL;
    size_t len = 0;
    if (run_begin(run, &changes, &len)) {
        struct store_update update = {.changes = changes, .changes_len = changes ? len : 0};
        store_update_jobs_wait(run->jobs->server->store, &update);
        struct crash_scope outer = crash_enter(run->hash);
        run_started(run);
        crash_leave(&outer);
    } else {
        run_close(run);
    }
    free(changes);
    jobs__run_destroy(run);
}
