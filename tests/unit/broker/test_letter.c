/*
 * Letters: each is read as it was written; cut short anywhere, or with bytes changed, it is malformed or another one,
 * and never a fault.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/broker/letter.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "server/cells/message.h"
#include "tests/unit/test.h"

static const struct letter_of some = {.id = {1, 2, 3, 255}, .nonce = UINT64_MAX - 5};

static struct unpack payload_of(const struct packet *packet, enum letter kind)
{
    uint8_t told;
    struct unpack payload;
    assert_false(packet->failed);
    assert_true(frame_whole(packet->bytes, packet->len, &told, &payload));
    assert_int_equal(told, kind);
    return payload;
}

static struct letter_frame frame_of(struct packet *packet)
{
    message_stop(packet, STOP_CANCELED);
    return (struct letter_frame){packet->bytes, packet->len};
}

static void assert_of(const struct letter_of *of)
{
    assert_memory_equal(of->id, some.id, sizeof some.id);
    assert_true(of->nonce == some.nonce);
}

static void assert_stop(const struct letter_frame *frame)
{
    enum stop stop;
    struct unpack payload = letter_frame_payload(frame);
    assert_int_equal(letter_frame_kind(frame), MESSAGE_STOP);
    assert_true(message_read_stop(&payload, &stop) && stop == STOP_CANCELED);
}

TEST(letters_about_questions_are_read_as_they_were_written)
{
    struct packet inner = {0}, packet = {0};
    const struct letter_frame frame = frame_of(&inner);
    const struct letter_question question = {
        .of = some, .server = "server-1", .realm = {9}, .seconds = 3600, .frame = frame};
    struct letter_question asked;
    letter_question(&packet, &question);
    struct unpack payload = payload_of(&packet, LETTER_QUESTION);
    assert_true(letter_read_question(&payload, &asked));
    assert_of(&asked.of);
    assert_string_equal(asked.server, "server-1");
    assert_true(asked.realm[0] == 9 && asked.seconds == 3600);
    assert_stop(&asked.frame);

    const struct letter_speech speech = {.of = some, .from = "w", .number = 7, .frame = frame};
    struct letter_speech said;
    letter_speech(&packet, &speech);
    payload = payload_of(&packet, LETTER_SPEECH);
    assert_true(letter_read_speech(&payload, &said) && said.number == 7);
    assert_of(&said.of);
    assert_stop(&said.frame);

    const struct letter_answer answer = {.of = some, .from = "w", .crashed = true, .seconds = 0.5, .frame = frame};
    struct letter_answer answered;
    letter_answer(&packet, &answer);
    payload = payload_of(&packet, LETTER_ANSWER);
    assert_true(letter_read_answer(&payload, &answered) && answered.crashed && answered.seconds == 0.5);
    assert_of(&answered.of);
    packet_clear(&inner);
    packet_clear(&packet);
}

static const struct letter_held held[] = {{{.id = {1, 2, 3, 255}, .nonce = UINT64_MAX - 5}, "server-1"},
                                          {{.id = {4}, .nonce = 2}, "server-2"}};

static void write_status(struct packet *packet)
{
    struct letter_status status = {.name = "worker",
                                   .host = "host.example",
                                   .build = {15, "0.1.0", "x86_64 avx2"},
                                   .threads = 8,
                                   .max_bytes = 1u << 30,
                                   .computed = 5,
                                   .failed = 1,
                                   .seconds = 2.5,
                                   .leaving = true,
                                   .held_len = 2};
    letter_status(packet, &status, held);
}

TEST(statuses_and_calls_are_read_as_they_were_written)
{
    struct packet packet = {0};
    struct letter_status status;
    struct letter_held one;
    write_status(&packet);
    struct unpack payload = payload_of(&packet, LETTER_STATUS);
    assert_true(letter_read_status(&payload, &status));
    assert_string_equal(status.host, "host.example");
    assert_string_equal(status.build.numerics, "x86_64 avx2");
    assert_true(status.build.accounting == 15 && status.threads == 8 && status.failed == 1 && status.leaving);
    assert_int_equal(status.held_len, 2);
    struct unpack list = status.held;
    for (size_t i = 0; i < 2; i++) {
        assert_true(letter_read_held(&list, &one));
        assert_string_equal(one.server, held[i].server);
        assert_true(one.of.nonce == held[i].of.nonce);
    }
    assert_true(unpack_done(&list));

    const struct letter_call call = {.server = "s", .verdict = LETTER_REFUSED, .why = "another version"};
    struct letter_call heard;
    letter_call(&packet, &call);
    payload = payload_of(&packet, LETTER_CALL);
    assert_true(letter_read_call(&payload, &heard) && heard.verdict == LETTER_REFUSED);
    assert_string_equal(heard.why, call.why);
    packet_clear(&packet);
}

/* Reads it as every letter. Returns how many it is. */
static int read_all(const struct unpack *payload)
{
    struct letter_question question;
    struct letter_speech speech;
    struct letter_answer answer;
    struct letter_status status;
    struct letter_call call;
    struct unpack a = *payload, b = a, c = a, d = a, e = a;
    return letter_read_question(&a, &question) + letter_read_speech(&b, &speech) + letter_read_answer(&c, &answer) +
           letter_read_status(&d, &status) + letter_read_call(&e, &call);
}

