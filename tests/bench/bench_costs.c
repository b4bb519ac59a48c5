/*
 * Predicted and measured costs of jobs: the accountants' estimates in operations, a nanosecond of one core each, beside
 * the processor time of eps_solve() without caches or threads. Reads one job per line of standard input, in the form
 * that the service takes, and prints one line of JSON for each.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "api/codec/codec.h"

#define N_MAX 10000000

static double processor_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int measure(const char *line, size_t len)
{
    char message[200];
    struct api_errors errors = {0};
    json_t *json = api_json_parse(line, len, message, sizeof message);
    struct api_job *job = json ? api_job_decode(&errors, json, N_MAX) : NULL;
    struct eps_context context = {0};
    struct eps_error error = {0};
    struct eps_result *result = NULL;
    double operations = 0, bytes = 0, begin;
    int failed = 1;
    if (!job) {
        fprintf(stderr, "bench_costs: %s: %s\n", json ? errors.items[0].detail : message, line);
        goto out;
    }
    if (eps_job_serves(&context, &error, &job->job, &operations, &bytes) == EPS_OK) {
        begin = processor_seconds();
        if (eps_solve(&context, &result, &error, &job->job) == EPS_OK)
            failed = 0;
    }
    if (failed)
        fprintf(stderr, "bench_costs: %s: %s\n", error.message, line);
    else
        printf("{\"predicted\": %.4g, \"measured\": %.4g}\n", 1e-9 * operations, processor_seconds() - begin);
    fflush(stdout);
out:
    eps_result_destroy(result);
    api_job_destroy(job);
    api_errors_clear(&errors);
    json_decref(json);
    return failed;
}

int main(void)
{
    char *line = NULL;
    size_t capacity = 0;
    int failed = 0;
    for (ssize_t len; (len = getline(&line, &capacity, stdin)) > 0;)
        failed |= measure(line, (size_t)len);
    free(line);
    return failed;
}
