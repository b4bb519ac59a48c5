/*
 * Assembles the document of a job. The stored text of a result lacks its last brace (see results in migrations/); its
 * curve, cache and elapsed_seconds are added here, because only they differ between the job that computed it and the
 * jobs answered from the cache.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/jobs/document.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define OVERHEAD 1024 /* names, times and links */

/* The bytes that a result adds to a document, without its points, which would make every document five times as
 * large. */
static size_t result_text_bytes(const struct result_record *result)
{
    return strlen(result->core) + strlen(result->cache) + (result->curve ? strlen(result->curve) : 0);
}

void document_write_time(struct text *out, const char *member, int64_t ms)
{
    char time[25];
    text_puts(out, ",\"");
    text_puts(out, member);
    text_puts(out, "\":");
    if (ms)
        clock_rfc3339(time, ms);
    text_json(out, ms ? time : NULL);
}

void document_write_progress(struct text *out, const struct job_progress *progress)
{
    text_puts(out, "{\"fraction\":");
    text_number(out, progress->fraction);
    text_puts(out, ",\"stage\":");
    text_json(out, progress->stage);
    text_puts(out, ",\"remaining_seconds\":");
    text_number(out, progress->remaining_seconds);
    text_puts(out, "}");
}

static void write_progress(struct text *out, const struct job_record *record, const struct job_progress *progress)
{
    if (progress) {
        text_puts(out, "\"progress\":");
        document_write_progress(out, progress);
        text_puts(out, ",");
    } else if (record->status == JOB_SUCCEEDED) {
        text_puts(out, "\"progress\":{\"fraction\":1.0,\"stage\":\"done\",\"remaining_seconds\":0},");
    } else {
        text_puts(out, "\"progress\":{\"fraction\":0.0,\"stage\":null,\"remaining_seconds\":null},");
    }
}

static void write_result(struct text *out, const struct job_record *record, const struct result_record *result,
                         bool brief)
{
    text_puts(out, ",\"result\":");
    text_puts(out, result->core);
    if (result->curve && !brief) {
        text_puts(out, ",\"curve\":");
        text_puts(out, result->curve);
    }
    if (record->from_cache) {
        text_puts(out, ",\"cache\":{\"result\":\"hit\",\"factorization\":\"unused\",\"pld\":\"unused\"},"
                       "\"elapsed_seconds\":0.0}");
    } else {
        text_puts(out, ",\"cache\":");
        text_puts(out, result->cache);
        text_puts(out, ",\"elapsed_seconds\":");
        text_number(out, result->elapsed_seconds);
        text_puts(out, "}");
    }
}

static void write_links(struct text *out, const char *id)
{
    /* Without printf, because this is written for every cached job that is posted. */
    static const struct {
        const char *name;
        const char *path;
    } links[] = {{"self", ""},          {"events", "/events"},       {"cancel", "/cancel"},
                 {"matrix", "/matrix"}, {"mechanism", "/mechanism"}, {"error", "/error"},
                 {"curve", "/curve"},   {"spend", "/spend"},         {"statement", "/statement"}};
    for (size_t i = 0; i < sizeof links / sizeof links[0]; i++) {
        text_puts(out, i ? ",\"" : ",\"links\":{\"");
        text_puts(out, links[i].name);
        text_puts(out, "\":\"/v1/jobs/");
        text_puts(out, id);
        text_puts(out, links[i].path);
        text_puts(out, "\"");
    }
    /* the noise and batches requests take the id of the job */
    text_puts(out, ",\"batches\":\"/v1/batches\",\"noise\":\"/v1/noise\"}");
}

void document_write(struct text *out, const struct job_record *record, const struct result_record *result,
                    const struct job_progress *progress, bool brief, bool links)
{
    text_puts(out, "{\"id\":\"");
    text_puts(out, record->id);
    text_puts(out, "\",\"status\":\"");
    text_puts(out, job_status_name(record->status));
    text_puts(out, "\",\"label\":");
    text_json(out, record->label);
    document_write_time(out, "created_at", record->created_at);
    document_write_time(out, "started_at", record->started_at);
    document_write_time(out, "finished_at", record->finished_at);
    text_printf(out, ",\"attempts\":%d,", record->attempts);
    write_progress(out, record, progress);
    text_puts(out, "\"job\":");
    text_puts(out, brief && record->brief ? record->brief : record->job);
    if (result)
        write_result(out, record, result, brief);
    if (record->error) {
        text_puts(out, ",\"error\":");
        text_puts(out, record->error);
    }
    if (links)
        write_links(out, record->id);
    text_puts(out, "}");
}

struct document *document_create(const struct job_record *record, const struct result_record *result,
                                 const struct job_progress *progress)
{
    struct text text = {0};
    text_expect(&text, OVERHEAD + job_record_bytes(record) + (result ? result_text_bytes(result) : 0));
    document_write(&text, record, result, progress, false, true);
    return document_make(&text, record->id, job_status_final(record->status));
}
