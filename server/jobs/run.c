/*
 * The part of a worker: a run from the queue to the last write of its jobs.
 *
 * The start is committed before the computation, so that it is known when the job crashes the process. The writer
 * applies writes in order, so a result that was being written when this run was queued can be read by then, and the run
 * ends as a cache hit.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/problem.h"
#include "server/jobs/compute.h"
#include "server/jobs/decode.h"
#include "server/jobs/internal.h"
#include "server/jobs/portions.h"
#include "server/jobs/realm.h"
#include "server/ops/crash.h"
#include "server/ops/log.h"
#include "server/ops/metrics.h"

/* ---------------------------------------------------------------- start */

static size_t count_lives(const struct live *live)
{
    size_t len = 0;
    for (; live; live = live->next)
        len++;
    return len;
}

/* The jobs of a run that start with it. */
struct start {
    struct job_change *changes;        /* NULL: out of memory */
    char (*requests)[REQUEST_ID_SIZE]; /* that submitted them; NULL: out of memory */
    size_t len;
};

/* Marks the run and its jobs as started. Returns false if no job is left. */
static bool run_begin(struct run *run, struct start *start)
{
    struct jobs *jobs = run->jobs;
    int64_t now = clock_now_ms();
    pthread_mutex_lock(&jobs->mutex);
    start->len = run->again ? 0 : count_lives(run->lives); /* a run that starts again has already announced them */
    start->changes = calloc(start->len ? start->len : 1, sizeof *start->changes);
    start->requests = calloc(start->len ? start->len : 1, sizeof *start->requests);
    if (!run->lives || atomic_load(&jobs->stopping)) {
        pthread_mutex_unlock(&jobs->mutex);
        return false;
    }
    run->started = true;
    double seconds = run->work.task.seconds; /* until the library has an estimate, and a stage */
    work_progress(&run->work, 0, "start", seconds > 0 ? seconds : NAN);
    size_t i = 0;
    for (struct live *live = run->again ? NULL : run->lives; live; live = live->next, i++) {
        live->record.status = JOB_RUNNING;
        live->record.attempts++;
        live->record.started_at = now;
        metric_time(METRIC_TIME_QUEUE, fmax(0, (double)(now - live->record.created_at) / 1000), live->record.request);
        jobs__count_locked(jobs, &live->record, -1, 1);
        if (start->changes)
            job_change_of(&start->changes[i], &live->record, NULL);
        if (start->requests)
            memcpy(start->requests[i], live->record.request, sizeof start->requests[i]);
    }
    pthread_mutex_unlock(&jobs->mutex);
    return true;
}

/* ---------------------------------------------------------------- end */

/* Detaches the jobs from the run, so that no other job joins and none can be canceled. */
static struct live *run_close(struct run *run)
{
    struct jobs *jobs = run->jobs;
    pthread_mutex_lock(&jobs->mutex);
    struct live *lives = run->lives;
    run->lives = NULL;
    work_close(&run->work);
    for (struct live *live = lives; live; live = live->next) {
        live->ending = true;
        live->run = NULL;
        jobs__count_locked(jobs, &live->record, run->started ? 0 : -1, run->started ? -1 : 0);
    }
    pthread_mutex_unlock(&jobs->mutex);
    return lives;
}

static char *error_text(const struct computation *computation, const char *id)
{
    char instance[64];
    const struct eps_error *error = &computation->error;
    snprintf(instance, sizeof instance, "/v1/jobs/%s", id);
    return api_json_text_new(computation->crashed
                                 ? api_problem_encode(API_PROBLEM_CRASHED, error->message, instance, NULL)
                                 : api_problem_of_error(error, instance));
}

/* Ends all jobs of the run with the result, or otherwise with the error. */
static void run_end(struct run *run, struct computation *computation, bool from_cache)
{
    struct live *lives = run_close(run);
    struct ending *ending = lives ? jobs__ending_create(run->jobs, lives) : NULL;
    if (!ending) { /* all were canceled meanwhile; if memory runs out, the jobs stay live and run again after a
                    * restart */
        result_record_release(computation->result);
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
            change->error = error_text(computation, live->record.id);
        }
    }
    if (computation->crashed)
        metric_add(METRIC_JOBS_CRASHED, (int64_t)ending->update.changes_len);
    ending->update.result = computation->result;
    ending->update.result_kept = from_cache;
    ending->update.uses = (const uint8_t(*)[32])computation->uses;
    ending->update.uses_len = computation->uses_len;
    computation->uses = NULL;
    jobs__ending_submit(ending);
}

/* On the watchdog thread: the run has exceeded its deadline and does not stop, or all its jobs were canceled. Its
 * result would come too late. */
static void run_stuck(void *work)
{
    static const char message[] =
        "the computation exceeded the time limit of the service (--max-seconds) and did not stop; it was abandoned, "
        "which is a bug in the service: please report it";
    struct computation given_up = {.error = {.status = EPS_TIMEOUT}};
    memcpy(given_up.error.message, message, sizeof message);
    run_end(work, &given_up, false);
}

/* ---------------------------------------------------------------- computing */

static void run_progress(void *work, double fraction, const char *stage, double remaining_seconds)
{
    work_progress(work, fraction, stage, remaining_seconds);
}

