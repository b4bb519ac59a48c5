/*
 * The thread owns the session: librabbitmq lets one thread at a time use a connection. Others put what is to be sent
 * into a list, and wake it by an eventfd.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/broker/link.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "server/ops/clock.h"

#define RETRY_SECONDS 0.25 /* after the connection was lost; twice as long each time, */
#define RETRY_MOST 8.0     /* up to this */
#define TICK_SECONDS 0.5
#define OUTBOX_MOST ((size_t)256 << 20) /* bytes */
#define LINGER_SECONDS 1.0              /* before a thread that stops and still sends is disconnected */

/* To be sent, or what is to be said of a delivery. */
struct parcel {
    struct parcel *next;
    bool (*say)(struct session *session, uint64_t tag); /* NULL: to be sent */
    uint64_t epoch;                                     /* of `say` */
    uint64_t tag;
    uint64_t ticket;
    struct session_message message; /* its exchange is static, its key and bytes are behind this struct */
    char key[64];
    uint8_t bytes[];
};

/* Published, and not confirmed yet. */
struct pending {
    struct pending *next;
    uint64_t published;
    uint64_t ticket;
};

struct link {
    const struct address *address;
    struct link_needs needs;
    struct link_hooks hooks;
    pthread_t thread;
    bool joined; /* or never started */
    bool ended;  /* the thread has nothing more to do */
    pthread_cond_t over;
    int wake; /* eventfd */
    pthread_mutex_t mutex;
    struct parcel *first, *last;
    size_t bytes;
    bool connected;
    bool stopping;
    bool *wanted; /* whether each queue is to be consumed */
    int fd;       /* of the session, while there is one; -1 */
    /* Of the thread. */
    struct session *session;
    bool *consumed;
    uint64_t epoch;
    uint64_t published;
    struct pending *pending, *pending_last;
    double ticked;
};

/* ---------------------------------------------------------------- for other threads */

static void wake(struct link *link)
{
    uint64_t one = 1;
    (void)!write(link->wake, &one, sizeof one);
}

static bool push(struct link *link, struct parcel *parcel)
{
    pthread_mutex_lock(&link->mutex);
    bool room = link->connected && link->bytes + parcel->message.len <= OUTBOX_MOST;
    if (room) {
        if (link->first)
            link->last->next = parcel;
        else
            link->first = parcel;
        link->last = parcel;
        link->bytes += parcel->message.len;
    }
    pthread_mutex_unlock(&link->mutex);
    if (room)
        wake(link);
    else
        free(parcel);
    return room;
}

bool link_send(struct link *link, const struct session_message *message, uint64_t ticket)
{
    struct parcel *parcel = malloc(sizeof *parcel + message->len);
    if (!parcel)
        return false;
    *parcel = (struct parcel){.ticket = ticket, .message = *message};
    assert(strlen(message->key) < sizeof parcel->key);
    strcpy(parcel->key, message->key);
    parcel->message.key = parcel->key;
    parcel->message.bytes = memcpy(parcel->bytes, message->bytes, message->len);
    return push(link, parcel);
}

static void say(struct link *link, bool (*what)(struct session *session, uint64_t tag), uint64_t epoch, uint64_t tag)
{
    struct parcel *parcel = calloc(1, sizeof *parcel);
    if (!parcel) /* it is delivered again after the connection */
        return;
    parcel->say = what;
    parcel->epoch = epoch;
    parcel->tag = tag;
    push(link, parcel);
}

void link_ack(struct link *link, uint64_t epoch, uint64_t tag)
{
    say(link, session_ack, epoch, tag);
}

void link_return(struct link *link, uint64_t epoch, uint64_t tag)
{
    say(link, session_return, epoch, tag);
}

void link_consume(struct link *link, unsigned queue, bool wanted)
{
    assert(queue < link->needs.queues_len);
    pthread_mutex_lock(&link->mutex);
    link->wanted[queue] = wanted;
    pthread_mutex_unlock(&link->mutex);
    wake(link);
}

/* ---------------------------------------------------------------- connecting */

static bool declare(struct link *link, bool *fresh)
{
    for (const struct session_exchange *exchange = link->needs.exchanges; exchange->name; exchange++)
        if (!session_exchange(link->session, exchange))
            return false;
    for (unsigned i = 0; i < link->needs.queues_len; i++)
        if (!session_queue(link->session, &link->needs.queues[i], fresh))
            return false;
    return true;
}

