/*
 * Open connections: how many there may be, in all and from one address, and how long each may take over what it is
 * doing. libmicrohttpd serves them; who gets in and who is sent away is decided here.
 *
 * When a limit is reached, the connection that has been idle longest gives its place to the new one. The last places are kept for
 * newcomers: who has many addresses, or a network of them, must not take all. One eighth is for addresses with few connections,
 * and half of that for those of a network (/24 of IPv4, /48 of IPv6) with few; who has many takes no place from who has few.
 * There is no such reserve where one address may have all (behind a proxy).
 *
 * Where none is idle, the new one is a spare: one of a few that are answered for the service's health alone, so that whoever watches
 * over it can still ask. A connection is closed by shutting its socket down, which libmicrohttpd takes for the
 * client's doing.
 *
 * A stream whose reader pauses keeps its place past its deadline. It stands back for others as one that is idle does: where there
 * are too many connections, or too little memory (connections_drop_stalled()), the one that has stalled longest goes.
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
#include <stdint.h>
#include <sys/socket.h>

struct peer;

#define CONNECTIONS_SPARE 16 /* places for questions of health */

struct connection {
    int fd;
    bool spare;      /* over a limit */
    bool bad_target; /* of the request whose head is being read */
    size_t target_len;
    uint64_t serial; /* from 1 on: no other connection ever has it */
    char address[INET6_ADDRSTRLEN];
    /* Private. */
    struct peer *peer;
    bool leaving;            /* shut down, and counted no more */
    atomic_bool idle;        /* between requests, or within a head */
    _Atomic double since;    /* idle: since when (monotonic seconds) */
    _Atomic double deadline; /* INFINITY: none */
    _Atomic double patience; /* the deadline moves to so long after a byte was taken; 0: it does not */
    atomic_bool keeps;       /* its place, past the deadline */
    bool stalled;            /* and it is past it; under the mutex */
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
bool connections_admit(struct connections *connections, int fd, const struct sockaddr *from);
/* The connection of a socket, or NULL. */
struct connection *connections_find(struct connections *connections, int fd);
/* Before the socket is closed. */
void connections_remove(struct connections *connections, int fd);

/* Shuts down what is past its deadline. Returns the seconds until it should be called again. */
double connections_expire(struct connections *connections);
/* Shuts the one down that has been idle longest. False: none is idle. */
bool connections_evict(struct connections *connections);
/* Shuts the stream down whose reader has taken nothing for longest, past its deadline. False: there is none. */
bool connections_drop_stalled(struct connections *connections);
/* Shuts down the one of that serial, if it is still there: another has taken up what it read. */
void connections_cut(struct connections *connections, uint64_t serial);
/* Whether so many are shut down and not yet closed that no other socket may be accepted. While every acceptor asks
 * first, there are at most max + CONNECTIONS_SPARE + max_leaving sockets, and one more for every acceptor. */
bool connections_full_of_leaving(struct connections *connections);

/* The request's head is read; it has so long for what comes next (INFINITY: as long as it takes). */
void connection_busy(struct connection *connection, double seconds);
/* A piece of its reply is sent, for which it has so long; and `patience` seconds more whenever it takes some of what was sent. */
void connection_sending(struct connection *connection, double seconds, double patience);
/* The same of a stream, whose place is kept past that. */
void connection_streaming(struct connection *connection, double seconds, double patience);
/* The request is over. */
void connection_idle(struct connections *connections, struct connection *connection);

#endif
