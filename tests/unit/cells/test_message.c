/*
 * Messages: each is read as it was written; cut short anywhere, or with bytes changed, it is malformed or another
 * message, and never a fault.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/cells/message.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/test.h"

#define JOB "{\"n\": 100, \"sampling\": {\"scheme\": \"none\"}, \"noise_multiplier\": 2, \"delta\": 1e-6}"

static struct unpack payload_of(const struct packet *packet)
{
    assert_false(packet->failed);
    return (struct unpack){.at = packet->bytes + FRAME_HEAD, .left = packet->len - FRAME_HEAD};
}

static struct api_job *decode(const char *text)
{
    char message[256];
    struct api_errors errors = {0};
    json_t *json = api_json_parse(text, strlen(text), message, sizeof message);
    struct api_job *job = api_job_decode(&errors, json, 0);
    assert_non_null(job);
    json_decref(json);
    return job;
}

static double no_seconds(void *unused)
{
    (void)unused;
    return 0;
}

/* An answer of each kind, by the library. */
static struct answer answer_to(enum question_kind kind, const struct api_job *job)
{
    struct answer answer;
    static const uint8_t none[EPS_PORTION_BYTES];
    const struct question question = {.kind = kind, .job = job, .noise_multiplier = 2, .delta = 1e-6, .portion = none};
    question_answer(&question, &(struct eps_context){0}, no_seconds, NULL, &answer);
    return answer;
}

/* ---------------------------------------------------------------- frames */

TEST(frames_arrive_in_pieces)
{
    struct packet packet = {0};
    struct intake intake = {0};
    for (size_t i = 0; i < 300; i++) {
        packet_begin(&packet, 7);
        packet_count(&packet, i);
        packet_text(&packet, i % 2 ? "text" : NULL);
        packet_real(&packet, -0.0);
        assert_true(packet_end(&packet));
        for (size_t at = 0; at < packet.len; at++) {
            uint8_t kind;
            size_t room;
            struct unpack payload;
            assert_int_equal(intake_take(&intake, &kind, &payload), INTAKE_MORE);
            *intake_room(&intake, &room) = packet.bytes[at];
            intake_filled(&intake, 1);
        }
        uint8_t kind;
        struct unpack payload;
        assert_int_equal(intake_take(&intake, &kind, &payload), INTAKE_FRAME);
        assert_int_equal(kind, 7);
        assert_int_equal(unpack_count(&payload), i);
        char *text = unpack_text(&payload);
        assert_int_equal(text != NULL, i % 2);
        free(text);
        assert_true(signbit(unpack_real(&payload)));
        assert_true(unpack_done(&payload));
        assert_int_equal(unpack_byte(&payload), 0);
        assert_false(unpack_done(&payload));
    }
    packet_clear(&packet);
    intake_clear(&intake);
}

TEST(a_length_beyond_the_limit_is_malformed)
{
    static const uint8_t head[FRAME_HEAD] = {1, 0, 0, 0x40, 7}; /* one more than FRAME_MOST */
    struct intake intake = {0};
    size_t room;
    uint8_t kind;
    struct unpack payload;
    memcpy(intake_room(&intake, &room), head, sizeof head);
    intake_filled(&intake, sizeof head);
    assert_int_equal(intake_take(&intake, &kind, &payload), INTAKE_MALFORMED);
    intake_clear(&intake);
}

TEST(values_that_nobody_writes_are_malformed)
{
    struct packet packet = {0};
    char small[4];
    packet_begin(&packet, 1);
    packet_byte(&packet, 2); /* neither true nor false */
    struct unpack payload = payload_of(&packet);
    assert_false(unpack_truth(&payload));
    assert_false(unpack_done(&payload));

    packet_begin(&packet, 1);
    packet_byte(&packet, 1);
    packet_bytes(&packet, "a\0b", 3); /* a text that ends before it ends */
    payload = payload_of(&packet);
    assert_null(unpack_text(&payload));
    assert_true(payload.failed);

    packet_begin(&packet, 1);
    packet_text(&packet, "four");
    payload = payload_of(&packet);
    unpack_text_into(&payload, small, sizeof small); /* with its NUL it is longer than that */
    assert_true(payload.failed && !small[0]);

    packet_begin(&packet, 1);
    packet_count(&packet, UINT64_MAX); /* a blob that is not there */
    payload = payload_of(&packet);
    size_t len;
    assert_null(unpack_bytes(&payload, &len));
    assert_true(payload.failed && len == 0);
    packet_clear(&packet);
}

/* ---------------------------------------------------------------- messages */

