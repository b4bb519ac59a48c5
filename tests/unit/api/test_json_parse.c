/*
 * Reading JSON in bounded memory: how much jansson allocates for any accepted text, and that long arrays of numbers,
 * which it does not see, are read exactly as it would read them.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <malloc.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/codec/codec.h"
#include "api/json/numbers.h"
#include "tests/unit/draw.h"
#include "tests/unit/test.h"

#define MIB ((size_t)1 << 20)

/* ---------------------------------------------------------------- what jansson allocates */

static size_t held, most; /* bytes, as malloc counts them, with its own overhead of eight per block */

static void *count_malloc(size_t bytes)
{
    void *data = malloc(bytes);
    held += data ? malloc_usable_size(data) + 8 : 0;
    most = held > most ? held : most;
    return data;
}

static void count_free(void *data)
{
    held -= data ? malloc_usable_size(data) + 8 : 0;
    free(data);
}

static json_t *parse(const char *text, size_t len)
{
    char message[256];
    most = held;
    return api_json_parse(text, len, message, sizeof message);
}

/* head, unit repeated, tail. */
static char *repeated(const char *head, const char *unit, const char *tail, size_t count, size_t *len)
{
    size_t head_len = strlen(head), unit_len = strlen(unit), tail_len = strlen(tail);
    *len = head_len + count * unit_len + tail_len;
    char *text = malloc(*len + 1);
    assert_non_null(text);
    memcpy(text, head, head_len);
    for (size_t i = 0; i < count; i++)
        memcpy(text + head_len + i * unit_len, unit, unit_len);
    memcpy(text + head_len + count * unit_len, tail, tail_len + 1);
    return text;
}

/* Parses; returns whether the text was accepted. */
static bool accepts(const char *head, const char *unit, const char *tail, size_t count, size_t *bytes)
{
    size_t len, before = held;
    char *text = repeated(head, unit, tail, count, &len);
    json_t *json = parse(text, len);
    bool accepted = json != NULL;
    *bytes = most - before;
    json_decref(json);
    assert_int_equal(held, before);
    free(text);
    return accepted;
}

static const struct {
    const char *head, *unit, *tail;
} shapes[] = {
    {"[", "{},", "1]"},
    {"[", "[],", "1]"},
    {"[", "\"\",", "1]"},
    {"[", "\"a\\u00e9\",", "1]"},
    {"[", "null,", "1]"},
    {"[", "true,7,", "\"\"]"},
    {"[", "1.5,", "\"\"]"},
    {"[\"\",", "1,", "1]"},
    {"[", "[1,2,3],", "1]"},
    {"[", "{\"a\":{}},", "1]"},
    {"[", "{\"a\":1,\"b\":2,\"c\":3,\"d\":4,\"e\":5,\"f\":6,\"g\":7,\"h\":8,\"i\":9},", "1]"},
    {"[", "[[[[]]]],", "1]"},
    {"[", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],", "1]"},
};

/* The largest accepted text of each shape takes no more memory than allowed, and no less than a quarter of that, so
 * that the estimate refuses little that would fit. Texts of 8 MiB are refused before jansson sees them. */
TEST(values_take_no_more_than_they_may)
{
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        size_t low = 1, high = 8 * MIB / strlen(shapes[i].unit), bytes;
        if (accepts(shapes[i].head, shapes[i].unit, shapes[i].tail, high, &bytes))
            fail_msg("%s: 8 MiB of it are accepted, in %zu bytes", shapes[i].unit, bytes);
        assert_int_equal(bytes, 0);
        high = 400000; /* times the least that a value costs is above the bound */
        while (high - low > 16 + low / 64) {
            size_t middle = low + (high - low) / 2;
            if (accepts(shapes[i].head, shapes[i].unit, shapes[i].tail, middle, &bytes))
                low = middle;
            else
                high = middle;
        }
        assert_true(accepts(shapes[i].head, shapes[i].unit, shapes[i].tail, low, &bytes));
        if (bytes > 17 * MIB || bytes < 4 * MIB)
            fail_msg("%s: %zu of them take %zu bytes", shapes[i].unit, low, bytes);
    }
}

