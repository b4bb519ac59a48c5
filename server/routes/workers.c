/*
 * GET /v1/workers: the broker, and the workers that have been heard of there; and their metrics.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdlib.h>
#include <string.h>

#include "server/broker/broker.h"
#include "server/http/router.h"
#include "server/routes/routes.h"
#include "server/routes/workers.h"

static json_t *broker_encode(struct broker *broker)
{
    char why[384] = "";
    bool gone = broker_gone(broker, why, sizeof why);
    return json_pack("{s:b, s:s?}", "connected", !gone, "detail", gone ? why : NULL);
}

static json_t *worker_encode(const struct roll_worker *worker, double now)
{
    const struct letter_status *status = &worker->status;
    return json_pack("{s:s, s:s, s:s, s:s?, s:s, s:i, s:s, s:I, s:I, s:I, s:I, s:I, s:f, s:I, s:f}", "name",
                     status->name, "host", status->host, "state", roll_state_name(roll_state(worker, now)), "reason",
                     worker->why[0] ? worker->why : NULL, "version", status->build.version, "accounting_version",
                     status->build.accounting, "numerics", status->build.numerics, "threads",
                     (json_int_t)status->threads, "max_bytes", (json_int_t)status->max_bytes, "running",
                     (json_int_t)status->held_len, "computed", (json_int_t)status->computed, "failed",
                     (json_int_t)status->failed, "seconds", status->seconds, "cached_bytes", (json_int_t)status->cached,
                     "silent_seconds", now - worker->heard);
}

enum handled handle_workers_get(struct request *request)
{
    struct broker *broker = request->server->broker;
    struct text text = {0};
    size_t len = 0;
    double now = 0;
    struct roll_worker *workers = broker ? broker_workers(broker, &len, &now) : NULL;
    json_t *array = json_array();
    for (size_t i = 0; i < len; i++)
        json_array_append_new(array, worker_encode(&workers[i], now));
    free(workers);
    text_value_new(&text,
                   json_pack("{s:o, s:o}", "broker", broker ? broker_encode(broker) : json_null(), "workers", array));
    text_puts(&text, "\n");
    reply_header(request, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    return reply_text(request, 200, "application/json", &text, false);
}

/* ---------------------------------------------------------------- metrics */

static double computed_of(const struct roll_worker *worker)
{
    return (double)worker->status.computed;
}

static double failed_of(const struct roll_worker *worker)
{
    return (double)worker->status.failed;
}

static double seconds_of(const struct roll_worker *worker)
{
    return worker->status.seconds;
}

static const struct {
    const char *name;
    const char *help;
    double (*value)(const struct roll_worker *worker);
} families[] = {
    {"epsilond_worker_jobs_total", "Jobs that a worker has computed.", computed_of},
    {"epsilond_worker_failures_total", "Jobs of a worker that failed.", failed_of},
    {"epsilond_worker_seconds_total", "Seconds that a worker has spent on jobs.", seconds_of},
};

/* A label in quotes; it is visible ASCII. */
static void write_label(struct text *out, const char *value)
{
    text_puts(out, "\"");
    for (const char *at = value; *at; at++)
        text_printf(out, "%s%c", *at == '"' || *at == '\\' ? "\\" : "", *at);
    text_puts(out, "\"");
}

void workers_metrics(struct text *out, struct broker *broker, enum metrics_format format)
{
    size_t len = 0;
    double now = 0;
    struct roll_worker *workers = broker_workers(broker, &len, &now);
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        metrics_head(out, format, families[i].name, "counter", families[i].help);
        for (size_t k = 0; k < len; k++) {
            const struct letter_status *status = &workers[k].status;
            text_printf(out, "%s{worker=\"%s\",host=", families[i].name, status->name);
            write_label(out, status->host);
            text_puts(out, ",version=");
            write_label(out, status->build.version);
            text_printf(out, "} %.9g\n", families[i].value(&workers[k]));
        }
    }
    free(workers);
}
