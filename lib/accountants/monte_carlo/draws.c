/*
 * See draws.h.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "lib/accountants/monte_carlo/draws.h"

#include <assert.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/accountants/monte_carlo/portion.h"
#include "lib/base/error.h"
#include "lib/base/members.h"
#include "lib/numerics/bound.h"
#include "lib/numerics/hash.h"

enum {
    ALIGNED = 64,      /* bytes, of scratch space */
    WAVE = 16,         /* blocks that are computed at a time */
    BLOCK_MOST = 4096, /* chunks */
    BATCHES = EPS__MC_CHUNK / EPS__LANES
};

#ifndef PORTION_OPERATIONS     /* as in tests/bench/portions_*.c */
#define PORTION_OPERATIONS 5e9 /* the same of a portion: much more than sending it, and opening its law, takes */
#endif
#define PORTIONS_MOST 1024   /* of a run: those of long runs are longer */
#define AHEAD_BYTES 64e6     /* of the blocks that are announced before they are needed, */
#define AHEAD_MOST (1 << 20) /* their number, */
#define AHEAD_LEAST 64       /* and that of their portions */
#define BLOCK_OPERATIONS 4e8 /* approximate operations of a block; this much work is lost if the process is killed */
#define POLL_OPERATIONS 3e6  /* operations between two polls for cancellation */
#define JUDGED 0.3           /* seconds of draws after which their rate is known, */
#define HOPELESS 4.0         /* and they end early if they would take so many times the time that is left */

double eps__mc_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

uint64_t eps__mc_whole(uint64_t samples)
{
    return (samples + EPS__MC_CHUNK - 1) / EPS__MC_CHUNK * EPS__MC_CHUNK;
}

static void hash_bytes(void *to, const void *bytes, size_t len)
{
    eps__hash_bytes(to, bytes, len);
}

/* Hashes every member of the mechanism, so that new members are included automatically. Exceptions: the strategy's id
 * replaces the matrix, which may be large, and the workload, on which no draw depends; p in force replaces the sizes
 * that it was derived from. */
static void hash_mechanism(struct eps__hash *hash, const struct eps__setting *setting)
{
    struct eps_mechanism mechanism = setting->job->mechanism, fresh;
    const char *id = eps_strategy_id(setting->strategy);
    eps__members_init(&eps__mechanism_object, &fresh);
    mechanism.matrix = fresh.matrix;
    mechanism.workload = fresh.workload;
    mechanism.epochs = fresh.epochs;
    mechanism.sampling.batch_size = fresh.sampling.batch_size;
    mechanism.sampling.p = setting->p;
    eps__hash_bytes(hash, id, strlen(id));
    eps__members_put(&eps__mechanism_object, &mechanism, true, hash_bytes, hash);
}

uint64_t eps__mc_seed(const struct eps__setting *setting)
{
    const struct eps_query *query = &setting->job->query;
    uint8_t digest[EPS__HASH_BYTES];
    struct eps__hash hash;
    uint64_t seed = 0;
    if (query->accountant.seed >= 0)
        return (uint64_t)query->accountant.seed;
    eps__hash_init(&hash, "epsilond seed");
    hash_mechanism(&hash, setting);
    eps__members_put(&eps__query_object, query, true, hash_bytes, &hash);
    eps__hash_final(&hash, digest);
    for (size_t i = 0; i < 8; i++)
        seed = seed << 8 | digest[i];
    return seed >> 11; /* 53 bits */
}

/* A wave of blocks that are computed in parallel, shared by the threads. */
struct wave {
    const struct eps__mc_run *run;
    struct eps__mc_estimator estimators[WAVE];
    enum eps_status status[WAVE];
    bool late[WAVE]; /* the time was over before the block began; it is empty, and later blocks are ignored too */
    uint64_t first;  /* the index of the wave's first block */
    uint64_t chunks; /* of the whole run */
    uint64_t block;  /* chunks of one block */
    uint64_t blocks; /* of the whole run */
    uint64_t told;   /* so many of them were announced */
    atomic_uint_fast64_t drawn; /* chunks that were drawn or fetched so far, at most `chunks` */
    struct eps__stream stream;
    uint8_t key[EPS__HASH_BYTES]; /* the hash of the run */
};

