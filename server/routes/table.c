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
static const char *const plain[] = {"text/plain", NULL};
static const char *const yaml[] = {"application/yaml", NULL};
static const char *const html[] = {"text/html", NULL};
static const char *const page_files[] = {"text/javascript", "text/css", "image/svg+xml", "text/plain", NULL};

const struct route route_table[] = {
    {"POST", "/v1/jobs", handle_jobs_post, json, wait_query, ROUTE_BODY, &job_resource},
    {"GET", "/v1/jobs", handle_resource_list, json, list_query, ROUTE_PLAIN, &job_resource},
    {"GET", "/v1/jobs/{id}", handle_resource_get, json, wait_query, ROUTE_PLAIN, &job_resource},
    {"DELETE", "/v1/jobs/{id}", handle_resource_delete, json, NULL, ROUTE_PLAIN, &job_resource},
    {"POST", "/v1/jobs/{id}/cancel", handle_resource_cancel, json, NULL, ROUTE_PLAIN, &job_resource},
    {"GET", "/v1/jobs/{id}/events", handle_resource_events, events, NULL, ROUTE_PLAIN, &job_resource},
    {"GET", "/v1/jobs/{id}/curve", handle_job_curve, json_or_csv, NULL, ROUTE_PLAIN, &job_resource},
    {"GET", "/v1/jobs/{id}/matrix", handle_job_matrix, json_or_npy, matrix_query, ROUTE_PLAIN, &job_resource},
    {"GET", "/v1/jobs/{id}/mechanism", handle_job_mechanism, json, phase_query, ROUTE_PLAIN, &job_resource},
    {"GET", "/v1/jobs/{id}/error", handle_job_error, json_or_csv, phase_query, ROUTE_PLAIN, &job_resource},
    {"GET", "/v1/jobs/{id}/spend", handle_job_spend, json_or_csv, NULL, ROUTE_PLAIN, &job_resource},
    {"GET", "/v1/jobs/{id}/statement", handle_job_statement, markdown_or_json, NULL, ROUTE_PLAIN, &job_resource},
    {"POST", "/v1/batches", handle_batches_post, lines, phase_query, ROUTE_BODY | ROUTE_LINES, NULL},
    {"POST", "/v1/noise", handle_noise_post, npy_or_lines, phase_query, ROUTE_BODY, NULL},
    {"POST", "/v1/sweeps", handle_group_post, json, NULL, ROUTE_BODY, &sweep_resource},
    {"GET", "/v1/sweeps", handle_resource_list, json, list_query, ROUTE_PLAIN, &sweep_resource},
    {"GET", "/v1/sweeps/{id}", handle_resource_get, json, wait_query, ROUTE_PLAIN, &sweep_resource},
    {"DELETE", "/v1/sweeps/{id}", handle_resource_delete, json, NULL, ROUTE_PLAIN, &sweep_resource},
    {"POST", "/v1/sweeps/{id}/cancel", handle_resource_cancel, json, NULL, ROUTE_PLAIN, &sweep_resource},
    {"GET", "/v1/sweeps/{id}/events", handle_resource_events, events, NULL, ROUTE_PLAIN, &sweep_resource},
    {"GET", "/v1/sweeps/{id}/points", handle_sweep_points, json_or_csv, points_query, ROUTE_PLAIN, &sweep_resource},
    {"POST", "/v1/plans", handle_group_post, json, NULL, ROUTE_BODY, &plan_resource},
    {"GET", "/v1/plans", handle_resource_list, json, list_query, ROUTE_PLAIN, &plan_resource},
    {"GET", "/v1/plans/{id}", handle_resource_get, json, wait_query, ROUTE_PLAIN, &plan_resource},
    {"DELETE", "/v1/plans/{id}", handle_resource_delete, json, NULL, ROUTE_PLAIN, &plan_resource},
    {"POST", "/v1/plans/{id}/cancel", handle_resource_cancel, json, NULL, ROUTE_PLAIN, &plan_resource},
    {"GET", "/v1/plans/{id}/events", handle_resource_events, events, NULL, ROUTE_PLAIN, &plan_resource},
    {"GET", "/v1", handle_index_get, json, NULL, ROUTE_PLAIN, NULL},
    {"GET", "/healthz", handle_health_get, json, NULL, ROUTE_VITAL, NULL},
    {"GET", "/readyz", handle_ready_get, json, NULL, ROUTE_VITAL, NULL},
    {"GET", "/metrics", handle_metrics_get, plain, NULL, ROUTE_PLAIN, NULL},
    {"GET", "/openapi.yaml", handle_contract_get, yaml, NULL, ROUTE_PLAIN, NULL},
    {"GET", "/problems/{type}", handle_problem_get, json, NULL, ROUTE_PLAIN, NULL},
    {"GET", "/", handle_dashboard_get, html, NULL, ROUTE_PLAIN, NULL},
    {"GET", "/dashboard/{file}", handle_dashboard_file_get, page_files, NULL, ROUTE_PLAIN, NULL},
    {0},
};
_Static_assert(sizeof route_table / sizeof route_table[0] <= METRIC_ROUTES_MAX, "each route is counted separately");
