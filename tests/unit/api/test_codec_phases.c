/*
 * Trainings of several phases on the wire: what is filled in, and what is one job; and that jobs of one mechanism are
 * still what they were before there were phases. What is refused: refusals.jsonl.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <sodium.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/decoded.h"
#include "tests/unit/test.h"

#define POISSON "\"sampling\":{\"scheme\":\"poisson\",\"p\":0.1}"
#define SIZES(scheme) "\"sampling\":{\"scheme\":\"" scheme "\",\"batch_size\":50,\"dataset_size\":5000}"
#define PHASE "{\"n\":10," POISSON "}"
#define ASKED "\"delta\":1e-6,\"noise_multiplier\":1"
#define ALL_THREE "\"epsilon\":1," ASKED

/* ---------------------------------------------------------------- what was written */

/* As many phases as there may be, and one more; and as many numbers, which are kept packed. */
TEST(there_are_at_most_256_phases)
{
    static const char *const items[] = {PHASE, "1"};
    char *text = malloc(65536);

    for (size_t len = 256; len <= 257; len++) {
        for (size_t k = 0; k < 2; k++) {
            size_t used = (size_t)sprintf(text, "{\"phases\":[");
            for (size_t i = 0; i < len; i++)
                used += (size_t)sprintf(text + used, "%s%s", i ? "," : "", items[k]);
            sprintf(text + used, "]," ASKED "}");
            struct api_errors errors = {0};
            json_t *json = parsed(text);
            struct api_job *job = api_job_decode(&errors, json, 0);
            assert_int_equal(errors.len, job ? 0 : 1);
            assert_true(job ? len == 256 && k == 0 : strcmp(errors.items[0].pointer, "/phases") == 0);
            api_job_destroy(job);
            api_errors_clear(&errors);
            json_decref(json);
        }
    }
    free(text);
}

/* What the library says of a phase is found where the client wrote it. */
TEST(errors_of_the_library_point_to_what_was_written)
{
    static const struct {
        const char *pointer, *written;
    } rows[] = {
        {"/phases/0/n", "/phases/0/n"},
        {"/phases/1/n", "/phases/1/epochs"},
        {"/phases/2/n", "/phases/2/n"},
        {"/phases/1/sampling/p", "/phases/1/sampling/p"},
        {"/phases/1/sampling/examples_per_user", "/examples_per_user"},
        {"/accountant/method", "/accountant"},
        {"/phases/1/accountant/method", "/accountant"},
        {"/phases/0/accountant/tolerance", "/accountant/tolerance"},
        {"/phases/7/n", "/phases/7/n"},
        {"/phases/0", "/phases/0"},
        {"/phases", "/phases"},
        {"", ""},
    };
    struct api_job *job =
        decoded("{\"phases\":[" PHASE ",{\"epochs\":1," SIZES("poisson") "}]," ASKED ",\"accountant\":\"pld\"}");

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct eps_error error = {0};
        snprintf(error.pointer, sizeof error.pointer, "%s", rows[i].pointer);
        api_job_locate(job, &error);
        assert_string_equal(error.pointer, rows[i].written);
    }
    api_job_destroy(job);
}

/* ---------------------------------------------------------------- the canonical form */

static void check_canonical(const char *asked, const char *canonical)
{
    struct api_job *job = decoded(asked);
    json_t *json = api_job_encode(job, false);
    char *text = api_json_text(json);

    assert_string_equal(text, canonical);
    free(text);
    json_decref(json);
    api_job_destroy(job);
}

#define IDENTITY "\"matrix\":{\"family\":\"identity\",\"normalization\":\"max_column\",\"stamps\":1}"
#define PREFIX_SUM "\"workload\":{\"type\":\"prefix_sum\"}"
#define REST                                                                                                \
    "\"delta\":1e-6,\"noise_multiplier\":1,\"adjacency\":\"zero_out\",\"accountant\":{\"method\":\"auto\"," \
    "\"tolerance\""                                                                                         \
    ":0.001,\"bad_event_share\":\"auto\",\"threshold_share\":0.5,\"estimator\":\"auto\"}"

