/*
 * The store without memory, SQLite's included: each call succeeds with what was written, or reports its failure; what
 * was acknowledged is in the database that opens afterwards, complete, and nothing leaks.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <pthread.h>
#include <sqlite3.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/ops/log.h"
#include "server/store/store.h"
#include "tests/unit/memory/scarcity.h"
#include "tests/unit/test.h"

enum { BLOB = 3000, POINTS = 4, DEPTH = 5, MEAN = 7 };

enum step {
    OPENED,
    INSERTED,
    ENDED,
    KEPT,
    GOT,
    READ,
    ANSWERED,
    REPLAYED,
    LISTED,
    WAITING,
    DROPPED,
    GROUPED,
    FED,
    TOLD,
    PLANNED,
    TRIED,
    RANKED,
    FIGURED,
    COUNTED,
    REPAIRED,
    STEPS
};
static const char *const step_names[STEPS] = {"open",
                                              "insert",
                                              "end",
                                              "keep",
                                              "get",
                                              "read",
                                              "result",
                                              "key",
                                              "list",
                                              "waiting",
                                              "delete",
                                              "group",
                                              "child",
                                              "table",
                                              "plan",
                                              "candidate",
                                              "end of a candidate",
                                              "ranking",
                                              "damaged group",
                                              "repair"};

struct tried {
    char folder[64], path[96];
    struct job_record done, dropped;
    struct group_record group, plan;
    struct job_record candidate; /* the plan's only one so far */
    struct result_record *result;
    uint8_t key[32], data[BLOB];
    struct store *store; /* of a damaged database */
    bool fresh;          /* the database is made anew for each run */
    bool ok[STEPS];
    const char *wrong;
};

/* ------------------------------------------------------------ the calls */

struct landing {
    struct store_write *write; /* the call whose done() this is */
    pthread_mutex_t mutex;
    pthread_cond_t landed;
    enum store_status status;
    bool done;
};

static struct landing landing = {.mutex = PTHREAD_MUTEX_INITIALIZER, .landed = PTHREAD_COND_INITIALIZER};

static void land(struct store_write *write, enum store_status status)
{
    (void)write;
    pthread_mutex_lock(&landing.mutex);
    landing.status = status;
    landing.done = true;
    pthread_cond_signal(&landing.landed);
    pthread_mutex_unlock(&landing.mutex);
}

static bool landed(void)
{
    pthread_mutex_lock(&landing.mutex);
    while (!landing.done)
        pthread_cond_wait(&landing.landed, &landing.mutex);
    landing.done = false;
    pthread_mutex_unlock(&landing.mutex);
    return landing.status == STORE_OK;
}

static bool insert(struct store *store, const struct job_record *record, const char *key)
{
    struct store_insert insertion = {.write.done = land, .record = record, .key = {.owner = "me", .request = "r"}};
    snprintf(insertion.key.text, sizeof insertion.key.text, "%s", key);
    store_insert_job(store, &insertion);
    return landed();
}

static bool drop(struct store *store, const char *id)
{
    struct store_delete deletion = {.write.done = land};
    memcpy(deletion.id, id, sizeof deletion.id);
    store_delete_job(store, &deletion);
    return landed();
}

static bool insert_group(struct store *store, const struct group_record *record)
{
    struct store_group_insert insertion = {.write.done = land, .record = record};
    store_insert_group(store, &insertion);
    return landed();
}

/* One that resulted in no job. */
static bool insert_child(struct store *store, const char *parent)
{
    struct store_child_insert insertion = {.write.done = land, .status = JOB_FAILED, .detail = "why"};
    memcpy(insertion.parent, parent, sizeof insertion.parent);
    store_insert_child(store, &insertion);
    return landed();
}

/* One with a job that waits. */
static bool insert_candidate(struct store *store, const struct tried *tried)
{
    struct store_child_insert insertion = {.write.done = land, .record = &tried->candidate};
    memcpy(insertion.parent, tried->plan.id, sizeof insertion.parent);
    store_insert_child(store, &insertion);
    return landed();
}

