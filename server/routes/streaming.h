/*
 * What is drawn for one client and streamed to it: batches, noise. A thread of the side pool reads the request and opens what
 * draws, while the connection is suspended; what is wrong with the request is then a problem document. What it opened makes the
 * reply piece by piece as the client takes it (server/http/stream.h), each piece on a thread of the streams' pool, in turn with those
 * of the other streams: none waits for what opens, or for a matrix. Its memory is counted in server->drawn (--draw-bytes) from before it is had until it is closed.
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

/* What is streamed: `open` on the side pool, `make` on that of the streams, `close` on any thread; one at a time. */
struct streaming_kind {
    /* Reads streaming->request, which is the caller's until it returns (its body too; reply headers may be added). Returns what
     * draws; or NULL, after streaming_fail() or streaming_refuse(), and then `close` is not called. */
    void *(*open)(struct streaming *streaming);
    /* As stream_maker.make. */
    ptrdiff_t (*make)(void *drawn, char *buffer, size_t size);
    void (*close)(void *drawn);
};

struct streaming {
    struct pool_task task; /* first */
    const struct streaming_kind *kind;
    struct server *server;
    struct request *request; /* until the reply begins */
    struct stream *stream;   /* from then on */
    void *drawn;
    uint64_t bytes; /* counted in server->drawn */
    json_t *problem;
    atomic_bool left; /* the client is gone, or the service stops: `open` need not go on */
};

/* The handler. The reply has Cache-Control: no-store, and the type that was negotiated. */
enum handled streaming_start(struct request *request, const struct streaming_kind *kind);

/* Whether there may ever be room for so many bytes more. */
bool streaming_fits(const struct streaming *streaming, double bytes);
/* Counts so many bytes more, before they are had. False: there is no room for them (503: then a stream whose reader pauses makes
 * room for who comes next), or never is (422), which is the reply; part: what to ask for in its place, or NULL. */
bool streaming_reserve(struct streaming *streaming, double bytes, const char *part);
/* Draws a key from the operating system; or, where the client gave a seed (not under 0), makes one of it, and the reply says that
 * nothing is guaranteed (X-Guarantee: none). what: what it is for; the same seed gives other keys for other things. */
void streaming_key(struct streaming *streaming, uint8_t key[32], int64_t seed, const char *what);
/* The client is gone, or the service stops: give up. In `open` and `make`. */
bool streaming_unwanted(struct streaming *streaming);
/* The first one is the reply. */
void streaming_fail(struct streaming *streaming, enum api_problem problem, const char *detail);
/* The same; takes the problem over. */
void streaming_refuse(struct streaming *streaming, json_t *problem);

#endif
