/*
 * Batches compared with the accounted laws: the participation pattern of each example, pairs of examples, truncated
 * batches and shared users, by enumeration of the definitions; and guarantees that hold in every draw.
 *
 * Keys are fixed. Pearson's statistic is compared with its mean and eight of its deviations, which luck exceeds once
 * in 10^12 or so.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/epsilon.h"
#include "lib/numerics/hash.h"
#include "tests/unit/test.h"

enum { EXAMPLES = 240000, STEPS_MOST = 8 };

static struct eps_mechanism mechanism_of(enum eps_scheme scheme, size_t n)
{
    struct eps_job job;
    eps_job_init(&job);
    job.mechanism.n = n;
    job.mechanism.sampling.scheme = scheme;
    return job.mechanism;
}

static void make_key(uint8_t key[32], uint64_t number)
{
    memset(key, 7, 32);
    memcpy(key, &number, sizeof number);
}

static struct eps_batcher *start(struct eps_mechanism mechanism, uint64_t dataset, const struct eps_users *users,
                                 uint64_t number)
{
    struct eps_batcher *batcher = NULL;
    struct eps_error error = {0};
    uint8_t key[32];
    make_key(key, number);
    eps_batches_defaults(&mechanism, dataset);
    if (eps_batcher_create(&batcher, &error, &mechanism, dataset, users, key) != EPS_OK)
        fail_msg("%s: %s", error.pointer, error.message);
    return batcher;
}

static struct eps_batch next(struct eps_batcher *batcher)
{
    struct eps_batch batch;
    struct eps_error error;
    assert_int_equal(eps_batcher_next(batcher, &batch, &error), EPS_OK);
    return batch;
}

/* Every test asserts the order of the batches. */
static void assert_ascending(const struct eps_batch *batch, uint64_t dataset)
{
    for (size_t i = 0; i < batch->len; i++)
        assert_true(batch->indices[i] < (i + 1 < batch->len ? batch->indices[i + 1] : dataset));
}

/* For each example, the steps in which it takes part, as bits. */
static uint32_t *draw_patterns(struct eps_mechanism mechanism, uint32_t dataset, uint64_t number)
{
    uint32_t *patterns = calloc(dataset, sizeof *patterns);
    struct eps_batcher *batcher = start(mechanism, dataset, NULL, number);
    assert_non_null(patterns);
    for (size_t t = 0; t < mechanism.n; t++) {
        struct eps_batch batch = next(batcher);
        assert_int_equal(batch.step, t);
        assert_ascending(&batch, dataset);
        for (size_t i = 0; i < batch.len; i++)
            patterns[batch.indices[i]] |= 1u << t;
    }
    struct eps_batch batch;
    assert_int_equal(eps_batcher_next(batcher, &batch, NULL), EPS_INVALID);
    eps_batcher_destroy(batcher);
    return patterns;
}

/* Cells that are expected fewer than ten times are counted together. */
static void assert_law(const size_t *counts, const double *law, size_t cells, size_t draws, const char *what)
{
    double square = 0, freedom = -1, rest = 0, left = 0, total = 0;
    for (size_t c = 0; c < cells; c++) {
        double expected = law[c] * (double)draws, miss = (double)counts[c] - expected;
        total += law[c];
        if (law[c] == 0)
            assert_int_equal(counts[c], 0);
        if (expected < 10) {
            rest += expected;
            left += (double)counts[c];
            continue;
        }
        square += miss * miss / expected;
        freedom++;
    }
    assert_true(fabs(total - 1) < 1e-9);
    assert_true(fabs(left - rest) <= 8 * sqrt(rest) + 8);
    if (square > freedom + 8 * sqrt(2 * freedom) + 8)
        fail_msg("%s: chi-square %.1f of %.0f", what, square, freedom);
}

/* ---------------------------------------------------------------- the laws, by definition */

static bool draws_at(uint32_t pattern, size_t t)
{
    return pattern >> t & 1;
}

static double independent_rounds(uint32_t pattern, size_t n, double p, size_t from, size_t apart)
{
    double law = 1;
    for (size_t t = 0; t < n; t++) {
        bool turn = t % apart == from;
        law *= draws_at(pattern, t) ? (turn ? p : 0) : (turn ? 1 - p : 1);
    }
    return law;
}

