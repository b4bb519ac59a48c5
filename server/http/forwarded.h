/*
 * The client behind proxies: what a trusted proxy says in Forwarded (RFC 7239). Nothing is believed of others.
 *
 * Each proxy appends whom it got the request from, so the list is read from its end: the first address that is no
 * trusted proxy is the client. What is left of it comes from the client, and proves nothing.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_HTTP_FORWARDED_H
#define SERVER_HTTP_FORWARDED_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include "server/ops/config.h"

struct proxies;

/* Reads lists of addresses and networks, such as "10.0.0.7,[2001:db8::1],192.168.0.0/16". Returns NULL with a
 * message. */
struct proxies *proxies_create(const struct config_list *lists, char *message, size_t message_size);
/* NULL is allowed, as below: no proxy is trusted. */
void proxies_destroy(struct proxies *proxies);
bool proxies_trust(const struct proxies *proxies, const struct sockaddr *address);

#define FORWARDED_MOST 32 /* nodes of a request */

/* The nodes of the Forwarded headers of a request; initially zero. */
struct forwarded {
    struct sockaddr_storage nodes[FORWARDED_MOST]; /* ss_family 0: it is not given as an address */
    size_t len;
    bool malformed;
};

/* Appends the nodes of the next header. A header that is malformed, even in the part of a client, makes all malformed:
 * with a stray quotation mark, a client can swallow what a proxy appends. */
void forwarded_add(struct forwarded *forwarded, const char *value);
/* The client, according to a trusted proxy. NULL: that does not say its address. */
const struct sockaddr *forwarded_client(const struct forwarded *forwarded, const struct proxies *proxies);

#endif
