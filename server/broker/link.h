/*
 * The link of this process with its broker: a thread that connects, declares what is needed, sends and receives, and
 * connects again when the connection is lost, later each time up to some seconds. Thread-safe.
 *
 * What is sent on a ticket is stored by the broker when settled() has said so; after down(), what has not been settled
 * may be lost, and is to be sent again. What has no ticket may be lost at any time.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_BROKER_LINK_H
#define SERVER_BROKER_LINK_H

#include "server/broker/session.h"

struct link;

/* What is declared after connecting; borrowed, and so are its texts. */
struct link_needs {
    const struct session_exchange *exchanges; /* ends with one without a name */
    const struct session_queue *queues;
    unsigned queues_len;
};

/* A delivery. Its bytes are valid during the call. */
struct link_delivery {
    unsigned queue;
    const void *bytes;
    size_t len;
    uint64_t epoch; /* of the connection, */
    uint64_t tag;   /* and the number in it: for link_ack() */
};

/* All are called on the thread of the link, without a lock; they may call functions of this file, except for
 * link_stop() and link_destroy(). */
struct link_hooks {
    void (*up)(void *user, bool fresh);        /* connected. fresh: a queue with a name did not exist, so all is lost */
    void (*down)(void *user, const char *why); /* also when it could not connect */
    void (*received)(void *user, const struct link_delivery *delivery);
    void (*settled)(void *user, uint64_t ticket, bool stored); /* not stored: send it again, later */
    void (*tick)(void *user, bool connected);                  /* about twice a second */
    void *user;
};

/* Returns NULL if memory runs out. address: borrowed. */
struct link *link_create(const struct address *address, const struct link_needs *needs, const struct link_hooks *hooks);
/* Starts the thread, which calls the hooks. Returns false if there is none. */
bool link_start(struct link *link);
/* Sends what is queued, disconnects, and ends the thread. Returns false if it still runs at the deadline (monotonic
 * seconds); then nothing may be freed. NULL is allowed, as below. */
bool link_stop(struct link *link, double deadline);
/* After link_stop(), or before link_start(). */
void link_destroy(struct link *link);

/* Queues a copy of a message. ticket: 0: none. Returns false if there is no connection, or no room. */
bool link_send(struct link *link, const struct session_message *message, uint64_t ticket);
/* Acknowledges a delivery; nothing happens if its connection was lost. */
void link_ack(struct link *link, uint64_t epoch, uint64_t tag);
/* Likewise, gives it back to the broker, which delivers it again or, after DELIVERIES times, sets it aside. */
void link_return(struct link *link, uint64_t epoch, uint64_t tag);
/* Starts or stops consuming a queue, also after connecting again. Nothing happens if it is as wanted. */
void link_consume(struct link *link, unsigned queue, bool wanted);

#endif
