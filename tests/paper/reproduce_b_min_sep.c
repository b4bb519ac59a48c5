/*
 * b-min-sep subsampling (Dong and Ganesh 2026), section 7.1: figures 2 and 3, the mean squared error of prefix sums by
 * b-min-sep over that by cyclic Poisson and by balls in bins, n = 1024 steps, delta 1e-3, each with its best BandMF of
 * at most 32 bands; and section 7.4, a production run: the least certified noise, with and without truncation, and the
 * time that it took.
 *
 * Cyclic Poisson is answered by pld; the others by draws (`monte_carlo`, which verifies what it releases), as in the
 * paper, on noise multipliers 1% apart: two errors may be 2% apart for that alone. b-min-sep has a warm start, so
 * that every batch is as large as the others'. Less than 1 means that b-min-sep is better.
 *
 *     [POINTS=1] [GRID=1] reproduce_b_min_sep [figures|production]
 *
 * POINTS: all the paper's epochs and epsilons, not some of them; GRID: all its bands and separations, too, which
 * takes hours.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lib/epsilon.h"

#define LADDER 1.03 /* the effect of two steps of the ladder on a ratio of errors, and a little more */

enum { STEPS = 1024, LENGTHS = 4, BANDS_MOST = 32, EPSILONS = 6, WORKERS_MAX = 64, METHODS = 3 };

static const size_t lengths[LENGTHS] = {128, 256, 512, 1024}; /* of an epoch, in steps */
static const double epsilons[EPSILONS] = {0.5, 1, 2, 4, 8, 16};
static const enum eps_scheme methods[METHODS] = {EPS_SCHEME_B_MIN_SEP, EPS_SCHEME_CYCLIC_POISSON,
                                                 EPS_SCHEME_BALLS_IN_BINS};

/* One setting, and for each method the least error with the bands and the separation that attain it. */
struct point {
    size_t length;
    double epsilon, error[METHODS], seconds;
    size_t bands[METHODS], separation;
};

static atomic_int failures;

static void fail(const char *about, const char *why)
{
    printf("not ok - %s: %s\n", about, why);
    atomic_fetch_add(&failures, 1);
}

struct work {
    struct point *points;
    size_t len;
    bool whole;
    atomic_size_t next;
};

