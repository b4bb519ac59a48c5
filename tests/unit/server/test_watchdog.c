/*
 * Tasks that do not end: a task that is due and does not poll is given up, counted, replaced and answered for; a task
 * that polls, is not due or waits for its turn is left alone; there is a limit on threads. Then the same for jobs and
 * curves, with a library that does not return: linked with --wrap=eps_solve and --wrap=eps_privacy_curve.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "server/jobs/decode.h"
#include "server/jobs/figure.h"
#include "server/ops/clock.h"
#include "server/ops/log.h"
#include "server/ops/metrics.h"
#include "server/work/watchdog.h"
#include "tests/unit/service.h"
#include "tests/unit/test.h"

#define SECONDS 0.2 /* of silence */

enum { SOON = 10000, WHILE = 600 }; /* ms: on a busy machine; three times SECONDS */

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static bool posted_within(sem_t *sem, long ms)
{
    for (long i = 0; i < ms; i++) {
        if (sem_trywait(sem) == 0)
            return true;
        pause_ms(1);
    }
    return false;
}

static bool count_within(const struct watchdog *watchdog, size_t stuck, long ms)
{
    for (long i = 0; i < ms && watchdog_stuck(watchdog) != stuck; i++)
        pause_ms(1);
    return watchdog_stuck(watchdog) == stuck;
}

static int set_up(void **state)
{
    (void)state;
    log_start(LOG_LEVEL_ERROR + 1);
    metric_set(METRIC_STUCK_TOTAL, 0);
    metric_set(METRIC_STUCK, 0);
    return 0;
}

/* ---------------------------------------------------------------- tasks */

static struct {
    atomic_int calls;
    char hash[8];
} ended;

static void end(void *unused, const char *hash)
{
    (void)unused;
    snprintf(ended.hash, sizeof ended.hash, "%s", hash);
    atomic_fetch_add(&ended.calls, 1);
}

static void no_end(void *unused, const char *hash)
{
    (void)unused;
    fprintf(stderr, "# the process would end because of %s\n", hash);
    abort();
}

/* A task that is watched, and ends when it is released. */
struct watched {
    struct pool_task task; /* first */
    struct watchdog *watchdog;
    struct watch watch;
    atomic_bool due, polls;
    bool pauses;
    sem_t begun, go, over;
    atomic_int stuck;
    struct pool *pool; /* it borrows this other thread, which does not return; NULL: none */
    sem_t borrowed;
};

static bool watched_due(void *user, double now)
{
    (void)now;
    return atomic_load(&((struct watched *)user)->due);
}

static void watched_stuck(void *user)
{
    atomic_fetch_add(&((struct watched *)user)->stuck, 1);
}

static void lend(void *arg, size_t index)
{
    struct watched *watched = arg;
    if (index == 0) /* until the other thread has begun its part */
        sem_wait(&watched->borrowed);
    else
        sem_post(&watched->borrowed);
    if (index == 1)
        sem_wait(&watched->go);
}

static void watched_run(struct pool_task *task)
{
    struct watched *watched = (struct watched *)task;
    watch_open(watched->watchdog, &watched->watch);
    if (watched->pauses)
        pool_pause();
    sem_post(&watched->begun);
    if (watched->pool) {
        pool_parallel_for(watched->pool, 2, lend, watched);
    } else {
        while (sem_trywait(&watched->go) != 0) {
            if (atomic_load(&watched->polls))
                watch_poll(&watched->watch);
            pause_ms(1);
        }
    }
    pool_pause(); /* a task that is given up may still do all this */
    pool_resume(false);
    pool_yield();
    watch_close(&watched->watch);
    sem_post(&watched->over);
}

static void submit(struct pool *pool, struct watchdog *watchdog, struct watched *watched,
                   bool (*due)(void *user, double now))
{
    watched->task = (struct pool_task){.run = watched_run};
    watched->watchdog = watchdog;
    watched->watch = (struct watch){.job = "j", .due = due, .stuck = watched_stuck, .user = watched};
    sem_init(&watched->begun, 0, 0);
    sem_init(&watched->go, 0, 0);
    sem_init(&watched->over, 0, 0);
    sem_init(&watched->borrowed, 0, 0);
    pool_submit(pool, &watched->task);
}

