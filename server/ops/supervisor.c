/*
 * See supervisor.h. Errors are ignored: a supervisor that cannot be reached ends the process, if it wants to, because
 * it misses the heartbeats.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/ops/supervisor.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <systemd/sd-daemon.h>
#include <time.h>

bool supervisor_socket(int *fd, char *message, size_t message_size)
{
    int len = sd_listen_fds(1);
    *fd = len == 1 ? SD_LISTEN_FDS_START : -1;
    if (len > 1) {
        snprintf(message, message_size,
                 "the supervisor passes %d sockets, and epsilond serves one: keep one ListenStream= in epsilond.socket",
                 len);
    } else if (len < 0) {
        snprintf(message, message_size, "LISTEN_FDS or LISTEN_PID of the supervisor is no number");
    }
    return len == 0 || len == 1;
}

double supervisor_patience(void)
{
    uint64_t microseconds = 0;
    return sd_watchdog_enabled(0, &microseconds) > 0 ? (double)microseconds * 1e-6 : 0;
}

void supervisor_ready(void)
{
    sd_notify(0, "READY=1");
}

void supervisor_reloading(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t microseconds = (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
    sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRId64, microseconds);
}

void supervisor_stopping(void)
{
    sd_notify(0, "STOPPING=1\nSTATUS=stopping");
}

void supervisor_beat(void)
{
    sd_notify(0, "WATCHDOG=1");
}

void supervisor_status(const char *text)
{
    sd_notifyf(0, "STATUS=%s", text);
}
