/*
 * Runs a job, and computes the privacy curve at its noise multiplier, which GET .../curve offers for every succeeded
 * job, on request. If a curve cannot be computed, the job is unchanged and the reason is stored in place of the curve.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/jobs/compute.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/broker/broker.h"
#include "server/cells/cells.h"
#include "server/jobs/portions.h"
#include "server/jobs/realm.h"
#include "server/ops/clock.h"
#include "server/ops/crash.h"
#include "server/ops/metrics.h"

/* ---------------------------------------------------------------- callbacks for the library */

#define FRACTION_LEAST 0.005 /* from here on the remaining time is extrapolated from the fraction */

static void on_progress(void *user, double fraction, const char *stage, double remaining_seconds)
{
    struct computation *computation = user;
    if (isnan(remaining_seconds) && fraction >= FRACTION_LEAST && computation->started > 0)
        remaining_seconds = (clock_monotonic() - computation->started) * fmax(1 - fraction, 0) / fraction;
    computation->progress(computation->user, fraction, stage, remaining_seconds);
}

static bool on_canceled(void *user)
{
    struct computation *computation = user;
    watch_poll(&computation->watch);
    bool canceled =
        atomic_load_explicit(&computation->put_off, memory_order_relaxed) || computation->canceled(computation->user);
    if (!canceled && computation->offer)
        computation->offer(computation->user);
    return canceled;
}

static bool on_expired(void *user)
{
    struct computation *computation = user;
    watch_poll(&computation->watch);
    return clock_monotonic() > computation->deadline;
}

/* The computation whose CPU time this thread adds to: that which it has opened, or helps. A thread that helps while it
 * does so already is counted once. */
static _Thread_local const struct computation *counted;

static struct computation_count count_begin(const struct computation *computation)
{
    struct computation_count count = {counted, clock_thread()};
    counted = computation;
    return count;
}

static void count_end(const struct computation_count *count, struct computation *computation)
{
    counted = count->outer;
    if (count->outer == computation)
        return;
    computation_spent(computation, clock_thread() - count->started);
}

/* The CPU time of all threads so far. On the thread that opened it. */
static double seconds_of(struct computation *computation)
{
    pthread_mutex_lock(&computation->mutex);
    double others = computation->compute_seconds;
    pthread_mutex_unlock(&computation->mutex);
    return others + clock_thread() - computation->count.started;
}

/* The body of a loop, with the computation to which it belongs on any thread. */
struct scoped_body {
    void (*body)(void *arg, size_t index);
    void *arg;
    struct computation *computation;
};

static void run_scoped(void *arg, size_t index)
{
    const struct scoped_body *scoped = arg;
    struct crash_scope outer = crash_enter(scoped->computation->hash);
    struct computation_count count = count_begin(scoped->computation);
    scoped->body(scoped->arg, index);
    count_end(&count, scoped->computation);
    crash_leave(&outer);
}

static void on_parallel_for(void *user, size_t count, void (*body)(void *arg, size_t index), void *arg)
{
    struct computation *computation = user;
    struct scoped_body scoped = {body, arg, computation};
    pool_parallel_for(computation->server->pool, count, run_scoped, &scoped);
}

static void note_use(struct computation *computation, enum eps_cache_kind kind, const uint8_t key[32])
{
    if (kind != EPS_CACHE_FACTORIZATION)
        return;
    pthread_mutex_lock(&computation->mutex);
    bool known = false;
    for (size_t i = 0; i < computation->uses_len && !known; i++)
        known = memcmp(computation->uses[i], key, 32) == 0;
    uint8_t(*uses)[32] =
        known ? NULL : realloc(computation->uses, (computation->uses_len + 1) * sizeof *computation->uses);
    if (uses) {
        memcpy(uses[computation->uses_len++], key, 32);
        computation->uses = uses;
    }
    pthread_mutex_unlock(&computation->mutex);
}

/* Looks up the blob again. Writes of other threads may be in the queue of the writer; after a write that follows them
 * they are visible. */
static bool look_again(struct computation *computation, const uint8_t key[32], void **blob, size_t *blob_len)
{
    struct store *store = computation->server->store;
    struct store_update nothing = {0};
    return store_update_jobs_wait(store, &nothing) == STORE_OK &&
           store_blob_get(store, EPS_CACHE_FACTORIZATION, key, blob, blob_len);
}

#define PUT_OFF_SECONDS 1.0 /* the largest amount of work that is repeated after a computation was put off */

/* Whether the computation ends here, to start again when another computation has what it needs. */
static bool put_off(struct computation *computation, const uint8_t key[32])
{
    if (!computation->may_put_off || clock_monotonic() > computation->started + PUT_OFF_SECONDS ||
        !part_elsewhere(computation->work, key))
        return false;
    pthread_mutex_lock(&computation->mutex);
    if (!atomic_load(&computation->put_off)) {
        memcpy(computation->awaited, key, sizeof computation->awaited);
        atomic_store(&computation->put_off, true);
    }
    pthread_mutex_unlock(&computation->mutex);
    return true;
}