/* Hashes all that the draws depend on: the mechanism, the law, the seed and the purpose. */
static void hash_run(uint8_t digest[EPS__HASH_BYTES], const struct eps__mc_run *run,
                     const struct eps__mc_estimator *estimator)
{
    const struct eps__mc_grid *grid = &estimator->grid;
    const struct eps__mc_law *law = run->law;
    struct eps__hash hash;
    double most = law->class->log_most ? law->class->log_most(law, grid->first) : 0;
    double numbers[] = {run->sigma, law->loss_error, law->log_weight_error, grid->first, grid->step, most};
    uint64_t counts[] = {EPS_ACCOUNTING_VERSION, run->seed,   run->candidate, estimator->estimate,
                         law->direction,         law->tilted, law->order,     grid->len};
    eps__hash_init(&hash, "epsilond draws");
    hash_mechanism(&hash, run->setting);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        eps__hash_u64(&hash, counts[i]);
    eps__hash_doubles(&hash, numbers, sizeof numbers / sizeof *numbers);
    eps__hash_final(&hash, digest);
}

/* ------------------------------------------------------------ a block */

/* A stored block holds the count, the largest value, and the sums, in bytes. */
static size_t blob_len(const struct eps__mc_estimator *estimator)
{
    return sizeof(double) * (EPS__MC_HEADER + estimator->grid.len * EPS__MC_SUMS);
}

static void block_key(uint8_t key[EPS__HASH_BYTES], const struct wave *wave, uint64_t block)
{
    struct eps__hash hash;
    eps__hash_init(&hash, "epsilond block of draws");
    eps__hash_bytes(&hash, wave->key, sizeof wave->key);
    eps__hash_u64(&hash, block);
    eps__hash_u64(&hash, wave->block);
    eps__hash_u64(&hash, wave->chunks);
    eps__hash_final(&hash, key);
}

/* Whether these may be the numbers of a block of so many draws. */
static bool is_block(const double *numbers, size_t len, uint64_t draws)
{
    bool is = numbers[0] == (double)draws;
    for (size_t i = 1; i < len && is; i++)
        is = numbers[i] >= 0;
    return is;
}

/* Reads a block from the context's cache. False if it is missing, or is none; then the estimator is unchanged. */
static bool fetch(struct eps__mc_estimator *estimator, const struct eps_context *context, const uint8_t *key,
                  uint64_t draws)
{
    void *blob = NULL;
    size_t len = 0;
    if (!context || !context->cache_get || !context->cache_put ||
        !context->cache_get(context->user, EPS_CACHE_CHUNK, key, &blob, &len))
        return false;
    const double *numbers = blob;
    bool whole = len == blob_len(estimator) && is_block(numbers, len / sizeof *numbers, draws);
    if (whole) {
        estimator->count = draws;
        estimator->largest = numbers[1];
        memcpy(estimator->sums, numbers + EPS__MC_HEADER, len - EPS__MC_HEADER * sizeof *numbers);
    }
    free(blob);
    return whole;
}

/* Writes a block to the context's cache. */
static void offer(const struct eps__mc_estimator *estimator, const struct eps_context *context, const uint8_t *key)
{
    if (!context || !context->cache_get || !context->cache_put)
        return;
    double *blob = estimator->sums - EPS__MC_HEADER;
    blob[0] = (double)estimator->count;
    blob[1] = estimator->largest;
    context->cache_put(context->user, EPS_CACHE_CHUNK, key, blob, blob_len(estimator));
}

/* Reports progress after `chunks` more chunks: the share of the draws, or of the time if that is larger. */
static void tell(struct wave *wave, uint64_t chunks)
{
    const struct eps__mc_run *run = wave->run;
    uint64_t drawn = atomic_fetch_add(&wave->drawn, chunks) + chunks;
    assert(drawn <= wave->chunks);
    double share = run->from + (run->to - run->from) * ((double)drawn / (double)wave->chunks);
    if (run->until < INFINITY)
        share = fmax(share, (eps__mc_now() - run->begun) / (run->until - run->begun));
    eps__meter_tell(run->setting->meter, fmin(share, 1));
}

