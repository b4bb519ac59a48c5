/*
 * The codec: what is one job, that what is returned can be posted, and what answers look like. What is refused:
 * refusals.jsonl.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/codec/codec.h"
#include "api/problem.h"
#include "tests/generate/request.h"
#include "tests/unit/decoded.h"
#include "tests/unit/draw.h"
#include "tests/unit/test.h"

#define POISSON "\"sampling\":{\"scheme\":\"poisson\",\"p\":0.1}"
#define SIZES(scheme) "\"sampling\":{\"scheme\":\"" scheme "\",\"batch_size\":50,\"dataset_size\":5000}"
#define TEXT(token) #token
#define TEXT_OF(macro) TEXT(macro)
#define ASKED "\"delta\":1e-6,\"noise_multiplier\":1"

/* ---------------------------------------------------------------- text */

TEST(text_that_is_not_utf_8_is_refused)
{
    static const char text[] = "{\"label\": \"\xff\"}";
    char message[256] = "";

    assert_null(api_json_parse(text, sizeof text - 1, message, sizeof message));
    assert_non_null(strstr(message, "UTF-8"));
}

TEST(deep_nesting_is_refused_at_the_bracket_too_many)
{
    char message[256], text[130];
    char *deep = malloc(100000);

    memset(deep, '[', 100000);
    assert_null(api_json_parse(deep, 100000, message, sizeof message));
    assert_string_equal(message, "line 1, column 65: nested deeper than 64 levels");
    free(deep);
    memset(text, '[', 64);
    memset(text + 64, ']', 64);
    json_t *json = api_json_parse(text, 128, message, sizeof message);
    assert_non_null(json);
    json_decref(json);
    /* brackets in strings are text */
    json = parsed("\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\\\"[[[[\"");
    json_decref(json);
}

static void check_number(double value, const char *text)
{
    json_t *json = api_number(value);
    char *written = api_json_text(json);

    assert_string_equal(written, text);
    free(written);
    json_decref(json);
}

TEST(numbers_are_the_shortest_that_decode_to_themselves)
{
    uint64_t seed = 7;

    check_number(0.1, "0.1");
    check_number(1.0, "1");
    check_number(-0.0, "0");
    check_number(1e-6, "1e-6");
    check_number(1e22, "1e22");
    check_number(0.1 + 0.2, "0.30000000000000004");
    check_number(5e-324, "4.94065645841247e-324");
    check_number(DBL_MAX, "1.7976931348623157e308");
    check_number(NAN, "null");
    check_number(-INFINITY, "null");
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = (draw_below(&seed, UINT64_MAX) << 1) ^ draw_below(&seed, UINT64_MAX);
        double value, back;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value))
            continue;
        json_t *json = json_real(value);
        char *text = api_json_text(json);
        json_decref(json);
        json = parsed(text);
        back = json_number_value(json);
        assert_memory_equal(&back, &value, sizeof value);
        json_decref(json);
        free(text);
    }
}

TEST(text_survives_writing_and_reading)
{
    static const char raw[] = "quote\" back\\ line\n tab\t bell\a nul\0 \xc3\xa9 \xf0\x9f\x99\x82";
    json_t *json = json_stringn(raw, sizeof raw - 1);
    char *text = api_json_text(json);
    json_t *back = parsed(text);

    assert_true(json_equal(json, back));
    json_decref(json);
    json_decref(back);
    free(text);
}

TEST(labels_count_characters_and_the_list_of_errors_is_bounded)
{
    struct api_errors errors = {0};
    char label[403];
    json_t *json = parsed("{\"n\":10," POISSON "," ASKED "}");

    for (int i = 0; i < 201; i++)
        memcpy(label + 2 * i, "\xc3\xa9", 2);
    json_object_set_new(json, "label", json_stringn(label, 400));
    struct api_job *job = api_job_decode(&errors, json, 0);
    assert_non_null(job);
    api_job_destroy(job);
    json_object_set_new(json, "label", json_stringn(label, 402));
    assert_null(api_job_decode(&errors, json, 0));
    assert_string_equal(errors.items[0].pointer, "/label");
    api_errors_clear(&errors);

    for (int i = 0; i < 10000; i++) {
        snprintf(label, sizeof label, "\xe2\x82\xac%0300d", i);
        json_object_set_new(json, label, json_true());
    }
    assert_null(api_job_decode(&errors, json, 0));
    assert_int_equal(errors.len, 257);
    json_t *problem = api_problem_encode(API_PROBLEM_INVALID_JOB, "many", "/v1/jobs", &errors);
    assert_int_equal(json_array_size(json_object_get(problem, "errors")), 257);
    json_decref(problem);
    api_errors_clear(&errors);
    json_decref(json);
}

