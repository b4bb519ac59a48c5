/*
 * The worker threads: they run every task once, quick ones first, and every index of a loan once, whichever thread
 * posts it and however busy the workers are.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/work/pool.h"
#include "server/ops/clock.h"
#include "tests/unit/test.h"

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

struct held_task {
    struct pool_task task;
    sem_t *held, *begun;
};

static void hold_task(struct pool_task *task)
{
    const struct held_task *holding = (const struct held_task *)task;
    sem_post(holding->begun);
    sem_wait(holding->held);
}

TEST(one_worker_keeps_the_order)
{
    static struct counted tasks[TASKS];
    atomic_size_t order = 0;
    struct pool *pool = pool_create(1, 0, METRIC_COUNT);
    assert_non_null(pool);
    for (size_t i = 0; i < TASKS; i++) {
        tasks[i] = (struct counted){.task.run = count_task, .order = &order};
        pool_submit(pool, &tasks[i].task);
    }
    pool_destroy(pool); /* runs what is queued */
    for (size_t i = 0; i < TASKS; i++)
        assert_int_equal(tasks[i].place, i);
}

/* Where both wait, they take turns one by one, however long one of the queues is; each queue keeps its order. */
TEST(children_and_single_tasks_go_in_turn)
{
    static struct counted tasks[TASKS];
    atomic_size_t order = 0;
    sem_t held, begun;
    struct held_task holding = {.task.run = hold_task, .held = &held, .begun = &begun};
    sem_init(&held, 0, 0);
    sem_init(&begun, 0, 0);
    struct pool *pool = pool_create(1, 0, METRIC_COUNT);
    assert_non_null(pool);
    pool_submit(pool, &holding.task);
    sem_wait(&begun);
    for (size_t i = 0; i < TASKS; i++) { /* the last ten are children */
        tasks[i] = (struct counted){.task = {.run = count_task, .child = i >= TASKS - 10}, .order = &order};
        pool_submit(pool, &tasks[i].task);
    }
    sem_post(&held);
    pool_destroy(pool);
    sem_destroy(&held);
    sem_destroy(&begun);
    for (size_t i = 0; i < 10; i++) {
        assert_int_equal(tasks[i].place / 2, i);
        assert_int_equal(tasks[TASKS - 10 + i].place / 2, i);
    }
    for (size_t i = 10; i < TASKS - 10; i++)
        assert_int_equal(tasks[i].place, i + 10);
}

/* However many tasks one owner has, those of another take turns with them; one that both wait for is that of the owner
 * who has less waiting. */
