/*
 * The store by itself: rows come back as they were written, a write that fails takes none of its neighbours with it,
 * keys replay, time removes what is due, and the cache of blobs keeps its bound, its pins and its checksums.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "server/ops/log.h"
#include "server/ops/metrics.h"
#include "server/store/store.h"
#include "tests/unit/test.h"

struct place {
    char folder[64], path[96];
};

static int set_up(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    assert_non_null(place);
    snprintf(place->folder, sizeof place->folder, "/tmp/epsilond-store.XXXXXX");
    assert_non_null(mkdtemp(place->folder));
    snprintf(place->path, sizeof place->path, "%s/test.db", place->folder);
    log_start(LOG_LEVEL_ERROR + 1);
    *state = place;
    return 0;
}

static int tear_down(void **state)
{
    struct place *place = *state;
    static const char *const tails[] = {"", "-wal", "-shm", "-lock"};
    for (int i = 0; i < 4; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s%s", place->path, tails[i]);
        unlink(path);
    }
    rmdir(place->folder);
    free(place);
    return 0;
}

enum { BLOB = 1000 }; /* bytes of each */

static struct store *open_store(const struct place *place, uint64_t cache_bytes, double keep)
{
    char message[256] = "";
    struct store_options options = {
        .path = place->path, .cache_bytes = cache_bytes, .chunk_bytes = 4 * BLOB, .keep_seconds = keep};
    struct store *store = store_open(&options, message, sizeof message);
    if (!store)
        fail_msg("%s", message);
    return store;
}

/* Runs SQL beside the store. */
static int edit(const struct place *place, const char *sql)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(place->path, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 5000);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    int changes = sqlite3_changes(db);
    sqlite3_close(db);
    return changes;
}

/* ---------------------------------------------------------------- rows */

static struct job_record record_new(unsigned number, enum job_status status)
{
    struct job_record record = {.status = status, .attempts = 1, .version = 1};
    char text[64];
    uuid_next(record.id);
    memset(record.hash, '0', HASH_SIZE - 1);
    snprintf(record.hash, HASH_SIZE, "%064u", number);
    snprintf(text, sizeof text, "{\"n\":%u}", number);
    record.job = strdup(text);
    record.label = number % 2 ? strdup("odd \xc3\xa9") : NULL;
    record.created_at = record.started_at = clock_now_ms();
    record.finished_at = status >= JOB_SUCCEEDED ? record.created_at : 0;
    return record;
}

struct landing {
    struct store_insert insert; /* first */
    pthread_mutex_t mutex;
    pthread_cond_t landed;
    enum store_status status;
    bool done;
};

static void landing_done(struct store_write *write, enum store_status status)
{
    struct landing *landing = (struct landing *)write;
    pthread_mutex_lock(&landing->mutex);
    landing->status = status;
    landing->done = true;
    pthread_cond_signal(&landing->landed);
    pthread_mutex_unlock(&landing->mutex);
}

static void insert_begin(struct store *store, struct landing *landing, const struct job_record *record, const char *key,
                         const char *request)
{
    *landing = (struct landing){.insert = {.record = record, .key.client = ""},
                                .mutex = PTHREAD_MUTEX_INITIALIZER,
                                .landed = PTHREAD_COND_INITIALIZER};
    snprintf(landing->insert.key.text, sizeof landing->insert.key.text, "%s", key);
    snprintf(landing->insert.key.request, sizeof landing->insert.key.request, "%s", request);
    landing->insert.write.done = landing_done;
    store_insert_job(store, &landing->insert);
}

static enum store_status insert_wait(struct landing *landing)
{
    pthread_mutex_lock(&landing->mutex);
    while (!landing->done)
        pthread_cond_wait(&landing->landed, &landing->mutex);
    pthread_mutex_unlock(&landing->mutex);
    return landing->status;
}

static void insert_now(struct store *store, const struct job_record *record)
{
    struct landing landing;
    insert_begin(store, &landing, record, "", "");
    assert_int_equal(insert_wait(&landing), STORE_OK);
}

TEST_WITH(rows_survive_a_reopening, set_up, tear_down)
{
    struct job_record record = record_new(7, JOB_FAILED), read;
    record.error = strdup("{\"status\":500}");
    struct store *store = open_store(*state, 1 << 20, 0);
    insert_now(store, &record);
    store_close(store);
    store = open_store(*state, 1 << 20, 0);
    assert_int_equal(store_read_job(store, record.id, &read), STORE_OK);
    assert_string_equal(read.hash, record.hash);
    assert_string_equal(read.job, record.job);
    assert_string_equal(read.label, record.label);
    assert_string_equal(read.error, record.error);
    assert_null(read.brief);
    assert_int_equal(read.status, JOB_FAILED);
    assert_int_equal(read.created_at, record.created_at);
    job_record_clear(&read);
    assert_int_equal(store_read_job(store, "01234567-0000-7000-8000-000000000000", &read), STORE_NONE);
    job_record_clear(&record);
    store_close(store);
}

