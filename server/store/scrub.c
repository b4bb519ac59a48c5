/*
 * Scrubbing: reads the whole database from time to time, so that damage is found before an answer is missing. A bit
 * that flips in a row is found by the checksum of that row when it is read; one that flips in the structure of a page
 * may hide rows, and a job that was accepted would be "not found".
 *
 * The thread has the lowest priority for the processor and the disk, where the system allows that. It opens a
 * connection for each scrub, whose pages come from the file and not from a cache of SQLite, and maps no file: what
 * cannot be read is then an error, and no signal. A scrub is one read transaction, and while it lasts the log cannot
 * start again from its beginning; the writer interrupts a scrub when the log grows too long.
 *
 * Damage that was found stays so until the process ends, even if the page is written meanwhile: rows may be lost.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <errno.h>
#include <linux/ioprio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "server/ops/clock.h"
#include "server/ops/log.h"
#include "server/ops/metrics.h"
#include "server/store/internal.h"

#define FIRST_SECONDS 10.0      /* after the start, which has enough to read */
#define INTERRUPT_SECONDS 0.005 /* between two attempts: SQLite forgets one that comes before its first step */

struct scrubber {
    const char *path;
    double seconds;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t wake; /* of the thread; during a scrub, of those who wait for its end */
    bool stopping;
    bool interrupted;
    sqlite3 *db; /* during a scrub */
    char damage[200];
    atomic_bool damaged; /* `damage` does not change any more */
};

static void yield_to_others(void)
{
    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), 19); /* of this thread alone */
    (void)syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0));
}

/* Makes the connection known to those who interrupt it. Returns false if the scrub is not wanted any more. */
static bool scrub_begin(struct scrubber *scrubber, sqlite3 *db)
{
    pthread_mutex_lock(&scrubber->mutex);
    bool wanted = !scrubber->stopping;
    scrubber->interrupted = false;
    scrubber->db = wanted ? db : NULL;
    pthread_mutex_unlock(&scrubber->mutex);
    return wanted;
}

/* Call before the connection is closed. Returns false if the scrub was interrupted: SQLite may then report the pages
 * that it has not read as damaged. */
static bool scrub_end(struct scrubber *scrubber)
{
    pthread_mutex_lock(&scrubber->mutex);
    scrubber->db = NULL;
    bool whole = !scrubber->interrupted;
    pthread_cond_signal(&scrubber->wake);
    pthread_mutex_unlock(&scrubber->mutex);
    return whole;
}

static void damage_found(struct scrubber *scrubber, const char *detail)
{
    char quoted[300];
    snprintf(scrubber->damage, sizeof scrubber->damage, "%s", detail);
    for (char *at = scrubber->damage; (at = strchr(at, '\n')) != NULL;)
        *at = ' ';
    atomic_store(&scrubber->damaged, true);
    metric_set(METRIC_STORE_DAMAGED, 1);
    log_event(LOG_LEVEL_ERROR, "damaged", "detail=%s action=\"restore a backup\"",
              log_quote(quoted, sizeof quoted, scrubber->damage));
}

/* What SQLite said about the database: the code of the first step, and the first row, if there was one. */
static void judge(struct scrubber *scrubber, struct store_connection *connection, int code, const char *said,
                  double took)
{
    if (code == SQLITE_ROW && said && strcmp(said, "ok") == 0) {
        metric_set(METRIC_STORE_SCRUBBED, clock_now_ms() / 1000);
        log_event(LOG_LEVEL_INFO, "scrubbed", "seconds=%.3f", took);
    } else if (code == SQLITE_ROW && said) {
        damage_found(scrubber, said);
    } else if ((code & 0xff) == SQLITE_CORRUPT || (code & 0xff) == SQLITE_NOTADB) {
        damage_found(scrubber, sqlite3_errmsg(connection->db));
    } else {
        store__complain(connection, "scrub");
    }
}