static bool end_candidate(struct store *store, const struct tried *tried)
{
    struct job_change change;
    struct store_update update = {.changes = &change, .changes_len = 1, .result = tried->result, .result_kept = true};
    job_change_of(&change, &tried->candidate, NULL);
    change.status = JOB_SUCCEEDED;
    change.version = EPS_ACCOUNTING_VERSION;
    change.finished_at = tried->candidate.created_at;
    return store_update_jobs_wait(store, &update) == STORE_OK;
}

static bool drop_group(struct store *store, enum group_kind_id kind, const char *id)
{
    struct store_group_end end = {.write.done = land, .status = JOB_SUCCEEDED, .finished_at = 1};
    struct store_delete deletion = {.write.done = land};
    memcpy(end.id, id, sizeof end.id);
    memcpy(deletion.id, id, sizeof deletion.id);
    store_end_group(store, &end);
    bool ended = landed();
    store_delete_group(store, kind, &deletion);
    return landed() && ended;
}

static struct store *open_store(const struct tried *tried, char *message, size_t size)
{
    const struct store_options options = {
        .path = tried->path, .cache_bytes = 1 << 20, .keep_seconds = 1e6, .scrub_seconds = 1e6};
    return store_open(&options, message, size);
}

static void note(struct tried *tried, enum step step, bool ok, bool right)
{
    tried->ok[step] = ok;
    if (ok && !right)
        tried->wrong = step_names[step];
}

/* ------------------------------------------------------------ what is read */

static bool same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool same_job(const struct job_record *read, const struct job_record *record)
{
    return !read->damaged && same_text(read->job, record->job) && same_text(read->label, record->label) &&
           same_text(read->brief, record->brief) && strcmp(read->hash, record->hash) == 0;
}

/* Lists contain the job without its arrays. */
static bool same_listed(const struct job_record *read, const struct job_record *record)
{
    return !read->damaged && same_text(read->job, record->brief ? record->brief : record->job) &&
           same_text(read->label, record->label);
}

static bool same_result(const struct result_record *read, const struct result_record *result)
{
    return same_text(read->core, result->core) && same_text(read->cache, result->cache) &&
           same_text(read->curve, result->curve) && same_text(read->note, result->note) &&
           read->points_len == result->points_len &&
           memcmp(read->points, result->points, result->points_len * sizeof *result->points) == 0;
}

static void read_rows(struct tried *tried, struct store *store)
{
    struct job_record record = {0}, *records = NULL;
    struct result_record *result = NULL;
    const struct list_filter filter = {.status = JOB_STATUS_COUNT, .limit = 10};
    void *data = NULL;
    size_t len = 0;
    struct store_key key = {.owner = "me", .request = "r"};
    bool ok = store_read_job(store, tried->done.id, &record) == STORE_OK;
    note(tried, READ, ok, ok && same_job(&record, &tried->done));
    job_record_clear(&record);
    ok = store_read_result(store, tried->done.hash, EPS_ACCOUNTING_VERSION, &result) == STORE_OK;
    note(tried, ANSWERED, ok, ok && same_result(result, tried->result));
    result_record_release(result);
    snprintf(key.text, sizeof key.text, "%s", tried->done.id);
    ok = store_key_read(store, &key) == STORE_OK && key.use != KEY_FREE;
    note(tried, REPLAYED, ok, ok && key.use == KEY_REPLAYED && strcmp(key.id, tried->done.id) == 0);
    ok = store_list_jobs(store, &filter, &records, &len) == STORE_OK;
    bool right = true;
    for (size_t i = 0; ok && i < len; i++)
        right = right && (strcmp(records[i].id, tried->done.id) != 0 || same_listed(&records[i], &tried->done));
    note(tried, LISTED, ok, right);
    for (size_t i = 0; ok && i < len; i++)
        job_record_clear(&records[i]);
    free(records);
    ok = store_blob_get(store, EPS_CACHE_PLD, tried->key, &data, &len);
    note(tried, GOT, ok, ok && len == BLOB && memcmp(data, tried->data, BLOB) == 0);
    free(data);
}