/* A hundred writes that arrive together, one of which cannot be applied: the others land. */
TEST_WITH(a_bad_write_fails_alone, set_up, tear_down)
{
    enum { WRITES = 100, BAD = 37 };
    static struct landing landings[WRITES];
    static struct job_record records[WRITES];
    struct store *store = open_store(*state, 1 << 20, 0);
    for (unsigned i = 0; i < WRITES; i++)
        records[i] = record_new(i, JOB_SUCCEEDED);
    memcpy(records[BAD].id, records[BAD - 1].id, UUID_SIZE); /* the same id twice */
    for (unsigned i = 0; i < WRITES; i++)
        insert_begin(store, &landings[i], &records[i], "", "");
    for (unsigned i = 0; i < WRITES; i++)
        assert_int_equal(insert_wait(&landings[i]), i == BAD ? STORE_FAILED : STORE_OK);
    struct list_filter filter = {.status = JOB_STATUS_COUNT, .limit = 500};
    struct job_record *found;
    size_t len;
    assert_int_equal(store_list_jobs(store, &filter, &found, &len), STORE_OK);
    assert_int_equal(len, WRITES - 1);
    for (size_t i = 1; i < len; i++)
        assert_true(strcmp(found[i - 1].id, found[i].id) > 0);
    for (size_t i = 0; i < len; i++)
        job_record_clear(&found[i]);
    free(found);
    for (unsigned i = 0; i < WRITES; i++)
        job_record_clear(&records[i]);
    store_close(store);
}

TEST_WITH(keys_replay, set_up, tear_down)
{
    struct job_record first = record_new(1, JOB_QUEUED), second = record_new(2, JOB_QUEUED);
    struct landing landing;
    struct store *store = open_store(*state, 1 << 20, 0);
    insert_begin(store, &landing, &first, "key", "request one");
    assert_int_equal(insert_wait(&landing), STORE_OK);
    assert_int_equal(landing.insert.key.use, KEY_FREE);
    insert_begin(store, &landing, &second, "key", "request one");
    assert_int_equal(insert_wait(&landing), STORE_OK);
    assert_int_equal(landing.insert.key.use, KEY_REPLAYED);
    assert_string_equal(landing.insert.key.id, first.id);
    insert_begin(store, &landing, &second, "key", "request two");
    assert_int_equal(insert_wait(&landing), STORE_OK);
    assert_int_equal(landing.insert.key.use, KEY_CONFLICT);
    struct job_record read;
    assert_int_equal(store_read_job(store, second.id, &read), STORE_NONE);
    job_record_clear(&first);
    job_record_clear(&second);
    store_close(store);
}

static enum key_use use_of(struct store *store, struct store_key *key, const char *client, const char *text)
{
    key->client = client;
    snprintf(key->text, sizeof key->text, "%s", text);
    assert_int_equal(store_key_read(store, key), STORE_OK);
    return key->use;
}

/* What use was made of a key is asked with nothing but the key and the digest of a request. */
TEST_WITH(keys_know_no_job, set_up, tear_down)
{
    struct job_record first = record_new(1, JOB_QUEUED);
    struct landing landing;
    struct store_key key = {0}, other = {0};
    struct store *store = open_store(*state, 1 << 20, 0);
    store_key_request(&key, first.hash, "label");
    store_key_request(&other, first.hash, NULL);
    assert_string_not_equal(key.request, other.request);
    assert_int_equal(use_of(store, &key, "", "key"), KEY_FREE);
    insert_begin(store, &landing, &first, "key", key.request);
    assert_int_equal(insert_wait(&landing), STORE_OK);
    assert_int_equal(use_of(store, &key, "", "key"), KEY_REPLAYED);
    assert_string_equal(key.id, first.id);
    assert_int_equal(use_of(store, &other, "", "key"), KEY_CONFLICT);
    assert_int_equal(use_of(store, &key, "someone else", "key"), KEY_FREE);
    assert_int_equal(use_of(store, &key, "", ""), KEY_FREE);
    assert_int_equal(edit(*state, "UPDATE idempotency SET created_at = created_at - 86400001"), 1);
    assert_int_equal(use_of(store, &key, "", "key"), KEY_FREE);
    job_record_clear(&first);
    store_close(store);
}

/* A final row stays as it is; an open one is listed as open. */
TEST_WITH(final_rows_do_not_change, set_up, tear_down)
{
    struct job_record open = record_new(1, JOB_QUEUED), final = record_new(2, JOB_CANCELED), read;
    struct store *store = open_store(*state, 1 << 20, 0);
    insert_now(store, &open);
    insert_now(store, &final);
    struct job_change changes[2];
    job_change_of(&changes[0], &open, NULL);
    job_change_of(&changes[1], &final, NULL);
    changes[0].status = changes[1].status = JOB_RUNNING;
    struct store_update update = {.changes = changes, .changes_len = 2};
    assert_int_equal(store_update_jobs_wait(store, &update), STORE_OK);
    assert_int_equal(store_read_job(store, final.id, &read), STORE_OK);
    assert_int_equal(read.status, JOB_CANCELED);
    job_record_clear(&read);
    char(*ids)[UUID_SIZE];
    size_t len;
    assert_int_equal(store_list_open(store, &ids, &len), STORE_OK);
    assert_int_equal(len, 1);
    assert_string_equal(ids[0], open.id);
    free(ids);
    job_record_clear(&open);
    job_record_clear(&final);
    store_close(store);
}

TEST_WITH(finished_jobs_expire, set_up, tear_down)
{
    struct job_record old = record_new(1, JOB_CANCELED), open = record_new(2, JOB_QUEUED), read;
    struct store *store = open_store(*state, 1 << 20, 0.05);
    insert_now(store, &old);
    insert_now(store, &open);
    enum store_status status = STORE_OK;
    for (int i = 0; i < 500 && status == STORE_OK; i++) { /* the first sweep comes after a second */
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        status = store_read_job(store, old.id, &read);
        if (status == STORE_OK)
            job_record_clear(&read);
    }
    assert_int_equal(status, STORE_NONE);
    assert_int_equal(store_read_job(store, open.id, &read), STORE_OK);
    job_record_clear(&read);
    job_record_clear(&old);
    job_record_clear(&open);
    store_close(store);
}