#define LONG_SECONDS 1.2

/* Due once two looks of the watchdog are so far apart that the process must have been stopped in between. */
static bool stopped_due(void *user, double now)
{
    struct watched *watched = user;
    static double before;
    if (before > 0 && now - before >= LONG_SECONDS)
        atomic_store(&watched->due, true);
    before = now;
    return atomic_load(&watched->due);
}

/* In a process that is stopped meanwhile: true if no task was given up because of it. */
static bool outlives_a_stop(int begun)
{
    static struct watched silent;
    struct watchdog *watchdog = watchdog_create(LONG_SECONDS, no_end, NULL);
    struct pool *pool = pool_create(1, 0, METRIC_COUNT);
    submit(pool, watchdog, &silent, stopped_due);
    bool good = posted_within(&silent.begun, SOON);
    pause_ms((long)(500 * LONG_SECONDS)); /* the watchdog has looked */
    good = good && write(begun, "", 1) == 1;
    for (int i = 0; i < SOON && !atomic_load(&silent.due); i++)
        pause_ms(1);
    pause_ms(20); /* it has looked again */
    good = good && atomic_load(&silent.due) && watchdog_stuck(watchdog) == 0;
    atomic_store(&silent.polls, true);
    good = good && !count_within(watchdog, 1, WHILE);
    sem_post(&silent.go);
    pool_destroy(pool);
    watchdog_destroy(watchdog);
    return good;
}

/* The first test, because it forks, so no thread may have started. */
TEST_WITH(a_process_that_stood_still_blames_no_one, set_up, NULL)
{
    int begun[2], status;
    char byte;
    assert_int_equal(pipe(begun), 0);
    pid_t child = fork();
    if (child == 0)
        _exit(!outlives_a_stop(begun[1]));
    close(begun[1]);
    assert_int_equal(read(begun[0], &byte, 1), 1);
    kill(child, SIGSTOP);
    pause_ms((long)(1300 * LONG_SECONDS));
    kill(child, SIGCONT);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close(begun[0]);
}

TEST_WITH(its_place_is_another_threads, set_up, NULL)
{
    static struct watched silent = {.due = true}, others[3];
    struct watchdog *watchdog = watchdog_create(SECONDS, no_end, NULL);
    struct pool *pool = pool_create(1, 0, METRIC_WORKERS_BUSY);
    metric_set(METRIC_WORKERS_BUSY, 0);
    submit(pool, watchdog, &silent, watched_due);
    assert_true(posted_within(&silent.begun, SOON));
    double begun = clock_monotonic();
    submit(pool, watchdog, &others[0], watched_due);
    assert_true(posted_within(&others[0].begun, SOON));
    assert_true(clock_monotonic() >= begun + SECONDS / 2);
    assert_true(count_within(watchdog, 1, SOON));
    assert_int_equal(metric_get(METRIC_STUCK_TOTAL), 1);
    assert_int_equal(metric_get(METRIC_STUCK), 1);
    assert_int_equal(metric_get(METRIC_WORKERS_BUSY), 1);

    /* The task returns: it is forgiven, and there is still one place. */
    sem_post(&silent.go);
    assert_true(posted_within(&silent.over, SOON));
    assert_int_equal(watchdog_stuck(watchdog), 0);
    assert_int_equal(atomic_load(&silent.stuck), 1);
    assert_int_equal(metric_get(METRIC_STUCK_TOTAL), 1);
    assert_int_equal(metric_get(METRIC_STUCK), 0);
    submit(pool, watchdog, &others[1], watched_due);
    submit(pool, watchdog, &others[2], watched_due);
    assert_false(posted_within(&others[1].begun, 50));
    sem_post(&others[0].go);
    assert_true(posted_within(&others[1].begun, SOON));
    assert_false(posted_within(&others[2].begun, 50));
    sem_post(&others[1].go);
    sem_post(&others[2].go);
    pool_destroy(pool);
    assert_int_equal(metric_get(METRIC_WORKERS_BUSY), 0);
    watchdog_destroy(watchdog);
}

