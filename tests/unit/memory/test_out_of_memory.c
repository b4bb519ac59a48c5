/*
 * The library without memory: for each allocation of a job that fails, the result is EPS_NO_MEMORY with a message, or
 * the same answer as with memory. Nothing leaks, nothing crashes, no other number comes out, and the same job is
 * answered afterwards. The jobs of out_of_memory.jsonl, most of them from the corpus, were chosen such that together
 * they reach every allocating line of lib/; a line that none of them reaches is a failure.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/codec/codec.h"
#include "lib/accountants/monte_carlo/laws/poisson.h"
#include "lib/base/members.h"
#include "lib/job/setting.h"
#include "lib/numerics/lanes/lanes.h"
#include "lib/numerics/fft/convolve.h"
#include "lib/numerics/fft/fft.h"
#include "lib/numerics/linear/linalg.h"
#include "lib/pld/pld.h"
#include "lib/pld/pairs/product_mixture.h"
#include "lib/strategy/merged.h"
#include "lib/strategy/optimise/optimal.h"
#include "tests/unit/decoded.h"
#include "tests/unit/memory/scarcity.h"
#include "tests/unit/test.h"

static const char path[] = "tests/unit/memory/out_of_memory.jsonl";

enum { BLOBS = 64, CALLS = 28, NUMBERS = 4096, ROWS_MAX = 1000 };

/* Calls; those for a part are identified by the part and the row. */
enum { SOLVED, SERVED, DREW, CREATED, VARIANCE, BAND_ROW, SHAPE = 10, COEFFICIENTS = 11, NOISE = 12, ROWS = 100000 };

/* ------------------------------------------------------------ plans, before any of these lengths has one */

/* Plans are kept, so each run uses a length that was not used before. */
struct planned {
    size_t n;
    double error;
    int forward, backward;
};

static void plan(void *user)
{
    struct planned *planned = user;
    double real[512] = {1};
    double complex spectrum[257];
    planned->n += 2;
    assert_true(planned->n <= 512);
    planned->error = eps__fft_error(planned->n);
    planned->forward = eps__fft_forward(spectrum, real, planned->n);
    planned->backward = eps__fft_backward(real, spectrum, planned->n);
}

/* A plan that failed is made when it is requested again; no plan is kept without its error bound. */
static void check_plan(void *user, bool struck)
{
    struct planned *planned = user, again = {.n = planned->n - 2};
    assert_true(struck || (planned->forward == 0 && planned->backward == 0 && !isnan(planned->error)));
    plan(&again);
    assert_int_equal(again.forward, 0);
    assert_int_equal(again.backward, 0);
    assert_true(!isnan(again.error));
    assert_true(isnan(planned->error) || planned->error == again.error);
    assert_true(isfinite(again.error) || eps__fft_length(planned->n) != planned->n);
}

TEST(a_plan_that_fails_is_made_again)
{
    struct planned planned = {.n = 300};
    assert_true(scarcity_each(plan, check_plan, &planned, SCARCITY_WHOLE) >= 12);
}

/* ------------------------------------------------------------ a cache in memory */

struct cache {
    struct blob {
        enum eps_cache_kind kind;
        uint8_t key[32];
        char *bytes;
        size_t len;
    } blobs[BLOBS];
    size_t len;
    bool full; /* the cache accepts nothing more */
};

static bool cache_get(void *user, enum eps_cache_kind kind, const uint8_t key[32], void **blob, size_t *len)
{
    const struct cache *cache = user;
    for (size_t i = 0; i < cache->len; i++) {
        const struct blob *kept = &cache->blobs[i];
        if (kept->kind != kind || memcmp(kept->key, key, 32) != 0)
            continue;
        *blob = memcpy(scarcity_give(kept->len), kept->bytes, kept->len);
        *len = kept->len;
        return true;
    }
    return false;
}

