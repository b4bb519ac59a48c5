/*
 * The table of connections, by socket. Serving a request touches two atomics of its connection and no lock; the table
 * is locked to add and remove, and it is walked when a limit is reached and once a second for deadlines.
 *
 * Invariants, under the mutex: `open` is the number of entries that are neither spare nor leaving, `spares` of those
 * that are spare and not leaving, `leaving` of those that are leaving; a peer's count is its share of `open`, and a
 * peer without entries is gone. A socket is closed only after its entry is removed, so that shutdown() under the mutex
 * never meets a descriptor that has become another's.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/http/connections.h"

#include <arpa/inet.h>
#include <assert.h>
#include <linux/sockios.h>
#include <math.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "server/ops/clock.h"
#include "server/ops/map.h"
#include "server/ops/metrics.h"

#define SPARE_SECONDS 5.0  /* in which a spare must have asked */
#define EXPIRE_SECONDS 1.0 /* between walks for deadlines */

struct peer {
    struct map_node node;
    size_t entries;
    size_t open;
    char key[INET6_ADDRSTRLEN];
};

struct connections {
    struct connections_options options;
    pthread_mutex_t mutex;
    struct connection **table; /* by socket */
    size_t capacity;
    struct map peers;
    size_t open;
    size_t spares;
    size_t leaving;
};

struct connections *connections_create(const struct connections_options *options)
{
    struct connections *connections = calloc(1, sizeof *connections);
    if (connections) {
        connections->options = *options;
        pthread_mutex_init(&connections->mutex, NULL);
    }
    return connections;
}

static void release_locked(struct connections *connections, struct connection *connection)
{
    struct peer *peer = connection->peer;
    if (connection->leaving) {
        connections->leaving--;
    } else if (connection->spare) {
        connections->spares--;
    } else {
        connections->open--;
        peer->open--;
    }
    if (--peer->entries == 0) {
        assert(peer->open == 0);
        map_remove(&connections->peers, &peer->node);
        free(peer);
    }
    connections->table[connection->fd] = NULL;
    free(connection);
    metric_set(METRIC_HTTP_CONNECTIONS, (int64_t)(connections->open + connections->spares));
}

void connections_destroy(struct connections *connections)
{
    if (!connections) {
        return;
    }
    for (size_t i = 0; i < connections->capacity; i++) {
        if (connections->table[i]) {
            release_locked(connections, connections->table[i]);
        }
    }
    free(connections->table);
    map_clear(&connections->peers);
    pthread_mutex_destroy(&connections->mutex);
    free(connections);
}

/* ---------------------------------------------------------------- addresses */

/* `text` is the address, `key` what is counted as one: a household has 2^64 addresses of IPv6. */
static void write_address(char text[INET6_ADDRSTRLEN], char key[INET6_ADDRSTRLEN], const struct sockaddr *address)
{
    snprintf(text, INET6_ADDRSTRLEN, "unknown");
    if (address->sa_family == AF_INET) {
        inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)address)->sin_addr, text, INET6_ADDRSTRLEN);
    }
    snprintf(key, INET6_ADDRSTRLEN, "%s", text);
    if (address->sa_family != AF_INET6) {
        return;
    }
    struct in6_addr v6 = ((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(&v6)) {
        inet_ntop(AF_INET, &v6.s6_addr[12], text, INET6_ADDRSTRLEN);
        snprintf(key, INET6_ADDRSTRLEN, "%s", text);
        return;
    }
    inet_ntop(AF_INET6, &v6, text, INET6_ADDRSTRLEN);
    memset(&v6.s6_addr[8], 0, 8);
    inet_ntop(AF_INET6, &v6, key, INET6_ADDRSTRLEN);
}

