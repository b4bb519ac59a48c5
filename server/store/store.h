/*
 * The database: SQLite in WAL mode with synchronous=FULL. All SQL of the service is in this room and in
 * migrations/.
 *
 * Reads go through a pool of read-only connections, on the calling thread. Writes are queued to ONE writer thread,
 * which applies all that arrived together in one transaction and reports each only after its commit is on the
 * disk. Writes are applied in the order in which they were submitted. Thread-safe.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_STORE_STORE_H
#define SERVER_STORE_STORE_H

#include "server/store/owner.h"
#include "server/store/records.h"

struct store;
struct sqlite3;

enum store_status {
    STORE_OK,
    STORE_NONE,    /* no such row */
    STORE_CORRUPT, /* the row fails its checksum */
    STORE_FAILED   /* SQLite or memory said no; logged */
};

struct store_options {
    const char *path;
    bool guest;           /* beside a service that may have it: no jobs, nothing is swept */
    uint64_t cache_bytes; /* bound of factorisations and PLDs */
    uint64_t chunk_bytes; /* bound of chunks of draws */
    uint64_t max_bytes;   /* of the database; 0: no bound */
    double keep_seconds;  /* finished jobs; 0: for ever */
    /* Called on the writer thread for each job that expired, and for each result of this accounting version; may be
     * NULL. */
    void (*expired)(void *user, const char *id);
    void (*result_expired)(void *user, const char *hash);
    void *user;
};

/* Claims and opens the database, runs what migrations are missing (a guest beside a service refuses if one is), starts
 * the writer. NULL with a message. */
struct store *store_open(const struct store_options *options, char *message, size_t message_size);
/* Whether a file cannot be written because its disk is full, as far as SQLite's words and a try tell; then the message says
 * so. detail: what SQLite said; NULL: nobody
 * knows. */
bool store_disk_full(const char *path, const char *detail, char *message, size_t message_size);
/* Applies what is queued, then closes. NULL is allowed. */
void store_close(struct store *store);
/* How the last service ended that had the database. */
struct owner_past store_past(const struct store *store);
/* The past is dealt with: from now on a crash is this process's, and is traced to what it computes. */
void store_begin(struct store *store);
/* This process was asked to stop: however it ends now, that is no crash. */
void store_stop(struct store *store);
/* Waits until everything submitted before is committed, or has failed. */
void store_settle(struct store *store);
/* What keeps the database from being written, as far as is known without a try; NULL: nothing. */
const char *store_trouble(struct store *store);
/* Copies a database, which need not be open here and may be written meanwhile, to a file that must not be there yet: the
 * copy is whole, or there is none. Between portions stop() is asked whether to give up. Returns the number of its jobs,
 * or -1 with a message. */
int64_t store_backup(const char *database, const char *file, bool (*stop)(void), char *message, size_t message_size);
/* True if the database has reached its bound: no new job goes in. Old ones end. */
bool store_full(struct store *store);

/* ---------------------------------------------------------------- writes */

/*
 * A write: embed it as the first member. apply() runs inside a transaction and may run again after a rollback;
 * done() runs after the commit (or the final failure), owns the write, and must not block. Both run on the writer
 * thread.
 */
struct store_write {
    enum store_status (*apply)(struct store *store, struct store_write *write);
    void (*done)(struct store_write *write, enum store_status status);
    /* NULL: a write that fails is done. Else it is held, and tried again every second until it succeeds, or the store
     * closes; this is called when it fails for the first time. */
    void (*held)(struct store_write *write);
    bool is_held; /* the store's, as are the next two */
    struct store_write *next;
    enum store_status status;
};

void store_submit(struct store *store, struct store_write *write);
/* Submits and waits; done() is set by this call. The write may live on the stack. Not from the writer thread. */
enum store_status store_submit_wait(struct store *store, struct store_write *write);

/* Writes what nothing depends on, to see whether that can be done. */
void store_probe(struct store *store, struct store_write *write);

#define IDEMPOTENCY_KEY_MAX 255

/* What is known of a key. */
enum key_use {
    KEY_FREE,     /* nothing; or there is no key */
    KEY_REPLAYED, /* the same request came with it, and made what has the id */
    KEY_CONFLICT, /* another request came with it */
    KEY_DAMAGED   /* what is stored of it fails its checksum */
};

/* The key under which something is posted, of any resource. It is known for a day. */
struct store_key {
    const char *client;                 /* whose key it is */
    char text[IDEMPOTENCY_KEY_MAX + 1]; /* "": none */
    char request[HASH_SIZE];            /* see store_key_request() */
    /* Out. */
    enum key_use use;
    char id[UUID_SIZE]; /* KEY_REPLAYED */
};

/* Two requests are the same if the hashes of their canonical forms are, and their labels (NULL: none). */
void store_key_request(struct store_key *key, const char *hash, const char *label);

#define STORE_REPLACED 4

/* A new job, with its idempotency key in the same transaction. One that is answered by a cached result costs nobody a
 * computation, so what is kept of them is bounded, job by job: the oldest records make room, with their keys. */
struct store_insert {
    struct store_write write;
    const struct job_record *record; /* borrowed until done() */
    struct store_key key; /* unless it was free, nothing was inserted (STORE_OK, or STORE_CORRUPT: damaged) */
    /* Out: the record says that it is answered, but the result that answered it has gone meanwhile. It was inserted as
     * one that waits. */
    bool unanswered;
    char replaced[STORE_REPLACED][UUID_SIZE]; /* records that made room */
    size_t replaced_len;
};
void store_insert_job(struct store *store, struct store_insert *insert);

/* A new group, with its idempotency key in the same transaction. */
struct store_group_insert {
    struct store_write write;
    const struct group_record *record; /* borrowed until done() */
    struct store_key key;              /* as in struct store_insert */
};
void store_insert_group(struct store *store, struct store_group_insert *insert);