static void cache_put(void *user, enum eps_cache_kind kind, const uint8_t key[32], const void *blob, size_t len)
{
    struct cache *cache = user;
    if (cache->full || cache->len == BLOBS)
        return;
    struct blob *kept = &cache->blobs[cache->len++];
    *kept = (struct blob){.kind = kind, .bytes = memcpy(scarcity_give(len), blob, len), .len = len};
    memcpy(kept->key, key, 32);
}

static void cache_clear(struct cache *cache)
{
    while (cache->len > 0)
        free(cache->blobs[--cache->len].bytes);
    cache->full = false;
}

/* ------------------------------------------------------------ the calls, and their outcomes */

/* How each call ended; the numbers of all calls lie one after the other. */
struct outcome {
    struct call {
        size_t id;
        enum eps_status status;
        struct eps_error error;
        size_t first, len;
    } calls[CALLS];
    size_t calls_len;
    double numbers[NUMBERS];
    size_t numbers_len;
    struct eps_result *result;
    char *text; /* of the result */
};

struct asked {
    const char *name;
    const struct eps_job *job;
    struct cache *cache; /* NULL: none is lent */
    struct eps_context context;
    struct outcome whole, now;
    bool known; /* whole is there */
};

/* The place for a call's numbers; its id relates it to the same call of another run. */
static double *begin_call(struct outcome *o, struct call **call, size_t id, size_t numbers)
{
    assert_true(o->calls_len < CALLS && o->numbers_len + numbers <= NUMBERS);
    *call = &o->calls[o->calls_len++];
    **call = (struct call){.id = id, .first = o->numbers_len};
    return &o->numbers[o->numbers_len];
}

static void end_call(struct outcome *o, struct call *call, enum eps_status status, size_t numbers)
{
    call->status = status;
    call->len = status == EPS_OK ? numbers : 0;
    o->numbers_len += call->len;
}

static void solve(void *user)
{
    struct asked *asked = user;
    struct call *call;
    begin_call(&asked->now, &call, SOLVED, 0);
    end_call(&asked->now, call, eps_solve(&asked->context, &asked->now.result, &call->error, asked->job), 0);
}

static void serves(void *user)
{
    struct asked *asked = user;
    struct call *call;
    double *out = begin_call(&asked->now, &call, SERVED, 2);
    end_call(&asked->now, call, eps_job_serves(&asked->context, &call->error, asked->job, &out[0], &out[1]), 2);
}

static void curve(void *user)
{
    struct asked *asked = user;
    struct eps_curve_point *points = NULL;
    struct call *call;
    size_t len = 0, each = sizeof *points / sizeof(double);
    double *out = begin_call(&asked->now, &call, DREW, 201 * each);
    enum eps_status status =
        eps_privacy_curve(&asked->context, &points, &len, &call->error, asked->job, asked->job->query.noise_multiplier);
    if (status == EPS_OK)
        memcpy(out, points, len * sizeof *points);
    free(points);
    end_call(&asked->now, call, status, len * each);
}

static void inspect_part(struct asked *asked, const struct eps_strategy *strategy, enum eps_part part)
{
    struct outcome *o = &asked->now;
    struct call *call;
    size_t rows = 0, columns = 0, n = eps_strategy_columns(strategy), step = ROWS_MAX;
    double *out = begin_call(o, &call, SHAPE + step * part, 2);
    enum eps_status status = eps_strategy_shape(strategy, &call->error, part, &rows, &columns);
    out[0] = (double)rows;
    out[1] = (double)columns;
    end_call(o, call, status, 2);
    out = begin_call(o, &call, COEFFICIENTS + step * part, n);
    end_call(o, call, eps_strategy_coefficients(strategy, out, &call->error, part, n), n);
    if (status != EPS_OK)
        return;
    for (size_t row = 0; row<rows; row += rows> 1 ? rows - 1 : 1) {
        out = begin_call(o, &call, ROWS + step * part + row, columns);
        end_call(o, call, eps_strategy_row(strategy, out, &call->error, part, row), columns);
    }
}