static double poisson_law(const struct eps_mechanism *m, uint32_t pattern)
{
    return independent_rounds(pattern, m->n, m->sampling.p, 0, 1);
}

static double cyclic_law(const struct eps_mechanism *m, uint32_t pattern)
{
    double law = 0;
    for (size_t g = 0; g < m->sampling.groups; g++)
        law += independent_rounds(pattern, m->n, m->sampling.p, g, m->sampling.groups) / (double)m->sampling.groups;
    return law;
}

static double bins_law(const struct eps_mechanism *m, uint32_t pattern)
{
    size_t bins = m->sampling.bins;
    double law = 0, each = 1;
    for (size_t i = 0; i < bins; i++)
        law += independent_rounds(pattern, m->n, 1, i, bins) / (double)bins;
    for (size_t e = 0; e < m->n / bins; e++) {
        uint32_t epoch = pattern >> (e * bins) & ((1u << bins) - 1);
        each *= epoch && !(epoch & (epoch - 1)) ? 1 / (double)bins : 0;
    }
    return m->sampling.redraw ? each : law;
}

/* An example that sits out `barred` more steps. */
static double b_min_sep_from(uint32_t pattern, size_t n, double p, size_t b, size_t barred)
{
    double law = 1;
    for (size_t t = 0; t < n; t++) {
        if (barred) {
            law *= !draws_at(pattern, t);
            barred--;
        } else {
            law *= draws_at(pattern, t) ? p : 1 - p;
            barred = draws_at(pattern, t) ? b - 1 : 0;
        }
    }
    return law;
}

/* Algorithm 2's s is the number of steps since the last draw: the example sits out b - s. */
static double b_min_sep_law(const struct eps_mechanism *m, uint32_t pattern)
{
    size_t b = m->sampling.separation;
    double p = m->sampling.p, law = b_min_sep_from(pattern, m->n, p, b, 0);
    if (!m->sampling.warm_start)
        return law;
    double waits = 1 / (1 + (double)(b - 1) * p);
    law *= waits;
    for (size_t s = 1; s < b; s++)
        law += (1 - waits) / (double)(b - 1) * b_min_sep_from(pattern, m->n, p, b, b - s);
    return law;
}

static struct drawn {
    const char *name;
    double (*law)(const struct eps_mechanism *m, uint32_t pattern);
    enum eps_scheme scheme;
    size_t n;
    double p;
    size_t size; /* separation, groups, bins */
    bool flag;   /* redraw, warm_start */
} const drawn[] = {
    {"poisson", poisson_law, EPS_SCHEME_POISSON, 6, 0.3, 0, false},
    {"rare poisson", poisson_law, EPS_SCHEME_POISSON, 5, 0.004, 0, false},
    {"certain poisson", poisson_law, EPS_SCHEME_POISSON, 3, 1, 0, false},
    {"cyclic", cyclic_law, EPS_SCHEME_CYCLIC_POISSON, 8, 0.4, 3, false},
    {"cyclic, one step", cyclic_law, EPS_SCHEME_CYCLIC_POISSON, 2, 0.7, 5, false},
    {"bins", bins_law, EPS_SCHEME_BALLS_IN_BINS, 8, NAN, 4, false},
    {"bins drawn anew", bins_law, EPS_SCHEME_BALLS_IN_BINS, 6, NAN, 3, true},
    {"cold b-min-sep", b_min_sep_law, EPS_SCHEME_B_MIN_SEP, 8, 0.3, 3, false},
    {"warm b-min-sep", b_min_sep_law, EPS_SCHEME_B_MIN_SEP, 8, 0.3, 3, true},
    {"warm and rare", b_min_sep_law, EPS_SCHEME_B_MIN_SEP, 8, 0.01, 4, true},
    {"warm and certain", b_min_sep_law, EPS_SCHEME_B_MIN_SEP, 8, 1, 4, true},
    {"warm and long", b_min_sep_law, EPS_SCHEME_B_MIN_SEP, 4, 0.2, 9, true},
    {"no separation", b_min_sep_law, EPS_SCHEME_B_MIN_SEP, 5, 0.3, 1, true},
};

