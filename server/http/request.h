/*
 * An HTTP request and the functions for its handler. Everything that belongs to the request is freed when libmicrohttpd
 * reports its completion, whatever the outcome.
 *
 * A handler that has to wait runs twice. It suspends the request (request_suspend()), passes it to the thread that will
 * have the result, and returns HANDLED_SUSPENDED. After the request is resumed, request.resume runs on an HTTP thread
 * and replies. In between the request belongs to the other thread. Handlers neither block nor compute.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_HTTP_REQUEST_H
#define SERVER_HTTP_REQUEST_H

#include <jansson.h>
#include <microhttpd.h>

#include "api/json/text.h"
#include "api/problem.h"
#include "server/http/connections.h"
#include "server/http/daemon.h"
#include "server/http/query.h"
#include "server/ops/access.h"
#include "server/ops/clock.h"
#include "server/ops/ledger.h"
#include "server/ops/log.h"
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
    ROUTE_VITAL = 2, /* served even if there are too many connections */
    ROUTE_LINES = 4  /* the body may also be JSON lines: application/x-ndjson */
};

/* A row of the route table. */
struct route {
    const char *method;
    const char *pattern; /* "/v1/jobs/{id}/curve"; at most one {..}, which is a whole segment */
    enum access_scope scope;
    request_handler *handler;
    const char *const *produces;      /* media types, the default first; ends with NULL */
    const struct query_member *query; /* ends with a row without a name; NULL: none */
    unsigned traits;                  /* of enum route_traits */
    const void *resource;             /* for the handler: what it serves; or NULL */
    /* If {..} names a resource that this client may not see, or that does not exist, the detail of the 404; otherwise
     * NULL. NULL: every client sees it. */
    const char *(*hidden)(const struct request *request);
};

/* The state of a suspended request; see wait.c. */
struct wait {
    struct request *prev;
    struct request *next;
    const struct holder *holder; /* from whom it can be taken back; or NULL */
    void *user;                  /* of the holder */
    double deadline;             /* monotonic seconds */
    bool busy;                   /* it is being given or taken back and cannot resume now */
    bool woken;                  /* it will resume afterwards */
    bool back;                   /* it was taken back */
    bool watched;                /* the client is watched for disconnecting */
    struct request *due;         /* the next request to be taken back */
};

#define REQUEST_HEADERS 8
#define REQUEST_ID_HEADER "X-Request-Id"
#define CONTENT_POLICY "Content-Security-Policy" /* a reply without one allows nothing */

struct request {
    const struct daemon_context *context;
    struct server *server;
    struct MHD_Connection *connection;
    struct connection *place; /* in the table of connections */
    const char *method;
    const char *path;
    char id[REQUEST_ID_SIZE];  /* X-Request-Id: of the client, or generated */
    const struct route *route; /* NULL: no route matches */
    size_t route_index;
    char param[80]; /* the text that matches {..} */
    size_t offer;   /* index into route->produces */
    char *body;     /* NUL-terminated */
    size_t body_len;
    size_t body_capacity;    /* counted in server->bodies */
    uint64_t body_announced; /* Content-Length; 0: none */
    uint64_t body_seen;      /* bytes received, including discarded ones */
    struct access_client client;
    struct account *account;      /* of its key, if the route needs one; otherwise NULL */
    struct quota_refusal refusal; /* API_PROBLEM_QUOTA */
    enum access_verdict verdict;
    enum api_problem refused; /* decided before the body was read; API_PROBLEM_COUNT: not rejected */
    const char *malformed;    /* the error in the head, or NULL */
    bool crowded;             /* too many connections serve its client already */
    bool lines;               /* the body is application/x-ndjson */
    bool bodyless;            /* HEAD */
    bool last;                /* the last request of its connection */
    double started;
    int status;
    size_t reply_bytes;
    size_t reply_held;   /* counted in server->replies */
    char job[UUID_SIZE]; /* for the log; "": none */
    request_handler *resume;
    void *state; /* of the handler */
    void (*state_free)(void *state);
    struct wait wait;
    struct {
        const char *name;
        char *value;
    } headers[REQUEST_HEADERS];
    size_t headers_len;
    unsigned retry_seconds; /* for Retry-After of a reply that has one; 0: some */
};

/* ---------------------------------------------------------------- reading */

const char *request_header_value(const struct request *request, const char *name); /* or NULL */
const char *request_query(const struct request *request, const char *name);        /* or NULL */
/* ?wait=N, otherwise Prefer: wait=N, limited to WAIT_MAX_SECONDS; 0 if absent. */
double request_wait_seconds(const struct request *request, bool *preferred);
/* For tables of query parameters: ?wait. */
bool query_is_seconds(const char *value);
const char *query_seconds_wrong(const char *value);
/* Frees the body, once it has been parsed. */
void request_drop_body(struct request *request);
/* Whether If-None-Match contains the entity tag. */
bool request_has_etag(const struct request *request, const char *etag);

/* The index of the best of `offers` (ends with NULL) for an Accept header (NULL: anything), or -1. */
int negotiate(const char *accept, const char *const *offers);

#define WAIT_MAX_SECONDS 300

/* ---------------------------------------------------------------- replying; all responses are queued here */

/* Adds a header to the reply that follows; copies the value. */
void reply_header(struct request *request, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
enum handled reply_empty(struct request *request, int status);
/* Takes ownership of the text. etag: also answer If-None-Match with 304. */
enum handled reply_text(struct request *request, int status, const char *type, struct text *text, bool etag);
/* Static bytes. */
enum handled reply_static(struct request *request, const char *type, const void *data, size_t len);
/* A JSON text that several replies share. release(owner) gives it back. */
struct shared_text {
    char *data;
    size_t len;
    const char *etag;
    void (*release)(void *owner);
    void *owner;
};
/* Takes ownership of the text. conditional: answer If-None-Match. */
enum handled reply_shared(struct request *request, int status, const struct shared_text *shared, bool conditional);
/* Takes ownership of the file descriptor. */
enum handled reply_file(struct request *request, const char *type, int fd, uint64_t len);
/* A reply of unknown length: an HTTP thread calls `read` for its bytes (see libmicrohttpd), which reports them with
 * reply_goes_on(). held: bytes of memory used meanwhile. release(cls) is called at the end, whatever the outcome. */
enum handled reply_made(struct request *request, const char *type, size_t held, MHD_ContentReaderCallback read,
                        MHD_ContentReaderFreeCallback release, void *cls);
/* Reports `len` more bytes; the client is disconnected if it reads nothing for --request-seconds. */
void reply_goes_on(struct request *request, size_t len);
/* Like reply_goes_on(), for a stream whose client may pause; it is disconnected only if others need its place or its
 * memory. */
void reply_streams_on(struct request *request, size_t len);
/* Counts `len` bytes as held until the request has ended. Returns false if all requests together hold too much. */
bool reply_holds(struct request *request, size_t len);
enum handled reply_problem(struct request *request, enum api_problem problem, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* A quota is used up: 429 with the fields RateLimit and RateLimit-Policy. */
enum handled reply_quota(struct request *request, const struct quota_refusal *refusal);
/* Takes ownership of the document; its `status` is that of the reply. NULL: 500. */
enum handled reply_problem_json(struct request *request, json_t *problem);

#endif