TEST(a_question_travels_with_its_job)
{
    struct packet packet = {0};
    struct api_job *job = decode(JOB), *arrived;
    const struct lent sent = {.question = {QUESTION_SPEND, job, 1.5, 1e-7, EPS_OBJECTIVE_MAX_SQUARED, NULL},
                              .max_n = 1000,
                              .max_operations = 1e9,
                              .max_bytes = 2e9,
                              .threads = 3,
                              .hooks = HOOK_GET | HOOK_CANCELED};
    struct lent lent;
    struct answer answer;
    char hash[2][65];
    message_question(&packet, &sent);
    struct unpack payload = payload_of(&packet);
    assert_true(message_read_question(&payload, &lent, &arrived, &answer));
    assert_non_null(arrived);
    api_job_hash(hash[0], job);
    api_job_hash(hash[1], arrived);
    assert_string_equal(hash[0], hash[1]);
    assert_int_equal(lent.question.kind, QUESTION_SPEND);
    assert_true(lent.question.noise_multiplier == 1.5 && lent.question.delta == 1e-7);
    assert_int_equal(lent.question.objective, EPS_OBJECTIVE_MAX_SQUARED);
    assert_true(lent.max_n == 1000 && lent.max_operations == 1e9 && lent.max_bytes == 2e9 && lent.threads == 3);
    assert_int_equal(lent.hooks, HOOK_GET | HOOK_CANCELED);
    api_job_destroy(arrived);

    /* of another version: refused by the names of both */
    char ours[32], theirs[32];
    snprintf(ours, sizeof ours, "version %d", EPS_ACCOUNTING_VERSION);
    snprintf(theirs, sizeof theirs, "version %d", EPS_ACCOUNTING_VERSION + 1);
    packet.bytes[FRAME_HEAD] = (uint8_t)(EPS_ACCOUNTING_VERSION + 1);
    payload = payload_of(&packet);
    assert_true(message_read_question(&payload, &lent, &arrived, &answer));
    assert_null(arrived);
    assert_int_equal(answer.error.status, EPS_INTERNAL);
    assert_non_null(strstr(answer.error.message, ours));
    assert_non_null(strstr(answer.error.message, theirs));
    api_job_destroy(job);
    packet_clear(&packet);
}

TEST(a_job_that_is_too_large_here_is_refused)
{
    struct packet packet = {0};
    struct api_job *job = decode(JOB), *arrived;
    const struct lent sent = {.question = {.kind = QUESTION_SOLVE, .job = job}, .max_n = 99};
    struct lent lent;
    struct answer answer;
    message_question(&packet, &sent);
    struct unpack payload = payload_of(&packet);
    assert_true(message_read_question(&payload, &lent, &arrived, &answer));
    assert_null(arrived);
    assert_non_null(strstr(answer.error.message, "/n"));
    api_job_destroy(job);
    packet_clear(&packet);
}

TEST(answers_arrive_as_they_are)
{
    struct api_job *job = decode(JOB);
    struct packet packet = {0};
    for (int kind = 0; kind < QUESTION_KINDS; kind++) {
        const struct question question = {.kind = (enum question_kind)kind, .job = job};
        struct answer sent = answer_to(question.kind, job), answer;
        sent.compute_seconds = 0.25;
        message_answer(&packet, &question, &sent);
        struct unpack payload = payload_of(&packet);
        assert_true(message_read_answer(&payload, question.kind, &answer));
        assert_int_equal(answer.error.status, sent.error.status);
        assert_string_equal(answer.error.message, sent.error.message);
        assert_string_equal(answer.error.pointer, sent.error.pointer);
        assert_true(answer.compute_seconds == 0.25 && answer.least == sent.least);
        assert_int_equal(answer.curve_len, sent.curve_len);
        assert_int_equal(answer.spend_len, sent.spend_len);
        if (sent.curve_len)
            assert_memory_equal(answer.curve, sent.curve, sent.curve_len * sizeof *sent.curve);
        if (sent.spend_len)
            assert_memory_equal(answer.spend, sent.spend, sent.spend_len * sizeof *sent.spend);
        assert_int_equal(answer.result != NULL, kind == QUESTION_SOLVE);
        if (answer.result) {
            assert_string_equal(answer.result->core, sent.result->core);
            assert_string_equal(answer.result->cache, sent.result->cache);
            assert_memory_equal(&answer.result->figures, &sent.result->figures, sizeof sent.result->figures);
            assert_int_equal(answer.result->version, sent.result->version);
        }
        answer_clear(&answer);
        static const double none[] = {-1, NAN, INFINITY, 1e300}; /* which a key would be charged */
        for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
            sent.compute_seconds = none[i];
            message_answer(&packet, &question, &sent);
            payload = payload_of(&packet);
            assert_false(message_read_answer(&payload, question.kind, &answer));
            answer_clear(&answer);
        }
        answer_clear(&sent);
    }
    packet_clear(&packet);
    api_job_destroy(job);
}

