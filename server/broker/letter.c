/*
 * Each letter is written and read side by side. Reading trusts nothing: whoever may publish at the broker can send
 * anything.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/broker/letter.h"

#include <math.h>
#include <sodium.h>
#include <string.h>

/* ---------------------------------------------------------------- parts */

static void write_of(struct packet *packet, const struct letter_of *of)
{
    packet_key(packet, of->id);
    packet_count(packet, of->nonce);
}

static void read_of(struct unpack *unpack, struct letter_of *of)
{
    unpack_key(unpack, of->id);
    of->nonce = unpack_count(unpack);
}

/* A name is a routing key, and is logged. */
static void read_name(struct unpack *unpack, char name[LETTER_NAME_SIZE])
{
    unpack_text_into(unpack, name, LETTER_NAME_SIZE);
    if (!*name || name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-")] != '\0')
        unpack->failed = true;
}

/* A text for people: visible ASCII. */
static void read_words(struct unpack *unpack, char *out, size_t out_size)
{
    unpack_text_into(unpack, out, out_size);
    for (const char *at = out; *at; at++)
        unpack->failed = unpack->failed || *at < ' ' || *at > '~';
}

static void write_frame(struct packet *packet, const struct letter_frame *frame)
{
    packet_bytes(packet, frame->bytes, frame->len);
}

static void read_frame(struct unpack *unpack, struct letter_frame *frame)
{
    uint8_t kind;
    struct unpack payload;
    frame->bytes = unpack_bytes(unpack, &frame->len);
    if (!frame->bytes || !frame_whole(frame->bytes, frame->len, &kind, &payload))
        unpack->failed = true;
}

static double read_seconds(struct unpack *unpack)
{
    double seconds = unpack_real(unpack);
    unpack->failed = unpack->failed || !(seconds >= 0 && isfinite(seconds));
    return seconds;
}

uint8_t letter_frame_kind(const struct letter_frame *frame)
{
    return frame->bytes[FRAME_HEAD - 1];
}

struct unpack letter_frame_payload(const struct letter_frame *frame)
{
    return (struct unpack){.at = frame->bytes + FRAME_HEAD, .left = frame->len - FRAME_HEAD};
}

void letter_name(char name[LETTER_NAME_SIZE])
{
    unsigned char bytes[(LETTER_NAME_SIZE - 1) / 2];
    randombytes_buf(bytes, sizeof bytes);
    sodium_bin2hex(name, LETTER_NAME_SIZE, bytes, sizeof bytes);
}

/* ---------------------------------------------------------------- about questions */

void letter_question(struct packet *packet, const struct letter_question *question)
{
    packet_begin(packet, LETTER_QUESTION);
    write_of(packet, &question->of);
    packet_text(packet, question->server);
    packet_key(packet, question->realm);
    packet_real(packet, question->seconds);
    write_frame(packet, &question->frame);
    (void)packet_end(packet);
}

bool letter_read_question(struct unpack *unpack, struct letter_question *question)
{
    read_of(unpack, &question->of);
    read_name(unpack, question->server);
    unpack_key(unpack, question->realm);
    question->seconds = read_seconds(unpack);
    read_frame(unpack, &question->frame);
    return unpack_done(unpack);
}

void letter_speech(struct packet *packet, const struct letter_speech *speech)
{
    packet_begin(packet, LETTER_SPEECH);
    write_of(packet, &speech->of);
    packet_text(packet, speech->from);
    packet_count(packet, speech->number);
    write_frame(packet, &speech->frame);
    (void)packet_end(packet);
}

bool letter_read_speech(struct unpack *unpack, struct letter_speech *speech)
{
    read_of(unpack, &speech->of);
    read_name(unpack, speech->from);
    speech->number = unpack_count(unpack);
    read_frame(unpack, &speech->frame);
    return unpack_done(unpack);
}

void letter_answer(struct packet *packet, const struct letter_answer *answer)
{
    packet_begin(packet, LETTER_ANSWER);
    write_of(packet, &answer->of);
    packet_text(packet, answer->from);
    packet_byte(packet, answer->crashed);
    packet_real(packet, answer->seconds);
    write_frame(packet, &answer->frame);
    (void)packet_end(packet);
}

bool letter_read_answer(struct unpack *unpack, struct letter_answer *answer)
{
    read_of(unpack, &answer->of);
    read_name(unpack, answer->from);
    answer->crashed = unpack_truth(unpack);
    answer->seconds = read_seconds(unpack);
    read_frame(unpack, &answer->frame);
    return unpack_done(unpack);
}

/* ---------------------------------------------------------------- about workers */

static void write_build(struct packet *packet, const struct build *build)
{
    packet_count(packet, (uint64_t)build->accounting);
    packet_text(packet, build->version);
    packet_text(packet, build->numerics);
}

static void read_build(struct unpack *unpack, struct build *build)
{
    uint64_t accounting = unpack_count(unpack);
    unpack->failed = unpack->failed || accounting > INT32_MAX;
    build->accounting = unpack->failed ? 0 : (int)accounting;
    read_words(unpack, build->version, sizeof build->version);
    read_words(unpack, build->numerics, sizeof build->numerics);
}

void letter_status(struct packet *packet, const struct letter_status *status, const struct letter_held *held)
{
    packet_begin(packet, LETTER_STATUS);
    packet_text(packet, status->name);
    packet_text(packet, status->host);
    write_build(packet, &status->build);
    packet_count(packet, status->threads);
    packet_count(packet, status->max_bytes);
    packet_count(packet, status->computed);
    packet_count(packet, status->failed);
    packet_real(packet, status->seconds);
    packet_count(packet, status->cached);
    packet_byte(packet, status->leaving);
    packet_count(packet, status->held_len);
    for (size_t i = 0; i < status->held_len; i++) {
        write_of(packet, &held[i].of);
        packet_text(packet, held[i].server);
    }
    (void)packet_end(packet);
}

bool letter_read_held(struct unpack *held, struct letter_held *one)
{
    read_of(held, &one->of);
    read_name(held, one->server);
    return !held->failed;
}

bool letter_read_status(struct unpack *unpack, struct letter_status *status)
{
    struct letter_held held;
    read_name(unpack, status->name);
    read_words(unpack, status->host, sizeof status->host);
    read_build(unpack, &status->build);
    status->threads = unpack_count(unpack);
    status->max_bytes = unpack_count(unpack);
    status->computed = unpack_count(unpack);
    status->failed = unpack_count(unpack);
    status->seconds = read_seconds(unpack);
    status->cached = unpack_count(unpack);
    status->leaving = unpack_truth(unpack);
    uint64_t held_len = unpack_count(unpack);
    if (unpack->failed || held_len > LETTER_HELD_MOST || status->failed > status->computed)
        return false;
    status->held_len = (size_t)held_len;
    status->held = *unpack;
    for (size_t i = 0; i < status->held_len && letter_read_held(unpack, &held); i++) {}
    return unpack_done(unpack);
}

void letter_call(struct packet *packet, const struct letter_call *call)
{
    packet_begin(packet, LETTER_CALL);
    packet_text(packet, call->server);
    packet_byte(packet, (uint8_t)call->verdict);
    packet_text(packet, call->why);
    (void)packet_end(packet);
}

bool letter_read_call(struct unpack *unpack, struct letter_call *call)
{
    read_name(unpack, call->server);
    uint8_t verdict = unpack_byte(unpack);
    call->verdict = (enum letter_verdict)verdict;
    read_words(unpack, call->why, sizeof call->why);
    return unpack_done(unpack) && verdict <= LETTER_REFUSED;
}
