/*
 * libmicrohttpd shows every header as it was sent, including duplicates. When it makes the first call it has already
 * decided how the body ends. A reply in that call makes it close the connection.
 *
 * Some malformed heads are not visible through libmicrohttpd 0.9.75: folded lines and lines that end with LF alone;
 * anything after a NUL in a value, in the method or in the target; and a line that begins with a colon or a NUL, which
 * it takes for the end of the head, so that the rest becomes another request. But it parses heads in place: it writes
 * NULs over colons and line ends, and returns pointers into the buffer. A well-formed head can therefore be followed
 * from its version to its empty line without a byte left over, and a head with any of these defects cannot. Other
 * versions of the library, which has become stricter since, may lay out a head differently; the check is then disabled.
 * The end of a chunked body, with extensions and trailers, cannot be followed in any version, so the connection is
 * closed after the reply to such a request.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/http/head.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/json/text.h"

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

bool target_valid(const char *target)
{
    for (; *target; target++) {
        unsigned char c = (unsigned char)*target;
        if (c <= ' ' || c >= 0x7f)
            return false;
        if (c == '%' && (!is_hex(target[1]) || !is_hex(target[2]) || (target[1] == '0' && target[2] == '0')))
            return false;
    }
    return true;
}

/* ---------------------------------------------------------------- headers */

struct head {
    const char *next; /* where the next header must be; NULL: it was not there */
    unsigned hosts;
    unsigned lengths;
    unsigned encodings;
    unsigned origins;
    const char *host;
    const char *encoding;
    bool bad_name;
    bool bad_value;
};

static bool is_token(const char *name, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)name[i];
        if (!isalnum(c) && !strchr("!#$%&'*+-.^_`|~", c))
            return false;
    }
    return len > 0;
}

static bool is_plain(const char *value, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)value[i];
        if ((c < ' ' && c != '\t') || c == 0x7f)
            return false;
    }
    return true;
}

/* The start of the line after `end`, the end of a line; NULL if the line did not end with CR LF. */
static const char *line_after(const char *end)
{
    return end[0] == '\0' && end[1] == '\0' ? end + 2 : NULL;
}

static const char *follow(const char *at, const char *name, size_t name_len, const char *value, size_t value_len)
{
    if (at != name || at[name_len] != '\0')
        return NULL;
    at += name_len + 1;
    at += strspn(at, " \t");
    return at == value ? line_after(value + value_len) : NULL;
}

static enum MHD_Result on_header(void *cls, enum MHD_ValueKind kind, const char *name, size_t name_len,
                                 const char *value, size_t value_len)
{
    struct head *head = cls;
    (void)kind;
    head->next = head->next ? follow(head->next, name, name_len, value, value_len) : NULL;
    head->bad_name = head->bad_name || !is_token(name, name_len);
    head->bad_value = head->bad_value || !is_plain(value, value_len);
    if (strcasecmp(name, MHD_HTTP_HEADER_HOST) == 0) {
        head->hosts++;
        head->host = value;
    } else if (strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0) {
        head->lengths++;
    } else if (strcasecmp(name, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0) {
        head->encodings++;
        head->encoding = value;
    } else if (strcasecmp(name, MHD_HTTP_HEADER_ORIGIN) == 0) {
        head->origins++;
    }
    return MHD_YES;
}

/* Whether the text is a host with an optional port. Anything else that may precede the path of a URL would make it a
 * different host. */
static bool is_host(const char *host)
{
    for (const char *at = host; *at; at++)
        if (!isalnum((unsigned char)*at) && !strchr("-._~%!$&'()*+,;=:[]", *at))
            return false;
    return *host != '\0';
}

/* Whether this version of the library lays out heads as described above. */
static bool laid_out(void)
{
    return strcmp(MHD_get_version(), "0.9.75") == 0;
}

/* Whether the three parts of the request line are contiguous. A NUL ends the visible part but not the part itself. */
static bool is_line(const struct request *request, const char *version)
{
    return request->path == request->method + strlen(request->method) + 1 &&
           version == request->path + request->place->target_len + 1;
}

/* Whether the empty line follows and the head ends there. */
static bool is_whole(const struct request *request, const char *next)
{
    const char *end = next ? line_after(next) : NULL;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    return end && info && end == request->method + info->header_size;
}

const char *head_refusal(struct request *request, const char *version)
{
    bool line = !laid_out() || is_line(request, version);
    struct head head = {.next = line ? line_after(version + strlen(version)) : NULL};
    MHD_get_connection_values_n(request->connection, MHD_HEADER_KIND, on_header, &head);
    if (!line)
        return "the request line contains a NUL or more than two spaces";
    if (laid_out() && !is_whole(request, head.next))
        return "a line of the head is folded, does not end with CR LF, begins with a colon, or contains a NUL";
    if (request->place->bad_target)
        return "the target contains a character that must be percent-encoded, or an invalid percent encoding";
    request->last = head.encodings > 0;
    if (head.bad_name || head.bad_value)
        return "a header contains a forbidden character";
    if (head.hosts != 1 || !is_host(head.host))
        return "exactly one Host header with a valid host is required";
    if (head.lengths > 1)
        return "there is more than one Content-Length";
    if (head.encodings && head.lengths)
        return "Content-Length and Transfer-Encoding must not occur together";
    if (head.encodings > 1 || (head.encodings && strcasecmp(head.encoding, "chunked") != 0))
        return "the only supported Transfer-Encoding is chunked";
    if (head.encodings && strcmp(version, MHD_HTTP_VERSION_1_0) == 0)
        return "Transfer-Encoding is not allowed in HTTP/1.0";
    return head.origins > 1 ? "there is more than one Origin" : NULL;
}

/* ---------------------------------------------------------------- hosts */

struct hosts {
    bool any;      /* --allow-host '*' */
    bool literals; /* any numeric address */
    size_t allowed_len;
    size_t len;
    char **names; /* lower case, without port or brackets; those of --allow-host come first */
};

/* Splits HOST[:PORT] into the host, in lower case and without brackets, and *port, which is what follows the colon, or
 * "". Returns false if it is not a host. */
static bool split_host(const char *authority, char *host, size_t host_size, const char **port)
{
    const char *end = *authority == '[' ? strchr(authority, ']') : NULL;
    const char *start = authority + (end ? 1 : 0);
    size_t len = end ? (size_t)(end - start) : strcspn(authority, ":");
    const char *rest = start + len + (end ? 1 : 0);
    if (!len || len >= host_size || (*rest && *rest != ':'))
        return false;
    for (size_t i = 0; i < len; i++)
        host[i] = (char)tolower((unsigned char)start[i]);
    len -= host[len - 1] == '.'; /* the DNS root */
    host[len] = '\0';
    *port = *rest ? rest + 1 : "";
    return len > 0;
}

static bool is_literal(const char *host)
{
    unsigned char bytes[16];
    return inet_pton(AF_INET, host, bytes) == 1 || inet_pton(AF_INET6, host, bytes) == 1;
}

static bool add_name(struct hosts *hosts, const char *name, size_t name_len)
{
    char **names = realloc(hosts->names, (hosts->len + 1) * sizeof *names);
    if (!names)
        return false;
    hosts->names = names;
    names[hosts->len] = strndup(name, name_len);
    for (char *at = names[hosts->len]; at && *at; at++)
        *at = (char)tolower((unsigned char)*at);
    return names[hosts->len++] != NULL;
}

static bool add_list(struct hosts *hosts, const char *list)
{
    bool ok = true;
    while (*list) {
        list += strspn(list, ", []");
        size_t len = strcspn(list, ", ]");
        if (len == 1 && *list == '*')
            hosts->any = true;
        else if (len)
            ok = add_name(hosts, list, len) && ok;
        list += len;
    }
    return ok;
}

static bool is_wildcard(const char *host)
{
    struct in6_addr v6;
    struct in_addr v4;
    return !*host || (inet_pton(AF_INET, host, &v4) == 1 && v4.s_addr == INADDR_ANY) ||
           (inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_UNSPECIFIED(&v6));
}

static bool is_loopback(const char *host)
{
    struct in6_addr v6;
    struct in_addr v4;
    return strcmp(host, "localhost") == 0 ||
           (inet_pton(AF_INET, host, &v4) == 1 && ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET) ||
           (inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6));
}

