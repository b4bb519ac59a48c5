/*
 * Times the accountants of balls in bins for the bench, on one core, without caches, in processor time. The rival is
 * the algorithm as the paper writes it (RA algorithm 1 with its errata, and the distances of section 4), which is
 * implemented here. Prints one JSON line.
 *
 *     bench_balls_in_bins orders identity|square_root|inverse_square_root n bins bands sigma order repeat
 *     bench_balls_in_bins distances identity|square_root|inverse_square_root n bins bands sigma
 *     bench_balls_in_bins epsilon|sigma identity|square_root|inverse_square_root n bins bands given accountant
 *
 * bands 0 is the number of bands of the family. orders: ln E X^a for all a <= order. distances: those of all pairs of
 * bins before every row; ours merges rows, and its time includes reading and merging. "apart" is the difference of the
 * two results, relative where they are over 1. epsilon and sigma are solved for at delta 1e-5, without a rival.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/accountants/conditional_composition/walk.h"
#include "lib/moments/laws/balls_in_bins.h"
#include "lib/moments/laws/chain.h"
#include "lib/strategy/merged.h"

#define DELTA 1e-5
#define EFFORT 1e9 /* operations: more than any of these orders needs */

static double now_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void stop(const char *message)
{
    fprintf(stderr, "bench_balls_in_bins: %s\n", message);
    exit(1);
}

static void *room(size_t len, size_t size)
{
    void *made = calloc(len, size);
    if (!made)
        stop("out of memory");
    return made;
}

static void must(enum eps_status status)
{
    if (status != EPS_OK)
        stop(eps_status_name(status));
}

/* family n bins bands */
static struct eps_job job_of(char **arguments)
{
    struct eps_job job;
    eps_job_init(&job);
    for (enum eps_family family = 0; family < EPS_FAMILY_COUNT; family++)
        if (strcmp(eps_family_name(family), arguments[0]) == 0)
            job.mechanism.matrix.family = family;
    job.mechanism.n = strtoul(arguments[1], NULL, 10);
    job.mechanism.matrix.normalization = EPS_NORMALIZATION_NONE;
    job.mechanism.matrix.bands = strtoul(arguments[3], NULL, 10);
    job.mechanism.sampling.scheme = EPS_SCHEME_BALLS_IN_BINS;
    job.mechanism.sampling.bins = strtoul(arguments[2], NULL, 10);
    eps_job_defaults(&job);
    return job;
}

static struct eps_strategy *strategy_of(const struct eps_job *job)
{
    struct eps_strategy *strategy = NULL;
    struct eps_error error = {0};
    if (eps_strategy_create(NULL, &strategy, &error, &job->mechanism) != EPS_OK)
        stop(error.message);
    return strategy;
}

/* ------------------------------------------------------------ moments, as the paper writes them */

/* A state is a tuple: the number of draws so far, and the numbers of draws from each of the last bins. Open
 * addressing. */
struct states {
    size_t capacity, len;
    uint64_t *key; /* 0: empty; else one more than the tuple, a byte for each number */
    double *log_weight;
};

static struct states states_new(size_t capacity)
{
    return (struct states){capacity, 0, room(capacity, sizeof(uint64_t)), room(capacity, sizeof(double))};
}

static void states_free(struct states *states)
{
    free(states->key);
    free(states->log_weight);
}

static double log_add(double a, double b)
{
    double high = fmax(a, b);
    return isinf(high) ? high : high + log1p(exp(fmin(a, b) - high));
}

static void states_add(struct states *states, uint64_t tuple, double log_weight)
{
    if (2 * states->len >= states->capacity) {
        struct states more = states_new(2 * states->capacity);
        for (size_t i = 0; i < states->capacity; i++)
            if (states->key[i] != 0)
                states_add(&more, states->key[i] - 1, states->log_weight[i]);
        states_free(states);
        *states = more;
    }
    uint64_t hash = (tuple + 1) * 0x9e3779b97f4a7c15u;
    size_t i = (size_t)(hash >> 20) & (states->capacity - 1);
    while (states->key[i] != 0 && states->key[i] != tuple + 1)
        i = (i + 1) & (states->capacity - 1);
    states->len += states->key[i] == 0;
    states->log_weight[i] = states->key[i] == 0 ? log_weight : log_add(states->log_weight[i], log_weight);
    states->key[i] = tuple + 1;
}