/* Two rows of noise. */
static void inspect_noise(struct asked *asked, const struct eps_strategy *strategy, enum eps_part part)
{
    enum { D = 3 };
    struct outcome *o = &asked->now;
    struct eps_noise *noise = NULL;
    struct call *call;
    const uint8_t key[32] = {1};
    size_t step = ROWS_MAX, n = eps_strategy_columns(strategy), len = D * (n < 2 ? n : 2);
    double *out = begin_call(o, &call, NOISE + step * part, len);
    enum eps_status status = eps_noise_create(&asked->context, &noise, &call->error, strategy, part, 1, D, key);
    for (size_t t = 0; status == EPS_OK && t < len / D; t++)
        status = eps_noise_row(&asked->context, noise, out + t * D, &call->error);
    eps_noise_destroy(noise);
    end_call(o, call, status, len);
}

static void inspect(void *user)
{
    struct asked *asked = user;
    struct outcome *o = &asked->now;
    struct eps_strategy *strategy = NULL;
    struct call *call;
    begin_call(o, &call, CREATED, 0);
    enum eps_status status = eps_strategy_create(&asked->context, &strategy, &call->error, &asked->job->mechanism);
    end_call(o, call, status, 0);
    if (status != EPS_OK)
        return;
    size_t n = eps_strategy_columns(strategy), bands = eps_strategy_bands(strategy);
    double *out = begin_call(o, &call, VARIANCE, n);
    end_call(o, call, eps_strategy_variance(&asked->context, strategy, out, &call->error), n);
    out = begin_call(o, &call, BAND_ROW, bands);
    end_call(o, call, eps_strategy_band_row(strategy, out, &call->error, n / 2), bands);
    for (int part = 0; part < EPS_PART_COUNT; part++)
        inspect_part(asked, strategy, (enum eps_part)part);
    inspect_noise(asked, strategy, EPS_PART_DECODER);
    inspect_noise(asked, strategy, EPS_PART_NOISE);
    eps_strategy_destroy(strategy);
}

static size_t runs; /* of all questions */

/* The document except for effects of the caches: a blob that could not be kept or read is computed again. */
static char *text_of(const struct eps_result *result)
{
    json_t *json = api_result_encode(result);
    assert_non_null(json);
    json_object_del(json, "cache");
    char *text = api_json_text(json);
    assert_non_null(text);
    json_decref(json);
    return text;
}

static void outcome_clear(struct outcome *o)
{
    free(o->text);
    *o = (struct outcome){.calls_len = 0};
}

static void fail_asked(const struct asked *asked, size_t i, const char *why)
{
    static char where[8192];
    const struct call *call = &asked->now.calls[i];
    scarcity_explain(where, sizeof where);
    fail_msg("%s: call %zu: %s: status %d %s %s\n%s", asked->name, i, why, (int)call->status, call->error.pointer,
             call->error.message, where);
}

static const struct call *find_call(const struct outcome *o, size_t id)
{
    for (size_t i = 0; i < o->calls_len; i++)
        if (o->calls[i].id == id)
            return &o->calls[i];
    return NULL;
}

/* Each call ended as it does with sufficient memory, or with EPS_NO_MEMORY. */
static void compare(const struct asked *asked, bool struck)
{
    const struct outcome *whole = &asked->whole, *now = &asked->now;
    bool lacking = false;
    for (size_t i = 0; i < now->calls_len; i++) {
        const struct call *call = &now->calls[i], *same = find_call(whole, call->id);
        lacking = lacking || call->status == EPS_NO_MEMORY;
        if (call->status == EPS_NO_MEMORY && (call->error.status != EPS_NO_MEMORY || !call->error.message[0]))
            fail_asked(asked, i, "no message");
        if (call->status != EPS_NO_MEMORY &&
            (!same || call->status != same->status || call->len != same->len ||
             strcmp(call->error.message, same->error.message) != 0 ||
             memcmp(&now->numbers[call->first], &whole->numbers[same->first], call->len * sizeof(double)) != 0))
            fail_asked(asked, i, "another answer");
    }
    if (lacking && !struck)
        fail_asked(asked, 0, "there was memory");
    if (!lacking && now->calls_len != whole->calls_len)
        fail_asked(asked, now->calls_len - 1, "something was not asked");
    if (now->result && (!whole->text || strcmp(now->text, whole->text) != 0)) {
        print_error("%s\nwas\n%s\n", now->text, whole->text ? whole->text : "no result");
        fail_asked(asked, 0, "another result");
    }
}

