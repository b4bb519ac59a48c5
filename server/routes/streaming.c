/*
 * Turns a suspended request into a stream. Until the reply begins, the streaming belongs to the request, then to the
 * stream.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/routes/streaming.h"

#include <math.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/http/wait.h"

static void streaming_free(void *user)
{
    struct streaming *streaming = user;
    if (streaming->drawn)
        streaming->kind->close(streaming->drawn);
    if (streaming->bytes)
        budget_give(&streaming->server->drawn, streaming->bytes);
    json_decref(streaming->problem);
    account_close_stream(streaming->account);
    free(streaming);
}

void streaming_refuse(struct streaming *streaming, json_t *problem)
{
    if (streaming->problem)
        json_decref(problem);
    else
        streaming->problem = problem;
}

void streaming_fail(struct streaming *streaming, enum api_problem problem, const char *detail)
{
    streaming_refuse(streaming, api_problem_encode(problem, detail, streaming->request->path, NULL));
}

bool streaming_fits(const struct streaming *streaming, double bytes)
{
    return bytes + (double)streaming->bytes <= (double)streaming->server->drawn.most;
}

bool streaming_reserve(struct streaming *streaming, double bytes, const char *part)
{
    struct budget *drawn = &streaming->server->drawn;
    if (!streaming_fits(streaming, bytes)) {
        char detail[400];
        snprintf(detail, sizeof detail,
                 "this takes %.4g MiB of memory, but the limit for all streams together is %.4g MiB (--draw-bytes)%s%s",
                 (bytes + (double)streaming->bytes) / 0x1p20, (double)drawn->most / 0x1p20, part ? "; " : "",
                 part ? part : "");
        streaming_fail(streaming, API_PROBLEM_TOO_COSTLY, detail);
        return false;
    }
    uint64_t more = (uint64_t)ceil(bytes);
    if (!budget_take(drawn, more, drawn->most)) {
        connections_drop_stalled(streaming->request->context->connections);
        streaming_fail(streaming, API_PROBLEM_QUEUE_FULL,
                       "the memory for streams is in use (--draw-bytes); try again later");
        return false;
    }
    streaming->bytes += more;
    return true;
}

void streaming_key(struct streaming *streaming, uint8_t key[32], int64_t seed, const char *what)
{
    char text[80];
    if (seed < 0) {
        randombytes_buf(key, 32);
        return;
    }
    snprintf(text, sizeof text, "epsilond %s %lld", what, (long long)seed);
    crypto_generichash(key, 32, (const unsigned char *)text, strlen(text), NULL, 0);
    reply_header(streaming->request, "X-Guarantee", "none");
}

bool streaming_unwanted(struct streaming *streaming)
{
    return atomic_load(&streaming->left) || waits_stopping(streaming->server->waits) ||
           (streaming->stream && stream_closed(streaming->stream));
}

/* ---------------------------------------------------------------- the stream */

static void fill(struct pool_task *task)
{
    struct streaming *streaming = (struct streaming *)task;
    stream_fill(streaming->stream);
}

static void wanted(void *user, struct stream *stream)
{
    struct streaming *streaming = user;
    streaming->stream = stream;
    streaming->task.run = fill;
    pool_submit(streaming->server->streams, &streaming->task);
}

static ptrdiff_t make(void *user, char *buffer, size_t size)
{
    struct streaming *streaming = user;
    return streaming->kind->make(streaming->drawn, buffer, size);
}

/* ---------------------------------------------------------------- the request */

static void open_task(struct pool_task *task)
{
    struct streaming *streaming = (struct streaming *)task;
    struct request *request = streaming->request;
    streaming->drawn = streaming->kind->open(streaming);
    request_drop_body(request);
    request_resume(request);
}

static enum handled streaming_resume(struct request *request)
{
    static const struct stream_maker maker = {wanted, make, streaming_free};
    struct streaming *streaming = request->state;
    if (streaming->problem) {
        json_t *problem = streaming->problem;
        streaming->problem = NULL;
        return reply_problem_json(request, problem);
    }
    if (!streaming->drawn) /* no thread had started it */
        return waits_stopping(request->server->waits) ? reply_stopping(request) : reply_gone(request);
    struct stream *stream = stream_create(&maker, streaming);
    if (!stream)
        return reply_problem(request, API_PROBLEM_INTERNAL, "out of memory");
    streaming->request = NULL;
    request->state = NULL;
    request->state_free = NULL;
    reply_header(request, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    reply_header(request, MHD_HTTP_HEADER_VARY, "Accept");
    return reply_stream(request, request->route->produces[request->offer], stream);
}

static bool streaming_give(void *user)
{
    struct streaming *streaming = user;
    pool_submit(streaming->server->side, &streaming->task);
    return true;
}

static bool streaming_take_back(void *user)
{
    struct streaming *streaming = user;
    atomic_store(&streaming->left, true);
    return pool_withdraw(streaming->server->side, &streaming->task);
}

enum handled streaming_start(struct request *request, const struct streaming_kind *kind)
{
    static const struct holder holder = {streaming_give, streaming_take_back};
    struct quota_refusal refusal;
    if (!account_open_stream(request->account, &request->client.quota, &refusal))
        return reply_quota(request, &refusal);
    struct streaming *streaming = calloc(1, sizeof *streaming);
    if (!streaming) {
        account_close_stream(request->account);
        return reply_problem(request, API_PROBLEM_INTERNAL, "out of memory");
    }
    request->state = streaming;
    request->state_free = streaming_free;
    *streaming = (struct streaming){.task = request_task(request, open_task),
                                    .kind = kind,
                                    .server = request->server,
                                    .request = request,
                                    .account = request->account};
    memcpy(streaming->id, request->id, sizeof streaming->id);
    if (!request_suspend(request, streaming_resume))
        return reply_stopping(request);
    request_give(request, &holder, streaming, clock_monotonic() + WAIT_MAX_SECONDS);
    return HANDLED_SUSPENDED;
}
