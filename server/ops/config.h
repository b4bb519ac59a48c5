/*
 * What the operator sets: one table of options, read from EPSILOND_... first and the command line second, and
 * printed by --help. Immutable after config_read().
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_OPS_CONFIG_H
#define SERVER_OPS_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "server/ops/log.h"

enum config_command { CONFIG_SERVE = 1, CONFIG_SOLVE = 2, CONFIG_BACKUP = 4 };

#define CONFIG_LIST_MAX 32

/* An option that may be given several times. */
struct config_list {
    const char *values[CONFIG_LIST_MAX];
    size_t len;
};

struct config {
    const char *listen; /* HOST:PORT, [HOST]:PORT */
    const char *db;     /* NULL (solve): none */
    uint64_t workers;
    double express_seconds; /* jobs estimated at less never wait for longer ones; 0: they do */
    uint64_t http_threads;
    uint64_t max_connections;
    uint64_t max_connections_of_one; /* address */
    double idle_seconds;
    double request_seconds;
    double watchdog_seconds;
    uint64_t http_bytes;           /* of bodies and replies under way */
    uint64_t spool_bytes;          /* of temporary files */
    uint64_t draw_bytes;           /* of what batches and noise are drawn from */
    double stream_seconds;         /* the keys of streams that nobody reads; 0: they are not kept */
    struct config_list allow_host; /* comma lists */
    uint64_t queue;                /* jobs that may wait */
    uint64_t queue_bytes;          /* memory of the jobs that are not final */
    uint64_t max_body;             /* bytes */
    uint64_t max_db;               /* bytes; 0: no bound */
    uint64_t max_n;
    double max_operations;
    uint64_t max_bytes;    /* of one job's memory */
    double max_seconds;    /* of one run; 0: no bound */
    uint64_t cache_bytes;  /* factorisations and PLDs on disk */
    uint64_t chunk_bytes;  /* draws of Monte Carlo jobs on disk */
    uint64_t memory_bytes; /* finished documents and results in memory */
    double keep_seconds;   /* finished jobs; 0: for ever */
    enum log_level log_level;
};

/*
 * Fills in defaults, the environment, then argv[1...]. argv is that of the command ("serve" at argv[0]).
 * Returns the index of the first operand, or -1 with a message; -2 if --help was asked for.
 * Strings point into argv or the environment.
 */
int config_read(struct config *config, enum config_command command, int argc, char **argv, char *message,
                size_t message_size);
/* The options of a command, one line each, with defaults and environment names. */
void config_help(FILE *out, enum config_command command);

#endif
