/*
 * The rules between the members of a job, which are checked after the members were read.
 *
 * They are those of eps_job_check(), applied to what could be read. An error of that function is dropped if the first
 * pass has already reported the same member, or if a member only appears to be missing because a related one could not
 * be read. Three more rules concern what the client wrote, such as two members of which only one may be given, and are
 * checked here.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "api/codec/rules.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whether the request has a value at this pointer. */
static bool is_given(const json_t *json, const char *pointer)
{
    while (*pointer == '/' && json) {
        size_t len = strcspn(++pointer, "/");
        char key[64];
        if (len >= sizeof key)
            return false;
        memcpy(key, pointer, len);
        key[len] = '\0';
        size_t numbers;
        if (api__packed(json, &numbers))
            return strtoul(key, NULL, 10) < numbers;
        json = json_is_array(json) ? json_array_get(json, strtoul(key, NULL, 10)) : json_object_get(json, key);
        pointer += len;
    }
    return !api__is_absent(json);
}

static bool is_under(const char *pointer, const char *above)
{
    size_t len = strlen(above);

    return strncmp(pointer, above, len) == 0 && (pointer[len] == '\0' || pointer[len] == '/');
}

/* Whether the kind of job that was written (one mechanism or phases) has the member. */
static bool is_of_kind(const struct api_decoder *decoder, const char *pointer)
{
    char key[64];

    if (*pointer == '\0' || decoder->top != &api__job_object)
        return true;
    uint32_t bit = 1u << api__variant(&api__job_object, NULL, decoder->root);
    snprintf(key, sizeof key, "%.*s", (int)strcspn(pointer + 1, "/"), pointer + 1);
    return api__has_named(&api__job_object, key, bit);
}

/* Whether an error of the first pass makes this one redundant. */
static bool is_moot(const struct api_decoder *decoder, const char *pointer)
{
    const char *slash = strrchr(pointer, '/');
    size_t parent = slash ? (size_t)(slash - pointer) : 0;
    bool given = is_given(decoder->root, pointer);

    if (!is_of_kind(decoder, pointer)) /* the member that replaces it could not be read */
        return true;
    for (size_t i = 0; i < decoder->unjudged_len; i++)
        if (is_under(pointer, decoder->unjudged[i]))
            return true;
    for (size_t i = 0; i < decoder->read_errors; i++) {
        const char *read = decoder->errors->items[i].pointer;
        if (*pointer == '\0') { /* the rule of three: a member that could not be read is not absent */
            if (strcmp(read, "/epsilon") == 0 || strcmp(read, "/delta") == 0 || strcmp(read, "/noise_multiplier") == 0)
                return true;
            continue;
        }
        if (is_under(pointer, read) || is_under(read, pointer))
            return true;
        const char *read_slash = strrchr(read, '/');
        if (!given && read_slash && (size_t)(read_slash - read) == parent && strncmp(read, pointer, parent) == 0)
            return true;
    }
    return false;
}

/* ---------------------------------------------------------------- pointers of the client */

/* The phase to which a pointer of the library leads, and the rest of the pointer; NULL if it leads to none. */
static const struct eps_phase *phase_at(const struct api_job *job, const char *pointer, const char **rest)
{
    static const char prefix[] = "/phases/";
    char *end;

    if (strncmp(pointer, prefix, sizeof prefix - 1) != 0)
        return NULL;
    size_t index = strtoul(pointer + sizeof prefix - 1, &end, 10);
    if (*end != '/' || index >= job->job.phases_len)
        return NULL;
    *rest = end;
    return &job->job.phases[index];
}

/* Whether the rest of a pointer into a phase leads to a member that the job has for all phases. */
static bool is_of_job(const char *rest)
{
    char key[64];

    snprintf(key, sizeof key, "%.*s", (int)strcspn(rest + 1, "/"), rest + 1);
    return !api__has_named(&api__phase_object, key, EPS__ALL);
}

