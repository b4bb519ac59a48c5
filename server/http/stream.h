/*
 * A reply of unknown length that is produced while it is sent. The bytes are buffered in a ring of a few pieces, so
 * memory is bounded, and no side blocks a thread: if the ring is empty the connection is suspended, and if it is full
 * the thread of the maker returns and is called again when half of the ring has been read.
 *
 * A client may pause: if it reads nothing for --request-seconds, it keeps its place until others need it. The stream
 * ends at once if the client disconnects, if the maker produces nothing for WAIT_MAX_SECONDS, or if the service stops.
 * The reply is then cut off without the terminating chunk of HTTP/1.1, as it is if the maker fails, so that no client
 * takes a part for the whole.
 *
 * For one stream, `fill` is called by one thread at a time; the reply belongs to the HTTP thread. No lock is held while
 * the maker is called.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_HTTP_STREAM_H
#define SERVER_HTTP_STREAM_H

#include "server/http/request.h"

#define STREAM_PIECE 65536 /* bytes */
#define STREAM_PIECES 4

struct stream;

/* The producer of the bytes. */
struct stream_maker {
    /* There is room: a thread that may compute must call stream_fill() soon, once for each call. This function must not
     * block: it is called by an HTTP thread or by the thread that fills. */
    void (*wanted)(void *user, struct stream *stream);
    /* Called by stream_fill(): writes the next bytes to `buffer`, at most `size` (STREAM_PIECE), and returns their
     * number; 0 at the end; or STREAM_FAILED. It is not called again after either. */
    ptrdiff_t (*make)(void *user, char *buffer, size_t size);
    /* The last call: the stream is no longer read, and no fill is in progress or outstanding. On any thread; must not
     * block. */
    void (*release)(void *user);
};

#define STREAM_FAILED ((ptrdiff_t)-1)

/* NULL: out of memory; the caller then still owns `user`. */
struct stream *stream_create(const struct stream_maker *maker, void *user);
/* For the thread that `wanted` asked for: produces one piece if there is room; if there still is room, calls `wanted`
 * again. The stream may have been freed when it returns. */
void stream_fill(struct stream *stream);
/* Whether the stream is no longer read, so that further output is useless. For the maker. */
bool stream_closed(struct stream *stream);
/* For a stream that is not replied: marks it as not read. */
void stream_close(struct stream *stream);
/* Replies with status 200 and the stream, of which it takes ownership, whatever the outcome. */
enum handled reply_stream(struct request *request, const char *type, struct stream *stream);

#endif
