/*
 * `epsilond worker`: computes for servers on other machines, which it meets at a broker, until a signal arrives. It has
 * no database and no file. What is not answered when it stops goes to another worker.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "server/broker/desk.h"
#include "server/commands.h"
#include "server/ops/clock.h"
#include "server/ops/log.h"
#include "server/ops/signals.h"
#include "server/ops/supervisor.h"

#define STOP_SECONDS 8.0
#define GRACE_SECONDS 9.0

static atomic_bool unwanted;

/* On a thread of the desk. */
static void refused(const char *why)
{
    fprintf(stderr, "epsilond: the servers at the broker refuse this worker: %s\n", why);
    atomic_store(&unwanted, true);
    kill(getpid(), SIGTERM);
}

/* On the signal thread: the process was asked to stop GRACE_SECONDS ago, or a second time. */
static int overdue(void *unused)
{
    (void)unused;
    log_event(LOG_LEVEL_WARN, "stopped", "detail=\"not an orderly stop; its jobs are delivered to another worker\"");
    return atomic_load(&unwanted);
}

/* Checks what was read. Returns false with a message. */
static bool check(const struct config *config, int operand, int argc, char **argv, char *message, size_t message_size)
{
    if (operand >= 0 && operand < argc) {
        snprintf(message, message_size, "worker takes no arguments, but got \"%.100s\"; see epsilond --help",
                 argv[operand]);
        return false;
    }
    if (operand >= 0 && !config->broker) {
        snprintf(message, message_size, "worker needs --broker (or EPSILOND_BROKER); see epsilond --help");
        return false;
    }
    if (operand >= 0 && config->isolate == ISOLATE_OFF) {
        snprintf(message, message_size, "a worker computes in processes of their own: --isolate must be on or strict");
        return false;
    }
    return operand >= 0;
}

int command_worker(int argc, char **argv)
{
    struct config config;
    char message[512] = "out of memory or threads";
    int operand = config_read(&config, CONFIG_WORKER, argc, argv, message, sizeof message);
    if (operand == -2) {
        print_help();
        return 0;
    }
    if (!check(&config, operand, argc, argv, message, sizeof message)) {
        fprintf(stderr, "epsilond: %s\n", message);
        return 2;
    }
    signals_start();
    log_start(config.log_level);
    struct desk_process *desk = NULL;
    if ((!config.log_file || log_open(config.log_file, message, sizeof message)) &&
        signals_watch(GRACE_SECONDS, overdue, NULL))
        desk = desk_create(&config, refused, message, sizeof message);
    if (!desk) {
        fprintf(stderr, "epsilond: %s\n", message);
        return 1;
    }
    log_event(LOG_LEVEL_INFO, "started", "threads=%llu", (unsigned long long)config.workers);
    supervisor_ready();
    signals_wait();
    supervisor_stopping();
    log_event(LOG_LEVEL_INFO, "stopping", NULL);
    if (!desk_stop(desk, clock_monotonic() + STOP_SECONDS))
        _exit(atomic_load(&unwanted));
    bool well = desk_destroy(desk);
    log_event(LOG_LEVEL_INFO, "stopped", NULL);
    return atomic_load(&unwanted) || !well;
}
