/*
 * The parent of the cell is this thread: it answers lookups from the worker's own cache, or by a letter to the server
 * and its reply. A letter may be lost, so a lookup is repeated until it is answered, the computation is to stop, or the
 * server has been silent for so long that the computation goes on without.
 *
 * Chunks of draws are not kept here: whoever computes the question again asks the server for them.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/broker/errand.h"

#include <assert.h>
#include <math.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/broker/places.h"
#include "server/cells/message.h"
#include "server/ops/clock.h"
#include "server/ops/log.h"

#define REPEAT_SECONDS 2.0   /* between two letters for one lookup */
#define LOOK_SECONDS 0.05    /* between two looks whether it is to stop */
#define PROGRESS_SECONDS 0.2 /* between two letters of progress */

/* ---------------------------------------------------------------- letters */

static void speak(struct errand *errand, uint64_t number, const struct packet *frame)
{
    struct packet packet = {0};
    struct letter_speech speech = {.of = errand->letter.of, .number = number, .frame = {frame->bytes, frame->len}};
    memcpy(speech.from, errand->desk->name, sizeof speech.from);
    if (!frame->failed)
        letter_speech(&packet, &speech);
    const struct session_message message = {
        .exchange = PLACES_LETTERS, .key = errand->letter.server, .bytes = packet.bytes, .len = packet.len};
    if (packet.len && !packet.failed && packet.len <= LETTER_MOST) /* what is larger is not kept */
        (void)link_send(errand->desk->link, &message, 0);
    packet_clear(&packet);
}

bool errand_hear_locked(struct errand *errand, const struct letter_speech *speech)
{
    struct unpack payload = letter_frame_payload(&speech->frame);
    uint8_t kind = letter_frame_kind(&speech->frame);
    enum stop stop;
    void *bytes;
    size_t len;
    bool found;
    if (kind == MESSAGE_STOP) {
        bool sense = message_read_stop(&payload, &stop);
        for (struct errand *asking = errand; sense && asking; asking = asking->again)
            if (speech->of.nonce == asking->letter.of.nonce)
                atomic_store(&asking->stopped, true);
        return sense;
    }
    if (kind != MESSAGE_FOUND || !message_read_found(&payload, &found, &bytes, &len))
        return false;
    if (speech->number == errand->number && !errand->answered) {
        errand->answered = true;
        errand->found = bytes;
        errand->found_len = len;
        pthread_cond_broadcast(&errand->desk->news);
    } else {
        free(bytes);
    }
    return true;
}

/* ---------------------------------------------------------------- the worker's own cache */

struct blob {
    atomic_int references;
    size_t len;
    uint8_t bytes[];
};

void errand_blob_retain(void *value)
{
    atomic_fetch_add_explicit(&((struct blob *)value)->references, 1, memory_order_relaxed);
}

void errand_blob_release(void *value)
{
    struct blob *blob = value;
    if (atomic_fetch_sub_explicit(&blob->references, 1, memory_order_acq_rel) == 1)
        free(blob);
}

static void blob_name(const struct errand *errand, enum eps_cache_kind kind, const uint8_t key[32], char name[65])
{
    unsigned char digest[32], bytes[65];
    memcpy(bytes, errand->letter.realm, 32);
    memcpy(bytes + 32, key, 32);
    bytes[64] = (unsigned char)kind;
    crypto_generichash(digest, sizeof digest, bytes, sizeof bytes, NULL, 0);
    sodium_bin2hex(name, 65, digest, sizeof digest);
}

static bool own_get(struct errand *errand, const char *name, void **bytes, size_t *len)
{
    struct blob *blob = memory_get(errand->desk->blobs, name);
    *bytes = blob ? malloc(blob->len ? blob->len : 1) : NULL;
    if (*bytes) {
        memcpy(*bytes, blob->bytes, blob->len);
        *len = blob->len;
    }
    if (blob)
        errand_blob_release(blob);
    return *bytes != NULL;
}

static void own_put(struct errand *errand, const char *name, const void *bytes, size_t len)
{
    struct memory *blobs = errand->desk->blobs;
    struct blob *blob = malloc(sizeof *blob + len);
    if (!blob)
        return;
    atomic_init(&blob->references, 1);
    blob->len = len;
    memcpy(blob->bytes, bytes, len);
    memory_put(blobs, name, blob, sizeof *blob + len, memory_mark(blobs));
    errand_blob_release(blob);
}

