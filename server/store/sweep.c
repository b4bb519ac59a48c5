/*
 * Deletes what has expired: finished jobs and groups after --keep, the children of deleted groups, results of the same
 * age that no job refers to, and idempotency keys after a day. It works in small portions, so that commits of clients
 * do not wait long, and as many of them as there is work for.
 *
 * A clock that jumps ahead, or that is far ahead when the service starts, is not believed for a day: an operator can
 * set it right before everything has expired.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "server/ops/clock.h"
#include "server/ops/log.h"
#include "server/store/internal.h"

#define PORTION 500
#define DAY_MS (24 * INT64_C(3600000))
#define ORPHAN_DAYS 30 /* for results, if jobs are kept forever */
#define JUMP_MS DAY_MS /* ahead of what has passed: more than that is a jump */
#define HELD_MS DAY_MS /* that a jump is not believed */

struct sweep {
    char ids[PORTION][UUID_SIZE]; /* of jobs */
    size_t len;
    char hashes[PORTION][HASH_SIZE]; /* of results of this accounting version */
    size_t hashes_len;
    bool full; /* some of what has expired is left for the next portion */
};

/* ---------------------------------------------------------------- the time */

void store__time_begin(struct store *store, int64_t alive)
{
    int64_t now = clock_now_ms();
    atomic_store(&store->offset, (alive > 0 && alive < now ? alive : now) - (int64_t)(clock_monotonic() * 1000));
    store->jumped_at = INFINITY;
    store__time_look(store);
}

void store__time_look(struct store *store)
{
    double monotonic = clock_monotonic() * 1000;
    int64_t offset = clock_now_ms() - (int64_t)monotonic, jump = offset - atomic_load(&store->offset);
    bool first = isinf(store->jumped_at);
    if (jump <= JUMP_MS || (!first && monotonic - store->jumped_at >= HELD_MS)) {
        atomic_store(&store->offset, offset);
        store->jumped_at = INFINITY;
    } else if (first) {
        store->jumped_at = monotonic;
        log_event(LOG_LEVEL_WARN, "clock", "days_ahead=%lld detail=\"nothing expires for a day; is the clock right?\"",
                  (long long)(jump / DAY_MS));
    }
}

/* The clock may have jumped since it was looked at. */
int64_t store__time(struct store *store)
{
    int64_t now = clock_now_ms(), believed = (int64_t)(clock_monotonic() * 1000) + atomic_load(&store->offset);
    return now - believed > JUMP_MS ? believed : now;
}

/* ---------------------------------------------------------------- what has expired */

/* Deletes the rows and records their ids. */
static enum store_status take_jobs(struct store *store, struct sweep *sweep, sqlite3_stmt *statement)
{
    int code;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW && sweep->len < PORTION) {
        const char *id = (const char *)sqlite3_column_text(statement, 0);
        if (id && strlen(id) == UUID_SIZE - 1)
            memcpy(sweep->ids[sweep->len++], id, UUID_SIZE);
    }
    enum store_status status = code == SQLITE_DONE ? STORE_OK : store__complain(store->writer, "expire jobs");
    sqlite3_reset(statement);
    return status;
}

static enum store_status sweep_jobs(struct store *store, struct sweep *sweep, int64_t before)
{
    char floor[UUID_SIZE];
    sqlite3_stmt *statement = store__statement(store->writer, SQL_JOB_EXPIRE);
    if (!statement)
        return STORE_FAILED;
    uuid_floor(floor, before);
    sqlite3_bind_text(statement, 1, floor, -1, SQLITE_STATIC);
    sqlite3_bind_int64(statement, 2, before);
    sqlite3_bind_int(statement, 3, PORTION);
    return take_jobs(store, sweep, statement);
}

/* Runs the statement; if it deletes `most` rows or more, others may be left. */
static enum store_status delete_rows(struct store *store, struct sweep *sweep, sqlite3_stmt *statement, int most)
{
    enum store_status status = statement ? store__run(store->writer, statement) : STORE_FAILED;
    sweep->full = sweep->full || (status == STORE_OK && sqlite3_changes(store->writer->db) >= most);
    return status;
}

static enum store_status sweep_groups(struct store *store, struct sweep *sweep, int64_t before)
{
    char floor[UUID_SIZE];
    sqlite3_stmt *statement = store__statement(store->writer, SQL_GROUP_EXPIRE);
    uuid_floor(floor, before);
    if (statement) {
        sqlite3_bind_text(statement, 1, floor, -1, SQLITE_STATIC);
        sqlite3_bind_int64(statement, 2, before);
        sqlite3_bind_int(statement, 3, PORTION);
    }
    return delete_rows(store, sweep, statement, PORTION);
}

