/*
 * Forwarded headers from arbitrary bytes. The first line is a list of trusted proxies, and each other one a header. A
 * list that is refused has a reason. Whatever a client sends before, in the header of the proxy or one of its own, the
 * client that a proxy appends is found, or the headers are malformed.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <arpa/inet.h>
#include <netinet/in.h>

#include "server/http/forwarded.h"
#include "tests/fuzz/fuzz.h"

static const struct sockaddr *plain(const struct sockaddr_in *address)
{
    return (const struct sockaddr *)(const void *)address;
}

static void check_appended(const struct forwarded *headers, const struct proxies *proxies,
                           const struct sockaddr_in *appended)
{
    if (headers->malformed)
        return;
    const struct sockaddr *client = forwarded_client(headers, proxies);
    DEMAND(client && client->sa_family == AF_INET);
    DEMAND(((const struct sockaddr_in *)(const void *)client)->sin_addr.s_addr == appended->sin_addr.s_addr);
}

/* The line as a client's own header, and as the beginning of that of the proxy. */
static void append(const struct forwarded *before, const struct proxies *proxies, const char *line)
{
    static const char appended[] = "for=192.0.2.77";
    struct sockaddr_in client = {.sin_family = AF_INET, .sin_addr.s_addr = inet_addr("192.0.2.77")};
    if (proxies_trust(proxies, plain(&client)))
        return; /* it is a proxy itself */
    struct forwarded apart = *before, together = *before;
    char *both = malloc(strlen(line) + sizeof appended + 1);
    DEMAND(both);
    stpcpy(stpcpy(stpcpy(both, line), ","), appended);
    forwarded_add(&apart, line);
    forwarded_add(&apart, appended);
    forwarded_add(&together, both);
    check_appended(&apart, proxies, &client);
    check_appended(&together, proxies, &client);
    free(both);
}

static void look(const struct forwarded *headers, const struct proxies *proxies)
{
    DEMAND(headers->len <= FORWARDED_MOST);
    for (size_t i = 0; i < headers->len; i++) {
        sa_family_t family = headers->nodes[i].ss_family;
        DEMAND(family == 0 || family == AF_INET || family == AF_INET6);
    }
    const struct sockaddr *client = forwarded_client(headers, proxies);
    DEMAND(!client || !proxies_trust(proxies, client) ||
           client == (const struct sockaddr *)(const void *)&headers->nodes[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char *text = fuzz_text(data, len), *rest = text, message[512] = "";
    const char *list = strsep(&rest, "\n");
    struct config_list lists = {.values = {list}, .len = 1};
    struct proxies *proxies = proxies_create(&lists, message, sizeof message);
    struct forwarded headers = {.len = 0};
    DEMAND(proxies || strstr(message, "--trusted-proxy"));
    for (const char *line; proxies && (line = strsep(&rest, "\n"));) {
        append(&headers, proxies, line);
        forwarded_add(&headers, line);
        look(&headers, proxies);
    }
    proxies_destroy(proxies);
    free(text);
    return 0;
}
