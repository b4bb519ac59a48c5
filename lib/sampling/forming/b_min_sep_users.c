/*
 * Batches of b-min-sep sampling if examples share users (BMS, algorithm 3). At each step every example is drawn
 * independently. It is left out of the batch if an example that shares a user with it was drawn in the b - 1 steps
 * before, even if that one was left out. The state is the last step at which an example of each user was drawn.
 *
 * A user with fewer than examples_per_user examples is padded with empty ones, which are drawn and exclude others in
 * the same way (M23). Empty examples are numbered after the data set, user by user, and never enter a batch.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <assert.h>
#include <stdlib.h>

#include "lib/numerics/random/tosses.h"
#include "lib/sampling/forming/batches.h"

struct shared {
    struct eps__tails tails;
    uint64_t *empty;            /* users + 1 numbers: user u has the empty examples empty[u] .. empty[u + 1] - 1 */
    uint32_t *drawn;            /* by user: 1 + the last step at which one of the user's examples was drawn; 0: none */
    struct eps__examples users; /* the users of the examples drawn at this step */
};

/* Finds where each user's empty examples begin. */
static void fill_up(struct eps__forming *forming)
{
    struct shared *shared = forming->state;
    const struct eps_users *users = forming->users;
    for (uint32_t j = 0; j < forming->examples; j++)
        for (uint64_t i = users->begin[j]; i < users->begin[j + 1]; i++) {
            uint32_t user = users->user[i];
            shared->empty[user + 1] += shared->drawn[user] != j + 1; /* counts a user who is listed twice once */
            shared->drawn[user] = j + 1;
        }
    for (size_t u = 0; u < users->len; u++) {
        assert(shared->empty[u + 1] <= forming->sampling.examples_per_user);
        shared->empty[u + 1] = shared->empty[u] + forming->sampling.examples_per_user - shared->empty[u + 1];
        shared->drawn[u] = 0;
    }
}

static bool open(struct eps__forming *forming)
{
    struct shared *shared = forming->state = calloc(1, sizeof *shared);
    const struct eps_users *users = forming->users;
    if (!shared)
        return false;
    shared->tails = eps__tails_make(forming->p);
    shared->empty = calloc(users->len + 1, sizeof *shared->empty);
    shared->drawn = calloc(users->len, sizeof *shared->drawn);
    if (!shared->empty || !shared->drawn)
        return false;
    fill_up(forming);
    return true;
}

/* The user of an empty example. */
static uint32_t owner(const struct shared *shared, size_t users, uint64_t number)
{
    size_t low = 0, high = users;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (shared->empty[middle] <= number)
            low = middle;
        else
            high = middle;
    }
    return (uint32_t)low;
}

static bool is_barred(const struct eps__forming *forming, uint32_t user, size_t step)
{
    uint32_t drawn = ((const struct shared *)forming->state)->drawn[user];
    return drawn > 0 && step - (drawn - 1) < forming->sampling.separation;
}

/* Handles a drawn example of the data set: adds it to the batch unless it is barred. False: no memory. */
static bool take(struct eps__forming *forming, uint32_t example, size_t step)
{
    struct shared *shared = forming->state;
    const struct eps_users *users = forming->users;
    bool barred = false;
    for (uint64_t i = users->begin[example]; i < users->begin[example + 1]; i++) {
        barred = barred || is_barred(forming, users->user[i], step);
        if (!eps__examples_add(&shared->users, users->user[i]))
            return false;
    }
    return barred || eps__examples_add(&forming->batch, example);
}

static bool step(struct eps__forming *forming, size_t step_index)
{
    struct shared *shared = forming->state;
    size_t users = forming->users->len;
    uint64_t all = forming->examples + shared->empty[users];
    uint64_t at = eps__tails_count(&shared->tails, &forming->chacha, all);
    shared->users.len = 0;
    for (; at < all; at += 1 + eps__tails_count(&shared->tails, &forming->chacha, all - at)) {
        bool room = at < forming->examples
                        ? take(forming, (uint32_t)at, step_index)
                        : eps__examples_add(&shared->users, owner(shared, users, at - forming->examples));
        if (!room)
            return false;
    }
    for (size_t i = 0; i < shared->users.len; i++)
        shared->drawn[shared->users.items[i]] = (uint32_t)step_index + 1;
    return true;
}

static void close(void *state)
{
    struct shared *shared = state;
    free(shared->empty);
    free(shared->drawn);
    free(shared->users.items);
    free(shared);
}

static double mean(const struct eps__forming *forming)
{
    return forming->p * forming->examples;
}

/* The users of a step are those of the drawn examples and of the drawn empty ones. */
static double bytes(const struct eps__forming *forming)
{
    const struct eps_users *users = forming->users;
    double drawn = (double)users->len * (double)forming->sampling.examples_per_user * forming->p;
    return sizeof(struct shared) + 12.0 * (double)users->len + 8 + 8 * (2 * drawn + 64);
}

const struct eps__former eps__former_b_min_sep_users = {
    .users = true, .open = open, .step = step, .close = close, .bytes = bytes, .mean = mean};
