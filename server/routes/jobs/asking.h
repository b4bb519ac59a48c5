/*
 * A request that waits for a figure of a result that is computed when first asked for.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_ROUTES_JOBS_ASKING_H
#define SERVER_ROUTES_JOBS_ASKING_H

#include "server/jobs/figure.h"
#include "server/routes/routes.h"

/* What is there of the figure is replied: true with *handled. False: nothing is. */
typedef bool figure_reply(struct request *request, const struct result_record *result, enum handled *handled);

/* The handler of the job that the path names: replies the figure, once it is there. refusal: why none will be; NULL: it may be. */
enum handled figure_handle(struct request *request, const struct figure_kind *kind, figure_reply *reply,
                           const char *(*refusal)(const struct result_record *result));

#endif
