/*
 * The queue of several owners: compared with the visits of deficit round robin made one by one, and its bounds on how
 * long an owner waits, for any sequence of tasks.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/work/fair.h"
#include "tests/unit/test.h"

enum { OWNERS = 5, ITEMS = 400, STEPS = 20000 };

static const char *const names[OWNERS] = {"", "a", "b", "c", "d"};

struct item {
    struct fair_task task; /* first */
    unsigned owner;
    double rank;
    unsigned number;
    bool in;
};

static unsigned seed = 20261127;

static unsigned draw(unsigned bound)
{
    seed = seed * 1664525 + 1013904223;
    return (seed >> 8) % bound;
}

static void add(struct fair *fair, struct item *item, unsigned owner, double rank, double seconds)
{
    item->owner = owner;
    item->rank = rank;
    item->in = true;
    fair_add(fair, &item->task, names[owner], rank, seconds);
}

static struct item *take(struct fair *fair, unsigned kinds)
{
    struct item *item = (struct item *)fair_take(fair, kinds);
    if (item)
        item->in = false;
    return item;
}

/* ---------------------------------------------------------------- costs */

TEST(a_task_costs_its_estimate_in_turns_but_at_least_one)
{
    assert_int_equal(fair_turns(0), 1);
    assert_int_equal(fair_turns(-1), 1);
    assert_int_equal(fair_turns(FAIR_TURN_SECONDS / 2), 1);
    assert_int_equal(fair_turns(FAIR_TURN_SECONDS), 1);
    assert_int_equal(fair_turns(1.5 * FAIR_TURN_SECONDS), 2);
    assert_int_equal(fair_turns(1), 100);
    assert_int_equal(fair_turns(1e300), FAIR_TURNS_MOST);
}

/* ---------------------------------------------------------------- between owners */

/* However many tasks one owner has, the first one of another starts after at most one of them if it is as short. */
TEST(a_flood_delays_a_newcomer_by_one_task)
{
    static struct item flood[ITEMS], other;
    struct fair fair = {0};
    memset(flood, 0, sizeof flood);
    for (unsigned i = 0; i < ITEMS; i++)
        add(&fair, &flood[i], 1, i, 0.001);
    for (unsigned i = 0; i < ITEMS / 2; i++) {
        assert_ptr_equal(take(&fair, FAIR_ALL), &flood[i]);
        if (i % 7 == 0) {
            other = (struct item){.owner = 2};
            add(&fair, &other, 2, 1e9, 0.001);
            struct item *first = take(&fair, FAIR_ALL);
            struct item *second = first == &other ? NULL : take(&fair, FAIR_ALL);
            assert_true(first == &other || second == &other);
            i += first != &other;
        }
    }
    while (take(&fair, FAIR_ALL)) {}
    assert_int_equal(fair.len, 0);
    assert_null(fair.next);
}

/* Owners that always have tasks get equal numbers of turns, whatever their tasks cost. */
TEST(owners_get_equal_times)
{
    static const double seconds[OWNERS] = {0.01, 0.07, 0.5, 3, 0.11};
    static struct item items[OWNERS][2];
    long served[OWNERS] = {0};
    struct fair fair = {0};
    memset(items, 0, sizeof items);
    for (unsigned owner = 0; owner < OWNERS; owner++)
        for (unsigned i = 0; i < 2; i++)
            add(&fair, &items[owner][i], owner, 0, seconds[owner]);
    for (unsigned step = 0; step < STEPS; step++) {
        struct item *item = take(&fair, FAIR_ALL);
        assert_non_null(item);
        served[item->owner] += item->task.turns;
        add(&fair, item, item->owner, step, seconds[item->owner]);
        for (unsigned a = 0; a < OWNERS; a++)
            for (unsigned b = 0; b < OWNERS; b++)
                assert_true(served[a] - served[b] <= (long)fair_turns(seconds[a]) + (long)fair_turns(seconds[b]));
    }
    while (take(&fair, FAIR_ALL)) {}
}

/* ---------------------------------------------------------------- the reference */

/* The same, visit by visit. */
struct reference {
    struct item *items;
    unsigned ring[OWNERS];
    size_t len, at;
    uint64_t turns[OWNERS];
    bool child_last[OWNERS];
};

static bool precedes(const struct item *one, const struct item *other)
{
    return !other || one->rank < other->rank;
}

static struct item *first_of(const struct reference *reference, unsigned owner, unsigned kinds)
{
    struct item *single = NULL, *child = NULL;
    for (struct item *item = reference->items; item < reference->items + ITEMS; item++) {
        if (!item->in || item->owner != owner || !(kinds & FAIR_ONLY(item->task.kind)))
            continue;
        struct item **best = item->task.kind == FAIR_CHILD ? &child : &single;
        if (precedes(item, *best))
            *best = item;
    }
    return child && (!single || !reference->child_last[owner]) ? child : single;
}