/* Members have names of their own. */
TEST(members_are_counted)
{
    size_t count = 400000, len = 1;
    char *text = malloc(24 * count);

    assert_non_null(text);
    text[0] = '{';
    for (size_t i = 0; i < count; i++)
        len += (size_t)sprintf(text + len, "\"%zx\":1,", i);
    json_t *json = parse(text, len - 1);
    assert_null(json);
    assert_int_equal(held, 0);
    /* 50,000 are below the bound */
    for (len = 1, count = 0; count < 50000; count++)
        len += (size_t)sprintf(text + len, "\"%zx\":1,", count);
    text[len - 1] = '}';
    json = parse(text, len);
    assert_int_equal(json_object_size(json), 50000);
    assert_true(most < 17 * MIB);
    json_decref(json);
    free(text);
}

/* The same eight megabytes as an array of numbers, such as a matrix, take eight bytes a number. */
TEST(numbers_take_eight_bytes_each)
{
    size_t count = 4 * MIB - 2, len, packed_len;
    char *text = repeated("[", "1,", "1]", count, &len);
    json_t *json = parse(text, len);
    const double *values = api__packed(json, &packed_len);

    assert_non_null(values);
    assert_int_equal(packed_len, count + 1);
    for (size_t i = 0; i < packed_len; i++)
        assert_true(values[i] == 1.0);
    assert_true(most <= 8 * packed_len + MIB);
    json_decref(json);
    free(text);
}

/* Time is bounded, too: each of these took seconds, or memory in proportion to the square of its length. */
TEST(hostile_texts_are_read_once)
{
    static const struct {
        const char *head, *unit, *tail;
        bool accepted;
    } rows[] = {
        {"[", "1", "]", false},                                /* an integer of eight million digits */
        {"[0.", "1", "]", true},                               /* a decimal with as many digits */
        {"[\"", "\\u0001", "\"]", true},                       /* one string */
        {"[\"", "\\\"[", "\"]", true},                         /* brackets and quotes within it */
        {"", "[", "", false},                                  /* depth */
        {"", "{\"a\":", "", false},                            /* depth by members */
        {"", " ", "", false},                                  /* nothing */
        {"[", "1,", "x]", false},                              /* numbers, with an error at the end */
        {"[", "1,", "\"x\"]", false},                          /* the same, but JSON */
        {"[", "[1,", "", false},                               /* numbers that open something else */
        {"[1e", "0", "]", true},                               /* a long exponent */
        {"[", "123456789012345678901234567890,", "1]", false}, /* integers beyond 64 bits */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t bytes, count = 8 * MIB / strlen(rows[i].unit);
        if (accepts(rows[i].head, rows[i].unit, rows[i].tail, count, &bytes) != rows[i].accepted)
            fail_msg("%s%s...: %s", rows[i].head, rows[i].unit, rows[i].accepted ? "refused" : "accepted");
        if (bytes > 34 * MIB) /* a token of 8 MiB in a buffer that doubles, and its value */
            fail_msg("%s%s...: %zu bytes", rows[i].head, rows[i].unit, bytes);
    }
}

/* ---------------------------------------------------------------- long arrays of numbers */

/* An array of `count` elements "1", but the one at `index` is `odd`. */
static char *array_with(const char *odd, size_t index, size_t count)
{
    char *text = malloc(2 * count + strlen(odd) + 8);
    size_t len = 0;

    assert_non_null(text);
    for (size_t i = 0; i < count; i++)
        len += (size_t)sprintf(text + len, "%c%s", i ? ',' : '[', i == index ? odd : "1");
    sprintf(text + len, "]");
    return text;
}

static const char *const odd_numbers[] = {
    "0",
    "-0",
    "-0.0",
    "7",
    "-7",
    "1.5",
    "-1.5e3",
    "1E+2",
    "1e-2",
    " 1 ",
    "\n\t2\r",
    "5e-324",
    "1e-400",
    "1e308",
    "1e309",
    "-1e309",
    "0.1e1",
    "1e00",
    "01",
    "-01",
    "00",
    "1.",
    ".5",
    "+1",
    "-",
    "1e",
    "1e+",
    "0x10",
    "1_0",
    "1 2",
    "NaN",
    "Infinity",
    "true",
    "null",
    "\"1\"",
    "[]",
    "{}",
    "",
    "1,",
    ",1",
    "9007199254740992",
    "9007199254740993",
    "999999999999999999",
    "1000000000000000000",
    "-9223372036854775808",
    "9223372036854775808",
    "20000000000000000001",
    "0.10000000000000000000000000000000000000000000000000000000000000001",
};

