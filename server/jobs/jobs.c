/*
 * The registry of live jobs: admission, joining equal jobs, and reading a job in any state. See end.c for how jobs
 * leave it.
 *
 * A job is in memory, or final in the database, at any time: its document is cached before it leaves the registry, and
 * it leaves only after its last commit. Readers look in that order.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/jobs/jobs.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "server/jobs/internal.h"
#include "server/ops/log.h"
#include "server/ops/metrics.h"

#define OPERATIONS_PER_SECOND 1e9 /* as estimated by accountants, on one core */
#define UNKNOWN_SECONDS 10.0      /* for a job without an estimate */
#define SPENDS_LEAST (1 << 20)    /* bytes for stored training curves, about 200 of them */
#define ALLOCATION 32             /* the overhead of the allocator and the map */

static void retain_document(void *value)
{
    document_retain(value);
}

static void release_document(void *value)
{
    document_release(value);
}

static void retain_result(void *value)
{
    result_record_retain(value);
}

static void release_result(void *value)
{
    result_record_release(value);
}

struct jobs *jobs_create(struct server *server)
{
    struct jobs *jobs = calloc(1, sizeof *jobs);
    if (!jobs)
        return NULL;
    pthread_mutex_init(&jobs->mutex, NULL);
    jobs->server = server;
    size_t quarter = (size_t)server->config->memory_bytes / 4;
    jobs->documents = memory_create(2 * quarter, retain_document, release_document);
    jobs->results = memory_create(quarter, retain_result, release_result);
    jobs->requests = memory_create(quarter / 2, jobs__prototype_retain, jobs__prototype_release);
    /* A request that waited for one must find it, so there is room for some, whatever --memory-bytes is. */
    size_t eighth = quarter / 2 > SPENDS_LEAST ? quarter / 2 : SPENDS_LEAST;
    jobs->spends = memory_create(eighth, jobs__spend_retain, jobs__spend_release);
    if (!jobs->documents || !jobs->results || !jobs->requests || !jobs->spends) {
        jobs_destroy(jobs);
        return NULL;
    }
    return jobs;
}

void jobs_stop(struct jobs *jobs)
{
    atomic_store(&jobs->stopping, true);
    works_stop(jobs->server->works);
}

bool jobs_stopping(struct jobs *jobs)
{
    return atomic_load_explicit(&jobs->stopping, memory_order_relaxed);
}

void jobs_destroy(struct jobs *jobs)
{
    if (!jobs)
        return;
    for (size_t i = 0; i < jobs->live.capacity; i++) {
        struct map_node *node = jobs->live.buckets[i];
        while (node) {
            struct live *live = MAP_ENTRY(node, struct live, node);
            node = node->next;
            jobs__live_release(live);
        }
    }
    map_clear(&jobs->live);
    memory_destroy(jobs->documents);
    memory_destroy(jobs->results);
    memory_destroy(jobs->requests);
    memory_destroy(jobs->spends);
    pthread_mutex_destroy(&jobs->mutex);
    free(jobs);
}

void jobs__live_release(struct live *live)
{
    if (atomic_fetch_sub_explicit(&live->references, 1, memory_order_acq_rel) == 1) {
        job_record_clear(&live->record);
        free(live);
    }
}

struct live *jobs__find_locked(struct jobs *jobs, const char *id)
{
    struct map_node *node = map_find(&jobs->live, id);
    return node ? MAP_ENTRY(node, struct live, node) : NULL;
}

void jobs_expired(void *jobs, const char *id)
{
    jobs_forget(jobs, id);
}

void jobs_result_expired(void *jobs, const char *hash)
{
    memory_drop(((struct jobs *)jobs)->results, hash);
}

void jobs_forget(struct jobs *jobs, const char *id)
{
    memory_drop(jobs->documents, id);
}

uint64_t jobs_mark(struct jobs *jobs)
{
    return memory_mark(jobs->documents);
}

void jobs_remember(struct jobs *jobs, struct document *document, uint64_t mark)
{
    memory_put(jobs->documents, document->id, document, sizeof *document + document->len, mark);
}

