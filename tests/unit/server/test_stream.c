/*
 * Replies of unknown length over real sockets: all bytes arrive in order however they were made, no more than the ring
 * is made in advance, and whatever ends early (the maker, the client, the service) ends at once, is seen as cut off,
 * and is released once.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "server/http/http.h"
#include "server/http/listen.h"
#include "server/http/stream.h"
#include "server/http/wait.h"
#include "server/ops/log.h"
#include "server/work/pool.h"
#include "tests/unit/test.h"

enum { SOON = 20000 }; /* ms, on a busy machine */

#define RING ((size_t)STREAM_PIECE * STREAM_PIECES)

/* ---------------------------------------------------------------- what is made */

/* Byte number i. */
static char byte_at(size_t i)
{
    return (char)(i * 31 + (i >> 8) * 7);
}

static struct made {
    size_t total;
    size_t piece;          /* at a time, at most */
    size_t fail_at;        /* SIZE_MAX: never */
    sem_t go, waits;       /* waits: posted when it does */
    atomic_size_t wait_at; /* before that byte it waits for `go`; set while the stream is being read, too */
    atomic_size_t made, makes, released;
    atomic_bool closed[2]; /* before and after that: whether the client does not read */
    struct pool *pool;
} made;

/* One reply. */
struct source {
    struct pool_task task; /* first */
    struct stream *stream;
    size_t at;
};

static void fill(struct pool_task *task)
{
    stream_fill(((struct source *)task)->stream);
}

static void wanted(void *user, struct stream *stream)
{
    struct source *source = user;
    source->stream = stream;
    source->task.run = fill;
    pool_submit(made.pool, &source->task);
}

static ptrdiff_t make(void *user, char *buffer, size_t size)
{
    struct source *source = user;
    atomic_fetch_add(&made.makes, 1);
    size_t len = made.total - source->at;
    len = len < made.piece ? len : made.piece;
    len = len < size ? len : size;
    if (source->at <= made.wait_at && made.wait_at < source->at + len) {
        atomic_store(&made.closed[0], stream_closed(source->stream));
        sem_post(&made.waits);
        sem_wait(&made.go);
        atomic_store(&made.closed[1], stream_closed(source->stream));
    }
    bool fails = source->at + len > made.fail_at;
    for (size_t i = 0; i < len; i++)
        buffer[i] = byte_at(source->at + i);
    source->at += len;
    atomic_fetch_add(&made.made, len);
    return fails ? STREAM_FAILED : (ptrdiff_t)len;
}

static void release(void *user)
{
    atomic_fetch_add(&made.released, 1);
    free(user);
}

static enum handled handle(struct request *request)
{
    static const struct stream_maker maker = {wanted, make, release};
    struct source *source = calloc(1, sizeof *source);
    assert_non_null(source);
    struct stream *stream = stream_create(&maker, source);
    assert_non_null(stream);
    return reply_stream(request, "application/octet-stream", stream);
}

/* ---------------------------------------------------------------- the service */

static struct config config = {.listen = "127.0.0.1:0",
                               .workers = 1,
                               .http_threads = 2,
                               .max_connections = 100,
                               .max_connections_of_one = 100,
                               .idle_seconds = 60,
                               .request_seconds = 60,
                               .max_body = 1 << 20};
static const char *const bytes[] = {"application/octet-stream", NULL};
static const struct route routes[] = {{"GET", "/stream", ACCESS_ANYONE, handle, bytes, NULL, ROUTE_PLAIN, NULL, NULL},
                                      {0}};
static struct server server = {.config = &config, .routes = routes};
static struct http *http;
static int listener;
static unsigned port;

static int start(void **state)
{
    char url[300], message[200];
    (void)state;
    made = (struct made){.piece = SIZE_MAX, .fail_at = SIZE_MAX, .wait_at = SIZE_MAX};
    sem_init(&made.go, 0, 0);
    sem_init(&made.waits, 0, 0);
    log_start(LOG_LEVEL_ERROR + 1);
    server.replies = (struct budget){.most = 16 * RING, .gauge = METRIC_REPLY_BYTES};
    server.bodies = (struct budget){.most = 1 << 20, .gauge = METRIC_BODY_BYTES};
    server.waits = waits_create();
    made.pool = pool_create(1, 0, METRIC_COUNT);
    listener = listen_on(config.listen, "http", config.request_seconds, url, sizeof url, message, sizeof message);
    assert_true(listener >= 0);
    assert_int_equal(sscanf(url, "http://127.0.0.1:%u", &port), 1);
    http = http_start(&server, listener, message, sizeof message);
    assert_true(http && server.waits && made.pool);
    return 0;
}

