/*
 * `epsilond doctor`: checks what a service with these options would need, without changing anything. One line for each
 * check; a table lists them. A server may be running on the database.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <cblas.h>
#include <errno.h>
#include <fenv.h>
#include <float.h>
#include <gnutls/gnutls.h>
#include <gsl/gsl_version.h>
#include <inttypes.h>
#include <jansson.h>
#include <libgen.h>
#include <limits.h>
#include <microhttpd.h>
#include <sodium.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "lib/epsilon.h"
#include "lib/numerics/lanes/lanes_variant.h"
#include "server/cells/cells.h"
#include "server/commands.h"
#include "server/http/forwarded.h"
#include "server/http/listen.h"
#include "server/http/tls.h"
#include "server/ops/access.h"
#include "server/ops/clock.h"
#include "server/ops/config.h"
#include "server/store/store.h"

#define LOG_LARGE (INT64_C(256) << 20) /* bytes: 16 times the length at which the log is copied to the database */
#define ROOM_LEAST (INT64_C(64) << 20) /* bytes */
#define RENEWAL_SECONDS (14 * 86400.0) /* before a certificate expires */
#define RESOLUTION_LEAST 1e-3          /* seconds */
#define MI(bytes) ((double)(bytes) / 0x1p20)

enum verdict { VERDICT_OK, VERDICT_WARNING, VERDICT_FAILED };

struct visit {
    struct config config;
    bool readable; /* the database exists and could be examined; */
    struct store_facts facts;
    char text[1024]; /* of the check at hand */
};