static struct eps_mechanism mechanism_drawn(const struct drawn *d)
{
    struct eps_mechanism m = mechanism_of(d->scheme, d->n);
    m.sampling.p = d->p;
    m.sampling.redraw = d->flag;
    m.sampling.warm_start = d->flag;
    *(d->scheme == EPS_SCHEME_BALLS_IN_BINS    ? &m.sampling.bins
      : d->scheme == EPS_SCHEME_CYCLIC_POISSON ? &m.sampling.groups
                                               : &m.sampling.separation) = d->size;
    if (d->scheme == EPS_SCHEME_POISSON)
        m.sampling.separation = 0;
    return m;
}

/* S9. */
TEST(patterns_have_their_law)
{
    for (size_t i = 0; i < sizeof drawn / sizeof *drawn; i++) {
        struct eps_mechanism m = mechanism_drawn(&drawn[i]);
        size_t counts[1 << STEPS_MOST] = {0};
        double law[1 << STEPS_MOST];
        uint32_t *patterns = draw_patterns(m, EXAMPLES, i);
        for (size_t j = 0; j < EXAMPLES; j++)
            counts[patterns[j]]++;
        for (uint32_t c = 0; c < 1u << m.n; c++)
            law[c] = drawn[i].law(&m, c);
        assert_law(counts, law, (size_t)1 << m.n, EXAMPLES, drawn[i].name);
        free(patterns);
    }
}

/* Neighbouring examples, and distant ones, in the first three steps. S9. */
TEST(pairs_are_independent)
{
    for (size_t i = 0; i < sizeof drawn / sizeof *drawn; i++) {
        struct eps_mechanism m = mechanism_drawn(&drawn[i]);
        size_t near[64] = {0}, far[64] = {0};
        double law[64], one[8] = {0};
        uint32_t *patterns = draw_patterns(m, EXAMPLES, 100 + i), bits = m.n < 3 ? 3 : 7;
        for (size_t j = 0; j < EXAMPLES; j += 2) {
            near[(patterns[j] & bits) << 3 | (patterns[j + 1] & bits)]++;
            far[(patterns[j / 2] & bits) << 3 | (patterns[EXAMPLES - 1 - j / 2] & bits)]++;
        }
        for (uint32_t c = 0; c < 1u << m.n; c++)
            one[c & bits] += drawn[i].law(&m, c);
        for (size_t c = 0; c < 64; c++)
            law[c] = one[c >> 3] * one[c & 7];
        assert_law(near, law, 64, EXAMPLES / 2, drawn[i].name);
        assert_law(far, law, 64, EXAMPLES / 2, drawn[i].name);
        free(patterns);
    }
}

/* ---------------------------------------------------------------- in every draw */

TEST(who_was_drawn_sits_out)
{
    enum { DATASET = 50000, STEPS = 400, APART = 37 };
    static size_t last[DATASET], sizes[STEPS];
    for (int warm = 0; warm < 2; warm++) {
        struct eps_mechanism m = mechanism_of(EPS_SCHEME_B_MIN_SEP, STEPS);
        m.sampling.p = 0.02;
        m.sampling.separation = APART;
        m.sampling.warm_start = warm;
        struct eps_batcher *batcher = start(m, DATASET, NULL, 1);
        memset(last, 0, sizeof last);
        for (size_t t = 0; t < STEPS; t++) {
            struct eps_batch batch = next(batcher);
            assert_ascending(&batch, DATASET);
            sizes[t] = batch.len;
            for (size_t i = 0; i < batch.len; i++) {
                size_t *at = &last[batch.indices[i]];
                assert_true(*at == 0 || t + 1 - *at >= APART);
                *at = t + 1;
            }
        }
        eps_batcher_destroy(batcher);
        /* From a warm start every batch has the same expected size; from a cold one the first has p times the data
         * set. */
        double steady = DATASET * 0.02 / (1 + (APART - 1) * 0.02), spread = 8 * sqrt(steady);
        for (size_t t = 0; t < STEPS; t++)
            if (warm)
                assert_true(fabs((double)sizes[t] - steady) <= spread);
        if (!warm)
            assert_true(fabs((double)sizes[0] - DATASET * 0.02) <= 8 * sqrt(DATASET * 0.02));
    }
}