static bool stopped_within(double seconds)
{
    double deadline = clock_monotonic() + seconds;
    http_quiesce(http);
    waits_stop(server.waits);
    bool drained = waits_drain(server.waits, deadline);
    http_drain(http, deadline);
    drained = drained && clock_monotonic() < deadline;
    http_stop(http);
    http = NULL;
    return drained;
}

static int stop(void **state)
{
    (void)state;
    sem_post(&made.go);
    if (http)
        assert_true(stopped_within(SOON / 1e3));
    pool_destroy(made.pool);
    waits_destroy(server.waits);
    close(listener);
    assert_int_equal(server.replies.held, 0);
    return 0;
}

/* ---------------------------------------------------------------- a client */

struct client {
    int fd;
    FILE *in;
};

static struct client ask(const char *version)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    struct client client = {.fd = socket(AF_INET, SOCK_STREAM, 0)};
    struct timeval patience = {.tv_sec = SOON / 1000};
    setsockopt(client.fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    assert_int_equal(connect(client.fd, (struct sockaddr *)&address, sizeof address), 0);
    client.in = fdopen(client.fd, "r");
    assert_non_null(client.in);
    dprintf(client.fd, "GET /stream HTTP/%s\r\nHost: localhost\r\n\r\n", version);
    return client;
}

/* Up to the empty line; whether the reply is chunked. */
static bool read_head(struct client *client, int *status)
{
    char line[400];
    bool chunked = false;
    assert_non_null(fgets(line, sizeof line, client->in));
    assert_int_equal(sscanf(line, "HTTP/1.1 %d", status), 1);
    while (fgets(line, sizeof line, client->in) && strcmp(line, "\r\n") != 0)
        chunked = chunked || strcasecmp(line, "Transfer-Encoding: chunked\r\n") == 0;
    return chunked;
}

/* The next chunk's length; 0: the end, of the reply (*whole) or of the connection. */
static size_t read_chunk_len(struct client *client, bool *whole)
{
    char line[40];
    *whole = false;
    if (!fgets(line, sizeof line, client->in))
        return 0;
    size_t len = strtoul(line, NULL, 16);
    *whole = len == 0 && fgets(line, sizeof line, client->in) && strcmp(line, "\r\n") == 0;
    return len;
}

/* The number of bytes that arrived, `most` at most, all of them right; *whole: with the final chunk. */
static size_t read_chunks(struct client *client, size_t most, bool *whole)
{
    size_t len = 0;
    for (size_t chunk; len < most && (chunk = read_chunk_len(client, whole));) {
        for (; chunk; chunk--, len++) {
            int byte = len == most ? EOF : fgetc(client->in);
            if (byte == EOF)
                return len;
            if ((char)byte != byte_at(len))
                fail_msg("byte %zu is wrong", len);
        }
        if (fgetc(client->in) != '\r' || fgetc(client->in) != '\n')
            return len;
    }
    return len;
}

static size_t get(bool *whole)
{
    int status;
    struct client client = ask("1.1");
    assert_true(read_head(&client, &status));
    assert_int_equal(status, 200);
    size_t len = read_chunks(&client, SIZE_MAX, whole);
    fclose(client.in);
    return len;
}

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static void assert_soon(atomic_size_t *value, size_t wanted_value)
{
    for (long i = 0; i < SOON && atomic_load(value) != wanted_value; i++)
        pause_ms(1);
    assert_int_equal(atomic_load(value), wanted_value);
}

static void assert_posted(sem_t *sem)
{
    for (long i = 0; i < SOON; i++) {
        if (sem_trywait(sem) == 0)
            return;
        pause_ms(1);
    }
    fail_msg("nobody came");
}

/* ---------------------------------------------------------------- tests */

TEST_WITH(all_of_it_arrives_in_order, start, stop)
{
    static const size_t totals[] = {0, 1, 100, STREAM_PIECE, RING, RING + 1, 20 * RING + 12345};
    static const size_t pieces[] = {1000, 40000, SIZE_MAX};
    size_t asked = 0;
    for (size_t t = 0; t < sizeof totals / sizeof *totals; t++) {
        for (size_t p = 0; p < sizeof pieces / sizeof *pieces; p++) {
            bool whole;
            made.total = totals[t];
            made.piece = pieces[p];
            assert_int_equal(get(&whole), totals[t]);
            assert_true(whole);
            assert_soon(&made.released, ++asked);
        }
    }
}

/* HTTP/1.0 has no chunks: the end is that of the connection. */
TEST_WITH(an_old_client_gets_it_too, start, stop)
{
    int status;
    made.total = 3 * RING + 5;
    struct client client = ask("1.0");
    assert_false(read_head(&client, &status));
    size_t len = 0;
    for (int byte; (byte = fgetc(client.in)) != EOF; len++)
        assert_true((char)byte == byte_at(len));
    assert_int_equal(len, made.total);
    fclose(client.in);
}

