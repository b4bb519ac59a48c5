/*
 * Decodes plans. The members that a plan shares with a job (sizes, workload, epsilon and delta) are decoded as a job,
 * DP-SGD with these sizes, once for each number of a list.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/codec/meant.h"
#include "api/codec/values.h"
#include "api/requests/plan_text.h"

#define WHERE_MAX 96
enum { NAMES_MAX = 32 }; /* as many as there are bits */

#define SECONDS_DEFAULT 60 /* of a verification */

const char *const api__plan_members[] = {
    "n",         "epochs",    "batch_size", "dataset_size", "epsilon", "delta",       "workload", "objective",
    "adjacency", "max_bands", "schemes",    "families",     "verify",  "max_seconds", "label",    NULL};

struct reading {
    struct api_errors *errors;
    const json_t *json;
    size_t max_n;
    struct eps_plan plan;
    double max_seconds;  /* NAN: nothing is verified */
    struct api_job *job; /* the job of the first pair; the plan uses its arrays */
    size_t n[EPS_PLAN_PAIRS_MAX];
    double epochs[EPS_PLAN_PAIRS_MAX];
    uint64_t batches[EPS_PLAN_PAIRS_MAX];
};

static const json_t *member(const json_t *json, const char *name)
{
    const json_t *value = json_object_get(json, name);
    return json_is_null(value) ? NULL : value;
}

/* ---------------------------------------------------------------- lists */

static json_t *list_item(const struct reading *reading, const char *name, size_t i)
{
    json_t *value = json_object_get(reading->json, name);
    return json_is_array(value) ? json_array_get(value, i) : value;
}

/* The count of numbers of a member that may be a number or a list. Returns 0 if it is absent, or wrong, with an
 * error. */
static size_t list_len(struct reading *reading, const char *name)
{
    const json_t *value = member(reading->json, name);
    char where[WHERE_MAX];
    size_t packed;
    if (!value)
        return 0;
    snprintf(where, sizeof where, "/%s", name);
    if (api__packed(value, &packed) || json_array_size(value) > EPS_PLAN_PAIRS_MAX ||
        (json_is_array(value) && !json_array_size(value))) {
        api_errors_add(reading->errors, where, "must be a number or an array of at most %d numbers",
                       EPS_PLAN_PAIRS_MAX);
        return 0;
    }
    size_t len = json_is_array(value) ? json_array_size(value) : 1;
    for (size_t i = 0; i < len; i++)
        if (api__is_word(list_item(reading, name, i), "max")) { /* allowed in a job but not here */
            if (json_is_array(value))
                snprintf(where, sizeof where, "/%s/%zu", name, i);
            api_errors_add(reading->errors, where, "must be a number, not a string");
            return 0;
        }
    return len;
}

static void refuse_name(struct reading *reading, const char *where, const char *list, const json_t *item,
                        const char *(*name_at)(unsigned), unsigned count)
{
    const char *names[NAMES_MAX], *meant = NULL;
    assert(count <= NAMES_MAX);
    for (unsigned i = 0; i < count; i++)
        names[i] = name_at(i);
    if (api__is_string(item))
        meant = api_meant(json_string_value(item), names, count);
    api_errors_add(reading->errors, where, "must be the name of one of the %s that GET /v1 lists%s%s%s", list,
                   meant ? "; did you mean " : "", meant ? meant : "", meant ? "?" : "");
}

/* Converts names to bits. */
static uint32_t read_names(struct reading *reading, const char *name, const char *(*name_at)(unsigned), unsigned count)
{
    const json_t *value = member(reading->json, name), *item;
    uint32_t bits = 0;
    char where[WHERE_MAX];
    size_t i, packed;
    snprintf(where, sizeof where, "/%s", name);
    if (value && (!json_is_array(value) || api__packed(value, &packed) || !json_array_size(value)))
        api_errors_add(reading->errors, where, "must be an array of at least 1 name");
    json_array_foreach (value, i, item) {
        unsigned found = 0;
        while (found < count && !api__is_word(item, name_at(found)))
            found++;
        snprintf(where, sizeof where, "/%s/%zu", name, i);
        if (found == count)
            refuse_name(reading, where, name, item, name_at, count);
        else
            bits |= 1u << found;
    }
    return bits;
}

