/*
 * See roll.h.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/broker/roll.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct roll_worker *find(const struct roll *roll, const char *name)
{
    for (size_t i = 0; i < roll->len; i++)
        if (strcmp(roll->workers[i].status.name, name) == 0)
            return &roll->workers[i];
    return NULL;
}

static struct roll_worker *add(struct roll *roll)
{
    struct roll_worker *workers =
        roll->len < ROLL_MOST ? realloc(roll->workers, (roll->len + 1) * sizeof *workers) : NULL;
    if (!workers)
        return NULL;
    roll->workers = workers;
    return &workers[roll->len++];
}

static void judge(struct roll_worker *worker, const struct roll_demand *demand)
{
    worker->why[0] = '\0';
    if (!build_equal(&worker->status.build, &demand->build)) {
        build_difference(worker->why, sizeof worker->why, &worker->status.build, &demand->build);
    } else if (worker->status.max_bytes < demand->max_bytes) {
        snprintf(worker->why, sizeof worker->why,
                 "the worker computes jobs of up to %.1f MiB (--max-bytes), and the server accepts jobs of up to %.1f "
                 "MiB: give the worker as much",
                 (double)worker->status.max_bytes / 0x1p20, (double)demand->max_bytes / 0x1p20);
    }
}

const struct roll_worker *roll_note(struct roll *roll, const struct letter_status *status,
                                    const struct roll_demand *demand, double now, bool *fresh)
{
    struct roll_worker *worker = find(roll, status->name);
    *fresh = !worker || now > worker->heard + ROLL_SILENT_SECONDS;
    worker = worker ? worker : add(roll);
    if (!worker)
        return NULL;
    *worker = (struct roll_worker){.status = *status, .heard = now};
    worker->status.held = (struct unpack){0};
    judge(worker, demand);
    return worker;
}

enum worker_state roll_state(const struct roll_worker *worker, double now)
{
    return now > worker->heard + ROLL_SILENT_SECONDS ? WORKER_LOST
           : worker->why[0]                          ? WORKER_REFUSED
           : worker->status.leaving                  ? WORKER_LEAVING
                                                     : WORKER_READY;
}

const char *roll_state_name(enum worker_state state)
{
    static const char *const names[] = {
        [WORKER_READY] = "ready", [WORKER_REFUSED] = "refused", [WORKER_LEAVING] = "leaving", [WORKER_LOST] = "lost"};
    return names[state];
}

size_t roll_ready(const struct roll *roll, double now)
{
    size_t ready = 0;
    for (size_t i = 0; i < roll->len; i++)
        ready += roll_state(&roll->workers[i], now) == WORKER_READY;
    return ready;
}

size_t roll_threads(const struct roll *roll, double now)
{
    size_t threads = 0;
    for (size_t i = 0; i < roll->len; i++) {
        uint64_t those = roll->workers[i].status.threads; /* anything may be said */
        if (roll_state(&roll->workers[i], now) == WORKER_READY)
            threads += those < ROLL_THREADS_MOST ? (size_t)those : ROLL_THREADS_MOST;
    }
    return threads;
}

void roll_forget(struct roll *roll, double now)
{
    size_t kept = 0;
    for (size_t i = 0; i < roll->len; i++)
        if (now <= roll->workers[i].heard + ROLL_GONE_SECONDS)
            roll->workers[kept++] = roll->workers[i];
    roll->len = kept;
}

void roll_clear(struct roll *roll)
{
    free(roll->workers);
    *roll = (struct roll){0};
}
