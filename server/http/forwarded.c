/*
 * See forwarded.h. The grammar is that of RFC 7239, section 4, with blanks also around semicolons.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/http/forwarded.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define BLANKS " \t"
#define VALUE_SIZE 256

/* ---------------------------------------------------------------- addresses */

/* Every address in the form of IPv6. */
struct network {
    struct in6_addr address;
    unsigned bits; /* that must agree */
};

struct proxies {
    size_t len;
    struct network networks[];
};

static struct in6_addr mapped(struct in_addr v4)
{
    struct in6_addr v6 = {.s6_addr = {[10] = 0xff, [11] = 0xff}};
    memcpy(&v6.s6_addr[12], &v4, sizeof v4);
    return v6;
}

/* Reads an address without brackets. *v4: whether it is one of IPv4. */
static bool read_address(const char *text, struct in6_addr *address, bool *v4)
{
    struct in_addr short_one;
    *v4 = inet_pton(AF_INET, text, &short_one) == 1;
    if (*v4)
        *address = mapped(short_one);
    return *v4 || inet_pton(AF_INET6, text, address) == 1;
}

/* Reads ADDRESS, [ADDRESS], or one of them with /BITS. Bits beyond the network must be 0: others are a mistake. */
static bool read_network(const char *text, size_t len, struct network *network)
{
    char copy[INET6_ADDRSTRLEN + 8];
    bool v4;
    if (len >= sizeof copy)
        return false;
    memcpy(copy, text, len);
    copy[len] = '\0';
    char *slash = strchr(copy, '/');
    if (slash)
        *slash = '\0';
    char *address = copy;
    size_t address_len = strlen(address);
    if (*address == '[' && address[address_len - 1] == ']') {
        address[address_len - 1] = '\0';
        address++;
    }
    if (!read_address(address, &network->address, &v4))
        return false;
    unsigned most = v4 ? 32 : 128;
    network->bits = 128;
    if (slash) {
        char *end;
        unsigned long bits = strtoul(slash + 1, &end, 10);
        if (!isdigit((unsigned char)slash[1]) || *end || bits > most)
            return false;
        network->bits = (unsigned)bits + 128 - most;
    }
    for (unsigned bit = network->bits; bit < 128; bit++)
        if (network->address.s6_addr[bit / 8] & 0x80 >> bit % 8)
            return false;
    return true;
}

struct proxies *proxies_create(const struct config_list *lists, char *message, size_t message_size)
{
    size_t most = 0;
    for (size_t i = 0; i < lists->len; i++)
        most += strlen(lists->values[i]) / 2 + 1;
    struct proxies *proxies = calloc(1, sizeof *proxies + most * sizeof proxies->networks[0]);
    if (!proxies)
        snprintf(message, message_size, "out of memory");
    for (size_t i = 0; proxies && i < lists->len; i++) {
        const char *at = lists->values[i];
        while (proxies && *(at += strspn(at, BLANKS ","))) {
            size_t len = strcspn(at, BLANKS ",");
            if (read_network(at, len, &proxies->networks[proxies->len])) {
                proxies->len++;
            } else {
                snprintf(
                    message, message_size,
                    "--trusted-proxy must be addresses or networks, such as 10.0.0.7, 2001:db8::1 or 10.1.0.0/16, not "
                    "\"%.*s\"",
                    (int)(len < 80 ? len : 80), at);
                free(proxies);
                proxies = NULL;
            }
            at += len;
        }
    }
    return proxies;
}

void proxies_destroy(struct proxies *proxies)
{
    free(proxies);
}

static bool contains(const struct network *network, const struct in6_addr *address)
{
    for (unsigned bit = 0; bit < network->bits; bit++)
        if ((network->address.s6_addr[bit / 8] ^ address->s6_addr[bit / 8]) & 0x80 >> bit % 8)
            return false;
    return true;
}

