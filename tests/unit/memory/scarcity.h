/*
 * An allocator that fails on demand, for the calls of our own code. Programs that are linked with the --wrap options of
 * the Makefile (SCARCE) allocate here wherever lib/, api/ and server/ allocate. Libraries that report failures are
 * covered through our calls (jansson, which api/json/memory.c serves, and SQLite by its hook; GSL, LAPACKE and FFTW's
 * planner by the call that would have allocated). Allocations inside FFTW and OpenBLAS are left out: FFTW exits the
 * process, and OpenBLAS waits for ever or reads through NULL, and neither can be changed.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 */
#ifndef TESTS_UNIT_SCARCITY_H
#define TESTS_UNIT_SCARCITY_H

#include <stdbool.h>
#include <stddef.h>

/* From now on allocations are counted, and the nth of them fails (0: none), and all after it if `for_ever`. */
void scarcity_begin(size_t nth, bool for_ever);
/* Allocations succeed again. Returns how many were requested. */
size_t scarcity_end(void);
/* Whether one of them failed. */
bool scarcity_struck(void);

/* The number of frames that distinguish two stacks. */
#define SCARCITY_WHOLE 40
/* Requests from lines that have not failed before in this program, alone. */
#define SCARCITY_FRESH 0

/*
 * Runs body() twice with sufficient memory, and then with an allocation that fails: for each stack that requests one,
 * the first, the second and the last request (all, if the environment has SCARCITY_ALL); or, where stacks are
 * distinguished by their innermost `depth` frames alone, the first; once alone and once with all that follow it.
 * check() is called after each run, with allocations restored, and is told whether one failed. Blocks that a run leaves
 * behind, except the first run, fail the test. Returns the number of runs in which an allocation failed.
 */
size_t scarcity_each(void (*body)(void *user), void (*check)(void *user, bool struck), void *user, size_t depth);

/* The stack of the last allocation that failed (of the first, if more did), innermost first: lines for a message. */
void scarcity_explain(char *text, size_t size);

/* Memory for the test's own hooks, which never fails, and which our own code's free() releases. */
void *scarcity_give(size_t size);

/* Covers SQLite's memory, too: to be called once a program, before anything uses SQLite. */
void scarcity_hook_sqlite(void);

/* A line of ours that allocates and need not have failed, and the reason. */
struct scarcity_exception {
    const char *file, *text, *why;
};

/* The lines under `folder` that allocate and have never failed so far, except the listed exceptions; prints them.
 * Exceptions that match no line are printed and counted, too. *total: all allocating lines. */
size_t scarcity_unstruck(const char *folder, const struct scarcity_exception *exceptions, size_t len, size_t *total);

#endif
