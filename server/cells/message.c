/*
 * Each message is written and read side by side. Reading trusts nothing: the process that wrote it may have been
 * damaged by the computation.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/cells/message.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/json/text.h"

#define SECONDS_MOST 1e9 /* of all threads of a computation; they are charged to a key */

/* ---------------------------------------------------------------- short ones */

void message_hello(struct packet *packet, const struct hello *hello)
{
    packet_begin(packet, MESSAGE_HELLO);
    packet_count(packet, (uint64_t)hello->accounting);
    packet_text(packet, hello->version);
    packet_byte(packet, (uint8_t)hello->confined);
    packet_text(packet, hello->why);
    (void)packet_end(packet);
}

bool message_read_hello(struct unpack *unpack, struct hello *hello)
{
    uint64_t accounting = unpack_count(unpack);
    hello->accounting = accounting <= INT32_MAX ? (int)accounting : 0;
    unpack_text_into(unpack, hello->version, sizeof hello->version);
    hello->confined = unpack_byte(unpack);
    unpack_text_into(unpack, hello->why, sizeof hello->why);
    return unpack_done(unpack) && hello->accounting > 0;
}

void message_threads(struct packet *packet, size_t threads)
{
    packet_begin(packet, MESSAGE_THREADS);
    packet_count(packet, threads);
    (void)packet_end(packet);
}

bool message_read_threads(struct unpack *unpack, size_t *threads)
{
    uint64_t count = unpack_count(unpack);
    *threads = (size_t)count;
    return unpack_done(unpack) && count > 0;
}

void message_stop(struct packet *packet, enum stop stop)
{
    packet_begin(packet, MESSAGE_STOP);
    packet_byte(packet, (uint8_t)stop);
    (void)packet_end(packet);
}

bool message_read_stop(struct unpack *unpack, enum stop *stop)
{
    uint8_t value = unpack_byte(unpack);
    *stop = (enum stop)value;
    return unpack_done(unpack) && (value == STOP_CANCELED || value == STOP_EXPIRED);
}

void message_progress(struct packet *packet, double fraction, const char *stage, double remaining_seconds)
{
    packet_begin(packet, MESSAGE_PROGRESS);
    packet_real(packet, fraction);
    packet_text(packet, stage ? stage : "");
    packet_real(packet, remaining_seconds);
    (void)packet_end(packet);
}

bool message_read_progress(struct unpack *unpack, struct message_progress *progress)
{
    progress->fraction = unpack_real(unpack);
    unpack_text_into(unpack, progress->stage, sizeof progress->stage);
    progress->remaining_seconds = unpack_real(unpack);
    return unpack_done(unpack) && progress->fraction >= 0 && progress->fraction <= 1 &&
           (isnan(progress->remaining_seconds) || progress->remaining_seconds >= 0) &&
           progress->stage[strspn(progress->stage, "abcdefghijklmnopqrstuvwxyz ")] == '\0';
}

/* ---------------------------------------------------------------- blobs */

static void blob_head(struct packet *packet, enum message message, enum eps_cache_kind kind, const uint8_t key[32])
{
    packet_begin(packet, (uint8_t)message);
    packet_byte(packet, (uint8_t)kind);
    packet_key(packet, key);
}

static void read_blob_head(struct unpack *unpack, struct message_blob *blob)
{
    uint8_t kind = unpack_byte(unpack);
    *blob = (struct message_blob){.kind = (enum eps_cache_kind)kind};
    unpack_key(unpack, blob->key);
    unpack->failed = unpack->failed || kind >= EPS_CACHE_KINDS;
}

void message_lookup(struct packet *packet, enum eps_cache_kind kind, const uint8_t key[32])
{
    blob_head(packet, MESSAGE_LOOKUP, kind, key);
    (void)packet_end(packet);
}

bool message_read_lookup(struct unpack *unpack, struct message_blob *blob)
{
    read_blob_head(unpack, blob);
    return unpack_done(unpack);
}

