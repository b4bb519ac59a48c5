/*
 * What libmicrohttpd alone does with a request: it reads head and body, and sends so many bytes with as many headers as
 * the service, which it has from the start; on its own threads, as many as the service has. It neither looks at keys,
 * nor logs, counts or stores. Prints its port, and serves until its input ends.
 *
 *   build/release/tests/bench/bench_http THREADS BYTES
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const headers[][2] = {
    {"Content-Type", "application/json"},
    {"X-Request-Id", "00000000-0000-7000-8000-000000000000"},
    {"X-Content-Type-Options", "nosniff"},
    {"Referrer-Policy", "no-referrer"},
    {"ETag", "\"00000000000000000000000000000000\""},
    {"Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"},
};

static enum MHD_Result on_request(void *reply, struct MHD_Connection *connection, const char *url, const char *method,
                                  const char *version, const char *upload, size_t *upload_size, void **seen)
{
    static char head_was_seen;
    (void)url, (void)method, (void)version, (void)upload;
    if (!*seen) {
        *seen = &head_was_seen;
        return MHD_YES;
    }
    if (*upload_size) {
        *upload_size = 0;
        return MHD_YES;
    }
    return MHD_queue_response(connection, MHD_HTTP_OK, reply);
}

static struct MHD_Response *reply_new(char *bytes, size_t len)
{
    struct MHD_Response *reply = MHD_create_response_from_buffer(len, bytes, MHD_RESPMEM_PERSISTENT);
    for (size_t i = 0; reply && i < sizeof headers / sizeof headers[0]; i++)
        MHD_add_response_header(reply, headers[i][0], headers[i][1]);
    return reply;
}

int main(int argc, char **argv)
{
    unsigned threads = argc == 3 ? (unsigned)strtoul(argv[1], NULL, 10) : 0;
    size_t len = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
    char *bytes = malloc(len + 1);
    if (!threads || !bytes) {
        fprintf(stderr, "usage: bench_http THREADS BYTES\n");
        free(bytes);
        return 2;
    }
    memset(bytes, 'x', len);
    struct MHD_Response *reply = reply_new(bytes, len);
    struct MHD_Daemon *daemon =
        reply ? MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_TURBO, 0, NULL, NULL, on_request, reply,
                                 MHD_OPTION_THREAD_POOL_SIZE, threads, MHD_OPTION_END)
              : NULL;
    if (daemon) {
        printf("%u\n", (unsigned)MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT)->port);
        fflush(stdout);
        while (getchar() != EOF) {}
        MHD_stop_daemon(daemon);
    }
    if (reply)
        MHD_destroy_response(reply);
    free(bytes);
    return daemon ? 0 : 1;
}