/* ---------------------------------------------------------------- identity */

TEST(jobs_that_say_the_same_are_one_job)
{
    static const char *const same[] = {
        "{\"n\":1000," POISSON "," ASKED "}",
        "{\"noise_multiplier\":1.0,\"delta\":0.000001,\"n\":1e3," POISSON "}",
        "{\"n\":1000.0," POISSON ",\"delta\":1e-6,\"noise_multiplier\":1e0,\"label\":\"x\"}",
        "{\"n\":1000,\"matrix\":{\"family\":\"identity\",\"stamps\":1}," POISSON "," ASKED ",\"epsilon\":null}",
        "{\"n\":1000," POISSON "," ASKED ",\"accountant\":{\"method\":\"auto\",\"tolerance\":1e-3,\"estimator\":"
        "\"auto\"},\"curve\":false,\"workload\":{\"type\":\"prefix_sum\"},\"adjacency\":\"zero_out\"}",
    };
    static const char *const other[] = {
        "{\"n\":1001," POISSON "," ASKED "}",
        "{\"n\":1000," POISSON ",\"delta\":1e-6,\"noise_multiplier\":1.0000000000000002}",
        "{\"n\":1000," POISSON ",\"delta\":1e-6,\"epsilon\":1}",
        "{\"n\":1000," POISSON "," ASKED ",\"adjacency\":\"add_remove\"}",
        "{\"n\":1000," POISSON "," ASKED ",\"accountant\":\"pld\"}",
    };
    char hash[65], first[65];

    decoded_hash(first, same[0]);
    for (size_t i = 1; i < sizeof same / sizeof same[0]; i++) {
        decoded_hash(hash, same[i]);
        assert_string_equal(hash, first);
    }
    for (size_t i = 0; i < sizeof other / sizeof other[0]; i++) {
        decoded_hash(hash, other[i]);
        assert_string_not_equal(hash, first);
    }
}

TEST(arrays_belong_to_the_identity)
{
    static const char form[] = "{\"n\":4,\"matrix\":{\"family\":\"%s},\"sampling\":{\"scheme\":\"none\"}," ASKED "}";
    static const char *const matrices[] = {
        "toeplitz\",\"coefficients\":[1,0.5]",
        "toeplitz\",\"coefficients\":[1,0.25]",
        "toeplitz\",\"coefficients\":[1,-0.5]",
        "dense\",\"rows\":[[1],[0,1],[0,0,1],[0,0,0,1]]",
        "dense\",\"rows\":[[1],[0,1],[0,0,1],[0,0,0,2]]",
        "dense\",\"rows\":[[1,0,0,1],[0,1],[0,0,1],[0,0,0,1]]",
    };
    char hash[6][65], text[256], other[65];

    for (size_t i = 0; i < 6; i++) {
        snprintf(text, sizeof text, form, matrices[i]);
        decoded_hash(hash[i], text);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(hash[i], hash[k]);
    }
    snprintf(text, sizeof text, form, "toeplitz\",\"coefficients\":[1.0,5e-1]");
    decoded_hash(other, text);
    assert_string_equal(other, hash[0]);
    snprintf(text, sizeof text, form, "dense\",\"rows\":[[1,0,-0.0,0],[0,1,0,0],[-0.0,0,1],[0,0,0,1]]");
    decoded_hash(other, text);
    assert_string_equal(other, hash[3]);
}

