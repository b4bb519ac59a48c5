/*
 * Connects an event stream to libmicrohttpd, which asks for bytes; the connection is suspended while there are none.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/http/events.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "server/ops/clock.h"
#include "server/ops/metrics.h"

#define HEARTBEAT_SECONDS 15.0
#define REST_SECONDS 0.25 /* between two events that may be delayed */

static const char hello[] = "retry: 2000\n\n"; /* milliseconds until the client reconnects */
static const char heartbeat[] = ":\n\n";

void event_begin(struct text *text, const char *name, uint64_t number)
{
    text_printf(text, "id: %llu\nevent: %s\ndata: ", (unsigned long long)number, name);
}

void event_end(struct text *text)
{
    text_puts(text, "\n\n");
}

static void events_free(void *user)
{
    struct events *events = user;
    text_clear(&events->text);
    if (events->tail.data)
        events->tail.release(events->tail.owner);
    account_close_stream(events->account);
    free(events);
    metric_add(METRIC_STREAMS_EVENTS, -1);
}

/* Heartbeats are aligned to whole seconds, so that one wake-up serves many streams. */
static void beat_later(struct events *events, double now)
{
    events->heartbeat_due = ceil(now + HEARTBEAT_SECONDS);
}

/* ---------------------------------------------------------------- sending */

static size_t take_part(char *out, size_t most, const char *data, size_t len, size_t *skipped)
{
    size_t skip = *skipped < len ? *skipped : len;
    size_t taken = len - skip < most ? len - skip : most;
    if (taken)
        memcpy(out, data + skip, taken);
    *skipped -= skip;
    return taken;
}

/* Copies the next bytes of the text, the tail, and the line feed that ends the event of the tail. */
static size_t take(struct events *events, char *out, size_t most)
{
    size_t skipped = events->sent;
    size_t len = take_part(out, most, events->text.data, events->text.len, &skipped);
    len += take_part(out + len, most - len, events->tail.data, events->tail.len, &skipped);
    len += take_part(out + len, most - len, "\n", events->tail.data ? 1 : 0, &skipped);
    events->sent += len;
    if (events->sent == events->text.len && !events->tail.data) {
        events->text.len = 0;
        events->sent = 0;
    }
    return len;
}

/* ---------------------------------------------------------------- composing */

void events_compose(struct events *events)
{
    double now = clock_monotonic();
    enum events_next next = events->source->next(events);
    if (next == EVENTS_NONE && now >= events->heartbeat_due)
        text_puts(&events->text, heartbeat);
    if (events->text.len)
        beat_later(events, now);
    events->rests_until = next == EVENTS_SOME ? now + REST_SECONDS : 0;
    events->ended = next == EVENTS_LAST || next == EVENTS_BROKEN || events->text.failed;
    events->composed = next != EVENTS_MORE;
}

/* Whether the request came back early because its client has disconnected. */
static bool client_gone(struct events *events)
{
    bool back = events->taken_back;
    events->taken_back = false;
    return back && clock_monotonic() < events->deadline;
}

static const struct holder *holder_of(const struct events *events)
{
    return events->composing         ? events->source->composer
           : events->rests_until > 0 ? &events->source->end
                                     : &events->source->changes;
}

static bool give(void *user)
{
    return holder_of(user)->give(user);
}

static bool take_back(void *user)
{
    struct events *events = user;
    bool back = holder_of(events)->take_back(events);
    events->taken_back = back; /* if it is back, no other thread has the request */
    return back;
}

static ssize_t suspend(struct events *events, double deadline)
{
    static const struct holder holder = {give, take_back};
    struct request *request = events->request;
    events->deadline = deadline;
    connection_busy(request->place, INFINITY);
    if (!request_suspend(request, NULL))
        return MHD_CONTENT_READER_END_OF_STREAM;
    request_give(request, &holder, events, deadline);
    return 0;
}

/* Suspends the request until there is news or a heartbeat is due. */
static ssize_t suspend_for_news(struct events *events)
{
    events->composed = false;
    return suspend(events,
                   events->rests_until > 0 ? fmin(events->rests_until, events->heartbeat_due) : events->heartbeat_due);
}

static ssize_t events_read(void *cls, uint64_t position, char *out, size_t most)
{
    struct events *events = cls;
    struct request *request = events->request;
    (void)position;
    /* When the service stops, the stream ends; the client reconnects to the next instance. */
    if (waits_stopping(request->server->waits) || client_gone(events))
        return MHD_CONTENT_READER_END_OF_STREAM;
    events->composing = false;
    size_t len = take(events, out, most);
    if (!len && !events->ended && !events->composed && events->source->composer) {
        events->composing = true;
        return suspend(events, INFINITY);
    }
    if (!len && !events->ended && !events->composed) {
        events_compose(events);
        len = take(events, out, most);
    }
    if (len) {
        reply_goes_on(request, len);
        return (ssize_t)len;
    }
    return events->ended ? MHD_CONTENT_READER_END_OF_STREAM : suspend_for_news(events);
}

enum handled reply_events(struct request *request, struct events *events)
{
    struct quota_refusal refusal;
    assert(request->account); /* whoever may read a resource has one */
    if (!account_open_stream(request->account, &request->client.quota, &refusal)) {
        free(events);
        return reply_quota(request, &refusal);
    }
    events->request = request;
    events->account = request->account; /* which outlives the request */
    beat_later(events, clock_monotonic());
    text_puts(&events->text, hello);
    reply_header(request, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    reply_header(request, "X-Accel-Buffering", "no");
    metric_add(METRIC_STREAMS_EVENTS, 1); /* until events_free() */
    return reply_made(request, "text/event-stream", sizeof *events, events_read, events_free, events);
}
