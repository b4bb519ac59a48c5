/*
 * The start of the service: what an earlier process accepted and did not end is queued again, in the order of its
 * acceptance. A job whose third start did not end is taken for the cause and fails.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdio.h>
#include <stdlib.h>

#include "api/problem.h"
#include "server/jobs/internal.h"
#include "server/ops/log.h"
#include "server/ops/metrics.h"

/* What becomes of the row. True: it is queued again. */
static bool recover_one(struct job_record *record, struct job_change *change)
{
    bool again = !(record->status == JOB_RUNNING && record->attempts >= ATTEMPTS_MAX);
    record->status = again ? JOB_QUEUED : JOB_FAILED;
    record->started_at = again ? 0 : record->started_at;
    job_change_of(change, record, NULL);
    if (!again) {
        char instance[64];
        snprintf(instance, sizeof instance, "/v1/jobs/%s", record->id);
        change->finished_at = clock_now_ms();
        change->error = jobs__problem_text(api_problem_encode(
            API_PROBLEM_CRASHED, "the service ended three times while it ran this job, which is not tried again",
            instance, NULL));
        metric_add(METRIC_JOBS_CRASHED, 1);
        log_event(LOG_LEVEL_ERROR, "job-crashed", "job=%s attempts=%d", record->id, record->attempts);
    }
    return again;
}

static bool admit_again(struct jobs *jobs, struct job_record *record)
{
    pthread_mutex_lock(&jobs->mutex);
    jobs->bytes += jobs_bytes(record);
    jobs__count_locked(jobs, 1, 0);
    pthread_mutex_unlock(&jobs->mutex);
    return jobs_admit(jobs, record);
}

/* Reads the rows and writes their new state in one transaction; what is not queued again is cleared. */
static bool recover_rows(struct jobs *jobs, char (*ids)[UUID_SIZE], struct job_record *records,
                         struct job_change *changes, size_t len)
{
    struct store *store = jobs->server->store;
    struct store_update update = {.changes = changes, .changes_len = len};
    for (size_t i = 0; i < len; i++) {
        if (store_read_job(store, ids[i], &records[i]) != STORE_OK) {
            return false;
        }
        if (!recover_one(&records[i], &changes[i])) {
            job_record_clear(&records[i]);
        }
    }
    return store_update_jobs_wait(store, &update) == STORE_OK;
}

bool jobs_recover(struct jobs *jobs)
{
    char(*ids)[UUID_SIZE] = NULL;
    size_t len = 0;
    size_t queued = 0;
    if (store_list_open(jobs->server->store, &ids, &len) != STORE_OK) {
        return false;
    }
    struct job_record *records = calloc(len ? len : 1, sizeof *records);
    struct job_change *changes = calloc(len ? len : 1, sizeof *changes);
    bool ok = records && changes && (!len || recover_rows(jobs, ids, records, changes, len));
    for (size_t i = 0; i < len && ok; i++) {
        if (records[i].job) {
            ok = admit_again(jobs, &records[i]);
            queued++;
        }
    }
    if (len) {
        log_event(LOG_LEVEL_INFO, "recovered", "queued=%zu crashed=%zu", queued, len - queued);
    }
    for (size_t i = 0; i < len && records && changes; i++) {
        job_record_clear(&records[i]);
        free(changes[i].error);
    }
    free(records);
    free(changes);
    free(ids);
    return ok;
}
