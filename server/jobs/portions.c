/*
 * Every chunk of an announced portion is looked up once, in order, unless its run ends early. So chunks are kept here
 * until they are looked up, and the portions of a run that has ended are withdrawn. The cache gets a copy of each, from
 * which the job continues after a restart.
 *
 * What is at the broker goes to workers in the order in which it came, whoever asked it. So of one computation, only as
 * many portions are under way as keep the workers busy, and others wait for no more than these.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/jobs/portions.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "server/broker/broker.h"
#include "server/jobs/realm.h"
#include "server/ops/clock.h"
#include "server/ops/metrics.h"

#define LOOK_SECONDS 0.05   /* between two calls of stops() */
#define PORTION_SECONDS 2.0 /* that a portion takes, about; for the order of tasks */
#define AHEAD 2             /* portions under way for each thread of a worker, and if there is none */
#define PORTIONS_MOST 8192  /* of a computation at a time; the library announces fewer */

enum portion_state {
    PORTION_HELD,  /* until fewer are under way */
    PORTION_WAITS, /* for a thread */
    PORTION_ASKED, /* a thread has it */
    PORTION_DRAWN,
    PORTION_NOT_DRAWN
};

struct portion {
    struct pool_task task; /* first */
    struct portions *portions;
    struct portion *next;
    struct eps_portion what;
    size_t looked_up; /* chunks */
    enum portion_state state;
    atomic_bool unwanted;
    struct answer answer; /* PORTION_DRAWN; the chunks that were taken have no bytes */
};

struct portions {
    struct computation *computation;
    const struct api_job *job;
    pthread_mutex_t mutex;
    pthread_cond_t news;        /* a portion has changed its state */
    struct portion *all, **end; /* oldest first, as they are looked up */
    size_t len;
    size_t under_way; /* those for which there is a task */
};

/* ---------------------------------------------------------------- whose draws are divided */

bool portions_take_place(struct server *server, const struct api_job *job, double seconds)
{
    const struct config *config = server->config;
    /* Their threads wait for portions, which need threads, too. */
    uint64_t most = config->broker_jobs / 2 < config->workers ? config->broker_jobs / 2 : config->workers;
    return seconds >= config->broker_split && eps_job_draws(&job->job) && budget_take(&server->divided, 1, most);
}

void portions_give_place(struct server *server)
{
    budget_give(&server->divided, 1);
}

/* ---------------------------------------------------------------- a portion */

static void free_locked(struct portion *portion)
{
    struct portion **link = &portion->portions->all;
    while (*link != portion)
        link = &(*link)->next;
    *link = portion->next;
    if (portion->portions->end == &portion->next)
        portion->portions->end = link;
    assert(portion->portions->len > 0);
    portion->portions->len--;
    answer_clear(&portion->answer);
    free(portion);
}

/* It is freed now, or when its thread has ended. */
static void drop_locked(struct portion *portion)
{
    struct portions *portions = portion->portions;
    atomic_store(&portion->unwanted, true);
    bool withdrawn =
        portion->state == PORTION_WAITS && pool_withdraw(portions->computation->server->remote, &portion->task);
    portions->under_way -= withdrawn;
    if (withdrawn || (portion->state != PORTION_WAITS && portion->state != PORTION_ASKED))
        free_locked(portion);
}

/* Starts those that are held, oldest first, as far as there is room. */
static void submit_locked(struct portions *portions)
{
    const struct server *server = portions->computation->server;
    size_t most = AHEAD + AHEAD * broker_threads(server->broker);
    for (struct portion *portion = portions->all; portion && portions->under_way < most; portion = portion->next) {
        if (portion->state == PORTION_HELD) {
            portion->state = PORTION_WAITS;
            portions->under_way++;
            pool_submit(server->remote, &portion->task);
        }
    }
}

static bool on_canceled(void *user)
{
    const struct portion *portion = user;
    return atomic_load(&portion->unwanted);
}

/* A worker says that it has begun. */
static void on_progress(void *user, double fraction, const char *stage, double remaining_seconds)
{
    (void)user;
    (void)fraction;
    (void)stage;
    (void)remaining_seconds;
}

