/*
 * Units of work: equal work is opened once and ends for all who wait; parts are computed by one thread and awaited by
 * the others, who are woken at once by its end, by a cancel and by the stop, and whose places others use meanwhile.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/ops/clock.h"
#include "server/work/internal.h"
#include "tests/unit/test.h"

static const char hash[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
static const uint8_t keys[4][32] = {{0}, {1}, {2}, {3}};

enum { SOON = 5000 }; /* ms, on a busy machine */

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

/* True if it is posted within the time. */
static bool posted_within(sem_t *sem, long ms)
{
    for (long i = 0; i < ms; i++) {
        if (sem_trywait(sem) == 0)
            return true;
        pause_ms(1);
    }
    return false;
}

/* ---------------------------------------------------------------- waiters */

static void count(void *user)
{
    ++*(int *)user;
}

TEST(equal_work_is_opened_once_and_ends_for_all)
{
    struct works *works = works_create();
    struct work first, second, other;
    int calls[4] = {0};
    struct waiter waiters[4];
    for (int i = 0; i < 4; i++)
        waiters[i] = (struct waiter){.fn = count, .user = &calls[i]};
    work_init(&first, works, WORK_CURVE, hash);
    work_init(&second, works, WORK_CURVE, hash);
    work_init(&other, works, WORK_SOLVE, hash);
    assert_false(waiter_withdraw(&waiters[0]));
    assert_false(work_join(works, WORK_CURVE, hash, &waiters[0]));
    assert_ptr_equal(work_open(&first, &waiters[0]), &first);
    assert_ptr_equal(work_open(&second, &waiters[1]), &first);
    assert_ptr_equal(work_open(&other, NULL), &other); /* of another kind */
    assert_ptr_equal(work_find(works, WORK_CURVE, hash), &first);
    assert_true(work_join(works, WORK_CURVE, hash, &waiters[2]));
    assert_true(work_join(works, WORK_SOLVE, hash, &waiters[3]));
    assert_true(waiter_withdraw(&waiters[1]));
    assert_false(waiter_withdraw(&waiters[1]));
    work_close(&first);
    work_close(&first);
    assert_null(work_find(works, WORK_CURVE, hash));
    assert_ptr_equal(work_open(&second, NULL), &second);
    assert_false(waiter_withdraw(&waiters[2]));
    work_close(&second);
    assert_int_equal(calls[0], 1);
    assert_int_equal(calls[1], 0);
    assert_int_equal(calls[2], 1);
    assert_int_equal(calls[3], 0);
    work_close(&other);
    assert_int_equal(calls[3], 1);
    works_destroy(works);
}

/* ---------------------------------------------------------------- parts */

/* A task that takes a part, and records when and with what result it continued. */
struct taker {
    struct work work; /* first */
    const uint8_t *key;
    double deadline;
    sem_t begun, went_on;
    enum part_taken taken;
};

static void take(struct pool_task *task)
{
    struct taker *taker = (struct taker *)task;
    sem_post(&taker->begun);
    taker->taken = part_take(&taker->work, taker->key, taker->deadline);
    part_end(&taker->work, NULL);
    sem_post(&taker->went_on);
}

static void taker_submit(struct pool *pool, struct works *works, struct taker *taker, const uint8_t *key,
                         double deadline)
{
    work_init(&taker->work, works, WORK_SOLVE, NULL);
    taker->work.task.run = take;
    taker->key = key;
    taker->deadline = deadline;
    sem_init(&taker->begun, 0, 0);
    sem_init(&taker->went_on, 0, 0);
    pool_submit(pool, &taker->work.task);
}

struct blocker {
    struct pool_task task;
    sem_t begun, go;
};

static void block(struct pool_task *task)
{
    struct blocker *blocker = (struct blocker *)task;
    sem_post(&blocker->begun);
    sem_wait(&blocker->go);
}

/* One worker: the task that waits lends it, and gets it back before any task that has not begun. */
TEST(who_waits_lends_its_place_and_goes_on_first)
{
    struct works *works = works_create();
    struct pool *pool = pool_create(1, 0, METRIC_COUNT);
    struct work owner;
    static struct taker taker, late;
    struct blocker blocker = {.task.run = block};
    work_init(&owner, works, WORK_SOLVE, NULL);
    sem_init(&blocker.begun, 0, 0);
    sem_init(&blocker.go, 0, 0);
    assert_int_equal(part_take(&owner, keys[0], INFINITY), PART_OWN);
    assert_int_equal(part_take(&owner, keys[0], INFINITY), PART_OWN);
    taker_submit(pool, works, &taker, keys[0], INFINITY);
    assert_true(posted_within(&taker.begun, SOON));
    pool_submit(pool, &blocker.task);
    assert_true(posted_within(&blocker.begun, SOON)); /* beside the one that waits */
    part_end(&owner, keys[0]);
    assert_false(posted_within(&taker.went_on, 50)); /* no place yet */
    taker_submit(pool, works, &late, keys[1], INFINITY);
    assert_false(posted_within(&late.begun, 20));
    sem_post(&blocker.go);
    assert_true(posted_within(&taker.went_on, SOON));
    assert_int_equal(taker.taken, PART_ENDED);
    assert_true(posted_within(&late.went_on, SOON));
    assert_int_equal(late.taken, PART_OWN);
    pool_destroy(pool);
    works_destroy(works);
}