static void put_result(struct store *store, const char *hash)
{
    struct result_record *result = result_record_create(hash);
    assert_non_null(result);
    result->finished_at = clock_now_ms();
    result->core = strdup("{\"epsilon\":1");
    result->cache = strdup("{}");
    struct store_update update = {.result = result};
    assert_int_equal(store_update_jobs_wait(store, &update), STORE_OK);
    result_record_release(result);
}

/* A job that is answered by a result that has gone in the meantime is one that waits: it is computed again. */
TEST_WITH(an_answer_is_there_or_the_job_waits, set_up, tear_down)
{
    struct job_record record = record_new(1, JOB_SUCCEEDED), again = record_new(1, JOB_SUCCEEDED), read;
    struct landing landing;
    struct store *store = open_store(*state, 1 << 20, 0);
    record.version = again.version = EPS_ACCOUNTING_VERSION;
    insert_begin(store, &landing, &record, "", "");
    assert_int_equal(insert_wait(&landing), STORE_OK);
    assert_true(landing.insert.unanswered);
    assert_int_equal(store_read_job(store, record.id, &read), STORE_OK);
    assert_int_equal(read.status, JOB_QUEUED);
    assert_int_equal(read.version, 0);
    job_record_clear(&read);
    put_result(store, record.hash);
    insert_begin(store, &landing, &again, "", "");
    assert_int_equal(insert_wait(&landing), STORE_OK);
    assert_false(landing.insert.unanswered);
    assert_int_equal(store_read_job(store, again.id, &read), STORE_OK);
    assert_int_equal(read.status, JOB_SUCCEEDED);
    job_record_clear(&read);
    job_record_clear(&record);
    job_record_clear(&again);
    store_close(store);
}

/* Whether the store has a job of that id. */
static bool is_kept(struct store *store, const char *id)
{
    struct job_record read;
    enum store_status status = store_read_job(store, id, &read);
    if (status == STORE_OK)
        job_record_clear(&read);
    else
        assert_int_equal(status, STORE_NONE);
    return status == STORE_OK;
}

/* A record of job 1 that its cached result answered, so many milliseconds ago. */
static struct job_record answered_new(int64_t ago, size_t bytes)
{
    struct job_record record = record_new(1, JOB_SUCCEEDED);
    char stamp[UUID_SIZE];
    record.version = EPS_ACCOUNTING_VERSION;
    record.from_cache = true;
    record.created_at = record.started_at = record.finished_at = record.created_at - ago;
    uuid_floor(stamp, record.created_at);
    memcpy(record.id, stamp, 13); /* the time; the rest stays random */
    if (bytes) {
        free(record.job);
        record.job = malloc(bytes + 1);
        assert_non_null(record.job);
        memset(record.job, 'x', bytes);
        record.job[bytes] = '\0';
    }
    return record;
}

/* What is posted again and again while its result is cached does not fill the database: of one job 500 records are
 * kept, and those of the last minute; the oldest go, with their keys, and what was computed or posted otherwise
 * stays. */
TEST_WITH(answers_from_the_cache_are_bounded, set_up, tear_down)
{
    enum { KEPT = 500, MORE = 40 };
    static char ids[KEPT + MORE][UUID_SIZE];
    struct store *store = open_store(*state, 1 << 20, 0);
    struct job_record computed = record_new(1, JOB_SUCCEEDED), other = answered_new(4000000, 0);
    struct landing landing;
    struct store_key key = {0};
    size_t replaced = 0;
    computed.version = EPS_ACCOUNTING_VERSION;
    put_result(store, computed.hash);
    insert_now(store, &computed);
    snprintf(other.hash, HASH_SIZE, "%064u", 2U);
    put_result(store, other.hash);
    insert_now(store, &other);
    for (int i = 0; i < KEPT + MORE; i++) {
        struct job_record record = answered_new(3600000 - 1000 * i, 0);
        insert_begin(store, &landing, &record, i < MORE ? (char[]){'k', (char)('0' + i), 0} : "", record.hash);
        assert_int_equal(insert_wait(&landing), STORE_OK);
        assert_int_equal(landing.insert.replaced_len, i < KEPT ? 0 : 1);
        if (i >= KEPT)
            assert_string_equal(landing.insert.replaced[0], ids[replaced++]);
        memcpy(ids[i], record.id, UUID_SIZE);
        job_record_clear(&record);
    }
    for (int i = 0; i < KEPT + MORE; i++)
        assert_int_equal(is_kept(store, ids[i]), i >= MORE);
    assert_true(is_kept(store, computed.id) && is_kept(store, other.id));
    memcpy(key.request, computed.hash, HASH_SIZE);
    for (int i = 0; i < MORE; i++)
        assert_int_equal(use_of(store, &key, "", (char[]){'k', (char)('0' + i), 0}), KEY_FREE);
    /* Those of this minute are all there. */
    for (int i = 0; i < KEPT + MORE; i++) {
        struct job_record record = answered_new(0, 0);
        insert_now(store, &record);
        memcpy(ids[i], record.id, UUID_SIZE);
        job_record_clear(&record);
    }
    for (int i = 0; i < KEPT + MORE; i++)
        assert_true(is_kept(store, ids[i]));
    job_record_clear(&computed);
    job_record_clear(&other);
    store_close(store);
}

/* Large texts are bounded in bytes, whenever they came. */
TEST_WITH(large_answers_are_bounded_in_bytes, set_up, tear_down)
{
    enum { KEPT = 16, MORE = 8, BYTES = 4 << 20 };
    char ids[KEPT + MORE][UUID_SIZE];
    struct store *store = open_store(*state, 1 << 20, 0);
    for (int i = 0; i < KEPT + MORE; i++) {
        struct job_record record = answered_new(0, BYTES);
        if (i == 0)
            put_result(store, record.hash);
        insert_now(store, &record);
        memcpy(ids[i], record.id, UUID_SIZE);
        job_record_clear(&record);
    }
    size_t kept = 0;
    for (int i = 0; i < KEPT + MORE; i++)
        kept += is_kept(store, ids[i]);
    assert_int_equal(kept, KEPT);
    store_close(store);
}

