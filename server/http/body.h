/*
 * Collects the body of a request, up to --max-body and within the memory that all bodies together may use. A rejected
 * body is read and discarded, up to a limit, so that a client that sends before it reads sees the response rather than
 * a broken pipe.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_HTTP_BODY_H
#define SERVER_HTTP_BODY_H

#include "server/http/request.h"

/* Appends a piece, or marks the request as rejected and discards the body. Returns false if the client sends more than
 * is discarded. */
bool body_append(struct request *request, const char *data, size_t len);
/* Before the body is received: whether the request should be rejected at once, without waiting for the body. */
bool body_unwanted(const struct request *request);

#endif