static unsigned drawn(uint64_t tuple)
{
    return tuple & 255;
}

/* The number of draws from the bin `back` places before this one. */
static unsigned count_of(uint64_t tuple, size_t back)
{
    return (unsigned)(tuple >> (8 * back)) & 255;
}

/* t more draws, from the next bin. */
static uint64_t moved_on(uint64_t tuple, unsigned t, size_t carried)
{
    uint64_t counts = ((tuple >> 8) << 8 | t) & ((1ull << (8 * carried)) - 1);
    return (uint64_t)(drawn(tuple) + t) | (carried > 0 ? counts << 8 : 0);
}

/* Lines 11 to 33: the bins from `bin` on. */
static struct states run_bins(struct states states, const struct eps__bin_gram *bins, size_t bin, unsigned order)
{
    size_t carried = bins->width - 1;
    for (; bin < bins->len; bin++) {
        struct states next = states_new(64);
        for (size_t i = 0; i < states.capacity; i++) {
            uint64_t tuple = states.key[i] - 1;
            double touched = 0;
            if (states.key[i] == 0)
                continue;
            for (size_t back = 1; back <= carried && back <= bin; back++)
                touched += eps__bin_gram_entry(bins, bin, bin - back) * count_of(tuple, back);
            for (unsigned t = 0; t <= order - drawn(tuple); t++) {
                double own = eps__bin_gram_entry(bins, bin, bin) * t * (t - 1.0) / 2;
                states_add(&next, moved_on(tuple, t, carried),
                           states.log_weight[i] + own + touched * t - lgamma(t + 1.));
            }
        }
        states_free(&states);
        states = next;
    }
    return states;
}

/* The contribution of the first bins (last one first in `prefix`) and the last bins that meet around the cycle. */
static double corner(const struct eps__bin_gram *bins, uint64_t prefix, uint64_t tuple)
{
    size_t carried = bins->width - 1;
    double sum = 0;
    for (size_t i = 0; i < carried; i++)
        for (size_t j = 0; j < carried; j++)
            if (i + 1 + j < bins->width)
                sum += eps__bin_gram_entry(bins, i, bins->len - 1 - j) * count_of(prefix, carried - i) *
                       count_of(tuple, j + 1);
    return sum;
}

/* Lines 7 to 10, one tuple after the other; if nothing meets around the cycle, none is needed. */
static void run_prefixes(double *log_sums, const struct eps__bin_gram *bins, unsigned order)
{
    struct states prefixes = states_new(64);
    states_add(&prefixes, 0, 0);
    size_t carried = bins->width - 1;
    if (!bins->open && carried > 0) {
        for (size_t bin = 0; bin < carried; bin++) {
            struct states next = states_new(64);
            for (size_t i = 0; i < prefixes.capacity; i++) {
                uint64_t tuple = prefixes.key[i] - 1;
                for (unsigned t = 0; prefixes.key[i] != 0 && t <= order - drawn(tuple); t++) {
                    double weight = prefixes.log_weight[i] - lgamma(t + 1.);
                    weight += eps__bin_gram_entry(bins, bin, bin) * t * (t - 1.0) / 2;
                    for (size_t back = 1; back <= bin; back++)
                        weight += eps__bin_gram_entry(bins, bin, bin - back) * count_of(tuple, back) * t;
                    states_add(&next, moved_on(tuple, t, carried), weight);
                }
            }
            states_free(&prefixes);
            prefixes = next;
        }
    }
    for (size_t l = 0; l < prefixes.capacity; l++) {
        if (prefixes.key[l] == 0)
            continue;
        uint64_t prefix = prefixes.key[l] - 1;
        struct states states = states_new(64);
        states_add(&states, prefix, prefixes.log_weight[l]);
        states = run_bins(states, bins, bins->open ? 0 : carried, order);
        for (size_t i = 0; i < states.capacity; i++)
            if (states.key[i] != 0) {
                uint64_t tuple = states.key[i] - 1;
                double weight = states.log_weight[i] + (bins->open ? 0 : corner(bins, prefix, tuple));
                log_sums[drawn(tuple)] = log_add(log_sums[drawn(tuple)], weight);
            }
        states_free(&states);
    }
    states_free(&prefixes);
}

