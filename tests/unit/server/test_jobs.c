/*
 * The registry of live jobs by itself: what jobs hold is counted from the reservation to the end, whatever the end, and
 * no document is written while the registry is locked. Linked with --wrap=document_create.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "server/jobs/internal.h"
#include "server/ops/log.h"
#include "server/work/internal.h"
#include "tests/unit/test.h"

static const char job_text[] = "{\"n\":100,\"sampling\":{\"scheme\":\"none\"},\"noise_multiplier\":2,\"delta\":1e-6}";

struct blocker {
    struct pool_task task;
    sem_t started, go;
};

/* A service without HTTP, whose one worker is occupied until it is released. */
struct fixture {
    char folder[64], path[96];
    struct config config;
    struct server server;
    struct blocker blocker;
    bool let_go;
};

static void block(struct pool_task *task)
{
    struct blocker *blocker = (struct blocker *)task;
    sem_post(&blocker->started);
    sem_wait(&blocker->go);
}

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    char message[256] = "";
    assert_non_null(fixture);
    snprintf(fixture->folder, sizeof fixture->folder, "/tmp/epsilond-jobs.XXXXXX");
    assert_non_null(mkdtemp(fixture->folder));
    snprintf(fixture->path, sizeof fixture->path, "%s/test.db", fixture->folder);
    log_start(LOG_LEVEL_ERROR + 1);
    fixture->config = (struct config){.db = fixture->path,
                                      .workers = 1,
                                      .queue = 4,
                                      .queue_bytes = 1 << 16,
                                      .max_n = 1000,
                                      .max_operations = 1e13,
                                      .max_bytes = 1 << 30,
                                      .memory_bytes = 1 << 20};
    struct server *server = &fixture->server;
    server->config = &fixture->config;
    server->ledger = ledger_create();
    assert_non_null(server->ledger);
    server->pool = pool_create(1, 0, METRIC_COUNT);
    server->works = works_create();
    assert_non_null(server->works);
    server->jobs = jobs_create(server);
    struct store_options options = {.path = fixture->path, .cache_bytes = 1 << 20};
    server->store = store_open(&options, message, sizeof message);
    assert_true(server->pool && server->jobs && server->store);
    fixture->blocker.task.run = block;
    sem_init(&fixture->blocker.started, 0, 0);
    sem_init(&fixture->blocker.go, 0, 0);
    pool_submit(server->pool, &fixture->blocker.task);
    sem_wait(&fixture->blocker.started);
    *state = fixture;
    return 0;
}

static void let_go(struct fixture *fixture)
{
    if (!fixture->let_go)
        sem_post(&fixture->blocker.go);
    fixture->let_go = true;
}

static int tear_down(void **state)
{
    static const char *const tails[] = {"", "-wal", "-shm", "-lock"};
    struct fixture *fixture = *state;
    struct server *server = &fixture->server;
    jobs_stop(server->jobs);
    let_go(fixture);
    pool_destroy(server->pool);
    store_close(server->store);
    jobs_destroy(server->jobs);
    works_destroy(server->works);
    ledger_destroy(server->ledger);
    for (int i = 0; i < 4; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s%s", fixture->path, tails[i]);
        unlink(path);
    }
    rmdir(fixture->folder);
    sem_destroy(&fixture->blocker.started);
    sem_destroy(&fixture->blocker.go);
    free(fixture);
    return 0;
}

/* ---------------------------------------------------------------- no document under the lock */

static struct jobs *watched; /* the mutex of this registry must be free */
static int written;

struct document *__real_document_create(const struct job_record *record, const struct result_record *result,
                                        const struct job_progress *progress);
struct document *__wrap_document_create(const struct job_record *record, const struct result_record *result,
                                        const struct job_progress *progress);

struct document *__wrap_document_create(const struct job_record *record, const struct result_record *result,
                                        const struct job_progress *progress)
{
    if (watched) {
        assert_int_equal(pthread_mutex_trylock(&watched->mutex), 0);
        pthread_mutex_unlock(&watched->mutex);
        written++;
    }
    return __real_document_create(record, result, progress);
}

static const struct quota unlimited;
static struct quota_refusal refusal;

/* Reserves and admits a job; false: there is no room. */
static bool admit(struct jobs *jobs, const char *hash, char id[UUID_SIZE])
{
    struct job_record record = {.created_at = 1};
    uuid_next(record.id);
    memcpy(id, record.id, UUID_SIZE);
    snprintf(record.hash, sizeof record.hash, "%s", hash);
    record.job = strdup(job_text);
    assert_non_null(record.job);
    struct reservation reservation = jobs_reservation(jobs, &record);
    bool room = jobs_reserve(jobs, &reservation, &unlimited, &refusal) == JOBS_ROOM;
    if (room)
        assert_true(jobs_admit(jobs, &record, 0));
    job_record_clear(&record);
    return room;
}

TEST_WITH(a_live_document_is_written_outside_of_the_lock, set_up, tear_down)
{
    struct fixture *fixture = *state;
    struct jobs *jobs = fixture->server.jobs;
    struct document *document = NULL;
    char id[UUID_SIZE];
    assert_true(admit(jobs, "one", id));
    watched = jobs;
    written = 0;
    assert_int_equal(jobs_get(jobs, id, &document), STORE_OK);
    watched = NULL;
    assert_int_equal(written, 1);
    assert_non_null(strstr(document->text, "\"status\":\"queued\""));
    assert_non_null(strstr(document->text, job_text));
    document_release(document);
}

