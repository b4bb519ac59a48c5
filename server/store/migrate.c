/*
 * Numbered migrations, embedded in the binary as migrations/NNNN_name.sql. Each one that the database lacks is applied
 * at startup in its own transaction, together with its PRAGMA user_version. A schema that is newer than this build is
 * rejected, because an older program would misread it.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/embedded.h"
#include "server/ops/log.h"
#include "server/store/internal.h"

static const char prefix[] = "migrations/";

/* The number of a migration, or 0 for another file. */
static int migration_number(const struct embedded_file *file)
{
    if (strncmp(file->name, prefix, sizeof prefix - 1) != 0)
        return 0;
    return (int)strtol(file->name + sizeof prefix - 1, NULL, 10);
}

static const struct embedded_file *migration_find(int number)
{
    const struct embedded_file *file = embedded_files;
    while (file->name && migration_number(file) != number)
        file++;
    return file->name ? file : NULL;
}

static int schema_version(sqlite3 *db)
{
    sqlite3_stmt *statement = NULL;
    int version = -1;
    if (sqlite3_prepare_v2(db, "PRAGMA user_version", -1, &statement, NULL) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW)
        version = sqlite3_column_int(statement, 0);
    sqlite3_finalize(statement);
    return version;
}

static bool migration_run(sqlite3 *db, const struct embedded_file *file, int number, char *message, size_t message_size)
{
    char mark[64];
    char *complaint = NULL;
    snprintf(mark, sizeof mark, "PRAGMA user_version = %d; COMMIT", number);
    if (sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, &complaint) == SQLITE_OK) {
        /* Another process may have migrated the database while this one waited for the lock. */
        if (schema_version(db) >= number) {
            sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
            return true;
        }
        if (sqlite3_exec(db, (const char *)file->data, NULL, NULL, &complaint) == SQLITE_OK &&
            sqlite3_exec(db, mark, NULL, NULL, &complaint) == SQLITE_OK) {
            log_event(LOG_LEVEL_INFO, "migrated", "migration=%s", file->name);
            return true;
        }
    }
    snprintf(message, message_size, "%s failed: %s", file->name, complaint ? complaint : sqlite3_errmsg(db));
    sqlite3_free(complaint);
    sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    return false;
}

int store__schema_newest(void)
{
    int newest = 0;
    for (const struct embedded_file *file = embedded_files; file->name; file++) {
        int number = migration_number(file);
        newest = number > newest ? number : newest;
    }
    return newest;
}

bool store__migrate(struct store_connection *connection, bool allowed, char *message, size_t message_size)
{
    int newest = store__schema_newest();
    int version = schema_version(connection->db);
    if (version < 0) {
        snprintf(message, message_size, "cannot read the schema version: %s", sqlite3_errmsg(connection->db));
        return false;
    }
    if (version > newest) {
        snprintf(
            message, message_size,
            "its schema version %d is newer than this build supports (%d); run the newer epsilond that wrote it, or "
            "restore a backup of before",
            version, newest);
        return false;
    }
    if (version < newest && !allowed) {
        snprintf(message, message_size,
                 "the epsilond that serves it is older than this one (schema %d, not %d); restart it with this build",
                 version, newest);
        return false;
    }
    if (version < newest && !store__figure_register(connection->db)) {
        snprintf(message, message_size, "out of memory");
        return false;
    }
    for (int number = version + 1; number <= newest; number++) {
        const struct embedded_file *file = migration_find(number);
        if (!file) {
            snprintf(message, message_size, "migration %d is missing from this build", number);
            return false;
        }
        if (!migration_run(connection->db, file, number, message, message_size))
            return false;
    }
    return true;
}
