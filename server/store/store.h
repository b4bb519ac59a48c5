/*
 * The database: SQLite in WAL mode with synchronous=FULL. All SQL of the service is in this directory and in
 * migrations/.
 *
 * Reads use a pool of read-only connections, on the calling thread. Writes are queued to ONE writer thread, which
 * applies all that are waiting in one transaction and reports each only after its commit is on the disk. Writes are
 * applied in the order in which they were submitted. Thread-safe.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_STORE_STORE_H
#define SERVER_STORE_STORE_H

#include "server/ops/quota.h"
#include "server/store/owner.h"
#include "server/store/records.h"

struct store;
struct sqlite3;

enum store_status {
    STORE_OK,
    STORE_NONE,    /* no such row */
    STORE_CORRUPT, /* the row fails its checksum */
    STORE_FAILED   /* an error of SQLite or memory; logged */
};

struct store_options {
    const char *path;
    bool guest;           /* next to a service that may own the database: no jobs, and nothing is deleted */
    uint64_t cache_bytes; /* limit on factorisations and PLDs */
    uint64_t chunk_bytes; /* limit on chunks of draws */
    uint64_t max_bytes;   /* limit on the database; 0: none */
    double keep_seconds;  /* for finished jobs; 0: forever */
    double scrub_seconds; /* between two searches for damage; 0: none */
    /* Called on the writer thread for each job that expired, and for each result of this accounting version; may be
     * NULL. */
    void (*expired)(void *user, const char *id);
    void (*result_expired)(void *user, const char *hash);
    void *user;
};

/* Claims and opens the database, applies missing migrations (a guest next to a service fails if there are any), and
 * starts the writer. Returns NULL with a message. */
struct store *store_open(const struct store_options *options, char *message, size_t message_size);
/* Whether a file cannot be written because its disk is full, judging by the message of SQLite and an attempt; the
 * message then says so. detail: the message of SQLite; NULL: unknown. */
bool store_disk_full(const char *path, const char *detail, char *message, size_t message_size);
/* Applies the queued writes and closes. NULL is allowed. */
void store_close(struct store *store);
/* How the last service that owned the database ended. */
struct owner_past store_past(const struct store *store);
/* The name that the database was given when it was created: 32 hex digits. Returns false if it cannot be read. */
bool store_name(struct store *store, char name[33]);
/* Call when the past has been handled: from now on a crash belongs to this process and is attributed to its
 * computations. */
void store_begin(struct store *store);
/* This process was asked to stop: however it ends, that is not a crash. */
void store_stop(struct store *store);
/* Waits until everything submitted before has been committed or has failed. */
void store_settle(struct store *store);
/* The reason why the database cannot be written, if it is known without an attempt; NULL: none. */
const char *store_trouble(struct store *store);
/* The damage that was found by reading the whole database: rows may be missing. NULL: none is known. */
const char *store_damage(const struct store *store);
/* Copies a database, which need not be open in this process and may be written meanwhile, to a file that must not
 * exist: either the copy is complete or there is none. stop() is called from time to time and may end the copy. Returns
 * the number of jobs, or -1 with a message. */
int64_t store_backup(const char *database, const char *file, bool (*stop)(void), char *message, size_t message_size);
/* What can be seen of a database without changing it. */
struct store_facts {
    bool exists;               /* otherwise all others but schema_newest are 0 */
    int schema, schema_newest; /* its own, which is 0 if it is empty, and the one that this build writes */
    char damage[200];          /* the first thing that SQLite finds; "": nothing */
    int64_t bytes, log_bytes;  /* of the file, and of its log */
    int64_t jobs;              /* 0 if it is damaged or its schema is newer, like the next one */
    int64_t newest_ms;         /* when the newest one was created; 0: there is none */
};
/* Reads the whole database. Returns false with a message if it cannot be read or must not be used. */
bool store_examine(const char *path, struct store_facts *facts, char *message, size_t message_size);
/* Whether the database has reached its limit: new jobs are rejected, accepted ones end normally. */
bool store_full(struct store *store);

/* ---------------------------------------------------------------- writes */

/*
 * A write: embed it as the first member. apply() runs inside a transaction and may run again after a rollback. done()
 * runs after the commit (or the final failure), owns the write, and must not block. Both run on the writer thread.
 */
struct store_write {
    enum store_status (*apply)(struct store *store, struct store_write *write);
    void (*done)(struct store_write *write, enum store_status status);
    /* NULL: done() is called if the write fails. Otherwise the write is held and retried every second until it succeeds
     * or the store closes; this function is called on its first failure. */
    void (*held)(struct store_write *write);
    bool is_held; /* private, like the next two */
    struct store_write *next;
    enum store_status status;
};

void store_submit(struct store *store, struct store_write *write);
/* Submits and waits; sets done(). The write may be on the stack. Not on the writer thread. */
enum store_status store_submit_wait(struct store *store, struct store_write *write);

