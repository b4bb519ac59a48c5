/*
 * The table of connections, by socket. Serving a request touches two atomics of its connection and no lock; the table
 * is locked to add and remove, and it is walked when a limit is reached and once a second for deadlines.
 *
 * Invariants, under the mutex: `open` is the number of entries that are neither spare nor leaving, `spares` of those
 * that are spare and not leaving, `leaving` of those that are leaving; a peer's count is its share of `open`, a network's the
 * sum of its peers', and either without entries is gone. open <= max, and of a network that has more than a few
 * open <= ceiling(KNOWN_NETWORK) < max, where there is a reserve. A socket is closed only after its entry is removed, so that
 * shutdown() under the mutex never meets a descriptor that has become another's.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/http/connections.h"

#include <arpa/inet.h>
#include <assert.h>
#include <linux/sockios.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
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

#define RESERVE 8 /* one in so many places is kept for newcomers */

enum {
    FEW = 8
}; /* connections that a newcomer has at most: a browser's six, and someone's who looks after the service */

/* An address, or a network of them. */
struct peer {
    struct map_node node;
    struct peer *network; /* NULL: it is one */
    size_t entries;
    size_t open;
    char key[INET6_ADDRSTRLEN];
};

/* How new a peer is, from the least: who is newer has places that the others do not get. */
enum standing {
    KNOWN_ADDRESS, /* has more than a few connections */
    KNOWN_NETWORK, /* has few, its network more */
    NEWCOMER
};

struct connections {
    struct connections_options options;
    pthread_mutex_t mutex;
    struct connection **table; /* by socket */
    size_t capacity;
    uint64_t serial; /* the last one's */
    struct map peers;
    struct map networks;
    size_t reserve; /* of options.max: places for who has few connections, half of them for whose network has few */
    size_t open;
    size_t spares;
    size_t leaving;
};

struct connections *connections_create(const struct connections_options *options)
{
    struct connections *connections = calloc(1, sizeof *connections);
    if (connections) {
        connections->options = *options;
        connections->reserve = options->max_of_one < options->max ? options->max / RESERVE : 0;
        pthread_mutex_init(&connections->mutex, NULL);
    }
    return connections;
}

/* Frees a peer without entries. */
static void peer_release_locked(struct connections *connections, struct peer *peer)
{
    if (peer && !peer->entries) {
        assert(peer->open == 0);
        map_remove(peer->network ? &connections->peers : &connections->networks, &peer->node);
        free(peer);
    }
}

/* One open connection more or less: by +1 or -1. */
static void count_open_locked(struct connections *connections, struct peer *peer, int by)
{
    connections->open += (size_t)by;
    peer->open += (size_t)by;
    peer->network->open += (size_t)by;
}

static void release_locked(struct connections *connections, struct connection *connection)
{
    struct peer *peer = connection->peer;
    struct peer *network = peer->network;
    if (connection->leaving) {
        connections->leaving--;
    } else if (connection->spare) {
        connections->spares--;
    } else {
        count_open_locked(connections, peer, -1);
    }
    peer->entries--;
    network->entries--;
    peer_release_locked(connections, peer);
    peer_release_locked(connections, network);
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
    map_clear(&connections->networks);
    pthread_mutex_destroy(&connections->mutex);
    free(connections);
}

/* ---------------------------------------------------------------- addresses */

struct address {
    char text[INET6_ADDRSTRLEN];
    char one[INET6_ADDRSTRLEN];     /* what is counted as one: a household has 2^64 addresses of IPv6 */
    char network[INET6_ADDRSTRLEN]; /* what one owner may well have: /24 of IPv4, /48 of IPv6 */
};

static void write_v4(struct address *address, const void *bytes)
{
    uint8_t v4[4];
    memcpy(v4, bytes, sizeof v4);
    inet_ntop(AF_INET, v4, address->text, INET6_ADDRSTRLEN);
    memcpy(address->one, address->text, sizeof address->one);
    v4[3] = 0;
    inet_ntop(AF_INET, v4, address->network, INET6_ADDRSTRLEN);
}