TEST(what_is_cut_short_or_longer_is_malformed)
{
    struct packet packet = {0};
    write_status(&packet);
    const size_t len = packet.len - FRAME_HEAD;
    for (size_t left = 0; left < len; left++) {
        uint8_t *copy = malloc(left ? left : 1);
        memcpy(copy, packet.bytes + FRAME_HEAD, left);
        struct letter_status status;
        struct unpack payload = {.at = copy, .left = left};
        assert_false(letter_read_status(&payload, &status));
        free(copy);
    }
    packet_clear(&packet);
}

TEST(changed_bytes_are_no_fault)
{
    struct packet packet = {0};
    write_status(&packet);
    for (size_t i = FRAME_HEAD; i < packet.len; i++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            packet.bytes[i] ^= (uint8_t)(1u << bit);
            const struct unpack payload = {.at = packet.bytes + FRAME_HEAD, .left = packet.len - FRAME_HEAD};
            assert_true(read_all(&payload) <= 1);
            packet.bytes[i] ^= (uint8_t)(1u << bit);
        }
    }
    packet_clear(&packet);
}

TEST(names_numbers_and_frames_are_checked)
{
    struct packet inner = {0}, packet = {0};
    struct letter_answer answer = {.of = some, .from = "Worker", .seconds = 1, .frame = frame_of(&inner)}, read;
    for (int wrong = 0; wrong < 4; wrong++) {
        strcpy(answer.from, wrong == 0 ? "Worker" : wrong == 1 ? "" : "w");
        answer.seconds = wrong == 2 ? NAN : 1;
        answer.frame.len = inner.len - (wrong == 3); /* not a whole frame */
        letter_answer(&packet, &answer);
        struct unpack payload = payload_of(&packet, LETTER_ANSWER);
        assert_false(letter_read_answer(&payload, &read));
    }
    packet_clear(&inner);
    packet_clear(&packet);
}

TEST(names_are_drawn)
{
    char one[LETTER_NAME_SIZE], other[LETTER_NAME_SIZE];
    letter_name(one);
    letter_name(other);
    assert_int_equal(strlen(one), LETTER_NAME_SIZE - 1);
    assert_string_not_equal(one, other);
}

TEST(builds_that_differ_are_named)
{
    char words[512], keys[2][BUILD_KEY_SIZE];
    struct build own, other;
    build_own(&own);
    other = own;
    build_key(keys[0], &own);
    build_key(keys[1], &other);
    assert_true(build_equal(&own, &other) && strcmp(keys[0], keys[1]) == 0);
    other.accounting++;
    build_key(keys[1], &other);
    assert_true(!build_equal(&own, &other) && strcmp(keys[0], keys[1]) != 0);
    build_difference(words, sizeof words, &other, &own);
    char version[48];
    snprintf(version, sizeof version, "(accounting version %d)", other.accounting);
    assert_non_null(strstr(words, version));
    other = own;
    strcpy(other.numerics, "a slide rule");
    build_difference(words, sizeof words, &other, &own);
    assert_non_null(strstr(words, "a slide rule"));
    assert_non_null(strstr(words, own.numerics));
}
