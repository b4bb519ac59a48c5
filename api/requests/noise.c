/*
 * Decodes a request for noise with a table like that of a job.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "api/requests/noise.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/codec/values.h"

#define DIMENSIONS_MAX 0x7fffffff

_Static_assert(sizeof((struct api_noise *)0)->job == API_JOB_ID_SIZE, "a job's id");

static const char *const dtypes[] = {"float32", "float64"};

const char *api_dtype_name(enum api_dtype dtype)
{
    return (unsigned)dtype < API_DTYPE_COUNT ? dtypes[dtype] : NULL;
}

static const char *dtype_at(unsigned index)
{
    return api_dtype_name((enum api_dtype)index);
}

static const char *part_at(unsigned index)
{
    return eps_part_name((enum eps_part)index);
}

#define PLACE(member) .offset = offsetof(struct api_noise, member), .size = sizeof(((struct api_noise *)0)->member)
#define PARTS (1u << EPS_PART_DECODER | 1u << EPS_PART_NOISE)

static const struct eps__member fields[] = {
    {.name = "job", .type = API_JOB_ID, .variants = EPS__ALL, PLACE(job)},
    {.name = "factorization", .type = EPS__ID, .variants = EPS__ALL, PLACE(factorization)},
    {.name = "noise_multiplier", .type = EPS__REAL, .variants = EPS__ALL, PLACE(noise_multiplier)},
    {.name = "dimensions",
     .type = EPS__INTEGER,
     .required = EPS__ALL,
     .variants = EPS__ALL,
     PLACE(dimensions),
     .least = 1,
     .most = DIMENSIONS_MAX},
    {.name = "part", .type = EPS__NAME, .variants = EPS__ALL, PLACE(part), .name_at = part_at, .allowed = PARTS},
    {.name = "dtype", .type = EPS__NAME, .variants = EPS__ALL, PLACE(dtype), .name_at = dtype_at, .allowed = 3},
    {.name = "seed", .type = EPS__INTEGER, .variants = EPS__ALL, PLACE(seed), .least = 0, .most = EPS__EXACT_MOST},
    {.name = "stream", .type = EPS__ID, .variants = EPS__ALL, PLACE(stream)},
    {.name = "first_row",
     .type = EPS__INTEGER,
     .variants = EPS__ALL,
     PLACE(first_row),
     .least = 0,
     .most = EPS__EXACT_MOST},
    {.name = "workload",
     .type = EPS__OBJECT,
     .variants = EPS__ALL,
     PLACE(workload),
     .object = &eps__workload_object,
     .given_offset = offsetof(struct api_noise, given),
     .given = 1},
};

static const struct eps__object noise_object = {.members = fields, .len = sizeof fields / sizeof fields[0]};

static bool is_given(const json_t *json, const char *name)
{
    const json_t *value = json_object_get(json, name);
    return value && !json_is_null(value);
}

/* read: every member could be read. */
static void check(struct api_errors *errors, const struct api_noise *noise, const json_t *json, bool read)
{
    bool job = is_given(json, "job"), factorization = is_given(json, "factorization");

    if (job == factorization)
        api_errors_add(errors, "", "give %s", job ? "job or factorization, not both" : "job or factorization");
    if (factorization && !is_given(json, "noise_multiplier"))
        api_errors_add(errors, "/noise_multiplier",
                       "is required with factorization, because a factorisation has no noise multiplier");
    if (!isnan(noise->noise_multiplier) && !(noise->noise_multiplier >= EPS_NOISE_MULTIPLIER_LEAST &&
                                             noise->noise_multiplier <= EPS_NOISE_MULTIPLIER_MOST))
        api_errors_add(errors, "/noise_multiplier", "must lie in [1e-9, 1e9]");
    if (is_given(json, "stream") && !is_given(json, "first_row"))
        api_errors_add(errors, "/first_row", "is required with stream: the first row to send");
    if (is_given(json, "first_row") && !is_given(json, "stream") && !is_given(json, "seed"))
        api_errors_add(
            errors, "/first_row",
            "requires stream, the id (X-Stream) of the stream to resume: another stream has other noise, which cannot "
            "continue the first");
    if (noise->given && job)
        api_errors_add(errors, "/workload", "is allowed only with factorization; a job has its own workload");
    else if (noise->given && read && noise->part != EPS_PART_DECODER)
        api_errors_add(errors, "/workload", "is allowed only with part decoder; C^-1 z does not depend on it");
}

struct api_noise *api_noise_decode(struct api_errors *errors, const json_t *json)
{
    struct api_noise *noise = calloc(1, sizeof *noise);
    size_t before = errors->len;

    if (!noise) {
        errors->out_of_memory = true;
        return NULL;
    }
    eps_job_init(&noise->kept.job);
    *noise = (struct api_noise){.noise_multiplier = NAN,
                                .part = EPS_PART_NOISE,
                                .seed = -1,
                                .first_row = -1,
                                .workload = noise->kept.job.mechanism.workload,
                                .kept = noise->kept};
    struct api_decoder decoder = {.errors = errors, .job = &noise->kept, .top = &noise_object, .root = json};
    api__read_object(&decoder, "", json, &noise_object, noise);
    if (json_is_object(json))
        check(errors, noise, json, errors->len == before);
    if (errors->len == before && !errors->out_of_memory)
        return noise;
    api_noise_destroy(noise);
    return NULL;
}

static void report_workload(void *user, const char *pointer, const char *message)
{
    if (strncmp(pointer, "/workload", strlen("/workload")) == 0)
        api_errors_add(user, pointer, "%s", message);
}

bool api_noise_check_workload(struct api_errors *errors, const struct api_noise *noise, size_t n)
{
    struct eps_job job;
    size_t before = errors->len;

    eps_job_init(&job);
    job.mechanism.n = n;
    job.mechanism.workload = noise->workload;
    eps_job_check(&job, n, report_workload, errors);
    return errors->len == before && !errors->out_of_memory;
}

void api_noise_destroy(struct api_noise *noise)
{
    if (!noise)
        return;
    for (size_t i = 0; i < noise->kept.arrays_len; i++)
        free(noise->kept.arrays[i]);
    free(noise->kept.arrays);
    free(noise);
}