/* ---------------------------------------------------------------- reading */

/* Reads the progress of the job; returns false if nothing is running. A job that has ended is being stored. */
static bool progress_locked(const struct live *live, struct job_progress *progress)
{
    const struct run *run = live->run;
    *progress = (struct job_progress){.fraction = 1, .stage = "store", .remaining_seconds = NAN};
    if (run && run->started) {
        *progress = (struct job_progress){
            .fraction = atomic_load(&run->work.fraction),
            .stage = atomic_load(&run->work.stage),
            .remaining_seconds = atomic_load(&run->work.remaining_seconds),
        };
    }
    return live->ending || (run && run->started);
}

enum store_status jobs_result(struct jobs *jobs, const char *hash, int version, struct result_record **result)
{
    bool current = version == EPS_ACCOUNTING_VERSION;
    uint64_t mark = memory_mark(jobs->results);
    struct result_record *found = current ? memory_get(jobs->results, hash) : NULL;
    if (found) {
        *result = found;
        return STORE_OK;
    }
    enum store_status status = store_read_result(jobs->server->store, hash, version, result);
    if (status == STORE_OK && current)
        memory_put(jobs->results, hash, *result, result_record_bytes(*result), mark);
    return status;
}

/* Reads a job that is only in the database. */
static enum store_status read_stored(struct jobs *jobs, const char *id, struct document **document)
{
    struct job_record record;
    struct result_record *result = NULL;
    uint64_t mark = jobs_mark(jobs);
    enum store_status status = store_read_job(jobs->server->store, id, &record);
    if (status == STORE_CORRUPT)
        job_record_clear(&record);
    if (status != STORE_OK)
        return status;
    if (record.status == JOB_SUCCEEDED) {
        status = jobs_result(jobs, record.hash, record.version, &result);
        if (status == STORE_NONE)
            status = store_result_lost(record.hash);
    }
    if (status == STORE_OK) {
        *document = document_create(&record, result, NULL);
        status = *document ? STORE_OK : STORE_FAILED;
        if (*document && job_status_final(record.status))
            jobs_remember(jobs, *document, mark);
    }
    result_record_release(result);
    job_record_clear(&record);
    return status;
}

/* The state of a live job at one moment. The texts are those of the live job, which is retained meanwhile. The
 * document, which may have megabytes, is written outside the mutex of the registry. */
struct snapshot {
    struct live *live;
    struct job_record record;
    bool running;
    struct job_progress progress;
};

/* Returns false if the job is not live. */
static bool snapshot_take(struct jobs *jobs, const char *id, struct snapshot *snapshot)
{
    pthread_mutex_lock(&jobs->mutex);
    struct live *live = jobs__find_locked(jobs, id);
    snapshot->live = live;
    if (live) {
        atomic_fetch_add_explicit(&live->references, 1, memory_order_relaxed);
        snapshot->record = live->record;
        snapshot->running = progress_locked(live, &snapshot->progress);
    }
    pthread_mutex_unlock(&jobs->mutex);
    return live != NULL;
}

enum store_status jobs_get(struct jobs *jobs, const char *id, struct document **document)
{
    struct snapshot snapshot;
    *document = memory_get(jobs->documents, id);
    if (*document)
        return STORE_OK;
    if (!snapshot_take(jobs, id, &snapshot))
        return read_stored(jobs, id, document);
    *document = document_create(&snapshot.record, NULL, snapshot.running ? &snapshot.progress : NULL);
    jobs__live_release(snapshot.live);
    return *document ? STORE_OK : STORE_FAILED;
}

bool jobs_refresh(struct jobs *jobs, struct job_record *record, struct job_progress *progress)
{
    pthread_mutex_lock(&jobs->mutex);
    struct live *live = jobs__find_locked(jobs, record->id);
    if (live) {
        record->status = live->record.status;
        record->attempts = live->record.attempts;
        record->started_at = live->record.started_at;
        if (!progress_locked(live, progress))
            *progress = (struct job_progress){.remaining_seconds = NAN};
    }
    pthread_mutex_unlock(&jobs->mutex);
    return live != NULL;
}