struct stop {
    const struct eps_context *context;
    enum eps_status status;
};

static bool stops(void *user)
{
    struct stop *stop = user;
    if (stop->status == EPS_OK)
        stop->status = eps__poll(stop->context);
    return stop->status != EPS_OK;
}

/* Makes the draws of one chunk. */
static enum eps_status draw_chunk(struct eps__mc_estimator *estimator, struct wave *wave, uint64_t chunk,
                                  double *scratch)
{
    const struct eps__mc_law *law = wave->run->law;
    struct eps__stream stream = wave->stream;
    double loss[EPS__LANES], log_weight[EPS__LANES], since = INFINITY;
    struct stop stop = {wave->run->setting->context, EPS_OK};
    stream.chunk = chunk;
    stream.stop = stops;
    stream.user = &stop;
    for (uint32_t first = 0; first < EPS__MC_CHUNK; first += EPS__LANES) {
        if (since >= POLL_OPERATIONS) {
            (void)stops(&stop);
            since = 0;
        }
        if (stop.status == EPS_OK)
            law->class->draw(law, &stream, first, scratch, loss, log_weight);
        if (stop.status != EPS_OK)
            break;
        eps__mc_estimator_add(estimator, law, loss, log_weight);
        since += law->operations;
    }
    tell(wave, 1);
    return stop.status;
}

static void run_block(void *arg, size_t index)
{
    struct wave *wave = arg;
    struct eps__mc_estimator *estimator = &wave->estimators[index];
    const struct eps_context *context = wave->run->setting->context;
    uint64_t block = wave->first + index, from = block * wave->block;
    uint64_t to = from + wave->block < wave->chunks ? from + wave->block : wave->chunks;
    uint8_t key[EPS__HASH_BYTES];
    assert(from < to);
    eps__mc_estimator_reset(estimator);
    wave->status[index] = EPS_OK;
    wave->late[index] = block > 0 && eps__mc_now() >= wave->run->until;
    if (wave->late[index])
        return;
    block_key(key, wave, block);
    if (fetch(estimator, context, key, (to - from) * EPS__MC_CHUNK)) {
        tell(wave, to - from);
        wave->status[index] = EPS_OK;
        return;
    }
    char *room = malloc(wave->run->law->scratch * sizeof(double) + ALIGNED);
    enum eps_status status = room ? EPS_OK : EPS_NO_MEMORY;
    for (uint64_t chunk = from; chunk < to && status == EPS_OK; chunk++)
        status = draw_chunk(estimator, wave, chunk, (void *)(room + (ALIGNED - (uintptr_t)room % ALIGNED)));
    free(room);
    if (status == EPS_OK)
        offer(estimator, context, key);
    wave->status[index] = status;
}

/* ------------------------------------------------------------ waves of blocks */

static void run_wave(struct wave *wave, size_t len)
{
    const struct eps_context *context = wave->run->setting->context;
    if (context && context->parallel_for && len > 1) {
        context->parallel_for(context->user, len, run_block, wave);
        return;
    }
    for (size_t i = 0; i < len; i++)
        run_block(wave, i);
}

/* Whether the mean over all samples exceeds `enough` even if all remaining draws have the value 0. */
static bool is_over(const struct eps__mc_estimator *estimator, const struct eps__mc_run *run, uint64_t samples)
{
    if (!(run->enough < INFINITY) || estimator->count == 0)
        return false;
    double least = eps__mc_estimator_mean(estimator, 0) * ((double)estimator->count / (double)samples);
    return eps__lower(least, 2 * (double)estimator->count + 1e6) > run->enough;
}