static void check(void *user, bool struck)
{
    struct asked *asked = user;
    struct outcome *now = &asked->now;
    if (now->result)
        now->text = text_of(now->result);
    if (asked->known) {
        compare(asked, struck);
        eps_result_destroy(now->result);
        outcome_clear(now);
    } else {
        eps_result_destroy(now->result);
        now->result = NULL;
        asked->whole = *now;
        *now = (struct outcome){.calls_len = 0};
        asked->known = true;
    }
    runs++;
    if (asked->cache && !asked->cache->full)
        cache_clear(asked->cache);
}

/* ------------------------------------------------------------ the jobs */

static bool asks(const json_t *line, const char *what)
{
    size_t i;
    json_t *name;
    json_array_foreach (json_object_get(line, "ask"), i, name)
        if (strcmp(json_string_value(name), what) == 0)
            return true;
    return false;
}

static void forget(struct asked *asked)
{
    outcome_clear(&asked->whole);
    asked->known = false;
}

/* Alone, with an empty cache, and with a cache that contains everything. */
static void ask_job(struct asked *asked, const json_t *line, size_t depth)
{
    static struct cache cache;
    static const struct {
        const char *name;
        void (*body)(void *user);
    } questions[] = {{"solve", solve}, {"serves", serves}, {"inspect", inspect}, {"curve", curve}};
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++)
        if (asks(line, questions[i].name)) {
            scarcity_each(questions[i].body, check, asked, depth);
            forget(asked);
        }
    if (!asks(line, "cached"))
        return;
    asked->cache = &cache;
    asked->context = (struct eps_context){.user = &cache, .cache_get = cache_get, .cache_put = cache_put};
    scarcity_each(solve, check, asked, depth);
    cache.full = true;
    scarcity_each(solve, check, asked, depth);
    cache.full = false;
    solve(asked);
    cache.full = true;
    assert_true(cache.len > 0);
    check(asked, false);
    scarcity_each(solve, check, asked, depth);
    cache_clear(&cache);
    forget(asked);
}

TEST(every_allocation_of_a_job_may_fail)
{
    json_t *lines = lines_of(path), *line;
    static struct asked asked;
    size_t i;
    json_array_foreach (lines, i, line) {
        char *text = api_json_text(json_object_get(line, "job"));
        struct api_job *job = decoded(text);
        asked = (struct asked){.name = text, .job = &job->job};
        size_t depth = (size_t)json_integer_value(json_object_get(line, "depth"));
        bool fresh = json_is_true(json_object_get(line, "fresh")); /* slow, and there for a few lines */
        ask_job(&asked, line, fresh ? SCARCITY_FRESH : depth ? depth : SCARCITY_WHOLE);
        api_job_destroy(job);
        free(text);
    }
    print_message("# %zu jobs, %zu runs\n", i, runs);
    assert_true(i > 30 && runs > 5000);
    json_decref(lines);
}

/* ------------------------------------------------------------ members */

/* The bytes of a workload with an array, and what was read from them. */
struct stored {
    unsigned char bytes[256];
    size_t len, at;
    struct eps_workload workload;
    bool read;
};

static void store(void *to, const void *bytes, size_t len)
{
    struct stored *stored = to;
    assert_true(len <= sizeof stored->bytes - stored->len);
    memcpy(stored->bytes + stored->len, bytes, len);
    stored->len += len;
}

