/*
 * Every SQL statement of the service, by name.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/store/internal.h"

/* The digests of a row by columns: the constant columns that lists show, the long form of the job, and the columns that
 * change. */
#define FIXED "digest(id, hash, label, created_at, operations, coalesce(brief, job))"
#define TEXT "digest(id, job)"
#define STATE "digest(id, status, attempts, started_at, finished_at, from_cache, version, error)"

/* Lists of the figures in SQL, from their table. Each item starts with a comma. */
#define NOTHING(...)
#define COLUMN(column, ...) ", " #column
#define PARAMETER(column, ...) ", :" #column
#define NULL_VALUE(column, ...) ", NULL"
#define SET(column, ...) ", " #column " = :" #column
#define KEPT(each) API_FIGURES(NOTHING, each, each)
#define LISTED(each) API_FIGURES(NOTHING, NOTHING, each)

/* For a result: the columns that the older `checksum` does not cover. */
#define FIGURES "digest(hash, version" KEPT(COLUMN) ")"

#define JOB_COLUMNS                                                                                                    \
    "id, hash, label, status, attempts, created_at, started_at, finished_at, from_cache, version, job, brief, error, " \
    "operations, request, parent, child"
/* Who posted a resource: a column of its row of owners; NULL if there is none, or if it is damaged. */
#define OWNER_DIGEST "digest(owners.id, owner, key, bytes)"
#define POSTED(column, of) \
    "(SELECT " column " FROM owners WHERE owners.id = " of " AND owners.checksum = " OWNER_DIGEST ")"
#define POSTER(of) POSTED("key", of) ", " POSTED("owner", of)

/* The comparisons are NULL if the row has no digest. Lists omit the long form if there is a short one, and the
 * poster. */
#define READ_COLUMNS                                                                          \
    JOB_COLUMNS ", checksum = " FIXED " AND job_checksum = " TEXT ", state_checksum = " STATE \
                ", " POSTER("coalesce(jobs.parent, jobs.id)")
#define LIST_COLUMNS                                                                                \
    "id, hash, label, status, attempts, created_at, started_at, finished_at, from_cache, version, " \
    "coalesce(brief, job), NULL, error, operations, request, parent, child, checksum = " FIXED      \
    ", state_checksum = " STATE ", NULL, NULL"

#define GROUP_FIXED "digest(id, kind, label, total, created_at, request)"
#define GROUP_STATE "digest(id, status, done, failed, finished_at)"
/* If the state of a row is damaged, it is unknown whether the group is final. */
#define GROUP_LOST "NOT coalesce(state_checksum = " GROUP_STATE ", 0)"
#define GROUP_COLUMNS                                                                                         \
    "id, kind, label, status, total, done, failed, created_at, finished_at, request, checksum = " GROUP_FIXED \
    ", state_checksum = " GROUP_STATE ", request_id, " POSTER("job_groups.id")
#define CHILD_COLUMNS                                                                                  \
    "number, ended, job, status, detail, checksum = digest(parent, number, job, status, ended" LISTED( \
        COLUMN) ", "                                                                                   \
                "detail)" LISTED(COLUMN)

/* The same condition as in the index jobs_answered. */
#define ANSWERED "from_cache = 1 AND parent IS NULL AND status = 2"

/* The given text, or otherwise the detail of the problem document of a failed job. */
#define CHILD_DETAIL "coalesce(:detail, json_extract(:error, '$.detail'))"

/* Of a list: only what belongs to the group ?6, if that is given. */
#define OWNED_BY(table) \
    "AND (?6 IS NULL OR EXISTS (SELECT 1 FROM owners WHERE owners.id = " table ".id AND owner = ?6)) "

