/*
 * The resource /v1/jobs. Lists are read from the database; the state of jobs that are not final is updated from the
 * registry.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/jobs/jobs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/codec/codec.h"
#include "server/routes/resource.h"

enum store_status find_succeeded(struct server *server, const char *id, struct job_record *record,
                                 struct result_record **result)
{
    *record = (struct job_record){0};
    *result = NULL;
    enum store_status status = uuid_valid(id) ? store_read_job(server->store, id, record) : STORE_NONE;
    if (status == STORE_OK && record->status == JOB_SUCCEEDED) {
        status = jobs_result(server->jobs, record->hash, record->version, result);
        if (status == STORE_NONE)
            status = store_result_lost(record->hash);
    }
    if (status != STORE_OK)
        job_record_clear(record);
    return status;
}

bool read_succeeded(struct request *request, struct job_record *record, struct result_record **result,
                    enum handled *handled)
{
    enum store_status status = find_succeeded(request->server, request->param, record, result);
    if (status != STORE_OK) {
        *handled = reply_unreadable(request, status);
    } else if (!*result) {
        *handled = reply_problem(request, API_PROBLEM_CONFLICT, "only a succeeded job has one; this job is %s",
                                 job_status_name(record->status));
        job_record_clear(record);
    }
    return *result != NULL;
}

/* ---------------------------------------------------------------- lists */

#define PAGE_BYTES (4u << 20) /* a page ends before its limit at this size: an item with many phases may have 200 KB */

/* Writes a row whose digests do not match. Only its id is certain, and that it shows no result. */
static void write_damaged(struct text *out, const struct job_record *record)
{
    static char empty[] = "{}";
    char instance[64];
    snprintf(instance, sizeof instance, "/v1/jobs/%s", record->id);
    json_t *problem =
        api_problem_encode(API_PROBLEM_INTERNAL, "the stored data of this job fails its checksum", instance, NULL);
    struct job_record told = {.status = JOB_FAILED, .job = empty, .error = api_json_text_new(problem)};
    memcpy(told.id, record->id, UUID_SIZE);
    document_write(out, &told, NULL, NULL, true, true);
    free(told.error);
}

/* Writes the state of a job according to the registry. */
static void write_live(struct text *out, bool live, const struct job_record *record,
                       const struct job_progress *progress)
{
    if (live) {
        text_printf(out, "%d %d %lld ", (int)record->status, record->attempts, (long long)record->started_at);
        document_write_progress(out, progress);
    }
    text_puts(out, "\n");
}

static void tell_open(const struct resource *resource, struct server *server, const char *id, struct text *told)
{
    (void)resource;
    struct job_record record = {0};
    struct job_progress progress;
    memcpy(record.id, id, UUID_SIZE);
    bool live = jobs_refresh(server->jobs, &record, &progress);
    write_live(told, live, &record, &progress);
}

static void write_item(struct text *out, struct jobs *jobs, struct job_record *record, struct list_notes *notes)
{
    struct result_record *result = NULL;
    struct job_progress progress;
    if (record->damaged) {
        notes->unsure = true;
        write_damaged(out, record);
        return;
    }
    bool open = !job_status_final(record->status);
    bool live = open && jobs_refresh(jobs, record, &progress);
    if (open) {
        text_append(&notes->open, record->id, UUID_SIZE);
        write_live(&notes->told, live, record, &progress);
    }
    if (record->status == JOB_SUCCEEDED && jobs_result(jobs, record->hash, record->version, &result) != STORE_OK) {
        result = NULL; /* the page of the job itself reports the error */
        notes->unsure = true;
    }
    document_write(out, record, result, live ? &progress : NULL, true, true);
    result_record_release(result);
}

static enum store_status list(const struct resource *resource, struct server *server, const struct list_filter *filter,
                              struct text *items, char next[UUID_SIZE], struct list_notes *notes)
{
    (void)resource;
    struct list_filter wider = *filter;
    struct job_record *records;
    size_t len;
    wider.limit++; /* to find out whether there is a next page */
    enum store_status status = store_list_jobs(server->store, &wider, &records, &len);
    if (status != STORE_OK)
        return status;
    size_t written = 0;
    while (written < len && written < filter->limit && items->len < PAGE_BYTES) {
        text_puts(items, written ? "," : "");
        write_item(items, server->jobs, &records[written++], notes);
    }
    if (written < len)
        memcpy(next, records[written - 1].id, UUID_SIZE);
    for (size_t i = 0; i < len; i++)
        job_record_clear(&records[i]);
    free(records);
    return STORE_OK;
}

/* ---------------------------------------------------------------- the resource */

static enum store_status get(const struct resource *resource, struct server *server, const char *id,
                             struct document **document)
{
    (void)resource;
    return jobs_get(server->jobs, id, document);
}

static bool is_live(const struct resource *resource, struct server *server, const char *id)
{
    (void)resource;
    return jobs_is_live(server->jobs, id);
}

static bool watch(const struct resource *resource, struct server *server, const char *id, struct waiter *waiter)
{
    (void)resource;
    return jobs_watch(server->jobs, id, waiter);
}

static enum cancel_outcome cancel(const struct resource *resource, struct server *server, const char *id,
                                  struct waiter *waiter)
{
    (void)resource;
    return jobs_cancel(server->jobs, id, waiter);
}

static enum events_next tell(const struct resource *resource, struct server *server, const char *id, uint64_t *seen,
                             struct text *text)
{
    (void)resource;
    struct job_progress progress;
    uint64_t number;
    if (!jobs_progress(server->jobs, id, &progress, &number))
        return EVENTS_LAST;
    if (number == *seen)
        return EVENTS_NONE;
    *seen = number;
    event_begin(text, "progress", number);
    document_write_progress(text, &progress);
    event_end(text);
    return EVENTS_SOME;
}

static bool listen_one(const struct resource *resource, struct server *server, const char *id, uint64_t seen,
                       struct waiter *waiter)
{
    (void)resource;
    return jobs_listen(server->jobs, id, seen, waiter);
}

static void remove_one(const struct resource *resource, struct server *server, struct store_delete *deletion)
{
    (void)resource;
    store_delete_job(server->store, deletion);
}

static void forget(const struct resource *resource, struct server *server, const char *id)
{
    (void)resource;
    jobs_forget(server->jobs, id);
}

const struct resource job_resource = {
    .path = "/v1/jobs",
    .noun = "job",
    .absent = "there is no job with this id",
    .get = get,
    .is_live = is_live,
    .watch = watch,
    .cancel = cancel,
    .tell = tell,
    .listen = listen_one,
    .remove = remove_one,
    .forget = forget,
    .list = list,
    .tell_open = tell_open,
};