struct told {
    pthread_mutex_t mutex;
    char hashes[4][HASH_SIZE];
    size_t len;
};

static void hear_result(void *user, const char *hash)
{
    struct told *told = user;
    pthread_mutex_lock(&told->mutex);
    assert_true(told->len < 4);
    memcpy(told->hashes[told->len++], hash, HASH_SIZE);
    pthread_mutex_unlock(&told->mutex);
}

static size_t told_len(struct told *told)
{
    pthread_mutex_lock(&told->mutex);
    size_t len = told->len;
    pthread_mutex_unlock(&told->mutex);
    return len;
}

/* A result expires when no job names it or may come to name it, and whoever keeps it in memory is told. */
TEST_WITH(expired_results_are_told, set_up, tear_down)
{
    struct place *place = *state;
    char message[256] = "";
    struct told told = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    struct store_options options = {.path = place->path,
                                    .cache_bytes = 1 << 20,
                                    .keep_seconds = 0.05,
                                    .result_expired = hear_result,
                                    .user = &told};
    struct job_record open = record_new(1, JOB_QUEUED);
    char gone[HASH_SIZE];
    snprintf(gone, sizeof gone, "%064u", 2U);
    struct store *store = store_open(&options, message, sizeof message);
    assert_non_null(store);
    insert_now(store, &open);
    put_result(store, open.hash);
    put_result(store, gone);
    for (int i = 0; i < 500 && !told_len(&told); i++)
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    assert_int_equal(told_len(&told), 1);
    assert_string_equal(told.hashes[0], gone);
    struct result_record *read = NULL;
    assert_int_equal(store_read_result(store, open.hash, EPS_ACCOUNTING_VERSION, &read), STORE_OK);
    result_record_release(read);
    job_record_clear(&open);
    store_close(store);
}

/* A write that fails so many times before it succeeds, and must not be given up. */
struct stubborn {
    struct store_write write;
    atomic_int failures, held, done;
    enum store_status status;
};

static enum store_status stubborn_apply(struct store *store, struct store_write *write)
{
    (void)store;
    return atomic_fetch_sub(&((struct stubborn *)write)->failures, 1) > 0 ? STORE_FAILED : STORE_OK;
}

static void stubborn_held(struct store_write *write)
{
    atomic_fetch_add(&((struct stubborn *)write)->held, 1);
}

static void stubborn_done(struct store_write *write, enum store_status status)
{
    ((struct stubborn *)write)->status = status;
    atomic_fetch_add(&((struct stubborn *)write)->done, 1);
}

/* One write that never succeeds holds up neither another that is held nor those that come later; it is told once
 * that it is held, and that it failed when the store closes. */
TEST_WITH(what_must_not_fail_is_tried_again, set_up, tear_down)
{
    struct store *store = open_store(*state, 1 << 20, 0);
    struct stubborn never = {.failures = 1000000}, later = {.failures = 2};
    struct stubborn *both[] = {&never, &later};
    for (int i = 0; i < 2; i++) {
        both[i]->write = (struct store_write){.apply = stubborn_apply, .held = stubborn_held, .done = stubborn_done};
        store_submit(store, &both[i]->write);
    }
    struct job_record record = record_new(1, JOB_CANCELED);
    insert_now(store, &record);
    assert_non_null(store_trouble(store));
    for (int i = 0; i < 1500 && !atomic_load(&later.done); i++)
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    assert_int_equal(later.done, 1);
    assert_int_equal(later.status, STORE_OK);
    assert_int_equal(later.held, 1);
    assert_int_equal(never.done, 0);
    assert_int_equal(never.held, 1);
    store_close(store);
    assert_int_equal(never.done, 1);
    assert_int_equal(never.status, STORE_FAILED);
    job_record_clear(&record);
}

/* ---------------------------------------------------------------- damage */

/* Every column of a row, changed behind the store's back. */
TEST_WITH(whatever_is_changed_in_a_row_is_noticed, set_up, tear_down)
{
    static const struct {
        const char *change;
        bool text; /* of the job itself: nothing of it can be trusted */
    } damages[] = {
        {"hash = replace(hash, '7', '8')", true},
        {"hash = 'short'", true},
        {"label = 'even'", true},
        {"label = NULL", true},
        {"created_at = created_at + 1", true},
        {"operations = operations + 1", true},
        {"job = replace(job, '7', '9')", true},
        {"job = ''", true},
        {"brief = job", false}, /* the list's text is the same */
        {"brief = '{}'", true},
        {"status = 2", false},
        {"status = 77", false},
        {"status = -1", false},
        {"status = 'done'", false},
        {"attempts = attempts + 1", false},
        {"started_at = NULL", false},
        {"finished_at = finished_at - 1", false},
        {"from_cache = 1", false},
        {"version = version + 1", false},
        {"error = replace(error, '5', '4')", false},
        {"error = NULL", false},
    };
    struct store *store = open_store(*state, 1 << 20, 0);
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        char sql[256];
        struct job_record record = record_new(7, JOB_FAILED), read;
        record.error = strdup("{\"status\":500}");
        record.operations = 1e6;
        insert_now(store, &record);
        snprintf(sql, sizeof sql, "PRAGMA ignore_check_constraints = 1; UPDATE jobs SET %s WHERE id = '%s'",
                 damages[i].change, record.id);
        edit(*state, sql);
        enum store_status status = store_read_job(store, record.id, &read);
        if (strcmp(damages[i].change, "brief = job") == 0) { /* what is read is what was written */
            assert_int_equal(status, STORE_OK);
        } else {
            if (status != STORE_CORRUPT || !read.damaged || !read.job != damages[i].text)
                fail_msg("%s: status %d, damaged %d, job %s", damages[i].change, status, read.damaged, read.job);
            assert_int_equal(read.status, JOB_QUEUED);
            assert_int_equal(read.attempts, 0);
        }
        job_record_clear(&read);
        struct list_filter filter = {.status = JOB_STATUS_COUNT, .limit = 500};
        struct job_record *found;
        size_t len;
        assert_int_equal(store_list_jobs(store, &filter, &found, &len), STORE_OK);
        assert_int_equal(len, i + 1);
        assert_string_equal(found[0].id, record.id);
        for (size_t k = 0; k < len; k++)
            job_record_clear(&found[k]);
        free(found);
        job_record_clear(&record);
    }
    store_close(store);
}

