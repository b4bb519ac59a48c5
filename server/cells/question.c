/*
 * One function for each kind of question. The result of a job becomes the record that the store keeps; a curve that the
 * job asked for, or the reason why there is none, is part of it.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/cells/question.h"

#include <assert.h>
#include <jansson.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void answer_fail(struct answer *answer, enum eps_status status, const char *format, ...)
{
    va_list args;
    answer->error = (struct eps_error){.status = status};
    va_start(args, format);
    vsnprintf(answer->error.message, sizeof answer->error.message, format, args);
    va_end(args);
}

void answer_clear(struct answer *answer)
{
    result_record_release(answer->result);
    free(answer->curve);
    free(answer->spend);
    for (size_t i = 0; i < answer->chunks_len; i++)
        free(answer->chunks[i].bytes);
    free(answer->chunks);
    *answer = (struct answer){0};
}

size_t answer_keep_portion(struct answer *answer, const struct eps_portion *portion)
{
    bool there[EPS_PORTION_CHUNKS] = {false};
    size_t kept = 0, len = answer->chunks_len;
    assert(portion->chunks <= EPS_PORTION_CHUNKS);
    for (size_t i = 0; i < len; i++) {
        size_t at = 0;
        while (at < portion->chunks && memcmp(portion->keys[at], answer->chunks[i].key, sizeof portion->keys[at]) != 0)
            at++;
        if (at < portion->chunks && !there[at]) {
            there[at] = true;
            answer->chunks[kept++] = answer->chunks[i];
        } else {
            free(answer->chunks[i].bytes);
        }
    }
    answer->chunks_len = kept;
    return len - kept;
}

/* ---------------------------------------------------------------- the record of a result */

/* Removes a member of an object and returns it as text; NULL if it is absent. */
static char *member_text(json_t *object, const char *name)
{
    json_t *member = json_object_get(object, name);
    char *text = member ? api_json_text(member) : NULL;
    json_object_del(object, name);
    return text;
}

/* Encodes a result; see struct result_record. The members that differ between a cache hit and a miss are stored
 * separately. */
static bool encode_result(struct result_record *record, const struct eps_result *result, double elapsed,
                          double compute_seconds)
{
    json_t *object = api_result_encode(result);
    if (!object || api_result_stamp(object, "miss", elapsed, compute_seconds) != 0) {
        json_decref(object);
        return false;
    }
    record->elapsed_seconds = elapsed;
    api_figures_fill(&record->figures, result);
    json_object_del(object, "elapsed_seconds");
    record->cache = member_text(object, "cache");
    record->curve = member_text(object, "curve");
    record->core = api_json_text(object);
    json_decref(object);
    if (!record->cache || !record->core)
        return false;
    size_t len = strlen(record->core);
    record->core[len - 1] = '\0'; /* the brace: document.c writes it after the other members */
    return true;
}

static bool copy_points(struct result_record *record, const struct eps_curve_point *points, size_t len)
{
    record->points = malloc(len ? len * sizeof *points : 1);
    if (!record->points)
        return false;
    if (len)
        memcpy(record->points, points, len * sizeof *points);
    record->points_len = len;
    return true;
}

/* Adds what needs no computation: the points if the job asked for them, or the reason why there is no curve. Returns
 * false if memory runs out. */
static bool add_curve(struct result_record *record, const struct eps_result *result)
{
    const char *reason = NULL;
    if (result->solved_for == EPS_SOLVE_CURVE && result->curve)
        return copy_points(record, result->curve, result->curve_len);
    if (!(result->noise_multiplier > 0))
        reason = "the job needs no noise (noise multiplier 0), so there is no curve";
    else if (result->guarantee != EPS_GUARANTEE_DETERMINISTIC)
        reason = "a Monte Carlo job has one value and no curve";
    record->note = reason ? strdup(reason) : NULL;
    return !reason || record->note;
}

/* ---------------------------------------------------------------- the questions */

/* What one computation has: the question, how to compute, and its start. */
struct asked {
    const struct question *question;
    const struct eps_context *context;
    double (*seconds)(void *user);
    void *user;
    double started;     /* wall time, monotonic seconds */
    double cpu_started; /* seconds() then */
};

static void solve(const struct asked *asked, struct answer *answer)
{
    static const char none[HASH_SIZE] = "";
    struct eps_result *result = NULL;
    struct result_record *record = NULL;
    answer->error.status = eps_solve(asked->context, &result, &answer->error, &asked->question->job->job);
    if (answer->error.status != EPS_OK)
        return;
    double elapsed = clock_monotonic() - asked->started;
    record = result_record_create(none);
    if (record && result->cut_short)
        result_record_part(record);
    if (!record || !encode_result(record, result, elapsed, asked->seconds(asked->user) - asked->cpu_started)) {
        answer_fail(answer, EPS_NO_MEMORY, "out of memory while encoding the result");
    } else if (!add_curve(record, result)) {
        answer_fail(answer, EPS_NO_MEMORY, "out of memory while storing the curve");
    } else {
        record->finished_at = clock_now_ms();
        answer->result = record;
        record = NULL;
    }
    eps_result_destroy(result);
    result_record_release(record);
}