/* The number of participations, and the smallest and largest distance between two of them. */
struct turns {
    size_t times, least, most;
};

static struct turns turns_of(uint32_t pattern, size_t n)
{
    struct turns turns = {.least = SIZE_MAX};
    for (size_t t = 0, last = SIZE_MAX; t < n; t++) {
        if (!draws_at(pattern, t))
            continue;
        if (last != SIZE_MAX) {
            turns.least = t - last < turns.least ? t - last : turns.least;
            turns.most = t - last > turns.most ? t - last : turns.most;
        }
        turns.times++;
        last = t;
    }
    return turns;
}

TEST(a_loader_keeps_its_schema)
{
    enum { DATASET = 1003 };
    struct eps_mechanism m = mechanism_of(EPS_SCHEME_NONE, 20);
    m.sampling.epochs = 3;
    m.sampling.separation = 6;
    for (enum eps_schema schema = 0; schema < EPS_SCHEMA_COUNT; schema++) {
        m.sampling.schema = schema;
        uint32_t *patterns = draw_patterns(m, DATASET, 2), differ = 0;
        for (size_t j = 0; j < DATASET; j++) {
            struct turns turns = turns_of(patterns[j], 20);
            assert_int_equal(turns.times, 3);
            assert_int_equal(patterns[j] >> 18, 0); /* nothing comes after the last epoch */
            for (size_t e = 0; e < 3; e++)
                assert_int_equal(turns_of(patterns[j] >> (6 * e) & 63, 6).times, 1);
            if (schema != EPS_SCHEMA_SHUFFLED)
                assert_true(turns.least == 6 && turns.most == 6);
            differ += turns.least != turns.most;
        }
        assert_true(differ > DATASET / 2 || schema != EPS_SCHEMA_SHUFFLED);
        free(patterns);
    }
}

TEST(batches_of_one_size_go_round)
{
    static const struct {
        uint64_t dataset, batch;
        enum eps_schema schema;
        size_t n;
    } cases[] = {{100, 20, EPS_SCHEMA_FIXED_ORDER, 13},    {100, 30, EPS_SCHEMA_MIN_SEPARATION, 17},
                 {100, 20, EPS_SCHEMA_SHUFFLED, 15},       {100, 7, EPS_SCHEMA_FIXED_ORDER, 4},
                 {100, 100, EPS_SCHEMA_MIN_SEPARATION, 5}, {97, 96, EPS_SCHEMA_MIN_SEPARATION, 30}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct eps_mechanism m = mechanism_of(EPS_SCHEME_NONE, cases[c].n);
        m.sampling.schema = cases[c].schema;
        m.sampling.batch_size = cases[c].batch;
        eps_batches_defaults(&m, cases[c].dataset); /* epochs and separation follow */
        struct eps_batcher *batcher = start(m, cases[c].dataset, NULL, c);
        for (size_t t = 0; t < m.n; t++)
            assert_int_equal(next(batcher).len, cases[c].batch);
        eps_batcher_destroy(batcher);
        uint32_t *patterns = draw_patterns(m, (uint32_t)cases[c].dataset, c);
        for (size_t j = 0; j < cases[c].dataset; j++) {
            struct turns turns = turns_of(patterns[j], m.n);
            assert_true(turns.times <= m.sampling.epochs);
            if (cases[c].schema != EPS_SCHEMA_SHUFFLED)
                assert_true(turns.least >= m.sampling.separation);
            if (cases[c].schema == EPS_SCHEMA_FIXED_ORDER && turns.times > 1)
                assert_true(turns.most == m.sampling.separation);
        }
        free(patterns);
    }
}

