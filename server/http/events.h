/*
 * Server-Sent Events: a reply that goes on until its subject has ended. Between two events the connection is suspended, and
 * costs memory only; whoever has news resumes it. Nothing is queued for a client: each time it has taken what was sent, the
 * source is asked for what has happened since, so one that reads slowly is told less often, and never of the past. A line
 * that says nothing goes out from time to time, for proxies and for finding out that the client is gone.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_HTTP_EVENTS_H
#define SERVER_HTTP_EVENTS_H

#include "server/http/request.h"
#include "server/http/wait.h"
#include "server/ops/text.h"

enum events_next {
    EVENTS_NONE, /* nothing has happened since */
    EVENTS_SOME, /* the next ones can wait for a moment */
    EVENTS_MORE, /* there are more already */
    EVENTS_LAST, /* that was all: the stream ends */
    EVENTS_BROKEN
};

struct events;

/* Where they come from. */
struct events_source {
    /* Appends the events after events->seen to events->text, some kilobytes at most, and moves `seen` on. On an HTTP thread, */
    enum events_next (*next)(struct events *events);
    /* unless that takes milliseconds: this one has another thread call events_compose(), and then resume the request (the user
     * is the events). NULL: it does not. */
    const struct holder *composer;
    /* Resumes the request (the user is the events) at the next change after `seen`, and at the end alone. */
    struct holder changes;
    struct holder end;
};

/* One stream. Embed it as the first member of something malloc'ed, zero but for the first three. */
struct events {
    struct request *request;
    const struct events_source *source;
    uint64_t seen; /* the number of the last event that the client has; 0: none */
    struct text text;
    struct shared_text tail; /* a line that follows the text, as the last thing of all; or without data */
    /* Private. */
    size_t sent;          /* of text and tail */
    bool composed;        /* they hold all that had happened: what comes next is waited for */
    bool composing;       /* the composer has the request */
    bool ended;           /* nothing comes after them */
    bool taken_back;      /* by who keeps the deadline, which is the next one */
    double deadline;      /* monotonic seconds */
    double rests_until;   /* nothing but the end is told before */
    double heartbeat_due; /* unless something else is said before */
};

/* "id", "event" and the beginning of "data" of an event, whose data has no line feed in it; and its end. */
void event_begin(struct text *text, const char *name, uint64_t number);
void event_end(struct text *text);

/* For the composer. */
void events_compose(struct events *events);

/* Takes the events over, which are freed in the end. */
enum handled reply_events(struct request *request, struct events *events);

#endif
