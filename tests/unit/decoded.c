/*
 * Requests for tests of the codec.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "tests/unit/decoded.h"

#include <stdio.h>
#include <string.h>

#include "tests/unit/test.h"

json_t *parsed(const char *text)
{
    char message[256];
    json_t *json = api_json_parse(text, strlen(text), message, sizeof message);

    if (!json)
        fail_msg("%s: %s", text, message);
    return json;
}

struct api_job *decoded(const char *text)
{
    struct api_errors errors = {0};
    json_t *json = parsed(text);
    struct api_job *job = api_job_decode(&errors, json, 0);

    if (!job)
        fail_msg("%s refused: %s: %s", text, errors.items[0].pointer, errors.items[0].detail);
    json_decref(json);
    return job;
}

void decoded_hash(char hash[65], const char *text)
{
    struct api_job *job = decoded(text);

    api_job_hash(hash, job);
    assert_int_equal(strlen(hash), 64);
    api_job_destroy(job);
}

void refused_at(char *pointers, size_t size, const char *text)
{
    struct api_errors errors = {0};
    json_t *json = parsed(text);
    struct api_job *job = api_job_decode(&errors, json, 0);
    size_t used = 0;

    assert_true(!job == (errors.len > 0));
    pointers[0] = '\0';
    for (size_t i = 0; i < errors.len && used < size; i++) {
        const char *pointer = *errors.items[i].pointer ? errors.items[i].pointer : "-";
        used += (size_t)snprintf(pointers + used, size - used, "%s%s", i ? " " : "", pointer);
        assert_true(strlen(errors.items[i].detail) > 5);
    }
    api_job_destroy(job);
    api_errors_clear(&errors);
    json_decref(json);
}
