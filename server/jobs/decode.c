/*
 * Decodes jobs.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/jobs/decode.h"

#include <stdio.h>
#include <string.h>

#include "server/jobs/realm.h"
#include "server/ops/log.h"
#include "server/ops/metrics.h"

struct api_job *decode_request(const char *text, size_t len, uint64_t max_n, const char *instance, json_t **problem)
{
    char message[256];
    struct api_errors errors = {0};
    json_t *json = api_json_parse(text, len, message, sizeof message);
    if (!json) {
        *problem = api_problem_encode(message[0] ? API_PROBLEM_MALFORMED_JSON : API_PROBLEM_INTERNAL,
                                      message[0] ? message : "out of memory", instance, NULL);
        return NULL;
    }
    struct api_job *job = api_job_decode(&errors, json, (size_t)max_n);
    if (!job) {
        enum api_problem kind = errors.out_of_memory ? API_PROBLEM_INTERNAL : API_PROBLEM_INVALID_JOB;
        *problem = api_problem_encode(kind, NULL, instance, &errors);
    }
    api_errors_clear(&errors);
    json_decref(json);
    return job;
}

/* Whether the job is the one that was accepted. */
static bool is_accepted(const struct api_job *job, const struct job_record *record, const struct config *config,
                        struct eps_error *error)
{
    char hash[HASH_SIZE];
    if (record->checked)
        return true;
    api_job_hash(hash, job);
    realm_hash(realm_of(config, &record->poster), hash);
    if (!hash[0]) {
        *error = (struct eps_error){.status = EPS_NO_MEMORY, .message = "out of memory"};
        return false;
    }
    if (strcmp(hash, record->hash) == 0)
        return true;
    log_event(LOG_LEVEL_ERROR, "checksum", "table=jobs key=%s detail=\"the hash of the text differs\"", record->id);
    metric_add(METRIC_CHECKSUM_FAILURES, 1);
    error->status = EPS_INTERNAL;
    snprintf(error->message, sizeof error->message,
             "the stored job is not the one that was accepted (its hash differs); post it again");
    return false;
}

struct api_job *decode_stored(const struct job_record *record, const struct config *config, struct eps_error *error)
{
    struct api_errors errors = {0};
    *error = (struct eps_error){0};
    json_t *json = api_json_parse(record->job, strlen(record->job), error->message, sizeof error->message);
    struct api_job *job = json ? api_job_decode(&errors, json, (size_t)config->max_n) : NULL;
    if (!job && (json ? errors.out_of_memory : !error->message[0])) {
        *error = (struct eps_error){.status = EPS_NO_MEMORY, .message = "out of memory"};
    } else if (!job) {
        error->status = json ? EPS_INVALID : EPS_INTERNAL;
        if (errors.len) {
            snprintf(error->pointer, sizeof error->pointer, "%s", errors.items[0].pointer);
            snprintf(error->message, sizeof error->message, "%s", errors.items[0].detail);
        }
    } else if (!is_accepted(job, record, config, error)) {
        api_job_destroy(job);
        job = NULL;
    }
    api_errors_clear(&errors);
    json_decref(json);
    return job;
}