bool proxies_trust(const struct proxies *proxies, const struct sockaddr *address)
{
    struct in6_addr v6;
    if (address->sa_family == AF_INET)
        v6 = mapped(((const struct sockaddr_in *)(const void *)address)->sin_addr);
    else if (address->sa_family == AF_INET6)
        v6 = ((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
    else
        return false;
    for (size_t i = 0; proxies && i < proxies->len; i++)
        if (contains(&proxies->networks[i], &v6))
            return true;
    return false;
}

/* ---------------------------------------------------------------- the header */

static bool is_token_character(char c)
{
    return isalnum((unsigned char)c) || (c && strchr("!#$%&'*+-.^_`|~", c));
}

/* Reads a token or a quoted string to value. Returns what follows, or NULL if it is neither or too long. */
static const char *read_value(const char *at, char value[VALUE_SIZE])
{
    size_t len = 0;
    bool quoted = *at == '"';
    at += quoted ? 1 : 0;
    while (quoted ? *at != '"' : is_token_character(*at)) {
        if (quoted && *at == '\\')
            at++;
        if (!*at || len + 1 >= VALUE_SIZE)
            return NULL;
        value[len++] = *at++;
    }
    value[len] = '\0';
    return len ? at + (quoted ? 1 : 0) : NULL;
}

/* Whether this follows an address: nothing, or a port, which may be obfuscated. */
static bool is_port(const char *text)
{
    if (!*text)
        return true;
    size_t digits = strspn(text + 1, "0123456789");
    bool number = digits >= 1 && digits <= 5 && !text[1 + digits];
    bool hidden = text[1] == '_' && text[2];
    for (const char *at = text + 2; hidden && *at; at++)
        hidden = isalnum((unsigned char)*at) || strchr("._-", *at);
    return *text == ':' && (number || hidden);
}

/* Reads the value of for=. The family is 0 if it is valid and no address. */
static bool read_node(char *text, struct sockaddr_storage *node)
{
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)node;
    struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)node;
    *node = (struct sockaddr_storage){0};
    size_t name = strcspn(text, ":");
    bool unknown = name == strlen("unknown") && strncasecmp(text, "unknown", name) == 0;
    if (unknown || *text == '_') {
        for (size_t i = 1; i < name; i++)
            if (!isalnum((unsigned char)text[i]) && !strchr("._-", text[i]))
                return false;
        return name > 1 && is_port(text + name);
    }
    char *end = *text == '[' ? strchr(text, ']') : text + name;
    const char *rest = end ? end + (*text == '[' ? 1 : 0) : NULL;
    if (!rest || !is_port(rest))
        return false;
    char address[VALUE_SIZE];
    bool is_v6 = *text == '[';
    snprintf(address, sizeof address, "%.*s", (int)(end - text - (is_v6 ? 1 : 0)), text + (is_v6 ? 1 : 0));
    node->ss_family = is_v6 ? AF_INET6 : AF_INET;
    return inet_pton(node->ss_family, address, is_v6 ? (void *)&v6->sin6_addr : (void *)&v4->sin_addr) == 1;
}

/* Reads an element, up to its comma or the end, and returns that; NULL: it is malformed. *named: it has a for=. */
static const char *read_element(const char *at, struct sockaddr_storage *node, bool *some)
{
    char value[VALUE_SIZE];
    bool named = false;
    *node = (struct sockaddr_storage){0};
    *some = false;
    for (;;) {
        at += strspn(at, BLANKS ";");
        if (!*at || *at == ',')
            return at;
        const char *name = at;
        while (is_token_character(*at))
            at++;
        size_t len = (size_t)(at - name);
        if (!len || *at != '=' || !(at = read_value(at + 1, value)))
            return NULL;
        if (len == strlen("for") && strncasecmp(name, "for", len) == 0) {
            if (named || !read_node(value, node))
                return NULL;
            named = true;
        }
        *some = true;
        at += strspn(at, BLANKS);
        if (*at && *at != ';' && *at != ',')
            return NULL;
    }
}

void forwarded_add(struct forwarded *forwarded, const char *value)
{
    const char *at = value;
    while (!forwarded->malformed) {
        struct sockaddr_storage node;
        bool some;
        at = read_element(at, &node, &some);
        forwarded->malformed = !at || (some && forwarded->len == FORWARDED_MOST);
        if (!forwarded->malformed && some)
            forwarded->nodes[forwarded->len++] = node;
        if (forwarded->malformed || !*at)
            return;
        at++;
    }
}

const struct sockaddr *forwarded_client(const struct forwarded *forwarded, const struct proxies *proxies)
{
    for (size_t i = forwarded->len; i-- > 0;) {
        const struct sockaddr *node = (const struct sockaddr *)(const void *)&forwarded->nodes[i];
        if (!node->sa_family)
            return NULL;
        if (i == 0 || !proxies_trust(proxies, node))
            return node;
    }
    return NULL;
}
