/*
 * Times a training in process, as a server that is warm computes it, on two threads: the first of several runs makes
 * the plans of the transforms, and the best of the others counts. Reads one job from standard input and prints one line
 * of JSON.
 *
 *   build/release/tests/bench/bench_phases < job.json
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "api/codec/codec.h"
#include "server/work/pool.h"

#define N_MAX 10000000
#define JOB_MAX (1 << 20) /* bytes */
#define RUNS 5

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void on_parallel_for(void *user, size_t count, void (*body)(void *arg, size_t index), void *arg)
{
    pool_parallel_for(user, count, body, arg);
}

static int measure(const struct eps_job *job, struct pool *pool)
{
    double best = INFINITY, busy = 0, epsilon = 0, lower = 0;
    for (int i = 0; i <= RUNS; i++) {
        struct eps_context context = {.user = pool, .parallel_for = on_parallel_for};
        struct eps_error error = {0};
        struct eps_result *result = NULL;
        double began = seconds(CLOCK_MONOTONIC), used = seconds(CLOCK_PROCESS_CPUTIME_ID);
        if (eps_solve(&context, &result, &error, job) != EPS_OK) {
            fprintf(stderr, "bench_phases: %s\n", error.message);
            return 1;
        }
        double took = seconds(CLOCK_MONOTONIC) - began;
        if (i > 0 && took < best) {
            best = took;
            busy = seconds(CLOCK_PROCESS_CPUTIME_ID) - used;
        }
        epsilon = result->epsilon;
        lower = result->bracket_lower;
        eps_result_destroy(result);
    }
    printf("{\"epsilon\": %.17g, \"lower\": %.17g, \"seconds\": %.6g, \"busy\": %.6g}\n", epsilon, lower, best, busy);
    return 0;
}

int main(void)
{
    static char text[JOB_MAX];
    char message[200];
    struct api_errors errors = {0};
    json_t *json = api_json_parse(text, fread(text, 1, sizeof text, stdin), message, sizeof message);
    struct api_job *job = json ? api_job_decode(&errors, json, N_MAX) : NULL;
    struct pool *pool = pool_create(1, 0, METRIC_COUNT); /* its thread helps this one */
    int failed = 1;
    if (job && pool)
        failed = measure(&job->job, pool);
    else
        fprintf(stderr, "bench_phases: %s\n", !json ? message : !job ? errors.items[0].detail : "out of threads");
    pool_destroy(pool);
    api_job_destroy(job);
    api_errors_clear(&errors);
    json_decref(json);
    return failed;
}