/* A task that polls may take any time to end; so may a task that is not due, and one that waits for its turn. */
TEST_WITH(others_are_left_alone, set_up, NULL)
{
    static struct watched polling = {.due = true, .polls = true}, early, pausing = {.due = true, .pauses = true};
    struct watched *all[] = {&polling, &early, &pausing};
    struct watchdog *watchdog = watchdog_create(SECONDS, no_end, NULL);
    struct pool *pool = pool_create(2, 0, METRIC_COUNT);
    for (int i = 0; i < 3; i++) {
        submit(pool, watchdog, all[i], watched_due);
        if (i != 2)
            assert_true(posted_within(&all[i]->begun, SOON));
    }
    assert_false(count_within(watchdog, 1, WHILE));
    atomic_store(&polling.polls, false); /* and from now on it does not */
    assert_true(count_within(watchdog, 1, SOON));
    assert_true(posted_within(&pausing.begun, SOON)); /* in its place */
    assert_false(count_within(watchdog, 2, WHILE));
    assert_int_equal(metric_get(METRIC_STUCK_TOTAL), 1);
    for (int i = 0; i < 3; i++)
        sem_post(&all[i]->go);
    pool_destroy(pool);
    assert_int_equal(atomic_load(&polling.stuck), 1);
    assert_int_equal(atomic_load(&early.stuck) + atomic_load(&pausing.stuck), 0);
    watchdog_destroy(watchdog);
}

/* Another thread, which helps the task, does not return. */
TEST_WITH(a_task_whose_helper_is_stuck_is_given_up, set_up, NULL)
{
    static struct watched helped = {.due = true}, others[2];
    struct watchdog *watchdog = watchdog_create(SECONDS, no_end, NULL);
    struct pool *pool = pool_create(2, 0, METRIC_COUNT);
    helped.pool = pool;
    submit(pool, watchdog, &helped, watched_due);
    assert_true(count_within(watchdog, 1, SOON));
    for (int i = 0; i < 2; i++)
        submit(pool, watchdog, &others[i], watched_due);
    for (int i = 0; i < 2; i++)
        assert_true(posted_within(&others[i].begun, SOON)); /* at once, in both places */
    sem_post(&helped.go);
    assert_true(posted_within(&helped.over, SOON));
    for (int i = 0; i < 2; i++)
        sem_post(&others[i].go);
    pool_destroy(pool);
    watchdog_destroy(watchdog);
}

TEST_WITH(after_as_many_as_workers_it_ends_the_process, set_up, NULL)
{
    enum { WORKERS = 2 };
    static struct watched tasks[WORKERS + 2];
    struct watchdog *watchdog = watchdog_create(SECONDS, end, NULL);
    struct pool *pool = pool_create(WORKERS, 0, METRIC_COUNT);
    atomic_store(&ended.calls, 0);
    for (int i = 0; i < WORKERS; i++) {
        atomic_store(&tasks[i].due, true);
        submit(pool, watchdog, &tasks[i], watched_due);
    }
    assert_true(count_within(watchdog, WORKERS, SOON));
    for (int i = WORKERS; i < WORKERS + 2; i++) { /* as many run as before */
        submit(pool, watchdog, &tasks[i], watched_due);
        assert_true(posted_within(&tasks[i].begun, SOON));
    }
    pause_ms(WHILE);
    assert_int_equal(atomic_load(&ended.calls), 0);
    tasks[WORKERS].watch.hash = "last"; /* read when it is stuck */
    atomic_store(&tasks[WORKERS].due, true);
    atomic_store(&tasks[WORKERS + 1].due, true);
    for (int i = 0; i < SOON && !atomic_load(&ended.calls); i++)
        pause_ms(1);
    pause_ms(WHILE);
    assert_int_equal(atomic_load(&ended.calls), 1);
    assert_int_equal(watchdog_stuck(watchdog), WORKERS + 1);
    assert_int_equal(atomic_load(&tasks[WORKERS].stuck) + atomic_load(&tasks[WORKERS + 1].stuck), 1);
    assert_string_equal(ended.hash, atomic_load(&tasks[WORKERS].stuck) ? "last" : "");
    for (int i = 0; i < WORKERS + 2; i++)
        sem_post(&tasks[i].go);
    pool_destroy(pool);
    assert_int_equal(watchdog_stuck(watchdog), 0);
    watchdog_destroy(watchdog);
}

/* ---------------------------------------------------------------- a library that does not return */