/* A chunk of draws begins with their number. */
static bool is_chunk(const void *bytes, size_t len)
{
    double draws = 0;
    if (len >= sizeof draws)
        memcpy(&draws, bytes, sizeof draws);
    return draws >= 1 && draws <= 0x1p53;
}

void message_keep(struct packet *packet, const struct message_blob *blob)
{
    blob_head(packet, MESSAGE_KEEP, blob->kind, blob->key);
    packet_bytes(packet, blob->bytes, blob->len);
    (void)packet_end(packet);
}

bool message_read_keep(struct unpack *unpack, struct message_blob *blob)
{
    read_blob_head(unpack, blob);
    blob->bytes = unpack_bytes(unpack, &blob->len);
    return unpack_done(unpack) && (blob->kind != EPS_CACHE_CHUNK || is_chunk(blob->bytes, blob->len));
}

void message_found(struct packet *packet, bool found, const void *bytes, size_t len)
{
    packet_begin(packet, MESSAGE_FOUND);
    packet_byte(packet, found);
    packet_bytes(packet, bytes, found ? len : 0);
    (void)packet_end(packet);
}

bool message_read_found(struct unpack *unpack, bool *found, void **bytes, size_t *len)
{
    bool told = unpack_truth(unpack);
    const void *blob = unpack_bytes(unpack, len);
    *found = false;
    *bytes = NULL;
    if (!unpack_done(unpack) || !told)
        return unpack_done(unpack);
    *bytes = malloc(*len ? *len : 1);
    *found = *bytes != NULL; /* out of memory: as if it were not there */
    if (*found && *len)
        memcpy(*bytes, blob, *len);
    return true;
}

/* ---------------------------------------------------------------- draws */

void message_ahead(struct packet *packet, const struct eps_portion *portion)
{
    packet_begin(packet, MESSAGE_AHEAD);
    packet_key(packet, portion->run);
    packet_bytes(packet, portion->bytes, sizeof portion->bytes);
    packet_count(packet, portion->chunks);
    for (size_t i = 0; i < portion->chunks; i++)
        packet_key(packet, portion->keys[i]);
    (void)packet_end(packet);
}

bool message_read_ahead(struct unpack *unpack, struct eps_portion *portion)
{
    size_t len = 0;
    *portion = (struct eps_portion){0};
    unpack_key(unpack, portion->run);
    const void *bytes = unpack_bytes(unpack, &len);
    uint64_t chunks = unpack_count(unpack);
    if (unpack->failed || len != sizeof portion->bytes || chunks > EPS_PORTION_CHUNKS)
        return false;
    memcpy(portion->bytes, bytes, len);
    portion->chunks = (size_t)chunks;
    for (size_t i = 0; i < portion->chunks; i++)
        unpack_key(unpack, portion->keys[i]);
    return unpack_done(unpack);
}

static void write_chunks(struct packet *packet, const struct answer *answer)
{
    packet_count(packet, answer->chunks_len);
    for (size_t i = 0; i < answer->chunks_len; i++) {
        packet_key(packet, answer->chunks[i].key);
        packet_bytes(packet, answer->chunks[i].bytes, answer->chunks[i].len);
    }
}

/* Returns false if memory runs out, or one is no chunk. */
static bool read_chunks(struct unpack *unpack, struct answer *answer)
{
    uint64_t count = unpack_count(unpack);
    answer->chunks = count <= EPS_PORTION_CHUNKS ? calloc(count ? count : 1, sizeof *answer->chunks) : NULL;
    for (size_t i = 0; answer->chunks && i < count; i++) {
        struct answer_chunk *chunk = &answer->chunks[i];
        unpack_key(unpack, chunk->key);
        const void *bytes = unpack_bytes(unpack, &chunk->len);
        chunk->bytes = is_chunk(bytes, chunk->len) ? malloc(chunk->len) : NULL;
        if (!chunk->bytes)
            return false;
        memcpy(chunk->bytes, bytes, chunk->len);
        answer->chunks_len++;
    }
    return answer->chunks != NULL;
}

