/*
 * Frames. A buffer grows with the bytes that have arrived, not with the length that a frame claims, so that a malformed
 * length allocates nothing.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/cells/packet.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define ROOM_LEAST 16384
#define KEPT_MOST ((size_t)1 << 20) /* bytes: a larger buffer is freed after use */

static void write_number(uint8_t *out, uint64_t value, size_t size)
{
    for (size_t i = 0; i < size; i++)
        out[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t read_number(const uint8_t *in, size_t size)
{
    uint64_t value = 0;
    for (size_t i = 0; i < size; i++)
        value |= (uint64_t)in[i] << (8 * i);
    return value;
}

/* Makes the buffer hold at least `wanted` bytes. Returns false if memory runs out. */
static bool grow(uint8_t **bytes, size_t *capacity, size_t wanted)
{
    if (wanted <= *capacity)
        return true;
    size_t larger = *capacity + *capacity / 2 > wanted ? *capacity + *capacity / 2 : wanted;
    uint8_t *moved = realloc(*bytes, larger);
    if (!moved)
        return false;
    *bytes = moved;
    *capacity = larger;
    return true;
}

/* ---------------------------------------------------------------- writing */

static void append(struct packet *packet, const void *bytes, size_t len)
{
    packet->failed = packet->failed || len > FRAME_MOST || packet->len + len > FRAME_HEAD + FRAME_MOST ||
                     !grow(&packet->bytes, &packet->capacity, packet->len + len);
    if (packet->failed || !len)
        return;
    memcpy(packet->bytes + packet->len, bytes, len);
    packet->len += len;
}

void packet_begin(struct packet *packet, uint8_t kind)
{
    const uint8_t head[FRAME_HEAD] = {0, 0, 0, 0, kind};
    if (packet->capacity > KEPT_MOST)
        packet_clear(packet);
    packet->len = 0;
    packet->failed = false;
    append(packet, head, sizeof head);
}

void packet_byte(struct packet *packet, uint8_t value)
{
    append(packet, &value, 1);
}

void packet_count(struct packet *packet, uint64_t value)
{
    uint8_t bytes[8];
    write_number(bytes, value, sizeof bytes);
    append(packet, bytes, sizeof bytes);
}

void packet_real(struct packet *packet, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    packet_count(packet, bits);
}

void packet_bytes(struct packet *packet, const void *bytes, size_t len)
{
    packet->failed = packet->failed || len > FRAME_TEXT_MOST;
    packet_count(packet, len);
    append(packet, bytes, len);
}

void packet_text(struct packet *packet, const char *text)
{
    packet_byte(packet, text != NULL);
    if (text)
        packet_bytes(packet, text, strlen(text));
}

void packet_key(struct packet *packet, const uint8_t key[32])
{
    append(packet, key, 32);
}

bool packet_end(struct packet *packet)
{
    if (!packet->failed)
        write_number(packet->bytes, packet->len - FRAME_HEAD, 4);
    return !packet->failed;
}

void packet_clear(struct packet *packet)
{
    free(packet->bytes);
    *packet = (struct packet){0};
}

/* ---------------------------------------------------------------- reading */

/* The next `len` bytes; NULL if there are fewer. */
static const uint8_t *take(struct unpack *unpack, size_t len)
{
    const uint8_t *at = unpack->at;
    if (unpack->failed || len > unpack->left) {
        unpack->failed = true;
        return NULL;
    }
    unpack->at += len;
    unpack->left -= len;
    return at;
}

uint8_t unpack_byte(struct unpack *unpack)
{
    const uint8_t *at = take(unpack, 1);
    return at ? *at : 0;
}

bool unpack_truth(struct unpack *unpack)
{
    uint8_t value = unpack_byte(unpack);
    unpack->failed = unpack->failed || value > 1;
    return value == 1 && !unpack->failed;
}

uint64_t unpack_count(struct unpack *unpack)
{
    const uint8_t *at = take(unpack, 8);
    return at ? read_number(at, 8) : 0;
}

double unpack_real(struct unpack *unpack)
{
    uint64_t bits = unpack_count(unpack);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

const void *unpack_bytes(struct unpack *unpack, size_t *len)
{
    uint64_t told = unpack_count(unpack);
    unpack->failed = unpack->failed || told > FRAME_TEXT_MOST;
    const uint8_t *at = take(unpack, unpack->failed ? 0 : (size_t)told);
    *len = at ? (size_t)told : 0;
    return at;
}

/* The text in the payload; NULL: it was NULL, or is malformed. */
static const char *text_of(struct unpack *unpack, size_t *len)
{
    *len = 0;
    if (!unpack_truth(unpack))
        return NULL;
    const char *text = unpack_bytes(unpack, len);
    if (text && memchr(text, '\0', *len)) {
        unpack->failed = true;
        *len = 0;
    }
    return unpack->failed ? NULL : text;
}

char *unpack_text(struct unpack *unpack)
{
    size_t len;
    const char *text = text_of(unpack, &len);
    char *copy = text ? malloc(len + 1) : NULL;
    unpack->failed = unpack->failed || (text && !copy);
    if (copy) {
        memcpy(copy, text, len);
        copy[len] = '\0';
    }
    return copy;
}

void unpack_text_into(struct unpack *unpack, char *out, size_t out_size)
{
    size_t len;
    const char *text = text_of(unpack, &len);
    unpack->failed = unpack->failed || !text || len >= out_size;
    len = unpack->failed ? 0 : len;
    if (len)
        memcpy(out, text, len);
    out[len] = '\0';
}

void unpack_key(struct unpack *unpack, uint8_t key[32])
{
    const uint8_t *at = take(unpack, 32);
    if (at)
        memcpy(key, at, 32);
    else
        memset(key, 0, 32);
}

/* ---------------------------------------------------------------- receiving */

uint8_t *intake_room(struct intake *intake, size_t *room)
{
    if (intake->taken) {
        intake->len -= intake->taken;
        memmove(intake->bytes, intake->bytes + intake->taken, intake->len);
        intake->taken = 0;
    }
    if (!intake->len && intake->capacity > KEPT_MOST)
        intake_clear(intake);
    if (!grow(&intake->bytes, &intake->capacity, intake->len + ROOM_LEAST))
        return NULL;
    *room = intake->capacity - intake->len;
    return intake->bytes + intake->len;
}

void intake_filled(struct intake *intake, size_t len)
{
    assert(len <= intake->capacity - intake->len);
    intake->len += len;
}

enum intake_next intake_take(struct intake *intake, uint8_t *kind, struct unpack *payload)
{
    size_t left = intake->len - intake->taken;
    if (left < FRAME_HEAD)
        return INTAKE_MORE;
    const uint8_t *at = intake->bytes + intake->taken;
    size_t len = (size_t)read_number(at, 4);
    if (len > FRAME_MOST)
        return INTAKE_MALFORMED;
    if (left - FRAME_HEAD < len)
        return INTAKE_MORE;
    *kind = at[4];
    *payload = (struct unpack){.at = at + FRAME_HEAD, .left = len};
    intake->taken += FRAME_HEAD + len;
    return INTAKE_FRAME;
}

void intake_clear(struct intake *intake)
{
    free(intake->bytes);
    *intake = (struct intake){0};
}

bool frame_whole(const void *bytes, size_t len, uint8_t *kind, struct unpack *payload)
{
    const uint8_t *at = bytes;
    if (len < FRAME_HEAD || len - FRAME_HEAD > FRAME_MOST || read_number(at, 4) != len - FRAME_HEAD)
        return false;
    *kind = at[4];
    *payload = (struct unpack){.at = at + FRAME_HEAD, .left = len - FRAME_HEAD};
    return true;
}
