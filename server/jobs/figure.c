/*
 * A figure is a piece of work identified by the hash of its result. A request for a figure that is being computed waits
 * for it. The worker has only the stored data of the job. Figures that take long run in the background and yield their
 * place from time to time; those that should take less than --express are ordinary tasks.
 *
 * Joining, leaving and the end are under the mutex of the registry, outside that of the works. An open figure found
 * there is therefore not freed meanwhile, and one that is taken back has no waiter.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/jobs/figure.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "server/cells/cells.h"
#include "server/jobs/decode.h"
#include "server/jobs/internal.h"
#include "server/jobs/realm.h"
#include "server/ops/clock.h"
#include "server/ops/log.h"

#define SLICE_SECONDS 0.25 /* between two offers of its place */
#define GRACE_SECONDS 10.0 /* how long it continues without waiters; more than Retry-After */

struct figure {
    struct work work; /* first */
    const struct figure_kind *kind;
    struct jobs *jobs;
    struct job_record record; /* without label and brief form */
    struct result_record *result;
    struct computation computation;
    struct reservation waiting; /* until a worker takes it */
};

static void figure_destroy(struct figure *figure)
{
    jobs_unreserve(figure->jobs, &figure->waiting);
    result_record_release(figure->result);
    job_record_clear(&figure->record);
    free(figure);
}

/* ---------------------------------------------------------------- computing */

/* Whether it has no waiter, and the time for one to return has passed. */
static bool lonely(struct figure *figure)
{
    return clock_monotonic() >= atomic_load(&figure->work.left_at) + GRACE_SECONDS;
}

/* Its clock stops while other tasks have its place. */
static void offer_place(void *user)
{
    struct figure *figure = user;
    static _Thread_local double offer_at;
    double now = clock_monotonic();
    if (now >= offer_at) {
        cells_rest();
        pool_yield();
        cells_go_on();
        offer_at = clock_monotonic() + SLICE_SECONDS;
        double waited = offer_at - SLICE_SECONDS - now;
        double deadline = atomic_load(&figure->computation.deadline);
        while (waited > SLICE_SECONDS &&
               !atomic_compare_exchange_weak(&figure->computation.deadline, &deadline, deadline + waited)) {}
    }
}

static bool figure_unwanted(void *user)
{
    struct figure *figure = user;
    return work_unwanted(&figure->work) || lonely(figure);
}

/* On the watchdog thread. Current and later requests are told why there is no figure, because it would get stuck
 * again. */
static void figure_stuck(void *user)
{
    struct figure *figure = user;
    figure->kind->give_up(figure->jobs, figure->result);
    pthread_mutex_lock(&figure->jobs->mutex);
    work_close(&figure->work);
    pthread_mutex_unlock(&figure->jobs->mutex);
}

static void figure_compute(struct figure *figure, struct api_job *job)
{
    struct server *server = figure->jobs->server;
    struct computation *computation = &figure->computation;
    computation_open(computation, server, &figure->work, server->config->max_seconds);
    computation->realm = realm_of(server->config, &figure->record.poster);
    computation->account = ledger_account(server->ledger, figure->work.task.owner);
    computation->canceled = figure_unwanted;
    computation->offer = offer_place;
    computation->stuck = figure_stuck;
    computation->job = figure->record.id;
    computation->request = figure->record.request;
    computation->user = figure;
    figure->kind->compute(figure->jobs, computation, job, figure->result);
    computation_close(computation);
}

static void figure_run(struct pool_task *task)
{
    struct figure *figure = (struct figure *)task;
    struct jobs *jobs = figure->jobs;
    struct eps_error error = {0};
    jobs_unreserve(jobs, &figure->waiting);
    /* It may have been stored after the request looked at the result and before the work was opened. */
    bool missing = !figure_unwanted(figure) && figure->kind->missing(jobs, figure->result);
    struct api_job *job = missing ? decode_stored(&figure->record, jobs->server->config, &error) : NULL;
    if (job)
        figure_compute(figure, job);
    pthread_mutex_lock(&jobs->mutex);
    work_close(&figure->work);
    pthread_mutex_unlock(&jobs->mutex);
    api_job_destroy(job);
    figure_destroy(figure);
}

/* ---------------------------------------------------------------- waiters */

