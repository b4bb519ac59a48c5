/*
 * The codec without memory, jansson's included: a text that is produced is complete, a job that is refused has a
 * reason, and nothing leaks.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/requests/batches.h"
#include "api/requests/noise.h"
#include "api/problem.h"
#include "api/requests/plan.h"
#include "api/requests/sweep.h"
#include "tests/unit/decoded.h"
#include "tests/unit/memory/scarcity.h"
#include "tests/unit/test.h"

static const char path[] = "tests/unit/memory/out_of_memory.jsonl";

enum { MALFORMED, PARSED, ENCODED, LABELLED, BRIEF, HASHED, VIOLATIONS, PROBLEM, TEXTS, LINE = 4096 };

/* Every text that is made of one input, NULL where it failed; and the texts with sufficient memory. */
struct spoken {
    const char *input;
    const struct eps_result *result;
    char *now[TEXTS], *whole[TEXTS];
    const char *wrong;
    bool known;
};

/* One line per violation; with memory. */
static char *list(const struct api_errors *errors)
{
    char *text = scarcity_give(LINE);
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < errors->len && used < LINE; i++)
        used +=
            (size_t)snprintf(text + used, LINE - used, "%s: %s\n", errors->items[i].pointer, errors->items[i].detail);
    return text;
}

static void decode(struct spoken *spoken, const json_t *json)
{
    struct api_errors errors = {0};
    struct api_job *job = api_job_decode(&errors, json, 0);
    if (job) {
        char hash[65];
        spoken->now[ENCODED] = api_json_text_new(api_job_encode(job, false));
        spoken->now[LABELLED] = api_json_text_new(api_job_encode(job, true));
        spoken->now[BRIEF] = api_json_text_new(api_job_encode_brief(job));
        api_job_hash(hash, job);
        spoken->now[HASHED] = hash[0] ? memcpy(scarcity_give(sizeof hash), hash, sizeof hash) : NULL;
        if (errors.len > 0 || errors.out_of_memory)
            spoken->wrong = "a job with errors";
    } else {
        if (errors.len == 0 && !errors.out_of_memory)
            spoken->wrong = "refused without a reason";
        spoken->now[VIOLATIONS] = errors.out_of_memory ? NULL : list(&errors);
        spoken->now[PROBLEM] =
            errors.out_of_memory
                ? NULL
                : api_json_text_new(api_problem_encode(API_PROBLEM_INVALID_JOB, NULL, "/jobs", &errors));
    }
    api_job_destroy(job);
    api_errors_clear(&errors);
}

static void speak(void *user)
{
    struct spoken *spoken = user;
    char message[256];
    json_t *json = api_json_parse(spoken->input, strlen(spoken->input), message, sizeof message);
    if (!json && message[0])
        spoken->now[MALFORMED] = memcpy(scarcity_give(sizeof message), message, sizeof message);
    if (!json)
        return;
    spoken->now[PARSED] = api_json_text(json);
    decode(spoken, json);
    json_decref(json);
}

static void encode(void *user)
{
    struct spoken *spoken = user;
    const struct eps_result *result = spoken->result;
    const struct eps_error error = {.status = EPS_TOO_COSTLY,
                                    .pointer = "/n",
                                    .message = "too much",
                                    .operations = 1e12,
                                    .bytes = 1e9,
                                    .accountants = 1u << EPS_ACCOUNTANT_PLD};
    struct text csv = {0};
    json_t *json = api_result_encode(result);
    if (json && api_result_stamp(json, "miss", 1, 2) != 0) {
        json_decref(json);
        json = NULL;
    }
    spoken->now[0] = api_json_text_new(json);
    spoken->now[1] = api_json_text_new(api_curve_encode(result->curve, result->curve_len));
    api_curve_csv(&csv, result->curve, result->curve_len);
    spoken->now[2] = text_steal(&csv);
    spoken->now[3] = api_json_text_new(api_problem_of_error(&error, "/jobs/1"));
    spoken->now[4] = api_json_text_new(api_problem_encode(API_PROBLEM_NOT_FOUND, "no such job", NULL, NULL));
}

static void tabulate(void *user)
{
    struct spoken *spoken = user;
    spoken->now[0] = api_json_text_new(api_members_encode());
}