enum { STUCK_N = 77, PART_N = 78, CURVE_N = 79 }; /* of the jobs that are treated specially */

static const uint8_t part[32] = {1};
static sem_t inside, let_go;

enum eps_status __real_eps_solve(const struct eps_context *context, struct eps_result **result, struct eps_error *error,
                                 const struct eps_job *job);
enum eps_status __wrap_eps_solve(const struct eps_context *context, struct eps_result **result, struct eps_error *error,
                                 const struct eps_job *job);
enum eps_status __real_eps_privacy_curve(const struct eps_context *context, struct eps_curve_point **points,
                                         size_t *len, struct eps_error *error, const struct eps_job *job,
                                         double noise_multiplier);
enum eps_status __wrap_eps_privacy_curve(const struct eps_context *context, struct eps_curve_point **points,
                                         size_t *len, struct eps_error *error, const struct eps_job *job,
                                         double noise_multiplier);

static void take_part(const struct eps_context *context)
{
    void *blob;
    size_t len;
    assert_false(context->cache_get(context->user, EPS_CACHE_FACTORIZATION, part, &blob, &len));
}

enum eps_status __wrap_eps_solve(const struct eps_context *context, struct eps_result **result, struct eps_error *error,
                                 const struct eps_job *job)
{
    if (job->mechanism.n == STUCK_N) {
        take_part(context);
        sem_post(&inside);
        sem_wait(&let_go);
    } else if (job->mechanism.n == PART_N) {
        take_part(context);
    }
    return __real_eps_solve(context, result, error, job);
}

enum eps_status __wrap_eps_privacy_curve(const struct eps_context *context, struct eps_curve_point **points,
                                         size_t *len, struct eps_error *error, const struct eps_job *job,
                                         double noise_multiplier)
{
    if (job->mechanism.n == CURVE_N) {
        sem_post(&inside);
        sem_wait(&let_go);
    }
    return __real_eps_privacy_curve(context, points, len, error, job, noise_multiplier);
}

static struct service *start(double max_seconds)
{
    struct service *service = service_start();
    service->config.max_seconds = max_seconds;
    service->server.watchdog = watchdog_create(SECONDS, no_end, NULL);
    assert_non_null(service->server.watchdog);
    sem_init(&inside, 0, 0);
    sem_init(&let_go, 0, 0);
    return service;
}

static void stop(struct service *service)
{
    struct watchdog *watchdog = service->server.watchdog;
    watchdog_stop(watchdog);
    service_stop(service);
    watchdog_destroy(watchdog);
}

static void fill(struct job_record *record, size_t n)
{
    char text[200];
    json_t *problem = NULL;
    *record = (struct job_record){.created_at = 1};
    uuid_next(record->id);
    snprintf(text, sizeof text, "{\"n\":%zu,\"sampling\":{\"scheme\":\"none\"},\"noise_multiplier\":2,\"delta\":1e-6}",
             n);
    struct api_job *job = decode_request(text, strlen(text), 1000, NULL, &problem);
    api_job_hash(record->hash, job);
    json_t *json = api_job_encode(job, true);
    record->job = api_json_text(json);
    json_decref(json);
    api_job_destroy(job);
}

static void post(struct jobs *jobs, size_t n, char id[UUID_SIZE])
{
    struct job_record record;
    fill(&record, n);
    memcpy(id, record.id, UUID_SIZE);
    struct reservation reservation = jobs_reservation(jobs, &record);
    struct quota_refusal refusal;
    assert_int_equal(jobs_reserve(jobs, &reservation, &(struct quota){0}, &refusal), JOBS_ROOM);
    assert_true(jobs_admit(jobs, &record, 0));
}

/* The document, once it is final; NULL: it is not final after a while. */
static struct document * final(struct jobs *jobs, const char *id)
{
    struct document *document = NULL;
    for (int i = 0; i < SOON && jobs_is_live(jobs, id); i++)
        pause_ms(1);
    assert_false(jobs_is_live(jobs, id));
    assert_int_equal(jobs_get(jobs, id, &document), STORE_OK);
    return document;
}

static void assert_ends(struct jobs *jobs, const char *id, const char *words)
{
    struct document *document = final(jobs, id);
    if (!strstr(document->text, words))
        fail_msg("no %s in %s", words, document->text);
    document_release(document);
}

