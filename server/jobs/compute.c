/*
 * Running a job. The answer comes first; the privacy curve at its noise multiplier second, as GET .../curve promises
 * it for every succeeded job. A curve that cannot be had does not fail the job: the reason is kept in its place.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/jobs/compute.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/codec.h"
#include "server/ops/clock.h"
#include "server/ops/text.h"

#define SOLVE_SHARE 0.9 /* of the progress bar; the curve has the rest */

/* ---------------------------------------------------------------- what the library is lent */

static void on_progress(void *user, double fraction, const char *stage, double remaining_seconds)
{
    struct computation *computation = user;
    double overall = computation->progress_base + computation->progress_span * fraction;
    computation->progress(computation->user, overall, stage, remaining_seconds);
}

static bool on_canceled(void *user)
{
    struct computation *computation = user;
    return computation->canceled(computation->user);
}

static bool on_expired(void *user)
{
    struct computation *computation = user;
    return clock_monotonic() > computation->deadline;
}

static void on_parallel_for(void *user, size_t count, void (*body)(void *arg, size_t index), void *arg)
{
    struct computation *computation = user;
    pool_parallel_for(computation->pool, count, body, arg);
}

static void note_use(struct computation *computation, enum eps_cache_kind kind, const uint8_t key[32])
{
    if (kind != EPS_CACHE_FACTORIZATION) {
        return;
    }
    pthread_mutex_lock(&computation->mutex);
    bool known = false;
    for (size_t i = 0; i < computation->uses_len && !known; i++) {
        known = memcmp(computation->uses[i], key, 32) == 0;
    }
    uint8_t(*uses)[32] =
        known ? NULL : realloc(computation->uses, (computation->uses_len + 1) * sizeof *computation->uses);
    if (uses) {
        memcpy(uses[computation->uses_len++], key, 32);
        computation->uses = uses;
    }
    pthread_mutex_unlock(&computation->mutex);
}

static bool on_cache_get(void *user, enum eps_cache_kind kind, const uint8_t key[32], void **blob, size_t *blob_len)
{
    struct computation *computation = user;
    if (!store_blob_get(computation->store, kind, key, blob, blob_len)) {
        return false;
    }
    note_use(computation, kind, key);
    return true;
}

static void on_cache_put(void *user, enum eps_cache_kind kind, const uint8_t key[32], const void *blob, size_t blob_len)
{
    struct computation *computation = user;
    note_use(computation, kind, key);
    store_blob_put(computation->store, kind, key, blob, blob_len);
}

struct eps_context computation_context(struct computation *computation)
{
    return (struct eps_context){
        .user = computation,
        .progress = computation->progress ? on_progress : NULL,
        .canceled = computation->canceled ? on_canceled : NULL,
        .expired = isinf(computation->deadline) ? NULL : on_expired,
        .parallel_for = computation->pool ? on_parallel_for : NULL,
        .cache_get = computation->store ? on_cache_get : NULL,
        .cache_put = computation->store ? on_cache_put : NULL,
        .max_operations = computation->config->max_operations,
        .max_bytes = (double)computation->config->max_bytes,
    };
}

static bool on_lookup(void *user, enum eps_cache_kind kind, const uint8_t key[32], void **blob, size_t *blob_len)
{
    return store_blob_get(user, kind, key, blob, blob_len);
}

struct eps_context computation_checks(const struct config *config, struct store *store)
{
    return (struct eps_context){
        .user = store,
        .cache_get = store ? on_lookup : NULL,
        .max_operations = config->max_operations,
        .max_bytes = (double)config->max_bytes,
    };
}

/* ---------------------------------------------------------------- encoding */

/* Takes a member out of an object, as text; NULL if it is not there. */
static char *member_text(json_t *object, const char *name)
{
    json_t *member = json_object_get(object, name);
    char *text = member ? api_json_text(member) : NULL;
    json_object_del(object, name);
    return text;
}

