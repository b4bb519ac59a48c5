/*
 * Recovery at startup: jobs that an earlier process accepted and did not finish are queued again, in the order in which
 * they were accepted.
 *
 * Attribution of crashes. If the process ended during a job, that start counts as an attempt only if the end was caused
 * by the process itself and can be attributed to the job: a fault happened in its computation, or it was the only one
 * running when memory ran out. If several were running, no start counts and all are suspects: each is run alone for as
 * long as it had run before, the one with the shortest time first. The one that needs too much memory then fails alone
 * and is identified; the others are cleared. A job whose third attributed start did not end fails. Nothing is
 * attributed after a requested stop, nor if the process was killed from outside, which may happen any number of times.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/problem.h"
#include "server/jobs/internal.h"
#include "server/ops/log.h"
#include "server/ops/metrics.h"

_Static_assert(CRASH_NAME_SIZE == HASH_SIZE, "the name of a computation is the hash of its job");

static const char *const end_names[] = {
    [OWNER_STOPPED] = "stopped",
    [OWNER_CRASHED] = "crashed",
    [OWNER_STARVED] = "out-of-memory",
    [OWNER_VANISHED] = "killed",
};

#define BEAT_MS 3000 /* the past process lived at most this long after its last heartbeat */

struct recovered {
    struct job_record record; /* without texts: it is not queued again */
    double alone_seconds;
};

/* The hash of the computation that ended the past process; "" if there is none or it is unknown. *suspects: whether all
 * running jobs are suspects. */
static void trace(char traced[HASH_SIZE], bool *suspects, const struct owner_past *past, const struct recovered *jobs,
                  size_t len)
{
    const char *only = NULL;
    bool several = false;
    traced[0] = '\0';
    for (size_t i = 0; i < len; i++) {
        const struct job_record *record = &jobs[i].record;
        if (record->status == JOB_RUNNING) {
            several = several || (only && strcmp(only, record->hash) != 0);
            only = record->hash;
        }
    }
    *suspects = past->end == OWNER_STARVED;
    if (past->end == OWNER_CRASHED)
        memcpy(traced, past->name, HASH_SIZE);
    else if (past->end == OWNER_STARVED && only && !several)
        memcpy(traced, only, HASH_SIZE);
}

static const char *request_of(const struct job_record *record)
{
    return record->request[0] ? record->request : "unknown";
}

/* Decides what happens to a job that was running. */
static void judge(struct recovered *job, const struct owner_past *past, bool traced, bool suspect)
{
    struct job_record *record = &job->record;
    if (!traced && record->attempts > 0)
        record->attempts--;
    if (traced || suspect) {
        double before = (double)(owner_past_since(past, record->started_at) + BEAT_MS) / 1000;
        job->alone_seconds = before > 1 ? before : 1;
        log_event(LOG_LEVEL_WARN, "suspect", "job=%s traced=%s attempts=%d alone_seconds=%.0f request=%s", record->id,
                  traced ? "true" : "false", record->attempts, job->alone_seconds, request_of(record));
    }
    bool again = record->attempts < ATTEMPTS_MAX;
    record->status = again ? JOB_QUEUED : JOB_FAILED;
    record->started_at = again ? 0 : record->started_at;
}

/* Makes the job final; the rest of the record is freed. */
static void fail(struct job_record *record, struct job_change *change, enum api_problem problem, const char *detail)
{
    char instance[64];
    snprintf(instance, sizeof instance, "/v1/jobs/%s", record->id);
    change->status = JOB_FAILED;
    change->finished_at = clock_now_ms();
    change->error = api_json_text_new(api_problem_encode(problem, detail, instance, NULL));
    struct job_record final = *record; /* borrows the texts */
    final.status = change->status;
    final.finished_at = change->finished_at;
    final.error = change->error;
    jobs_log_end(&final, NULL);
    job_record_clear(record);
}

/* Reads an open row. If only the state of a job is damaged, it counts as just accepted. If its text is damaged, it
 * fails, because only what was accepted may be run. Returns false if the database cannot be read. */
static bool recover_read(struct store *store, const char *id, struct job_record *record, struct job_change *change)
{
    enum store_status status = store_read_job(store, id, record);
    if (status == STORE_CORRUPT && !record->job) {
        job_change_of(change, record, NULL);
        fail(record, change, API_PROBLEM_INTERNAL, "the stored data of this job fails its checksum; post it again");
    }
    return status == STORE_OK || status == STORE_CORRUPT;
}

