/*
 * The process that computes: `epsilond cell`, which serve starts. It answers questions on its descriptor CELL_FD, one
 * after the other, until the other side closes it. It knows no database and no file: what it lacks it asks for by
 * content id.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef SERVER_CELLS_CELL_H
#define SERVER_CELLS_CELL_H

#define CELL_FD 3
#define CELL_COMMAND "cell"

/*
 * Where clients have keys and tasks may be prompt (see pool_prompt()), cells for these are prompt and all others
 * patient; elsewhere all are usual. Patient ones have the scheduling policy SCHED_IDLE: threads of the service and
 * prompt cells interrupt them, and they have the processor time that these leave. Where the system refuses that, all
 * are equal.
 */
enum cell_kind { CELL_USUAL, CELL_PROMPT, CELL_PATIENT, CELL_KINDS };

/* Static text. */
const char *cell_kind_name(enum cell_kind kind);

/* argv: CELL_COMMAND, the limit of its address space in bytes, the most threads that it may use, and its kind. Returns
 * the exit status. */
int command_cell(int argc, char **argv);

#endif