static const char *scheme_at(unsigned index)
{
    return eps_scheme_name((enum eps_scheme)index);
}

static const char *family_at(unsigned index)
{
    return eps_family_name((enum eps_family)index);
}

/* ---------------------------------------------------------------- as a job */

/* The place where the client wrote the member. */
static const char *place_of(const struct reading *reading, char where[WHERE_MAX], const char *pointer, size_t length,
                            size_t batch)
{
    const char *name = NULL;
    size_t i = 0, len = 1;
    if (!strcmp(pointer, "/n") || !strcmp(pointer, "/epochs")) {
        name = pointer + 1;
        i = length;
    } else if (!strncmp(pointer, "/sampling/", 10)) {
        name = pointer + 10;
        i = !strcmp(name, "batch_size") ? batch : 0;
    }
    if (!name)
        return pointer;
    len = json_is_array(json_object_get(reading->json, name)) ? 2 : 1;
    snprintf(where, WHERE_MAX, len > 1 ? "/%s/%zu" : "/%s", name, i);
    return where;
}

static bool known_already(const struct api_errors *errors, const struct api_violation *violation, const char *where)
{
    for (size_t i = 0; i < errors->len; i++)
        if (!strcmp(errors->items[i].pointer, where) && !strcmp(errors->items[i].detail, violation->detail))
            return true;
    return false;
}

/* Sets a member to a borrowed value, unless that is absent. Returns false if memory runs out. */
static bool put(json_t *object, const char *name, json_t *value)
{
    return !value || json_is_null(value) || json_object_set(object, name, value) == 0;
}

/* The job of DP-SGD with the sizes of one pair. Returns NULL with errors. */
static struct api_job *decode_pair(struct reading *reading, const char *length_name, size_t length, size_t batch)
{
    static const char *const same[] = {"epsilon", "delta", "workload", "adjacency"};
    struct api_errors found = {0};
    json_t *sampling = json_pack("{s:s}", "scheme", "poisson");
    json_t *job = json_object();
    bool ok = sampling && job && put(sampling, "batch_size", list_item(reading, "batch_size", batch)) &&
              put(sampling, "dataset_size", json_object_get(reading->json, "dataset_size")) &&
              put(job, length_name, list_item(reading, length_name, length)) && put(job, "sampling", sampling);
    for (size_t i = 0; ok && i < sizeof same / sizeof *same; i++)
        ok = put(job, same[i], json_object_get(reading->json, same[i]));
    found.out_of_memory = !ok;
    struct api_job *decoded = found.out_of_memory ? NULL : api_job_decode(&found, job, reading->max_n);
    for (size_t i = 0; i < found.len; i++) {
        char at[WHERE_MAX];
        const char *where = place_of(reading, at, found.items[i].pointer, length, batch);
        if (!known_already(reading->errors, &found.items[i], where))
            api_errors_add(reading->errors, where, "%s", found.items[i].detail);
    }
    reading->errors->out_of_memory |= found.out_of_memory;
    api_errors_clear(&found);
    json_decref(sampling);
    json_decref(job);
    return decoded;
}