static void check(void *user, bool struck)
{
    struct spoken *spoken = user;
    static char where[8192];
    bool lacking = false;
    for (size_t i = 0; i < TEXTS; i++) {
        char *now = spoken->now[i], *whole = spoken->whole[i];
        lacking = lacking || (!now && whole);
        if (spoken->known && now && (!whole || strcmp(now, whole) != 0))
            spoken->wrong = "another text";
        if (spoken->wrong) {
            scarcity_explain(where, sizeof where);
            fail_msg("%s: %s: %s\n%s", spoken->input, spoken->wrong, now ? now : "", where);
        }
        if (!spoken->known)
            spoken->whole[i] = now;
        else
            free(now);
        spoken->now[i] = NULL;
    }
    assert_true(struck || !lacking);
    spoken->known = true;
}

static void forget(struct spoken *spoken)
{
    for (size_t i = 0; i < TEXTS; i++) {
        free(spoken->whole[i]);
        spoken->whole[i] = NULL;
    }
}

static size_t speak_of(const char *input)
{
    struct spoken spoken = {.input = input};
    size_t struck = scarcity_each(speak, check, &spoken, SCARCITY_WHOLE);
    forget(&spoken);
    return struck;
}

/* ------------------------------------------------------------ what is read */

TEST(a_job_is_read_whole_or_refused)
{
    json_t *lines = lines_of(path), *line;
    size_t i;
    json_array_foreach (lines, i, line) {
        char *text = api_json_text(json_object_get(line, "job"));
        assert_true(speak_of(text) > 20);
        free(text);
    }
    assert_true(json_array_size(lines) > 30);
    json_decref(lines);
}

TEST(labels_lists_and_faults_are_read_whole_or_refused)
{
    static const char *const inputs[] = {
        "{\"n\":3,\"label\":\"r\\u00e9sum\\u00e9\",\"sampling\":{\"scheme\":\"poisson\",\"p\":0.1},\"delta\":1e-5,"
        "\"noise_multiplier\":1,\"accountant\":\"pld\"}",
        "{\"epochs\":2,\"label\":\"x\",\"sampling\":{\"scheme\":\"poisson\",\"batch_size\":10,\"dataset_size\":100},"
        "\"delta\":1e-5,\"noise_multiplier\":1}",
        "{\"n\":-1,\"label\":7,\"colour\":1,\"sampling\":{\"scheme\":\"poison\"},\"delta\":2,\"accountant\":{"
        "\"method\":"
        "\"pld\",\"samples\":3}}",
        "{\"n\":4,\"matrix\":{\"family\":\"dense\",\"rows\":[[1],[2,1,3]]},\"sampling\":{\"scheme\":\"none\","
        "\"epochs\":9},"
        "\"delta\":1e-5,\"noise_multiplier\":-1}",
        "{\"phases\":[{\"n\":4,\"matrix\":{\"family\":\"blt\",\"decay\":[0.5],\"scale\":[1]},\"sampling\":{\"scheme\":"
        "\"poisson\",\"p\":0.1},\"workload\":{\"type\":\"toeplitz\",\"coefficients\":[1]}},{\"n\":2,\"sampling\":{"
        "\"scheme\":\"none\"},\"count\":\"max\"}],\"epsilon\":1,\"delta\":1e-5,\"noise_multiplier\":1}",
        "{\"phases\":[7,{\"n\":-1,\"sampling\":{\"scheme\":\"poison\"}}],\"n\":2,\"delta\":1e-5}",
        "{\"n\": 1,\n \"n\": 2}",
        "[1, 2",
        "[[\"\\ud800\"]]",
    };
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        assert_true(speak_of(inputs[i]) > 2);
    /* Long arrays are read apart. */
    char text[LINE] = "{\"n\":100,\"matrix\":{\"family\":\"toeplitz\",\"coefficients\":[1";
    for (int i = 0; i < 99; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), ",%.3g", 1.0 / (i + 3));
    snprintf(text + strlen(text), sizeof text - strlen(text),
             "]},\"sampling\":{\"scheme\":\"none\"},\"delta\":1e-5,\"noise_multiplier\":1}");
    assert_true(speak_of(text) > 20);
}