/* ---------------------------------------------------------------- questions */

void message_question(struct packet *packet, const struct lent *lent)
{
    const struct question *question = &lent->question;
    char *job = api_json_text_new(api_job_encode(question->job, false));
    packet_begin(packet, MESSAGE_QUESTION);
    packet->failed = packet->failed || !job;
    packet_count(packet, EPS_ACCOUNTING_VERSION);
    packet_byte(packet, (uint8_t)question->kind);
    packet_real(packet, question->noise_multiplier);
    packet_real(packet, question->delta);
    packet_byte(packet, (uint8_t)question->objective);
    packet_count(packet, lent->max_n);
    packet_real(packet, lent->max_operations);
    packet_real(packet, lent->max_bytes);
    packet_count(packet, lent->threads);
    packet_byte(packet, (uint8_t)lent->hooks);
    packet_bytes(packet, question->portion, question->portion ? EPS_PORTION_BYTES : 0);
    packet_text(packet, job);
    (void)packet_end(packet);
    free(job);
}

/* Decodes the job of a question. NULL: the answer says why. */
static struct api_job *decode(const char *text, uint64_t max_n, struct answer *answer)
{
    char message[256];
    struct api_errors errors = {0};
    json_t *json = api_json_parse(text, strlen(text), message, sizeof message);
    struct api_job *job = json ? api_job_decode(&errors, json, (size_t)max_n) : NULL;
    if (!job && (json ? errors.out_of_memory : !message[0]))
        answer_fail(answer, EPS_NO_MEMORY, "out of memory");
    else if (!job)
        answer_fail(answer, EPS_INTERNAL, "the job that was lent is not valid: %.80s %.300s",
                    errors.len ? errors.items[0].pointer : "", errors.len ? errors.items[0].detail : message);
    api_errors_clear(&errors);
    json_decref(json);
    return job;
}

bool message_read_question(struct unpack *unpack, struct lent *lent, struct api_job **job, struct answer *answer)
{
    uint64_t accounting = unpack_count(unpack);
    uint8_t kind = unpack_byte(unpack);
    struct question question = {.kind = (enum question_kind)kind};
    *answer = (struct answer){0};
    *job = NULL;
    size_t portion = 0;
    question.noise_multiplier = unpack_real(unpack);
    question.delta = unpack_real(unpack);
    uint8_t objective = unpack_byte(unpack);
    question.objective = (enum eps_objective)objective;
    lent->max_n = unpack_count(unpack);
    lent->max_operations = unpack_real(unpack);
    lent->max_bytes = unpack_real(unpack);
    lent->threads = (size_t)unpack_count(unpack);
    lent->hooks = unpack_byte(unpack);
    const void *bytes = unpack_bytes(unpack, &portion);
    char *text = unpack_text(unpack);
    bool whole = unpack_done(unpack) && text && kind < QUESTION_KINDS && objective < EPS_OBJECTIVE_COUNT &&
                 portion == (kind == QUESTION_DRAW ? EPS_PORTION_BYTES : 0);
    if (whole && accounting != EPS_ACCOUNTING_VERSION) {
        answer_fail(answer, EPS_INTERNAL,
                    "the question is of accounting version %llu, and this process computes with version %d: run the "
                    "same version of epsilond on both sides",
                    (unsigned long long)accounting, EPS_ACCOUNTING_VERSION);
    } else if (whole) {
        *job = decode(text, lent->max_n, answer);
    }
    question.job = *job;
    if (whole && kind == QUESTION_DRAW)
        question.portion = memcpy(lent->portion, bytes, sizeof lent->portion);
    lent->question = question;
    free(text);
    return whole;
}

/* ---------------------------------------------------------------- answers */

