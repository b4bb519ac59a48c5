/*
 * One HTTP request and what its handler may do with it. Everything that belongs to it hangs on the request and is
 * freed when libmicrohttpd says that it is over, whatever happened.
 *
 * A handler runs twice where it has to wait: it suspends the request (request_suspend()), hands it to whoever will
 * have news, and returns HANDLED_SUSPENDED; once resumed, request.resume runs on an HTTP thread and replies.
 * Between the two the request belongs to that other thread; no handler blocks or computes.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_HTTP_REQUEST_H
#define SERVER_HTTP_REQUEST_H

#include <jansson.h>
#include <microhttpd.h>

#include "api/problem.h"
#include "server/http/connections.h"
#include "server/http/daemon.h"
#include "server/http/query.h"
#include "server/ops/clock.h"
#include "server/ops/log.h"
#include "server/ops/text.h"
#include "server/server.h"

enum handled {
    HANDLED_REPLIED,
    HANDLED_SUSPENDED,
    HANDLED_LOST /* close the connection */
};

struct request;
typedef enum handled request_handler(struct request *request);

enum route_traits {
    ROUTE_PLAIN = 0,
    ROUTE_BODY = 1,  /* takes a JSON body */
    ROUTE_VITAL = 2, /* answered even where there are too many connections */
    ROUTE_LINES = 4  /* the body may also be lines of JSON: application/x-ndjson */
};

/* A row of the route table. */
struct route {
    const char *method;
    const char *pattern; /* "/v1/jobs/{id}/curve": one {..} at most, a whole segment */
    request_handler *handler;
    const char *const *produces;      /* media types, the default first; NULL ends */
    const struct query_member *query; /* a row without a name ends it; NULL: none */
    unsigned traits;                  /* of enum route_traits */
    const void *resource;             /* the handler's: what it serves; or NULL */
};

/* A suspended connection's place among those that wait; see wait.c. */
struct wait {
    struct request *prev;
    struct request *next;
    const struct holder *holder; /* who can be asked for it; or NULL */
    void *user;                  /* the holder's */
    double deadline;             /* monotonic seconds */
    bool busy;                   /* it is being given or asked back: it cannot resume now */
    bool woken;                  /* but will then */
    bool back;                   /* it was got back */
    bool watched;                /* for the client's hanging up */
    struct request *due;         /* the next one to be asked back */
};

#define REQUEST_HEADERS 6
#define REQUEST_ID_HEADER "X-Request-Id"

struct request {
    const struct daemon_context *context;
    struct server *server;
    struct MHD_Connection *connection;
    struct connection *place; /* among all connections */
    const char *method;
    const char *path;
    char id[REQUEST_ID_SIZE];  /* X-Request-Id: the client's, or ours */
    const struct route *route; /* NULL: none fits */
    size_t route_index;
    char param[80]; /* what stands for {..} */
    size_t offer;   /* index into route->produces */
    char *body;     /* NUL-terminated */
    size_t body_len;
    size_t body_capacity;     /* counted in server->bodies */
    uint64_t body_announced;  /* Content-Length; 0: none */
    uint64_t body_seen;       /* bytes received, kept or not */
    enum api_problem refused; /* decided before the body was read; API_PROBLEM_COUNT: not */
    const char *malformed;    /* what is wrong with the head, or NULL */
    bool lines;               /* the body is application/x-ndjson */
    bool bodyless;            /* HEAD */
    bool last;                /* of its connection */
    double started;
    int status;
    size_t reply_bytes;
    size_t reply_held;   /* counted in server->replies */
    char job[UUID_SIZE]; /* for the log; "" if none */
    request_handler *resume;
    void *state; /* the handler's */
    void (*state_free)(void *state);
    struct wait wait;
    struct {
        const char *name;
        char *value;
    } headers[REQUEST_HEADERS];
    size_t headers_len;
};

/* ---------------------------------------------------------------- reading */

const char *request_header_value(const struct request *request, const char *name); /* or NULL */
const char *request_query(const struct request *request, const char *name);        /* or NULL */
/* ?wait=N, else Prefer: wait=N, of which more than WAIT_MAX_SECONDS are as many; 0 if absent. */
double request_wait_seconds(const struct request *request, bool *preferred);
/* For tables of query members: ?wait. */
bool query_is_seconds(const char *value);
const char *query_seconds_wrong(const char *value);
/* Gives the memory of the body back as soon as it was read. */
void request_drop_body(struct request *request);
/* Whether the entity tag is among those of If-None-Match. */
bool request_has_etag(const struct request *request, const char *etag);

/* The best of `offers` (NULL-ended) for an Accept header (NULL: anything), or -1. */
int negotiate(const char *accept, const char *const *offers);

#define WAIT_MAX_SECONDS 300

/* ---------------------------------------------------------------- replying: the only place that queues responses */

/* Adds a header to the reply that follows; value is copied. */
void reply_header(struct request *request, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
enum handled reply_empty(struct request *request, int status);
/* Takes the text over. etag: also answer If-None-Match with 304. */
enum handled reply_text(struct request *request, int status, const char *type, struct text *text, bool etag);
/* Static bytes. */
enum handled reply_static(struct request *request, const char *type, const void *data, size_t len);
/* A JSON text that others send too. release(owner) gives it back. */
struct shared_text {
    char *data;
    size_t len;
    const char *etag;
    void (*release)(void *owner);
    void *owner;
};
/* Takes it over. conditional: answer If-None-Match. */
enum handled reply_shared(struct request *request, int status, const struct shared_text *shared, bool conditional);
/* Takes the file descriptor over. */
enum handled reply_file(struct request *request, const char *type, int fd, uint64_t len);
/* Of unknown length: `read` is asked for it (as libmicrohttpd says), by an HTTP thread; it says what it gave with
 * reply_goes_on(). held: bytes of memory meanwhile. release(cls) in the end, whatever the outcome. */
enum handled reply_made(struct request *request, const char *type, size_t held, MHD_ContentReaderCallback read,
                        MHD_ContentReaderFreeCallback release, void *cls);
/* So much more was given: the client is sent away once it takes nothing for --request-seconds. */
void reply_goes_on(struct request *request, size_t len);
/* The same of what may wait for a client who pauses: it is sent away where others need its place, or its memory. */
void reply_streams_on(struct request *request, size_t len);
/* Counts, until the request is over, so many bytes that it holds. False: others hold too much. */
bool reply_holds(struct request *request, size_t len);
enum handled reply_problem(struct request *request, enum api_problem problem, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Takes the document over; its `status` is the reply's. NULL: 500. */
enum handled reply_problem_json(struct request *request, json_t *problem);

#endif
