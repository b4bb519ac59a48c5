/*
 * The options of the operator: one table, read from EPSILOND_... variables first and then from the command line, and
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

/* Where the service computes. */
enum isolate {
    ISOLATE_OFF,   /* in its own process */
    ISOLATE_ON,    /* in processes of their own (server/cells/), confined as far as the system allows */
    ISOLATE_STRICT /* the same, or not at all */
};

enum config_command { CONFIG_SERVE = 1, CONFIG_SOLVE = 2, CONFIG_BACKUP = 4, CONFIG_KEY = 8, CONFIG_WORKER = 16 };

#define CONFIG_CA "/etc/ssl/certs/ca-certificates.crt" /* of Debian */

#define CONFIG_LIST_MAX 32
#define CONFIG_LISTEN "127.0.0.1:8080" /* unless config.listen or the supervisor says otherwise */

/* An option that may be given several times. */
struct config_list {
    const char *values[CONFIG_LIST_MAX];
    size_t len;
};

struct config {
    const char *listen; /* HOST:PORT, [HOST]:PORT; NULL: not given */
    const char *db;     /* NULL (solve): none */
    uint64_t workers;
    enum isolate isolate;
    const char *broker;     /* URL; NULL: none */
    const char *broker_ca;  /* PEM: the authorities of the broker */
    double broker_seconds;  /* jobs with a shorter estimate are computed here */
    double broker_split;    /* draws of jobs with a longer estimate are divided among workers */
    uint64_t broker_jobs;   /* at the broker at a time */
    bool broker_fallback;   /* jobs are computed here while the broker is gone */
    double express_seconds; /* jobs with a shorter estimate never wait for longer ones; 0: off */
    uint64_t http_threads;
    uint64_t max_connections;
    uint64_t max_connections_of_one; /* address */
    double idle_seconds;
    double request_seconds;
    double watchdog_seconds;
    uint64_t http_bytes;              /* of bodies and replies in progress */
    uint64_t spool_bytes;             /* of temporary files */
    uint64_t draw_bytes;              /* of streams of batches and noise */
    double stream_seconds;            /* how long the key of a stream without a reader is kept; 0: not at all */
    struct config_list allow_host;    /* comma-separated lists */
    const char *keys;                 /* a file of keys; NULL: none (see access.h) */
    struct config_list key_lines;     /* such lines, comma-separated */
    const char *tls_cert;             /* PEM: certificates; NULL: no TLS */
    const char *tls_key;              /* PEM: the private key */
    const char *tls_client_ca;        /* PEM: the authorities of clients; NULL: they need no certificate */
    struct config_list trusted_proxy; /* comma-separated lists of addresses and networks */
    bool private_cache;               /* nothing cached is shared between groups of keys (server/jobs/realm.h) */
    bool insecure;                    /* listens beyond this machine without keys */
    const char *scope;                /* key: of the new one */
    const char *group;                /* key: the group that it belongs to */
    const char *quota;                /* key: a list (see quota.h); NULL: none */
    const char *name;                 /* key: NULL: none */
    uint64_t queue;                   /* maximum number of waiting jobs */
    uint64_t queue_bytes;             /* memory of the jobs that are not final */
    uint64_t max_body;                /* bytes */
    uint64_t max_db;                  /* bytes; 0: unlimited */
    uint64_t max_n;
    double max_operations;
    uint64_t max_bytes;    /* memory of one job */
    double max_seconds;    /* of one run; 0: unlimited */
    uint64_t cache_bytes;  /* factorisations and PLDs in the database */
    uint64_t chunk_bytes;  /* draws of Monte Carlo jobs in the database */
    uint64_t memory_bytes; /* finished documents and results in memory */
    double keep_seconds;   /* for finished jobs; 0: forever */
    double scrub_seconds;  /* between two searches for damage in the database; 0: none */
    enum log_level log_level;
    const char *log_file; /* NULL: standard error */
};

/*
 * Sets defaults, then reads the environment, then argv[1...]. argv starts with the command ("serve"). Returns the index
 * of the first operand; -1 with a message on failure; -2 if --help was given. Strings point into argv or the
 * environment.
 */
int config_read(struct config *config, enum config_command command, int argc, char **argv, char *message,
                size_t message_size);
/* Whether clients need a key. */
bool config_keyed(const struct config *config);
/* Prints the options of a command, one line each, with defaults and environment variables. */
void config_help(FILE *out, enum config_command command);

#endif
