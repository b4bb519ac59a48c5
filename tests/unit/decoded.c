/*
 * Requests for tests of the codec.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "tests/unit/decoded.h"

#include <stdio.h>
#include <stdlib.h>
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

json_t *lines_of(const char *path)
{
    FILE *file = fopen(path, "r");
    char *text = NULL;
    size_t size = 0;
    json_t *lines = json_array();

    if (!file)
        fail_msg("%s cannot be read", path);
    while (getline(&text, &size, file) > 0)
        json_array_append_new(lines, parsed(text));
    free(text);
    fclose(file);
    if (json_array_size(lines) == 0)
        fail_msg("%s is empty", path);
    return lines;
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