static enum verdict say(struct visit *visit, enum verdict verdict, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static enum verdict say(struct visit *visit, enum verdict verdict, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(visit->text, sizeof visit->text, format, args);
    va_end(args);
    for (char *at = visit->text; *at; at++)
        *at = (unsigned char)*at < ' ' ? ' ' : *at; /* one line, whatever a library or a file name says */
    return verdict;
}

/* ---------------------------------------------------------------- the database and its disk */

static enum verdict check_database(struct visit *visit)
{
    char message[512];
    const char *path = visit->config.db;
    struct store_facts *facts = &visit->facts;
    if (!store_examine(path, facts, message, sizeof message))
        return say(visit, VERDICT_FAILED, "cannot use %.300s: %s", path, message);
    if (!facts->exists)
        return say(visit, VERDICT_OK, "%.300s does not exist; serve creates it", path);
    visit->readable = true;
    if (access(path, W_OK) != 0)
        return say(visit, VERDICT_FAILED, "%.300s cannot be written: %s; change its owner or mode", path,
                   strerror(errno));
    if (facts->damage[0]) {
        return say(visit, VERDICT_FAILED, "%.300s is damaged (%s): restore a backup (server/OPERATING.md)", path,
                   facts->damage);
    }
    if (facts->schema > facts->schema_newest) {
        return say(
            visit, VERDICT_FAILED,
            "the schema of %.300s is %d, and this build knows %d: run the newer epsilond that wrote it, or restore a "
            "backup of before",
            path, facts->schema, facts->schema_newest);
    }
    if (facts->schema && facts->schema < facts->schema_newest) {
        return say(
            visit, VERDICT_WARNING,
            "the schema of %.300s is %d, and serve migrates it to %d, which older builds cannot read: make a backup "
            "first",
            path, facts->schema, facts->schema_newest);
    }
    return say(visit, VERDICT_OK, "%.300s: schema %d, %" PRId64 " jobs, %.1f MiB, undamaged", path, facts->schema,
               facts->jobs, MI(facts->bytes));
}

static enum verdict check_wal(struct visit *visit)
{
    int64_t len = visit->facts.log_bytes;
    if (len > LOG_LARGE) {
        return say(visit, VERDICT_WARNING,
                   "%s-wal has %.0f MiB: a program that reads the database keeps it from being shortened; end it",
                   visit->config.db, MI(len));
    }
    return say(visit, VERDICT_OK, "%.1f MiB", MI(len));
}

static enum verdict check_disk(struct visit *visit)
{
    char path[PATH_MAX];
    struct statvfs disk;
    const struct config *config = &visit->config;
    snprintf(path, sizeof path, "%s", config->db);
    const char *folder = dirname(path);
    if (statvfs(folder, &disk) != 0 || access(folder, W_OK | X_OK) != 0)
        return say(visit, VERDICT_FAILED, "serve cannot create files in %.300s: %s; change --db, or its owner or mode",
                   folder, strerror(errno));
    double room = (double)disk.f_bavail * (double)disk.f_frsize;
    double used = (double)(visit->facts.bytes + visit->facts.log_bytes);
    double growth = (double)config->max_db - used + (double)config->spool_bytes;
    if (room < (double)ROOM_LEAST) {
        return say(visit, VERDICT_FAILED, "%.1f MiB are free in %.300s: free some space, or choose another --db",
                   MI(room), folder);
    }
    if (config->max_db == 0)
        return say(visit, VERDICT_WARNING, "%.0f MiB are free in %.300s, and the database may take all: set --max-db",
                   MI(room), folder);
    if (room < growth) {
        return say(
            visit, VERDICT_WARNING,
            "%.0f MiB are free in %.300s, and the database and temporary files may take %.0f MiB: lower --max-db or "
            "--spool-bytes",
            MI(room), folder, MI(growth));
    }
    return say(visit, VERDICT_OK, "%.0f MiB are free in %.300s, %.0f MiB may be needed", MI(room), folder, MI(growth));
}

/* ---------------------------------------------------------------- the machine */

/* A library, the version that this program was compiled with, and the one that is loaded. */
struct library {
    const char *name, *compiled, *loaded;
};

/* Compares versions of numbers separated by dots. */
static int version_compare(const char *a, const char *b)
{
    while (*a || *b) {
        char *a_end, *b_end;
        unsigned long x = strtoul(a, &a_end, 10), y = strtoul(b, &b_end, 10);
        if (x != y)
            return x < y ? -1 : 1;
        a = *a_end == '.' ? a_end + 1 : "";
        b = *b_end == '.' ? b_end + 1 : "";
    }
    return 0;
}

/* The version in " OpenBLAS VERSION ...". */
static const char *version_of_blas(const char *text, char version[16])
{
    snprintf(version, 16, "0");
    (void)!sscanf(text, " OpenBLAS %15s", version);
    return version;
}

static enum verdict check_libraries(struct visit *visit)
{
    char http[16], blas[2][16];
    snprintf(http, sizeof http, "%x.%x.%x", MHD_VERSION >> 24, MHD_VERSION >> 16 & 0xff, MHD_VERSION >> 8 & 0xff);
    const struct library libraries[] = {
        {"SQLite", SQLITE_VERSION, sqlite3_libversion()},
        {"libmicrohttpd", http, MHD_get_version()},
        {"GnuTLS", GNUTLS_VERSION, gnutls_check_version(NULL)},
        {"libsodium", SODIUM_VERSION_STRING, sodium_version_string()},
        {"Jansson", JANSSON_VERSION, jansson_version_str()},
        {"GSL", GSL_VERSION, gsl_version},
        {"OpenBLAS", version_of_blas(OPENBLAS_VERSION, blas[0]), version_of_blas(openblas_get_config(), blas[1])},
    };
    if (openblas_get_parallel() != OPENBLAS_SEQUENTIAL) {
        return say(
            visit, VERDICT_FAILED,
            "the OpenBLAS that is loaded starts threads of its own: install libopenblas0-serial, and do not preload "
            "another");
    }
    char list[400] = "";
    for (size_t i = 0, used = 0; i < sizeof libraries / sizeof libraries[0]; i++) {
        const struct library *library = &libraries[i];
        if (version_compare(library->loaded, library->compiled) < 0) {
            return say(visit, VERDICT_FAILED,
                       "%s %s is loaded, and this program was compiled with %s: install that version or a later one",
                       library->name, library->loaded, library->compiled);
        }
        int len = snprintf(list + used, sizeof list - used, "%s%s %s", i ? ", " : "", library->name, library->loaded);
        used += (size_t)len < sizeof list - used ? (size_t)len : 0;
    }
    return say(visit, VERDICT_OK, "%s", list);
}

static enum verdict check_processor(struct visit *visit)
{
    volatile double least = DBL_MIN, half = least / 2;
    if (fegetround() != FE_TONEAREST || !(half > 0)) {
        return say(
            visit, VERDICT_FAILED,
            "numbers are not rounded to nearest, or not below %g: bounds would not hold. Do not preload libraries "
            "that change the mode of the processor",
            DBL_MIN);
    }
    const char *name = eps__lanes_variant(0)->name;
#if defined __x86_64__ /* other processors have one variant */
    if (strcmp(name, "base") == 0) {
        return say(visit, VERDICT_WARNING,
                   "neither AVX2 with FMA nor AVX-512: monte_carlo and noise are several times slower, with the same "
                   "results");
    }
#endif
    return say(visit, VERDICT_OK, "%ld cores, vector instructions %s", sysconf(_SC_NPROCESSORS_ONLN), name);
}

static enum verdict check_clock(struct visit *visit)
{
    struct timespec step;
    struct stat program;
    char now[25], then[25];
    double before = clock_monotonic();
    int64_t wall = clock_now_ms();
    if (clock_monotonic() < before || clock_getres(CLOCK_MONOTONIC, &step) != 0 ||
        (double)step.tv_sec + (double)step.tv_nsec * 1e-9 > RESOLUTION_LEAST)
        return say(visit, VERDICT_FAILED, "the monotonic clock goes back, or does not resolve a millisecond");
    clock_rfc3339(now, wall);
    int64_t built = stat("/proc/self/exe", &program) == 0 ? (int64_t)program.st_mtim.tv_sec * 1000 : 0;
    int64_t least = built > visit->facts.newest_ms ? built : visit->facts.newest_ms;
    if (wall < least) {
        clock_rfc3339(then, least);
        return say(visit, VERDICT_FAILED, "it is %s, which is before %s (%s): set the clock of this machine", now, then,
                   least == built ? "this program was installed" : "the newest job was created");
    }
    return say(visit, VERDICT_OK, "%s", now);
}

/* ---------------------------------------------------------------- who may ask */

/* Whether users who neither own the file nor are of its group can read it. */
static bool others_read(const char *path)
{
    struct stat status;
    return path && stat(path, &status) == 0 && (status.st_mode & S_IROTH);
}

/* Binds the host of --listen at a free port, because a server may be running at the given one. */
static enum verdict check_address(struct visit *visit)
{
    char address[300], url[300], message[512];
    const struct config *config = &visit->config;
    const char *listen = config->listen ? config->listen : CONFIG_LISTEN;
    const char *colon = strrchr(listen, ':');
    snprintf(address, sizeof address, "%.*s:0", colon ? (int)(colon - listen) : 0, listen);
    int fd = listen_on(colon ? address : listen, "", config->request_seconds, url, sizeof url, message, sizeof message);
    if (fd < 0)
        return say(visit, VERDICT_FAILED, "%s", message);
    struct proxies *proxies = proxies_create(&config->trusted_proxy, message, sizeof message);
    proxies_destroy(proxies);
    bool local = listen_is_local(fd);
    close(fd);
    if (!proxies)
        return say(visit, VERDICT_FAILED, "%s", message);
    if (!local && !config_keyed(config) && !config->insecure) {
        return say(visit, VERDICT_FAILED,
                   "%.200s can be reached from other machines, and serve refuses that without --keys or --insecure",
                   listen);
    }
    return say(visit, VERDICT_OK, "%.200s, %s", listen, local ? "on this machine only" : "also from other machines");
}

static enum verdict check_keys(struct visit *visit)
{
    char message[512];
    const struct config *config = &visit->config;
    struct access *access = access_create(config, message, sizeof message);
    if (!access)
        return say(visit, VERDICT_FAILED, "%s", message);
    bool required = access_required(access);
    size_t len = access_count(access);
    access_destroy(access);
    if (!required && config->insecure)
        return say(visit, VERDICT_WARNING, "--insecure without --keys: everyone who reaches the service may use it");
    if (!required)
        return say(visit, VERDICT_OK, "none; everyone on this machine may use the service");
    if (others_read(config->keys))
        return say(visit, VERDICT_WARNING, "everyone can read who has keys in %.300s: chmod 600 it", config->keys);
    return say(visit, VERDICT_OK, "%zu", len);
}

static enum verdict check_certificate(struct visit *visit)
{
    char message[512], text[25];
    const struct config *config = &visit->config;
    if (!config->tls_cert)
        return say(visit, VERDICT_OK, "none; requests are not encrypted, unless a proxy does it");
    struct tls *tls = tls_create(config->tls_cert, config->tls_key, config->tls_client_ca, message, sizeof message);
    if (!tls)
        return say(visit, VERDICT_FAILED, "%s", message);
    struct tls_validity validity = tls_validity(tls);
    tls_destroy(tls);
    double now = (double)time(NULL), until = (double)validity.until;
    clock_rfc3339(text, (int64_t)(now < (double)validity.from ? validity.from : validity.until) * 1000);
    if (others_read(config->tls_key))
        return say(visit, VERDICT_FAILED, "everyone can read the private key %.300s: chmod 600 it, and replace it",
                   config->tls_key);
    if (now < (double)validity.from)
        return say(visit, VERDICT_FAILED, "%.300s is valid from %s only", config->tls_cert, text);
    if (now >= until)
        return say(visit, VERDICT_FAILED, "%.300s expired on %s: renew it, and send SIGHUP", config->tls_cert, text);
    if (now >= until - RENEWAL_SECONDS)
        return say(visit, VERDICT_WARNING, "%.300s expires on %s: renew it, and send SIGHUP", config->tls_cert, text);
    return say(visit, VERDICT_OK, "%.300s is valid until %s", config->tls_cert, text);
}

/* Starts a process that computes, and ends it. */
static enum verdict check_isolation(struct visit *visit)
{
    char message[512];
    bool confined = false;
    const struct config *config = &visit->config;
    if (config->isolate == ISOLATE_OFF)
        return say(visit, VERDICT_WARNING, "--isolate off: a computation that crashes ends the service");
    if (!cells_try(config, &confined, message, sizeof message))
        return say(visit, VERDICT_FAILED, "no process that computes can be started: %.300s", message);
    if (confined)
        return say(visit, VERDICT_OK, "processes that compute have limits of memory and of system calls");
    return say(visit, config->isolate == ISOLATE_STRICT ? VERDICT_FAILED : VERDICT_WARNING,
               "processes that compute are not confined: %.300s", message);
}

/* ---------------------------------------------------------------- the visit */

/* In this order: some use the facts of the first. */
static const struct {
    const char *name;
    enum verdict (*check)(struct visit *visit);
} checks[] = {
    {"database", check_database},
    {"wal", check_wal},
    {"disk", check_disk},
    {"libraries", check_libraries},
    {"processor", check_processor},
    {"clock", check_clock},
    {"address", check_address},
    {"keys", check_keys},
    {"certificate", check_certificate},
    {"isolation", check_isolation},
};

int command_doctor(int argc, char **argv)
{
    static const char *const words[] = {
        [VERDICT_OK] = "ok", [VERDICT_WARNING] = "warning", [VERDICT_FAILED] = "FAILED"};
    struct visit visit = {0};
    char message[512];
    int operand = config_read(&visit.config, CONFIG_SERVE, argc, argv, message, sizeof message);
    if (operand == -2) {
        print_help();
        return 0;
    }
    if (operand >= 0 && operand < argc) {
        snprintf(message, sizeof message, "doctor takes the options of serve and no arguments, but got \"%.100s\"",
                 argv[operand]);
        operand = -1;
    }
    if (operand < 0) {
        fprintf(stderr, "epsilond: %s\n", message);
        return 2;
    }
    int status = 0;
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++) {
        enum verdict verdict = checks[i].check(&visit);
        printf("%-8s %-11s %s\n", words[verdict], checks[i].name, visit.text);
        fflush(stdout);
        status = verdict == VERDICT_FAILED ? 1 : status;
    }
    return status;
}