static void write_address(struct address *address, const struct sockaddr *from)
{
    *address = (struct address){"unknown", "unknown", "unknown"};
    if (from->sa_family == AF_INET) {
        write_v4(address, &((const struct sockaddr_in *)(const void *)from)->sin_addr);
    }
    if (from->sa_family != AF_INET6) {
        return;
    }
    struct in6_addr v6 = ((const struct sockaddr_in6 *)(const void *)from)->sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(&v6)) {
        write_v4(address, &v6.s6_addr[12]);
        return;
    }
    inet_ntop(AF_INET6, &v6, address->text, INET6_ADDRSTRLEN);
    memset(&v6.s6_addr[8], 0, 8);
    inet_ntop(AF_INET6, &v6, address->one, INET6_ADDRSTRLEN);
    memset(&v6.s6_addr[6], 0, 2);
    inet_ntop(AF_INET6, &v6, address->network, INET6_ADDRSTRLEN);
}

/* That of the key; a new one has no entries. NULL: no memory. */
static struct peer *find_or_make_locked(struct map *map, const char *key, struct peer *network)
{
    struct map_node *node = map_find(map, key);
    if (node) {
        return MAP_ENTRY(node, struct peer, node);
    }
    struct peer *peer = calloc(1, sizeof *peer);
    if (peer) {
        snprintf(peer->key, sizeof peer->key, "%s", key);
        peer->network = network;
        if (!map_insert(map, &peer->node, peer->key)) {
            free(peer);
            return NULL;
        }
    }
    return peer;
}

static struct peer *peer_locked(struct connections *connections, const struct address *address)
{
    struct peer *network = find_or_make_locked(&connections->networks, address->network, NULL);
    struct peer *peer = network ? find_or_make_locked(&connections->peers, address->one, network) : NULL;
    if (!peer) {
        peer_release_locked(connections, network);
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
        count_open_locked(connections, connection->peer, -1);
    }
    connection->leaving = true;
    connections->leaving++;
    metric_add(reason, 1);
}

/* With so many connections more than it has. */
static enum standing standing_of(const struct peer *peer, size_t more)
{
    return peer->open + more > FEW ? KNOWN_ADDRESS : peer->network->open + more > FEW ? KNOWN_NETWORK : NEWCOMER;
}

/* Who may be sent away. */
struct choice {
    bool spare;               /* among spares, or the others */
    const struct peer *whose; /* of this address or network; NULL: of all */
    enum standing newest;     /* of those that are as new as this at most */
};

static const struct choice anyone = {.newest = NEWCOMER};
static const struct choice spares = {.spare = true, .newest = NEWCOMER};

static bool chosen(const struct connection *one, const struct choice *choice)
{
    return !one->leaving && one->spare == choice->spare &&
           (!choice->whose || one->peer == choice->whose || one->peer->network == choice->whose) &&
           standing_of(one->peer, 0) <= choice->newest;
}

/* Since when it does nothing; INFINITY: it does something. */
static double idle_since(const struct connection *one)
{
    return atomic_load(&one->idle) ? atomic_load(&one->since) : one->stalled ? atomic_load(&one->deadline) : INFINITY;
}

/* The one that has been idle longest. */
static struct connection *longest_idle_locked(const struct connections *connections, const struct choice *choice)
{
    struct connection *longest = NULL;
    for (size_t i = 0; i < connections->capacity; i++) {
        struct connection *one = connections->table[i];
        if (one && chosen(one, choice) && idle_since(one) < (longest ? idle_since(longest) : INFINITY)) {
            longest = one;
        }
    }
    return longest;
}

static bool evict_locked(struct connections *connections, const struct choice *choice)
{
    struct connection *longest = longest_idle_locked(connections, choice);
    if (longest) {
        shut_locked(connections, longest, METRIC_HTTP_EVICTED);
    }
    return longest != NULL;
}

bool connections_evict(struct connections *connections)
{
    pthread_mutex_lock(&connections->mutex);
    bool evicted = evict_locked(connections, &anyone) || evict_locked(connections, &spares);
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
        bool late = one && !one->leaving && late_locked(one, now);
        if (one) {
            one->stalled = late && atomic_load(&one->keeps);
        }
        if (late && !one->stalled) {
            shut_locked(connections, one, METRIC_HTTP_EXPIRED);
        }
    }
    pthread_mutex_unlock(&connections->mutex);
    return EXPIRE_SECONDS;
}

bool connections_drop_stalled(struct connections *connections)
{
    struct connection *longest = NULL;
    pthread_mutex_lock(&connections->mutex);
    for (size_t i = 0; i < connections->capacity; i++) {
        struct connection *one = connections->table[i];
        if (one && one->stalled && !one->leaving && (!longest || idle_since(one) < idle_since(longest))) {
            longest = one;
        }
    }
    if (longest) {
        shut_locked(connections, longest, METRIC_HTTP_EXPIRED);
    }
    pthread_mutex_unlock(&connections->mutex);
    return longest != NULL;
}