static void write_figures(struct packet *packet, const struct api_figures *figures)
{
    for (const struct api_figure *figure = api_figures; figure->name; figure++) {
        if (!figure->column)
            continue;
        if (api_figure_is_number(figure))
            packet_real(packet, api_figure_number(figure, figures));
        else
            packet_text(packet, api_figure_text(figure, figures));
    }
}

static void read_figures(struct unpack *unpack, struct api_figures *figures)
{
    char text[128];
    api_figures_none(figures);
    for (const struct api_figure *figure = api_figures; figure->name; figure++) {
        if (!figure->column)
            continue;
        if (api_figure_is_number(figure)) {
            api_figure_set_number(figure, figures, unpack_real(unpack));
        } else {
            size_t size = figure->kept_size < sizeof text ? figure->kept_size : sizeof text;
            unpack_text_into(unpack, text, size);
            api_figure_set_text(figure, figures, text);
        }
    }
}

/* Points are structs of doubles, and a step that is a number. */
static void write_curve(struct packet *packet, const struct eps_curve_point *points, size_t len)
{
    packet_count(packet, len);
    for (size_t i = 0; i < len; i++) {
        const double values[] = {points[i].epsilon, points[i].delta, points[i].lower, points[i].remove, points[i].add};
        for (size_t k = 0; k < sizeof values / sizeof values[0]; k++)
            packet_real(packet, values[k]);
    }
}

/* The number of points of so many bytes each, which must be there; an array for them, or NULL. */
static void *read_points(struct unpack *unpack, size_t bytes, size_t size, size_t *len)
{
    uint64_t count = unpack_count(unpack);
    unpack->failed = unpack->failed || count > unpack->left / bytes;
    *len = unpack->failed ? 0 : (size_t)count;
    void *points = unpack->failed ? NULL : calloc(*len ? *len : 1, size);
    unpack->failed = unpack->failed || !points;
    return points;
}

static struct eps_curve_point *read_curve(struct unpack *unpack, size_t *len)
{
    struct eps_curve_point *points = read_points(unpack, 5 * sizeof(double), sizeof *points, len);
    for (size_t i = 0; points && i < *len; i++) {
        points[i].epsilon = unpack_real(unpack);
        points[i].delta = unpack_real(unpack);
        points[i].lower = unpack_real(unpack);
        points[i].remove = unpack_real(unpack);
        points[i].add = unpack_real(unpack);
    }
    return points;
}

static void write_spend(struct packet *packet, const struct eps_spend_point *points, size_t len)
{
    packet_count(packet, len);
    for (size_t i = 0; i < len; i++) {
        packet_count(packet, points[i].step);
        packet_real(packet, points[i].epsilon);
    }
}

static struct eps_spend_point *read_spend(struct unpack *unpack, size_t *len)
{
    struct eps_spend_point *points = read_points(unpack, 8 + sizeof(double), sizeof *points, len);
    for (size_t i = 0; points && i < *len; i++) {
        points[i].step = unpack_count(unpack);
        points[i].epsilon = unpack_real(unpack);
    }
    return points;
}

static void write_result(struct packet *packet, const struct result_record *result)
{
    packet_byte(packet, !result_record_cached(result)); /* see result_record_part() */
    packet_real(packet, result->elapsed_seconds);
    write_figures(packet, &result->figures);
    packet_text(packet, result->core);
    packet_text(packet, result->cache);
    packet_text(packet, result->curve);
    packet_text(packet, result->note);
    write_curve(packet, result->points, result->points ? result->points_len : 0);
}

/* Whether the text and the end are one value of JSON, and its kind. */
static bool is_json(const char *text, const char *end, json_type type)
{
    char message[256];
    struct text whole = {0};
    text_puts(&whole, text);
    text_puts(&whole, end);
    json_t *json = whole.failed ? NULL : api_json_parse(whole.data, whole.len, message, sizeof message);
    bool is = json && json_typeof(json) == type;
    json_decref(json);
    text_clear(&whole);
    return is;
}

