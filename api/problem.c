/*
 * The table of problem types: their names on the wire, their status, and the explanation served at /problems/{type}.
 * Every error body of the service is built here.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "api/problem.h"

#include <stdio.h>
#include <string.h>

#include "api/json/build.h"
#include "api/json/memory.h"

static const struct api_problem_type types[API_PROBLEM_COUNT] = {
    [API_PROBLEM_INVALID_JOB] =
        {"invalid-job", 422, "The job is invalid",
         "A member of the job is missing, unknown, out of range, or contradicts another one; or a query parameter is "
         "unknown or invalid. The document's `errors` lists every error found, each with a JSON pointer to the member "
         "and the rule that it breaks. A pointer of \"\" means the job as a whole, and one that begins with a question "
         "mark is a query parameter. Correct all of them and post the job again. Exactly two of epsilon, delta and "
         "noise_multiplier must be given; the third is the answer. /openapi.yaml describes all members."},
    [API_PROBLEM_MALFORMED_JSON] =
        {"malformed-json", 400, "The body is not JSON",
         "The body could not be parsed as JSON; `detail` gives line and column, both counted from 1. In addition to "
         "syntax errors, the service rejects repeated members in one object, text that is not UTF-8, NaN and Infinity, "
         "numbers beyond the range of a double, integers beyond 64 bits, nesting deeper than 64 levels, and more "
         "values than any job has (several hundred thousand, not counting numbers in arrays of 64 or more)."},
    [API_PROBLEM_MALFORMED_REQUEST] =
        {"malformed-request", 400, "The HTTP request is ambiguous or malformed",
         "The request head could be interpreted in more than one way: two lengths, a length together with "
         "Transfer-Encoding, no Host or several, a header name or value with forbidden characters, or a target with a "
         "NUL, %00 or an invalid percent encoding. A proxy and the service might then disagree about where the request "
         "ends, so the connection is closed. `detail` states the reason. Clients and proxies that follow RFC 9112 "
         "never send such a request."},
    [API_PROBLEM_UNAUTHENTICATED] =
        {"unauthenticated", 401, "The request has no valid key",
         "This service answers only clients that it knows. Send the key that its operator gave you as the header "
         "Authorization: Bearer KEY. `detail` says whether the key is missing, malformed, or not known to the service: "
         "the operator may have withdrawn it."},
    [API_PROBLEM_INSUFFICIENT_SCOPE] =
        {"insufficient-scope", 403, "The key does not permit this",
         "The key is valid, but its scope does not include this request. A key of scope read serves for GET, one of "
         "scope submit also for POST and DELETE, and one of scope admin also for /metrics. Ask the operator of the "
         "service for another key."},
    [API_PROBLEM_FORBIDDEN] = {"forbidden", 403, "The request comes from a foreign host or origin",
                               "Every request must name this service in its Host header, and POST and DELETE must come "
                               "from pages of this service. This request has a foreign Host or Origin; it may come "
                               "from a web page opened in a browser that can reach this service. If the service runs "
                               "behind a proxy, use --allow-host to set the host names under which clients reach it."},
    [API_PROBLEM_UNSUPPORTED] =
        {"unsupported", 422, "No accountant serves this job",
         "The job is well-formed, but this version has no valid analysis for its combination of matrix, sampling "
         "scheme, adjacency and accountant. `detail` states the reason; `accountants`, if present, lists those that "
         "would serve a similar job. Change what `detail` names, or use accountant auto. GET /v1 lists the families, "
         "schemes and accountants of this version."},
    [API_PROBLEM_TOO_COSTLY] =
        {"too-costly", 422, "The job costs more than this service allows",
         "Every accountant estimates its work before it starts. `operations` and `bytes` are the estimates, and at "
         "least one exceeds the limit of the service. Fewer steps, a wider tolerance, a banded or Toeplitz matrix, or "
         "another accountant reduce the cost. The operator can raise the limits with --max-operations and "
         "--max-bytes."},
    [API_PROBLEM_UNATTAINABLE] =
        {"unattainable", 422, "No finite answer exists",
         "No finite value of the unknown satisfies the two given values: for example, delta is smaller than the "
         "sampling scheme achieves at any epsilon in range, or no noise multiplier up to 1e9 reaches the target. Raise "
         "delta or epsilon, or add noise."},
    [API_PROBLEM_QUEUE_FULL] =
        {"queue-full", 503, "The service cannot accept work now",
         "The queue of unfinished jobs is full (--queue), or the service is stopping or cannot reach its database; "
         "`detail` states which. Nothing was stored. Wait for the number of seconds in Retry-After and send the "
         "request again, with the same Idempotency-Key if you use one."},
    [API_PROBLEM_QUOTA] =
        {"quota", 429, "The quota of the client is exhausted",
         "The key of this client has used what it may: requests a second, waiting jobs, seconds of computing an hour, "
         "streams at a time, or bytes kept; `quota` states which, and GET /v1/usage how much is in use. Nothing was "
         "done. Wait for the number of seconds in Retry-After; cancel jobs and delete what is no longer needed."},
    [API_PROBLEM_CONFLICT] =
        {"conflict", 409, "The request conflicts with the current state",
         "The request is valid but not possible in the current state: a job that is not final cannot be deleted "
         "(cancel it first) and has no curve and no matrix yet (wait for it); an Idempotency-Key that was used with "
         "one request cannot be used with another. `detail` states which."},
    [API_PROBLEM_NOT_FOUND] =
        {"not-found", 404, "The resource does not exist",
         "No resource has this path or id. Ids are returned by POST and by the lists; finished jobs are deleted after "
         "a while (--keep) and by DELETE. GET /v1 links to the available resources."},
    [API_PROBLEM_METHOD] =
        {"method", 405, "The resource does not support this method",
         "The path exists, but does not support this method. The Allow header lists the supported methods."},
    [API_PROBLEM_MEDIA_TYPE] =
        {"media-type", 415, "The media type of the body is not supported here",
         "The Content-Type header must give the type that `detail` names, which is application/json for a job. curl "
         "sets it with --json; with -d alone it sends application/x-www-form-urlencoded."},
    [API_PROBLEM_NOT_ACCEPTABLE] =
        {"not-acceptable", 406, "The resource is not available in any accepted media type",
         "The Accept header excludes every representation of this resource. `detail` lists them; omit the header to "
         "get JSON."},
    [API_PROBLEM_BODY_TOO_LARGE] =
        {"body-too-large", 413, "The body is too large",
         "The body exceeds the limit of the service (--max-body). A long Toeplitz matrix may omit its trailing zeros, "
         "and a lower-triangular dense matrix the entries above its diagonal; named families need no numbers at all."},
    [API_PROBLEM_CANCELED] =
        {"canceled", 409, "The job was canceled",
         "The job was canceled before it finished, so it has no result. Post it again to compute it."},
    [API_PROBLEM_CRASHED] =
        {"crashed", 500, "The job crashed",
         "The process that computed this job ended because of it: by a fault, by a system call that computations do "
         "not make, or twice for lack of memory; `detail` states which. Other jobs were not affected. If the service "
         "computes in its own process (--isolate off), the job crashed it three times, or ran out of memory while "
         "nothing else was computed. The job is not started again. The log of the service has the times. A smaller job "
         "of the same kind "
         "may succeed. Please report the crash as a bug."},
    [API_PROBLEM_TIMEOUT] =
        {"timeout", 422, "The job exceeded the time limit",
         "The computation exceeded the time limit of the service (--max-seconds) and was stopped. A wider tolerance, "
         "fewer steps or another accountant make it faster."},
    [API_PROBLEM_INTERNAL] =
        {"internal", 500, "Internal error",
         "A bug in the service, or a machine that ran out of memory or disk space. The request is not at fault and may "
         "be sent again. The log of the service has the cause under the id of the request; please report it."},
};

const struct api_problem_type *api_problem_type(enum api_problem problem)
{
    return (size_t)problem < API_PROBLEM_COUNT ? &types[problem] : &types[API_PROBLEM_INTERNAL];
}

enum api_problem api_problem_named(const char *name)
{
    int problem = 0;

    while (problem < API_PROBLEM_COUNT && strcmp(types[problem].name, name) != 0)
        problem++;
    return (enum api_problem)problem;
}

enum api_problem api_problem_of_status(enum eps_status status)
{
    switch (status) {
    case EPS_INVALID:
        return API_PROBLEM_INVALID_JOB;
    case EPS_UNSUPPORTED:
        return API_PROBLEM_UNSUPPORTED;
    case EPS_TOO_COSTLY:
        return API_PROBLEM_TOO_COSTLY;
    case EPS_UNATTAINABLE:
        return API_PROBLEM_UNATTAINABLE;
    case EPS_CANCELED:
        return API_PROBLEM_CANCELED;
    case EPS_TIMEOUT:
        return API_PROBLEM_TIMEOUT;
    case EPS_OK:
    case EPS_NO_MEMORY:
    case EPS_INTERNAL:
    case EPS_STATUS_COUNT:
        break;
    }
    return API_PROBLEM_INTERNAL;
}

/* ---------------------------------------------------------------- documents */