static void curve(const struct asked *asked, struct answer *answer)
{
    const struct question *question = asked->question;
    answer->error.status = eps_privacy_curve(asked->context, &answer->curve, &answer->curve_len, &answer->error,
                                             &question->job->job, question->noise_multiplier);
}

static void spend(const struct asked *asked, struct answer *answer)
{
    const struct question *question = asked->question;
    answer->error.status = eps_spend(asked->context, &answer->spend, &answer->spend_len, &answer->error,
                                     &question->job->job, question->noise_multiplier, question->delta);
}

static void least(const struct asked *asked, struct answer *answer)
{
    const struct question *question = asked->question;
    answer->error.status =
        eps_plan_least(asked->context, &answer->least, &answer->error, &question->job->job, question->objective);
}

/* What is drawn goes into the answer, and everything else as the asker wants it. */
struct drawing {
    const struct eps_context *context;
    struct answer *answer;
    pthread_mutex_t mutex; /* of the answer */
    bool failed;           /* out of memory */
};

static bool on_cache_get(void *user, enum eps_cache_kind kind, const uint8_t key[32], void **blob, size_t *blob_len)
{
    const struct drawing *drawing = user;
    const struct eps_context *context = drawing->context;
    return kind != EPS_CACHE_CHUNK && context->cache_get &&
           context->cache_get(context->user, kind, key, blob, blob_len);
}

static void on_cache_put(void *user, enum eps_cache_kind kind, const uint8_t key[32], const void *blob, size_t blob_len)
{
    struct drawing *drawing = user;
    const struct eps_context *context = drawing->context;
    struct answer *answer = drawing->answer;
    if (kind != EPS_CACHE_CHUNK) {
        if (context->cache_put)
            context->cache_put(context->user, kind, key, blob, blob_len);
        return;
    }
    pthread_mutex_lock(&drawing->mutex);
    assert(answer->chunks_len < EPS_PORTION_CHUNKS);
    struct answer_chunk *chunk = &answer->chunks[answer->chunks_len];
    chunk->bytes = malloc(blob_len);
    drawing->failed = drawing->failed || !chunk->bytes;
    if (chunk->bytes) {
        memcpy(chunk->bytes, blob, blob_len);
        memcpy(chunk->key, key, sizeof chunk->key);
        chunk->len = blob_len;
        answer->chunks_len++;
    }
    pthread_mutex_unlock(&drawing->mutex);
}

static bool on_canceled(void *user)
{
    const struct eps_context *context = ((const struct drawing *)user)->context;
    return context->canceled && context->canceled(context->user);
}

static bool on_expired(void *user)
{
    const struct eps_context *context = ((const struct drawing *)user)->context;
    return context->expired && context->expired(context->user);
}

static void on_parallel_for(void *user, size_t count, void (*body)(void *arg, size_t index), void *arg)
{
    const struct eps_context *context = ((const struct drawing *)user)->context;
    if (context->parallel_for)
        context->parallel_for(context->user, count, body, arg);
    for (size_t i = 0; !context->parallel_for && i < count; i++)
        body(arg, i);
}

static void draw(const struct asked *asked, struct answer *answer)
{
    struct drawing drawing = {asked->context, answer, PTHREAD_MUTEX_INITIALIZER, false};
    const struct eps_context context = {
        .user = &drawing,
        .canceled = on_canceled,
        .expired = on_expired,
        .parallel_for = on_parallel_for,
        .cache_get = on_cache_get,
        .cache_put = on_cache_put,
        .max_operations = asked->context->max_operations,
        .max_bytes = asked->context->max_bytes,
    };
    answer->chunks = calloc(EPS_PORTION_CHUNKS, sizeof *answer->chunks);
    if (!answer->chunks) {
        answer_fail(answer, EPS_NO_MEMORY, "out of memory");
        return;
    }
    answer->error.status = eps_draw(&context, &answer->error, &asked->question->job->job, asked->question->portion);
    if (answer->error.status == EPS_OK && drawing.failed)
        answer_fail(answer, EPS_NO_MEMORY, "out of memory");
    pthread_mutex_destroy(&drawing.mutex);
}

void question_answer(const struct question *question, const struct eps_context *context, double (*seconds)(void *user),
                     void *user, struct answer *answer)
{
    static void (*const kinds[QUESTION_KINDS])(const struct asked *asked,
                                               struct answer *answer) = {[QUESTION_SOLVE] = solve,
                                                                         [QUESTION_CURVE] = curve,
                                                                         [QUESTION_SPEND] = spend,
                                                                         [QUESTION_LEAST] = least,
                                                                         [QUESTION_DRAW] = draw};
    struct asked asked = {question, context, seconds, user, clock_monotonic(), seconds(user)};
    *answer = (struct answer){0};
    kinds[question->kind](&asked, answer);
    answer->compute_seconds = seconds(user) - asked.cpu_started;
}
