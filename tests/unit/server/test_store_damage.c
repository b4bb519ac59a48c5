/*
 * Whatever is changed in a row of the store is noticed.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/store/store.h"
#include "tests/unit/opened_store.h"
#include "tests/unit/test.h"
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
                 "DROP TABLE name; DROP TABLE owners; DROP TABLE kept; DROP TRIGGER jobs_gone;"
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