TEST(dense_rows_return_as_the_triangle_they_are)
{
    struct api_job *job = decoded("{\"n\":2,\"matrix\":{\"family\":\"dense\",\"rows\":[[1,0],[0.5,1]]},"
                                  "\"sampling\":{\"scheme\":\"none\"}," ASKED "}");
    json_t *json = api_job_encode(job, false);
    char *text = api_json_text(json_object_get(json_object_get(json, "matrix"), "rows"));

    assert_string_equal(text, "[[1],[0.5,1]]");
    free(text);
    json_decref(json);
    api_job_destroy(job);
}

/* The property on which resubmission rests. */
TEST(whatever_is_returned_can_be_posted_as_the_same_job)
{
    uint64_t seed = getenv("TEST_SEED") ? strtoull(getenv("TEST_SEED"), NULL, 10) : 1;
    size_t schemes[EPS_SCHEME_COUNT] = {0}, families[EPS_FAMILY_COUNT] = {0}, largest = 0;

    for (int i = 0; i < 5500; i++) {
        uint64_t before = seed;
        struct generated drawn;
        generate_job(&drawn, i < 4000 ? &generate_ordinary : &generate_phases, &seed);
        json_t *asked = generated_request(&drawn.job, &seed);
        char *asked_text = api_json_text(asked), hash[3][65];
        struct api_errors errors = {0};
        struct api_job *job = api_job_decode(&errors, asked, 0), meant = {.job = drawn.job};
        if (!job)
            fail_msg("seed %llu: %s\n%s: %s", (unsigned long long)before, asked_text, errors.items[0].pointer,
                     errors.items[0].detail);
        json_t *canonical = api_job_encode(job, true);
        char *text = api_json_text(canonical);
        struct api_job *again = decoded(text);
        json_t *fixed = api_job_encode(again, true);
        char *same = api_json_text(fixed);
        eps_job_defaults(&meant.job);
        api_job_hash(hash[0], job);
        api_job_hash(hash[1], again);
        api_job_hash(hash[2], &meant);
        assert_string_equal(hash[0], hash[1]);
        assert_string_equal(hash[0], hash[2]);
        assert_string_equal(text, same);
        schemes[job->job.mechanism.sampling.scheme] += drawn.job.phases_len == 0;
        families[job->job.mechanism.matrix.family] += drawn.job.phases_len == 0;
        largest += eps_job_unknown(&job->job) == EPS_SOLVE_RUNS;
        json_decref(fixed);
        json_decref(canonical);
        json_decref(asked);
        free(same);
        free(text);
        free(asked_text);
        api_job_destroy(job);
        api_job_destroy(again);
        generated_free(&drawn);
    }
    for (int scheme = 0; scheme < EPS_SCHEME_COUNT; scheme++)
        assert_true(schemes[scheme] > 600);
    for (int family = 0; family < EPS_FAMILY_COUNT; family++) /* fourier goes with one scheme */
        assert_true(families[family] > (family == EPS_FAMILY_FOURIER ? 50 : 250));
    assert_true(largest > 100);
}

