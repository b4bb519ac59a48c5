/*
 * Writes key=value lines. A value that contains a space, a quote or a control character is quoted and
 * escaped, so that a path or label of a client cannot forge a line.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/ops/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "server/ops/clock.h"

#define LINE_MAX_BYTES 2048

/* Set once, before threads start. */
static enum log_level threshold = LOG_LEVEL_INFO;
static int output = STDERR_FILENO; /* reopening replaces the file behind this number */
static const char *file;           /* NULL: standard error */
static bool journal;               /* standard error is that of systemd's */

const char *log_level_name(enum log_level level)
{
    static const char *const names[LOG_LEVEL_COUNT] = {"debug", "info", "warn", "error"};
    return level < LOG_LEVEL_COUNT ? names[level] : NULL;
}

/* Whether JOURNAL_STREAM, "DEVICE:INODE", is standard error, as systemd.exec(5) tells programs to find out. */
static bool is_journal(void)
{
    const char *stream = getenv("JOURNAL_STREAM");
    char own[64];
    struct stat status;
    if (!stream || fstat(STDERR_FILENO, &status) != 0)
        return false;
    snprintf(own, sizeof own, "%llu:%llu", (unsigned long long)status.st_dev, (unsigned long long)status.st_ino);
    return strcmp(stream, own) == 0;
}

void log_start(enum log_level level)
{
    threshold = level;
    journal = is_journal();
}

/* Returns -1 with a message. Does not wait for the reader of a FIFO, which is refused. */
static int open_file(const char *path, char *message, size_t message_size)
{
    struct stat status;
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, S_IRUSR | S_IWUSR);
    bool opened = fd >= 0 && fstat(fd, &status) == 0;
    if (opened && S_ISREG(status.st_mode))
        return fd;
    snprintf(message, message_size, "cannot write the log to %.300s: %s", path,
             opened ? "it is not a regular file" : strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

bool log_open(const char *path, char *message, size_t message_size)
{
    int fd = open_file(path, message, message_size);
    if (fd < 0)
        return false;
    output = fd;
    file = path;
    journal = false;
    return true;
}

bool log_reopen(char *message, size_t message_size)
{
    int fd = file ? open_file(file, message, message_size) : -1;
    bool done = !file || (fd >= 0 && dup3(fd, output, O_CLOEXEC) == output);
    if (!done && fd >= 0)
        snprintf(message, message_size, "cannot write the log to %.300s: %s", file, strerror(errno));
    if (fd >= 0)
        close(fd);
    return done;
}

bool log_enabled(enum log_level level)
{
    return level >= threshold;
}

const char *log_quote(char *out, unsigned size, const char *value)
{
    static const char digits[] = "0123456789abcdef";
    bool bare = *value != '\0';
    for (const char *at = value; *at && bare; at++)
        bare = (unsigned char)*at > 0x20 && (unsigned char)*at != 0x7f && *at != '"' && *at != '\\' && *at != '=';
    if (bare) {
        snprintf(out, size, "%s", value);
        return out;
    }
    unsigned len = 0;
    out[len++] = '"';
    for (const char *at = value; *at && len + 6 < size; at++) {
        unsigned char c = (unsigned char)*at;
        if (c < 0x20 || c == 0x7f) {
            out[len++] = '\\';
            out[len++] = 'x';
            out[len++] = digits[c >> 4];
            out[len++] = digits[c & 15];
            continue;
        }
        if (c == '"' || c == '\\')
            out[len++] = '\\';
        out[len++] = (char)c;
    }
    out[len++] = '"';
    out[len] = '\0';
    return out;
}

void log_event(enum log_level level, const char *event, const char *format, ...)
{
    if (!log_enabled(level))
        return;
    static const char *const priorities[LOG_LEVEL_COUNT] = {SD_DEBUG, SD_INFO, SD_WARNING, SD_ERR};
    char line[LINE_MAX_BYTES];
    char time[25];
    clock_rfc3339(time, clock_now_ms());
    int len = snprintf(line, sizeof line - 1, "%stime=%s level=%s event=%s", journal ? priorities[level] : "", time,
                       log_level_name(level), event);
    if (format && len > 0) {
        line[len++] = ' ';
        va_list args;
        va_start(args, format);
        int more = vsnprintf(line + len, sizeof line - 1 - (size_t)len, format, args);
        va_end(args);
        len += more > 0 ? more : 0;
    }
    if (len < 0)
        return;
    size_t used = (size_t)len < sizeof line - 2 ? (size_t)len : sizeof line - 2;
    line[used++] = '\n';
    ssize_t written = write(output, line, used);
    (void)written; /* a failure to write the log must not stop the service */
}
