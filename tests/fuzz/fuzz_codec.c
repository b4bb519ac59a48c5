/*
 * The codec with arbitrary bytes: whatever decodes must encode, decode again and keep its hash; whatever does not must
 * have a reason; and no input crashes.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "api/codec/codec.h"
#include "api/problem.h"
#include "tests/fuzz/fuzz.h"

/* A job that was accepted. */
static void post_again(const struct api_job *job)
{
    char hash[65], same[65], message[256];
    struct api_errors errors = {0};
    json_t *canonical = api_job_encode(job, true);
    char *text = api_json_text(canonical);

    DEMAND(text);
    json_t *posted = api_json_parse(text, strlen(text), message, sizeof message);
    DEMAND(posted);
    struct api_job *again = api_job_decode(&errors, posted, 0);
    DEMAND(again && errors.len == 0);
    api_job_hash(hash, job);
    api_job_hash(same, again);
    DEMAND(strlen(hash) == 64 && strcmp(hash, same) == 0);
    api_job_destroy(again);
    json_decref(posted);
    json_decref(canonical);
    free(text);
}

/* A job that was refused: the problem document is whole. */
static void explain(const struct api_errors *errors)
{
    DEMAND(errors->len > 0);
    json_t *problem = api_problem_encode(API_PROBLEM_INVALID_JOB, "refused", NULL, errors);
    DEMAND(problem && json_array_size(json_object_get(problem, "errors")) == errors->len);
    json_decref(problem);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char message[256] = "";
    struct api_errors errors = {0};
    json_t *json = api_json_parse((const char *)data, len, message, sizeof message);

    if (!json) {
        DEMAND(strncmp(message, "line ", 5) == 0);
        return 0;
    }
    struct api_job *job = api_job_decode(&errors, json, 0);
    if (job)
        post_again(job);
    else
        explain(&errors);
    api_job_destroy(job);
    api_errors_clear(&errors);
    json_decref(json);
    return 0;
}
