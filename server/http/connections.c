/*
 * The table of connections, indexed by socket. Serving a request touches two atomics of its connection and takes no
 * lock. The table is locked to add and remove entries; it is scanned when a limit is reached, and once a second for
 * deadlines.
 *
 * Invariants, under the mutex: `open` counts the entries that are neither spare nor leaving, `spares` those that are
 * spare and not leaving, `leaving` those that are leaving. The count of a peer is its part of `open`, that of a network
 * the sum over its peers; a peer or network without entries is freed. open <= max, and, for a network with more than a
 * few connections, open <= ceiling(KNOWN_NETWORK) < max, if there is a reserve. A socket is closed only after its entry
 * is removed, so shutdown() under the mutex never acts on a descriptor that has been reused.
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

#include "server/http/forwarded.h"
#include "server/ops/clock.h"
#include "server/ops/map.h"
#include "server/ops/metrics.h"

#define SPARE_SECONDS 5.0  /* the time in which a spare connection must send its request */
#define EXPIRE_SECONDS 1.0 /* between scans for deadlines */

#define RESERVE 8 /* one place in this many is reserved for newcomers */

enum { FEW = 8 }; /* the largest number of connections of a newcomer: six for a browser, and some for an operator */

/* An address, or a network of addresses. */
struct peer {
    struct map_node node;
    struct peer *network; /* NULL: this is a network */
    size_t entries;
    size_t open;
    char key[INET6_ADDRSTRLEN];
};

/* Standing of a peer, from lowest to highest. A higher standing may use places that a lower one may not. */
enum standing {
    KNOWN_ADDRESS, /* has more than a few connections */
    KNOWN_NETWORK, /* has few connections, but its network has more */
    NEWCOMER
};

struct connections {
    struct connections_options options;
    pthread_mutex_t mutex;
    struct connection **table; /* indexed by socket */
    size_t capacity;
    uint64_t serial; /* of the last connection */
    struct map peers;
    struct map networks;
    struct map clients; /* behind proxies */
    size_t reserve; /* part of options.max: places for peers with few connections, half of them for those whose network
                     * has few */
    size_t open;
    size_t spares;
    size_t leaving;
};

