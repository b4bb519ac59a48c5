/*
 * Copies the database as it is at one moment, while a server continues to write. The copy is made through SQLite,
 * because the latest commits are in the log next to the file. One read transaction spans the copy, so that it is
 * consistent and does not have to start again when something is written. The copy is made under another name, and gets
 * its own when it is complete and on the disk, so a file with that name is always a complete backup.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/store/internal.h"

#define PORTION 1024 /* pages copied between two checks whether to stop */

/* Begins the read transaction. Returns the number of jobs, or -1. */
static int64_t begin(sqlite3 *db)
{
    sqlite3_stmt *statement = NULL;
    int64_t jobs = -1;
    if (sqlite3_exec(db, "BEGIN", NULL, NULL, NULL) == SQLITE_OK &&
        sqlite3_prepare_v2(db, "SELECT count(*) FROM jobs", -1, &statement, NULL) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW)
        jobs = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return jobs;
}

static bool copy_pages(sqlite3 *to, sqlite3 *from, bool (*stop)(void), char *message, size_t message_size)
{
    sqlite3_backup *backup = sqlite3_backup_init(to, "main", from, "main");
    int code = backup ? SQLITE_OK : SQLITE_ERROR;
    bool stopped = false;
    while (code == SQLITE_OK && !stopped) {
        code = sqlite3_backup_step(backup, PORTION);
        stopped = stop();
    }
    sqlite3_backup_finish(backup);
    if (code != SQLITE_DONE)
        snprintf(message, message_size, "%s", code == SQLITE_OK ? "stopped" : sqlite3_errmsg(to));
    return code == SQLITE_DONE;
}

/* A new name in a directory is durable only after the directory is synced. */
static bool sync_directory(const char *file)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s", file);
    int fd = open(dirname(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool ok = fd >= 0 && fsync(fd) == 0;
    if (fd >= 0)
        close(fd);
    return ok;
}

/* Makes the copy in `part`, an existing empty file, and renames it. */
static bool copy(sqlite3 *from, const char *part, const char *file, bool (*stop)(void), char *message,
                 size_t message_size)
{
    sqlite3 *to = NULL;
    bool ok = sqlite3_open_v2(part, &to, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK;
    if (ok)
        ok = copy_pages(to, from, stop, message, message_size);
    else
        snprintf(message, message_size, "%s", to ? sqlite3_errmsg(to) : "out of memory");
    ok = sqlite3_close(to) == SQLITE_OK && ok;
    if (ok && (rename(part, file) != 0 || !sync_directory(file))) {
        snprintf(message, message_size, "%s", strerror(errno));
        ok = false;
    }
    return ok;
}

int64_t store_backup(const char *database, const char *file, bool (*stop)(void), char *message, size_t message_size)
{
    char part[PATH_MAX];
    char detail[400];
    int len = snprintf(part, sizeof part, "%s-XXXXXX", file);
    bool one_name = owner_one_name(database, detail, sizeof detail);
    struct store_connection *from = one_name ? store__connect(database, true, detail, sizeof detail) : NULL;
    int64_t jobs = from ? begin(from->db) : -1;
    if (jobs < 0) {
        snprintf(message, message_size, "cannot read the database %.500s: %s", database,
                 from ? sqlite3_errmsg(from->db) : detail);
        store__disconnect(from);
        return -1;
    }
    int fd = -1;
    if (len < 0 || len >= (int)sizeof part)
        errno = ENAMETOOLONG;
    else if (access(file, F_OK) == 0)
        errno = EEXIST;
    else
        fd = mkstemp(part);
    snprintf(detail, sizeof detail, "%s", strerror(errno));
    if (fd >= 0)
        close(fd);
    if (fd < 0 || !copy(from->db, part, file, stop, detail, sizeof detail)) {
        if (!store_disk_full(file, detail, message, message_size))
            snprintf(message, message_size, "cannot write the backup %.500s: %s", file, detail);
        jobs = -1;
    }
    if (fd >= 0 && jobs < 0)
        unlink(part);
    store__disconnect(from);
    return jobs;
}