void connections_cut(struct connections *connections, uint64_t serial)
{
    pthread_mutex_lock(&connections->mutex);
    for (size_t i = 0; i < connections->capacity; i++) {
        struct connection *one = connections->table[i];
        if (one && one->serial == serial && !one->leaving) {
            shut_locked(connections, one, METRIC_HTTP_EVICTED);
        }
    }
    pthread_mutex_unlock(&connections->mutex);
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

/* So many connections may be open when one of that standing comes in. */
static size_t ceiling(const struct connections *connections, enum standing standing)
{
    size_t kept = standing == KNOWN_ADDRESS   ? connections->reserve
                  : standing == KNOWN_NETWORK ? connections->reserve / 2
                                              : 0;
    return connections->options.max - kept;
}

/* Whether there is a place for one more of the peer's, perhaps another's. */
static bool open_place_locked(struct connections *connections, const struct peer *peer)
{
    enum standing standing = standing_of(peer, 1);
    struct choice choice = {.newest = standing};
    if (peer->open >= connections->options.max_of_one) {
        choice = (struct choice){.whose = peer, .newest = NEWCOMER};
    } else if (standing < NEWCOMER && peer->network->open >= ceiling(connections, KNOWN_NETWORK)) {
        choice.whose = peer->network;
    } else if (connections->open < ceiling(connections, standing)) {
        return true;
    }
    return evict_locked(connections, &choice);
}

/* Whether the peer has a place; *spare: it is one for health. */
static bool find_place_locked(struct connections *connections, const struct peer *peer, bool *spare)
{
    *spare = !open_place_locked(connections, peer);
    return !*spare || connections->spares < CONNECTIONS_SPARE || evict_locked(connections, &spares);
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
    const struct peer *network = connection->peer->network;
    connection->peer->entries++;
    connection->peer->network->entries++;
    if (connection->spare) {
        connections->spares++;
    } else {
        count_open_locked(connections, connection->peer, 1);
        assert(connections->open <= connections->options.max);
        assert(network->open <= FEW || network->open <= ceiling(connections, KNOWN_NETWORK));
    }
    connections->table[connection->fd] = connection;
    metric_set(METRIC_HTTP_CONNECTIONS, (int64_t)(connections->open + connections->spares));
}

bool connections_admit(struct connections *connections, int fd, const struct sockaddr *from)
{
    struct address address;
    write_address(&address, from);
    struct connection *connection = connection_new(fd, address.text);
    pthread_mutex_lock(&connections->mutex);
    bool room = connection && make_room_locked(connections, fd);
    if (room && connections->table[fd]) { /* libmicrohttpd closed it without a word: it had no memory */
        release_locked(connections, connections->table[fd]);
    }
    struct peer *peer = room ? peer_locked(connections, &address) : NULL;
    bool admitted = peer && find_place_locked(connections, peer, &connection->spare);
    if (admitted) {
        connection->peer = peer;
        connection->serial = ++connections->serial;
        count_locked(connections, connection);
        connection_idle(connections, connection);
    } else if (peer && !peer->entries) {
        struct peer *network = peer->network;
        peer_release_locked(connections, peer);
        peer_release_locked(connections, network);
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
    atomic_store(&connection->keeps, false);
    atomic_store(&connection->patience, patience);
    atomic_store(&connection->deadline, clock_monotonic() + seconds);
}

void connection_streaming(struct connection *connection, double seconds, double patience)
{
    connection_sending(connection, seconds, patience);
    atomic_store(&connection->keeps, true);
    /* A window that stays closed is a pause, as long as the client's kernel answers probes of it. */
    unsigned none = 0;
    setsockopt(connection->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &none, sizeof none);
}

void connection_idle(struct connections *connections, struct connection *connection)
{
    double now = clock_monotonic();
    double seconds =
        connection->spare ? fmin(SPARE_SECONDS, connections->options.idle_seconds) : connections->options.idle_seconds;
    atomic_store(&connection->keeps, false);
    atomic_store(&connection->patience, 0);
    atomic_store(&connection->deadline, now + seconds);
    atomic_store(&connection->since, now);
    atomic_store(&connection->idle, true);
}
