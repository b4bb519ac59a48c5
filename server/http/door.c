/*
 * Accepting, and what happens when the kernel has no descriptor left.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/http/door.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "server/ops/clock.h"
#include "server/ops/log.h"

#define STARVED_MS 50        /* until the next try when there are no descriptors */
#define COMPLAINT_SECONDS 60 /* between two complaints of that */

/* There are no descriptors, or no memory in the kernel: whoever is idle makes room. */
static void starve(struct door *door, int code)
{
    double now = clock_monotonic();
    double before = atomic_load(&door->complained);
    if (now - before >= COMPLAINT_SECONDS && atomic_compare_exchange_strong(&door->complained, &before, now)) {
        char quoted[128];
        log_event(LOG_LEVEL_ERROR, "accept", "detail=%s action=\"the connections that are idle longest are closed\"",
                  log_quote(quoted, sizeof quoted, strerror(code)));
    }
    connections_evict(door->connections);
}

int door_accept(struct door *door, struct MHD_Daemon *daemon)
{
    struct sockaddr_storage storage = {0};
    struct sockaddr *address = (struct sockaddr *)&storage;
    socklen_t len = sizeof storage;
    if (connections_full_of_leaving(door->connections)) {
        return 1;
    }
    int fd = accept4(door->listener, address, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
        starve(door, errno);
        return STARVED_MS;
    }
    if (fd < 0) { /* another thread was faster, or that client is gone again */
        return 0;
    }
    if (!connections_admit(door->connections, fd, address)) {
        close(fd);
    } else if (MHD_add_connection(daemon, fd, address, len) != MHD_YES) { /* it closed the socket */
        connections_remove(door->connections, fd);
    }
    return 0;
}
