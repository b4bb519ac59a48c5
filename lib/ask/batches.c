/*
 * Forms batches step by step, using the former of the mechanism's scheme (lib/sampling/forming/batches.h). What all
 * schemes share is here: the key, truncation (S9), and the users of examples.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/sampling/forming/batches.h"
#include "lib/sampling/scheme.h"

#define EMPTY_MAX 0x1p39 /* largest number of users times examples_per_user */

struct eps_batcher {
    struct eps__forming forming;
    const struct eps__former *former;
    size_t next; /* next step */
    bool failed; /* memory ran out */
};

void eps_batches_defaults(struct eps_mechanism *mechanism, uint64_t dataset_size)
{
    struct eps_sampling *sampling = &mechanism->sampling;
    const struct eps__scheme *scheme = eps__scheme_of(mechanism);
    if (sampling->dataset_size == 0 && (sampling->batch_size > 0 || sampling->truncation))
        sampling->dataset_size = dataset_size;
    if (scheme->defaults)
        scheme->defaults(mechanism, SIZE_MAX); /* no bandwidth is known */
}

static struct eps__forming describe(const struct eps_mechanism *mechanism, uint64_t dataset_size,
                                    const struct eps_users *users)
{
    uint64_t examples = dataset_size > 0 ? dataset_size : mechanism->sampling.dataset_size;
    return (struct eps__forming){.sampling = mechanism->sampling,
                                 .n = mechanism->n,
                                 .examples = (uint32_t)examples,
                                 .p = eps__sampling_probability(mechanism),
                                 .bins = eps__sampling_bins(mechanism),
                                 .users = users};
}

void eps_batches_cost(const struct eps_mechanism *mechanism, uint64_t dataset_size, const struct eps_users *users,
                      double *operations, double *bytes)
{
    struct eps__forming forming = describe(mechanism, dataset_size, users);
    const struct eps__former *former = eps__scheme_of(mechanism)->former(&mechanism->sampling);
    double mean = former->mean(&forming), most = users || !former->users ? former->bytes(&forming) : 0;
    /* A list grows by doubling, and sorting needs a copy. */
    double batch = fmin(mean + 10 * sqrt(mean) + 64, fmax(forming.examples, 64));
    *operations = (double)forming.n * (mean + 1) + forming.examples;
    *bytes = sizeof(struct eps_batcher) + most + 3 * sizeof(uint32_t) * batch;
}

/* ---------------------------------------------------------------- users */

/* Checks that each example has a user and that no user has more than examples_per_user examples. */
static enum eps_status check_lists(struct eps_error *error, const struct eps__forming *forming)
{
    const struct eps_users *users = forming->users;
    size_t most = forming->sampling.examples_per_user;
    enum eps_status status = EPS_OK;
    size_t *counts =
        /* two per user: number of examples, and 1 + the last one */
        calloc(users->len ? users->len : 1, 2 * sizeof *counts);
    if (!counts)
        return eps__error(error, EPS_NO_MEMORY, "", "out of memory");
    for (uint32_t j = 0; j < forming->examples && status == EPS_OK; j++) {
        if (users->begin[j] >= users->begin[j + 1])
            status = eps__error(error, EPS_INVALID, "/users",
                                "example %u has no user: name its users, or leave it out of the data set", j);
        for (uint64_t i = users->begin[j]; i < users->begin[j + 1] && status == EPS_OK; i++) {
            size_t *count = counts + 2 * (size_t)users->user[i];
            assert(users->user[i] < users->len);
            count[0] += count[1] != (size_t)j + 1;
            count[1] = (size_t)j + 1;
            if (count[0] > most)
                status =
                    eps__error(error, EPS_INVALID, "/users",
                               "example %u gives one of its users more than examples_per_user, %zu: leave examples "
                               "out, or raise examples_per_user here and in the job",
                               j, most);
        }
    }
    free(counts);
    return status;
}

