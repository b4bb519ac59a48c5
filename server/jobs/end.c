/*
 * How jobs leave the registry: one write for all jobs of a run (or for one that is canceled), and after its commit the
 * documents, the waiters and the memory.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdlib.h>

#include "server/jobs/internal.h"
#include "server/ops/log.h"
#include "server/ops/metrics.h"

struct ending *jobs__ending_create(struct jobs *jobs, struct live *lives)
{
    size_t len = 0;
    for (struct live *live = lives; live; live = live->next)
        len++;
    struct ending *ending = calloc(1, sizeof *ending);
    struct job_change *changes = calloc(len ? len : 1, sizeof *changes);
    if (!ending || !changes) {
        free(ending);
        free(changes);
        return NULL;
    }
    ending->jobs = jobs;
    ending->lives = lives;
    ending->update.changes = changes;
    ending->update.changes_len = len;
    return ending;
}

static void count_end(enum job_status status)
{
    metric_add(status == JOB_SUCCEEDED  ? METRIC_JOBS_SUCCEEDED
               : status == JOB_CANCELED ? METRIC_JOBS_CANCELED
                                        : METRIC_JOBS_FAILED,
               1);
}

/* Caches the final document and removes the job from the registry. The live record is not changed: others read it until
 * then, and it must not look final without its result. */
static void publish(struct jobs *jobs, struct live *live, const struct job_change *change, struct result_record *result,
                    bool stored)
{
    uint64_t mark = jobs_mark(jobs);
    struct job_record final = live->record; /* borrows the texts */
    final.status = change->status;
    final.attempts = change->attempts;
    final.from_cache = change->from_cache;
    final.version = change->version;
    final.finished_at = change->finished_at;
    final.error = change->error;
    struct document *document = stored ? document_create(&final, result, NULL) : NULL;
    if (document) {
        jobs_remember(jobs, document, mark);
        document_release(document);
    }
    if (stored)
        jobs_log_end(&final, result);
    count_end(change->status);
    pthread_mutex_lock(&jobs->mutex);
    map_remove(&jobs->live, &live->node);
    jobs__hold_locked(jobs, &live->reservation, -1);
    pthread_mutex_unlock(&jobs->mutex);
    waiters_call(jobs->server->works, &live->waiters);
    if (live->record.parent[0] && stored)
        jobs->child_ended(jobs->user, live->record.parent, live->record.id);
    jobs__live_release(live);
}

/* On the writer thread, after the commit. */
static void ending_done(struct store_write *write, enum store_status status)
{
    struct ending *ending = (struct ending *)write;
    struct jobs *jobs = ending->jobs;
    struct result_record *result = ending->update.result;
    bool stored = status == STORE_OK;
    if (!stored) {
        log_event(LOG_LEVEL_ERROR, "job-end-lost",
                  "detail=\"the end of %zu jobs could not be written; they run again after a restart\"",
                  ending->update.changes_len);
    } else if (result && result_record_cached(result)) {
        memory_put(jobs->results, result->hash, result, result_record_bytes(result), memory_mark(jobs->results));
    }
    struct live *live = ending->lives;
    for (size_t i = 0; live; i++) {
        struct live *next = live->next;
        publish(jobs, live, &ending->update.changes[i], result, stored);
        live = next;
    }
    waiters_call(jobs->server->works, &ending->cancelers);
    for (size_t i = 0; i < ending->update.changes_len; i++)
        free(ending->update.changes[i].error);
    result_record_release(result);
    free(ending->update.changes);
    free((void *)(uintptr_t)ending->update.uses);
    free(ending);
}

/* On the writer thread: the write will be retried. A cancel request does not wait for that. */
static void ending_held(struct store_write *write)
{
    struct ending *ending = (struct ending *)write;
    struct jobs *jobs = ending->jobs;
    log_event(LOG_LEVEL_ERROR, "job-end-held",
              "detail=\"the end of %zu jobs could not be written; retrying every second\"", ending->update.changes_len);
    waiters_call(jobs->server->works, &ending->cancelers);
    for (const struct live *live = ending->lives; live; live = live->next)
        if (live->record.parent[0])
            jobs->child_held(jobs->user, live->record.parent);
}

void jobs__ending_submit(struct ending *ending)
{
    ending->update.write.done = ending_done;
    ending->update.write.held = ending_held;
    store_update_jobs(ending->jobs->server->store, &ending->update);
}

/* ---------------------------------------------------------------- cancelling */

/* Removes the job from its run; a run without jobs stops. */
static void detach_locked(struct jobs *jobs, struct live *live)
{
    struct run *run = live->run;
    struct live **link = &run->lives;
    while (*link != live)
        link = &(*link)->next;
    *link = live->next;
    live->next = NULL;
    live->run = NULL;
    live->ending = true;
    jobs__count_locked(jobs, &live->record, run->started ? 0 : -1, run->started ? -1 : 0);
    if (!run->lives) {
        work_close(&run->work); /* a new equal job starts a new run */
        work_cancel(&run->work);
        /* In this order, because the awaited computation may end in between and submit the run. Otherwise the worker
         * that has or gets the run ends it. */
        if (waiter_withdraw(&run->awaited) || pool_withdraw(run->pool, &run->work.task))
            free(run);
    } else {
        work_tell(&run->work); /* its listeners include those of this job */
    }
}

static enum cancel_outcome cancel(struct jobs *jobs, const char *id, bool group, struct waiter *waiter)
{
    pthread_mutex_lock(&jobs->mutex);
    struct live *live = jobs__find_locked(jobs, id);
    if (!live || live->ending) {
        pthread_mutex_unlock(&jobs->mutex);
        return live ? CANCEL_ENDING : CANCEL_NOT_LIVE;
    }
    struct live *others = live->next;
    live->next = NULL;
    struct ending *ending = jobs__ending_create(jobs, live);
    live->next = others;
    if (!ending) {
        pthread_mutex_unlock(&jobs->mutex);
        return CANCEL_FAILED;
    }
    detach_locked(jobs, live);
    struct job_change *change = ending->update.changes;
    job_change_of(change, &live->record, NULL);
    change->status = JOB_CANCELED;
    change->cancels_group = group;
    change->finished_at = clock_now_ms();
    if (waiter)
        waiters_add(jobs->server->works, &ending->cancelers, waiter);
    pthread_mutex_unlock(&jobs->mutex);
    jobs__ending_submit(ending);
    return CANCEL_STARTED;
}

enum cancel_outcome jobs_cancel(struct jobs *jobs, const char *id, struct waiter *waiter)
{
    return cancel(jobs, id, false, waiter);
}

enum cancel_outcome jobs_cancel_with_group(struct jobs *jobs, const char *id)
{
    return cancel(jobs, id, true, NULL);
}
