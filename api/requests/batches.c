/*
 * Decodes a request for batches with the tables of the sampling of a job and the rules of the library.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "api/requests/batches.h"

#include <string.h>

#include "api/codec/rules.h"

_Static_assert(sizeof((struct api_batches *)0)->job == API_JOB_ID_SIZE, "a job's id");

/* If there are lists of users, every example must have one. */
static void check_lists(struct api_decoder *decoder, const struct api_batches *batches, uint64_t lists)
{
    bool inside = batches->dataset_size == 0;
    uint64_t given = inside ? batches->mechanism.sampling.dataset_size : batches->dataset_size;
    if (lists > 0 && given != lists)
        api_errors_add(decoder->errors, inside ? "/sampling/dataset_size" : "/dataset_size",
                       "must be the number of user lines that follow, %llu: one line per example",
                       (unsigned long long)lists);
}

/* Checks that the request gives either a job or the members that a job would supply. Returns whether the sampling is
 * part of the request. */
static bool check_source(struct api_decoder *decoder, const json_t *json)
{
    static const char *const own[] = {"/n", "/sampling"};
    bool job = !api__is_absent(json_object_get(json, "job"));

    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        bool given = !api__is_absent(json_object_get(json, own[i] + 1));
        if (job && given)
            api_errors_add(decoder->errors, own[i], "is determined by the job; remove it, or remove job");
        else if (!job && !given)
            api_errors_add(decoder->errors, own[i], "is required; or give job instead of n and sampling");
    }
    return !job;
}

bool api_batches_decode(struct api_batches *batches, struct api_errors *errors, const json_t *json, uint64_t lists,
                        size_t max_n)
{
    struct api_decoder decoder = {
        .errors = errors, .top = &api__batches_object, .root = json, .max_n = max_n > 0 ? max_n : (size_t)1 << 24};
    size_t before = errors->len;
    struct eps_job job;

    eps_job_init(&job);
    *batches = (struct api_batches){.mechanism = job.mechanism, .seed = -1};
    api__read_object(&decoder, "", json, &api__batches_object, batches);
    if (json_is_object(json) && check_source(&decoder, json)) {
        if (batches->dataset_size == 0 && batches->mechanism.sampling.dataset_size == 0)
            batches->dataset_size = lists;
        eps_batches_defaults(&batches->mechanism, batches->dataset_size);
        api__check_warm_start(&decoder, "", json, &batches->mechanism.sampling);
        decoder.read_errors = errors->len;
        eps_batches_check(&batches->mechanism, batches->dataset_size, decoder.max_n, api__report_rule, &decoder);
        check_lists(&decoder, batches, lists);
    }
    return errors->len == before && !errors->out_of_memory;
}

static void report_of_job(void *user, const char *pointer, const char *message)
{
    if (strcmp(pointer, "/dataset_size") == 0)
        api_errors_add(user, pointer, "%s", message);
    else
        api_errors_add(user, "/job", "of its %s: %s", *pointer ? pointer + 1 : "sampling", message);
}

bool api_batches_of_job(struct api_batches *batches, struct api_errors *errors, const struct eps_mechanism *mechanism,
                        uint64_t lists)
{
    struct api_decoder decoder = {.errors = errors};
    size_t before = errors->len;

    batches->mechanism.n = mechanism->n;
    batches->mechanism.sampling = mechanism->sampling;
    if (batches->dataset_size == 0 && mechanism->sampling.dataset_size == 0)
        batches->dataset_size = lists;
    eps_batches_check(&batches->mechanism, batches->dataset_size, mechanism->n, report_of_job, errors);
    check_lists(&decoder, batches, lists);
    return errors->len == before && !errors->out_of_memory;
}
