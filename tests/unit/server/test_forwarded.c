/*
 * The client behind trusted proxies: the grammar of RFC 7239 with its examples, what clients may forge, and lists of
 * networks.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/http/forwarded.h"
#include "tests/unit/test.h"

#define TRUSTED "10.0.0.7, [2001:db8::1],192.168.0.0/16 2001:db8:1::/48"

static struct proxies *trusted(const char *list)
{
    struct config_list lists = {.values = {list}, .len = 1};
    char message[512] = "";
    struct proxies *proxies = proxies_create(&lists, message, sizeof message);
    assert_true(proxies || strstr(message, "--trusted-proxy"));
    return proxies;
}

static void write(const struct sockaddr *address, char *text, size_t size)
{
    const void *bytes = address->sa_family == AF_INET
                            ? (const void *)&((const struct sockaddr_in *)(const void *)address)->sin_addr
                            : (const void *)&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
    assert_non_null(inet_ntop(address->sa_family, bytes, text, (socklen_t)size));
}

/* What up to two headers say: an address, "nobody" or "malformed". */
static void check(const char *first, const char *second, const char *expected)
{
    char text[INET6_ADDRSTRLEN] = "malformed";
    struct forwarded forwarded = {.len = 0};
    struct proxies *proxies = trusted(TRUSTED);
    forwarded_add(&forwarded, first);
    if (second)
        forwarded_add(&forwarded, second);
    if (!forwarded.malformed) {
        const struct sockaddr *client = forwarded_client(&forwarded, proxies);
        snprintf(text, sizeof text, "nobody");
        if (client)
            write(client, text, sizeof text);
    }
    if (strcmp(text, expected) != 0)
        fail_msg("%s | %s: %s instead of %s", first, second ? second : "", text, expected);
    proxies_destroy(proxies);
}

TEST(the_examples_of_the_rfc)
{
    check("for=\"_gazonk\"", NULL, "nobody");
    check("For=\"[2001:db8:cafe::17]:4711\"", NULL, "2001:db8:cafe::17");
    check("for=192.0.2.60;proto=http;by=203.0.113.43", NULL, "192.0.2.60");
    check("for=192.0.2.43, for=198.51.100.17", NULL, "198.51.100.17");
    check("for=_hidden, for=_SEVKISEK", NULL, "nobody");
    check("for=192.0.2.43,for=\"[2001:db8:cafe::17]\",for=unknown", NULL, "nobody");
    check("for=192.0.2.43, for=\"[2001:db8:cafe::17]\";by=\"_a:_b\"", NULL, "2001:db8:cafe::17");
    check("for=192.0.2.43", "for=\"[2001:db8:cafe::17]\"", "2001:db8:cafe::17");
}

TEST(the_list_is_read_from_its_end)
{
    check("for=192.0.2.1, for=10.0.0.7", NULL, "192.0.2.1");
    check("for=198.51.100.9, for=192.0.2.1", "for=10.0.0.7, for=\"192.168.3.4:80\"", "192.0.2.1");
    check("for=198.51.100.9, for=192.0.2.1, for=\"[2001:db8::1]\", for=\"[2001:db8:1:2::3]:_x\"", NULL, "192.0.2.1");
    check("for=10.0.0.7", NULL, "10.0.0.7"); /* the request of a proxy */
    check("for=192.0.2.1, for=unknown", NULL, "nobody");
    check("for=192.0.2.1, proto=https", NULL, "nobody"); /* this proxy does not say whom it served */
    check("for=\"[::ffff:10.0.0.7]\", for=\"[::ffff:192.168.0.1]\"", NULL, "::ffff:10.0.0.7");
    check("", NULL, "nobody");
    check(" , ,, ", NULL, "nobody");
    check(" for=192.0.2.1 ; proto=http ,, ", ";;", "192.0.2.1");
    check("for=\"1\\92.0.2.1\"", NULL, "192.0.2.1");
    check("for=\"unknown:80\"", NULL, "nobody");
    check("FOR=Unknown", NULL, "nobody");
}

