/*
 * Writes key=value lines to standard error. A value that contains a space, a quote or a control character is quoted and
 * escaped, so that a path or label of a client cannot forge a line.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/ops/log.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "server/ops/clock.h"

#define LINE_MAX_BYTES 2048

static enum log_level threshold = LOG_LEVEL_INFO; /* set once, before threads start */

const char *log_level_name(enum log_level level)
{
    static const char *const names[LOG_LEVEL_COUNT] = {"debug", "info", "warn", "error"};
    return level < LOG_LEVEL_COUNT ? names[level] : NULL;
}

void log_start(enum log_level level)
{
    threshold = level;
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
    char line[LINE_MAX_BYTES];
    char time[25];
    clock_rfc3339(time, clock_now_ms());
    int len = snprintf(line, sizeof line - 1, "time=%s level=%s event=%s", time, log_level_name(level), event);
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
    ssize_t written = write(STDERR_FILENO, line, used);
    (void)written; /* a failure to write the log must not stop the service */
}
