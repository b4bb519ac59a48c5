/*
 * One table of options is used for getopt_long, the environment and --help, so that they agree.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/ops/config.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum option_kind {
    KIND_TEXT,
    KIND_LIST,
    KIND_COUNT,
    KIND_BYTES,
    KIND_REAL,
    KIND_SECONDS,
    KIND_FLAG,
    KIND_LEVEL,
    KIND_ISOLATE,
    KINDS
};

struct option_row {
    const char *name;
    enum option_kind kind;
    size_t offset; /* of the field in struct config */
    unsigned commands;
    double low; /* for numbers, inclusive */
    double high;
    const char *fallback; /* NULL: determined at run time */
    const char *value;    /* the name of the value in --help; NULL: it has none */
    const char *help;
};

static const char *level_name(int level)
{
    return log_level_name((enum log_level)level);
}

static const char *isolate_name(int isolate)
{
    static const char *const names[] = {[ISOLATE_OFF] = "off", [ISOLATE_ON] = "on", [ISOLATE_STRICT] = "strict"};
    return isolate <= ISOLATE_STRICT ? names[isolate] : NULL;
}

/* The names of the values of an enum; NULL after the last one. */
static const char *(*const names_of[KINDS])(int value) = {[KIND_LEVEL] = level_name, [KIND_ISOLATE] = isolate_name};

#define FIELD(member) offsetof(struct config, member)
#define BOTH (CONFIG_SERVE | CONFIG_SOLVE)

