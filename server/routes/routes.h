/*
 * The handlers, one file a resource, and what they share.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_ROUTES_ROUTES_H
#define SERVER_ROUTES_ROUTES_H

#include "server/http/request.h"
#include "server/ops/document.h"
#include "server/store/store.h"

request_handler handle_jobs_post;
request_handler handle_sweeps_post;
request_handler handle_sweep_points;
request_handler handle_plans_post;
request_handler handle_resource_list;
request_handler handle_resource_get;
request_handler handle_resource_events;
request_handler handle_resource_cancel;
request_handler handle_resource_delete;
request_handler handle_job_curve;
request_handler handle_job_matrix;
request_handler handle_job_error;
request_handler handle_job_spend;
request_handler handle_job_statement;
request_handler handle_batches_post;
request_handler handle_noise_post;
request_handler handle_index_get;
request_handler handle_health_get;
request_handler handle_ready_get;
request_handler handle_metrics_get;
request_handler handle_contract_get;
request_handler handle_problem_get;
request_handler handle_dashboard_get;
request_handler handle_dashboard_file_get;

/* What their queries may have. */
extern const struct query_member wait_query[];
extern const struct query_member list_query[];
extern const struct query_member matrix_query[];
extern const struct query_member phase_query[];
extern const struct query_member points_query[];

/* Replies what a store's failure to read the resource means: 404 or 500. */
enum handled reply_unreadable(struct request *request, enum store_status status);
/* Takes the reference over. conditional: answer If-None-Match. */
enum handled reply_document(struct request *request, int status, struct document *document, bool conditional);
/* Replies to a client who is gone as far as we know. */
enum handled reply_gone(struct request *request);
/* Replies that the service stops. */
enum handled reply_stopping(struct request *request);
/* The row and result of a job, both the caller's; *result is NULL where it has not succeeded. Any other status than STORE_OK: there
 * is neither. On any thread. */
enum store_status find_succeeded(struct server *server, const char *id, struct job_record *record,
                                 struct result_record **result);
/* Reads the row and result of a succeeded job. True, or false with *handled: 404, 409 or 500 is replied. */
bool read_succeeded(struct request *request, struct job_record *record, struct result_record **result,
                    enum handled *handled);

/* table.c: every path of the service; a row without a method ends it. */
extern const struct route route_table[];

#endif