/* Every scheme: the passes over the data are another way to write n, and leave no trace. */
TEST(epochs_are_the_job_with_n)
{
    static const struct {
        const char *by_epochs, *by_n;
    } rows[] = {
        {"{\"epochs\":2," SIZES("poisson") "," ASKED "}", "{\"n\":200," SIZES("poisson") "," ASKED "}"},
        {"{\"epochs\":0.011," SIZES("poisson") "," ASKED "}", "{\"n\":2," SIZES("poisson") "," ASKED "}"},
        {"{\"epochs\":2," SIZES("none") "," ASKED "}", "{\"n\":200," SIZES("none") "," ASKED "}"},
        {"{\"epochs\":2.5," SIZES("none") "," ASKED "}",
         "{\"n\":250,\"sampling\":{\"scheme\":\"none\",\"batch_size\":50,\"dataset_size\":5000,\"epochs\":3,"
         "\"separation\":100}," ASKED "}"},
        {"{\"epochs\":3,\"matrix\":{\"family\":\"banded\",\"bands\":4}," SIZES("cyclic_poisson") "," ASKED "}",
         "{\"n\":300,\"matrix\":{\"family\":\"banded\",\"bands\":4}," SIZES("cyclic_poisson") "," ASKED "}"},
        {"{\"epochs\":3,\"matrix\":{\"family\":\"banded\",\"bands\":4}," SIZES("b_min_sep") "," ASKED "}",
         "{\"n\":300,\"matrix\":{\"family\":\"banded\",\"bands\":4}," SIZES("b_min_sep") "," ASKED "}"},
        {"{\"epochs\":1.001,\"matrix\":{\"family\":\"optimal\"}," SIZES("balls_in_bins") "," ASKED "}",
         "{\"n\":200,\"matrix\":{\"family\":\"optimal\"}," SIZES("balls_in_bins") "," ASKED "}"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char one[65], other[65];
        decoded_hash(one, rows[i].by_epochs);
        decoded_hash(other, rows[i].by_n);
        assert_string_equal(one, other);
        struct api_job *job = decoded(rows[i].by_epochs), *wanted = decoded(rows[i].by_n);
        json_t *canonical = api_job_encode(job, true), *expected = api_job_encode(wanted, true);
        assert_true(json_equal(canonical, expected));
        assert_null(json_object_get(canonical, "epochs"));
        json_decref(canonical);
        json_decref(expected);
        api_job_destroy(job);
        api_job_destroy(wanted);
    }
}

TEST(a_million_coefficients_are_read_exactly)
{
    size_t n = (size_t)1 << 20;
    char *text = malloc(200 + 8 * n), hash[65];
    size_t used = (size_t)sprintf(text, "{\"n\":%zu,\"matrix\":{\"family\":\"toeplitz\",\"coefficients\":[", n);

    for (size_t i = 0; i < n; i++)
        used += (size_t)sprintf(text + used, "%s0.%zu5", i ? "," : "", i % 100);
    sprintf(text + used, "]},\"sampling\":{\"scheme\":\"none\"}," ASKED "}");
    struct api_job *job = decoded(text);
    const struct eps_matrix *matrix = &job->job.mechanism.matrix;
    assert_int_equal(matrix->coefficients_len, n);
    assert_true(matrix->coefficients[n - 1] == 0.755);
    api_job_hash(hash, job);
    assert_int_equal(strlen(hash), 64);
    api_job_destroy(job);
    free(text);
}

/* ---------------------------------------------------------------- examples */

static char *read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *text = calloc(1, 1 << 20);

    if (!file || !text)
        fail_msg("%s cannot be read", path);
    size_t len = fread(text, 1, (1 << 20) - 1, file);
    text[len] = '\0';
    fclose(file);
    return text;
}

/* The value of an example in the contract: flow style, which is JSON. */
static json_t *contract_example(const char *contract, const char *name)
{
    char key[80], message[256];
    const char *at;
    size_t len = 0, depth = 0;

    snprintf(key, sizeof key, "\n                %s:\n", name);
    at = strstr(contract, key);
    at = at ? strstr(at, "value:") : NULL;
    at = at ? strchr(at, '{') : NULL;
    if (!at)
        return NULL;
    do {
        depth += at[len] == '{';
        depth -= at[len] == '}';
    } while (at[len++] && depth > 0);
    return api_json_parse(at, len, message, sizeof message);
}

TEST(examples_decode_and_are_those_of_the_contract)
{
    static const char *const names[] = {"dp_sgd_epsilon", "dp_sgd_delta",   "dp_ftrl_noise_multiplier",
                                        "privacy_curve",  "replace_one",    "batch_size",
                                        "group_privacy",  "last_iterate",   "toeplitz_coefficients",
                                        "dense_rows",     "tree",           "momentum_workload",
                                        "fourier",        "banded_columns", "warm_up_and_fine_tunings",
                                        "largest_count",  "largest_n"};
    char *contract = read_file("api/openapi.yaml"), path[128];

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "api/examples/%s.json", names[i]);
        char *text = read_file(path);
        json_t *file = parsed(text), *example = contract_example(contract, names[i]);
        struct api_job *job = decoded(text);
        if (!example || !json_equal(file, example))
            fail_msg("%s differs from its example in api/openapi.yaml", path);
        api_job_destroy(job);
        json_decref(example);
        json_decref(file);
        free(text);
    }
    free(contract);
}