/* ---------------------------------------------------------------- the hooks of a computation */

static bool on_canceled(void *user)
{
    struct errand *errand = user;
    return atomic_load(&errand->stopped) || atomic_load(&errand->desk->leaving);
}

static bool on_expired(void *user)
{
    struct errand *errand = user;
    return errand->letter.seconds > 0 && clock_monotonic() > errand->started + errand->letter.seconds;
}

static void on_progress(void *user, double fraction, const char *stage, double remaining_seconds)
{
    struct errand *errand = user;
    struct packet frame = {0};
    double now = clock_monotonic();
    if (now < errand->told + PROGRESS_SECONDS)
        return;
    errand->told = now;
    message_progress(&frame, fraction, stage, remaining_seconds);
    speak(errand, 0, &frame);
    packet_clear(&frame);
}

/* Asks the server, and waits for its reply. */
static bool ask_server(struct errand *errand, enum eps_cache_kind kind, const uint8_t key[32], void **bytes,
                       size_t *len)
{
    struct desk *desk = errand->desk;
    struct packet frame = {0};
    double repeat = 0;
    message_lookup(&frame, kind, key);
    pthread_mutex_lock(&desk->mutex);
    uint64_t number = ++errand->number;
    errand->answered = frame.failed;
    errand->found = NULL;
    while (!errand->answered && !on_canceled(errand) && !on_expired(errand) &&
           desk__lives_locked(desk, errand->letter.server)) {
        double now = clock_monotonic();
        struct timespec until = clock_timespec(now + LOOK_SECONDS);
        if (now >= repeat) {
            pthread_mutex_unlock(&desk->mutex);
            speak(errand, number, &frame);
            pthread_mutex_lock(&desk->mutex);
            repeat = now + REPEAT_SECONDS;
        }
        if (!errand->answered)
            pthread_cond_timedwait(&desk->news, &desk->mutex, &until);
    }
    errand->answered = true; /* what comes later is dropped */
    *bytes = errand->found;
    *len = errand->found_len;
    errand->found = NULL;
    pthread_mutex_unlock(&desk->mutex);
    packet_clear(&frame);
    return *bytes != NULL;
}

static void tell_kept(struct errand *errand, const struct message_blob *blob)
{
    struct packet frame = {0};
    message_keep(&frame, blob);
    speak(errand, 0, &frame);
    packet_clear(&frame);
}

static bool on_cache_get(void *user, enum eps_cache_kind kind, const uint8_t key[32], void **bytes, size_t *len)
{
    struct errand *errand = user;
    char name[65];
    blob_name(errand, kind, key, name);
    if (kind == EPS_CACHE_CHUNK)
        return ask_server(errand, kind, key, bytes, len);
    if (own_get(errand, name, bytes, len)) {
        struct message_blob used = {.kind = kind};
        memcpy(used.key, key, sizeof used.key);
        if (kind == EPS_CACHE_FACTORIZATION) /* the server notes that the job uses it */
            tell_kept(errand, &used);
        return true;
    }
    bool found = ask_server(errand, kind, key, bytes, len);
    if (found)
        own_put(errand, name, *bytes, *len);
    return found;
}

static void on_cache_put(void *user, enum eps_cache_kind kind, const uint8_t key[32], const void *bytes, size_t len)
{
    struct errand *errand = user;
    char name[65];
    struct message_blob blob = {.kind = kind, .bytes = bytes, .len = len};
    memcpy(blob.key, key, sizeof blob.key);
    blob_name(errand, kind, key, name);
    if (kind != EPS_CACHE_CHUNK)
        own_put(errand, name, bytes, len);
    tell_kept(errand, &blob);
}

/* Only tells the cell that it may use threads; it has its own. */
static void on_parallel_for(void *user, size_t count, void (*body)(void *arg, size_t index), void *arg)
{
    (void)user;
    for (size_t i = 0; i < count; i++)
        body(arg, i);
}

/* ---------------------------------------------------------------- computing */