/* Writes a row that nothing depends on, to test whether writes succeed. */
void store_probe(struct store *store, struct store_write *write);

#define IDEMPOTENCY_KEY_MAX 255

/* The state of a key. */
enum key_use {
    KEY_FREE,     /* unused, or there is no key */
    KEY_REPLAYED, /* used with the same request, which created the resource with the id */
    KEY_CONFLICT, /* used with another request */
    KEY_DAMAGED   /* the stored key fails its checksum */
};

/* The key with which a resource is posted. It is kept for a day. */
struct store_key {
    char owner[OWNER_SIZE];             /* the group of the client, whose keys share their idempotency keys */
    char text[IDEMPOTENCY_KEY_MAX + 1]; /* "": none */
    char request[HASH_SIZE];            /* see store_key_request() */
    /* Out. */
    enum key_use use;
    char id[UUID_SIZE]; /* KEY_REPLAYED */
};

/* Two requests are the same if the hashes of their canonical forms and their labels (NULL: none) are equal. */
void store_key_request(struct store_key *key, const char *hash, const char *label);

#define STORE_REPLACED 32 /* at a time: finding them takes longer than deleting them */

/* The bytes that a key may keep; what is inserted counts job_record_kept() or group_record_kept(). */
struct store_allowance {
    uint64_t most; /* 0: unlimited */
    /* Out. */
    bool exceeded; /* so nothing was inserted (STORE_OK) */
    uint64_t kept; /* before */
};
/* How the client is told. */
struct quota_refusal store_allowance_refusal(const struct store_allowance *allowance);

/* A new job, with its idempotency key in the same transaction. A job that is answered from the cache needs no
 * computation, so the number of stored ones is limited per job: the oldest are deleted with their keys. */
struct store_insert {
    struct store_write write;
    const struct job_record *record; /* borrowed until done() */
    struct store_key key; /* if it was not free, nothing was inserted (STORE_OK; STORE_CORRUPT if it is damaged) */
    struct store_allowance allowance; /* of the key that posts it */
    /* Output: the record says that it is answered, but its result has been deleted meanwhile. It was inserted as
     * waiting. */
    bool unanswered;
    char replaced[STORE_REPLACED][UUID_SIZE]; /* ids of the deleted records */
    size_t replaced_len;
};
void store_insert_job(struct store *store, struct store_insert *insert);

/* A new group, with its idempotency key in the same transaction. */
struct store_group_insert {
    struct store_write write;
    const struct group_record *record; /* borrowed until done() */
    struct store_key key;              /* as in struct store_insert */
    struct store_allowance allowance;  /* too */
};
void store_insert_group(struct store *store, struct store_group_insert *insert);

/*
 * A child whose turn has come, with its job, if it has one, in the same transaction. It is final if its job is final or
 * if it has none; otherwise its end is written with that of its job.
 */
struct store_child_insert {
    struct store_write write;
    char parent[UUID_SIZE];
    size_t number;
    const struct job_record *record;    /* borrowed until done(); or NULL */
    const struct result_record *result; /* the result that answered the job; or NULL */
    enum job_status status;             /* without a job: FAILED or CANCELED */
    const char *detail;                 /* the reason; or NULL */
    bool unanswered;                    /* output: as in struct store_insert */
};
void store_insert_child(struct store *store, struct store_child_insert *insert);

/* The end of a group whose children are final, or never will be: a canceled group counts them all as done. */
struct store_group_end {
    struct store_write write;
    char id[UUID_SIZE];
    enum job_status status;
    int64_t finished_at;
};
void store_end_group(struct store *store, struct store_group_end *end);

/* Replaces the state of a damaged row by that of the record. Not on the writer thread. */
enum store_status store_repair_group_wait(struct store *store, const struct group_record *record);

/* A change of the state of a job: the columns that change after the insert. */
struct job_change {
    char id[UUID_SIZE];
    enum job_status status;
    int attempts;
    bool from_cache;
    int version;
    int64_t started_at;
    int64_t finished_at;
    char *error;        /* owned */
    bool cancels_group; /* its group is canceled in the same transaction */
};
void job_change_of(struct job_change *change, const struct job_record *record, char *error);

/* Changes of several jobs, and optionally the result that they share, in one transaction; also the rows of those that
 * are children. */
struct store_update {
    struct store_write write;
    struct job_change *changes;
    size_t changes_len;
    struct result_record *result; /* borrowed until done(); or NULL */
    bool result_kept;             /* it existed before: it is written only if it has been deleted */
    const uint8_t (*uses)[32];    /* keys of the factorisations used */
    size_t uses_len;
};
void store_update_jobs(struct store *store, struct store_update *update);
enum store_status store_update_jobs_wait(struct store *store, struct store_update *update);