TEST(what_is_malformed)
{
    static const char *const values[] = {
        "for",
        "for=",
        "=1",
        "for =192.0.2.1",
        "for= 192.0.2.1",
        "for=192.0.2.1:80",
        "for=[2001:db8::2]",
        "for=\"[2001:db8::2\"",
        "for=\"2001:db8::2\"",
        "for=\"[192.0.2.1]\"",
        "for=192.0.2",
        "for=192.0.2.256",
        "for=\"192.0.2.1:\"",
        "for=\"192.0.2.1:123456\"",
        "for=\"192.0.2.1:8x\"",
        "for=\"192.0.2.1:_\"",
        "for=\"\"",
        "for=\"192.0.2.1",
        "for=\"192.0.2.1\\",
        "for=192.0.2.1;for=192.0.2.2",
        "for=192.0.2.1 for=192.0.2.2",
        "for=192.0.2.1 x",
        "for=\"192.0.2.1\"x",
        "for=_",
        "for=_a%b",
        "for=unknown2",
        "for=\"[]\"",
        "by=\"a",
        "for=192.0.2.1/24",
        "x{=1",
        "for=\"[fe80::1%eth0]\"",
    };
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        check(values[i], NULL, "malformed");
    /* A quotation mark of the client swallows what the proxy appends. */
    check("for=192.0.2.9;x=\", for=192.0.2.1", NULL, "malformed");
    check("by=\"", "for=192.0.2.1", "malformed");
    char value[400] = "by=";
    memset(value + 3, 'a', 300);
    check(value, NULL, "malformed");
}

TEST(long_lists)
{
    char text[40 * FORWARDED_MOST] = "for=192.0.2.1";
    for (int i = 1; i < FORWARDED_MOST; i++)
        strcat(text, ",for=10.0.0.7");
    check(text, NULL, "192.0.2.1");
    check(text, "for=10.0.0.7", "malformed");
}

TEST(lists_of_networks)
{
    static const char *const wrong[] = {"proxy",       "10.0.0",      "10.0.0.1/", "10.0.0.0/33", "10.0.0.1/8",
                                        "10.0.0.0/8x", "::1/129",     "[::1",      "10.0.0.7,x",  "2001:db8::1/32",
                                        "10.0.0.0/-8", "10.0.0.0/ 8", "/8",        "[]"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        if (trusted(wrong[i]))
            fail_msg("%s", wrong[i]);
    static const struct {
        const char *list, *address;
        bool trusted;
    } rows[] = {
        {"10.0.0.7", "10.0.0.7", true},
        {"10.0.0.7", "10.0.0.6", false},
        {"10.0.0.7", "::ffff:10.0.0.7", true},
        {"10.0.0.0/9", "10.127.1.1", true},
        {"10.0.0.0/9", "10.128.0.0", false},
        {"0.0.0.0/0", "203.0.113.9", true},
        {"0.0.0.0/0", "2001:db8::1", false},
        {"::/0", "203.0.113.9", true},
        {"[2001:db8::]/33", "2001:db8:7fff::", true},
        {"2001:db8::/33", "2001:db8:8000::", false},
        {"", "10.0.0.7", false},
        {"::1", "127.0.0.1", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct sockaddr_storage address = {0};
        struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)&address;
        struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)&address;
        bool short_one = inet_pton(AF_INET, rows[i].address, &v4->sin_addr) == 1;
        address.ss_family = short_one ? AF_INET : AF_INET6;
        assert_true(short_one || inet_pton(AF_INET6, rows[i].address, &v6->sin6_addr) == 1);
        struct proxies *proxies = trusted(rows[i].list);
        assert_non_null(proxies);
        if (proxies_trust(proxies, (const struct sockaddr *)(const void *)&address) != rows[i].trusted)
            fail_msg("%s %s", rows[i].list, rows[i].address);
        proxies_destroy(proxies);
    }
}
