/*
 * A reply whose length nobody knows beforehand: it is made while it is sent. Bytes wait in a ring of a few pieces, so that
 * memory is bounded whatever is made, and neither side waits on a thread: where the ring is empty the connection is
 * suspended, and where it is full the maker's thread goes home and is asked for again once half of the ring was read.
 *
 * A client may pause: one that takes nothing for --request-seconds keeps its place until others need it. One that hangs up, a maker that makes nothing for WAIT_MAX_SECONDS and a
 * service that stops end it at once: what was begun is then cut off without the end that HTTP/1.1 marks, as it is where the maker
 * fails, so that no client takes a part for the whole.
 *
 * Of one stream: `fill` is called by one thread at a time, the reply is the HTTP thread's. No lock is held while the maker
 * is called.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_HTTP_STREAM_H
#define SERVER_HTTP_STREAM_H

#include "server/http/request.h"

#define STREAM_PIECE 65536 /* bytes */
#define STREAM_PIECES 4

struct stream;

/* Who makes the bytes. */
struct stream_maker {
    /* There is room: soon, and once for each call, a thread that may compute calls stream_fill(). It must not block: an HTTP
     * thread calls it, or the one that fills. */
    void (*wanted)(void *user, struct stream *stream);
    /* Within stream_fill(): writes the next bytes to `buffer`, at most `size` (STREAM_PIECE), and returns how many; 0: that was
     * all; STREAM_FAILED. Not called again after either. */
    ptrdiff_t (*make)(void *user, char *buffer, size_t size);
    /* The last call: nobody reads it any more, and no fill is under way or owed. On any thread; it must not block. */
    void (*release)(void *user);
};

#define STREAM_FAILED ((ptrdiff_t)-1)

/* NULL: no memory; `user` stays the caller's then. */
struct stream *stream_create(const struct stream_maker *maker, void *user);
/* For who was asked by `wanted`: has one piece made, if there is room; if there still is, `wanted` is called again. The stream may be
 * gone when it returns. */
void stream_fill(struct stream *stream);
/* Whether nobody reads it any more: what is made now is for nothing. For the maker. */
bool stream_closed(struct stream *stream);
/* Nobody will read it. For a stream that is not replied. */
void stream_close(struct stream *stream);
/* Status 200 and what the stream has. Takes it over, whatever the outcome. */
enum handled reply_stream(struct request *request, const char *type, struct stream *stream);

#endif
