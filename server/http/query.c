/*
 * libmicrohttpd passes the parameters decoded, in the order of the query, including duplicates.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/http/query.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/codec/meant.h"
#include "server/http/request.h"

#define MEMBERS_MAX 32 /* of one table */

struct check {
    const struct query_member *table; /* or NULL */
    struct api_errors *errors;
    bool seen[MEMBERS_MAX];
};

static void list_names(const struct query_member *table, char *list, size_t size)
{
    size_t len = 0;
    list[0] = '\0';
    for (const struct query_member *member = table; member && member->name && len < size; member++)
        len += (size_t)snprintf(list + len, size - len, "%s%s", len ? ", " : "", member->name);
}

static void report_unknown(const struct check *check, const char *pointer)
{
    char list[256];
    const char *names[MEMBERS_MAX], *meant;
    size_t len = 0;
    for (const struct query_member *member = check->table; member && member->name && len < MEMBERS_MAX; member++)
        names[len++] = member->name;
    meant = api_meant(pointer + 1, names, len);
    list_names(check->table, list, sizeof list);
    if (*list) {
        api_errors_add(check->errors, pointer, "unknown query parameter%s%s%s: %s", meant ? "; did you mean " : "",
                       meant ? meant : "", meant ? "? Allowed" : "; allowed", list);
    } else {
        api_errors_add(check->errors, pointer, "unknown query parameter; none is allowed here");
    }
}

static enum MHD_Result on_member(void *cls, enum MHD_ValueKind kind, const char *name, const char *value)
{
    struct check *check = cls;
    char pointer[256];
    size_t i = 0;
    (void)kind;
    snprintf(pointer, sizeof pointer, "?%.200s", name);
    while (check->table && check->table[i].name && strcmp(check->table[i].name, name) != 0)
        i++;
    if (!check->table || !check->table[i].name) {
        report_unknown(check, pointer);
        return MHD_YES;
    }
    if (check->seen[i]) {
        api_errors_add(check->errors, pointer, "occurs twice in the query");
    } else if (!value) {
        api_errors_add(check->errors, pointer, "has no value; it %s", check->table[i].must);
    } else if (!check->table[i].valid(value)) {
        const struct query_member *member = &check->table[i];
        const char *wrong = member->wrong ? member->wrong(value) : NULL;
        api_errors_add(check->errors, pointer, "%s", wrong ? wrong : member->must);
    }
    check->seen[i] = true;
    return MHD_YES;
}

static bool is_integer(const char *value)
{
    return *value && strspn(value, "0123456789") == strlen(value);
}

bool query_is_limit(const char *value)
{
    unsigned long limit = strtoul(value, NULL, 10); /* ULONG_MAX if the value is larger */
    return is_integer(value) && limit >= 1 && limit <= QUERY_LIMIT_MAX;
}

const char *query_limit_wrong(const char *value)
{
    _Static_assert(QUERY_LIMIT_MAX == 500, "the messages state it");
    if (!is_integer(value))
        return NULL;
    return strtoul(value, NULL, 10) == 0
               ? "is 0, but a page has at least one item; omit it, or use 1 to test whether there are any"
               : "exceeds 500, the largest page size; use 500 and follow `next` for the rest";
}

void query_check(const struct request *request, struct api_errors *errors)
{
    struct check check = {.table = request->route->query, .errors = errors};
    MHD_get_connection_values(request->connection, MHD_GET_ARGUMENT_KIND, on_member, &check);
}