static bool fetch(void *from, void *bytes, size_t len)
{
    struct stored *stored = from;
    if (len > stored->len - stored->at)
        return false;
    if (bytes) {
        memcpy(bytes, stored->bytes + stored->at, len);
        stored->at += len;
    }
    return true;
}

static void read_members(void *user)
{
    struct stored *stored = user;
    stored->at = 0;
    stored->read = eps__members_get(&eps__workload_object, &stored->workload, fetch, stored);
}

static void check_members(void *user, bool struck)
{
    struct stored *stored = user;
    assert_true(stored->read != struck);
    assert_true(!stored->read || stored->workload.coefficients[2] == 0.25);
    eps__members_free(&eps__workload_object, &stored->workload);
}

TEST(members_are_read_whole_or_not)
{
    const double numbers[] = {1, 0.5, 0.25};
    static struct stored stored;
    struct eps_workload workload;
    eps__members_init(&eps__workload_object, &workload);
    workload.type = EPS_WORKLOAD_TOEPLITZ;
    workload.coefficients = numbers;
    workload.coefficients_len = 3;
    eps__members_put(&eps__workload_object, &workload, false, store, &stored);
    assert_true(scarcity_each(read_members, check_members, &stored, SCARCITY_WHOLE) > 0);
}

/* ------------------------------------------------------------ batches */

/* Pairs of examples share a user. */
static const struct eps_users *pairs(size_t dataset)
{
    static uint64_t begin[NUMBERS + 1];
    static uint32_t user[NUMBERS];
    static struct eps_users users = {begin, user, 0};
    for (size_t j = 0; j < dataset; j++) {
        begin[j + 1] = j + 1;
        user[j] = (uint32_t)j / 2;
    }
    users.len = (dataset + 1) / 2;
    return &users;
}

static void form(void *user)
{
    struct asked *asked = user;
    const struct eps_mechanism *mechanism = &asked->job->mechanism;
    const struct eps_sampling *sampling = &mechanism->sampling;
    const struct eps_users *users = sampling->examples_per_user > 1 ? pairs(sampling->dataset_size) : NULL;
    static const uint8_t key[32] = "any";
    struct eps_batcher *batcher = NULL;
    struct call *call;
    begin_call(&asked->now, &call, CREATED, 0);
    enum eps_status status = eps_batcher_create(&batcher, &call->error, mechanism, sampling->dataset_size, users, key);
    end_call(&asked->now, call, status, 0);
    for (size_t t = 0; status == EPS_OK && t < mechanism->n; t++) {
        struct eps_batch batch;
        double *out = begin_call(&asked->now, &call, ROWS + t, sampling->dataset_size);
        status = eps_batcher_next(batcher, &batch, &call->error);
        for (size_t i = 0; status == EPS_OK && i < batch.len; i++)
            out[i] = batch.indices[i];
        end_call(&asked->now, call, status, status == EPS_OK ? batch.len : 0);
    }
    eps_batcher_destroy(batcher);
}

TEST(every_allocation_of_batches_may_fail)
{
    static const char *const samplings[] = {
        "{\"scheme\":\"poisson\",\"p\":0.9,\"dataset_size\":300,\"truncation\":{\"max_batch_size\":200}}",
        "{\"scheme\":\"cyclic_poisson\",\"p\":0.9,\"groups\":2,\"dataset_size\":300}",
        "{\"scheme\":\"balls_in_bins\",\"bins\":2,\"redraw\":true,\"dataset_size\":300}",
        "{\"scheme\":\"b_min_sep\",\"p\":0.9,\"separation\":2,\"dataset_size\":300}",
        "{\"scheme\":\"b_min_sep\",\"p\":0.9,\"separation\":2,\"examples_per_user\":2,\"dataset_size\":300}",
        "{\"scheme\":\"none\",\"schema\":\"shuffled\",\"batch_size\":150,\"dataset_size\":300}",
        "{\"scheme\":\"none\",\"schema\":\"min_separation\",\"batch_size\":200,\"dataset_size\":300}",
    };
    static struct asked asked;
    for (size_t i = 0; i < sizeof samplings / sizeof *samplings; i++) {
        char text[400], message[200];
        struct api_errors errors = {0};
        snprintf(text, sizeof text, "{\"n\":6,\"sampling\":%s,\"delta\":1e-5,\"noise_multiplier\":1}", samplings[i]);
        json_t *json = api_json_parse(text, strlen(text), message, sizeof message);
        struct api_job *job = api_job_decode(&errors, json, 0);
        if (!job)
            fail_msg("%s: %s %s", text, errors.items[0].pointer, errors.items[0].detail);
        asked = (struct asked){.name = text, .job = &job->job};
        assert_true(scarcity_each(form, check, &asked, SCARCITY_WHOLE) > 3);
        forget(&asked);
        api_job_destroy(job);
        json_decref(json);
    }
}