static double *orders_naively(const struct eps__bin_gram *bins, unsigned order)
{
    double *log_moments = room((size_t)order + 1, sizeof *log_moments);
    if (order > 255 || bins->width > 7)
        stop("such a tuple has no room");
    for (unsigned a = 0; a <= order; a++)
        log_moments[a] = -INFINITY;
    run_prefixes(log_moments, bins, order);
    for (unsigned a = 0; a <= order; a++)
        log_moments[a] += lgamma(a + 1.) - a * log((double)bins->len);
    return log_moments;
}

/* ------------------------------------------------------------ moments, ours */

/* The chain over the whole band; a power of a series where there is none. */
static double *orders_ours(const struct eps__bin_gram *bins, unsigned order)
{
    double *log_moments = room((size_t)order + 1, sizeof *log_moments);
    if (bins->width == 1) {
        struct eps__orders orders;
        const struct eps__effort effort = {EFFORT, order, 0};
        must(eps__bin_gram_orders(NULL, &orders, bins, &effort));
        if (orders.len < order)
            stop("too few orders");
        memcpy(log_moments, orders.log_upper, ((size_t)order + 1) * sizeof *log_moments);
        eps__orders_clear(&orders);
    } else {
        double *lower = room((size_t)order + 1, sizeof *lower);
        struct eps__chain chain = eps__chain_of(bins, bins->width, order);
        must(eps__chain_double(NULL, &chain, log_moments, lower));
        free(lower);
    }
    return log_moments;
}

static struct eps__bin_gram bins_of(const struct eps_strategy *strategy, size_t len, double sigma)
{
    struct eps__bin_gram bins;
    double error, *gram = room(len * len, sizeof *gram);
    must(eps__merged_gram(NULL, gram, &error, strategy, len));
    must(eps__bin_gram_make(&bins, gram, NULL, len, error, sigma));
    free(gram);
    return bins;
}

static void time_orders(char **arguments)
{
    struct eps_job job = job_of(arguments);
    struct eps_strategy *strategy = strategy_of(&job);
    struct eps__bin_gram bins = bins_of(strategy, job.mechanism.sampling.bins, strtod(arguments[4], NULL));
    unsigned order = (unsigned)strtoul(arguments[5], NULL, 10);
    double best = INFINITY, apart = 0, *ours = NULL;
    for (long i = strtol(arguments[6], NULL, 10); i > 0; i--) {
        free(ours);
        double start = now_seconds();
        ours = orders_ours(&bins, order);
        best = fmin(best, now_seconds() - start);
    }
    double start = now_seconds(), *naive = orders_naively(&bins, order), seconds = now_seconds() - start;
    for (unsigned a = 0; ours && a <= order; a++)
        apart = fmax(apart, fabs(ours[a] - naive[a]) / fmax(1, naive[a]));
    printf("{\"seconds\": %.6g, \"naive_seconds\": %.6g, \"apart\": %.3g, \"last\": %.12g}\n", best, seconds, apart,
           naive[order]);
    free(ours);
    free(naive);
    eps__bin_gram_clear(&bins);
    eps_strategy_destroy(strategy);
}

/* ------------------------------------------------------------ distances */

/* Sums of all distances, so that they are not optimised away; each computed from the beginning. */
static double distances_naively(const double *rows, size_t len, size_t bins)
{
    double sum = 0;
    for (size_t n = 0; n < len; n++)
        for (size_t i = 0; i < bins; i++)
            for (size_t j = 0; j < i; j++) {
                double square = 0;
                for (size_t r = 0; r < n; r++) {
                    double apart = rows[r * bins + i] - rows[r * bins + j];
                    square += apart * apart;
                }
                sum += square;
            }
    return sum;
}