/* A waiting job keeps only its text. */
static struct api_job *decode_run(struct run *run, struct eps_error *error)
{
    pthread_mutex_lock(&run->jobs->mutex);
    struct live *live = run->lives;
    if (live)
        atomic_fetch_add_explicit(&live->references, 1, memory_order_relaxed);
    pthread_mutex_unlock(&run->jobs->mutex);
    if (!live) { /* canceled meanwhile */
        error->status = EPS_CANCELED;
        return NULL;
    }
    struct api_job *job = decode_stored(&live->record, run->jobs->server->config, error);
    jobs__live_release(live);
    return job;
}

static void run_compute(struct run *run, struct computation *computation)
{
    double started = clock_monotonic();
    struct server *server = run->jobs->server;
    struct api_job *job = decode_run(run, &computation->error);
    if (!job) {
        computation->status = computation->error.status;
        return;
    }
    computation->progress = run_progress;
    computation->remote = run->pool == server->remote;
    computation->may_put_off = !computation->remote; /* a thread that waits for a worker costs little */
    computation->job = run->job;
    computation->request = run->request;
    computation->stuck = run_stuck;
    bool divided = computation->remote && portions_take_place(server, job, run->work.task.seconds);
    computation->portions = divided ? portions_create(computation, job) : NULL;
    computation->remote = computation->remote && !computation->portions;
    computation_run(computation, job, work_hash(&run->work));
    portions_destroy(computation->portions);
    computation->portions = NULL;
    if (divided)
        portions_give_place(server);
    api_job_destroy(job);
    metric_time(METRIC_TIME_RUN, clock_monotonic() - started, run->request);
}

static void submit_again(void *user)
{
    struct run *run = user;
    pool_submit(run->pool, &run->work.task);
}

/* Waits, without a thread, for the other computation and starts again after it. The run may have been freed on
 * return. */
static void run_put_off(struct run *run, const uint8_t key[32])
{
    struct jobs *jobs = run->jobs;
    pthread_mutex_lock(&jobs->mutex); /* so that a cancel finds it in one of the two places */
    run->again = true;
    run->awaited = (struct waiter){.fn = submit_again, .user = run};
    if (!part_join(jobs->server->works, key, &run->awaited))
        pool_submit(run->pool, &run->work.task);
    pthread_mutex_unlock(&jobs->mutex);
}

/* Starts again on a thread of this process. The run may have been freed on return. */
static void run_here(struct run *run)
{
    struct jobs *jobs = run->jobs;
    pthread_mutex_lock(&jobs->mutex); /* so that a cancel finds it in one of the two pools */
    run->again = true;
    run->pool = jobs->server->pool;
    pool_submit(run->pool, &run->work.task);
    pthread_mutex_unlock(&jobs->mutex);
}

/* Returns false if it was put off and no longer belongs to the caller. */
static bool run_started(struct run *run)
{
    struct server *server = run->jobs->server;
    struct computation computation;
    computation_open(&computation, server, &run->work, server->config->max_seconds);
    computation.realm = realm_of(server->config, &run->poster);
    computation.account = ledger_account(server->ledger, run->work.task.owner);
    bool from_cache =
        jobs_result(run->jobs, work_hash(&run->work), EPS_ACCOUNTING_VERSION, &computation.result) == STORE_OK;
    metric_add(from_cache ? METRIC_RESULT_HITS : METRIC_RESULT_MISSES, !run->again);
    if (!from_cache)
        run_compute(run, &computation);
    bool unwanted = atomic_load(&run->work.canceled);
    if (computation.left && !unwanted && !atomic_load(&run->jobs->stopping)) {
        computation_close(&computation);
        run_here(run);
        return false;
    }
    bool put_off = computation.status == EPS_CANCELED && atomic_load(&computation.put_off) && !unwanted;
    if (put_off && !atomic_load(&run->jobs->stopping)) {
        uint8_t key[sizeof computation.awaited];
        memcpy(key, computation.awaited, sizeof key);
        computation_close(&computation);
        run_put_off(run, key);
        return false;
    }
    if (computation.status == EPS_CANCELED && atomic_load(&run->jobs->stopping) && !unwanted)
        run_close(run); /* their rows say "running": the next process queues them again, without an attempt */
    else
        run_end(run, &computation, from_cache);
    computation_close(&computation);
    return true;
}

/* Commits the start, and logs it. */
static void announce(struct run *run, const struct start *start)
{
    struct store_update update = {.changes = start->changes, .changes_len = start->changes ? start->len : 0};
    if (start->len)
        store_update_jobs_wait(run->jobs->server->store, &update);
    for (size_t i = 0; start->changes && start->requests && i < start->len; i++)
        jobs__log_start(&start->changes[i], start->requests[i], work_hash(&run->work));
}

void jobs__run_task(struct pool_task *task)
{
    struct run *run = (struct run *)task;
    struct start start = {0};
    bool ended = true;
    if (run_begin(run, &start)) {
        announce(run, &start);
        struct crash_scope outer = crash_enter(work_hash(&run->work));
        ended = run_started(run);
        crash_leave(&outer);
    } else {
        run_close(run);
    }
    free(start.changes);
    free(start.requests);
    if (ended)
        free(run);
}
