/*
 * A request's body while it comes in: collected up to --max-body, and within what all bodies together may take; what
 * is refused is read and thrown away (to a point), so that a client that sends first and reads later sees the refusal
 * rather than a broken pipe.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_HTTP_BODY_H
#define SERVER_HTTP_BODY_H

#include "server/http/request.h"

/* Keeps a piece, or marks the request refused and drops all of it. False: it sends more than is even thrown away. */
bool body_append(struct request *request, const char *data, size_t len);
/* Before the body: whether waiting for it makes no sense, so that the refusal goes out at once. */
bool body_unwanted(const struct request *request);

#endif