/* ---------------------------------------------------------------- counting */

static void until_ended(struct jobs *jobs, const char *id)
{
    for (int i = 0; i < 60000 && jobs_is_live(jobs, id); i++) {
        struct timespec pause = {.tv_nsec = 1000000};
        nanosleep(&pause, NULL);
    }
    assert_false(jobs_is_live(jobs, id));
}

static void assert_held(struct jobs *jobs, size_t queued, size_t bytes)
{
    pthread_mutex_lock(&jobs->mutex);
    size_t queued_now = jobs->queued;
    size_t bytes_now = jobs->bytes;
    pthread_mutex_unlock(&jobs->mutex);
    assert_int_equal(queued_now, queued);
    assert_int_equal(bytes_now, bytes);
}

TEST_WITH(what_is_held_is_given_back_by_a_cancel, set_up, tear_down)
{
    struct fixture *fixture = *state;
    struct jobs *jobs = fixture->server.jobs;
    char ids[3][UUID_SIZE];
    struct job_record same = {.job = (char *)(uintptr_t)job_text};
    size_t each = jobs_reservation(jobs, &same).bytes;
    assert_true(each > sizeof job_text);
    for (int i = 0; i < 3; i++) /* the last two are equal and share a run */
        assert_true(admit(jobs, i ? "two" : "one", ids[i]));
    assert_held(jobs, 3, 3 * each);
    assert_int_equal(fixture->server.works->open.len, 2);
    const int order[] = {1, 0, 2};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(jobs_cancel(jobs, ids[order[i]], NULL), CANCEL_STARTED);
        until_ended(jobs, ids[order[i]]);
        assert_held(jobs, (size_t)(2 - i), (size_t)(2 - i) * each);
    }
    assert_int_equal(fixture->server.works->open.len, 0);
}

TEST_WITH(what_is_held_is_given_back_by_an_end, set_up, tear_down)
{
    struct fixture *fixture = *state;
    struct jobs *jobs = fixture->server.jobs;
    char id[UUID_SIZE];
    assert_true(admit(jobs, "one", id));
    let_go(fixture);
    until_ended(jobs, id);
    assert_held(jobs, 0, 0);
}

TEST_WITH(the_bound_is_in_bytes_and_in_number, set_up, tear_down)
{
    struct fixture *fixture = *state;
    struct jobs *jobs = fixture->server.jobs;
    char ids[5][UUID_SIZE];
    size_t most = (size_t)fixture->config.queue_bytes;
    struct account *nobody = ledger_account(fixture->server.ledger, "");
    struct reservation many = {nobody, most - 1, 0}, two = {nobody, 2, 0}, one = {nobody, 1, 0};
    assert_int_equal(jobs_reserve(jobs, &many, &unlimited, &refusal), JOBS_ROOM);
    assert_int_equal(jobs_reserve(jobs, &two, &unlimited, &refusal), JOBS_FULL);
    assert_int_equal(jobs_reserve(jobs, &one, &unlimited, &refusal), JOBS_ROOM);
    jobs_unreserve(jobs, &many);
    jobs_unreserve(jobs, &one);
    assert_held(jobs, 0, 0);
    for (int i = 0; i < 4; i++)
        assert_true(admit(jobs, "one", ids[i]));
    assert_false(admit(jobs, "one", ids[4]));
    assert_int_equal(jobs_cancel(jobs, ids[0], NULL), CANCEL_STARTED);
    until_ended(jobs, ids[0]);
    assert_true(admit(jobs, "one", ids[0]));
}

/* What a key may not have, another one still may; a refusal counts nothing. */
TEST_WITH(a_key_leaves_room_for_others, set_up, tear_down)
{
    struct fixture *fixture = *state;
    struct jobs *jobs = fixture->server.jobs; /* with four places */
    struct reservation flood[2], other = {ledger_account(fixture->server.ledger, "22222222"), 1, 1};
    struct quota one = {.most = {[QUOTA_QUEUED] = 1}};
    for (int i = 0; i < 2; i++) {
        flood[i] = (struct reservation){ledger_account(fixture->server.ledger, "11111111"), 1, 1};
        assert_int_equal(jobs_reserve(jobs, &flood[i], i ? &unlimited : &one, &refusal), JOBS_ROOM);
        assert_int_equal(jobs_reserve(jobs, &flood[i], &one, &refusal), JOBS_OVER);
        assert_int_equal(refusal.kind, QUOTA_QUEUED);
        assert_int_equal(refusal.most, 1);
    }
    assert_int_equal(jobs_reserve(jobs, &flood[0], &unlimited, &refusal), JOBS_OVER);
    assert_int_equal(refusal.most, 2);
    assert_held(jobs, 2, 2);
    assert_int_equal(jobs_reserve(jobs, &other, &unlimited, &refusal), JOBS_ROOM);
    assert_int_equal(jobs_reserve(jobs, &other, &unlimited, &refusal), JOBS_OVER);
    assert_int_equal(refusal.most, 1);
    jobs_unreserve(jobs, &flood[0]);
    jobs_unreserve(jobs, &flood[1]);
    jobs_unreserve(jobs, &flood[1]); /* it is empty */
    assert_int_equal(jobs_reserve(jobs, &(struct reservation){other.account, 1, 1}, &unlimited, &refusal), JOBS_ROOM);
    assert_held(jobs, 2, 2);
}