/* A job in no state that there is waits to be dealt with at the next start, and can be brought to an end. */
TEST_WITH(a_job_in_no_known_state_is_open, set_up, tear_down)
{
    struct job_record record = record_new(1, JOB_CANCELED), read;
    struct store *store = open_store(*state, 1 << 20, 0);
    insert_now(store, &record);
    edit(*state, "PRAGMA ignore_check_constraints = 1; UPDATE jobs SET status = 77");
    char(*ids)[UUID_SIZE];
    size_t len;
    assert_int_equal(store_list_open(store, &ids, &len), STORE_OK);
    assert_int_equal(len, 1);
    assert_string_equal(ids[0], record.id);
    free(ids);
    struct job_change change;
    job_change_of(&change, &record, NULL);
    struct store_update update = {.changes = &change, .changes_len = 1};
    assert_int_equal(store_update_jobs_wait(store, &update), STORE_OK);
    assert_int_equal(store_read_job(store, record.id, &read), STORE_OK);
    assert_int_equal(read.status, JOB_CANCELED);
    job_record_clear(&read);
    job_record_clear(&record);
    store_close(store);
}

static const struct api_figures some_figures = {.solved_for = "epsilon",
                                                .epsilon = 0.1 + 0.2,
                                                .delta = 1e-6,
                                                .noise_multiplier = 2,
                                                .lower = 0,
                                                .upper = 0.1 + 0.2,
                                                .mean_squared = 202,
                                                .max_squared = 203,
                                                .last_squared = 204,
                                                .accountant = "pld",
                                                .factorization = "abc"};
static const char some_core[] =
    "{\"solved_for\":\"epsilon\",\"epsilon\":0.30000000000000004,\"delta\":1e-6,\"noise_multiplier\":2,"
    "\"bracket\":{\"lower\":0,\"upper\":0.30000000000000004},\"accountant\":\"pld\",\"directions\":{},"
    "\"factorization\":{\"id\":\"abc\",\"iterations\":0},\"error\":{\"mean_squared\":202,\"max_squared\":203,\"last_"
    "squared\":204}";

static void put_figures(struct store *store, const char *hash, const struct api_figures *figures)
{
    struct result_record *result = result_record_create(hash);
    assert_non_null(result);
    result->finished_at = clock_now_ms();
    result->core = strdup(some_core);
    result->cache = strdup("{}");
    result->figures = *figures;
    struct store_update update = {.result = result};
    assert_int_equal(store_update_jobs_wait(store, &update), STORE_OK);
    result_record_release(result);
}

static void assert_figures(struct store *store, const char *hash, const struct api_figures *expected)
{
    struct result_record *read = NULL;
    assert_int_equal(store_read_result(store, hash, EPS_ACCOUNTING_VERSION, &read), STORE_OK);
    const struct api_figures *figures = &read->figures;
    for (const struct api_figure *figure = api_figures; figure->name; figure++) {
        if (!figure->column)
            continue;
        if (!api_figure_is_number(figure)) {
            assert_string_equal(api_figure_text(figure, figures), api_figure_text(figure, expected));
            continue;
        }
        double number = api_figure_number(figure, figures), wanted = api_figure_number(figure, expected);
        assert_true(number == wanted || (isnan(number) && isnan(wanted)));
    }
    result_record_release(read);
}

TEST_WITH(whatever_is_changed_in_a_results_figures_is_noticed, set_up, tear_down)
{
    static const char *const changes[] = {
        "solved_for = 'delta'",    "epsilon = epsilon / 2",   "epsilon = NULL",
        "delta = 2 * delta",       "noise_multiplier = 20",   "lower = 1",
        "upper = upper + 1",       "accountant = 'gaussian'", "factorization = NULL",
        "mean_squared = 201",      "max_squared = 201",       "last_squared = NULL",
        "figures_checksum = NULL",
    };
    char hash[HASH_SIZE];
    snprintf(hash, sizeof hash, "%064u", 1U);
    struct store *store = open_store(*state, 1 << 20, 0);
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        char sql[128];
        struct result_record *read = NULL;
        put_figures(store, hash, &some_figures); /* mends the row */
        assert_figures(store, hash, &some_figures);
        snprintf(sql, sizeof sql, "UPDATE results SET %s", changes[i]);
        assert_int_equal(edit(*state, sql), 1);
        if (store_read_result(store, hash, EPS_ACCOUNTING_VERSION, &read) != STORE_CORRUPT)
            fail_msg("%s", changes[i]);
    }
    struct api_figures none = {.epsilon = NAN,
                               .delta = NAN,
                               .noise_multiplier = -0.0,
                               .lower = NAN,
                               .upper = INFINITY,
                               .mean_squared = NAN,
                               .max_squared = NAN,
                               .last_squared = NAN};
    put_figures(store, hash, &none);
    none.upper = NAN;
    assert_figures(store, hash, &none);
    store_close(store);
}