bool jobs_is_live(struct jobs *jobs, const char *id)
{
    pthread_mutex_lock(&jobs->mutex);
    bool found = jobs__find_locked(jobs, id) != NULL;
    pthread_mutex_unlock(&jobs->mutex);
    return found;
}

bool jobs_watch(struct jobs *jobs, const char *id, struct waiter *waiter)
{
    pthread_mutex_lock(&jobs->mutex);
    struct live *live = jobs__find_locked(jobs, id);
    if (live)
        waiters_add(jobs->server->works, &live->waiters, waiter);
    pthread_mutex_unlock(&jobs->mutex);
    return live != NULL;
}

/* The number of the current state of a job: counts its start and the changes of its work. */
static uint64_t number_locked(const struct live *live)
{
    const struct run *run = live->run;
    uint64_t change = run ? atomic_load(&run->work.changes) : UINT32_MAX; /* it is being stored */
    return ((uint64_t)live->record.attempts << 32) + change + 1;
}

bool jobs_progress(struct jobs *jobs, const char *id, struct job_progress *progress, uint64_t *number)
{
    pthread_mutex_lock(&jobs->mutex);
    struct live *live = jobs__find_locked(jobs, id);
    if (live) {
        *number = number_locked(live);
        if (!progress_locked(live, progress))
            *progress = (struct job_progress){.remaining_seconds = NAN};
    }
    pthread_mutex_unlock(&jobs->mutex);
    return live != NULL;
}

bool jobs_listen(struct jobs *jobs, const char *id, uint64_t number, struct waiter *waiter)
{
    pthread_mutex_lock(&jobs->mutex);
    struct live *live = jobs__find_locked(jobs, id);
    bool waits = live && number_locked(live) == number;
    if (waits && live->run)
        waits = work_listen(&live->run->work, (unsigned)(number - 1), waiter);
    else if (waits)
        waiters_add(jobs->server->works, &live->waiters, waiter);
    pthread_mutex_unlock(&jobs->mutex);
    return waits;
}

/* ---------------------------------------------------------------- admission */

/* An account exists since its key has posted something, or since the process has read that from the database. */
static struct account *account_of(struct jobs *jobs, const struct job_record *record)
{
    struct account *account = ledger_account(jobs->server->ledger, record->poster.key);
    assert(account);
    return account;
}

struct reservation jobs_reservation(struct jobs *jobs, const struct job_record *record)
{
    return (struct reservation){
        .account = account_of(jobs, record),
        .bytes = sizeof(struct live) + sizeof(struct run) + 2 * ALLOCATION + job_record_bytes(record),
        .seconds = jobs__estimate(record),
    };
}

void jobs__hold_locked(struct jobs *jobs, const struct reservation *reservation, int sign)
{
    jobs->bytes += sign > 0 ? reservation->bytes : -reservation->bytes;
    account_hold(reservation->account, sign * (int64_t)reservation->bytes, sign * reservation->seconds);
}

static void tell_counts_locked(const struct jobs *jobs)
{
    metric_set(METRIC_JOBS_QUEUED, (int64_t)(jobs->queued + jobs->children));
    metric_set(METRIC_JOBS_RUNNING, (int64_t)jobs->running);
}

/* Counts what waits and is no child. */
static void wait_locked(struct jobs *jobs, struct account *account, int places)
{
    jobs->queued += (size_t)places;
    account_wait(account, places);
    tell_counts_locked(jobs);
}

void jobs__count_locked(struct jobs *jobs, const struct job_record *record, int queued, int running)
{
    jobs->running += (size_t)running;
    if (record->parent[0])
        jobs->children += (size_t)queued;
    else
        wait_locked(jobs, account_of(jobs, record), queued);
    tell_counts_locked(jobs);
}

