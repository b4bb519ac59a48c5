/*
 * The one table of problem types: what the wire says, with which status, and what a person reads at
 * /problems/{type}. Every error body of the service is built here.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "api/problem.h"

#include <stdio.h>
#include <string.h>

#include "api/json/memory.h"

static const struct api_problem_type types[API_PROBLEM_COUNT] = {
    [API_PROBLEM_INVALID_JOB] =
        {"invalid-job", 422, "The job is not valid",
         "A member of the job is missing, unknown, out of range, or contradicts another one; or a member of the query "
         "string is. The document's `errors` lists every violation found, each with a JSON pointer to the member and "
         "the rule that it breaks; a pointer of \"\" means the job as a whole, and one that begins with a question "
         "mark is a member of the query. Correct all of them and post the job again. Exactly two of epsilon, delta "
         "and noise_multiplier are given: the third is the answer. The vocabulary is in /openapi.yaml."},
    [API_PROBLEM_MALFORMED_JSON] =
        {"malformed-json", 400, "The body is not JSON",
         "The body could not be read as JSON: `detail` gives line and column, both counted from 1. Besides the "
         "grammar, these are refused: a member twice in one object, text that is not UTF-8, NaN and Infinity, numbers "
         "beyond the range of a double or integers beyond 64 bits, nesting deeper than 64 levels, and more values than "
         "any job has: some hundred thousand, not counting numbers in arrays of 64 and more."},
    [API_PROBLEM_MALFORMED_REQUEST] =
        {"malformed-request", 400, "The request is not HTTP that can be relied on",
         "The head of the request could be read in more than one way: two lengths, a length beside a "
         "Transfer-Encoding, no Host or several, a header's name or value with characters that it must not have, or a "
         "target with a NUL, %00 or a percent sign that encodes nothing. A proxy and the service might then not agree "
         "where "
         "the request ends, so the connection is closed. `detail` says what it was. Clients and proxies that follow "
         "RFC 9112 never send this."},
    [API_PROBLEM_FORBIDDEN] = {"forbidden", 403, "The request comes from elsewhere",
                               "Every request must name this service in its Host, and POST and DELETE must come from "
                               "the service's own pages. "
                               "The Host of this request is another name, or its Origin another site: it may be a page "
                               "that someone looks at, "
                               "in a browser that can reach this service. Behind a proxy, name the hosts under which "
                               "clients know the service "
                               "with --allow-host."},
    [API_PROBLEM_UNSUPPORTED] =
        {"unsupported", 422, "No accountant serves this job",
         "The job is well-formed, but this version has no valid analysis for its combination of matrix, sampling "
         "scheme, adjacency and accountant. `detail` says what stands in the way; `accountants`, where present, lists "
         "those that would serve a job near to this one. Change what `detail` names, or ask for accountant auto. GET "
         "/v1 lists the families, schemes and accountants of this version."},
    [API_PROBLEM_TOO_COSTLY] =
        {"too-costly", 422, "The job costs more than this service allows",
         "Every accountant estimates its work before it starts; `operations` and `bytes` hold the estimates, and at "
         "least one is over the service's limit. Fewer steps, a wider tolerance, a banded or Toeplitz matrix, or "
         "another accountant make a job cheaper. Whoever runs the service raises the limits with --max-operations and "
         "--max-bytes."},
    [API_PROBLEM_UNATTAINABLE] =
        {"unattainable", 422, "No finite answer exists",
         "No finite value of the unknown meets the two that were given: for example, a delta below what the sampling "
         "scheme leaves at any epsilon in range, or a target that no noise multiplier up to 1e9 reaches. Raise delta "
         "or "
         "epsilon, or add noise."},
    [API_PROBLEM_QUEUE_FULL] =
        {"queue-full", 503, "The service takes no more work now",
         "The service holds as many unfinished jobs as it may (--queue), or it is stopping or cannot reach its "
         "database: `detail` says which. Nothing was stored. Wait for the seconds in Retry-After and send the request "
         "again, with the same Idempotency-Key if you use one."},
    [API_PROBLEM_QUOTA] =
        {"quota", 429, "The client's quota is used up",
         "This client has as many jobs waiting, or has sent as many requests, as it may. Wait for the seconds in "
         "Retry-After, or cancel jobs that are no longer needed."},
    [API_PROBLEM_CONFLICT] =
        {"conflict", 409, "The request contradicts the present state",
         "What was asked is right in itself but not now: a job that is not final cannot be deleted (cancel it first), "
         "has no curve and no matrix yet (wait for it), and an Idempotency-Key that was used with one request cannot "
         "be used with another. `detail` says which."},
    [API_PROBLEM_NOT_FOUND] =
        {"not-found", 404, "There is nothing here",
         "No resource has this path or id. Ids are returned by POST and by the lists; finished jobs are forgotten "
         "after a while (--keep) and when they are deleted. GET /v1 links to what there is."},
    [API_PROBLEM_METHOD] =
        {"method", 405, "The resource does not take this method",
         "The path exists, but not for this method. The Allow header lists the methods that it takes."},
    [API_PROBLEM_MEDIA_TYPE] =
        {"media-type", 415, "The body's media type is not taken here",
         "The body has to be sent as the type that `detail` names, application/json for a job, in the Content-Type "
         "header. curl's --json option does that; its -d option alone says application/x-www-form-urlencoded."},
    [API_PROBLEM_NOT_ACCEPTABLE] =
        {"not-acceptable", 406, "None of the accepted media types is served here",
         "The Accept header leaves no representation that this resource has. `detail` lists those it has; leave the "
         "header out to get JSON."},
    [API_PROBLEM_BODY_TOO_LARGE] =
        {"body-too-large", 413, "The body is over the limit",
         "The body has more bytes than the service reads (--max-body). A long Toeplitz matrix may leave out its zeros "
         "at the end, and a lower-triangular dense one everything above its diagonal; families that have a name need "
         "no numbers at all."},
    [API_PROBLEM_CANCELED] =
        {"canceled", 409, "The job was canceled",
         "Someone asked for the job to be canceled before it was finished, so it has no result. Post it again to have "
         "it computed."},
    [API_PROBLEM_CRASHED] =
        {"crashed", 500, "The job ended the service three times",
         "Three times the service ended by a fault in the computation of this job, or ran out of memory while it "
         "computed nothing else, so the job is not started again; the service's log tells when. A smaller job of the "
         "same kind may pass. Please report it as a defect."},
    [API_PROBLEM_TIMEOUT] =
        {"timeout", 422, "The job ran longer than this service allows",
         "The computation passed the time limit of the service (--max-seconds) and was stopped. A wider tolerance, "
         "fewer steps or another accountant make it faster."},
    [API_PROBLEM_INTERNAL] =
        {"internal", 500, "The service failed",
         "A defect of the service, or a machine without memory or disk space. The request was not at fault: it may be "
         "sent again. The service's log has the cause under the request's id; please report it."},
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

static bool set(json_t *object, const char *key, json_t *value)
{
    return json_object_set_new_nocheck(object, key, value) == 0;
}

static bool append_error(json_t *list, const char *pointer, const char *detail)
{
    json_t *entry = json_object();
    /* a pointer or detail that is not UTF-8 after all is left out rather than losing the whole document */
    json_t *where = json_string(pointer), *what = json_string(detail);
    bool ok = set(entry, "pointer", where ? where : json_string(""));

    ok = set(entry, "detail", what ? what : json_string("is not valid")) && ok;
    return json_array_append_new(list, entry) == 0 && ok;
}

