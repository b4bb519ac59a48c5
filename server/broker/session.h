/*
 * One connection to a broker that speaks AMQP 0-9-1: what librabbitmq does for us, and no more. After the first failure
 * it is only good for session_close(). Thread-compatible; no function calls back.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_BROKER_SESSION_H
#define SERVER_BROKER_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where the broker is. */
struct address {
    char *text; /* holds the texts below */
    const char *host;
    const char *vhost;
    const char *user;
    const char *password;
    int port;
    bool tls;
    const char *ca; /* PEM: the authorities that may certify the broker; borrowed */
};

/* Reads amqp[s]://user:password@host:port/vhost. ca: see above. Returns false with a message, which does not contain
 * the password. */
bool address_read(struct address *address, const char *url, const char *ca, char *message, size_t message_size);
void address_clear(struct address *address);

/* An exchange; they survive the broker. */
struct session_exchange {
    const char *name; /* NULL ends a list */
    const char *type; /* "direct" or "fanout" */
    bool fleeting;    /* it goes with its last queue */
};

/* A queue. */
struct session_queue {
    const char *name; /* NULL: the broker draws a name */
    bool ours;        /* it goes with the connection, and no other connection can have a queue of this name */
    const char *dead; /* the exchange of messages that were delivered DELIVERIES times in vain; NULL: no limit */
    const char *exchange;
    const char *keys[2]; /* by which it is bound to that exchange; NULL: only one */
    unsigned prefetch;   /* so many deliveries are not acknowledged at a time; 0: they need no acknowledgement */
    bool later;          /* it is not consumed before session_consume() */
    bool never;          /* it is not consumed */
};

#define DELIVERIES 3

struct session;

/* Connects, within some seconds. Returns NULL with a message. */
struct session *session_open(const struct address *address, char *message, size_t message_size);
void session_close(struct session *session); /* at once; NULL is allowed */
int session_fd(const struct session *session);

bool session_exchange(struct session *session, const struct session_exchange *exchange);
/* Declares the queue. *fresh is set if one that outlives connections did not exist. */
bool session_queue(struct session *session, const struct session_queue *queue, bool *fresh);
/* Consumes the queue; its deliveries carry that number. */
bool session_consume(struct session *session, const struct session_queue *queue, unsigned number);
/* Stops consuming it. */
bool session_cancel(struct session *session, unsigned number);

/* Publishes; the broker confirms publications by their numbers 1, 2, ... If it cannot be routed to a queue and `routed`
 * is set, the session fails. lasting: it survives the broker. */
struct session_message {
    const char *exchange; /* "": to the queue that the key names */
    const char *key;
    const void *bytes;
    size_t len;
    bool lasting;
    bool routed;
};
bool session_publish(struct session *session, const struct session_message *message);
bool session_ack(struct session *session, uint64_t tag);
bool session_return(struct session *session, uint64_t tag); /* it is delivered again, to anyone, while it may be */

enum session_event {
    SESSION_NOTHING, /* that has arrived: wait until the socket can be read */
    SESSION_DELIVERY,
    SESSION_CONFIRMED, /* up to a number: they are stored */
    SESSION_REJECTED,  /* up to a number: the broker could not take them */
    SESSION_FAILED
};

/* Valid until the next call. */
struct session_delivery {
    unsigned queue; /* its number */
    uint64_t tag;   /* for session_ack() */
    const void *bytes;
    size_t len;
    uint64_t published; /* of SESSION_CONFIRMED and SESSION_REJECTED: the number */
    bool multiple;      /* and all before it */
};
enum session_event session_next(struct session *session, struct session_delivery *delivery);

/* Why it failed. */
const char *session_why(const struct session *session);

#endif