/* Lines of users: more than a table first has room for, and long lists. */
static void speak_of_users(void *user)
{
    struct spoken *spoken = user;
    char message[256] = "";
    struct api_errors errors = {0};
    struct api_users *users = api_users_read(&errors, message, sizeof message, spoken->input, strlen(spoken->input), 2);
    if (users) {
        const struct eps_users *read = api_users_get(users);
        char *text = spoken->now[PARSED] = scarcity_give(LINE);
        snprintf(text, LINE, "%llu examples, %llu users, the last is %u", (unsigned long long)api_users_examples(users),
                 (unsigned long long)read->len, read->user[read->begin[api_users_examples(users)] - 1]);
    } else if (message[0]) {
        spoken->now[MALFORMED] = memcpy(scarcity_give(sizeof message), message, sizeof message);
    } else if (errors.len > 0 && !errors.out_of_memory) {
        spoken->now[VIOLATIONS] = list(&errors);
    }
    api_users_destroy(users);
    api_errors_clear(&errors);
}

TEST(users_are_read_whole_or_not)
{
    static char text[20000];
    const char *const inputs[] = {text, "{\"users\":[]}", "{\"users\":[1}"};
    size_t used = 0;
    for (int i = 0; i < 300; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "{\"users\":[\"user %d\",%d]}\n", i, i / 2);
    used += (size_t)snprintf(text + used, sizeof text - used, "{\"users\":[0");
    for (int i = 1; i < 100; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, ",%d", i);
    snprintf(text + used, sizeof text - used, "]}");
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        struct spoken spoken = {.input = inputs[i]};
        assert_true(scarcity_each(speak_of_users, check, &spoken, 12) > 1);
        forget(&spoken);
    }
}

static void speak_of_noise(void *user)
{
    struct spoken *spoken = user;
    char message[256] = "";
    struct api_errors errors = {0};
    json_t *json = api_json_parse(spoken->input, strlen(spoken->input), message, sizeof message);
    struct api_noise *noise = json ? api_noise_decode(&errors, json) : NULL;
    if (noise && api_noise_check_workload(&errors, noise, 3)) {
        char *text = spoken->now[PARSED] = scarcity_give(LINE);
        snprintf(text, LINE, "%s%s %d %llu %zu", noise->job, noise->factorization, (int)noise->dtype,
                 (unsigned long long)noise->dimensions, noise->workload.coefficients_len);
    } else if (errors.len > 0 && !errors.out_of_memory) {
        spoken->now[VIOLATIONS] = list(&errors);
    }
    if (json && !noise && errors.len == 0 && !errors.out_of_memory)
        spoken->wrong = "refused without a reason";
    api_noise_destroy(noise);
    json_decref(json);
    api_errors_clear(&errors);
}

TEST(requests_of_noise_are_read_whole_or_refused)
{
    static const char *const inputs[] = {
        "{\"job\":\"0193a000-0000-7000-8000-000000000000\",\"dimensions\":7,\"dtype\":\"float64\",\"seed\":1}",
        "{\"factorization\":\"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\",\"noise_multiplier\":"
        "1,"
        "\"dimensions\":7,\"part\":\"decoder\",\"workload\":{\"type\":\"toeplitz\",\"coefficients\":[1,2,3]}}",
        "{\"factorization\":\"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\",\"noise_multiplier\":"
        "1,"
        "\"dimensions\":7,\"part\":\"decoder\",\"workload\":{\"type\":\"toeplitz\",\"coefficients\":[1,2,3,4]}}",
        "{\"factorization\":\"x\",\"job\":\"x\",\"noise_multiplier\":-1,\"dimensions\":0,\"part\":\"encoder\"}",
    };
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        struct spoken spoken = {.input = inputs[i]};
        assert_true(scarcity_each(speak_of_noise, check, &spoken, SCARCITY_WHOLE) > 2);
        forget(&spoken);
    }
}

/* ------------------------------------------------------------ what is written */