/* ---------------------------------------------------------------- answers */

TEST(a_result_has_the_shape_of_the_contract)
{
    char *assumption = (char[]){"p is public"};
    struct eps_candidate candidates[] = {
        {.accountant = EPS_ACCOUNTANT_PLD, .direction = EPS_REMOVE, .value = 1.5, .bad_event_share = NAN},
        {.accountant = EPS_ACCOUNTANT_RENYI, .direction = EPS_ADD, .value = 2.0, .order = 9, .bad_event_share = 0.25}};
    struct eps_result result = {.solved_for = EPS_SOLVE_EPSILON,
                                .epsilon = 1.5,
                                .delta = 1e-6,
                                .noise_multiplier = 1.0,
                                .bracket_lower = 1.25,
                                .bracket_upper = 1.5,
                                .bracket_exact = true,
                                .least = 1.125,
                                .accountant = EPS_ACCOUNTANT_PLD,
                                .directions = {candidates[0], candidates[1]},
                                .candidates = candidates,
                                .candidates_len = 2,
                                .adaptive = true,
                                .p = 0.01,
                                .expected_batch_size = NAN,
                                .factorization_id = "9f2c",
                                .optimality_gap = NAN,
                                .blt_decay = (double[]){0.5, 0.25},
                                .blt_scale = (double[]){1, 1e-3},
                                .blt_len = 2,
                                .error_mean_squared = NAN,
                                .error_max_squared = NAN,
                                .error_last_squared = NAN,
                                .assumptions = &assumption,
                                .assumptions_len = 1,
                                .cache_pld = EPS_CACHE_MISS};
    json_t *json = api_result_encode(&result);

    assert_int_equal(api_result_stamp(json, "miss", 0.5, 0.75), 0);
    char *text = api_json_text(json);
    assert_string_equal(
        text,
        "{\"solved_for\":\"epsilon\",\"epsilon\":1.5,\"delta\":1e-6,\"noise_multiplier\":1,"
        "\"bracket\":{\"lower\":1.25,\"upper\":1.5,\"exact\":true},\"least\":1.125,\"guarantee\":\"deterministic\","
        "\"accountant\":\"pld\","
        "\"directions\":{\"remove\":{\"value\":1.5,\"accountant\":\"pld\"},"
        "\"add\":{\"value\":2,\"accountant\":\"renyi\",\"order\":9,\"bad_event_share\":0.25}},"
        "\"candidates\":[{\"accountant\":\"pld\",\"direction\":\"remove\",\"value\":1.5},"
        "{\"accountant\":\"renyi\",\"direction\":\"add\",\"value\":2,\"order\":9,\"bad_event_share\":0.25}],"
        "\"adjacency\":\"zero_out\",\"adaptive\":true,\"sampling\":{\"p\":0.01,\"expected_batch_size\":null},"
        "\"sensitivity\":null,\"factorization\":{\"id\":\"9f2c\",\"iterations\":0,\"optimality_gap\":null,"
        "\"blt\":{\"decay\":[0.5,0.25],\"scale\":[1,0.001]}},"
        "\"error\":null,\"assumptions\":[\"p is public\"],\"hints\":[],"
        "\"cache\":{\"factorization\":\"unused\",\"pld\":\"miss\",\"result\":\"miss\"},\"version\":\"" EPS_VERSION "\","
        "\"accounting_version\":" TEXT_OF(EPS_ACCOUNTING_VERSION) ",\"compute_seconds\":0.75,\"elapsed_seconds\":0.5}");
    free(text);
    json_decref(json);
}

