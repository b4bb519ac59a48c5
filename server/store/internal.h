/*
 * What the files of server/store/ share: connections with their prepared statements, and the writer's state.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_STORE_INTERNAL_H
#define SERVER_STORE_INTERNAL_H

#include <math.h>
#include <pthread.h>
#include <sqlite3.h>

#include "server/store/store.h"

/* Statements are prepared on first use and kept for the life of their connection. */
enum store_sql {
    SQL_BEGIN,
    SQL_COMMIT,
    SQL_ROLLBACK,
    SQL_PROBE,
    SQL_PAGES,
    SQL_PAGES_FREE,
    SQL_PAGE_SIZE,
    SQL_JOB_INSERT,
    SQL_JOB_UPDATE,
    SQL_JOB_DELETE,
    SQL_JOB_READ,
    SQL_JOB_LIST,
    SQL_JOB_LIST_STATUS,
    SQL_JOB_LIST_LABEL,
    SQL_JOB_LIST_BOTH,
    SQL_JOB_OPEN,
    SQL_JOB_EXPIRE,
    SQL_JOB_REPLACE,
    SQL_JOB_ORPHAN,
    SQL_JOB_PARENT,
    SQL_GROUP_INSERT,
    SQL_GROUP_START,
    SQL_GROUP_COUNT,
    SQL_GROUP_END,
    SQL_GROUP_CANCEL,
    SQL_GROUP_REPAIR,
    SQL_GROUP_DELETE,
    SQL_GROUP_READ,
    SQL_GROUP_LIST,
    SQL_GROUP_LIST_STATUS,
    SQL_GROUP_LIST_LABEL,
    SQL_GROUP_LIST_BOTH,
    SQL_GROUP_OPEN,
    SQL_GROUP_EXPIRE,
    SQL_CHILD_INSERT,
    SQL_CHILD_END,
    SQL_CHILD_DELETE,
    SQL_CHILD_ORPHAN,
    SQL_ORPHANS_GONE,
    SQL_CHILD_LIST,
    SQL_CHILD_ENDED,
    SQL_RESULT_PUT,
    SQL_RESULT_READ,
    SQL_RESULT_PRESENT,
    SQL_RESULT_EXPIRE,
    SQL_USE_PUT,
    SQL_USE_EXPIRE,
    SQL_KEY_READ,
    SQL_KEY_PUT,
    SQL_KEY_EXPIRE,
    SQL_KEY_GONE,
    SQL_BLOB_PUT,
    SQL_BLOB_READ,
    SQL_BLOB_TOUCH,
    SQL_BLOB_DROP,
    SQL_BLOB_EVICT,
    SQL_BLOB_TOTAL,
    SQL_BLOB_OLDEST,
    SQL_CHUNK_OLDEST,
    SQL_BLOB_OUTDATED,
    SQL_COUNT
};

/* What shares a bound in bytes. */
enum store_shelf {
    STORE_SHELF_BLOBS, /* factorisations and PLDs */
    STORE_SHELF_CHUNKS,
    STORE_SHELVES
};

struct store_connection {
    sqlite3 *db;
    sqlite3_stmt *statements[SQL_COUNT];
    struct store_connection *next;
};

struct store {
    struct owner *owner;
    const char *path; /* as the owner has it */
    struct store_options options;
    pthread_mutex_t readers_mutex;
    struct store_connection *readers; /* idle ones */
    struct store_connection *writer;  /* the writer thread's; others only before it starts */
    pthread_t thread;
    bool thread_started;
    pthread_mutex_t mutex; /* guards the queue */
    pthread_cond_t arrived;
    struct store_write *first;
    struct store_write **last;
    struct store_write *held; /* writes that failed and must not; the writer thread's, as is the end of the list */
    struct store_write **held_last;
    atomic_size_t held_len;
    _Atomic double busy_since; /* monotonic seconds of the batch that is being written; 0: none is */
    bool stopping;
    atomic_uint_fast64_t changes;      /* transactions that ended, well or not */
    int64_t blob_bytes[STORE_SHELVES]; /* kept; the writer thread's, as are the next two */
    int wal_pages;                     /* in the log, as of the last commit */
    int wal_bound;                     /* at so many pages the log goes into the database */
    atomic_uint_fast64_t pending;      /* bytes of blobs that wait for the writer */
    atomic_uint_fast64_t bytes;        /* of the database, as measured last */
    double measure_at;                 /* the writer thread's: monotonic seconds of the next time */
};

