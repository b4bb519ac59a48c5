/*
 * The log: one key=value line per event on standard error. Each is written by a single write(2), so lines of several
 * threads do not mix. Thread-safe.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_OPS_LOG_H
#define SERVER_OPS_LOG_H

#include <stdbool.h>

#define REQUEST_ID_SIZE 65 /* the size of a request id: at most 64 visible ASCII characters and NUL */

enum log_level { LOG_LEVEL_DEBUG, LOG_LEVEL_INFO, LOG_LEVEL_WARN, LOG_LEVEL_ERROR, LOG_LEVEL_COUNT };

const char *log_level_name(enum log_level level);
/* Suppresses lines below `level`. Call before other threads start. */
void log_start(enum log_level level);
bool log_enabled(enum log_level level);
/* event is a word; format adds key=value pairs and may be NULL. */
void log_event(enum log_level level, const char *event, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Copies `value` in a form that can follow `key=`: unquoted, or quoted with escapes. Long values are truncated. */
const char *log_quote(char *out, unsigned size, const char *value);

#endif
