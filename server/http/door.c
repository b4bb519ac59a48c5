/*
 * Accepts connections, also when the kernel has no file descriptor left.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/http/door.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "server/ops/clock.h"
#include "server/ops/log.h"

#define STARVED_MS 50        /* until the next attempt when there are no descriptors */
#define COMPLAINT_SECONDS 60 /* between two log messages about that */

/* There are no descriptors, or no kernel memory: evicts idle connections. */
static void starve(struct door *door, int code)
{
    double now = clock_monotonic();
    double before = atomic_load(&door->complained);
    if (now - before >= COMPLAINT_SECONDS && atomic_compare_exchange_strong(&door->complained, &before, now)) {
        char quoted[128];
        log_event(LOG_LEVEL_ERROR, "accept", "detail=%s action=\"closing the connections that have been idle longest\"",
                  log_quote(quoted, sizeof quoted, strerror(code)));
    }
    connections_evict(door->connections);
}

int door_accept(struct door *door, struct MHD_Daemon *daemon)
{
    struct sockaddr_storage storage = {0};
    struct sockaddr *address = (struct sockaddr *)&storage;
    socklen_t len = sizeof storage;
    if (connections_full_of_leaving(door->connections))
        return 1;
    int fd = accept4(door->listener, address, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
        starve(door, errno);
        return STARVED_MS;
    }
    if (fd < 0) /* another thread accepted it, or the client has disconnected */
        return 0;
    if (!connections_admit(door->connections, fd, address))
        close(fd);
    else if (MHD_add_connection(daemon, fd, address, len) != MHD_YES) /* the call closed the socket */
        connections_remove(door->connections, fd);
    return 0;
}