/* One sentence for a list of violations, where the caller has none of its own. */
static void summarise(char *text, size_t size, const struct api_errors *errors)
{
    const struct api_violation *first = &errors->items[0];

    if (errors->len == 1)
        snprintf(text, size, "%.80s%s%.200s", first->pointer, *first->pointer ? " " : "", first->detail);
    else
        snprintf(text, size, "%zu rules are broken; errors lists them", errors->len);
}

json_t *api_problem_encode(enum api_problem problem, const char *detail, const char *instance,
                           const struct api_errors *errors)
{
    const struct api_problem_type *type = api_problem_type(problem);
    size_t failures = api__json_failures();
    json_t *json = json_object(), *text;
    char uri[64], summary[320];

    if (!detail && errors && errors->len > 0) {
        summarise(summary, sizeof summary, errors);
        detail = summary;
    }
    snprintf(uri, sizeof uri, "/problems/%s", type->name);
    bool ok = set(json, "type", json_string(uri));
    ok = set(json, "title", json_string(type->title)) && ok;
    ok = set(json, "status", json_integer(type->status)) && ok;
    text = detail ? json_string(detail) : NULL; /* NULL too where a cut left half a character */
    if (text)
        ok = set(json, "detail", text) && ok;
    text = instance ? json_string(instance) : NULL;
    if (text)
        ok = set(json, "instance", text) && ok;
    if (errors && errors->len > 0) {
        json_t *list = json_array();
        for (size_t i = 0; i < errors->len; i++)
            ok = append_error(list, errors->items[i].pointer, errors->items[i].detail) && ok;
        ok = set(json, "errors", list) && ok;
    }
    if (ok && api__json_failures() == failures)
        return json;
    json_decref(json);
    return NULL;
}

static json_t *accountant_names(uint32_t mask)
{
    json_t *list = json_array();

    for (unsigned i = 0; i < EPS_ACCOUNTANT_COUNT; i++) {
        if (mask & (1u << i))
            json_array_append_new(list, json_string(eps_accountant_name((enum eps_accountant)i)));
    }
    return list;
}

json_t *api_problem_of_error(const struct eps_error *error, const char *instance)
{
    struct eps_error copy = *error;
    size_t failures = api__json_failures();
    struct api_violation violation = {.pointer = copy.pointer, .detail = copy.message};
    struct api_errors errors = {.items = &violation, .len = 1};
    bool of_job = error->status == EPS_INVALID || error->status == EPS_UNSUPPORTED;
    json_t *json = api_problem_encode(api_problem_of_status(error->status), error->message, instance,
                                      of_job || error->pointer[0] ? &errors : NULL);

    if (!json)
        return NULL;
    bool ok = true;
    if (error->status == EPS_TOO_COSTLY) {
        ok = set(json, "operations", api_number(error->operations));
        ok = set(json, "bytes", api_number(error->bytes)) && ok;
    }
    if (error->status == EPS_UNSUPPORTED)
        ok = set(json, "accountants", accountant_names(error->accountants));
    if (ok && api__json_failures() == failures)
        return json;
    json_decref(json);
    return NULL;
}