struct seen {
    const struct tried *tried;
    size_t children;
    bool right;
};

static bool same_group(const struct group_record *read, const struct group_record *group)
{
    return strcmp(read->id, group->id) != 0 ||
           (same_text(read->label, group->label) && same_text(read->request, group->request) && read->total == 2);
}

static void see_child(void *user, const struct child_record *child)
{
    struct seen *seen = user;
    seen->children++;
    seen->right = seen->right && child->number == 0 && child->ended == 1 && child->status == JOB_FAILED &&
                  same_text(child->detail, "why");
}

static void see_group(void *user, const struct group_record *group)
{
    struct seen *seen = user;
    seen->right = seen->right && same_group(group, &seen->tried->group);
}

/* The group, in each way that it is read; its counts agree with its table. */
static void read_group(struct tried *tried, struct store *store)
{
    struct seen seen = {tried, 0, true};
    struct group_record record = {0}, *records = NULL;
    size_t len = 0;
    const struct list_filter filter = {.status = JOB_STATUS_COUNT, .limit = 10};
    const struct children_filter all = {.parent = tried->group.id};
    bool ok = store_read_group(store, GROUP_SWEEP, tried->group.id, &record) == STORE_OK;
    seen.right = !ok || same_group(&record, &tried->group);
    size_t done = record.done;
    group_record_clear(&record);
    ok = ok && store_list_groups(store, GROUP_SWEEP, &filter, &records, &len) == STORE_OK;
    for (size_t i = 0; ok && i < len; i++) {
        seen.right = seen.right && same_group(&records[i], &tried->group);
        group_record_clear(&records[i]);
    }
    free(records);
    ok = ok && store_each_open_group(store, see_group, &seen) == STORE_OK &&
         store_each_child(store, &all, see_child, &seen) == STORE_OK;
    note(tried, TOLD, ok, seen.right && seen.children == done);
}

static void see_candidate(void *user, const struct child_record *child)
{
    struct seen *seen = user;
    seen->children++;
    seen->right = seen->right && child->number == 0 && child->ended == 1 && child->status == JOB_SUCCEEDED &&
                  child->figures.mean_squared == MEAN && !child->damaged &&
                  strcmp(child->job, seen->tried->candidate.id) == 0;
}

/* The plan's rows in the order of their ends: none, or the one that has ended, with its figures. */
static void read_plan(struct tried *tried, struct store *store)
{
    struct seen seen = {tried, 0, true};
    struct group_record record = {0};
    const struct children_filter ended = {.parent = tried->plan.id, .by_end = true};
    bool ok = store_read_group(store, GROUP_PLAN, tried->plan.id, &record) == STORE_OK;
    seen.right = !ok || (same_text(record.request, tried->plan.request) && strcmp(record.request_id, "brought") == 0);
    size_t done = record.done;
    group_record_clear(&record);
    ok = ok && store_each_child(store, &ended, see_candidate, &seen) == STORE_OK;
    note(tried, FIGURED, ok, seen.right && seen.children == done);
}

/* The waiting children; with only the first of them present. */
static void read_waiting(struct tried *tried, struct store *store)
{
    char(*ids)[UUID_SIZE] = NULL;
    size_t len = 0;
    bool found = false, ok = store_list_open(store, &ids, &len) == STORE_OK;
    for (size_t i = 0; ok && i < len; i++)
        found = found || strcmp(ids[i], tried->done.id) == 0;
    note(tried, WAITING, ok, found == tried->ok[INSERTED]);
    free(ids);
}