static enum eps_status check_users(struct eps_error *error, const struct eps__forming *forming,
                                   const struct eps__former *former)
{
    const struct eps_users *users = forming->users;
    if (!users && former->users)
        return eps__error(error, EPS_INVALID, "/users",
                          "is required with examples_per_user over 1: examples of the same user exclude each other");
    if (users && forming->sampling.examples_per_user < 2)
        return eps__error(error, EPS_INVALID, "/users",
                          "requires examples_per_user over 1: give it in the sampling, as in the job");
    if (users && (double)users->len * (double)forming->sampling.examples_per_user > EMPTY_MAX)
        return eps__error(error, EPS_INVALID, "/sampling/examples_per_user",
                          "times the number of users must be at most 2^39");
    return users ? check_lists(error, forming) : EPS_OK;
}

/* ---------------------------------------------------------------- create and destroy */

enum eps_status eps_batcher_create(struct eps_batcher **out, struct eps_error *error,
                                   const struct eps_mechanism *mechanism, uint64_t dataset_size,
                                   const struct eps_users *users, const uint8_t key[32])
{
    struct eps__first_violation first = {error, false};
    if (eps_batches_check(mechanism, dataset_size, 0, eps__keep_first, &first) > 0)
        return EPS_INVALID;
    struct eps__forming forming = describe(mechanism, dataset_size, users);
    const struct eps__former *former = eps__scheme_of(mechanism)->former(&mechanism->sampling);
    enum eps_status status = check_users(error, &forming, former);
    if (status != EPS_OK)
        return status;
    struct eps_batcher *batcher = calloc(1, sizeof *batcher);
    if (!batcher)
        return eps__error(error, EPS_NO_MEMORY, "", "out of memory");
    batcher->forming = forming;
    batcher->former = former;
    eps__chacha_init(&batcher->forming.chacha, key, 0);
    if (!former->open(&batcher->forming)) {
        eps_batcher_destroy(batcher);
        return eps__error(error, EPS_NO_MEMORY, "", "out of memory");
    }
    *out = batcher;
    return EPS_OK;
}

void eps_batcher_destroy(struct eps_batcher *batcher)
{
    if (!batcher)
        return;
    if (batcher->forming.state)
        batcher->former->close(batcher->forming.state);
    free(batcher->forming.batch.items);
    eps__chacha_clear(&batcher->forming.chacha);
    free(batcher);
}

/* ---------------------------------------------------------------- the steps */

/* Keeps a uniformly random subset of `most` examples, in order (Knuth, algorithm S): each example is kept with the
 * probability that the number still wanted bears to the number still to come. */
static void truncate_batch(struct eps__examples *batch, struct eps__chacha *chacha, size_t most)
{
    size_t kept = 0;
    for (size_t i = 0; i < batch->len && kept < most; i++)
        if (eps__chacha_below(chacha, batch->len - i) < most - kept)
            batch->items[kept++] = batch->items[i];
    batch->len = kept;
}

enum eps_status eps_batcher_next(struct eps_batcher *batcher, struct eps_batch *batch, struct eps_error *error)
{
    struct eps__forming *forming = &batcher->forming;
    const struct eps_sampling *sampling = &forming->sampling;
    if (batcher->next == forming->n)
        return eps__error(error, EPS_INVALID, "/n", "the batches of all %zu steps have been formed", forming->n);
    forming->batch.len = 0;
    batcher->failed = batcher->failed || !batcher->former->step(forming, batcher->next);
    if (batcher->failed)
        return eps__error(error, EPS_NO_MEMORY, "", "out of memory");
    size_t drawn = forming->batch.len;
    if (sampling->truncation && drawn > sampling->max_batch_size)
        truncate_batch(&forming->batch, &forming->chacha, (size_t)sampling->max_batch_size);
    *batch = (struct eps_batch){.step = batcher->next++,
                                .indices = forming->batch.items,
                                .len = forming->batch.len,
                                .truncated = drawn - forming->batch.len};
    return EPS_OK;
}
