/*
 * The route table, with every path of the service. openapi.yaml has the same operations; a test compares them.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/http/router.h"
#include "server/ops/metrics.h"
#include "server/routes/resource.h"

static const char *const json[] = {"application/json", NULL};
static const char *const json_or_csv[] = {"application/json", "text/csv", NULL};
static const char *const json_or_npy[] = {"application/json", "application/x-npy", NULL};
static const char *const markdown_or_json[] = {"text/markdown", "application/json", NULL};
static const char *const events[] = {"text/event-stream", NULL};
static const char *const lines[] = {"application/x-ndjson", "application/json", NULL};
static const char *const npy_or_lines[] = {"application/x-npy", "application/x-ndjson", "application/json", NULL};
static const char *const metrics[] = {"text/plain", "application/openmetrics-text", NULL};
static const char *const yaml[] = {"application/yaml", NULL};
static const char *const html[] = {"text/html", NULL};
static const char *const page_files[] = {"text/javascript", "text/css", "image/svg+xml", "text/plain", NULL};

const struct route route_table[] = {
    {"POST", "/v1/jobs", ACCESS_SUBMIT, handle_jobs_post, json, wait_query, ROUTE_BODY, &job_resource, NULL},
    {"GET", "/v1/jobs", ACCESS_READ, handle_resource_list, json, list_query, ROUTE_PLAIN, &job_resource, NULL},
    {"GET", "/v1/jobs/{id}", ACCESS_READ, handle_resource_get, json, wait_query, ROUTE_PLAIN, &job_resource,
     resource_hidden},
    {"DELETE", "/v1/jobs/{id}", ACCESS_SUBMIT, handle_resource_delete, json, NULL, ROUTE_PLAIN, &job_resource,
     resource_hidden},
    {"POST", "/v1/jobs/{id}/cancel", ACCESS_SUBMIT, handle_resource_cancel, json, NULL, ROUTE_PLAIN, &job_resource,
     resource_hidden},
    {"GET", "/v1/jobs/{id}/events", ACCESS_READ, handle_resource_events, events, NULL, ROUTE_PLAIN, &job_resource,
     resource_hidden},
    {"GET", "/v1/jobs/{id}/curve", ACCESS_READ, handle_job_curve, json_or_csv, NULL, ROUTE_PLAIN, &job_resource,
     resource_hidden},
    {"GET", "/v1/jobs/{id}/matrix", ACCESS_READ, handle_job_matrix, json_or_npy, matrix_query, ROUTE_PLAIN,
     &job_resource, resource_hidden},
    {"GET", "/v1/jobs/{id}/mechanism", ACCESS_READ, handle_job_mechanism, json, phase_query, ROUTE_PLAIN, &job_resource,
     resource_hidden},
    {"GET", "/v1/jobs/{id}/error", ACCESS_READ, handle_job_error, json_or_csv, phase_query, ROUTE_PLAIN, &job_resource,
     resource_hidden},
    {"GET", "/v1/jobs/{id}/spend", ACCESS_READ, handle_job_spend, json_or_csv, NULL, ROUTE_PLAIN, &job_resource,
     resource_hidden},
    {"GET", "/v1/jobs/{id}/statement", ACCESS_READ, handle_job_statement, markdown_or_json, NULL, ROUTE_PLAIN,
     &job_resource, resource_hidden},
    {"POST", "/v1/batches", ACCESS_SUBMIT, handle_batches_post, lines, phase_query, ROUTE_BODY | ROUTE_LINES, NULL,
     NULL},
    {"POST", "/v1/noise", ACCESS_SUBMIT, handle_noise_post, npy_or_lines, phase_query, ROUTE_BODY, NULL, NULL},
    {"POST", "/v1/sweeps", ACCESS_SUBMIT, handle_group_post, json, NULL, ROUTE_BODY, &sweep_resource, NULL},
    {"GET", "/v1/sweeps", ACCESS_READ, handle_resource_list, json, list_query, ROUTE_PLAIN, &sweep_resource, NULL},
    {"GET", "/v1/sweeps/{id}", ACCESS_READ, handle_resource_get, json, wait_query, ROUTE_PLAIN, &sweep_resource,
     resource_hidden},
    {"DELETE", "/v1/sweeps/{id}", ACCESS_SUBMIT, handle_resource_delete, json, NULL, ROUTE_PLAIN, &sweep_resource,
     resource_hidden},
    {"POST", "/v1/sweeps/{id}/cancel", ACCESS_SUBMIT, handle_resource_cancel, json, NULL, ROUTE_PLAIN, &sweep_resource,
     resource_hidden},
    {"GET", "/v1/sweeps/{id}/events", ACCESS_READ, handle_resource_events, events, NULL, ROUTE_PLAIN, &sweep_resource,
     resource_hidden},
    {"GET", "/v1/sweeps/{id}/points", ACCESS_READ, handle_sweep_points, json_or_csv, points_query, ROUTE_PLAIN,
     &sweep_resource, resource_hidden},
    {"POST", "/v1/plans", ACCESS_SUBMIT, handle_group_post, json, NULL, ROUTE_BODY, &plan_resource, NULL},
    {"GET", "/v1/plans", ACCESS_READ, handle_resource_list, json, list_query, ROUTE_PLAIN, &plan_resource, NULL},
    {"GET", "/v1/plans/{id}", ACCESS_READ, handle_resource_get, json, wait_query, ROUTE_PLAIN, &plan_resource,
     resource_hidden},
    {"DELETE", "/v1/plans/{id}", ACCESS_SUBMIT, handle_resource_delete, json, NULL, ROUTE_PLAIN, &plan_resource,
     resource_hidden},
    {"POST", "/v1/plans/{id}/cancel", ACCESS_SUBMIT, handle_resource_cancel, json, NULL, ROUTE_PLAIN, &plan_resource,
     resource_hidden},
    {"GET", "/v1/plans/{id}/events", ACCESS_READ, handle_resource_events, events, NULL, ROUTE_PLAIN, &plan_resource,
     resource_hidden},
    {"GET", "/v1/usage", ACCESS_READ, handle_usage_get, json, NULL, ROUTE_PLAIN, NULL, NULL},
    {"GET", "/v1/workers", ACCESS_ADMIN, handle_workers_get, json, NULL, ROUTE_PLAIN, NULL, NULL},
    {"GET", "/v1", ACCESS_READ, handle_index_get, json, NULL, ROUTE_PLAIN, NULL, NULL},
    {"GET", "/healthz", ACCESS_ANYONE, handle_health_get, json, NULL, ROUTE_VITAL, NULL, NULL},
    {"GET", "/readyz", ACCESS_ANYONE, handle_ready_get, json, NULL, ROUTE_VITAL, NULL, NULL},
    {"GET", "/metrics", ACCESS_ADMIN, handle_metrics_get, metrics, NULL, ROUTE_PLAIN, NULL, NULL},
    {"GET", "/openapi.yaml", ACCESS_ANYONE, handle_contract_get, yaml, NULL, ROUTE_PLAIN, NULL, NULL},
    {"GET", "/problems/{type}", ACCESS_ANYONE, handle_problem_get, json, NULL, ROUTE_PLAIN, NULL, NULL},
    {"GET", "/", ACCESS_ANYONE, handle_dashboard_get, html, NULL, ROUTE_PLAIN, NULL, NULL},
    {"GET", "/dashboard/{file}", ACCESS_ANYONE, handle_dashboard_file_get, page_files, NULL, ROUTE_PLAIN, NULL, NULL},
    {0},
};
_Static_assert(sizeof route_table / sizeof route_table[0] <= METRIC_ROUTES_MAX, "each route is counted separately");
