/*
 * A service without HTTP, for tests of its components: a database of its own, workers, jobs and groups.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef TESTS_UNIT_SERVICE_H
#define TESTS_UNIT_SERVICE_H

#include "server/groups/groups.h"
#include "server/jobs/jobs.h"

struct service {
    char folder[64], path[96];
    struct config config;
    struct server server;
};

struct service *service_start(void);
/* Frees it, and its files. */
void service_stop(struct service *service);
/* Commits the row of a new group, and waits for the commit. */
void service_insert(struct service *service, const struct group_record *record);

#endif