static bool add_listen(struct hosts *hosts, const char *listen)
{
    static const char *const local[] = {"localhost", "127.0.0.1", "::1"};
    const char *port;
    char host[256] = "";
    split_host(listen, host, sizeof host, &port);
    hosts->literals = is_wildcard(host);
    bool ok = hosts->literals || add_name(hosts, host, strlen(host));
    for (size_t i = 0; (hosts->literals || is_loopback(host)) && i < sizeof local / sizeof local[0]; i++)
        ok = add_name(hosts, local[i], strlen(local[i])) && ok;
    return ok;
}

struct hosts *hosts_create(const char *listen, const char *const *allowed, size_t allowed_len)
{
    struct hosts *hosts = calloc(1, sizeof *hosts);
    bool ok = hosts != NULL;
    for (size_t i = 0; ok && i < allowed_len; i++)
        ok = add_list(hosts, allowed[i]);
    if (ok) {
        hosts->allowed_len = hosts->len;
        ok = add_listen(hosts, listen);
    }
    if (!ok) {
        hosts_destroy(hosts);
        return NULL;
    }
    return hosts;
}

void hosts_destroy(struct hosts *hosts)
{
    if (!hosts)
        return;
    for (size_t i = 0; i < hosts->len; i++)
        free(hosts->names[i]);
    free(hosts->names);
    free(hosts);
}

static bool is_among(char *const *names, size_t len, const char *host)
{
    for (size_t i = 0; i < len; i++)
        if (strcmp(names[i], host) == 0)
            return true;
    return false;
}

/* Whether the page has the origin of the request, or comes from a host that the operator named (behind a proxy, the
 * Host may differ from that of the page). */
static bool is_own_page(const struct hosts *hosts, const char *host, const char *host_port, const char *origin)
{
    char page[256];
    const char *port;
    bool tls = strncasecmp(origin, "https://", 8) == 0;
    if ((!tls && strncasecmp(origin, "http://", 7) != 0) ||
        !split_host(origin + (tls ? 8 : 7), page, sizeof page, &port))
        return false;
    const char *usual = tls ? "443" : "80";
    bool same = strcmp(page, host) == 0 && strcmp(*port ? port : usual, *host_port ? host_port : usual) == 0;
    return same || is_among(hosts->names, hosts->allowed_len, page);
}

const char *hosts_refusal(const struct hosts *hosts, const char *host, const char *origin)
{
    char name[256];
    const char *port = "";
    if (hosts->any)
        return NULL;
    if (!split_host(host, name, sizeof name, &port) ||
        (!is_among(hosts->names, hosts->len, name) && !(hosts->literals && is_literal(name))))
        return "the Host of this request does not name this service; the operator can add host names with --allow-host";
    if (origin && !is_own_page(hosts, name, port, origin)) {
        return "requests from a page of another Origin are not allowed here; the operator can allow hosts with "
               "--allow-host";
    }
    return NULL;
}