/* Starts and stops consuming, as is wanted. */
static bool consume(struct link *link)
{
    bool ok = true;
    for (unsigned i = 0; i < link->needs.queues_len && ok; i++) {
        pthread_mutex_lock(&link->mutex);
        bool wanted = link->wanted[i];
        pthread_mutex_unlock(&link->mutex);
        if (wanted && !link->consumed[i])
            ok = session_consume(link->session, &link->needs.queues[i], i);
        else if (!wanted && link->consumed[i])
            ok = session_cancel(link->session, i);
        link->consumed[i] = wanted;
    }
    return ok;
}

static void set_connected(struct link *link, bool connected)
{
    pthread_mutex_lock(&link->mutex);
    link->connected = connected;
    link->fd = connected ? session_fd(link->session) : -1;
    pthread_mutex_unlock(&link->mutex);
}

static bool stopping(struct link *link)
{
    pthread_mutex_lock(&link->mutex);
    bool is = link->stopping;
    pthread_mutex_unlock(&link->mutex);
    return is;
}

static void forget_pending(struct link *link)
{
    struct pending *pending;
    while ((pending = link->pending) != NULL) {
        link->pending = pending->next;
        free(pending);
    }
    link->pending_last = NULL;
}

static void forget_parcels(struct link *link)
{
    pthread_mutex_lock(&link->mutex);
    struct parcel *parcel = link->first;
    link->first = link->last = NULL;
    link->bytes = 0;
    pthread_mutex_unlock(&link->mutex);
    while (parcel) {
        struct parcel *next = parcel->next;
        free(parcel);
        parcel = next;
    }
}

static void disconnect(struct link *link)
{
    char why[256] = "";
    set_connected(link, false);
    forget_parcels(link);
    forget_pending(link);
    strncpy(why, session_why(link->session), sizeof why - 1);
    session_close(link->session);
    link->session = NULL;
    link->hooks.down(link->hooks.user, why);
}

static bool connect_once(struct link *link)
{
    char why[256];
    bool fresh = false;
    link->session = session_open(link->address, why, sizeof why);
    if (!link->session) {
        link->hooks.down(link->hooks.user, why);
        return false;
    }
    link->epoch++;
    link->published = 0;
    memset(link->consumed, 0, link->needs.queues_len * sizeof *link->consumed);
    if (!declare(link, &fresh)) {
        disconnect(link);
        return false;
    }
    set_connected(link, true);
    link->hooks.up(link->hooks.user, fresh);
    return true;
}

/* ---------------------------------------------------------------- sending and receiving */

static bool note_pending(struct link *link, uint64_t ticket)
{
    struct pending *pending = malloc(sizeof *pending);
    if (!pending)
        return false;
    *pending = (struct pending){.published = link->published, .ticket = ticket};
    if (link->pending)
        link->pending_last->next = pending;
    else
        link->pending = pending;
    link->pending_last = pending;
    return true;
}

static bool send_one(struct link *link, const struct parcel *parcel)
{
    if (parcel->say)
        return parcel->epoch != link->epoch || parcel->say(link->session, parcel->tag);
    link->published++;
    return session_publish(link->session, &parcel->message) && (!parcel->ticket || note_pending(link, parcel->ticket));
}

static bool send_all(struct link *link)
{
    bool ok = true;
    while (ok) {
        pthread_mutex_lock(&link->mutex);
        struct parcel *parcel = link->first;
        if (parcel) {
            link->first = parcel->next;
            link->bytes -= parcel->message.len;
        }
        pthread_mutex_unlock(&link->mutex);
        if (!parcel)
            break;
        ok = send_one(link, parcel);
        free(parcel);
    }
    return ok;
}

/* The broker has stored the publications up to this one, or that one alone; or it could not. */
static void settle(struct link *link, const struct session_delivery *confirm, bool stored)
{
    struct pending **at = &link->pending, *before = NULL;
    while (*at && (*at)->published <= confirm->published) {
        struct pending *pending = *at;
        if (!confirm->multiple && pending->published != confirm->published) {
            before = pending;
            at = &pending->next;
            continue;
        }
        *at = pending->next;
        if (link->pending_last == pending)
            link->pending_last = before;
        link->hooks.settled(link->hooks.user, pending->ticket, stored);
        free(pending);
    }
}

static bool receive_all(struct link *link)
{
    for (;;) {
        struct session_delivery delivery;
        enum session_event event = session_next(link->session, &delivery);
        if (event == SESSION_NOTHING)
            return true;
        if (event == SESSION_FAILED)
            return false;
        if (event == SESSION_DELIVERY && delivery.queue < link->needs.queues_len) {
            const struct link_delivery got = {.queue = delivery.queue,
                                              .bytes = delivery.bytes,
                                              .len = delivery.len,
                                              .epoch = link->epoch,
                                              .tag = delivery.tag};
            link->hooks.received(link->hooks.user, &got);
        } else if (event != SESSION_DELIVERY) {
            settle(link, &delivery, event == SESSION_CONFIRMED);
        }
    }
}

