/*
 * Parses the preferences of a client: Accept (RFC 9110, 12.5.1), Prefer: wait (RFC 7240), If-None-Match.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "server/http/request.h"

const char *request_header_value(const struct request *request, const char *name)
{
    return MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, name);
}

const char *request_query(const struct request *request, const char *name)
{
    return MHD_lookup_connection_value(request->connection, MHD_GET_ARGUMENT_KIND, name);
}

static const char *skip_space(const char *at)
{
    return at + strspn(at, " \t");
}

/* One element of a list header: its value and its q. Quoted strings are not split. */
struct element {
    const char *value;
    size_t len; /* without parameters and trailing space */
    double quality;
};

/* Moves *at past the next element. Returns false at the end. */
static bool next_element(const char **at, struct element *element)
{
    *at = skip_space(*at);
    while (**at == ',')
        *at = skip_space(*at + 1);
    if (!**at)
        return false;
    element->value = *at;
    element->len = strcspn(*at, ",; \t");
    element->quality = 1;
    *at += strcspn(*at, ",;");
    while (**at == ';') {
        *at = skip_space(*at + 1);
        if (strncasecmp(*at, "q=", 2) == 0)
            element->quality = strtod(*at + 2, NULL);
        *at += strcspn(*at, ",;");
    }
    return true;
}

/* How specifically the range matches the type: 0 not at all, 1 any, 2 the same main type, 3 the type itself. */
static int range_match(const struct element *range, const char *type)
{
    size_t kind = strcspn(type, "/") + 1;
    size_t whole = strcspn(type, ";");
    if (range->len == whole && strncasecmp(range->value, type, whole) == 0)
        return 3;
    if (range->len == kind + 1 && range->value[kind] == '*' && strncasecmp(range->value, type, kind) == 0)
        return 2;
    return range->len == 3 && memcmp(range->value, "*/*", 3) == 0 ? 1 : 0;
}

int negotiate(const char *accept, const char *const *offers)
{
    if (!accept || !*skip_space(accept))
        return 0;
    int best = -1;
    double best_quality = 0;
    for (int i = 0; offers[i]; i++) {
        struct element range;
        const char *at = accept;
        int closest = 0;
        double quality = 0;
        while (next_element(&at, &range)) {
            int match = range_match(&range, offers[i]);
            if (match > closest) { /* the most specific range decides */
                closest = match;
                quality = range.quality;
            }
        }
        if (quality > best_quality) {
            best = i;
            best_quality = quality;
        }
    }
    return best;
}

/* Parses a whole number of seconds, limited to the longest wait. */
static bool read_seconds(const char *text, size_t len, double *seconds)
{
    double value = 0;
    if (!len)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        value = fmin(value * 10 + (text[i] - '0'), WAIT_MAX_SECONDS + 1);
    }
    *seconds = value;
    return true;
}

bool query_is_seconds(const char *value)
{
    double seconds;
    return read_seconds(value, strlen(value), &seconds) && seconds <= WAIT_MAX_SECONDS;
}

const char *query_seconds_wrong(const char *value)
{
    double seconds;
    _Static_assert(WAIT_MAX_SECONDS == 300, "the message states it");
    return read_seconds(value, strlen(value), &seconds) && seconds > WAIT_MAX_SECONDS
               ? "exceeds 300 seconds, the longest wait of one request; use 300 and repeat the request, or follow the "
                 "events"
               : NULL;
}

double request_wait_seconds(const struct request *request, bool *preferred)
{
    double seconds = 0;
    *preferred = false;
    const char *query = request_query(request, "wait");
    if (query && read_seconds(query, strlen(query), &seconds))
        return seconds; /* already checked: at most WAIT_MAX_SECONDS */
    const char *at = request_header_value(request, "Prefer");
    struct element element;
    while (at && next_element(&at, &element)) {
        /* A preference that cannot be parsed is ignored (RFC 7240, section 2). */
        if (element.len > 5 && strncasecmp(element.value, "wait=", 5) == 0 &&
            read_seconds(element.value + 5, element.len - 5, &seconds)) {
            *preferred = true;
            break;
        }
    }
    return fmin(seconds, WAIT_MAX_SECONDS);
}

bool request_has_etag(const struct request *request, const char *etag)
{
    const char *at = request_header_value(request, "If-None-Match");
    struct element element;
    while (at && next_element(&at, &element)) {
        if (element.len == 1 && *element.value == '*')
            return true;
        if (element.len > 2 && strncmp(element.value, "W/", 2) == 0) { /* weak comparison */
            element.value += 2;
            element.len -= 2;
        }
        if (element.len == strlen(etag) && memcmp(element.value, etag, element.len) == 0)
            return true;
    }
    return false;
}
