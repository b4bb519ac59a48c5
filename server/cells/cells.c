/*
 * The cells of the service. Those without a question are in a list, the last used one first. A thread of its own starts
 * them, so that one is always ready: a question that finds none waits for that thread, and no computation waits for a
 * process to start otherwise. The kernel ends a cell with the thread that started it, hence this one, which lives as
 * long as the service.
 *
 * There are as many cells of each kind as there have been questions for it at a time, and one more; of those that are
 * idle, `workers` + 2 are kept.
 *
 * Prompt cells are for short tasks of keys that have no other: see pool_prompt(). They would hold up the others for as
 * long as they work, so they have an allowance: two thirds of the time of the workers. Without keys there are none.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#include "server/cells/cells.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/cells/internal.h"
#include "server/ops/clock.h"
#include "server/ops/log.h"
#include "server/ops/metrics.h"

#define RETRY_SECONDS 0.5      /* after a cell could not be started; twice as long each time, */
#define RETRY_MOST 8.0         /* up to this */
#define FAILURES_MOST 6        /* in a row, before questions fail that wait for a cell */
#define FAILURES_TOLD 3        /* in a row, before the service is not ready, or does not start */
#define PROMPT_SHARE (2.0 / 3) /* of the workers' time: what prompt cells may use; */
#define PROMPT_SECONDS 1.0     /* what they have saved at most */
#define LOOK_SECONDS 0.02      /* between two looks of a question that waits for a cell */

/* Cells without a question, of one kind. */
struct shelf {
    struct cell *first;
    size_t len;
};

struct cells {
    const struct config *config;
    struct pool *pool;
    pthread_mutex_t mutex;
    pthread_cond_t wanted; /* for the thread: a cell is to be started */
    pthread_cond_t ready;
    pthread_t thread;
    struct shelf prompt;
    struct shelf others;
    bool ranked;      /* cells are prompt or patient: keys share the workers */
    bool prompted;    /* a question was prompt, so a prompt cell is ready for the next one */
    double allowance; /* CPU seconds that prompt cells may use, */
    double allowed;   /* at this time */
    size_t waiting;   /* questions */
    size_t failures;  /* in a row */
    char failure[256];
    bool faulty; /* a cell that was told to end did so in another way */
    bool stopping;
};

/* ---------------------------------------------------------------- the thread that starts them */

static struct shelf *shelf_of(struct cells *cells, const struct cell *cell)
{
    return cell->kind == CELL_PROMPT ? &cells->prompt : &cells->others;
}

static void push_locked(struct cells *cells, struct cell *cell)
{
    struct shelf *shelf = shelf_of(cells, cell);
    cell->next = shelf->first;
    shelf->first = cell;
    shelf->len++;
}

static struct cell *pop(struct shelf *shelf)
{
    struct cell *cell = shelf->first;
    if (cell) {
        shelf->first = cell->next;
        shelf->len--;
    }
    return cell;
}

/* Rests for so long, whoever wants a cell meanwhile: a question that waits would wake it many times a second. */
static void rest_locked(struct cells *cells, double seconds)
{
    struct timespec until = clock_timespec(clock_monotonic() + seconds);
    int code = 0;
    while (code != ETIMEDOUT && !cells->stopping)
        code = pthread_cond_timedwait(&cells->wanted, &cells->mutex, &until);
}

static void end_orderly(struct cells *cells, struct cell *cell)
{
    pid_t pid = cell->pid;
    struct cell_death death = cell__end(cell, CELL_ORDERLY);
    metric_add(METRIC_CELLS, -1);
    if (death.end == CELL_ORDERLY)
        return;
    log_event(LOG_LEVEL_ERROR, "cell-ended", "pid=%d detail=\"%s\"", (int)pid, death.words);
    pthread_mutex_lock(&cells->mutex);
    cells->faulty = cells->faulty || death.end == CELL_CRASHED;
    pthread_mutex_unlock(&cells->mutex);
}

static void start_locked(struct cells *cells, enum cell_kind kind)
{
    char message[256], quoted[300];
    pthread_mutex_unlock(&cells->mutex);
    struct cell *cell = cell__start(cells->config, kind, message, sizeof message);
    if (!cell)
        log_event(LOG_LEVEL_ERROR, "cell-not-started", "detail=%s", log_quote(quoted, sizeof quoted, message));
    pthread_mutex_lock(&cells->mutex);
    metric_add(cell ? METRIC_CELLS : METRIC_CELLS_FAILED, 1);
    if (cell) {
        cells->failures = 0;
        push_locked(cells, cell);
        pthread_cond_signal(&cells->ready);
    } else {
        cells->failures += cells->failures < FAILURES_MOST;
        memcpy(cells->failure, message, sizeof cells->failure);
        pthread_cond_broadcast(&cells->ready);
        rest_locked(cells, fmin(ldexp(RETRY_SECONDS, (int)cells->failures - 1), RETRY_MOST));
    }
}

