/*
 * The text of the metrics, in both formats, and threads that count while it is written.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/ops/metrics.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "server/ops/log.h"
#include "server/ops/quota.h"
#include "tests/unit/test.h"

static const char *const routes[] = {"GET /first", "GET /second"};

/* Whether the text has this line, or a line that begins so. */
static bool written(enum metrics_format format, const char *line)
{
    struct text text = {0};
    char found[256];
    snprintf(found, sizeof found, "\n%s", line);
    metrics_write(&text, format, routes, 2);
    assert_false(text.failed);
    bool has = strstr(text.data, found) != NULL;
    text_clear(&text);
    return has;
}

TEST(every_status_of_a_problem_is_counted)
{
    for (enum api_problem problem = 0; problem < API_PROBLEM_COUNT; problem++)
        metric_request(0, api_problem_type(problem)->status, 0.003, "problem");
    assert_true(written(METRICS_PROMETHEUS, "epsilond_http_requests_total{route=\"GET /first\",status=\"429\"} 1\n"));
    assert_false(written(METRICS_PROMETHEUS, "epsilond_http_requests_total{route=\"GET /first\",status=\"other\"}"));
    metric_request(0, 299, 0.003, "other");
    assert_true(written(METRICS_PROMETHEUS, "epsilond_http_requests_total{route=\"GET /first\",status=\"other\"} 1\n"));
    metric_request(SIZE_MAX, 404, 0.003, "nowhere");
    assert_true(written(METRICS_PROMETHEUS, "epsilond_http_requests_total{route=\"none\",status=\"404\"} 1\n"));
    metric_problem(API_PROBLEM_QUOTA);
    assert_true(written(METRICS_PROMETHEUS, "epsilond_http_problems_total{problem=\"quota\"} 1\n"));
}

TEST(each_quota_has_the_counter_of_its_name)
{
    char line[96];
    for (enum quota_kind kind = 0; kind < QUOTA_KINDS; kind++) {
        metric_add(METRIC_QUOTA_REFUSED + kind, 100 + (int64_t)kind);
        snprintf(line, sizeof line, "epsilond_quota_refused_total{quota=\"%s\"} %d\n", quota_name(kind),
                 100 + (int)kind);
        assert_true(written(METRICS_PROMETHEUS, line));
    }
}

TEST(buckets_end_at_their_bounds)
{
    metric_time(METRIC_TIME_COMMIT, 1, NULL);
    metric_time(METRIC_TIME_COMMIT, 1.5, NULL);
    metric_time(METRIC_TIME_COMMIT, 1e5, NULL);
    assert_true(written(METRICS_PROMETHEUS, "epsilond_store_commit_seconds_bucket{le=\"0.5\"} 0\n"));
    assert_true(written(METRICS_PROMETHEUS, "epsilond_store_commit_seconds_bucket{le=\"1\"} 1\n"));
    assert_true(written(METRICS_OPENMETRICS, "epsilond_store_commit_seconds_bucket{le=\"1.0\"} 1\n"));
    assert_true(written(METRICS_OPENMETRICS, "epsilond_store_commit_seconds_bucket{le=\"2.5\"} 2\n"));
    assert_true(written(METRICS_OPENMETRICS, "epsilond_store_commit_seconds_bucket{le=\"1800.0\"} 2\n"));
    assert_true(written(METRICS_OPENMETRICS, "epsilond_store_commit_seconds_bucket{le=\"+Inf\"} 3\n"));
    assert_true(written(METRICS_OPENMETRICS, "epsilond_store_commit_seconds_count 3\n"));
    assert_true(written(METRICS_OPENMETRICS, "epsilond_store_commit_seconds_sum 100002.500000\n"));
}

TEST(an_id_that_needs_escapes_is_no_exemplar)
{
    static const char line[] = "epsilond_run_seconds_bucket{le=\"1.0\"}";
    char longest[REQUEST_ID_SIZE], too_long[REQUEST_ID_SIZE + 1], expected[160];
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    memset(too_long, 'y', sizeof too_long);
    too_long[sizeof too_long - 1] = '\0';
    metric_time(METRIC_TIME_RUN, 0.75, longest);
    metric_time(METRIC_TIME_RUN, 0.8, "a\"b");
    metric_time(METRIC_TIME_RUN, 0.8, "a\\b");
    metric_time(METRIC_TIME_RUN, 0.8, "a\nb");
    metric_time(METRIC_TIME_RUN, 0.8, "");
    metric_time(METRIC_TIME_RUN, 0.8, NULL);
    metric_time(METRIC_TIME_RUN, 0.8, too_long);
    snprintf(expected, sizeof expected, "%s 7 # {request=\"%s\"} 0.75 ", line, longest);
    assert_true(written(METRICS_OPENMETRICS, expected));
    metric_time(METRIC_TIME_RUN, 0.9, "later");
    snprintf(expected, sizeof expected, "%s 8 # {request=\"later\"} 0.9 ", line);
    assert_true(written(METRICS_OPENMETRICS, expected));
    assert_true(written(METRICS_PROMETHEUS, "epsilond_run_seconds_bucket{le=\"1\"} 8\n"));
}

enum { THREADS = 4, TIMES = 20000 };
static atomic_bool over;

static void *count(void *argument)
{
    const char *id = argument;
    for (int i = 0; i < TIMES; i++)
        metric_request(1, 200, 1e-4 * (i % 8), id);
    return NULL;
}

static void *write_again(void *argument)
{
    (void)argument;
    while (!atomic_load(&over))
        assert_false(written(METRICS_OPENMETRICS, "epsilond_bugs_total 1\n"));
    return NULL;
}

TEST(nothing_is_lost_among_threads)
{
    static char ids[THREADS][4] = {"one", "two", "tri", "for"};
    pthread_t threads[THREADS], writer;
    assert_int_equal(pthread_create(&writer, NULL, write_again, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count, ids[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    atomic_store(&over, true);
    pthread_join(writer, NULL);
    assert_true(written(METRICS_PROMETHEUS, "epsilond_http_request_seconds_count{route=\"GET /second\"} 80000\n"));
    assert_true(
        written(METRICS_PROMETHEUS, "epsilond_http_requests_total{route=\"GET /second\",status=\"200\"} 80000\n"));
}