TEST(every_default_of_every_phase_is_filled_in)
{
    check_canonical("{\"phases\":[" PHASE ",{\"epochs\":2,\"matrix\":{\"family\":\"square_root\",\"bands\":4}," SIZES(
                        "b_min_sep") ",\"count\":20,\"noise_scale\":5e-1}],\"n\":null,\"sampling\":null," ASKED "}",
                    "{\"phases\":[{\"n\":10," IDENTITY
                    ",\"sampling\":{\"scheme\":\"poisson\",\"p\":0.1,\"last_iterate\":false}," PREFIX_SUM
                    ",\"noise_scale\":1,\"count\":1},{\"n\":200,\"matrix\":{\"family\":\"square_root\","
                    "\"normalization\":\"max_column\",\"stamps\":1,\"bands\":4},\"sampling\":{\"scheme\":\"b_min_sep\","
                    "\"batch_size\":50,\"dataset_size\":5000,\"separation\":4,\"warm_start\":true}," PREFIX_SUM
                    ",\"noise_scale\":0.5,\"count\":20}],\"examples_per_user\":1," REST ",\"curve\":false}");
    /* a user's examples are those of every phase, whose default they move */
    check_canonical("{\"phases\":[{\"n\":10,\"sampling\":{\"scheme\":\"b_min_sep\",\"p\":0.1,\"separation\":2},"
                    "\"count\":\"max\"}],\"examples_per_user\":3," ALL_THREE "}",
                    "{\"phases\":[{\"n\":10," IDENTITY ",\"sampling\":{\"scheme\":\"b_min_sep\",\"p\":0.1,"
                    "\"separation\":2,\"warm_start\":false}," PREFIX_SUM
                    ",\"noise_scale\":1,\"count\":\"max\"}],\"examples_per_user\":3,\"epsilon\":1," REST
                    ",\"curve\":false}");
    check_canonical("{\"n\":\"max\"," POISSON "," ALL_THREE "}",
                    "{\"n\":\"max\"," IDENTITY
                    ",\"sampling\":{\"scheme\":\"poisson\",\"p\":0.1,\"examples_per_user\":1,"
                    "\"last_iterate\":false},\"epsilon\":1," REST "," PREFIX_SUM ",\"curve\":false}");
}

TEST(the_library_is_asked_what_was_written)
{
    struct api_job *job =
        decoded("{\"phases\":[" PHASE ",{\"n\":3,\"matrix\":{\"family\":\"toeplitz\",\"coefficients\":"
                "[1,0.5]}," POISSON ",\"noise_scale\":2,\"count\":\"max\"}],\"examples_per_user\":7,"
                "\"adjacency\":\"add_remove\"," ALL_THREE "}");
    const struct eps_job *asked = &job->job;

    assert_int_equal(asked->phases_len, 2);
    assert_int_equal(eps_job_unknown(asked), EPS_SOLVE_RUNS);
    assert_int_equal(asked->mechanism.n, 0);
    assert_int_equal(asked->phases[0].count, 1);
    assert_true(asked->phases[0].noise_scale == 1 && asked->phases[1].noise_scale == 2);
    assert_true(asked->phases[1].count == EPS_LARGEST);
    assert_true(asked->phases[1].mechanism.matrix.coefficients[1] == 0.5);
    assert_int_equal(asked->phases[1].mechanism.sampling.examples_per_user, 7);
    assert_int_equal(asked->phases[1].mechanism.adjacency, EPS_ADJACENCY_ADD_REMOVE);
    api_job_destroy(job);
    job = decoded("{\"n\":\"max\"," POISSON "," ALL_THREE "}");
    assert_int_equal(eps_job_unknown(&job->job), EPS_SOLVE_N);
    assert_true(job->job.mechanism.n == EPS_LARGEST);
    api_job_destroy(job);
}

