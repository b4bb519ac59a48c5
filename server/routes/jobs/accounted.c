/*
 * Finds the mechanism of a job by its id, in the form for which the job was answered, or reports the problem to the
 * client.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/routes/jobs/accounted.h"

#include <stdio.h>
#include <string.h>

#include "server/jobs/decode.h"
#include "server/routes/resource.h"

static bool refuse_unread(struct streaming *streaming, enum store_status status)
{
    if (status == STORE_NONE) {
        streaming_fail(streaming, API_PROBLEM_NOT_FOUND, "there is no job with this id");
    } else {
        streaming_fail(streaming, API_PROBLEM_INTERNAL,
                       status == STORE_CORRUPT ? "the stored data of this job fails its checksum; post the job again"
                                               : "the database could not be read");
    }
    return false;
}

static bool decode_job(struct streaming *streaming, struct accounted *accounted, const struct job_record *record,
                       const struct result_record *result, const char *what)
{
    struct eps_error error;
    json_t *problem = NULL;
    accounted->decoded = decode_stored(record, streaming->server->config, &error);
    if (!accounted->decoded) {
        streaming_fail(streaming, API_PROBLEM_INTERNAL, error.message);
        return false;
    }
    if (!answered_read(&accounted->answered, &accounted->decoded->job, result, request_phase(streaming->request), true,
                       streaming->request->path, &problem)) {
        streaming_refuse(streaming, problem);
        return false;
    }
    if (accounted->answered.count == 0) {
        char detail[128];
        snprintf(detail, sizeof detail,
                 "the answer is that this phase is never run (count is 0), so there is no %s to draw", what);
        streaming_fail(streaming, API_PROBLEM_CONFLICT, detail);
        return false;
    }
    return true;
}

bool accounted_find(struct streaming *streaming, struct accounted *accounted, const char *id, const char *what)
{
    struct job_record record;
    struct result_record *result;
    *accounted = (struct accounted){.decoded = NULL};
    if (!resource_visible(streaming->server, &streaming->request->client, id))
        return refuse_unread(streaming, STORE_NONE);
    enum store_status status = find_succeeded(streaming->server, id, &record, &result);
    if (status != STORE_OK)
        return refuse_unread(streaming, status);
    memcpy(streaming->request->job, record.id, UUID_SIZE);
    accounted->poster = record.poster;
    bool found = false;
    if (result) {
        found = decode_job(streaming, accounted, &record, result, what);
        result_record_release(result);
    } else {
        char detail[128];
        snprintf(detail, sizeof detail, "%s can be drawn only for a succeeded job; this job is %s", what,
                 job_status_name(record.status));
        streaming_fail(streaming, API_PROBLEM_CONFLICT, detail);
    }
    job_record_clear(&record);
    return found;
}

void accounted_clear(struct accounted *accounted)
{
    api_job_destroy(accounted->decoded);
    accounted->decoded = NULL;
}