/* Whether there is room for one more job. */
static enum jobs_room room_locked(struct jobs *jobs, const struct reservation *reservation, const struct quota *quota,
                                  struct quota_refusal *refusal)
{
    const struct config *config = jobs->server->config;
    size_t places = jobs->queued + jobs->places, bytes = jobs->bytes + reservation->bytes;
    if (places >= config->queue || bytes > config->queue_bytes || atomic_load(&jobs->stopping)) {
        metric_add(METRIC_QUEUE_REFUSED, 1);
        return JOBS_FULL;
    }
    struct ledger_place place = {.seconds = reservation->seconds,
                                 .free_places = config->queue - places,
                                 .free_bytes = config->queue_bytes - bytes};
    return account_may_wait(reservation->account, quota, &place, clock_monotonic(), refusal) ? JOBS_ROOM : JOBS_OVER;
}

enum jobs_room jobs_reserve(struct jobs *jobs, const struct reservation *reservation, const struct quota *quota,
                            struct quota_refusal *refusal)
{
    pthread_mutex_lock(&jobs->mutex);
    enum jobs_room room = room_locked(jobs, reservation, quota, refusal);
    if (room == JOBS_ROOM) {
        jobs__hold_locked(jobs, reservation, 1);
        wait_locked(jobs, reservation->account, 1);
    }
    pthread_mutex_unlock(&jobs->mutex);
    return room;
}

void jobs_unreserve(struct jobs *jobs, struct reservation *reservation)
{
    if (!reservation->account)
        return;
    pthread_mutex_lock(&jobs->mutex);
    jobs__hold_locked(jobs, reservation, -1);
    wait_locked(jobs, reservation->account, -1);
    pthread_mutex_unlock(&jobs->mutex);
    *reservation = (struct reservation){.account = NULL};
}

void jobs_reserve_anyway(struct jobs *jobs, const struct job_record *record)
{
    struct reservation reservation = jobs_reservation(jobs, record);
    pthread_mutex_lock(&jobs->mutex);
    jobs__hold_locked(jobs, &reservation, 1);
    jobs__count_locked(jobs, record, 1, 0);
    pthread_mutex_unlock(&jobs->mutex);
}

void jobs_unreserve_anyway(struct jobs *jobs, const struct job_record *record)
{
    struct reservation reservation = jobs_reservation(jobs, record);
    pthread_mutex_lock(&jobs->mutex);
    jobs__hold_locked(jobs, &reservation, -1);
    jobs__count_locked(jobs, record, -1, 0);
    pthread_mutex_unlock(&jobs->mutex);
}

static void place_locked(struct jobs *jobs, const struct reservation *reservation, int sign)
{
    jobs->places += (size_t)sign;
    jobs__hold_locked(jobs, reservation, sign);
    account_wait(reservation->account, sign);
}

enum jobs_room jobs_take_place(struct jobs *jobs, const struct reservation *reservation, const struct quota *quota,
                               struct quota_refusal *refusal)
{
    pthread_mutex_lock(&jobs->mutex);
    enum jobs_room room = room_locked(jobs, reservation, quota, refusal);
    if (room == JOBS_ROOM)
        place_locked(jobs, reservation, 1);
    pthread_mutex_unlock(&jobs->mutex);
    return room;
}

void jobs_take_place_anyway(struct jobs *jobs, const struct reservation *reservation)
{
    pthread_mutex_lock(&jobs->mutex);
    place_locked(jobs, reservation, 1);
    pthread_mutex_unlock(&jobs->mutex);
}

void jobs_give_place(struct jobs *jobs, const struct reservation *reservation)
{
    pthread_mutex_lock(&jobs->mutex);
    place_locked(jobs, reservation, -1);
    pthread_mutex_unlock(&jobs->mutex);
}

void jobs_on_child(struct jobs *jobs, void (*ended)(void *user, const char *parent, const char *id),
                   void (*held)(void *user, const char *parent), void *user)
{
    jobs->child_ended = ended;
    jobs->child_held = held;
    jobs->user = user;
}

double jobs__estimate(const struct job_record *record)
{
    return record->operations > 0 ? record->operations / OPERATIONS_PER_SECOND : UNKNOWN_SECONDS;
}

