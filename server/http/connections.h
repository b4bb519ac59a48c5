/*
 * Open connections: how many there may be, in all and from one address, and how long each may take over what it is
 * doing. libmicrohttpd serves them; who gets in and who is sent away is decided here.
 *
 * When a limit is reached, the connection that has been idle longest gives its place to the new one. Where none is
 * idle, the new one is a spare: one of a few that are answered for the service's health alone, so that whoever watches
 * over it can still ask. A connection is closed by shutting its socket down, which libmicrohttpd takes for the
 * client's doing.
 *
 * Thread-safe. A connection's phase is set by the HTTP thread that serves it.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_HTTP_CONNECTIONS_H
#define SERVER_HTTP_CONNECTIONS_H

#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

struct peer;

#define CONNECTIONS_SPARE 16 /* places for questions of health */

struct connection {
    int fd;
    bool spare;      /* over a limit */
    bool bad_target; /* of the request whose head is being read */
    char address[INET6_ADDRSTRLEN];
    /* Private. */
    struct peer *peer;
    bool leaving;            /* shut down, and counted no more */
    atomic_bool idle;        /* between requests, or within a head */
    _Atomic double since;    /* idle: since when (monotonic seconds) */
    _Atomic double deadline; /* INFINITY: none */
    _Atomic double patience; /* the deadline moves to so long after a byte was taken; 0: it does not */
    int unsent;              /* bytes that the socket held when it was last looked at; under the mutex */
};

struct connections_options {
    size_t max;          /* at a time, spares apart */
    size_t max_of_one;   /* from one address (IPv6: from one network of 64 bits) */
    size_t max_leaving;  /* shut down and not yet closed: from so many on nobody comes in */
    double idle_seconds; /* between requests, the next one's head included */
};

struct connections;

struct connections *connections_create(const struct connections_options *options);
void connections_destroy(struct connections *connections);

/* A socket that was just accepted gets a place, which is its own until connections_remove(). False: there is none. */
bool connections_admit(struct connections *connections, int fd, const struct sockaddr *address);
/* The connection of a socket, or NULL. */
struct connection *connections_find(struct connections *connections, int fd);
/* Before the socket is closed. */
void connections_remove(struct connections *connections, int fd);

/* Shuts down what is past its deadline. Returns the seconds until it should be called again. */
double connections_expire(struct connections *connections);
/* Shuts the one down that has been idle longest. False: none is idle. */
bool connections_evict(struct connections *connections);
/* Whether so many are shut down and not yet closed that no other socket may be accepted. While every acceptor asks
 * first, there are at most max + CONNECTIONS_SPARE + max_leaving sockets, and one more for every acceptor. */
bool connections_full_of_leaving(struct connections *connections);

/* The request's head is read; it has so long for what comes next (INFINITY: as long as it takes). */
void connection_busy(struct connection *connection, double seconds);
/* A piece of its reply is sent, for which it has so long; and `patience` seconds more whenever it takes some of what was sent. */
void connection_sending(struct connection *connection, double seconds, double patience);
/* The request is over. */
void connection_idle(struct connections *connections, struct connection *connection);

#endif
