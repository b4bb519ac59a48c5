/*
 * Batches and noise, drawn for one client and streamed to it. A thread of the side pool reads the request and opens the
 * generator while the connection is suspended, so that an error in the request gives a problem document. The reply is
 * then produced piece by piece as the client reads it (server/http/stream.h), each piece on a thread of the stream
 * pool, which alternates between streams. No piece waits for a generator to be opened or for a matrix. The memory is
 * counted in server->drawn (--draw-bytes) before it is allocated and until it is freed.
 *
 * Thread-compatible.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_ROUTES_STREAMING_H
#define SERVER_ROUTES_STREAMING_H

#include <stdatomic.h>

#include "server/http/stream.h"
#include "server/routes/routes.h"
#include "server/work/pool.h"

struct streaming;

/* A kind of stream: `open` runs on the side pool, `make` on the stream pool, `close` on any thread; one at a time. */
struct streaming_kind {
    /* Reads streaming->request, which belongs to this function until it returns (including the body; it may add reply
     * headers). Returns the generator; or NULL after streaming_fail() or streaming_refuse(), and then `close` is not
     * called. */
    void *(*open)(struct streaming *streaming);
    /* See stream_maker.make. */
    ptrdiff_t (*make)(void *drawn, char *buffer, size_t size);
    void (*close)(void *drawn);
};

struct streaming {
    struct pool_task task; /* first */
    const struct streaming_kind *kind;
    struct server *server;
    struct request *request;  /* until the reply begins */
    char id[REQUEST_ID_SIZE]; /* of the request, for the log */
    struct stream *stream;    /* after that */
    void *drawn;
    uint64_t bytes;          /* counted in server->drawn */
    struct account *account; /* counts the stream */
    json_t *problem;
    atomic_bool left; /* the client has disconnected or the service is stopping: `open` may give up */
};

/* The handler. The reply has Cache-Control: no-store and the negotiated type. */
enum handled streaming_start(struct request *request, const struct streaming_kind *kind);

/* Whether this many additional bytes could ever be available. */
bool streaming_fits(const struct streaming *streaming, double bytes);
/* Counts this many additional bytes before they are allocated. Returns false if they are not available (503; a stream
 * whose reader pauses is then closed to make room for later requests), or never can be (422); the reply is then set.
 * part: what to request instead, or NULL. */
bool streaming_reserve(struct streaming *streaming, double bytes, const char *part);
/* Draws a key from the operating system; or, if the client gave a seed (>= 0), derives the key from it, and the reply
 * states that there is no guarantee (X-Guarantee: none). what: the purpose; the same seed gives different keys for
 * different purposes. */
void streaming_key(struct streaming *streaming, uint8_t key[32], int64_t seed, const char *what);
/* Whether to give up because the client has disconnected or the service is stopping. For `open` and `make`. */
bool streaming_unwanted(struct streaming *streaming);
/* Sets the reply; the first call counts. */
void streaming_fail(struct streaming *streaming, enum api_problem problem, const char *detail);
/* The same, taking ownership of the problem. */
void streaming_refuse(struct streaming *streaming, json_t *problem);

#endif
