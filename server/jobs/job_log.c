/*
 * The log lines of a job: at its start, the request that submitted it and the computation that answers it; at its end,
 * the request and client that submitted it, how it ended and with which accountant, how long it ran and how long it
 * waited before.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdio.h>
#include <string.h>

#include "server/jobs/internal.h"
#include "server/ops/log.h"

/* Copies the word after the key. Our encoders wrote the text, so quotes within values are escaped. */
static bool word_after(char *out, size_t size, const char *text, const char *key)
{
    const char *at = text ? strstr(text, key) : NULL;
    size_t len = at ? strcspn(at + strlen(key), "\"") : 0;
    if (!len || len >= size)
        return false;
    memcpy(out, at + strlen(key), len);
    out[len] = '\0';
    return true;
}

/* The accountant of the result, or otherwise the requested one. */
static const char *accountant_of(char out[32], const struct job_record *record, const struct result_record *result)
{
    if (result && result->figures.accountant[0])
        return result->figures.accountant;
    const char *job = record->brief ? record->brief : record->job;
    return word_after(out, 32, job, "\"accountant\":{\"method\":\"") ? out : "none";
}

/* The detail of the error of a failed job as `detail=`; "" if there is none. */
static const char *detail_of(char *out, unsigned size, const char *error)
{
    json_t *problem = error ? json_loads(error, 0, NULL) : NULL;
    const char *detail = json_string_value(json_object_get(problem, "detail"));
    char quoted[600];
    out[0] = '\0';
    if (detail)
        snprintf(out, size, " detail=%s", log_quote(quoted, sizeof quoted, detail));
    json_decref(problem);
    return out;
}

void jobs__log_start(const struct job_change *change, const char *request, const char *hash)
{
    char quoted[REQUEST_ID_SIZE + 2];
    log_event(LOG_LEVEL_INFO, "job-start", "job=%s request=%s hash=%.16s attempt=%d", change->id,
              log_quote(quoted, sizeof quoted, request[0] ? request : "unknown"), hash, change->attempts);
}

void jobs_log_end(const struct job_record *record, const struct result_record *result)
{
    char accountant[32];
    char detail[620];
    char request[REQUEST_ID_SIZE + 2];
    int64_t started = record->started_at ? record->started_at : record->finished_at;
    if (!log_enabled(LOG_LEVEL_INFO))
        return;
    log_event(LOG_LEVEL_INFO, "job-end",
              "job=%s request=%s client=%s status=%s accountant=%s seconds=%.3f waited=%.3f cached=%s attempts=%d%s",
              record->id, log_quote(request, sizeof request, record->request[0] ? record->request : "unknown"),
              record->client[0] ? record->client : "unknown", job_status_name(record->status),
              accountant_of(accountant, record, result), (double)(record->finished_at - started) / 1000,
              record->created_at ? (double)(started - record->created_at) / 1000 : 0.0,
              record->from_cache ? "true" : "false", record->attempts, detail_of(detail, sizeof detail, record->error));
}
