/*
 * The supervisor that started the process, if it is systemd or speaks its protocols: the listening socket that it
 * passes (sd_listen_fds(3)), and what it is told of the state of the service (sd_notify(3)). Without a supervisor the
 * functions do nothing. Thread-safe, except for supervisor_socket().
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_OPS_SUPERVISOR_H
#define SERVER_OPS_SUPERVISOR_H

#include <stdbool.h>
#include <stddef.h>

/* Sets the descriptor of the socket that the supervisor passes, -1 if it passes none. Returns false with a message if
 * it passes several. Call once, before threads start: it changes the environment. */
bool supervisor_socket(int *fd, char *message, size_t message_size);
/* The time within which it expects each heartbeat, in seconds; 0: it expects none. */
double supervisor_patience(void);

/* The service has started, or has finished reloading. */
void supervisor_ready(void);
void supervisor_reloading(void);
void supervisor_stopping(void);
/* A heartbeat. */
void supervisor_beat(void);
/* A line for the operator (`systemctl status`). */
void supervisor_status(const char *text);

#endif
