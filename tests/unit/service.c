/*
 * Starting and stopping the service.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "tests/unit/service.h"

#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "server/ops/memory.h"
#include "server/ops/ledger.h"
#include "server/ops/log.h"
#include "server/routes/groups/ranking.h"
#include "tests/unit/test.h"

struct service *service_start(void)
{
    struct service *service = calloc(1, sizeof *service);
    char message[256] = "";
    assert_non_null(service);
    snprintf(service->folder, sizeof service->folder, "/tmp/epsilond-service.XXXXXX");
    assert_non_null(mkdtemp(service->folder));
    snprintf(service->path, sizeof service->path, "%s/test.db", service->folder);
    log_start(LOG_LEVEL_ERROR + 1);
    service->config = (struct config){.db = service->path,
                                      .workers = 1,
                                      .queue = 4,
                                      .queue_bytes = 1 << 20,
                                      .max_n = 1000,
                                      .max_operations = 1e13,
                                      .max_bytes = 1 << 30,
                                      .max_seconds = 1000,
                                      .memory_bytes = 1 << 20};
    struct server *server = &service->server;
    server->config = &service->config;
    server->ledger = ledger_create();
    assert_non_null(server->ledger);
    server->pool = pool_create(1, 0, METRIC_COUNT);
    server->bulk = pool_create(1, 0, METRIC_COUNT);
    server->works = works_create();
    assert_non_null(server->works);
    server->jobs = jobs_create(server);
    server->groups = server->jobs ? groups_create(server) : NULL;
    server->rankings = rankings_create(1 << 20);
    struct store_options options = {.path = service->path, .cache_bytes = 1 << 20};
    server->store = store_open(&options, message, sizeof message);
    assert_true(server->pool && server->bulk && server->groups && server->rankings && server->store);
    return service;
}

void service_stop(struct service *service)
{
    static const char *const tails[] = {"", "-wal", "-shm", "-lock"};
    struct server *server = &service->server;
    jobs_stop(server->jobs);
    pool_destroy(server->bulk);
    pool_destroy(server->pool);
    store_close(server->store);
    groups_destroy(server->groups);
    jobs_destroy(server->jobs);
    memory_destroy(server->rankings);
    works_destroy(server->works);
    ledger_destroy(server->ledger);
    for (int i = 0; i < 4; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s%s", service->path, tails[i]);
        unlink(path);
    }
    rmdir(service->folder);
    free(service);
}

struct insertion {
    struct store_group_insert insert; /* first */
    sem_t done;
    enum store_status status;
};

static void inserted(struct store_write *write, enum store_status status)
{
    struct insertion *insertion = (struct insertion *)write;
    insertion->status = status;
    sem_post(&insertion->done);
}

void service_insert(struct service *service, const struct group_record *record)
{
    struct insertion insertion = {.insert = {.write.done = inserted, .record = record}};
    sem_init(&insertion.done, 0, 0);
    store_insert_group(service->server.store, &insertion.insert);
    sem_wait(&insertion.done);
    sem_destroy(&insertion.done);
    assert_int_equal(insertion.status, STORE_OK);
}