/* Waits until there is something to do, at most until the next tick. */
static void rest(struct link *link, double seconds)
{
    struct pollfd fds[] = {{.fd = link->wake, .events = POLLIN},
                           {.fd = link->session ? session_fd(link->session) : -1, .events = POLLIN}};
    uint64_t count;
    (void)poll(fds, 2, (int)(fmin(seconds, TICK_SECONDS) * 1e3));
    if (fds[0].revents & POLLIN)
        (void)!read(link->wake, &count, sizeof count);
}

static void tick(struct link *link)
{
    double now = clock_monotonic();
    if (now < link->ticked + TICK_SECONDS)
        return;
    link->ticked = now;
    link->hooks.tick(link->hooks.user, link->session != NULL);
}

static bool nothing_to_send(struct link *link)
{
    pthread_mutex_lock(&link->mutex);
    bool nothing = !link->first;
    pthread_mutex_unlock(&link->mutex);
    return nothing && !link->pending;
}

/* Sends and receives until the connection is lost, or all is sent and the link stops. */
static void serve(struct link *link)
{
    while (!stopping(link) || !nothing_to_send(link)) {
        if (!consume(link) || !receive_all(link) || !send_all(link))
            break;
        tick(link);
        rest(link, TICK_SECONDS);
    }
}

static void *link_main(void *argument)
{
    struct link *link = argument;
    double retry = RETRY_SECONDS;
    while (!stopping(link)) {
        if (connect_once(link)) {
            retry = RETRY_SECONDS;
            serve(link);
            disconnect(link);
        }
        double until = clock_monotonic() + retry, now;
        while (!stopping(link) && (now = clock_monotonic()) < until) {
            tick(link);
            rest(link, until - now);
        }
        retry = fmin(2 * retry, RETRY_MOST);
    }
    pthread_mutex_lock(&link->mutex);
    link->ended = true;
    pthread_cond_signal(&link->over);
    pthread_mutex_unlock(&link->mutex);
    return NULL;
}

/* ---------------------------------------------------------------- creating and stopping */

struct link *link_create(const struct address *address, const struct link_needs *needs, const struct link_hooks *hooks)
{
    struct link *link = calloc(1, sizeof *link);
    if (!link)
        return NULL;
    *link = (struct link){.address = address, .needs = *needs, .hooks = *hooks, .joined = true, .fd = -1};
    pthread_mutex_init(&link->mutex, NULL);
    clock_condition(&link->over);
    link->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    link->wanted = calloc(needs->queues_len, sizeof *link->wanted);
    link->consumed = calloc(needs->queues_len, sizeof *link->consumed);
    for (unsigned i = 0; link->wanted && i < needs->queues_len; i++)
        link->wanted[i] = !needs->queues[i].later && !needs->queues[i].never;
    if (link->wake < 0 || !link->wanted || !link->consumed) {
        link_destroy(link);
        return NULL;
    }
    return link;
}

bool link_start(struct link *link)
{
    link->joined = pthread_create(&link->thread, NULL, link_main, link) != 0;
    return !link->joined;
}

/* Waits for the end of the thread. */
static bool join(struct link *link, double deadline)
{
    struct timespec until = clock_timespec(fmin(deadline, clock_monotonic() + 3600)); /* INFINITY is no time */
    int code = 0;
    pthread_mutex_lock(&link->mutex);
    while (!link->joined && !link->ended && code == 0)
        code = pthread_cond_timedwait(&link->over, &link->mutex, &until);
    bool ended = link->ended;
    pthread_mutex_unlock(&link->mutex);
    if (!link->joined && ended)
        link->joined = pthread_join(link->thread, NULL) == 0;
    return link->joined;
}

bool link_stop(struct link *link, double deadline)
{
    if (!link)
        return true;
    pthread_mutex_lock(&link->mutex);
    link->stopping = true;
    pthread_mutex_unlock(&link->mutex);
    wake(link);
    if (join(link, fmin(deadline, clock_monotonic() + LINGER_SECONDS)))
        return true;
    pthread_mutex_lock(&link->mutex);
    if (link->fd >= 0)
        shutdown(link->fd, SHUT_RDWR);
    pthread_mutex_unlock(&link->mutex);
    return join(link, deadline);
}

void link_destroy(struct link *link)
{
    if (!link)
        return;
    assert(link->joined);
    forget_parcels(link);
    forget_pending(link);
    if (link->wake >= 0)
        close(link->wake);
    pthread_cond_destroy(&link->over);
    pthread_mutex_destroy(&link->mutex);
    free(link->wanted);
    free(link->consumed);
    free(link);
}