static const struct option_row rows[] = {
    {"listen", KIND_TEXT, FIELD(listen), CONFIG_SERVE, 0, 0, NULL, "HOST:PORT",
     "address to listen on; port 0 selects a free port (" CONFIG_LISTEN ", or the socket of systemd)"},
    {"db", KIND_TEXT, FIELD(db), BOTH | CONFIG_BACKUP, 0, 0, NULL, "FILE",
     "SQLite database (epsilond.db; solve: none)"},
    {"workers", KIND_COUNT, FIELD(workers), BOTH | CONFIG_WORKER, 1, 1024, NULL, "N",
     "threads that compute (one per core)"},
    {"isolate", KIND_ISOLATE, FIELD(isolate), CONFIG_SERVE | CONFIG_WORKER, 0, 0, "on", "WHERE",
     "on: compute in confined processes, so that a crash fails one job; off: in this one; strict: on, or do not start"},
    {"broker", KIND_TEXT, FIELD(broker), CONFIG_SERVE | CONFIG_WORKER, 0, 0, NULL, "URL",
     "amqps://user:password@host:port/vhost, or amqp://: where servers and workers of other machines meet"},
    {"broker-ca", KIND_TEXT, FIELD(broker_ca), CONFIG_SERVE | CONFIG_WORKER, 0, 0, CONFIG_CA, "FILE",
     "the authorities that may certify an amqps broker (PEM)"},
    {"broker-seconds", KIND_SECONDS, FIELD(broker_seconds), CONFIG_SERVE, 0, 1e9, "1s", "TIME",
     "jobs with a longer estimate are computed by workers; the others never leave the server"},
    {"broker-split", KIND_SECONDS, FIELD(broker_split), CONFIG_SERVE, 0, 1e9, "1m", "TIME",
     "the draws of Monte Carlo jobs with a longer estimate are divided among workers"},
    {"broker-jobs", KIND_COUNT, FIELD(broker_jobs), CONFIG_SERVE, 1, 1024, "64", "N",
     "maximum jobs at the broker at a time; there is a thread for each that waits for it"},
    {"broker-fallback", KIND_FLAG, FIELD(broker_fallback), CONFIG_SERVE, 0, 0, NULL, NULL,
     "compute here what waits while the broker or all workers are gone"},
    {"express", KIND_SECONDS, FIELD(express_seconds), CONFIG_SERVE, 0, 3600, "1s", "TIME",
     "jobs with a shorter estimate never wait for longer ones, as they have an extra thread; 0: off"},
    {"http-threads", KIND_COUNT, FIELD(http_threads), CONFIG_SERVE, 1, 64, "2", "N", "threads that serve HTTP"},
    {"allow-host", KIND_LIST, FIELD(allow_host), CONFIG_SERVE, 0, 0, NULL, "HOST,...",
     "host names of this service in addition to that of --listen; * allows any"},
    {"keys", KIND_TEXT, FIELD(keys), CONFIG_SERVE, 0, 0, NULL, "FILE",
     "clients need one of these keys, by epsilond key new; SIGHUP reads the file again"},
    {"key-lines", KIND_LIST, FIELD(key_lines), CONFIG_SERVE, 0, 0, NULL, "LINE,...", "further lines of such a file"},
    {"private-cache", KIND_FLAG, FIELD(private_cache), CONFIG_SERVE, 0, 0, NULL, NULL,
     "groups of keys share no cached results, so that none learns what another has asked"},
    {"tls-cert", KIND_TEXT, FIELD(tls_cert), CONFIG_SERVE, 0, 0, NULL, "FILE",
     "serve HTTPS with this chain of certificates (PEM); SIGHUP reads it again"},
    {"tls-key", KIND_TEXT, FIELD(tls_key), CONFIG_SERVE, 0, 0, NULL, "FILE", "the private key of --tls-cert (PEM)"},
    {"tls-client-ca", KIND_TEXT, FIELD(tls_client_ca), CONFIG_SERVE, 0, 0, NULL, "FILE",
     "clients must have a certificate of one of these authorities (PEM); SIGHUP reads it again"},
    {"trusted-proxy", KIND_LIST, FIELD(trusted_proxy), CONFIG_SERVE, 0, 0, NULL, "ADDRESS,...",
     "proxies (addresses or networks) whose Forwarded header says who the client is"},
    {"insecure", KIND_FLAG, FIELD(insecure), CONFIG_SERVE, 0, 0, NULL, NULL, "listen beyond this machine without keys"},
    {"scope", KIND_TEXT, FIELD(scope), CONFIG_KEY, 0, 0, "submit", "SCOPE",
     "read, submit (includes read) or admin (includes both, and metrics)"},
    {"group", KIND_TEXT, FIELD(group), CONFIG_KEY, 0, 0, "default", "GROUP",
     "the keys of a group see what one of them posted; those of scope admin see all"},
    {"quota", KIND_TEXT, FIELD(quota), CONFIG_KEY, 0, 0, NULL, "QUOTA,...",
     "what the key may use: requests=N/s, queued=N, seconds=N/h (of computing), streams=N, bytes=N[MiB] (kept)"},
    {"name", KIND_TEXT, FIELD(name), CONFIG_KEY, 0, 0, NULL, "NAME", "whose key it is, one word, for the operator"},
    {"max-connections", KIND_COUNT, FIELD(max_connections), CONFIG_SERVE, 2, 1e6, "4096", "N",
     "maximum open connections, including waiting ones"},
    {"max-per-address", KIND_COUNT, FIELD(max_connections_of_one), CONFIG_SERVE, 1, 1e6, "1024", "N",
     "maximum open connections from one address; below --max-connections, an eighth of those is reserved for "
     "newcomers"},
    {"idle-seconds", KIND_SECONDS, FIELD(idle_seconds), CONFIG_SERVE, 0.1, 86400, "75", "TIME",
     "maximum pause between two requests, including the head of the next one"},
    {"request-seconds", KIND_SECONDS, FIELD(request_seconds), CONFIG_SERVE, 0.1, 86400, "60", "TIME",
     "maximum time to receive a body or to send a reply (plus one second per MiB); then streams may be dropped"},
    {"http-bytes", KIND_BYTES, FIELD(http_bytes), CONFIG_SERVE, 1 << 16, 1e15, "256MiB", "BYTES",
     "memory of bodies and replies in progress, half of it each"},
    {"spool-bytes", KIND_BYTES, FIELD(spool_bytes), CONFIG_SERVE, 0, 1e15, "4GiB", "BYTES",
     "temporary files of matrices that are being read"},
    {"draw-bytes", KIND_BYTES, FIELD(draw_bytes), CONFIG_SERVE, 1 << 16, 1e15, "1GiB", "BYTES",
     "memory of all streams of batches and noise together"},
    {"keep-streams", KIND_SECONDS, FIELD(stream_seconds), CONFIG_SERVE, 0, 1e7, "1h", "TIME",
     "how long an interrupted noise stream can be resumed (its key stays in memory); 0: never"},
    {"queue", KIND_COUNT, FIELD(queue), CONFIG_SERVE, 1, 1e7, "10000", "N",
     "maximum waiting jobs; further ones are 503"},
    {"queue-bytes", KIND_BYTES, FIELD(queue_bytes), CONFIG_SERVE, 1 << 12, 1e15, "256MiB", "BYTES",
     "memory of waiting and running jobs; further ones are 503"},
    {"max-body", KIND_BYTES, FIELD(max_body), CONFIG_SERVE, 1024, 1e9, "8MiB", "BYTES", "maximum request body"},
    {"max-db", KIND_BYTES, FIELD(max_db), CONFIG_SERVE, 0, 1e18, "16GiB", "BYTES",
     "database size at which no new jobs are accepted; 0: unlimited"},
    {"max-n", KIND_COUNT, FIELD(max_n), BOTH, 1, 1 << 24, "16777216", "N", "maximum number of steps"},
    {"max-operations", KIND_REAL, FIELD(max_operations), BOTH, 1, 1e18, "1e13", "NUMBER",
     "maximum estimated operations of a job"},
    {"max-bytes", KIND_BYTES, FIELD(max_bytes), BOTH | CONFIG_WORKER, 1 << 20, 1e15, "2GiB", "BYTES",
     "maximum estimated memory of a job"},
    {"max-seconds", KIND_SECONDS, FIELD(max_seconds), BOTH, 0, 1e9, "3600", "TIME",
     "maximum run time of a job; 0: unlimited"},
    {"watchdog-seconds", KIND_SECONDS, FIELD(watchdog_seconds), CONFIG_SERVE | CONFIG_WORKER, 0.1, 1e9, "60s", "TIME",
     "a run past --max-seconds, or canceled, that does not respond for this long is abandoned"},
    {"cache-bytes", KIND_BYTES, FIELD(cache_bytes), BOTH, 0, 1e15, "1GiB", "BYTES",
     "factorisations and PLDs stored in the database"},
    {"chunk-bytes", KIND_BYTES, FIELD(chunk_bytes), BOTH, 0, 1e15, "64MiB", "BYTES",
     "draws of Monte Carlo jobs stored in the database, which a restarted job need not repeat"},
    {"memory-bytes", KIND_BYTES, FIELD(memory_bytes), CONFIG_SERVE | CONFIG_WORKER, 0, 1e15, "128MiB", "BYTES",
     "finished jobs and results cached in memory; of a worker: factorisations and PLDs"},
    {"keep", KIND_SECONDS, FIELD(keep_seconds), CONFIG_SERVE, 0, 1e11, "30d", "TIME",
     "how long finished jobs are kept; 0: forever"},
    {"scrub", KIND_SECONDS, FIELD(scrub_seconds), CONFIG_SERVE, 0, 1e9, "1d", "TIME",
     "how often the whole database is read, to find damage; 0: never"},
    {"log-file", KIND_TEXT, FIELD(log_file), CONFIG_SERVE | CONFIG_WORKER, 0, 0, NULL, "FILE",
     "append the log to this file instead of standard error; SIGHUP opens it again"},
    {"log-level", KIND_LEVEL, FIELD(log_level), BOTH | CONFIG_WORKER, 0, 0, "info", "LEVEL",
     "debug, info, warn or error"},
};