/* Of rows that were written before there were columns for them, the figures are read out of the text once, to the last
 * bit; a row that was damaged before is not made good by that. */
TEST_WITH(an_older_result_gets_its_figures, set_up, tear_down)
{
    static const struct api_figures nothing = {.epsilon = NAN};
    char good[HASH_SIZE], bad[HASH_SIZE];
    struct result_record *read = NULL;
    snprintf(good, sizeof good, "%064u", 1U);
    snprintf(bad, sizeof bad, "%064u", 2U);
    struct store *store = open_store(*state, 1 << 20, 0);
    put_figures(store, good, &nothing);
    put_figures(store, bad, &nothing);
    store_close(store);
    edit(*state, "UPDATE results SET core = replace(core, '1e-6', '1e-7') WHERE hash LIKE '%2';"
                 "ALTER TABLE results DROP COLUMN solved_for; ALTER TABLE results DROP COLUMN epsilon;"
                 "ALTER TABLE results DROP COLUMN delta; ALTER TABLE results DROP COLUMN noise_multiplier;"
                 "ALTER TABLE results DROP COLUMN lower; ALTER TABLE results DROP COLUMN upper;"
                 "ALTER TABLE results DROP COLUMN mean_squared; ALTER TABLE results DROP COLUMN accountant; ALTER "
                 "TABLE results DROP COLUMN factorization;"
                 "ALTER TABLE results DROP COLUMN figures_checksum; DROP INDEX chunks_by_use;"
                 "ALTER TABLE results DROP COLUMN max_squared; ALTER TABLE results DROP COLUMN last_squared;"
                 "DROP TABLE job_groups; DROP TABLE children; DROP TABLE orphans; DROP INDEX jobs_posted; DROP INDEX "
                 "jobs_posted_by_status; DROP INDEX jobs_by_parent; DROP INDEX jobs_by_label;"
                 "CREATE INDEX jobs_by_label ON jobs (label, id) WHERE label IS NOT NULL;"
                 "DROP INDEX jobs_answered; DROP INDEX idempotency_by_job;"
                 "ALTER TABLE jobs DROP COLUMN parent; ALTER TABLE jobs DROP COLUMN child; PRAGMA user_version = 6");
    store = open_store(*state, 1 << 20, 0);
    assert_figures(store, good, &some_figures);
    assert_int_equal(store_read_result(store, bad, EPS_ACCOUNTING_VERSION, &read), STORE_CORRUPT);
    store_close(store);
}

TEST_WITH(a_damaged_key_replays_nothing, set_up, tear_down)
{
    struct job_record first = record_new(1, JOB_QUEUED), second = record_new(2, JOB_QUEUED), read;
    struct landing landing;
    struct store *store = open_store(*state, 1 << 20, 0);
    insert_begin(store, &landing, &first, "key", "request");
    assert_int_equal(insert_wait(&landing), STORE_OK);
    assert_int_equal(edit(*state, "UPDATE idempotency SET job = 'f' || substr(job, 2)"), 1);
    insert_begin(store, &landing, &second, "key", "request");
    assert_int_equal(insert_wait(&landing), STORE_CORRUPT);
    assert_int_equal(landing.insert.key.use, KEY_DAMAGED);
    assert_int_equal(store_read_job(store, second.id, &read), STORE_NONE);
    job_record_clear(&first);
    job_record_clear(&second);
    store_close(store);
}

/* The log goes into the database once it is long, and starts again at its beginning: 48 MB of rows, one commit each,
 * leave a log of some 16 MB. */
TEST_WITH(the_log_does_not_grow_without_end, set_up, tear_down)
{
    enum { ROWS = 48, BYTES = 1 << 20 };
    struct place *place = *state;
    char path[128];
    struct stat log;
    struct store *store = open_store(place, 1 << 20, 0);
    for (unsigned i = 0; i < ROWS; i++) {
        struct job_record record = record_new(i, JOB_SUCCEEDED);
        free(record.job);
        record.job = malloc(BYTES + 1);
        assert_non_null(record.job);
        memset(record.job, 'x', BYTES);
        record.job[BYTES] = '\0';
        insert_now(store, &record);
        job_record_clear(&record);
    }
    snprintf(path, sizeof path, "%s-wal", place->path);
    assert_int_equal(stat(path, &log), 0);
    assert_true(log.st_size > 0 && log.st_size < 24 * BYTES);
    store_close(store);
}

/* ---------------------------------------------------------------- blobs */

static void key_of(uint8_t key[32], enum eps_cache_kind kind, unsigned number)
{
    memset(key, 0, 32);
    key[0] = (uint8_t)kind;
    key[1] = (uint8_t)number;
}

static void put(struct store *store, enum eps_cache_kind kind, unsigned number)
{
    uint8_t key[32], data[BLOB];
    key_of(key, kind, number);
    memset(data, (int)number, sizeof data);
    store_blob_put(store, kind, key, data, sizeof data);
    struct store_update nothing = {0};
    assert_int_equal(store_update_jobs_wait(store, &nothing), STORE_OK); /* after it in the writer's queue */
}

static bool kept(struct store *store, enum eps_cache_kind kind, unsigned number)
{
    uint8_t key[32];
    void *data = NULL;
    size_t len = 0;
    key_of(key, kind, number);
    if (!store_blob_get(store, kind, key, &data, &len))
        return false;
    assert_int_equal(len, BLOB);
    for (size_t i = 0; i < len; i++)
        assert_int_equal(((uint8_t *)data)[i], number);
    free(data);
    return true;
}

