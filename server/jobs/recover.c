/*
 * The start of the service: what an earlier process accepted and did not end is queued again, in the order of its
 * acceptance.
 *
 * Who is to blame. A job counts the start that an end of the process cut short only if that end was a fault of the process
 * and can be traced to the job: the fault happened in it, or it alone was running when the memory was used up. Where
 * several were, none counts, and all are suspects: each is run alone, for as long as it had run before, the one that had
 * run least first. The one that needs too much then does so alone, and is traced; the others outlive their suspicion. A
 * job whose third traced start did not end fails. After a stop that was asked for there is no one to blame, nor where the
 * process was killed from outside: whoever did that may do it for ever.
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

_Static_assert(CRASH_NAME_SIZE == HASH_SIZE, "a computation is called by the hash of its job");

static const char *const end_names[] = {
    [OWNER_STOPPED] = "stopped",
    [OWNER_CRASHED] = "crashed",
    [OWNER_STARVED] = "out-of-memory",
    [OWNER_VANISHED] = "killed",
};

#define BEAT_MS 3000 /* the past process lived at most so long after its last beat */

struct recovered {
    struct job_record record; /* without texts: it is not queued again */
    double alone_seconds;
};

/* The hash of the computation that ended the past process; "" none, or no one can tell. *suspects: whether all that ran
 * are under suspicion. */
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
    if (past->end == OWNER_CRASHED) {
        memcpy(traced, past->name, HASH_SIZE);
    } else if (past->end == OWNER_STARVED && only && !several) {
        memcpy(traced, only, HASH_SIZE);
    }
}

/* What becomes of a job that was running. */
static void judge(struct recovered *job, const struct owner_past *past, bool traced, bool suspect)
{
    struct job_record *record = &job->record;
    if (!traced && record->attempts > 0) {
        record->attempts--;
    }
    if (traced || suspect) {
        double before = (double)(past->last_beat + BEAT_MS - record->started_at) / 1000;
        job->alone_seconds = before > 1 ? before : 1;
        log_event(LOG_LEVEL_WARN, "suspect", "job=%s traced=%s attempts=%d alone_seconds=%.0f", record->id,
                  traced ? "true" : "false", record->attempts, job->alone_seconds);
    }
    bool again = record->attempts < ATTEMPTS_MAX;
    record->status = again ? JOB_QUEUED : JOB_FAILED;
    record->started_at = again ? 0 : record->started_at;
}

/* It is final; what is left of the record is cleared. */
static void fail(struct job_record *record, struct job_change *change, enum api_problem problem, const char *detail)
{
    char instance[64];
    snprintf(instance, sizeof instance, "/v1/jobs/%s", record->id);
    change->status = JOB_FAILED;
    change->finished_at = clock_now_ms();
    change->error = jobs__problem_text(api_problem_encode(problem, detail, instance, NULL));
    struct job_record final = *record; /* borrows the texts */
    final.status = change->status;
    final.finished_at = change->finished_at;
    final.error = change->error;
    jobs_log_end(&final, NULL);
    job_record_clear(record);
}

/* Reads a row that is open. A job whose state alone is damaged is one that was just accepted; one whose text is cannot
 * be run: nothing else than what was accepted may be. False: the database cannot be read. */
static bool recover_read(struct store *store, const char *id, struct job_record *record, struct job_change *change)
{
    enum store_status status = store_read_job(store, id, record);
    if (status == STORE_CORRUPT && !record->job) {
        job_change_of(change, record, NULL);
        fail(record, change, API_PROBLEM_INTERNAL, "what is stored of this job fails its checksum; post it again");
    }
    return status == STORE_OK || status == STORE_CORRUPT;
}

static void fail_crashed(struct job_record *record, struct job_change *change)
{
    metric_add(METRIC_JOBS_CRASHED, 1);
    log_event(LOG_LEVEL_ERROR, "job-crashed", "job=%s attempts=%d", record->id, record->attempts);
    fail(record, change, API_PROBLEM_CRASHED,
         "a fault in this job, or the memory that it took, ended the service three times; it is not tried again");
}

/* Reads the rows and writes their new state in one transaction. */
static bool recover_rows(struct store *store, char (*ids)[UUID_SIZE], struct recovered *jobs,
                         struct job_change *changes, size_t len)
{
    struct store_update update = {.changes = changes, .changes_len = len};
    struct owner_past past = store_past(store);
    char traced[HASH_SIZE];
    bool suspects = false;
    for (size_t i = 0; i < len; i++) {
        if (!recover_read(store, ids[i], &jobs[i].record, &changes[i])) {
            return false;
        }
    }
    trace(traced, &suspects, &past, jobs, len);
    for (size_t i = 0; i < len; i++) {
        struct job_record *record = &jobs[i].record;
        if (!record->job) { /* decided */
            continue;
        }
        if (record->status == JOB_RUNNING) {
            judge(&jobs[i], &past, strcmp(record->hash, traced) == 0, suspects);
        }
        job_change_of(&changes[i], record, NULL);
        if (record->status == JOB_FAILED) {
            fail_crashed(record, &changes[i]);
        }
    }
    return store_update_jobs_wait(store, &update) == STORE_OK;
}

/* Suspects first, of these the one that ran least; then in the order in which they would go: the first of them starts
 * before the last is queued. */
static int compare(const void *a, const void *b)
{
    const struct recovered *one = a;
    const struct recovered *other = b;
    if ((one->alone_seconds > 0) != (other->alone_seconds > 0)) {
        return one->alone_seconds > 0 ? -1 : 1;
    }
    double first = one->alone_seconds;
    double second = other->alone_seconds;
    if (!(first > 0)) {
        first = (double)one->record.created_at / 1000 + jobs__estimate(&one->record);
        second = (double)other->record.created_at / 1000 + jobs__estimate(&other->record);
    }
    return first < second ? -1 : first > second ? 1 : strcmp(one->record.id, other->record.id);
}

/* Queues what is left. Takes the texts. */
static bool admit_all(struct jobs *jobs, struct recovered *recovered, size_t len, size_t *queued)
{
    bool ok = true;
    qsort(recovered, len, sizeof *recovered, compare);
    for (size_t i = 0; i < len && ok; i++) {
        struct job_record *record = &recovered[i].record;
        if (!record->job) {
            continue;
        }
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
    if (store_list_open(store, &ids, &len) != STORE_OK) {
        return false;
    }
    struct recovered *recovered = calloc(len ? len : 1, sizeof *recovered);
    struct job_change *changes = calloc(len ? len : 1, sizeof *changes);
    bool ok =
        recovered && changes && (!len || recover_rows(store, ids, recovered, changes, len)) && (!ready || ready(user));
    if (ok) {
        store_begin(store); /* before the first job runs: from here on a crash is this process's */
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