static bool other_wanted(const struct cells *cells)
{
    return cells->others.len <= cells->waiting;
}

static bool prompt_wanted(const struct cells *cells)
{
    return cells->prompted && !cells->prompt.len;
}

static void *cells_main(void *argument)
{
    struct cells *cells = argument;
    pthread_mutex_lock(&cells->mutex);
    while (!cells->stopping) {
        if (other_wanted(cells))
            start_locked(cells, cells->ranked ? CELL_PATIENT : CELL_USUAL);
        else if (prompt_wanted(cells))
            start_locked(cells, CELL_PROMPT);
        else
            pthread_cond_wait(&cells->wanted, &cells->mutex);
    }
    struct cell *cell;
    while ((cell = pop(cells->prompt.len ? &cells->prompt : &cells->others)) != NULL) {
        pthread_mutex_unlock(&cells->mutex);
        end_orderly(cells, cell);
        pthread_mutex_lock(&cells->mutex);
    }
    pthread_mutex_unlock(&cells->mutex);
    return NULL;
}

/* ---------------------------------------------------------------- creating and destroying */

/* Waits for the first cell, and logs how it is confined. Returns false with a message. */
static bool first_ready(struct cells *cells, char *message, size_t message_size)
{
    char why[sizeof cells->others.first->why] = "", quoted[200];
    pthread_mutex_lock(&cells->mutex);
    while (!cells->others.len && cells->failures < FAILURES_TOLD)
        pthread_cond_wait(&cells->ready, &cells->mutex);
    bool ready = cells->others.len > 0;
    if (ready)
        memcpy(why, cells->others.first->why, sizeof why);
    else
        snprintf(message, message_size,
                 "cannot start a process that computes (%.200s); --isolate off computes in this one", cells->failure);
    pthread_mutex_unlock(&cells->mutex);
    if (*why && cells->config->isolate == ISOLATE_STRICT) {
        snprintf(message, message_size, "--isolate strict: processes that compute cannot be confined here: %s", why);
        return false;
    }
    if (*why)
        log_event(LOG_LEVEL_WARN, "cells",
                  "detail=\"processes that compute are not confined as they should be\" why=%s",
                  log_quote(quoted, sizeof quoted, why));
    return ready;
}

struct cells *cells_create(const struct config *config, struct pool *pool, char *message, size_t message_size)
{
    struct cells *cells = calloc(1, sizeof *cells);
    if (!cells) {
        snprintf(message, message_size, "out of memory");
        return NULL;
    }
    cells->config = config;
    cells->pool = pool;
    cells->ranked = config_keyed(config) && pool_has_prompt(pool);
    signal(SIGCHLD, SIG_DFL); /* ignored, as by some parents, there is no status to wait for */
    pthread_mutex_init(&cells->mutex, NULL);
    clock_condition(&cells->wanted);
    clock_condition(&cells->ready);
    if (pthread_create(&cells->thread, NULL, cells_main, cells) != 0) {
        snprintf(message, message_size, "out of threads");
        free(cells);
        return NULL;
    }
    if (first_ready(cells, message, message_size))
        return cells;
    cells_destroy(cells);
    return NULL;
}

bool cells_destroy(struct cells *cells)
{
    if (!cells)
        return true;
    pthread_mutex_lock(&cells->mutex);
    cells->stopping = true;
    pthread_cond_broadcast(&cells->wanted);
    pthread_mutex_unlock(&cells->mutex);
    pthread_join(cells->thread, NULL);
    bool well = !cells->faulty;
    pthread_mutex_destroy(&cells->mutex);
    pthread_cond_destroy(&cells->wanted);
    pthread_cond_destroy(&cells->ready);
    free(cells);
    return well;
}

bool cells_trouble(struct cells *cells, char *message, size_t message_size)
{
    if (!cells)
        return false;
    pthread_mutex_lock(&cells->mutex);
    bool trouble = !cells->others.len && !cells->prompt.len && cells->failures >= FAILURES_TOLD;
    if (trouble)
        snprintf(message, message_size, "%s", cells->failure);
    pthread_mutex_unlock(&cells->mutex);
    return trouble;
}

