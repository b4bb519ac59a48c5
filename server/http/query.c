/*
 * Members come from libmicrohttpd decoded, in the order of the query, doubles included.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/http/query.h"

#include <stdio.h>
#include <string.h>

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
    for (const struct query_member *member = table; member && member->name && len < size; member++) {
        len += (size_t)snprintf(list + len, size - len, "%s%s", len ? ", " : "", member->name);
    }
}

static void report_unknown(const struct check *check, const char *pointer)
{
    char list[256];
    list_names(check->table, list, sizeof list);
    if (*list) {
        api_errors_add(check->errors, pointer, "is no member of this query; there are %s", list);
    } else {
        api_errors_add(check->errors, pointer, "is no member of this query, which has none");
    }
}

static enum MHD_Result on_member(void *cls, enum MHD_ValueKind kind, const char *name, const char *value)
{
    struct check *check = cls;
    char pointer[256];
    size_t i = 0;
    (void)kind;
    snprintf(pointer, sizeof pointer, "?%.200s", name);
    while (check->table && check->table[i].name && strcmp(check->table[i].name, name) != 0) {
        i++;
    }
    if (!check->table || !check->table[i].name) {
        report_unknown(check, pointer);
        return MHD_YES;
    }
    if (check->seen[i]) {
        api_errors_add(check->errors, pointer, "stands in the query twice");
    } else if (!value) {
        api_errors_add(check->errors, pointer, "has no value; it %s", check->table[i].must);
    } else if (!check->table[i].valid(value)) {
        api_errors_add(check->errors, pointer, "%s", check->table[i].must);
    }
    check->seen[i] = true;
    return MHD_YES;
}

void query_check(const struct request *request, struct api_errors *errors)
{
    struct check check = {.table = request->route->query, .errors = errors};
    MHD_get_connection_values(request->connection, MHD_GET_ARGUMENT_KIND, on_member, &check);
}