static const char *const statements[SQL_COUNT] = {
    [SQL_BEGIN] = "BEGIN IMMEDIATE",
    [SQL_COMMIT] = "COMMIT",
    [SQL_ROLLBACK] = "ROLLBACK",
    [SQL_PROBE] = "INSERT INTO probe (id, written_at) VALUES (1, ?1) ON CONFLICT (id) DO UPDATE SET written_at = ?1",
    [SQL_NAME] = "SELECT name FROM name WHERE id = 1",
    [SQL_PAGES] = "PRAGMA page_count",
    [SQL_PAGES_FREE] = "PRAGMA freelist_count",
    [SQL_PAGE_SIZE] = "PRAGMA page_size",

    [SQL_JOB_INSERT] = "INSERT INTO jobs (" JOB_COLUMNS ", checksum, job_checksum, state_checksum) "
                       "VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17, "
                       "digest(?1,?2,?3,?6,?14,coalesce(?12,?11)), digest(?1,?11), digest(?1,?4,?5,?7,?8,?9,?10,?13))",
    /* A final job is not changed by late writes; a row with an invalid status is. */
    [SQL_JOB_UPDATE] = "UPDATE jobs SET status = ?2, attempts = ?3, started_at = ?4, finished_at = ?5, "
                       "from_cache = ?6, version = ?7, error = ?8, state_checksum = digest(?1,?2,?3,?4,?5,?6,?7,?8) "
                       "WHERE id = ?1 AND (status < 2 OR status > 4)",
    [SQL_JOB_DELETE] = "DELETE FROM jobs WHERE id = ?1 AND status >= 2",
    [SQL_JOB_READ] = "SELECT " READ_COLUMNS " FROM jobs WHERE id = ?1",
    /* Only posted jobs; children are listed in their groups. */
    [SQL_JOB_LIST] = "SELECT " LIST_COLUMNS
                     " FROM jobs WHERE id < ?1 AND parent IS NULL " OWNED_BY("jobs") "ORDER BY id DESC LIMIT ?2",
    [SQL_JOB_LIST_STATUS] = "SELECT " LIST_COLUMNS " FROM jobs WHERE id < ?1 AND status = ?3 "
                            "AND parent IS NULL " OWNED_BY("jobs") "ORDER BY id DESC LIMIT ?2",
    [SQL_JOB_LIST_LABEL] = "SELECT " LIST_COLUMNS " FROM jobs WHERE id < ?1 AND label = ?4 "
                           "AND parent IS NULL " OWNED_BY("jobs") "ORDER BY id DESC LIMIT ?2",
    [SQL_JOB_LIST_BOTH] = "SELECT " LIST_COLUMNS " FROM jobs WHERE id < ?1 AND status = ?3 AND label = ?4 "
                          "AND parent IS NULL " OWNED_BY("jobs") "ORDER BY id DESC LIMIT ?2",
    [SQL_JOB_OPEN] = "SELECT id FROM jobs WHERE status < 2 OR status > 4 ORDER BY id",
    /* Ids contain the time of creation, which is before the end: the first condition finds the rows quickly. A damaged
     * time never expires a row. */
    [SQL_JOB_EXPIRE] = "DELETE FROM jobs WHERE id IN (SELECT id FROM jobs WHERE id < ?1 AND status >= 2 "
                       "AND finished_at < ?2 AND coalesce(state_checksum = " STATE ", 1) LIMIT ?3) RETURNING id",
    [SQL_JOB_ANSWERED] = "SELECT 1 FROM jobs WHERE hash = ?1 AND " ANSWERED " AND id < ?2 LIMIT 1",
    /* Rows answered from the cache before ?2, except for the ?3 newest. */
    [SQL_JOB_REPLACE] =
        "DELETE FROM jobs WHERE id IN (SELECT id FROM jobs WHERE hash = ?1 AND " ANSWERED " AND id < min(?2, (SELECT "
        "id FROM jobs WHERE hash = ?1 AND " ANSWERED " ORDER BY id DESC LIMIT 1 OFFSET ?3 - 1)) ORDER BY id LIMIT ?4) "
        "RETURNING id",
    [SQL_JOB_ORPHAN] = "DELETE FROM jobs WHERE id IN (SELECT id FROM jobs WHERE parent IN (SELECT parent FROM orphans) "
                       "AND status >= 2 LIMIT ?1) RETURNING id",
    [SQL_JOB_PARENT] = "SELECT parent, child FROM jobs WHERE id = ?1 AND parent IS NOT NULL",

    [SQL_GROUP_INSERT] = "INSERT INTO job_groups (id, kind, label, status, total, done, failed, created_at, request, "
                         "request_id, checksum, state_checksum) VALUES (?1,?2,?3,0,?4,0,0,?5,?6,?7, "
                         "digest(?1,?2,?3,?4,?5,?6), digest(?1,0,0,0,NULL))",
    [SQL_GROUP_START] = "UPDATE job_groups SET status = 1, state_checksum = digest(id,1,done,failed,NULL) "
                        "WHERE id = ?1 AND status = 0",
    [SQL_GROUP_COUNT] = "UPDATE job_groups SET done = done + 1, failed = failed + ?2, "
                        "state_checksum = digest(id,status,done + 1,failed + ?2,finished_at) WHERE id = ?1",
    /* Children that were never started become final with their canceled group. */
    [SQL_GROUP_END] = "UPDATE job_groups SET status = ?2, finished_at = ?3, done = total, "
                      "state_checksum = digest(id,?2,total,failed,?3) WHERE id = ?1 AND "
                      "(status < 2 OR finished_at IS NULL)",
    /* Canceled, but without an end time while jobs of the group are still to end. */
    [SQL_GROUP_CANCEL] = "UPDATE job_groups SET status = 4, state_checksum = digest(id,4,done,failed,NULL) "
                         "WHERE id = (SELECT parent FROM jobs WHERE id = ?1) AND status < 2",
    [SQL_GROUP_REPAIR] = "UPDATE job_groups SET status = ?2, done = ?3, failed = ?4, finished_at = ?5, "
                         "state_checksum = digest(id,?2,?3,?4,?5) WHERE id = ?1",
    [SQL_GROUP_DELETE] = "DELETE FROM job_groups WHERE id = ?1 AND kind = ?2 "
                         "AND (finished_at IS NOT NULL OR " GROUP_LOST ")",
    [SQL_GROUP_READ] = "SELECT " GROUP_COLUMNS " FROM job_groups WHERE id = ?1 AND kind = ?2",
    [SQL_GROUP_LIST] = "SELECT " GROUP_COLUMNS " FROM job_groups WHERE id < ?1 AND kind = ?5 " OWNED_BY(
        "job_groups") "ORDER BY id DESC LIMIT ?2",
    [SQL_GROUP_LIST_STATUS] =
        "SELECT " GROUP_COLUMNS " FROM job_groups WHERE id < ?1 AND kind = ?5 AND status = ?3 " OWNED_BY(
            "job_groups") "ORDER BY id DESC LIMIT ?2",
    [SQL_GROUP_LIST_LABEL] =
        "SELECT " GROUP_COLUMNS " FROM job_groups WHERE id < ?1 AND kind = ?5 AND label = ?4 " OWNED_BY(
            "job_groups") "ORDER BY id DESC LIMIT ?2",
    [SQL_GROUP_LIST_BOTH] = "SELECT " GROUP_COLUMNS " FROM job_groups WHERE id < ?1 AND kind = ?5 AND status = ?3 "
                            "AND label = ?4 " OWNED_BY("job_groups") "ORDER BY id DESC LIMIT ?2",
    [SQL_GROUP_OPEN] =
        "SELECT " GROUP_COLUMNS " FROM job_groups WHERE finished_at IS NULL OR " GROUP_LOST " ORDER BY id",
    [SQL_GROUP_EXPIRE] = "DELETE FROM job_groups WHERE id IN (SELECT id FROM job_groups WHERE id < ?1 AND status >= 2 "
                         "AND finished_at < ?2 AND coalesce(state_checksum = " GROUP_STATE ", 1) LIMIT ?3)",

    [SQL_CHILD_INSERT] = "INSERT INTO children (parent, number, job, status, checksum) "
                         "VALUES (?1,?2,?3,0, digest(?1,?2,?3,0,NULL" LISTED(NULL_VALUE) ",NULL))",
    [SQL_CHILD_END] = "UPDATE children SET status = ?4, ended = (SELECT done + 1 FROM job_groups WHERE id = ?1)" LISTED(
        SET) ", detail = " CHILD_DETAIL ", checksum = digest(?1,?2,?3,?4,"
             "(SELECT done + 1 FROM job_groups WHERE id = ?1)" LISTED(
                 PARAMETER) "," CHILD_DETAIL ") "
                            "WHERE parent = ?1 AND number = ?2 AND job IS ?3 AND ended IS NULL",
    [SQL_CHILD_DELETE] = "DELETE FROM children WHERE parent = ?1",
    [SQL_CHILD_ORPHAN] = "DELETE FROM children WHERE parent IN (SELECT parent FROM orphans AS o WHERE EXISTS "
                         "(SELECT 1 FROM children AS c WHERE c.parent = o.parent) LIMIT 1)",
    [SQL_ORPHANS_GONE] =
        "DELETE FROM orphans WHERE parent NOT IN (SELECT parent FROM children WHERE parent = orphans.parent "
        "UNION ALL SELECT parent FROM jobs WHERE parent = orphans.parent)",
    [SQL_CHILD_LIST] =
        "SELECT " CHILD_COLUMNS " FROM children WHERE parent = ?1 AND number >= ?2 ORDER BY number LIMIT ?3",
    [SQL_CHILD_ENDED] =
        "SELECT " CHILD_COLUMNS " FROM children WHERE parent = ?1 AND ended > ?2 ORDER BY ended LIMIT ?3",

    [SQL_RESULT_PUT] =
        "INSERT INTO results (hash, version, finished_at, core, cache, elapsed_seconds, curve, note, "
        "points, checksum" KEPT(
            COLUMN) ", figures_checksum) "
                    "VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10" KEPT(PARAMETER) ", digest(?1,?2" KEPT(
                        PARAMETER) ")) "
                                   "ON CONFLICT (hash, version) DO UPDATE SET finished_at = ?3, core = ?4, cache = ?5, "
                                   "elapsed_seconds = ?6, curve = ?7, note = ?8, points = ?9, checksum = ?10" KEPT(
                                       SET) ", figures_checksum = excluded.figures_checksum",
    [SQL_RESULT_READ] = "SELECT finished_at, core, cache, elapsed_seconds, curve, note, points, checksum, "
                        "figures_checksum = " FIGURES KEPT(COLUMN) " FROM results WHERE hash = ?1 AND version = ?2",
    [SQL_RESULT_PRESENT] = "SELECT 1 FROM results WHERE hash = ?1 AND version = ?2",
    /* A job that is not final may still refer to it later. */
    [SQL_RESULT_EXPIRE] = "DELETE FROM results WHERE rowid IN (SELECT rowid FROM results AS r "
                          "WHERE finished_at < ?1 AND NOT EXISTS (SELECT 1 FROM jobs AS j WHERE j.hash = r.hash "
                          "AND (j.version = r.version OR j.status < 2)) LIMIT ?2) RETURNING hash",
    [SQL_USE_PUT] = "INSERT OR IGNORE INTO uses (hash, version, key) VALUES (?1, ?2, ?3)",
    [SQL_USE_EXPIRE] = "DELETE FROM uses WHERE NOT EXISTS (SELECT 1 FROM results AS r "
                       "WHERE r.hash = uses.hash AND r.version = uses.version)",

    [SQL_KEY_READ] = "SELECT request, job, checksum = digest(client, key, request, job) FROM idempotency "
                     "WHERE client = ?1 AND key = ?2 AND created_at >= ?3",
    [SQL_KEY_PUT] = "INSERT OR REPLACE INTO idempotency (client, key, request, job, created_at, checksum) "
                    "VALUES (?1, ?2, ?3, ?4, ?5, digest(?1, ?2, ?3, ?4))",
    [SQL_KEY_EXPIRE] = "DELETE FROM idempotency WHERE (client, key) IN (SELECT client, key FROM idempotency "
                       "WHERE created_at < ?1 LIMIT ?2)",
    [SQL_OWNER_PUT] = "INSERT INTO owners (id, owner, key, bytes, checksum) VALUES (?1,?2,?3,?4, digest(?1,?2,?3,?4))",
    /* A child belongs to whom its group belongs to. */
    [SQL_OWNER_READ] = "SELECT owner, checksum = " OWNER_DIGEST " FROM owners WHERE id = ?1 OR "
                       "id = (SELECT parent FROM jobs WHERE id = ?1)",
    [SQL_KEPT_READ] = "SELECT bytes, items FROM kept WHERE key = ?1",
    [SQL_KEY_GONE] = "DELETE FROM idempotency WHERE job = ?1",

    [SQL_BLOB_PUT] = "INSERT OR IGNORE INTO blobs (kind, key, version, size, used_at, checksum, data) "
                     "VALUES (?1,?2,?3,?4,?5,?6,?7)",
    /* A factorisation is kept across accounting versions while a stored job refers to it; its key identifies it. */
    [SQL_BLOB_READ] = "SELECT used_at, checksum, data, version FROM blobs WHERE kind = ?1 AND key = ?2 "
                      "AND (version = ?3 OR kind = 0) ORDER BY version DESC LIMIT 1",
    [SQL_BLOB_TOUCH] = "UPDATE blobs SET used_at = ?4 WHERE kind = ?1 AND key = ?2 AND (version = ?3 OR kind = 0)",
    /* Counts the actual length, not the length in a column. */
    [SQL_BLOB_DROP] = "DELETE FROM blobs WHERE kind = ?1 AND key = ?2 AND version = ?3 RETURNING length(data)",
    [SQL_BLOB_EVICT] = "DELETE FROM blobs WHERE rowid = ?1 RETURNING length(data)",
    [SQL_BLOB_TOTAL] = "SELECT coalesce(sum(length(data)) FILTER (WHERE kind <> 2), 0), "
                       "coalesce(sum(length(data)) FILTER (WHERE kind = 2), 0) FROM blobs",
    /* Loss distributions first, then factorisations; within a kind the least recently used one. A factorisation that a
     * stored result refers to is kept: a job may refer to that result at any time, and uses are deleted with their
     * results. */
    [SQL_BLOB_OLDEST] = "SELECT rowid FROM blobs AS b WHERE kind <> 2 AND (kind <> 0 OR NOT EXISTS "
                        "(SELECT 1 FROM uses AS u WHERE u.key = b.key)) ORDER BY kind DESC, used_at LIMIT 1",
    [SQL_CHUNK_OLDEST] = "SELECT rowid FROM blobs INDEXED BY chunks_by_use WHERE kind = 2 ORDER BY used_at LIMIT 1",
    [SQL_BLOB_OUTDATED] = "DELETE FROM blobs WHERE version <> ?1 AND (kind <> 0 OR NOT EXISTS "
                          "(SELECT 1 FROM uses AS u WHERE u.key = blobs.key))",
};

const char *store__sql(enum store_sql sql)
{
    return statements[sql];
}