/* A factorisation was stored before draws were announced; after a write that follows it, it is visible. */
static bool on_cache_get(void *user, enum eps_cache_kind kind, const uint8_t of[32], void **blob, size_t *blob_len)
{
    const struct computation *computation = ((const struct portion *)user)->portions->computation;
    struct store *store = computation->server->store;
    struct store_update nothing = {0};
    uint8_t key[32];
    realm_key(computation->realm, key, of);
    return store_blob_get(store, kind, key, blob, blob_len) ||
           (kind == EPS_CACHE_FACTORIZATION && store_update_jobs_wait(store, &nothing) == STORE_OK &&
            store_blob_get(store, kind, key, blob, blob_len));
}

/* It used a factorisation, or had to compute one. */
static void on_cache_put(void *user, enum eps_cache_kind kind, const uint8_t key[32], const void *blob, size_t len)
{
    computation_keep(((const struct portion *)user)->portions->computation, kind, key, blob, len);
}

/* Only tells the worker that it may use threads; it has its own. */
static void on_parallel_for(void *user, size_t count, void (*body)(void *arg, size_t index), void *arg)
{
    const struct portion *portion = user;
    pool_parallel_for(portion->portions->computation->server->pool, count, body, arg);
}

static bool ask(struct portion *portion)
{
    struct computation *computation = portion->portions->computation;
    const struct config *config = computation->server->config;
    const struct question question = {
        .kind = QUESTION_DRAW, .job = portion->portions->job, .portion = portion->what.bytes};
    const struct broker_question asked = {.question = &question,
                                          .work = computation->hash ? computation->hash : "",
                                          .realm = computation->realm,
                                          .seconds = config->max_seconds};
    const struct eps_context context = {.user = portion,
                                        .progress = on_progress,
                                        .canceled = on_canceled,
                                        .parallel_for = on_parallel_for,
                                        .cache_get = on_cache_get,
                                        .cache_put = on_cache_put,
                                        .max_operations = config->max_operations,
                                        .max_bytes = (double)config->max_bytes};
    return broker_ask(computation->server->broker, &asked, &context, &portion->answer) &&
           portion->answer.error.status == EPS_OK;
}

/* On a thread of the pool. */
static void run(struct pool_task *task)
{
    struct portion *portion = (struct portion *)task;
    struct portions *portions = portion->portions;
    pthread_mutex_lock(&portions->mutex);
    portion->state = PORTION_ASKED;
    pthread_mutex_unlock(&portions->mutex);
    bool drawn = !atomic_load(&portion->unwanted) && ask(portion);
    computation_spent(portions->computation, portion->answer.compute_seconds);
    if (drawn)
        metric_add(METRIC_BROKER_MALFORMED, (int64_t)answer_keep_portion(&portion->answer, &portion->what));
    for (size_t i = 0; drawn && i < portion->answer.chunks_len; i++) {
        const struct answer_chunk *chunk = &portion->answer.chunks[i];
        computation_keep(portions->computation, EPS_CACHE_CHUNK, chunk->key, chunk->bytes, chunk->len);
    }
    pthread_mutex_lock(&portions->mutex);
    portion->state = drawn ? PORTION_DRAWN : PORTION_NOT_DRAWN;
    assert(portions->under_way > 0);
    portions->under_way--;
    if (atomic_load(&portion->unwanted))
        free_locked(portion);
    submit_locked(portions);
    pthread_cond_broadcast(&portions->news);
    pthread_mutex_unlock(&portions->mutex);
}

/* ---------------------------------------------------------------- portions */

struct portions *portions_create(struct computation *computation, const struct api_job *job)
{
    struct portions *portions = calloc(1, sizeof *portions);
    if (!portions)
        return NULL;
    portions->computation = computation;
    portions->job = job;
    portions->end = &portions->all;
    pthread_mutex_init(&portions->mutex, NULL);
    clock_condition(&portions->news);
    return portions;
}

/* Drops those of a run; NULL: all. */
static void drop_run_locked(struct portions *portions, const uint8_t run[32])
{
    for (struct portion *portion = portions->all, *next; portion; portion = next) {
        next = portion->next;
        if (!run || memcmp(portion->what.run, run, sizeof portion->what.run) == 0)
            drop_locked(portion);
    }
}