/* Decodes each number of either list together with the first one of the other. */
static void read_sizes(struct reading *reading)
{
    bool by_epochs = member(reading->json, "epochs") != NULL;
    const char *name = by_epochs ? "epochs" : "n";
    size_t lengths = list_len(reading, name), batches = list_len(reading, "batch_size");
    if (by_epochs && member(reading->json, "n"))
        api_errors_add(reading->errors, "/epochs", "give n or epochs, not both");
    if (!by_epochs && !member(reading->json, "n"))
        api_errors_add(reading->errors, "/n", "is required: the number of steps; or give epochs");
    if (!member(reading->json, "batch_size"))
        api_errors_add(reading->errors, "/batch_size", "is required: the expected batch size");
    if (!member(reading->json, "dataset_size"))
        api_errors_add(reading->errors, "/dataset_size", "is required: the number of examples");
    if (!member(reading->json, "epsilon"))
        api_errors_add(reading->errors, "/epsilon", "is required");
    if (!member(reading->json, "delta"))
        api_errors_add(reading->errors, "/delta", "is required");
    if (!lengths || !batches || reading->errors->len)
        return;
    for (size_t i = 0; i < lengths + batches - 1; i++) {
        size_t length = i < lengths ? i : 0, batch = i < lengths ? 0 : i - lengths + 1;
        struct api_job *job = decode_pair(reading, name, length, batch);
        if (job) {
            reading->n[length] = job->job.mechanism.n;
            reading->epochs[length] = job->job.mechanism.epochs;
            reading->batches[batch] = job->job.mechanism.sampling.batch_size;
        }
        if (job && !reading->job)
            reading->job = job;
        else
            api_job_destroy(job);
    }
    reading->plan.n = reading->n;
    reading->plan.n_len = by_epochs ? 0 : lengths;
    reading->plan.epochs = reading->epochs;
    reading->plan.epochs_len = by_epochs ? lengths : 0;
    reading->plan.batch_sizes = reading->batches;
    reading->plan.batch_sizes_len = batches;
}

static void read_objective(struct reading *reading)
{
    const json_t *value = member(reading->json, "objective");
    if (!value)
        return;
    for (unsigned i = 0; i < EPS_OBJECTIVE_COUNT; i++)
        if (api__is_word(value, eps_objective_name((enum eps_objective)i))) {
            reading->plan.objective = (enum eps_objective)i;
            return;
        }
    api_errors_add(reading->errors, "/objective", "must be mean_squared or max_squared");
}

static void read_max_bands(struct reading *reading)
{
    static const struct eps__member field = {.least = 1, .most = EPS__EXACT_MOST, .size = sizeof(size_t)};
    struct api_decoder decoder = {.errors = reading->errors, .max_n = reading->max_n};
    const json_t *value = member(reading->json, "max_bands");
    if (value)
        api__read_integer(&decoder, "/max_bands", value, &field, &reading->plan.max_bands);
}

/* Reads how candidates are verified, and how long that may take for each of them. */
static void read_verify(struct reading *reading)
{
    const json_t *verify = member(reading->json, "verify"), *seconds = member(reading->json, "max_seconds");
    struct api_decoder decoder = {.errors = reading->errors, .max_n = reading->max_n};
    double value = SECONDS_DEFAULT;
    bool draws = verify && api__is_word(verify, "draws");
    if (verify && !draws)
        api_errors_add(reading->errors, "/verify",
                       "must be \"draws\": the noise of the best candidates by estimate is verified by monte_carlo; "
                       "leave it out for a plan by proofs");
    if (seconds && !verify)
        api_errors_add(reading->errors, "/max_seconds",
                       "is the time of a verification: add \"verify\": \"draws\", or leave it out");
    if (seconds && verify) {
        size_t before = reading->errors->len;
        api__read_real(&decoder, "/max_seconds", seconds, "a number", &value);
        if (reading->errors->len == before && !(value >= 1e-3 && value <= 1e9))
            api_errors_add(reading->errors, "/max_seconds", "must lie in [0.001, 1e9]");
    }
    if (draws) {
        reading->plan.verified = EPS_PLAN_VERIFIED_MOST;
        reading->max_seconds = value;
    }
}

