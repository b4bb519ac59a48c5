/*
 * One table of quotas.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/ops/quota.h"

#include <stdio.h>
#include <string.h>

struct row {
    const char *name;
    const char *suffix; /* it must follow the number */
    unsigned window;
    const char *unit;
};

static const struct row rows[QUOTA_KINDS] = {
    [QUOTA_REQUESTS] = {"requests", "/s", 1, "request"},
    [QUOTA_QUEUED] = {"queued", "", 0, "job"},
    [QUOTA_SECONDS] = {"seconds", "/h", 3600, "second"},
    [QUOTA_STREAMS] = {"streams", "", 0, "stream"},
    [QUOTA_BYTES] = {"bytes", "", 0, "byte"},
};

/* Of bytes; as those of options. */
static const struct {
    const char *name;
    uint64_t factor;
} units[] = {{"", 1},
             {"KiB", UINT64_C(1) << 10},
             {"MiB", UINT64_C(1) << 20},
             {"GiB", UINT64_C(1) << 30},
             {"TiB", UINT64_C(1) << 40},
             {"kB", 1000},
             {"MB", 1000000},
             {"GB", 1000000000}};

const char *quota_name(enum quota_kind kind)
{
    return rows[kind].name;
}

const char *quota_unit(enum quota_kind kind)
{
    return rows[kind].unit;
}

unsigned quota_window(enum quota_kind kind)
{
    return rows[kind].window;
}

static bool is(const char *text, size_t len, const char *word)
{
    return strlen(word) == len && strncmp(text, word, len) == 0;
}

/* Whether what follows the number is right, and the number by which it multiplies. */
static bool read_unit(enum quota_kind kind, const char *text, size_t len, uint64_t *factor)
{
    *factor = 1;
    if (kind != QUOTA_BYTES)
        return is(text, len, rows[kind].suffix);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (is(text, len, units[i].name)) {
            *factor = units[i].factor;
            return true;
        }
    }
    return false;
}

const char *quota_add(struct quota *quota, const char *word, size_t len)
{
    const char *equals = memchr(word, '=', len);
    size_t name_len = equals ? (size_t)(equals - word) : len;
    enum quota_kind kind = QUOTA_REQUESTS;
    while (kind < QUOTA_KINDS && !is(word, name_len, rows[kind].name))
        kind++;
    if (!equals || kind == QUOTA_KINDS)
        return "a quota is requests=N/s, queued=N, seconds=N/h, streams=N or bytes=N (or NKiB, NMiB, NGiB)";
    if (quota->most[kind])
        return "a quota is given twice";
    const char *at = equals + 1, *end = word + len;
    uint64_t number = 0, factor;
    for (; at < end && *at >= '0' && *at <= '9' && number <= QUOTA_MOST; at++)
        number = 10 * number + (uint64_t)(*at - '0');
    if (at > equals + 1 && number > QUOTA_MOST)
        return "a quota is over 1e15";
    if (at == equals + 1 || !read_unit(kind, at, (size_t)(end - at), &factor))
        return "a quota is not a whole number with its unit: requests=50/s, queued=100, seconds=3600/h, streams=8, "
               "bytes=1GiB";
    if (number == 0)
        return "a quota is 0; leave it out for no limit, or withdraw the key";
    if (number > QUOTA_MOST / factor)
        return "a quota is over 1e15";
    quota->most[kind] = number * factor;
    return NULL;
}

const char *quota_read(struct quota *quota, const char *list)
{
    *quota = (struct quota){0};
    const char *wrong = NULL;
    while (!wrong) {
        size_t len = strcspn(list, ",");
        wrong = quota_add(quota, list, len);
        if (!list[len])
            break;
        list += len + 1;
    }
    return wrong;
}

void quota_write(char text[QUOTA_TEXT_SIZE], const struct quota *quota)
{
    size_t len = 0;
    text[0] = '\0';
    for (enum quota_kind kind = QUOTA_REQUESTS; kind < QUOTA_KINDS; kind++)
        if (quota->most[kind])
            len += (size_t)snprintf(text + len, QUOTA_TEXT_SIZE - len, "%s%s=%llu%s", len ? " " : "", rows[kind].name,
                                    (unsigned long long)quota->most[kind], rows[kind].suffix);
}