static struct peer *peer_locked(struct connections *connections, const char *key)
{
    struct map_node *node = map_find(&connections->peers, key);
    if (node) {
        return MAP_ENTRY(node, struct peer, node);
    }
    struct peer *peer = calloc(1, sizeof *peer);
    if (peer) {
        snprintf(peer->key, sizeof peer->key, "%s", key);
        if (!map_insert(&connections->peers, &peer->node, peer->key)) {
            free(peer);
            return NULL;
        }
    }
    return peer;
}

/* ---------------------------------------------------------------- sending away */

static void shut_locked(struct connections *connections, struct connection *connection, enum metric reason)
{
    shutdown(connection->fd, SHUT_RDWR);
    if (connection->spare) {
        connections->spares--;
    } else {
        connections->open--;
        connection->peer->open--;
    }
    connection->leaving = true;
    connections->leaving++;
    metric_add(reason, 1);
}

/* The one that has been idle longest, of those of the peer (NULL: of all), among spares or the others. */
static struct connection *longest_idle_locked(const struct connections *connections, const struct peer *peer,
                                              bool spare)
{
    struct connection *longest = NULL;
    for (size_t i = 0; i < connections->capacity; i++) {
        struct connection *one = connections->table[i];
        if (one && !one->leaving && one->spare == spare && (!peer || one->peer == peer) && atomic_load(&one->idle) &&
            (!longest || atomic_load(&one->since) < atomic_load(&longest->since))) {
            longest = one;
        }
    }
    return longest;
}

static bool evict_locked(struct connections *connections, const struct peer *peer, bool spare)
{
    struct connection *longest = longest_idle_locked(connections, peer, spare);
    if (longest) {
        shut_locked(connections, longest, METRIC_HTTP_EVICTED);
    }
    return longest != NULL;
}

bool connections_evict(struct connections *connections)
{
    pthread_mutex_lock(&connections->mutex);
    bool evicted = evict_locked(connections, NULL, false) || evict_locked(connections, NULL, true);
    pthread_mutex_unlock(&connections->mutex);
    return evicted;
}

/* A socket with megabytes in it is asked for more only when a third of them is gone: a client who reads them slowly takes
 * some long before that, and the kernel knows. */
static bool takes_locked(struct connection *connection)
{
    int unsent = 0;
    if (ioctl(connection->fd, SIOCOUTQ, &unsent) != 0) {
        return false;
    }
    bool takes = unsent < connection->unsent;
    connection->unsent = unsent;
    return takes;
}

/* Whether it is past its deadline. One that is set anew meanwhile stands. */
static bool late_locked(struct connection *connection, double now)
{
    double deadline = atomic_load(&connection->deadline);
    double patience = atomic_load(&connection->patience);
    if (patience > 0 && isfinite(deadline) && takes_locked(connection)) {
        atomic_compare_exchange_strong(&connection->deadline, &deadline, fmax(deadline, now + patience));
        return false;
    }
    return deadline <= now;
}

double connections_expire(struct connections *connections)
{
    double now = clock_monotonic();
    pthread_mutex_lock(&connections->mutex);
    for (size_t i = 0; i < connections->capacity; i++) {
        struct connection *one = connections->table[i];
        if (one && !one->leaving && late_locked(one, now)) {
            shut_locked(connections, one, METRIC_HTTP_EXPIRED);
        }
    }
    pthread_mutex_unlock(&connections->mutex);
    return EXPIRE_SECONDS;
}

bool connections_full_of_leaving(struct connections *connections)
{
    pthread_mutex_lock(&connections->mutex);
    bool full = connections->leaving >= connections->options.max_leaving;
    pthread_mutex_unlock(&connections->mutex);
    return full;
}

/* ---------------------------------------------------------------- coming in */

static bool make_room_locked(struct connections *connections, int fd)
{
    if ((size_t)fd < connections->capacity) {
        return true;
    }
    size_t capacity = connections->capacity ? connections->capacity : 64;
    while (capacity <= (size_t)fd) {
        capacity *= 2;
    }
    struct connection **table = realloc(connections->table, capacity * sizeof(struct connection *));
    if (!table) {
        return false;
    }
    memset(table + connections->capacity, 0, (capacity - connections->capacity) * sizeof(struct connection *));
    connections->table = table;
    connections->capacity = capacity;
    return true;
}