static struct run *run_create(struct jobs *jobs, const struct job_record *record, double alone_seconds)
{
    struct run *run = calloc(1, sizeof *run);
    if (run) {
        work_init(&run->work, jobs->server->works, WORK_SOLVE, record->hash);
        struct pool_task *task = &run->work.task;
        task->run = jobs__run_task;
        strcpy(task->owner, record->poster.key);
        task->seconds = jobs__estimate(record);
        task->arrived = clock_monotonic() - fmax(0, (double)(clock_now_ms() - record->created_at) / 1000);
        task->alone_seconds = alone_seconds;
        task->child = record->parent[0] != '\0';
        run->jobs = jobs;
        run->pool = jobs->server->pool;
        if (jobs->server->remote && task->seconds >= jobs->server->config->broker_seconds) {
            run->pool = jobs->server->remote;
            task->alone_seconds = 0; /* elsewhere, it cannot end this process */
        }
        memcpy(run->job, record->id, UUID_SIZE);
        memcpy(run->request, record->request, sizeof run->request);
        run->poster = record->poster;
    }
    return run;
}

struct late_start {
    struct store_update update;
    struct job_change change;
    char request[REQUEST_ID_SIZE];
    char hash[HASH_SIZE];
};

static void late_start_done(struct store_write *write, enum store_status status)
{
    struct late_start *start = (struct late_start *)write;
    (void)status; /* logged; at worst a crash counts one start too few */
    jobs__log_start(&start->change, start->request, start->hash);
    free(start);
}

/* A job that joins a run in progress has started. */
static void start_late_locked(struct jobs *jobs, struct live *live)
{
    live->record.status = JOB_RUNNING;
    live->record.attempts++;
    live->record.started_at = clock_now_ms();
    metric_time(METRIC_TIME_QUEUE, fmax(0, (double)(live->record.started_at - live->record.created_at) / 1000),
                live->record.request);
    jobs__count_locked(jobs, &live->record, -1, 1);
    struct late_start *start = calloc(1, sizeof *start);
    if (start) {
        job_change_of(&start->change, &live->record, NULL);
        memcpy(start->request, live->record.request, sizeof start->request);
        memcpy(start->hash, live->record.hash, sizeof start->hash);
        start->update.changes = &start->change;
        start->update.changes_len = 1;
        start->update.write.done = late_start_done;
        store_update_jobs(jobs->server->store, &start->update);
    }
}

/* Finds the run of an equal job or opens a new one, under the mutex of the registry, as is everything that closes one.
 * *fresh: the run must be submitted to the pool. */
static struct run *run_for_locked(struct jobs *jobs, const struct job_record *record, double alone_seconds, bool *fresh)
{
    struct run *run = (struct run *)work_find(jobs->server->works, WORK_SOLVE, record->hash);
    *fresh = !run;
    if (run) {
        metric_add(METRIC_JOBS_JOINED, 1);
        pool_share(run->pool, &run->work.task, record->poster.key);
        return run;
    }
    run = run_create(jobs, record, alone_seconds);
    if (run && !work_open(&run->work, NULL)) {
        free(run);
        return NULL;
    }
    return run;
}

bool jobs_admit(struct jobs *jobs, struct job_record *record, double alone_seconds)
{
    bool fresh = false;
    struct run *run = NULL;
    struct live *live = calloc(1, sizeof *live);
    if (!live)
        return false;
    atomic_init(&live->references, 1);
    live->reservation = jobs_reservation(jobs, record);
    pthread_mutex_lock(&jobs->mutex);
    run = map_insert(&jobs->live, &live->node, record->id) ? run_for_locked(jobs, record, alone_seconds, &fresh) : NULL;
    if (!run) {
        if (live->node.key)
            map_remove(&jobs->live, &live->node);
        pthread_mutex_unlock(&jobs->mutex);
        free(live);
        return false;
    }
    live->record = *record;
    *record = (struct job_record){0};
    live->node.key = live->record.id;
    live->run = run;
    live->next = run->lives;
    run->lives = live;
    if (!fresh && run->started)
        start_late_locked(jobs, live);
    pthread_mutex_unlock(&jobs->mutex);
    if (fresh)
        pool_submit(run->pool, &run->work.task);
    return true;
}