static double seconds_of(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* BandMF, optimised without amplification for the participations of the setting; separation: that of b-min-sep. */
static struct eps_job job_of(const struct point *point, enum eps_scheme scheme, size_t bands, size_t separation)
{
    struct eps_job job;
    eps_job_init(&job);
    job.mechanism.n = STEPS;
    job.mechanism.matrix.family = EPS_FAMILY_BANDED;
    job.mechanism.matrix.bands = bands;
    job.mechanism.matrix.epochs = STEPS / point->length;
    job.mechanism.matrix.separation = point->length;
    job.mechanism.sampling.scheme = scheme;
    double rate = 1 / (double)point->length;
    if (scheme == EPS_SCHEME_B_MIN_SEP) {
        job.mechanism.sampling.separation = separation;
        job.mechanism.sampling.p = fmin(rate / (1 - rate * (double)(separation - 1)), 1);
        job.mechanism.sampling.warm_start = true;
    } else if (scheme == EPS_SCHEME_CYCLIC_POISSON) {
        job.mechanism.sampling.groups = bands;
        job.mechanism.sampling.p = rate * (double)bands;
    } else {
        job.mechanism.sampling.bins = point->length;
    }
    job.query.epsilon = point->epsilon;
    job.query.delta = 1e-3;
    if (scheme != EPS_SCHEME_CYCLIC_POISSON)
        job.query.accountant.method = EPS_ACCOUNTANT_MONTE_CARLO;
    eps_job_defaults(&job);
    return job;
}

/* The mean squared error; NAN, and a printed line, where there is no answer. */
static double error_of(const struct eps_job *job)
{
    struct eps_result *result = NULL;
    struct eps_error error = {0};
    if (eps_solve(NULL, &result, &error, job) != EPS_OK) {
        fail(error.pointer, error.message);
        return NAN;
    }
    double found = result->error_mean_squared;
    eps_result_destroy(result);
    return found;
}

static void try_job(struct point *point, size_t method, size_t bands, size_t separation)
{
    struct eps_job job = job_of(point, methods[method], bands, separation);
    double found = error_of(&job);
    if (!(found < point->error[method]))
        return;
    point->error[method] = found;
    point->bands[method] = bands;
    if (method == 0)
        point->separation = separation;
}

/* Separations: the number of bands, then two times (or without `whole` eight times) the one before while it is less
 * than an epoch, and an epoch, which corresponds to balls in bins. */
static void solve(struct point *point, bool whole)
{
    double begin = seconds_of(CLOCK_THREAD_CPUTIME_ID);
    for (size_t method = 0; method < METHODS; method++)
        point->error[method] = INFINITY;
    for (size_t bands = whole ? 2 : 4; bands <= BANDS_MOST; bands *= whole ? 2 : 8) {
        try_job(point, 1, bands, 0);
        try_job(point, 2, bands, 0);
        for (size_t separation = bands; separation < point->length; separation *= whole ? 2 : 8)
            try_job(point, 0, bands, separation);
        try_job(point, 0, bands, point->length);
    }
    point->seconds = seconds_of(CLOCK_THREAD_CPUTIME_ID) - begin;
    printf("# epochs of %4zu, epsilon %4g: b-min-sep %8.4g (%zu bands, b = %zu), cyclic Poisson %8.4g (%zu), balls in "
           "bins %8.4g (%zu); %.0f s\n",
           point->length, point->epsilon, point->error[0], point->bands[0], point->separation, point->error[1],
           point->bands[1], point->error[2], point->bands[2], point->seconds);
    fflush(stdout);
}

static void *take_points(void *shared)
{
    struct work *work = shared;
    for (size_t i; (i = atomic_fetch_add(&work->next, 1)) < work->len;)
        solve(&work->points[i], work->whole);
    return NULL;
}

static double ratio_of(const struct point *point, size_t method)
{
    return point->error[0] / point->error[method];
}

/* One figure: the ratio by epoch length and epsilon, with shades. */
static void print_map(const struct work *work, size_t method, const char *title)
{
    printf("# %s\n#   epoch", title);
    for (size_t e = 0; e < EPSILONS; e++)
        printf("   eps %-4g", epsilons[e]);
    for (size_t l = 0; l < LENGTHS; l++) {
        printf("\n#  %6zu", lengths[l]);
        for (size_t e = 0; e < EPSILONS; e++) {
            double ratio = NAN;
            for (size_t i = 0; i < work->len; i++)
                if (work->points[i].length == lengths[l] && work->points[i].epsilon == epsilons[e])
                    ratio = ratio_of(&work->points[i], method);
            if (!isfinite(ratio))
                printf("          ");
            else
                printf("   %.3f %c%c", ratio, ratio < 0.9 ? '#' : ratio < 1 ? '+' : '.', ratio < 0.7 ? '#' : ' ');
        }
    }
    printf("\n");
}

/* The paper's statements about its figures. */
static void check_claims(const struct work *work)
{
    for (size_t i = 0; i < work->len; i++) {
        const struct point *point = &work->points[i];
        char about[64];
        snprintf(about, sizeof about, "epochs of %zu, epsilon %g", point->length, point->epsilon);
        if (!(ratio_of(point, 2) <= LADDER))
            fail(about, "balls in bins, which is a b-min-sep, is better");
        /* at 0.5 they differ by less than two steps of the ladder, in epochs of 512 */
        if (point->length < STEPS && point->epsilon >= 1 && !(ratio_of(point, 2) < 1))
            fail(about, "several epochs, and no improvement on balls in bins");
        if (point->length >= 512 && point->epsilon >= 4 && !(ratio_of(point, 1) < 1))
            fail(about, "long epochs, much epsilon, and no improvement on cyclic Poisson");
    }
}

static void print_figures(bool all, bool whole)
{
    struct point points[LENGTHS * EPSILONS];
    struct work work = {.points = points, .whole = whole};
    pthread_t threads[WORKERS_MAX];
    size_t started = 0;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    for (size_t l = 0; l < LENGTHS; l += all ? 1 : 2)
        for (size_t e = all ? 0 : 1; e < EPSILONS; e += all ? 1 : 2)
            points[work.len++] = (struct point){.length = lengths[l], .epsilon = epsilons[e]};
    while (started < WORKERS_MAX && (long)started + 1 < processors &&
           pthread_create(&threads[started], NULL, take_points, &work) == 0)
        started++;
    (void)take_points(&work);
    while (started > 0)
        pthread_join(threads[--started], NULL);
    print_map(&work, 1, "figure 2: MSE of b-min-sep over that of cyclic Poisson");
    print_map(&work, 2, "figure 3: MSE of b-min-sep over that of balls in bins");
    check_claims(&work);
}

/* most: a larger noise multiplier would be looser than it was. */
static void print_production(bool warm, bool truncation, double most)
{
    struct eps_job job;
    struct eps_result *result = NULL;
    struct eps_error error = {0};
    double begin = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    eps_job_init(&job);
    job.mechanism.n = 7200;
    job.mechanism.matrix.family = EPS_FAMILY_SQUARE_ROOT;
    job.mechanism.matrix.bands = 256;
    job.mechanism.sampling.scheme = EPS_SCHEME_B_MIN_SEP;
    job.mechanism.sampling.separation = 256;
    job.mechanism.sampling.batch_size = 1793;
    job.mechanism.sampling.dataset_size = 14745600;
    job.mechanism.sampling.warm_start = warm;
    job.mechanism.sampling.truncation = truncation;
    job.mechanism.sampling.max_batch_size = truncation ? 2048 : 0;
    job.query.epsilon = 10;
    job.query.delta = 1.301e-8;
    eps_job_defaults(&job);
    if (eps_solve(NULL, &result, &error, &job) != EPS_OK) {
        fail("section 7.4", error.message);
        return;
    }
    printf(
        "# section 7.4, %s start, %s: sigma %.4f by %s (%s) in %.0f s of one core; the paper: 0.47 in 300 CPU-days\n",
        warm ? "warm" : "cold", truncation ? "truncated at 2048" : "whole batches", result->noise_multiplier,
        eps_accountant_name(result->accountant), eps_guarantee_name(result->guarantee),
        seconds_of(CLOCK_PROCESS_CPUTIME_ID) - begin);
    fflush(stdout);
    if (!(result->noise_multiplier <= most))
        fail("section 7.4", "looser than it was");
    eps_result_destroy(result);
}

static bool asked_for(const char *name)
{
    const char *value = getenv(name);
    return value && strcmp(value, "1") == 0;
}

int main(int argc, char **argv)
{
    const char *part = argc > 1 ? argv[1] : "";
    bool figures = strcmp(part, "figures") == 0, production = strcmp(part, "production") == 0;
    if (argc > 2 || (*part && !figures && !production)) {
        fprintf(stderr, "usage: [POINTS=1] [GRID=1] %s [figures|production]\n", argv[0]);
        return 2;
    }
    if (!figures) {
        print_production(true, true, 0.41);
        print_production(true, false, 0.41);
        print_production(false, false, 0.41);
    }
    if (!production)
        print_figures(asked_for("POINTS") || asked_for("GRID"), asked_for("GRID"));
    return atomic_load(&failures) ? 1 : 0;
}