TEST(draws_travel)
{
    struct api_job *job = decode(JOB), *arrived;
    struct packet packet = {0};
    struct eps_portion portion = {.chunks = 3}, told;
    for (size_t i = 0; i < 32 * portion.chunks; i++)
        portion.keys[i / 32][i % 32] = (uint8_t)i;
    for (size_t i = 0; i < EPS_PORTION_BYTES; i++)
        portion.bytes[i] = (uint8_t)(i + 7);
    portion.run[31] = 9;
    message_ahead(&packet, &portion);
    struct unpack payload = payload_of(&packet);
    assert_true(message_read_ahead(&payload, &told));
    assert_memory_equal(&told, &portion, sizeof told);
    packet.bytes[FRAME_HEAD + 32 + 8 + EPS_PORTION_BYTES + 1] = (EPS_PORTION_CHUNKS >> 8) + 1;
    payload = payload_of(&packet);
    assert_false(message_read_ahead(&payload, &told));

    const struct question question = {.kind = QUESTION_DRAW, .job = job, .portion = portion.bytes};
    struct lent lent;
    double draws = 1024;
    struct answer answer, sent = {.chunks = calloc(2, sizeof *sent.chunks), .chunks_len = 2};
    assert_non_null(sent.chunks);
    message_question(&packet, &(struct lent){.question = question, .max_n = 1000});
    payload = payload_of(&packet);
    assert_true(message_read_question(&payload, &lent, &arrived, &answer));
    assert_memory_equal(lent.question.portion, portion.bytes, EPS_PORTION_BYTES);
    api_job_destroy(arrived);
    for (size_t i = 0; i < 2; i++) {
        sent.chunks[i].key[0] = (uint8_t)(i + 1);
        sent.chunks[i].len = 8 * (i + 1);
        sent.chunks[i].bytes = calloc(i + 1, 8);
        assert_non_null(sent.chunks[i].bytes);
        memset(sent.chunks[i].bytes, (int)i + 3, sent.chunks[i].len);
        memcpy(sent.chunks[i].bytes, &draws, sizeof draws);
    }
    message_answer(&packet, &question, &sent);
    payload = payload_of(&packet);
    assert_true(message_read_answer(&payload, QUESTION_DRAW, &answer));
    assert_int_equal(answer.chunks_len, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(answer.chunks[i].len, sent.chunks[i].len);
        assert_memory_equal(answer.chunks[i].key, sent.chunks[i].key, 32);
        assert_memory_equal(answer.chunks[i].bytes, sent.chunks[i].bytes, sent.chunks[i].len);
    }
    answer_clear(&answer);
    sent.chunks[1].len = 7; /* less than the number of its draws */
    message_answer(&packet, &question, &sent);
    payload = payload_of(&packet);
    assert_false(message_read_answer(&payload, QUESTION_DRAW, &answer));
    answer_clear(&answer);
    sent.chunks[1].len = 16;
    static const double none[] = {NAN, INFINITY, -1024, 0, 1e300}; /* no number of draws */
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        struct message_blob blob = {.kind = EPS_CACHE_CHUNK, .bytes = &none[i], .len = sizeof none[i]}, kept;
        memcpy(sent.chunks[1].bytes, &none[i], sizeof none[i]);
        message_answer(&packet, &question, &sent);
        payload = payload_of(&packet);
        assert_false(message_read_answer(&payload, QUESTION_DRAW, &answer));
        answer_clear(&answer);
        message_keep(&packet, &blob);
        payload = payload_of(&packet);
        assert_false(message_read_keep(&payload, &kept));
    }
    answer_clear(&sent);
    packet_clear(&packet);
    api_job_destroy(job);
}

TEST(of_what_was_drawn_only_the_portion_is_kept)
{
    static const uint8_t keys[] = {2, 9, 1, 2, 3, 1}; /* 9 is of another portion, and two are there twice */
    static const uint8_t kept[] = {2, 1, 3};
    struct eps_portion portion = {.chunks = 3, .keys = {{1}, {2}, {3}}};
    struct answer answer = {.chunks = calloc(sizeof keys / sizeof keys[0], sizeof *answer.chunks)};
    assert_non_null(answer.chunks);
    for (; answer.chunks_len < sizeof keys; answer.chunks_len++) {
        answer.chunks[answer.chunks_len].key[0] = keys[answer.chunks_len];
        answer.chunks[answer.chunks_len].bytes = malloc(8);
        assert_non_null(answer.chunks[answer.chunks_len].bytes);
    }
    assert_int_equal(answer_keep_portion(&answer, &portion), 3);
    assert_int_equal(answer.chunks_len, 3);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(answer.chunks[i].key[0], kept[i]);
    answer_clear(&answer);
}