/* Translates a pointer of the library into one of the client. */
static void locate(const struct api_job *job, char out[API_MAX_PATH], const char *pointer)
{
    const char *rest = pointer;
    const struct eps_phase *phase = phase_at(job, pointer, &rest);
    const struct eps_mechanism *mechanism = phase ? &phase->mechanism : &job->job.mechanism;
    int before = phase && !is_of_job(rest) ? (int)(rest - pointer) : 0;

    if (phase && strcmp(rest, "/sampling/examples_per_user") == 0)
        snprintf(out, API_MAX_PATH, "/examples_per_user");
    else if (job->method_alone && strcmp(rest, "/accountant/method") == 0)
        snprintf(out, API_MAX_PATH, "/accountant");
    else if (!isnan(mechanism->epochs) && strcmp(rest, "/n") == 0)
        snprintf(out, API_MAX_PATH, "%.*s/epochs", before, pointer);
    else
        snprintf(out, API_MAX_PATH, "%.*s%s", before, pointer, rest);
}

void api_job_locate(const struct api_job *job, struct eps_error *error)
{
    char where[API_MAX_PATH];

    locate(job, where, error->pointer);
    snprintf(error->pointer, sizeof error->pointer, "%.*s", (int)sizeof error->pointer - 1, where);
}

/* ---------------------------------------------------------------- the rules */

void api__report_rule(void *user, const char *pointer, const char *message)
{
    struct api_decoder *decoder = user;
    char where[API_MAX_PATH];
    const char *rest = pointer;
    bool of_phase = decoder->job && phase_at(decoder->job, pointer, &rest);

    snprintf(where, sizeof where, "%s", pointer);
    if (decoder->job)
        locate(decoder->job, where, pointer);
    if (is_moot(decoder, where))
        return;
    if (of_phase && !is_under(where, "/phases")) /* written once, at the level of the job: reported there */
        api_errors_add(decoder->errors, where, "of %.*s: %s", (int)(rest - pointer), pointer, message);
    else
        api_errors_add(decoder->errors, where, "%s", message);
}

void api__check_steps(struct api_decoder *decoder, const char *path, const json_t *json)
{
    bool n = !api__is_absent(json_object_get(json, "n")), epochs = !api__is_absent(json_object_get(json, "epochs"));
    char where[API_MAX_PATH];

    snprintf(where, sizeof where, "%.200s/%s", path, n ? "epochs" : "n");
    if (n && epochs)
        api_errors_add(decoder->errors, where, "give n or epochs, not both");
    if (!n && !epochs && json_is_object(json))
        api_errors_add(decoder->errors, where,
                       "is required: the number of steps. Or give epochs, with sampling.batch_size and "
                       "sampling.dataset_size; then n is ceil(epochs dataset_size/batch_size)");
}

void api__check_warm_start(struct api_decoder *decoder, const char *path, const json_t *json,
                           const struct eps_sampling *sampling)
{
    char where[API_MAX_PATH];

    if (sampling->warm_start || !json_is_true(json_object_get(json_object_get(json, "sampling"), "warm_start")))
        return;
    snprintf(where, sizeof where, "%s/sampling/warm_start", path);
    api_errors_add(decoder->errors, where,
                   "must be false if examples_per_user is over 1: only the cold start is analysed");
}

void api__check_rules(struct api_decoder *decoder)
{
    struct eps_job *job = &decoder->job->job;
    const json_t *phases = json_object_get(decoder->root, "phases");

    eps_job_defaults(job);
    if (job->phases_len == 0)
        api__check_warm_start(decoder, "", decoder->root, &job->mechanism.sampling);
    for (size_t i = 0; i < job->phases_len; i++) {
        char path[32];
        snprintf(path, sizeof path, "/phases/%zu", i);
        api__check_warm_start(decoder, path, json_array_get(phases, i), &job->phases[i].mechanism.sampling);
    }
    decoder->read_errors = decoder->errors->len;
    eps_job_check(job, decoder->max_n, api__report_rule, decoder);
}
