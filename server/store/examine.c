/*
 * Examines a database without changing it, for `epsilond doctor`. A server may be using it.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "server/ops/clock.h"
#include "server/store/internal.h"

/* The first column of the first row: a number, and its text if text is not NULL. Returns false if there is none. */
static bool ask(sqlite3 *db, const char *sql, int64_t *number, char *text, size_t text_size)
{
    sqlite3_stmt *statement = NULL;
    bool found =
        sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK && sqlite3_step(statement) == SQLITE_ROW;
    if (found && number)
        *number = sqlite3_column_int64(statement, 0);
    if (found && text) {
        const unsigned char *value = sqlite3_column_text(statement, 0);
        snprintf(text, text_size, "%s", value ? (const char *)value : "");
    }
    sqlite3_finalize(statement);
    return found;
}

static bool examine(sqlite3 *db, struct store_facts *facts)
{
    char id[UUID_SIZE] = "", damage[sizeof facts->damage] = "";
    int64_t schema = 0;
    if (!ask(db, "PRAGMA user_version", &schema, NULL, 0) ||
        !ask(db, "PRAGMA quick_check(1)", NULL, damage, sizeof damage))
        return false;
    facts->schema = (int)schema;
    if (strcmp(damage, "ok") != 0)
        memcpy(facts->damage, damage, sizeof damage);
    if (facts->schema == 0 || facts->schema > facts->schema_newest || facts->damage[0])
        return true;
    if (!ask(db, "SELECT count(*) FROM jobs", &facts->jobs, NULL, 0) ||
        !ask(db, "SELECT max(id) FROM jobs", NULL, id, sizeof id))
        return false;
    facts->newest_ms = uuid_valid(id) ? uuid_time(id) : 0;
    return true;
}

bool store_examine(const char *path, struct store_facts *facts, char *message, size_t message_size)
{
    struct stat status;
    char log[4096];
    sqlite3 *db = NULL;
    *facts = (struct store_facts){.schema_newest = store__schema_newest()};
    if (stat(path, &status) != 0) {
        snprintf(message, message_size, "%s", strerror(errno));
        return errno == ENOENT;
    }
    facts->exists = true;
    facts->bytes = status.st_size;
    if (!S_ISREG(status.st_mode)) {
        snprintf(message, message_size, "it is not a file");
        return false;
    }
    if (!owner_one_name(path, message, message_size))
        return false;
    snprintf(log, sizeof log, "%s-wal", path);
    facts->log_bytes = stat(log, &status) == 0 ? status.st_size : 0;
    bool ok = sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL) == SQLITE_OK &&
              sqlite3_busy_timeout(db, 1000) == SQLITE_OK && examine(db, facts);
    int code = db ? sqlite3_errcode(db) : SQLITE_NOMEM;
    if (!ok && (code == SQLITE_CORRUPT || code == SQLITE_NOTADB)) {
        snprintf(facts->damage, sizeof facts->damage, "%s", sqlite3_errmsg(db));
        ok = true;
    } else if (!ok) {
        snprintf(message, message_size, "%s", db ? sqlite3_errmsg(db) : "out of memory");
    }
    sqlite3_close(db);
    return ok;
}