/* The job fails, a job that waits for its part takes it over, and what the computation says when it returns is
 * ignored. */
TEST_WITH(a_job_past_its_deadline_fails, set_up, NULL)
{
    struct service *service = start(0.1);
    struct jobs *jobs = service->server.jobs;
    char ids[3][UUID_SIZE];
    post(jobs, STUCK_N, ids[0]);
    assert_true(posted_within(&inside, SOON));
    service->config.max_seconds = 1000;
    post(jobs, STUCK_N, ids[1]); /* joins it */
    post(jobs, PART_N, ids[2]);
    for (int i = 0; i < 2; i++)
        assert_ends(jobs, ids[i],
                    "/problems/timeout\",\"title\":\"The job exceeded the time limit\",\"status\":422,"
                    "\"detail\":\"the computation exceeded the time limit of the service (--max-seconds) and did "
                    "not stop;");
    assert_ends(jobs, ids[2], "\"status\":\"succeeded\"");
    assert_int_equal(watchdog_stuck(service->server.watchdog), 1);
    sem_post(&let_go);
    assert_true(count_within(service->server.watchdog, 0, SOON));
    assert_ends(jobs, ids[0], "\"status\":\"failed\"");
    assert_int_equal(metric_get(METRIC_STUCK_TOTAL), 1);
    stop(service);
}

/* An equal job that is posted meanwhile has a computation of its own. */
TEST_WITH(a_canceled_job_stays_canceled, set_up, NULL)
{
    struct service *service = start(1000);
    struct jobs *jobs = service->server.jobs;
    char ids[3][UUID_SIZE];
    post(jobs, STUCK_N, ids[0]);
    assert_true(posted_within(&inside, SOON));
    assert_false(count_within(service->server.watchdog, 1, WHILE)); /* nobody asked it to end */
    assert_int_equal(jobs_cancel(jobs, ids[0], NULL), CANCEL_STARTED);
    post(jobs, 5, ids[1]);
    assert_ends(jobs, ids[1], "\"status\":\"succeeded\"");
    assert_int_equal(watchdog_stuck(service->server.watchdog), 1);
    post(jobs, STUCK_N, ids[2]);
    assert_true(posted_within(&inside, SOON));
    sem_post(&let_go);
    sem_post(&let_go);
    assert_true(count_within(service->server.watchdog, 0, SOON));
    assert_ends(jobs, ids[0], "\"status\":\"canceled\"");
    assert_ends(jobs, ids[2], "\"status\":\"succeeded\"");
    stop(service);
}

static void post_sem(void *sem)
{
    sem_post(sem);
}

/* Whoever waits for the curve is told why there is none. */
TEST_WITH(a_curve_is_given_up, set_up, NULL)
{
    struct service *service = start(0.1);
    struct jobs *jobs = service->server.jobs;
    struct result_record *result = NULL;
    struct job_record record;
    char id[UUID_SIZE];
    sem_t told;
    struct waiter waiter = {.fn = post_sem, .user = &told};
    sem_init(&told, 0, 0);
    post(jobs, CURVE_N, id);
    assert_ends(jobs, id, "\"status\":\"succeeded\"");
    fill(&record, CURVE_N);
    assert_int_equal(jobs_result(jobs, record.hash, EPS_ACCOUNTING_VERSION, &result), STORE_OK);
    assert_true(curve_missing(result));
    struct quota_refusal refusal;
    struct quota quota = {0};
    struct figure_asked asked = {&figure_curve, &record, result, &quota};
    assert_true(jobs_figure_wait(jobs, &asked, &waiter, &refusal));
    result_record_release(result);
    assert_true(posted_within(&told, SOON));
    assert_int_equal(jobs_result(jobs, record.hash, EPS_ACCOUNTING_VERSION, &result), STORE_OK);
    assert_string_equal(result->note, FIGURE_STUCK);
    result_record_release(result);
    post(jobs, 6, id);
    assert_ends(jobs, id, "\"status\":\"succeeded\"");
    sem_post(&let_go);
    assert_true(count_within(service->server.watchdog, 0, SOON));
    job_record_clear(&record);
    stop(service);
}