/*
 * A child whose turn has come, with its job in the same transaction, if it has come to one. It is final if its job is, or if
 * there is none; the end of any other is written with that of its job.
 */
struct store_child_insert {
    struct store_write write;
    char parent[UUID_SIZE];
    size_t number;
    const struct job_record *record;    /* borrowed until done(); or NULL */
    const struct result_record *result; /* which has answered the job; or NULL */
    enum job_status status;             /* without a job: FAILED or CANCELED */
    const char *detail;                 /* why; or NULL */
    bool unanswered;                    /* out: as in struct store_insert */
};
void store_insert_child(struct store *store, struct store_child_insert *insert);

/* The end of a group, whose children are final, or will never be: a canceled one counts them all as done. */
struct store_group_end {
    struct store_write write;
    char id[UUID_SIZE];
    enum job_status status;
    int64_t finished_at;
};
void store_end_group(struct store *store, struct store_group_end *end);

/* Writes the record's state over that of a row that was damaged. Not from the writer thread. */
enum store_status store_repair_group_wait(struct store *store, const struct group_record *record);

/* A change of state of one job: the columns that change after the insert. */
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

/* Changes of several jobs, and perhaps the result that they share, in one transaction; of children among them, the rows too. */
struct store_update {
    struct store_write write;
    struct job_change *changes;
    size_t changes_len;
    struct result_record *result; /* borrowed until done(); or NULL */
    bool result_kept;             /* it was there before: it is written only if it has gone */
    const uint8_t (*uses)[32];    /* keys of the factorisations used */
    size_t uses_len;
};
void store_update_jobs(struct store *store, struct store_update *update);
enum store_status store_update_jobs_wait(struct store *store, struct store_update *update);

/* Forgets a final job. STORE_NONE if there is none (any more). */
struct store_delete {
    struct store_write write;
    char id[UUID_SIZE];
};
void store_delete_job(struct store *store, struct store_delete *deletion);
/* The same of a group, with its children. Their jobs go soon after. */
void store_delete_group(struct store *store, enum group_kind_id kind, struct store_delete *deletion);

/* ---------------------------------------------------------------- reads */

/*
 * STORE_CORRUPT, logged and counted: a digest is wrong. Then record->damaged is set, and of the rest only what can be
 * trusted: the id; and if the job itself is whole and only its state is not, the texts, in the state of a job that was
 * just accepted.
 */
enum store_status store_read_job(struct store *store, const char *id, struct job_record *record);
/* The result of the hash and accounting version. STORE_CORRUPT is logged and counted. */
enum store_status store_read_result(struct store *store, const char *hash, int version, struct result_record **result);
/* What use was made of the key so far. STORE_CORRUPT is logged and counted. */
enum store_status store_key_read(struct store *store, struct store_key *key);

/*
 * STORE_CORRUPT, logged and counted: a digest is wrong, and but for the id and record->damaged nothing is left of the record.
 * If the group itself is whole and only its state is not, record->damaged is set and the state is what the rows of the
 * children make of it (STORE_OK): succeeded where all are final, else running, whether or not it was canceled; when it
 * ended is not known.
 */
enum store_status store_read_group(struct store *store, enum group_kind_id kind, const char *id,
                                   struct group_record *record);

/* How often rows were written: while it is the same, so is what is read. It has moved on before who waits for a write is told. */
uint64_t store_changes(struct store *store);

/* Which rows of a resource a page has. */
struct list_filter {
    enum job_status status; /* JOB_STATUS_COUNT: any */
    const char *label;      /* NULL: any */
    const char *before;     /* id; NULL: from the newest */
    size_t limit;
};
/* Newest first. *records: malloc'ed array of *len; clear each and free it. Rows that fail their digests are among them,
 * as store_read_job() gives them. */
enum store_status store_list_jobs(struct store *store, const struct list_filter *filter, struct job_record **records,
                                  size_t *len);
/* The same of groups; rows that fail their digests are as store_read_group() gives them. */
enum store_status store_list_groups(struct store *store, enum group_kind_id kind, const struct list_filter *filter,
                                    struct group_record **records, size_t *len);
/* Calls for each group that is not final, and for those of which a digest says that nobody knows, as store_read_group()
 * gives them. */
enum store_status store_each_open_group(struct store *store,
                                        void (*each)(void *user, const struct group_record *record), void *user);

/* Which children of a group. */
struct children_filter {
    const char *parent;
    bool
        by_end; /* those that are final, in the order of their ends, after `after`; else by their numbers, from `after` on */
    size_t after;
    size_t limit; /* 0: all */
};
/* Calls for each; a row that fails its digest comes as failed. The record is lent. */
enum store_status store_each_child(struct store *store, const struct children_filter *filter,
                                   void (*each)(void *user, const struct child_record *record), void *user);

/* Ids of the jobs that are not final, oldest first. *ids: malloc'ed. */
enum store_status store_list_open(struct store *store, char (**ids)[UUID_SIZE], size_t *len);

/* ---------------------------------------------------------------- the cache of factorisations, PLDs and chunks */

/* Of a kind beside those of enum eps_cache_kind: what a training had spent on the way. It goes before all others. */
enum { STORE_SPEND = EPS_CACHE_KINDS };

/* True and a malloc'ed blob. A blob that fails its checksum is dropped, logged, counted, and not found. */
bool store_blob_get(struct store *store, unsigned kind, const uint8_t key[32], void **data, size_t *len);
/* Copies and queues the blob; drops it silently where it is too large or too much is queued already. */
void store_blob_put(struct store *store, unsigned kind, const uint8_t key[32], const void *data, size_t len);

#endif
