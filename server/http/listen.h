/*
 * The listening socket.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_HTTP_LISTEN_H
#define SERVER_HTTP_LISTEN_H

#include <stdbool.h>
#include <stddef.h>

/* Binds HOST:PORT or [HOST]:PORT and writes "SCHEME://HOST:PORT", with the actual port, to url. A client whose machine
 * leaves packets unanswered for gone_seconds (10 to 3600) is disconnected. Returns -1 with a message on failure. */
int listen_on(const char *address, const char *scheme, double gone_seconds, char *url, size_t url_size, char *message,
              size_t message_size);

/* The same for a socket that the supervisor has bound, which becomes non-blocking. Returns false with a message if it
 * is not a listening TCP socket. */
bool listen_adopt(int fd, const char *scheme, double gone_seconds, char *url, size_t url_size, char *message,
                  size_t message_size);

/* Whether a bound socket can be reached from this machine only. */
bool listen_is_local(int fd);

#endif
