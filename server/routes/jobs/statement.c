/*
 * GET /v1/jobs/{id}/statement. A job with long arrays is neither parsed nor printed: its short form is used, and JSON
 * contains the stored text.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/routes/jobs/statement.h"

#include <stdlib.h>
#include <string.h>

#include "api/codec/codec.h"
#include "server/routes/routes.h"

#define PRINTED_JOB 16384 /* bytes; a longer job is not printed on the page */

/* The page shows the job without its label, which is not part of its identity and could contain the end of a code
 * block. */
static char *printed_job(const char *job)
{
    char message[160];
    json_t *json = api_json_parse(job, strlen(job), message, sizeof message);
    if (json)
        json_object_del(json, "label");
    return api_json_text_new(json);
}

static void write_markdown(struct text *out, const json_t *facts, const struct job_record *record)
{
    bool whole = !record->brief || strlen(record->job) <= PRINTED_JOB;
    char *job = printed_job(whole ? record->job : record->brief);
    if (job)
        statement_markdown(out, facts, job, whole);
    out->failed = out->failed || !job;
    free(job);
}

/* The job is appended to the facts as text, because it is the only part that can be long. */
static void write_json(struct text *out, const json_t *facts, const struct job_record *record)
{
    text_value(out, facts);
    out->len -= !out->failed; /* the brace */
    text_puts(out, ",\"job\":");
    text_puts(out, record->job);
    text_puts(out, "}\n");
}

enum handled handle_job_statement(struct request *request)
{
    struct job_record record;
    struct result_record *result;
    enum handled handled;
    if (!read_succeeded(request, &record, &result, &handled))
        return handled;
    memcpy(request->job, record.id, UUID_SIZE);
    struct text text = {0};
    bool markdown = strcmp(request->route->produces[request->offer], "text/markdown") == 0;
    json_t *facts = statement_facts(&record, result);
    if (facts && markdown)
        write_markdown(&text, facts, &record);
    else if (facts)
        write_json(&text, facts, &record);
    text.failed = text.failed || !facts;
    json_decref(facts);
    result_record_release(result);
    job_record_clear(&record);
    reply_header(request, MHD_HTTP_HEADER_VARY, "Accept");
    return reply_text(request, 200, markdown ? "text/markdown; charset=utf-8" : "application/json", &text, true);
}
