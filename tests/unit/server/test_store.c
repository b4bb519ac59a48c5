/*
 * The store by itself: rows come back as they were written, a write that fails takes none of its neighbours with it,
 * keys replay, and time removes what is due.
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

#include "server/store/internal.h"
#include "tests/unit/opened_store.h"
#include "tests/unit/test.h"
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

static enum key_use use_of(struct store *store, struct store_key *key, const char *owner, const char *text)
{
    snprintf(key->owner, sizeof key->owner, "%s", owner);
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

/* Posted many times a second, they are deleted many at a time, a second after they could have been. */
TEST_WITH(answers_go_many_at_a_time, set_up, tear_down)
{
    enum { KEPT = 500, MORE = STORE_REPLACED + 8 };
    static char ids[KEPT + MORE][UUID_SIZE];
    static const struct {
        int64_t ago; /* ms */
        size_t replaced;
    } posts[] = {{539500, 0}, {538500, STORE_REPLACED}, {538500, MORE + 3 - STORE_REPLACED}, {538500, 1}};
    struct store *store = open_store(*state, 1 << 20, 0);
    struct landing landing;
    size_t gone = 0;
    int64_t began = clock_now_ms(); /* the disk may be slow */
    for (int i = 0; i < KEPT + MORE; i++) {
        struct job_record record = answered_new(600000 + clock_now_ms() - began, 0);
        if (i == 0)
            put_result(store, record.hash);
        insert_now(store, &record);
        memcpy(ids[i], record.id, UUID_SIZE);
        job_record_clear(&record);
    }
    for (size_t i = 0; i < sizeof posts / sizeof posts[0]; i++) {
        struct job_record record = answered_new(posts[i].ago + clock_now_ms() - began, 0);
        insert_begin(store, &landing, &record, "", record.hash);
        assert_int_equal(insert_wait(&landing), STORE_OK);
        assert_int_equal(landing.insert.replaced_len, posts[i].replaced);
        gone += landing.insert.replaced_len;
        job_record_clear(&record);
    }
    size_t kept = 0;
    for (int i = 0; i < KEPT + MORE; i++)
        kept += is_kept(store, ids[i]);
    assert_int_equal(kept, KEPT + MORE - gone);
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
/* The log goes into the database once it is long, and starts again at its beginning: 64 MB of rows, one commit each,
 * leave a log of some 16 MB, and of 32 MB at most and a row. */
TEST_WITH(the_log_does_not_grow_without_end, set_up, tear_down)
{
    enum { ROWS = 64, BYTES = 1 << 20 };
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
    assert_true(log.st_size > 0 && log.st_size < 40 * BYTES);
    store_close(store);
}

/* ---------------------------------------------------------------- what a key keeps */

static void insert_of(struct store *store, struct landing *landing, struct job_record *record, uint64_t most)
{
    record->poster = (struct poster){.key = "0123abcd", .group = "g"};
    insert_within(store, landing, record, &(struct insert_terms){record->id, "request", most});
    assert_int_equal(insert_wait(landing), STORE_OK);
}

static void nothing_done(struct store_write *write, enum store_status status)
{
    (void)write;
    assert_int_equal(status, STORE_OK);
}

static void delete_now(struct store *store, const char *id)
{
    struct store_delete deletion = {.write.done = nothing_done};
    memcpy(deletion.id, id, UUID_SIZE);
    store_delete_job(store, &deletion);
    store_settle(store);
}

static void assert_kept(struct store *store, const char *key, uint64_t bytes, uint64_t items)
{
    uint64_t bytes_now, items_now;
    assert_int_equal(store_read_kept(store, key, &bytes_now, &items_now), STORE_OK);
    assert_int_equal(bytes_now, bytes);
    assert_int_equal(items_now, items);
}

/* What exceeds the allowance leaves no row, no idempotency key and no owner. Deleting makes room. */
TEST_WITH(a_key_keeps_no_more_bytes_than_it_may, set_up, tear_down)
{
    struct job_record first = record_new(1, JOB_FAILED), second = record_new(2, JOB_QUEUED), read;
    struct landing landing;
    struct store *store = open_store(*state, 1 << 20, 0);
    const uint64_t one = job_record_kept(&first), other = job_record_kept(&second);
    assert_true(one > KEPT_OVERHEAD && other > KEPT_OVERHEAD);
    insert_of(store, &landing, &first, one);
    assert_false(landing.insert.allowance.exceeded);
    assert_kept(store, "0123abcd", one, 1);
    insert_of(store, &landing, &second, one + other - 1);
    assert_true(landing.insert.allowance.exceeded && landing.insert.allowance.kept == one);
    struct quota_refusal refusal = store_allowance_refusal(&landing.insert.allowance);
    assert_true(refusal.kind == QUOTA_BYTES && refusal.left == other - 1);
    assert_int_equal(store_read_job(store, second.id, &read), STORE_NONE);
    char owner[OWNER_SIZE];
    assert_int_equal(store_read_owner(store, second.id, owner), STORE_NONE);
    assert_int_equal(store_key_read(store, &landing.insert.key), STORE_OK);
    assert_int_equal(landing.insert.key.use, KEY_FREE);
    assert_kept(store, "0123abcd", one, 1);
    insert_of(store, &landing, &second, one + other);
    assert_kept(store, "0123abcd", one + other, 2);
    assert_int_equal(store_read_job(store, second.id, &read), STORE_OK);
    assert_string_equal(read.poster.key, "0123abcd");
    assert_string_equal(read.poster.group, "g");
    job_record_clear(&read);
    delete_now(store, first.id);
    assert_kept(store, "0123abcd", other, 1);
    store_close(store);
    store = open_store(*state, 1 << 20, 0);
    assert_kept(store, "0123abcd", other, 1);
    assert_kept(store, "", 0, 0);
    job_record_clear(&first);
    job_record_clear(&second);
    store_close(store);
}

/* Rows of owners that were written before they had keys keep their groups, and count nothing. */
TEST_WITH(owners_without_keys_stay_owners, set_up, tear_down)
{
    static const char former[] = "DROP TRIGGER owners_kept; DROP TRIGGER owners_gone; DROP TABLE kept; DROP TABLE name;"
                                 "UPDATE owners SET checksum = digest(id, owner);"
                                 "ALTER TABLE owners DROP COLUMN key; ALTER TABLE owners DROP COLUMN bytes;"
                                 "PRAGMA user_version = 14";
    struct job_record record = record_new(1, JOB_FAILED), read;
    struct landing landing;
    char owner[OWNER_SIZE];
    const struct place *place = *state;
    sqlite3 *db = NULL;
    struct store *store = open_store(*state, 1 << 20, 0);
    insert_of(store, &landing, &record, 0);
    store_close(store);
    assert_int_equal(sqlite3_open(place->path, &db), SQLITE_OK);
    assert_true(store__digest_register(db));
    assert_int_equal(sqlite3_exec(db, former, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    store = open_store(*state, 1 << 20, 0);
    assert_int_equal(store_read_owner(store, record.id, owner), STORE_OK);
    assert_string_equal(owner, "g");
    assert_int_equal(store_read_job(store, record.id, &read), STORE_OK);
    assert_string_equal(read.poster.group, "g");
    assert_string_equal(read.poster.key, "");
    job_record_clear(&read);
    assert_kept(store, "", 0, 1);
    delete_now(store, record.id);
    assert_kept(store, "", 0, 0);
    assert_int_equal(store_read_owner(store, record.id, owner), STORE_NONE);
    job_record_clear(&record);
    store_close(store);
}