static void enter(struct reference *reference, unsigned owner)
{
    for (size_t i = 0; i < reference->len; i++)
        if (reference->ring[i] == owner)
            return;
    memmove(reference->ring + reference->at + 1, reference->ring + reference->at,
            (reference->len - reference->at) * sizeof reference->ring[0]);
    reference->ring[reference->at] = owner; /* just before the next one, so it is the last of the round */
    reference->turns[owner] = 0;
    reference->child_last[owner] = false;
    reference->len++;
    reference->at = (reference->at + 1) % reference->len;
}

static void leave_if_empty(struct reference *reference, unsigned owner)
{
    if (first_of(reference, owner, FAIR_ALL))
        return;
    size_t i = 0;
    while (reference->ring[i] != owner)
        i++;
    reference->len--;
    memmove(reference->ring + i, reference->ring + i + 1, (reference->len - i) * sizeof reference->ring[0]);
    if (reference->at > i)
        reference->at--;
    reference->at = reference->len ? reference->at % reference->len : 0;
}

/* What fair_take() must return; marks it as taken. */
static struct item *visit(struct reference *reference, unsigned kinds)
{
    bool some = false;
    for (size_t i = 0; i < reference->len; i++)
        some = some || first_of(reference, reference->ring[i], kinds);
    while (some) {
        unsigned owner = reference->ring[reference->at];
        reference->at = (reference->at + 1) % reference->len;
        struct item *item = first_of(reference, owner, kinds);
        if (!item || ++reference->turns[owner] < item->task.turns) {
            continue;
        }
        reference->turns[owner] -= item->task.turns;
        reference->child_last[owner] = item->task.kind == FAIR_CHILD;
        item->in = false;
        leave_if_empty(reference, owner);
        return item;
    }
    return NULL;
}

/* All that holds at any time: the two agree, and no owner has saved more than its most expensive task costs. */
TEST(any_sequence_is_that_of_the_visits)
{
    static struct item items[ITEMS];
    struct fair fair = {0};
    struct reference reference = {.items = items};
    memset(items, 0, sizeof items);
    size_t taken = 0, len = 0;
    for (unsigned step = 0; step < STEPS; step++) {
        struct item *item = &items[draw(ITEMS)];
        unsigned what = draw(16);
        if (!item->in && what < 7) {
            unsigned owner = draw(OWNERS);
            enter(&reference, owner);
            item->task.kind = (enum fair_kind)draw(FAIR_KINDS);
            double seconds = FAIR_TURN_SECONDS * (draw(4) ? 1 + draw(5) : 1 + draw(100));
            add(&fair, item, owner, step + seconds + draw(50) + 1e-6 * step, seconds);
            len++;
        } else if (item->in && what == 7) {
            fair_remove(&fair, &item->task);
            item->in = false;
            leave_if_empty(&reference, item->owner);
            len--;
        } else if (what > 8) {
            unsigned kinds = draw(3) ? FAIR_ALL : draw(1 << FAIR_KINDS);
            struct item *expected = visit(&reference, kinds);
            assert_int_equal(fair_any(&fair, kinds), expected != NULL);
            assert_ptr_equal(fair_take(&fair, kinds), expected ? &expected->task : NULL);
            taken += expected != NULL;
            len -= expected != NULL;
        }
        assert_int_equal(fair.len, len);
    }
    assert_true(taken > STEPS / 5);
    while (take(&fair, FAIR_ALL)) {}
}

/* ---------------------------------------------------------------- the bound */

struct wait {
    struct item *first;
    uint64_t started[OWNERS]; /* tasks of the others since then, */
    uint64_t paid[OWNERS];    /* and what they cost, */
    uint64_t saved[OWNERS];   /* and the most that they had saved by then */
};

/* While a task stays the first of its owner, no other owner starts more tasks than it costs turns, nor pays for more
 * than that and what it had saved, which is at most its most expensive task. */
TEST(no_owner_waits_for_more_than_its_share)
{
    static struct item items[ITEMS];
    struct fair fair = {0};
    struct reference heads = {.items = items};
    struct wait waits[OWNERS] = {0};
    memset(items, 0, sizeof items);
    uint64_t costliest = 0, longest = 0;
    for (unsigned step = 0; step < STEPS; step++) {
        struct item *item = &items[draw(ITEMS)];
        if (!item->in && draw(3)) {
            double seconds = FAIR_TURN_SECONDS * (draw(4) ? 1 : 1 + draw(200));
            item->task.kind = FAIR_LONG;
            /* the first owner floods the queue */
            add(&fair, item, draw(3) ? 0 : draw(OWNERS), step + 10 * seconds + 1e-6 * step, seconds);
            costliest = item->task.turns > costliest ? item->task.turns : costliest;
        } else {
            item = take(&fair, FAIR_ALL);
            for (unsigned owner = 0; item && owner < OWNERS; owner++) {
                struct wait *wait = &waits[owner];
                if (owner == item->owner || !wait->first)
                    continue;
                wait->started[item->owner]++;
                wait->paid[item->owner] += item->task.turns;
                longest = wait->started[item->owner] > longest ? wait->started[item->owner] : longest;
                assert_true(wait->started[item->owner] <= wait->first->task.turns);
                assert_true(wait->paid[item->owner] <= wait->first->task.turns + costliest);
            }
        }
        for (unsigned owner = 0; owner < OWNERS; owner++) {
            struct item *first = first_of(&heads, owner, FAIR_ALL);
            if (waits[owner].first != first || first == item)
                waits[owner] = (struct wait){.first = first};
        }
    }
    assert_true(longest > 20); /* it was put to the test */
    while (take(&fair, FAIR_ALL)) {}
}