/* More arrays than one job has: each phase its own, and none of them in lists. */
TEST(lists_leave_the_arrays_of_phases_out)
{
    char text[16384] = "{\"phases\":[";

    for (int i = 0; i < 40; i++)
        sprintf(text + strlen(text),
                "%s{\"n\":9,\"matrix\":{\"family\":\"blt\",\"decay\":[0.5,0.%d5],\"scale\":[1,%d]},"
                "\"workload\":{\"type\":\"toeplitz\",\"coefficients\":[1,%d]}," POISSON "}",
                i ? "," : "", i % 10, i + 1, i);
    strcat(text, "]," ASKED "}");
    struct api_job *job = decoded(text);
    assert_int_equal(job->arrays_len, 120);
    assert_true(job->job.phases[39].mechanism.workload.coefficients[1] == 39);
    json_t *brief = api_job_encode_brief(job), *phases = json_object_get(brief, "phases");
    assert_int_equal(json_array_size(phases), 40);
    for (size_t i = 0; i < 40; i++) {
        json_t *phase = json_array_get(phases, i), *matrix = json_object_get(phase, "matrix");
        assert_string_equal(json_string_value(json_object_get(matrix, "family")), "blt");
        assert_null(json_object_get(matrix, "decay"));
        assert_null(json_object_get(matrix, "scale"));
        assert_null(json_object_get(json_object_get(phase, "workload"), "coefficients"));
    }
    json_decref(brief);
    api_job_destroy(job);
}

/* ---------------------------------------------------------------- identity */

TEST(trainings_that_say_the_same_are_one_job)
{
    static const char *const same[] = {
        "{\"phases\":[{\"n\":100," SIZES("poisson") "},{\"n\":5," POISSON ",\"count\":3}]," ASKED "}",
        "{" ASKED ",\"phases\":[{" SIZES("poisson") ",\"epochs\":1.0,\"noise_scale\":1},{\"count\":3e0,\"n\":5," POISSON
                                                    "}],\"examples_per_user\":1,\"label\":\"x\"}",
    };
    static const char *const other[] = {
        "{\"phases\":[{\"n\":5," POISSON ",\"count\":3},{\"n\":100," SIZES("poisson") "}]," ASKED "}",
        "{\"phases\":[{\"n\":100," SIZES("poisson") "},{\"n\":5," POISSON ",\"count\":4}]," ASKED "}",
        "{\"phases\":[{\"n\":100," SIZES("poisson") "},{\"n\":5," POISSON ",\"count\":3,\"noise_scale\":2}]," ASKED "}",
        "{\"phases\":[{\"n\":100," SIZES("poisson") "},{\"n\":5," POISSON
                                                    ",\"count\":3}],\"examples_per_user\":2," ASKED "}",
        "{\"phases\":[{\"n\":5," POISSON "}]," ASKED "}",
        "{\"n\":5," POISSON "," ASKED "}",
        "{\"phases\":[{\"n\":5," POISSON ",\"count\":\"max\"}]," ALL_THREE "}",
        "{\"n\":\"max\"," POISSON "," ALL_THREE "}",
    };
    char first[65], hash[65], seen[8][65];

    decoded_hash(first, same[0]);
    decoded_hash(hash, same[1]);
    assert_string_equal(hash, first);
    for (size_t i = 0; i < 8; i++) {
        decoded_hash(seen[i], other[i]);
        assert_string_not_equal(seen[i], first);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(seen[i], seen[k]);
    }
}

/* Lengths stand in the text that is hashed, and the numbers behind it: none may move from one phase to the next. */
TEST(arrays_of_phases_belong_to_the_identity)
{
    static const char form[] = "{\"phases\":[{\"n\":4,\"matrix\":{\"family\":\"toeplitz\",\"coefficients\":[%s]},"
                               "\"sampling\":{\"scheme\":\"none\"}},{\"n\":4,\"matrix\":{\"family\":\"toeplitz\","
                               "\"coefficients\":[%s]},\"sampling\":{\"scheme\":\"none\"}}]," ASKED "}";
    static const char *const coefficients[][2] = {{"1,2", "3"}, {"1", "2,3"}, {"1,2", "4"}, {"1,3", "2"}};
    char hash[4][65], text[512];

    for (size_t i = 0; i < 4; i++) {
        snprintf(text, sizeof text, form, coefficients[i][0], coefficients[i][1]);
        decoded_hash(hash[i], text);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(hash[i], hash[k]);
    }
}

