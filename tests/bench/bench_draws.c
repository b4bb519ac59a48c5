/*
 * Times the draws of Monte Carlo for the bench, on one core, and computes a lower bound on their time: the roofline is
 * the time of n bands multiply-adds and n normals, each at the peak rate that this machine reaches in a loop of nothing
 * else. Prints one JSON line, rates a second; each is the best of many short runs.
 *
 *     bench_draws n bands p seconds
 *
 * Square root, unit columns, b-min-sep with separation = bands, cold, remove, sigma 1.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#if defined __x86_64__
#include <immintrin.h>
#endif

#include "lib/accountants/monte_carlo/law.h"
#include "lib/job/setting.h"

enum { CHUNK = 1024, RUNS = 40, ROWS = 64 };

static double now_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void stop(const char *message)
{
    fprintf(stderr, "bench_draws: %s\n", message);
    exit(1);
}

/* Raises *best to the rate, in numbers a second, of work that makes `numbers` each time. */
static void rate(double *best, void (*work)(void *), void *with, double numbers, double seconds)
{
    double start = now_seconds(), spent, done = 0;
    do {
        work(with);
        done += numbers;
        spent = now_seconds() - start;
    } while (spent < seconds);
    *best = fmax(*best, done / spent);
}

/* ------------------------------------------------------------ multiply-adds */

enum { SUMS = 12, FUSED = 20000 }; /* independent sums: more than the latency of one can hold */

#if defined __x86_64__
__attribute__((target("avx512f"))) static void fuse_16(void *with)
{
    __m512d sum[SUMS], factor = _mm512_set1_pd(*(double *)with);
#pragma GCC unroll 12
    for (int i = 0; i < SUMS; i++)
        sum[i] = factor;
    for (int n = 0; n < FUSED; n++)
#pragma GCC unroll 12
        for (int i = 0; i < SUMS; i++) {
            sum[i] = _mm512_fmadd_pd(sum[i], factor, factor);
            __asm__ volatile("" : "+v"(sum[i]));
        }
}

__attribute__((target("avx2,fma"))) static void fuse_8(void *with)
{
    __m256d sum[SUMS], factor = _mm256_set1_pd(*(double *)with);
#pragma GCC unroll 12
    for (int i = 0; i < SUMS; i++)
        sum[i] = factor;
    for (int n = 0; n < FUSED; n++)
#pragma GCC unroll 12
        for (int i = 0; i < SUMS; i++) {
            sum[i] = _mm256_fmadd_pd(sum[i], factor, factor);
            __asm__ volatile("" : "+x"(sum[i]));
        }
}
#endif

static void fuse(void *with)
{
    double factor = *(double *)with, sum[SUMS];
#pragma GCC unroll 12
    for (int i = 0; i < SUMS; i++)
        sum[i] = factor;
    for (int n = 0; n < FUSED; n++)
#pragma GCC unroll 12
        for (int i = 0; i < SUMS; i++)
            sum[i] = fma(sum[i], factor, factor);
    *(double *)with = sum[0] < 3 ? factor : sum[SUMS - 1];
}

static void rate_fused(double *best, double seconds)
{
    double factor = 0.5;
#if defined __x86_64__
    if (__builtin_cpu_supports("avx512f"))
        rate(best, fuse_16, &factor, 8.0 * SUMS * FUSED, seconds);
    else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        rate(best, fuse_8, &factor, 4.0 * SUMS * FUSED, seconds);
    else
#endif
        rate(best, fuse, &factor, 1.0 * SUMS * FUSED, seconds);
}

/* ------------------------------------------------------------ normals */

struct normals {
    double *out;
    struct eps__stream stream;
};

static void make_normals(void *with)
{
    struct normals *normals = with;
    normals->stream.chunk++;
    for (uint32_t draw = 0; draw < CHUNK; draw += EPS__LANES)
        eps__normals(normals->out, &normals->stream, draw, 0, ROWS);
}

/* ------------------------------------------------------------ draws */

struct draws {
    const struct eps__mc_law *law;
    struct eps__stream stream;
    double *scratch, mean;
};

static void make_draws(void *with)
{
    struct draws *draws = with;
    double loss[EPS__LANES], log_weight[EPS__LANES];
    uint32_t first = (uint32_t)(draws->stream.chunk++ * EPS__LANES % CHUNK);
    draws->law->class->draw(draws->law, &draws->stream, first, draws->scratch, loss, log_weight);
    for (int lane = 0; lane < EPS__LANES; lane++)
        draws->mean += loss[lane];
}

static void *room(size_t len)
{
    void *made = aligned_alloc(64, (len * sizeof(double) + 63) / 64 * 64);
    if (!made)
        stop("out of memory");
    return made;
}

static struct eps_job job_of(size_t n, size_t bands, double p)
{
    struct eps_job job;
    eps_job_init(&job);
    job.mechanism.n = n;
    job.mechanism.matrix.family = EPS_FAMILY_SQUARE_ROOT;
    job.mechanism.matrix.bands = bands;
    job.mechanism.sampling.scheme = EPS_SCHEME_B_MIN_SEP;
    job.mechanism.sampling.separation = bands;
    job.mechanism.sampling.p = p;
    job.query.noise_multiplier = 1;
    job.query.delta = 1e-5;
    eps_job_defaults(&job);
    job.mechanism.sampling.warm_start = false;
    return job;
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return 2;
    size_t n = strtoul(argv[1], NULL, 10), bands = strtoul(argv[2], NULL, 10);
    double seconds = strtod(argv[4], NULL);
    struct eps_job job = job_of(n, bands, strtod(argv[3], NULL));
    struct eps_context context = {0};
    struct eps__setting setting;
    struct eps_error error = {0};
    if (eps__setting_open(&setting, &error, &context, &job) != EPS_OK)
        stop(error.message);
    struct eps__mc_aim aim = {.sigma = 1, .direction = EPS_REMOVE};
    struct eps__mc_law *law;
    if (eps__mc_b_min_sep.open(&law, &setting, &aim) != EPS_OK)
        stop("no law");

    struct normals normals = {room(ROWS * EPS__LANES), {.key = {1, 2}, .chunk = 0}};
    struct draws draws = {law, {.key = {3, 4}, .chunk = 0}, room(law->scratch), 0};
    double fused = 0, normal = 0, drawn = 0; /* in turn, so that all run under the same conditions */
    for (int run = 0; run < RUNS; run++) {
        rate_fused(&fused, seconds / (6 * RUNS));
        rate(&normal, make_normals, &normals, (double)CHUNK * ROWS, seconds / (6 * RUNS));
        rate(&drawn, make_draws, &draws, EPS__LANES, seconds / (1.5 * RUNS));
    }
    double roofline = 1 / ((double)(n * bands) / fused + (double)n / normal);
    printf(
        "{\"draws\": %.6g, \"fused\": %.6g, \"normals\": %.6g, \"roofline\": %.6g, \"share\": %.4f, \"mean\": %.4g}\n",
        drawn, fused, normal, roofline, drawn / roofline, draws.mean / ((double)draws.stream.chunk * EPS__LANES));
    free(normals.out);
    free(draws.scratch);
    law->class->destroy(law);
    eps__setting_close(&setting);
    return 0;
}