static enum store_status sweep_keys(struct store *store, struct sweep *sweep, int64_t before)
{
    sqlite3_stmt *statement = store__statement(store->writer, SQL_KEY_EXPIRE);
    if (statement) {
        sqlite3_bind_int64(statement, 1, before);
        sqlite3_bind_int(statement, 2, PORTION);
    }
    return delete_rows(store, sweep, statement, PORTION);
}

static enum store_status sweep_uses(struct store *store)
{
    sqlite3_stmt *statement = store__statement(store->writer, SQL_USE_EXPIRE);
    return statement ? store__run(store->writer, statement) : STORE_FAILED;
}

/* Deletes what deleted groups left behind: the children of one of them, and a portion of jobs. */
static enum store_status sweep_orphans(struct store *store, struct sweep *sweep)
{
    sqlite3_stmt *gone = store__statement(store->writer, SQL_ORPHANS_GONE);
    if (delete_rows(store, sweep, store__statement(store->writer, SQL_CHILD_ORPHAN), 1) != STORE_OK || !gone ||
        store__run(store->writer, gone) != STORE_OK)
        return STORE_FAILED;
    sqlite3_stmt *jobs = store__statement(store->writer, SQL_JOB_ORPHAN);
    if (!jobs)
        return STORE_FAILED;
    sqlite3_bind_int(jobs, 1, PORTION - (int)sweep->len);
    return take_jobs(store, sweep, jobs);
}

static enum store_status sweep_results(struct store *store, struct sweep *sweep, int64_t before)
{
    sqlite3_stmt *statement = store__statement(store->writer, SQL_RESULT_EXPIRE);
    if (!statement)
        return STORE_FAILED;
    sqlite3_bind_int64(statement, 1, before);
    sqlite3_bind_int(statement, 2, PORTION);
    int code;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW && sweep->hashes_len < PORTION) {
        const char *hash = (const char *)sqlite3_column_text(statement, 0);
        if (hash && strlen(hash) == HASH_SIZE - 1)
            memcpy(sweep->hashes[sweep->hashes_len++], hash, HASH_SIZE);
    }
    enum store_status status = code == SQLITE_DONE ? STORE_OK : store__complain(store->writer, "expire results");
    sqlite3_reset(statement);
    return status;
}

static bool sweep_all(struct store *store, struct sweep *sweep)
{
    store__time_look(store);
    int64_t now = store__time(store);
    double keep = store->options.keep_seconds * 1000;
    int64_t orphans = keep > 0 ? now - (int64_t)keep : now - ORPHAN_DAYS * DAY_MS;
    int64_t kept = now - (int64_t)keep;
    return (!(keep > 0) ||
            (sweep_jobs(store, sweep, kept) == STORE_OK && sweep_groups(store, sweep, kept) == STORE_OK)) &&
           sweep_orphans(store, sweep) == STORE_OK && sweep_results(store, sweep, orphans) == STORE_OK &&
           sweep_uses(store) == STORE_OK && sweep_keys(store, sweep, now - DAY_MS) == STORE_OK;
}

/* After the commit, when readers no longer find the rows. */
static void tell(const struct store *store, const struct sweep *sweep)
{
    const struct store_options *options = &store->options;
    for (size_t i = 0; i < sweep->len && options->expired; i++)
        options->expired(options->user, sweep->ids[i]);
    for (size_t i = 0; i < sweep->hashes_len && options->result_expired; i++)
        options->result_expired(options->user, sweep->hashes[i]);
    if (sweep->len)
        log_event(LOG_LEVEL_INFO, "expired", "jobs=%zu", sweep->len);
}

bool store__sweep(struct store *store)
{
    struct sweep *sweep = calloc(1, sizeof *sweep);
    sqlite3_stmt *begin = sweep ? store__statement(store->writer, SQL_BEGIN) : NULL;
    if (!begin || store__run(store->writer, begin) != STORE_OK) {
        free(sweep);
        return false;
    }
    sqlite3_stmt *commit = sweep_all(store, sweep) ? store__statement(store->writer, SQL_COMMIT) : NULL;
    bool done = commit && store__run(store->writer, commit) == STORE_OK;
    if (done)
        tell(store, sweep);
    else if (!sqlite3_get_autocommit(store->writer->db))
        sqlite3_exec(store->writer->db, "ROLLBACK", NULL, NULL, NULL);
    bool full = done && (sweep->full || sweep->len == PORTION || sweep->hashes_len == PORTION);
    free(sweep);
    return full;
}