/* Claims a missing factorisation as a part, or waits for the thread that has claimed it. Looks it up again even if it
 * is unclaimed, because the thread that computed it may have ended after the first look. */
static bool await_factorization(struct computation *computation, const uint8_t key[32], void **blob, size_t *blob_len)
{
    bool found = false;
    enum part_taken taken;
    if (put_off(computation, key))
        return false;
    do {
        taken = part_take(computation->work, key, computation->deadline);
        found = taken != PART_NONE && look_again(computation, key, blob, blob_len);
    } while (taken == PART_ENDED && !found);
    if (found)
        part_end(computation->work, key);
    return found;
}

static bool stops(void *user)
{
    struct computation *computation = user;
    return (computation->canceled && on_canceled(user)) || on_expired(user);
}

static bool on_cache_get(void *user, enum eps_cache_kind kind, const uint8_t of[32], void **blob, size_t *blob_len)
{
    struct computation *computation = user;
    uint8_t key[32];
    if (kind == EPS_CACHE_CHUNK && computation->portions &&
        portions_chunk(computation->portions, of, stops, computation, blob, blob_len))
        return true;
    realm_key(computation->realm, key, of);
    bool found = store_blob_get(computation->server->store, kind, key, blob, blob_len);
    if (!found && kind == EPS_CACHE_FACTORIZATION && computation->work)
        found = await_factorization(computation, key, blob, blob_len);
    if (found)
        note_use(computation, kind, key);
    return found;
}

static void count_draws(const void *chunk, size_t len)
{
    double draws = 0;
    assert(len >= sizeof draws);
    memcpy(&draws, chunk, sizeof draws);
    assert(draws >= 1 && draws <= 0x1p53);
    metric_add(METRIC_DRAWS, (int64_t)draws);
}

void computation_spent(struct computation *computation, double seconds)
{
    pthread_mutex_lock(&computation->mutex);
    computation->compute_seconds += seconds;
    pthread_mutex_unlock(&computation->mutex);
}

void computation_keep(struct computation *computation, enum eps_cache_kind kind, const uint8_t of[32], const void *blob,
                      size_t blob_len)
{
    uint8_t key[32];
    realm_key(computation->realm, key, of);
    note_use(computation, kind, key);
    if (!blob_len) /* it had it, and only says that it was used */
        return;
    if (kind == EPS_CACHE_CHUNK)
        count_draws(blob, blob_len);
    store_blob_put(computation->server->store, kind, key, blob, blob_len);
    if (computation->work)
        part_end(computation->work, key);
}

static void on_cache_put(void *user, enum eps_cache_kind kind, const uint8_t key[32], const void *blob, size_t blob_len)
{
    computation_keep(user, kind, key, blob, blob_len);
}

static void on_ahead(void *user, const struct eps_portion *portion)
{
    portions_ahead(((struct computation *)user)->portions, portion);
}

/* ---------------------------------------------------------------- opening and closing */

static bool work_canceled(void *work)
{
    return work_unwanted(work);
}

void computation_open(struct computation *computation, const struct server *server, struct work *work, double seconds)
{
    *computation = (struct computation){
        .server = server,
        .work = work,
        .deadline = seconds > 0 ? clock_monotonic() + seconds : INFINITY,
        .canceled = work ? work_canceled : NULL,
        .user = work,
        .realm = "",
    };
    pthread_mutex_init(&computation->mutex, NULL);
    computation->count = count_begin(computation);
}

/* Whether it should have ended; on the watchdog thread. */
static bool is_due(void *user, double now)
{
    struct computation *computation = user;
    return now > computation->deadline || (computation->canceled && computation->canceled(computation->user));
}

/* The threads that wait for its parts take them over. */
static void is_stuck(void *user)
{
    struct computation *computation = user;
    if (computation->work) {
        work_cancel(computation->work);
        part_end(computation->work, NULL);
    }
    if (computation->stuck)
        computation->stuck(computation->user);
}

void computation_close(struct computation *computation)
{
    watch_close(&computation->watch);
    if (computation->work)
        part_end(computation->work, NULL);
    if (computation->account)
        account_compute(computation->account, seconds_of(computation), clock_monotonic());
    counted = computation->count.outer;
    free(computation->uses);
    computation->uses = NULL;
    pthread_mutex_destroy(&computation->mutex);
}

static void watch(struct computation *computation)
{
    computation->watch = (struct watch){.job = computation->job,
                                        .request = computation->request,
                                        .hash = computation->hash,
                                        .due = is_due,
                                        .stuck = is_stuck,
                                        .user = computation};
    watch_open(computation->server->watchdog, &computation->watch);
}