/* Each example is equally likely at every place of an epoch, and independent of any other. */
TEST(orders_are_random)
{
    enum { KEYS = 30000, DATASET = 6 };
    size_t pairs[2][36] = {{0}};
    double law[36];
    struct eps_mechanism m = mechanism_of(EPS_SCHEME_NONE, 6);
    m.sampling.epochs = 2;
    m.sampling.separation = 3;
    for (uint64_t k = 0; k < KEYS; k++)
        for (int shuffled = 0; shuffled < 2; shuffled++) {
            m.sampling.schema = shuffled ? EPS_SCHEMA_SHUFFLED : EPS_SCHEMA_FIXED_ORDER;
            uint32_t *patterns = draw_patterns(m, DATASET, k);
            /* The batch of examples 1 and 4 in the first epoch; and of example 1 in both. */
            size_t first = (size_t)__builtin_ctz(patterns[1] & 7), other = (size_t)__builtin_ctz(patterns[4] & 7),
                   again = (size_t)__builtin_ctz(patterns[1] >> 3);
            if (shuffled)
                pairs[1][6 * first + again]++;
            else
                pairs[0][6 * first + other]++;
            free(patterns);
        }
    /* Two of six places, two in each batch; and epochs that are independent. */
    for (size_t c = 0; c < 36; c++)
        law[c] = c / 6 > 2 || c % 6 > 2 ? 0 : c / 6 == c % 6 ? 1 / 15. : 2 / 15.;
    assert_law(pairs[0], law, 36, KEYS, "places");
    for (size_t c = 0; c < 36; c++)
        law[c] = c / 6 > 2 || c % 6 > 2 ? 0 : 1 / 9.;
    assert_law(pairs[1], law, 36, KEYS, "epochs");
}

/* ---------------------------------------------------------------- truncation */

static double choose(size_t n, size_t k)
{
    double value = 1;
    for (size_t i = 0; i < k; i++)
        value = value * (double)(n - i) / (double)(i + 1);
    return value;
}

/* The batch is a set of fewer than B, as Poisson sampling draws it, or any B of a larger one, all equally likely.
 * S9. */
TEST(truncation_keeps_any_subset)
{
    enum { DATASET = 6, MOST = 2, STEPS = 200000 };
    struct eps_mechanism m = mechanism_of(EPS_SCHEME_POISSON, STEPS);
    size_t counts[1 << DATASET] = {0};
    double law[1 << DATASET] = {0};
    m.sampling.p = 0.35;
    m.sampling.truncation = true;
    m.sampling.max_batch_size = MOST;
    struct eps_batcher *batcher = start(m, DATASET, NULL, 3);
    size_t truncated = 0;
    for (size_t t = 0; t < STEPS; t++) {
        struct eps_batch batch = next(batcher);
        uint32_t set = 0;
        assert_ascending(&batch, DATASET);
        for (size_t i = 0; i < batch.len; i++)
            set |= 1u << batch.indices[i];
        assert_true(batch.len <= MOST && (batch.truncated == 0 || batch.len == MOST));
        counts[set]++;
        truncated += batch.truncated;
    }
    eps_batcher_destroy(batcher);
    double left = 0;
    for (uint32_t set = 0; set < 1u << DATASET; set++) {
        size_t len = (size_t)__builtin_popcount(set);
        double probability = independent_rounds(set, DATASET, 0.35, 0, 1);
        if (len <= MOST) {
            law[set] += probability;
            continue;
        }
        left += probability * (double)(len - MOST);
        for (uint32_t sub = set; sub; sub = (sub - 1) & set)
            if (__builtin_popcount(sub) == MOST)
                law[sub] += probability / choose(len, MOST);
    }
    assert_law(counts, law, 1 << DATASET, STEPS, "truncated");
    assert_true(fabs((double)truncated / STEPS - left) < 8 * sqrt(left / STEPS) + 8. / STEPS);
}

TEST(who_is_truncated_stays_barred)
{
    struct eps_mechanism m = mechanism_of(EPS_SCHEME_B_MIN_SEP, 9);
    m.sampling.p = 1;
    m.sampling.separation = 3;
    m.sampling.warm_start = false;
    m.sampling.truncation = true;
    m.sampling.max_batch_size = 4;
    struct eps_batcher *batcher = start(m, 10, NULL, 4);
    for (size_t t = 0; t < 9; t++) {
        struct eps_batch batch = next(batcher);
        assert_int_equal(batch.len, t % 3 ? 0 : 4);
        assert_int_equal(batch.truncated, t % 3 ? 0 : 6);
    }
    eps_batcher_destroy(batcher);
}

