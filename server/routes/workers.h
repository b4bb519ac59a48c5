/*
 * The workers at the broker, for /metrics.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_ROUTES_WORKERS_H
#define SERVER_ROUTES_WORKERS_H

#include "server/ops/metrics.h"

struct broker;

void workers_metrics(struct text *out, struct broker *broker, enum metrics_format format);

#endif