/* NULL: out of memory, or the queue is full. */
static struct figure *figure_create(struct jobs *jobs, const struct figure_asked *asked, struct quota_refusal *refusal)
{
    const struct job_record *record = asked->record;
    struct reservation waiting = {
        .account = ledger_account(jobs->server->ledger, record->poster.key),
        .bytes = sizeof(struct figure) + strlen(record->job) + result_record_bytes(asked->result),
        .seconds = asked->kind->effort * fmin(jobs__estimate(record), asked->result->elapsed_seconds),
    };
    struct figure *figure = calloc(1, sizeof *figure);
    char *text = strdup(record->job);
    if (!figure || !text || !waiting.account || jobs_reserve(jobs, &waiting, asked->quota, refusal) != JOBS_ROOM) {
        free(figure);
        free(text);
        return NULL;
    }
    work_init(&figure->work, jobs->server->works, asked->kind->work, asked->result->hash);
    struct pool_task *task = &figure->work.task;
    task->run = figure_run;
    strcpy(task->owner, record->poster.key);
    task->seconds = waiting.seconds;
    task->background = task->seconds > jobs->server->config->express_seconds;
    figure->kind = asked->kind;
    figure->jobs = jobs;
    figure->record = *record;
    figure->record.job = text;
    figure->record.label = figure->record.brief = figure->record.error = NULL;
    figure->waiting = waiting;
    figure->result = result_record_retain(asked->result);
    return figure;
}

bool jobs_figure_wait(struct jobs *jobs, const struct figure_asked *asked, struct waiter *waiter,
                      struct quota_refusal *refusal)
{
    *refusal = (struct quota_refusal){.seconds = 0};
    pthread_mutex_lock(&jobs->mutex);
    bool joined = work_join(jobs->server->works, asked->kind->work, asked->result->hash, waiter);
    pthread_mutex_unlock(&jobs->mutex);
    struct figure *figure = joined ? NULL : figure_create(jobs, asked, refusal);
    if (!figure)
        return joined;
    pthread_mutex_lock(&jobs->mutex);
    const struct work *work = work_open(&figure->work, waiter);
    bool opened = work == &figure->work;
    if (opened)
        pool_submit(jobs->server->pool, &figure->work.task);
    pthread_mutex_unlock(&jobs->mutex);
    if (!opened)
        figure_destroy(figure);
    return work != NULL;
}

bool jobs_figure_leave(struct jobs *jobs, struct waiter *waiter)
{
    struct figure *taken = NULL;
    struct work *left = NULL;
    pthread_mutex_lock(&jobs->mutex);
    bool left_it = work_leave(waiter, &left);
    if (left && pool_withdraw(jobs->server->pool, &left->task)) {
        taken = (struct figure *)left;
        assert(!left->waiters.first);
        work_close(left);
    }
    pthread_mutex_unlock(&jobs->mutex);
    if (taken)
        figure_destroy(taken);
    return left_it;
}

/* ---------------------------------------------------------------- the privacy curve */

/* Replaces the result by the one with its curve. */
static void curve_keep(struct jobs *jobs, struct result_record *result)
{
    struct store_update update = {.result = result};
    if (store_update_jobs_wait(jobs->server->store, &update) != STORE_OK)
        log_event(LOG_LEVEL_ERROR, "curve-lost", "hash=%.16s detail=\"it is computed again on request\"", result->hash);
    memory_drop(jobs->results, result->hash);
    memory_put(jobs->results, result->hash, result, result_record_bytes(result), memory_mark(jobs->results));
}

static bool curve_still_missing(struct jobs *jobs, const struct result_record *result)
{
    struct result_record *now = NULL;
    bool missing = jobs_result(jobs, result->hash, result->version, &now) != STORE_OK || curve_missing(now);
    result_record_release(now);
    return missing;
}

static void curve_compute(struct jobs *jobs, struct computation *computation, struct api_job *job,
                          const struct result_record *result)
{
    struct result_record *with = computation_curve(computation, job, result);
    if (with)
        curve_keep(jobs, with);
    result_record_release(with);
}

static void curve_give_up(struct jobs *jobs, const struct result_record *result)
{
    struct result_record *without = result_record_copy(result);
    if (without)
        without->note = strdup(FIGURE_STUCK);
    if (without && without->note)
        curve_keep(jobs, without);
    result_record_release(without);
}

const struct figure_kind figure_curve = {WORK_CURVE, 10, curve_still_missing, curve_compute, curve_give_up};