/* One direction was sampled, the other answered without; draws that found nothing below the answer have no ratio. */
TEST(what_was_drawn_stands_beside_the_answer)
{
    struct eps_result result = {
        .solved_for = EPS_SOLVE_EPSILON,
        .epsilon = 1.5,
        .delta = 1e-6,
        .noise_multiplier = 1.0,
        .bracket_lower = NAN,
        .bracket_upper = 1.5,
        .guarantee = EPS_GUARANTEE_HIGH_PROBABILITY,
        .accountant = EPS_ACCOUNTANT_MONTE_CARLO,
        .directions = {{.accountant = EPS_ACCOUNTANT_MONTE_CARLO, .value = 1.5, .bad_event_share = NAN},
                       {.accountant = EPS_ACCOUNTANT_RENYI, .direction = EPS_ADD, .value = 1, .bad_event_share = NAN}},
        .draws = {{.samples = 1000000,
                   .threshold = 5e-7,
                   .estimate = 4.5e-7,
                   .standard_error = 1e-8,
                   .failure_probability = 1e-6,
                   .seed = 9007199254740992,
                   .estimator = EPS_ESTIMATOR_TILTED,
                   .bound = 0.125,
                   .plain_samples = 2e9}},
        .audit = {{.samples = 1000, .lower = 1.25, .ratio = 1.2}, {.samples = 1000, .lower = 0, .ratio = NAN}},
        .unproven_estimate = {.value = 1.375, .standard_error = 0.0625, .samples = 8192, .direction = EPS_ADD},
        .optimality_gap = NAN};
    json_t *json = api_result_encode(&result);
    char *drawn = api_json_text(json_object_get(json, "monte_carlo"));
    char *audit = api_json_text(json_object_get(json, "audit"));
    char *unproven = api_json_text(json_object_get(json, "unproven_estimate"));

    assert_true(json_is_null(json_object_get(json, "bracket")));
    assert_string_equal(json_string_value(json_object_get(json, "guarantee")), "high_probability");
    assert_string_equal(drawn, "{\"remove\":{\"samples\":1000000,\"threshold\":5e-7,\"estimate\":4.5e-7,"
                               "\"standard_error\":1e-8,\"failure_probability\":1e-6,\"seed\":9007199254740992,"
                               "\"estimator\":\"tilted\",\"bound\":0.125,\"plain_samples\":2000000000},\"add\":null}");
    assert_string_equal(audit, "{\"remove\":{\"samples\":1000,\"lower\":1.25,\"ratio\":1.2},"
                               "\"add\":{\"samples\":1000,\"lower\":0,\"ratio\":null}}");
    assert_string_equal(unproven, "{\"value\":1.375,\"standard_error\":0.0625,\"samples\":8192,\"direction\":\"add\"}");
    json_decref(json);
    result.unproven_estimate.samples = 0;
    json = api_result_encode(&result);
    assert_null(json_object_get(json, "unproven_estimate"));
    free(unproven);
    free(audit);
    free(drawn);
    json_decref(json);
}

/* A seed that was not given does not come to stand in the job; what was given is in the order of the contract. */
TEST(the_tuning_of_draws_is_in_the_canonical_job)
{
    static const struct {
        const char *asked, *canonical;
    } jobs[] = {
        {"\"monte_carlo\"", "{\"method\":\"monte_carlo\",\"threshold_share\":0.5,\"estimator\":\"auto\"}"},
        {"{\"audit\":1e3,\"method\":\"pld\"}", "{\"method\":\"pld\",\"tolerance\":0.001,\"audit\":1000}"},
        {"{\"audit\":7,\"max_seconds\":2,\"estimator\":\"tilted\",\"threshold_share\":0.25,\"seed\":0,"
         "\"method\":\"monte_carlo\"}",
         "{\"method\":\"monte_carlo\",\"seed\":0,\"threshold_share\":0.25,"
         "\"estimator\":\"tilted\",\"max_seconds\":2,\"audit\":7}"},
        {"{\"samples\":1e6,\"method\":\"monte_carlo\"}",
         "{\"method\":\"monte_carlo\",\"samples\":1000000,\"threshold_share\":0.5,\"estimator\":\"auto\"}"},
    };

    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        char asked[512];
        snprintf(asked, sizeof asked, "{\"n\":9," POISSON "," ASKED ",\"accountant\":%s}", jobs[i].asked);
        struct api_job *job = decoded(asked);
        json_t *json = api_job_encode(job, false);
        char *text = api_json_text(json_object_get(json, "accountant"));
        assert_string_equal(text, jobs[i].canonical);
        free(text);
        json_decref(json);
        api_job_destroy(job);
    }
}

