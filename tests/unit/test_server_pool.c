/*
 * The worker threads: every task once and in order, every index of a loan once, whoever posts it and however busy the
 * workers are.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "server/jobs/pool.h"

enum { TASKS = 200, INDICES = 1000 };

struct counted {
    struct pool_task task;
    atomic_size_t *order; /* counts up */
    size_t place;
};

static void count_task(struct pool_task *task)
{
    struct counted *counted = (struct counted *)task;
    counted->place = atomic_fetch_add(counted->order, 1);
}

static void one_worker_keeps_the_order(void **state)
{
    (void)state;
    static struct counted tasks[TASKS];
    atomic_size_t order = 0;
    struct pool *pool = pool_create(1, METRIC_COUNT);
    assert_non_null(pool);
    for (size_t i = 0; i < TASKS; i++) {
        tasks[i] = (struct counted){.task.run = count_task, .order = &order};
        pool_submit(pool, &tasks[i].task);
    }
    pool_destroy(pool); /* runs what is queued */
    for (size_t i = 0; i < TASKS; i++)
        assert_int_equal(tasks[i].place, i);
}

static void mark(void *arg, size_t index)
{
    atomic_int *marks = arg;
    atomic_fetch_add(&marks[index], 1);
}

static void assert_marked_once(atomic_int *marks, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        assert_int_equal(atomic_load(&marks[i]), 1);
        atomic_store(&marks[i], 0);
    }
}

static void every_index_once(void **state)
{
    (void)state;
    static atomic_int marks[INDICES];
    struct pool *pool = pool_create(3, METRIC_COUNT);
    assert_non_null(pool);
    for (size_t count = 0; count < 40; count++) {
        pool_parallel_for(pool, count, mark, marks);
        assert_marked_once(marks, count);
        assert_int_equal(atomic_load(&marks[count]), 0);
    }
    pool_parallel_for(pool, INDICES, mark, marks);
    assert_marked_once(marks, INDICES);
    pool_destroy(pool);
}

struct blocker {
    struct pool_task task;
    sem_t started, go;
};

static void block(struct pool_task *task)
{
    struct blocker *blocker = (struct blocker *)task;
    sem_post(&blocker->started);
    sem_wait(&blocker->go);
}

/* A loan ends although no worker is free: the thread that posted it draws all of it. */
static void a_loan_needs_no_worker(void **state)
{
    (void)state;
    static atomic_int marks[INDICES];
    struct blocker blockers[2];
    struct pool *pool = pool_create(2, METRIC_COUNT);
    assert_non_null(pool);
    for (int i = 0; i < 2; i++) {
        blockers[i].task.run = block;
        sem_init(&blockers[i].started, 0, 0);
        sem_init(&blockers[i].go, 0, 0);
        pool_submit(pool, &blockers[i].task);
        sem_wait(&blockers[i].started);
    }
    pool_parallel_for(pool, INDICES, mark, marks);
    assert_marked_once(marks, INDICES);
    for (int i = 0; i < 2; i++)
        sem_post(&blockers[i].go);
    pool_destroy(pool);
    for (int i = 0; i < 2; i++) {
        sem_destroy(&blockers[i].started);
        sem_destroy(&blockers[i].go);
    }
}

/* An idle worker does help: two indices that wait for each other end only if two threads run them. */
struct pair {
    pthread_barrier_t barrier;
    atomic_int met;
};

static void meet(void *arg, size_t index)
{
    struct pair *pair = arg;
    (void)index;
    pthread_barrier_wait(&pair->barrier);
    atomic_fetch_add(&pair->met, 1);
}

static void idle_workers_help(void **state)
{
    (void)state;
    struct pair pair = {.met = 0};
    struct pool *pool = pool_create(1, METRIC_COUNT);
    assert_non_null(pool);
    pthread_barrier_init(&pair.barrier, NULL, 2);
    for (int i = 0; i < 50; i++)
        pool_parallel_for(pool, 2, meet, &pair);
    assert_int_equal(atomic_load(&pair.met), 100);
    pool_destroy(pool);
    pthread_barrier_destroy(&pair.barrier);
}

struct nest {
    struct pool *pool;
    atomic_int marks[16 * 16];
};

static atomic_int *inner_marks(struct nest *nest, size_t outer)
{
    return nest->marks + 16 * outer;
}

static void nested(void *arg, size_t index)
{
    struct nest *nest = arg;
    pool_parallel_for(nest->pool, 16, mark, inner_marks(nest, index));
}

struct nest_task {
    struct pool_task task;
    struct nest nest;
};

static void nest_in_worker(struct pool_task *task)
{
    struct nest_task *own = (struct nest_task *)task;
    pool_parallel_for(own->nest.pool, 16, nested, &own->nest);
}

static void loans_nest_and_may_come_from_workers(void **state)
{
    (void)state;
    static struct nest_task tasks[8];
    struct pool *pool = pool_create(3, METRIC_COUNT);
    assert_non_null(pool);
    for (size_t i = 0; i < 8; i++) {
        tasks[i].task.run = nest_in_worker;
        tasks[i].nest.pool = pool;
        pool_submit(pool, &tasks[i].task);
    }
    pool_destroy(pool);
    for (size_t i = 0; i < 8; i++)
        assert_marked_once(tasks[i].nest.marks, 16 * 16);
}

/* What no thread has begun can be taken back, from any place in the queue; what it has cannot. */
static void a_task_that_waits_can_be_withdrawn(void **state)
{
    (void)state;
    static struct counted tasks[6];
    const size_t gone[] = {0, 3, 5};
    atomic_size_t order = 0;
    struct blocker blocker = {.task.run = block};
    struct pool *pool = pool_create(1, METRIC_COUNT);
    assert_non_null(pool);
    sem_init(&blocker.started, 0, 0);
    sem_init(&blocker.go, 0, 0);
    assert_false(pool_withdraw(pool, &blocker.task)); /* not yet submitted */
    pool_submit(pool, &blocker.task);
    sem_wait(&blocker.started);
    assert_false(pool_withdraw(pool, &blocker.task)); /* begun */
    for (size_t i = 0; i < 6; i++) {
        tasks[i] = (struct counted){.task.run = count_task, .order = &order, .place = SIZE_MAX};
        pool_submit(pool, &tasks[i].task);
    }
    for (size_t i = 0; i < 3; i++) {
        assert_true(pool_withdraw(pool, &tasks[gone[i]].task));
        assert_false(pool_withdraw(pool, &tasks[gone[i]].task));
    }
    struct counted late = {.task.run = count_task, .order = &order};
    pool_submit(pool, &late.task); /* behind a withdrawn last one */
    sem_post(&blocker.go);
    pool_destroy(pool);
    const size_t places[] = {SIZE_MAX, 0, 1, SIZE_MAX, 2, SIZE_MAX};
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(tasks[i].place, places[i]);
    assert_int_equal(late.place, 3);
    sem_destroy(&blocker.started);
    sem_destroy(&blocker.go);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_worker_keeps_the_order),
        cmocka_unit_test(every_index_once),
        cmocka_unit_test(a_loan_needs_no_worker),
        cmocka_unit_test(idle_workers_help),
        cmocka_unit_test(loans_nest_and_may_come_from_workers),
        cmocka_unit_test(a_task_that_waits_can_be_withdrawn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
