/*
 * Factorisations by id: what a computed strategy leaves in the caller's cache is enough to compute it again to the same
 * bits, for every family, and nothing stored under an id can pass for another matrix. Optimised ones are computed once
 * and come from the cache afterwards.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lib/strategy/strategy.h"
#include "tests/unit/cache.h"
#include "tests/unit/test.h"

enum { N = 48 };

/* ---------------------------------------------------------------- the families */

static const double coefficients[] = {1, 0.5, 0.25, 0.125};
static const double decay[] = {0.9, 0.5}, scale[] = {0.4, 0.3};
static double rows[N * N];

static const struct eps_matrix matrices[] = {
    {.family = EPS_FAMILY_IDENTITY},
    {.family = EPS_FAMILY_TOEPLITZ, .coefficients = coefficients, .coefficients_len = 4},
    {.family = EPS_FAMILY_DENSE, .rows = rows, .rows_n = N},
    {.family = EPS_FAMILY_SQUARE_ROOT, .bands = N},
    {.family = EPS_FAMILY_SQUARE_ROOT, .bands = 7},
    {.family = EPS_FAMILY_SQUARE_ROOT, .bands = 7, .stamps = 4},
    {.family = EPS_FAMILY_INVERSE_SQUARE_ROOT, .bands = 5},
    {.family = EPS_FAMILY_BANDED, .bands = 5, .toeplitz = true},
    {.family = EPS_FAMILY_BANDED, .bands = 5, .toeplitz = true, .column_normalize = true},
    {.family = EPS_FAMILY_BANDED, .bands = 5, .toeplitz = true, .stamps = 3},
    {.family = EPS_FAMILY_BANDED, .bands = 5},
    {.family = EPS_FAMILY_BANDED_INVERSE, .bands = 4},
    {.family = EPS_FAMILY_BLT, .buffers = 2},
    {.family = EPS_FAMILY_BLT, .decay = decay, .scale = scale, .blt_len = 2},
    {.family = EPS_FAMILY_OPTIMAL, .nonnegative = true},
    {.family = EPS_FAMILY_TREE, .decoder = EPS_DECODER_ONLINE},
    {.family = EPS_FAMILY_TREE, .decoder = EPS_DECODER_FULL},
    {.family = EPS_FAMILY_FOURIER, .decoder = EPS_DECODER_OPTIMAL},
};
enum { MATRICES = sizeof matrices / sizeof *matrices };

static struct eps_mechanism mechanism_of(const struct eps_matrix *matrix)
{
    struct eps_job job;
    eps_job_init(&job);
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j <= i; j++)
            rows[i * N + j] = i == j ? 1.5 : 1.0 / (double)(2 + i + 3 * j);
    job.mechanism.n = N;
    job.mechanism.matrix = *matrix;
    job.mechanism.matrix.normalization = EPS_NORMALIZATION_MAX_COLUMN;
    job.mechanism.matrix.stamps = matrix->stamps ? matrix->stamps : 1;
    job.mechanism.matrix.gap = 1e-3;
    job.mechanism.sampling.scheme = EPS_SCHEME_NONE;
    job.mechanism.sampling.epochs = 2;
    job.mechanism.sampling.separation = 12;
    eps_job_defaults(&job);
    return job.mechanism;
}

static struct eps_mechanism stored(const char *id)
{
    struct eps_mechanism mechanism = mechanism_of(&(struct eps_matrix){.family = EPS_FAMILY_STORED});
    memcpy(mechanism.matrix.stored_id, id, 65);
    return mechanism;
}

static struct eps_strategy *create(const struct eps_context *context, const struct eps_mechanism *mechanism)
{
    struct eps_strategy *strategy = NULL;
    struct eps_error error = {0};
    if (eps_strategy_create(context, &strategy, &error, mechanism) != EPS_OK)
        fail_msg("family %s: %s: %s", eps_family_name(mechanism->matrix.family), error.pointer, error.message);
    return strategy;
}

