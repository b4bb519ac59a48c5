/*
 * Open connections: limits on their number, in total and per address, and deadlines for what each is doing.
 * libmicrohttpd serves the connections; this module decides which are admitted and which are closed.
 *
 * When a limit is reached, the connection that has been idle longest is evicted for the new one. The last places are
 * reserved for newcomers, so that a client with many addresses, or a network of them, cannot take all: one eighth for
 * addresses with few connections, and half of that for addresses whose network (/24 of IPv4, /48 of IPv6) has few. A
 * client with many connections never evicts one of a client with few. There is no reserve if one address may have all
 * connections.
 *
 * A trusted proxy (forwarded.h) may have as many connections as the reserve leaves. The limit per address then holds
 * for each client behind the proxies: for the connections on which a request of that client is served.
 *
 * If no connection is idle, the new one becomes a spare. A few spares exist, which are served only health checks, so
 * that monitoring still works. A connection is closed by shutting down its socket, which libmicrohttpd treats like a
 * disconnect by the client.
 *
 * A stream whose reader pauses keeps its place past its deadline, but can then be evicted like an idle connection: if
 * there are too many connections or too little memory (connections_drop_stalled()), the stream that has stalled longest
 * is closed.
 *
 * A client that hangs up before its request is complete is also noticed here, within two scans, because libmicrohttpd
 * sometimes does not (hung_up_locked()).
 *
 * Thread-safe. The phase of a connection is set by the HTTP thread that serves it.
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
struct proxies;
struct served;

#define CONNECTIONS_SPARE 16 /* places for health checks */

struct connection {
    int fd;
    bool spare;      /* admitted above a limit */
    bool bad_target; /* of the request whose head is being read */
    size_t target_len;
    uint64_t serial;               /* from 1; never reused */
    bool proxy;                    /* the other end is a trusted proxy */
    char client[INET6_ADDRSTRLEN]; /* the address of the client of the present request */
    /* Private. */
    char address[INET6_ADDRSTRLEN]; /* of the other end */
    struct peer *peer;
    struct served *served;   /* the client behind the proxy; NULL: it is the other end */
    bool leaving;            /* shut down, and no longer counted */
    atomic_bool idle;        /* between requests, or reading a head */
    _Atomic double since;    /* if idle: since when (monotonic seconds) */
    _Atomic double deadline; /* INFINITY: none */
    _Atomic double patience; /* seconds by which the deadline moves when the client reads a byte; 0: it does not move */
    atomic_bool reads;       /* a request is read or awaited: nothing more can come from a client that has hung up */
    double hung_up;          /* the deadline of the phase in which the client had hung up; under the mutex */
    atomic_bool keeps;       /* the connection keeps its place past the deadline */
    bool stalled;            /* it is past the deadline; under the mutex */
    int unsent;              /* bytes left in the socket at the last check; under the mutex */
};

struct connections_options {
    size_t max;        /* at a time, without spares */
    size_t max_of_one; /* from one address (IPv6: from one /64 network) that is no trusted proxy; and, through
                          * proxies, those that have a request of one client */
    const struct proxies *proxies; /* the trusted ones; NULL: none. Borrowed */
    size_t max_leaving;            /* limit on connections that are shut down and not yet closed */
    double idle_seconds;           /* between requests, including the head of the next one */
};

struct connections;

struct connections *connections_create(const struct connections_options *options);
void connections_destroy(struct connections *connections);

/* Admits a socket that was just accepted, until connections_remove(). Returns false if there is no place. */
bool connections_admit(struct connections *connections, int fd, const struct sockaddr *from);
/* The connection of a socket, or NULL. */
struct connection *connections_find(struct connections *connections, int fd);
/* Call before the socket is closed. */
void connections_remove(struct connections *connections, int fd);

/* Shuts down the connections that are past their deadline, and those whose clients have hung up in the middle of a
 * request. Returns the number of seconds until the next call. */
double connections_expire(struct connections *connections);
/* Shuts down the connection that has been idle longest. Returns false if none is idle. */
bool connections_evict(struct connections *connections);
/* Shuts down the stream that is past its deadline and whose reader has read nothing for the longest time. Returns false
 * if there is none. */
bool connections_drop_stalled(struct connections *connections);
/* Shuts down the connection with this serial, if it still exists, because another connection continues its stream. */
void connections_cut(struct connections *connections, uint64_t serial);
/* Whether so many connections are shut down and not yet closed that no socket may be accepted. If every acceptor checks
 * this first, there are at most max + CONNECTIONS_SPARE + max_leaving sockets, and one more for every acceptor. */
bool connections_full_of_leaving(struct connections *connections);

/* The request of a connection of a trusted proxy is that of a client with this address. Returns false if it has the
 * maximum already, or memory runs out. */
bool connections_serve(struct connections *connections, struct connection *connection, const struct sockaddr *client);
/* That request has ended. Does nothing if there was none. */
void connections_served(struct connections *connections, struct connection *connection);

/* The head of the request is read; sets the deadline for its body. */
void connection_receiving(struct connection *connection, double seconds);
/* The request is read; sets the deadline for the next phase (INFINITY: none). */
void connection_busy(struct connection *connection, double seconds);
/* A piece of the reply is being sent: sets its deadline, which moves by `patience` seconds whenever the client
 * reads. */
void connection_sending(struct connection *connection, double seconds, double patience);
/* Like connection_sending(), for a stream, which keeps its place past the deadline. */
void connection_streaming(struct connection *connection, double seconds, double patience);
/* The request has ended. */
void connection_idle(struct connections *connections, struct connection *connection);

#endif