/* Reads a payload as each message. */
static void read_as_each(const uint8_t *bytes, size_t len)
{
    const struct unpack payload = {.at = bytes, .left = len};
    struct unpack copy = payload;
    struct hello hello;
    struct message_progress progress;
    struct message_blob blob;
    struct eps_portion portion;
    struct lent lent;
    struct answer answer;
    struct api_job *job;
    enum stop stop;
    size_t threads, blob_len;
    void *found_bytes;
    bool found;
    (void)message_read_hello(&copy, &hello);
    copy = payload;
    (void)message_read_threads(&copy, &threads);
    copy = payload;
    (void)message_read_stop(&copy, &stop);
    copy = payload;
    (void)message_read_progress(&copy, &progress);
    copy = payload;
    (void)message_read_lookup(&copy, &blob);
    copy = payload;
    (void)message_read_keep(&copy, &blob);
    copy = payload;
    (void)message_read_ahead(&copy, &portion);
    copy = payload;
    (void)message_read_found(&copy, &found, &found_bytes, &blob_len);
    free(found_bytes);
    copy = payload;
    if (message_read_question(&copy, &lent, &job, &answer))
        api_job_destroy(job);
    answer_clear(&answer);
    for (int kind = 0; kind < QUESTION_KINDS; kind++) {
        copy = payload;
        (void)message_read_answer(&copy, (enum question_kind)kind, &answer);
        answer_clear(&answer);
    }
}

TEST(damaged_messages_are_no_fault)
{
    struct api_job *job = decode(JOB);
    const struct question question = {.kind = QUESTION_SOLVE, .job = job};
    const struct lent lent = {.question = question, .max_n = 1000, .threads = 1};
    struct answer sent = answer_to(QUESTION_SOLVE, job);
    struct packet packet = {0};
    unsigned random = 1;
    for (int which = 0; which < 2; which++) {
        struct answer answer;
        if (which)
            message_answer(&packet, &question, &sent);
        else
            message_question(&packet, &lent);
        struct unpack payload = payload_of(&packet);
        for (size_t len = 0; len < payload.left; len += 7) { /* exact allocations, so that ASan sees a byte too many */
            uint8_t *cut = malloc(len ? len : 1);
            memcpy(cut, payload.at, len);
            struct unpack short_payload = {.at = cut, .left = len};
            if (which) {
                assert_false(message_read_answer(&short_payload, QUESTION_SOLVE, &answer));
                answer_clear(&answer);
            }
            free(cut);
        }
        for (int i = 0; i < 400; i++) {
            uint8_t *changed = malloc(payload.left);
            memcpy(changed, payload.at, payload.left);
            for (int k = 0; k < 1 + i % 3; k++) {
                random = random * 1103515245u + 12345;
                changed[(random >> 8) % (i % 2 ? payload.left : 80)] ^= (uint8_t)(1u << (random >> 28) % 8);
            }
            read_as_each(changed, payload.left);
            free(changed);
        }
    }
    answer_clear(&sent);
    packet_clear(&packet);
    api_job_destroy(job);
}

TEST(what_the_store_would_keep_is_json)
{
    struct api_job *job = decode(JOB);
    const struct question question = {.kind = QUESTION_SOLVE, .job = job};
    struct answer sent = answer_to(QUESTION_SOLVE, job), answer;
    struct packet packet = {0};
    sent.result->core[strlen(sent.result->core) / 2] = '\x01';
    message_answer(&packet, &question, &sent);
    struct unpack payload = payload_of(&packet);
    assert_false(message_read_answer(&payload, QUESTION_SOLVE, &answer));
    answer_clear(&answer);
    answer_clear(&sent);
    packet_clear(&packet);
    api_job_destroy(job);
}

TEST(a_stage_is_a_word_and_a_fraction_is_one)
{
    struct packet packet = {0};
    struct message_progress progress;
    message_progress(&packet, 0.5, "search", NAN);
    struct unpack payload = payload_of(&packet);
    assert_true(message_read_progress(&payload, &progress));
    assert_string_equal(progress.stage, "search");
    message_progress(&packet, 0.5, "a\"b", NAN);
    payload = payload_of(&packet);
    assert_false(message_read_progress(&payload, &progress));
    message_progress(&packet, NAN, "search", NAN);
    payload = payload_of(&packet);
    assert_false(message_read_progress(&payload, &progress));
    packet_clear(&packet);
}
