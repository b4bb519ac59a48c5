/*
 * Shared by the files of server/cells/ on the side of the service.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_CELLS_INTERNAL_H
#define SERVER_CELLS_INTERNAL_H

#include <sys/types.h>

#include "server/cells/cell.h"
#include "server/cells/cells.h"
#include "server/cells/message.h"

/* A process, and the connection with it. */
struct cell {
    pid_t pid; /* 0: there is none, or it was reaped */
    enum cell_kind kind;
    int fd;
    struct intake intake;
    struct packet packet; /* for sending */
    unsigned confined;    /* bits of enum confinement */
    char why[160];        /* see struct hello */
    struct cell *next;    /* idle */
};

/* How a cell ended. */
enum cell_end {
    CELL_ORDERLY,   /* it was told to */
    CELL_CRASHED,   /* by a fault, or by itself */
    CELL_KILLED,    /* by a signal of another process, or of the kernel */
    CELL_FORBIDDEN, /* for a system call */
    CELL_OVERDUE,   /* we killed it, because it did not stop; */
    CELL_MALFORMED, /* or because of its messages */
    CELL_ENDS
};

struct cell_death {
    enum cell_end end;
    char words[64]; /* such as "signal 11 (Segmentation fault)" */
};

/* Starts a process, and waits for its hello. NULL with a message. */
struct cell *cell__start(const struct config *config, enum cell_kind kind, char *message, size_t message_size);
/* Ends it: end CELL_ORDERLY closes the connection and waits, CELL_OVERDUE and CELL_MALFORMED kill it, and any other one
 * finds out how it died. Frees it. */
struct cell_death cell__end(struct cell *cell, enum cell_end end);
/* Sends the frame that was written. Returns false if the cell has died, or does not read for so many seconds. */
bool cell__send(struct cell *cell, double seconds);
/* Sends a short frame, if there is room for it. */
void cell__tell(struct cell *cell);
/* Waits until something has arrived, at most so many milliseconds. Returns false if the connection has ended. */
bool cell__receive(struct cell *cell, int milliseconds);
/* Whether an idle cell is alive and silent, as it should be. */
bool cell__well(struct cell *cell);

/* A cell that has no question; prompt: a prompt one, if it may have one. NULL: the answer says why there is none. */
struct cell *cells__take(struct cells *cells, bool prompt, const struct eps_context *context, struct answer *answer);
/* Returns it, after so many CPU seconds. */
void cells__give(struct cells *cells, struct cell *cell, double seconds);
/* Like cell__end() for a cell that was not told to end; counts it. */
struct cell_death cells__died(struct cell *cell, enum cell_end end);
size_t cells__part(struct cells *cells); /* threads for one question */
const struct config *cells__config(const struct cells *cells);

#endif