/* The hashes that jobs of one mechanism had before there were phases: results that are stored are theirs still. */
static const struct {
    const char *example, *hash;
} before[] = {
    {"amplified_bandmf_truncated", "c0c05063c575aa48"},
    {"audit", "8a9591c0a1f238a0"},
    {"banded", "9689e106acd0764a"},
    {"banded_columns", "7e4e5765cfed3a06"},
    {"banded_inverse", "edfed1e32a67c6c8"},
    {"batch_size", "88343da86b834163"},
    {"blt", "94679d5df0b5fe69"},
    {"blt_given", "61c3fd968f1639c2"},
    {"dense_rows", "6b1dc2d489d77f03"},
    {"dp_ftrl_noise_multiplier", "ee2293eddd1fa7c8"},
    {"dp_sgd_delta", "45bfae5dddd74803"},
    {"dp_sgd_epsilon", "860923bee20bb8c4"},
    {"epochs", "887d96eaa31f92d2"},
    {"estimate_verify_release", "c637e26086d7833f"},
    {"fourier", "fc1894d71d8ee6fa"},
    {"group_privacy", "df9893b783fc8ebf"},
    {"inverse_square_root", "461f0e657127dd3a"},
    {"last_iterate", "61147a8f9a78c69b"},
    {"mmcc_banded", "ce773dc18ab098ed"},
    {"mmcc_tree_restarts", "09c3c0ea367c121d"},
    {"momentum_workload", "94229e3897e7deb1"},
    {"monte_carlo", "626f1ee1aab218b4"},
    {"optimal", "74e5b681f272a357"},
    {"privacy_curve", "0c01f82257cde23a"},
    {"random_allocation", "f8140282ecd73b97"},
    {"random_allocation_conditional_composition", "f698024f627bfa17"},
    {"replace_one", "67096853435f08f5"},
    {"shuffled_epochs", "87f2c1753675c44c"},
    {"toeplitz_coefficients", "48c625c62bdd2446"},
    {"tree", "fb6dd7534c4e05f2"},
};

static char line[1 << 16];

TEST(jobs_of_one_mechanism_kept_their_hash)
{
    for (size_t i = 0; i < sizeof before / sizeof before[0]; i++) {
        char path[128], hash[65];
        snprintf(path, sizeof path, "api/examples/%s.json", before[i].example);
        FILE *file = fopen(path, "r");
        assert_non_null(file);
        line[fread(line, 1, sizeof line - 1, file)] = '\0';
        fclose(file);
        decoded_hash(hash, line);
        assert_int_equal(strncmp(hash, before[i].hash, 16), 0);
    }
}

/* The same of the 472 valid jobs among those of tests/corpus, and of their canonical texts: one digest over all. */
TEST(jobs_of_one_mechanism_kept_their_text)
{
    json_t *lines = lines_of("tests/corpus/jobs.jsonl"), *asked;
    crypto_generichash_state fold;
    unsigned char digest[16];
    char hex[33], hash[65];
    size_t i, jobs = 0;

    crypto_generichash_init(&fold, NULL, 0, sizeof digest);
    json_array_foreach (lines, i, asked) {
        struct api_errors errors = {0};
        struct api_job *job = api_job_decode(&errors, asked, 0);
        api_errors_clear(&errors);
        if (!job)
            continue;
        json_t *canonical = api_job_encode(job, true);
        char *text = api_json_text(canonical);
        api_job_hash(hash, job);
        crypto_generichash_update(&fold, (const unsigned char *)text, strlen(text));
        crypto_generichash_update(&fold, (const unsigned char *)hash, strlen(hash));
        jobs++;
        free(text);
        json_decref(canonical);
        api_job_destroy(job);
    }
    json_decref(lines);
    crypto_generichash_final(&fold, digest, sizeof digest);
    sodium_bin2hex(hex, sizeof hex, digest, sizeof digest);
    assert_int_equal(jobs, 472);
    assert_string_equal(hex, "5e965248a2f0079fbde0b0d52564997b");
}

/* ---------------------------------------------------------------- answers */

static const struct eps_candidate none = {.value = NAN, .bad_event_share = NAN};

