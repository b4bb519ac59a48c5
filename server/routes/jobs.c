/*
 * The resource /v1/jobs. Its lists come from the database; what they say of a job that is not final is brought up to date
 * from the registry.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/jobs/jobs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/codec.h"
#include "server/routes/resource.h"

bool read_succeeded(struct request *request, struct job_record *record, struct result_record **result,
                    enum handled *handled)
{
    struct jobs *jobs = request->server->jobs;
    *record = (struct job_record){0};
    *result = NULL;
    enum store_status status =
        uuid_valid(request->param) ? store_read_job(request->server->store, request->param, record) : STORE_NONE;
    if (status == STORE_OK && record->status != JOB_SUCCEEDED) {
        *handled = reply_problem(request, API_PROBLEM_CONFLICT, "only a succeeded job has one; this job is %s",
                                 job_status_name(record->status));
        job_record_clear(record);
        return false;
    }
    if (status == STORE_OK) {
        status = jobs_result(jobs, record->hash, record->version, result);
        status = status == STORE_NONE ? STORE_CORRUPT : status;
    }
    if (status != STORE_OK) {
        *handled = reply_unreadable(request, status);
        job_record_clear(record);
        return false;
    }
    return true;
}

/* ---------------------------------------------------------------- lists */

/* A row that fails its digests: all that is certain of it is its id, and that there is no answer in it. */
static void write_damaged(struct text *out, const struct job_record *record)
{
    static char empty[] = "{}";
    char instance[64];
    snprintf(instance, sizeof instance, "/v1/jobs/%s", record->id);
    json_t *problem =
        api_problem_encode(API_PROBLEM_INTERNAL, "what is stored of this job fails its checksum", instance, NULL);
    struct job_record told = {.status = JOB_FAILED, .job = empty, .error = problem ? api_json_text(problem) : NULL};
    memcpy(told.id, record->id, UUID_SIZE);
    document_write(out, &told, NULL, NULL, true, true);
    free(told.error);
    json_decref(problem);
}

static void write_item(struct text *out, struct jobs *jobs, struct job_record *record)
{
    struct result_record *result = NULL;
    struct job_progress progress;
    if (record->damaged) {
        write_damaged(out, record);
        return;
    }
    bool live = !job_status_final(record->status) && jobs_refresh(jobs, record, &progress);
    if (record->status == JOB_SUCCEEDED && jobs_result(jobs, record->hash, record->version, &result) != STORE_OK) {
        result = NULL; /* the job's own page says what is wrong with it */
    }
    document_write(out, record, result, live ? &progress : NULL, true, true);
    result_record_release(result);
}

static enum store_status list(struct server *server, const struct list_filter *filter, struct text *items,
                              char next[UUID_SIZE])
{
    struct list_filter wider = *filter;
    struct job_record *records;
    size_t len;
    wider.limit++; /* to see whether there is a next page */
    enum store_status status = store_list_jobs(server->store, &wider, &records, &len);
    if (status != STORE_OK) {
        return status;
    }
    if (len > filter->limit) {
        memcpy(next, records[filter->limit - 1].id, UUID_SIZE);
    }
    for (size_t i = 0; i < len && i < filter->limit; i++) {
        text_puts(items, i ? "," : "");
        write_item(items, server->jobs, &records[i]);
    }
    for (size_t i = 0; i < len; i++) {
        job_record_clear(&records[i]);
    }
    free(records);
    return STORE_OK;
}

/* ---------------------------------------------------------------- the resource */

static enum store_status get(struct server *server, const char *id, struct document **document)
{
    return jobs_get(server->jobs, id, document);
}

static bool is_live(struct server *server, const char *id)
{
    return jobs_is_live(server->jobs, id);
}

static bool watch(struct server *server, const char *id, struct waiter *waiter)
{
    return jobs_watch(server->jobs, id, waiter);
}

static enum cancel_outcome cancel(struct server *server, const char *id, struct waiter *waiter)
{
    return jobs_cancel(server->jobs, id, waiter);
}

static enum events_next tell(struct server *server, const char *id, uint64_t *seen, struct text *text)
{
    struct job_progress progress;
    uint64_t number;
    if (!jobs_progress(server->jobs, id, &progress, &number)) {
        return EVENTS_LAST;
    }
    if (number == *seen) {
        return EVENTS_NONE;
    }
    *seen = number;
    event_begin(text, "progress", number);
    document_write_progress(text, &progress);
    event_end(text);
    return EVENTS_SOME;
}

static bool listen_one(struct server *server, const char *id, uint64_t seen, struct waiter *waiter)
{
    return jobs_listen(server->jobs, id, seen, waiter);
}

static void remove_one(struct server *server, struct store_delete *deletion)
{
    store_delete_job(server->store, deletion);
}

static void forget(struct server *server, const char *id)
{
    jobs_forget(server->jobs, id);
}

const struct resource job_resource = {
    .path = "/v1/jobs",
    .noun = "job",
    .get = get,
    .is_live = is_live,
    .watch = watch,
    .cancel = cancel,
    .tell = tell,
    .listen = listen_one,
    .remove = remove_one,
    .forget = forget,
    .list = list,
};