/* ---------------------------------------------------------------- within an owner */

TEST(the_smallest_rank_of_an_owner_goes_first)
{
    static struct item items[100];
    struct fair fair = {0};
    memset(items, 0, sizeof items);
    for (unsigned i = 0; i < 100; i++) {
        items[i].task.kind = i % 2 ? FAIR_SHORT : FAIR_LONG;
        add(&fair, &items[i], 3, i * 37 % 100, i);
    }
    for (unsigned rank = 0; rank < 100; rank++)
        assert_true(take(&fair, FAIR_ALL)->rank == rank);
}

TEST(children_and_others_of_an_owner_alternate)
{
    static struct item items[20];
    struct fair fair = {0};
    memset(items, 0, sizeof items);
    for (unsigned i = 0; i < 20; i++) {
        items[i].task.kind = i < 10 ? FAIR_CHILD : FAIR_SHORT;
        add(&fair, &items[i], 0, i, 0);
    }
    for (unsigned i = 0; i < 20; i++)
        assert_ptr_equal(take(&fair, FAIR_ALL), &items[i % 2 ? 10 + i / 2 : i / 2]);
}

/* An owner whose tasks may not start now saves nothing for later. */
TEST(an_owner_that_may_not_start_gains_no_turns)
{
    static struct item background, shorts[ITEMS];
    struct fair fair = {0};
    memset(shorts, 0, sizeof shorts);
    background = (struct item){.task.kind = FAIR_BACKGROUND};
    add(&fair, &background, 1, 0, 2 * FAIR_TURN_SECONDS);
    for (unsigned i = 0; i < ITEMS; i++)
        add(&fair, &shorts[i], 2, i, 0);
    for (unsigned i = 0; i < ITEMS / 2; i++)
        assert_ptr_equal(take(&fair, FAIR_ALL & ~FAIR_ONLY(FAIR_BACKGROUND)), &shorts[i]);
    assert_ptr_equal(take(&fair, FAIR_ALL), &shorts[ITEMS / 2]); /* it costs two turns */
    assert_ptr_equal(take(&fair, FAIR_ALL), &background);
    assert_false(fair_any(&fair, FAIR_ONLY(FAIR_BACKGROUND)));
    while (take(&fair, FAIR_ALL)) {}
}

static bool is_not(const void *user, const char *owner)
{
    return strcmp(owner, user) != 0;
}

/* Owners that may not start gain nothing either. */
TEST(some_owners_may_be_passed_over)
{
    static struct item items[3];
    struct fair fair = {0};
    memset(items, 0, sizeof items);
    add(&fair, &items[0], 1, 0, 0);
    add(&fair, &items[1], 2, 0, 3 * FAIR_TURN_SECONDS);
    add(&fair, &items[2], 1, 1, 3 * FAIR_TURN_SECONDS);
    assert_ptr_equal(fair_take_of(&fair, FAIR_ALL, is_not, "a"), &items[1]);
    assert_null(fair_take_of(&fair, FAIR_ALL, is_not, "a"));
    assert_ptr_equal(take(&fair, FAIR_ALL), &items[0]);
    items[1] = (struct item){.owner = 2};
    add(&fair, &items[1], 2, 0, 2 * FAIR_TURN_SECONDS);
    assert_ptr_equal(take(&fair, FAIR_ALL), &items[1]); /* it costs less */
    assert_ptr_equal(take(&fair, FAIR_ALL), &items[2]);
}

TEST(the_backlog_is_what_waits)
{
    static struct item items[3];
    struct fair fair = {0};
    memset(items, 0, sizeof items);
    assert_int_equal(fair_backlog(&fair, "a"), 0);
    add(&fair, &items[0], 1, 0, 1);
    add(&fair, &items[1], 1, 1, 0);
    add(&fair, &items[2], 2, 2, 0);
    assert_int_equal(fair_backlog(&fair, "a"), 101);
    fair_remove(&fair, &items[0].task);
    assert_int_equal(fair_backlog(&fair, "a"), 1);
    assert_null(items[0].task.owner);
    assert_true(fair_has(&fair, "a", FAIR_ALL) && fair_has(&fair, "b", FAIR_ONLY(items[2].task.kind)));
    assert_false(fair_has(&fair, "a", FAIR_ALL & ~FAIR_ONLY(items[1].task.kind)) || fair_has(&fair, "c", FAIR_ALL));
    while (take(&fair, FAIR_ALL)) {}
    assert_int_equal(fair_backlog(&fair, "a"), 0);
    assert_false(fair_has(&fair, "a", FAIR_ALL));
}