TEST(an_answer_is_written_whole_or_not)
{
    double decay[] = {0.5, 0.25};
    char *sentences[] = {"one", "two"};
    struct eps_candidate candidates[] = {{EPS_ACCOUNTANT_PLD, EPS_REMOVE, 1, 0, 0, 0},
                                         {EPS_ACCOUNTANT_MMCC, EPS_ADD, 2, 0, 0, 1e-3}};
    struct eps_curve_point points[] = {{0, 0.5, 0.25, 0.5, 0.5}, {1, 0.25, 0.125, 0.25, 0.125}};
    struct eps_result result = {.epsilon = 1,
                                .delta = 1e-5,
                                .noise_multiplier = 2,
                                .bracket_lower = 0.5,
                                .bracket_upper = 1,
                                .accountant = EPS_ACCOUNTANT_PLD,
                                .directions = {candidates[0], candidates[1]},
                                .candidates = candidates,
                                .candidates_len = 2,
                                .adaptive = true,
                                .p = 0.1,
                                .bins = 3,
                                .expected_batch_size = 10,
                                .sensitivity = 1,
                                .sensitivity_rule = "column_norm",
                                .factorization_id = "00",
                                .iterations = 3,
                                .optimality_gap = 1e-3,
                                .blt_decay = decay,
                                .blt_scale = decay,
                                .blt_len = 2,
                                .assumptions = sentences,
                                .assumptions_len = 2,
                                .hints = sentences,
                                .hints_len = 1,
                                .curve = points,
                                .curve_len = 2};
    struct eps_result whole = result;
    struct eps_phase_result phases[] = {{2, {EPS_ACCOUNTANT_PLD, EPS_ACCOUNTANT_MMCC}, &result, 0.5},
                                        {0, {EPS_ACCOUNTANT_PLD, EPS_ACCOUNTANT_PLD}, NULL, 0}};
    struct spoken spoken = {.input = "a result", .result = &result};
    assert_true(scarcity_each(encode, check, &spoken, SCARCITY_WHOLE) > 100);
    forget(&spoken);
    whole.solved_for = EPS_SOLVE_RUNS;
    whole.phases = phases;
    whole.phases_len = 2;
    spoken = (struct spoken){.input = "a result of phases", .result = &whole};
    assert_true(scarcity_each(encode, check, &spoken, SCARCITY_WHOLE) > 200);
    forget(&spoken);
}

TEST(the_table_of_members_is_written_whole_or_not)
{
    struct spoken spoken = {.input = "the table of members"};
    assert_true(scarcity_each(tabulate, check, &spoken, SCARCITY_WHOLE) > 20);
    forget(&spoken);
}

/* ------------------------------------------------------------ sweeps */

struct swept {
    const char *input;
    char *now, *whole; /* its request and the jobs of its points; or what is wrong with it */
    bool oom;
    const char *wrong;
};

static void note_points(struct swept *swept, const struct api_sweep *sweep)
{
    size_t used = (size_t)snprintf(swept->now, LINE, "%zu %s\n", sweep->total, sweep->label ? sweep->label : "");
    for (size_t i = 0; i < sweep->total && used < LINE; i++) {
        struct api_errors errors = {0};
        struct api_job *job = api_sweep_point(sweep, &errors, i, 0);
        char *text = job ? api_json_text_new(api_job_encode(job, true)) : NULL;
        swept->oom = swept->oom || errors.out_of_memory || (job && !text);
        if (!job && !errors.len && !errors.out_of_memory)
            swept->wrong = "a point is refused without a reason";
        const char *said = text ? text : errors.len ? errors.items[0].detail : "";
        used += (size_t)snprintf(swept->now + used, LINE - used, "%s\n", said);
        free(text);
        api_job_destroy(job);
        api_errors_clear(&errors);
    }
}

static void sweep_once(void *user)
{
    struct swept *swept = user;
    char message[128] = "";
    struct api_errors errors = {0};
    json_t *json = api_json_parse(swept->input, strlen(swept->input), message, sizeof message);
    struct api_sweep *sweep = json ? api_sweep_decode(&errors, json, 0) : NULL;
    struct api_sweep *again = sweep ? api_sweep_read(sweep->request) : NULL;
    swept->oom = !json || errors.out_of_memory || (sweep && !again);
    if (json && !sweep && !errors.len && !errors.out_of_memory)
        swept->wrong = "refused without a reason";
    swept->now = list(&errors);
    if (again)
        note_points(swept, again);
    api_sweep_destroy(sweep);
    api_sweep_destroy(again);
    api_errors_clear(&errors);
    json_decref(json);
}