bool cells_try(const struct config *config, bool *confined, char *message, size_t message_size)
{
    struct cell *cell = cell__start(config, CELL_USUAL, message, message_size);
    if (!cell)
        return false;
    *confined = cell->confined == (CONFINED_CALLS | CONFINED_MEMORY);
    snprintf(message, message_size, "%s", cell->why);
    return cell__end(cell, CELL_ORDERLY).end == CELL_ORDERLY;
}

/* ---------------------------------------------------------------- for questions */

const struct config *cells__config(const struct cells *cells)
{
    return cells->config;
}

size_t cells__part(struct cells *cells)
{
    return pool_part(cells->pool);
}

/* Whether the question is no longer wanted, or late: sets the status. */
static bool ended(const struct eps_context *context, struct answer *answer)
{
    if (context->canceled && context->canceled(context->user))
        answer_fail(answer, EPS_CANCELED, "canceled");
    else if (context->expired && context->expired(context->user))
        answer_fail(answer, EPS_TIMEOUT, "the computation exceeded its time limit before it began");
    return answer->error.status != EPS_OK;
}

/* Whether prompt cells have not used up what they may. */
static bool allowed_locked(struct cells *cells)
{
    double now = clock_monotonic();
    double more = (now - cells->allowed) * PROMPT_SHARE * (double)cells->config->workers;
    cells->allowance = fmin(cells->allowance + more, PROMPT_SECONDS);
    cells->allowed = now;
    return cells->allowance > 0;
}

static struct cell *pop_locked(struct cells *cells, bool prompt)
{
    struct cell *cell = prompt && allowed_locked(cells) ? pop(&cells->prompt) : NULL;
    cell = cell ? cell : pop(&cells->others);
    return !cell && cells->failures ? pop(&cells->prompt) : cell; /* better than none */
}

/* An idle cell; NULL if there is none after some time. */
static struct cell *await_idle(struct cells *cells, bool prompt, struct answer *answer)
{
    pthread_mutex_lock(&cells->mutex);
    prompt = prompt && cells->ranked;
    cells->prompted = cells->prompted || prompt;
    struct cell *cell = pop_locked(cells, prompt);
    if (other_wanted(cells) || prompt_wanted(cells))
        pthread_cond_signal(&cells->wanted);
    if (!cell) {
        struct timespec until = clock_timespec(clock_monotonic() + LOOK_SECONDS);
        cells->waiting++;
        pthread_cond_timedwait(&cells->ready, &cells->mutex, &until);
        cells->waiting--;
        cell = pop_locked(cells, prompt);
    }
    if (!cell && cells->failures >= FAILURES_MOST) {
        answer_fail(answer, EPS_NO_MEMORY,
                    "no process could be started for the computation (%.200s): the machine has too little memory or "
                    "too few processes left for the service",
                    cells->failure);
    }
    pthread_mutex_unlock(&cells->mutex);
    return cell;
}

struct cell_death cells__died(struct cell *cell, enum cell_end end)
{
    struct cell_death death = cell__end(cell, end);
    if (death.end == CELL_ORDERLY) /* nobody had told it to end */
        death.end = CELL_CRASHED;
    metric_add(METRIC_CELLS, -1);
    metric_add(METRIC_CELL_DEATHS + (death.end - CELL_CRASHED), 1);
    return death;
}

struct cell *cells__take(struct cells *cells, bool prompt, const struct eps_context *context, struct answer *answer)
{
    struct cell *cell = NULL;
    while (!cell && answer->error.status == EPS_OK && !ended(context, answer)) {
        cell = await_idle(cells, prompt, answer);
        if (cell && !cell__well(cell)) { /* it was killed while it was idle */
            (void)cells__died(cell, CELL_KILLED);
            cell = NULL;
        }
    }
    return cell;
}

void cells__give(struct cells *cells, struct cell *cell, double seconds)
{
    pthread_mutex_lock(&cells->mutex);
    bool kept = shelf_of(cells, cell)->len < cells->config->workers + 2;
    if (cell->kind == CELL_PROMPT)
        cells->allowance -= seconds;
    if (kept) {
        push_locked(cells, cell);
        pthread_cond_signal(&cells->ready);
    }
    pthread_mutex_unlock(&cells->mutex);
    if (!kept)
        end_orderly(cells, cell);
}