/* See struct result_record: the parts that differ between a hit and a miss come out of the object. */
static bool encode_result(struct result_record *record, const struct eps_result *result, double elapsed)
{
    json_t *object = api_result_encode(result);
    if (!object || api_result_stamp(object, "miss", elapsed) != 0) {
        json_decref(object);
        return false;
    }
    record->elapsed_seconds = elapsed;
    json_object_del(object, "elapsed_seconds");
    record->cache = member_text(object, "cache");
    record->curve = member_text(object, "curve");
    record->core = api_json_text(object);
    json_decref(object);
    if (!record->cache || !record->core) {
        return false;
    }
    size_t len = strlen(record->core);
    record->core[len - 1] = '\0'; /* the brace: document.c writes it after the rest */
    return true;
}

static bool copy_points(struct result_record *record, const struct eps_curve_point *points, size_t len)
{
    record->points = malloc(len ? len * sizeof *points : 1);
    if (!record->points) {
        return false;
    }
    if (len) {
        memcpy(record->points, points, len * sizeof *points);
    }
    record->points_len = len;
    return true;
}

/* ---------------------------------------------------------------- running */

/* False only where the run itself is over: canceled, or no memory. */
static bool add_curve(struct computation *computation, struct result_record *record, const struct eps_result *result)
{
    if (result->solved_for == EPS_SOLVE_CURVE && result->curve) {
        return copy_points(record, result->curve, result->curve_len);
    }
    if (!(result->noise_multiplier > 0)) {
        record->note = strdup("the job needs no noise (noise multiplier 0), so there is no curve");
        return record->note != NULL;
    }
    if (result->guarantee != EPS_GUARANTEE_DETERMINISTIC) {
        record->note = strdup("a Monte Carlo job has one value and no curve");
        return record->note != NULL;
    }
    struct eps_context context = computation_context(computation);
    struct eps_error error = {0};
    computation->progress_base = SOLVE_SHARE;
    computation->progress_span = 1 - SOLVE_SHARE;
    enum eps_status status = eps_privacy_curve(&context, &record->points, &record->points_len, &error, computation->job,
                                               result->noise_multiplier);
    if (status == EPS_OK) {
        return true;
    }
    if (status == EPS_CANCELED) {
        return false;
    }
    record->note = strdup(status == EPS_TIMEOUT ? "the curve took longer than --max-seconds" : error.message);
    return record->note != NULL;
}

static void fail(struct computation *computation, enum eps_status status, const char *message)
{
    computation->status = status;
    computation->error = (struct eps_error){.status = status};
    snprintf(computation->error.message, sizeof computation->error.message, "%s", message);
}

void computation_run(struct computation *computation)
{
    struct eps_result *result = NULL;
    struct result_record *record = NULL;
    struct eps_context context = computation_context(computation);
    double started = clock_monotonic();

    pthread_mutex_init(&computation->mutex, NULL);
    computation->progress_base = 0;
    computation->progress_span = SOLVE_SHARE;
    computation->error = (struct eps_error){0};
    computation->status = eps_solve(&context, &result, &computation->error, computation->job);
    if (computation->status != EPS_OK) {
        goto out;
    }
    double elapsed = clock_monotonic() - started;
    record = result_record_create(computation->hash);
    if (!record || !encode_result(record, result, elapsed)) {
        fail(computation, EPS_NO_MEMORY, "out of memory while encoding the result");
        goto out;
    }
    if (!add_curve(computation, record, result)) {
        bool canceled = computation->canceled && computation->canceled(computation->user);
        fail(computation, canceled ? EPS_CANCELED : EPS_NO_MEMORY,
             canceled ? "the job was canceled" : "out of memory while keeping the curve");
        goto out;
    }
    record->finished_at = clock_now_ms();
    computation->result = record;
    record = NULL;
out:
    eps_result_destroy(result);
    result_record_release(record);
    pthread_mutex_destroy(&computation->mutex);
}