/* Whether the peer has a place, perhaps another's; *spare: it is one for health. */
static bool find_place_locked(struct connections *connections, const struct peer *peer, bool *spare)
{
    bool crowded = peer->open >= connections->options.max_of_one;
    bool full = connections->open >= connections->options.max;
    *spare = (crowded && !evict_locked(connections, peer, false)) ||
             (!crowded && full && !evict_locked(connections, NULL, false));
    return !*spare || connections->spares < CONNECTIONS_SPARE || evict_locked(connections, NULL, true);
}

static struct connection *connection_new(int fd, const char *address)
{
    struct connection *connection = calloc(1, sizeof *connection);
    if (connection) {
        connection->fd = fd;
        snprintf(connection->address, sizeof connection->address, "%s", address);
    }
    return connection;
}

static void count_locked(struct connections *connections, struct connection *connection)
{
    connection->peer->entries++;
    if (connection->spare) {
        connections->spares++;
    } else {
        connections->open++;
        connection->peer->open++;
    }
    connections->table[connection->fd] = connection;
    metric_set(METRIC_HTTP_CONNECTIONS, (int64_t)(connections->open + connections->spares));
}

bool connections_admit(struct connections *connections, int fd, const struct sockaddr *address)
{
    char text[INET6_ADDRSTRLEN];
    char key[INET6_ADDRSTRLEN];
    write_address(text, key, address);
    struct connection *connection = connection_new(fd, text);
    pthread_mutex_lock(&connections->mutex);
    bool room = connection && make_room_locked(connections, fd);
    if (room && connections->table[fd]) { /* libmicrohttpd closed it without a word: it had no memory */
        release_locked(connections, connections->table[fd]);
    }
    struct peer *peer = room ? peer_locked(connections, key) : NULL;
    bool admitted = peer && find_place_locked(connections, peer, &connection->spare);
    if (admitted) {
        connection->peer = peer;
        count_locked(connections, connection);
        connection_idle(connections, connection);
    } else if (peer && !peer->entries) {
        map_remove(&connections->peers, &peer->node);
        free(peer);
    }
    pthread_mutex_unlock(&connections->mutex);
    if (!admitted) {
        free(connection);
        metric_add(METRIC_HTTP_REFUSED, 1);
    }
    return admitted;
}

struct connection *connections_find(struct connections *connections, int fd)
{
    pthread_mutex_lock(&connections->mutex);
    struct connection *found = (size_t)fd < connections->capacity ? connections->table[fd] : NULL;
    pthread_mutex_unlock(&connections->mutex);
    return found;
}

void connections_remove(struct connections *connections, int fd)
{
    pthread_mutex_lock(&connections->mutex);
    if ((size_t)fd < connections->capacity && connections->table[fd]) {
        release_locked(connections, connections->table[fd]);
    }
    pthread_mutex_unlock(&connections->mutex);
}

/* ---------------------------------------------------------------- phases */

void connection_busy(struct connection *connection, double seconds)
{
    connection_sending(connection, seconds, 0);
}

void connection_sending(struct connection *connection, double seconds, double patience)
{
    atomic_store(&connection->idle, false);
    atomic_store(&connection->patience, patience);
    atomic_store(&connection->deadline, clock_monotonic() + seconds);
}

void connection_idle(struct connections *connections, struct connection *connection)
{
    double now = clock_monotonic();
    double seconds =
        connection->spare ? fmin(SPARE_SECONDS, connections->options.idle_seconds) : connections->options.idle_seconds;
    atomic_store(&connection->patience, 0);
    atomic_store(&connection->deadline, now + seconds);
    atomic_store(&connection->since, now);
    atomic_store(&connection->idle, true);
}