struct eps_context computation_context(struct computation *computation)
{
    if (!computation->watch.watchdog)
        watch(computation);
    return (struct eps_context){
        .user = computation,
        .progress = computation->progress ? on_progress : NULL,
        .canceled = computation->canceled ? on_canceled : NULL,
        .expired = isinf(computation->deadline) ? NULL : on_expired,
        .parallel_for = computation->server->pool ? on_parallel_for : NULL,
        .cache_get = computation->server->store ? on_cache_get : NULL,
        .cache_put = computation->server->store ? on_cache_put : NULL,
        .ahead = computation->portions ? on_ahead : NULL,
        .max_operations = computation->server->config->max_operations,
        .max_bytes = (double)computation->server->config->max_bytes,
    };
}

enum eps_status computation_strategy(const struct eps_context *context, struct eps_strategy **strategy,
                                     struct eps_error *error, const struct eps_mechanism *mechanism, const char *id)
{
    struct eps_mechanism used = *mechanism;
    eps_matrix_stored(&used.matrix, id);
    enum eps_status status = eps_strategy_create(context, strategy, error, &used);
    return status == EPS_INVALID ? eps_strategy_create(context, strategy, error, mechanism) : status;
}

static bool on_lookup(void *user, enum eps_cache_kind kind, const uint8_t of[32], void **blob, size_t *blob_len)
{
    const struct checks *checks = user;
    uint8_t key[32];
    realm_key(checks->realm, key, of);
    return store_blob_get(checks->store, kind, key, blob, blob_len);
}

struct eps_context computation_checks(struct checks *checks)
{
    return (struct eps_context){
        .user = checks,
        .cache_get = checks->store ? on_lookup : NULL,
        .max_operations = checks->config->max_operations,
        .max_bytes = (double)checks->config->max_bytes,
    };
}

/* ---------------------------------------------------------------- running */

static double seconds(void *user)
{
    return seconds_of(user);
}

/* The time limit begins with the computation, and not while it waits for a worker. */
static void on_began(void *user)
{
    struct computation *computation = user;
    double most = computation->server->config->max_seconds;
    if (most > 0)
        atomic_store(&computation->deadline, clock_monotonic() + most);
    computation->started = clock_monotonic();
}

/* Others that wait for what the lost worker computed take it over: it may be their workers for which this question
 * waits now. */
static void on_lost(void *user)
{
    struct computation *computation = user;
    if (computation->work)
        part_end(computation->work, NULL);
}

static void ask_workers(struct computation *computation, const struct question *question,
                        const struct eps_context *context, struct answer *answer)
{
    const struct broker_question asked = {.question = question,
                                          .work = computation->hash ? computation->hash : "",
                                          .realm = computation->realm,
                                          .seconds = computation->server->config->max_seconds,
                                          .began = on_began,
                                          .lost = on_lost,
                                          .user = computation};
    computation->left = !broker_ask(computation->server->broker, &asked, context, answer);
    if (computation->left)
        answer_fail(answer, EPS_CANCELED, "there is no worker");
}

void computation_ask(struct computation *computation, const struct question *question, struct answer *answer)
{
    struct eps_context context = computation_context(computation);
    struct cells *cells = computation->server->cells;
    const struct asker asker = {.job = computation->job, .request = computation->request};
    if (computation->remote) {
        ask_workers(computation, question, &context, answer);
    } else if (cells) {
        cells_ask(cells, question, &context, &asker, answer);
    } else {
        question_answer(question, &context, seconds, computation, answer);
        return;
    }
    computation_spent(computation, answer->compute_seconds);
}

struct result_record *computation_curve(struct computation *computation, const struct api_job *job,
                                        const struct result_record *result)
{
    struct result_record *record = result_record_copy(result);
    struct answer answer;
    if (!record)
        return NULL;
    const struct question question = {
        .kind = QUESTION_CURVE, .job = job, .noise_multiplier = result->figures.noise_multiplier};
    computation_ask(computation, &question, &answer);
    enum eps_status status = answer.error.status;
    record->points = answer.curve;
    record->points_len = answer.curve_len;
    answer.curve = NULL;
    bool lost = status == EPS_CANCELED || status == EPS_NO_MEMORY; /* another time it may succeed */
    if (status != EPS_OK && !lost)
        record->note =
            strdup(status == EPS_TIMEOUT ? "the curve took longer than --max-seconds" : answer.error.message);
    answer_clear(&answer);
    if (status != EPS_OK && !record->note) {
        result_record_release(record);
        return NULL;
    }
    return record;
}

void computation_run(struct computation *computation, const struct api_job *job, const char *hash)
{
    const struct question question = {.kind = QUESTION_SOLVE, .job = job};
    struct answer answer;
    computation->hash = hash;
    computation->started = clock_monotonic();
    computation_ask(computation, &question, &answer);
    computation->status = answer.error.status;
    computation->error = answer.error;
    computation->crashed = answer.crashed;
    computation->result = answer.result;
    answer.result = NULL;
    if (computation->result)
        memcpy(computation->result->hash, hash, HASH_SIZE);
    answer_clear(&answer);
}