static double distances_ours(const struct eps__cc_matrix *matrix, double sigma)
{
    struct eps__cc_steps *steps;
    struct eps__cc_walk *walk;
    double sum = 0;
    must(eps__cc_steps_create(&steps, NULL, matrix, sigma, false));
    must(eps__cc_walk_create(&walk, steps));
    for (size_t bins = steps->bins; walk->at < steps->len;) {
        for (size_t i = 0; i < bins; i++)
            for (size_t j = 0; j < i; j++)
                sum += walk->gram[i * bins + i] + walk->gram[j * bins + j] - 2 * walk->gram[i * bins + j];
        if (walk->at + 1 == steps->len)
            break;
        eps__cc_walk_advance(walk);
    }
    eps__cc_walk_destroy(walk);
    eps__cc_steps_destroy(steps);
    return sum;
}

static void time_distances(char **arguments)
{
    struct eps_job job = job_of(arguments);
    struct eps_strategy *strategy = strategy_of(&job);
    size_t bins = job.mechanism.sampling.bins, len = eps_strategy_rows(strategy);
    double sigma = strtod(arguments[4], NULL), error = eps__merged_error(strategy, bins), begin = now_seconds();
    double *scratch = room(job.mechanism.n, sizeof *scratch), *rows = room(len * bins, sizeof *rows);
    struct eps__cc_matrix matrix = {.bins = bins, .draws = 1};
    for (size_t r = 0; r < len; r++) {
        eps__merged_row(strategy, rows + r * bins, bins, r, scratch);
        must(eps__cc_matrix_add(&matrix, rows + r * bins, error));
    }
    eps__cc_matrix_close(&matrix);
    double sum = distances_ours(&matrix, sigma), middle = now_seconds();
    double naive = distances_naively(rows, len, bins), end = now_seconds();
    double check = distances_naively(matrix.entry, matrix.len, bins); /* of the same rows as ours */
    printf("{\"seconds\": %.6g, \"naive_seconds\": %.6g, \"rows\": %zu, \"apart\": %.3g, \"sum\": %.12g}\n",
           middle - begin, end - middle, matrix.len, fabs(sum * sigma * sigma / check - 1), naive);
    eps__cc_matrix_clear(&matrix);
    free(scratch);
    free(rows);
    eps_strategy_destroy(strategy);
}

/* ------------------------------------------------------------ whole answers */

static void time_solve(bool for_sigma, char **arguments)
{
    struct eps_job job = job_of(arguments);
    struct eps_context context = {0};
    struct eps_error error = {0};
    struct eps_result *result = NULL;
    *(for_sigma ? &job.query.epsilon : &job.query.noise_multiplier) = strtod(arguments[4], NULL);
    job.query.delta = DELTA;
    for (enum eps_accountant accountant = 0; accountant < EPS_ACCOUNTANT_COUNT; accountant++)
        if (strcmp(eps_accountant_name(accountant), arguments[5]) == 0)
            job.query.accountant.method = accountant;
    double start = now_seconds();
    if (eps_solve(&context, &result, &error, &job) != EPS_OK)
        stop(error.message);
    printf("{\"value\": %.9g, \"seconds\": %.6g}\n", for_sigma ? result->noise_multiplier : result->epsilon,
           now_seconds() - start);
    eps_result_destroy(result);
}

int main(int argc, char **argv)
{
    if (argc == 9 && strcmp(argv[1], "orders") == 0)
        time_orders(argv + 2);
    else if (argc == 7 && strcmp(argv[1], "distances") == 0)
        time_distances(argv + 2);
    else if (argc == 8 && (strcmp(argv[1], "epsilon") == 0 || strcmp(argv[1], "sigma") == 0))
        time_solve(strcmp(argv[1], "sigma") == 0, argv + 2);
    else
        return 2;
    return 0;
}