/* ------------------------------------------------------------ lines that no fast job reaches */

enum { SQRT_N = (1 << 14) + 512, LONG = 1 << 15, POWERS_N = 96 };

/* A call of a part of the library: false without memory. */
struct direct {
    bool (*ask)(double *out);
    double *whole, *now;
    size_t len;
    bool ok, known;
};

static bool ask_square_root(double *out)
{
    static const double a[] = {1, -1};
    return eps__series_sqrt(out, SQRT_N, a, 2);
}

static bool ask_inverse(double *out)
{
    static double a[LONG];
    for (size_t i = 0; i < LONG; i++)
        a[i] = 1 / (double)(1 + i * i);
    return eps__series_inverse(out, LONG, a, LONG);
}

static bool ask_digits(double *out)
{
    static double a[LONG];
    bool kept = false;
    for (size_t i = 0; i < LONG; i++)
        a[i] = exp(-1e-3 * (double)i);
    bool ok = eps__convolve_digits(out, LONG - 1, a, LONG / 2, a, LONG / 2, &kept);
    out[LONG - 1] = kept;
    return ok;
}

static bool ask_powers(double *out)
{
    static const double mass[POWERS_N] = {0.25, 0.5, 0.25}, *const masses[] = {mass};
    const uint64_t count = 20;
    return eps__convolve_powers(NULL, out, &out[POWERS_N], masses, &count, 1, POWERS_N) == EPS_OK;
}

/* A quadrature: its atoms' shifts and weights are available together or not at all. */
static bool ask_moments(double *out)
{
    const struct eps__factor factors[] = {{.shift = 0.3, .log_odds = -2, .count = 3},
                                          {.shift = 0.2, .log_odds = -1, .count = 2}};
    struct eps__mixture mixture;
    bool ok = eps__product_moments(&mixture, out, factors, 2, 6, 1e-3, false);
    out[1] = (double)mixture.len;
    if (ok)
        eps__mixture_clear(&mixture);
    return ok;
}

/* Constraint (34), from the table of the paper; no job has it. */
static bool ask_scalar(double *out)
{
    enum { N = 4 };
    const struct eps__workload prefix = {.n = N, .recursive = true, .decay = 1};
    memset(out, 0, (N * N + 2) * sizeof *out);
    return eps__optimal_scalar(out, &out[N * N], &out[N * N + 1], &prefix, 2, 2);
}

static bool ask_merged(double *out)
{
    struct eps_job job;
    struct eps_strategy *strategy;
    double error;
    eps_job_init(&job);
    job.mechanism.n = 6;
    job.mechanism.sampling.scheme = EPS_SCHEME_NONE;
    eps_job_defaults(&job);
    if (eps_strategy_create(NULL, &strategy, NULL, &job.mechanism) != EPS_OK)
        return false;
    bool ok = eps__merged_gram(NULL, out, &error, strategy, 3) == EPS_OK;
    eps_strategy_destroy(strategy);
    return ok;
}

