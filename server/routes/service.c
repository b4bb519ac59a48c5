/*
 * Information about the service: /v1, /openapi.yaml, /problems/{type}, /healthz, /readyz, /metrics.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/broker/broker.h"
#include "server/cells/cells.h"
#include "server/embedded.h"
#include "server/http/router.h"
#include "server/http/wait.h"
#include "server/jobs/jobs.h"
#include "server/ops/metrics.h"
#include "server/routes/routes.h"
#include "server/routes/workers.h"
#include "server/work/watchdog.h"

static const char json_media[] = "application/json";

static enum handled reply_json(struct request *request, json_t *json, bool etag)
{
    struct text text = {0};
    text_value_new(&text, json);
    text_puts(&text, "\n");
    return reply_text(request, 200, json_media, &text, etag);
}

/* ---------------------------------------------------------------- /v1 */

static json_t *families(void)
{
    json_t *array = json_array();
    for (int i = 0; i < EPS_FAMILY_COUNT; i++)
        if (eps_serves_family((enum eps_family)i))
            json_array_append_new(array, json_string(eps_family_name((enum eps_family)i)));
    return array;
}

static json_t *schemes(void)
{
    json_t *array = json_array();
    for (int i = 0; i < EPS_SCHEME_COUNT; i++)
        if (eps_serves_scheme((enum eps_scheme)i))
            json_array_append_new(array, json_string(eps_scheme_name((enum eps_scheme)i)));
    return array;
}

static json_t *accountants(void)
{
    json_t *array = json_array();
    for (int i = 0; i < EPS_ACCOUNTANT_COUNT; i++)
        if (eps_serves_accountant((enum eps_accountant)i))
            json_array_append_new(array, json_string(eps_accountant_name((enum eps_accountant)i)));
    return array;
}

enum handled handle_index_get(struct request *request)
{
    const struct config *config = request->server->config;
    json_t *links = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "self", "/v1", "jobs",
                              "/v1/jobs", "sweeps", "/v1/sweeps", "plans", "/v1/plans", "batches", "/v1/batches",
                              "noise", "/v1/noise", "usage", "/v1/usage", "workers", "/v1/workers", "openapi",
                              "/openapi.yaml", "health", "/healthz", "ready", "/readyz", "metrics", "/metrics");
    json_t *limits = json_pack("{s:I, s:i, s:I, s:f, s:I, s:f, s:I, s:i, s:f}", "max_n", (json_int_t)config->max_n,
                               "max_phases", EPS_PHASES_MAX, "max_body", (json_int_t)config->max_body, "max_operations",
                               config->max_operations, "max_bytes", (json_int_t)config->max_bytes, "max_seconds",
                               config->max_seconds, "queue", (json_int_t)config->queue, "max_wait_seconds",
                               WAIT_MAX_SECONDS, "keep_seconds", config->keep_seconds);
    return reply_json(request,
                      json_pack("{s:s, s:i, s:o, s:o, s:o, s:o, s:o}", "version", EPS_VERSION, "accounting_version",
                                EPS_ACCOUNTING_VERSION, "links", links, "limits", limits, "families", families(),
                                "schemes", schemes(), "accountants", accountants()),
                      true);
}

/* ---------------------------------------------------------------- documents */

enum handled handle_contract_get(struct request *request)
{
    const struct embedded_file *file = embedded_files;
    while (file->name && strcmp(file->name, "api/openapi.yaml") != 0)
        file++;
    if (!file->name)
        return reply_problem(request, API_PROBLEM_INTERNAL, "this build does not contain the OpenAPI document");
    return reply_static(request, "application/yaml", file->data, file->len);
}

enum handled handle_problem_get(struct request *request)
{
    enum api_problem problem = api_problem_named(request->param);
    if (problem == API_PROBLEM_COUNT)
        return reply_problem(request, API_PROBLEM_NOT_FOUND, "there is no problem type with this name");
    const struct api_problem_type *type = api_problem_type(problem);
    char path[96];
    snprintf(path, sizeof path, "/problems/%s", type->name);
    return reply_json(request,
                      json_pack("{s:s, s:s, s:i, s:s}", "type", path, "title", type->title, "status", type->status,
                                "explanation", type->explanation),
                      true);
}

