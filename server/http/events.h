/*
 * Server-Sent Events: a reply that continues until its subject is final. Between two events the connection is suspended
 * and only uses memory; the thread that has news resumes it. Nothing is queued per client: when a client has received
 * what was sent, the source is asked for what has happened since, so a slow reader gets fewer events and never outdated
 * ones. A comment line is sent from time to time, to keep proxies from closing the connection and to detect that the
 * client has disconnected.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_HTTP_EVENTS_H
#define SERVER_HTTP_EVENTS_H

#include "api/json/text.h"
#include "server/http/request.h"
#include "server/http/wait.h"

enum events_next {
    EVENTS_NONE, /* there is nothing new */
    EVENTS_SOME, /* the next events can be delayed for a moment */
    EVENTS_MORE, /* there are more events already */
    EVENTS_LAST, /* these were the last events; the stream ends */
    EVENTS_BROKEN
};

struct events;

/* The source of the events. */
struct events_source {
    /* Appends the events after events->seen to events->text, a few kilobytes at most, and advances `seen`. Runs on an
     * HTTP thread, unless composer is set. */
    enum events_next (*next)(struct events *events);
    /* Set if next() takes milliseconds: makes another thread call events_compose() and then resume the request (the
     * user is the events). NULL: next() is fast. */
    const struct holder *composer;
    /* Resumes the request (the user is the events) at the next change after `seen`, and at the end. */
    struct holder changes;
    struct holder end;
};

/* One stream. Embed it as the first member of an allocated struct that is zero except for the first three members. */
struct events {
    struct request *request;
    const struct events_source *source;
    uint64_t seen; /* the number of the last event that the client has; 0: none */
    struct text text;
    struct shared_text tail; /* follows the text as the data of the final event; or has no data */
    /* Private. */
    struct account *account; /* that the stream counts for */
    size_t sent;             /* bytes sent of text and tail */
    bool composed;           /* all events so far are composed; the stream waits for the next */
    bool composing;          /* the composer holds the request */
    bool ended;              /* nothing follows */
    bool taken_back;         /* by the thread that keeps the deadlines, at the next deadline */
    double deadline;         /* monotonic seconds */
    double rests_until;      /* only the end is sent before this time */
    double heartbeat_due;    /* unless something is sent before */
};

/* event_begin() writes "id", "event" and the start of "data" of an event, whose data must not contain a line feed;
 * event_end() ends it. */
void event_begin(struct text *text, const char *name, uint64_t number);
void event_end(struct text *text);

/* For the composer. */
void events_compose(struct events *events);

/* Takes ownership of the events, and frees them at the end, or at once if the quota of streams is used up. */
enum handled reply_events(struct request *request, struct events *events);

#endif
