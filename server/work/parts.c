/*
 * Parts: factorisations in progress. A thread that needs one that is in progress sleeps until it ends, or until its own
 * work is unwanted, and lends its place in the pool to other tasks meanwhile. It never waits for a work that itself
 * waits for this one.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <errno.h>
#include <math.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "server/ops/clock.h"
#include "server/work/internal.h"

static void key_text(char text[WORK_KEY_SIZE], const uint8_t key[32])
{
    sodium_bin2hex(text, WORK_KEY_SIZE - 1, key, 32);
}

static struct part *find_locked(struct works *works, const char *hash)
{
    char key[WORK_KEY_SIZE] = "f";
    strcpy(key + 1, hash);
    return (struct part *)work__find_locked(works, key);
}

static bool open_locked(struct work *parent, const char *hash)
{
    struct part *part = calloc(1, sizeof *part);
    if (!part)
        return false;
    work_init(&part->work, parent->works, WORK_FACTORIZATION, hash);
    if (!work__list_locked(&part->work)) {
        free(part);
        return false;
    }
    part->parent = parent;
    part->next = parent->parts;
    parent->parts = part;
    return true;
}

/* Whether the work waits, directly or indirectly, for what `other` computes. */
static bool depends_locked(const struct work *work, const struct work *other)
{
    for (const struct sleeper *sleeper = work->sleepers; sleeper; sleeper = sleeper->next) {
        const struct work *parent = sleeper->part ? sleeper->part->parent : NULL;
        if (parent && (parent == other || depends_locked(parent, other)))
            return true;
    }
    return false;
}

/* ---------------------------------------------------------------- sleeping */

static void part_ended(void *user)
{
    struct sleeper *sleeper = user;
    pthread_cond_broadcast(&sleeper->part->work.works->changed);
    sleeper->part = NULL;
}

static void sleep_begin_locked(struct work *work, struct sleeper *sleeper, struct part *part)
{
    *sleeper = (struct sleeper){.waiter = {.fn = part_ended, .user = sleeper}, .part = part, .next = work->sleepers};
    waiter__add_locked(work->works, &part->work.waiters, &sleeper->waiter);
    work->sleepers = sleeper;
}

static void sleep_end_locked(struct work *work, struct sleeper *sleeper)
{
    struct sleeper **link = &work->sleepers;
    while (*link != sleeper)
        link = &(*link)->next;
    *link = sleeper->next;
    if (sleeper->waiter.list)
        waiter__remove_locked(&sleeper->waiter);
}

/* Sleeps until the part has ended or there is no reason to wait any more. */
static void sleep_locked(struct work *work, const struct sleeper *sleeper, double deadline)
{
    struct timespec until = isinf(deadline) ? (struct timespec){0} : clock_timespec(deadline);
    int code = 0;
    while (sleeper->part && !work_unwanted(work) && code != ETIMEDOUT) {
        code = isinf(deadline) ? pthread_cond_wait(&work->works->changed, &work->works->mutex)
                               : pthread_cond_timedwait(&work->works->changed, &work->works->mutex, &until);
    }
}

/* Returns true if the part has ended. The mutex and the place of this thread in the pool are released meanwhile. */
static bool await_locked(struct work *work, struct part *part, double deadline)
{
    struct works *works = work->works;
    struct sleeper sleeper;
    sleep_begin_locked(work, &sleeper, part);
    pthread_mutex_unlock(&works->mutex);
    pool_pause();
    pthread_mutex_lock(&works->mutex);
    sleep_locked(work, &sleeper, deadline);
    sleep_end_locked(work, &sleeper);
    bool ended = !sleeper.part;
    pthread_mutex_unlock(&works->mutex);
    pool_resume(!ended || work_unwanted(work));
    pthread_mutex_lock(&works->mutex);
    return ended;
}

/* ---------------------------------------------------------------- claiming and ending */

enum part_taken part_take(struct work *work, const uint8_t key[32], double deadline)
{
    struct works *works = work->works;
    enum part_taken taken = PART_NONE;
    char hash[WORK_KEY_SIZE];
    key_text(hash, key);
    pthread_mutex_lock(&works->mutex);
    struct part *part = find_locked(works, hash);
    if (!part)
        taken = open_locked(work, hash) ? PART_OWN : PART_NONE;
    else if (part->parent == work)
        taken = PART_OWN;
    else if (!depends_locked(part->parent, work))
        taken = await_locked(work, part, deadline) ? PART_ENDED : PART_NONE;
    pthread_mutex_unlock(&works->mutex);
    return taken;
}

bool part_elsewhere(struct work *work, const uint8_t key[32])
{
    char hash[WORK_KEY_SIZE];
    key_text(hash, key);
    pthread_mutex_lock(&work->works->mutex);
    const struct part *part = find_locked(work->works, hash);
    bool elsewhere = part && part->parent != work && !work->parts;
    pthread_mutex_unlock(&work->works->mutex);
    return elsewhere;
}

bool part_join(struct works *works, const uint8_t key[32], struct waiter *waiter)
{
    char hash[WORK_KEY_SIZE];
    key_text(hash, key);
    return work_join(works, WORK_FACTORIZATION, hash, waiter);
}

void part_end(struct work *work, const uint8_t *key)
{
    char hash[WORK_KEY_SIZE] = "";
    if (key)
        key_text(hash, key);
    pthread_mutex_lock(&work->works->mutex);
    struct part **link = &work->parts;
    while (*link) {
        struct part *part = *link;
        if (!key || strcmp(work_hash(&part->work), hash) == 0) {
            *link = part->next;
            work__close_locked(&part->work);
            free(part);
        } else {
            link = &part->next;
        }
    }
    pthread_mutex_unlock(&work->works->mutex);
}