/* S5: the groups have the accounted sizes. Without truncation the sizes are random. */
TEST(groups_are_dealt_where_their_size_counts)
{
    enum { DATASET = 1000, GROUPS = 7 };
    struct eps_mechanism m = mechanism_of(EPS_SCHEME_CYCLIC_POISSON, GROUPS);
    m.sampling.p = 1;
    m.sampling.groups = GROUPS;
    size_t sizes[2][GROUPS], uneven = 0;
    for (int truncated = 0; truncated < 2; truncated++) {
        m.sampling.truncation = truncated;
        m.sampling.max_batch_size = DATASET;
        struct eps_batcher *batcher = start(m, DATASET, NULL, 5);
        for (size_t g = 0; g < GROUPS; g++) {
            sizes[truncated][g] = next(batcher).len;
            if (truncated)
                assert_true(sizes[1][g] == DATASET / GROUPS || sizes[1][g] == DATASET / GROUPS + 1);
        }
        eps_batcher_destroy(batcher);
    }
    for (size_t g = 0; g < GROUPS; g++)
        uneven += sizes[0][g] != sizes[1][g];
    assert_true(uneven > 3);
}

/* ---------------------------------------------------------------- shared users */

/* Four examples of three users, at most two each: users 2 and 3 have one example, and so an empty one beside it. */
static const uint64_t begin[] = {0, 1, 3, 4, 6};
static const uint32_t user[] = {0, 0, 1, 1, 2, 2};
static const struct eps_users few = {begin, user, 4};

static struct eps_mechanism shared_mechanism(size_t n, size_t separation, size_t most, double p)
{
    struct eps_mechanism m = mechanism_of(EPS_SCHEME_B_MIN_SEP, n);
    m.sampling.p = p;
    m.sampling.separation = separation;
    m.sampling.examples_per_user = most;
    m.sampling.warm_start = false;
    return m;
}

/* Algorithm 3 as printed, on 4 examples and 3 empty ones: the sets of examples that remain of the sampled sets. */
static uint32_t algorithm_3(uint32_t sampled, size_t n, size_t all, size_t b, const uint32_t *users_of)
{
    uint32_t batches = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t e = 0; e < 4; e++) {
            bool in = sampled >> (i * all + e) & 1;
            for (size_t j = i + 1 > b ? i + 1 - b : 0; j < i; j++)
                for (size_t other = 0; other < all; other++)
                    in = in && !((sampled >> (j * all + other) & 1) && (users_of[e] & users_of[other]));
            batches |= (uint32_t)in << (4 * i + e);
        }
    return batches;
}

/* S9. */
TEST(users_have_the_law_of_algorithm_3)
{
    enum { KEYS = 120000, ALL = 7, STEPS = 3, CELLS = 1 << (4 * STEPS) };
    static const uint32_t users_of[ALL] = {1, 3, 2, 4, 4, 8, 8}; /* as bits; user 3 has empty ones only */
    static size_t counts[CELLS];
    static double law[CELLS];
    for (size_t b = 2; b <= 3; b++) {
        const double p = 0.3;
        memset(counts, 0, sizeof counts);
        memset(law, 0, sizeof law);
        for (uint32_t sampled = 0; sampled < 1u << (ALL * STEPS); sampled++)
            law[algorithm_3(sampled, STEPS, ALL, b, users_of)] += independent_rounds(sampled, ALL * STEPS, p, 0, 1);
        for (uint64_t k = 0; k < KEYS; k++) {
            struct eps_batcher *batcher = start(shared_mechanism(STEPS, b, 2, p), 4, &few, k);
            uint32_t batches = 0;
            for (size_t t = 0; t < STEPS; t++) {
                struct eps_batch batch = next(batcher);
                for (size_t i = 0; i < batch.len; i++)
                    batches |= 1u << (4 * t + batch.indices[i]);
            }
            counts[batches]++;
            eps_batcher_destroy(batcher);
        }
        assert_law(counts, law, CELLS, KEYS, "algorithm 3");
    }
}

