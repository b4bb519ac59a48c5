/*
 * Requests that are refused, a line of refusals.jsonl each: every error is at its place, in order, and says what the
 * line quotes of it.
 *
 *   name    the test's
 *   job, plan, sweep, noise, batches: the body of a request, or
 *   text    one that is no JSON; its place is part of the message, and its pointer ""
 *   errors  of each the pointer, and one or more parts of its message
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdio.h>
#include <string.h>

#include "api/requests/batches.h"
#include "api/requests/noise.h"
#include "api/requests/plan.h"
#include "api/requests/sweep.h"
#include "tests/unit/decoded.h"
#include "tests/unit/test.h"

/* ---------------------------------------------------------------- the kinds of requests */

/* Each returns whether the body is accepted. */
typedef bool accepts_fn(struct api_errors *errors, const json_t *body);

static bool accepts_text(struct api_errors *errors, const json_t *body)
{
    char message[256] = "";
    json_t *json = api_json_parse(json_string_value(body), json_string_length(body), message, sizeof message);
    bool accepted = json != NULL;
    if (!accepted)
        api_errors_add(errors, "", "%s", message);
    json_decref(json);
    return accepted;
}

static bool accepts_job(struct api_errors *errors, const json_t *body)
{
    struct api_job *job = api_job_decode(errors, body, 0);
    bool accepted = job != NULL;
    api_job_destroy(job);
    return accepted;
}

static bool accepts_plan(struct api_errors *errors, const json_t *body)
{
    struct api_plan *plan = api_plan_decode(errors, NULL, body, 0);
    bool accepted = plan != NULL;
    api_plan_destroy(plan);
    return accepted;
}

static bool accepts_sweep(struct api_errors *errors, const json_t *body)
{
    struct api_sweep *sweep = api_sweep_decode(errors, body, 0);
    bool accepted = sweep != NULL;
    api_sweep_destroy(sweep);
    return accepted;
}

static bool accepts_noise(struct api_errors *errors, const json_t *body)
{
    struct api_noise *noise = api_noise_decode(errors, body);
    bool accepted = noise != NULL;
    api_noise_destroy(noise);
    return accepted;
}

static bool accepts_batches(struct api_errors *errors, const json_t *body)
{
    struct api_batches batches;
    return api_batches_decode(&batches, errors, body, 0, 0);
}

static const struct {
    const char *name;
    accepts_fn *accepts;
} kinds[] = {{"text", accepts_text},   {"job", accepts_job},     {"plan", accepts_plan},
             {"sweep", accepts_sweep}, {"noise", accepts_noise}, {"batches", accepts_batches}};

/* ---------------------------------------------------------------- a line */

/* Whether the error is at the place that comes first, and says all the parts that follow. */
static bool is_expected(const struct api_violation *error, const json_t *expected)
{
    const json_t *place = json_array_get(expected, 0);
    bool is = json_is_string(place) && strcmp(error->pointer, json_string_value(place)) == 0;
    assert_true(json_array_size(expected) >= 2);
    for (size_t i = 1; i < json_array_size(expected); i++) {
        const char *part = json_string_value(json_array_get(expected, i));
        assert_true(part && strlen(part) > 2);
        is = is && strstr(error->detail, part);
    }
    return is;
}

static void check_line(void **state)
{
    const json_t *line = *state, *expected = json_object_get(line, "errors"), *body = NULL;
    struct api_errors errors = {0};
    char told[8192] = "";
    size_t used = 0;
    bool accepted = true, same = json_array_size(expected) > 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && !body; i++)
        if ((body = json_object_get(line, kinds[i].name)))
            accepted = kinds[i].accepts(&errors, body);
    assert_true(body && json_object_size(line) == 3);
    same = same && !accepted && errors.len == json_array_size(expected);
    for (size_t i = 0; i < errors.len; i++) {
        same = same && is_expected(&errors.items[i], json_array_get(expected, i));
        if (used < sizeof told)
            used += (size_t)snprintf(told + used, sizeof told - used, "\n  [\"%s\", \"%s\"]", errors.items[i].pointer,
                                     errors.items[i].detail);
    }
    api_errors_clear(&errors);
    if (!same)
        fail_msg("%s%s", accepted ? "accepted" : "refused otherwise:", told);
}

BEFORE_TESTS
{
    json_t *lines = lines_of("tests/unit/api/refusals.jsonl"), *line;
    size_t i;
    json_array_foreach (lines, i, line) {
        const char *name = json_string_value(json_object_get(line, "name"));
        if (!name)
            fail_msg("line %zu has no name", i + 1);
        test_register((struct CMUnitTest){name, check_line, NULL, NULL, json_incref(line)});
    }
    json_decref(lines);
}