/* The columns of a case that few jobs have, and none that is fast. */
static bool ask_spectrum(double *out)
{
    double column[97] = {1};
    struct eps__spectrum spectrum;
    bool ok = eps__spectrum_make(&spectrum, column, 97, 97) == EPS_OK;
    for (size_t i = 0; ok && i < 4; i++)
        out[i] = spectrum.entry[i] + spectrum.turn[i];
    if (ok)
        eps__spectrum_clear(&spectrum);
    return ok;
}

/* A matrix that is too large to be passed to LAPACK as a whole: that of a path, whose eigenvalues all differ. */
static bool ask_eigenvectors(double *out)
{
    enum { N = 513 };
    static double matrix[N * N], values[N];
    memset(matrix, 0, sizeof matrix);
    for (size_t i = 0; i < N; i++) {
        matrix[i * N + i] = 2;
        if (i > 0)
            matrix[i * N + i - 1] = matrix[(i - 1) * N + i] = -1;
    }
    bool ok = eps__symmetric_eigenvectors(NULL, values, matrix, N) == EPS__LAPACK_DONE;
    out[0] = values[0];
    out[1] = values[N - 1];
    return ok;
}

/* Tilted draws with bounds in the place of P/Q; jobs that use them also ask accountants that take long. */
static bool ask_few(double *out)
{
    const struct eps__mc_aim aim = {.sigma = 1, .direction = EPS_REMOVE, .tilted = true, .eps = 0.5, .least = 0.5};
    struct eps_error error = {0};
    struct eps__setting setting;
    struct eps__mc_law *law;
    struct eps_job job;
    eps_job_init(&job);
    job.mechanism.n = 9;
    job.mechanism.matrix.family = EPS_FAMILY_SQUARE_ROOT;
    job.mechanism.matrix.bands = 8;
    job.mechanism.sampling.scheme = EPS_SCHEME_POISSON;
    job.mechanism.sampling.p = 0.01;
    job.query.noise_multiplier = 1;
    job.query.epsilon = 0.5;
    job.query.accountant.method = EPS_ACCOUNTANT_MONTE_CARLO;
    eps_job_defaults(&job);
    if (eps__setting_open(&setting, &error, NULL, &job) != EPS_OK)
        return false;
    bool ok = eps__mc_poisson_few.open(&law, &setting, &aim) == EPS_OK;
    if (ok) {
        out[0] = law->class->log_most(law, 0.5);
        out[1] = law->order;
        law->class->destroy(law);
    }
    eps__setting_close(&setting);
    return ok;
}

/* The candidates of a plan, including refused ones, and the best possible figures of a candidate. */
static bool ask_spend(double *out)
{
    struct eps_job job;
    struct eps_spend_point *points = NULL;
    struct eps_error error = {0};
    size_t len = 0;
    eps_job_init(&job);
    job.mechanism.n = 2;
    job.mechanism.sampling.p = 0.1;
    eps_job_defaults(&job);
    enum eps_status status = eps_spend(NULL, &points, &len, &error, &job, 1, 1e-5);
    assert_true(status == EPS_OK || (status == EPS_NO_MEMORY && error.status == EPS_NO_MEMORY));
    if (status == EPS_OK) {
        out[0] = (double)len;
        out[1] = points[len - 1].epsilon;
    }
    free(points);
    return status == EPS_OK;
}