/* Names factorisation `number` in a result. */
static void pin(struct store *store, unsigned number)
{
    uint8_t keys[1][32];
    char hash[HASH_SIZE];
    snprintf(hash, sizeof hash, "%064u", number);
    key_of(keys[0], EPS_CACHE_FACTORIZATION, number);
    struct result_record *result = result_record_create(hash);
    assert_non_null(result);
    result->finished_at = clock_now_ms();
    result->core = strdup("{\"epsilon\":1");
    result->cache = strdup("{}");
    struct store_update update = {.result = result, .uses = (const uint8_t(*)[32])keys, .uses_len = 1};
    assert_int_equal(store_update_jobs_wait(store, &update), STORE_OK);
    struct result_record *read = NULL;
    assert_int_equal(store_read_result(store, hash, EPS_ACCOUNTING_VERSION, &read), STORE_OK);
    assert_string_equal(read->core, result->core);
    result_record_release(read);
    result_record_release(result);
}

TEST_WITH(the_cache_evicts_in_its_order, set_up, tear_down)
{
    struct store *store = open_store(*state, 5 * BLOB, 0);
    put(store, EPS_CACHE_FACTORIZATION, 1);
    pin(store, 1);
    put(store, EPS_CACHE_FACTORIZATION, 2);
    put(store, EPS_CACHE_PLD, 3);
    put(store, EPS_CACHE_PLD, 4);
    put(store, EPS_CACHE_PLD, 5);
    put(store, EPS_CACHE_PLD, 6); /* one must go: a loss distribution, the oldest */
    assert_false(kept(store, EPS_CACHE_PLD, 3));
    assert_true(kept(store, EPS_CACHE_PLD, 4));
    for (unsigned number = 7; number < 10; number++)
        put(store, EPS_CACHE_FACTORIZATION, number); /* three must go: all loss distributions */
    for (unsigned number = 4; number < 7; number++)
        assert_false(kept(store, EPS_CACHE_PLD, number));
    assert_true(kept(store, EPS_CACHE_FACTORIZATION, 2));
    put(store, EPS_CACHE_FACTORIZATION, 10); /* the oldest factorisation that no result names */
    assert_false(kept(store, EPS_CACHE_FACTORIZATION, 2));
    assert_true(kept(store, EPS_CACHE_FACTORIZATION, 1));
    assert_true(kept(store, EPS_CACHE_FACTORIZATION, 10));
    for (unsigned number = 7; number < 11; number++)
        pin(store, number);
    put(store, EPS_CACHE_PLD, 11); /* all are named: no room */
    assert_false(kept(store, EPS_CACHE_PLD, 11));
    assert_true(kept(store, EPS_CACHE_FACTORIZATION, 1));
    store_close(store);
}

/* Draws drive no loss distribution out, nor the other way round, and the draws that were used last stay. */
TEST_WITH(chunks_have_a_bound_of_their_own, set_up, tear_down)
{
    struct store *store = open_store(*state, 4 * BLOB, 0);
    put(store, EPS_CACHE_PLD, 1);
    for (unsigned number = 1; number <= 4; number++)
        put(store, EPS_CACHE_CHUNK, number);
    assert_int_equal(edit(*state, "UPDATE blobs SET used_at = used_at + 1000 WHERE kind = 2 AND key < x'0202'"), 1);
    put(store, EPS_CACHE_CHUNK, 5); /* the second goes, which is now the oldest */
    assert_true(kept(store, EPS_CACHE_CHUNK, 1));
    assert_false(kept(store, EPS_CACHE_CHUNK, 2));
    assert_true(kept(store, EPS_CACHE_PLD, 1));
    assert_int_equal(metric_get(METRIC_CHUNK_BYTES), 4 * BLOB);
    assert_int_equal(metric_get(METRIC_CACHE_BYTES), BLOB);
    for (unsigned number = 2; number <= 6; number++)
        put(store, EPS_CACHE_PLD, number);
    assert_false(kept(store, EPS_CACHE_PLD, 1));
    store_close(store);
    store = open_store(*state, 4 * BLOB, 0);
    for (unsigned number = 3; number <= 5; number++)
        assert_true(kept(store, EPS_CACHE_CHUNK, number));
    assert_int_equal(metric_get(METRIC_CHUNK_BYTES), 4 * BLOB);
    put(store, EPS_CACHE_CHUNK, 6);
    assert_int_equal(metric_get(METRIC_CHUNK_BYTES), 4 * BLOB);
    assert_int_equal(metric_get(METRIC_CACHE_BYTES), 4 * BLOB);
    store_close(store);
    assert_int_equal(edit(*state, "DELETE FROM blobs WHERE kind = 2"), 4);
}