/* Canceled, past its deadline or at the stop: the task continues without the part, and without waiting for a place. */
TEST(who_is_unwanted_wakes_at_once)
{
    struct works *works = works_create();
    struct pool *pool = pool_create(1, 0, METRIC_COUNT);
    struct work owner;
    static struct taker takers[3];
    struct blocker blocker = {.task.run = block};
    work_init(&owner, works, WORK_SOLVE, NULL);
    sem_init(&blocker.begun, 0, 0);
    sem_init(&blocker.go, 0, 0);
    assert_int_equal(part_take(&owner, keys[0], INFINITY), PART_OWN);
    for (int i = 0; i < 3; i++) {
        taker_submit(pool, works, &takers[i], keys[0], i == 1 ? clock_monotonic() + 0.05 : INFINITY);
        assert_true(posted_within(&takers[i].begun, SOON));
        if (i == 0) {
            pause_ms(10);
            pool_submit(pool, &blocker.task);
            assert_true(posted_within(&blocker.begun, SOON));
            work_cancel(&takers[i].work);
            assert_true(posted_within(&takers[i].went_on, SOON));
            sem_post(&blocker.go);
        } else if (i == 1) {
            assert_true(posted_within(&takers[i].went_on, SOON));
        } else {
            assert_false(posted_within(&takers[i].went_on, 20));
            works_stop(works);
            assert_true(posted_within(&takers[i].went_on, SOON));
        }
        assert_int_equal(takers[i].taken, PART_NONE);
    }
    part_end(&owner, NULL);
    pool_destroy(pool);
    works_destroy(works);
}

TEST(no_two_wait_for_each_other)
{
    struct works *works = works_create();
    struct pool *pool = pool_create(2, 0, METRIC_COUNT);
    struct work owner;
    static struct taker taker;
    work_init(&owner, works, WORK_SOLVE, NULL);
    assert_int_equal(part_take(&owner, keys[0], INFINITY), PART_OWN);
    taker_submit(pool, works, &taker, keys[0], INFINITY);
    assert_true(posted_within(&taker.begun, SOON));
    assert_int_equal(part_take(&taker.work, keys[1], INFINITY), PART_OWN); /* another thread of the same work */
    for (bool sleeps = false; !sleeps; pause_ms(1)) {
        pthread_mutex_lock(&works->mutex);
        sleeps = taker.work.sleepers != NULL;
        pthread_mutex_unlock(&works->mutex);
    }
    assert_int_equal(part_take(&owner, keys[1], INFINITY), PART_NONE);
    part_end(&owner, NULL);
    assert_true(posted_within(&taker.went_on, SOON));
    assert_int_equal(taker.taken, PART_ENDED);
    pool_destroy(pool);
    works_destroy(works);
}

/* ---------------------------------------------------------------- many */

enum { TASKS = 400, WORKERS = 3 };

static atomic_int computing, most, computed, ended, unwanted;

struct many {
    struct work work; /* first */
    unsigned number;
};

static void compute_many(struct pool_task *task)
{
    struct many *many = (struct many *)task;
    for (unsigned i = 0; i < 3; i++) {
        const uint8_t *key = keys[(many->number * 7 + i * (1 + many->number % 3)) % 4];
        enum part_taken taken;
        while ((taken = part_take(&many->work, key, INFINITY)) == PART_ENDED)
            atomic_fetch_add(&ended, 1);
        atomic_fetch_add(taken == PART_OWN ? &computed : &unwanted, 1);
        int now = atomic_fetch_add(&computing, 1) + 1;
        for (int before = atomic_load(&most); before < now && !atomic_compare_exchange_weak(&most, &before, now);) {}
        if (taken == PART_OWN)
            pause_ms(many->number % 2);
        atomic_fetch_sub(&computing, 1);
        if (i != 1) /* some hold one part and want another */
            part_end(&many->work, NULL);
    }
    work_close(&many->work);
}

TEST(all_end_whatever_they_share)
{
    static struct many tasks[TASKS];
    struct works *works = works_create();
    struct pool *pool = pool_create(WORKERS, 0, METRIC_COUNT);
    for (unsigned i = 0; i < TASKS; i++) {
        work_init(&tasks[i].work, works, WORK_SOLVE, NULL);
        tasks[i].work.task.run = compute_many;
        tasks[i].number = i;
        pool_submit(pool, &tasks[i].work.task);
        if (i % 50 == 49)
            work_cancel(&tasks[i / 2].work);
    }
    pool_destroy(pool);
    assert_int_equal(computed + unwanted, 3 * TASKS);
    assert_true(computed > TASKS);
    assert_true(most <= WORKERS + TASKS / 50); /* a canceled one ends beside the others */
    assert_int_equal(works->open.len, 0);
    works_destroy(works);
}