#define ROWS (sizeof rows / sizeof rows[0])

/* A number with an optional unit; a table of units ends with NULL. */
struct unit {
    const char *name;
    double factor;
};

static const struct unit byte_units[] = {{"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40},
                                         {"kB", 1e3},     {"MB", 1e6},     {"GB", 1e9},     {NULL, 0}};
static const struct unit time_units[] = {{"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}, {NULL, 0}};
static const struct unit no_units[] = {{NULL, 0}};

static bool read_number(const char *text, const struct unit *units, double *value)
{
    char *end;
    errno = 0;
    double number = strtod(text, &end);
    if (end == text || errno || !isfinite(number))
        return false;
    if (*end == '\0') {
        *value = number;
        return true;
    }
    for (; units->name; units++) {
        if (strcmp(end, units->name) == 0) {
            *value = number * units->factor;
            return true;
        }
    }
    return false;
}

/* Sets an enum by the name of its value. */
static bool set_name(const struct option_row *row, int *field, const char *text, char *message, size_t message_size)
{
    const char *(*name_of)(int value) = names_of[row->kind];
    size_t used = (size_t)snprintf(message, message_size, "--%s must be ", row->name);
    for (int value = 0; name_of(value); value++) {
        if (strcmp(text, name_of(value)) == 0) {
            *field = value;
            return true;
        }
        const char *before = value == 0 ? "" : name_of(value + 1) ? ", " : " or ";
        int len = snprintf(message + used, message_size - used, "%s%s", before, name_of(value));
        used += len > 0 && (size_t)len < message_size - used ? (size_t)len : 0;
    }
    snprintf(message + used, message_size - used, ", not \"%s\"", text);
    return false;
}

static bool option_set(struct config *config, const struct option_row *row, const char *text, char *message,
                       size_t message_size)
{
    static const struct unit *const units[] = {
        [KIND_TEXT] = no_units, [KIND_LIST] = no_units,      [KIND_COUNT] = no_units, [KIND_BYTES] = byte_units,
        [KIND_REAL] = no_units, [KIND_SECONDS] = time_units, [KIND_FLAG] = no_units};
    void *field = (char *)config + row->offset;
    double value;

    if (row->kind == KIND_TEXT) {
        *(const char **)field = text;
        return true;
    }
    if (row->kind == KIND_LIST) {
        struct config_list *list = field;
        if (list->len == CONFIG_LIST_MAX) {
            snprintf(message, message_size, "--%s may be given at most %d times; use a comma-separated list for more",
                     row->name, CONFIG_LIST_MAX);
            return false;
        }
        list->values[list->len++] = text;
        return true;
    }
    if (row->kind == KIND_FLAG) {
        *(bool *)field = !text || strcmp(text, "yes") == 0;
        if (!*(bool *)field && strcmp(text, "no") != 0) { /* of an environment variable */
            snprintf(message, message_size, "--%s must be yes or no, not \"%s\"", row->name, text);
            return false;
        }
        return true;
    }
    if (names_of[row->kind])
        return set_name(row, field, text, message, message_size);
    if (!read_number(text, units[row->kind], &value) || !(value >= row->low && value <= row->high)) {
        const char *form = row->kind == KIND_BYTES     ? " bytes, optionally with KiB, MiB or GiB"
                           : row->kind == KIND_SECONDS ? " seconds, or with a unit such as 10m, 2h, 30d"
                                                       : "";
        snprintf(message, message_size, "--%s must be in [%.15g, %.15g]%s, not \"%s\"", row->name, row->low, row->high,
                 form, text);
        return false;
    }
    if (row->kind == KIND_REAL || row->kind == KIND_SECONDS) {
        *(double *)field = value;
        return true;
    }
    if (row->kind == KIND_COUNT && value != floor(value)) {
        snprintf(message, message_size, "--%s must be an integer, not \"%s\"", row->name, text);
        return false;
    }
    *(uint64_t *)field = (uint64_t)value;
    return true;
}

static void environment_name(char out[64], const char *option)
{
    int len = snprintf(out, 64, "EPSILOND_%s", option);
    for (int i = 0; i < len && i < 63; i++)
        out[i] = out[i] == '-' ? '_' : (char)toupper((unsigned char)out[i]);
}

static bool set_defaults(struct config *config, enum config_command command, char *message, size_t message_size)
{
    *config = (struct config){0};
    for (size_t i = 0; i < ROWS; i++)
        if (rows[i].fallback && !option_set(config, &rows[i], rows[i].fallback, message, message_size))
            return false;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    config->workers = cores > 0 ? (uint64_t)cores : 1;
    config->db = command == CONFIG_SOLVE ? NULL : "epsilond.db";
    return true;
}

static bool set_environment(struct config *config, enum config_command command, char *message, size_t message_size)
{
    for (size_t i = 0; i < ROWS; i++) {
        char name[64];
        environment_name(name, rows[i].name);
        const char *value = getenv(name);
        /* An empty variable counts as unset, because compose files use that form. */
        if (!value || !*value || !(rows[i].commands & (unsigned)command))
            continue;
        if (!option_set(config, &rows[i], value, message, message_size))
            return false;
    }
    return true;
}

bool config_keyed(const struct config *config)
{
    return config->keys || config->key_lines.len > 0;
}

int config_read(struct config *config, enum config_command command, int argc, char **argv, char *message,
                size_t message_size)
{
    struct option options[ROWS + 2] = {{"help", no_argument, NULL, 'h'}};
    size_t len = 1;
    for (size_t i = 0; i < ROWS; i++)
        if (rows[i].commands & (unsigned)command)
            options[len++] = (struct option){rows[i].name, rows[i].kind == KIND_FLAG ? no_argument : required_argument,
                                             NULL, 256 + (int)i};
    if (!set_defaults(config, command, message, message_size) ||
        !set_environment(config, command, message, message_size))
        return -1;
    int found;
    optind = 1;
    opterr = 0;
    while ((found = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
        if (found == 'h')
            return -2;
        if (found == '?' || found == ':') {
            snprintf(message, message_size, "%s %s; see epsilond --help",
                     found == ':' ? "missing value after" : "unknown option", argv[optind - 1]);
            return -1;
        }
        if (!option_set(config, &rows[found - 256], optarg, message, message_size))
            return -1;
    }
    if (command == CONFIG_SERVE && config->max_connections < config->http_threads) {
        snprintf(message, message_size, "--max-connections must be at least --http-threads, which is %llu",
                 (unsigned long long)config->http_threads);
        return -1;
    }
    if (command == CONFIG_SERVE && !config->tls_cert != !config->tls_key) {
        snprintf(message, message_size, "--tls-cert and --tls-key belong together: give both or neither");
        return -1;
    }
    if (command == CONFIG_SERVE && config->broker_fallback && !config->broker) {
        snprintf(message, message_size,
                 "--broker-fallback says what to do without a broker: give the broker by --broker");
        return -1;
    }
    if (command == CONFIG_SERVE && config->tls_client_ca && !config->tls_cert) {
        snprintf(message, message_size,
                 "--tls-client-ca needs --tls-cert and --tls-key: clients show certificates by TLS");
        return -1;
    }
    return optind;
}

void config_help(FILE *out, enum config_command command)
{
    for (size_t i = 0; i < ROWS; i++) {
        if (!(rows[i].commands & (unsigned)command))
            continue;
        char name[64];
        char flag[64];
        environment_name(name, rows[i].name);
        snprintf(flag, sizeof flag, "--%s%s%s", rows[i].name, rows[i].value ? " " : "",
                 rows[i].value ? rows[i].value : "");
        fprintf(out, "  %-24s %s", flag, rows[i].help);
        if (rows[i].fallback)
            fprintf(out, " [%s]", rows[i].fallback);
        fprintf(out, " (%s)\n", name);
    }
}
