/*
 * Times eps_solve() in process for the bench: best of several runs, each with a fresh context that has no
 * caches and lends no threads, so that one run is the whole work on one core.
 *
 * The peer's epsilon is given; the tolerance is halved from the default on until ours is not above it, so that
 * the two times buy the same answer or a better one of ours. Prints one JSON line.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "lib/epsilon.h"

static double now_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Solves the job `repeat` times. Returns the least time, or NAN after a message. Out: the answer. */
static double time_solve(const struct eps_job *job, long repeat, double *epsilon, double *lower)
{
    double best = INFINITY;
    for (long i = 0; i < repeat; i++) {
        struct eps_context context = {0};
        struct eps_error error = {0};
        struct eps_result *result = NULL;
        const double start = now_seconds();
        if (eps_solve(&context, &result, &error, job) != EPS_OK) {
            fprintf(stderr, "bench_solve: %s: %s\n", error.pointer, error.message);
            return NAN;
        }
        best = fmin(best, now_seconds() - start);
        *epsilon = result->epsilon;
        *lower = result->bracket_lower;
        eps_result_destroy(result);
    }
    return best;
}

/* A number of the command line; ends the program on anything else. */
static double number(const char *text)
{
    char *end;
    errno = 0;
    const double value = strtod(text, &end);
    if (errno != 0 || end == text || *end != '\0') {
        fprintf(stderr, "bench_solve: %s is not a number\n", text);
        exit(2);
    }
    return value;
}

int main(int argc, char **argv)
{
    if (argc != 7) {
        fprintf(stderr, "usage: %s N P NOISE_MULTIPLIER DELTA PEER_EPSILON REPEAT   (P = 1: no sampling)\n", argv[0]);
        return 2;
    }
    struct eps_job job;
    eps_job_init(&job);
    job.mechanism.n = (size_t)number(argv[1]);
    const double p = number(argv[2]);
    if (p < 1) {
        job.mechanism.sampling.scheme = EPS_SCHEME_POISSON;
        job.mechanism.sampling.p = p;
    } else {
        job.mechanism.sampling.scheme = EPS_SCHEME_NONE;
    }
    job.query.noise_multiplier = number(argv[3]);
    job.query.delta = number(argv[4]);
    eps_job_defaults(&job);
    const double peer = number(argv[5]);
    const long repeat = (long)number(argv[6]);

    double seconds = NAN, epsilon = NAN, lower = NAN;
    for (double tolerance = 1e-3; tolerance >= 1e-9; tolerance /= 2) {
        job.query.accountant.tolerance = tolerance;
        seconds = time_solve(&job, 1, &epsilon, &lower);
        if (isnan(seconds))
            return 1;
        if (epsilon <= peer)
            break;
    }
    seconds = time_solve(&job, repeat, &epsilon, &lower);
    if (isnan(seconds))
        return 1;
    printf("{\"epsilon\": %.17g, \"lower\": %.17g, \"seconds\": %.9g, \"tolerance\": %.17g}\n", epsilon, lower, seconds,
           job.query.accountant.tolerance);
    return 0;
}