static void fail_crashed(struct job_record *record, struct job_change *change)
{
    metric_add(METRIC_JOBS_CRASHED, 1);
    log_event(LOG_LEVEL_ERROR, "job-crashed", "job=%s attempts=%d request=%s", record->id, record->attempts,
              request_of(record));
    fail(record, change, API_PROBLEM_CRASHED,
         "the service crashed or ran out of memory three times because of this job; it is not started again");
}

/* Reads the rows and writes their new states in one transaction. */
static bool recover_rows(struct store *store, char (*ids)[UUID_SIZE], struct recovered *jobs,
                         struct job_change *changes, size_t len)
{
    struct store_update update = {.changes = changes, .changes_len = len};
    struct owner_past past = store_past(store);
    char traced[HASH_SIZE];
    bool suspects = false;
    for (size_t i = 0; i < len; i++)
        if (!recover_read(store, ids[i], &jobs[i].record, &changes[i]))
            return false;
    trace(traced, &suspects, &past, jobs, len);
    for (size_t i = 0; i < len; i++) {
        struct job_record *record = &jobs[i].record;
        if (!record->job) /* decided */
            continue;
        if (record->status == JOB_RUNNING)
            judge(&jobs[i], &past, strcmp(record->hash, traced) == 0, suspects);
        job_change_of(&changes[i], record, NULL);
        if (record->status == JOB_FAILED)
            fail_crashed(record, &changes[i]);
    }
    return store_update_jobs_wait(store, &update) == STORE_OK;
}

/* Suspects first, the one that ran the shortest time first; then in the order of the queue, because the first one
 * starts before the last is queued. */
static int compare(const void *a, const void *b)
{
    const struct recovered *one = a;
    const struct recovered *other = b;
    if ((one->alone_seconds > 0) != (other->alone_seconds > 0))
        return one->alone_seconds > 0 ? -1 : 1;
    double first = one->alone_seconds;
    double second = other->alone_seconds;
    if (!(first > 0)) {
        first = (double)one->record.created_at / 1000 + jobs__estimate(&one->record);
        second = (double)other->record.created_at / 1000 + jobs__estimate(&other->record);
    }
    return first < second ? -1 : first > second ? 1 : strcmp(one->record.id, other->record.id);
}

/* Queues the remaining jobs. Takes ownership of the texts. */
static bool admit_all(struct jobs *jobs, struct recovered *recovered, size_t len, size_t *queued)
{
    bool ok = true;
    qsort(recovered, len, sizeof *recovered, compare);
    for (size_t i = 0; i < len && ok; i++) {
        struct job_record *record = &recovered[i].record;
        if (!record->job)
            continue;
        ok = ledger_account(jobs->server->ledger, record->poster.key) != NULL;
        if (!ok)
            break;
        jobs_reserve_anyway(jobs, record);
        ok = jobs_admit(jobs, record, recovered[i].alone_seconds);
        *queued += ok;
    }
    return ok;
}

bool jobs_recover(struct jobs *jobs, bool (*ready)(void *user), void *user)
{
    struct store *store = jobs->server->store;
    char(*ids)[UUID_SIZE] = NULL;
    size_t len = 0;
    size_t queued = 0;
    if (store_list_open(store, &ids, &len) != STORE_OK)
        return false;
    struct recovered *recovered = calloc(len ? len : 1, sizeof *recovered);
    struct job_change *changes = calloc(len ? len : 1, sizeof *changes);
    bool ok =
        recovered && changes && (!len || recover_rows(store, ids, recovered, changes, len)) && (!ready || ready(user));
    if (ok) {
        store_begin(store); /* before the first job runs: from here on a crash belongs to this process */
        ok = admit_all(jobs, recovered, len, &queued);
    }
    if (len) {
        log_event(LOG_LEVEL_INFO, "recovered", "queued=%zu crashed=%zu past=%s", queued, len - queued,
                  end_names[store_past(store).end]);
    }
    for (size_t i = 0; i < len && recovered && changes; i++) {
        job_record_clear(&recovered[i].record);
        free(changes[i].error);
    }
    free(recovered);
    free(changes);
    free(ids);
    return ok;
}