TEST(users_keep_their_distance)
{
    enum { DATASET = 4000, USERS = 1500, STEPS = 200, APART = 11, MOST = 16 };
    static uint64_t from[DATASET + 1];
    static uint32_t whose[3 * DATASET];
    static size_t last[USERS], has[USERS];
    uint64_t state = 9;
    for (size_t j = 0; j < DATASET; j++) {
        from[j + 1] = from[j];
        for (size_t i = 0; i < 1 + j % 3; i++) {
            uint32_t one;
            do {
                state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
                one = (uint32_t)((state >> 33) % USERS);
            } while (has[one] == MOST);
            has[one]++;
            whose[from[j + 1]++] = one;
        }
    }
    struct eps_users users = {from, whose, USERS};
    struct eps_batcher *batcher = start(shared_mechanism(STEPS, APART, MOST, 0.01), DATASET, &users, 6);
    size_t taken = 0;
    for (size_t t = 0; t < STEPS; t++) {
        struct eps_batch batch = next(batcher);
        assert_ascending(&batch, DATASET);
        taken += batch.len;
        for (size_t i = 0; i < batch.len; i++)
            for (uint64_t u = from[batch.indices[i]]; u < from[batch.indices[i] + 1]; u++) {
                assert_true(last[whose[u]] == 0 || last[whose[u]] == t + 1 || t + 1 - last[whose[u]] >= APART);
                last[whose[u]] = t + 1;
            }
    }
    eps_batcher_destroy(batcher);
    assert_true(taken > STEPS);
}

/* ---------------------------------------------------------------- keys, and refused requests */

static void hash_batches(char hex[EPS__HASH_HEX], struct eps_mechanism m, uint64_t dataset,
                         const struct eps_users *users, uint64_t number)
{
    uint8_t digest[EPS__HASH_BYTES];
    struct eps__hash hash;
    struct eps_batcher *batcher = start(m, dataset, users, number);
    eps__hash_init(&hash, "batches");
    for (size_t t = 0; t < m.n; t++) {
        struct eps_batch batch = next(batcher);
        eps__hash_u64(&hash, batch.len);
        for (size_t i = 0; i < batch.len; i++)
            eps__hash_u64(&hash, batch.indices[i]);
    }
    eps_batcher_destroy(batcher);
    eps__hash_final(&hash, digest);
    eps__hash_hex(hex, digest);
}

/* The digests are those of the first version: clients may have tests that rely on a seed. */
TEST(a_key_gives_the_same_batches)
{
    static const char *const known[] = {"bb0092d7b7a4a5a3", "23fd1dff75bbbd5f", "d4febd265eb75621", "5d384add045c1fc9",
                                        "160ecce8dd9b895a"};
    struct eps_mechanism all[] = {mechanism_drawn(&drawn[0]), mechanism_drawn(&drawn[3]), mechanism_drawn(&drawn[5]),
                                  mechanism_drawn(&drawn[8]), mechanism_of(EPS_SCHEME_NONE, 10)};
    all[4].sampling.schema = EPS_SCHEMA_SHUFFLED;
    all[4].sampling.epochs = 2;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char hex[EPS__HASH_HEX], same[EPS__HASH_HEX], other[EPS__HASH_HEX];
        hash_batches(hex, all[i], 5000, NULL, 1);
        hash_batches(same, all[i], 5000, NULL, 1);
        hash_batches(other, all[i], 5000, NULL, 2);
        assert_string_equal(hex, same);
        assert_string_not_equal(hex, other);
        hex[16] = '\0';
        assert_string_equal(hex, known[i]);
    }
}

struct violations {
    char text[2000];
};

static void note(void *to, const char *pointer, const char *message)
{
    struct violations *violations = to;
    (void)message;
    strcat(strcat(violations->text, pointer), " ");
}