static struct result_record *read_result(struct unpack *unpack)
{
    static const char none[HASH_SIZE] = "";
    struct result_record *result = result_record_create(none);
    if (!result)
        return NULL;
    if (unpack_truth(unpack))
        result_record_part(result);
    result->elapsed_seconds = unpack_real(unpack);
    read_figures(unpack, &result->figures);
    result->core = unpack_text(unpack);
    result->cache = unpack_text(unpack);
    result->curve = unpack_text(unpack);
    result->note = unpack_text(unpack);
    result->points = read_curve(unpack, &result->points_len);
    if (!result->points_len) { /* as the library leaves it: see curve_missing() */
        free(result->points);
        result->points = NULL;
    }
    bool whole = !unpack->failed && result->elapsed_seconds >= 0 && result->core &&
                 is_json(result->core, "}", JSON_OBJECT) && result->cache && is_json(result->cache, "", JSON_OBJECT) &&
                 (!result->curve || is_json(result->curve, "", JSON_ARRAY));
    if (!whole) {
        result_record_release(result);
        return NULL;
    }
    result->finished_at = clock_now_ms();
    return result;
}

static void write_error(struct packet *packet, const struct eps_error *error)
{
    packet_byte(packet, (uint8_t)error->status);
    packet_text(packet, error->pointer);
    packet_text(packet, error->message);
    packet_real(packet, error->operations);
    packet_real(packet, error->bytes);
    packet_count(packet, error->accountants);
}

static bool read_error(struct unpack *unpack, struct eps_error *error)
{
    uint8_t status = unpack_byte(unpack);
    *error = (struct eps_error){.status = (enum eps_status)status};
    unpack_text_into(unpack, error->pointer, sizeof error->pointer);
    unpack_text_into(unpack, error->message, sizeof error->message);
    error->operations = unpack_real(unpack);
    error->bytes = unpack_real(unpack);
    uint64_t accountants = unpack_count(unpack);
    error->accountants = (uint32_t)accountants;
    return !unpack->failed && status < EPS_STATUS_COUNT && accountants <= UINT32_MAX;
}

void message_answer(struct packet *packet, const struct question *question, const struct answer *answer)
{
    packet_begin(packet, MESSAGE_ANSWER);
    write_error(packet, &answer->error);
    packet_real(packet, answer->compute_seconds);
    if (answer->error.status == EPS_OK) {
        switch (question->kind) {
        case QUESTION_SOLVE:
            write_result(packet, answer->result);
            break;
        case QUESTION_CURVE:
            write_curve(packet, answer->curve, answer->curve_len);
            break;
        case QUESTION_SPEND:
            write_spend(packet, answer->spend, answer->spend_len);
            break;
        case QUESTION_LEAST:
            packet_real(packet, answer->least);
            break;
        case QUESTION_DRAW:
            write_chunks(packet, answer);
            break;
        case QUESTION_KINDS:
            break;
        }
    }
    (void)packet_end(packet);
}

bool message_read_answer(struct unpack *unpack, enum question_kind kind, struct answer *answer)
{
    *answer = (struct answer){0};
    bool whole = read_error(unpack, &answer->error);
    answer->compute_seconds = unpack_real(unpack);
    whole = whole && answer->compute_seconds >= 0 && answer->compute_seconds <= SECONDS_MOST;
    if (!whole || answer->error.status != EPS_OK)
        return whole && unpack_done(unpack);
    switch (kind) {
    case QUESTION_SOLVE:
        answer->result = read_result(unpack);
        whole = answer->result != NULL;
        break;
    case QUESTION_CURVE:
        answer->curve = read_curve(unpack, &answer->curve_len);
        break;
    case QUESTION_SPEND:
        answer->spend = read_spend(unpack, &answer->spend_len);
        break;
    case QUESTION_LEAST:
        answer->least = unpack_real(unpack);
        break;
    case QUESTION_DRAW:
        whole = read_chunks(unpack, answer);
        break;
    case QUESTION_KINDS:
        whole = false;
        break;
    }
    return whole && unpack_done(unpack);
}
