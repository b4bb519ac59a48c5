/*
 * The log: one key=value line per event, on standard error or in a file. Each is written by a single write(2), so lines
 * of several threads do not mix. Where standard error is the journal of systemd, each line begins with its priority
 * (sd-daemon(3)). Thread-safe, except for log_start() and log_open().
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_OPS_LOG_H
#define SERVER_OPS_LOG_H

#include <stdbool.h>
#include <stddef.h>

#define REQUEST_ID_SIZE 65 /* the size of a request id: at most 64 visible ASCII characters and NUL */

enum log_level { LOG_LEVEL_DEBUG, LOG_LEVEL_INFO, LOG_LEVEL_WARN, LOG_LEVEL_ERROR, LOG_LEVEL_COUNT };

const char *log_level_name(enum log_level level);
/* Suppresses lines below `level`. Call before other threads start. */
void log_start(enum log_level level);
/* From now on lines are appended to this file, which is created if necessary; path must stay valid. Returns false with
 * a message. Call before other threads start. */
bool log_open(const char *path, char *message, size_t message_size);
/* Opens it again by its name, because it may have been renamed. Returns false with a message: lines go on to the file
 * that was open. Does nothing if there is none. */
bool log_reopen(char *message, size_t message_size);
bool log_enabled(enum log_level level);
/* event is a word; format adds key=value pairs and may be NULL. */
void log_event(enum log_level level, const char *event, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Copies `value` in a form that can follow `key=`: unquoted, or quoted with escapes. Long values are truncated. */
const char *log_quote(char *out, unsigned size, const char *value);

#endif