static void use(void *user)
{
    struct tried *tried = user;
    char message[256] = "";
    memset(tried->ok, 0, sizeof tried->ok);
    struct store *store = open_store(tried, message, sizeof message);
    tried->ok[OPENED] = store != NULL;
    if (!store) {
        if (!message[0])
            tried->wrong = "not opened, without a reason";
        return;
    }
    tried->ok[INSERTED] = insert(store, &tried->done, tried->done.id);
    read_waiting(tried, store);
    insert(store, &tried->dropped, "");
    struct job_change change;
    job_change_of(&change, &tried->done, NULL);
    change.status = JOB_SUCCEEDED;
    change.version = EPS_ACCOUNTING_VERSION;
    change.finished_at = tried->done.created_at;
    struct store_update update = {.changes = &change,
                                  .changes_len = 1,
                                  .result = tried->result,
                                  .uses = (const uint8_t(*)[32]) & tried->key,
                                  .uses_len = 1};
    tried->ok[ENDED] = store_update_jobs_wait(store, &update) == STORE_OK;
    store_blob_put(store, EPS_CACHE_PLD, tried->key, tried->data, BLOB);
    store_settle(store);
    tried->ok[KEPT] = true;
    read_rows(tried, store);
    tried->ok[DROPPED] = drop(store, tried->dropped.id);
    tried->ok[GROUPED] = insert_group(store, &tried->group);
    tried->ok[FED] = insert_child(store, tried->group.id);
    read_group(tried, store);
    tried->ok[PLANNED] = insert_group(store, &tried->plan);
    tried->ok[TRIED] = insert_candidate(store, tried);
    tried->ok[RANKED] = end_candidate(store, tried);
    read_plan(tried, store);
    tried->ok[COUNTED] = tried->ok[REPAIRED] = true; /* see below */
    store_close(store);
}

/* ------------------------------------------------------------ afterwards */

static void remove_files(const struct tried *tried)
{
    static const char *const tails[] = {"", "-wal", "-shm", "-lock"};
    for (int i = 0; i < 4; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s%s", tried->path, tails[i]);
        unlink(path);
    }
}