struct store_connection *store__connect(const char *path, bool read_only, char *message, size_t message_size);
void store__disconnect(struct store_connection *connection);
struct store_connection *store__reader_take(struct store *store);
void store__reader_give(struct store *store, struct store_connection *connection);

/* The statement, reset and unbound; NULL (logged) if it does not prepare. */
sqlite3_stmt *store__statement(struct store_connection *connection, enum store_sql sql);
const char *store__sql(enum store_sql sql);
/* Makes the function known that statements.c compares rows by. */
bool store__digest_register(sqlite3 *db);
/* Makes the function known that migrations read old results by. */
bool store__figure_register(sqlite3 *db);
/* Binds the figures that are kept, or those that are listed, to the parameters that are named like their columns. The
 * statement borrows them. */
void store__bind_figures(sqlite3_stmt *statement, const struct api_figures *figures, bool listed);
/* Reads them from consecutive columns in the order of the table. Figures that have no column here are absent. */
void store__read_figures(struct api_figures *figures, sqlite3_stmt *row, int first, bool listed);
/* Steps a statement that returns no row, and resets it. */
enum store_status store__run(struct store_connection *connection, sqlite3_stmt *statement);
/* Logs and counts a row that fails its digest and returns STORE_CORRUPT. */
enum store_status store__damaged(const char *table, const char *key);
/* Logs SQLite's complaint and returns STORE_FAILED. */
enum store_status store__complain(struct store_connection *connection, const char *what);

/* Brings the schema up to date, if that is allowed. False with a message. */
bool store__migrate(struct store_connection *connection, bool allowed, char *message, size_t message_size);

void *store__writer_main(void *store);
/* Removes what has expired; inside a transaction. */
enum store_status store__sweep(struct store *store);
enum store_status store__result_put(struct store *store, const struct store_update *update);
/* Within the writer's transaction: takes a free key for what `id` names. STORE_OK: key->use says whether it was free. */
enum store_status store__key_take(struct store *store, struct store_key *key, const char *id, int64_t created_at);
/* Within the writer's transaction: what was posted under that id is gone, and so is its key. */
enum store_status store__key_gone(struct store *store, const char *id);
/* STORE_OK or STORE_NONE, within the writer's transaction. */
enum store_status store__result_present(struct store *store, const char *hash, int version);
/* Within the writer's transaction: a new row of jobs, which waits where the result that it names has gone. */
enum store_status store__job_put(struct store *store, const struct job_record *record, bool *unanswered);
/* Within the writer's transaction: if the job is a child, its row is final too, with what answered it (or NULL). */
enum store_status store__child_end(struct store *store, const struct job_change *change,
                                   const struct api_figures *figures);
/* The group of that job is canceled: it stays so, whatever its last children come to. */
enum store_status store__group_cancel(struct store *store, const char *job);
/* Makes room for `incoming` bytes; STORE_NONE: there is none. */
enum store_status store__evict(struct store *store, enum store_shelf shelf, int64_t incoming);
/* Drops blobs of other accounting versions, if no one else has the database, and counts the rest. */
void store__blob_prepare(struct store *store);
/* Sets the gauges of what is kept. */
void store__blob_tell(const struct store *store);

/* Measures the database, if it was not just done; outside of transactions. */
void store__measure(struct store *store);

/* NULL for NULL; the text stays the caller's. */
static inline void store__bind_text(sqlite3_stmt *statement, int index, const char *text)
{
    if (text) {
        sqlite3_bind_text(statement, index, text, -1, SQLITE_STATIC);
    }
}

/* NULL for 0. */
static inline void store__bind_time(sqlite3_stmt *statement, int index, int64_t ms)
{
    if (ms) {
        sqlite3_bind_int64(statement, index, ms);
    }
}

/* NULL where it is not finite. SQLite keeps no -0, which a digest would tell from 0. */
static inline void store__bind_number(sqlite3_stmt *statement, int index, double number)
{
    if (isfinite(number)) {
        sqlite3_bind_double(statement, index, number + 0.0);
    }
}

static inline double store__column_number(sqlite3_stmt *row, int column)
{
    return sqlite3_column_type(row, column) == SQLITE_NULL ? NAN : sqlite3_column_double(row, column);
}

/* A comparison with a digest that came out wrong; NULL is a row that has none. */
static inline bool store__is_false(sqlite3_stmt *row, int column)
{
    return sqlite3_column_type(row, column) == SQLITE_INTEGER && sqlite3_column_int(row, column) == 0;
}

/* A copy; NULL for NULL, or with *failed without memory. */
char *store__column_text(sqlite3_stmt *statement, int column, bool *failed);

#endif