static void refuse_unknown(struct reading *reading)
{
    const char *name;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)reading->json, name, value) {
        size_t i = 0;
        char where[WHERE_MAX];
        while (api__plan_members[i] && strcmp(api__plan_members[i], name) != 0)
            i++;
        if (api__plan_members[i])
            continue;
        snprintf(where, sizeof where, "/%.80s", name);
        const char *meant = api_meant(name, api__plan_members, i);
        api_errors_add(reading->errors, where,
                       "unknown field%s%s%s: n, epochs, batch_size, dataset_size, epsilon, delta, workload, objective, "
                       "adjacency, max_bands, schemes, families, verify, max_seconds, label",
                       meant ? "; did you mean " : "", meant ? meant : "", meant ? "? Allowed" : "; allowed");
    }
}

static void report(void *user, const char *pointer, const char *message)
{
    api_errors_add(user, pointer, "%s", message);
}

/* ---------------------------------------------------------------- the plan */

/* The job of each candidate contains the numbers of the workload, so their total is limited. */
static void check_workload(struct reading *reading)
{
    const struct eps_plan *plan = &reading->plan;
    size_t pairs = (plan->n_len + plan->epochs_len) * plan->batch_sizes_len;
    if (plan->workload.coefficients_len * pairs > API_PLAN_NUMBERS)
        api_errors_add(
            reading->errors, "/workload/coefficients",
            "has %zu numbers for each of %zu pairs of sizes, and the job of every candidate would contain them; a plan "
            "allows %d in total. Compare the mechanisms in a sweep instead",
            plan->workload.coefficients_len, pairs, API_PLAN_NUMBERS);
}

static struct api_plan *make(struct reading *reading, const struct eps_context *context)
{
    struct eps_plan_candidate *candidates = NULL;
    struct eps_error error = {0};
    size_t len = 0;
    enum eps_status status = eps_plan_candidates(context, &candidates, &len, &error, &reading->plan, reading->max_n);
    if (status != EPS_OK) {
        if (status == EPS_NO_MEMORY)
            reading->errors->out_of_memory = true;
        else
            api_errors_add(reading->errors, error.pointer, "%s", error.message);
        return NULL;
    }
    struct api_plan *plan =
        api__plan_write(reading->json, reading->plan.objective, reading->max_seconds, candidates, len);
    if (!plan)
        reading->errors->out_of_memory = true;
    free(candidates);
    return plan;
}

struct api_plan *api_plan_decode(struct api_errors *errors, const struct eps_context *context, const json_t *json,
                                 size_t max_n)
{
    struct reading reading = {.errors = errors, .json = json, .max_n = max_n, .max_seconds = NAN};
    struct api_plan *plan = NULL;
    eps_plan_init(&reading.plan);
    if (!json_is_object(json)) {
        api_errors_add(errors, "", "must be an object");
        return NULL;
    }
    refuse_unknown(&reading);
    read_objective(&reading);
    read_max_bands(&reading);
    read_verify(&reading);
    reading.plan.schemes = read_names(&reading, "schemes", scheme_at, EPS_SCHEME_COUNT);
    reading.plan.families = read_names(&reading, "families", family_at, EPS_FAMILY_COUNT);
    char *label = api__group_label(errors, json_object_get(json, "label"));
    read_sizes(&reading);
    if (!errors->len && !errors->out_of_memory && reading.job) {
        const struct eps_job *job = &reading.job->job;
        reading.plan.dataset_size = job->mechanism.sampling.dataset_size;
        reading.plan.workload = job->mechanism.workload;
        reading.plan.adjacency = job->mechanism.adjacency;
        reading.plan.epsilon = job->query.epsilon;
        reading.plan.delta = job->query.delta;
        check_workload(&reading);
        if (eps_plan_check(&reading.plan, max_n, report, errors) == 0 && !errors->len)
            plan = make(&reading, context);
    }
    api_job_destroy(reading.job);
    if (plan)
        plan->label = label;
    else
        free(label);
    return plan;
}