TEST(owners_go_in_turn)
{
    static struct counted tasks[TASKS], shared;
    atomic_size_t order = 0;
    sem_t held, begun;
    struct held_task holding = {.task.run = hold_task, .held = &held, .begun = &begun};
    sem_init(&held, 0, 0);
    sem_init(&begun, 0, 0);
    struct pool *pool = pool_create(1, 0, METRIC_COUNT);
    assert_non_null(pool);
    pool_submit(pool, &holding.task);
    sem_wait(&begun);
    for (size_t i = 0; i < TASKS; i++) { /* the last ten are another's */
        tasks[i] = (struct counted){.task.run = count_task, .order = &order};
        strcpy(tasks[i].task.owner, i < TASKS - 10 ? "flood" : "other");
        pool_submit(pool, &tasks[i].task);
    }
    shared = (struct counted){.task.run = count_task, .order = &order};
    strcpy(shared.task.owner, "flood");
    pool_submit(pool, &shared.task);
    pool_share(pool, &shared.task, "third");
    assert_string_equal(shared.task.owner, "third");
    pool_share(pool, &shared.task, "flood");
    assert_string_equal(shared.task.owner, "third");
    sem_post(&held);
    pool_destroy(pool);
    sem_destroy(&held);
    sem_destroy(&begun);
    assert_int_equal(shared.place, 2); /* the third owner came last in the first round */
    for (size_t i = 0; i < 10; i++)
        assert_int_equal(tasks[TASKS - 10 + i].place, i ? 2 * i + 2 : 1);
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

TEST(every_index_once)
{
    static atomic_int marks[INDICES];
    struct pool *pool = pool_create(3, 0, METRIC_COUNT);
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

/* A loan ends although no worker is free: the thread that posted it takes all indices. */
TEST(a_loan_needs_no_worker)
{
    static atomic_int marks[INDICES];
    struct blocker blockers[2] = {{.task.run = block}, {.task.run = block}};
    struct pool *pool = pool_create(2, 0, METRIC_COUNT);
    assert_non_null(pool);
    for (int i = 0; i < 2; i++) {
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

/* An idle worker helps: two indices that wait for each other end only if two threads run them. */
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

TEST(idle_workers_help)
{
    struct pair pair = {.met = 0};
    struct pool *pool = pool_create(1, 0, METRIC_COUNT);
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

TEST(loans_nest_and_may_come_from_workers)
{
    static struct nest_task tasks[8];
    struct pool *pool = pool_create(3, 0, METRIC_COUNT);
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

/* A task that no thread has begun can be withdrawn from any place in the queue; a task that has begun cannot. */
/* The most threads that ran the body at once. */
struct crowd {
    atomic_int now;
    atomic_int most;
};

static void join_crowd(void *arg, size_t index)
{
    struct crowd *crowd = arg;
    (void)index;
    int now = atomic_fetch_add(&crowd->now, 1) + 1;
    int most = atomic_load(&crowd->most);
    while (now > most && !atomic_compare_exchange_weak(&crowd->most, &most, now)) {}
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    atomic_fetch_sub(&crowd->now, 1);
}

TEST(no_more_help_than_is_allowed)
{
    struct pool *pool = pool_create(4, 0, METRIC_COUNT);
    assert_non_null(pool);
    for (int helpers = 0; helpers < 3; helpers++) {
        struct crowd crowd = {.most = 0};
        pool_help_at_most(pool, (size_t)helpers);
        pool_parallel_for(pool, 100, join_crowd, &crowd);
        assert_in_range(atomic_load(&crowd.most), helpers ? 2 : 1, 1 + helpers);
    }
    pool_destroy(pool);
}

TEST(tasks_have_equal_parts_of_the_workers)
{
    static const size_t parts[] = {5, 5, 2, 1, 1, 1};
    struct blocker blockers[5];
    struct pool *pool = pool_create(5, 0, METRIC_COUNT);
    assert_non_null(pool);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(pool_part(pool), parts[i]);
        blockers[i] = (struct blocker){.task.run = block};
        sem_init(&blockers[i].started, 0, 0);
        sem_init(&blockers[i].go, 0, 0);
        pool_submit(pool, &blockers[i].task);
        sem_wait(&blockers[i].started);
    }
    assert_int_equal(pool_part(pool), parts[5]);
    for (int i = 0; i < 5; i++)
        sem_post(&blockers[i].go);
    pool_destroy(pool);
    for (int i = 0; i < 5; i++) {
        sem_destroy(&blockers[i].started);
        sem_destroy(&blockers[i].go);
    }
}

TEST(a_task_that_waits_can_be_withdrawn)
{
    static struct counted tasks[6];
    const size_t gone[] = {0, 3, 5};
    atomic_size_t order = 0;
    struct blocker blocker = {.task.run = block};
    struct pool *pool = pool_create(1, 0, METRIC_COUNT);
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
    pool_submit(pool, &late.task); /* after withdrawing the last one */
    sem_post(&blocker.go);
    pool_destroy(pool);
    const size_t places[] = {SIZE_MAX, 0, 1, SIZE_MAX, 2, SIZE_MAX};
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(tasks[i].place, places[i]);
    assert_int_equal(late.place, 3);
    sem_destroy(&blocker.started);
    sem_destroy(&blocker.go);
}

/* ---------------------------------------------------------------- who goes first */

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static void blocker_submit(struct pool *pool, struct blocker *blocker, double seconds)
{
    *blocker = (struct blocker){.task = {.run = block, .seconds = seconds}};
    sem_init(&blocker->started, 0, 0);
    sem_init(&blocker->go, 0, 0);
    pool_submit(pool, &blocker->task);
}

static bool started_within(struct blocker *blocker, long ms)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += ms % 1000 * 1000000;
    until.tv_sec += ms / 1000 + until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    return sem_timedwait(&blocker->started, &until) == 0;
}

enum { SOON = 30000, NEVER = 50 }; /* milliseconds: a test waits this long only for what does not come */

TEST(the_quick_one_goes_first)
{
    const double seconds[] = {100, 5, 0.01, 50, 5};
    const size_t places[] = {4, 1, 0, 3, 2}; /* equals as they came */
    struct counted tasks[5];
    atomic_size_t order = 0;
    struct blocker blocker;
    struct pool *pool = pool_create(1, 0, METRIC_COUNT);
    blocker_submit(pool, &blocker, 0);
    assert_true(started_within(&blocker, SOON));
    for (size_t i = 0; i < 5; i++) {
        tasks[i] = (struct counted){.task = {.run = count_task, .seconds = seconds[i]}, .order = &order};
        pool_submit(pool, &tasks[i].task);
    }
    sem_post(&blocker.go);
    pool_destroy(pool);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(tasks[i].place, places[i]);
}

/* A task of a second is overtaken by shorter ones that arrive within a second, and by no later one. */
TEST(no_task_is_overtaken_for_ever)
{
    struct counted longer, early, late;
    atomic_size_t order = 0;
    struct blocker blocker;
    struct pool *pool = pool_create(1, 0, METRIC_COUNT);
    blocker_submit(pool, &blocker, 0);
    assert_true(started_within(&blocker, SOON));
    early = longer = late = (struct counted){.task.run = count_task, .order = &order};
    longer.task.seconds = 1;
    pool_submit(pool, &longer.task);
    pool_submit(pool, &early.task);
    pause_ms(1100);
    pool_submit(pool, &late.task);
    sem_post(&blocker.go);
    pool_destroy(pool);
    assert_int_equal(early.place, 0);
    assert_int_equal(longer.place, 1);
    assert_int_equal(late.place, 2);
}

struct stuck_loop {
    struct pool_task task;
    struct pool *pool;
    sem_t begun, go;
};

static void stick(void *arg, size_t index)
{
    struct stuck_loop *loop = arg;
    (void)index;
    sem_post(&loop->begun);
    sem_wait(&loop->go);
}

static void loop_stuck(struct pool_task *task)
{
    struct stuck_loop *loop = (struct stuck_loop *)task;
    pool_parallel_for(loop->pool, 4, stick, loop);
}

/* Idle workers help a computation with long parts, and each of them is available when a task arrives. */
TEST(who_helps_is_no_worker_less)
{
    struct blocker others[2];
    struct pool *pool = pool_create(3, 0, METRIC_COUNT);
    struct stuck_loop loop = {.task.run = loop_stuck, .pool = pool};
    sem_init(&loop.begun, 0, 0);
    sem_init(&loop.go, 0, 0);
    pool_submit(pool, &loop.task);
    for (int i = 0; i < 3; i++)
        sem_wait(&loop.begun); /* on all three */
    for (int i = 0; i < 2; i++) {
        blocker_submit(pool, &others[i], 0);
        assert_true(started_within(&others[i], SOON));
    }
    struct blocker waits;
    blocker_submit(pool, &waits, 0);
    assert_false(started_within(&waits, NEVER)); /* but never more tasks than workers */
    for (int i = 0; i < 3; i++)
        sem_post(&loop.go);
    sem_wait(&loop.begun); /* the fourth part runs on the poster's thread: the helpers left because tasks had arrived */
    sem_post(&loop.go);
    sem_post(&waits.go);
    for (int i = 0; i < 2; i++)
        sem_post(&others[i].go);
    pool_destroy(pool);
}

TEST(a_short_task_waits_for_no_long_one)
{
    struct blocker longs[3], shorts[2];
    struct pool *pool = pool_create(2, 1, METRIC_COUNT);
    for (int i = 0; i < 3; i++)
        blocker_submit(pool, &longs[i], 60);
    assert_true(started_within(&longs[0], SOON) && started_within(&longs[1], SOON));
    assert_false(started_within(&longs[2], NEVER));
    for (int i = 0; i < 2; i++)
        blocker_submit(pool, &shorts[i], 0.5);
    assert_true(started_within(&shorts[0], SOON));   /* beside them, */
    assert_false(started_within(&shorts[1], NEVER)); /* one at a time */
    sem_post(&shorts[0].go);
    assert_true(started_within(&shorts[1], SOON));
    sem_post(&shorts[1].go);
    for (int i = 0; i < 3; i++)
        sem_post(&longs[i].go);
    pool_destroy(pool);
}

/* Nor, if its owner has none running, for those of other owners, however short they are. */
TEST(a_short_task_waits_for_no_other_owner)
{
    static const char *const owners[] = {"a", "a", "b", "b", "c"};
    struct blocker tasks[5];
    struct pool *pool = pool_create(1, 1, METRIC_COUNT);
    for (int i = 0; i < 5; i++) {
        tasks[i] = (struct blocker){.task = {.run = block, .seconds = 0.5}};
        strcpy(tasks[i].task.owner, owners[i]);
        sem_init(&tasks[i].started, 0, 0);
        sem_init(&tasks[i].go, 0, 0);
    }
    pool_submit(pool, &tasks[0].task);
    assert_true(started_within(&tasks[0], SOON));
    pool_submit(pool, &tasks[1].task);
    pool_submit(pool, &tasks[2].task);
    assert_true(started_within(&tasks[2], SOON));
    pool_submit(pool, &tasks[3].task);
    pool_submit(pool, &tasks[4].task);
    for (int i = 0; i < 5; i++) /* one is running in addition already */
        assert_false(i % 2 || i == 4 ? started_within(&tasks[i], NEVER / 3) : false);
    for (int i = 2; i < 5; i++) { /* now each is the one in addition, while that of the first owner runs */
        sem_post(&tasks[i].go);
        assert_true(i == 4 || started_within(&tasks[i + 1], SOON));
    }
    assert_false(started_within(&tasks[1], NEVER));
    for (int i = 0; i < 2; i++)
        sem_post(&tasks[i].go);
    pool_destroy(pool);
}

static void pause_and_block(struct pool_task *task)
{
    struct blocker *blocker = (struct blocker *)task;
    pool_pause();
    sem_post(&blocker->started);
    sem_wait(&blocker->go);
    pool_resume(false);
}

/* Tasks that wait for the work of others occupy all places while a worker is idle: it takes a short task. */
TEST(a_short_task_waits_for_none_that_is_paused)
{
    struct blocker longs[5], brief[2];
    struct pool *pool = pool_create(2, 1, METRIC_COUNT);
    blocker_submit(pool, &longs[0], 60);
    assert_true(started_within(&longs[0], SOON));
    for (int i = 1; i < 4; i++) {
        longs[i] = (struct blocker){.task = {.run = pause_and_block, .seconds = 60}};
        sem_init(&longs[i].started, 0, 0);
        sem_init(&longs[i].go, 0, 0);
        pool_submit(pool, &longs[i].task);
        assert_true(started_within(&longs[i], SOON));
    }
    blocker_submit(pool, &longs[4], 60);
    assert_false(started_within(&longs[4], NEVER));
    for (int i = 0; i < 2; i++)
        blocker_submit(pool, &brief[i], 0.5);
    assert_true(started_within(&brief[0], SOON));
    assert_false(started_within(&brief[1], NEVER)); /* one at a time */
    for (int i = 0; i < 2; i++)
        sem_post(&brief[i].go);
    for (int i = 0; i < 5; i++)
        sem_post(&longs[i].go);
    pool_destroy(pool);
}

/* A task that was estimated to be short counts as long once it has run for longer than the limit. */
TEST(a_wrong_estimate_is_noticed)
{
    struct blocker wrong, next;
    struct pool *pool = pool_create(1, 0.3, METRIC_COUNT);
    blocker_submit(pool, &wrong, 0.1);
    assert_true(started_within(&wrong, SOON));
    blocker_submit(pool, &next, 0.1);
    assert_true(started_within(&next, SOON));
    sem_post(&next.go);
    sem_post(&wrong.go);
    pool_destroy(pool);
}

TEST(the_background_has_half_of_the_workers)
{
    struct blocker curves[3], job;
    struct pool *pool = pool_create(4, 0, METRIC_COUNT);
    for (int i = 0; i < 3; i++) {
        curves[i] = (struct blocker){.task = {.run = block, .background = true}};
        sem_init(&curves[i].started, 0, 0);
        sem_init(&curves[i].go, 0, 0);
        pool_submit(pool, &curves[i].task);
    }
    assert_true(started_within(&curves[0], SOON) && started_within(&curves[1], SOON));
    assert_false(started_within(&curves[2], NEVER));
    blocker_submit(pool, &job, 10);
    assert_true(started_within(&job, SOON));
    sem_post(&curves[0].go);
    assert_true(started_within(&curves[2], SOON));
    sem_post(&job.go);
    for (int i = 1; i < 3; i++)
        sem_post(&curves[i].go);
    pool_destroy(pool);
}

/* A long task that polls now and then, and writes its letter. */
struct slicer {
    struct pool_task task;
    char letter;
    int slices;
    char *out;
    atomic_size_t *len;
    sem_t *ended;
};

static void slice(struct pool_task *task)
{
    const struct slicer *slicer = (const struct slicer *)task;
    for (int i = 0; i < slicer->slices; i++) {
        slicer->out[atomic_fetch_add(slicer->len, 1)] = slicer->letter;
        pool_yield();
    }
    sem_post(slicer->ended);
}

/* Two long tasks in the background, and short ones: each long one continues after one other task, new tasks and resumed
 * ones take turns, and none waits for the end of another. */
TEST(long_tasks_take_turns)
{
    enum { SLICES = 12, SHORT = 4 };
    char out[2 * SLICES + SHORT + 1] = "";
    atomic_size_t len = 0;
    sem_t ended;
    struct slicer slicers[2 + SHORT];
    struct blocker first;
    sem_init(&ended, 0, 0);
    struct pool *pool = pool_create(1, 0, METRIC_COUNT);
    assert_non_null(pool);
    blocker_submit(pool, &first, 0);
    assert_true(started_within(&first, SOON));
    for (int i = 0; i < 2 + SHORT; i++) {
        bool is_long = i < 2;
        slicers[i] = (struct slicer){.task = {.run = slice, .background = is_long, .arrived = is_long ? 1 + i : 0},
                                     .letter = (char)(is_long ? 'A' + i : 's'),
                                     .slices = is_long ? SLICES : 1,
                                     .out = out,
                                     .len = &len,
                                     .ended = &ended};
        pool_submit(pool, &slicers[i].task);
    }
    sem_post(&first.go);
    for (int i = 0; i < 2 + SHORT; i++)
        sem_wait(&ended);
    pool_destroy(pool);
    assert_int_equal(len, 2 * SLICES + SHORT);
    /* A begins and yields to B, which yields to a short one: new tasks go first, then tasks that have begun, in
     * turn. */
    assert_true(strncmp(out, "ABsAsBsAsB", 10) == 0);
    int others[2] = {0};
    for (size_t i = 0; i < len; i++)
        for (int k = 0; k < 2; k++) {
            others[k] = out[i] == 'A' + k ? 0 : others[k] + 1;
            if (memchr(out + i, 'A' + k, len - i))
                assert_in_range(others[k], 0, 3);
        }
    assert_true(memrchr(out, 's', len) < memrchr(out, 'A', len));
    sem_destroy(&ended);
}

/* A task that yields does not occupy a worker that others need: with a task that must be alone in the queue it
 * continues and ends. */
TEST(who_yields_is_in_no_ones_way)
{
    char out[64] = "";
    atomic_size_t len = 0;
    sem_t ended;
    sem_init(&ended, 0, 0);
    struct pool *pool = pool_create(2, 0, METRIC_COUNT);
    struct slicer slicers[6];
    struct pool_task alone = {.run = NULL};
    struct slicer lonely;
    for (int i = 0; i < 6; i++) {
        slicers[i] = (struct slicer){.task = {.run = slice, .background = true},
                                     .letter = (char)('A' + i),
                                     .slices = 10,
                                     .out = out,
                                     .len = &len,
                                     .ended = &ended};
        pool_submit(pool, &slicers[i].task);
    }
    alone.run = slice;
    alone.alone_seconds = 0.01;
    lonely = (struct slicer){.task = alone, .letter = 'x', .slices = 1, .out = out, .len = &len, .ended = &ended};
    pool_submit(pool, &lonely.task);
    for (int i = 0; i < 7; i++)
        sem_wait(&ended);
    assert_int_equal(len, 61);
    pool_destroy(pool);
    sem_destroy(&ended);
}

static void blocker_alone(struct pool *pool, struct blocker *blocker, double seconds)
{
    *blocker = (struct blocker){.task = {.run = block, .alone_seconds = seconds}};
    sem_init(&blocker->started, 0, 0);
    sem_init(&blocker->go, 0, 0);
    pool_submit(pool, &blocker->task);
}

/* A task that keeps whether it was prompt. */
struct asked {
    struct blocker blocker;
    bool prompt;
};

static void ask_and_block(struct pool_task *task)
{
    struct asked *asked = (struct asked *)task; /* the first member of its first member */
    asked->prompt = pool_prompt();
    block(task);
}

/* Short, and the only short one of its owner that waits or runs. */
TEST(what_is_prompt)
{
    enum { FIRST, SECOND, THIRD, LONG, CHILD, BACKGROUND, BESIDE, LAST, CASES };
    static const struct {
        const char *owner;
        double seconds;
        bool child, background, prompt;
    } cases[CASES] = {
        [FIRST] = {"a", 0.5, false, false, true},  [SECOND] = {"a", 0.5, false, false, false}, /* the first one runs */
        [THIRD] = {"a", 0.5, false, false, false}, [LONG] = {"b", 5, false, false, false},
        [CHILD] = {"c", 0.5, true, false, false},  [BACKGROUND] = {"d", 0, false, true, false},
        [BESIDE] = {"b", 0.5, false, false, true}, [LAST] = {"c", 0.5, false, false, true},
    };
    struct asked tasks[CASES];
    struct pool *pool = pool_create(CASES, 1, METRIC_COUNT);
    assert_false(pool_prompt()); /* no task */
    assert_true(pool_has_prompt(pool));
    for (int i = 0; i < CASES; i++) {
        tasks[i] = (struct asked){.blocker.task = {.run = ask_and_block,
                                                   .seconds = cases[i].seconds,
                                                   .child = cases[i].child,
                                                   .background = cases[i].background}};
        strcpy(tasks[i].blocker.task.owner, cases[i].owner);
        sem_init(&tasks[i].blocker.started, 0, 0);
        sem_init(&tasks[i].blocker.go, 0, 0);
        pool_submit(pool, &tasks[i].blocker.task);
        assert_true(started_within(&tasks[i].blocker, SOON));
    }
    for (int i = 0; i < CASES; i++) {
        sem_post(&tasks[i].blocker.go);
        if (tasks[i].prompt != cases[i].prompt)
            fail_msg("task %d", i);
    }
    pool_destroy(pool);
}

/* Those that wait while another one of the owner runs are not prompt, but the last one is. */
TEST(a_flood_is_not_prompt)
{
    struct asked tasks[4];
    struct pool *pool = pool_create(1, 3600, METRIC_COUNT);
    for (int i = 0; i < 4; i++) {
        tasks[i] = (struct asked){.blocker.task = {.run = ask_and_block}};
        sem_init(&tasks[i].blocker.started, 0, 0);
        sem_init(&tasks[i].blocker.go, 0, 0);
        pool_submit(pool, &tasks[i].blocker.task);
        assert_true(i > 0 || started_within(&tasks[i].blocker, SOON));
    }
    for (int i = 0; i < 4; i++) {
        assert_true(i == 0 || started_within(&tasks[i].blocker, SOON));
        assert_int_equal(tasks[i].prompt, i == 0 || i == 3);
        sem_post(&tasks[i].blocker.go);
    }
    pool_destroy(pool);
}

/* One after the other, each until it ends or its time alone is over; then all waiting tasks start at once. */
TEST(nothing_starts_beside_one_that_is_alone)
{
    struct blocker alone[3], normal[2], brief;
    struct pool *pool = pool_create(4, 1, METRIC_COUNT);
    blocker_alone(pool, &alone[0], 3600);
    assert_true(started_within(&alone[0], SOON));
    blocker_alone(pool, &alone[1], 0.2);
    blocker_alone(pool, &alone[2], 3600);
    blocker_submit(pool, &normal[0], 10);
    blocker_submit(pool, &normal[1], 10);
    blocker_submit(pool, &brief, 0);
    assert_false(started_within(&alone[1], NEVER) || started_within(&normal[0], NEVER) ||
                 started_within(&brief, NEVER));
    sem_post(&alone[0].go);
    assert_true(started_within(&alone[1], SOON));
    assert_true(started_within(&alone[2], SOON)); /* the time of the other one has passed; it continues */
    assert_false(started_within(&normal[0], NEVER) || started_within(&brief, NEVER));
    sem_post(&alone[2].go);
    assert_true(started_within(&normal[0], SOON) && started_within(&normal[1], SOON) && started_within(&brief, SOON));
    sem_post(&alone[1].go);
    sem_post(&brief.go);
    for (int i = 0; i < 2; i++)
        sem_post(&normal[i].go);
    pool_destroy(pool);
}

TEST(a_busy_thread_does_not_hold_up_the_stop)
{
    struct blocker blocker;
    struct pool *pool = pool_create(2, 0, METRIC_COUNT);
    blocker_submit(pool, &blocker, 0);
    assert_true(started_within(&blocker, SOON));
    assert_false(pool_stop(pool, clock_monotonic() + 0.05));
    sem_post(&blocker.go);
    assert_true(pool_stop(pool, clock_monotonic() + 30));
    pool_destroy(pool);
}
