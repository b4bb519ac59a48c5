/*
 * Finds out whether a full disk is the reason why a database cannot be opened. SQLite reports "disk I/O error" both for
 * an index that it cannot create and for a broken disk. This module therefore attempts what SQLite attempts: to
 * allocate space next to the file.
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
#include <sys/stat.h>
#include <unistd.h>

#include "server/store/internal.h"

#define ROOM 262144 /* bytes, enough for a new database, its log and the index of the log */

/* An unnamed file next to the database, not the database itself (see owner.c). Returns -1 with errno. */
static int nameless(const char *path)
{
    char name[PATH_MAX];
    snprintf(name, sizeof name, "%s", path);
    int fd = open(dirname(name), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR)) {
        snprintf(name, sizeof name, "%s-XXXXXX", path);
        fd = mkostemp(name, O_CLOEXEC);
        if (fd >= 0)
            unlink(name);
    }
    return fd;
}

/* Allocates space beyond the length of the database, so that limits on file sizes are tested too. */
static int take_room(const char *path)
{
    struct stat status;
    off_t len = stat(path, &status) == 0 ? status.st_size : 0;
    int fd = nameless(path);
    if (fd < 0)
        return errno;
    int error = posix_fallocate(fd, len, ROOM);
    close(fd);
    return error;
}

bool store_disk_full(const char *path, const char *detail, char *message, size_t message_size)
{
    bool says = detail && strstr(detail, sqlite3_errstr(SQLITE_FULL));
    bool perhaps =
        !detail || strstr(detail, sqlite3_errstr(SQLITE_IOERR)) || strstr(detail, sqlite3_errstr(SQLITE_CANTOPEN));
    int error = says ? ENOSPC : perhaps ? take_room(path) : 0;
    if (error != ENOSPC && error != EDQUOT && error != EFBIG)
        return false;
    snprintf(message, message_size,
             "the disk is full: there is no room to write %s (%s); free some space, or choose another location", path,
             strerror(error));
    return true;
}