static bool ask_plan(double *out)
{
    const size_t n = 10;
    const uint64_t batch = 10;
    struct eps_plan_candidate *candidates = NULL;
    double least = 0;
    struct eps_error error = {0};
    struct eps_plan plan;
    size_t len = 0;
    eps_plan_init(&plan);
    plan.n = &n;
    plan.n_len = 1;
    plan.batch_sizes = &batch;
    plan.batch_sizes_len = 1;
    plan.dataset_size = 50;
    plan.epsilon = 2;
    plan.delta = 1e-5;
    plan.schemes = 1u << EPS_SCHEME_BALLS_IN_BINS | 1u << EPS_SCHEME_POISSON;
    plan.verified = 1;
    enum eps_status status = eps_plan_candidates(NULL, &candidates, &len, &error, &plan, 0);
    unsigned asked = 0;
    for (size_t k = 1; k < len && status == EPS_OK; k++) { /* one of each scheme */
        unsigned scheme = 1u << candidates[k].job.mechanism.sampling.scheme;
        double own = 0;
        if (!(asked & scheme))
            status = eps_plan_least(NULL, &own, &error, &candidates[k].job, plan.objective);
        asked |= scheme;
        least += own;
    }
    assert_true(status != EPS_OK || asked == plan.schemes);
    free(candidates);
    assert_true(status == EPS_OK || (status == EPS_NO_MEMORY && error.status == EPS_NO_MEMORY));
    if (status == EPS_OK) {
        out[0] = (double)len;
        out[1] = least;
    }
    return status == EPS_OK;
}

/* What expansions whose terms need panels of their own split. */
static bool ask_split(double *out)
{
    int64_t index[] = {-1, 0, 3};
    double mass[] = {0.5, 0.25, 0.125};
    const struct eps__pld whole = {.spacing = 1, .len = 3, .index = index, .mass = mass};
    struct eps__pld core, jump;
    enum eps_status status = eps__pld_split(&whole, 1, &core, &jump);
    assert_true(status == EPS_OK || status == EPS_NO_MEMORY);
    if (status == EPS_OK) {
        assert_true(core.len == 2 && jump.len == 1);
        out[0] = core.mass[1];
        out[1] = jump.mass[0];
        eps__pld_clear(&core);
        eps__pld_clear(&jump);
    }
    return status == EPS_OK;
}

static void ask_direct(void *user)
{
    struct direct *direct = user;
    direct->ok = direct->ask(direct->now);
}

static void check_direct(void *user, bool struck)
{
    struct direct *direct = user;
    assert_true(direct->ok || struck);
    if (!direct->known)
        memcpy(direct->whole, direct->now, direct->len * sizeof *direct->now);
    else if (direct->ok)
        assert_memory_equal(direct->now, direct->whole, direct->len * sizeof *direct->now);
    direct->known = true;
}

TEST(every_allocation_of_a_long_series_may_fail)
{
    static double whole[LONG], now[LONG];
    struct direct asked[] = {{.ask = ask_square_root, .len = SQRT_N},
                             {.ask = ask_inverse, .len = LONG},
                             {.ask = ask_digits, .len = LONG},
                             {.ask = ask_powers, .len = POWERS_N + 1},
                             {.ask = ask_moments, .len = 2},
                             {.ask = ask_scalar, .len = 18},
                             {.ask = ask_merged, .len = 9},
                             {.ask = ask_spectrum, .len = 4},
                             {.ask = ask_eigenvectors, .len = 2},
                             {.ask = ask_few, .len = 2},
                             {.ask = ask_plan, .len = 2},
                             {.ask = ask_split, .len = 2},
                             {.ask = ask_spend, .len = 2}};
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        asked[i].whole = whole;
        asked[i].now = now;
        assert_true(scarcity_each(ask_direct, check_direct, &asked[i], SCARCITY_WHOLE) > 2);
    }
}

/* ------------------------------------------------------------ all of them */

static const struct scarcity_exception exceptions[] = {
    {"lib/numerics/fft/fft.c", "return fftw_alloc_real(n)", "struck where eps__fft_alloc_real() is called"},
    {"lib/numerics/fft/fft.c", "return fftw_alloc_complex(n)", "struck where eps__fft_alloc_complex() is called"},
};

TEST(every_line_that_asks_for_memory_was_struck)
{
    size_t total = 0;
    assert_int_equal(scarcity_unstruck("lib", exceptions, sizeof exceptions / sizeof *exceptions, &total), 0);
    print_message("# %zu lines of lib/ ask for memory\n", total);
    assert_true(total > 200);
}