/* A lookup counts for its kind, and a chunk that is damaged or of another accounting version is drawn again. */
TEST_WITH(a_chunk_that_is_no_good_is_not_found, set_up, tear_down)
{
    struct store *store = open_store(*state, 1 << 20, 0);
    int64_t hits = metric_get(METRIC_CHUNK_HITS), misses = metric_get(METRIC_CHUNK_MISSES);
    int64_t failures = metric_get(METRIC_CHECKSUM_FAILURES), others = metric_get(METRIC_PLD_MISSES);
    put(store, EPS_CACHE_CHUNK, 1);
    put(store, EPS_CACHE_CHUNK, 2);
    assert_false(kept(store, EPS_CACHE_CHUNK, 3));
    assert_int_equal(edit(*state, "UPDATE blobs SET data = zeroblob(1000) WHERE key < x'0202'"), 1);
    assert_false(kept(store, EPS_CACHE_CHUNK, 1));
    assert_true(kept(store, EPS_CACHE_CHUNK, 2));
    put(store, EPS_CACHE_CHUNK, 1);
    assert_true(kept(store, EPS_CACHE_CHUNK, 1)); /* the bad row went, a good one came */
    assert_int_equal(metric_get(METRIC_CHUNK_HITS), hits + 2);
    assert_int_equal(metric_get(METRIC_CHUNK_MISSES), misses + 2);
    assert_int_equal(metric_get(METRIC_PLD_MISSES), others);
    assert_int_equal(metric_get(METRIC_CHECKSUM_FAILURES), failures + 1);
    store_close(store);
    assert_int_equal(edit(*state, "UPDATE blobs SET version = version - 1"), 2);
    store = open_store(*state, 1 << 20, 0);
    assert_int_equal(metric_get(METRIC_CHUNK_BYTES), 0);
    assert_false(kept(store, EPS_CACHE_CHUNK, 2));
    store_close(store);
}

/* A result that was cut short: the cache does not have it, and each stays what it was. */
TEST_WITH(a_parted_result_is_of_its_own_jobs, set_up, tear_down)
{
    struct store *store = open_store(*state, 1 << 20, 0);
    struct result_record *results[3], *read = NULL;
    char hash[HASH_SIZE];
    snprintf(hash, sizeof hash, "%064u", 7);
    for (int i = 0; i < 3; i++) {
        char core[32];
        results[i] = result_record_create(hash);
        assert_non_null(results[i]);
        assert_true(result_record_cached(results[i]));
        snprintf(core, sizeof core, "{\"epsilon\":%d", i);
        results[i]->core = strdup(core);
        results[i]->cache = strdup("{}");
        if (i < 2) {
            result_record_part(results[i]);
            assert_true(results[i]->version < 0);
            assert_false(result_record_cached(results[i]));
        }
        struct store_update update = {.result = results[i]};
        assert_int_equal(store_update_jobs_wait(store, &update), STORE_OK);
        assert_int_equal(store_read_result(store, hash, EPS_ACCOUNTING_VERSION, &read), i < 2 ? STORE_NONE : STORE_OK);
        result_record_release(read);
        read = NULL;
    }
    assert_int_not_equal(results[0]->version, results[1]->version);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(store_read_result(store, hash, results[i]->version, &read), STORE_OK);
        assert_string_equal(read->core, results[i]->core);
        result_record_release(read);
        result_record_release(results[i]);
    }
    store_close(store);
}

TEST_WITH(a_damaged_blob_is_not_found, set_up, tear_down)
{
    struct store *store = open_store(*state, 1 << 20, 0);
    put(store, EPS_CACHE_PLD, 1);
    put(store, EPS_CACHE_PLD, 2);
    assert_int_equal(edit(*state, "UPDATE blobs SET data = zeroblob(1000) WHERE substr(key, 2, 1) = x'01'"), 1);
    assert_false(kept(store, EPS_CACHE_PLD, 1));
    assert_true(kept(store, EPS_CACHE_PLD, 2));
    put(store, EPS_CACHE_PLD, 1);
    assert_true(kept(store, EPS_CACHE_PLD, 1)); /* the bad row went, a good one came */
    store_close(store);
}

/* Whatever is wrong with its row, a blob can go: the cache neither grows nor stops taking. */
TEST_WITH(damaged_blobs_are_evicted, set_up, tear_down)
{
    struct store *store = open_store(*state, 4 * BLOB, 0);
    for (unsigned number = 1; number <= 4; number++)
        put(store, EPS_CACHE_PLD, number);
    edit(*state, "UPDATE blobs SET key = x'00' WHERE substr(key, 2, 1) = x'01';"
                 "UPDATE blobs SET size = 7 WHERE substr(key, 2, 1) = x'02';"
                 "UPDATE blobs SET kind = 99 WHERE substr(key, 2, 1) = x'03'");
    for (unsigned number = 5; number <= 9; number++) {
        put(store, EPS_CACHE_PLD, number);
        assert_true(kept(store, EPS_CACHE_PLD, number));
    }
    store_close(store);
    assert_int_equal(edit(*state, "DELETE FROM blobs"), 4);
}

/* A new accounting version forgets loss distributions, and of factorisations those that no result names. */
TEST_WITH(an_older_version_keeps_its_named_factorisations, set_up, tear_down)
{
    struct store *store = open_store(*state, 1 << 20, 0);
    put(store, EPS_CACHE_FACTORIZATION, 1);
    put(store, EPS_CACHE_FACTORIZATION, 2);
    put(store, EPS_CACHE_PLD, 3);
    pin(store, 1);
    store_close(store);
    edit(*state, "UPDATE blobs SET version = version - 1; UPDATE uses SET version = version - 1;"
                 "UPDATE results SET version = version - 1");
    store = open_store(*state, 1 << 20, 0);
    assert_true(kept(store, EPS_CACHE_FACTORIZATION, 1));
    assert_false(kept(store, EPS_CACHE_FACTORIZATION, 2));
    assert_false(kept(store, EPS_CACHE_PLD, 3));
    store_close(store);
}

TEST_WITH(a_newer_schema_is_refused, set_up, tear_down)
{
    struct place *place = *state;
    store_close(open_store(place, 1 << 20, 0));
    edit(place, "PRAGMA user_version = 1000");
    char message[256] = "";
    struct store_options options = {.path = place->path, .cache_bytes = 1 << 20};
    assert_null(store_open(&options, message, sizeof message));
    assert_non_null(strstr(message, "newer epsilond"));
}
