/*
 * Frames: the bytes between a process that asks and one that computes, whatever carries them. A frame is the length of
 * its payload (4 bytes), its kind (1 byte) and the payload: values one after the other, numbers in little-endian order,
 * reals as the bits of a double, texts and blobs after their length. Thread-compatible.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_CELLS_PACKET_H
#define SERVER_CELLS_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FRAME_HEAD 5                      /* bytes before the payload */
#define FRAME_MOST ((size_t)1 << 30)      /* bytes of a payload; a longer one is malformed */
#define FRAME_TEXT_MOST ((size_t)1 << 28) /* bytes of a text or blob in it */

/* ---------------------------------------------------------------- writing */

/* One frame being written. Zero-initialise; free with packet_clear(). If memory runs out, or the frame becomes too
 * long, it is marked `failed`, and further values are ignored. */
struct packet {
    uint8_t *bytes;
    size_t len;
    size_t capacity;
    bool failed;
};

/* Starts a frame of that kind; the memory of an earlier one is used again. */
void packet_begin(struct packet *packet, uint8_t kind);
void packet_byte(struct packet *packet, uint8_t value);
void packet_count(struct packet *packet, uint64_t value);
void packet_real(struct packet *packet, double value);                   /* NAN and infinities too */
void packet_bytes(struct packet *packet, const void *bytes, size_t len); /* with their length */
void packet_text(struct packet *packet, const char *text);               /* NULL and "" differ */
void packet_key(struct packet *packet, const uint8_t key[32]);
/* Completes the frame, which is then bytes[0 .. len-1]. Returns false if it failed. */
bool packet_end(struct packet *packet);
void packet_clear(struct packet *packet);

/* ---------------------------------------------------------------- reading */

/* A payload being read. After a value that is not there, all values are 0, "" or NULL, and `failed` is set. */
struct unpack {
    const uint8_t *at;
    size_t left;
    bool failed;
};

uint8_t unpack_byte(struct unpack *unpack);
bool unpack_truth(struct unpack *unpack); /* a byte other than 0 and 1 is malformed */
uint64_t unpack_count(struct unpack *unpack);
double unpack_real(struct unpack *unpack);
/* Borrowed from the payload. */
const void *unpack_bytes(struct unpack *unpack, size_t *len);
/* A copy that the caller frees; NULL if it was NULL. A text with a NUL is malformed. Memory that runs out counts as
 * malformed. */
char *unpack_text(struct unpack *unpack);
/* Copies the text, which must not be NULL, into a buffer that it must fit. */
void unpack_text_into(struct unpack *unpack, char *out, size_t out_size);
void unpack_key(struct unpack *unpack, uint8_t key[32]);
/* Whether all values were there, and nothing follows them. */
static inline bool unpack_done(const struct unpack *unpack)
{
    return !unpack->failed && unpack->left == 0;
}

/* ---------------------------------------------------------------- receiving */

/* Bytes as they arrive. Zero-initialise; free with intake_clear(). */
struct intake {
    uint8_t *bytes;
    size_t len;
    size_t capacity;
    size_t taken; /* bytes of frames that were taken */
};

enum intake_next { INTAKE_FRAME, INTAKE_MORE /* more bytes are needed */, INTAKE_MALFORMED };

/* Room for at least one more byte; *room: how many. Frames that were taken before are no longer valid. NULL: out of
 * memory. */
uint8_t *intake_room(struct intake *intake, size_t *room);
/* So many bytes were written there. */
void intake_filled(struct intake *intake, size_t len);
/* Takes the next frame. Its payload is valid until intake_room(). */
enum intake_next intake_take(struct intake *intake, uint8_t *kind, struct unpack *payload);
void intake_clear(struct intake *intake);

/* The same for bytes that are one frame, no more and no less. Returns false if they are not. */
bool frame_whole(const void *bytes, size_t len, uint8_t *kind, struct unpack *payload);

#endif