/* Whether all values are within the bound of the law. */
static bool is_bounded(const struct eps__mc_estimator *estimator, const struct eps__mc_law *law)
{
    double most = law->class->log_most ? law->class->log_most(law, estimator->grid.first) : 0;
    return estimator->largest <= eps__raise(eps__exp_bound(EPS__UPPER, most, 0), 64);
}

/* Whether the remaining draws would take several times the time that is left, at the rate of those so far. */
static bool is_hopeless(const struct eps__mc_run *run, double share, double spent)
{
    return run->whole && share > 0 && spent >= JUDGED &&
           spent * (1 - share) / share > HOPELESS * (run->until - eps__mc_now());
}

/* Sends a portion to the caller; blocks 0: the run has ended. */
static void announce_portion(const struct wave *wave, const struct eps__mc_estimator *estimator, uint64_t blocks)
{
    const struct eps__mc_run *run = wave->run;
    const struct eps_context *context = run->setting->context;
    struct eps_portion portion = {.chunks = (size_t)blocks};
    struct eps__mc_portion what = {.aim = run->law->aim,
                                   .grid = estimator->grid,
                                   .estimate = estimator->estimate,
                                   .seed = run->seed,
                                   .candidate = run->candidate,
                                   .samples = run->samples,
                                   .first = wave->told,
                                   .blocks = blocks};
    memcpy(what.run, wave->key, sizeof what.run);
    memcpy(portion.run, wave->key, sizeof portion.run);
    eps__mc_portion_write(portion.bytes, &what);
    for (uint64_t i = 0; i < blocks; i++)
        block_key(portion.keys[i], wave, wave->told + i);
    context->ahead(context->user, &portion);
}

/* How many blocks are announced before they are needed: their sums may wait for those before them. */
static double ahead_of(const struct eps__mc_estimator *estimator)
{
    return fmin(AHEAD_BYTES / (double)blob_len(estimator), AHEAD_MOST);
}

/* The blocks of a portion; 0: the run is too short to be divided, or its law cannot be opened elsewhere. */
static uint64_t portion_of(const struct wave *wave, double ahead)
{
    const struct eps__mc_law *law = wave->run->law;
    const struct eps_context *context = wave->run->setting->context;
    double one = law->operations * BATCHES * (double)wave->block, all = (double)wave->blocks;
    bool can = context && context->ahead && context->cache_get && context->cache_put && law->aim.sigma > 0;
    if (!can || one * all <= PORTION_OPERATIONS)
        return 0;
    double most = fmin(fmax(ahead / AHEAD_LEAST, 1), EPS_PORTION_CHUNKS);
    return (uint64_t)fmin(fmax(fmax(PORTION_OPERATIONS / one, all / PORTIONS_MOST), 1), most);
}

/* Announces the blocks from this wave on. */
static void announce(struct wave *wave, const struct eps__mc_estimator *estimator)
{
    double ahead = ahead_of(estimator);
    uint64_t portion = portion_of(wave, ahead), until = wave->first + (uint64_t)ahead;
    until = until < wave->blocks ? until : wave->blocks;
    while (portion && wave->told < until) {
        uint64_t left = wave->blocks - wave->told, blocks = portion < left ? portion : left;
        announce_portion(wave, estimator, blocks);
        wave->told += blocks;
    }
}

static enum eps_status draw_waves(struct wave *wave, struct eps__mc_estimator *estimator, bool *complete, bool *over)
{
    const struct eps__mc_run *run = wave->run;
    double started = eps__mc_now();
    enum eps_status status = EPS_OK;
    for (; wave->first < wave->blocks && status == EPS_OK; wave->first += WAVE) {
        size_t len = (size_t)(wave->blocks - wave->first < WAVE ? wave->blocks - wave->first : WAVE);
        announce(wave, estimator);
        run_wave(wave, len);
        for (size_t i = 0; i < len && status == EPS_OK && !wave->late[i]; i++) {
            status = wave->status[i];
            if (status == EPS_OK)
                eps__mc_estimator_join(estimator, &wave->estimators[i]);
        }
        if (status == EPS_OK && !is_bounded(estimator, run->law))
            return EPS_INTERNAL;
        *complete = status == EPS_OK && estimator->count == wave->chunks * EPS__MC_CHUNK;
        *over = status == EPS_OK && is_over(estimator, run, wave->chunks * EPS__MC_CHUNK);
        double share = (double)estimator->count / (double)(wave->chunks * EPS__MC_CHUNK), now = eps__mc_now();
        if (*over || (!*complete && (now >= run->until || is_hopeless(run, share, now - started))))
            break;
    }
    return status;
}