static void scrub_with(struct scrubber *scrubber, struct store_connection *connection)
{
    sqlite3_stmt *statement = NULL;
    double began = clock_monotonic();
    if (!scrub_begin(scrubber, connection->db))
        return;
    int code = sqlite3_exec(connection->db, "PRAGMA mmap_size = 0; PRAGMA cache_size = -1024", NULL, NULL, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_prepare_v2(connection->db, "PRAGMA quick_check(1)", -1, &statement, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    if (scrub_end(scrubber)) {
        const char *said = code == SQLITE_ROW ? (const char *)sqlite3_column_text(statement, 0) : NULL;
        judge(scrubber, connection, code, said, clock_monotonic() - began);
    }
    sqlite3_finalize(statement);
}

static void scrub(struct scrubber *scrubber)
{
    char message[256], quoted[320];
    struct store_connection *connection = store__connect(scrubber->path, true, message, sizeof message);
    if (connection) {
        scrub_with(scrubber, connection);
    } else {
        log_event(LOG_LEVEL_ERROR, "store-open", "detail=%s", log_quote(quoted, sizeof quoted, message));
        metric_add(METRIC_STORE_FAILURES, 1);
    }
    store__disconnect(connection);
}

static void *scrubber_main(void *argument)
{
    struct scrubber *scrubber = argument;
    yield_to_others();
    pthread_mutex_lock(&scrubber->mutex);
    double next = clock_monotonic() + fmin(FIRST_SECONDS, scrubber->seconds);
    while (!scrubber->stopping && !atomic_load(&scrubber->damaged)) {
        struct timespec until = clock_timespec(next);
        if (pthread_cond_timedwait(&scrubber->wake, &scrubber->mutex, &until) != ETIMEDOUT)
            continue;
        pthread_mutex_unlock(&scrubber->mutex);
        double began = clock_monotonic();
        scrub(scrubber);
        double now = clock_monotonic();
        next = now + fmax(scrubber->seconds, now - began); /* it takes half of the time at most */
        pthread_mutex_lock(&scrubber->mutex);
    }
    pthread_mutex_unlock(&scrubber->mutex);
    return NULL;
}

struct scrubber *store__scrubber_create(const char *path, double seconds)
{
    struct scrubber *scrubber = calloc(1, sizeof *scrubber);
    if (!scrubber)
        return NULL;
    scrubber->path = path;
    scrubber->seconds = seconds;
    pthread_mutex_init(&scrubber->mutex, NULL);
    clock_condition(&scrubber->wake);
    if (pthread_create(&scrubber->thread, NULL, scrubber_main, scrubber) == 0)
        return scrubber;
    pthread_cond_destroy(&scrubber->wake);
    pthread_mutex_destroy(&scrubber->mutex);
    free(scrubber);
    return NULL;
}

void store__scrubber_interrupt(struct scrubber *scrubber)
{
    if (!scrubber)
        return;
    pthread_mutex_lock(&scrubber->mutex);
    if (scrubber->db) {
        if (!scrubber->interrupted)
            log_event(LOG_LEVEL_WARN, "scrub-interrupted", "detail=\"the log of the database has grown too long\"");
        scrubber->interrupted = true;
        sqlite3_interrupt(scrubber->db);
    }
    pthread_mutex_unlock(&scrubber->mutex);
}

void store__scrubber_destroy(struct scrubber *scrubber)
{
    if (!scrubber)
        return;
    pthread_mutex_lock(&scrubber->mutex);
    scrubber->stopping = true;
    scrubber->interrupted = true;
    pthread_cond_signal(&scrubber->wake);
    while (scrubber->db) {
        struct timespec until = clock_timespec(clock_monotonic() + INTERRUPT_SECONDS);
        sqlite3_interrupt(scrubber->db);
        pthread_cond_timedwait(&scrubber->wake, &scrubber->mutex, &until);
    }
    pthread_mutex_unlock(&scrubber->mutex);
    pthread_join(scrubber->thread, NULL);
    pthread_cond_destroy(&scrubber->wake);
    pthread_mutex_destroy(&scrubber->mutex);
    free(scrubber);
}

const char *store__scrubber_damage(const struct scrubber *scrubber)
{
    return scrubber && atomic_load(&scrubber->damaged) ? scrubber->damage : NULL;
}
