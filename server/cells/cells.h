/*
 * Cells: the processes in which the service computes, so that a fault stays where it is. Each has one question at a
 * time. A cell that dies fails, or repeats, that question alone; the service goes on, and another cell takes its place.
 * Thread-safe.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_CELLS_CELLS_H
#define SERVER_CELLS_CELLS_H

#include "server/cells/question.h"
#include "server/ops/config.h"
#include "server/work/pool.h"

struct cells;

/*
 * Starts the first cell; others follow when they are needed, and one is always ready. pool: whose tasks ask; a question
 * is answered by as many threads as its task has a part of the workers. Returns NULL with a message; also if cells
 * cannot be confined and config->isolate is strict.
 */
struct cells *cells_create(const struct config *config, struct pool *pool, char *message, size_t message_size);
/* No question may be asked any more. Returns false if a cell ended in another way than it should, such as with the
 * report of a sanitizer. NULL is allowed. */
bool cells_destroy(struct cells *cells);

/* Whether no cell is ready and none could be started several times in a row, so that computations wait, and fail in the
 * end; the message says why. cells NULL: there are none to start. */
bool cells_trouble(struct cells *cells, char *message, size_t message_size);

/* Who asks; or NULL. */
struct asker {
    const char *job; /* for the log, like `request`; or NULL */
    const char *request;
    uint64_t max_n; /* the limit under which the job is valid, if it is another one than config->max_n; or 0 */
};

/*
 * Asks a cell, and waits for the answer. context: its hooks are called on this thread, canceled() and expired() every
 * few milliseconds.
 *
 * If another process kills the cell, as the kernel does when memory runs out, another cell is asked, once. Any other
 * death fails the question: `crashed` is set, and the error says what happened. So does an answer that is not one. A
 * computation that does not stop within config->watchdog_seconds of being told to is ended with its cell.
 */
void cells_ask(struct cells *cells, const struct question *question, const struct eps_context *context,
               const struct asker *asker, struct answer *answer);

/* In a hook of cells_ask(), around what may take long: its cell rests meanwhile. Do nothing elsewhere. */
void cells_rest(void);
void cells_go_on(void);

/* Starts a cell with these limits and ends it, to find out whether it is confined, or the reason why not. Returns false
 * with a message if none can be started. */
bool cells_try(const struct config *config, bool *confined, char *message, size_t message_size);

#endif
