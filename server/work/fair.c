/*
 * See fair.h. The rounds in which no owner can pay are not simulated: the number of visits after which the first one
 * can is computed, and given to all.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/work/fair.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint32_t fair_turns(double seconds)
{
    double turns = ceil(seconds / FAIR_TURN_SECONDS);
    return turns >= FAIR_TURNS_MOST ? FAIR_TURNS_MOST : turns > 1 ? (uint32_t)turns : 1;
}

/* ---------------------------------------------------------------- the ring */

static struct fair_owner *find(const struct fair *fair, const char *name)
{
    struct fair_owner *owner = fair->next;
    for (; owner; owner = owner->next == fair->next ? NULL : owner->next)
        if (strcmp(owner->name, name) == 0)
            return owner;
    return NULL;
}

/* An owner at the end of the round. */
static struct fair_owner *create(struct fair *fair, const char *name)
{
    struct fair_owner *owner = calloc(1, sizeof *owner);
    if (!owner && fair->spare.backlog)
        return &fair->spare;
    if (!owner) {
        owner = &fair->spare;
        *owner = (struct fair_owner){.turns = 0};
    }
    assert(strlen(name) < sizeof owner->name);
    snprintf(owner->name, sizeof owner->name, "%s", name);
    owner->next = owner->prev = owner;
    if (fair->next) {
        owner->next = fair->next;
        owner->prev = fair->next->prev;
        owner->prev->next = owner->next->prev = owner;
    } else {
        fair->next = owner;
    }
    return owner;
}

static void destroy(struct fair *fair, struct fair_owner *owner)
{
    if (fair->next == owner)
        fair->next = owner->next == owner ? NULL : owner->next;
    owner->prev->next = owner->next;
    owner->next->prev = owner->prev;
    if (owner != &fair->spare)
        free(owner);
}

/* ---------------------------------------------------------------- tasks */

static struct fair_task *task_of(struct heap_node *node)
{
    return HEAP_ENTRY(node, struct fair_task, node);
}

/* The first task of an owner among these kinds; NULL: it has none. */
static struct fair_task *first(const struct fair_owner *owner, unsigned kinds)
{
    struct heap_node *best = NULL;
    for (enum fair_kind kind = FAIR_SHORT; kind < FAIR_CHILD; kind++) {
        struct heap_node *node = kinds & FAIR_ONLY(kind) ? owner->queues[kind].root : NULL;
        if (node && (!best || heap_before(node, best)))
            best = node;
    }
    struct heap_node *child = kinds & FAIR_ONLY(FAIR_CHILD) ? owner->queues[FAIR_CHILD].root : NULL;
    if (child && (!best || !owner->child_last))
        best = child;
    return best ? task_of(best) : NULL;
}

void fair_add(struct fair *fair, struct fair_task *task, const char *name, double rank, double seconds)
{
    assert(!task->owner);
    struct fair_owner *owner = find(fair, name);
    if (!owner)
        owner = create(fair, name);
    task->owner = owner;
    task->turns = fair_turns(seconds);
    heap_insert(&owner->queues[task->kind], &task->node, rank);
    owner->backlog += task->turns;
    fair->len++;
}

void fair_remove(struct fair *fair, struct fair_task *task)
{
    struct fair_owner *owner = task->owner;
    heap_remove(&owner->queues[task->kind], &task->node);
    task->owner = NULL;
    owner->backlog -= task->turns;
    fair->len--;
    size_t left = 0;
    for (size_t kind = 0; kind < FAIR_KINDS; kind++)
        left += owner->queues[kind].len;
    assert((left == 0) == (owner->backlog == 0));
    if (!left)
        destroy(fair, owner);
}

bool fair_any(const struct fair *fair, unsigned kinds)
{
    const struct fair_owner *owner = fair->next;
    for (; owner; owner = owner->next == fair->next ? NULL : owner->next)
        if (first(owner, kinds))
            return true;
    return false;
}

/* Which tasks may be taken. */
struct filter {
    unsigned kinds;
    bool (*may)(const void *user, const char *owner); /* NULL: every owner may */
    const void *user;
};

static struct fair_task *first_allowed(const struct fair_owner *owner, const struct filter *filter)
{
    return !filter->may || filter->may(filter->user, owner->name) ? first(owner, filter->kinds) : NULL;
}

/* The visits after which the owner can pay for its task. */
static uint64_t visits_to(const struct fair_owner *owner, const struct fair_task *task)
{
    return task->turns > owner->turns ? task->turns - owner->turns : 1;
}

static struct fair_task *take(struct fair *fair, const struct filter *filter)
{
    struct fair_task *best = NULL;
    uint64_t least = 0;
    struct fair_owner *owner = fair->next;
    for (; owner; owner = owner->next == fair->next ? NULL : owner->next) {
        struct fair_task *task = first_allowed(owner, filter);
        uint64_t visits = task ? visits_to(owner, task) : 0;
        if (task && (!best || visits < least)) {
            best = task;
            least = visits;
        }
    }
    if (!best)
        return NULL;
    uint64_t given = least; /* up to the owner of the task; those behind it are visited once less */
    for (owner = fair->next; owner; owner = owner->next == fair->next ? NULL : owner->next) {
        if (first_allowed(owner, filter))
            owner->turns += given;
        if (owner == best->owner)
            given--;
    }
    owner = best->owner;
    assert(owner->turns >= best->turns);
    owner->turns -= best->turns;
    owner->child_last = best->kind == FAIR_CHILD;
    fair->next = owner->next;
    fair_remove(fair, best);
    return best;
}

struct fair_task *fair_take(struct fair *fair, unsigned kinds)
{
    return take(fair, &(struct filter){.kinds = kinds});
}

struct fair_task *fair_take_of(struct fair *fair, unsigned kinds, bool (*may)(const void *user, const char *owner),
                               const void *user)
{
    return take(fair, &(struct filter){kinds, may, user});
}

bool fair_has(const struct fair *fair, const char *name, unsigned kinds)
{
    const struct fair_owner *owner = find(fair, name);
    return owner && first(owner, kinds);
}

uint64_t fair_backlog(const struct fair *fair, const char *name)
{
    const struct fair_owner *owner = find(fair, name);
    return owner ? owner->backlog : 0;
}