/* Whether the text is JSON, and the coefficients that a job takes from it, packed or not. */
static void describe(char *out, size_t size, const char *array)
{
    struct api_errors errors = {0};
    char message[256] = "", *text = malloc(strlen(array) + 256);
    assert_non_null(text);
    int len = sprintf(text,
                      "{\"matrix\":{\"family\":\"toeplitz\",\"coefficients\":%s},\"n\":100,\"delta\":1e-6,"
                      "\"sampling\":{\"scheme\":\"none\"},\"noise_multiplier\":1}",
                      array);
    json_t *json = api_json_parse(text, (size_t)len, message, sizeof message);
    struct api_job *job = json ? api_job_decode(&errors, json, 0) : NULL;
    if (job) {
        double value = job->job.mechanism.matrix.coefficients[1];
        snprintf(out, size, "%a", value);
    } else {
        const char *said = json ? errors.items[0].pointer : strchr(message, ':');
        snprintf(out, size, "%s %s", said, json ? errors.items[0].detail : "");
    }
    api_job_destroy(job);
    api_errors_clear(&errors);
    json_decref(json);
    free(text);
}

/* The reading of a number, and the message about it, do not depend on the length of its array. */
TEST(long_arrays_are_read_as_short_ones)
{
    for (size_t i = 0; i < sizeof odd_numbers / sizeof odd_numbers[0]; i++) {
        char in_short[400], in_long[400];
        char *array = array_with(odd_numbers[i], 1, 3);
        describe(in_short, sizeof in_short, array);
        free(array);
        array = array_with(odd_numbers[i], 1, 90);
        describe(in_long, sizeof in_long, array);
        free(array);
        if (strcmp(in_short, in_long) != 0)
            fail_msg("\"%s\" is \"%s\" in a short array and \"%s\" in a long one", odd_numbers[i], in_short, in_long);
    }
}

TEST(long_arrays_are_exact)
{
    uint64_t seed = 11;
    enum { COUNT = 5000 };
    double *values = malloc(COUNT * sizeof *values);
    char *text = malloc(COUNT * 32 + 8);
    size_t len = 0, packed_len = 0;

    assert_true(values && text);
    for (size_t i = 0; i < COUNT; i++) {
        uint64_t bits = (draw_below(&seed, UINT64_MAX) << 1) ^ draw_below(&seed, UINT64_MAX);
        memcpy(&values[i], &bits, sizeof bits);
        if (!isfinite(values[i]) || i % 7 == 0)
            values[i] = (double)draw_below(&seed, 1 << 20);
        len += (size_t)sprintf(text + len, i % 7 ? "%c%.17g" : "%c%.0f", i ? ',' : '[', values[i]);
    }
    len += (size_t)sprintf(text + len, "]");
    json_t *json = parse(text, len);
    const double *packed = api__packed(json, &packed_len);
    assert_int_equal(packed_len, COUNT);
    assert_memory_equal(packed, values, COUNT * sizeof *values);
    char *written = api_json_text(json);
    json_t *again = parse(written, strlen(written));
    assert_true(json_equal(json, again));
    json_decref(json);
    json_decref(again);
    free(written);
    free(values);
    free(text);
}

/* Errors behind an array that was taken out are reported at their place in the client's text. */
TEST(places_are_those_of_the_whole_text)
{
    char message[256], *numbers = array_with("1", 0, 100), *text = malloc(1000);

    assert_non_null(text);
    int len = sprintf(text, "{\"a\":%s,\n \"b\":%s, oops}", numbers, numbers);
    assert_null(api_json_parse(text, (size_t)len, message, sizeof message));
    assert_non_null(strstr(message, "line 2, column 212:")); /* after the keyword */
    len = sprintf(text, "{\"a\":%s,\"a\":%s}", numbers, numbers);
    assert_null(api_json_parse(text, (size_t)len, message, sizeof message));
    assert_non_null(strstr(message, "duplicate"));
    /* an array where a name is expected is no possible mark */
    len = sprintf(text, "{%s:1}", numbers);
    assert_null(api_json_parse(text, (size_t)len, message, sizeof message));
    len = sprintf(text, "7%s", numbers);
    assert_null(api_json_parse(text, (size_t)len, message, sizeof message));
    /* the 64th level is the last one */
    memset(text, '[', 63);
    len = 63 + sprintf(text + 63, "%s", numbers);
    memset(text + len, ']', 63);
    json_t *json = parse(text, (size_t)len + 63);
    assert_non_null(json);
    json_decref(json);
    memset(text, '[', 64);
    len = 64 + sprintf(text + 64, "%s", numbers);
    memset(text + len, ']', 64);
    assert_null(api_json_parse(text, (size_t)len + 64, message, sizeof message));
    assert_string_equal(message, "line 1, column 65: nested deeper than 64 levels");
    free(numbers);
    free(text);
}

