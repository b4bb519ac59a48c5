/*
 * Query parameters. Each route has a table of its parameters, each with a test for its value. An unknown or repeated
 * parameter, one without a value, and a value that fails its test are errors; all are reported at once and none is
 * ignored. Handlers read only values that passed.
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
    const char *must; /* the requirement on the value, for the error message */
    /* A specific message for a wrong value. NULL, or a result of NULL: `must` is used. */
    const char *(*wrong)(const char *value);
};

/* For all lists: the largest number of items in a page. */
#define QUERY_LIMIT_MAX 500
#define QUERY_LIMIT                                                                  \
    {                                                                                \
        "limit", query_is_limit, "must be an integer in [1, 500]", query_limit_wrong \
    }
bool query_is_limit(const char *value);
const char *query_limit_wrong(const char *value);

/* Adds an error with the pointer "?name" for each violation. */
void query_check(const struct request *request, struct api_errors *errors);

#endif