static void check_integrity(const struct tried *tried)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *statement = NULL;
    assert_int_equal(sqlite3_open(tried->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    assert_string_equal((const char *)sqlite3_column_text(statement, 0), "ok");
    sqlite3_finalize(statement);
    sqlite3_close(db);
}

static void fail_tried(const char *why)
{
    static char where[8192];
    scarcity_explain(where, sizeof where);
    fail_msg("%s\n%s", why, where);
}

/* The next run uses rows of its own. */
static void forget_rows(struct tried *tried, struct store *store)
{
    drop(store, tried->done.id);
    drop(store, tried->dropped.id);
    drop(store, tried->candidate.id);
    drop_group(store, GROUP_SWEEP, tried->group.id);
    drop_group(store, GROUP_PLAN, tried->plan.id);
    uuid_next(tried->group.id);
    uuid_next(tried->plan.id);
    uuid_next(tried->candidate.id);
    memcpy(tried->candidate.parent, tried->plan.id, UUID_SIZE);
    uuid_next(tried->done.id);
    uuid_next(tried->dropped.id);
}

static void check(void *user, bool struck)
{
    struct tried *tried = user, again = *tried;
    char message[256] = "";
    if (tried->wrong)
        fail_tried(tried->wrong);
    for (int step = 0; step < STEPS; step++)
        if (!tried->ok[step] && !struck)
            fail_tried(step_names[step]);
    struct store *store = open_store(tried, message, sizeof message);
    if (!store)
        fail_tried(message);
    read_rows(&again, store);
    read_group(&again, store);
    read_plan(&again, store);
    if (again.wrong)
        fail_tried(again.wrong);
    if ((tried->ok[INSERTED] && !again.ok[READ]) || (tried->ok[ENDED] && !again.ok[ANSWERED]) ||
        (tried->ok[INSERTED] && !again.ok[REPLAYED]) || !again.ok[LISTED] || (tried->ok[GROUPED] && !again.ok[TOLD]) ||
        (tried->ok[PLANNED] && !again.ok[FIGURED]))
        fail_tried("what was acknowledged is not there");
    forget_rows(tried, store);
    store_close(store);
    check_integrity(tried);
    if (tried->fresh)
        remove_files(tried);
}

/* ------------------------------------------------------------ the tests */

static struct job_record record_new(const char *label, char digit)
{
    struct job_record record = {.status = JOB_QUEUED, .attempts = 0};
    uuid_next(record.id);
    memset(record.hash, digit, HASH_SIZE - 1);
    record.job = strdup("{\"n\":1}");
    record.brief = label ? strdup("{}") : NULL;
    record.label = label ? strdup(label) : NULL;
    record.created_at = clock_now_ms();
    return record;
}

static int set_up(void **state)
{
    struct tried *tried = calloc(1, sizeof *tried);
    assert_non_null(tried);
    /* in memory where that is possible: on a disk this would wait thousands of times */
    snprintf(tried->folder, sizeof tried->folder, "%s/epsilond-store.XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    assert_non_null(mkdtemp(tried->folder));
    snprintf(tried->path, sizeof tried->path, "%s/test.db", tried->folder);
    tried->done = record_new("label", '1');
    tried->dropped = record_new(NULL, '2');
    tried->dropped.status = JOB_CANCELED;
    tried->dropped.finished_at = tried->dropped.created_at;
    tried->group = (struct group_record){
        .total = 2, .created_at = clock_now_ms(), .label = strdup("group"), .request = strdup("{\"base\":{}}")};
    uuid_next(tried->group.id);
    tried->plan = (struct group_record){.kind = GROUP_PLAN,
                                        .total = 2,
                                        .created_at = clock_now_ms(),
                                        .request = strdup("{\"asked\":{},\"candidates\":[]}"),
                                        .request_id = "brought"};
    uuid_next(tried->plan.id);
    tried->candidate = record_new(NULL, '1');
    memcpy(tried->candidate.parent, tried->plan.id, UUID_SIZE);
    tried->result = result_record_create(tried->done.hash);
    assert_non_null(tried->result);
    *tried->result = (struct result_record){.references = 1,
                                            .version = EPS_ACCOUNTING_VERSION,
                                            .finished_at = tried->done.created_at,
                                            .core = strdup("{\"epsilon\":1"),
                                            .cache = strdup("{}"),
                                            .curve = strdup("{\"points\":[]}"),
                                            .points = calloc(POINTS, sizeof *tried->result->points),
                                            .points_len = POINTS,
                                            .figures.mean_squared = MEAN};
    memcpy(tried->result->hash, tried->done.hash, HASH_SIZE);
    memset(tried->key, 7, sizeof tried->key);
    memset(tried->data, 9, sizeof tried->data);
    *state = tried;
    return 0;
}

static int tear_down(void **state)
{
    struct tried *tried = *state;
    remove_files(tried);
    rmdir(tried->folder);
    job_record_clear(&tried->done);
    job_record_clear(&tried->dropped);
    job_record_clear(&tried->candidate);
    group_record_clear(&tried->group);
    group_record_clear(&tried->plan);
    result_record_release(tried->result);
    free(tried);
    return 0;
}

TEST_WITH(a_new_database_is_made_whole_or_not, set_up, tear_down)
{
    struct tried *tried = *state;
    tried->fresh = true;
    size_t struck = scarcity_each(use, check, tried, DEPTH);
    print_message("# %zu runs\n", struck);
    assert_true(struck > 50);
}

TEST_WITH(rows_are_written_whole_or_not, set_up, tear_down)
{
    struct tried *tried = *state;
    size_t struck = scarcity_each(use, check, tried, DEPTH);
    print_message("# %zu runs\n", struck);
    assert_true(struck > 100);
}

/* The database of an earlier version, with one result. */
static void make_older(struct tried *tried)
{
    char message[256];
    sqlite3 *db = NULL;
    struct store *store = open_store(tried, message, sizeof message);
    struct store_update update = {.result = tried->result};
    assert_non_null(store);
    assert_int_equal(store_update_jobs_wait(store, &update), STORE_OK);
    store_close(store);
    assert_int_equal(sqlite3_open(tried->path, &db), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(db,
                     "ALTER TABLE results DROP COLUMN solved_for; ALTER TABLE results DROP COLUMN epsilon;"
                     "ALTER TABLE results DROP COLUMN delta; ALTER TABLE results DROP COLUMN noise_multiplier;"
                     "ALTER TABLE results DROP COLUMN lower; ALTER TABLE results DROP COLUMN upper;"
                     "ALTER TABLE results DROP COLUMN mean_squared; ALTER TABLE results DROP COLUMN accountant;"
                     "ALTER TABLE results DROP COLUMN max_squared; ALTER TABLE results DROP COLUMN last_squared;"
                     "ALTER TABLE results DROP COLUMN factorization;"
                     "ALTER TABLE results DROP COLUMN figures_checksum; DROP INDEX chunks_by_use;"
                     "DROP TABLE name; DROP TABLE owners; DROP TABLE kept; DROP TRIGGER jobs_gone;"
                     "DROP TABLE job_groups; DROP TABLE children; DROP TABLE orphans; DROP INDEX jobs_posted; DROP "
                     "INDEX jobs_posted_by_status; DROP INDEX jobs_by_parent; DROP INDEX jobs_by_label;"
                     "CREATE INDEX jobs_by_label ON jobs (label, id) WHERE label IS NOT NULL;"
                     "DROP INDEX jobs_answered; DROP INDEX idempotency_by_job;"
                     "ALTER TABLE jobs DROP COLUMN parent; ALTER TABLE jobs DROP COLUMN child;"
                     "PRAGMA user_version = 6",
                     NULL, NULL, NULL),
        SQLITE_OK);
    sqlite3_close(db);
}

static void open_older(void *user)
{
    struct tried *tried = user;
    char message[256] = "";
    struct store *store = open_store(tried, message, sizeof message);
    tried->ok[OPENED] = store != NULL;
    if (!store && !message[0])
        tried->wrong = "not opened, without a reason";
    if (store)
        store_close(store);
}

/* The migrated database is correct, or the migration is repeated. */
static void check_older(void *user, bool struck)
{
    struct tried *tried = user;
    struct result_record *read = NULL;
    char message[256] = "";
    if (tried->wrong || (!struck && !tried->ok[OPENED]))
        fail_tried(tried->wrong ? tried->wrong : "open");
    struct store *store = open_store(tried, message, sizeof message);
    assert_non_null(store);
    assert_int_equal(store_read_result(store, tried->done.hash, EPS_ACCOUNTING_VERSION, &read), STORE_OK);
    if (!same_result(read, tried->result) || read->figures.epsilon != 1)
        fail_tried("the figures of the older result");
    result_record_release(read);
    store_close(store);
    remove_files(tried);
    make_older(tried);
}

TEST_WITH(an_older_database_is_migrated_whole_or_not, set_up, tear_down)
{
    make_older(*state);
    size_t struck = scarcity_each(open_older, check_older, *state, DEPTH);
    print_message("# %zu runs\n", struck);
    assert_true(struck > 50);
}

/* A sweep of two points, one of which has failed; its row contradicts that. */
static void make_damaged(struct tried *tried)
{
    char message[256];
    sqlite3 *db = NULL;
    struct store *store = open_store(tried, message, sizeof message);
    assert_non_null(store);
    assert_true(insert_group(store, &tried->group) && insert_child(store, tried->group.id));
    store_close(store);
    assert_int_equal(sqlite3_open(tried->path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "UPDATE job_groups SET done = 2, status = 2", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static bool counted_anew(const struct group_record *record)
{
    return record->damaged && record->status == JOB_RUNNING && record->done == 1 && record->failed == 1 &&
           record->total == 2;
}

static void repair(void *user, const struct group_record *record)
{
    struct tried *tried = user;
    struct group_record again = {0};
    tried->ok[COUNTED] = true;
    if (!counted_anew(record))
        tried->wrong = "counts of an open group";
    tried->ok[REPAIRED] = store_repair_group_wait(tried->store, record) == STORE_OK;
    if (store_read_group(tried->store, GROUP_SWEEP, tried->group.id, &again) == STORE_OK &&
        again.damaged == tried->ok[REPAIRED])
        tried->wrong = "a row after its repair";
    group_record_clear(&again);
}

static void use_damaged(void *user)
{
    struct tried *tried = user;
    char message[256] = "";
    struct group_record record = {0}, *records = NULL;
    size_t len = 0;
    const struct list_filter filter = {.status = JOB_STATUS_COUNT, .limit = 10};
    memset(tried->ok, 0, sizeof tried->ok);
    tried->store = open_store(tried, message, sizeof message);
    if (!tried->store)
        return;
    if (store_read_group(tried->store, GROUP_SWEEP, tried->group.id, &record) == STORE_OK && !counted_anew(&record))
        tried->wrong = "counts";
    group_record_clear(&record);
    if (store_list_groups(tried->store, GROUP_SWEEP, &filter, &records, &len) == STORE_OK) {
        if (len != 1 || !counted_anew(&records[0]))
            tried->wrong = "counts in a list";
        for (size_t i = 0; i < len; i++)
            group_record_clear(&records[i]);
        free(records);
    }
    if (store_each_open_group(tried->store, repair, tried) == STORE_OK && !tried->ok[COUNTED])
        tried->wrong = "an open group that was passed over";
    store_close(tried->store);
}

static void check_damaged(void *user, bool struck)
{
    struct tried *tried = user;
    if (tried->wrong || (!struck && !tried->ok[REPAIRED]))
        fail_tried(tried->wrong ? tried->wrong : "repair");
    remove_files(tried);
    make_damaged(tried);
}

TEST_WITH(a_damaged_group_is_counted_anew_or_not, set_up, tear_down)
{
    make_damaged(*state);
    size_t struck = scarcity_each(use_damaged, check_damaged, *state, DEPTH);
    print_message("# %zu runs\n", struck);
    assert_true(struck > 50);
}

static void copy(void *user)
{
    struct tried *tried = user;
    struct result_record *copied = result_record_copy(tried->result);
    tried->ok[ANSWERED] = copied != NULL;
    if (copied && (!same_text(copied->core, tried->result->core) || !same_text(copied->cache, tried->result->cache) ||
                   !same_text(copied->curve, tried->result->curve)))
        tried->wrong = "copy";
    result_record_release(copied);
}

static void check_copy(void *user, bool struck)
{
    const struct tried *tried = user;
    assert_null(tried->wrong);
    assert_int_equal(tried->ok[ANSWERED], !struck);
}

TEST_WITH(a_result_is_copied_whole_or_not, set_up, tear_down)
{
    assert_true(scarcity_each(copy, check_copy, *state, SCARCITY_WHOLE) >= 8);
}

static const struct scarcity_exception exceptions[] = {
    {"server/store/sweep.c", "calloc(1, sizeof *sweep)",
     "the writer sweeps when a second has passed, and then tries again"},
};

TEST(every_line_that_asks_for_memory_was_struck)
{
    size_t total = 0;
    assert_int_equal(scarcity_unstruck("server/store", exceptions, sizeof exceptions / sizeof *exceptions, &total), 0);
    assert_true(total > 10);
}

BEFORE_TESTS
{
    log_start(LOG_LEVEL_ERROR + 1);
    scarcity_hook_sqlite();
}
