/*
 * Creates, measures and frees records.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/store/records.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

static const char *const status_names[JOB_STATUS_COUNT] = {
    [JOB_QUEUED] = "queued", [JOB_RUNNING] = "running",   [JOB_SUCCEEDED] = "succeeded",
    [JOB_FAILED] = "failed", [JOB_CANCELED] = "canceled",
};

const char *job_status_name(enum job_status status)
{
    return status < JOB_STATUS_COUNT ? status_names[status] : NULL;
}

enum job_status job_status_named(const char *name)
{
    int status = 0;
    while (status < JOB_STATUS_COUNT && strcmp(status_names[status], name) != 0)
        status++;
    return (enum job_status)status;
}

void job_record_clear(struct job_record *record)
{
    free(record->label);
    free(record->job);
    free(record->brief);
    free(record->error);
    *record = (struct job_record){0};
}

void job_record_restart(struct job_record *record)
{
    record->status = JOB_QUEUED;
    record->attempts = 0;
    record->from_cache = false;
    record->version = 0;
    record->started_at = record->finished_at = 0;
    record->error = NULL;
}

void group_record_clear(struct group_record *record)
{
    free(record->label);
    free(record->request);
    *record = (struct group_record){0};
}

struct child_record child_record_new(size_t number)
{
    struct child_record child = {.number = number};
    api_figures_none(&child.figures);
    return child;
}

static size_t bytes_of(const char *text)
{
    return text ? strlen(text) + 1 : 0;
}

static uint64_t length(const char *text)
{
    return text ? strlen(text) : 0;
}

uint64_t job_record_kept(const struct job_record *record)
{
    return KEPT_OVERHEAD + length(record->label) + length(record->job) + length(record->brief);
}

uint64_t group_record_kept(const struct group_record *record)
{
    return KEPT_OVERHEAD + length(record->label) + (KEPT_OVERHEAD + length(record->request)) * record->total;
}

size_t job_record_bytes(const struct job_record *record)
{
    return sizeof *record + bytes_of(record->label) + bytes_of(record->job) + bytes_of(record->brief) +
           bytes_of(record->error);
}

struct result_record *result_record_create(const char hash[HASH_SIZE])
{
    struct result_record *result = calloc(1, sizeof *result);
    if (result) {
        atomic_init(&result->references, 1);
        memcpy(result->hash, hash, HASH_SIZE);
        result->version = EPS_ACCOUNTING_VERSION;
    }
    return result;
}

void result_record_part(struct result_record *result)
{
    result->version = -1 - (int)randombytes_uniform(INT32_MAX);
}

struct result_record *result_record_copy(const struct result_record *result)
{
    struct result_record *copy = result_record_create(result->hash);
    if (!copy)
        return NULL;
    copy->version = result->version;
    copy->finished_at = result->finished_at;
    copy->elapsed_seconds = result->elapsed_seconds;
    copy->figures = result->figures;
    copy->core = strdup(result->core);
    copy->cache = strdup(result->cache);
    copy->curve = result->curve ? strdup(result->curve) : NULL;
    if (!copy->core || !copy->cache || !copy->curve != !result->curve) {
        result_record_release(copy);
        return NULL;
    }
    return copy;
}

struct result_record *result_record_retain(struct result_record *result)
{
    atomic_fetch_add_explicit(&result->references, 1, memory_order_relaxed);
    return result;
}

void result_record_release(struct result_record *result)
{
    if (!result || atomic_fetch_sub_explicit(&result->references, 1, memory_order_acq_rel) != 1)
        return;
    free(result->core);
    free(result->cache);
    free(result->curve);
    free(result->note);
    free(result->points);
    free(result);
}

size_t result_record_bytes(const struct result_record *result)
{
    return sizeof *result + bytes_of(result->core) + bytes_of(result->cache) + bytes_of(result->curve) +
           bytes_of(result->note) + result->points_len * sizeof *result->points;
}