/* What looks like a mark in the client's text is the client's array. */
TEST(marks_cannot_be_written)
{
    static const char forged[] = "[\"0000000000000000000000000\"]";
    char *numbers = array_with("2", 0, 64), *text = malloc(1000);
    size_t packed_len;

    assert_non_null(text);
    int len = sprintf(text, "[%s,%s,\"\\ud83d\\ude42\"]", forged, numbers);
    json_t *json = parse(text, (size_t)len);
    assert_string_equal(json_string_value(json_array_get(json_array_get(json, 0), 0)), "0000000000000000000000000");
    assert_non_null(api__packed(json_array_get(json, 1), &packed_len));
    assert_int_equal(packed_len, 64);
    json_decref(json);
    free(numbers);
    free(text);
}

/* A long array is treated as an array where the job expects something else. */
TEST(long_arrays_in_wrong_places_are_arrays)
{
    static const struct {
        const char *job; /* %s: the array */
        const char *pointer;
        const char *said;
    } rows[] = {
        {"{\"n\":%s,\"sampling\":{\"scheme\":\"none\"},\"noise_multiplier\":1,\"delta\":0.1}", "/n", "not an array"},
        {"{\"n\":9,\"sampling\":%s,\"noise_multiplier\":1,\"delta\":0.1}", "/sampling", "not an array"},
        {"{\"n\":9,\"sampling\":{\"scheme\":%s},\"noise_multiplier\":1,\"delta\":0.1}", "/sampling/scheme",
         "not an array"},
        {"{\"n\":9,\"sampling\":{\"scheme\":\"none\"},\"noise_multiplier\":1,\"delta\":0.1,\"label\":%s}", "/label",
         "not an array"},
        {"{\"n\":9,\"sampling\":{\"scheme\":\"none\"},\"noise_multiplier\":1,\"delta\":0.1,\"accountant\":%s}",
         "/accountant", "not an array"},
        {"{\"n\":9,\"sampling\":{\"scheme\":\"none\"},\"noise_multiplier\":1,\"delta\":0.1,"
         "\"accountant\":{\"method\":\"mmcc\",\"bad_event_share\":%s}}",
         "/accountant/bad_event_share", "not an array"},
        {"{\"n\":9,\"matrix\":{\"family\":\"stored\",\"id\":%s},\"sampling\":{\"scheme\":\"none\"},"
         "\"noise_multiplier\":1,\"delta\":0.1}",
         "/matrix/id", "64 lower-case"},
        {"{\"n\":9,\"matrix\":{\"family\":\"dense\",\"rows\":%s},\"sampling\":{\"scheme\":\"none\"},"
         "\"noise_multiplier\":1,\"delta\":0.1}",
         "/matrix/rows", "an array of rows"},
    };
    char *numbers = array_with("3", 0, 80);

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct api_errors errors = {0};
        char text[1000];
        int len = sprintf(text, rows[i].job, numbers);
        json_t *json = parse(text, (size_t)len);
        assert_non_null(json);
        assert_null(api_job_decode(&errors, json, 0));
        assert_string_equal(errors.items[0].pointer, rows[i].pointer);
        if (!strstr(errors.items[0].detail, rows[i].said))
            fail_msg("%s: %s", rows[i].pointer, errors.items[0].detail);
        api_errors_clear(&errors);
        json_decref(json);
    }
    free(numbers);
}

BEFORE_TESTS
{
    json_set_alloc_funcs(count_malloc, count_free);
}
