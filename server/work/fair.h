/*
 * A queue that several owners share: deficit round robin (Shreedhar, Varghese 1996) between the owners, in turns of
 * FAIR_TURN_SECONDS of estimated time, and within an owner the smallest rank first. A pure data structure: it knows no
 * clock and no threads. Thread-compatible.
 *
 * The owners that have tasks form a ring. Each visit gives an owner one turn; if it then has as many as its first task
 * costs, it pays and the task starts; then the next owner is visited. A new owner is visited last, and one whose last
 * task has left loses its turns.
 *
 * Invariants:
 * - A task costs at least one turn, and a visit starts at most one task, so an owner never saves more turns than its
 *   most expensive task costs.
 * - From the moment when a task of cost c is the first of its owner, and as long as it stays that, every other owner
 *   starts at most c tasks before it, and these cost at most c turns more than that owner had saved. It does not matter
 *   how many tasks the other owner has.
 * - Within an owner every task is started, if it stays: ranks grow with the time of arrival.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_WORK_FAIR_H
#define SERVER_WORK_FAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/ops/heap.h"

#define FAIR_TURN_SECONDS 0.01
#define FAIR_TURNS_MOST 360000 /* a longer estimate counts as an hour */
#define FAIR_NAME_SIZE 16      /* of an owner, with NUL */

/* The kinds of tasks, which callers may ask for separately. If an owner has children and others, they alternate. */
enum fair_kind { FAIR_SHORT, FAIR_LONG, FAIR_BACKGROUND, FAIR_CHILD, FAIR_KINDS };
#define FAIR_ONLY(kind) (1u << (kind))
#define FAIR_ALL ((1u << FAIR_KINDS) - 1)

/* Private. Exists while it has tasks. */
struct fair_owner {
    char name[FAIR_NAME_SIZE];
    struct heap queues[FAIR_KINDS];
    uint64_t turns;   /* saved */
    uint64_t backlog; /* the turns that its tasks cost */
    bool child_last;  /* its last task was a child */
    struct fair_owner *prev;
    struct fair_owner *next;
};

/* Embed it, zero. */
struct fair_task {
    struct heap_node node;
    struct fair_owner *owner; /* NULL: it does not wait */
    enum fair_kind kind;
    uint32_t turns;
};

/* Zero-initialise. */
struct fair {
    struct fair_owner *next; /* the next one to visit; NULL: nothing waits */
    size_t len;              /* tasks */
    struct fair_owner spare; /* of tasks for whose owner there was no memory */
};

/* The turns that a task costs: 1 to FAIR_TURNS_MOST. */
uint32_t fair_turns(double seconds);
/* Adds a task that does not wait. owner: at most FAIR_NAME_SIZE - 1 bytes. It cannot fail: if memory runs out, the task
 * shares an owner with others of which that is true. */
void fair_add(struct fair *fair, struct fair_task *task, const char *owner, double rank, double seconds);
/* Removes a task that waits. */
void fair_remove(struct fair *fair, struct fair_task *task);
/* Whether a task of these kinds waits. */
bool fair_any(const struct fair *fair, unsigned kinds);
/* Removes the next task of these kinds; NULL: there is none. Owners without one gain no turns. */
struct fair_task *fair_take(struct fair *fair, unsigned kinds);
/* The same among the owners that may(), by name. */
struct fair_task *fair_take_of(struct fair *fair, unsigned kinds, bool (*may)(const void *user, const char *owner),
                               const void *user);
/* Whether a task of these kinds and this owner waits. */
bool fair_has(const struct fair *fair, const char *owner, unsigned kinds);
/* The turns that all waiting tasks of the owner cost. */
uint64_t fair_backlog(const struct fair *fair, const char *owner);

#endif