static void assert_refused(const struct eps_mechanism *given, uint64_t dataset, const char *pointers)
{
    struct violations violations = {""};
    struct eps_mechanism m = *given;
    struct eps_batcher *batcher = NULL;
    struct eps_error error = {0};
    uint8_t key[32] = {0};
    eps_batches_defaults(&m, dataset);
    size_t len = eps_batches_check(&m, dataset, 0, note, &violations);
    assert_string_equal(violations.text, pointers);
    assert_true((len > 0) == (*pointers != '\0'));
    if (len) {
        assert_int_equal(eps_batcher_create(&batcher, &error, &m, dataset, NULL, key), EPS_INVALID);
        assert_true(strncmp(error.pointer, pointers, strlen(error.pointer)) == 0);
        assert_null(batcher);
    }
}

TEST(what_is_wrong_is_named)
{
    struct eps_mechanism m = mechanism_of(EPS_SCHEME_POISSON, 10);
    m.sampling.p = 0.1;
    assert_refused(&m, 100, "");
    assert_refused(&m, 0, "/dataset_size ");
    assert_refused(&m, UINT64_C(1) << 32, "/dataset_size ");
    m.sampling.dataset_size = 100;
    assert_refused(&m, 0, "");
    assert_refused(&m, 101, "/dataset_size ");
    m.n = 0;
    m.sampling.p = 2;
    assert_refused(&m, 101, "/n /sampling/p /dataset_size ");
    /* Nothing is taken from the matrix. */
    m = mechanism_of(EPS_SCHEME_B_MIN_SEP, 10);
    m.sampling.p = 0.1;
    assert_refused(&m, 100, "/sampling/separation ");
    m.sampling.scheme = EPS_SCHEME_CYCLIC_POISSON;
    assert_refused(&m, 100, "/sampling/groups ");
    m.sampling.groups = SIZE_MAX;
    assert_refused(&m, 100, "/sampling/groups ");
    /* The data set may be given in either place for values that follow from it. */
    m = mechanism_of(EPS_SCHEME_POISSON, 10);
    m.sampling.batch_size = 10;
    assert_refused(&m, 100, "");
    m.sampling.truncation = true;
    m.sampling.max_batch_size = 12;
    assert_refused(&m, 100, "");
}

static void assert_users_refused(struct eps_mechanism m, const struct eps_users *users, const char *pointer,
                                 const char *words)
{
    struct eps_batcher *batcher = NULL;
    struct eps_error error = {0};
    uint8_t key[32] = {0};
    assert_int_equal(eps_batcher_create(&batcher, &error, &m, 4, users, key), EPS_INVALID);
    assert_string_equal(error.pointer, pointer);
    assert_non_null(strstr(error.message, words));
}

TEST(users_are_checked)
{
    static const uint64_t none[] = {0, 1, 1, 2, 3}, twice[] = {0, 2, 4, 5, 6};
    static const uint32_t whose[] = {0, 1, 1}, same[] = {0, 0, 0, 0, 1, 1};
    const struct eps_users nobody = {none, whose, 2}, doubled = {twice, same, 2};
    assert_users_refused(shared_mechanism(5, 2, 2, 0.1), NULL, "/users", "required");
    assert_users_refused(shared_mechanism(5, 2, 1, 0.1), &few, "/users", "examples_per_user over 1");
    assert_users_refused(shared_mechanism(5, 2, 2, 0.1), &nobody, "/users", "example 1 has no user");
    struct eps_users crowd = few;
    static const uint32_t one[] = {0, 0, 1, 0, 2, 2};
    crowd.user = one;
    assert_users_refused(shared_mechanism(5, 2, 2, 0.1), &crowd, "/users", "example 2 gives one");
    eps_batcher_destroy(start(shared_mechanism(5, 2, 2, 0.1), 4, &doubled, 1)); /* two examples each, named twice */
    struct eps_mechanism m = mechanism_of(EPS_SCHEME_POISSON, 5);               /* here users are only checked */
    m.sampling.p = 0.5;
    m.sampling.examples_per_user = 2;
    assert_users_refused(m, &crowd, "/users", "example 2 gives one");
    eps_batcher_destroy(start(m, 4, &few, 1));
    eps_batcher_destroy(start(m, 4, NULL, 1));
    eps_batcher_destroy(NULL);
}
