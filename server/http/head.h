/*
 * Checks the head of a request before anything else. If a proxy in front of the service could interpret it differently
 * from libmicrohttpd (lengths, encodings, hosts, names with spaces), the request is rejected and the connection closed,
 * because what follows may be a request of another client or part of this one. It also checks the origin: a page in a
 * browser may change something only if it belongs to this service.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_HTTP_HEAD_H
#define SERVER_HTTP_HEAD_H

#include "server/http/request.h"

/* Whether the target, as it was sent, has no control characters, spaces or bytes above 0x7e, and percent signs only
 * before two hexadecimal digits other than 00. */
bool target_valid(const char *target);
/* The error in the head, or NULL; request->last is then set. version: "HTTP/1.1". */
const char *head_refusal(struct request *request, const char *version);

/*
 * The hosts under which the service may be reached. A name that the DNS of an attacker points to this machine is not
 * among them, so a page under that name can neither read nor change anything. They follow from --listen (a loopback
 * address or a wildcard implies localhost; a wildcard implies every numeric address) and from --allow-host, where *
 * means any.
 */
struct hosts;

/* listen: as in --listen; allowed: comma-separated lists. Returns NULL if memory runs out. */
struct hosts *hosts_create(const char *listen, const char *const *allowed, size_t allowed_len);
void hosts_destroy(struct hosts *hosts);
/* The error in the Host and Origin of a request, or NULL. origin: NULL also for a request that changes nothing, because
 * browsers hide its response from pages of another origin. */
const char *hosts_refusal(const struct hosts *hosts, const char *host, const char *origin);

#endif