/* A client behind proxies. One without connections is freed. */
struct served {
    struct map_node node;
    size_t open; /* connections on which a request of the client is served */
    char key[INET6_ADDRSTRLEN];
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

/* Frees a peer that has no entries. */
static void peer_release_locked(struct connections *connections, struct peer *peer)
{
    if (peer && !peer->entries) {
        assert(peer->open == 0);
        map_remove(peer->network ? &connections->peers : &connections->networks, &peer->node);
        free(peer);
    }
}

/* Adds `by`, which is +1 or -1, to the counts of open connections. */
static void count_open_locked(struct connections *connections, struct peer *peer, int by)
{
    connections->open += (size_t)by;
    peer->open += (size_t)by;
    peer->network->open += (size_t)by;
}

/* The connection serves no client behind a proxy any more. */
static void served_locked(struct connections *connections, struct connection *connection)
{
    struct served *served = connection->served;
    connection->served = NULL;
    if (served && --served->open == 0) {
        map_remove(&connections->clients, &served->node);
        free(served);
    }
}

static void release_locked(struct connections *connections, struct connection *connection)
{
    served_locked(connections, connection);
    struct peer *peer = connection->peer;
    struct peer *network = peer->network;
    if (connection->leaving)
        connections->leaving--;
    else if (connection->spare)
        connections->spares--;
    else
        count_open_locked(connections, peer, -1);
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
    if (!connections)
        return;
    for (size_t i = 0; i < connections->capacity; i++)
        if (connections->table[i])
            release_locked(connections, connections->table[i]);
    free(connections->table);
    map_clear(&connections->peers);
    map_clear(&connections->networks);
    map_clear(&connections->clients);
    pthread_mutex_destroy(&connections->mutex);
    free(connections);
}

/* ---------------------------------------------------------------- addresses */

struct address {
    char text[INET6_ADDRSTRLEN];
    char one[INET6_ADDRSTRLEN];     /* the unit that is counted as one address: an IPv6 customer has 2^64 of them */
    char network[INET6_ADDRSTRLEN]; /* the addresses that one owner may have: /24 of IPv4, /48 of IPv6 */
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
    if (from->sa_family == AF_INET)
        write_v4(address, &((const struct sockaddr_in *)(const void *)from)->sin_addr);
    if (from->sa_family != AF_INET6)
        return;
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

/* Finds the peer of the key, or adds it without entries. NULL: out of memory. */
static struct peer *find_or_make_locked(struct map *map, const char *key, struct peer *network)
{
    struct map_node *node = map_find(map, key);
    if (node)
        return MAP_ENTRY(node, struct peer, node);
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
    if (!peer)
        peer_release_locked(connections, network);
    return peer;
}

/* ---------------------------------------------------------------- eviction */

static void shut_locked(struct connections *connections, struct connection *connection)
{
    shutdown(connection->fd, SHUT_RDWR);
    if (connection->spare)
        connections->spares--;
    else
        count_open_locked(connections, connection->peer, -1);
    connection->leaving = true;
    connections->leaving++;
}

/* The standing of the peer if it had `more` additional connections. */
static enum standing standing_of(const struct peer *peer, size_t more)
{
    return peer->open + more > FEW ? KNOWN_ADDRESS : peer->network->open + more > FEW ? KNOWN_NETWORK : NEWCOMER;
}

/* The connections that may be evicted. */
struct choice {
    bool spare;               /* among spare connections, or among the others */
    const struct peer *whose; /* of this address or network; NULL: of all */
    enum standing newest;     /* of peers with at most this standing */
};

static const struct choice anyone = {.newest = NEWCOMER};
static const struct choice spares = {.spare = true, .newest = NEWCOMER};

static bool chosen(const struct connection *one, const struct choice *choice)
{
    return !one->leaving && one->spare == choice->spare &&
           (!choice->whose || one->peer == choice->whose || one->peer->network == choice->whose) &&
           standing_of(one->peer, 0) <= choice->newest;
}

/* The time since which the connection is idle; INFINITY: it is busy. */
static double idle_since(const struct connection *one)
{
    return atomic_load(&one->idle) ? atomic_load(&one->since) : one->stalled ? atomic_load(&one->deadline) : INFINITY;
}

/* The connection that has been idle longest. */
static struct connection *longest_idle_locked(const struct connections *connections, const struct choice *choice)
{
    struct connection *longest = NULL;
    for (size_t i = 0; i < connections->capacity; i++) {
        struct connection *one = connections->table[i];
        if (one && chosen(one, choice) && idle_since(one) < (longest ? idle_since(longest) : INFINITY))
            longest = one;
    }
    return longest;
}

static bool evict_locked(struct connections *connections, const struct choice *choice)
{
    struct connection *longest = longest_idle_locked(connections, choice);
    if (longest) {
        shut_locked(connections, longest);
        metric_add(METRIC_HTTP_EVICTED, 1);
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

/* Whether the client reads. A socket with megabytes in its buffer asks for more only when a third of them has been
 * sent, which takes a slow reader long, so the kernel is asked how much is left. */
static bool takes_locked(struct connection *connection)
{
    int unsent = 0;
    if (ioctl(connection->fd, SIOCOUTQ, &unsent) != 0)
        return false;
    bool takes = unsent < connection->unsent;
    connection->unsent = unsent;
    return takes;
}

/* Whether the connection is past its deadline. A deadline that is set concurrently is respected. */
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

/* Whether the client hung up in the middle of a request. libmicrohttpd (up to 1.0.1 at least) does not notice if the
 * end came together with the last bytes: a read that takes less than it had room for is taken to have emptied the
 * socket, and the edge-triggered set reports the end only once. Two scans of the same phase must agree, so that a
 * request whose last bytes were read a moment ago is served. */
static bool hung_up_locked(struct connection *connection)
{
    char byte;
    double phase = atomic_load(&connection->deadline);
    bool ended =
        atomic_load(&connection->reads) && recv(connection->fd, &byte, sizeof byte, MSG_PEEK | MSG_DONTWAIT) == 0;
    bool again = ended && connection->hung_up == phase;
    connection->hung_up = ended ? phase : 0;
    return again;
}

static void expire_locked(struct connections *connections, struct connection *one, double now)
{
    bool late = late_locked(one, now);
    one->stalled = late && atomic_load(&one->keeps);
    if (late && !one->stalled)
        metric_add(METRIC_HTTP_EXPIRED, 1);
    if ((late && !one->stalled) || hung_up_locked(one))
        shut_locked(connections, one);
}

double connections_expire(struct connections *connections)
{
    double now = clock_monotonic();
    pthread_mutex_lock(&connections->mutex);
    for (size_t i = 0; i < connections->capacity; i++)
        if (connections->table[i] && !connections->table[i]->leaving)
            expire_locked(connections, connections->table[i], now);
    pthread_mutex_unlock(&connections->mutex);
    return EXPIRE_SECONDS;
}

bool connections_drop_stalled(struct connections *connections)
{
    struct connection *longest = NULL;
    pthread_mutex_lock(&connections->mutex);
    for (size_t i = 0; i < connections->capacity; i++) {
        struct connection *one = connections->table[i];
        if (one && one->stalled && !one->leaving && (!longest || idle_since(one) < idle_since(longest)))
            longest = one;
    }
    if (longest) {
        shut_locked(connections, longest);
        metric_add(METRIC_HTTP_EXPIRED, 1);
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
            shut_locked(connections, one);
            metric_add(METRIC_HTTP_EVICTED, 1);
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

/* ---------------------------------------------------------------- admission */

static bool make_room_locked(struct connections *connections, int fd)
{
    if ((size_t)fd < connections->capacity)
        return true;
    size_t capacity = connections->capacity ? connections->capacity : 64;
    while (capacity <= (size_t)fd)
        capacity *= 2;
    struct connection **table = realloc(connections->table, capacity * sizeof(struct connection *));
    if (!table)
        return false;
    memset(table + connections->capacity, 0, (capacity - connections->capacity) * sizeof(struct connection *));
    connections->table = table;
    connections->capacity = capacity;
    return true;
}

/* The number of connections up to which a peer of this standing is admitted. */
static size_t ceiling(const struct connections *connections, enum standing standing)
{
    size_t kept = standing == KNOWN_ADDRESS   ? connections->reserve
                  : standing == KNOWN_NETWORK ? connections->reserve / 2
                                              : 0;
    return connections->options.max - kept;
}

/* Makes room for one more connection of the peer, if necessary by evicting another. Returns false if there is none. */
static bool open_place_locked(struct connections *connections, const struct peer *peer, bool proxy)
{
    enum standing standing = standing_of(peer, 1);
    struct choice choice = {.newest = standing};
    if (!proxy && peer->open >= connections->options.max_of_one)
        choice = (struct choice){.whose = peer, .newest = NEWCOMER};
    else if (standing < NEWCOMER && peer->network->open >= ceiling(connections, KNOWN_NETWORK))
        choice.whose = peer->network;
    else if (connections->open < ceiling(connections, standing))
        return true;
    return evict_locked(connections, &choice);
}

/* Whether a connection of the peer can be admitted, perhaps only as a spare one, for health checks. */
static bool find_place_locked(struct connections *connections, const struct peer *peer, struct connection *connection)
{
    connection->spare = !open_place_locked(connections, peer, connection->proxy);
    return !connection->spare || connections->spares < CONNECTIONS_SPARE || evict_locked(connections, &spares);
}

static struct connection *connection_new(int fd, const char *address, bool proxy)
{
    struct connection *connection = calloc(1, sizeof *connection);
    if (connection) {
        connection->fd = fd;
        connection->proxy = proxy;
        snprintf(connection->address, sizeof connection->address, "%s", address);
        snprintf(connection->client, sizeof connection->client, "%s", address);
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
    struct connection *connection = connection_new(fd, address.text, proxies_trust(connections->options.proxies, from));
    pthread_mutex_lock(&connections->mutex);
    bool room = connection && make_room_locked(connections, fd);
    if (room && connections->table[fd]) /* libmicrohttpd closed it without a callback: no memory */
        release_locked(connections, connections->table[fd]);
    struct peer *peer = room ? peer_locked(connections, &address) : NULL;
    bool admitted = peer && find_place_locked(connections, peer, connection);
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
    if ((size_t)fd < connections->capacity && connections->table[fd])
        release_locked(connections, connections->table[fd]);
    pthread_mutex_unlock(&connections->mutex);
}

/* ---------------------------------------------------------------- clients behind proxies */

/* Finds the client, or adds it without connections. NULL: out of memory. */
static struct served *client_locked(struct connections *connections, const char *key)
{
    struct map_node *node = map_find(&connections->clients, key);
    if (node)
        return MAP_ENTRY(node, struct served, node);
    struct served *served = calloc(1, sizeof *served);
    if (served) {
        snprintf(served->key, sizeof served->key, "%s", key);
        if (!map_insert(&connections->clients, &served->node, served->key)) {
            free(served);
            return NULL;
        }
    }
    return served;
}

bool connections_serve(struct connections *connections, struct connection *connection, const struct sockaddr *client)
{
    struct address address;
    write_address(&address, client);
    snprintf(connection->client, sizeof connection->client, "%s", address.text);
    pthread_mutex_lock(&connections->mutex);
    assert(!connection->served);
    struct served *served = client_locked(connections, address.one);
    if (served && served->open > 0 && served->open >= connections->options.max_of_one)
        served = NULL;
    if (served)
        served->open++;
    connection->served = served;
    pthread_mutex_unlock(&connections->mutex);
    return served != NULL;
}

void connections_served(struct connections *connections, struct connection *connection)
{
    memcpy(connection->client, connection->address, sizeof connection->client);
    if (!connection->served) /* set and cleared by this thread */
        return;
    pthread_mutex_lock(&connections->mutex);
    served_locked(connections, connection);
    pthread_mutex_unlock(&connections->mutex);
}

/* ---------------------------------------------------------------- phases */

void connection_receiving(struct connection *connection, double seconds)
{
    connection_sending(connection, seconds, 0);
    atomic_store(&connection->reads, true);
}

void connection_busy(struct connection *connection, double seconds)
{
    connection_sending(connection, seconds, 0);
}

void connection_sending(struct connection *connection, double seconds, double patience)
{
    atomic_store(&connection->idle, false);
    atomic_store(&connection->reads, false);
    atomic_store(&connection->keeps, false);
    atomic_store(&connection->patience, patience);
    atomic_store(&connection->deadline, clock_monotonic() + seconds);
}

void connection_streaming(struct connection *connection, double seconds, double patience)
{
    connection_sending(connection, seconds, patience);
    atomic_store(&connection->keeps, true);
    /* A receive window that stays closed is a pause, as long as the kernel of the client answers probes. */
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
    atomic_store(&connection->reads, true);
}