static void check_swept(void *user, bool struck)
{
    struct swept *swept = user;
    static char where[8192];
    assert_null(swept->wrong);
    if (!swept->whole)
        swept->whole = strdup(swept->now);
    if ((swept->oom && !struck) || (!swept->oom && strcmp(swept->now, swept->whole) != 0)) {
        scarcity_explain(where, sizeof where);
        fail_msg("%s\nis not\n%s\n%s", swept->now, swept->whole, where);
    }
    free(swept->now);
}

TEST(a_sweep_is_read_whole_or_refused)
{
    static char many[2048] =
        "{\"base\":{\"n\":4,\"sampling\":{\"scheme\":\"none\"},\"delta\":0.1},\"grid\":{\"/epsilon\":[";
    for (int i = 0; i < 70; i++)
        snprintf(many + strlen(many), sizeof many - strlen(many), "%s%d", i ? "," : "", i + 1);
    strcat(many, "]}}");
    const char *const inputs[] = {
        "{\"base\":{\"n\":4,\"sampling\":{\"scheme\":\"poisson\"},\"delta\":0.1},\"label\":\"l\","
        "\"grid\":{\"/sampling/p\":[0.5,2],\"/accountant/method\":[\"pld\"],\"/epsilon\":[1]}}",
        "{\"base\":{\"n\":4,\"sampling\":{\"scheme\":\"poisson\"},\"delta\":0.1},"
        "\"grid\":{\"/nosuch\":[0.5,2],\"/delta/x\":[1]}}",
        "{\"grid\":3,\"more\":1,\"label\":2}", many};
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        struct swept swept = {.input = inputs[i]};
        assert_true(scarcity_each(sweep_once, check_swept, &swept, SCARCITY_WHOLE) > 3);
        free(swept.whole);
    }
}

/* ------------------------------------------------------------ plans */

static void plan_once(void *user)
{
    struct swept *planned = user;
    char message[128] = "";
    struct api_errors errors = {0};
    json_t *json = api_json_parse(planned->input, strlen(planned->input), message, sizeof message);
    struct api_plan *plan = json ? api_plan_decode(&errors, NULL, json, 0) : NULL;
    struct api_plan *again = plan ? api_plan_read(plan->request) : NULL;
    planned->oom = !json || errors.out_of_memory || (plan && !again);
    if (json && !plan && !errors.len && !errors.out_of_memory)
        planned->wrong = "refused without a reason";
    planned->now = list(&errors);
    if (plan) {
        free(planned->now);
        planned->now = strcpy(scarcity_give(strlen(plan->request) + 1), plan->request);
    }
    api_plan_destroy(plan);
    api_plan_destroy(again);
    api_errors_clear(&errors);
    json_decref(json);
}

TEST(a_plan_is_read_whole_or_refused)
{
    const char *const inputs[] = {
        "{\"n\":4,\"batch_size\":[1,2],\"dataset_size\":8,\"epsilon\":2,\"delta\":1e-3,\"label\":\"l\",\"max_bands\":2,"
        "\"families\":[\"identity\"],\"schemes\":[\"poisson\",\"balls_in_bins\"],"
        "\"workload\":{\"type\":\"toeplitz\",\"coefficients\":[1,0.5]}}",
        "{\"epochs\":2,\"batch_size\":0,\"dataset_size\":8,\"epsilon\":2,\"delta\":1e-3}",
        "{\"n\":[],\"schemes\":[\"x\"],\"objective\":1,\"label\":2,\"max_bands\":0,\"more\":1}"};
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        struct swept planned = {.input = inputs[i]};
        assert_true(scarcity_each(plan_once, check_swept, &planned, SCARCITY_WHOLE) > 3);
        free(planned.whole);
    }
}

TEST(every_line_that_asks_for_memory_was_struck)
{
    size_t total = 0;
    assert_int_equal(scarcity_unstruck("api", NULL, 0, &total), 0);
    assert_true(total > 10);
}