TEST(a_curve_is_points_or_csv_and_its_scalars_are_null)
{
    struct eps_curve_point points[] = {{.epsilon = 0, .delta = 0.5, .lower = 0.25, .remove = 0.5, .add = 0.125},
                                       {.epsilon = 0.1, .delta = 1e-6, .lower = NAN, .remove = 1e-6, .add = 0}};
    struct eps_result result = {.solved_for = EPS_SOLVE_CURVE,
                                .epsilon = NAN,
                                .delta = NAN,
                                .noise_multiplier = 2.0,
                                .curve = points,
                                .curve_len = 2};
    json_t *json = api_result_encode(&result), *curve = api_curve_encode(points, 2);
    struct text csv = {0};

    api_curve_csv(&csv, points, 2);
    assert_string_equal(csv.data, "epsilon,delta,lower,remove,add\n0,0.5,0.25,0.5,0.125\n0.1,1e-6,,1e-6,0\n");
    assert_true(json_is_null(json_object_get(json, "epsilon")));
    assert_true(json_is_null(json_object_get(json, "noise_multiplier")));
    assert_true(json_is_null(json_object_get(json, "bracket")));
    assert_true(json_equal(json_object_get(json, "curve"), json_object_get(curve, "points")));
    assert_true(json_is_null(json_object_get(json_array_get(json_object_get(curve, "points"), 1), "lower")));
    text_clear(&csv);
    json_decref(json);
    json_decref(curve);
}

TEST(every_problem_type_is_documented_and_found_by_name)
{
    for (int i = 0; i < API_PROBLEM_COUNT; i++) {
        const struct api_problem_type *type = api_problem_type((enum api_problem)i);
        assert_non_null(type->name);
        assert_int_equal(api_problem_named(type->name), i);
        assert_in_range(type->status, 400, 599);
        assert_true(strlen(type->title) > 10 && strlen(type->explanation) > 60);
    }
    assert_int_equal(api_problem_named("nonsense"), API_PROBLEM_COUNT);
}

TEST(a_library_error_becomes_a_problem_document)
{
    struct eps_error error = {.status = EPS_UNSUPPORTED,
                              .pointer = "/sampling/scheme",
                              .message = "not served",
                              .accountants = 1u << EPS_ACCOUNTANT_PLD};
    json_t *json = api_problem_of_error(&error, "/v1/jobs");
    char *text = api_json_text(json);

    assert_string_equal(text, "{\"type\":\"/problems/unsupported\",\"title\":\"No accountant serves this job\","
                              "\"status\":422,\"detail\":\"not served\",\"instance\":\"/v1/jobs\","
                              "\"errors\":[{\"pointer\":\"/sampling/scheme\",\"detail\":\"not served\"}],"
                              "\"accountants\":[\"pld\"]}");
    free(text);
    json_decref(json);
    error = (struct eps_error){.status = EPS_TOO_COSTLY, .message = "too much", .operations = 1e15, .bytes = 5.0};
    json = api_problem_of_error(&error, NULL);
    assert_true(json_number_value(json_object_get(json, "operations")) == 1e15);
    assert_null(json_object_get(json, "errors"));
    json_decref(json);
}

TEST(violations_are_summed_up_where_no_detail_is_given)
{
    struct api_errors errors = {0};

    api_errors_add(&errors, "/n", "must be %d", 1);
    json_t *json = api_problem_encode(API_PROBLEM_INVALID_JOB, NULL, NULL, &errors);
    assert_string_equal(json_string_value(json_object_get(json, "detail")), "/n: must be 1");
    json_decref(json);
    api_errors_add(&errors, "/delta", "must lie in (0, 1)");
    json = api_problem_encode(API_PROBLEM_INVALID_JOB, NULL, NULL, &errors);
    assert_string_equal(json_string_value(json_object_get(json, "detail")), "2 problems found; see errors");
    json_decref(json);
    api_errors_clear(&errors);
}
