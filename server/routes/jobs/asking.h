/*
 * Requests for a figure of a result that is computed on the first request.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_ROUTES_JOBS_ASKING_H
#define SERVER_ROUTES_JOBS_ASKING_H

#include "server/jobs/figure.h"
#include "server/routes/routes.h"

/* Replies with the figure if it is available: returns true with *handled. Returns false otherwise. */
typedef bool figure_reply(struct request *request, const struct result_record *result, enum handled *handled);

/* The handler for the job in the path: replies with the figure when it is available. refusal: why there will be none;
 * NULL: there may be one. */
enum handled figure_handle(struct request *request, const struct figure_kind *kind, figure_reply *reply,
                           const char *(*refusal)(const struct result_record *result));

#endif
