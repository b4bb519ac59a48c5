/*
 * What isolation costs: the same short questions answered in this process and by a cell, in turn. Prints the quantiles
 * of both and of their difference, in microseconds.
 *
 *   build/release/tests/bench/bench_isolation [COUNT]
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/cells/cell.h"
#include "server/cells/cells.h"
#include "server/ops/clock.h"

static const char *const jobs[] = {
    "{\"n\": 100, \"sampling\": {\"scheme\": \"none\"}, \"noise_multiplier\": 2, \"delta\": 1e-6}",
    ("{\"n\": 1000, \"matrix\": {\"family\": \"square_root\"}, \"sampling\": {\"scheme\": \"none\"}, "
     "\"noise_multiplier\": 2, \"delta\": 1e-6}"),
    "{\"n\": 20, \"sampling\": {\"scheme\": \"poisson\", \"p\": 0.01}, \"noise_multiplier\": 1, \"delta\": 1e-6}",
};

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print(const char *what, double *values, size_t len)
{
    qsort(values, len, sizeof *values, by_size);
    printf("  %-10s %9.0f %9.0f %9.0f\n", what, 1e6 * values[len / 10], 1e6 * values[len / 2],
           1e6 * values[9 * len / 10]);
}

static struct api_job *decode(const char *text)
{
    char message[256];
    struct api_errors errors = {0};
    json_t *json = api_json_parse(text, strlen(text), message, sizeof message);
    struct api_job *job = json ? api_job_decode(&errors, json, 0) : NULL;
    if (!job)
        fprintf(stderr, "%s: %s\n", text, errors.len ? errors.items[0].detail : message);
    api_errors_clear(&errors);
    json_decref(json);
    return job;
}

static double seconds(void *unused)
{
    (void)unused;
    return clock_thread();
}

static void measure(struct cells *cells, const char *text, size_t count)
{
    double *here = calloc(count, sizeof *here), *there = calloc(count, sizeof *there);
    double *more = calloc(count, sizeof *more);
    struct api_job *job = decode(text);
    if (!here || !there || !more || !job)
        exit(1);
    const struct question question = {.kind = QUESTION_SOLVE, .job = job};
    const struct eps_context context = {0};
    for (size_t i = 0; i < count; i++) {
        struct answer answer[2];
        double t0 = clock_monotonic();
        question_answer(&question, &context, seconds, NULL, &answer[0]);
        double t1 = clock_monotonic();
        cells_ask(cells, &question, &context, NULL, &answer[1]);
        double t2 = clock_monotonic();
        for (int k = 0; k < 2; k++) {
            if (answer[k].error.status != EPS_OK) {
                fprintf(stderr, "%s: %s\n", text, answer[k].error.message);
                exit(1);
            }
        }
        here[i] = t1 - t0;
        there[i] = t2 - t1;
        more[i] = there[i] - here[i];
        answer_clear(&answer[0]);
        answer_clear(&answer[1]);
    }
    printf("%s\n", text);
    print("here", here, count);
    print("cell", there, count);
    print("more", more, count);
    free(here);
    free(there);
    free(more);
    api_job_destroy(job);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], CELL_COMMAND) == 0)
        return command_cell(argc - 1, argv + 1);
    char message[512];
    size_t count = argc > 1 ? strtoul(argv[1], NULL, 10) : 500;
    struct config config;
    char *const serve[] = {(char *)(uintptr_t) "serve", NULL};
    if (sodium_init() < 0 ||
        config_read(&config, CONFIG_SERVE, 1, (char **)(uintptr_t)serve, message, sizeof message) < 0)
        return 1;
    config.isolate = ISOLATE_ON;
    struct pool *pool = pool_create((size_t)config.workers, 0, METRIC_COUNT);
    struct cells *cells = cells_create(&config, pool, message, sizeof message);
    if (!cells) {
        fprintf(stderr, "%s\n", message);
        return 1;
    }
    printf("%-12s %9s %9s %9s\n", "microseconds", "10%", "50%", "90%");
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++)
        measure(cells, jobs[i], count);
    bool well = cells_destroy(cells);
    pool_destroy(pool);
    return well ? 0 : 1;
}