/* ---------------------------------------------------------------- operations */

enum handled handle_health_get(struct request *request)
{
    static const char ok[] = "{\"status\":\"ok\"}\n";
    return reply_static(request, json_media, ok, sizeof ok - 1);
}

struct readiness {
    struct store_write write; /* first */
    struct request *request;
    enum store_status status;
};

static enum handled ready_resume(struct request *request)
{
    static const char ready[] = "{\"status\":\"ready\"}\n";
    const struct readiness *readiness = request->state;
    if (readiness->status != STORE_OK)
        return reply_problem(request, API_PROBLEM_QUEUE_FULL, "the database could not be written");
    return reply_static(request, json_media, ready, sizeof ready - 1);
}

static void ready_written(struct store_write *write, enum store_status status)
{
    struct readiness *readiness = (struct readiness *)write;
    readiness->status = status;
    request_resume(readiness->request);
}

enum handled handle_ready_get(struct request *request)
{
    struct server *server = request->server;
    struct readiness *readiness = calloc(1, sizeof *readiness);
    const char *trouble = store_trouble(server->store);
    const char *damage = store_damage(server->store);
    char cells[256], why[384];
    request->state = readiness;
    request->state_free = free;
    if (jobs_stopping(server->jobs))
        return reply_stopping(request);
    if (trouble)
        return reply_problem(request, API_PROBLEM_QUEUE_FULL, "%s", trouble);
    if (damage)
        return reply_problem(request, API_PROBLEM_QUEUE_FULL,
                             "the database is damaged (%s); a backup should be restored", damage);
    if (cells_trouble(server->cells, cells, sizeof cells))
        return reply_problem(request, API_PROBLEM_QUEUE_FULL, "no process that computes can be started: %s", cells);
    if (store_full(server->store))
        return reply_problem(request, API_PROBLEM_QUEUE_FULL, "the database has reached its size limit (--max-db)");
    if (server->broker && !server->config->broker_fallback && broker_gone(server->broker, why, sizeof why))
        return reply_problem(request, API_PROBLEM_QUEUE_FULL, "the broker is gone, and jobs wait for it: %s", why);
    if (watchdog_stuck(server->watchdog)) {
        return reply_problem(
            request, API_PROBLEM_QUEUE_FULL,
            "%zu computations did not stop when told to and keep threads and memory; the service should be restarted",
            watchdog_stuck(server->watchdog));
    }
    if (metric_get(METRIC_JOBS_QUEUED) >= (int64_t)server->config->queue)
        return reply_problem(request, API_PROBLEM_QUEUE_FULL, "the queue is full");
    if (!readiness)
        return reply_problem(request, API_PROBLEM_INTERNAL, "out of memory");
    readiness->request = request;
    readiness->write.done = ready_written;
    if (!request_suspend(request, ready_resume))
        return reply_stopping(request);
    store_probe(server->store, &readiness->write);
    return HANDLED_SUSPENDED;
}

enum handled handle_metrics_get(struct request *request)
{
    static const char *const types[] = {/* in the order of the offers and of enum metrics_format */
                                        "text/plain; version=0.0.4; charset=utf-8",
                                        "application/openmetrics-text; version=1.0.0; charset=utf-8"};
    char labels[METRIC_ROUTES_MAX][80];
    const char *names[METRIC_ROUTES_MAX];
    struct text text = {0};
    const struct route *routes = request->server->routes;
    enum metrics_format format = (enum metrics_format)request->offer;
    size_t len = route_count(routes);
    for (size_t i = 0; i < len && i < METRIC_ROUTES_MAX; i++) {
        snprintf(labels[i], sizeof labels[i], "%s %s", routes[i].method, routes[i].pattern);
        names[i] = labels[i];
    }
    metrics_write(&text, format, names, len);
    if (request->server->broker)
        workers_metrics(&text, request->server->broker, format);
    metrics_end(&text, format);
    reply_header(request, MHD_HTTP_HEADER_VARY, "Accept");
    return reply_text(request, 200, types[request->offer], &text, false);
}
