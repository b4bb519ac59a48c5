/*
 * The handlers, one file per resource, and their shared functions.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_ROUTES_ROUTES_H
#define SERVER_ROUTES_ROUTES_H

#include "server/http/request.h"
#include "server/ops/document.h"
#include "server/store/store.h"
#include "server/work/pool.h"

request_handler handle_jobs_post;
request_handler handle_group_post;
request_handler handle_sweep_points;
request_handler handle_resource_list;
request_handler handle_resource_get;
request_handler handle_resource_events;
request_handler handle_resource_cancel;
request_handler handle_resource_delete;
request_handler handle_job_curve;
request_handler handle_job_matrix;
request_handler handle_job_mechanism;
request_handler handle_job_error;
request_handler handle_job_spend;
request_handler handle_job_statement;
request_handler handle_batches_post;
request_handler handle_noise_post;
request_handler handle_usage_get;
request_handler handle_workers_get;
request_handler handle_index_get;
request_handler handle_health_get;
request_handler handle_ready_get;
request_handler handle_metrics_get;
request_handler handle_contract_get;
request_handler handle_problem_get;
request_handler handle_dashboard_get;
request_handler handle_dashboard_file_get;

/* The query parameters of several routes. */
extern const struct query_member wait_query[];
extern const struct query_member list_query[];
extern const struct query_member matrix_query[];
extern const struct query_member phase_query[];
extern const struct query_member points_query[];

/* A task on behalf of a request: it takes turns with those of other keys. */
struct pool_task request_task(const struct request *request, void (*run)(struct pool_task *task));
/* Who posts what the request contains. */
struct poster request_poster(const struct request *request);

/* Replies with the error for a resource that could not be read: 404 or 500. */
enum handled reply_unreadable(struct request *request, enum store_status status);
/* Takes ownership of the reference. conditional: answer If-None-Match. */
enum handled reply_document(struct request *request, int status, struct document *document, bool conditional);
/* Replies to a client that appears to have disconnected. */
enum handled reply_gone(struct request *request);
/* Replies that the service is stopping. */
enum handled reply_stopping(struct request *request);
/* The row and result of a job, both owned by the caller; *result is NULL if it has not succeeded. For any status other
 * than STORE_OK neither is set. On any thread. */
enum store_status find_succeeded(struct server *server, const char *id, struct job_record *record,
                                 struct result_record **result);
/* Reads the row and result of a succeeded job. Returns true; or false with *handled after replying 404, 409 or 500. */
bool read_succeeded(struct request *request, struct job_record *record, struct result_record **result,
                    enum handled *handled);

/* table.c: every path of the service; ends with a row without a method. */
extern const struct route route_table[];

#endif
