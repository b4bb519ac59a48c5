/*
 * The head of a request, looked at before anything else: what a proxy in front of the service could read another way
 * than libmicrohttpd does (lengths, encodings, hosts, names with spaces) is refused and the connection closed, for
 * what follows on it may be another client's request or a part of this one's. And who may change something: a page in
 * a browser may not, unless it is one of ours.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_HTTP_HEAD_H
#define SERVER_HTTP_HEAD_H

#include "server/http/request.h"

/* The target as it was sent: no control characters, spaces or bytes above 0x7e; percent signs before two hexadecimal
 * digits that are not 00. */
bool target_valid(const char *target);
/* What is wrong with the head, or NULL; then request->last is known. version: "HTTP/1.1". */
const char *head_refusal(struct request *request, const char *version);

/*
 * The hosts under which the service is reached: a name that an attacker's DNS points at us is not among them, so that a
 * page under that name neither reads nor changes anything. From --listen: a loopback address or a wildcard is also localhost; a wildcard is any
 * address (by number). And those of --allow-host, of which * is any.
 */
struct hosts;

/* listen: as in --listen; allowed: comma lists. NULL: no memory. */
struct hosts *hosts_create(const char *listen, const char *const *allowed, size_t allowed_len);
void hosts_destroy(struct hosts *hosts);
/* What is wrong with the Host and Origin of a request, or NULL. origin: NULL also for a request that changes nothing, whose
 * answer the browser keeps from pages of another origin. */
const char *hosts_refusal(const struct hosts *hosts, const char *host, const char *origin);

#endif