/* Deletes a final job. STORE_NONE if it does not exist. */
struct store_delete {
    struct store_write write;
    char id[UUID_SIZE];
};
void store_delete_job(struct store *store, struct store_delete *deletion);
/* Deletes a group with its children. Their jobs are deleted soon after. */
void store_delete_group(struct store *store, enum group_kind_id kind, struct store_delete *deletion);

/* ---------------------------------------------------------------- reads */

/*
 * STORE_CORRUPT, logged and counted: a digest is wrong. record->damaged is then set, and only what can be trusted is
 * returned: the id; and, if only the state is damaged, the texts, with the state of a job that was just accepted.
 */
enum store_status store_read_job(struct store *store, const char *id, struct job_record *record);
/* The result for the hash and accounting version. STORE_CORRUPT is logged and counted. */
enum store_status store_read_result(struct store *store, const char *hash, int version, struct result_record **result);
/* A job has this result, and there is no row of it: logs and counts that like a damaged row. Returns STORE_CORRUPT. */
enum store_status store_result_lost(const char *hash);
/* Reads the state of the key. STORE_CORRUPT is logged and counted. */
enum store_status store_key_read(struct store *store, struct store_key *key);

/*
 * STORE_CORRUPT, logged and counted: a digest is wrong, and only the id and record->damaged are set. If only the state
 * of the group is damaged, record->damaged is set and the state is restored from the rows of the children (STORE_OK):
 * succeeded if all are final, otherwise running, whether or not it was canceled; the time of its end is unknown.
 */
enum store_status store_read_group(struct store *store, enum group_kind_id kind, const char *id,
                                   struct group_record *record);

/* Counts writes: while it is unchanged, reads return the same. It is advanced before the callbacks of a write are
 * called. */
uint64_t store_changes(struct store *store);

/*
 * The group to which a job, sweep or plan belongs, or that of which it is a child; "": to none. STORE_NONE: there is no
 * posted resource with this id, or it has no group.
 */
enum store_status store_read_owner(struct store *store, const char *id, char owner[OWNER_SIZE]);

/* The bytes that the resources count that a key has posted and that are still stored, and their number. */
enum store_status store_read_kept(struct store *store, const char *key, uint64_t *bytes, uint64_t *items);

/* The rows of a resource that belong to a page. */
struct list_filter {
    const char *owner;      /* NULL: any */
    enum job_status status; /* JOB_STATUS_COUNT: any */
    const char *label;      /* NULL: any */
    const char *before;     /* id; NULL: from the newest */
    size_t limit;
};
/* Newest first. *records: an allocated array of *len; clear each and free it. Includes rows whose digest is wrong, in
 * the form of store_read_job(). */
enum store_status store_list_jobs(struct store *store, const struct list_filter *filter, struct job_record **records,
                                  size_t *len);
/* The same for groups; rows whose digest is wrong are in the form of store_read_group(). */
enum store_status store_list_groups(struct store *store, enum group_kind_id kind, const struct list_filter *filter,
                                    struct group_record **records, size_t *len);
/* Calls each() for every group that is not final or whose state is unknown because a digest is wrong, in the form of
 * store_read_group(). */
enum store_status store_each_open_group(struct store *store,
                                        void (*each)(void *user, const struct group_record *record), void *user);

/* The children of a group to read. */
struct children_filter {
    const char *parent;
    bool by_end; /* only final ones, in the order of their ends, those after `after`; otherwise by number, from
                 * `after` */
    size_t after;
    size_t limit; /* 0: all */
};
/* Calls each() for every child; a row whose digest is wrong is passed as failed. The record is borrowed. */
enum store_status store_each_child(struct store *store, const struct children_filter *filter,
                                   void (*each)(void *user, const struct child_record *record), void *user);

/* A child of which store_each_child() found no row: it has not started; but each child of a group that has succeeded
 * had one, so that it is lost, which is logged, counted and told as if its digest were wrong, unless the group has been
 * deleted meanwhile. */
struct child_record store_child_absent(struct store *store, const struct group_record *group, size_t number);

/* The ids of the jobs that are not final, oldest first. *ids is allocated. */
enum store_status store_list_open(struct store *store, char (**ids)[UUID_SIZE], size_t *len);

/* ---------------------------------------------------------------- the cache of factorisations, PLDs and chunks */

/* A kind in addition to enum eps_cache_kind: epsilon in the course of a training. It is evicted before all others. */
enum { STORE_SPEND = EPS_CACHE_KINDS };

/* Returns true and an allocated blob. A blob that fails its checksum is deleted, logged, counted, and counts as
 * absent. */
bool store_blob_get(struct store *store, unsigned kind, const uint8_t key[32], void **data, size_t *len);
/* Copies and queues the blob; drops it silently if it is too large or the queue is full. */
void store_blob_put(struct store *store, unsigned kind, const uint8_t key[32], const void *data, size_t len);

#endif