/* Bytes that were made are sent although the rest takes long. */
TEST_WITH(what_is_there_is_sent, start, stop)
{
    int status;
    bool whole;
    made.total = 5000;
    made.piece = 1000;
    made.wait_at = 3000;
    struct client client = ask("1.1");
    read_head(&client, &status);
    assert_posted(&made.waits);
    assert_int_equal(atomic_load(&made.made), 3000);
    assert_int_equal(read_chunks(&client, 3000, &whole), 3000);
    fclose(client.in);
    sem_post(&made.go);
    assert_soon(&made.released, 1);
    made.wait_at = SIZE_MAX;
    assert_int_equal(get(&whole), 5000);
    assert_true(whole);
}

TEST_WITH(a_client_that_takes_nothing_has_little_made, start, stop)
{
    int status;
    bool whole;
    made.total = 400 * RING;
    struct client client = ask("1.1");
    read_head(&client, &status);
    /* The kernel buffers a few MiB for a socket; then nothing more is made. */
    size_t before = 0, calm = 0;
    for (long i = 0; i < SOON && calm < 300; i++, pause_ms(1)) {
        size_t now = atomic_load(&made.made);
        calm = now == before && now ? calm + 1 : 0;
        before = now;
    }
    assert_int_equal(calm, 300);
    assert_true(before < made.total / 2);
    assert_int_equal(server.replies.held / RING, 1);
    assert_int_equal(read_chunks(&client, SIZE_MAX, &whole), made.total);
    assert_true(whole);
    fclose(client.in);
}

TEST_WITH(a_maker_that_fails_is_seen, start, stop)
{
    bool whole;
    made.total = 3 * RING;
    made.fail_at = 2 * RING + 100;
    made.piece = 1000;
    assert_true(get(&whole) <= made.fail_at);
    assert_false(whole);
    assert_soon(&made.released, 1);
    made.fail_at = 0;
    assert_int_equal(get(&whole), 0);
    assert_false(whole);
    assert_soon(&made.released, 2);
}

/* Whether the maker is busy, or waits for the client. */
TEST_WITH(a_client_that_hangs_up_ends_it, start, stop)
{
    int status;
    made.total = SIZE_MAX;
    made.wait_at = 100;
    struct client client = ask("1.1");
    assert_posted(&made.waits); /* the connection is suspended, or about to be */
    fclose(client.in);
    assert_soon((atomic_size_t *)&server.replies.held, 0);
    assert_int_equal(atomic_load(&made.released), 0); /* it is still being made */
    sem_post(&made.go);
    assert_soon(&made.released, 1);
    assert_int_equal(atomic_load(&made.makes), 1); /* this one, and no more */
    assert_true(!atomic_load(&made.closed[0]) && atomic_load(&made.closed[1]));

    made.wait_at = SIZE_MAX;
    client = ask("1.1");
    read_head(&client, &status);
    fclose(client.in);
    assert_soon(&made.released, 2);
}

TEST_WITH(a_stop_ends_it, start, stop)
{
    int status;
    bool whole;
    made.total = SIZE_MAX;
    struct client reads = ask("1.1");
    read_head(&reads, &status);
    made.wait_at = atomic_load(&made.made) + 10 * RING;
    struct client lazy = ask("1.1");
    read_head(&lazy, &status);
    while (read_chunks(&reads, 1000, &whole) != 1000) {}
    double before = clock_monotonic();
    assert_true(stopped_within(SOON / 1e3));
    print_message("# stopped in %.3f s\n", clock_monotonic() - before);
    read_chunks(&lazy, 0, &whole);
    assert_false(whole);
    fclose(lazy.in);
    fclose(reads.in);
    sem_post(&made.go);
    sem_post(&made.go);
    assert_soon(&made.released, 2);
}

/* Replies are made in turn: one that never ends does not block others. */
TEST_WITH(endless_ones_share_a_thread, start, stop)
{
    enum { CLIENTS = 8 };
    struct client clients[CLIENTS];
    bool whole;
    int status;
    made.total = SIZE_MAX;
    for (size_t i = 0; i < CLIENTS; i++) {
        clients[i] = ask("1.1");
        read_head(&clients[i], &status);
    }
    for (size_t i = 0; i < CLIENTS; i++)
        assert_int_equal(read_chunks(&clients[i], 3 * RING, &whole), 3 * RING);
    for (size_t i = 0; i < CLIENTS; i++)
        fclose(clients[i].in);
    assert_soon(&made.released, CLIENTS);
}

/* More memory than available: a problem document, and nothing leaks. */
TEST_WITH(too_many_are_refused, start, stop)
{
    int status;
    made.total = 1000;
    server.replies.most = RING / 2;
    struct client client = ask("1.1");
    read_head(&client, &status);
    assert_int_equal(status, 503);
    fclose(client.in);
    assert_soon(&made.released, 1);
}