static void assert_same_rows(const struct eps_strategy *a, const struct eps_strategy *b, enum eps_part part)
{
    size_t count = 0, columns = 0, count_b = 0, columns_b = 0;
    struct eps_error error;
    enum eps_status status = eps_strategy_shape(a, &error, part, &count, &columns);
    assert_int_equal(eps_strategy_shape(b, &error, part, &count_b, &columns_b), status);
    if (status != EPS_OK)
        return;
    assert_int_equal(count, count_b);
    assert_int_equal(columns, columns_b);
    double *row = calloc(2 * columns, sizeof *row);
    assert_non_null(row);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(eps_strategy_row(a, row, &error, part, i), EPS_OK);
        assert_int_equal(eps_strategy_row(b, row + columns, &error, part, i), EPS_OK);
        assert_memory_equal(row, row + columns, columns * sizeof *row);
    }
    free(row);
}

/* The first column follows from the decays and scales and its first number, however C was divided. */
static void assert_blt(const struct eps_strategy *s, const struct eps_matrix *matrix)
{
    const double *p = scale, *w = decay;
    double row[N];
    struct eps_error error;
    bool blt = matrix->family == EPS_FAMILY_BLT;
    size_t len = eps_strategy_blt(s, &p, &w);
    assert_int_equal(len, blt ? 2 : 0);
    assert_int_equal(eps_strategy_blt(s, NULL, NULL), len);
    if (!blt) {
        assert_null(p);
        assert_null(w);
        return;
    }
    for (size_t i = 0; matrix->decay && i < 2; i++)
        assert_true(p[i] == matrix->decay[i] && w[i] == matrix->scale[i]);
    assert_int_equal(eps_strategy_row(s, row, &error, EPS_PART_ENCODER, N - 1), EPS_OK);
    for (size_t t = 1; t < N; t++) {
        double sum = 0;
        for (size_t i = 0; i < len; i++)
            sum += w[i] * pow(p[i], (double)t - 1);
        assert_true(fabs(row[N - 1 - t] / (row[N - 1] * sum) - 1) < 1e-12);
    }
}

/* ---------------------------------------------------------------- tests */

TEST(test_every_family_is_found_by_its_id)
{
    for (size_t i = 0; i < MATRICES; i++) {
        struct cache cache = {0};
        struct eps_context context = cache_context(&cache);
        struct eps_mechanism mechanism = mechanism_of(&matrices[i]);
        struct eps_strategy *first = create(&context, &mechanism);
        mechanism = stored(eps_strategy_id(first));
        struct eps_strategy *again = create(&context, &mechanism);
        assert_string_equal(eps_strategy_id(again), eps_strategy_id(first));
        struct eps_job job;
        struct eps_strategy *alone;
        eps_job_init(&job);
        assert_int_equal(eps_stored_mechanism(&context, &job.mechanism, NULL, eps_strategy_id(first)), EPS_OK);
        assert_int_equal(job.mechanism.n, N);
        eps_job_defaults(&job);
        alone = create(&context, &job.mechanism);
        assert_string_equal(eps_strategy_id(alone), eps_strategy_id(first));
        eps_strategy_destroy(alone);
        assert_int_equal(eps_strategy_bands(again), eps_strategy_bands(first));
        assert_int_equal(eps__strategy_decoder(again), matrices[i].decoder);
        assert_blt(first, &matrices[i]);
        assert_blt(again, &matrices[i]);
        for (enum eps_part part = 0; part < EPS_PART_COUNT; part++)
            assert_same_rows(first, again, part);
        eps_strategy_destroy(first);
        eps_strategy_destroy(again);
        cache_clear(&cache);
    }
}

