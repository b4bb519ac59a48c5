/*
 * The problem types of the service (RFC 9457) in one table, used for the enum, the wire and /problems/{type}.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef API_PROBLEM_H
#define API_PROBLEM_H

#include <jansson.h>

#include "api/codec/codec.h"

enum api_problem {
    API_PROBLEM_INVALID_JOB,
    API_PROBLEM_MALFORMED_JSON,
    API_PROBLEM_MALFORMED_REQUEST,
    API_PROBLEM_UNAUTHENTICATED,
    API_PROBLEM_INSUFFICIENT_SCOPE,
    API_PROBLEM_FORBIDDEN,
    API_PROBLEM_UNSUPPORTED,
    API_PROBLEM_TOO_COSTLY,
    API_PROBLEM_UNATTAINABLE,
    API_PROBLEM_QUEUE_FULL,
    API_PROBLEM_QUOTA,
    API_PROBLEM_CONFLICT,
    API_PROBLEM_NOT_FOUND,
    API_PROBLEM_METHOD,
    API_PROBLEM_MEDIA_TYPE,
    API_PROBLEM_NOT_ACCEPTABLE,
    API_PROBLEM_BODY_TOO_LARGE,
    API_PROBLEM_CANCELED,
    API_PROBLEM_CRASHED,
    API_PROBLEM_TIMEOUT,
    API_PROBLEM_INTERNAL,
    API_PROBLEM_COUNT
};

struct api_problem_type {
    const char *name; /* "invalid-job": type is "/problems/invalid-job" */
    int status;       /* the HTTP status of the problem */
    const char *title;
    const char *explanation; /* the meaning and the remedy, for GET /problems/{type} */
};

const struct api_problem_type *api_problem_type(enum api_problem problem);
/* The problem with that name, or API_PROBLEM_COUNT. */
enum api_problem api_problem_named(const char *name);
/* The problem type for a status of the library. */
enum api_problem api_problem_of_status(enum eps_status status);

/*
 * The problem document. If detail is NULL, it is a summary of the errors. instance may be NULL; errors may be NULL or
 * empty. Returns a new reference. The caller may add members (operations, bytes, accountants, line, column).
 */
json_t *api_problem_encode(enum api_problem problem, const char *detail, const char *instance,
                           const struct api_errors *errors);
/* The problem document of a library error. Its pointer becomes errors[0]; estimates and accountants are included. */
json_t *api_problem_of_error(const struct eps_error *error, const char *instance);

#endif