static void compute(struct errand *errand, const struct lent *lent, struct answer *answer)
{
    const struct eps_context context = {
        .user = errand,
        .progress = lent->hooks & HOOK_PROGRESS ? on_progress : NULL,
        .canceled = on_canceled,
        .expired = errand->letter.seconds > 0 ? on_expired : NULL,
        .parallel_for = lent->hooks & HOOK_PARALLEL ? on_parallel_for : NULL,
        .cache_get = lent->hooks & HOOK_GET ? on_cache_get : NULL,
        .cache_put = lent->hooks & HOOK_PUT ? on_cache_put : NULL,
        .max_operations = lent->max_operations,
        .max_bytes = lent->max_bytes,
    };
    const struct asker asker = {.job = errand->key, .max_n = lent->max_n};
    cells_ask(errand->desk->cells, &lent->question, &context, &asker, answer);
}

/* The letter with the answer. */
static void write_answer(struct errand *errand, const struct question *question, const struct answer *answer)
{
    struct packet frame = {0};
    struct letter_answer letter = {
        .of = errand->letter.of, .crashed = answer->crashed, .seconds = clock_monotonic() - errand->started};
    memcpy(letter.from, errand->desk->name, sizeof letter.from);
    message_answer(&frame, question, answer);
    letter.frame = (struct letter_frame){frame.bytes, frame.len};
    if (!frame.failed)
        letter_answer(&errand->last, &letter);
    if (frame.failed || errand->last.failed || errand->last.len > LETTER_MOST) {
        struct answer none = {0};
        answer_fail(&none, EPS_NO_MEMORY, "the answer does not fit into a message");
        message_answer(&frame, question, &none);
        letter.frame = (struct letter_frame){frame.bytes, frame.len};
        letter_answer(&errand->last, &letter);
    }
    packet_clear(&frame);
}

/* The question again, as it came. */
static void write_back(struct errand *errand)
{
    letter_question(&errand->last, &errand->letter);
}

void errand_run(struct pool_task *task)
{
    struct errand *errand = (struct errand *)task;
    struct unpack payload = letter_frame_payload(&errand->letter.frame);
    struct lent lent = {0};
    struct answer answer;
    struct api_job *job = NULL;
    errand->started = clock_monotonic();
    log_event(LOG_LEVEL_INFO, "question", "question=%.16s server=%s", errand->key, errand->letter.server);
    bool whole = letter_frame_kind(&errand->letter.frame) == MESSAGE_QUESTION &&
                 message_read_question(&payload, &lent, &job, &answer);
    if (!whole) {
        answer = (struct answer){0};
        answer_fail(&answer, EPS_INTERNAL, "the worker was sent a question that makes no sense");
    } else if (job) {
        on_progress(errand, 0, "start", NAN); /* the server learns who has it */
        compute(errand, &lent, &answer);
    }
    bool canceled = answer.error.status == EPS_CANCELED;
    if (!canceled)
        write_answer(errand, &lent.question, &answer);
    else if (!atomic_load(&errand->stopped))
        write_back(errand);
    errand->failed = answer.error.status != EPS_OK;
    log_event(LOG_LEVEL_INFO, canceled ? "given-up" : "answer", "question=%.16s seconds=%.3f failed=%s", errand->key,
              clock_monotonic() - errand->started, errand->failed ? "true" : "false");
    answer_clear(&answer);
    api_job_destroy(job);
    errand->done(errand);
}

struct errand *errand_create(struct desk *desk, const void *bytes, size_t len)
{
    uint8_t kind;
    struct unpack payload;
    struct errand *errand = calloc(1, sizeof *errand + len);
    if (!errand)
        return NULL;
    errand->task.run = errand_run;
    errand->desk = desk;
    errand->answered = true;
    errand->len = len;
    memcpy(errand->bytes, bytes, len);
    bool whole = frame_whole(errand->bytes, len, &kind, &payload) && letter_read_question(&payload, &errand->letter);
    assert(whole);
    sodium_bin2hex(errand->key, sizeof errand->key, errand->letter.of.id, sizeof errand->letter.of.id);
    return errand;
}

void errand_destroy(struct errand *errand)
{
    if (errand->again)
        errand_destroy(errand->again);
    free(errand->found);
    packet_clear(&errand->last);
    free(errand);
}
