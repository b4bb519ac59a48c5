/*
 * Shared by the files of server/store/: connections with their prepared statements, and the state of the writer.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_STORE_INTERNAL_H
#define SERVER_STORE_INTERNAL_H

#include <math.h>
#include <pthread.h>
#include <sqlite3.h>

#include "server/store/store.h"

/* Statements are prepared on first use and kept until their connection is closed. */
enum store_sql {
    SQL_BEGIN,
    SQL_COMMIT,
    SQL_ROLLBACK,
    SQL_PROBE,
    SQL_NAME,
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
    SQL_JOB_ANSWERED,
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
    SQL_OWNER_PUT,
    SQL_OWNER_READ,
    SQL_KEPT_READ,
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

/* Blobs that share a limit in bytes. */
enum store_shelf {
    STORE_SHELF_BLOBS, /* factorisations and PLDs */
    STORE_SHELF_CHUNKS,
    STORE_SHELVES
};

struct store_connection {
    sqlite3 *db;
    sqlite3_stmt *statements[SQL_COUNT];
    struct store_connection *next;
    double taken; /* monotonic seconds: of a reader, since when it is in use */
};

struct checkpointer;
struct scrubber;

struct store {
    struct owner *owner;
    const char *path; /* as given by the owner */
    struct store_options options;
    pthread_mutex_t readers_mutex;
    struct store_connection *readers; /* idle connections */
    struct scrubber *scrubber;        /* NULL: none */
    struct checkpointer *checkpointer;
    struct store_connection *writer; /* belongs to the writer thread; used by others only before it starts */
    pthread_t thread;
    bool thread_started;
    pthread_mutex_t mutex; /* protects the queue */
    pthread_cond_t arrived;
    struct store_write *first;
    struct store_write **last;
    struct store_write *held; /* failed writes to retry; like the tail of the list, the writer thread's */
    struct store_write **held_last;
    atomic_size_t held_len;
    _Atomic double busy_since; /* monotonic seconds at which the current batch was started; 0: there is none */
    bool stopping;
    atomic_uint_fast64_t changes;      /* transactions that ended, successfully or not */
    int64_t blob_bytes[STORE_SHELVES]; /* stored; belongs to the writer thread, like the next two */
    int wal_pages;                     /* pages in the log after the last commit */
    int wal_kept;                      /* of them, those that readers kept in the log at the last checkpoint */
    atomic_uint_fast64_t pending;      /* bytes of blobs queued to the writer */
    atomic_uint_fast64_t bytes;        /* size of the database at the last measurement */
    atomic_int_fast64_t offset;        /* ms: the time of day less the monotonic one, as believed */
    double jumped_at;                  /* monotonic ms when the clock was first found further ahead; INFINITY: never */
    double measure_at;                 /* of the next measurement in monotonic seconds; belongs to the writer thread */
};

struct store_connection *store__connect(const char *path, bool read_only, char *message, size_t message_size);
void store__disconnect(struct store_connection *connection);
/* A connection for reading, which is given back after what is read at a time; NULL (logged): it cannot be opened. */
struct store_connection *store__reader_take(struct store *store);
void store__reader_give(struct store *store, struct store_connection *connection);

/* The statement, reset and without bindings; NULL (logged) if it cannot be prepared. */
sqlite3_stmt *store__statement(struct store_connection *connection, enum store_sql sql);
const char *store__sql(enum store_sql sql);
/* Registers the function with which statements.c checks rows. */
bool store__digest_register(sqlite3 *db);
/* Registers the function with which migrations read old results. */
bool store__figure_register(sqlite3 *db);
/* Binds the kept figures, or only the listed ones, to the parameters with the names of their columns. The statement
 * borrows the figures. */
void store__bind_figures(sqlite3_stmt *statement, const struct api_figures *figures, bool listed);
/* Reads these figures from consecutive columns in the order of the table. The others become absent. */
void store__read_figures(struct api_figures *figures, sqlite3_stmt *row, int first, bool listed);
/* Steps a statement that returns no row, and resets it. */
enum store_status store__run(struct store_connection *connection, sqlite3_stmt *statement);
/* Whether a statement has returned its last row, by the code of its last step; an error is logged and counted, but that
 * of preparing it (NULL) was before. Call before it is reset. */
bool store__read_all(struct store_connection *connection, sqlite3_stmt *statement, int code, const char *what);
/* Logs and counts a row whose digest is wrong, and returns STORE_CORRUPT. */
enum store_status store__damaged(const char *table, const char *key);
/* Logs the error message of SQLite and returns STORE_FAILED. */
enum store_status store__complain(struct store_connection *connection, const char *what);

/* Applies missing migrations, if that is allowed. Returns false with a message. */
bool store__migrate(struct store_connection *connection, bool allowed, char *message, size_t message_size);

/* The number of the last migration, which is that of the schema. */
int store__schema_newest(void);

void *store__writer_main(void *store);
/* The time by which things expire, in ms, is the time of day except for jumps. alive: when a service last was. */
void store__time_begin(struct store *store, int64_t alive);
/* Notices jumps; call often. On the writer thread, or before it starts. */
void store__time_look(struct store *store);
int64_t store__time(struct store *store);
/* Deletes a portion of what has expired, in a transaction of its own. Returns whether more may be left. */
bool store__sweep(struct store *store);
enum store_status store__result_put(struct store *store, const struct store_update *update);
/* What is posted: a row, and the bytes that it counts for. */
struct store_posted {
    const char *id;
    int64_t created_at;
    const struct poster *poster;
    uint64_t bytes;
};
/* In a transaction of the writer: records who posts the resource, unless it is posted without a key, and that its
 * idempotency key refers to it. If the result is STORE_OK and that key was not free, or the allowance is exceeded,
 * nothing was recorded, and the resource must not be inserted. */
enum store_status store__post(struct store *store, struct store_key *key, struct store_allowance *allowance,
                              const struct store_posted *posted);
/* Reads the poster of a row from two columns: the key and the group. */
void store__read_poster(struct poster *poster, sqlite3_stmt *row, int first);
/* In a transaction of the writer: deletes the key of a resource that was deleted. */
enum store_status store__key_gone(struct store *store, const char *id);
/* STORE_OK or STORE_NONE, in a transaction of the writer. */
enum store_status store__result_present(struct store *store, const char *hash, int version);
/* In a transaction of the writer: inserts a job. It is inserted as waiting if the result that it refers to has been
 * deleted. */
enum store_status store__job_put(struct store *store, const struct job_record *record, bool *unanswered);
/* In a transaction of the writer: if the job is a child, ends its row too, with the result that answered it (or
 * NULL). */
enum store_status store__child_end(struct store *store, const struct job_change *change,
                                   const struct api_figures *figures);
/* Marks the group of that job as canceled; it stays so, whatever the outcome of its last children. */
enum store_status store__group_cancel(struct store *store, const char *job);
/* Makes room for `incoming` bytes. STORE_NONE: there is none. */
enum store_status store__evict(struct store *store, enum store_shelf shelf, int64_t incoming);
/* Deletes blobs of other accounting versions, if no other process uses the database, and counts the rest. */
void store__blob_prepare(struct store *store);
/* Updates the gauges of stored bytes. */
void store__blob_tell(const struct store *store);

/* Reads the database every so many seconds, which are more than 0. path: borrowed. NULL: out of memory or threads. */
struct scrubber *store__scrubber_create(const char *path, double seconds);
/* A scrub in progress ends, without a verdict. NULL is allowed, as below. */
void store__scrubber_interrupt(struct scrubber *scrubber);
void store__scrubber_destroy(struct scrubber *scrubber);
/* What was found; NULL: nothing. */
const char *store__scrubber_damage(const struct scrubber *scrubber);

/* The thread that copies the log to the database. NULL: the message says why. */
struct checkpointer *store__checkpointer_create(const char *path, char *message, size_t message_size);
/* Call after the writer has ended. NULL is allowed. */
void store__checkpointer_destroy(struct checkpointer *checkpointer);
/* Begins a checkpoint if the log is long, or ends it. The writer calls this after a batch whose writes have been
 * reported, so that no client waits for it. If readers prevent that the log starts again, it is tried again when the
 * log has grown by the same amount. */
void store__checkpoint(struct store *store);

/* Measures the size of the database, unless it was just measured. Call outside a transaction. */
void store__measure(struct store *store);

/* NULL for NULL; the caller owns the text. */
static inline void store__bind_text(sqlite3_stmt *statement, int index, const char *text)
{
    if (text)
        sqlite3_bind_text(statement, index, text, -1, SQLITE_STATIC);
}

/* NULL for 0. */
static inline void store__bind_time(sqlite3_stmt *statement, int index, int64_t ms)
{
    if (ms)
        sqlite3_bind_int64(statement, index, ms);
}

/* NULL if the number is not finite. SQLite stores no -0, which has another digest than 0. */
static inline void store__bind_number(sqlite3_stmt *statement, int index, double number)
{
    if (isfinite(number))
        sqlite3_bind_double(statement, index, number + 0.0);
}

static inline double store__column_number(sqlite3_stmt *row, int column)
{
    return sqlite3_column_type(row, column) == SQLITE_NULL ? NAN : sqlite3_column_double(row, column);
}

/* Whether a digest did not match; NULL means that the row has no digest. */
static inline bool store__is_false(sqlite3_stmt *row, int column)
{
    return sqlite3_column_type(row, column) == SQLITE_INTEGER && sqlite3_column_int(row, column) == 0;
}

/* A copy; NULL for NULL, or with *failed set if memory runs out. */
char *store__column_text(sqlite3_stmt *statement, int column, bool *failed);

#endif