TEST(test_optimised_families_come_from_the_cache)
{
    for (size_t i = 0; i < MATRICES; i++) {
        if (!eps__strategy_is_optimised(&matrices[i]))
            continue;
        struct cache cache = {0};
        struct eps_context context = cache_context(&cache);
        struct eps_mechanism mechanism = mechanism_of(&matrices[i]);
        struct eps_strategy *first = create(&context, &mechanism);
        assert_int_equal(eps__strategy_cache_state(first), EPS_CACHE_MISS);
        mechanism.matrix.normalization = EPS_NORMALIZATION_NONE; /* another job: the same optimum */
        mechanism.sampling.epochs = 1;
        mechanism.sampling.separation = N;
        struct eps_strategy *again = create(&context, &mechanism);
        assert_int_equal(eps__strategy_cache_state(again), EPS_CACHE_HIT);
        assert_int_equal(eps_strategy_iterations(again), eps_strategy_iterations(first));
        eps_strategy_destroy(again);
        mechanism = mechanism_of(&matrices[i]);
        mechanism.matrix.gap = 1e-2; /* another problem */
        again = create(&context, &mechanism);
        assert_int_equal(eps__strategy_cache_state(again), EPS_CACHE_MISS);
        eps_strategy_destroy(again);
        eps_strategy_destroy(first);
        cache_clear(&cache);
    }
}

/* The mechanism under Poisson sampling of one example in a hundred, or in bins. */
static struct eps_job sampled(const struct eps_mechanism *mechanism, enum eps_scheme scheme,
                              enum eps_accountant accountant)
{
    struct eps_job job;
    eps_job_init(&job);
    struct eps_sampling plain = job.mechanism.sampling;
    job.mechanism = *mechanism;
    job.mechanism.sampling = plain;
    job.mechanism.sampling.scheme = scheme;
    if (scheme == EPS_SCHEME_NONE)
        job.mechanism.sampling.epochs = 2;
    else if (scheme == EPS_SCHEME_BALLS_IN_BINS)
        job.mechanism.sampling.bins = 12;
    else
        job.mechanism.sampling.p = 0.01;
    if (scheme == EPS_SCHEME_CYCLIC_POISSON)
        job.mechanism.sampling.groups = 6;
    if (scheme == EPS_SCHEME_B_MIN_SEP)
        job.mechanism.sampling.separation = 6;
    job.query.accountant.method = accountant;
    job.query.noise_multiplier = 2;
    job.query.delta = 1e-6;
    eps_job_defaults(&job);
    return job;
}

/* The outcome of asking which accountant serves the job: a status, a message, and its cost. */
struct asked {
    enum eps_status status;
    struct eps_error error;
    double operations, bytes;
};

static struct asked ask(const struct eps_context *context, const struct eps_job *job)
{
    struct asked asked = {.operations = -1, .bytes = -1};
    asked.status = eps_job_serves(context, &asked.error, job, &asked.operations, &asked.bytes);
    return asked;
}

static void assert_same_asked(const struct asked *a, const struct asked *b)
{
    assert_int_equal(a->status, b->status);
    assert_string_equal(a->error.pointer, b->error.pointer);
    assert_string_equal(a->error.message, b->error.message);
    assert_true(a->operations == b->operations && a->bytes == b->bytes);
}

/* By every accountant. Refused jobs are counted, and would have failed. */
static void assert_served_alike(const struct eps_context *before, const struct eps_context *after,
                                const struct eps_mechanism *mechanism, size_t *refused)
{
    for (enum eps_scheme scheme = 0; scheme < EPS_SCHEME_COUNT; scheme++)
        for (enum eps_accountant accountant = 0; accountant < EPS_ACCOUNTANT_COUNT; accountant++) {
            struct eps_job job = sampled(mechanism, scheme, accountant), whole;
            struct asked a = ask(before, &job), b = ask(after, &job);
            assert_same_asked(&a, &b);
            if (a.status == EPS_UNSUPPORTED) {
                struct eps_result *result = NULL;
                assert_int_equal(eps_solve(after, &result, &b.error, &job), EPS_UNSUPPORTED);
                ++*refused;
            }
            struct eps_phase phases[2];
            eps_phase_init(&phases[0]);
            phases[0].mechanism = job.mechanism;
            phases[1] = phases[0];
            phases[1].noise_scale = 2;
            eps_job_init(&whole);
            whole.query = job.query;
            whole.phases = phases;
            whole.phases_len = 2;
            a = ask(before, &whole);
            b = ask(after, &whole);
            assert_same_asked(&a, &b);
        }
}

