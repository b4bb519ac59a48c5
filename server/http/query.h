/*
 * The members of a query string: each route has a table of those it takes, with the test that its value must pass.
 * An unknown member, one without a value or twice, and a value that fails its test are errors, all named at once;
 * none is ever ignored. Handlers read what passed.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_HTTP_QUERY_H
#define SERVER_HTTP_QUERY_H

#include <stdbool.h>

struct request;
struct api_errors;

struct query_member {
    const char *name;
    bool (*valid)(const char *value);
    const char *must; /* what the value must be, for the error */
    /* What is wrong with a value that could have been meant, in words of its own. NULL, or NULL for a value: `must`. */
    const char *(*wrong)(const char *value);
};

/* Of all lists: how many items a page holds. */
#define QUERY_LIMIT_MAX 500
#define QUERY_LIMIT                                                                  \
    {                                                                                \
        "limit", query_is_limit, "must be an integer in [1, 500]", query_limit_wrong \
    }
bool query_is_limit(const char *value);
const char *query_limit_wrong(const char *value);

/* Adds an error with pointer "?name" for everything that is wrong. */
void query_check(const struct request *request, struct api_errors *errors);

#endif