TEST(a_training_is_answered_phase_by_phase)
{
    struct eps_result first = {
        .epsilon = 0.5,
        .delta = 1e-6,
        .noise_multiplier = 2,
        .directions = {{.accountant = EPS_ACCOUNTANT_PLD, .value = 0.5, .bad_event_share = NAN},
                       {.accountant = EPS_ACCOUNTANT_PLD, .value = 0.25, .bad_event_share = NAN}},
        .adaptive = true,
        .p = 0.1,
        .expected_batch_size = 50,
        .sensitivity = 1,
        .sensitivity_rule = "unit_columns",
        .sensitivity_exact = true,
        .factorization_id = "9f2c",
        .optimality_gap = NAN,
        .error_mean_squared = 4,
        .error_max_squared = 8,
        .error_last_squared = 8};
    struct eps_phase_result phases[] = {
        {.count = 3, .composed = {EPS_ACCOUNTANT_PLD, EPS_ACCOUNTANT_MMCC}, .alone = &first, .share = 0.75},
        {.count = 0, .composed = {EPS_ACCOUNTANT_GAUSSIAN, EPS_ACCOUNTANT_GAUSSIAN}, .alone = NULL, .share = NAN}};
    struct eps_result result = {.solved_for = EPS_SOLVE_RUNS,
                                .epsilon = 1.5,
                                .delta = 1e-6,
                                .noise_multiplier = 1,
                                .largest = 3,
                                .bracket_lower = 3,
                                .bracket_upper = 4,
                                .least = NAN,
                                .accountant = EPS_ACCOUNTANT_AUTO,
                                .directions = {none, none},
                                .adaptive = true,
                                .p = NAN,
                                .expected_batch_size = NAN,
                                .optimality_gap = NAN,
                                .error_mean_squared = NAN,
                                .error_max_squared = NAN,
                                .error_last_squared = NAN,
                                .phases = phases,
                                .phases_len = 2};
    json_t *json = api_result_encode(&result);
    char *text = api_json_text(json);

    assert_string_equal(
        text, "{\"solved_for\":\"count\",\"epsilon\":1.5,\"delta\":1e-6,\"noise_multiplier\":1,\"count\":3,"
              "\"bracket\":{\"lower\":3,\"upper\":4,\"exact\":false},\"least\":null,\"guarantee\":\"deterministic\","
              "\"accountant\":\"auto\","
              "\"directions\":{\"remove\":{\"value\":null,\"accountant\":\"auto\"},"
              "\"add\":{\"value\":null,\"accountant\":\"auto\"}},\"candidates\":[],\"adjacency\":\"zero_out\","
              "\"adaptive\":true,\"sampling\":null,\"sensitivity\":null,\"factorization\":null,\"error\":null,"
              "\"assumptions\":[],\"hints\":[],\"phases\":[{\"count\":3,\"noise_multiplier\":2,\"epsilon\":0.5,"
              "\"share\":0.75,\"directions\":{\"remove\":{\"value\":0.5,\"accountant\":\"pld\",\"composed\":\"pld\"},"
              "\"add\":{\"value\":0.25,\"accountant\":\"pld\",\"composed\":\"mmcc\"}},"
              "\"sampling\":{\"p\":0.1,\"expected_batch_size\":50},"
              "\"sensitivity\":{\"value\":1,\"rule\":\"unit_columns\",\"exact\":true},"
              "\"factorization\":{\"id\":\"9f2c\",\"iterations\":0,\"optimality_gap\":null},"
              "\"error\":{\"mean_squared\":4,\"max_squared\":8,\"last_squared\":8},\"adaptive\":true},"
              "{\"count\":0,\"noise_multiplier\":null,\"epsilon\":null,\"share\":null,\"directions\":{\"remove\":{"
              "\"value\":null,\"accountant\":\"gaussian\",\"composed\":\"gaussian\"},\"add\":{\"value\":null,"
              "\"accountant\":\"gaussian\",\"composed\":\"gaussian\"}},"
              "\"sampling\":null,\"sensitivity\":null,\"factorization\":null,\"error\":null,\"adaptive\":null}],"
              "\"cache\":{\"factorization\":\"unused\",\"pld\":\"unused\"}}");
    free(text);
    json_decref(json);
    result = (struct eps_result){.solved_for = EPS_SOLVE_N, .largest = 0, .bracket_upper = 1, .p = 0.5};
    json = api_result_encode(&result);
    assert_string_equal(json_string_value(json_object_get(json, "solved_for")), "n");
    assert_true(json_is_integer(json_object_get(json, "n")) && json_integer_value(json_object_get(json, "n")) == 0);
    assert_null(json_object_get(json, "phases"));
    assert_null(json_object_get(json, "count"));
    assert_true(json_is_object(json_object_get(json, "sampling")));
    json_decref(json);
}