static void append_error(struct api_build *build, json_t *list, const char *pointer, const char *detail)
{
    json_t *entry = json_object();
    /* a pointer or detail that is not UTF-8 after all is omitted, so that the document is not lost */
    json_t *where = json_string(pointer), *what = json_string(detail);

    api__set(build, entry, "pointer", where ? where : json_string(""));
    api__set(build, entry, "detail", what ? what : json_string("is not valid"));
    api__append(build, list, entry);
}

/* Sets a text, unless it is NULL or not UTF-8, as when a character was split. */
static void set_text(struct api_build *build, json_t *json, const char *key, const char *string)
{
    json_t *text = string ? json_string(string) : NULL;
    if (text)
        api__set(build, json, key, text);
}

/* One sentence that summarises a list of errors, used if the caller gives no detail. */
static void summarise(char *text, size_t size, const struct api_errors *errors)
{
    const struct api_violation *first = &errors->items[0];

    if (errors->len == 1)
        snprintf(text, size, "%.80s%s%.200s", first->pointer, *first->pointer ? ": " : "", first->detail);
    else
        snprintf(text, size, "%zu problems found; see errors", errors->len);
}

json_t *api_problem_encode(enum api_problem problem, const char *detail, const char *instance,
                           const struct api_errors *errors)
{
    const struct api_problem_type *type = api_problem_type(problem);
    size_t failures = api__json_failures();
    struct api_build build = {0};
    json_t *json = json_object();
    char uri[64], summary[320];

    if (!detail && errors && errors->len > 0) {
        summarise(summary, sizeof summary, errors);
        detail = summary;
    }
    snprintf(uri, sizeof uri, "/problems/%s", type->name);
    api__set(&build, json, "type", json_string(uri));
    api__set(&build, json, "title", json_string(type->title));
    api__set(&build, json, "status", json_integer(type->status));
    set_text(&build, json, "detail", detail);
    set_text(&build, json, "instance", instance);
    if (errors && errors->len > 0) {
        json_t *list = json_array();
        for (size_t i = 0; i < errors->len; i++)
            append_error(&build, list, errors->items[i].pointer, errors->items[i].detail);
        api__set(&build, json, "errors", list);
    }
    build.failed = build.failed || api__json_failures() != failures;
    return api__built(&build, json);
}

static json_t *accountant_names(struct api_build *build, uint32_t mask)
{
    json_t *list = json_array();

    for (unsigned i = 0; i < EPS_ACCOUNTANT_COUNT; i++)
        if (mask & (1u << i))
            api__append(build, list, json_string(eps_accountant_name((enum eps_accountant)i)));
    return list;
}

json_t *api_problem_of_error(const struct eps_error *error, const char *instance)
{
    struct eps_error copy = *error;
    struct api_build build = {0};
    struct api_violation violation = {.pointer = copy.pointer, .detail = copy.message};
    struct api_errors errors = {.items = &violation, .len = 1};
    bool of_job = error->status == EPS_INVALID || error->status == EPS_UNSUPPORTED;
    json_t *json = api_problem_encode(api_problem_of_status(error->status), error->message, instance,
                                      of_job || error->pointer[0] ? &errors : NULL);

    if (!json)
        return NULL;
    if (error->status == EPS_TOO_COSTLY) {
        api__set(&build, json, "operations", api_number(error->operations));
        api__set(&build, json, "bytes", api_number(error->bytes));
    }
    if (error->status == EPS_UNSUPPORTED)
        api__set(&build, json, "accountants", accountant_names(&build, error->accountants));
    return api__built(&build, json);
}
