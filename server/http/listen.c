/*
 * Binds the listening socket, so that the actual port can be reported if the given one is 0.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/http/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 1024
#define PROBES 3
#define GONE_LEAST 10.0 /* seconds: a packet that is lost is sent again within this time */
#define GONE_MOST 3600.0

/* Splits HOST:PORT and removes the brackets of an IPv6 address. */
static bool split(const char *address, char *host, size_t host_size, const char **port)
{
    const char *colon = strrchr(address, ':');
    if (!colon || !colon[1])
        return false;
    const char *start = address;
    const char *end = colon;
    if (*start == '[' && end > start && end[-1] == ']') {
        start++;
        end--;
    } else if (memchr(start, ':', (size_t)(end - start))) {
        return false; /* an IPv6 address needs its brackets */
    }
    size_t len = (size_t)(end - start);
    if (len >= host_size)
        return false;
    memcpy(host, start, len);
    host[len] = '\0';
    *port = colon + 1;
    return true;
}

/* Accepted connections inherit these options: they detect a client whose machine or network is gone, which leaves
 * probes and data unanswered. */
static void detect_gone(int fd, double gone_seconds)
{
    int on = 1;
    int seconds = (int)fmax(fmin(gone_seconds, GONE_MOST), GONE_LEAST);
    int idle = seconds / 2;
    int interval = seconds / 2 / PROBES > 0 ? seconds / 2 / PROBES : 1;
    int probes = PROBES;
    unsigned unanswered_ms = (unsigned)seconds * 1000;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unanswered_ms, sizeof unanswered_ms);
}

static int bind_one(const struct addrinfo *info, double gone_seconds)
{
    int on = 1;
    int fd = socket(info->ai_family, info->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, info->ai_protocol);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    detect_gone(fd, gone_seconds);
    if (bind(fd, info->ai_addr, info->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    int code = errno;
    close(fd);
    errno = code;
    return -1;
}

static void write_url(int fd, const char *scheme, char *url, size_t url_size)
{
    struct sockaddr_storage bound;
    socklen_t len = sizeof bound;
    char host[NI_MAXHOST] = "?";
    char port[NI_MAXSERV] = "?";
    if (getsockname(fd, (struct sockaddr *)&bound, &len) == 0) {
        getnameinfo((struct sockaddr *)&bound, len, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV);
    }
    bool v6 = strchr(host, ':') != NULL;
    snprintf(url, url_size, "%s://%s%s%s:%s", scheme, v6 ? "[" : "", host, v6 ? "]" : "", port);
}

int listen_on(const char *address, const char *scheme, double gone_seconds, char *url, size_t url_size, char *message,
              size_t message_size)
{
    char host[256];
    const char *port;
    struct addrinfo *found = NULL;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    if (!split(address, host, sizeof host, &port)) {
        snprintf(message, message_size, "--listen must be HOST:PORT or [IPV6]:PORT, not \"%s\"", address);
        return -1;
    }
    int code = getaddrinfo(*host ? host : NULL, port, &hints, &found);
    if (code != 0) {
        snprintf(message, message_size, "cannot resolve \"%s\": %s", address, gai_strerror(code));
        return -1;
    }
    int fd = -1;
    for (struct addrinfo *info = found; info && fd < 0; info = info->ai_next)
        fd = bind_one(info, gone_seconds);
    if (fd < 0)
        snprintf(message, message_size, "cannot listen on %s: %s", address, strerror(errno));
    else
        write_url(fd, scheme, url, url_size);
    freeaddrinfo(found);
    return fd;
}

bool listen_adopt(int fd, const char *scheme, double gone_seconds, char *url, size_t url_size, char *message,
                  size_t message_size)
{
    int family = 0, listens = 0, type = 0;
    socklen_t len = sizeof(int);
    bool known = getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &len) == 0 &&
                 getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 &&
                 getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) == 0;
    if (!known || (family != AF_INET && family != AF_INET6) || type != SOCK_STREAM || !listens) {
        snprintf(message, message_size,
                 "the supervisor passes something other than a listening TCP socket: epsilond.socket needs "
                 "ListenStream=HOST:PORT and Accept=no");
        return false;
    }
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) {
        snprintf(message, message_size, "cannot use the socket of the supervisor: %s", strerror(errno));
        return false;
    }
    detect_gone(fd, gone_seconds);
    write_url(fd, scheme, url, url_size);
    return true;
}

bool listen_is_local(int fd)
{
    struct sockaddr_storage bound = {0};
    socklen_t len = sizeof bound;
    if (getsockname(fd, (struct sockaddr *)&bound, &len) != 0)
        return false;
    if (bound.ss_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)&bound)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    return bound.ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)&bound)->sin6_addr);
}