/* The chunks of a block: about BLOCK_OPERATIONS, but few enough that a short run occupies a whole wave. */
static uint64_t block_of(const struct eps__mc_law *law, uint64_t chunks)
{
    double one = law->operations * BATCHES;
    double wanted = fmin(fmax(BLOCK_OPERATIONS / fmax(one, 1), 1), BLOCK_MOST);
    uint64_t share = (chunks + WAVE - 1) / WAVE;
    return (uint64_t)wanted < share ? (uint64_t)wanted : share;
}

/* Sets what follows from the run, the law and the estimator. */
static void open_wave(struct wave *wave, const struct eps__mc_estimator *estimator)
{
    const struct eps__mc_run *run = wave->run;
    wave->chunks = eps__mc_whole(run->samples) / EPS__MC_CHUNK;
    wave->block = block_of(run->law, wave->chunks);
    wave->blocks = (wave->chunks + wave->block - 1) / wave->block;
    hash_run(wave->key, run, estimator);
    memcpy(wave->stream.key, wave->key, sizeof wave->stream.key);
}

static enum eps_status make_estimators(struct wave *wave, const struct eps__mc_estimator *like)
{
    enum eps_status status = EPS_OK;
    for (size_t i = 0; i < WAVE && status == EPS_OK; i++)
        status = eps__mc_estimator_make(&wave->estimators[i], &like->grid, like->estimate);
    return status;
}

static void clear_estimators(struct wave *wave)
{
    for (size_t i = 0; i < WAVE; i++)
        eps__mc_estimator_clear(&wave->estimators[i]);
}

enum eps_status eps__mc_draw(struct eps__mc_estimator *estimator, bool *complete, bool *over,
                             const struct eps__mc_run *run)
{
    struct wave wave = {.run = run};
    assert(run->samples > 0 && estimator->count == 0);
    assert(!run->law->dominated || estimator->grid.first == run->law->least);
    open_wave(&wave, estimator);
    enum eps_status status = make_estimators(&wave, estimator);
    *complete = *over = false;
    if (status == EPS_OK)
        status = draw_waves(&wave, estimator, complete, over);
    if (wave.told > 0)
        announce_portion(&wave, estimator, 0);
    clear_estimators(&wave);
    return status;
}

enum eps_status eps__mc_draw_portion(const struct eps__mc_portion *portion, const struct eps__setting *setting,
                                     const struct eps__mc_law *law)
{
    const struct eps__mc_estimator like = {.grid = portion->grid, .estimate = portion->estimate};
    const struct eps__mc_run run = {.setting = setting,
                                    .law = law,
                                    .sigma = portion->aim.sigma,
                                    .seed = portion->seed,
                                    .candidate = portion->candidate,
                                    .samples = portion->samples,
                                    .enough = INFINITY,
                                    .until = INFINITY,
                                    .to = 1};
    struct wave wave = {.run = &run, .first = portion->first};
    open_wave(&wave, &like);
    if (memcmp(wave.key, portion->run, sizeof wave.key) != 0 || portion->first > wave.blocks ||
        portion->blocks > wave.blocks - portion->first)
        return EPS_INVALID;
    enum eps_status status = make_estimators(&wave, &like);
    uint64_t end = portion->first + portion->blocks;
    for (; wave.first < end && status == EPS_OK; wave.first += WAVE) {
        size_t len = (size_t)(end - wave.first < WAVE ? end - wave.first : WAVE);
        run_wave(&wave, len);
        for (size_t i = 0; i < len && status == EPS_OK; i++)
            status = wave.status[i];
    }
    clear_estimators(&wave);
    return status;
}