/* A job is refused when it is posted, or never for that reason; not only the second time, when its matrix is there. */
TEST(test_what_is_served_does_not_depend_on_the_cache)
{
    size_t refused = 0;
    for (size_t i = 0; i < MATRICES; i++) {
        if (!eps__strategy_is_optimised(&matrices[i]))
            continue;
        struct cache cache = {0}, noted = {0};
        struct eps_context none = {0}, context = cache_context(&cache), notes = cache_context(&noted);
        struct eps_mechanism mechanism = mechanism_of(&matrices[i]);
        for (enum eps_scheme scheme = 0; scheme < EPS_SCHEME_COUNT; scheme++) {
            struct eps_job job = sampled(&mechanism, scheme, EPS_ACCOUNTANT_AUTO);
            struct eps_strategy *made = NULL;
            struct eps_error error;
            if (eps_strategy_create(&context, &made, &error, &job.mechanism) == EPS_OK)
                eps_strategy_destroy(made);
        }
        assert_true(cache.len > 0);
        assert_served_alike(&none, &context, &mechanism, &refused);
        /* By its id: with the note alone, which is needed, and with the optimiser's result. */
        struct eps_strategy *made = create(&notes, &mechanism);
        struct eps_mechanism again = stored(eps_strategy_id(made));
        assert_int_equal(noted.len, 2); /* the optimiser's result, and the note */
        struct cache note = {.blobs = {noted.blobs[1]}, .len = 1};
        struct eps_context alone = cache_context(&note);
        assert_served_alike(&alone, &notes, &again, &refused);
        assert_int_equal(note.len, 1); /* nothing is kept of a request */
        assert_int_equal(noted.len, 2);
        eps_strategy_destroy(made);
        cache_clear(&cache);
        cache_clear(&noted);
    }
    assert_true(refused > 0);
}

/* One band of an inverse, and a workload of single steps with one participation: the optimum is diagonal, and
 * accountants for diagonal strategies serve the job. */
TEST(test_a_diagonal_optimum_is_served)
{
    double once = 0.9;
    struct eps_matrix inverse = {.family = EPS_FAMILY_BANDED_INVERSE, .bands = 1}, any = {.family = EPS_FAMILY_OPTIMAL};
    struct eps_mechanism diagonal[] = {mechanism_of(&inverse), mechanism_of(&any)};
    diagonal[1].matrix.epochs = 1;
    diagonal[1].matrix.separation = N;
    diagonal[1].workload.type = EPS_WORKLOAD_TOEPLITZ;
    diagonal[1].workload.coefficients = &once;
    diagonal[1].workload.coefficients_len = 1;
    for (size_t i = 0; i < 2; i++) {
        struct eps_job job = sampled(&diagonal[i], EPS_SCHEME_POISSON, EPS_ACCOUNTANT_PLD);
        struct eps_result *result = NULL;
        struct asked asked = ask(NULL, &job);
        assert_int_equal(asked.status, EPS_OK);
        if (eps_solve(NULL, &result, &asked.error, &job) != EPS_OK)
            fail_msg("%s: %s", eps_family_name(job.mechanism.matrix.family), asked.error.message);
        eps_result_destroy(result);
    }
}