void portions_destroy(struct portions *portions)
{
    if (!portions)
        return;
    pthread_mutex_lock(&portions->mutex);
    drop_run_locked(portions, NULL);
    while (portions->all)
        pthread_cond_wait(&portions->news, &portions->mutex);
    assert(!portions->len && !portions->under_way);
    pthread_mutex_unlock(&portions->mutex);
    pthread_cond_destroy(&portions->news);
    pthread_mutex_destroy(&portions->mutex);
    free(portions);
}

static struct portion *find_locked(const struct portions *portions, const uint8_t key[32])
{
    for (struct portion *portion = portions->all; portion; portion = portion->next)
        for (size_t i = 0; i < portion->what.chunks; i++)
            if (memcmp(portion->what.keys[i], key, sizeof portion->what.keys[i]) == 0)
                return portion;
    return NULL;
}

static bool is_known_locked(const struct portions *portions, const struct eps_portion *what)
{
    const struct portion *portion = portions->all;
    while (portion && memcmp(portion->what.keys[0], what->keys[0], sizeof what->keys[0]) != 0)
        portion = portion->next;
    return portion != NULL;
}

/* Whether an earlier process has drawn all of it. */
static bool is_kept(const struct portions *portions, const struct eps_portion *what)
{
    const struct computation *computation = portions->computation;
    bool kept = true;
    for (size_t i = 0; i < what->chunks && kept; i++) {
        void *blob = NULL;
        size_t len;
        uint8_t key[32];
        realm_key(computation->realm, key, what->keys[i]);
        kept = store_blob_get(computation->server->store, EPS_CACHE_CHUNK, key, &blob, &len);
        free(blob);
    }
    return kept;
}

void portions_ahead(struct portions *portions, const struct eps_portion *announced)
{
    const struct work *work = portions->computation->work;
    struct portion *portion = NULL;
    if (announced->chunks && !is_kept(portions, announced))
        portion = calloc(1, sizeof *portion); /* NULL: the computation draws it */
    pthread_mutex_lock(&portions->mutex);
    if (!announced->chunks)
        drop_run_locked(portions, announced->run);
    /* It is known from a cell that was killed and begins anew. */
    if (portion && (portions->len == PORTIONS_MOST || is_known_locked(portions, announced))) {
        free(portion);
        portion = NULL;
    }
    if (portion) {
        portion->task = (struct pool_task){.run = run, .seconds = PORTION_SECONDS};
        if (work)
            memcpy(portion->task.owner, work->task.owner, sizeof portion->task.owner);
        portion->portions = portions;
        portion->what = *announced;
        *portions->end = portion;
        portions->end = &portion->next;
        portions->len++;
    }
    submit_locked(portions);
    pthread_mutex_unlock(&portions->mutex);
}

/* Takes the chunk out of its portion, which goes when all have been looked up. */
static bool take_locked(struct portion *portion, const uint8_t key[32], void **bytes, size_t *len)
{
    struct answer *answer = &portion->answer;
    bool found = false;
    for (size_t i = 0; portion->state == PORTION_DRAWN && i < answer->chunks_len && !found; i++) {
        struct answer_chunk *chunk = &answer->chunks[i];
        if (chunk->bytes && memcmp(chunk->key, key, sizeof chunk->key) == 0) {
            *bytes = chunk->bytes;
            *len = chunk->len;
            chunk->bytes = NULL;
            found = true;
        }
    }
    if (++portion->looked_up == portion->what.chunks)
        free_locked(portion);
    return found;
}

bool portions_chunk(struct portions *portions, const uint8_t key[32], bool (*stops)(void *user), void *user,
                    void **chunk, size_t *len)
{
    struct portion *portion;
    bool stopped = false;
    pthread_mutex_lock(&portions->mutex);
    while ((portion = find_locked(portions, key)) != NULL && portion->state < PORTION_DRAWN && !stopped) {
        struct timespec until = clock_timespec(clock_monotonic() + LOOK_SECONDS);
        pthread_cond_timedwait(&portions->news, &portions->mutex, &until);
        pthread_mutex_unlock(&portions->mutex);
        stopped = stops(user);
        pthread_mutex_lock(&portions->mutex);
    }
    bool found = portion && !stopped && take_locked(portion, key, chunk, len);
    pthread_mutex_unlock(&portions->mutex);
    return found;
}
