/*
 * Records are of jobs that differ by a number.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "tests/unit/opened_store.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/ops/log.h"
#include "tests/unit/test.h"

int set_up(void **state)
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

int tear_down(void **state)
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

struct store *open_store(const struct place *place, uint64_t cache_bytes, double keep)
{
    char message[256] = "";
    struct store_options options = {
        .path = place->path, .cache_bytes = cache_bytes, .chunk_bytes = 4 * BLOB, .keep_seconds = keep};
    struct store *store = store_open(&options, message, sizeof message);
    if (!store)
        fail_msg("%s", message);
    return store;
}

int edit(const struct place *place, const char *sql)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(place->path, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 5000);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    int changes = sqlite3_changes(db);
    sqlite3_close(db);
    return changes;
}

struct job_record record_new(unsigned number, enum job_status status)
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

static void landing_done(struct store_write *write, enum store_status status)
{
    struct landing *landing = (struct landing *)write;
    pthread_mutex_lock(&landing->mutex);
    landing->status = status;
    landing->done = true;
    pthread_cond_signal(&landing->landed);
    pthread_mutex_unlock(&landing->mutex);
}

void insert_begin(struct store *store, struct landing *landing, const struct job_record *record, const char *key,
                  const char *request)
{
    insert_within(store, landing, record, &(struct insert_terms){.key = key, .request = request});
}

void insert_within(struct store *store, struct landing *landing, const struct job_record *record,
                   const struct insert_terms *terms)
{
    *landing = (struct landing){.insert = {.record = record, .allowance.most = terms->most},
                                .mutex = PTHREAD_MUTEX_INITIALIZER,
                                .landed = PTHREAD_COND_INITIALIZER};
    snprintf(landing->insert.key.text, sizeof landing->insert.key.text, "%s", terms->key);
    snprintf(landing->insert.key.request, sizeof landing->insert.key.request, "%s", terms->request);
    landing->insert.write.done = landing_done;
    store_insert_job(store, &landing->insert);
}

enum store_status insert_wait(struct landing *landing)
{
    pthread_mutex_lock(&landing->mutex);
    while (!landing->done)
        pthread_cond_wait(&landing->landed, &landing->mutex);
    pthread_mutex_unlock(&landing->mutex);
    return landing->status;
}

void insert_now(struct store *store, const struct job_record *record)
{
    struct landing landing;
    insert_begin(store, &landing, record, "", "");
    assert_int_equal(insert_wait(&landing), STORE_OK);
}

void put_result(struct store *store, const char *hash)
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