TEST(test_scaled_and_stamped_again)
{
    struct cache cache = {0};
    struct eps_context context = cache_context(&cache);
    struct eps_mechanism mechanism = mechanism_of(&matrices[4]);
    struct eps_strategy *first = create(&context, &mechanism);
    mechanism = stored(eps_strategy_id(first));
    mechanism.n = 3 * N;
    mechanism.matrix.stamps = 3;
    mechanism.matrix.normalization = EPS_NORMALIZATION_SENSITIVITY;
    mechanism.workload = (struct eps_workload){.type = EPS_WORKLOAD_MOMENTUM, .momentum = 0.9, .decay = 1};
    struct eps_strategy *second = create(&context, &mechanism);
    assert_int_equal(eps_strategy_columns(second), 3 * N);
    struct eps_sensitivity sensitivity;
    struct eps_error error;
    assert_int_equal(eps__strategy_sensitivity(&context, &sensitivity, &error, second, &mechanism), EPS_OK);
    assert_true(fabs(sensitivity.value - 1) < 1e-12);
    /* The second is found by its own id, from the source of the first, with the workload of the request. */
    mechanism = stored(eps_strategy_id(second));
    mechanism.n = 3 * N;
    mechanism.matrix.normalization = EPS_NORMALIZATION_NONE;
    struct eps_strategy *third = create(&context, &mechanism);
    assert_string_equal(eps_strategy_id(third), eps_strategy_id(second));
    assert_same_rows(second, third, EPS_PART_NOISE);
    struct eps_mechanism plain = mechanism_of(&matrices[4]);
    plain.n = 3 * N;
    plain.matrix.stamps = 3;
    struct eps_strategy *wanted = create(&context, &plain);
    double a, b, most;
    assert_int_equal(eps__strategy_error(&context, third, &mechanism, &a, &most, &most), EPS_OK);
    assert_int_equal(eps__strategy_error(&context, wanted, &plain, &b, &most, &most), EPS_OK);
    double factor = eps__strategy_column_norm(third, 0) / eps__strategy_column_norm(wanted, 0);
    assert_true(fabs(a * factor * factor / b - 1) < 1e-9);
    eps_strategy_destroy(first);
    eps_strategy_destroy(second);
    eps_strategy_destroy(third);
    eps_strategy_destroy(wanted);
    cache_clear(&cache);
}

static void assert_refused(const struct eps_context *context, const struct eps_mechanism *mechanism,
                           const char *pointer)
{
    struct eps_strategy *strategy = NULL;
    struct eps_error error = {0};
    assert_int_equal(eps_strategy_create(context, &strategy, &error, mechanism), EPS_INVALID);
    assert_string_equal(error.pointer, pointer);
    struct eps_mechanism alone = {0};
    if (strcmp(pointer, "/matrix/id") == 0 &&
        eps_stored_mechanism(context, &alone, &error, mechanism->matrix.stored_id) != EPS_OK)
        assert_string_equal(error.pointer, pointer);
    assert_null(strategy);
}

TEST(test_what_is_not_kept_is_refused)
{
    struct cache cache = {0};
    struct eps_context context = cache_context(&cache);
    struct eps_mechanism mechanism = mechanism_of(&matrices[1]);
    struct eps_strategy *first = create(&context, &mechanism);
    struct eps_mechanism asked = stored(eps_strategy_id(first));
    assert_refused(NULL, &asked, "/matrix/id");
    asked.n = N - 1;
    assert_refused(&context, &asked, "/n");
    asked = stored(eps_strategy_id(first));
    asked.matrix.stored_id[0] = asked.matrix.stored_id[0] == '0' ? '1' : '0';
    assert_refused(&context, &asked, "/matrix/id");
    eps_strategy_destroy(first);
    cache_clear(&cache);
}

/* Any byte of a note may be wrong: the result is then the matrix of the id or none. */
TEST(test_a_note_cannot_lie)
{
    struct cache cache = {0};
    struct eps_context context = cache_context(&cache);
    struct eps_mechanism mechanism = mechanism_of(&matrices[1]);
    struct eps_strategy *first = create(&context, &mechanism);
    struct eps_mechanism asked = stored(eps_strategy_id(first));
    context.max_bytes = 1e8; /* a note that claims a huge matrix is refused for its cost */
    assert_int_equal(cache.len, 1);
    struct blob *note = &cache.blobs[0];
    size_t refused = 0;
    for (size_t i = 0; i < note->len; i++) {
        struct eps_strategy *again = NULL;
        struct eps_error error = {0};
        note->bytes[i] ^= 0x41;
        if (eps_strategy_create(&context, &again, &error, &asked) == EPS_OK)
            assert_string_equal(eps_strategy_id(again), eps_strategy_id(first));
        else
            refused++;
        eps_strategy_destroy(again);
        note->bytes[i] ^= 0x41;
    }
    assert_true(refused > note->len / 4);
    for (size_t len = 0; len < note->len; len++) {
        size_t whole = note->len;
        note->len = len;
        assert_refused(&context, &asked, "/matrix/id");
        note->len = whole;
    }
    eps_strategy_destroy(first);
    cache_clear(&cache);
}
